//! Discards that come at once, never, or not through.

use super::tests::{on_disk, timer};
use super::trim;
use crate::fixtures::{Bench, GIB, MIB};
use fathom_model::defect::{Certainty, Gravity, Step};
use fathom_model::stack::{Node, NodeKind};

#[test]
fn discards_at_once_are_told_by_drive() {
    let (mut bench, _, mount) = on_disk("ext4");
    bench.mount_of(mount).super_options.push("discard".into());
    assert_eq!(bench.one(trim::online).gravity, Gravity::Medium);
    for cheap in ["nvme", "virtio"] {
        bench.drive_of(0).transport = Some(cheap.into());
        assert_eq!(bench.one(trim::online).gravity, Gravity::Low, "{cheap}");
    }
    *bench.mount_of(mount).super_options.last_mut().unwrap() = "discard=async".into();
    assert_eq!(bench.ask(trim::online), []);
    // Of a drive that is not known nothing grave can be said, and memory takes them gladly.
    let (mut bench, fs, mount) = on_disk("ext4");
    bench.mount_of(mount).super_options.push("discard".into());
    bench.node(fs).below.clear();
    let unknown = bench.add(Node::new(NodeKind::Unknown, "/dev/root"), &[]);
    bench.node(fs).below.push(unknown);
    let defect = bench.one(trim::online);
    assert_eq!((defect.gravity, defect.certainty), (Gravity::Low, Certainty::Possible));
    let tmpfs = bench.add(Node::new(NodeKind::Memory, "tmpfs"), &[]);
    let image = bench.loop_device("loop0", &[tmpfs]);
    bench.node(fs).below = vec![image];
    assert_eq!(bench.ask(trim::online), []);
    // F2FS says this of itself, and sends them in the background.
    let (mut bench, _, mount) = on_disk("f2fs");
    bench.mount_of(mount).super_options.push("discard".into());
    assert_eq!(bench.ask(trim::online), []);
}

#[test]
fn flash_wants_to_be_told_what_is_free() {
    let mut bench = Bench::new();
    let ssd = bench.ssd("sda");
    let part = bench.partition("sda1", MIB, ssd);
    let (_, mount) = bench.mounted("ext4", "/srv", part);
    assert_eq!(bench.ask(trim::never), [], "timers were not read");
    bench.snapshot.system.timers = vec![timer("md-check", true), timer("trim", false)];
    assert_eq!(bench.one(trim::never).gravity, Gravity::Medium);
    bench.snapshot.system.timers[1].enabled = true;
    assert_eq!(bench.ask(trim::never), []);
    bench.snapshot.system.timers[1].enabled = false;
    bench.mount_of(mount).super_options.push("discard".into());
    assert_eq!(bench.ask(trim::never), []);
    bench.mount_of(mount).super_options.pop();
    // ZFS has ways of its own, and for all others one timer is enough.
    let other = bench.ssd("sdb");
    let (zfs, _) = bench.mounted("zfs", "/tank", other);
    assert!(bench.one(trim::never).also.is_empty());
    bench.fs_of(zfs).fs_type = "xfs".into();
    let defect = bench.one(trim::never);
    assert_eq!(defect.summary, "/srv, /tank lie on flash that nobody tells what is free");
    assert_eq!((defect.also.len(), defect.evidence.len()), (1, 3));
    bench.drive_of(other).transport = Some("virtio".into());
    bench.drive_of(ssd).transport = Some("virtio".into());
    assert_eq!(bench.ask(trim::never), [], "what is below is the host's matter");
}

#[test]
fn a_layer_that_keeps_discards_is_told() {
    let mut bench = Bench::new();
    let ssd = bench.ssd("sda");
    let table = ["0 8 crypt aes-xts-plain64 - 0 8:0 32768".to_owned()];
    let crypt = bench.dm("dm-0", "home", "CRYPT-LUKS2-x", &table, &[ssd]);
    assert_eq!(bench.ask(trim::lost), [], "nothing is mounted there");
    bench.mounted("ext4", "/home", crypt);
    let defect = bench.one(trim::lost);
    assert_eq!(defect.gravity, Gravity::Low);
    assert_eq!(
        defect.fix[0].command.as_deref(),
        Some("cryptsetup refresh --allow-discards --persistent home")
    );
    bench.dm_of(crypt).table =
        vec!["0 8 crypt aes-xts-plain64 - 0 8:0 32768 1 no_write_workqueue".to_owned()];
    assert_eq!(
        bench.one(trim::lost).fix[0].command.as_deref(),
        Some("cryptsetup refresh --allow-discards --perf-no_write_workqueue --persistent home"),
        "what the mapping has stays"
    );
    bench.queue_of(crypt).discard_max_bytes = Some(GIB);
    assert_eq!(bench.ask(trim::lost), []);
    // Only the layer that keeps them is told, not those on it.
    bench.queue_of(crypt).discard_max_bytes = Some(0);
    let volume = bench.dm("dm-1", "vg-data", "LVM-x", &["0 8 linear 253:1 0".to_owned()], &[crypt]);
    bench.mounted("xfs", "/data", volume);
    assert_eq!(bench.one(trim::lost).node.as_deref(), Some("/dev/dm-0"));
    bench.queue_of(ssd).discard_max_bytes = Some(0);
    assert_eq!(bench.ask(trim::lost), []);
}

#[test]
fn a_pool_that_keeps_what_is_free_is_told() {
    let mut bench = Bench::new();
    let (ssd, other) = (bench.ssd("sda"), bench.ssd("sdb"));
    bench.queue_of(other).discard_max_bytes = Some(0);
    let linear = |_| ["0 8 linear 8:0 2048".to_owned()];
    let meta = bench.dm("dm-0", "vg-pool_tmeta", "LVM-m", &linear(0), &[other]);
    let data = bench.dm("dm-1", "vg-pool_tdata", "LVM-d", &linear(1), &[ssd]);
    let table =
        |features: &str| vec![format!("0 8 thin-pool 253:{meta} 253:{data} 128 0{features}")];
    let pool = bench.dm("dm-2", "vg-pool-tpool", "LVM-p", &table(""), &[meta, data]);
    let thin = bench.dm("dm-3", "vg-thin", "LVM-t", &["0 8 thin 253:3 1".to_owned()], &[pool]);
    for layer in [data, pool, thin] {
        bench.queue_of(layer).discard_max_bytes = Some(GIB);
    }
    bench.mounted("ext4", "/data", thin);
    let status =
        |word: &str| vec![format!("0 8 thin-pool 1 1/9 1/9 - rw {word} queue_if_no_space")];
    bench.dm_of(pool).status = status("discard_passdown");
    assert_eq!(bench.ask(trim::lost), []);
    // As the kernel shows it: the device of the pool takes none itself.
    bench.dm_of(pool).status = status("no_discard_passdown");
    bench.queue_of(pool).discard_max_bytes = Some(0);
    bench.dm_of(pool).table = table(" 1 no_discard_passdown");
    let defect = bench.one(trim::lost);
    assert_eq!(defect.node.as_deref(), Some("/dev/dm-2"), "the metadata takes none, and need not");
    assert_eq!(defect.fix[0].command.as_deref(), Some("lvchange --discards passdown vg/pool"));
    bench.dm_of(pool).table = table("");
    assert_eq!(bench.one(trim::lost).fix[0].command, None, "the kernel's own choice");
    bench.dm_of(pool).table = table(" 1 ignore_discard");
    bench.dm_of(pool).status = status("ignore_discard");
    bench.queue_of(meta).discard_max_bytes = Some(GIB);
    let fix = bench.one(trim::lost).fix;
    assert!(fix[0].text.ends_with("lvchange --discards passdown vg/pool"), "{fix:?}");
    bench.queue_of(meta).discard_max_bytes = Some(0);
    bench.queue_of(data).discard_max_bytes = Some(0);
    assert_eq!(bench.one(trim::lost).node.as_deref(), Some("/dev/dm-1"), "the cause lies below");
    bench.queue_of(ssd).discard_max_bytes = Some(0);
    assert_eq!(bench.ask(trim::lost), []);
}

#[test]
fn a_loop_device_whose_file_keeps_its_space_is_told() {
    let (mut bench, _, mount) = on_disk("vfat");
    let image = bench.loop_device("loop0", &[mount]);
    bench.node(image).read_only = Some(false);
    bench.queue_of(image).discard_max_bytes = Some(0);
    assert_eq!(bench.ask(trim::lost), [], "nothing is mounted there");
    bench.mounted("ext4", "/inner", image);
    let defect = bench.one(trim::lost);
    assert_eq!(defect.node.as_deref(), Some("/dev/loop0"), "also where the disk turns");
    assert!(defect.evidence.iter().any(|seen| seen.value.starts_with("vfat at ")), "{defect:?}");
    bench.queue_of(image).discard_max_bytes = Some(GIB);
    assert_eq!(bench.ask(trim::lost), []);
    bench.queue_of(image).discard_max_bytes = Some(0);
    bench.node(image).read_only = Some(true);
    assert_eq!(bench.ask(trim::lost), [], "an image that is only read");
}

#[test]
fn discards_are_switched_off_by_what_does_so() {
    for (fs_type, remounts) in
        [("ext4", true), ("btrfs", true), ("xfs", false), ("vfat", false), ("exfat", false)]
    {
        let mut bench = Bench::new();
        let ssd = bench.ssd("sda");
        let (_, mount) = bench.mounted(fs_type, "/srv", ssd);
        bench.mount_of(mount).super_options.push("discard".into());
        let fix = bench.one(trim::online).fix;
        let is_remount = |step: &Step| step.command.as_ref().is_some_and(|c| c.contains("remount"));
        assert_eq!(fix.iter().any(is_remount), remounts, "{fs_type}: {fix:?}");
    }
}

/// What the hardware takes, and the kernel was told not to send.
#[test]
fn discards_that_somebody_switched_off_are_told() {
    for kind in [NodeKind::Disk, NodeKind::Loop] {
        let mut bench = Bench::new();
        let mut device = bench.ssd("sda");
        if kind == NodeKind::Loop {
            let (_, below) = bench.mounted("ext4", "/srv", device);
            device = bench.loop_device("loop0", &[below]);
            bench.node(device).queue = bench.node(0).queue.clone();
            bench.node(device).read_only = Some(false);
        }
        bench.mounted("ext4", "/inside", device);
        assert_eq!(bench.ask(trim::lost), []);
        bench.queue_of(device).discard_max_bytes = Some(0);
        let most = |bytes: &str| vec![("discard_max_hw_bytes".to_owned(), bytes.to_owned())];
        bench.detail_of(device).queue = most("0");
        assert!(!format!("{:?}", bench.ask(trim::lost)).contains("switched off"), "it takes none");
        bench.detail_of(device).queue = most("1048576");
        let found = bench.one(trim::lost);
        let key = bench.node(device).key();
        assert_eq!(found.node, Some(key.clone()));
        let name = key.trim_start_matches("/dev/");
        let command = format!("echo 1048576 > /sys/class/block/{name}/queue/discard_max_bytes");
        assert_eq!(found.fix[0].command, Some(command));
    }
}
