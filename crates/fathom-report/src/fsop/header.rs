//! The line that the original's runs began with: kernel, access times, barrier, file system, disk, place of the journal,
//! data mode, scheduler. And what these settings cost in integrity.

use fathom_base::units::format_size;
use fathom_model::fsop::{FsopRecord, SyncMode};
use fathom_model::record::Record;
use fathom_model::stack::{MountFacts, Node, NodeKind, Stack};
use fathom_study::safety::{self, Price, barrier, data_mode, journal};
use std::collections::BTreeSet;

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
        let mut found = BTreeSet::new();
        stack.top_block_devices().iter().for_each(|node| schedulers(stack, node, &mut found));
        let found: Vec<&str> = found.into_iter().collect();
        if !found.is_empty() {
            parts.push(format!("scheduler={}", found.join("+")));
        }
    }
    if fsop.spec.sync != SyncMode::None {
        parts.push(format!("sync={}", fsop.spec.sync.word()));
    }
    parts.join(" ")
}

/// The schedulers of a device: its own, or of an array, a volume and the like, which hand requests on without one, those of the
/// devices below.
fn schedulers<'s>(stack: &'s Stack, node: &'s Node, found: &mut BTreeSet<&'s str>) {
    use NodeKind::{Bcache, Dm, Md, NvmeMultipath, Partition};
    let own = stack.queue_of(node).and_then(|queue| queue.scheduler.as_deref());
    let hands_on = matches!(node.kind, Md | Dm | Bcache | NvmeMultipath);
    match own {
        Some(word) if !hands_on || word != "none" => {
            found.insert(word);
        }
        _ if hands_on || node.kind == Partition => {
            stack.below(node).for_each(|below| schedulers(stack, below, found));
        }
        _ => {}
    }
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

/// What every setting of journal, barrier and data mode costs in integrity and in time after a crash, one line each: first those
/// that give something away for their speed.
#[must_use]
pub fn integrity(stack: &Stack) -> Vec<String> {
    let (usual, set): (Vec<Price>, Vec<Price>) =
        safety::prices(stack).into_iter().partition(|price| price.is_usual);
    let given = set.into_iter().map(|price| format!("{}: {}", price.setting, price.text));
    let safe = |price: Price| format!("{}: nothing given away; {}", price.setting, price.text);
    given.chain(usual.into_iter().map(safe)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::{FsFacts, QueueFacts};

    fn device(kind: NodeKind, name: &str, scheduler: Option<&str>, below: &[usize]) -> Node {
        let mut node = Node::new(kind, name);
        node.devno = Some("8:0".into());
        let scheduler = scheduler.map(str::to_owned);
        node.queue = Some(QueueFacts { scheduler, ..QueueFacts::default() });
        node.below = below.to_vec();
        node
    }

    fn told(nodes: Vec<Node>) -> Vec<String> {
        let stack = Stack { path: "x".into(), resolved_path: "x".into(), nodes, top: 0 };
        let mut found = BTreeSet::new();
        schedulers(&stack, &stack.nodes[0], &mut found);
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn an_array_has_the_schedulers_of_its_members() {
        use NodeKind::{Disk, Dm, Loop, Md, Partition};
        let mut partition = device(Partition, "sdb1", None, &[4]);
        partition.queue = None;
        let array = vec![
            device(Dm, "dm-0", Some("none"), &[1]),
            device(Md, "md0", None, &[2, 3]),
            device(Disk, "sda", Some("mq-deadline"), &[]),
            partition,
            device(Disk, "sdb", Some("bfq"), &[]),
        ];
        assert_eq!(told(array), ["bfq", "mq-deadline"]);
        let multipath =
            vec![device(Dm, "dm-1", Some("kyber"), &[1]), device(Disk, "sda", Some("none"), &[])];
        assert_eq!(told(multipath), ["kyber"], "a device-mapper device with a queue of its own");
        let file =
            vec![device(Loop, "loop0", Some("none"), &[1]), device(Disk, "sda", Some("bfq"), &[])];
        assert_eq!(told(file), ["none"], "what lies below a file is another matter");
    }

    #[test]
    fn every_setting_has_its_price() {
        let mut mount = Node::new(NodeKind::Mount, "/srv");
        mount.mount = Some(MountFacts {
            fs_type: "ext4".into(),
            options: vec!["rw".into(), "data=writeback".into()],
            ..MountFacts::default()
        });
        mount.below = vec![1];
        let mut fs = Node::new(NodeKind::FileSystem, "ext4");
        fs.fs = Some(FsFacts { journal: Some(true), ..FsFacts::default() });
        let nodes = vec![mount, fs];
        let stack = Stack { path: "/srv".into(), resolved_path: "/srv".into(), nodes, top: 0 };
        let lines = integrity(&stack);
        assert!(lines[0].starts_with("data=writeback: after a crash, files"), "{lines:?}");
        assert!(lines[1].starts_with("barrier=1: nothing given away; the order"), "{lines:?}");
        let place =
            "journal on the device itself: nothing given away; after a crash it is replayed";
        assert!(lines[2].starts_with(place) && lines.len() == 3, "{lines:?}");
    }
}
