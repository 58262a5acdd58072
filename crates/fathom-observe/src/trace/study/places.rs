//! Where requests went: streams, distances, hot parts.

use crate::trace::event::{Event, SECTOR_BYTES};
use fathom_model::capture::CapturePlaces;
use fathom_stats::Histogram;

/// Streams that are followed at once: as many as a busy file server has.
const STREAMS: usize = 64;
/// The device is counted in up to so many parts.
const PARTS: usize = 1024;
/// Parts are at least this large, until the device's size is known to need larger ones.
const PART_SECTORS_MIN: u64 = 2048;
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
    part_sectors: u64,
    /// The parts that requests reached into: large ones into many.
    touched: Vec<bool>,
    end_sector: u64,
    first_sector: u64,
}

impl Places {
    pub(super) fn new(size_bytes: u64) -> Self {
        let sectors = size_bytes / SECTOR_BYTES;
        let part_sectors =
            sectors.div_ceil(PARTS as u64).max(if sectors == 0 { PART_SECTORS_MIN } else { 1 });
        Self {
            streams: Vec::with_capacity(STREAMS),
            last: None,
            head: None,
            record: CapturePlaces { parts: vec![0; PARTS], ..CapturePlaces::default() },
            run: Histogram::new(),
            seek: Histogram::new(),
            seeks: 0,
            part_sectors,
            touched: vec![false; PARTS],
            end_sector: 0,
            first_sector: u64::MAX,
        }
    }

    /// The size of the device, as far as it is known by now.
    pub(super) fn size_bytes(&self) -> u64 {
        self.part_sectors.saturating_mul(PARTS as u64 * SECTOR_BYTES)
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
        while last_sector / self.part_sectors >= PARTS as u64 {
            self.halve_parts();
        }
        let [first, last] = [event.sector, last_sector].map(|s| (s / self.part_sectors) as usize);
        self.record.parts[first] += 1;
        self.touched[first..=last].fill(true);
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

    /// The device's end lies further away: two parts become one.
    fn halve_parts(&mut self) {
        let (parts, touched) = (&mut self.record.parts, &mut self.touched);
        for at in 0..PARTS / 2 {
            parts[at] = parts[2 * at] + parts[2 * at + 1];
            touched[at] = touched[2 * at] || touched[2 * at + 1];
        }
        parts[PARTS / 2..].fill(0);
        touched[PARTS / 2..].fill(false);
        self.part_sectors *= 2;
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
        let last = record.parts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
        record.parts.truncate(last);
        record.part_bytes = self.part_sectors * SECTOR_BYTES;
        record.touched_parts = self.touched.iter().filter(|is_touched| **is_touched).count() as u64;
        record.run_bytes = self.run;
        record.seek_bytes = self.seek;
        record.seeks = self.seeks;
        record.end_byte = self.end_sector.saturating_mul(SECTOR_BYTES);
        record.first_byte = self.first_sector.min(self.end_sector).saturating_mul(SECTOR_BYTES);
        record
    }
}
