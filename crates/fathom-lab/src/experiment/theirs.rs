//! Settings that somebody else has changed during the experiment, and which cells set them themselves.

use crate::restore::{Outcome, Report};
use fathom_knobs::{SCHEDULER, Setting, follows_scheduler};
use fathom_model::change::knob::KnobPlace;
use std::collections::BTreeMap;

/// What the kernel sets with a scheduler, and is there with each.
const WITH_SCHEDULER: [&str; 2] = ["block.nr_requests", "block.wbt_lat_usec"];

/// A setting that somebody else has changed.
#[derive(Debug)]
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
