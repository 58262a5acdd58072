//! A comparison as text: what is real in one sentence a row, the figures, everything that differed, the verdict.

use crate::findings::findings_text;
use crate::ratio::{change, change_with, interval, scatter, scatter_intervals, size_and_range};
use crate::table::{Align, Noted, Table};
use crate::text::push_wrapped_to;
use fathom_model::finding::Verdict;
use fathom_stats::equivalence::{Better, Decision};
use fathom_stats::interval::Estimate;
use fathom_stats::sequential::LOOKS;
use fathom_study::compare::{
    ClassShift, Comparison, Difference, Figure, Metric, RowComparison, Weight,
};

/// The whole comparison in so many columns.
#[must_use]
pub fn comparison_text(comparison: &Comparison, width: usize) -> String {
    text_of(comparison, &format!("A is {}, B is {}.", comparison.a, comparison.b), width)
}

/// The same, where `sides` says in a sentence what A and B are. What makes a comparison void comes before any figure.
#[must_use]
pub fn text_of(comparison: &Comparison, sides: &str, width: usize) -> String {
    let mut out = String::new();
    push_wrapped_to(&mut out, width, "", sides);
    let findings = findings_text(&comparison.findings, comparison.verdict, width);
    if comparison.verdict != Verdict::Void {
        return out + &answer_text(comparison, width) + &findings;
    }
    out += &findings;
    out += "\nWhat was found all the same:\n";
    out += answer_text(comparison, width).trim_end();
    out + "\n"
}

/// The comparison without its sides and findings.
fn answer_text(comparison: &Comparison, width: usize) -> String {
    let mut out = String::new();
    for row in &comparison.rows {
        push_wrapped_to(&mut out, width, "", &sentence(row));
    }
    for (side, only) in [("A", &comparison.only_a), ("B", &comparison.only_b)] {
        if !only.is_empty() {
            push_wrapped_to(&mut out, width, "", &format!("Only {side} has: {}.", only.join("; ")));
        }
    }
    out.push('\n');
    if !comparison.rows.is_empty() {
        let Noted { table, notes } = figure_rows(comparison);
        out += &table.render_to(0, width);
        notes.iter().for_each(|note| push_wrapped_to(&mut out, width, "", note));
        noise_lines(comparison).iter().for_each(|line| push_wrapped_to(&mut out, width, "", line));
        out.push('\n');
    }
    if let Some(Noted { table, notes }) = shift_rows(comparison, SHIFTS_WHOLE) {
        out += &table.render_to(0, width);
        notes.iter().for_each(|note| push_wrapped_to(&mut out, width, "", note));
        out.push('\n');
    }
    // Of runs without any figure in common that nothing differs says nothing.
    if !comparison.rows.is_empty() || !comparison.differences.is_empty() {
        out += &differences_text(&comparison.differences, width);
        out.push('\n');
    }
    out
}

/// What a row comes to: `read: B is 12.0 % faster (+8.1 to +16.0 %), 8 pairs; read p99: no difference larger than 3 %.`
#[must_use]
pub fn sentence(row: &RowComparison) -> String {
    let runs = match (row.in_pairs, row.runs_a, row.runs_b) {
        (true, 1, _) => "1 pair".to_owned(),
        (true, n, _) => format!("{n} pairs"),
        (false, a, b) => format!("{a} against {b} runs"),
    };
    let Some((first, others)) = row.figures.split_first() else {
        return format!("{}: nothing that can be compared.", row.name);
    };
    let is_between = row.next_look.is_some() && !LOOKS.contains(&row.runs_a);
    let tail = others.iter().find(|figure| matches!(figure.metric, Metric::LatencyNsP99(_)));
    let tail =
        tail.map_or_else(String::new, |figure| format!("; {}", clause(figure, false, is_between)));
    let next = row.next_look.map_or_else(String::new, |n| format!(" Next look at {n} pairs."));
    format!("{}: {}, {runs}{tail}.{next}", row.name, clause(first, true, is_between))
}

fn clause(figure: &Figure, is_first: bool, is_between: bool) -> String {
    let words = figure.metric.words();
    let subject = if is_first { format!("B's {words}") } else { words };
    let ratio = figure.answer.ratio;
    let is_told = matches!(figure.metric, Metric::Told(..));
    let is_rate = figure.metric.better() == Better::Higher && !is_told;
    let margin = round(figure.answer.question.margin_percent);
    // That there is a difference, and that it is one that matters, are two claims.
    let perhaps = if figure.answer.is_beyond_margin() {
        String::new()
    } else {
        format!(", perhaps less than {margin} %")
    };
    match (figure.decision, ratio.interval) {
        (Decision::Faster | Decision::Slower, Some(interval)) => {
            let (size, range) = size_and_range(ratio.value, interval);
            let is_better = figure.decision == Decision::Faster;
            if is_first && is_rate {
                let how = if is_better { "faster" } else { "slower" };
                return format!("B is {size} {how} ({range}){perhaps}");
            }
            let how = if ratio.value >= 1.0 { "higher" } else { "lower" };
            let judged = match (figure.metric.is_judged(), is_better) {
                (true, true) => ", better",
                (true, false) => ", worse",
                (false, _) => "",
            };
            format!("{subject} {size} {how} ({range}){perhaps}{judged}")
        }
        (Decision::Equivalent, Some(_)) => {
            format!("{subject}: no difference larger than {margin} %")
        }
        (_, Some(ends)) => {
            let range = interval(ends);
            let adjusted = figure.answer.decision != Decision::Inconclusive;
            let why = match (adjusted, is_between) {
                (true, true) => " between two looks",
                (true, false) => " after adjustment for the number of rows",
                (false, _) => "",
            };
            format!("{subject}: undecided{why} ({range})")
        }
        (_, None) => {
            format!("{subject}: {} in these runs, too few to decide", change(ratio.value))
        }
    }
}

/// A percentage without the tail of digits that binary numbers have.
fn round(percent: f64) -> String {
    let text = format!("{percent:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Every figure of every row on both sides, with what is concluded.
#[must_use]
pub fn figure_rows(comparison: &Comparison) -> Noted {
    let columns = [
        ("", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("interval", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns, 3);
    for row in &comparison.rows {
        table.row([row.name.as_str()]);
        for figure in &row.figures {
            let ratio = figure.answer.ratio;
            table.row([
                format!("  {}", figure.metric.words()),
                figure.metric.text(figure.a.value),
                figure.metric.text(figure.b.value),
                change_with(ratio.value, ratio.interval),
                ratio.interval.map_or_else(|| "-".to_owned(), interval),
                decision_word(figure).to_owned(),
            ]);
        }
    }
    let coverage = comparison.rows.iter().flat_map(|row| &row.figures).next();
    let level = coverage.map_or(95.0, |figure| figure.answer.question.level * 100.0);
    let level = round(level);
    let mut notes = vec![format!(
        "Medians over runs; changes are ratios B / A (Hodges-Lehmann) with intervals of {level} % by ranks."
    )];
    let mut figures = comparison.rows.iter().flat_map(|row| &row.figures);
    if figures.any(|figure| figure.answer.ratio.interval.is_none()) {
        notes.push("-: no interval, too few runs for one.".to_owned());
    }
    if comparison.rows.len() > 1 {
        notes.push(format!(
            "First figures are adjusted for {} rows (Holm); the others explain, each at its own level.",
            comparison.rows.len()
        ));
    }
    Noted { table, notes }
}

fn decision_word(figure: &Figure) -> &'static str {
    match figure.decision {
        Decision::Faster | Decision::Slower if !figure.metric.is_judged() => "differs",
        Decision::Faster => "better",
        Decision::Slower => "worse",
        Decision::Equivalent => "same",
        Decision::Inconclusive => "undecided",
    }
}

/// Where the figure that answers each row scatters, a sentence each.
#[must_use]
pub fn noise_lines(comparison: &Comparison) -> Vec<String> {
    let of_row = |row: &RowComparison| {
        let (first, noise) = (row.figures.first()?, row.noise.as_ref()?);
        let name =
            if comparison.rows.len() > 1 { format!("{}: ", row.name) } else { String::new() };
        let levels = [
            (noise.between_pairs, "from pair to pair, which pairing takes out"),
            (noise.within_pairs, "within a pair"),
            (noise.between_runs, "from run to run"),
            (noise.inside_runs, "from repeat to repeat inside a run"),
        ];
        let known: Vec<(Estimate, &str)> =
            levels.into_iter().filter_map(|(of, words)| Some((of?, words))).collect();
        let words = known.iter().map(|(of, words)| format!("{} {words}", scatter(of)));
        let (words, all): (Vec<_>, Vec<_>) = words.zip(known.iter().map(|(of, _)| *of)).unzip();
        let intervals = scatter_intervals(&all);
        Some(format!(
            "{name}{} scattered by {} ({intervals}).",
            first.metric.words(),
            words.join(", ")
        ))
    };
    comparison.rows.iter().filter_map(of_row).collect()
}

/// Text has whole distributions where there are so many at most.
const SHIFTS_WHOLE: usize = 2;

/// The distributions that can be compared; without those of runs too few for intervals.
#[must_use]
pub fn shifts(comparison: &Comparison) -> Vec<(&RowComparison, &ClassShift)> {
    let rows = comparison.rows.iter();
    let all = rows.flat_map(|row| row.shifts.iter().map(move |shift| (row, shift)));
    all.filter(|(_, shift)| shift.deciles.iter().all(|of| of.ratio.interval.is_some())).collect()
}

/// The latencies of both sides at each tenth of the requests, or at three of them where there are more than `whole_max`
/// distributions; none where the runs are too few for intervals.
#[must_use]
pub fn shift_rows(comparison: &Comparison, whole_max: usize) -> Option<Noted> {
    let all = shifts(comparison);
    let columns = [
        ("of the requests", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("interval", Align::Right),
    ];
    let mut table = Table::new(columns, 3);
    let mut uneven = Vec::new();
    for (row, shift) in &all {
        let name = format!("{}, {}", row.name, shift.class.word());
        table.row([name.as_str()]);
        let is_shown = |at: &usize| all.len() <= whole_max || [0, 4, 8].contains(at);
        for at in (0..shift.deciles.len()).filter(is_shown) {
            let of = &shift.deciles[at];
            table.row([
                format!("  {:.0} % within", 100.0 * of.quantile),
                Metric::LatencyNsP50(shift.class).text(of.a_ns),
                Metric::LatencyNsP50(shift.class).text(of.b_ns),
                change_with(of.ratio.value, of.ratio.interval),
                of.ratio.interval.map_or_else(|| "-".to_owned(), interval),
            ]);
        }
        if shift.is_uneven() {
            uneven.push(format!("{name}: the slow requests changed otherwise than the fast ones."));
        }
    }
    let mut notes = vec![
        "Whole distributions of latency, each interval by itself: that all hold at once is less likely."
            .to_owned(),
    ];
    if all.len() > whole_max {
        notes.push("Every tenth: fathom compare --json.".to_owned());
    }
    notes.extend(uneven);
    (!all.is_empty()).then_some(Noted { table, notes })
}

/// Everything that differed, as a table; that there was nothing, where there was not.
#[must_use]
pub fn differences_text(differences: &[Difference], width: usize) -> String {
    let table = difference_rows(differences, &cut);
    if table.is_empty() { format!("{NO_DIFFERENCE}\n") } else { table.render_to(0, width) }
}

/// Said when both sides are alike.
pub const NO_DIFFERENCE: &str = "Nothing that fathom records differed between A and B.";

/// Everything that differed, by what it means; `shown` is how values are shortened.
#[must_use]
pub fn difference_rows(differences: &[Difference], shown: &dyn Fn(&str) -> String) -> Table {
    let mut table = Table::new(
        [("Differed", Align::Left), ("A", Align::Left), ("B", Align::Left), ("", Align::Left)],
        3,
    );
    for difference in differences {
        let meaning = match difference.weight {
            Weight::Voids => "another thing",
            Weight::Confounder => "may be the cause",
            Weight::Factor => "under test",
            Weight::Consequence => "follows",
            Weight::Background => "",
        };
        let values = |values: &[String]| shown(&values.join(", "));
        table.row([
            difference.what.clone(),
            values(&difference.a),
            values(&difference.b),
            meaning.to_owned(),
        ]);
    }
    table
}

/// Longer values are cut: the whole is in `--json`.
fn cut(text: &str) -> String {
    const CHARS_MAX: usize = 30;
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(CHARS_MAX - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::text::WIDTH;
    use expect_test::expect;
    use fathom_model::host::HostFacts;
    use fathom_model::record::{ClassRecord, OpClass, RunHead, RunKind};
    use fathom_stats::Histogram;
    use fathom_study::compare::{Options, Run, Side, compare};

    fn head(side: &str, block: i64) -> RunHead {
        RunHead {
            id: format!("{side}{block}"),
            kind: RunKind::Run,
            label: None,
            command: "fathom run randread /srv".into(),
            target: "/srv".into(),
            started_unix_ns: 0,
            host: HostFacts::default(),
            fathom_version: "0.1.0".into(),
        }
    }

    /// Runs made in turn: B reads `ratio` times as much.
    fn text(ratio: f64, blocks: i64) -> String {
        let side = |name: &str, ratio: f64, shift: i64| {
            let run = |block: i64| {
                let count = (ratio * 60_000.0 * (1.0 + 0.002 * block as f64)) as u64;
                let mut latency_ns = Histogram::new();
                latency_ns.record_n(5_000_000, count);
                let class = ClassRecord { class: OpClass::Read, latency_ns, bytes: count * 4096 };
                let mut record = sample::record("randread", "read", vec![class]);
                // Each pair the other way round than the one before.
                record.started_unix_ns =
                    10 * block + if block % 2 == 0 { shift } else { 5 - shift };
                record.jobs[0].engine.depth = 64;
                Run { head: head(name, block), records: vec![record], unfinished: None }
            };
            Side { name: name.into(), runs: (0..blocks).map(run).collect() }
        };
        let (a, b) = (side("before", 1.0, 0), side("after", ratio, 5));
        let mut found = compare(&a, &b, &Options::default());
        // What the sample itself is blamed for is no matter here.
        found.findings.retain(|finding| finding.id != "side-not-trusted");
        comparison_text(&found, WIDTH)
    }

    #[test]
    fn a_difference() {
        expect![[r#"
            A is before, B is after.
            read: B is 12.0 % faster (+12.0 to +12.0 %), 8 pairs; read p99: no difference larger than 3 %.

                                A        B    change           interval
            read
              IOPS          1 007    1 128   +12.0 %   +12.0 to +12.0 %   better
              read p99     5.0 ms   5.0 ms    +0.0 %     +0.0 to +0.0 %   same
              read p50     5.0 ms   5.0 ms    +0.0 %     +0.0 to +0.0 %   same
              read p99.9   5.0 ms   5.0 ms    +0.0 %     +0.0 to +0.0 %   same
            Medians over runs; changes are ratios B / A (Hodges-Lehmann) with intervals of 95 % by ranks.
            IOPS scattered by 0.49 % (0.31 to 0.82 %) from pair to pair, which pairing takes out, 0.00 % (0.00 to 0.00 %)
            within a pair (intervals of 95 %).

            of the requests        A        B   change         interval
            read, read
              10 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              20 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              30 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              40 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              50 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              60 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              70 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              80 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
              90 % within     5.0 ms   5.0 ms   +0.0 %   +0.0 to +0.0 %
            Whole distributions of latency, each interval by itself: that all hold at once is less likely.

            Nothing that fathom records differed between A and B.

            TRUSTED
        "#]].assert_eq(&text(1.12, 8));
    }

    #[test]
    fn single_runs() {
        expect![[r#"
            A is before, B is after.
            read: B's IOPS: x 5.00 in these runs, too few to decide, 1 against 1 runs; read p99: +0.0 % in these runs, too
            few to decide.

                                A        B   change   interval
            read
              IOPS          1 000    5 000   x 5.00          -   undecided
              read p99     5.0 ms   5.0 ms   +0.0 %          -   undecided
              read p50     5.0 ms   5.0 ms   +0.0 %          -   undecided
              read p99.9   5.0 ms   5.0 ms   +0.0 %          -   undecided
            Medians over runs; changes are ratios B / A (Hodges-Lehmann) with intervals of 95 % by ranks.
            -: no interval, too few runs for one.

            Nothing that fathom records differed between A and B.

            TRUSTED
              note  read: 1 against 1 runs cannot decide anything at 95 %: the ratios are those of these runs only
                    at least 6 pairs made in turn: A, B, B, A, A, B, ... each with its own --label
        "#]].assert_eq(&text(5.0, 1));
    }

    #[test]
    fn sides_without_a_common_row_are_void_first_and_not_called_alike() {
        let side = |name: &str, labels: [&str; 2], depth: u32| {
            let record = |label| {
                let mut record = sample::record("randread", label, Vec::new());
                record.workload.jobs[0].depth = depth;
                record
            };
            let run =
                Run { head: head(name, 1), records: labels.map(record).into(), unfinished: None };
            Side { name: name.into(), runs: vec![run] }
        };
        let (a, b) = (side("a", ["x", "y"], 1), side("b", ["v", "w"], 32));
        let found = compare(&a, &b, &Options::default());
        let text = comparison_text(&found, WIDTH);
        assert!(found.rows.is_empty() && text.contains("Only A has: x; y"), "{text}");
        assert!(text.contains("workload.depth   1   32") && !text.contains("Medians"), "{text}");
        assert!(text.find("VOID") < text.find("Only A has"), "{text}");
        let same =
            compare(&side("a", ["x", "y"], 1), &side("b", ["v", "w"], 1), &Options::default());
        assert!(!comparison_text(&same, WIDTH).contains(NO_DIFFERENCE), "nothing was compared");
    }
}
