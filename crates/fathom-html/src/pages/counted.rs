//! What devices counted over time, drawn: of a watch, and of the trials of other runs.

use crate::page::{Axis, Block, Chart, ChartKind, Point, Section, Series, Unit};
use fathom_model::record::Record;
use fathom_report::watch::answer::lengths;
use fathom_study::watch::{DeviceCourse, Line, Span, Stretches, summary};

/// Points of a line: more are closer than a screen shows.
const STRETCHES_MAX: usize = 600;
/// Trials that are drawn.
const TRIALS_MAX: usize = 4;
/// Devices of a trial that are drawn, from the top of the stack of the target.
const DEVICES_MAX: usize = 8;
/// Fewer intervals are no course.
const INTERVALS_MIN: usize = 4;

/// Stretches of time, and what stands below each chart of them.
pub(super) struct Lines<'a> {
    pub(super) stretches: &'a Stretches,
    pub(super) x: Axis,
    /// Where the first interval begins on it.
    pub(super) start_s: f64,
    /// How many intervals of what length there are.
    pub(super) n: String,
    /// How long one is.
    pub(super) interval_s: f64,
}

impl Lines<'_> {
    /// When a stretch began.
    fn at(&self, stretch: usize) -> f64 {
        self.start_s + self.stretches.starts_s.get(stretch).copied().unwrap_or(0.0)
    }

    /// Points of a line; where several intervals are one point, with the lowest and highest of them.
    fn series(&self, name: &str, line: &Line) -> Option<Series> {
        let point = |(at, span): (usize, &Option<Span>)| {
            let span = (*span)?;
            Some(match self.stretches.intervals {
                1 => Point::new(self.at(at), span.mean),
                _ => Point::between(self.at(at), span.mean, span.low, span.high),
            })
        };
        let points: Vec<Point> = line.iter().enumerate().filter_map(point).collect();
        let is_something = points.iter().any(|point| point.y != 0.0);
        is_something.then(|| Series { name: name.to_owned(), points, is_loose: false })
    }

    /// A chart of lines; none when all of them are zero all the time.
    pub(super) fn chart(&self, title: String, y: Axis, lines: &[(&str, &Line)]) -> Option<Chart> {
        let mut chart = Chart::new(title, ChartKind::Line, self.x.clone(), y);
        chart.series = lines.iter().filter_map(|(name, line)| self.series(name, line)).collect();
        chart.n.clone_from(&self.n);
        if self.stretches.intervals > 1 {
            chart.interval =
                "The band goes from the lowest to the highest interval: no peak is averaged away."
                    .to_owned();
            chart.reduction = format!(
                "Each point is {} intervals put together; fathom export --what=watch has every one.",
                self.stretches.intervals
            );
        }
        let is_whole = |(_, line): &(&str, &Line)| line.iter().all(Option::is_some);
        let drawn = lines.iter().filter(|(_, line)| line.iter().any(Option::is_some));
        if !drawn.copied().collect::<Vec<_>>().iter().all(is_whole) {
            // A line would claim values where there was nothing to measure.
            if self.stretches.intervals == 1 {
                chart.kind = ChartKind::Scatter;
            } else {
                chart = chart.joined(self.stretches.intervals as f64 * self.interval_s);
            }
            chart.note = "No point where no request ended.".to_owned();
        }
        (!chart.is_empty()).then_some(chart)
    }
}

/// The devices of the first trials that are long enough, second by second.
pub(super) fn over_time(records: &[Record]) -> Option<Section> {
    let long = records.iter().filter(|record| {
        record.watch.as_ref().is_some_and(|watch| watch.intervals() >= INTERVALS_MIN)
    });
    let long: Vec<&Record> = long.collect();
    let blocks = long.iter().take(TRIALS_MAX).enumerate().flat_map(|(at, record)| {
        let is_numbered = record.label.contains(" #");
        let name = match long.len() {
            1 => String::new(),
            _ if is_numbered => format!(" in {}", record.label),
            _ => format!(" in {} #{}", record.label, at + 1),
        };
        of_trial(&name, record)
    });
    let blocks: Vec<Block> = blocks.map(Block::from).collect();
    let more = match long.len().saturating_sub(TRIALS_MAX) {
        0 => String::new(),
        more => format!(" The first {TRIALS_MAX} trials are drawn, {more} more are not."),
    };
    let most = long.iter().take(TRIALS_MAX).map(|record| names_of(record).len()).max().unwrap_or(0);
    let devices = match most.saturating_sub(DEVICES_MAX) {
        0 => String::new(),
        more => format!(
            " The first {DEVICES_MAX} devices from the top of the stack are drawn, {more} more are not: fathom export --what=watch has every \
             interval of each."
        ),
    };
    let note = format!(
        "What the kernel counted for each layer below the target; fathom export --what=watch has all counters.{more}{devices}"
    );
    let mut section = Section::new("Devices over time", note);
    section.blocks = blocks;
    (!section.blocks.is_empty()).then_some(section)
}

/// A line of a device.
type Of = fn(&DeviceCourse) -> &Line;
/// A chart of all devices: its title, what is upward, and the lines that each of them has.
type Figure = (&'static str, Axis, Vec<(&'static str, Of)>);

/// The devices that were counted, each once.
fn names_of(record: &Record) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let all = record.watch.iter().flat_map(|watch| &watch.devices);
    for device in all.map(|device| device.name.as_str()) {
        if !names.contains(&device) {
            names.push(device);
        }
    }
    names
}

fn of_trial(name: &str, record: &Record) -> Vec<Chart> {
    let Some(watch) = &record.watch else { return Vec::new() };
    let one = std::slice::from_ref(record);
    let Some(stretches) = Stretches::of(one, STRETCHES_MAX) else { return Vec::new() };
    let lines = Lines {
        stretches: &stretches,
        x: Axis::new("time since the window began", Unit::Seconds),
        start_s: 0.0,
        n: lengths(&summary(one)).trim_end().to_owned(),
        interval_s: watch.interval_ns as f64 / 1e9,
    };
    let mut names = names_of(record);
    let all = names.len();
    names.truncate(DEVICES_MAX);
    let courses = stretches.devices(one, &names);
    let directions = |read: Of, written: Of| [("read", read), ("written", written)].to_vec();
    let figures: [Figure; 4] = [
        (
            "Rate of each device",
            Axis::new("rate", Unit::BytesPerSecond),
            directions(|c| &c.read_bytes_per_s, |c| &c.written_bytes_per_s),
        ),
        (
            "Mean time of a request of each device",
            Axis::new("mean time of a request", Unit::Nanoseconds),
            directions(|c| &c.read_ns, |c| &c.write_ns),
        ),
        (
            "Requests in flight of each device",
            Axis::new("in flight", Unit::Count),
            vec![("", |c| &c.in_flight)],
        ),
        ("Busy share of each device", Axis::new("busy", Unit::Share), vec![("", |c| &c.busy)]),
    ];
    let chart = |(title, y, of): Figure| {
        let each = names.iter().zip(&courses);
        let drawn = each.flat_map(|(device, course)| {
            of.iter().map(move |(word, of)| (format!("{device} {word}"), of(course)))
        });
        let drawn: Vec<(String, &Line)> = drawn.collect();
        let drawn: Vec<(&str, &Line)> =
            drawn.iter().map(|(name, line)| (name.trim(), *line)).collect();
        let mut chart = lines.chart(format!("{title}{name}"), y, &drawn)?;
        if all > names.len() {
            let left_out =
                format!("{} of {all} devices are drawn: {}.", names.len(), names.join(", "));
            let space = if chart.reduction.is_empty() { "" } else { " " };
            chart.reduction = format!("{left_out}{space}{}", chart.reduction);
        }
        Some(chart)
    };
    figures.into_iter().filter_map(chart).collect()
}
