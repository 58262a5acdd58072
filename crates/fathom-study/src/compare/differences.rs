//! What differed between the two sides of a comparison, and which of it is the thing under test.

mod consequences;

use super::Run;
use super::facts::{Class, Fact, Facts, alike};
use fathom_base::order::Order;
use fathom_model::record::{Record, RunHead, TargetKind};
use fathom_model::stack::Stack;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a difference does to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Listed only.
    Background,
    /// It came with the thing under test: another filesystem has other options.
    Consequence,
    /// The thing under test.
    Factor,
    /// It may be the cause of what is taken for the effect of the thing under test.
    Confounder,
    /// The two sides measured different things.
    Voids,
}

/// Something that was not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its name: `disk.queue.scheduler`.
    pub what: String,
    /// The values on side A, each once; `-` where there was none.
    pub a: Vec<String>,
    /// The values on side B.
    pub b: Vec<String>,
    /// What it does to the comparison.
    pub weight: Weight,
}

/// Where a file lies and how full its filesystem is: numbers that are never quite the same.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Place {
    /// Used share of the filesystem.
    pub used_share: Option<f64>,
    /// First byte of the file as a share of its device.
    pub start_share: Option<f64>,
    /// Size of a file of fathom's as a share of the filesystem.
    pub own_share: Option<f64>,
    /// False when nothing below rotates, so that the place does not matter.
    pub rotates: bool,
    /// True where fathom made the file: the filesystem chose its place, anew in each run.
    pub is_own: bool,
}

/// A used share or a position counts as another when it is this much off: a disk's rate falls by about half from its
/// outer to its inner edge, so that a tenth of the way is 5 %.
const SHARE_TOLERANCE: f64 = 0.1;

/// With fewer runs on a side it cannot be told how far apart its own places are.
const RUNS_FOR_SPREAD: usize = 4;

impl Place {
    /// The place of a record's first target.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        let Some(target) = record.targets.first() else { return Self::default() };
        let stack: &Stack = &target.stack;
        let fs = stack.filesystem().and_then(|node| node.fs.as_ref());
        let used_share = fs.and_then(|fs| {
            let (total, free) = (fs.total_bytes? as f64, fs.free_bytes? as f64);
            (total > 0.0).then_some(1.0 - free / total)
        });
        let device_bytes = stack.top_block_devices().first().and_then(|node| node.size_bytes);
        let first = target.extents.as_ref().filter(|e| !e.physical_is_logical);
        let start_share = first.and_then(|extents| {
            let size = device_bytes? as f64;
            (size > 0.0).then_some(extents.first_byte? as f64 / size)
        });
        let is_own = matches!(target.kind, TargetKind::OwnFile | TargetKind::OwnDirectory);
        let total = fs.and_then(|fs| fs.total_bytes).filter(|total| is_own && *total > 0);
        let own_share = total.map(|total| target.size_bytes as f64 / total as f64);
        let rotates = stack.rotational() != Some(false);
        Self { used_share, start_share, own_share, rotates, is_own }
    }
}

/// One measured row of a side: what it was measured on and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The run that it is of.
    pub run: String,
    /// Its facts.
    pub facts: Facts,
    /// Its place.
    pub place: Place,
}

impl Measured {
    /// Of one job of a record.
    #[must_use]
    pub fn of(head: &RunHead, record: &Record, job: usize) -> Self {
        let facts = super::facts::of(head, record, job);
        Self { run: head.id.clone(), facts, place: Place::of(record) }
    }
}

/// What differs between two runs that were watched or captured.
#[must_use]
pub fn observed(a: &Run, b: &Run) -> Vec<Difference> {
    // The first piece of a watch has the layers, the last one the command.
    let of = |run: &Run| {
        let (first, last) = (run.records.first(), run.records.iter().skip(1).next_back());
        let all = first.into_iter().chain(last).map(|record| Measured::of(&run.head, record, 0));
        all.collect::<Vec<_>>()
    };
    differences(&of(a), &of(b), None)
}

/// Everything that differs, the gravest first. `factor` names the thing under test: a name as it is listed or its last
/// words (`scheduler`), `device`, `size`, `region` or `fill`, or `workload` for all its settings together. Without it a single setting that differs is taken for it;
/// several cannot be told apart, so each of them is a confounder.
#[must_use]
pub fn differences(a: &[Measured], b: &[Measured], factor: Option<&str>) -> Vec<Difference> {
    let mut found = raw(a, b);
    consequences::mark(&mut found);
    for difference in &mut found {
        let named = factor.is_some_and(|factor| is_meant(difference, factor));
        if named && difference.weight != Weight::Consequence {
            difference.weight = Weight::Factor;
        }
    }
    consequences::mark_repeated(&mut found);
    let alone = found.iter().filter(|d| d.weight == Weight::Confounder).count() == 1;
    for difference in found.iter_mut().filter(|d| d.weight == Weight::Confounder) {
        if factor.is_none() && alone {
            difference.weight = Weight::Factor;
        }
    }
    found.extend(places(a, b, factor));
    found.order_by(|x, y| y.weight.cmp(&x.weight).then_with(|| x.what.cmp(&y.what)));
    found
}

/// True when the words of a user name this difference.
fn is_meant(difference: &Difference, factor: &str) -> bool {
    let what = difference.what.as_str();
    match factor {
        "workload" => what.starts_with("workload."),
        "device" => is_device(what) && difference.weight > Weight::Consequence,
        "size" => what == "workload.size_bytes" || what.ends_with("target.size") || is_size(what),
        _ => {
            what == factor
                || what.strip_suffix(factor).is_some_and(|rest| rest.ends_with('.'))
                || what
                    .trim_end_matches("_bytes")
                    .trim_end_matches("_ns")
                    .ends_with(&format!(".{factor}"))
        }
    }
}

/// True for sizes of devices.
fn is_size(what: &str) -> bool {
    what.ends_with(".size_bytes") && !what.starts_with("workload")
}

/// True for what tells one device from another.
fn is_device(what: &str) -> bool {
    let tails = [
        "drive.wwn",
        "drive.serial",
        "drive.model",
        "uuid",
        "start_bytes",
        "backing_file",
        // Where nothing else names a disk or a server.
        ".name",
        ".path",
        "mount.source",
    ];
    is_size(what) || tails.iter().any(|tail| what.ends_with(tail))
}

/// A fact of one side: its values, each once, and what another one means.
struct Held<'a> {
    values: BTreeSet<&'a str>,
    class: Class,
    near_bytes: Vec<u64>,
}

impl<'a> Held<'a> {
    fn add(&mut self, fact: &'a Fact) {
        self.values.insert(&fact.value);
        self.class = self.class.max(fact.class);
        self.near_bytes.extend(fact.near_bytes);
    }

    /// The median of amounts that are never quite the same.
    fn near(&self) -> Option<u64> {
        let mut all = self.near_bytes.clone();
        all.order();
        all.get(all.len() / 2).copied()
    }
}

/// The facts of one side by name.
fn held(side: &[Measured]) -> BTreeMap<&str, Held<'_>> {
    let mut all: BTreeMap<&str, Held<'_>> = BTreeMap::new();
    for (name, fact) in side.iter().flat_map(|measured| &measured.facts) {
        let new = || Held { values: BTreeSet::new(), class: fact.class, near_bytes: Vec::new() };
        all.entry(name).or_insert_with(new).add(fact);
    }
    all
}

fn raw(a: &[Measured], b: &[Measured]) -> Vec<Difference> {
    let (a, b) = (held(a), held(b));
    let names: BTreeSet<&str> = a.keys().chain(b.keys()).copied().collect();
    let words = |of: Option<&Held<'_>>| -> Vec<String> {
        let all = of.map(|held| held.values.iter().map(|v| (*v).into()).collect());
        all.unwrap_or_else(|| vec!["-".into()])
    };
    let one = |name: &str| {
        let (left, right) = (a.get(name), b.get(name));
        let near = left.and_then(Held::near).zip(right.and_then(Held::near));
        let class = left.into_iter().chain(right).map(|held| held.class).max()?;
        let weight = match class {
            // Tables are for root only: a run without them says nothing about them.
            _ if name.ends_with("dm.table") && left.is_none() != right.is_none() => {
                Weight::Background
            }
            Class::Background => Weight::Background,
            Class::Setting => Weight::Confounder,
            Class::Ground => Weight::Voids,
        };
        let same = near.is_some_and(|(a, b)| alike(a, b));
        let (a, b) = (words(left), words(right));
        (a != b && !same).then(|| Difference { what: name.to_owned(), a, b, weight })
    };
    names.into_iter().filter_map(one).collect()
}

/// The values of one side, sorted.
fn shares(side: &[Measured], get: fn(&Place) -> Option<f64>) -> Vec<f64> {
    let mut all: Vec<f64> = side.iter().filter_map(|measured| get(&measured.place)).collect();
    all.order_by(f64::total_cmp);
    all
}

fn median(side: &[Measured], get: fn(&Place) -> Option<f64>) -> Option<f64> {
    let all = shares(side, get);
    all.get(all.len() / 2).copied()
}

/// Differences of places, with their tolerance; each side is its median.
fn places(a: &[Measured], b: &[Measured], factor: Option<&str>) -> Vec<Difference> {
    let one = |name: &str, what: &str, get: fn(&Place) -> Option<f64>, weight: Weight| {
        let (left, right) = (median(a, get)?, median(b, get)?);
        let weight = if factor == Some(name) { Weight::Factor } else { weight };
        let percent = |share: f64| vec![format!("{:.0} %", share * 100.0)];
        ((left - right).abs() > SHARE_TOLERANCE).then(|| Difference {
            what: what.to_owned(),
            a: percent(left),
            b: percent(right),
            weight,
        })
    };
    let by_size = factor == Some("size") && is_filled_by_size(a, b);
    let of_fill = if by_size { Weight::Consequence } else { Weight::Voids };
    let fill = one("fill", "fill of the filesystem", |p| p.used_share, of_fill);
    let region = "region: start of the file on its device";
    let region = one("region", region, |p| p.start_share, weight_of_region(a, b));
    fill.into_iter().chain(region).collect()
}

/// True when the files' own sizes explain the difference in fill.
fn is_filled_by_size(a: &[Measured], b: &[Measured]) -> bool {
    let differs = |get| Some(median(a, get)? - median(b, get)?);
    let caused = differs(|p| p.own_share);
    let fill = differs(|p| p.used_share);
    fill.zip(caused).is_some_and(|(fill, caused)| (fill - caused).abs() <= SHARE_TOLERANCE)
}

/// The filesystem lays each new file of fathom's somewhere else (ext4 spreads directories over the disk), so that only a
/// side that lies apart from the other as a whole tells anything.
fn weight_of_region(a: &[Measured], b: &[Measured]) -> Weight {
    let all = || a.iter().chain(b);
    if !all().any(|measured| measured.place.rotates) {
        return Weight::Background;
    }
    if !all().all(|measured| measured.place.is_own) {
        return Weight::Voids;
    }
    let runs = |side: &[Measured]| side.iter().map(|m| &m.run).collect::<BTreeSet<_>>().len();
    let spread = |side: &[Measured]| {
        let all = shares(side, |p| p.start_share);
        all.last().zip(all.first()).map_or(0.0, |(last, first)| last - first)
    };
    let get: fn(&Place) -> Option<f64> = |p| p.start_share;
    let apart = median(a, get).zip(median(b, get)).map_or(0.0, |(a, b)| (a - b).abs());
    let known = runs(a).min(runs(b)) >= RUNS_FOR_SPREAD;
    if known && apart > spread(a).max(spread(b)) { Weight::Confounder } else { Weight::Background }
}

#[cfg(test)]
mod tests;
