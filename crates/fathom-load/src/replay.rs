//! Requests of a trace instead of a generator's: each at its time, or one after the other as fast as they go.
//!
//! One thread with one ring issues them; they come through a bounded queue, and what happened leaves through another one, so that
//! a trace of any length takes the same memory. Nothing is allocated while it runs.

use crate::engine::{Engine, Op};
use crate::engines::uring::Uring;
use crate::target::LoadTarget;
use crossbeam_queue::ArrayQueue;
use fathom_base::clock::Clock;
use fathom_base::content::Filler;
use fathom_sys::arena::Arena;
use fathom_sys::clock::FastClock;
use fathom_sys::request::FileTable;
use fathom_sys::ring::{Registration, RingOptions};
use fathom_sys::threads;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayKind {
    /// Data from the target.
    Read,
    /// Random data to the target.
    Write,
    /// fdatasync(2).
    Flush,
}

/// A request that is to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRequest {
    /// When, from the start on.
    pub due_ns: u64,
    /// What.
    pub kind: ReplayKind,
    /// Where on the target, in bytes.
    pub offset_bytes: u64,
    /// How much; at most the buffers' size.
    pub size_bytes: u32,
    /// Where it was in the trace, in sectors: for the log.
    pub sector: u64,
    /// And how long.
    pub sectors: u32,
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayStep {
    /// When, from the start on.
    pub time_ns: u64,
    /// The request.
    pub request: ReplayRequest,
    /// It ended, with 0 or an errno; none when it started.
    pub ended: Option<i32>,
}

/// How requests are issued.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRules {
    /// In flight at most.
    pub depth: u32,
    /// The largest request.
    pub buffer_bytes: u32,
    /// At their times; else as soon as there is room.
    pub is_timed: bool,
    /// Seed of what is written.
    pub seed: u64,
}

/// The two queues and what ends it.
pub struct ReplayQueues {
    /// Requests in order.
    pub requests: ArrayQueue<ReplayRequest>,
    /// No more will come.
    pub is_fed: AtomicBool,
    /// What happened, in order.
    pub steps: ArrayQueue<ReplayStep>,
    /// Nothing more will happen.
    pub is_done: AtomicBool,
}

impl ReplayQueues {
    /// Queues of that many places each.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self {
            requests: ArrayQueue::new(places),
            is_fed: AtomicBool::new(false),
            steps: ArrayQueue::new(places),
            is_done: AtomicBool::new(false),
        }
    }
}

/// What the thread itself needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayCost {
    /// Its CPU time.
    pub cpu_ns: u64,
    /// From the start to the last end.
    pub window_ns: u64,
    /// When it started, on the clock.
    pub start_ns: u64,
    /// How often a request was due and the queue of requests was empty: the reader was too slow.
    pub starved: u64,
}

/// Waits are ended so much earlier and the rest is spent looking: sleeps end too late.
const AWAKE_NS: u64 = 80_000;
/// How long it waits at most before it looks whether it is to stop.
const LOOK_NS: u64 = 20_000_000;
/// An empty queue is looked at that often.
const HUNGRY_NS: u64 = 200_000;

/// Issues requests until there are no more, and waits for their ends.
///
/// # Errors
/// Those of making a ring and buffers, and those of the ring itself; those of single requests are steps.
pub fn replay(
    target: &LoadTarget,
    clock: &FastClock,
    rules: ReplayRules,
    queues: &ReplayQueues,
    stop: &dyn Fn() -> bool,
) -> io::Result<ReplayCost> {
    let done = go(target, clock, rules, queues, stop);
    queues.is_done.store(true, Ordering::Release);
    done
}

fn go(
    target: &LoadTarget,
    clock: &FastClock,
    rules: ReplayRules,
    queues: &ReplayQueues,
    stop: &dyn Fn() -> bool,
) -> io::Result<ReplayCost> {
    let file = target.file().ok_or(io::ErrorKind::InvalidInput)?;
    let arena = Arena::new(rules.depth as usize, rules.buffer_bytes as usize)?;
    let options = RingOptions {
        features: Vec::new(),
        polled: false,
        sqpoll: false,
        registration: Registration::Never,
        submit_max: None,
    };
    let engine = Uring::new(FileTable::new(&[file.as_fd()])?, arena, &options)?;
    threads::wake_precisely();
    let cpu = threads::thread_cpu();
    let none = ReplayRequest {
        due_ns: 0,
        kind: ReplayKind::Flush,
        offset_bytes: 0,
        size_bytes: 0,
        sector: 0,
        sectors: 0,
    };
    let mut player = Player {
        engine,
        clock,
        rules,
        queues,
        slots: vec![none; rules.depth as usize],
        free: (0..rules.depth).rev().collect(),
        next: None,
        filler: Filler::noise(rules.seed),
        written: 0,
        start_ns: clock.now_ns(),
        starved: 0,
    };
    player.play(stop)?;
    let used = threads::thread_cpu().since(cpu);
    Ok(ReplayCost {
        cpu_ns: used.user_ns + used.system_ns,
        window_ns: clock.now_ns() - player.start_ns,
        start_ns: player.start_ns,
        starved: player.starved,
    })
}

struct Player<'a, 'f> {
    engine: Uring<'f>,
    clock: &'a FastClock,
    rules: ReplayRules,
    queues: &'a ReplayQueues,
    slots: Vec<ReplayRequest>,
    free: Vec<u32>,
    next: Option<ReplayRequest>,
    /// Makes what is written: by it the guard of test files knows what is fathom's.
    filler: Filler,
    /// Counts writes, so that no two have the same content.
    written: u64,
    start_ns: u64,
    starved: u64,
}

impl Player<'_, '_> {
    fn play(&mut self, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let mut is_over = false;
        loop {
            is_over = is_over || stop();
            let has_more = !is_over && self.issue();
            let in_flight = self.slots.len() - self.free.len();
            if in_flight == 0 && !has_more {
                return Ok(());
            }
            let ended = self.wait(has_more, in_flight)?;
            let time_ns = self.now_ns();
            for _ in 0..ended {
                let Some((slot, result)) = self.engine.take() else { break };
                let request = self.slots[slot as usize];
                let is_short =
                    request.kind != ReplayKind::Flush && result != request.size_bytes as i32;
                let error = if result < 0 {
                    -result
                } else if is_short {
                    EIO
                } else {
                    0
                };
                self.log(ReplayStep { time_ns, request, ended: Some(error) });
                self.free.push(slot);
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns() - self.start_ns
    }

    /// Issues all that may start now. False when no more will come.
    fn issue(&mut self) -> bool {
        loop {
            if self.next.is_none() {
                // Read before the queue: what was pushed before is then seen.
                let is_fed = self.queues.is_fed.load(Ordering::Acquire);
                self.next = self.queues.requests.pop();
                if self.next.is_none() {
                    self.starved += u64::from(!is_fed);
                    return !is_fed;
                }
            }
            let Some(request) = self.next else { return true };
            let now_ns = self.now_ns();
            if self.rules.is_timed && request.due_ns > now_ns {
                return true;
            }
            let Some(slot) = self.free.pop() else { return true };
            self.next = None;
            let ReplayRequest { offset_bytes, size_bytes, .. } = request;
            let op = match request.kind {
                ReplayKind::Read => Op::Read { offset_bytes, size_bytes },
                ReplayKind::Write => {
                    self.written += 1;
                    let buffer = &mut self.engine.buffer_mut(slot)[..size_bytes as usize];
                    self.filler.fill(buffer, offset_bytes, self.written);
                    Op::Write { offset_bytes, size_bytes }
                }
                ReplayKind::Flush => Op::Fdatasync,
            };
            self.slots[slot as usize] = request;
            self.engine.queue(slot, 0, op);
            self.log(ReplayStep { time_ns: now_ns, request, ended: None });
        }
    }

    /// Hands over, and waits for an end or for the time of the next request.
    fn wait(&mut self, has_more: bool, in_flight: usize) -> io::Result<u32> {
        if !has_more || self.free.is_empty() {
            return self.engine.run(1);
        }
        let wait_ns = match self.next {
            None => HUNGRY_NS,
            Some(_) if !self.rules.is_timed => 0,
            Some(next) => {
                next.due_ns.saturating_sub(self.now_ns()).saturating_sub(AWAKE_NS).min(LOOK_NS)
            }
        };
        if in_flight == 0 && wait_ns > 0 {
            self.engine.run(0)?;
            std::thread::sleep(Duration::from_nanos(wait_ns));
            return Ok(0);
        }
        self.engine.run_for(1, wait_ns)
    }

    /// Never lost: when nobody takes what happened, it waits, and the delay shows as such.
    fn log(&self, step: ReplayStep) {
        let mut step = step;
        while let Err(back) = self.queues.steps.push(step) {
            step = back;
            std::thread::yield_now();
        }
    }
}

/// What a short transfer counts as.
const EIO: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 4096;

    fn request(due_ns: u64, kind: ReplayKind, block: u64) -> ReplayRequest {
        let size_bytes = if kind == ReplayKind::Flush { 0 } else { BLOCK };
        let offset_bytes = block * u64::from(BLOCK);
        ReplayRequest { due_ns, kind, offset_bytes, size_bytes, sector: block * 8, sectors: 8 }
    }

    fn run(requests: &[ReplayRequest], is_timed: bool) -> (Vec<ReplayStep>, ReplayCost, Vec<u8>) {
        let name = format!("fathom-replay-{}-{is_timed}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![0; 64 * BLOCK as usize]).expect("written");
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("open");
        let target = LoadTarget::for_test(file, 64 * u64::from(BLOCK), true);
        let queues = ReplayQueues::new(requests.len() * 2 + 1);
        requests.iter().for_each(|request| queues.requests.push(*request).expect("room"));
        queues.is_fed.store(true, Ordering::Release);
        let rules = ReplayRules { depth: 4, buffer_bytes: BLOCK, is_timed, seed: 3 };
        let cost =
            replay(&target, &FastClock::monotonic(), rules, &queues, &|| false).expect("replayed");
        let steps = std::iter::from_fn(|| queues.steps.pop()).collect();
        let content = std::fs::read(&path).expect("read");
        std::fs::remove_file(&path).expect("removed");
        (steps, cost, content)
    }

    #[test]
    fn every_request_starts_in_order_and_ends_once() {
        let kinds = [ReplayKind::Read, ReplayKind::Write, ReplayKind::Flush];
        let requests: Vec<_> = (0..60).map(|n| request(0, kinds[n as usize % 3], n)).collect();
        let (steps, _, content) = run(&requests, false);
        let started: Vec<_> =
            steps.iter().filter(|s| s.ended.is_none()).map(|s| s.request).collect();
        assert_eq!(started, requests);
        assert_eq!(steps.iter().filter(|s| s.ended == Some(0)).count(), 60);
        let depth = |n: &mut i32, s: &ReplayStep| {
            *n += if s.ended.is_none() { 1 } else { -1 };
            Some(*n)
        };
        assert!(steps.iter().scan(0, depth).all(|n| (0..=4).contains(&n)));
        for (block, bytes) in content.chunks(BLOCK as usize).enumerate().take(60) {
            assert_eq!(bytes.iter().any(|b| *b != 0), block % 3 == 1, "block {block}");
        }
    }

    #[test]
    fn timed_requests_never_start_early() {
        let requests: Vec<_> =
            (0..20).map(|n| request(n * 3_000_000, ReplayKind::Read, n)).collect();
        let (steps, cost, _) = run(&requests, true);
        let started: Vec<_> = steps.iter().filter(|s| s.ended.is_none()).collect();
        assert_eq!(started.len(), 20);
        assert!(started.iter().all(|s| s.time_ns >= s.request.due_ns));
        assert!(cost.window_ns >= 57_000_000);
    }
}
