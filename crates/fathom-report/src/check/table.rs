//! All block devices as a table, one line each.

use crate::table::{Align, Table};
use fathom_base::printable::printable;
use fathom_base::units::{format_count, format_size};
use fathom_model::snapshot::Machine;
use fathom_model::stack::{Node, NodeKind, QueueFacts};

/// The block devices with their topology and queues, in so many columns; what is unknown is `-`.
#[must_use]
pub fn table_text(machine: &Machine, width: usize) -> String {
    let columns = [
        ("device", Align::Left),
        ("is", Align::Left),
        ("size", Align::Right),
        ("sectors", Align::Right),
        ("min/opt I/O", Align::Right),
        ("off", Align::Right),
        ("scheduler", Align::Left),
        ("requests", Align::Right),
        ("depth", Align::Right),
        ("read-ahead (sectors)", Align::Right),
        ("cache", Align::Left),
        ("turns", Align::Left),
        ("used by", Align::Left),
    ];
    let mut table = Table::new(columns, 2);
    let above = machine.above();
    for (index, node) in machine.nodes.iter().enumerate() {
        if node.devno.is_some() {
            let above = above[index].iter().map(|&user| machine.nodes[user].name.clone());
            let mut users: Vec<String> = above.collect();
            // What a device carries is no node of its own where only the device was asked for.
            if users.is_empty() {
                users.extend(node.mounted_at.iter().map(|place| printable(place)));
            }
            let disk = || machine.below(node).next().and_then(|disk| disk.queue.as_ref());
            let queue = node
                .queue
                .as_ref()
                .or_else(|| if node.kind == NodeKind::Partition { disk() } else { None });
            table.row(cells(node, queue, users.join(",")));
        }
    }
    table.render_to(0, width)
}

/// The cells of a device; a partition has the queue of its disk.
fn cells(node: &Node, queue: Option<&QueueFacts>, users: String) -> Vec<String> {
    let dash = || "-".to_owned();
    let or_dash = |text: Option<String>| text.unwrap_or_else(dash);
    let pair = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => format!("{}/{}", format_size(a), format_size(b)),
        _ => dash(),
    };
    let off = node.alignment_offset_bytes.map(|offset| match offset {
        -1 => "misaligned".to_owned(),
        bytes => bytes.to_string(),
    });
    vec![
        node.name.clone(),
        kind_word(node),
        or_dash(node.size_bytes.map(format_size)),
        pair(queue.and_then(|q| q.logical_block_bytes), queue.and_then(|q| q.physical_block_bytes)),
        pair(queue.and_then(|q| q.minimum_io_bytes), queue.and_then(|q| q.optimal_io_bytes)),
        or_dash(off),
        or_dash(queue.and_then(|q| q.scheduler.clone())),
        or_dash(queue.and_then(|q| q.requests).map(format_count)),
        or_dash(node.drive.as_ref().and_then(|d| d.queue_depth).map(format_count)),
        or_dash(
            queue
                .and_then(|q| q.read_ahead_kib)
                .map(|kib| format!("{kib} KiB ({})", kib.saturating_mul(2))),
        ),
        or_dash(queue.and_then(|q| q.write_cache.clone())),
        or_dash(
            queue.and_then(|q| q.rotational).map(|yes| if yes { "yes" } else { "no" }.to_owned()),
        ),
        if users.is_empty() { dash() } else { users },
    ]
}

fn kind_word(node: &Node) -> String {
    let word = match node.kind {
        NodeKind::Dm => {
            let targets = node.dm.as_ref().map(|dm| dm.targets.join("+"));
            return targets.filter(|words| !words.is_empty()).unwrap_or_else(|| "dm".to_owned());
        }
        NodeKind::Md => {
            let level = node.md.as_ref().and_then(|md| md.level.clone());
            return level.unwrap_or_else(|| "md".to_owned());
        }
        NodeKind::Disk => {
            let transport = node.drive.as_ref().and_then(|drive| drive.transport.clone());
            return transport
                .map_or_else(|| "disk".to_owned(), |transport| format!("{transport} disk"));
        }
        NodeKind::Partition => "partition",
        NodeKind::Loop => "loop",
        NodeKind::Bcache => "bcache",
        NodeKind::NvmeMultipath => "nvme multipath",
        NodeKind::Zram => "zram",
        NodeKind::Ram => "ram",
        NodeKind::Remote => "remote",
        _ => "other",
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::sample;
    use expect_test::expect;

    #[test]
    fn one_line_for_each_device() {
        let (snapshot, _) = sample();
        expect![[r#"
            device  is       size      sectors  min/opt I/O  off  scheduler    requests  depth  read-ahead (sectors)  cache  turns  used by
            md0     md    3.6 TiB  512 B/4 KiB            -    -  mq-deadline        64      -         128 KiB (256)  -      yes    xfs
            sda     disk  3.6 TiB  512 B/4 KiB            -    -  mq-deadline        64      -         128 KiB (256)  -      yes    md0
            sdb     disk  3.6 TiB  512 B/4 KiB            -    -  mq-deadline        64      -         128 KiB (256)  -      yes    md0
        "#]].assert_eq(&table_text(&snapshot.machine, usize::MAX));
    }

    /// As in the tree of a device that was named: its filesystem is no node of its own.
    #[test]
    fn a_device_that_is_mounted_is_used_by_its_mount() {
        let (mut snapshot, _) = sample();
        snapshot.machine.nodes.retain(|node| node.name == "sda");
        snapshot.machine.tops = vec![0];
        assert!(table_text(&snapshot.machine, usize::MAX).trim_end().ends_with("  -"));
        snapshot.machine.nodes[0].mounted_at = vec!["/srv".into(), "/mnt/a".into()];
        let table = table_text(&snapshot.machine, usize::MAX);
        assert!(table.trim_end().ends_with("  /srv,/mnt/a"), "{table}");
    }
}
