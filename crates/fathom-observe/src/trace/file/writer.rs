//! Writing a trace, block by block.

use super::codec::put;
use super::shelf::{Shelf, Step};
use super::{Head, KIND_END, KIND_NAMES, KIND_ROUND, MAGIC, VERSION, block_head};
use crate::trace::event::{Event, Names};
use std::io::{self, Write};

/// A round is closed when its events have this much.
const ROUND_BYTES: usize = 256 << 10;

/// Room that shelves keep from one round to the next.
const KEPT_BYTES: usize = 16 * ROUND_BYTES;
/// How many are pushed from one look at how much that is to the next.
const PUSHED: usize = 1024;

/// Up to when what is on shelves counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// Nothing from before that can come any more.
    pub whole_ns: u64,
    /// What came later is not of the device.
    pub own_ns: u64,
}

/// Events of all processors that have not been written.
#[derive(Debug, Default)]
pub struct Shelves {
    /// By the processor's number.
    shelves: Vec<Shelf>,
}

impl Shelves {
    /// That of a processor.
    #[inline]
    pub(in crate::trace) fn of(&mut self, cpu: u32) -> &mut Shelf {
        let cpu = cpu as usize;
        if cpu >= self.shelves.len() {
            self.shelves.resize_with(cpu + 1, Shelf::default);
        }
        &mut self.shelves[cpu]
    }

    /// There is enough for a round.
    #[must_use]
    pub fn are_full(&self) -> bool {
        self.shelves.iter().map(Shelf::len_bytes).sum::<usize>() >= ROUND_BYTES
    }

    /// When the last one was, also of those that were written.
    fn last_ns(&self) -> u64 {
        self.shelves.iter().map(Shelf::last_ns).max().unwrap_or(0)
    }

    fn events(&self) -> u64 {
        self.shelves.iter().map(|shelf| u64::from(shelf.count())).sum()
    }
}

/// What a trace came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events in it.
    pub events: u64,
    /// Events that found no room in the kernel's rings.
    pub lost: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A trace that is being written.
pub struct Writer<W> {
    out: W,
    /// What was pushed.
    own: Shelves,
    pushed: usize,
    /// Lost since the last round.
    lost: u64,
    /// Up to when the last round was whole.
    whole_ns: u64,
    names_written: usize,
    totals: Totals,
    came_online: Vec<u32>,
    /// When the capture ended; 0 where that was not said.
    ended_ns: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    ///
    /// # Errors
    /// Those of writing.
    pub fn new(mut out: W, head: &Head) -> io::Result<Self> {
        let json = serde_json::to_vec(head).map_err(io::Error::other)?;
        out.write_all(MAGIC)?;
        for number in [VERSION, json.len() as u32, crc32c::crc32c(&json)] {
            out.write_all(&number.to_le_bytes())?;
        }
        out.write_all(&json)?;
        Ok(Self {
            out,
            own: Shelves::default(),
            pushed: 0,
            lost: 0,
            whole_ns: 0,
            names_written: 1,
            totals: Totals { bytes: 20 + json.len() as u64, ..Totals::default() },
            came_online: Vec::new(),
            ended_ns: 0,
        })
    }

    /// Adds an event, none of which comes before those of an earlier round.
    ///
    /// # Errors
    /// Those of writing.
    pub fn push(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        self.own.of(u32::from(event.cpu)).add(&Step::of(event));
        self.pushed += 1;
        if self.pushed.is_multiple_of(PUSHED) && self.own.are_full() {
            return self.flush_round(names);
        }
        Ok(())
    }

    /// Ends the round of what was pushed, so that it is in the file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush_round(&mut self, names: &Names) -> io::Result<()> {
        let mut own = std::mem::take(&mut self.own);
        let all = Until { whole_ns: u64::MAX, own_ns: u64::MAX };
        let written = self.round(&mut own, names, all);
        self.own = own;
        written
    }

    /// So many events are missing here.
    pub fn lost(&mut self, count: u64) {
        self.lost += count;
        self.totals.lost += count;
    }

    /// These processors came online while it was made, and their events are missing; said at its end.
    pub fn came_online(&mut self, processors: &[u32]) {
        self.came_online = processors.to_vec();
    }

    /// When the capture ended, whether or not anything happened then; said at its end.
    pub fn ended(&mut self, at_ns: u64) {
        self.ended_ns = at_ns;
    }

    /// What has been written by now; events of the round that is open are not counted yet.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Where it is written to.
    pub fn sink(&self) -> &W {
        &self.out
    }

    /// Writes all that is on shelves as a round.
    ///
    /// # Errors
    /// Those of writing.
    pub fn round(&mut self, shelves: &mut Shelves, names: &Names, until: Until) -> io::Result<()> {
        // What was later than the last round was whole is in the file, and waits for this one.
        let is_last = until.whole_ns == u64::MAX && self.whole_ns != u64::MAX;
        let is_due = self.lost > 0 || shelves.last_ns() > self.whole_ns || is_last;
        let events = shelves.events();
        if events == 0 && !is_due {
            return Ok(());
        }
        self.names(names)?;
        let keep_bytes = KEPT_BYTES / shelves.shelves.len().max(1);
        for (cpu, shelf) in (0..).zip(&mut shelves.shelves) {
            if let Some(block) = shelf.block(cpu) {
                self.out.write_all(block)?;
                self.totals.bytes += block.len() as u64;
            }
            shelf.clear(keep_bytes);
        }
        self.block(KIND_ROUND, 0, (self.lost, until.whole_ns), &until.own_ns.to_le_bytes())?;
        self.totals.events += events;
        (self.lost, self.whole_ns) = (0, until.whole_ns);
        Ok(())
    }

    /// Names come before the events that use them.
    fn names(&mut self, names: &Names) -> io::Result<()> {
        let new = names.since(self.names_written);
        if new.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        for name in new {
            put(&mut bytes, name.len() as u64);
            bytes.extend_from_slice(name.as_bytes());
        }
        self.names_written += new.len();
        self.block(KIND_NAMES, new.len() as u32, (0, 0), &bytes)
    }

    fn block(
        &mut self,
        kind: u32,
        count: u32,
        numbers: (u64, u64),
        payload: &[u8],
    ) -> io::Result<()> {
        let head = block_head(kind, count, numbers, payload);
        self.out.write_all(&head)?;
        self.out.write_all(payload)?;
        self.totals.bytes += (head.len() + payload.len()) as u64;
        Ok(())
    }

    /// Ends the trace, and gives the file back.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(mut self, names: &Names) -> io::Result<(W, Totals)> {
        self.flush_round(names)?;
        let mut sums = Vec::new();
        put(&mut sums, self.totals.events);
        put(&mut sums, self.totals.lost);
        put(&mut sums, self.came_online.len() as u64);
        self.came_online.iter().for_each(|number| put(&mut sums, u64::from(*number)));
        put(&mut sums, self.ended_ns);
        self.block(KIND_END, 0, (0, 0), &sums)?;
        self.out.flush()?;
        Ok((self.out, self.totals))
    }
}
