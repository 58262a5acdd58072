//! Requests that the kernel refused at once, since who asked would not wait (`RWF_NOWAIT`, as io_uring asks first): they arrive and end with
//! EAGAIN without a place in the queue, and are asked for once more by somebody who waits. They are no requests to the device, and no
//! errors of it.

use super::event::{Action, Event};
use std::collections::VecDeque;

/// EAGAIN, as an end tells it.
const AGAIN: i32 = -11;
/// An arrival that got no place for so long is one of a device without a queue, or waits.
const HELD_NS: u64 = 1_000_000;
/// So many events are held back at most.
const HELD_MAX: usize = 4096;

/// Takes them out of a trace: each arrival is held back until it shows what becomes of it.
#[derive(Debug, Default)]
pub(super) struct Refused {
    held: VecDeque<Held>,
    last_ns: u64,
    is_over: bool,
    count: u64,
}

#[derive(Debug)]
struct Held {
    event: Event,
    /// Events were lost right before it.
    is_behind_gap: bool,
    /// It may be refused still.
    is_open: bool,
}

impl Refused {
    /// The next of the trace.
    pub(super) fn add(&mut self, event: Event, is_behind_gap: bool) {
        self.last_ns = self.last_ns.max(event.time_ns);
        let is_refusal = event.action == Action::BioComplete && event.error == AGAIN;
        if is_refusal || has_place(event.action) {
            let is_it = |held: &Held| held.is_open && held.event.sector == event.sector;
            if let Some(at) = self.held.iter().rposition(is_it) {
                if is_refusal {
                    self.count += 1;
                    let gone = self.held.remove(at);
                    let is_behind = is_behind_gap || gone.is_some_and(|gone| gone.is_behind_gap);
                    if let Some(next) = self.held.get_mut(at).filter(|_| is_behind) {
                        next.is_behind_gap = true;
                    }
                    return;
                }
                self.held[at].is_open = false;
            }
        }
        let is_open = event.action == Action::Queue;
        self.held.push_back(Held { event, is_behind_gap, is_open });
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// The next one of which it is known what becomes of it, and whether events were lost before it.
    pub(super) fn next(&mut self) -> Option<(Event, bool)> {
        let Held { event, is_open, .. } = self.held.front()?;
        let is_known = !is_open
            || self.is_over
            || self.held.len() > HELD_MAX
            || self.last_ns.saturating_sub(event.time_ns) > HELD_NS;
        let held = if is_known { self.held.pop_front() } else { None }?;
        Some((held.event, held.is_behind_gap))
    }

    /// Nothing is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

/// Steps of a request that the queue has taken.
fn has_place(action: Action) -> bool {
    use Action::{BackMerge, FrontMerge, Insert, Issue, Place};
    matches!(action, Place | Insert | Issue | FrontMerge | BackMerge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(action: Action, time_ns: u64, sector: u64) -> Event {
        Event { sector, sectors: 8, ..Event::new(action, time_ns) }
    }

    fn refusal(time_ns: u64, sector: u64) -> Event {
        Event { error: AGAIN, ..at(Action::BioComplete, time_ns, sector) }
    }

    /// What comes out, with the number of those refused.
    fn through(events: &[Event]) -> (Vec<Event>, u64) {
        let (mut refused, mut out) = (Refused::default(), Vec::new());
        for event in events {
            refused.add(*event, false);
            out.extend(std::iter::from_fn(|| refused.next()).map(|(event, _)| event));
        }
        refused.end();
        out.extend(std::iter::from_fn(|| refused.next()).map(|(event, _)| event));
        (out, refused.count())
    }

    #[test]
    fn what_is_refused_at_once_is_no_request() {
        use Action::{BioComplete, Complete, Issue, Place, Queue};
        let kept = [
            at(Queue, 10, 800),
            at(Place, 11, 800),
            at(Issue, 20, 800),
            at(Queue, 30, 96),
            at(Place, 31, 96),
            at(Complete, 50, 800),
            at(Complete, 60, 96),
            // A device without a queue.
            at(Queue, 70, 5),
            at(BioComplete, 80, 5),
        ];
        assert_eq!(through(&kept), (kept.to_vec(), 0));
        // Each is refused before it comes to what is kept of it, beside others.
        let mut events = kept.to_vec();
        events.insert(3, at(Queue, 22, 96));
        events.insert(4, refusal(23, 96));
        events.insert(0, at(Queue, 5, 800));
        events.insert(1, at(Queue, 6, 96));
        events.insert(2, refusal(7, 800));
        events.insert(3, refusal(8, 96));
        assert_eq!(through(&events), (kept.to_vec(), 3));
        // What was taken and failed then is an error.
        let mut failed = kept.to_vec();
        failed[5].error = AGAIN;
        failed[8].error = -5;
        assert_eq!(through(&failed), (failed.clone(), 0));
        let late =
            [at(Queue, 10, 8), at(Queue, 10 + 2 * HELD_NS, 16), refusal(11 + 2 * HELD_NS, 8)];
        assert_eq!(through(&late), (late.to_vec(), 0), "it waited, and was not refused at once");
    }

    #[test]
    fn little_is_held_back_and_gaps_stay_where_they_are() {
        let mut refused = Refused::default();
        for number in 0..HELD_MAX as u64 + 3 {
            refused.add(at(Action::Queue, 10, number), number == 1);
        }
        let out: Vec<bool> = std::iter::from_fn(|| refused.next()).map(|(_, gap)| gap).collect();
        assert_eq!(out, [false, true, false]);
        let mut refused = Refused::default();
        refused.add(at(Action::Queue, 10, 8), true);
        refused.add(at(Action::Queue, 11, 16), false);
        refused.add(refusal(12, 8), false);
        refused.end();
        assert_eq!(refused.next().map(|(event, gap)| (event.sector, gap)), Some((16, true)));
    }
}
