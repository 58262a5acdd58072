//! One step of one request, wherever it was read from.

use std::collections::HashMap;

/// Bytes of a sector in traces, whatever the device's own are.
pub const SECTOR_BYTES: u64 = 512;

/// The latest time that is one: 292 years. What is later was never a time, and could not be reckoned with.
pub(super) const TIME_NS_MAX: u64 = i64::MAX as u64;

/// Where a request of another's trace begins: those without a place, as flushes, have the largest number there is. None for what
/// no disk has.
pub(super) fn place(sector: u64) -> Option<u64> {
    const SECTOR_MAX: u64 = i64::MAX as u64 / SECTOR_BYTES;
    match sector {
        u64::MAX => Some(0),
        _ => (sector <= SECTOR_MAX).then_some(sector),
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A request arrived at the device (Q).
    Queue,
    /// A place in the queue was found for it (G).
    Place,
    /// The scheduler got it (I).
    Insert,
    /// The driver got it (D).
    Issue,
    /// The driver is done with it, or with a part of it (C).
    Complete,
    /// A request of a device without a queue of its own (md, device mapper, zram) has ended (C).
    BioComplete,
    /// It was put before one that waited (F).
    FrontMerge,
    /// It was put behind one that waited (M).
    BackMerge,
    /// Two that waited became one.
    RequestMerge,
    /// The driver gave it back (R).
    Requeue,
    /// It was cut in two (X).
    Split,
    /// It came from a partition or another device (A).
    Remap,
}

impl Action {
    /// All of them, in the order of their numbers in files.
    pub const ALL: [Self; 12] = [
        Self::Queue,
        Self::Place,
        Self::Insert,
        Self::Issue,
        Self::Complete,
        Self::BioComplete,
        Self::FrontMerge,
        Self::BackMerge,
        Self::RequestMerge,
        Self::Requeue,
        Self::Split,
        Self::Remap,
    ];

    /// The kernel's name of the tracepoint.
    #[must_use]
    pub fn tracepoint(self) -> &'static str {
        match self {
            Self::Queue => "block_bio_queue",
            Self::Place => "block_getrq",
            Self::Insert => "block_rq_insert",
            Self::Issue => "block_rq_issue",
            Self::Complete => "block_rq_complete",
            Self::BioComplete => "block_bio_complete",
            Self::FrontMerge => "block_bio_frontmerge",
            Self::BackMerge => "block_bio_backmerge",
            Self::RequestMerge => "block_rq_merge",
            Self::Requeue => "block_rq_requeue",
            Self::Split => "block_split",
            Self::Remap => "block_bio_remap",
        }
    }
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Data from the device.
    Read,
    /// Data to the device.
    Write,
    /// A range is given back.
    Discard,
    /// The device's cache is emptied.
    Flush,
    /// Anything else: commands of drivers, zones.
    Other,
}

impl Class {
    /// All of them, in the order of their numbers in files.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Discard, Self::Flush, Self::Other];

    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Discard => "discard",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }
}

/// How a request is to be done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Somebody waits for it.
    pub const SYNC: Self = Self(1);
    /// Data of the filesystem's own.
    pub const META: Self = Self(2);
    /// It has to be on stable storage before it ends.
    pub const FUA: Self = Self(4);
    /// The device's cache is emptied before it.
    pub const PREFLUSH: Self = Self(8);
    /// Read before anybody asked.
    pub const AHEAD: Self = Self(16);

    /// True when all of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These, and all of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These, but none of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The letters by which the kernel and blkparse describe a request, such as `WFS`: what it does, and how.
///
/// An `F` before the operation asks for a flush before it, one behind it for a write to stable storage.
#[must_use]
pub fn parse_rwbs(letters: &[u8]) -> (Class, Flags) {
    // Most are one of these.
    match letters {
        [b'R', 0, ..] => return (Class::Read, Flags::default()),
        [b'W', 0, ..] => return (Class::Write, Flags::default()),
        [b'W', b'S', 0, ..] => return (Class::Write, Flags::SYNC),
        _ => {}
    }
    let letters = letters.split(|b| *b == 0).next().unwrap_or_default();
    let (mut flags, mut rest) = (Flags::default(), letters);
    if let [b'F', next, ..] = letters
        && matches!(next, b'W' | b'R' | b'D' | b'E' | b'F' | b'N' | b'Z')
    {
        flags.add(Flags::PREFLUSH);
        rest = &letters[1..];
    }
    let class = match rest.first() {
        Some(b'R') => Class::Read,
        Some(b'W') => Class::Write,
        Some(b'D' | b'E') => Class::Discard,
        Some(b'F') => Class::Flush,
        _ => Class::Other,
    };
    for letter in rest.iter().skip(1) {
        match letter {
            b'S' => flags.add(Flags::SYNC),
            b'M' => flags.add(Flags::META),
            b'F' => flags.add(Flags::FUA),
            b'A' => flags.add(Flags::AHEAD),
            // Older kernels: secure discard.
            _ => {}
        }
    }
    (class, flags)
}

/// The class and flags of so many sectors as they count: what has no data and flushes is a flush. It is asked for as a write (`FWS`),
/// and goes on, in the words of blkparse, as nothing (`FN`).
pub(super) fn read_letters(letters: &[u8], sectors: u32) -> (Class, Flags) {
    let (class, flags) = parse_rwbs(letters);
    let has_data = sectors > 0 || !matches!(class, Class::Write | Class::Other);
    if flags.has(Flags::PREFLUSH) && !has_data {
        return (Class::Flush, flags);
    }
    (class, flags)
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, on a clock that only goes forward.
    pub time_ns: u64,
    /// First sector of 512 bytes, from the start of the device.
    pub sector: u64,
    /// Of a split the first sector of the second part; of a remap the sector on the device that it came from.
    pub other_sector: u64,
    /// How many sectors.
    pub sectors: u32,
    /// The process that caused it; that of an end is whoever was interrupted.
    pub process: u32,
    /// Its name, by number in [`Names`].
    pub name: u32,
    /// Of an end: 0 or a negative errno.
    pub error: i32,
    /// The processor.
    pub cpu: u16,
    /// What happened.
    pub action: Action,
    /// To what.
    pub class: Class,
    /// And how that is to be done.
    pub flags: Flags,
}

impl Event {
    /// With the class and flags of these letters.
    #[must_use]
    pub fn with_letters(mut self, letters: &[u8]) -> Self {
        (self.class, self.flags) = read_letters(letters, self.sectors);
        self
    }

    /// An event about nothing, to be filled in.
    #[must_use]
    pub fn new(action: Action, time_ns: u64) -> Self {
        Self {
            time_ns,
            sector: 0,
            other_sector: 0,
            sectors: 0,
            process: 0,
            name: 0,
            error: 0,
            cpu: 0,
            action,
            class: Class::Other,
            flags: Flags::default(),
        }
    }

    /// The first sector behind it.
    #[must_use]
    pub fn end_sector(&self) -> u64 {
        self.sector.saturating_add(u64::from(self.sectors))
    }
}

/// Names of processes by number. The kernel's names have 15 characters at the most.
#[derive(Debug, Clone)]
pub struct Names {
    names: Vec<String>,
    numbers: HashMap<[u8; 16], u32>,
    /// The last one asked for: one process often does several steps in a row.
    last: ([u8; 16], u32),
}

impl Default for Names {
    fn default() -> Self {
        let numbers = HashMap::from([([0; 16], 0)]);
        Self { names: vec![String::new()], numbers, last: ([0; 16], 0) }
    }
}

/// More names than that are all told as the first, the empty one.
pub const NAMES_MAX: usize = 1 << 16;

impl Names {
    /// The number of a name; 0 for no name.
    pub fn number(&mut self, name: [u8; 16]) -> u32 {
        if name == self.last.0 {
            return self.last.1;
        }
        let number = match self.numbers.get(&name) {
            Some(number) => *number,
            None if self.names.len() >= NAMES_MAX => 0,
            None => {
                let end = name.iter().position(|b| *b == 0).unwrap_or(16);
                self.names.push(String::from_utf8_lossy(&name[..end]).into_owned());
                let number = (self.names.len() - 1) as u32;
                self.numbers.insert(name, number);
                number
            }
        };
        self.last = (name, number);
        number
    }

    /// The number of a name of any length.
    pub fn number_of(&mut self, name: &str) -> u32 {
        let mut bytes = [0; 16];
        let length = name.len().min(16);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        self.number(bytes)
    }

    /// The name of a number.
    #[must_use]
    pub fn get(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }

    /// All of them from a number on.
    #[must_use]
    pub fn since(&self, number: usize) -> &[String] {
        self.names.get(number..).unwrap_or_default()
    }
}

/// Events of other devices in a trace, which are left out.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Others {
    /// How many there are.
    pub events: u64,
    /// Major and minor number of the first of these devices: `8,16`.
    pub devices: Vec<String>,
}

/// Devices that are told by number.
const OTHERS_MAX: usize = 16;

impl Others {
    /// One more, of that device.
    pub fn count(&mut self, device: &str) {
        self.events += 1;
        let is_new = self.devices.len() < OTHERS_MAX && !self.devices.iter().any(|d| d == device);
        if is_new {
            self.devices.push(device.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_say_what_and_how() {
        let none = Flags::default();
        let of = |bits: &[Flags]| Flags(bits.iter().map(|f| f.0).sum());
        for (letters, class, flags) in [
            (&b"R\0\0"[..], Class::Read, none),
            (b"R", Class::Read, none),
            (b"W\0S", Class::Write, none),
            (b"WS\0M", Class::Write, Flags::SYNC),
            (b"RA", Class::Read, Flags::AHEAD),
            (b"WS", Class::Write, Flags::SYNC),
            (b"WFS\0x", Class::Write, of(&[Flags::FUA, Flags::SYNC])),
            (b"FWFSM", Class::Write, of(&[Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META])),
            (b"FF", Class::Flush, Flags::PREFLUSH),
            (b"F", Class::Flush, none),
            (b"D", Class::Discard, none),
            (b"DE", Class::Discard, none),
            (b"N", Class::Other, none),
            (b"", Class::Other, none),
        ] {
            assert_eq!(parse_rwbs(letters), (class, flags), "{letters:?}");
        }
        let flush = Event::new(Action::Queue, 1).with_letters(b"FWS");
        assert_eq!(flush.class, Class::Flush);
        let issued = Event::new(Action::Issue, 1).with_letters(b"FN");
        assert_eq!((issued.class, issued.flags), (Class::Flush, Flags::PREFLUSH));
        assert_eq!(Event::new(Action::Issue, 1).with_letters(b"N").class, Class::Other);
        let write = Event { sectors: 8, ..Event::new(Action::Queue, 1) }.with_letters(b"FWS");
        assert_eq!(write.class, Class::Write);
    }

    #[test]
    fn names_have_numbers() {
        let mut names = Names::default();
        let (a, b) = (names.number_of("fio"), names.number_of("a name of more than 16"));
        assert_eq!((a, b, names.number_of("fio"), names.number_of("")), (1, 2, 1, 0));
        assert_eq!((names.get(1), names.get(2), names.get(77)), ("fio", "a name of more t", ""));
        assert_eq!(names.since(2), ["a name of more t"]);
    }
}
