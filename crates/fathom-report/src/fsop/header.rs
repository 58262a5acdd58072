//! The line that the original's runs began with: kernel, access times, barrier, file system, disk, place of the journal,
//! data mode, scheduler. And what these settings cost in integrity.

use fathom_base::units::format_size;
use fathom_model::fsop::{FsopRecord, SyncMode};
use fathom_model::record::Record;
use fathom_model::stack::{MountFacts, Stack};
use fathom_study::safety::{self, barrier, data_mode, journal};

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
    let set = safety::prices(stack).into_iter().filter(|price| !price.is_usual);
    set.map(|price| format!("{}: {}", price.setting, price.text)).collect()
}
