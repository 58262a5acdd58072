//! Single operations of file servers, and the course of captures, as rows.

use super::rows::{quantile, seconds};
use crate::columns::{Cell, Kind};
use crate::word;
use fathom_model::capture::{CaptureInterval, CaptureRecord};
use fathom_model::fsop::FsopRecord;
use fathom_stats::Histogram;

pub(super) const OPERATIONS: &[(&str, Kind)] = &[
    ("phase", Kind::Text),
    ("repeat", Kind::Whole),
    ("role", Kind::Text),
    ("process", Kind::Whole),
    ("class", Kind::Text),
    ("start_s", Kind::Number),
    ("service_ns", Kind::Whole),
    ("operations", Kind::Whole),
];

pub(super) const CAPTURE_SERIES: &[(&str, Kind)] = &[
    ("device", Kind::Text),
    ("interval_index", Kind::Whole),
    ("start_s", Kind::Number),
    ("length_s", Kind::Number),
    ("reads", Kind::Whole),
    ("writes", Kind::Whole),
    ("others", Kind::Whole),
    ("read_bytes", Kind::Whole),
    ("written_bytes", Kind::Whole),
    ("reads_per_s", Kind::Number),
    ("writes_per_s", Kind::Number),
    ("read_bytes_per_s", Kind::Number),
    ("written_bytes_per_s", Kind::Number),
    ("seeks", Kind::Whole),
    ("in_flight_mean", Kind::Number),
    ("in_flight_max", Kind::Whole),
    ("ended", Kind::Whole),
    ("latency_mean_ns", Kind::Number),
    ("latency_p50_ns", Kind::Whole),
    ("latency_p99_ns", Kind::Whole),
    ("latency_max_ns", Kind::Whole),
];

/// One row for each operation that is kept, in the order in which they are stored.
pub(super) fn operations<E>(
    fsop: &FsopRecord,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    let stream = &fsop.stream;
    let times = (0..).map_while(|at| Some((stream.start_us.get(at)?, stream.took_ns(at)?)));
    for ((start_us, took_ns), (class, process)) in
        times.zip(stream.class.iter().zip(&stream.process))
    {
        let process = fsop.processes.get(usize::from(*process));
        let class = stream.classes.get(usize::from(*class));
        put(vec![
            Cell::text(fsop.phase.text()),
            Cell::count(fsop.repeat.into()),
            process.map_or(Cell::Empty, |process| Cell::text(process.role.word())),
            process.map(|process| u64::from(process.number)).into(),
            class.map_or(Cell::Empty, |class| Cell::Text(word(class))),
            Cell::number(*start_us as f64 / 1e6),
            Cell::count(took_ns),
            Cell::count(stream.operations),
        ])?;
    }
    Ok(())
}

/// One row for each interval of a capture, also where nothing came.
pub(super) fn capture_series<E>(
    capture: &CaptureRecord,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    for (index, interval) in (0u64..).zip(&capture.series) {
        let mut cells = vec![Cell::text(&capture.device), Cell::count(index)];
        cells.extend(interval_cells(interval));
        put(cells)?;
    }
    Ok(())
}

fn interval_cells(interval: &CaptureInterval) -> Vec<Cell> {
    let latency = Histogram::from(&interval.latency_ns);
    let per_second = |amount: u64| Cell::number(amount as f64 * 1e9 / interval.length_ns as f64);
    let CaptureInterval { reads, writes, others, read_bytes, write_bytes, .. } = *interval;
    let mut cells =
        vec![Cell::number(seconds(interval.start_ns)), Cell::number(seconds(interval.length_ns))];
    cells.extend([reads, writes, others, read_bytes, write_bytes].map(Cell::count));
    cells.extend([reads, writes, read_bytes, write_bytes].map(per_second));
    cells.extend([
        Cell::count(interval.seeks),
        Cell::number(interval.depth_mean),
        Cell::count(interval.depth_max),
        Cell::count(latency.count()),
        latency.mean().into(),
        quantile(&latency, 0.5),
        quantile(&latency, 0.99),
        latency.max().into(),
    ]);
    cells
}
