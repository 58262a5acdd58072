//! Events as bytes.

use crate::trace::event::{Action, Class, Event, Flags, TIME_NS_MAX};

/// What the next event is told against.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub time_ns: u64,
    pub end_sector: u64,
}

const EXTRA: u8 = 0x80;
const ERROR: u8 = 0x20;

/// The most that one event takes.
pub(super) const EVENT_BYTES_MAX: usize = 2 + 8 * 10;

#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The room of one event, which is made once for all its bytes.
struct Room<'a> {
    bytes: &'a mut [u8; EVENT_BYTES_MAX],
    used: usize,
}

impl Room<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.used] = byte;
        self.used += 1;
    }

    #[inline]
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    #[inline]
    fn event(&mut self, event: &Event, before: &Before) {
        let has_other = matches!(event.action, Action::Split | Action::Remap);
        let has_error = event.error != 0;
        let extra = if has_other { EXTRA } else { 0 };
        self.byte(event.action as u8 | (event.class as u8) << 4 | extra);
        self.byte(event.flags.0 & 0x1f | if has_error { ERROR } else { 0 });
        self.signed(event.time_ns.wrapping_sub(before.time_ns) as i64);
        self.signed(event.sector.wrapping_sub(before.end_sector) as i64);
        for number in [event.sectors, u32::from(event.cpu), event.process, event.name] {
            self.number(u64::from(number));
        }
        if has_other {
            self.signed(event.other_sector.wrapping_sub(event.sector) as i64);
        }
        if has_error {
            self.signed(i64::from(event.error));
        }
    }
}

#[inline]
pub(super) fn encode(out: &mut Vec<u8>, event: &Event, before: &mut Before) {
    let begin = out.len();
    out.extend_from_slice(&[0; EVENT_BYTES_MAX]);
    if let Some(bytes) = out.last_chunk_mut() {
        let mut room = Room { bytes, used: 0 };
        room.event(event, before);
        let used = room.used;
        out.truncate(begin + used);
    }
    *before = Before { time_ns: event.time_ns, end_sector: event.end_sector() };
}

/// Bytes that are taken from the front.
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

/// The next event; none when the bytes are none.
pub(super) fn decode(bytes: &mut Bytes<'_>, before: &mut Before) -> Option<Event> {
    let (first, second) = (bytes.byte()?, bytes.byte()?);
    let action = *Action::ALL.get(usize::from(first & 0x0f))?;
    let class = *Class::ALL.get(usize::from(first >> 4 & 7))?;
    let time_ns = before.time_ns.wrapping_add(bytes.signed()? as u64);
    if time_ns > TIME_NS_MAX {
        return None;
    }
    let sector = before.end_sector.wrapping_add(bytes.signed()? as u64);
    let mut number = || u32::try_from(bytes.number()?).ok();
    let (sectors, cpu, process, name) = (number()?, number()?, number()?, number()?);
    let mut event = Event { class, flags: Flags(second & 0x1f), ..Event::new(action, time_ns) };
    (event.sector, event.sectors, event.process, event.name) = (sector, sectors, process, name);
    event.cpu = u16::try_from(cpu).ok()?;
    if first & EXTRA != 0 {
        event.other_sector = sector.wrapping_add(bytes.signed()? as u64);
    }
    if second & ERROR != 0 {
        event.error = i32::try_from(bytes.signed()?).ok()?;
    }
    *before = Before { time_ns, end_sector: event.end_sector() };
    Some(event)
}
