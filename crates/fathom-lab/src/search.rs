//! What searches share: one job on one target, trial after trial, until the time is over.

use crate::error::LabError;
use crate::lab::Lab;
use crate::target::PreparedTarget;
use crate::trial::{KeepRecord, Trial, announce, record_of};
use fathom_model::finding::Finding;
use fathom_model::record::{Ending, Record};
use fathom_model::workload::{Job, Workload};
use fathom_sys::clock;

/// Shortest and longest time of a search.
pub const TIME_NS_MIN: u64 = 10_000_000_000;
/// See [`TIME_NS_MIN`].
pub const TIME_NS_MAX: u64 = 24 * 3_600_000_000_000;

/// The trials of a search.
pub(crate) struct Trials<'r, 'l> {
    /// The laboratory.
    pub lab: &'r mut Lab<'l>,
    /// What they work on.
    pub target: &'r PreparedTarget,
    /// The workload that single settings are changed of.
    pub workload: Workload,
    /// On the monotonic clock.
    pub deadline_ns: u64,
    /// What was measured, in order.
    pub records: Vec<Record>,
    /// What is to be said of each of them.
    pub findings: Vec<Finding>,
    keep_record: KeepRecord<'r>,
    begun_ns: u64,
}

impl<'r, 'l> Trials<'r, 'l> {
    /// None measured yet.
    pub fn new(
        lab: &'r mut Lab<'l>,
        target: &'r PreparedTarget,
        workload: Workload,
        deadline_ns: u64,
        keep_record: KeepRecord<'r>,
    ) -> Self {
        let begun_ns = clock::monotonic_ns();
        let (records, findings) = (Vec::new(), Vec::new());
        Self { lab, target, workload, deadline_ns, records, findings, keep_record, begun_ns }
    }

    /// True when a signal came or a trial ended early: the rest would say nothing.
    pub fn stopped(&self) -> bool {
        self.lab.stop.is_set() || self.records.last().is_some_and(|r| r.ending != Ending::Complete)
    }

    /// Time left.
    pub fn left_ns(&self) -> u64 {
        self.deadline_ns.saturating_sub(clock::monotonic_ns())
    }

    /// Trials that the time is enough for when each takes `planned_ns`, or as long as those before took on average where
    /// that is more; `reserve_ns` stay for later.
    pub fn affordable(&self, planned_ns: u64, reserve_ns: u64) -> usize {
        let spent_ns = clock::monotonic_ns() - self.begun_ns;
        let mean_ns = spent_ns.checked_div(self.records.len() as u64).unwrap_or(0);
        let each_ns = planned_ns.max(mean_ns).max(1);
        (self.left_ns().saturating_sub(reserve_ns) / each_ns) as usize
    }

    /// Measures the job with other settings, of which `still` trials will probably follow.
    pub fn measure(&mut self, label: &str, job: Job, still: usize) -> Result<&Record, LabError> {
        let duration_ns = job.duration_ns.unwrap_or(0).saturating_add(job.warmup_ns);
        let workload = Workload { jobs: vec![job], ..self.workload.clone() };
        let done = self.records.len() as u32;
        let trial = Trial {
            label: label.to_owned(),
            workload: &workload,
            targets: vec![self.target],
            seed: self.lab.seeds.next_u64(),
            rest_after_ns: self.left_ns().saturating_sub(duration_ns),
            position: (done + 1, done + 1 + still as u32),
        };
        let mut record = record_of(self.lab, &trial)?;
        record.findings.extend(self.findings.iter().cloned());
        announce(self.lab, &record, self.keep_record)?;
        self.records.push(record);
        self.records.last().ok_or(LabError::Interrupted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saturate::{SaturateOptions, saturate};
    use fathom_base::prng::Prng;
    use fathom_guard::{Consent, Protected};
    use fathom_model::builtin;
    use fathom_model::event::Event;
    use fathom_model::workload::Arrivals;
    use fathom_study::saturate::limit::Cause;
    use fathom_sys::clock::{Calibration, FastClock};
    use fathom_sys::signals::StopFlag;
    use fathom_sys::sysroot::SysRoot;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    /// Runs `body` in a laboratory on this machine; gives the records as they were kept, and the time it took.
    fn in_lab(
        mut body: impl FnMut(&mut Lab<'_>, KeepRecord<'_>) -> Result<Vec<Record>, LabError>,
    ) -> (Vec<Record>, Duration) {
        let root = SysRoot::live();
        let host = fathom_inspect::host_facts(&root);
        let mut emit = |_: Event| ();
        let mut lab = Lab {
            clock: FastClock::calibrated(Calibration::begin(), host.clock_source.as_deref()),
            stop: StopFlag::default(),
            run_id: "000000000000".into(),
            dirs_made: std::cell::Cell::new(0),
            state_dir: PathBuf::from("/nonexistent"),
            known: Vec::new(),
            consent: Consent::new(Vec::new()),
            protected: Protected { store_path: PathBuf::from("/nonexistent") },
            around: fathom_inspect::surroundings(&root, None, 0),
            host,
            utc_offset_s: 0,
            interval_ns: 1_000_000_000,
            keep: false,
            seeds: Prng::new(5, 0),
            emit: &mut emit,
            root,
        };
        let begun = Instant::now();
        let mut kept = Vec::new();
        let records = body(&mut lab, &mut |record| {
            kept.push(record.clone());
            Ok(())
        });
        let records = records.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(records, kept, "every record is kept when it is there");
        (records, begun.elapsed())
    }

    #[test]
    fn a_search_of_fathom_itself_ends_in_time() {
        let options = SaturateOptions {
            workload: builtin::named("randread").unwrap(),
            target: "null:".into(),
            time_ns: 3_000_000_000,
            bound: None,
            threads_max: Some(1),
            arrivals: Arrivals::Poisson,
        };
        let (records, took) = in_lab(|lab, keep| saturate(lab, &options, keep));
        assert!(took < Duration::from_secs(120), "{took:?}");
        let study = fathom_study::saturate::study(&records, None).unwrap();
        assert_eq!(study.limit.cause, Cause::Fathom);
        let asked: Vec<u64> = study.rows.iter().map(|row| row.concurrency).collect();
        assert!(asked.contains(&1) && asked.contains(&32) && asked.contains(&64), "{asked:?}");
        let held = |row: &fathom_study::saturate::Row| row.in_flight.unwrap_or(0.0);
        assert!(study.rows.iter().all(|row| held(row) <= row.concurrency as f64), "{study:?}");
    }
}
