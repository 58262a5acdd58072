//! Whatever a storage does to verified blocks is found and named; what it may do is never called damage.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

#[path = "verify/disk.rs"]
mod disk;
#[path = "verify/faults.rs"]
mod faults;
#[path = "verify/files.rs"]
mod files;
#[path = "verify/large.rs"]
mod large;
#[path = "verify/orders.rs"]
mod orders;
#[path = "verify/races.rs"]
mod races;

use disk::{Disk, Habits};
use fathom_base::content::Filler;
use fathom_base::ledger::{Change, Ledger, LedgerError, Mark, Region};
use fathom_base::prng::Prng;
use fathom_base::stamp::is_stamp;
use fathom_base::verify_block::{Format, FormatError, Found, Legal, unit_for};
use faults::{FAULTS, Spot, Target};
use std::collections::BTreeMap;

const LIMIT: u64 = 1 << 30;

#[test]
fn a_thousand_injected_faults_are_found_and_named() {
    let mut prng = Prng::new(2024, 1);
    let mut seen = BTreeMap::new();
    for case in 0..1100 {
        let granule = [512, 1024, 1536, 4096, 6144, 16384, 65536][prng.below(7) as usize];
        let mut target = Target::new(granule, &mut prng);
        assert_eq!(target.findings(), [], "sound");
        let spot = Spot::pick(&target, &mut prng);
        let name = FAULTS[case % FAULTS.len()](&mut target, spot, &mut prng);
        *seen.entry(name).or_insert(0) += 1;
    }
    assert!(seen.len() == FAULTS.len() && seen.values().all(|&count| count >= 30), "{seen:?}");
}

#[test]
fn every_bit_of_a_header_counts() {
    for unit in [512, 4096] {
        let format = Format::new(1, 2, unit).unwrap();
        let mut block = vec![0; unit as usize];
        format.fill(&mut block, 1 << 40, 3);
        // All of the header, a sample of the rest.
        for bit in (0..block.len() * 8).filter(|bit| *bit < 64 * 8 || bit % 97 == 0) {
            block[bit / 8] ^= 1 << (bit % 8);
            let finding = format.check(&block, 1 << 40, Legal::only(3)).unwrap_err();
            let Found::Corrupt { generation, first_byte, bits, .. } = finding.found else {
                panic!("bit {bit}: {finding}")
            };
            assert_eq!((generation, first_byte, bits), (3, (1 << 40) + bit as u64 / 8, 1));
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(format.check(&block, 1 << 40, Legal::only(3)), Ok(()));
    }
}

/// Zeros beside it make nobody's data a block of ours, and damage of ours nobody's.
#[test]
fn what_is_mostly_zeros_is_what_the_rest_is() {
    let format = Format::new(1, 2, 4096).unwrap();
    let found = |unit: &[u8], legal| format.check(unit, 1 << 20, legal).unwrap_err().found;
    let foreign = |at: usize, bytes: &[u8]| {
        let mut unit = vec![0; 4096];
        unit[at..at + bytes.len()].copy_from_slice(bytes);
        let head = *unit.first_chunk().unwrap();
        for legal in [Legal::only(5), Legal::range(3, u64::MAX)] {
            assert_eq!(found(&unit, legal), Found::Foreign { head }, "{} bytes", bytes.len());
        }
        assert_eq!(format.check(&unit, 1 << 20, Legal::range(0, 9)), Ok(()), "from before");
    };
    let mut noise = vec![0; 3000];
    Prng::new(5, 5).fill(&mut noise);
    foreign(0, &[1]);
    foreign(4095, &[0x80]);
    foreign(0, b"#!/bin/sh\necho hello\n");
    foreign(2000, b"hello");
    foreign(0, &[1; 600]);
    foreign(512, &noise[..512]);
    foreign(0, &noise);
    // Of a block of ours that lost all of its sectors but one, that one may be damaged.
    let mut ours = vec![0; 4096];
    format.fill(&mut ours, 1 << 20, 5);
    for keep in 0..8 {
        let mut unit = vec![0; 4096];
        let sector = keep * 512..keep * 512 + 512;
        unit[sector.clone()].copy_from_slice(&ours[sector.clone()]);
        unit[sector.start + 77] ^= 4;
        for legal in [Legal::only(5), Legal::range(0, 9)] {
            let found = found(&unit, legal);
            assert!(matches!(found, Found::Corrupt { generation: 5, .. }), "{keep}: {found}");
        }
    }
}

#[test]
fn units_keep_the_stamp_and_say_what_is_wrong() {
    let format = Format::new(1, 2, 4096).unwrap();
    let mut block = vec![0; 16384];
    format.fill(&mut block, 8192, 17);
    assert!(block.chunks(4096).all(is_stamp));
    let text = |block: &[u8], at, legal| format.check(block, at, legal).unwrap_err().to_string();
    assert_eq!(
        text(&block, 8192, Legal::only(18)),
        "offset 8192, 4096 bytes: expected generation 18; found generation 17: a later write was \
         lost, or undone"
    );
    assert_eq!(
        text(&block, 4096, Legal::range(3, u64::MAX)),
        "offset 4096, 4096 bytes: expected generation 3 or newer; found the block of offset 8192 \
         (generation 17)"
    );
    let byte = block[100];
    block[100] ^= 0x21;
    assert_eq!(
        text(&block, 8192, Legal::range(16, 17)),
        format!(
            "offset 8192, 4096 bytes: expected generation 16 to 17; found generation 17 with 2 \
             wrong bits, the first in the byte at offset 8292: {:02x} instead of {byte:02x}",
            byte ^ 0x21
        )
    );
    assert_eq!(unit_for(&[6144, 65536]), Ok(2048));
    assert_eq!(unit_for(&[1 << 20]), Ok(4096));
    assert_eq!(unit_for(&[4096, 100]), Err(FormatError::NotSectors(100)));
    assert_eq!(unit_for(&[0]), Err(FormatError::NotSectors(0)));
    assert!(Format::new(1, 1, 8192).is_err());
}

#[test]
fn what_lay_there_before_is_legal_until_the_first_durable_write() {
    let format = Format::new(1, 2, 4096).unwrap();
    let mut unit = vec![b'x'; 4096];
    let open = Legal::range(0, 9);
    assert_eq!(format.check(&unit, 0, open), Ok(()));
    assert!(format.check(&unit, 0, Legal::range(1, 9)).is_err());
    let mut new = vec![0; 4096];
    format.fill(&mut new, 0, 9);
    unit[1024..2048].copy_from_slice(&new[1024..2048]);
    assert_eq!(format.check(&unit, 0, open), Ok(()), "torn over older data");
    // But neither damage nor a block of ours that belongs elsewhere.
    new[3000] ^= 1;
    assert!(format.check(&new, 0, open).is_err());
    format.fill(&mut new, 4096, 9);
    assert!(format.check(&new, 0, open).is_err());
    format.fill(&mut new, 0, 10);
    assert!(format.check(&new, 0, open).is_err());
}

#[test]
fn no_false_alarm_in_ten_thousand_histories() {
    let mut prng = Prng::new(7, 7);
    let (mut granules, mut damaged, mut rests) = (0, 0, 0);
    for history in 0..10_000 {
        let (races, failures, clears) = (history % 2 == 0, history % 5 == 0, history % 3 == 0);
        let mut disk = Disk::new(Habits { races, failures, clears }, &mut prng);
        let steps = 20 + prng.below(80);
        (0..steps).for_each(|_| disk.step(&mut prng));
        disk.check_live();
        if history % 3 == 1 {
            disk.finish_all(&mut prng);
            rests += disk.check_at_rest();
        }
        let (guaranteed, assured) = (disk.guaranteed(), disk.assured());
        let (ledger, replayed) = disk.crash(&mut prng);
        for (place, &guaranteed) in guaranteed.iter().enumerate() {
            for book in [Some(&ledger), replayed.as_ref()].into_iter().flatten() {
                let legal = disk.expect(book, place);
                assert_eq!(disk.check(place, legal), Ok(()), "history {history}");
            }
            let legal = disk.expect(&ledger, place);
            let min = legal.min_generation;
            assert!(min <= guaranteed, "history {history}");
            granules += 1;
            let is_plain = !races && !failures;
            assert!(!is_plain || min == assured[place], "history {history}: exact");
            // The bound has teeth: an older generation is an alarm.
            if min > 1 && !legal.is_unknown() {
                let stale = disk.with_generation(place, min - 1);
                let found = disk.hold(place, &stale, legal);
                let wanted = Found::Stale { generation: min - 1 };
                assert_eq!(found.unwrap_err().found, wanted);
                damaged += 1;
            }
        }
    }
    assert!(damaged * 4 > granules, "{damaged} of {granules}");
    assert!(rests > 4000, "{rests}");
}

#[test]
fn a_book_survives_as_bytes() {
    let mut prng = Prng::new(3, 3);
    for history in 0..300 {
        let (failures, clears) = (history % 3 == 0, history % 2 == 0);
        let mut disk = Disk::new(Habits { races: true, failures, clears }, &mut prng);
        (0..60).for_each(|_| disk.step(&mut prng));
        let bytes = disk.ledger.to_bytes(&disk.format());
        let (book, format) = Ledger::from_bytes(&bytes, LIMIT).unwrap();
        assert_eq!((book.region(), format), (disk.ledger.region(), disk.format()));
        assert_eq!(book.last_generation(), disk.ledger.last_generation());
        for place in 0..disk::GRANULES {
            let said = |book| {
                let legal = disk.expect(book, place);
                let Legal { min_generation, max_generation, cleared, .. } = legal;
                (min_generation, max_generation, cleared, legal.to_string())
            };
            assert_eq!(said(&book), said(&disk.ledger), "history {history}");
        }
        assert_eq!(book.expect(0, 0), None);
        // Cut or damaged anywhere, it is refused.
        let at = prng.below(bytes.len() as u64) as usize;
        assert!(Ledger::from_bytes(&bytes[..at], LIMIT).is_err());
        let mut bad = bytes.clone();
        bad[at] ^= 1 << prng.below(8);
        assert!(matches!(Ledger::from_bytes(&bad, LIMIT), Err(LedgerError::Unreadable(_))));
    }
}

/// Form 2, of fathom before racers were kept one by one, is read as it was; forms that are older or newer are refused by
/// number.
#[test]
fn books_of_other_forms_are_read_or_named() {
    let format = Format::new(1, 2, 512).unwrap();
    let mut ledger = Ledger::new(Region::of_one(0, 2048, 512), LIMIT).unwrap();
    let [first, second] = [0, 1].map(|_| ledger.issued(Change::write(0, 512)).unwrap());
    let third = ledger.issued(Change::write(1024, 512)).unwrap();
    [first, second, third].into_iter().for_each(|generation| ledger.completed(generation, false));
    let bytes = ledger.to_bytes(&format);
    let with_form = |form| {
        let mut bytes = bytes[..bytes.len() - 4].to_vec();
        assert_eq!((&bytes[..7], bytes[7]), (&b"fthmldg"[..], 3));
        bytes[7] = form;
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        Ledger::from_bytes(&bytes, LIMIT)
    };
    for form in [2, 3] {
        let (book, _) = with_form(form).unwrap();
        let said = [0, 512, 1024].map(|at| book.expect(0, at).unwrap().to_string());
        assert_eq!(said, ["generation 1 to 2", "nothing of this run", "generation 3"]);
    }
    for form in [1, 4] {
        let text = with_form(form).unwrap_err().to_string();
        let wanted = format!("this record of a verified target has form {form}, which");
        assert!(text.starts_with(&wanted) && text.ends_with("or write the target again"), "{text}");
    }
}

/// A book whose two granules were written last with these generations.
fn book_at(last: u64) -> Result<Ledger, LedgerError> {
    let mut bytes = b"fthmldg\x03".to_vec();
    let mut put = |mut value: u64| {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    };
    // Region, identity, unit, files, the last generation; two granules alike, of which the first is that far from 0.
    [0, 1024, 512, 1, 2, 512, 1, 0, 1, last].into_iter().for_each(&mut put);
    [1, last << 1, 0, 0, 1, 0, 0, 0].into_iter().for_each(&mut put);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    Ledger::from_bytes(&bytes, LIMIT).map(|(ledger, _)| ledger)
}

/// Up to 48 bits generations are told apart; more are refused and never cut off.
#[test]
fn generations_end_with_48_bits() {
    let end = (1 << 48) - 1;
    let format = Format::new(1, 2, 512).unwrap();
    let mut ledger = book_at(end - 3).unwrap();
    assert_eq!(ledger.expect(0, 0), Some(Legal::only(end - 3)));
    // Two at once, and one after them elsewhere.
    let [first, second] = [0, 1].map(|_| ledger.issued(Change::write(0, 512)).unwrap());
    let third = ledger.issued(Change::write(512, 512)).unwrap();
    assert_eq!((first, third), (end - 2, end));
    [first, second, third].into_iter().for_each(|generation| ledger.completed(generation, false));
    let text = ledger.issued(Change::write(0, 512)).unwrap_err().to_string();
    assert_eq!(text, format!("{end} writes were noted, more than can be told apart: begin anew"));
    let legal = ledger.expect(0, 0).unwrap();
    assert_eq!(
        (legal, ledger.expect(0, 512)),
        (Legal::range(first, second), Some(Legal::only(end)))
    );
    let again = Ledger::from_bytes(&ledger.to_bytes(&format), LIMIT).unwrap().0;
    assert_eq!(again.expect(0, 512), Some(Legal::only(end)));
    let mut block = vec![0; 512];
    for (generation, is_right) in
        [(first, true), (second, true), (end - 3, false), (end + 2, false)]
    {
        format.fill(&mut block, 0, generation);
        assert_eq!(format.check(&block, 0, legal).is_ok(), is_right, "{generation}");
    }
    for last in [end + 1, end + 1 + (1 << 20)] {
        let text = book_at(last).unwrap_err().to_string();
        assert!(text.ends_with("its last generation is impossible"), "{text}");
    }
}

#[test]
fn the_last_whole_mark_of_a_torn_log_counts() {
    let mut prng = Prng::new(4, 4);
    let mut disk = Disk::new(Habits { races: true, failures: false, clears: false }, &mut prng);
    let mut log = Vec::new();
    let mut ends = vec![(0, BTreeMap::new())];
    let mut marks: Vec<Mark> = Vec::new();
    for _ in 0..20 {
        (0..15).for_each(|_| disk.step(&mut prng));
        let file = prng.below(u64::from(disk.ledger.region().files)) as u32;
        let mark = disk.ledger.mark(file).unwrap();
        mark.append_to(&mut log);
        marks.push(mark.clone());
        let mut last: BTreeMap<u32, Mark> = ends[ends.len() - 1].1.clone();
        last.insert(file, mark);
        ends.push((log.len(), last));
    }
    for cut in 0..=log.len() {
        let wanted = ends.iter().rev().find(|(end, _)| *end <= cut).unwrap();
        let read = Mark::last_of(&log[..cut]);
        assert_eq!((&read.last, read.is_incomplete), (&wanted.1, false), "cut at {cut}");
        // The sectors that a crash has left out.
        let mut torn = log.clone();
        torn[cut.next_multiple_of(512).min(log.len())..].fill(0);
        assert!(!Mark::last_of(&torn).is_incomplete, "zeros from {cut} on");
    }
    // A flipped bit anywhere takes the mark that has it, and none behind that.
    for (damaged, of) in ends.windows(2).enumerate() {
        let others = marks.iter().enumerate().filter(|(number, _)| *number != damaged);
        let wanted: BTreeMap<u32, Mark> =
            others.map(|(_, mark)| (mark.file, mark.clone())).collect();
        for at in of[0].0..of[1].0 {
            let mut bent = log.clone();
            bent[at] ^= 1 << prng.below(8);
            let read = Mark::last_of(&bent);
            assert_eq!(read.last, wanted, "mark {damaged}, byte {at}");
            // Told where another one of the same file is not behind it.
            let file = marks[damaged].file;
            let is_last = marks[damaged + 1..].iter().all(|mark| mark.file != file);
            let is_told = read.is_incomplete;
            assert!(is_told || !is_last, "mark {damaged}, byte {at}");
            let all_behind =
                wanted.keys().all(|f| marks[damaged + 1..].iter().any(|m| m.file == *f));
            let is_harmless = !is_last && all_behind && at - of[0].0 != 8;
            assert!(!(is_told && is_harmless), "mark {damaged}, byte {at}");
        }
    }
}

#[test]
fn memory_is_bounded_and_bad_sizes_are_named() {
    let region = Region::of_one;
    let error = Ledger::new(region(0, 1 << 40, 4096), 512 << 20).unwrap_err();
    assert_eq!(
        error.to_string(),
        "verifying 1099511627776 bytes in pieces of 4096 needs 4294967296 bytes of memory, more \
         than 536870912: verify at most 137438953472 bytes (size=), or write larger blocks"
    );
    let fits = Ledger::new(region(0, 1 << 40, 1 << 20), 512 << 20).unwrap();
    assert!(fits.to_bytes(&Format::new(1, 1, 4096).unwrap()).len() < 64);
    assert!(Ledger::new(region(0, 4096, 100), LIMIT).is_err());
    assert!(Ledger::new(region(512, 4096, 4096), LIMIT).is_err());
    assert!(Ledger::new(region(0, 4096, 0), LIMIT).is_err());
    let mut ledger = Ledger::new(region(8192, 8192, 4096), LIMIT).unwrap();
    assert_eq!(
        ledger.issued(Change::write(512, 4096)).unwrap_err().to_string(),
        "a write of 4096 bytes at offset 512 does not fill pieces of 4096 bytes"
    );
    assert!(ledger.issued(Change::write(0, 0)).is_err());
    // Outside the region a write counts, and is not kept.
    assert_eq!(ledger.issued(Change::write(0, 4096)).unwrap(), 1);
    assert_eq!(ledger.issued(Change::write(4096, 8192)).unwrap(), 2);
    assert_eq!(ledger.issued(Change::write(1 << 40, 4096)).unwrap(), 3);
    (1..=3).for_each(|generation| ledger.completed(generation, false));
    let found: Vec<_> = [0, 8192, 12288, 16384].map(|at| ledger.expect(0, at)).into();
    assert_eq!(found, [None, Some(Legal::only(2)), Some(Legal::only(0)), None]);
}

#[test]
fn long_histories_leave_the_window() {
    let region = Region::of_one(0, 1 << 20, 4096);
    let mut ledger = Ledger::new(region, LIMIT).unwrap();
    let mut prng = Prng::new(5, 5);
    let mut last = [0; 256];
    let mut write = |ledger: &mut Ledger, count, durable| {
        for _ in 0..count {
            let place = prng.below(256);
            last[place as usize] = ledger.issued(Change::write(place * 4096, 4096)).unwrap();
            ledger.completed(last[place as usize], durable);
        }
        last
    };
    let all = |ledger: &Ledger| -> Vec<Legal> {
        (0..256).map(|place| ledger.expect(0, place * 4096).unwrap()).collect()
    };
    write(&mut ledger, 100_000, false);
    let token = ledger.sync_issued(0);
    ledger.synced(token);
    let synced = write(&mut ledger, 0, false);
    let latest = write(&mut ledger, 100_000, false);
    // Long after the sync each granule still knows what it had.
    let bytes = ledger.to_bytes(&Format::new(1, 1, 4096).unwrap());
    ledger.crash(false);
    for (legal, (min, max)) in all(&ledger).into_iter().zip(synced.into_iter().zip(latest)) {
        assert_eq!((legal.min_generation, legal.max_generation), (min, max));
    }
    // Durable writes need no sync.
    let (mut ledger, _) = Ledger::from_bytes(&bytes, LIMIT).unwrap();
    let latest = write(&mut ledger, 100_000, true);
    ledger.crash(false);
    assert_eq!(all(&ledger), latest.map(Legal::only));
}

/// What a process had copied by half when it was cut off begins with one write and ends with an older one: accepted of such a process
/// alone, of writes that may be there, and with no wrong bit.
#[test]
fn a_copy_that_was_cut_off_is_of_two_writes() {
    let (size, unit_bytes) = (2 * 4096, 4096);
    let format = Format::new(7, 9, unit_bytes).unwrap();
    let legal = Legal::range(3, 5);
    let of = |generation: u64| {
        let mut block = vec![0; size];
        if generation > 0 {
            format.fill(&mut block, 4096, generation);
        }
        block
    };
    let mixed = |first: u64, then: u64, cut: usize| [&of(first)[..cut], &of(then)[cut..]].concat();
    let (mut cuts, mut wrong) = (0, 0);
    for cut in (8..size).step_by(8) {
        for (later, older) in [(4, 3), (5, 4), (5, 3)] {
            let mut block = mixed(later, older, cut);
            assert_eq!(format.copied().check(&block, 4096, legal), Ok(()), "{later} {older} {cut}");
            cuts += usize::from(format.check(&block, 4096, legal).is_err());
            let at = (cut * 7) % size;
            block[at] ^= 1;
            assert!(format.copied().check(&block, 4096, legal).is_err(), "bit at {at}, {cut}");
            wrong += 1;
        }
        // What was copied is the later one, and neither is one that cannot be there any more, or not yet.
        if !cut.is_multiple_of(512) {
            for (first, then) in [(3, 5), (4, 2), (6, 5), (2, 3)] {
                let is_same = of(first)[cut / 512 * 512..cut] == of(then)[cut / 512 * 512..cut];
                let block = mixed(first, then, cut);
                let found = format.copied().check(&block, 4096, legal);
                let is_head = (first, then) == (3, 5) && cut % 4096 <= 64;
                assert!(found.is_err() || is_same || is_head, "{first} {then} {cut}");
            }
        }
        // The first bytes come last; a sector further on may be cut off besides.
        for head in [8, 32, 64] {
            let mut block = mixed(5, 4, cut);
            block[..head].copy_from_slice(&of(4)[..head]);
            if cut > 512 {
                assert_eq!(format.copied().check(&block, 4096, legal), Ok(()), "{head} {cut}");
            }
            block[2000] ^= 1;
            assert!(format.copied().check(&block, 4096, legal).is_err(), "{head} {cut}");
        }
        let (zeros, any) = (mixed(1, 0, cut), Legal::range(0, 2));
        assert_eq!(format.copied().check(&zeros, 4096, any), Ok(()), "{cut}");
    }
    assert!(cuts > 2000 && wrong > 2000, "{cuts} {wrong}");
}

/// The same over what nobody knows, as fathom's own lay-out of a new file: its first bytes may be there yet, and bits that turned are told.
#[test]
fn a_copy_over_what_nobody_knows_may_lack_its_beginning() {
    let format = Format::new(7, 9, 4096).unwrap();
    let legal = Legal::range(0, 5);
    let mut block = vec![0; 4096];
    format.fill(&mut block, 4096, 4);
    let mut before = vec![0; 4096];
    Filler::noise(3).fill(&mut before, 4096, 1);
    for head in (8..=64).step_by(8) {
        let mut cut = block.clone();
        cut[..head].copy_from_slice(&before[..head]);
        assert_eq!(format.copied().check(&cut, 4096, legal), Ok(()), "{head}");
        // Who promised a write, or does not copy, has it whole.
        for (format, legal) in [(format.copied(), Legal::range(4, 5)), (format, legal)] {
            assert!(format.check(&cut, 4096, legal).is_err(), "{head}");
        }
        cut[300] ^= 1;
        assert!(format.copied().check(&cut, 4096, legal).is_err(), "{head}");
    }
    // As many as turn at once in one word, anywhere in the head.
    for at in 0..64 * 8 {
        for bits in [1, 3] {
            let mut bad = block.clone();
            (at..(at + bits).min(64 * 8)).for_each(|bit| bad[bit / 8] ^= 1 << (bit % 8));
            assert!(format.copied().check(&bad, 4096, legal).is_err(), "{bits} bits at {at}");
        }
    }
}
