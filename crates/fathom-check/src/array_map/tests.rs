//! Every sector of every small array: nothing lies on top of something else, copies are on disks of their own, and nothing is
//! wasted but what the formulas say.

use super::*;
use std::collections::BTreeSet;

const CHUNK: u64 = 4;

fn equal(level: &str, layout: u64, disks: usize, chunks: u64) -> Result<ArrayMap, MapError> {
    // A rest that is no whole chunk is not used.
    ArrayMap::new(level, layout, CHUNK, &vec![chunks * CHUNK + 3; disks])
}

/// Maps every sector of the array with its copies and its parity, and says how many places that takes.
fn assert_sound(map: &ArrayMap, disk_sectors: &[u64]) -> usize {
    let mut taken = BTreeSet::new();
    let mut parity = BTreeSet::new();
    for sector in 0..map.sectors() {
        let places = map.places(sector);
        assert_eq!(places.len() as u64, map.copies(), "{map:?} {sector}");
        let disks: BTreeSet<u64> = places.iter().map(|place| place.disk).collect();
        assert_eq!(disks.len(), places.len(), "copies of {sector} share a disk: {map:?}");
        for place in &places {
            let end = disk_sectors[place.disk as usize];
            assert!(place.sector < end, "{sector} beyond the end: {place:?} {map:?}");
            assert!(taken.insert(*place), "{sector} lies on another: {place:?} {map:?}");
        }
        let of_parity = map.parity(sector);
        assert_eq!(of_parity.len() as u64, map.parities());
        for place in &of_parity {
            assert!(!disks.contains(&place.disk), "parity beside its data: {map:?}");
            parity.insert(*place);
        }
    }
    assert!(map.places(map.sectors()).is_empty());
    assert!(taken.is_disjoint(&parity), "parity on data: {map:?}");
    taken.len() + parity.len()
}

#[test]
fn striped_and_mirrored() {
    for disks in 2..=8 {
        for chunks in [1, 7, 12] {
            for level in ["raid0", "raid1"] {
                let map = equal(level, 0, disks, chunks).expect("a map");
                let sizes = vec![chunks * CHUNK + 3; disks];
                let used = assert_sound(&map, &sizes) as u64;
                let each = if level == "raid1" { chunks * CHUNK + 3 } else { chunks * CHUNK };
                assert_eq!(used, each * disks as u64);
            }
        }
    }
}

#[test]
fn unlike_disks_in_zones() {
    for layout in [1, 2] {
        let sizes = [10 * CHUNK, 4 * CHUNK + 1, 7 * CHUNK, 10 * CHUNK];
        let map = ArrayMap::new("raid0", layout, CHUNK, &sizes).expect("a map");
        assert_eq!(map.sectors(), (10 + 4 + 7 + 10) * CHUNK);
        assert_eq!(assert_sound(&map, &sizes) as u64, map.sectors());
    }
    // The second zone has three disks and begins at chunk 16: by its own number the first disk's turn, by that of the array
    // the second's.
    let sizes = [10 * CHUNK, 4 * CHUNK, 7 * CHUNK, 10 * CHUNK];
    let disk_of = |layout| {
        let map = ArrayMap::new("raid0", layout, CHUNK, &sizes).expect("a map");
        map.places(16 * CHUNK)[0]
    };
    assert_eq!(disk_of(2), Place { disk: 0, sector: 4 * CHUNK });
    assert_eq!(disk_of(1), Place { disk: 2, sector: 4 * CHUNK });
}

#[test]
fn parity_in_all_layouts() {
    let raid6 = (0..=5).chain(8..=10).chain(16..=20);
    let all = (0..=5).map(|l| ("raid5", l, 1)).chain(raid6.map(|l| ("raid6", l, 2)));
    for (level, layout, parities) in all.chain([("raid4", 0, 1)]) {
        for disks in 3 + usize::from(parities == 2)..=8 {
            let map = equal(level, layout, disks, 17).expect("a map");
            let sizes = vec![17 * CHUNK; disks];
            // Every chunk of every disk is used.
            assert_eq!(assert_sound(&map, &sizes) as u64, 17 * CHUNK * disks as u64);
            assert_eq!(map.sectors(), 17 * CHUNK * (disks as u64 - parities));
            if layout < 4 && level != "raid4" {
                // Parity goes round: each disk has it in one stripe of n.
                let data = disks as u64 - parities;
                let p = |stripe: u64| map.parity(stripe * data * CHUNK)[0].disk;
                let turn: BTreeSet<u64> = (0..disks as u64).map(p).collect();
                assert_eq!(turn.len(), disks, "{level} {layout}");
            }
        }
    }
}

#[test]
fn copies_of_all_kinds_and_counts() {
    for disks in 2..=8usize {
        for near in 1..=disks as u64 {
            for far in 1..=disks as u64 / near {
                for is_offset in [false, true] {
                    let layout = near | far << 8 | u64::from(is_offset) << 16;
                    for chunks in [8, 13, 24] {
                        let Ok(map) = equal("raid10", layout, disks, chunks) else {
                            assert!(
                                is_offset
                                    && near > 1
                                    && far > 1
                                    && !(disks as u64).is_multiple_of(near)
                            );
                            continue;
                        };
                        let sizes = vec![chunks * CHUNK; disks];
                        let used = assert_sound(&map, &sizes) as u64;
                        let array_chunks = chunks / far * disks as u64 / near;
                        assert_eq!(map.sectors(), array_chunks * CHUNK, "{layout:#x}");
                        assert_eq!(used, array_chunks * CHUNK * near * far);
                    }
                }
            }
        }
    }
}

/// What `mdadm -D` says of published arrays: Array Size in KiB, Device Size in sectors.
#[test]
fn published_capacities() {
    for (disks, kib) in [(6, 1_464_811_776), (10, 2_441_352_960)] {
        let map = ArrayMap::new("raid10", 0x201, 128, &vec![976_541_184; disks]).expect("a map");
        assert_eq!(map.sectors() / 2, kib);
    }
}

fn disks_of_rows(layout: u64) -> Vec<Vec<(u64, u64)>> {
    let map = ArrayMap::new("raid10", layout, 1, &[8; 5]).expect("a map");
    (0..5).map(|chunk| map.places(chunk).iter().map(|p| (p.disk, p.sector)).collect()).collect()
}

/// Five disks, two copies, as drawn in md(4): near rows are 0 0 1 1 2 / 2 3 3 4 4; far is 0 1 2 3 4 and shifted by one in the
/// second half; offset has the shifted row at once.
#[test]
fn odd_numbers_of_disks() {
    let near = disks_of_rows(0x102);
    assert_eq!(near[0], [(0, 0), (1, 0)]);
    assert_eq!(near[2], [(4, 0), (0, 1)]);
    assert_eq!(near[4], [(3, 1), (4, 1)]);
    let far = disks_of_rows(0x201);
    assert_eq!(far[0], [(0, 0), (1, 4)]);
    assert_eq!(far[4], [(4, 0), (0, 4)]);
    let offset = disks_of_rows(0x1_0201);
    assert_eq!(offset[0], [(0, 0), (1, 1)]);
    assert_eq!(offset[4], [(4, 0), (0, 1)]);
}

/// raid5 of four disks, left-symmetric: D0 D1 D2 P / D4 D5 P D3 / D8 P D6 D7.
#[test]
fn the_usual_raid5() {
    let map = ArrayMap::new("raid5", 2, 1, &[8; 4]).expect("a map");
    let disks: Vec<u64> = (0..9).map(|chunk| map.places(chunk)[0].disk).collect();
    assert_eq!(disks, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
    let parity: Vec<u64> = (0..3).map(|stripe| map.parity(stripe * 3)[0].disk).collect();
    assert_eq!(parity, [3, 2, 1]);
}

#[test]
fn what_md_does_not_make() {
    for (level, layout, chunk, disks) in [
        ("raid5", 2, 8, 2),
        ("raid5", 7, 8, 4),
        ("raid6", 11, 8, 4),
        ("raid10", 0x202, 8, 3),
        ("raid10", 0, 8, 4),
        ("raid10", 0x1_0202, 8, 5),
        ("raid10", 0x2_0201, 8, 4),
        ("raid0", 0, 0, 4),
        ("linear", 0, 8, 4),
        ("raid1", 0, 8, 1),
    ] {
        let map = ArrayMap::new(level, layout, chunk, &vec![1024; disks]);
        assert!(map.is_err(), "{level} {layout:#x} {map:?}");
    }
}

#[test]
fn from_what_the_kernel_says() {
    let md = MdFacts {
        level: Some("raid10".into()),
        layout: Some(0x201),
        chunk_bytes: Some(64 << 10),
        raid_disks: Some(4),
        ..MdFacts::default()
    };
    let map = ArrayMap::of_md(&md, 1 << 30).expect("a map");
    assert_eq!((map.sectors() * 512, map.copies(), map.may_fail()), (2 << 30, 2, 1));
    assert_eq!(ArrayMap::of_md(&MdFacts::default(), 1 << 30), None);
}
