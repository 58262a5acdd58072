//! What the ledger knows of one granule, in two numbers.
//!
//! ```text
//!          63      62       61           60            59 ... 0
//! latest   unsure  zeroed   trimmed      -             the latest generation
//! base     zeros   trims    ever zeroed  ever trimmed  one that is older, or as old, and durable; 0 for none
//! ```
//!
//! `zeros` and `trims` say that a zero range or a trim is among the generations from the base on, apart from the latest;
//! they may say so too long, which only makes more legal.

use super::ChangeKind;
use crate::verify_block::{Cleared, Legal};

const UNSURE: u64 = 1 << 63;
const ZEROED: u64 = 1 << 62;
const TRIMMED: u64 = 1 << 61;

const ZEROS: u64 = 1 << 63;
const TRIMS: u64 = 1 << 62;
const EVER_ZEROED: u64 = 1 << 61;
const EVER_TRIMMED: u64 = 1 << 60;

const GENERATION: u64 = (1 << 60) - 1;

/// As it is kept: pages of zeros become real memory when they are written first.
pub(super) type Stored = [u64; 2];

#[derive(Debug, Clone, Copy)]
pub(super) struct Granule {
    latest: u64,
    base: u64,
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

    /// The latest generation where that is what must be there, and newer than the base.
    #[inline]
    pub fn settled(self) -> Option<u64> {
        let is_settled = self.latest & UNSURE == 0 && self.latest() > self.base & GENERATION;
        is_settled.then_some(self.latest())
    }

    /// Its content is one of several generations.
    #[inline]
    pub fn is_unsure(self) -> bool {
        self.latest & UNSURE != 0
    }

    /// A request failed, or two were in flight at once.
    pub fn make_unsure(&mut self) {
        self.latest |= UNSURE;
    }

    /// What was the latest becomes the base: it is durable.
    #[inline]
    pub fn settle(&mut self) {
        let flags = self.latest & (ZEROED | TRIMMED);
        self.base = self.latest() | (flags << 1) | (self.base & (EVER_ZEROED | EVER_TRIMMED));
    }

    /// An older generation has proved durable.
    pub fn raise_base(&mut self, generation: u64) {
        let flags = self.base & !GENERATION;
        self.base = generation.max(self.base & GENERATION) | flags;
    }

    /// The next generation.
    #[inline]
    pub fn advance(&mut self, generation: u64, kind: ChangeKind, is_busy: bool) {
        let before = self.latest & (ZEROED | TRIMMED);
        let (now, ever) = match kind {
            ChangeKind::Write => (0, 0),
            ChangeKind::Zero => (ZEROED, EVER_ZEROED),
            ChangeKind::Trim => (TRIMMED, EVER_TRIMMED),
        };
        self.base |= (before << 1) | ever;
        self.latest = generation | now | if is_busy { UNSURE } else { 0 };
    }

    /// What may be there; `is_sure` when that is the latest generation and no other.
    #[inline]
    pub fn legal(self, is_sure: bool) -> Legal {
        let (latest, base) = (self.latest, self.base);
        let cleared = if is_sure {
            state(latest & ZEROED != 0, latest & TRIMMED != 0, Cleared::Zeroed)
        } else {
            let all = (latest << 1) | base;
            state(all & ZEROS != 0, all & TRIMS != 0, Cleared::Perhaps)
        };
        let (is_zeroed, is_trimmed) = (base & EVER_ZEROED != 0, base & EVER_TRIMMED != 0);
        let ever_cleared = state(is_zeroed, is_trimmed, Cleared::Perhaps);
        let min_generation = if is_sure { self.latest() } else { base & GENERATION };
        Legal { min_generation, max_generation: self.latest(), cleared, ever_cleared }
    }

    /// One of which exactly this is legal: as [`Granule::legal`] said it.
    pub fn of(legal: Legal) -> Self {
        let Legal { min_generation, max_generation, .. } = legal;
        let unsure = if min_generation < max_generation { UNSURE } else { 0 };
        let (latest, base) = match legal.cleared {
            Cleared::No => (0, 0),
            Cleared::Perhaps => (UNSURE, ZEROS),
            Cleared::Zeroed => (ZEROED, 0),
            Cleared::Unknown => (TRIMMED, TRIMS),
        };
        Self { latest: max_generation | unsure | latest, base: min_generation | base }
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
