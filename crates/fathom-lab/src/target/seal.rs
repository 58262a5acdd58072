//! Telling what others write into test files from what fathom writes: between phases the guard is told whether fathom
//! itself is about to write.

use super::{Holder, PreparedTarget};
use fathom_guard::FileRefusal;
use fathom_model::workload::Job;

/// True when a job's writes destroy the stamps of others: they begin or end within sectors.
pub(super) fn has_odd_writes(job: &Job, size_bytes: u64) -> bool {
    const SECTOR_BYTES: u64 = 512;
    let sizes = job.write_sizes().iter().map(|size| size.size_bytes);
    let sizes = sizes.chain([job.log_block_size_bytes]).map(u64::from);
    let offset_bytes = job.offset.bytes(size_bytes);
    let others = [job.alignment_bytes(), job.stride_bytes.unwrap_or(0), offset_bytes];
    sizes.chain(others).any(|bytes| !bytes.is_multiple_of(SECTOR_BYTES))
}

impl PreparedTarget {
    /// Its name in the directory of ours that holds it.
    fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Notes how it is left, so that whatever somebody else writes from here on is told from what fathom wrote.
    pub(super) fn seal(&self) -> Result<(), FileRefusal> {
        match &self.holder {
            Holder::New(file) => file.borrow_mut().seal(),
            Holder::InDir(dir) => {
                dir.borrow_mut().as_mut().map_or(Ok(()), |dir| dir.seal_file(self.name()))
            }
            Holder::Null | Holder::Foreign | Holder::Kept(_) | Holder::Device(_) => Ok(()),
        }
    }

    /// Notes that fathom is about to write to it.
    pub(super) fn unseal(&self) -> Result<(), FileRefusal> {
        match &self.holder {
            Holder::New(file) => file.borrow_mut().unseal(self.odd_writes),
            Holder::InDir(dir) => {
                dir.borrow_mut().as_mut().map_or(Ok(()), |dir| dir.unseal_file(self.name()))
            }
            Holder::Null | Holder::Foreign | Holder::Kept(_) | Holder::Device(_) => Ok(()),
        }
    }
}
