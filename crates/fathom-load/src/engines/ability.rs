//! Which engine can do what, and whether kernel and target can: known before anything is measured.

use crate::run::LoadError;
use fathom_model::record::ZEROES_WRITTEN;
use fathom_model::workload::{EngineKind, Job, SyncCall};
use fathom_sys::request::{self, OpKind};
use fathom_sys::ring::{self, RingOptions};
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;

/// How an engine does a kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As its own kind of request.
    Native,
    /// By the plain system call, on the thread that issues: nothing else is handed over meanwhile.
    PlainCall,
    /// Not at all.
    Missing,
}

fn way(engine: EngineKind, is_polled: bool, kind: OpKind) -> Way {
    let moves_data = matches!(kind, OpKind::Read | OpKind::Write);
    match engine {
        EngineKind::IoUring if is_polled && !moves_data => Way::Missing,
        EngineKind::Libaio if !fathom_sys::aio::Aio::is_native(kind) => Way::PlainCall,
        EngineKind::Mmap if !moves_data && kind != OpKind::Fdatasync => Way::PlainCall,
        _ => Way::Native,
    }
}

/// The kinds of requests that a job issues.
pub fn kinds_of(job: &Job) -> Vec<OpKind> {
    let issued = [
        (job.reads(), OpKind::Read),
        (job.writes_data(), OpKind::Write),
        (job.trim_fraction > 0.0, OpKind::Trim),
        (job.zero_fraction > 0.0, OpKind::Zero),
    ];
    let issued = issued.into_iter().filter(|(is_issued, _)| *is_issued).map(|(_, kind)| kind);
    let after_writes = job.syncs_after_writes().then_some(job.sync_call);
    let syncs = after_writes.into_iter().chain(job.sync_at_end).map(|call| match call {
        SyncCall::Fsync => OpKind::Fsync,
        SyncCall::Fdatasync => OpKind::Fdatasync,
        SyncCall::SyncFileRange => OpKind::SyncRange,
    });
    let mut kinds: Vec<OpKind> = issued.chain(syncs).collect();
    kinds.dedup();
    kinds
}

/// Finds out whether requests of these kinds can be issued to a target as the job asks for them. `beside` are all jobs that
/// run at the same time on the same target.
///
/// What an engine does by plain system calls is named in the words that are returned. It is refused where several
/// requests are to be in flight, because they would not be.
///
/// # Errors
/// [`LoadError::Missing`] with what is missing and the cure.
pub fn check(
    job: &Job,
    engine: EngineKind,
    ring: &RingOptions,
    file: &File,
    kinds: &[OpKind],
    beside: &[&Job],
) -> Result<Vec<String>, LoadError> {
    let missing = |what: String| LoadError::Missing { job: job.name.clone(), what };
    let mut plain = Vec::new();
    for kind in kinds {
        let word = kind.word();
        match way(engine, ring.polled, *kind) {
            Way::Native => {}
            Way::PlainCall if job.depth == 1 => plain.push(format!("{word}_by_plain_call")),
            Way::PlainCall => {
                return Err(missing(format!(
                    "engine={} has no {word}: it would hold up the other requests of depth={}; use engine=io_uring, or depth=1",
                    engine.word(),
                    job.depth
                )));
            }
            Way::Missing => {
                return Err(missing(format!(
                    "a polled io_uring takes reads and writes only, no {word}; use polled=no"
                )));
            }
        }
        check_cached(beside, file, *kind).map_err(missing)?;
        check_target(engine, file, *kind).map_err(missing)?;
        if *kind == OpKind::Zero && request::zeroes_are_written(&SysRoot::live(), file) {
            plain.push(ZEROES_WRITTEN.to_owned());
        }
    }
    if engine == EngineKind::IoUring && ring.polled {
        check_polled(ring, file).map_err(missing)?;
    }
    Ok(plain)
}

/// Finds out about a device, opened for reading, whether it takes what a job is going to ask for. [`check`] knows more,
/// such as what io_uring can do, but needs a target that may be written. `beside` are all jobs that run at the same time on
/// the same device.
///
/// # Errors
/// [`LoadError::Missing`] with what is missing and the cure.
pub fn check_early(job: &Job, device: &File, beside: &[&Job]) -> Result<(), LoadError> {
    let missing = |what| LoadError::Missing { job: job.name.clone(), what };
    let asked = |kind| {
        check_cached(beside, device, kind)?;
        check_target(EngineKind::Psync, device, kind)
    };
    kinds_of(job).into_iter().try_for_each(|kind| asked(kind).map_err(missing))
}

/// Of a device the kernel refuses to clear a range of which something that was written is still in the page cache, as
/// "busy": now and then, also where the requests themselves do not overlap.
fn check_cached(beside: &[&Job], file: &File, kind: OpKind) -> Result<(), String> {
    let is_cached = |job: &&Job| !job.direct && job.writes_data() && job.engine != EngineKind::Null;
    let clears = matches!(kind, OpKind::Trim | OpKind::Zero);
    match beside.iter().copied().find(is_cached) {
        Some(writer) if clears && is_device(file) => Err(format!(
            "on a device {} beside writes with direct=no (job {}) fails now and then (device or resource busy), where \
             what was written is still in the page cache; use direct=yes, or leave one of them out",
            kind.word(),
            writer.name
        )),
        _ => Ok(()),
    }
}

fn is_device(file: &File) -> bool {
    file.metadata().is_ok_and(|meta| meta.file_type().is_block_device())
}

/// Whether the target, and the kernel with this engine, take a kind of request.
fn check_target(engine: EngineKind, file: &File, kind: OpKind) -> Result<(), String> {
    if !matches!(kind, OpKind::Trim | OpKind::Zero) || engine == EngineKind::Null {
        return Ok(());
    }
    let word = kind.word();
    let is_device = is_device(file);
    let supported = request::is_supported(&SysRoot::live(), file, kind)
        .map_err(|e| format!("asking whether the target has {word}: {e}"))?;
    if !supported && is_device {
        return Err(format!(
            "the device has no discard (queue/discard_max_bytes is 0), so {word} would fail; leave it out, or choose a device that has it"
        ));
    }
    if !supported {
        return Err(format!(
            "the filesystem cannot do {word} (fallocate is not supported); leave it out, or choose ext4, XFS or btrfs"
        ));
    }
    if is_device && kind == OpKind::Trim && engine == EngineKind::IoUring {
        let has_command = ring::can_discard(file.as_fd())
            .map_err(|e| format!("asking whether io_uring can discard: {e}"))?;
        if !has_command {
            return Err("this kernel's io_uring cannot discard (Linux 6.12 can); use engine=psync with threads= in place of depth=".to_owned());
        }
    }
    Ok(())
}

/// Reads one block as the job will: the flag in sysfs alone is not known for every target.
fn check_polled(options: &RingOptions, file: &File) -> Result<(), String> {
    const CURE: &str =
        "use polled=no, or for NVMe load the driver with poll queues (modprobe nvme poll_queues=N)";
    if request::can_poll(&SysRoot::live(), file) == Some(false) {
        return Err(format!(
            "polled=yes: the device cannot be polled for completions (queue/io_poll is 0); {CURE}"
        ));
    }
    ring::probe_read(file.as_fd(), 4096, options).map_err(|error| {
        format!("polled=yes: a polled read of the first block failed: {error}; {CURE}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::keys;

    fn job(pairs: &[(&str, &str)]) -> Job {
        let mut job = Job::default();
        pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
        job
    }

    fn checked(pairs: &[(&str, &str)], kinds: &[OpKind]) -> Result<Vec<String>, String> {
        let job = job(pairs);
        let file = File::open("/proc/self/exe").expect("this program");
        let options = RingOptions { polled: job.polled, ..RingOptions::default() };
        check(&job, job.engine, &options, &file, kinds, &[&job]).map_err(|e| e.to_string())
    }

    #[test]
    fn what_a_job_issues() {
        let syncing = [("write_fraction", "1"), ("fsync_every", "1"), ("sync_at_end", "fdatasync")];
        let kinds = kinds_of(&job(&syncing));
        assert_eq!(kinds, [OpKind::Write, OpKind::Fsync, OpKind::Fdatasync]);
        assert_eq!(kinds_of(&job(&[])), [OpKind::Read]);
        let giving_back = [("trim_fraction", "0.5"), ("zero_fraction", "0.5")];
        assert_eq!(kinds_of(&job(&giving_back)), [OpKind::Trim, OpKind::Zero]);
    }

    #[test]
    fn plain_calls_are_named_and_never_stand_in_for_depth() {
        let kinds = [OpKind::Read, OpKind::SyncRange];
        let one = checked(&[("engine", "libaio")], &kinds).expect("one at a time");
        assert_eq!(one, ["sync_file_range_by_plain_call"]);
        let many = checked(&[("engine", "libaio"), ("depth", "8")], &kinds).expect_err("depth");
        assert!(
            many.contains("libaio has no sync_file_range") && many.contains("depth=8"),
            "{many}"
        );
        assert_eq!(checked(&[("depth", "8")], &kinds), Ok(Vec::new()));
        let mapped = checked(&[("engine", "mmap")], &[OpKind::Read, OpKind::Fsync]);
        assert_eq!(mapped, Ok(vec!["fsync_by_plain_call".to_owned()]));
    }

    #[test]
    fn polled_rings_move_data_only_and_need_a_device_that_polls() {
        let sync = checked(&[("polled", "yes")], &[OpKind::Write, OpKind::Fsync]);
        assert!(sync.expect_err("no syncs").contains("no fsync; use polled=no"));
        let read = checked(&[("polled", "yes")], &[OpKind::Read]).expect_err("buffered");
        assert!(read.contains("polled=yes: ") && read.contains("use polled=no"), "{read}");
    }
}
