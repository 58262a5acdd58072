//! How far something is that takes a while and is no measurement: a line that the next one replaces.

use crate::output::Output;
use fathom_base::units::{format_count, format_duration, format_size};
use fathom_sys::{clock, terminal};
use fathom_tree::build::Step;
use std::io::{self, IsTerminal, Write as _};

/// A live line on a terminal, a plain one now and then elsewhere.
pub struct ProgressLine {
    output: Output,
    is_live: bool,
    told_ns: u64,
}

/// Between two plain lines.
const PLAIN_NS: u64 = 10_000_000_000;

impl ProgressLine {
    /// Nothing is shown yet.
    pub fn new(output: Output) -> Self {
        let is_live = !output.quiet && io::stderr().is_terminal();
        Self { output, is_live, told_ns: clock::monotonic_ns() }
    }

    /// The first plain line comes after so long.
    pub fn soon(output: Output, first_ns: u64) -> Self {
        let shown = Self::new(output);
        let told_ns = (shown.told_ns + first_ns).saturating_sub(PLAIN_NS);
        Self { told_ns, ..shown }
    }

    /// How far work on a tree is.
    pub fn tree(&mut self, step: Step) {
        let _ = self.output.json(
            "tree_progress",
            &serde_json::json!({
                "doing": step.doing, "files": step.files, "files_total": step.files_total, "bytes": step.bytes,
                "took_ns": step.took_ns, "left_ns": step.left_ns,
            }),
        );
        let left =
            step.left_ns.map_or_else(String::new, |ns| format!(", {} left", format_duration(ns)));
        let bytes =
            if step.bytes == 0 { String::new() } else { format!(", {}", format_size(step.bytes)) };
        self.line(&format!(
            "{} the tree: {} of {} files{bytes}{left}",
            step.doing,
            format_count(step.files),
            format_count(step.files_total)
        ));
    }

    /// A line that the next one replaces.
    pub fn line(&mut self, text: &str) {
        if self.is_live {
            let columns = terminal::columns(io::stderr()).unwrap_or(80);
            let text: String = text.chars().take(columns.saturating_sub(1)).collect();
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
            return;
        }
        let now_ns = clock::monotonic_ns();
        if !self.output.json && now_ns - self.told_ns >= PLAIN_NS {
            self.told_ns = now_ns;
            self.output.note(&format!("  {text}"));
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        if self.is_live {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
