//! Writing a trace, block by block.

use super::codec::{Before, EVENT_BYTES_MAX, encode, put};
use super::{BLOCK_MAGIC, Head, KIND_END, KIND_EVENTS, KIND_NAMES, MAGIC, VERSION};
use crate::trace::event::{Event, Names};
use std::io::{self, Write};

/// A block is closed when it has this much.
const BLOCK_BYTES: usize = 256 << 10;

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
    payload: Vec<u8>,
    before: Before,
    base_ns: u64,
    count: u32,
    /// Lost since the last block.
    lost: u64,
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
        let totals = Totals { bytes: 20 + json.len() as u64, ..Totals::default() };
        let payload = Vec::with_capacity(BLOCK_BYTES + EVENT_BYTES_MAX);
        let (before, base_ns, count, lost, names_written) = (Before::default(), 0, 0, 0, 1);
        let (came_online, ended_ns) = (Vec::new(), 0);
        Ok(Self {
            out,
            payload,
            before,
            base_ns,
            count,
            lost,
            names_written,
            totals,
            came_online,
            ended_ns,
        })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Those of writing.
    #[inline]
    pub fn push(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        if self.count == 0 {
            self.base_ns = event.time_ns;
            self.before = Before { time_ns: event.time_ns, end_sector: 0 };
        }
        encode(&mut self.payload, event, &mut self.before);
        self.count += 1;
        if self.payload.len() >= BLOCK_BYTES { self.flush_block(names) } else { Ok(()) }
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

    /// What has been written by now; events of the block that is open are not counted yet.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Where it is written to.
    pub fn sink(&self) -> &W {
        &self.out
    }

    /// Closes the block that is open, so that what came until now is in the file.
    ///
    /// # Errors
    /// Those of writing.
    pub fn flush_block(&mut self, names: &Names) -> io::Result<()> {
        // Names come before the events that use them.
        let new = names.since(self.names_written);
        if !new.is_empty() {
            let mut bytes = Vec::new();
            for name in new {
                put(&mut bytes, name.len() as u64);
                bytes.extend_from_slice(name.as_bytes());
            }
            self.names_written += new.len();
            let count = new.len() as u32;
            self.block(KIND_NAMES, count, &bytes)?;
        }
        if self.count > 0 || self.lost > 0 {
            let payload = std::mem::take(&mut self.payload);
            self.block(KIND_EVENTS, self.count, &payload)?;
            self.totals.events += u64::from(self.count);
            self.payload = payload;
            self.payload.clear();
            (self.count, self.lost) = (0, 0);
        }
        Ok(())
    }

    fn block(&mut self, kind: u32, count: u32, payload: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(super::BLOCK_HEAD_BYTES);
        head.extend_from_slice(BLOCK_MAGIC);
        for number in [kind, count, payload.len() as u32] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        let lost = if kind == KIND_EVENTS { self.lost } else { 0 };
        for number in [lost, self.base_ns] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(payload), &head);
        head.extend_from_slice(&checksum.to_le_bytes());
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
        self.flush_block(names)?;
        let mut sums = Vec::new();
        put(&mut sums, self.totals.events);
        put(&mut sums, self.totals.lost);
        put(&mut sums, self.came_online.len() as u64);
        self.came_online.iter().for_each(|number| put(&mut sums, u64::from(*number)));
        put(&mut sums, self.ended_ns);
        self.block(KIND_END, 0, &sums)?;
        self.out.flush()?;
        Ok((self.out, self.totals))
    }
}
