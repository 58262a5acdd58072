//! Where the start of something lies on a layer below, as far as multiples are concerned.

use super::Check;
use super::maps::Place;
use crate::array::greatest_common_divisor;

/// Whether something begins where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It does.
    Aligned,
    /// What lies between does not let it be known, as the places of a file's pieces.
    Unknown,
    /// It does not.
    Misaligned,
}

impl Fit {
    /// The word that people see.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Unknown => "cannot be known",
            Self::Misaligned => "MISALIGNED",
        }
    }
}

/// Where byte 0 of a start lies on a layer below, and what happened to the addresses on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Byte of the layer at which byte 0 of the start lies (or would lie, for later pieces of a volume).
    pub shift_bytes: i128,
    /// Addresses were dealt out in chunks, whose borders lie on multiples of this in the start's addresses, or pieces of
    /// a file were moved by different multiples of this; 0 for not at all.
    pub cut_bytes: u64,
    /// Addresses were moved by unknown multiples of this, as the blocks of a file are; 0 for not at all.
    pub loose_bytes: u64,
}

impl Position {
    /// The start itself.
    pub const TOP: Self = Self { shift_bytes: 0, cut_bytes: 0, loose_bytes: 0 };

    /// The same start, so many bytes into its layer.
    #[must_use]
    pub fn at(bytes: u64) -> Self {
        Self { shift_bytes: i128::from(bytes), ..Self::TOP }
    }

    /// The position on the layer that a place is on.
    #[must_use]
    pub(crate) fn through(self, place: &Place) -> Self {
        let mut next = self;
        if let Some(cut) = place.cut {
            let chunk = i128::from(cut.chunk_bytes);
            let number = self.shift_bytes.div_euclid(chunk);
            let inside = self.shift_bytes.rem_euclid(chunk);
            let row = u128::try_from(number).map_or(number, |n| cut.row_of(n).cast_signed());
            next.shift_bytes = row * chunk + inside;
            // Where the start lies inside a chunk, all borders lie as far before its multiples. Less than a chunk.
            let border = greatest_common_divisor(cut.chunk_bytes, inside as u64);
            next.cut_bytes = greatest_common_divisor(self.cut_bytes, border);
        }
        next.shift_bytes += place.shift_bytes;
        next.cut_bytes = greatest_common_divisor(next.cut_bytes, place.apart_bytes);
        next.loose_bytes = greatest_common_divisor(next.loose_bytes, place.loose_bytes);
        next
    }

    /// Whether what begins on multiples of `modulus_bytes` at the start begins on such multiples here, counted from
    /// `origin_bytes`.
    #[must_use]
    pub fn check(self, unit: &'static str, modulus_bytes: u64, origin_bytes: u64) -> Check {
        let modulus = modulus_bytes.max(1);
        let shift = self.shift_bytes - i128::from(origin_bytes);
        // Less than the modulus, which has 64 bits.
        let over = shift.rem_euclid(i128::from(modulus)) as u64;
        let (cut, moved) = (self.cut_bytes % modulus, self.loose_bytes % modulus);
        let (remainder_bytes, fit) = match (over, cut, moved) {
            (over, _, 0) if over != 0 => (over, Fit::Misaligned),
            (_, cut, _) if cut != 0 => (cut, Fit::Misaligned),
            (over, _, moved) if moved != 0 => (over, Fit::Unknown),
            _ => (0, Fit::Aligned),
        };
        Check { unit, modulus_bytes: modulus, origin_bytes, remainder_bytes, fit }
    }

    /// True when it is known that the start lies on no such multiple.
    #[must_use]
    pub fn misses(self, modulus_bytes: u64) -> bool {
        self.check("", modulus_bytes, 0).fit == Fit::Misaligned
    }
}
