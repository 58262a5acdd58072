//! The same question about many things, on several threads.

use fathom_base::order::Order;
use fathom_sys::threads;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The answers in the order of the items. `threads` counts the caller's own; the others have open files of their own, which an
/// answer must not hold.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    ask: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    // Items that a thread takes at once: few enough that all threads end together.
    let batch = (items.len() / (4 * threads.max(1))).clamp(1, 64);
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        loop {
            let from = next.fetch_add(batch, Ordering::Relaxed);
            let taken = items.iter().enumerate().skip(from).take(batch);
            let found: Vec<(usize, R)> = taken.map(|(index, item)| (index, ask(item))).collect();
            if found.is_empty() {
                return;
            }
            // Poisoned only by a panic of another thread, which the scope passes on.
            if let Ok(mut answers) = answers.lock() {
                answers.extend(found);
            }
        }
    };
    let helpers = threads.min(items.len()).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| {
                let _files = threads::own_files();
                work();
            });
        }
        work();
    });
    let mut answers = answers.into_inner().unwrap_or_default();
    answers.order_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Threads for work that the processors do: one on each of them, within reason.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_in_the_order_of_the_questions() {
        let items: Vec<usize> = (0..1000).collect();
        let expected: Vec<usize> = items.iter().map(|n| n * n).collect();
        for threads in [0, 1, 3, 64] {
            assert_eq!(map(&items, threads, |n| n * n), expected, "{threads}");
        }
        assert!(map(&[] as &[u8], 4, |n| *n).is_empty());
    }
}
