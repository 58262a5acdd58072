//! How much of a trace has been read, for those who wait for it.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What has been read of the files of a trace; whoever has a copy of it sees how that goes on.
#[derive(Debug, Clone, Default)]
pub struct SoFar {
    done_bytes: Arc<AtomicU64>,
    total_bytes: u64,
}

impl SoFar {
    /// Bytes that have been read, and how many there were when it was opened; never more than that.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.done_bytes.load(Ordering::Relaxed).min(self.total_bytes), self.total_bytes)
    }

    /// One more file of it.
    pub(super) fn count(&mut self, file: File) -> Counted {
        self.total_bytes += file.metadata().map_or(0, |meta| meta.len());
        Counted { file, done_bytes: Arc::clone(&self.done_bytes) }
    }
}

/// A file that is counted while it is read.
#[derive(Debug)]
pub(super) struct Counted {
    file: File,
    done_bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.done_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
