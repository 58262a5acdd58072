//! How a metric goes with a number that was varied (threads, read-ahead), and which level of a factor is best where.

use super::{Group, Row, Table, TableError, number};
use crate::knee::{self, Point};
use fathom_base::order::Order;
use fathom_stats::equivalence::Better;
use fathom_stats::interval::median;
use std::collections::HashMap;

/// Rows that differ only in one number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// What they have in common.
    pub group: Group,
    /// The number varied, rising, and the metric; the median where several rows say the same.
    pub points: Vec<(f64, f64)>,
}

/// Which way a sweep goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trend {
    /// Each point is above the one before.
    Rises,
    /// Each point is below the one before.
    Falls,
    /// Neither.
    Mixed,
}

impl Sweep {
    /// The first point from which on the metric no longer grows by [`knee::GROWTH_MIN`]; none when it still grows at the
    /// end.
    #[must_use]
    pub fn knee(&self) -> Option<(f64, f64)> {
        let as_point = |(x, y): &(f64, f64)| Point { concurrency: *x as u64, iops: *y };
        let points: Vec<Point> = self.points.iter().map(as_point).collect();
        knee::knee(&points).map(|at| self.points[at])
    }

    /// The highest point, the first of equal ones.
    #[must_use]
    pub fn peak(&self) -> Option<(f64, f64)> {
        self.points
            .iter()
            .copied()
            .reduce(|best, point| if point.1 > best.1 { point } else { best })
    }

    /// Which way it goes.
    #[must_use]
    pub fn trend(&self) -> Trend {
        let all = |goes: fn(f64, f64) -> bool| {
            self.points.len() > 1 && self.points.windows(2).all(|pair| goes(pair[0].1, pair[1].1))
        };
        if all(|a, b| b > a) {
            Trend::Rises
        } else if all(|a, b| b < a) {
            Trend::Falls
        } else {
            Trend::Mixed
        }
    }

    /// The last value of the metric as a multiple of the first; none when that is 0 or there is no point.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        (first.1 != 0.0).then(|| last.1 / first.1)
    }
}

/// The best row of one level of a factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranked {
    /// The level.
    pub level: String,
    /// The metric there.
    pub value: f64,
    /// The row.
    pub line: usize,
}

/// Which level of a factor is best where these factors have these values.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The factors held.
    pub group: Group,
    /// The best row of each level, the best level first. A level with more rows had more chances.
    pub ranking: Vec<Ranked>,
}

impl Table {
    /// How `metric` goes with the factor `x`, for each combination of the other factors with at least two points.
    ///
    /// # Errors
    /// When a column does not exist or does not fit, or `x` has values that are no numbers.
    pub fn sweeps(&self, x: &str, metric: &str) -> Result<Vec<Sweep>, TableError> {
        let (x_at, metric_at) = (self.factor(x)?, self.metric(metric)?);
        if let Some(row) = self.rows.iter().find(|row| row.number(x_at).is_none()) {
            let (line, value) = (row.line, row.cells[x_at].clone());
            return Err(TableError::NoNumber { line, column: x.to_owned(), value });
        }
        let mut sweeps = Vec::new();
        for rows in self.groups(&self.factors_but(&[x_at])) {
            let points = points(&rows, x_at, metric_at);
            if points.len() > 1 {
                sweeps.push(Sweep { group: self.group(rows[0], &[x_at]), points });
            }
        }
        Ok(sweeps)
    }

    /// Which level of `factor` has the best `metric`, for each combination of the factors `within`, whatever the rest. Runs
    /// of one thing count by their median: the luckiest of many is no measure.
    ///
    /// # Errors
    /// When a column does not exist or does not fit.
    pub fn best_by(
        &self,
        factor: &str,
        metric: &str,
        within: &[&str],
    ) -> Result<Vec<Best>, TableError> {
        let (factor_at, metric_at) = (self.factor(factor)?, self.metric(metric)?);
        let by = within.iter().map(|name| self.factor(name)).collect::<Result<Vec<_>, _>>()?;
        let better = self.better(metric_at);
        let is_better = |a: f64, b: f64| if better == Better::Higher { a > b } else { a < b };
        let all = self.factors_but(&[]);
        let best_of = |rows: Vec<&Row>| {
            let mut ranking: Vec<Ranked> = Vec::new();
            for (first, value) in repeated(&rows, &all, metric_at) {
                let (level, line) = (first.cells[factor_at].clone(), first.line);
                match ranking.iter_mut().find(|ranked| ranked.level == level) {
                    Some(ranked) if is_better(value, ranked.value) => {
                        (ranked.value, ranked.line) = (value, line);
                    }
                    Some(_) => {}
                    None => ranking.push(Ranked { level, value, line }),
                }
            }
            // Stable: equal ones stay in the order of the table.
            ranking.order_by(|a, b| match better {
                Better::Higher => b.value.total_cmp(&a.value),
                Better::Lower => a.value.total_cmp(&b.value),
            });
            let named = |at: &usize| (self.columns[*at].name.clone(), rows[0].cells[*at].clone());
            Best { group: by.iter().map(named).collect(), ranking }
        };
        Ok(self.groups(&by).into_iter().map(best_of).collect())
    }
}

/// Rows that differ in no factor are runs of one thing: the first of each, with the median of the metric.
fn repeated<'r>(rows: &[&'r Row], factors: &[usize], metric: usize) -> Vec<(&'r Row, f64)> {
    let mut found: Vec<(&Row, Vec<f64>)> = Vec::new();
    let mut known: HashMap<Vec<&str>, usize> = HashMap::new();
    for row in rows {
        let Some(value) = row.number(metric) else { continue };
        let at = *known.entry(row.values(factors)).or_insert(found.len());
        if at == found.len() {
            found.push((row, Vec::new()));
        }
        found[at].1.push(value);
    }
    found.into_iter().filter_map(|(row, values)| Some((row, median(&values).ok()?))).collect()
}

/// Rising in x, one for each x that has a value.
fn points(rows: &[&Row], x: usize, metric: usize) -> Vec<(f64, f64)> {
    let mut values: Vec<(f64, Vec<f64>)> = Vec::new();
    for row in rows {
        let (Some(at), Some(value)) = (number(&row.cells[x]), row.number(metric)) else { continue };
        match values.iter_mut().find(|(known, _)| *known == at) {
            Some((_, list)) => list.push(value),
            None => values.push((at, vec![value])),
        }
    }
    values.order_by(|a, b| a.0.total_cmp(&b.0));
    values.into_iter().filter_map(|(x, list)| Some((x, median(&list).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_column;

    const ROWS: &str = "\
disk,threads,size,iops,ms
a,16,4k,400,9
a,1,4k,100,9
a,4,4k,380,9
a,4,4k,390,9
a,4,4k,400,9
b,1,4k,90,7
b,16,4k,440,8
b,1,64k,50,7
";

    fn table(text: &str) -> Table {
        let said = ["iops:higher:1/s", "ms:lower:ms"].map(|text| parse_column(text).unwrap());
        Table::parse(text, &said).unwrap()
    }

    #[test]
    fn sweeps_are_sorted_and_grouped() {
        let sweeps = table(ROWS).sweeps("threads", "iops").unwrap();
        assert_eq!(sweeps.len(), 2, "a single point is no sweep");
        assert_eq!(sweeps[0].points, [(1.0, 100.0), (4.0, 390.0), (16.0, 400.0)]);
        assert_eq!(sweeps[0].knee(), Some((4.0, 390.0)));
        assert_eq!(sweeps[0].peak(), Some((16.0, 400.0)));
        assert_eq!((sweeps[0].trend(), sweeps[0].gain()), (Trend::Rises, Some(4.0)));
        assert_eq!((sweeps[1].knee(), sweeps[1].group[0].1.as_str()), (None, "b"));
        let sweep = |points: &[(f64, f64)]| Sweep { group: Group::new(), points: points.to_vec() };
        assert_eq!(sweep(&[(1.0, 3.0), (2.0, 2.0)]).trend(), Trend::Falls);
        assert_eq!(sweep(&[(1.0, 3.0), (2.0, 3.0)]).trend(), Trend::Mixed);
        assert_eq!((sweep(&[]).trend(), sweep(&[]).gain()), (Trend::Mixed, None));
        assert_eq!(sweep(&[(1.0, 0.0), (2.0, 3.0)]).gain(), None);
    }

    #[test]
    fn the_best_level_of_each_size() {
        let best = table(ROWS).best_by("disk", "iops", &["size"]).unwrap();
        let order = |best: &Best| -> Vec<(String, f64, usize)> {
            best.ranking.iter().map(|r| (r.level.clone(), r.value, r.line)).collect()
        };
        assert_eq!(best[0].group, [("size".to_owned(), "4k".to_owned())]);
        assert_eq!(order(&best[0]), [("b".into(), 440.0, 8), ("a".into(), 400.0, 2)]);
        assert_eq!(order(&best[1]), [("b".into(), 50.0, 9)]);
        let repeats = table("threads,iops,ms\n1,100,9\n1,190,9\n1,110,9\n2,120,9\n");
        let best = repeats.best_by("threads", "iops", &[]).unwrap();
        assert_eq!(order(&best[0]), [("2".into(), 120.0, 5), ("1".into(), 110.0, 2)]);
        // Less is better for latencies, and within nothing there is one answer.
        let best = table(ROWS).best_by("disk", "ms", &[]).unwrap();
        assert_eq!(order(&best[0]), [("b".into(), 7.0, 7), ("a".into(), 9.0, 2)]);
    }

    #[test]
    fn what_cannot_be_asked() {
        let table = table(ROWS);
        let error = |x, metric| table.sweeps(x, metric).unwrap_err().to_string();
        assert!(error("size", "iops").starts_with("line 2, column size: '4k' is no number"));
        assert!(error("iops", "ms").contains("'iops' must be a factor"));
        assert!(table.best_by("disk", "iops", &["rpm"]).is_err());
    }
}
