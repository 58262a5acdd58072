//! Writeback, paging, limits of array resynchronisation, swap.

use super::reader::Reader;
use fathom_model::snapshot::Machine;
use fathom_model::stack::{Node, NodeKind};
use fathom_model::system::Swap;
use fathom_sys::mounts::unescape;
use std::path::Path;

/// The settings below `/proc/sys/vm` that decide when written data goes to devices, and what is paged out.
const VM_SETTINGS: [&str; 16] = [
    "dirty_background_bytes",
    "dirty_background_ratio",
    "dirty_bytes",
    "dirty_expire_centisecs",
    "dirty_ratio",
    "dirty_writeback_centisecs",
    "dirtytime_expire_seconds",
    "laptop_mode",
    "min_free_kbytes",
    "overcommit_memory",
    "page-cluster",
    "swappiness",
    "vfs_cache_pressure",
    "watermark_boost_factor",
    "watermark_scale_factor",
    "zone_reclaim_mode",
];

/// Name and value of the settings that this kernel has.
pub(crate) fn vm(reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut value = |name: &str| reader.line(format!("proc/sys/vm/{name}"));
    let settings = VM_SETTINGS.iter();
    settings.filter_map(|name| Some(((*name).to_owned(), value(name)?))).collect()
}

/// Lowest and highest speed of array resynchronisation; none where no array driver is loaded.
pub(crate) fn raid_speed_limit_kib(reader: &mut Reader<'_>) -> Option<(u64, u64)> {
    let mut limit = |name: &str| reader.number(format!("proc/sys/dev/raid/speed_limit_{name}"));
    Some((limit("min")?, limit("max")?))
}

/// Swap in use, with the node of the graph that it lies on.
pub(crate) fn swaps(reader: &mut Reader<'_>, machine: &Machine) -> Vec<Swap> {
    let text = reader.text("proc/swaps").unwrap_or_default();
    let mut swaps = parse_swaps(&text);
    for swap in &mut swaps {
        swap.node = node_of(machine, swap).map(Node::key);
    }
    swaps
}

/// The lines of `/proc/swaps`; sizes there are in KiB. The path has the kernel's octal escapes, and ` (deleted)` behind it
/// when its name is gone.
#[must_use]
pub fn parse_swaps(text: &str) -> Vec<Swap> {
    text.lines().skip(1).filter_map(parse_swap).collect()
}

fn parse_swap(line: &str) -> Option<Swap> {
    // From the end: a deleted file has a blank in its name.
    let mut fields = line.split_ascii_whitespace().rev();
    let (_priority, used, size) = (fields.next()?, fields.next()?, fields.next()?);
    let kind = fields.next()?;
    let bytes = |kib: &str| kib.parse::<u64>().ok()?.checked_mul(1024);
    let path = line.split_ascii_whitespace().next()?;
    Some(Swap {
        path: unescape(path),
        file: kind == "file",
        size_bytes: bytes(size)?,
        used_bytes: bytes(used)?,
        node: None,
    })
}

fn node_of<'a>(machine: &'a Machine, swap: &Swap) -> Option<&'a Node> {
    let path = Path::new(&swap.path);
    if swap.file {
        let mounts = machine.nodes.iter().filter_map(|node| {
            let mount = node.mount.as_ref().filter(|_| node.kind != NodeKind::FileSystem)?;
            path.starts_with(&mount.mount_point).then_some((node, mount.mount_point.len()))
        });
        return mounts.max_by_key(|(_, length)| *length).map(|(node, _)| node);
    }
    let name = path.strip_prefix("/dev").ok()?.to_str()?.replace('/', "!");
    let mut devices = machine.nodes.iter().filter(|node| node.devno.is_some());
    devices.find(|node| node.name == name || node.path.as_deref() == Some(swap.path.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::MountFacts;
    use fathom_testkit::Tree;

    const SWAPS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
        /dev/dm-1                               partition\t1000444\t\t512\t\t-2\n\
        /srv/swap\\040file                      file\t\t2048\t\t0\t\t-3\n\
        /tmp/gone\\040(deleted)                 file\t\t4\t\t4\t\t-4\n";

    fn mount(place: &str) -> Node {
        let mut node = Node::new(NodeKind::Mount, place);
        node.path = Some(place.into());
        node.mount = Some(MountFacts { mount_point: place.into(), ..MountFacts::default() });
        node
    }

    #[test]
    fn swap_is_found_in_the_graph() {
        let mut volume = Node::new(NodeKind::Dm, "dm-1");
        volume.devno = Some("253:1".into());
        volume.path = Some("/dev/mapper/vg0-swap".into());
        let nodes = vec![mount("/"), mount("/srv"), volume];
        let machine = Machine { nodes, tops: vec![0, 1, 2] };
        let tree = Tree::new();
        tree.put("proc/swaps", SWAPS);
        let root = tree.root();
        let found = swaps(&mut Reader::new(&root), &machine);
        let nodes: Vec<_> = found.iter().map(|swap| swap.node.as_deref()).collect();
        assert_eq!(nodes, [Some("/dev/mapper/vg0-swap"), Some("/srv"), Some("/")]);
        assert_eq!((found[0].size_bytes, found[0].used_bytes), (1_000_444 << 10, 512 << 10));
        assert_eq!((found[1].path.as_str(), found[1].file), ("/srv/swap file", true));
        assert!(!found[0].file && found[2].path.starts_with("/tmp/gone"));
    }

    #[test]
    fn lines_of_another_form_are_passed_over() {
        assert_eq!(parse_swaps("Filename\nx y\n/dev/sda1 partition a b c\n"), []);
        assert_eq!(parse_swaps(""), []);
    }

    #[test]
    fn settings_that_this_kernel_has() {
        let tree = Tree::of_text(
            "[proc/sys]\nvm/dirty_ratio = 20\nvm/swappiness = 60\nvm/other = 1\n\
             dev/raid/speed_limit_min = 1000\ndev/raid/speed_limit_max = 200000\n",
        );
        let root = tree.root();
        let mut reader = Reader::new(&root);
        let pairs = vm(&mut reader);
        let pairs: Vec<_> = pairs.iter().map(|(name, v)| (name.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("dirty_ratio", "20"), ("swappiness", "60")]);
        assert_eq!(raid_speed_limit_kib(&mut reader), Some((1000, 200_000)));
        assert!(reader.into_unread().is_empty());
    }
}
