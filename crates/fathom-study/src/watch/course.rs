//! A watch over time, for pictures: as many stretches as a screen can show, each with the mean, the lowest and the highest of its
//! intervals. A peak of one second is seen in a week.

use super::{pieces, side_by_side};
use fathom_model::record::Record;
use fathom_model::watch::{DeviceCounts, NamedSeries, WatchRecord};

/// One figure in one stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Over the whole stretch: requests, bytes and times are summed before anything is divided.
    pub mean: f64,
    /// The lowest interval.
    pub low: f64,
    /// The highest interval.
    pub high: f64,
}

/// Where the stretches of a watch lie.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretches {
    /// Intervals that one stretch has; the last may have fewer.
    pub intervals: usize,
    /// Start of each, in seconds from the start of the watch.
    pub starts_s: Vec<f64>,
    /// Index of the first interval.
    first: u64,
}

/// One figure over time: for each stretch its span, none where the figure had no value.
pub type Line = Vec<Option<Span>>;

/// The highest of a line in at most so many columns of equally many stretches.
#[must_use]
pub fn peaks(line: &Line, columns: usize) -> Vec<Option<f64>> {
    let each = line.len().div_ceil(columns.max(1)).max(1);
    let highest = |stretches: &[Option<Span>]| {
        stretches.iter().flatten().map(|span| span.high).max_by(f64::total_cmp)
    };
    line.chunks(each).map(highest).collect()
}

/// What a device did over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeviceCourse {
    /// Bytes read per second.
    pub read_bytes_per_s: Line,
    /// Bytes written per second.
    pub written_bytes_per_s: Line,
    /// Reads per second.
    pub reads_per_s: Line,
    /// Writes per second.
    pub writes_per_s: Line,
    /// Mean time of a read, in nanoseconds.
    pub read_ns: Line,
    /// Mean time of a write, in nanoseconds.
    pub write_ns: Line,
    /// Requests in flight.
    pub in_flight: Line,
    /// Share of the time with at least one request in flight.
    pub busy: Line,
    /// Bytes discarded per second.
    pub discarded_bytes_per_s: Line,
    /// Discards per second.
    pub discards_per_s: Line,
    /// Flushes per second.
    pub flushes_per_s: Line,
    /// Mean time of a discard, in nanoseconds.
    pub discard_ns: Line,
    /// Mean time of a flush, in nanoseconds.
    pub flush_ns: Line,
}

/// A figure of counts: a sum, and what it is divided by.
type Ratio = fn(&DeviceCounts, f64) -> (f64, f64);

const SECTOR_BYTES: f64 = 512.0;

/// The figures in the order of the fields of [`DeviceCourse`].
const RATIOS: [Ratio; 13] = [
    |c, s| (SECTOR_BYTES * c.reads.sectors as f64, s),
    |c, s| (SECTOR_BYTES * c.writes.sectors as f64, s),
    |c, s| (c.reads.requests as f64, s),
    |c, s| (c.writes.requests as f64, s),
    |c, _| (1e6 * c.reads.took_ms as f64, c.reads.requests as f64),
    |c, _| (1e6 * c.writes.took_ms as f64, c.writes.requests as f64),
    |c, s| (c.queued_ms as f64 / 1e3, s),
    |c, s| (c.busy_ms as f64 / 1e3, s),
    |c, s| (SECTOR_BYTES * c.discards.sectors as f64, s),
    |c, s| (c.discards.requests as f64, s),
    |c, s| (c.flushes as f64, s),
    |c, _| (1e6 * c.discards.took_ms as f64, c.discards.requests as f64),
    |c, _| (1e6 * c.flush_ms as f64, c.flushes as f64),
];

/// Those that are divided by time, and have a value also when nothing was done.
const OVER_TIME: [usize; 9] = [0, 1, 2, 3, 6, 7, 8, 9, 10];

/// A span that is being gathered.
#[derive(Debug, Clone, Copy)]
struct Sum {
    above: f64,
    below: f64,
    low: f64,
    high: f64,
}

impl Sum {
    const EMPTY: Self =
        Self { above: 0.0, below: 0.0, low: f64::INFINITY, high: f64::NEG_INFINITY };

    fn add(&mut self, above: f64, below: f64) {
        if below <= 0.0 {
            return;
        }
        let value = above / below;
        self.above += above;
        self.below += below;
        self.low = self.low.min(value);
        self.high = self.high.max(value);
    }

    /// Nothing for so long, in one interval or several.
    fn add_nothing(&mut self, below: f64) {
        self.below += below;
        (self.low, self.high) = (self.low.min(0.0), self.high.max(0.0));
    }

    fn span(self) -> Option<Span> {
        let Self { above, below, low, high } = self;
        (below > 0.0).then(|| Span { mean: above / below, low, high })
    }
}

impl Stretches {
    /// At most so many stretches of equally many intervals over a whole watch; none without an interval.
    #[must_use]
    pub fn of(records: &[Record], most: usize) -> Option<Self> {
        let first = pieces(records).map(|piece| piece.first).min()?;
        let end = pieces(records).map(|piece| piece.first + piece.intervals() as u64).max()?;
        let count = usize::try_from(end - first).ok().filter(|count| *count > 0)?;
        let intervals = count.div_ceil(most.max(1));
        let mut starts_s = vec![0.0; count.div_ceil(intervals)];
        for piece in pieces(records) {
            let offset = (piece.first - first) as usize;
            for (at, us) in piece.start_us.values().into_iter().enumerate() {
                if (offset + at).is_multiple_of(intervals) {
                    starts_s[(offset + at) / intervals] = us as f64 / 1e6;
                }
            }
        }
        Some(Self { intervals, starts_s, first })
    }

    /// The stretch of an interval, counted in its piece.
    fn at(&self, piece: &WatchRecord, interval: usize) -> usize {
        ((piece.first - self.first) as usize + interval) / self.intervals
    }

    /// What several devices did, in the order of their names.
    #[must_use]
    pub fn devices(&self, records: &[Record], names: &[&str]) -> Vec<DeviceCourse> {
        side_by_side(names, |name| self.device(records, name))
    }

    /// What a device did.
    #[must_use]
    pub fn device(&self, records: &[Record], name: &str) -> DeviceCourse {
        let mut sums = vec![[Sum::EMPTY; RATIOS.len()]; self.starts_s.len()];
        let mut idle_s = vec![0.0; self.starts_s.len()];
        for piece in pieces(records) {
            let lengths = piece.length_us.values();
            for series in piece.devices.iter().filter(|series| series.name == name) {
                let from = series.from as usize;
                let own = lengths.iter().enumerate().skip(from).take(series.intervals as usize);
                let active = series.active();
                let mut active = active.iter().peekable();
                for (at, us) in own {
                    let seconds = *us as f64 / 1e6;
                    let stretch = self.at(piece, at);
                    let Some((_, counts)) = active.next_if(|(active, _)| from + active == at)
                    else {
                        idle_s[stretch] += seconds;
                        continue;
                    };
                    for (sum, ratio) in sums[stretch].iter_mut().zip(RATIOS) {
                        let (above, below) = ratio(counts, seconds);
                        sum.add(above, below);
                    }
                }
            }
        }
        for (stretch, seconds) in sums.iter_mut().zip(idle_s).filter(|(_, seconds)| *seconds > 0.0)
        {
            OVER_TIME.iter().for_each(|figure| stretch[*figure].add_nothing(seconds));
        }
        let line = |at: usize| sums.iter().map(|stretch| stretch[at].span()).collect();
        DeviceCourse {
            read_bytes_per_s: line(0),
            written_bytes_per_s: line(1),
            reads_per_s: line(2),
            writes_per_s: line(3),
            read_ns: line(4),
            write_ns: line(5),
            in_flight: line(6),
            busy: line(7),
            discarded_bytes_per_s: line(8),
            discards_per_s: line(9),
            flushes_per_s: line(10),
            discard_ns: line(11),
            flush_ns: line(12),
        }
    }

    /// A percentile of the single requests of a device by the name of its series, such as `reads_p99_ns`, in nanoseconds: the
    /// highest interval of each stretch, because percentiles of several cannot be put together. None where requests were not
    /// told one by one.
    #[must_use]
    pub fn latency(&self, records: &[Record], device: &str, name: &str) -> Option<Line> {
        let mut line: Line = vec![None; self.starts_s.len()];
        let mut is_known = false;
        for piece in pieces(records) {
            for series in piece.devices.iter().filter(|series| series.name == device) {
                let Some(values) = series.counters.series.get(name) else { continue };
                is_known = true;
                // Zero stands for an interval without a request.
                let values = values.values().into_iter().enumerate().filter(|(_, ns)| *ns > 0);
                for (at, ns) in values {
                    let value = ns as f64;
                    let span = &mut line[self.at(piece, series.from as usize + at)];
                    let (low, high) = span.map_or((value, value), |span| (span.low, span.high));
                    let (low, high) = (low.min(value), high.max(value));
                    *span = Some(Span { mean: high, low, high });
                }
            }
        }
        is_known.then_some(line)
    }

    /// A series of the machine, times `scale`; none when it is zero all the time.
    #[must_use]
    pub fn host(&self, records: &[Record], name: &str, scale: f64) -> Option<Line> {
        self.named(records, |piece| &piece.host, name, scale)
    }

    /// A series of the watched application, times `scale`; none when it is zero all the time.
    #[must_use]
    pub fn application(&self, records: &[Record], name: &str, scale: f64) -> Option<Line> {
        self.named(records, |piece| &piece.application, name, scale)
    }

    fn named(
        &self,
        records: &[Record],
        of: fn(&WatchRecord) -> &NamedSeries,
        name: &str,
        scale: f64,
    ) -> Option<Line> {
        let mut sums = vec![Sum::EMPTY; self.starts_s.len()];
        let mut is_known = false;
        for piece in pieces(records) {
            is_known |= of(piece).series.contains_key(name);
            let values = of(piece).values(name, piece.intervals());
            for (at, (value, us)) in values.iter().zip(piece.length_us.values()).enumerate() {
                let seconds = us as f64 / 1e6;
                sums[self.at(piece, at)].add(*value as f64 * scale * seconds, seconds);
            }
        }
        is_known.then(|| sums.into_iter().map(Sum::span).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::watch;
    use fathom_model::watch::{DeviceSeries, FlowCounts};

    #[test]
    fn a_peak_of_one_interval_is_seen_in_its_stretch() {
        let reads = [10, 10, 10, 10, 900, 10, 10, 10, 10];
        let records = watch(&reads);
        let stretches = Stretches::of(&records, 3).expect("intervals");
        assert_eq!(
            (stretches.intervals, stretches.starts_s.as_slice()),
            (3, [0.0, 3.0, 6.0].as_slice())
        );
        let course = stretches.device(&records, "sda");
        let spans: Vec<(f64, f64)> =
            course.reads_per_s.iter().flatten().map(|span| (span.low, span.high)).collect();
        // The interval at 5 s took 2.5 s.
        assert_eq!(spans, [(10.0, 10.0), (4.0, 900.0), (10.0, 10.0)]);
        let mean = course.reads_per_s[1].map(|span| span.mean).unwrap_or_default();
        assert!((mean - 920.0 / 4.5).abs() < 1e-9, "{mean}");
        // Two milliseconds each, however many there were; no writes, no time of a write.
        assert_eq!(course.read_ns[1], Some(Span { mean: 2e6, low: 2e6, high: 2e6 }));
        assert_eq!(course.write_ns, [None; 3]);
        assert_eq!(peaks(&course.reads_per_s, 2), [Some(900.0), Some(10.0)]);
    }

    #[test]
    fn discards_and_flushes_have_lines_too() {
        let mut piece = WatchRecord::new(1_000_000_000, 0);
        let mut records = watch(&[1]);
        let discards = FlowCounts { requests: 50, sectors: 6400, took_ms: 100, merged: 0 };
        let counts = DeviceCounts { discards, flushes: 4, flush_ms: 20, ..Default::default() };
        let mut series = DeviceSeries { name: "sda".to_owned(), ..DeviceSeries::default() };
        series.push(&counts);
        piece.length_us.push(1_000_000);
        piece.start_us.push(0);
        piece.devices.push(series);
        records[0].watch = Some(Box::new(piece));
        let stretches = Stretches::of(&records[..1], 10).expect("intervals");
        let course = stretches.device(&records[..1], "sda");
        let of = |line: &Line| line[0].map(|span| span.mean);
        assert_eq!(of(&course.discarded_bytes_per_s), Some(50.0 * 65_536.0));
        assert_eq!(
            (of(&course.discards_per_s), of(&course.flushes_per_s)),
            (Some(50.0), Some(4.0))
        );
        assert_eq!((of(&course.discard_ns), of(&course.flush_ns)), (Some(2e6), Some(5e6)));
        assert_eq!((of(&course.reads_per_s), of(&course.read_ns)), (Some(0.0), None));
    }

    #[test]
    fn percentiles_of_several_intervals_are_the_highest_of_them() {
        let mut records = watch(&[1, 2, 3, 4, 5, 6]);
        // The second piece begins at the third interval.
        for (record, values) in records.iter_mut().zip([[7, 0, 9], [8, 0, 0]]) {
            let piece = record.watch.as_mut().expect("a piece");
            let counters = &mut piece.devices[0].counters;
            values.iter().enumerate().for_each(|(at, ns)| counters.push("reads_p99_ns", at, *ns));
        }
        let stretches = Stretches::of(&records, 3).expect("intervals");
        let span = |low: f64, high: f64| Some(Span { mean: high, low, high });
        let line = stretches.latency(&records, "sda", "reads_p99_ns");
        assert_eq!(line, Some(vec![span(7.0, 7.0), span(8.0, 9.0), None]));
        assert_eq!(stretches.latency(&records, "sda", "writes_p99_ns"), None);
        assert_eq!(stretches.latency(&records, "sdb", "reads_p99_ns"), None);
    }

    #[test]
    fn nothing_stored_is_nothing_to_draw() {
        assert_eq!(Stretches::of(&[], 10), None);
        let records = watch(&[1, 2, 3, 4]);
        let stretches = Stretches::of(&records, 100).expect("intervals");
        assert_eq!(stretches.intervals, 1);
        assert_eq!(stretches.host(&records, "user", 1.0), None);
        assert!(stretches.device(&records, "sdz").busy.iter().all(Option::is_none));
    }
}
