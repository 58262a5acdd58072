//! What to set to have what the best cell had: the levels that are not those of the baseline, and the settings behind them as
//! they were on this machine.

use super::level_of;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::cell::Cell;
use fathom_model::plan::{FactorKind, Plan};
use fathom_model::record::Record;
use serde::Serialize;

/// One factor whose level is another than in the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The factor.
    pub factor: String,
    /// What it sets.
    pub sets: FactorKind,
    /// Its level in the best cell.
    pub level: String,
    /// Its level in the baseline.
    pub baseline: String,
    /// The settings that it came to, where it sets a knob.
    pub settings: Vec<Setting>,
}

/// A knob of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The knob, without the selection of a place.
    pub knob: String,
    /// Of what.
    pub place: KnobPlace,
    /// The value, as it was asked for.
    pub value: String,
}

/// The choices that make `winner` out of the baseline.
#[must_use]
pub fn study(plan: &Plan, winner: &Cell, baseline: &Cell, records: &[&Record]) -> Vec<Choice> {
    let of = |factor: &fathom_model::plan::Factor| {
        let level = level_of(winner, &factor.name)?;
        let base = level_of(baseline, &factor.name)?;
        if level == base || factor.sets == FactorKind::Null {
            return None;
        }
        let settings = match &factor.sets {
            FactorKind::Knob { id } => settings(id, winner, records),
            _ => Vec::new(),
        };
        Some(Choice {
            factor: factor.name.clone(),
            sets: factor.sets.clone(),
            level: level.to_owned(),
            baseline: base.to_owned(),
            settings,
        })
    };
    plan.factors.iter().filter_map(of).collect()
}

/// What was read of a knob in the trials of a cell, each place once.
fn settings(id: &str, cell: &Cell, records: &[&Record]) -> Vec<Setting> {
    // `block.scheduler@sda` is `block.scheduler` of one place.
    let knob = id.split('@').next().unwrap_or(id);
    let mut found: Vec<Setting> = Vec::new();
    let own = records.iter().filter_map(|record| record.cell.as_ref());
    let own = own.filter(|of| of.slot.cell == cell.index && !of.slot.is_sentinel);
    for reading in own.flat_map(|of| &of.knobs).filter(|reading| reading.knob == knob) {
        let (knob, place) = (reading.knob.clone(), reading.place.clone());
        let setting = Setting { knob, place, value: reading.asked.clone() };
        if !found.contains(&setting) {
            found.push(setting);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::experiment::sample::Sample;
    use crate::experiment::study;
    use fathom_model::change::knob::KnobPlace;
    use fathom_model::plan::cell::KnobReading;

    #[test]
    fn only_what_differs_from_the_baseline_is_set() {
        let mut sample = Sample::new(
            &[("scheduler", &["none", "bfq"]), ("rotational", &["0", "1"])],
            2,
            |cell, _| {
                if cell.index == 2 { 2000.0 } else { 1000.0 }
            },
        );
        let place = KnobPlace::Device { id: "wwn-1".into(), name: "sda".into() };
        for record in &mut sample.records {
            let cell = record.cell.as_mut().expect("a cell");
            cell.knobs = ["scheduler", "rotational"]
                .iter()
                .zip(&cell.levels)
                .map(|(knob, (_, level))| KnobReading {
                    knob: format!("block.{knob}"),
                    place: place.clone(),
                    asked: level.clone(),
                    before: Some(level.clone()),
                    after: Some(level.clone()),
                })
                .collect();
        }
        let study = study(&sample.plan, &sample.cells, &sample.records);
        let [choice] = study.choices.as_slice() else { panic!("{:?}", study.choices) };
        assert_eq!((choice.factor.as_str(), choice.level.as_str()), ("scheduler", "bfq"));
        let [setting] = choice.settings.as_slice() else { panic!("{choice:?}") };
        assert_eq!((setting.knob.as_str(), setting.value.as_str()), ("block.scheduler", "bfq"));
        assert_eq!(setting.place, place);
    }
}
