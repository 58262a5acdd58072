//! What a workload asks of a storage: chunk size of an array, depth, read-ahead, what makes writes durable.

use fathom_base::units::{format_count, format_size};
use fathom_model::capture::{CaptureClass, CaptureRecord};
use fathom_model::finding::{Finding, Severity};

/// Fewer requests support no advice.
const FEW: u64 = 1000;
/// One stream: of the requests that go on where a stream ended, at least this share goes on where the very last request did.
const ONE_STREAM: f64 = 0.9;

/// From this share on a workload counts as sequential, below the second as random.
const SEQUENTIAL: f64 = 0.6;
const RANDOM: f64 = 0.25;

/// Moving a request of that size takes at least as long as finding its place, on disks that rotate as on flash: 128 KiB are 1 ms at
/// 130 MB/s, and 0.1 ms at 1.3 GB/s.
const TRANSFER_BYTES: f64 = 131_072.0;

/// No read through the page cache is smaller.
const PAGE_BYTES: f64 = 4096.0;

/// Advice with its reasons, as notes: it changes no verdict.
#[must_use]
pub fn advice(capture: &CaptureRecord) -> Vec<Finding> {
    if capture.places.count < FEW {
        return Vec::new();
    }
    [chunk(capture), depth(capture), read_ahead(capture), durability(capture)]
        .into_iter()
        .flatten()
        .collect()
}

fn note(id: &str, text: String, advice: String) -> Option<Finding> {
    Some(Finding::new(id, Severity::Note, text).advise(advice))
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Mean and standard deviation of all sizes of reads and writes.
fn sizes(capture: &CaptureRecord) -> (f64, f64) {
    let data: Vec<&CaptureClass> =
        ["read", "write"].iter().filter_map(|word| capture.class(word)).collect();
    let n = data.iter().map(|class| class.count).sum::<u64>().max(1) as f64;
    let mean = data.iter().map(|class| class.size_mean * class.count as f64).sum::<f64>() / n;
    let square = |class: &&CaptureClass| {
        (class.size_deviation.powi(2) + class.size_mean.powi(2)) * class.count as f64
    };
    let squares = data.iter().map(square).sum::<f64>() / n;
    (mean, (squares - mean * mean).max(0.0).sqrt())
}

/// A chunk should hold most requests whole, so that each occupies one disk; streams of one client want small ones, so that one
/// request occupies several; random requests and several streams want large ones.
fn chunk(capture: &CaptureRecord) -> Option<Finding> {
    const KIB: u64 = 1 << 10;
    let (mean, deviation) = sizes(capture);
    let fits = ((mean + deviation) as u64).next_power_of_two().max(4 * KIB);
    let follow = share(capture.places.follow_any, capture.places.count);
    let size = format!(
        "mean {} plus deviation {}",
        format_size(mean as u64),
        format_size(deviation as u64)
    );
    let (chunk, why) = if is_one_stream(capture) {
        (
            fits.clamp(32 * KIB, 64 * KIB),
            "one stream at a time: small chunks let several disks work for it",
        )
    } else if follow >= SEQUENTIAL {
        (
            fits.max(256 * KIB),
            "several large streams at once: with a request inside one chunk each occupies one disk",
        )
    } else {
        (fits.max(256 * KIB), "requests in many places at once: each should occupy one disk only")
    };
    note(
        "advice-chunk",
        format!(
            "chunk size of an array for this load: {} ({:.0} % sequential, {size}; {why})",
            format_size(chunk),
            100.0 * follow
        ),
        "more than that gains nothing where most requests are small; tried on your disks: fathom raid DEVICE...".to_owned(),
    )
}

/// One that is read or written in order. How many are in flight says nothing about it: one reader may have many.
fn is_one_stream(capture: &CaptureRecord) -> bool {
    let places = &capture.places;
    share(places.follow_any, places.count) >= SEQUENTIAL
        && places.follow_last as f64 >= ONE_STREAM * places.follow_any as f64
}

fn depth(capture: &CaptureRecord) -> Option<Finding> {
    if !capture.knows_depth() {
        return None;
    }
    // What the driver has is what the device works on. What arrives and is merged or waits before it is more.
    let of = |share| match capture.driver_depth_quantile(share) {
        Some(depth) => depth,
        None => capture.depth_quantile(share),
    };
    let (half, most, all) = (of(0.5), of(0.95), of(1.0));
    let arrived = capture.depth_quantile(0.95);
    let (place, before) = match capture.driver_depth_quantile(0.95) {
        Some(driver) if arrived >= 2 * driver => (
            "with the driver",
            format!(
                " (of up to {arrived} that had arrived: the rest was merged or waited before it)"
            ),
        ),
        Some(_) => ("with the driver", String::new()),
        None => ("in flight", String::new()),
    };
    let waits_before = capture.driver_depth_ns.is_empty() && most > 64;
    let (mean, _) = sizes(capture);
    let is_large = mean >= TRANSFER_BYTES;
    let what = if most <= 1 && is_large && is_one_stream(capture) {
        "nearly always one request in flight, a large one: what moves its bytes decides; a faster device does, several disks that share each request do (a small chunk), and so do more of them at once, by read-ahead or in the application"
    } else if most <= 1 && is_large {
        "nearly always one request in flight, a large one: what moves its bytes decides; a faster device does, and so do more of them at once, by read-ahead or in the application"
    } else if most <= 1 && is_one_stream(capture) {
        "nearly always one request in flight: latency decides, not throughput; more disks help only where more comes at once, by read-ahead or in the application, and a faster answer (cache, flash) does"
    } else if most <= 1 {
        "nearly always one request in flight: latency decides, not throughput; more disks or a deeper queue do not help, a faster answer (cache, flash, parallel requests in the application) does"
    } else if waits_before {
        "more than most devices work on at once: they wait in the scheduler, where it decides about fairness"
    } else {
        "a device that reaches its throughput with that many is used fully"
    };
    note(
        "advice-depth",
        format!(
            "while busy {half} {place} at the median, {most} at 95 % of the time{before}, {all} at most: {what}"
        ),
        format!(
            "what a storage does with that many: fathom run {} depth={}",
            like_it(capture),
            most.max(1)
        ),
    )
}

/// A workload of the kind and size of most of the requests, with where it runs: writes in a file of its own.
fn like_it(capture: &CaptureRecord) -> String {
    let count = |word| capture.class(word).map_or(0, |class| class.count);
    let (word, target) = match count("write") > count("read") {
        true => ("write", "DIR"),
        false => ("read", "TARGET"),
    };
    let Some(class) = capture.class(word) else { return format!("rand{word} {target}") };
    let order = if share(class.follow, class.count) >= SEQUENTIAL { "seq" } else { "rand" };
    let size = class.sizes.first().filter(|(bytes, _)| *bytes > 0);
    let size = size.map_or_else(String::new, |(bytes, _)| format!(" block_size={bytes}"));
    format!("{order}{word} {target}{size}")
}

fn read_ahead(capture: &CaptureRecord) -> Option<Finding> {
    let read = capture.class("read").filter(|read| read.count >= FEW)?;
    let follow = share(read.follow, read.count);
    if follow <= RANDOM {
        let random = format!("reads are {:.0} % random", 100.0 * (1.0 - follow));
        // That a read is marked as one ahead says nothing: newer kernels mark all that go through the page cache.
        let is_marked = share(read.ahead, read.count) > 0.1;
        if !is_marked || read.size_mean < 1.5 * PAGE_BYTES {
            let text = format!("{random}: read-ahead hardly helps this load");
            return note("advice-read-ahead", text, "leave it as it is".to_owned());
        }
        let text = format!(
            "{random}, of {} on average: if the application asks for less at once, read-ahead fetches what it hardly uses",
            format_size(read.size_mean as u64)
        );
        let advice = "compare with what it asks for: fathom watch DEVICE -- COMMAND; if that is less, try a smaller read-ahead: fathom knobs block.read_ahead";
        return note("advice-read-ahead", text, advice.to_owned());
    }
    let run = capture.places.run_bytes.quantile(0.5)?;
    let long = capture.places.run_bytes.quantile(0.95)?;
    let wanted = long.next_power_of_two().clamp(128 << 10, 4 << 20);
    note(
        "advice-read-ahead",
        format!(
            "{:.0} % of the reads go on where one ended, in runs of {} at the median and {} at 95 %: a read-ahead of up to {} is used",
            100.0 * follow,
            format_size(run),
            format_size(long),
            format_size(wanted)
        ),
        "it counts for buffered reads only: fathom knobs block.read_ahead".to_owned(),
    )
}

fn durability(capture: &CaptureRecord) -> Option<Finding> {
    let seconds = capture.window_ns as f64 / 1e9;
    let flushes = capture.class("flush").map_or(0, |flush| flush.count);
    let write = capture.class("write")?;
    let durable = flushes + write.durable();
    let rate = durable as f64 / seconds.max(1e-9);
    if share(durable, write.count) < 0.01 || rate < 1.0 {
        return None;
    }
    note(
        "advice-durability",
        format!(
            "{} flushes and {} durable writes (FUA, or with a flush before them), {} a second: each waits for stable storage",
            format_count(flushes),
            format_count(write.durable()),
            format_count(rate.round() as u64)
        ),
        "a cache with power-loss protection or a log on a device of its own helps most; what a storage does: fathom run commit TARGET"
            .to_owned(),
    )
}
