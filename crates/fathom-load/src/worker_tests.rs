//! The measured loop against a simulated device whose every latency is known.

use super::*;
use crate::plan::{JobPlan, plan};
use crate::recorder::{Exchange, IntervalBuffer};
use fathom_base::clock::ManualClock;
use fathom_model::keys;
use fathom_model::record::SlowOp;
use fathom_model::workload::Job;
use std::collections::VecDeque;
use std::io;

/// Serves requests one after the other, each in a fixed time, and moves the clock: a disk with one arm.
struct Disk<'c> {
    clock: &'c ManualClock,
    queue: VecDeque<(u32, Op)>,
    ended: VecDeque<(u32, i32)>,
    service_ns: u64,
    /// How much longer calls take, in turn.
    more_ns: Vec<u64>,
    sync_ns: u64,
    fail_at: Option<usize>,
    /// The call that moves a byte less than was asked for.
    short_at: Option<usize>,
    /// So many calls from the start on are given back instead of served.
    given_back: usize,
    /// The call of [`Engine::run`] that fails as a whole.
    break_at: Option<usize>,
    runs: usize,
    log: Vec<Op>,
    buffer: Vec<u8>,
}

impl<'c> Disk<'c> {
    fn new(clock: &'c ManualClock) -> Self {
        let (queue, ended, log) = (VecDeque::new(), VecDeque::new(), Vec::new());
        Self {
            clock,
            queue,
            ended,
            service_ns: 100,
            more_ns: vec![0],
            sync_ns: 1000,
            fail_at: None,
            short_at: None,
            given_back: 0,
            break_at: None,
            runs: 0,
            log,
            buffer: vec![0; 1 << 20],
        }
    }
}

impl Engine for Disk<'_> {
    const CALL: &'static str = "disk";

    fn buffer_mut(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn queue(&mut self, slot: u32, _file: u32, op: Op) {
        self.queue.push_back((slot, op));
    }
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.runs += 1;
        if self.break_at == Some(self.runs) {
            return Err(io::Error::from_raw_os_error(9));
        }
        for _ in 0..wait_for {
            let (slot, op) = self.queue.pop_front().expect("something in flight");
            let (time, result) = match op {
                Op::Read { size_bytes, .. } | Op::Write { size_bytes, .. } => {
                    (self.service_ns, size_bytes as i32)
                }
                _ => (self.sync_ns, 0),
            };
            self.clock.advance_ns(time + self.more_ns[self.log.len() % self.more_ns.len()]);
            self.log.push(op);
            let result = if self.log.len() <= self.given_back {
                -EAGAIN
            } else if self.fail_at == Some(self.log.len()) {
                -5
            } else if self.short_at == Some(self.log.len()) {
                result - 1
            } else {
                result
            };
            self.ended.push_back((slot, result));
        }
        Ok(self.ended.len() as u32)
    }
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ended.pop_front()
    }
}

/// The same disk, and it shows an end before it is taken.
struct Showing<'d, 'c>(&'d mut Disk<'c>);

impl Engine for Showing<'_, '_> {
    const CALL: &'static str = Disk::CALL;
    const SHOWS_END: bool = true;

    fn buffer_mut(&mut self, slot: u32) -> &mut [u8] {
        self.0.buffer_mut(slot)
    }
    fn queue(&mut self, slot: u32, file: u32, op: Op) {
        self.0.queue(slot, file, op);
    }
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.0.run(wait_for)
    }
    fn take(&mut self) -> Option<(u32, i32)> {
        self.0.take()
    }
    fn shown(&self) -> Option<i32> {
        self.0.ended.front().map(|(_, result)| *result)
    }
}

struct Ran {
    ended: Ended,
    buffers: Vec<IntervalBuffer>,
    slow: Vec<SlowOp>,
    censored: Vec<CensoredOp>,
    log: Vec<Op>,
}

impl Ran {
    /// All that it says, for a comparison with another.
    fn all(&self) -> impl PartialEq + std::fmt::Debug + use<'_> {
        let buffer =
            |b: &IntervalBuffer| (b.start_ns, b.length_ns, b.latency_ns.clone(), b.bytes.clone());
        let buffers: Vec<_> = self.buffers.iter().map(buffer).collect();
        let Ended { counts, failed, engine_broke } = self.ended;
        let counts = (counts.batches, counts.operations, counts.end_ns);
        (counts, failed, engine_broke, buffers, &self.slow, &self.censored, &self.log)
    }

    fn class(&self, class: OpClass) -> (u64, Option<u64>, Option<u64>) {
        let mut sum = fathom_stats::Histogram::new();
        self.buffers.iter().for_each(|b| sum.merge(&b.latency_ns[class as usize]));
        (sum.count(), sum.min(), sum.max())
    }
}

fn job_plan(pairs: &[(&str, &str)]) -> JobPlan {
    let mut job = Job { duration_ns: Some(1), ..Job::default() };
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    plan(&job, 1 << 20, 512, 1).expect("fits")
}

fn run(
    pairs: &[(&str, &str)],
    times: Times,
    shape: impl FnOnce(&mut Disk),
    count_drained: bool,
) -> Ran {
    let clock = ManualClock::default();
    let mut disk = Disk::new(&clock);
    shape(&mut disk);
    let ran = run_on(&mut disk, &clock, pairs, (times, u64::MAX), count_drained);
    Ran { log: disk.log, ..ran }
}

/// `stop_ns`: from then on it is to stop.
fn run_on(
    engine: &mut impl Engine,
    clock: &ManualClock,
    pairs: &[(&str, &str)],
    (times, stop_ns): (Times, u64),
    count_drained: bool,
) -> Ran {
    let plan = job_plan(pairs);
    let exchange = Exchange::new(OpClass::ALL.len(), plan.job.rate.is_some());
    let recorder = Recorder::new(&OpClass::ALL, exchange.clone(), 1_000_000, 64);
    let sync_op = JobPlan::sync_op(plan.job.sync_call);
    let generator = Generator::new(&plan, 0, 1);
    let rules = Rules {
        depth: generator.depth_usable(plan.job.depth),
        batch: plan.job.batch,
        sync_op,
        count_drained,
    };
    let pace = Pace::new(&plan.job, plan.seed, 0, 1, rules.depth);
    let payload = crate::payload::Fill::new(None, 0);
    let mut worker = Worker::new(engine, clock, generator, recorder, rules, payload);
    worker.pace = pace;
    let ended = worker.run(times, &|| clock.now_ns() >= stop_ns, || ());
    let (last, slow, censored) = worker.recorder.finish(ended.counts.end_ns);
    let mut buffers: Vec<_> = std::iter::from_fn(|| exchange.full.pop()).map(|b| *b).collect();
    buffers.push(*last);
    Ran { ended, buffers, slow, censored, log: Vec::new() }
}

const WHOLE: Times = Times { start_ns: 0, window_start_ns: 0, window_end_ns: u64::MAX };

#[test]
fn one_in_flight_sees_the_service_time() {
    let ran = run(&[("operations", "50")], WHOLE, |_| (), false);
    assert_eq!(ran.class(OpClass::Read), (50, Some(100), Some(100)));
    let LoopCounts { batches, operations, end_ns } = ran.ended.counts;
    assert_eq!((batches, operations, end_ns), (50, 50, 5000));
    assert!(ran.ended.failed.is_none() && !ran.ended.engine_broke);
}

#[test]
fn queued_requests_wait_for_those_before_them_and_little_holds() {
    let ran = run(&[("operations", "1000"), ("depth", "8")], WHOLE, |_| (), false);
    // The first eight see 100, 200, ... 800; every later one 800, until the queue drains.
    assert_eq!(ran.class(OpClass::Read), (1000, Some(100), Some(800)));
    let mean = ran.buffers[0].latency_ns[0].mean().expect("some");
    let rate = 1000.0 / 100_000.0;
    assert!((mean * rate / 8.0 - 1.0).abs() < 0.01, "mean latency x rate = depth");
}

/// What ends together is what ends one by one: counts, bytes, the slowest, and the first that went wrong.
#[test]
fn batches_count_as_single_ends() {
    let pairs = |batch| [("operations", "999"), ("depth", "8"), ("batch", batch)];
    let shapes: [fn(&mut Disk); 4] = [
        |_| (),
        |disk| disk.given_back = 3,
        |disk| disk.fail_at = Some(303),
        |disk| disk.short_at = Some(303),
    ];
    for (number, shape) in shapes.into_iter().enumerate() {
        let (one, many) =
            (run(&pairs("1"), WHOLE, shape, false), run(&pairs("4"), WHOLE, shape, false));
        assert!(many.ended.counts.batches <= one.ended.counts.batches / 3, "{number}");
        let failed = many.ended.failed;
        assert_eq!(failed.map(|f| (f.operation, f.errno, f.moved_bytes)), {
            [None, None, Some(("read", 5, 0)), Some(("read", 0, 4095))][number]
        });
        // Of the batch with the failure, the others count, also those behind it.
        let counted = [999, 999, 303, 303][number];
        assert_eq!(many.class(OpClass::Read).0, counted, "{number}");
        assert_eq!(many.ended.counts.operations, counted, "{number}");
        let bytes: u64 = many.buffers.iter().map(|b| b.bytes[OpClass::Read as usize]).sum();
        assert_eq!(bytes, counted * 4096, "{number}");
        assert_eq!(one.log[..299], many.log[..299], "the same requests in the same order");
        let longest = many.slow.iter().map(|op| op.latency_ns).max();
        assert_eq!(longest, many.class(OpClass::Read).2, "{number}");
        // A batch is seen when its fourth has ended, after the four before it; one that is given back waits for one batch more.
        assert_eq!(many.class(OpClass::Read).2, Some([800, 1200, 800, 800][number]));
    }
}

/// What one read after another gives on an engine that shows ends is what it gives on others, to the last figure.
#[test]
fn reads_that_follow_each_other_count_as_any() {
    let times =
        |window_start_ns, window_end_ns| Times { start_ns: 0, window_start_ns, window_end_ns };
    let ends = [
        (WHOLE, u64::MAX),
        (times(0, 2_345_678), u64::MAX),
        (times(5_000, 3_000_000), u64::MAX),
        (times(5_000, u64::MAX), 1_234_567),
    ];
    let shapes: [fn(&mut Disk); 5] = [
        |_| (),
        |disk| disk.given_back = 3,
        |disk| disk.fail_at = Some(3003),
        |disk| disk.short_at = Some(3003),
        |disk| disk.break_at = Some(3003),
    ];
    let jobs: [&[(&str, &str)]; 6] = [
        &[("operations", "9999")],
        &[("operations", "9999"), ("warmup", "5us")],
        &[("amount", "20M"), ("block_size", "8k")],
        &[("operations", "9999"), ("block_size", "4k:50,8k:50")],
        &[("operations", "9999"), ("write_fraction", "0.5")],
        &[("operations", "9999"), ("depth", "2")],
    ];
    let cases = jobs.into_iter().flat_map(|job| {
        ends.into_iter().flat_map(move |end| {
            shapes.into_iter().flat_map(move |shape| {
                [false, true].map(|count_drained| (job, end, shape, count_drained))
            })
        })
    });
    let (mut counted, mut longest) = (0, 0);
    for (number, (job, end, shape, count_drained)) in cases.enumerate() {
        let run = |shows: bool| {
            let clock = ManualClock::default();
            let mut disk = Disk::new(&clock);
            disk.more_ns = vec![0, 30, 7, 0, 600, 1, 90_000, 3];
            shape(&mut disk);
            let ran = if shows {
                run_on(&mut Showing(&mut disk), &clock, job, end, count_drained)
            } else {
                run_on(&mut disk, &clock, job, end, count_drained)
            };
            Ran { log: disk.log, ..ran }
        };
        let (shown, other) = (run(true), run(false));
        assert_eq!(shown.all(), other.all(), "case {number}");
        counted += shown.ended.counts.operations;
        longest = longest.max(shown.buffers.len());
    }
    assert!(counted > 300_000 && longest >= 3, "{counted} {longest}");
}

#[test]
fn what_is_in_flight_at_the_end_is_censored_with_its_age() {
    let times = Times { start_ns: 0, window_start_ns: 0, window_end_ns: 1050 };
    let ran = run(&[("depth", "4")], times, |_| (), false);
    // Ten end by 1000; the eleventh comes back at 1100, after the window, with three others behind it.
    assert_eq!(ran.class(OpClass::Read).0, 10);
    assert_eq!(ran.ended.counts.end_ns, 1050);
    let mut ages: Vec<u64> = ran.censored.iter().map(|c| c.age_ns).collect();
    ages.sort_unstable();
    assert_eq!(ages, [50, 150, 250, 350]);
    assert_eq!(ran.log.len(), 14, "all of them were waited for");
}

#[test]
fn warm_up_is_not_counted() {
    let times = Times { start_ns: 0, window_start_ns: 1000, window_end_ns: 2000 };
    let ran = run(&[("depth", "1")], times, |_| (), false);
    // The request that ends exactly at the start of the window counts, the one at its end does not.
    assert_eq!(ran.class(OpClass::Read).0, 10);
}

#[test]
fn a_sync_follows_its_write_in_the_same_slot() {
    let pairs = [("write_fraction", "1"), ("fsync_every", "2"), ("operations", "10")];
    let ran = run(&pairs, WHOLE, |_| (), false);
    assert_eq!(ran.class(OpClass::Write), (5, Some(100), Some(100)));
    assert_eq!(ran.class(OpClass::SyncedWrite), (5, Some(100), Some(100)));
    assert_eq!(ran.class(OpClass::Sync), (5, Some(1000), Some(1000)));
    assert_eq!(ran.class(OpClass::Commit), (5, Some(1100), Some(1100)));
    let calls: Vec<bool> = ran.log.iter().map(|op| *op == Op::Fsync).collect();
    assert_eq!(calls, [false, false, true].repeat(5));
    assert!(ran.slow.iter().any(|s| s.class == OpClass::Commit && s.latency_ns == 1100));
}

#[test]
fn a_transaction_spans_its_four_calls() {
    let pairs = [
        ("access", "replication"),
        ("block_size", "16k"),
        ("operations", "9"),
        ("write_fraction", "0.5"),
    ];
    let ran = run(&pairs, WHOLE, |_| (), false);
    assert_eq!(ran.class(OpClass::Transaction), (3, Some(1300), Some(1300)));
    assert_eq!(
        (ran.class(OpClass::Read).0, ran.class(OpClass::Write).0, ran.class(OpClass::Commit).0),
        (3, 3, 3)
    );
}

#[test]
fn with_a_final_sync_to_come_everything_drained_counts() {
    let times = Times { start_ns: 0, window_start_ns: 0, window_end_ns: 1050 };
    let ran = run(&[("depth", "4"), ("write_fraction", "1")], times, |_| (), true);
    assert_eq!(ran.class(OpClass::Write).0, 14);
    assert!(ran.censored.is_empty());
    assert_eq!(ran.ended.counts.end_ns, 1400);
}

#[test]
fn the_first_failure_ends_the_run_and_names_itself() {
    let ran = run(&[("depth", "4")], WHOLE, |disk| disk.fail_at = Some(7), false);
    let failed = ran.ended.failed.expect("failed");
    assert_eq!((failed.operation, failed.errno, failed.size_bytes), ("read", 5, 4096));
    assert_eq!(ran.class(OpClass::Read).0, 6);
    assert_eq!((ran.ended.counts.operations, ran.ended.counts.end_ns), (6, 700), "it is kept");
    assert_eq!(ran.censored.len(), 3, "those in flight beside it are waited for, not counted");
    assert_eq!(ran.log.len(), 10);
}

#[test]
fn what_the_kernel_gives_back_is_issued_again_and_its_time_goes_on() {
    let times = Times { start_ns: 0, window_start_ns: 0, window_end_ns: 1000 };
    let ran = run(&[("depth", "1")], times, |disk| disk.given_back = 2, false);
    assert!(ran.ended.failed.is_none());
    assert_eq!((ran.log[0], ran.log[1]), (ran.log[1], ran.log[2]), "the same request");
    assert_ne!(ran.log[2], ran.log[3]);
    let (count, min, max) = ran.class(OpClass::Read);
    assert_eq!((count, min.map(|ns| ns / 100), max.map(|ns| ns / 100)), (7, Some(1), Some(3)));
    // One that is never taken ends the run in the end.
    let times = Times { start_ns: 0, window_start_ns: 0, window_end_ns: 100_000_000_000 };
    let never = |disk: &mut Disk| {
        (disk.given_back, disk.service_ns) = (usize::MAX, 1_000_000_000);
    };
    let ran = run(&[("depth", "1")], times, never, false);
    assert_eq!(ran.ended.failed.map(|failed| failed.errno), Some(EAGAIN));
}

#[test]
fn an_engine_that_breaks_leaves_what_it_did_and_what_it_owed() {
    let ran = run(&[("depth", "4")], WHOLE, |disk| disk.break_at = Some(8), false);
    assert!(ran.ended.engine_broke);
    assert_eq!(ran.ended.failed.map(|f| (f.operation, f.errno)), Some(("disk", 9)));
    assert_eq!((ran.ended.counts.operations, ran.ended.counts.end_ns), (7, 700));
    assert_eq!((ran.class(OpClass::Read).0, ran.censored.len()), (7, 4));
}

/// A warm-up of ten service times.
const AFTER_WARMUP: Times = Times { start_ns: 0, window_start_ns: 1000, window_end_ns: u64::MAX };

#[test]
fn operations_and_amount_are_those_of_the_window() {
    for depth in ["1", "7", "32"] {
        let pairs = [("depth", depth), ("warmup", "1us"), ("operations", "50")];
        let ran = run(&pairs, AFTER_WARMUP, |_| (), false);
        assert_eq!((ran.class(OpClass::Read).0, ran.log.len()), (50, 59), "depth {depth}");
        assert_eq!((ran.ended.counts.operations, ran.ended.counts.end_ns), (50, 5900));
        let pairs = [
            ("depth", depth),
            ("warmup", "1us"),
            ("access", "sequential"),
            ("amount", "200k"),
            ("block_size", "4k"),
        ];
        let ran = run(&pairs, AFTER_WARMUP, |_| (), false);
        assert_eq!((ran.class(OpClass::Read).0, ran.log.len()), (50, 59), "depth {depth}");
        assert_eq!(ran.buffers.iter().flat_map(|b| &b.bytes).sum::<u64>(), 200 << 10);
        let places: Vec<u64> = ran.log.iter().map(|op| offset(*op)).collect();
        assert_eq!(places, (0..59).map(|i| i * 4096).collect::<Vec<_>>(), "one pass, no gap");
    }
}

fn offset(op: Op) -> u64 {
    match op {
        Op::Read { offset_bytes, .. } | Op::Write { offset_bytes, .. } => offset_bytes,
        _ => 0,
    }
}

#[test]
fn fewer_operations_than_depth_are_exact_after_a_warm_up_too() {
    for (key, value) in [("operations", "3"), ("amount", "12k")] {
        let pairs = [("depth", "32"), ("warmup", "1us"), (key, value)];
        let ran = run(&pairs, AFTER_WARMUP, |_| (), false);
        assert_eq!(ran.class(OpClass::Read).0, 3, "{key}");
    }
}

#[test]
fn a_write_with_its_sync_is_one_operation_of_the_window() {
    for (every, depth) in [("1", "1"), ("2", "1"), ("3", "5"), ("1", "8")] {
        let pairs = [
            ("write_fraction", "1"),
            ("fsync_every", every),
            ("depth", depth),
            ("warmup", "1us"),
            ("operations", "20"),
        ];
        let ran = run(&pairs, AFTER_WARMUP, |_| (), false);
        let ended = ran.class(OpClass::Write).0 + ran.class(OpClass::Commit).0;
        assert_eq!(ended, 20, "every {every}, depth {depth}");
    }
}
