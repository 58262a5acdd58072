//! Test files: really written with random data, never sparse, never only allocated.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::sampler::{NO_TIME_NS, Progress, Sampler};
use fathom_load::plan::plan;
use fathom_load::run::{self, Control, JobSetup, LoadError};
use fathom_load::target::LoadTarget;
use fathom_model::pattern::FileChoice;
use fathom_model::workload::{Access, Job, SyncCall, WeightedSize};
use fathom_sys::io as sys_io;
use std::path::Path;

/// What laying out came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaidOut {
    /// Bytes that are really there, a multiple of the block.
    pub size_bytes: u64,
    /// Time it took.
    pub took_ns: u64,
}

/// How often progress is told.
const PROGRESS_NS: u64 = 1_000_000_000;
/// The limit of file sizes is reached.
const EFBIG: i32 = 27;
/// Block of the writes.
const BLOCK_BYTES: u32 = 1 << 20;

/// Writes `size_bytes` of random data from the start of a file of ours and makes them durable; ends early, with less,
/// when `time_limit_ns` has passed.
///
/// # Errors
/// [`LabError::Layout`] when a write fails, [`LabError::Interrupted`] after a signal.
pub fn lay_out(
    lab: &mut Lab<'_>,
    target: &LoadTarget,
    path: &Path,
    size_bytes: u64,
    time_limit_ns: Option<u64>,
    rest_after_ns: u64,
) -> Result<LaidOut, LabError> {
    let file_bytes = target.size_bytes().min(size_bytes);
    let block = BLOCK_BYTES.min(u32::try_from(file_bytes).unwrap_or(BLOCK_BYTES));
    let job = Job {
        name: "layout".into(),
        access: Access::Sequential,
        block_size: vec![WeightedSize::fixed(block)],
        files: target.files(),
        file_choice: FileChoice::Sequential,
        align_bytes: Some(target.logical_block_bytes()),
        depth: 4,
        write_fraction: 1.0,
        // One call for each of many files would take longer than writing them.
        sync_at_end: (target.files() == 1).then_some(SyncCall::Fdatasync),
        amount_bytes: Some(size_bytes),
        duration_ns: time_limit_ns,
        direct: target.is_direct(),
        ..Job::default()
    };
    let seed = lab.seeds.next_u64();
    let plan = plan(&job, file_bytes, target.logical_block_bytes(), seed).map_err(|source| {
        LabError::Plan { job: job.name.clone(), target: path.display().to_string(), source }
    })?;
    let progress = Progress {
        label: "the test file".into(),
        rest_after_ns,
        planned_ns: time_limit_ns.unwrap_or(NO_TIME_NS),
        planned_bytes: Some(size_bytes),
        layout: true,
        emit: lab.emit,
    };
    let mut sampler = Sampler::new(&lab.root, Vec::new(), progress);
    let control = Control { clock: lab.clock, interval_ns: PROGRESS_NS, stop: &lab.stop };
    let mut one_by_one = plan.clone();
    one_by_one.job.depth = 1;
    let mut write = |plan| run::run(&[JobSetup { plan, target }], &control, &mut sampler);
    let outcome = match write(plan) {
        // Below a low limit of descriptors not even so few files can be open at once.
        Err(LoadError::Missing { .. }) => write(one_by_one)?,
        other => other?,
    };
    if let Some(failure) = outcome.failure {
        let is_limit = failure.is_out_of_threads() || failure.errno == EFBIG;
        let class = if is_limit { ErrorClass::Missing } else { ErrorClass::TargetIo };
        return Err(LabError::Layout { path: path.to_owned(), message: failure.message, class });
    }
    if outcome.interrupted {
        return Err(LabError::Interrupted);
    }
    if let Some(file) = target.file().filter(|_| target.files() > 1) {
        sys_io::sync_filesystem(file).map_err(|source| LabError::TargetIo {
            path: path.to_owned(),
            what: "bringing the test files onto the disk",
            source,
        })?;
    }
    let written = outcome.jobs.iter().map(|j| j.transfers().bytes).sum();
    Ok(LaidOut { size_bytes: written, took_ns: outcome.window_ns })
}
