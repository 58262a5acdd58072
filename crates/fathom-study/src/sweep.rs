//! Rows of a run that differ in nothing but the requests in flight: where throughput stops growing, and whether it was
//! the CPU that stopped it.

use crate::knee::{self, Point};
use crate::rules;
use fathom_base::shell;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{Ending, Record};
use fathom_model::workload::Job;
use std::ops::RangeInclusive;
use std::path::Path;

/// What a record is in a sweep: its requests in flight and its reads and writes per second.
#[must_use]
pub fn point(record: &Record) -> Point {
    let iops = |j: &fathom_model::record::JobRecord| {
        j.transfers().latency_ns.count() as f64 / (j.window_ns.max(1) as f64 / 1e9)
    };
    Point {
        concurrency: record.workload.jobs.iter().map(Job::concurrency).sum(),
        iops: record.jobs.iter().map(iops).sum(),
    }
}

/// The sweeps of a run: rows one after the other, of one job each, with rising numbers of requests in flight.
fn sweeps(records: &[Record]) -> Vec<RangeInclusive<usize>> {
    let mut found: Vec<RangeInclusive<usize>> = Vec::new();
    for (index, pair) in records.windows(2).enumerate() {
        if !continues(&pair[0], &pair[1]) {
            continue;
        }
        match found.last_mut() {
            Some(last) if *last.end() == index => *last = *last.start()..=index + 1,
            _ => found.push(index..=index + 1),
        }
    }
    found
}

fn continues(earlier: &Record, later: &Record) -> bool {
    let ([a], [b]) = (earlier.workload.jobs.as_slice(), later.workload.jobs.as_slice()) else {
        return false;
    };
    let as_one = |job: &Job| Job { threads: 1, depth: 1, duration_ns: None, ..job.clone() };
    later.ending == Ending::Complete && a.concurrency() < b.concurrency() && as_one(a) == as_one(b)
}

/// A finding about several rows at once, which stands for what the rules say about each of them.
#[derive(Debug, Clone, PartialEq)]
pub struct OfRows {
    /// Indexes of the records.
    pub rows: Vec<usize>,
    /// What they come to.
    pub finding: Finding,
}

/// For each sweep with rows in which a thread of fathom had no CPU time left ("generator-bound"): a note where
/// throughput had stopped growing before, because the figure that counts is the storage's; a doubt where the row that
/// counts is among them, because then nobody knows where the storage stops.
#[must_use]
pub fn cpu_bound(records: &[Record]) -> Vec<OfRows> {
    let one = |sweep: RangeInclusive<usize>| {
        let points: Vec<Point> = records[sweep.clone()].iter().map(point).collect();
        let knee_at = knee::knee(&points).map(|at| sweep.start() + at);
        let best = knee_at.unwrap_or(*sweep.end());
        let rows: Vec<usize> = (best..=*sweep.end())
            .filter(|row| rules::generator_bound(&records[*row]).is_some())
            .collect();
        let first = *rows.first()?;
        let finding = if first == best {
            best_is_bound(&records[best], knee_at.is_some())
        } else {
            bound_beyond(&records[best], &records[first])
        };
        Some(OfRows { rows, finding })
    };
    sweeps(records).into_iter().filter_map(one).collect()
}

fn bound_beyond(best: &Record, first: &Record) -> Finding {
    let text = format!(
        "from {} requests in flight on, the CPU and not the storage was the limit ({:.0} % of one CPU for the busiest \
         thread); throughput had stopped growing before, at {}",
        point(first).concurrency,
        busiest_percent(first),
        point(best).concurrency
    );
    Finding::new("generator-bound-beyond-knee", Severity::Note, text)
}

fn best_is_bound(best: &Record, has_knee: bool) -> Finding {
    let threads: u64 = best.jobs.iter().map(|j| u64::from(j.engine.threads)).sum();
    let where_to = if has_knee { "throughput stops growing here because of" } else { "limited by" };
    let text = format!(
        "{}: {where_to} the CPU, not the storage ({:.0} % of one CPU for the busiest thread): the storage can do more \
         than {} can ask for",
        best.label,
        busiest_percent(best),
        if threads == 1 { "one thread".to_owned() } else { format!("{threads} threads") }
    );
    let mut finding = Finding::new(rules::GENERATOR_BOUND, Severity::Doubtful, text);
    if let (Some(target), [job]) = (best.targets.first(), best.workload.jobs.as_slice()) {
        let sizes: Vec<String> =
            job.block_size.iter().map(|s| format!("{}:{}", s.size_bytes, s.weight)).collect();
        let size = match job.block_size.as_slice() {
            [one] => one.size_bytes.to_string(),
            _ => sizes.join(","),
        };
        finding = finding.advise(format!(
            "fathom run randread {} block_size={size} threads={} depth={}",
            shell::path(Path::new(&target.stack.path)),
            threads * 2,
            job.depth
        ));
    }
    rules::with_busy_machine(finding, best)
}

fn busiest_percent(record: &Record) -> f64 {
    let share = |j: &fathom_model::record::JobRecord| {
        j.busiest_thread_cpu_ns as f64 / j.window_ns.max(1) as f64
    };
    record.jobs.iter().map(share).fold(0.0, f64::max).min(1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use crate::verdict::judge;
    use fathom_model::finding::Verdict;

    /// An injected row of a sweep on a quiet disk: so many requests in flight, so many per second, so much of a CPU.
    fn row(depth: u32, iops: u64, cpu_share: f64) -> Record {
        let mut record = fixtures::record();
        record.label = format!("random read, {depth} in flight");
        record.workload.jobs[0].depth = depth;
        fixtures::reads(&mut record, iops, 1_000_000);
        record.jobs[0].window_ns = 1_000_000_000;
        record.jobs[0].busiest_thread_cpu_ns = (cpu_share * 1e9) as u64;
        record
    }

    fn of_id(records: &[Record], id: &str) -> Vec<Finding> {
        judge(records).findings.into_iter().filter(|f| f.id == id).collect()
    }

    #[test]
    fn injected_a_cpu_used_up_beyond_the_knee_is_a_note() {
        let rows = [
            row(1, 100, 0.1),
            row(4, 400, 0.4),
            row(8, 700, 0.85),
            row(16, 710, 0.95),
            row(32, 705, 1.0),
        ];
        assert_eq!(judge(&rows).verdict, Verdict::Trusted);
        let notes = of_id(&rows, "generator-bound-beyond-knee");
        let [note] = notes.as_slice() else { panic!("{notes:?}") };
        assert_eq!(note.severity, Severity::Note);
        assert!(
            note.summary.starts_with("from 16 requests in flight on, the CPU and not the storage")
        );
        assert!(
            note.summary.contains("(95 % of one CPU") && note.summary.ends_with("at 8"),
            "{note:?}"
        );
        assert_eq!(of_id(&rows, "generator-bound"), []);
    }

    #[test]
    fn injected_a_cpu_used_up_at_the_knee_is_a_doubt_with_a_cure() {
        let mut rows = [row(1, 100, 0.1), row(4, 400, 0.4), row(8, 700, 0.97), row(16, 710, 0.99)];
        let doubts = of_id(&rows, "generator-bound");
        let [doubt] = doubts.as_slice() else { panic!("{doubts:?}") };
        assert_eq!(judge(&rows).verdict, Verdict::Doubtful);
        assert!(
            doubt.summary.starts_with("random read, 8 in flight: throughput stops growing here")
        );
        assert!(doubt.summary.ends_with("the storage can do more than one thread can ask for"));
        assert_eq!(doubt.advice, ["fathom run randread /srv block_size=4096 threads=2 depth=8"]);
        assert_eq!(of_id(&rows, "generator-bound-beyond-knee"), []);
        // A command is copied into a shell.
        rows[2].targets[0].stack.path = "/srv/my data".into();
        let advice = &of_id(&rows, "generator-bound")[0].advice[0];
        assert!(advice.starts_with("fathom run randread '/srv/my data' block_size="), "{advice}");
        // Where no CPU is left there is no cure on this machine.
        rows[2].system_cpu.busy_share = 0.97;
        let doubt = of_id(&rows, "generator-bound").remove(0);
        assert!(doubt.advice[1].contains("all CPUs of this machine were busy"), "{doubt:?}");
    }

    #[test]
    fn injected_still_growing_but_out_of_cpu() {
        let rows = [row(1, 100, 0.1), row(4, 400, 0.4), row(8, 800, 0.97)];
        let doubt = of_id(&rows, "generator-bound").remove(0);
        assert!(doubt.summary.starts_with("random read, 8 in flight: limited by the CPU"));
    }

    #[test]
    fn injected_rows_before_the_knee_and_outside_a_sweep_are_judged_alone() {
        let early = [row(1, 100, 0.95), row(4, 400, 0.4), row(8, 410, 0.4), row(16, 410, 0.4)];
        let doubt = of_id(&early, "generator-bound").remove(0);
        assert!(doubt.summary.starts_with("random read, 1 in flight: the busiest thread"));
        // The same row again is no sweep, nor is another pattern with more in flight.
        let repeats = [row(8, 700, 0.5), row(8, 700, 0.97)];
        assert_eq!(judge(&repeats).verdict, Verdict::Doubtful);
        let mut mixed = row(16, 700, 0.97);
        mixed.label = "mixed".into();
        mixed.workload.jobs[0].write_fraction = 0.2;
        let rows = [row(4, 400, 0.4), row(8, 700, 0.5), mixed];
        assert!(of_id(&rows, "generator-bound")[0].summary.starts_with("mixed: "));
        assert_eq!(sweeps(&rows), [0..=1]);
    }

    #[test]
    fn rates_of_jobs_with_windows_of_their_own_are_added() {
        let mut record = row(4, 400, 0.1);
        let mut shorter = record.jobs[0].clone();
        shorter.window_ns = 500_000_000;
        record.jobs.push(shorter);
        assert_eq!(point(&record).iops, 400.0 + 800.0);
    }
}
