//! The trace, read while it is replayed, as requests to the target.

use crate::commands::replay::Order;
use fathom_load::replay::{Announce, ReplayKind, ReplayQueues, ReplayRequest};
use fathom_observe::trace::event::{Class, Event, Flags};
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
    let (mut first_ns, mut last_ns) = (None, 0);
    loop {
        let event = match source.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => break,
            Err(error) => {
                fed.broken = Some(error.to_string());
                return fed;
            }
        };
        let Some(event) = requests.request(&event) else { continue };
        last_ns = event.time_ns.max(last_ns);
        let passed_ns = last_ns - *first_ns.get_or_insert(last_ns);
        let due_ns = (passed_ns as f64 / order.speed.unwrap_or(1.0)) as u64;
        for (number, part) in parts(&event, order.buffer_bytes / 512).enumerate() {
            let mut request = request(&part, map, buffer_bytes, due_ns);
            request.is_rest = number > 0;
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
    let is_rest = false;
    ReplayRequest { due_ns, kind, offset_bytes, size_bytes, flush_before, flush_after, is_rest }
}
