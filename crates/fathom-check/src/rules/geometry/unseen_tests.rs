//! Starts of volumes and encrypted data, on a disk and in a file.

use crate::fixtures::{Bench, MIB};
use crate::rules::geometry::starts;
use fathom_model::defect::Gravity;
use fathom_model::stack::detail::{BackingPlace, LvmHeader};

/// Volumes and encrypted data: the kernel calculates no place of theirs on a disk. On a loop device it is the same.
#[test]
fn what_begins_on_a_disk_begins_on_its_blocks() {
    let extents = |bytes: u64| LvmHeader { extents_start_bytes: Some(bytes), ..Default::default() };
    let mut bench = Bench::new();
    let disk = bench.disk("sda");
    bench.content_of(disk).lvm = Some(extents(2049 * 512));
    let found = bench.one(starts::misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/sda"));
    assert!(
        found.summary.ends_with("begin 512 B behind the physical blocks of 4 KiB of sda"),
        "{found:?}"
    );
    bench.content_of(disk).lvm = Some(extents(MIB));
    assert_eq!(bench.gravities(starts::misaligned), []);
    let number = bench.node(disk).devno.clone().unwrap_or_default();
    let crypt = |sector: u64| {
        let mut bench = Bench::new();
        let disk = bench.disk("sda");
        let table = format!("0 99 crypt aes-xts-plain64 - 0 {number} {sector}");
        bench.dm("dm-0", "secret", "CRYPT-x", &[table], &[disk]);
        bench.gravities(starts::misaligned)
    };
    assert_eq!((crypt(32_768), crypt(2049)), (vec![], vec![Gravity::Medium]));
    let (_, mount) = bench.mounted("ext4", "/srv", disk);
    let image = bench.loop_device("loop0", &[mount]);
    bench.content_of(image).lvm = Some(extents(2049 * 512));
    let found = bench.one(starts::misaligned);
    assert_eq!(found.node.as_deref(), Some("/dev/loop0"));
    assert!(found.summary.contains("which lies below its file"), "{found:?}");
}

/// What a partition holds may begin so much further on that the wrong start is not felt: LVM sees to that by itself. Where it is
/// felt the partition is told, and not the volumes that inherit it.
#[test]
fn a_partition_is_judged_by_where_its_data_begin() {
    let extents =
        |sectors: u64| LvmHeader { extents_start_bytes: Some(sectors * 512), ..Default::default() };
    for in_file in [false, true] {
        let of = |sectors: Option<u64>| {
            let mut bench = Bench::new();
            let mut disk = bench.disk("sda");
            if in_file {
                let (_, mount) = bench.mounted("ext4", "/srv", disk);
                disk = bench.loop_device("loop0", &[mount]);
                bench.detail_of(disk).backing =
                    Some(BackingPlace { is_whole: true, ..BackingPlace::default() });
            }
            let part = bench.partition("part1", 63 * 512, disk);
            bench.content_of(part).lvm = sectors.map(extents);
            let found = bench.ask(starts::misaligned);
            for defect in &found {
                assert_eq!(defect.evidence[0].value, "63 sectors of 512 B", "as the file says");
            }
            found.into_iter().map(|defect| defect.summary).collect::<Vec<_>>()
        };
        let told = of(None);
        assert_eq!(told.len(), 1, "in a file: {in_file}");
        assert_eq!(of(Some(2048)), told, "in a file: {in_file}");
        assert_eq!(of(Some(2049)), [""; 0], "in a file: {in_file}");
    }
}

/// Volumes inherit a wrong start from their partition, unless they begin where it is made good.
#[test]
fn volumes_in_a_partition_off_the_stripes() {
    for (extents, expected) in [(MIB, Some("/dev/md0p1")), (MIB / 2, None)] {
        let mut bench = Bench::new();
        let md = {
            let disks = ["sda", "sdb", "sdc", "sdd"].map(|name| bench.disk(name));
            bench.md("md0", "raid5", &disks)
        };
        let part = bench.partition("md0p1", MIB, md);
        bench.content_of(part).lvm =
            Some(LvmHeader { extents_start_bytes: Some(extents), ..Default::default() });
        let found = bench.ask(starts::stripe_misaligned);
        let nodes: Vec<_> = found.iter().filter_map(|defect| defect.node.as_deref()).collect();
        assert_eq!(nodes, expected.into_iter().collect::<Vec<_>>(), "{extents}");
    }
}
