//! Settings that somebody else has changed during the experiment, and which cells set them themselves.

use crate::restore::{Outcome, Report};
use fathom_knobs::{SCHEDULER, Setting, follows_scheduler};
use fathom_model::change::knob::KnobPlace;
use std::collections::BTreeMap;

/// What the kernel sets with a scheduler, and is there with each.
const WITH_SCHEDULER: [&str; 2] = ["block.nr_requests", "block.wbt_lat_usec"];

/// A setting that somebody else has changed.
#[derive(Debug, Clone)]
pub(super) struct Theirs {
    pub place: KnobPlace,
    pub knob: String,
    /// Before the experiment.
    pub before: String,
    pub now: String,
}

impl Theirs {
    pub fn report(self, run_id: &str) -> Report {
        let Self { place, knob, before, now } = self;
        let found = format!("it is {now}, before the experiment it was {before}");
        let what = format!("{knob} of {}", place.name());
        Report { run_id: run_id.to_owned(), what, outcome: Outcome::ChangedBySomebody(found) }
    }

    pub fn told(&self) -> String {
        let Self { place, knob, before, now } = self;
        format!(
            "somebody else has changed {knob} of {} during the experiment, which this cell does not set: it is {now} now, before it \
             was {before}",
            place.name()
        )
    }
}

/// Settings that the cell leaves alone, as they were when its own were made.
#[derive(Debug, Default)]
pub(super) struct Beside(Vec<Setting>);

impl Beside {
    /// The settings of a cell were made; `all` are those that are watched.
    pub fn learn(&mut self, all: Vec<Setting>, set: &[Setting]) {
        let is_set = |one: &Setting| set.iter().any(|own| is_same(own, &one.place, &one.knob));
        self.0 = all.into_iter().filter(|one| !is_set(one)).collect();
    }

    /// What of it somebody else has changed since; what cannot be read any more is told elsewhere.
    pub fn changed(&self, read: &dyn Fn(&KnobPlace, &str) -> Option<String>) -> Option<String> {
        let now = |one: &Setting| read(&one.place, &one.knob).filter(|now| *now != one.value);
        let mut changed: Vec<(&Setting, String)> =
            self.0.iter().filter_map(|one| Some((one, now(one)?))).collect();
        let with: Vec<KnobPlace> = changed
            .iter()
            .filter(|(one, _)| one.knob == SCHEDULER)
            .map(|(one, _)| one.place.clone())
            .collect();
        // A scheduler of somebody else's brings values of its own with it.
        changed.retain(|(one, _)| !(follows_scheduler(&one.knob) && with.contains(&one.place)));
        let told = |(one, now): &(&Setting, String)| {
            format!("{} of {} was {} and is {now}", one.knob, one.place.name(), one.value)
        };
        let all: Vec<String> = changed.iter().map(told).collect();
        (!all.is_empty()).then(|| {
            let all = all.join("; ");
            format!("somebody else changed a setting during the trial, which this cell does not set: {all}")
        })
    }
}

fn is_same(setting: &Setting, place: &KnobPlace, knob: &str) -> bool {
    setting.place == *place && setting.knob == knob
}

/// Without what the kernel has set with a scheduler that is among them.
pub(super) fn without_followers(
    mut all: Vec<Theirs>,
    is_told: &dyn Fn(&KnobPlace) -> bool,
) -> Vec<Theirs> {
    let of_scheduler = all.iter().filter(|one| one.knob == SCHEDULER);
    let with: Vec<KnobPlace> = of_scheduler.map(|one| one.place.clone()).collect();
    let is_with = |place: &KnobPlace| with.contains(place) || is_told(place);
    all.retain(|one| !(follows_scheduler(&one.knob) && is_with(&one.place)));
    all
}

/// What came with each scheduler in cells that set it while nobody else had changed anything there.
#[derive(Debug, Default)]
pub(super) struct Usual(BTreeMap<(KnobPlace, String, &'static str), String>);

impl Usual {
    /// The settings of a cell were made.
    pub fn learn(
        &mut self,
        read: &dyn Fn(&KnobPlace, &str) -> Option<String>,
        settings: &[Setting],
        theirs: &[Theirs],
    ) {
        for setting in settings.iter().filter(|setting| setting.knob == SCHEDULER) {
            let place = &setting.place;
            if theirs.iter().any(|one| one.place == *place) {
                continue;
            }
            for knob in WITH_SCHEDULER {
                let is_own = settings.iter().any(|own| own.place == *place && own.knob == knob);
                if let (false, Some(value)) = (is_own, read(place, knob)) {
                    self.0.entry((place.clone(), setting.value.clone(), knob)).or_insert(value);
                }
            }
        }
    }

    /// A cell sets it itself, or has it from the kernel with the scheduler that it sets. `set` are its settings, with what was found before
    /// they were made: where its scheduler was there already, by somebody's hand, the kernel has set nothing anew.
    pub fn is_set(&self, one: &Theirs, all: &[Theirs], set: &[(&Setting, Option<&str>)]) -> bool {
        let own =
            |knob: &str| set.iter().find(|(own, _)| own.place == one.place && own.knob == knob);
        if own(&one.knob).is_some() {
            return true;
        }
        let Some((scheduler, found)) = own(SCHEDULER).filter(|_| follows_scheduler(&one.knob))
        else {
            return false;
        };
        if *found != Some(scheduler.value.as_str()) {
            return true;
        }
        let is_theirs = all.iter().any(|of| of.place == one.place && of.knob == SCHEDULER);
        let is_usual = |((place, with, knob), value): (&(KnobPlace, String, &str), &String)| {
            let is_it = *place == one.place && *with == scheduler.value && *knob == one.knob;
            is_it.then_some(*value == one.now)
        };
        is_theirs && self.0.iter().find_map(is_usual).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> KnobPlace {
        KnobPlace::Device { id: "wwn-1".to_owned(), name: "sda".to_owned() }
    }

    fn theirs(knob: &str, before: &str, now: &str) -> Theirs {
        let (knob, before, now) = (knob.to_owned(), before.to_owned(), now.to_owned());
        Theirs { place: place(), knob, before, now }
    }

    fn setting(knob: &str, value: &str) -> Setting {
        Setting { knob: knob.to_owned(), place: place(), value: value.to_owned() }
    }

    const WATCHED: [(&str, &str); 3] =
        [("block.read_ahead_kb", "128"), ("block.nr_requests", "64"), ("block.scheduler", "none")];

    /// What is told when these are other values now.
    fn told(beside: &Beside, new: &[(&str, &str)]) -> Option<String> {
        let read = |_: &KnobPlace, knob: &str| {
            let mut all = new.iter().chain(&WATCHED);
            all.find(|(name, _)| *name == knob).map(|(_, value)| (*value).to_owned())
        };
        let text = beside.changed(&read)?;
        Some(text.rsplit("does not set: ").next().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_no_cell_sets_is_named_when_somebody_changes_it() {
        let watched = || WATCHED.map(|(knob, value)| setting(knob, value)).to_vec();
        let mut beside = Beside::default();
        beside.learn(watched(), &[setting("block.nr_requests", "64")]);
        assert_eq!(told(&beside, &[]), None);
        // The cell's own is told as one of its settings.
        assert_eq!(told(&beside, &[("block.nr_requests", "32")]), None);
        let ahead = told(&beside, &[("block.read_ahead_kb", "4096")]);
        assert_eq!(ahead.as_deref(), Some("block.read_ahead_kb of sda was 128 and is 4096"));
        beside.learn(watched(), &[]);
        let bfq = told(&beside, &[("block.scheduler", "bfq"), ("block.nr_requests", "256")]);
        assert_eq!(bfq.as_deref(), Some("block.scheduler of sda was none and is bfq"));
        let requests = told(&beside, &[("block.nr_requests", "256")]);
        assert_eq!(requests.as_deref(), Some("block.nr_requests of sda was 64 and is 256"));
    }

    #[test]
    fn what_came_with_somebodys_scheduler_is_told_with_it() {
        let all = || {
            vec![
                theirs("block.nr_requests", "128", "256"),
                theirs("block.read_ahead_kb", "128", "4096"),
            ]
        };
        let names =
            |found: Vec<Theirs>| -> Vec<String> { found.into_iter().map(|one| one.knob).collect() };
        let nowhere = |_: &KnobPlace| false;
        assert_eq!(names(without_followers(all(), &nowhere)).len(), 2);
        assert_eq!(names(without_followers(all(), &|_| true)), ["block.read_ahead_kb"]);
        let mut with = all();
        with.push(theirs(SCHEDULER, "none", "bfq"));
        assert_eq!(names(without_followers(with, &nowhere)), ["block.read_ahead_kb", SCHEDULER]);
    }

    /// Somebody chose bfq, and the kernel 256 requests with it.
    #[test]
    fn what_the_kernel_sets_with_a_scheduler_is_set_by_a_cell_that_sets_one() {
        let all = [theirs(SCHEDULER, "none", "bfq"), theirs("block.nr_requests", "128", "256")];
        let set = |usual: &Usual, settings: &[Setting], all: &[Theirs]| -> Vec<bool> {
            let own: Vec<(&Setting, Option<&str>)> =
                settings.iter().map(|one| (one, Some("bfq"))).collect();
            all.iter().map(|one| usual.is_set(one, all, &own)).collect()
        };
        let mut usual = Usual::default();
        for scheduler in ["none", "mq-deadline", "bfq"] {
            assert_eq!(set(&usual, &[setting(SCHEDULER, scheduler)], &all), [true, true]);
        }
        assert_eq!(set(&usual, &[setting("block.nomerges", "1")], &all), [false, false]);
        // The scheduler is the cell's already, and somebody has set another number of requests.
        let alone = [theirs("block.nr_requests", "256", "64")];
        assert_eq!(set(&usual, &[setting(SCHEDULER, "bfq")], &alone), [false]);
        let read =
            |_: &KnobPlace, knob: &str| (knob == "block.nr_requests").then(|| "256".to_owned());
        usual.learn(&read, &[setting(SCHEDULER, "bfq")], &[]);
        assert_eq!(set(&usual, &[setting(SCHEDULER, "bfq")], &all), [true, true]);
        let both = [theirs(SCHEDULER, "none", "bfq"), theirs("block.nr_requests", "128", "64")];
        assert_eq!(set(&usual, &[setting(SCHEDULER, "bfq")], &both), [true, false]);
        assert_eq!(set(&usual, &[setting(SCHEDULER, "none")], &both), [true, true]);
    }
}
