//! Numbers as bytes, and the events of the first form.

use crate::trace::event::{Action, Class, Event, Flags, TIME_NS_MAX};

/// What the next event is told against.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    pub time_ns: u64,
    pub end_sector: u64,
}

pub(super) const EXTRA: u8 = 0x80;
pub(super) const ERROR: u8 = 0x20;

#[inline]
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed as unsigned, low bit last: small ones stay small.
#[inline]
pub(super) fn unsigned(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The other way.
#[inline]
pub(super) fn signed(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
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

    pub(super) fn signed(&mut self) -> Option<i64> {
        self.number().map(signed)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// A number of so many bytes, 8 at the most.
    pub(super) fn short(&mut self, length: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes.get_mut(..length)?.copy_from_slice(self.take(length)?);
        Some(u64::from_le_bytes(bytes))
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
