//! Trials that were measured long after the others of their block: void ones that are made up for when an experiment is taken up again.

use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use std::collections::BTreeMap;

/// Trials that began after one of a later block had. With a `drift` that is no chance they are compared with what is not their like.
#[must_use]
pub fn finding(records: &[&Record], has_drift: bool) -> Option<Finding> {
    let starts: Vec<(u32, i64)> = records
        .iter()
        .filter_map(|record| Some((record.cell.as_ref()?.slot.block, record.started_unix_ns)))
        .collect();
    let mut begins: BTreeMap<u32, i64> = BTreeMap::new();
    for (block, start) in &starts {
        let begin = begins.entry(*block).or_insert(*start);
        *begin = (*begin).min(*start);
    }
    let is_late =
        |(block, start): &&(u32, i64)| begins.range(block + 1..).any(|(_, begin)| begin < start);
    let late: Vec<&(u32, i64)> = starts.iter().filter(is_late).collect();
    let (first, _) = late.first()?;
    let are = if late.len() == 1 { "1 trial was" } else { &format!("{} trials were", late.len()) };
    let text = format!(
        "{are} measured when later blocks had begun, the first one of block {}: what changed meanwhile is in what is compared within it",
        first + 1
    );
    let severity = if has_drift { Severity::Doubtful } else { Severity::Note };
    Some(
        Finding::new("late-trials", severity, text)
            .advise("that is so after an experiment was taken up again, where void trials are made up for; with many of them begin anew with --new"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::Sample;

    #[test]
    fn trials_behind_their_block_are_told() {
        let mut sample = Sample::new(&[("x", &["a", "b"])], 6, |_, _| 1000.0);
        let found = |sample: &Sample, has_drift| {
            let records: Vec<&Record> = sample.records.iter().collect();
            finding(&records, has_drift).map(|found| (found.severity, found.summary))
        };
        assert_eq!(found(&sample, true), None);
        // The second of the second block, made up for at the end.
        sample.records[3].started_unix_ns = sample.records[11].started_unix_ns + 1;
        let (severity, told) = found(&sample, false).expect("late");
        assert!(
            told.starts_with(
                "1 trial was measured when later blocks had begun, the first one of block 2"
            ),
            "{told}"
        );
        assert_eq!(severity, Severity::Note);
        assert_eq!(found(&sample, true).map(|found| found.0), Some(Severity::Doubtful));
    }
}
