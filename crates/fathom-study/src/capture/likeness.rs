//! How alike two captures are: the distance of their distributions, figure by figure.

use super::twin::from_first_to_last;
use fathom_base::order::Order;
use fathom_base::units::{format_ns, format_size};
use fathom_model::capture::{CaptureClass, CaptureDistance, CaptureRecord, DistanceOf};
use fathom_model::finding::{Finding, Severity};
use fathom_stats::Histogram;
use fathom_stats::histogram::bucket_bounds;
use serde::Serialize;

/// Distances below this count as the same: what one second of a load differs by from the next.
pub const NEAR: f64 = 0.1;
/// Distances above this count as different.
pub const FAR: f64 = 0.25;

/// What comes within this time of the one before it comes together with it: in one call, or in a few of one thread. How long after each
/// other the kernel sees them is the speed of its processor.
const TOGETHER_NS: u64 = 10_000;

/// And gaps that differ by less than that, or by less than one in a hundred, are the same: no storage sees it.
const SAME_NS: u64 = 5_000;

/// What is changed on purpose, and so is no unlikeness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changed {
    /// Requests go to other places.
    pub places: bool,
    /// They come at other times.
    pub times: bool,
    /// Only the reads of it are there.
    pub reads_only: bool,
}

/// All figures that both have.
#[must_use]
pub fn distances(a: &CaptureRecord, b: &CaptureRecord, changed: Changed) -> Vec<CaptureDistance> {
    use DistanceOf::{Load, Storage};
    let unless = |is_changed: bool| if is_changed { DistanceOf::Changed } else { Load };
    let mut all = Vec::new();
    let mut add = |figure: &str, a: &Histogram, b: &Histogram, of| {
        all.extend(of_histograms(figure, a, b, of));
    };
    for (figure, word) in [("size of reads", "read"), ("size of writes", "write")] {
        let [of_a, of_b] = sizes([a, b], word);
        add(figure, &of_a, &of_b, Load);
    }
    let places = unless(changed.places);
    add("distance of places", &a.places.seek_bytes, &b.places.seek_bytes, places);
    add(GAPS, &a.arrivals.gap_ns, &b.arrivals.gap_ns, unless(changed.times));
    all.extend(bursts(a, b, unless(changed.times)));
    let mut add = |figure: &str, a: &Histogram, b: &Histogram, of| {
        all.extend(of_histograms(figure, a, b, of));
    };
    add(IN_FLIGHT, &depths(a), &depths(b), Storage);
    let latency = |record: &CaptureRecord, word| {
        let none = Histogram::new();
        record.class(word).map_or(none, |class: &CaptureClass| {
            if record.is_of_driver { class.service_ns.clone() } else { class.total_ns.clone() }
        })
    };
    add("latency of reads", &latency(a, "read"), &latency(b, "read"), Storage);
    add("latency of writes", &latency(a, "write"), &latency(b, "write"), Storage);
    all.extend(mix(a, b).map(|distance| share(MIX, distance, unless(changed.reads_only))));
    for (figure, word) in SEQUENTIAL {
        let both = sequential(a, word).zip(sequential(b, word));
        all.extend(both.map(|(a, b)| share(figure, (a - b).abs(), places)));
    }
    if let (Some(a), Some(b)) = (durable(a), durable(b)) {
        // The kernel sends no flushes to a device that says it has no volatile cache: that they are gone may be its part.
        let of = if a > 0.0 && b <= 0.0 { Storage } else { Load };
        all.push(share(DURABLE, (a - b).abs(), of));
    }
    all
}

fn of_histograms(
    figure: &str,
    a: &Histogram,
    b: &Histogram,
    of: DistanceOf,
) -> Option<CaptureDistance> {
    let distance = if figure == GAPS { gaps(a, b) } else { distance(a, b) }?;
    let (median_a, median_b) = (a.quantile(0.5), b.quantile(0.5));
    Some(CaptureDistance { figure: figure.to_owned(), distance, median_a, median_b, of })
}

/// How bursty both are: by what share one index of dispersion is less than the other, beyond what chance makes of so few windows. Up to
/// 1, as requests by chance have it, none is bursty. The same gaps in another order differ by it alone.
fn bursts(a: &CaptureRecord, b: &CaptureRecord, of: DistanceOf) -> Option<CaptureDistance> {
    const WINDOW_NS: u64 = 100_000_000;
    const WINDOWS_MIN: u64 = 10;
    let index = |record: &CaptureRecord| {
        let own = record.arrivals.dispersion.iter().find(|own| own.0 == WINDOW_NS)?;
        (own.2 >= WINDOWS_MIN).then_some((own.1.max(1.0), own.2))
    };
    let ((of_a, windows_a), (of_b, windows_b)) = (index(a)?, index(b)?);
    // Each variance is known to sqrt(2 / (n - 1)) of itself: twice that of both together.
    let each = |windows: u64| 2.0 / (windows - 1) as f64;
    let chance = (2.0 * (each(windows_a) + each(windows_b)).sqrt()).exp();
    let distance = (1.0 - chance * of_a.min(of_b) / of_a.max(of_b)).max(0.0);
    let [median_a, median_b] = [of_a, of_b].map(|index| Some(index.round() as u64));
    Some(CaptureDistance { figure: BURSTS.to_owned(), distance, median_a, median_b, of })
}

/// The figure of bursts.
const BURSTS: &str = "index of dispersion in 100 ms";

/// One figure of two captures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SideBySide {
    /// Which; what ends with `p50` or `p99` is in nanoseconds, all else a second.
    pub figure: String,
    /// Of the first; none where it has nothing of the kind.
    pub a: Option<f64>,
    /// Of the second.
    pub b: Option<f64>,
}

/// How much was asked of two captures from the first request to the last one, and how fast it was answered: a command takes its time to
/// start, a replay none.
#[must_use]
pub fn side_by_side(a: &CaptureRecord, b: &CaptureRecord) -> Vec<SideBySide> {
    let mut rows = Vec::new();
    let mut add = |figure: String, of: &dyn Fn(&CaptureRecord) -> Option<f64>| {
        let (a, b) = (of(a), of(b));
        if a.is_some() || b.is_some() {
            rows.push(SideBySide { figure, a, b });
        }
    };
    let per_s = |count: u64, record: &CaptureRecord| {
        let (took_ns, _) = from_first_to_last(record);
        count as f64 * 1e9 / took_ns as f64
    };
    for word in ["read", "write", "discard", "flush"] {
        let of =
            |record: &CaptureRecord| record.class(word).filter(|class| class.count > 0).cloned();
        add(format!("{word} requests"), &|record| Some(per_s(of(record)?.count, record)));
        add(format!("{word} bytes"), &|record| {
            of(record).filter(|class| class.bytes > 0).map(|class| per_s(class.bytes, record))
        });
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            add(format!("{word} {name}"), &|record| {
                let class = of(record)?;
                let times = if record.is_of_driver { &class.service_ns } else { &class.total_ns };
                times.quantile(share).map(|ns| ns as f64)
            });
        }
    }
    rows
}

fn share(figure: &str, distance: f64, of: DistanceOf) -> CaptureDistance {
    CaptureDistance { figure: figure.to_owned(), distance, median_a: None, median_b: None, of }
}

/// The figure of what kinds of requests there are; flushes belong to writes.
const MIX: &str = "shares of reads and writes";
/// The figure of the writes that are no writes to a cache.
const DURABLE: &str = "share of writes on stable storage";

/// The figures of what goes on where a request of its class has ended.
const SEQUENTIAL: [(&str, &str); 2] =
    [("sequential share of bytes read", "read"), ("sequential share of bytes written", "write")];

/// Of the bytes of a class those that go on where one of its streams has ended; none without any, and for records of older versions, which
/// say how many requests that are but not of which sizes.
fn sequential(record: &CaptureRecord, word: &str) -> Option<f64> {
    let class = record.class(word).filter(|class| class.bytes > 0)?;
    let follow = &class.all_follow_sizes;
    (follow.count() == class.follow).then(|| follow.sum() as f64 / class.bytes as f64)
}

/// The largest difference of the share of a kind; none when there are no requests.
fn mix(a: &CaptureRecord, b: &CaptureRecord) -> Option<f64> {
    const KINDS: [&str; 4] = ["read", "write", "discard", "other"];
    let shares = |record: &CaptureRecord| {
        let counts = KINDS.map(|kind| record.class(kind).map_or(0, |class| class.count));
        let all: u64 = counts.iter().sum();
        (all > 0).then(|| counts.map(|count| count as f64 / all as f64))
    };
    let (of_a, of_b) = (shares(a)?, shares(b)?);
    of_a.iter().zip(of_b).map(|(a, b)| (a - b).abs()).max_by(f64::total_cmp)
}

/// Of the writes those that had to be on stable storage before they ended, or had a flush before them; none without writes.
fn durable(record: &CaptureRecord) -> Option<f64> {
    let writes = record.class("write").filter(|class| class.count > 0)?;
    Some(writes.durable() as f64 / writes.count as f64)
}

/// The figure of the times between requests.
const GAPS: &str = "time between arrivals";

/// All sizes where both have them; with a record of an older version the most frequent ones of both.
fn sizes(records: [&CaptureRecord; 2], word: &str) -> [Histogram; 2] {
    let classes = records.map(|record| record.class(word));
    let have_all = classes.iter().flatten().all(|class| !class.all_sizes.is_empty());
    classes.map(|class| {
        let mut sizes = Histogram::new();
        match class {
            Some(class) if have_all => sizes.merge_sparse(&class.all_sizes),
            Some(class) => {
                class.sizes.iter().for_each(|(bytes, count)| sizes.record_n(*bytes, *count));
            }
            None => {}
        }
        sizes
    })
}

/// Depth by time from the first request to the last one, in microseconds.
fn depths(record: &CaptureRecord) -> Histogram {
    let mut depths = Histogram::new();
    for (depth, ns) in (0u64..).zip(from_first_to_last(record).1) {
        depths.record_n(depth, ns / 1000);
    }
    depths
}

/// How far times between arrivals are from each other. Where both come sooner on average than what counts as together, that says nothing of
/// how many come: then their rates are compared as well, by the share that one is less than the other.
fn gaps(a: &Histogram, b: &Histogram) -> Option<f64> {
    let far = distance_beyond(&apart(a), &apart(b), |gap_ns| (gap_ns / 100).max(SAME_NS))?;
    let (mean_a, mean_b) = (a.mean()?, b.mean()?);
    let (least, most) = (mean_a.min(mean_b), mean_a.max(mean_b));
    let is_fast = least > 0.0 && most < TOGETHER_NS as f64;
    Some(if is_fast { far.max(1.0 - least / most) } else { far })
}

/// Times between arrivals, in which all that came together counts as the same.
fn apart(gaps: &Histogram) -> Histogram {
    let mut apart = Histogram::new();
    for (bucket, count) in gaps.occupied() {
        apart.record_n(bucket_bounds(bucket).0.max(TOGETHER_NS), count);
    }
    apart
}

/// The largest difference of the shares below a value that is left where the values of one may be more by `same` of each; none when one
/// of them has no values.
fn distance_beyond(a: &Histogram, b: &Histogram, same: impl Fn(u64) -> u64) -> Option<f64> {
    let shares = |of: &Histogram| {
        let (all, mut sum) = (of.count() as f64, 0);
        let mut share = |(bucket, count): (usize, u64)| {
            sum += count;
            (bucket_bounds(bucket), sum as f64 / all)
        };
        of.occupied().map(&mut share).collect::<Vec<_>>()
    };
    let (a, b) = (shares(a), shares(b));
    // Of the values of one the share up to each, less the share of the other up to a little more.
    let beyond = |a: &[((u64, u64), f64)], b: &[((u64, u64), f64)]| {
        let left = a.iter().map(|((_, high), share)| {
            let to = high.saturating_add(same(*high));
            let at = b.partition_point(|((low, _), _)| *low <= to);
            share - at.checked_sub(1).map_or(0.0, |last| b[last].1)
        });
        left.fold(0.0, f64::max)
    };
    (!a.is_empty() && !b.is_empty()).then(|| beyond(&a, &b).max(beyond(&b, &a)))
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

/// The figures of the load that are apart, the farthest first, with distance and medians; where none is, the largest distance.
#[must_use]
pub fn apart_most(distances: &[CaptureDistance]) -> String {
    let mut of_load: Vec<&CaptureDistance> =
        distances.iter().filter(|d| d.of == DistanceOf::Load).collect();
    of_load.order_by(|a, b| b.distance.total_cmp(&a.distance));
    let far: Vec<String> =
        of_load.iter().filter(|d| d.distance > NEAR).map(|d| with_medians(d)).collect();
    match (far.as_slice(), of_load.first()) {
        ([], None) => "nothing of the load is in both".to_owned(),
        ([], Some(d)) => format!("the largest distance is {:.2}, of {}", d.distance, d.figure),
        ([one], _) => format!("the distance is {one}"),
        (several, _) => format!("distances are {}", several.join(", ")),
    }
}

fn with_medians(d: &CaptureDistance) -> String {
    let word = if d.figure == BURSTS { "" } else { "median " };
    let medians = match d.median_a.zip(d.median_b) {
        // A bucket of the distributions, which explains nothing.
        Some((a, b)) if a.abs_diff(b) <= a / 64 => format!(" ({word}{} in both)", median(d, a)),
        Some((a, b)) => format!(" ({word}{} against {})", median(d, a), median(d, b)),
        None => String::new(),
    };
    format!("{:.2} of {}{medians}", d.distance, d.figure)
}

/// A median as it is written: of times, of how many are in flight, else of bytes.
#[must_use]
pub fn median(distance: &CaptureDistance, value: u64) -> String {
    match distance.figure.as_str() {
        figure if figure.starts_with("latency") || figure == GAPS => format_ns(value),
        IN_FLIGHT | BURSTS => value.to_string(),
        _ => format_size(value),
    }
}

/// The figure of how many were in flight.
const IN_FLIGHT: &str = "in flight";

/// What the distances come to. Depth and latency are the storage's part: on another one they are expected to differ.
#[must_use]
pub fn finding(id: &str, distances: &[CaptureDistance], changed: Changed) -> Finding {
    let counts = |d: &&CaptureDistance| d.of == DistanceOf::Load;
    let worst = distances.iter().filter(counts).max_by(|a, b| a.distance.total_cmp(&b.distance));
    let (said, is, those) = match changed.reads_only {
        true => ("the reads that arrived", "are", "those"),
        false => ("the load that arrived", "is", "that"),
    };
    let on_purpose: Vec<&str> = distances
        .iter()
        .filter(|d| d.of == DistanceOf::Changed)
        .map(|d| d.figure.as_str())
        .collect();
    let apart = match on_purpose.as_slice() {
        [] => String::new(),
        figures => format!("; changed on purpose and not compared: {}", figures.join(", ")),
    };
    let Some(worst) = worst else {
        let text = format!("{said} cannot be compared{apart}");
        return Finding::new(id, Severity::Doubtful, text);
    };
    let value = worst.distance;
    let (severity, word) = match value {
        d if d <= NEAR => (Severity::Note, ""),
        d if d <= FAR => (Severity::Note, "close to "),
        _ => {
            (Severity::Doubtful, if changed.reads_only { "others than " } else { "another than " })
        }
    };
    let which = apart_most(distances);
    Finding::new(id, severity, format!("{said} {is} {word}{those} of the trace: {which}{apart}"))
        .advise("0 is the same distribution, 1 another altogether; latency and depth are what this storage makes of it")
}
