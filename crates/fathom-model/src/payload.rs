//! What is written and whether it is checked: the words, and what excludes what.

use crate::pattern::Cursor;
use crate::workload::{Access, EngineKind, Job};
use fathom_base::content::Filler;
use serde::{Deserialize, Serialize};

/// What is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Incompressible, no two blocks alike, as far as the job does not ask for shares that can be saved.
    #[default]
    Random,
    /// Zero bytes: flatters everything that compresses or detects zeros.
    Zero,
    /// These bytes in hexadecimal digits, repeated from the start of the target.
    Pattern(String),
}

/// Whether and when written blocks are read back and compared with what must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Not at all.
    #[default]
    None,
    /// What the job itself reads, as it reads it.
    During,
    /// All that was written, when the window has ended.
    After,
    /// As `After`, and what was acknowledged by syncs is noted elsewhere while the job runs, so that it can be checked
    /// after a crash of the machine.
    Crash,
}

impl Verify {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::During => "during",
            Self::After => "after",
            Self::Crash => "crash",
        }
    }
}

/// What a storage can save of what a job wrote: found out after the run, by lz4 and by comparing, on a part of its
/// writes that was made again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DeliveredRecord {
    /// Share of the bytes that a compressor saves, 0..=1; duplicates are left out.
    pub compressible: f64,
    /// Share of the units that are copies of others, 0..=1.
    pub duplicate: f64,
    /// Units that were looked at.
    pub units: u64,
    /// Bytes of a unit.
    pub unit_bytes: u64,
}

/// Values of the key `verify`.
pub(crate) const VERIFY_WORDS: [(&str, Verify); 4] = [
    ("none", Verify::None),
    ("during", Verify::During),
    ("after", Verify::After),
    ("crash", Verify::Crash),
];

/// `random`, `zero` or `pattern:HEX`.
pub(crate) fn content(value: &str) -> Result<Content, String> {
    match value.split_once(':') {
        Some(("pattern", hex)) => {
            Filler::pattern(hex).map_err(|error| error.to_string())?;
            Ok(Content::Pattern(hex.to_owned()))
        }
        None if value == "random" => Ok(Content::Random),
        None if value == "zero" => Ok(Content::Zero),
        _ => Err("not a known content".into()),
    }
}

/// What excludes what in a job, with the cure.
pub(crate) fn contradiction(job: &Job) -> Option<String> {
    content_contradiction(job).or_else(|| verify_contradiction(job))
}

fn content_contradiction(job: &Job) -> Option<String> {
    let shares = [("compressible", job.compressible), ("duplicate", job.duplicate)];
    let (key, share) = shares.into_iter().find(|(_, share)| *share > 0.0)?;
    let setting = format!("{key}={}%", share * 100.0);
    if !job.writes_data() {
        return Some(format!("{setting} is about what is written, and it writes nothing"));
    }
    let fixed = match job.content {
        Content::Random => return None,
        Content::Zero => "zero",
        Content::Pattern(_) => "pattern",
    };
    Some(format!(
        "content={fixed} is what it is; leave out {setting}, or use content=random with it"
    ))
}

fn verify_contradiction(job: &Job) -> Option<String> {
    let word = job.verify.word();
    let refuse = |why: &str| Some(format!("verify={word}: {why}"));
    if job.verify == Verify::None {
        return None;
    }
    if !job.writes_data() {
        return refuse(
            "only what fathom itself has written can be checked, and it writes nothing; set write_fraction, or check \
             an earlier run with: fathom verify PATH",
        );
    }
    if job.engine == EngineKind::Null {
        return refuse(
            "with engine=null nothing is written that could be read back; use another engine",
        );
    }
    let others = [
        ("content=random", job.content != Content::Random),
        ("compressible=0", job.compressible > 0.0),
        ("duplicate=0", job.duplicate > 0.0),
    ];
    let cure: Vec<&str> =
        others.into_iter().filter(|(_, is_needed)| *is_needed).map(|(cure, _)| cure).collect();
    if !cure.is_empty() {
        return refuse(&format!(
            "its blocks have a content of their own, which tells what they are; use {} with it",
            cure.join(" and ")
        ));
    }
    if job.verify == Verify::During && !job.reads() {
        return refuse("it checks what the job reads, and it only writes; use verify=after");
    }
    if job.verify == Verify::Crash && !has_syncs(job) {
        return refuse(
            "without syncs nothing is ever acknowledged as safe; set fsync_every, fsync_fraction or open_sync",
        );
    }
    if job.verify == Verify::Crash && job.trim_fraction + job.zero_fraction > 0.0 {
        return refuse(
            "what was trimmed or zeroed in the last moments before a crash cannot be told from what was lost; leave out \
             trim_fraction and zero_fraction, or use verify=after",
        );
    }
    if job.cursor != Cursor::Thread || matches!(job.access, Access::Randomio | Access::Iozone) {
        return refuse(
            "each thread must write files, or a part of one, that are its own; use cursor=thread, and no \
             access=randomio or iozone",
        );
    }
    None
}

/// True when the job's writes become durable by its own doing.
fn has_syncs(job: &Job) -> bool {
    use crate::workload::{OpenSync, SyncCall, SyncRule};
    let has_calls = job.sync != SyncRule::Never || job.sync_all_every.is_some();
    let by_call = has_calls && job.sync_call != SyncCall::SyncFileRange;
    by_call || job.open_sync != OpenSync::None || job.access == Access::Replication
}

/// A job that checks what another one overwrites meanwhile. Whether two of them, by their places among the jobs, have the
/// same target, the caller knows: one may have several names.
#[must_use]
pub fn overlap(
    jobs: &[Job],
    is_same_target: impl Fn(usize, usize) -> bool,
) -> Option<(&Job, String)> {
    let meets = |a: usize, b: usize| {
        let (job, other) = (&jobs[a], &jobs[b]);
        // Each log has a file of its own, and phases come one after the other.
        let is_apart = job.access == Access::Append || other.access == Access::Append;
        let writes_beside = a != b && job.phase == other.phase && other.writes() && !is_apart;
        writes_beside && is_same_target(a, b)
    };
    let checked = (0..jobs.len()).filter(|&a| jobs[a].verify != Verify::None);
    checked
        .flat_map(|a| (0..jobs.len()).map(move |b| (a, b)))
        .find(|&(a, b)| meets(a, b))
        .map(|(a, b)| {
            let (job, other) = (&jobs[a], &jobs[b]);
            let reason = format!(
                "verify={}: job '{}' writes the same target at the same time; give each a target of its own",
                job.verify.word(),
                other.name
            );
            (job, reason)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::workload::Workload;

    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut job = Job { duration_ns: Some(1), write_fraction: 1.0, ..Job::default() };
        pairs.iter().for_each(|(key, value)| keys::set(&mut job, key, value).expect(key));
        job
    }

    /// What the workload brings along is not typed, so it cannot be left out: what helps is another value.
    #[test]
    fn what_is_advised_for_verified_blocks_helps() {
        for others in
            [&["content"][..], &["content", "compressible"], &["duplicate", "compressible"]]
        {
            let values = [("content", "zero"), ("compressible", "0.5"), ("duplicate", "0.5")];
            let given = values.iter().copied().filter(|(key, _)| others.contains(key));
            let pairs: Vec<_> = given.chain([("verify", "after")]).collect();
            let said = verify_contradiction(&job(&pairs)).expect("refused");
            let advice = said.split("use ").nth(1).and_then(|s| s.strip_suffix(" with it"));
            let advice: Vec<_> = advice.expect("advice").split(" and ").collect();
            assert_eq!(advice.len(), others.len(), "{said}");
            let mended: Vec<_> = advice.iter().filter_map(|pair| pair.split_once('=')).collect();
            assert_eq!(verify_contradiction(&job(&[&pairs[..], &mended].concat())), None, "{said}");
        }
    }

    #[test]
    fn what_excludes_what() {
        let refused: [&[(&str, &str)]; 13] = [
            &[("compressible", "0.5"), ("content", "zero")],
            &[("duplicate", "0.5"), ("content", "pattern:ff")],
            &[("compressible", "0.5"), ("write_fraction", "0")],
            &[("verify", "after"), ("write_fraction", "0")],
            &[("verify", "after"), ("engine", "null")],
            &[("verify", "after"), ("content", "zero")],
            &[("verify", "after"), ("duplicate", "0.1")],
            &[("verify", "during")],
            &[("verify", "crash")],
            &[("verify", "crash"), ("fsync_every", "1"), ("trim_fraction", "0.1")],
            &[("verify", "crash"), ("fsync_every", "1"), ("zero_fraction", "0.1")],
            &[("verify", "after"), ("cursor", "job"), ("access", "sequential")],
            &[("verify", "crash"), ("fsync_every", "1"), ("sync_call", "sync_file_range")],
        ];
        for pairs in refused {
            assert!(contradiction(&job(pairs)).is_some(), "{pairs:?}");
        }
        let fine: [&[(&str, &str)]; 9] = [
            &[("compressible", "50%"), ("duplicate", "0.3")],
            &[("content", "pattern:deadbeef")],
            &[("verify", "after")],
            &[("verify", "during"), ("write_fraction", "0.5")],
            &[("verify", "crash"), ("fsync_every", "1"), ("files", "100")],
            &[("verify", "crash"), ("sync_all_every", "100"), ("files", "100")],
            &[("verify", "crash"), ("open_sync", "dsync")],
            &[("verify", "after"), ("files", "2"), ("file_choice", "random")],
            &[("verify", "after"), ("trim_fraction", "0.1"), ("zero_fraction", "0.1")],
        ];
        for pairs in fine {
            assert_eq!(contradiction(&job(pairs)), None, "{pairs:?}");
        }
    }

    #[test]
    fn a_job_does_not_check_what_another_one_writes() {
        let named = |name: &str, pairs: &[(&str, &str)]| Job { name: name.into(), ..job(pairs) };
        let check = |other: Job| {
            let jobs = vec![named("checked", &[("verify", "after")]), other];
            let (name, title, description) = ("w".into(), String::new(), String::new());
            Workload { name, title, description, classic: None, jobs, tracked: Vec::new() }.check()
        };
        let error = check(named("other", &[])).expect_err("both write").to_string();
        assert!(error.contains("'checked'") && error.contains("'other'"), "{error}");
        for pairs in
            [&[("write_fraction", "0")][..], &[("target", "/elsewhere")], &[("access", "append")]]
        {
            assert_eq!(check(named("other", pairs)), Ok(()), "{pairs:?}");
        }
    }
}
