//! How far the syncs are that end jobs: of very many files they take longer than what is measured.

use crate::run::Syncing;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last syncs of all jobs together.
#[derive(Debug, Default)]
pub struct FinalSyncs {
    /// When the first began, by the run's clock; 0 before.
    began_ns: AtomicU64,
    /// Files whose sync was begun or comes next.
    files: AtomicU64,
    /// Those that are done.
    done: AtomicU64,
}

impl FinalSyncs {
    /// Somebody syncs so many files from now on.
    pub fn begin(&self, files: usize, now_ns: u64) {
        let _ = self.began_ns.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed);
        self.files.fetch_add(files as u64, Ordering::Relaxed);
    }

    /// One of them is done.
    pub fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// How far they are; none when no sync has begun.
    pub fn now(&self, now_ns: u64) -> Option<Syncing> {
        let files = self.files.load(Ordering::Relaxed);
        (files > 0).then(|| Syncing {
            done: self.done.load(Ordering::Relaxed),
            files,
            elapsed_ns: now_ns.saturating_sub(self.began_ns.load(Ordering::Relaxed)),
        })
    }
}
