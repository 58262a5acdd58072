//! Files that several loop devices have attached: what is done through one of them is done to what another shows.

use crate::scene::Scene;
use fathom_model::stack::Node;
use std::collections::BTreeMap;

/// What tells the file of a loop device from all others.
pub(crate) fn file(node: &Node) -> Option<&str> {
    let path = node.loop_device.as_ref()?.backing_file.as_deref()?;
    Some(node.details().backing_inode.as_deref().unwrap_or(path))
}

/// The loop devices by their files.
pub(crate) fn images(nodes: &[Node]) -> BTreeMap<&str, Vec<usize>> {
    let mut all: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        if let Some(file) = file(node) {
            all.entry(file).or_default().push(index);
        }
    }
    all
}

impl Scene<'_> {
    /// The other loop devices that have the file of this one attached.
    pub(crate) fn with_same_file(&self, device: usize) -> impl Iterator<Item = usize> {
        let all = file(self.node(device)).and_then(|file| self.images.get(file));
        let all = all.map(Vec::as_slice).unwrap_or_default();
        all.iter().copied().filter(move |&other| other != device)
    }

    /// True when a part of what a node lies on is in use through another loop device of the same file.
    pub(crate) fn is_used_through_another(&self, index: usize) -> bool {
        let below = self.machine().walk_from(index).into_iter();
        let mut pairs =
            below.flat_map(|device| self.with_same_file(device).map(move |other| (device, other)));
        pairs.any(|(device, other)| self.in_use(other) && self.overlap(device, other))
    }

    /// True when two loop devices of one file show a part of it in common.
    fn overlap(&self, a: usize, b: usize) -> bool {
        let part = |index| {
            let node = self.node(index);
            let facts = node.loop_device.as_ref();
            let start = facts.and_then(|facts| facts.offset_bytes).unwrap_or(0);
            (start, start.saturating_add(node.size_bytes.unwrap_or(u64::MAX)))
        };
        let ((a, a_end), (b, b_end)) = (part(a), part(b));
        a < b_end && b < a_end
    }

    /// True when two nodes show one place of one file. Of what lies deeper in it the place is not worked out.
    pub(crate) fn are_one_place(&self, a: usize, b: usize) -> bool {
        match (self.place_in_file(a), self.place_in_file(b)) {
            (Some(a), Some(b)) => a == b,
            _ => {
                let below = self.machine().walk_from(b);
                let mut devices = self.machine().walk_from(a).into_iter();
                devices.any(|device| self.with_same_file(device).any(|one| below.contains(&one)))
            }
        }
    }

    /// The file of a loop device, or of the one that a partition is on, and the byte in it.
    fn place_in_file(&self, index: usize) -> Option<(&str, u64)> {
        let node = self.node(index);
        if let Some(start) = node.partition.as_ref().and_then(|facts| facts.start_bytes) {
            let (on, _) = self.below(index).next()?;
            let (file, offset) = self.place_in_file(on)?;
            return Some((file, offset.saturating_add(start)));
        }
        Some((file(node)?, node.loop_device.as_ref()?.offset_bytes.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::Bench;
    use fathom_model::stack::Stack;

    #[test]
    fn the_tree_names_the_other_devices_of_a_file() {
        let mut bench = Bench::new();
        let devices = ["loop0", "loop1", "loop2"].map(|name| bench.loop_device(name, &[]));
        for (device, inode) in devices.into_iter().zip(["8:1 12", "8:1 12", "8:1 13"]) {
            bench.detail_of(device).backing_inode = Some(inode.into());
        }
        let nodes = bench.snapshot.machine.nodes.clone();
        let stack = Stack { path: String::new(), resolved_path: String::new(), nodes, top: 0 };
        let lines = crate::forest(&stack, &devices, true);
        let says = |at: usize, words: &str| lines[at].text.contains(words);
        assert!(says(0, "its file is attached to loop1 too"), "{lines:?}");
        assert!(says(1, "its file is attached to loop0 too"), "{lines:?}");
        assert!(!says(2, "attached"), "{lines:?}");
    }
}
