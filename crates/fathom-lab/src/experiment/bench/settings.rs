//! The settings of cells: written, read back around each trial, put back, and what somebody else has changed meanwhile.

use super::{Bench, of_knob, unheard_yet};
use crate::error::{ErrorClass, LabError};
use crate::experiment::theirs::{Theirs, without_followers};
use crate::lab::Lab;
use crate::restore::{self, Outcome};
use fathom_knobs::{Scope, Setting, Wait};
use fathom_model::change::Change;
use fathom_model::change::knob::{KnobPlace, KnobValue};
use fathom_model::plan::cell::{Cell, KnobReading};
use fathom_model::stack::Stack;
use std::collections::BTreeMap;

impl Bench {
    /// Writes the settings of a cell, after those of the one before were taken back.
    pub fn set_knobs(
        &mut self,
        lab: &mut Lab<'_>,
        cell: &Cell,
        stacks: &[Stack],
    ) -> Result<(), LabError> {
        let stop = lab.stop.clone();
        lab.waiting(Some(&stop), |wait| self.restore_knobs(wait))?;
        self.target_mounts.look(&self.root, self.mounts_of_targets(stacks));
        let (devices, mounts) = fathom_knobs::scope::of_stacks(&self.root, stacks);
        let own = self.own.clone();
        let scope = Scope { devices: &devices, mounts: &mounts, own: &own };
        // What commands of the user's own change besides is not somebody else's.
        if own.is_empty() {
            self.learn_first(&fathom_knobs::watched(&self.root, &scope));
        }
        if !cell.knobs.is_empty() {
            self.apply_knobs(lab, cell, &scope)?;
        }
        self.beside.learn(fathom_knobs::watched(&self.root, &scope), &self.settings);
        self.target_mounts.learn(&self.root, &self.settings);
        self.is_set = true;
        Ok(())
    }

    /// Of each setting what it was when the cell found it.
    fn learn_found(&mut self) {
        let found = self.settings.iter().zip(&self.found);
        let found = found.filter_map(|(setting, found)| {
            Some(Setting { value: found.clone()?, ..setting.clone() })
        });
        self.learn_first(&found.collect::<Vec<_>>());
    }

    fn learn_first(&mut self, found: &[Setting]) {
        for Setting { knob, place, value } in found {
            let key = (place.clone(), knob.clone());
            self.first.entry(key).or_insert_with(|| value.clone());
        }
    }

    fn apply_knobs(
        &mut self,
        lab: &mut Lab<'_>,
        cell: &Cell,
        scope: &Scope<'_>,
    ) -> Result<(), LabError> {
        let stop = lab.stop.clone();
        let settings = fathom_knobs::resolve(&self.root, scope, &cell.knobs).map_err(of_knob)?;
        // Known before they are written: what is half written is drift too.
        self.settings.clone_from(&settings);
        // What commands of the user's own say of it is read when it is set, once.
        self.found = settings.iter().map(|setting| self.read_known(setting)).collect();
        self.learn_found();
        let log = Self::log(&mut self.log)?;
        let (root, own) = (&self.root, &self.own);
        let applied =
            lab.waiting(Some(&stop), |wait| fathom_knobs::apply(root, log, &settings, own, wait));
        if applied.is_err() && stop.is_set() {
            self.is_cut.set(true);
        }
        for one in applied.map_err(of_knob)? {
            let is_it = |own: &Setting| own.place == one.place && own.knob == one.knob;
            let place = settings.iter().position(is_it);
            if let Some(found) = place.and_then(|place| self.found.get_mut(place)) {
                *found = found.take().or(one.before);
            }
        }
        self.learn_found();
        let root = &self.root;
        let read = |place: &KnobPlace, knob: &str| fathom_knobs::read(root, place, knob).ok();
        self.usual.learn(&read, &self.settings, &self.theirs);
        let mounted = std::mem::take(&mut self.mounted);
        self.learn_mounts(mounted);
        Ok(())
    }

    /// The settings of the cell as they are now, in the place for before.
    ///
    /// # Errors
    /// [`LabError::Interrupted`], for this and all that read.
    pub fn readings(&self, lab: &mut Lab<'_>) -> Result<Vec<KnobReading>, LabError> {
        let stop = lab.stop.clone();
        let mut all = Vec::new();
        for (setting, found) in self.settings.iter().zip(&self.found) {
            all.push(KnobReading {
                knob: setting.knob.clone(),
                place: setting.place.clone(),
                asked: setting.value.clone(),
                found: found.clone(),
                before: lab.waiting(Some(&stop), |wait| self.read(setting, wait))?,
                after: None,
            });
        }
        Ok(all)
    }

    /// Reads them again after the measurement.
    pub fn read_after(
        &self,
        lab: &mut Lab<'_>,
        readings: &mut [KnobReading],
    ) -> Result<(), LabError> {
        let stop = lab.stop.clone();
        for (reading, setting) in readings.iter_mut().zip(&self.settings) {
            reading.after = lab.waiting(Some(&stop), |wait| self.read(setting, wait))?;
        }
        Ok(())
    }

    /// Without commands of the user's own.
    fn read_known(&self, setting: &Setting) -> Option<String> {
        let is_own = matches!(setting.place, KnobPlace::Own { .. });
        let read = || fathom_knobs::read(&self.root, &setting.place, &setting.knob).ok();
        if is_own { None } else { read() }
    }

    fn read(&self, setting: &Setting, wait: &mut Wait<'_>) -> Result<Option<String>, LabError> {
        if !matches!(setting.place, KnobPlace::Own { .. }) {
            return Ok(self.read_known(setting));
        }
        let now = fathom_knobs::read_own(&self.own, &setting.place, wait);
        if now.is_none() && wait.is_over() {
            self.is_cut.set(true);
            return Err(LabError::Interrupted);
        }
        Ok(now)
    }

    /// What somebody else has changed since the settings were made, of what the cell does not set.
    pub fn changed_beside(&self) -> Option<String> {
        let root = &self.root;
        self.beside.changed(&|place, knob| fathom_knobs::read(root, place, knob).ok())
    }

    /// What somebody else has changed and the cell leaves as it is: its trials would be measured with something else than those before.
    pub fn theirs(&self) -> Option<String> {
        let set: Vec<(&Setting, Option<&str>)> =
            self.settings.iter().zip(self.found.iter().map(Option::as_deref)).collect();
        let is_left = |one: &&Theirs| !self.usual.is_set(one, &self.theirs, &set);
        let left = self.theirs.iter().filter(is_left).cloned().collect();
        // What came with their scheduler is not what they have changed.
        let found = without_followers(left, &|_| false);
        found.first().map(Theirs::told).or_else(|| self.target_mounts.changed(&self.root))
    }

    /// Takes the settings of the last cell back. What somebody else has changed since stays as they set it, and in the journal.
    ///
    /// # Errors
    /// [`LabError::Cell`] when one cannot be put back.
    pub(super) fn restore_knobs(&mut self, wait: &mut Wait<'_>) -> Result<(), LabError> {
        self.tried.clear();
        self.settings.clear();
        self.found.clear();
        self.is_set = false;
        self.mounted.look(&self.root);
        let log = Self::log(&mut self.log)?;
        let (mut failed, mut before) = (Vec::new(), BTreeMap::new());
        for entry in log.pending() {
            let Change::Knobs(change) = &entry.change else { continue };
            let report = restore::restore_entry(&self.root, log, &entry, false, true, wait);
            match &report.outcome {
                // Newest first: what the oldest found was there before the experiment.
                Outcome::ChangedBySomebody(_) => {
                    let which = |value: &KnobValue| (change.place.clone(), value.knob.clone());
                    before.extend(change.before.iter().map(|v| (which(v), v.value.clone())));
                }
                outcome if outcome.is_done() => {}
                _ => {
                    failed.push(report.to_string());
                    if change.own.is_some() {
                        self.tried.insert(entry.step, report);
                    }
                }
            }
        }
        // Commands of the user's own are not run once more for that.
        let known =
            self.first.iter().filter(|((place, _), _)| !matches!(place, KnobPlace::Own { .. }));
        for (which, value) in known {
            before.entry(which.clone()).or_insert_with(|| value.clone());
        }
        self.theirs = self.changed_since(before, wait);
        let mounted = std::mem::take(&mut self.mounted);
        self.learn_mounts(mounted);
        if failed.is_empty() {
            return Ok(());
        }
        Err(LabError::Cell { reason: failed.join("; "), class: ErrorClass::TargetIo })
    }

    /// What is not as it was before by now, though fathom has taken its own settings back.
    fn changed_since(
        &self,
        before: BTreeMap<(KnobPlace, String), String>,
        wait: &mut Wait<'_>,
    ) -> Vec<Theirs> {
        let all = before.into_iter().filter_map(|((place, knob), before)| {
            let setting = Setting { knob, place, value: before };
            let now = self.read(&setting, wait).ok()??;
            let Setting { knob, place, value: before } = setting;
            (now != before).then_some(Theirs { place, knob, before, now })
        });
        all.collect()
    }

    /// Looks for the last time at what was set on what stands now, but for the devices that stay when it is taken down. What somebody has set
    /// between two trials stays theirs: it was there before the next one, and was put back after it.
    pub(super) fn look_at_strayed(&mut self, lab: &mut Lab<'_>, staying: &[String]) {
        let is_staying = |place: &KnobPlace| matches!(place, KnobPlace::Device { name, .. } if staying.contains(name));
        let all = std::mem::take(&mut self.first);
        let (stay, mut first): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|((place, _), _)| is_staying(place));
        self.first = stay;
        let is_own = |place: &KnobPlace| matches!(place, KnobPlace::Own { .. });
        first.retain(|(place, _), _| !(self.is_cut.get() && is_own(place)));
        let stop = unheard_yet(lab);
        let strayed = lab.waiting(stop.as_ref(), |wait| self.changed_since(first, wait));
        self.strayed.extend(strayed);
    }
}

/// Which setting is not what it was set to after the measurement; none when nobody interfered.
pub(in crate::experiment) fn drift(readings: &[KnobReading]) -> Option<String> {
    let has_drifted = |reading: &&KnobReading| {
        let after = reading.after.as_deref();
        !after.is_some_and(|now| fathom_knobs::is_as_asked(&reading.knob, &reading.asked, now))
    };
    let one = |reading: &KnobReading| {
        let KnobReading { knob, place, asked, after, .. } = reading;
        let now = after.as_deref().unwrap_or("not readable");
        format!("{knob} of {} was set to {asked} and is {now}", place.name())
    };
    let all: Vec<String> = readings.iter().filter(has_drifted).map(one).collect();
    (!all.is_empty())
        .then(|| format!("somebody else changed a setting during the trial: {}", all.join("; ")))
}
