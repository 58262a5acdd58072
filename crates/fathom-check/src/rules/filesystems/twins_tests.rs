//! Filesystems that are there twice.

use super::tests::on_disk;
use super::{RULES, loops, state, twins::twins};
use crate::fixtures::{Bench, GIB, MIB, assert_complete};
use fathom_model::defect::Gravity;
use fathom_model::stack::detail::{FsSuperblock, MdSuperblock};
use fathom_model::system::FstabEntry;

fn superblock(fs_type: &str, device_uuid: Option<&str>) -> Option<FsSuperblock> {
    Some(FsSuperblock {
        fs_type: fs_type.into(),
        uuid: Some("11-22".into()),
        device_uuid: device_uuid.map(str::to_owned),
        ..FsSuperblock::default()
    })
}

/// Two disks with the same filesystem.
fn two(fs_type: &str) -> (Bench, [usize; 2]) {
    let mut bench = Bench::new();
    let disks = ["sda", "sdb"].map(|name| bench.disk(name));
    for disk in disks {
        let device_uuid = (fs_type == "btrfs").then_some("33-44");
        bench.content_of(disk).filesystem = superblock(fs_type, device_uuid);
    }
    (bench, disks)
}

#[test]
fn the_graver_the_likelier_it_is_that_the_wrong_one_is_taken() {
    for (fs_type, used) in
        [("ext4", Gravity::Medium), ("xfs", Gravity::Medium), ("btrfs", Gravity::High)]
    {
        let (mut bench, disks) = two(fs_type);
        let unused = bench.one(twins);
        assert_eq!(unused.gravity, Gravity::Low, "{fs_type}");
        assert!(format!("{:?}", unused.fix).contains("/dev/COPY"), "either: {unused:?}");
        bench.mounted(fs_type, "/srv", disks[0]);
        let defect = bench.one(twins);
        assert_complete(&defect);
        assert_eq!((defect.gravity, defect.node.as_deref()), (used, Some("/dev/sda")), "{fs_type}");
        assert!(defect.evidence[0].value.ends_with(", in use"), "{defect:?}");
        assert!(format!("{:?}", defect.fix).contains("/dev/sdb"), "{defect:?}");
        bench.snapshot.system.configuration.fstab.push(FstabEntry {
            source: "UUID=\"11-22\"".into(),
            mount_point: "/srv".into(),
            ..FstabEntry::default()
        });
        assert_eq!(bench.one(twins).gravity, Gravity::High, "{fs_type}");
        bench.knows_mounts(false);
        let defect = bench.one(twins);
        assert!(defect.evidence[1].value.ends_with("is not known"), "{defect:?}");
    }
}

#[test]
fn devices_of_one_filesystem_members_and_paths_are_no_twins() {
    let (mut bench, disks) = two("btrfs");
    bench.content_of(disks[1]).filesystem = superblock("btrfs", None);
    assert_eq!(bench.ask(twins), [], "it is not known which device it is");
    for (disk, uuid) in disks.into_iter().zip(["a", "b"]) {
        bench.content_of(disk).filesystem = superblock("btrfs", Some(uuid));
    }
    assert_eq!(bench.ask(twins), []);
    bench.content_of(disks[1]).filesystem = superblock("btrfs", Some("a"));
    assert_eq!(bench.ask(twins).len(), 1);
    // Halves of a mirror show what is on it, running or not.
    let (mut bench, disks) = two("ext4");
    let md = bench.md("md0", "raid1", &disks);
    bench.content_of(md).filesystem = superblock("ext4", None);
    assert_eq!(bench.ids(RULES), [""; 0]);
    let (mut bench, disks) = two("ext4");
    for disk in disks {
        bench.content_of(disk).md =
            Some(MdSuperblock { version: "1.0".into(), ..MdSuperblock::default() });
    }
    assert_eq!(bench.ask(twins), []);
    // One drive over two paths, and two partitions of it.
    let (mut bench, disks) = two("ext4");
    bench.drive_of(disks[1]).wwn = bench.drive_of(disks[0]).wwn.clone();
    assert_eq!(bench.ask(twins), []);
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    for (name, start) in [("sda1", MIB), ("sda2", 2 * MIB)] {
        let part = bench.partition(name, start, disk);
        bench.content_of(part).filesystem = superblock("ext4", None);
    }
    assert_eq!(bench.ask(twins).len(), 1);
}

/// A snapshot of a volume has its origin's UUID for good reason.
#[test]
fn snapshots_are_only_told() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let table = ["0 8 linear 8:0 2048".to_owned()];
    let volumes = ["data", "snap"].map(|name| {
        let uuid = format!("LVM-{name}");
        bench.dm(&format!("dm-{name}"), &format!("vg-{name}"), &uuid, &table, &[disk])
    });
    for volume in volumes {
        bench.content_of(volume).filesystem = superblock("xfs", None);
    }
    bench.mounted("xfs", "/srv", volumes[0]);
    assert_eq!(bench.one(twins).gravity, Gravity::Low);
}

/// An image that is attached twice is no copy, and nothing may be written to it.
#[test]
fn one_file_attached_twice_is_no_copy() {
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let (_, mount) = bench.mounted("ext4", "/srv", disk);
        let devices = ["loop0", "loop1"].map(|name| bench.loop_device(name, &[mount]));
        let device_uuid = (fs_type == "btrfs").then_some("33-44");
        for device in devices {
            // The same by another name, as a hard link.
            bench.detail_of(device).backing_inode = Some("8:1 12".into());
            bench.content_of(device).filesystem = superblock(fs_type, device_uuid);
        }
        bench.node(devices[1]).loop_device.as_mut().unwrap().backing_file = Some("/x".into());
        assert_eq!(bench.one(twins).gravity, Gravity::Low);
        bench.mounted(fs_type, "/inside", devices[0]);
        let defect = bench.one(twins);
        assert_eq!((defect.gravity, defect.node.as_deref()), (Gravity::Medium, Some("/dev/loop0")));
        assert!(defect.fix.iter().all(|step| step.command.is_none()), "{defect:?}");
        assert!(!format!("{:?}", defect.fix).contains("UUID"), "{defect:?}");
        bench.mounted(fs_type, "/again", devices[1]);
        assert_eq!(bench.one(twins).gravity, Gravity::High);
        // A partition of one, and the other with an offset to it.
        let mut parts = bench;
        let part = parts.partition("loop0p1", MIB, devices[0]);
        parts.content_of(part).filesystem = parts.content_of(devices[0]).filesystem.take();
        parts.node(devices[1]).loop_device.as_mut().unwrap().offset_bytes = Some(MIB);
        assert!(parts.one(twins).summary.contains("attached several times"));
        // Elsewhere in the same file lies a copy.
        parts.node(devices[1]).loop_device.as_mut().unwrap().offset_bytes = Some(2 * MIB);
        assert!(parts.one(twins).summary.contains("all say"));
        parts.node(devices[1]).loop_device.as_mut().unwrap().offset_bytes = Some(MIB);
        parts.detail_of(devices[1]).backing_inode = Some("8:1 13".into());
        assert!(parts.one(twins).summary.contains("all say"));
    }
}

/// What is written to the file through one loop device is written to what another shows.
#[test]
fn the_file_of_two_loop_devices_is_not_written_over() {
    let (mut bench, _, below) = on_disk("ext4");
    let devices = ["loop0", "loop1"].map(|name| bench.loop_device(name, &[below]));
    for device in devices {
        bench.node(device).loop_device.as_mut().unwrap().backing_allocated_bytes = Some(0);
    }
    let once = |bench: &Bench| bench.ask(loops::sparse).remove(1).fix.remove(1);
    assert!(once(&bench).text.contains("other loop devices"), "both are of one file");
    for (device, inode) in devices.into_iter().zip(["8:1 12", "8:1 13"]) {
        bench.detail_of(device).backing_inode = Some(inode.into());
    }
    assert!(!once(&bench).text.contains("other loop devices"), "one has lost its name");
}

/// An ext4 that is mounted through one loop device is not mounted through another.
#[test]
fn what_is_mounted_through_another_loop_device_is_in_use() {
    let (mut bench, _, below) = on_disk("ext4");
    let devices = ["loop0", "loop1"].map(|name| bench.loop_device(name, &[below]));
    bench.content_of(devices[1]).filesystem = Some(FsSuperblock {
        fs_type: "ext4".into(),
        state: Some("needs recovery".into()),
        ..FsSuperblock::default()
    });
    assert_eq!(bench.ask(state::unclean).len(), 1);
    bench.mounted("ext4", "/inside", devices[0]);
    assert_eq!(bench.ask(state::unclean), []);
    // Another part of the file is another thing.
    bench.node(devices[1]).loop_device.as_mut().unwrap().offset_bytes = Some(GIB);
    assert_eq!(bench.ask(state::unclean).len(), 1);
}
