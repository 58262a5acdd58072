//! The parts of the measured loop that treat many requests at once: what they share is looked at once for all of them.

use super::{Failed, Slot, Stage, Worker};
use crate::engine::Engine;
use crate::payload::Payload;
use crate::recorder::Alike;
use fathom_base::clock::Clock;
use fathom_model::record::OpClass;

impl<E: Engine, C: Clock, P: Payload> Worker<'_, E, C, P> {
    /// Does it for a job that only reads, one size at uniform places; false for others. Apart, so that it has all registers.
    #[inline(never)]
    pub(super) fn fill_with_reads(&mut self, now_ns: u64) -> bool {
        let Self { engine, generator, slots, free, .. } = self;
        let Some(mut places) = generator.plain_reads() else { return false };
        let size_bytes = places.size_bytes();
        let (start_ns, stage, ends_transaction) = (now_ns, Stage::Read, false);
        let mut left = free.len();
        // Two loops, of which each has its state in registers.
        for (number, offset_bytes) in free.iter().rev().zip(&mut places) {
            slots[*number as usize] =
                Slot { start_ns, offset_bytes, size_bytes, stage, ends_transaction };
            left -= 1;
        }
        drop(places);
        let issued = &free[left..];
        let place = |number: &u32| (*number, slots[*number as usize].offset_bytes);
        engine.queue_reads(size_bytes, issued.iter().rev().map(place));
        self.in_flight += issued.len() as u32;
        free.truncate(left);
        true
    }

    /// Takes in all that have ended. Apart, so that it has all registers.
    #[inline(never)]
    pub(super) fn reap_many<const PACED: bool>(
        &mut self,
        ended: u32,
        (now_ns, counted): (u64, bool),
        failed: &mut Option<Failed>,
    ) {
        let mut ends = std::mem::take(&mut self.ends);
        // What has ended since then is later than now.
        let most = ends.len().min(ended as usize);
        let mut taken = self.engine.take_many(&mut ends[..most]);
        let mut alike = Alike::default();
        if !PACED && counted && self.payload.is_idle() {
            taken = self.reap_reads(&mut ends[..taken], now_ns, &mut alike);
        }
        for end in &ends[..taken] {
            self.reap_one::<PACED, false>(*end, (now_ns, counted), &mut alike, failed);
        }
        self.ends = ends;
        self.recorder.count(alike);
    }

    /// Takes in whole reads of which nothing is to be said but that they ended. How many of `ends` are left, at its start.
    #[inline(always)]
    fn reap_reads(&mut self, ends: &mut [(u32, i32)], now_ns: u64, alike: &mut Alike) -> usize {
        let Self { slots, free, recorder, .. } = self;
        let mut left = 0;
        for at in 0..ends.len() {
            let (number, result) = ends[at];
            let slot = &mut slots[number as usize];
            let is_whole_read = slot.stage == Stage::Read && result == slot.size_bytes as i32;
            let latency_ns = now_ns.saturating_sub(slot.start_ns);
            let end = (latency_ns, slot.size_bytes);
            if is_whole_read && recorder.record_if_fast(alike, OpClass::Read, end) {
                slot.stage = Stage::Free;
                free.push(number);
            } else {
                ends[left] = (number, result);
                left += 1;
            }
        }
        let read = ends.len() - left;
        self.in_flight -= read as u32;
        self.counts.operations += read as u64;
        left
    }
}
