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
    /// What the machine itself has of it, where that is known and not what the baseline sets.
    pub found: Option<String>,
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
pub fn study(
    plan: &Plan,
    (winner, baseline): (&Cell, &Cell),
    records: &[&Record],
    machine: &[MachineValue],
) -> Vec<Choice> {
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
        let found = machine.iter().find(|own| own.factor == factor.name);
        Some(Choice {
            factor: factor.name.clone(),
            sets: factor.sets.clone(),
            level: level.to_owned(),
            baseline: base.to_owned(),
            found: found.map(|own| own.value.clone()),
            settings,
        })
    };
    plan.factors.iter().filter_map(of).collect()
}

/// A factor of which the machine itself has something else than the baseline sets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineValue {
    /// The factor.
    pub factor: String,
    /// What the machine has: values of several places, each once.
    pub value: String,
    /// What the baseline sets.
    pub baseline: String,
    /// It is what another level sets, so that it was measured.
    pub is_level: bool,
}

/// What the machine has of its own where that is not what the baseline sets, by what was read before anything was set; none when that is
/// not known of every setting that the plan varies: records of older versions do not tell.
#[must_use]
pub fn of_machine(plan: &Plan, baseline: &Cell, records: &[&Record]) -> Option<Vec<MachineValue>> {
    let own: Vec<_> = records.iter().filter_map(|record| record.cell.as_ref()).collect();
    let mut all = Vec::new();
    for factor in &plan.factors {
        let FactorKind::Knob { id } = &factor.sets else { continue };
        let knob = id.split('@').next().unwrap_or(id);
        let of_knob = || {
            let readings = own.iter().flat_map(|of| of.knobs.iter().map(move |one| (of, one)));
            readings.filter(|(_, reading)| reading.knob == knob)
        };
        let is_base = |cell: u32| cell == baseline.index;
        let mut values: Vec<String> = Vec::new();
        let (mut is_known, mut is_level) = (false, true);
        for (_, base) in of_knob().filter(|(of, _)| is_base(of.slot.cell)) {
            let Some(found) = &base.found else { return None };
            is_known = true;
            // As the kernel shows it, which is not always how it was written.
            if base.before.as_ref() != Some(found) && !values.contains(found) {
                is_level &= of_knob().any(|(_, other)| {
                    other.place == base.place && other.before.as_ref() == Some(found)
                });
                values.push(found.clone());
            }
        }
        if !is_known {
            return None;
        }
        let base = level_of(baseline, &factor.name).unwrap_or_default();
        if !values.is_empty() {
            all.push(MachineValue {
                factor: factor.name.clone(),
                value: values.join(", "),
                baseline: base.to_owned(),
                is_level,
            });
        }
    }
    Some(all)
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
                    found: Some("bfq".to_owned()),
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
        assert_eq!(choice.found.as_deref(), Some("bfq"), "and not what the baseline sets");
        let own = study.machine.expect("known");
        assert_eq!(own.len(), 2, "{own:?}");
        assert_eq!((own[0].value.as_str(), own[0].baseline.as_str()), ("bfq", "none"));
        assert!(own[0].is_level && !own[1].is_level, "{own:?}");
        // Records of an older version do not tell.
        for record in &mut sample.records {
            record.cell.as_mut().expect("a cell").knobs[0].found = None;
        }
        let older = super::super::study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!((older.machine, older.choices[0].found.as_deref()), (None, None));
    }
}
