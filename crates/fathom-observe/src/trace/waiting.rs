//! Events of several processors, handed on in order of time.

use super::event::Event;

/// What has come of each processor.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By the processor's number.
    rings: Vec<Ring>,
    /// Where the next event of a ring is, with its time, the earliest last.
    heads: Vec<(u64, usize)>,
}

#[derive(Debug, Default)]
struct Ring {
    events: Vec<Event>,
    last_ns: u64,
    /// Some came before one that was earlier, as in rings into which interrupts write between another's time and its record.
    is_mixed: bool,
    /// So many were handed on.
    gone: usize,
}

impl Waiting {
    /// One more of a processor, of that time, is put at the end of its events by `put`, or none.
    #[inline]
    pub(super) fn add(&mut self, cpu: u32, time_ns: u64, put: impl FnOnce(&mut Vec<Event>)) {
        let cpu = cpu as usize;
        if cpu >= self.rings.len() {
            self.rings.resize_with(cpu + 1, Ring::default);
        }
        let ring = &mut self.rings[cpu];
        ring.is_mixed |= time_ns < ring.last_ns;
        ring.last_ns = time_ns;
        put(&mut ring.events);
    }

    /// Hands on those up to a time, in order of time; an error ends it, and the rest stays.
    pub(super) fn hand_on<E>(
        &mut self,
        until_ns: u64,
        mut take: impl FnMut(&mut Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { rings, heads } = self;
        for (cpu, ring) in rings.iter_mut().enumerate() {
            if std::mem::take(&mut ring.is_mixed) {
                ring.events.sort_by_key(|event| event.time_ns);
            }
            heads.extend(ring.head(until_ns).map(|time_ns| (time_ns, cpu)));
        }
        heads.sort_unstable_by(|a, b| b.cmp(a));
        let mut went = Ok(());
        while let (Ok(()), Some((_, cpu))) = (&went, heads.pop()) {
            let ring = &mut rings[cpu];
            // What comes before the others is taken without a look at them.
            let most_ns = heads.last().map_or(until_ns, |next| next.0.min(until_ns));
            while let Some(event) = ring.events.get_mut(ring.gone).filter(|e| e.time_ns <= most_ns)
            {
                ring.gone += 1;
                went = take(event);
                if went.is_err() {
                    break;
                }
            }
            if let Some(time_ns) = ring.head(until_ns) {
                let at = heads.partition_point(|head| *head > (time_ns, cpu));
                heads.insert(at, (time_ns, cpu));
            }
        }
        heads.clear();
        for ring in rings {
            ring.events.drain(..ring.gone);
            ring.gone = 0;
        }
        went
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
            let mut waiting = Waiting::default();
            let (mut came, mut went, mut now_ns) = (Vec::new(), Vec::new(), 1000);
            for round in 0..50 {
                for _ in 0..random.below(200) {
                    now_ns += random.below(3);
                    let cpu = random.below(cpus) as u32;
                    let is_late = cpu == 0 && random.below(10) == 0;
                    let time_ns = now_ns - if is_late { random.below(20) } else { 0 };
                    let event = Event { cpu: cpu as u16, ..Event::new(Action::Issue, time_ns) };
                    waiting.add(cpu, time_ns, |events| events.push(event));
                    came.push(time_ns);
                }
                let until_ns = if round == 49 { u64::MAX } else { now_ns.saturating_sub(50) };
                let handed: Result<(), ()> = waiting.hand_on(until_ns, |event| {
                    assert!(event.time_ns <= until_ns);
                    went.push(event.time_ns);
                    Ok(())
                });
                assert_eq!(handed, Ok(()));
            }
            came.sort_unstable();
            assert_eq!(went, came, "{cpus}");
        }
    }

    #[test]
    fn an_error_ends_it_and_nothing_comes_twice() {
        let mut waiting = Waiting::default();
        for time_ns in 1..=4 {
            let event = Event::new(Action::Issue, time_ns);
            waiting.add(time_ns as u32 % 2, time_ns, |events| events.push(event));
        }
        let mut went = Vec::new();
        let mut take = |event: &mut Event| {
            went.push(event.time_ns);
            if event.time_ns == 2 { Err("full") } else { Ok(()) }
        };
        assert_eq!(waiting.hand_on(u64::MAX, &mut take), Err("full"));
        assert_eq!(waiting.hand_on(u64::MAX, &mut take), Ok(()));
        assert_eq!(went, [1, 2, 3, 4]);
    }
}
