//! The layers under a target as boxes in boxes: what a layer stands on is inside of it. Without style it is a list in lists.

use super::escape::text;
use fathom_check::{forest, one_line};
use fathom_model::stack::Stack;
use std::fmt::Write;

/// Members beyond these are counted and not drawn: an array of a hundred disks says nothing more.
const BOXES_MAX: usize = 200;

pub(super) fn push(out: &mut String, stack: &Stack) {
    let lines = forest(stack, &[stack.top], true);
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<figure class=\"stack\" aria-label=\"{}\">\n<figcaption>What it stands on</figcaption>",
        text(&one_line(stack))
    );
    let mut open = 0;
    for (number, line) in lines.iter().take(BOXES_MAX).enumerate() {
        // Deeper lines are inside of the one before; all others come after closing what is as deep or deeper.
        if line.depth < open {
            (line.depth + 1..open).for_each(|_| out.push_str("</li></ul>"));
            out.push_str("</li>\n");
            open = line.depth + 1;
        } else {
            (open..=line.depth).for_each(|_| out.push_str("<ul>"));
            open = line.depth + 1;
        }
        let mut parts = line.text.trim_start().split("  ");
        let name = text(parts.next().unwrap_or_default());
        let again = if line.again { " class=\"again\"" } else { "" };
        let _ = write!(out, "<li{again}><strong>{name}</strong>");
        for part in parts {
            let _ = write!(out, " <span>{}</span>", text(part));
        }
        if number + 1 == BOXES_MAX && lines.len() > BOXES_MAX {
            let _ = write!(out, " <span>and {} more layers</span>", lines.len() - BOXES_MAX);
        }
    }
    (0..open).for_each(|_| out.push_str("</li></ul>"));
    out.push_str("\n</figure>\n");
}
