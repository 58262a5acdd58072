//! Reading a trace, block by block.

use super::codec::{Before, Bytes, decode};
use super::merge::Merge;
use super::shelf::Unpacked;
use super::{
    BLOCK_HEAD_BYTES, BLOCK_MAGIC, Head, KIND_END, KIND_EVENTS, KIND_NAMES, KIND_PROCESSOR,
    KIND_ROUND, LENGTH_MAX, MAGIC, TraceError, VERSION,
};
use crate::trace::event::{Event, Names};
use fathom_base::json;
use std::io::{self, Read};

/// More events than that are in no round: those of all rings that a recorder may have.
const ROUND_EVENTS_MAX: usize = 1 << 24;

/// A trace that is being read.
pub struct Reader<R> {
    input: R,
    head: Head,
    names: Names,
    payload: Vec<u8>,
    /// Of a block of events of all processors: where the next one is, how many are left, and what it is told against.
    at: usize,
    left: u32,
    before: Before,
    /// Events of single processors.
    merge: Merge,
    /// Those of this round that are later are left out.
    own_ns: u64,
    bytes_read: u64,
    events: u64,
    lost: u64,
    /// Of the block that is being read, events were lost.
    is_lossy: bool,
    /// So they were of one before it, which nobody has asked about yet.
    has_gap: bool,
    /// When events were lost of the round that is being read, unless somebody has asked.
    hole: Option<(u64, u64)>,
    came_online: Vec<u32>,
    ended_ns: Option<u64>,
    has_more: bool,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    Whole,
    CutOff,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`TraceError`] for another file, a newer form, a damaged head.
    pub fn new(mut input: R) -> Result<Self, TraceError> {
        let mut start = [0; 20];
        let found = read_up_to(&mut input, &mut start)?;
        if found < 8 || &start[..8] != MAGIC {
            return Err(TraceError::Foreign("it begins with other bytes".into()));
        }
        let (version, length, checksum) =
            (u32_at(&start, 8), u32_at(&start, 12), u32_at(&start, 16));
        if version > VERSION {
            return Err(TraceError::Newer { found: version });
        }
        let damaged = |what| TraceError::Damaged { at: 20, what };
        let cut = damaged("its head is cut off");
        if length > LENGTH_MAX {
            return Err(damaged("its head is longer than any"));
        }
        let mut json = vec![0; length as usize];
        if found < 20 || read_up_to(&mut input, &mut json)? < json.len() {
            return Err(cut);
        }
        if crc32c::crc32c(&json) != checksum {
            return Err(damaged("the checksum of its head is another"));
        }
        let head = std::str::from_utf8(&json).ok().and_then(|text| json::from_str(text).ok());
        let head: Head = head.ok_or(damaged("its head says nothing"))?;
        Ok(Self {
            input,
            head,
            names: Names::default(),
            payload: Vec::new(),
            at: 0,
            left: 0,
            before: Before::default(),
            merge: Merge::default(),
            own_ns: u64::MAX,
            bytes_read: 20 + u64::from(length),
            events: 0,
            lost: 0,
            is_lossy: false,
            has_gap: false,
            hole: None,
            came_online: Vec::new(),
            ended_ns: None,
            has_more: false,
            state: State::Reading,
        })
    }

    /// What it is of.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Names of processes, as far as has been read.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Events that found no room, as far as has been read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Processors that came online while it was made, when it has been read to its end.
    pub fn came_online(&self) -> &[u32] {
        &self.came_online
    }

    /// When the capture ended, when it has been read to its end; none of older versions.
    pub fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    /// True once after each block of which events were lost: what was in flight then may have ended.
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.has_gap)
    }

    /// Once before the events of each round of which some were lost: from when to when that may have been.
    pub fn take_hole(&mut self) -> Option<(u64, u64)> {
        self.hole.take()
    }

    /// True when something stands behind its end.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Of a trace that was cut off, when it has been read: events behind the last round that is whole.
    pub fn in_no_round(&self) -> u64 {
        if self.is_cut_off() { self.merge.count() as u64 } else { 0 }
    }

    /// True when it ended before its end.
    pub fn is_cut_off(&self) -> bool {
        self.state == State::CutOff
    }

    /// Reads the next block. False at the end.
    fn next_block(&mut self) -> Result<bool, TraceError> {
        let at = self.bytes_read;
        let damaged = |what| Err(TraceError::Damaged { at, what });
        let mut head = [0; BLOCK_HEAD_BYTES];
        if read_up_to(&mut self.input, &mut head)? < head.len() {
            self.state = State::CutOff;
            return Ok(false);
        }
        let (kind, count, length) = (u32_at(&head, 4), u32_at(&head, 8), u32_at(&head, 12));
        if &head[..4] != BLOCK_MAGIC || length > LENGTH_MAX {
            return damaged("no block begins there");
        }
        self.payload.resize(length as usize, 0);
        if read_up_to(&mut self.input, &mut self.payload)? < self.payload.len() {
            self.payload.clear();
            self.state = State::CutOff;
            return Ok(false);
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&self.payload), &head[..32]);
        if checksum != u32_at(&head, 32) {
            return damaged("the checksum of the block there is another");
        }
        self.bytes_read += (BLOCK_HEAD_BYTES + self.payload.len()) as u64;
        let (first, second) = (u64_at(&head, 16), u64_at(&head, 24));
        match kind {
            KIND_EVENTS => {
                self.count_lost(first);
                (self.at, self.left) = (0, count);
                self.before = Before { time_ns: second, end_sector: 0 };
            }
            KIND_PROCESSOR => {
                if let Err(what) = self.unpack(count, first, second) {
                    return damaged(what);
                }
            }
            KIND_ROUND => {
                self.count_lost(first);
                self.own_ns = Bytes(&self.payload).short(8).unwrap_or(u64::MAX);
                self.hole = self.merge.hole(second).filter(|_| first > 0).or(self.hole);
                self.merge.begin(second);
            }
            KIND_NAMES if self.learn_names(count).is_none() => return damaged("names are cut off"),
            KIND_END => {
                if let Err(what) = self.end() {
                    return damaged(what);
                }
                self.has_more = read_up_to(&mut self.input, &mut [0])? > 0;
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    }

    /// So many were lost in a block or a round.
    fn count_lost(&mut self, lost: u64) {
        self.lost = self.lost.saturating_add(lost);
        self.has_gap |= self.is_lossy;
        self.is_lossy = lost > 0;
    }

    fn unpack(&mut self, count: u32, cpu: u64, base_ns: u64) -> Result<(), &'static str> {
        const NONE: &str = "an event of the block there is none";
        if self.merge.count() + count as usize > ROUND_EVENTS_MAX {
            return Err("a round is longer than any");
        }
        let cpu = u16::try_from(cpu).map_err(|_| NONE)?;
        let ring = self.merge.ring_of(cpu);
        let mut unpacked = Unpacked::new(&self.payload, cpu, base_ns);
        for _ in 0..count {
            self.merge.add(ring, unpacked.event().ok_or(NONE)?);
        }
        self.events += u64::from(count);
        if unpacked.is_empty() { Ok(()) } else { Err(NONE) }
    }

    fn end(&mut self) -> Result<(), &'static str> {
        self.state = State::Whole;
        let mut sums = Bytes(&self.payload);
        if sums.number() != Some(self.events) || self.merge.count() > 0 {
            return Err("events are missing before it");
        }
        let _lost = sums.number();
        let count = sums.number().unwrap_or(0);
        let numbers = (0..count).map_while(|_| u32::try_from(sums.number()?).ok());
        self.came_online = numbers.collect();
        self.ended_ns = sums.number().filter(|ns| *ns > 0);
        Ok(())
    }

    /// The next one of a block of events of all processors.
    fn next_of_block(&mut self) -> Result<Event, TraceError> {
        let mut bytes = Bytes(&self.payload[self.at..]);
        let event = decode(&mut bytes, &mut self.before);
        self.at = self.payload.len() - bytes.0.len();
        self.left -= 1;
        self.events += 1;
        if event.is_none() {
            (self.state, self.left) = (State::CutOff, 0);
        }
        let what = "an event before it is none";
        event.ok_or(TraceError::Damaged { at: self.bytes_read, what })
    }

    fn learn_names(&mut self, count: u32) -> Option<()> {
        let mut bytes = Bytes(&self.payload);
        for _ in 0..count {
            let length = usize::try_from(bytes.number()?).ok()?;
            let name = bytes.take(length)?;
            self.names.number_of(&String::from_utf8_lossy(name));
        }
        Some(())
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.merge.next() {
                if event.time_ns <= self.own_ns {
                    return Some(Ok(event));
                }
            } else if self.left > 0 {
                return Some(self.next_of_block());
            } else if self.state != State::Reading {
                return None;
            } else {
                match self.next_block() {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => {
                        self.state = State::CutOff;
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

/// Reads until the buffer is full or the input ends; how much.
fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match input.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}
