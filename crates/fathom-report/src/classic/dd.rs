//! The lines of GNU dd: records, bytes, seconds, rate.
//!
//! The figures follow its rules to the digit: bytes with one decimal below ten and none above, halves to the even
//! digit; seconds with six significant digits; rates with one decimal below a hundred.

use super::{Blocks, transferred_bytes};
use fathom_model::record::Record;

const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];

pub(super) fn lines(record: &Record) -> String {
    let bytes = transferred_bytes(record);
    let Blocks { whole, partial, .. } = super::blocks(record);
    let records = format!("{whole}+{partial} records");
    let summary = summary(bytes, record.window_ns as f64 / 1e9);
    let summary = match (super::has_rate(record), summary.rsplit_once(", ")) {
        (false, Some((amounts, _))) => format!("{amounts}, {}", super::NO_RATE),
        _ => summary,
    };
    format!("{records} in\n{records} out\n{summary}\n")
}

/// The line with bytes, seconds and rate.
fn summary(bytes: u64, seconds: f64) -> String {
    let noun = if bytes == 1 { "byte" } else { "bytes" };
    let sizes = match bytes {
        0..1000 => String::new(),
        1000..1024 => format!(" ({})", size(bytes, 1000, "B")),
        _ => format!(" ({}, {})", size(bytes, 1000, "B"), size(bytes, 1024, "iB")),
    };
    format!("{bytes} {noun}{sizes} copied, {} s, {}", six_digits(seconds), rate(bytes, seconds))
}

/// `4.2 MB`, `105 MB`, `1.0 KiB`; for 1000 bytes and more.
fn size(bytes: u64, base: u64, suffix: &str) -> String {
    let bytes = u128::from(bytes);
    let base = u128::from(base);
    let mut scale = base;
    for unit in UNITS {
        let tenths = half_to_even(bytes * 10, scale);
        let whole = half_to_even(bytes, scale);
        // 1024 bytes are a capital K where 1000 are a small k.
        let unit = if base == 1024 { unit.to_uppercase() } else { unit.to_owned() };
        if tenths < 100 {
            return format!("{}.{} {unit}{suffix}", tenths / 10, tenths % 10);
        }
        if whole < base {
            return format!("{whole} {unit}{suffix}");
        }
        scale *= base;
    }
    format!("{bytes} B")
}

fn half_to_even(dividend: u128, divisor: u128) -> u128 {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    match (rest * 2).cmp(&divisor) {
        std::cmp::Ordering::Less => quotient,
        std::cmp::Ordering::Equal => quotient + quotient % 2,
        std::cmp::Ordering::Greater => quotient + 1,
    }
}

/// Never in less than kB/s, and never more than four characters of digits.
fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "Infinity B/s".to_owned();
    }
    let mut value = bytes as f64 / seconds / 1000.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let mut text = format!("{value:.1}");
    if text.len() > 4 {
        text = format!("{value:.0}");
    }
    format!("{text} {}B/s", UNITS[unit])
}

/// Six significant digits without trailing zeros, in scientific form below 0.0001 and from a million on.
fn six_digits(value: f64) -> String {
    let trimmed = |text: String| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    };
    if value <= 0.0 {
        return "0".to_owned();
    }
    // Rounded to six digits first: 0.00009999999 is 0.0001.
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        trimmed(format!("{value:.*}", (5 - exponent).unsigned_abs() as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trimmed(digits.to_owned()), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use fathom_model::record::OpClass;
    use std::process::Command;

    #[test]
    fn lines_that_dd_has_printed() {
        for line in [
            "0 bytes copied, 9.8394e-05 s, 0.0 kB/s",
            "1 byte copied, 1.0006 s, 0.0 kB/s",
            "999 bytes copied, 4.3602e-05 s, 22.9 MB/s",
            "1000 bytes (1.0 kB) copied, 3.1319e-05 s, 31.9 MB/s",
            "1024 bytes (1.0 kB, 1.0 KiB) copied, 5.914e-05 s, 17.3 MB/s",
            "1050 bytes (1.0 kB, 1.0 KiB) copied, 5.7427e-05 s, 18.3 MB/s",
            "1150 bytes (1.2 kB, 1.1 KiB) copied, 4.6026e-05 s, 25.0 MB/s",
            "9949 bytes (9.9 kB, 9.7 KiB) copied, 4.9473e-05 s, 201 MB/s",
            "9950 bytes (10 kB, 9.7 KiB) copied, 6.427e-05 s, 155 MB/s",
            "10500 bytes (10 kB, 10 KiB) copied, 4.6546e-05 s, 226 MB/s",
            "11500 bytes (12 kB, 11 KiB) copied, 3.2761e-05 s, 351 MB/s",
            "999499 bytes (999 kB, 976 KiB) copied, 0.000528376 s, 1.9 GB/s",
            "999500 bytes (1.0 MB, 976 KiB) copied, 0.000532333 s, 1.9 GB/s",
            "104857600 bytes (105 MB, 100 MiB) copied, 0.00393399 s, 26.7 GB/s",
            "2147479552 bytes (2.1 GB, 2.0 GiB) copied, 6.93788 s, 310 MB/s",
        ] {
            assert_eq!(again(line, 1.0), line);
        }
    }

    /// The line made again from the bytes and seconds in it, the seconds times a factor.
    fn again(line: &str, factor: f64) -> String {
        let bytes = line.split(' ').next().and_then(|word| word.parse().ok()).expect("bytes");
        let seconds = line.split(" copied, ").nth(1).and_then(|rest| rest.split(' ').next());
        let seconds: f64 = seconds.and_then(|word| word.parse().ok()).expect("seconds");
        summary(bytes, seconds * factor)
    }

    #[test]
    fn the_installed_dd_agrees() {
        let mut size = 1u64;
        while size < 64 << 20 {
            let output = Command::new("dd")
                .env("LC_ALL", "C")
                .args(["if=/dev/zero", "of=/dev/null", "count=1", &format!("bs={size}")])
                .output()
                .expect("dd is part of every system");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let line = text.lines().last().expect("a line");
            // Its seconds are printed with six digits only: a rate on the edge of rounding may fall to either side.
            let around = [1.0, 1.0 - 5e-6, 1.0 + 5e-6].map(|factor| again(line, factor));
            let rate = |line: &str| line.rsplit_once(", ").map(|(_, rate)| rate.to_owned());
            assert!(around.iter().any(|ours| rate(ours) == rate(line)), "{line}\n{around:?}");
            let without_rate = |line: &str| line.rsplit_once(", ").map(|(l, _)| l.to_owned());
            assert_eq!(without_rate(&around[0]), without_rate(line));
            size = size * 5 / 4 + 1;
        }
    }

    #[test]
    fn records_and_a_partial_one() {
        let blocks = vec![sample::class(OpClass::Write, 8, 1_000_000, 1 << 20)];
        let mut record = sample::record("seqwrite", "x", blocks);
        record.window_ns = 7_346_730_000;
        assert_eq!(
            lines(&record),
            "8+0 records in\n8+0 records out\n8388608 bytes (8.4 MB, 8.0 MiB) copied, 7.34673 s, 1.1 MB/s\n"
        );
        record.jobs[0].classes[0].bytes -= 5;
        assert!(lines(&record).starts_with("7+1 records in\n7+1 records out\n8388603 bytes"));
        // Two passes over a file of 4 MiB less 5 bytes: each ends with a partial record.
        record.targets[0].size_bytes = (4 << 20) - 5;
        record.jobs[0].classes[0].bytes -= 5;
        assert!(lines(&record).starts_with("6+2 records in\n6+2 records out\n8388598 bytes"));
        record.workload.set("record_size", "8G").expect("a size");
        assert!(lines(&record).starts_with("0+8 records in\n0+8 records out\n"));
        record.workload.jobs[0].record_size_bytes = None;
        for sizes in ["4k-1M", "4k:50,1M:50"] {
            record.workload.set("block_size", sizes).expect("sizes");
            assert!(lines(&record).starts_with("0+8 records in\n0+8 records out\n"), "{sizes}");
        }
        record.jobs[0].window_ns = 180;
        assert!(lines(&record).ends_with(" s, no rate: all of it began in the warm-up\n"));
        record.jobs[0].window_ns = 1_000_000_000;
        record.window_ns = 0;
        assert!(lines(&record).ends_with("copied, 0 s, Infinity B/s\n"));
    }

    /// Published writes with oflag=direct: bytes, seconds and rate as they were printed, and the partial record of the
    /// one that asked for 8 GiB at once.
    #[test]
    fn published_runs_come_out_as_they_were_printed() {
        let table = include_str!("../../tests/data/dd_direct.csv");
        for line in table.lines().filter(|line| !line.starts_with('#')).skip(1) {
            let f: Vec<&str> = line.split(',').collect();
            let [_, _, size, count, bytes, seconds, rate, unit] = f[..] else { panic!("{line}") };
            let mut job = sample::record("dd", "x", Vec::new());
            job.workload.set("record_size", size).expect("a size");
            let (count, bytes): (u64, u64) = (count.parse().unwrap(), bytes.parse().unwrap());
            job.jobs[0].classes = vec![sample::class(OpClass::Write, count, 1, 1)];
            job.jobs[0].classes[0].bytes = bytes;
            job.window_ns = (seconds.parse::<f64>().unwrap() * 1e9).round() as u64;
            let text = lines(&job);
            let records = if size == "8G" { "0+1".to_owned() } else { format!("{count}+0") };
            assert!(
                text.starts_with(&format!(
                    "{records} records in\n{records} records out\n{bytes} bytes"
                )),
                "{text}"
            );
            assert!(text.ends_with(&format!(" copied, {seconds} s, {rate} {unit}/s\n")), "{text}");
        }
    }

    #[test]
    fn seconds_have_six_digits() {
        for (value, text) in [
            (60.0, "60"),
            (123.456_789, "123.457"),
            (0.000_1, "0.0001"),
            (0.000_099_999_99, "0.0001"),
            (999_999.9, "1e+06"),
            (123_456.7, "123457"),
            (0.5, "0.5"),
        ] {
            assert_eq!(six_digits(value), text);
        }
    }
}
