//! Jobs in processes of their own, because a control group limits the I/O of whole processes.
//!
//! Each part is a copy of this process that runs its jobs as [`run`](crate::run) does. The original issues nothing: it lets
//! all of them begin their window at the same time of the one clock, adds up what they say, and ends them. What they have in common
//! with it is a line of text: `go NANOSECONDS` and `stop` one way, a [`Word`] the other.

use crate::limits::InControl;
use crate::run::{self, Control, JobSetup, LoadError, Observer, Outcome, Start, Syncing, Tick};
use fathom_base::clock::Clock;
use fathom_base::json;
use fathom_model::record::{CpuTime, IoFailure, JobRecord};
use fathom_sys::clock::FastClock;
use fathom_sys::fork::Fork;
use fathom_sys::signals::StopFlag;
use fathom_sys::threads::{CpuUse, process_cpu};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// Jobs that share a process.
pub struct Part<'a> {
    /// Their places among all jobs.
    pub jobs: Vec<usize>,
    /// Called with the number of the process before it does anything: puts it where it belongs.
    pub admit: Box<dyn Fn(u32) -> io::Result<()> + 'a>,
}

/// What the process of a part says, one line each.
#[derive(Serialize, Deserialize)]
enum Word {
    /// All its workers wait for the start.
    Ready,
    /// It cannot start.
    Refused(String),
    /// Its last worker has left the window.
    Ended,
    /// About once per interval.
    Tick(Tick),
    /// What came out.
    Done(Box<PartOutcome>),
}

#[derive(Serialize, Deserialize)]
struct PartOutcome {
    /// The list of their records.
    jobs: Box<RawValue>,
    started_unix_ns: i64,
    window_ns: u64,
    held_up_ns: u64,
    interrupted: bool,
    failure: Option<IoFailure>,
    /// CPU time of the process in the window.
    cpu: CpuTime,
}

/// Runs all jobs at the same time, each part in a process of its own; every job belongs to one part. Jobs that verify, or share a
/// cursor with another part, cannot run so: what they note stays in their process.
///
/// # Errors
/// [`LoadError`] as of [`run::run`]; [`LoadError::Apart`] also when a process ended before its time, with everything issued
/// until then lost for the record.
pub fn run(
    parts: &[Part<'_>],
    setups: &[JobSetup<'_>],
    control: &Control<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, LoadError> {
    // What can be said before anything starts is said in full, with the job.
    run::check(setups)?;
    let warmup_ns = setups.iter().map(|s| s.plan.job.warmup_ns).max().unwrap_or(0);
    let mut forks = Vec::new();
    for part in parts {
        forks.push(start(part, setups, control, warmup_ns)?);
    }
    let (send, words) = mpsc::channel();
    let result = std::thread::scope(|scope| -> Result<Vec<State>, Lost> {
        let lines: Vec<_> = forks.iter().map(Fork::line).collect();
        // However this ends, also by a panic: nobody goes on waiting for a word.
        let _hang_up: Vec<HangUp<'_>> = lines.iter().copied().map(HangUp).collect();
        for (index, line) in lines.iter().copied().enumerate() {
            let send = send.clone();
            let reader = std::thread::Builder::new().spawn_scoped(scope, move || {
                for said in BufReader::new(line).lines() {
                    let word = said.ok().and_then(|said| json::from_str(&said).ok());
                    if send.send((index, word)).is_err() {
                        return;
                    }
                }
                let _ = send.send((index, None));
            });
            reader.map_err(|error| Lost::Refused(apart("starting a thread")(error)))?;
        }
        drop(send);
        let mut run = Run {
            parts: (0..parts.len()).map(|_| State::default()).collect(),
            names: parts.iter().map(|part| names(part, setups)).collect(),
            lines,
            words,
            control,
        };
        run.conduct(setups, warmup_ns, observer).map(|()| run.parts)
    });
    match result {
        Ok(states) => {
            // All that they had to say is here.
            forks.iter_mut().for_each(|fork| drop(fork.wait()));
            Ok(whole(parts, states, setups.len(), control.stop.is_set()))
        }
        Err(Lost::Refused(error)) => Err(error),
        Err(Lost::Gone(index)) => {
            let how = forks[index].wait().map_or_else(|e| e.to_string(), how_it_ended);
            let names = names(&parts[index], setups);
            Err(LoadError::Apart(format!(
                "the process that {names} ran in {how} before its time: nothing was measured; somebody killed it, or memory \
                 ran out (dmesg says so)"
            )))
        }
    }
}

fn how_it_ended(end: std::process::ExitStatus) -> String {
    match (end.signal(), end.code()) {
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with code {code}"),
        (None, None) => "ended".into(),
    }
}

fn apart(what: &str) -> impl Fn(io::Error) -> LoadError + '_ {
    move |error| LoadError::Apart(format!("{what}: {error}"))
}

/// `job 'a'`, or all of them.
fn names(part: &Part<'_>, setups: &[JobSetup<'_>]) -> String {
    let of = |index: &usize| format!("'{}'", setups[*index].plan.job.name);
    let all: Vec<String> = part.jobs.iter().map(of).collect();
    format!("{} {}", if all.len() == 1 { "job" } else { "jobs" }, all.join(", "))
}

/// Starts the process of a part, which then waits to be let go.
fn start(
    part: &Part<'_>,
    setups: &[JobSetup<'_>],
    control: &Control<'_>,
    warmup_ns: u64,
) -> Result<Fork, LoadError> {
    let cure = "the limit of processes (ulimit -u, or pids.max of the control group) or the memory is used up";
    let fork = Fork::start(|line| {
        let mine: Vec<JobSetup<'_>> = part
            .jobs
            .iter()
            .map(|index| &setups[*index])
            .map(|setup| JobSetup { plan: setup.plan.clone(), target: setup.target })
            .collect();
        work(&line, &mine, control.clock, control.interval_ns, warmup_ns);
    });
    let fork = fork.map_err(|error| {
        let names = names(part, setups);
        LoadError::Apart(format!("starting a process for {names}: {error}; {cure}"))
    })?;
    (part.admit)(fork.pid()).map_err(apart("the control group of a job"))?;
    tell(fork.line(), "admitted");
    Ok(fork)
}

/// One line to a process. One that is gone does not hear it, which its own line shows.
fn tell(mut line: &UnixStream, what: &str) {
    let _ = line.write_all(format!("{what}\n").as_bytes());
}

/// In the process of a part: all that it does.
fn work(
    line: &UnixStream,
    setups: &[JobSetup<'_>],
    clock: FastClock,
    interval_ns: u64,
    warmup_ns: u64,
) {
    let mut said = BufReader::new(line).lines();
    // Not before this process is where it belongs.
    if said.next().is_none_or(|said| said.is_err()) {
        return;
    }
    let (go_send, go) = mpsc::channel();
    let (flag_send, flag) = mpsc::channel();
    std::thread::scope(|scope| {
        let _hang_up = HangUp(line);
        scope.spawn(move || {
            let stop = StopFlag::heard_here();
            let _ = flag_send.send(stop.clone());
            for said in said.map_while(Result::ok) {
                match said.split_once(' ') {
                    Some(("go", ns)) => {
                        let _ = ns.parse().map(|ns: u64| go_send.send(ns));
                    }
                    _ => stop.set(ASKED),
                }
            }
            // The other end is closed: nobody listens any more.
            stop.set(ASKED);
        });
        let Ok(stop) = flag.recv() else { return };
        say(line, &part_outcome(line, setups, &stop, &go, (clock, interval_ns, warmup_ns)));
    });
}

/// Ends the line, also when a panic ends the work: the thread that reads it waits for nothing else.
struct HangUp<'a>(&'a UnixStream);

impl Drop for HangUp<'_> {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// What a request of the original counts as; which signal it was, only the original says.
const ASKED: i32 = i32::MAX;

fn part_outcome(
    line: &UnixStream,
    setups: &[JobSetup<'_>],
    stop: &StopFlag,
    go: &Receiver<u64>,
    (clock, interval_ns, warmup_ns): (FastClock, u64, u64),
) -> Word {
    let mut observer = Speaker { line, begin: CpuUse::default(), cpu: CpuUse::default() };
    let control = Control { clock, interval_ns, stop };
    let window = |_: u64| {
        say(line, &Word::Ready);
        go.recv().map_err(|_| LoadError::CalledOff("the run was called off".into()))
    };
    let start = Start { warmup_ns, window_ns: &window };
    match run::run_at(setups, &control, &mut observer, &start) {
        Err(error) => Word::Refused(error.to_string()),
        Ok(outcome) => match to_raw_value(&outcome.jobs) {
            Err(error) => Word::Refused(error.to_string()),
            Ok(jobs) => Word::Done(Box::new(PartOutcome {
                jobs,
                started_unix_ns: outcome.started_unix_ns,
                window_ns: outcome.window_ns,
                held_up_ns: outcome.held_up_ns,
                interrupted: outcome.interrupted,
                failure: outcome.failure,
                cpu: CpuTime { user_ns: observer.cpu.user_ns, system_ns: observer.cpu.system_ns },
            })),
        },
    }
}

fn say(mut line: &UnixStream, word: &Word) {
    if let Ok(mut text) = serde_json::to_vec(word) {
        text.push(b'\n');
        let _ = line.write_all(&text);
    }
}

/// The observer in the process of a part.
struct Speaker<'a> {
    line: &'a UnixStream,
    begin: CpuUse,
    cpu: CpuUse,
}

impl Observer for Speaker<'_> {
    fn window_begins(&mut self) {
        self.begin = process_cpu();
    }

    fn window_ends(&mut self) {
        self.cpu = process_cpu().since(self.begin);
        say(self.line, &Word::Ended);
    }

    fn tick(&mut self, tick: Tick) {
        say(self.line, &Word::Tick(tick));
    }
}

/// What is known of a part.
#[derive(Default)]
struct State {
    is_ready: bool,
    has_ended: bool,
    tick: Option<Tick>,
    bytes_total: u64,
    outcome: Option<Box<PartOutcome>>,
    jobs: Vec<JobRecord>,
}

/// Why nothing came out.
enum Lost {
    Refused(LoadError),
    /// The line of this part is at its end.
    Gone(usize),
}

struct Run<'a> {
    parts: Vec<State>,
    names: Vec<String>,
    lines: Vec<&'a UnixStream>,
    words: Receiver<(usize, Option<Word>)>,
    control: &'a Control<'a>,
}

/// Until all processes have heard that they may go, on a busy machine.
const WAKE_NS: u64 = 20_000_000;

/// How often the flag of a stop is looked at.
const LOOK_NS: u64 = 50_000_000;

impl Run<'_> {
    fn conduct(
        &mut self,
        setups: &[JobSetup<'_>],
        warmup_ns: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), Lost> {
        while !self.parts.iter().all(|part| part.is_ready) {
            self.listen(LOOK_NS)?;
        }
        let jobs: Vec<_> = setups.iter().map(|s| &s.plan.job).collect();
        // Only now: the copies would inherit it.
        let _held = InControl::of(&jobs, self.control.stop).map_err(Lost::Refused)?;
        observer.starts().map_err(|why| Lost::Refused(LoadError::CalledOff(why)))?;
        let mut is_before = warmup_ns > 0;
        if !is_before {
            observer.window_begins();
        }
        let threads = jobs.iter().map(|job| u64::from(job.threads)).sum();
        let delay_ns = WAKE_NS + run::start_delay_ns(threads);
        let window_ns = self.control.clock.now_ns() + warmup_ns + delay_ns;
        self.tell_all(&format!("go {window_ns}"));
        // A little later than the processes themselves, so that each has said its part.
        let mut tick_ns = window_ns + self.control.interval_ns + self.control.interval_ns / 4;
        let (mut is_told, mut is_inside) = (false, true);
        while self.parts.iter().any(|part| part.outcome.is_none()) {
            let now_ns = self.control.clock.now_ns();
            if is_before && now_ns >= window_ns {
                is_before = false;
                observer.window_begins();
            }
            if is_inside && self.parts.iter().all(|part| part.has_ended) {
                is_inside = false;
                observer.window_ends();
            }
            if is_inside && now_ns >= tick_ns {
                tick_ns += self.control.interval_ns;
                observer.tick(self.tick(now_ns.saturating_sub(window_ns)));
            }
            let of_part = |part: &State| part.outcome.as_ref().is_some_and(|o| o.failure.is_some());
            if !is_told && (self.control.stop.is_set() || self.parts.iter().any(of_part)) {
                is_told = true;
                self.tell_all("stop");
            }
            let next_ns = match (is_before, is_inside) {
                (true, _) => window_ns,
                (false, true) => tick_ns,
                (false, false) => u64::MAX,
            };
            self.listen(next_ns.saturating_sub(now_ns).clamp(10_000, LOOK_NS))?;
        }
        if is_before {
            observer.window_begins();
        }
        if is_inside {
            observer.window_ends();
        }
        Ok(())
    }

    fn tell_all(&self, what: &str) {
        self.lines.iter().for_each(|line| tell(line, what));
    }

    /// Takes in the next word, if one comes within this time.
    fn listen(&mut self, wait_ns: u64) -> Result<(), Lost> {
        let (index, word) = match self.words.recv_timeout(Duration::from_nanos(wait_ns)) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => return Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                let gone = self.parts.iter().position(|part| part.outcome.is_none());
                return gone.map_or(Ok(()), |index| Err(Lost::Gone(index)));
            }
        };
        let part = &mut self.parts[index];
        match word {
            Some(Word::Ready) => part.is_ready = true,
            Some(Word::Refused(why)) => {
                let why = if why.contains("job '") {
                    why
                } else {
                    format!("{}: {why}", self.names[index])
                };
                return Err(Lost::Refused(LoadError::Apart(why)));
            }
            Some(Word::Ended) => part.has_ended = true,
            Some(Word::Tick(tick)) => {
                part.bytes_total = tick.bytes_total;
                part.tick = Some(tick);
            }
            Some(Word::Done(outcome)) => {
                part.jobs =
                    fathom_model::read::jobs(outcome.jobs.get()).map_err(|_| Lost::Gone(index))?;
                (part.has_ended, part.tick) = (true, None);
                part.outcome = Some(outcome);
            }
            None if part.outcome.is_none() => return Err(Lost::Gone(index)),
            None => {}
        }
        Ok(())
    }

    /// All parts together. Percentiles of several do not add up.
    fn tick(&self, elapsed_ns: u64) -> Tick {
        let ticks: Vec<Tick> = self.parts.iter().filter_map(|part| part.tick).collect();
        let sum = |of: fn(&Tick) -> f64| ticks.iter().map(of).sum();
        let only = |of: fn(&Tick) -> Option<u64>| match &ticks[..] {
            [one] => of(one),
            _ => None,
        };
        Tick {
            elapsed_ns,
            iops: sum(|tick| tick.iops),
            bytes_per_s: sum(|tick| tick.bytes_per_s),
            latency_ns_p50: only(|tick| tick.latency_ns_p50),
            latency_ns_p99: only(|tick| tick.latency_ns_p99),
            latency_ns_max: ticks.iter().filter_map(|tick| tick.latency_ns_max).max(),
            in_flight: sum(|tick| tick.in_flight),
            bytes_total: self.parts.iter().map(|part| part.bytes_total).sum(),
            syncing: syncing(&ticks),
        }
    }
}

/// The last syncs of all parts that have not ended, once none of them does anything else.
fn syncing(ticks: &[Tick]) -> Option<Syncing> {
    let all: Vec<Syncing> = ticks.iter().map(|tick| tick.syncing).collect::<Option<_>>()?;
    all.into_iter().reduce(|sum, part| Syncing {
        done: sum.done + part.done,
        files: sum.files + part.files,
        elapsed_ns: sum.elapsed_ns.max(part.elapsed_ns),
    })
}

/// The parts as one.
fn whole(parts: &[Part<'_>], states: Vec<State>, jobs: usize, is_stopped: bool) -> Outcome {
    let mut in_order: Vec<Option<JobRecord>> = (0..jobs).map(|_| None).collect();
    let mut sum = Outcome {
        jobs: Vec::new(),
        started_unix_ns: i64::MAX,
        window_ns: 0,
        held_up_ns: 0,
        interrupted: is_stopped,
        failure: None,
        books: Vec::new(),
        apart_cpu: CpuTime::default(),
    };
    let outcomes = states.into_iter().filter_map(|state| Some((state.outcome?, state.jobs)));
    for (part, (outcome, jobs)) in parts.iter().zip(outcomes) {
        for (index, record) in part.jobs.iter().zip(jobs) {
            in_order[*index] = Some(record);
        }
        sum.started_unix_ns = sum.started_unix_ns.min(outcome.started_unix_ns);
        sum.window_ns = sum.window_ns.max(outcome.window_ns);
        sum.held_up_ns = sum.held_up_ns.max(outcome.held_up_ns);
        // Those that were told to stop because another failed are not what ended the run.
        sum.failure = sum.failure.or(outcome.failure);
        sum.apart_cpu.user_ns += outcome.cpu.user_ns;
        sum.apart_cpu.system_ns += outcome.cpu.system_ns;
    }
    sum.jobs = in_order.into_iter().flatten().collect();
    sum
}

#[cfg(test)]
#[path = "apart_tests.rs"]
mod tests;
