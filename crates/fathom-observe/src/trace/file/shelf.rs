//! Events of one processor as bytes: put on a shelf as they come, and taken from a block.
//!
//! What they are told by is chosen so that most need few steps and no jumps that the processor guesses wrong: numbers have their lengths
//! before all of them, and what is as it was is left out.

use super::codec::{Bytes, signed, unsigned};
use super::{BLOCK_HEAD_BYTES, KIND_PROCESSOR, block_head};
use crate::trace::event::{Action, Class, Event, Flags, TIME_NS_MAX};

/// The parts of an event's first two bytes, from the lowest bit.
const TIME_AT: u32 = 4;
const PLACE_AT: u32 = 7;
const NEW_WHAT: u16 = 1 << 11;
const NEW_WHO: u16 = 1 << 12;
const OTHER: u16 = 1 << 13;
const ERROR: u16 = 1 << 14;
const NONE: u16 = 1 << 15;

/// More than the most that an event takes.
const ROOM_BYTES: usize = 64;
/// What a shelf is made for at first.
const SHELF_BYTES: usize = 16 << 10;

/// What is done, and how: class, flags and sectors in one number.
#[inline]
pub(in crate::trace) fn what(class: Class, flags: Flags, sectors: u32) -> u64 {
    u64::from(class as u8 | flags.0 << 3) | u64::from(sectors) << 32
}

/// Who did it: process and name in one number.
#[inline]
pub(in crate::trace) fn who(process: u32, name: u32) -> u64 {
    u64::from(process) | u64::from(name) << 32
}

/// A step, as it is put on a shelf.
#[derive(Debug, Clone, Copy)]
pub(in crate::trace) struct Step {
    pub action: Action,
    pub time_ns: u64,
    pub sector: u64,
    pub other_sector: u64,
    pub error: i32,
    pub what: u64,
    pub who: u64,
}

impl Step {
    /// The step of an event.
    pub(super) fn of(event: &Event) -> Self {
        Self {
            action: event.action,
            time_ns: event.time_ns,
            sector: event.sector,
            other_sector: event.other_sector,
            error: event.error,
            what: what(event.class, event.flags, event.sectors),
            who: who(event.process, event.name),
        }
    }
}

/// What events leave out when it is as before: time and place of the last one, and what and who of the last one of its action.
#[derive(Debug, Clone, Default)]
struct Before {
    time_ns: u64,
    sector: u64,
    /// By the number of the action.
    told: [(u64, u64); 16],
}

/// Events of one processor that have not been written.
#[derive(Debug, Default)]
pub(in crate::trace) struct Shelf {
    /// With room for the head of the block.
    bytes: Vec<u8>,
    used: usize,
    count: u32,
    base_ns: u64,
    before: Before,
}

impl Shelf {
    /// Puts one more on it.
    #[inline]
    pub(in crate::trace) fn add(&mut self, step: &Step) {
        if self.count == 0 {
            self.begin(step.time_ns);
        }
        if self.bytes.len() - self.used < ROOM_BYTES {
            self.grow();
        }
        let room = self.bytes.get_mut(self.used..).and_then(|rest| rest.first_chunk_mut());
        // There is some now.
        let Some(room) = room else { return };
        self.used += put(room, step, &mut self.before);
        self.count += 1;
    }

    fn begin(&mut self, time_ns: u64) {
        self.bytes.resize(self.bytes.len().max(2 * SHELF_BYTES), 0);
        self.used = BLOCK_HEAD_BYTES;
        self.base_ns = time_ns;
        self.before = Before { time_ns, ..Before::default() };
    }

    #[cold]
    fn grow(&mut self) {
        let more = self.bytes.len().max(SHELF_BYTES) * 2;
        self.bytes.resize(more, 0);
    }

    /// How many are on it.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// How many bytes they take.
    pub(super) fn len_bytes(&self) -> usize {
        if self.count > 0 { self.used } else { 0 }
    }

    /// When the last one of them was.
    pub(super) fn last_ns(&self) -> u64 {
        self.before.time_ns
    }

    /// The block of them, of that processor; none where nothing is on it.
    pub(super) fn block(&mut self, cpu: u32) -> Option<&[u8]> {
        if self.count == 0 {
            return None;
        }
        let (head, payload) = self.bytes[..self.used].split_at_mut(BLOCK_HEAD_BYTES);
        let numbers = (u64::from(cpu), self.base_ns);
        head.copy_from_slice(&block_head(KIND_PROCESSOR, self.count, numbers, payload));
        Some(&self.bytes[..self.used])
    }

    /// Takes all from it. A burst's room is not kept.
    pub(super) fn clear(&mut self, keep_bytes: usize) {
        if self.bytes.len() > keep_bytes.max(2 * SHELF_BYTES) {
            self.bytes = Vec::new();
        }
        (self.count, self.used) = (0, 0);
    }
}

/// How many bytes a number needs.
#[inline]
fn bytes_of(value: u64) -> usize {
    (71 - value.leading_zeros() as usize) / 8
}

#[inline]
fn put(room: &mut [u8; ROOM_BYTES], step: &Step, before: &mut Before) -> usize {
    let told = &mut before.told[step.action as usize & 15];
    let since = step.time_ns.wrapping_sub(before.time_ns);
    let moved = unsigned(step.sector.wrapping_sub(before.sector) as i64);
    let (time_bytes, place_bytes) = (bytes_of(since | 1), bytes_of(moved));
    let mut head = step.action as u16
        | ((time_bytes - 1) as u16) << TIME_AT
        | (place_bytes as u16) << PLACE_AT;
    room[2..10].copy_from_slice(&since.to_le_bytes());
    let at = 2 + time_bytes;
    room[at..at + 8].copy_from_slice(&moved.to_le_bytes());
    let mut used = at + place_bytes;
    if told.0 != step.what {
        head |= NEW_WHAT;
        told.0 = step.what;
        room[used] = step.what as u8;
        used = number(room, used + 1, step.what >> 32);
    }
    if told.1 != step.who {
        head |= NEW_WHO;
        told.1 = step.who;
        used = number(room, used, step.who & 0xffff_ffff);
        used = number(room, used, step.who >> 32);
    }
    if has_other(step.action) {
        head |= OTHER;
        used = number(room, used, unsigned(step.other_sector.wrapping_sub(step.sector) as i64));
    }
    if step.error != 0 {
        head |= ERROR;
        used = number(room, used, unsigned(i64::from(step.error)));
    }
    room[..2].copy_from_slice(&head.to_le_bytes());
    (before.time_ns, before.sector) = (step.time_ns, step.sector);
    used
}

fn has_other(action: Action) -> bool {
    matches!(action, Action::Split | Action::Remap)
}

/// As [`super::codec::put`]; where it ends.
#[inline]
fn number(room: &mut [u8; ROOM_BYTES], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        room[at] = value as u8 | 0x80;
        at += 1;
        value >>= 7;
    }
    room[at] = value as u8;
    at + 1
}

/// Reads the events of a block.
pub(super) struct Unpacked<'a> {
    bytes: Bytes<'a>,
    before: Before,
    cpu: u16,
}

impl<'a> Unpacked<'a> {
    pub(super) fn new(payload: &'a [u8], cpu: u16, base_ns: u64) -> Self {
        let before = Before { time_ns: base_ns, ..Before::default() };
        Self { bytes: Bytes(payload), before, cpu }
    }

    /// Nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.0.is_empty()
    }

    /// The next event; none when the bytes are none.
    pub(super) fn event(&mut self) -> Option<Event> {
        let Self { bytes, before, cpu } = self;
        let head = u16::from_le_bytes([bytes.byte()?, bytes.byte()?]);
        let action = *Action::ALL.get(usize::from(head & 15))?;
        let since = bytes.short(usize::from(head >> TIME_AT & 7) + 1)?;
        let moved = signed(bytes.short(usize::from(head >> PLACE_AT & 15))?);
        before.time_ns = before.time_ns.wrapping_add(since);
        before.sector = before.sector.wrapping_add(moved as u64);
        if head & NONE != 0 || before.time_ns > TIME_NS_MAX {
            return None;
        }
        let told = &mut before.told[action as usize & 15];
        let half = |bytes: &mut Bytes<'_>| u32::try_from(bytes.number()?).ok();
        if head & NEW_WHAT != 0 {
            let how = bytes.byte()?;
            let class = *Class::ALL.get(usize::from(how & 7))?;
            told.0 = what(class, Flags(how >> 3), half(bytes)?);
        }
        if head & NEW_WHO != 0 {
            told.1 = who(half(bytes)?, half(bytes)?);
        }
        let mut event = Event::new(action, before.time_ns);
        event.cpu = *cpu;
        event.sector = before.sector;
        event.sectors = (told.0 >> 32) as u32;
        event.class = *Class::ALL.get(told.0 as usize & 7)?;
        event.flags = Flags(told.0 as u8 >> 3);
        (event.process, event.name) = (told.1 as u32, (told.1 >> 32) as u32);
        if head & OTHER != 0 {
            event.other_sector = event.sector.wrapping_add(bytes.signed()? as u64);
        }
        if head & ERROR != 0 {
            event.error = i32::try_from(bytes.signed()?).ok()?;
        }
        Some(event)
    }
}
