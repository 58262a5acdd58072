//! Targets of experiments: held over many trials, and devices that come with the claim under which they were built.

use super::{Holder, PreparedTarget, TargetWish, fits, resolve, seal};
use crate::error::LabError;
use crate::lab::Lab;
use crate::run::default_size_bytes;
use fathom_guard::Claim;
use fathom_model::record::TargetKind;
use fathom_model::workload::Job;
use fathom_sys::io as sys_io;
use std::fs::File;

impl TargetWish {
    /// True when a target that was made for the one serves the other.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let of = |wish: &Self| {
            let size_bytes = wish.size_bytes.unwrap_or_else(|| default_size_bytes(0, 0, wish));
            let makes = (wish.fresh, wish.emptied, wish.files, wish.names);
            (size_bytes, wish.write, wish.null, makes)
        };
        of(self) == of(other)
    }
}

/// A device that an experiment has built, under the claim that it came with.
///
/// # Errors
/// [`LabError::Plan`] for jobs that do not fit it.
pub(crate) fn over_claim(
    lab: &Lab<'_>,
    claim: Claim,
    jobs: &[Job],
) -> Result<PreparedTarget, LabError> {
    let (path, size_bytes) = (claim.path().to_owned(), claim.size_bytes());
    let stack = resolve(lab, &path)?;
    let logical_block_bytes = u64::from(claim.logical_block_size_bytes());
    fits(jobs, &path, size_bytes, logical_block_bytes)?;
    let (holder, kind) = (Holder::Device(Box::new(claim)), TargetKind::BlockDevice);
    let target = PreparedTarget {
        logical_block_bytes,
        ..PreparedTarget::new(lab, path, holder, kind, size_bytes, stack)
    };
    Ok(PreparedTarget {
        odd_writes: jobs.iter().any(|job| seal::has_odd_writes(job, size_bytes)),
        ..target
    })
}

impl PreparedTarget {
    /// True when other jobs than those that it was prepared for can work on it as it is.
    pub(crate) fn suits(&self, jobs: &[Job]) -> bool {
        let odd = jobs.iter().any(|job| seal::has_odd_writes(job, self.size_bytes));
        odd == self.odd_writes
            && fits(jobs, &self.path, self.size_bytes, self.logical_block_bytes).is_ok()
    }

    /// What the page cache holds of a file of ours, in bytes, and its size; none where that cannot be told.
    pub(crate) fn cached_bytes(&self) -> Option<(u64, u64)> {
        if matches!(self.holder, Holder::Null) || self.tree.is_some() {
            return None;
        }
        let file = self.own_file()?;
        let size_bytes = file.metadata().ok()?.len();
        Some((sys_io::cached_bytes(&file, size_bytes)?, size_bytes))
    }

    /// Drops from the page cache what laying out the test file has left in it: data=journal writes also direct I/O through the cache.
    pub(crate) fn drop_cached(&self) {
        if let Some(file) = self.own_file() {
            // Where that fails the pages are still there, which is looked at.
            sys_io::drop_cached_pages(&file).ok();
        }
    }

    /// Other people's files may be held in memory by their owners.
    fn own_file(&self) -> Option<File> {
        (self.kind == TargetKind::OwnFile).then(|| File::open(&self.path).ok()).flatten()
    }

    /// Gives the claim of a device back, when it is held by one.
    pub(crate) fn into_claim(self) -> Option<Claim> {
        match self.holder {
            Holder::Device(claim) => Some(*claim),
            _ => None,
        }
    }
}
