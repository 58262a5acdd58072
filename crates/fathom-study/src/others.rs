//! Whether somebody else used the devices while they were measured.

use crate::rules::{all_direct, read_bytes, top, written_bytes};
use fathom_base::units::format_rate;
use fathom_model::capture::CaptureRecord;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, OpClass, Record, TargetRecord};
use fathom_model::stack::MountFacts;

/// What a filesystem's journal or log writes for a sync, at most: blocks of description, inodes, space and the commit itself.
const JOURNAL_BYTES_PER_SYNC: u64 = 64 << 10;
/// Below that, what a machine does by itself.
const RATE_MIN: f64 = (1 << 20) as f64;

/// I/O of the devices that is not ours: more than a tenth of our traffic and more than 1 MiB/s disturb a measurement.
pub(crate) fn other_io(record: &Record) -> Option<Finding> {
    let is_replay = record.capture.as_deref().is_some_and(CaptureRecord::is_replay);
    // The traffic of files and names is told nowhere in bytes.
    if record.fsop.is_some() || record.jobs.is_empty() && !is_replay {
        return None;
    }
    let mut devices: Vec<&DeviceDelta> = Vec::new();
    for device in record.targets.iter().flat_map(|target| top(record, target)) {
        if !devices.iter().any(|known| known.name == device.name) {
            devices.push(device);
        }
    }
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let ours = (read_bytes(record) + written_bytes(record)) as f64;
    let foreign = foreign_reads(record, &devices) + foreign_writes(record, &devices);
    // What was in flight at the borders of the window counts on one side only.
    let border = record
        .workload
        .jobs
        .iter()
        .map(|j| j.concurrency() * u64::from(j.block_size_bytes_max()))
        .sum::<u64>();
    if foreign as f64 <= ours / 10.0 + border as f64 || foreign as f64 / seconds < RATE_MIN {
        return None;
    }
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let text = format!(
        "others used {} during the run: {} beside our {}",
        names.join(", "),
        format_rate(foreign as f64 / seconds),
        format_rate(ours / seconds)
    );
    Some(
        Finding::new("other-io", Severity::Doubtful, text)
            .advise("stop them or wait; pidstat -d 1 and iotop show who it is"),
    )
}

/// What was read beyond our direct reads. Through the page cache a device may read more than was asked for, or less.
fn foreign_reads(record: &Record, devices: &[&DeviceDelta]) -> u64 {
    let read: u64 = devices.iter().map(|d| d.read_bytes).sum();
    if all_direct(record) { read.saturating_sub(read_bytes(record)) } else { 0 }
}

/// What was written beyond our own writes and what these make a filesystem write.
fn foreign_writes(record: &Record, devices: &[&DeviceDelta]) -> u64 {
    let written: u64 = devices.iter().map(|d| d.written_bytes).sum();
    // Of a replay it is not counted what its syncs make a filesystem write.
    if record.jobs.is_empty() && written_bytes(record) > 0 {
        return 0;
    }
    let count = |of: &[OpClass]| {
        let classes = record.jobs.iter().flat_map(|job| &job.classes);
        classes.filter(|c| of.contains(&c.class)).map(|c| c.latency_ns.count()).sum::<u64>()
    };
    if count(&[OpClass::Read, OpClass::Open]) == count(&OpClass::ALL) {
        return written;
    }
    let own = written_bytes(record);
    // A range that is zeroed counts as written, though nothing is sent; of names nothing tells what is written for them.
    let is_known = own > 0 && count(&[OpClass::Zero]) == 0;
    if !is_known || !all_direct(record) || !record.targets.iter().all(writes_in_place) {
        return 0;
    }
    let changes = count(&[OpClass::Sync, OpClass::Transaction, OpClass::Trim]);
    written.saturating_sub(own + changes * JOURNAL_BYTES_PER_SYNC)
}

/// Whether a block that is written is written once and at its place. Others write trees of blocks beside it, several times as much,
/// by rules that no counter tells.
fn writes_in_place(target: &TargetRecord) -> bool {
    let is_known = |kind: &str| matches!(kind, "ext2" | "ext3" | "ext4" | "xfs" | "vfat" | "exfat");
    // With data=journal everything is written to the journal first, and directly only in name.
    let is_journaled = |mount: &MountFacts| {
        let lists = [&mount.options, &mount.super_options, &mount.effective_options];
        lists.into_iter().flatten().any(|option| option == "data=journal")
    };
    let is_in_place = |mount: &MountFacts| is_known(&mount.fs_type) && !is_journaled(mount);
    target.direct_honoured != Some(false) && target.stack.mount().is_none_or(is_in_place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    const MIB: u64 = 1 << 20;

    fn is_told(change: impl FnOnce(&mut Record)) -> bool {
        let mut record = record();
        change(&mut record);
        other_io(&record).is_some()
    }

    /// Direct writes of 240 MB in a minute, on that filesystem, of which the device has seen so much more.
    fn writes(fs_type: &str, more_bytes: u64) -> impl FnOnce(&mut Record) {
        let fs_type = fs_type.to_owned();
        move |r| {
            let class = &mut r.jobs[0].classes[0];
            class.class = OpClass::Write;
            (r.devices[0].read_bytes, r.devices[0].written_bytes) = (0, class.bytes + more_bytes);
            r.targets[0].stack.nodes[0].mount =
                Some(MountFacts { fs_type, ..MountFacts::default() });
        }
    }

    #[test]
    fn writes_beside_ours_are_told_where_ours_are_known() {
        assert!(!is_told(writes("ext4", 20 * MIB)), "less than a tenth");
        assert!(is_told(writes("ext4", 80 * MIB)) && is_told(writes("xfs", 80 * MIB)));
        assert!(!is_told(writes("btrfs", 80 * MIB)), "trees of its own");
        assert!(!is_told(|r| {
            writes("ext4", 80 * MIB)(r);
            r.targets[0].direct = false;
        }));
        assert!(!is_told(|r| {
            writes("ext4", 80 * MIB)(r);
            let mount = r.targets[0].stack.nodes[0].mount.as_mut().unwrap();
            mount.super_options.push("data=journal".to_owned());
        }));
        assert!(!is_told(|r| {
            writes("ext4", 80 * MIB)(r);
            r.targets[0].direct_honoured = Some(false);
        }));
    }

    #[test]
    fn what_syncs_make_a_journal_write_is_ours() {
        let synced = |count: u64| {
            move |r: &mut Record| {
                writes("ext4", 80 * MIB)(r);
                let mut syncs = r.jobs[0].classes[0].clone();
                (syncs.class, syncs.bytes) = (OpClass::Sync, 0);
                syncs.latency_ns.clear();
                syncs.latency_ns.record_n(1_000_000, count);
                r.jobs[0].classes.push(syncs);
            }
        };
        assert!(is_told(synced(100)) && !is_told(synced(1280)));
    }

    #[test]
    fn through_the_page_cache_only_what_others_write_is_told() {
        let buffered = |read_bytes: u64, written_bytes: u64| {
            move |r: &mut Record| {
                r.targets[0].direct = false;
                (r.devices[0].read_bytes, r.devices[0].written_bytes) = (read_bytes, written_bytes);
            }
        };
        assert!(!is_told(buffered(900 * MIB, 0)), "read-ahead");
        assert!(is_told(buffered(0, 80 * MIB)));
    }

    #[test]
    fn names_and_zeroed_ranges_write_what_nobody_counts() {
        for class in [OpClass::Create, OpClass::Zero] {
            assert!(!is_told(|r| {
                r.jobs[0].classes[0].class = class;
                (r.devices[0].read_bytes, r.devices[0].written_bytes) = (0, 900 * MIB);
            }));
        }
    }

    #[test]
    fn several_targets_are_one_sum() {
        let both = |r: &mut Record| r.targets.push(r.targets[0].clone());
        assert!(!is_told(both), "one device below two files is counted once");
        assert!(is_told(|r| {
            both(r);
            r.devices[0].read_bytes *= 2;
        }));
    }
}
