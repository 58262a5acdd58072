//! One directory with very many entries: built, walked, checked, and removed, in memory that does not grow with it.

use crate::kit::{Kit, check_tree, resident_bytes, small};
use fathom_model::fsop::WalkOrder;
use fathom_model::record::OpClass;
use fathom_sys::clock::FastClock;
use fathom_sys::signals::StopFlag;
use fathom_sys::walked::WalkedDir;
use fathom_testkit::Capability::FsOnLoop;
use fathom_testkit::{FsKind, LoopDevice, MountedFs, Trial, counted, kernel_test, sample};
use fathom_tree::manifest::check::Depth;
use fathom_tree::phase::{self, Going, Process, Second, Session, Task, Watch, Windowed};
use fathom_tree::spec::{Number, Sizes};
use fathom_tree::walk::Reading;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Bytes that this process may grow by, whatever a directory holds.
const GROWN_MAX: u64 = 32 << 20;
/// Operations for an empty file: its entry, lstat, open, first byte, close.
const OPERATIONS: u64 = 5;

pub fn trials() -> Vec<Trial> {
    vec![kernel_test("tree_of_one_large_directory", &[FsOnLoop(FsKind::Ext4)], large)]
}

/// A million entries in a soak run, on every kind of filesystem that this machine has.
fn large() {
    let entries = sample(10_000, 1_000_000) as u64;
    let kinds = &FsKind::ALL[..sample(1, FsKind::ALL.len())];
    for kind in kinds.iter().filter(|kind| FsOnLoop(**kind).check().is_ok()) {
        let device = LoopDevice::new(4 << 30).unwrap();
        // A tree leaves others a twentieth.
        let inodes = (entries * 5 / 4 + 1000).to_string();
        let options: &[&str] = if *kind == FsKind::Ext4 { &["-N", &inodes] } else { &[] };
        of_kind(*kind, &MountedFs::with(*kind, device, options, "").unwrap(), entries);
        counted("entries of one directory", entries as usize);
    }
}

fn of_kind(kind: FsKind, fs: &MountedFs, entries: u64) {
    let (kit, dir, before) = (Kit::new(), fs.dir().join("tree"), resident_bytes());
    let mut took = Vec::new();
    let mut step = |what: &str, began: Instant| {
        took.push(format!("{what} {:.1} s", began.elapsed().as_secs_f64()));
    };
    let mut spec = small(entries);
    spec.sizes = Sizes::Fixed(0);
    spec.files_per_directory = Number::Fixed(entries);
    let began = Instant::now();
    let built = kit.build(&dir, spec).unwrap();
    step("built", began);
    assert_eq!((built.made_files, built.tree.layout().extent().dirs), (entries, 1));
    drop(built);

    let began = Instant::now();
    let walked = walk(&dir, entries);
    step("walked", began);
    let reader = &walked.processes[0];
    assert!(reader.rounds >= 1 && reader.vanished == 0, "{} rounds", reader.rounds);
    for class in [OpClass::ReadDir, OpClass::Stat, OpClass::OpenRead, OpClass::CloseRead] {
        assert!(reader.class(class).unwrap().latency_ns.count() >= entries, "{class:?}");
    }

    let began = Instant::now();
    assert_eq!(check_tree(&dir, Depth::Names).files, entries);
    step("checked", began);
    let inside = names_in(&dir).find(|name| !name.starts_with(".fathom")).unwrap();
    fs::rename(dir.join(&inside), dir.join("somebody's")).unwrap();
    let report = check_tree(&dir, Depth::Names);
    assert_eq!((report.files, report.deviations), (entries - 1, 2), "{:?}", report.listed);
    let listed: Vec<&str> = report.listed.iter().map(|deviation| &*deviation.path).collect();
    assert!(listed.contains(&"somebody's") && listed.contains(&&*inside), "{listed:?}");

    let began = Instant::now();
    let cleaned = kit.clean(&dir).unwrap();
    step("removed", began);
    assert_eq!((cleaned.files, cleaned.foreign), (entries - 1, 1));
    assert_eq!(names_in(&dir).collect::<Vec<_>>(), ["somebody's"]);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < GROWN_MAX, "{grown} bytes more");
    println!("{}, {entries} entries: {}, {} KiB more", kind.name(), took.join(", "), grown >> 10);
}

fn names_in(dir: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// Ends a session when a round through the directory must be over.
struct OneRound<'a> {
    stop: &'a StopFlag,
    operations: u64,
}

impl Watch for OneRound<'_> {
    fn starts(&mut self, _: usize) {}
    fn window_begins(&mut self, _: usize) {}
    fn second(&mut self, _: usize, second: &Second) {
        self.operations = self.operations.saturating_sub(second.operations);
        if self.operations == 0 {
            self.stop.set(15);
        }
    }
    fn window_ends(&mut self, _: usize, _: &[Going]) {}
    fn waits(&mut self, _: &[Going]) {}
}

fn walk(dir: &Path, entries: u64) -> Windowed {
    let reading = Reading {
        begins: vec![c"".to_owned()],
        order: WalkOrder::Breadth,
        block_bytes: 65_536,
        no_atime: true,
    };
    let task = Task::Read(WalkedDir::open(dir).unwrap(), reading);
    let stop = StopFlag::default();
    let session = Session {
        clock: FastClock::monotonic(),
        stop: &stop,
        window_ns: 600_000_000_000,
        warm_ups_ns: vec![0],
        points: 1_000,
        seed: 1,
    };
    // Half a round more than one, because the tree has a few files of fathom's own.
    let mut watch = OneRound { stop: &stop, operations: entries * OPERATIONS * 3 / 2 };
    let processes = [Process { task, number: 0, first_window: 0 }];
    let mut outcome = phase::run(&session, &processes, &mut watch).unwrap();
    assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
    outcome.windows.pop().unwrap()
}
