//! Collecting what the workers note: buffers become series, series become job records.

use crate::lane::{Finished, Lane, Shared};
use crate::recorder::{IntervalBuffer, SLOWEST_KEPT};
use crate::run::{Control, Observer, Outcome, Tick};
use fathom_base::clock::Clock;
use fathom_model::record::{
    ClassRecord, CpuTime, EngineRecord, IntervalRecord, JobRecord, OpClass,
};
use fathom_stats::Histogram;
use fathom_sys::clock;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// Interval sums of one job, while they come in.
#[derive(Default)]
struct Series {
    intervals: BTreeMap<u64, (u64, Vec<Histogram>, Vec<u64>)>,
}

impl Series {
    fn add(&mut self, buffer: &IntervalBuffer, interval_ns: u64) {
        if buffer.length_ns == 0 && buffer.latency_ns.iter().all(Histogram::is_empty) {
            return;
        }
        let start_ns = buffer.start_ns / interval_ns * interval_ns;
        let entry = self.intervals.entry(start_ns).or_insert_with(|| {
            let classes = buffer.latency_ns.len();
            (0, vec![Histogram::new(); classes], vec![0; classes])
        });
        entry.0 = entry.0.max(buffer.length_ns);
        entry.1.iter_mut().zip(&buffer.latency_ns).for_each(|(sum, part)| sum.merge(part));
        entry.2.iter_mut().zip(&buffer.bytes).for_each(|(sum, part)| *sum += part);
    }
}

impl Series {
    /// The intervals in order; those in which nothing ended are there too, empty.
    fn records(&self, classes: &[OpClass], interval_ns: u64) -> Vec<IntervalRecord> {
        let mut records: Vec<IntervalRecord> = Vec::new();
        for (start_ns, (length_ns, latency_ns, bytes)) in &self.intervals {
            let mut next_ns = records.last().map_or(0, |r| r.start_ns + r.length_ns);
            while next_ns < *start_ns {
                let length_ns = interval_ns.min(start_ns - next_ns);
                records.push(IntervalRecord { start_ns: next_ns, length_ns, classes: Vec::new() });
                next_ns += length_ns;
            }
            let classes = class_records(classes, latency_ns, bytes);
            records.push(IntervalRecord { start_ns: *start_ns, length_ns: *length_ns, classes });
        }
        records
    }
}

fn class_records(classes: &[OpClass], latency_ns: &[Histogram], bytes: &[u64]) -> Vec<ClassRecord> {
    let zipped = classes.iter().zip(latency_ns).zip(bytes);
    zipped
        .filter(|((_, histogram), _)| !histogram.is_empty())
        .map(|((class, histogram), bytes)| ClassRecord {
            class: *class,
            latency_ns: histogram.clone(),
            bytes: *bytes,
        })
        .collect()
}

/// How often the exchanges are emptied: well before a worker runs out of spare buffers.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Watches a started run until its last worker has finished.
pub fn collect(
    lanes: &[Lane<'_>],
    shared: &Shared<'_>,
    control: &Control<'_>,
    done: &mpsc::Receiver<Option<Finished>>,
    observer: &mut dyn Observer,
) -> Outcome {
    let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
    let mut collector = Collector {
        lanes,
        control,
        window_start_ns,
        series: lanes.iter().map(|_| Series::default()).collect(),
        finished: Vec::new(),
    };
    let mut workers: usize = lanes.iter().map(|l| l.threads as usize).sum();
    let mut next_tick_ns = window_start_ns + control.interval_ns;
    let mut window = Window::Before;
    let started_unix_ns =
        clock::unix_ns() + (window_start_ns as i64 - control.clock.now_ns() as i64);
    while workers > 0 {
        let now_ns = control.clock.now_ns();
        if window == Window::Before && now_ns >= window_start_ns {
            window = Window::Inside;
            observer.window_begins();
        }
        if window == Window::Inside && collector.planned_end_ns().is_some_and(|end| now_ns >= end) {
            window = Window::After;
            observer.window_ends();
        }
        if now_ns >= next_tick_ns {
            next_tick_ns += control.interval_ns;
            collector.drain();
            observer.tick(collector.tick(now_ns));
        }
        let wait = collector.wait(now_ns, window);
        match done.recv_timeout(wait) {
            Ok(finished) => {
                workers -= 1;
                collector.finished.extend(finished);
            }
            Err(mpsc::RecvTimeoutError::Timeout) => collector.drain(),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    if window == Window::Before {
        observer.window_begins();
    }
    if window != Window::After {
        observer.window_ends();
    }
    collector.drain();
    let failure = shared.failure.lock().ok().and_then(|mut slot| slot.take());
    collector.outcome(started_unix_ns, shared.stop.is_set(), failure)
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Window {
    Before,
    Inside,
    After,
}

struct Collector<'a> {
    lanes: &'a [Lane<'a>],
    control: &'a Control<'a>,
    window_start_ns: u64,
    series: Vec<Series>,
    finished: Vec<Finished>,
}

impl Collector<'_> {
    /// When the last job ends by the clock; none when one ends by amount or operations alone.
    fn planned_end_ns(&self) -> Option<u64> {
        let ends = self
            .lanes
            .iter()
            .map(|l| l.plan().job.duration_ns.filter(|_| l.plan().job.sync_at_end.is_none()));
        ends.collect::<Option<Vec<u64>>>()?
            .into_iter()
            .max()
            .map(|d| self.window_start_ns.saturating_add(d))
    }

    /// How long to wait for the next thing that happens.
    fn wait(&self, now_ns: u64, window: Window) -> Duration {
        let poll_ns = (self.control.interval_ns / 2).min(POLL_MAX.as_nanos() as u64);
        let event_ns = match window {
            Window::Before => Some(self.window_start_ns),
            Window::Inside => self.planned_end_ns(),
            Window::After => None,
        };
        let to_event_ns =
            event_ns.map_or(u64::MAX, |event| event.saturating_sub(now_ns).max(10_000));
        Duration::from_nanos(poll_ns.min(to_event_ns))
    }

    /// Empties every exchange and gives the buffers back.
    fn drain(&mut self) {
        for (lane, series) in self.lanes.iter().zip(&mut self.series) {
            for exchange in &lane.exchanges {
                while let Some(mut buffer) = exchange.full.pop() {
                    series.add(&buffer, self.control.interval_ns);
                    buffer.clear();
                    let _ = exchange.empty.push(buffer);
                }
            }
        }
    }

    fn tick(&self, now_ns: u64) -> Tick {
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        let mut tick = Tick { elapsed_ns, ..Tick::default() };
        let last =
            (elapsed_ns / self.control.interval_ns).saturating_sub(1) * self.control.interval_ns;
        let mut latency_ns = Histogram::new();
        for (lane, series) in self.lanes.iter().zip(&self.series) {
            for (start, (length_ns, histograms, bytes)) in &series.intervals {
                for (index, class) in lane.classes.iter().enumerate() {
                    let moves =
                        matches!(class, OpClass::Read | OpClass::Write | OpClass::SyncedWrite);
                    // A write with its sync is what its caller waits for.
                    let waits = matches!(class, OpClass::Read | OpClass::Write | OpClass::Commit);
                    if moves {
                        tick.bytes_total += bytes[index];
                    }
                    if *start == last && moves {
                        let seconds = (*length_ns).max(1) as f64 / 1e9;
                        tick.iops += histograms[index].count() as f64 / seconds;
                        tick.bytes_per_s += bytes[index] as f64 / seconds;
                    }
                    if *start == last && waits {
                        latency_ns.merge(&histograms[index]);
                    }
                }
            }
        }
        tick.latency_ns_p99 = latency_ns.quantile(0.99);
        tick
    }

    fn outcome(
        mut self,
        started_unix_ns: i64,
        interrupted: bool,
        failure: Option<fathom_model::record::IoFailure>,
    ) -> Outcome {
        let finished = std::mem::take(&mut self.finished);
        for worker in &finished {
            self.series[worker.lane].add(&worker.last, self.control.interval_ns);
        }
        let jobs: Vec<JobRecord> = (0..self.lanes.len())
            .map(|lane| {
                let workers: Vec<&Finished> = finished.iter().filter(|f| f.lane == lane).collect();
                self.job_record(lane, &workers)
            })
            .collect();
        let window_ns = jobs.iter().map(|j| j.window_ns).max().unwrap_or(0);
        Outcome { jobs, started_unix_ns, window_ns, interrupted, failure }
    }

    fn job_record(&self, lane: usize, workers: &[&Finished]) -> JobRecord {
        let (series, lane) = (&self.series[lane], &self.lanes[lane]);
        let mut latency_ns = vec![Histogram::new(); lane.classes.len()];
        let mut bytes = vec![0; lane.classes.len()];
        for (_, histograms, moved) in series.intervals.values() {
            latency_ns.iter_mut().zip(histograms).for_each(|(sum, part)| sum.merge(part));
            bytes.iter_mut().zip(moved).for_each(|(sum, part)| *sum += part);
        }
        let mut slowest: Vec<_> = workers.iter().flat_map(|w| w.slowest.iter().copied()).collect();
        slowest.sort_by_key(|op| std::cmp::Reverse(op.latency_ns));
        slowest.truncate(SLOWEST_KEPT);
        let mut censored: Vec<_> =
            workers.iter().flat_map(|w| w.censored.iter().copied()).collect();
        censored.sort_by_key(|op| std::cmp::Reverse(op.age_ns));
        let end_ns = workers.iter().map(|w| w.counts.end_ns).max().unwrap_or(self.window_start_ns);
        let cpu = |f: fn(&Finished) -> u64| workers.iter().map(|w| f(w)).sum::<u64>();
        let job = &lane.plan().job;
        JobRecord {
            name: job.name.clone(),
            engine: EngineRecord {
                kind: lane.kind,
                fallback: lane.fallback.clone(),
                features: workers.first().map(|w| w.features.clone()).unwrap_or_default(),
                threads: lane.threads,
                depth: lane.depth,
                batch: job.batch.min(lane.depth),
            },
            classes: class_records(&lane.classes, &latency_ns, &bytes),
            series: series.records(&lane.classes, self.control.interval_ns),
            slowest,
            censored,
            batches: cpu(|w| w.counts.batches),
            in_flight_sum: cpu(|w| w.counts.in_flight_sum),
            cpu: CpuTime { user_ns: cpu(|w| w.cpu.user_ns), system_ns: cpu(|w| w.cpu.system_ns) },
            thread_operations: workers.iter().map(|w| w.counts.operations).collect(),
            busiest_thread_cpu_ns: workers
                .iter()
                .map(|w| w.cpu.user_ns + w.cpu.system_ns)
                .max()
                .unwrap_or(0),
            final_sync_ns: workers.iter().find_map(|w| w.final_sync_ns),
            window_ns: end_ns.saturating_sub(self.window_start_ns),
        }
    }
}
