//! Rules about written blocks that were checked.

use fathom_base::units::format_size;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use fathom_model::workload::Verify;

/// Data is not what was written: no figure of such a storage is worth anything. One block is enough.
pub(crate) fn mismatch(record: &Record) -> Option<Finding> {
    let checks = || record.jobs.iter().filter_map(|job| job.verify.as_ref());
    let wrong: u64 = checks().map(|check| check.mismatches).sum();
    let first = checks().flat_map(|check| &check.first).next()?;
    let text = format!(
        "{wrong} block{} not hold what was written; the first: {first}",
        if wrong == 1 { " does" } else { "s do" }
    );
    Some(
        Finding::new("data-mismatch", Severity::Void, text)
            .advise("the storage, its driver, its cache or the memory has damaged or lost data: believe nothing on it")
            .advise("look at dmesg and at the health of the disks; test the memory; then narrow it down, layer by layer"),
    )
}

/// Less was checked than was asked for, or nothing at all.
pub(crate) fn not_verified(record: &Record) -> Option<Finding> {
    let (done, asked) = record.jobs.iter().zip(&record.workload.jobs).find(|(done, asked)| {
        asked.verify != Verify::None
            && done
                .verify
                .as_ref()
                .is_none_or(|v| v.is_partial || v.checked_bytes == 0 || v.unopened_files > 0)
    })?;
    let checked = done.verify.as_ref().map_or(0, |check| check.checked_bytes);
    let text = format!(
        "job {}: verify={} checked {}",
        asked.name,
        asked.verify.word(),
        if checked == 0 { "nothing".to_owned() } else { format!("{} only", format_size(checked)) }
    );
    let unopened = done.verify.as_ref().and_then(|check| check.unopened_first.as_ref());
    let text = match unopened {
        Some(first) => format!("{text}; what could not be opened says nothing: {first}"),
        None => text,
    };
    let cure = if unopened.is_some() {
        "fathom verify after --keep, as the owner of the files or as root, and with more descriptors (ulimit -n)"
    } else if asked.verify == Verify::During {
        "only what the job itself had written before it read it can be checked: a longer duration, or verify=after"
    } else {
        "the run ended early; run it again for the whole"
    };
    Some(Finding::new("not-verified", Severity::Doubtful, text).advise(cure))
}

/// Making blocks that can be checked, and checking them, takes time of the processor between the requests: about
/// 0.15 ns per byte and, for reads, as much again.
pub(crate) fn verified_load(record: &Record) -> Option<Finding> {
    let job = record.workload.jobs.iter().find(|job| job.verify != Verify::None)?;
    let text = format!(
        "job {}: verify={} makes{} every block between the requests, which costs processor time: fast storage shows \
         lower rates than without",
        job.name,
        job.verify.word(),
        if job.verify == Verify::During { " and checks" } else { "" }
    );
    Some(
        Finding::new("verified-load", Severity::Note, text)
            .advise("measure speed with verify=none"),
    )
}

/// The conditions are injected; the kernel tests provoke the real ones.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::record;
    use fathom_model::verification::{MismatchRecord, VerifyRecord};

    #[test]
    fn what_was_found_and_what_was_not_looked_at() {
        let mut record = record();
        assert_eq!(
            (mismatch(&record), not_verified(&record), verified_load(&record)),
            (None, None, None)
        );
        record.workload.jobs[0].verify = Verify::After;
        let said = not_verified(&record).map(|f| (f.severity, f.summary));
        assert!(said.is_some_and(|(s, text)| s == Severity::Doubtful && text.contains("nothing")));
        assert_eq!(verified_load(&record).map(|f| f.severity), Some(Severity::Note));
        let mut check = VerifyRecord { checked_bytes: 8192, ..VerifyRecord::default() };
        record.jobs[0].verify = Some(check.clone());
        assert_eq!((mismatch(&record), not_verified(&record)), (None, None));
        check.mismatches = 3;
        check.first.push(MismatchRecord {
            kind: "stale".into(),
            file: None,
            path: None,
            offset_bytes: 4096,
            length_bytes: 512,
            expected: "generation 2".into(),
            found: "generation 1".into(),
            blocks: 1,
        });
        let unopened_first = Some("d0000/f007: Too many open files (os error 24)".to_owned());
        record.jobs[0].verify =
            Some(VerifyRecord { unopened_files: 1, unopened_first, ..check.clone() });
        let unopened = not_verified(&record).map(|found| (found.summary, found.advice));
        let is_told = |(text, advice): (String, Vec<String>)| {
            text.contains("8 KiB only")
                && text.ends_with("(os error 24)")
                && advice[0].contains("ulimit")
        };
        assert!(unopened.is_some_and(is_told));
        record.jobs[0].verify = Some(VerifyRecord { is_partial: true, ..check });
        assert!(not_verified(&record).is_some_and(|f| f.summary.contains("8 KiB only")));
        let found = mismatch(&record).map(|f| (f.severity, f.summary));
        let text = "3 blocks do not hold what was written; the first: offset 4096, 512 bytes: expected generation 2; \
                    found generation 1";
        assert_eq!(found, Some((Severity::Void, text.to_owned())));
    }
}
