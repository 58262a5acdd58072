//! When requests may start: the arrivals of an open loop, think time and caps of a closed one. Pure: times come in as
//! arguments.

use crate::worker::Times;
use fathom_base::distribution::Exponential;
use fathom_base::prng::Prng;
use fathom_model::record::OpClass;
use fathom_model::workload::{Arrivals, Job};
use fathom_stats::Histogram;
use std::collections::VecDeque;

/// What a cap may catch up at once, after requests could not start in time: 10 ms of its rate.
const CATCH_UP_NS: f64 = 10_000_000.0;

/// Arrivals that are counted before requests are started again: a millisecond's work at the most.
const COUNTED_AT_ONCE: u32 = 1 << 15;

/// Requests never started that are looked at one by one, and arrivals that are drawn, when the last are counted: some
/// ten milliseconds' work.
const COUNTED_SINGLY: u64 = 1 << 18;

/// Of more requests never started, so many parts of equal size are looked at: ages are then off by a 65536th of the
/// longest at the most.
const PARTS: u64 = 1 << 16;

/// Mixed into the seed, so that arrivals and offsets are independent.
const ARRIVALS_SEED: u64 = 0x0A88_17A1_5EED;

/// What a worker waits for besides ends of requests.
pub enum Pace {
    /// Requests start when they are due.
    Open(Box<OpenLoop>),
    /// Requests start after earlier ones, but not at once.
    Slowed(Slowed),
}

impl Pace {
    /// The share of one thread in what the job asks for; none for a plain closed loop.
    pub fn new(job: &Job, seed: u64, thread: u32, threads: u32, depth: u32) -> Option<Self> {
        if let Some(rate) = job.rate {
            let stream = Stream::new(rate, job.arrivals, seed, thread, threads)?;
            return Some(Self::Open(Box::new(OpenLoop::new(stream, depth))));
        }
        let slowed = Slowed::new(job, (thread, threads), depth);
        (slowed.think_ns > 0 || !slowed.caps.is_empty()).then_some(Self::Slowed(slowed))
    }

    /// Requests may start from then on.
    pub fn begin(&mut self, times: Times) {
        match self {
            Self::Open(open) => open.begin(times),
            Self::Slowed(slowed) => slowed.start_ns = times.start_ns,
        }
    }

    /// What is known about an open loop at its end.
    pub fn finish(self) -> Option<OpenEnd> {
        match self {
            Self::Open(open) => Some(open.finish()),
            Self::Slowed(_) => None,
        }
    }

    /// When the next request may start, with `free` slots free now; `u64::MAX` when a slot must become free first.
    pub fn next_start_ns(&self, now_ns: u64, free: usize) -> u64 {
        match self {
            Self::Open(_) if free == 0 => u64::MAX,
            Self::Open(open) => open.ahead.due_ns(),
            Self::Slowed(slowed) => slowed.next_start_ns(now_ns, free),
        }
    }
}

/// One thread's arrivals; a copy gives the same again.
#[derive(Clone)]
struct Stream {
    start_ns: u64,
    /// Of the next arrival, since the start.
    due_ns: u64,
    gaps: Gaps,
}

#[derive(Clone)]
enum Gaps {
    /// The next arrival's number over all threads, and how many threads there are.
    Even {
        number: u64,
        threads: u64,
        rate: f64,
    },
    Poisson {
        gaps: Exponential,
        mean_ns: f64,
        prng: Prng,
    },
}

impl Stream {
    /// The arrivals of all threads together are those of the rate: even ones in turn, Poisson ones because
    /// independent Poisson processes add up to one.
    fn new(rate: f64, arrivals: Arrivals, seed: u64, thread: u32, threads: u32) -> Option<Self> {
        let gaps = match arrivals {
            Arrivals::Even => {
                let (number, threads) = (u64::from(thread), u64::from(threads));
                Gaps::Even { number, threads, rate }
            }
            Arrivals::Poisson => Gaps::Poisson {
                // Keys take rates in its range only; a tiny share of one is in it too.
                gaps: Exponential::from_rate(rate / f64::from(threads)).ok()?,
                mean_ns: 1e9 * f64::from(threads) / rate,
                prng: Prng::new(seed ^ ARRIVALS_SEED, u64::from(thread)),
            },
        };
        let mut stream = Self { start_ns: 0, due_ns: 0, gaps };
        stream.due_ns = match &mut stream.gaps {
            Gaps::Even { number, rate, .. } => even_ns(*number, *rate),
            Gaps::Poisson { gaps, prng, .. } => gaps.draw_ns(prng),
        };
        Some(stream)
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.due_ns)
    }

    #[inline]
    fn advance(&mut self) {
        self.due_ns = match &mut self.gaps {
            Gaps::Even { number, threads, rate } => {
                *number += *threads;
                even_ns(*number, *rate)
            }
            Gaps::Poisson { gaps, prng, .. } => self.due_ns.saturating_add(gaps.draw_ns(prng)),
        };
    }

    /// Goes on to the first arrival at `until_ns` or later, and gives the number of those before it, at a bounded cost:
    /// even arrivals are computed; Poisson arrivals beyond [`COUNTED_SINGLY`] are taken to be as many as expected,
    /// which is off by the root of their number, a 500th at the most.
    fn skip_to(&mut self, until_ns: u64) -> u64 {
        let until_ns = until_ns.saturating_sub(self.start_ns);
        if let Gaps::Even { number, threads, rate } = &mut self.gaps {
            let first = *number;
            let steps = (until_ns as f64 * *rate / 1e9 - first as f64) / *threads as f64;
            *number = first.saturating_add((steps as u64).saturating_mul(*threads));
            // The estimate may be off by a rounding error.
            while *number > first && even_ns(*number - *threads, *rate) >= until_ns {
                *number -= *threads;
            }
            while even_ns(*number, *rate) < until_ns {
                *number += *threads;
            }
            self.due_ns = even_ns(*number, *rate);
            return (*number - first) / *threads;
        }
        let mut skipped = 0;
        while self.due_ns < until_ns && skipped < COUNTED_SINGLY {
            self.advance();
            skipped += 1;
        }
        if let Gaps::Poisson { mean_ns, .. } = self.gaps
            && self.due_ns < until_ns
        {
            // The one that is due, and those expected after it.
            skipped += 1 + ((until_ns - self.due_ns) as f64 / mean_ns).round() as u64;
            self.due_ns = until_ns;
        }
        skipped
    }
}

/// When the arrival of that number is due, since the start: computed from the number, so that no error adds up.
#[inline]
fn even_ns(number: u64, rate: f64) -> u64 {
    (number as f64 * 1e9 / rate) as u64
}

/// Requests that start when they are due. What is due and finds no slot is only counted: when it was due, a second copy
/// of the arrivals tells.
pub struct OpenLoop {
    /// The next arrival to be started.
    next: Stream,
    /// The next arrival to become due.
    ahead: Stream,
    /// Due until now and started until now, since the start.
    arrived: u64,
    started: u64,
    window_start_ns: u64,
    window_end_ns: u64,
    /// Due and started before the window.
    arrived_before: u64,
    started_before: u64,
    lateness: Lateness,
    /// The intended start of each slot's request.
    intended_ns: Vec<u64>,
    start_delay_ns: Histogram,
    not_started: u64,
    oldest_not_started_ns: Option<u64>,
    unfinished_ns: [Histogram; RESPONSE_CLASSES.len()],
}

/// The classes that have a response time: what one arrival is.
pub const RESPONSE_CLASSES: [OpClass; 5] =
    [OpClass::Read, OpClass::Write, OpClass::Commit, OpClass::Trim, OpClass::Zero];

/// What is known about an open loop of one thread at its end.
pub struct OpenEnd {
    /// Due in the window.
    pub due: u64,
    /// Due and not started at its start.
    pub backlog_start: u64,
    /// Due and not started at its end.
    pub not_started: u64,
    /// The longest that one of these had been due.
    pub oldest_not_started_ns: Option<u64>,
    /// How late requests were started though they could have been.
    pub start_delay_ns: Histogram,
    /// Ages of what was due and had not ended, in the order of [`RESPONSE_CLASSES`].
    pub unfinished_ns: [Histogram; RESPONSE_CLASSES.len()],
}

impl OpenLoop {
    fn new(stream: Stream, depth: u32) -> Self {
        Self {
            next: stream.clone(),
            ahead: stream,
            arrived: 0,
            started: 0,
            window_start_ns: 0,
            window_end_ns: u64::MAX,
            arrived_before: 0,
            started_before: 0,
            lateness: Lateness::default(),
            intended_ns: vec![0; depth as usize],
            start_delay_ns: Histogram::new(),
            not_started: 0,
            oldest_not_started_ns: None,
            unfinished_ns: std::array::from_fn(|_| Histogram::new()),
        }
    }

    fn begin(&mut self, times: Times) {
        (self.next.start_ns, self.ahead.start_ns) = (times.start_ns, times.start_ns);
        self.lateness.free_since_ns = times.start_ns;
        (self.window_start_ns, self.window_end_ns) = (times.window_start_ns, times.window_end_ns);
    }

    /// Counts what is due by `now_ns`, and before the window ends, but not for long: a rate beyond what can be counted
    /// must not keep requests from being started.
    #[inline]
    pub fn arrive(&mut self, now_ns: u64) {
        for _ in 0..COUNTED_AT_ONCE {
            let due_ns = self.ahead.due_ns();
            if due_ns > now_ns || due_ns >= self.window_end_ns {
                return;
            }
            self.ahead.advance();
            self.arrived += 1;
            self.arrived_before += u64::from(due_ns < self.window_start_ns);
        }
    }

    /// Counts all that is due before `until_ns`, and before the window ends, however much that is.
    pub fn arrive_all(&mut self, until_ns: u64) {
        let until_ns = until_ns.min(self.window_end_ns);
        let before = self.ahead.skip_to(until_ns.min(self.window_start_ns));
        self.arrived_before += before;
        self.arrived += before + self.ahead.skip_to(until_ns);
    }

    /// Requests that are due and not started.
    #[inline]
    pub fn backlog(&self) -> u64 {
        self.arrived - self.started
    }

    /// How long the oldest of those has been due.
    #[inline]
    pub fn oldest_wait_ns(&self, now_ns: u64) -> u64 {
        if self.backlog() == 0 { 0 } else { now_ns.saturating_sub(self.next.due_ns()) }
    }

    /// Slots are free at `now_ns`: those that are due could have been started since.
    #[inline]
    pub fn look(&mut self, now_ns: u64) {
        if self.backlog() > 0 {
            self.lateness.look(now_ns, self.next.due_ns());
        }
    }

    /// The oldest due request starts now in a slot.
    #[inline]
    pub fn start(&mut self, slot: u32, now_ns: u64) {
        let intended_ns = self.next.due_ns();
        self.next.advance();
        self.started += 1;
        self.intended_ns[slot as usize] = intended_ns;
        if now_ns < self.window_start_ns {
            self.started_before += 1;
        } else {
            self.start_delay_ns.record(self.lateness.delay_ns(intended_ns, now_ns));
        }
    }

    /// The first slot became free after all had been taken.
    #[inline]
    pub fn slot_freed(&mut self, now_ns: u64) {
        self.lateness.free_since_ns = now_ns;
    }

    /// How long ago the request in a slot was to start.
    #[inline]
    pub fn response_ns(&self, slot: u32, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.intended_ns[slot as usize])
    }

    /// A request is in flight in a slot when the window ends; of one that has not begun nothing is noted.
    pub fn in_flight_at_end(&mut self, slot: u32, class: OpClass, end_ns: u64) {
        if end_ns < self.window_start_ns {
            return;
        }
        let age_ns = self.response_ns(slot, end_ns);
        self.note_unfinished(class, age_ns, 1);
    }

    /// Nothing is started any more: what has become due before `end_ns` and waits never is. `class_of_next` says what
    /// it would have been, none when there is nothing more to do, and `left` how many there were still to do. What became
    /// due in a warm-up that no window follows was never part of one.
    ///
    /// Of a rate beyond everything that can be done, more wait than could be looked at in an acceptable time: they are
    /// all counted, but class and age are those of the middle of equal parts.
    pub fn end(
        &mut self,
        end_ns: u64,
        left: u64,
        mut class_of_next: impl FnMut() -> Option<OpClass>,
    ) {
        if end_ns < self.window_start_ns {
            (self.arrived_before, self.started_before) = (self.started, self.started);
            return;
        }
        let waiting = self.backlog();
        let is_few = waiting.min(left) <= COUNTED_SINGLY;
        // The oldest keeps its own age in any case.
        for _ in 0..if is_few { waiting } else { 1 } {
            let Some(class) = class_of_next() else { return };
            let age_ns = end_ns.saturating_sub(self.next.due_ns());
            self.next.advance();
            self.not_started += 1;
            self.oldest_not_started_ns.get_or_insert(age_ns);
            self.note_unfinished(class, age_ns, 1);
        }
        if is_few {
            return;
        }
        let (first_ns, last_ns) = (self.next.due_ns(), self.ahead.due_ns());
        let spacing_ns = last_ns.saturating_sub(first_ns) as f64 / (waiting - 1) as f64;
        let (mut done, never) = (0, waiting.min(left) - 1);
        for part in 1..=PARTS {
            let Some(class) = class_of_next() else { return };
            let end = (u128::from(never) * u128::from(part) / u128::from(PARTS)) as u64;
            let middle = (done as f64 + (end - 1) as f64) / 2.0;
            let due_ns = first_ns.saturating_add((middle * spacing_ns) as u64);
            self.not_started += end - done;
            self.note_unfinished(class, end_ns.saturating_sub(due_ns), end - done);
            done = end;
        }
    }

    fn note_unfinished(&mut self, class: OpClass, age_ns: u64, times: u64) {
        if let Some(index) = RESPONSE_CLASSES.iter().position(|known| *known == class) {
            self.unfinished_ns[index].record_n(age_ns, times);
        }
    }

    /// What came out.
    pub fn finish(self) -> OpenEnd {
        OpenEnd {
            due: (self.started + self.not_started).saturating_sub(self.arrived_before),
            backlog_start: self.arrived_before.saturating_sub(self.started_before),
            not_started: self.not_started,
            oldest_not_started_ns: self.oldest_not_started_ns,
            start_delay_ns: self.start_delay_ns,
            unfinished_ns: self.unfinished_ns,
        }
    }
}

/// Tells lateness of fathom's own from waiting for a slot.
///
/// What became due while a slot was free could have been started at once. When fathom looks too late, all of it is late
/// for that reason until then, also what now has to wait for slots besides.
#[derive(Default)]
struct Lateness {
    /// When a slot became free after all had been taken.
    free_since_ns: u64,
    /// A time in which slots were free and nobody looked.
    missed_from_ns: u64,
    missed_until_ns: u64,
}

impl Lateness {
    #[inline]
    fn look(&mut self, now_ns: u64, oldest_due_ns: u64) {
        // An earlier time is kept as long as something that became due in it waits, unless this one is longer.
        let missed_ns = now_ns.saturating_sub(self.free_since_ns);
        if oldest_due_ns > self.missed_until_ns
            || missed_ns > self.missed_until_ns - self.missed_from_ns
        {
            (self.missed_from_ns, self.missed_until_ns) = (self.free_since_ns, now_ns);
        }
    }

    #[inline]
    fn delay_ns(&self, due_ns: u64, now_ns: u64) -> u64 {
        if (self.missed_from_ns..=self.missed_until_ns).contains(&due_ns) {
            self.missed_until_ns - due_ns
        } else {
            now_ns.saturating_sub(due_ns.max(self.free_since_ns))
        }
    }
}

/// A closed loop that does not go on at once.
pub struct Slowed {
    start_ns: u64,
    think_ns: u64,
    /// Slots that wait, in the order in which they may go on.
    thinking: VecDeque<(u64, u32)>,
    caps: Vec<Cap>,
}

/// What may be used of something per second: each request takes some, and the next one waits until it has come back.
struct Cap {
    per_request: bool,
    ns_per_unit: f64,
    /// When the next request may start, since the start.
    free_ns: f64,
}

impl Slowed {
    /// The threads take turns from the start, as with even arrivals: otherwise each would begin with a request, and a thousand
    /// threads with a thousand at once.
    fn new(job: &Job, (thread, threads): (u32, u32), depth: u32) -> Self {
        let cap = |per_second: f64, per_request| {
            let ns_per_unit = 1e9 * f64::from(threads) / per_second;
            let first = if per_request { 1.0 } else { job.block_size_bytes_mean() };
            let free_ns = first * 1e9 * f64::from(thread) / per_second;
            Cap { per_request, ns_per_unit, free_ns }
        };
        let operations = job.cap_iops.map(|rate| cap(rate, true));
        let bytes = job.cap_bytes.map(|rate| cap(rate as f64, false));
        Self {
            start_ns: 0,
            think_ns: job.think_time_ns,
            thinking: VecDeque::with_capacity(depth as usize),
            caps: operations.into_iter().chain(bytes).collect(),
        }
    }

    /// A request has ended in a slot: true when the slot waits now, false when it is free.
    #[inline]
    pub fn think(&mut self, slot: u32, now_ns: u64) -> bool {
        if self.think_ns > 0 {
            self.thinking.push_back((now_ns + self.think_ns, slot));
        }
        self.think_ns > 0
    }

    /// Gives back the slots that have waited long enough.
    #[inline]
    pub fn wake(&mut self, now_ns: u64, free: &mut Vec<u32>) {
        while let Some((ready_ns, slot)) = self.thinking.front().copied()
            && ready_ns <= now_ns
        {
            self.thinking.pop_front();
            free.push(slot);
        }
    }

    /// True when every cap lets a request start.
    #[inline]
    pub fn may_start(&self, now_ns: u64) -> bool {
        self.allowed_ns() <= now_ns
    }

    fn allowed_ns(&self) -> u64 {
        let free_ns = self.caps.iter().map(|cap| cap.free_ns).fold(0.0, f64::max);
        self.start_ns.saturating_add(free_ns.ceil() as u64)
    }

    /// A request starts.
    #[inline]
    pub fn start(&mut self, size_bytes: u32, now_ns: u64) {
        let earliest_ns = now_ns.saturating_sub(self.start_ns) as f64 - CATCH_UP_NS;
        for cap in &mut self.caps {
            let units = if cap.per_request { 1.0 } else { f64::from(size_bytes) };
            cap.free_ns = cap.free_ns.max(earliest_ns) + units * cap.ns_per_unit;
        }
    }

    fn next_start_ns(&self, now_ns: u64, free: usize) -> u64 {
        let slot_ns = if free > 0 {
            now_ns
        } else {
            self.thinking.front().map_or(u64::MAX, |(ready_ns, _)| *ready_ns)
        };
        slot_ns.max(self.allowed_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rate: f64, arrivals: Arrivals, thread: u32, threads: u32) -> OpenLoop {
        let stream = Stream::new(rate, arrivals, 1, thread, threads).expect("in range");
        let mut open = OpenLoop::new(stream, 4);
        open.begin(Times { start_ns: 1000, window_start_ns: 1000, window_end_ns: u64::MAX });
        open
    }

    fn dues(stream: &Stream, count: usize) -> Vec<u64> {
        let mut stream = stream.clone();
        let mut next = || {
            let due = stream.due_ns();
            stream.advance();
            due
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn even_arrivals_of_all_threads_are_those_of_the_rate() {
        let mut all: Vec<u64> =
            (0..3).flat_map(|t| dues(&open(3e6, Arrivals::Even, t, 3).next, 1000)).collect();
        all.sort_unstable();
        let expected: Vec<u64> = (0..3000u64).map(|n| 1000 + n * 1000 / 3).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn poisson_threads_add_up_and_differ() {
        let streams: Vec<_> = (0..4).map(|t| open(1e6, Arrivals::Poisson, t, 4).next).collect();
        let counts: Vec<usize> = streams
            .iter()
            .map(|s| dues(s, 30_000).iter().filter(|due| **due < 1000 + 100_000_000).count())
            .collect();
        let total: usize = counts.iter().sum();
        // 100 000 expected, standard deviation 316; five of them.
        assert!((98_420..=101_580).contains(&total), "{total}");
        assert_ne!(counts[0], counts[1]);
    }

    #[test]
    fn what_waits_is_counted_and_keeps_its_intended_start() {
        let mut open = open(1e6, Arrivals::Even, 0, 1);
        open.arrive(4500);
        assert_eq!(open.backlog(), 4, "due at 1000, 2000, 3000, 4000");
        open.look(4500);
        open.start(0, 4500);
        open.start(1, 4500);
        assert_eq!((open.response_ns(0, 5000), open.response_ns(1, 5000)), (4000, 3000));
        open.arrive(4999);
        open.end(5000, u64::MAX, || Some(OpClass::Read));
        let end = open.finish();
        assert_eq!((end.due, end.not_started, end.oldest_not_started_ns), (4, 2, Some(2000)));
        assert_eq!(
            (end.unfinished_ns[0].min(), end.unfinished_ns[0].max()),
            (Some(1000), Some(2000))
        );
    }

    #[test]
    fn skipping_counts_what_walking_counts() {
        for (rate, thread, threads, until_ns) in [
            (1e6, 0, 1, 1000),
            (1e6, 0, 1, 1001),
            (3e6, 2, 3, 77_777),
            (0.5, 1, 2, 3_000_000_000),
            (7e8, 4, 7, 900_001),
            (1e6, 3, 4, 0),
        ] {
            for arrivals in [Arrivals::Even, Arrivals::Poisson] {
                let mut skipped = open(rate, arrivals, thread, threads).next;
                let mut walked = skipped.clone();
                let mut count = 0;
                while walked.due_ns() < until_ns {
                    walked.advance();
                    count += 1;
                }
                assert_eq!(skipped.skip_to(until_ns), count, "{rate} {arrivals:?} {until_ns}");
                assert_eq!(skipped.due_ns(), walked.due_ns(), "{rate} {arrivals:?} {until_ns}");
                assert_eq!(skipped.skip_to(until_ns), 0);
            }
        }
    }

    /// Ten million arrivals of which none was started, against each of them counted.
    #[test]
    fn more_than_can_be_looked_at_is_counted_in_parts() {
        for (arrivals, error) in [(Arrivals::Even, 0.0), (Arrivals::Poisson, 5.0)] {
            let mut open = open(1e7, arrivals, 0, 1);
            (open.window_start_ns, open.window_end_ns) = (500_001_000, 2_000_000_000);
            open.arrive_all(1_000_001_000);
            let mut asked = 0;
            open.end(1_000_001_000, u64::MAX, || {
                asked += 1;
                Some(if asked % 4 == 0 { OpClass::Write } else { OpClass::Read })
            });
            assert!(asked <= COUNTED_SINGLY, "a bounded number of steps");
            let end = open.finish();
            let tolerated = |expected: f64| error * expected.sqrt() + error;
            assert!((end.not_started as f64 - 1e7).abs() <= tolerated(1e7), "{}", end.not_started);
            assert!((end.due as f64 - 5e6).abs() <= tolerated(5e6), "{}", end.due);
            let [reads, writes, ..] = &end.unfinished_ns;
            assert_eq!(reads.count() + writes.count(), end.not_started);
            let share = writes.count() as f64 / end.not_started as f64;
            assert!((share - 0.25).abs() < 1e-4, "{share}");
            assert_eq!(reads.max(), end.oldest_not_started_ns);
            let mean_ns = reads.mean().unwrap();
            // Ages go evenly from nothing to a second.
            assert!((mean_ns / 5e8 - 1.0).abs() < 1e-3, "{mean_ns}");
            for tenth in 1..10 {
                let age_ns = reads.quantile(f64::from(tenth) / 10.0).unwrap() as f64;
                assert!(
                    (age_ns / (1e8 * f64::from(tenth)) - 1.0).abs() < 0.02,
                    "{tenth}: {age_ns}"
                );
            }
        }
    }

    #[test]
    fn an_amount_limits_what_was_never_started() {
        let mut open = open(1e9, Arrivals::Even, 0, 1);
        open.arrive_all(3_600_000_001_000);
        assert_eq!(open.backlog(), 3_600_000_000_000, "an hour of a billion per second");
        open.end(3_600_000_001_000, 1_000_000, || Some(OpClass::Read));
        let end = open.finish();
        assert_eq!((end.not_started, end.unfinished_ns[0].count()), (1_000_000, 1_000_000));
        // They are the oldest ones: due in the first millisecond.
        let youngest_ns = end.unfinished_ns[0].min().unwrap();
        assert!(youngest_ns >= 3_599_999_000_000, "{youngest_ns}");
    }

    /// All slots were free while nobody looked: everything due meanwhile is late for that, also what waits for a slot.
    #[test]
    fn lateness_is_told_from_waiting_for_a_slot() {
        let mut late = Lateness { free_since_ns: 1000, ..Lateness::default() };
        late.look(2000, 1100);
        assert_eq!(late.delay_ns(1100, 2000), 900);
        // All slots are taken until 2500; what became due at 1200 could have started then.
        late.free_since_ns = 2500;
        late.look(2501, 1200);
        assert_eq!(late.delay_ns(1200, 2501), 800);
        // Due while no slot was free: it could start from 2500 on.
        assert_eq!(late.delay_ns(2300, 2501), 1);
        // Drained, and a slot is free since: it could start when due.
        late.look(2610, 2600);
        assert_eq!(late.delay_ns(2600, 2610), 10);
    }

    #[test]
    fn a_cap_lets_no_more_through_and_catches_up_ten_milliseconds() {
        let job = Job { cap_iops: Some(1000.0), ..Job::default() };
        let mut slowed = Slowed::new(&job, (0, 1), 1);
        let starts = |slowed: &mut Slowed, now_ns: u64| {
            let mut count = 0;
            while slowed.may_start(now_ns) {
                slowed.start(4096, now_ns);
                count += 1;
            }
            count
        };
        assert_eq!(starts(&mut slowed, 0), 1, "no burst at the start");
        assert_eq!(slowed.next_start_ns(0, 1), 1_000_000);
        assert_eq!((1..=1000).map(|ms| starts(&mut slowed, ms * 1_000_000)).sum::<u32>(), 1000);
        // Held up for a second: ten milliseconds are made up for, the rest is gone.
        assert_eq!(starts(&mut slowed, 2_000_000_000), 11);
    }

    #[test]
    fn many_threads_begin_in_turn() {
        const MS: u64 = 1_000_000;
        // A hundred per second, of requests or of their bytes.
        let bytes = Job { cap_bytes: Some(100 * 4096), ..Job::default() };
        for job in [Job { cap_iops: Some(100.0), ..Job::default() }, bytes] {
            let mut threads: Vec<Slowed> =
                (0..64).map(|thread| Slowed::new(&job, (thread, 64), 1)).collect();
            let mut started = Vec::new();
            for now_ns in (0..3000).map(|ms| ms * MS) {
                for slowed in &mut threads {
                    while slowed.may_start(now_ns) {
                        slowed.start(4096, now_ns);
                        started.push(now_ns);
                    }
                }
            }
            assert!((299..=301).contains(&started.len()), "{}", started.len());
            for second in started.windows(102) {
                assert!(second[101] - second[0] >= 1000 * MS, "102 within a second: {second:?}");
            }
        }
    }

    #[test]
    fn the_stricter_cap_holds_and_threads_share_it() {
        let job = Job { cap_iops: Some(1000.0), cap_bytes: Some(4096 * 100), ..Job::default() };
        let mut slowed = Slowed::new(&job, (0, 2), 1);
        slowed.start(4096, 0);
        assert_eq!(slowed.next_start_ns(0, 1), 20_000_000);
    }

    #[test]
    fn slots_think_in_order() {
        let job = Job { think_time_ns: 50, ..Job::default() };
        let mut slowed = Slowed::new(&job, (0, 1), 2);
        assert!(slowed.think(1, 100) && slowed.think(0, 120));
        let mut free = Vec::new();
        slowed.wake(149, &mut free);
        assert_eq!((free.len(), slowed.next_start_ns(149, 0)), (0, 150));
        slowed.wake(150, &mut free);
        assert_eq!(free, [1]);
        slowed.wake(170, &mut free);
        assert_eq!(free, [1, 0]);
        assert_eq!(slowed.next_start_ns(170, 0), u64::MAX);
    }
}
