//! Two levels of a factor against each other, row by row: a row of one level and a row of the other make a pair when
//! they agree in all other factors. Where no two rows do, there is no comparison, and the answer says what differed.

use super::{Group, Row, Table, TableError};
use fathom_stats::equivalence::{self, Question};
use fathom_stats::interval::median;

/// Rows of single runs decide nothing with fewer pairs than this: at a level of 0.95 no rank interval exists.
pub const PAIRS_MIN: usize = 6;

/// Two rows that differ only in the factor compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// What they have in common: the block.
    pub block: Group,
    /// The metric at the first level; the median where several rows say the same.
    pub a: f64,
    /// At the second.
    pub b: f64,
}

/// Pairs and what follows from them.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// The pairs, in the order of the table.
    pub pairs: Vec<Pair>,
    /// Blocks in which one of the levels has no row, or no value above 0.
    pub unmatched: usize,
    /// The ratio of the second level to the first, with its interval. It describes these rows: blocks that were chosen
    /// otherwise may say something else.
    pub answer: equivalence::Comparison,
}

/// Something besides the factor in which the nearest rows of two levels differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The factor.
    pub factor: String,
    /// Its value in the row of the first level.
    pub a: String,
    /// In that of the second.
    pub b: String,
}

/// Two levels of a factor against each other.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// There are rows that differ in nothing else.
    Paired(Paired),
    /// All rows differ in something else too, at least in this.
    NotComparable(Vec<Difference>),
}

/// What somebody says about the ratio of the second level to the first: it lies in this range, ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// At least this.
    pub low: f64,
    /// At most this; may be infinite.
    pub high: f64,
}

/// What rows say about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The whole interval lies in the range claimed.
    Confirmed,
    /// The whole interval lies outside.
    Refuted,
    /// Neither; or too few pairs for an interval; or rows that cannot be compared.
    Inconclusive,
}

impl Claim {
    /// Judges it.
    #[must_use]
    pub fn judge(self, comparison: &Comparison) -> Outcome {
        let Comparison::Paired(paired) = comparison else { return Outcome::Inconclusive };
        let Some(interval) = paired.answer.ratio.interval else { return Outcome::Inconclusive };
        if interval.low >= self.low && interval.high <= self.high {
            Outcome::Confirmed
        } else if interval.high < self.low || interval.low > self.high {
            Outcome::Refuted
        } else {
            Outcome::Inconclusive
        }
    }
}

impl Table {
    /// Compares level `b` of a factor with level `a` in one metric.
    ///
    /// # Errors
    /// When a column or level does not exist, or no matched rows have values above 0.
    pub fn compare(
        &self,
        factor: &str,
        (a, b): (&str, &str),
        metric: &str,
    ) -> Result<Comparison, TableError> {
        let (factor_at, metric_at) = (self.factor(factor)?, self.metric(metric)?);
        self.check_level(factor_at, a)?;
        self.check_level(factor_at, b)?;
        let (mut pairs, mut unmatched, mut have_met) = (Vec::new(), 0, false);
        for rows in self.groups(&self.factors_but(&[factor_at])) {
            let of = |level: &str| -> Vec<&Row> {
                rows.iter().copied().filter(|row| row.cells[factor_at] == level).collect()
            };
            let (of_a, of_b) = (of(a), of(b));
            have_met |= !of_a.is_empty() && !of_b.is_empty();
            match (value(&of_a, metric_at), value(&of_b, metric_at)) {
                (Some(a), Some(b)) => {
                    pairs.push(Pair { block: self.group(rows[0], &[factor_at]), a, b });
                }
                _ if of_a.is_empty() && of_b.is_empty() => {}
                _ => unmatched += 1,
            }
        }
        if !have_met {
            return Ok(Comparison::NotComparable(self.differences(factor_at, a, b)));
        }
        let (of_a, of_b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|pair| (pair.a, pair.b)).unzip();
        let answer =
            equivalence::compare_paired(&of_a, &of_b, &Question::new(self.better(metric_at)))
                .map_err(|why| TableError::NoRatio { metric: metric.to_owned(), why })?;
        Ok(Comparison::Paired(Paired { pairs, unmatched, answer }))
    }

    /// In what the two most alike rows of two levels differ.
    fn differences(&self, factor: usize, a: &str, b: &str) -> Vec<Difference> {
        let others = self.factors_but(&[factor]);
        let of = |level| self.rows.iter().filter(move |row: &&Row| row.cells[factor] == level);
        let differs = |at: usize, (left, right): (&Row, &Row)| left.cells[at] != right.cells[at];
        let pairs = of(a).flat_map(|left| of(b).map(move |right| (left, right)));
        let count = |pair: &(&Row, &Row)| others.iter().filter(|at| differs(**at, *pair)).count();
        let Some(nearest) = pairs.min_by_key(count) else { return Vec::new() };
        let named = |at: usize| Difference {
            factor: self.columns[at].name.clone(),
            a: nearest.0.cells[at].clone(),
            b: nearest.1.cells[at].clone(),
        };
        others.iter().copied().filter(|at| differs(*at, nearest)).map(named).collect()
    }
}

/// The median of the values above 0 of rows that say the same.
fn value(rows: &[&Row], metric: usize) -> Option<f64> {
    let values: Vec<f64> =
        rows.iter().filter_map(|row| row.number(metric)).filter(|value| *value > 0.0).collect();
    median(&values).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_column;
    use fathom_stats::equivalence::Decision;
    use std::fmt::Write;

    fn table(text: &str) -> Table {
        Table::parse(text, &[parse_column("iops:higher:1/s").unwrap()]).unwrap()
    }

    /// `count` pairs in which b has `ratio` times as much, give or take 1 %.
    fn pairs(count: usize, ratio: f64) -> Table {
        let mut text = "array,threads,iops\n".to_owned();
        for i in 0..count {
            let base = 100.0 * (i + 1) as f64;
            let noise = 1.0 + 0.01 * (i as f64 / (count - 1) as f64 - 0.5);
            let _ = writeln!(text, "a,{i},{base}\nb,{i},{}", base * ratio * noise);
        }
        table(&text)
    }

    fn paired(table: &Table) -> Paired {
        match table.compare("array", ("a", "b"), "iops").unwrap() {
            Comparison::Paired(paired) => paired,
            other @ Comparison::NotComparable(_) => panic!("{other:?}"),
        }
    }

    #[test]
    fn six_pairs_decide_and_five_do_not() {
        let six = paired(&pairs(6, 1.5));
        assert_eq!((six.pairs.len(), six.answer.decision), (PAIRS_MIN, Decision::Faster));
        // With six pairs the interval reaches from the smallest to the largest ratio.
        let interval = six.answer.ratio.interval.unwrap();
        assert!((interval.low - 1.4925).abs() < 1e-9 && (interval.high - 1.5075).abs() < 1e-9);
        let five = paired(&pairs(5, 1.5));
        assert_eq!(five.answer.decision, Decision::Inconclusive);
        assert_eq!(five.answer.ratio.interval, None);
        assert!((five.answer.ratio.value - 1.5).abs() < 0.01, "the figure is shown all the same");
    }

    #[test]
    fn claims() {
        let outcome = |count, ratio, low, high| {
            let comparison = pairs(count, ratio).compare("array", ("a", "b"), "iops").unwrap();
            Claim { low, high }.judge(&comparison)
        };
        assert_eq!(outcome(8, 1.5, 1.2, f64::INFINITY), Outcome::Confirmed);
        assert_eq!(outcome(8, 1.5, 2.0, f64::INFINITY), Outcome::Refuted);
        assert_eq!(outcome(8, 1.5, 0.0, 1.2), Outcome::Refuted);
        assert_eq!(outcome(8, 1.5, 1.5, 2.0), Outcome::Inconclusive, "the range ends inside");
        assert_eq!(outcome(5, 1.5, 1.2, 2.0), Outcome::Inconclusive, "too few pairs");
        let nothing = Comparison::NotComparable(Vec::new());
        assert_eq!(Claim { low: 0.0, high: f64::INFINITY }.judge(&nothing), Outcome::Inconclusive);
    }

    #[test]
    fn blocks_are_rows_that_agree_in_all_else() {
        let text = "array,threads,size,iops\na,1,4k,100\nb,1,4k,110\nb,1,4k,130\nb,1,4k,120\n\
                    a,8,4k,300\nb,8,64k,300\na,16,4k,n/a\nb,16,4k,400\nc,1,4k,7\n";
        let paired = paired(&table(text));
        assert_eq!(paired.pairs.len(), 1);
        assert_eq!((paired.pairs[0].a, paired.pairs[0].b), (100.0, 120.0), "median of repeats");
        assert_eq!(paired.pairs[0].block[0], ("threads".to_owned(), "1".to_owned()));
        assert_eq!(paired.unmatched, 3, "8 threads of either size, and 16 without a value");
    }

    #[test]
    fn rows_that_differ_in_more_are_not_compared() {
        let text = "fs,device,direct,iops\nxfs,sda4,yes,118\nxfs,sda3,yes,116\next4,sdb1,no,233\next4,sdb1,yes,301\n";
        let refused = table(text).compare("fs", ("xfs", "ext4"), "iops").unwrap();
        let difference = Difference { factor: "device".into(), a: "sda4".into(), b: "sdb1".into() };
        assert_eq!(refused, Comparison::NotComparable(vec![difference]));
    }

    #[test]
    fn errors_name_the_cause() {
        let table = table("fs,iops\nxfs,0\next4,5\n");
        let error = |a, metric| table.compare("fs", (a, "ext4"), metric).unwrap_err().to_string();
        assert!(error("xfs", "iops").starts_with("column 'iops': rows match, but"));
        assert!(error("zfs", "iops").starts_with("no row has fs 'zfs'; there are: ext4, xfs"));
        assert!(error("xfs", "fs").contains("must be a metric"));
    }
}
