//! What the ledger knows of one granule, in two numbers.
//!
//! ```text
//!          63      62      61           60            59       58        57 ... 48  47 ... 0
//! latest   unsure  zeroed  trimmed      racers: how far the oldest lies behind      the latest generation
//! base     zeros   trims   ever zeroed  ever trimmed  r.zeros  r.trims   -          one that is older, or as old, and
//!                                                                                   durable; 0 for none
//! ```
//!
//! `zeros` and `trims` say that a zero range or a trim is among the generations from the base on, apart from the latest;
//! they may say so too long, which only makes more legal. *Racers* are the requests that were in flight there when the
//! latest was issued (`r.zeros`, `r.trims`: some of them cleared it). When the latest has ended well, what is there is
//! its own or a racer's: whatever had ended before it was issued is gone. `unsure`: the latest failed,
//! and anything from the base on may be there; the next one ends that.

use super::ChangeKind;
use crate::verify_block::{Cleared, GENERATION_MAX, Legal};

const UNSURE: u64 = 1 << 63;
const ZEROED: u64 = 1 << 62;
const TRIMMED: u64 = 1 << 61;

const ZEROS: u64 = 1 << 63;
const TRIMS: u64 = 1 << 62;
const EVER_ZEROED: u64 = 1 << 61;
const EVER_TRIMMED: u64 = 1 << 60;

const RACE_ZEROS: u64 = 1 << 59;
const RACE_TRIMS: u64 = 1 << 58;
/// From those of the racers to [`ZEROS`] and [`TRIMS`].
const RACE_TO_BASE: u32 = 4;

/// All bits of one.
pub(super) const GENERATION: u64 = GENERATION_MAX;
/// Where the distance to the oldest racer lies, and its largest value: so far or farther, which is unsure.
const RACE_SHIFT: u32 = 48;
pub(super) const RACE_MAX: u64 = (1 << 13) - 1;

/// As it is kept: pages of zeros become real memory when they are written first.
pub(super) type Stored = [u64; 2];

#[derive(Debug, Clone, Copy)]
pub(super) struct Granule {
    latest: u64,
    base: u64,
}

/// Requests that were in flight when another one was issued.
#[derive(Debug, Clone, Copy)]
pub(super) struct Race {
    oldest: u64,
    /// [`RACE_ZEROS`], [`RACE_TRIMS`].
    cleared: u64,
}

impl Race {
    /// Of the oldest.
    #[inline]
    pub fn new(oldest: u64, kind: ChangeKind) -> Self {
        Self { oldest, cleared: 0 }.with(kind)
    }

    /// The first of them.
    #[inline]
    pub fn oldest(self) -> u64 {
        self.oldest
    }

    /// With another one.
    #[inline]
    pub fn with(self, kind: ChangeKind) -> Self {
        let cleared = match kind {
            ChangeKind::Write => 0,
            ChangeKind::Zero => RACE_ZEROS,
            ChangeKind::Trim => RACE_TRIMS,
        };
        Self { cleared: self.cleared | cleared, ..self }
    }
}

impl From<Stored> for Granule {
    #[inline]
    fn from([latest, base]: Stored) -> Self {
        Self { latest, base }
    }
}

impl From<Granule> for Stored {
    #[inline]
    fn from(granule: Granule) -> Self {
        [granule.latest, granule.base]
    }
}

impl Granule {
    /// The latest generation.
    #[inline]
    pub fn latest(self) -> u64 {
        self.latest & GENERATION
    }

    /// The oldest generation that may be there when the latest has ended, where that is newer than the base: it becomes the base once
    /// the latest is durable.
    #[inline]
    pub fn next_base(self) -> Option<u64> {
        (!self.is_open() && self.oldest() > self.base()).then_some(self.oldest())
    }

    /// Its content is any generation from the base on.
    #[inline]
    pub fn is_open(self) -> bool {
        self.latest & UNSURE != 0 || self.race_distance() == RACE_MAX
    }

    #[inline]
    fn race_distance(self) -> u64 {
        self.latest >> RACE_SHIFT & RACE_MAX
    }

    #[inline]
    pub fn base(self) -> u64 {
        self.base & GENERATION
    }

    /// The oldest generation that may be there when the latest has ended.
    #[inline]
    pub fn oldest(self) -> u64 {
        if self.is_open() {
            self.base()
        } else {
            self.latest().saturating_sub(self.race_distance())
        }
    }

    /// Others were in flight when the latest was issued, and may have come after it.
    #[inline]
    pub fn has_racers(self) -> bool {
        !self.is_open() && self.race_distance() > 0
    }

    /// The latest failed.
    pub fn make_unsure(&mut self) {
        self.latest |= UNSURE;
    }

    /// The latest is durable: the oldest that it may have left there, which is mostly itself, becomes the base.
    #[inline]
    pub fn settle(&mut self) {
        let flags = ((self.latest & (ZEROED | TRIMMED)) << 1)
            | ((self.base & (RACE_ZEROS | RACE_TRIMS)) << RACE_TO_BASE);
        self.base = self.oldest() | flags | (self.base & (EVER_ZEROED | EVER_TRIMMED));
    }

    /// An older generation has proved durable.
    pub fn raise_base(&mut self, generation: u64) {
        let flags = self.base & !GENERATION;
        self.base = generation.max(self.base()) | flags;
    }

    /// The next generation, and what was in flight when it was issued.
    #[inline]
    pub fn advance(&mut self, generation: u64, kind: ChangeKind, race: Option<Race>) {
        let before = self.latest & (ZEROED | TRIMMED);
        let (now, ever) = match kind {
            ChangeKind::Write => (0, 0),
            ChangeKind::Zero => (ZEROED, EVER_ZEROED),
            ChangeKind::Trim => (TRIMMED, EVER_TRIMMED),
        };
        self.base = (self.base & !(RACE_ZEROS | RACE_TRIMS)) | (before << 1) | ever;
        self.latest = generation | now;
        if let Some(Race { oldest, cleared }) = race {
            self.latest |= (generation - oldest).min(RACE_MAX) << RACE_SHIFT;
            self.base |= cleared;
        }
    }

    /// What may be there when the latest has ended: that, or what raced with it.
    #[inline]
    pub fn at_rest(self) -> Legal {
        if self.is_open() {
            return self.since(self.base());
        }
        let cleared = if self.race_distance() == 0 {
            state(self.latest & ZEROED != 0, self.latest & TRIMMED != 0, Cleared::Zeroed)
        } else {
            self.perhaps(self.base << RACE_TO_BASE)
        };
        self.legal(self.oldest(), cleared)
    }

    /// What may be there when that is anything from this generation on, which is not older than the base.
    #[inline]
    pub fn since(self, oldest: u64) -> Legal {
        self.legal(oldest, self.perhaps(self.base))
    }

    #[inline]
    fn legal(self, min_generation: u64, cleared: Cleared) -> Legal {
        let (is_zeroed, is_trimmed) = (self.base & EVER_ZEROED != 0, self.base & EVER_TRIMMED != 0);
        let ever_cleared = state(is_zeroed, is_trimmed, Cleared::Perhaps);
        Legal { cleared, ever_cleared, ..Legal::range(min_generation, self.latest()) }
    }

    /// What the latest and these others make of it.
    #[inline]
    fn perhaps(self, others: u64) -> Cleared {
        let all = (self.latest << 1) | others;
        state(all & ZEROS != 0, all & TRIMS != 0, Cleared::Perhaps)
    }

    /// One of which exactly this is legal: as the others said it.
    pub fn of(legal: Legal) -> Self {
        let Legal { min_generation, max_generation, racers, .. } = legal;
        let unsure = if racers.is_none() { UNSURE } else { 0 };
        let race = match max_generation - min_generation {
            0 => 0,
            _ if racers.is_none() => UNSURE,
            distance => distance.min(RACE_MAX) << RACE_SHIFT,
        };
        let (latest, base) = match legal.cleared {
            Cleared::No => (0, 0),
            Cleared::Perhaps => (unsure, ZEROS | RACE_ZEROS),
            Cleared::Zeroed => (ZEROED, 0),
            Cleared::Unknown => (TRIMMED, TRIMS | RACE_TRIMS),
        };
        Self { latest: max_generation | race | latest, base: min_generation | base }
    }
}

/// What zero ranges and trims make of a place.
#[inline]
fn state(is_zeroed: bool, is_trimmed: bool, zeroed: Cleared) -> Cleared {
    match (is_trimmed, is_zeroed) {
        (true, _) => Cleared::Unknown,
        (false, true) => zeroed,
        (false, false) => Cleared::No,
    }
}
