//! Paragraphs, tables, findings, commands.

use super::escape::{prose, text};
use super::{Counter, chart, class, stack};
use crate::page::{Align, Block, Cell, Table};
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity};
use fathom_report::findings::is_command;
use std::fmt::Write;

pub(super) fn push(out: &mut String, block: &Block, counter: &mut Counter) {
    match block {
        Block::Text(paragraph) => {
            let _ = writeln!(out, "<p>{}</p>", prose(paragraph));
        }
        Block::Plain(lines) => {
            let lines = text(lines.trim_end_matches('\n'));
            let _ = writeln!(out, "<pre class=\"scroll\" tabindex=\"0\">{lines}</pre>");
        }
        Block::Table(table) => push_table(out, table),
        Block::Chart(drawn) => chart::push(out, drawn, counter),
        Block::Stack(layers) => stack::push(out, layers),
        Block::Findings(findings) => push_findings(out, findings),
        Block::Command { caption, command } => {
            let (caption, command) = (text(caption), text(command));
            let _ = writeln!(
                out,
                "<div class=\"command\"><p>{caption}:</p>\n<pre class=\"scroll\" tabindex=\"0\"><code>{command}</code></pre></div>"
            );
        }
    }
}

fn push_findings(out: &mut String, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    // Stable: findings of one severity stay in their order.
    sorted.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    out.push_str("<ul class=\"findings\">\n");
    for finding in sorted {
        let (word, class) = match finding.severity {
            Severity::Note => ("note", "is-note"),
            severity @ Severity::Doubtful => ("doubtful", class(severity)),
            severity @ Severity::Void => ("void", class(severity)),
        };
        let summary = prose(&finding.summary);
        let id = text(&finding.id);
        let _ = write!(
            out,
            "<li class=\"{class}\"><p><span class=\"word\" title=\"{id}\">{word}</span> {summary}</p>"
        );
        for line in &finding.advice {
            let (begin, end) = if is_command(line) { ("<code>", "</code>") } else { ("", "") };
            let _ = write!(out, "\n<p class=\"advice\">{begin}{}{end}</p>", text(line));
        }
        out.push_str("</li>\n");
    }
    out.push_str("</ul>\n");
}

fn push_table(out: &mut String, table: &Table) {
    let sortable = if table.is_sortable { " class=\"sortable\"" } else { "" };
    let _ = writeln!(out, "<div class=\"scroll\" tabindex=\"0\"><table{sortable}>");
    if !table.caption.is_empty() {
        let _ = writeln!(out, "<caption><span>{}</span></caption>", text(&table.caption));
    }
    out.push_str("<thead><tr>");
    let used = table.used();
    for column in used.iter().map(|at| &table.columns[*at]) {
        let unit = if column.unit.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"unit\">{}</span>", text(&column.unit))
        };
        let title = text(&column.title);
        let _ = write!(out, "<th scope=\"col\"{}>{title}{unit}</th>", number(column.align));
    }
    let with_remarks = table.rows.iter().any(|row| !row.remark.is_empty());
    if with_remarks {
        out.push_str("<th scope=\"col\"></th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    let none = Cell { text: String::new(), value: None };
    for row in &table.rows {
        out.push_str(if row.remark.is_empty() { "<tr>" } else { "<tr class=\"marked\">" });
        for at in &used {
            let cell = row.cells.get(*at).unwrap_or(&none);
            push_cell(out, cell, table.columns[*at].align, *at == 0);
        }
        if with_remarks {
            let _ = write!(out, "<td class=\"remark\">{}</td>", prose(&row.remark));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for note in &table.notes {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", prose(note));
    }
}

/// The first cell of a row says what the row is about; spaces before it are its depth.
fn push_cell(out: &mut String, cell: &Cell, align: Align, is_first: bool) {
    let words = cell.text.trim_start_matches(' ');
    let depth = cell.text.len() - words.len();
    let value = cell.value.map_or_else(String::new, |value| format!(" data-v=\"{value}\""));
    let words = if align == Align::Left { prose(words) } else { text(words) };
    if is_first && align == Align::Left {
        let indent = match depth {
            0 => "",
            1..3 => " class=\"in1\"",
            _ => " class=\"in2\"",
        };
        let _ = write!(out, "<th scope=\"row\"{indent}{value}>{words}</th>");
    } else {
        let _ = write!(out, "<td{}{value}>{words}</td>", number(align));
    }
}

fn number(align: Align) -> &'static str {
    match align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    }
}
