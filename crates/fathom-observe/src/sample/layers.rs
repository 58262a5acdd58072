//! Which block device stands on which, as far as watching needs it: names and words, no checks.
//!
//! Read again only when the kernel has told of a change: a look at the counters must stay cheap.

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
    /// What it stands on, by kernel name.
    pub below: Vec<String>,
    /// True for a software array.
    pub is_array: bool,
    /// Interrupt lines of its adapter.
    pub interrupts: Vec<(u32, String)>,
    /// Kernel threads that serve it, when it is an array.
    pub threads: Vec<u32>,
}

/// The trees below these devices, each device once and above what it stands on.
#[must_use]
pub fn below(root: &SysRoot, tops: &[String]) -> Vec<Layer> {
    let machine = Machine { root, threads: array_threads(root), mounts: OnceCell::new() };
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for top in tops {
        // What is a top by itself stands at the top, also when a file on it is a loop device.
        known.extend(tops.iter().filter(|other| *other != top).cloned());
        known.remove(top);
        let is_new = !found.iter().any(|layer: &Layer| layer.name == *top);
        if is_new {
            machine.enter(top, 0, &mut known, &mut found);
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
}

impl Machine<'_> {
    fn enter(
        &self,
        name: &str,
        depth: usize,
        known: &mut BTreeSet<String>,
        found: &mut Vec<Layer>,
    ) {
        // Layers go round nowhere, but a recorded tree may say anything.
        const DEPTH_MAX: usize = 32;
        if depth > DEPTH_MAX || !known.insert(name.to_owned()) {
            return;
        }
        let Some(device) = BlockDir::by_name(self.root, name) else { return };
        let device = device.held();
        let file = device.text("loop/backing_file");
        let below = self.stands_on(&device, file.as_deref());
        let level = device.text("md/level");
        found.push(Layer {
            name: name.to_owned(),
            title: title(&device, file.as_deref(), level.as_deref(), below.len()),
            depth,
            disk_number: device.disk().and_then(|disk| disk.value("diskseq")),
            below: below.clone(),
            is_array: level.is_some(),
            interrupts: pressure::interrupt_lines(self.root, &device),
            threads: self.threads.get(name).cloned().unwrap_or_default(),
        });
        for lower in &below {
            self.enter(lower, depth + 1, known, found);
        }
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
        return format!("{level} of {members}");
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

/// The kernel threads of software arrays, such as `md0_raid5` and `md0_resync`, by array.
fn array_threads(root: &SysRoot) -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let has_arrays = root.names("sys/block").iter().any(|name| name.starts_with("md"));
    // It means looking at every process.
    if !has_arrays {
        return found;
    }
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let comm = root.text(format!("proc/{pid}/comm")).unwrap_or_default();
        if let Some((array, _)) = comm.split_once('_').filter(|(array, _)| array.starts_with("md"))
        {
            found.entry(array.to_owned()).or_default().push(pid);
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
        let layers = below(&root, &tops(&root));
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
        assert_eq!(layers[1].threads, [77]);
        assert_eq!(layers[2].disk_number, Some(9));
        assert_eq!(below(&root, &["gone".to_owned()]), []);
        // Both are asked for, and one stands on the other: what both count is counted once.
        let both = below(&root, &["sda".to_owned(), "md0".to_owned(), "sdb".to_owned()]);
        assert_eq!(both.iter().filter(|layer| layer.depth == 0).count(), 3);
        assert_eq!(uppermost(&both), BTreeSet::from(["md0"]));
    }

    #[test]
    fn this_machine_has_layers() {
        let root = SysRoot::live();
        let layers = below(&root, &tops(&root));
        let names: BTreeSet<&str> = layers.iter().map(|layer| layer.name.as_str()).collect();
        assert_eq!(names.len(), layers.len());
        let disks = BlockDir::disks(&root);
        // Others may make and remove some at the same time.
        let stays =
            |disk: &&BlockDir| disk.size_bytes() > Some(0) && !disk.name().starts_with("loop");
        assert!(disks.iter().filter(stays).all(|disk| names.contains(disk.name())));
    }
}
