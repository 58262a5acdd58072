//! A state as cells of a screen.
//!
//! The view is as high as it needs to be and never higher than the terminal; what matters most comes first, so that a low
//! terminal loses the list of finished trials, then devices, but neither throughput nor findings.

use crate::dialog::{Dialog, Seat};
use crate::parts::{Ink, Row, devices, figures, found, head};
use crate::state::State;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// What the terminal can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Colours may be used.
    pub has_colour: bool,
    /// Characters beyond ASCII are shown as what they are.
    pub has_unicode: bool,
}

/// What is shown, and to whom.
#[derive(Debug, Clone, Copy)]
pub struct Shown<'a> {
    /// What is known.
    pub state: &'a State,
    /// What was asked for by keys.
    pub dialog: Dialog,
    /// Who looks.
    pub seat: Seat,
    /// True when keys are heard.
    pub has_keys: bool,
    /// Now, on the monotonic clock.
    pub now_ns: u64,
}

/// The fewest columns and lines in which anything is shown.
pub(crate) const LEAST: (u16, u16) = (20, 3);

/// The view for a terminal of so many columns and lines; one line is left for the cursor of what is printed above. Nothing
/// when the terminal is too small for anything.
#[must_use]
pub fn render(shown: Shown<'_>, look: Look, columns: u16, lines: u16) -> Option<Buffer> {
    if columns < LEAST.0 || lines < LEAST.1 {
        return None;
    }
    let (width, height_max) = (columns.min(160), usize::from(lines - 1));
    let ink = Ink { look, width };
    let rows = rows(shown, ink, height_max);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, rows.len() as u16));
    for (y, row) in rows.iter().enumerate() {
        row.draw(ink, y as u16, &mut buffer);
    }
    Some(buffer)
}

/// The rows from the top down.
fn rows(shown: Shown<'_>, ink: Ink, height_max: usize) -> Vec<Row> {
    let state = shown.state;
    let mut rows = head::head(state, shown.now_ns);
    let last = head::foot(shown, ink);
    if shown.dialog == Dialog::Help {
        rows.extend(head::help(shown.seat));
    } else {
        rows.extend(figures::rows(state));
        let room = height_max.saturating_sub(rows.len() + 1);
        rows.extend(lists(state, ink, room));
    }
    rows.truncate(height_max.saturating_sub(1));
    rows.push(last);
    rows
}

/// Findings, devices and finished trials in so many lines: first of each list what is needed to see that it is there, then
/// the rest in this order.
fn lists(state: &State, ink: Ink, room: usize) -> Vec<Row> {
    const DONE_AT_MOST: usize = 8;
    let found = found::rows(state);
    let devices = devices::rows(state, ink);
    let done = found::done(state, DONE_AT_MOST);
    let wanted = [&found, &devices, &done].map(|rows: &Vec<Row>| rows.len());
    let [of_found, of_devices, of_done] = share(wanted, [2, 3, 0], room);
    let lists = [
        found::cut(found, of_found, found::More::Last),
        found::cut(devices, of_devices, found::More::Last),
        found::cut(done, of_done, found::More::First),
    ];
    let lists: Vec<Vec<Row>> = lists.into_iter().filter(|rows| !rows.is_empty()).collect();
    let used: usize = lists.iter().map(Vec::len).sum();
    // Room between them where there is some.
    let is_spaced = used + lists.len() < room;
    let gap = || is_spaced.then(Row::default);
    let mut rows: Vec<Row> =
        lists.into_iter().flat_map(|rows| gap().into_iter().chain(rows)).collect();
    rows.extend(gap());
    rows
}

/// Lines for each list: at least `least` of each in order, and then all that each wants, in order.
fn share(wanted: [usize; 3], least: [usize; 3], room: usize) -> [usize; 3] {
    let mut given = [0; 3];
    let mut left = room;
    for goal in [least, wanted] {
        for (index, most) in goal.into_iter().enumerate() {
            let more = most.min(wanted[index]).saturating_sub(given[index]).min(left);
            given[index] += more;
            left -= more;
        }
    }
    given
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
