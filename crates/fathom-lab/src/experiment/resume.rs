//! What of an experiment is done already, and whether a plan is still the one that was begun.

use fathom_base::order::Order;
use fathom_knobs::{SCHEDULER, follows_scheduler};
use fathom_model::change::knob::KnobPlace;
use fathom_model::plan::cell::Slot;
use fathom_model::plan::{Footing, FoundSetting, Plan, PlanWorkload};
use fathom_model::record::Record;
use serde_json::Value;
use std::collections::BTreeSet;

/// Trials that count: they are never measured again.
#[derive(Debug, Default)]
pub struct Done {
    /// By block, cell and place where a cell comes more than once.
    trials: BTreeSet<(u32, u32, Option<u32>, String)>,
}

/// A cell comes once in a block, wherever that is; a sentinel at each of its places.
fn key(slot: &Slot, workload: &str) -> (u32, u32, Option<u32>, String) {
    (slot.block, slot.cell, slot.is_sentinel.then_some(slot.place), workload.to_owned())
}

impl Done {
    /// Those among records.
    #[must_use]
    pub fn of(records: &[Record]) -> Self {
        Self::trials(records, false)
    }

    /// Those among records, and the ones that were made and do not count.
    #[must_use]
    pub fn tried(records: &[Record]) -> Self {
        Self::trials(records, true)
    }

    fn trials(records: &[Record], has_void: bool) -> Self {
        let cells = records.iter().filter_map(|record| record.cell.as_deref());
        let wanted = cells.filter(|cell| (has_void || cell.void.is_none()) && !cell.is_part);
        Self { trials: wanted.map(|cell| key(&cell.slot, &cell.workload)).collect() }
    }

    /// Whether a workload of a trial is done.
    #[must_use]
    pub fn has(&self, slot: &Slot, workload: &str) -> bool {
        self.trials.contains(&key(slot, workload))
    }

    /// Whether nothing of a trial is left to do.
    #[must_use]
    pub fn has_all(&self, slot: &Slot, workloads: &[PlanWorkload], is_together: bool) -> bool {
        labels(workloads, is_together).iter().all(|label| self.has(slot, label))
    }

    /// Whether a trial was begun: after a workload that does not count the others are left.
    #[must_use]
    pub fn has_any(&self, slot: &Slot, workloads: &[PlanWorkload], is_together: bool) -> bool {
        labels(workloads, is_together).iter().any(|label| self.has(slot, label))
    }
}

/// Labels of the records of a trial: one for each workload, or one for all that run side by side. The order in which they run
/// side by side means nothing.
#[must_use]
pub fn labels(workloads: &[PlanWorkload], is_together: bool) -> Vec<String> {
    let mut labels: Vec<String> = workloads.iter().map(|w| w.label.clone()).collect();
    if is_together && labels.len() > 1 {
        labels.order();
        return vec![labels.join("+")];
    }
    labels
}

/// Where a plan differs from the one that a run was begun with; empty when nothing does that matters. A plan without a seed
/// goes on with the one that was chosen.
#[must_use]
pub fn differences(begun: &Plan, now: &Plan) -> Vec<String> {
    let mut now = now.clone();
    now.design.seed = now.design.seed.or(begun.design.seed);
    // Nobody wrote it: see `replaced`.
    now.footing.clone_from(&begun.footing);
    let form = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
    let mut found = Vec::new();
    compare("", &form(begun), &form(&now), &mut found);
    found
}

/// What the words of a plan led to when a run was begun, and lead to something else now; empty when that is not so, or not known.
#[must_use]
pub fn replaced(begun: &[Footing], now: &[Footing]) -> Vec<String> {
    let then = begun.iter().filter_map(|then| {
        let now = now.iter().find(|now| now.word == then.word)?;
        Some((then, now))
    });
    let mut found: Vec<String> = Vec::new();
    for (then, now) in then {
        let is_other = then.replaced_by(now);
        let told = is_other.map(|(was, is)| format!("{} was {was} and is {is}", then.word));
        let settings = changed_settings(&then.settings, &now.settings);
        // Several words may lead to one device.
        let new = told.into_iter().chain(settings).filter(|text| !found.contains(text));
        found.extend(new.collect::<Vec<_>>());
    }
    found
}

/// What no cell sets and is not as it was; what came with another scheduler is told with that.
fn changed_settings(then: &[FoundSetting], now: &[FoundSetting]) -> Vec<String> {
    let same = |was: &FoundSetting| {
        let is_it = |is: &&FoundSetting| is.knob == was.knob && is_same(&is.place, &was.place);
        now.iter().find(is_it).filter(|is| is.value != was.value)
    };
    let changed: Vec<_> = then.iter().filter_map(|was| Some((was, same(was)?))).collect();
    let has_other_scheduler = |place: &KnobPlace| {
        changed.iter().any(|(was, _)| was.knob == SCHEDULER && was.place == *place)
    };
    let own = changed
        .iter()
        .filter(|(was, _)| !(follows_scheduler(&was.knob) && has_other_scheduler(&was.place)));
    let told = |(was, is): &(&FoundSetting, &FoundSetting)| {
        format!("{} of {} was {} and is {}", was.knob, is.place.name(), was.value, is.value)
    };
    own.map(told).collect()
}

/// A boot may give a device another name.
fn is_same(a: &KnobPlace, b: &KnobPlace) -> bool {
    match (a, b) {
        (KnobPlace::Device { id: a, .. }, KnobPlace::Device { id: b, .. }) => a == b,
        _ => a == b,
    }
}

fn compare(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    let below = |key: &str| match (path, key) {
        ("", key) => key.to_owned(),
        // In the plan they stand behind the factor itself.
        (factor, "levels") => factor.to_owned(),
        (above, key) => format!("{above}.{key}"),
    };
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or_default()
                };
                compare(&below(key), &of(x), &of(y), found);
            }
        }
        (Value::Array(x), Value::Array(y))
            if x.len() == y.len() && x.iter().all(Value::is_object) =>
        {
            for (at, (x, y)) in x.iter().zip(y).enumerate() {
                let key = called(x).filter(|key| called(y) == Some(*key));
                compare(&below(key.unwrap_or(&(at + 1).to_string())), x, y, found);
            }
        }
        _ if a == b => {}
        _ => found.push(format!("{path}: {} -> {}", words(a), words(b))),
    }
}

/// What a factor, workload or knob is called in the plan.
fn called(value: &Value) -> Option<&str> {
    let sets = &value["sets"];
    let keys = [&sets["id"], &sets["key"], &value["label"], &value["name"]];
    keys.into_iter().find_map(Value::as_str)
}

fn words(value: &Value) -> String {
    let text = match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { short + "..." } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::program;
    use serde_json::json;

    /// The first of two workloads did not count, and the second was left: the trial is to be made again, and was begun.
    #[test]
    fn what_does_not_count_was_begun_all_the_same() {
        let workload = |label: &str| PlanWorkload {
            label: label.to_owned(),
            name: Some("randread".to_owned()),
            command: None,
            settings: std::collections::BTreeMap::new(),
            target: None,
        };
        let workloads = [workload("a"), workload("b")];
        let slot = Slot { block: 3, place: 1, cell: 2, is_sentinel: false };
        let mut record = program::empty_record("a", program::workload_of(""), 0);
        let cell = json!({
            "slot": slot, "levels": [], "workload": "a", "knobs": [], "setup": [], "void": "not quiet", "prepare_ns": 0,
        });
        record.cell = Some(Box::new(serde_json::from_value(cell).expect("a cell's record")));
        let records = [record];
        let (done, tried) = (Done::of(&records), Done::tried(&records));
        assert!(
            !done.has_any(&slot, &workloads, false) && !tried.has_all(&slot, &workloads, false)
        );
        assert!(tried.has_any(&slot, &workloads, false));
        assert!(!tried.has_any(&Slot { block: 4, ..slot }, &workloads, false));
    }

    #[test]
    fn other_devices_and_filesystems_are_told_and_what_is_not_known_is_not() {
        let footing = |filesystem: Option<&str>, devices: &[&str]| Footing {
            word: "/srv".to_owned(),
            filesystem: filesystem.map(str::to_owned),
            devices: devices.iter().map(|&device| device.to_owned()).collect(),
            size_bytes: Some(4096),
            inode: Some(7),
            born_ns: Some(100),
            mount_options: Some(["noatime", "rw"].map(str::to_owned).into()),
            filesystem_form: Some("1 GiB".to_owned()),
            settings: Vec::new(),
        };
        let of = |begun: &Footing, now: &Footing| {
            replaced(std::slice::from_ref(begun), std::slice::from_ref(now))
        };
        let begun = footing(Some("1-2"), &["/a.img", "vdb:4096"]);
        assert_eq!(of(&begun, &begun), [""; 0]);
        assert_eq!(
            of(&begun, &footing(Some("1-2"), &["vdb:4096", "wwn-7"])),
            [""; 0],
            "one is new"
        );
        assert_eq!(of(&begun, &footing(None, &[])), [""; 0], "not known");
        let other = of(&begun, &footing(Some("1-2"), &["/b.img"]));
        assert_eq!(other, ["/srv was /a.img and vdb:4096 and is /b.img"]);
        let made_anew = of(&begun, &footing(Some("3-4"), &["/a.img"]));
        assert_eq!(made_anew, ["/srv was filesystem 1-2 and is filesystem 3-4"]);
        let options = |all: &[&str]| {
            let all = all.iter().map(|&one| one.to_owned()).collect();
            Footing { mount_options: Some(all), ..begun.clone() }
        };
        assert_eq!(of(&begun, &options(&["rw", "noatime"])), [""; 0]);
        assert_eq!(
            of(&begun, &options(&["relatime", "rw"])),
            ["/srv was mounted with noatime and is mounted with relatime"]
        );
        assert_eq!(
            of(&begun, &options(&["noatime", "nosuid", "rw"])),
            ["/srv was mounted with fewer options and is mounted with nosuid"]
        );
        assert_eq!(of(&begun, &Footing { mount_options: None, ..begun.clone() }), [""; 0]);
        let smaller = Footing { filesystem_form: Some("900 MiB".to_owned()), ..begun.clone() };
        let told = ["/srv was a filesystem of 1 GiB and is a filesystem of 900 MiB"];
        assert_eq!(of(&begun, &smaller), told);
        assert_eq!(of(&begun, &Footing { filesystem_form: None, ..begun.clone() }), [""; 0]);
        let longer = Footing { size_bytes: Some(8192), ..begun.clone() };
        assert_eq!(of(&begun, &longer), ["/srv was 4096 bytes long and is 8192 bytes long"]);
        let recreated = Footing { inode: Some(8), ..begun.clone() };
        let told = ["/srv was the file of inode 7 and is the file of inode 8"];
        assert_eq!(of(&begun, &recreated), told);
        let reused = Footing { born_ns: Some(200), ..begun.clone() };
        let told =
            ["/srv was the file of inode 7 and is a file that was made anew and got that number"];
        assert_eq!(of(&begun, &reused), told);
        assert_eq!(of(&begun, &Footing { born_ns: None, ..begun.clone() }), [""; 0]);
        let not_known = Footing { size_bytes: None, inode: None, ..begun.clone() };
        assert_eq!(of(&begun, &not_known), [""; 0]);
        let elsewhere = Footing { word: "/home".to_owned(), ..footing(None, &["/b.img"]) };
        assert_eq!(of(&begun, &elsewhere), [""; 0], "another word");
    }

    #[test]
    fn settings_that_no_cell_sets_are_told_when_they_have_changed() {
        let setting = |name: &str, knob: &str, value: &str| FoundSetting {
            place: KnobPlace::Device { id: "wwn-1".to_owned(), name: name.to_owned() },
            knob: knob.to_owned(),
            value: value.to_owned(),
        };
        let of = |begun: &[FoundSetting], now: &[FoundSetting]| changed_settings(begun, now);
        let all = |name: &str, scheduler: &str, requests: &str, merges: &str| {
            vec![
                setting(name, "block.nr_requests", requests),
                setting(name, SCHEDULER, scheduler),
                setting(name, "block.nomerges", merges),
            ]
        };
        let begun = all("sda", "none", "64", "0");
        assert_eq!(of(&begun, &all("sdb", "none", "64", "0")), [""; 0], "by its identifier");
        assert_eq!(
            of(&begun, &all("sdb", "bfq", "256", "2")),
            ["block.scheduler of sdb was none and is bfq", "block.nomerges of sdb was 0 and is 2"]
        );
        let requests = of(&begun, &all("sda", "none", "8", "0"));
        assert_eq!(requests, ["block.nr_requests of sda was 64 and is 8"]);
        assert_eq!(of(&begun, &[]), [""; 0], "not known");
        assert_eq!(of(&[], &begun), [""; 0], "of an older version");
    }

    /// By the words of the plan, of which the stored form has others.
    #[test]
    fn differences_are_named_as_they_stand_in_the_plan() {
        let plan = |levels: &str, blocks: u32, depth: u32| {
            let text = format!(
                "question = \"Which?\"\ntarget = \"null:\"\n[[workload]]\nuse = \"randread\"\nlabel = \"a\"\ndepth = {depth}\n\
                 [factors]\nblock.scheduler = [\"none\", \"bfq\"]\nblock.read_ahead_kb = {levels}\n[design]\nblocks = {blocks}\n"
            );
            fathom_plan::read(&text, "plan", &fathom_plan::Unchecked).expect("a plan")
        };
        let begun = plan("[0, 256]", 2, 1);
        assert!(differences(&begun, &begun).is_empty());
        let found = differences(&begun, &plan("[0, 64]", 3, 8));
        assert_eq!(
            found,
            [
                "design.blocks: 2 -> 3",
                "factors.block.read_ahead_kb: [\"0\",\"256\"] -> [\"0\",\"64\"]",
                "workloads.a.settings.depth: 1 -> 8",
            ]
        );
    }
}
