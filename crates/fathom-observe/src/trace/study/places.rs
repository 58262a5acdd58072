//! Where requests went: streams, distances, hot parts.

use crate::trace::event::{Event, SECTOR_BYTES};
use fathom_base::order::Order;
use fathom_model::capture::CapturePlaces;
use fathom_stats::Histogram;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Streams of a class that are followed at once: as many as a busy file server has.
const STREAMS: usize = 64;
/// So many that have not gone on yet leave the others alone when another begins, since most of them are requests at random.
const NEW_STREAMS: usize = 16;
/// What is used of the device is told in up to so many parts.
const PARTS: u64 = 1024;
/// Parts in which any request begins, while they are counted.
const BEGUN_MAX: usize = 16_384;
/// Stretches that requests reach into, while they are counted.
const TOUCHED_MAX: usize = 4096;
/// Areas of the device that lie far apart.
const AREAS_MAX: usize = 16;
/// Fewer requests are what they are, and no areas.
const AREAS_REQUESTS_MIN: u64 = 256;
/// At most one in so many requests is in none of the areas.
const ELSEWHERE_PART: u64 = 100;
/// Parts of 4 KiB at first: so many bits of a sector's number are its place in the part.
const PART_SHIFT: u32 = 3;
/// As other tools have it: less than that is no seek.
pub(super) const NEAR_SECTORS: u64 = 128;

#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    /// The sector where its next request would begin.
    next: u64,
    goes_on: bool,
    run_sectors: u64,
    used: u64,
}

#[derive(Debug)]
pub(super) struct Places {
    /// By class.
    streams: BTreeMap<u8, Vec<Stream>>,
    last: Option<(u8, u64)>,
    /// End of the last request that the driver got.
    head: Option<u64>,
    record: CapturePlaces,
    run: Histogram,
    seek: Histogram,
    seeks: u64,
    begun: Begun,
    touched: Touched,
    end_sector: u64,
    first_sector: u64,
}

/// Where requests begin, in equal parts of the device: only those count that any begins in, so that parts become larger with what is
/// used, and not with how far apart that lies.
#[derive(Debug)]
struct Begun {
    /// Their size as a power of two, in sectors.
    shift: u32,
    /// Requests, and their sectors, by the number of the part, from the device's start.
    counts: HashMap<u64, (u64, u64)>,
}

impl Begun {
    fn add(&mut self, sector: u64, sectors: u32) {
        self.count(sector >> self.shift, (1, u64::from(sectors)));
        while self.counts.len() > BEGUN_MAX {
            self.shift += 1;
            for (part, more) in std::mem::take(&mut self.counts) {
                self.count(part / 2, more);
            }
        }
    }

    fn count(&mut self, part: u64, more: (u64, u64)) {
        let (count, sectors) = self.counts.entry(part).or_default();
        *count += more.0;
        *sectors += more.1;
    }

    /// Requests in order of place.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> =
            self.counts.iter().map(|(at, (count, _))| (*at, *count)).collect();
        parts.order();
        parts
    }
}

/// What requests reach into, as stretches: a large request is one, and what it joins becomes one.
#[derive(Debug)]
struct Touched {
    /// Borders are multiples of this power of two, in sectors.
    shift: u32,
    /// First part and last part of each.
    spans: BTreeMap<u64, u64>,
}

impl Touched {
    /// From one sector to another, both included.
    fn add(&mut self, from: u64, to: u64) {
        self.join(from >> self.shift, to >> self.shift);
        while self.spans.len() > TOUCHED_MAX {
            self.shift += 1;
            for (from, to) in std::mem::take(&mut self.spans) {
                self.join(from / 2, to / 2);
            }
        }
    }

    fn join(&mut self, mut from: u64, mut to: u64) {
        if let Some((low, high)) = self.spans.range(..=from).next_back() {
            if *high >= to {
                return;
            }
            if high + 1 >= from {
                from = *low;
            }
        }
        while let Some((low, high)) = self.spans.range(from..=to + 1).next() {
            let low = *low;
            to = to.max(*high);
            self.spans.remove(&low);
        }
        self.spans.insert(from, to);
    }

    /// Parts of another size that are reached into.
    fn parts(&self, shift: u32) -> u64 {
        let (mut count, mut next) = (0, 0);
        for (from, to) in &self.spans {
            let from = ((from << self.shift) >> shift).max(next);
            let to = end_of(*to, self.shift) >> shift;
            count += (to + 1).saturating_sub(from);
            next = next.max(to + 1);
        }
        count
    }
}

/// The last sector of a part of that size.
fn end_of(part: u64, shift: u32) -> u64 {
    part << shift | ((1 << shift) - 1)
}

/// The areas that are used, as stretches of the sorted parts: what lies far apart is two of them, so that a journal or a stray request
/// far away makes nothing coarse. What has the fewest requests is left out when there are too many. Each step must halve what is left.
fn areas(parts: &[(u64, u64)]) -> Vec<Range<usize>> {
    let whole = 0..parts.len();
    let mut best = vec![whole];
    let mut before = vec![0u64];
    before.extend(parts.iter().scan(0, |sum, (_, count)| {
        *sum += count;
        Some(*sum)
    }));
    let all = before[parts.len()];
    if all < AREAS_REQUESTS_MIN {
        return best;
    }
    let count = |area: &Range<usize>| before[area.end] - before[area.start];
    let length = |areas: &[Range<usize>]| -> u64 {
        areas.iter().map(|area| parts[area.end - 1].0 - parts[area.start].0 + 1).sum()
    };
    let gap = |at: usize| parts[at].0 - parts[at - 1].0;
    let mut gaps: Vec<usize> = (1..parts.len()).filter(|at| gap(*at) > 1).collect();
    gaps.order_by_key(|at| Reverse(gap(*at)));
    let (mut cut, mut left_out) = (best.clone(), 0);
    for at in gaps {
        let inside = |area: &Range<usize>| area.start < at && at < area.end;
        let Some(index) = cut.iter().position(inside) else { continue };
        let end = std::mem::replace(&mut cut[index].end, at);
        cut.insert(index + 1, at..end);
        if cut.len() > AREAS_MAX {
            let fewest = (0..cut.len()).min_by_key(|index| count(&cut[*index])).unwrap_or(0);
            left_out += count(&cut.remove(fewest));
            if left_out * ELSEWHERE_PART > all {
                break;
            }
        }
        if length(&cut) <= length(&best) / 2 {
            best.clone_from(&cut);
        }
    }
    best
}

/// The smallest size as a power of two, from that one on, in which areas come to so few pieces, and the first and last piece of each:
/// areas whose pieces touch are one.
pub(super) fn cover(areas: &[(u64, u64)], shift_min: u32, most: u64) -> (u32, Vec<(u64, u64)>) {
    let at = |shift: u32| {
        let mut pieces: Vec<(u64, u64)> = Vec::with_capacity(areas.len());
        for (from, to) in areas {
            let (from, to) = (from >> shift, to >> shift);
            match pieces.last_mut() {
                Some(last) if from <= last.1 + 1 => last.1 = last.1.max(to),
                _ => pieces.push((from, to)),
            }
        }
        pieces
    };
    let fits = |shift: &u32| at(*shift).iter().map(|(from, to)| to - from + 1).sum::<u64>() <= most;
    let shift = (shift_min..63).find(fits).unwrap_or(63);
    (shift, at(shift))
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            streams: BTreeMap::new(),
            last: None,
            head: None,
            record: CapturePlaces::default(),
            run: Histogram::new(),
            seek: Histogram::new(),
            seeks: 0,
            begun: Begun { shift: PART_SHIFT, counts: HashMap::new() },
            touched: Touched { shift: PART_SHIFT, spans: BTreeMap::new() },
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
        self.begun.add(event.sector, event.sectors);
        self.touched.add(event.sector, last_sector);
        follows
    }

    fn follow(&mut self, here: (u8, u64), next: (u8, u64), sectors: u64) -> bool {
        let used = self.record.count;
        let streams = self.streams.entry(here.0).or_default();
        if let Some(stream) = streams.iter_mut().find(|stream| stream.next == here.1) {
            self.record.follow_any += 1;
            let run_sectors = stream.run_sectors + sectors;
            *stream = Stream { next: next.1, goes_on: true, run_sectors, used };
            return true;
        }
        let new = Stream { next: next.1, goes_on: false, run_sectors: sectors, used };
        if streams.len() < STREAMS {
            streams.push(new);
            return false;
        }
        let goes_on = streams.iter().filter(|stream| !stream.goes_on).count() < NEW_STREAMS;
        let ended = streams.iter_mut().filter(|stream| stream.goes_on == goes_on);
        if let Some(oldest) = ended.min_by_key(|stream| stream.used) {
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
        for stream in self.streams.values().flatten() {
            self.run.record(stream.run_sectors * SECTOR_BYTES);
        }
        let mut record = self.record;
        let parts = self.begun.sorted();
        let own = self.begun.shift;
        let found: Vec<(u64, u64)> = areas(&parts)
            .iter()
            .filter(|area| !area.is_empty())
            .map(|area| (parts[area.start].0 << own, end_of(parts[area.end - 1].0, own)))
            .collect();
        let (shift, pieces) = cover(&found, own, PARTS);
        let bytes = |pieces: u64| pieces.saturating_mul(1 << shift).saturating_mul(SECTOR_BYTES);
        record.part_bytes = bytes(1);
        record.first_part_byte = pieces.first().map_or(0, |(from, _)| bytes(*from));
        record.areas =
            pieces.iter().map(|(from, to)| (bytes(*from), bytes(to - from + 1))).collect();
        let mut sectors: Vec<u64> = Vec::new();
        for (from, to) in pieces {
            let first = record.parts.len();
            record.parts.resize(first + (to - from + 1) as usize, 0);
            sectors.resize(record.parts.len(), 0);
            let begin = parts.partition_point(|(part, _)| part >> (shift - own) < from);
            let inside = parts[begin..].iter().take_while(|(part, _)| part >> (shift - own) <= to);
            for (part, count) in inside {
                let at = first + ((part >> (shift - own)) - from) as usize;
                record.parts[at] += count;
                sectors[at] += self.begun.counts.get(part).map_or(0, |(_, sectors)| *sectors);
            }
        }
        let mean = |(sectors, count): (&u64, &u64)| sectors * SECTOR_BYTES / (*count).max(1);
        let reach: Vec<u64> = sectors.iter().zip(&record.parts).map(mean).collect();
        if reach.iter().any(|bytes| *bytes > record.part_bytes) {
            record.reach_bytes = reach;
        }
        record.elsewhere = record.count - record.parts.iter().sum::<u64>();
        record.touched_parts = self.touched.parts(shift);
        record.run_bytes = self.run;
        record.seek_bytes = self.seek;
        record.seeks = self.seeks;
        record.end_byte = self.end_sector.saturating_mul(SECTOR_BYTES);
        record.first_byte = self.first_sector.min(self.end_sector).saturating_mul(SECTOR_BYTES);
        record
    }
}
