//! bonnie++ 1.03's two rows: KiB per second and CPU share of block output, rewrite, block input, and seeks per second;
//! files created, looked up and deleted per second. Output and input of single characters measure the C library and are
//! left blank.

use super::{merged, transferred_bytes, transfers};
use fathom_model::record::{OpClass, Record};

const HEADER: &str =
    "Version  1.03       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP
";

const FILES_HEADER: &str =
    "                    ------Sequential Create------ --------Random Create--------
                    -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
              files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
";

/// The columns: the phase, or none for what is not measured.
const COLUMNS: [Option<&str>; 6] =
    [None, Some("write"), Some("rewrite"), None, Some("read"), Some("seeks")];

/// The columns of the second row.
const FILES_COLUMNS: [Option<&str>; 6] = [
    Some("sequential create"),
    Some("sequential stat"),
    Some("sequential delete"),
    Some("random create"),
    Some("random stat"),
    Some("random delete"),
];

/// Shorter phases say nothing: the original prints plus signs for them.
const SHORTEST_NS: u64 = 500_000_000;

pub(super) fn table(records: &[&Record]) -> String {
    let (of_names, of_data): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| names(record).is_some());
    let mut out = String::new();
    if let Some(target) = of_data.first().and_then(|record| record.targets.first()) {
        let first = format!("fathom {}", size(target.size_bytes));
        out = format!("{HEADER}{}", row(&of_data, &first, COLUMNS));
    }
    if let Some(count) = of_names.first().and_then(|record| names(record)) {
        if of_data.is_empty() {
            out = format!("Version  1.03{}", &FILES_HEADER[13..]);
        } else {
            out += FILES_HEADER;
        }
        out += &row(&of_names, &thousands(count), FILES_COLUMNS);
    }
    out
}

/// The number of files of a phase that is about files; none for others.
fn names(record: &Record) -> Option<u32> {
    record.workload.jobs.first().filter(|job| job.metadata.is_some())?.names
}

/// The original counts in units of 1024 files.
fn thousands(count: u32) -> String {
    if count.is_multiple_of(1024) { format!("{}", count / 1024) } else { format!("{count} single") }
}

fn row(records: &[&Record], first: &str, columns: [Option<&str>; 6]) -> String {
    let mut line = format!("{first:>19}");
    for column in columns {
        let has_ended = |record: &&&Record| !record.jobs.iter().all(|job| job.classes.is_empty());
        let found = column.and_then(|name| {
            records.iter().filter(has_ended).find(|record| super::phase(record) == Some(name))
        });
        match found {
            Some(record) => line += &cell(record),
            None => line += &" ".repeat(10),
        }
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

fn size(bytes: u64) -> String {
    let megabytes = bytes >> 20;
    if megabytes > 0 && megabytes.is_multiple_of(1024) {
        format!("{}G", megabytes / 1024)
    } else {
        format!("{megabytes}M")
    }
}

/// Rate and CPU share: ten characters.
fn cell(record: &Record) -> String {
    if record.window_ns < SHORTEST_NS {
        return " +++++ +++".to_owned();
    }
    let seconds = record.window_ns as f64 / 1e9;
    let cpu_ns: u64 = record.jobs.iter().map(|job| job.cpu.total_ns()).sum();
    let cpu = (cpu_ns as f64 / 1e7 / seconds) as u64;
    let whole = |per_second: f64| format!("{:5}", per_second as u64);
    let rate = match super::phase(record) {
        _ if names(record).is_some() => {
            whole(merged(record, &OpClass::ON_NAMES).count() as f64 / seconds)
        }
        Some("seeks") => {
            let seeks = merged(record, &[OpClass::Read]).count() as f64 / seconds;
            let digits = if seeks < 1000.0 { 1 } else { 0 };
            format!("{seeks:5.digits$}")
        }
        // Each block is read and written, and counts once.
        Some("rewrite") if transfers(record).latency_ns.count() > 0 => {
            whole(transferred_bytes(record) as f64 / 2048.0 / seconds)
        }
        _ => whole(transferred_bytes(record) as f64 / 1024.0 / seconds),
    };
    format!(" {rate} {cpu:3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use expect_test::expect;
    use fathom_model::record::CpuTime;

    fn phase(name: &str, class: OpClass, count: u64, window_ms: u64) -> Record {
        let mut ended = sample::class(class, 0, 1, 0);
        (0..count).for_each(|_| ended.latency_ns.record(1000));
        ended.bytes = if OpClass::TRANSFERS.contains(&class) { count * 8192 } else { 0 };
        let mut record = sample::record("bonnie", name, vec![ended]);
        record.workload = record.workload.of_phase(name);
        record.targets[0].size_bytes = 1 << 30;
        record.jobs[0].cpu = CpuTime { user_ns: 0, system_ns: window_ms * 999_999 };
        record.window_ns = window_ms * 1_000_000;
        record
    }

    /// Rates and CPU shares are cut, not rounded, as the original does; what is too short says nothing.
    #[test]
    fn both_rows() {
        let all = [
            phase("write", OpClass::Write, 131_072, 3000),
            phase("read", OpClass::Read, 131_072, 400),
            phase("seeks", OpClass::Read, 8192, 10_000),
            phase("sequential create", OpClass::Create, 16_384, 900),
            phase("sequential stat", OpClass::Stat, 16_384, 30),
            phase("random delete", OpClass::Unlink, 16_384, 1000),
        ];
        let of = |records: &[Record]| table(&records.iter().collect::<Vec<_>>());
        expect![[r#"
            Version  1.03       ------Sequential Output------ --Sequential Input- --Random-
                                -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
            Machine        Size K/sec %CP K/sec %CP K/sec %CP K/sec %CP K/sec %CP  /sec %CP
                      fathom 1G           349525  99                     +++++ +++ 819.2  99
                                ------Sequential Create------ --------Random Create--------
                                -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
                          files  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
                             16 18204  99 +++++ +++                               16384  99
        "#]]
        .assert_eq(&of(&all));
        let files = of(&all[3..]);
        assert!(files.starts_with("Version  1.03       ------Sequential Create------"), "{files}");
        assert_eq!(of(&all[..3]).lines().count(), 4);
        let mut odd = all[3].clone();
        odd.workload.jobs[0].names = Some(1000);
        assert!(of(&[odd]).ends_with("        1000 single 18204  99\n"));
    }
}
