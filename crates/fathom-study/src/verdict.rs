//! From the records of a run to its findings and its verdict.

use crate::{capture, rounds, rules, saturate, size, sweep, watch};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::{Record, RunKind};

/// What a run's records come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Every finding once, the gravest first.
    pub findings: Vec<Finding>,
    /// Whether the figures can be believed.
    pub verdict: Verdict,
}

/// Judges the records of a run by what it was for: a search does some things on purpose that are doubts elsewhere.
#[must_use]
pub fn judge_run(kind: RunKind, records: &[Record]) -> Study {
    match kind {
        RunKind::Rounds => rounds::judge(records),
        RunKind::Saturate => saturate::judge(records),
        RunKind::Size => size::judge(records),
        RunKind::Watch => watch::judge(records),
        RunKind::Capture => capture::judge(records),
        RunKind::Replay => capture::judge_replay(records),
        _ => judge(records),
    }
}

/// Judges one or more records of a run together.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let bound = sweep::cpu_bound(records);
    let is_said = |row: usize, finding: &Finding| {
        finding.id == rules::GENERATOR_BOUND && bound.iter().any(|of| of.rows.contains(&row))
    };
    let mut findings: Vec<Finding> = bound.iter().map(|of| of.finding.clone()).collect();
    for (row, record) in records.iter().enumerate() {
        let own = rules::all(record).into_iter().filter(|finding| !is_said(row, finding));
        for finding in record.findings.iter().cloned().chain(own) {
            add(&mut findings, finding, (records.len() > 1).then_some(record.label.as_str()));
        }
    }
    findings.iter_mut().for_each(shorten_rows);
    findings.extend(rules::short_windows(records));
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    Study { findings, verdict }
}

/// Judges a stored run. `unfinished` is the word for one that is still being made or whose process was killed: what is
/// there is at best a part of what was asked for.
#[must_use]
pub fn judge_stored(kind: RunKind, records: &[Record], unfinished: Option<&str>) -> Study {
    of_stored(judge_run(kind, records), kind, records.len(), unfinished)
}

/// The same where the run's own study has told what its records come to, as those of experiments, arrays and layers do.
#[must_use]
pub fn of_stored(
    mut study: Study,
    kind: RunKind,
    records: usize,
    unfinished: Option<&str>,
) -> Study {
    let (one, several) = match kind {
        RunKind::Watch => ("stretch of its time", "stretches of its time"),
        RunKind::Capture | RunKind::Replay => ("result", "results"),
        _ => ("trial", "trials"),
    };
    let text = match (records, unfinished) {
        (0, _) if kind == RunKind::Watch => "nothing of it is stored".to_owned(),
        (0, _) => format!("not one {one} is stored: nothing was measured to its end"),
        (_, None) => return study,
        (1, Some(word)) => format!("the run is {word}: only 1 {one} is stored"),
        (count, Some(word)) => format!("the run is {word}: only {count} {several} are stored"),
    };
    let severity = if records == 0 { Severity::Void } else { Severity::Doubtful };
    study.findings.insert(0, Finding::new("unfinished-run", severity, text));
    study.findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    study.verdict = Verdict::of(&study.findings);
    study
}

/// How advice names a further row with the same finding.
const ALSO_IN: &str = "also in: ";

/// Names the further rows of a finding in one line, the first two when there are many; rows of one name once.
fn shorten_rows(finding: &mut Finding) {
    let rows: Vec<String> = finding
        .advice
        .iter()
        .map_while(|line| line.strip_prefix(ALSO_IN))
        .map(str::to_owned)
        .collect();
    let mut names: Vec<(&str, usize)> = Vec::new();
    for row in &rows {
        match names.iter_mut().find(|(name, _)| name == row) {
            Some((_, count)) => *count += 1,
            None => names.push((row, 1)),
        }
    }
    let is_own =
        |name: &str| finding.summary.strip_prefix(name).is_some_and(|s| s.starts_with(": "));
    let text = |(name, count): &(&str, usize)| match (is_own(name), count) {
        (true, 1) => "another run of it".to_owned(),
        (true, count) => format!("{count} more runs of it"),
        (false, 1) => (*name).to_owned(),
        (false, count) => format!("{name} ({count} runs)"),
    };
    let names: Vec<String> = names.iter().map(text).collect();
    let line = match names.as_slice() {
        [] => return,
        [a] => format!("{ALSO_IN}{a}"),
        [a, b] => format!("{ALSO_IN}{a}; {b}"),
        [a, b, c] => format!("{ALSO_IN}{a}; {b}; {c}"),
        [a, b, rest @ ..] => format!("{ALSO_IN}{a}; {b}; and {} more rows", rest.len()),
    };
    finding.advice.splice(..rows.len(), [line]);
}

/// A finding of several rows is said once: the first row's text, and in which rows it was seen.
pub(crate) fn add(findings: &mut Vec<Finding>, mut finding: Finding, label: Option<&str>) {
    let rule_of_row = rules::is_about_one_row(&finding.id);
    // The same rule on two arrays or files says two things, on two rows one. What it is about is the first word; the
    // rest may change from row to row (how far a check has come).
    let subject = |f: &Finding| f.summary.split(' ').next().unwrap_or_default().to_owned();
    let is_same =
        |f: &&mut Finding| f.id == finding.id && (rule_of_row || subject(f) == subject(&finding));
    if let Some(known) = findings.iter_mut().find(is_same) {
        known.severity = known.severity.max(finding.severity);
        if let Some(label) = label.filter(|_| rule_of_row) {
            let others = known.advice.iter().take_while(|line| line.starts_with(ALSO_IN)).count();
            known.advice.insert(others, format!("{ALSO_IN}{label}"));
        }
        return;
    }
    if let Some(label) = label.filter(|_| rule_of_row) {
        finding.summary = format!("{label}: {}", finding.summary);
    }
    findings.push(finding);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;

    #[test]
    fn a_clean_record_is_trusted_with_notes_only() {
        let study = judge(&[record()]);
        assert_eq!(study.verdict, Verdict::Trusted, "{:?}", study.findings);
    }

    #[test]
    fn findings_of_many_rows_are_said_once_and_name_the_rows() {
        let mut a = record();
        a.label = "row a".into();
        a.jobs[0].busiest_thread_cpu_ns = a.window_ns;
        let mut b = a.clone();
        b.label = "row b".into();
        let study = judge(&[a, b]);
        let bound: Vec<_> = study.findings.iter().filter(|f| f.id == "generator-bound").collect();
        assert_eq!(bound.len(), 1);
        assert!(bound[0].summary.starts_with("row a: ") && bound[0].advice[0] == "also in: row b");
        assert_eq!(study.verdict, Verdict::Doubtful);
    }

    #[test]
    fn many_rows_of_a_finding_are_one_line() {
        let mut bound = record();
        bound.jobs[0].busiest_thread_cpu_ns = bound.window_ns;
        let line = |rows: u32| {
            let row = |number| Record { label: format!("row {number}"), ..bound.clone() };
            let study = judge(&(1..=rows).map(row).collect::<Vec<_>>());
            let found = study.findings.into_iter().find(|f| f.id == "generator-bound");
            found.map(|found| found.advice[0].clone()).unwrap_or_default()
        };
        assert_eq!(line(2), "also in: row 2");
        assert_eq!(line(3), "also in: row 2; row 3");
        assert_eq!(line(4), "also in: row 2; row 3; row 4");
        assert_eq!(line(9), "also in: row 2; row 3; and 6 more rows");
    }

    #[test]
    fn rows_of_one_name_are_named_once() {
        let mut bound = record();
        bound.jobs[0].busiest_thread_cpu_ns = bound.window_ns;
        let line = |labels: &[&str]| {
            let row = |label: &&str| Record { label: (*label).to_owned(), ..bound.clone() };
            let study = judge(&labels.iter().map(row).collect::<Vec<_>>());
            let found = study.findings.into_iter().find(|f| f.id == "generator-bound");
            found.map(|found| found.advice[0].clone()).unwrap_or_default()
        };
        assert_eq!(line(&["a", "a"]), "also in: another run of it");
        assert_eq!(line(&["a", "b", "a", "b", "a"]), "also in: b (2 runs); 2 more runs of it");
    }

    #[test]
    fn a_part_of_a_run_is_never_trusted() {
        let verdict = |records: &[Record], word| judge_stored(RunKind::Run, records, word).verdict;
        assert_eq!(verdict(&[record()], None), Verdict::Trusted);
        assert_eq!(verdict(&[record()], Some("partial")), Verdict::Doubtful);
        assert_eq!(verdict(&[], Some("partial")), Verdict::Void);
        assert_eq!(verdict(&[], None), Verdict::Void);
        let said = |kind, records: &[Record]| {
            let found = judge_stored(kind, records, Some("partial")).findings;
            found.into_iter().find(|f| f.id == "unfinished-run").map(|f| f.summary)
        };
        let two = [record(), record()];
        for (kind, what) in [
            (RunKind::Run, "2 trials are"),
            (RunKind::Watch, "2 stretches of its time are"),
            (RunKind::Replay, "2 results are"),
        ] {
            let text = format!("the run is partial: only {what} stored");
            assert_eq!(said(kind, &two), Some(text));
        }
        assert_eq!(said(RunKind::Watch, &[]).as_deref(), Some("nothing of it is stored"));
    }

    #[test]
    fn two_arrays_are_two_findings() {
        let mut record = record();
        for array in ["md0", "md1"] {
            record.findings.push(Finding::new(
                "md-degraded",
                Severity::Doubtful,
                format!("{array} is degraded"),
            ));
        }
        let mut later = record.clone();
        later.findings[0].summary += " by now";
        let twice = judge(&[record, later]);
        assert_eq!(twice.findings.iter().filter(|f| f.id == "md-degraded").count(), 2);
    }

    #[test]
    fn what_was_found_before_the_trial_counts_too() {
        let mut record = record();
        record.findings.push(Finding::new("md-busy", Severity::Doubtful, "md0 is checking itself"));
        assert_eq!(judge(&[record]).verdict, Verdict::Doubtful);
    }
}
