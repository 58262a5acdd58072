//! The trace, read while it is replayed, as requests to the target.

use crate::commands::replay::Order;
use fathom_load::replay::{Announce, ReplayKind, ReplayQueues, ReplayRequest};
use fathom_observe::trace::event::{Action, Class, Event, Flags};
use fathom_observe::trace::open::Source;
use fathom_observe::trace::requests::{Map, Requests, parts};
use std::collections::VecDeque;
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
    let mut arrivals = Arrivals::default();
    let (mut first_ns, mut last_ns) = (None, 0);
    loop {
        let event = match source.next_event() {
            Ok(event) => event,
            Err(error) => {
                fed.broken = Some(error.to_string());
                return fed;
            }
        };
        let arrival = match &event {
            Some(event) => {
                arrivals.merge(event);
                requests.request(event).and_then(|event| arrivals.push(event))
            }
            None => arrivals.pop(),
        };
        let Some((arrival, joins)) = arrival else {
            match event {
                Some(_) => continue,
                None => break,
            }
        };
        last_ns = arrival.time_ns.max(last_ns);
        let passed_ns = last_ns - *first_ns.get_or_insert(last_ns);
        let due_ns = (passed_ns as f64 / order.speed.unwrap_or(1.0)) as u64;
        for (number, part) in parts(&arrival, order.buffer_bytes / 512).enumerate() {
            let mut request = request(&part, map, buffer_bytes, due_ns);
            (request.is_rest, request.joins) = (number > 0, joins);
            while let Err(back) = queues.requests.push(request) {
                if is_over() {
                    return fed;
                }
                request = back;
                std::thread::sleep(PAUSE);
            }
            fed.requests += 1;
        }
        if is_over() {
            return fed;
        }
    }
    fed.broken = source.cut_off();
    fed
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
    let (is_rest, joins) = (false, false);
    ReplayRequest {
        due_ns,
        kind,
        offset_bytes,
        size_bytes,
        flush_before,
        flush_after,
        is_rest,
        joins,
    }
}

/// Arrivals that are held back until it shows whether they were merged into one before them. That comes right behind each, but for
/// what other processors do meanwhile.
#[derive(Debug, Default)]
struct Arrivals(VecDeque<(Event, bool)>);

/// So many are held back.
const HELD: usize = 16;

impl Arrivals {
    /// Another one; the oldest when there are enough.
    fn push(&mut self, event: Event) -> Option<(Event, bool)> {
        self.0.push_back((event, false));
        if self.0.len() > HELD { self.pop() } else { None }
    }

    /// The oldest, when no more come.
    fn pop(&mut self) -> Option<(Event, bool)> {
        self.0.pop_front()
    }

    /// An event that may say so of one.
    fn merge(&mut self, event: &Event) {
        if !matches!(event.action, Action::BackMerge | Action::FrontMerge) {
            return;
        }
        let is_it = |(arrived, _): &&mut (Event, bool)| {
            (arrived.class, arrived.sector) == (event.class, event.sector)
        };
        if let Some((_, joins)) = self.0.iter_mut().rev().find(is_it) {
            *joins = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_merged_is_known_though_others_come_between() {
        let at = |action, sector| Event { sector, sectors: 8, ..Event::new(action, 0) };
        let mut arrivals = Arrivals::default();
        for sector in [0, 8, 1000] {
            assert_eq!(arrivals.push(at(Action::Queue, sector)), None);
        }
        arrivals.merge(&at(Action::BackMerge, 8));
        arrivals.merge(&at(Action::Issue, 1000));
        let told: Vec<(u64, bool)> = std::iter::from_fn(|| arrivals.pop())
            .map(|(event, joins)| (event.sector, joins))
            .collect();
        assert_eq!(told, [(0, false), (8, true), (1000, false)]);
        let handed_on = (0..100).filter_map(|n| arrivals.push(at(Action::Queue, n))).count();
        assert_eq!(handed_on, 100 - HELD);
    }
}
