//! The numbers that blktrace gives its records: a row of them for each processor and device. What is missing in a row was lost.

use std::collections::HashMap;
use std::hash::Hash;

/// Records whose times are nearly the same change places when a text is put in order. One that comes so much later at most was not lost.
const LATE_MAX: u32 = 64;

/// Rows of numbers, as far as they have been seen.
#[derive(Debug)]
pub struct Numbers<K> {
    rows: HashMap<K, Row>,
    missing: u64,
    before_first: u64,
}

#[derive(Debug)]
struct Row {
    last: u32,
    /// Those before it that have not come.
    missing: u32,
    /// And those before the first one: they begin with 1.
    before_first: u32,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self { rows: HashMap::new(), missing: 0, before_first: 0 }
    }
}

impl<K: Eq + Hash> Numbers<K> {
    /// The next number of a row has come; true when others should have come before it.
    pub fn is_behind_gap(&mut self, row: K, number: u32) -> bool {
        let Some(row) = self.rows.get_mut(&row) else {
            let before_first = number.saturating_sub(1);
            self.before_first += u64::from(before_first);
            self.rows.insert(row, Row { last: number, missing: 0, before_first });
            return false;
        };
        let (ahead, behind) = (number.wrapping_sub(row.last), row.last.wrapping_sub(number));
        if ahead != 0 && ahead <= u32::MAX / 2 {
            let missing = ahead - 1;
            self.missing += u64::from(missing);
            row.last = number;
            row.missing = row.missing.saturating_add(missing);
            return missing > 0;
        }
        if behind > LATE_MAX {
            // Another trace begins.
            *row = Row { last: number, missing: 0, before_first: 0 };
        } else if behind > 0 && row.missing > 0 {
            row.missing -= 1;
            self.missing -= 1;
        } else if behind > 0 && row.before_first > 0 {
            row.before_first -= 1;
            self.before_first -= 1;
        }
        false
    }

    /// How many are missing between others in all rows.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// How many have not come that belong before the first of each row.
    pub fn before_first(&self) -> u64 {
        self.before_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(numbers: &[u32]) -> (u64, Vec<u32>) {
        let mut rows = Numbers::default();
        let behind = numbers.iter().copied().filter(|number| rows.is_behind_gap((), *number));
        let behind = behind.collect();
        (rows.missing(), behind)
    }

    #[test]
    fn what_is_missing_between_two_was_lost() {
        assert_eq!(seen(&[7, 8, 9]), (0, vec![]));
        assert_eq!(seen(&[7, 9, 10, 13]), (3, vec![9, 13]));
        assert_eq!(seen(&[u32::MAX, 0, 2]), (1, vec![2]), "they begin again");
    }

    #[test]
    fn what_comes_late_or_twice_was_not_lost() {
        assert_eq!(seen(&[1, 3, 2, 4]), (0, vec![3]));
        assert_eq!(seen(&[1, 2, 3, 1, 2, 3, 4]), (0, vec![]));
        let two_traces: Vec<u32> = (1..=1000).chain(1..=1000).collect();
        assert_eq!(seen(&two_traces), (0, vec![]));
        assert_eq!(seen(&[1, 1000, 1, 2, 1000]).0, 998 + 997, "each trace for itself");
    }

    #[test]
    fn what_is_missing_at_the_beginning_is_counted_apart() {
        let before_first = |numbers: &[u32]| {
            let mut rows = Numbers::default();
            numbers.iter().for_each(|number| {
                rows.is_behind_gap((), *number);
            });
            (rows.before_first(), rows.missing())
        };
        assert_eq!(before_first(&[1, 2, 3]), (0, 0));
        assert_eq!(before_first(&[3001, 3002, 3004]), (3000, 1));
        assert_eq!(before_first(&[3, 1, 2, 4]), (0, 0), "in another order");
        assert_eq!(before_first(&[1, 2, 1000, 1, 2]), (0, 997), "another trace");
    }

    #[test]
    fn each_row_is_for_itself() {
        let mut rows = Numbers::default();
        let all = [("a", 1), ("b", 50), ("a", 2), ("b", 51), ("b", 53)];
        let behind = all.map(|(row, number)| rows.is_behind_gap(row, number));
        assert_eq!((behind, rows.missing()), ([false, false, false, false, true], 1));
    }
}
