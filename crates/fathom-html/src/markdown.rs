//! A page as Markdown, to be pasted into an issue or a wiki: GitHub's dialect, which GitLab, Gitea and most wikis read too.
//!
//! Pictures become the figures that they draw, folded away; what is too long for an issue is cut, and it is said where the rest
//! is. Nothing that a record holds can become a link, a mention, a heading or HTML.

#[cfg(test)]
mod tests;

use crate::html::MARK;
use crate::page::{Align, Axis, Block, Cell, Chart, Column, Page, Point, Row, Table, Unit};
use fathom_base::order::Order;
use fathom_base::printable::is_acting;
use fathom_base::units::{format_count, format_ns, format_range, format_rate, format_size};
use fathom_model::finding::{Finding, Severity};
use fathom_report::text::format_share;
use std::fmt::Write;

/// Rows of a table; an issue bears about 65 000 characters.
const ROWS_MAX: usize = 200;
/// Points of a chart: more are no table that people read.
const POINTS_MAX: usize = 60;

/// The whole page.
#[must_use]
pub fn markdown(page: &Page) -> String {
    // A comment that nobody sees: by it a file is known as a report that may be overwritten.
    let mut out = format!("<!-- {MARK} -->\n");
    let _ = writeln!(out, "# {}\n", inline(&page.question));
    if !page.answer.is_empty() {
        let _ = writeln!(out, "**{}**\n", inline(&page.answer));
    }
    if let Some(verdict) = page.verdict {
        let _ = writeln!(out, "Verdict: **{}**. {}\n", verdict.word(), line(&page.title));
    }
    page.first.iter().for_each(|block| push_block(&mut out, block));
    for section in &page.sections {
        let _ = writeln!(out, "## {}\n", inline(&section.heading));
        if !section.note.is_empty() {
            let _ = writeln!(out, "{}\n", line(&section.note));
        }
        section.blocks.iter().for_each(|block| push_block(&mut out, block));
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn push_block(out: &mut String, block: &Block) {
    match block {
        Block::Text(text) => {
            let _ = writeln!(out, "{}\n", line(text));
        }
        Block::Plain(text) => push_code(out, "", text),
        Block::Table(table) => push_table(out, table),
        Block::Chart(chart) => push_chart(out, chart),
        Block::Stack(stack) => push_code(out, "", &fathom_check::tree(stack).join("\n")),
        Block::Findings(findings) => push_findings(out, findings),
        Block::Command { caption, command } => {
            let _ = writeln!(out, "{}:\n", line(caption));
            push_code(out, "sh", command);
        }
    }
}

/// A line of its own: as [`inline`], and no list or heading by its first character.
fn line(text: &str) -> String {
    let text = inline(text);
    let starts_something = text.starts_with(['#', '+', '-', '=']) && !text.starts_with("#<!--");
    if starts_something { format!("\\{text}") } else { text }
}

/// Text in which no character means anything to Markdown, without line breaks.
fn inline(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(joined.len() + 8);
    let mut rest = joined.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied();
        let next_is = |of: fn(char) -> bool| next.is_some_and(of);
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Mentions and numbers of issues are looked for in what is shown: only something between takes them apart.
            '@' if next_is(char::is_alphanumeric) => out.push_str("@<!-- -->"),
            '#' if next_is(|next| next.is_ascii_digit()) => out.push_str("#<!-- -->"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => out.extend(['\\', c]),
            c if is_acting(c) => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// Lines as they are, behind a fence that is longer than any in them.
fn push_code(out: &mut String, language: &str, text: &str) {
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    let clean: String =
        text.chars().map(|c| if is_acting(c) && c != '\n' { '?' } else { c }).collect();
    let _ = writeln!(out, "{fence}{language}\n{}\n{fence}\n", clean.trim_end());
}

fn push_findings(out: &mut String, findings: &[Finding]) {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    for finding in &sorted {
        let word = match finding.severity {
            Severity::Note => "note",
            Severity::Doubtful => "**doubtful**",
            Severity::Void => "**void**",
        };
        let _ = writeln!(out, "- {word}: {}", inline(&finding.summary));
        for advice in &finding.advice {
            let _ = writeln!(out, "  - {}", line(advice));
        }
    }
    if !sorted.is_empty() {
        out.push('\n');
    }
}

fn push_table(out: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    if !table.caption.is_empty() {
        let _ = writeln!(out, "**{}**\n", inline(&table.caption));
    }
    let has_remarks = table.rows.iter().any(|row| !row.remark.is_empty());
    let used = table.used();
    let title = |column: &Column| match column.unit.as_str() {
        "" => inline(&column.title),
        unit => format!("{} [{}]", inline(&column.title), inline(unit)),
    };
    let mut titles: Vec<String> = used.iter().map(|at| title(&table.columns[*at])).collect();
    let mut rules: Vec<&str> = used
        .iter()
        .map(|at| if table.columns[*at].align == Align::Right { "---:" } else { "---" })
        .collect();
    if has_remarks {
        titles.push(String::new());
        rules.push("---");
    }
    let _ = writeln!(out, "| {} |\n| {} |", titles.join(" | "), rules.join(" | "));
    for row in table.rows.iter().take(ROWS_MAX) {
        let mut cells: Vec<String> = used.iter().map(|at| inline(text_of(row, *at))).collect();
        if has_remarks {
            cells.push(inline(&row.remark));
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out.push('\n');
    if table.rows.len() > ROWS_MAX {
        let _ = writeln!(
            out,
            "The first {ROWS_MAX} of {} rows; the HTML report has all.\n",
            table.rows.len()
        );
    }
    for note in &table.notes {
        let _ = writeln!(out, "{}\n", line(note));
    }
}

fn text_of(row: &Row, at: usize) -> &str {
    row.cells.get(at).map_or("", |cell: &Cell| cell.text.as_str())
}

fn push_chart(out: &mut String, chart: &Chart) {
    if chart.is_empty() {
        return;
    }
    let points: usize = chart.series.iter().map(|series| series.points.len()).sum();
    let n = if chart.n.is_empty() { String::new() } else { format!(" ({})", inline(&chart.n)) };
    if points > POINTS_MAX {
        let _ = writeln!(
            out,
            "**{}**{n}: {points} points, drawn in the HTML report.\n",
            inline(&chart.title)
        );
        return;
    }
    let _ = writeln!(
        out,
        "<details><summary>{}{n}</summary>\n",
        inline(&chart.title).replace('\\', "")
    );
    push_table(out, &points_table(chart));
    for note in [&chart.interval, &chart.note, &chart.reduction] {
        if !note.is_empty() {
            let _ = writeln!(out, "{}\n", line(note));
        }
    }
    out.push_str("</details>\n\n");
}

/// The points of a chart as rows.
fn points_table(chart: &Chart) -> Table {
    let column = |axis: &Axis| match axis.categories.is_empty() {
        true => Column::right(axis.title.clone()),
        false => Column::left(axis.title.clone()),
    };
    let is_map = chart.scale.is_some();
    let mut columns = Vec::new();
    if chart.series.len() > 1 {
        columns.push(Column::left("series"));
    }
    columns.extend([column(&chart.x), column(&chart.y)]);
    match &chart.scale {
        Some(scale) => columns.push(column(scale)),
        None => columns.push(Column::right("interval")),
    }
    let mut table = Table::new("", columns);
    for series in &chart.series {
        for point in &series.points {
            let mut row = Vec::new();
            if chart.series.len() > 1 {
                row.push(series.name.clone());
            }
            row.push(on(&chart.x, point.x));
            row.push(on(&chart.y, point.y));
            row.push(match (&chart.scale, point.weight) {
                (Some(scale), Some(weight)) => on(scale, weight),
                _ if is_map => String::new(),
                _ => interval(&chart.y, point),
            });
            table.row(row);
        }
    }
    table
}

fn interval(axis: &Axis, point: &Point) -> String {
    match (point.low, point.high) {
        (Some(low), Some(high)) => format_range(&on(axis, low), &on(axis, high)),
        _ => String::new(),
    }
}

/// A coordinate as people read it.
fn on(axis: &Axis, at: f64) -> String {
    if let Some(name) = axis.categories.get(at.max(0.0) as usize) {
        return name.clone();
    }
    match axis.unit {
        Unit::Nanoseconds if at >= 0.0 => format_ns(at.round() as u64),
        Unit::Seconds => format!("{} s", digits(at)),
        Unit::UnixSeconds => utc(at),
        Unit::PerSecond if at >= 1000.0 => format!("{}/s", format_count(at.round() as u64)),
        Unit::PerSecond => format!("{}/s", digits(at)),
        Unit::BytesPerSecond => format_rate(at),
        Unit::Bytes if at >= 0.0 => format_size(at.round() as u64),
        Unit::Share if at >= 0.0 => format_share(at),
        Unit::Share => format!("-{}", format_share(-at)),
        Unit::Nines => format!("{} %", digits(100.0 * at)),
        _ => digits(at),
    }
}

/// Four digits that count.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let after = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.after$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn utc(unix_s: f64) -> String {
    let time = jiff::Timestamp::from_millisecond((unix_s * 1000.0).round() as i64);
    time.map_or_else(|_| digits(unix_s), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}
