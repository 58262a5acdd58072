//! What a thread of a job that verifies has for itself: whole files where there are at least as many as threads, else a
//! part of one file.

use crate::generator::Generator;
use crate::plan::JobPlan;
use crate::streams::Shared;
use fathom_base::ledger::Region;

/// The plan of one thread of a job that verifies: as if it were a job of one thread on that part of the range.
#[must_use]
pub fn own_part(plan: &JobPlan, granule_bytes: u64, thread: u32, threads: u32) -> JobPlan {
    if threads <= 1 {
        return plan.clone();
    }
    let files = plan.job.files.max(1);
    let own = Own::of(plan, granule_bytes, thread, threads);
    let mut part = plan.clone();
    part.first_file = (files > 1).then_some(own.first_file);
    part.job.files = own.files;
    part.start_bytes = plan.start_bytes + own.before_bytes;
    part.length_bytes = own.length_bytes;
    part.amount_bytes = plan.amount_bytes.map(|amount| own.share_of(amount, plan, granule_bytes));
    part.job.operations =
        plan.job.operations.map(|operations| share(operations, 1, thread, threads).1);
    // Each thread counts for itself, and synchronises its own files.
    let sharers = files.min(threads);
    part.job.sync_all_every = plan.job.sync_all_every.map(|every| (every / sharers).max(1));
    part.job.threads = 1;
    part.shared = Shared::default();
    part.seed = plan.seed.wrapping_add(u64::from(thread).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    part
}

/// Files, and the same range of each of them.
struct Own {
    first_file: u32,
    files: u32,
    /// From the start of the job's range.
    before_bytes: u64,
    length_bytes: u64,
}

impl Own {
    fn of(plan: &JobPlan, granule_bytes: u64, thread: u32, threads: u32) -> Self {
        let files = plan.job.files.max(1);
        if files >= threads && files > 1 {
            let (first_file, files) = share(u64::from(files), 1, thread, threads);
            let (first_file, files) = (first_file as u32, files as u32);
            return Self { first_file, files, before_bytes: 0, length_bytes: plan.length_bytes };
        }
        // As the files of `file_choice=thread`: in turn.
        let first_file = thread % files;
        let sharers = (threads - first_file).div_ceil(files);
        let step = step_bytes(plan, granule_bytes);
        let (before_bytes, length_bytes) = share(plan.length_bytes, step, thread / files, sharers);
        Self { first_file, files: 1, before_bytes, length_bytes }
    }

    /// Its share of an amount, by its share of all bytes: all of its part when that is the amount of one pass.
    fn share_of(&self, amount: u64, plan: &JobPlan, granule_bytes: u64) -> u64 {
        let total = u128::from(plan.length_bytes) * u128::from(plan.job.files.max(1));
        let begin = u128::from(self.first_file) * u128::from(plan.length_bytes)
            + u128::from(self.before_bytes);
        let end = begin + u128::from(self.length_bytes) * u128::from(self.files);
        let granule = u128::from(granule_bytes.max(1));
        let until = |at: u128| {
            if at == total {
                return amount;
            }
            (u128::from(amount) * at / total.max(1) / granule * granule) as u64
        };
        until(end) - until(begin)
    }
}

/// What parts of a file consist of: the largest request, so that they are as equal as requests allow.
fn step_bytes(plan: &JobPlan, granule_bytes: u64) -> u64 {
    u64::from(plan.job.block_size_bytes_max()).next_multiple_of(granule_bytes)
}

/// True when each of so many threads has room for a request of its own. The plan makes sure of it for those that were
/// asked for; there are more where psync takes the place of io_uring.
pub fn has_room(plan: &JobPlan, threads: u32) -> bool {
    let Some(verify) = &plan.verify else { return true };
    let sharers = threads.div_ceil(plan.job.files.max(1));
    plan.length_bytes / step_bytes(plan, verify.granule_bytes) >= u64::from(sharers)
}

/// A thread's part of `total` in whole steps, as (what lies before, its own); the last has the rest.
fn share(total: u64, step: u64, thread: u32, threads: u32) -> (u64, u64) {
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    let (each, more) = (total / step / threads, total / step % threads);
    let before = (thread * each + thread.min(more)) * step;
    let rest = if thread + 1 == threads { total % step } else { 0 };
    (before, (each + u64::from(thread < more)) * step + rest)
}

/// The part of the target that a thread's ledger keeps.
#[must_use]
pub fn region_of(part: &JobPlan, granule_bytes: u64) -> Region {
    let length_bytes = part.length_bytes / granule_bytes * granule_bytes;
    Region {
        first_file: part.first_file.unwrap_or(0),
        files: part.job.files.max(1),
        start_bytes: part.start_bytes,
        length_bytes,
        granule_bytes,
    }
}

/// The requests of one thread of a job that verifies.
#[must_use]
pub fn generator(plan: &JobPlan, thread: u32, threads: u32) -> Generator {
    let granule_bytes = plan.verify.as_ref().map_or(1, |verify| verify.granule_bytes);
    Generator::new(&own_part(plan, granule_bytes, thread, threads), 0, 1)
}
