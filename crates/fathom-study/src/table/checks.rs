//! Rows that cannot be right: those that break Little's law, and those that are copies of another row.

use super::{Group, Row, Table, TableError, number};
use std::collections::HashMap;

/// Rates and latencies of a closed loop may give so much more or less than the requests in flight: what is in flight
/// when the clock stops is not counted, and tables are rounded.
pub const LITTLE_TOLERANCE: f64 = 0.05;

/// Two rows that agree in metrics with so many significant digits together are one measurement written down twice:
/// for two measurements that is a chance of one in 10^8 even when their magnitudes are alike.
const COPIED_DIGITS_MIN: usize = 8;

/// Little's law for the columns of a table: requests in flight = the sum of rate x mean latency over the classes of
/// requests. (J. D. C. Little, "A Proof for the Queuing Formula L = lambda W", Operations Research 9(3), 1961.)
#[derive(Debug, Clone, PartialEq)]
pub struct Law {
    /// What the table says was in flight: a column of numbers, or a number for all rows.
    in_flight: String,
    /// The columns of rates and mean latencies.
    terms: Vec<(String, String)>,
}

/// A row and its requests in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InFlight {
    /// The row.
    pub line: usize,
    /// As the table says.
    pub stated: f64,
    /// As its rates and latencies have it.
    pub computed: f64,
}

impl InFlight {
    /// By what share of the stated number the computed one is above (positive) or below it.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.computed / self.stated - 1.0
    }

    /// True when that is more than [`LITTLE_TOLERANCE`].
    #[must_use]
    pub fn breaks_law(&self) -> bool {
        // A row that states nothing in flight has an infinite deviation or none at all.
        self.deviation().abs() > LITTLE_TOLERANCE || self.deviation().is_nan()
    }
}

/// Two rows with other factors and the same metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The earlier and the later row.
    pub lines: (usize, usize),
    /// The factors in which they differ, with the values of the earlier one...
    pub earlier: Group,
    /// ...and the later one.
    pub later: Group,
}

impl Law {
    /// Reads `threads=r_iops*r_ms+w_iops*w_ms`.
    ///
    /// # Errors
    /// [`TableError::NoLaw`].
    pub fn parse(text: &str) -> Result<Self, TableError> {
        let no_law = || TableError::NoLaw { text: text.to_owned() };
        let (in_flight, sum) = text.split_once('=').ok_or_else(no_law)?;
        let term = |term: &str| {
            let (rate, latency) = term.split_once('*').ok_or_else(no_law)?;
            Ok((rate.trim().to_owned(), latency.trim().to_owned()))
        };
        let terms = sum.split('+').map(term).collect::<Result<_, _>>()?;
        Ok(Self { in_flight: in_flight.trim().to_owned(), terms })
    }
}

impl Table {
    /// What was in flight in each row, as stated and by [`Law`]; rows in which a value is missing are left out.
    ///
    /// # Errors
    /// When a column is missing or no metric in `1/s` or a unit of time.
    pub fn in_flight(&self, law: &Law) -> Result<Vec<InFlight>, TableError> {
        let stated = match number(&law.in_flight) {
            Some(constant) => Err(constant),
            None => Ok(self.index(&law.in_flight)?),
        };
        let mut terms = Vec::new();
        for (rate, latency) in &law.terms {
            let (rate_at, latency_at) = (self.metric(rate)?, self.metric(latency)?);
            if self.columns[rate_at].unit != "1/s" {
                let needed = "a rate in requests per second: say NAME:higher:1/s";
                return Err(TableError::WrongColumn { name: rate.clone(), needed });
            }
            let needed = "a latency: say NAME:lower:ms (or s, us, ns)";
            let seconds = seconds_in(&self.columns[latency_at].unit)
                .ok_or(TableError::WrongColumn { name: latency.clone(), needed })?;
            terms.push((rate_at, latency_at, seconds));
        }
        let of_row = |row: &Row| {
            let term = |(rate, latency, seconds): &(usize, usize, f64)| {
                Some(row.number(*rate)? * row.number(*latency)? * seconds)
            };
            let computed = terms.iter().map(term).sum::<Option<f64>>()?;
            let stated = stated.map_or_else(Some, |at| row.number(at))?;
            Some(InFlight { line: row.line, stated, computed })
        };
        Ok(self.rows.iter().filter_map(of_row).collect())
    }

    /// Pairs of rows with other factors whose metrics agree to the last digit. All metrics count, so a table with one
    /// or two short ones has no copies that could be told from coincidence.
    #[must_use]
    pub fn copies(&self) -> Vec<Copied> {
        let metrics: Vec<usize> = self.metrics().map(|(at, _)| at).collect();
        let mut copies = Vec::new();
        let mut first: HashMap<Vec<&str>, &Row> = HashMap::new();
        for later in self.rows.iter().filter(|row| is_telling(row, &metrics)) {
            // The first that agrees: of three copies each of the two later ones is named once.
            let earlier = *first.entry(later.values(&metrics)).or_insert(later);
            if earlier.line == later.line {
                continue;
            }
            let differs = |at: &usize| earlier.cells[*at] != later.cells[*at];
            let same: Vec<usize> = (0..self.columns.len()).filter(|at| !differs(at)).collect();
            let (lines, group) = ((earlier.line, later.line), |row| self.group(row, &same));
            copies.push(Copied { lines, earlier: group(earlier), later: group(later) });
        }
        copies.retain(|copied| !copied.earlier.is_empty());
        copies
    }

    /// Of each pair of [`Table::copies`] the row whose metrics do not fit its own factors, by Little's law: that is
    /// the one that was overwritten by the other.
    ///
    /// # Errors
    /// Those of [`Table::in_flight`].
    pub fn overwritten(&self, law: &Law) -> Result<Vec<usize>, TableError> {
        let in_flight = self.in_flight(law)?;
        let breaks = |line: usize| in_flight.iter().any(|row| row.line == line && row.breaks_law());
        let of_pair = |copied: &Copied| match copied.lines {
            (earlier, later) if breaks(later) && !breaks(earlier) => Some(later),
            (earlier, later) if breaks(earlier) && !breaks(later) => Some(earlier),
            _ => None,
        };
        Ok(self.copies().iter().filter_map(of_pair).collect())
    }
}

/// True when another row with the same metrics can be no coincidence.
fn is_telling(row: &Row, metrics: &[usize]) -> bool {
    let digits = |at: &usize| match row.number(*at) {
        Some(value) if value != 0.0 => significant_digits(&row.cells[*at]),
        _ => 0,
    };
    metrics.iter().map(digits).sum::<usize>() >= COPIED_DIGITS_MIN
}

/// Digits from the first that is not 0, without an exponent.
fn significant_digits(text: &str) -> usize {
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    mantissa.chars().filter(char::is_ascii_digit).skip_while(|c| *c == '0').count()
}

/// Seconds in a unit of time.
fn seconds_in(unit: &str) -> Option<f64> {
    match unit {
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_column;

    /// Injected: row 5 is row 4 again, in which 16 were in flight; row 6 has no latency.
    const ROWS: &str = "\
disk,threads,iops,avg_ms,max_ms
a,8,812.5,9.84,120.7
a,16,1203.1,13.3,230.4
b,16,1404.2,11.4,180.9
b,32,1404.2,11.4,180.9
b,64,1500.0,n/a,200.0
";

    fn table(latency: &str) -> Table {
        let said =
            ["iops:higher:1/s", latency, "max_ms:lower:ms"].map(|t| parse_column(t).unwrap());
        Table::parse(ROWS, &said).unwrap()
    }

    #[test]
    fn littles_law_of_each_row() {
        let table = table("avg_ms:lower:ms");
        let rows = table.in_flight(&Law::parse("threads=iops*avg_ms").unwrap()).unwrap();
        assert_eq!(rows.len(), 4, "the row without latency is left out");
        assert!((rows[0].computed - 7.995).abs() < 1e-9 && rows[0].stated == 8.0);
        let broken: Vec<usize> = rows.iter().filter(|r| r.breaks_law()).map(|r| r.line).collect();
        assert_eq!(broken, [5]);
        assert!((rows[3].deviation() + 0.49976).abs() < 1e-4, "{:?}", rows[3]);
        // One number for all rows.
        let all = table.in_flight(&Law::parse("16 = iops * avg_ms").unwrap()).unwrap();
        assert!(all[0].breaks_law() && !all[1].breaks_law());
        let nothing = InFlight { line: 1, stated: 0.0, computed: 0.0 };
        assert!(nothing.breaks_law());
    }

    #[test]
    fn the_copy_is_the_row_that_does_not_fit_its_factors() {
        let table = table("avg_ms:lower:ms");
        let named = |value: &str| vec![("threads".to_owned(), value.to_owned())];
        let copy = Copied { lines: (4, 5), earlier: named("16"), later: named("32") };
        assert_eq!(table.copies(), [copy]);
        assert_eq!(table.overwritten(&Law::parse("threads=iops*avg_ms").unwrap()).unwrap(), [5]);
        assert_eq!(
            table.overwritten(&Law::parse("32=iops*avg_ms").unwrap()).unwrap(),
            [] as [usize; 0]
        );
    }

    #[test]
    fn few_digits_and_repeats_are_no_copies() {
        let said = [parse_column("mbps:higher:MB/s").unwrap()];
        let table = Table::parse("disk,mbps\na,156\nb,156\n", &said).unwrap();
        assert_eq!(table.copies(), []);
        let same = Table::parse("disk,mbps\na,156.44321\na,156.44321\n", &said).unwrap();
        assert_eq!(same.copies(), [], "a row printed twice claims nothing else");
        assert_eq!(significant_digits("0.00120e-3"), 3);
        assert_eq!(significant_digits("3m0.748s"), 5);
    }

    #[test]
    fn the_law_wants_rates_and_times() {
        let error = |latency: &str, law: &str| {
            let law = Law::parse(law).unwrap();
            table(latency).in_flight(&law).unwrap_err().to_string()
        };
        assert!(
            error("avg_ms:lower:", "threads=iops*avg_ms").contains("'avg_ms' must be a latency")
        );
        assert!(error("avg_ms:lower:ms", "threads=max_ms*avg_ms").contains("must be a rate"));
        assert!(error("avg_ms:lower:ms", "jobs=iops*avg_ms").starts_with("no column 'jobs'"));
        for text in ["", "threads", "threads=iops", "threads=iops*avg_ms+"] {
            assert!(Law::parse(text).is_err(), "{text}");
        }
    }
}
