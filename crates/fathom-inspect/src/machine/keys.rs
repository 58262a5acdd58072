//! A key of its own for every node: [`Node::key`] is how other facts, measurements and comparisons name it.

use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeSet;

/// Gives nodes that would share a key, or have one that says nothing, a path that tells them apart: where a filesystem
/// lies or is mounted, which mount is hidden by which. The same machine gets the same keys again.
pub(super) fn make_unique(nodes: &mut [Node]) {
    name_filesystems(nodes);
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for index in 0..nodes.len() {
        if taken.insert(nodes[index].key()) {
            continue;
        }
        let below = nodes[index].below.first().map(|&below| nodes[below].label().to_owned());
        let node = &mut nodes[index];
        let base = match below.filter(|_| node.kind == NodeKind::FileSystem) {
            Some(below) => format!("{} on {below}", node.name),
            None => node.label().to_owned(),
        };
        // Numbered from the second on, unless the base itself is free.
        let numbered = (2..).map(|number| format!("{base} ({number})"));
        for candidate in std::iter::once(base.clone()).chain(numbered) {
            node.path = Some(candidate);
            if taken.insert(node.key()) {
                break;
            }
        }
    }
}

/// Filesystems without a UUID are named after what they lie on, those of memory and overlays after where they are mounted.
fn name_filesystems(nodes: &mut [Node]) {
    for index in 0..nodes.len() {
        let node = &nodes[index];
        if node.kind != NodeKind::Mount {
            continue;
        }
        let point = node.name.clone();
        let below = node.below.first().copied();
        let Some(fs) = below.filter(|&fs| nodes[fs].path.is_none()) else { continue };
        let device = nodes[fs].below.first().map(|&below| nodes[below].label().to_owned());
        let has_uuid = nodes[fs].fs.as_ref().is_some_and(|fs| fs.uuid.is_some());
        let name = &nodes[fs].name;
        let path = match nodes[fs].kind {
            NodeKind::FileSystem if !has_uuid => device.map(|device| format!("{name} on {device}")),
            NodeKind::Memory | NodeKind::Overlay => Some(format!("{name} at {point}")),
            _ => None,
        };
        nodes[fs].path = path;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::FsFacts;

    fn node(kind: NodeKind, name: &str, uuid: Option<&str>, below: &[usize]) -> Node {
        let mut node = Node::new(kind, name);
        let uuid = uuid.map(str::to_owned);
        node.fs = Some(FsFacts { uuid, ..FsFacts::default() });
        node.below = below.to_vec();
        if kind == NodeKind::Disk {
            node.path = Some(format!("/dev/{name}"));
        }
        node
    }

    #[test]
    fn twins_get_keys_of_their_own() {
        use NodeKind::{Disk, FileSystem, Memory, Mount};
        let mut nodes = vec![
            node(Mount, "/a", None, &[4]),
            node(Mount, "/b", None, &[5]),
            node(Mount, "/a", None, &[6]),
            node(Mount, "/run", None, &[7]),
            node(FileSystem, "xfs", Some("0b1c"), &[8]),
            node(FileSystem, "xfs", Some("0b1c"), &[9]),
            node(FileSystem, "ext4", None, &[9]),
            node(Memory, "tmpfs", None, &[]),
            node(Disk, "sda", None, &[]),
            node(Disk, "sdb", None, &[]),
        ];
        nodes.push(node(FileSystem, "ext4", None, &[9]));
        make_unique(&mut nodes);
        let keys: Vec<String> = nodes.iter().map(Node::key).collect();
        let expected = [
            "/a",
            "/b",
            "/a (2)",
            "/run",
            "xfs 0b1c",
            "xfs on /dev/sdb",
            "ext4 on /dev/sdb",
            "tmpfs at /run",
            "/dev/sda",
            "/dev/sdb",
            "ext4",
        ];
        assert_eq!(keys, expected);
    }
}
