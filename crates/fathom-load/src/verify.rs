//! Written blocks that are checked: each thread writes files, or a part of one, that are its own and keeps a ledger of
//! them; what is read, by the job or after it, is held against that ledger.

mod part;
mod stored;

pub use self::part::{generator, has_room, own_part, region_of};
pub use self::stored::{AsOf, StoredPlan, as_of};

use crate::engine::{Engine, Op};
use crate::payload::Payload;
use crate::plan::JobPlan;
use fathom_base::ledger::{Change, ChangeKind, Ledger, LedgerError, Mark, SyncToken};
use fathom_base::verify_block::{Format, FormatError, Legal, Mismatch, unit_for};
use fathom_model::workload::{Access, Job, OpenSync, Verify};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Mismatches of which all is kept; the rest is counted.
pub const MISMATCHES_KEPT: usize = 100;

/// How the blocks of a job are told and checked.
#[derive(Debug, Clone)]
pub struct VerifyPlan {
    /// What every write fills whole.
    pub granule_bytes: u64,
    /// What carries a header.
    pub unit_bytes: u32,
    /// Tells the blocks of this job in this trial from all others, those of the first file where there are several; the
    /// laboratory sets it.
    pub target_id: u64,
    /// A trimmed range reads as zeros, as a hole in a file does; the laboratory knows.
    pub trims_read_zero: bool,
    /// Memory that the ledgers of the job may take.
    pub memory_limit_bytes: u64,
    /// Where acknowledged writes are noted for after a crash.
    pub marks: Option<Arc<Marks>>,
}

impl VerifyPlan {
    /// For a job whose range begins at `start_bytes`; none when it does not verify.
    ///
    /// # Errors
    /// [`FormatError::NotSectors`] for sizes that are no multiples of 512.
    pub fn of(job: &Job, start_bytes: u64, align_bytes: u64) -> Result<Option<Self>, FormatError> {
        if job.verify == Verify::None {
            return Ok(None);
        }
        let sizes = job.read_sizes().iter().chain(job.write_sizes());
        let mut sizes: Vec<u64> = sizes.map(|size| u64::from(size.size_bytes)).collect();
        if job.access == Access::Replication {
            sizes.push(u64::from(job.log_block_size_bytes));
        }
        if job.trim_fraction + job.zero_fraction > 0.0 {
            sizes.extend(job.trim_sizes().iter().map(|size| u64::from(size.size_bytes)));
        }
        sizes.push(align_bytes);
        // The last piece of an amount may be smaller than a block, and these are zero where they do not matter.
        let also = [start_bytes, job.amount_bytes.unwrap_or(0), job.stride_bytes.unwrap_or(0)];
        sizes.extend(also.into_iter().filter(|bytes| *bytes > 0));
        let unit_bytes = unit_for(&sizes)?;
        let granule_bytes = sizes.into_iter().fold(0, gcd);
        Ok(Some(Self {
            granule_bytes,
            unit_bytes,
            target_id: 0,
            trims_read_zero: false,
            memory_limit_bytes: u64::MAX,
            marks: None,
        }))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn format_of(plan: &JobPlan, verify: &VerifyPlan) -> Result<Format, LedgerError> {
    let format = Format::new(verify.target_id, plan.seed, verify.unit_bytes)
        .map_err(|_| LedgerError::Unreadable("its unit is none"))?;
    Ok(format.over(plan.job.files))
}

/// The verifiers of a job's threads; none when it does not verify.
///
/// # Errors
/// [`LedgerError`]: above all more pieces than there is memory for.
pub fn verifiers(
    plan: &JobPlan,
    job: usize,
    threads: u32,
    depth: u32,
) -> Result<Vec<Option<Verifier>>, LedgerError> {
    if plan.verify.is_none() {
        return Ok(Vec::new());
    }
    (0..threads).map(|thread| Verifier::new(plan, BookId { job, thread }, threads, depth)).collect()
}

/// Mismatches: the first in full, all of them counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mismatches {
    /// How many.
    pub count: u64,
    /// The first.
    pub first: Vec<Mismatch>,
}

impl Mismatches {
    /// One more.
    #[cold]
    pub fn add(&mut self, mismatch: Mismatch) {
        self.count += 1;
        if self.first.len() < MISMATCHES_KEPT {
            self.first.push(mismatch);
        }
    }
}

/// Names the ledger of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BookId {
    /// The job's place in its workload.
    pub job: usize,
    /// The thread.
    pub thread: u32,
}

/// What a thread leaves behind: what must be found where, and what was found during the run.
#[derive(Debug)]
pub struct Book {
    /// Whose it is.
    pub id: BookId,
    /// How its blocks are told.
    pub format: Format,
    /// What must be where.
    pub ledger: Ledger,
    /// What reads found.
    pub mismatches: Mismatches,
    /// Bytes that reads have checked.
    pub checked_bytes: u64,
    /// Bytes that reads met where a trim or a failed write had left nothing to check, or that a write which they met had
    /// torn.
    pub skipped_bytes: u64,
}

/// Marks of each ledger, by file.
pub type MarksWaiting = BTreeMap<BookId, BTreeMap<u32, Mark>>;

/// What is known to be durable, on its way to stable storage: of each file of a ledger the latest only, so that whoever
/// writes them down may take the time that it takes.
#[derive(Debug, Default)]
pub struct Marks {
    waiting: Mutex<MarksWaiting>,
    is_there: Condvar,
}

impl Marks {
    fn put(&self, id: BookId, mark: Mark) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(id).or_default().insert(mark.file, mark);
        drop(waiting);
        self.is_there.notify_one();
    }

    /// Waits for marks, at most so long, and takes them.
    pub fn take(&self, wait: Duration) -> MarksWaiting {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_empty() {
            let woken = self.is_there.wait_timeout(waiting, wait);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut *waiting)
    }
}

/// What is in flight on a slot.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Nothing,
    Read {
        file: u32,
        offset_bytes: u64,
        size_bytes: u32,
    },
    /// A write, zero range or trim; durable when it has ended, or not.
    Change {
        file: u32,
        generation: u64,
        durable: bool,
    },
    Sync {
        file: u32,
        token: SyncToken,
    },
}

/// The payload of a job that verifies.
#[derive(Debug)]
pub struct Verifier {
    book: Book,
    checks_reads: bool,
    durable_writes: bool,
    trims_read_zero: bool,
    marks: Option<Arc<Marks>>,
    slots: Vec<Pending>,
    /// For each slot and granule, what was legal when its read was issued, and whether a write was in flight then.
    before: Vec<Vec<(Legal, bool)>>,
}

impl Verifier {
    /// For one thread of a job; none when the job does not verify.
    ///
    /// # Errors
    /// [`LedgerError`]: above all more pieces than there is memory for.
    pub fn new(
        plan: &JobPlan,
        id: BookId,
        threads: u32,
        depth: u32,
    ) -> Result<Option<Self>, LedgerError> {
        let Some(verify) = &plan.verify else { return Ok(None) };
        let part = own_part(plan, verify.granule_bytes, id.thread, threads);
        let region = region_of(&part, verify.granule_bytes);
        let mut ledger = Ledger::new(region, verify.memory_limit_bytes / u64::from(threads))?;
        ledger.reserve(depth as usize);
        let format = format_of(plan, verify)?;
        let checks_reads = plan.job.verify == Verify::During;
        let pieces = plan.job.block_size_bytes_max() as usize / verify.granule_bytes as usize + 1;
        let room = if checks_reads { pieces } else { 0 };
        let mismatches = Mismatches::default();
        let book = Book { id, format, ledger, mismatches, checked_bytes: 0, skipped_bytes: 0 };
        Ok(Some(Self {
            book,
            checks_reads,
            durable_writes: plan.job.open_sync != OpenSync::None,
            trims_read_zero: verify.trims_read_zero,
            marks: verify.marks.clone(),
            slots: vec![Pending::Nothing; depth as usize],
            before: (0..depth).map(|_| Vec::with_capacity(room)).collect(),
        }))
    }

    /// What it knows at the end.
    #[must_use]
    pub fn into_book(self) -> Book {
        self.book
    }

    fn change(&mut self, change: Change) -> Pending {
        let issued = self.book.ledger.issued(change);
        // Granules divide all that the job may write.
        debug_assert!(issued.is_ok(), "{issued:?}");
        let Ok(generation) = issued else { return Pending::Nothing };
        // What a file was opened with is about writes.
        let durable = self.durable_writes && change.kind == ChangeKind::Write;
        Pending::Change { file: change.file, generation, durable }
    }

    fn write<E: Engine>(&mut self, slot: u32, change: Change, engine: &mut E) -> Pending {
        let pending = self.change(change);
        if let Pending::Change { generation, .. } = pending {
            let buffer = &mut engine.buffer_mut(slot)[..change.length_bytes as usize];
            self.book.format.on(change.file).fill(buffer, change.offset_bytes, generation);
        }
        pending
    }

    fn read(&mut self, slot: u32, file: u32, offset_bytes: u64, size_bytes: u32) -> Pending {
        let before = &mut self.before[slot as usize];
        before.clear();
        let granule_bytes = self.book.ledger.region().granule_bytes;
        let places =
            (offset_bytes..offset_bytes + u64::from(size_bytes)).step_by(granule_bytes as usize);
        let ledger = &self.book.ledger;
        before.extend(
            places.map_while(|at| Some((ledger.expect(file, at)?, ledger.is_written(file, at)))),
        );
        Pending::Read { file, offset_bytes, size_bytes }
    }

    fn check(&mut self, slot: u32, file: u32, offset_bytes: u64, buffer: &[u8]) {
        let Book { format, ledger, mismatches, checked_bytes, skipped_bytes, .. } = &mut self.book;
        let (format, granule_bytes) = (format.on(file), ledger.region().granule_bytes as usize);
        let places = (offset_bytes..).step_by(granule_bytes);
        let pieces = buffer.chunks_exact(granule_bytes).zip(places);
        for ((piece, at), (before, was_written)) in pieces.zip(&self.before[slot as usize]) {
            let Some(now) = ledger.expect(file, at) else { break };
            let legal = before.until(now);
            if legal.is_unknown() {
                *skipped_bytes += granule_bytes as u64;
            }
            if !legal.is_checkable() {
                continue;
            }
            let Err(mismatch) = format.check(piece, at, legal) else {
                let bytes = if legal.is_open() { &mut *skipped_bytes } else { &mut *checked_bytes };
                *bytes += granule_bytes as u64;
                continue;
            };
            // Nothing promises that a read that meets a write finds all or nothing of it: the page cache copies word by
            // word, and drives promise single sectors. What is whole, and was gone before the read, is wrong all the same.
            let met_a_write = *was_written
                || ledger.is_written(file, at)
                || before.max_generation != now.max_generation;
            if met_a_write && !mismatch.found.is_whole() {
                *skipped_bytes += granule_bytes as u64;
            } else {
                *checked_bytes += granule_bytes as u64;
                mismatches.add(mismatch);
            }
        }
    }

    fn mark(&self, file: u32) {
        if let Some(marks) = &self.marks
            && let Some(mark) = self.book.ledger.mark(file)
        {
            marks.put(self.book.id, mark);
        }
    }
}

impl Payload for Verifier {
    const WANTS_FILE: bool = true;

    fn is_idle(&self) -> bool {
        false
    }

    fn queued<E: Engine>(&mut self, slot: u32, file: u32, op: Op, engine: &mut E) {
        let change = |kind, offset_bytes, size_bytes| Change {
            kind,
            file,
            ..Change::write(offset_bytes, u64::from(size_bytes))
        };
        let trim = if self.trims_read_zero { ChangeKind::Zero } else { ChangeKind::Trim };
        self.slots[slot as usize] = match op {
            Op::Write { offset_bytes, size_bytes } => {
                self.write(slot, change(ChangeKind::Write, offset_bytes, size_bytes), engine)
            }
            Op::Zero { offset_bytes, size_bytes } => {
                self.change(change(ChangeKind::Zero, offset_bytes, size_bytes))
            }
            Op::Trim { offset_bytes, size_bytes } => {
                self.change(change(trim, offset_bytes, size_bytes))
            }
            Op::Read { offset_bytes, size_bytes } if self.checks_reads => {
                self.read(slot, file, offset_bytes, size_bytes)
            }
            Op::Fsync | Op::Fdatasync => {
                Pending::Sync { file, token: self.book.ledger.sync_issued(file) }
            }
            Op::Read { .. } | Op::SyncRange { .. } => Pending::Nothing,
        };
    }

    fn ended<E: Engine>(&mut self, slot: u32, is_whole: bool, engine: &mut E) {
        let pending = std::mem::replace(&mut self.slots[slot as usize], Pending::Nothing);
        match pending {
            Pending::Change { file, generation, durable } if is_whole => {
                self.book.ledger.completed(generation, durable);
                if durable {
                    self.mark(file);
                }
            }
            Pending::Change { generation, .. } => self.book.ledger.failed(generation),
            Pending::Sync { file, token } if is_whole => {
                self.book.ledger.synced(token);
                self.mark(file);
            }
            Pending::Read { file, offset_bytes, size_bytes } if is_whole => {
                let buffer = &engine.buffer_mut(slot)[..size_bytes as usize];
                self.check(slot, file, offset_bytes, buffer);
            }
            Pending::Nothing | Pending::Sync { .. } | Pending::Read { .. } => {}
        }
    }
}

#[cfg(test)]
#[path = "verify_tests.rs"]
mod tests;
