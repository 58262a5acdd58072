//! The trace, read while it is replayed, as requests to the target.

use crate::commands::replay::Order;
use fathom_load::replay::{Announce, ReplayKind, ReplayQueues, ReplayRequest};
use fathom_observe::trace::event::{Class, Event, Flags};
use fathom_observe::trace::joined::{Joined, Run};
use fathom_observe::trace::open::Source;
use fathom_observe::trace::requests::{Map, Requests, parts};
use std::time::Duration;

/// How long the reader waits when the queue is full.
const PAUSE: Duration = Duration::from_millis(1);

/// What was read.
pub struct Fed {
    /// Requests, in the parts in which they are issued.
    pub requests: u64,
    /// Why it ended before its end.
    pub broken: Option<String>,
}

/// Reads the trace into the queue.
pub fn feed(
    order: &Order<'_>,
    map: Map,
    buffer_bytes: u32,
    queues: &ReplayQueues,
    is_over: &dyn Fn() -> bool,
) -> Fed {
    let _fed = Announce(&queues.is_fed);
    let mut fed = Fed { requests: 0, broken: None };
    let mut source = match Source::open_one(&order.args.trace, order.args.of_device) {
        Ok(source) => source,
        Err(error) => {
            fed.broken = Some(error.to_string());
            return fed;
        }
    };
    let mut requests = Requests::of(order.wanted);
    let (mut joined, mut times) = (Joined::default(), Times::default());
    loop {
        let event = match source.next_event() {
            Ok(event) => event,
            Err(error) => {
                fed.broken = Some(error.to_string());
                return fed;
            }
        };
        if let Some(event) = &event {
            let arrival = requests.request(event);
            times.begin(arrival.as_ref());
            joined.see(event, arrival);
        }
        let next =
            |joined: &mut Joined| if event.is_some() { joined.next_run() } else { joined.rest() };
        while let Some(run) = next(&mut joined) {
            for request in issued(order, (map, buffer_bytes), &run, &mut times) {
                if !push(queues, request, is_over) {
                    return fed;
                }
                fed.requests += 1;
            }
        }
        if is_over() {
            return fed;
        }
        if event.is_none() {
            break;
        }
    }
    fed.broken = source.cut_off();
    fed
}

/// Waits for a place in the queue; false when none is needed any more.
fn push(queues: &ReplayQueues, request: ReplayRequest, is_over: &dyn Fn() -> bool) -> bool {
    let mut request = request;
    while let Err(back) = queues.requests.push(request) {
        if is_over() {
            return false;
        }
        request = back;
        std::thread::sleep(PAUSE);
    }
    true
}

/// Times of the trace as they count from its first request on.
#[derive(Default)]
struct Times {
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Times {
    fn begin(&mut self, arrival: Option<&Event>) {
        self.first_ns = self.first_ns.or(arrival.map(|event| event.time_ns));
    }

    /// When one of a run is due, before speed: time that goes back stands still.
    fn passed_ns(&mut self, run: &Run, arrival: &Event) -> u64 {
        self.last_ns = self.last_ns.max(run.last_ns);
        let before_ns = run.last_ns - arrival.time_ns.min(run.last_ns);
        (self.last_ns - before_ns).saturating_sub(self.first_ns.unwrap_or(0))
    }
}

/// A run as it is issued: all that it has, in parts, each of which says whether another one follows.
fn issued(
    order: &Order<'_>,
    (map, buffer_bytes): (Map, u32),
    run: &Run,
    times: &mut Times,
) -> Vec<ReplayRequest> {
    let mut all = Vec::new();
    for arrival in &run.arrivals {
        let passed_ns = times.passed_ns(run, arrival);
        let due_ns = (passed_ns as f64 / order.speed.unwrap_or(1.0)) as u64;
        for (number, part) in parts(arrival, order.buffer_bytes / 512).enumerate() {
            let request = request(&part, map, buffer_bytes, due_ns);
            all.push(ReplayRequest { is_rest: number > 0, is_followed: true, ..request });
        }
    }
    if let Some(last) = all.last_mut() {
        last.is_followed = false;
    }
    all
}

/// A part of a request on the target. What has to be durable is so by fdatasync(2), which io_uring issues as well.
fn request(event: &Event, map: Map, buffer_bytes: u32, due_ns: u64) -> ReplayRequest {
    let kind = match event.class {
        Class::Write => ReplayKind::Write,
        Class::Flush => ReplayKind::Flush,
        _ => ReplayKind::Read,
    };
    let (offset_bytes, size) =
        if kind == ReplayKind::Flush { (0, 0) } else { map.place(event.sector, event.sectors) };
    let size_bytes = size.min(u64::from(buffer_bytes)) as u32;
    let has = |flag| kind == ReplayKind::Write && event.flags.has(flag);
    let (flush_before, flush_after) = (has(Flags::PREFLUSH), has(Flags::FUA));
    let (is_rest, is_followed) = (false, false);
    ReplayRequest {
        due_ns,
        kind,
        offset_bytes,
        size_bytes,
        flush_before,
        flush_after,
        is_rest,
        is_followed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_observe::trace::event::Action;

    /// Times are the trace's, of what waits for others too; where time goes back it stands still.
    #[test]
    fn each_of_a_run_keeps_its_time() {
        let at =
            |us: u64, sector| Event { sector, sectors: 8, ..Event::new(Action::Queue, us * 1000) };
        let run = |arrivals: &[Event]| {
            let mut joined = Joined::default();
            for event in arrivals {
                joined.see(event, Some(*event));
                joined.see(&Event { action: Action::BackMerge, ..*event }, None);
            }
            joined.rest().expect("one run")
        };
        let mut times = Times::default();
        let first = run(&[at(100, 0), at(150, 8), at(300, 16)]);
        times.begin(Some(&first.arrivals[0]));
        let mut passed = |run: &Run| -> Vec<u64> {
            run.arrivals.iter().map(|one| times.passed_ns(run, one) / 1000).collect()
        };
        assert_eq!(passed(&first), [0, 50, 200]);
        assert_eq!(passed(&run(&[at(400, 80), at(450, 88)])), [300, 350]);
        assert_eq!(passed(&run(&[at(200, 800)])), [350]);
        assert_eq!(passed(&run(&[at(500, 8000)])), [400]);
    }
}
