//! Where requests went: streams, distances, hot parts.

use crate::trace::event::{Event, SECTOR_BYTES};
use fathom_model::capture::CapturePlaces;
use fathom_stats::Histogram;

/// Streams that are followed at once: as many as a busy file server has.
const STREAMS: usize = 64;
/// What is used of the device is counted in up to so many parts.
const PARTS: u64 = 1024;
/// Parts of 4 KiB at first: so many bits of a sector's number are its place in the part.
const PART_SHIFT: u32 = 3;
/// As other tools have it: less than that is no seek.
pub(super) const NEAR_SECTORS: u64 = 128;

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// Where its next request would begin; class and sector.
    next: (u8, u64),
    run_sectors: u64,
    used: u64,
}

#[derive(Debug)]
pub(super) struct Places {
    streams: Vec<Stream>,
    last: Option<(u8, u64)>,
    /// End of the last request that the driver got.
    head: Option<u64>,
    record: CapturePlaces,
    run: Histogram,
    seek: Histogram,
    seeks: u64,
    parts: Parts,
    end_sector: u64,
    first_sector: u64,
}

/// What is used of the device in equal parts, which become larger as that becomes more: what a small part of a large device is
/// asked for does not vanish in one of them.
#[derive(Debug)]
struct Parts {
    /// Their size as a power of two, in sectors.
    shift: u32,
    /// The number of the first one, counted from the device's start.
    first: u64,
    /// Requests that begin in it, and whether any reaches into it: large ones into many.
    counts: Vec<(u64, bool)>,
}

impl Parts {
    fn new() -> Self {
        Self { shift: PART_SHIFT, first: 0, counts: Vec::new() }
    }

    /// A request from one sector to another.
    fn add(&mut self, from: u64, to: u64) {
        let (mut low, mut high) = self.with(from, to);
        while high - low >= PARTS {
            self.halve();
            (low, high) = self.with(from, to);
        }
        if self.counts.is_empty() {
            self.first = low;
        }
        if low < self.first {
            let mut counts = vec![(0, false); (self.first - low) as usize];
            counts.append(&mut self.counts);
            (self.first, self.counts) = (low, counts);
        }
        let length = (high - low + 1) as usize;
        if self.counts.len() < length {
            self.counts.resize(length, (0, false));
        }
        let [from, to] = [from, to].map(|sector| ((sector >> self.shift) - low) as usize);
        self.counts[from].0 += 1;
        self.counts[from..=to].iter_mut().for_each(|(_, is_touched)| *is_touched = true);
    }

    /// The first and the last part of what was used before and of this together.
    fn with(&self, from: u64, to: u64) -> (u64, u64) {
        let (from, to) = (from >> self.shift, to >> self.shift);
        match self.counts.len() as u64 {
            0 => (from, to),
            count => (from.min(self.first), to.max(self.first + count - 1)),
        }
    }

    /// Two parts become one.
    fn halve(&mut self) {
        let first = self.first / 2;
        let mut halved: Vec<(u64, bool)> = Vec::with_capacity(self.counts.len() / 2 + 1);
        for (number, (count, is_touched)) in (self.first..).zip(&self.counts) {
            let at = (number / 2 - first) as usize;
            if at == halved.len() {
                halved.push((0, false));
            }
            halved[at] = (halved[at].0 + count, halved[at].1 || *is_touched);
        }
        (self.shift, self.first, self.counts) = (self.shift + 1, first, halved);
    }

    /// A number of parts in bytes.
    fn bytes(&self, parts: u64) -> u64 {
        (parts << self.shift).saturating_mul(SECTOR_BYTES)
    }
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            streams: Vec::with_capacity(STREAMS),
            last: None,
            head: None,
            record: CapturePlaces::default(),
            run: Histogram::new(),
            seek: Histogram::new(),
            seeks: 0,
            parts: Parts::new(),
            end_sector: 0,
            first_sector: u64::MAX,
        }
    }

    /// True when it goes on where a stream ended.
    pub(super) fn arrived(&mut self, event: &Event) -> bool {
        let here = (event.class as u8, event.sector);
        let next = (event.class as u8, event.end_sector());
        self.record.count += 1;
        self.record.follow_last += u64::from(self.last == Some(here));
        self.last = Some(next);
        let follows = self.follow(here, next, u64::from(event.sectors));
        self.first_sector = self.first_sector.min(event.sector);
        self.end_sector = self.end_sector.max(event.end_sector());
        let last_sector = event.end_sector().saturating_sub(1).max(event.sector);
        self.parts.add(event.sector, last_sector);
        follows
    }

    fn follow(&mut self, here: (u8, u64), next: (u8, u64), sectors: u64) -> bool {
        let used = self.record.count;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.next == here) {
            self.record.follow_any += 1;
            *stream = Stream { next, run_sectors: stream.run_sectors + sectors, used };
            return true;
        }
        let new = Stream { next, run_sectors: sectors, used };
        if self.streams.len() < STREAMS {
            self.streams.push(new);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            self.run.record(oldest.run_sectors * SECTOR_BYTES);
            *oldest = new;
        }
        false
    }

    /// The heads go to the next request. True for a seek.
    pub(super) fn moved(&mut self, event: &Event) -> bool {
        let from = self.head.replace(event.end_sector());
        let Some(from) = from else { return false };
        let sectors = from.abs_diff(event.sector);
        self.seek.record(sectors.saturating_mul(SECTOR_BYTES));
        let is_seek = sectors > NEAR_SECTORS;
        self.seeks += u64::from(is_seek);
        is_seek
    }

    /// What was counted of requests that arrived, before it showed that the driver has a queue.
    pub(super) fn forget_seeks(&mut self) {
        self.seek.clear();
        (self.seeks, self.head) = (0, None);
    }

    pub(super) fn finish(mut self) -> CapturePlaces {
        for stream in &self.streams {
            self.run.record(stream.run_sectors * SECTOR_BYTES);
        }
        let mut record = self.record;
        let parts = self.parts;
        let begun = parts.counts.iter().rposition(|(count, _)| *count > 0).map_or(0, |at| at + 1);
        record.parts = parts.counts[..begun].iter().map(|(count, _)| *count).collect();
        record.part_bytes = parts.bytes(1);
        record.first_part_byte = parts.bytes(parts.first);
        record.touched_parts =
            parts.counts.iter().filter(|(_, is_touched)| *is_touched).count() as u64;
        record.run_bytes = self.run;
        record.seek_bytes = self.seek;
        record.seeks = self.seeks;
        record.end_byte = self.end_sector.saturating_mul(SECTOR_BYTES);
        record.first_byte = self.first_sector.min(self.end_sector).saturating_mul(SECTOR_BYTES);
        record
    }
}
