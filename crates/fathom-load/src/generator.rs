//! Which request comes next: offsets, sizes, reads or writes, syncs. Pure: a function of the plan and the seed.

use crate::in_turn::InTurn;
pub use crate::kinds::Kind;
use crate::kinds::{Kinds, OutOfStep, Sizes};
use crate::plan::JobPlan;
use crate::streams::{Place, Route};
use fathom_base::prng::{Prng, chance_threshold};
use fathom_model::pattern::{Cursor, Distribution, Mix};
use fathom_model::workload::{Access, SyncRule, WeightedSize};

/// One transfer to issue, and whether a sync follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Which of the job's files.
    pub file: u32,
    /// Where, in bytes from the start of the file.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
    /// A sync belongs to this write.
    pub sync_after: bool,
    /// First step of a transaction.
    pub begins_transaction: bool,
    /// Last step of a transaction (with its sync).
    pub ends_transaction: bool,
}

/// The stream of one thread.
#[derive(Debug)]
pub struct Generator {
    prng: Prng,
    way: Way,
    sizes: Vec<SizeChoice>,
    start: u64,
    length: u64,
    align: u64,
    cursor: u64,
    write_threshold: u64,
    sync_threshold: u64,
    sync_every: u32,
    writes_since_sync: u32,
    operations_left: u64,
    bytes_left: u64,
    /// Operations and bytes that the measured window is to have; none when it has begun.
    after_warmup: Option<(u64, u64)>,
    replication: Replication,
    largest: u32,
    /// What only some jobs need; their requests come from there.
    special: Option<Box<Special>>,
}

/// The requests of a job that only reads, one size at uniform places: where, in bytes, one after the other. Drawn from what
/// stays in registers; the generator goes on behind them when this is dropped.
pub struct PlainReads<'g> {
    generator: &'g mut Generator,
    prng: Prng,
    start: u64,
    align: u64,
    places: u64,
    size_bytes: u32,
    drawn: u64,
    most: u64,
}

impl PlainReads<'_> {
    /// How much each reads.
    pub fn size_bytes(&self) -> u32 {
        self.size_bytes
    }
}

impl Iterator for PlainReads<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.drawn == self.most {
            return None;
        }
        self.drawn += 1;
        Some(self.start + self.prng.below(self.places) * self.align)
    }
}

impl Drop for PlainReads<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let Self { generator, prng, size_bytes, drawn, .. } = self;
        generator.prng.clone_from(prng);
        generator.operations_left -= *drawn;
        let bytes = drawn.saturating_mul(u64::from(*size_bytes));
        generator.bytes_left = generator.bytes_left.saturating_sub(bytes);
    }
}

/// How requests are found: the common ways have code of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Uniform,
    Sequential,
    Append,
    Replication,
    Special,
}

impl Way {
    fn of(plan: &JobPlan) -> Self {
        let job = &plan.job;
        let has_ranges = job.block_size.iter().any(|size| size.up_to_bytes.is_some());
        let has_own_sizes = !job.write_block_size.is_empty() || !job.trim_block_size.is_empty();
        let is_plain = job.sync_all_every.is_none()
            && job.write_back_fraction == 0.0
            && job.trim_fraction + job.zero_fraction == 0.0
            && job.mix == Mix::Random
            && job.files == 1
            && plan.first_file.is_none()
            && job.cursor == Cursor::Thread
            && !has_own_sizes
            && !has_ranges;
        match job.access {
            Access::Random if is_plain && job.distribution == Distribution::Uniform => {
                Self::Uniform
            }
            Access::Sequential if is_plain => Self::Sequential,
            Access::Append => Self::Append,
            Access::Replication => Self::Replication,
            _ => Self::Special,
        }
    }
}

/// True for a sequence whose last piece is what is left of the range, however little.
pub(crate) fn is_plain_sequence(plan: &JobPlan) -> bool {
    matches!(Way::of(plan), Way::Sequential | Way::Append)
}

/// Everything beyond uniform and sequential requests of one kind of size.
#[derive(Debug)]
struct Special {
    kinds: Kinds,
    reads: Sizes,
    writes: Sizes,
    trims: Sizes,
    route: Route,
    /// What files are counted from: of all of them the first, of a thread with files of its own the first of those.
    first_file: u32,
    in_turn: Option<InTurn>,
    out_of_step: Option<OutOfStep>,
}

impl Special {
    /// None where the route does not exist; the plan has refused that before.
    fn new(plan: &JobPlan, thread: u32, threads: u32) -> Option<Box<Self>> {
        let job = &plan.job;
        let own = plan.of_thread(thread);
        let route = match &own {
            Some(own) => Route::new(own, 0, 1).ok()?,
            None => Route::new(plan, thread, threads).ok()?,
        };
        Some(Box::new(Self {
            kinds: Kinds::of(job),
            reads: Sizes::of(job.read_sizes()),
            writes: Sizes::of(job.write_sizes()),
            trims: Sizes::of(job.trim_sizes()),
            route,
            first_file: plan.first_file.unwrap_or(0) + own.map_or(0, |_| plan.file_of(thread)),
            in_turn: InTurn::of(plan),
            out_of_step: OutOfStep::of(job),
        }))
    }
}

/// One of the sizes, with what would otherwise be computed for each request.
#[derive(Debug, Clone, Copy, Default)]
struct SizeChoice {
    /// Cumulative threshold on 64 bits; that of the last is `u64::MAX`.
    below: u64,
    size_bytes: u32,
    /// How many multiples of it are equally frequent.
    multiples: u32,
    /// How many offsets there are for it, and for all its multiples.
    places: u64,
}

#[derive(Debug)]
struct Replication {
    step: u8,
    offset: u64,
    size: u32,
    log_start: u64,
    log_length: u64,
    log_cursor: u64,
    log_size: u32,
}

impl Generator {
    /// The stream of thread `thread` of the job's `threads`.
    pub fn new(plan: &JobPlan, thread: u32, threads: u32) -> Self {
        let job = &plan.job;
        let (sync_threshold, sync_every) = match job.sync {
            SyncRule::Never => (0, 0),
            SyncRule::Fraction(share) => (chance_threshold(share), 0),
            SyncRule::Every(n) => (0, n),
        };
        let share = |total: u64| {
            total / u64::from(threads) + u64::from(u64::from(thread) < total % u64::from(threads))
        };
        let (start, length) = part(plan, thread, threads);
        let way = Way::of(plan);
        let sizes = if way == Way::Append { job.write_sizes() } else { job.read_sizes() };
        let operations = job.operations.map_or(u64::MAX, share);
        let bytes = plan.amount_bytes.map_or(u64::MAX, |a| split(plan, a, thread, threads).1);
        let warms_up = job.warmup_ns > 0;
        let (operations_left, bytes_left) =
            if warms_up { (u64::MAX, u64::MAX) } else { (operations, bytes) };
        Self {
            prng: Prng::new(plan.seed, u64::from(thread)),
            way,
            sizes: size_choices(sizes, length, plan.align_bytes),
            start,
            length,
            align: plan.align_bytes,
            cursor: 0,
            write_threshold: chance_threshold(job.write_fraction),
            sync_threshold,
            sync_every,
            writes_since_sync: 0,
            operations_left,
            bytes_left,
            after_warmup: warms_up.then_some((operations, bytes)),
            replication: Replication::new(plan),
            largest: job.block_size_bytes_max(),
            special: if way == Way::Special { Special::new(plan, thread, threads) } else { None },
        }
    }

    /// The measured window begins, with this much in flight: from now on amount and operations are used up. Without a
    /// warm-up they were from the start.
    pub fn begin_window(&mut self, operations_in_flight: u64, bytes_in_flight: u64) {
        if let Some((operations, bytes)) = self.after_warmup.take() {
            self.operations_left = operations.saturating_sub(operations_in_flight);
            self.bytes_left = bytes.saturating_sub(bytes_in_flight);
        }
    }

    /// Requests still to come; of an amount in several sizes at least these.
    pub fn requests_left(&self) -> u64 {
        self.operations_left.min(self.bytes_left.div_ceil(u64::from(self.largest.max(1))))
    }

    /// False when nothing comes any more: neither requests nor what is owed after those that there were.
    pub fn has_more(&self) -> bool {
        let in_turn = self.special.as_ref().and_then(|special| special.in_turn.as_ref());
        self.requests_left() > 0 || in_turn.is_some_and(InTurn::is_owing)
    }

    /// Of `depth`, how many requests may be in flight: during a warm-up not more than the window is to have, because
    /// what is in flight when the window begins ends inside it.
    pub fn depth_usable(&self, depth: u32) -> u32 {
        let Some((operations, bytes)) = self.after_warmup else { return depth };
        let largest = u64::from(self.largest);
        let whole = (bytes / largest.max(1)).max(u64::from(bytes > 0));
        u32::try_from(operations.min(whole)).map_or(depth, |most| most.min(depth))
    }

    /// True for uniform reads and writes on one file, which [`Generator::next_uniform`] gives.
    #[inline]
    pub fn is_uniform(&self) -> bool {
        self.way == Way::Uniform
    }

    /// The next request; none when the amount or the number of operations is used up.
    pub fn next(&mut self) -> Option<Request> {
        let in_turn = self.special.as_mut().and_then(|special| special.in_turn.as_mut());
        if let Some(owed) = in_turn.and_then(InTurn::owed) {
            return Some(owed);
        }
        if self.is_used_up() {
            return None;
        }
        let request = match self.way {
            Way::Uniform => self.next_random(),
            Way::Sequential | Way::Append => self.next_sequential()?,
            Way::Replication => self.next_replication(),
            Way::Special => self.next_special()?,
        };
        self.use_up(request);
        if let Some(in_turn) = self.special.as_mut().and_then(|special| special.in_turn.as_mut()) {
            in_turn.issued(request, &mut self.prng);
        }
        Some(request)
    }

    /// What is to be read, by a job of which no request differs from the others but in its place; the same as
    /// [`Generator::next_uniform`] gives.
    #[inline(always)]
    pub fn plain_reads(&mut self) -> Option<PlainReads<'_>> {
        let [SizeChoice { places, size_bytes, .. }] = self.sizes[..] else { return None };
        if self.way != Way::Uniform || self.write_threshold > 0 {
            return None;
        }
        let (prng, start, align, most) =
            (self.prng.clone(), self.start, self.align, self.requests_left());
        let (generator, drawn) = (self, 0);
        Some(PlainReads { generator, prng, start, align, places, size_bytes, drawn, most })
    }

    /// The next request of a uniform job.
    ///
    /// Always inlined into the measured loop, where a call costs a third as much as the work itself.
    #[inline(always)]
    pub fn next_uniform(&mut self) -> Option<Request> {
        if self.is_used_up() {
            return None;
        }
        let request = self.next_random();
        self.use_up(request);
        Some(request)
    }

    #[inline(always)]
    fn is_used_up(&self) -> bool {
        self.operations_left == 0 || self.bytes_left == 0
    }

    #[inline(always)]
    fn use_up(&mut self, request: Request) {
        self.operations_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(u64::from(request.size_bytes));
    }

    #[inline]
    fn size(&mut self) -> SizeChoice {
        if let [only] = self.sizes[..] {
            return only;
        }
        let draw = self.prng.next_u64();
        self.sizes.iter().find(|choice| draw <= choice.below).copied().unwrap_or_default()
    }

    /// Also of ranges of sizes.
    #[inline(never)]
    fn size_of_range(&mut self) -> SizeChoice {
        let mut choice = self.size();
        if choice.multiples > 1 {
            choice.size_bytes *= 1 + self.prng.below(u64::from(choice.multiples)) as u32;
        }
        choice
    }

    #[inline]
    fn random_offset(&mut self, size: SizeChoice) -> u64 {
        self.start + self.prng.below(size.places) * self.align
    }

    #[inline]
    fn transfer(&mut self, write: bool, offset_bytes: u64, size_bytes: u32) -> Request {
        let sync_after = write && self.sync_follows();
        Request {
            kind: if write { Kind::Write } else { Kind::Read },
            file: 0,
            offset_bytes,
            size_bytes,
            sync_after,
            begins_transaction: false,
            ends_transaction: false,
        }
    }

    #[inline(always)]
    fn next_random(&mut self) -> Request {
        let size = self.size();
        let offset = self.random_offset(size);
        let write = self.is_write();
        self.transfer(write, offset, size.size_bytes)
    }

    #[inline(never)]
    fn next_sequential(&mut self) -> Option<Request> {
        // The last piece of an amount that is no multiple of the block keeps its own size.
        let mut size = u64::from(self.size_of_range().size_bytes).min(self.bytes_left);
        if self.cursor + size > self.length {
            size = self.rest_of_pass(size)?;
        }
        let offset = self.start + self.cursor;
        self.cursor += size;
        let write = self.way == Way::Append || self.is_write();
        (size > 0).then(|| self.transfer(write, offset, size as u32))
    }

    /// The size where less than `size` is left of a pass: what is left, or the first of the next pass where nothing is.
    #[cold]
    #[inline(never)]
    fn rest_of_pass(&mut self, size: u64) -> Option<u64> {
        if self.cursor == self.length {
            // A log that began anew at its start would overwrite, which is not what was asked to be measured.
            if self.way == Way::Append {
                return None;
            }
            self.cursor = 0;
        }
        Some(size.min(self.length - self.cursor))
    }

    #[inline(never)]
    fn next_special(&mut self) -> Option<Request> {
        let special = self.special.as_mut()?;
        let mut request = Request {
            kind: Kind::Read,
            file: 0,
            offset_bytes: 0,
            size_bytes: self.largest,
            sync_after: false,
            begins_transaction: false,
            ends_transaction: false,
        };
        if let Some(next) = special.route.next_randomio() {
            request.offset_bytes = next.offset_bytes;
            request.kind = if next.write { Kind::Write } else { Kind::Read };
            request.sync_after = next.fsync;
            return Some(request);
        }
        request.kind = special.kinds.next(&mut self.prng);
        let sizes = match request.kind {
            Kind::Read => &special.reads,
            Kind::Write => &special.writes,
            Kind::Trim | Kind::Zero | Kind::SyncAll => &special.trims,
        };
        // The last piece of an amount that is no multiple of the block keeps its own size.
        let left = u32::try_from(self.bytes_left).unwrap_or(u32::MAX);
        let size_bytes = sizes.next(&mut self.prng).min(left);
        let place = special.route.next(size_bytes, &mut self.prng)?;
        let Place { file, offset_bytes, size_bytes } = place;
        let file = special.first_file + file;
        let is_write = request.kind == Kind::Write;
        let skips = is_write && special.out_of_step.as_mut().is_some_and(OutOfStep::skips);
        request.sync_after = is_write && !skips && self.sync_follows();
        let out_of_step = self.special.as_mut().and_then(|special| special.out_of_step.as_mut());
        if let Some(out_of_step) = out_of_step.filter(|_| request.sync_after) {
            self.writes_since_sync = out_of_step.synced();
        }
        Some(Request { file, offset_bytes, size_bytes, ..request })
    }

    #[inline(never)]
    fn next_replication(&mut self) -> Request {
        let step = self.replication.step;
        self.replication.step = (step + 1) % 3;
        match step {
            0 => {
                let size = self.size_of_range();
                self.replication.size = size.size_bytes;
                self.replication.offset = self.random_offset(size);
                let mut read = self.transfer(false, self.replication.offset, self.replication.size);
                read.begins_transaction = true;
                read
            }
            1 => Request {
                kind: Kind::Write,
                file: 0,
                offset_bytes: self.replication.offset,
                size_bytes: self.replication.size,
                sync_after: false,
                begins_transaction: false,
                ends_transaction: false,
            },
            _ => {
                let (offset_bytes, size_bytes) = self.replication.next_log_record();
                Request {
                    kind: Kind::Write,
                    file: 0,
                    offset_bytes,
                    size_bytes,
                    sync_after: true,
                    begins_transaction: false,
                    ends_transaction: true,
                }
            }
        }
    }

    #[inline]
    fn is_write(&mut self) -> bool {
        // No draw is spent on pure reads; pure writes need none.
        self.write_threshold > 0 && self.prng.chance(self.write_threshold)
    }

    #[inline]
    fn sync_follows(&mut self) -> bool {
        if self.sync_every > 0 {
            self.writes_since_sync += 1;
            let due = self.writes_since_sync >= self.sync_every;
            if due {
                self.writes_since_sync = 0;
            }
            return due;
        }
        self.sync_threshold > 0 && self.prng.chance(self.sync_threshold)
    }
}

fn size_choices(sizes: &[WeightedSize], length: u64, align: u64) -> Vec<SizeChoice> {
    let total: f64 = sizes.iter().map(|s| s.weight).sum();
    let mut below = 0.0;
    let mut choices: Vec<SizeChoice> = sizes
        .iter()
        .map(|size| {
            below += size.weight / total;
            // A part that is smaller than a request is never asked for a random offset.
            let places = length.saturating_sub(u64::from(size.max_bytes())) / align + 1;
            let size_bytes = size.size_bytes;
            let multiples = size.max_bytes() / size_bytes.max(1);
            SizeChoice { below: chance_threshold(below), size_bytes, multiples, places }
        })
        .collect();
    if let Some(last) = choices.last_mut() {
        last.below = u64::MAX;
    }
    choices
}

impl Replication {
    /// The last sixteenth of the range is the log.
    fn new(plan: &JobPlan) -> Self {
        let log_size = plan.job.log_block_size_bytes;
        let unit = plan.align_bytes.max(1);
        let log_length = (plan.length_bytes / 16 / unit * unit).max(u64::from(log_size));
        Self {
            step: 0,
            offset: 0,
            size: 0,
            log_start: plan.start_bytes + data_length(plan),
            log_length,
            log_cursor: 0,
            log_size,
        }
    }

    fn next_log_record(&mut self) -> (u64, u32) {
        if self.log_cursor + u64::from(self.log_size) > self.log_length {
            self.log_cursor = 0;
        }
        let offset = self.log_start + self.log_cursor;
        self.log_cursor += u64::from(self.log_size);
        (offset, self.log_size)
    }
}

/// Length of the data part of a replication range, on the alignment.
fn data_length(plan: &JobPlan) -> u64 {
    let unit = plan.align_bytes.max(1);
    plan.length_bytes / unit * unit - plan.length_bytes / 16 / unit * unit
}

/// The range of one thread: its own part for sequential access, the whole otherwise.
fn part(plan: &JobPlan, thread: u32, threads: u32) -> (u64, u64) {
    match plan.job.access {
        Access::Replication => (plan.start_bytes, data_length(plan)),
        Access::Sequential => {
            let (before, own) = split(plan, plan.length_bytes, thread, threads);
            (plan.start_bytes + before, own)
        }
        // Special ways know their own parts.
        _ => (plan.start_bytes, plan.length_bytes),
    }
}

/// A thread's part of `total` bytes in whole blocks, as (bytes before it, its own): the blocks that do not divide go to
/// the first threads, one each, and the rest of a block to the last, so that every other one begins and ends at a block.
pub(crate) fn split(plan: &JobPlan, total: u64, thread: u32, threads: u32) -> (u64, u64) {
    let unit = u64::from(plan.job.block_size_bytes_max()).max(1);
    let (thread, threads) = (u64::from(thread), u64::from(threads));
    let (each, more, rest) = (total / unit / threads, total / unit % threads, total % unit);
    let before = (thread * each + thread.min(more)) * unit;
    let is_last = thread + 1 == threads;
    let own = (each + u64::from(thread < more)) * unit + if is_last { rest } else { 0 };
    (before, own)
}

#[cfg(test)]
#[path = "generator_tests.rs"]
pub(crate) mod tests;
