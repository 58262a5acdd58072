//! Whether what the jobs reach is large enough for the caches on the way not to answer.

use crate::rules::{buffering_loop, is_quick, is_twin};
use fathom_base::order::Order;
use fathom_base::units::{format_size, format_sizes};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{Record, TargetKind, TargetRecord};
use fathom_model::workload::{Access, Job};
use std::ops::Range;

/// The minimal sample is twice the caches that can answer: those of controller and drives for direct I/O, and the
/// memory on top for buffered reads and for what a loop device below buffers. Each job is judged for itself, by the target that it
/// works on.
pub(crate) fn too_small(record: &Record) -> Option<Finding> {
    record.workload.jobs.iter().find_map(|job| {
        let targets = targets_of(record, job);
        // Where several may be its target, it is none that would be too small.
        let found: Option<Vec<Finding>> =
            targets.iter().map(|target| of_job(record, job, target)).collect();
        found?.into_iter().next()
    })
}

/// The targets that a job may work on: those at its path or made under it; all that no other job names, where it names none.
pub(crate) fn targets_of<'a>(record: &'a Record, job: &Job) -> Vec<&'a TargetRecord> {
    let is_at = |target: &TargetRecord, path: &str| {
        let rest = target.path.strip_prefix(path.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let named: Vec<&str> =
        record.workload.jobs.iter().filter_map(|job| job.target.as_deref()).collect();
    let is_own = |target: &&TargetRecord| match &job.target {
        Some(path) => is_at(target, path),
        None => !named.iter().any(|path| is_at(target, path)),
    };
    let own: Vec<&TargetRecord> = record.targets.iter().filter(is_own).collect();
    if own.is_empty() { record.targets.iter().collect() } else { own }
}

fn of_job(record: &Record, job: &Job, target: &TargetRecord) -> Option<Finding> {
    // Those that keep the page cache on purpose ask for what caches hold; what is appended is read by nobody.
    let is_judged = matches!(
        target.kind,
        TargetKind::OwnFile | TargetKind::ForeignFile | TargetKind::BlockDevice
    );
    if !is_judged || (!job.drop_cache && !job.direct) || job.access == Access::Append {
        return None;
    }
    let direct = job.direct;
    let synced = !job.reads() && job.sync_at_end.is_some();
    let buffering = buffering_loop(target).filter(|_| direct);
    let is_past_memory = synced || (direct && buffering.is_none());
    let caches = target.device_cache_bytes + if is_past_memory { 0 } else { target.memory_bytes };
    let range_bytes = sample_bytes(record, job, target);
    if range_bytes >= 2 * caches {
        return None;
    }
    let twice_bytes = 2 * caches;
    let (range, twice) = format_sizes(range_bytes, twice_bytes);
    let below = (target.device_cache_bytes > 0).then(|| target.device_cache_reason.clone());
    let memory = (caches > target.device_cache_bytes)
        .then(|| format!("the memory ({})", format_size(target.memory_bytes)));
    let both: Vec<String> = memory.into_iter().chain(below).collect();
    let which =
        if record.workload.jobs.len() > 1 { format!("{}: ", job.name) } else { String::new() };
    let text = format!("{which}{range} is less than {twice}, twice {}", both.join(" and "));
    let cure = if target.kind == TargetKind::OwnFile && job.span.is_none() {
        let size = rounded_up(twice_bytes);
        // Quick chooses the size of its file by itself.
        if !has_room(record, target, twice_bytes) {
            "only more free space lets a test file be larger".to_owned()
        } else if is_quick(record) {
            format!(
                "fathom quick --span=full, or fathom run ... size={size} or more where there is room"
            )
        } else {
            format!("size={size} or more")
        }
    } else if job.span.is_some() {
        larger_span(record, job, target, twice_bytes)
    } else {
        "use a larger target".to_owned()
    };
    let mut finding = Finding::new("sample-too-small", Severity::Doubtful, text);
    if is_twin(record) && job.span.is_some() {
        finding = finding.advise("what was captured reaches no more, and caches may have answered there, too; for the storage behind them:");
    }
    Some(match buffering.filter(|_| !synced) {
        Some(node) => finding
            .advise(format!(
                "losetup --direct-io=on {}    (direct I/O is kept in memory below it), or",
                node.label()
            ))
            .advise(cure),
        None => finding.advise(cure),
    })
}

/// How settings of a twin are typed: `fathom replay --twin` takes none.
pub(crate) const TYPED_TWIN: &str =
    "fathom capture --from=TRACE --workload=twin.toml && fathom run twin.toml TARGET ";

/// In whole MiB or GiB, as it is typed.
fn rounded_up(bytes: u64) -> String {
    let unit = if bytes < 1 << 30 { 1 << 20 } else { 1 << 30 };
    format_size(bytes.next_multiple_of(unit)).replace(' ', "")
}

/// What makes a range large enough, as it is typed: another span, and the place of it where the target is too short behind its own; for a
/// test file that is too small as a whole its size, too. It goes for all jobs.
fn larger_span(record: &Record, job: &Job, target: &TargetRecord, least_bytes: u64) -> String {
    let size = rounded_up(least_bytes);
    let of_twin = if is_twin(record) { TYPED_TWIN } else { "" };
    let begin = job.offset.bytes(target.size_bytes);
    if begin.saturating_add(least_bytes) <= target.size_bytes {
        format!("{of_twin}span={size} or more")
    } else if least_bytes <= target.size_bytes {
        format!("{of_twin}offset=0 span={size} or more")
    } else if target.kind != TargetKind::OwnFile {
        "use a larger target, with offset=0 span=100%".to_owned()
    } else if has_room(record, target, least_bytes) {
        format!("{of_twin}size={size} offset=0 span=100%")
    } else {
        "only more free space lets a test file be larger".to_owned()
    }
}

/// Whether a test file of that size may be made in the place of the one that there is. True where nobody knows.
fn has_room(record: &Record, target: &TargetRecord, size_bytes: u64) -> bool {
    let facts = target.stack.filesystem().and_then(|node| node.fs.as_ref());
    let Some((available_bytes, total_bytes)) =
        facts.and_then(|fs| fs.available_bytes.zip(fs.total_bytes))
    else {
        return true;
    };
    // What fathom leaves free, of a filesystem that it has made less.
    let is_own = record.cell.as_ref().is_some_and(|cell| !cell.setup.is_empty());
    let kept_bytes = (total_bytes / 20).max(if is_own { 0 } else { 1 << 30 });
    // The file was there already when the space was asked for, or was still to be made.
    let most_bytes = available_bytes.saturating_add(target.size_bytes).min(total_bytes);
    size_bytes <= most_bytes.saturating_sub(kept_bytes)
}

/// The range of a target of that size that a job reaches; it begins at one of its places.
fn range(job: &Job, size_bytes: u64) -> Range<u64> {
    let start = job.offset.bytes(size_bytes).min(size_bytes);
    let start = start - start % job.alignment_bytes().max(1);
    start..start.saturating_add(job.span.map_or(size_bytes - start, |span| span.bytes(size_bytes)))
}

/// What competes for the caches with a job's data: its own range, and those of jobs beside it that reach no more, places that several reach
/// counted once. A job that reaches more has each of its places more rarely, so that it leaves the small one's in the cache.
fn sample_bytes(record: &Record, job: &Job, target: &TargetRecord) -> u64 {
    let own = range(job, target.size_bytes);
    let length = |range: &Range<u64>| range.end - range.start;
    let beside = record.workload.jobs.iter().filter(|other| {
        other.target == job.target
            && targets_of(record, other).iter().any(|t| t.path == target.path)
    });
    let mut ranges: Vec<Range<u64>> = beside.map(|other| range(other, target.size_bytes)).collect();
    ranges.retain(|range| length(range) <= length(&own));
    ranges.order_by_key(|range| range.start);
    let (mut end, mut sum) = (0, 0);
    for range in ranges {
        sum += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    sum
}
