//! Counting: what a test program says on its output, and sums of it.

use crate::process::Finished;
use std::time::Duration;

/// Counts of tests, with the names that need one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and test programs that did not end properly.
    pub failed: u64,
    /// Tests that could not run here.
    pub skipped: u64,
    /// Names of the failed.
    pub failures: Vec<String>,
    /// Names of those that failed among the others and passed by themselves: they count as passed.
    pub unsteady: Vec<String>,
    /// Names of the skipped, with the reason.
    pub skips: Vec<(String, String)>,
    /// Stated sample sizes.
    pub samples: Vec<String>,
    /// How long tests took that took long; of the pure tier, whole programs.
    pub times: Vec<(String, Duration)>,
}

impl Tally {
    /// One failure.
    #[must_use]
    pub fn of_failure(name: String) -> Self {
        Self { failed: 1, failures: vec![name], ..Self::default() }
    }

    /// Adds another's counts and names.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.unsteady.extend(other.unsteady);
        self.skips.extend(other.skips);
        self.samples.extend(other.samples);
        self.times.extend(other.times);
    }

    /// Takes the failure of that test back when running it again brought one test that passed and nothing else.
    pub fn settle(&mut self, failure: &str, again: &Self) {
        println!("{failure}, run again by itself: {}", again.line());
        let Some(place) = self.failures.iter().position(|name| name == failure) else { return };
        if (again.passed, again.failed, again.skipped) == (1, 0, 0) {
            self.failures.remove(place);
            self.failed -= 1;
            self.passed += 1;
            self.unsteady.push(failure.to_owned());
        }
    }

    /// The tests that took longest, the longest first.
    #[must_use]
    pub fn slowest(&self, count: usize) -> Vec<(String, Duration)> {
        let mut times = self.times.clone();
        times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        times.truncate(count);
        times
    }

    /// `168 passed, 0 failed, 2 skipped`.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the output of one test program, or of several in a row.
#[derive(Debug)]
pub struct Reader {
    prefix: String,
    tally: Tally,
    has_result: bool,
    in_failures: bool,
    /// Names since the last line `failures:`; the second such list of a program is the one of names.
    failed_names: Vec<String>,
}

impl Reader {
    /// For tests that are called `prefix::name`.
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            tally: Tally::default(),
            has_result: false,
            in_failures: false,
            failed_names: Vec::new(),
        }
    }

    /// Takes one line.
    pub fn line(&mut self, line: &str) {
        if let Some((name, reason)) =
            line.strip_prefix("SKIPPED ").and_then(|rest| rest.split_once(": "))
        {
            self.tally.skips.push((format!("{}::{name}", self.prefix), reason.to_owned()));
        } else if let Some(sample) = line.strip_prefix("COUNTED ") {
            self.tally.samples.push(format!("{}: {sample}", self.prefix));
        } else if let Some((name, took)) = line.strip_prefix("TOOK ").and_then(took) {
            self.tally.times.push((format!("{}::{name}", self.prefix), took));
        } else if line == "failures:" {
            self.in_failures = true;
            self.failed_names.clear();
        } else if line.starts_with("test result: ") {
            self.result(line);
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| self.in_failures) {
            self.failed_names.push(format!("{}::{name}", self.prefix));
        }
    }

    fn result(&mut self, line: &str) {
        let count = |word: &str| -> u64 {
            let part = line.split([';', '.']).find_map(|part| part.trim().strip_suffix(word));
            part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
        };
        self.has_result = true;
        self.in_failures = false;
        self.tally.passed += count("passed");
        self.tally.failed += count("failed");
        self.tally.skipped += count("ignored");
        self.tally.failures.append(&mut self.failed_names);
    }

    /// Ends the reading. A program without a result line, or whose status contradicts it, is a failure of its own,
    /// and so is one without a single test when it `must_test`: its target probably lacks `harness = false`.
    #[must_use]
    pub fn finish(mut self, label: &str, finished: &Finished, must_test: bool) -> Tally {
        let tally = &mut self.tally;
        if !must_test {
            tally.times.push((label.to_owned(), finished.duration));
        }
        let count = tally.passed + tally.failed + tally.skipped;
        let problem = if finished.status.is_none() || !self.has_result {
            Some("ended without a result")
        } else if !finished.is_success() && tally.failed == 0 {
            Some("failed outside of its tests")
        } else if must_test && count == 0 {
            Some("has no tests (harness = false missing in Cargo.toml?)")
        } else {
            None
        };
        if let Some(problem) = problem {
            let text = format!("{label} {problem}: {}", finished.describe());
            tally.add(Tally::of_failure(text));
        }
        let named = tally.skips.len() as u64;
        if tally.skipped > named {
            let text = format!("{} tests without a reason", tally.skipped - named);
            tally.skips.push((label.to_owned(), text));
        }
        self.tally
    }
}

/// `name: 12.3`, in seconds.
fn took(text: &str) -> Option<(&str, Duration)> {
    let (name, seconds) = text.rsplit_once(": ")?;
    Some((name, Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn read(output: &str, status: Option<i32>, must_test: bool) -> Tally {
        let mut reader = Reader::new("guard");
        output.lines().for_each(|line| reader.line(line));
        let status = status.map(|code| ExitStatus::from_raw(code << 8));
        let finished = Finished { status, duration: Duration::from_secs(900) };
        reader.finish("guard kernel", &finished, must_test)
    }

    const GOOD: &str = "
running 3 tests
test a ... ok
test b ... 
COUNTED kills: 40
ok
test c ... ignored (not root)

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
SKIPPED c: not root
TOOK a: 12.5
";

    #[test]
    fn a_good_program() {
        let expected = Tally {
            times: vec![("guard::a".to_owned(), Duration::from_millis(12_500))],
            passed: 2,
            skipped: 1,
            skips: vec![("guard::c".to_owned(), "not root".to_owned())],
            samples: vec!["guard: kills: 40".to_owned()],
            ..Tally::default()
        };
        assert_eq!(read(GOOD, Some(0), true), expected);
    }

    #[test]
    fn failed_tests_are_named_once() {
        let output = "
failures:

---- a stdout ----
    indented message
failures:
    a
    b::c

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s
";
        let tally = read(output, Some(101), false);
        assert_eq!((tally.passed, tally.failed), (1, 2));
        assert_eq!(tally.failures, ["guard::a", "guard::b::c"]);
    }

    #[test]
    fn programs_that_end_badly_are_failures() {
        for (output, status, part) in [
            ("", Some(0), "ended without a result: exit status: 0"),
            ("test a ... ", None, "ended without a result: killed after 15 min 00 s"),
            (GOOD, None, "killed after"),
            (GOOD, Some(1), "failed outside of its tests"),
            ("test result: ok. 0 passed; 0 failed; 0 ignored;", Some(0), "has no tests"),
        ] {
            let tally = read(output, status, true);
            assert_eq!(tally.failed, 1, "{part}");
            assert!(tally.failures[0].contains(part), "{part}: {:?}", tally.failures);
        }
        let empty = "test result: ok. 0 passed; 0 failed; 0 ignored;";
        let times = vec![("guard kernel".to_owned(), Duration::from_secs(900))];
        assert_eq!(read(empty, Some(0), false), Tally { times, ..Tally::default() });
    }

    #[test]
    fn a_skip_without_reason_is_said_to_be_one() {
        let tally = read("test result: ok. 1 passed; 0 failed; 2 ignored;", Some(0), true);
        assert_eq!(
            tally.skips,
            [("guard kernel".to_owned(), "2 tests without a reason".to_owned())]
        );
    }
}
