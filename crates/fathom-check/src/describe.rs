//! A stack in one line, for headers.

use fathom_base::units::format_size;
use fathom_model::stack::{DmFacts, DriveFacts, MdFacts, MountFacts, Node, NodeKind, Stack};
use std::collections::BTreeMap;

/// The stack in one line, from the target down:
/// `/srv/data  ext4 (noatime) on LV vg0/data (linear) on md10 (raid10 far=2) on 6 x WD10EACS 1 TB`.
#[must_use]
pub fn one_line(stack: &Stack) -> String {
    let Some(top) = stack.top_node() else { return stack.resolved_path.clone() };
    let chain = if top.kind == NodeKind::Mount {
        group(stack, &stack.below(top).collect::<Vec<_>>(), top.mount.as_ref())
    } else {
        group(stack, &[top], None)
    };
    let given = if stack.path.starts_with('/') { &stack.path } else { &stack.resolved_path };
    format!("{given}  {chain}")
}

/// Some layers side by side and everything below them.
fn group(stack: &Stack, nodes: &[&Node], mount: Option<&MountFacts>) -> String {
    let nodes: Vec<&Node> = nodes.iter().map(|node| through_mount(stack, node)).collect();
    if !nodes.is_empty() && nodes.iter().all(|node| node.kind == NodeKind::Disk) {
        return drives(&nodes);
    }
    let own = match nodes.as_slice() {
        [] => return "unknown".to_owned(),
        [only] => name_of(stack, only, mount.or_else(|| mount_above(stack, only))),
        several => several_names(stack, several),
    };
    let below = nodes.iter().flat_map(|node| &node.below).fold(Vec::new(), |mut list, index| {
        if !list.contains(index) {
            list.push(*index);
        }
        list
    });
    let below: Vec<&Node> = below.into_iter().filter_map(|i| stack.nodes.get(i)).collect();
    if below.is_empty() { own } else { format!("{own} on {}", group(stack, &below, None)) }
}

/// A mount inside the stack says less than the filesystem that it shows.
fn through_mount<'a>(stack: &'a Stack, node: &'a Node) -> &'a Node {
    if node.kind == NodeKind::Mount { stack.below(node).next().unwrap_or(node) } else { node }
}

fn mount_above<'a>(stack: &'a Stack, fs: &Node) -> Option<&'a MountFacts> {
    let shows = |mount: &&Node| stack.below(mount).any(|below| std::ptr::eq(below, fs));
    let mount = stack.nodes.iter().filter(|n| n.kind == NodeKind::Mount).find(shows)?;
    mount.mount.as_ref()
}

fn several_names(stack: &Stack, nodes: &[&Node]) -> String {
    let word = match nodes[0].kind {
        NodeKind::Partition => "partitions",
        NodeKind::Loop => "loop devices",
        NodeKind::Md => "md arrays",
        NodeKind::Dm => "dm devices",
        NodeKind::Zram | NodeKind::Ram => "memory devices",
        _ => "",
    };
    if !word.is_empty() && nodes.iter().all(|node| node.kind == nodes[0].kind) {
        return format!("{} {word}", nodes.len());
    }
    nodes.iter().map(|node| name_of(stack, node, None)).collect::<Vec<_>>().join(" + ")
}

/// Disks side by side, alike ones counted; paths to one drive are one drive.
fn drives(disks: &[&Node]) -> String {
    let mut by_identity: BTreeMap<String, Vec<&Node>> = BTreeMap::new();
    for disk in disks {
        let drive = disk.drive.as_ref();
        let identity = drive.and_then(|d| d.wwn.as_ref().or(d.serial.as_ref()));
        by_identity.entry(identity.unwrap_or(&disk.name).clone()).or_default().push(disk);
    }
    if let [paths] = by_identity.values().collect::<Vec<_>>().as_slice() {
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
        return format!("{} ({})", model_and_size(paths[0]), names.join(", "));
    }
    let mut by_model: BTreeMap<String, usize> = BTreeMap::new();
    for paths in by_identity.into_values() {
        *by_model.entry(model_and_size(paths[0])).or_default() += 1;
    }
    let words = by_model.into_iter().map(|(model, count)| match count {
        1 => model,
        alike => format!("{alike} x {model}"),
    });
    words.collect::<Vec<_>>().join(" + ")
}

/// The model of a drive; the transport stands in for a missing one.
pub(crate) fn model(disk: &Node) -> String {
    let drive = disk.drive.as_ref();
    drive.and_then(vendor_and_model).unwrap_or_else(|| {
        let transport = drive.and_then(|d| d.transport.as_deref());
        transport.map_or_else(|| "disk".to_owned(), |transport| format!("{transport} disk"))
    })
}

/// `WD10EACS 1 TB`, as the label on the drive says.
fn model_and_size(disk: &Node) -> String {
    let model = model(disk);
    match disk.size_bytes {
        Some(bytes) if bytes > 0 => format!("{model} {}", format_capacity(bytes)),
        _ => model,
    }
}

/// The model, after the vendor where that says more than "this is SATA" and the model does not
/// repeat it.
fn vendor_and_model(drive: &DriveFacts) -> Option<String> {
    let model = drive.model.as_ref()?;
    let vendor = drive.vendor.as_deref().filter(|v| *v != "ATA" && !model.starts_with(v));
    Some(vendor.map_or_else(|| model.clone(), |vendor| format!("{vendor} {model}")))
}

/// A drive's size as vendors write it, in powers of 1000 with three digits: `1 TB`, `480 GB`, `1.92
/// TB`.
#[must_use]
pub fn format_capacity(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let text = format!("{value:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {}", UNITS[unit])
}

/// One layer with what matters most about it.
pub(crate) fn name_of(stack: &Stack, node: &Node, mount: Option<&MountFacts>) -> String {
    match node.kind {
        NodeKind::FileSystem => {
            let mut words = mount.map_or_else(Vec::new, shown_options);
            words.splice(0..0, mount.and_then(part_of_filesystem));
            if node.fs.as_ref().is_some_and(|fs| fs.journal == Some(false)) {
                words.push("no journal".to_owned());
            }
            with_details(&node.name, Some(words))
        }
        NodeKind::Overlay => "overlay".to_owned(),
        NodeKind::Memory => format!("{} in memory", node.name),
        NodeKind::Remote => match &node.path {
            Some(source) if source != &node.name => format!("{} {source}", node.name),
            _ => node.name.clone(),
        },
        NodeKind::Md => with_details(&node.name, node.md.as_ref().map(md_words)),
        NodeKind::Dm => dm_words(stack, node, node.dm.as_ref()),
        NodeKind::Loop => {
            let file = node.loop_device.as_ref().and_then(|l| l.backing_file.clone());
            with_details(&node.name, file.map(|file| vec![file]))
        }
        NodeKind::Partition => format!("partition {}", node.name),
        NodeKind::NvmeMultipath => {
            format!("{} (NVMe multipath, {})", node.name, paths_words(node))
        }
        NodeKind::Zram => {
            let algorithm = node.zram.as_ref().and_then(|z| z.algorithm.clone());
            let words = algorithm.map_or_else(Vec::new, |algorithm| vec![algorithm]);
            with_details(&node.name, Some([words, vec!["memory".to_owned()]].concat()))
        }
        NodeKind::Ram => format!("{} (memory)", node.name),
        NodeKind::Disk => drives(&[node]),
        NodeKind::Unknown if node.fs.is_some() => node.name.clone(),
        NodeKind::Unknown => format!("{} (unknown)", node.name),
        NodeKind::Mount | NodeKind::Bcache => node.name.clone(),
    }
}

fn with_details(name: &str, details: Option<Vec<String>>) -> String {
    match details {
        Some(details) if !details.is_empty() => format!("{name} ({})", details.join(", ")),
        _ => name.to_owned(),
    }
}

fn paths_words(node: &Node) -> String {
    let count = node.below.len();
    format!("{count} path{}", if count == 1 { "" } else { "s" })
}

/// The part of its filesystem that a mount shows, where that is not all: `directory /srv`, `subvolume /@home`.
pub(crate) fn part_of_filesystem(mount: &MountFacts) -> Option<String> {
    let root = Some(mount.root.as_str()).filter(|root| !matches!(*root, "" | "/"))?;
    if mount.fs_type != "btrfs" {
        return Some(format!("directory {root}"));
    }
    let subvolume = mount.option_value("subvol").unwrap_or(root);
    Some(match (subvolume, root.strip_prefix(subvolume)) {
        ("/", _) => format!("directory {root}"),
        (_, Some(inside)) if inside.starts_with('/') => {
            format!("directory {} of subvolume {subvolume}", &inside[1..])
        }
        _ => format!("subvolume {root}"),
    })
}

/// The options that change what a measurement shows.
pub(crate) fn shown_options(mount: &MountFacts) -> Vec<String> {
    const SHOWN: [&str; 15] = [
        "noatime",
        "relatime",
        "strictatime",
        "lazytime",
        "sync",
        "dirsync",
        "nobarrier",
        "discard",
        "nodelalloc",
        "nodatacow",
        "nodatasum",
        "nodiscard",
        "dax",
        "wsync",
        "ro",
    ];
    const VALUED: [&str; 5] = ["data", "compress", "compress-force", "discard", "dax"];
    let mut words: Vec<String> =
        SHOWN.iter().filter(|o| mount.has_option(o)).map(|o| (*o).to_owned()).collect();
    // The kernel's default is worth a word only where somebody chose otherwise.
    words.retain(|word| word != "relatime" && word != "nodiscard");
    for key in VALUED {
        if let Some(value) = mount.option_value(key) {
            words.push(format!("{key}={value}"));
        }
    }
    words
}

/// `raid10 far=2, 64 KiB chunk, 6 of 6`.
fn md_words(md: &MdFacts) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(level) = &md.level {
        let layout = md
            .layout_words
            .as_ref()
            .filter(|words| !words.is_empty() && words.as_str() != "left-symmetric");
        words.push(layout.map_or_else(|| level.clone(), |layout| format!("{level} {layout}")));
    }
    if let Some(chunk) = md.chunk_bytes.filter(|&chunk| chunk > 0) {
        words.push(format!("{} chunk", format_size(chunk)));
    }
    if let Some(disks) = md.raid_disks {
        words.push(format!("{} of {disks}", disks.saturating_sub(md.degraded.unwrap_or(0))));
    }
    words
}

/// `LV vg0/data (linear)`, `multipath mpatha (2 paths)`, `dm-crypt home (aes-xts-plain64)`.
fn dm_words(stack: &Stack, node: &Node, dm: Option<&DmFacts>) -> String {
    let Some(dm) = dm else { return node.name.clone() };
    let name = dm.name.as_deref().unwrap_or(&node.name);
    let uuid = dm.uuid.as_deref().unwrap_or_default();
    let targets = (!dm.targets.is_empty()).then(|| target_words(dm));
    let is = |target: &str| dm.targets.iter().any(|t| t == target);
    if uuid.starts_with("LVM-") {
        with_details(&format!("LV {}", lvm_name(name)), targets)
    } else if is_multipath(dm) {
        format!("multipath {name} ({})", paths_words(node))
    } else if uuid.starts_with("CRYPT-") || is("crypt") {
        let line = dm.table.iter().find_map(|line| line.split_once(" crypt "));
        let cipher = line.and_then(|(_, params)| params.split(' ').next()).map(str::to_owned);
        with_details(&format!("dm-crypt {name}"), cipher.map(|cipher| vec![cipher]))
    } else if uuid.starts_with("part") && stack.below(node).any(|n| n.kind == NodeKind::Dm) {
        format!("partition {name}")
    } else {
        with_details(&format!("dm {name}"), targets)
    }
}

/// True for a multipath map; the table shows it only to root, the UUID to everybody.
pub(crate) fn is_multipath(dm: &DmFacts) -> bool {
    let uuid = dm.uuid.as_deref().unwrap_or_default();
    uuid.starts_with("mpath-") || dm.targets.iter().any(|target| target == "multipath")
}

/// The kinds of target, each once, with what matters most about stripes and arrays.
fn target_words(dm: &DmFacts) -> Vec<String> {
    let words = dm.targets.iter().map(|kind| {
        let lines = dm.table.iter().filter_map(|line| line.split_once(&format!(" {kind} ")));
        let mut params = lines.flat_map(|(_, params)| params.split(' '));
        let (first, second) = (params.next(), params.next());
        match (kind.as_str(), first, second.and_then(|text| text.parse::<u64>().ok())) {
            ("striped", Some(stripes), Some(sectors)) => {
                format!("striped {stripes} x {}", format_size(sectors.saturating_mul(512)))
            }
            ("raid", Some(level), _) => level.to_owned(),
            _ => kind.clone(),
        }
    });
    words.collect()
}

/// LVM joins group and volume by a dash and doubles the dashes inside of them.
pub(crate) fn lvm_name(name: &str) -> String {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'-' {
            if bytes.get(at + 1) != Some(&b'-') {
                let (group, volume) = (&name[..at], &name[at + 1..]);
                return format!("{}/{}", group.replace("--", "-"), volume.replace("--", "-"));
            }
            at += 1;
        }
        at += 1;
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_written_as_on_the_label() {
        for (bytes, text) in [
            (1_000_204_886_016, "1 TB"),
            (1_920_383_410_176, "1.92 TB"),
            (480_103_981_056, "480 GB"),
            (999_653_638_144, "1 TB"),
            (64_000_000, "64 MB"),
            (18_000_207_937_536, "18 TB"),
            (12_400_000_000, "12.4 GB"),
        ] {
            assert_eq!(format_capacity(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn a_directory_in_a_subvolume_is_no_subvolume() {
        let part = |fs_type: &str, root: &str, options: &[&str]| {
            let mut mount = MountFacts { fs_type: fs_type.into(), ..MountFacts::default() };
            mount.root = root.into();
            mount.super_options = options.iter().map(|&option| option.to_owned()).collect();
            part_of_filesystem(&mount)
        };
        let of = |root: &str, options: &[&str]| part("btrfs", root, options).unwrap_or_default();
        assert_eq!(of("/sv", &["subvolid=256", "subvol=/sv"]), "subvolume /sv");
        assert_eq!(of("/sv/a/d", &["subvol=/sv"]), "directory a/d of subvolume /sv");
        assert_eq!(of("/d", &["subvol=/"]), "directory /d");
        assert_eq!(of("/@home", &[]), "subvolume /@home");
        assert_eq!(part("btrfs", "/", &["subvol=/"]), None);
        assert_eq!(part("ext4", "/srv", &[]).as_deref(), Some("directory /srv"));
    }

    #[test]
    fn stripes_and_arrays_of_lvm_say_how() {
        let words = |kind: &str, line: &str| {
            let (targets, table) = (vec![kind.to_owned()], vec![line.to_owned()]);
            target_words(&DmFacts { targets, table, ..DmFacts::default() }).join(", ")
        };
        assert_eq!(
            words("striped", "0 32768 striped 2 128 8:0 2048 8:16 2048"),
            "striped 2 x 64 KiB"
        );
        assert_eq!(words("raid", "0 32768 raid raid5_ls 3 128 region_size 4096 3"), "raid5_ls");
        assert_eq!(words("linear", "0 8 linear 8:0 0"), "linear");
    }

    #[test]
    fn lvm_names_are_taken_apart() {
        assert_eq!(lvm_name("vg0-data"), "vg0/data");
        assert_eq!(lvm_name("my--vg-my--lv"), "my-vg/my-lv");
        assert_eq!(lvm_name("plain"), "plain");
    }
}
