//! Targets that fail in the middle of a run: exit code 5, the record says where and why, nothing is left behind.

use crate::cli::{Done, MIB, Sandbox, p};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountFs, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::harness::Judged;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Trial, kernel_test, loopdev,
};
use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub const EIO: i64 = 5;
const ENOSPC: i64 = 28;

pub fn trials() -> Vec<Trial> {
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let thin = [FathomBinary, LoopDevices, MountFs("tmpfs")];
    vec![
        kernel_test("reads_that_fail", &[FathomBinary, LoopDevices], reads_fail),
        kernel_test("reads_of_a_file_fail", &fs, || while_cached(file_reads_fail)),
        kernel_test("a_file_that_becomes_shorter", &[FathomBinary], file_shrinks),
        kernel_test("writes_that_fail", &[FathomBinary, LoopDevices, Tool("kill")], writes_fail),
        kernel_test("writes_without_space_below", &thin, no_space_below),
        kernel_test("filesystem_becomes_full", &fs, filesystem_full),
        kernel_test("layout_that_fails", &fs, layout_fails),
    ]
}

/// The device reads from its backing file and not from the page cache.
pub fn direct() -> LoopOptions {
    LoopOptions { direct_io: true, ..LoopOptions::default() }
}

/// Cuts a file off, or makes it longer.
pub fn truncate(path: &Path, size_bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(size_bytes).unwrap();
}

/// The last trial failed, said so on both streams, and the run is stored as failed and void, with all its trials.
#[track_caller]
pub fn failed(sandbox: &Sandbox, done: &Done, operation: &str, errno: i64, path: &str) {
    assert_eq!(done.code, 5, "{done:?}");
    let records = done.records();
    let record = records.last().unwrap();
    assert_eq!(record["ending"], "failed");
    let failure = &record["failure"];
    assert_eq!(failure["operation"], operation);
    assert_eq!(failure["errno"].as_i64(), Some(errno), "{failure}");
    let finding = done.finding("io-failure");
    assert_eq!(finding["severity"], "void");
    let text = finding["summary"].as_str().unwrap();
    for word in [path, operation, "offset"] {
        assert!(text.contains(word), "'{word}' is not in {text}");
    }
    let line = done.stderr.lines().find(|line| line.contains(operation) && line.contains(path));
    assert!(line.is_some(), "{}", done.stderr);
    assert_eq!(
        (&done.result()["verdict"], &done.result()["exit_code"]),
        (&"void".into(), &5.into())
    );
    let stored = &sandbox.runs()[0];
    assert_eq!((&stored["state"], &stored["verdict"]), (&"failed".into(), &"void".into()));
    assert_eq!(stored["trials"].as_u64(), Some(records.len() as u64));
}

fn reads_fail() {
    for engine in [&["depth=8"][..], &["engine=psync", "depth=1", "threads=2"]] {
        let sandbox = Sandbox::new();
        let device = LoopDevice::with(16 * MIB, Content::Pattern(1), &direct()).unwrap();
        let args = ["run", "randread", p(device.path()), "duration=10m"];
        let running = sandbox.start(&[&args[..], engine].concat(), "progress", 1);
        truncate(device.backing(), MIB);
        failed(&sandbox, &running.finish(), "read", EIO, p(device.path()));
        sandbox.nothing_left(&[]);
    }
}

/// The disk below a mounted filesystem goes away; the test directory can still be removed from the cached metadata, unless somebody
/// else empties the caches meanwhile.
fn file_reads_fail() -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["run", "randread", p(fs.dir()), "size=32M", "duration=10m"];
    let running = sandbox.start(&args, "progress", 1);
    let size_bytes = std::fs::metadata(fs.device().backing()).unwrap().len();
    truncate(fs.device().backing(), MIB);
    let done = running.finish();
    truncate(fs.device().backing(), size_bytes);
    failed(&sandbox, &done, "read", EIO, p(fs.dir()));
    nothing_left_of_what_is_cached(&sandbox, fs.dir())
}

/// Again, up to five times, while somebody else empties the caches, as other tests do.
pub fn while_cached(test: impl Fn() -> Judged) -> Judged {
    let judged = (0..4).map(|_| test()).find(|judged| matches!(judged, Judged::Passed));
    judged.unwrap_or_else(test)
}

/// Nothing is left in a directory whose disk went away for a while: it was removed in the cache, unless that was emptied.
pub fn nothing_left_of_what_is_cached(sandbox: &Sandbox, dir: &Path) -> Judged {
    let entries = std::fs::read_dir(dir);
    if !entries.is_ok_and(|mut entries| entries.all(|entry| entry.is_ok())) {
        return Judged::Skipped("somebody else emptied the caches of the machine meanwhile".into());
    }
    sandbox.nothing_left(&[dir]);
    Judged::Passed
}

/// Somebody truncates the file that is being read: no error of the system, but no data either.
fn file_shrinks() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("log");
    fathom_testkit::loopdev::make_file(&file, 16 * MIB, Content::Pattern(1)).unwrap();
    let args = ["run", "randread", p(&file), "duration=10m"];
    let running = sandbox.start(&args, "progress", 1);
    truncate(&file, MIB);
    let done = running.finish();
    failed(&sandbox, &done, "read", 0, p(&file));
    assert!(done.finding("io-failure")["summary"].as_str().unwrap().contains("became shorter"));
}

fn writes_fail() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Sparse, &direct()).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    let args = ["run", "randwrite", p(device.path()), "duration=10m", &id];
    let running = sandbox.start(&args, "progress", 1);
    // Writes would make the file long again before the device hears of its new size.
    running.signal("STOP");
    thread::sleep(Duration::from_millis(200));
    truncate(device.backing(), MIB);
    device.reread_size().unwrap();
    running.signal("CONT");
    let done = running.finish();
    failed(&sandbox, &done, "write", ENOSPC, p(device.path()));
    sandbox.nothing_left(&[]);
}

/// A device that promises more than what it lies on can hold, as thin volumes do: direct writes fail at once, buffered
/// ones when they are written back, which only the synchronising call at the end tells.
fn no_space_below() {
    for (settings, operation) in
        [(&["direct=yes"][..], "write"), (&["direct=no", "amount=24M"], "fdatasync")]
    {
        let sandbox = Sandbox::new();
        let mount = Mount::new("tmpfs", Path::new("none"), "size=8M").unwrap();
        let backing = mount.dir().join("image");
        loopdev::make_file(&backing, 32 * MIB, Content::Sparse).unwrap();
        let device = LoopDevice::over(&backing, &LoopOptions::default()).unwrap();
        let id = format!("--destroy={}", p(&backing));
        let args = ["--json", "run", "seqwrite", p(device.path()), &id];
        let done = sandbox.run(&[&args[..], settings].concat());
        let errno = done.records()[0]["failure"]["errno"].as_i64().unwrap();
        assert!([EIO, ENOSPC].contains(&errno), "{errno}");
        failed(&sandbox, &done, operation, errno, p(device.path()));
        sandbox.nothing_left(&[]);
    }
}

fn small_fs() -> MountedFs {
    let device = LoopDevice::with(1300 * MIB, Content::Sparse, &direct()).unwrap();
    MountedFs::with(FsKind::Ext4, device, &[], "").unwrap()
}

/// Takes all space of a filesystem.
fn fill_up(fs: &MountedFs) {
    let (large, rest) = (fs.dir().join("large"), format!("of={}/rest", fs.dir().display()));
    run_tool("fallocate", [Path::new("-l1150M"), &large]).unwrap();
    assert!(run_tool("dd", ["if=/dev/zero", &rest, "bs=1M"]).is_err(), "dd ends on a full disk");
}

fn filesystem_full() {
    let sandbox = Sandbox::new();
    let fs = small_fs();
    let args = ["run", "commit", p(fs.dir()), "size=16M", "duration=10m"];
    let running = sandbox.start(&args, "progress", 1);
    fill_up(&fs);
    let done = running.finish();
    failed(&sandbox, &done, "write", ENOSPC, p(fs.dir()));
    assert!(done.finding("io-failure")["summary"].as_str().unwrap().contains("full"));
    sandbox.nothing_left(&[fs.dir()]);
}

fn layout_fails() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["run", "randread", p(fs.dir()), "size=700M", "duration=10m"];
    let running = sandbox.start(&args, "note", 1);
    crate::cli::wait_until("it has begun", || {
        crate::cli::names(fs.dir()).iter().any(|name| name.contains("fathom"))
    });
    fill_up(&fs);
    let done = running.finish();
    assert_eq!(done.code, 5, "{done:?}");
    let error = done.result()["error"].as_str().unwrap().to_owned();
    for word in ["writing the test file", p(fs.dir()), "No space left", "free space"] {
        assert!(error.contains(word), "'{word}' is not in {error}");
    }
    assert!(done.stderr.contains(&error), "{}", done.stderr);
    assert!(sandbox.runs().is_empty(), "nothing was measured");
    sandbox.nothing_left(&[fs.dir()]);
}
