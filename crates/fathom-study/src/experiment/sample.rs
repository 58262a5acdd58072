//! Made-up experiments for tests: cells, records with chosen rates.

use crate::fixtures;
use fathom_base::prng::Prng;
use fathom_model::plan::cell::{Cell, Slot};
use fathom_model::plan::setup::SetupSpec;
use fathom_model::plan::{Factor, FactorKind, PLAN_VERSION, Plan};
use fathom_model::record::Record;
use serde_json::json;

/// Factors as knobs; the first level of each is the baseline.
pub fn plan(factors: &[(&str, &[&str])]) -> Plan {
    let factor = |(name, levels): &(&str, &[&str])| Factor {
        name: (*name).to_owned(),
        sets: FactorKind::Knob { id: format!("block.{name}") },
        levels: levels.iter().map(|level| (*level).to_owned()).collect(),
    };
    // As JSON, because of what later versions add: it has defaults.
    let rest = json!({
        "version": PLAN_VERSION, "name": "sample", "question": "Which is faster?", "target": "/srv",
        "workloads": [{"label": "read", "name": "randread", "settings": {}}], "is_together": false, "factors": [],
        "setup": SetupSpec::default(), "knobs": {}, "own_knobs": [],
        "design": {
            "kind": "full", "baseline": {}, "except": [], "blocks": 8, "is_sequential": false, "has_sentinel": false,
            "margin": 0.03, "seed": 1, "groups_setups": false,
        },
        "objectives": [{"metric": "iops"}],
        "prepare": {
            "drops_caches": false, "remounts": false, "settle_ns": 0, "quiet_ns": 0, "quiet_wait_ns": 0,
            "swap_off": false, "stop_services": [],
        },
        "budget": {}, "on_error": "stop",
    });
    let rest: Plan = serde_json::from_value(rest).expect("a plan");
    Plan { factors: factors.iter().map(factor).collect(), ..rest }
}

/// Every combination, the last factor fastest.
pub fn cells(plan: &Plan) -> Vec<Cell> {
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for factor in &plan.factors {
        let longer = |known: &Vec<(String, String)>| {
            let known = known.clone();
            let add = move |level: &String| {
                let mut levels = known.clone();
                levels.push((factor.name.clone(), level.clone()));
                levels
            };
            factor.levels.iter().map(add).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(longer).collect();
    }
    let cell = |(index, levels): (u32, Vec<(String, String)>)| {
        let cell = json!({
            "index": index, "levels": levels, "knobs": {}, "setup": SetupSpec::default(),
            "workloads": &plan.workloads, "boot": {},
        });
        serde_json::from_value::<Cell>(cell).expect("a cell")
    };
    (0..).zip(combinations).map(cell).collect()
}

/// Five requests in flight, so many reads per second, each as long as that takes.
pub fn set_iops(record: &mut Record, iops: f64) {
    fixtures::reads(record, (iops * 60.0).round() as u64, (5e9 / iops) as u64);
}

/// An experiment that has been run.
pub struct Sample {
    /// Its plan.
    pub plan: Plan,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Its records, block by block, in the order of the cells.
    pub records: Vec<Record>,
}

impl Sample {
    /// `iops(cell, block)` is what each trial reads per second.
    pub fn new(
        factors: &[(&str, &[&str])],
        blocks: u32,
        mut iops: impl FnMut(&Cell, u32) -> f64,
    ) -> Self {
        let plan = plan(factors);
        let cells = cells(&plan);
        let mut records = Vec::new();
        for block in 0..blocks {
            for (place, cell) in (0..).zip(&cells) {
                let slot = Slot { block, place, cell: cell.index, is_sentinel: false };
                records.push(record(cell, slot, iops(cell, block)));
            }
        }
        Self { plan, cells, records }
    }
}

/// One trial.
pub fn record(cell: &Cell, slot: Slot, iops: f64) -> Record {
    let mut record = fixtures::record();
    set_iops(&mut record, iops);
    record.label = cell.name();
    record.started_unix_ns =
        (i64::from(slot.block) * 1000 + i64::from(slot.place)) * 60_000_000_000;
    let cell = json!({
        "slot": slot, "levels": &cell.levels, "workload": "read", "knobs": [], "setup": [], "prepare_ns": 0,
    });
    record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell's record")));
    record
}

/// A factor around 1, log-normal, with about this spread.
pub fn noise(prng: &mut Prng, spread: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| fixtures::uniform(prng)).sum::<f64>() - 6.0;
    (spread * sum).exp()
}
