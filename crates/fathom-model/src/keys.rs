//! The words that set a job: one table for workload files, `key=value` arguments and help.

use crate::workload::{
    Access, Content, EngineKind, Extent, IoPriority, Job, OpenSync, SyncCall, SyncRule,
    WeightedSize,
};
use fathom_base::suggest;
use fathom_base::units::{self, UnitError};
use thiserror::Error;

/// A setting that was refused; the text names key, value, reason and cure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No such key.
    #[error("unknown key '{key}'{hint}; known keys: {known}")]
    Unknown {
        /// What was typed.
        key: String,
        /// `; did you mean ...` or empty.
        hint: String,
        /// All keys.
        known: String,
    },
    /// `job.key` with no such job.
    #[error("the workload has no job '{job}'{hint}; it has {known}")]
    UnknownJob {
        /// What was typed.
        job: String,
        /// `; did you mean ...` or empty.
        hint: String,
        /// The jobs.
        known: String,
    },
    /// A value that the key does not take.
    #[error("{key}={value}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What was typed.
        value: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// Settings that exclude each other.
    #[error("job '{job}': {reason}")]
    Contradiction {
        /// The job's name.
        job: String,
        /// What contradicts what, and the cure.
        reason: String,
    },
}

/// One key: its name, what it takes, what it means, how it is set.
pub struct Key {
    /// The word.
    pub name: &'static str,
    /// The form of its values.
    pub values: &'static str,
    /// One line of help.
    pub help: &'static str,
    set: fn(&mut Job, &str) -> Result<(), String>,
}

/// All keys, in the order of the help text.
pub const KEYS: &[Key] = &[
    Key {
        name: "access",
        values: "random|sequential|append|replication",
        help: "how offsets follow each other",
        set: set_access,
    },
    Key {
        name: "block_size",
        values: "SIZE or SIZE:WEIGHT,...",
        help: "size of requests, or several with their weights",
        set: set_block_size,
    },
    Key {
        name: "write_fraction",
        values: "0..1 or %",
        help: "share of requests that write",
        set: set_write_fraction,
    },
    Key {
        name: "threads",
        values: "N",
        help: "threads, each with its own ring",
        set: |j, v| count(v, 1, 65_536).map(|x| j.threads = x),
    },
    Key {
        name: "depth",
        values: "N",
        help: "requests that each thread keeps in flight",
        set: |j, v| count(v, 1, 32_768).map(|x| j.depth = x),
    },
    Key {
        name: "batch",
        values: "N",
        help: "completions to wait for before reaping (1 = reap at once)",
        set: |j, v| count(v, 1, 32_768).map(|x| j.batch = x),
    },
    Key {
        name: "engine",
        values: "io_uring|psync|null",
        help: "how requests reach the kernel",
        set: set_engine,
    },
    Key {
        name: "direct",
        values: "yes|no",
        help: "past the page cache (O_DIRECT)",
        set: |j, v| yes_no(v).map(|x| j.direct = x),
    },
    Key {
        name: "open_sync",
        values: "none|dsync|sync",
        help: "open with O_DSYNC or O_SYNC",
        set: set_open_sync,
    },
    Key {
        name: "fsync_fraction",
        values: "0..1 or %",
        help: "share of writes that are followed by a sync",
        set: |j, v| fraction(v).map(|x| j.sync = rule(x)),
    },
    Key {
        name: "fsync_every",
        values: "N",
        help: "sync after every N-th write of a thread (0 = never)",
        set: set_every,
    },
    Key {
        name: "sync_call",
        values: "fsync|fdatasync",
        help: "which call makes writes durable",
        set: |j, v| sync_call(v).map(|x| j.sync_call = x),
    },
    Key {
        name: "sync_at_end",
        values: "none|fsync|fdatasync",
        help: "a last sync inside the measured time",
        set: set_sync_at_end,
    },
    Key {
        name: "log_block_size",
        values: "SIZE",
        help: "log record of access=replication",
        set: |j, v| request_size(v).map(|x| j.log_block_size_bytes = x),
    },
    Key {
        name: "align",
        values: "SIZE",
        help: "offsets are multiples of this (default: the smallest request)",
        set: |j, v| positive_size(v).map(|x| j.align_bytes = Some(x)),
    },
    Key {
        name: "offset",
        values: "SIZE or %",
        help: "where the range starts",
        set: |j, v| extent(v).map(|x| j.offset = x),
    },
    Key {
        name: "span",
        values: "SIZE or %",
        help: "how much of the target the range covers",
        set: |j, v| extent(v).map(|x| j.span = Some(x)),
    },
    Key {
        name: "size",
        values: "SIZE",
        help: "size of the test file that fathom makes",
        set: |j, v| positive_size(v).map(|x| j.size_bytes = Some(x)),
    },
    Key { name: "content", values: "random|zero", help: "what is written", set: set_content },
    Key {
        name: "duration",
        values: "60s, 2m, ...",
        help: "length of the measured window",
        set: |j, v| duration(v).map(|x| j.duration_ns = Some(x)),
    },
    Key {
        name: "warmup",
        values: "5s, ...",
        help: "time before the window, not counted",
        set: |j, v| units::parse_duration_ns(v).map_err(text).map(|x| j.warmup_ns = x),
    },
    Key {
        name: "amount",
        values: "SIZE",
        help: "end after this many bytes",
        set: |j, v| positive_size(v).map(|x| j.amount_bytes = Some(x)),
    },
    Key {
        name: "operations",
        values: "N",
        help: "end after this many requests",
        set: |j, v| count(v, 1, u64::MAX).map(|x| j.operations = Some(x)),
    },
    Key {
        name: "io_priority",
        values: "inherit|be/0..7|idle",
        help: "I/O scheduling class and level",
        set: set_io_priority,
    },
    Key {
        name: "cpus",
        values: "0,2-3",
        help: "CPUs that threads are bound to in turn",
        set: set_cpus,
    },
    Key {
        name: "target",
        values: "PATH",
        help: "this job's own target",
        set: |j, v| {
            j.target = Some(v.to_owned());
            Ok(())
        },
    },
];

/// Sets one key of one job.
///
/// # Errors
/// [`KeyError`] for an unknown key (with the nearest known one) or a value it does not take.
pub fn set(job: &mut Job, key: &str, value: &str) -> Result<(), KeyError> {
    let Some(entry) = KEYS.iter().find(|k| k.name == key) else {
        let names = || KEYS.iter().map(|k| k.name);
        return Err(KeyError::Unknown {
            key: key.to_owned(),
            hint: suggest::hint(key, names()),
            known: names().collect::<Vec<_>>().join(", "),
        });
    };
    (entry.set)(job, value).map_err(|reason| KeyError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: format!("{reason} (takes {})", entry.values),
    })
}

fn text(error: UnitError) -> String {
    error.to_string()
}

fn fraction(value: &str) -> Result<f64, String> {
    units::parse_fraction(value).map_err(text)
}

fn rule(share: f64) -> SyncRule {
    if share > 0.0 { SyncRule::Fraction(share) } else { SyncRule::Never }
}

fn count<T: TryFrom<u64>>(value: &str, min: u64, max: u64) -> Result<T, String> {
    let number = units::parse_count(value).map_err(text)?;
    let refused = || format!("must be between {min} and {max}");
    if !(min..=max).contains(&number) {
        return Err(refused());
    }
    T::try_from(number).map_err(|_| refused())
}

fn positive_size(value: &str) -> Result<u64, String> {
    match units::parse_size(value).map_err(text)? {
        0 => Err("must be larger than 0".into()),
        bytes => Ok(bytes),
    }
}

/// A request size: up to what one call moves on Linux, rounded down to a page.
fn request_size(value: &str) -> Result<u32, String> {
    let bytes = positive_size(value)?;
    u32::try_from(bytes).ok().filter(|b| *b <= 0x7fff_f000).ok_or_else(|| {
        "one call moves at most 2147479552 bytes (0x7ffff000); use a smaller size".into()
    })
}

fn duration(value: &str) -> Result<u64, String> {
    match units::parse_duration_ns(value).map_err(text)? {
        0 => Err("must be longer than 0".into()),
        ns => Ok(ns),
    }
}

fn extent(value: &str) -> Result<Extent, String> {
    if value.trim_end().ends_with('%') {
        fraction(value).map(Extent::Share)
    } else {
        units::parse_size(value).map(Extent::Bytes).map_err(text)
    }
}

fn yes_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" | "1" | "on" => Ok(true),
        "no" | "false" | "0" | "off" => Ok(false),
        _ => Err("neither yes nor no".into()),
    }
}

fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(word, _)| *word == value).map(|(_, v)| *v).ok_or_else(|| {
        format!("not a known word{}", suggest::hint(value, known.iter().map(|(word, _)| *word)))
    })
}

fn sync_call(value: &str) -> Result<SyncCall, String> {
    one_of(value, &[("fsync", SyncCall::Fsync), ("fdatasync", SyncCall::Fdatasync)])
}

/// Nothing to write leaves nothing to sync: a workload's own sync settings go with its writes.
fn set_write_fraction(job: &mut Job, value: &str) -> Result<(), String> {
    job.write_fraction = fraction(value)?;
    if job.write_fraction == 0.0 {
        (job.sync, job.sync_at_end) = (SyncRule::Never, None);
    }
    Ok(())
}

fn set_access(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [
        ("random", Access::Random),
        ("sequential", Access::Sequential),
        ("append", Access::Append),
        ("replication", Access::Replication),
    ];
    one_of(value, &known).map(|x| job.access = x)
}

fn set_engine(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [
        ("io_uring", EngineKind::IoUring),
        ("psync", EngineKind::Psync),
        ("null", EngineKind::Null),
    ];
    one_of(value, &known).map(|x| job.engine = x)
}

fn set_open_sync(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [("none", OpenSync::None), ("dsync", OpenSync::Dsync), ("sync", OpenSync::Sync)];
    one_of(value, &known).map(|x| job.open_sync = x)
}

fn set_content(job: &mut Job, value: &str) -> Result<(), String> {
    one_of(value, &[("random", Content::Random), ("zero", Content::Zero)]).map(|x| job.content = x)
}

fn set_every(job: &mut Job, value: &str) -> Result<(), String> {
    let n: u32 = count(value, 0, u64::from(u32::MAX))?;
    job.sync = if n == 0 { SyncRule::Never } else { SyncRule::Every(n) };
    Ok(())
}

fn set_sync_at_end(job: &mut Job, value: &str) -> Result<(), String> {
    job.sync_at_end = if value == "none" { None } else { Some(sync_call(value)?) };
    Ok(())
}

fn set_io_priority(job: &mut Job, value: &str) -> Result<(), String> {
    job.io_priority = match value.split_once('/') {
        None if value == "inherit" => IoPriority::Inherit,
        None if value == "idle" => IoPriority::Idle,
        None if value == "be" => IoPriority::BestEffort(4),
        Some(("be", level)) => IoPriority::BestEffort(count(level, 0, 7)?),
        _ => return Err("not a class that can be set".into()),
    };
    Ok(())
}

fn set_cpus(job: &mut Job, value: &str) -> Result<(), String> {
    let mut cpus = Vec::new();
    for part in value.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (count(first, 0, 8191)?, count(last, 0, 8191)?);
        if first > last {
            return Err(format!("the range {part} runs backwards"));
        }
        cpus.extend(first..=last);
    }
    job.cpus = cpus;
    Ok(())
}

fn set_block_size(job: &mut Job, value: &str) -> Result<(), String> {
    let mut sizes = Vec::new();
    for part in value.split(',') {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        let weight: f64 = weight
            .trim_end_matches('%')
            .parse()
            .ok()
            .filter(|w| *w > 0.0 && *w <= 1e9)
            .ok_or_else(|| format!("the weight in '{part}' must be a number above 0"))?;
        sizes.push(WeightedSize { size_bytes: request_size(size)?, weight });
    }
    job.block_size = sizes;
    Ok(())
}

/// Checks what only the whole job can tell, before a target is known.
///
/// # Errors
/// [`KeyError::Contradiction`] names the settings and the cure.
pub fn check(job: &Job) -> Result<(), KeyError> {
    let refuse = |reason: String| Err(KeyError::Contradiction { job: job.name.clone(), reason });
    if job.duration_ns.is_none() && job.amount_bytes.is_none() && job.operations.is_none() {
        return refuse("nothing ends it; give duration=60s, amount=1G or operations=100000".into());
    }
    if job.engine == EngineKind::Psync && job.depth > 1 {
        return refuse(format!(
            "engine=psync has one request in flight per thread, depth={} cannot be honoured; use threads={} or engine=io_uring",
            job.depth,
            job.concurrency()
        ));
    }
    if job.batch > job.depth {
        return refuse(format!(
            "batch={} completions cannot come from depth={} requests",
            job.batch, job.depth
        ));
    }
    if !job.writes() && (job.sync != SyncRule::Never || job.sync_at_end.is_some()) {
        return refuse(
            "it asks for syncs but writes nothing; set write_fraction or drop the sync".into(),
        );
    }
    if job.access == Access::Replication && (job.threads, job.depth) != (1, 1) {
        return refuse("access=replication is one thread with one request at a time; leave threads and depth at 1".into());
    }
    if job.access == Access::Append && (job.threads, job.depth) != (1, 1) {
        return refuse(
            "access=append is one writer with one request at a time; leave threads and depth at 1"
                .into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_all(pairs: &[(&str, &str)]) -> Result<Job, KeyError> {
        let mut job = Job { duration_ns: Some(1), ..Job::default() };
        for (key, value) in pairs {
            set(&mut job, key, value)?;
        }
        check(&job).map(|()| job)
    }

    #[test]
    fn every_key_takes_a_good_value_and_refuses_a_bad_one() {
        let samples = [
            ("access", "sequential", "sideways"),
            ("block_size", "4k:40,8k:60", "0"),
            ("write_fraction", "20%", "2"),
            ("threads", "8", "0"),
            ("depth", "32", "-1"),
            ("batch", "4", "x"),
            ("engine", "psync", "libfoo"),
            ("direct", "no", "maybe"),
            ("open_sync", "dsync", "hard"),
            ("fsync_fraction", "0.1", "1.1"),
            ("fsync_every", "100", "1.5"),
            ("sync_call", "fdatasync", "sync"),
            ("sync_at_end", "fsync", "x"),
            ("log_block_size", "512", "3G"),
            ("align", "64k", "0"),
            ("offset", "50%", "120%"),
            ("span", "1G", "q"),
            ("size", "1G", "0"),
            ("content", "zero", "ones"),
            ("duration", "60s", "60"),
            ("warmup", "5s", "-5s"),
            ("amount", "1G", "1Q"),
            ("operations", "10", "0"),
            ("io_priority", "be/7", "rt/0"),
            ("cpus", "0,2-3", "3-1"),
            ("target", "/tmp", ""),
        ];
        for key in KEYS {
            let Some((_, good, bad)) = samples.iter().find(|(name, _, _)| *name == key.name) else {
                panic!("no sample for {}", key.name)
            };
            let mut job = Job::default();
            assert_eq!(set(&mut job, key.name, good), Ok(()), "{}={good}", key.name);
            if key.name != "target" {
                assert_ne!(job, Job::default(), "{}={good} changes nothing", key.name);
                let error = set(&mut job, key.name, bad).map_err(|e| e.to_string());
                let message = error.expect_err(key.name);
                assert!(message.starts_with(&format!("{}={bad}: ", key.name)), "{message}");
            }
        }
    }

    #[test]
    fn unknown_keys_name_the_nearest() {
        let error = set_all(&[("thread", "1")]).expect_err("unknown").to_string();
        assert!(
            error.starts_with("unknown key 'thread'; did you mean 'threads'?; known keys: access,"),
            "{error}"
        );
    }

    #[test]
    fn contradictions() {
        for pairs in [
            &[("engine", "psync"), ("depth", "32")][..],
            &[("batch", "2")],
            &[("fsync_every", "1")],
            &[("access", "replication"), ("threads", "2")],
        ] {
            assert!(matches!(set_all(pairs), Err(KeyError::Contradiction { .. })), "{pairs:?}");
        }
        assert!(set_all(&[("write_fraction", "1"), ("fsync_every", "1")]).is_ok());
        let endless = Job::default();
        assert!(check(&endless).expect_err("endless").to_string().contains("nothing ends it"));
    }

    #[test]
    fn weighted_sizes_have_a_mean() {
        // The oltp mix of the built-in workload: mean 26 KiB.
        let job =
            set_all(&[("block_size", "4k:40,8k:20,16k:20,32k:10,64k:5,128k:2,256k:2,512k:1")])
                .expect("valid");
        assert!(
            (job.block_size_bytes_mean() / 1024.0 - 25.5).abs() < 0.7,
            "{}",
            job.block_size_bytes_mean()
        );
        assert_eq!((job.block_size_bytes_max(), job.block_size_bytes_min()), (512 << 10, 4 << 10));
    }
}
