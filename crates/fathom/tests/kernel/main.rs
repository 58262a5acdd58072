//! The `fathom` binary as a user calls it: real devices, filesystems, signals and failures.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test's panic is its report")]

mod against;
mod attach;
mod bad_input;
mod browser;
mod capture;
mod capture_blktrace;
mod capture_events;
mod capture_instance;
mod check;
mod check_fixes;
mod check_geometry;
mod check_machines;
mod check_reads;
mod check_stacks;
mod check_tools;
mod classics;
mod classics_peers;
mod clean_elsewhere;
mod cli;
mod compare;
mod content;
mod counters;
mod devices;
mod engines;
mod export;
mod failures;
mod filesystems;
mod findings;
mod fsop;
mod gone;
mod import;
mod kept_edits;
mod knobs;
mod lab;
mod lab_containers;
mod lab_grid;
mod lab_holds;
mod lab_in_use;
mod lab_kills;
mod lab_moved;
mod lab_plans;
mod lab_refused;
mod lab_services;
mod lab_several;
mod lab_slow;
mod limits;
mod limits_priority;
mod open_loop;
mod output;
mod patterns;
mod personalities;
mod recipes;
mod replay;
mod replay_merged;
mod report;
mod rounds;
mod saturate;
#[path = "../../../fathom-guard/tests/kernel/scenarios.rs"]
#[expect(dead_code, reason = "the guard's own tests use all of it")]
mod scenarios;
mod searches;
mod settings;
mod signals;
mod store;
mod terminal;
mod terminal_lab;
mod tmux;
mod trees;
mod verify;
mod verify_denied;
mod verify_files;
mod watch;
mod watch_kept;
mod watch_waits;
mod whole;

use fathom_testkit::Trial;
use std::process::ExitCode;

/// Tests that judge rates or caches, and those that drop caches.
fn measuring() -> Vec<Trial> {
    let mut trials = filesystems::trials();
    trials.extend(engines::trials());
    trials.extend(open_loop::trials());
    trials.extend(findings::trials());
    trials.extend(fsop::trials());
    trials.extend(limits_priority::trials());
    trials.extend(counters::trials());
    trials.extend(watch::trials());
    trials.extend(watch_waits::trials());
    trials.extend(whole::trials());
    trials.extend(rounds::trials());
    trials.extend(saturate::trials());
    trials.extend(settings::trials());
    trials
}

/// Tests of what single runs do, say and leave, however fast, of what is taken from elsewhere and given away, and of runs set
/// against each other, which share whatever disturbs them.
fn runs() -> Vec<Trial> {
    let mut trials = bad_input::trials();
    trials.extend(failures::trials());
    trials.extend(personalities::trials());
    trials.extend(content::trials());
    trials.extend(signals::trials());
    trials.extend(output::trials());
    trials.extend(devices::trials());
    trials.extend(kept_edits::trials());
    trials.extend(patterns::trials());
    trials.extend(limits::trials());
    trials.extend(verify::trials());
    trials.extend(verify_denied::trials());
    trials.extend(verify_files::trials());
    trials.extend(clean_elsewhere::trials());
    trials.extend(trees::trials());
    trials.extend(watch_kept::trials());
    trials.extend(import::trials());
    trials.extend(export::trials());
    trials.extend(compare::trials());
    trials.extend(against::trials());
    trials
}

/// Tests of experiments and of whatever else changes settings of the machine, one after the other.
fn experiments() -> Vec<Trial> {
    let mut trials = lab_plans::trials();
    trials.extend(lab::trials());
    trials.extend(lab_containers::trials());
    trials.extend(lab_in_use::trials());
    trials.extend(lab_kills::trials());
    trials.extend(lab_moved::trials());
    trials.extend(lab_holds::trials());
    trials.extend(lab_grid::trials());
    trials.extend(lab_refused::trials());
    trials.extend(lab_several::trials());
    trials.extend(lab_slow::trials());
    trials.extend(lab_services::trials());
    trials.extend(knobs::trials());
    trials
}

/// Tests of everything else that is not judged by its speed: what is captured and replayed, the classic tools, searches, checks,
/// stored results, screens and pages.
fn others() -> Vec<Trial> {
    let mut trials = capture::trials();
    trials.extend(capture_blktrace::trials());
    trials.extend(capture_events::trials());
    trials.extend(capture_instance::trials());
    trials.extend(replay::trials());
    trials.extend(replay_merged::trials());
    trials.extend(classics::trials());
    trials.extend(classics_peers::trials());
    trials.extend(recipes::trials());
    trials.extend(searches::trials());
    trials.extend(store::trials());
    trials.extend(attach::trials());
    trials.extend(report::trials());
    trials.extend(terminal::trials());
    trials.extend(terminal_lab::trials());
    trials.extend(tmux::trials());
    trials.extend(check::trials());
    trials.extend(check_geometry::trials());
    trials.extend(check_machines::trials());
    trials.extend(check_reads::trials());
    trials.extend(check_stacks::trials());
    trials.extend(check_fixes::trials());
    trials.extend(check_tools::trials());
    trials
}

fn main() -> ExitCode {
    fathom_testkit::run_lanes(
        lab_plans::alone(),
        vec![measuring(), runs(), experiments(), others()],
    )
}
