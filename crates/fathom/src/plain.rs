//! Events as plain lines, which files of them can bear: no control characters, and few about what merely goes on.

use crate::output::Output;
use fathom_base::units::{format_count, format_duration, format_ns, format_rate, format_size};
use fathom_model::event::Event;
use fathom_report::asked;
use fathom_tui::state::syncing;
use std::time::{Duration, Instant};

/// Lines about what goes on come at most this often: files of them stay small.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// Shows events as lines.
pub struct Plain {
    output: Output,
    /// Also lines while something is measured.
    has_passing: bool,
    /// When the last line about what goes on was printed, or could have been.
    last_plain: Instant,
    /// The cell of an experiment that was told of last.
    cell: Option<String>,
}

impl Plain {
    /// Lines to standard error; about what goes on only with `has_passing`.
    pub fn new(output: Output, has_passing: bool) -> Self {
        Self { output, has_passing, last_plain: Instant::now(), cell: None }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::Note { text } => self.output.note(text),
            Event::JobAsked { job, target, target_bytes } => {
                self.output.note(&asked::line(job, target, *target_bytes));
            }
            Event::Layout { done_bytes, total_bytes, eta_ns } => self.passing(|| {
                let [done, total] = [done_bytes, total_bytes].map(|bytes| format_size(*bytes));
                format!("writing the test file: {done} of {total}{}", left(*eta_ns))
            }),
            Event::Verifying { done_bytes, total_bytes } => self.passing(|| {
                format!("verifying: {} of {}", format_size(*done_bytes), format_size(*total_bytes))
            }),
            Event::SlotStarted { block, blocks, place, places, cell, next, eta_ns } => {
                let next = next.as_ref().map_or_else(String::new, |next| format!("; next: {next}"));
                self.output.note(&format!(
                    "block {block}/{blocks}, {place}/{places}: {cell}{next}; about {} left",
                    format_duration(*eta_ns)
                ));
                self.cell = Some(cell.clone());
            }
            Event::TrialStarted { label, index, count, .. } => {
                let is_told = self.cell.as_ref().is_some_and(|cell| cell.starts_with(label));
                if !is_told {
                    self.output.note(&format!("[{index}/{count}] {label}"));
                }
                self.last_plain = Instant::now();
            }
            Event::Progress { label, eta_ns, iops, bytes_per_s, latency_ns_p99, .. } => {
                self.passing(|| {
                    let p99 = latency_ns_p99
                        .map_or_else(String::new, |ns| format!(", p99 {}", format_ns(ns)));
                    format!(
                        "{label}: now {} IOPS, {}{p99}{}",
                        format_count(iops.round() as u64),
                        format_rate(*bytes_per_s),
                        left(*eta_ns)
                    )
                });
            }
            Event::Syncing { label, done_files, total_files, eta_ns, .. } => self.passing(|| {
                let at = syncing(*done_files, *total_files);
                format!("{label}: {at}{}", left(*eta_ns))
            }),
            Event::TrialFinished { .. } => {}
        }
    }

    /// A line about something that goes on, from time to time.
    fn passing(&mut self, text: impl FnOnce() -> String) {
        if self.has_passing && self.last_plain.elapsed() >= PLAIN_EVERY {
            self.last_plain = Instant::now();
            self.output.note(&format!("  {}", text()));
        }
    }
}

/// The expected rest, where it is known.
fn left(eta_ns: Option<u64>) -> String {
    eta_ns.map_or_else(String::new, |ns| format!(", {} left in all", format_duration(ns)))
}
