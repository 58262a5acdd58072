//! Findings as they arise, and finished trials.

use super::{Row, Tone};
use crate::state::State;
use fathom_model::finding::Severity;

/// The findings, the worst first.
pub fn rows(state: &State) -> Vec<Row> {
    let row = |found: &crate::state::Found| {
        let (word, tone) = match found.severity {
            Severity::Void => ("VOID", Tone::Bad),
            Severity::Doubtful => ("DOUBTFUL", Tone::Warning),
            Severity::Note => ("note", Tone::Faint),
        };
        let trials =
            if found.trials > 1 { format!(" ({} trials)", found.trials) } else { String::new() };
        Row::of(format!("{word:<8}"), tone).at(
            10,
            format!("{}{trials}", found.summary),
            Tone::Plain,
        )
    };
    state.found.iter().map(row).collect()
}

/// The newest finished trials, the newest last.
pub fn done(state: &State, most: usize) -> Vec<Row> {
    let label = |label: &str| label.chars().take(30).collect::<String>();
    let shown: Vec<_> = state.done.iter().rev().take(most).rev().collect();
    let width = shown.iter().map(|done| label(&done.label).chars().count()).max().unwrap_or(0);
    let row = |done: &&crate::state::Done| {
        Row::of(format!("{:<width$}", label(&done.label)), Tone::Faint).at(
            width as u16 + 2,
            &done.figures,
            Tone::Plain,
        )
    };
    let mut rows: Vec<Row> = shown.iter().map(row).collect();
    if !rows.is_empty() {
        rows.insert(0, Row::of(format!("finished: {}", state.done_count), Tone::Faint));
    }
    rows
}

/// Which end of a list goes when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// The first row is a head line; the ones behind it are the oldest.
    First,
    /// The last ones.
    Last,
}

/// So many rows of a list; that there are more is said in the last one.
pub fn cut(mut rows: Vec<Row>, room: usize, more: More) -> Vec<Row> {
    if rows.len() <= room {
        return rows;
    }
    if more == More::First {
        // A head line alone says nothing.
        if room < 2 {
            return Vec::new();
        }
        rows.drain(1..=rows.len() - room);
        return rows;
    }
    let hidden = rows.len() - room.saturating_sub(1);
    rows.truncate(room.saturating_sub(1));
    if room > 1 {
        rows.push(Row::of(format!("and {hidden} more"), Tone::Faint));
    } else if room == 1 {
        rows.push(Row::of(format!("{hidden} lines more in a higher terminal"), Tone::Faint));
    }
    rows
}
