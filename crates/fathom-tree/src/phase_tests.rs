//! Tests of sessions with real readers and writers in a temporary directory.

use super::*;
use fathom_base::lognormal::LogNormal;
use fathom_model::fsop::{SyncMode, WalkOrder};
use std::path::Path;

/// Notes what it hears.
#[derive(Default)]
struct Ear {
    seconds: Vec<Second>,
    ends: usize,
}

impl Watch for Ear {
    fn starts(&mut self, _: usize) {}
    fn window_begins(&mut self, _: usize) {}
    fn second(&mut self, _: usize, second: &Second) {
        self.seconds.push(second.clone());
    }
    fn window_ends(&mut self, _: usize, _: &[Going]) {
        self.ends += 1;
    }
    fn waits(&mut self, _: &[Going]) {}
}

fn reader(root: &Path, number: u32) -> Process {
    let reading = Reading {
        begins: vec![c"".to_owned()],
        order: WalkOrder::Breadth,
        block_bytes: 65_536,
        no_atime: true,
    };
    let task = Task::Read(WalkedDir::open(root).expect("there"), reading);
    Process { task, number, first_window: 0 }
}

fn writer(root: &Path, number: u32, names_max: u64) -> Process {
    let growing = Growing {
        sync: SyncMode::None,
        block_bytes: 65_536,
        sizes: LogNormal::new(4096, 1.0, 1 << 20),
        directories: 3,
        files: 11,
        unit_bytes: 4096,
        bytes_max: 64 << 20,
        names_max,
    };
    let task = Task::Write(WalkedDir::open(root).expect("there"), growing, u64::from(number));
    Process { task, number, first_window: 1 }
}

fn session<'a>(stop: &'a StopFlag, window_ms: u64, warm_ups_ms: &[u64]) -> Session<'a> {
    Session {
        clock: FastClock::monotonic(),
        stop,
        window_ns: window_ms * 1_000_000,
        warm_ups_ns: warm_ups_ms.iter().map(|ms| ms * 1_000_000).collect(),
        points: 1_000,
        seed: 1,
    }
}

fn small_tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("temporary directory");
    for number in 0..20 {
        std::fs::create_dir(dir.path().join(format!("d{number}"))).expect("made");
        std::fs::write(dir.path().join(format!("d{number}/f")), vec![1; 5_000]).expect("written");
    }
    dir
}

#[test]
fn readers_go_on_while_writers_come() {
    let (tree, grown) = (small_tree(), tempfile::tempdir().expect("temporary directory"));
    let (stop, mut ear) = (StopFlag::default(), Ear::default());
    let processes =
        [reader(tree.path(), 0), reader(tree.path(), 1), writer(grown.path(), 0, u64::MAX)];
    let outcome = run(&session(&stop, 300, &[0, 200]), &processes, &mut ear).expect("started");
    assert!(outcome.failed.is_none() && !outcome.is_interrupted);
    let [alone, together] = &outcome.windows[..] else { panic!("two windows") };
    assert_eq!((alone.processes.len(), together.processes.len()), (2, 3));
    assert_eq!(together.processes[2].role, Role::Writer);
    for windowed in [alone, together] {
        assert_eq!(windowed.window.length_ns(), 300_000_000, "exact, whenever it was seen");
        for process in &windowed.processes {
            assert!(process.operations() > 0);
            assert_eq!(process.operations_by_second.iter().sum::<u64>(), process.operations());
            // One after the other: what was done, and what crosses the borders, fits.
            let spent: u128 = process.classes.iter().map(|c| c.latency_ns.sum()).sum();
            assert!(spent <= 300_000_000, "{spent}");
            assert!(process.crossings.len() <= 2, "{:?}", process.crossings);
        }
        let points = &windowed.stream;
        assert!(!points.is_empty() && points.start_us.iter().all(|us| *us < 300_000));
        let done: u64 = windowed.processes.iter().map(FsopProcess::operations).sum();
        assert_eq!(points.operations, done);
    }
    let gap_ns = together.window.start_ns - alone.window.end_ns;
    assert_eq!((gap_ns, ear.ends, ear.seconds.len()), (200_000_000, 2, 2));
    assert!(alone.processes[0].rounds > 0, "a small tree is gone through many times");
}

#[test]
fn a_failure_ends_all_and_tells_whose_it_was() {
    let (tree, grown) = (small_tree(), tempfile::tempdir().expect("temporary directory"));
    // What the writer is about to make is there already.
    std::fs::write(grown.path().join("f0000003"), "somebody's").expect("written");
    let (stop, mut ear) = (StopFlag::default(), Ear::default());
    let processes = [reader(tree.path(), 0), writer(grown.path(), 0, u64::MAX)];
    let short = Session { warm_ups_ns: vec![0, 0], ..session(&stop, 100, &[]) };
    let outcome = run(&short, &processes, &mut ear).expect("started");
    let (role, number, failed) = outcome.failed.expect("it exists");
    assert_eq!((role, number, failed.class), (Role::Writer, 0, OpClass::OpenWrite));
    assert_eq!(failed.error.kind(), io::ErrorKind::AlreadyExists);
    assert!(failed.name.ends_with("f0000003"), "{}", failed.name);
    assert_eq!(outcome.windows.len(), 2);
    assert!(outcome.windows[1].window.length_ns() < 100_000_000, "cut short");
    let writer = outcome.windows[1].processes.iter().find(|process| process.role == Role::Writer);
    assert_eq!(writer.expect("it is there").ended_early_ns, None, "it failed, and was not full");
    assert_eq!(std::fs::read(grown.path().join("f0000003")).expect("there"), b"somebody's");
}

#[test]
fn a_writer_that_has_made_all_it_may_says_when() {
    let grown = tempfile::tempdir().expect("temporary directory");
    let (stop, mut ear) = (StopFlag::default(), Ear::default());
    let process = Process { first_window: 0, ..writer(grown.path(), 0, 40) };
    let outcome = run(&session(&stop, 300, &[0]), &[process], &mut ear).expect("started");
    let ended_ns = outcome.windows[0].processes[0].ended_early_ns.expect("it was full");
    assert!(ended_ns < 300_000_000);
    assert_eq!(outcome.windows[0].window.length_ns(), 300_000_000);
}

/// What is counted of a session that a signal ends lies in the window as it came to be.
#[test]
fn a_signal_cuts_the_window_for_all() {
    let tree = small_tree();
    let (stop, mut ear) = (StopFlag::default(), Ear::default());
    let long = session(&stop, 60_000, &[0]);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            stop.set(2);
        });
        run(&long, &[reader(tree.path(), 0), reader(tree.path(), 1)], &mut ear).expect("started")
    });
    assert!(outcome.is_interrupted);
    let windowed = &outcome.windows[0];
    let length_ns = windowed.window.length_ns();
    assert!(length_ns < 60_000_000_000, "{length_ns}");
    for process in &windowed.processes {
        let seconds = length_ns.div_ceil(SECOND_NS) as usize;
        assert_eq!(process.operations_by_second.len(), seconds);
        assert!(process.operations() > 0);
        let spent: u128 = process.classes.iter().map(|c| c.latency_ns.sum()).sum();
        assert!(spent <= u128::from(length_ns), "{spent} of {length_ns}");
        // What crosses the end is known to have gone on there.
        let ages = process.crossings.iter().filter_map(|c| c.age_at_end_ns(length_ns));
        assert!(ages.count() <= 1);
    }
    let stream = &windowed.stream;
    let end_ns = |at: usize| Some(stream.start_us[at] * 1_000 + stream.took_ns(at)?);
    let inside = |at: usize| end_ns(at).is_some_and(|end_ns| end_ns <= length_ns);
    assert!((0..stream.len()).all(inside));
}
