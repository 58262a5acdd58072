//! Several threads that work on the directories of a tree.

use crate::error::TreeError;
use fathom_sys::signals::StopFlag;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(500);

/// How far the work is; shared by the threads.
#[derive(Debug, Default)]
pub struct Counters {
    /// Files.
    pub files: AtomicU64,
    /// Bytes.
    pub bytes: AtomicU64,
}

impl Counters {
    /// Counts a file.
    pub fn add(&self, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Files and bytes so far.
    #[must_use]
    pub fn now(&self) -> (u64, u64) {
        (self.files.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A thread that counts itself out however it ends; after a panic the others end too.
struct Leaving<'a> {
    left: &'a Mutex<usize>,
    all_done: &'a Condvar,
    is_over: &'a AtomicBool,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.is_over.store(true, Ordering::Relaxed);
        }
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.all_done.notify_all();
    }
}

/// Gives every number of a range to `work`, which runs on so many threads, until one fails or a signal comes; meanwhile
/// calls `tick` about twice a second. What a thread keeps between two numbers is made by `new`.
///
/// # Errors
/// The first of `work`.
///
/// # Panics
/// When `work` does, after all threads have ended.
pub fn for_each<W>(
    range: Range<u64>,
    threads: usize,
    stop: &StopFlag,
    tick: &mut dyn FnMut(),
    new: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, u64) -> Result<(), TreeError> + Sync,
) -> Result<(), TreeError> {
    let next = AtomicU64::new(range.start);
    let failed = Mutex::new(None);
    let is_over = AtomicBool::new(false);
    let run = || {
        let mut own = new();
        while !is_over.load(Ordering::Relaxed) && !stop.is_set() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= range.end {
                return;
            }
            if let Err(error) = work(&mut own, number) {
                is_over.store(true, Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    let (left, all_done) = (Mutex::new(0usize), Condvar::new());
    let threads = threads.clamp(1, (range.end - range.start).clamp(1, 1024) as usize);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let done = || {
                let _leaves = Leaving { left: &left, all_done: &all_done, is_over: &is_over };
                run();
            };
            *left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            if std::thread::Builder::new().spawn_scoped(scope, done).is_err() {
                *left.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
                break;
            }
        }
        let mut count = left.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            count = all_done.wait_timeout(count, TICK).unwrap_or_else(PoisonError::into_inner).0;
            tick();
        }
    });
    // The system had no thread to give, or not even one: what is left is done here.
    run();
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_worked_on_once_until_one_fails() {
        let sum = AtomicU64::new(0);
        let stop = StopFlag::default();
        let add = |own: &mut u64, number: u64| {
            *own += 1;
            sum.fetch_add(number, Ordering::Relaxed);
            if number == 5000 { Err(TreeError::Usage("x".into())) } else { Ok(()) }
        };
        for_each(1..1001, 4, &stop, &mut || {}, || 0, add).unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 500_500);
        assert!(for_each(1001..1_000_000_000, 4, &stop, &mut || {}, || 0, add).is_err());
        let panics = |(): &mut (), number: u64| {
            assert!(number < 500, "on purpose");
            Ok(())
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for_each(1..u64::MAX, 4, &StopFlag::default(), &mut || {}, || (), panics)
        }));
        assert!(ended.is_err());
        stop.set(2);
        for_each(1..u64::MAX, 4, &stop, &mut || {}, || 0, add).unwrap();
    }
}
