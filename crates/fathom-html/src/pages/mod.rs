//! From what is stored to a page: one file for each kind of run, chosen here and nowhere else.

mod capture;
mod compare;
mod counted;
mod experiment;
mod fsop;
mod history;
mod layers;
mod parts;
mod quick;
mod raid;
mod run;
mod saturate;
mod size;
mod watch;

pub use compare::of_sides as of_comparison;
pub use history::page as of_history;

use crate::page::Page;
use fathom_model::finding::{Finding, Verdict};
use fathom_model::plan::Plan;
use fathom_model::record::{Record, RunHead, RunKind};
use fathom_report::experiment::HowTo;
use fathom_study::experiment::Setting;
use jiff::tz::TimeZone;

/// A stored run, as its page is made of it.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What its records have in common.
    pub head: &'a RunHead,
    /// The shortest name of the run: what commands are shown with.
    pub name: &'a str,
    /// Its records, in the order of the trials.
    pub records: &'a [Record],
    /// Every finding once, the gravest first, as judged by the caller.
    pub findings: &'a [Finding],
    /// What they come to.
    pub verdict: Verdict,
    /// The plan of an experiment.
    pub plan: Option<&'a Plan>,
    /// The commands that set what a choice of an experiment came to; asks the registry of settings.
    pub how_to: fn(&[Setting]) -> HowTo,
    /// In which times of day are shown.
    pub zone: &'a TimeZone,
}

/// The page of a run.
#[must_use]
pub fn of_run(source: &Source) -> Page {
    match source.head.kind {
        RunKind::Experiment => experiment::page(source),
        RunKind::Raid => raid::page(source),
        RunKind::Layers => layers::page(source),
        RunKind::Quick => quick::page(source),
        RunKind::Against => compare::of_run(source),
        RunKind::Saturate => saturate::page(source),
        RunKind::Size => size::page(source),
        RunKind::Watch => watch::page(source),
        RunKind::Capture | RunKind::Replay => capture::page(source),
        RunKind::Run if fsop::is_meant(source.records) => fsop::page(source),
        _ => run::page(source),
    }
}
