//! Jobs in processes of their own: counted together, ended together, and missed when they are gone.

use super::*;
use crate::plan::plan;
use crate::target::LoadTarget;
use fathom_model::keys;
use fathom_model::record::OpClass;
use fathom_model::workload::Job;
use fathom_sys::clock::Calibration;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Calls, and what is done at the start of the window.
#[derive(Default)]
struct Seen<'a> {
    begun: u32,
    ended: u32,
    ticks: Vec<Tick>,
    at_start: Option<Box<dyn Fn() + 'a>>,
}

impl Observer for Seen<'_> {
    fn window_begins(&mut self) {
        self.begun += 1;
        self.at_start.iter().for_each(|act| act());
    }
    fn window_ends(&mut self) {
        assert_eq!(self.begun, 1);
        self.ended += 1;
    }
    fn tick(&mut self, tick: Tick) {
        self.ticks.push(tick);
    }
}

/// A file without a name, of which `written_bytes` are there.
fn target(written_bytes: usize, size_bytes: u64) -> LoadTarget {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::current_exe().expect("a program");
    let path = path.with_file_name(format!("apart-{}-{number}", std::process::id()));
    let mut file =
        File::options().read(true).write(true).create_new(true).open(&path).expect("room");
    std::fs::remove_file(&path).expect("just made");
    file.write_all(&vec![0x5A; written_bytes]).expect("space");
    LoadTarget::for_test(file, size_bytes, false)
}

fn job(name: &str, pairs: &[(&str, &str)]) -> Job {
    let mut job = Job { name: name.into(), direct: false, ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    job
}

/// Runs each job in a process of its own but for the last two, which share one; with the processes that there were.
fn run_jobs(
    jobs: &[Job],
    targets: &[&LoadTarget],
    stop: &StopFlag,
    seen: &mut Seen<'_>,
    pids: &Mutex<Vec<u32>>,
) -> Result<Outcome, LoadError> {
    let setups: Vec<JobSetup<'_>> = jobs
        .iter()
        .zip(targets)
        .map(|(job, target)| JobSetup {
            plan: plan(job, target.size_bytes(), 512, 3).expect("fits"),
            target,
        })
        .collect();
    let note = |pid: u32| {
        pids.lock().expect("no panic").push(pid);
        Ok(())
    };
    let (own, shared) = (0..jobs.len() - 2, vec![jobs.len() - 2, jobs.len() - 1]);
    let parts: Vec<Part<'_>> = std::iter::once(shared)
        .chain(own.map(|job| vec![job]))
        .map(|jobs| Part { jobs, admit: Box::new(note) })
        .collect();
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    run(&parts, &setups, &Control { clock, interval_ns: 50_000_000, stop }, seen)
}

fn count(record: &JobRecord) -> u64 {
    record.class(OpClass::Read).map_or(0, |class| class.latency_ns.count())
}

const MIB: usize = 1 << 20;

#[test]
fn jobs_of_several_processes_are_one_run() {
    let file = target(MIB, MIB as u64);
    let names = ["a", "b", "c", "d"];
    // Long beside a tick, before which the kernel tells no thread of the time that it has used.
    let jobs: Vec<Job> = (1..)
        .zip(names)
        .map(|(n, name)| {
            job(name, &[("operations", &(20_000 * n).to_string()), ("engine", "psync")])
        })
        .collect();
    let (mut seen, pids) = (Seen::default(), Mutex::default());
    let outcome =
        run_jobs(&jobs, &[&file; 4], &StopFlag::default(), &mut seen, &pids).expect("it runs");
    assert_eq!(outcome.jobs.iter().map(|j| &j.name[..]).collect::<Vec<_>>(), names);
    assert_eq!(
        outcome.jobs.iter().map(count).collect::<Vec<_>>(),
        [20_000, 40_000, 60_000, 80_000]
    );
    assert_eq!((seen.begun, seen.ended), (1, 1));
    let mut pids = pids.into_inner().expect("no panic");
    pids.push(std::process::id());
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 4, "three processes, and none of them this one");
    assert!(outcome.failure.is_none() && !outcome.interrupted);
    let longest_ns = outcome.jobs.iter().map(|job| job.window_ns).max();
    assert_eq!(Some(outcome.window_ns), longest_ns);
    let used_ns: u64 = outcome.jobs.iter().map(|job| job.cpu.total_ns()).sum();
    let apart_ns = outcome.apart_cpu.total_ns();
    assert!(
        used_ns > 0 && apart_ns > used_ns / 2,
        "{apart_ns} of the processes, {used_ns} of the threads"
    );
}

#[test]
fn they_run_at_the_same_time_and_a_stop_ends_all() {
    let file = target(MIB, MIB as u64);
    let asked = [("duration", "30s"), ("warmup", "100ms"), ("engine", "psync")];
    let jobs = ["a", "b", "c"].map(|name| job(name, &asked));
    let stop = StopFlag::default();
    let stopper = stop.clone();
    let end_it = move || {
        let stop = stopper.clone();
        std::thread::spawn(move || {
            // Long beside what a start of a process takes on a busy machine.
            std::thread::sleep(Duration::from_secs(3));
            stop.set(15);
        });
    };
    let mut seen = Seen { at_start: Some(Box::new(end_it)), ..Seen::default() };
    let outcome =
        run_jobs(&jobs, &[&file; 3], &stop, &mut seen, &Mutex::default()).expect("it runs");
    assert!(outcome.interrupted);
    assert!(outcome.window_ns < 20_000_000_000, "{}", outcome.window_ns);
    // Each was there for most of the time that the longest was.
    for job in &outcome.jobs {
        assert!(count(job) > 0 && job.window_ns > outcome.window_ns / 2, "{}", job.name);
    }
    let last = seen.ticks.iter().rfind(|tick| tick.iops > 0.0).expect("progress");
    assert!(last.bytes_total > 0 && last.latency_ns_p50.is_none(), "{last:?}");
}

#[test]
fn a_failure_in_one_ends_all() {
    let (good, short) = (target(MIB, MIB as u64), target(4096, MIB as u64));
    let forever = [("duration", "60s"), ("engine", "psync")];
    let jobs = ["short", "b", "c"].map(|name| job(name, &forever));
    let mut seen = Seen::default();
    let targets = [&short, &good, &good];
    let outcome = run_jobs(&jobs, &targets, &StopFlag::default(), &mut seen, &Mutex::default());
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.failure.expect("reads beyond the end").job, "short");
    assert!(!outcome.interrupted && outcome.window_ns < 30_000_000_000);
}

#[test]
fn a_process_that_is_gone_is_an_error_that_says_so() {
    let file = target(MIB, MIB as u64);
    let forever = [("duration", "60s"), ("engine", "psync")];
    let jobs = ["a", "b", "c"].map(|name| job(name, &forever));
    let pids = Mutex::new(Vec::new());
    let kill = || {
        let pid: u32 = pids.lock().expect("no panic")[1];
        let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(killed.is_ok_and(|end| end.success()));
    };
    let mut seen = Seen { at_start: Some(Box::new(kill)), ..Seen::default() };
    let error = run_jobs(&jobs, &[&file; 3], &StopFlag::default(), &mut seen, &pids);
    let error = error.expect_err("nothing to show").to_string();
    assert!(error.contains("job 'a'") && error.contains("signal 9"), "{error}");
    for pid in pids.lock().expect("no panic").iter() {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} is left");
    }
}

#[test]
fn a_panic_in_a_process_ends_the_run() {
    let fork = Fork::start(|line| {
        std::thread::scope(|scope| {
            let _hang_up = HangUp(&line);
            scope.spawn(|| BufReader::new(&line).lines().count());
            std::panic::resume_unwind(Box::new("on purpose"));
        });
    });
    let mut fork = fork.expect("a process");
    let mut said = String::new();
    BufReader::new(fork.line()).read_line(&mut said).expect("the line ends");
    assert_eq!(said, "");
    assert_eq!(fork.wait().expect("ours").code(), Some(101));
}

#[test]
fn what_keeps_one_from_starting_is_told_and_nobody_starts() {
    let file = target(MIB, MIB as u64);
    let jobs = ["a", "b"].map(|name| job(name, &[("operations", "10"), ("engine", "psync")]));
    let setups: Vec<JobSetup<'_>> = jobs
        .iter()
        .map(|job| JobSetup { plan: plan(job, MIB as u64, 512, 3).expect("fits"), target: &file })
        .collect();
    let admit =
        |index: usize| move |_| if index == 0 { Ok(()) } else { Err(io::Error::other("full")) };
    let parts = [0, 1].map(|index| Part { jobs: vec![index], admit: Box::new(admit(index)) });
    let stop = StopFlag::default();
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    let mut seen = Seen::default();
    let control = Control { clock, interval_ns: 50_000_000, stop: &stop };
    let error = run(&parts, &setups, &control, &mut seen).expect_err("no room").to_string();
    assert_eq!(error, "the control group of a job: full");
    assert_eq!((seen.begun, seen.ended), (0, 0));
}

/// What must be the same of a job, whether it runs in a process of its own or beside the others.
fn what_must_agree(job: &JobRecord) -> serde_json::Value {
    let in_intervals = |class: OpClass| {
        let classes = job.series.iter().flat_map(|interval| &interval.classes);
        let own = classes.filter(|one| one.class == class);
        own.fold((0, 0), |(count, bytes), one| (count + one.latency_ns.count(), bytes + one.bytes))
    };
    let classes = job.classes.iter().map(|one| {
        let (count, bytes) = (one.latency_ns.count(), one.bytes);
        assert_eq!(in_intervals(one.class), (count, bytes), "{}: the intervals add up", job.name);
        serde_json::json!([one.class, count, bytes])
    });
    let mut slowest: Vec<String> = job
        .slowest
        .iter()
        .map(|op| format!("{:?} {} {}", op.class, op.offset_bytes, op.size_bytes))
        .collect();
    slowest.sort();
    serde_json::json!({
        "name": job.name,
        "engine": job.engine,
        "classes": classes.collect::<Vec<_>>(),
        // Which of many are the slowest is chance.
        "requests": if slowest.len() < 100 { slowest } else { vec![slowest.len().to_string()] },
        "censored": job.censored,
        "limits": job.limits,
        "batches": job.batches,
        "thread_operations": job.thread_operations,
        "thread_bytes": job.thread_times.iter().map(|one| one.bytes).collect::<Vec<_>>(),
        "has_final_sync": job.final_sync_ns.is_some(),
        "open_loop": job.open_loop.as_ref().map(|open| (open.due, open.not_started, open.classes.len())),
        "verify": job.verify,
        "delivered": job.delivered,
    })
}

/// A record says the same of a job however it ran, and has its figures in the same fields.
#[test]
fn records_agree_with_those_of_one_process() {
    let file = target(MIB, MIB as u64);
    let jobs = [
        job("mixed", &[("engine", "psync"), ("operations", "90"), ("block_size", "4k:3,16k:1")]),
        job("many", &[("engine", "psync"), ("operations", "3000"), ("threads", "3")]),
        job("open", &[("engine", "psync"), ("operations", "300"), ("rate", "3000")]),
        job("swept", &[("engine", "psync"), ("operations", "64"), ("access", "sequential")]),
    ];
    let (stop, pids) = (StopFlag::default(), Mutex::default());
    let mut seen = Seen::default();
    let apart = run_jobs(&jobs, &[&file; 4], &stop, &mut seen, &pids).expect("it runs");
    let setups: Vec<JobSetup<'_>> = jobs
        .iter()
        .map(|job| JobSetup { plan: plan(job, MIB as u64, 512, 3).expect("fits"), target: &file })
        .collect();
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    let control = Control { clock, interval_ns: 50_000_000, stop: &stop };
    let mut beside = Seen::default();
    let together = run::run(&setups, &control, &mut beside).expect("it runs");
    assert_eq!((seen.begun, seen.ended), (beside.begun, beside.ended));
    assert_eq!(apart.jobs.len(), together.jobs.len());
    for (apart, together) in apart.jobs.iter().zip(&together.jobs) {
        assert_eq!(what_must_agree(apart), what_must_agree(together));
        // What is measured differs, but is there, or is not, in both.
        for measured in [apart, together] {
            assert!(
                measured.window_ns > 0 && measured.thread_times.iter().all(|one| one.busy_ns > 0)
            );
        }
        let fields = |job: &JobRecord| {
            let job = serde_json::to_value(job).expect("a record");
            let all = job.as_object().expect("of fields").iter();
            all.map(|(key, value)| (key.clone(), value.is_null())).collect::<Vec<_>>()
        };
        assert_eq!(fields(apart), fields(together), "{}", apart.name);
    }
    let is_same = (apart.interrupted, apart.failure.is_none())
        == (together.interrupted, together.failure.is_none());
    assert!(is_same && !apart.interrupted && apart.failure.is_none());
}
