//! Collecting what the workers note: buffers become series, series become job records.

use crate::final_sync::FinalSyncs;
use crate::lane::{Finished, Lane, Shared};
use crate::pace::RESPONSE_CLASSES;
use crate::recorder::{IntervalBuffer, SLOWEST_KEPT};
use crate::run::{Control, Observer, Outcome, Syncing, Tick};
use fathom_base::clock::Clock;
use fathom_base::order::Order;
use fathom_model::record::{
    ClassRecord, CpuTime, EngineRecord, IntervalClass, IntervalRecord, IntervalResponse, JobRecord,
    OpClass, OpenInterval, OpenLoopRecord, ResponseClass, ThreadTimes,
};
use fathom_stats::{Histogram, SparseHistogram};
use fathom_sys::clock;
use fathom_sys::threads::CpuUse;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// What ended in one interval, over all threads of a job. It is frozen as soon as it is there: an hour of seconds in
/// dense histograms would be hundreds of megabytes.
struct Interval {
    length_ns: u64,
    latency_ns: Vec<SparseHistogram>,
    bytes: Vec<u64>,
    response_ns: Vec<SparseHistogram>,
    backlog_max: u64,
    backlog_end: u64,
}

/// Sums of one job, while its buffers come in; the vectors are in the order of the job's classes.
struct Series {
    intervals: BTreeMap<u64, Interval>,
    /// Everything together.
    latency_ns: Vec<Histogram>,
    bytes: Vec<u64>,
    /// Response times; nothing in a closed loop.
    response_ns: Vec<Histogram>,
    /// For adding to what is frozen.
    thawed: Histogram,
    /// Which of the classes move data.
    transfers: Vec<usize>,
    /// Of each thread, what it moved and the time that took; its window is known at the end.
    threads: Vec<ThreadTimes>,
}

impl Series {
    fn new(lane: &Lane<'_>) -> Self {
        let (classes, is_open) = (lane.classes.len(), lane.plan().job.rate.is_some());
        let histograms = |count: usize| (0..count).map(|_| Histogram::new()).collect();
        let moves = |index: &usize| OpClass::TRANSFERS.contains(&lane.classes[*index]);
        Self {
            transfers: (0..classes).filter(moves).collect(),
            threads: vec![ThreadTimes::default(); lane.threads as usize],
            intervals: BTreeMap::new(),
            latency_ns: histograms(classes),
            bytes: vec![0; classes],
            response_ns: histograms(if is_open { classes } else { 0 }),
            thawed: Histogram::new(),
        }
    }

    /// Takes in what a thread has noted.
    fn add(&mut self, thread: usize, buffer: &IntervalBuffer, interval_ns: u64) {
        if buffer.length_ns == 0 && buffer.latency_ns.iter().all(Histogram::is_empty) {
            return;
        }
        let start_ns = buffer.start_ns / interval_ns * interval_ns;
        let (classes, responses) = (self.latency_ns.len(), self.response_ns.len());
        let interval = self.intervals.entry(start_ns).or_insert_with(|| Interval {
            length_ns: 0,
            latency_ns: vec![SparseHistogram::default(); classes],
            bytes: vec![0; classes],
            response_ns: vec![SparseHistogram::default(); responses],
            backlog_max: 0,
            backlog_end: 0,
        });
        for &class in &self.transfers {
            let busy_ns = u64::try_from(buffer.latency_ns[class].sum()).unwrap_or(u64::MAX);
            self.threads[thread].busy_ns = self.threads[thread].busy_ns.saturating_add(busy_ns);
            self.threads[thread].bytes += buffer.bytes[class];
        }
        interval.length_ns = interval.length_ns.max(buffer.length_ns);
        interval.backlog_max += buffer.backlog_max;
        interval.backlog_end += buffer.backlog_end;
        let thawed = &mut self.thawed;
        add_all(&mut self.latency_ns, &mut interval.latency_ns, &buffer.latency_ns, thawed);
        add_all(&mut self.response_ns, &mut interval.response_ns, &buffer.response_ns, thawed);
        for (class, moved) in buffer.bytes.iter().enumerate() {
            self.bytes[class] += moved;
            interval.bytes[class] += moved;
        }
    }

    /// Everything together, by class; classes in which nothing ended are left out.
    fn totals(&self, classes: &[OpClass]) -> Vec<ClassRecord> {
        let zipped = classes.iter().zip(&self.latency_ns).zip(&self.bytes);
        zipped
            .filter(|((_, histogram), _)| !histogram.is_empty())
            .map(|((class, latency_ns), bytes)| ClassRecord {
                class: *class,
                latency_ns: latency_ns.clone(),
                bytes: *bytes,
            })
            .collect()
    }

    /// The intervals in order; those in which nothing ended are there too, empty.
    fn records(self, classes: &[OpClass], interval_ns: u64) -> Vec<IntervalRecord> {
        let is_open = !self.response_ns.is_empty();
        let mut records: Vec<IntervalRecord> = Vec::new();
        let mut intervals = self.intervals.into_iter().peekable();
        while let Some((start_ns, mut interval)) = intervals.next() {
            // A thread without a spare buffer noted several intervals as one: those of the others join it.
            let is_inside = |end_ns: u64| move |(at_ns, _): &(u64, Interval)| *at_ns < end_ns;
            while let Some((at_ns, part)) =
                intervals.next_if(is_inside(start_ns + interval.length_ns))
            {
                interval.join(at_ns - start_ns, part);
            }
            let mut next_ns = records.last().map_or(0, |r| r.start_ns + r.length_ns);
            while next_ns < start_ns {
                let length_ns = interval_ns.min(start_ns - next_ns);
                let (classes, open_loop) = (Vec::new(), None);
                records.push(IntervalRecord { start_ns: next_ns, length_ns, classes, open_loop });
                next_ns += length_ns;
            }
            let open_loop = is_open.then(|| interval.open_loop(classes));
            let zipped = classes.iter().zip(interval.latency_ns).zip(interval.bytes);
            let classes = zipped
                .filter(|((_, histogram), _)| !histogram.is_empty())
                .map(|((class, latency_ns), bytes)| IntervalClass {
                    class: *class,
                    latency_ns,
                    bytes,
                })
                .collect();
            let length_ns = interval.length_ns;
            records.push(IntervalRecord { start_ns, length_ns, classes, open_loop });
        }
        records.shrink_to_fit();
        records
    }
}

impl Interval {
    /// Takes in what ended in an interval that begins so long after this one.
    fn join(&mut self, after_ns: u64, other: Self) {
        let mut both = Histogram::new();
        let mut merge = |own: &mut [SparseHistogram], others: &[SparseHistogram]| {
            for (own, other) in own.iter_mut().zip(others) {
                both.clear();
                both.merge_sparse(own);
                both.merge_sparse(other);
                *own = SparseHistogram::from(&both);
            }
        };
        merge(&mut self.latency_ns, &other.latency_ns);
        merge(&mut self.response_ns, &other.response_ns);
        self.bytes.iter_mut().zip(other.bytes).for_each(|(own, other)| *own += other);
        self.length_ns = self.length_ns.max(after_ns + other.length_ns);
        self.backlog_max = self.backlog_max.max(other.backlog_max);
        self.backlog_end = self.backlog_end.max(other.backlog_end);
    }

    /// How an open loop kept up in it.
    fn open_loop(&self, classes: &[OpClass]) -> OpenInterval {
        let ended = classes.iter().zip(&self.response_ns).filter(|(_, part)| !part.is_empty());
        let response = |(class, part): (&OpClass, &SparseHistogram)| IntervalResponse {
            class: *class,
            response_ns: part.clone(),
        };
        OpenInterval {
            backlog_max: self.backlog_max,
            backlog_end: self.backlog_end,
            classes: ended.map(response).collect(),
        }
    }
}

/// Adds histograms of one buffer to the totals and to what is frozen.
fn add_all(
    totals: &mut [Histogram],
    frozen: &mut [SparseHistogram],
    parts: &[Histogram],
    thawed: &mut Histogram,
) {
    for (class, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
        totals[class].merge(part);
        thawed.clear();
        thawed.merge_sparse(&frozen[class]);
        thawed.merge(part);
        frozen[class] = SparseHistogram::from(&*thawed);
    }
}

/// How the open loop of all workers together went, from the response times of what ended.
fn open_loop(
    response_ns: &[Histogram],
    classes: &[OpClass],
    workers: &[&Finished],
) -> Option<OpenLoopRecord> {
    let mut sum = OpenLoopRecord::default();
    let ends: Vec<_> = workers.iter().filter_map(|w| w.open_loop.as_ref()).collect();
    for end in &ends {
        sum.due += end.due;
        sum.backlog_start += end.backlog_start;
        sum.not_started += end.not_started;
        sum.oldest_not_started_ns = sum.oldest_not_started_ns.max(end.oldest_not_started_ns);
        sum.start_delay_ns.merge(&end.start_delay_ns);
    }
    for (index, class) in RESPONSE_CLASSES.into_iter().enumerate() {
        let Some(ended) = classes.iter().position(|known| *known == class) else { continue };
        let response_ns = response_ns.get(ended)?.clone();
        let mut unfinished_ns = Histogram::new();
        ends.iter().for_each(|end| unfinished_ns.merge(&end.unfinished_ns[index]));
        if !response_ns.is_empty() || !unfinished_ns.is_empty() {
            sum.classes.push(ResponseClass { class, response_ns, unfinished_ns });
        }
    }
    (!ends.is_empty()).then_some(sum)
}

/// How often the exchanges are emptied: well before a worker runs out of spare buffers.
const POLL_MAX: Duration = Duration::from_millis(100);

/// Watches a started run until its last worker has finished. `window` is where it is, as the observer knows it.
pub fn collect(
    lanes: &[Lane<'_>],
    shared: &Shared<'_>,
    control: &Control<'_>,
    done: &mpsc::Receiver<Option<Finished>>,
    mut window: Window,
    observer: &mut dyn Observer,
) -> Outcome {
    let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
    let mut collector = Collector {
        lanes,
        control,
        window_start_ns,
        series: lanes.iter().map(Series::new).collect(),
        finished: Vec::new(),
        held_up_ns: 0,
        final_syncs: &shared.final_syncs,
    };
    let mut workers: usize = lanes.iter().map(|l| l.threads as usize).sum();
    let mut next_tick_ns = window_start_ns + control.interval_ns;
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
        // The last interval is whole only when every worker has given up its part.
        if now_ns >= next_tick_ns && window != Window::After {
            next_tick_ns += control.interval_ns;
            collector.drain();
            observer.tick(collector.tick(now_ns));
        }
        let wait = collector.wait(now_ns, window);
        let due_ns = control.clock.now_ns() + wait.as_nanos() as u64;
        let woken = done.recv_timeout(wait);
        collector.note_delay(due_ns, control.clock.now_ns());
        match woken {
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
    if let Some(border_ns) = collector.last_border_ns().filter(|border| *border >= next_tick_ns) {
        observer.tick(collector.tick(border_ns));
    }
    let failure = shared.failure.lock().ok().and_then(|mut slot| slot.take());
    collector.outcome(started_unix_ns, shared.stop.is_set(), failure)
}

/// The part of a delay that lies in the window. Less than a tenth of a second is how schedulers are on a busy machine.
fn delay_inside(due_ns: u64, woken_ns: u64, start_ns: u64, end_ns: u64) -> u64 {
    const LEAST_NS: u64 = 100_000_000;
    if woken_ns.saturating_sub(due_ns) < LEAST_NS {
        return 0;
    }
    woken_ns.min(end_ns).saturating_sub(due_ns.max(start_ns))
}

/// Where a run is.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Window {
    /// In its warm-up.
    Before,
    /// In what counts.
    Inside,
    /// At its end.
    After,
}

struct Collector<'a> {
    lanes: &'a [Lane<'a>],
    control: &'a Control<'a>,
    window_start_ns: u64,
    series: Vec<Series>,
    finished: Vec<Finished>,
    held_up_ns: u64,
    final_syncs: &'a FinalSyncs,
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

    /// Adds up by how much this thread, which waits for nothing but time, woke too late: a device that does not
    /// answer holds up workers, never this one.
    fn note_delay(&mut self, due_ns: u64, woken_ns: u64) {
        let end_ns = self.planned_end_ns().unwrap_or(u64::MAX);
        self.held_up_ns += delay_inside(due_ns, woken_ns, self.window_start_ns, end_ns);
    }

    /// Empties every exchange and gives the buffers back.
    fn drain(&mut self) {
        for (lane, series) in self.lanes.iter().zip(&mut self.series) {
            for (thread, exchange) in lane.exchanges.iter().enumerate() {
                while let Some(mut buffer) = exchange.full.pop() {
                    series.add(thread, &buffer, self.control.interval_ns);
                    buffer.clear();
                    let _ = exchange.empty.push(buffer);
                }
            }
        }
    }

    /// Start of the newest interval that is over, in nanoseconds of the window.
    fn last_start_ns(&self, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        (elapsed_ns / self.control.interval_ns).saturating_sub(1) * self.control.interval_ns
    }

    /// True when a worker has closed the newest interval that is over.
    fn has_closed_before(&self, now_ns: u64) -> bool {
        let last = self.last_start_ns(now_ns);
        self.series.iter().any(|series| series.intervals.contains_key(&last))
    }

    /// End of the newest interval that a worker has closed.
    fn last_border_ns(&self) -> Option<u64> {
        let newest = self.series.iter().filter_map(|series| series.intervals.last_key_value());
        let start_ns = newest.map(|(start_ns, _)| *start_ns).max()?;
        Some(self.window_start_ns + start_ns + self.control.interval_ns)
    }

    /// How far the last syncs are, once nobody issues anything else.
    fn syncing(&self, now_ns: u64) -> Option<Syncing> {
        let is_all_issued = self.lanes.iter().all(Lane::has_issued_all);
        self.final_syncs.now(now_ns).filter(|_| is_all_issued)
    }

    fn tick(&self, now_ns: u64) -> Tick {
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        let syncing = self.syncing(now_ns);
        let mut tick = Tick { elapsed_ns, syncing, ..Tick::default() };
        let mut last = self.last_start_ns(now_ns);
        // A worker closes an interval with its next request, which may take a while. One older than that would hide that
        // nothing ends any more.
        if !self.has_closed_before(now_ns) {
            last = last.saturating_sub(self.control.interval_ns);
        }
        let mut latency_ns = Histogram::new();
        for (lane, series) in self.lanes.iter().zip(&self.series) {
            let interval = series.intervals.get(&last);
            for (index, class) in lane.classes.iter().enumerate() {
                let moves = OpClass::TRANSFERS.contains(class);
                let is_on_names = OpClass::ON_NAMES.contains(class);
                // A write with its sync is what its caller waits for.
                let waits = matches!(class, OpClass::Read | OpClass::Write | OpClass::Commit);
                if moves {
                    tick.bytes_total += series.bytes[index];
                }
                let Some(interval) = interval else { continue };
                if moves || is_on_names {
                    let seconds = interval.length_ns.max(1) as f64 / 1e9;
                    tick.iops += interval.latency_ns[index].count() as f64 / seconds;
                    tick.bytes_per_s += interval.bytes[index] as f64 / seconds;
                    tick.in_flight += interval.latency_ns[index].sum() as f64 / 1e9 / seconds;
                }
                if waits || is_on_names {
                    latency_ns.merge_sparse(&interval.latency_ns[index]);
                }
            }
        }
        tick.latency_ns_p50 = latency_ns.quantile(0.5);
        tick.latency_ns_p99 = latency_ns.quantile(0.99);
        tick.latency_ns_max = latency_ns.max();
        tick
    }

    fn outcome(
        mut self,
        started_unix_ns: i64,
        interrupted: bool,
        failure: Option<fathom_model::record::IoFailure>,
    ) -> Outcome {
        for worker in &self.finished {
            let series = &mut self.series[worker.lane];
            series.add(worker.thread as usize, &worker.last, self.control.interval_ns);
        }
        self.finished.order_by_key(|worker| (worker.lane, worker.thread));
        let all_series = std::mem::take(&mut self.series);
        let jobs: Vec<JobRecord> = all_series
            .into_iter()
            .enumerate()
            .map(|(lane, series)| {
                let of_lane = self.finished.iter().filter(|f| f.lane == lane);
                self.job_record(lane, series, &of_lane.collect::<Vec<_>>())
            })
            .collect();
        let window_ns = jobs.iter().map(|j| j.window_ns).max().unwrap_or(0);
        let held_up_ns = self.held_up_ns;
        let books = self.finished.into_iter().filter_map(|worker| worker.book).collect();
        let apart_cpu = CpuTime::default();
        Outcome {
            jobs,
            started_unix_ns,
            window_ns,
            held_up_ns,
            interrupted,
            failure,
            books,
            apart_cpu,
        }
    }

    /// What a thread moved, over its own window.
    fn times_of(&self, worker: &Finished, series: &Series) -> ThreadTimes {
        let window_ns = worker.counts.end_ns.saturating_sub(self.window_start_ns);
        let known = series.threads.get(worker.thread as usize).copied().unwrap_or_default();
        ThreadTimes { window_ns, ..known }
    }

    fn job_record(&self, lane: usize, series: Series, workers: &[&Finished]) -> JobRecord {
        let lane = &self.lanes[lane];
        let mut slowest: Vec<_> = workers.iter().flat_map(|w| w.slowest.iter().copied()).collect();
        slowest.order_by_key(|op| std::cmp::Reverse(op.latency_ns));
        slowest.truncate(SLOWEST_KEPT);
        let mut censored: Vec<_> =
            workers.iter().flat_map(|w| w.censored.iter().copied()).collect();
        censored.order_by_key(|op| std::cmp::Reverse(op.age_ns));
        let end_ns = workers.iter().map(|w| w.counts.end_ns).max().unwrap_or(self.window_start_ns);
        let cpu = |f: fn(&CpuUse) -> u64| workers.iter().map(|w| f(&w.cpu)).sum::<u64>();
        let job = &lane.plan().job;
        let open_loop = open_loop(&series.response_ns, &lane.classes, workers);
        let thread_times = workers.iter().map(|w| self.times_of(w, &series)).collect();
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
            classes: series.totals(&lane.classes),
            series: series.records(&lane.classes, self.control.interval_ns),
            slowest,
            censored,
            batches: workers.iter().map(|w| w.counts.batches).sum(),
            cpu: CpuTime { user_ns: cpu(|c| c.user_ns), system_ns: cpu(|c| c.system_ns) },
            limits: lane.limits.get().copied().unwrap_or_default(),
            thread_operations: workers.iter().map(|w| w.counts.operations).collect(),
            thread_times,
            busiest_thread_cpu_ns: workers
                .iter()
                .map(|w| w.cpu.user_ns + w.cpu.system_ns)
                .max()
                .unwrap_or(0),
            final_sync_ns: final_sync(
                workers.iter().map(|w| w.final_sync_ns),
                lane.plan().has_files_of_threads(),
            ),
            window_ns: end_ns.saturating_sub(self.window_start_ns),
            open_loop,
            verify: None,
            delivered: None,
            control_group: None,
        }
    }
}

/// How long a job's last sync took: that of the thread that was the last to end or, where each thread syncs a file of its own
/// while others go on, the mean of all threads.
fn final_sync(of_threads: impl Iterator<Item = Option<u64>> + Clone, is_each: bool) -> Option<u64> {
    let threads = of_threads.clone().count() as u64;
    let syncs = of_threads.flatten();
    let longest_ns = syncs.clone().max()?;
    Some(if is_each { syncs.sum::<u64>() / threads } else { longest_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_beside_requests_of_others_is_no_idle_time_of_the_job() {
        // Depth 1: one thread writes for 10 s, and syncs for 5 s while the other one writes.
        let (busy_s, window_s) = (10 + 15, 15);
        let sync_s = final_sync([Some(5), Some(0)].into_iter(), true).expect("synced");
        assert!(busy_s <= 2 * (window_s - sync_s), "two are in flight at the most");
        assert_eq!(final_sync([Some(6), None, Some(3)].into_iter(), true), Some(3));
        // The last one syncs for all: nothing is in flight.
        assert_eq!(final_sync([None, Some(5), None].into_iter(), false), Some(5));
        assert_eq!(final_sync([None, None].into_iter(), true), None);
    }

    #[test]
    fn intervals_of_a_thread_that_was_held_up_do_not_overlap_those_of_others() {
        const MS: u64 = 1_000_000;
        let mut series = Series {
            transfers: vec![0],
            threads: vec![ThreadTimes::default(); 2],
            intervals: BTreeMap::new(),
            latency_ns: vec![Histogram::new()],
            bytes: vec![0],
            response_ns: Vec::new(),
            thawed: Histogram::new(),
        };
        let mut note = |thread, start_ms: u64, length_ms: u64, count| {
            let mut buffer = IntervalBuffer::new(1, false);
            (buffer.start_ns, buffer.length_ns) = (start_ms * MS, length_ms * MS);
            buffer.latency_ns[0].record_n(1000, count);
            buffer.bytes[0] = 4096 * count;
            series.add(thread, &buffer, 10 * MS);
        };
        for start_ms in [0, 10, 20, 30, 40, 50, 60] {
            note(0, start_ms, 10, 1);
        }
        for (start_ms, length_ms, count) in [(0, 10, 1), (10, 10, 1), (20, 40, 4), (60, 10, 1)] {
            note(1, start_ms, length_ms, count);
        }
        let records = series.records(&[OpClass::Read], 10 * MS);
        let seen: Vec<(u64, u64, u64, u64)> = records
            .iter()
            .map(|r| {
                let class = &r.classes[0];
                (r.start_ns / MS, r.length_ns / MS, class.latency_ns.count(), class.bytes / 4096)
            })
            .collect();
        assert_eq!(seen, [(0, 10, 2, 2), (10, 10, 2, 2), (20, 40, 8, 8), (60, 10, 2, 2)]);
    }

    #[test]
    fn delays_count_inside_the_window_only() {
        const MS: u64 = 1_000_000;
        let inside = |due_ms: u64, woken_ms: u64| {
            delay_inside(due_ms * MS, woken_ms * MS, 1000 * MS, 4000 * MS) / MS
        };
        assert_eq!(inside(2000, 3500), 1500);
        assert_eq!(inside(2000, 2099), 0, "a late timer");
        assert_eq!(inside(2100, 2000), 0, "woken early, by a worker that has ended");
        assert_eq!(inside(500, 2500), 1500, "begun before the window");
        assert_eq!(inside(3500, 9000), 500, "ended after it");
        assert_eq!(inside(100, 900), 0);
        assert_eq!(inside(5000, 9000), 0);
    }
}
