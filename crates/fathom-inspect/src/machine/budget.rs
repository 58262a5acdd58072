//! How much of each device may be read: so much of every whole device, which its partitions share.

use super::Look;
use crate::content::{self, Allowance, READ_BYTES_MAX, SPENT};
use crate::parallel;
use fathom_base::units::format_size;
use fathom_model::snapshot::Unread;
use fathom_model::stack::{Node, NodeKind};
use std::collections::BTreeMap;

/// What the look at one partition takes where it holds something usual, a header of LUKS with its copy included. So much is kept for
/// each partition that comes later, as far as there is so much.
const PARTITION_BYTES: u64 = 48 << 10;

/// What is left of the allowances, by whole devices, and what was read of each node's superblocks.
#[derive(Default)]
pub(super) struct Allowances {
    left: BTreeMap<usize, Allowance>,
    read_bytes: BTreeMap<usize, u64>,
}

impl Allowances {
    /// What may still be read of the device at this node.
    pub(super) fn of(&mut self, nodes: &[Node], index: usize) -> &mut Allowance {
        self.left.entry(whole(nodes, index)).or_default()
    }

    /// What a second look at its superblocks takes, which is taken; none where that is more than is left.
    pub(super) fn again(&mut self, nodes: &[Node], index: usize) -> Option<Allowance> {
        let bytes = self.read_bytes.get(&index).copied()?;
        self.of(nodes, index).take(bytes)?;
        Some(Allowance::of(bytes))
    }
}

/// The disk of a partition, also of one that kpartx made, and every other device itself.
fn whole(nodes: &[Node], index: usize) -> usize {
    let node = &nodes[index];
    let uuid = node.dm.as_ref().and_then(|dm| dm.uuid.as_deref());
    let is_partition =
        node.kind == NodeKind::Partition || uuid.is_some_and(|uuid| uuid.starts_with("part"));
    node.below.first().copied().filter(|_| is_partition).unwrap_or(index)
}

/// What the next of the devices that share an allowance may take when so many come after it. A disk has half of all for its table and
/// what lies beside it. Where there is not enough for all partitions, they get the same.
fn share(left: Allowance, is_whole: bool, later: u64) -> Allowance {
    let left = left.left_bytes();
    let fair = if is_whole { READ_BYTES_MAX / 2 } else { left / (later + 1) };
    Allowance::of(left.saturating_sub(PARTITION_BYTES * later).max(fair.min(left)))
}

/// Why a driver is not asked that may have to read so much.
pub(super) fn too_much(bytes: u64) -> String {
    match bytes > READ_BYTES_MAX {
        true => "its driver may have to read more than 1 MiB: not asked".to_owned(),
        false => format!("its driver may have to read {}: {SPENT}", format_size(bytes)),
    }
}

impl Look<'_> {
    /// What lies on devices, and what may be read of them from then on. Those that share an allowance are read one after the other,
    /// the disk first, so that it does not depend on chance what is read.
    pub(super) fn contents(&mut self, rests: &[Option<super::Rest>]) -> Allowances {
        let mut families: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (index, device) in &self.devices {
            let node = &self.nodes[*index];
            if rests[*index].is_none() && node.devno.is_some() && !super::is_memory(device) {
                families.entry(whole(&self.nodes, *index)).or_default().push((*index, device));
            }
        }
        for (whole, family) in &mut families {
            family.sort_by_key(|(index, _)| (index != whole, *index));
        }
        let families: Vec<_> = families.into_iter().collect();
        let root = self.root;
        let found = parallel::map(&families, super::WAITING_THREADS, |(whole, family)| {
            let mut left = Allowance::default();
            let looks = family.iter().zip((0..family.len() as u64).rev());
            let looks = looks.map(|((index, device), later)| {
                let look = content::read(root, device, share(left, index == whole, later));
                left = Allowance::of(left.left_bytes().saturating_sub(look.read_bytes));
                (*index, look)
            });
            let looks: Vec<_> = looks.collect();
            (*whole, left, looks)
        });
        let mut allowances = Allowances::default();
        for (whole, left, looks) in found {
            allowances.left.insert(whole, left);
            for (index, look) in looks {
                let detail = self.nodes[index].detail.get_or_insert_default();
                (detail.content, detail.table) = (look.content, look.table);
                self.unread.extend(look.unread);
                allowances.read_bytes.insert(index, look.read_bytes);
            }
        }
        allowances
    }

    /// Notes that something was left because the allowance is used up.
    pub(super) fn note_spent(&mut self, what: String) {
        self.unread.push(Unread { what, why: SPENT.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::DmFacts;

    const KIB: u64 = 1 << 10;

    #[test]
    fn every_partition_has_enough_or_the_same_as_the_others() {
        let of = |left: u64, is_whole, later| {
            share(Allowance::of(left * KIB), is_whole, later).left_bytes() / KIB
        };
        assert_eq!((of(1024, true, 0), of(1024, true, 12)), (1024, 512));
        assert_eq!(of(1024, true, 5), 1024 - 5 * 48);
        assert_eq!(of(1024, true, 100), 512, "its table comes first");
        assert_eq!((of(900, false, 11), of(900, false, 0)), (900 - 11 * 48, 900));
        assert_eq!(of(900, false, 99), 9);
        assert_eq!((of(0, false, 3), of(0, true, 3)), (0, 0));
    }

    #[test]
    fn partitions_take_from_their_disk() {
        let mut partition = Node::new(NodeKind::Partition, "sda1");
        partition.below = vec![1];
        let mut volume = Node::new(NodeKind::Dm, "dm-0");
        volume.below = vec![0];
        let mut mapped = volume.clone();
        mapped.below = vec![1];
        let uuid = Some("part2-devnode_8:0_Wh5pYvM".to_owned());
        mapped.dm = Some(DmFacts { uuid, ..DmFacts::default() });
        let nodes = [partition, Node::new(NodeKind::Disk, "sda"), volume, mapped];
        let mut allowances = Allowances::default();
        assert_eq!(allowances.of(&nodes, 0).take(READ_BYTES_MAX - 5), Some(()));
        assert_eq!(allowances.of(&nodes, 1).left_bytes(), 5);
        assert_eq!(allowances.of(&nodes, 3).left_bytes(), 5, "made by kpartx");
        assert_eq!(allowances.of(&nodes, 2).left_bytes(), READ_BYTES_MAX, "a device of its own");
        assert_eq!(allowances.again(&nodes, 0), None, "never looked at");
        allowances.read_bytes.insert(0, 4);
        assert_eq!(allowances.again(&nodes, 0), Some(Allowance::of(4)));
        assert_eq!((allowances.again(&nodes, 0), allowances.of(&nodes, 1).left_bytes()), (None, 1));
    }
}
