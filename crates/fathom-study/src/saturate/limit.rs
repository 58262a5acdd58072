//! What kept throughput from growing further: fathom itself, the CPU, an array's thread, the queue of a device, the device.
//!
//! The members' own counters are the cross-check: when most of them were busy all the time, no more parallelism exists
//! below; when they were not, the limit lies above them. Time busy alone does not mean saturated: a drive that works on many
//! requests at once is busy with the first.

use crate::rules;
use fathom_base::units::format_count;
use fathom_model::record::{JobRecord, OpClass, Record};
use fathom_model::stack::{Node, Stack};
use fathom_model::workload::{Access, EngineKind, Job};
use serde::Serialize;

/// A device counts as busy all the time from this share of the window on: counters are read a little outside of it.
const BUSY: f64 = 0.95;
/// A queue counts as full from this share of it on.
const FULL: f64 = 0.9;
/// A limit that was asked for counts as reached from this share of it on: the kernel gives out its shares in slices of a
/// tenth of a second and more.
const REACHED: f64 = 0.8;
/// Most requests wait in a device from this share of them on.
const WAITING: f64 = 0.75;
/// A depth counts as not held below this share of it.
const HELD_MIN: f64 = 0.5;

/// What was the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// There is no storage below: fathom measured itself.
    Fathom,
    /// A limit that the run was asked to keep.
    Asked,
    /// The CPU time of fathom's threads, or of the machine.
    Cpu,
    /// The kernel had fewer requests in flight than were asked for.
    NotInFlight,
    /// The kernel thread of a software array.
    ArrayThread,
    /// The queue of a device was full.
    Queue,
    /// The device, or most members, were busy all the time, or held nearly all requests.
    Device,
    /// No member was: something above them.
    AboveMembers,
    /// There are no counters to tell by.
    Unknown,
}

/// The bottom devices at one number of requests in flight.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Member {
    /// Kernel name.
    pub name: String,
    /// Share of the window with at least one request in flight.
    pub busy_share: f64,
    /// Requests in flight on average.
    pub in_flight: Option<f64>,
    /// Requests that its queue takes.
    pub queue: Option<u64>,
}

/// The limit, with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// What it was.
    pub cause: Cause,
    /// In words, with figures.
    pub text: String,
    /// The devices at the bottom of the stack.
    pub members: Vec<Member>,
}

/// What limited a sweep: by the closed-loop run with the highest throughput, and by the one at the knee. The CPU counts at the
/// knee only: when it is used up beyond, throughput had stopped growing before.
#[must_use]
pub fn limit(record: &Record, at_knee: &Record) -> Limit {
    let members = members(record);
    let found = itself(record)
        .or_else(|| asked(record))
        .or_else(|| cpu(at_knee))
        .or_else(|| array_thread(record))
        .or_else(|| queue(&members))
        .or_else(|| not_in_flight(record));
    let (cause, text) = found.unwrap_or_else(|| by_members(record, &members));
    Limit { cause, text, members }
}

/// The devices at the bottom, as their own counters saw them.
#[must_use]
pub fn members(record: &Record) -> Vec<Member> {
    let mut found: Vec<Member> = Vec::new();
    for target in &record.targets {
        for node in target.stack.leaves().into_iter().filter(|node| node.devno.is_some()) {
            let Some(device) = record.devices.iter().find(|d| d.name == node.name) else {
                continue;
            };
            if found.iter().any(|known| known.name == node.name) {
                continue;
            }
            found.push(Member {
                name: node.name.clone(),
                busy_share: device.busy_share(record.window_ns),
                in_flight: device.in_flight_mean(record.window_ns),
                queue: queue_size(&target.stack, node),
            });
        }
    }
    found
}

/// Requests that can be in flight on a device: those of all its hardware queues; with a scheduler, what that holds.
fn queue_size(stack: &Stack, node: &Node) -> Option<u64> {
    let facts = stack.queue_of(node)?;
    let each = facts.requests.or(facts.tags)?;
    Some(each * facts.hardware_queues.unwrap_or(1).max(1))
}

/// Requests in flight on average on the devices at the top of the stack, by their own counters.
#[must_use]
pub fn in_flight_at_top(record: &Record) -> Option<f64> {
    let [target] = record.targets.as_slice() else { return None };
    let names: Vec<&str> =
        target.stack.top_block_devices().into_iter().map(|node| node.name.as_str()).collect();
    let own = record.devices.iter().filter(|device| names.contains(&device.name.as_str()));
    let each: Vec<f64> = own.filter_map(|d| d.in_flight_mean(record.window_ns)).collect();
    (!each.is_empty()).then(|| each.iter().sum())
}

fn itself(record: &Record) -> Option<(Cause, String)> {
    record.jobs.iter().all(|job| job.engine.kind == EngineKind::Null).then(|| {
        let text = "fathom itself: the null engine does no I/O, so this is the most that fathom can ask for here";
        (Cause::Fathom, text.to_owned())
    })
}

/// A limit among the settings of the job, where what was done comes near it.
fn asked(record: &Record) -> Option<(Cause, String)> {
    let job = record.jobs.first()?;
    let seconds = job.window_ns.max(1) as f64 / 1e9;
    let done = |classes: &[OpClass]| {
        let done = job.merged(classes);
        [done.latency_ns.count() as f64 / seconds, done.bytes as f64 / seconds]
    };
    let [reads, read_bytes] = done(&[OpClass::Read]);
    let [writes, written_bytes] = done(&[OpClass::Write, OpClass::SyncedWrite]);
    let of_job = record.workload.jobs.first()?;
    let (max, number) = (&of_job.cgroup_max, |n: Option<u64>| n.map(|n| n as f64));
    let limits = [
        ("cgroup_max=read_iops:", number(max.read_iops), reads),
        ("cgroup_max=write_iops:", number(max.write_iops), writes),
        ("cgroup_max=read_bytes:", number(max.read_bytes), read_bytes),
        ("cgroup_max=write_bytes:", number(max.write_bytes), written_bytes),
        ("cap_iops=", of_job.cap_iops, reads + writes),
        ("cap_bytes=", number(of_job.cap_bytes), read_bytes + written_bytes),
    ];
    let set = limits.into_iter().filter_map(|(key, most, done)| Some((key, most?, done)));
    let (key, most, done) = set.into_iter().find(|(_, most, done)| *done >= REACHED * most)?;
    let text = format!(
        "the one that was asked for, {key}{most:.0}: {} per second were done",
        format_count(done.round() as u64)
    );
    Some((Cause::Asked, text))
}

fn cpu(record: &Record) -> Option<(Cause, String)> {
    let busiest = |job: &JobRecord| {
        (job.busiest_thread_cpu_ns as f64 / job.window_ns.max(1) as f64).min(1.0) * 100.0
    };
    if rules::generator_bound(record).is_some() {
        let most = record.jobs.iter().map(busiest).fold(0.0, f64::max);
        let text = format!(
            "the CPU, not the storage: fathom's busiest thread used {most:.0} % of its CPU; the storage may do more"
        );
        return Some((Cause::Cpu, text));
    }
    let busy = record.system_cpu.busy_share;
    (busy >= BUSY).then(|| {
        let text = format!(
            "the CPU: all processors of this machine were {:.0} % busy (fathom took {:.0} % of one)",
            busy * 100.0,
            record.process_cpu.total_ns() as f64 / record.window_ns.max(1) as f64 * 100.0
        );
        (Cause::Cpu, text)
    })
}

/// Random direct requests are neither merged nor cached: each must be in flight on the device.
fn not_in_flight(record: &Record) -> Option<(Cause, String)> {
    let is_one_to_one = |job: &Job| job.access == Access::Random && job.direct;
    let asked: u64 = record.workload.jobs.iter().map(Job::concurrency).sum();
    let seen = in_flight_at_top(record)?;
    let is_meant = asked > 1 && record.workload.jobs.iter().all(is_one_to_one);
    (is_meant && seen < asked as f64 * HELD_MIN).then(|| {
        let text = format!(
            "the kernel: {asked} requests were asked for, but only {seen:.1} were in flight on the device on average; a \
             cache answered, or something above it (a lock of the filesystem, a control group's io.max) or the device \
             itself takes them one after the other"
        );
        (Cause::NotInFlight, text)
    })
}

fn array_thread(record: &Record) -> Option<(Cause, String)> {
    let share = |ns: u64| ns as f64 / record.window_ns.max(1) as f64;
    let mut arrays =
        record.devices.iter().filter_map(|d| Some((&d.name, share(d.kernel_thread_cpu_ns?))));
    let (name, share) = arrays.find(|(_, share)| *share >= FULL)?;
    let text = format!(
        "the kernel thread of {name}, which used {:.0} % of one CPU: group_thread_cnt spreads raid5 and raid6 over more",
        share.min(1.0) * 100.0
    );
    Some((Cause::ArrayThread, text))
}

fn queue(members: &[Member]) -> Option<(Cause, String)> {
    let is_full = |m: &&Member| {
        let queue = m.queue.unwrap_or(0);
        queue > 0 && m.in_flight.is_some_and(|n| n >= FULL * queue as f64)
    };
    let full: Vec<&Member> = members.iter().filter(is_full).collect();
    let first = full.first().filter(|_| full.len() * 2 >= members.len())?;
    let text = format!(
        "the queue of {}: {:.0} of {} places were taken on average; what is beyond that waits before it (nr_requests, or \
         the drive's own queue depth, sets them)",
        names(&full),
        first.in_flight.unwrap_or(0.0),
        format_count(first.queue.unwrap_or(0))
    );
    Some((Cause::Queue, text))
}

/// One device in which most requests wait, also when it has none at moments (a host that serves it in bursts): whatever
/// lies above holds few of them.
fn waiting_in(record: &Record, members: &[Member]) -> Option<(Cause, String)> {
    let [member] = members else { return None };
    let asked: u64 = record.workload.jobs.iter().map(Job::concurrency).sum();
    let in_flight = member.in_flight.filter(|n| *n >= WAITING * asked as f64)?;
    let text = format!(
        "the device: {in_flight:.1} of {asked} requests were in flight on {} on average, although it had none for {:.0} % of \
         the time",
        member.name,
        (1.0 - member.busy_share).max(0.0) * 100.0
    );
    Some((Cause::Device, text))
}

fn by_members(record: &Record, members: &[Member]) -> (Cause, String) {
    let busy: Vec<&Member> = members.iter().filter(|m| m.busy_share >= BUSY).collect();
    let Some(busiest) = members.iter().max_by(|a, b| a.busy_share.total_cmp(&b.busy_share)) else {
        let text = "unknown: there are no counters of a device below".to_owned();
        return (Cause::Unknown, text);
    };
    if let ([_], [one]) = (busy.as_slice(), members) {
        let text = format!("the device: {} had requests in flight all the time", one.name);
        return (Cause::Device, text);
    }
    if let Some(found) = waiting_in(record, members) {
        return found;
    }
    if busy.len() * 2 > members.len() {
        let text = format!(
            "the devices: {} of {} members had requests in flight all the time, so that no more parallelism exists below",
            busy.len(),
            members.len()
        );
        return (Cause::Device, text);
    }
    let text = format!(
        "something above the devices (array, filesystem, a lock, a limit such as io.max): {} of {} had requests in flight \
         all the time, the busiest, {}, for {:.0} % of it",
        busy.len(),
        members.len(),
        busiest.name,
        busiest.busy_share * 100.0
    );
    (Cause::AboveMembers, text)
}

fn names(members: &[&Member]) -> String {
    members.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    use fathom_model::record::DeviceDelta;
    use fathom_model::stack::{NodeKind, QueueFacts};

    /// Injected: members below an array, each with its share of time busy and its requests in flight.
    fn array(members: &[(f64, f64)]) -> Record {
        let mut record = record();
        record.workload.jobs[0].depth = 5;
        let device = record.devices[0].clone();
        let nodes = &mut record.targets[0].stack.nodes;
        nodes[2].kind = NodeKind::Md;
        nodes[2].name = "md0".into();
        let window = record.window_ns as f64;
        let counters = |name: &str, busy: f64, in_flight: f64| DeviceDelta {
            name: name.into(),
            busy_ns: (window * busy) as u64,
            in_flight_ns: Some((window * in_flight) as u64),
            ..device.clone()
        };
        record.devices = vec![counters("md0", 1.0, 5.0)];
        for (i, (busy, in_flight)) in members.iter().enumerate() {
            let mut disk = Node::new(NodeKind::Disk, format!("sd{i}"));
            disk.devno = Some(format!("8:{i}"));
            disk.queue = Some(QueueFacts { requests: Some(32), ..QueueFacts::default() });
            let index = nodes.len();
            nodes[2].below.push(index);
            nodes.push(disk);
            record.devices.push(counters(&format!("sd{i}"), *busy, *in_flight));
        }
        record
    }

    fn cause(record: &Record) -> (Cause, String) {
        let limit = limit(record, record);
        (limit.cause, limit.text)
    }

    #[test]
    fn injected_members_tell_the_device_from_what_is_above() {
        let (what, text) = cause(&array(&[(1.0, 3.0), (0.99, 2.0), (0.4, 1.0)]));
        assert!(what == Cause::Device && text.contains("2 of 3 members"), "{text}");
        let (what, text) = cause(&array(&[(0.6, 0.7), (0.5, 0.6)]));
        assert!(what == Cause::AboveMembers && text.contains("sd0, for 60 %"), "{text}");
        let (what, text) = cause(&array(&[(0.9, 4.1)]));
        assert!(
            what == Cause::Device && text.contains("4.1 of 5") && text.contains("10 %"),
            "{text}"
        );
        assert_eq!(cause(&array(&[(0.9, 3.0)])).0, Cause::AboveMembers, "the others wait above it");
        let (what, text) = cause(&array(&[(1.0, 30.0), (1.0, 31.0), (1.0, 5.0)]));
        assert!(what == Cause::Queue && text.contains("sd0, sd1: 30 of 32"), "{text}");
        let mut none = array(&[]);
        none.devices.clear();
        assert_eq!(cause(&none).0, Cause::Unknown);
    }

    #[test]
    fn injected_limits_above_the_devices_come_first() {
        let busy = array(&[(1.0, 30.0)]);
        let mut cpu = busy.clone();
        cpu.jobs[0].busiest_thread_cpu_ns = cpu.window_ns;
        assert_eq!(cause(&cpu).0, Cause::Cpu);
        assert_eq!(limit(&cpu, &busy).cause, Cause::Queue, "not at the knee");
        let mut machine = busy.clone();
        machine.system_cpu.busy_share = 0.97;
        assert!(cause(&machine).1.contains("all processors"));
        let mut null = cpu;
        null.jobs[0].engine.kind = EngineKind::Null;
        assert_eq!(cause(&null).0, Cause::Fathom);
        let mut thread = busy.clone();
        thread.devices[0].kernel_thread_cpu_ns = Some(thread.window_ns);
        assert!(cause(&thread).1.contains("kernel thread of md0"));
        let mut serial = busy;
        let window_ns = serial.window_ns;
        serial.devices.iter_mut().for_each(|device| device.in_flight_ns = Some(window_ns));
        let (what, text) = cause(&serial);
        assert!(
            what == Cause::NotInFlight && text.contains("5 requests were asked for, but only 1.0"),
            "{text}"
        );
        // Sequential requests may be merged, so that fewer are no wonder.
        serial.workload.jobs[0].access = Access::Sequential;
        assert_eq!(cause(&serial).0, Cause::Device);
    }

    /// The record does 1000 reads of 4 KiB per second.
    #[test]
    fn a_limit_that_was_asked_for_is_the_limit_once_it_is_reached() {
        let set = |change: fn(&mut Job)| {
            let mut record = array(&[(0.5, 0.6)]);
            change(&mut record.workload.jobs[0]);
            cause(&record)
        };
        let (what, text) = set(|job| job.cgroup_max.read_iops = Some(1100));
        assert!(what == Cause::Asked && text.contains("cgroup_max=read_iops:1100"), "{text}");
        assert_eq!(set(|job| job.cap_bytes = Some(4_096_000)).0, Cause::Asked);
        assert_eq!(set(|job| job.cap_iops = Some(1300.0)).0, Cause::AboveMembers);
        assert_eq!(set(|job| job.cgroup_max.write_iops = Some(10)).0, Cause::AboveMembers);
    }

    #[test]
    fn records_without_the_counter_are_judged_by_time_busy() {
        let mut old = array(&[(1.0, 3.0)]);
        old.devices.iter_mut().for_each(|device| device.in_flight_ns = None);
        let (what, text) = cause(&old);
        assert!(what == Cause::Device && text.contains("sd0 had requests in flight"), "{text}");
    }
}
