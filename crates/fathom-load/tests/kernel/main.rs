//! Lay-outs that are cut by the clock, on a real file system, with io_uring and where it is forbidden.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod requests;

use fathom_guard::OwnedFile;
use fathom_load::plan::plan;
use fathom_load::run::{Control, JobSetup, Observer, Tick, run};
use fathom_load::target::LoadTarget;
use fathom_model::keys;
use fathom_model::record::JobRecord;
use fathom_model::workload::{EngineKind, Job};
use fathom_sys::clock::FastClock;
use fathom_sys::io::OpenMode;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::Capability::{FsOnLoop, IoUring, Tool};
use fathom_testkit::{FsKind, MountedFs, kernel_test, without_io_uring};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// First argument of this program as the child that may not use io_uring; the directory follows.
const CHILD: &str = "--lay-out-in";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, first, dir] = &args[..]
        && first == CHILD
    {
        lays_out(Path::new(dir), EngineKind::Psync);
        return ExitCode::SUCCESS;
    }
    let ring = [FsOnLoop(FsKind::Ext4), IoUring];
    let no_ring = [FsOnLoop(FsKind::Ext4), Tool("python3")];
    let mut trials = requests::trials();
    trials.extend([
        kernel_test("a_cut_lay_out_is_whole", &ring, with_ring),
        kernel_test("a_cut_lay_out_is_whole_without_io_uring", &no_ring, without_ring),
    ]);
    fathom_testkit::run(trials)
}

const AMOUNT: u64 = 700 << 20;

fn with_ring() {
    let fs = MountedFs::new(FsKind::Ext4, 1 << 30).unwrap();
    lays_out(fs.dir(), EngineKind::IoUring);
}

fn without_ring() {
    let fs = MountedFs::new(FsKind::Ext4, 1 << 30).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.arg(CHILD).arg(fs.dir());
    let output = without_io_uring(&child).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

struct Silent;

impl Observer for Silent {
    fn window_begins(&mut self) {}
    fn window_ends(&mut self) {}
    fn tick(&mut self, _: Tick) {}
}

/// Writes as a lay-out does, with far too little time, and looks at what there is then.
fn lays_out(dir: &Path, expected: EngineKind) {
    let state = dir.join("state");
    let owned = OwnedFile::create(&SysRoot::live(), &dir.join("file"), "layout", &state).unwrap();
    let mode = OpenMode { direct: true, ..OpenMode::default() };
    let target = LoadTarget::own_file(&owned, AMOUNT, 512, mode).unwrap();
    let mut job = Job::default();
    let amount = AMOUNT.to_string();
    for (key, value) in [
        ("access", "sequential"),
        ("block_size", "1M"),
        ("depth", "4"),
        ("write_fraction", "1"),
        ("sync_at_end", "fdatasync"),
        ("amount", &amount),
        ("duration", "20ms"),
    ] {
        keys::set(&mut job, key, value).unwrap();
    }
    let plan = plan(&job, AMOUNT, 512, 1).unwrap();
    let stop = StopFlag::default();
    let control =
        Control { clock: FastClock::monotonic(), interval_ns: 1_000_000_000, stop: &stop };
    let outcome = run(&[JobSetup { plan, target: &target }], &control, &mut Silent).unwrap();
    assert_eq!(outcome.failure, None);
    let written = laid_out(&outcome.jobs[0], expected);
    let facts = owned.file().metadata().unwrap();
    assert_eq!(facts.len(), written, "the file ends where the writing ended");
    assert!(facts.blocks() * 512 >= written, "no holes: {} blocks", facts.blocks());
    let content = std::fs::read(owned.path()).unwrap();
    let blocks: BTreeSet<&[u8]> = content.chunks(4096).collect();
    assert_eq!(blocks.len() as u64, written / 4096, "no two blocks alike, none of zeroes");
}

/// Bytes that the record counts; the engine and its one stream are as expected.
fn laid_out(job: &JobRecord, expected: EngineKind) -> u64 {
    assert_eq!((job.engine.kind, job.engine.threads), (expected, 1));
    let fell_back = expected == EngineKind::Psync;
    assert_eq!(job.engine.depth, if fell_back { 1 } else { 4 });
    assert_eq!(job.engine.fallback.is_some(), fell_back);
    assert!(job.final_sync_ns.is_some() && job.censored.is_empty());
    let written = job.transfers().bytes;
    assert!(written > 0 && written < AMOUNT, "cut: {written}");
    written
}
