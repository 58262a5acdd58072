//! What a file must hold, byte by byte, and the operations that are done to it: both from a seed.

use fathom_base::prng::Prng;
use std::fmt;

/// The longest operation, bytes.
pub const LENGTH_MAX: u64 = 128 << 10;
/// Offsets and sizes of O_DIRECT are multiples of this: no device has larger blocks.
pub const DIRECT_STEP: u64 = 4096;

/// A kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// pread(2), compared.
    Read,
    /// pwrite(2).
    Write,
    /// ftruncate(2), shorter or longer.
    Truncate,
    /// Loads from a mapping, compared.
    MapRead,
    /// Stores to a mapping.
    MapWrite,
    /// A hole.
    PunchHole,
    /// A range of zeros.
    ZeroRange,
    /// fsync(2).
    Fsync,
    /// Opened anew, through the page cache.
    Reopen,
    /// Opened anew with O_DIRECT.
    ReopenDirect,
    /// Written out, and its pages dropped from the cache.
    DropCache,
}

impl Kind {
    /// Every kind with how often it comes, of 100.
    pub const WEIGHTS: [(Self, u64); 11] = [
        (Self::Read, 24),
        (Self::Write, 26),
        (Self::Truncate, 8),
        (Self::MapRead, 10),
        (Self::MapWrite, 12),
        (Self::PunchHole, 6),
        (Self::ZeroRange, 6),
        (Self::Fsync, 2),
        (Self::Reopen, 2),
        (Self::ReopenDirect, 2),
        (Self::DropCache, 2),
    ];

    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Truncate => "truncate",
            Self::MapRead => "mapped read",
            Self::MapWrite => "mapped write",
            Self::PunchHole => "punch hole",
            Self::ZeroRange => "zero range",
            Self::Fsync => "fsync",
            Self::Reopen => "reopen",
            Self::ReopenDirect => "reopen with O_DIRECT",
            Self::DropCache => "drop cache",
        }
    }

    /// Its place in [`Kind::WEIGHTS`].
    #[must_use]
    pub fn index(self) -> usize {
        Self::WEIGHTS.iter().position(|(kind, _)| *kind == self).unwrap_or(0)
    }
}

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    /// Its number, from 1.
    pub number: u64,
    /// What is done.
    pub kind: Kind,
    /// Where, bytes; the new size of a truncation.
    pub offset_bytes: u64,
    /// How much, bytes; 0 where that means nothing.
    pub length_bytes: u64,
    /// With O_DIRECT.
    pub direct: bool,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, kind, offset_bytes, length_bytes, direct } = *self;
        write!(f, "{number}: {}", kind.word())?;
        match kind {
            Kind::Truncate => write!(f, " to {offset_bytes}")?,
            _ if length_bytes > 0 => write!(f, " {length_bytes} bytes at {offset_bytes}")?,
            _ => {}
        }
        if direct && matches!(kind, Kind::Read | Kind::Write) {
            write!(f, ", O_DIRECT")
        } else {
            Ok(())
        }
    }
}

/// What a file must hold.
#[derive(Debug)]
pub struct Model {
    bytes: Vec<u8>,
    /// The operation that last changed each byte; also behind the end, which a truncation has zeroed.
    changed_by: Vec<u32>,
    size_max: u64,
    prng: Prng,
    seed: u64,
    stream: u64,
    next: u64,
    direct: bool,
}

/// Where what was found differs from what must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The first byte that differs.
    pub offset_bytes: u64,
    /// Bytes that differ, of those compared.
    pub wrong_bytes: u64,
    /// What must be there, from the first on.
    pub expected: Vec<u8>,
    /// What is there.
    pub found: Vec<u8>,
    /// The operation that last changed that byte; 0 for none.
    pub changed_by: u64,
}

impl Model {
    /// An empty file that grows to `size_max` bytes at the most; files of one seed differ by their stream.
    #[must_use]
    pub fn new(seed: u64, stream: u64, size_max: u64) -> Self {
        Self {
            bytes: Vec::new(),
            changed_by: vec![0; size_max as usize],
            size_max,
            prng: Prng::new(seed, 2 * stream),
            seed,
            stream,
            next: 1,
            direct: false,
        }
    }

    /// Its size, bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The next operation. `is_dropped` tells kinds that the filesystem cannot; a write comes in their place, so that all
    /// else is the same there.
    pub fn next_op(&mut self, is_dropped: impl Fn(Kind) -> bool) -> Op {
        let number = self.next;
        self.next += 1;
        let mut at = self.prng.below(100);
        let mut kind = Kind::Read;
        for (one, weight) in Kind::WEIGHTS {
            if at < weight {
                kind = one;
                break;
            }
            at -= weight;
        }
        // Drawn for every kind, so that what follows does not depend on it.
        let (place, length, odd) =
            (self.prng.next_u64(), self.prng.next_u64(), self.prng.next_u64());
        if is_dropped(kind) {
            kind = Kind::Write;
        }
        match kind {
            Kind::Reopen => self.direct = false,
            Kind::ReopenDirect => self.direct = true,
            _ => {}
        }
        let (offset_bytes, length_bytes) = self.range(kind, place, length, odd);
        Op { number, kind, offset_bytes, length_bytes, direct: self.direct }
    }

    /// Where an operation works: whole blocks where O_DIRECT wants them, and one time in four otherwise.
    fn range(&self, kind: Kind, place: u64, length: u64, odd: u64) -> (u64, u64) {
        let below =
            |random: u64, bound: u64| ((u128::from(random) * u128::from(bound)) >> 64) as u64;
        let size = self.size_bytes();
        let room = match kind {
            Kind::Write | Kind::Truncate => self.size_max,
            Kind::Read | Kind::MapRead | Kind::MapWrite | Kind::PunchHole | Kind::ZeroRange => size,
            _ => return (0, 0),
        };
        let is_direct = self.direct && matches!(kind, Kind::Read | Kind::Write);
        let step = if is_direct || odd.is_multiple_of(4) { DIRECT_STEP } else { 1 };
        let offset = below(place, room) / step * step;
        if kind == Kind::Truncate {
            return (offset, 0);
        }
        // As many short ones as long ones, by powers of two.
        let most = LENGTH_MAX >> ((odd >> 8) % 12);
        let length = (1 + below(length, most)).next_multiple_of(step).min(LENGTH_MAX);
        if is_direct {
            // A read may reach over the end, a write not over the largest size.
            let room = room.next_multiple_of(step);
            return (offset, length.min(room.saturating_sub(offset)));
        }
        (offset, length.min(room - offset.min(room)))
    }

    /// What a write of that number puts there.
    pub fn content(&self, number: u64, buffer: &mut [u8]) {
        Prng::new(self.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15), 2 * self.stream + 1)
            .fill(buffer);
    }

    /// Does an operation to what must be there. `data` is what a write puts.
    pub fn apply(&mut self, op: &Op, data: &[u8]) {
        let (start, end) = (op.offset_bytes as usize, (op.offset_bytes + op.length_bytes) as usize);
        let number = op.number as u32;
        match op.kind {
            Kind::Write | Kind::MapWrite => {
                self.grow(end, number);
                self.bytes[start..end].copy_from_slice(data);
                self.changed_by[start..end].fill(number);
            }
            Kind::Truncate => {
                self.grow(start, number);
                self.changed_by[start..self.bytes.len()].fill(number);
                self.bytes.truncate(start);
            }
            Kind::PunchHole | Kind::ZeroRange => {
                let end = end.min(self.bytes.len());
                self.bytes[start.min(end)..end].fill(0);
                self.changed_by[start.min(end)..end].fill(number);
            }
            _ => {}
        }
    }

    fn grow(&mut self, end: usize, number: u32) {
        let old = self.bytes.len();
        if end > old {
            self.bytes.resize(end, 0);
            self.changed_by[old..end].fill(number);
        }
    }

    /// How much a read must give.
    #[must_use]
    pub fn readable(&self, op: &Op) -> u64 {
        op.length_bytes.min(self.size_bytes().saturating_sub(op.offset_bytes))
    }

    /// Where what was read at an offset differs; none when it does not.
    #[must_use]
    pub fn compare(&self, offset_bytes: u64, found: &[u8]) -> Option<Difference> {
        const SHOWN: usize = 16;
        let start = offset_bytes as usize;
        let expected = self.bytes.get(start..start + found.len())?;
        if expected == found {
            return None;
        }
        let first = expected.iter().zip(found).position(|(a, b)| a != b)?;
        let wrong = expected.iter().zip(found).filter(|(a, b)| a != b).count();
        let end = (first + SHOWN).min(found.len());
        Some(Difference {
            offset_bytes: offset_bytes + first as u64,
            wrong_bytes: wrong as u64,
            expected: expected[first..end].to_vec(),
            found: found[first..end].to_vec(),
            changed_by: u64::from(self.changed_by[start + first]),
        })
    }

    /// A wrong model, for the test that the exerciser finds one: a byte of it is another.
    #[cfg(test)]
    pub fn spoil(&mut self, offset_bytes: u64) {
        self.bytes[offset_bytes as usize] ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(seed: u64, count: usize) -> Vec<Op> {
        let mut model = Model::new(seed, 0, 1 << 20);
        (0..count)
            .map(|_| {
                let op = model.next_op(|_| false);
                let mut data = vec![0; op.length_bytes as usize];
                model.content(op.number, &mut data);
                model.apply(&op, &data);
                op
            })
            .collect()
    }

    #[test]
    fn operations_follow_from_the_seed_and_every_kind_comes() {
        assert_eq!(ops(1, 800), ops(1, 800));
        assert_ne!(ops(1, 800), ops(2, 800));
        let all = ops(1, 800);
        for (kind, _) in Kind::WEIGHTS {
            assert!(all.iter().any(|op| op.kind == kind), "{kind:?}");
        }
        for op in &all {
            assert!(op.offset_bytes + op.length_bytes <= 1 << 20, "{op}");
            if op.direct && matches!(op.kind, Kind::Read | Kind::Write) {
                assert!((op.offset_bytes | op.length_bytes) % DIRECT_STEP == 0, "{op}");
            }
        }
        assert!(all.iter().any(|op| op.kind == Kind::Read && op.direct && op.length_bytes > 0));
    }

    #[test]
    fn the_model_does_what_a_file_does() {
        let mut model = Model::new(1, 0, 100);
        let op = |number, kind, offset_bytes, length_bytes| Op {
            number,
            kind,
            offset_bytes,
            length_bytes,
            direct: false,
        };
        model.apply(&op(1, Kind::Write, 2, 3), b"abc");
        assert_eq!(model.bytes, b"\0\0abc");
        model.apply(&op(2, Kind::Truncate, 4, 0), b"");
        model.apply(&op(3, Kind::Truncate, 6, 0), b"");
        assert_eq!(model.bytes, b"\0\0ab\0\0");
        model.apply(&op(4, Kind::PunchHole, 2, 1), b"");
        model.apply(&op(5, Kind::ZeroRange, 4, 90), b"");
        assert_eq!(model.bytes, b"\0\0\0b\0\0");
        assert_eq!(model.readable(&op(6, Kind::Read, 4, 90)), 2);
        assert_eq!(model.compare(2, b"\0b"), None);
        let found = model.compare(1, b"\0\0c\0").unwrap();
        assert_eq!((found.offset_bytes, found.wrong_bytes, found.changed_by), (3, 1, 1));
        assert_eq!((found.expected[0], found.found[0]), (b'b', b'c'));
        assert_eq!(model.compare(4, b"x").unwrap().changed_by, 5);
    }

    #[test]
    fn an_operation_says_in_a_line_what_it_is() {
        let write = Op {
            number: 7,
            kind: Kind::Write,
            offset_bytes: 4096,
            length_bytes: 512,
            direct: true,
        };
        assert_eq!(write.to_string(), "7: write 512 bytes at 4096, O_DIRECT");
        let cut =
            Op { number: 8, kind: Kind::Truncate, offset_bytes: 9, length_bytes: 0, direct: true };
        assert_eq!(cut.to_string(), "8: truncate to 9");
    }
}
