//! The measured loop of jobs on names: one thread creates, looks up or deletes one file after the other. The names are
//! chosen before the window, and the clock is read once for each operation.

use super::{Finished, Lane, Shared, sleep_until};
use crate::recorder::Recorder;
use crate::run::{Control, LoadError};
use crate::worker::LoopCounts;
use fathom_base::clock::Clock;
use fathom_base::prng::Prng;
use fathom_guard::names::NumberPlace;
use fathom_guard::{NamesDir, OwnedNames, TestName};
use fathom_model::metadata::Metadata;
use fathom_model::record::{CensoredOp, IoFailure, OpClass};
use fathom_model::workload::{Access, Job};
use fathom_sys::threads;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

/// The class of what a job does with each name.
pub(super) fn class(metadata: Metadata) -> OpClass {
    match metadata {
        Metadata::Create => OpClass::Create,
        Metadata::Stat => OpClass::Stat,
        Metadata::Delete => OpClass::Unlink,
    }
}

/// How a loop over names ended.
struct Ended {
    counts: LoopCounts,
    failed: Option<(TestName, io::Error)>,
}

impl Lane<'_> {
    /// Prepares the directory, waits for the others, and goes through the names.
    pub(super) fn go_through_names(
        &self,
        directory: &OwnedNames,
        thread: u32,
        shared: &Shared<'_>,
        control: &Control<'_>,
        ready: &mpsc::Sender<Result<(), LoadError>>,
    ) -> Result<Option<Finished>, LoadError> {
        let job = &self.plan().job;
        let (directory, names) = prepare(directory, job, self.plan().seed).map_err(|source| {
            let cure = "look at the target: it must be a directory with free space and inodes";
            self.setup_error(thread, "preparing the directory of files", source, cure.into())
        })?;
        let exchange = self.exchanges[thread as usize].clone();
        let mut recorder = Recorder::new(&self.classes, exchange, control.interval_ns, 1);
        let _ = ready.send(Ok(()));
        if !shared.go.pass() {
            return Ok(None);
        }
        let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
        // Whether the wait was cut short shows before the first name.
        sleep_until(&control.clock, window_start_ns, &|| shared.is_over());
        recorder.begin_window(window_start_ns);
        let cpu_before = threads::thread_cpu();
        let ended = self.measure_names(&directory, &names, shared, control, &mut recorder);
        let cpu = threads::thread_cpu().since(cpu_before);
        let Ended { counts, failed } = ended;
        if let Some((name, error)) = failed {
            shared.fail(failure(job, &name, &error));
        }
        self.running.fetch_sub(1, Ordering::AcqRel);
        let (last, slowest, censored) = recorder.finish(counts.end_ns);
        Ok(Some(Finished {
            lane: self.index,
            thread,
            last,
            slowest,
            censored,
            counts,
            cpu,
            final_sync_ns: None,
            open_loop: None,
            features: Vec::new(),
            book: None,
        }))
    }

    fn measure_names(
        &self,
        directory: &NamesDir,
        names: &[TestName],
        shared: &Shared<'_>,
        control: &Control<'_>,
        recorder: &mut Recorder,
    ) -> Ended {
        let job = &self.plan().job;
        let Some(metadata) = job.metadata else {
            return Ended { counts: LoopCounts::default(), failed: None };
        };
        let window_start_ns = shared.window_start_ns.load(Ordering::Relaxed);
        let window_end_ns = job.duration_ns.map_or(u64::MAX, |d| window_start_ns.saturating_add(d));
        let operations = usize::try_from(job.operations.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let mut counts = LoopCounts { end_ns: window_start_ns, ..LoopCounts::default() };
        let mut start_ns = control.clock.now_ns().max(window_start_ns);
        for name in names.iter().take(operations) {
            if shared.is_over() {
                break;
            }
            let done = match metadata {
                Metadata::Create => directory.create(name),
                Metadata::Stat => directory.stat(name),
                Metadata::Delete => directory.delete(name),
            };
            let end_ns = control.clock.now_ns();
            if let Err(error) = done {
                return Ended { counts, failed: Some((*name, error)) };
            }
            if end_ns > window_end_ns {
                let age_ns = window_end_ns.saturating_sub(start_ns);
                let (class, file, offset_bytes, size_bytes) = (class(metadata), 0, 0, 0);
                recorder.censored.push(CensoredOp {
                    class,
                    age_ns,
                    file,
                    offset_bytes,
                    size_bytes,
                });
                counts.end_ns = window_end_ns;
                break;
            }
            recorder.roll(end_ns);
            recorder.record(class(metadata), end_ns, end_ns - start_ns, 0, 0);
            counts.operations += 1;
            counts.batches += 1;
            (counts.end_ns, start_ns) = (end_ns, end_ns);
        }
        Ended { counts, failed: None }
    }
}

/// The directory, and the names in the order in which the job goes through them. Files are created in a new directory;
/// those that are to be looked up or deleted are created before where nothing is there.
fn prepare(owned: &OwnedNames, job: &Job, seed: u64) -> io::Result<(Arc<NamesDir>, Vec<TestName>)> {
    let mut prng = Prng::new(seed, 0);
    let in_sequence = job.access == Access::Sequential;
    let place = if in_sequence { NumberPlace::First } else { NumberPlace::Last };
    let numbers = 0..job.names.unwrap_or(0);
    if job.metadata == Some(Metadata::Create) {
        let names = numbers.map(|number| TestName::new(number, place, &mut prng)).collect();
        return Ok((owned.renew()?, names));
    }
    let directory = owned.current();
    let mut present = directory.list()?;
    if present.is_empty() {
        for number in numbers {
            directory.create(&TestName::new(number, place, &mut prng))?;
        }
        present = directory.list()?;
    }
    if job.metadata == Some(Metadata::Delete) {
        directory.check_empty(&present)?;
    }
    if !in_sequence {
        shuffle(&mut present, &mut prng);
    }
    Ok((directory, present))
}

/// Every order is equally likely (Fisher and Yates).
fn shuffle(names: &mut [TestName], prng: &mut Prng) {
    for last in (1..names.len()).rev() {
        names.swap(last, prng.below(last as u64 + 1) as usize);
    }
}

/// A failed operation in words: what, why, what to do.
fn failure(job: &Job, name: &TestName, error: &io::Error) -> IoFailure {
    let operation = job.metadata.map_or("", Metadata::word);
    let cure = match error.raw_os_error() {
        Some(28) => "no space or no inodes are left; free some, or use fewer names=",
        Some(122) => "the quota is used up; use fewer names=",
        Some(2) => "somebody else removed it during the run; keep others out of the directory",
        Some(5) => "the device or its backing failed; look at dmesg, and at the health of the disk",
        Some(30) => "the filesystem is read-only",
        _ => "look at dmesg for the kernel's own message",
    };
    IoFailure {
        job: job.name.clone(),
        operation: operation.to_owned(),
        offset_bytes: 0,
        size_bytes: 0,
        errno: error.raw_os_error().unwrap_or(0),
        message: format!("{operation} {}: {error}; {cure}", name.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::plan;
    use crate::run::{self, JobSetup, Observer, Tick};
    use crate::target::LoadTarget;
    use fathom_guard::OwnedDir;
    use fathom_model::keys;
    use fathom_model::workload::EngineKind;
    use fathom_sys::clock::FastClock;
    use fathom_sys::signals::StopFlag;
    use fathom_sys::sysroot::SysRoot;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    struct Ground(PathBuf);

    impl Ground {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("fathom-{name}-{}", std::process::id()));
            std::fs::create_dir_all(dir.join("data")).expect("temporary directory");
            Self(dir)
        }

        fn owned(&self) -> OwnedDir {
            let (data, state) = (self.0.join("data"), self.0.join("state"));
            OwnedDir::create(&SysRoot::live(), &data, "run1", &state).expect("made")
        }
    }

    impl Drop for Ground {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).expect("nobody else uses it");
        }
    }

    fn job(metadata: &str, access: &str, names: &str) -> Job {
        let mut job = Job::default();
        for (key, value) in [("metadata", metadata), ("access", access), ("names", names)] {
            keys::set(&mut job, key, value).expect(key);
        }
        job
    }

    fn there(path: &Path) -> BTreeSet<String> {
        let entries = std::fs::read_dir(names_in(path)).expect("a directory");
        entries
            .map(|entry| entry.expect("entry").file_name().into_string().expect("UTF-8"))
            .collect()
    }

    fn names_in(path: &Path) -> PathBuf {
        let entries = std::fs::read_dir(path).expect("a directory");
        let mut paths = entries.map(|entry| entry.expect("entry").path());
        paths.find(|path| path.is_dir()).expect("the directory of names")
    }

    fn texts(names: &[TestName]) -> Vec<&str> {
        names.iter().map(TestName::as_str).collect()
    }

    #[test]
    fn what_one_phase_creates_the_next_ones_find() {
        let ground = Ground::new("names-phases");
        let mut owned = ground.owned();
        let directory = owned.create_names().expect("made");
        for access in ["sequential", "random"] {
            let (inner, created) =
                prepare(&directory, &job("create", access, "300"), 7).expect("names");
            assert!(there(owned.path()).is_empty(), "nothing is created before the window");
            let numbers: Vec<u32> = texts(&created)
                .iter()
                .map(|name| if access == "random" { &name[name.len() - 7..] } else { &name[..7] })
                .map(|digits| digits.parse().expect("digits"))
                .collect();
            assert_eq!(numbers, (0..300).collect::<Vec<_>>());
            created.iter().for_each(|name| inner.create(name).expect("new"));
            let expected: BTreeSet<String> =
                texts(&created).into_iter().map(str::to_owned).collect();
            assert_eq!(there(owned.path()), expected);
            for metadata in ["stat", "delete"] {
                let order = |seed| {
                    let names = prepare(&directory, &job(metadata, access, "5"), seed);
                    names
                        .expect("names")
                        .1
                        .iter()
                        .map(|n| n.as_str().to_owned())
                        .collect::<Vec<_>>()
                };
                let names = order(1);
                assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), expected, "all once");
                assert_eq!(
                    names == order(2),
                    access == "sequential",
                    "the directory has one order"
                );
            }
        }
        // Not by name, not by number: somebody's file stops it before anything is deleted.
        let precious = names_in(owned.path()).join("thesis.txt");
        std::fs::write(&precious, "mine").expect("written");
        assert!(prepare(&directory, &job("create", "random", "5"), 1).is_err());
        std::fs::remove_file(&precious).expect("removed");
        let first = there(owned.path()).into_iter().next().expect("a file");
        std::fs::write(names_in(owned.path()).join(&first), "mine").expect("written");
        assert!(prepare(&directory, &job("delete", "random", "5"), 1).is_err());
        assert_eq!(there(owned.path()).len(), 300);
        std::fs::write(names_in(owned.path()).join(&first), "").expect("written");
        owned.remove().expect("all of it is ours");
    }

    #[test]
    fn without_anything_there_the_files_are_made_first() {
        let ground = Ground::new("names-first");
        let mut owned = ground.owned();
        let directory = owned.create_names().expect("made");
        let (inner, names) = prepare(&directory, &job("stat", "random", "40"), 3).expect("names");
        assert_eq!((names.len(), there(owned.path()).len()), (40, 40));
        names.iter().for_each(|name| inner.stat(name).expect("it is there"));
        let (_, again) = prepare(&directory, &job("create", "sequential", "40"), 3).expect("names");
        assert!(there(owned.path()).is_empty() && again.len() == 40);
        owned.remove().expect("ours");
    }

    struct Silent;

    impl Observer for Silent {
        fn window_begins(&mut self) {}
        fn window_ends(&mut self) {}
        fn tick(&mut self, _: Tick) {}
    }

    /// Whole runs: every operation is counted once, and an error ends the run with the name of the file.
    #[test]
    fn whole_runs_on_names() {
        let ground = Ground::new("names-runs");
        let mut owned = ground.owned();
        let directory = owned.create_names().expect("made");
        let target = LoadTarget::own_names(&directory);
        let stop = StopFlag::default();
        let (clock, interval_ns) = (FastClock::monotonic(), 2_000_000);
        let control = Control { clock, interval_ns, stop: &stop };
        let run = |job: &Job| {
            let plan = plan(job, 0, 512, 5).expect("fits");
            run::run(&[JobSetup { plan, target: &target }], &control, &mut Silent).expect("starts")
        };
        let steps =
            [("create", OpClass::Create), ("stat", OpClass::Stat), ("delete", OpClass::Unlink)];
        for (metadata, class) in steps {
            let outcome = run(&job(metadata, "random", "3000"));
            let done = &outcome.jobs[0];
            assert_eq!((done.classes.len(), done.engine.kind), (1, EngineKind::Psync));
            let latency_ns = &done.class(class).expect("ended").latency_ns;
            assert_eq!((latency_ns.count(), done.thread_operations[0]), (3000, 3000));
            assert!(latency_ns.sum() <= u128::from(done.window_ns), "one after the other");
            let series = done.series.iter().flat_map(|i| &i.classes);
            assert_eq!(series.map(|c| c.latency_ns.count()).sum::<u64>(), 3000);
            assert!(outcome.failure.is_none() && done.censored.len() <= 1);
            assert_eq!(there(owned.path()).len(), if metadata == "delete" { 0 } else { 3000 });
        }
        let some = Job { operations: Some(7), ..job("create", "sequential", "3000") };
        assert_eq!(run(&some).jobs[0].thread_operations, [7]);
        let found = run(&job("stat", "random", "1"));
        assert_eq!(found.jobs[0].thread_operations, [7], "what is there counts");
        owned.remove().expect("ours");
    }

    #[test]
    fn failures_name_the_file_and_a_cure() {
        let name = TestName::parse("0000042abc").expect("a name");
        for (errno, part) in [(28, "fewer names="), (2, "somebody else"), (77, "dmesg")] {
            let error = io::Error::from_raw_os_error(errno);
            let failure = failure(&job("delete", "random", "1"), &name, &error);
            assert_eq!((failure.operation.as_str(), failure.errno), ("delete", errno));
            let message = &failure.message;
            assert!(
                message.starts_with("delete 0000042abc: ") && message.contains(part),
                "{message}"
            );
        }
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut prng = Prng::new(11, 0);
        let three: Vec<TestName> =
            (0..3).map(|n| TestName::new(n, NumberPlace::First, &mut prng)).collect();
        let mut counts = std::collections::BTreeMap::<Vec<&str>, f64>::new();
        let mut kept = Vec::new();
        for _ in 0..60_000 {
            let mut names = three.clone();
            shuffle(&mut names, &mut prng);
            kept.push(names);
        }
        kept.iter().for_each(|names| *counts.entry(texts(names)).or_default() += 1.0);
        assert_eq!(counts.len(), 6);
        // Chi-square with 5 degrees of freedom: 99.99 % of fair shuffles stay below 25.7.
        let chi: f64 = counts.values().map(|c| (c - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 25.7, "{chi}");
    }
}
