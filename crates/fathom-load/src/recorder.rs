//! What a worker notes down: histograms per class for the current interval, the slowest operations, censored ones.
//!
//! Buffers go round: the worker fills one, passes it on full and takes an empty one back, over two bounded lock-free
//! queues. When the coordinator is late and no empty buffer is there, the worker goes on with the one it has and the
//! interval becomes longer: nothing is lost and nothing is allocated.

use crossbeam_queue::ArrayQueue;
use fathom_model::record::{CensoredOp, OpClass, SlowOp};
use fathom_stats::Histogram;
use fathom_stats::histogram::{Counting, HISTOGRAM_BYTES};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// How many of the slowest operations are kept.
pub const SLOWEST_KEPT: usize = 100;

/// Everything that ended in one interval on one thread.
#[derive(Debug)]
pub struct IntervalBuffer {
    /// Start relative to the window.
    pub start_ns: u64,
    /// Length.
    pub length_ns: u64,
    /// Latencies, in the order of the recorder's classes.
    pub latency_ns: Vec<Histogram>,
    /// Bytes, in the same order.
    pub bytes: Vec<u64>,
    /// Response times of an open loop, in the same order.
    pub response_ns: Vec<Histogram>,
    /// The most that was due and not started.
    pub backlog_max: u64,
    /// The same at the end.
    pub backlog_end: u64,
}

impl IntervalBuffer {
    pub(crate) fn new(classes: usize, is_open: bool) -> Box<Self> {
        let responses = if is_open { classes } else { 0 };
        Box::new(Self {
            start_ns: 0,
            length_ns: 0,
            // Not cloned: what no latency ever falls into is then never touched and takes no memory.
            latency_ns: (0..classes).map(|_| Histogram::new()).collect(),
            bytes: vec![0; classes],
            response_ns: (0..responses).map(|_| Histogram::new()).collect(),
            backlog_max: 0,
            backlog_end: 0,
        })
    }

    /// Empties it for the next round.
    pub fn clear(&mut self) {
        self.latency_ns.iter_mut().for_each(Histogram::clear);
        self.response_ns.iter_mut().for_each(Histogram::clear);
        self.bytes.fill(0);
        (self.backlog_max, self.backlog_end) = (0, 0);
    }
}

/// The two ends of a worker's buffer exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Full ones, towards the coordinator.
    pub full: Arc<ArrayQueue<Box<IntervalBuffer>>>,
    /// Empty ones, towards the worker.
    pub empty: Arc<ArrayQueue<Box<IntervalBuffer>>>,
    is_open: bool,
}

/// Spare buffers per worker.
const SPARES: usize = 2;

/// Memory for the histograms of one worker in bytes, at the most: in one buffer that it fills and in its spares. An
/// open loop has twice as many.
pub fn notebook_bytes(classes: usize, is_open: bool) -> u64 {
    let histograms = if is_open { 2 * classes } else { classes };
    ((SPARES + 1) * histograms * HISTOGRAM_BYTES) as u64
}

impl Exchange {
    /// Queues with their spare buffers, which have room for response times when the loop is open.
    pub fn new(classes: usize, is_open: bool) -> Self {
        let exchange = Self {
            full: Arc::new(ArrayQueue::new(SPARES + 1)),
            empty: Arc::new(ArrayQueue::new(SPARES + 1)),
            is_open,
        };
        for _ in 0..SPARES {
            // The queue has room for every buffer that exists, so this and all later pushes succeed.
            let _ = exchange.empty.push(IntervalBuffer::new(classes, is_open));
        }
        exchange
    }
}

/// Ends of one batch that follow each other with the same class and latency, not counted yet: what was handed over together
/// and comes back together has the same latency, and of such a batch only the first costs more than an addition.
#[derive(Debug, Clone, Copy)]
pub struct Alike {
    class: OpClass,
    latency_ns: u64,
    times: u64,
    bytes: u64,
}

impl Default for Alike {
    /// None yet; no operation takes that long.
    fn default() -> Self {
        let (class, latency_ns) = (OpClass::Read, u64::MAX);
        Self { class, latency_ns, times: 0, bytes: 0 }
    }
}

/// True for a latency that the slowest until now, the fastest of which is the limit, leave out.
#[inline(always)]
fn is_within(slow_limit_ns: u64, latency_ns: u64) -> bool {
    cfg!(feature = "silent") || latency_ns <= slow_limit_ns
}

/// Notes operations that are none of the slowest, all of one class and size.
pub struct Tally<'r> {
    latency_ns: Counting<'r>,
    bytes: &'r mut u64,
    size_bytes: u32,
    slow_limit_ns: u64,
}

impl Tally<'_> {
    /// True for a latency that is none of the slowest until now.
    #[inline(always)]
    pub fn is_fast(&self, latency_ns: u64) -> bool {
        is_within(self.slow_limit_ns, latency_ns)
    }

    /// Notes operations that are fast.
    #[inline(always)]
    pub fn record_all(&mut self, latencies_ns: &[u64]) {
        if cfg!(feature = "silent") {
            return;
        }
        for latency_ns in latencies_ns {
            self.latency_ns.record(*latency_ns);
        }
        *self.bytes += u64::from(self.size_bytes) * latencies_ns.len() as u64;
    }
}

/// An operation that has ended.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// What it was.
    pub class: OpClass,
    /// When, on the worker's clock.
    pub end_ns: u64,
    /// How long it took.
    pub latency_ns: u64,
    /// Where.
    pub offset_bytes: u64,
    /// How much it moved.
    pub size_bytes: u32,
}

/// A worker's notebook.
pub struct Recorder {
    map: [u8; OpClass::ALL.len()],
    current: Box<IntervalBuffer>,
    exchange: Exchange,
    interval_ns: u64,
    window_start_ns: u64,
    interval_end_ns: u64,
    slowest: BinaryHeap<Reverse<(u64, u32)>>,
    slow_ops: Vec<SlowOp>,
    slow_limit_ns: u64,
    /// The place of the one that was noted last.
    last_slow: usize,
    /// What was in flight at the end.
    pub censored: Vec<CensoredOp>,
}

impl Recorder {
    /// A notebook for the given classes; `in_flight_max` bounds the censored operations.
    pub fn new(
        classes: &[OpClass],
        exchange: Exchange,
        interval_ns: u64,
        in_flight_max: usize,
    ) -> Self {
        let mut map = [u8::MAX; OpClass::ALL.len()];
        for (index, class) in classes.iter().enumerate() {
            map[*class as usize] = index as u8;
        }
        Self {
            map,
            current: IntervalBuffer::new(classes.len(), exchange.is_open),
            exchange,
            interval_ns,
            window_start_ns: 0,
            interval_end_ns: u64::MAX,
            slowest: BinaryHeap::with_capacity(SLOWEST_KEPT + 1),
            slow_ops: Vec::with_capacity(SLOWEST_KEPT),
            slow_limit_ns: 0,
            last_slow: 0,
            censored: Vec::with_capacity(2 * in_flight_max),
        }
    }

    /// Starts the measured window: what was noted before is dropped.
    pub fn begin_window(&mut self, start_ns: u64) {
        self.current.clear();
        self.slowest.clear();
        self.slow_ops.clear();
        self.slow_limit_ns = 0;
        self.window_start_ns = start_ns;
        self.current.start_ns = 0;
        self.interval_end_ns = start_ns + self.interval_ns;
    }

    /// Closes intervals that ended at or before `now_ns`.
    #[inline]
    pub fn roll(&mut self, now_ns: u64) {
        if now_ns >= self.interval_end_ns {
            self.close_interval(now_ns);
        }
    }

    #[cold]
    fn close_interval(&mut self, now_ns: u64) {
        // The border is the planned one, or a later one when the worker was held up over several intervals.
        let borders = (now_ns - self.window_start_ns) / self.interval_ns;
        let border_ns = borders * self.interval_ns;
        let Some(empty) = self.exchange.empty.pop() else {
            self.interval_end_ns = self.window_start_ns + border_ns + self.interval_ns;
            return;
        };
        // Whatever is in it ended before its own border; the intervals of a pause behind it stay empty.
        self.current.length_ns =
            self.interval_end_ns - self.window_start_ns - self.current.start_ns;
        let full = std::mem::replace(&mut self.current, empty);
        (self.current.backlog_max, self.current.backlog_end) = (full.backlog_end, full.backlog_end);
        let _ = self.exchange.full.push(full);
        self.current.start_ns = border_ns;
        self.interval_end_ns = self.window_start_ns + border_ns + self.interval_ns;
    }

    /// Notes one operation that ended at `end_ns`. True when it is among the slowest until now.
    ///
    /// Always inlined, as the measured loop calls it for each operation.
    #[inline(always)]
    pub fn record(
        &mut self,
        class: OpClass,
        end_ns: u64,
        latency_ns: u64,
        offset_bytes: u64,
        size_bytes: u32,
    ) -> bool {
        if cfg!(feature = "silent") {
            return false;
        }
        self.record_fast(class, latency_ns, size_bytes);
        self.note_if_slow(End { class, end_ns, latency_ns, offset_bytes, size_bytes })
    }

    /// True for a latency that is none of the slowest until now.
    #[inline(always)]
    pub fn is_fast(&self, latency_ns: u64) -> bool {
        is_within(self.slow_limit_ns, latency_ns)
    }

    /// Notes one operation that [`Recorder::is_fast`].
    #[inline(always)]
    pub fn record_fast(&mut self, class: OpClass, latency_ns: u64, size_bytes: u32) {
        if cfg!(feature = "silent") {
            return;
        }
        let index = usize::from(self.map[class as usize]);
        self.current.latency_ns[index].record(latency_ns);
        self.current.bytes[index] += u64::from(size_bytes);
    }

    /// For noting operations of one class and size that [`Tally::is_fast`], one after the other, with nothing else in between.
    #[inline(always)]
    pub fn tally(&mut self, class: OpClass, size_bytes: u32) -> Tally<'_> {
        let index = usize::from(self.map[class as usize]);
        let IntervalBuffer { latency_ns, bytes, .. } = &mut *self.current;
        Tally {
            latency_ns: latency_ns[index].counting(),
            bytes: &mut bytes[index],
            size_bytes,
            slow_limit_ns: self.slow_limit_ns,
        }
    }

    #[inline(always)]
    fn note_if_slow(&mut self, end: End) -> bool {
        let End { class, end_ns, latency_ns, offset_bytes, size_bytes } = end;
        if self.is_fast(latency_ns) {
            return false;
        }
        let end_ns = end_ns.saturating_sub(self.window_start_ns);
        self.note_slow(SlowOp { class, end_ns, latency_ns, file: 0, offset_bytes, size_bytes })
    }

    /// The same for one of several that end at once, which share `alike`; [`Recorder::count`] has to follow the last one.
    #[inline(always)]
    pub fn record_in_batch(&mut self, alike: &mut Alike, end: End) -> bool {
        if cfg!(feature = "silent") {
            return false;
        }
        self.add(alike, end.class, (end.latency_ns, end.size_bytes));
        self.note_if_slow(end)
    }

    /// The same for one that is not among the slowest; false for others, of which nothing is noted.
    #[inline(always)]
    pub fn record_if_fast(
        &mut self,
        alike: &mut Alike,
        class: OpClass,
        (latency_ns, size_bytes): (u64, u32),
    ) -> bool {
        if cfg!(feature = "silent") {
            return true;
        }
        let is_fast = self.is_fast(latency_ns);
        if is_fast {
            self.add(alike, class, (latency_ns, size_bytes));
        }
        is_fast
    }

    #[inline(always)]
    fn add(&mut self, alike: &mut Alike, class: OpClass, (latency_ns, size_bytes): (u64, u32)) {
        if latency_ns != alike.latency_ns || class != alike.class {
            self.count_apart(*alike);
            *alike = Alike { class, latency_ns, times: 0, bytes: 0 };
        }
        alike.times += 1;
        alike.bytes += u64::from(size_bytes);
    }

    /// Counts what the operations of a batch have left to be counted.
    #[inline]
    pub fn count(&mut self, alike: Alike) {
        let Alike { class, latency_ns, times, bytes } = alike;
        if times == 0 {
            return;
        }
        let index = usize::from(self.map[class as usize]);
        self.current.bytes[index] += bytes;
        if times == 1 {
            self.current.latency_ns[index].record(latency_ns);
        } else {
            self.current.latency_ns[index].record_n(latency_ns, times);
        }
    }

    #[inline(never)]
    fn count_apart(&mut self, alike: Alike) {
        self.count(alike);
    }

    /// Says on which file the operation was that [`Recorder::record`] has just noted as a slow one.
    #[cold]
    pub fn slow_was_on(&mut self, file: u32) {
        if let Some(op) = self.slow_ops.get_mut(self.last_slow) {
            op.file = file;
        }
    }

    /// Notes how long a request of an open loop took from its intended start.
    #[inline]
    pub fn record_response(&mut self, class: OpClass, response_ns: u64) {
        let index = usize::from(self.map[class as usize]);
        self.current.response_ns[index].record(response_ns);
    }

    /// Notes how much is due and not started.
    #[inline]
    pub fn note_backlog(&mut self, backlog: u64) {
        self.current.backlog_max = self.current.backlog_max.max(backlog);
        self.current.backlog_end = backlog;
    }

    /// When the current interval ends; `u64::MAX` before the window.
    #[inline]
    pub fn border_ns(&self) -> u64 {
        self.interval_end_ns
    }

    /// The last nanosecond of an interval that has ended and is not closed.
    #[inline]
    pub fn border_before(&self, now_ns: u64) -> Option<u64> {
        (now_ns >= self.interval_end_ns).then(|| self.interval_end_ns - 1)
    }

    fn note_slow(&mut self, op: SlowOp) -> bool {
        // One entry for each request: what is a part of a commit, or made of several, is not counted again.
        if matches!(op.class, OpClass::SyncedWrite | OpClass::Sync | OpClass::Transaction) {
            return false;
        }
        self.keep_slow(op);
        true
    }

    /// Notes among the slowest a sync that is a part of no commit.
    pub fn slow_lone_sync(&mut self, end_ns: u64, latency_ns: u64, file: u32) {
        if latency_ns > self.slow_limit_ns {
            let end_ns = end_ns.saturating_sub(self.window_start_ns);
            let (class, offset_bytes, size_bytes) = (OpClass::Sync, 0, 0);
            self.keep_slow(SlowOp { class, end_ns, latency_ns, file, offset_bytes, size_bytes });
        }
    }

    fn keep_slow(&mut self, op: SlowOp) {
        if self.slow_ops.len() < SLOWEST_KEPT {
            self.last_slow = self.slow_ops.len();
            self.slowest.push(Reverse((op.latency_ns, self.slow_ops.len() as u32)));
            self.slow_ops.push(op);
        } else if let Some(Reverse((_, index))) = self.slowest.pop() {
            self.last_slow = index as usize;
            self.slow_ops[index as usize] = op;
            self.slowest.push(Reverse((op.latency_ns, index)));
        }
        if self.slow_ops.len() == SLOWEST_KEPT {
            self.slow_limit_ns = self.slowest.peek().map_or(0, |Reverse((latency, _))| *latency);
        }
    }

    /// Ends the window at `end_ns` and gives back the last, partial interval and the slowest operations.
    pub fn finish(mut self, end_ns: u64) -> (Box<IntervalBuffer>, Vec<SlowOp>, Vec<CensoredOp>) {
        if self.interval_end_ns == u64::MAX {
            // Ended in the warm-up: nothing was measured.
            self.begin_window(end_ns);
        }
        let end = end_ns.saturating_sub(self.window_start_ns);
        self.current.length_ns = end.saturating_sub(self.current.start_ns);
        (self.current, self.slow_ops, self.censored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(exchange: &Exchange) -> Recorder {
        Recorder::new(&[OpClass::Read, OpClass::Sync], exchange.clone(), 100, 4)
    }

    #[test]
    fn intervals_are_closed_on_their_borders_and_nothing_is_lost() {
        let exchange = Exchange::new(2, false);
        let mut recorder = recorder(&exchange);
        recorder.record(OpClass::Read, 5, 5, 0, 512); // warm-up: dropped
        recorder.begin_window(1000);
        for now in [1010, 1099, 1100, 1350] {
            recorder.roll(now);
            recorder.record(OpClass::Read, now, 7, 0, 512);
        }
        let mut buffers: Vec<_> = std::iter::from_fn(|| exchange.full.pop()).collect();
        let (last, slow, _) = recorder.finish(1360);
        buffers.push(last);
        let seen: Vec<_> = buffers
            .iter()
            .map(|b| (b.start_ns, b.length_ns, b.latency_ns[0].count(), b.bytes[0]))
            .collect();
        assert_eq!(seen, [(0, 100, 2, 1024), (100, 100, 1, 512), (300, 60, 1, 512)]);
        assert_eq!(slow.len(), 4);
    }

    #[test]
    fn a_late_coordinator_makes_intervals_longer() {
        let exchange = Exchange::new(2, false);
        let mut recorder = recorder(&exchange);
        recorder.begin_window(0);
        for now in (10..1000).step_by(10) {
            recorder.roll(now);
            recorder.record(OpClass::Sync, now, 1, 0, 0);
        }
        let (last, _, _) = recorder.finish(1000);
        let full: Vec<_> = std::iter::from_fn(|| exchange.full.pop()).collect();
        assert_eq!(full.len(), SPARES);
        let counted: u64 =
            full.iter().map(|b| b.latency_ns[1].count()).sum::<u64>() + last.latency_ns[1].count();
        assert_eq!(counted, 99);
        assert_eq!((last.start_ns, last.length_ns), (200, 800));
    }

    #[test]
    fn a_batch_counts_as_each_by_itself() {
        let (apart, together) = (Exchange::new(2, false), Exchange::new(2, false));
        let (mut apart, mut together) = (recorder(&apart), recorder(&together));
        apart.begin_window(0);
        together.begin_window(0);
        let mut prng = fathom_base::prng::Prng::new(1, 0);
        for batch in 0..500 {
            let mut alike = Alike::default();
            for _ in 0..prng.below(9) {
                let class = if prng.below(4) == 0 { OpClass::Sync } else { OpClass::Read };
                // Few latencies, so that neighbours are often alike, and some of them are the slowest.
                let (latency_ns, offset) = (1000 + prng.below(3) + batch, prng.below(99));
                let one = apart.record(class, 50, latency_ns, offset, 512);
                let (end_ns, offset_bytes, size_bytes) = (50, offset, 512);
                let end = End { class, end_ns, latency_ns, offset_bytes, size_bytes };
                let is_fast = together.record_if_fast(&mut alike, class, (latency_ns, size_bytes));
                let other = !is_fast && together.record_in_batch(&mut alike, end);
                assert_eq!(one, other);
            }
            together.count(alike);
        }
        let ((one, one_slow, _), (other, other_slow, _)) = (apart.finish(60), together.finish(60));
        assert!(one.latency_ns[0].count() > 1000 && one.latency_ns[1].count() > 200);
        assert_eq!((one.latency_ns, one.bytes), (other.latency_ns, other.bytes));
        assert_eq!(one_slow.len(), SLOWEST_KEPT);
        let key = |op: &SlowOp| (op.latency_ns, op.offset_bytes, op.class as u8);
        assert!(one_slow.iter().map(key).eq(other_slow.iter().map(key)));
    }

    #[test]
    fn a_backlog_goes_on_into_the_next_interval() {
        let exchange = Exchange::new(2, true);
        let mut recorder = recorder(&exchange);
        recorder.begin_window(0);
        [5, 9, 3].iter().for_each(|backlog| recorder.note_backlog(*backlog));
        recorder.record_response(OpClass::Sync, 40);
        recorder.roll(110);
        recorder.note_backlog(2);
        let first = exchange.full.pop().unwrap();
        assert_eq!((first.backlog_max, first.backlog_end), (9, 3));
        assert_eq!((first.response_ns[1].count(), first.latency_ns[1].count()), (1, 0));
        let (last, _, _) = recorder.finish(120);
        assert_eq!((last.backlog_max, last.backlog_end), (3, 2));
    }

    #[test]
    fn a_slow_operation_gets_its_own_file() {
        let exchange = Exchange::new(2, false);
        let mut recorder = recorder(&exchange);
        recorder.begin_window(0);
        for i in 1..=300 {
            if recorder.record(OpClass::Read, i, i, 0, 512) {
                recorder.slow_was_on(i as u32);
            }
            // Not among the slowest: part of a commit.
            assert!(!recorder.record(OpClass::Sync, i, i + 1, 0, 0));
        }
        let (_, slow, _) = recorder.finish(1000);
        assert_eq!(slow.len(), SLOWEST_KEPT);
        assert!(slow.iter().all(|op| u64::from(op.file) == op.latency_ns), "{slow:?}");
    }

    #[test]
    fn exactly_the_slowest_hundred_are_kept() {
        let exchange = Exchange::new(2, false);
        let mut recorder = recorder(&exchange);
        recorder.begin_window(0);
        // A permutation of 1..=9973 (prime): every latency once, in scrambled order.
        (1..9973u64).for_each(|i| {
            recorder.record(OpClass::Read, i, i * 5003 % 9973, i, 512);
        });
        let (_, slow, _) = recorder.finish(20_000);
        let mut latencies: Vec<u64> = slow.iter().map(|s| s.latency_ns).collect();
        latencies.sort_unstable();
        assert_eq!(latencies, (9873..=9972).collect::<Vec<u64>>());
    }
}
