//! `fathom raid`: every member alone, then levels x layouts x chunks x states under four load patterns, each as an experiment of
//! its own kind. What is built, in which order, and that all is taken down again is the experiment's work.

mod outline;

pub use outline::{Alone, dry_run, impossible, never};

use crate::error::LabError;
use crate::experiment::{self, Ended, Experiment, Finished, around};
use crate::lab::Lab;
use crate::trial::KeepRecord;
use fathom_guard::faults::Faults;
use fathom_model::plan::setup::{ArraySpec, ArrayState, SetupSpec, SliceSpec};
use fathom_model::plan::{
    Budget, Design, DesignKind, Factor, FactorKind, Metric, Objective, OnError, PLAN_VERSION, Plan,
    PlanWorkload, Prepare,
};
use fathom_model::record::Record;
use fathom_study::raid::{Pattern, State, factor};
use std::collections::BTreeMap;

/// Levels when nobody says.
pub const LEVELS: [&str; 5] = ["raid0", "raid1", "raid5", "raid6", "raid10"];
/// Layouts when nobody says; each where its level has it. Of raid6 only the usual one.
pub const LAYOUTS: [&str; 7] =
    ["left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric", "n2", "o2", "f2"];
/// Pauses before a trial are no longer.
const PAUSE_NS_MAX: u64 = 1_000_000_000;
/// How long a machine may take to become quiet.
const QUIET_WAIT_NS: u64 = 60_000_000_000;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct RaidOptions {
    /// Block devices, or `loop:SIZE`.
    pub devices: Vec<String>,
    /// The same piece of each; whole devices when none.
    pub slice: Option<SliceSpec>,
    /// Levels.
    pub levels: Vec<String>,
    /// Layouts; those that a level has not are left out for it.
    pub layouts: Vec<String>,
    /// Chunks.
    pub chunks: Vec<String>,
    /// Numbers of members; all devices when empty.
    pub members: Vec<u32>,
    /// States.
    pub states: Vec<State>,
    /// Blocks: how often everything is measured.
    pub blocks: u32,
    /// Length of one measurement.
    pub window_ns: u64,
    /// Block of the random patterns, such as `4k`.
    pub random_block: String,
    /// Requests in flight of the random patterns.
    pub depth: u32,
    /// Share of writes in the mix.
    pub write_fraction: f64,
    /// Settings that hold in all cells, by knob.
    pub knobs: BTreeMap<String, String>,
    /// The first synchronisation is left out.
    pub is_assumed_clean: bool,
}

/// The plans in the order in which they are run: of each member alone, and, last, of the arrays.
#[must_use]
pub fn plans(options: &RaidOptions) -> Vec<Plan> {
    // Loop devices of one size are all alike.
    let mut alone: Vec<&String> = options.devices.iter().collect();
    alone.dedup_by(|a, b| a == b && a.starts_with("loop:"));
    let mut plans: Vec<Plan> = alone.into_iter().map(|device| of_member(options, device)).collect();
    plans.push(matrix(options));
    plans
}

/// A device without an array.
fn of_member(options: &RaidOptions, device: &str) -> Plan {
    let name = device.rsplit('/').next().unwrap_or(device).to_owned();
    let member =
        Factor { name: factor::MEMBER.to_owned(), sets: FactorKind::Null, levels: vec![name] };
    let setup = SetupSpec {
        devices: vec![device.to_owned()],
        slice: options.slice.clone(),
        ..SetupSpec::default()
    };
    plan(options, vec![member], setup, BTreeMap::new())
}

fn matrix(options: &RaidOptions) -> Plan {
    let of = |name: &str, key: &str, levels: Vec<String>| Factor {
        name: name.to_owned(),
        sets: FactorKind::Setup { key: key.to_owned() },
        levels,
    };
    let states = options.states.iter().map(|state| state.word().to_owned()).collect();
    let mut factors = vec![
        of(factor::LEVEL, "array.level", options.levels.clone()),
        of(factor::LAYOUT, "array.layout", layouts(options)),
        of(factor::CHUNK, "array.chunk", options.chunks.clone()),
    ];
    if !options.members.is_empty() {
        let counts = options.members.iter().map(ToString::to_string).collect();
        factors.push(of(factor::MEMBERS, "array.members", counts));
    }
    factors.push(of(factor::STATE, "array.state", states));
    let array = ArraySpec {
        level: options.levels.first().cloned().unwrap_or_default(),
        layout: None,
        chunk: None,
        members: None,
        order: Vec::new(),
        // A bitmap costs writes of its own; it is a question of its own.
        bitmap: Some("none".to_owned()),
        metadata: None,
        data_offset: None,
        spares: 0,
        is_assumed_clean: options.is_assumed_clean,
        state: ArrayState::Normal,
    };
    let setup = SetupSpec {
        devices: options.devices.clone(),
        slice: options.slice.clone(),
        array: Some(array),
        ..SetupSpec::default()
    };
    let mut plan = plan(options, factors, setup, options.knobs.clone());
    plan.design.except = exceptions(options);
    plan
}

/// Levels without layouts are measured with the first one: which that is must not hide a level that has it.
fn layouts(options: &RaidOptions) -> Vec<String> {
    if options.layouts.is_empty() {
        vec!["left-symmetric".to_owned()]
    } else {
        options.layouts.clone()
    }
}

/// Of raid6 the usual layout is enough, unless it is all that is asked for.
fn exceptions(options: &RaidOptions) -> Vec<BTreeMap<String, String>> {
    let others = options.layouts.iter().filter(|layout| {
        ["left-asymmetric", "right-symmetric", "right-asymmetric"].contains(&layout.as_str())
    });
    let has_usual = options.layouts.iter().any(|layout| layout == "left-symmetric");
    let is_asked = options.levels.iter().all(|level| level == "raid6");
    let except = |layout: &String| {
        [
            (factor::LEVEL.to_owned(), "raid6".to_owned()),
            (factor::LAYOUT.to_owned(), layout.clone()),
        ]
        .into()
    };
    if has_usual && !is_asked { others.map(except).collect() } else { Vec::new() }
}

fn plan(
    options: &RaidOptions,
    factors: Vec<Factor>,
    setup: SetupSpec,
    knobs: BTreeMap<String, String>,
) -> Plan {
    let pause_ns = (options.window_ns / 10).min(PAUSE_NS_MAX);
    let objective = Objective::of(Metric::Rate);
    Plan {
        version: PLAN_VERSION,
        name: "raid".to_owned(),
        question: "Which array of these disks is fastest, and how is it without one of them?"
            .to_owned(),
        hypothesis: None,
        target: None,
        workloads: Pattern::ALL.map(|pattern| workload(options, pattern)).into(),
        is_together: false,
        factors,
        setup,
        knobs,
        own_knobs: Vec::new(),
        design: Design {
            kind: DesignKind::Full,
            baseline: BTreeMap::new(),
            except: Vec::new(),
            blocks: options.blocks,
            is_sequential: false,
            has_sentinel: false,
            margin: 0.03,
            seed: None,
            groups_setups: false,
            rotates_places: false,
            resolution: None,
            narrow_to: None,
        },
        objectives: vec![objective],
        prepare: Prepare {
            drops_caches: false,
            remounts: false,
            settle_ns: pause_ns,
            quiet_ns: pause_ns,
            quiet_wait_ns: QUIET_WAIT_NS,
            swap_off: false,
            stop_services: Vec::new(),
            governor: None,
            memory_floor_bytes: None,
            memory_limit_bytes: None,
        },
        budget: Budget::default(),
        on_error: OnError::Continue,
        footing: Vec::new(),
    }
}

fn workload(options: &RaidOptions, pattern: Pattern) -> PlanWorkload {
    let duration = format!("{}us", (options.window_ns / 1000).max(1));
    let depth = options.depth.to_string();
    let fraction = options.write_fraction.to_string();
    let mut pairs = vec![("duration", duration.as_str())];
    match pattern {
        Pattern::SequentialWrite => {
            let more = [("access", "sequential"), ("block_size", "1M"), ("depth", "4")];
            pairs.extend(more.into_iter().chain([
                ("write_fraction", "1"),
                ("sync_at_end", "fdatasync"),
                ("overwrite", "yes"),
            ]));
        }
        Pattern::SequentialRead => {
            pairs.extend([("access", "sequential"), ("block_size", "1M"), ("depth", "4")]);
        }
        Pattern::RandomRead => {
            pairs.extend([("block_size", options.random_block.as_str()), ("depth", &depth)]);
        }
        Pattern::RandomMix => {
            pairs.extend([("block_size", options.random_block.as_str()), ("depth", &depth)]);
            pairs.push(("write_fraction", &fraction));
        }
    }
    PlanWorkload {
        label: pattern.label().to_owned(),
        name: Some("randread".to_owned()),
        command: None,
        settings: pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        target: None,
    }
}

/// The records among `all` that belong to a plan of [`plans`].
fn of_plan(plan: &Plan, all: &[Record]) -> Vec<Record> {
    let level = |record: &Record, name: &str| {
        let cell = record.cell.as_ref()?;
        cell.levels.iter().find(|(factor, _)| factor == name).map(|(_, level)| level.clone())
    };
    let member = plan.factors.iter().find(|factor| factor.name == factor::MEMBER);
    let is_own = |record: &&Record| match member.and_then(|factor| factor.levels.first()) {
        Some(name) => level(record, factor::MEMBER).as_ref() == Some(name),
        None => level(record, factor::LEVEL).is_some(),
    };
    all.iter().filter(is_own).cloned().collect()
}

/// Runs the plans one after the other, or what is left of them.
///
/// # Errors
/// [`LabError`] when nothing could be measured at all.
pub fn run(
    lab: &mut Lab<'_>,
    plans: &[Plan],
    faults: &Faults,
    done: &[Record],
    keep_record: KeepRecord<'_>,
) -> Result<Finished, LabError> {
    let mut all = Finished {
        plan: plans.last().cloned().ok_or(LabError::Interrupted)?,
        cells: Vec::new(),
        records: Vec::new(),
        resumed: 0,
        ended: Ended::Complete,
        restored: Vec::new(),
        around: Vec::new(),
    };
    // What a later one lacks is known before the first one overwrites anything.
    for plan in plans {
        let cells = fathom_plan::cells(plan).map_err(|error| LabError::Usage(error.to_string()))?;
        experiment::outline::check(lab, plan, &cells)?;
    }
    // One look before all of them and one after: what an early one leaves changed is in no later one's look before it.
    let before = around::look(lab, &all.plan);
    let mut last = (Vec::new(), Vec::new());
    for plan in plans {
        let experiment =
            Experiment { plan: plan.clone(), faults: faults.clone(), name: outline::name };
        match experiment::run(lab, &experiment, &of_plan(plan, done), &mut *keep_record) {
            Ok(finished) => {
                last = (finished.records.clone(), finished.cells.clone());
                all.records.extend(finished.records);
                all.resumed += finished.resumed;
                all.cells = finished.cells;
                all.restored.extend(finished.restored);
                all.ended = finished.ended;
            }
            Err(error) if all.records.is_empty() => return Err(error),
            Err(LabError::Interrupted) => all.ended = Ended::Interrupted,
            Err(error) => {
                all.ended = Ended::Failed { cause: error.to_string(), class: Some(error.class()) };
            }
        }
        if !matches!(all.ended, Ended::Complete | Ended::Answered) {
            break;
        }
    }
    all.around =
        around::compare(&before, &around::look(lab, &all.plan), (&last.0, &last.1), &all.plan);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn options(devices: &[&str]) -> RaidOptions {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        RaidOptions {
            devices: words(devices),
            slice: None,
            levels: words(&LEVELS),
            layouts: words(&LAYOUTS),
            chunks: words(&["64k"]),
            members: Vec::new(),
            states: State::ALL.into(),
            blocks: 3,
            window_ns: 10_000_000_000,
            random_block: "4k".into(),
            depth: 32,
            write_fraction: 0.3,
            knobs: BTreeMap::new(),
            is_assumed_clean: false,
        }
    }

    #[test]
    fn every_array_that_can_exist_once_in_each_state() {
        let plans = plans(&options(&["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"]));
        assert_eq!(plans.len(), 5);
        let cells = fathom_plan::cells(plans.last().expect("the matrix")).expect("cells");
        let possible: Vec<String> =
            cells.iter().filter(|cell| cell.impossible.is_none()).map(|cell| cell.name()).collect();
        // raid0 in one state; raid1, four layouts of raid5, raid6, three of raid10 in three.
        assert_eq!(possible.len(), 1 + 3 * (1 + 4 + 1 + 3), "{possible:#?}");
        let has = |part: &str| possible.iter().any(|name| name.contains(part));
        assert!(has("level=raid10 layout=f2 chunk=64k state=rebuilding"));
        assert!(!has("level=raid6 layout=right-symmetric"));
        // The members stand alone.
        let cells = fathom_plan::cells(&plans[1]).expect("cells");
        assert_eq!(cells.len(), 1);
        assert_eq!(cells[0].setup.devices, ["/dev/sdb"]);
        assert_eq!((cells[0].setup.array.is_none(), cells[0].name()), (true, "member=sdb".into()));
    }

    #[test]
    fn chunks_and_numbers_of_members() {
        let mut wide = options(&["loop:64MiB"; 5]);
        wide.chunks = vec!["16k".into(), "64k".into()];
        wide.members = vec![4, 5];
        wide.states = vec![State::Normal];
        let plans = plans(&wide);
        // Loop devices of one size are all alike.
        assert_eq!(plans.len(), 2);
        let cells = fathom_plan::cells(&plans[1]).expect("cells");
        let possible = cells.iter().filter(|cell| cell.impossible.is_none()).count();
        // raid1 has no chunks.
        assert_eq!(possible, 2 * (1 + 2 * (1 + 4 + 1 + 3)));
    }

    #[test]
    fn the_workloads_can_be_run() {
        for workload in &plans(&options(&["/dev/sda"]))[0].workloads {
            experiment::check_workload(workload).expect("it can be run");
        }
    }

    #[test]
    fn raid6_alone_has_all_its_layouts() {
        let mut only = options(&["/dev/sda", "/dev/sdb", "/dev/sdc", "/dev/sdd"]);
        only.levels = vec!["raid6".into()];
        only.states = vec![State::Normal];
        let cells = fathom_plan::cells(plans(&only).last().expect("a plan")).expect("cells");
        assert_eq!(cells.iter().filter(|cell| cell.impossible.is_none()).count(), 4);
    }
}
