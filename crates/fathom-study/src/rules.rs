//! The rules: each looks at one record and says at most one thing.
//!
//! Every rule states its threshold and why it is that; a test provokes it. Rules about the state of the stack before
//! the run (arrays that rebuild, lazy initialisation) are the inspector's.

use fathom_base::units::{format_ns, format_rate, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, Ending, OpClass, Record, TargetKind, TargetRecord};
use fathom_model::stack::NodeKind;
use fathom_model::workload::{Access, Content, EngineKind, Job};

/// All rules on one record.
#[must_use]
pub fn all(record: &Record) -> Vec<Finding> {
    const RULES: &[fn(&Record) -> Option<Finding>] = &[
        io_failure,
        interrupted,
        suspended,
        nothing_measured,
        unwritten_extents,
        memory_target,
        generator_bound,
        direct_is_buffered,
        reads_not_from_device,
        reads_from_page_cache,
        sample_too_small,
        other_io,
        stolen_time,
        engine_fallback,
        stalled,
        log_full,
        too_few,
        zero_content,
        small_span,
        batched,
    ];
    RULES.iter().filter_map(|rule| rule(record)).collect()
}

/// True for findings whose text is about one row of a run and not about the whole machine or target.
#[must_use]
pub fn is_about_one_row(id: &str) -> bool {
    ROW_RULES.contains(&id)
}

const ROW_RULES: &[&str] = &[
    "io-failure",
    "interrupted",
    "suspended",
    "nothing-measured",
    "generator-bound",
    "direct-is-buffered",
    "reads-not-from-device",
    "reads-from-page-cache",
    "other-io",
    "stolen-time",
    "stalled",
    "too-few",
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

/// Not one request ended inside the window.
fn nothing_measured(record: &Record) -> Option<Finding> {
    let ended: u64 = record.jobs.iter().map(|j| j.transfers().latency_ns.count()).sum();
    (ended == 0 && record.failure.is_none()).then(|| {
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
        t.extents.as_ref().is_some_and(|e| {
            (e.hole_bytes + e.unwritten_bytes) as f64 > e.size_bytes as f64 / 10_000.0
        })
    };
    let target = record.targets.iter().find(is_absent)?;
    let extents = target.extents.as_ref()?;
    let absent = extents.hole_bytes + extents.unwritten_bytes;
    if !record.workload.jobs.iter().any(Job::reads) {
        return None;
    }
    let text = format!(
        "{}: {} of its {} were never written (holes {}, unwritten extents {}): reading them does not reach the device",
        target.path,
        format_size(absent),
        format_size(extents.size_bytes),
        format_size(extents.hole_bytes),
        format_size(extents.unwritten_bytes)
    );
    Some(
        Finding::new("unwritten-extents", Severity::Void, text)
            .advise("let fathom make the test file: give a directory or a new path with size="),
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
fn generator_bound(record: &Record) -> Option<Finding> {
    record.jobs.iter().zip(&record.workload.jobs).find_map(|(done, job)| {
        let share = done.busiest_thread_cpu_ns as f64 / done.window_ns.max(1) as f64;
        if share < 0.9 || done.engine.kind == EngineKind::Null || done.window_ns < 100_000_000 {
            return None;
        }
        let user = done.cpu.user_ns as f64 / done.cpu.total_ns().max(1) as f64;
        let text = format!(
            "the busiest thread used {:.0} % of its CPU ({:.0} % of that in fathom itself, the rest in the kernel): the processor limits the figure, not the device",
            share.min(1.0) * 100.0,
            user * 100.0
        );
        let more = u64::from(done.engine.threads) * 2;
        Some(
            Finding::new("generator-bound", Severity::Doubtful, text)
                .advise(format!("give it more processors: threads={more} (now {}, depth {})", done.engine.threads, job.depth)),
        )
    })
}

/// Bytes that the run wrote and read.
fn moved(record: &Record, class: impl Fn(OpClass) -> bool) -> u64 {
    record.jobs.iter().flat_map(|j| &j.classes).filter(|c| class(c.class)).map(|c| c.bytes).sum()
}

fn read_bytes(record: &Record) -> u64 {
    moved(record, |c| c == OpClass::Read)
}

fn written_bytes(record: &Record) -> u64 {
    moved(record, |c| matches!(c, OpClass::Write | OpClass::SyncedWrite))
}

fn all_direct(record: &Record) -> bool {
    !record.targets.is_empty() && record.targets.iter().all(|t| t.direct)
}

/// Direct writes that end in the page cache: seen by a probe on the test file, or, where a loop device buffers below,
/// by at least half as many bytes dirtied as were written.
fn direct_is_buffered(record: &Record) -> Option<Finding> {
    let (written, dirtied) = (written_bytes(record), record.page_cache.dirtied_bytes);
    if !all_direct(record) || written == 0 {
        return None;
    }
    let find = |text: String, advice: String| {
        Some(Finding::new("direct-is-buffered", Severity::Doubtful, text).advise(advice))
    };
    if let Some(target) = record.targets.iter().find(|t| t.direct_honoured == Some(false)) {
        let fs = target.stack.filesystem().map_or("the filesystem", |n| n.name.as_str());
        return find(
            format!("{fs} accepted O_DIRECT and buffered the writes all the same (a probe on the test file dirtied the page cache)"),
            "btrfs with checksums (chattr +C on the directory avoids it) and ext4 with data=journal do this: the figures are those of buffered writes".to_owned(),
        );
    }
    let buffers = |n: &&fathom_model::stack::Node| {
        n.loop_device.as_ref().is_some_and(|l| l.direct_io == Some(false))
    };
    let node = record.targets.iter().flat_map(|t| t.stack.walk()).find(buffers)?;
    if written < 1 << 20 || dirtied < written / 2 {
        return None;
    }
    find(
        format!(
            "{} passes direct writes through the page cache of its backing file: {} were written, {} of pages dirtied",
            node.name,
            format_size(written),
            format_size(dirtied)
        ),
        format!("losetup --direct-io=on {}", node.label()),
    )
}

/// The deltas of the lowest devices that count.
fn bottom<'a>(record: &'a Record, target: &TargetRecord) -> Vec<&'a DeviceDelta> {
    let names: Vec<String> = target
        .stack
        .leaves()
        .into_iter()
        .filter(|n| n.devno.is_some())
        .map(|n| n.name.clone())
        .collect();
    record.devices.iter().filter(|d| names.contains(&d.name)).collect()
}

/// What the first block devices under the target did.
fn top<'a>(record: &'a Record, target: &TargetRecord) -> Vec<&'a DeviceDelta> {
    let names: Vec<String> =
        target.stack.top_block_devices().iter().map(|n| n.name.clone()).collect();
    record.devices.iter().filter(|d| names.contains(&d.name)).collect()
}

/// Direct reads that no disk saw: a cache between (a buffered loop device, an SSD cache, compressed data). Less than
/// half, of at least 16 MiB, cannot be merging or rounding.
fn reads_not_from_device(record: &Record) -> Option<Finding> {
    let target =
        record.targets.first().filter(|_| record.targets.len() == 1 && all_direct(record))?;
    let devices = bottom(record, target);
    let (asked, seen) = (read_bytes(record), devices.iter().map(|d| d.read_bytes).sum::<u64>());
    if devices.is_empty() || asked < 16 << 20 || seen >= asked / 2 {
        return None;
    }
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let text = format!(
        "{} were read directly, but the devices below ({}) delivered only {}: a cache in between answered",
        format_size(asked),
        names.join(", "),
        format_size(seen)
    );
    Some(
        Finding::new("reads-not-from-device", Severity::Doubtful, text)
            .advise("use a larger size= than the cache, or measure the layer below it"),
    )
}

/// Buffered reads that the page cache answered: the devices delivered less than nine tenths of what was read.
fn reads_from_page_cache(record: &Record) -> Option<Finding> {
    let target = record.targets.iter().find(|t| !t.direct && t.kind != TargetKind::Null)?;
    let devices = top(record, target);
    let (asked, seen) = (read_bytes(record), devices.iter().map(|d| d.read_bytes).sum::<u64>());
    if devices.is_empty() || asked < 1 << 20 || seen as f64 >= asked as f64 * 0.9 {
        return None;
    }
    let text = format!(
        "{:.0} % of what was read came from the page cache ({} read, {} from the device)",
        100.0 * (1.0 - seen as f64 / asked as f64),
        format_size(asked),
        format_size(seen)
    );
    Some(
        Finding::new("reads-from-page-cache", Severity::Doubtful, text)
            .advise("direct=yes goes past it; or use a size= above the memory"),
    )
}

/// The minimal sample is twice the caches that can answer: those of controller and drives for direct I/O, and the
/// memory on top for buffered reads.
fn sample_too_small(record: &Record) -> Option<Finding> {
    let (target, direct) = record
        .targets
        .iter()
        .filter(|t| {
            matches!(
                t.kind,
                TargetKind::OwnFile | TargetKind::ForeignFile | TargetKind::BlockDevice
            )
        })
        .map(|t| (t, t.direct))
        .next()?;
    let appends = record.workload.jobs.iter().all(|j| j.access == Access::Append);
    let synced = record.workload.jobs.iter().all(|j| !j.reads() && j.sync_at_end.is_some());
    let caches = target.device_cache_bytes + if direct || synced { 0 } else { target.memory_bytes };
    let range_bytes = range_bytes(record, target.size_bytes);
    if appends || range_bytes >= 2 * caches {
        return None;
    }
    let which = if direct || synced {
        "the controller's and drives' caches"
    } else {
        "memory and drive caches"
    };
    let text = format!(
        "{} is smaller than twice {which} ({}, {})",
        format_size(range_bytes),
        format_size(caches),
        target.device_cache_reason
    );
    Some(
        Finding::new("sample-too-small", Severity::Doubtful, text)
            .advise(format!("size={} or more", format_size(2 * caches).replace(' ', ""))),
    )
}

/// How much of a target of that size the jobs reach: the largest range of one of them.
fn range_bytes(record: &Record, size_bytes: u64) -> u64 {
    let range = |job: &Job| {
        let start = job.offset.bytes(size_bytes).min(size_bytes);
        job.span.map_or(size_bytes - start, |span| span.bytes(size_bytes))
    };
    record.workload.jobs.iter().map(range).max().unwrap_or(size_bytes)
}

/// Reads (or, in a run that only reads, writes) of the device that are not ours: more than a tenth of our traffic and
/// more than 1 MiB/s disturb a measurement.
fn other_io(record: &Record) -> Option<Finding> {
    let target = record.targets.first().filter(|t| record.targets.len() == 1 && t.direct)?;
    let devices = top(record, target);
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let ours = (read_bytes(record) + written_bytes(record)) as f64;
    let read = devices.iter().map(|d| d.read_bytes).sum::<u64>() as f64 - read_bytes(record) as f64;
    let written = if written_bytes(record) == 0 {
        devices.iter().map(|d| d.written_bytes).sum::<u64>() as f64
    } else {
        0.0
    };
    let foreign = read.max(0.0) + written;
    // What was in flight at the borders of the window counts on one side only.
    let border = record
        .workload
        .jobs
        .iter()
        .map(|j| j.concurrency() * u64::from(j.block_size_bytes_max()))
        .sum::<u64>();
    if foreign <= ours / 10.0 + border as f64 || foreign / seconds < f64::from(1 << 20) {
        return None;
    }
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let text = format!(
        "others used {} during the run: {} beside our {}",
        names.join(", "),
        format_rate(foreign / seconds),
        format_rate(ours / seconds)
    );
    Some(
        Finding::new("other-io", Severity::Doubtful, text)
            .advise("stop them or wait; pidstat -d 1 and iotop show who it is"),
    )
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

/// The engine that ran is not the one that was asked for.
fn engine_fallback(record: &Record) -> Option<Finding> {
    let why = record.jobs.iter().find_map(|j| j.engine.fallback.clone())?;
    Some(
        Finding::new("engine-fallback", Severity::Note, why)
            .advise("fathom doctor says more; engine=psync asks for it openly"),
    )
}

/// Something was in flight for more than a second when the window ended.
fn stalled(record: &Record) -> Option<Finding> {
    let oldest = record.jobs.iter().filter_map(|j| j.censored.first()).max_by_key(|c| c.age_ns)?;
    (oldest.age_ns > 1_000_000_000).then(|| {
        let text = format!(
            "oldest unfinished: {}, {} at offset {}",
            oldest.class.word(),
            format_ns(oldest.age_ns),
            format_size(oldest.offset_bytes)
        );
        Finding::new("stalled", Severity::Note, text)
            .advise("it is in no percentile: its latency is at least that long")
    })
}

/// A log that was full before its time: appending ends there, since going on would overwrite.
fn log_full(record: &Record) -> Option<Finding> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    let mut appending = jobs.filter(|(_, job)| job.access == Access::Append);
    let (done, job) = appending.find(|(done, job)| {
        job.duration_ns.is_some_and(|planned_ns| done.window_ns < planned_ns)
    })?;
    let ended = record.ending == Ending::Complete;
    ended.then(|| {
        let text = format!("{}: the log was full after {}", job.name, format_ns(done.window_ns));
        Finding::new("log-full", Severity::Note, text).advise("a larger size= lets it go on")
    })
}

/// Fewer than 30 requests say little about a rate.
fn too_few(record: &Record) -> Option<Finding> {
    let ended: u64 = record.jobs.iter().map(|j| j.transfers().latency_ns.count()).sum();
    (1..30).contains(&ended).then(|| {
        Finding::new(
            "too-few",
            Severity::Doubtful,
            format!("only {ended} requests ended inside the window"),
        )
        .advise("use a longer duration= or a smaller block_size=")
    })
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
/// that part.
fn small_span(record: &Record) -> Option<Finding> {
    let target = record.targets.iter().find(|t| t.extents.is_some())?;
    let extents = target.extents.as_ref()?;
    if extents.physical_is_logical {
        return Some(Finding::new(
            "small-span",
            Severity::Note,
            "where the test file lies on the disks is unknown: the filesystem's addresses are not the device's",
        ));
    }
    let share = extents.share_of_device?;
    (share < 0.2).then(|| {
        let text = format!(
            "the test file covers {} of the device: a rotating disk is faster on so little",
            percent(share)
        );
        Finding::new("small-span", Severity::Note, text)
            .advise("a larger size=, or fathom quick --span=full, covers more")
    })
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
