//! What speaks for and against the answer of an experiment.

use super::boots::Boots;
use super::cells::{Adjustment, CellStudy, Change, Values, is_one_settled};
use super::figures::Figure;
use super::ranking::{Bound, Kept};
use super::{ExperimentStudy, drift, values};
use crate::{rules, verdict, watch};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::plan::Metric;
use fathom_model::plan::cell::Cell;
use fathom_model::record::Record;
use fathom_stats::equivalence::Decision;
use fathom_stats::factorial::UNITS_MIN;
use fathom_stats::interval::{Estimate, median};
use std::collections::BTreeMap;

/// A value so many robust standard deviations from its cell's median is worth a look (B. Iglewicz, D. C. Hoaglin, How to
/// Detect and Handle Outliers, 1993, have 3.5; here it is asked of every trial).
const FAR: f64 = 5.0;

/// Everything that the study itself shows, the gravest first.
#[must_use]
pub fn of_study(
    study: &ExperimentStudy,
    cells: &[Cell],
    values: &[Values],
    boots: &Boots,
    nulls: &[(String, String, Estimate)],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(study.drift.as_ref().and_then(|found| drift::finding(found, study.margin)));
    findings.extend(of_nulls(nulls));
    findings.extend(of_void(study, cells, values));
    findings.extend(too_few(study, boots, values));
    findings.extend(few_boots(study, boots));
    findings.extend(no_winner(study));
    findings.extend(unsure_bounds(study, cells));
    findings.extend(broken_in_some(study, cells, values));
    findings.extend(unlike_blocks(study, cells));
    findings.extend(silent(study, cells));
    findings.extend(outliers(&study.figures, cells, values));
    findings.extend(ranks(study));
    findings
}

fn of_nulls(nulls: &[(String, String, Estimate)]) -> Option<Finding> {
    let (factor, level, ratio) = nulls.first()?;
    let text = format!(
        "{factor}={level} sets nothing and still came out {:+.1} % different: something else differs between the cells",
        100.0 * (ratio.value - 1.0)
    );
    Some(
        Finding::new("null-factor-differs", Severity::Doubtful, text)
            .advise("differences of that size in other factors prove nothing either")
            .advise("look for what follows the order of the cells: place on the device, age of the filesystem, heat"),
    )
}

fn of_void(study: &ExperimentStudy, cells: &[Cell], values: &[Values]) -> Option<Finding> {
    let (void, trials) = (&study.void, study.trials);
    let first = void.first()?;
    // The whole of it stands with the trial.
    let cause = first.cause.lines().next().unwrap_or_default();
    let (count, cell) = (void.len(), &first.cell);
    let are = if count == 1 { "is" } else { "are" };
    let mut text =
        format!("{count} of {trials} trials {are} void, the first one ({cell}) because: {cause}");
    // What is left of a cell may be its better half.
    let most = cells.iter().enumerate().find_map(|(at, cell)| {
        let void = void.iter().filter(|void| void.slot.cell == cell.index).count();
        let good = values.iter().map(|figure| figure[at].len()).max().unwrap_or(0);
        (void > good).then(|| (cell.name(), good))
    });
    if let Some((name, good)) = &most {
        text += &format!(
            "; of {name} only {} left",
            if *good == 1 { "1 is".to_owned() } else { format!("{good} are") }
        );
    }
    // All of them: no answer at all, said elsewhere.
    let is_doubtful = 2 * count > trials || most.is_some();
    let severity = if is_doubtful { Severity::Doubtful } else { Severity::Note };
    Some(
        Finding::new("void-trials", severity, text)
            .advise("they are left out together with their pairs; nothing else is"),
    )
}

/// A number of things.
fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Comparisons of the objectives with the baseline: those with cells of other boots, or all others.
fn changes<'a>(
    study: &'a ExperimentStudy,
    boots: &'a Boots,
    are_apart: bool,
) -> impl Iterator<Item = &'a Change> {
    let asked = move |(place, _): &(usize, &CellStudy)| {
        boots.are_apart(study.baseline, *place) == are_apart
    };
    let cells = study.cells.iter().enumerate().filter(asked);
    let figures = cells.flat_map(|(_, cell)| cell.figures.iter().zip(&study.figures));
    let objectives = figures.filter(|(_, figure)| figure.is_objective);
    objectives.filter_map(|(own, _)| own.as_ref()?.change.as_ref())
}

/// True when none of these can show a difference, however large: the smallest p of many must stand Holm's first step, or the last one of
/// Benjamini and Hochberg, where all have it.
fn are_blind<'a>(study: &ExperimentStudy, changes: impl Iterator<Item = &'a Change>) -> bool {
    let smallest = changes.map(|change| change.answer.smallest_p).fold(f64::INFINITY, f64::min);
    let step = match study.adjustment {
        Adjustment::BenjaminiHochberg => 1,
        Adjustment::None | Adjustment::Holm => study.comparisons.max(1),
    };
    smallest.is_finite() && smallest * step as f64 > 1.0 - study.level + 1e-12
}

/// So few boots that what differs between them may be nothing but the boots.
fn few_boots(study: &ExperimentStudy, boots: &Boots) -> Option<Finding> {
    let counts = boots.counts();
    let is_few = counts.iter().any(|(_, boots)| *boots < UNITS_MIN);
    if counts.len() < 2 || !(is_few || are_blind(study, changes(study, boots, true))) {
        return None;
    }
    let words = |(kind, boots): &(&str, usize)| format!("{} with {kind}", count(*boots, "boot"));
    let all: Vec<String> = counts.iter().map(words).collect();
    let comparisons = study.comparisons.max(1) as f64;
    // Twice the share of one way to divide so many boots in halves.
    let mut p = 2.0;
    let needed = (1u32..)
        .find(|half| {
            let half = f64::from(*half);
            p *= half / (2.0 * (2.0 * half - 1.0));
            p * comparisons <= 1.0 - study.level
        })
        .map_or(UNITS_MIN, |half| UNITS_MIN.max(half as usize));
    let text = format!(
        "{}: a boot comes out a little different each time, so that a difference between these is one of these boots and no more, however \
         many trials each has",
        all.join(", ")
    );
    Some(
        Finding::new("few-boots", Severity::Note, text)
            .advise(format!(
                "at least {needed} boots of each decide it: each further block takes one more"
            ))
            .advise("what differs within one boot is known all the same"),
    )
}

/// So few blocks that no difference, however large, could be found; or enough, in which all trials came to the same.
fn too_few(study: &ExperimentStudy, boots: &Boots, values: &[Values]) -> Option<Finding> {
    if !are_blind(study, changes(study, boots, false)) {
        return None;
    }
    let comparisons = study.comparisons.max(1) as f64;
    let error = 1.0 - study.level;
    let needed = (2.0 * comparisons / error).log2().ceil().max(6.0);
    let is_constant = |(_, of): &(&Figure, &Values)| {
        let mut all = of.iter().flat_map(BTreeMap::values);
        all.next().is_some_and(|first| all.all(|other| other == first))
    };
    let mut asked = study.figures.iter().zip(values).filter(|(figure, _)| figure.is_objective);
    if f64::from(study.blocks_done) >= needed && asked.all(|figure| is_constant(&figure)) {
        let text = "all trials came to identical figures: nothing that was varied shows in them";
        return Some(
            Finding::new("identical-figures", Severity::Note, text)
                .advise("see that the load prints what it measured, and with enough digits"),
        );
    }
    // A factor is seen in the trials of all its levels.
    let mut effects = study.effects.iter().flat_map(|all| &all.effects);
    let has_effects =
        effects.any(|effect| matches!(effect.decision, Decision::Faster | Decision::Slower));
    let what = match has_effects {
        true => "no cell by itself could be shown to differ, though effects of whole factors could",
        false => "no difference could be shown",
    };
    let text = format!(
        "so few blocks that {what}: {}, {}; the figures are those of these trials only",
        count(study.blocks_done as usize, "block"),
        count(study.comparisons, "comparison")
    );
    Some(
        Finding::new("too-few-blocks", Severity::Note, text)
            .advise(format!("at least {needed:.0} blocks can decide all of them")),
    )
}

fn no_winner(study: &ExperimentStudy) -> Option<Finding> {
    if study.ranking.winner.is_some() {
        return None;
    }
    let text = if study.trials == study.void.len() {
        "not one trial counts: nothing was measured"
    } else if study.ranking.bounds.is_empty() {
        "no cell has all figures that decide"
    } else if study.all_break_bounds() {
        // An answer, from trials that count.
        return Some(Finding::new("no-winner", Severity::Note, "no cell keeps the bounds"));
    } else {
        "no cell that was measured keeps the bounds and has all figures that decide"
    };
    Some(Finding::new("no-winner", Severity::Void, text))
}

/// As a plan names it.
fn figure_name(figure: &Figure) -> String {
    let metric = serde_json::to_value(figure.metric).unwrap_or_default();
    let of = figure.workload.as_ref().map_or_else(String::new, |label| format!(" of {label}"));
    let own = figure.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    format!("{}{own}{of}", metric.as_str().unwrap_or_default())
}

/// Cells of which more blocks may still show that they keep a bound, or that they break it.
fn unsure_bounds(study: &ExperimentStudy, cells: &[Cell]) -> Option<Finding> {
    let is_unsure = |kept: &Kept| matches!(kept, Kept::Unsure | Kept::Unlikely);
    let of_bound = |bound: &Bound| {
        let own = cells.iter().zip(&bound.kept).filter(|(_, kept)| is_unsure(kept));
        let names: Vec<String> = own.map(|(cell, _)| cell.name()).collect();
        let figure = study.figures.get(bound.figure).map(figure_name)?;
        (!names.is_empty()).then(|| format!("that of {figure} by {}", names.join(", ")))
    };
    let all: Vec<String> = study.ranking.bounds.iter().filter_map(of_bound).collect();
    let text = format!("it is not sure which bounds are kept: {}", all.join("; "));
    (!all.is_empty()).then(|| {
        Finding::new("unsure-bound", Severity::Note, text)
            .advise("more blocks decide it, where the cell is not as good as at its bound")
    })
}

/// A bound of 0 is broken by a single trial, which the median need not show.
fn broken_in_some(study: &ExperimentStudy, cells: &[Cell], values: &[Values]) -> Option<Finding> {
    let none_at_all = study.ranking.bounds.iter().filter(|bound| bound.value == 0.0);
    let of_bound = |bound: &Bound| {
        let figure = study.figures.get(bound.figure)?;
        let of_cell = |at: usize| {
            let own = values.get(bound.figure)?.get(at)?;
            let above = own.values().filter(|value| **value > 0.0).count();
            let is_broken = bound.kept.get(at) == Some(&Kept::Broken) && above > 0;
            is_broken.then(|| {
                format!("{} in {above} of {}", cells[at].name(), count(own.len(), "trial"))
            })
        };
        let all: Vec<String> = (0..cells.len()).filter_map(of_cell).collect();
        (!all.is_empty() && !figure.is_more_better())
            .then(|| format!("{} is above 0: {}", figure_name(figure), all.join(", ")))
    };
    let all: Vec<String> = none_at_all.filter_map(of_bound).collect();
    let text = format!("a bound of 0 is broken by each trial above it: {}", all.join("; "));
    (!all.is_empty()).then(|| Finding::new("bound-of-0", Severity::Note, text))
}

/// Requests of unlike sizes are not alike: the smallest has most of them by itself.
fn unlike_blocks(study: &ExperimentStudy, cells: &[Cell]) -> Option<Finding> {
    let is_size = |name: &str| name.rsplit('.').next() == Some("block_size");
    let varies = cells.iter().flat_map(|cell| &cell.levels).any(|(name, _)| is_size(name));
    let first = study.figures.get(*study.ranking.figures.first()?)?;
    let has_rate = study.figures.iter().any(|figure| figure.metric == Metric::Rate);
    (varies && first.metric == Metric::Iops && !has_rate).then(|| {
        let text = "block_size varies and IOPS decide: requests of unlike sizes are not alike, and the smallest has most of them by itself";
        Finding::new("unlike-blocks", Severity::Note, text)
            .advise("bytes per second are the other view: [[objective]] metric = \"rate\"")
    })
}

/// Objectives that no trial has a value for: most often a percentile of few requests.
fn silent(study: &ExperimentStudy, cells: &[Cell]) -> Option<Finding> {
    if study.trials == study.void.len() {
        return None;
    }
    let has_value = |at: usize| {
        study.cells.iter().any(|cell| cell.figures.get(at).is_some_and(Option::is_some))
    };
    let silent: Vec<String> = study
        .figures
        .iter()
        .enumerate()
        .filter(|(at, figure)| figure.is_objective && !has_value(*at))
        .map(|(_, figure)| figure_name(figure))
        .collect();
    if silent.is_empty() {
        return None;
    }
    let silent = silent.join(", ");
    let text = format!("the plan decides by {silent}, and no trial has a value for it");
    let found = Finding::new("silent-objective", Severity::Doubtful, text);
    Some(if silent.contains("latency_p") {
        found.advise("a percentile needs many requests in each trial: a longer duration=, or latency_mean as objective")
    } else if cells.iter().any(|cell| cell.workloads.len() > 1) {
        found.advise("where one of several workloads is meant: workload = \"LABEL\" beside metric")
    } else {
        found.advise("ratios are what is compared: a figure of 0 counts for none")
    })
}

/// Trials far from the others of their cell: flagged, never left out.
fn outliers(figures: &[Figure], cells: &[Cell], values: &[Values]) -> Option<Finding> {
    let mut found: Vec<String> = Vec::new();
    let has_logs = |values: &Values| values.iter().flat_map(|own| own.values()).all(|v| *v > 0.0);
    let objectives = figures.iter().zip(values).filter(|(f, _)| f.is_objective);
    for (figure, values) in objectives.filter(|(_, values)| has_logs(values)) {
        for (cell, own) in cells.iter().zip(values).filter(|(_, own)| own.len() >= 5) {
            let logs: Vec<f64> = own.values().map(|value| value.ln()).collect();
            let Ok(middle) = median(&logs) else { continue };
            let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
            let Ok(usual) = median(&distances) else { continue };
            // A spread below a tenth of a percent is no measure of what is unusual.
            let deviation = (1.4826 * usual).max(0.001);
            for (block, distance) in own.keys().zip(&distances) {
                if *distance > FAR * deviation {
                    let _ = figure;
                    found.push(format!("{} in block {}", cell.name(), block + 1));
                }
            }
        }
    }
    found.dedup();
    let first = found.first()?;
    let more = match found.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Some(Finding::new(
        "far-trials",
        Severity::Note,
        format!(
            "far from the other trials of its cell: {first}{more}; kept, because no declared cause was seen"
        ),
    ))
}

fn ranks(study: &ExperimentStudy) -> Option<Finding> {
    let all = study.effects.iter().flat_map(|effects| &effects.effects);
    let first = all.clone().find(|effect| effect.ranks_disagree)?;
    let words: Vec<String> = first.of.iter().map(|(f, l)| format!("{f}={l}")).collect();
    let text = format!("the effect of {} is not borne out by ranks", words.join(" with "));
    Some(
        Finding::new("ranks-disagree", Severity::Note, text)
            .advise("the noise is far from normal: believe the ranks, which find nothing sure"),
    )
}

/// What the rules say about the trials that count: each once, with the cells it was seen in. What makes less than half of the
/// trials void makes the whole doubtful: medians bear it.
#[must_use]
pub fn of_trials(records: &[&Record]) -> Vec<Finding> {
    let of_one = |record: &Record| {
        let all = record.findings.iter().cloned().chain(rules::all(record));
        all.filter(|finding| finding.severity > Severity::Note).collect()
    };
    by_trials(records, records.len(), &of_one)
}

/// What the commands of trials waited for: each answer once, with the cells it was given in.
#[must_use]
pub fn of_commands(records: &[&Record]) -> Vec<Finding> {
    let of_one = |record: &Record| watch::waits_of(record).into_iter().collect();
    let all = records.iter().filter(|record| watch::waits_of(record).is_some()).count();
    by_trials(records, all, &of_one)
}

/// So many remarks about what was built are told.
const REMARKS_MAX: usize = 5;

/// What of the setups is otherwise than one would expect: each remark once, with the cells that it is of.
#[must_use]
pub fn of_setups(records: &[&Record]) -> Vec<Finding> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    let mut cells: Vec<String> = Vec::new();
    for own in records.iter().filter_map(|record| record.cell.as_ref()) {
        let name = values::name(&own.levels);
        for remark in &own.remarks {
            match found.iter_mut().find(|(known, _)| known == remark) {
                None => found.push((remark, vec![name.clone()])),
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name.clone()),
            }
        }
        if !cells.contains(&name) {
            cells.push(name);
        }
    }
    let said = |(remark, names): (&str, Vec<String>)| {
        let of =
            if names.len() == cells.len() { String::new() } else { format!(" ({})", some(&names)) };
        Finding::new("setup-remark", Severity::Note, format!("what was built{of}: {remark}"))
    };
    found.into_iter().take(REMARKS_MAX).map(said).collect()
}

/// The findings of each trial, those of one kind together.
fn by_trials(
    records: &[&Record],
    all: usize,
    of_one: &dyn Fn(&Record) -> Vec<Finding>,
) -> Vec<Finding> {
    let mut found: Vec<(Finding, Vec<String>, usize)> = Vec::new();
    for record in records {
        let label = record.cell.as_ref().map_or("", |_| record.label.as_str());
        let mut seen: Vec<String> = Vec::new();
        for finding in of_one(record) {
            if seen.contains(&finding.id) {
                continue;
            }
            seen.push(finding.id.clone());
            match found.iter_mut().find(|(known, ..)| known.id == finding.id) {
                None => found.push((finding, vec![label.to_owned()], 1)),
                Some((known, labels, count)) => {
                    known.severity = known.severity.max(finding.severity);
                    *count += 1;
                    if !labels.iter().any(|known| known == label) {
                        labels.push(label.to_owned());
                    }
                }
            }
        }
    }
    let said = |(mut finding, labels, count): (Finding, Vec<String>, usize)| {
        finding.summary =
            format!("{count} of {all} trials ({}): {}", some(&labels), finding.summary);
        if 2 * count < all {
            finding.severity = finding.severity.min(Severity::Doubtful);
        }
        finding
    };
    found.into_iter().map(said).collect()
}

/// The first few of many.
fn some(labels: &[String]) -> String {
    match labels {
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a}; {b}; {c}; {} more", rest.len()),
        few => few.join("; "),
    }
}

/// Puts everything together, the gravest first.
#[must_use]
pub fn judged(mut findings: Vec<Finding>) -> verdict::Study {
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    verdict::Study { findings, verdict }
}

/// How the experiment stands, for a line while it runs: what is decided and what is not.
#[must_use]
pub fn open_questions(cells: &[CellStudy], figures: &[Figure]) -> (usize, usize) {
    let asked = cells
        .iter()
        .filter(|cell| !cell.is_baseline && cell.impossible.is_none())
        .flat_map(|cell| cell.figures.iter().zip(figures))
        .filter(|(_, figure)| figure.is_objective);
    let all: Vec<bool> = asked.map(|(own, figure)| is_one_settled(own.as_ref(), figure)).collect();
    (all.iter().filter(|settled| !**settled).count(), all.len())
}

#[cfg(test)]
mod tests {
    use crate::experiment::sample::{Sample, noise};
    use crate::experiment::study;
    use fathom_base::prng::Prng;
    use fathom_model::finding::Verdict;

    /// A filesystem that cannot be as empty as that, and an array that was not synchronised.
    #[test]
    fn what_is_otherwise_than_expected_is_told_with_its_cells() {
        let mut sample = sample(3);
        let told = |sample: &Sample| -> Vec<String> {
            let study = study(&sample.plan, &sample.cells, &sample.records);
            let own = study.findings.into_iter().filter(|finding| finding.id == "setup-remark");
            own.map(|finding| finding.summary).collect()
        };
        assert_eq!(told(&sample), [] as [&str; 0]);
        let fill = "filesystem.fill 1%: 3.1 % full, as df counts, without a single file";
        for record in &mut sample.records {
            let cell = record.cell.as_mut().expect("a cell");
            cell.remarks.push("raid5 was assumed clean: no first synchronisation".to_owned());
            if cell.slot.cell == 1 {
                cell.remarks.push(fill.to_owned());
            }
        }
        let name = super::values::name(&sample.cells[1].levels);
        let all = "what was built: raid5 was assumed clean: no first synchronisation";
        assert_eq!(told(&sample), [all.to_owned(), format!("what was built ({name}): {fill}")]);
    }

    fn sample(blocks: u32) -> Sample {
        let mut prng = Prng::new(1, 0);
        Sample::new(&[("a", &["x", "y", "z"])], blocks, |_, _| 1000.0 * noise(&mut prng, 0.01))
    }

    fn ids(sample: &Sample) -> Vec<String> {
        let study = study(&sample.plan, &sample.cells, &sample.records);
        study.findings.into_iter().map(|f| f.id).collect()
    }

    #[test]
    fn a_clean_experiment_is_trusted() {
        let sample = sample(10);
        let study = study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!((study.verdict, study.findings.as_slice()), (Verdict::Trusted, [].as_slice()));
    }

    #[test]
    fn few_blocks_are_said_with_the_number_that_would_do() {
        let sample = sample(6);
        let found = study(&sample.plan, &sample.cells, &sample.records).findings;
        let few = found.iter().find(|f| f.id == "too-few-blocks").expect("said");
        // Two comparisons: 2 x 2 / 2^7 = 0.03.
        assert_eq!(few.advice, ["at least 7 blocks can decide all of them"]);
        assert!(ids(&self::sample(7)).is_empty());
    }

    #[test]
    fn figures_that_are_all_the_same_are_not_too_few() {
        let constant = |blocks: u32| {
            let mut sample = sample(blocks);
            for record in &mut sample.records {
                let of = record.cell.take().expect("a cell");
                let cell = sample.cells.iter().find(|c| c.index == of.slot.cell).expect("its cell");
                *record = crate::experiment::sample::record(cell, of.slot, 500.0);
            }
            ids(&sample)
        };
        assert_eq!(constant(8), ["identical-figures"]);
        assert_eq!(constant(3), ["too-few-blocks"]);
    }

    #[test]
    fn outliers_are_told_and_kept() {
        let mut sample = sample(10);
        let cell = sample.cells[1].clone();
        let slot = sample.records[4].cell.as_ref().expect("a cell").slot;
        sample.records[4] = crate::experiment::sample::record(&cell, slot, 500.0);
        assert_eq!(ids(&sample), ["far-trials"]);
        let study = study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(study.cells[1].figures[0].as_ref().expect("figures").median.count, 10);
    }

    /// Each answer once, with the cells it was given in; loads of fathom's own give none.
    #[test]
    fn what_commands_waited_for_is_told_by_cells() {
        use fathom_model::stack::{Node, NodeKind, Stack, StackAround};
        use fathom_model::watch::{
            ApplicationSample, DeviceCounts, DeviceSample, FlowCounts, Sample as Look, WatchRecord,
        };
        let mut sample = sample(10);
        for (at, record) in sample.records.iter_mut().take(27).enumerate() {
            // Of three cells the last one has a disk that is hardly busy.
            let of_window = if at % 3 == 2 { 10_000_000 } else { 1_000_000 };
            let busy_ms = record.window_ns / of_window;
            let reads = FlowCounts { requests: 1000, sectors: 8000, took_ms: busy_ms, merged: 0 };
            let counts = DeviceCounts { reads, busy_ms, ..DeviceCounts::default() };
            let device = DeviceSample {
                name: "sda".into(),
                title: String::new(),
                depth: 0,
                counts,
                rates: counts.rates(record.window_ns),
                stands_out: None,
                array: None,
                interrupts: Vec::new(),
                latency: None,
            };
            let mut watch = WatchRecord::new(1_000_000_000, 0);
            watch.push(&Look {
                length_ns: record.window_ns,
                devices: vec![device],
                application: Some(ApplicationSample { processes: 1, ..Default::default() }),
                ..Look::default()
            });
            let mut disk = Node::new(NodeKind::Disk, "sda");
            disk.devno = Some("8:0".to_owned());
            let path = "/dev/sda".to_owned();
            let before = Stack { resolved_path: path.clone(), path, nodes: vec![disk], top: 0 };
            watch.stacks = vec![StackAround { before, after: None }];
            record.watch = Some(Box::new(watch));
            record.targets.clear();
        }
        let found = study(&sample.plan, &sample.cells, &sample.records).findings;
        let text = |id: &str| {
            let found = found.iter().find(|finding| finding.id == id).expect("told");
            found.summary.clone()
        };
        let bound = text("latency-bound");
        let start = "18 of 27 trials (a=x; a=y): latency-bound: sda was busy for 100 %";
        assert!(bound.starts_with(start), "{bound}");
        let other = text("not-storage-bound");
        let start = "9 of 27 trials (a=z): not bound by storage: sda was busy for 10 %";
        assert!(other.starts_with(start), "{other}");
    }

    /// Which of several workloads is meant is asked only where there are several.
    #[test]
    fn an_objective_without_a_value_says_why() {
        use fathom_model::plan::{Metric, Objective};
        let mut sample = sample(10);
        sample.plan.objectives = vec![Objective::of(Metric::Application)];
        let advice = |sample: &Sample| {
            let study = study(&sample.plan, &sample.cells, &sample.records);
            let silent = study.findings.into_iter().find(|found| found.id == "silent-objective");
            silent.expect("said").advice.join(" ")
        };
        let one = advice(&sample);
        assert!(one.contains("a figure of 0") && !one.contains("workload"), "{one}");
        for cell in &mut sample.cells {
            let more = cell.workloads[0].clone();
            cell.workloads.push(more);
        }
        assert!(advice(&sample).contains("one of several workloads"));
    }

    /// That none keeps the bounds is what came out, of trials that count.
    #[test]
    fn no_cell_within_the_bounds_is_an_answer() {
        use fathom_model::plan::{Metric, Objective};
        let mut sample = sample(10);
        let bound = Objective { bound: Some(100.0), ..Objective::of(Metric::LatencyMean) };
        sample.plan.objectives.insert(0, bound);
        let study = study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!((study.ranking.winner, study.verdict), (None, Verdict::Trusted));
        assert!(ids(&sample).contains(&"no-winner".to_owned()));
    }

    #[test]
    fn nothing_measured_is_void() {
        let mut sample = sample(2);
        for record in &mut sample.records {
            record.cell.as_mut().expect("a cell").void = Some("mdadm refused".into());
        }
        let study = study(&sample.plan, &sample.cells, &sample.records);
        assert_eq!(study.verdict, Verdict::Void);
        assert!(ids(&sample).contains(&"no-winner".to_owned()));
        assert_eq!(study.void.len(), 6);
    }
}
