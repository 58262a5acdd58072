//! Conditions that a measurement and a look at a system in use both ask about: each stands here once, with its words and
//! its thresholds.

use fathom_model::stack::{DmFacts, FsFacts, LoopFacts, MdFacts, MountFacts, Node};

/// What an array is busy with beside serving I/O, as the end of a sentence; none for one that only serves.
pub(crate) fn array_work(md: &MdFacts) -> Option<&'static str> {
    match md.sync_action.as_deref()? {
        "check" => Some("is checking itself"),
        "repair" => Some("is repairing itself"),
        "resync" => Some("is making its copies or parity agree"),
        "recover" => Some("is rebuilding a member"),
        "reshape" => Some("is being reshaped"),
        _ => None,
    }
}

/// ` (43 % done)`, or nothing where that is not known.
pub(crate) fn done_words(md: &MdFacts) -> String {
    let share = md.sync_completed_share;
    share.map_or_else(String::new, |share| format!(" ({:.0} % done)", share * 100.0))
}

/// Names of the members that the array has given up.
pub(crate) fn failed_members(md: &MdFacts) -> Vec<&str> {
    let is_faulty = |state: &String| state.contains("faulty");
    let faulty = md.members.iter().filter(|member| member.state.as_ref().is_some_and(is_faulty));
    faulty.map(|member| member.name.as_str()).collect()
}

/// By the map's status (`8:0 F` where `8:0 A` is a path that works), which only root sees, or by the state that the
/// kernel gives the path's device.
pub(crate) fn is_failed_path(dm: &DmFacts, path: &Node) -> bool {
    let fails_in_map = dm.status.iter().any(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.windows(2).any(|pair| Some(pair[0]) == path.devno.as_deref() && pair[1] == "F")
    });
    let state = path.drive.as_ref().and_then(|drive| drive.state.as_deref());
    let works = ["running", "live", "optimized", "non-optimized"];
    fails_in_map || state.is_some_and(|state| !works.contains(&state))
}

/// Share of a filesystem from which on it counts as nearly full; the same of its inodes.
pub(crate) const FULL_SHARE: f64 = 0.9;

/// Used share of the space that everybody may use, 0 to 1, as `df` counts: what is kept back for root is no part of it.
pub(crate) fn used_share(fs: &FsFacts) -> Option<f64> {
    let (available, total) = (fs.available_bytes?, fs.total_bytes.filter(|&total| total > 0)?);
    let free = fs.free_bytes.unwrap_or(available).max(available);
    let used = total.saturating_sub(free);
    let all = used.saturating_add(available);
    (all > 0).then(|| used as f64 / all as f64)
}

/// Free and all inodes, when few are left.
pub(crate) fn few_inodes(fs: &FsFacts) -> Option<(u64, u64)> {
    let (free, all) = (fs.inodes_free?, fs.inodes.filter(|&all| all > 0)?);
    ((free as f64) < all as f64 * (1.0 - FULL_SHARE)).then_some((free, all))
}

/// Seconds after which a filesystem counts as old enough to be ready, when nothing better is known.
const LAZY_INIT_AGE_S: i64 = 24 * 3600;

/// How much of an ext filesystem's inode tables the kernel has still to zero, in words; none when nothing is left.
///
/// Where the block groups could be read, they decide. Otherwise the age of the filesystem does, where it is known, beside the kernel's thread
/// (the caller looks for it), which exists only while some ext4 has work for it.
pub(crate) fn lazy_init_left(
    fs: &FsFacts,
    mount: Option<&MountFacts>,
    now_unix_s: i64,
) -> Option<String> {
    // What takes no writes, by wish or after an error, is not prepared either.
    let ends = ["noinit_itable", "ro", "emergency_ro", "shutdown"];
    let off = mount.is_some_and(|m| ends.into_iter().any(|option| m.has_option(option)));
    if !fs.fs_type.starts_with("ext") || off {
        return None;
    }
    let young =
        fs.made_at_unix_s.is_some_and(|made| now_unix_s.saturating_sub(made) <= LAZY_INIT_AGE_S);
    match (fs.groups_uninitialised, fs.groups) {
        (Some(0), _) => None,
        (Some(left), Some(groups)) => Some(format!("{left} of {groups} block groups are left")),
        _ if young => {
            Some("its thread ext4lazyinit runs; how much is left could not be read".to_owned())
        }
        _ => None,
    }
}

/// Every deletion sends its discards at once. F2FS and bcachefs, which mount with that option of themselves, send them later and
/// in the background.
pub(crate) fn discards_at_once(mount: &MountFacts) -> bool {
    let sync = mount.has_option("discard") || mount.option_value("discard") == Some("sync");
    let later = matches!(mount.fs_type.as_str(), "f2fs" | "bcachefs");
    sync && !later && !mount.has_option("nodiscard")
}

/// Allocated bytes and size of the file behind a loop device, when it has holes.
pub(crate) fn sparse_backing(facts: &LoopFacts) -> Option<(u64, u64)> {
    let (size, allocated) = (facts.backing_size_bytes?, facts.backing_allocated_bytes?);
    (allocated < size).then_some((allocated, size))
}
