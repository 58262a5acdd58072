//! Offsets that are not simply uniform: distributions, orders, shared positions, several files. All of it stays off the
//! measured loop's fast way: [`crate::generator::Generator`] comes here by one call.

use crate::in_turn::Rounds;
use crate::plan::JobPlan;
use fathom_base::classic_stream::{Randomio, RandomioRequest, iozone_order};
use fathom_base::distribution::{DistributionError, Normal, Pareto, Zones};
use fathom_base::permutation::{Permutation, Shuffle};
use fathom_base::prng::Prng;
use fathom_base::sequence::Order;
use fathom_base::zipf::Zipf;
use fathom_model::pattern::{Cursor, Distribution, FileChoice, zones_of};
use fathom_model::workload::{Access, Job, SyncRule};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What threads share, made with the plan of each run. Nothing of it is touched unless a job asks for it.
#[derive(Debug, Clone, Default)]
pub struct Shared {
    /// The position of `cursor=job` and `cursor=workload`: bytes, or visits where places are counted. For
    /// `access=randomio` the state of its random numbers.
    pub(crate) position: Arc<AtomicU64>,
    /// The order of `access=iozone`, made by the first thread that needs it.
    order: Arc<OnceLock<Vec<u64>>>,
    /// The requests and syncs of `sync_all_every`.
    pub(crate) rounds: Arc<Rounds>,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: u32,
    pub offset_bytes: u64,
    pub size_bytes: u32,
}

/// The range of a job over its files: the same part of each.
#[derive(Debug, Clone, Copy)]
struct Grid {
    files: u64,
    start: u64,
    /// Bytes used of each file.
    length: u64,
    align: u64,
    largest: u64,
    choice: FileChoice,
}

impl Grid {
    fn of(plan: &JobPlan) -> Self {
        Self {
            files: u64::from(plan.job.files.max(1)),
            start: plan.start_bytes,
            length: plan.length_bytes,
            align: plan.align_bytes.max(1),
            largest: u64::from(plan.job.block_size_bytes_max()).max(1),
            choice: plan.job.file_choice,
        }
    }

    /// Offsets in each file at which a request of this size fits.
    fn places(&self, size_bytes: u64) -> u64 {
        self.length.saturating_sub(size_bytes) / self.align + 1
    }

    /// Offsets at which each request fits, over all files.
    fn all_places(&self) -> u64 {
        self.places(self.largest).saturating_mul(self.files)
    }

    fn is_striped(&self) -> bool {
        self.files > 1 && self.choice == FileChoice::RoundRobin
    }

    /// The file and the place in it of a place counted over all files.
    fn locate(&self, place: u64) -> (u32, u64) {
        let per_file = self.places(self.largest);
        let (file, place) = match (self.files, self.is_striped()) {
            (1, _) => (0, place),
            (files, true) => (place % files, place / files),
            (_, false) => (place / per_file, place % per_file),
        };
        (file as u32, place)
    }

    fn offset(&self, place: u64) -> u64 {
        self.start + place * self.align
    }
}

/// How the places of requests follow each other.
#[derive(Debug)]
pub(crate) enum Route {
    Chance(Chance),
    Visits(Visits),
    Walk(Walk),
    Randomio(Arc<AtomicU64>, Randomio, u64),
}

impl Route {
    /// The route of a thread. All that can be wrong with it was found by [`check`].
    pub fn new(plan: &JobPlan, thread: u32, threads: u32) -> Result<Self, DistributionError> {
        let job = &plan.job;
        Ok(match job.access {
            Access::Sequential | Access::Reverse | Access::Append | Access::Replication => {
                Self::Walk(Walk::new(plan, thread, threads))
            }
            Access::Strided | Access::Sweep | Access::Iozone => {
                Self::Visits(Visits::new(plan, thread, threads)?)
            }
            Access::Randomio => {
                let position = Arc::clone(&plan.shared.position);
                Self::Randomio(position, randomio(plan), plan.start_bytes)
            }
            Access::Random | Access::Shuffled => Self::Chance(Chance::new(plan, thread, threads)?),
        })
    }

    /// The place of a request of this size, which may come out smaller at the end of a file or part; none when the way
    /// is at its end.
    pub fn next(&mut self, size_bytes: u32, prng: &mut Prng) -> Option<Place> {
        match self {
            Self::Chance(chance) => Some(chance.next(size_bytes, prng)),
            Self::Visits(visits) => visits.next(size_bytes),
            Self::Walk(walk) => walk.next(size_bytes),
            Self::Randomio(..) => None,
        }
    }

    /// The whole next request of `access=randomio`.
    pub fn next_randomio(&self) -> Option<RandomioRequest> {
        let Self::Randomio(position, stream, start) = self else { return None };
        let mut request = None;
        let step = |state| {
            let (next, after) = stream.request_at(state);
            request = Some(next);
            Some(after)
        };
        let _ = position.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        request.map(|next| RandomioRequest { offset_bytes: next.offset_bytes + start, ..next })
    }
}

fn randomio(plan: &JobPlan) -> Randomio {
    let fsyncs = match plan.job.sync {
        SyncRule::Fraction(share) => share,
        SyncRule::Never | SyncRule::Every(_) => 0.0,
    };
    let size = u64::from(plan.job.block_size_bytes_max());
    Randomio::new(plan.length_bytes, size, plan.job.write_fraction, fsyncs)
}

/// Bytes of one pass: every place once, none of them twice. What is left behind the last whole place is in none.
pub(crate) fn pass_bytes(plan: &JobPlan) -> u64 {
    let (grid, access) = (Grid::of(plan), plan.job.access);
    let whole_bytes = grid.length.saturating_mul(grid.files);
    if matches!(access, Access::Sequential | Access::Reverse) {
        return Walk::bytes_per_file(grid).saturating_mul(grid.files);
    }
    // Places that overlap are more than the range holds.
    grid.all_places().saturating_mul(grid.largest).min(whole_bytes)
}

/// True when a position in bytes is the same offset of the same file for both jobs, which have one range and number of files.
pub(crate) fn walks_alike(plan: &JobPlan, other: &JobPlan) -> bool {
    let pieces = |plan: &JobPlan| {
        let grid = Grid::of(plan);
        (Walk::bytes_per_file(grid), grid.is_striped().then_some(grid.largest))
    };
    pieces(plan) == pieces(other)
}

/// Finds out whether a job's distribution or order exists over its range.
pub(crate) fn check(plan: &JobPlan) -> Result<(), DistributionError> {
    let own = plan.of_thread(0);
    let plan = own.as_ref().unwrap_or(plan);
    let grid = Grid::of(plan);
    match plan.job.access {
        Access::Random if plan.job.distribution != Distribution::Uniform => {
            Chance::new(plan, 0, plan.job.threads).map(|_| ())
        }
        Access::Shuffled => Permutation::new(grid.all_places(), 0, 0).map(|_| ()),
        Access::Strided | Access::Sweep => {
            // The shortest part is the last thread's.
            let last = plan.job.threads.max(1) - 1;
            Visits::new(plan, last, plan.job.threads).map(|_| ())
        }
        _ => Ok(()),
    }
}

/// By chance, with or without repetition.
#[derive(Debug)]
pub(crate) struct Chance {
    grid: Grid,
    draw: Draw,
    /// Requests issued, where the files take turns.
    turn: u64,
}

#[derive(Debug)]
enum Draw {
    Uniform,
    Zipf(Zipf),
    Pareto(Pareto),
    Normal(Normal),
    Zones(Zones),
    Shuffle(Shuffle),
}

impl Chance {
    fn new(plan: &JobPlan, thread: u32, threads: u32) -> Result<Self, DistributionError> {
        let grid = Grid::of(plan);
        let by_turns = grid.files > 1 && grid.choice != FileChoice::Random;
        let is_shuffled = plan.job.access == Access::Shuffled;
        let places =
            if by_turns && !is_shuffled { grid.places(grid.largest) } else { grid.all_places() };
        // The same seed on all threads: they share the hot places, and one order.
        let draw = match &plan.job.distribution {
            _ if is_shuffled => Draw::Shuffle(Shuffle::new(places, plan.seed, thread, threads)?),
            Distribution::Uniform => Draw::Uniform,
            Distribution::Zipf(exponent) => Draw::Zipf(Zipf::new(places, *exponent, plan.seed)?),
            Distribution::Pareto(share) => Draw::Pareto(Pareto::new(places, *share, plan.seed)?),
            Distribution::Normal(percent) => Draw::Normal(Normal::new(places, *percent)?),
            Distribution::Zones(zones) => Draw::Zones(Zones::new(places, &zones_of(zones))?),
        };
        Ok(Self { grid, draw, turn: u64::from(thread) })
    }

    fn next(&mut self, size_bytes: u32, prng: &mut Prng) -> Place {
        let grid = self.grid;
        let place = match &mut self.draw {
            Draw::Uniform => {
                let places = grid.places(u64::from(size_bytes));
                let file = self.turn_of(places).unwrap_or_else(|| prng.below(grid.files));
                let offset_bytes = grid.offset(prng.below(places));
                return Place { file: file as u32, offset_bytes, size_bytes };
            }
            Draw::Shuffle(shuffle) => {
                let (file, place) = grid.locate(shuffle.next_place());
                return Place { file, offset_bytes: grid.offset(place), size_bytes };
            }
            Draw::Zipf(zipf) => zipf.draw(prng),
            Draw::Pareto(pareto) => pareto.draw(prng),
            Draw::Normal(normal) => normal.draw(prng),
            Draw::Zones(zones) => zones.draw(prng),
        };
        let (file, place) = match self.turn_of(grid.places(grid.largest)) {
            Some(file) => (file as u32, place),
            None => grid.locate(place),
        };
        Place { file, offset_bytes: grid.offset(place), size_bytes }
    }

    /// The file whose turn it is; none where chance decides.
    fn turn_of(&mut self, places: u64) -> Option<u64> {
        let Grid { files, choice, .. } = self.grid;
        if files == 1 {
            return Some(0);
        }
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        match choice {
            FileChoice::RoundRobin => Some(turn % files),
            FileChoice::Sequential => Some(turn / places % files),
            FileChoice::Random | FileChoice::Thread => None,
        }
    }
}

/// Who counts.
#[derive(Debug)]
enum Position {
    Own(u64),
    Shared(Arc<AtomicU64>),
}

impl Position {
    fn of(plan: &JobPlan) -> Self {
        match plan.job.cursor {
            Cursor::Thread => Self::Own(0),
            Cursor::Job | Cursor::Workload => Self::Shared(Arc::clone(&plan.shared.position)),
        }
    }

    /// Goes on by `step` of where it is, and says where that was.
    fn advance(&mut self, step: impl Fn(u64) -> u64) -> u64 {
        match self {
            Self::Own(at) => {
                let was = *at;
                *at += step(was);
                was
            }
            Self::Shared(at) => {
                let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
                let (Ok(was) | Err(was)) = at.fetch_update(set, fetch, |was| Some(was + step(was)));
                was
            }
        }
    }
}

/// Places in an order that counts visits: strided, sweep, iozone.
#[derive(Debug)]
pub(crate) struct Visits {
    grid: Grid,
    order: Order,
    /// The order as a list, for `access=iozone`.
    listed: Option<Arc<OnceLock<Vec<u64>>>>,
    /// First place, and number of places, of this thread.
    first: u64,
    places: u64,
    /// Visits before this thread's first one, and where its last one is over.
    begin: u64,
    end: u64,
    position: Position,
}

impl Visits {
    fn new(plan: &JobPlan, thread: u32, threads: u32) -> Result<Self, DistributionError> {
        let (grid, job) = (Grid::of(plan), &plan.job);
        let all = grid.all_places();
        let alone = job.cursor == Cursor::Thread;
        let own = |total: u64| if alone { part_of(total, thread, threads) } else { (0, total) };
        let points = job.sweep_points.unwrap_or(1);
        let order = match job.access {
            Access::Strided => Order::Strided { stride: stride_places(job, grid.align) },
            Access::Sweep => Order::Sweep { steps: points },
            _ => Order::Forward,
        };
        // A sweep's points are shared out, its range is not.
        let ((begin, end), (first, places)) = if job.access == Access::Sweep {
            let (before, own) = own(points);
            ((before, before + own), (0, all))
        } else {
            ((0, u64::MAX), own(all))
        };
        fathom_base::sequence::Sequence::new(order, places, 0)?;
        let listed = (job.access == Access::Iozone).then(|| Arc::clone(&plan.shared.order));
        if let Some(list) = &listed {
            list.get_or_init(|| iozone_order(all));
        }
        Ok(Self { grid, order, listed, first, places, begin, end, position: Position::of(plan) })
    }

    fn next(&mut self, size_bytes: u32) -> Option<Place> {
        let visit = self.begin + self.position.advance(|_| 1);
        if visit >= self.end {
            return None;
        }
        let mut place = self.first + self.order.nth(self.places, visit);
        if let Some(list) = self.listed.as_ref().and_then(|list| list.get()) {
            place = list.get(place as usize).copied().unwrap_or(0);
        }
        let (file, place) = self.grid.locate(place);
        Some(Place { file, offset_bytes: self.grid.offset(place), size_bytes })
    }
}

/// The stride in places; a fraction of one is refused by the plan.
fn stride_places(job: &Job, align: u64) -> u64 {
    job.stride_bytes.unwrap_or(0) / align
}

/// A thread's part of `total` things, as (things before it, its own).
fn part_of(total: u64, thread: u32, threads: u32) -> (u64, u64) {
    let (thread, threads) = (u64::from(thread), u64::from(threads.max(1)));
    let (each, more) = (total / threads, total % threads);
    (thread * each + thread.min(more), each + u64::from(thread < more))
}

/// One piece after the other, up or down, in bytes; sizes may differ. Several files are one after the other, or pieces
/// of all of them in turn.
#[derive(Debug)]
pub(crate) struct Walk {
    grid: Grid,
    /// Bytes used of each file.
    per_file: u64,
    /// Where the thread's part begins, counted over all files, and its length.
    first: u64,
    length: u64,
    is_reverse: bool,
    position: Position,
}

impl Walk {
    /// Whole places of each file, or whole pieces where files take turns.
    fn bytes_per_file(grid: Grid) -> u64 {
        let unit = if grid.is_striped() { grid.largest } else { grid.align };
        grid.length / unit * unit
    }

    fn new(plan: &JobPlan, thread: u32, threads: u32) -> Self {
        let grid = Grid::of(plan);
        let per_file = Self::bytes_per_file(grid);
        let total = per_file * grid.files;
        let (first, length) = match plan.job.cursor {
            Cursor::Thread => crate::generator::split(plan, total, thread, threads),
            Cursor::Job | Cursor::Workload => (0, total),
        };
        let is_reverse = plan.job.access == Access::Reverse;
        Self { grid, per_file, first, length, is_reverse, position: Position::of(plan) }
    }

    /// File, offset in it, and where the piece around that byte begins and ends, all counted in bytes of the file.
    fn piece(&self, byte: u64) -> (u32, u64, u64, u64) {
        let Grid { files, largest, .. } = self.grid;
        if self.grid.is_striped() {
            let (cell, into) = (byte / largest, byte % largest);
            let begin = cell / files * largest;
            return ((cell % files) as u32, begin + into, begin, begin + largest);
        }
        let into = byte % self.per_file;
        ((byte / self.per_file) as u32, into, 0, self.per_file)
    }

    /// The request that begins at a position: file, offset and size.
    fn request(&self, at: u64, size: u64) -> (u32, u64, u64) {
        let at = at % self.length;
        let left = self.length - at;
        if self.is_reverse {
            let (file, last, begin, _) = self.piece(self.first + left - 1);
            let size = size.min(left).min(last + 1 - begin);
            return (file, last + 1 - size, size);
        }
        let (file, offset, _, end) = self.piece(self.first + at);
        (file, offset, size.min(left).min(end - offset))
    }

    /// None for a thread that has no part: more threads than pieces.
    fn next(&mut self, size_bytes: u32) -> Option<Place> {
        if self.length == 0 {
            return None;
        }
        let mut position = std::mem::replace(&mut self.position, Position::Own(0));
        let at = position.advance(|at| self.request(at, u64::from(size_bytes)).2);
        self.position = position;
        let (file, offset, size) = self.request(at, u64::from(size_bytes));
        Some(Place { file, offset_bytes: self.grid.start + offset, size_bytes: size as u32 })
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
