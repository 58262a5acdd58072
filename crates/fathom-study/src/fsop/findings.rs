//! Findings about file-server workloads: what makes their figures say something else than they seem to.

use fathom_base::units::{format_count, format_ns, format_rate, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_model::fsop::{Caches, CachesLook, FsopProcess, FsopRecord, Role, SyncMode};
use fathom_model::record::{OpClass, Record};

/// The kernel looks for dirty data to write back every 5 seconds, and writes what is older than 30: a window or warm-up
/// below this sees a part of that only.
const WINDOW_NS_MIN: u64 = 10_000_000_000;
/// The default of the kernel after which dirty data must go.
const WARMUP_NS_MIN: u64 = 30_000_000_000;
/// Share of what was looked at that may still be cached.
const CACHED_SHARE_MAX: f64 = 0.01;
/// Share of names and inodes that may still be in memory: others use a few of them at any time.
const NAMES_SHARE_MAX: f64 = 0.1;
/// With fewer unused names than this in the machine before, nothing is said of those after.
const ENTRIES_MIN: u64 = 10_000;
/// Readers got at least this share of their bytes from the devices.
const FROM_DEVICE_SHARE_MIN: f64 = 0.5;
/// Less is too little to judge by.
const READ_BYTES_MIN: u64 = 1 << 20;

/// Names of rules whose text is about one row.
pub(crate) const ROW_RULES: &[&str] = &[
    "fsop-nothing-done",
    "fsop-caches-not-dropped",
    "fsop-caches-still-full",
    "fsop-tree-read-again",
    "fsop-read-from-memory",
    "fsop-written-to-memory",
    "fsop-writer-full",
    "fsop-short-window",
    "fsop-short-warmup",
    "fsop-shared-parts",
    "fsop-hung",
    "fsop-vanished",
];

/// All rules on one record.
#[must_use]
pub fn all(record: &Record, fsop: &FsopRecord) -> Vec<Finding> {
    const RULES: &[fn(&Record, &FsopRecord) -> Option<Finding>] = &[
        nothing_done,
        caches_not_dropped,
        caches_still_full,
        tree_read_again,
        read_from_memory,
        written_to_memory,
        writer_full,
        short_window,
        short_warmup,
        shared_parts,
        hung,
        vanished,
    ];
    RULES.iter().filter_map(|rule| rule(record, fsop)).collect()
}

fn finding(id: &str, severity: Severity, summary: String) -> Finding {
    Finding::new(id, severity, summary)
}

/// Nothing began and ended in the window.
fn nothing_done(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let done: u64 = fsop.processes.iter().map(FsopProcess::operations).sum();
    (done == 0 && record.failure.is_none()).then(|| {
        let text = "no operation began and ended in the window".to_owned();
        finding("fsop-nothing-done", Severity::Void, text).advise(
            "the list of unfinished operations says what they waited for; a longer window may help",
        )
    })
}

fn caches_not_dropped(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let Caches::Kept { reason } = &fsop.caches else { return None };
    (fsop.phase.readers > 0).then(|| {
        let text =
            format!("the caches were not dropped ({reason}): readers may have read from memory");
        finding("fsop-caches-not-dropped", Severity::Doubtful, text).advise(
            "run it as root, with drop_caches=yes; or read a tree of several times the memory",
        )
    })
}

fn caches_still_full(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let Caches::Dropped(look) = &fsop.caches else { return None };
    let is_above = |left: u64, all: u64, share: f64| left as f64 > share * all as f64;
    let mut left = Vec::new();
    if is_above(look.cached_bytes, look.checked_bytes, CACHED_SHARE_MAX) {
        let (cached, all) = (format_size(look.cached_bytes), format_size(look.checked_bytes));
        left.push(format!("{cached} of the {all} in {} files looked at", look.files_checked));
    }
    if is_above(look.names_cached.into(), look.names_checked.into(), NAMES_SHARE_MAX) {
        let CachesLook { names_checked, names_cached, .. } = look;
        left.push(format!("{names_cached} of the {names_checked} names and inodes looked for"));
    }
    if let Some([before, after]) = look.unused_entries
        && before >= ENTRIES_MIN
        && is_above(after, before, NAMES_SHARE_MAX)
    {
        let [before, after] = [before, after].map(format_count);
        left.push(format!("{after} of the {before} names that the machine had and nobody used"));
    }
    (!left.is_empty()).then(|| {
        let text =
            format!("after the caches were dropped, {} were still in memory", left.join(" and "));
        finding("fsop-caches-still-full", Severity::Doubtful, text).advise(
            "a program holds them (mlock, open files, a running service), or the filesystem lives in memory",
        )
    })
}

fn tree_read_again(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let most = fsop.of_role(Role::Reader).max_by_key(|process| process.rounds)?;
    let is_kept = matches!(fsop.caches, Caches::Kept { .. });
    (most.rounds > 0).then(|| {
        let text = format!(
            "reader {} has gone through all of its part of the tree {} since {}: what is read again comes from memory",
            most.number,
            if most.rounds == 1 { "once".to_owned() } else { format!("{} times", most.rounds) },
            if is_kept { "it began" } else { "the caches were dropped" }
        );
        finding("fsop-tree-read-again", Severity::Doubtful, text)
            .advise("a larger tree, or a shorter window; for a larger one: fathom tree build DIR --help")
    })
}

/// What the readers got, against what all block devices gave: those below each other give the same bytes, so that the
/// largest counts.
fn read_from_memory(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let read: u64 = fsop.of_role(Role::Reader).map(FsopProcess::bytes).sum();
    let given = record.devices.iter().map(|device| device.read_bytes).max()?;
    let share = given as f64 / read.max(1) as f64;
    (read >= READ_BYTES_MIN && share < FROM_DEVICE_SHARE_MIN).then(|| {
        let text = format!(
            "readers got {}, of which the devices gave {} at most: the rest came from memory",
            format_size(read),
            format_size(given)
        );
        finding("fsop-read-from-memory", Severity::Doubtful, text)
            .advise("a larger tree, or a shorter window")
    })
}

/// Said, not blamed: this is what servers do, and what the classic figure is.
fn written_to_memory(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let written: u64 = fsop.of_role(Role::Writer).map(FsopProcess::bytes).sum();
    let taken = record.devices.iter().map(|device| device.written_bytes).max()?;
    let is_less = taken as f64 / (written.max(1) as f64) < FROM_DEVICE_SHARE_MIN;
    (fsop.spec.sync == SyncMode::None && written >= READ_BYTES_MIN && is_less).then(|| {
        let per_s = |bytes: u64| format_rate(bytes as f64 * 1e9 / record.window_ns.max(1) as f64);
        let text = format!(
            "writers handed {} to the page cache, of which the devices took {} in the window: the write rate is that of memory",
            per_s(written),
            per_s(taken)
        );
        finding("fsop-written-to-memory", Severity::Note, text)
            .advise("sync=file makes the write rate that of the disk")
    })
}

fn writer_full(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let ended = fsop.processes.iter().filter_map(|p| Some((p, p.ended_early_ns?)));
    let (process, at_ns) = ended.min_by_key(|(_, at_ns)| *at_ns)?;
    let what = match process.role {
        Role::Writer => {
            "had made all that it may (5 % and more of the space and of the inodes stay free)"
        }
        Role::Reader => "found nothing to read",
        Role::Client => "had nothing to do",
    };
    let text = format!(
        "{} {} {what} {} into the window: from then on the others had less competition",
        process.role.word(),
        process.number,
        format_ns(at_ns)
    );
    Some(
        finding("fsop-writer-full", Severity::Doubtful, text)
            .advise("more free space, smaller files, or a shorter window and warmup"),
    )
}

fn short_window(record: &Record, _: &FsopRecord) -> Option<Finding> {
    (record.window_ns < WINDOW_NS_MIN).then(|| {
        let text = format!(
            "a window of {} is shorter than the rhythm in which kernels write back and commit (5 to 30 s): stalls may lie outside",
            format_ns(record.window_ns)
        );
        finding("fsop-short-window", Severity::Doubtful, text).advise("window=30s")
    })
}

fn short_warmup(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let is_short = fsop.phase.writers > 0
        && fsop.spec.sync == SyncMode::None
        && fsop.spec.warmup_ns < WARMUP_NS_MIN;
    is_short.then(|| {
        let text = format!(
            "writers ran for {} before the window: the kernel may not have begun to write back what they wrote (after 30 s at the latest)",
            format_ns(fsop.spec.warmup_ns)
        );
        finding("fsop-short-warmup", Severity::Doubtful, text).advise("warmup=30s, or sync=file")
    })
}

fn shared_parts(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let is_shared = fsop.phase.readers > 1 && fsop.tree.trees == 1;
    is_shared.then(|| {
        let text = format!(
            "{} readers walk the same directories, as the tree is too narrow for parts of their own: each reads what another has brought to memory",
            fsop.phase.readers
        );
        finding("fsop-shared-parts", Severity::Doubtful, text)
            .advise("a tree with more directories: fathom tree build DIR --help")
    })
}

/// Half of the window in one operation that crosses a border of it: rates say little then, and the operation says a lot.
fn hung(record: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let all = fsop.processes.iter().flat_map(|process| {
        process.crossings.iter().map(move |op| (process, op, op.inside_ns(record.window_ns)))
    });
    let (process, op, inside_ns) = all.max_by_key(|(_, _, inside_ns)| *inside_ns)?;
    (inside_ns >= (record.window_ns / 2).max(1)).then(|| {
        let when = match op.age_at_end_ns(record.window_ns) {
            Some(age_ns) => {
                format!("had been going on for {} when the window ended", format_ns(age_ns))
            }
            None => format!(
                "had begun {} before the window and took {} of it",
                format_ns(op.start_ns.unsigned_abs()),
                format_ns(inside_ns)
            ),
        };
        let text = format!(
            "{} of {} {} {when}: the rates say little, this says a lot",
            op.class.word(),
            process.role.word(),
            process.number,
        );
        finding("fsop-hung", Severity::Doubtful, text)
            .advise("the list of stalls says what the devices and the page cache did meanwhile")
    })
}

fn vanished(_: &Record, fsop: &FsopRecord) -> Option<Finding> {
    let gone: u64 = fsop.of_role(Role::Reader).map(|process| process.vanished).sum();
    let looked: u64 = fsop
        .of_role(Role::Reader)
        .filter_map(|process| process.class(OpClass::Stat))
        .map(|class| class.latency_ns.count())
        .sum();
    (gone > 0).then(|| {
        let severity =
            if gone.saturating_mul(100) > looked { Severity::Doubtful } else { Severity::Note };
        let text = format!("{gone} names were gone when readers came to them, or may not be read");
        finding("fsop-vanished", severity, text)
            .advise("others change the tree; they also load the storage")
    })
}
