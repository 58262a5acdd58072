//! What runs, how far it is, and the line of keys.

use super::{Ink, Row, Tone};
use crate::dialog::{Dialog, Seat};
use crate::state::{Phase, State, syncing};
use crate::view::Shown;
use fathom_base::units::{format_duration, format_size};

/// The first lines.
pub fn head(state: &State, now_ns: u64) -> Vec<Row> {
    let rest = match (state.rest_ns(now_ns), &state.ended) {
        (_, Some((code, _))) => format!("ended, exit code {code}"),
        (Some(_), None) if state.is_stopping => "stopping".to_owned(),
        (Some(0), None) => "almost done".to_owned(),
        (Some(ns), None) => {
            let most = if state.slot.is_some() { "at most " } else { "" };
            format!("{most}{} left", format_duration(ns))
        }
        (None, None) => String::new(),
    };
    let mut rows = vec![Row::of(&state.title, Tone::Strong).right(rest, Tone::Strong)];
    if let Some(slot) = &state.slot {
        let (block, blocks) = slot.block;
        let (place, places) = slot.place;
        let at = format!("block {block}/{blocks}, trial {place}/{places}");
        rows.push(Row::of(at, Tone::Plain).then("  ", Tone::Plain).then(&slot.cell, Tone::Strong));
        if let Some(next) = &slot.next {
            rows.push(Row::of(format!("next: {next}"), Tone::Faint));
        }
    }
    rows.push(now(state, now_ns));
    rows
}

/// What is going on at this moment.
fn now(state: &State, now_ns: u64) -> Row {
    let since = format_duration(now_ns.saturating_sub(state.phase_since_ns));
    let of = |done: u64, total: u64| {
        let share = (done as f64 / total.max(1) as f64 * 100.0).min(100.0);
        format!("{} of {}, {share:.0} %", format_size(done), format_size(total))
    };
    let trial = state.trial.as_ref().map(|trial| {
        let position = format!("{}/{}", trial.index, trial.count);
        (trial.label.clone(), if trial.count > 1 { position } else { String::new() })
    });
    let in_trial = |what: String| {
        let (label, position) = trial.clone().unwrap_or_default();
        let row = Row::of(label, Tone::Strong);
        let row =
            if position.is_empty() { row } else { row.then(format!("  {position}"), Tone::Plain) };
        row.right(what, Tone::Plain)
    };
    match &state.phase {
        Phase::Preparing => {
            let note = state.note.clone().unwrap_or_else(|| "preparing".to_owned());
            Row::of(note, Tone::Plain).right(since, Tone::Faint)
        }
        Phase::Layout { done_bytes, total_bytes } => Row::of(
            format!("writing the test file: {}", of(*done_bytes, *total_bytes)),
            Tone::Plain,
        ),
        Phase::Verifying { done_bytes, total_bytes } => {
            Row::of(format!("verifying: {}", of(*done_bytes, *total_bytes)), Tone::Plain)
        }
        Phase::Started => in_trial(format!("started {since} ago")),
        Phase::Measuring { elapsed_ns } => {
            in_trial(format!("measured for {}", format_duration(*elapsed_ns)))
        }
        Phase::Syncing { done_files, total_files } => in_trial(syncing(*done_files, *total_files)),
        Phase::Ended => {
            let text = state.ended.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
            Row::of(text, Tone::Plain)
        }
    }
}

/// The last line: a question, or the keys.
pub fn foot(shown: Shown<'_>, ink: Ink) -> Row {
    // What the keys do is never cut off.
    let is_narrow = ink.width < 74;
    match (shown.dialog, shown.seat) {
        (Dialog::AskEnd, _) if is_narrow => Row::of("End the run? y/n", Tone::Question),
        (Dialog::AskEnd, _) => {
            Row::of("End the run? y = end  n = go on   (what was measured is kept)", Tone::Question)
        }
        (Dialog::NoDetach, _) if is_narrow => Row::of("only --detach can be left", Tone::Question),
        (Dialog::NoDetach, _) => Row::of(
            "Only a run of fathom lab --detach can be left; q ends this one.",
            Tone::Question,
        ),
        (Dialog::Help, _) => Row::of("any key: back to the view", Tone::Faint),
        (Dialog::None, _) if shown.state.is_stopping && is_narrow => {
            Row::of("stopping; Ctrl-C again ends at once", Tone::Warning)
        }
        (Dialog::None, _) if shown.state.is_stopping => Row::of(
            "stopping: requests in flight are waited for (Ctrl-C again ends at once)",
            Tone::Warning,
        ),
        (Dialog::None, Seat::Own) if !shown.has_keys => Row::of("Ctrl-C ends the run", Tone::Faint),
        (Dialog::None, Seat::Attached) if !shown.has_keys => {
            Row::of("Ctrl-C leaves, the run goes on", Tone::Faint)
        }
        (Dialog::None, Seat::Own) => Row::of("q end   ? help", Tone::Faint),
        (Dialog::None, Seat::Attached) => {
            Row::of("d leave, the run goes on   q end it   ? help", Tone::Faint)
        }
    }
}

/// What the keys do, and how the figures are meant.
pub fn help(seat: Seat) -> Vec<Row> {
    let leave = match seat {
        Seat::Attached => "d  Ctrl-C   leave; the run goes on, fathom attach comes back",
        Seat::Own => "Ctrl-C      end the run as q does, without a question",
    };
    let lines = [
        "q           end the run: what was measured is kept, all else is put back",
        leave,
        "Ctrl-Z      stop everything; what is measured then is void",
        "",
        "Figures are those of the last second or so; curves go back from the right.",
        "service time: from the submission of a request to its end.",
        "in flight: of the run, latency times rate; of devices, as the kernel counts.",
        "busy: share of the time with at least one request in flight; no load in %.",
    ];
    lines.into_iter().map(|line| Row::of(line, Tone::Plain)).collect()
}
