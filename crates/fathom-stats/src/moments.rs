//! What both forms of a histogram know exactly, whatever bucket a value fell into: its five moments have the same names and
//! meanings in either.

/// The readers of `count`, `min`, `max`, `sum` and `sum_squares`, for a type that has these fields; without a value `min` is
/// `u64::MAX` and `max` 0.
macro_rules! accessors {
    () => {
        /// Number of values.
        #[must_use]
        pub fn count(&self) -> u64 {
            self.count
        }

        /// True when nothing was recorded.
        #[must_use]
        pub fn is_empty(&self) -> bool {
            self.count == 0
        }

        /// Smallest value, exact.
        #[must_use]
        pub fn min(&self) -> Option<u64> {
            (self.count > 0).then_some(self.min)
        }

        /// Largest value, exact.
        #[must_use]
        pub fn max(&self) -> Option<u64> {
            (self.count > 0).then_some(self.max)
        }

        /// Sum of all values, exact.
        #[must_use]
        pub fn sum(&self) -> u128 {
            self.sum
        }

        /// Sum of the squares of all values; stops at `u128::MAX`.
        #[must_use]
        pub fn sum_squares(&self) -> u128 {
            self.sum_squares
        }
    };
}
pub(crate) use accessors;
