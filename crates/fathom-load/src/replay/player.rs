//! The loop that issues requests: each is made ready before its time, starts at it, and is followed to its end.

use super::way::Way;
use super::{ReplayKind, ReplayQueues, ReplayRequest, ReplayRules, ReplayStep};
use crate::engine::Op;
use fathom_base::clock::Clock;
use fathom_base::content::Filler;
use fathom_sys::clock::FastClock;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Waits are ended so much earlier and the rest is spent looking: sleeps end too late.
const AWAKE_NS: u64 = 80_000;
/// How long it waits at most before it looks whether it is to stop.
const LOOK_NS: u64 = 20_000_000;
/// An empty queue is looked at that often.
const HUNGRY_NS: u64 = 200_000;
/// So many are handed over at once at most: the first of them waits for the others.
const BATCH: usize = 8;

/// So long takes the content of a KiB at most, on a slow processor: 4 GB/s are 256 ns.
const CONTENT_NS_PER_KIB: u64 = 500;

/// What a short transfer counts as.
const EIO: i32 = 5;

/// A buffer with what is in flight by it: a request, or several that lie behind each other and were one to the driver of the trace.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// All of it as one.
    whole: Option<ReplayRequest>,
    /// What it is of; its memory stays.
    parts: Vec<ReplayRequest>,
    start_ns: u64,
    /// How much later than the last of them was due.
    late_ns: Option<u64>,
    step: Step,
}

impl Slot {
    /// When a part arrived: those that go together wait for the last of them, as they did in the trace.
    fn arrived_ns(&self, part: &ReplayRequest) -> u64 {
        self.late_ns.map_or(self.start_ns, |late_ns| part.due_ns + late_ns)
    }
}

/// What is handed over together.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    slots: usize,
    /// When the last of them is due.
    due_ns: u64,
    /// The one that comes next goes with them.
    is_followed: bool,
}

/// Which part of a request is in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    FlushBefore,
    #[default]
    Itself,
    FlushAfter,
}

impl Step {
    fn first(request: &ReplayRequest) -> Self {
        if request.flush_before { Self::FlushBefore } else { Self::Itself }
    }

    fn next(self, request: &ReplayRequest) -> Option<Self> {
        match self {
            Self::FlushBefore => Some(Self::Itself),
            Self::Itself => request.flush_after.then_some(Self::FlushAfter),
            Self::FlushAfter => None,
        }
    }

    fn op(self, request: &ReplayRequest) -> Op {
        let ReplayRequest { offset_bytes, size_bytes, .. } = *request;
        match (self, request.kind) {
            (Self::Itself, ReplayKind::Read) => Op::Read { offset_bytes, size_bytes },
            (Self::Itself, ReplayKind::Write) => Op::Write { offset_bytes, size_bytes },
            _ => Op::Fdatasync,
        }
    }
}

/// What there is to be issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coming {
    /// Nothing any more.
    Never,
    /// Nothing yet: the reader is behind.
    Unknown,
    /// Something, when another has ended.
    WithRoom,
    /// Something at that time.
    At(u64),
    /// Something now.
    Now,
}

pub(super) struct Player<'a, 'f> {
    way: Way<'f>,
    clock: &'a FastClock,
    rules: ReplayRules,
    queues: &'a ReplayQueues,
    slots: Vec<Slot>,
    free: Vec<u32>,
    next: Option<ReplayRequest>,
    /// Slots of the next ones in their order, with buffers that are filled: only their time is waited for.
    staged: VecDeque<u32>,
    /// Which of them are handed over together.
    groups: VecDeque<Group>,
    in_flight: u32,
    /// Not handed over yet.
    queued: u32,
    /// Makes what is written: by it the guard of test files knows what is fathom's.
    filler: Filler,
    /// Counts writes, so that no two have the same content.
    written: u64,
    /// Reads and writes that were handed over.
    issued: [u64; 2],
    syncs: u64,
    start_ns: u64,
    starved: u64,
}

impl<'a, 'f> Player<'a, 'f> {
    pub(super) fn new(
        way: Way<'f>,
        clock: &'a FastClock,
        rules: ReplayRules,
        queues: &'a ReplayQueues,
    ) -> Self {
        Self {
            way,
            clock,
            rules,
            queues,
            slots: vec![Slot::default(); rules.depth as usize],
            free: (0..rules.depth).rev().collect(),
            next: None,
            staged: VecDeque::with_capacity(rules.depth as usize),
            groups: VecDeque::with_capacity(rules.depth as usize),
            in_flight: 0,
            queued: 0,
            filler: Filler::noise(rules.seed),
            written: 0,
            issued: [0; 2],
            syncs: 0,
            start_ns: clock.now_ns(),
            starved: 0,
        }
    }

    /// When it started, on the clock.
    pub(super) fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Reads and writes that were handed over.
    pub(super) fn issued(&self) -> [u64; 2] {
        self.issued
    }

    /// How often fdatasync(2) was.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs
    }

    /// How often the reader was too slow.
    pub(super) fn starved(&self) -> u64 {
        self.starved
    }

    /// Issues all, and waits for their ends.
    pub(super) fn play(&mut self, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let mut is_over = false;
        loop {
            is_over = is_over || stop();
            let coming = if is_over { Coming::Never } else { self.issue()? };
            if self.in_flight == 0 && coming == Coming::Never {
                return Ok(());
            }
            let ended = self.wait(coming)?;
            self.take(ended);
        }
    }

    /// Takes what has ended, all of it.
    fn take(&mut self, ended: u32) {
        let time_ns = self.now_ns();
        for _ in 0..ended {
            let Some((slot, result)) = self.way.take() else { break };
            self.ended(slot, result, time_ns);
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns() - self.start_ns
    }

    /// A step of what a slot carries has ended: the next one follows, or all of it has.
    fn ended(&mut self, slot: u32, result: i32, time_ns: u64) {
        let of = &mut self.slots[slot as usize];
        let Some(whole) = of.whole else { return };
        let moves = of.step == Step::Itself && whole.kind != ReplayKind::Flush;
        let error = match result {
            ..0 => -result,
            _ if moves && result != whole.size_bytes as i32 => EIO,
            _ => 0,
        };
        if let Some(next) = of.step.next(&whole).filter(|_| error == 0) {
            of.step = next;
            self.queue(slot, next.op(&whole));
            return;
        }
        self.log(slot, Some((time_ns, error)));
        self.in_flight -= 1;
        self.free.push(slot);
    }

    fn queue(&mut self, slot: u32, op: Op) {
        self.syncs += u64::from(op == Op::Fdatasync);
        self.way.queue(slot, op);
        self.queued += 1;
    }

    /// Issues what may start now, a few at once.
    fn issue(&mut self) -> io::Result<Coming> {
        let mut started = 0;
        while started < BATCH {
            if let Some(coming) = self.stage()? {
                return Ok(coming);
            }
            let Some(group) = self.groups.front().copied() else { break };
            // After the buffers were filled: that is no part of their time.
            let start_ns = self.now_ns();
            if self.rules.is_timed && group.due_ns > start_ns {
                self.stage_more(group.due_ns)?;
                return Ok(Coming::At(group.due_ns));
            }
            started += group.slots;
            let first = self.staged.front().and_then(|slot| self.slots[*slot as usize].whole);
            if first.is_some_and(|first| first.kind == ReplayKind::Write) {
                // Handed over at once with those before it, a late one would be merged with what it was not merged with in the trace.
                self.hand_over()?;
            }
            self.start(group, self.now_ns());
        }
        Ok(Coming::Now)
    }

    /// Starts the first of what is ready.
    fn start(&mut self, group: Group, start_ns: u64) {
        self.groups.pop_front();
        let late_ns = self.rules.is_timed.then(|| start_ns - group.due_ns);
        for _ in 0..group.slots {
            let Some(slot) = self.staged.pop_front() else { break };
            let of = &mut self.slots[slot as usize];
            let Some(whole) = of.whole else { continue };
            (of.start_ns, of.late_ns, of.step) = (start_ns, late_ns, Step::first(&whole));
            let op = of.step.op(&whole);
            self.in_flight += 1;
            self.issued[usize::from(whole.kind == ReplayKind::Write)] +=
                u64::from(whole.kind != ReplayKind::Flush);
            self.queue(slot, op);
            self.log(slot, None);
        }
    }

    /// Makes the next request ready, with those that go with it, unless it is. Else says what is to come.
    fn stage(&mut self) -> io::Result<Option<Coming>> {
        while self.groups.len() < 2 && self.groups.front().is_none_or(|group| group.is_followed) {
            match self.stage_one()? {
                None => {}
                Some(Coming::Unknown) => {
                    self.starved += 1;
                    return Ok(Some(Coming::Unknown));
                }
                other => return Ok(other.filter(|_| self.groups.is_empty())),
            }
        }
        Ok(None)
    }

    /// While nothing is in flight, makes those ready that come after the first one, as many as there is time for: the requests of a burst
    /// start one after the other then, and not each after the content of the one before.
    fn stage_more(&mut self, due_ns: u64) -> io::Result<()> {
        while self.in_flight == 0 {
            self.next = self.next.or_else(|| self.queues.requests.pop());
            let Some(next) = self.next else { break };
            let takes_ns = u64::from(next.size_bytes) * CONTENT_NS_PER_KIB / 1024;
            let has_time = self.now_ns() + AWAKE_NS + takes_ns < due_ns;
            if !has_time || self.stage_one()?.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Makes one more request ready. Else says what is missing for it.
    fn stage_one(&mut self) -> io::Result<Option<Coming>> {
        if self.next.is_none() {
            // Read before the queue: what was pushed before is then seen.
            let is_fed = self.queues.is_fed.load(Ordering::Acquire);
            self.next = self.queues.requests.pop();
            if self.next.is_none() {
                return Ok(Some(if is_fed { Coming::Never } else { Coming::Unknown }));
            }
        }
        let Some(request) = self.next else { return Ok(None) };
        let Some(slot) = self.slot_for(&request) else { return Ok(Some(Coming::WithRoom)) };
        self.next = None;
        self.make_ready(request, slot)?;
        Ok(None)
    }

    /// The slot of the one before where it goes with that and there is room behind it, else a new one; none without any.
    fn slot_for(&mut self, request: &ReplayRequest) -> Option<u32> {
        let is_joined = self.groups.back().is_some_and(|group| group.is_followed);
        let has_room = |slot: &u32| {
            let whole = self.slots[*slot as usize].whole;
            is_joined && whole.is_some_and(|whole| whole.takes(request, self.rules.buffer_bytes))
        };
        if let Some(slot) = self.staged.back().copied().filter(has_room) {
            return Some(slot);
        }
        let slot = self.free.pop()?;
        let of = &mut self.slots[slot as usize];
        of.whole = None;
        of.parts.clear();
        self.staged.push_back(slot);
        if !is_joined {
            self.groups.push_back(Group::default());
        }
        self.groups.back_mut().into_iter().for_each(|group| group.slots += 1);
        Some(slot)
    }

    /// Fills the buffer of a request.
    fn make_ready(&mut self, request: ReplayRequest, slot: u32) -> io::Result<()> {
        let of = &mut self.slots[slot as usize];
        let before = of.whole.map_or(0, |whole| whole.size_bytes);
        of.whole = Some(match of.whole {
            Some(whole) => ReplayRequest { size_bytes: before + request.size_bytes, ..whole },
            None => request,
        });
        of.parts.push(request);
        if let Some(group) = self.groups.back_mut() {
            group.due_ns = group.due_ns.max(request.due_ns);
            group.is_followed = request.is_followed;
        }
        if request.kind == ReplayKind::Write {
            // Those that have started do not wait for the content of this one.
            self.hand_over()?;
            self.written += 1;
            let range = before as usize..(before + request.size_bytes) as usize;
            let buffer = &mut self.way.buffer_mut(slot)[range];
            self.filler.fill(buffer, request.offset_bytes, self.written);
        }
        Ok(())
    }

    /// Hands over what has started.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.queued > 0 {
            self.queued = 0;
            let ended = self.way.run(0)?;
            self.take(ended);
        }
        Ok(())
    }

    /// Hands over, and waits for an end or for the time of the next request.
    fn wait(&mut self, coming: Coming) -> io::Result<u32> {
        self.queued = 0;
        let wait_ns = match coming {
            Coming::Never | Coming::WithRoom => return self.way.run(1),
            Coming::Unknown => HUNGRY_NS,
            Coming::Now => 0,
            Coming::At(due_ns) => {
                due_ns.saturating_sub(self.now_ns()).saturating_sub(AWAKE_NS).min(LOOK_NS)
            }
        };
        if self.in_flight == 0 && wait_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wait_ns));
            return Ok(0);
        }
        self.way.run_for(1, wait_ns)
    }

    /// What happened to all that a slot carries. Never lost: when nobody takes it, it waits, and the delay shows as such.
    fn log(&self, slot: u32, ended: Option<(u64, i32)>) {
        let of = &self.slots[slot as usize];
        for request in &of.parts {
            let arrived_ns = of.arrived_ns(request);
            let mut step =
                ReplayStep { request: *request, arrived_ns, start_ns: of.start_ns, ended };
            while let Err(back) = self.queues.steps.push(step) {
                step = back;
                std::thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_sys::arena::Arena;
    use fathom_sys::request::FileTable;
    use std::os::fd::AsFd;

    /// Eight large writes that are due together in an hour: all their content is there before the first of them starts, and those behind
    /// them wait for room.
    #[test]
    fn the_content_of_a_burst_is_made_in_the_pause_before_it() {
        const SIZE_BYTES: u32 = 1 << 20;
        let name = format!("fathom-player-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create(&path).expect("a file");
        std::fs::remove_file(&path).expect("removed");
        let queues = ReplayQueues::new(32);
        for number in 0..12 {
            let request = ReplayRequest {
                due_ns: 3_600_000_000_000 + number * 35_000,
                kind: ReplayKind::Write,
                offset_bytes: number * u64::from(SIZE_BYTES),
                size_bytes: SIZE_BYTES,
                flush_before: false,
                flush_after: false,
                is_rest: false,
                is_followed: number == 2,
            };
            queues.requests.push(request).expect("room");
        }
        let rules = ReplayRules {
            depth: 8,
            buffer_bytes: SIZE_BYTES,
            is_timed: true,
            with_ring: false,
            seed: 3,
        };
        let table = FileTable::new(&[file.as_fd()]).expect("a table");
        let arena = Arena::new(8, SIZE_BYTES as usize).expect("buffers");
        let way = Way::new(table, arena, false).expect("libaio");
        let clock = FastClock::monotonic();
        let mut player = Player::new(way, &clock, rules, &queues);
        assert_eq!(player.issue().expect("issued"), Coming::At(3_600_000_000_000));
        let slots: Vec<usize> = player.groups.iter().map(|group| group.slots).collect();
        assert_eq!((slots, player.in_flight, player.starved), (vec![1, 1, 2, 1, 1, 1, 1], 0, 0));
        for slot in 0..8 {
            let content = player.way.buffer_mut(slot);
            assert!(content.iter().any(|byte| *byte != 0), "slot {slot}");
        }
        assert_eq!(queues.requests.len(), 3, "the ninth waits for room");
    }

    #[test]
    fn a_commit_is_a_flush_a_write_and_a_flush() {
        let steps = |flush_before, flush_after| {
            let (due_ns, offset_bytes, size_bytes, is_rest) = (0, 0, 4096, false);
            let kind = ReplayKind::Write;
            let request = ReplayRequest {
                due_ns,
                kind,
                offset_bytes,
                size_bytes,
                flush_before,
                flush_after,
                is_rest,
                is_followed: false,
            };
            let mut steps = vec![Step::first(&request)];
            while let Some(next) = steps[steps.len() - 1].next(&request) {
                steps.push(next);
            }
            let ops = steps.iter().map(|step| step.op(&request) == Op::Fdatasync);
            ops.collect::<Vec<_>>()
        };
        assert_eq!(steps(false, false), [false]);
        assert_eq!(steps(true, false), [true, false]);
        assert_eq!(steps(false, true), [false, true]);
        assert_eq!(steps(true, true), [true, false, true]);
    }
}
