//! The parts of a view, each as rows of text.

pub mod devices;
pub mod figures;
pub mod found;
pub mod head;

use crate::view::Look;
use fathom_base::printable::is_acting;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar::{NINE_LEVELS, Set};
use ratatui::widgets::{Sparkline, Widget};
use std::borrow::Cow;

/// How a part of a row is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As the rest.
    Plain,
    /// What the eye should find.
    Strong,
    /// What can be overlooked.
    Faint,
    /// Bars and curves.
    Bar,
    /// Figures may be off.
    Warning,
    /// Figures do not count.
    Bad,
    /// A question.
    Question,
}

/// What rows are drawn with.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    /// What the terminal can do.
    pub look: Look,
    /// Columns.
    pub width: u16,
}

impl Ink {
    fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let coloured = |colour| if self.look.has_colour { style.fg(colour) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Bar => coloured(Color::Cyan),
            Tone::Warning => coloured(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Question => style.add_modifier(Modifier::REVERSED),
        }
    }

    /// Text in characters that the terminal shows.
    fn shown(self, text: &str) -> Cow<'_, str> {
        let is_wrong = |c: char| is_acting(c) || (!self.look.has_unicode && !c.is_ascii());
        if text.contains(is_wrong) {
            text.chars().map(|c| if is_wrong(c) { '?' } else { c }).collect::<String>().into()
        } else {
            text.to_owned().into()
        }
    }

    fn bars(self) -> Set<'static> {
        const ASCII: Set<'static> = Set {
            full: "#",
            seven_eighths: "#",
            three_quarters: "=",
            five_eighths: "=",
            half: "-",
            three_eighths: "-",
            one_quarter: ".",
            one_eighth: ".",
            empty: " ",
        };
        if self.look.has_unicode { NINE_LEVELS } else { ASCII }
    }
}

/// A line of the view.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// From the left; each begins at its column, or behind the one before it.
    pub left: Vec<(u16, String, Tone)>,
    /// At the right end; goes when there is no room.
    pub right: Option<(String, Tone)>,
    /// A curve of the past behind what stands at the left: the newest at the right end.
    pub curve: Option<Vec<u64>>,
}

/// The first column is kept free for the cursor.
const MARGIN: u16 = 1;

/// Curves that are shorter say nothing.
const CURVE_LEAST: u16 = 8;

impl Row {
    /// A row of one text.
    pub fn of(text: impl Into<String>, tone: Tone) -> Self {
        Self { left: vec![(0, text.into(), tone)], ..Self::default() }
    }

    /// Adds text behind what is there.
    #[must_use]
    pub fn then(self, text: impl Into<String>, tone: Tone) -> Self {
        self.at(0, text, tone)
    }

    /// Adds text from a column on, or behind what is there.
    #[must_use]
    pub fn at(mut self, column: u16, text: impl Into<String>, tone: Tone) -> Self {
        self.left.push((column, text.into(), tone));
        self
    }

    /// Adds text at the right end.
    #[must_use]
    pub fn right(mut self, text: impl Into<String>, tone: Tone) -> Self {
        self.right = Some((text.into(), tone));
        self
    }

    /// Draws the row.
    pub fn draw(&self, ink: Ink, y: u16, buffer: &mut Buffer) {
        let width = buffer.area.width;
        let right = self.right.as_ref().map(|(text, tone)| (ink.shown(text), *tone));
        let right_width = right.as_ref().map_or(0, |(text, _)| text.chars().count() as u16);
        // The right end is worth more than the end of the left, but not more than half of the row.
        let has_right = right_width > 0 && right_width + 2 <= width * 2 / 3;
        let end = if has_right { width - right_width - 2 } else { width };
        let mut x = MARGIN;
        for (column, text, tone) in &self.left {
            x = x.max(MARGIN + column);
            if x >= end {
                break;
            }
            let text = ink.shown(text);
            let fitting = fitted(&text, usize::from(end - x), ink);
            (x, _) = buffer.set_stringn(x, y, fitting, usize::from(end - x), ink.style(*tone));
        }
        if let Some((text, tone)) = right.filter(|_| has_right) {
            buffer.set_string(width - right_width - 1, y, text, ink.style(tone));
        }
        if let Some(curve) = &self.curve {
            draw_curve(curve, ink, Rect::new(x + 2, y, 0, 1), end, buffer);
        }
    }
}

fn draw_curve(curve: &[u64], ink: Ink, from: Rect, end: u16, buffer: &mut Buffer) {
    let room = end.saturating_sub(from.x + 1);
    if room < CURVE_LEAST || curve.len() < 2 {
        return;
    }
    let shown = &curve[curve.len().saturating_sub(usize::from(room))..];
    // A value that is there is told from none at all.
    let least = shown.iter().max().map_or(1, |most| most.div_ceil(8).max(1));
    let drawn: Vec<u64> = shown.iter().map(|v| if *v == 0 { 0 } else { (*v).max(least) }).collect();
    let area = Rect::new(from.x, from.y, shown.len() as u16, 1);
    Sparkline::default()
        .data(drawn)
        .bar_set(ink.bars())
        .style(ink.style(Tone::Bar))
        .render(area, buffer);
}

/// Text that is too long ends with what says so.
fn fitted(text: &str, room: usize, ink: Ink) -> String {
    let count = text.chars().count();
    if count <= room {
        return text.to_owned();
    }
    let mark = if ink.look.has_unicode { "\u{2026}" } else { "~" };
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    kept + mark
}
