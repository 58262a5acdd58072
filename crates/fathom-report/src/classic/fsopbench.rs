//! FsOpBench's tables: ten kinds of operations with count, minimum, maximum, average, median and standard deviation in
//! milliseconds, and the two data rates. As in the original a table is one process's window: its first reader's, and its
//! first writer's.

use crate::fsop::{READ_RATE, RateParts, WRITE_RATE, data_rates, header};
use fathom_model::fsop::{FsopProcess, FsopRecord, Role};
use fathom_model::record::{OpClass, Record};
use fathom_stats::Histogram;
use std::fmt::Write;

const WRITES: [(OpClass, &str); 4] = [
    (OpClass::OpenWrite, "F write open"),
    (OpClass::FirstWrite, "G wr 1st byte"),
    (OpClass::CloseWrite, "H write close"),
    (OpClass::MakeDir, "I mkdir"),
];

const READS: [(OpClass, &str); 4] = [
    (OpClass::ReadDir, "A read dir"),
    (OpClass::Stat, "B lstat file"),
    (OpClass::OpenRead, "C open file"),
    (OpClass::FirstRead, "D rd 1st byte"),
];

/// The tables of a phase.
pub(super) fn table(record: &Record, fsop: &FsopRecord) -> String {
    let mut out = header(record, fsop) + "\n";
    // A window that was not cut has whole seconds, unless somebody wanted less.
    let tenths = (record.window_ns as f64 / 1e8).round();
    let _ = writeln!(out, "{} ({}s)", fsop.phase.text(), tenths / 10.0);
    let _ = writeln!(
        out,
        "{:<14}{:>8} {:>9} {:>10} {:>9} {:>9} {:>10}",
        "", "cnt", "min", "max", "avg", "med", "std"
    );
    if let Some(writer) = fsop.of_role(Role::Writer).next() {
        push(&mut out, writer, &WRITES);
        push_rate(&mut out, "J write rate", writer, &WRITE_RATE, "open + 1st byte + data + close");
    }
    if let Some(reader) = fsop.of_role(Role::Reader).next() {
        push(&mut out, reader, &READS);
        push_rate(&mut out, "E read rate", reader, &READ_RATE, "readdir + open + 1st byte + data");
    }
    out
}

fn push(out: &mut String, process: &FsopProcess, classes: &[(OpClass, &str)]) {
    for (class, name) in classes {
        let empty = Histogram::new();
        let latency_ns = process.class(*class).map_or(&empty, |record| &record.latency_ns);
        let ms =
            |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns / 1e6));
        let whole = |ns: Option<u64>| ms(ns.map(|ns| ns as f64));
        let _ = writeln!(
            out,
            "{name:<14}{:>8} {:>9} {:>10} {:>9} {:>9} {:>10}",
            latency_ns.count(),
            whole(latency_ns.min()),
            whole(latency_ns.max()),
            ms(latency_ns.mean()),
            whole(latency_ns.quantile(0.5)),
            ms(latency_ns.stddev())
        );
    }
}

/// A megabyte is a million bytes.
fn push_rate(
    out: &mut String,
    name: &str,
    process: &FsopProcess,
    parts: &RateParts,
    all_means: &str,
) {
    let Some((data, all)) = data_rates(&[process], parts) else { return };
    let _ = writeln!(
        out,
        "{name:<14}{:>9.3} MB/s (data) {:>9.3} MB/s ({all_means})",
        data / 1e6,
        all / 1e6
    );
}
