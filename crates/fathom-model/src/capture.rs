//! What a capture of block I/O came to: everything that is kept of a trace but the trace itself.

use crate::stack::StackAround;
use fathom_base::order::Order;
use fathom_stats::{Histogram, SparseHistogram};
use serde::{Deserialize, Serialize};

/// The source of what a replay asked of its target.
pub const REPLAY: &str = "replay";

/// A characterised trace. Requests are those that arrived at the device (Q) where nothing else is said; where a trace has none of
/// them, those that the driver got (D).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureRecord {
    /// The device's kernel name.
    pub device: String,
    /// Its size; 0 where that is not known.
    pub size_bytes: u64,
    /// Where events came from: `kernel`, or the form of the file.
    pub source: String,
    /// The trace file, where one was written or read.
    pub file: Option<String>,
    /// From the first event to the last one, or the time that was asked for.
    pub window_ns: u64,
    /// From the start of that to the arrival of the first request.
    #[serde(default)]
    pub first_ns: u64,
    /// And to the arrival or the end of the last one; 0 in records of older versions, which do not tell.
    #[serde(default)]
    pub last_ns: u64,
    /// Steps of requests in it.
    pub events: u64,
    /// What is missing of it, and what is not as it should be.
    pub faults: CaptureFaults,
    /// CPU time of the thread that read and wrote; none for a file.
    pub reader_cpu_ns: Option<u64>,
    /// True when requests are those that the driver got.
    pub is_of_driver: bool,
    /// What was asked of the device, by class.
    pub classes: Vec<CaptureClass>,
    /// Requests that the driver got, all classes.
    pub issued: u64,
    /// Merged while they waited: before, behind, two waiting ones.
    pub merges: [u64; 3],
    /// How many reads and writes arrived, where what was merged counts as the one request that it became; 0 where each counts by itself.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub arrived: u64,
    /// Requests that the driver gave back.
    pub requeues: u64,
    /// Requests that were cut in two.
    pub splits: u64,
    /// Requests that came through a partition or another device.
    pub remaps: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Where requests went.
    pub places: CapturePlaces,
    /// How they came.
    pub arrivals: CaptureArrivals,
    /// Nanoseconds during which so many requests were in flight, from none on; the last stands for all above.
    pub depth_ns: Vec<u64>,
    /// The same of those that the driver had, which are fewer where requests are merged or wait before it. Empty where the driver's part
    /// does not show, or is all that there is, and in records of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_depth_ns: Vec<u64>,
    /// Who caused them, most bytes first; names, as processes come and go.
    pub processes: Vec<CaptureProcess>,
    /// The course of it.
    pub series: Vec<CaptureInterval>,
    /// Where and when, for a picture.
    pub map: CaptureMap,
    /// How alike a replay was to its trace, figure by figure.
    #[serde(default)]
    pub likeness: Vec<CaptureDistance>,
    /// What was captured stands on this; empty for traces out of files, for replays, whose targets have their own, and in records of
    /// older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<StackAround>,
}

/// How far apart one figure of two captures is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureDistance {
    /// Which.
    pub figure: String,
    /// The largest difference between the two distributions (Kolmogorov and Smirnov), from 0 to 1.
    pub distance: f64,
    /// The median of the first.
    pub median_a: Option<u64>,
    /// The median of the second.
    pub median_b: Option<u64>,
    /// What it tells of.
    pub of: DistanceOf,
}

/// What a distance tells of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistanceOf {
    /// What was asked: it decides whether two loads are alike.
    #[default]
    Load,
    /// What was asked, and was changed on purpose: other places, another speed.
    Changed,
    /// What the storage made of it.
    Storage,
}

/// What is wrong with a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFaults {
    /// Events that were lost: the rings of the kernel were full, or it wrote them nowhere.
    pub lost: u64,
    /// Records that stood before the first ones of the trace and are not in it, by their numbers: it is a part of another one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub before_first: u64,
    /// Events that came after later ones.
    pub late: u64,
    /// The furthest that time went back.
    pub back_ns_max: u64,
    /// Requests whose ends never came.
    pub abandoned: u64,
    /// Requests of which it is not known until when they were in flight, as ends may be missing: at their place others always waited too, or
    /// nobody saw them handed to the driver.
    #[serde(default)]
    pub unsure: u64,
    /// How long that may be, of all of them together.
    #[serde(default)]
    pub unsure_ns: u64,
    /// Arrivals that the kernel refused at once, since who asked would not wait, and that were asked for once more: they are no requests, and
    /// count nowhere else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Lines and records that were no events.
    pub skipped: u64,
    /// Events of other devices than the one that counts, which were left out.
    #[serde(default)]
    pub other_devices: u64,
    /// Major and minor number of the first of these devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<String>,
    /// Which device counts was said by who asked, and is not only the first of the trace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub device_chosen: bool,
    /// The trace ends before its end: why.
    pub cut_off: Option<String>,
    /// Events that stand behind its last whole round: others from before them may be missing, and they count nowhere.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_no_round: u64,
    /// Processors that came online while it was made: what happened on them is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub came_online: Vec<u32>,
    /// Processors whose files end long before those of others, as when they were cut at the end of a record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_early: Vec<u32>,
    /// Processors that have no file beside those of others: what happened on them is missing, unless they were offline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without_file: Vec<u32>,
}

/// One class of requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureClass {
    /// `read`, `write`, `discard`, `flush`, `other`.
    pub class: String,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sizes in bytes, each with how often it came; the 64 most frequent.
    pub sizes: Vec<(u64, u64)>,
    /// All sizes in bytes; empty in records of older versions.
    #[serde(default)]
    pub all_sizes: SparseHistogram,
    /// Mean size; 0 of none.
    pub size_mean: f64,
    /// Its standard deviation.
    pub size_deviation: f64,
    /// Harmonic mean of those with data.
    pub size_harmonic: f64,
    /// Those that began where one of the last streams of this class ended; of reads and writes only.
    pub follow: u64,
    /// Sizes of these in bytes, as `sizes` and `all_sizes`; empty in records of older versions.
    #[serde(default)]
    pub follow_sizes: Vec<(u64, u64)>,
    /// All sizes of these.
    #[serde(default)]
    pub all_follow_sizes: SparseHistogram,
    /// Those that somebody waited for.
    pub sync: u64,
    /// Those of a filesystem's own data.
    pub meta: u64,
    /// Those that had to be on stable storage before they ended.
    pub fua: u64,
    /// Those with a flush before them.
    pub preflush: u64,
    /// Those with either or both of them.
    #[serde(default)]
    pub durable: u64,
    /// Reads before anybody asked.
    pub ahead: u64,
    /// Arrival to end (Q2C).
    pub total_ns: Histogram,
    /// Arrival to driver (Q2D).
    pub wait_ns: Histogram,
    /// Driver to end (D2C), of requests as the driver got them.
    pub service_ns: Histogram,
}

impl CaptureClass {
    /// Requests that had to be on stable storage before they ended, or had a flush before them; at least that, of old records.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable.max(self.fua).max(self.preflush)
    }
}

/// Where requests went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapturePlaces {
    /// Requests with a place.
    pub count: u64,
    /// Those that began where the one before ended.
    pub follow_last: u64,
    /// Those that began where one of the last streams ended.
    pub follow_any: u64,
    /// Lengths in bytes of what was gone through without a gap.
    pub run_bytes: Histogram,
    /// Distances in bytes between the end of a request and the start of the next, of those that the driver got where it has a
    /// queue; 0 for none.
    pub seek_bytes: Histogram,
    /// Distances of more than 128 sectors.
    pub seeks: u64,
    /// The first and the last byte that was touched.
    pub first_byte: u64,
    /// Behind the last one.
    pub end_byte: u64,
    /// What was used of the device in equal parts, with the requests that begin in each: those of all areas, one after the other.
    pub parts: Vec<u64>,
    /// Size of such a part.
    pub part_bytes: u64,
    /// The mean size of the requests that begin in each of them, where any is larger than a part; empty where none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reach_bytes: Vec<u64>,
    /// Where the first of them begins; 0 in records of older versions, whose parts begin with the device.
    #[serde(default)]
    pub first_part_byte: u64,
    /// Parts that requests reach into; 0 in records of older versions.
    #[serde(default)]
    pub touched_parts: u64,
    /// Where the parts lie: first byte and bytes of each area, with much between two of them that is hardly used; empty in records of
    /// older versions, which have one area.
    #[serde(default)]
    pub areas: Vec<(u64, u64)>,
    /// Requests that begin in none of the areas: one in a hundred at most.
    #[serde(default)]
    pub elsewhere: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl CapturePlaces {
    /// The smallest share of what is touched that gets this share of the requests, each part as a whole, or as much as a request that begins
    /// there reaches into. What differs by no more than chance has no hot parts.
    #[must_use]
    pub fn hot_bytes(&self, share: f64) -> u64 {
        let reach = |at: usize| self.reach_bytes.get(at).copied().unwrap_or_default();
        let parts = self.parts.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut parts: Vec<(u64, u64)> = parts.map(|(at, count)| (*count, reach(at))).collect();
        parts.order_by(|a, b| b.0.cmp(&a.0));
        // What several reach into is told once.
        let over = |reach: u64| reach.saturating_sub(self.part_bytes) as f64;
        let begun_bytes = (parts.len() as u64).saturating_mul(self.part_bytes);
        let reached: f64 = parts.iter().map(|(_, reach)| over(*reach)).sum();
        let once = self.touched_bytes().saturating_sub(begun_bytes) as f64 / reached.max(1.0);
        let bytes_of =
            |(_, reach): &(u64, u64)| self.part_bytes as f64 + over(*reach) * once.min(1.0);
        let counts: Vec<u64> = parts.iter().map(|(count, _)| *count).collect();
        let wanted = ((counts.iter().sum::<u64>() + self.elsewhere) as f64 * share).ceil() as u64;
        let split = even_from(&counts);
        let (mut sum, mut bytes) = (0, 0.0);
        for part in &parts[..split] {
            if sum >= wanted {
                break;
            }
            sum += part.0;
            bytes += bytes_of(part);
        }
        let even = (counts.len() - split).max(1) as f64;
        let even_sum: u64 = counts[split..].iter().sum();
        let left = wanted.saturating_sub(counts[..split].iter().sum()).min(even_sum) as f64;
        let even_bytes: f64 = parts[split..].iter().map(bytes_of).sum();
        bytes += (left * even / even_sum.max(1) as f64).ceil() * even_bytes / even;
        bytes.round() as u64
    }

    /// The area that gets the most requests: its first byte, its bytes, and those of the areas before it; none of records without areas.
    #[must_use]
    pub fn fullest_area(&self) -> Option<(u64, u64, u64)> {
        let (mut before, mut first) = (0, 0);
        let mut fullest = None;
        for (from, bytes) in &self.areas {
            let end = first + (bytes / self.part_bytes.max(1)) as usize;
            let count: u64 = self.parts.get(first..end).unwrap_or_default().iter().sum();
            if fullest.is_none_or(|(most, _)| count > most) {
                fullest = Some((count, (*from, *bytes, before)));
            }
            (before, first) = (before + bytes, end);
        }
        fullest.map(|(_, area)| area)
    }

    /// Bytes of the parts that requests reach into; of old records of those that requests begin in.
    #[must_use]
    pub fn touched_bytes(&self) -> u64 {
        let begun = self.parts.iter().filter(|count| **count > 0).count() as u64;
        begun.max(self.touched_parts).saturating_mul(self.part_bytes)
    }
}

/// Of counts, the largest first: from where on they differ by no more than chance; their number where they do otherwise to the end.
fn even_from(counts: &[u64]) -> usize {
    let mut first = 0;
    while let rest @ [largest, ..] = &counts[first..] {
        let (sum, n) = (rest.iter().sum::<u64>() as f64, rest.len() as f64);
        let mean = sum / n;
        if *largest as f64 <= mean + 4.0 * mean.sqrt() {
            let square = |count: &u64| (*count as f64 - mean).powi(2);
            let dispersion = rest.iter().map(square).sum::<f64>() / sum;
            let is_chance = dispersion <= 1.0 + 4.0 * (2.0 / n).sqrt();
            return if is_chance { first } else { counts.len() };
        }
        first += 1;
    }
    first
}

/// How requests came.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureArrivals {
    /// Nanoseconds between two.
    pub gap_ns: Histogram,
    /// For windows of this length in nanoseconds: variance of the number of requests in it divided by its mean (1 when they come
    /// by chance, more in bursts, less when evenly), and of how many windows.
    pub dispersion: Vec<(u64, f64, u64)>,
}

/// One name of processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureProcess {
    /// Its name, up to 15 characters.
    pub name: String,
    /// A process of that name.
    pub pid: u32,
    /// Requests that it made arrive.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that write.
    pub writes: u64,
}

/// One interval of the course.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CaptureInterval {
    /// Start, from the first event on.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Reads that arrived.
    pub reads: u64,
    /// Writes that arrived.
    pub writes: u64,
    /// Anything else that arrived.
    pub others: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub write_bytes: u64,
    /// Distances of more than 128 sectors.
    pub seeks: u64,
    /// In flight on average.
    pub depth_mean: f64,
    /// In flight at most.
    pub depth_max: u64,
    /// Times of reads and writes that ended in it, from their arrival.
    pub latency_ns: SparseHistogram,
    /// Events were lost in it, or may have been: what is counted is at least that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_lossy: bool,
}

/// Requests by time and place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureMap {
    /// Length of a column.
    pub column_ns: u64,
    /// Height of a row.
    pub row_bytes: u64,
    /// (column, row, reads, writes) where there is anything in the areas that are used; rows are counted from the start of the device.
    pub cells: Vec<(u32, u32, u32, u32)>,
}

/// As many events may be missing without a change of how many were in flight.
const FEW: f64 = 0.005;

impl CaptureRecord {
    /// A class by its word.
    #[must_use]
    pub fn class(&self, word: &str) -> Option<&CaptureClass> {
        self.classes.iter().find(|class| class.class == word)
    }

    /// True for what a replay asked of its target; false for what others asked of a device.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.source == REPLAY
    }

    /// True where the device got another load than arrived: of five reads and writes at least one went along with others.
    #[must_use]
    pub fn is_merged(&self) -> bool {
        let words = ["read", "write"].into_iter();
        let arrived: u64 = words.filter_map(|word| self.class(word)).map(|class| class.count).sum();
        let is_known = !self.is_of_driver && self.arrived == 0 && arrived > 0;
        is_known && self.merges.iter().sum::<u64>().saturating_mul(5) >= arrived
    }

    /// Requests of all classes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.classes.iter().map(|class| class.count).sum()
    }

    /// In flight on average over the whole time.
    #[must_use]
    pub fn depth_mean(&self) -> f64 {
        let total: u64 = self.depth_ns.iter().sum();
        let weighted: f64 = (0u64..).zip(&self.depth_ns).map(|(d, ns)| d as f64 * *ns as f64).sum();
        if total == 0 { 0.0 } else { weighted / total as f64 }
    }

    /// Whether the ends are there that tell how many were in flight, in the order of their times: of lost events one in 200 at the
    /// most, and of no processor all.
    #[must_use]
    pub fn knows_depth(&self) -> bool {
        // Where a processor is missing, what ended on it stays in flight.
        let has_all = self.faults.without_file.is_empty() || self.faults.abandoned == 0;
        has_all
            && !self.lacks_events()
            && !self.lacks_ends()
            && !self.is_unsure()
            && self.faults.came_online.is_empty()
            && !self.is_out_of_order()
    }

    /// More events were lost than change nothing: what is counted is at least that.
    #[must_use]
    pub fn lacks_events(&self) -> bool {
        let lost = self.faults.lost as f64;
        lost > FEW * (lost + self.events as f64)
    }

    /// Times go back more often than processors do that write down what happened at the same time, one in a hundred, and by more than a
    /// tenth of what reads or writes take at the median: what came late counts when it came, and so latencies are wrong.
    #[must_use]
    pub fn is_out_of_order(&self) -> bool {
        let medians = self.classes.iter().filter_map(|class| {
            let times = [&class.total_ns, &class.service_ns].into_iter();
            let is_transfer = matches!(class.class.as_str(), "read" | "write");
            times.filter(|_| is_transfer).filter_map(|times| times.quantile(0.5)).min()
        });
        let is_far = medians.min().is_some_and(|ns| self.faults.back_ns_max > ns / 10);
        self.faults.late as f64 > 0.01 * self.events as f64 && is_far
    }

    /// Whether some requests may have been in flight for so much longer, or less long, than they count that it would show in the mean.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        let total: u64 = self.depth_ns.iter().sum();
        self.faults.unsure_ns as f64 > 0.1 * self.depth_mean() * total as f64
    }

    /// More ends are missing than kernels lose.
    #[must_use]
    pub fn lacks_ends(&self) -> bool {
        self.faults.abandoned as f64 > FEW * self.events as f64
    }

    /// So many or fewer were in flight during this share of the time in which anything was.
    #[must_use]
    pub fn depth_quantile(&self, share: f64) -> u64 {
        depth_quantile(&self.depth_ns, share)
    }

    /// The driver had so many or fewer during this share of the time in which it had any; none where that is not known.
    #[must_use]
    pub fn driver_depth_quantile(&self, share: f64) -> Option<u64> {
        let is_known = self.knows_depth() && self.driver_depth_ns.iter().skip(1).any(|ns| *ns > 0);
        is_known.then(|| depth_quantile(&self.driver_depth_ns, share))
    }

    /// Share of the time in which anything was in flight.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        let total: u64 = self.depth_ns.iter().sum();
        let idle = self.depth_ns.first().copied().unwrap_or(0);
        if total == 0 { 0.0 } else { (total - idle) as f64 / total as f64 }
    }
}

/// Of the time in which anything was in flight, so many or fewer were in this share.
fn depth_quantile(depth_ns: &[u64], share: f64) -> u64 {
    let busy: u64 = depth_ns.iter().skip(1).sum();
    let mut sum = 0;
    for (depth, ns) in (0u64..).zip(depth_ns).skip(1) {
        sum += ns;
        if sum as f64 >= busy as f64 * share && sum > 0 {
            return depth;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::prng::Prng;

    #[test]
    fn depth_and_hot_parts() {
        let record = CaptureRecord { depth_ns: vec![50, 10, 30, 10], ..CaptureRecord::default() };
        assert!((record.depth_mean() - 1.0).abs() < 1e-9);
        assert!((record.busy_share() - 0.5).abs() < 1e-9);
        let quantiles = [0.1, 0.2, 0.5, 1.0].map(|share| record.depth_quantile(share));
        assert_eq!(quantiles, [1, 1, 2, 3]);
        assert_eq!(CaptureRecord::default().depth_quantile(0.5), 0);
        let places =
            CapturePlaces { parts: vec![0, 90, 5, 5], part_bytes: 10, ..CapturePlaces::default() };
        let hot = [0.5, 0.9, 0.91, 1.0].map(|share| places.hot_bytes(share));
        assert_eq!((hot, places.touched_bytes()), ([10, 10, 20, 30], 30));
        let large = CapturePlaces { touched_parts: 4, ..places };
        assert_eq!(large.touched_bytes(), 40, "one of them reaches into the first");
        assert_eq!(large.fullest_area(), None);
        let scan = CapturePlaces {
            parts: vec![1; 79],
            touched_parts: 764,
            part_bytes: 2,
            reach_bytes: vec![20; 79],
            ..CapturePlaces::default()
        };
        let halves = [0.5, 1.0].map(|share| scan.hot_bytes(share));
        assert_eq!(halves, [774, 2 * 764], "40 of 79 requests, each of nearly ten parts");
        // The same beside small requests in a few places.
        let beside = CapturePlaces {
            parts: [vec![75; 40], vec![1; 79]].concat(),
            touched_parts: 804,
            reach_bytes: [vec![1; 40], vec![20; 79]].concat(),
            ..scan
        };
        let hot = [0.5, 0.9, 1.0].map(|share| beside.hot_bytes(share));
        assert_eq!(hot, [42, 74, 2 * 804], "nearly half and nine tenths of 40 parts");
        let areas = vec![(50, 10), (900, 20), (4000, 10)];
        let apart = CapturePlaces { parts: vec![30, 20, 20, 30], areas, ..large };
        assert_eq!(apart.fullest_area(), Some((900, 20, 10)));
    }

    /// Six requests a part by chance are spread evenly, also beside a part that is hot; more in one half than in the other are not.
    #[test]
    fn chance_makes_no_hot_parts() {
        let mut prng = Prng::new(7, 7);
        let mut parts = vec![0; 1000];
        (0..6000).for_each(|_| parts[prng.below(1000) as usize] += 1);
        let of = |parts: Vec<u64>, share| {
            CapturePlaces { parts, part_bytes: 1, ..CapturePlaces::default() }.hot_bytes(share)
        };
        let half = of(parts.clone(), 0.5);
        assert!((490..=505).contains(&half), "{half}");
        parts[3] = 6000;
        assert_eq!(of(parts.clone(), 0.5), 1);
        let most = of(parts.clone(), 0.9);
        assert!((790..=810).contains(&most), "{most}");
        let halves = [vec![40; 500], vec![10; 500]].concat();
        assert_eq!((of(halves.clone(), 0.8), of(halves, 0.9)), (500, 750));
        let slope = (1..=1000).collect();
        assert!((290..300).contains(&of(slope, 0.5)));
    }

    /// Without the file of a processor, what ended on it stays in flight: nothing is known unless all ends are there.
    #[test]
    fn a_missing_processor_hides_how_many_were_in_flight() {
        let knows = |without_file: &[u32], abandoned: u64| {
            let without_file = without_file.to_vec();
            let faults = CaptureFaults { without_file, abandoned, ..CaptureFaults::default() };
            CaptureRecord { events: 1000, faults, ..CaptureRecord::default() }.knows_depth()
        };
        assert!(knows(&[], 0) && knows(&[], 4) && knows(&[2], 0) && !knows(&[2], 1));
        // Nobody says that one is missing, but it shows.
        assert!(!knows(&[], 6));
    }

    /// Four in flight for a second, more or less.
    #[test]
    fn what_may_have_ended_long_ago_hides_how_many_were_in_flight() {
        let knows = |unsure_ns: u64| {
            let faults = CaptureFaults { unsure: 1, unsure_ns, ..CaptureFaults::default() };
            let depth_ns = vec![0, 0, 0, 0, 1_000_000_000];
            CaptureRecord { depth_ns, faults, ..CaptureRecord::default() }.knows_depth()
        };
        assert!(knows(0) && knows(300_000_000) && !knows(500_000_000) && !knows(u64::MAX));
    }
}
