//! Devices that a mounted filesystem keeps beside the one with its data: for its journal, for its realtime section.
//!
//! They are told by facts that are in snapshots anyhow, so that older ones show them too.

use crate::stack::detail::FsSuperblock;
use crate::stack::{MountFacts, Node, NodeKind};

/// A device that a mounted filesystem keeps beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Index of the filesystem.
    pub filesystem: usize,
    /// Index of the device.
    pub device: usize,
    /// What it is for: [`JOURNAL`] or [`REALTIME`].
    pub what: &'static str,
}

/// The word for a journal, or the log of XFS.
pub const JOURNAL: &str = "journal";
/// The word for the realtime section of XFS, which holds the data of files that ask for it.
pub const REALTIME: &str = "realtime section";

/// All such devices of a graph, each once for a filesystem.
#[must_use]
pub fn beside(nodes: &[Node]) -> Vec<Beside> {
    let mut all: Vec<Beside> = Vec::new();
    for mount in nodes.iter().filter(|node| node.mount.is_some()) {
        let Some(facts) = &mount.mount else { continue };
        for &filesystem in &mount.below {
            let Some(node) = nodes.get(filesystem) else { continue };
            if node.kind != NodeKind::FileSystem {
                continue;
            }
            let found = [
                (JOURNAL, journal(nodes, node, facts)),
                (REALTIME, by_option(nodes, facts, "rtdev")),
            ];
            for (what, device) in found {
                let Some(device) = device.filter(|device| !node.below.contains(device)) else {
                    continue;
                };
                let one = Beside { filesystem, device, what };
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
    }
    all
}

/// The device of a journal: by the kernel's word for it, by the mount (XFS), or by its UUID in the superblock (ext).
fn journal(nodes: &[Node], node: &Node, mount: &MountFacts) -> Option<usize> {
    let named = node.fs.as_ref().and_then(|fs| fs.journal_device.as_deref());
    let by_name =
        |name: &str| nodes.iter().position(|node| node.devno.is_some() && node.name == name);
    named.and_then(by_name).or_else(|| by_option(nodes, mount, "logdev")).or_else(|| {
        let wanted = superblock(nodes.get(*node.below.first()?)?)?.journal_uuid.as_deref()?;
        nodes.iter().position(|node| {
            let uuid = superblock(node).and_then(|superblock| superblock.uuid.as_deref());
            uuid.is_some_and(|uuid| uuid.eq_ignore_ascii_case(wanted))
        })
    })
}

fn superblock(node: &Node) -> Option<&FsSuperblock> {
    node.details().content.as_ref()?.filesystem.as_ref()
}

/// The device whose path an option of the mount names.
fn by_option(nodes: &[Node], mount: &MountFacts, option: &str) -> Option<usize> {
    let path = mount.option_value(option)?;
    let name = path.strip_prefix("/dev/")?;
    nodes.iter().position(|node| {
        let is_map = || {
            let map = node.dm.as_ref().and_then(|dm| dm.name.as_deref());
            map.is_some_and(|map| name.strip_prefix("mapper/") == Some(map))
        };
        let is_link = || {
            let link = name.strip_prefix("disk/");
            link.is_some_and(|link| node.details().links.iter().any(|known| known == link))
        };
        let is_named = node.path.as_deref() == Some(path) || node.name == name;
        node.devno.is_some() && (is_named || is_map() || is_link())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::detail::Content;
    use crate::stack::{Detail, DmFacts, FsFacts};

    /// A mount (0) of a filesystem (1) on `sda1` (2), and another device (3).
    fn nodes(kind: &str, options: &[&str]) -> Vec<Node> {
        let mut mount = Node::new(NodeKind::Mount, "/srv");
        let super_options = options.iter().map(|option| (*option).to_owned()).collect();
        mount.mount = Some(MountFacts { super_options, ..MountFacts::default() });
        mount.below = vec![1];
        let mut fs = Node::new(NodeKind::FileSystem, kind);
        fs.fs = Some(FsFacts::default());
        fs.below = vec![2];
        let device = |name: &str| {
            let mut node = Node::new(NodeKind::Partition, name);
            (node.devno, node.path) = (Some("8:1".into()), Some(format!("/dev/{name}")));
            node
        };
        vec![mount, fs, device("sda1"), device("dm-3")]
    }

    #[test]
    fn a_journal_is_found_by_each_of_its_names() {
        let is = |nodes: &[Node], what| {
            assert_eq!(beside(nodes), [Beside { filesystem: 1, device: 3, what }]);
        };
        is(&nodes("xfs", &["rw", "logdev=/dev/dm-3"]), JOURNAL);
        is(&nodes("xfs", &["rtdev=/dev/dm-3"]), REALTIME);
        let mut all = nodes("xfs", &["logdev=/dev/mapper/log"]);
        assert_eq!(beside(&all), [], "which one is not known");
        all[3].dm = Some(DmFacts { name: Some("log".into()), ..DmFacts::default() });
        is(&all, JOURNAL);
        let mut all = nodes("xfs", &["logdev=/dev/disk/by-id/ata-X"]);
        all[3].detail.get_or_insert_default().links = vec!["by-id/ata-X".into()];
        is(&all, JOURNAL);
        let mut all = nodes("ext4", &[]);
        assert_eq!(beside(&all), [], "inside");
        all[1].fs.get_or_insert_default().journal_device = Some("dm-3".into());
        is(&all, JOURNAL);
        let superblock = |uuid: &str, journal: Option<&str>| {
            let filesystem = FsSuperblock {
                uuid: Some(uuid.into()),
                journal_uuid: journal.map(str::to_owned),
                ..FsSuperblock::default()
            };
            let content = Content { filesystem: Some(filesystem), ..Content::default() };
            Some(Box::new(Detail { content: Some(content), ..Detail::default() }))
        };
        let mut all = nodes("ext4", &[]);
        (all[2].detail, all[3].detail) = (superblock("aa", Some("BB")), superblock("bb", None));
        is(&all, JOURNAL);
        // What is not mounted uses nothing.
        all[0].below.clear();
        assert_eq!(beside(&all), []);
    }
}
