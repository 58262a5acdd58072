//! The synthetic twin: a workload file with the mix, sizes, places and pace of a capture.

use super::sizes::{GROUPS, Sizes};
use fathom_base::units::format_length;
use fathom_model::capture::{CaptureClass, CaptureInterval, CapturePlaces, CaptureRecord};
use fathom_model::workload::{Extent, Workload};
use std::fmt::Write;

/// A part of the load below this share of all requests, and of all bytes, has no job of its own.
const JOB_SHARE_MIN: f64 = 0.05;
/// Places for requests of an open loop where nobody knows how many were in flight.
const DEPTH_UNKNOWN: u64 = 128;
/// What places and lengths in bytes are multiples of.
const BLOCK_BYTES: u64 = 4096;
/// Zones of equal size in which hot spots are told.
const ZONES: usize = 10;

/// The workload file; none where there were no reads and writes to imitate.
#[must_use]
pub fn workload_file(capture: &CaptureRecord, name: &str) -> Option<String> {
    let jobs = jobs(capture);
    if jobs.is_empty() {
        return None;
    }
    let (length_ns, depth_ns) = from_first_to_last(capture);
    let ran = CaptureRecord { depth_ns, ..CaptureRecord::default() };
    let seconds = length_ns as f64 / 1e9;
    let mut out = String::new();
    let _ = writeln!(out, "# Made by fathom from a capture of {}.", word(&capture.device));
    let _ = writeln!(out, "name = \"twin-{}\"", word(name));
    let _ = writeln!(out, "title = \"what {} was asked for, by chance\"", word(&capture.device));
    let _ = writeln!(out, "description = \"\"\"");
    let in_flight = if capture.knows_depth() {
        format!("{:.1} in flight on average", ran.depth_mean())
    } else {
        "nobody knows how many in flight".to_owned()
    };
    let _ = writeln!(
        out,
        "{} requests in {} from the first to the last: {:.0} a second, {in_flight}, {:.0} % sequential.",
        capture.requests(),
        format_length(length_ns),
        capture.requests() as f64 / seconds,
        100.0 * capture.places.follow_any as f64 / capture.places.count.max(1) as f64,
    );
    if capture.arrived > 0 {
        let _ = writeln!(
            out,
            "{} reads and writes arrived: what the kernel merged before the device got it is one request here.",
            capture.arrived
        );
    }
    for class in ["read", "write"].iter().filter_map(|word| capture.class(word)) {
        let rare: u64 = jobs.iter().map(|job| job.sizes(class).rare()).sum();
        if rare > 0 {
            let (word, percent) = (&class.class, 100.0 * rare as f64 / class.count.max(1) as f64);
            let _ = writeln!(
                out,
                "The rarer sizes, of {percent:.1} % of the {word}s, stand here as means of up to {GROUPS} groups."
            );
        }
    }
    let told: u64 = jobs.iter().map(|job| job.reads + job.writes).sum();
    let all =
        ["read", "write"].iter().filter_map(|word| capture.class(word)).map(|c| c.count).sum();
    // The first of a stream is none that goes on.
    if told + (jobs.len() as u64) < all {
        let percent = 100.0 * (all - told) as f64 / all as f64;
        let _ = writeln!(
            out,
            "The other {percent:.1} % of the requests, and as little of the bytes, are at random and left out."
        );
    }
    out += &apart(&capture.places);
    if capture.size_bytes == 0 && are_apart(&capture.places) {
        out += "How large the device was the trace does not say: they lie at the start of the target here.\n";
    }
    for finding in super::faults_of_trace(capture) {
        let _ = writeln!(out, "Of the trace: {}.", finding.summary.replace(['"', '\\'], "'"));
    }
    let _ = writeln!(out, "{}\n\"\"\"", pace(capture).text());
    for job in &jobs {
        job.write(&mut out, capture, seconds);
    }
    Some(out)
}

/// Only what needs no escaping.
fn word(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    text.chars().map(fit).collect()
}

/// What sets the pace: how many may be in flight, or the clock.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pace {
    /// The next one begins when one ends.
    Closed(f64),
    /// Requests come whether or not earlier ones have ended.
    Open,
}

impl Pace {
    fn text(self) -> &'static str {
        match self {
            Self::Closed(_) => {
                "About as many were in flight all the time: the device set the pace, and does so here (depth)."
            }
            Self::Open => {
                "Requests came by themselves, as the number in flight went up and down or is not known, and do so here (rate)."
            }
        }
    }
}

fn pace(capture: &CaptureRecord) -> Pace {
    let (_, depth_ns) = from_first_to_last(capture);
    let ran = CaptureRecord { depth_ns, ..CaptureRecord::default() };
    let total: u64 = ran.depth_ns.iter().sum();
    let mean = ran.depth_mean();
    let square = |(depth, ns): (u64, &u64)| (depth as f64 - mean).powi(2) * *ns as f64;
    let variance = (0u64..).zip(&ran.depth_ns).map(square).sum::<f64>() / total.max(1) as f64;
    // What waits while nothing comes and nothing ends sets no pace: its end was lost, or the device stands still.
    let is_still = |interval: &&CaptureInterval| {
        !has_arrivals(interval) && interval.latency_ns.is_empty() && interval.depth_max > 0
    };
    let still_ns: u64 =
        capture.series.iter().filter(is_still).map(|interval| interval.length_ns).sum();
    let busy = ran.busy_share() - still_ns as f64 / total.max(1) as f64;
    let is_steady = capture.knows_depth() && variance.sqrt() < 0.5 * mean && busy > 0.8;
    if is_steady { Pace::Closed(mean) } else { Pace::Open }
}

fn has_arrivals(interval: &CaptureInterval) -> bool {
    interval.reads + interval.writes + interval.others > 0
}

/// The time from the first request to the last one, in nanoseconds, and how long so many were in flight in it: a command takes its time to
/// start, and a capture may go on after it. Of records of older versions as far as whole intervals tell.
pub(super) fn from_first_to_last(capture: &CaptureRecord) -> (u64, Vec<u64>) {
    let is_idle = |interval: &&CaptureInterval| !has_arrivals(interval) && interval.depth_max == 0;
    let length_ns = match capture.last_ns {
        0 => {
            let (before, after) = (capture.series.iter(), capture.series.iter().rev());
            let idle = before.take_while(is_idle).chain(after.take_while(is_idle));
            let idle_ns: u64 = idle.map(|interval| interval.length_ns).sum();
            capture.window_ns.saturating_sub(idle_ns)
        }
        last_ns => last_ns.saturating_sub(capture.first_ns),
    };
    let mut depth_ns = capture.depth_ns.clone();
    let whole_ns: u64 = depth_ns.iter().sum();
    if let Some(none) = depth_ns.first_mut() {
        *none = none.saturating_sub(whole_ns.saturating_sub(length_ns));
    }
    (length_ns.max(1), depth_ns)
}

/// One job: random requests of both kinds, or one sequential kind.
#[derive(Debug)]
struct Twin<'a> {
    name: &'static str,
    write: Option<&'a CaptureClass>,
    read_sizes: Sizes,
    write_sizes: Sizes,
    reads: u64,
    writes: u64,
    /// Of all requests that are imitated.
    share: f64,
}

fn jobs(capture: &CaptureRecord) -> Vec<Twin<'_>> {
    let of = |word| capture.class(word).filter(|class| class.bytes > 0);
    let (read, write) = (of("read"), of("write"));
    let all: u64 = [read, write].iter().flatten().map(|class| class.count).sum();
    let all_bytes: u64 = [read, write].iter().flatten().map(|class| class.bytes).sum();
    // Few large requests may be most of what is moved.
    let counts = |requests: u64, bytes: u128| {
        let is_much = |part: f64, all: u64| part > 0.0 && part >= JOB_SHARE_MIN * all as f64;
        is_much(requests as f64, all) || is_much(bytes as f64, all_bytes)
    };
    let apart = |class: &CaptureClass| {
        if counts(class.follow, class.all_follow_sizes.sum()) { class.follow } else { 0 }
    };
    let (seq_reads, seq_writes) = (read.map_or(0, apart), write.map_or(0, apart));
    let share = |count: u64| count as f64 / all.max(1) as f64;
    let mut jobs = Vec::new();
    let reads = read.map_or(0, |class| class.count) - seq_reads;
    let writes = write.map_or(0, |class| class.count) - seq_writes;
    let sizes = |class: Option<&CaptureClass>, seq: u64| match class {
        Some(class) if seq > 0 => Sizes::at_random(class),
        Some(class) => Sizes::all(class),
        None => Sizes::default(),
    };
    let of_streams = |class: Option<&CaptureClass>, seq: u64| {
        class.filter(|_| seq > 0).map_or(0, |class| class.all_follow_sizes.sum())
    };
    let stream_bytes = of_streams(read, seq_reads) + of_streams(write, seq_writes);
    let at_random = counts(reads + writes, u128::from(all_bytes).saturating_sub(stream_bytes));
    // Each stream has a first request that follows none.
    if reads + writes > 0 && (at_random || seq_reads + seq_writes == 0) {
        jobs.push(Twin {
            name: "random",
            write,
            read_sizes: sizes(read, seq_reads),
            write_sizes: sizes(write, seq_writes),
            reads,
            writes,
            share: share(reads + writes),
        });
    }
    if let Some(class) = read.filter(|_| seq_reads > 0) {
        jobs.push(Twin {
            name: "seqread",
            write: None,
            read_sizes: Sizes::of_streams(class),
            write_sizes: Sizes::default(),
            reads: seq_reads,
            writes: 0,
            share: share(seq_reads),
        });
    }
    if let Some(class) = write.filter(|_| seq_writes > 0) {
        jobs.push(Twin {
            name: "seqwrite",
            write,
            read_sizes: Sizes::default(),
            write_sizes: Sizes::of_streams(class),
            reads: 0,
            writes: seq_writes,
            share: share(seq_writes),
        });
    }
    jobs
}

impl Twin<'_> {
    fn is_random(&self) -> bool {
        self.name == "random"
    }

    fn sizes(&self, class: &CaptureClass) -> &Sizes {
        if class.class == "read" { &self.read_sizes } else { &self.write_sizes }
    }

    fn write(&self, out: &mut String, capture: &CaptureRecord, seconds: f64) {
        let count = self.reads + self.writes;
        let _ = writeln!(out, "\n[[job]]\nname = \"{}\"", self.name);
        let access = if self.is_random() { "random" } else { "sequential" };
        let _ = writeln!(out, "access = \"{access}\"");
        match (self.reads, self.writes) {
            (0, _) => {
                let size = self.write_sizes.text();
                let _ = writeln!(out, "block_size = \"{size}\"\nwrite_fraction = 1");
            }
            (_, 0) => {
                let _ = writeln!(out, "block_size = \"{}\"", self.read_sizes.text());
            }
            _ => {
                let (read, write) = (self.read_sizes.text(), self.write_sizes.text());
                let _ = writeln!(out, "block_size = \"{read}\"");
                if write != read {
                    let _ = writeln!(out, "write_block_size = \"{write}\"");
                }
                let _ = writeln!(out, "write_fraction = {:.4}", self.writes as f64 / count as f64);
            }
        }
        self.write_syncs(out, capture);
        self.write_places(out, capture);
        match pace(capture) {
            Pace::Closed(mean) => {
                let _ = writeln!(out, "depth = {}", ((mean * self.share).round() as u64).max(1));
            }
            Pace::Open => {
                let known = capture.knows_depth().then(|| capture.depth_quantile(1.0));
                let depth = known.unwrap_or(DEPTH_UNKNOWN).clamp(16, 4096);
                let rate = (count as f64 / seconds).round().max(1.0);
                let arrivals = if is_even(capture) { "even" } else { "poisson" };
                let _ = writeln!(out, "rate = {rate}\narrivals = \"{arrivals}\"\ndepth = {depth}");
            }
        }
        let _ = writeln!(out, "direct = true\nduration = \"{}s\"", seconds.ceil().max(1.0));
    }

    fn write_syncs(&self, out: &mut String, capture: &CaptureRecord) {
        let Some(write) = self.write.filter(|_| self.writes > 0) else { return };
        let durable = capture.class("flush").map_or(0, |flush| flush.count) + write.durable();
        let share = durable as f64 / write.count.max(1) as f64;
        if share >= 0.005 {
            let _ =
                writeln!(out, "fsync_fraction = {:.4}\nsync_call = \"fdatasync\"", share.min(1.0));
        }
    }

    fn write_places(&self, out: &mut String, capture: &CaptureRecord) {
        let places = &capture.places;
        let (first_byte, used) = range(capture);
        if capture.size_bytes > 0 && used > 0 {
            // In bytes these are rounded down: a little more, so that none is missing.
            let percent = |bytes: f64| 100.0 * bytes / capture.size_bytes as f64;
            let (offset, span) = (percent(first_byte as f64), percent(used as f64 + 0.125));
            if first_byte + used <= capture.size_bytes && span < 95.0 {
                let _ = writeln!(out, "offset = \"{offset:.15}%\"\nspan = \"{span:.15}%\"");
            }
        } else if used > 0 && are_apart(places) {
            let _ = writeln!(out, "span = \"{}\"", used.next_multiple_of(BLOCK_BYTES));
        }
        if let Some(zones) = zones(places).filter(|_| self.is_random()) {
            let _ = writeln!(out, "distribution = \"{zones}\"");
        }
    }
}

/// First byte and bytes of what is asked for. Areas that lie far apart lie side by side, with the fullest one where it is.
fn range(capture: &CaptureRecord) -> (u64, u64) {
    let places = &capture.places;
    match places.fullest_area().filter(|_| are_apart(places)) {
        Some((from, _, before)) => {
            // An area ends with the part in which its last request begins.
            let largest = |class: &CaptureClass| {
                let kept = class.sizes.iter().map(|(bytes, _)| *bytes).max();
                class.all_sizes.max().max(kept).unwrap_or(0)
            };
            let moves = |class: &&CaptureClass| matches!(&*class.class, "read" | "write");
            let reach = capture.classes.iter().filter(moves).map(largest).max().unwrap_or(0);
            let areas: u64 = places.areas.iter().map(|(_, bytes)| bytes).sum();
            // Blktrace does not say how large the device was.
            let size_bytes = if capture.size_bytes > 0 { capture.size_bytes } else { u64::MAX };
            let used = (areas + reach).min(size_bytes);
            (from.saturating_sub(before).min(size_bytes - used), used)
        }
        None => (places.first_byte, places.end_byte.saturating_sub(places.first_byte)),
    }
}

/// Makes a twin fit a target of that size: what it uses is a share of the device that was captured, which on a smaller one may hold no
/// request, or a number of bytes that a small one does not have.
pub fn fit(workload: &mut Workload, target_bytes: u64) {
    for job in &mut workload.jobs {
        job.span = job.span.filter(|span| span.bytes(target_bytes) <= target_bytes);
        let least = u64::from(job.block_size_bytes_max()).next_multiple_of(BLOCK_BYTES);
        let is_short = job.span.is_some_and(|span| span.bytes(target_bytes) < least);
        if is_short && least <= target_bytes {
            let offset = job.offset.bytes(target_bytes).min(target_bytes - least);
            job.offset = Extent::Bytes(offset / BLOCK_BYTES * BLOCK_BYTES);
            job.span = Some(Extent::Bytes(least));
        }
    }
}

/// What becomes of areas that lie far apart.
fn apart(places: &CapturePlaces) -> String {
    let mut text = String::new();
    if places.areas.len() > 1 {
        let areas = places.areas.len();
        let _ =
            writeln!(text, "The {areas} areas that it uses lie far apart, and side by side here.");
    }
    if places.elsewhere > 0 {
        let _ = writeln!(
            text,
            "Far from all of that lie {} requests, which it leaves out.",
            places.elsewhere
        );
    }
    text
}

/// Nearly all gaps are alike: of arrivals by chance the 95th percentile of them is 58 times the 5th.
fn is_even(capture: &CaptureRecord) -> bool {
    let of = |share| capture.arrivals.gap_ns.quantile(share);
    of(0.05).zip(of(0.95)).is_some_and(|(short, long)| long <= short.saturating_mul(2))
}

/// More than one area, or anything outside of the one that there is.
fn are_apart(places: &CapturePlaces) -> bool {
    places.areas.len() > 1 || places.elsewhere > 0
}

/// Shares of equal parts of what was touched; none where they are much the same.
fn zones(places: &CapturePlaces) -> Option<String> {
    let first = places.parts.iter().position(|count| *count > 0)?;
    let touched = &places.parts[first..];
    if touched.len() < 2 * ZONES {
        return None;
    }
    let mut counts = [0u64; ZONES];
    for (number, count) in touched.iter().enumerate() {
        counts[number * ZONES / touched.len()] += count;
    }
    let all: u64 = counts.iter().sum();
    let most = *counts.iter().max()?;
    if most * ZONES as u64 <= 2 * all {
        return None;
    }
    // Whole percents with at least one each; what rounding leaves goes to the hottest.
    let mut percents: Vec<u64> = counts.iter().map(|count| (100 * count / all).max(1)).collect();
    let hottest = counts.iter().position(|count| *count == most)?;
    let others: u64 =
        percents.iter().enumerate().filter(|(at, _)| *at != hottest).map(|(_, p)| p).sum();
    percents[hottest] = 100u64.checked_sub(others).filter(|rest| *rest > 0)?;
    let each = 100 / ZONES;
    let parts: Vec<String> = percents.iter().map(|percent| format!("{percent}/{each}")).collect();
    Some(format!("zones:{}", parts.join(",")))
}
