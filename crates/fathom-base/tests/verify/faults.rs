//! Faults that a storage may have, put into a sound target one at a time, and what checking must say about each.

use crate::LIMIT;
use fathom_base::ledger::{Change, Ledger, Region};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Format, Found, Legal, Mismatch, unit_for};

/// A target of a few granules, each written several times, by up to three requests at once of which any may have come
/// last; also what each held before those.
pub struct Target {
    format: Format,
    ledger: Ledger,
    granule: usize,
    now: Vec<u8>,
    before: Vec<u8>,
}

const GRANULES: usize = 5;

impl Target {
    pub fn new(granule: usize, prng: &mut Prng) -> Self {
        let unit_bytes = unit_for(&[granule as u64]).unwrap();
        let format = Format::new(prng.next_u64(), prng.next_u64(), unit_bytes).unwrap();
        let length_bytes = (GRANULES * granule) as u64;
        let region = Region::of_one(0, length_bytes, granule as u64);
        let mut ledger = Ledger::new(region, LIMIT).unwrap();
        let (mut now, mut before) = (vec![0; GRANULES * granule], vec![0; GRANULES * granule]);
        // All once, then some again, in any order.
        for step in 0..GRANULES + 12 {
            let mut racers = Vec::new();
            for _ in 0..1 + prng.below(3) {
                let place = if step < GRANULES { step } else { prng.below(5) as usize };
                let count = if step < GRANULES { 1 } else { 1 + prng.below(2) as usize };
                let places = place..(place + count).min(GRANULES);
                let (at, length) = (places.start * granule, places.len() * granule);
                let generation = ledger.issued(Change::write(at as u64, length as u64)).unwrap();
                racers.push((places, generation));
            }
            for place in 0..GRANULES {
                // Each granule for itself is torn off the one or the other.
                let there: Vec<_> =
                    racers.iter().filter(|(places, _)| places.contains(&place)).collect();
                if there.is_empty() {
                    continue;
                }
                let (_, generation) = there[prng.below(there.len() as u64) as usize];
                let range = place * granule..(place + 1) * granule;
                before[range.clone()].copy_from_slice(&now[range.clone()]);
                format.fill(&mut now[range.clone()], range.start as u64, *generation);
            }
            while !racers.is_empty() {
                let (_, generation) = racers.swap_remove(prng.below(racers.len() as u64) as usize);
                ledger.completed(generation, false);
            }
        }
        Self { format, ledger, granule, now, before }
    }

    fn legal(&self, place: usize) -> Legal {
        self.ledger.expect(0, (place * self.granule) as u64).unwrap()
    }

    /// That of the data at a place; 0 for zeros.
    fn generation(&self, data: &[u8], place: usize) -> u64 {
        let at = place * self.granule + 40;
        u64::from_le_bytes(data[at..at + 8].try_into().unwrap())
    }

    /// What checking all granules finds.
    pub fn findings(&self) -> Vec<Mismatch> {
        let blocks = self.now.chunks(self.granule).enumerate();
        let check = |(place, block)| {
            self.format.check(block, (place * self.granule) as u64, self.legal(place)).err()
        };
        blocks.filter_map(check).collect()
    }

    #[track_caller]
    fn expect_one(&self, offset: usize, found: Found) {
        let findings = self.findings();
        assert_eq!(findings.len(), 1, "{findings:?}, wanted {found:?} at {offset}");
        let finding = &findings[0];
        assert_eq!((finding.offset_bytes, &finding.found), (offset as u64, &found));
        assert_eq!(finding.legal, self.legal(offset / self.granule));
        assert!(finding.to_string().starts_with(&format!("offset {offset}, ")));
    }
}

type Name = &'static str;

/// Puts one kind of fault in, asserts what is found, and says which kind it was: that asked for, or where a block is too
/// small for it, another.
pub type Fault = fn(&mut Target, Spot, &mut Prng) -> Name;

pub const FAULTS: [Fault; 11] = [
    flip_bit,
    overwrite_bytes,
    swap_blocks,
    lose_write,
    zero_block,
    tear_unit,
    tear_write,
    put_foreign,
    put_other_target,
    put_future,
    shift,
];

/// Where the fault goes: a granule, and a unit in it.
#[derive(Clone, Copy)]
pub struct Spot {
    place: usize,
    granule: usize,
    unit: usize,
    /// Units per granule.
    units: usize,
    start: usize,
    end: usize,
    generation: u64,
    /// The generation before; 0 for zeros.
    old: u64,
    in_unit: usize,
}

impl Spot {
    pub fn pick(target: &Target, prng: &mut Prng) -> Self {
        let granule = target.granule;
        let unit = target.format.unit_bytes() as usize;
        let place = prng.below(GRANULES as u64) as usize;
        let (start, end) = (place * granule, (place + 1) * granule);
        let generation = target.generation(&target.now, place);
        let old = target.generation(&target.before, place);
        let units = granule / unit;
        let in_unit = start + prng.below(units as u64) as usize * unit;
        Self { place, granule, unit, units, start, end, generation, old, in_unit }
    }
}

fn flip_bit(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { granule, unit, start, generation, .. } = spot;
    let bit = prng.below(granule as u64 * 8) as usize;
    let at = start + bit / 8;
    let expected = target.now[at];
    target.now[at] ^= 1 << (bit % 8);
    let found = target.now[at];
    let first_byte = at as u64;
    let found = Found::Corrupt { generation, first_byte, bits: 1, expected, found };
    target.expect_one(at / unit * unit, found);
    "flipped bit"
}

fn overwrite_bytes(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { unit, generation, in_unit, .. } = spot;
    let length = 1 + prng.below(60) as usize;
    let from = in_unit + prng.below((unit - length) as u64) as usize;
    let good = target.now[from..from + length].to_vec();
    prng.fill(&mut target.now[from..from + length]);
    target.now[from] = !good[0];
    let bad = &target.now[from..from + length];
    let bits = good.iter().zip(bad).map(|(a, b)| (a ^ b).count_ones()).sum();
    let (expected, found) = (good[0], bad[0]);
    let first_byte = from as u64;
    let found = Found::Corrupt { generation, first_byte, bits, expected, found };
    target.expect_one(in_unit, found);
    "overwritten bytes"
}

fn swap_blocks(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { granule, place, .. } = spot;
    let other = (place + 1 + prng.below(4) as usize) % GRANULES;
    let (low, high) = target.now.split_at_mut(place.max(other) * granule);
    let first = place.min(other) * granule;
    low[first..first + granule].swap_with_slice(&mut high[..granule]);
    let findings = target.findings();
    assert_eq!(findings.len(), 2, "{findings:?}");
    for (finding, (here, there)) in findings
        .iter()
        .zip([(place.min(other), place.max(other)), (place.max(other), place.min(other))])
    {
        assert_eq!(finding.offset_bytes, (here * granule) as u64);
        let generation = target.generation(&target.now, here);
        let belongs_at_bytes = (there * granule) as u64;
        let found = Found::Misplaced { file: None, belongs_at_bytes, generation };
        assert_eq!((finding.file, &finding.found), (None, &found));
    }
    "swapped blocks"
}

fn lose_write(target: &mut Target, spot: Spot, _prng: &mut Prng) -> Name {
    let Spot { start, old, end, .. } = spot;
    // The last write never arrived, or its predecessor came back.
    target.now[start..end].copy_from_slice(&target.before[start..end]);
    let found = if old == 0 { Found::Zeros } else { Found::Stale { generation: old } };
    target.expect_one(start, found);
    "lost write"
}

fn zero_block(target: &mut Target, spot: Spot, _prng: &mut Prng) -> Name {
    let Spot { start, end, .. } = spot;
    target.now[start..end].fill(0);
    target.expect_one(start, Found::Zeros);
    "zeroed block"
}

fn tear_unit(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { unit, generation, old, in_unit, .. } = spot;
    // Some sectors of one unit are from before.
    let sectors = unit / 512;
    if sectors == 1 {
        return tear_write(target, spot, prng);
    }
    let first = prng.below(sectors as u64) as usize;
    let count = (1 + prng.below(sectors as u64 - 1) as usize).min(sectors - first);
    let range = in_unit + first * 512..in_unit + (first + count) * 512;
    target.now[range.clone()].copy_from_slice(&target.before[range.clone()]);
    if count == sectors {
        return lose_write(target, spot, prng);
    }
    let first_bad_bytes = range.start as u64;
    target.expect_one(in_unit, Found::Torn { oldest: old, newest: generation, first_bad_bytes });
    "torn unit"
}

fn tear_write(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { unit, units, start, generation, old, .. } = spot;
    // Some units of one write are from before.
    if units == 1 {
        return put_foreign(target, spot, prng);
    }
    let keep = prng.below(units as u64) as usize;
    let mut first_bad = None;
    for i in (0..units).filter(|&i| i != keep) {
        if prng.below(2) == 0 || (first_bad.is_none() && i + 2 >= units) {
            let range = start + i * unit..start + (i + 1) * unit;
            first_bad.get_or_insert(range.start);
            target.now[range.clone()].copy_from_slice(&target.before[range]);
        }
    }
    let at = first_bad.unwrap();
    let first_bad_bytes = at as u64;
    target.expect_one(at, Found::Torn { oldest: old, newest: generation, first_bad_bytes });
    "torn write"
}

fn put_foreign(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { start, end, .. } = spot;
    prng.fill(&mut target.now[start..end]);
    let head = target.now[start..start + 16].try_into().unwrap();
    target.expect_one(start, Found::Foreign { head });
    "foreign data"
}

fn put_other_target(target: &mut Target, spot: Spot, _prng: &mut Prng) -> Name {
    let Spot { unit, start, generation, end, .. } = spot;
    let other = Format::new(77, 5, unit as u32).unwrap();
    other.fill(&mut target.now[start..end], start as u64, generation);
    let offset_bytes = start as u64;
    target.expect_one(start, Found::OtherTarget { target_id: 77, seed: 5, offset_bytes });
    "another target"
}

fn put_future(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { place, start, end, .. } = spot;
    let later = target.legal(place).max_generation + 1 + prng.below(1000);
    target.format.fill(&mut target.now[start..end], start as u64, later);
    target.expect_one(start, Found::Future { generation: later });
    "future"
}

fn shift(target: &mut Target, spot: Spot, prng: &mut Prng) -> Name {
    let Spot { granule, start, end, .. } = spot;
    // Everything a few bytes or sectors further on.
    let by = [1, 8, 16, 256, 512][prng.below(5) as usize].min(granule / 2);
    target.now[start..end].rotate_right(by);
    let findings = target.findings();
    assert_eq!(findings.len(), 1, "shifted by {by}");
    assert_eq!(findings[0].offset_bytes, start as u64);
    "shifted"
}
