//! tiotest's two tables: time, rate and CPU of each phase, then mean and longest latency and the shares above 2 s and
//! 10 s. MB are 2^20 bytes.

use super::{transferred_bytes, transfers};
use fathom_model::record::{CpuTime, Record};
use fathom_stats::Histogram;
use std::fmt::Write;

/// The phases in the order of the rows: the name of the phase, that of the row, and how wide the size is in the first
/// table.
const ROWS: [(&str, &str, usize); 4] = [
    ("write", "Write", 11),
    ("random write", "Random Write", 4),
    ("read", "Read", 12),
    ("random read", "Random Read", 5),
];

/// Latencies of interest.
const SLOW_NS: u64 = 2_000_000_000;
const VERY_SLOW_NS: u64 = 10_000_000_000;

pub(super) fn tables(records: &[&Record]) -> String {
    let threads = records.iter().flat_map(|r| &r.jobs).map(|job| job.engine.threads).max();
    let mut out = format!("Tiotest results for {} concurrent io threads:\n", threads.unwrap_or(0));
    out += ",----------------------------------------------------------------------.\n";
    out += "| Item                  | Time     | Rate         | Usr CPU  | Sys CPU |\n";
    out += "+-----------------------+----------+--------------+----------+---------+\n";
    let of = |phase: &str| records.iter().find(|record| super::reached(record, phase));
    for (phase, name, width) in ROWS {
        if let Some(record) = of(phase) {
            out += &amounts(record, name, width);
        }
    }
    out += "`----------------------------------------------------------------------'\n";
    out += "Tiotest latency results:\n";
    out += ",-------------------------------------------------------------------------.\n";
    out += "| Item         | Average latency | Maximum latency | % >2 sec | % >10 sec |\n";
    out += "+--------------+-----------------+-----------------+----------+-----------+\n";
    let mut total = Histogram::new();
    for (phase, name, _) in ROWS {
        if let Some(record) = of(phase) {
            let latency_ns = transfers(record).latency_ns;
            out += &latencies(name, &latency_ns);
            total.merge(&latency_ns);
        }
    }
    out += "|--------------+-----------------+-----------------+----------+-----------|\n";
    out += &latencies("Total", &total);
    out += "`--------------+-----------------+-----------------+----------+-----------'\n";
    out
}

fn amounts(record: &Record, name: &str, width: usize) -> String {
    let megabytes = transferred_bytes(record) as f64 / f64::from(1 << 20);
    let seconds = record.window_ns.max(1) as f64 / 1e9;
    let sum = record.jobs.iter().fold(CpuTime::default(), |sum, job| CpuTime {
        user_ns: sum.user_ns + job.cpu.user_ns,
        system_ns: sum.system_ns + job.cpu.system_ns,
    });
    let share = |ns: u64| ns as f64 / 1e7 / seconds;
    format!(
        "| {name} {megabytes:width$.0} MBs | {seconds:6.1} s | {:7.3} MB/s | {:5.1} %  | {:5.1} % |\n",
        megabytes / seconds,
        share(sum.user_ns),
        share(sum.system_ns)
    )
}

fn latencies(name: &str, latency_ns: &Histogram) -> String {
    let ms = |ns: f64| ns / 1e6;
    let above = |limit: u64| {
        latency_ns.count_above(limit) as f64 * 100.0 / latency_ns.count().max(1) as f64
    };
    let mut out = String::new();
    let _ = writeln!(
        out,
        "| {name:<12} | {:12.3} ms | {:12.3} ms | {:8.5} | {:9.5} |",
        ms(latency_ns.mean().unwrap_or(0.0)),
        ms(latency_ns.max().unwrap_or(0) as f64),
        above(SLOW_NS),
        above(VERY_SLOW_NS)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;
    use fathom_model::record::OpClass;

    fn phase(phase: &str, class: OpClass, blocks: u64, latency_ns: u64, window_ms: u64) -> Record {
        let mut ended = sample::class(class, 0, 1, 0);
        (0..blocks).for_each(|_| ended.latency_ns.record(latency_ns));
        ended.bytes = blocks * 4096;
        let mut record = sample::record("tiobench", phase, vec![ended]);
        record.workload = record.workload.of_phase(phase);
        record.jobs[0].engine.threads = 4;
        record.jobs[0].cpu = CpuTime { user_ns: window_ms * 4_000, system_ns: window_ms * 62_000 };
        record.window_ns = window_ms * 1_000_000;
        record
    }

    /// The amounts, times and rates of a published run (Linux 2.5.43, ext2, 4 threads) and its latencies.
    #[test]
    fn the_form_of_a_published_run() {
        let mut slow = phase("random write", OpClass::Write, 4000, 7_420_000, 19_500);
        for ms in [2_500, 3_000, 3_500, 12_000] {
            slow.jobs[0].classes[0].latency_ns.record(ms * 1_000_000);
        }
        let records = [
            phase("write", OpClass::Write, 10_240, 2_144_000, 8_900),
            slow,
            phase("read", OpClass::Read, 10_240, 2_526_000, 7_900),
            phase("random read", OpClass::Read, 4000, 35_709_000, 37_300),
        ];
        expect![[r#"
            Tiotest results for 4 concurrent io threads:
            ,----------------------------------------------------------------------.
            | Item                  | Time     | Rate         | Usr CPU  | Sys CPU |
            +-----------------------+----------+--------------+----------+---------+
            | Write          40 MBs |    8.9 s |   4.494 MB/s |   0.4 %  |   6.2 % |
            | Random Write   16 MBs |   19.5 s |   0.801 MB/s |   0.4 %  |   6.2 % |
            | Read           40 MBs |    7.9 s |   5.063 MB/s |   0.4 %  |   6.2 % |
            | Random Read    16 MBs |   37.3 s |   0.419 MB/s |   0.4 %  |   6.2 % |
            `----------------------------------------------------------------------'
            Tiotest latency results:
            ,-------------------------------------------------------------------------.
            | Item         | Average latency | Maximum latency | % >2 sec | % >10 sec |
            +--------------+-----------------+-----------------+----------+-----------+
            | Write        |        2.144 ms |        2.144 ms |  0.00000 |   0.00000 |
            | Random Write |       12.657 ms |    12000.000 ms |  0.09990 |   0.02498 |
            | Read         |        2.526 ms |        2.526 ms |  0.00000 |   0.00000 |
            | Random Read  |       35.709 ms |       35.709 ms |  0.00000 |   0.00000 |
            |--------------+-----------------+-----------------+----------+-----------|
            | Total        |        8.473 ms |    12000.000 ms |  0.01404 |   0.00351 |
            `--------------+-----------------+-----------------+----------+-----------'
        "#]]
        .assert_eq(&tables(&records.iter().collect::<Vec<_>>()));
    }
}
