//! iozone's rows: the rates of all phases on one file, in records per second (`-O`) and in KB per second, and with
//! several threads (`-t`) a block of lines for each phase.

use super::{reached, transferred_bytes, transfers};
use fathom_model::record::{Record, ThreadTimes};
use fathom_model::workload::Access;
use std::fmt::Write;

/// The phases in the order of the columns: the name, the width of its column, and what `-t` calls its workers.
const COLUMNS: [(&str, usize, &str); 6] = [
    ("write", 8, "initial writers"),
    ("rewrite", 8, "rewriters"),
    ("read", 9, "readers"),
    ("reread", 9, "re-readers"),
    ("random read", 8, "random readers"),
    ("random write", 8, "random writers"),
];

const HEADER: &str = "                                                            random  random
              KB  reclen   write rewrite    read    reread    read   write
";

#[derive(Clone, Copy)]
enum Unit {
    Operations,
    Kilobytes,
}

pub(super) fn rows(records: &[&Record]) -> String {
    let threads = records.iter().flat_map(|r| &r.jobs).map(|j| j.engine.threads).max();
    if threads.unwrap_or(1) > 1 {
        return records.iter().filter_map(|record| throughput(record)).collect();
    }
    let mut out = String::from("        OPS Mode. Output is in operations per second.\n");
    out += HEADER;
    out += &row(records, Unit::Operations);
    out += "        Output is in Kbytes/sec\n";
    out += HEADER;
    out += &row(records, Unit::Kilobytes);
    out
}

/// File and record in KB, then one rate for each phase that ran; rates are cut, not rounded.
fn row(records: &[&Record], unit: Unit) -> String {
    let file_bytes = records.first().and_then(|r| r.targets.first()).map_or(0, |t| t.size_bytes);
    let record_bytes = records.first().map_or(0, |record| record_bytes(record));
    let mut line = format!("{:16}{:8}", file_bytes >> 10, record_bytes >> 10);
    for (phase, width, _) in COLUMNS {
        let rate = records.iter().find(|r| super::phase(r) == Some(phase)).map(|r| rate(r, unit));
        let text = rate.map_or_else(String::new, |rate| format!("{}", rate as u64));
        let _ = write!(line, "{text:>width$}");
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

fn record_bytes(record: &Record) -> u64 {
    record.workload.jobs.first().map_or(0, |job| u64::from(job.block_size_bytes_max()))
}

fn rate(record: &Record, unit: Unit) -> f64 {
    let amount = match unit {
        Unit::Operations => transfers(record).latency_ns.count() as f64,
        Unit::Kilobytes => transferred_bytes(record) as f64 / 1024.0,
    };
    amount / (record.window_ns.max(1) as f64 / 1e9)
}

/// The lines of `-t` in KB per second. What the children see is the sum of their rates, each over its own time, and what
/// the parent sees is all of it over the time of the phase, which is that of the slowest child.
fn throughput(record: &Record) -> Option<String> {
    let (_, _, workers) = COLUMNS.into_iter().find(|(phase, ..)| reached(record, phase))?;
    let each: Vec<ThreadTimes> = record.jobs.iter().flat_map(|j| j.thread_times.clone()).collect();
    let kilobytes = |thread: &ThreadTimes| thread.bytes as f64 / 1024.0;
    let per_second =
        |thread: &ThreadTimes| kilobytes(thread) / (thread.window_ns.max(1) as f64 / 1e9);
    let rates: Vec<f64> = each.iter().map(per_second).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let (slowest, moved_least) =
        (least(rates.iter().copied())?, least(each.iter().map(kilobytes))?);
    let (n, children) = (each.len(), rates.iter().sum::<f64>());
    // The original's own columns: they differ between sequential and random phases.
    let is_random = record.workload.jobs.iter().any(|job| job.access != Access::Sequential);
    let count = if is_random { format!("{n}") } else { format!("{n:2}") };
    let mut out = String::new();
    for (who, rate) in [
        (format!("Children see throughput for {count} {workers}"), children),
        (format!("Parent sees throughput for {count} {workers}"), rate(record, Unit::Kilobytes)),
        ("Min throughput per process".to_owned(), slowest),
        ("Max throughput per process".to_owned(), most),
        ("Avg throughput per process".to_owned(), children / n as f64),
    ] {
        let _ = writeln!(out, "        {who:<48}= {rate:10.2} KB/sec");
    }
    let _ = writeln!(out, "        {:<48}= {moved_least:10.2} KB\n", "Min xfer");
    Some(out)
}

/// None of nothing.
fn least(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use fathom_model::record::OpClass;

    /// Four phases as in a published row: records, record size in KB, and the rates that were printed.
    fn phases(records: u64, record_kb: u64, rates: [u64; 4]) -> Vec<Record> {
        let names = ["write", "rewrite", "random read", "random write"];
        let run = |(phase, rate): (&str, u64)| {
            let class = if phase.contains("read") { OpClass::Read } else { OpClass::Write };
            let blocks = vec![sample::class(class, records, 1_000_000, record_kb << 10)];
            let mut record = sample::record("iozone", phase, blocks);
            record.workload = record.workload.of_phase(phase);
            record.workload.set("block_size", &format!("{record_kb}k")).expect("a size");
            record.targets[0].size_bytes = (records * record_kb) << 10;
            // The shortest time that gives no more than this rate when it is cut.
            record.window_ns = records * 1_000_000_000 / (rate + 1) + 1;
            record
        };
        names.into_iter().zip(rates).map(run).collect()
    }

    /// Study of sample sizes with 64 KB records: the file in KB, the rates of -i0 -i2 -O.
    #[test]
    fn published_rows_come_out_as_they_were_printed() {
        let table = include_str!("../../tests/data/iozone_sample_size.csv");
        let mut rows_seen = 0;
        for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let f: Vec<u64> = line.split(',').take(6).filter_map(|f| f.parse().ok()).collect();
            let [file_kb, record_kb, write, rewrite, read, random_write] = f[..] else {
                panic!("{line}")
            };
            let records =
                phases(file_kb / record_kb, record_kb, [write, rewrite, read, random_write]);
            let text = row(&records.iter().collect::<Vec<_>>(), Unit::Operations);
            let blank = " ".repeat(18);
            let expected = format!(
                "{file_kb:16}{record_kb:8}{write:8}{rewrite:8}{blank}{read:8}{random_write:8}\n"
            );
            assert_eq!(text, expected);
            rows_seen += 1;
        }
        assert_eq!(rows_seen, 6);
    }

    #[test]
    fn all_columns() {
        let mut all = phases(32_768, 128, [999, 1165, 246, 1107]);
        for (phase, rate) in [("read", 1126u64), ("reread", 1131)] {
            let mut record = phases(32_768, 128, [1, 1, rate, 1]).swap_remove(2);
            record.workload.jobs[0].phase = Some(phase.into());
            all.push(record);
        }
        let text = rows(&all.iter().collect::<Vec<_>>());
        let expected = r"        OPS Mode. Output is in operations per second.
                                                            random  random
              KB  reclen   write rewrite    read    reread    read   write
         4194304     128     999    1165     1126     1131     246    1107
        Output is in Kbytes/sec
                                                            random  random
              KB  reclen   write rewrite    read    reread    read   write
         4194304     128  127999  149247   144255   144895   31615  141823
";
        assert_eq!(text, expected);
    }

    #[test]
    fn several_threads_have_a_block_for_each_phase() {
        let mut records = phases(1000, 64, [100, 1, 50, 1]);
        for record in &mut records {
            record.jobs[0].engine.threads = 4;
            // Each of them moved as much, and they took 5 to 10 s.
            let thread = |seconds: u64| ThreadTimes {
                bytes: 250 << 16,
                busy_ns: 0,
                window_ns: seconds * 1_000_000_000,
            };
            record.jobs[0].thread_times = [5, 10, 8, 10].map(thread).into();
            record.window_ns = 10_000_000_000;
        }
        let (first, last) = (&records[0], &records[2]);
        let expected = r"        Children see throughput for  4 initial writers  =    8400.00 KB/sec
        Parent sees throughput for  4 initial writers   =    6400.00 KB/sec
        Min throughput per process                      =    1600.00 KB/sec
        Max throughput per process                      =    3200.00 KB/sec
        Avg throughput per process                      =    2100.00 KB/sec
        Min xfer                                        =   16000.00 KB

        Children see throughput for 4 random readers    =    8400.00 KB/sec
        Parent sees throughput for 4 random readers     =    6400.00 KB/sec
        Min throughput per process                      =    1600.00 KB/sec
        Max throughput per process                      =    3200.00 KB/sec
        Avg throughput per process                      =    2100.00 KB/sec
        Min xfer                                        =   16000.00 KB

";
        assert_eq!(rows(&[first, last]), expected);
    }
}
