//! Which of the generations from the oldest to the latest one may be at a place, where that is not all of them.

/// Mostly one for each generation.
pub(crate) const RACERS_BYTES: usize = 45;
/// A longer distance than that between two of them does not fit.
const STEP_MAX: u64 = (1 << 15) - 1;

/// The distances from one generation to the next, the oldest itself left out: one byte below 128, else two; 0 ends
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Racers([u8; RACERS_BYTES]);

impl Racers {
    /// Of generations in ascending order, from the oldest to the latest. None where they follow one another without a gap,
    /// and where they are more than fit: some 40.
    pub fn of(generations: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut generations = generations.into_iter();
        let mut previous = generations.next()?;
        let (mut bytes, mut length, mut has_gap) = ([0; RACERS_BYTES], 0, false);
        for generation in generations {
            let step = generation - previous;
            if step == 0 || step > STEP_MAX {
                return None;
            }
            let (low, high) = ((step & 0x7F) as u8, (step >> 7) as u8);
            let is_short = high == 0;
            *bytes.get_mut(length)? = if is_short { low } else { low | 0x80 };
            length += 1;
            if !is_short {
                *bytes.get_mut(length)? = high;
                length += 1;
            }
            has_gap |= step > 1;
            previous = generation;
        }
        has_gap.then_some(Self(bytes))
    }

    /// All of them, of which the oldest is this.
    pub fn generations(self, oldest: u64) -> impl Iterator<Item = u64> {
        let (mut bytes, mut generation) = (self.0.into_iter(), oldest);
        let following = std::iter::from_fn(move || {
            let low = bytes.next().filter(|low| *low > 0)?;
            let high = if low < 0x80 { 0 } else { bytes.next()? };
            generation += u64::from(low & 0x7F) | u64::from(high) << 7;
            Some(generation)
        });
        std::iter::once(oldest).chain(following)
    }

    pub const fn bytes(self) -> [u8; RACERS_BYTES] {
        self.0
    }

    /// From what [`Racers::bytes`] gave.
    pub const fn from_bytes(bytes: [u8; RACERS_BYTES]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_comes_back_and_the_rest_is_none() {
        let close: Vec<u64> = (0..46).map(|i| 7 + 2 * i).collect();
        let far: Vec<u64> = (0..23).map(|i| 7 + i * STEP_MAX).collect();
        let edge = vec![1, 128, 256, 257, 1 << 14];
        for generations in [close, far, edge] {
            let racers = Racers::of(generations.iter().copied()).unwrap();
            let again: Vec<u64> = racers.generations(generations[0]).collect();
            assert_eq!(again, generations);
            assert_eq!(Racers::from_bytes(racers.bytes()), racers);
        }
        assert_eq!(Racers::of((0..47).map(|i| 2 * i)), None, "too many");
        assert_eq!(Racers::of([1, 2 + STEP_MAX]), None, "too far");
        assert_eq!(Racers::of(5..9), None, "no gap");
        assert_eq!(Racers::of([]), None);
        assert_eq!(Racers::of([5, 5]), None);
    }
}
