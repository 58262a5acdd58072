//! The figures of a record in the well-known forms of classic tools, so that they can be put beside old results.
//!
//! The forms are theirs, the measurement is ours: latencies come from exact sums, times from the real length of the
//! window, and a last sync lies inside it.

mod bonnie;
mod dd;
mod fsopbench;
mod hdparm;
mod iozone;
mod randomio;
mod sdd;
mod sysbench;
mod tiobench;

pub use randomio::Rows;

use crate::figures::rate_window_ns;
use fathom_model::record::{ClassRecord, OpClass, Record};
use fathom_model::workload::{Classic, Job};
use fathom_stats::Histogram;

/// The records in the form that their workload asks for; none when it has none. Tools that run several phases get one
/// table for the phases of each repeat. Where they were done directly as well as through the page cache, each says how.
/// randomio's has one row for the whole window, see [`randomio`] for one per
/// interval.
#[must_use]
pub fn classic(records: &[Record]) -> Option<String> {
    if records.iter().any(|record| record.fsop.is_some()) {
        let each = records.iter().filter_map(|r| Some(fsopbench::table(r, r.fsop.as_deref()?)));
        return Some(each.collect::<Vec<_>>().join("\n"));
    }
    let groups = repeats(records);
    let is_direct = |of_one: &Vec<&Record>| {
        of_one.iter().any(|record| record.workload.jobs.iter().any(|job| job.direct))
    };
    let are_both = groups.iter().any(is_direct) && !groups.iter().all(is_direct);
    let tables = groups.iter().map(|of_one| {
        let how = match (are_both, is_direct(of_one)) {
            (false, _) => "",
            (true, true) => "direct:\n",
            (true, false) => "buffered:\n",
        };
        table(of_one).map(|table| format!("{how}{table}"))
    });
    tables.collect::<Option<Vec<_>>>().map(|tables| tables.join("\n"))
}

fn table(records: &[&Record]) -> Option<String> {
    let each = |form: fn(&Record) -> String| records.iter().map(|record| form(record)).collect();
    Some(match records.first()?.workload.classic? {
        Classic::Randomio => each(|record| randomio(record, Rows::Window)),
        Classic::Seeker => each(seeker),
        Classic::Sdd => each(sdd),
        Classic::Dd => each(dd),
        Classic::SysbenchFileio => {
            let reports: Vec<String> =
                records.iter().map(|record| sysbench::report(record)).collect();
            reports.join("\n")
        }
        Classic::Iozone => iozone::rows(records),
        Classic::Tiobench => tiobench::tables(records),
        Classic::Bonnie => bonnie::table(records),
        Classic::Hdparm => hdparm::lines(records),
    })
}

/// Records that belong together: the phases of one workload until one comes again.
fn repeats(records: &[Record]) -> Vec<Vec<&Record>> {
    let mut groups: Vec<Vec<&Record>> = Vec::new();
    for record in records {
        let goes_on = |group: &&mut Vec<&Record>| {
            let known = group.iter().any(|other| phase(other) == phase(record));
            let same = group.iter().all(|other| other.workload.name == record.workload.name);
            phase(record).is_some() && same && !known
        };
        match groups.last_mut().filter(goes_on) {
            Some(group) => group.push(record),
            None => groups.push(vec![record]),
        }
    }
    groups
}

/// The phase that a record is of.
fn phase(record: &Record) -> Option<&str> {
    record.workload.jobs.first()?.phase.as_deref()
}

/// True when the record is of this phase and something ended in it.
fn reached(record: &Record, name: &str) -> bool {
    phase(record) == Some(name) && !transfers(record).latency_ns.is_empty()
}

/// randomio's table. A write's latency includes the sync that follows it.
#[must_use]
pub fn randomio(record: &Record, rows: Rows) -> String {
    randomio::table(record, rows)
}

/// seeker's result: seeks per second and access time, over the time that really passed. With several threads the access
/// time is that of a thread, because the original's (time by seeks) would be the fraction of one.
#[must_use]
pub fn seeker(record: &Record) -> String {
    let seeks = merged(record, &[OpClass::Read]).count();
    if seeks == 0 || record.window_ns == 0 {
        return "Results: no seek ended in the measured time\n".to_owned();
    }
    let seconds = record.window_ns as f64 / 1e9;
    let in_flight: u64 = record.jobs.iter().map(|job| job.in_flight_max()).sum();
    let together = if in_flight > 1 { format!(" ({in_flight} at a time)") } else { String::new() };
    format!(
        "Results: {} seeks/second{together}, {:.2} ms random access time\n",
        (seeks as f64 / seconds) as u64,
        seconds * 1e3 * in_flight.max(1) as f64 / seeks as f64
    )
}

/// The three lines of GNU dd.
#[must_use]
pub fn dd(record: &Record) -> String {
    dd::lines(record)
}

/// The three lines that sdd prints with `-t`.
#[must_use]
pub fn sdd(record: &Record) -> String {
    sdd::lines(record)
}

/// The records of tools that copy block by block.
struct Blocks {
    whole: u64,
    partial: u64,
    partial_bytes: u64,
}

/// Counts them for a workload with one block size.
fn blocks(record: &Record) -> Blocks {
    let bytes = transferred_bytes(record);
    let requests: u64 = record.jobs.iter().map(|job| job.transfers().latency_ns.count()).sum();
    let block = record.workload.jobs.first().map_or(0, |job| u64::from(job.block_size_bytes_max()));
    // Records of more than the kernel moves at once are all partial; of several sizes none is the whole one.
    let is_odd = |job: &Job| {
        let is_range = job.block_size.iter().any(|size| size.up_to_bytes.is_some());
        job.record_size_bytes.is_some() || job.block_size.len() > 1 || is_range
    };
    if record.workload.jobs.iter().any(is_odd) {
        return Blocks { whole: 0, partial: requests, partial_bytes: bytes };
    }
    // Every pass over a file ends with the same partial block.
    let missing = requests.saturating_mul(block).saturating_sub(bytes);
    let size_bytes = record.targets.first().map_or(0, |target| target.size_bytes);
    let each = block - size_bytes.checked_rem(block).unwrap_or(0);
    let partial = match missing {
        0 => 0,
        _ if missing.is_multiple_of(each) => missing / each,
        _ => missing.div_ceil(block),
    };
    let partial = partial.min(requests);
    let whole = requests - partial;
    Blocks { whole, partial, partial_bytes: bytes.saturating_sub(whole * block) }
}

/// In the place of a rate.
const NO_RATE: &str = "no rate: all of it began in the warm-up";

/// False when no job's window holds a whole request.
fn has_rate(record: &Record) -> bool {
    record.jobs.is_empty() || record.jobs.iter().any(|job| rate_window_ns(job) > 0)
}

fn transferred_bytes(record: &Record) -> u64 {
    record.jobs.iter().map(|job| job.transfers().bytes).sum()
}

/// All reads and writes of all jobs.
fn transfers(record: &Record) -> ClassRecord {
    let mut all = ClassRecord { class: OpClass::Read, latency_ns: Histogram::new(), bytes: 0 };
    for job in &record.jobs {
        let own = job.transfers();
        all.latency_ns.merge(&own.latency_ns);
        all.bytes += own.bytes;
    }
    all
}

fn merged(record: &Record, classes: &[OpClass]) -> Histogram {
    let mut all = Histogram::new();
    for job in &record.jobs {
        all.merge(&job.merged(classes).latency_ns);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{class, interrupted, quick, record};

    #[test]
    fn seeker_over_the_real_time() {
        let mut seeks = interrupted();
        assert_eq!(seeker(&seeks), "Results: 4 seeks/second, 222.22 ms random access time\n");
        assert_eq!(classic(&[seeks.clone()]), Some(seeker(&seeks)));
        // 30 s nominal, 2550 seeks: the tool's own arithmetic, count / 30 and 30000 / count.
        seeks.jobs[0].classes = vec![class(OpClass::Read, 2550, 11_000_000, 4096)];
        seeks.window_ns = 30_000_000_000;
        assert_eq!(seeker(&seeks), "Results: 85 seeks/second, 11.76 ms random access time\n");
        seeks.jobs[0].engine.threads = 32;
        assert_eq!(
            seeker(&seeks),
            "Results: 85 seeks/second (32 at a time), 376.47 ms random access time\n"
        );
        seeks.jobs[0].classes.clear();
        assert_eq!(seeker(&seeks), "Results: no seek ended in the measured time\n");
    }

    #[test]
    fn direct_and_buffered_ones_say_which_they_are() {
        let direct = record("seeker", "x, direct", vec![class(OpClass::Read, 60, 1_000, 4096)]);
        let mut buffered = direct.clone();
        buffered.workload.jobs[0].direct = false;
        buffered.window_ns /= 2;
        let lines = |records: &[Record]| {
            let text = classic(records).unwrap_or_default();
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let [one, two] = [&direct, &buffered].map(|of| seeker(of).trim_end().to_owned());
        assert_ne!(one, two);
        let records = [direct, buffered];
        assert_eq!(lines(&records), ["direct:", &one, "buffered:", &two]);
        assert_eq!(lines(&records[1..]), [two]);
    }

    #[test]
    fn phases_belong_together_until_one_comes_again() {
        let of = |phase: &str| {
            let mut record = record("hdparm", phase, Vec::new());
            record.workload = record.workload.of_phase(phase);
            record
        };
        let seeker = record("seeker", "x", Vec::new());
        let runs = [of("cached"), of("device"), of("cached"), of("device"), seeker.clone(), seeker];
        let sizes: Vec<usize> = repeats(&runs).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1, 1]);
        assert_eq!(classic(&runs[..4]).map(|text| text.matches("/f0:\n").count()), Some(2));
    }

    #[test]
    fn workloads_without_a_classic_form_have_none() {
        assert_eq!(classic(&quick()[2..3]), None);
    }
}
