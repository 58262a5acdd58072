//! The cells of single rows.

use crate::columns::Cell;
use crate::{Run, utc, word};
use fathom_model::finding::Finding;
use fathom_model::record::{ClassRecord, DeviceDelta, JobRecord, OpClass, Record};
use fathom_stats::histogram::bucket_bounds;
use fathom_stats::quantile::is_supported;
use fathom_stats::{Histogram, SparseHistogram};

/// A quantile where there are values enough for it.
pub(super) fn quantile(histogram: &Histogram, q: f64) -> Cell {
    let is_enough = is_supported(histogram.count(), q);
    histogram.quantile(q).filter(|_| is_enough).into()
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn per_second(amount: u64, ns: u64) -> Cell {
    Cell::number(amount as f64 * 1e9 / ns as f64)
}

/// The cells that stand in front of every row; without a record those of what is about a run as a whole.
pub(super) fn before(run: &Run, trial: Option<(usize, &Record)>) -> Vec<Cell> {
    let head = &run.head;
    vec![
        Cell::text(&head.id),
        Cell::Text(word(&head.kind)),
        head.label.as_deref().into(),
        Cell::text(&head.target),
        Cell::Text(utc(trial.map_or(head.started_unix_ns, |(_, record)| record.started_unix_ns))),
        trial.map(|(index, _)| index as u64).into(),
        trial.map(|(_, record)| record.label.as_str()).into(),
    ]
}

fn job_cells(index: usize, job: &JobRecord, class: OpClass) -> Vec<Cell> {
    vec![Cell::count(index as u64), Cell::text(&job.name), Cell::Text(word(&class))]
}

/// One row for each class that has a value.
pub(super) fn classes<E>(
    run: &Run,
    record: &Record,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    for (index, job) in record.jobs.iter().enumerate() {
        for class in job.classes.iter().filter(|class| !class.latency_ns.is_empty()) {
            let mut cells = job_cells(index, job, class.class);
            cells.extend(class_cells(run, record, job, class));
            put(cells)?;
        }
    }
    Ok(())
}

fn class_cells(run: &Run, record: &Record, job: &JobRecord, class: &ClassRecord) -> Vec<Cell> {
    let latency = &class.latency_ns;
    let responses = job.open_loop.as_ref().and_then(|open| {
        open.classes.iter().find(|c| c.class == class.class).map(|c| c.at_least_ns())
    });
    let response = |q: f64| responses.as_ref().map_or(Cell::Empty, |all| quantile(all, q));
    let unfinished = job.censored.iter().filter(|op| op.class == class.class).count();
    vec![
        Cell::Text(word(&job.engine.kind)),
        Cell::count(job.engine.threads.into()),
        Cell::count(job.engine.depth.into()),
        run.verdict.map_or(Cell::Empty, |verdict| Cell::Text(word(&verdict))),
        Cell::number(seconds(job.window_ns)),
        Cell::count(latency.count()),
        Cell::count(class.bytes),
        per_second(latency.count(), job.window_ns),
        per_second(class.bytes, job.window_ns),
        latency.mean().into(),
        latency.stddev().into(),
        latency.min().into(),
        quantile(latency, 0.5),
        quantile(latency, 0.9),
        quantile(latency, 0.95),
        quantile(latency, 0.99),
        quantile(latency, 0.999),
        quantile(latency, 0.9999),
        latency.max().into(),
        response(0.5),
        response(0.99),
        response(0.999),
        responses.as_ref().and_then(Histogram::max).into(),
        Cell::count(unfinished as u64),
        Cell::number(seconds(job.cpu.total_ns())),
        Cell::number(record.system_cpu.busy_share),
    ]
}

/// One row for each class in each interval; one without class for an interval in which nothing ended.
pub(super) fn series<E>(
    record: &Record,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    for (index, job) in record.jobs.iter().enumerate() {
        for (sample, interval) in job.series.iter().enumerate() {
            let backlog = interval.open_loop.as_ref().map(|open| open.backlog_end);
            let times = [
                Cell::count(sample as u64),
                Cell::number(seconds(interval.start_ns)),
                Cell::number(seconds(interval.length_ns)),
            ];
            let figures = |latency: &SparseHistogram, bytes: u64| {
                let all = Histogram::from(latency);
                vec![
                    Cell::count(all.count()),
                    Cell::count(bytes),
                    per_second(all.count(), interval.length_ns),
                    per_second(bytes, interval.length_ns),
                    all.mean().into(),
                    quantile(&all, 0.5),
                    quantile(&all, 0.99),
                    all.max().into(),
                    backlog.into(),
                ]
            };
            let ended: Vec<_> =
                interval.classes.iter().filter(|class| !class.latency_ns.is_empty()).collect();
            if ended.is_empty() {
                let who = vec![Cell::count(index as u64), Cell::text(&job.name), Cell::Empty];
                put([who, times.to_vec(), figures(&SparseHistogram::default(), 0)].concat())?;
            }
            for class in ended {
                let who = job_cells(index, job, class.class);
                put([who, times.to_vec(), figures(&class.latency_ns, class.bytes)].concat())?;
            }
        }
    }
    Ok(())
}

/// One row for each occupied bucket: service times, and in an open loop response times too.
pub(super) fn histogram<E>(
    record: &Record,
    put: &mut impl FnMut(Vec<Cell>) -> Result<(), E>,
) -> Result<(), E> {
    for (index, job) in record.jobs.iter().enumerate() {
        let service = job.classes.iter().map(|c| (c.class, "service", &c.latency_ns));
        let open = job.open_loop.iter().flat_map(|open| &open.classes);
        let all = service.chain(open.map(|c| (c.class, "response", &c.response_ns)));
        for (class, time, latency) in all {
            let mut cumulative = 0;
            for (bucket, count) in latency.occupied() {
                cumulative += count;
                let (low, high) = bucket_bounds(bucket);
                let numbers = [low, high, count, cumulative].map(Cell::count);
                let mut cells = job_cells(index, job, class);
                cells.push(Cell::text(time));
                cells.extend(numbers);
                put(cells)?;
            }
        }
    }
    Ok(())
}

/// A trial as a whole: reads and writes of all its jobs together.
pub(super) fn trial(record: &Record, factors: &[String]) -> Vec<Cell> {
    let mut latency = Histogram::new();
    let mut bytes = 0;
    for job in &record.jobs {
        let transfers = job.transfers();
        let all = if transfers.latency_ns.is_empty() {
            job.merged(&OpClass::ON_NAMES)
        } else {
            transfers
        };
        latency.merge(&all.latency_ns);
        bytes += all.bytes;
    }
    let cell = record.cell.as_deref();
    let slot = cell.map(|cell| cell.slot);
    let cpu_ns: u64 = record.jobs.iter().map(|job| job.cpu.total_ns()).sum();
    let figures = cell.map(|cell| &cell.application).filter(|figures| !figures.is_empty());
    let application = figures.and_then(|figures| serde_json::to_string(figures).ok());
    let mut cells = vec![
        slot.map(|slot| u64::from(slot.block)).into(),
        slot.map(|slot| u64::from(slot.place)).into(),
        slot.map(|slot| u64::from(slot.cell)).into(),
        slot.map_or(Cell::Empty, |slot| Cell::Truth(slot.is_sentinel)),
        cell.map(|cell| cell.workload.as_str()).into(),
        cell.and_then(|cell| cell.void.as_deref()).into(),
        cell.map(|cell| seconds(cell.prepare_ns)).into(),
        Cell::number(seconds(record.window_ns)),
        per_second(latency.count(), record.window_ns),
        per_second(bytes, record.window_ns),
        latency.mean().into(),
        quantile(&latency, 0.5),
        quantile(&latency, 0.99),
        quantile(&latency, 0.999),
        latency.max().into(),
        Cell::number(cpu_ns as f64 / latency.count() as f64),
        application.as_deref().into(),
    ];
    cells.extend(factors.iter().map(|factor| {
        let levels = cell.into_iter().flat_map(|cell| &cell.levels);
        let level = levels.into_iter().find(|(name, _)| name == factor);
        Cell::from(level.map(|(_, level)| level.as_str()))
    }));
    cells
}

/// A finding.
pub(super) fn finding(finding: &Finding) -> Vec<Cell> {
    vec![
        Cell::text(&finding.id),
        Cell::Text(word(&finding.severity)),
        Cell::text(&finding.summary),
        Cell::Text(finding.advice.join("\n")),
    ]
}

/// The counters of a block device.
pub(super) fn device(record: &Record, device: &DeviceDelta) -> Vec<Cell> {
    vec![
        Cell::text(&device.name),
        Cell::number(seconds(record.window_ns)),
        Cell::count(device.reads),
        Cell::count(device.read_bytes),
        Cell::count(device.writes),
        Cell::count(device.written_bytes),
        device.flushes.into(),
        Cell::number(device.busy_share(record.window_ns)),
        device.in_flight_mean(record.window_ns).into(),
    ]
}
