//! Is the difference between two sides real, how large is it, and what else differed?
//!
//! The unit is the run: each contributes one figure, whatever number of requests it rests on. Runs made in turn are
//! compared pair by pair, so that what drifts cancels; others as two groups. The answer comes from one interval of the
//! ratio (see [`fathom_stats::equivalence`]); a p-value alone decides nothing.

pub mod differences;
pub mod facts;
mod limit;
pub(crate) mod metrics;
mod noise;
mod order;
pub mod rows;
mod shift;

pub use differences::{Difference, Weight};
use fathom_base::order::Order;
pub use limit::Regression;
pub use metrics::{Metric, Told, value};
pub use noise::Noise;
pub use shift::ClassShift;

use crate::verdict::{self, Study};
use differences::Measured;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::fsop_jobs;
use fathom_model::record::{Record, RunHead, RunKind};
use fathom_stats::equivalence::{
    Comparison as Answer, Decision, Question, compare_paired, compare_unpaired,
};
use fathom_stats::interval::{Estimate, median, median_interval};
use fathom_stats::multiple::holm;
use fathom_stats::sequential::{LOOKS, Schedule};
use rows::{Row, Unit};
use serde::Serialize;
use std::borrow::Cow;

/// A run as it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its head.
    pub head: RunHead,
    /// Its records.
    pub records: Vec<Record>,
    /// How far it has come, when it has not ended as planned: `partial`, `interrupted`.
    pub unfinished: Option<String>,
}

impl Run {
    /// What its own figures are worth.
    #[must_use]
    pub fn judged(&self) -> Study {
        verdict::judge_stored(self.head.kind, &self.records, self.unfinished.as_deref())
    }
}

/// Runs that are taken as repetitions of the same thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// What people call it.
    pub name: String,
    /// The runs.
    pub runs: Vec<Run>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The largest change, in percent, that does not matter.
    pub margin_percent: f64,
    /// Confidence level of every interval, 0 to 1.
    pub level: f64,
    /// The data are looked at while runs are still added, after 8, 12, 18 and 25 pairs: each look gets its part of the
    /// error, so that looking often does not make false answers likely.
    pub looks: bool,
    /// The largest worsening, in percent, that may pass, where somebody asks for an error beyond it. No margin is then larger, and what
    /// cannot be decided is doubtful.
    pub limit_percent: Option<f64>,
    /// The thing under test, see [`differences::differences`]; without it, the one thing that differs.
    pub factor: Option<String>,
    /// What plans say of the figures of commands.
    pub told: Told,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            margin_percent: 3.0,
            level: 0.95,
            looks: false,
            limit_percent: None,
            factor: None,
            told: Vec::new(),
        }
    }
}

/// One figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Which.
    pub metric: Metric,
    /// Median over the runs of side A, with its exact interval where the runs are enough for one.
    pub a: Estimate,
    /// The same of side B.
    pub b: Estimate,
    /// B against A.
    pub answer: Answer,
    /// The p-value adjusted by Holm over the first figures of all rows; none for other figures.
    pub p_adjusted: Option<f64>,
    /// What is concluded: that of the answer, unless the adjustment takes a difference back.
    pub decision: Decision,
}

/// One row on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowComparison {
    /// What people call it.
    pub name: String,
    /// Runs on side A.
    pub runs_a: usize,
    /// Runs on side B.
    pub runs_b: usize,
    /// Made in turn and compared pair by pair.
    pub in_pairs: bool,
    /// The figures; the first one answers the question.
    pub figures: Vec<Figure>,
    /// Whole distributions of latency against each other, of the classes that matter most.
    pub shifts: Vec<ClassShift>,
    /// Where the first figure scatters; none where the runs are too few.
    pub noise: Option<Noise>,
    /// Pairs at which to look again, when looks are planned and the first figure is not decided.
    pub next_look: Option<usize>,
}

/// The whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of side A.
    pub a: String,
    /// Name of side B.
    pub b: String,
    /// What is compared, row by row.
    pub rows: Vec<RowComparison>,
    /// Rows that only side A has.
    pub only_a: Vec<String>,
    /// Rows that only side B has.
    pub only_b: Vec<String>,
    /// What differed, the gravest first; each said once, with the rows' values together.
    pub differences: Vec<Difference>,
    /// What speaks against the comparison.
    pub findings: Vec<Finding>,
    /// Whether it can be believed.
    pub verdict: Verdict,
}

/// Compares two sides.
#[must_use]
pub fn compare(a: &Side, b: &Side, options: &Options) -> Comparison {
    let looks = options.looks || is_of_one_against(a, b);
    let limit_percent = options.limit_percent.unwrap_or(f64::INFINITY);
    let margin_percent = options.margin_percent.min(limit_percent);
    let options = &Options { looks, margin_percent, ..options.clone() };
    let (shown_a, shown_b) = (with_jobs(a), with_jobs(b));
    let rows::Rows { common, only_a, only_b } = rows::rows(&shown_a, &shown_b);
    let factor = options.factor.as_deref();
    let differences = match common.is_empty() {
        // What they are is another thing in every row: everything of the one against everything of the other.
        true => differences::differences(&all_measured(&shown_a), &all_measured(&shown_b), factor),
        false => all_differences(&common, factor),
    };
    let mut rows: Vec<RowComparison> = common.iter().map(|row| compare_row(row, options)).collect();
    adjust(&mut rows);
    plan_looks(&mut rows, options);
    let mut findings = of_differences(&differences, options.factor.as_deref());
    findings.extend(common.iter().find_map(of_mixed_side));
    findings.extend([a, b].into_iter().flat_map(of_side));
    findings.extend(of_numbers(&rows, options));
    findings
        .extend(options.limit_percent.and_then(|limit| limit::too_few_for_others(&rows, limit)));
    findings.extend(common.iter().zip(&rows).find_map(|(row, of)| order::always_first(row, of)));
    findings.extend(not_in_turn(&rows));
    findings.extend(nothing_common(&rows, [a, b]));
    findings.extend(rows.iter().find_map(|row| of_looks(row, options)));
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    let (a, b) = (a.name.clone(), b.name.clone());
    Comparison { a, b, rows, only_a, only_b, differences, findings, verdict }
}

/// Whether both sides are those of one `run --against`: its blocks were added until the answer was clear, so that plain intervals
/// would be too narrow. The sides of two such runs were not stopped by what is compared here.
fn is_of_one_against(a: &Side, b: &Side) -> bool {
    let mut runs = a.runs.iter().chain(&b.runs);
    let stored = |run: &Run| run.head.id.split('#').next().map(str::to_owned);
    let Some(first) = a.runs.first().map(stored) else { return false };
    runs.all(|run| run.head.kind == RunKind::Against && stored(run) == first)
}

/// Every job of every record of a side.
fn all_measured(side: &Side) -> Vec<Measured> {
    let records = side.runs.iter().flat_map(|run| run.records.iter().map(move |r| (&run.head, r)));
    let jobs = records.flat_map(|(head, r)| (0..r.jobs.len()).map(move |job| (head, r, job)));
    jobs.map(|(head, record, job)| Measured::of(head, record, job)).collect()
}

/// The side with phases of file servers as jobs: processes of a role are a row. A command that tells figures is one, too.
fn with_jobs(side: &Side) -> Cow<'_, Side> {
    let mut records = side.runs.iter().flat_map(|run| &run.records);
    if records.all(|record| record.fsop.is_none() && fsop_jobs::told(record).is_none()) {
        return Cow::Borrowed(side);
    }
    let mut shown = side.clone();
    for record in shown.runs.iter_mut().flat_map(|run| &mut run.records) {
        *record = fsop_jobs::with_jobs(record).into_owned();
    }
    Cow::Owned(shown)
}

fn measured(units: &[Unit<'_>]) -> Vec<Measured> {
    let cells = units.iter().flat_map(|unit| &unit.cells);
    cells.map(|cell| Measured::of(cell.head, cell.record, cell.job)).collect()
}

/// What differs in any row, each once: rows of one run share machine and stack.
fn all_differences(rows: &[Row<'_>], factor: Option<&str>) -> Vec<Difference> {
    let mut all: Vec<Difference> = Vec::new();
    for row in rows {
        for difference in differences::differences(&measured(&row.a), &measured(&row.b), factor) {
            match all.iter_mut().find(|known| known.what == difference.what) {
                Some(known) => known.weight = known.weight.max(difference.weight),
                None => all.push(difference),
            }
        }
    }
    all.order_by_key(|difference| std::cmp::Reverse(difference.weight));
    all
}

/// The planned looks, where they apply.
fn schedule(options: &Options, in_pairs: bool) -> Option<Schedule> {
    Schedule::new(&LOOKS, options.level).ok().filter(|_| options.looks && in_pairs)
}

fn compare_row(row: &Row<'_>, options: &Options) -> RowComparison {
    let in_pairs = row.made_in_turn();
    let look = schedule(options, in_pairs).and_then(|schedule| schedule.look_at(row.a.len()));
    let level = look.map_or(options.level, |look| look.level);
    // Scatter answers no question, so that no look is taken at it.
    let of_noise = options.level;
    let options = &Options { level, ..options.clone() };
    let metrics = row.a.first().and_then(|unit| unit.cells.first()).map_or_else(Vec::new, |cell| {
        let job = cell.record.workload.jobs.get(cell.job);
        let of = cell.record.jobs.get(cell.job);
        let own = job.zip(of).map(|(job, record)| metrics::metrics(job, record));
        own.into_iter().flatten().chain(metrics::told(cell.record, &options.told)).collect()
    });
    let noise = metrics.first().and_then(|first| noise::of_row(row, first, in_pairs, of_noise));
    let figures = metrics.into_iter().filter_map(|m| figure(row, m, in_pairs, options)).collect();
    RowComparison {
        name: row.name.clone(),
        runs_a: row.a.len(),
        runs_b: row.b.len(),
        in_pairs,
        figures,
        shifts: shift::of_row(row, in_pairs, level),
        noise,
        next_look: None,
    }
}

/// Between two looks nothing is decided: deciding there as well would be one look more than the error was divided by.
fn plan_looks(rows: &mut [RowComparison], options: &Options) {
    for row in rows {
        let Some(schedule) = schedule(options, row.in_pairs) else { continue };
        let last = schedule.looks().last().map_or(0, |look| look.blocks);
        let is_look = schedule.looks().iter().any(|look| look.blocks == row.runs_a);
        if !is_look && row.runs_a < last {
            row.figures.iter_mut().for_each(|figure| figure.decision = Decision::Inconclusive);
        }
        let is_open = row.figures.first().is_some_and(|f| f.decision == Decision::Inconclusive);
        let later = schedule.looks().iter().map(|look| look.blocks).find(|n| *n > row.runs_a);
        row.next_look = later.filter(|_| is_open);
    }
}

/// Percentiles are read from histograms whose steps are up to 1/64 wide: what is smaller cannot be seen in them.
const PERCENTILE_STEP_PERCENT: f64 = 1.6;

/// A figure of every run, none when some run lacks it: the others would be a selection. A run is one value, the median of its
/// repetitions.
fn values(units: &[Unit<'_>], metric: &Metric) -> Option<Vec<f64>> {
    let value = |unit: &Unit<'_>| -> Option<f64> {
        let cells = unit.cells.iter();
        let each: Option<Vec<f64>> =
            cells.map(|cell| metrics::value(cell.record, cell.job, metric)).collect();
        median(&each?).ok()
    };
    units.iter().map(value).collect()
}

fn figure(row: &Row<'_>, metric: Metric, in_pairs: bool, options: &Options) -> Option<Figure> {
    let (a, b) = (values(&row.a, &metric)?, values(&row.b, &metric)?);
    let level = options.level;
    let margin_percent = match metric {
        Metric::LatencyNsP50(_) | Metric::LatencyNsP99(_) | Metric::LatencyNsP999(_) => {
            options.margin_percent.max(PERCENTILE_STEP_PERCENT)
        }
        _ => options.margin_percent,
    };
    let question = Question { margin_percent, level, better: metric.better() };
    let answer = if in_pairs {
        compare_paired(&a, &b, &question)
    } else {
        compare_unpaired(&a, &b, &question)
    };
    let answer = answer.ok()?;
    Some(Figure {
        metric,
        a: median_interval(&a, level).ok()?,
        b: median_interval(&b, level).ok()?,
        answer,
        p_adjusted: None,
        decision: answer.decision,
    })
}

/// Holm over the first figures of all rows: with twenty rows one would be found different by chance. Other figures are
/// there to explain, each at its own level.
fn adjust(rows: &mut [RowComparison]) {
    let mut first: Vec<&mut Figure> =
        rows.iter_mut().filter_map(|r| r.figures.first_mut()).collect();
    let p: Vec<f64> = first.iter().map(|figure| figure.answer.p).collect();
    let Ok(adjusted) = holm(&p) else { return };
    for (figure, p) in first.iter_mut().zip(adjusted) {
        figure.p_adjusted = Some(p);
        let differs = matches!(figure.decision, Decision::Faster | Decision::Slower);
        if differs && p > 1.0 - figure.answer.question.level {
            figure.decision = Decision::Inconclusive;
        }
    }
}

/// Names and values of the differences of one weight, the first few.
fn list(differences: &[Difference], weight: Weight) -> (usize, String) {
    let of: Vec<&Difference> = differences.iter().filter(|d| d.weight == weight).collect();
    let words =
        |d: &&Difference| format!("{} {} against {}", d.what, d.a.join(", "), d.b.join(", "));
    let mut text = of.iter().take(3).map(words).collect::<Vec<_>>().join("; ");
    if of.len() > 3 {
        text += &format!("; and {} more", of.len() - 3);
    }
    (of.len(), text)
}

fn of_differences(differences: &[Difference], factor: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (count, text) = list(differences, Weight::Voids);
    if count > 0 {
        findings.push(
            Finding::new("not-comparable", Severity::Void, format!("the sides measured different things: {text}"))
                .advise("when that is the question, say so: --factor=device, size, region, fill, direct or a name as listed")
                .advise("else measure both on the same device, size and place"),
        );
    }
    let (count, text) = list(differences, Weight::Confounder);
    if count > 0 {
        let besides =
            if factor.is_some() { "besides the thing under test" } else { "between the sides" };
        let things = if count == 1 { "one thing".to_owned() } else { format!("{count} things") };
        findings.push(
            Finding::new("several-differences", Severity::Doubtful, format!("{things} differed {besides}: {text}"))
                .advise("which of them made a difference cannot be told from these runs")
                .advise("change one thing at a time, or name the one under test with --factor=NAME and keep the others"),
        );
    }
    if factor.is_some() && !differences.iter().any(|d| d.weight == Weight::Factor) {
        let text =
            format!("--factor={}: nothing of that name differed", factor.unwrap_or_default());
        findings.push(
            Finding::new("factor-unchanged", Severity::Void, text)
                .advise("was it set on one side only? the list of differences has the names"),
        );
    }
    findings
}

/// Runs of one side are repetitions: nothing may differ among them.
fn of_mixed_side(row: &Row<'_>) -> Option<Finding> {
    let one = |name: &str, units: &[Unit<'_>]| {
        let all = measured(units);
        let (first, rest) = all.split_first()?;
        let found: Vec<Difference> = rest
            .iter()
            .flat_map(|other| {
                differences::differences(
                    std::slice::from_ref(first),
                    std::slice::from_ref(other),
                    Some(""),
                )
            })
            .filter(|d| d.weight >= Weight::Confounder)
            .collect();
        let difference = found.first()?;
        let text = format!(
            "the runs of side {name} are no repetitions of each other: {} {} and {}",
            difference.what,
            difference.a.join(", "),
            difference.b.join(", ")
        );
        Some(
            Finding::new("mixed-side", Severity::Doubtful, text)
                .advise("name the runs of one state only, or give each state a label of its own"),
        )
    };
    one("A", &row.a).or_else(|| one("B", &row.b))
}

/// A side is worth what its worst run is.
fn of_side(side: &Side) -> Option<Finding> {
    let judged = side.runs.iter().map(|run| (&run.head.id, run.judged()));
    let worst = judged.max_by_key(|(_, study)| study.verdict)?;
    let (id, study) = worst;
    let severity = match study.verdict {
        Verdict::Trusted => return None,
        Verdict::Doubtful => Severity::Doubtful,
        Verdict::Void => Severity::Void,
    };
    let why = study.findings.first().map_or("", |finding| finding.summary.as_str());
    let text =
        format!("{}: run {id} is {} itself: {why}", side.name, study.verdict.word().to_lowercase());
    // A block of a run has the run's name and its number.
    let stored = id.split('#').next().unwrap_or(id);
    Some(Finding::new("side-not-trusted", severity, text).advise(format!("fathom show {stored}")))
}

/// With so few runs nothing can be decided, however large the difference; the more rows, the more runs it takes.
fn of_numbers(rows: &[RowComparison], options: &Options) -> Option<Finding> {
    let count = rows.iter().filter(|row| !row.figures.is_empty()).count() as f64;
    let undecidable = |(_, figure): &(&RowComparison, &Figure)| {
        let answer = &figure.answer;
        answer.smallest_p * count > 1.0 - answer.question.level + 1e-12
    };
    let first = rows.iter().filter_map(|row| Some((row, row.figures.first()?)));
    let (row, figure) = first.into_iter().find(undecidable)?;
    let level = figure.answer.question.level;
    let which =
        if count > 1.0 { format!("the {count:.0} rows together") } else { row.name.clone() };
    let text = format!(
        "{which}: {} against {} runs cannot decide anything at {} %: the ratios are those of these runs only",
        row.runs_a,
        row.runs_b,
        percent(level)
    );
    // Pairs all of which differ in the same direction have p = 2 / 2^n.
    let needed = (2.0 * count / (1.0 - level)).log2().ceil().max(6.0);
    let severity = options.limit_percent.map_or(Severity::Note, |_| Severity::Doubtful);
    Some(Finding::new("too-few-runs", severity, text).advise(format!(
        "at least {needed:.0} pairs made in turn: A, B, B, A, A, B, ... each with its own --label"
    )))
}

/// A share in percent, without the tail of digits that binary numbers have.
fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Groups that were made one after the other: what drifted in between looks like a difference.
fn not_in_turn(rows: &[RowComparison]) -> Option<Finding> {
    let row = rows.iter().find(|row| !row.in_pairs && row.runs_a > 1 && row.runs_b > 1)?;
    let text = format!(
        "{}: {} and {} runs that were not made in turn: what drifted meanwhile (temperature, fill, other users) counts \
         as a difference",
        row.name, row.runs_a, row.runs_b
    );
    Some(
        Finding::new("not-in-turn", Severity::Note, text)
            .advise("made in turn, pair by pair, the same runs tell more"),
    )
}

/// The planned looks are over, or cannot be used.
fn of_looks(row: &RowComparison, options: &Options) -> Option<Finding> {
    let last = LOOKS[LOOKS.len() - 1];
    let text = if !options.looks {
        return None;
    } else if !row.in_pairs {
        format!("{}: looks are planned for runs made in turn, which these are not", row.name)
    } else if row.runs_a > last {
        format!("{}: {} pairs are beyond the last planned look at {last}", row.name, row.runs_a)
    } else {
        return None;
    };
    Some(
        Finding::new("looks-do-not-apply", Severity::Doubtful, text).advise(
            "leave out --looks when all runs were planned beforehand and are looked at once",
        ),
    )
}

fn nothing_common(rows: &[RowComparison], sides: [&Side; 2]) -> Option<Finding> {
    if rows.iter().any(|row| !row.figures.is_empty()) {
        return None;
    }
    let mut records = sides.into_iter().flat_map(|side| &side.runs).flat_map(|run| &run.records);
    let is_command =
        |record: &Record| record.cell.is_some() && record.jobs.is_empty() && record.fsop.is_none();
    let (text, advice) = match records.any(is_command) {
        true => (
            "no figure is in every run of both sides: one of a command counts where its plan names it alike on both, and it is above 0 \
             in each trial",
            "name the command's figures in both plans alike: figure.NAME = \"tps = {}\"",
        ),
        false => (
            "no figure is in every run of both sides",
            "compare runs of the same workload, without those in which nothing ended",
        ),
    };
    Some(Finding::new("nothing-common", Severity::Void, text).advise(advice))
}

#[cfg(test)]
mod tests;
