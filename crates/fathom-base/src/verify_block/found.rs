//! What may lie at a place, and what lies there instead.

use super::racers::Racers;
use std::fmt;
use thiserror::Error;

/// What trims and zero ranges add to what may lie at a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cleared {
    /// Nothing: only what was written.
    #[default]
    No,
    /// Zero bytes may be there, too.
    Perhaps,
    /// Zero bytes must be there, and nothing else.
    Zeroed,
    /// It was trimmed: nobody has promised anything, and there is nothing to check.
    Unknown,
}

impl Cleared {
    /// For who does not know which of the two holds.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::No, Self::No) => Self::No,
            (Self::Zeroed, Self::Zeroed) => Self::Zeroed,
            _ => Self::Perhaps,
        }
    }
}

/// Generations that are named one by one.
const NAMED_MAX: usize = 8;

/// What may lie at a place: which generations, and what else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Legal {
    /// The oldest; 0 when what was there before the first write, whatever that is, may be there still.
    pub min_generation: u64,
    /// The newest.
    pub max_generation: u64,
    /// What trims and zero ranges add. A zero range has a generation like a write.
    pub cleared: Cleared,
    /// The same about all that was ever issued there, for reads that others overtake.
    pub(crate) ever_cleared: Cleared,
    /// Where not all from the oldest to the newest may be there: which ones.
    pub(crate) racers: Option<Racers>,
}

impl Legal {
    /// Exactly one generation.
    #[must_use]
    pub const fn only(generation: u64) -> Self {
        Self::range(generation, generation)
    }

    /// All generations from the oldest to the newest.
    #[must_use]
    pub const fn range(min_generation: u64, max_generation: u64) -> Self {
        let (cleared, ever_cleared) = (Cleared::No, Cleared::No);
        Self { min_generation, max_generation, cleared, ever_cleared, racers: None }
    }

    /// What a read may find that was issued when this held and ended when `later` held.
    #[must_use]
    pub fn until(self, later: Self) -> Self {
        let cleared = self.cleared.or(later.cleared);
        let is_same = self.max_generation == later.max_generation;
        // Of what was issued in between only the end is known.
        let cleared = if is_same { cleared } else { cleared.or(later.ever_cleared) };
        // Racers are known of what has ended only: then it had ended before.
        let racers = later.racers.filter(|_| is_same && self.racers == later.racers);
        Self { min_generation: self.min_generation, cleared, racers, ..later }
    }

    /// True where something was written or zeroed, so that there is something to check.
    #[must_use]
    pub const fn is_checkable(self) -> bool {
        self.max_generation > 0 && !self.is_unknown()
    }

    /// True where a trim has left nothing to check.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self.cleared, Cleared::Unknown)
    }

    /// True where even what was there before the first write is legal, so that finding nothing wrong says little: only
    /// damaged blocks and those of other places are found. After a crash that is so where no sync had covered anything.
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.min_generation == 0 && self.max_generation > 0
    }

    /// True for a generation that may be there; 0 stands for zero bytes.
    #[must_use]
    pub fn allows(self, generation: u64) -> bool {
        let is_in_range = || (self.min_generation..=self.max_generation).contains(&generation);
        let is_one = || {
            let is_racer = |racers: Racers| {
                racers.generations(self.min_generation).any(|racer| racer == generation)
            };
            is_in_range() && self.racers.is_none_or(is_racer)
        };
        match self.cleared {
            Cleared::No => is_one(),
            Cleared::Perhaps => is_one() || generation == 0,
            Cleared::Zeroed => generation == 0,
            Cleared::Unknown => true,
        }
    }
}

impl fmt::Display for Legal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cleared {
            Cleared::Zeroed => return f.write_str("zeros: it was zeroed after it was written"),
            Cleared::Unknown => return f.write_str("anything: it was trimmed"),
            Cleared::No | Cleared::Perhaps => {}
        }
        if let Some(racers) = self.racers {
            self.name(racers, f)?;
        } else {
            self.name_range(f)?;
        }
        let has_zeros = self.cleared == Cleared::Perhaps && self.min_generation > 0;
        if has_zeros { f.write_str(" or zeros") } else { Ok(()) }
    }
}

impl Legal {
    fn name_range(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min_generation, self.max_generation) {
            (0, 0) => f.write_str("nothing of this run"),
            (0, u64::MAX) => f.write_str("any generation or none"),
            (0, max) => write!(f, "generation 1 to {max} or none"),
            (min, u64::MAX) => write!(f, "generation {min} or newer"),
            (min, max) if min == max => write!(f, "generation {min}"),
            (min, max) => write!(f, "generation {min} to {max}"),
        }
    }

    fn name(self, racers: Racers, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (self.min_generation, self.max_generation);
        let count = racers.generations(min).count();
        if count > NAMED_MAX {
            return write!(f, "one of {count} generations from {min} to {max}");
        }
        write!(f, "generation {min}")?;
        racers.generations(min).skip(1).try_for_each(|generation| {
            let before = if generation == max { " or" } else { "," };
            write!(f, "{before} {generation}")
        })
    }
}

/// A block that does not hold what must be there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}offset {offset_bytes}, {length_bytes} bytes: expected {legal}; found {found}", of_file(*file))]
pub struct Mismatch {
    /// In which of several files, from 0 on; none where there is one target.
    pub file: Option<u32>,
    /// Where the first wrong unit begins in the target.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u32,
    /// What may be there.
    pub legal: Legal,
    /// What is there.
    pub found: Found,
}

/// Begins the name of a place.
fn of_file(file: Option<u32>) -> String {
    file.map(|file| format!("file {file}, ")).unwrap_or_default()
}

/// What lies where something else should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing but zero bytes: never written, discarded, or lost.
    Zeros,
    /// Data that fathom did not write.
    Foreign {
        /// Its first bytes.
        head: [u8; 16],
    },
    /// A sound unit that belongs to another target or an earlier run.
    OtherTarget {
        /// Its target.
        target_id: u64,
        /// Its seed.
        seed: u64,
        /// Its offset there.
        offset_bytes: u64,
    },
    /// A sound unit of this target that belongs elsewhere, perhaps into another of its files.
    Misplaced {
        /// The file in which it belongs; none where there is one target.
        file: Option<u32>,
        /// Where it belongs.
        belongs_at_bytes: u64,
        /// Its generation.
        generation: u64,
    },
    /// A sound unit of this place, but too old: a later write was lost, or an old state came back.
    Stale {
        /// Its generation.
        generation: u64,
    },
    /// A sound unit of this place that was not written yet.
    Future {
        /// Its generation.
        generation: u64,
    },
    /// Parts of several writes, each part sound.
    Torn {
        /// The oldest part's generation; 0 for zero bytes.
        oldest: u64,
        /// The newest part's.
        newest: u64,
        /// Where in the target the first part that must not be there begins.
        first_bad_bytes: u64,
    },
    /// A unit of this place with wrong bytes in it.
    Corrupt {
        /// The generation it resembles most; 0 for zero bytes.
        generation: u64,
        /// Where in the target the first wrong byte lies.
        first_byte: u64,
        /// How many bits are wrong.
        bits: u32,
        /// The first wrong byte as it must be.
        expected: u8,
        /// The same byte as found.
        found: u8,
    },
}

impl Found {
    /// True for what is whole and wrong: a read that meets a write may put parts of two together, but cannot make this.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        match self {
            Self::Stale { .. } | Self::Future { .. } => true,
            Self::Misplaced { .. } | Self::OtherTarget { .. } => true,
            // Sectors, of which one is whole and wrong.
            Self::Torn { oldest, .. } => *oldest > 0,
            Self::Zeros | Self::Foreign { .. } | Self::Corrupt { .. } => false,
        }
    }

    /// The kind in one word, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Foreign { .. } => "foreign",
            Self::OtherTarget { .. } => "other_target",
            Self::Misplaced { .. } => "misplaced",
            Self::Stale { .. } => "stale",
            Self::Future { .. } => "future",
            Self::Torn { .. } => "torn",
            Self::Corrupt { .. } => "corrupt",
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros: never written, discarded or lost"),
            Self::Foreign { head } => {
                f.write_str("data that fathom did not write, beginning with")?;
                head.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Self::OtherTarget { target_id, seed, offset_bytes } => write!(
                f,
                "a block of another target or run (id {target_id:016x}, seed {seed}, offset \
                 {offset_bytes})"
            ),
            Self::Misplaced { file, belongs_at_bytes, generation } => write!(
                f,
                "the block of {}offset {belongs_at_bytes} (generation {generation})",
                of_file(*file)
            ),
            Self::Stale { generation } => {
                write!(f, "generation {generation}: a later write was lost, or undone")
            }
            Self::Future { generation } => {
                write!(f, "generation {generation}, which was not written yet")
            }
            Self::Torn { oldest: 0, newest, first_bad_bytes } => write!(
                f,
                "a torn write: parts of generation {newest}, parts never written, the first wrong \
                 one at offset {first_bad_bytes}"
            ),
            Self::Torn { oldest, newest, first_bad_bytes } => write!(
                f,
                "a torn write: parts of generations {oldest} to {newest}, the first wrong one at \
                 offset {first_bad_bytes}"
            ),
            Self::Corrupt { generation, first_byte, bits, expected, found } => {
                match generation {
                    0 => f.write_str("zeros")?,
                    _ => write!(f, "generation {generation}")?,
                }
                write!(
                    f,
                    " with {bits} wrong bits, the first in the byte at offset {first_byte}: \
                     {found:02x} instead of {expected:02x}"
                )
            }
        }
    }
}
