//! Questions about a table in the words of a command line, and all answers together.

use super::{
    Arrays, Best, Comparison, Copied, InFlight, Law, LikeOneDisk, Sweep, Table, TableError,
};
use fathom_stats::equivalence::Better;
use std::ops::RangeInclusive;

/// What is asked; each text holds names of columns with colons between them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Questions<'a> {
    /// `IN_FLIGHT=RATE*LATENCY+...`, see [`Law::parse`].
    pub little: Option<&'a str>,
    /// `RATE:DISKS:IN_FLIGHT[:DISK_REQUESTS]`, see [`Table::like_one_disk`].
    pub one_disk: Option<&'a str>,
    /// `FACTOR:METRIC`, see [`Table::sweeps`].
    pub sweep: &'a [String],
    /// `FACTOR:METRIC[:FACTOR...]`, see [`Table::best_by`].
    pub best: &'a [String],
    /// `FACTOR:A:B:METRIC`, see [`Table::compare`].
    pub compare: &'a [String],
}

/// One question about a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Its parts as asked.
    pub parts: Vec<String>,
    /// The metric.
    pub metric: String,
    /// Which way that is good.
    pub better: Better,
    /// Its unit, empty when nobody said.
    pub unit: String,
}

/// Everything that was found. Copies and Little's law are of all rows, the rest of those not left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// The law as asked, and each row.
    pub law: Option<(String, Vec<InFlight>)>,
    /// Rows with other factors and the same metrics.
    pub copies: Vec<Copied>,
    /// The lines of rows that were overwritten by another one.
    pub left_out: Vec<usize>,
    /// Arrays that do the work of one disk, where that was asked.
    pub one_disk: Option<Vec<LikeOneDisk>>,
    /// How metrics go.
    pub sweeps: Vec<(Question, Vec<Sweep>)>,
    /// What is best where.
    pub best: Vec<(Question, Vec<Best>)>,
    /// Levels against each other.
    pub comparisons: Vec<(Question, Comparison)>,
}

impl Answers {
    /// The rows that break Little's law.
    #[must_use]
    pub fn broken(&self) -> Vec<&InFlight> {
        self.law.iter().flat_map(|(_, rows)| rows).filter(|row| row.breaks_law()).collect()
    }

    /// True when some row cannot be what it says it is, or is that of a sick array, or a comparison asked for is refused.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        let is_refused = |(_, comparison): &(Question, Comparison)| {
            matches!(comparison, Comparison::NotComparable(_))
        };
        let is_sick = self.one_disk.iter().any(|rows| !rows.is_empty());
        !self.copies.is_empty()
            || is_sick
            || !self.broken().is_empty()
            || self.comparisons.iter().any(is_refused)
    }
}

impl Table {
    /// Answers all questions.
    ///
    /// # Errors
    /// When a question does not fit the table.
    pub fn ask(&self, questions: &Questions<'_>) -> Result<Answers, TableError> {
        let (mut law, mut left_out) = (None, Vec::new());
        if let Some(text) = questions.little {
            let asked = Law::parse(text)?;
            law = Some((text.to_owned(), self.in_flight(&asked)?));
            left_out = self.overwritten(&asked)?;
        }
        let table = self.without(&left_out);
        let one_disk = questions.one_disk.map(|text| table.like_one_disk(&Arrays::parse(text)?));
        let one_disk = one_disk.transpose()?;
        let sweeps = questions.sweep.iter().map(|text| {
            let question = table.question(text, 2..=2, 1)?;
            let sweeps = table.sweeps(&question.parts[0], &question.metric)?;
            Ok((question, sweeps))
        });
        let best = questions.best.iter().map(|text| {
            let question = table.question(text, 2..=usize::MAX, 1)?;
            let within: Vec<&str> = question.parts[2..].iter().map(String::as_str).collect();
            let best = table.best_by(&question.parts[0], &question.metric, &within)?;
            Ok((question, best))
        });
        let comparisons = questions.compare.iter().map(|text| {
            let question = table.question(text, 4..=4, 3)?;
            let levels = (question.parts[1].as_str(), question.parts[2].as_str());
            let comparison = table.compare(&question.parts[0], levels, &question.metric)?;
            Ok((question, comparison))
        });
        let sweeps = sweeps.collect::<Result<_, TableError>>()?;
        let best = best.collect::<Result<_, TableError>>()?;
        let comparisons = comparisons.collect::<Result<_, TableError>>()?;
        Ok(Answers { law, copies: self.copies(), left_out, one_disk, sweeps, best, comparisons })
    }

    /// Splits a question into its parts, of which there must be so many; `metric` is the place of the metric.
    fn question(
        &self,
        text: &str,
        counts: RangeInclusive<usize>,
        metric: usize,
    ) -> Result<Question, TableError> {
        let parts: Vec<String> = text.split(':').map(|part| part.trim().to_owned()).collect();
        if !counts.contains(&parts.len()) {
            return Err(TableError::NoQuestion { text: text.to_owned() });
        }
        let metric = parts[metric].clone();
        let at = self.metric(&metric)?;
        let unit = self.columns[at].unit.clone();
        Ok(Question { parts, metric, better: self.better(at), unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_column;

    #[test]
    fn a_copy_counts_in_no_answer() {
        // Injected: line 5 is line 4 again.
        let text = "disk,threads,iops,ms,max_ms\na,8,812.5,9.84,120.7\na,16,1203.1,13.3,230.4\n\
                    b,16,1404.2,11.4,180.9\nb,32,1404.2,11.4,180.9\n";
        let said = ["iops:higher:1/s", "ms:lower:ms", "max_ms:lower:ms"];
        let table = Table::parse(text, &said.map(|text| parse_column(text).unwrap())).unwrap();
        let asked = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (sweep, best) = (asked(&["threads:iops"]), asked(&["disk:ms", "disk:iops:threads"]));
        let compare = asked(&["disk:a:b:iops"]);
        let little = Some("threads=iops*ms");
        let questions =
            Questions { little, one_disk: None, sweep: &sweep, best: &best, compare: &compare };
        let answers = table.ask(&questions).unwrap();
        assert!(answers.is_doubtful());
        assert_eq!((answers.left_out.as_slice(), answers.broken().len()), ([5].as_slice(), 1));
        assert_eq!(answers.sweeps[0].1.len(), 1, "of b one row is left");
        assert_eq!(answers.best[1].1.len(), 2, "8 and 16 threads");
        assert_eq!(
            (answers.best[0].0.better, answers.best[0].0.unit.as_str()),
            (Better::Lower, "ms")
        );
        assert!(matches!(&answers.comparisons[0].1, Comparison::Paired(p) if p.pairs.len() == 1));
        for wrong in ["threads", "threads:iops:ms", "threads:disk", "thread:iops"] {
            let sweep = asked(&[wrong]);
            let questions = Questions { sweep: &sweep, ..Questions::default() };
            assert!(table.ask(&questions).is_err(), "{wrong}");
        }
        let nothing = table.without(&[5]).ask(&Questions::default()).unwrap();
        assert!(!nothing.is_doubtful());
        let sick = Questions { one_disk: Some("iops:400:16000"), ..Questions::default() };
        assert!(
            !table.without(&[5]).ask(&sick).unwrap().is_doubtful(),
            "800 are not one disk's work"
        );
        let slow =
            Table::parse("disk,iops\na,70.25\n", &[parse_column("iops:higher:1/s").unwrap()])
                .unwrap();
        let sick = Questions { one_disk: Some("iops:6:48"), ..Questions::default() };
        assert!(slow.ask(&sick).unwrap().is_doubtful());
        let apart = asked(&["threads:8:16:iops"]);
        let questions = Questions { compare: &apart, ..Questions::default() };
        let unmatched = table.only("threads", "8").unwrap().ask(&questions);
        assert!(unmatched.is_err(), "no row has 16 threads");
        let two_disks = table.without(&[3, 5]);
        assert!(two_disks.ask(&questions).unwrap().is_doubtful(), "the disk differs too");
    }
}
