//! A chart: a title, a place to draw in, how to read it, and below it the points, from which the page's script draws it.

use super::Counter;
use super::escape::{self, prose, text};
use crate::page::{Axis, Chart, ChartKind, Point, Unit};
use serde_json::{Value, json};
use std::fmt::Write;

/// More points are written as comma-separated values instead of a table: nobody reads them, and a browser shows them sooner.
const TABLE_ROWS_MAX: usize = 400;

pub(super) fn push(out: &mut String, chart: &Chart, counter: &mut Counter) {
    if chart.is_empty() {
        return;
    }
    counter.charts += 1;
    let points: usize = chart.series.iter().map(|series| series.points.len()).sum();
    let n = if chart.n.is_empty() {
        String::new()
    } else {
        format!(" <span class=\"n-of\">{}</span>", prose(&chart.n))
    };
    let _ = writeln!(
        out,
        "<figure class=\"chart\" id=\"chart-{}\">\n<figcaption><strong>{}</strong>{n}</figcaption>\n\
         <div class=\"plot\" role=\"img\" tabindex=\"0\" aria-label=\"{}\"></div>",
        counter.charts,
        text(&chart.title),
        text(&description(chart))
    );
    for line in [&chart.note, &chart.interval, &chart.reduction] {
        if !line.is_empty() {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", prose(line));
        }
    }
    let names = Names::of(chart);
    let columns = Columns::of(chart);
    let points_text =
        if points == 1 { "The 1 point".to_owned() } else { format!("The {points} points") };
    let _ = writeln!(out, "<details><summary>{points_text} of this chart</summary>");
    if points <= TABLE_ROWS_MAX {
        push_table(out, chart, &columns, &names);
    } else {
        push_values(out, chart, &columns, &names);
    }
    let _ = writeln!(
        out,
        "</details>\n<script type=\"application/json\">{}</script>\n</figure>",
        escape::json(&description_of_data(chart, &columns, &names))
    );
}

/// What is read out to those who do not see it.
fn description(chart: &Chart) -> String {
    let kind = match chart.kind {
        ChartKind::Line | ChartKind::Steps => "Line chart",
        ChartKind::Bars | ChartKind::StackedBars => "Bar chart",
        ChartKind::Scatter => "Scatter chart",
        ChartKind::HeatMap => "Heat map",
        ChartKind::Box => "Box chart",
    };
    let series: Vec<&str> = chart.series.iter().take(8).map(|s| s.name.as_str()).collect();
    let marks: Vec<&str> = chart.marks.iter().map(|mark| mark.text.as_str()).collect();
    let mut all = format!("{kind}: {}. {} over {}", chart.title, chart.y.title, chart.x.title);
    if series.len() > 1 {
        all += &format!(", of {}", series.join(", "));
    }
    all += ".";
    for more in [&chart.n, &chart.note, &marks.join("; ")] {
        if !more.is_empty() {
            all += &format!(" {more}");
        }
    }
    all + " The points are in the table below."
}

/// The names of both axes and of the series, each once, because points are found by them.
struct Names {
    x: Vec<String>,
    y: Vec<String>,
    series: Vec<String>,
}

impl Names {
    fn of(chart: &Chart) -> Self {
        Self {
            x: unique(&chart.x.categories),
            y: unique(&chart.y.categories),
            series: unique(chart.series.iter().map(|series| &series.name)),
        }
    }
}

fn unique<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        let mut unique = name.clone();
        let mut number = 1;
        while seen.contains(&unique) {
            number += 1;
            unique = format!("{name} ({number})");
        }
        seen.push(unique);
    }
    seen
}

/// Which columns the points have, and what they are called.
struct Columns(Vec<(&'static str, String)>);

impl Columns {
    fn of(chart: &Chart) -> Self {
        let titled = |axis: &Axis, what: &str| {
            let suffix = if axis.categories.is_empty() { axis.unit.suffix() } else { "" };
            let all = [what, axis.title.as_str(), suffix];
            let words: Vec<&str> = all.into_iter().filter(|word| !word.is_empty()).collect();
            words.join(" ").replace(' ', "_")
        };
        let has = |of: fn(&Point) -> bool| chart.series.iter().flat_map(|s| &s.points).any(of);
        let mut columns = Vec::new();
        if chart.series.len() > 1 {
            columns.push(("series", "series".to_owned()));
        }
        columns.push(("x", titled(&chart.x, "")));
        columns.push(("y", titled(&chart.y, "")));
        if has(|p| p.low.is_some()) {
            columns.push(("low", titled(&chart.y, "low")));
        }
        if has(|p| p.high.is_some()) {
            columns.push(("high", titled(&chart.y, "high")));
        }
        if has(|p| p.quartiles.is_some()) {
            columns.push(("q1", titled(&chart.y, "quartile_1")));
            columns.push(("q3", titled(&chart.y, "quartile_3")));
        }
        if has(|p| p.weight.is_some()) {
            let title = chart.scale.as_ref().map_or("weight".to_owned(), |scale| titled(scale, ""));
            columns.push(("weight", title));
        }
        Self(columns)
    }

    /// The cells of one point, as text.
    fn cells(&self, chart: &Chart, series: usize, point: &Point, names: &Names) -> Vec<String> {
        let on = |axis: &Axis, names: &[String], at: f64| match names.get(at.max(0.0) as usize) {
            Some(name) => name.clone(),
            None if axis.unit == Unit::UnixSeconds => utc(at),
            None => number(at),
        };
        let maybe = |value: Option<f64>| value.map_or_else(String::new, number);
        let cell = |(key, _): &(&str, String)| match *key {
            "series" => names.series[series].clone(),
            "x" => on(&chart.x, &names.x, point.x),
            "y" => on(&chart.y, &names.y, point.y),
            "low" => maybe(point.low),
            "high" => maybe(point.high),
            "q1" => maybe(point.quartiles.map(|(low, _)| low)),
            "q3" => maybe(point.quartiles.map(|(_, high)| high)),
            _ => maybe(point.weight),
        };
        self.0.iter().map(cell).collect()
    }
}

/// Seconds since 1970 as a date that spreadsheets and browsers read.
fn utc(unix_s: f64) -> String {
    let ms = jiff::Timestamp::from_millisecond((unix_s * 1000.0).round() as i64);
    ms.map_or_else(|_| number(unix_s), |time| time.to_string())
}

/// At most ten digits that count, and none that say nothing.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { String::new() };
    }
    let digits = 9 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.*}", digits.min(17) as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn push_table(out: &mut String, chart: &Chart, columns: &Columns, names: &Names) {
    out.push_str("<div class=\"scroll\" tabindex=\"0\"><table class=\"points\"><thead><tr>");
    for (_, title) in &columns.0 {
        let _ = write!(out, "<th scope=\"col\">{}</th>", text(title));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (index, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            out.push_str("<tr>");
            for cell in columns.cells(chart, index, point, names) {
                let _ = write!(out, "<td>{}</td>", text(&cell));
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn push_values(out: &mut String, chart: &Chart, columns: &Columns, names: &Names) {
    out.push_str("<pre class=\"points scroll\" tabindex=\"0\">");
    let titles: Vec<String> = columns.0.iter().map(|(_, title)| escape::csv(title)).collect();
    let _ = writeln!(out, "{}", text(&titles.join(",")));
    for (index, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            let cells = columns.cells(chart, index, point, names);
            let cells: Vec<String> = cells.iter().map(|cell| escape::csv(cell)).collect();
            let _ = writeln!(out, "{}", text(&cells.join(",")));
        }
    }
    out.push_str("</pre>\n");
}

/// Everything about the chart but its points.
fn description_of_data(chart: &Chart, columns: &Columns, names: &Names) -> Value {
    let axis = |axis: &Axis, names: &[String]| {
        json!({
            "title": axis.title,
            "unit": unit(axis.unit),
            "log": axis.is_log,
            "cropped": axis.is_cropped,
            "names": names,
        })
    };
    let marks: Vec<Value> = chart
        .marks
        .iter()
        .map(|mark| json!({ "x": mark.is_on_x, "at": mark.at, "text": mark.text }))
        .collect();
    json!({
        "title": chart.title,
        "kind": kind(chart.kind),
        "x": axis(&chart.x, &names.x),
        "y": axis(&chart.y, &names.y),
        "scale": chart.scale.as_ref().map(|scale| axis(scale, &[])),
        "series": names.series,
        "loose": chart.series.iter().map(|series| series.is_loose).collect::<Vec<_>>(),
        "marks": marks,
        "joined_within": chart.joined_within,
        "columns": columns.0.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
    })
}

fn kind(kind: ChartKind) -> &'static str {
    match kind {
        ChartKind::Line => "line",
        ChartKind::Steps => "steps",
        ChartKind::Bars => "bars",
        ChartKind::StackedBars => "stacked",
        ChartKind::Scatter => "scatter",
        ChartKind::HeatMap => "heat",
        ChartKind::Box => "box",
    }
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Seconds => "s",
        Unit::UnixSeconds => "time",
        Unit::PerSecond => "per_s",
        Unit::BytesPerSecond => "bytes_per_s",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
        Unit::Nines => "nines",
        Unit::Times => "times",
        Unit::Count => "count",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_noise() {
        let of = [0.0, 1.0, 0.1 + 0.2, 1_234_567.25, 1e15, 1.0 / 3.0, -2.5e-7, f64::NAN];
        let texts = of.map(number);
        assert_eq!(
            texts,
            ["0", "1", "0.3", "1234567.25", "1000000000000000", "0.3333333333", "-0.00000025", ""]
        );
        assert_eq!(utc(1_795_230_000.5), "2026-11-21T03:00:00.5Z");
    }

    #[test]
    fn names_are_told_apart() {
        let axis = Axis::names("disk", ["a", "b", "a", "a"]);
        assert_eq!(unique(&axis.categories), ["a", "b", "a (2)", "a (3)"]);
    }
}
