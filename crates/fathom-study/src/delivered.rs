//! What jobs asked for, held against what the devices below delivered or took: caches that answered in their place.
//!
//! Counters are of devices, so that all jobs are judged together: what is missing is what all of them moved, less what all devices of
//! their targets moved, each counted once. Direct jobs beside buffered ones reach their devices; what is missing is the buffered ones'.

use crate::counters;
use crate::rules::{replayed_bytes, top};
use fathom_base::shell;
use fathom_base::units::{format_count, format_size, format_sizes};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, JobRecord, OpClass, Record, TargetKind, TargetRecord};
use fathom_model::workload::{EngineKind, Job};

/// The least share that devices deliver or take where nothing on the way answers, merges or shrinks.
const DELIVERED_MIN: f64 = 0.9;
/// The same where the measured time ends with a sync: some blocks were written twice by chance, but most were not.
const SYNCED_MIN: f64 = 0.5;

/// The same where a layer shrinks the data, or the job gives places back: reads of these never reach a device, so that less says
/// nothing about a cache until it is this little.
const SHRUNK_MIN: f64 = 0.5;

/// Jobs that do I/O, with what they did.
fn jobs(record: &Record) -> impl Iterator<Item = (&Job, &JobRecord)> {
    let all = record.workload.jobs.iter().zip(&record.jobs);
    all.filter(|(_, done)| done.engine.kind != EngineKind::Null)
}

/// Holes that count: metadata of a filesystem may leave some.
const HOLES_MIN: f64 = 0.01;

/// Reads of a loop device whose file has holes, or of a zram that was never written there: what was never written, or is compressed, is
/// answered without a look at storage. Who writes too fills them.
pub(crate) fn device_of_holes(record: &Record) -> Option<Finding> {
    let jobs = &record.workload.jobs;
    let replayed = |class| replayed_bytes(record, class) > 0;
    if !(jobs.iter().any(Job::reads) || replayed("read"))
        || jobs.iter().any(Job::writes_data)
        || replayed("write")
    {
        return None;
    }
    let devices = record.targets.iter().filter(|target| target.kind == TargetKind::BlockDevice);
    let mut tops = devices.flat_map(|target| {
        let tops = target.stack.top_block_devices().into_iter();
        tops.map(move |node| (node, target.size_bytes))
    });
    let is_holed = |has: u64, of: u64| (has as f64) < (1.0 - HOLES_MIN) * of as f64;
    let text = tops.find_map(|(node, size_bytes)| {
        if let Some(facts) = &node.loop_device {
            let (has, size) = (facts.backing_allocated_bytes?, facts.backing_size_bytes?);
            let (has_text, size_text) = format_sizes(has, size);
            return is_holed(has, size).then(|| format!(
                "{}: of its file of {size_text} only {has_text} have space on the filesystem: reading the rest does not reach the device",
                node.name
            ));
        }
        let (has, read) = (node.zram.as_ref()?.stored_bytes?, span_read(record, size_bytes));
        let (has_text, read_text) = format_sizes(has, read);
        is_holed(has, read).then(|| format!(
            "{}: {read_text} of it were read in, and only {has_text} of all that it has were ever written: the kernel answers for the rest by itself",
            node.name
        ))
    })?;
    Some(
        Finding::new("unwritten-extents", Severity::Doubtful, text)
            .advise("measure reads of a device that was written from end to end; over this one only where nobody needs what is on it"),
    )
}

/// In how much of a device of that size reads lie: parts that a replay reaches into, or the widest span of a job.
fn span_read(record: &Record, size_bytes: u64) -> u64 {
    let replay = record.capture.as_deref().filter(|capture| capture.is_replay());
    let replayed = replay.map_or(0, |replay| {
        let read_bytes = replay.class("read").map_or(0, |class| class.bytes);
        replay.places.touched_bytes().min(read_bytes)
    });
    let of_job = |job: &Job| job.span.map_or(size_bytes, |span| span.bytes(size_bytes));
    let reads = record.workload.jobs.iter().filter(|job| job.reads());
    reads.map(of_job).max().unwrap_or(0).max(replayed)
}

/// How far the delivered shares of content may be from those that were asked for.
const SHARE_OFF_MAX: f64 = 0.02;

/// What was written can be shrunk by another share than was asked for: of few units the first of equal ones, which are no duplicates,
/// are a part to be seen.
pub(crate) fn shares_missed(record: &Record) -> Option<Finding> {
    let (what, asked, got, units) = jobs(record).find_map(|(asked, done)| {
        let got = done.delivered?;
        let shares = [
            ("compressible", asked.compressible, got.compressible),
            ("duplicates", asked.duplicate, got.duplicate),
        ];
        let is_off = |(_, asked, got): &(&str, f64, f64)| {
            *asked > 0.0 && (asked - got).abs() > SHARE_OFF_MAX
        };
        shares.into_iter().find(is_off).map(|(what, asked, share)| (what, asked, share, got.units))
    })?;
    let text = format!(
        "of what was written {:.1} % was to be {what}, and {:.1} % is (of {} units that were looked at)",
        100.0 * asked,
        100.0 * got,
        format_count(units)
    );
    Some(Finding::new("content-shares-missed", Severity::Doubtful, text).advise(
        "write more, or smaller blocks: of some thousand units shares come out within a point",
    ))
}

/// Names go through the page cache whatever is asked for.
fn is_buffered(job: &Job) -> bool {
    !job.direct || job.metadata.is_some()
}

fn bytes<'a>(jobs: impl Iterator<Item = (&'a Job, &'a JobRecord)>, classes: &[OpClass]) -> u64 {
    let of = jobs.flat_map(|(_, done)| &done.classes).filter(|c| classes.contains(&c.class));
    of.map(|class| class.bytes).sum()
}

const READS: &[OpClass] = &[OpClass::Read];
const WRITES: &[OpClass] = &[OpClass::Write, OpClass::SyncedWrite];

/// Targets that something is read from or written to.
fn targets(record: &Record) -> impl Iterator<Item = &TargetRecord> {
    record.targets.iter().filter(|target| target.kind != TargetKind::Null)
}

/// The devices of all targets, each once; none where a target has no device that counts, whose part would be missing.
fn devices<'a>(
    record: &'a Record,
    of: impl Fn(&'a Record, &TargetRecord) -> Vec<&'a DeviceDelta>,
) -> Option<Vec<&'a DeviceDelta>> {
    let mut found: Vec<&DeviceDelta> = Vec::new();
    for target in targets(record) {
        let own = of(record, target);
        if own.is_empty() {
            return None;
        }
        let new = |device: &&DeviceDelta| !found.iter().any(|known| known.name == device.name);
        let new: Vec<&DeviceDelta> = own.into_iter().filter(new).collect();
        found.extend(new);
    }
    (!found.is_empty()).then_some(found)
}

/// The lowest devices that count.
fn bottom<'a>(record: &'a Record, target: &TargetRecord) -> Vec<&'a DeviceDelta> {
    let leaves = target.stack.leaves().into_iter().filter(|node| node.devno.is_some());
    let names: Vec<String> = leaves.map(|node| node.name.clone()).collect();
    record.devices.iter().filter(|device| names.contains(&device.name)).collect()
}

/// Requests in flight at the borders of the window: the devices may have counted them outside.
fn border_bytes(record: &Record) -> u64 {
    jobs(record).map(|(job, _)| job.concurrency() * u64::from(job.block_size_bytes_max())).sum()
}

/// Less was read than says something: jobs have requests in flight at the borders of their window. A replay ends with its last request, and a
/// usual trace is short.
fn says_little(asked_bytes: u64, replayed_bytes: u64) -> bool {
    asked_bytes < if replayed_bytes == asked_bytes { 1 << 20 } else { 16 << 20 }
}

/// Direct reads that no disk saw: a cache between (a buffered loop device, an SSD cache, compressed data). Less than nine tenths, of
/// at least 16 MiB (1 MiB of a replay), cannot be merging or rounding, as nothing merges bytes that are asked for twice.
pub(crate) fn reads_not_from_device(record: &Record) -> Option<Finding> {
    if jobs(record).any(|(job, _)| is_buffered(job)) || targets(record).any(|t| !t.direct) {
        return None;
    }
    let devices = devices(record, bottom)?;
    let replayed = replayed_bytes(record, "read");
    let asked = bytes(jobs(record), READS) + replayed;
    let seen = devices.iter().map(|d| d.read_bytes).sum();
    let gives_back = jobs(record).any(|(job, _)| job.trim_fraction + job.zero_fraction > 0.0);
    let shrinks = targets(record).any(|t| counters::compressing_layer(&t.stack).is_some());
    let least = if gives_back || shrinks { SHRUNK_MIN } else { DELIVERED_MIN };
    let nearly = seen + border_bytes(record);
    if says_little(asked, replayed) || nearly as f64 >= asked as f64 * least {
        return None;
    }
    let names: Vec<&str> = devices.iter().map(|d| d.name.as_str()).collect();
    let text = format!(
        "{} were read directly, but the devices below ({}) delivered only {}: a cache in between answered",
        format_size(asked),
        names.join(", "),
        format_size(seen)
    );
    Some(Finding::new("reads-not-from-device", Severity::Doubtful, text).advise(match replayed {
        0 => "use a larger size= than the cache, or measure the layer below it",
        _ => "replay on a larger target than the cache, or on the layer below it",
    }))
}

/// What buffered jobs moved without keeping the page cache on purpose, and what of it devices saw, in bytes; none where all of it was
/// seen. What is missing of those that keep it is theirs first.
fn buffered(
    record: &Record,
    classes: &[OpClass],
    least: f64,
    seen: impl Fn(&DeviceDelta) -> u64,
) -> Option<(u64, u64)> {
    let of =
        |is_in: &dyn Fn(&Job) -> bool| bytes(jobs(record).filter(|(job, _)| is_in(job)), classes);
    let asked = of(&|job| is_buffered(job) && job.drop_cache);
    let kept = of(&|job| is_buffered(job) && !job.drop_cache);
    let seen: u64 = devices(record, top)?.into_iter().map(seen).sum();
    let missing = of(&|_| true).saturating_sub(seen).saturating_sub(kept).min(asked);
    let is_missing = (asked - missing) as f64 + 0.5 < asked as f64 * least;
    (asked >= 1 << 20 && is_missing).then_some((asked, asked - missing))
}

/// Buffered reads that the page cache answered: the devices delivered less than nine tenths of what was read.
pub(crate) fn reads_from_page_cache(record: &Record) -> Option<Finding> {
    let (asked, seen) = buffered(record, READS, DELIVERED_MIN, |device| device.read_bytes)?;
    let target = targets(record).find(|target| !target.direct)?;
    let text = format!(
        "{:.0} % of what was read came from the page cache ({} read, {} from the device)",
        100.0 * (1.0 - seen as f64 / asked as f64),
        format_size(asked),
        format_size(seen)
    );
    let finding = Finding::new("reads-from-page-cache", Severity::Doubtful, text);
    Some(if target.kind == TargetKind::OwnFile {
        finding.advise("direct=yes goes past it; or use a size= above the memory")
    } else {
        finding
            .advise(
                "direct=yes goes past it; fathom does not empty the cache of what is not its own",
            )
            .advise("to do so first (whoever uses it then waits for the disk):")
            .advise(format!("sync; dd if={} iflag=nocache count=0", shell::word(&target.path)))
    })
}

/// Buffered writes that stayed in the page cache, or were written over there before the device saw them: it took less than nine
/// tenths of what was written. What is synced in time, or at the end, reaches it.
pub(crate) fn writes_to_page_cache(record: &Record) -> Option<Finding> {
    // What shrinks on the way is told for itself.
    if counters::compressed(record).is_some() {
        return None;
    }
    // What a last sync in the time brings to the device is all of it, and a block that was written twice counts once.
    let mut asked = jobs(record).filter(|(job, _)| is_buffered(job) && job.drop_cache);
    let is_synced = asked.all(|(job, _)| !job.writes_data() || job.sync_at_end.is_some());
    let least = if is_synced { SYNCED_MIN } else { DELIVERED_MIN };
    let (written, taken) = buffered(record, WRITES, least, |device| device.written_bytes)?;
    let text = format!(
        "{} were written to the page cache, of which the device took {} by the end: the rate is that of memory",
        format_size(written),
        format_size(taken)
    );
    Some(
        Finding::new("writes-to-page-cache", Severity::Doubtful, text)
            .advise("direct=yes goes past it; fsync_every=, or sync_at_end= with a size= that is written once, waits for the device"),
    )
}
