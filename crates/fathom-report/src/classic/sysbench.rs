//! The report of sysbench 0.4 fileio: counts, sizes, the 95th percentile and the fairness lines.

use super::{merged, transferred_bytes, transfers};
use fathom_model::record::{ClassRecord, OpClass, Record};
use std::fmt::Write;

const READS: [OpClass; 1] = [OpClass::Read];
const WRITES: [OpClass; 2] = [OpClass::Write, OpClass::SyncedWrite];

pub(super) fn report(record: &Record) -> String {
    let side = |classes: &[OpClass]| {
        let sums: Vec<ClassRecord> = record.jobs.iter().map(|job| job.merged(classes)).collect();
        let count: u64 = sums.iter().map(|sum| sum.latency_ns.count()).sum();
        (count, sums.iter().map(|sum| sum.bytes).sum::<u64>())
    };
    let ((reads, read_bytes), (writes, written_bytes)) = (side(&READS), side(&WRITES));
    let other = merged(record, &[OpClass::Sync]).count();
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let total_bytes = transferred_bytes(record);
    let mut out = mode(record).map_or_else(String::new, |mode| format!("Doing {mode} test\n\n"));
    let _ = writeln!(
        out,
        "Operations performed:  {reads} Read, {writes} Write, {other} Other = {} Total",
        reads + writes + other
    );
    let _ = writeln!(
        out,
        "Read {}  Written {}  Total transferred {}  ({}/sec)",
        size(read_bytes as f64),
        size(written_bytes as f64),
        size(total_bytes as f64),
        size(total_bytes as f64 / seconds)
    );
    let _ = writeln!(out, "{:8.2} Requests/sec executed\n", (reads + writes) as f64 / seconds);
    out += &summary(record, seconds);
    out += &fairness(record);
    out
}

/// The tool's words for its modes.
fn mode(record: &Record) -> Option<&'static str> {
    Some(match super::phase(record)? {
        "seqwr" => "sequential write (creation)",
        "seqrewr" => "sequential rewrite",
        "seqrd" => "sequential read",
        "rndrd" => "random read",
        "rndwr" => "random write",
        "rndrw" => "random r/w",
        _ => return None,
    })
}

fn summary(record: &Record, seconds: f64) -> String {
    let latency_ns = transfers(record).latency_ns;
    let ms = |ns: Option<f64>| ns.unwrap_or(0.0) / 1e6;
    let exact = |ns: Option<u64>| ms(ns.map(|ns| ns as f64));
    format!(
        "Test execution summary:
    total time:                          {seconds:.4}s
    total number of events:              {}
    total time taken by event execution: {:.4}
    per-request statistics:
         min:                            {:10.2}ms
         avg:                            {:10.2}ms
         max:                            {:10.2}ms
         approx.  95 percentile:         {:10.2}ms

",
        latency_ns.count(),
        latency_ns.sum() as f64 / 1e9,
        exact(latency_ns.min()),
        ms(latency_ns.mean()),
        exact(latency_ns.max()),
        exact(latency_ns.quantile(0.95)),
    )
}

/// How evenly threads were served: the reads and writes of each, and the time that these took.
fn fairness(record: &Record) -> String {
    let jobs = || record.jobs.iter();
    let events: Vec<f64> = jobs().flat_map(|j| &j.thread_operations).map(|n| *n as f64).collect();
    let times = jobs().flat_map(|job| &job.thread_times);
    let seconds: Vec<f64> = times.map(|times| times.busy_ns as f64 / 1e9).collect();
    let (events, event_deviation) = mean_and_deviation(&events);
    let (seconds, time_deviation) = mean_and_deviation(&seconds);
    format!(
        "Threads fairness:
    events (avg/stddev):           {events:.4}/{event_deviation:.2}
    execution time (avg/stddev):   {seconds:.4}/{time_deviation:.2}
"
    )
}

/// Over all threads, not a sample of them: divided by their number.
fn mean_and_deviation(each: &[f64]) -> (f64, f64) {
    let n = each.len().max(1) as f64;
    let mean = each.iter().sum::<f64>() / n;
    (mean, (each.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt())
}

/// Five significant digits without trailing zeros, in units of 1024.
fn size(bytes: f64) -> String {
    let mut value = bytes;
    let mut unit = 0;
    const UNITS: [&str; 5] = ["b", "Kb", "Mb", "Gb", "Tb"];
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // Digits before the point leave the rest of the five to those behind it.
    let before = if value < 1.0 { 1 } else { value.log10().floor() as usize + 1 };
    let text = format!("{value:.*}", 5usize.saturating_sub(before));
    let short = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{short}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;
    use fathom_model::record::ThreadTimes;

    const BLOCK: u64 = 16 << 10;

    /// Counts, sizes, rates and mean latency of the published runs come out as they were printed.
    #[test]
    fn published_runs_come_out_as_they_were_printed() {
        let table = include_str!("../../tests/data/sysbench_fileio.csv");
        let mut seen = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
            // The name of the set-up has commas in it and stands in quotes.
            let rest = line.rsplit_once('"').map_or(line, |(_, rest)| rest);
            let f: Vec<&str> = rest.split(',').skip(2).collect();
            let number = |i: usize| f[i].parse::<u64>().expect("a number");
            let (reads, writes, other) = (number(0), number(1), number(2));
            let sized = |i: usize, unit: &str| format!("{}{unit}", f[i]);
            let (read, written) = (sized(4, "Mb"), sized(5, "Mb"));
            let total = sized(6, f[7]);
            assert_eq!(other, 128 * ((reads + writes) / 100), "every hundredth request");
            assert_eq!(size((reads * BLOCK) as f64), read);
            assert_eq!(size((writes * BLOCK) as f64), written);
            assert_eq!(size(((reads + writes) * BLOCK) as f64), total);
            let mut record = run(reads, writes, other);
            let seconds: f64 = f[14].parse().unwrap_or(300.01);
            record.window_ns = (seconds * 1e9) as u64;
            let text = report(&record);
            let performed = format!(
                "Operations performed:  {reads} Read, {writes} Write, {other} Other = {} Total\nRead {read}  Written {written}  Total transferred {total}  (",
                f[3]
            );
            assert!(text.contains(&performed), "{text}");
            if !f[14].is_empty() {
                for part in [
                    format!("({}Mb/sec)\n{:>8} Requests/sec executed\n", f[8], f[9]),
                    format!("total time:                          {}s\n", f[14]),
                    format!("total number of events:              {}\n", f[15]),
                ] {
                    assert!(text.contains(&part), "{part} in {text}");
                }
            }
            seen += 1;
        }
        assert_eq!(seen, 4);
    }

    fn run(reads: u64, writes: u64, other: u64) -> Record {
        let classes = vec![
            sample::class(OpClass::Read, reads, 8_000_000, BLOCK),
            sample::class(OpClass::Write, writes, 1_000_000, BLOCK),
            sample::class(OpClass::Sync, other, 10_000, 0),
        ];
        let mut record = sample::record("sysbench-fileio", "x", classes);
        record.jobs[0].thread_operations = vec![reads + writes];
        record
    }

    #[test]
    fn the_whole_report() {
        let mut record = run(6, 4, 128);
        record.jobs[0].engine.threads = 2;
        record.jobs[0].thread_operations = vec![6, 4];
        let times = |busy_ns| ThreadTimes { bytes: 0, busy_ns, window_ns: 2_500_000_000 };
        record.jobs[0].thread_times = [1_700_000_000, 2_200_000_000].map(times).into();
        record.window_ns = 2_500_000_000;
        expect![[r#"
            Doing sequential write (creation) test

            Operations performed:  6 Read, 4 Write, 128 Other = 138 Total
            Read 96Kb  Written 64Kb  Total transferred 160Kb  (64Kb/sec)
                4.00 Requests/sec executed

            Test execution summary:
                total time:                          2.5000s
                total number of events:              10
                total time taken by event execution: 0.2658
                per-request statistics:
                     min:                                  0.50ms
                     avg:                                 26.58ms
                     max:                                194.06ms
                     approx.  95 percentile:             194.06ms

            Threads fairness:
                events (avg/stddev):           5.0000/1.00
                execution time (avg/stddev):   1.9500/0.25
        "#]]
        .assert_eq(&report(&record));
    }

    #[test]
    fn each_phase_says_its_mode() {
        let whole = run(6, 4, 0);
        let first_lines = whole.workload.phases().into_iter().map(|phase| {
            let of_one = Record { workload: whole.workload.of_phase(phase), ..whole.clone() };
            report(&of_one).lines().next().unwrap_or_default().to_owned()
        });
        let expected = [
            "sequential write (creation)",
            "sequential rewrite",
            "sequential read",
            "random read",
            "random write",
            "random r/w",
        ];
        let expected: Vec<String> = expected.map(|mode| format!("Doing {mode} test")).into();
        assert_eq!(first_lines.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn sizes_have_five_digits() {
        for (bytes, text) in [
            (0.0, "0b"),
            (1023.0, "1023b"),
            (1024.0, "1Kb"),
            (8.0 * 1073741824.0, "8Gb"),
            (846.7969 * 1048576.0, "846.8Mb"),
            (1.0711 * 1073741824.0, "1.0711Gb"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
