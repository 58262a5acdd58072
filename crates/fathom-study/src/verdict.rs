//! From the records of a run to its findings and its verdict.

use crate::rules;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::record::Record;

/// What a run's records come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Study {
    /// Every finding once, the gravest first.
    pub findings: Vec<Finding>,
    /// Whether the figures can be believed.
    pub verdict: Verdict,
}

/// Judges one or more records of a run together.
#[must_use]
pub fn judge(records: &[Record]) -> Study {
    let mut findings: Vec<Finding> = Vec::new();
    for record in records {
        for finding in record.findings.iter().cloned().chain(rules::all(record)) {
            add(&mut findings, finding, (records.len() > 1).then_some(record.label.as_str()));
        }
    }
    findings.extend(rules::short_windows(records));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    Study { findings, verdict }
}

/// A finding of several rows is said once: the first row's text, and in which rows it was seen.
fn add(findings: &mut Vec<Finding>, mut finding: Finding, label: Option<&str>) {
    let rule_of_row = rules::is_about_one_row(&finding.id);
    // The same rule on two arrays or files says two things, on two rows one. What it is about is the first word; the
    // rest may change from row to row (how far a check has come).
    let subject = |f: &Finding| f.summary.split(' ').next().unwrap_or_default().to_owned();
    let is_same =
        |f: &&mut Finding| f.id == finding.id && (rule_of_row || subject(f) == subject(&finding));
    if let Some(known) = findings.iter_mut().find(is_same) {
        known.severity = known.severity.max(finding.severity);
        if let Some(label) = label.filter(|_| rule_of_row) {
            known.advice.insert(0, format!("also in: {label}"));
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
    use fathom_model::finding::Severity;

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
