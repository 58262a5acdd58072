//! `fathom lab`: an experiment. Block by block each cell is built, set, prepared, measured and read back; at the end, and whenever it
//! ends early, the machine is as it was.
//!
//! [`outline`] says what would be done and touches nothing; [`run`] does it; [`resume`] tells what of it is done already. What is
//! held of the machine is in the bench (see its module), whose journal outlives a kill.

pub(crate) mod around;
mod bench;
mod boot;
pub(crate) mod calm;
mod companion;
mod due;
pub(crate) mod figure;
mod loads;
pub(crate) mod machine;
mod memory_group;
mod mounted;
pub mod outline;
mod places;
pub(crate) mod program;
pub mod resume;
mod server;
mod slot;
mod theirs;

pub use loads::check_workload;

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::restore::Report;
use crate::trial::KeepRecord;
use bench::Bench;
use fathom_base::units::{format_duration, format_size};
use fathom_guard::faults::Faults;
use fathom_model::plan::cell::{Cell, Slot};
use fathom_model::plan::outline::BeforeAfter;
use fathom_model::plan::{DesignKind, OnError, Plan, PlanWorkload};
use fathom_model::record::Record;
use fathom_plan::Narrowed;
use fathom_study::experiment::{self as study, Decision};
use fathom_sys::clock;
use fathom_sys::counters;
use fathom_sys::sysroot::SysRoot;
use resume::Done;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Trials in a row that may be void because of what the machine did beside, before that ends the experiment.
const VOID_IN_A_ROW_MAX: u32 = 3;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The plan, with the seed of its order chosen.
    pub plan: Plan,
    /// Where a test ends the process.
    pub faults: Faults,
    /// What its cells are called while they are measured, and in their records.
    pub name: fn(&Cell) -> String,
}

/// How an experiment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As planned.
    Complete,
    /// By its stop rule: everything asked is decided.
    Answered,
    /// The time or the bytes of its budget are used up.
    Budget(String),
    /// By a signal.
    Interrupted,
    /// A trial failed, and the plan says to stop then.
    Failed {
        /// Why.
        cause: String,
        /// What kind of failure; none when the machine was never quiet, or somebody interfered again and again.
        class: Option<ErrorClass>,
    },
    /// The rest needs another boot.
    Boot(Vec<String>),
}

/// What came of an experiment.
#[derive(Debug)]
pub struct Finished {
    /// The plan, with the levels that narrowing added.
    pub plan: Plan,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// All records, those of earlier starts first.
    pub records: Vec<Record>,
    /// How many of them were there before.
    pub resumed: usize,
    /// How it ended.
    pub ended: Ended,
    /// What was put back.
    pub restored: Vec<Report>,
    /// The machine before and after.
    pub around: Vec<BeforeAfter>,
}

/// Runs an experiment, or what is left of it.
///
/// # Errors
/// [`LabError`] when nothing could be measured; everything is put back then too. What ends it later is in [`Finished::ended`].
pub fn run(
    lab: &mut Lab<'_>,
    experiment: &Experiment,
    done: &[Record],
    keep_record: KeepRecord<'_>,
) -> Result<Finished, LabError> {
    let mut plan = experiment.plan.clone();
    let seed = *plan.design.seed.get_or_insert_with(|| lab.seeds.next_u64());
    let cells = fathom_plan::cells(&plan).map_err(usage)?;
    for text in outline::check(lab, &plan, &cells)? {
        lab.note(text);
    }
    let before = around::look(lab, &plan);
    let mut bench = Bench::new(lab, &plan, seed, experiment.faults.clone())?;
    let wear = Wear::begins(&lab.root, &cells);
    let mut campaign = Campaign {
        lab,
        plan,
        cells,
        name: experiment.name,
        seed,
        bench: &mut bench,
        keep_record,
        records: done.to_vec(),
        fresh: 0,
        trials: Trials::default(),
        void_in_a_row: 0,
        begun_ns: clock::monotonic_ns(),
        wear,
        stage: Stage::default(),
    };
    let ended = campaign.run();
    let Campaign { lab, plan, cells, records, fresh, .. } = campaign;
    let restored = bench.restore(lab);
    // With the trial that could not begin because of it, it was said already.
    let own = records.iter().rev().take(fresh).filter_map(|record| record.cell.as_ref());
    let causes: Vec<&String> = own.filter_map(|cell| cell.void.as_ref()).collect();
    for report in restored.iter().filter(|report| !report.outcome.is_done()) {
        let text = report.to_string();
        if !causes.iter().any(|cause| cause.contains(&text)) {
            lab.note(text);
        }
    }
    let ended = match ended {
        Ok(ended) => ended,
        // Nothing was measured, now or before: a refusal like that of any command.
        Err(error) if records.is_empty() => return Err(error),
        Err(LabError::Interrupted) => Ended::Interrupted,
        Err(error) => Ended::Failed { cause: error.to_string(), class: Some(error.class()) },
    };
    let around = around::compare(&before, &around::look(lab, &plan), (&records, &cells), &plan);
    let resumed = records.len() - fresh;
    Ok(Finished { plan, cells, records, resumed, ended, restored, around })
}

fn usage(error: fathom_plan::PlanError) -> LabError {
    LabError::Usage(error.to_string())
}

/// How long trials took, for what is still to come.
#[derive(Debug, Default)]
struct Trials {
    count: u64,
    took_ns: u64,
}

impl Trials {
    fn mean_ns(&self) -> Option<u64> {
        self.took_ns.checked_div(self.count)
    }
}

/// An experiment that runs.
struct Campaign<'r, 'l, 'b, 'k> {
    lab: &'r mut Lab<'l>,
    plan: Plan,
    cells: Vec<Cell>,
    name: fn(&Cell) -> String,
    seed: u64,
    bench: &'b mut Bench,
    keep_record: KeepRecord<'k>,
    /// Those of earlier starts first.
    records: Vec<Record>,
    /// How many of them this start has measured.
    fresh: usize,
    trials: Trials,
    void_in_a_row: u32,
    begun_ns: u64,
    wear: Wear,
    stage: Stage,
}

/// Blocks that belong together: all of most plans, of a narrowing those for the given levels, then those for each further one.
#[derive(Debug, Default)]
struct Stage {
    number: u32,
    /// The levels that are measured in it, beside the baseline: a new one, and those between which it lies. All when none.
    levels: Vec<String>,
}

impl Stage {
    /// The cells that have their turn in it. What is compared is measured in the same blocks.
    fn cells(&self, plan: &Plan, cells: &[Cell]) -> Vec<Cell> {
        let baseline = study::baseline(plan, cells);
        let has = |cell: &Cell| cell.levels.iter().any(|(_, level)| self.levels.contains(level));
        let all = cells.iter().enumerate();
        let own = all.filter(|(at, cell)| self.levels.is_empty() || *at == baseline || has(cell));
        own.map(|(_, cell)| cell.clone()).collect()
    }

    /// The order of one of its blocks. The baseline needs no repetitions beside few others.
    fn order(&self, plan: &Plan, cells: &[Cell], seed: u64, block: u32) -> Vec<Slot> {
        let own = self.cells(plan, cells);
        if self.levels.is_empty() {
            return fathom_plan::order(plan, &own, seed, block..block + 1);
        }
        let mut plan = plan.clone();
        plan.design.has_sentinel = false;
        fathom_plan::order(&plan, &own, seed, block..block + 1)
    }
}

/// Why a trial does not count.
struct Void {
    cause: String,
    /// What kind of failure; none when the machine was not quiet, or somebody interfered: that is nobody's fault.
    class: Option<ErrorClass>,
}

impl Campaign<'_, '_, '_, '_> {
    fn run(&mut self) -> Result<Ended, LabError> {
        if self.fresh == 0 && !self.records.is_empty() {
            let there = match self.records.len() {
                1 => "1 trial is".to_owned(),
                count => format!("{count} trials are"),
            };
            self.lab.note(format!("{there} there already; the next one follows."));
        }
        self.bench.prepare_machine(self.lab, &self.plan)?;
        loop {
            let ended = self.blocks()?;
            if !matches!(ended, Ended::Complete | Ended::Answered) || !self.narrow()? {
                return Ok(ended);
            }
        }
    }

    /// All blocks of the stage. What needs another boot is left, and the first block that waits for one is the last: boots are to
    /// take turns, because what only one boot has is in all that was measured in it.
    fn blocks(&mut self) -> Result<Ended, LabError> {
        let mut unbooted: Vec<String> = Vec::new();
        for block in self.plan.blocks_of(self.stage.number) {
            let slots = self.stage.order(&self.plan, &self.cells, self.seed, block);
            let (done, tried) = (Done::of(&self.records), Done::tried(&self.records));
            let mut is_last = false;
            for (at, slot) in slots.iter().enumerate() {
                let Some(cell) = self.cells.iter().find(|cell| cell.index == slot.cell).cloned()
                else {
                    continue;
                };
                if cell.impossible.is_some() {
                    continue;
                }
                let workloads = fathom_plan::workloads_in(&self.plan, &cell, self.seed, block);
                if done.has_all(slot, &workloads, self.plan.is_together) {
                    continue;
                }
                // Only for what is still to be measured: with the last boot the experiment is complete.
                if let Some(wanted) = boot::wanted(&self.lab.root, &cell) {
                    // One that does not count is made again when its boot comes round, and holds up no other.
                    is_last |= !tried.has_any(slot, &workloads, self.plan.is_together);
                    if !unbooted.contains(&wanted) {
                        unbooted.push(wanted);
                    }
                    continue;
                }
                if self.lab.stop.is_set() {
                    return Ok(Ended::Interrupted);
                }
                if let Some(why) = self.over_budget() {
                    return Ok(Ended::Budget(why));
                }
                if let Some(ended) = self.slot(&slots, at, &cell, &workloads, &done)? {
                    return Ok(ended);
                }
            }
            if is_last {
                break;
            }
            if self.plan.design.is_sequential && self.is_decided(block) {
                return Ok(Ended::Answered);
            }
        }
        Ok(if unbooted.is_empty() { Ended::Complete } else { Ended::Boot(unbooted) })
    }

    /// Whether everything asked was decided after a block. What an earlier start has measured after it says nothing about that.
    fn is_decided(&self, block: u32) -> bool {
        let records = self.records_up_to(block);
        study::is_decided(&self.plan, &self.cells, &records) == Decision::Answered
    }

    fn records_up_to(&self, block: u32) -> Cow<'_, [Record]> {
        let is_by_then =
            |record: &&Record| record.cell.as_ref().is_none_or(|cell| cell.slot.block <= block);
        if self.records.iter().all(|record| is_by_then(&record)) {
            return Cow::Borrowed(&self.records);
        }
        Cow::Owned(self.records.iter().filter(is_by_then).cloned().collect())
    }

    /// One trial; what ends the experiment after it.
    fn slot(
        &mut self,
        slots: &[Slot],
        at: usize,
        cell: &Cell,
        workloads: &[PlanWorkload],
        done: &Done,
    ) -> Result<Option<Ended>, LabError> {
        let begun_ns = clock::monotonic_ns();
        let eta_ns = self.rest_ns(slots, at);
        self.announce(slots, at, cell, eta_ns);
        let position = slot::Position { slot: slots[at], cell, eta_ns };
        let void = self.run_slot(&position, workloads, done)?;
        self.trials.count += 1;
        self.trials.took_ns += clock::monotonic_ns() - begun_ns;
        let Some(void) = void else {
            self.void_in_a_row = 0;
            return Ok(None);
        };
        self.lab.note(format!("Void: {}", void.cause));
        self.void_in_a_row += 1;
        let is_stopped = match void.class {
            Some(_) => self.plan.on_error == OnError::Stop,
            None => self.void_in_a_row >= VOID_IN_A_ROW_MAX,
        };
        Ok(is_stopped.then_some(Ended::Failed { cause: void.cause, class: void.class }))
    }

    fn announce(&mut self, slots: &[Slot], at: usize, cell: &Cell, eta_ns: u64) {
        let name = |slot: &Slot| {
            let cell = self.cells.iter().find(|cell| cell.index == slot.cell);
            let name = cell.map(self.name).unwrap_or_default();
            if slot.is_sentinel { format!("{name} (sentinel)") } else { name }
        };
        let event = fathom_model::event::Event::SlotStarted {
            block: slots[at].block + 1 - self.plan.blocks_of(self.stage.number).start,
            blocks: self.plan.design.blocks,
            place: at as u32 + 1,
            places: slots.len() as u32,
            cell: if slots[at].is_sentinel { name(&slots[at]) } else { (self.name)(cell) },
            next: slots.get(at + 1).map(name),
            eta_ns,
        };
        (self.lab.emit)(event);
    }

    /// Expected time of everything from this place on, by what trials took so far, or what they say themselves.
    fn rest_ns(&self, slots: &[Slot], at: usize) -> u64 {
        let end = self.plan.blocks_of(self.stage.number).end;
        let blocks_after = u64::from(end.saturating_sub(slots[at].block + 1));
        let left = slots.len() as u64 * blocks_after + (slots.len() - at) as u64;
        let planned = |cell: &Cell| outline::trial_ns(&self.plan, cell);
        let mean_ns = self.trials.mean_ns().unwrap_or_else(|| {
            let all: u64 = self.cells.iter().map(planned).sum();
            all / self.cells.len().max(1) as u64
        });
        left.saturating_mul(mean_ns)
    }

    /// Why no further trial may begin; none when one may.
    fn over_budget(&self) -> Option<String> {
        let budget = &self.plan.budget;
        let (earlier, own) = self.records.split_at(self.records.len() - self.fresh);
        let spent_ns = clock::monotonic_ns() - self.begun_ns;
        let spent_ns = earlier.iter().map(took_ns).fold(spent_ns, u64::saturating_add);
        let of = |records: &[Record]| records.iter().map(written_bytes).sum::<u64>();
        let written_bytes = of(earlier) + of(own).max(self.wear.written_bytes(&self.lab.root));
        let time = budget
            .time_ns
            .filter(|most| spent_ns >= *most)
            .map(|most| format!("its time of {} is used up", format_duration(most)));
        let wear = budget.written_bytes.filter(|most| written_bytes >= *most).map(|most| {
            format!(
                "{} were written, and its budget is {}",
                format_size(written_bytes),
                format_size(most)
            )
        });
        time.or(wear)
    }

    /// Adds the next level of a narrowing design, for a stage of its own; false when there is none. It follows from what was measured up to
    /// then: an earlier start that came farther chose the same.
    fn narrow(&mut self) -> Result<bool, LabError> {
        if self.plan.design.kind != DesignKind::Narrowing {
            return Ok(false);
        }
        let last = self.plan.blocks_of(self.stage.number).end.saturating_sub(1);
        let studied = study::study(&self.plan, &self.cells, &self.records_up_to(last));
        let Some(narrowed) = studied.narrowed else { return Ok(false) };
        if !narrowed.same.is_empty() {
            let (best, same) = (&narrowed.best, narrowed.same.join(", "));
            let margin = (1000.0 * studied.margin).round() / 10.0;
            self.lab.note(format!(
                "Narrowing ended at {best}: {same} do not differ by {margin} %; what lies between them is not measured."
            ));
            return Ok(false);
        }
        // The narrowing wants more to be better, and what breaks a bound is never the best.
        let first = studied.ranking.figures.first().and_then(|place| studied.figures.get(*place));
        let sign = if first.is_some_and(|figure| !figure.is_more_better()) { -1.0 } else { 1.0 };
        let worth = |(level, value): (String, f64)| {
            let is_out = narrowed.out.contains(&level);
            (level, if is_out { f64::NEG_INFINITY } else { sign * value })
        };
        let measured: Vec<(String, f64)> = narrowed.levels.into_iter().map(worth).collect();
        match fathom_plan::narrow(&self.plan, &measured).map_err(usage)? {
            Narrowed::Next { level, between, plan } => {
                self.lab.note(format!("Narrowing: {level} comes next."));
                let levels = between.into_iter().chain([level]).collect();
                self.stage = Stage { number: self.stage.number + 1, levels };
                self.plan = *plan;
                self.cells = fathom_plan::cells(&self.plan).map_err(usage)?;
                Ok(true)
            }
            Narrowed::Done { best, reason, .. } => {
                self.lab.note(format!("Narrowing ended at {best}: {reason}."));
                Ok(false)
            }
        }
    }
}

/// What the devices that setups are built over have written since this start: all of it is the experiment's, building, filling and warming
/// up included.
struct Wear {
    devices: Vec<String>,
    begun_bytes: u64,
}

impl Wear {
    fn begins(root: &SysRoot, cells: &[Cell]) -> Self {
        let name = |path: PathBuf| {
            let real = path.canonicalize().ok()?;
            Some(real.file_name()?.to_str()?.to_owned())
        };
        let given = cells.iter().flat_map(|cell| outline::given(&cell.setup));
        let devices: BTreeSet<String> = given.filter_map(name).collect();
        let mut wear = Self { devices: devices.into_iter().collect(), begun_bytes: 0 };
        wear.begun_bytes = wear.written_bytes(root);
        wear
    }

    fn written_bytes(&self, root: &SysRoot) -> u64 {
        let all = counters::disk_counters(root);
        let own = all.iter().filter(|disk| self.devices.contains(&disk.name));
        let sectors: u64 = own.map(|disk| disk.written_sectors).sum();
        sectors.saturating_mul(512).saturating_sub(self.begun_bytes)
    }
}

/// How long the trial of an earlier start took; what came between trials, and what was not stored, is not in it.
fn took_ns(record: &Record) -> u64 {
    let cell = record.cell.as_deref().filter(|cell| !cell.is_part);
    record.window_ns.saturating_add(cell.map_or(0, |cell| cell.prepare_ns))
}

/// What a trial wrote to the disks at the bottom of its stacks, by their own counters.
fn written_bytes(record: &Record) -> u64 {
    let bottoms: Vec<&str> = record
        .targets
        .iter()
        .flat_map(|target| target.stack.leaves())
        .map(|node| node.name.as_str())
        .collect();
    let is_bottom = |name: &str| bottoms.is_empty() || bottoms.contains(&name);
    record.devices.iter().filter(|d| is_bottom(&d.name)).map(|d| d.written_bytes).sum()
}
