//! The words that set a job: one table for workload files, `key=value` arguments and help.

use crate::array;
use crate::elsewhere::of_others;
use crate::engine_keys;
use crate::limits::IoMax;
use crate::metadata;
use crate::pace_keys::{self, per_second};
use crate::pattern::{self, Cursor, Distribution, FileChoice, Mix};
use crate::payload;
use crate::workload::{
    Access, Arrivals, EngineKind, Extent, IoPriority, Job, OpenSync, SyncCall, SyncRule,
    WeightedSize,
};
use fathom_base::suggest;
use fathom_base::units::{self, UnitError};
use thiserror::Error;

/// A setting that was refused; the text names key, value, reason and cure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No such key.
    #[error("unknown key '{key}'{hint}")]
    Unknown {
        /// What was typed.
        key: String,
        /// `; did you mean ...`, or where all keys are listed.
        hint: String,
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

/// Options of the command line that people write as keys.
const OPTIONS: [&str; 7] = ["destroy", "interval", "label", "phase", "repeats", "seed", "style"];

/// Those without a value.
const FLAGS: [&str; 4] = ["json", "keep", "plain", "quiet"];

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
        values: "random|shuffled|sequential|reverse|strided|sweep|append|replication|randomio|iozone",
        help: "how offsets follow each other (shuffled: every place once before any comes again)",
        set: |j, v| one_of(v, &pattern::ACCESS_WORDS).map(|x| j.access = x),
    },
    Key {
        name: "distribution",
        values: "uniform|zipf:1.2|pareto:0.2|normal:10%|zones:90/10,10/90",
        help: "where access=random goes; zones are pairs of I/O share / space share",
        set: |j, v| Distribution::parse(v).map(|x| j.distribution = x),
    },
    Key {
        name: "stride",
        values: "SIZE",
        help: "distance of the requests of access=strided",
        set: |j, v| positive_size(v).map(|x| j.stride_bytes = Some(x)),
    },
    Key {
        name: "sweep_points",
        values: "N",
        help: "places that access=sweep visits from start to end, once",
        set: |j, v| count(v, 1, u64::MAX).map(|x| j.sweep_points = Some(x)),
    },
    Key {
        name: "cursor",
        values: "thread|job|workload",
        help: "who shares one sequential position: none, all threads of a job, all jobs on a target",
        set: set_cursor,
    },
    Key {
        name: "block_size",
        values: "SIZE, SIZE-SIZE or SIZE:WEIGHT,...",
        help: "size of requests, a range of them, or several with their weights",
        set: set_block_size,
    },
    Key {
        name: "write_block_size",
        values: "as block_size",
        help: "sizes of writes, where they differ",
        set: |j, v| pattern::sizes(v, request_size).map(|x| j.write_block_size = x),
    },
    Key {
        name: "trim_block_size",
        values: "as block_size",
        help: "sizes of trims and zero ranges, where they differ",
        set: |j, v| pattern::sizes(v, request_size).map(|x| j.trim_block_size = x),
    },
    Key {
        name: "write_fraction",
        values: "0..1 or %",
        help: "share of requests that write",
        set: set_write_fraction,
    },
    Key {
        name: "trim_fraction",
        values: "0..1 or %",
        help: "share of requests that trim: discard on a device, a hole in a file",
        set: |j, v| fraction(v).map(|x| j.trim_fraction = x),
    },
    Key {
        name: "zero_fraction",
        values: "0..1 or %",
        help: "share of requests that zero a range without sending zeros",
        set: |j, v| fraction(v).map(|x| j.zero_fraction = x),
    },
    Key {
        name: "mix",
        values: "random|interleave",
        help: "reads and writes by chance, or in a fixed pattern on each thread",
        set: set_mix,
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
        values: "io_uring|libaio|psync|mmap|null",
        help: "how requests reach the kernel",
        set: set_engine,
    },
    Key {
        name: "polled",
        values: "yes|no",
        help: "io_uring polls the device for completions, without interrupts",
        set: |j, v| yes_no(v).map(|x| j.polled = x),
    },
    Key {
        name: "sqpoll",
        values: "yes|no",
        help: "a kernel thread submits for each io_uring and takes a CPU for it",
        set: |j, v| yes_no(v).map(|x| j.sqpoll = x),
    },
    Key {
        name: "registered",
        values: "yes|no",
        help: "io_uring registers files, buffers and ring (default: what the limits allow)",
        set: |j, v| yes_no(v).map(|x| j.registered = Some(x)),
    },
    Key {
        name: "batch_submit",
        values: "N",
        help: "requests that one system call hands over at the most",
        set: |j, v| count(v, 1, 32_768).map(|x| j.batch_submit = Some(x)),
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
        values: "fsync|fdatasync|sync_file_range",
        help: "which call follows writes (sync_file_range makes nothing durable)",
        set: set_sync_call,
    },
    Key {
        name: "sync_all_every",
        values: "N",
        help: "after every N requests of all threads all files are synchronised; belongs to no write",
        set: |j, v| count(v, 1, u64::from(u32::MAX)).map(|x| j.sync_all_every = Some(x)),
    },
    Key {
        name: "write_back_fraction",
        values: "0..1 or %",
        help: "share of reads after which the same block is written back",
        set: |j, v| fraction(v).map(|x| j.write_back_fraction = x),
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
    Key {
        name: "files",
        values: "N",
        help: "number of files that share the size, in a directory target",
        set: set_files,
    },
    Key {
        name: "file_choice",
        values: "round_robin|random|sequential|thread",
        help: "which file comes next (sequential: each to its end; thread: a file for each thread)",
        set: set_file_choice,
    },
    Key {
        name: "files_open",
        values: "N",
        help: "files that each thread keeps open (default: what the limit of descriptors allows)",
        set: |j, v| count(v, 1, 1 << 20).map(|x| j.files_open = Some(x)),
    },
    Key {
        name: "metadata",
        values: "create|stat|delete",
        help: "no data: names= files in one directory, in the order of access=sequential or random",
        set: |j, v| one_of(v, &metadata::WORDS).map(|x| j.metadata = Some(x)),
    },
    Key {
        name: "names",
        values: "N",
        help: "number of files of metadata=",
        set: |j, v| count(v, 1, u64::from(metadata::NAMES_MAX)).map(|x| j.names = Some(x)),
    },
    Key {
        name: "overwrite",
        values: "yes|no",
        help: "sequential writes go over data that lies there, not into a file that starts empty",
        set: |j, v| yes_no(v).map(|x| j.overwrite = x),
    },
    Key {
        name: "drop_cache",
        values: "yes|no",
        help: "before buffered reads of its own file, fathom drops what the page cache holds of it",
        set: |j, v| yes_no(v).map(|x| j.drop_cache = x),
    },
    Key {
        name: "record_size",
        values: "SIZE",
        help: "what each call asks for, as dd's bs=; of more than 0x7ffff000 bytes the kernel moves only so many",
        set: set_record_size,
    },
    Key {
        name: "content",
        values: "random|zero|pattern:HEX",
        help: "what is written (a pattern repeats from the start of the target, behind fathom's 16 bytes in each 4 KiB)",
        set: |j, v| payload::content(v).map(|x| j.content = x),
    },
    Key {
        name: "compressible",
        values: "0..1 or %",
        help: "share of what is written that a compressor can save, in any 512 bytes",
        set: |j, v| fraction(v).map(|x| j.compressible = x),
    },
    Key {
        name: "duplicate",
        values: "0..1 or %",
        help: "share of the written blocks that are copies of others",
        set: |j, v| fraction(v).map(|x| j.duplicate = x),
    },
    Key {
        name: "verify",
        values: "none|during|after|crash",
        help: "check what was written: as the job reads it, at the end, or also after a crash of the machine",
        set: |j, v| one_of(v, &payload::VERIFY_WORDS).map(|x| j.verify = x),
    },
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
        set: |j, v| time(v).map(|x| j.warmup_ns = x),
    },
    Key {
        name: "amount",
        values: "SIZE",
        help: "end after this many bytes of the measured window",
        set: |j, v| positive_size(v).map(|x| j.amount_bytes = Some(x)),
    },
    Key {
        name: "operations",
        values: "N",
        help: "end after this many requests of the measured window (a write with its sync is one)",
        set: |j, v| count(v, 1, u64::MAX).map(|x| j.operations = Some(x)),
    },
    Key {
        name: "rate",
        values: "N",
        help: "requests per second over all threads, whether earlier ones have ended or not (open loop)",
        set: |j, v| per_second(v).map(|x| j.rate = Some(x)),
    },
    Key {
        name: "arrivals",
        values: "even|poisson",
        help: "how the requests of rate= follow each other",
        set: |j, v| {
            let known = [Arrivals::Even, Arrivals::Poisson].map(|x| (x.word(), x));
            one_of(v, &known).map(|x| j.arrivals = x)
        },
    },
    Key {
        name: "think_time",
        values: "10ms, ...",
        help: "time between the end of a request and the next one in its place",
        set: |j, v| time(v).map(|x| j.think_time_ns = x),
    },
    Key {
        name: "cap_iops",
        values: "N",
        help: "requests per second over all threads at the most",
        set: |j, v| per_second(v).map(|x| j.cap_iops = Some(x)),
    },
    Key {
        name: "cap_bytes",
        values: "SIZE",
        help: "bytes per second over all threads at the most",
        set: |j, v| positive_size(v).map(|x| j.cap_bytes = Some(x)),
    },
    Key {
        name: "io_priority",
        values: "inherit|rt/1..7|be/0..7|idle",
        help: "I/O scheduling class and level; rt needs root",
        set: |j, v| IoPriority::parse(v).map(|x| j.io_priority = x),
    },
    Key {
        name: "nice",
        values: "-20..19",
        help: "CPU priority of the threads, -20 goes first",
        set: set_nice,
    },
    Key {
        name: "numa_node",
        values: "N",
        help: "node whose CPUs and memory the threads use (with cpus=: memory only)",
        set: |j, v| count(v, 0, 1023).map(|x| j.numa_node = Some(x)),
    },
    Key {
        name: "cgroup_weight",
        values: "1..10000",
        help: "I/O weight of a cgroup for the whole run, or for each job if jobs differ (others have 100)",
        set: |j, v| count(v, 1, 10_000).map(|x| j.cgroup_weight = Some(x)),
    },
    Key {
        name: "cgroup_max",
        values: "read_bytes:100MB,write_bytes:SIZE,read_iops:N,write_iops:500",
        help: "limits per second of a cgroup for the whole run, or for each job if jobs differ",
        set: |j, v| IoMax::parse(v).map(|x| j.cgroup_max = x),
    },
    Key {
        name: "cpus",
        values: "0,2-3",
        help: "CPUs that threads are bound to in turn",
        set: set_cpus,
    },
    Key { name: "target", values: "PATH", help: "this job's own target", set: set_target },
];

/// Sets one key of one job.
///
/// # Errors
/// [`KeyError`] for an unknown key (with the nearest known one) or a value it does not take.
pub fn set(job: &mut Job, key: &str, value: &str) -> Result<(), KeyError> {
    if array::is_symbolic(value) && array::takes(key) {
        // Checked now with any array, so that a mistyped value is found before the target is looked at.
        set(&mut job.clone(), key, &array::in_bytes(value, array::ANY))?;
        job.array_sizes.retain(|(known, _)| known != key);
        job.array_sizes.push((key.to_owned(), value.to_owned()));
        return Ok(());
    }
    job.array_sizes.retain(|(known, _)| known != key);
    let Some(entry) = KEYS.iter().find(|k| k.name == key) else {
        let near = suggest::hint(key, KEYS.iter().map(|k| k.name));
        let hint = match near.as_str() {
            _ if OPTIONS.contains(&key) => format!("; it is an option: --{key}=..."),
            _ if FLAGS.contains(&key) => format!("; it is an option: --{key}"),
            _ if of_others(key).is_some() => {
                format!("; here it is {}", of_others(key).unwrap_or_default())
            }
            "" => "; fathom workloads randread lists all keys".to_owned(),
            _ => near,
        };
        return Err(KeyError::Unknown { key: key.to_owned(), hint });
    };
    (entry.set)(job, value).map_err(|reason| KeyError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: format!("{reason} (takes {})", entry.values),
    })?;
    if job.file_choice == FileChoice::Thread {
        job.files = job.threads;
    }
    Ok(())
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

/// The most that one call moves on Linux: 2 GiB less a page.
const CALL_BYTES_MAX: u32 = 0x7fff_f000;

/// A request size: up to what one call moves on Linux, rounded down to a page.
fn request_size(value: &str) -> Result<u32, String> {
    let bytes = positive_size(value)?;
    u32::try_from(bytes).ok().filter(|b| *b <= CALL_BYTES_MAX).ok_or_else(|| {
        "one call moves at most 2147479552 bytes (0x7ffff000); use a smaller size".into()
    })
}

fn set_record_size(job: &mut Job, value: &str) -> Result<(), String> {
    let bytes = positive_size(value)?;
    let moved = bytes.min(u64::from(CALL_BYTES_MAX));
    job.block_size = vec![WeightedSize::fixed(moved as u32)];
    job.record_size_bytes = (moved < bytes).then_some(bytes);
    Ok(())
}

/// Longer than anybody waits, and short enough that sums of times are far from the end of 64 bits.
const TIME_DAYS_MAX: u64 = 365;

/// In nanoseconds.
fn time(value: &str) -> Result<u64, String> {
    let ns = units::parse_duration_ns(value).map_err(text)?;
    if ns > TIME_DAYS_MAX * 86_400_000_000_000 {
        return Err(format!("must be at most {TIME_DAYS_MAX}d"));
    }
    Ok(ns)
}

fn duration(value: &str) -> Result<u64, String> {
    match time(value)? {
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

fn set_sync_call(job: &mut Job, value: &str) -> Result<(), String> {
    let call = match value {
        "sync_file_range" => Ok(SyncCall::SyncFileRange),
        _ => sync_call(value),
    };
    call.map(|x| job.sync_call = x)
}

/// Nothing to write leaves nothing to sync: a workload's own sync settings go with its writes.
fn set_write_fraction(job: &mut Job, value: &str) -> Result<(), String> {
    job.write_fraction = fraction(value)?;
    if job.write_fraction == 0.0 {
        (job.sync, job.sync_at_end, job.sync_all_every) = (SyncRule::Never, None, None);
    }
    Ok(())
}

fn set_cursor(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [("thread", Cursor::Thread), ("job", Cursor::Job), ("workload", Cursor::Workload)];
    one_of(value, &known).map(|x| job.cursor = x)
}

fn set_target(job: &mut Job, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("no path".into());
    }
    job.target = Some(value.to_owned());
    Ok(())
}

fn set_mix(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [("random", Mix::Random), ("interleave", Mix::Interleave)];
    one_of(value, &known).map(|x| job.mix = x)
}

fn set_file_choice(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [
        ("round_robin", FileChoice::RoundRobin),
        ("random", FileChoice::Random),
        ("sequential", FileChoice::Sequential),
        ("thread", FileChoice::Thread),
    ];
    let choice = one_of(value, &known)?;
    let is_for_threads = [choice, job.file_choice].map(|x| x == FileChoice::Thread);
    if is_for_threads == [true, false] && job.files != 1 {
        return Err(format!("there is one for each thread; leave out files={}", job.files));
    }
    if is_for_threads == [false, true] {
        job.files = 1;
    }
    job.file_choice = choice;
    Ok(())
}

fn set_files(job: &mut Job, value: &str) -> Result<(), String> {
    let files = count(value, 1, 10_000_000)?;
    if job.file_choice == FileChoice::Thread && files != job.threads {
        return Err(
            "file_choice=thread makes one for each thread; set threads, or give another file_choice first"
                .into(),
        );
    }
    job.files = files;
    Ok(())
}

fn set_engine(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [
        ("io_uring", EngineKind::IoUring),
        ("libaio", EngineKind::Libaio),
        ("psync", EngineKind::Psync),
        ("mmap", EngineKind::Mmap),
        ("null", EngineKind::Null),
    ];
    one_of(value, &known).map(|x| job.engine = x)
}

fn set_open_sync(job: &mut Job, value: &str) -> Result<(), String> {
    let known = [("none", OpenSync::None), ("dsync", OpenSync::Dsync), ("sync", OpenSync::Sync)];
    one_of(value, &known).map(|x| job.open_sync = x)
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

fn set_nice(job: &mut Job, value: &str) -> Result<(), String> {
    let nice = value.parse().ok().filter(|nice| (-20..=19).contains(nice));
    job.nice = Some(nice.ok_or("must be a whole number between -20 and 19")?);
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
    job.block_size = pattern::sizes(value, request_size)?;
    job.record_size_bytes = None;
    Ok(())
}

/// Checks what only the whole job can tell, before a target is known.
///
/// # Errors
/// [`KeyError::Contradiction`] names the settings and the cure.
pub fn check(job: &Job) -> Result<(), KeyError> {
    let refuse = |reason: String| Err(KeyError::Contradiction { job: job.name.clone(), reason });
    let has_end =
        job.duration_ns.is_some() || job.amount_bytes.is_some() || job.operations.is_some();
    if let Some(reason) = metadata::contradiction(job) {
        return refuse(reason);
    }
    if !has_end && !job.makes_one_pass() {
        return refuse("nothing ends it; give duration=60s, amount=1G or operations=100000".into());
    }
    if let Some(reason) = engine_keys::contradiction(job)
        .or_else(|| pattern::contradiction(job))
        .or_else(|| pace_keys::contradiction(job))
        .or_else(|| payload::contradiction(job))
    {
        return refuse(reason);
    }
    let syncs_nothing = !job.writes_data() && job.sync != SyncRule::Never;
    let syncs_later = job.sync_at_end.is_some() || job.sync_all_every.is_some();
    if syncs_nothing || (!job.writes() && syncs_later) {
        return refuse(
            "it asks for syncs but writes nothing; set write_fraction or drop the sync".into(),
        );
    }
    if job.access == Access::Append && job.write_fraction < 1.0 {
        return refuse("access=append only writes; set write_fraction=1".into());
    }
    if job.access == Access::Replication && job.write_fraction != 0.5 {
        return refuse(format!(
            "access=replication writes back each block that it reads, write_fraction={} cannot be; use write_fraction=0.5",
            job.write_fraction
        ));
    }
    if job.access == Access::Replication && !job.write_block_size.is_empty() {
        return refuse("access=replication writes back the block that it reads, of block_size, and appends log_block_size; leave out write_block_size".into());
    }
    let syncs_log = matches!(job.sync, SyncRule::Never | SyncRule::Every(1));
    if job.access == Access::Replication && !syncs_log {
        return refuse("access=replication syncs the log after each transaction, and nothing else; leave out fsync_every and fsync_fraction".into());
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
#[path = "keys_tests.rs"]
mod tests;
