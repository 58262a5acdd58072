//! Which block device stands on which, as far as watching needs it: names and words, no checks.
//!
//! Read again only when the kernel has told of a change: a look at the counters must stay cheap.

use fathom_sys::family;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::pressure;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One device of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// Kernel name.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// How deep it stands: 0 at the top.
    pub depth: usize,
    /// Number of the disk among all that this boot has seen; none on kernels before 5.15.
    pub disk_number: Option<u64>,
    /// True while it has no medium: a loop device without a file.
    pub is_empty: bool,
    /// What it stands on, by kernel name.
    pub below: Vec<String>,
    /// Those of them that do the same work, and should take equally long for it.
    pub companions: Vec<String>,
    /// True for a software array.
    pub is_array: bool,
    /// Interrupt lines of its adapter.
    pub interrupts: Vec<(u32, String)>,
    /// Kernel threads that serve it, when it is an array.
    pub threads: Vec<u32>,
}

/// The trees below these devices, each device once and above what it stands on. What was `known` of them before spares reading the
/// names of their interrupts again.
#[must_use]
pub fn below(root: &SysRoot, tops: &[String], known: &[Layer]) -> Vec<Layer> {
    let machine = Machine { root, threads: array_threads(root), mounts: OnceCell::new(), known };
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for top in tops {
        // What is a top by itself stands at the top, also when a file on it is a loop device.
        seen.extend(tops.iter().filter(|other| *other != top).cloned());
        seen.remove(top);
        let is_new = !found.iter().any(|layer: &Layer| layer.name == *top);
        if is_new {
            machine.enter(top, 0, &mut seen, &mut found);
        }
    }
    found
}

/// Devices of some size that nothing is made of: with partitions that nothing is made of either.
#[must_use]
pub fn tops(root: &SysRoot) -> Vec<String> {
    let is_top = |disk: &BlockDir| {
        // A loop device without a file, a drive without a medium.
        disk.size_bytes() != Some(0)
            && disk.names("holders").is_empty()
            && disk.partitions().iter().all(|part| part.names("holders").is_empty())
    };
    let disks = BlockDir::disks(root);
    disks.iter().filter(|disk| is_top(disk)).map(|disk| disk.name().to_owned()).collect()
}

/// Looks for the kernel threads of arrays again.
pub fn refresh_threads(root: &SysRoot, layers: &mut [Layer]) {
    let mut threads = array_threads(root);
    for layer in layers.iter_mut().filter(|layer| layer.is_array) {
        layer.threads = threads.remove(&layer.name).unwrap_or_default();
    }
}

/// True when an array has other members than before: the kernel tells nobody of those that are added or taken away.
#[must_use]
pub fn has_other_members(root: &SysRoot, layers: &[Layer]) -> bool {
    let mut arrays = layers.iter().filter(|layer| layer.is_array);
    arrays.any(|layer| {
        let device = BlockDir::by_name(root, &layer.name);
        device.is_some_and(|device| device.names("slaves") != layer.below)
    })
}

/// Disks and arrays of some size whose requests the kernel was told not to count. The device mapper and memory count all the same.
#[must_use]
pub fn uncounted(root: &SysRoot) -> Vec<String> {
    let is_off = |disk: &BlockDir| {
        let heeds = !["dm-", "zram", "ram"].iter().any(|prefix| disk.name().starts_with(prefix));
        heeds && disk.flag("queue/iostats") == Some(false) && disk.size_bytes() != Some(0)
    };
    let disks = BlockDir::disks(root);
    disks.iter().filter(|disk| is_off(disk)).map(|disk| disk.name().to_owned()).collect()
}

/// Those that no other of them stands on.
#[must_use]
pub fn uppermost(layers: &[Layer]) -> BTreeSet<&str> {
    let below: BTreeSet<&String> = layers.iter().flat_map(|layer| &layer.below).collect();
    let is_top = |layer: &&Layer| !below.contains(&layer.name);
    layers.iter().filter(is_top).map(|layer| layer.name.as_str()).collect()
}

/// What is read once for all devices.
struct Machine<'a> {
    root: &'a SysRoot,
    /// Kernel threads by array.
    threads: BTreeMap<String, Vec<u32>>,
    /// Of this process; only loop devices want to know.
    mounts: OnceCell<Vec<Mount>>,
    /// As they were before.
    known: &'a [Layer],
}

impl Machine<'_> {
    fn enter(&self, name: &str, depth: usize, seen: &mut BTreeSet<String>, found: &mut Vec<Layer>) {
        // Layers go round nowhere, but a recorded tree may say anything.
        const DEPTH_MAX: usize = 32;
        if depth > DEPTH_MAX || !seen.insert(name.to_owned()) {
            return;
        }
        let Some(device) = BlockDir::by_name(self.root, name) else { return };
        let device = device.held();
        let file = device.text("loop/backing_file");
        let below = self.stands_on(&device, file.as_deref());
        let level = device.text("md/level");
        let before = self.known.iter().find(|layer| layer.name == name);
        let interrupts = before.map(|layer| layer.interrupts.as_slice()).unwrap_or_default();
        found.push(Layer {
            name: name.to_owned(),
            title: title(&device, file.as_deref(), level.as_deref(), below.len()),
            depth,
            disk_number: device.disk().and_then(|disk| disk.value("diskseq")),
            is_empty: device.size_bytes() == Some(0),
            companions: self.companions(&device, level.is_some(), &below),
            below: below.clone(),
            is_array: level.is_some(),
            interrupts: pressure::interrupt_lines(self.root, &device, interrupts),
            threads: self.threads.get(name).cloned().unwrap_or_default(),
        });
        for lower in &below {
            self.enter(lower, depth + 1, seen, found);
        }
    }

    /// Which of the devices that one stands on do the same work: members of an array that hold its data and are read, images of a
    /// RAID of LVM, paths to one drive, disks of one kind below a volume. A cache and what it caches, data and metadata do not.
    fn companions(&self, device: &BlockDir, is_array: bool, below: &[String]) -> Vec<String> {
        let lower = |name: &String| BlockDir::by_name(self.root, name);
        let is_beside = |name: &&String| {
            let state = device.text(format!("md/dev-{name}/state")).unwrap_or_default();
            !state.split(',').any(|word| matches!(word.trim(), "write_mostly" | "journal"))
        };
        if is_array {
            return below.iter().filter(is_beside).cloned().collect();
        }
        if below.len() < 2 || !device.has("dm") {
            return Vec::new();
        }
        let starts = |device: &BlockDir, what: &str, with: &str| {
            device.text(what).is_some_and(|text| text.starts_with(with))
        };
        if starts(device, "dm/uuid", "mpath-") {
            return below.to_vec();
        }
        let is_image = |name: &&String| {
            let volume = lower(name).and_then(|lower| lower.text("dm/name"));
            volume.is_some_and(|name| name.contains("image_"))
        };
        let images: Vec<String> = below.iter().filter(is_image).cloned().collect();
        if !images.is_empty() {
            return images;
        }
        // What LVM makes for its own use is a part of something.
        let is_part = |name: &String| lower(name).is_some_and(|d| starts(&d, "dm/uuid", "LVM-"));
        let kind = |name: &String| lower(name)?.disk()?.flag("queue/rotational");
        let is_alike = |name: &String| !is_part(name) && kind(name) == kind(&below[0]);
        if below.iter().all(is_alike) { below.to_vec() } else { Vec::new() }
    }

    /// What a device stands on: the disk of a partition, the members of an array or volume, what the file of a loop device lies on.
    fn stands_on(&self, device: &BlockDir, file: Option<&str>) -> Vec<String> {
        if device.is_partition() {
            return device.disk().map(|disk| disk.name().to_owned()).into_iter().collect();
        }
        if let Some(file) = file {
            let mounts = self.mounts.get_or_init(|| mounts::own_mounts(self.root));
            let mount = mounts::mount_of(mounts, Path::new(file));
            let holder = mount.and_then(|mount| BlockDir::by_devno(self.root, mount.devno));
            return holder.map(|holder| holder.name().to_owned()).into_iter().collect();
        }
        device.names("slaves")
    }
}

/// What a device is, in few words.
fn title(device: &BlockDir, file: Option<&str>, level: Option<&str>, members: usize) -> String {
    if let Some(level) = level {
        // As many as it is made for, missing ones too; while it is reshaped, `4 (3)`.
        let made_for = device.text("md/raid_disks");
        let made_for = made_for.and_then(|text| text.split(' ').next()?.parse().ok());
        return format!("{level} of {}", made_for.filter(|of| *of > 0).unwrap_or(members));
    }
    if let Some(file) = file {
        let path = Path::new(file.trim_end_matches(" (deleted)"));
        return path
            .file_name()
            .map_or(file.to_owned(), |name| name.to_string_lossy().into_owned());
    }
    if let Some(name) = device.text("dm/name") {
        return name;
    }
    let model = device.text("device/model").unwrap_or_default();
    model.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The kernel threads of software arrays, such as `md0_raid5` and `md0_resync`, by array. Arrays may have names (`md_home`).
fn array_threads(root: &SysRoot) -> BTreeMap<String, Vec<u32>> {
    /// The process that has started all kernel threads.
    const KERNEL: u32 = 2;
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let names = root.names("sys/block");
    let arrays: Vec<&String> = names.iter().filter(|name| name.starts_with("md")).collect();
    if arrays.is_empty() {
        return found;
    }
    let mut threads = family::children(root, KERNEL);
    if threads.is_empty() {
        // The kernel does not tell who is whose child.
        threads = root.names("proc").iter().filter_map(|name| name.parse().ok()).collect();
    }
    for pid in threads {
        let comm = root.text(format!("proc/{pid}/comm")).unwrap_or_default();
        let serves = |array: &&&String| {
            comm.strip_prefix(array.as_str()).is_some_and(|rest| rest.starts_with('_'))
        };
        // `md_a` may stand beside `md_a_b`.
        if let Some(array) = arrays.iter().filter(serves).max_by_key(|array| array.len()) {
            found.entry((*array).clone()).or_default().push(pid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn an_array_of_partitions_with_a_volume_on_it() {
        let tree = Tree::new();
        for (disk, minor) in [("sda", 0), ("sdb", 16)] {
            let dir = format!("pci0000:00/block/{disk}");
            tree.device(
                &dir,
                &format!("8:{minor}"),
                &[("device/model", "WD  RED\n"), ("diskseq", "9")],
            );
            let part = format!("{dir}/{disk}1");
            tree.device(
                &part,
                &format!("8:{}", minor + 1),
                &[("partition", "1"), ("holders/md0/x", "")],
            );
        }
        tree.device(
            "virtual/block/md0",
            "9:0",
            &[
                ("md/level", "raid1"),
                ("slaves/sda1/x", ""),
                ("slaves/sdb1/x", ""),
                ("holders/dm-0/x", ""),
            ],
        );
        tree.device(
            "virtual/block/dm-0",
            "252:0",
            &[("dm/name", "vg0-data"), ("slaves/md0/x", "")],
        );
        tree.put("proc/77/comm", "md0_raid1\n").put("proc/78/comm", "md10_raid5\n");
        let root = tree.root();
        assert_eq!(tops(&root), ["dm-0"]);
        let layers = below(&root, &tops(&root), &[]);
        let told: Vec<_> =
            layers.iter().map(|l| (l.depth, l.name.as_str(), l.title.as_str())).collect();
        let expected = [
            (0, "dm-0", "vg0-data"),
            (1, "md0", "raid1 of 2"),
            (2, "sda1", ""),
            (3, "sda", "WD RED"),
            (2, "sdb1", ""),
            (3, "sdb", "WD RED"),
        ];
        assert_eq!(told, expected);
        for (made_for, title) in
            [("3\n", "raid1 of 3"), ("4 (3)\n", "raid1 of 4"), ("\n", "raid1 of 2")]
        {
            tree.put("sys/devices/virtual/block/md0/md/raid_disks", made_for);
            assert_eq!(below(&root, &tops(&root), &[])[1].title, title);
        }
        assert_eq!(layers[1].threads, [77]);
        assert_eq!(layers[2].disk_number, Some(9));
        assert_eq!(below(&root, &["gone".to_owned()], &[]), []);
        // Both are asked for, and one stands on the other: what both count is counted once.
        let both = below(&root, &["sda".to_owned(), "md0".to_owned(), "sdb".to_owned()], &[]);
        assert_eq!(both.iter().filter(|layer| layer.depth == 0).count(), 3);
        assert_eq!(uppermost(&both), BTreeSet::from(["md0"]));
    }

    /// A device that stands on others, each with whether it rotates and, of a volume, its name: who is compared with whom.
    fn companions(top: &[(&str, &str)], lower: &[(&str, &str, &str)]) -> Vec<String> {
        let tree = Tree::new();
        tree.device("v/block/top", "9:9", top);
        for (at, (name, rotational, volume)) in lower.iter().enumerate() {
            let dir = format!("x/block/{name}");
            tree.device(&dir, &format!("8:{at}"), &[("queue/rotational", rotational)]);
            if !volume.is_empty() {
                tree.put(format!("sys/devices/{dir}/dm/name"), volume);
                tree.put(format!("sys/devices/{dir}/dm/uuid"), "LVM-y");
            }
            tree.put(format!("sys/devices/v/block/top/slaves/{name}/x"), "");
        }
        below(&tree.root(), &["top".to_owned()], &[]).remove(0).companions
    }

    #[test]
    fn only_what_does_the_same_work_is_compared() {
        let disks = [("sda", "1", ""), ("sdb", "1", "")];
        let mixed = [("nvme0n1", "0", ""), ("sda", "1", "")];
        let (array, volume) = (("md/level", "raid1"), ("dm/uuid", "LVM-x"));
        assert_eq!(companions(&[array], &disks), ["sda", "sdb"]);
        assert_eq!(companions(&[array], &mixed), ["nvme0n1", "sda"]);
        let read_last = ("md/dev-sda/state", "in_sync,write_mostly\n");
        assert_eq!(companions(&[array, read_last], &mixed), ["nvme0n1"]);
        let journal = ("md/dev-nvme0n1/state", "journal\n");
        assert_eq!(companions(&[array, journal], &mixed), ["sda"]);
        // Stripes on disks of one kind; a cache made by hand; paths to a drive; what is neither an array nor a volume.
        assert_eq!(companions(&[volume], &disks), ["sda", "sdb"]);
        assert_eq!(companions(&[volume], &mixed), [] as [&str; 0]);
        assert_eq!(companions(&[("dm/uuid", "mpath-36")], &mixed), ["nvme0n1", "sda"]);
        assert_eq!(companions(&[], &disks), [] as [&str; 0]);
        let thin = [("dm-1", "1", "vg-pool_tdata"), ("dm-2", "1", "vg-pool_tmeta")];
        assert_eq!(companions(&[volume], &thin), [] as [&str; 0]);
        let raid = [
            ("dm-1", "1", "vg-a_rmeta_0"),
            ("dm-2", "1", "vg-a_rimage_0"),
            ("dm-3", "1", "vg-a_rmeta_1"),
            ("dm-4", "1", "vg-a_rimage_1"),
        ];
        assert_eq!(companions(&[volume], &raid), ["dm-2", "dm-4"]);
    }

    #[test]
    fn threads_are_those_of_the_kernel_and_of_the_array_with_the_longest_name() {
        let tree = Tree::new();
        for (at, name) in ["md0", "md_home", "md_home_2"].iter().enumerate() {
            tree.device(&format!("v/block/{name}"), &format!("9:{at}"), &[("md/level", "raid1")]);
        }
        for (pid, comm) in
            [(7, "md_home_raid1"), (8, "md_home_2_raid1"), (9, "md0_resync"), (10, "md0_raid1")]
        {
            tree.put(format!("proc/{pid}/comm"), format!("{comm}\n"));
        }
        // Somebody's program may have any name.
        tree.put("proc/2/task/2/children", "7 8 9 ");
        let root = tree.root();
        let mut layers = below(&root, &tops(&root), &[]);
        let threads = |layers: &[Layer]| -> Vec<(String, Vec<u32>)> {
            layers.iter().map(|layer| (layer.name.clone(), layer.threads.clone())).collect()
        };
        let of = |name: &str, pid: u32| (name.to_owned(), vec![pid]);
        assert_eq!(threads(&layers), [of("md0", 9), of("md_home", 7), of("md_home_2", 8)]);
        tree.put("proc/2/task/2/children", "7 8 10 ");
        refresh_threads(&root, &mut layers);
        assert_eq!(threads(&layers), [of("md0", 10), of("md_home", 7), of("md_home_2", 8)]);
    }

    #[test]
    fn the_names_of_interrupts_are_read_once() {
        let tree = Tree::new();
        let pci = "sys/devices/pci0000:00/0000:00:04.0";
        tree.put(format!("{pci}/msi_irqs/24"), "msix").put(format!("{pci}/msi_irqs/25"), "msix");
        tree.put("sys/kernel/irq/24/actions", "nvme0q0\n");
        tree.put("sys/kernel/irq/25/actions", "nvme0q1\n");
        tree.link(format!("{pci}/subsystem"), "../../../bus/pci");
        let dir = "pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1";
        tree.device(dir, "259:0", &[("diskseq", "1")]);
        tree.link(format!("sys/devices/{dir}/device"), "../../nvme0");
        let (root, names) = (tree.root(), ["nvme0n1".to_owned()]);
        let first = below(&root, &names, &[]);
        let line = |irq: u32, name: &str| (irq, name.to_owned());
        assert_eq!(first[0].interrupts, [line(24, "nvme0q0"), line(25, "nvme0q1")]);
        // What is known stays; a line that is new is looked at, one that is gone goes.
        tree.put("sys/kernel/irq/24/actions", "not read\n");
        tree.put("sys/kernel/irq/26/actions", "nvme0q2\n");
        tree.put(format!("{pci}/msi_irqs/26"), "msix");
        std::fs::remove_file(root.path(Path::new(pci).join("msi_irqs/25"))).expect("there");
        let again = below(&root, &names, &first);
        assert_eq!(again[0].interrupts, [line(24, "nvme0q0"), line(26, "nvme0q2")]);
    }

    #[test]
    fn counters_that_are_off_are_seen() {
        let tree = Tree::new();
        for (name, devno, iostats) in
            [("sda", "8:0", "0"), ("sdb", "8:16", "1"), ("dm-0", "252:0", "0")]
        {
            tree.device(
                &format!("x/block/{name}"),
                devno,
                &[("queue/iostats", iostats), ("size", "8")],
            );
        }
        assert_eq!(uncounted(&tree.root()), ["sda"]);
    }

    #[test]
    fn this_machine_has_layers() {
        let root = SysRoot::live();
        let layers = below(&root, &tops(&root), &[]);
        let names: BTreeSet<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names.len(), layers.len());
        let disks = BlockDir::disks(&root);
        // Others may make and remove some at the same time.
        let stays =
            |disk: &&BlockDir| disk.size_bytes() > Some(0) && !disk.name().starts_with("loop");
        assert!(disks.iter().filter(stays).all(|disk| names.contains(disk.name())));
    }
}
