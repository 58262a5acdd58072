//! Requests of a trace instead of a generator's: each at its time, or one after the other as fast as they go.
//!
//! One thread with one ring (or context of libaio) issues them; they come through a bounded queue, and what happened leaves through another one, so that
//! a trace of any length takes the same memory. Nothing is allocated while it runs but the lists of what goes together, once.

mod player;
mod way;

use self::player::Player;
use self::way::Way;
use crate::target::LoadTarget;
use crossbeam_queue::ArrayQueue;
use fathom_base::clock::Clock;
use fathom_sys::arena::Arena;
use fathom_sys::clock::FastClock;
use fathom_sys::request::FileTable;
use fathom_sys::threads;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

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
    /// What is in the device's cache has to be on stable storage before it.
    pub flush_before: bool,
    /// It has to be on stable storage itself when it ends.
    pub flush_after: bool,
    /// It is the rest of the one before, which was too large.
    pub is_rest: bool,
    /// The next one goes with it: merged in the trace, or the rest of it. They wait for the last of them and start at once, and what lies
    /// behind each other is handed over as one request.
    pub is_followed: bool,
}

impl ReplayRequest {
    /// True when the next one becomes one with it, as the kernel would merge them: behind it, of its kind, in buffers of that size, and no
    /// part of a commit.
    fn takes(&self, next: &Self, buffer_bytes: u32) -> bool {
        let is_plain =
            |one: &Self| one.kind != ReplayKind::Flush && !one.flush_before && !one.flush_after;
        is_plain(self)
            && is_plain(next)
            && self.kind == next.kind
            && self.offset_bytes + u64::from(self.size_bytes) == next.offset_bytes
            && self.size_bytes.saturating_add(next.size_bytes) <= buffer_bytes
    }
}

/// What happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayStep {
    /// The request.
    pub request: ReplayRequest,
    /// When it arrived, from the start of the replay on: before it started, where it waited for others that go with it.
    pub arrived_ns: u64,
    /// When it started.
    pub start_ns: u64,
    /// When it ended, with 0 or an errno; none when it started.
    pub ended: Option<(u64, i32)>,
}

/// How requests are issued.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRules {
    /// In flight at most.
    pub depth: u32,
    /// The largest request, and the most that become one.
    pub buffer_bytes: u32,
    /// At their times; else as soon as there is room.
    pub is_timed: bool,
    /// By io_uring; else by libaio.
    pub with_ring: bool,
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

/// Sets a flag when dropped: also when the thread that holds it panics.
pub struct Announce<'a>(pub &'a AtomicBool);

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// What kept requests from being issued.
#[derive(Debug, Error)]
#[error("{what}: {source}")]
pub struct ReplayError {
    /// What was done.
    pub what: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

fn at(what: &'static str) -> impl FnOnce(io::Error) -> ReplayError {
    move |source| ReplayError { what, source }
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
    /// Reads and writes that were handed over.
    pub issued: [u64; 2],
    /// How often fdatasync(2) was.
    pub syncs: u64,
    /// How often a request was due and the queue of requests was empty: the reader was too slow.
    pub starved: u64,
}

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
) -> Result<ReplayCost, ReplayError> {
    let _done = Announce(&queues.is_done);
    go(target, clock, rules, queues, stop)
}

fn go(
    target: &LoadTarget,
    clock: &FastClock,
    rules: ReplayRules,
    queues: &ReplayQueues,
    stop: &dyn Fn() -> bool,
) -> Result<ReplayCost, ReplayError> {
    let none = || io::Error::from(io::ErrorKind::InvalidInput);
    let file = target.file().ok_or_else(none).map_err(at("a target without a file"))?;
    let arena = Arena::new(rules.depth as usize, rules.buffer_bytes as usize)
        .map_err(at("buffers for all requests in flight"))?;
    let table = FileTable::new(&[file.as_fd()]).map_err(at("a descriptor of the target"))?;
    let way = Way::new(table, arena, rules.with_ring)?;
    let call = way.call();
    threads::wake_precisely();
    let cpu = threads::thread_cpu();
    let mut player = Player::new(way, clock, rules, queues);
    player.play(stop).map_err(at(call))?;
    let used = threads::thread_cpu().since(cpu);
    Ok(ReplayCost {
        cpu_ns: used.user_ns + used.system_ns,
        window_ns: clock.now_ns() - player.start_ns(),
        start_ns: player.start_ns(),
        issued: player.issued(),
        syncs: player.syncs(),
        starved: player.starved(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 4096;

    fn request(due_ns: u64, kind: ReplayKind, block: u64) -> ReplayRequest {
        let size_bytes = if kind == ReplayKind::Flush { 0 } else { BLOCK };
        let offset_bytes = block * u64::from(BLOCK);
        // Every third write is a commit.
        let (flush_before, flush_after) = (
            kind == ReplayKind::Write && block % 9 == 1,
            kind == ReplayKind::Write && block % 9 < 5,
        );
        let (is_rest, is_followed) = (false, false);
        ReplayRequest {
            due_ns,
            kind,
            offset_bytes,
            size_bytes,
            flush_before,
            flush_after,
            is_rest,
            is_followed,
        }
    }

    fn run(
        requests: &[ReplayRequest],
        is_timed: bool,
        with_ring: bool,
    ) -> (Vec<ReplayStep>, ReplayCost, Vec<u8>) {
        // Each test is a thread of its own.
        let name =
            format!("fathom-replay-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, vec![0; 64 * BLOCK as usize]).expect("written");
        let file = std::fs::File::options().read(true).write(true).open(&path).expect("open");
        let target = LoadTarget::for_test(file, 64 * u64::from(BLOCK), true);
        let queues = ReplayQueues::new(requests.len() * 2 + 1);
        requests.iter().for_each(|request| queues.requests.push(*request).expect("room"));
        queues.is_fed.store(true, Ordering::Release);
        let rules = ReplayRules { depth: 4, buffer_bytes: 4 * BLOCK, is_timed, with_ring, seed: 3 };
        let cost =
            replay(&target, &FastClock::monotonic(), rules, &queues, &|| false).expect("replayed");
        let steps = std::iter::from_fn(|| queues.steps.pop()).collect();
        let content = std::fs::read(&path).expect("read");
        std::fs::remove_file(&path).expect("removed");
        (steps, cost, content)
    }

    #[test]
    fn every_request_starts_in_order_and_ends_once() {
        [true, false].into_iter().for_each(all_of_them);
    }

    fn all_of_them(with_ring: bool) {
        let kinds = [ReplayKind::Read, ReplayKind::Write, ReplayKind::Flush];
        let requests: Vec<_> = (0..60).map(|n| request(0, kinds[n as usize % 3], n)).collect();
        let (steps, _, content) = run(&requests, false, with_ring);
        let started: Vec<_> =
            steps.iter().filter(|s| s.ended.is_none()).map(|s| s.request).collect();
        assert_eq!(started, requests);
        assert_eq!(
            steps
                .iter()
                .filter(|s| s
                    .ended
                    .is_some_and(|(end_ns, error)| end_ns >= s.start_ns && error == 0))
                .count(),
            60
        );
        let depth = |n: &mut i32, s: &ReplayStep| {
            *n += if s.ended.is_none() { 1 } else { -1 };
            Some(*n)
        };
        assert!(steps.iter().scan(0, depth).all(|n| (0..=4).contains(&n)));
        for (block, bytes) in content.chunks(BLOCK as usize).enumerate().take(60) {
            assert_eq!(bytes.iter().any(|b| *b != 0), block % 3 == 1, "block {block}");
        }
    }

    /// What goes together starts with the last of it, as one request where it lies behind each other and the buffer has room; each arrives
    /// at its own time.
    #[test]
    fn what_was_merged_starts_together() {
        let request = |due_ns: u64, block: u64, is_followed: bool| ReplayRequest {
            is_followed,
            ..request(due_ns, ReplayKind::Read, block)
        };
        let mut requests: Vec<_> = (0..6).map(|n| request(n * 100_000, n, n < 5)).collect();
        requests.extend([request(5_000_000, 9, true), request(5_200_000, 20, false)]);
        requests.extend([request(9_000_000, 30, false), request(9_000_000, 31, false)]);
        for with_ring in [true, false] {
            let (steps, cost, _) = run(&requests, true, with_ring);
            let started: Vec<_> = steps.iter().filter(|s| s.ended.is_none()).collect();
            let at = |from: usize, to: usize| {
                let first_ns = started[from].start_ns;
                assert!(started[from..=to].iter().all(|s| s.start_ns == first_ns));
                first_ns
            };
            let late_ns = at(0, 5) - 500_000;
            for (number, step) in (0..).zip(&started[..6]) {
                assert_eq!(step.arrived_ns, number * 100_000 + late_ns);
            }
            assert!(at(6, 7) >= 5_200_000);
            // Four blocks fit into a buffer: 4 + 2, two that lie apart, and two of which nobody says that they were one.
            assert_eq!((started.len(), cost.issued), (10, [6, 0]));
            assert_eq!(steps.iter().filter(|s| s.ended.is_some_and(|e| e.1 == 0)).count(), 10);
        }
    }

    /// As one request they are the same bytes, and commits stay apart.
    #[test]
    fn what_becomes_one_has_the_content_of_all() {
        let write = |block: u64, flush_after: bool, is_followed: bool| ReplayRequest {
            flush_before: false,
            flush_after,
            is_followed,
            ..request(0, ReplayKind::Write, block)
        };
        let mut requests: Vec<_> = (8..12).map(|block| write(block, false, block < 11)).collect();
        requests.extend([write(20, false, true), write(21, true, false)]);
        for with_ring in [true, false] {
            let (_, cost, content) = run(&requests, false, with_ring);
            assert_eq!((cost.issued, cost.syncs), ([0, 3], 1));
            let written: Vec<_> = content.chunks(BLOCK as usize).collect();
            for (block, bytes) in written.iter().enumerate() {
                let is_written = matches!(block, 8..12 | 20 | 21);
                assert_eq!(bytes.iter().any(|b| *b != 0), is_written, "block {block}");
            }
            assert!(written[8] != written[9] && written[9] != written[10]);
        }
    }

    #[test]
    fn timed_requests_never_start_early() {
        let requests: Vec<_> =
            (0..20).map(|n| request(n * 3_000_000, ReplayKind::Read, n)).collect();
        for with_ring in [true, false] {
            let (steps, cost, _) = run(&requests, true, with_ring);
            let started: Vec<_> = steps.iter().filter(|s| s.ended.is_none()).collect();
            assert_eq!(started.len(), 20);
            assert!(started.iter().all(|s| s.start_ns >= s.request.due_ns));
            assert!(cost.window_ns >= 57_000_000);
        }
    }
}
