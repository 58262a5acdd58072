//! What reading back counts as checked and what as skipped. That damage is found is shown by the kernel tests.

use super::*;
use fathom_base::ledger::{Change, ChangeKind, Mark, Region};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 8;

fn format() -> Format {
    Format::new(1, 2, 4096).unwrap()
}

fn region() -> Region {
    Region::of_one(0, BLOCKS * BLOCK, BLOCK)
}

/// Reads back a file that holds these generations, 0 for zeros, and a wrong bit in one of them: checked and skipped bytes,
/// and the offsets of mismatches.
fn outcome(
    ledger: &Ledger,
    holds: [u64; BLOCKS as usize],
    damaged: Option<u64>,
) -> (u64, u64, Vec<u64>) {
    let name = format!("fathom-readback-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let file = File::create(&path).unwrap();
    for (at, generation) in (0..).step_by(BLOCK as usize).zip(holds) {
        let mut block = vec![0; BLOCK as usize];
        if generation > 0 {
            format().fill(&mut block, at, generation);
        }
        block[99] ^= u8::from(damaged == Some(at));
        file.write_all_at(&block, at).unwrap();
    }
    let pages = [Page { ledger, format: &format() }];
    let found = read_back(&|_| File::open(&path), &pages, &mut |_, _| true).unwrap();
    std::fs::remove_file(&path).unwrap();
    let places = found.mismatches.first.iter().map(|wrong| wrong.offset_bytes).collect();
    (found.checked_bytes / BLOCK, found.skipped_bytes / BLOCK, places)
}

#[test]
fn what_is_open_is_skipped_unless_it_is_wrong() {
    let mut ledger = Ledger::new(region(), u64::MAX).unwrap();
    let mut change = |block: u64, kind, fails| {
        let change = Change { kind, ..Change::write(block * BLOCK, BLOCK) };
        let generation = ledger.issued(change).unwrap();
        if fails { ledger.failed(generation) } else { ledger.completed(generation, false) }
    };
    change(0, ChangeKind::Write, false);
    change(1, ChangeKind::Write, true);
    change(2, ChangeKind::Trim, false);
    change(3, ChangeKind::Zero, false);
    // The rest was never written, and counts nowhere.
    let holds = [1, 2, 0, 0, 9, 0, 0, 0];
    assert_eq!(outcome(&ledger, holds, None), (2, 2, vec![]));
    assert_eq!(outcome(&ledger, [1, 0, 7, 0, 9, 0, 0, 0], None), (2, 2, vec![]), "also right");
    assert_eq!(outcome(&ledger, holds, Some(BLOCK)), (3, 1, vec![BLOCK]), "but no damage");
    assert_eq!(outcome(&ledger, [0, 2, 0, 0, 9, 0, 0, 0], None), (2, 2, vec![0]));
}

/// After a crash of which only marks are left, nothing was promised where no sync had covered a write.
#[test]
fn after_a_crash_only_what_was_promised_counts_as_checked() {
    let writes = [0, 1, 2].map(|block| Change::write(block * BLOCK, BLOCK));
    let mut ledger = Ledger::new(region(), u64::MAX).unwrap();
    for (write, is_synced) in writes.into_iter().zip([true, true, false]) {
        let generation = ledger.issued(write).unwrap();
        ledger.completed(generation, false);
        if is_synced {
            let token = ledger.sync_issued(0);
            ledger.synced(token);
        }
    }
    let marks: BTreeMap<u32, Mark> = [(0, ledger.mark(0).unwrap())].into();
    let (ledger, durable) = Ledger::replay(region(), u64::MAX, &marks, writes).unwrap();
    assert_eq!(durable, 2);
    // The third was lost; of the fourth, a write came that nobody knows of.
    let holds = [1, 2, 0, 7, 0, 0, 0, 0];
    assert_eq!(outcome(&ledger, holds, None), (2, 6, vec![]));
    assert_eq!(outcome(&ledger, [1, 0, 3, 0, 0, 0, 0, 0], None), (2, 6, vec![BLOCK]));
    assert_eq!(outcome(&ledger, holds, Some(3 * BLOCK)), (3, 5, vec![3 * BLOCK]), "damage");
}

/// What became shorter is told with where it ends, and nothing that was never read counts as zeros.
#[test]
fn blocks_behind_the_end_are_told_as_such() {
    let mut ledger = Ledger::new(region(), u64::MAX).unwrap();
    // The sixth failed, so that anything may be there: also nothing. The seventh is zeroed.
    for block in 0..7 {
        let kind = if block == 6 { ChangeKind::Zero } else { ChangeKind::Write };
        let change = Change { kind, ..Change::write(block * BLOCK, BLOCK) };
        let generation = ledger.issued(change).unwrap();
        if block == 5 { ledger.failed(generation) } else { ledger.completed(generation, false) }
    }
    let mut whole = vec![0; (BLOCKS * BLOCK) as usize];
    format().fill(&mut whole[..BLOCK as usize], 0, 1);
    format().fill(&mut whole[BLOCK as usize..2 * BLOCK as usize], BLOCK, 2);
    whole[2 * BLOCK as usize + 5] = 1;
    let path = std::env::temp_dir().join(format!("fathom-shorter-{}", std::process::id()));
    let read = |length: usize| {
        std::fs::write(&path, &whole[..length]).unwrap();
        let pages = [Page { ledger: &ledger, format: &format() }];
        let found = read_back(&|_| File::open(&path), &pages, &mut |_, _| true).unwrap();
        let beyond = found.beyond.get(&0).map(|b| (b.end_bytes, b.offset_bytes / BLOCK, b.blocks));
        (beyond, found.mismatches.count, found.checked_bytes / BLOCK)
    };
    let block = BLOCK as usize;
    assert_eq!(read(8 * block), (None, 3, 6), "zeros and a wrong byte");
    assert_eq!(read(2 * block), (Some((2 * BLOCK, 2, 3)), 0, 3));
    assert_eq!(read(2 * block - 1), (Some((2 * BLOCK - 1, 1, 4)), 0, 2), "one lies across it");
    assert_eq!(read(3 * block), (Some((3 * BLOCK, 3, 2)), 1, 4));
    assert_eq!(read(0), (Some((0, 0, 5)), 0, 1));
    std::fs::remove_file(&path).unwrap();
}

/// A file that may not be opened says nothing about the storage, and keeps no damage elsewhere from being found; one that is gone does.
#[test]
fn what_this_process_lacks_is_no_damage() {
    let path = std::env::temp_dir().join(format!("fathom-unopened-{}", std::process::id()));
    std::fs::write(&path, vec![0; (BLOCKS * BLOCK) as usize]).unwrap();
    let ledgers = [0, 1].map(|first_file| {
        let mut ledger = Ledger::new(Region { first_file, ..region() }, u64::MAX).unwrap();
        let write = Change { file: first_file, ..Change::write(0, BLOCK) };
        let generation = ledger.issued(write).unwrap();
        ledger.completed(generation, false);
        ledger
    });
    let format = format();
    let read = |code| {
        let pages = ledgers.each_ref().map(|ledger| Page { ledger, format: &format });
        let open = |file| match file {
            0 => Err(io::Error::from_raw_os_error(code)),
            _ => File::open(&path),
        };
        read_back(&open, &pages, &mut |_, _| true).unwrap()
    };
    for code in SHORTAGES {
        let found = read(code);
        let unopened: Vec<_> = found.unopened.iter().map(|(n, e)| (*n, e.raw_os_error())).collect();
        assert_eq!(unopened, [(0, Some(code))]);
        assert_eq!(
            (found.unreadable_count, found.is_partial, found.mismatches.count),
            (0, false, 1)
        );
    }
    let enoent = read(2);
    assert!(enoent.unopened.is_empty() && enoent.unreadable_count == 1);
    std::fs::remove_file(&path).unwrap();
}
