//! From a job and a target to exact ranges, or to the reason why they do not fit.

use crate::generator;
use crate::payload;
use crate::streams;
pub use crate::streams::Shared;
use crate::target::LoadTarget;
use crate::verify::{VerifyPlan, own_part};
use fathom_base::content::ContentError;
use fathom_base::distribution::DistributionError;
use fathom_base::units::{format_size, format_sizes};
use fathom_base::verify_block::FormatError;
use fathom_model::pattern::{Cursor, FileChoice};
use fathom_model::workload::{Access, EngineKind, Job, SyncCall, Verify};
use thiserror::Error;

/// A job that does not fit its target; each text names the values and the cure.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// Direct I/O in units that the device does not have.
    #[error(
        "{what}={value_bytes} B is not a multiple of the target's logical block of {} that direct I/O needs; use a multiple, or direct=no",
        format_size(*logical_block_bytes)
    )]
    NotBlockMultiple {
        /// The key.
        what: &'static str,
        /// Its value.
        value_bytes: u64,
        /// The target's logical block.
        logical_block_bytes: u64,
    },
    /// Trims or zero ranges of what a device cannot clear.
    #[error(
        "{what}={value_bytes} B is not a multiple of the device's logical block of {}, which trims and zero ranges need whatever direct= is; use a multiple",
        format_size(*logical_block_bytes)
    )]
    ClearsPartOfBlock {
        /// The key.
        what: &'static str,
        /// Its value.
        value_bytes: u64,
        /// The device's logical block.
        logical_block_bytes: u64,
    },
    /// Nothing, or less than one request, to work on.
    #[error(
        "the range has {} but {needs} {}; {cure}",
        format_sizes(*range_bytes, *request_bytes).0, format_sizes(*range_bytes, *request_bytes).1
    )]
    RangeTooSmall {
        /// What there is.
        range_bytes: u64,
        /// Who needs more.
        needs: &'static str,
        /// How much that is.
        request_bytes: u64,
        /// What to change.
        cure: &'static str,
    },
    /// Offset or span beyond the target's end.
    #[error(
        "{what}={} reaches beyond the target, which has {}; make it smaller (offset=0 span=100% is all of it)",
        format_sizes(*value_bytes, *target_bytes).0, format_sizes(*value_bytes, *target_bytes).1
    )]
    BeyondTarget {
        /// The key.
        what: &'static str,
        /// Its value.
        value_bytes: u64,
        /// The target's size.
        target_bytes: u64,
    },
    /// A distribution or an order that does not exist over the range.
    #[error("{key}: {source}")]
    Pattern {
        /// The key.
        key: &'static str,
        /// What is wrong.
        source: DistributionError,
    },
    /// Jobs that share a position have different ranges or places.
    #[error(
        "cursor=workload: its order, its range, or what its places are (access, offset, span, files, file_choice, align, block_size, stride), is not that of job '{other}', so that a common position means different offsets; give both the same, or use cursor=job"
    )]
    SharedRange {
        /// The job with the other range.
        job: String,
        /// The job that it shares with.
        other: String,
    },
    /// A job that would share its position with nobody, though others are asked to.
    #[error(
        "cursor=workload: no other job with it has the same target, so that nothing would be shared (jobs that start with an empty file, and those of another size or number of files, have a target of their own); use cursor=job, or give them one target"
    )]
    SharedByNobody {
        /// The job.
        job: String,
    },
    /// Something must be a multiple of the alignment.
    #[error("stride={} is not a multiple of the distance of offsets, {}; use a multiple, or set align",
        format_sizes(*stride_bytes, *align_bytes).0, format_sizes(*stride_bytes, *align_bytes).1)]
    Stride {
        /// Its value.
        stride_bytes: u64,
        /// The alignment.
        align_bytes: u64,
    },
    /// A stride longer than the range that a thread has.
    #[error("stride={} is longer than the range of a thread, {}; use a smaller one, a larger target or span, or fewer threads",
        format_sizes(*stride_bytes, *range_bytes).0, format_sizes(*stride_bytes, *range_bytes).1)]
    StrideTooLong {
        /// Its value.
        stride_bytes: u64,
        /// The length of the range.
        range_bytes: u64,
    },
    /// Content that cannot be made.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Blocks that cannot be verified.
    #[error("verify: {0}")]
    Verify(#[from] FormatError),
    /// More records than a list of them should have.
    #[error(
        "access=iozone keeps a list of all {records} records, at most {RECORDS_MAX}; use a larger block_size or a smaller span"
    )]
    TooManyRecords {
        /// How many there are.
        records: u64,
    },
}

/// The longest list that `access=iozone` makes: 1 GiB.
const RECORDS_MAX: u64 = 1 << 27;

/// A job with its places in bytes.
#[derive(Debug, Clone)]
pub struct JobPlan {
    /// The job as asked.
    pub job: Job,
    /// Of a part of the files, the first: its requests are on that one and those that follow. None of all of them.
    pub first_file: Option<u32>,
    /// First byte of the range, in each file.
    pub start_bytes: u64,
    /// Length of the range.
    pub length_bytes: u64,
    /// Offsets are the start plus multiples of this.
    pub align_bytes: u64,
    /// Bytes after which the job ends.
    pub amount_bytes: Option<u64>,
    /// Seed of all its choices.
    pub seed: u64,
    /// What its threads share.
    pub shared: Shared,
    /// How written blocks are told and checked.
    pub verify: Option<VerifyPlan>,
}

impl JobPlan {
    /// True when each thread has a file of its own.
    pub(crate) fn has_files_of_threads(&self) -> bool {
        self.job.file_choice == FileChoice::Thread && self.job.files > 1
    }

    /// What a thread does that has a file for itself; none where all threads work on all files. The order of
    /// `access=iozone` is the same for all of them, everything else is not.
    #[must_use]
    pub(crate) fn of_thread(&self, thread: u32) -> Option<Self> {
        if !self.has_files_of_threads() {
            return None;
        }
        let mut own = self.clone();
        (own.job.files, own.job.threads) = (1, 1);
        own.seed = self.seed.wrapping_add(u64::from(thread).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Some(own)
    }

    /// The file of a thread that has one for itself. There can be more threads than files where psync takes the place of
    /// io_uring.
    #[must_use]
    pub(crate) fn file_of(&self, thread: u32) -> u32 {
        thread % self.job.files.max(1)
    }

    /// The plan of a job on names.
    fn without_data(job: &Job, seed: u64) -> Self {
        Self {
            job: job.clone(),
            first_file: None,
            start_bytes: 0,
            length_bytes: 0,
            align_bytes: 1,
            amount_bytes: None,
            seed,
            shared: Shared::default(),
            verify: None,
        }
    }

    /// The synchronising call as an engine operation.
    #[must_use]
    pub fn sync_op(call: SyncCall) -> crate::engine::Op {
        match call {
            SyncCall::Fsync => crate::engine::Op::Fsync,
            SyncCall::Fdatasync => crate::engine::Op::Fdatasync,
            // Place and size are those of the write that it follows.
            SyncCall::SyncFileRange => {
                crate::engine::Op::SyncRange { offset_bytes: 0, size_bytes: 0 }
            }
        }
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
    if job.metadata.is_some() {
        return Ok(JobPlan::without_data(job, seed));
    }
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
    for (what, size_bytes) in asked_sizes(job) {
        whole(what, u64::from(size_bytes))?;
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
            what: if start_bytes > 0 { "offset+span" } else { "span" },
            value_bytes: start_bytes.saturating_add(length_bytes),
            target_bytes,
        });
    }
    let verify = VerifyPlan::of(job, start_bytes, align_bytes)?;
    // What is verified is written in whole pieces.
    let piece_bytes = verify.as_ref().map_or(1, |verify| verify.granule_bytes);
    let length_bytes = length_bytes / piece_bytes * piece_bytes;
    let files = u64::from(job.files.max(1));
    let mut plan = JobPlan {
        job: job.clone(),
        first_file: None,
        start_bytes,
        length_bytes,
        align_bytes,
        amount_bytes: None,
        seed,
        shared: Shared::default(),
        verify,
    };
    let is_plain = generator::is_plain_sequence(&plan);
    if !(is_plain && is_one_piece(&plan)) {
        check_length(job, length_bytes)?;
    }
    let pass_bytes =
        if is_plain { length_bytes.saturating_mul(files) } else { streams::pass_bytes(&plan) };
    plan.amount_bytes = amount(job, pass_bytes);
    payload::filler(job, seed)?;
    check_pattern(&plan)?;
    Ok(plan)
}

/// Finds out whether what a job clears of a device is whole logical blocks.
///
/// # Errors
/// [`PlanError::ClearsPartOfBlock`] names the setting that does not fit.
pub fn check_clearing(job: &Job, logical_block_bytes: u64) -> Result<(), PlanError> {
    if job.trim_fraction + job.zero_fraction == 0.0 || job.engine == EngineKind::Null {
        return Ok(());
    }
    let has_own = !job.trim_block_size.is_empty();
    let key = if has_own { "trim_block_size" } else { "block_size" };
    let sizes = asked_sizes(job).filter(|(what, _)| *what == key);
    let sizes = sizes.map(|(what, size_bytes)| (what, u64::from(size_bytes)));
    let offset = match job.offset {
        fathom_model::workload::Extent::Bytes(bytes) => bytes,
        fathom_model::workload::Extent::Share(_) => 0,
    };
    let mut places = sizes.chain([("align", job.alignment_bytes()), ("offset", offset)]);
    match places.find(|(_, bytes)| !bytes.is_multiple_of(logical_block_bytes.max(1))) {
        Some((what, value_bytes)) => {
            Err(PlanError::ClearsPartOfBlock { what, value_bytes, logical_block_bytes })
        }
        None => Ok(()),
    }
}

/// The smallest size of each entry of the keys for sizes; ranges consist of its multiples.
fn asked_sizes(job: &Job) -> impl Iterator<Item = (&'static str, u32)> {
    let keys = [
        ("block_size", &job.block_size),
        ("write_block_size", &job.write_block_size),
        ("trim_block_size", &job.trim_block_size),
    ];
    keys.into_iter().flat_map(|(key, sizes)| sizes.iter().map(move |size| (key, size.size_bytes)))
}

/// How many threads have a part of the range for themselves.
fn parts(job: &Job) -> u64 {
    let has_parts = job.access.has_cursor() && job.cursor == Cursor::Thread;
    let has_parts = has_parts && job.access != Access::Sweep || job.verify != Verify::None;
    if has_parts { u64::from(job.threads) } else { 1 }
}

/// The shortest range in bytes that a job can work on: room for one request of each thread that has a part of its own.
#[must_use]
pub fn range_bytes_min(job: &Job) -> u64 {
    let requests = if job.access == Access::Replication { 32 } else { parts(job) };
    u64::from(job.block_size_bytes_max()) * requests
}

/// True for one stream that ends with its amount over less than a block: as the last piece of a longer one, it is what there is.
fn is_one_piece(plan: &JobPlan) -> bool {
    let job = &plan.job;
    let is_stream = job.access == Access::Sequential && job.threads == 1;
    let is_checked = job.verify != Verify::None;
    is_stream && !is_checked && job.duration_ns.is_none() && plan.length_bytes > 0
}

/// Makes sure that each file has room for a request, and each thread's part for its own.
fn check_length(job: &Job, length_bytes: u64) -> Result<(), PlanError> {
    let request_bytes = u64::from(job.block_size_bytes_max());
    let files = u64::from(job.files.max(1));
    // Where blocks are verified, threads that share a file have parts of it.
    let is_shared = job.verify != Verify::None && u64::from(job.threads) > files;
    let sharers = if is_shared { u64::from(job.threads).div_ceil(files) } else { 1 };
    let needed_in_each = request_bytes.saturating_mul(sharers);
    let needed = range_bytes_min(job);
    if length_bytes < needed_in_each || length_bytes.saturating_mul(files) < needed {
        let needs = match job.access {
            Access::Replication => "32 requests of data and log are",
            _ if parts(job) > 1 => "one request of each thread is",
            _ => "one request is",
        };
        let cure = if parts(job) > 1 {
            "use a smaller block_size, fewer threads (each has its own part) or a larger target (size=, where fathom \
             makes the file)"
        } else if job.span.is_some() {
            "use a smaller block_size, a larger span (offset=0 span=100% is all of the target), or a larger target \
             (size=, where fathom makes the file)"
        } else {
            "use a smaller block_size, or a larger span or target (size=, where fathom makes the file)"
        };
        return Err(PlanError::RangeTooSmall {
            range_bytes: length_bytes,
            needs,
            request_bytes: needed,
            cure,
        });
    }
    Ok(())
}

/// Bytes after which a job ends. One pass where places follow each other: over the same place a second one would be
/// served by caches.
fn amount(job: &Job, total_bytes: u64) -> Option<u64> {
    let is_one_pass = job.makes_one_pass() && job.access != Access::Sweep;
    if !is_one_pass || (job.duration_ns.is_some() && job.amount_bytes.is_none()) {
        return job.amount_bytes;
    }
    let by_operations =
        job.operations.map(|count| count.saturating_mul(u64::from(job.block_size_bytes_max())));
    match (job.amount_bytes, job.operations) {
        (None, None) => Some(total_bytes),
        // Just what the operations take makes the size of a file; on a smaller target they go on at its beginning.
        (amount, Some(_)) if amount == by_operations => None,
        (amount, _) => amount.map(|amount| amount.min(total_bytes)),
    }
}

fn check_pattern(plan: &JobPlan) -> Result<(), PlanError> {
    let (job, align_bytes) = (&plan.job, plan.align_bytes);
    if let Some(stride_bytes) = job.stride_bytes.filter(|s| !s.is_multiple_of(align_bytes)) {
        return Err(PlanError::Stride { stride_bytes, align_bytes });
    }
    let parts = if job.cursor == Cursor::Thread { u64::from(job.threads) } else { 1 };
    let places = plan.length_bytes / align_bytes * u64::from(job.files) / parts;
    let range_bytes = places * align_bytes;
    if let Some(stride_bytes) = job.stride_bytes.filter(|s| *s > range_bytes) {
        return Err(PlanError::StrideTooLong { stride_bytes, range_bytes });
    }
    let records = plan.length_bytes / align_bytes * u64::from(job.files);
    if job.access == Access::Iozone && records > RECORDS_MAX {
        return Err(PlanError::TooManyRecords { records });
    }
    let key = match job.access {
        Access::Random => "distribution",
        Access::Strided => "stride",
        Access::Sweep => "sweep_points",
        _ => "access",
    };
    let check =
        |plan: &JobPlan| streams::check(plan).map_err(|source| PlanError::Pattern { key, source });
    let Some(verify) = &plan.verify else { return check(plan) };
    let part = |thread| own_part(plan, verify.granule_bytes, thread, job.threads);
    [0, job.threads.max(1) - 1].into_iter().try_for_each(|thread| check(&part(thread)))
}

/// Lets the jobs of `cursor=workload` that lie on the same target share one position.
///
/// The one pass by which they end without an amount of their own is shared too: to each the same part of it.
///
/// # Errors
/// [`PlanError::SharedRange`] when jobs with a common position have different orders or ranges, or places of different size:
/// each would leave out what the other takes. [`PlanError::SharedByNobody`] for one of several that is alone on its target.
pub fn share_cursors<'a>(
    jobs: impl Iterator<Item = (&'a LoadTarget, &'a mut JobPlan)>,
) -> Result<(), PlanError> {
    let mut groups: Vec<(_, Vec<&mut JobPlan>)> = Vec::new();
    for (target, plan) in jobs.filter(|(_, plan)| plan.job.cursor == Cursor::Workload) {
        let counts_bytes = matches!(plan.job.access, Access::Sequential | Access::Reverse);
        let key = target.identity();
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => {
                if !has_places_of(plan, group[0], counts_bytes) {
                    let (job, other) = (plan.job.name.clone(), group[0].job.name.clone());
                    return Err(PlanError::SharedRange { job, other });
                }
                plan.shared = group[0].shared.clone();
                group.push(plan);
            }
            None => groups.push((key, vec![plan])),
        }
    }
    let is_alone = |(_, group): &&(_, Vec<&mut JobPlan>)| group.len() == 1;
    if let Some((_, alone)) = groups.iter().find(is_alone).filter(|_| groups.len() > 1) {
        return Err(PlanError::SharedByNobody { job: alone[0].job.name.clone() });
    }
    for (_, group) in groups {
        let has_one_pass =
            |plan: &&mut JobPlan| plan.amount_bytes.is_some() && plan.job.amount_bytes.is_none();
        share_out(&mut group.into_iter().filter(has_one_pass).collect::<Vec<_>>());
    }
    Ok(())
}

/// True when a position, in bytes or as the number of a place, is the same offset for both.
fn has_places_of(plan: &JobPlan, other: &JobPlan, counts_bytes: bool) -> bool {
    let range = |plan: &JobPlan| (plan.start_bytes, plan.length_bytes, plan.job.files);
    let places = |plan: &JobPlan| {
        let job = &plan.job;
        let largest = job.block_size_bytes_max();
        let choice = (job.files > 1).then_some(job.file_choice);
        (plan.align_bytes, largest, job.stride_bytes, job.sweep_points, choice)
    };
    let is_alike = plan.job.access == other.job.access && range(plan) == range(other);
    is_alike
        && match counts_bytes {
            true => streams::walks_alike(plan, other),
            false => places(plan) == places(other),
        }
}

/// Gives each of these its part of the pass, in whole requests but for what is left at the end.
fn share_out(plans: &mut [&mut JobPlan]) {
    let count = plans.len() as u64;
    let largest = plans.iter().map(|plan| u64::from(plan.job.block_size_bytes_max())).max();
    let request_bytes = largest.unwrap_or(1).max(1);
    for (nth, plan) in (0..).zip(plans) {
        let part = |total_bytes: u64| {
            let border = |nth: u64| match nth == count {
                true => total_bytes,
                false => total_bytes / request_bytes * nth / count * request_bytes,
            };
            (border(nth + 1) - border(nth)).max(request_bytes.min(total_bytes))
        };
        plan.amount_bytes = plan.amount_bytes.map(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Generator;
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
            error(&[("offset", "512k"), ("span", "1M")])
                .starts_with("offset+span=1.5 MiB reaches beyond")
        );
        assert!(error(&[("offset", "100001")]).starts_with("offset=100001 B is not a multiple"));
        assert!(
            error(&[("access", "sequential"), ("block_size", "512k"), ("threads", "4")])
                .contains("fewer threads")
        );
    }

    /// A stream that ends with its amount takes less than a block as the classics do; for a time it would go round in it.
    #[test]
    fn less_than_a_block_is_one_piece_of_a_stream() {
        let of = |pairs: &[(&str, &str)], target_bytes: u64| {
            let mut job = job(&[&[("access", "sequential"), ("block_size", "2M")], pairs].concat());
            job.duration_ns = pairs.contains(&("threads", "1")).then_some(1);
            plan(&job, target_bytes, 512, 1).map_err(|error| error.to_string())
        };
        let pieces = |plan: &JobPlan| {
            let mut generator = Generator::new(plan, 0, 1);
            std::iter::from_fn(move || generator.next().map(|r| (r.offset_bytes, r.size_bytes)))
                .take(9)
                .collect::<Vec<_>>()
        };
        let small = of(&[("amount", "1G"), ("direct", "no")], 1001).expect("one piece");
        assert_eq!(pieces(&small), [(0, 1001)]);
        let direct = of(&[("amount", "1G")], 1025).expect("what can be reached");
        assert_eq!(pieces(&direct), [(0, 1024)]);
        for refused in [
            &[("threads", "2")][..],
            &[("threads", "1")],
            &[("verify", "after"), ("write_fraction", "1")],
            &[("access", "reverse")],
        ] {
            let said = of(refused, 1 << 20).expect_err("refused");
            assert!(said.starts_with("the range has "), "{said}");
        }
        assert!(of(&[], 511).expect_err("nothing").starts_with("the range has 0 B"));
    }

    /// Direct or not: the kernel clears whole logical blocks of a device.
    #[test]
    fn a_device_clears_whole_blocks() {
        let of = |more: &[(&str, &str)]| {
            let job = job(&[&[("direct", "no")][..], more].concat());
            check_clearing(&job, 4096).map_err(|error| error.to_string())
        };
        for (pairs, start) in [
            (&[("trim_fraction", "1"), ("trim_block_size", "2k")][..], "trim_block_size=2048 B"),
            (&[("zero_fraction", "0.1"), ("block_size", "512")], "block_size=512 B"),
            (&[("trim_fraction", "1"), ("align", "512")], "align=512 B"),
            (&[("trim_fraction", "1"), ("offset", "2k")], "offset=2048 B"),
            (
                &[("trim_fraction", "0.5"), ("trim_block_size", "4k"), ("block_size", "512")],
                "align",
            ),
        ] {
            let refused = of(pairs).expect_err("refused");
            assert!(refused.starts_with(start) && !refused.contains("direct=no"), "{refused}");
        }
        assert_eq!(
            of(&[("trim_fraction", "1"), ("block_size", "4k-64k"), ("offset", "8k")]),
            Ok(())
        );
        assert_eq!(of(&[("block_size", "512")]), Ok(()), "nothing is cleared");
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
                .starts_with("amount=1000000 B is not")
        );
        assert!(error(&[("span", "1000")]).starts_with("span=1000 B is not a multiple"));
    }

    #[test]
    fn buffered_jobs_need_no_blocks_and_sequential_ones_make_one_pass() {
        assert!(plan(&job(&[("block_size", "100"), ("direct", "no")]), 1 << 20, 4096, 1).is_ok());
        let amount = |more: &[(&str, &str)]| {
            let pairs = [&[("access", "sequential")][..], more].concat();
            plan(&job(&pairs), 1 << 20, 512, 1).expect("fits").amount_bytes
        };
        assert_eq!(amount(&[("amount", "10G")]), Some(1 << 20));
        // What the operations take of bytes, which a workload says in place of its own amount, is no end of its own.
        let thousand = ("operations", "1000");
        assert_eq!(amount(&[("amount", "4096000"), thousand]), None);
        assert_eq!(amount(&[("amount", "10G"), thousand]), Some(1 << 20));
    }
}
