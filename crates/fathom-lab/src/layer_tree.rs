//! Stacks as the tree of layers that events tell of.

use fathom_model::event::Layer;
use fathom_model::stack::{Node, NodeKind, Stack};

/// The most layers that are told of: nobody looks at thousands of disks line by line.
const LAYERS_MAX: usize = 200;

/// The layers of all stacks, each from the top down; a stack that begins as an earlier one does is told of once.
pub fn of(stacks: &[Stack]) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut tops: Vec<String> = Vec::new();
    for stack in stacks {
        let Some(top) = stack.top_node() else { continue };
        if !tops.contains(&top.key()) {
            tops.push(top.key());
            add(stack, top, 0, &mut layers);
        }
    }
    layers
}

/// Adds a layer and those below it. Graphs have no circles, but what was read may be anything: no tree is deeper than this.
fn add(stack: &Stack, node: &Node, level: u32, layers: &mut Vec<Layer>) {
    const DEEPEST: u32 = 32;
    if level > DEEPEST || layers.len() >= LAYERS_MAX {
        return;
    }
    layers.push(Layer { level, name: node.name.clone(), kind: kind(node) });
    stack.below(node).for_each(|below| add(stack, below, level + 1, layers));
}

/// What a layer is, in a word or two.
fn kind(node: &Node) -> String {
    let level = |md: &fathom_model::stack::MdFacts| md.level.clone();
    let word = match node.kind {
        NodeKind::Mount => "mount",
        NodeKind::FileSystem => "filesystem",
        NodeKind::Overlay => "overlay",
        NodeKind::Memory => "in memory",
        NodeKind::Remote => "remote",
        NodeKind::Loop => "loop device",
        NodeKind::Dm => "device-mapper",
        NodeKind::Md => return node.md.as_ref().and_then(level).unwrap_or("md array".into()),
        NodeKind::Bcache => "bcache",
        NodeKind::Partition => "partition",
        NodeKind::Disk => "disk",
        NodeKind::NvmeMultipath => "nvme multipath",
        NodeKind::Zram => "zram",
        NodeKind::Ram => "memory",
        NodeKind::Unknown => "",
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(nodes: &[(NodeKind, &str, &[usize])]) -> Stack {
        let node = |(kind, name, below): &(NodeKind, &str, &[usize])| {
            let mut node = Node::new(*kind, *name);
            node.below = below.to_vec();
            node
        };
        let nodes = nodes.iter().map(node).collect();
        Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes, top: 0 }
    }

    fn shown(stacks: &[Stack]) -> Vec<String> {
        let line = |l: &Layer| format!("{}{} {}", "  ".repeat(l.level as usize), l.name, l.kind);
        of(stacks).iter().map(line).collect()
    }

    #[test]
    fn layers_stand_below_what_lies_on_them() {
        let array = stack(&[
            (NodeKind::Mount, "/srv", &[1]),
            (NodeKind::FileSystem, "ext4", &[2]),
            (NodeKind::Md, "md0", &[3, 4]),
            (NodeKind::Disk, "sda", &[]),
            (NodeKind::Disk, "sdb", &[]),
        ]);
        let expected = [
            "/srv mount",
            "  ext4 filesystem",
            "    md0 md array",
            "      sda disk",
            "      sdb disk",
        ];
        assert_eq!(shown(&[array.clone(), array]), expected);
    }

    #[test]
    fn a_circle_ends() {
        let circle = stack(&[(NodeKind::Dm, "dm-0", &[1]), (NodeKind::Dm, "dm-1", &[0])]);
        assert_eq!(shown(&[circle]).len(), 33);
    }
}
