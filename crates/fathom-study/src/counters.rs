//! Rules that hold what a workload asked for against what the kernel counted: whether syncs reached the device, whether
//! requests were in flight at the same time, whether an array works with all its disks.

use crate::table::LITTLE_TOLERANCE;
use fathom_base::shell;
use fathom_base::units::format_count;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, DriveHeat, JobRecord, OpClass, Record, TargetRecord};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::{Access, Arrivals, Content, Job, SyncCall, WeightedSize};
use std::collections::BTreeSet;
use std::path::Path;

/// Syncs that no flush followed, although a device below has a cache that forgets at a power cut: what the caller takes
/// for safe is not. Ten syncs without one flush cannot be chance; a filesystem that groups commits still flushes for each
/// caller that waits. Where one volatile device has no counter of flushes, or a target none of them, nothing can be said.
pub(crate) fn syncs_without_flush(record: &Record) -> Option<Finding> {
    let jobs = record.workload.jobs.iter().zip(&record.jobs);
    let durable = jobs.filter(|(job, _)| job.sync_call != SyncCall::SyncFileRange);
    let classes = durable.filter_map(|(_, done)| done.class(OpClass::Sync));
    let syncs: u64 = classes.map(|class| class.latency_ns.count()).sum();
    let mut volatile = Vec::new();
    for target in &record.targets {
        let before = volatile.len();
        for node in down_to_requests(&target.stack) {
            let flushes = delta(record, node).and_then(|counted| counted.flushes);
            let is_volatile = makes_requests(node) && has_volatile_cache(node);
            if flushes.map_or(is_volatile, |count| count > 0) {
                return None;
            }
            if is_volatile {
                volatile.push(node.name.as_str());
            }
        }
        if volatile.len() == before {
            return None;
        }
    }
    let stack = &record.targets.first().filter(|_| syncs >= 10)?.stack;
    let text = format!(
        "{} syncs ended, but no flush reached {}, whose cache forgets at a power cut: what was synced need not be on the \
         medium",
        format_count(syncs),
        volatile.join(", ")
    );
    Some(
        Finding::new("syncs-without-flush", Severity::Doubtful, text)
            .advise("the figures are those of syncs that do nothing; is it mounted with barrier=0 or nobarrier?")
            .advise(format!("findmnt -no OPTIONS -T {}", shell::word(&stack.resolved_path))),
    )
}

fn has_volatile_cache(node: &Node) -> bool {
    node.queue.as_ref().and_then(|q| q.write_cache.as_deref()) == Some("write back")
}

/// Disks and loop devices have a queue of requests of their own. The kernel counts flushes where requests are: on the
/// whole disk, never on its partitions, nor on arrays and mapped devices that pass them on.
fn makes_requests(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Disk | NodeKind::Loop)
}

/// The layers from the top down to the first that make requests, and those. What lies below a loop device serves others
/// too. Mapped devices over several paths may count flushes themselves, so the layers in between matter.
fn down_to_requests(stack: &Stack) -> Vec<&Node> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut pending = vec![stack.top];
    while let Some(index) = pending.pop() {
        let Some(node) = stack.nodes.get(index).filter(|_| seen.insert(index)) else { continue };
        found.push(node);
        if !makes_requests(node) {
            pending.extend(node.below.iter().rev());
        }
    }
    found
}

fn top_devices(stack: &Stack) -> impl Iterator<Item = &Node> {
    stack.top_block_devices().into_iter()
}

fn delta<'a>(record: &'a Record, node: &Node) -> Option<&'a DeviceDelta> {
    record.devices.iter().find(|device| device.name == node.name)
}

/// Requests that keep the number asked for in flight all the time: nothing slows them on purpose.
fn is_closed(job: &Job) -> bool {
    let unslowed = job.rate.is_none() && job.cap_iops.is_none() && job.cap_bytes.is_none();
    let unlimited = unslowed && job.cgroup_max.is_empty();
    unlimited && job.think_time_ns == 0 && job.arrivals == Arrivals::default()
}

/// Random direct requests that fathom has in flight and that the device does not: they wait somewhere above it, one
/// behind the other. A quarter is far from what queue limits and rounding explain; where the queue of the device is
/// full, that is its limit and no defect.
pub(crate) fn waiting_above_device(record: &Record) -> Option<Finding> {
    let ([job], [done], [target]) =
        (record.workload.jobs.as_slice(), record.jobs.as_slice(), record.targets.as_slice())
    else {
        return None;
    };
    let applies = is_closed(job)
        && job.direct
        && job.metadata.is_none()
        && matches!(job.access, Access::Random | Access::Shuffled);
    let asked = done.in_flight_mean().filter(|mean| applies && *mean >= 8.0)?;
    let mut devices = top_devices(&target.stack);
    let (node, None) = (devices.next()?, devices.next()) else { return None };
    let counted = delta(record, node)?;
    let requests = done.transfers().latency_ns.count();
    // Reads that the device did not see, or writes that it merged, are another matter.
    if (counted.reads + counted.writes) * 2 < requests || requests < 1000 {
        return None;
    }
    let at_device = counted.in_flight_mean(record.window_ns)?;
    let limit = target.stack.queue_of(node).and_then(|q| q.requests.or(q.tags));
    let is_full = limit.is_some_and(|limit| at_device >= 0.7 * limit as f64);
    // Requests that a busy thread has not yet seen end are in flight for it alone.
    if at_device >= 0.25 * asked || is_full || crate::rules::generator_bound(record).is_some() {
        return None;
    }
    let where_else = if crate::rules::others_keep_cpus(record).is_some() {
        "had ended and fathom got no CPU to see it, or waited above it"
    } else {
        "waited above it, one behind the other"
    };
    let text = format!(
        "of {asked:.0} requests in flight only {at_device:.1} were at {}: the others {where_else}",
        node.name
    );
    let finding = Finding::new("waiting-above-device", Severity::Doubtful, text)
        .advise("latencies are those of that queue, and more depth cannot help");
    Some(finding.advise(if !job.writes() {
        "a control group's io.max does that, and a layer that takes one request after the other"
    } else {
        "writes that are no multiple of the filesystem's block, or that make a file longer, wait for each other; so does a control group's io.max"
    }))
}

/// Fewer requests in flight than there may be: the threads did something else. Half of them missing halves the rate of
/// anything that works in parallel.
pub(crate) fn depth_not_held(record: &Record) -> Option<Finding> {
    let held = |(job, done): &(&Job, &JobRecord)| {
        let applies = is_closed(job)
            && job.duration_ns.is_some_and(|planned| done.window_ns >= planned)
            && job.metadata.is_none()
            && done.in_flight_max() >= 4
            && done.transfers().latency_ns.count() >= 1000;
        let mean = done.in_flight_mean().filter(|_| applies);
        mean.is_some_and(|mean| mean < 0.5 * done.in_flight_max() as f64)
    };
    let (_, done) = record.workload.jobs.iter().zip(&record.jobs).find(held)?;
    let (mean, asked, name) = (done.in_flight_mean()?, done.in_flight_max(), &done.name);
    if crate::rules::generator_bound(record).is_some() {
        return None;
    }
    let text = format!(
        "{name}: {asked} requests may be in flight, {mean:.1} were on average (Little's law): the threads did not keep up"
    );
    Some(Finding::new("depth-not-held", Severity::Note, text).advise(
        "busy CPUs, batches that wait to be full, or a device that answers at once do that",
    ))
}

/// More requests in flight than there may be, by rate and mean latency (Little's law), even when each place had one that began
/// before the window. That cannot be: a clock that jumps, or requests that are counted twice, and then nothing else of the run is
/// right either. The tolerance is that of foreign tables.
pub(crate) fn littles_law(record: &Record) -> Option<Finding> {
    let excess = |done: &JobRecord| -> Option<(f64, u64)> {
        let (least, most) = (done.in_flight_least()?, done.in_flight_max());
        (least > (1.0 + LITTLE_TOLERANCE) * most as f64).then_some((least, most))
    };
    let (done, (least, most)) =
        record.jobs.iter().find_map(|done| excess(done).map(|found| (done, found)))?;
    let text = format!(
        "{}: by Little's law (rate x mean latency) at least {least:.1} requests were in flight on average, where no more than \
         {most} may be: times or counts are wrong",
        done.name
    );
    Some(
        Finding::new("littles-law", Severity::Void, text)
            .advise("a clock that jumps does that: cat /sys/devices/system/clocksource/clocksource0/current_clocksource; dmesg | grep -i clock")
            .advise("where the clock is right it is a defect of fathom: please report it with fathom export"),
    )
}

/// A share of time with something in flight says nothing about a device that works on many requests at once.
pub(crate) fn busy_says_nothing(record: &Record) -> Option<Finding> {
    record.targets.iter().find_map(|target| busy_and_not_full(record, target))
}

fn busy_and_not_full(record: &Record, target: &TargetRecord) -> Option<Finding> {
    let in_parallel = |node: &&Node| {
        let queue = node.queue.as_ref();
        node.md.is_some() || queue.is_some_and(|q| q.rotational == Some(false))
    };
    let node = top_devices(&target.stack).find(in_parallel)?;
    let counted = delta(record, node)?;
    let (busy, mean) =
        (counted.busy_share(record.window_ns), counted.in_flight_mean(record.window_ns)?);
    let text = format!(
        "{} was busy {:.0} % of the time with {mean:.1} requests in flight on average: it works on many at once, so that \
         this is no sign of saturation",
        node.name,
        100.0 * busy
    );
    (busy >= 0.95 && mean < 4.0).then(|| {
        Finding::new("busy-is-not-saturated", Severity::Note, text)
            .advise(format!("fathom saturate {}", shell::path(Path::new(&target.stack.path))))
    })
}

/// Random requests of up to this size take a disk hardly longer than its access.
const SMALL_BYTES_MAX: u32 = 64 << 10;

/// Random I/O of a rotating array that does no more than one of its disks would, see [`one_disk_per_s`].
pub(crate) fn array_like_one_disk(record: &Record) -> Option<Finding> {
    let target = record.targets.first()?;
    let array = target.stack.walk().into_iter().find(|node| node.md.is_some())?;
    let md = array.md.as_ref()?;
    let disks = md.raid_disks? as f64;
    let level = md.level.as_deref().unwrap_or_default();
    let [job] = record.workload.jobs.as_slice() else { return None };
    let [done] = record.jobs.as_slice() else { return None };
    let random = matches!(job.access, Access::Random | Access::Shuffled | Access::Randomio);
    let largest = |size: &WeightedSize| size.up_to_bytes.unwrap_or(size.size_bytes);
    let small = job.block_size.iter().all(|size| largest(size) <= SMALL_BYTES_MAX);
    let in_flight = done.in_flight_mean()?;
    let writes: u64 = [OpClass::Write, OpClass::SyncedWrite]
        .iter()
        .filter_map(|class| Some(done.class(*class)?.latency_ns.count()))
        .sum();
    let all = done.transfers().latency_ns.count();
    // Where writes are more than half, caches and journals decide.
    let write_share = writes as f64 / all.max(1) as f64;
    let applies = random && write_share <= 0.5 && small && target.stack.rotational() == Some(true);
    if !applies || disks < 3.0 || in_flight < 2.0 * disks || done.window_ns == 0 {
        return None;
    }
    let iops = all as f64 / (done.window_ns as f64 / 1e9);
    let (limit, expected) = one_disk_per_s(disks, disk_requests(level, write_share)?);
    let what = if writes == 0 { "random reads" } else { "random requests" };
    let text = format!(
        "{}, {level} of {disks:.0} disks, did {iops:.0} {what} per second with {in_flight:.0} in flight: that is one \
         disk's work; {expected:.0} and more are expected",
        array.name,
    );
    (iops < limit).then(|| {
        Finding::new("array-like-one-disk", Severity::Doubtful, text)
            .advise("one slow or failing member holds up the others: compare the members' own counters in fathom show")
            .advise(format!("cat /proc/mdstat; iostat -x 1 3; smartctl -a on each member of {}", array.name))
    })
}

/// Requests of member disks for one small random request to an array, so many of which write: copies of a mirror, or data and
/// parity read and written again.
fn disk_requests(level: &str, write_share: f64) -> Option<f64> {
    let of_write = match level {
        "raid0" => 1.0,
        "raid1" | "raid10" => 2.0,
        "raid4" | "raid5" => 4.0,
        "raid6" => 6.0,
        _ => return None,
    };
    Some(1.0 - write_share + of_write * write_share)
}

/// Small random requests per second below which a rotating array of so many disks does the work of one, and how many are
/// expected at least, when each takes `disk_requests` of its members and at least two for each disk are in flight. About 75
/// per second and disk is what half a rotation of 7200 rpm and an average seek allow; a healthy array does at least half of
/// that with all its disks. Larger requests take the time of their transfer as well, and several disks.
pub(crate) fn one_disk_per_s(disks: f64, disk_requests: f64) -> (f64, f64) {
    const PER_DISK: f64 = 75.0;
    let expected = 0.5 * disks * PER_DISK / disk_requests;
    (expected.min(1.5 * PER_DISK), expected)
}

/// Heat slows processors and drives down; the figures are then those of a hot machine. One event lasts milliseconds: only
/// where they come every second do they matter for the mean.
pub(crate) fn throttled(record: &Record) -> Option<Finding> {
    let heat = &record.heat;
    let too_hot =
        |drive: &&DriveHeat| drive.limit_celsius.is_some_and(|limit| drive.celsius >= limit);
    let (severity, text) = if let Some(drive) = heat.drives.iter().find(too_hot) {
        let limit = drive.limit_celsius.unwrap_or_default();
        let text =
            format!("{} is at its limit: {:.0} degrees C of {limit:.0}", drive.name, drive.celsius);
        (Severity::Doubtful, text)
    } else {
        let events = heat.cpu_throttle_events.filter(|events| *events > 0)?;
        let is_often = events as f64 >= record.window_ns as f64 / 1e9;
        let severity = if is_often { Severity::Doubtful } else { Severity::Note };
        let times =
            if events == 1 { "once".into() } else { format!("{} times", format_count(events)) };
        (severity, format!("processors were slowed down {times} because of heat"))
    };
    Some(
        Finding::new("throttled", severity, text)
            .advise("let it cool down, look at fans, airflow and heat sinks, and run it again"),
    )
}

/// Content that shrinks, on layers that compress or deduplicate: fewer bytes reach the medium than were written.
pub(crate) fn compressed(record: &Record) -> Option<Finding> {
    let shrinks = |job: &&Job| {
        job.writes()
            && (job.content == Content::Zero || job.compressible > 0.0 || job.duplicate > 0.0)
    };
    let job = record.workload.jobs.iter().find(shrinks)?;
    let layer = record.targets.iter().find_map(|target| compressing_layer(&target.stack))?;
    let text = format!(
        "{}: what it writes can be shrunk, and {layer} does that: rates are above those of the medium",
        job.name
    );
    Some(
        Finding::new("compressed-on-the-way", Severity::Doubtful, text)
            .advise("content=random, which cannot be shrunk, is the default; fathom show has the share that was delivered"),
    )
}

/// A layer that stores less than it is given, by its name.
pub(crate) fn compressing_layer(stack: &Stack) -> Option<String> {
    stack.walk().into_iter().find_map(|node| {
        let fs = node.fs.as_ref().is_some_and(|fs| fs.target_compressed == Some(true));
        let mount = node.mount.as_ref().is_some_and(|mount| {
            ["compress", "compress-force"].iter().any(|key| {
                mount.has_option(key) || mount.option_value(key).is_some_and(|v| v != "no")
            })
        });
        let vdo = node.dm.as_ref().is_some_and(|dm| dm.targets.iter().any(|t| t == "vdo"));
        let zram = node.kind == NodeKind::Zram;
        (fs || mount || vdo || zram).then(|| node.label().to_owned())
    })
}

#[cfg(test)]
#[path = "counters_tests.rs"]
mod tests;
