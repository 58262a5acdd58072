//! Each rule on what it is about, on its healthy neighbour, and on the boundary between them.

use super::*;
use crate::fixtures::{Bench, GIB, MIB, TB};
use fathom_model::defect::Gravity;
use fathom_model::snapshot::Measured;
use fathom_model::stack::NodeKind;
use fathom_model::stack::detail::{
    BackingPlace, BcacheSuperblock, DriveIdentity, FsSuperblock, LuksHeader, LvmHeader,
    MdSuperblock, PartitionEntry, PartitionTable,
};

/// An array of so many disks with chunks of 512 KiB.
fn array(bench: &mut Bench, level: &str, disks: usize) -> usize {
    let disks: Vec<usize> = (0..disks).map(|i| bench.disk(&format!("sd{i}"))).collect();
    bench.md("md0", level, &disks)
}

fn devno(bench: &mut Bench, index: usize) -> String {
    bench.node(index).devno.clone().unwrap_or_default()
}

fn commands(defect: &fathom_model::defect::Defect) -> Vec<&str> {
    defect.fix.iter().filter_map(|step| step.command.as_deref()).collect()
}

fn advises(defect: &fathom_model::defect::Defect, text: &str) -> bool {
    defect.fix.iter().any(|step| step.command.is_none() && step.text.contains(text))
}

#[test]
fn sound_machines_have_nothing() {
    let mut bench = Bench::new();
    let disk = bench.ssd("vda");
    bench.detail_of(disk).table = Some(PartitionTable {
        kind: "gpt".into(),
        sector_bytes: 512,
        backup_sector: Some(TB / 512 - 1),
        entries: vec![PartitionEntry {
            number: 1,
            start_sector: MIB / 512,
            sectors: (TB - MIB) / 512,
            ..Default::default()
        }],
        ..Default::default()
    });
    let part = bench.partition("vda1", MIB, disk);
    bench.mounted("ext4", "/", part);
    let md = array(&mut bench, "raid6", 10);
    bench.queue_of(md).minimum_io_bytes = Some(MIB / 2);
    bench.queue_of(md).optimal_io_bytes = Some(4 * MIB);
    let pv = LvmHeader {
        extents_start_bytes: Some(4 * MIB),
        extent_bytes: Some(4 * MIB),
        ..Default::default()
    };
    bench.content_of(md).lvm = Some(pv);
    let table = format!("0 2097152 linear {} 8192", devno(&mut bench, md));
    let volume = bench.dm("dm-0", "vg-data", "LVM-x", &[table], &[md]);
    let (fs, _) = bench.mounted("xfs", "/data", volume);
    let facts = bench.fs_of(fs);
    facts.sector_bytes = Some(4096);
    facts.stripe_unit_bytes = Some(MIB / 2);
    facts.stripe_width_bytes = Some(4 * MIB);
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn sector_63() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", 63 * 512, disk);
    bench.mounted("ext4", "/", part);
    let found = bench.one(starts::misaligned);
    assert_eq!((found.gravity, found.node.as_deref()), (Gravity::High, Some("/dev/sda1")));
    assert!(found.summary.contains("starts 3584 B behind the physical blocks of 4 KiB of sda"));
    let end = TB - 1;
    let anew = format!("parted -a none /dev/DISK unit B mkpart primary 1048576B {end}B;");
    assert!(commands(&found).is_empty() && advises(&found, &anew), "{found:#?}");
    // In an MBR those from 5 on are logical, which parted has to be told.
    for (kind, number, word) in
        [("dos", 5, "logical"), ("dos", 4, "primary"), ("gpt", 5, "primary")]
    {
        let table = PartitionTable { kind: kind.into(), ..PartitionTable::default() };
        bench.detail_of(disk).table = Some(table);
        bench.node(part).partition.as_mut().expect("a partition").number = Some(number);
        let found = bench.one(starts::misaligned);
        assert!(advises(&found, &format!("mkpart {word} 1048576B")), "{found:#?}");
    }
    bench.detail_of(disk).table = None;
    // The drive that moves its sectors for it.
    bench.node(disk).alignment_offset_bytes = Some(3584);
    assert_eq!(bench.ids(RULES), [""; 0]);
    // Then the modern start is wrong, and 3584 bytes more are right.
    let facts = bench.node(part).partition.as_mut().expect("a partition");
    facts.start_bytes = Some(MIB);
    let found = bench.one(starts::misaligned);
    assert!(advises(&found, "mkpart primary 1052160B"), "{found:#?}");
}

/// What the calculation step by step says of a small partition, and what the rule does, agree.
#[test]
fn a_small_partition_counts_when_it_is_used() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", 34 * 512, disk);
    bench.node(part).size_bytes = Some(16 * MIB - 512);
    let verdict = |bench: &Bench| {
        let scene = crate::scene::Scene::new(&bench.snapshot);
        let lines = crate::alignment::lines(&crate::alignment::explain(&scene, part));
        lines.last().cloned().unwrap_or_default()
    };
    assert_eq!(bench.gravities(starts::misaligned), []);
    assert_eq!(
        verdict(&bench),
        "verdict: MISALIGNED (no finding below 16 MiB, as nothing uses it)"
    );
    bench.mounted("ext4", "/boot", part);
    assert_eq!(bench.gravities(starts::misaligned), [Gravity::Low]);
    assert_eq!(verdict(&bench), "verdict: MISALIGNED");
}

#[test]
fn small_unused_and_hinted_partitions() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", 34 * 512, disk);
    assert_eq!(bench.gravities(starts::misaligned), [Gravity::Medium], "nothing is on it");
    bench.node(part).size_bytes = Some(16 * MIB - 512);
    assert_eq!(bench.gravities(starts::misaligned), [], "a boot loader's");
    bench.node(part).size_bytes = Some(16 * MIB);
    bench.queue_of(disk).physical_block_bytes = Some(512);
    bench.queue_of(disk).minimum_io_bytes = Some(64 << 10);
    let found = bench.one(starts::misaligned);
    assert!(found.summary.contains("preferred smallest I/O of 64 KiB"), "{}", found.summary);
    assert!(!found.why.contains("two blocks of the drive"), "its blocks are met: {}", found.why);
    bench.queue_of(disk).minimum_io_bytes = Some(512);
    assert_eq!(bench.gravities(starts::misaligned), []);
}

#[test]
fn files_of_loop_devices_are_looked_through() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.queue_of(disk).physical_block_bytes = Some(4096);
    let (_, mount) = bench.mounted("ext4", "/srv", disk);
    let image = bench.loop_device("loop0", &[mount]);
    let part = bench.partition("loop0p1", 63 * 512, image);
    // Where the file lies is not known, but its blocks are 4 KiB.
    let found = bench.one(starts::misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/loop0p1"));
    assert!(
        found.summary.contains("3584 B behind the physical blocks of 4 KiB of sda"),
        "{found:?}"
    );
    let place = |shift_bytes, step_bytes| BackingPlace {
        shift_bytes,
        step_bytes,
        pieces: 1 + u64::from(step_bytes > 0),
        is_whole: true,
        unwritten_bytes: 0,
    };
    bench.detail_of(image).backing = Some(place(1 << 20, 4096));
    assert_eq!(bench.one(starts::misaligned).node.as_deref(), Some("/dev/loop0p1"));
    // A file that begins inside a block, as on a filesystem with small ones: that is the filesystem's fault.
    bench.detail_of(image).backing = Some(place(512, 0));
    assert_eq!(bench.gravities(starts::misaligned), []);
    bench.node(part).partition.as_mut().unwrap().start_bytes = Some(1 << 20);
    bench.detail_of(image).backing = Some(place(1 << 20, 0));
    assert_eq!(bench.gravities(starts::misaligned), []);
    // A part of a file.
    bench.node(image).loop_device.as_mut().unwrap().offset_bytes = Some(512);
    assert_eq!(bench.one(starts::misaligned).node.as_deref(), Some("/dev/loop0"));
}

#[test]
fn the_kernel_says_that_a_stack_is_misaligned() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid0", 2);
    bench.node(md).alignment_offset_bytes = Some(-1);
    let upper = bench.dm("dm-0", "v", "LVM-x", &[], &[md]);
    bench.node(upper).alignment_offset_bytes = Some(-1);
    let found = bench.one(starts::misaligned);
    assert_eq!((found.node.as_deref(), found.evidence.len()), (Some("/dev/md0"), 5));
    // A member that misses its blocks is the cause.
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", 63 * 512, disk);
    let md = bench.md("md0", "raid1", &[part]);
    bench.node(md).alignment_offset_bytes = Some(-1);
    assert_eq!(bench.one(starts::misaligned).node.as_deref(), Some("/dev/sda1"));
}

#[test]
fn partitions_on_arrays() {
    for (level, disks, start, expected) in [
        ("raid5", 4, MIB, vec![Gravity::Medium]),
        ("raid5", 4, 3 * MIB / 2, vec![]),
        ("raid5", 3, MIB, vec![]),
        ("raid0", 3, MIB, vec![]),
        ("raid0", 3, MIB / 4, vec![Gravity::Low]),
        ("raid10", 2, MIB / 4, vec![]),
        ("raid1", 2, MIB / 4, vec![]),
    ] {
        let mut bench = Bench::new();
        let md = array(&mut bench, level, disks);
        bench.partition("md0p1", start, md);
        assert_eq!(bench.gravities(starts::stripe_misaligned), expected, "{level} {disks} {start}");
    }
}

#[test]
fn the_layer_that_shifts_is_told() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    let part = bench.partition("md0p1", MIB, md);
    let number = devno(&mut bench, part);
    let table = format!("0 99 crypt aes-xts-plain64 - 0 {number} 32768");
    bench.dm("dm-0", "secret", "CRYPT-x", &[table], &[part]);
    let found = bench.one(starts::stripe_misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/md0p1"), "the encryption inherits it");
    assert!(
        found
            .summary
            .starts_with("the partition on md0p1 begins 1 MiB behind the full stripes of 1.5 MiB"),
        "{}",
        found.summary
    );
    // Not beyond its old end: another one may lie behind.
    bench.node(part).size_bytes = Some(64 * MIB);
    let anew = format!("mkpart primary {}B {}B", 3 * MIB, 65 * MIB - 1);
    let found = bench.one(starts::stripe_misaligned);
    assert!(commands(&found).is_empty() && advises(&found, &anew), "{found:#?}");

    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    let number = devno(&mut bench, md);
    let table = format!("0 99 crypt aes-xts-plain64 - 0 {number} 32768");
    bench.dm("dm-0", "secret", "CRYPT-x", &[table], &[md]);
    let found = bench.one(starts::stripe_misaligned);
    let anew = "cryptsetup luksFormat --type luks2 --offset 98304 /dev/EMPTY";
    assert!(commands(&found).is_empty() && advises(&found, anew), "{found:#?}");

    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    bench.content_of(md).lvm =
        Some(LvmHeader { extents_start_bytes: Some(MIB), ..Default::default() });
    let found = bench.one(starts::stripe_misaligned);
    assert_eq!(commands(&found), ["pvcreate --dataalignment 3072k /dev/md0"]);
    assert!(found.evidence[0].source.contains("pe_start"), "{found:#?}");
    bench.content_of(md).lvm =
        Some(LvmHeader { extents_start_bytes: Some(3 * MIB), ..Default::default() });
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn extents_of_4_mib_on_three_data_disks() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    let number = devno(&mut bench, md);
    bench.content_of(md).lvm = Some(LvmHeader {
        group: Some("vg".into()),
        extents_start_bytes: Some(3 * MIB),
        extent_bytes: Some(4 * MIB),
        ..Default::default()
    });
    let first = [format!("0 9 linear {number} {}", 3 * 2048)];
    bench.dm("dm-0", "vg-first", "LVM-a", &first, &[md]);
    assert_eq!(bench.ids(RULES), [""; 0], "it begins on a stripe");
    let second = [format!("0 9 linear {number} {}", 7 * 2048)];
    bench.dm("dm-1", "vg-second", "LVM-b", &second, &[md]);
    let found = bench.one(starts::extent_off_stripe);
    assert!(found.summary.ends_with("vg-second begin inside one"), "{}", found.summary);
    let told = commands(&found);
    assert!(told[0].starts_with("lvcreate --extents 768"), "{told:?}");
    assert_eq!(told[1], "vgcreate --physicalextentsize 4608k vg /dev/md0", "3 stripes of 1536 KiB");
    bench.md_of(md).raid_disks = Some(5);
    assert_eq!(bench.gravities(starts::extent_off_stripe), []);
}

#[test]
fn partitions_inside_of_a_volume_are_looked_at() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let volume = bench.dm("dm-0", "vg-guest", "LVM-a", &["0 8 linear 8:0 2048".into()], &[disk]);
    let entry = |number, start_sector, sectors| PartitionEntry {
        number,
        start_sector,
        sectors,
        kind: "83".into(),
        ..Default::default()
    };
    let table = |start| PartitionTable {
        kind: "dos".into(),
        sector_bytes: 512,
        entries: vec![entry(1, 63, 32_767), entry(2, start, 32_768)],
        ..Default::default()
    };
    bench.detail_of(volume).table = Some(table(65_536));
    assert_eq!(bench.ask(starts::misaligned), [], "the small one carries no load");
    bench.detail_of(volume).table = Some(table(65_543));
    let defect = bench.one(starts::misaligned);
    assert_eq!((defect.gravity, defect.node.as_deref()), (Gravity::Medium, Some("/dev/dm-0")));
    assert_eq!(
        defect.summary,
        "partition 2 inside of dm-0 starts 3584 B behind the physical blocks of 4 KiB"
    );
    bench.partition("dm-0p2", 65_536 * 512, volume);
    assert_eq!(bench.ask(starts::misaligned), [], "the kernel shows them");
}

/// A filesystem on an array of four, told so much.
fn told(fs_type: &str, level: &str, unit: u64, width: u64) -> Bench {
    let mut bench = Bench::new();
    let md = array(&mut bench, level, 4);
    let (fs, _) = bench.mounted(fs_type, "/srv", md);
    bench.fs_of(fs).stripe_unit_bytes = Some(unit);
    bench.fs_of(fs).stripe_width_bytes = Some(width);
    bench
}

#[test]
fn ext4_against_its_array() {
    let half = MIB / 2;
    let found = told("ext4", "raid5", 0, 0).one(filesystems::ext_geometry);
    assert_eq!(found.gravity, Gravity::Medium);
    assert_eq!(commands(&found), ["tune2fs -E stride=128,stripe_width=384 /dev/md0"]);
    let found = told("ext4", "raid10", 16 << 10, 64 << 10).one(filesystems::ext_geometry);
    assert_eq!(found.gravity, Gravity::Low);
    assert!(
        found.summary.contains("knows a chunk of 16 KiB and a stripe of 64 KiB"),
        "{}",
        found.summary
    );
    assert!(commands(&found)[0].contains("stripe_width=256"), "two data disks");
    assert_eq!(told("ext4", "raid5", half, 3 * half).ids(RULES), [""; 0]);
    let hinted = told("ext4", "raid5", half, 24 * half).ids(RULES);
    assert_eq!(hinted, [""; 0], "the members ask for 4 MiB: the least common multiple");
    assert_eq!(told("ext4", "raid1", 0, 0).ids(RULES), [""; 0]);
    assert_eq!(told("btrfs", "raid5", 0, 0).ids(RULES), [""; 0]);
}

#[test]
fn xfs_against_its_array() {
    let half = MIB / 2;
    let found = told("xfs", "raid5", 0, 0).one(filesystems::xfs_geometry);
    let anew = "mkfs.xfs -d su=512k,sw=3 /dev/EMPTY";
    assert!(commands(&found).is_empty() && advises(&found, anew), "{found:#?}");
    let found = told("xfs", "raid5", 64 << 10, 192 << 10).one(filesystems::xfs_geometry);
    assert_eq!(commands(&found), ["umount /srv", "mount -o sunit=1024,swidth=3072 /dev/md0 /srv"]);
    let mut root = told("xfs", "raid5", 64 << 10, 192 << 10);
    let mount = root.snapshot.machine.nodes.iter().position(|n| n.mount.is_some()).expect("mount");
    // Where its log is, the mount alone says.
    root.mount_of(mount).super_options.push("logdev=/dev/sdz".into());
    assert_eq!(
        commands(&root.one(filesystems::xfs_geometry))[1],
        "mount -o sunit=1024,swidth=3072,logdev=/dev/sdz /dev/md0 /srv"
    );
    root.mount_of(mount).super_options.pop();
    root.mount_of(mount).mount_point = "/".into();
    let found = root.one(filesystems::xfs_geometry);
    let once = "rootflags=sunit=1024,swidth=3072";
    assert!(commands(&found).is_empty() && advises(&found, once), "{found:#?}");
    assert_eq!(told("xfs", "raid5", half, 3 * half).ids(RULES), [""; 0]);
    // Groups that the new unit does not divide.
    let mut bench = told("xfs", "raid5", 64 << 10, 192 << 10);
    let md = bench.snapshot.machine.nodes.iter().position(|n| n.name == "md0").expect("md0");
    let sb = FsSuperblock { group_blocks: Some(65536 + 16), ..FsSuperblock::default() };
    bench.content_of(md).filesystem = Some(sb);
    let found = bench.one(filesystems::xfs_geometry);
    assert!(commands(&found).is_empty() && advises(&found, anew), "{found:#?}");
}

#[test]
fn made_for_fewer_disks() {
    let half = MIB / 2;
    for (fs_type, command) in
        [("ext4", "tune2fs -E stride=128,stripe_width=384 /dev/md0"), ("xfs", "umount /srv")]
    {
        let bench = told(fs_type, "raid5", half, 2 * half);
        assert_eq!(bench.ids(RULES), ["made-before-reshape"]);
        let found = bench.one(filesystems::before_reshape);
        assert!(
            found.summary.contains("was made for 2 data disks; md0 has 3"),
            "{}",
            found.summary
        );
        assert_eq!(commands(&found)[0], command);
    }
}

#[test]
fn a_filesystem_at_rest_and_one_of_an_array() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    let sb = FsSuperblock {
        fs_type: "ext4".into(),
        block_bytes: Some(4096),
        stripe_unit_bytes: Some(0),
        stripe_width_bytes: Some(0),
        size_bytes: Some(TB),
        ..Default::default()
    };
    bench.content_of(md).filesystem = Some(sb.clone());
    assert_eq!(bench.ids(RULES), ["ext4-stripe-geometry"]);
    // The first member of an array with its superblock at the end shows the array's filesystem.
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).filesystem = Some(FsSuperblock { size_bytes: Some(2 * TB), ..sb });
    assert_eq!(bench.ids(RULES), ["filesystem-larger-than-device"]);
    bench.content_of(disk).md = Some(MdSuperblock::default());
    assert_eq!(bench.ids(RULES), [""; 0]);
}

#[test]
fn blocks_below_those_of_the_drive() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", MIB, disk);
    let (fs, _) = bench.mounted("xfs", "/srv", part);
    bench.fs_of(fs).sector_bytes = Some(512);
    let found = bench.one(filesystems::small_blocks);
    let anew = "mkfs.xfs -s size=4096 /dev/EMPTY";
    assert!(commands(&found).is_empty() && advises(&found, anew), "{found:#?}");
    assert_eq!(found.evidence[1].source, "/sys/class/block/sda/queue/physical_block_size");
    bench.drive_of(disk).transport = Some("virtio".into());
    assert_eq!(bench.gravities(filesystems::small_blocks), [Gravity::Low], "as images are made");
    bench.drive_of(disk).transport = Some("sata".into());
    bench.fs_of(fs).sector_bytes = Some(4096);
    assert_eq!(bench.ids(RULES), [""; 0]);
    bench.queue_of(disk).physical_block_bytes = Some(16384);
    assert_eq!(bench.gravities(filesystems::small_blocks), [], "no filesystem has larger ones");
    bench.queue_of(disk).physical_block_bytes = Some(512);
    bench.fs_of(fs).sector_bytes = Some(512);
    assert_eq!(bench.gravities(filesystems::small_blocks), []);

    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let (fs, _) = bench.mounted("ext4", "/boot", disk);
    bench.fs_of(fs).block_bytes = Some(1024);
    assert_eq!(bench.gravities(filesystems::small_blocks), [Gravity::Medium]);
    bench.node(disk).size_bytes = Some(GIB - 1);
    assert_eq!(bench.gravities(filesystems::small_blocks), [], "made small for booting");

    // The kernel does not carry the blocks of the drive through a file.
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let (_, mount) = bench.mounted("ext4", "/srv", disk);
    let image = bench.loop_device("loop0", &[mount]);
    bench.queue_of(image).physical_block_bytes = Some(512);
    let (fs, _) = bench.mounted("ext4", "/image", image);
    bench.fs_of(fs).block_bytes = Some(1024);
    let found = bench.one(filesystems::small_blocks);
    assert_eq!(found.evidence[1].source, "/sys/class/block/sda/queue/physical_block_size");
    bench.queue_of(disk).physical_block_bytes = Some(512);
    assert_eq!(bench.gravities(filesystems::small_blocks), []);
}

#[test]
fn filesystems_against_the_size_of_their_device() {
    let sized = |size_bytes| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.mounted("xfs", "/srv", disk);
        let filesystem = FsSuperblock {
            fs_type: "xfs".into(),
            size_bytes: Some(size_bytes),
            ..Default::default()
        };
        bench.content_of(disk).filesystem = Some(filesystem);
        bench
    };
    // In use the size counts that it tells itself, of XFS without its log; at rest an ext4 has to be checked before.
    let mut grown = sized(TB / 10 * 9);
    (grown.fs_of(1).total_bytes, grown.fs_of(1).journal_bytes) = (Some(TB - MIB), Some(MIB));
    assert_eq!(grown.ask(sizes::unused), []);
    let mut bench = sized(TB / 10 * 9);
    bench.snapshot.machine.nodes.truncate(1);
    bench.content_of(0).filesystem.as_mut().unwrap().fs_type = "ext4".into();
    let found = bench.one(sizes::unused);
    assert_eq!(commands(&found), ["e2fsck -f /dev/sda && resize2fs /dev/sda"]);
    let found = sized(TB / 10 * 9).one(sizes::unused);
    assert_eq!(commands(&found), ["xfs_growfs /srv"]);
    assert_eq!(sized(TB / 10 * 9 + 512).ids(RULES), [""; 0]);
    assert_eq!(sized(TB).ids(RULES), [""; 0]);
    let found = sized(TB + 4096).one(sizes::larger);
    assert_eq!(found.gravity, Gravity::High);
    assert!(found.why.contains("its last 4 KiB are not there"), "{}", found.why);
}

/// A disk with a table of one partition.
fn table(kind: &str, bytes: u64, sector_bytes: u64, used: u64, backup: Option<u64>) -> Bench {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.node(disk).size_bytes = Some(bytes);
    bench.queue_of(disk).logical_block_bytes = Some(sector_bytes);
    let kind_of_entry = if kind == "gpt" { "0fc63daf" } else { "83" };
    bench.detail_of(disk).table = Some(PartitionTable {
        kind: kind.into(),
        sector_bytes,
        backup_sector: backup,
        entries: vec![PartitionEntry {
            sectors: used / sector_bytes,
            kind: kind_of_entry.into(),
            ..Default::default()
        }],
        ..Default::default()
    });
    bench
}

#[test]
fn small_partitions_on_large_disks() {
    assert_eq!(table("dos", 100 * GIB, 512, 49 * GIB, None).ids(RULES), ["device-space-unused"]);
    assert_eq!(table("dos", 100 * GIB, 512, 50 * GIB + 512, None).ids(RULES), [""; 0]);
    assert_eq!(table("dos", 10 * GIB, 512, GIB, None).ids(RULES), [""; 0]);
}

#[test]
fn an_mbr_reaches_2_tib() {
    let reach = 512u64 << 32;
    assert_eq!(table("dos", reach, 512, reach, None).ids(RULES), [""; 0]);
    assert_eq!(table("dos", reach + 512, 512, reach, None).ids(RULES), ["mbr-over-2tib"]);
    assert_eq!(table("dos", reach + 4096, 4096, reach, None).ids(RULES), [""; 0]);
    let found = table("dos", 3 * reach / 2, 512, reach, None).one(tables::mbr_over_2tib);
    assert!(
        found.summary.contains("3 TiB and an MBR, whose numbers end at 2 TiB"),
        "{}",
        found.summary
    );
}

#[test]
fn the_second_gpt() {
    let last = GIB / 512 - 1;
    let with = |backup| table("gpt", GIB, 512, GIB, Some(backup));
    assert_eq!(with(last).ids(RULES), [""; 0]);
    let grown = with(last / 2).one(tables::backup_misplaced);
    assert_eq!(grown.gravity, Gravity::Medium);
    assert_eq!(commands(&grown), ["sgdisk --move-second-header /dev/sda"]);
    assert_eq!(with(last + 1).gravities(tables::backup_misplaced), [Gravity::High]);
    let mut member = with(last / 2);
    member.content_of(0).md = Some(MdSuperblock::default());
    assert_eq!(member.ids(RULES), [""; 0]);
}

#[test]
fn a_gpt_for_other_sectors() {
    let mut bench = table("gpt", GIB, 4096, GIB, Some(GIB / 4096 - 1));
    assert_eq!(bench.ids(RULES), [""; 0]);
    bench.queue_of(0).logical_block_bytes = Some(512);
    let found = bench.one(tables::sector_size);
    assert!(found.summary.contains("sectors of 4096 B, the drive has 512 B"), "{}", found.summary);
    // An MBR does not say in which sectors it counts.
    let behind = table("dos", GIB, 4096, 8 * GIB, None).one(tables::sector_size);
    assert!(behind.summary.contains("ends behind the disk"), "{}", behind.summary);
    assert_eq!(table("dos", GIB, 4096, GIB, None).ask(tables::sector_size), []);
    let mut guard = table("dos", GIB, 512, 2 * GIB, None);
    guard.detail_of(0).table.as_mut().unwrap().entries[0].kind = "ee".into();
    assert_eq!(guard.ask(tables::sector_size), []);
}

#[test]
fn damage_is_told_with_its_tool() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let gpt = &["sgdisk --verify /dev/sda", "gdisk /dev/sda"][..];
    let own = "pvck --repair --file /etc/lvm/backup/GROUP /dev/sda && vgcfgrestore GROUP";
    let label = &["pvck --dump headers /dev/sda", own][..];
    let area = &["pvck --dump headers /dev/sda", "vgck --updatemetadata GROUP", own][..];
    for (text, tools, letters) in [
        ("GPT, first copy: there is none", gpt, "the second copy over the other one: r, then b"),
        ("GPT, second copy in sector 9: there is none", gpt, "the first copy over the other"),
        ("GPT: the two copies differ", gpt, "the right copy over the other one: p shows"),
        ("LVM label: its checksum is wrong", label, ""),
        ("LVM metadata area at byte 4096: its header is damaged", area, ""),
        ("md 1.2 superblock: its checksum is wrong", &["mdadm --examine /dev/sda"], ""),
        ("XFS superblock: its checksum is wrong", &["wipefs --no-act /dev/sda"], ""),
        (
            "f2fs superblock: its checksum is wrong",
            &["fsck.f2fs --dry-run /dev/sda"],
            "takes the second copy",
        ),
    ] {
        bench.content_of(disk).damaged = vec![text.to_owned()];
        let found = bench.one(tables::damaged);
        assert_eq!(commands(&found), tools);
        assert!(found.fix.iter().any(|step| step.text.contains(letters)), "{found:#?}");
        assert!(found.summary.contains("on sda is damaged: "), "{}", found.summary);
    }
}

#[test]
fn arrays_that_do_not_tell_their_stripes() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    let half = MIB / 2;
    for (minimum, optimal, expected) in [
        (half, 3 * half, vec![]),
        (half, 0, vec![Gravity::Medium]),
        (4096, 3 * half, vec![Gravity::Medium]),
        (half, 2 * half, vec![Gravity::Medium]),
    ] {
        bench.queue_of(md).minimum_io_bytes = Some(minimum);
        bench.queue_of(md).optimal_io_bytes = Some(optimal);
        assert_eq!(bench.gravities(hints::lost), expected, "{minimum} {optimal}");
    }
    bench.queue_of(md).optimal_io_bytes = Some(3 * half);
    bench.queue_of(md).physical_block_bytes = Some(512);
    assert!(bench.one(hints::lost).summary.contains("physical blocks have 512 B"));
}

#[test]
fn a_cache_that_was_made_with_small_blocks() {
    let mut bench = Bench::new();
    let (slow, fast) = (bench.disk("sda"), bench.ssd("sdb"));
    let cached = bench.device(NodeKind::Bcache, "bcache0", TB, &[slow, fast]);
    bench.queue_of(cached).physical_block_bytes = Some(4096);
    assert_eq!(bench.gravities(hints::lost), []);
    bench.queue_of(cached).physical_block_bytes = Some(512);
    assert!(advises(&bench.one(hints::lost), "make-bcache --block 4096"));
}

#[test]
fn volumes_that_do_not_hand_on_the_stripe() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    bench.queue_of(md).minimum_io_bytes = Some(MIB / 2);
    bench.queue_of(md).optimal_io_bytes = Some(3 * MIB / 2);
    let volume = bench.dm("dm-0", "v", "LVM-x", &["0 9 linear 8:64 0".into()], &[md]);
    bench.queue_of(volume).optimal_io_bytes = Some(3 * MIB);
    assert_eq!(bench.gravities(hints::lost), [], "a multiple");
    bench.queue_of(volume).optimal_io_bytes = Some(MIB);
    assert_eq!(bench.one(hints::lost).gravity, Gravity::Low);
    bench.dm_of(volume).targets = vec!["multipath".into()];
    assert_eq!(bench.one(hints::lost).gravity, Gravity::Low, "paths that came with another stripe");
    bench.dm_of(volume).targets = vec!["thin".into()];
    assert_eq!(bench.gravities(hints::lost), [], "a pool has hints of its own");
}

#[test]
fn drives_that_say_something_else() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let says = |bench: &mut Bench, identity| bench.detail_of(disk).identity = Some(identity);
    bench.queue_of(disk).physical_block_bytes = Some(512);
    says(&mut bench, DriveIdentity { physical_bytes: Some(4096), ..Default::default() });
    assert!(bench.one(hints::differ).summary.contains("4096 B; the kernel uses 512 B"));
    bench.queue_of(disk).physical_block_bytes = Some(4096);
    assert_eq!(bench.ids(RULES), [""; 0]);
    let lba = DriveIdentity {
        physical_bytes: Some(4096),
        lowest_aligned_lba: Some(7),
        ..Default::default()
    };
    says(&mut bench, lba.clone());
    assert!(bench.one(hints::differ).summary.contains("begin at byte 3584; the kernel uses 0"));
    bench.node(disk).alignment_offset_bytes = Some(3584);
    assert_eq!(bench.gravities(hints::differ), []);
    for (optimal, expected) in [(1 << 20, vec![Gravity::Low]), (2048, vec![]), (33_553_920, vec![])]
    {
        says(&mut bench, DriveIdentity { optimal_bytes: Some(optimal), ..lba.clone() });
        assert_eq!(bench.gravities(hints::differ), expected, "{optimal}");
    }
    for (unmap, discards, found) in
        [(true, Some(0), 1), (false, Some(0), 0), (true, Some(4096), 0), (true, None, 0)]
    {
        says(&mut bench, DriveIdentity { unmap: Some(unmap), ..Default::default() });
        bench.queue_of(disk).discard_max_bytes = discards;
        assert_eq!(bench.gravities(hints::differ).len(), found, "{unmap} {discards:?}");
    }
}

#[test]
fn encryption_in_small_sectors() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let line = |options: &str| vec![format!("0 99 crypt aes-xts-plain64 - 0 8:0 32768 {options}")];
    let crypt = bench.dm("dm-0", "secret", "CRYPT-LUKS2-x", &line("1 allow_discards"), &[disk]);
    bench.node(crypt).size_bytes = Some(GIB);
    let found = bench.one(hints::crypt_sector);
    let found_commands = ["cryptsetup reencrypt --sector-size 4096 /dev/sda"];
    assert_eq!(commands(&found), found_commands);
    // What could not be mounted any more is copied.
    let (fs, _) = bench.mounted("xfs", "/srv", crypt);
    bench.fs_of(fs).sector_bytes = Some(4096);
    assert_eq!(commands(&bench.one(hints::crypt_sector)), found_commands);
    bench.fs_of(fs).sector_bytes = Some(512);
    let defect = bench.one(hints::crypt_sector);
    assert!(commands(&defect).is_empty(), "{defect:?}");
    assert!(defect.fix[0].text.starts_with("the xfs on it has sectors of 512 B"));
    bench.fs_of(fs).sector_bytes = None;
    bench.content_of(disk).luks = Some(LuksHeader { version: 1, ..Default::default() });
    assert_eq!(
        commands(&bench.one(hints::crypt_sector))[0],
        "cryptsetup convert --type luks2 /dev/sda"
    );
    bench.dm_of(crypt).table = line("1 sector_size:4096");
    assert_eq!(bench.ids(RULES), [""; 0]);
    bench.dm_of(crypt).table = line("1 sector_size:2048");
    assert_eq!(bench.gravities(hints::crypt_sector), [Gravity::Medium]);
    bench.node(crypt).size_bytes = Some(GIB + 512);
    assert_eq!(bench.gravities(hints::crypt_sector), [], "it could not have larger ones");
    bench.node(crypt).size_bytes = Some(GIB);
    bench.dm_of(crypt).uuid = Some("CRYPT-PLAIN-x".into());
    bench.content_of(disk).luks = None;
    assert_eq!(
        commands(&bench.one(hints::crypt_sector)),
        [""; 0],
        "no header that could be changed"
    );
    bench.dm_of(crypt).uuid = Some("CRYPT-LUKS1-x".into());
    let detached = commands(&bench.one(hints::crypt_sector))[0].to_owned();
    assert!(detached.starts_with("cryptsetup convert --type luks2"), "{detached}");
    bench.dm_of(crypt).uuid = Some("CRYPT-LUKS2-x".into());
    assert_eq!(bench.gravities(hints::crypt_sector), [Gravity::Medium]);
    bench.queue_of(disk).physical_block_bytes = Some(512);
    assert_eq!(bench.gravities(hints::crypt_sector), []);
}

#[test]
fn chunks_that_drives_read_past() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    for (kib, expected) in [(8, vec![Gravity::Low]), (16, vec![Gravity::Low]), (32, vec![])] {
        bench.md_of(md).chunk_bytes = Some(kib << 10);
        assert_eq!(bench.gravities(requests::chunk_small), expected, "{kib} KiB");
    }
    bench.md_of(md).chunk_bytes = Some(8 << 10);
    let found = bench.one(requests::chunk_small);
    assert!(advises(&found, "mdadm --grow --chunk=64 /dev/md0"), "{found:#?}");
    // A run whose requests are cut says more.
    bench.mounted("ext4", "/srv", md);
    bench.snapshot.measured = vec![Measured {
        run: "r1".into(),
        target: "/srv".into(),
        workload: "randread".into(),
        random: true,
        request_bytes_mean: 65536.0,
        request_sizes: vec![(64 << 10, 1.0)],
        ..Measured::default()
    }];
    assert_eq!(bench.gravities(requests::chunk_small), []);
    assert_eq!(bench.gravities(requests::chunk_below_requests), [Gravity::Low]);
    bench.snapshot.measured.clear();
    for disk in 0..md {
        bench.queue_of(disk).rotational = Some(false);
    }
    assert_eq!(bench.gravities(requests::chunk_small), [], "flash has no tracks");
    let mut copies = Bench::new();
    let md = array(&mut copies, "raid10", 2);
    copies.md_of(md).chunk_bytes = Some(4 << 10);
    assert_eq!(copies.gravities(requests::chunk_small), [], "a mirror in all but name");
}

#[test]
fn requests_larger_than_the_chunk() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid10", 4);
    bench.md_of(md).chunk_bytes = Some(64 << 10);
    bench.mounted("ext4", "/srv", md);
    let run = |large_share: f64, at: i64| Measured {
        run: "r1".into(),
        target: "/srv".into(),
        workload: "randread".into(),
        random: true,
        made_at_unix_s: at,
        request_bytes_mean: 65536.0,
        request_sizes: vec![(256 << 10, large_share), (4096, 1.0 - large_share)],
        ..Measured::default()
    };
    bench.snapshot.measured = vec![run(0.25, 1)];
    let found = bench.one(requests::chunk_below_requests);
    assert!(found.summary.starts_with("25 % of the random requests"), "{}", found.summary);
    assert!(commands(&found)[0].contains("--chunk=256 --level=raid10"), "{found:#?}");
    bench.snapshot.measured = vec![run(0.25, 1), run(0.19, 2)];
    assert_eq!(bench.gravities(requests::chunk_below_requests), [], "the newest counts");
    bench.snapshot.measured = vec![Measured { random: false, ..run(0.9, 1) }];
    assert_eq!(bench.gravities(requests::chunk_below_requests), []);
    bench.snapshot.measured = vec![Measured { verdict: "void".into(), ..run(0.9, 1) }];
    assert_eq!(bench.gravities(requests::chunk_below_requests), []);
}

#[test]
fn a_bcache_shifts_by_its_superblock() {
    let mut bench = Bench::new();
    let md = array(&mut bench, "raid5", 4);
    bench.content_of(md).bcache = Some(BcacheSuperblock {
        kind: "backing".into(),
        data_offset_bytes: Some(8192),
        ..Default::default()
    });
    let cache = bench.device(NodeKind::Bcache, "bcache0", TB, &[md]);
    let scene = crate::scene::Scene::new(&bench.snapshot);
    let routes = crate::alignment::explain(&scene, cache);
    assert_eq!(routes[0].steps[1].checks[0].remainder_bytes, 8192);
}
