//! The part of the measured loop in which one read follows another and nothing else is due: what such a job does not have is
//! not looked at, and what it has stays in registers.

use super::{Slot, Worker};
use crate::engine::Engine;
use crate::payload::Payload;
use fathom_base::clock::Clock;
use fathom_model::record::OpClass;
use std::io;

/// So many latencies are counted together. Each read pushes what counts them out of the fastest caches, and the next call into the kernel
/// waits for it to come back: counted one by one, a cached read of 4 KiB takes a quarter longer (`cargo xtask bench --only=psync-1`).
const TOGETHER: usize = 64;

impl<E: Engine, C: Clock, P: Payload> Worker<'_, E, C, P> {
    /// True for a job that only reads, one size at uniform places, one at a time, on an engine that shows an end before it is
    /// taken.
    pub(super) fn reads_alone(&mut self) -> bool {
        E::SHOWS_END
            && self.slots.len() == 1
            && self.open_files.is_none()
            && self.payload.is_idle()
            && self.generator.plain_reads().is_some()
    }

    /// Waits for the read that was issued, counts it and issues the next, for as long as each ends whole before `until_ns`, is
    /// none of the slowest, and nobody stops the run. Of the first that is not so, or has none behind it, it gives what
    /// [`Engine::run`] says, and a time after its end, which has not been taken.
    #[inline(never)]
    pub(super) fn read_on(
        &mut self,
        until_ns: u64,
        stop: &impl Fn() -> bool,
    ) -> io::Result<(u32, u64)> {
        let Self { engine, clock, generator, recorder, slots, counts, .. } = self;
        let slot = &mut slots[0];
        let Slot { mut start_ns, mut offset_bytes, size_bytes, .. } = *slot;
        engine.run(1)?;
        let mut shown = engine.shown();
        let mut places = generator.plain_reads();
        let mut tally = recorder.tally(OpClass::Read, size_bytes);
        let (mut latencies_ns, mut noted) = ([0; TOGETHER], 0);
        let mut counted = 0;
        let ended = loop {
            let now_ns = clock.now_ns();
            let latency_ns = now_ns.saturating_sub(start_ns);
            let is_whole = shown == Some(size_bytes as i32);
            if !is_whole || now_ns >= until_ns || !tally.is_fast(latency_ns) || stop() {
                break Ok((u32::from(shown.is_some()), now_ns));
            }
            let next = places.as_mut().and_then(Iterator::next);
            let Some(next) = next else { break Ok((1, now_ns)) };
            if let Some(place) = latencies_ns.get_mut(noted) {
                *place = latency_ns;
                noted += 1;
            }
            if noted == TOGETHER {
                tally.record_all(&latencies_ns);
                noted = 0;
            }
            counted += 1;
            counts.end_ns = now_ns;
            offset_bytes = next;
            start_ns = clock.now_ns();
            shown = match engine.read_next(offset_bytes, size_bytes) {
                Ok(shown) => shown,
                Err(error) => break Err(error),
            };
        };
        tally.record_all(&latencies_ns[..noted]);
        counts.batches += counted;
        counts.operations += counted;
        (slot.start_ns, slot.offset_bytes) = (start_ns, offset_bytes);
        ended
    }
}
