//! The harness of the kernel and guest tiers: tests that need something of the machine.
//!
//! A test that cannot run is shown as ignored with the reason, and named once more at the end in a line
//! `SKIPPED name: reason`, which `cargo xtask test` counts; so does a test that finds out while it runs that it can judge
//! nothing, as on a machine that others keep busy. Tests run one after the other; after each, the harness
//! looks for what it left behind, and a test that left something failed.

use crate::capability::Capability;
use crate::leftovers;
use libtest_mimic::{Arguments, Completion, Failed};
use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How a test ended that did not panic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// All that was looked at is as it should be.
    Passed,
    /// It did not come to what it is for, for this reason; what it did look at was right.
    Skipped(String),
    /// What is wrong.
    Failed(String),
}

/// What a test body gives back: nothing (it panics when it fails), a result, or its own [`Judged`].
pub trait Outcome {
    /// How the test ended.
    fn judged(self) -> Judged;
}

impl Outcome for () {
    fn judged(self) -> Judged {
        Judged::Passed
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn judged(self) -> Judged {
        self.map_or_else(|error| Judged::Failed(error.to_string()), |()| Judged::Passed)
    }
}

impl Outcome for Judged {
    fn judged(self) -> Judged {
        self
    }
}

/// A named test with what it needs.
pub struct Trial {
    name: String,
    needs: Vec<Capability>,
    body: Box<dyn FnOnce() -> Judged + Send>,
}

impl Trial {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A test that runs only where all the capabilities are present.
pub fn kernel_test<O: Outcome>(
    name: &str,
    needs: &[Capability],
    body: impl FnOnce() -> O + Send + 'static,
) -> Trial {
    let body = Box::new(|| body().judged());
    Trial { name: name.to_owned(), needs: needs.to_vec(), body }
}

/// Runs the tests one after the other, as `main` of a test target with `harness = false`. Takes the arguments of any
/// Rust test program.
#[must_use]
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(1);
    run_with(&args, trials)
}

/// Runs so many tests side by side, but no more than there are processors; only for tests that do not mind each other. What
/// they leave behind is found when all have ended.
#[must_use]
pub fn run_parallel(most: usize, trials: Vec<Trial>) -> ExitCode {
    let mut args = Arguments::from_args();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    args.test_threads.get_or_insert(most.min(processors));
    run_with(&args, trials)
}

fn run_with(args: &Arguments, trials: Vec<Trial>) -> ExitCode {
    let shared = Arc::new(Shared { is_serial: args.test_threads == Some(1), ..Shared::default() });
    let tests = trials.into_iter().map(|trial| shared.clone().prepare(trial)).collect();
    let conclusion = libtest_mimic::run(args, tests);
    for (name, reason) in shared.skipped.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("SKIPPED {name}: {reason}");
    }
    for (name, took) in shared.longest() {
        println!("TOOK {name}: {:.1}", took.as_secs_f64());
    }
    let left = leftovers::held_by_this_process();
    if args.list || left.is_empty() {
        return conclusion.exit_code();
    }
    left.iter().for_each(|left| println!("left behind by these tests: {left}"));
    ExitCode::FAILURE
}

/// What the tests of one run share: probed capabilities and the list of skips.
#[derive(Default)]
struct Shared {
    is_serial: bool,
    probed: Mutex<BTreeMap<Capability, Result<(), String>>>,
    skipped: Mutex<Vec<(String, String)>>,
    times: Mutex<Vec<(String, Duration)>>,
}

impl Shared {
    /// The tests that took longest, the longest first. `cargo xtask test` makes one list of those of all programs.
    fn longest(&self) -> Vec<(String, Duration)> {
        const NAMED: usize = 30;
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner).clone();
        times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        times.truncate(NAMED);
        times
    }

    fn prepare(self: Arc<Self>, trial: Trial) -> libtest_mimic::Trial {
        let Trial { name, needs, body } = trial;
        libtest_mimic::Trial::ignorable_test(name.clone(), move || {
            if let Some(reason) = self.first_missing(&needs) {
                return Ok(self.skip(name, reason));
            }
            let begun = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(|| self.execute(body)));
            let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
            times.push((name.clone(), begun.elapsed()));
            drop(times);
            match result.unwrap_or_else(|panic| resume_unwind(panic)) {
                Judged::Failed(failure) => Err(Failed::from(failure)),
                Judged::Skipped(reason) => Ok(self.skip(name, reason)),
                Judged::Passed => Ok(Completion::Completed),
            }
        })
    }

    fn skip(&self, name: String, reason: String) -> Completion {
        let mut skipped = self.skipped.lock().unwrap_or_else(PoisonError::into_inner);
        skipped.push((name, reason.clone()));
        Completion::ignored_with(reason)
    }

    fn first_missing(&self, needs: &[Capability]) -> Option<String> {
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        let check = |need: &Capability| probed.entry(*need).or_insert_with(|| need.check()).clone();
        needs.iter().map(check).find_map(Result::err)
    }

    fn execute(&self, body: Box<dyn FnOnce() -> Judged + Send>) -> Judged {
        let result = catch_unwind(AssertUnwindSafe(body));
        let held = if self.is_serial { leftovers::held_by_this_process() } else { Vec::new() };
        let left: Vec<String> = held.iter().map(ToString::to_string).collect();
        match result {
            Ok(Judged::Passed | Judged::Skipped(_)) if !left.is_empty() => {
                Judged::Failed(format!("left behind: {}", left.join(", ")))
            }
            Ok(judged) => judged,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// True when the full counts of a soak run are wanted (`cargo xtask soak`) instead of CI's sample.
#[must_use]
pub fn is_soak() -> bool {
    env::var_os("FATHOM_SOAK").is_some_and(|value| value == "1")
}

/// How many repetitions to do: a sample in CI, the full count in a soak run.
#[must_use]
pub fn sample(ci_count: usize, soak_count: usize) -> usize {
    if is_soak() { soak_count } else { ci_count }
}

/// States how large a sample was: `counted("kills between journal steps", 40)`. `cargo xtask` prints it with the
/// result, and `cargo xtask soak` writes it down.
pub fn counted(what: &str, count: usize) {
    // The harness has begun a line and not ended it.
    println!("\nCOUNTED {what}: {count}");
}

/// The `fathom` binary is not where tests look for it.
#[derive(Debug, Error)]
#[error("the fathom binary is not built (cargo build -p fathom, or set FATHOM_BIN)")]
pub struct NoBinary;

/// The `fathom` binary under test: `$FATHOM_BIN`, which `cargo xtask test` sets, or the one beside this test program.
///
/// # Errors
/// When neither exists.
pub fn fathom_binary() -> Result<PathBuf, NoBinary> {
    if let Some(path) = env::var_os("FATHOM_BIN").map(PathBuf::from).filter(|path| path.is_file()) {
        return Ok(path);
    }
    // target/debug/deps/kernel-HASH -> target/debug/fathom
    let beside =
        env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join("fathom")));
    beside.filter(|path| path.is_file()).ok_or(NoBinary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_body_says_is_counted() {
        // What it prints would be counted as the result of this program.
        let logfile = Some("/dev/null".to_owned());
        let args =
            Arguments { test_threads: Some(1), quiet: true, logfile, ..Arguments::default() };
        let shared = Arc::new(Shared::default());
        let skip = || Judged::Skipped("others keep the machine busy".to_owned());
        let trials = vec![
            kernel_test("fine", &[], || ()),
            kernel_test("also_fine", &[], || Judged::Passed),
            kernel_test("too_busy", &[], skip),
            kernel_test("wrong", &[], || Judged::Failed("seven is not eight".to_owned())),
            kernel_test("error", &[], || Err::<(), _>("no such file")),
        ];
        let tests = trials.into_iter().map(|trial| shared.clone().prepare(trial)).collect();
        let conclusion = libtest_mimic::run(&args, tests);
        let counts = (conclusion.num_passed, conclusion.num_ignored, conclusion.num_failed);
        assert_eq!(counts, (2, 1, 2));
        let skipped = shared.skipped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reason = "others keep the machine busy".to_owned();
        assert_eq!(skipped, [("too_busy".to_owned(), reason)]);
    }
}
