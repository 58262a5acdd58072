//! Data disks and options against what manuals and published studies print.

use super::*;

const KIB: u64 = 1 << 10;

fn md(level: &str, layout: u64, chunk_kib: u64, disks: u64) -> Option<Striping> {
    Striping::of_md(&MdFacts {
        level: Some(level.into()),
        layout: Some(layout),
        chunk_bytes: Some(chunk_kib * KIB),
        raid_disks: Some(disks),
        ..MdFacts::default()
    })
}

fn dm(line: &str) -> Option<Striping> {
    Striping::of_dm(&DmFacts { table: vec![line.into()], ..DmFacts::default() })
}

/// The kernel's optimal_io_size of each level; the far arrays of 6 and 10 disks with 64 KiB are those whose "full
/// stride" of 384 and 640 KiB was published.
#[test]
fn data_disks_are_those_of_the_kernels_optimal_size() {
    for (level, layout, chunk_kib, disks, data, stripe_kib) in [
        ("raid0", 0, 512, 4, 4, 2048),
        ("raid4", 0, 64, 3, 2, 128),
        ("raid5", 2, 64, 5, 4, 256),
        ("raid6", 2, 128, 10, 8, 1024),
        ("raid10", 0x102, 512, 4, 2, 1024),
        ("raid10", 0x103, 512, 6, 2, 1024),
        ("raid10", 0x102, 512, 5, 5, 2560),
        ("raid10", 0x201, 64, 10, 10, 640),
        ("raid10", 0x201, 64, 3, 3, 192),
        ("raid10", 0x1_0201, 64, 6, 6, 384),
        ("raid10", 0x202, 64, 6, 3, 192),
    ] {
        let found =
            md(level, layout, chunk_kib, disks).map(|s| (s.data_disks, s.full_stripe_bytes()));
        assert_eq!(found, Some((data, stripe_kib * KIB)), "{level} {layout:x} {disks}");
    }
    let parity = |level| md(level, 2, 64, 5).map(|s| (s.parity, s.start_unit_bytes() / KIB));
    assert_eq!((parity("raid5"), parity("raid0")), (Some((true, 256)), Some((false, 64))));
}

#[test]
fn no_stripes() {
    assert_eq!(md("raid1", 0, 0, 2), None);
    assert_eq!(md("raid5", 2, 0, 3), None);
    assert_eq!(md("raid6", 2, 64, 2), None);
    assert_eq!(md("raid5", 2, 64, 0), None);
    assert_eq!(md("raid0", 0, 1 << 50, 1 << 12), None, "more bytes than there are");
    assert_eq!(md("linear", 0, 64, 2), None);
    assert_eq!(dm("0 100 linear 8:0 2048"), None);
    assert_eq!(dm("0 100 raid raid1 3 0 region_size 1024 2 253:0 253:1 253:2 253:3"), None);
}

#[test]
fn volumes_of_the_device_mapper_stripe_too() {
    let shape = |s: Striping| (s.data_disks, s.chunk_bytes / KIB, s.parity);
    let found = |line| dm(line).map(shape);
    assert_eq!(
        found("0 2097152 striped 3 128 8:16 2048 8:32 2048 8:48 2048"),
        Some((3, 64, false))
    );
    let raid5 = "0 9000 raid raid5_ls 3 128 region_size 1024 3 253:0 253:1 253:2 253:3 253:4 253:5";
    assert_eq!(found(raid5), Some((2, 64, true)));
    let raid10 =
        "0 9000 raid raid10 3 128 region_size 1024 4 253:0 253:1 - - 253:4 253:5 253:6 253:7";
    assert_eq!(found(raid10), Some((2, 64, false)));
    let far = "0 9000 raid raid10 5 128 raid10_copies 2 raid10_format far 4 253:0 253:1 253:2 253:3 253:4 253:5 253:6 253:7";
    assert_eq!(found(far), Some((4, 64, false)));
    for line in
        ["0 9 striped", "0 9 striped 2", "0 9 raid raid5_ls 9 128", "0 9 raid raid5_ls 0 8 3"]
    {
        assert_eq!(found(line), None, "{line}");
    }
}

/// The example of mke2fs(8) and the wiki of Linux RAID: chunk 64 KiB, blocks of 4 KiB, RAID5 of 4: stride 16, width 48.
#[test]
fn ext_options_are_in_blocks() {
    let striping = md("raid5", 2, 64, 4).expect("stripes");
    let options = ext_options(&striping, 4096).expect("fits");
    assert_eq!(options.words(), "stride=16,stripe_width=48");
    assert_eq!(ext_options(&striping, 1024).map(|o| o.stride_blocks), Some(64));
    assert_eq!(ext_options(&striping, 0), None);
    let small = md("raid0", 0, 4, 2).expect("stripes");
    assert_eq!(ext_options(&small, 65536), None, "a block larger than a chunk");
    let large = md("raid0", 0, 256 << 10, 2).expect("stripes");
    assert_eq!(ext_options(&large, 4096), None, "65536 blocks have no room in 16 bits");
    let odd = md("raid10", 0x102, 512, 5).expect("stripes");
    assert_eq!(
        ext_options(&odd, 4096).map(|o| o.words()),
        Some("stride=128,stripe_width=640".into())
    );
}

/// `mkfs.xfs -d sunit=128,swidth=N x 128` of the studies is a chunk of 64 KiB; xfs_info shows it in blocks.
#[test]
fn xfs_options_have_three_units() {
    let options = xfs_options(&md("raid6", 2, 64, 10).expect("stripes"), 4096).expect("fits");
    assert_eq!(options.mkfs_words(), "su=64k,sw=8");
    assert_eq!(options.mount_words(), "sunit=128,swidth=1024");
    assert_eq!((options.sunit_blocks, options.swidth_blocks), (16, 128));
    assert_eq!(xfs_options(&md("raid0", 0, 4, 2).expect("stripes"), 65536), None);
}

#[test]
fn starts_and_extents() {
    assert_eq!(next_start_bytes(0, 4096, 0), Some(1 << 20));
    assert_eq!(next_start_bytes(63 * 512, 1536 * KIB, 0), Some(3 << 20));
    assert_eq!(next_start_bytes(5 << 20, 4096, 0), Some(5 << 20));
    assert_eq!(next_start_bytes((5 << 20) + 1, 4096, 0), Some(6 << 20));
    assert_eq!(next_start_bytes(63 * 512, 4096, 3584), Some((1 << 20) + 3584));
    assert_eq!(next_start_bytes(0, u64::MAX, 0), None);
    assert_eq!(extents_per_stripe(1536 * KIB, 4 << 20), Some(3));
    assert_eq!(extents_per_stripe(1 << 20, 4 << 20), Some(1));
    assert_eq!(extents_per_stripe(1 << 20, 0), None);
    assert_eq!(extent_bytes_for(1536 * KIB), Some(4608 * KIB));
    assert_eq!(extent_bytes_for(192 * KIB), Some(4224 * KIB), "whole steps of 128 KiB too");
    assert_eq!((extent_bytes_for(6 << 20), extent_bytes_for(0)), (Some(6 << 20), None));
    assert_eq!((kib_words(65536), kib_words(1000)), ("64k".to_owned(), "1000b".to_owned()));
}

#[test]
fn chunks_hold_most_requests() {
    assert_eq!(chunk_bytes_for(&[(4096, 1.0)]), Some(4096));
    // Mean 34 KiB, deviation 30 KiB.
    assert_eq!(chunk_bytes_for(&[(4 * KIB, 0.5), (64 * KIB, 0.5)]), Some(64 * KIB));
    assert_eq!(chunk_bytes_for(&[(16 << 20, 1.0)]), Some(1 << 20));
    assert_eq!(chunk_bytes_for(&[]), None);
    assert_eq!(share_of_cut_requests(&[(64 * KIB, 0.25), (256 * KIB, 0.75)], 64 * KIB), 0.75);
    assert_eq!(share_of_cut_requests(&[(16 * KIB, 1.0)], 64 * KIB), 0.0);
    assert_eq!(share_of_cut_requests(&[(48 * KIB, 2.0)], 64 * KIB), 0.75);
}
