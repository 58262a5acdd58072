//! The calculation on stacks whose answers are known from manuals and from the kernel's own formula.

use super::*;
use crate::fixtures::{Bench, MIB};
use fathom_model::stack::detail::{LvmHeader, MdSuperblock};

fn verdicts(bench: &Bench, index: usize) -> Vec<String> {
    lines(&explain(&Scene::new(&bench.snapshot), index))
}

/// The kernel's check value: LBA 63 on a plain 4 KiB drive lies 512 bytes before a block's border; on a compensated one
/// (alignment_offset 3584) it lies on one, and 1 MiB does not.
#[test]
fn the_compensated_drive() {
    for (offset, start, remainder) in
        [(0, 63 * 512, 3584), (3584, 63 * 512, 0), (3584, MIB, 512), (0, MIB, 0)]
    {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        bench.node(disk).alignment_offset_bytes = Some(offset);
        let part = bench.partition("sda1", start, disk);
        let routes = explain(&Scene::new(&bench.snapshot), part);
        let check = &routes[0].steps[1].checks[0];
        assert_eq!((check.remainder_bytes, check.unit), (remainder, "physical block"));
        assert_eq!(routes[0].fit() == Fit::Aligned, remainder == 0, "{offset} {start}");
    }
}

/// Filesystem, volume, array of four with chunks of 512 KiB, partitions: 1 MiB is no multiple of the stripe of 1.5 MiB.
#[test]
fn four_deep() {
    let mut bench = Bench::new();
    let disks: Vec<usize> = ["sda", "sdb", "sdc", "sdd"].map(|name| bench.disk(name)).to_vec();
    let parts: Vec<usize> =
        disks.iter().map(|&disk| bench.partition(&format!("part{disk}"), MIB, disk)).collect();
    let md = bench.md("md0", "raid5", &parts);
    let devno = bench.node(md).devno.clone().unwrap();
    let table = format!("0 4096 linear {devno} 2048");
    let volume = bench.dm("dm-0", "vg-lv", "LVM-x", &[table], &[md]);
    let (fs, mount) = bench.mounted("xfs", "/srv", volume);
    bench.fs_of(fs).stripe_width_bytes = Some(3 * MIB / 2);
    let expected = "\
xfs: the start
  /dev/dm-0: the filesystem lies on it; the start lies at byte 0
    /dev/md0: piece of the volume from byte 1048576 on; the start lies at byte 1048576
        full stripe, modulo 1572864 B: remainder 1048576, MISALIGNED
        stripe that the filesystem knows, modulo 1572864 B: remainder 0, aligned
      /dev/part0: data from byte 134217728 of the member on; the start lies at byte 134217728, cut every 512 KiB
        /dev/sda: the partition starts at byte 1048576; the start lies at byte 135266304, cut every 512 KiB
            physical block, modulo 4096 B: remainder 0, aligned
            block of the filesystem, modulo 4096 B: remainder 0, aligned
the same holds for /dev/sdb, /dev/sdc, /dev/sdd
verdict: MISALIGNED";
    assert_eq!(verdicts(&bench, mount).join("\n"), expected);
    assert_eq!(stripe_under(&Scene::new(&bench.snapshot), fs).map(|(index, _)| index), Some(md));
}

/// The start is right, the blocks are not: the verdict says both, and from which size on a finding tells of it.
#[test]
fn small_blocks_are_no_wrong_start() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", MIB, disk);
    let (fs, mount) = bench.mounted("ext4", "/srv", part);
    bench.fs_of(fs).block_bytes = Some(1024);
    let verdict = |bench: &Bench| verdicts(bench, mount).pop().unwrap();
    assert_eq!(
        verdict(&bench),
        "verdict: aligned, but blocks of 1024 B are smaller than the drive's of 4096 B (a finding on ext2-4 and XFS \
         from 1 GiB on: fs-block-below-physical)"
    );
    bench.node(part).partition.as_mut().unwrap().start_bytes = Some(63 * 512);
    assert!(verdict(&bench).starts_with("verdict: MISALIGNED, but blocks"), "{}", verdict(&bench));
    // A drive's larger blocks than any filesystem has: no finding, and no verdict either.
    bench.node(part).partition.as_mut().unwrap().start_bytes = Some(MIB);
    bench.fs_of(fs).block_bytes = Some(4096);
    bench.queue_of(disk).physical_block_bytes = Some(16384);
    assert_eq!(verdict(&bench), "verdict: aligned");
}

#[test]
fn files_and_thin_chunks_lie_anywhere() {
    let mut bench = Bench::new();
    let disks: Vec<usize> = ["sda", "sdb", "sdc"].map(|name| bench.disk(name)).to_vec();
    let md = bench.md("md0", "raid5", &disks);
    let (fs, _) = bench.mounted("ext4", "/srv", md);
    let image = bench.loop_device("loop0", &[fs]);
    let routes = explain(&Scene::new(&bench.snapshot), image);
    let on_array = routes[0].steps.iter().find(|step| step.layer == "/dev/md0").unwrap();
    assert_eq!(on_array.checks[0].fit, Fit::Unknown, "{on_array:?}");
    assert_eq!(routes[0].steps.last().unwrap().checks[0].fit, Fit::Aligned, "blocks of 4 KiB fit");

    let data = bench.dm("dm-1", "pool_tdata", "LVM-d", &["0 9 linear 8:48 0".into()], &[md]);
    bench.node(md).devno = Some("8:48".into());
    bench.node(data).devno = Some("253:1".into());
    let pool = "0 9 thin-pool 253:9 253:1 128 0 1 skip_block_zeroing".to_owned();
    let pool = bench.dm("dm-2", "pool", "LVM-p", &[pool], &[data]);
    bench.node(pool).devno = Some("253:2".into());
    let thin = bench.dm("dm-3", "thin", "LVM-t", &["0 9 thin 253:2 1".into()], &[pool]);
    let routes = explain(&Scene::new(&bench.snapshot), thin);
    let on_array = routes[0].steps.iter().find(|step| step.layer == "/dev/md0").unwrap();
    let check = &on_array.checks[0];
    assert_eq!((check.fit, check.remainder_bytes), (Fit::Misaligned, 65536), "64 KiB on 1 MiB");
    assert_eq!(stripe_under(&Scene::new(&bench.snapshot), thin), None);
}

/// Of a file's blocks only that is said of their places which is known.
#[test]
fn no_places_are_made_up() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let part = bench.partition("sda1", MIB, disk);
    let (_, mount) = bench.mounted("ext4", "/srv", part);
    let image = bench.loop_device("loop0", &[mount]);
    bench.node(image).loop_device.as_mut().unwrap().offset_bytes = Some(512);
    let expected = "\
/dev/loop0: the start
  /srv: from byte 512 of the backing file, whose blocks lie anywhere; the start lies 512 B behind a multiple of 4096 B
    ext4: mounted from; the start lies 512 B behind a multiple of 4096 B
      /dev/sda1: the filesystem lies on it; the start lies 512 B behind a multiple of 4096 B
        /dev/sda: the partition starts at byte 1048576; the start lies 512 B behind a multiple of 4096 B
            physical block, modulo 4096 B: remainder 512, MISALIGNED
verdict: MISALIGNED";
    assert_eq!(verdicts(&bench, image).join("\n"), expected);
    bench.node(image).loop_device.as_mut().unwrap().offset_bytes = Some(0);
    let lines = verdicts(&bench, image);
    assert!(lines[1].ends_with("; the start lies on a multiple of 4096 B"), "{lines:?}");
}

/// A physical volume begins where its device does, and its volumes begin with its extents.
#[test]
fn extents_of_a_physical_volume() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let lvm = LvmHeader { extents_start_bytes: Some(MIB + 512), ..LvmHeader::default() };
    bench.content_of(disk).lvm = Some(lvm);
    let expected = "\
/dev/sda: the start
    physical block, modulo 4096 B: remainder 0, aligned
verdict: aligned
/dev/sda: extents begin at byte 1049088; the start lies at byte 1049088
    physical block, modulo 4096 B: remainder 512, MISALIGNED
verdict: MISALIGNED";
    assert_eq!(verdicts(&bench, disk).join("\n"), expected);
    bench.content_of(disk).md = Some(MdSuperblock::default());
    assert_eq!(verdicts(&bench, disk).len(), 3, "the array shows it");
}

/// Data of dm-integrity lie between their checksums, by multiples of 4 KiB behind the reserved sectors.
#[test]
fn checksums_move_data_by_whole_blocks() {
    for (table, on_disk, on_array) in [
        ("0 9 integrity 9:0 0 4 J 1 internal_hash:crc32c", Fit::Aligned, Fit::Unknown),
        ("0 9 integrity 9:0 1 4 J 1 internal_hash:crc32c", Fit::Misaligned, Fit::Unknown),
        ("0 9 integrity 9:0 1 4 J 1 meta_device:8:64", Fit::Aligned, Fit::Aligned),
    ] {
        let mut bench = Bench::new();
        let disks: Vec<usize> = ["sda", "sdb", "sdc"].map(|name| bench.disk(name)).to_vec();
        let md = bench.md("md0", "raid5", &disks);
        bench.node(md).devno = Some("9:0".into());
        let volume = bench.dm("dm-0", "checked", "x", &[table.into()], &[md]);
        let routes = explain(&Scene::new(&bench.snapshot), volume);
        let checks: Vec<Fit> =
            routes[0].steps.iter().filter_map(|step| Some(step.checks.first()?.fit)).collect();
        assert_eq!(checks, [on_array, on_disk], "{table}");
    }
}

#[test]
fn what_is_not_known_ends_the_way() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let vdo = bench.dm("dm-0", "vdo", "x", &["0 9 vdo V4 8:0 9".into()], &[disk]);
    let routes = explain(&Scene::new(&bench.snapshot), vdo);
    assert_eq!((routes.len(), routes[0].steps.len(), routes[0].fit()), (1, 1, Fit::Unknown));
    // A circle, as a file that vanished between two looks may show.
    bench.node(disk).kind = NodeKind::Partition;
    bench.node(disk).partition =
        Some(fathom_model::stack::PartitionFacts { start_bytes: Some(1), ..Default::default() });
    bench.node(disk).below = vec![disk];
    let routes = explain(&Scene::new(&bench.snapshot), disk);
    assert_eq!(routes[0].steps.len(), DEPTH_MAX);
}

#[test]
fn an_empty_table_and_missing_facts() {
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    let blind = bench.dm("dm-0", "v", "x", &[], &[disk]);
    bench.node(disk).queue = None;
    let md = bench.md("md0", "raid5", &[disk]);
    bench.md_of(md).members[0].offset_bytes = None;
    for index in [blind, md, disk] {
        let scene = Scene::new(&bench.snapshot);
        assert_eq!(explain(&scene, index)[0].steps.len(), 1, "{index}");
    }
}
