//! A plan that outlives its run, and the ledgers that follow from it after a crash.

use super::part::{generator, own_part, region_of};
use super::{VerifyPlan, format_of};
use crate::generator::Kind;
use crate::plan::JobPlan;
use crate::streams::Shared;
use fathom_base::ledger::{Change, Ledger, LedgerError, Mark};
use fathom_base::verify_block::{Format, FormatError};
use fathom_model::workload::{EngineKind, Job};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that the requests of a job follow from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredPlan {
    job: Job,
    start_bytes: u64,
    length_bytes: u64,
    align_bytes: u64,
    amount_bytes: Option<u64>,
    seed: u64,
    /// What tells its blocks from all others; of several files those of the first.
    pub target_id: u64,
}

impl StoredPlan {
    /// Of a job that verifies; none of another.
    #[must_use]
    pub fn of(plan: &JobPlan) -> Option<Self> {
        let JobPlan { start_bytes, length_bytes, align_bytes, amount_bytes, seed, .. } = *plan;
        let target_id = plan.verify.as_ref()?.target_id;
        let job = plan.job.clone();
        Some(Self { job, start_bytes, length_bytes, align_bytes, amount_bytes, seed, target_id })
    }

    /// The job as it was asked for.
    #[must_use]
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The plan again.
    ///
    /// # Errors
    /// [`FormatError`] for a plan that cannot have been one.
    pub fn plan(&self) -> Result<JobPlan, FormatError> {
        let Self { start_bytes, length_bytes, align_bytes, amount_bytes, seed, target_id, .. } =
            *self;
        let verify = VerifyPlan::of(&self.job, start_bytes, align_bytes)?;
        let verify = verify.map(|verify| VerifyPlan { target_id, ..verify });
        let (job, shared) = (self.job.clone(), Shared::default());
        Ok(JobPlan {
            job,
            first_file: None,
            start_bytes,
            length_bytes,
            align_bytes,
            amount_bytes,
            seed,
            shared,
            verify,
        })
    }
}

/// What is known of one thread's writes after a crash.
#[derive(Debug)]
pub struct AsOf {
    /// What must be there.
    pub ledger: Ledger,
    /// How its blocks are told.
    pub format: Format,
    /// Writes that are known to have been durable.
    pub durable_writes: u64,
}

/// The ledger of one thread as of its marks, by file, and how its blocks are told. None for a plan that does not verify.
///
/// # Errors
/// [`LedgerError`]: above all more pieces than there is memory for.
pub fn as_of(
    plan: &JobPlan,
    (thread, threads): (u32, u32),
    marks: &BTreeMap<u32, Mark>,
    limit_bytes: u64,
) -> Result<Option<AsOf>, LedgerError> {
    let Some(verify) = &plan.verify else { return Ok(None) };
    let part = own_part(plan, verify.granule_bytes, thread, threads);
    let region = region_of(&part, verify.granule_bytes);
    let mut requests = generator(plan, thread, threads);
    let writes = std::iter::from_fn(|| requests.next())
        .filter(|request| request.kind == Kind::Write)
        .map(|request| {
            let (offset_bytes, length_bytes) =
                (request.offset_bytes, u64::from(request.size_bytes));
            Change { file: request.file, ..Change::write(offset_bytes, length_bytes) }
        });
    let (ledger, durable_writes) = Ledger::replay(region, limit_bytes, marks, writes)?;
    let format = format_of(plan, verify)?;
    let is_copied = plan.job.engine == EngineKind::Mmap;
    let format = if is_copied { format.copied() } else { format };
    Ok(Some(AsOf { ledger, format, durable_writes }))
}
