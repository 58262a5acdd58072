//! Where the fields of tracepoints lie on this kernel.

use super::event::{Action, Event, Names};
use fathom_sys::tracefs::EventFormat;

/// The places of one tracepoint's fields, in bytes from the start of its record.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    action: Action,
    device: usize,
    sector: usize,
    /// Of a split the first sector of the second part.
    other: Option<usize>,
    count: Option<usize>,
    error: Option<usize>,
    letters: (usize, usize),
    name: Option<usize>,
}

impl Layout {
    /// From the kernel's description; none when it lacks what has to be there.
    #[must_use]
    pub fn of(action: Action, format: &EventFormat) -> Option<Self> {
        let place = |name: &str, size: usize| {
            format.field(name).filter(|f| f.size_bytes == size).map(|f| f.offset_bytes)
        };
        let letters = format.field("rwbs")?;
        let other = match action {
            Action::Split => Some(place("new_sector", 8)?),
            Action::Remap => Some(place("old_sector", 8)?),
            _ => None,
        };
        Some(Self {
            action,
            device: place("dev", 4)?,
            sector: place("sector", 8)?,
            other,
            count: place("nr_sector", 4),
            error: place("error", 4).or_else(|| place("errors", 4)),
            letters: (letters.offset_bytes, letters.size_bytes),
            name: place("comm", 16),
        })
    }

    /// The same without names of processes, for those who do not ask who it was.
    #[must_use]
    pub fn nameless(self) -> Self {
        Self { name: None, ..self }
    }

    /// What a record says; none when it is cut off.
    #[inline]
    pub(super) fn fields<'r>(&self, raw: &'r [u8]) -> Option<Fields<'r>> {
        let sector = u64_at(raw, self.sector)?;
        let number = |at: Option<usize>| at.map_or(Some(0), |at| u32_at(raw, at));
        let other_sector = self.other.map_or(Some(0), |at| u64_at(raw, at))?;
        let sectors = match self.action {
            Action::Split => other_sector.saturating_sub(sector) as u32,
            _ => number(self.count)?,
        };
        let (at, size) = self.letters;
        let name = match self.name {
            Some(at) => Some(raw.get(at..at + 16)?.try_into().ok()?),
            None => None,
        };
        Some(Fields {
            action: self.action,
            // What has no place: flushes, commands.
            sector: if sector == u64::MAX { 0 } else { sector },
            other_sector,
            sectors,
            error: number(self.error)? as i32,
            letters: raw.get(at..at + size)?,
            name,
        })
    }
}

/// What a record says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'r> {
    pub action: Action,
    pub sector: u64,
    pub other_sector: u64,
    pub sectors: u32,
    pub error: i32,
    pub letters: &'r [u8],
    pub name: Option<&'r [u8; 16]>,
}

/// The layouts of all tracepoints that are recorded, by their numbers.
#[derive(Debug, Default)]
pub struct Layouts {
    first: u32,
    layouts: Vec<Option<Layout>>,
}

impl Layouts {
    /// Adds one.
    pub fn add(&mut self, id: u32, layout: Layout) {
        if self.layouts.is_empty() {
            self.first = id;
        }
        if id < self.first {
            let more = (self.first - id) as usize;
            self.layouts.splice(0..0, std::iter::repeat_n(None, more));
            self.first = id;
        }
        let at = (id - self.first) as usize;
        if at >= self.layouts.len() {
            self.layouts.resize(at + 1, None);
        }
        self.layouts[at] = Some(layout);
    }

    /// The event that a record tells of, without its time; none for records of other tracepoints.
    #[must_use]
    pub fn read(&self, raw: &[u8], names: &mut Names) -> Option<Event> {
        let said = self.of(raw)?.fields(raw)?;
        let mut event = Event::new(said.action, 0);
        (event.sector, event.other_sector) = (said.sector, said.other_sector);
        (event.sectors, event.error) = (said.sectors, said.error);
        event.name = said.name.map_or(0, |name| names.number(*name));
        Some(event.with_letters(said.letters))
    }

    /// The device that a record is about, as the kernel holds numbers inside: major << 20 | minor.
    #[inline]
    pub fn device(&self, raw: &[u8]) -> Option<u32> {
        u32_at(raw, self.of(raw)?.device)
    }

    #[inline]
    pub(super) fn of(&self, raw: &[u8]) -> Option<&Layout> {
        let id = u32::from(u16::from_ne_bytes(raw.get(..2)?.try_into().ok()?));
        self.layouts.get(id.checked_sub(self.first)? as usize)?.as_ref()
    }
}

fn u32_at(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(raw.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(raw: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(raw.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::{Class, Flags};

    const QUEUE: &str = "ID: 300\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:char rwbs[10];\toffset:28;\tsize:10;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:38;\tsize:16;\tsigned:0;\n";

    #[test]
    fn records_become_events() {
        let format = EventFormat::parse(QUEUE).expect("a format");
        let mut layouts = Layouts::default();
        layouts.add(300, Layout::of(Action::Queue, &format).expect("known"));
        layouts.add(298, Layout::of(Action::Place, &format).expect("known"));
        assert!(Layout::of(Action::Split, &format).is_none(), "no second part");
        let mut raw = vec![0u8; 54];
        raw[..2].copy_from_slice(&300u16.to_ne_bytes());
        raw[8..12].copy_from_slice(&(8u32 << 20 | 16).to_ne_bytes());
        raw[16..24].copy_from_slice(&4096u64.to_ne_bytes());
        raw[24..28].copy_from_slice(&8u32.to_ne_bytes());
        raw[28..31].copy_from_slice(b"WFS");
        raw[38..41].copy_from_slice(b"fio");
        let mut names = Names::default();
        let event = layouts.read(&raw, &mut names).expect("an event");
        assert_eq!(layouts.device(&raw), Some(8 << 20 | 16));
        assert_eq!((event.action, event.class, event.sector), (Action::Queue, Class::Write, 4096));
        assert!(
            event.sectors == 8 && event.flags.has(Flags::FUA) && names.get(event.name) == "fio"
        );
        raw[..2].copy_from_slice(&298u16.to_ne_bytes());
        assert_eq!(layouts.read(&raw, &mut names).map(|e| e.action), Some(Action::Place));
        for id in [299u16, 7, 301] {
            raw[..2].copy_from_slice(&id.to_ne_bytes());
            assert_eq!(layouts.read(&raw, &mut names), None);
        }
        assert_eq!(layouts.read(&raw[..40], &mut names), None, "cut off");
    }
}
