//! What requests to an array cost on its members, by its map and by the rules that md writes by: what the members' counters
//! must show when nothing is wrong.
//!
//! A read costs one request for each piece of a chunk; of a failed disk of raid5 or raid6 all others of the stripe. A write
//! goes to every copy. With parity, each 4 KiB row of a stripe is written either after reading what it replaces and the old
//! parity (read-modify-write), or after reading the rest of the row (reconstruct), whichever reads less; equal goes to
//! reconstruct, and a whole row reads nothing.

use super::ArrayMap;

/// The unit in which md computes parity.
const BLOCK_SECTORS: u64 = 8;
/// So many requests are averaged at the most.
const REQUESTS_MAX: u64 = 4096;

/// What one request costs on the members together, on average over where it may lie.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Demand {
    /// Read requests, none merged.
    pub reads: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Members that take part.
    pub disks: f64,
}

/// A read of so many bytes at a random multiple of its size, with these disks failed; none where data is lost.
#[must_use]
pub fn read(map: &ArrayMap, size_bytes: u64, failed: &[u64]) -> Option<Demand> {
    average(map, size_bytes, |sector, sectors| read_at(map, sector, sectors, failed))
}

/// A write likewise, all members there, nothing of the stripes cached.
#[must_use]
pub fn write(map: &ArrayMap, size_bytes: u64) -> Option<Demand> {
    average(map, size_bytes, |sector, sectors| Some(write_at(map, sector, sectors)))
}

fn average(
    map: &ArrayMap,
    size_bytes: u64,
    cost: impl Fn(u64, u64) -> Option<Demand>,
) -> Option<Demand> {
    let sectors = size_bytes / super::SECTOR_BYTES;
    if sectors == 0 || sectors > map.sectors() {
        return None;
    }
    // A full turn of parity and of copies, as far as the array goes.
    let turn = map.chunk_sectors() * map.disks() * map.disks() * map.copies();
    let all = (map.sectors() / sectors).min((turn / sectors).max(1));
    let step = all.div_ceil(REQUESTS_MAX).max(1);
    // Of many only every so many, one after the other in the turn.
    let step = if all.is_multiple_of(step) && step > 1 { step + 1 } else { step };
    let mut sum = Demand::default();
    let mut count = 0.0;
    for number in (0..all).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
        let one = cost(number * sectors, sectors)?;
        sum.reads += one.reads;
        sum.read_bytes += one.read_bytes;
        sum.written_bytes += one.written_bytes;
        sum.disks += one.disks;
        count += 1.0;
    }
    Some(Demand {
        reads: sum.reads / count,
        read_bytes: sum.read_bytes / count,
        written_bytes: sum.written_bytes / count,
        disks: sum.disks / count,
    })
}

/// Pieces of a request inside of chunks: first sector and length.
fn pieces(map: &ArrayMap, sector: u64, sectors: u64) -> impl Iterator<Item = (u64, u64)> {
    let chunk = map.chunk_sectors();
    let end = sector + sectors;
    let mut at = sector;
    // Mirrors are not cut.
    let is_whole = map.copies() == map.disks() && map.parities() == 0;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let cut = if is_whole { end } else { end.min((at / chunk + 1) * chunk) };
            let piece = (at, cut - at);
            at = cut;
            piece
        })
    })
}

fn read_at(map: &ArrayMap, sector: u64, sectors: u64, failed: &[u64]) -> Option<Demand> {
    let mut cost = Demand::default();
    let mut woken = vec![false; map.disks() as usize];
    for (at, length) in pieces(map, sector, sectors) {
        let places = map.places(at);
        let bytes = (length * super::SECTOR_BYTES) as f64;
        if let Some(place) = places.iter().find(|place| !failed.contains(&place.disk)) {
            cost.reads += 1.0;
            cost.read_bytes += bytes;
            woken[place.disk as usize] = true;
            continue;
        }
        if map.parities() == 0 || failed.len() as u64 > map.parities() {
            return None;
        }
        let others = map.disks() - failed.len() as u64;
        cost.reads += others as f64;
        cost.read_bytes += others as f64 * bytes;
        (0..map.disks()).filter(|d| !failed.contains(d)).for_each(|d| woken[d as usize] = true);
    }
    cost.disks = woken.iter().filter(|woken| **woken).count() as f64;
    Some(cost)
}

fn write_at(map: &ArrayMap, sector: u64, sectors: u64) -> Demand {
    if map.parities() > 0 {
        return parity_write_at(map, sector, sectors);
    }
    let mut cost = Demand::default();
    let mut woken = vec![false; map.disks() as usize];
    for (at, length) in pieces(map, sector, sectors) {
        for place in map.places(at) {
            cost.written_bytes += (length * super::SECTOR_BYTES) as f64;
            woken[place.disk as usize] = true;
        }
    }
    cost.disks = woken.iter().filter(|woken| **woken).count() as f64;
    cost
}

/// Row by row of 4 KiB: how many of its blocks are written decides what is read.
fn parity_write_at(map: &ArrayMap, sector: u64, sectors: u64) -> Demand {
    let data = map.disks() - map.parities();
    let (chunk, parities) = (map.chunk_sectors(), map.parities());
    let row_of = |sector: u64| {
        let (number, rest) = (sector / chunk, sector % chunk);
        number / data * chunk + rest / BLOCK_SECTORS * BLOCK_SECTORS
    };
    let mut rows: std::collections::BTreeMap<u64, u64> = std::collections::BTreeMap::new();
    let first = sector / BLOCK_SECTORS * BLOCK_SECTORS;
    for at in (first..sector + sectors).step_by(BLOCK_SECTORS as usize) {
        *rows.entry(row_of(at)).or_default() += 1;
    }
    let mut cost = Demand::default();
    let block = (BLOCK_SECTORS * super::SECTOR_BYTES) as f64;
    for written in rows.values() {
        let (modify, rebuild) = (written + parities, data - written);
        let reads = if modify < rebuild { modify } else { rebuild };
        cost.reads += reads as f64;
        cost.read_bytes += reads as f64 * block;
        cost.written_bytes += (written + parities) as f64 * block;
    }
    cost.disks = map.disks() as f64;
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(level: &str, layout: u64, disks: usize) -> ArrayMap {
        ArrayMap::new(level, layout, 128, &vec![1 << 20; disks]).expect("a map")
    }

    /// What md reads and writes for one block of 4 KiB: the small-write rules.
    #[test]
    fn one_small_write() {
        for (level, layout, disks, reads, writes) in [
            ("raid5", 2, 3, 1.0, 2.0),
            // A tie goes to reconstruct: two either way.
            ("raid5", 2, 4, 2.0, 2.0),
            ("raid5", 2, 5, 2.0, 2.0),
            ("raid5", 2, 10, 2.0, 2.0),
            ("raid6", 2, 4, 1.0, 3.0),
            ("raid6", 2, 6, 3.0, 3.0),
            ("raid6", 2, 8, 3.0, 3.0),
            ("raid0", 0, 4, 0.0, 1.0),
            ("raid1", 0, 3, 0.0, 3.0),
            ("raid10", 0x102, 4, 0.0, 2.0),
            ("raid10", 0x201, 5, 0.0, 2.0),
        ] {
            let got = write(&map(level, layout, disks), 4096).expect("fits");
            let per = 4096.0;
            assert_eq!((got.reads, got.written_bytes / per), (reads, writes), "{level} {disks}");
            assert_eq!(got.read_bytes, reads * per);
        }
    }

    #[test]
    fn a_full_stripe_reads_nothing() {
        let five = map("raid5", 2, 5);
        let got = write(&five, 4 * 128 * 512).expect("fits");
        assert_eq!((got.reads, got.written_bytes), (0.0, 5.0 * 128.0 * 512.0));
        // Half of it: two of four blocks, three to read for rmw, two for the rest.
        let half = write(&five, 2 * 128 * 512).expect("fits");
        assert_eq!(half.reads, 2.0 * 128.0 / 8.0);
    }

    #[test]
    fn one_small_read_wakes_one_disk() {
        for (level, layout, disks) in [
            ("raid0", 0, 4),
            ("raid1", 0, 3),
            ("raid5", 2, 5),
            ("raid6", 2, 6),
            ("raid10", 0x201, 5),
        ] {
            let got = read(&map(level, layout, disks), 4096, &[]).expect("fits");
            assert_eq!((got.reads, got.read_bytes, got.disks), (1.0, 4096.0, 1.0), "{level}");
        }
        // Larger than a chunk: two pieces.
        let two = read(&map("raid0", 0, 4), 2 * 128 * 512, &[]).expect("fits");
        assert_eq!((two.reads, two.disks), (2.0, 2.0));
        assert_eq!(read(&map("raid1", 0, 2), 1 << 20, &[]).expect("fits").reads, 1.0);
    }

    #[test]
    fn without_a_disk_its_part_costs_all_others() {
        let got = read(&map("raid5", 2, 5), 4096, &[1]).expect("no loss");
        // A fifth of the reads cost four instead of one.
        assert!((got.reads - (0.8 + 0.2 * 4.0)).abs() < 1e-9, "{got:?}");
        let mirror = read(&map("raid10", 0x102, 4), 4096, &[2]).expect("no loss");
        assert_eq!(mirror.reads, 1.0);
        assert_eq!(read(&map("raid0", 0, 4), 4096, &[0]), None);
        assert_eq!(read(&map("raid5", 2, 5), 4096, &[0, 1]), None);
        assert_eq!(read(&map("raid5", 2, 5), 0, &[]), None);
    }
}
