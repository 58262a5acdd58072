//! How alike two captures are: the distance of their distributions, figure by figure.

use fathom_model::capture::{CaptureClass, CaptureRecord};
use fathom_model::finding::{Finding, Severity};
use fathom_stats::Histogram;
use serde::Serialize;

/// Distances below this count as the same: what one second of a load differs by from the next.
pub const NEAR: f64 = 0.1;
/// Distances above this count as different.
pub const FAR: f64 = 0.25;

/// One figure of both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distance {
    /// Which.
    pub figure: &'static str,
    /// The largest difference between the two distributions (Kolmogorov and Smirnov), from 0 to 1.
    pub distance: f64,
    /// The median of the first.
    pub median_a: Option<u64>,
    /// The median of the second.
    pub median_b: Option<u64>,
    /// It belongs to what was asked, not to what the storage made of it.
    pub is_of_load: bool,
}

/// All figures that both have.
#[must_use]
pub fn distances(a: &CaptureRecord, b: &CaptureRecord) -> Vec<Distance> {
    let mut all = Vec::new();
    let mut add = |figure, a: &Histogram, b: &Histogram, is_of_load| {
        if let Some(distance) = distance(a, b) {
            let (median_a, median_b) = (a.quantile(0.5), b.quantile(0.5));
            all.push(Distance { figure, distance, median_a, median_b, is_of_load });
        }
    };
    add("size of reads", &sizes(a, "read"), &sizes(b, "read"), true);
    add("size of writes", &sizes(a, "write"), &sizes(b, "write"), true);
    add("distance of places", &a.places.seek_bytes, &b.places.seek_bytes, true);
    add("time between arrivals", &a.arrivals.gap_ns, &b.arrivals.gap_ns, true);
    add("in flight", &depths(a), &depths(b), false);
    let latency = |record: &CaptureRecord, word| {
        let none = Histogram::new();
        record.class(word).map_or(none, |class: &CaptureClass| {
            if record.is_of_driver { class.service_ns.clone() } else { class.total_ns.clone() }
        })
    };
    add("latency of reads", &latency(a, "read"), &latency(b, "read"), false);
    add("latency of writes", &latency(a, "write"), &latency(b, "write"), false);
    all
}

fn sizes(record: &CaptureRecord, word: &str) -> Histogram {
    let mut sizes = Histogram::new();
    if let Some(class) = record.class(word) {
        class.sizes.iter().for_each(|(bytes, count)| sizes.record_n(*bytes, *count));
    }
    sizes
}

/// Depth by time, in microseconds.
fn depths(record: &CaptureRecord) -> Histogram {
    let mut depths = Histogram::new();
    for (depth, ns) in (0u64..).zip(&record.depth_ns) {
        depths.record_n(depth, ns / 1000);
    }
    depths
}

/// The largest difference of the shares below a value; none when one of them has no values.
#[must_use]
pub fn distance(a: &Histogram, b: &Histogram) -> Option<f64> {
    let (all_a, all_b) = (a.count(), b.count());
    if all_a == 0 || all_b == 0 {
        return None;
    }
    let (mut left, mut right) = (a.occupied().peekable(), b.occupied().peekable());
    let (mut sum_a, mut sum_b, mut largest) = (0u64, 0u64, 0f64);
    while left.peek().is_some() || right.peek().is_some() {
        let next = |peeked: Option<&(usize, u64)>| peeked.map_or(usize::MAX, |(bucket, _)| *bucket);
        let bucket = next(left.peek()).min(next(right.peek()));
        sum_a += left.next_if(|(at, _)| *at == bucket).map_or(0, |(_, count)| count);
        sum_b += right.next_if(|(at, _)| *at == bucket).map_or(0, |(_, count)| count);
        let apart = sum_a as f64 / all_a as f64 - sum_b as f64 / all_b as f64;
        largest = largest.max(apart.abs());
    }
    Some(largest)
}

/// What the distances come to. Depth and latency are the storage's part: on another one they are expected to differ.
#[must_use]
pub fn finding(distances: &[Distance], paces: bool) -> Finding {
    let counts = |d: &&Distance| d.is_of_load && (paces || d.figure != "time between arrivals");
    let worst = distances.iter().filter(counts).max_by(|a, b| a.distance.total_cmp(&b.distance));
    let (id, said) = ("replay-likeness", "the load that arrived");
    match worst {
        None => Finding::new(
            id,
            Severity::Doubtful,
            format!("{said} cannot be compared: nothing was replayed"),
        ),
        Some(worst) => {
            let value = worst.distance;
            let (severity, word) = match value {
                d if d <= NEAR => (Severity::Note, "is that of the trace"),
                d if d <= FAR => (Severity::Note, "is close to that of the trace"),
                _ => (Severity::Doubtful, "is another than that of the trace"),
            };
            Finding::new(id, severity, format!("{said} {word}: the largest distance is {value:.2}, of {}", worst.figure))
                .advise("0 is the same distribution, 1 another altogether; latency and depth are what this storage makes of it")
        }
    }
}
