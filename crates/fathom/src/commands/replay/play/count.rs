//! What happens to the requests, counted while they are issued, and told once a second.

use crate::commands::replay::Order;
use fathom_load::replay::{ReplayKind, ReplayQueues, ReplayRequest, ReplayStep};
use fathom_model::event::Event;
use fathom_observe::trace::event::Class;
use fathom_observe::trace::requests::{Issued, Replayed};
use fathom_stats::Histogram;
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
    seen_ns: u64,
    now: Now,
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
    let mut counted = Counted::new(size_bytes, order.speed.is_some());
    let begun = Instant::now();
    let mut told = begun;
    loop {
        // Read before the queue: what was pushed before is then seen.
        let is_done = queues.is_done.load(Ordering::Acquire);
        while let Some(step) = queues.steps.pop() {
            counted.add(step);
        }
        if is_done {
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
    fn new(size_bytes: u64, is_timed: bool) -> Self {
        Self {
            replayed: Replayed::new(size_bytes),
            late_ns: Histogram::new(),
            service_ns: Histogram::new(),
            ended: 0,
            failed: 0,
            durable: 0,
            first_failure: None,
            is_timed,
            seen_ns: 0,
            now: Now::default(),
        }
    }

    fn add(&mut self, step: ReplayStep) {
        let ReplayStep { request, start_ns, ended } = step;
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
        let Some((end_ns, errno)) = ended else {
            // The rest of a request arrived with it.
            let arrived_ns = if request.is_rest { self.seen_ns } else { start_ns };
            self.seen_ns = self.seen_ns.max(arrived_ns);
            self.durable += u64::from(issued.is_durable);
            if self.is_timed {
                self.late_ns.record(start_ns.saturating_sub(request.due_ns));
            }
            return self.replayed.starts(arrived_ns, &issued);
        };
        self.seen_ns = self.seen_ns.max(end_ns);
        self.ended += 1;
        self.now.ended += 1;
        self.now.bytes += u64::from(request.size_bytes);
        if request.kind != ReplayKind::Flush {
            self.service_ns.record(end_ns.saturating_sub(start_ns));
            self.now.latency_ns.record(end_ns.saturating_sub(start_ns));
        }
        if errno != 0 {
            self.failed += 1;
            self.first_failure.get_or_insert((request, errno));
        }
        let due_ns = self.is_timed.then_some(request.due_ns);
        self.replayed.ends((due_ns, start_ns, end_ns), &issued, errno != 0);
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
