//! `cargo xtask soak`: the tests with full counts, and its result written down.

use crate::process::in_words;
use crate::test::{self, Options, Report, Tally};
use crate::{Outcome, flags::Flags, workspace};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

pub const HELP: &str = "\
cargo xtask soak [--install]

runs all tests with their full counts instead of samples (hours), and writes docs/soak.md

  --install   as for 'cargo xtask test'

The result is to be committed: it names the date, the commit, the machine and the counts.
";

/// The command.
///
/// # Errors
/// For bad options, or when cargo cannot be run or the result not be written.
pub fn run(args: &[String]) -> Outcome {
    let flags = Flags::parse(args, &["--install"], &[])?;
    let start = Instant::now();
    let tiers = test::all_tiers();
    let options = Options { install: flags.has("--install"), tiers, soak: true };
    let report: Report = test::run_tiers(&options, || None)?;
    let path = workspace::root().join("docs/soak.md");
    let facts = Facts::of_now(start.elapsed());
    fs::write(&path, document(&facts, &report.times(), &report.total()))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    report.print();
    Ok(report.is_success())
}

/// When, what and where.
struct Facts {
    date: String,
    commit: String,
    machine: String,
    duration: Duration,
}

impl Facts {
    fn of_now(duration: Duration) -> Self {
        Self {
            date: said("date", &["--utc", "+%Y-%m-%d %H:%M UTC"]),
            commit: said("git", &["describe", "--always", "--dirty=, with changes", "--abbrev=40"]),
            machine: machine(),
            duration,
        }
    }
}

/// What a small command says, or that it is unknown.
pub fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(workspace::root()).output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// `Linux 6.1.0 x86_64, 2 x Some CPU, 16 GiB`.
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let kernel = said("uname", &["-srm"]);
    let cpu = field(&read("/proc/cpuinfo"), "model name");
    let cpu_count = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory_kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    format!("{kernel}, {cpu_count} x {cpu}, {:.1} GiB", memory_kib as f64 / 1_048_576.0)
}

fn document(facts: &Facts, times: &str, total: &Tally) -> String {
    let mut text = format!(
        "# Last soak\n\nWritten by `cargo xtask soak`.\n\n\
         | | |\n|---|---|\n\
         | date | {} |\n| commit | {} |\n| machine | {} |\n| duration | {} ({times}) |\n| tests | {} |\n",
        facts.date,
        facts.commit,
        facts.machine,
        in_words(facts.duration),
        total.line()
    );
    let skips = total.skips.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    for (title, lines) in
        [("Counts", &total.samples), ("Failed", &total.failures), ("Skipped", &skips)]
    {
        if !lines.is_empty() {
            text.push_str(&format!("\n## {title}\n\n"));
            lines.iter().for_each(|line| text.push_str(&format!("- {line}\n")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_holds_all_facts() {
        let facts = Facts {
            date: "2026-11-21 03:05 UTC".to_owned(),
            commit: "abc".to_owned(),
            machine: "Linux".to_owned(),
            duration: Duration::from_secs(3600),
        };
        let total = Tally {
            passed: 3,
            samples: vec!["store: kills: 2000".to_owned()],
            skips: vec![("guard::bcache".to_owned(), "no tool".to_owned())],
            skipped: 1,
            ..Tally::default()
        };
        let text = document(&facts, "pure 1.0 s", &total);
        for part in [
            "| date | 2026-11-21 03:05 UTC |\n| commit | abc |",
            "| duration | 60 min 00 s (pure 1.0 s) |",
            "| tests | 3 passed, 0 failed, 1 skipped |",
            "## Counts\n\n- store: kills: 2000\n",
            "## Skipped\n\n- guard::bcache: no tool\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("## Failed"));
    }

    #[test]
    fn this_machine_is_described() {
        let machine = machine();
        assert!(machine.starts_with("Linux ") && machine.ends_with(" GiB"), "{machine}");
    }
}
