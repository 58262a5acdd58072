//! What the state of a stack does to a measurement on it: rules from a stack to findings.
//!
//! Each looks at one thing, says what it saw with figures, and ends with a command where there is
//! one.

use crate::conditions::{self, FULL_SHARE};
use crate::describe::{format_capacity, is_multipath};
use crate::dm::{self, PoolStatus};
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_base::units::{format_size, format_sizes};
use fathom_model::finding::{Finding, Severity};
use fathom_model::host::HostFacts;
use fathom_model::stack::{LoopFacts, MdFacts, Node, NodeKind, Stack};

/// What the rules know beside the stack.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The kernel thread that zeroes inode tables of ext4 exists.
    pub ext4_lazy_init_thread: bool,
    /// The stack that the store of results is on.
    pub store: Option<Stack>,
    /// Seconds since 1970.
    pub now_unix_s: i64,
}

/// All rules on one stack, the most serious findings first.
#[must_use]
pub fn judge(stack: &Stack, around: &Surroundings) -> Vec<Finding> {
    let mut findings = [
        md_busy(stack),
        md_degraded(stack),
        multipath_degraded(stack),
        ext4_lazy_init(stack, around),
        filesystem_errors(stack),
        mounted_above(stack),
        around.store.as_ref().map(|store| store_on_target(stack, store)).unwrap_or_default(),
        filesystem_full(stack),
        pool_full(stack),
        direct_io_buffered(stack),
        loop_sparse(stack),
        loop_buffered(stack),
        discard_online(stack),
        read_only(stack),
        misaligned(stack),
    ]
    .concat();
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// A clock whose readings cost as much as a fast device's request, or that stands still for milliseconds.
#[must_use]
pub fn slow_clock(host: &HostFacts) -> Option<Finding> {
    let source = host.clock_source.as_deref()?;
    let (severity, what) = match source {
        "hpet" | "acpi_pm" => (
            Severity::Note,
            "each reading takes about a microsecond, which is part of every latency",
        ),
        "jiffies" | "refined-jiffies" => (
            Severity::Void,
            "it stands still for milliseconds: latencies are multiples of its step",
        ),
        _ => return None,
    };
    let text = format!("the kernel's clock source is {source}: {what}");
    Some(
        Finding::new("slow-clock", severity, text)
            .advise("is the processor's own counter unusable here? dmesg | grep -iE 'tsc|clocksource' tells why")
            .advise("cat /sys/devices/system/clocksource/clocksource0/available_clocksource"),
    )
}

fn arrays(stack: &Stack) -> impl Iterator<Item = (&Node, &MdFacts)> {
    stack.walk().into_iter().filter_map(|node| Some((node, node.md.as_ref()?)))
}

fn loops(stack: &Stack) -> impl Iterator<Item = (&Node, &LoopFacts)> {
    stack.walk().into_iter().filter_map(|node| Some((node, node.loop_device.as_ref()?)))
}

/// An array that copies, rebuilds or checks: it takes its share of every member's time.
#[must_use]
pub fn md_busy(stack: &Stack) -> Vec<Finding> {
    arrays(stack)
        .filter_map(|(node, md)| {
            let words = conditions::array_work(md)?;
            let share = conditions::done_words(md);
            let name = &node.name;
            let summary = format!("{name} {words}{share}: rates are too low, tails too long.");
            let command = if matches!(md.sync_action.as_deref(), Some("check" | "repair")) {
                let file = format!("/sys/block/{name}/md/sync_action");
                format!("wait, or: echo idle > {}", shell::word(file))
            } else {
                format!("wait for its end: mdadm --wait {}", shell::word(node.label()))
            };
            Some(Finding::new("md-sync-running", Severity::Doubtful, summary).advise(command))
        })
        .collect()
}

/// An array without all its members is not the array that it will be again.
#[must_use]
pub fn md_degraded(stack: &Stack) -> Vec<Finding> {
    arrays(stack)
        .filter_map(|(node, md)| {
            let missing = md.degraded.filter(|&missing| missing > 0)?;
            let all = md.raid_disks.map_or_else(String::new, |all| format!(" of {all}"));
            let faulty = match conditions::failed_members(md).as_slice() {
                [] => String::new(),
                names => format!(" ({} failed)", names.join(", ")),
            };
            let summary = format!(
                "{} lacks {missing}{all} members{faulty}: it is slower and less safe than it looks.",
                node.name
            );
            let finding = Finding::new("md-degraded", Severity::Doubtful, summary);
            Some(
                finding
                    .advise("replace the missing member and let the array rebuild before measuring")
                    .advise(format!("mdadm --detail {}", shell::word(node.label()))),
            )
        })
        .collect()
}

/// A multipath map that has lost paths: those that are left carry everything, and requests to a failing one are tried
/// again elsewhere.
#[must_use]
pub fn multipath_degraded(stack: &Stack) -> Vec<Finding> {
    let walk = stack.walk();
    let maps = walk.into_iter().filter_map(|node| Some((node, node.dm.as_ref()?)));
    maps.filter(|(_, dm)| is_multipath(dm))
        .filter_map(|(node, dm)| {
            let paths: Vec<&Node> = stack.below(node).collect();
            let failed = paths.iter().filter(|path| conditions::is_failed_path(dm, path));
            let failed: Vec<&str> = failed.map(|path| path.name.as_str()).collect();
            if failed.is_empty() {
                return None;
            }
            let name = dm.name.as_deref().unwrap_or(&node.name);
            let summary = format!(
                "multipath map {name} has lost {} of its {} paths ({}): it is slower and less safe than it looks.",
                failed.len(),
                paths.len(),
                failed.join(", ")
            );
            let finding = Finding::new("multipath-degraded", Severity::Doubtful, summary);
            Some(
                finding
                    .advise("bring the paths back before measuring: cable, switch, port, target")
                    .advise(format!("multipath -ll {}", shell::word(name))),
            )
        })
        .collect()
}

/// A young ext4 whose inode tables the kernel still zeroes in the background.
#[must_use]
pub fn ext4_lazy_init(stack: &Stack, around: &Surroundings) -> Vec<Finding> {
    let Some(fs) = stack.filesystem().and_then(|node| node.fs.as_ref()) else { return Vec::new() };
    if !around.ext4_lazy_init_thread {
        return Vec::new();
    }
    let left = conditions::lazy_init_left(fs, stack.mount(), around.now_unix_s);
    let Some(evidence) = left else { return Vec::new() };
    let summary = format!(
        "the new {} still zeroes its inode tables in the background ({evidence}): \
         writes compete with it.",
        fs.fs_type
    );
    vec![
        Finding::new("ext4-lazy-init", Severity::Doubtful, summary)
            .advise("wait until the thread is gone; it runs only while the filesystem is mounted")
            .advise("next time: mkfs.ext4 -E lazy_itable_init=0,lazy_journal_init=0")
            .advise("pgrep ext4lazyinit"),
    ]
}

/// Errors that the filesystem has counted: some I/O failed, and more may.
#[must_use]
pub fn filesystem_errors(stack: &Stack) -> Vec<Finding> {
    let fs = stack.filesystem().and_then(|node| node.fs.as_ref());
    let Some((fs, errors)) = fs.and_then(|fs| Some((fs, fs.errors_count.filter(|&n| n > 0)?)))
    else {
        return Vec::new();
    };
    let place = stack.mount().map_or("", |mount| mount.mount_point.as_str());
    let summary = format!("{} at {place} has counted {errors} errors.", fs.fs_type);
    let command = if fs.fs_type == "btrfs" {
        format!("btrfs device stats {}", shell::word(place))
    } else {
        "unmount and check it: e2fsck -f DEVICE    (and look at: dmesg)".to_owned()
    };
    vec![Finding::new("filesystem-errors", Severity::Note, summary).advise(command)]
}

/// A device is measured raw while filesystems on it are mounted: they may use it meanwhile, and
/// share its cache.
#[must_use]
pub fn mounted_above(stack: &Stack) -> Vec<Finding> {
    let Some(top) = stack.top_node().filter(|top| !top.mounted_at.is_empty()) else {
        return Vec::new();
    };
    let summary = format!(
        "{} holds what is mounted at {}: others may use it meanwhile, \
         and buffered reads may come from their cache.",
        top.label(),
        top.mounted_at.join(", ")
    );
    vec![Finding::new("mounted-above", Severity::Note, summary).advise(
        "compare the direct with the buffered figure; see who else is at work: iostat -x 1",
    )]
}

/// Results are kept on the storage that is measured.
#[must_use]
pub fn store_on_target(stack: &Stack, store: &Stack) -> Vec<Finding> {
    let devices = |stack: &Stack| -> Vec<String> {
        let nodes = stack.top_block_devices();
        nodes.into_iter().filter_map(|node| node.devno.clone()).collect()
    };
    let (own, other) = (devices(stack), devices(store));
    if !own.iter().any(|devno| other.contains(devno)) {
        return Vec::new();
    }
    let summary = format!("results are kept on the tested storage ({}).", store.resolved_path);
    vec![
        Finding::new("store-on-target", Severity::Note, summary)
            .advise("nothing is written there before the measurement has ended")
            .advise("to keep them elsewhere: --db PATH"),
    ]
}

/// A nearly full filesystem has only leftovers to give: files get scattered.
#[must_use]
pub fn filesystem_full(stack: &Stack) -> Vec<Finding> {
    let Some(fs) = stack.filesystem().and_then(|node| node.fs.as_ref()) else { return Vec::new() };
    let place = stack.mount().map_or("", |mount| mount.mount_point.as_str());
    let mut findings = Vec::new();
    if let (Some(available), Some(used)) = (fs.available_bytes, conditions::used_share(fs))
        && used > FULL_SHARE
    {
        let summary = format!(
            "{place} is {:.0} % full ({} left): new files get scattered, rates fall.",
            used * 100.0,
            format_size(available)
        );
        let finding = Finding::new("filesystem-full", Severity::Note, summary);
        let command = format!("find what can go: du -xh --max-depth=2 {}", shell::word(place));
        findings.push(finding.advise("fathom's test files count too").advise(command));
    }
    if let Some((free, all)) = conditions::few_inodes(fs) {
        let summary = format!("{place} has only {free} of {all} inodes left.");
        let finding = Finding::new("inodes-low", Severity::Note, summary);
        let command = format!("see where they went: du -x --inodes {}", shell::word(place));
        findings.push(finding.advise(command));
    }
    findings
}

/// A nearly full thin pool: in the middle of a run it may have nothing left to give, and writes wait or fail.
#[must_use]
pub fn pool_full(stack: &Stack) -> Vec<Finding> {
    let share = |node: &Node| {
        let status = &node.dm.as_ref()?.status;
        let pool =
            status.iter().filter_map(|text| dm::line(text)).find(|l| l.kind == "thin-pool")?;
        let PoolStatus::Works(state) = dm::pool_status(pool.words)? else { return None };
        state.data.share().filter(|share| *share > FULL_SHARE)
    };
    let finding = |node: &Node| {
        let summary = format!(
            "the thin pool {} is {:.0} % full: when nothing is left, writes to new places wait or fail.",
            node.label(),
            share(node)? * 100.0
        );
        let finding = Finding::new("thin-pool-full", Severity::Note, summary);
        Some(finding.advise("give back what filesystems no longer use: fstrim --all --verbose"))
    };
    let mut findings: Vec<Finding> = stack.walk().into_iter().filter_map(finding).collect();
    findings.dedup();
    findings
}

/// Filesystems that take direct I/O and buffer it all the same.
#[must_use]
pub fn direct_io_buffered(stack: &Stack) -> Vec<Finding> {
    let Some(fs) = stack.filesystem().and_then(|node| node.fs.as_ref()) else { return Vec::new() };
    let Some(mount) = stack.mount() else { return Vec::new() };
    let why = match fs.fs_type.as_str() {
        "ext4" | "ext3" => {
            let journaled = mount.option_value("data") == Some("journal");
            (journaled || fs.target_data_journal == Some(true)).then_some("data=journal")
        }
        "btrfs" => {
            let plain = mount.has_option("nodatasum") || mount.has_option("nodatacow");
            (!plain && fs.target_nocow != Some(true)).then_some("checksums")
        }
        "tmpfs" => Some("it lives in memory"),
        _ => None,
    };
    let Some(why) = why else { return Vec::new() };
    let summary = format!(
        "{} accepts direct I/O here but may let writes pass through the page cache ({why}).",
        fs.fs_type
    );
    vec![Finding::new("direct-io-buffered", Severity::Note, summary).advise(
        "do not compare these write figures with those of a filesystem that writes directly",
    )]
}

/// A loop device on a file with holes: the first write to each place also allocates, and holes read
/// from nowhere.
#[must_use]
pub fn loop_sparse(stack: &Stack) -> Vec<Finding> {
    loops(stack)
        .filter_map(|(node, facts)| {
            let (allocated, size) = conditions::sparse_backing(facts)?;
            let file = facts.backing_file.as_deref().unwrap_or("its file");
            let (has, of) = format_sizes(allocated, size);
            let summary = format!(
                "{} lies in a sparse file ({file}: {has} of {of} have space): \
                 reads of holes touch no disk, first writes allocate.",
                node.name
            );
            let finding = Finding::new("loop-sparse", Severity::Note, summary);
            let advice = finding.advise(
                "give it all its space, then write it once where nobody needs what is on it",
            );
            Some(advice.advise(format!("fallocate -l {size} {}", shell::word(file))))
        })
        .collect()
}

/// A loop device that goes through the page cache: everything is cached twice, and direct I/O is
/// not direct.
#[must_use]
pub fn loop_buffered(stack: &Stack) -> Vec<Finding> {
    loops(stack)
        .filter(|(_, facts)| facts.direct_io == Some(false))
        .map(|(node, _)| {
            let summary = format!(
                "{} uses its file through the page cache: direct I/O is answered from memory.",
                node.name
            );
            Finding::new("loop-buffered", Severity::Note, summary)
                .advise(format!("losetup --direct-io=on {}", shell::word(node.label())))
        })
        .collect()
}

/// Discards sent with every deletion: they stop other I/O on many drives.
#[must_use]
pub fn discard_online(stack: &Stack) -> Vec<Finding> {
    let Some(mount) = stack.mount() else { return Vec::new() };
    if !conditions::discards_at_once(mount) {
        return Vec::new();
    }
    let point = &mount.mount_point;
    let summary = format!(
        "{point} is mounted with discard: deleting files sends discards between other I/O."
    );
    let fs_type = stack.filesystem().and_then(|node| Some(node.fs.as_ref()?.fs_type.as_str()));
    let switch_off = match fs_type {
        Some("xfs") => "take discard out of /etc/fstab, then umount and mount".to_owned(),
        Some("btrfs") => format!("mount -o remount,discard=async {}", shell::word(point)),
        _ => format!("mount -o remount,nodiscard {}", shell::word(point)),
    };
    vec![
        Finding::new("discard-online", Severity::Note, summary)
            .advise("a weekly trim costs less: systemctl enable --now fstrim.timer")
            .advise(switch_off),
    ]
}

/// The device or the mount refuses writes.
#[must_use]
pub fn read_only(stack: &Stack) -> Vec<Finding> {
    let mut findings = Vec::new();
    let by_mount = stack.mount().filter(|mount| {
        mount.options.iter().chain(&mount.super_options).any(|option| option == "ro")
    });
    if let Some(mount) = by_mount {
        let summary =
            format!("{} is mounted read-only: only reads can be measured.", mount.mount_point);
        let finding = Finding::new("mount-read-only", Severity::Note, summary);
        let command = format!("mount -o remount,rw {}", shell::word(&mount.mount_point));
        findings.push(finding.advise(command));
    }
    for node in stack.block_devices().into_iter().filter(|node| node.read_only == Some(true)) {
        let summary = format!("{} is read-only: only reads can be measured.", node.label());
        let finding = Finding::new("device-read-only", Severity::Note, summary);
        findings.push(finding.advise(format!(
            "if that is not meant: blockdev --setrw {}",
            shell::word(node.label())
        )));
    }
    findings
}

/// Layers whose start does not fall on a physical block: small writes become read-modify-write.
#[must_use]
pub fn misaligned(stack: &Stack) -> Vec<Finding> {
    let walk = stack.walk();
    walk.into_iter().filter_map(|node| misaligned_by(stack, node)).collect()
}

fn misaligned_by(stack: &Stack, node: &Node) -> Option<Finding> {
    let name = node.label();
    if node.alignment_offset_bytes == Some(-1) {
        let summary = format!("{name} is misaligned: the layers below it do not agree on a grid.");
        let finding = Finding::new("misaligned", Severity::Note, summary);
        let finding = finding.advise("the layer has to be made anew; this shows where:");
        return Some(finding.advise("lsblk -t"));
    }
    let start = node.partition.as_ref()?.start_bytes?;
    let disk = stack.below(node).next()?;
    let queue = disk.queue.as_ref()?;
    let physical = queue.physical_block_bytes?.max(queue.minimum_io_bytes.unwrap_or(0));
    // Drives that are off by themselves say by how much.
    let shift = u64::try_from(disk.alignment_offset_bytes.unwrap_or(0)).ok()?;
    if physical == 0 || start.checked_sub(shift)?.is_multiple_of(physical) {
        return None;
    }
    let summary = format!(
        "{name} starts at byte {start}, not on a multiple of {physical}: \
         small writes become read, change, write."
    );
    let finding = Finding::new("misaligned", Severity::Note, summary);
    Some(finding.advise("partition anew from 1 MiB on (destroys what is on it): parted -a optimal"))
}

/// Cache of controller and drives that is assumed where none is known.
const CACHE_ASSUMED_BYTES: u64 = 256 << 20;

/// How much cache below the kernel a test has to defeat, and why that much.
///
/// Drives do not tell their cache in sysfs, so one figure is assumed for a stack with storage at
/// its bottom; memory needs none.
#[must_use]
pub fn cache_bytes_assumed(stack: &Stack) -> (u64, String) {
    let in_memory =
        |node: &&Node| matches!(node.kind, NodeKind::Memory | NodeKind::Zram | NodeKind::Ram);
    let leaves = stack.leaves();
    if !leaves.is_empty() && leaves.iter().all(in_memory) {
        return (0, "it lives in memory: there is no cache below".to_owned());
    }
    let disks = stack.disks();
    let size = format_size(CACHE_ASSUMED_BYTES);
    let why = match disks.as_slice() {
        [] => format!("the caches of what is below are unknown (assumed {size})"),
        [_] => format!("the controller and drive caches (assumed {size})"),
        many => {
            let sizes = many.iter().filter_map(|disk| disk.size_bytes).fold(0, u64::saturating_add);
            format!(
                "the controller and drive caches of {} disks, {} (assumed {size})",
                many.len(),
                format_capacity(sizes)
            )
        }
    };
    (CACHE_ASSUMED_BYTES, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::finding::Verdict;

    /// Injected: no machine here has such a clock.
    #[test]
    fn slow_clocks_are_told() {
        let verdict = |source: Option<&str>| {
            let clock_source = source.map(str::to_owned);
            let found = slow_clock(&HostFacts { clock_source, ..HostFacts::default() });
            found.map(|finding| Verdict::of([&finding]))
        };
        assert_eq!(verdict(Some("hpet")), Some(Verdict::Trusted));
        assert_eq!(verdict(Some("jiffies")), Some(Verdict::Void));
        assert_eq!(
            (verdict(Some("tsc")), verdict(Some("kvm-clock")), verdict(None)),
            (None, None, None)
        );
    }
}
