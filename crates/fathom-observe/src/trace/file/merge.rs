//! Events of several processors, handed out in order of time.

use crate::trace::event::Event;

/// What has come of each processor.
#[derive(Debug, Default)]
pub(super) struct Merge {
    /// In the order in which they came first.
    rings: Vec<Ring>,
    /// Where the next event of a ring is: its time, its processor, its place among the rings; the earliest last.
    heads: Vec<(u64, u16, usize)>,
    /// The ring that comes before the others, up to a time.
    now: Option<(usize, u64)>,
    until_ns: u64,
    count: usize,
}

#[derive(Debug)]
struct Ring {
    cpu: u16,
    events: Vec<Event>,
    last_ns: u64,
    /// Some came before one that was earlier, as in rings into which interrupts write between another's time and its record.
    is_mixed: bool,
    /// So many were handed out.
    gone: usize,
}

impl Merge {
    /// Where that processor's are.
    pub(super) fn ring_of(&mut self, cpu: u16) -> usize {
        self.rings.iter().position(|ring| ring.cpu == cpu).unwrap_or_else(|| {
            self.rings.push(Ring { cpu, events: Vec::new(), last_ns: 0, is_mixed: false, gone: 0 });
            self.rings.len() - 1
        })
    }

    /// One more of a processor.
    pub(super) fn add(&mut self, ring: usize, event: Event) {
        let ring = &mut self.rings[ring];
        ring.is_mixed |= event.time_ns < ring.last_ns;
        ring.last_ns = event.time_ns;
        ring.events.push(event);
        self.count += 1;
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// When events of a round up to that time may have been lost: a ring that was full has none until it was read. The longest pause of
    /// each, and all between these; one may last to the end.
    ///
    /// That of a processor that was idle for most of the round is nearly all of the round, and nothing shorter would be true: a round says
    /// how many were lost and not of which processor, and rings of perf events lose those of idle processors on some kernels. An end that was
    /// lost there could be that of any request that waited then, wherever it was issued.
    pub(super) fn hole(&self, until_ns: u64) -> Option<(u64, u64)> {
        let waiting = |ring: &Ring| ring.gone.min(ring.events.len());
        let rings = || self.rings.iter().map(|ring| &ring.events[waiting(ring)..]);
        let last_ns = rings().flatten().map(|event| event.time_ns).max()?;
        let end_ns = if until_ns == u64::MAX { last_ns } else { last_ns.max(until_ns) };
        let pause = |events: &[Event]| {
            let next = events.iter().skip(1).map(|event| event.time_ns).chain([end_ns]);
            let pauses = events.iter().map(|event| event.time_ns).zip(next);
            pauses.max_by_key(|(from_ns, to_ns)| to_ns.saturating_sub(*from_ns))
        };
        rings().filter_map(pause).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Those up to a time can be handed out, when all that could were.
    pub(super) fn begin(&mut self, until_ns: u64) {
        (self.until_ns, self.now) = (until_ns, None);
        self.heads.clear();
        for (at, ring) in self.rings.iter_mut().enumerate() {
            ring.events.drain(..ring.gone);
            ring.gone = 0;
            if std::mem::take(&mut ring.is_mixed) {
                ring.events.sort_by_key(|event| event.time_ns);
            }
            self.heads.extend(ring.head(until_ns).map(|time_ns| (time_ns, ring.cpu, at)));
        }
        self.heads.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Option<Event> {
        loop {
            let Some((at, most_ns)) = self.now else {
                let (_, _, at) = self.heads.pop()?;
                // What comes before the others is taken without a look at them.
                let most_ns = self.heads.last().map_or(self.until_ns, |next| next.0);
                self.now = Some((at, most_ns));
                continue;
            };
            let ring = &mut self.rings[at];
            if let Some(event) = ring.events.get(ring.gone).filter(|e| e.time_ns <= most_ns) {
                ring.gone += 1;
                self.count -= 1;
                return Some(*event);
            }
            if let Some(time_ns) = ring.head(self.until_ns) {
                let head = (time_ns, ring.cpu, at);
                let place = self.heads.partition_point(|other| *other > head);
                self.heads.insert(place, head);
            }
            self.now = None;
        }
    }
}

impl Ring {
    /// The time of its next event up to a time.
    fn head(&self, until_ns: u64) -> Option<u64> {
        self.events.get(self.gone).map(|event| event.time_ns).filter(|time_ns| *time_ns <= until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::Action;
    use fathom_base::prng::Prng;

    /// Against a sort of all: rings in order, and one of which an event in ten comes late.
    #[test]
    fn all_come_in_order_whatever_ring_they_are_of() {
        let mut random = Prng::new(11, 0);
        for cpus in [1, 2, 5, 64] {
            let mut merge = Merge::default();
            let (mut came, mut went, mut now_ns) = (Vec::new(), Vec::new(), 1000);
            for round in 0..50 {
                for _ in 0..random.below(200) {
                    now_ns += random.below(3);
                    let cpu = random.below(cpus) as u16;
                    let is_late = cpu == 0 && random.below(10) == 0;
                    let time_ns = now_ns - if is_late { random.below(20) } else { 0 };
                    let ring = merge.ring_of(cpu);
                    merge.add(ring, Event { cpu, ..Event::new(Action::Issue, time_ns) });
                    came.push(time_ns);
                }
                let until_ns = if round == 49 { u64::MAX } else { now_ns.saturating_sub(50) };
                merge.begin(until_ns);
                while let Some(event) = merge.next() {
                    assert!(event.time_ns <= until_ns);
                    went.push(event.time_ns);
                }
                assert_eq!(merge.count(), came.len() - went.len());
            }
            came.sort_unstable();
            assert_eq!(went, came, "{cpus}");
        }
    }
}
