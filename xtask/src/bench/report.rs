//! The tables, for the terminal and for docs/bench.md: the same Markdown for both.

use super::instructions::Count;
use super::scenes::{Contest, Goal, Measure, Scene, Side, Tool};
use super::stats::{Spread, median, spread};
use super::tools::{Programs, Sample};
use super::{Options, binary};
use crate::soak;
use std::fmt::Write;
use std::path::Path;

/// When, what, where and with what.
pub struct Facts {
    rows: Vec<(&'static str, String)>,
}

impl Facts {
    /// Those of now.
    #[must_use]
    pub fn of_now(options: &Options, programs: &Programs, directory: &Path) -> Self {
        let version =
            |found: &Option<String>| found.clone().unwrap_or_else(|| "missing".to_owned());
        let place = directory.display().to_string();
        let commit = ["describe", "--always", "--dirty=, with changes", "--abbrev=40"];
        let disk = soak::said("findmnt", &["-no", "FSTYPE,SOURCE", "-T", &place]);
        let rows = vec![
            ("date", soak::said("date", &["--utc", "+%Y-%m-%d %H:%M UTC"])),
            ("commit", soak::said("git", &commit)),
            ("machine", soak::machine()),
            ("filesystem of the direct file", disk),
            ("load average at the start", soak::said("cut", &["-d ", "-f1-3", "/proc/loadavg"])),
            (
                "fio, sysbench",
                format!("{}, {}", version(&programs.fio), version(&programs.sysbench)),
            ),
            ("rounds", format!("{} of {} s each side", options.rounds, options.seconds)),
        ];
        Self { rows }
    }
}

/// The result as it grows.
pub struct Report {
    facts: Facts,
    body: String,
    commands: String,
    skips: Vec<String>,
    failures: Vec<String>,
}

const LEGEND: &str = "\
All sides run on CPU 0, one thread, each latency recorded on both sides (fio without gtod_reduce), fresh seeds.
Ratios are fathom's by the other's, one for each round; shown are their median, the exact rank interval of the
median with its coverage, and the extremes. CPU per request is what each tool says of its own thread in the measured
time (fathom's JSON, fio's usr_cpu and sys_cpu); for sysbench, which says nothing, that of the whole process. The
split into user and system is sampled by the timer tick where the kernel counts so, hence rough for a few
nanoseconds. Closure is Little's law: mean latency x rate / depth, 1 when no time is lost (fio's total latency).
";

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let (body, commands) = (String::new(), String::new());
        Self { facts, body, commands, skips: Vec::new(), failures: Vec::new() }
    }

    /// Something could not be compared for want of a program.
    pub fn skip(&mut self, what: String) {
        self.skips.push(what);
    }

    /// Something went wrong.
    pub fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// True when nothing went wrong.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// The facts and how to read the tables.
    #[must_use]
    pub fn heading(&self) -> String {
        let mut text = "| | |\n|---|---|\n".to_owned();
        for (name, value) in &self.facts.rows {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        format!("{text}\n{LEGEND}")
    }

    /// Adds a scene's two tables and gives them back.
    pub fn add_scene(&mut self, scene: &Scene, samples: &[Vec<Option<Sample>>]) -> String {
        let mut text = format!("\n## {}: {}\n\n", scene.name, scene.title);
        text.push_str(
            "| side | requests/s | CPU ns | of that user | closure |\n|---|--:|--:|--:|--:|\n",
        );
        for (side, samples) in scene.sides.iter().zip(samples) {
            text.push_str(&side_row(side, samples));
            let _ = writeln!(self.commands, "- {}, {}: `{}`", scene.name, side.name, shown(side));
        }
        text.push_str("\n| ratio | of | median | interval | min..max | goal | |\n|---|---|--:|---|---|---|---|\n");
        for contest in &scene.contests {
            let of = |name| {
                let index = scene.sides.iter().position(|side| side.name == name);
                index.map_or(&[][..], |index| &samples[index][..])
            };
            text.push_str(&contest_row(contest, of(contest.ours), of(contest.theirs)));
        }
        self.body.push_str(&text);
        text
    }

    /// Adds what callgrind counted and gives it back.
    pub fn add_instructions(&mut self, counted: Result<Option<Vec<Count>>, String>) -> String {
        let mut text = String::new();
        match counted {
            Ok(Some(counts)) => {
                text.push_str("\n## instructions: user mode, counted by callgrind\n\n");
                text.push_str("| engine | depth | instructions per request |\n|---|--:|--:|\n");
                for count in counts {
                    let Count { engine, depth, per_request } = count;
                    let _ = writeln!(text, "| {engine} | {depth} | {per_request:.1} |");
                }
            }
            Ok(None) => self.skip("instructions: valgrind is not installed".to_owned()),
            Err(error) => self.fail(format!("instructions: {error}")),
        }
        self.body.push_str(&text);
        text
    }

    /// What was skipped and what failed.
    #[must_use]
    pub fn ending(&self) -> String {
        let mut text = String::new();
        for (title, lines) in [("skipped", &self.skips), ("failed", &self.failures)] {
            if !lines.is_empty() {
                let _ = writeln!(text, "\n{} {title}:\n", lines.len());
                lines.iter().for_each(|line| {
                    let _ = writeln!(text, "- {line}");
                });
            }
        }
        text
    }

    /// The whole, for docs/bench.md.
    #[must_use]
    pub fn document(&self) -> String {
        format!(
            "# Last benchmark\n\nWritten by `cargo xtask bench --write`.\n\n{}{}{}\n## Commands\n\n{}",
            self.heading(),
            self.body,
            self.ending(),
            self.commands
        )
    }
}

/// A command line without this machine's directories.
fn shown(side: &Side) -> String {
    let program = match side.tool {
        Tool::Fathom => "fathom",
        Tool::Fio => "fio",
        Tool::Sysbench => "taskset -c 0 sysbench --file-total-size=SIZE",
    };
    let target = binary().parent().and_then(Path::parent).map(|p| format!("{}/", p.display()));
    let pid = format!("bench-{}/", std::process::id());
    let line = format!("{program} {}", side.args.join(" "));
    line.replace(&target.unwrap_or_default(), "").replace(&pid, "")
}

fn side_row(side: &Side, samples: &[Option<Sample>]) -> String {
    let of =
        |get: fn(&Sample) -> f64| median(&samples.iter().flatten().map(get).collect::<Vec<_>>());
    if samples.iter().all(Option::is_none) {
        return format!("| {} | - | - | - | - |\n", side.name);
    }
    let closures: Vec<f64> = samples.iter().flatten().filter_map(|s| s.closure).collect();
    let closure =
        if closures.is_empty() { "-".to_owned() } else { format!("{:.3}", median(&closures)) };
    format!(
        "| {} | {} | {:.0} | {:.0} | {closure} |\n",
        side.name,
        grouped(of(|s| s.rate)),
        of(|s| s.cpu_ns),
        of(|s| s.user_ns),
    )
}

fn contest_row(contest: &Contest, ours: &[Option<Sample>], theirs: &[Option<Sample>]) -> String {
    let (what, get): (_, fn(&Sample) -> f64) = match contest.measure {
        Measure::Rate => ("requests/s", |s| s.rate),
        Measure::Cpu => ("CPU per request", |s| s.cpu_ns),
        Measure::UserCpu => ("user CPU per request", |s| s.user_ns),
    };
    let pairs = ours.iter().zip(theirs).filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
    let ratios: Vec<f64> =
        pairs.map(|(a, b)| get(a) / get(b)).filter(|ratio| ratio.is_finite()).collect();
    let names = format!("{} / {}", contest.ours, contest.theirs);
    match spread(&ratios) {
        None => format!("| {names} | {what} | - | - | - | {} | - |\n", wanted(contest.goal)),
        Some(s) => format!(
            "| {names} | {what} | {:.3} | {:.3}..{:.3} ({:.0} %) | {:.3}..{:.3} | {} | {} |\n",
            s.median,
            s.low,
            s.high,
            s.coverage * 100.0,
            s.min,
            s.max,
            wanted(contest.goal),
            standing(contest.goal, &s)
        ),
    }
}

fn wanted(goal: Goal) -> String {
    match goal {
        Goal::AtLeast(ratio) => format!(">= {ratio}"),
        Goal::AtMost(ratio) => format!("<= {ratio}"),
        Goal::Equal(share) => format!("1 +- {share}"),
        Goal::None => "-".to_owned(),
    }
}

/// How the median stands to the goal, and whether the interval leaves a doubt.
fn standing(goal: Goal, spread: &Spread) -> &'static str {
    let (least, most) = match goal {
        Goal::AtLeast(limit) => (limit, f64::INFINITY),
        Goal::AtMost(limit) => (0.0, limit),
        Goal::Equal(share) => (1.0 - share, 1.0 + share),
        Goal::None => return "",
    };
    let meets = |ratio: f64| (least..=most).contains(&ratio);
    if meets(spread.low) && meets(spread.high) {
        "reached"
    } else if meets(spread.median) {
        "reached by the median, not by the whole interval"
    } else if spread.low <= most && spread.high >= least {
        "not by the median, open"
    } else {
        "not reached"
    }
}

/// `1 234 567`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    fn samples(rates: &[f64]) -> Vec<Option<Sample>> {
        let sample = |rate: &f64| Sample { rate: *rate, cpu_ns: 1.0, user_ns: 1.0, closure: None };
        rates.iter().map(|rate| Some(sample(rate))).collect()
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let contest = Contest {
            ours: "fathom a",
            theirs: "fio b",
            measure: Measure::Rate,
            goal: Goal::AtLeast(1.9),
        };
        // Rounds twice as slow as others on both sides change no ratio.
        let ours = samples(&[200.0, 400.0, 210.0, 200.0, 100.0, 202.0]);
        let row =
            contest_row(&contest, &ours, &samples(&[100.0, 200.0, 100.0, 100.0, 50.0, 101.0]));
        assert!(
            row.contains("| requests/s | 2.000 | 2.000..2.100 (97 %) | 2.000..2.100 |"),
            "{row}"
        );
        assert!(row.ends_with("| >= 1.9 | reached |\n"), "{row}");
        let mut holed = samples(&[100.0, 200.0]);
        holed[0] = None;
        assert!(
            contest_row(&contest, &holed, &samples(&[1.0, 100.0])).contains("2.000..2.000 (0 %)")
        );
        assert!(contest_row(&contest, &[], &[]).contains("| - | - | - |"));
    }

    #[test]
    fn goals_are_judged_with_their_interval() {
        let of = |median, low, high| Spread {
            median,
            low,
            high,
            coverage: 0.98,
            min: low,
            max: high,
            n: 7,
        };
        assert_eq!(standing(Goal::AtMost(0.2), &of(0.15, 0.1, 0.18)), "reached");
        assert_eq!(standing(Goal::AtMost(0.2), &of(0.3, 0.25, 0.4)), "not reached");
        assert_eq!(standing(Goal::AtLeast(1.4), &of(1.3, 1.2, 1.5)), "not by the median, open");
        assert!(
            standing(Goal::Equal(0.03), &of(1.01, 0.9, 1.1)).starts_with("reached by the median")
        );
        assert_eq!(standing(Goal::Equal(0.03), &of(1.05, 0.9, 1.1)), "not by the median, open");
        assert_eq!(standing(Goal::None, &of(1.0, 1.0, 1.0)), "");
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(grouped(1_234_567.4), "1 234 567");
        assert_eq!(grouped(999.6), "1 000");
        assert_eq!(grouped(12.0), "12");
    }

    #[test]
    fn commands_are_shown_without_the_directories_of_this_machine() {
        let file = workspace::root()
            .join(format!("target/bench-{}/cached/test_file.0", std::process::id()));
        let args = vec!["run".to_owned(), file.display().to_string()];
        let side = Side { name: "fathom x", tool: Tool::Fathom, args };
        assert_eq!(shown(&side), "fathom run cached/test_file.0");
    }
}
