//! The settings of a command line on top of a workload's own: what ends a job, and what would have no effect.

use crate::keys::KeyError;
use crate::workload::{Access, Job, SyncRule, Workload};

/// Files that fathom makes by itself are not made larger than this for the sake of one pass.
const PASS_BYTES_MAX: u64 = 4 << 30;

/// What makes a setting count: a key, what a job must do for it, and the cure.
type Condition = (&'static str, fn(&Job) -> bool, &'static str);

const WRITES_NOTHING: &str = "it writes nothing; set write_fraction";

const OWN_SIZES: &str =
    "all that it asks for has sizes of its own; set write_block_size or trim_block_size";

const CONDITIONS: [Condition; 15] = [
    ("content", Job::writes_data, WRITES_NOTHING),
    (
        "overwrite",
        |job| job.writes_data() && job.access == Access::Sequential,
        "only writes in sequence begin with an empty file; set write_fraction=1 access=sequential",
    ),
    ("block_size", uses_block_size, OWN_SIZES),
    ("record_size", uses_block_size, OWN_SIZES),
    ("open_sync", Job::writes_data, WRITES_NOTHING),
    ("write_block_size", Job::writes_data, WRITES_NOTHING),
    ("fsync_every", syncs_writes, WRITES_NOTHING),
    ("fsync_fraction", syncs_writes, WRITES_NOTHING),
    ("sync_at_end", |job| job.writes() && job.sync_at_end.is_some(), WRITES_NOTHING),
    ("sync_all_every", |job| job.writes() && job.sync_all_every.is_some(), WRITES_NOTHING),
    (
        "names",
        |job| job.metadata.is_some(),
        "it moves data and is not about names; set metadata, or files for a number of test files",
    ),
    (
        "trim_block_size",
        |job| job.trim_fraction + job.zero_fraction > 0.0,
        "it neither trims nor zeroes; set trim_fraction or zero_fraction",
    ),
    (
        "sync_call",
        |job| {
            syncs_writes(job) || job.sync_all_every.is_some() || job.access == Access::Replication
        },
        "it is the call after writes, and no write is followed by one; set fsync_every or fsync_fraction (sync_at_end \
         names its own call)",
    ),
    (
        "log_block_size",
        |job| job.access == Access::Replication,
        "only access=replication has a log of its own; set that",
    ),
    (
        "drop_cache",
        |job| !job.direct && job.reads(),
        "it is about what buffered reads find in the page cache; set direct=no on a job that reads",
    ),
];

/// Keys that set the same thing, so that one would silently take the place of the other.
const RIVALS: [(&str, &str); 2] =
    [("block_size", "record_size"), ("fsync_every", "fsync_fraction")];

/// True where some of its requests have no size of their own.
fn uses_block_size(job: &Job) -> bool {
    let trims = job.trim_fraction + job.zero_fraction > 0.0;
    job.metadata.is_some()
        || job.reads()
        || job.writes_data() && job.write_block_size.is_empty()
        || trims && job.trim_block_size.is_empty()
}

fn syncs_writes(job: &Job) -> bool {
    job.writes_data() && job.sync != SyncRule::Never
}

impl Workload {
    /// Applies the `key=value` pairs of a command line, each to all jobs or as `job.key` to one.
    ///
    /// `operations` takes the place of the workload's own `amount`, and so does `duration`, unless an `amount` is given as well. Without the name
    /// of a job it is not for those of several phases that make one pass in sequence: later phases need what they write.
    ///
    /// # Errors
    /// [`KeyError`] for a key, a value or a job that does not exist, for a key that is given twice or beside one that
    /// sets the same, and for one that has no effect on any of its jobs.
    pub fn apply(&mut self, settings: &[(String, String)]) -> Result<(), KeyError> {
        check_distinct(settings)?;
        for (key, value) in settings {
            if key == "operations" && self.phases().len() > 1 {
                self.set_operations_of_phases(value)?;
            } else {
                self.set(key, value)?;
            }
        }
        // Only now are all sizes known.
        for (key, _) in settings.iter().filter(|(key, _)| name_of(key) == "operations") {
            if !settings.iter().any(|(key, _)| name_of(key) == "amount") {
                self.jobs.iter_mut().filter(|job| is_meant(key, job)).for_each(end_by_operations);
            }
        }
        for job in &mut self.jobs {
            let is_given = |name| {
                let mut keys = settings.iter().map(|(key, _)| key);
                keys.any(|key| name_of(key) == name && is_meant(key, job))
            };
            // The time ends it then: where the target is smaller it goes on at the beginning.
            if is_given("duration") && !is_given("amount") && !is_given("operations") {
                job.amount_bytes = None;
            }
        }
        self.check_effects(settings)
    }

    /// Each setting must change something for at least one of the jobs that it is for.
    ///
    /// # Errors
    /// [`KeyError::Value`] for the first that does not.
    pub(crate) fn check_effects(&self, settings: &[(String, String)]) -> Result<(), KeyError> {
        settings.iter().try_for_each(|(key, value)| self.check_effect(key, value))
    }

    fn set_operations_of_phases(&mut self, value: &str) -> Result<(), KeyError> {
        let Some(phase) = self.jobs.iter().find(|job| makes_its_pass(job)).map(|j| j.name.clone())
        else {
            return self.set("operations", value);
        };
        let mut others: Vec<&mut Job> =
            self.jobs.iter_mut().filter(|job| !makes_its_pass(job)).collect();
        if others.is_empty() {
            let reason = format!(
                "all phases make one pass in sequence, and each needs what the one before has written; name the one \
                 that is meant: '{phase}.operations={value}'"
            );
            return Err(refused("operations", value, reason));
        }
        others.iter_mut().try_for_each(|job| crate::keys::set(job, "operations", value))
    }

    fn check_effect(&self, key: &str, value: &str) -> Result<(), KeyError> {
        let Some((_, counts, why)) = CONDITIONS.iter().find(|(name, ..)| *name == name_of(key))
        else {
            return Ok(());
        };
        let mut meant = self.jobs.iter().filter(|job| is_meant(key, job));
        if turns_off(name_of(key), value) || meant.any(counts) {
            return Ok(());
        }
        let who = match self.jobs.as_slice() {
            [job] => format!("job '{}'", job.name),
            _ if key.contains('.') => "that job".to_owned(),
            _ => "any job".to_owned(),
        };
        Err(refused(key, value, format!("has no effect on {who}: {why}, or leave it out")))
    }
}

/// No key twice, and none beside one that sets the same.
///
/// # Errors
/// [`KeyError::Value`] for the first that is.
pub(crate) fn check_distinct(settings: &[(String, String)]) -> Result<(), KeyError> {
    for (index, (key, value)) in settings.iter().enumerate() {
        let mut before = settings[..index].iter();
        if let Some((_, other)) = before.clone().find(|(known, _)| known == key) {
            let reason = format!("it is given twice, first as {other}; leave out one of them");
            return Err(refused(key, value, reason));
        }
        if let Some((other, its_value)) = before.find(|(other, _)| are_rivals(key, other)) {
            let reason = format!("{other}={its_value} sets the same; leave out one of them");
            return Err(refused(key, value, reason));
        }
    }
    Ok(())
}

/// True for two keys that set the same thing of the same jobs.
fn are_rivals(a: &str, b: &str) -> bool {
    let same_jobs = a.strip_suffix(name_of(a)) == b.strip_suffix(name_of(b));
    let pair = (name_of(a), name_of(b));
    same_jobs && RIVALS.iter().any(|(x, y)| pair == (*x, *y) || pair == (*y, *x))
}

/// Values that ask for nothing, which is so whatever the job does.
fn turns_off(name: &str, value: &str) -> bool {
    match name {
        "open_sync" | "sync_at_end" => value == "none",
        "fsync_every" | "fsync_fraction" => value.trim_end_matches('%').parse() == Ok(0.0),
        "overwrite" => matches!(value, "no" | "false" | "0" | "off"),
        _ => false,
    }
}

fn refused(key: &str, value: &str, reason: String) -> KeyError {
    KeyError::Value { key: key.to_owned(), value: value.to_owned(), reason }
}

/// The key without the name of a job.
fn name_of(key: &str) -> &str {
    key.split_once('.').map_or(key, |(_, name)| name)
}

/// True when the setting is for this job.
fn is_meant(key: &str, job: &Job) -> bool {
    key.split_once('.').is_none_or(|(name, _)| name == job.name)
}

/// True for a phase in sequence that nothing else ends than its pass.
fn makes_its_pass(job: &Job) -> bool {
    let in_sequence = matches!(job.access, Access::Sequential | Access::Reverse);
    let is_open = job.duration_ns.is_none() && job.amount_bytes.is_none();
    job.metadata.is_some() || in_sequence && is_open
}

/// The workload's own amount must not end it earlier, and what its operations take makes the size of the file where that
/// is reasonable.
fn end_by_operations(job: &mut Job) {
    let (Some(operations), Some(_)) = (job.operations, job.amount_bytes) else { return };
    let bytes = operations.saturating_mul(u64::from(job.block_size_bytes_max()));
    let in_sequence = job.access == Access::Sequential && job.trim_fraction == 0.0;
    job.amount_bytes = (in_sequence && bytes <= PASS_BYTES_MAX).then_some(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::named;

    fn with(workload: &str, pairs: &[(&str, &str)]) -> Result<Workload, KeyError> {
        let mut workload = named(workload).expect("built in");
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        workload.apply(&pairs.iter().map(own).collect::<Vec<_>>())?;
        workload.check()?;
        Ok(workload)
    }

    #[test]
    fn operations_replace_the_amount_of_the_workload() {
        let ends = |pairs: &[(&str, &str)]| {
            let job = with("dd", pairs).expect("valid").jobs.remove(0);
            (job.operations, job.amount_bytes)
        };
        assert_eq!(ends(&[]), (None, Some(1 << 30)));
        assert_eq!(ends(&[("operations", "15000")]), (Some(15_000), Some(15_000 << 18)));
        // Whichever comes first on the command line.
        for pairs in [
            [("record_size", "8G"), ("operations", "1")],
            [("operations", "1"), ("record_size", "8G")],
        ] {
            assert_eq!(ends(&pairs), (Some(1), Some(2_147_479_552)), "{pairs:?}");
        }
        assert_eq!(
            ends(&[("operations", "1000000")]),
            (Some(1_000_000), None),
            "too much for a file"
        );
        assert_eq!(ends(&[("operations", "2"), ("amount", "1M")]), (Some(2), Some(1 << 20)));
    }

    #[test]
    fn a_duration_replaces_the_amount_of_the_workload() {
        let ends = |name: &str, pairs: &[(&str, &str)]| {
            let job = with(name, pairs).expect("valid").jobs.remove(0);
            (job.duration_ns, job.amount_bytes)
        };
        let (minute, gib) = (60_000_000_000, 1 << 30);
        assert_eq!(ends("seqread", &[]), (Some(minute), Some(10 * gib)));
        // Also one that is the workload's own.
        for name in ["seqread", "seqwrite", "dd", "sdd"] {
            assert_eq!(ends(name, &[("duration", "60s")]), (Some(minute), None), "{name}");
        }
        assert_eq!(ends("dd", &[("copy.duration", "1m")]), (Some(minute), None));
        for pairs in
            [[("duration", "1m"), ("amount", "2G")], [("amount", "2G"), ("duration", "1m")]]
        {
            assert_eq!(ends("dd", &pairs), (Some(minute), Some(2 * gib)), "{pairs:?}");
        }
        // What the operations take is the size of a file.
        let both = [("duration", "1m"), ("operations", "4")];
        assert_eq!(ends("dd", &both), (Some(minute), Some(1 << 20)));
        // Another job's time, or amount, is none of this one.
        let text = "name='x'\n[[job]]\nname='a'\namount='1M'\n[[job]]\nname='b'\namount='2M'";
        let amounts = |pairs: &[(&str, &str)]| {
            let mut workload = crate::builtin::parse("f", text).expect("valid").workload;
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            workload.apply(&pairs.iter().map(own).collect::<Vec<_>>()).expect("valid");
            workload.jobs.iter().map(|job| job.amount_bytes).collect::<Vec<_>>()
        };
        assert_eq!(amounts(&[("a.duration", "1s")]), [None, Some(2 << 20)]);
        assert_eq!(amounts(&[("duration", "1s"), ("b.amount", "4k")]), [None, Some(4096)]);
    }

    #[test]
    fn phases_in_sequence_keep_their_pass() {
        let operations = |name, pairs: &[(&str, &str)]| {
            let workload = with(name, pairs).expect("valid");
            workload.jobs.iter().map(|job| job.operations).collect::<Vec<_>>()
        };
        let ten = Some(10);
        assert_eq!(operations("tiobench", &[("operations", "10")]), [None, ten, None, ten]);
        assert_eq!(
            operations("iozone", &[("operations", "10")]),
            [None, None, None, None, ten, ten]
        );
        let bonnie = operations("bonnie", &[("operations", "10")]);
        assert_eq!(bonnie[..5], [None, None, None, ten, None], "files are counted by names=");
        // Nothing starts the files of sysbench, and a time ends each of its phases.
        assert_eq!(operations("sysbench-fileio", &[("operations", "10")]), [ten; 6]);
        assert_eq!(operations("bonnie", &[("write.operations", "10")])[0], ten);
        let mut two = named("iozone").expect("built in");
        two.keep_phases(&["write".into(), "rewrite".into()]).expect("known");
        let error = two.apply(&[("operations".into(), "9".into())]).expect_err("which").to_string();
        assert!(error.contains("'write.operations=9'"), "{error}");
    }

    #[test]
    fn settings_without_effect_are_refused() {
        for (workload, pairs) in [
            ("randread", &[("content", "zero")][..]),
            ("randread", &[("write_block_size", "4k")]),
            ("randread", &[("overwrite", "yes")]),
            ("randwrite", &[("overwrite", "yes")]),
            ("randwrite", &[("write_block_size", "4k"), ("block_size", "64k")]),
            ("seqwrite", &[("write_block_size", "4k"), ("record_size", "64k")]),
            ("randread", &[("open_sync", "dsync")]),
            ("randwrite", &[("trim_block_size", "4k")]),
            ("randwrite", &[("sync_call", "fdatasync")]),
            ("hdparm", &[("content", "zero")]),
            ("seeker", &[("log_block_size", "8k")]),
            ("seeker", &[("drop_cache", "no")]),
            ("seqwrite", &[("direct", "no"), ("drop_cache", "no")]),
            ("randread", &[("fsync_fraction", "0.1")]),
            // In either order: write_fraction=0 takes a workload's own syncs away.
            ("randwrite", &[("write_fraction", "0"), ("fsync_every", "8")]),
            ("seqwrite", &[("write_fraction", "0"), ("sync_at_end", "fsync")]),
            ("bonnie", &[("read.content", "zero")]),
            ("dd", &[("write_fraction", "0"), ("content", "zero")]),
        ] {
            let (key, value) = pairs.last().expect("a pair");
            let error = with(workload, pairs).expect_err(key).to_string();
            assert!(error.starts_with(&format!("{key}={value}: has no effect on")), "{error}");
        }
        for (workload, pairs) in [
            ("dd", &[("write_fraction", "0")][..]),
            ("randread", &[("content", "zero"), ("write_fraction", "1")]),
            ("randread", &[("trim_block_size", "4k"), ("trim_fraction", "0.1")]),
            (
                "randwrite",
                &[("write_fraction", "0.5"), ("write_block_size", "4k"), ("block_size", "8k")],
            ),
            ("seqwrite", &[("overwrite", "yes")]),
            ("commit", &[("sync_call", "fsync")]),
            ("replication", &[("sync_call", "fsync")]),
            ("sysbench-fileio", &[("sync_call", "fdatasync")]),
            ("hdparm", &[("drop_cache", "yes")]),
            ("dd", &[("write_fraction", "0"), ("sync_at_end", "none")]),
            ("randread", &[("fsync_every", "0"), ("open_sync", "none"), ("overwrite", "no")]),
            ("iozone", &[("open_sync", "sync")]),
            ("bonnie", &[("rewrite.content", "zero")]),
        ] {
            assert!(with(workload, pairs).is_ok(), "{workload} {pairs:?}");
        }
    }

    #[test]
    fn no_key_twice() {
        let twice = with("dd", &[("operations", "1"), ("direct", "no"), ("operations", "2")]);
        let error = twice.expect_err("twice").to_string();
        assert_eq!(error, "operations=2: it is given twice, first as 1; leave out one of them");
        assert!(with("bonnie", &[("threads", "2"), ("read.threads", "3")]).is_ok());
        let rivals = with("dd", &[("block_size", "4k"), ("record_size", "8G")]);
        let error = rivals.expect_err("one of them").to_string();
        assert_eq!(error, "record_size=8G: block_size=4k sets the same; leave out one of them");
        assert!(with("commit", &[("fsync_fraction", "0.1"), ("fsync_every", "8")]).is_err());
        assert!(with("iozone", &[("block_size", "4k"), ("read.record_size", "8k")]).is_ok());
    }
}
