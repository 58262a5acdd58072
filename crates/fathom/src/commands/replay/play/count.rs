//! What happens to the requests, counted while they are issued, and told once a second.

use crate::commands::replay::Order;
use fathom_load::replay::{ReplayKind, ReplayQueues, ReplayRequest, ReplayStep};
use fathom_model::event::Event;
use fathom_observe::trace::event::Class;
use fathom_observe::trace::joined::TOGETHER_NS;
use fathom_observe::trace::requests::{Issued, Replayed};
use fathom_stats::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long it waits when there is nothing to count.
const PAUSE: Duration = Duration::from_millis(1);
/// How often progress is told.
const TELL: Duration = Duration::from_secs(1);

/// What was counted.
pub struct Counted {
    /// The load as it was.
    pub replayed: Replayed,
    in_order: InOrder,
    /// How late requests started.
    pub late_ns: Histogram,
    /// From the start to the end, of reads and writes.
    pub service_ns: Histogram,
    /// Requests that ended.
    pub ended: u64,
    /// Of them with an error.
    pub failed: u64,
    /// Writes that had to be durable.
    pub durable: u64,
    /// The first that failed, with its errno.
    pub first_failure: Option<(ReplayRequest, i32)>,
    is_timed: bool,
    /// When the request before arrived.
    arrived_ns: u64,
    seen_ns: u64,
    now: Now,
}

/// What happened, in the order of the trace: what goes together starts with the last of it, and arrived before others that have started
/// already.
struct InOrder {
    /// By when they were due.
    starts: BTreeMap<(u64, u64), (u64, Issued)>,
    /// By their time.
    ends: BTreeMap<(u64, u64), End>,
    /// What starts later was due at most so much before what has started.
    before_ns_max: u64,
    due_ns: u64,
    number: u64,
    /// Told with no end yet.
    open: u64,
}

struct End {
    issued: Issued,
    due_ns: Option<u64>,
    start_ns: u64,
    has_failed: bool,
}

/// The next that is told.
enum Told {
    /// At that time.
    Start(u64, Issued),
    /// At that time.
    End(u64, End),
}

/// So many starts are held back at most: where the times of a trace stand still.
const HELD: usize = 1 << 14;

impl InOrder {
    fn new(before_ns_max: u64) -> Self {
        let (starts, ends) = (BTreeMap::new(), BTreeMap::new());
        Self { starts, ends, before_ns_max, due_ns: 0, number: 0, open: 0 }
    }

    fn start(&mut self, due_ns: u64, arrived_ns: u64, issued: Issued) {
        self.due_ns = self.due_ns.max(due_ns);
        self.number += 1;
        self.starts.insert((due_ns, self.number), (arrived_ns, issued));
    }

    fn end(&mut self, end_ns: u64, end: End) {
        self.number += 1;
        self.ends.insert((end_ns, self.number), end);
    }

    /// The next one that none comes before any more; when all is over, the next one.
    fn next(&mut self, is_over: bool) -> Option<Told> {
        let start = self.starts.first_key_value().map(|((due, _), (arrived, _))| (*due, *arrived));
        let end_ns = self.ends.first_key_value().map(|((end_ns, _), _)| *end_ns);
        let is_end = end_ns.is_some_and(|end_ns| {
            self.open > 0 && start.is_none_or(|(_, arrived_ns)| end_ns < arrived_ns)
        });
        if is_end {
            self.open -= 1;
            return self.ends.pop_first().map(|((end_ns, _), end)| Told::End(end_ns, end));
        }
        let (due_ns, _) = start?;
        let is_next = due_ns + self.before_ns_max <= self.due_ns || self.starts.len() > HELD;
        if !is_over && !is_next {
            return None;
        }
        self.open += 1;
        self.starts.pop_first().map(|(_, (arrived_ns, issued))| Told::Start(arrived_ns, issued))
    }
}

/// Since progress was told.
#[derive(Default)]
struct Now {
    ended: u64,
    bytes: u64,
    latency_ns: Histogram,
}

/// Takes what happened out of the queue until nothing more will.
pub fn count(
    order: &Order<'_>,
    (label, size_bytes): (&str, u64),
    queues: &ReplayQueues,
    tell: &mut dyn FnMut(Event),
) -> Counted {
    let mut counted = Counted::new(size_bytes, order.speed);
    let begun = Instant::now();
    let mut told = begun;
    loop {
        // Read before the queue: what was pushed before is then seen.
        let is_done = queues.is_done.load(Ordering::Acquire);
        while let Some(step) = queues.steps.pop() {
            counted.add(step);
        }
        if is_done {
            counted.tell(true);
            return counted;
        }
        if told.elapsed() >= TELL {
            let passed = told.elapsed();
            told += passed;
            tell(counted.progress(order, label, (begun.elapsed(), passed)));
        }
        std::thread::sleep(PAUSE);
    }
}

impl Counted {
    fn new(size_bytes: u64, speed: Option<f64>) -> Self {
        let before_ns_max = TOGETHER_NS as f64 / speed.unwrap_or(1.0);
        Self {
            replayed: Replayed::new(size_bytes),
            in_order: InOrder::new(before_ns_max.ceil() as u64),
            late_ns: Histogram::new(),
            service_ns: Histogram::new(),
            ended: 0,
            failed: 0,
            durable: 0,
            first_failure: None,
            is_timed: speed.is_some(),
            arrived_ns: 0,
            seen_ns: 0,
            now: Now::default(),
        }
    }

    fn add(&mut self, step: ReplayStep) {
        let ReplayStep { request, arrived_ns, start_ns, ended } = step;
        let issued = Issued {
            class: match request.kind {
                ReplayKind::Read => Class::Read,
                ReplayKind::Write => Class::Write,
                ReplayKind::Flush => Class::Flush,
            },
            offset_bytes: request.offset_bytes,
            size_bytes: request.size_bytes,
            is_durable: request.flush_before || request.flush_after,
        };
        match ended {
            None => {
                // The rest of a request arrived with it.
                self.arrived_ns = if request.is_rest { self.arrived_ns } else { arrived_ns };
                self.durable += u64::from(issued.is_durable);
                if self.is_timed {
                    self.late_ns.record(arrived_ns.saturating_sub(request.due_ns));
                }
                self.in_order.start(request.due_ns, self.arrived_ns, issued);
            }
            Some((end_ns, errno)) => {
                self.count_end(&request, end_ns.saturating_sub(start_ns), errno);
                let due_ns = self.is_timed.then_some(request.due_ns);
                let has_failed = errno != 0;
                self.in_order.end(end_ns, End { issued, due_ns, start_ns, has_failed });
            }
        }
        self.tell(false);
    }

    fn count_end(&mut self, request: &ReplayRequest, service_ns: u64, errno: i32) {
        self.ended += 1;
        self.now.ended += 1;
        self.now.bytes += u64::from(request.size_bytes);
        if request.kind != ReplayKind::Flush {
            self.service_ns.record(service_ns);
            self.now.latency_ns.record(service_ns);
        }
        if errno != 0 {
            self.failed += 1;
            self.first_failure.get_or_insert((*request, errno));
        }
    }

    /// Tells what is in order. What comes late all the same, as the rest of a request that waited for a place, is told now.
    fn tell(&mut self, is_over: bool) {
        while let Some(told) = self.in_order.next(is_over) {
            match told {
                Told::Start(arrived_ns, issued) => {
                    self.seen_ns = self.seen_ns.max(arrived_ns);
                    self.replayed.starts(self.seen_ns, &issued);
                }
                Told::End(end_ns, End { issued, due_ns, start_ns, has_failed }) => {
                    self.seen_ns = self.seen_ns.max(end_ns);
                    self.replayed.ends((due_ns, start_ns, self.seen_ns), &issued, has_failed);
                }
            }
        }
    }

    fn progress(
        &mut self,
        order: &Order<'_>,
        label: &str,
        (elapsed, passed): (Duration, Duration),
    ) -> Event {
        let now = std::mem::take(&mut self.now);
        let seconds = passed.as_secs_f64().max(1e-9);
        let elapsed_ns = elapsed.as_nanos() as u64;
        let left = order.reference.requests().saturating_sub(self.ended);
        let rate = self.ended as f64 / elapsed.as_secs_f64().max(1e-9);
        let eta_ns = match order.length_ns() {
            Some(length_ns) => Some(length_ns.saturating_sub(elapsed_ns)),
            None => (rate > 0.0).then(|| (left as f64 / rate * 1e9) as u64),
        };
        Event::Progress {
            label: label.to_owned(),
            elapsed_ns,
            eta_ns,
            iops: now.ended as f64 / seconds,
            bytes_per_s: now.bytes as f64 / seconds,
            latency_ns_p50: now.latency_ns.quantile(0.5),
            latency_ns_p99: now.latency_ns.quantile(0.99),
            latency_ns_max: now.latency_ns.max(),
            in_flight: now.latency_ns.mean().unwrap_or(0.0) * now.ended as f64 / seconds / 1e9,
            devices: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(due_us: u64, (arrived_us, start_us): (u64, u64), end_us: Option<u64>) -> ReplayStep {
        let kind = ReplayKind::Write;
        let request = ReplayRequest {
            due_ns: due_us * 1000,
            kind,
            offset_bytes: due_us << 20,
            size_bytes: 4096,
            flush_before: false,
            flush_after: false,
            is_rest: false,
            is_followed: false,
        };
        let ended = end_us.map(|us| (us * 1000, 0));
        ReplayStep { request, arrived_ns: arrived_us * 1000, start_ns: start_us * 1000, ended }
    }

    /// What waited for others that go with it arrived at its time, before others that started meanwhile, however late these were.
    #[test]
    fn arrivals_are_told_in_their_order() {
        let mut counted = Counted::new(1 << 30, Some(1.0));
        let steps = [(100, 100), (190, 210), (0, 200), (200, 200)];
        for (due, start) in steps {
            let arrived = if due == 0 { 0 } else { start };
            counted.add(step(due, (arrived, start), None));
        }
        for (due, start) in steps {
            counted.add(step(due, (due, start), Some(300)));
        }
        assert_eq!(counted.in_order.starts.len(), 4);
        counted.tell(true);
        assert_eq!(counted.late_ns.max(), Some(20_000));
        let record = counted.replayed.finish();
        let gaps = &record.arrivals.gap_ns;
        assert_eq!((gaps.count(), gaps.min(), gaps.sum()), (3, Some(0), 210_000));
        let writes = record.class("write").expect("writes");
        assert_eq!(
            (writes.total_ns.max(), writes.service_ns.max()),
            (Some(300_000), Some(200_000))
        );
        assert_eq!(record.depth_ns, [0, 100_000, 110_000, 0, 90_000]);
        assert_eq!(record.faults.late, 0);
        // Places of MiB that grow with the time: none is gone back to.
        assert_eq!(record.places.seek_bytes.max(), Some((100 << 20) - 4096));
    }

    #[test]
    fn what_has_started_is_held_back_for_a_millisecond_of_the_trace() {
        let mut counted = Counted::new(1 << 30, Some(0.5));
        counted.add(step(0, (0, 0), None));
        counted.add(step(0, (0, 0), Some(50)));
        counted.add(step(1999, (1999, 1999), None));
        assert_eq!((counted.in_order.starts.len(), counted.in_order.ends.len()), (2, 1));
        counted.add(step(2000, (2000, 2000), None));
        assert_eq!((counted.in_order.starts.len(), counted.in_order.ends.len()), (2, 0));
        // Where times stand still they are not kept for ever.
        (0..2 * HELD).for_each(|_| counted.add(step(2000, (2000, 2000), None)));
        assert_eq!(counted.in_order.starts.len(), HELD);
    }
}
