//! Results of one target over time, as text: a line and a bar for each run, and what changed where.

use crate::job::plural;
use crate::ratio::{self, change_with};
use crate::table::{Align, Table};
use crate::text::{format_time, push_wrapped_to};
use fathom_base::order::Order;
use fathom_model::finding::Verdict;
use fathom_stats::interval::Interval;
use fathom_study::history::{Change, Dated, Point, Series};
use jiff::tz::TimeZone;
use std::fmt::Write;

/// Runs shown of each series: the newest.
const SHOWN_MAX: usize = 40;
/// So many rows with a single run are shown each.
const SINGLE_MAX: usize = 8;
/// Width of the longest bar.
const BAR_CHARS: f64 = 40.0;
/// What the other columns take, about.
const OTHERS_CHARS: usize = 76;

/// All series in so many columns; `prefix` gives the shortest name of a run.
#[must_use]
pub fn history_text(
    all: &[Series],
    zone: &TimeZone,
    prefix: &dyn Fn(&str) -> String,
    width: usize,
) -> String {
    let mut out = String::new();
    // Of a search, each step is a row of its own, which the next search may not have.
    let (single, several): (Vec<_>, Vec<_>) = all.iter().partition(|s| s.points.len() < 2);
    let has_searches = single.len() > SINGLE_MAX;
    let shown: Vec<&Series> = if has_searches { several } else { all.iter().collect() };
    for series in shown {
        let _ = writeln!(out, "{}: {}", series.name, series.metric.words());
        out += &runs_table(series, zone, prefix, width);
        let changes = series.changes.iter();
        changes.for_each(|change| out += &change_text(series, change, zone, prefix, width));
        let last = no_change_text(series).into_iter().chain(rise_text(series));
        last.for_each(|text| push_wrapped_to(&mut out, width, "", &text));
        out.push('\n');
    }
    if has_searches {
        let mut runs: Vec<String> =
            single.iter().flat_map(|series| &series.points).map(|p| prefix(&p.run)).collect();
        runs.order();
        runs.dedup();
        let text = format!(
            "{2} with one run each are not shown (for some of them --row=NAME, for all --json); they are of {0}: fathom show {1}",
            runs.join(", "),
            runs.first().map_or("RUN", String::as_str),
            plural(single.len() as u64, "row")
        );
        push_wrapped_to(&mut out, width, "", &text);
    }
    out
}

/// That no change is seen, or could be; none where there is one.
#[must_use]
pub fn no_change_text(series: &Series) -> Option<String> {
    let (have, needed) = (series.points.len(), series.points_needed);
    let runs = plural(have as u64, "run");
    series.changes.is_empty().then(|| {
        if have < needed {
            format!("{runs}: a change can be told from luck from {needed} on.")
        } else {
            let level = series.level.and_then(|level| {
                let text = |value: f64| series.metric.text(value);
                let range = level.interval?.sure_range(text);
                Some(format!(": median {} ({range})", text(level.value)))
            });
            format!("No change of level in {runs}{}.", level.unwrap_or_default())
        }
    })
}

fn runs_table(
    series: &Series,
    zone: &TimeZone,
    prefix: &dyn Fn(&str) -> String,
    width: usize,
) -> String {
    let columns = [
        ("run", Align::Left),
        ("started", Align::Left),
        ("label", Align::Left),
        ("", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns, 2);
    // A bar is no number: it gives way.
    let bar_chars = BAR_CHARS.min(width.saturating_sub(OTHERS_CHARS) as f64).max(BAR_CHARS / 5.0);
    let most = series.points.iter().map(|point| point.value).fold(0.0, f64::max);
    let hidden = series.points.len().saturating_sub(SHOWN_MAX);
    for (index, point) in series.points.iter().enumerate().skip(hidden) {
        let remark = if series.changes.iter().any(|change| change.at == index) {
            "<- changed"
        } else if point.verdict == Verdict::Doubtful {
            "doubtful"
        } else {
            ""
        };
        table.row_with_remark(
            [
                prefix(&point.run),
                format_time(point.started_unix_ns, zone),
                point.label.clone().unwrap_or_default(),
                series.metric.text(point.value),
                bar(point, most, bar_chars),
            ],
            remark,
        );
    }
    let mut out = table.render_to(2, width);
    if hidden > 0 {
        let _ = writeln!(out, "  ({hidden} older runs not shown; --json has all)");
    }
    out
}

fn bar(point: &Point, most: f64, longest_chars: f64) -> String {
    let chars = if most > 0.0 { (point.value / most * longest_chars).round() as usize } else { 0 };
    "#".repeat(chars.max(1))
}

/// A slow decline has no place where it happened; none without one.
#[must_use]
pub fn rise_text(series: &Series) -> Option<String> {
    let percent = series.rise_percent?;
    let how = if percent > 0.0 { "rising" } else { "falling" };
    let first = series.changes.last().map_or(0, |change| change.at);
    let runs = series.points.len() - first;
    let range = series.rise_interval_percent.map_or_else(String::new, |of| {
        let ends = [of.low.abs(), of.high.abs()];
        let of = Interval { low: ends[0].min(ends[1]), high: ends[0].max(ends[1]), ..of };
        format!(" ({})", of.sure_range(|percent| format!("{percent:.1} %")))
    });
    let percent = percent.abs();
    Some(format!(
        "Slowly {how}: by {percent:.1} %{range} over the last {runs} runs, in no single place."
    ))
}

/// How large a change was and since when, in a few words: `-12.0 % (-14.1 to -9.8 %) since 2026-11-21 03:00:00 +00:00`.
#[must_use]
pub fn change_in_brief(series: &Series, change: &Change, zone: &TimeZone) -> String {
    let since = series.points.get(change.at).map_or_else(String::new, |first| {
        format!(" since {}", format_time(first.started_unix_ns, zone))
    });
    size_of(change) + &since
}

fn size_of(change: &Change) -> String {
    let size = change_with(change.to / change.from, change.ratio_interval);
    let range = change.ratio_interval.map(|interval| format!(" ({})", ratio::interval(interval)));
    size + &range.unwrap_or_default()
}

/// What changed where, in so many columns.
#[must_use]
pub fn change_text(
    series: &Series,
    change: &Change,
    zone: &TimeZone,
    prefix: &dyn Fn(&str) -> String,
    width: usize,
) -> String {
    let Some(first) = series.points.get(change.at) else { return String::new() };
    let mut out = String::new();
    let text = format!(
        "{} from run {} on ({}): {} before, {} since",
        size_of(change),
        prefix(&first.run),
        format_time(first.started_unix_ns, zone),
        series.metric.text(change.from),
        series.metric.text(change.to)
    );
    push_wrapped_to(&mut out, width, "", &text);
    if change.differences.is_empty() {
        let runs = if change.within_runs == 1 { "run" } else { "runs" };
        let text = format!(
            "nothing that fathom records differed from one run to the next within {} {runs} of that point",
            change.within_runs
        );
        push_wrapped_to(&mut out, width, "    ", &text);
    }
    for Dated { at, difference } in &change.differences {
        let first = series.points.get(*at).map_or_else(String::new, |first| prefix(&first.run));
        let line = format!(
            "{}: {} -> {}, from run {first} on",
            difference.what,
            difference.a.join(", "),
            difference.b.join(", ")
        );
        push_wrapped_to(&mut out, width, "    ", &line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::WIDTH;
    use expect_test::expect;
    use fathom_study::compare::{Difference, Metric, Weight};

    fn series(values: &[f64], changes: Vec<Change>) -> Series {
        let point = |(index, value): (usize, &f64)| Point {
            run: format!("{index:04}abcdefgh"),
            label: (index == 1).then(|| "after-upgrade".into()),
            started_unix_ns: 86_400_000_000_000 * index as i64,
            value: *value,
            verdict: if index == 0 { Verdict::Doubtful } else { Verdict::Trusted },
        };
        let points = values.iter().enumerate().map(point).collect();
        Series {
            name: "random read".into(),
            metric: Metric::Iops,
            points,
            changes,
            rise_percent: None,
            rise_interval_percent: None,
            level: fathom_stats::interval::median_interval(values, 0.95).ok(),
            points_needed: 4,
        }
    }

    fn text(series: Series) -> String {
        history_text(&[series], &TimeZone::UTC, &|id| id.chars().take(4).collect(), WIDTH)
    }

    #[test]
    fn rows_of_one_run_are_told_in_a_sentence_where_they_are_many() {
        let text = |singles: usize| {
            let one =
                |depth| Series { name: format!("{depth} in flight"), ..series(&[7.0], vec![]) };
            let all: Vec<Series> =
                (0..singles).map(one).chain([series(&[1.0, 2.0], vec![])]).collect();
            history_text(&all, &TimeZone::UTC, &|id| id.chars().take(4).collect(), WIDTH)
        };
        assert!(text(8).contains("7 in flight: IOPS"), "{}", text(8));
        let many = text(9);
        assert!(many.starts_with("random read: IOPS") && !many.contains("in flight"), "{many}");
        assert!(many.contains("9 rows with one run each are not shown"), "{many}");
        assert!(many.contains("they are of 0000"), "{many}");
    }

    #[test]
    fn a_change_with_its_companions() {
        let kernel = Difference {
            what: "host.kernel".into(),
            a: vec!["6.1".into()],
            b: vec!["6.12".into()],
            weight: Weight::Factor,
        };
        let ratio_interval = Some(Interval { low: 0.72, high: 0.78, coverage: 0.95 });
        let differences = vec![Dated { at: 1, difference: kernel }];
        let (from, to, within_runs) = (1000.0, 750.0, 1);
        let change = Change { at: 2, from, to, ratio_interval, within_runs, differences };
        let nothing = Change { differences: Vec::new(), ..change.clone() };
        let text_of_none = text(series(&[1010.0, 990.0, 760.0, 740.0], vec![nothing]));
        assert!(text_of_none.contains("    nothing that fathom records differed from one run"));
        expect![[r#"
            random read: IOPS
              run   started                     label
              0000  1970-01-01 00:00:00 +00:00                 1 010  ##################################   doubtful
              0001  1970-01-02 00:00:00 +00:00  after-upgrade    990  #################################
              0002  1970-01-03 00:00:00 +00:00                   760  ##########################           <- changed
              0003  1970-01-04 00:00:00 +00:00                   740  #########################
            -25.0 % (-28.0 to -22.0 %) from run 0002 on (1970-01-03 00:00:00 +00:00): 1 000 before, 750 since
                host.kernel: 6.1 -> 6.12, from run 0001 on

        "#]].assert_eq(&text(series(&[1010.0, 990.0, 760.0, 740.0], vec![change])));
    }

    #[test]
    fn a_slow_decline() {
        let declining = Series { rise_percent: Some(-4.0), ..series(&[1000.0, 960.0], Vec::new()) };
        let last = "Slowly falling: by 4.0 % over the last 2 runs, in no single place.\n\n";
        assert!(text(declining).ends_with(last));
    }

    #[test]
    fn too_few_runs() {
        expect![[r#"
            random read: IOPS
              run   started                     label
              0000  1970-01-01 00:00:00 +00:00                 1 000  ##################################   doubtful
              0001  1970-01-02 00:00:00 +00:00  after-upgrade    500  #################
            2 runs: a change can be told from luck from 4 on.

        "#]].assert_eq(&text(series(&[1000.0, 500.0], Vec::new())));
    }
}
