//! From a job and a target to exact ranges, or to the reason why they do not fit.

use fathom_base::units::format_size;
use fathom_model::workload::{Access, Content, EngineKind, Job, SyncCall};
use thiserror::Error;

/// A job that does not fit its target; each text names the values and the cure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Direct I/O in units that the device does not have.
    #[error(
        "{what}={} is not a multiple of the target's logical block of {} that direct I/O needs; use a multiple, or direct=no",
        format_size(*value_bytes), format_size(*logical_block_bytes)
    )]
    NotBlockMultiple {
        /// The key.
        what: &'static str,
        /// Its value.
        value_bytes: u64,
        /// The target's logical block.
        logical_block_bytes: u64,
    },
    /// Nothing, or less than one request, to work on.
    #[error(
        "the range has {} but one request is {}; {cure}",
        format_size(*range_bytes), format_size(*request_bytes)
    )]
    RangeTooSmall {
        /// What there is.
        range_bytes: u64,
        /// What one request needs.
        request_bytes: u64,
        /// What to change.
        cure: &'static str,
    },
    /// Offset or span beyond the target's end.
    #[error(
        "{what}={} reaches beyond the target, which has {}; make it smaller",
        format_size(*value_bytes), format_size(*target_bytes)
    )]
    BeyondTarget {
        /// The key.
        what: &'static str,
        /// Its value.
        value_bytes: u64,
        /// The target's size.
        target_bytes: u64,
    },
}

/// A job with its places in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPlan {
    /// The job as asked.
    pub job: Job,
    /// First byte of the range.
    pub start_bytes: u64,
    /// Length of the range.
    pub length_bytes: u64,
    /// Offsets are the start plus multiples of this.
    pub align_bytes: u64,
    /// Bytes after which the job ends.
    pub amount_bytes: Option<u64>,
    /// Seed of all its choices.
    pub seed: u64,
}

impl JobPlan {
    /// The synchronising call as an engine operation.
    #[must_use]
    pub fn sync_op(call: SyncCall) -> crate::engine::Op {
        match call {
            SyncCall::Fsync => crate::engine::Op::Fsync,
            SyncCall::Fdatasync => crate::engine::Op::Fdatasync,
        }
    }

    /// True when written buffers must be made distinct.
    #[must_use]
    pub fn stamps_writes(&self) -> bool {
        self.job.writes()
            && self.job.content == Content::Random
            && self.job.engine != EngineKind::Null
    }
}

/// Resolves a job against a target of the given size and logical block.
///
/// # Errors
/// [`PlanError`] names the setting that does not fit.
pub fn plan(
    job: &Job,
    target_bytes: u64,
    logical_block_bytes: u64,
    seed: u64,
) -> Result<JobPlan, PlanError> {
    let align_bytes = job.alignment_bytes().max(1);
    let unit =
        if job.direct && job.engine != EngineKind::Null { logical_block_bytes.max(1) } else { 1 };
    let whole = |what: &'static str, value_bytes: u64| {
        if value_bytes.is_multiple_of(unit) {
            Ok(())
        } else {
            Err(PlanError::NotBlockMultiple { what, value_bytes, logical_block_bytes: unit })
        }
    };
    for size in &job.block_size {
        whole("block_size", u64::from(size.size_bytes))?;
    }
    if job.access == Access::Replication {
        whole("log_block_size", u64::from(job.log_block_size_bytes))?;
    }
    whole("align", align_bytes)?;

    let offset = job.offset.bytes(target_bytes);
    if offset >= target_bytes {
        return Err(PlanError::BeyondTarget { what: "offset", value_bytes: offset, target_bytes });
    }
    // Shares seldom fall on a block; whole numbers of bytes were chosen by somebody and must fit as they are.
    let start_bytes = match job.offset {
        fathom_model::workload::Extent::Share(_) => offset - offset % align_bytes.max(unit),
        fathom_model::workload::Extent::Bytes(_) => {
            whole("offset", offset)?;
            offset
        }
    };
    if let Some(fathom_model::workload::Extent::Bytes(span)) = job.span {
        whole("span", span)?;
    }
    whole("amount", job.amount_bytes.unwrap_or(0))?;
    // The last bytes of a file whose size is no multiple of the block cannot be reached directly.
    let reachable_bytes = target_bytes - target_bytes % unit;
    let span = job.span.map(|s| s.bytes(target_bytes) / unit * unit);
    let length_bytes = span.unwrap_or(reachable_bytes.saturating_sub(start_bytes));
    if start_bytes.checked_add(length_bytes).is_none_or(|end| end > target_bytes) {
        return Err(PlanError::BeyondTarget {
            what: "span",
            value_bytes: length_bytes,
            target_bytes,
        });
    }
    let request_bytes = u64::from(job.block_size_bytes_max());
    let parts = if job.access == Access::Sequential { u64::from(job.threads) } else { 1 };
    let needed =
        if job.access == Access::Replication { request_bytes * 32 } else { request_bytes * parts };
    if length_bytes < needed {
        let cure = if parts > 1 {
            "use a smaller block_size, fewer threads (each has its own part) or a larger target"
        } else {
            "use a smaller block_size or a larger target or span"
        };
        return Err(PlanError::RangeTooSmall {
            range_bytes: length_bytes,
            request_bytes: needed,
            cure,
        });
    }
    // One pass: a second one over the same place would be served by caches.
    let amount_bytes = match job.access {
        Access::Sequential if job.duration_ns.is_none() || job.amount_bytes.is_some() => {
            job.amount_bytes.map(|amount| amount.min(length_bytes))
        }
        _ => job.amount_bytes,
    };
    Ok(JobPlan { job: job.clone(), start_bytes, length_bytes, align_bytes, amount_bytes, seed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;

    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut job = Job { duration_ns: Some(1), ..Job::default() };
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        job
    }

    fn error(pairs: &[(&str, &str)]) -> String {
        plan(&job(pairs), 1 << 20, 4096, 1).expect_err("refused").to_string()
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(
            error(&[("block_size", "512")]),
            "block_size=512 B is not a multiple of the target's logical block of 4 KiB that direct I/O needs; use a multiple, or direct=no"
        );
        assert!(
            error(&[("block_size", "2M")])
                .starts_with("the range has 1 MiB but one request is 2 MiB")
        );
        assert!(error(&[("offset", "2M")]).starts_with("offset=2 MiB reaches beyond the target"));
        assert!(
            error(&[("offset", "512k"), ("span", "1M")]).starts_with("span=1 MiB reaches beyond")
        );
        assert!(error(&[("offset", "1000")]).starts_with("offset=1000 B is not a multiple"));
        assert!(
            error(&[("access", "sequential"), ("block_size", "512k"), ("threads", "4")])
                .contains("fewer threads")
        );
    }

    #[test]
    fn shares_are_rounded_to_blocks() {
        let plan =
            plan(&job(&[("offset", "33%"), ("span", "10%")]), 1 << 20, 512, 1).expect("fits");
        assert_eq!(plan.start_bytes % 4096, 0);
        assert_eq!(plan.length_bytes, (1u64 << 20) / 10 / 512 * 512);
    }

    #[test]
    fn odd_sizes_are_used_as_far_as_blocks_reach() {
        let odd = plan(&job(&[("access", "sequential")]), 10_000_001, 4096, 1).expect("fits");
        assert_eq!(odd.length_bytes, 10_000_001 / 4096 * 4096);
        assert!(
            error(&[("access", "sequential"), ("amount", "1000000")])
                .starts_with("amount=976.6 KiB is not")
        );
        assert!(error(&[("span", "1000")]).starts_with("span=1000 B is not a multiple"));
    }

    #[test]
    fn buffered_jobs_need_no_blocks_and_sequential_ones_make_one_pass() {
        assert!(plan(&job(&[("block_size", "100"), ("direct", "no")]), 1 << 20, 4096, 1).is_ok());
        let once = plan(&job(&[("access", "sequential"), ("amount", "10G")]), 1 << 20, 512, 1)
            .expect("fits");
        assert_eq!(once.amount_bytes, Some(1 << 20));
    }
}
