//! Rows of arrays that do the work of one disk: whatever else they say, they are those of a sick array.

use super::{Row, Table, TableError, number};
use crate::counters::one_disk_per_s;

/// Requests of disks for one request of a mix of which a fifth writes, on RAID5: the dearest that is usual.
const DISK_REQUESTS: f64 = 1.6;
/// A mirror of two disks cannot be told from one of its disks.
const DISKS_MIN: f64 = 3.0;

/// Where a table says what the rule needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrays {
    /// The column of small random requests per second.
    rate: String,
    /// Disks of the array: a column of numbers, or a number for all rows.
    disks: String,
    /// Requests in flight, likewise.
    in_flight: String,
    /// Requests of disks for one of the array, likewise.
    disk_requests: Option<String>,
}

/// A row whose array does no more than one disk would.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LikeOneDisk {
    /// The row.
    pub line: usize,
    /// Its requests per second.
    pub per_s: f64,
    /// The disks of the array.
    pub disks: f64,
    /// Its requests in flight.
    pub in_flight: f64,
    /// At least so many per second are expected.
    pub expected_per_s: f64,
}

impl Arrays {
    /// Reads `total_iops:disks:threads` or `total_iops:6:threads:1.6`.
    ///
    /// # Errors
    /// [`TableError::NoQuestion`].
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let parts: Vec<String> = text.split(':').map(|part| part.trim().to_owned()).collect();
        let (first, disk_requests) = match parts.as_slice() {
            [rate, disks, in_flight] => ([rate, disks, in_flight], None),
            [rate, disks, in_flight, cost] => ([rate, disks, in_flight], Some(cost.clone())),
            _ => return Err(TableError::NoQuestion { text: text.to_owned() }),
        };
        let [rate, disks, in_flight] = first.map(String::clone);
        Ok(Self { rate, disks, in_flight, disk_requests })
    }
}

impl Table {
    /// The rows of rotating arrays that do the work of one disk, by the rule that fathom applies to its own runs. Rows in which
    /// a value is missing, with fewer than three disks or fewer than two requests in flight for each, are not judged.
    ///
    /// # Errors
    /// When a column is missing, or the rate no metric.
    pub fn like_one_disk(&self, arrays: &Arrays) -> Result<Vec<LikeOneDisk>, TableError> {
        let rate = self.metric(&arrays.rate)?;
        let place = |text: &str| match number(text) {
            Some(constant) => Ok(Err(constant)),
            None => self.index(text).map(Ok),
        };
        let (disks, in_flight) = (place(&arrays.disks)?, place(&arrays.in_flight)?);
        let cost = arrays.disk_requests.as_deref().map_or(Ok(Err(DISK_REQUESTS)), place)?;
        let of_row = |row: &Row| {
            let value = |at: Result<usize, f64>| at.map_or_else(Some, |at| row.number(at));
            let (per_s, disks, in_flight) = (row.number(rate)?, value(disks)?, value(in_flight)?);
            let (limit, expected_per_s) = one_disk_per_s(disks, value(cost)?.max(1.0));
            let applies = disks >= DISKS_MIN && in_flight >= 2.0 * disks;
            (applies && per_s < limit).then_some(LikeOneDisk {
                line: row.line,
                per_s,
                disks,
                in_flight,
                expected_per_s,
            })
        };
        Ok(self.rows.iter().filter_map(of_row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_column;

    const ROWS: &str = "array,disks,threads,iops\nr5,6,48,78.1\nr5,6,8,78.1\nr1,2,48,78.1\nr5,6,48,231.3\n\
                        r5,6,48,113\nr5,6,48,n/a\n";

    fn lines(asked: &str) -> Vec<usize> {
        let table = Table::parse(ROWS, &[parse_column("iops:higher:1/s").unwrap()]).unwrap();
        let found = table.like_one_disk(&Arrays::parse(asked).unwrap()).unwrap();
        found.iter().map(|row| row.line).collect()
    }

    #[test]
    fn what_is_one_disks_work() {
        // Too few in flight, and a mirror of two, are not judged.
        assert_eq!(lines("iops:disks:threads"), [2]);
        assert_eq!(lines("iops:6:48"), [2, 3, 4], "numbers stand for columns");
        // Writes alone on RAID5: four requests of disks each, so that 56 per second are half of what they can do.
        assert_eq!(lines("iops:disks:threads:4"), [] as [usize; 0]);
        for wrong in ["iops", "iops:6", "iops:6:48:1:2"] {
            assert!(Arrays::parse(wrong).is_err(), "{wrong}");
        }
        let table = Table::parse(ROWS, &[parse_column("iops:higher:1/s").unwrap()]).unwrap();
        for wrong in ["disks:6:48", "iops:spindles:48"] {
            assert!(table.like_one_disk(&Arrays::parse(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
