//! HdrHistogram logs, version 1.3: an interval of one class a line, with its histogram in the compressed form V2.
//!
//! Written from the published layout. Values are nanoseconds with three significant digits; a value of ours stands in the middle
//! of its bucket (off by 0.8 % at the most), but for minimum and maximum, which are exact.

use crate::{Run, utc, word};
use fathom_model::fsop_jobs::with_jobs;
use fathom_model::record::{JobRecord, OpClass, Record};
use fathom_stats::histogram::bucket_bounds;
use fathom_stats::{Histogram, SparseHistogram};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Marks a histogram in the form V2, and a compressed one; both with counts of variable length.
const COOKIE: u32 = 0x1c84_9313;
const COOKIE_COMPRESSED: u32 = 0x1c84_9314;
/// Significant decimal digits, and the bits of the half of a table of sub-buckets that gives them: 2 x 1024 >= 2 x 10^3.
const DIGITS: u32 = 3;
const HALF_BITS: u32 = 10;
/// The readers' integers have a sign.
const VALUE_MAX: u64 = i64::MAX as u64;

/// Writes the first lines of a log.
///
/// # Errors
/// Those of the output.
pub fn begin(out: &mut impl Write, first_unix_ns: i64, fathom_version: &str) -> io::Result<()> {
    writeln!(out, "#[Written by fathom {fathom_version}; values are nanoseconds]")?;
    writeln!(out, "#[Histogram log format version 1.3]")?;
    let (seconds, time) = (first_unix_ns as f64 / 1e9, utc(first_unix_ns));
    writeln!(out, "#[StartTime: {seconds:.3} (seconds since epoch), {time}]")?;
    writeln!(
        out,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )
}

/// Writes the intervals of a run: service times by class, and in an open loop response times too. A tag names them:
/// `RUN.TRIAL.JOB.CLASS`, with `.response` behind response times. A job without a series is one interval; an interval in which
/// nothing ended has a line for each class of its job, with an empty histogram.
///
/// # Errors
/// Those of the output.
pub fn run(out: &mut impl Write, run: &Run) -> io::Result<()> {
    for (trial, record) in run.records.iter().map(with_jobs).enumerate() {
        let record = record.as_ref();
        // Readers want times that rise: jobs of a trial run side by side.
        let mut lines = BTreeMap::new();
        for (index, job) in record.jobs.iter().enumerate() {
            let tag = format!("{}.{trial}.{}", run.head.id, plain(&job.name));
            for (place, (start_ns, length_ns, name, histogram)) in
                intervals(job).into_iter().enumerate()
            {
                let line =
                    line(record, &format!("{tag}.{name}"), (start_ns, length_ns), &histogram)?;
                lines.insert((start_ns, index, place), line);
            }
        }
        lines.values().try_for_each(|line| out.write_all(line.as_bytes()))?;
    }
    Ok(())
}

/// Letters and digits: a tag ends at a comma or a space.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

type Interval = (u64, u64, String, Histogram);

fn intervals(job: &JobRecord) -> Vec<Interval> {
    let name = |class: OpClass, end: &str| word(&class) + end;
    let ever: Vec<OpClass> =
        job.classes.iter().filter(|c| !c.latency_ns.is_empty()).map(|c| c.class).collect();
    let mut all = Vec::new();
    for interval in &job.series {
        let mut add = |name: String, of: Option<&SparseHistogram>| {
            let histogram = of.map_or_else(Histogram::new, Histogram::from);
            all.push((interval.start_ns, interval.length_ns, name, histogram));
        };
        for class in &ever {
            let service = interval.classes.iter().find(|c| c.class == *class);
            add(name(*class, ""), service.map(|c| &c.latency_ns));
        }
        if let Some(open) = &interval.open_loop {
            for class in &ever {
                let response = open.classes.iter().find(|c| c.class == *class);
                add(name(*class, ".response"), response.map(|c| &c.response_ns));
            }
        }
    }
    if job.series.is_empty() {
        let mut add = |name: String, histogram: Histogram| {
            all.push((0, job.window_ns, name, histogram));
        };
        let service = job.classes.iter().filter(|c| !c.latency_ns.is_empty());
        service.for_each(|c| add(name(c.class, ""), c.latency_ns.clone()));
        let open = job.open_loop.iter().flat_map(|open| &open.classes);
        let open = open.filter(|c| !c.response_ns.is_empty());
        open.for_each(|c| add(name(c.class, ".response"), c.response_ns.clone()));
    }
    all
}

fn line(
    record: &Record,
    tag: &str,
    (start_ns, length_ns): (u64, u64),
    histogram: &Histogram,
) -> io::Result<String> {
    let start_s = (record.started_unix_ns as f64 + start_ns as f64) / 1e9;
    let (length_s, max_ms) = (length_ns as f64 / 1e9, histogram.max().unwrap_or(0) as f64 / 1e6);
    let text = base64(&compressed(histogram)?);
    Ok(format!("Tag={tag},{start_s:.3},{length_s:.3},{max_ms:.3},{text}\n"))
}

/// The place of a value in the table of counts.
fn place(value: u64) -> usize {
    let sub_mask = (1u64 << (HALF_BITS + 1)) - 1;
    let octave = (value | sub_mask).ilog2() - HALF_BITS;
    let sub = value >> octave;
    (u64::from(octave) << HALF_BITS) as usize + sub as usize
}

/// Values with their counts, as near as the buckets tell: minimum and maximum are exact.
fn values(histogram: &Histogram) -> BTreeMap<usize, u64> {
    let (min, max) = (histogram.min().unwrap_or(0), histogram.max().unwrap_or(0));
    let mut counts = BTreeMap::new();
    let mut add =
        |value: u64, count: u64| *counts.entry(place(value.min(VALUE_MAX))).or_insert(0) += count;
    for (bucket, mut count) in histogram.occupied() {
        let (low, high) = bucket_bounds(bucket);
        if (low..=high).contains(&max) {
            add(max, 1);
            count -= 1;
        }
        if (low..=high).contains(&min) && count > 0 {
            add(min, 1);
            count -= 1;
        }
        if count > 0 {
            add((low + (high - low) / 2).clamp(min, max), count);
        }
    }
    counts
}

fn compressed(histogram: &Histogram) -> io::Result<Vec<u8>> {
    let mut payload = Vec::new();
    let mut next = 0;
    for (place, count) in values(histogram) {
        match place - next {
            0 => {}
            1 => number(&mut payload, 0),
            zeros => number(&mut payload, -(zeros as i64)),
        }
        number(&mut payload, i64::try_from(count).unwrap_or(i64::MAX));
        next = place + 1;
    }
    let highest = histogram.max().unwrap_or(0).clamp(2, VALUE_MAX);
    let mut bytes = Vec::new();
    for word in [COOKIE, payload.len() as u32, 0, DIGITS] {
        bytes.extend(word.to_be_bytes());
    }
    bytes.extend(1u64.to_be_bytes());
    bytes.extend(highest.to_be_bytes());
    bytes.extend(1f64.to_be_bytes());
    bytes.extend(payload);
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(&bytes)?;
    let packed = packer.finish()?;
    let mut all = Vec::from(COOKIE_COMPRESSED.to_be_bytes());
    all.extend((packed.len() as u32).to_be_bytes());
    all.extend(packed);
    Ok(all)
}

/// ZigZag, then seven bits a byte, low bits first; a ninth byte has all its eight.
fn number(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        if rest < 0x80 {
            out.push(rest as u8);
            return;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > three.len() { '=' } else { char::from(DIGITS[value as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn base64_as_published() {
        for (plain, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    fn decoded(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
        let bytes = compressed(histogram).expect("packs");
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .expect("the reader of the format takes it")
    }

    #[test]
    fn another_reader_sees_the_same_distribution() {
        for values in [
            vec![0],
            vec![1, 2, 3],
            vec![2047, 2048, 2049, 4096],
            (0..5000u64).map(|i| 50_000 + i * i * 31 % 80_000_000).collect(),
            vec![17, 3_000_000_000_000],
        ] {
            let mut ours = Histogram::new();
            values.iter().for_each(|value| ours.record(*value));
            let theirs = decoded(&ours);
            assert_eq!(theirs.len(), ours.count());
            let near =
                |a: u64, b: u64, share: f64| (a as f64 - b as f64).abs() <= b as f64 * share + 1.0;
            assert!(near(theirs.max(), ours.max().expect("values"), 0.001), "{values:?}");
            assert!(near(theirs.min(), ours.min().expect("values"), 0.001), "{values:?}");
            for q in [0.1, 0.5, 0.9, 0.99] {
                let (a, b) = (theirs.value_at_quantile(q), ours.quantile(q).expect("values"));
                assert!(near(a, b, 0.012), "{q}: {a} for {b}");
            }
        }
    }

    #[test]
    fn the_log_is_read_by_the_reader_of_the_format() {
        let mut out = Vec::new();
        begin(&mut out, samples::START_NS, "0.1.0").expect("writes");
        run(&mut out, &samples::run()).expect("writes");
        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(&out)
            .map(|entry| entry.expect("a line of the format"))
            .collect();
        let starts = entries.iter().filter(|entry| matches!(entry, LogEntry::StartTime(_))).count();
        assert_eq!(starts, 1);
        let mut seen = Vec::new();
        for entry in &entries {
            let LogEntry::Interval(interval) = entry else { continue };
            assert_eq!(interval.duration().as_secs(), 1);
            assert!(interval.start_timestamp().as_secs() >= 1_795_230_000);
            seen.push((interval.tag().expect("a tag").as_str(), interval.max() > 0.0));
            let text = interval.encoded_histogram();
            let bytes = decoded_base64(text);
            let own: hdrhistogram::Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
            assert_eq!(own.is_empty(), interval.max() == 0.0);
        }
        // In the second second nothing ended: it is there, and empty.
        let (first, second) = ("7f3kaaaaaaaa.0.mix", "7f3kaaaaaaaa.1.mix");
        let of = |mix: &str, class: &str| format!("{mix}.{class}");
        let expected = [
            (of(first, "read"), true),
            (of(first, "commit"), false),
            (of(first, "read"), false),
            (of(first, "commit"), false),
            (of(second, "read"), true),
            (of(second, "read"), false),
        ];
        let seen: Vec<(String, bool)> =
            seen.into_iter().map(|(tag, is_there)| (tag.to_owned(), is_there)).collect();
        assert_eq!(seen, expected);
    }

    /// What has no series is one interval, with response times in an open loop.
    #[test]
    fn a_job_without_a_series_has_its_response_times() {
        let mut whole = samples::run();
        whole.records[1].jobs[0].series.clear();
        let mut out = Vec::new();
        run(&mut out, &whole).expect("writes");
        let text = String::from_utf8(out).expect("text");
        let own = text.lines().filter(|line| line.starts_with("Tag=7f3kaaaaaaaa.1"));
        let tags: Vec<&str> = own.filter_map(|line| line.split(',').next()).collect();
        assert_eq!(tags, ["Tag=7f3kaaaaaaaa.1.mix.read", "Tag=7f3kaaaaaaaa.1.mix.read.response"]);
    }

    fn decoded_base64(text: &str) -> Vec<u8> {
        let digit = |c: u8| match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
        for c in text.bytes().filter(|c| *c != b'=') {
            bits = bits << 6 | u32::from(digit(c));
            count += 6;
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        bytes
    }
}
