//! Reading back what was written, file after file, and holding it against the ledgers.

use crate::verify::{MISMATCHES_KEPT, Mismatches};
use fathom_base::ledger::Ledger;
use fathom_base::order::Order;
use fathom_base::verify_block::{Format, Legal, Mismatch};
use fathom_sys::arena::Arena;
use fathom_sys::io as sys_io;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Bytes of one read, where granules are not larger.
const READ_BYTES: u64 = 1 << 20;
/// Readers at the same time: enough for the storage to work on several requests.
const READERS: usize = 4;
/// Reads begin and end on multiples of this, as direct I/O wants them on any device.
const ALIGN_BYTES: u64 = 4096;
/// EPERM, ENOMEM, EACCES, ENFILE, EMFILE: why this process cannot open a file, and nothing about what the storage holds.
const SHORTAGES: [i32; 5] = [1, 12, 13, 23, 24];
/// How often progress is told.
const TICK: Duration = Duration::from_millis(250);

/// True for an error of opening that tells what this process lacks, and nothing of what was written.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| SHORTAGES.contains(&code))
}

/// One ledger with the format of its blocks.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// What must be where.
    pub ledger: &'a Ledger,
    /// How its blocks are told.
    pub format: &'a Format,
}

/// A stretch that could not be read.
#[derive(Debug)]
pub struct Unreadable {
    /// In which file, from 0 on.
    pub file: u32,
    /// Where it begins.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// The system's reason.
    pub error: io::Error,
}

/// What must lie behind the end of a file or device, which has become shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beyond {
    /// Where it ends now.
    pub end_bytes: u64,
    /// Where the first block begins that lies behind that, or across it.
    pub offset_bytes: u64,
    /// How many there are.
    pub blocks: u64,
    /// Their length.
    pub length_bytes: u64,
}

/// What came of reading back.
#[derive(Debug, Default)]
pub struct ReadBack {
    /// Bytes that were held against a ledger.
    pub checked_bytes: u64,
    /// Bytes of which a trim has left nothing to check, or where any sound content is legal and nothing wrong was found.
    pub skipped_bytes: u64,
    /// What is not as it must be, by file and offset.
    pub mismatches: Mismatches,
    /// How many stretches could not be read.
    pub unreadable_count: u64,
    /// The first of them, by file and offset.
    pub unreadable: Vec<Unreadable>,
    /// What lies behind the end of a file, by the number of the file.
    pub beyond: BTreeMap<u32, Beyond>,
    /// Files that this process lacks the right or the means to open, by number: they say nothing of what was written.
    pub unopened: BTreeMap<u32, io::Error>,
    /// It was ended early.
    pub is_partial: bool,
}

/// A stretch of a file that one read covers.
#[derive(Debug, Clone, Copy)]
struct Stretch<'a> {
    page: Page<'a>,
    file: u32,
    start_bytes: u64,
    end_bytes: u64,
}

/// Opens a file by its number: for reading, past the page cache where that is wanted.
pub type Open<'a> = dyn Fn(u32) -> io::Result<File> + Sync + 'a;

/// Reads everything that the ledgers have something to say about, and checks it; files are opened one after the other.
/// What must lie beyond the end of one is told as such; where zeros may be, nothing may be, too. `tick` gets the bytes done and to do, and says whether to go on.
///
/// # Errors
/// When there is no memory for buffers; what cannot be opened or read is part of the outcome.
pub fn read_back(
    open: &Open<'_>,
    pages: &[Page<'_>],
    tick: &mut dyn FnMut(u64, u64) -> bool,
) -> io::Result<ReadBack> {
    let mut outcome = ReadBack {
        skipped_bytes: pages.iter().map(|page| unknown_bytes(page.ledger)).sum(),
        ..ReadBack::default()
    };
    let mut stretches: Vec<Stretch<'_>> = pages.iter().flat_map(|page| stretches(*page)).collect();
    // Several threads may have written parts of one file.
    stretches.order_by_key(|stretch| (stretch.file, stretch.start_bytes));
    let total_bytes = stretches.iter().map(|s| s.end_bytes - s.start_bytes).sum();
    let (next, done_bytes, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let found = Mutex::new(&mut outcome);
    let largest = stretches.iter().map(Stretch::read_bytes).max().unwrap_or(0);
    let arenas = (0..READERS.min(stretches.len()))
        .map(|_| Arena::new(1, largest as usize))
        .collect::<io::Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        // Wakes the coordinator when the last reader has gone.
        let (alive, ended) = mpsc::channel::<()>();
        for mut arena in arenas {
            let alive = alive.clone();
            let (next, done_bytes, stop, found, stretches) =
                (&next, &done_bytes, &stop, &found, &stretches);
            scope.spawn(move || {
                let _alive = alive;
                let mut reader = Reader { open, file: None };
                while let Some(stretch) = stretches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let read = reader.check(stretch, arena.slot_mut(0));
                    found.lock().unwrap_or_else(PoisonError::into_inner).add(read);
                    done_bytes
                        .fetch_add(stretch.end_bytes - stretch.start_bytes, Ordering::Relaxed);
                }
            });
        }
        drop(alive);
        while ended.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
            if !tick(done_bytes.load(Ordering::Relaxed), total_bytes) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    outcome.is_partial = stop.into_inner();
    outcome.mismatches.first.order_by_key(place_of);
    outcome.mismatches.first.truncate(MISMATCHES_KEPT);
    outcome.unreadable.order_by_key(|part| (part.file, part.offset_bytes));
    Ok(outcome)
}

fn place_of(mismatch: &Mismatch) -> (Option<u32>, u64) {
    (mismatch.file, mismatch.offset_bytes)
}

/// The parts of a region in which something may have been written.
fn stretches(page: Page<'_>) -> impl Iterator<Item = Stretch<'_>> {
    let region = page.ledger.region();
    let step = region.granule_bytes * (READ_BYTES / region.granule_bytes).max(1);
    let end_bytes = region.start_bytes + region.length_bytes;
    let starts = (region.start_bytes..end_bytes).step_by(step as usize);
    let places =
        region.files().flat_map(move |file| starts.clone().map(move |start| (file, start)));
    let parts = places.map(move |(file, start_bytes)| {
        let end_bytes = (start_bytes + step).min(end_bytes);
        Stretch { page, file, start_bytes, end_bytes }
    });
    parts.filter(Stretch::is_written)
}

/// What trims have left unknown.
fn unknown_bytes(ledger: &Ledger) -> u64 {
    let region = ledger.region();
    let end_bytes = region.start_bytes + region.length_bytes;
    let granules = || (region.start_bytes..end_bytes).step_by(region.granule_bytes as usize);
    let unknown = |file| {
        let is_unknown = |at: &u64| ledger.expect(file, *at).is_some_and(Legal::is_unknown);
        granules().filter(is_unknown).count() as u64
    };
    region.files().map(unknown).sum::<u64>() * region.granule_bytes
}

/// One of the threads that read, with the file that it has open.
struct Reader<'a> {
    open: &'a Open<'a>,
    file: Option<(u32, File)>,
}

impl Reader<'_> {
    fn check(&mut self, stretch: &Stretch<'_>, buffer: &mut [u8]) -> ReadBack {
        let number = stretch.file;
        let is_open = self.file.as_ref().is_some_and(|(open, _)| *open == number);
        if !is_open {
            self.file = None;
            match (self.open)(number) {
                Ok(file) => self.file = Some((number, file)),
                Err(error) if is_shortage(&error) => {
                    let unopened = BTreeMap::from([(number, error)]);
                    return ReadBack { unopened, ..ReadBack::default() };
                }
                Err(error) => return stretch.unreadable(error),
            }
        }
        let Some((_, file)) = &self.file else { return ReadBack::default() };
        stretch.check(file, buffer)
    }
}

impl ReadBack {
    fn add(&mut self, found: Self) {
        self.checked_bytes += found.checked_bytes;
        self.skipped_bytes += found.skipped_bytes;
        // The first by place and not by time, so that it is the same ones every time.
        let Mismatches { count, first } = found.mismatches;
        self.mismatches.count += count;
        self.mismatches.first.extend(first);
        if self.mismatches.first.len() > 2 * MISMATCHES_KEPT {
            self.mismatches.first.order_by_key(place_of);
            self.mismatches.first.truncate(MISMATCHES_KEPT);
        }
        for (file, more) in found.beyond {
            let beyond =
                self.beyond.entry(file).or_insert(Beyond { blocks: 0, length_bytes: 0, ..more });
            beyond.offset_bytes = beyond.offset_bytes.min(more.offset_bytes);
            beyond.blocks += more.blocks;
            beyond.length_bytes += more.length_bytes;
        }
        self.unopened.extend(found.unopened);
        self.unreadable_count += found.unreadable_count;
        self.unreadable.extend(found.unreadable);
        self.unreadable.truncate(MISMATCHES_KEPT);
    }
}

impl Stretch<'_> {
    fn granules(&self) -> impl Iterator<Item = u64> + use<> {
        let granule_bytes = self.page.ledger.region().granule_bytes;
        (self.start_bytes..self.end_bytes).step_by(granule_bytes as usize)
    }

    fn is_written(&self) -> bool {
        self.granules().any(|at| self.expect(at).is_some())
    }

    /// What must be there, where there is anything to check.
    fn expect(&self, at: u64) -> Option<Legal> {
        self.page.ledger.expect(self.file, at).filter(|legal| legal.is_checkable())
    }

    /// What is to be checked in it cannot be read.
    fn unreadable(&self, error: io::Error) -> ReadBack {
        let (file, offset_bytes) = (self.file, self.start_bytes);
        let length_bytes = self.end_bytes - self.start_bytes;
        let unreadable = vec![Unreadable { file, offset_bytes, length_bytes, error }];
        ReadBack { unreadable_count: 1, unreadable, ..ReadBack::default() }
    }

    /// One block of it lies behind the end.
    #[cold]
    fn beyond(&self, offset_bytes: u64, end_bytes: u64) -> ReadBack {
        let length_bytes = self.page.ledger.region().granule_bytes;
        let beyond = Beyond { end_bytes, offset_bytes, blocks: 1, length_bytes };
        ReadBack { beyond: BTreeMap::from([(self.file, beyond)]), ..ReadBack::default() }
    }

    /// Where its read begins.
    fn read_from(&self) -> u64 {
        self.start_bytes / ALIGN_BYTES * ALIGN_BYTES
    }

    fn read_bytes(&self) -> u64 {
        self.end_bytes.next_multiple_of(ALIGN_BYTES) - self.read_from()
    }

    fn check(&self, file: &File, buffer: &mut [u8]) -> ReadBack {
        let from = self.read_from();
        let buffer = &mut buffer[..self.read_bytes() as usize];
        let read_to = match read_all(file, buffer, from) {
            Ok(moved) => from + moved as u64,
            Err(error) => return self.check_in_pieces(file, buffer, error),
        };
        let Page { ledger, format } = self.page;
        let (format, granule_bytes) =
            (format.on(self.file), ledger.region().granule_bytes as usize);
        let mut found = ReadBack::default();
        for at in self.granules() {
            let Some(legal) = self.expect(at) else { continue };
            let into = (at - from) as usize;
            let checked = format.check(&buffer[into..into + granule_bytes], at, legal);
            if checked.is_err() && at + granule_bytes as u64 > read_to {
                match length_of(file) {
                    Ok(end_bytes) => found.add(self.beyond(at, end_bytes)),
                    Err(error) => {
                        let end_bytes = at + granule_bytes as u64;
                        let one = Stretch { start_bytes: at, end_bytes, ..*self };
                        found.add(one.unreadable(error));
                    }
                }
                continue;
            }
            let says_little = legal.is_open() && checked.is_ok();
            let bytes =
                if says_little { &mut found.skipped_bytes } else { &mut found.checked_bytes };
            *bytes += granule_bytes as u64;
            found.mismatches.note(checked);
        }
        found
    }

    /// Something in it cannot be read: each granule for itself.
    #[cold]
    fn check_in_pieces(&self, file: &File, buffer: &mut [u8], error: io::Error) -> ReadBack {
        let granule_bytes = self.page.ledger.region().granule_bytes;
        if self.end_bytes - self.start_bytes <= granule_bytes {
            return self.unreadable(error);
        }
        let mut found = ReadBack::default();
        for start_bytes in self.granules() {
            let one = Stretch { start_bytes, end_bytes: start_bytes + granule_bytes, ..*self };
            if one.is_written() {
                found.add(one.check(file, buffer));
            }
        }
        found
    }
}

impl Mismatches {
    fn note(&mut self, checked: Result<(), Mismatch>) {
        if let Err(mismatch) = checked {
            self.add(mismatch);
        }
    }
}

/// Of a file or a device.
fn length_of(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Reads until the buffer is full, or to the end of the file: how much. The rest is zeros.
fn read_all(file: &File, buffer: &mut [u8], offset_bytes: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match sys_io::read_at(file, &mut buffer[done..], offset_bytes + done as u64) {
            Ok(0) => break,
            Ok(moved) => done += moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Direct reads that end within the last block of a file leave an offset that is not aligned.
            Err(error) if done > 0 && error.raw_os_error() == Some(22) => break,
            Err(error) => return Err(error),
        }
    }
    buffer[done..].fill(0);
    Ok(done)
}

#[cfg(test)]
#[path = "readback_tests.rs"]
mod tests;
