//! Records of tracepoints, written down as events.
//!
//! This is done while the recorded load runs, for each event: what is as it was for the last event of the same action is not looked at
//! again, and nothing is put in order or kept that a reader of the trace can do.

use super::event::{Action, Names, read_letters};
use super::file::{Shelves, Step, Until, Writer, what, who};
use super::layout::{Fields, Layouts};
use super::threads::Threads;
use fathom_sys::tracing::Sample;
use std::io::{self, Write};

/// Events that were taken and not written yet.
pub(super) struct Transcript {
    layouts: Layouts,
    names: Names,
    /// Where the numbers are those of threads.
    threads: Option<Threads>,
    /// Where the captured part of the device begins and ends.
    part: Option<(u64, u64)>,
    shelves: Shelves,
    /// By the number of the action.
    last: [Last; Action::ALL.len()],
}

/// What the last event of an action said, and what that means.
#[derive(Debug, Clone, Copy)]
struct Last {
    letters: u64,
    what: u64,
    process: u32,
    name: [u8; 16],
    who: u64,
}

/// What no letters are.
const NO_LETTERS: u64 = 0;

impl Transcript {
    /// Of all of a device, or of a part that begins at that sector and has so many.
    pub(super) fn new(
        layouts: Layouts,
        part: Option<(u64, u64)>,
        threads: Option<Threads>,
    ) -> Self {
        let part = part.map(|(start, count)| (start, start.saturating_add(count)));
        let last = Last { letters: NO_LETTERS, what: 0, process: 0, name: [0; 16], who: 0 };
        Self {
            layouts,
            names: Names::default(),
            threads,
            part,
            shelves: Shelves::default(),
            last: [last; Action::ALL.len()],
        }
    }

    /// Names of the processes seen.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// There is enough to be written.
    pub(super) fn is_full(&self) -> bool {
        self.shelves.are_full()
    }

    /// One more of a processor. Records of other tracepoints, and those that are cut off, are none.
    #[inline]
    pub(super) fn add(&mut self, cpu: u32, sample: &Sample<'_>) {
        let said = self.layouts.of(sample.raw).and_then(|layout| layout.fields(sample.raw));
        let Some(mut said) = said else { return };
        let start_sector = self.part.map_or(0, |(start, _)| start);
        if let Some(part) = self.part
            && !keep_inside(&mut said, part)
        {
            return;
        }
        let step = Step {
            action: said.action,
            time_ns: sample.time_ns,
            sector: said.sector.saturating_sub(start_sector),
            other_sector: said.other_sector,
            error: said.error,
            what: self.what(&said),
            who: self.who(&said, sample.process),
        };
        self.shelves.of(cpu).add(&step);
    }

    #[inline]
    fn what(&mut self, said: &Fields<'_>) -> u64 {
        let last = &mut self.last[said.action as usize];
        let letters = as_number(said.letters);
        // Without data it may be something else.
        if letters != last.letters || said.sectors == 0 || letters == NO_LETTERS {
            let (class, flags) = read_letters(said.letters, said.sectors);
            last.letters = if said.sectors == 0 { NO_LETTERS } else { letters };
            last.what = what(class, flags, 0);
        }
        last.what | u64::from(said.sectors) << 32
    }

    #[inline]
    fn who(&mut self, said: &Fields<'_>, process: u32) -> u64 {
        const NOBODY: &[u8; 16] = &[0; 16];
        let last = &mut self.last[said.action as usize];
        let name = said.name.unwrap_or(NOBODY);
        if process != last.process || *name != last.name {
            (last.process, last.name) = (process, *name);
            let threads = self.threads.as_mut();
            let process = threads.map_or(process, |threads| threads.process(process));
            last.who = who(process, self.names.number(*name));
        }
        last.who
    }

    /// Writes what was taken, of which nothing from before `until.whole_ns` is missing.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn write<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        until: Until,
    ) -> io::Result<()> {
        writer.round(&mut self.shelves, &self.names, until)
    }
}

/// Of a request of the whole disk what lies in a part of it, and whether there is any. What has no place, as flushes, has none to cut.
fn keep_inside(said: &mut Fields<'_>, (start, end): (u64, u64)) -> bool {
    if said.sectors == 0 {
        return true;
    }
    let its_end = said.sector.saturating_add(u64::from(said.sectors)).min(end);
    let from = said.sector.max(start);
    // Shorter than it was, and so no more than 32 bits.
    said.sectors = its_end.saturating_sub(from) as u32;
    said.sector = from;
    said.sectors > 0
}

/// The letters as one number, without what stands behind their end; none of those that are too long for that.
#[inline]
fn as_number(letters: &[u8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let Some(bytes) = letters.first_chunk() else { return NO_LETTERS };
    let number = u64::from_le_bytes(*bytes);
    // The lowest bit is in the first byte that is 0.
    let zeros = number.wrapping_sub(ONES) & !number & (ONES << 7);
    if zeros == 0 {
        return NO_LETTERS;
    }
    let before = ((zeros & zeros.wrapping_neg()) >> 7).wrapping_sub(1);
    number & before
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
