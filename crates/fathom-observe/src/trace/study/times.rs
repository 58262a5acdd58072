//! How requests came and how many were in flight: gaps, bursts, depth, the course, and the picture of time and place.

use super::driver::DEPTH_MAX;
use super::places::cover;
use crate::trace::event::{Class, Event, SECTOR_BYTES};
use crate::trace::flight::Done;
use fathom_base::order::Order;
use fathom_model::capture::{CaptureArrivals, CaptureInterval, CaptureMap, CaptureRecord};
use fathom_stats::{Histogram, SparseHistogram};
use std::collections::{HashMap, VecDeque};

/// The course has at most so many intervals; then two become one.
const INTERVALS_MAX: usize = 512;
const INTERVAL_NS: u64 = 100_000_000;
/// The picture has at most so many rows over what is used of the device.
const ROWS: u64 = 128;
/// And so many cells, while they are counted; then two rows become one.
const CELLS_MAX: usize = INTERVALS_MAX * ROWS as usize;
/// Height of a row at first.
const ROW_BYTES: u64 = 4096;
/// Changes of the depth that are held back: so far it can still be corrected.
const HELD_MAX: usize = 1 << 16;
/// Windows in which requests are counted.
const WINDOWS_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];

#[derive(Debug, Default)]
pub(super) struct Times {
    begin_ns: u64,
    first_arrival_ns: Option<u64>,
    last_arrival_ns: Option<u64>,
    gap: Histogram,
    windows: [Window; 3],
    /// How many are in flight.
    depth: i64,
    /// The last changes of it, and how many were in flight before them, since when.
    held: VecDeque<(u64, i64)>,
    before_held: (u64, i64),
    depth_ns: Vec<u64>,
    interval_ns: u64,
    intervals: Vec<Interval>,
    cells: HashMap<(u32, u32), (u32, u32)>,
    /// How often two rows became one.
    rows_halved: u32,
}

#[derive(Debug, Default)]
struct Interval {
    record: CaptureInterval,
    latency: Histogram,
    /// Depth times nanoseconds, and the largest depth.
    depth_area: f64,
    depth_max: usize,
}

/// Counts in windows of one length.
#[derive(Debug, Default, Clone, Copy)]
struct Window {
    number: u64,
    count: u64,
    windows: u64,
    sum: f64,
    squares: f64,
}

impl Window {
    fn at(&mut self, number: u64) {
        if number > self.number {
            self.windows += number - self.number;
            self.sum += self.count as f64;
            self.squares += (self.count * self.count) as f64;
            (self.number, self.count) = (number, 0);
        }
    }

    /// Variance over mean; none of fewer than two windows or nothing in them.
    fn dispersion(&self) -> Option<f64> {
        let n = self.windows as f64;
        let mean = self.sum / n;
        let variance = (self.squares - n * mean * mean) / (n - 1.0);
        (self.windows > 1 && self.sum > 0.0).then(|| variance.max(0.0) / mean)
    }
}

impl Times {
    pub(super) fn begin(&mut self, time_ns: u64) {
        self.begin_ns = time_ns;
        self.before_held.0 = time_ns;
        self.interval_ns = INTERVAL_NS;
    }

    pub(super) fn arrived(&mut self, event: &Event) {
        if let Some(last_ns) = self.last_arrival_ns {
            self.gap.record(event.time_ns - last_ns);
        }
        self.last_arrival_ns = Some(event.time_ns);
        // From the first request to the last: how long nothing was asked before and behind them is the choice of who captures.
        match self.first_arrival_ns {
            None => self.first_arrival_ns = Some(event.time_ns),
            Some(first_ns) => {
                for (window, length_ns) in self.windows.iter_mut().zip(WINDOWS_NS) {
                    window.at((event.time_ns - first_ns) / length_ns);
                    window.count += 1;
                }
            }
        }
        let bytes = u64::from(event.sectors) * SECTOR_BYTES;
        let record = &mut self.interval(event.time_ns).record;
        match event.class {
            Class::Read => {
                (record.reads, record.read_bytes) = (record.reads + 1, record.read_bytes + bytes)
            }
            Class::Write => {
                (record.writes, record.write_bytes) =
                    (record.writes + 1, record.write_bytes + bytes);
            }
            _ => record.others += 1,
        }
    }

    pub(super) fn ended(&mut self, done: &Done) {
        let took_ns = done.end_ns - done.start_ns;
        self.interval(done.end_ns).latency.record(took_ns);
    }

    /// Events were lost between these moments.
    pub(super) fn lost(&mut self, from_ns: u64, to_ns: u64) {
        let mut at_ns = from_ns.max(self.begin_ns);
        while at_ns <= to_ns {
            self.interval(at_ns).record.is_lossy = true;
            // Later ones may have become longer meanwhile.
            let passed_ns = at_ns - self.begin_ns;
            at_ns += self.interval_ns - passed_ns % self.interval_ns;
        }
    }

    pub(super) fn seek(&mut self, time_ns: u64, is_seek: bool) {
        self.interval(time_ns).record.seeks += u64::from(is_seek);
    }

    /// A cell of the picture; rows are counted from the device's start.
    pub(super) fn place(&mut self, event: &Event) {
        let row = event.sector.saturating_mul(SECTOR_BYTES) / ROW_BYTES;
        while row >> self.rows_halved > u64::from(u32::MAX) {
            self.halve_rows();
        }
        let row = (row >> self.rows_halved) as u32;
        let column = ((event.time_ns - self.begin_ns) / self.interval_ns) as u32;
        let cell = self.cells.entry((column, row)).or_default();
        if event.class == Class::Read {
            cell.0 += 1
        } else {
            cell.1 += 1
        }
        while self.cells.len() > CELLS_MAX {
            self.halve_rows();
        }
    }

    fn halve_rows(&mut self) {
        self.rows_halved += 1;
        self.fold(|(column, row)| (column, row / 2));
    }

    /// The picture of what is used of the device: as many rows as there is room for.
    fn map(mut self, areas: &[(u64, u64)]) -> CaptureMap {
        let rows: Vec<(u64, u64)> = areas
            .iter()
            .map(|(from, bytes)| (from / ROW_BYTES, from.saturating_add(bytes - 1) / ROW_BYTES))
            .collect();
        let (shift, used) = cover(&rows, self.rows_halved, ROWS);
        let halvings = shift - self.rows_halved;
        self.fold(|(column, row)| (column, row.checked_shr(halvings).unwrap_or(0)));
        let is_used =
            |row: u32| used.iter().any(|(from, to)| (*from..=*to).contains(&u64::from(row)));
        let mut cells: Vec<_> =
            self.cells.into_iter().map(|((c, r), (reads, writes))| (c, r, reads, writes)).collect();
        cells.retain(|cell| is_used(cell.1));
        cells.order();
        CaptureMap { column_ns: self.interval_ns, row_bytes: ROW_BYTES << shift, cells }
    }

    fn fold(&mut self, to: impl Fn((u32, u32)) -> (u32, u32)) {
        for (key, (reads, writes)) in std::mem::take(&mut self.cells) {
            let cell = self.cells.entry(to(key)).or_default();
            (cell.0, cell.1) = (cell.0 + reads, cell.1 + writes);
        }
    }

    /// So many are in flight from now on.
    pub(super) fn depth(&mut self, time_ns: u64, depth: usize) {
        let step = depth as i64 - self.depth;
        if step == 0 {
            return;
        }
        self.depth += step;
        self.held.push_back((time_ns, step));
        while self.held.len() > HELD_MAX {
            self.let_go();
        }
    }

    /// From that time on so many more were in flight, or fewer, than seemed to be; from as far back on as changes are held.
    pub(super) fn correct(&mut self, from_ns: u64, by: i64) {
        let from_ns = from_ns.max(self.before_held.0);
        let is_before = |(time_ns, _): &(u64, i64)| {
            // What ends at the moment at which the next one begins is not in flight together with it.
            *time_ns < from_ns || *time_ns == from_ns && by > 0
        };
        let at = self.held.partition_point(is_before);
        self.held.insert(at, (from_ns, by));
        self.depth += by;
    }

    /// Counts the stretch before the first change that is held.
    fn let_go(&mut self) {
        let Some((time_ns, step)) = self.held.pop_front() else { return };
        self.close(time_ns);
        self.before_held.1 += step;
        let depth = self.before_held.1.max(0) as usize;
        let interval = self.interval(time_ns);
        interval.depth_max = interval.depth_max.max(depth);
    }

    /// Counts the stretch up to that time.
    fn close(&mut self, time_ns: u64) {
        let (since_ns, before) = self.before_held;
        self.before_held.0 = time_ns;
        let before = before.max(0) as usize;
        let slot = before.min(DEPTH_MAX - 1);
        if self.depth_ns.len() <= slot {
            self.depth_ns.resize(slot + 1, 0);
        }
        self.depth_ns[slot] += time_ns - since_ns;
        self.spread_depth(since_ns, time_ns, before);
    }

    /// Adds a stretch of constant depth to the intervals that it touches.
    fn spread_depth(&mut self, mut from_ns: u64, to_ns: u64, depth: usize) {
        while from_ns < to_ns {
            let begin_ns = self.begin_ns;
            let interval = self.interval(from_ns);
            let end_ns =
                (begin_ns + interval.record.start_ns + interval.record.length_ns).min(to_ns);
            interval.depth_area += (end_ns - from_ns) as f64 * depth as f64;
            interval.depth_max = interval.depth_max.max(depth);
            from_ns = end_ns;
        }
    }

    fn interval(&mut self, time_ns: u64) -> &mut Interval {
        let passed_ns = time_ns.saturating_sub(self.begin_ns);
        while passed_ns / self.interval_ns >= INTERVALS_MAX as u64 {
            self.halve_intervals();
        }
        let at = (passed_ns / self.interval_ns) as usize;
        while self.intervals.len() <= at {
            let (start_ns, length_ns) =
                (self.intervals.len() as u64 * self.interval_ns, self.interval_ns);
            let record = CaptureInterval { start_ns, length_ns, ..CaptureInterval::default() };
            self.intervals.push(Interval { record, ..Interval::default() });
        }
        &mut self.intervals[at]
    }

    fn halve_intervals(&mut self) {
        self.interval_ns *= 2;
        let mut old = std::mem::take(&mut self.intervals).into_iter();
        while let Some(mut first) = old.next() {
            if let Some(second) = old.next() {
                first.add(&second);
            }
            first.record.length_ns = self.interval_ns;
            self.intervals.push(first);
        }
        self.fold(|(column, row)| (column / 2, row));
    }

    pub(super) fn finish(mut self, end_ns: u64, record: &mut CaptureRecord) {
        if self.interval_ns == 0 {
            // Nothing ever began.
            self.begin(end_ns);
        }
        while !self.held.is_empty() {
            self.let_go();
        }
        self.close(end_ns.max(self.before_held.0));
        let of = |(window, length_ns): (&Window, u64)| {
            Some((length_ns, window.dispersion()?, window.windows))
        };
        let dispersion = self.windows.iter().zip(WINDOWS_NS).filter_map(of).collect();
        record.arrivals = CaptureArrivals { gap_ns: std::mem::take(&mut self.gap), dispersion };
        record.depth_ns = std::mem::take(&mut self.depth_ns);
        let window_ns = end_ns.saturating_sub(self.begin_ns);
        record.series = std::mem::take(&mut self.intervals)
            .into_iter()
            .filter_map(|interval| interval.finish(window_ns))
            .collect();
        record.map = self.map(&record.places.areas);
    }
}

impl Interval {
    fn add(&mut self, other: &Self) {
        let (own, more) = (&mut self.record, &other.record);
        own.reads += more.reads;
        own.writes += more.writes;
        own.others += more.others;
        own.read_bytes += more.read_bytes;
        own.write_bytes += more.write_bytes;
        own.seeks += more.seeks;
        own.is_lossy |= more.is_lossy;
        self.depth_max = self.depth_max.max(other.depth_max);
        self.depth_area += other.depth_area;
        self.latency.merge(&other.latency);
    }

    fn finish(self, window_ns: u64) -> Option<CaptureInterval> {
        let mut record = self.record;
        record.length_ns = record.length_ns.min(window_ns.checked_sub(record.start_ns)?).max(1);
        record.depth_mean = self.depth_area / record.length_ns as f64;
        record.depth_max = self.depth_max as u64;
        record.latency_ns = SparseHistogram::from(&self.latency);
        Some(record)
    }
}
