//! Traces as blktrace writes them: a file for each processor (`NAME.blktrace.0`, ...), whose records are merged by time.
//!
//! A record is 48 bytes in the byte order of the machine that wrote it, and what belongs to it: magic with version 7, its number, time,
//! sector, bytes, action (category << 16 | what), process, device, processor, error, length of what follows.

use super::event::{Action, Class, Event, Flags, Names, Others, SECTOR_BYTES, TIME_NS_MAX, place};
use super::file::TraceError;
use super::numbers::Numbers;
use std::collections::HashMap;
use std::io::{self, Read};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;
/// Categories.
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const PASS_THROUGH: u32 = 1 << 9;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;
const READ: u32 = 1;
/// Set in what happened when the record begins with the number of a control group.
const CGROUP: u32 = 1 << 8;
/// The bytes of that number.
const CGROUP_BYTES: usize = 8;
/// Notes: the name of a process.
const PROCESS: u32 = 0;

/// True for the first bytes of such a file.
#[must_use]
pub fn is_one(start: &[u8]) -> bool {
    let Some(first) = start.get(..4).and_then(|b| <[u8; 4]>::try_from(b).ok()) else {
        return false;
    };
    [u32::from_le_bytes(first), u32::from_be_bytes(first)]
        .iter()
        .any(|magic| magic & 0xffff_ff00 == MAGIC)
}

/// The files of all processors.
pub struct Merged<R> {
    files: Vec<One<R>>,
    names: Names,
    /// Names by process.
    processes: HashMap<u32, u32>,
    device: Option<u32>,
    others: Others,
    cut_off: bool,
    skipped: u64,
    /// Records are missing since it was last asked.
    has_gap: bool,
    /// When they were lost, unless somebody has asked.
    hole: Option<(u64, u64)>,
}

/// One file.
struct One<R> {
    input: R,
    /// Of each processor and device: a file may hold several.
    /// Of each device a row for each processor.
    numbers: HashMap<u32, Numbers<u32>>,
    /// Where the next record begins.
    at: u64,
    course: Course,
    next: Option<Raw>,
}

/// When there was something in a file.
#[derive(Debug, Default)]
struct Course {
    cpu: u32,
    count: u64,
    first_ns: u64,
    last_ns: u64,
    pause_ns: u64,
}

/// Of a file of so few records its pauses say nothing.
const COURSE_MIN: u64 = 1000;
/// One that ends so many times its longest pause before the others, and such a part of the trace, ends early.
const EARLY_PAUSES: u64 = 10;
const EARLY_PART: u64 = 10;

struct Raw {
    is_little: bool,
    head: [u8; RECORD_BYTES],
    data: Vec<u8>,
    time_ns: u64,
    /// Records are missing before it.
    is_behind_gap: bool,
}

impl<R: Read> Merged<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`TraceError`] of the first record of each.
    pub fn new(inputs: Vec<R>) -> Result<Self, TraceError> {
        let one = |input| One {
            input,
            numbers: HashMap::new(),
            at: 0,
            course: Course::default(),
            next: None,
        };
        let mut merged = Self {
            files: inputs.into_iter().map(one).collect(),
            names: Names::default(),
            processes: HashMap::new(),
            device: None,
            others: Others::default(),
            cut_off: false,
            skipped: 0,
            has_gap: false,
            hole: None,
        };
        for number in 0..merged.files.len() {
            merged.refill(number)?;
        }
        Ok(merged)
    }

    /// Of that device, instead of the one that comes first.
    pub fn of_device(self, (major, minor): (u32, u32)) -> Self {
        Self { device: Some((major << 20) | minor), ..self }
    }

    /// Names of processes.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Events of other devices.
    pub fn others(&self) -> &Others {
        &self.others
    }

    /// Major and minor number of the device.
    pub fn device(&self) -> Option<(u32, u32)> {
        self.device.map(numbers)
    }

    /// A file ended inside of a record.
    pub fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Records of the device that name a place which no disk has.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Records of the device that are missing, as their numbers tell.
    pub fn lost(&self) -> u64 {
        let rows = |one: &One<R>| one.numbers.get(&self.device?).map(Numbers::missing);
        self.files.iter().filter_map(rows).sum()
    }

    /// Processors whose files end long before those of the others, when all have been read. A load that moved away does that too.
    pub fn ended_early(&self) -> Vec<u32> {
        let courses = || self.files.iter().map(|one| &one.course).filter(|course| course.count > 0);
        let end_ns = courses().map(|course| course.last_ns).max().unwrap_or(0);
        let first_ns = courses().map(|course| course.first_ns).min().unwrap_or(0);
        let is_early =
            |course: &&Course| course.ends_before(end_ns, end_ns.saturating_sub(first_ns));
        let mut early: Vec<u32> = courses().filter(is_early).map(|course| course.cpu).collect();
        early.sort_unstable();
        early
    }

    /// True once after each place where records are missing.
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.has_gap)
    }

    /// Once before the events among which records of a processor are missing: from when to when that was.
    pub fn take_hole(&mut self) -> Option<(u64, u64)> {
        self.hole.take()
    }

    fn refill(&mut self, number: usize) -> Result<(), TraceError> {
        let one = &mut self.files[number];
        one.next = None;
        match read_one(&mut one.input, one.at)? {
            Found::Record(mut raw, length) => {
                one.at += length;
                raw.is_behind_gap = one.is_behind_gap(&raw);
                one.course.count(&raw);
                one.next = Some(raw);
            }
            Found::End => {}
            Found::CutOff => self.cut_off = true,
        }
        Ok(())
    }

    fn event(&mut self, raw: &Raw) -> Option<Event> {
        let word = |at: usize| raw.u32(at);
        let (what, process, device) = (word(28), word(32), word(36));
        let (category, act) = (what >> 16, what & 0xffff & !CGROUP);
        // What belongs to the event stands behind the number of the group.
        let skip = if what & CGROUP != 0 { CGROUP_BYTES } else { 0 };
        let data = raw.data.get(skip..).unwrap_or_default();
        if category & NOTIFY != 0 {
            if act == PROCESS {
                let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
                let name = self.names.number_of(&String::from_utf8_lossy(&data[..end]));
                self.processes.insert(process, name);
            }
            return None;
        }
        let action = match act {
            1 => Action::Queue,
            2 => Action::BackMerge,
            3 => Action::FrontMerge,
            4 => Action::Place,
            6 => Action::Requeue,
            7 => Action::Issue,
            8 => Action::Complete,
            12 => Action::Insert,
            13 => Action::Split,
            15 => Action::Remap,
            _ => return None,
        };
        if *self.device.get_or_insert(device) != device {
            let (major, minor) = numbers(device);
            self.others.count(&format!("{major},{minor}"));
            return None;
        }
        let mut event = Event::new(action, raw.time_ns);
        let Some([sector, other_sector]) = places(raw, action, data) else {
            self.skipped += 1;
            return None;
        };
        (event.sector, event.other_sector) = (sector, other_sector);
        event.sectors = (u64::from(word(24)).div_ceil(SECTOR_BYTES)) as u32;
        event.process = process;
        event.cpu = word(40) as u16;
        event.error = -i32::from((raw.u16(44) as i16).unsigned_abs() as i16);
        event.name = self.processes.get(&process).copied().unwrap_or(0);
        (event.class, event.flags) = kind_of(category, event.sectors);
        if action == Action::Split {
            event.sectors = (other_sector - sector) as u32;
        }
        Some(event)
    }
}

/// Where a request begins, and the other place that a split or a remap names, which else is 0. None where one of them cannot be.
fn places(raw: &Raw, action: Action, data: &[u8]) -> Option<[u64; 2]> {
    let sector = place(raw.u64(16))?;
    let other = match action {
        Action::Split => be_u64(data, 0).filter(|other| *other >= sector)?,
        Action::Remap => be_u64(data, 8)?,
        _ => 0,
    };
    Some([sector, other])
}

impl Course {
    fn count(&mut self, raw: &Raw) {
        if (raw.u32(28) >> 16) & NOTIFY == 0 {
            if self.count == 0 {
                self.first_ns = raw.time_ns;
            } else {
                self.pause_ns = self.pause_ns.max(raw.time_ns.saturating_sub(self.last_ns));
            }
            (self.cpu, self.last_ns) = (raw.u32(40), self.last_ns.max(raw.time_ns));
            self.count += 1;
        }
    }

    fn ends_before(&self, end_ns: u64, trace_ns: u64) -> bool {
        let rest_ns = end_ns.saturating_sub(self.last_ns);
        self.count >= COURSE_MIN
            && rest_ns / EARLY_PAUSES > self.pause_ns
            && rest_ns > trace_ns / EARLY_PART
    }
}

impl<R> One<R> {
    /// Each processor counts the events of a device, and notes not at all. Newer kernels count what they had no room for too; with older ones
    /// only what is missing of the file shows.
    fn is_behind_gap(&mut self, raw: &Raw) -> bool {
        if (raw.u32(28) >> 16) & NOTIFY != 0 {
            return false;
        }
        self.numbers.entry(raw.device()).or_default().is_behind_gap(raw.u32(40), raw.u32(4))
    }
}

/// A request without data that flushes is a flush; one with data flushes before it.
fn kind_of(category: u32, sectors: u32) -> (Class, Flags) {
    let has = |bit: u32| category & bit != 0;
    let class = match () {
        () if has(PASS_THROUGH) => Class::Other,
        () if has(FLUSH) && sectors == 0 => Class::Flush,
        () if has(DISCARD) => Class::Discard,
        () if has(WRITE) => Class::Write,
        () if has(READ) => Class::Read,
        () => Class::Other,
    };
    let flags = [
        (SYNC, Flags::SYNC),
        (META, Flags::META),
        (FUA, Flags::FUA),
        (FLUSH, Flags::PREFLUSH),
        (AHEAD, Flags::AHEAD),
    ];
    let bits = flags.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, flag)| flag.0).sum();
    (class, Flags(bits))
}

impl<R: Read> Iterator for Merged<R> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let times = self.files.iter().enumerate();
            let first = times
                .filter_map(|(number, one)| Some((one.next.as_ref()?.time_ns, number)))
                .min()?;
            let number = first.1;
            let raw = self.files[number].next.take()?;
            // What is missing of another device is not missing here.
            let device = self.device.unwrap_or_else(|| raw.device());
            let is_behind_gap = |raw: &Raw| raw.is_behind_gap && raw.device() == device;
            self.has_gap |= is_behind_gap(&raw);
            if let Err(error) = self.refill(number) {
                return Some(Err(error));
            }
            if let Some(next) = self.files[number].next.as_ref().filter(|next| is_behind_gap(next))
            {
                let (from_ns, to_ns) = self.hole.unwrap_or((raw.time_ns, next.time_ns));
                self.hole = Some((from_ns.min(raw.time_ns), to_ns.max(next.time_ns)));
            }
            if let Some(event) = self.event(&raw) {
                return Some(Ok(event));
            }
        }
    }
}

/// Major and minor number, as the kernel has them inside.
fn numbers(device: u32) -> (u32, u32) {
    (device >> 20, device & 0xf_ffff)
}

enum Found {
    Record(Raw, u64),
    End,
    CutOff,
}

fn read_one(input: &mut impl Read, at: u64) -> Result<Found, TraceError> {
    let mut head = [0; RECORD_BYTES];
    match fill(input, &mut head)? {
        0 => return Ok(Found::End),
        RECORD_BYTES => {}
        _ => return Ok(Found::CutOff),
    }
    let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let is_little = magic & 0xffff_ff00 == MAGIC;
    let magic = if is_little { magic } else { magic.swap_bytes() };
    if magic & 0xffff_ff00 != MAGIC {
        return Err(TraceError::Damaged { at, what: "no record of blktrace begins there" });
    }
    // Behind the first record another number is no newer form.
    if magic & 0xff != VERSION && at > 0 {
        return Err(TraceError::Damaged { at, what: "no record of blktrace begins there" });
    }
    if magic & 0xff != VERSION {
        return Err(TraceError::Foreign(format!(
            "a trace of blktrace in form {}, and form {VERSION} is known",
            magic & 0xff
        )));
    }
    let mut raw = Raw { is_little, head, data: Vec::new(), time_ns: 0, is_behind_gap: false };
    raw.time_ns = raw.u64(8);
    if raw.time_ns > TIME_NS_MAX {
        return Err(TraceError::Damaged { at, what: "a record has a time that is none" });
    }
    raw.data = vec![0; usize::from(raw.u16(46))];
    if fill(input, &mut raw.data)? < raw.data.len() {
        return Ok(Found::CutOff);
    }
    let length = (RECORD_BYTES + raw.data.len()) as u64;
    Ok(Found::Record(raw, length))
}

fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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

impl Raw {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.head[at..at + N]);
        if !self.is_little {
            bytes.reverse();
        }
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn device(&self) -> u32 {
        self.u32(36)
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

fn be_u64(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(data.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
#[path = "blktrace_tests.rs"]
mod tests;
