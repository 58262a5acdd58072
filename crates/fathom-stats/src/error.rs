//! What statistics refuse to compute, and the checks that they share.

use thiserror::Error;

/// Input that has no answer; the text says what would work.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum StatsError {
    /// Not enough values for the figure asked for.
    #[error("{count} values are too few: at least {needed} are needed")]
    TooFew {
        /// How many there are.
        count: u64,
        /// How many it takes.
        needed: u64,
    },
    /// More values than the method is made for; it compares each with each.
    #[error("{count} values are too many for this method: at most {most}; is a run the unit?")]
    TooMany {
        /// How many there are.
        count: u64,
        /// How many are taken.
        most: u64,
    },
    /// Not a number, or infinite.
    #[error("value {place} is {value}, which is not a finite number")]
    NotFinite {
        /// Which, counted from 1.
        place: usize,
        /// What it is.
        value: f64,
    },
    /// Zero or negative, where ratios are taken.
    #[error("value {place} is {value}: ratios and their means need values above 0")]
    NotPositive {
        /// Which, counted from 1.
        place: usize,
        /// What it is.
        value: f64,
    },
    /// Pairs with a missing partner.
    #[error("{a} values against {b}: pairs need as many on both sides")]
    Unpaired {
        /// Values of the first side.
        a: usize,
        /// Values of the second.
        b: usize,
    },
    /// Times that do not rise.
    #[error("time {place} is not after the one before it")]
    Order {
        /// Which, counted from 1.
        place: usize,
    },
    /// A share or probability out of range.
    #[error("{0} is out of range: a share above 0 and below 1 is needed, such as 0.95")]
    Share(f64),
    /// A p-value out of range.
    #[error("p-value {place} is {value}, it must lie between 0 and 1")]
    PValue {
        /// Which, counted from 1.
        place: usize,
        /// What it is.
        value: f64,
    },
    /// A margin that is negative or no number.
    #[error("margin {0} % is out of range: a percentage of at least 0 is needed, such as 3")]
    Margin(f64),
    /// The bootstrap distribution lies entirely on one side of the estimate.
    #[error("the bootstrap does not apply: all resamples lie on one side of the estimate")]
    OneSided,
}

/// `values` are finite and at least `needed` in number.
pub(crate) fn check_finite(values: &[f64], needed: usize) -> Result<(), StatsError> {
    check_count(values.len(), needed)?;
    match values.iter().position(|value| !value.is_finite()) {
        Some(i) => Err(StatsError::NotFinite { place: i + 1, value: values[i] }),
        None => Ok(()),
    }
}

/// `values` are finite, above 0 and at least `needed` in number.
pub(crate) fn check_positive(values: &[f64], needed: usize) -> Result<(), StatsError> {
    check_finite(values, needed)?;
    match values.iter().position(|value| *value <= 0.0) {
        Some(i) => Err(StatsError::NotPositive { place: i + 1, value: values[i] }),
        None => Ok(()),
    }
}

/// There are at least `needed`.
pub(crate) fn check_count(count: usize, needed: usize) -> Result<(), StatsError> {
    if count < needed {
        return Err(StatsError::TooFew { count: count as u64, needed: needed as u64 });
    }
    Ok(())
}

/// `share` lies between 0 and 1, both excluded.
pub(crate) fn check_share(share: f64) -> Result<(), StatsError> {
    if share > 0.0 && share < 1.0 { Ok(()) } else { Err(StatsError::Share(share)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        assert_eq!(check_finite(&[], 1), Err(StatsError::TooFew { count: 0, needed: 1 }));
        let refused = check_finite(&[1.0, f64::INFINITY], 1);
        assert_eq!(refused, Err(StatsError::NotFinite { place: 2, value: f64::INFINITY }));
        assert!(check_finite(&[f64::NAN], 1).is_err());
        let refused = check_positive(&[1.0, 2.0, 0.0], 1);
        assert_eq!(refused, Err(StatsError::NotPositive { place: 3, value: 0.0 }));
        assert_eq!(check_positive(&[1e-300], 1), Ok(()));
        let shares = [0.0, 1.0, -0.1, 1.1, f64::NAN].map(|share| check_share(share).is_err());
        assert_eq!(shares, [true; 5]);
        assert_eq!(check_share(0.95), Ok(()));
    }
}
