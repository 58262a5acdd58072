//! Several files in one book, zero ranges and trims.

use crate::LIMIT;
use fathom_base::ledger::{Change, ChangeKind, Ledger, Region};
use fathom_base::prng::Prng;
use fathom_base::verify_block::{Cleared, Format, Found, Legal};

const BLOCK: u64 = 4096;
const FILES: u32 = 7;
const BLOCKS: u64 = 5;

fn region() -> Region {
    Region { first_file: 3, files: FILES, ..Region::of_one(8 * BLOCK, BLOCKS * BLOCK, BLOCK) }
}

fn change(kind: ChangeKind, file: u32, block: u64) -> Change {
    Change { kind, file, ..Change::write((8 + block) * BLOCK, BLOCK) }
}

/// Ten files of which the book keeps seven, each block written some times, and what the storage holds of them.
struct Files {
    ledger: Ledger,
    format: Format,
    now: Vec<Vec<u8>>,
    before: Vec<Vec<u8>>,
}

impl Files {
    fn new(prng: &mut Prng) -> Self {
        let mut files = Self {
            ledger: Ledger::new(region(), LIMIT).unwrap(),
            format: Format::new(prng.next_u64(), prng.next_u64(), 4096).unwrap().over(10),
            now: vec![vec![0; BLOCK as usize]; (FILES as usize) * BLOCKS as usize],
            before: vec![vec![0; BLOCK as usize]; (FILES as usize) * BLOCKS as usize],
        };
        let places = u64::from(FILES) * BLOCKS;
        for step in 0..places + 40 {
            files.write(if step < places { step } else { prng.below(places) } as usize);
        }
        files
    }

    fn place(place: usize) -> (u32, u64) {
        (3 + place as u32 / BLOCKS as u32, place as u64 % BLOCKS)
    }

    fn write(&mut self, place: usize) -> u64 {
        let (file, block) = Self::place(place);
        let change = change(ChangeKind::Write, file, block);
        let generation = self.ledger.issued(change).unwrap();
        self.ledger.completed(generation, false);
        self.before[place] = self.now[place].clone();
        self.format.on(file).fill(&mut self.now[place], change.offset_bytes, generation);
        generation
    }

    fn legal(&self, place: usize) -> Legal {
        let (file, block) = Self::place(place);
        self.ledger.expect(file, (8 + block) * BLOCK).unwrap()
    }

    /// What checking all places finds: file, offset, what, and in words.
    fn findings(&self) -> Vec<(u32, u64, Found, String)> {
        let check = |place: usize| {
            let (file, block) = Self::place(place);
            let format = self.format.on(file);
            let found = format.check(&self.now[place], (8 + block) * BLOCK, self.legal(place));
            let wrong = found.err()?;
            let text = wrong.to_string();
            Some((wrong.file.unwrap(), wrong.offset_bytes, wrong.found, text))
        };
        (0..self.now.len()).filter_map(check).collect()
    }
}

/// Blocks that change places, also between files, are named with both files.
#[test]
fn a_block_of_another_file_is_found_and_named() {
    let mut prng = Prng::new(11, 1);
    for _ in 0..500 {
        let mut files = Files::new(&mut prng);
        assert_eq!(files.findings(), [], "sound");
        let a = prng.below(files.now.len() as u64) as usize;
        let b = (a + 1 + prng.below(files.now.len() as u64 - 1) as usize) % files.now.len();
        let (a, b) = (a.min(b), a.max(b));
        files.now.swap(a, b);
        let findings = files.findings();
        assert_eq!(findings.len(), 2, "{findings:?}");
        for ((file, offset_bytes, found, text), (here, there)) in
            findings.into_iter().zip([(a, b), (b, a)])
        {
            let ((at_file, at_block), (of_file, of_block)) =
                (Files::place(here), Files::place(there));
            assert_eq!((file, offset_bytes), (at_file, (8 + at_block) * BLOCK));
            let generation = files.legal(there).max_generation;
            let belongs_at_bytes = (8 + of_block) * BLOCK;
            assert_eq!(
                found,
                Found::Misplaced { file: Some(of_file), belongs_at_bytes, generation }
            );
            let expected = files.legal(here).max_generation;
            assert_eq!(
                text,
                format!(
                    "file {at_file}, offset {offset_bytes}, 4096 bytes: expected generation {expected}; \
                     found the block of file {of_file}, offset {belongs_at_bytes} (generation {generation})"
                )
            );
        }
    }
}

#[test]
fn each_kind_of_damage_is_found_in_its_file() {
    let mut prng = Prng::new(12, 1);
    for case in 0..400 {
        let mut files = Files::new(&mut prng);
        let place = prng.below(files.now.len() as u64) as usize;
        let (at_file, block) = Files::place(place);
        let generation = files.legal(place).max_generation;
        let wanted = match case % 4 {
            0 => {
                let bit = prng.below(BLOCK * 8) as usize;
                files.now[place][bit / 8] ^= 1 << (bit % 8);
                "corrupt"
            }
            1 => {
                files.now[place].fill(0);
                "zeros"
            }
            2 => {
                files.write(place);
                files.now[place] = files.before[place].clone();
                "stale"
            }
            _ => {
                // The same file in an earlier run.
                let earlier = Format::new(prng.next_u64(), 1, 4096).unwrap().over(10);
                earlier.on(at_file).fill(&mut files.now[place], (8 + block) * BLOCK, generation);
                "other_target"
            }
        };
        let findings = files.findings();
        assert_eq!(findings.len(), 1, "{findings:?}");
        let (file, offset_bytes, found, text) = &findings[0];
        assert_eq!((*file, *offset_bytes), (at_file, (8 + block) * BLOCK));
        assert_eq!(found.word(), wanted, "{text}");
    }
}

#[test]
fn a_sync_is_one_of_its_file() {
    let mut ledger = Ledger::new(region(), LIMIT).unwrap();
    let write = |ledger: &mut Ledger, file| {
        let generation = ledger.issued(change(ChangeKind::Write, file, 0)).unwrap();
        ledger.completed(generation, false);
        generation
    };
    // Of two files in turn only one is ever synchronised, for longer than any window.
    let (mut synced, mut other) = (0, 0);
    for _ in 0..40_000 {
        synced = write(&mut ledger, 4);
        let token = ledger.sync_issued(4);
        other = write(&mut ledger, 5);
        ledger.synced(token);
    }
    let marks = [4, 5].map(|file| (file, ledger.mark(file).unwrap())).into();
    assert_eq!(ledger.mark(2), None, "not one of its files");
    ledger.crash(false);
    let at = 8 * BLOCK;
    assert_eq!(ledger.expect(4, at), Some(Legal::only(synced)));
    assert_eq!(ledger.expect(5, at), Some(Legal::range(0, other)));
    let writes = (0..40_000)
        .flat_map(|_| [change(ChangeKind::Write, 4, 0), change(ChangeKind::Write, 5, 0)]);
    let (again, durable) = Ledger::replay(region(), LIMIT, &marks, writes).unwrap();
    assert_eq!(again.expect(4, at), Some(Legal::range(synced, u64::MAX)));
    assert_eq!(again.expect(5, at), Some(Legal::range(0, u64::MAX)));
    assert_eq!(durable, 40_000);
}

/// Of many files written with O_DSYNC one after the other each is known to be durable, however long ago that was.
#[test]
fn durable_writes_need_no_sync_in_any_file() {
    let files = 20_000;
    let region = Region { files, ..Region::of_one(0, 2 * BLOCK, BLOCK) };
    let mut ledger = Ledger::new(region, LIMIT).unwrap();
    for block in 0..2 {
        for file in 0..files {
            let at = Change { file, ..Change::write(block * BLOCK, BLOCK) };
            let generation = ledger.issued(at).unwrap();
            ledger.completed(generation, true);
        }
    }
    ledger.crash(false);
    for file in 0..files {
        let first = ledger.expect(file, 0).unwrap().min_generation;
        assert_eq!(first, u64::from(file) + 1);
    }
}

#[test]
fn zero_ranges_and_trims_are_told_from_lost_writes() {
    let mut prng = Prng::new(13, 1);
    let mut files = Files::new(&mut prng);
    let (file, block) = Files::place(9);
    let clear = |files: &mut Files, kind| {
        let generation = files.ledger.issued(change(kind, file, block)).unwrap();
        files.ledger.completed(generation, false);
    };
    clear(&mut files, ChangeKind::Zero);
    assert_eq!(files.legal(9).cleared, Cleared::Zeroed);
    // It never came there.
    let old = files.now[9].clone();
    let (_, _, found, text) = files.findings().remove(0);
    assert!(matches!(found, Found::Stale { .. }), "{text}");
    assert!(text.contains("expected zeros") && text.contains("generation"), "{text}");
    files.now[9].fill(0);
    assert_eq!(files.findings(), []);
    // A wrong bit in it, and half of it.
    files.now[9][77] = 4;
    let (.., text) = files.findings().remove(0);
    assert!(
        text.ends_with(&format!(
            "found zeros with 1 wrong bits, the first in the byte at offset {}: 04 instead of 00",
            (8 + block) * BLOCK + 77
        )),
        "{text}"
    );
    files.now[9] = old;
    files.now[9][..1024].fill(0);
    let (_, _, found, text) = files.findings().remove(0);
    assert!(matches!(found, Found::Torn { oldest: 0, .. }), "{text}");
    // Written again, zeros are a loss again.
    files.write(9);
    assert_eq!(files.findings(), []);
    files.now[9].fill(0);
    assert_eq!(files.findings().remove(0).2, Found::Zeros);
    // After a trim nothing is checked, after the next write everything.
    clear(&mut files, ChangeKind::Trim);
    assert!(files.legal(9).is_unknown() && !files.legal(9).is_checkable());
    prng.fill(&mut files.now[9]);
    assert_eq!(files.findings(), []);
    let other = files.now[8].clone();
    files.write(9);
    files.now[9] = other;
    assert!(matches!(files.findings().remove(0).2, Found::Misplaced { .. }));
}

/// A zero range beside a write in flight: both are possible, and nothing else is.
#[test]
fn zero_ranges_and_writes_that_meet() {
    let mut files = Files::new(&mut Prng::new(14, 1));
    let (file, block) = Files::place(0);
    let token = files.ledger.sync_issued(file);
    files.ledger.synced(token);
    let durable = files.legal(0).max_generation;
    let zero = files.ledger.issued(change(ChangeKind::Zero, file, block)).unwrap();
    let write = files.ledger.issued(change(ChangeKind::Write, file, block)).unwrap();
    files.ledger.completed(write, false);
    files.ledger.completed(zero, false);
    let legal = files.legal(0);
    assert_eq!((legal.min_generation, legal.max_generation), (zero, write));
    assert_eq!(legal.to_string(), format!("generation {zero} to {write} or zeros"));
    let format = files.format.on(file);
    let mut unit = vec![0; BLOCK as usize];
    assert_eq!(format.check(&unit, 8 * BLOCK, legal), Ok(()));
    format.fill(&mut unit, 8 * BLOCK, write);
    assert_eq!(format.check(&unit, 8 * BLOCK, legal), Ok(()));
    unit[2048..].fill(0);
    assert_eq!(format.check(&unit, 8 * BLOCK, legal), Ok(()), "parts of both");
    format.fill(&mut unit, 8 * BLOCK, durable);
    assert!(format.check(&unit, 8 * BLOCK, legal).is_err());
}

#[test]
fn what_many_files_cost_is_known() {
    let region = Region { files: 100_000, ..Region::of_one(0, 64 << 10, 4096) };
    let needed = 100_000 * (16 * 16 + 32);
    assert!(Ledger::new(region, needed).is_ok());
    assert_eq!(
        Ledger::new(region, needed - 1).unwrap_err().to_string(),
        "verifying 100000 files of 65536 bytes in pieces of 4096 needs 28800000 bytes of memory (1600000 pieces x 16 + \
         100000 files x 32), more than 28799999: verify fewer files (files=) or less (size=), or write larger blocks"
    );
}
