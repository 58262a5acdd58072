//! Where throughput stops growing with concurrency.

use crate::sweep;
use fathom_model::record::Record;

/// One point of a concurrency sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Requests in flight.
    pub concurrency: u64,
    /// Requests per second.
    pub iops: f64,
}

/// A doubling of concurrency that brings less than this share more is not growth: above the noise of a short row.
pub const GROWTH_MIN: f64 = 0.10;

/// Index of the point from which on throughput no longer grows by [`GROWTH_MIN`]; none when it still grows at the end. Points are in rising concurrency; the best of all later points counts, so that one bad row is no knee.
#[must_use]
pub fn knee(points: &[Point]) -> Option<usize> {
    (0..points.len().saturating_sub(1)).find(|&i| {
        let best_later = points[i + 1..].iter().map(|p| p.iops).fold(0.0, f64::max);
        best_later < points[i].iops * (1.0 + GROWTH_MIN)
    })
}

/// Where in the rows of `fathom quick` throughput stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfRows {
    /// Index of the record: the knee, or the last random read when it still grows there.
    pub row: usize,
    /// It still grows at the most that was tried.
    pub still_grows: bool,
}

impl OfRows {
    /// What people read beside the row.
    #[must_use]
    pub fn words(self) -> &'static str {
        if self.still_grows { "still growing" } else { "where throughput stops growing" }
    }
}

/// The knee among random reads that differ in requests in flight only; none without any.
#[must_use]
pub fn of_rows(records: &[Record]) -> Option<OfRows> {
    let is_random = |record: &Record| record.label.starts_with("random read");
    let first = records.iter().position(is_random)?;
    let points: Vec<Point> =
        records[first..].iter().take_while(|r| is_random(r)).map(sweep::point).collect();
    Some(match knee(&points) {
        Some(at) => OfRows { row: first + at, still_grows: false },
        None => OfRows { row: first + points.len() - 1, still_grows: true },
    })
}

/// True when the last two points show that going on is useless.
#[must_use]
pub fn has_flattened(points: &[Point]) -> bool {
    match points {
        [.., a, b, c] => {
            b.iops < a.iops * (1.0 + GROWTH_MIN) && c.iops < a.iops * (1.0 + GROWTH_MIN)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(iops: &[f64]) -> Vec<Point> {
        iops.iter()
            .enumerate()
            .map(|(i, iops)| Point { concurrency: 1 << i, iops: *iops })
            .collect()
    }

    #[test]
    fn the_knee_is_where_growth_ends() {
        assert_eq!(knee(&points(&[100.0, 195.0, 370.0, 400.0, 405.0])), Some(2));
        assert_eq!(knee(&points(&[100.0, 200.0, 400.0])), None, "it still grows");
        assert_eq!(knee(&points(&[100.0, 90.0, 300.0, 310.0])), Some(2), "one bad row is no knee");
        assert_eq!(knee(&points(&[100.0])), None);
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn flattened_needs_two_rows() {
        assert!(!has_flattened(&points(&[100.0, 105.0])));
        assert!(has_flattened(&points(&[50.0, 100.0, 105.0, 104.0])));
        assert!(!has_flattened(&points(&[100.0, 105.0, 140.0])));
    }

    /// The published table of randomio on an md RAID10 (study of 2008, 512-byte requests): threads and IOPS, from
    /// which its author concluded that throughput rises to about 200 threads.
    #[test]
    fn agrees_with_a_published_sweep() {
        let published = PUBLISHED.map(|(concurrency, iops)| Point { concurrency, iops });
        let at = knee(&published).map(|i| published[i].concurrency);
        assert!(at.is_some_and(|c| (64..=256).contains(&c)), "{at:?}");
    }

    const PUBLISHED: [(u64, f64); 12] = [
        (1, 112.3),
        (8, 539.1),
        (16, 792.3),
        (24, 846.8),
        (32, 877.6),
        (48, 928.5),
        (64, 968.2),
        (128, 1039.1),
        (164, 1032.2),
        (196, 1097.8),
        (256, 1100.9),
        (1024, 1075.2),
    ];
}
