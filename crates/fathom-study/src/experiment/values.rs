//! The figures of all trials, by cell and block, and the trials that do not count.

use super::figures::{self, Figure};
use fathom_base::order::Order;
use fathom_model::plan::Plan;
use fathom_model::plan::cell::{Cell, CellRecord, Slot};
use fathom_model::plan::setup::SetupCapacity;
use fathom_model::record::{Ending, Record};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A trial that does not count, with the cause. Nothing else is ever left out: what merely looks odd stays in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VoidTrial {
    /// Its place in the order.
    pub slot: Slot,
    /// The cell's levels, `scheduler=none`.
    pub cell: String,
    /// Which workload, by label.
    pub workload: String,
    /// Why.
    pub cause: String,
}

/// One repetition of the sentinel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sentinel {
    /// Start, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// The figure.
    pub value: f64,
}

/// Trials that count, in order.
#[derive(Debug)]
pub struct Trials<'a> {
    plan: &'a Plan,
    cells: &'a [Cell],
    /// Records that count, sentinels included.
    good: Vec<&'a Record>,
    /// Those that do not.
    pub void: Vec<VoidTrial>,
    /// Blocks in which every cell has been tried that has its turn in them, by stage: of a narrowing those for the given levels, then
    /// those for each further one; one stage of all others.
    stages: Vec<u32>,
}

/// How many blocks of each stage are whole, given the cells that were tried in each block.
fn stages(plan: &Plan, cells: &[Cell], tried: &BTreeMap<u32, Vec<u32>>) -> Vec<u32> {
    let of = |stage: u32| tried.iter().filter(move |(block, _)| plan.stage_of(**block) == stage);
    let is_tried =
        |stage: u32, cell: &Cell| of(stage).any(|(_, there)| there.contains(&cell.index));
    let last = tried.keys().last().map_or(0, |block| plan.stage_of(*block));
    let stage = |stage: u32| {
        // Of what was not tried at all nobody knows when it would be: it was given.
        let later = |cell: &Cell| (1..=last).any(|later| is_tried(later, cell));
        let has_turn = |cell: &&Cell| {
            cell.impossible.is_none() && (is_tried(stage, cell) || stage == 0 && !later(cell))
        };
        let due: Vec<u32> = cells.iter().filter(has_turn).map(|cell| cell.index).collect();
        let is_whole = |there: &Vec<u32>| due.iter().all(|cell| there.contains(cell));
        of(stage).filter(|(_, there)| is_whole(there)).count() as u32
    };
    (0..=last).map(stage).collect()
}

/// Why a record does not count, by the rules that are fixed before anything is measured: the runner's cause, or an ending
/// that was not planned.
fn cause(record: &Record) -> Option<String> {
    let cell = record.cell.as_ref()?;
    cell.void.clone().or_else(|| match record.ending {
        Ending::Complete => None,
        Ending::Interrupted => Some("interrupted".to_owned()),
        Ending::Failed => {
            let why = record.failure.as_ref().map(|failure| failure.message.clone());
            Some(why.unwrap_or_else(|| "failed".to_owned()))
        }
    })
}

/// Why the settings that a record shows are not those of its cell; none when they are. What a key of the plan is called in the records is
/// known of plain names only, and a narrower key may have taken all places of a wider one.
fn unset(cells: &[Cell], of: &CellRecord) -> Option<String> {
    let cell = cells.iter().find(|c| c.index == of.slot.cell && c.levels == of.levels)?;
    if cell.knobs.is_empty() {
        return None;
    }
    if of.knobs.is_empty() {
        return Some("measured without its settings".to_owned());
    }
    let is_alone = |id: &str| {
        let same = |key: &&String| key.split('@').next() == Some(id);
        cell.knobs.keys().filter(same).count() == 1
    };
    let (knob, value) = cell.knobs.iter().find(|(id, value)| {
        let mut own = of.knobs.iter().filter(|reading| reading.knob == **id).peekable();
        let is_there = own.peek().is_some();
        is_there && is_alone(id) && own.all(|reading| reading.asked != value.trim())
    })?;
    Some(format!("measured without its settings: {knob} was not set to {value}"))
}

impl<'a> Trials<'a> {
    /// Sorts the records of an experiment. Records without a cell are none of it.
    pub fn new(plan: &'a Plan, cells: &'a [Cell], records: &'a [Record]) -> Self {
        let (mut good, mut void) = (Vec::new(), Vec::new());
        let mut tried: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for record in records {
            let Some(of) = record.cell.as_ref().filter(|of| !of.is_part) else { continue };
            if !of.slot.is_sentinel {
                tried.entry(of.slot.block).or_default().push(of.slot.cell);
            }
            let cause = cause(record).or_else(|| unset(cells, of));
            match cause.or_else(|| figures::nothing_to_compare(plan, record)) {
                None => good.push(record),
                Some(cause) => void.push(VoidTrial {
                    slot: of.slot,
                    cell: name(&of.levels),
                    workload: of.workload.clone(),
                    cause,
                }),
            }
        }
        let stages = stages(plan, cells, &tried);
        Self { plan, cells, good, void, stages }
    }

    /// Blocks in which every cell has been tried that has its turn in them.
    pub fn blocks_done(&self) -> u32 {
        self.stages.iter().sum()
    }

    /// Those of the last stage.
    pub fn blocks_done_last(&self) -> u32 {
        self.stages.last().copied().unwrap_or(0)
    }

    /// The records that count.
    pub fn records(&self) -> &[&'a Record] {
        &self.good
    }

    /// What of its devices the setup of a cell let one use, by the last of its trials that says so.
    pub fn capacity(&self, cell: u32) -> Option<SetupCapacity> {
        let own = self.good.iter().rev().filter_map(|record| record.cell.as_ref());
        own.filter(|own| own.slot.cell == cell).find_map(|own| own.capacity)
    }

    /// The figure in every block of each cell: `[cell][block]`, in the order of the cells.
    pub fn values(&self, figure: &Figure) -> Vec<BTreeMap<u32, f64>> {
        let of = |cell: &Cell| {
            let mut blocks: BTreeMap<u32, Vec<&Record>> = BTreeMap::new();
            for record in &self.good {
                let Some(own) = &record.cell else { continue };
                if own.slot.cell == cell.index && !own.slot.is_sentinel {
                    blocks.entry(own.slot.block).or_default().push(record);
                }
            }
            let value = |(block, records): (u32, Vec<&Record>)| {
                Some((block, self.value(&records, figure)?))
            };
            blocks.into_iter().filter_map(value).collect()
        };
        self.cells.iter().map(of).collect()
    }

    /// The figure in every repetition of the sentinel, in the order of time; in blocks that have none, in the trial of the baseline.
    pub fn sentinels(&self, figure: &Figure, baseline: u32) -> Vec<Sentinel> {
        let slot = |record: &&Record| record.cell.as_ref().map(|cell| cell.slot);
        let all: Vec<(Slot, &Record)> =
            self.good.iter().filter_map(|record| Some((slot(record)?, *record))).collect();
        let own: BTreeSet<u32> =
            all.iter().filter(|(slot, _)| slot.is_sentinel).map(|(slot, _)| slot.block).collect();
        let mut places: BTreeMap<(u32, u32), Vec<&Record>> = BTreeMap::new();
        for (slot, record) in all {
            let stands_in = slot.cell == baseline && !own.contains(&slot.block);
            if slot.is_sentinel || stands_in {
                places.entry((slot.block, slot.place)).or_default().push(record);
            }
        }
        let of = |records: Vec<&Record>| {
            let started_unix_ns = records.iter().map(|r| r.started_unix_ns).min()?;
            Some(Sentinel { started_unix_ns, value: self.value(&records, figure)? })
        };
        let mut found: Vec<Sentinel> = places.into_values().filter_map(of).collect();
        found.order_by_key(|sentinel| sentinel.started_unix_ns);
        found
    }

    /// The figure of one trial from its records: one for each workload, or one for all. A trial that was made again counts
    /// once, by the geometric mean; by the arithmetic one where a bound alone is held against values that are not all above 0.
    pub fn value(&self, records: &[&Record], figure: &Figure) -> Option<f64> {
        let geometric_mean = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            let has_ratios = values.iter().all(|value| *value > 0.0);
            match figure.is_only_bound && !has_ratios {
                true => Some(values.iter().sum::<f64>() / values.len() as f64),
                false => geometric_mean(&values),
            }
        };
        let of = |label: &str| {
            geometric_mean(&mut records.iter().filter_map(|r| figure.value(self.plan, r, label)))
        };
        match &figure.workload {
            Some(label) => of(label),
            None if self.plan.is_together => {
                geometric_mean(&mut records.iter().filter_map(|r| figure.value_of_all(r)))
            }
            None => {
                let each: Option<Vec<f64>> =
                    self.plan.workloads.iter().map(|workload| of(&workload.label)).collect();
                geometric_mean(&mut each?.into_iter())
            }
        }
    }
}

/// Levels in a line.
pub fn name(levels: &[(String, String)]) -> String {
    let words: Vec<String> = levels.iter().map(|(f, l)| format!("{f}={l}")).collect();
    if words.is_empty() { "baseline".to_owned() } else { words.join(" ") }
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    match values {
        [one] => Some(*one),
        _ => fathom_stats::means::geometric_mean(values).ok(),
    }
}

/// Values of two cells from the blocks that both have, in the order of blocks.
pub fn pairs(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> (Vec<f64>, Vec<f64>) {
    a.iter().filter_map(|(block, x)| Some((*x, *b.get(block)?))).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::sample::{self, Sample};
    use fathom_model::change::knob::KnobPlace;
    use fathom_model::plan::Metric;
    use fathom_model::plan::cell::KnobReading;

    #[test]
    fn only_declared_causes_leave_a_trial_out() {
        let mut sample = Sample::new(&[("a", &["x", "y"])], 3, |_, _| 1000.0);
        let cell = sample.records[1].cell.as_mut().expect("a cell");
        cell.void = Some("block.scheduler of sda changed".into());
        let slot = cell.slot;
        sample.records[4].ending = Ending::Interrupted;
        let trials = Trials::new(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(trials.blocks_done(), 3);
        assert_eq!(trials.records().len(), 4);
        assert_eq!(trials.void[0].slot, slot);
        assert_eq!(trials.void[0].cause, "block.scheduler of sda changed");
        assert_eq!(trials.void[1].cause, "interrupted");
        let figure = Figure::of(Some("read".into()), Metric::Iops);
        let values = trials.values(&figure);
        assert_eq!(values.iter().map(BTreeMap::len).sum::<usize>(), 4);
    }

    #[test]
    fn what_was_measured_without_its_settings_does_not_count() {
        let mut sample = Sample::new(&[("a", &["1", "2"])], 3, |_, _| 1000.0);
        for cell in &mut sample.cells {
            cell.knobs.insert("block.a".to_owned(), cell.levels[0].1.clone());
        }
        for (record, asked) in sample.records.iter_mut().zip(["1", "2", "", "1", "1", "2"]) {
            let reading = |asked: &str| KnobReading {
                knob: "block.a".to_owned(),
                place: KnobPlace::Machine,
                asked: asked.to_owned(),
                found: None,
                before: Some(asked.to_owned()),
                after: Some(asked.to_owned()),
            };
            let cell = record.cell.as_mut().expect("a cell");
            cell.knobs = [asked].into_iter().filter(|a| !a.is_empty()).map(reading).collect();
        }
        let trials = Trials::new(&sample.plan, &sample.cells, &sample.records);
        let void: Vec<(u32, u32, &str)> =
            trials.void.iter().map(|v| (v.slot.block, v.slot.cell, v.cause.as_str())).collect();
        let not_set = "measured without its settings: block.a was not set to 2";
        assert_eq!(void, [(1, 0, "measured without its settings"), (1, 1, not_set)]);
        // Which of two keys took a place is not known here.
        for cell in &mut sample.cells {
            cell.knobs.insert("block.a@sda".to_owned(), "1".to_owned());
        }
        let trials = Trials::new(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(trials.void.len(), 1);
    }

    #[test]
    fn several_workloads_have_one_figure_by_geometric_mean() {
        let mut sample = Sample::new(&[("a", &["x", "y"])], 1, |_, _| 100.0);
        let mut second = sample.plan.workloads[0].clone();
        second.label = "write".into();
        sample.plan.workloads.push(second);
        let more: Vec<Record> = sample
            .records
            .iter()
            .map(|record| {
                let mut record = record.clone();
                sample::set_iops(&mut record, 400.0);
                record.cell.as_mut().expect("a cell").workload = "write".into();
                record
            })
            .collect();
        sample.records.extend(more);
        let trials = Trials::new(&sample.plan, &sample.cells, &sample.records);
        let figure = Figure::of(None, Metric::Iops);
        let got = trials.values(&figure)[0][&0];
        assert!((got - 200.0).abs() < 1e-6, "{got}");
        let of = Figure { workload: Some("write".into()), ..figure };
        assert_eq!(trials.values(&of)[0][&0], 400.0);
    }
}
