//! A distribution as a table: how many values lie up to each bound.

use fathom_base::prng::Prng;
use serde::{Deserialize, Serialize};

/// Steps between two powers of two.
const STEPS: u64 = 4;

/// Counts of values by ranges: `[upto, count]`, ascending, each range from behind the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Buckets {
    rows: Vec<(u64, u64)>,
}

impl Buckets {
    /// One value alone.
    #[must_use]
    pub fn of(value: u64) -> Self {
        // Its range must not reach below it.
        let below = value.checked_sub(1).map(|below| (below, 0));
        Self { rows: below.into_iter().chain([(value, 1)]).collect() }
    }

    /// Counts a value. Small values have a range of their own, larger ones share ranges a quarter of a power of two wide.
    pub fn add(&mut self, value: u64) {
        let upto = upper_bound(value);
        match self.rows.binary_search_by_key(&upto, |row| row.0) {
            Ok(at) => self.rows[at].1 += 1,
            Err(at) => self.rows.insert(at, (upto, 1)),
        }
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[(u64, u64)] {
        &self.rows
    }

    /// Values counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.1))
    }

    /// What is wrong with a table that somebody wrote; none when nothing is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.total() == 0 {
            return Some("counts nothing".to_owned());
        }
        let falls = self.rows.windows(2).find(|pair| pair[0].0 >= pair[1].0)?;
        Some(format!("{} stands behind {}: bounds must rise", falls[1].0, falls[0].0))
    }

    /// A value as frequent as in the table, any of its range alike; 0 from an empty table.
    #[must_use]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        let mut at = prng.below(self.total());
        let mut above = None;
        for &(upto, count) in &self.rows {
            if at < count {
                let first = above.map_or(0, |bound: u64| bound + 1);
                // Nothing lies below the first range's own part.
                let first = first.max(lower_bound(upto));
                return first + prng.below((upto - first).saturating_add(1));
            }
            at -= count;
            above = Some(upto);
        }
        0
    }

    /// The mean, each range counted with its middle.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mut first = 0u64;
        let mut sum = 0.0;
        for &(upto, count) in &self.rows {
            let low = first.max(lower_bound(upto));
            sum += (low as f64 + upto as f64) / 2.0 * count as f64;
            first = upto.saturating_add(1);
        }
        sum / self.total().max(1) as f64
    }
}

/// The last value of the range that a value lies in.
fn upper_bound(value: u64) -> u64 {
    if value <= 2 * STEPS {
        return value;
    }
    // (2^k, 2^(k+1)] in four parts.
    let power = (value - 1).ilog2();
    let step = (1u64 << power) / STEPS;
    let part = (value - 1 - (1u64 << power)) / step;
    (1u64 << power).saturating_add(step.saturating_mul(part + 1))
}

/// The first value of the range that ends with `upto`, where it is one of ours; `upto` of somebody else's table reaches
/// down to the one before.
fn lower_bound(upto: u64) -> u64 {
    if upto <= 2 * STEPS {
        return upto;
    }
    if upper_bound(upto) != upto {
        return 0;
    }
    let power = (upto - 1).ilog2();
    upto - (1u64 << power) / STEPS + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_range() {
        let mut last = None;
        for value in 0..5000 {
            let upto = upper_bound(value);
            assert!(lower_bound(upto) <= value && value <= upto, "{value} {upto}");
            assert!(upto as f64 <= value as f64 * 1.26 + 1.0, "{value} {upto}");
            if let Some(last) = last.replace(upto) {
                assert!(last <= upto);
            }
        }
        assert_eq!(upper_bound(u64::MAX), u64::MAX);
        assert_eq!(upper_bound(4096), 4096);
        assert_eq!(upper_bound(4097), 5120);
    }

    #[test]
    fn what_is_drawn_is_distributed_as_what_was_counted() {
        let mut prng = Prng::new(1, 0);
        let mut table = Buckets::default();
        let values = [0, 0, 0, 1, 5, 5, 100, 4096, 1 << 20, 1 << 20];
        for _ in 0..100 {
            values.iter().for_each(|value| table.add(*value));
        }
        assert_eq!(table.total(), 1000);
        let mut again = Buckets::default();
        for _ in 0..100_000 {
            again.add(table.draw(&mut prng));
        }
        assert_eq!(table.rows().len(), again.rows().len());
        for (a, b) in table.rows().iter().zip(again.rows()) {
            assert_eq!(a.0, b.0);
            // Binomial with at most sd = 145; 6 sd.
            assert!((a.1 * 100).abs_diff(b.1) < 870, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_table_of_somebody_s_is_checked() {
        let bad: Buckets = serde_json::from_str("[[10, 1], [10, 2]]").unwrap();
        assert!(bad.fault().unwrap().contains("must rise"));
        assert!(Buckets::default().fault().is_some());
        let odd: Buckets = serde_json::from_str("[[1000, 1]]").unwrap();
        assert_eq!(odd.fault(), None);
        let mut prng = Prng::new(1, 0);
        let drawn: Vec<u64> = (0..1000).map(|_| odd.draw(&mut prng)).collect();
        assert!(drawn.iter().all(|v| *v <= 1000) && drawn.iter().any(|v| *v < 100));
        assert_eq!(Buckets::default().draw(&mut prng), 0);
    }
}
