//! The rules: each looks at one record and says at most one thing.
//!
//! Every rule states its threshold and why it is that; a test provokes it. Rules about the state of the stack before
//! the run (arrays that rebuild, lazy initialisation) are the inspector's.

use crate::counters;
use crate::delivered;
use crate::endings;
use crate::fsop;
use crate::open_loop;
use crate::others;
use crate::play;
use crate::sample;
use crate::steadiness;
use crate::verification;
use fathom_base::units::{format_ns, format_size, format_sizes};
use fathom_model::capture::CaptureRecord;
use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{
    DeviceDelta, Ending, JobRecord, OpClass, Record, TargetKind, TargetRecord, ZEROES_WRITTEN,
};
use fathom_model::stack::{Node, NodeKind};
use fathom_model::workload::{Access, Content, EngineKind, Job};

/// All rules on one record.
#[must_use]
pub fn all(record: &Record) -> Vec<Finding> {
    const RULES: &[fn(&Record) -> Option<Finding>] = &[
        io_failure,
        interrupted,
        suspended,
        held_up,
        nothing_measured,
        null_engine,
        unwritten_extents,
        memory_target,
        generator_bound,
        open_loop::generator_behind,
        open_loop::overloaded,
        direct_is_buffered,
        delivered::reads_not_from_device,
        delivered::reads_from_page_cache,
        delivered::writes_to_page_cache,
        delivered::shares_missed,
        delivered::device_of_holes,
        sample::too_small,
        others::other_io,
        stolen_time,
        busy_cpus,
        engine_fallback,
        libaio_synchronous,
        zeros_sent,
        trim_below_granularity,
        counters::syncs_without_flush,
        counters::waiting_above_device,
        counters::array_like_one_disk,
        counters::throttled,
        counters::compressed,
        steadiness::not_steady,
        endings::stalled,
        endings::log_full,
        endings::short_of_amount,
        endings::no_whole_request,
        endings::too_few,
        endings::tail_of_few,
        verification::mismatch,
        verification::not_verified,
        verification::verified_load,
        zero_content,
        small_span,
        one_place,
        counters::littles_law,
        counters::depth_not_held,
        counters::busy_says_nothing,
        batched,
    ];
    if let Some(fsop) = &record.fsop {
        let of_play = play::findings(record, fsop);
        let of_fsop = fsop::findings::all(record, fsop);
        return of_machine(record).into_iter().chain(of_fsop).chain(of_play).collect();
    }
    RULES.iter().filter_map(|rule| rule(record)).collect()
}

/// What holds for targets, whatever they were asked for.
pub(crate) fn of_targets(record: &Record) -> impl Iterator<Item = Finding> {
    [unwritten_extents(record), memory_target(record)].into_iter().flatten()
}

/// What holds for whatever was measured.
pub(crate) fn of_machine(record: &Record) -> Vec<Finding> {
    OF_MACHINE.iter().filter_map(|rule| rule(record)).collect()
}

/// The rules that hold for whatever was measured.
const OF_MACHINE: &[fn(&Record) -> Option<Finding>] =
    &[io_failure, interrupted, suspended, held_up, stolen_time, busy_cpus, counters::throttled];

/// True for findings whose text is about one row of a run and not about the whole machine or target.
#[must_use]
pub fn is_about_one_row(id: &str) -> bool {
    [ROW_RULES, fsop::findings::ROW_RULES, play::ROW_RULES].iter().any(|rules| rules.contains(&id))
}

/// The name of the rule about rows that the CPU limits.
pub(crate) const GENERATOR_BOUND: &str = "generator-bound";

const ROW_RULES: &[&str] = &[
    "io-failure",
    "data-mismatch",
    "not-verified",
    "interrupted",
    "suspended",
    "held-up",
    "nothing-measured",
    "null-engine",
    "reads-of-trimmed",
    GENERATOR_BOUND,
    "generator-behind",
    "overloaded",
    "direct-is-buffered",
    "reads-not-from-device",
    "reads-from-page-cache",
    "writes-to-page-cache",
    "other-io",
    "stolen-time",
    "busy-cpus",
    "libaio-synchronous",
    "zeros-sent",
    "trim-below-granularity",
    "syncs-without-flush",
    "waiting-above-device",
    "array-like-one-disk",
    "throttled",
    "compressed-on-the-way",
    "depth-not-held",
    "busy-is-not-saturated",
    "not-steady",
    "warm-up-inside",
    "stalled",
    "too-few",
    "tail-of-few",
    "littles-law",
];

/// A request failed: what was measured until then says nothing about the storage when it works.
fn io_failure(record: &Record) -> Option<Finding> {
    let failure = record.failure.as_ref()?;
    Some(Finding::new("io-failure", Severity::Void, failure.message.clone()))
}

/// A signal ended the run: the window is shorter than asked.
fn interrupted(record: &Record) -> Option<Finding> {
    (record.ending == Ending::Interrupted).then(|| {
        let after = format_ns(record.window_ns);
        Finding::new("interrupted", Severity::Doubtful, format!("ended by a signal after {after}"))
            .advise("what was measured until then is kept; run it again for the whole")
    })
}

/// The machine slept: times on the monotonic clock and on the devices' own no longer agree. More than a tenth of a
/// second cannot be rounding.
fn suspended(record: &Record) -> Option<Finding> {
    (record.suspended_ns > 100_000_000).then(|| {
        let slept = format_ns(record.suspended_ns);
        Finding::new(
            "suspended",
            Severity::Void,
            format!("the machine was suspended for {slept} during the run"),
        )
        .advise("run it again while the machine stays awake")
    })
}

/// Fathom itself did not run while time went on: what ended meanwhile was noticed only afterwards, and nothing new was
/// issued. Half a second is more than any scheduler lets a waiting thread wait; a device that does not answer holds up
/// the threads that do I/O, but not the one whose delay is counted here. With a tenth of the window gone, rates are
/// wrong by more than what is taken for a difference anywhere else here.
fn held_up(record: &Record) -> Option<Finding> {
    // A clock that goes on while the machine sleeps shows that sleep too.
    let held_ns = record.held_up_ns.saturating_sub(record.suspended_ns);
    if held_ns < 500_000_000 {
        return None;
    }
    let share = held_ns as f64 / record.window_ns.max(1) as f64;
    let severity = if share < 0.1 { Severity::Doubtful } else { Severity::Void };
    let text = format!(
        "fathom itself was stopped for {} of the {} measured: rates are too low, and the longest latencies are those \
         of the stop",
        format_ns(held_ns),
        format_ns(record.window_ns)
    );
    Some(
        Finding::new("held-up", severity, text)
            .advise("Ctrl-Z, SIGSTOP, a debugger, a frozen control group, a paused virtual machine or much too busy CPUs do that")
            .advise("run it again and let it run"),
    )
}

/// Why nothing that a record holds can count: the machine slept, or fathom was stopped for a considerable part of the window.
#[must_use]
pub fn lost_time(record: &Record) -> Option<String> {
    let found = [suspended, held_up].into_iter().filter_map(|rule| rule(record));
    found.into_iter().find(|f| f.severity == Severity::Void).map(|finding| finding.summary)
}

/// Requests that ended inside the window: reads, writes, trims and zero ranges, and operations on names.
pub(crate) fn ended(record: &Record) -> u64 {
    let of_data =
        [OpClass::Read, OpClass::Write, OpClass::SyncedWrite, OpClass::Trim, OpClass::Zero];
    let classes = [&of_data[..], &OpClass::ON_NAMES].concat();
    record.jobs.iter().map(|job| job.merged(&classes).latency_ns.count()).sum()
}

/// Not one request ended inside the window. A program as the load has no requests of fathom's.
fn nothing_measured(record: &Record) -> Option<Finding> {
    let is_program = record.workload.jobs.is_empty();
    (ended(record) == 0 && record.failure.is_none() && !is_program).then(|| {
        Finding::new(
            "nothing-measured",
            Severity::Void,
            "no request ended inside the measured window",
        )
        .advise("use a longer duration=, or look at what blocks the device")
    })
}

/// Reads of extents that were never written come from nowhere: the filesystem answers with zeroes by itself. One
/// part in ten thousand is allowed for a last partial block.
fn unwritten_extents(record: &Record) -> Option<Finding> {
    let is_absent = |t: &&TargetRecord| {
        // A file of its own that a job only writes is empty when it begins.
        !t.is_never_read
            && t.extents.as_ref().is_some_and(|e| {
                (e.hole_bytes + e.unwritten_bytes) as f64 > e.size_bytes as f64 / 10_000.0
            })
    };
    let target = record.targets.iter().find(is_absent)?;
    let extents = target.extents.as_ref()?;
    let absent_bytes = extents.hole_bytes + extents.unwritten_bytes;
    // Of a replay the requests themselves are known.
    let replayed = record.capture.as_deref();
    let reads = |of: &CaptureRecord| of.class("read").is_some_and(|class| class.count > 0);
    if !record.workload.jobs.iter().any(Job::reads) && !replayed.is_some_and(reads) {
        return None;
    }
    let given_back_bytes = moved(record, |c| matches!(c, OpClass::Trim | OpClass::Zero));
    if target.kind == TargetKind::OwnFile && given_back_bytes > 0 {
        return Some(reads_of_trimmed(target, absent_bytes, extents.size_bytes, given_back_bytes));
    }
    let (absent, whole) = format_sizes(absent_bytes, extents.size_bytes);
    let size = if replayed.is_some() { "--size" } else { "size=" };
    let cure = format!("let fathom make the test file: give a directory or a new path with {size}");
    if extents.source == ExtentSource::StatBlocks {
        // It may be compressed as well.
        let text = format!(
            "{}: {absent} of its {whole} have no space on the filesystem, which does not say whether they are holes: reading those does not reach the device",
            target.path
        );
        return Some(Finding::new("unwritten-extents", Severity::Doubtful, text).advise(cure));
    }
    let text = format!(
        "{}: {absent} of its {whole} were never written (holes {}, unwritten extents {}): reading them does not reach the device",
        target.path,
        format_size(extents.hole_bytes),
        format_size(extents.unwritten_bytes)
    );
    Some(Finding::new("unwritten-extents", Severity::Void, text).advise(cure))
}

/// The job's own trims and zero ranges left places that no read brings from the device: that is what a mix of reads and
/// trims does. More than this window gave back lay there before it, from a warm-up or an earlier run.
fn reads_of_trimmed(
    target: &TargetRecord,
    absent_bytes: u64,
    size_bytes: u64,
    given_back_bytes: u64,
) -> Finding {
    let share = percent(absent_bytes as f64 / size_bytes.max(1) as f64);
    let mut severity = Severity::Note;
    let mut text = format!(
        "{}: {share} of it had been trimmed or zeroed at the end: reads of these places are cheap, they do not reach the device",
        target.path
    );
    if absent_bytes > given_back_bytes {
        severity = Severity::Doubtful;
        let (absent, here) = format_sizes(absent_bytes, given_back_bytes);
        text += &format!(" ({absent}, of which this window gave back at most {here})");
    }
    Finding::new("reads-of-trimmed", severity, text)
        .advise("verdicts on reads alone need a run without trim_fraction= and zero_fraction=")
}

/// The null engine asks no storage at all; on `null:` that is what was asked for, on a path it cannot be. Beside a job
/// that does I/O, the figures are those of both.
fn null_engine(record: &Record) -> Option<Finding> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    let real = |job: &Job| job.target.as_ref().filter(|path| !path.starts_with("null:")).cloned();
    let path = jobs
        .filter(|(done, _)| done.engine.kind == EngineKind::Null)
        .find_map(|(_, job)| real(job))?;
    let text = format!("{path}: no I/O was done: the null engine measures fathom");
    let is_all = record.jobs.iter().all(|done| done.engine.kind == EngineKind::Null);
    let severity = if is_all { Severity::Void } else { Severity::Doubtful };
    Some(
        Finding::new("null-engine", severity, text)
            .advise("leave out engine=null, or name null: as the target"),
    )
}

/// A filesystem in memory measures memory.
fn memory_target(record: &Record) -> Option<Finding> {
    let target = record
        .targets
        .iter()
        .find(|t| t.stack.filesystem().is_some_and(|n| n.kind == NodeKind::Memory))?;
    let kind = target.stack.filesystem().map_or_else(String::new, |n| n.name.clone());
    let text =
        format!("{} is a {kind}: the figures are those of memory, not of storage", target.path);
    Some(
        Finding::new("memory-target", Severity::Doubtful, text)
            .advise("name a directory on a disk"),
    )
}

/// A worker that uses its CPU for 90 % of the window and more cannot ask for more: the figure is the processor's.
pub(crate) fn generator_bound(record: &Record) -> Option<Finding> {
    record.jobs.iter().zip(&record.workload.jobs).find_map(|(done, job)| {
        let share = done.busiest_thread_cpu_ns as f64 / done.window_ns.max(1) as f64;
        // Names are the kernel's work, which is what is measured there.
        if share < 0.9 || job.metadata.is_some() || done.engine.kind == EngineKind::Null || done.window_ns < 100_000_000 {
            return None;
        }
        let user = done.cpu.user_ns as f64 / done.cpu.total_ns().max(1) as f64;
        let text = format!(
            "the busiest thread used {:.0} % of its CPU ({:.0} % of that in fathom itself, the rest in the kernel): the CPU limits the figure, not the storage, which may do more",
            share.min(1.0) * 100.0,
            user * 100.0
        );
        let (threads, depth) = (u64::from(done.engine.threads), job.depth);
        let finding = Finding::new(GENERATOR_BOUND, Severity::Doubtful, text).advise(format!(
            "give it more CPUs: threads={} (now threads={threads}, depth={depth})",
            threads * 2
        ));
        Some(with_busy_machine(finding, record))
    })
}

/// More threads are no cure where no CPU is left for them.
pub(crate) fn with_busy_machine(finding: Finding, record: &Record) -> Finding {
    if record.system_cpu.busy_share < 0.9 {
        return finding;
    }
    finding.advise(
        "but all CPUs of this machine were busy: stop what else runs, or ask from a larger machine",
    )
}

/// Bytes that the run wrote and read.
fn moved(record: &Record, class: impl Fn(OpClass) -> bool) -> u64 {
    record.jobs.iter().flat_map(|j| &j.classes).filter(|c| class(c.class)).map(|c| c.bytes).sum()
}

pub(crate) fn read_bytes(record: &Record) -> u64 {
    moved(record, |c| c == OpClass::Read) + replayed_bytes(record, "read")
}

pub(crate) fn written_bytes(record: &Record) -> u64 {
    moved(record, |c| matches!(c, OpClass::Write | OpClass::SyncedWrite))
        + replayed_bytes(record, "write")
}

/// What a replay moved, which has no jobs.
pub(crate) fn replayed_bytes(record: &Record, class: &str) -> u64 {
    let replay = record.capture.as_deref().filter(|capture| capture.is_replay());
    replay.and_then(|replay| replay.class(class)).map_or(0, |class| class.bytes)
}

pub(crate) fn all_direct(record: &Record) -> bool {
    !record.targets.is_empty() && record.targets.iter().all(|t| t.direct)
}

/// Direct writes that end in the page cache: seen by a probe on the test file, or, where a loop device buffers below,
/// by at least half as many bytes dirtied as were written.
pub(crate) fn direct_is_buffered(record: &Record) -> Option<Finding> {
    let (written, dirtied) = (written_bytes(record), record.page_cache.dirtied_bytes);
    if written == 0 {
        return None;
    }
    if let Some(found) = direct_not_honoured(record) {
        return Some(found);
    }
    // What others dirty through the cache on purpose cannot be told apart.
    let node = record.targets.iter().find_map(buffering_loop).filter(|_| all_direct(record))?;
    if written < 1 << 20 || dirtied < written / 2 {
        return None;
    }
    // No bytes: a kernel with large folios counts whole ones, which random writes make many times what was written.
    let text = format!(
        "{} passes direct writes through the page cache of its backing file, whose pages they made dirty",
        node.name
    );
    let advice = format!("losetup --direct-io=on {}", node.label());
    Some(Finding::new("direct-is-buffered", Severity::Doubtful, text).advise(advice))
}

/// The part of it that a probe on the test file has seen.
fn direct_not_honoured(record: &Record) -> Option<Finding> {
    let seen = |t: &&TargetRecord| t.direct && t.direct_honoured == Some(false);
    let target = record.targets.iter().find(seen)?;
    let fs = target.stack.filesystem().map_or("the filesystem", |n| n.name.as_str());
    let text = format!(
        "{fs} accepted O_DIRECT and buffered the writes all the same (a probe on the test file dirtied the page cache)"
    );
    Some(Finding::new("direct-is-buffered", Severity::Doubtful, text).advise(
        "btrfs with checksums (chattr +C on the directory avoids it) and ext4 with data=journal do this: the figures are those of buffered writes",
    ))
}

/// A loop device under the target that goes through the page cache of its file, also for direct I/O.
pub(crate) fn buffering_loop(target: &TargetRecord) -> Option<&Node> {
    let buffers =
        |node: &&Node| node.loop_device.as_ref().is_some_and(|l| l.direct_io == Some(false));
    target.stack.walk().into_iter().find(buffers)
}

/// What the first block devices under the target did.
pub(crate) fn top<'a>(record: &'a Record, target: &TargetRecord) -> Vec<&'a DeviceDelta> {
    let names: Vec<String> =
        target.stack.top_block_devices().iter().map(|n| n.name.clone()).collect();
    record.devices.iter().filter(|d| names.contains(&d.name)).collect()
}

/// The hypervisor gave the processors to others: beyond a tenth, latencies are its and not the storage's.
fn stolen_time(record: &Record) -> Option<Finding> {
    let share = record.system_cpu.steal_share;
    if share < 0.02 {
        return None;
    }
    let severity = if share < 0.1 { Severity::Note } else { Severity::Doubtful };
    let text =
        format!("the hypervisor took {:.0} % of the CPU time for other guests", share * 100.0);
    Some(Finding::new("stolen-time", severity, text).advise("repeat it when the host is quieter"))
}

/// All CPUs busy, and not by fathom's threads, which used less than half of a single one: whatever ended had to wait
/// for a CPU before it was seen. A note, because it may be the kernel's own work for the storage (encryption, parity),
/// which belongs to the figure.
fn busy_cpus(record: &Record) -> Option<Finding> {
    let (busy, own) = others_keep_cpus(record)?;
    let text = format!(
        "all CPUs were {:.0} % busy, of which fathom took {:.0} % of one: latencies include waiting for a CPU",
        busy * 100.0,
        own * 100.0
    );
    Some(Finding::new("busy-cpus", Severity::Note, text).advise(
        "other programs, or the kernel's own work for the storage (encryption, parity); top shows which",
    ))
}

/// How busy all CPUs were, and how busy fathom kept one, when it had to wait for them.
pub(crate) fn others_keep_cpus(record: &Record) -> Option<(f64, f64)> {
    let own = record.process_cpu.total_ns() as f64 / record.window_ns.max(1) as f64;
    let busy = record.system_cpu.busy_share - record.system_cpu.steal_share;
    (busy >= 0.95 && own < 0.5).then_some((busy, own))
}

/// The engine that ran is not the one that was asked for.
fn engine_fallback(record: &Record) -> Option<Finding> {
    let fallen = |(_, ran): &(&Job, &JobRecord)| ran.engine.fallback.is_some();
    let pairs = record.workload.jobs.iter().zip(&record.jobs).filter(fallen);
    // One in flight for each stream is another load than the one that was asked for.
    let is_less = |job: &Job, ran: &JobRecord| {
        u64::from(ran.engine.threads) * u64::from(ran.engine.depth) < job.concurrency()
    };
    let (job, ran) = pairs.max_by_key(|(job, ran)| is_less(job, ran))?;
    let (severity, cure) = if is_less(job, ran) {
        let cure = "the figures are those of fewer requests in flight; allow io_uring (fathom doctor says more), try engine=libaio with direct=yes, or ask for engine=psync depth=1 openly";
        (Severity::Doubtful, cure)
    } else {
        (Severity::Note, "fathom doctor says more; engine=psync asks for it openly")
    };
    Some(Finding::new("engine-fallback", severity, ran.engine.fallback.clone()?).advise(cure))
}

/// The call that hands requests over did them one after the other, so that the depth was never in flight.
fn libaio_synchronous(record: &Record) -> Option<Finding> {
    let mut deep = record.jobs.iter().map(|j| &j.engine).filter(|e| e.depth > 1);
    let engine = deep.find(|e| e.features.iter().any(|f| f.starts_with("synchronous: ")))?;
    let text = format!(
        "libaio was synchronous here: io_submit did each request before it returned, so one was in flight and not {}",
        engine.depth
    );
    Some(Finding::new("libaio-synchronous", Severity::Doubtful, text).advise(
        "buffered files, and direct writes that make a file longer, are always so: use direct=yes on data that exists, or engine=io_uring",
    ))
}

/// The device has no command that zeroes a range: the kernel sent zeros.
fn zeros_sent(record: &Record) -> Option<Finding> {
    let is_sent = |job: &JobRecord| job.engine.features.iter().any(|word| word == ZEROES_WRITTEN);
    record.jobs.iter().any(is_sent).then(|| {
        Finding::new(
            "zeros-sent",
            Severity::Note,
            "the device cannot zero a range by itself (queue/write_zeroes_max_bytes is 0): the kernel wrote zeros, and the figures of zero ranges are those of writes",
        )
        .advise("leave out zero_fraction, or choose a device that has the command")
    })
}

/// What is smaller than the unit in which a device gives space back, or does not lie on it, ends at once with nothing done.
fn trim_below_granularity(record: &Record) -> Option<Finding> {
    let trims = |job: &&Job| job.trim_fraction > 0.0 && job.engine != EngineKind::Null;
    let mut devices = record.targets.iter().filter(|target| target.kind == TargetKind::BlockDevice);
    let (name, unit) = devices.find_map(|target| {
        let node = target.stack.top_block_devices().into_iter().next()?;
        let unit =
            target.stack.queue_of(node)?.discard_granularity_bytes.filter(|unit| *unit > 0)?;
        Some((&node.name, unit))
    })?;
    let misses = |job: &&Job| {
        let least = job.trim_sizes().iter().map(|size| u64::from(size.size_bytes)).min();
        least.is_some_and(|least| least < unit) || !job.alignment_bytes().is_multiple_of(unit)
    };
    record.workload.jobs.iter().filter(trims).find(misses)?;
    let text = format!(
        "trims are smaller than the {} in which {name} gives space back, or do not lie on multiples of it: such a device does nothing for a part of them and still counts them",
        format_size(unit)
    );
    let cure = format!("trim_block_size={unit} align={unit}");
    Some(Finding::new("trim-below-granularity", Severity::Doubtful, text).advise(cure))
}

/// Quick chooses sizes and durations by itself.
pub(crate) fn is_quick(record: &Record) -> bool {
    record.workload.name == "quick"
}

/// The workload that a capture writes.
pub(crate) fn is_twin(record: &Record) -> bool {
    record.workload.name.starts_with("twin-")
}

/// Zeroes flatter everything that compresses, deduplicates or detects them.
fn zero_content(record: &Record) -> Option<Finding> {
    let writes = record.workload.jobs.iter().any(|j| j.writes() && j.content == Content::Zero);
    writes.then(|| {
        Finding::new(
            "zero-content",
            Severity::Note,
            "zeroes were written: a device that compresses or detects them looks faster than it is",
        )
        .advise("content=random is the default")
    })
}

/// Heads that travel over a small part of the disk travel less: below a fifth of the device the figures are those of
/// that part. Of several files and ranges the smallest counts.
fn small_span(record: &Record) -> Option<Finding> {
    // A log is written in one place, however small: that is what it is for.
    let jobs = record.workload.jobs.iter().filter(|job| job.access != Access::Append);
    let reached = jobs.flat_map(|job| {
        let targets = sample::targets_of(record, job).into_iter();
        targets.filter_map(move |target| Reached::of(job, target))
    });
    let smallest = reached.min_by(|a, b| a.share.total_cmp(&b.share))?;
    smallest.finding(if is_twin(record) { sample::TYPED_TWIN } else { "" })
}

/// All requests of a job go to one place: its alignment or its range leave no other. That is a cache at work, in whatever layer.
fn one_place(record: &Record) -> Option<Finding> {
    let jobs = record.workload.jobs.iter().filter(|job| job.files == 1);
    let is_random = |job: &&Job| {
        matches!(job.access, Access::Random | Access::Shuffled) && job.metadata.is_none()
    };
    let found = jobs.filter(is_random).find_map(|job| {
        let [target]: [&TargetRecord; 1] = sample::targets_of(record, job).try_into().ok()?;
        if target.kind == TargetKind::Null {
            return None;
        }
        let size_bytes = target.size_bytes;
        let rest_bytes = size_bytes.saturating_sub(job.offset.bytes(size_bytes));
        let range_bytes =
            job.span.map_or(rest_bytes, |span| span.bytes(size_bytes)).min(rest_bytes);
        (range_bytes > 0 && range_bytes < 2 * job.alignment_bytes()).then_some((job, target))
    });
    let (job, target) = found?;
    let text = format!(
        "job '{}' has one place in {}: all its requests go there, which any cache on the way answers",
        job.name, target.path
    );
    Some(
        Finding::new("one-place", Severity::Doubtful, text)
            .advise("a larger span=, or a smaller align="),
    )
}

/// What a job reaches of the device under a target.
struct Reached<'r> {
    target: &'r TargetRecord,
    /// Of the device, 0 to 1.
    share: f64,
    /// The part of the target that random requests stay in, in bytes, where it is not all of it.
    range_bytes: Option<u64>,
}

impl<'r> Reached<'r> {
    /// None where nothing can be said: the target has no place on a device.
    fn of(job: &Job, target: &'r TargetRecord) -> Option<Self> {
        let share_of_target = match (&target.extents, target.kind) {
            // What is known least comes before what is small.
            (Some(extents), _) if extents.physical_is_logical => 0.0,
            (Some(extents), _) => extents.share_of_device?,
            (None, TargetKind::BlockDevice) => 1.0,
            (None, _) => return None,
        };
        // Who reads in sequence from a place means that place.
        let is_random = matches!(job.access, Access::Random | Access::Shuffled | Access::Randomio);
        let size_bytes = target.size_bytes.max(1);
        let rest_bytes = size_bytes.saturating_sub(job.offset.bytes(size_bytes));
        let range_bytes = job.span.map_or(rest_bytes, |span| span.bytes(size_bytes));
        let range_bytes = Some(range_bytes).filter(|bytes| is_random && *bytes < size_bytes);
        let share_of_range = range_bytes.map_or(1.0, |bytes| bytes as f64 / size_bytes as f64);
        Some(Self { target, share: share_of_target * share_of_range, range_bytes })
    }

    /// `typed` stands before settings as they are typed.
    fn finding(&self, typed: &str) -> Option<Finding> {
        let target = self.target;
        if target.extents.as_ref().is_some_and(|extents| extents.physical_is_logical) {
            return Some(Finding::new(
                "small-span",
                Severity::Note,
                "where the file lies on the disks is unknown: the filesystem's addresses are not the device's",
            ));
        }
        if self.share >= 0.2 {
            return None;
        }
        let rest = "of the device: a rotating disk is faster on so little";
        if let Some(bytes) = self.range_bytes {
            let (range, share) = (format_size(bytes), percent(self.share));
            let text = format!("requests stay within {range} of the target, {share} {rest}");
            let finding = Finding::new("small-span", Severity::Note, text);
            return Some(finding.advise(format!("{typed}offset=0 span=100% covers all of it")));
        }
        let (what, cure) = match target.kind {
            TargetKind::OwnFile if is_nearly_full(target) => {
                ("test file", "only more free space lets a test file cover more")
            }
            TargetKind::OwnFile => (
                "test file",
                "fathom quick --span=full, or fathom run ... with a larger size=, covers more",
            ),
            _ => ("file", "a larger file, or one of fathom's own with size=, covers more"),
        };
        let text = format!("the {what} {} {rest}", spread(target.extents.as_ref()?, self.share));
        Some(Finding::new("small-span", Severity::Note, text).advise(cure))
    }
}

/// What is free beside the test file is at most twice of what fathom leaves free anyway.
pub(crate) fn is_nearly_full(target: &TargetRecord) -> bool {
    let facts = target.stack.filesystem().and_then(|node| node.fs.as_ref());
    facts.and_then(|fs| fs.available_bytes.zip(fs.total_bytes)).is_some_and(
        |(available_bytes, total_bytes)| available_bytes <= (total_bytes / 10).max(2 << 30),
    )
}

/// How much of the device a file takes and over how much of it the pieces are spread; one figure where it is the same.
fn spread(extents: &FileExtents, span_share: f64) -> String {
    let span_bytes = extents.span_bytes().unwrap_or(0).max(1);
    let taken = (extents.allocated_bytes as f64 / span_bytes as f64).min(1.0) * span_share;
    let (taken, spread) = (percent(taken), percent(span_share));
    if taken == spread {
        format!("covers {spread}")
    } else {
        format!("covers {taken} and is spread over {spread}")
    }
}

/// A share in percent with as many digits as it needs.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p < 0.1 => "less than 0.1 %".into(),
        p if p < 1.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Waiting for several completions saves system calls and adds waiting time to the earlier ones.
fn batched(record: &Record) -> Option<Finding> {
    let batch = record.jobs.iter().map(|j| j.engine.batch).max().filter(|b| *b > 1)?;
    Some(Finding::new(
        "batched",
        Severity::Note,
        format!("latencies include waiting for {batch} completions at a time (batch={batch})"),
    ))
}

/// Rows of less than a minute are indicative; said once for all of them.
#[must_use]
pub fn short_windows(records: &[Record]) -> Option<Finding> {
    const MINUTE_NS: u64 = 60_000_000_000;
    let short =
        records.iter().filter(|r| r.window_ns < MINUTE_NS && r.ending == Ending::Complete).count();
    (short > 0).then(|| {
        let text = match (short, records.len()) {
            (1, 1) => format!(
                "measured for {}: less than a minute is indicative",
                format_ns(records[0].window_ns)
            ),
            (n, all) if n == all => {
                "rows measured for less than a minute are indicative".to_owned()
            }
            (n, all) => format!(
                "{n} of {all} rows were measured for less than a minute: these are indicative"
            ),
        };
        Finding::new("short-windows", Severity::Note, text)
    })
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "rules_asked_tests.rs"]
mod asked_tests;
