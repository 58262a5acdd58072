//! Which number of requests in flight to measure next: growing until throughput no longer does, narrowing around the
//! knee, then repeating the points near it in blocks of random order. A pure state machine: the caller measures.

use crate::knee::GROWTH_MIN;
use fathom_base::order::Order;
use fathom_base::prng::Prng;
use fathom_stats::interval::{self, Interval};
use serde::Serialize;
use std::collections::BTreeMap;

/// Neighbours closer than this ratio are not told apart.
pub const RESOLUTION: f64 = 1.2;
/// Blocks at most: enough for an interval of 95 % (six), and for one disturbed block on either side.
pub const BLOCKS_MAX: usize = 8;
/// Blocks at least, for an interval of 95 %.
const BLOCKS_ENOUGH: usize = 6;
/// With so many runs of a number, one bad run does not move their median.
const RUNS_ENOUGH: usize = 3;
/// The level of the intervals that decide.
pub const LEVEL: f64 = 0.95;
/// Wider intervals, on the scale of logarithms, decide nothing: where runs differ so much, few true claims can be made, and
/// those made by luck would be a large part of all.
const WIDTH_MAX: f64 = 0.25;
/// A second thread comes with as many requests for each: fewer, and the threads only wake each other.
const DEPTH_PER_THREAD: u64 = 8;

/// How requests in flight become threads and depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Threads at the most.
    pub threads_max: u64,
    /// The engine has one request in flight per thread, so that threads are the only way to more.
    pub one_per_thread: bool,
}

impl Shape {
    /// Threads for so many requests in flight.
    fn threads(self, concurrency: u64) -> u64 {
        if self.one_per_thread {
            return concurrency.max(1);
        }
        (concurrency / DEPTH_PER_THREAD).clamp(1, self.threads_max.max(1))
    }

    /// The next number from `concurrency` on that divides evenly over its threads.
    #[must_use]
    pub fn round(self, concurrency: u64) -> u64 {
        let from = concurrency.max(1);
        (from..).find(|c| c.is_multiple_of(self.threads(*c))).unwrap_or(from)
    }

    /// Threads and depth of a number that [`Shape::round`] gave.
    #[must_use]
    pub fn split(self, concurrency: u64) -> (u64, u64) {
        let threads = self.threads(concurrency);
        (threads, concurrency / threads)
    }
}

/// Throughputs in the order in which they were measured, each with its requests in flight.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Runs {
    in_order: Vec<(u64, f64)>,
}

/// One run: its place in the order, and its throughput.
type Placed = (usize, f64);

impl Runs {
    /// Adds the next one, in any unit of throughput.
    pub fn push(&mut self, concurrency: u64, throughput: f64) {
        self.in_order.push((concurrency, throughput));
    }

    /// All numbers of requests in flight, rising, each once.
    #[must_use]
    pub fn concurrencies(&self) -> Vec<u64> {
        self.grouped().into_keys().collect()
    }

    fn has(&self, concurrency: u64) -> bool {
        self.in_order.iter().any(|(known, _)| *known == concurrency)
    }

    fn grouped(&self) -> BTreeMap<u64, Vec<Placed>> {
        let mut groups: BTreeMap<u64, Vec<Placed>> = BTreeMap::new();
        for (place, (concurrency, throughput)) in self.in_order.iter().enumerate() {
            groups.entry(*concurrency).or_default().push((place, *throughput));
        }
        groups
    }

    /// What is known of each number: the median of its runs in blocks from two on, else its single run.
    fn levels(&self) -> BTreeMap<u64, Level> {
        let level = |runs: Vec<Placed>| match in_blocks(&runs) {
            Some(runs) => Level { throughput: median(runs), blocks: runs.len() },
            None => Level { throughput: runs.first().map_or(0.0, |r| r.1), blocks: 0 },
        };
        self.grouped().into_iter().map(|(concurrency, runs)| (concurrency, level(runs))).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Level {
    throughput: f64,
    blocks: usize,
}

/// The runs of a number that were not the search's own, which was chosen for what it showed. A single one may be of a block
/// that was cut short.
fn in_blocks(runs: &[Placed]) -> Option<&[Placed]> {
    runs.get(1..).filter(|runs| runs.len() > 1)
}

fn median(runs: &[Placed]) -> f64 {
    interval::median(&runs.iter().map(|(_, x)| *x).collect::<Vec<_>>()).unwrap_or(0.0)
}

/// Where throughput stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Knee {
    /// The smallest number of requests in flight from which on more bring less than 10 % more throughput.
    pub concurrency: u64,
    /// With fewer in flight than this, or as many, throughput is lower for certain; none where nothing lower is.
    pub above: Option<u64>,
    /// With so many in flight the plateau is reached for certain; none where the blocks do not decide it.
    pub reached_by: Option<u64>,
    /// Blocks that it rests on; 0 means that single runs decided.
    pub blocks: usize,
    /// A number in flight with fewer than three runs without which the knee would be another: it is not decided then.
    pub rests_on: Option<u64>,
}

impl Knee {
    /// True when intervals of 95 % separate what lies below from what reaches the plateau.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        self.rests_on.is_none()
            && self.reached_by == Some(self.concurrency)
            && (self.above.is_some() || self.concurrency == 1)
    }
}

/// How far the search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Single runs.
    First,
    /// A few blocks have shown where the plateau is; the knee is narrowed again with that.
    Second,
    /// The last blocks.
    Last,
}

/// Blocks of the first round: enough for a median that one disturbed run does not move.
const FIRST_BLOCKS: usize = 3;

/// The search. The caller measures what [`Search::next`] asks for and tells [`Search::measured`].
#[derive(Debug, Clone)]
pub struct Search {
    shape: Shape,
    start: u64,
    limit: u64,
    runs: Runs,
    order: Prng,
    round: Round,
    members: Vec<u64>,
    blocks_left: usize,
    /// What is left of the current block.
    block: Vec<u64>,
}

impl Search {
    /// A search from `start`, going up to `limit` requests in flight; `seed` gives the order inside blocks.
    #[must_use]
    pub fn new(shape: Shape, start: u64, limit: u64, seed: u64) -> Self {
        let limit = shape.round(limit);
        Self {
            shape,
            start: shape.round(start).min(limit),
            limit,
            runs: Runs::default(),
            order: Prng::new(seed, 0),
            round: Round::First,
            members: Vec::new(),
            blocks_left: 0,
            block: Vec::new(),
        }
    }

    /// The next number of requests in flight, when the time is enough for `left` more runs. None ends the search.
    pub fn next(&mut self, left: usize) -> Option<u64> {
        if left == 0 {
            return None;
        }
        while self.block.is_empty() {
            if self.blocks_left > 0 {
                self.blocks_left -= 1;
                self.block.clone_from(&self.members);
                shuffle(&mut self.block, &mut self.order);
                continue;
            }
            if self.round == Round::Last {
                return rests_on(&self.runs);
            }
            if let Some(next) = self.explore() {
                return Some(next);
            }
            self.plan_blocks(left);
        }
        self.block.pop()
    }

    /// Chooses the members of the next blocks, and how many there are time for.
    fn plan_blocks(&mut self, left: usize) {
        let near = near_knee(&self.runs);
        // As many blocks again must be possible afterwards, or the first ones are not worth it.
        if self.round == Round::First && left >= near.len() * 3 * FIRST_BLOCKS {
            (self.round, self.members, self.blocks_left) = (Round::Second, near, FIRST_BLOCKS);
            return;
        }
        self.round = Round::Last;
        self.members = around_knee(&self.runs);
        // With one member there is nothing to compare, and one block alone says no more than single runs.
        let count = self.members.len().max(1);
        // A single run that contradicts the blocks is repeated, where that leaves enough of them for an interval.
        let kept = left.saturating_sub(RUNS_ENOUGH) / count;
        let affordable = if kept >= BLOCKS_ENOUGH { kept } else { left / count };
        if self.members.len() > 1 && affordable > 1 {
            self.blocks_left = affordable.min(BLOCKS_MAX);
        }
    }

    /// Takes in a result, in any unit of throughput.
    pub fn measured(&mut self, concurrency: u64, throughput: f64) {
        self.runs.push(concurrency, throughput);
    }

    /// What has been measured.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Runs that are probably still to come, for progress.
    #[must_use]
    pub fn expected_runs(&self) -> usize {
        let last = 3 * BLOCKS_MAX;
        let begun = self.block.len() + self.blocks_left * self.members.len();
        match self.round {
            Round::First => {
                12usize.saturating_sub(self.runs.in_order.len()).max(1) + 5 * FIRST_BLOCKS + last
            }
            Round::Second => begun + last,
            Round::Last => begun,
        }
    }

    fn explore(&self) -> Option<u64> {
        let first = [1, self.start].into_iter().find(|c| !self.runs.has(*c));
        first.or_else(|| self.grow()).or_else(|| self.at_cliff()).or_else(|| self.narrow())
    }

    /// Twice the largest, until two numbers above the knee brought nothing; three where the last one was still the best,
    /// because a curve that creeps up has a plateau higher than that.
    fn grow(&self) -> Option<u64> {
        let levels = self.runs.levels();
        let knee = estimate(&levels)?;
        let top = *levels.last_key_value()?.0;
        let enough = if best(&levels)?.0 == top { 3 } else { 2 };
        let fruitless = levels.range(knee + 1..).count();
        (fruitless < enough && top < self.limit).then(|| self.shape.round(top * 2).min(self.limit))
    }

    /// Where throughput falls right behind the best, the peak may lie between the two.
    fn at_cliff(&self) -> Option<u64> {
        let levels = self.runs.levels();
        let (best, most) = best(&levels)?;
        let (next, fallen) = levels.range(best + 1..).next()?;
        if fallen.throughput * (1.0 + GROWTH_MIN) >= most {
            return None;
        }
        self.between(best, *next)
    }

    fn narrow(&self) -> Option<u64> {
        let levels = self.runs.levels();
        let knee = estimate(&levels)?;
        let below = *levels.range(..knee).next_back()?.0;
        self.between(below, knee)
    }

    /// The geometric middle, unless both are so near that it says nothing.
    fn between(&self, low: u64, high: u64) -> Option<u64> {
        if high as f64 <= low as f64 * RESOLUTION {
            return None;
        }
        let middle = self.shape.round((low as f64 * high as f64).sqrt().round() as u64);
        (low < middle && middle < high).then_some(middle)
    }
}

fn shuffle(values: &mut [u64], order: &mut Prng) {
    for last in (1..values.len()).rev() {
        values.swap(last, order.below(last as u64 + 1) as usize);
    }
}

/// The smallest number in flight with the highest throughput: among those that were in blocks, where there are any, because
/// the best of many single runs is too good.
fn best(levels: &BTreeMap<u64, Level>) -> Option<(u64, f64)> {
    let most_blocks = levels.values().map(|level| level.blocks).max()?;
    let counting = levels.iter().filter(|(_, level)| level.blocks * 2 >= most_blocks);
    let best = counting.reduce(|a, b| if b.1.throughput > a.1.throughput { b } else { a })?;
    Some((*best.0, best.1.throughput))
}

/// The smallest number from which on the best is less than [`GROWTH_MIN`] above.
fn estimate(levels: &BTreeMap<u64, Level>) -> Option<u64> {
    let (_, most) = best(levels)?;
    let mut reaching = levels.iter().filter(|(_, l)| l.throughput * (1.0 + GROWTH_MIN) > most);
    reaching.next().map(|(concurrency, _)| *concurrency)
}

/// What the first blocks compare: the knee as single runs have it, two below it, because the best of single runs is too good
/// and moves the knee up, the next one above it, and the best.
fn near_knee(runs: &Runs) -> Vec<u64> {
    let levels = runs.levels();
    let below = estimate(&levels).and_then(|knee| levels.range(..knee).rev().nth(1));
    let mut near = around_knee(runs);
    near.extend(below.map(|(concurrency, _)| *concurrency));
    near.order();
    near
}

/// The knee, its neighbours, and the best.
fn around_knee(runs: &Runs) -> Vec<u64> {
    let levels = runs.levels();
    let (Some(knee), Some((best, _))) = (estimate(&levels), best(&levels)) else {
        return Vec::new();
    };
    let mut around = vec![knee, best];
    around.extend(levels.range(..knee).next_back().map(|(c, _)| *c));
    // Where the best is the knee itself, the next one stands for the plateau.
    let above = levels.range(knee + 1..).next().filter(|_| best == knee);
    around.extend(above.map(|(c, _)| *c));
    around.order();
    around.dedup();
    around
}

/// The median of all runs of a number in flight, as the table of results has it.
#[derive(Debug, Clone, Copy)]
struct Entry {
    concurrency: u64,
    throughput: f64,
    runs: usize,
}

fn entries(runs: &Runs) -> Vec<Entry> {
    let entry = |(concurrency, runs): (u64, Vec<Placed>)| Entry {
        concurrency,
        throughput: median(&runs),
        runs: runs.len(),
    };
    runs.grouped().into_iter().map(entry).collect()
}

/// The smallest number from which on no larger one brings [`GROWTH_MIN`] more; the largest one while it still grows.
fn of_entries(entries: &[Entry]) -> Option<u64> {
    let mut later = 0.0_f64;
    let mut found = None;
    for entry in entries.iter().rev() {
        if later < entry.throughput * (1.0 + GROWTH_MIN) {
            found = Some(entry.concurrency);
        }
        later = later.max(entry.throughput);
    }
    found
}

/// The first number with too few runs without which the knee would be another.
fn rests_on(runs: &Runs) -> Option<u64> {
    let all = entries(runs);
    let knee = of_entries(&all);
    let decides = |one: &&Entry| {
        let others = all.iter().filter(|e| e.concurrency != one.concurrency).copied();
        of_entries(&others.collect::<Vec<_>>()) != knee
    };
    all.iter().filter(|e| e.runs < RUNS_ENOUGH).find(decides).map(|e| e.concurrency)
}

/// The knee by what was measured: the smallest number from which on no larger one brings [`GROWTH_MIN`] more, by the median
/// of all runs of each. None while throughput still grows at the largest number.
///
/// What is certain is what intervals say of the runs in blocks: of the ratios of runs next to each other, so that what drifts
/// from block to block cancels; the runs of the search are left out, because the best of them was chosen for being high.
#[must_use]
pub fn knee(runs: &Runs) -> Option<Knee> {
    let all = entries(runs);
    let concurrency = of_entries(&all)?;
    if concurrency == all.last()?.concurrency {
        return None;
    }
    let levels = runs.levels();
    let blocks = levels.values().map(|level| level.blocks).max()?;
    let rests_on = rests_on(runs);
    let (above, reached_by) = certain(runs, concurrency);
    Some(Knee { concurrency, above, reached_by, blocks, rests_on })
}

/// The largest number below the knee that is lower for certain, and the smallest from the knee on that reaches the plateau
/// for certain.
///
/// No plateau is picked from the same runs. That a number is lower needs one larger one that is certainly 10 % higher, so the
/// level is shared among all that are larger (Bonferroni). That it reaches the plateau needs every larger one to be certainly
/// less than 10 % higher, which needs no correction; numbers are asked from the largest down, until one fails.
fn certain(runs: &Runs, knee: u64) -> (Option<u64>, Option<u64>) {
    let grouped = runs.grouped();
    let groups: Vec<(u64, &[Placed])> = grouped
        .iter()
        .filter_map(|(c, runs)| Some((*c, in_blocks(runs)?)))
        .filter(|(_, runs)| runs.len() >= BLOCKS_ENOUGH)
        .collect();
    let growth = (1.0 + GROWTH_MIN).ln();
    let (mut above, mut reached_by, mut is_reached) = (None, None, true);
    for (at, (concurrency, own)) in groups.iter().enumerate().rev() {
        let larger = &groups[at + 1..];
        if larger.is_empty() {
            continue;
        }
        let of = |level: f64| larger.iter().map(move |(_, most)| missing(own, most, level));
        if *concurrency >= knee {
            is_reached &= of(LEVEL).all(|i| i.is_some_and(|i| i.high <= growth));
            reached_by = if is_reached { Some(*concurrency) } else { reached_by };
        } else if above.is_none() {
            let shared = 1.0 - (1.0 - LEVEL) / larger.len() as f64;
            above = of(shared).flatten().any(|i| i.low > growth).then_some(*concurrency);
        }
    }
    (above, reached_by)
}

/// By how much the other is above, as an interval of logarithms: each run against the other's in its own block. None where
/// the blocks are too few, or their runs differ too much, for one that decides anything.
fn missing(own: &[Placed], other: &[Placed], level: f64) -> Option<Interval> {
    let ratio = |(own, most): (f64, f64)| (most.max(1e-9) / own.max(1e-9)).ln();
    let ratios: Vec<f64> = in_pairs(own, other).into_iter().map(ratio).collect();
    interval::median_interval(&ratios, level).ok()?.interval.filter(|i| i.high - i.low <= WIDTH_MAX)
}

/// Runs of the same blocks: the shorter row of runs is laid beside that part of the longer one that it is nearest to.
fn in_pairs(a: &[Placed], b: &[Placed]) -> Vec<(f64, f64)> {
    if a.len() > b.len() {
        return in_pairs(b, a).into_iter().map(|(b, a)| (a, b)).collect();
    }
    let distance =
        |part: &&[Placed]| -> usize { a.iter().zip(*part).map(|(x, y)| x.0.abs_diff(y.0)).sum() };
    let nearest = b.windows(a.len().max(1)).min_by_key(distance).unwrap_or_default();
    a.iter().zip(nearest).map(|(x, y)| (x.1, y.1)).collect()
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
