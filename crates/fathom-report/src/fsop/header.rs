//! The line that the original's runs began with: kernel, access times, barrier, file system, disk, place of the journal,
//! data mode, scheduler. And what these settings cost in integrity.

use fathom_base::units::format_size;
use fathom_model::fsop::{FsopRecord, SyncMode};
use fathom_model::record::Record;
use fathom_model::stack::{MountFacts, Stack};

/// The settings of the original's header, as far as they can be told.
#[must_use]
pub fn header(record: &Record, fsop: &FsopRecord) -> String {
    let stack = record.targets.first().map(|target| &target.stack);
    let mount = stack.and_then(Stack::mount);
    let mut parts = vec![format!("Linux {}", fsop.kernel.as_deref().unwrap_or("(unknown)"))];
    if let (Some(stack), Some(mount)) = (stack, mount) {
        parts.push(access_times(mount).to_owned());
        parts.extend(barrier(mount).map(|is_on| format!("barrier={}", u8::from(is_on))));
        parts.push(format!("fs={}", mount.fs_type));
        parts.push(format!("disk={}", disk(stack)));
        parts.extend(journal(stack, mount).map(|place| format!("journal={place}")));
        parts.extend(data_mode(stack, mount).map(|mode| format!("data={mode}")));
        let queue = stack.top_block_devices().first().and_then(|node| stack.queue_of(node));
        let scheduler = queue.and_then(|queue| queue.scheduler.clone());
        parts.extend(scheduler.map(|scheduler| format!("scheduler={scheduler}")));
    }
    if fsop.spec.sync != SyncMode::None {
        parts.push(format!("sync={}", fsop.spec.sync.word()));
    }
    parts.join(" ")
}

fn access_times(mount: &MountFacts) -> &'static str {
    if mount.has_option("noatime") {
        "noatime"
    } else if mount.has_option("relatime") {
        "relatime"
    } else {
        "strictatime"
    }
}

/// Whether flushes order writes; none where the file system has no such switch (any more).
fn barrier(mount: &MountFacts) -> Option<bool> {
    let off = mount.has_option("nobarrier") || mount.option_value("barrier") == Some("0");
    match mount.fs_type.as_str() {
        "ext2" => None,
        "ext3" | "ext4" | "reiserfs" | "btrfs" => Some(!off),
        // XFS took its switch away with Linux 4.19, and always flushes since.
        "xfs" => Some(!off),
        _ => off.then_some(false),
    }
}

/// Which data goes through the journal, or before it; none where there is no journal.
fn data_mode<'m>(stack: &Stack, mount: &'m MountFacts) -> Option<&'m str> {
    let is_ext = matches!(mount.fs_type.as_str(), "ext3" | "ext4");
    let is_journaled = is_ext && journal(stack, mount) != Some("none");
    mount.option_value("data").or(is_journaled.then_some("ordered"))
}

/// `int`, `ext` or `none`; none where nothing is known.
fn journal(stack: &Stack, mount: &MountFacts) -> Option<&'static str> {
    let fs = stack.filesystem()?.fs.as_ref()?;
    let is_external = fs.internal_log == Some(false)
        || ["journal_dev", "journal_path", "logdev"]
            .iter()
            .any(|key| mount.option_value(key).is_some());
    match fs.journal {
        _ if is_external => Some("ext"),
        Some(false) => Some("none"),
        Some(true) => Some("int"),
        None => fs.internal_log.map(|_| "int"),
    }
}

/// What it all lies on, in a few words.
fn disk(stack: &Stack) -> String {
    if let Some(md) = stack.array() {
        let level = md.level.clone().unwrap_or_else(|| "array".to_owned());
        return format!("md {level} of {}", stack.disks().len());
    }
    let disks = stack.disks();
    let Some(disk) = disks.first() else {
        let top = stack.top_block_devices().first().map(|node| node.label().to_owned());
        return top.unwrap_or_else(|| "none".to_owned());
    };
    let model = disk.drive.as_ref().and_then(|drive| drive.model.clone());
    let size = disk.size_bytes.map(format_size).unwrap_or_default();
    let name = model.unwrap_or_else(|| disk.name.clone());
    let times = if disks.len() > 1 { format!("{} x ", disks.len()) } else { String::new() };
    // A loop device tells more than the disk that its file lies on.
    match stack.top_block_devices().first().filter(|node| node.loop_device.is_some()) {
        Some(node) => format!("{} on {times}{name} {size}", node.name).trim().to_owned(),
        None => format!("{times}{name} {size}").trim().to_owned(),
    }
}

/// What the settings of journal, barrier and data mode give away for their speed, one line each.
#[must_use]
pub fn integrity(stack: &Stack) -> Vec<String> {
    let Some(mount) = stack.mount() else { return Vec::new() };
    let mut lines = Vec::new();
    if barrier(mount) == Some(false) {
        lines.push(
            "barrier=0: a power cut may destroy the filesystem unless every cache below has a battery".to_owned(),
        );
    }
    match data_mode(stack, mount) {
        Some("writeback") => lines.push(
            "data=writeback: after a crash, files that were written last may hold old or somebody else's data; the journal \
             replays in seconds all the same"
                .to_owned(),
        ),
        Some("journal") => lines.push(
            "data=journal: data is written twice; after a crash files hold what was written last, and the replay takes longer, \
             up to the size of the journal"
                .to_owned(),
        ),
        _ => {}
    }
    match journal(stack, mount) {
        Some("ext") => lines.push(
            "journal on another device: the filesystem is lost or needs a full check when that device is".to_owned(),
        ),
        Some("none") => lines.push(
            "no journal: after a crash the whole filesystem is checked (fsck), minutes to hours".to_owned(),
        ),
        _ => {}
    }
    let commit_s = mount.option_value("commit").and_then(|text| text.parse::<u64>().ok());
    if let Some(seconds) = commit_s.filter(|seconds| *seconds > 5) {
        lines.push(format!(
            "commit={seconds}: a crash loses what was done in up to {seconds} s, instead of 5 s"
        ));
    }
    lines
}
