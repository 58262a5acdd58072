//! Open loops, think time and caps against a simulated server whose every end is known.

use super::*;
use crate::files::{FileSet, Room};
use crate::pace::{OpenEnd, Pace};
use crate::payload::Fill;
use crate::plan::plan;
use crate::recorder::{Exchange, IntervalBuffer};
use crate::target::LoadTarget;
use fathom_base::clock::ManualClock;
use fathom_guard::OwnedDir;
use fathom_model::keys;
use fathom_model::workload::Job;
use fathom_stats::Histogram;
use fathom_sys::io::OpenMode;
use fathom_sys::sysroot::SysRoot;
use std::cell::Cell;
use std::collections::VecDeque;

/// One server with a queue: each request takes the same time, one after the other.
struct Server<'c> {
    clock: &'c ManualClock,
    service_ns: u64,
    last_end_ns: u64,
    queue: VecDeque<(u32, i32, u64)>,
    buffer: Vec<u8>,
    /// The process is stopped when this time comes, for so long.
    stop: Option<(u64, u64)>,
    /// With something in flight it only looks, however long it may wait.
    is_polled: bool,
    /// By how much a sleep ends too late.
    oversleeps_ns: u64,
    has_new: bool,
    /// Batches handed over, and batches given back.
    batches: (u64, u64),
    /// How long it takes to open a file in the place of another.
    open_ns: u64,
}

impl Server<'_> {
    /// Moves the clock to `until_ns`, through a stop.
    fn pass(&mut self, until_ns: u64) {
        let now_ns = self.clock.now_ns();
        self.clock.advance_ns(until_ns.saturating_sub(now_ns));
        if let Some((_, length_ns)) = self.stop.take_if(|(at_ns, _)| *at_ns <= until_ns) {
            self.clock.advance_ns(length_ns);
        }
    }

    /// The server gets what was queued.
    fn hand_over(&mut self) {
        let now_ns = self.clock.now_ns();
        for (_, _, end_ns) in self.queue.iter_mut().filter(|(_, _, end_ns)| *end_ns == u64::MAX) {
            self.last_end_ns = self.last_end_ns.max(now_ns) + self.service_ns;
            *end_ns = self.last_end_ns;
        }
    }

    fn ended(&self) -> u32 {
        let now_ns = self.clock.now_ns();
        self.queue.iter().take_while(|(_, _, end_ns)| *end_ns <= now_ns).count() as u32
    }

    fn count_batch(&mut self, ended: u32) -> u32 {
        self.batches.0 += u64::from(std::mem::take(&mut self.has_new));
        self.batches.1 += u64::from(ended > 0);
        ended
    }

    fn end_of(&self, nth: u32) -> u64 {
        self.queue.get(nth.max(1) as usize - 1).map_or(u64::MAX, |(_, _, end_ns)| *end_ns)
    }
}

impl Engine for Server<'_> {
    const CALL: &'static str = "serve";

    fn buffer_mut(&mut self, _: u32) -> &mut [u8] {
        &mut self.buffer
    }
    fn renew_file(&mut self, _: u32) -> io::Result<()> {
        self.clock.advance_ns(self.open_ns);
        Ok(())
    }
    fn queue(&mut self, slot: u32, _: u32, op: Op) {
        self.queue.push_back((slot, op.moved_bytes() as i32, u64::MAX));
        self.has_new = true;
    }
    fn run(&mut self, wait_for: u32) -> io::Result<u32> {
        self.hand_over();
        if wait_for > 0 {
            self.pass(self.end_of(wait_for));
        }
        let ended = self.ended();
        Ok(self.count_batch(ended))
    }
    fn run_for(&mut self, wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        self.hand_over();
        if self.ended() == 0 {
            let only_looks = wait_ns == 0 || (self.is_polled && !self.queue.is_empty());
            // A look takes some time too.
            let wait_ns = if only_looks { 100 } else { wait_ns + self.oversleeps_ns };
            self.pass(self.end_of(wait_for).min(self.clock.now_ns() + wait_ns));
        }
        let ended = self.ended();
        Ok(self.count_batch(ended))
    }
    fn take(&mut self) -> Option<(u32, i32)> {
        let now_ns = self.clock.now_ns();
        let (slot, moved, _) = self.queue.pop_front_if(|(_, _, end_ns)| *end_ns <= now_ns)?;
        Some((slot, moved))
    }
}

/// The clock of the worker, which counts how often it is read.
struct Counted<'c>(&'c ManualClock, Cell<u64>);

impl Clock for Counted<'_> {
    fn now_ns(&self) -> u64 {
        self.1.set(self.1.get() + 1);
        self.0.now_ns()
    }
}

struct Ran {
    ended: Ended,
    clock_reads: u64,
    /// Calls of the engine that handed requests over, and those that gave some back.
    batches: (u64, u64),
    open: Option<OpenEnd>,
    service_ns: Histogram,
    response_ns: Histogram,
    backlog_max: u64,
    buffers: Vec<IntervalBuffer>,
}

const SECOND_NS: u64 = 1_000_000_000;

fn run(pairs: &[(&str, &str)], seed: u64, shape: impl FnOnce(&mut Server)) -> Ran {
    run_until(pairs, seed, u64::MAX, shape)
}

/// Starts at one second, so that what is counted from zero by mistake shows; somebody asks for the end at `stop_ns`.
fn run_until(
    pairs: &[(&str, &str)],
    seed: u64,
    stop_ns: u64,
    shape: impl FnOnce(&mut Server),
) -> Ran {
    run_on(None, pairs, (seed, stop_ns), shape)
}

/// The same on several files, of which not all can be open.
fn run_on(
    target: Option<&LoadTarget>,
    pairs: &[(&str, &str)],
    (seed, stop_ns): (u64, u64),
    shape: impl FnOnce(&mut Server),
) -> Ran {
    let mut job = Job::default();
    pairs.iter().for_each(|(k, v)| keys::set(&mut job, k, v).expect(k));
    keys::check(&job).expect("makes sense");
    let plan = plan(&job, 1 << 20, 512, seed).expect("fits");
    let clock = ManualClock::default();
    clock.advance_ns(SECOND_NS);
    let mut server = Server {
        clock: &clock,
        service_ns: 100_000,
        last_end_ns: 0,
        queue: VecDeque::new(),
        buffer: vec![0; 1 << 20],
        stop: None,
        is_polled: false,
        oversleeps_ns: 0,
        has_new: false,
        batches: (0, 0),
        open_ns: 0,
    };
    shape(&mut server);
    let room = || Room::now(std::iter::once(1));
    let files =
        target.map(|target| FileSet::new(target, &job, 1, job.depth, room).expect("opened"));
    let exchange = Exchange::new(OpClass::ALL.len(), job.rate.is_some());
    let recorder = Recorder::new(&OpClass::ALL, exchange.clone(), SECOND_NS, 64);
    let generator = Generator::new(&plan, 0, 1);
    let rules = Rules {
        depth: generator.depth_usable(job.depth),
        batch: job.batch,
        sync_op: crate::plan::JobPlan::sync_op(job.sync_call),
        count_drained: job.sync_at_end.is_some(),
    };
    let pace = Pace::new(&job, seed, 0, 1, rules.depth);
    let payload = Fill::new(None, 0);
    let counted = Counted(&clock, Cell::new(0));
    let mut worker = Worker::new(&mut server, &counted, generator, recorder, rules, payload);
    worker.pace = pace;
    worker.open_files = files.as_ref().zip(target).and_then(|(files, on)| files.switching(on, 0));
    let start_ns = SECOND_NS;
    let window_start_ns = start_ns + job.warmup_ns;
    let window_end_ns = job.duration_ns.map_or(u64::MAX, |d| window_start_ns + d);
    let times = Times { start_ns, window_start_ns, window_end_ns };
    let ended = worker.run(times, &|| clock.now_ns() >= stop_ns, || ());
    let open = worker.pace.and_then(Pace::finish);
    let (last, _, _) = worker.recorder.finish(ended.counts.end_ns);
    let mut buffers: Vec<_> = std::iter::from_fn(|| exchange.full.pop()).map(|b| *b).collect();
    buffers.push(*last);
    let (mut service_ns, mut response_ns) = (Histogram::new(), Histogram::new());
    for buffer in &buffers {
        service_ns.merge(&buffer.latency_ns[0]);
        buffer.response_ns.first().into_iter().for_each(|part| response_ns.merge(part));
    }
    let backlog_max = buffers.iter().map(|b| b.backlog_max).max().unwrap_or(0);
    let (clock_reads, batches) = (counted.1.get(), server.batches);
    Ran { ended, clock_reads, batches, open, service_ns, response_ns, backlog_max, buffers }
}

fn extremes(histogram: &Histogram) -> (u64, u64, u64) {
    (histogram.count(), histogram.min().unwrap_or(0), histogram.max().unwrap_or(0))
}

/// One look for all that is handed over at once, one for all that comes back at once, whatever the kind of request.
#[test]
fn the_clock_is_read_once_for_each_batch() {
    let mixed = ["write_fraction=0.5", "fsync_fraction=0.3"];
    let sizes = ["block_size=4k-8k"];
    for depth in [1, 4, 32] {
        for batch in [1, 4, 32].into_iter().filter(|batch| *batch <= depth) {
            for more in [&[][..], &mixed, &sizes] {
                let more = more.iter().map(|pair| pair.split_once('=').expect("a pair"));
                let (depth, batch) = (depth.to_string(), batch.to_string());
                let all = [("depth", &*depth), ("batch", &*batch), ("operations", "5000")];
                let pairs: Vec<_> = all.into_iter().chain(more).collect();
                let ran = run(&pairs, 1, |_| ());
                let (handed, given) = ran.batches;
                assert!(handed >= 5000 / 32 && given >= 5000 / 32, "{pairs:?}: {:?}", ran.batches);
                assert!(
                    ran.clock_reads <= handed + given + 2,
                    "{pairs:?}: {} reads, {handed} batches handed over, {given} given back",
                    ran.clock_reads
                );
            }
        }
    }
}

/// Each request finds its file closed. The time that opening takes is its own class; the service time is without it, and the
/// response time, from when the request was due, with it.
#[test]
fn opening_files_is_no_part_of_a_service_time() {
    let dir = std::env::temp_dir().join(format!("fathom-opening-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("data")).expect("temporary directory");
    let mut owned =
        OwnedDir::create(&SysRoot::live(), &dir.join("data"), "run1", &dir.join("state"))
            .expect("made");
    let tree = owned.create_tree(3, &mut |_| true).expect("made");
    let target = LoadTarget::own_tree(&tree, 1 << 20, 512, OpenMode::default()).expect("opened");
    let files = [("files", "3"), ("files_open", "2"), ("operations", "30")];
    for (way, depth) in [("rate", "1"), ("rate", "2"), ("cap_iops", "1"), ("think_time", "2")] {
        let value = if way == "think_time" { "1ms" } else { "1000" };
        let more = [(way, value), ("depth", depth)];
        let pairs = [&files[..], &more].concat();
        let ran = run_on(Some(&target), &pairs, (1, u64::MAX), |server| server.open_ns = 30_000);
        let mut open_ns = Histogram::new();
        let class = OpClass::ALL.iter().position(|class| *class == OpClass::Open).expect("there");
        ran.buffers.iter().for_each(|buffer| open_ns.merge(&buffer.latency_ns[class]));
        // The first two files are open at the beginning.
        assert_eq!(extremes(&open_ns), (28, 30_000, 30_000), "{way} {depth}");
        let longest_ns = if way == "think_time" { 200_000 } else { 100_000 };
        assert_eq!(ran.service_ns.count(), 30);
        assert_eq!(ran.service_ns.min(), Some(100_000), "{way} {depth}");
        assert!(ran.service_ns.max() <= Some(longest_ns), "{way} {depth}: {:?}", ran.service_ns);
        if way == "rate" {
            assert_eq!(extremes(&ran.response_ns), (30, 100_000, 130_000), "depth {depth}");
        }
    }
    owned.remove().expect("ours");
    std::fs::remove_dir_all(&dir).expect("only what was made here");
}

#[test]
fn below_saturation_even_arrivals_never_wait() {
    for depth in ["1", "4"] {
        let ran = run(&[("rate", "8000"), ("depth", depth), ("operations", "1000")], 1, |_| ());
        assert_eq!(extremes(&ran.response_ns), (1000, 100_000, 100_000), "depth {depth}");
        assert_eq!(extremes(&ran.service_ns), (1000, 100_000, 100_000));
        let open = ran.open.expect("open");
        assert_eq!((open.due, open.not_started, ran.backlog_max), (1000, 0, 0));
        assert_eq!(extremes(&open.start_delay_ns), (1000, 0, 0));
        // The last one starts 999 gaps of 125 us after the first.
        assert_eq!(ran.ended.counts.end_ns, SECOND_NS + 999 * 125_000 + 100_000);
    }
}

/// Sleeps end too late by what real ones do: that is learnt, also by an engine that polls and sleeps only when nothing
/// is in flight.
#[test]
fn sleeps_that_end_too_late_are_made_shorter() {
    for is_polled in [false, true] {
        let ran = run(&[("rate", "2000"), ("depth", "4"), ("operations", "1000")], 1, |server| {
            (server.is_polled, server.oversleeps_ns) = (is_polled, 40_000);
        });
        let delay_ns = ran.open.expect("open").start_delay_ns;
        // Until it is learnt, a few are late.
        assert!(delay_ns.count_above(1000) < 20, "polled {is_polled}: {delay_ns:?}");
        assert!(delay_ns.max() > Some(20_000), "the first one is");
    }
}

/// Each one waits half a service time longer than the one before.
#[test]
fn above_saturation_each_one_waits_longer_by_what_is_missing() {
    for depth in ["1", "4"] {
        let ran = run(&[("rate", "20000"), ("depth", depth), ("operations", "1000")], 1, |_| ());
        let expected = |i: u128| 100_000 + i * 50_000;
        assert_eq!(extremes(&ran.response_ns), (1000, 100_000, expected(999) as u64));
        assert_eq!(ran.response_ns.sum(), (0..1000).map(expected).sum(), "depth {depth}");
        let open = ran.open.expect("open");
        assert_eq!(open.start_delay_ns.max(), Some(0), "the server is late, not fathom");
        // Half of what has come has started, but for what is in flight.
        assert!((495..=500).contains(&ran.backlog_max), "{}", ran.backlog_max);
    }
    let one = run(&[("rate", "20000"), ("operations", "1000")], 1, |_| ());
    assert_eq!(extremes(&one.service_ns), (1000, 100_000, 100_000));
}

#[test]
fn what_is_due_at_the_end_is_counted_with_its_age() {
    let pairs = [("rate", "20000"), ("depth", "4"), ("duration", "1s"), ("warmup", "1s")];
    let ran = run(&pairs, 1, |_| ());
    let open = ran.open.expect("open");
    // 20 000 come each second and 10 000 end. What ends exactly at the border belongs to the time after it.
    assert_eq!((open.due, ran.response_ns.count()), (20_000, 10_000));
    assert_eq!((open.backlog_start, open.not_started), (9997, 19_997), "four are in flight");
    let unfinished = &open.unfinished_ns[0];
    assert_eq!(unfinished.count(), open.not_started + 4);
    // In flight: numbers 19 999 to 20 002; number n was due at n x 50 us of two seconds.
    let due = |number: u64| number * 50_000;
    assert_eq!(unfinished.max(), Some(2 * SECOND_NS - due(19_999)));
    assert_eq!(unfinished.min(), Some(50_000));
    assert_eq!(open.oldest_not_started_ns, Some(2 * SECOND_NS - due(20_003)));
}

/// Interrupted in the warm-up: nothing of it is counted as if it had been in the window, however much was waiting.
#[test]
fn what_is_due_in_the_warm_up_is_never_of_the_window() {
    for (rate, arrivals) in [("20000", "even"), ("20000", "poisson"), ("10000000", "even")] {
        let pairs = [("rate", rate), ("arrivals", arrivals), ("depth", "4"), ("warmup", "2s")];
        let pairs = [&pairs[..], &[("duration", "1s")]].concat();
        let ran = run_until(&pairs, 1, 2 * SECOND_NS, |_| ());
        let open = ran.open.expect("open");
        assert_eq!((open.due, open.backlog_start, open.not_started), (0, 0, 0), "{pairs:?}");
        assert_eq!(open.oldest_not_started_ns, None);
        assert!(
            open.unfinished_ns.iter().all(Histogram::is_empty) && open.start_delay_ns.is_empty()
        );
        assert_eq!((ran.response_ns.count(), ran.backlog_max), (0, 0));
        // Interrupted in the window, what waits since the warm-up is told from what became due in it.
        let ran = run_until(&pairs, 1, 7 * SECOND_NS / 2, |_| ());
        let open = ran.open.expect("open");
        assert!(open.backlog_start > 0 && open.not_started > open.backlog_start, "{pairs:?}");
        assert!(open.due > 0 && open.due < open.not_started + ran.response_ns.count());
    }
}

/// A. Y. Khinchine, F. Pollaczek: an M/G/1 queue's mean wait is rate x E[service^2] / (2 (1 - load)); with a constant
/// service time that is load x service / (2 (1 - load)).
#[test]
fn poisson_arrivals_wait_as_queueing_theory_says() {
    for (rate, load) in [("3000", 0.3), ("7000", 0.7), ("8500", 0.85)] {
        let pairs = [("rate", rate), ("arrivals", "poisson"), ("operations", "10000")];
        let means: Vec<f64> = (0..20)
            .map(|seed| run(&pairs, seed, |_| ()).response_ns.mean().expect("some"))
            .collect();
        let n = means.len() as f64;
        let mean = means.iter().sum::<f64>() / n;
        let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let error = (variance / n).sqrt();
        let expected = 100_000.0 + load * 100_000.0 / (2.0 * (1.0 - load));
        assert!((mean - expected).abs() < 3.0 * error, "{rate}: {mean} +- {error}, {expected}");
        assert!(error < 0.03 * expected, "{error} tells something");
    }
}

/// A stop of one second in four: a quarter of the requests is late, evenly up to a second.
#[test]
fn a_stop_makes_the_tail_that_arithmetic_demands() {
    for depth in ["1", "32"] {
        let pairs = [("rate", "2000"), ("duration", "4s"), ("depth", depth)];
        let ran = run(&pairs, 1, |server| {
            server.service_ns = 1000;
            server.stop = Some((2 * SECOND_NS + 200_000, SECOND_NS));
        });
        let open = ran.open.expect("open");
        assert_eq!((open.due, open.not_started), (8000, 0));
        // Of 8000, those due in the stop end after it: quantile q is at (q - 0.75) x 4 s, and the buckets have 1.6 %.
        for (q, expected_ns) in [(0.5, 1e3), (0.9, 0.6e9), (0.99, 0.96e9), (0.999, 0.996e9)] {
            let got_ns = ran.response_ns.quantile(q).expect("some") as f64;
            assert!((got_ns / expected_ns - 1.0).abs() < 0.02, "depth {depth} p{q}: {got_ns}");
        }
        let in_time = ran.service_ns.quantile(0.99).expect("some");
        assert!(in_time <= 33_000, "service time shows nothing of it: {in_time}");
        let late = open.start_delay_ns.count_above(1_000_000);
        assert!((1990..=2000).contains(&late), "all of them are late for fathom's sake: {late}");
        // One more is due when it ends.
        assert!((1990..=2001).contains(&ran.backlog_max), "{}", ran.backlog_max);
    }
}

/// Within one interval, so that no border of one shows it.
#[test]
fn what_a_stop_left_waiting_counts_also_where_there_is_a_place_for_all() {
    let pairs = [("rate", "1000"), ("duration", "3s"), ("depth", "2048")];
    let ran = run(&pairs, 1, |server| {
        server.service_ns = 1000;
        server.stop = Some((2 * SECOND_NS + 200_200_000, SECOND_NS / 2));
    });
    let open = ran.open.expect("open");
    assert_eq!((open.due, open.not_started), (3000, 0));
    assert!((495..=501).contains(&ran.backlog_max), "{}", ran.backlog_max);
    assert!(ran.buffers.iter().all(|b| b.backlog_end <= 1), "nothing waits any more");
}

#[test]
fn the_backlog_of_each_interval_is_noted() {
    let ran = run(&[("rate", "20000"), ("duration", "3s")], 1, |_| ());
    let ends: Vec<u64> = ran.buffers.iter().map(|b| b.backlog_end).collect();
    assert_eq!(ends, [10_000, 20_000, 30_000]);
    assert!(ran.buffers.iter().all(|b| b.backlog_max == b.backlog_end), "it only grows");
}

#[test]
fn a_write_and_its_sync_are_one_arrival() {
    let pairs =
        [("rate", "1000"), ("write_fraction", "1"), ("fsync_every", "1"), ("operations", "50")];
    let ran = run(&pairs, 1, |_| ());
    let class = |class: OpClass| extremes(&ran.buffers[0].response_ns[class as usize]);
    assert_eq!(class(OpClass::Commit), (50, 200_000, 200_000));
    assert_eq!((class(OpClass::SyncedWrite).0, class(OpClass::Sync).0), (0, 0));
}

#[test]
fn a_slot_thinks_after_each_request() {
    let ran = run(&[("think_time", "400us"), ("duration", "1s")], 1, |_| ());
    // Ends at 0.1, 0.6, 1.1 ... ms.
    assert_eq!(extremes(&ran.service_ns), (2000, 100_000, 100_000));
    // Four slots, one server: each is served every 500 us and never waits for another.
    let four = run(&[("think_time", "400us"), ("duration", "1s"), ("depth", "4")], 1, |_| ());
    assert_eq!(four.service_ns.count(), 4 * 2000);
}

#[test]
fn caps_hold_in_every_second() {
    for (key, value) in [("cap_iops", "1000"), ("cap_bytes", "4096000")] {
        let ran = run(&[(key, value), ("duration", "3s"), ("depth", "8")], 1, |_| ());
        let each: Vec<u64> = ran.buffers.iter().map(|b| b.latency_ns[0].count()).collect();
        assert_eq!(each, [1000; 3], "{key}");
        assert_eq!(extremes(&ran.service_ns), (3000, 100_000, 100_000));
    }
}

#[test]
fn warm_up_and_fewer_operations_than_slots_end() {
    for pairs in [
        [("rate", "1000"), ("operations", "3"), ("depth", "8"), ("warmup", "10ms")],
        [("cap_iops", "1000"), ("operations", "3"), ("depth", "8"), ("warmup", "10ms")],
        [("think_time", "1ms"), ("operations", "3"), ("depth", "8"), ("warmup", "10ms")],
    ] {
        assert_eq!(run(&pairs, 1, |_| ()).service_ns.count(), 3, "{pairs:?}");
    }
}

/// Somebody ends it in a gap between two requests: the rate is that of the whole time, with a final sync as without.
#[test]
fn an_end_in_a_gap_is_the_end_of_the_window() {
    for pace in [("cap_iops", "0.5"), ("rate", "0.5"), ("think_time", "2s")] {
        for last in ["none", "fdatasync"] {
            let writes = ("write_fraction", "1");
            let pairs = [writes, pace, ("duration", "60s"), ("sync_at_end", last)];
            let ran = run_until(&pairs, 1, 4 * SECOND_NS, |_| ());
            assert_eq!(ran.ended.counts.end_ns / 100_000_000, 40, "{pairs:?}");
        }
    }
}

/// What is owed after the last request comes, however that one was paced.
#[test]
fn the_round_of_syncs_after_the_last_request_is_not_lost() {
    for pace in [("cap_iops", "1000"), ("think_time", "1ms")] {
        let of_job = [("write_fraction", "1"), ("sync_all_every", "20"), ("operations", "40")];
        let ran = run(&[&[pace][..], &of_job].concat(), 1, |_| ());
        let count = |class: OpClass| {
            ran.buffers.iter().map(|b| b.latency_ns[class as usize].count()).sum::<u64>()
        };
        assert_eq!((count(OpClass::Write), count(OpClass::Sync)), (40, 2), "{pace:?}");
    }
}
