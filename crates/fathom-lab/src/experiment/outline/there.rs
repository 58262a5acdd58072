//! What is there now and would end the experiment at its first trial: targets that may not be written, knobs of the user's own that
//! cannot be read, memory that the machine does not have.

use super::Survey;
use crate::error::{ErrorClass, LabError};
use crate::experiment::{bench, boot, places};
use crate::target::TargetWish;
use fathom_base::units::format_sizes;
use fathom_knobs::{KnobError, Wait};
use fathom_model::plan::cell::Cell;
use fathom_model::stack::Stack;
use fathom_sys::counters;
use std::path::Path;

impl Survey<'_> {
    /// What a load works on, and what it overwrites.
    pub(super) fn look_at_target_of(&mut self, target: &str, wish: &TargetWish) {
        if wish.write && !self.overwritten.contains(&target.to_owned()) {
            self.overwritten.push(target.to_owned());
            match places::look_at_device(self.ground, Path::new(target)) {
                Ok(Some(device)) => {
                    let places::Overwritten { path, what, id, is_consented } = device;
                    self.destroys(&path, &what, &id, is_consented);
                }
                Ok(None) => {}
                Err(error) => return self.refuse(error),
            }
        }
        let has_programs = self.plan.workloads.iter().any(|load| load.command.is_some());
        if let Err(error) = places::check(self.ground, target, wish, has_programs) {
            self.refuse(error);
        }
    }

    /// Each knob of the user's own that a cell sets, read once: what cannot be read must not be found out when devices have been
    /// overwritten. What only another boot has is not there yet, nor what only a setup has, as the plan says.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub(super) fn look_at_own_knobs(
        &mut self,
        cells: &[Cell],
        wait: &mut Wait<'_>,
    ) -> Result<(), LabError> {
        let root = self.ground.root;
        let is_now = |cell: &&Cell| cell.impossible.is_none() && boot::wanted(root, cell).is_none();
        for own in &self.plan.own_knobs {
            let id = format!("own.{}", own.name);
            let mut users =
                cells.iter().filter(is_now).filter(|cell| cell.knobs.contains_key(&id)).peekable();
            if users.peek().is_none() {
                continue;
            }
            let is_built = users.all(|cell| !cell.setup.is_empty());
            if is_built && own.needs_setup {
                self.outline.notes.push(format!(
                    "{id} is read only when the setup is built (needs_setup = true): if `{}` fails then, devices have been overwritten for nothing",
                    own.read
                ));
                self.own_now.insert(id, None);
                continue;
            }
            let now = fathom_knobs::check_own(root, own, wait);
            if now.is_err() && wait.is_over() {
                return Err(LabError::Interrupted);
            }
            self.own_now.insert(id, now.as_ref().ok().cloned());
            if let Err(error) = now {
                let cure = if is_built {
                    "; if only what the setup builds has it, say so with needs_setup = true"
                } else {
                    ""
                };
                self.refuse(bench::of_knob(error.with_cure(cure)));
            }
        }
        Ok(())
    }

    /// A setting of devices where there is none, because fathom itself is measured.
    pub(super) fn at_null(&self, error: KnobError, stacks: &[Stack]) -> KnobError {
        let target = self.plan.target.as_deref().filter(|target| target.starts_with("null:"));
        match (error, target) {
            (KnobError::Nowhere { knob, .. }, Some(target)) if stacks.is_empty() => {
                let what = knob.rsplit('.').next().unwrap_or(&knob);
                let reason = format!(
                    "{target} has no {what}, for it is fathom itself without any device; give a directory, a file or a device as the target"
                );
                KnobError::Nowhere { knob, reason }
            }
            (error, _) => error,
        }
    }

    /// Memory that is asked for and can never be there.
    pub(super) fn look_at_memory(&mut self) {
        let prepare = &self.plan.prepare;
        let (floor, limit) = (prepare.memory_floor_bytes, prepare.memory_limit_bytes);
        let Some(all) = counters::memory_total_bytes(self.ground.root) else { return };
        for (name, asked) in [("memory_floor", floor), ("memory_limit", limit)] {
            if let Some(asked) = asked.filter(|asked| *asked > all) {
                let (asked, all) = format_sizes(asked, all);
                let reason = format!(
                    "{name} = {asked} is more than this machine has ({all}); give less, or leave it out"
                );
                self.refuse(LabError::Cell { reason, class: ErrorClass::Missing });
            }
        }
        if let Some((floor, limit)) = floor.zip(limit).filter(|(floor, limit)| floor > limit) {
            let (floor, limit) = format_sizes(floor, limit);
            let reason = format!(
                "memory_floor = {floor} can never be free where memory_limit = {limit}; give less"
            );
            self.refuse(LabError::Usage(reason));
        }
    }
}
