//! The tables, for the terminal and for docs/bench.md: the same Markdown for both.

use super::Options;
use super::goals::{Goal, PAIRS_MIN, Verdict};
use super::scenes::{Contest, Scene};
use super::sides::Side;
use super::stats::{Spread, median, spread};
use super::tools::{Programs, Sample};
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
            ("filesystem of the disk file", disk),
            ("load average at the start", soak::said("cut", &["-d ", "-f1-3", "/proc/loadavg"])),
            (
                "fio, sysbench, fs_mark",
                [&programs.fio, &programs.sysbench, &programs.fs_mark].map(version).join(", "),
            ),
            (
                "rounds",
                format!("{} of {} s each side", options.rounds, options.length.as_secs_f64()),
            ),
        ];
        Self { rows }
    }
}

/// The result as it grows.
pub struct Report {
    facts: Facts,
    body: String,
    commands: String,
    verdicts: Vec<Verdict>,
    skips: Vec<String>,
    failures: Vec<String>,
}

const LEGEND: &str = "\
All sides run on CPU 0, one thread (four in a storm), each latency recorded on both sides (fio without gtod_reduce), fresh seeds.
Ratios are fathom's by the other's, one for each round; shown are the Hodges-Lehmann estimate of the
ratio (on logs), its exact signed-rank interval with its coverage, and the extremes. CPU per request is what each tool says of its own thread in the measured
time (fathom's JSON, fio's usr_cpu and sys_cpu); for sysbench, which says nothing, that of the whole process. The
split into user and system is sampled by the timer tick where the kernel counts so, hence rough for a few
nanoseconds. Closure is Little's law: mean latency x rate / depth, 1 when no time is lost, and hence the share of the
depth that was really held; fio's is that of its total latency, and behind the stroke that of clat, which it shows
first. 'Batch' is how many requests end for each hand-over. `t/io_uring` counts its second second, the first one in
which it records latencies. `bare_pread` has fathom's clock and a count for each nanosecond, in which it counts each
latency at once. In the scenes with files a request is a whole file; fathom records the latency of every call and its
CPU time is that of the whole process, `bare_walk`, `bare_mail` and `bare_storm` record nothing and look at the clock once a round
and once a file, and fs_mark stamps every call. In a storm a request is a name that is made, looked at or deleted.
";

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let (body, commands) = (String::new(), String::new());
        let (verdicts, skips, failures) = (Vec::new(), Vec::new(), Vec::new());
        Self { facts, body, commands, verdicts, skips, failures }
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
        text.push_str("| side | requests/s | CPU ns | of that user | closure | batch |\n");
        text.push_str("|---|--:|--:|--:|--:|--:|\n");
        for (side, samples) in scene.sides.iter().zip(samples) {
            text.push_str(&side_row(side, samples));
            let _ = writeln!(self.commands, "- {}, {}: `{}`", scene.name, side.name, side.shown());
        }
        text.push('\n');
        text.push_str(RATIO_HEAD);
        for contest in &scene.contests {
            let of = |name| {
                let index = scene.sides.iter().position(|side| side.name == name);
                index.map_or(&[][..], |index| &samples[index][..])
            };
            let values = values(contest, of(contest.ours), contest.theirs.map(of));
            let names = contest.theirs.map_or_else(
                || contest.ours.to_owned(),
                |theirs| format!("{} / {theirs}", contest.ours),
            );
            let what = format!("{names}: {}", contest.measure.name());
            let figure = Figure { what, goal: contest.goal, values, rounds_min: PAIRS_MIN };
            text.push_str(&self.judge(scene.name, figure));
        }
        self.body.push_str(&text);
        text
    }

    /// Adds a section with tables of its own and gives it back; judged figures follow in a table below `text`.
    pub fn add_section(&mut self, section: Section) -> String {
        let Section { name, title, text, figures, commands } = section;
        let mut text = format!("\n## {name}: {title}\n\n{text}");
        if !figures.is_empty() {
            text.push('\n');
            text.push_str(RATIO_HEAD);
        }
        for figure in figures {
            text.push_str(&self.judge(name, figure));
        }
        for (side, command) in commands {
            let _ = writeln!(self.commands, "- {name}, {side}: `{command}`");
        }
        self.body.push_str(&text);
        text
    }

    /// The row of one figure; its verdict is kept for the end.
    fn judge(&mut self, scene: &str, figure: Figure) -> String {
        let Figure { what, goal, values, rounds_min } = figure;
        let spread = spread(&values);
        let row = figure_row(&what, goal, spread.as_ref());
        self.verdicts.push(Verdict { scene: scene.to_owned(), what, goal, spread, rounds_min });
        row
    }

    /// One row for each goal, and how many passed.
    fn verdicts(&self) -> String {
        let rows: Vec<String> = self.verdicts.iter().filter_map(Verdict::row).collect();
        if rows.is_empty() {
            return String::new();
        }
        let passed = self.verdicts.iter().filter(|v| v.has_passed()).count();
        format!(
            "\n## goals\n\nA figure passes when the bound of its interval (95 %) lies within 7 % of the goal; shares that are counted \
             one by one have to meet it, and for sameness (+-) the whole interval lies inside. {PAIRS_MIN} rounds at least, fewer for \
             what does not waver.\n\n\
             | scene | what | goal | estimate | bound | rounds | |\n|---|---|---|--:|--:|--:|---|\n{}\n\
             {passed} of {} goals passed\n",
            rows.concat(),
            rows.len()
        )
    }

    /// The goals, what was skipped and what failed.
    #[must_use]
    pub fn ending(&self) -> String {
        let mut text = self.verdicts();
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

/// Something measured in a way of its own.
pub struct Section {
    /// For `--only`.
    pub name: &'static str,
    /// For people.
    pub title: String,
    /// What was measured and its tables.
    pub text: String,
    /// What is judged.
    pub figures: Vec<Figure>,
    /// Names of sides with their command lines.
    pub commands: Vec<(String, String)>,
}

/// A figure with one value for each round.
pub struct Figure {
    /// Of what.
    pub what: String,
    /// What is wanted.
    pub goal: Goal,
    /// Round by round.
    pub values: Vec<f64>,
    /// Rounds without which it does not pass.
    pub rounds_min: usize,
}

const RATIO_HEAD: &str =
    "| figure | estimate | interval | min..max | goal |\n|---|--:|---|---|---|\n";

fn side_row(side: &Side, samples: &[Option<Sample>]) -> String {
    if samples.iter().all(Option::is_none) {
        return format!("| {} | - | - | - | - | - |\n", side.name);
    }
    let of = |get: fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().flatten().filter_map(get).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let shown = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let mut closure = shown(of(|s| s.closure), 3);
    if let Some(clat) = of(|s| s.closure_clat) {
        let _ = write!(closure, " / {clat:.3}");
    }
    format!(
        "| {} | {} | {} | {} | {closure} | {} |\n",
        side.name,
        grouped(of(|s| Some(s.rate)).unwrap_or_default()),
        shown(of(|s| s.cpu_ns), 0),
        shown(of(|s| s.user_ns), 0),
        shown(of(|s| s.batch), 1),
    )
}

/// The figure of each round in which both sides have one.
fn values(
    contest: &Contest,
    ours: &[Option<Sample>],
    theirs: Option<&[Option<Sample>]>,
) -> Vec<f64> {
    let of = |sample: &Option<Sample>| contest.measure.of(sample.as_ref()?);
    let Some(theirs) = theirs else { return ours.iter().filter_map(of).collect() };
    let pairs = ours.iter().zip(theirs).filter_map(|(a, b)| Some(of(a)? / of(b)?));
    pairs.filter(|ratio| ratio.is_finite()).collect()
}

fn figure_row(what: &str, goal: Goal, spread: Option<&Spread>) -> String {
    let goal = goal.shown();
    let Some(s) = spread else { return format!("| {what} | - | - | - | {goal} |\n") };
    format!(
        "| {what} | {:.3} | {:.3}..{:.3} ({:.0} %) | {:.3}..{:.3} | {goal} |\n",
        s.ratio,
        s.low,
        s.high,
        s.coverage * 100.0,
        s.min,
        s.max,
    )
}

/// `1 234 567`.
#[must_use]
pub fn grouped(value: f64) -> String {
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
    use crate::bench::scenes::Measure;

    fn samples(rates: &[f64]) -> Vec<Option<Sample>> {
        rates.iter().map(|rate| Some(Sample { rate: *rate, ..Sample::NOTHING })).collect()
    }

    fn contest(measure: Measure) -> Contest {
        Contest { ours: "fathom a", theirs: Some("fio b"), measure, goal: Goal::AtLeast(1.9) }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let contest = contest(Measure::Rate);
        // Rounds twice as slow as others on both sides change no ratio.
        let ours = samples(&[200.0, 400.0, 210.0, 200.0, 100.0, 202.0]);
        let theirs = samples(&[100.0, 200.0, 100.0, 100.0, 50.0, 101.0]);
        let ratios = values(&contest, &ours, Some(&theirs));
        assert_eq!(ratios, [2.0, 2.0, 2.1, 2.0, 2.0, 2.0]);
        let row = figure_row("a / b", contest.goal, spread(&ratios).as_ref());
        assert_eq!(row, "| a / b | 2.000 | 2.000..2.100 (97 %) | 2.000..2.100 | >= 1.9 |\n");
        let mut holed = samples(&[100.0, 200.0]);
        holed[0] = None;
        assert_eq!(values(&contest, &holed, Some(&samples(&[1.0, 100.0]))), [2.0]);
        assert_eq!(figure_row("x", Goal::None, None), "| x | - | - | - | - |\n");
    }

    #[test]
    fn what_a_tool_does_not_tell_is_not_compared() {
        let (ours, theirs) = (samples(&[1.0]), samples(&[2.0]));
        assert!(values(&contest(Measure::Cpu), &ours, Some(&theirs)).is_empty());
        let alone = Contest { theirs: None, ..contest(Measure::Rate) };
        assert_eq!(values(&alone, &ours, None), [1.0]);
    }

    #[test]
    fn every_goal_has_a_row_at_the_end() {
        let mut report = Report::new(Facts { rows: Vec::new() });
        let figure = |goal, value| Figure {
            what: "w".into(),
            goal,
            values: vec![value; PAIRS_MIN],
            rounds_min: PAIRS_MIN,
        };
        report.add_section(Section {
            name: "n",
            title: "t".into(),
            text: String::new(),
            figures: vec![figure(Goal::UpTo(1.0), 0.5), figure(Goal::None, 9.0)],
            commands: vec![("side".into(), "command".into())],
        });
        let ending = report.ending();
        assert!(ending.contains("| n | w | <= 1 | 0.500 | 0.500 | 20 | passed |\n"), "{ending}");
        assert!(ending.contains("1 of 1 goals passed"), "{ending}");
        assert!(report.document().contains("- n, side: `command`"));
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!(grouped(1_234_567.4), "1 234 567");
        assert_eq!(grouped(999.6), "1 000");
        assert_eq!(grouped(12.0), "12");
    }
}
