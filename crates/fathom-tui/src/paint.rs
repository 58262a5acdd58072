//! Cells as what is written to a terminal, without taking the screen over: the view stands below what was printed before,
//! and what is printed later stands above it.
//!
//! Between two paintings the cursor stands at the first cell of the view. A terminal that is resized keeps the cursor at
//! its place, however it breaks the lines below anew: clearing from the cursor to the end of the screen is then always right,
//! and nobody has to be asked where the cursor is.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use std::fmt::Write;

/// Clears the view, with the cursor at its first cell.
pub const CLEAR: &str = "\r\x1b[0m\x1b[J";

/// What paints the cells over the view that stands there, and leaves the cursor at the first of them.
#[must_use]
pub fn frame(buffer: &Buffer) -> String {
    let mut text = String::from("\r");
    let area = buffer.area;
    for y in 0..area.height {
        if y > 0 {
            text += "\r\n";
        }
        row(buffer, y, &mut text);
    }
    // What is left of a higher view.
    text += "\x1b[J";
    if area.height > 1 {
        let _ = write!(text, "\x1b[{}A", area.height - 1);
    }
    text.push('\r');
    text
}

fn row(buffer: &Buffer, y: u16, text: &mut String) {
    let width = buffer.area.width;
    let cell = |x: u16| &buffer[(x, y)];
    // A question is a bar of reversed cells.
    let is_reversed = |x: u16| cell(x).style().add_modifier.contains(Modifier::REVERSED);
    let is_blank = |x: &u16| cell(*x).symbol() == " " && !is_reversed(*x);
    let used = (0..width).rev().find(|x| !is_blank(x)).map_or(0, |x| x + 1);
    let ink = |style: Style| (style.fg.unwrap_or(Color::Reset), style.add_modifier);
    let plain = (Color::Reset, Modifier::empty());
    let mut style = plain;
    for x in 0..used {
        let now = ink(cell(x).style());
        if now != style {
            *text += &code(now.0, now.1);
            style = now;
        }
        *text += cell(x).symbol();
    }
    if style != plain {
        *text += "\x1b[0m";
    }
    // In the last column this would take the last cell away.
    if used < width {
        *text += "\x1b[K";
    }
}

fn code(colour: Color, modifiers: Modifier) -> String {
    let mut codes = vec!["0"];
    let has = |modifier| modifiers.contains(modifier);
    if has(Modifier::BOLD) {
        codes.push("1");
    }
    if has(Modifier::DIM) {
        codes.push("2");
    }
    if has(Modifier::REVERSED) {
        codes.push("7");
    }
    codes.extend(match colour {
        Color::Red => Some("31"),
        Color::Yellow => Some("33"),
        Color::Cyan => Some("36"),
        _ => None,
    });
    format!("\x1b[{}m", codes.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    #[test]
    fn lines_are_cleared_behind_and_the_cursor_comes_back() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 4, 3));
        buffer.set_string(0, 0, "abcd", Style::new());
        buffer.set_string(0, 2, "a", Style::new().fg(Color::Red));
        assert_eq!(frame(&buffer), "\rabcd\r\n\x1b[K\r\n\x1b[0;31ma\x1b[0m\x1b[K\x1b[J\x1b[2A\r");
    }

    #[test]
    fn without_styles_nothing_but_the_cursor_is_told() {
        let buffer = Buffer::with_lines(["a b"]);
        assert_eq!(frame(&buffer), "\ra b\x1b[J\r");
    }
}
