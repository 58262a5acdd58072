//! Runs without what identifies, for reports: everything is learned before the first is written.

use crate::session;
use fathom_check::anonymise::runs::Hider;
use fathom_model::plan::Plan;
use fathom_store::StoredRun;
use fathom_study::compare::{Run, Side};

/// What takes out what identifies.
pub struct Hiding(Hider);

impl Hiding {
    /// One that is forgotten with its seed.
    pub fn new() -> Self {
        Self(Hider::new(session::system_seed()))
    }

    /// A stored run with its plan; none when it would not be readable any more.
    pub fn stored(&mut self, run: &mut StoredRun, plan: &mut Option<Plan>) -> Option<()> {
        let hider = &mut self.0;
        hider.learn(&run.head);
        hider.learn(plan);
        hider.learn(&run.findings);
        run.records.iter().for_each(|record| hider.learn(record));
        run.head = hider.hide(&run.head)?;
        *plan = hider.hide(plan)?;
        run.findings = hider.hide(&run.findings)?;
        for record in &mut run.records {
            *record = hider.hide(record)?;
        }
        Some(())
    }

    /// Both sides of a comparison, with their names.
    pub fn sides(&mut self, mut sides: [&mut Side; 2]) -> Option<()> {
        for side in &sides {
            self.0.learn(&side.name);
            self.learn(&side.runs);
        }
        for side in &mut sides {
            side.name = self.0.hide(&side.name)?;
            self.hide(&mut side.runs)?;
        }
        Some(())
    }

    /// Runs on one target, and its name.
    pub fn runs(&mut self, mut runs: Vec<Run>, target: &mut String) -> Option<Vec<Run>> {
        self.0.learn(target);
        self.learn(&runs);
        *target = self.0.hide(target)?;
        self.hide(&mut runs)?;
        Some(runs)
    }

    fn learn(&mut self, runs: &[Run]) {
        for run in runs {
            self.0.learn(&run.head);
            run.records.iter().for_each(|record| self.0.learn(record));
        }
    }

    fn hide(&mut self, runs: &mut [Run]) -> Option<()> {
        for run in runs {
            run.head = self.0.hide(&run.head)?;
            for record in &mut run.records {
                *record = self.0.hide(record)?;
            }
        }
        Some(())
    }
}
