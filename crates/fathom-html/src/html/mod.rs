//! A page as one self-contained HTML file: style, scripts and figures are in it, and it asks nobody for anything.
//!
//! It can be read without scripts: every chart has a table of what it draws. The scripts turn those tables into charts.

mod block;
mod chart;
pub mod escape;
pub mod library;
mod stack;
#[cfg(test)]
mod tests;

use crate::page::{Block, Page, Section};
use escape::{prose, text};
use fathom_model::finding::{Severity, Verdict};
use std::fmt::Write;

/// By this a file is known as a report that may be overwritten.
pub const MARK: &str = "<meta name=\"generator\" content=\"fathom report\">";

/// Numbers the charts of a page.
#[derive(Debug, Default)]
struct Counter {
    charts: usize,
}

/// An `id` for each section, none of them twice, whatever headings say; its heading's own ends in `-h`.
fn ids(page: &Page) -> Vec<String> {
    let mut taken = vec!["answer".to_owned()];
    let mut ids = Vec::new();
    for section in &page.sections {
        let slug = escape::slug(&section.heading);
        let is_usable = !slug.is_empty() && !slug.starts_with("chart-");
        let base = if is_usable { slug } else { "section".to_owned() };
        let mut id = base.clone();
        let mut number = 1;
        while taken.contains(&id) || taken.contains(&format!("{id}-h")) {
            number += 1;
            id = format!("{base}-{number}");
        }
        taken.extend([id.clone(), format!("{id}-h")]);
        ids.push(id);
    }
    ids
}

/// The whole file.
#[must_use]
pub fn html(page: &Page) -> String {
    let mut out = String::with_capacity(2 << 20);
    push_head(&mut out, page);
    let mut counter = Counter::default();
    let ids = ids(page);
    push_first_screen(&mut out, page, &ids, &mut counter);
    for (section, id) in page.sections.iter().zip(&ids) {
        push_section(&mut out, section, id, &mut counter);
    }
    let _ = writeln!(
        out,
        "</main>\n<footer><p>Written by fathom {}. Charts are drawn by {}, which is in this file; it needs no network. Every chart \
         has the figures it draws below it, as a table or, where there are many, as comma-separated values.</p></footer>",
        env!("CARGO_PKG_VERSION"),
        text(library::CREDIT)
    );
    let drawn = counter.charts > 0;
    if let Some(library) = library::library().filter(|_| drawn) {
        let _ = writeln!(out, "<script>{library}</script>");
    }
    let _ = writeln!(out, "<script>{}</script>\n</body>\n</html>", library::SCRIPT.trim_end());
    out
}

/// Up to the begin of what is to be read. No host may be asked for anything, and no script may run but these two.
fn push_head(out: &mut String, page: &Page) {
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}' 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
         form-action 'none'",
        library::LIBRARY_SHA256,
        library::SCRIPT_SHA256
    );
    let _ = writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n{MARK}\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#answer\">To the answer</a>",
        text(&page.title),
        library::STYLE
    );
}

/// What was asked, what came out, whether to believe it, and what it was about.
fn push_first_screen(out: &mut String, page: &Page, ids: &[String], counter: &mut Counter) {
    let _ = writeln!(
        out,
        "<header><p class=\"kind\">{}</p>\n<h1>{}</h1></header>\n<main id=\"answer\">\n<div class=\"first\">",
        text(&page.title),
        text(&page.question)
    );
    if !page.answer.is_empty() {
        let _ = writeln!(out, "<p class=\"answer\">{}</p>", prose(&page.answer));
    }
    if let Some(verdict) = page.verdict {
        let _ = writeln!(
            out,
            "<p class=\"verdict {}\"><strong>{}</strong> {}</p>",
            class(severity(verdict)),
            verdict.word(),
            text(meaning(verdict))
        );
    }
    // What the verdict rests on comes first, what is only worth knowing after the rest of the screen.
    let (mut blocks, mut notes) = (page.first.clone(), Vec::new());
    for block in &mut blocks {
        if let Block::Findings(findings) = block {
            notes.extend(findings.extract_if(.., |finding| finding.severity == Severity::Note));
        }
    }
    blocks.push(Block::Findings(notes));
    blocks.iter().for_each(|block| block::push(out, block, counter));
    out.push_str("</div>\n");
    if page.sections.len() > 1 {
        out.push_str("<nav aria-label=\"Contents\"><ul>\n");
        for (section, id) in page.sections.iter().zip(ids) {
            let heading = text(&section.heading);
            let _ = writeln!(out, "<li><a href=\"#{id}\">{heading}</a></li>");
        }
        out.push_str("</ul></nav>\n");
    }
    out.push_str(
        "<noscript><p class=\"note\">Charts need scripts. Everything that they show stands below their titles.</p></noscript>\n",
    );
}

fn push_section(out: &mut String, section: &Section, id: &str, counter: &mut Counter) {
    let heading = text(&section.heading);
    let _ = writeln!(
        out,
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{heading}</h2>"
    );
    if !section.note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", prose(&section.note));
    }
    section.blocks.iter().for_each(|block| block::push(out, block, counter));
    out.push_str("</section>\n");
}

fn severity(verdict: Verdict) -> Severity {
    match verdict {
        Verdict::Trusted => Severity::Note,
        Verdict::Doubtful => Severity::Doubtful,
        Verdict::Void => Severity::Void,
    }
}

fn class(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "is-good",
        Severity::Doubtful => "is-doubtful",
        Severity::Void => "is-void",
    }
}

fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Trusted => "No check found a reason to doubt these figures.",
        Verdict::Doubtful => "The figures may be off.",
        Verdict::Void => {
            "Do not use these figures: the measurement is invalid for the reasons below."
        }
    }
}
