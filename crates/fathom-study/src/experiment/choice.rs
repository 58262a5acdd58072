//! What to set to have what the best cell had: the levels that are not those of the baseline, and the settings behind them as
//! they were on this machine.

use super::level_of;
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::cell::{Cell, KnobReading};
use fathom_model::plan::{Factor, FactorKind, Plan};
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
    let of = |factor: &Factor| {
        let level = level_of(winner, &factor.name)?;
        let base = level_of(baseline, &factor.name)?;
        if level == base || factor.sets == FactorKind::Null {
            return None;
        }
        let settings = match &factor.sets {
            FactorKind::Knob { .. } => settings(plan, &factor.name, winner, records),
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

/// A setting of which the machine itself has something else than the baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineValue {
    /// The factor, or the key in `[knobs]`.
    pub factor: String,
    /// What the machine has: values of several places, each once.
    pub value: String,
    /// What the baseline sets.
    pub baseline: String,
    /// It is what another level sets, so that it was measured.
    pub is_level: bool,
}

/// What the machine has of its own where that is not what the baseline sets, by what was read before anything was set. None when nothing
/// of that is known, and when nothing differs of what is known, but not all is: records of older versions do not tell, a setup is not there
/// without the experiment, and workloads are not the machine's.
#[must_use]
pub fn of_machine(plan: &Plan, baseline: &Cell, records: &[&Record]) -> Option<Vec<MachineValue>> {
    let own = || records.iter().filter_map(|record| record.cell.as_ref());
    let readings = || own().flat_map(|of| of.knobs.iter().map(move |one| (of.slot.cell, one)));
    let mut all: Vec<MachineValue> = Vec::new();
    let is_own =
        |factor: &Factor| matches!(factor.sets, FactorKind::Knob { .. } | FactorKind::Null);
    let is_all_knobs = plan.factors.iter().all(is_own) && plan.setup.is_empty();
    let (mut is_any, mut is_whole) = (false, is_all_knobs && plan.prepare.governor.is_none());
    for (_, base) in readings().filter(|(cell, _)| *cell == baseline.index) {
        let Some(found) = &base.found else {
            is_whole = false;
            continue;
        };
        is_any = true;
        // As the kernel shows it, which is not always how it was written.
        if base.before.as_ref() == Some(found) {
            continue;
        }
        let has = |other: &KnobReading| other.knob == base.knob && other.place == base.place;
        let is_level =
            readings().any(|(_, other)| has(other) && other.before.as_ref() == Some(found));
        let name = name_of(plan, baseline, base);
        match all.iter_mut().find(|known| known.factor == name) {
            Some(known) => {
                if !known.value.split(", ").any(|value| value == found) {
                    known.value += &format!(", {found}");
                }
                known.is_level &= is_level;
            }
            None => all.push(MachineValue {
                factor: name.to_owned(),
                value: found.clone(),
                baseline: base.asked.clone(),
                is_level,
            }),
        }
    }
    (is_any && (is_whole || !all.is_empty())).then_some(all)
}

/// What in the plan has set it: a factor or a key of `[knobs]`, the one that names its place most narrowly; the knob itself where neither
/// is called so.
fn name_of<'a>(plan: &'a Plan, cell: &Cell, reading: &'a KnobReading) -> &'a str {
    let rank = |key: &str, value: Option<&str>| {
        let (knob, whose) = key.split_once('@').unwrap_or((key, "all"));
        let is_it = knob == reading.knob
            && match (whose, &reading.place) {
                ("all", _) => true,
                // Which device has that role is not known any more.
                ("top" | "members", _) => value == Some(reading.asked.as_str()),
                (name, KnobPlace::Device { id, name: own }) => {
                    [id.as_str(), own.as_str()].contains(&name.trim_start_matches("/dev/"))
                }
                _ => false,
            };
        is_it.then_some(match whose {
            "all" => 0,
            "top" | "members" => 1,
            _ => 2,
        })
    };
    let factors = plan.factors.iter().filter_map(|factor| match &factor.sets {
        FactorKind::Knob { id } => {
            Some((rank(id, level_of(cell, &factor.name))?, factor.name.as_str()))
        }
        _ => None,
    });
    let constant = |(key, value): (&'a String, &'a String)| {
        Some((rank(key, Some(value.as_str()))?, key.as_str()))
    };
    let keys = factors.chain(plan.knobs.iter().filter_map(constant));
    keys.max_by_key(|(rank, _)| *rank).map_or(reading.knob.as_str(), |(_, name)| name)
}

/// What was read of a factor's knob in the trials of a cell, each place once.
fn settings(plan: &Plan, factor: &str, cell: &Cell, records: &[&Record]) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    let own = records.iter().filter_map(|record| record.cell.as_ref());
    let own = own.filter(|of| of.slot.cell == cell.index && !of.slot.is_sentinel);
    let mut readings: Vec<&KnobReading> = own.flat_map(|of| &of.knobs).collect();
    readings.retain(|reading| name_of(plan, cell, reading) == factor);
    for reading in readings {
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
            let knobs = &mut record.cell.as_mut().expect("a cell").knobs;
            knobs.iter_mut().for_each(|knob| knob.found = None);
        }
        let older = super::super::study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!((older.machine, older.choices[0].found.as_deref()), (None, None));
    }

    /// A reading of a device.
    fn reading(knob: &str, device: &str, asked: &str, found: &str) -> KnobReading {
        KnobReading {
            knob: knob.to_owned(),
            place: KnobPlace::Device { id: format!("id-{device}"), name: device.to_owned() },
            asked: asked.to_owned(),
            found: Some(found.to_owned()),
            before: Some(asked.to_owned()),
            after: Some(asked.to_owned()),
        }
    }

    /// What is constant in the plan is looked at as well, each place on its own.
    #[test]
    fn constant_settings_and_places_count() {
        let mut sample = Sample::new(&[("scheduler", &["none", "bfq"])], 2, |_, _| 1000.0);
        sample.plan.factors[0].sets =
            super::FactorKind::Knob { id: "block.scheduler@sda".to_owned() };
        sample.plan.knobs = [
            ("block.scheduler@sdb".to_owned(), "none".to_owned()),
            ("block.nr_requests".to_owned(), "48".to_owned()),
        ]
        .into();
        let machine = |sample: &mut Sample, sdb: &str, requests: &str| {
            for record in &mut sample.records {
                let cell = record.cell.as_mut().expect("a cell");
                let level = cell.levels[0].1.clone();
                cell.knobs = vec![
                    reading("block.scheduler", "sda", &level, "none"),
                    reading("block.scheduler", "sdb", "none", sdb),
                    reading("block.nr_requests", "sda", "48", requests),
                ];
            }
            study(&sample.plan, &sample.cells, &sample.records)
        };
        assert_eq!(machine(&mut sample, "none", "48").machine, Some(Vec::new()), "as it is");
        let said = |study: crate::experiment::ExperimentStudy| {
            let own = study.machine.expect("known").into_iter();
            own.map(|own| (own.factor, own.value, own.baseline)).collect::<Vec<_>>()
        };
        let one = |factor: &str, value: &str, baseline: &str| {
            (factor.to_owned(), value.to_owned(), baseline.to_owned())
        };
        let requests = said(machine(&mut sample, "none", "64"));
        assert_eq!(requests, [one("block.nr_requests", "64", "48")]);
        let other = machine(&mut sample, "bfq", "48");
        let settings = super::settings(
            &sample.plan,
            "scheduler",
            &sample.cells[1],
            &sample.records.iter().collect::<Vec<_>>(),
        );
        let places: Vec<String> = settings.iter().map(|one| one.place.name()).collect();
        assert_eq!(places, ["sda"], "the other one is not the factor's");
        assert_eq!(said(other), [one("block.scheduler@sdb", "bfq", "none")]);
        // What is not known is not taken for the same.
        sample.plan.prepare.governor = Some("performance".to_owned());
        assert_eq!(machine(&mut sample, "none", "48").machine, None);
        assert_eq!(said(machine(&mut sample, "none", "64")), requests);
    }

    /// Of a plan that sets nothing of the machine, nothing is known of it.
    #[test]
    fn workloads_are_not_the_machine() {
        let mut sample = Sample::new(&[("block_size", &["4k", "8k"])], 2, |_, _| 1000.0);
        let key = "block_size".to_owned();
        sample.plan.factors[0].sets = super::FactorKind::Workload { key, label: None };
        assert_eq!(study(&sample.plan, &sample.cells, &sample.records).machine, None);
    }
}
