//! Setups that need md and the device mapper, each family in one guest.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod arrays;
#[path = "../driver/mod.rs"]
mod driver;
mod paths;
mod unlike;
mod volumes;

use fathom_model::plan::setup::SetupSpec;
use fathom_testkit::{GuestJob, GuestReport, StepResult};
use std::process::ExitCode;
use std::time::Duration;

/// Guests at a time: User Mode Linux has one processor.
const GUESTS: usize = 2;
/// A job that hangs must end, a machine that is slow must not end it.
const LIMIT: Duration = Duration::from_secs(18 * 60);

fn main() -> ExitCode {
    if std::env::var_os(driver::ROLE).is_some() {
        return driver::play();
    }
    fathom_testkit::run_parallel(
        GUESTS,
        vec![arrays::trial(), volumes::trial(), paths::trial(), unlike::trial()],
    )
}

/// A job whose steps can call this program as the driver: `setup WHAT STATE SPEC`. The state lies on the host, and outlives
/// the guest's boots.
fn job(modules: &str) -> GuestJob {
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap().to_owned();
    let prelude = format!(
        "export {}=1\nsetup() {{ {name} \"$@\"; }}\nSTATE=/run/out/state\nmkdir -p $STATE\n",
        driver::ROLE
    );
    let job = GuestJob::new(program.parent().unwrap()).prelude(&prelude);
    job.limit_at_least(LIMIT).setup("modules", &format!("load {modules}"))
}

/// The description as a word of the shell.
fn word(spec: &SetupSpec) -> String {
    format!("'{}'", serde_json::to_string(spec).unwrap())
}

/// A step that builds, looks, and takes down.
fn look(job: GuestJob, name: &str, spec: &SetupSpec, command: &str) -> GuestJob {
    job.step(name, &format!("setup look $STATE {} '{command}'", word(spec)))
}

/// All steps that failed, so that one look at a failed test shows all of them.
fn tell_failures(report: &GuestReport) {
    for step in report.steps.iter().filter(|step| step.code != Some(0)) {
        println!(
            "\nstep {} ended with {:?}: {}\n{}",
            step.name, step.code, step.stdout, step.stderr
        );
    }
}

#[track_caller]
fn ended<'a>(report: &'a GuestReport, step: &str, code: i32) -> &'a StepResult {
    let step = report.step(step);
    assert_eq!(step.code, Some(code), "{}: {}\n{}", step.name, step.said(), step.stdout);
    step
}

#[track_caller]
fn has(step: &StepResult, words: &str) {
    assert!(step.stdout.contains(words), "{}: '{words}' is not in:\n{}", step.name, step.stdout);
}

/// How many processes died at fault points: as many as asked for, or one at each point where there are fewer.
#[track_caller]
fn killed(step: &StepResult, asked: usize) -> usize {
    let line = step.stdout.lines().find_map(|line| line.strip_prefix("KILLS "));
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let number = |at: usize| words[at].parse::<usize>().unwrap();
    assert_eq!(number(0), asked.min(number(4)), "{words:?}");
    number(0)
}

/// How many processes died around the wiping of old data. Where it shows most of them: the tool has run, the journal says so, what
/// shows is noted, and is about to be wiped.
#[track_caller]
fn old_shown(step: &StepResult) -> usize {
    let line = step.stdout.lines().find_map(|line| line.strip_prefix("OLD "));
    let words: Vec<usize> =
        line.unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect();
    let [killed, shown] = words[..] else { panic!("{}", step.stdout) };
    assert!(shown >= 6 && killed > shown, "{}", step.stdout);
    killed
}
