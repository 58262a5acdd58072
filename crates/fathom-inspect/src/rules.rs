//! Rules: pure functions from facts to findings.
//!
//! Each looks at one thing, says what it saw with figures, and ends with a command where there is
//! one.

use crate::describe::format_capacity;
use fathom_base::units::format_size;
use fathom_model::finding::{Finding, Severity};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_sys::hostinfo;
use fathom_sys::sysroot::SysRoot;

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

impl Surroundings {
    /// Looks around; `store` is the stack of the directory that results go to, `now_unix_s` the
    /// time.
    #[must_use]
    pub fn read(root: &SysRoot, store: Option<Stack>, now_unix_s: i64) -> Self {
        let ext4_lazy_init_thread =
            hostinfo::any_process_named(root, |name| name == "ext4lazyinit");
        Self { ext4_lazy_init_thread, store, now_unix_s }
    }
}

/// All rules on one stack, the most serious findings first.
#[must_use]
pub fn judge(stack: &Stack, around: &Surroundings) -> Vec<Finding> {
    let mut findings = [
        md_busy(stack),
        md_degraded(stack),
        ext4_lazy_init(stack, around),
        filesystem_errors(stack),
        mounted_above(stack),
        around.store.as_ref().map(|store| store_on_target(stack, store)).unwrap_or_default(),
        filesystem_full(stack),
        direct_io_buffered(stack),
        loop_sparse(stack),
        loop_buffered(stack),
        discard_online(stack),
        read_only(stack),
        misaligned(stack),
    ]
    .concat();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// An array that copies, rebuilds or checks: it takes its share of every member's time.
#[must_use]
pub fn md_busy(stack: &Stack) -> Vec<Finding> {
    let walk = stack.walk();
    let busy = walk.into_iter().filter_map(|node| Some((node, node.md.as_ref()?)));
    busy.filter_map(|(node, md)| {
        let action = md.sync_action.as_deref()?;
        let words = match action {
            "check" => "is checking itself",
            "repair" => "is repairing itself",
            "resync" => "is making its copies or parity agree",
            "recover" => "is rebuilding a member",
            "reshape" => "is being reshaped",
            _ => return None,
        };
        let share = md.sync_completed_share;
        let share = share.map_or_else(String::new, |s| format!(" ({:.0} % done)", s * 100.0));
        let name = &node.name;
        let summary = format!("{name} {words}{share}: rates are too low, tails too long.");
        let command = if matches!(action, "check" | "repair") {
            format!("wait, or: echo idle > /sys/block/{name}/md/sync_action")
        } else {
            format!("wait for its end: mdadm --wait {}", node.label())
        };
        Some(Finding::new("md-sync-running", Severity::Doubtful, summary).advise(command))
    })
    .collect()
}

/// An array without all its members is not the array that it will be again.
#[must_use]
pub fn md_degraded(stack: &Stack) -> Vec<Finding> {
    let walk = stack.walk();
    let arrays = walk.into_iter().filter_map(|node| Some((node, node.md.as_ref()?)));
    arrays
        .filter_map(|(node, md)| {
            let missing = md.degraded.filter(|&missing| missing > 0)?;
            let all = md.raid_disks.map_or_else(String::new, |all| format!(" of {all}"));
            let faulty = md.members.iter().filter(|member| {
                member.state.as_deref().is_some_and(|state| state.contains("faulty"))
            });
            let faulty: Vec<&str> = faulty.map(|member| member.name.as_str()).collect();
            let faulty = match faulty.as_slice() {
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
                    .advise(format!("mdadm --detail {}", node.label())),
            )
        })
        .collect()
}

/// Seconds after which a filesystem counts as old enough to be ready, when nothing better is known.
const LAZY_INIT_AGE_S: i64 = 24 * 3600;

/// A young ext4 whose inode tables the kernel still zeroes in the background.
///
/// Where the block groups could be read, they decide. Otherwise the age of the filesystem does,
/// beside the kernel's thread, which exists only while some ext4 has work for it.
#[must_use]
pub fn ext4_lazy_init(stack: &Stack, around: &Surroundings) -> Vec<Finding> {
    let Some(fs) = stack.filesystem().and_then(|node| node.fs.as_ref()) else { return Vec::new() };
    let mount = stack.mount();
    let off = mount.is_some_and(|m| m.has_option("noinit_itable") || m.has_option("ro"));
    if !fs.fs_type.starts_with("ext") || !around.ext4_lazy_init_thread || off {
        return Vec::new();
    }
    let old = fs.made_at_unix_s.is_some_and(|made| around.now_unix_s - made > LAZY_INIT_AGE_S);
    let evidence = match (fs.groups_uninitialised, fs.groups) {
        (Some(0), _) => return Vec::new(),
        (Some(left), Some(groups)) => format!("{left} of {groups} block groups are left"),
        _ if old => return Vec::new(),
        _ => "its thread ext4lazyinit runs; how much is left could not be read".to_owned(),
    };
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
        format!("btrfs device stats {place}")
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

/// Share of a filesystem from which on it counts as nearly full.
const FULL_SHARE: f64 = 0.9;

/// A nearly full filesystem has only leftovers to give: files get scattered.
#[must_use]
pub fn filesystem_full(stack: &Stack) -> Vec<Finding> {
    let Some(fs) = stack.filesystem().and_then(|node| node.fs.as_ref()) else { return Vec::new() };
    let place = stack.mount().map_or("", |mount| mount.mount_point.as_str());
    let mut findings = Vec::new();
    if let (Some(available), Some(total @ 1..)) = (fs.available_bytes, fs.total_bytes) {
        let used = 1.0 - available as f64 / total as f64;
        if used > FULL_SHARE {
            let summary = format!(
                "{place} is {:.0} % full ({} left): new files get scattered, rates fall.",
                used * 100.0,
                format_size(available)
            );
            let finding = Finding::new("filesystem-full", Severity::Note, summary);
            findings
                .push(finding.advise(format!("find what can go: du -xh --max-depth=2 {place}")));
        }
    }
    if let (Some(free), Some(all @ 1..)) = (fs.inodes_free, fs.inodes)
        && (free as f64) < all as f64 * (1.0 - FULL_SHARE)
    {
        let summary = format!("{place} has only {free} of {all} inodes left.");
        let finding = Finding::new("inodes-low", Severity::Note, summary);
        findings.push(finding.advise(format!("see where they went: du -x --inodes {place}")));
    }
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
    let walk = stack.walk();
    let loops = walk.into_iter().filter_map(|node| Some((node, node.loop_device.as_ref()?)));
    loops
        .filter_map(|(node, facts)| {
            let (size, allocated) = (facts.backing_size_bytes?, facts.backing_allocated_bytes?);
            if allocated >= size {
                return None;
            }
            let file = facts.backing_file.as_deref().unwrap_or("its file");
            let summary = format!(
                "{} lies in a sparse file ({file}: {} of {} have space): \
                 reads of holes touch no disk, first writes allocate.",
                node.name,
                format_size(allocated),
                format_size(size)
            );
            let finding = Finding::new("loop-sparse", Severity::Note, summary);
            let advice = finding.advise("give it all its space, then write it once");
            Some(advice.advise(format!("fallocate -l {size} {file}")))
        })
        .collect()
}

/// A loop device that goes through the page cache: everything is cached twice, and direct I/O is
/// not direct.
#[must_use]
pub fn loop_buffered(stack: &Stack) -> Vec<Finding> {
    let walk = stack.walk();
    let loops = walk.into_iter().filter_map(|node| Some((node, node.loop_device.as_ref()?)));
    loops
        .filter(|(_, facts)| facts.direct_io == Some(false))
        .map(|(node, _)| {
            let summary = format!(
                "{} uses its file through the page cache: direct I/O is answered from memory.",
                node.name
            );
            Finding::new("loop-buffered", Severity::Note, summary)
                .advise(format!("losetup --direct-io=on {}", node.label()))
        })
        .collect()
}

/// Discards sent with every deletion: they stop other I/O on many drives.
#[must_use]
pub fn discard_online(stack: &Stack) -> Vec<Finding> {
    let Some(mount) = stack.mount() else { return Vec::new() };
    let sync = mount.has_option("discard") || mount.option_value("discard") == Some("sync");
    if !sync || mount.has_option("nodiscard") {
        return Vec::new();
    }
    let point = &mount.mount_point;
    let summary = format!(
        "{point} is mounted with discard: deleting files sends discards between other I/O."
    );
    vec![
        Finding::new("discard-online", Severity::Note, summary)
            .advise("a weekly trim costs less: systemctl enable --now fstrim.timer")
            .advise(format!("mount -o remount,nodiscard {point}")),
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
        findings.push(finding.advise(format!("mount -o remount,rw {}", mount.mount_point)));
    }
    for node in stack.block_devices().into_iter().filter(|node| node.read_only == Some(true)) {
        let summary = format!("{} is read-only: only reads can be measured.", node.label());
        let finding = Finding::new("device-read-only", Severity::Note, summary);
        findings.push(
            finding.advise(format!("if that is not meant: blockdev --setrw {}", node.label())),
        );
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
        return Some(finding.advise("lsblk -t    shows where; the layer has to be made anew"));
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
            let sizes: u64 = many.iter().filter_map(|disk| disk.size_bytes).sum();
            format!(
                "the controller and drive caches of {} disks, {} (assumed {size})",
                many.len(),
                format_capacity(sizes)
            )
        }
    };
    (CACHE_ASSUMED_BYTES, why)
}
