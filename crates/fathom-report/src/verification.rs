//! What a job wrote, and what checking its blocks came to, in words.

use fathom_base::units::{format_count, format_ns, format_size};
use fathom_model::record::JobRecord;
use fathom_model::verification::{ReadBackWay, VerifyRecord};
use fathom_model::workload::{Content, Job, Verify};

/// Mismatches that are shown; the record has more.
pub const SHOWN: usize = 10;

/// The lines about one check: how much, how, what is wrong.
#[must_use]
pub fn lines(check: &VerifyRecord) -> Vec<String> {
    let way = check.read_back.map_or("as the job read it", ReadBackWay::text);
    let took = match check.read_back {
        Some(_) => format!(" in {}", format_ns(check.read_back_ns)),
        None => String::new(),
    };
    let partial = if check.is_partial { "; NOT ALL of it: cut short" } else { "" };
    let result = match check.mismatches {
        0 if check.checked_bytes == 0 => "NOTHING could be checked".to_owned(),
        0 => "all as written".to_owned(),
        1 => "1 block WRONG".to_owned(),
        n => format!("{n} blocks WRONG"),
    };
    let is_nothing = check.checked_bytes == 0 && check.mismatches == 0;
    let checked = format!("{} {way}{took}: ", format_size(check.checked_bytes));
    let mut head = format!("{result}{partial}");
    if !is_nothing {
        head.insert_str(0, &checked);
    }
    let unopened = check.unopened_first.as_ref().map(|first| {
        let count = check.unopened_files;
        if count == 1 {
            return format!("1 file is NOT checked, since fathom could not open it: {first}");
        }
        format!(
            "{count} files are NOT checked, since fathom could not open them; the first: {first}"
        )
    });
    let mut skipped = (check.skipped_bytes > 0).then(|| {
        let bytes = format_size(check.skipped_bytes);
        format!(
            "{bytes} not checked: trimmed, read while it was written, not covered by a sync before a crash, or left \
             open by a write that failed or was overtaken by thousands"
        )
    });
    if is_nothing && unopened.is_none() {
        // One sentence: what was looked at without anything to hold it against is all that there is.
        head.extend(skipped.take().map(|skipped| format!("; {skipped}")));
    }
    let wrong = check.first.iter().take(SHOWN).map(ToString::to_string);
    let shown: u64 = check.first.iter().take(SHOWN).map(|wrong| wrong.blocks).sum();
    let more = (check.mismatches > shown).then(|| format!("({} more)", check.mismatches - shown));
    std::iter::once(head).chain(unopened).chain(skipped).chain(wrong).chain(more).collect()
}

/// The lines of a job, where something was checked.
pub(crate) fn of_job(job: &JobRecord) -> Vec<String> {
    job.verify.as_ref().map(lines).unwrap_or_default()
}

/// What a storage can save of what a job wrote, beside what was asked for.
pub(crate) fn delivered(job: &JobRecord, asked: &Job) -> Option<String> {
    let delivered = job.delivered?;
    let of_share = |what: &str, asked: f64, delivered: f64| {
        (asked > 0.0).then(|| {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            format!("{} {what} asked for, {} delivered", percent(asked), percent(delivered))
        })
    };
    let shares = [
        of_share("compressible", asked.compressible, delivered.compressible),
        of_share("duplicates", asked.duplicate, delivered.duplicate),
    ];
    let shares: Vec<String> = shares.into_iter().flatten().collect();
    Some(format!(
        "{}; by lz4 and comparison of {} units of {} that it wrote, made again after the run",
        shares.join("; "),
        format_count(delivered.units),
        format_size(delivered.unit_bytes)
    ))
}

/// What a job writes and whether that is checked, where it is not the default.
pub(crate) fn asked(job: &Job) -> Vec<String> {
    let mut parts = Vec::new();
    if !job.writes_data() {
        return parts;
    }
    match &job.content {
        Content::Random => {}
        Content::Zero => parts.push("zero bytes".into()),
        Content::Pattern(hex) => parts.push(format!("pattern {hex}")),
    }
    let percent = |share: f64| format!("{} %", (share * 1e4).round() / 100.0);
    if job.compressible > 0.0 {
        parts.push(format!("{} compressible", percent(job.compressible)));
    }
    if job.duplicate > 0.0 {
        parts.push(format!("{} duplicates", percent(job.duplicate)));
    }
    if job.verify != Verify::None {
        parts.push(format!("verified ({})", job.verify.word()));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;
    use fathom_model::payload::DeliveredRecord;
    use fathom_model::verification::MismatchRecord;

    #[test]
    fn mismatches_are_listed_and_counted() {
        let wrong = |offset_bytes| MismatchRecord {
            kind: "zeros".into(),
            file: None,
            path: None,
            offset_bytes,
            length_bytes: 4096,
            expected: "generation 7".into(),
            found: "zeros: never written, discarded or lost".into(),
            blocks: 1,
        };
        let mut check = VerifyRecord {
            checked_bytes: 1 << 20,
            skipped_bytes: 0,
            mismatches: 12,
            first: (0..12).map(|i| wrong(i * 4096)).collect(),
            read_back: Some(ReadBackWay::Direct),
            read_back_ns: 2_000_000,
            ..VerifyRecord::default()
        };
        let shown = lines(&check);
        assert_eq!(
            shown[0],
            "1 MiB read back directly, past the page cache in 2.0 ms: 12 blocks WRONG"
        );
        assert_eq!(
            shown[2],
            "offset 4096, 4096 bytes: expected generation 7; found zeros: never written, discarded or lost"
        );
        assert_eq!((shown.len(), shown[11].as_str()), (12, "(2 more)"));
        check.first[0].blocks = 3;
        assert_eq!(lines(&check).len(), 11, "all are told");
        check.first[0].blocks = 1;
        (check.first[0].file, check.first[0].path) = (Some(7), Some("d0000/f007".into()));
        check.skipped_bytes = 3 << 20;
        let shown = lines(&check);
        let skipped = "3 MiB not checked: trimmed, read while it was written, not covered by a sync before a crash, \
             or left open by a write that failed or was overtaken by thousands";
        assert_eq!((shown.len(), shown[1].as_str()), (13, skipped));
        assert!(shown[2].starts_with("file 7 (d0000/f007), offset 0, 4096 bytes: expected"));
        (check.mismatches, check.is_partial, check.read_back) = (0, true, None);
        check.skipped_bytes = 0;
        check.first.clear();
        assert_eq!(
            lines(&check),
            ["1 MiB as the job read it: all as written; NOT ALL of it: cut short"]
        );
        (check.checked_bytes, check.is_partial) = (0, false);
        check.unopened_files = 2;
        check.unopened_first = Some("d0000/f007: Permission denied (os error 13)".into());
        let unopened = "2 files are NOT checked, since fathom could not open them; the first: d0000/f007: Permission denied (os error 13)";
        assert_eq!(lines(&check)[1], unopened);
        check.unopened_files = 1;
        let unopened = "1 file is NOT checked, since fathom could not open it: d0000/f007: Permission denied (os error 13)";
        assert_eq!(lines(&check)[1], unopened);
        (check.unopened_files, check.unopened_first) = (0, None);
        assert_eq!(lines(&check), ["NOTHING could be checked"]);
        (check.skipped_bytes, check.read_back) = (3 << 20, Some(ReadBackWay::Direct));
        assert_eq!(lines(&check), [format!("NOTHING could be checked; {skipped}")]);
    }

    #[test]
    fn delivered_shares_stand_beside_those_asked_for() {
        let mut record = crate::sample::job("write");
        let mut asked = Job { compressible: 0.5, ..Job::default() };
        assert_eq!(delivered(&record, &asked), None);
        record.delivered = Some(DeliveredRecord {
            compressible: 0.5078,
            duplicate: 0.2996,
            units: 2048,
            unit_bytes: 4096,
        });
        let how =
            "by lz4 and comparison of 2 048 units of 4 KiB that it wrote, made again after the run";
        let first = "50.0 % compressible asked for, 50.8 % delivered";
        assert_eq!(delivered(&record, &asked), Some(format!("{first}; {how}")));
        asked.duplicate = 0.3;
        let second = "30.0 % duplicates asked for, 30.0 % delivered";
        assert_eq!(delivered(&record, &asked), Some(format!("{first}; {second}; {how}")));
    }

    #[test]
    fn what_was_asked_is_said() {
        let mut job = Job { write_fraction: 1.0, ..Job::default() };
        assert!(asked(&job).is_empty());
        for (key, value) in [("compressible", "33.3%"), ("duplicate", "0.3"), ("verify", "after")] {
            keys::set(&mut job, key, value).expect(key);
        }
        assert_eq!(asked(&job), ["33.3 % compressible", "30 % duplicates", "verified (after)"]);
        keys::set(&mut job, "content", "pattern:00ff").expect("valid");
        assert_eq!(asked(&job)[0], "pattern 00ff");
    }
}
