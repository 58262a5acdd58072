//! The tree of layers, with what their block devices do.

use super::{Ink, Row, Tone};
use crate::state::State;
use fathom_base::units::format_rate;
use fathom_model::event::{DeviceNow, Layer};

/// Columns of a bar of utilisation.
const BAR: usize = 10;

/// A head line and one line for each layer; nothing where there are none.
pub fn rows(state: &State, ink: Ink) -> Vec<Row> {
    if state.layers.is_empty() {
        return Vec::new();
    }
    let places = Places::of(state, ink.width);
    let mut rows = vec![places.head()];
    rows.extend(state.layers.iter().map(|layer| {
        let now = state.devices.iter().find(|device| device.name == layer.name);
        places.row(layer, now, ink)
    }));
    rows
}

/// Where the columns begin; those that do not fit are not there.
struct Places {
    in_flight: u16,
    busy: u16,
    bar: Option<u16>,
    read: Option<u16>,
    write: Option<u16>,
}

impl Places {
    fn of(state: &State, width: u16) -> Self {
        let name = |layer: &Layer| indented(layer).chars().count() as u16;
        let names = state.layers.iter().map(name).max().unwrap_or(0);
        let in_flight = names.clamp(12, (width / 2).max(12)) + 2;
        let busy = in_flight + 11;
        let bar = busy + 8;
        let read = bar + BAR as u16 + 2;
        let write = read + 14;
        let fits = |from: u16, columns: u16| (from + columns < width).then_some(from);
        Self {
            in_flight,
            busy,
            bar: fits(bar, BAR as u16 + 1),
            read: fits(read, 28),
            write: fits(write, 14),
        }
    }

    fn head(&self) -> Row {
        let mut row = Row::of("device", Tone::Faint)
            .at(self.in_flight, right("in flight", 9), Tone::Faint)
            .at(self.busy, right("busy", 6), Tone::Faint);
        if let (Some(read), Some(write)) = (self.read, self.write) {
            row = row.at(read, right("read", 12), Tone::Faint).at(
                write,
                right("write", 12),
                Tone::Faint,
            );
        }
        row
    }

    fn row(&self, layer: &Layer, now: Option<&DeviceNow>, ink: Ink) -> Row {
        let row = Row::of(indented(layer), Tone::Plain);
        let Some(now) = now else { return row };
        let in_flight = now.in_flight.map_or_else(|| "-".to_owned(), |n| format!("{n:.1}"));
        let busy = format!("{:.0} %", now.busy_share * 100.0);
        let mut row = row.at(self.in_flight, right(&in_flight, 9), Tone::Plain).at(
            self.busy,
            right(&busy, 6),
            Tone::Plain,
        );
        if let Some(bar) = self.bar {
            row = row.at(bar, filled(now.busy_share, ink), Tone::Bar);
        }
        if let (Some(read), Some(write)) = (self.read, self.write) {
            row = row.at(read, right(&rate(now.read_bytes_per_s), 12), Tone::Plain).at(
                write,
                right(&rate(now.written_bytes_per_s), 12),
                Tone::Plain,
            );
        }
        row
    }
}

fn indented(layer: &Layer) -> String {
    let indent = "  ".repeat(layer.level as usize);
    let kind = if layer.kind.is_empty() { String::new() } else { format!(" ({})", layer.kind) };
    format!("{indent}{}{kind}", layer.name)
}

fn rate(bytes_per_s: f64) -> String {
    if bytes_per_s > 0.0 { format_rate(bytes_per_s) } else { "-".to_owned() }
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// A bar of tenths.
fn filled(share: f64, ink: Ink) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let (on, off) = if ink.look.has_unicode { ("\u{2588}", "\u{2591}") } else { ("#", ".") };
    on.repeat(full) + &off.repeat(BAR - full)
}
