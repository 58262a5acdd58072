//! What a table of foreign results says.

use crate::table::{Align, Table as Columns};
use crate::text::{printable, push_wrapped_to};
use fathom_base::units::format_range;
use fathom_stats::equivalence::{Better, Decision};
use fathom_study::table::{
    Answers, Best, Comparison, Copied, Difference, Group, InFlight, LITTLE_TOLERANCE, LikeOneDisk,
    PAIRS_MIN, Paired, Question, Role, Sweep, Table,
};
use std::fmt::Write;

/// So many levels are shown of each ranking.
const RANKS: [&str; 4] = ["best", "second", "third", "fourth"];

/// The cure where columns that are no settings count as such.
const SKIP: &str = "--columns=NAME:skip leaves a column out that is no setting";

/// What was found, for people, in lines of `width` columns; `name` is that of the file.
#[must_use]
pub fn text(name: &str, table: &Table, answers: &Answers, width: usize) -> String {
    let mut text = String::new();
    add_columns(&mut text, width, name, table);
    add_law(&mut text, width, table, answers);
    for copied in &answers.copies {
        add_copy(&mut text, width, copied, &answers.left_out);
    }
    if let Some(rows) = &answers.one_disk {
        add_one_disk(&mut text, width, table, rows);
    }
    for (question, sweeps) in &answers.sweeps {
        push_paragraph(
            &mut text,
            width,
            &format!("{} by {}", with_unit(question), question.parts[0]),
        );
        text += &sweep_rows(question, sweeps, width);
    }
    for (question, best) in &answers.best {
        let line = format!("{}, the best of each {}", with_unit(question), question.parts[0]);
        push_paragraph(&mut text, width, &line);
        text += &best_rows(best, width);
        push_wrapped_to(
            &mut text,
            width,
            "  ",
            "Single rows have no interval: --compare pairs two of them.",
        );
    }
    for (question, comparison) in &answers.comparisons {
        let [factor, a, b, ..] = question.parts.as_slice() else { continue };
        push_wrapped_to(
            &mut text,
            width,
            "\n",
            &format!("{}: {factor} {b} against {a}", with_unit(question)),
        );
        push_wrapped_to(&mut text, width, "  ", &sentence(factor, comparison));
    }
    text
}

fn add_columns(text: &mut String, width: usize, name: &str, table: &Table) {
    push_wrapped_to(
        text,
        width,
        "",
        &format!("{name}: {} rows, each taken for a single run", table.len()),
    );
    let named = |is_wanted: fn(Role) -> bool| -> Vec<&str> {
        let wanted = table.columns().iter().filter(|column| is_wanted(column.role));
        wanted.map(|column| column.name.as_str()).collect()
    };
    let kinds = [
        ("  factors  ", named(|role| role == Role::Factor)),
        ("  metrics  ", named(|role| matches!(role, Role::Metric(_)))),
        ("  skipped  ", named(|role| role == Role::Skip)),
    ];
    for (first, names) in kinds {
        if !names.is_empty() {
            push_wrapped_to(text, width, first, &names.join(", "));
        }
    }
}

fn add_law(text: &mut String, width: usize, table: &Table, answers: &Answers) {
    let Some((law, rows)) = &answers.law else { return };
    let good = rows.iter().filter(|row| !row.breaks_law());
    let good: Vec<f64> = good.map(InFlight::deviation).collect();
    let least = good.iter().copied().fold(f64::INFINITY, f64::min);
    let most = good.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let within = LITTLE_TOLERANCE * 100.0;
    let (count, of) = (good.len(), rows.len());
    let mut line = format!("Little's law, {law}: {count} of {of} rows within {within} %");
    if !good.is_empty() {
        let _ = write!(line, " ({})", format_range(&percent(least), &percent(most)));
    }
    push_paragraph(text, width, &line);
    for row in answers.broken() {
        let line = format!(
            "line {} ({}): {:.1} in flight, stated {}: {}",
            row.line,
            named(&table.factors_of(row.line)),
            row.computed,
            row.stated,
            percent(row.deviation())
        );
        push_wrapped_to(text, width, "  ", &line);
    }
}

fn add_copy(text: &mut String, width: usize, copied: &Copied, left_out: &[usize]) {
    let (earlier, later) = copied.lines;
    let which = match left_out.iter().find(|line| **line == earlier || **line == later) {
        Some(line) => format!(
            "line {line} is the copy, because it does not fit its own factors; it is left out of what follows"
        ),
        None => "one is a copy, which of them does not show; both count below".to_owned(),
    };
    let line = format!(
        "line {later} ({}) has the figures of line {earlier} ({}): {which}",
        named(&copied.later),
        named(&copied.earlier)
    );
    push_paragraph(text, width, &line);
}

fn add_one_disk(text: &mut String, width: usize, table: &Table, rows: &[LikeOneDisk]) {
    if rows.is_empty() {
        push_paragraph(text, width, "No row of an array is that of one disk.");
        return;
    }
    push_paragraph(
        text,
        width,
        "Arrays that do the work of one disk (sick, or held up by one member):",
    );
    for row in rows {
        let line = format!(
            "line {} ({}): {} per second of {} disks with {} in flight, {:.0} and more are expected",
            row.line,
            named(&table.factors_of(row.line)),
            row.per_s,
            row.disks,
            row.in_flight,
            row.expected_per_s
        );
        push_wrapped_to(text, width, "  ", &line);
    }
}

/// `total_iops (1/s)`.
fn with_unit(question: &Question) -> String {
    match question.unit.as_str() {
        "" => question.metric.clone(),
        unit => format!("{} ({unit})", question.metric),
    }
}

/// `threads 512, disk sda`.
fn named(group: &Group) -> String {
    let words: Vec<String> = group.iter().map(|(name, value)| format!("{name} {value}")).collect();
    words.join(", ")
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A line after an empty one.
fn push_paragraph(text: &mut String, width: usize, line: &str) {
    text.push('\n');
    push_wrapped_to(text, width, "", line);
}

/// Columns for the factors of a group, then these.
fn columns(group: Option<&Group>, others: &[&str]) -> Columns {
    let factors = group.into_iter().flatten().map(|(name, _)| (printable(name), Align::Left));
    let others = others.iter().map(|title| (printable(title), Align::Right));
    let titles: Vec<(String, Align)> = factors.chain(others).collect();
    Columns::new(titles.iter().map(|(title, align)| (title.as_str(), *align)), 2)
}

fn sweep_rows(question: &Question, sweeps: &[Sweep], width: usize) -> String {
    let x = question.parts[0].as_str();
    let titles = [x, "first", "last", "ratio", "peak", "stops growing"];
    let mut rows = columns(sweeps.first().map(|sweep| &sweep.group), &titles);
    let at = |(x, y): (f64, f64)| format!("{y} at {x}");
    for sweep in sweeps {
        let (Some(first), Some(last)) = (sweep.points.first(), sweep.points.last()) else {
            continue;
        };
        let mut cells: Vec<String> = sweep.group.iter().map(|(_, value)| value.clone()).collect();
        cells.extend([
            format!("{} to {}", first.0, last.0),
            first.1.to_string(),
            last.1.to_string(),
        ]);
        cells.push(sweep.gain().map_or_else(String::new, |gain| format!("x {gain:.2}")));
        if question.better == Better::Higher && sweep.points.len() > 2 {
            cells.push(sweep.peak().map_or_else(String::new, at));
            cells.push(sweep.knee().map_or_else(|| "not yet".to_owned(), at));
        }
        rows.row(cells);
    }
    if rows.is_empty() {
        format!("  no two rows differ in nothing else; {SKIP}\n")
    } else {
        rows.render_to(2, width)
    }
}

fn best_rows(best: &[Best], width: usize) -> String {
    let mut rows = columns(best.first().map(|best| &best.group), &RANKS);
    for one in best {
        let levels = one.ranking.iter().take(RANKS.len());
        let levels = levels.map(|ranked| format!("{} {}", ranked.level, ranked.value));
        rows.row(one.group.iter().map(|(_, value)| value.clone()).chain(levels));
    }
    rows.render_to(2, width)
}

fn sentence(factor: &str, comparison: &Comparison) -> String {
    let paired = match comparison {
        Comparison::Paired(paired) => paired,
        Comparison::NotComparable(differing) => {
            let also: Vec<String> = differing.iter().map(also).collect();
            return format!(
                "not comparable: no two rows differ in {factor} alone; the nearest also differ in {}; {SKIP}",
                also.join(", ")
            );
        }
    };
    let change = paired.answer.change_percent();
    let percent = |percent: f64| format!("{percent:+.1} %");
    let range = change.interval.map(|interval| interval.range(percent));
    let known = range.unwrap_or_else(|| "too few for an interval".to_owned());
    let mut text = format!("{} ({known})", percent(change.value));
    let pairs = if paired.pairs.len() == 1 { "pair" } else { "pairs" };
    let _ = write!(text, ", {} {pairs}: {}", paired.pairs.len(), decision(paired));
    if paired.unmatched > 0 {
        let _ = write!(text, "; not matched: {}", paired.unmatched);
    }
    text
}

fn also(difference: &Difference) -> String {
    format!("{} ('{}' and '{}')", difference.factor, difference.a, difference.b)
}

fn decision(paired: &Paired) -> String {
    let margin = paired.answer.question.margin_percent;
    match paired.answer.decision {
        Decision::Faster => "better".to_owned(),
        Decision::Slower => "worse".to_owned(),
        Decision::Equivalent => format!("no difference larger than {margin} %"),
        Decision::Inconclusive if paired.pairs.len() < PAIRS_MIN => {
            format!("inconclusive, rows of single runs need at least {PAIRS_MIN}")
        }
        Decision::Inconclusive => "inconclusive".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use fathom_study::table::{Questions, parse_column};

    /// Injected: line 9 is line 8 again, in which 16 requests were in flight.
    const ROWS: &str = "\
array,fs,threads,iops,ms
md,xfs,1,100.5,9.95
md,xfs,8,480.25,16.6
md,xfs,16,500.75,31.9
md,xfs,32,501.5,63.8
hw,xfs,1,120.5,8.29
hw,xfs,8,420.25,19.0
hw,xfs,16,450.752,35.4961
hw,xfs,32,450.752,35.4961
raw,none,8,500.0,16.0
";

    fn told(said: &[&str], questions: &Questions<'_>) -> String {
        let said: Vec<_> = said.iter().map(|text| parse_column(text).unwrap()).collect();
        let table = Table::parse(ROWS, &said).unwrap();
        text("old.csv", &table, &table.ask(questions).unwrap(), crate::text::WIDTH)
    }

    #[test]
    fn a_table_with_a_copied_row() {
        let said = ["iops:higher:1/s", "ms:lower:ms"];
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let questions = Questions {
            little: Some("threads=iops*ms"),
            one_disk: Some("iops:6:16"),
            sweep: &texts(&["threads:iops", "threads:ms"]),
            best: &texts(&["array:iops:threads"]),
            compare: &texts(&["array:hw:md:iops", "array:hw:raw:iops"]),
        };
        expect![[r#"
            old.csv: 9 rows, each taken for a single run
              factors  array, fs, threads
              metrics  iops, ms

            Little's law, threads=iops*ms: 8 of 9 rows within 5 % (-0.3 to +0.0 %)
              line 9 (array hw, fs xfs, threads 32): 16.0 in flight, stated 32: -50.0 %

            line 9 (threads 32) has the figures of line 8 (threads 16): line 9 is the copy, because it does not fit its
            own factors; it is left out of what follows

            Arrays that do the work of one disk (sick, or held up by one member):
              line 2 (array md, fs xfs, threads 1): 100.5 per second of 6 disks with 16 in flight, 141 and more are
              expected

            iops (1/s) by threads
              array  fs   threads  first     last   ratio           peak  stops growing
              md     xfs  1 to 32  100.5    501.5  x 4.99    501.5 at 32    480.25 at 8
              hw     xfs  1 to 16  120.5  450.752  x 3.74  450.752 at 16    420.25 at 8

            ms (ms) by threads
              array  fs   threads  first     last   ratio
              md     xfs  1 to 32   9.95     63.8  x 6.41
              hw     xfs  1 to 16   8.29  35.4961  x 4.28

            iops (1/s), the best of each array
              threads       best      second      third
              1         hw 120.5    md 100.5
              8          raw 500   md 480.25  hw 420.25
              16       md 500.75  hw 450.752
              32        md 501.5
              Single rows have no interval: --compare pairs two of them.

            iops (1/s): array md against hw
              +4.1 % (too few for an interval), 3 pairs: inconclusive, rows of single runs need at least 6; not matched: 1

            iops (1/s): array raw against hw
              not comparable: no two rows differ in array alone; the nearest also differ in fs ('xfs' and 'none');
              --columns=NAME:skip leaves a column out that is no setting
        "#]].assert_eq(&told(&said, &questions));
    }

    #[test]
    fn nothing_asked() {
        let said = ["iops:higher:1/s", "ms:skip"];
        expect![[r#"
            old.csv: 9 rows, each taken for a single run
              factors  array, fs, threads
              metrics  iops
              skipped  ms
        "#]]
        .assert_eq(&told(&said, &Questions::default()));
    }

    #[test]
    fn what_a_file_says_cannot_command_the_terminal() {
        let said = [parse_column("iops:higher").unwrap()];
        let table =
            Table::parse("a,b\u{1b},iops\nx\u{1b}[2J,1,5\nx\u{1b}[2J,2,6\n", &said).unwrap();
        let sweep = ["b\u{1b}:iops".to_owned()];
        let questions = Questions { sweep: &sweep, ..Questions::default() };
        let text = text("a\u{7}.csv", &table, &table.ask(&questions).unwrap(), 80);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains("x?[2J"), "{text:?}");
    }
}
