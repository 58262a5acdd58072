//! What a stored measurement says that rules about the state of a machine can use.

use crate::verdict;
use fathom_model::host::HostFacts;
use fathom_model::record::{Ending, JobRecord, OpClass, Record};
use fathom_model::snapshot::{Machine, Measured};
use fathom_model::stack::{Node, NodeKind, Stack};
use fathom_model::workload::{Access, Job, WeightedSize};
use std::collections::{BTreeMap, BTreeSet};

/// Ranges of sizes with more steps than this are told by their ends alone.
const SIZES_OF_RANGE_MAX: u32 = 64;

/// The figures of one record of a run; none where it moved no data, went to several targets or to none, did not end as
/// planned, or was held back on purpose: such a rate says nothing about the storage.
#[must_use]
pub fn from_record(run: &str, record: &Record) -> Option<Measured> {
    let [target] = record.targets.as_slice() else { return None };
    if record.ending != Ending::Complete || record.workload.jobs.iter().any(is_held_back) {
        return None;
    }
    let top = target.stack.top_node()?;
    let study = verdict::judge(std::slice::from_ref(record));
    let requests: u64 = record.jobs.iter().map(|done| done.transfers().latency_ns.count()).sum();
    let bytes: u64 = record.jobs.iter().map(|done| done.transfers().bytes).sum();
    if requests == 0 || record.window_ns == 0 {
        return None;
    }
    let reads = merged(record, &[OpClass::Read]);
    let written = merged(record, &[OpClass::Write, OpClass::SyncedWrite]).1;
    let per_s = |bytes: u64| (bytes > 0).then(|| bytes as f64 / (record.window_ns as f64 / 1e9));
    Some(Measured {
        run: run.to_owned(),
        made_at_unix_s: record.started_unix_ns.div_euclid(1_000_000_000),
        target: top.key(),
        workload: workload_of(record),
        verdict: study.verdict.word().to_lowercase(),
        in_flight: record.jobs.iter().map(JobRecord::in_flight_max).sum(),
        request_bytes_mean: bytes as f64 / requests as f64,
        request_sizes: request_sizes(record),
        read_bytes_per_s: per_s(reads.1),
        write_bytes_per_s: per_s(written),
        read_latency_ns_p50: reads.0.quantile(0.5),
        read_latency_ns_mean: reads.0.mean(),
        random: record.workload.jobs.iter().all(|job| {
            matches!(
                job.access,
                Access::Random | Access::Shuffled | Access::Randomio | Access::Iozone
            )
        }),
        flushed: record.workload.jobs.iter().any(Job::syncs_after_writes),
        findings: study.findings.into_iter().map(|finding| finding.id).collect(),
    })
}

/// True when what was measured is what stands at `top` of this machine now: names such as `/srv` and `/dev/sda` are the
/// same on many machines, and stay when what they name is replaced. Every kind of name that both know must agree.
#[must_use]
pub fn is_of(stack: &Stack, machine: &Machine, top: usize) -> bool {
    let then = names(stack.walk());
    let now = names(machine.walk_from(top).into_iter().map(|index| &machine.nodes[index]));
    // One look may know less than the other, and an array may have lost a member.
    let agree = |kind: &str, names: &BTreeSet<&str>| {
        now.get(kind).is_none_or(|now| now.is_subset(names) || names.is_subset(now))
    };
    then.iter().all(|(kind, names)| agree(kind, names))
}

/// What names layers for good, by the kind of name.
fn names<'a>(
    nodes: impl IntoIterator<Item = &'a Node>,
) -> BTreeMap<&'static str, BTreeSet<&'a str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for node in nodes {
        let drive = node.drive.as_ref();
        let is_server = node.kind == NodeKind::Remote && node.devno.is_none();
        let all = [
            ("wwn", drive.and_then(|drive| drive.wwn.as_deref())),
            ("serial", drive.and_then(|drive| drive.serial.as_deref())),
            ("filesystem", node.fs.as_ref().and_then(|fs| fs.uuid.as_deref())),
            ("array", node.md.as_ref().and_then(|md| md.uuid.as_deref())),
            ("map", node.dm.as_ref().and_then(|dm| dm.uuid.as_deref())),
            ("partition", node.partition.as_ref().and_then(|part| part.uuid.as_deref())),
            ("file", node.loop_device.as_ref().and_then(|it| it.backing_file.as_deref())),
            ("server", is_server.then(|| node.label())),
        ];
        for (kind, name) in all {
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                found.entry(kind).or_default().insert(name);
            }
        }
    }
    found
}

/// True when a run's machine may be this one: disks of virtual machines often have no names of their own, and images share
/// their UUIDs.
#[must_use]
pub fn may_be_same_host(then: &HostFacts, now: &HostFacts) -> bool {
    let words = [(&then.cpu_model, &now.cpu_model), (&then.machine, &now.machine)];
    let both = |(then, now): (&Option<String>, &Option<String>)| {
        then.as_ref().zip(now.as_ref()).map(|(then, now)| then == now)
    };
    // A kernel keeps a little more or less for itself than another.
    let memory = then.memory_total_bytes.zip(now.memory_total_bytes);
    let memory = memory.map(|(then, now)| then.abs_diff(now) <= then.max(now) / 8);
    let known = words.into_iter().map(both).chain([memory]).flatten().collect::<Vec<bool>>();
    !known.is_empty() && !known.contains(&false)
}

/// True for a job that does not ask for as much as it gets.
fn is_held_back(job: &Job) -> bool {
    let capped = job.rate.is_some() || job.cap_iops.is_some() || job.cap_bytes.is_some();
    capped || job.think_time_ns > 0 || !job.cgroup_max.is_empty()
}

/// The workload's name. The rows of `fathom quick` are told by their labels, because they share one.
fn workload_of(record: &Record) -> String {
    let name = &record.workload.name;
    if name == "quick" { format!("{name}, {}", record.label) } else { name.clone() }
}

/// Latencies and bytes of some classes over all jobs.
fn merged(record: &Record, classes: &[OpClass]) -> (fathom_stats::Histogram, u64) {
    let mut sum = (fathom_stats::Histogram::new(), 0);
    for part in record.jobs.iter().map(|done| done.merged(classes)) {
        sum.0.merge(&part.latency_ns);
        sum.1 += part.bytes;
    }
    sum
}

/// Sizes of requests with their shares, as the jobs chose them: each job counts by the requests that it ended.
fn request_sizes(record: &Record) -> Vec<(u64, f64)> {
    let mut shares: BTreeMap<u64, f64> = BTreeMap::new();
    for (job, done) in record.workload.jobs.iter().zip(&record.jobs) {
        let ended = done.transfers().latency_ns.count() as f64;
        let sum: f64 = job.block_size.iter().map(|size| size.weight).sum();
        for size in job.block_size.iter().filter(|_| sum > 0.0) {
            let sizes = sizes_of(size);
            let share = ended * size.weight / sum / sizes.len() as f64;
            sizes.iter().for_each(|bytes| *shares.entry(*bytes).or_default() += share);
        }
    }
    let all: f64 = shares.values().sum();
    let shares = shares.into_iter().filter(|_| all > 0.0);
    shares.map(|(bytes, share)| (bytes, share / all)).collect()
}

/// The sizes that one entry stands for: a range has the multiples of its smallest.
fn sizes_of(size: &WeightedSize) -> Vec<u64> {
    let smallest = u64::from(size.size_bytes);
    let Some(largest) = size.up_to_bytes.map(u64::from).filter(|largest| *largest > smallest)
    else {
        return vec![smallest];
    };
    let steps = largest / smallest.max(1);
    if steps > u64::from(SIZES_OF_RANGE_MAX) {
        return vec![smallest, largest];
    }
    (1..=steps).map(|step| smallest * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::finding::{Finding, Severity};
    use fathom_model::stack::{DriveFacts, FsFacts, MdFacts};

    #[test]
    fn figures_of_random_reads() {
        let mut record = fixtures::record();
        record.started_unix_ns = 1_795_316_400_900_000_000;
        record.findings.push(Finding::new("md-busy", Severity::Doubtful, "md0 is busy"));
        let measured = from_record("0123456789ab", &record).expect("figures");
        assert_eq!(
            (measured.run.as_str(), measured.made_at_unix_s),
            ("0123456789ab", 1_795_316_400)
        );
        assert_eq!((measured.target.as_str(), measured.workload.as_str()), ("/srv", "randread"));
        assert_eq!((measured.in_flight, measured.request_bytes_mean), (5, 4096.0));
        assert_eq!(measured.read_bytes_per_s, Some(4_096_000.0));
        assert_eq!(measured.write_bytes_per_s, None);
        // Buckets of the histogram are 1.6 % wide.
        let p50 = measured.read_latency_ns_p50.expect("reads");
        assert!((4_900_000..=5_100_000).contains(&p50), "{p50}");
        assert_eq!(measured.read_latency_ns_mean, Some(5_000_000.0));
        assert!(measured.random);
        assert_eq!(measured.request_sizes, [(4096, 1.0)]);
        assert_eq!(measured.verdict, "doubtful");
        assert!(measured.findings.contains(&"md-busy".to_owned()));
    }

    #[test]
    fn rows_of_quick_are_told_apart() {
        let mut record = fixtures::record();
        record.workload.name = "quick".into();
        let measured = from_record("r", &record).expect("figures");
        assert_eq!(measured.workload, "quick, random read");
    }

    #[test]
    fn writes_in_sequence_have_no_read_latency() {
        let mut record = fixtures::record();
        record.workload.jobs[0].access = Access::Sequential;
        record.workload.jobs[0].write_fraction = 1.0;
        record.jobs[0].classes[0].class = OpClass::Write;
        let measured = from_record("r", &record).expect("figures");
        assert_eq!(
            (measured.read_bytes_per_s, measured.write_bytes_per_s),
            (None, Some(4_096_000.0))
        );
        assert_eq!((measured.read_latency_ns_p50, measured.read_latency_ns_mean), (None, None));
        assert!(!measured.random && !measured.flushed);
        record.workload.jobs[0].sync_all_every = Some(1);
        assert!(from_record("r", &record).expect("figures").flushed);
    }

    #[test]
    fn sizes_are_told_with_their_shares() {
        let mut record = fixtures::record();
        let size =
            |size_bytes, up_to_bytes, weight| WeightedSize { size_bytes, up_to_bytes, weight };
        record.workload.jobs[0].block_size =
            vec![size(4096, None, 3.0), size(8192, Some(32_768), 1.0)];
        let sizes = from_record("r", &record).expect("figures").request_sizes;
        assert_eq!(
            sizes,
            [(4096, 0.75), (8192, 0.0625), (16_384, 0.0625), (24_576, 0.0625), (32_768, 0.0625)]
        );
        assert_eq!(sizes_of(&size(512, Some(1 << 20), 1.0)), [512, 1 << 20]);
    }

    #[test]
    fn nothing_is_said_of_what_was_held_back_or_broken_off() {
        let changes: [fn(&mut Record); 4] = [
            |record| record.ending = Ending::Interrupted,
            |record| record.workload.jobs[0].rate = Some(100.0),
            |record| record.workload.jobs[0].cap_bytes = Some(1 << 20),
            |record| record.workload.jobs[0].think_time_ns = 1,
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut record = fixtures::record();
            change(&mut record);
            assert_eq!(from_record("r", &record), None, "change {number}");
        }
    }

    #[test]
    fn nothing_is_said_of_several_targets_or_without_data() {
        let mut record = fixtures::record();
        record.targets.push(record.targets[0].clone());
        assert_eq!(from_record("r", &record), None);
        record.targets.truncate(1);
        record.jobs[0].classes.clear();
        assert_eq!(from_record("r", &record), None);
    }

    /// `/srv` on the array of these drives.
    fn srv(fs: Option<&str>, array: Option<&str>, serials: &[Option<&str>]) -> Machine {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let mut mount = Node::new(NodeKind::Mount, "/srv");
        mount.below = vec![1];
        let mut filesystem = Node::new(NodeKind::FileSystem, "xfs");
        filesystem.fs = Some(FsFacts { uuid: text(fs), ..FsFacts::default() });
        filesystem.below = vec![2];
        let mut md = Node::new(NodeKind::Md, "md0");
        md.md = Some(MdFacts { uuid: text(array), ..MdFacts::default() });
        md.below = (3..3 + serials.len()).collect();
        let mut nodes = vec![mount, filesystem, md];
        nodes.extend(serials.iter().map(|&serial| {
            let mut disk = Node::new(NodeKind::Disk, "sda");
            disk.drive = Some(DriveFacts { serial: text(serial), ..DriveFacts::default() });
            disk
        }));
        Machine { nodes, tops: vec![0] }
    }

    #[test]
    fn what_has_the_same_path_is_not_always_the_same() {
        let then = srv(Some("F"), Some("A"), &[Some("S1"), Some("S2")]);
        let stack = Stack {
            path: "/srv".into(),
            resolved_path: "/srv".into(),
            nodes: then.nodes.clone(),
            top: 0,
        };
        for (machine, expected) in [
            (then, true),
            // Another filesystem, another array, another drive.
            (srv(Some("G"), Some("A"), &[Some("S1"), Some("S2")]), false),
            (srv(Some("F"), Some("B"), &[Some("S1"), Some("S2")]), false),
            (srv(Some("F"), Some("A"), &[Some("S1"), Some("S3")]), false),
            // A member is gone; who may not read serial numbers still knows the UUID.
            (srv(Some("F"), Some("A"), &[Some("S1")]), true),
            (srv(Some("F"), None, &[None, None]), true),
            (srv(Some("G"), None, &[None, None]), false),
            (srv(None, None, &[]), true),
        ] {
            assert_eq!(is_of(&stack, &machine, 0), expected, "{machine:?}");
        }
    }

    #[test]
    fn machines_are_told_apart_by_what_they_are() {
        let host = |cpu: Option<&str>, gib: Option<u64>| HostFacts {
            cpu_model: cpu.map(str::to_owned),
            memory_total_bytes: gib.map(|gib| gib << 30),
            ..HostFacts::default()
        };
        let this = host(Some("A"), Some(64));
        assert!(may_be_same_host(&host(Some("A"), Some(63)), &this));
        assert!(may_be_same_host(&host(None, Some(64)), &this));
        assert!(!may_be_same_host(&host(Some("A"), Some(32)), &this));
        assert!(!may_be_same_host(&host(Some("B"), Some(64)), &this));
        assert!(!may_be_same_host(&HostFacts::default(), &this), "nothing speaks for it");
    }
}
