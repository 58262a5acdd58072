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
    sync_ns: u64,
    fail_at: Option<usize>,
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
            sync_ns: 1000,
            fail_at: None,
            log,
            buffer: vec![0; 1 << 20],
        }
    }
}

impl Engine for Disk<'_> {
    fn features(&self) -> Vec<String> {
        Vec::new()
    }
    fn buffer_mut(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn queue(&mut self, slot: u32, op: Op) {
        self.queue.push_back((slot, op));
    }
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        for _ in 0..wait_for {
            let (slot, op) = self.queue.pop_front().expect("something in flight");
            let (time, result) = match op {
                Op::Read { size_bytes, .. } | Op::Write { size_bytes, .. } => {
                    (self.service_ns, size_bytes as i32)
                }
                Op::Fsync | Op::Fdatasync => (self.sync_ns, 0),
            };
            self.clock.advance_ns(time);
            self.log.push(op);
            let result = if self.fail_at == Some(self.log.len()) { -5 } else { result };
            self.ended.push_back((slot, result));
        }
        Ok(self.ended.len() as u32)
    }
    fn take(&mut self) -> Option<(u32, i32)> {
        self.ended.pop_front()
    }
}

struct Ran {
    counts: Result<LoopCounts, Failed>,
    buffers: Vec<IntervalBuffer>,
    slow: Vec<SlowOp>,
    censored: Vec<CensoredOp>,
    log: Vec<Op>,
}

impl Ran {
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
    let plan = job_plan(pairs);
    let clock = ManualClock::default();
    let mut disk = Disk::new(&clock);
    shape(&mut disk);
    let exchange = Exchange::new(OpClass::ALL.len());
    let recorder = Recorder::new(&OpClass::ALL, exchange.clone(), 1_000_000, 64);
    let sync_op = JobPlan::sync_op(plan.job.sync_call);
    let rules = Rules {
        depth: plan.job.depth,
        batch: plan.job.batch,
        sync_op,
        stamp_writes: true,
        count_drained,
    };
    let generator = Generator::new(&plan, 0, 1);
    let mut worker = Worker::new(&mut disk, &clock, generator, recorder, rules, 7);
    let counts = worker.run(times, &|| false, || ());
    let end_ns = counts.map_or(clock.now_ns(), |c| c.end_ns);
    let (last, slow, censored) = worker.recorder.finish(end_ns);
    let mut buffers: Vec<_> = std::iter::from_fn(|| exchange.full.pop()).map(|b| *b).collect();
    buffers.push(*last);
    Ran { counts, buffers, slow, censored, log: disk.log }
}

const WHOLE: Times = Times { window_start_ns: 0, window_end_ns: u64::MAX };

#[test]
fn one_in_flight_sees_the_service_time() {
    let ran = run(&[("operations", "50")], WHOLE, |_| (), false);
    assert_eq!(ran.class(OpClass::Read), (50, Some(100), Some(100)));
    assert_eq!(ran.counts.map(|c| (c.batches, c.in_flight_sum, c.end_ns)), Ok((49, 49, 5000)));
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

#[test]
fn what_is_in_flight_at_the_end_is_censored_with_its_age() {
    let times = Times { window_start_ns: 0, window_end_ns: 1050 };
    let ran = run(&[("depth", "4")], times, |_| (), false);
    // Ten end by 1000; the eleventh comes back at 1100, after the window, with three others behind it.
    assert_eq!(ran.class(OpClass::Read).0, 10);
    assert_eq!(ran.counts.map(|c| c.end_ns), Ok(1050));
    let mut ages: Vec<u64> = ran.censored.iter().map(|c| c.age_ns).collect();
    ages.sort_unstable();
    assert_eq!(ages, [50, 150, 250, 350]);
    assert_eq!(ran.log.len(), 14, "all of them were waited for");
}

#[test]
fn warm_up_is_not_counted() {
    let times = Times { window_start_ns: 1000, window_end_ns: 2000 };
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
    let times = Times { window_start_ns: 0, window_end_ns: 1050 };
    let ran = run(&[("depth", "4"), ("write_fraction", "1")], times, |_| (), true);
    assert_eq!(ran.class(OpClass::Write).0, 14);
    assert!(ran.censored.is_empty());
    assert_eq!(ran.counts.map(|c| c.end_ns), Ok(1400));
}

#[test]
fn the_first_failure_ends_the_run_and_names_itself() {
    let ran = run(&[("depth", "4")], WHOLE, |disk| disk.fail_at = Some(7), false);
    let failed = ran.counts.expect_err("failed");
    assert_eq!((failed.operation, failed.errno, failed.size_bytes), ("read", 5, 4096));
    assert_eq!(ran.class(OpClass::Read).0, 6);
    assert_eq!(ran.censored.len(), 3, "those in flight beside it are waited for, not counted");
    assert_eq!(ran.log.len(), 10);
}
