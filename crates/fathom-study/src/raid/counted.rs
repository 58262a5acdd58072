//! What the members counted for each request, against what the array's map and the rules of md ask for.

use super::{Pattern, Row, State};
use fathom_check::array_map::{ArrayMap, demand};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{DeviceDelta, OpClass, Record};
use fathom_model::stack::{MdFacts, Node};
use fathom_stats::interval::median;
use serde::Serialize;

/// More than that above what is expected is found: superblocks and bitmaps cost a little.
const EXCESS_MAX: f64 = 0.25;
/// Larger requests may be cut on their way to the members, by the limits of their queues.
const WHOLE_BYTES_MAX: u64 = 64 << 10;
/// Fewer requests say nothing about the mean.
const REQUESTS_MIN: u64 = 100;

/// Members' requests and bytes for one request of the load, medians over trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Counted {
    /// Read requests of members for each request.
    pub reads: f64,
    /// Write requests of members for each request.
    pub writes: f64,
    /// Bytes read from members by bytes of the load: also over the link.
    pub read_bytes: f64,
    /// Bytes written to members by bytes of the load.
    pub written_bytes: f64,
    /// Read requests expected, none of them merged; none where nothing is foretold (rebuilding, sequential writing).
    pub reads_expected: Option<f64>,
    /// Bytes read expected.
    pub read_bytes_expected: Option<f64>,
    /// Bytes written expected.
    pub written_bytes_expected: Option<f64>,
}

/// The array of a record's stack with its members' counters.
pub(super) struct Members<'r> {
    /// What is known of the array.
    pub md: &'r MdFacts,
    /// Counters of the members.
    pub deltas: Vec<&'r DeviceDelta>,
    /// Bytes of data on each member.
    pub member_bytes: Option<u64>,
}

/// The array below a record's target.
pub(super) fn members(record: &Record) -> Option<Members<'_>> {
    let stack = &record.targets.first()?.stack;
    let node: &Node = stack.walk().into_iter().find(|node| node.md.is_some())?;
    let md = node.md.as_ref()?;
    let is_member = |name: &str| md.members.iter().any(|member| member.name == name);
    let deltas: Vec<&DeviceDelta> = record.devices.iter().filter(|d| is_member(&d.name)).collect();
    let disks = md.raid_disks?;
    let per_disk = |bytes: u64| {
        // Data of the array by what it keeps of each member.
        let probe = ArrayMap::of_md(md, 1 << 40)?;
        let share = (probe.sectors() as f64 * 512.0) / (1u64 << 40) as f64;
        Some((bytes as f64 / share) as u64)
    };
    let member_bytes = node.size_bytes.and_then(per_disk).filter(|_| disks > 0);
    (!deltas.is_empty()).then_some(Members { md, deltas, member_bytes })
}

impl Counted {
    /// The reads expected, when members did clearly more of them.
    #[must_use]
    pub fn too_many_reads(&self) -> Option<f64> {
        let expected = self.reads_expected?;
        (self.reads > expected * (1.0 + EXCESS_MAX) + 0.1).then_some(expected)
    }
}

struct One {
    reads: f64,
    writes: f64,
    read_bytes: f64,
    written_bytes: f64,
}

fn one(record: &Record) -> Option<One> {
    let Members { deltas, .. } = members(record)?;
    let (count, bytes) = record.jobs.iter().fold((0, 0), |(count, bytes), job| {
        let all = job.transfers();
        (count + all.latency_ns.count(), bytes + all.bytes)
    });
    if count < REQUESTS_MIN || bytes == 0 {
        return None;
    }
    let sum = |of: &dyn Fn(&DeviceDelta) -> u64| deltas.iter().map(|d| of(d)).sum::<u64>() as f64;
    Some(One {
        reads: sum(&|d| d.reads) / count as f64,
        writes: sum(&|d| d.writes) / count as f64,
        read_bytes: sum(&|d| d.read_bytes) / bytes as f64,
        written_bytes: sum(&|d| d.written_bytes) / bytes as f64,
    })
}

/// Over the trials of one pattern in one state.
pub(crate) fn of(records: &[&Record], state: State) -> Option<Counted> {
    let all: Vec<One> = records.iter().filter_map(|record| one(record)).collect();
    let middle = |of: &dyn Fn(&One) -> f64| median(&all.iter().map(of).collect::<Vec<_>>()).ok();
    let expected = records.first().and_then(|record| expected(record, state));
    Some(Counted {
        reads: middle(&|one| one.reads)?,
        writes: middle(&|one| one.writes)?,
        read_bytes: middle(&|one| one.read_bytes)?,
        written_bytes: middle(&|one| one.written_bytes)?,
        reads_expected: expected.and_then(|expected| expected.0),
        read_bytes_expected: expected.map(|expected| expected.1),
        written_bytes_expected: expected.map(|expected| expected.2),
    })
}

/// Requests read, bytes read and bytes written by bytes of the load.
fn expected(record: &Record, state: State) -> Option<(Option<f64>, f64, f64)> {
    let Members { md, member_bytes, .. } = members(record)?;
    let map = ArrayMap::of_md(md, member_bytes?)?;
    let [job] = record.workload.jobs.as_slice() else { return None };
    let [size] = job.block_size.as_slice() else { return None };
    let done = record.jobs.first()?;
    let count = |class: OpClass| done.class(class).map_or(0, |c| c.latency_ns.count()) as f64;
    let (reads, writes) =
        (count(OpClass::Read), count(OpClass::Write) + count(OpClass::SyncedWrite));
    let share = writes / (reads + writes);
    let bytes = f64::from(size.size_bytes);
    let failed: &[u64] = match state {
        State::Normal => &[],
        // Which one is missing does not matter on average over where requests lie.
        State::Degraded if writes == 0.0 => &[0],
        _ => return None,
    };
    // How much of a stream reaches the array as whole rows depends on how it is cut and merged on the way.
    let is_stream = job.access != fathom_model::workload::Access::Random;
    if is_stream && writes > 0.0 {
        return None;
    }
    let read = demand::read(&map, u64::from(size.size_bytes), failed)?;
    let write = demand::write(&map, u64::from(size.size_bytes))?;
    let mixed = |of_read: f64, of_write: f64| (1.0 - share) * of_read + share * of_write;
    let reads = mixed(read.reads, write.reads);
    Some((
        (u64::from(size.size_bytes) <= WHOLE_BYTES_MAX).then_some(reads),
        mixed(read.read_bytes, write.read_bytes) / bytes,
        mixed(0.0, write.written_bytes) / bytes,
    ))
}

/// Arrays whose members did more than the map and the rules ask for.
pub(super) fn findings(rows: &[Row]) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for row in rows {
        for of in row.states.iter().filter(|of| of.state != State::Rebuilding) {
            for (pattern, counted) in Pattern::ALL.into_iter().zip(&of.counted) {
                let Some(counted) = counted else { continue };
                let Some(finding) = finding(row, of.state, pattern, counted) else { continue };
                match found.iter_mut().find(|known| known.id == finding.id) {
                    Some(known) => known.advice.insert(0, format!("also: {}", finding.summary)),
                    None => found.push(finding),
                }
            }
        }
    }
    found
}

fn finding(row: &Row, state: State, pattern: Pattern, counted: &Counted) -> Option<Finding> {
    let name = format!("{}, {}, {}", row.name(), state.word(), pattern.label());
    let beyond = |got: f64, expected: Option<f64>| {
        let expected = expected?;
        (got > expected * (1.0 + EXCESS_MAX) + 0.1).then_some(expected)
    };
    // Requests of a stream are merged and cut on the way; bytes are not.
    let is_random = matches!(pattern, Pattern::RandomRead | Pattern::RandomMix);
    if is_random && let Some(expected) = counted.too_many_reads() {
        let text = format!(
            "{name}: {:.2} reads of members for each request, where the array's map asks for {expected:.2}",
            counted.reads
        );
        return Some(
            Finding::new("too-many-member-reads", Severity::Doubtful, text)
                .advise("one small request wakes more disks than it must: is the load aligned to the array's blocks, and is nothing else reading?"),
        );
    }
    let read = beyond(counted.read_bytes, counted.read_bytes_expected)
        .map(|e| (counted.read_bytes, e, "read from"));
    let written = || {
        let expected = beyond(counted.written_bytes, counted.written_bytes_expected)?;
        Some((counted.written_bytes, expected, "written to"))
    };
    let (got, expected, what) = read.or_else(written)?;
    let text = format!(
        "{name}: {got:.2} bytes {what} members for each byte of the load, where the rules of md ask for {expected:.2}"
    );
    Some(
        Finding::new("too-much-member-traffic", Severity::Note, text)
            .advise("a bitmap, a superblock that is written often, or somebody else's load"),
    )
}
