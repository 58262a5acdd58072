//! Events as people see them: one live line on a terminal, plain lines elsewhere, JSON lines for programs.

use crate::output::Output;
use fathom_base::units::{format_count, format_duration, format_ns, format_rate, format_size};
use fathom_model::event::Event;
use fathom_report::asked;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Plain lines come at most this often, in events of about one second.
const PLAIN_EVERY: u32 = 10;

/// Shows events.
pub struct Progress {
    output: Output,
    live: Option<ProgressBar>,
    since_plain: u32,
    /// The cell of an experiment that was told of last.
    cell: Option<String>,
}

impl Progress {
    /// A live line when standard error is a terminal and people read it.
    pub fn new(output: Output) -> Self {
        let live = (!output.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { output, live, since_plain: 0, cell: None }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        if self.output.json {
            let kind = match event {
                Event::Note { .. } => "note",
                Event::JobAsked { .. } => "job_asked",
                Event::Layout { .. } => "layout",
                Event::Verifying { .. } => "verifying",
                Event::SlotStarted { .. } => "slot_started",
                Event::TrialStarted { .. } => "trial_started",
                Event::Progress { .. } => "progress",
                Event::TrialFinished { .. } => "trial_finished",
            };
            // A reader that has gone shows when the result is written.
            let _ = self.output.json(kind, event);
        }
        match event {
            Event::Note { text } => self.line(text),
            Event::JobAsked { job, target, target_bytes } => {
                self.line(&asked::line(job, target, *target_bytes));
            }
            Event::Layout { done_bytes, total_bytes, eta_ns } => self.passing(&format!(
                "writing the test file: {} of {}{}",
                format_size(*done_bytes),
                format_size(*total_bytes),
                left(*eta_ns)
            )),
            Event::Verifying { done_bytes, total_bytes } => self.passing(&format!(
                "verifying: {} of {}",
                format_size(*done_bytes),
                format_size(*total_bytes)
            )),
            Event::SlotStarted { block, blocks, place, places, cell, next, eta_ns } => {
                let next = next.as_ref().map_or_else(String::new, |next| format!("; next: {next}"));
                self.line(&format!(
                    "block {block}/{blocks}, {place}/{places}: {cell}{next}; at most {} left",
                    format_duration(*eta_ns)
                ));
                self.cell = Some(cell.clone());
            }
            Event::TrialStarted { label, index, count, .. } => {
                let is_told = self.cell.as_ref().is_some_and(|cell| cell.starts_with(label));
                if self.live.is_none() && !is_told {
                    self.line(&format!("[{index}/{count}] {label}"));
                }
                self.since_plain = 0;
            }
            Event::Progress { label, eta_ns, iops, bytes_per_s, latency_ns_p99, .. } => {
                let p99 = latency_ns_p99
                    .map_or_else(String::new, |ns| format!(", p99 {}", format_ns(ns)));
                self.passing(&format!(
                    "{label}: {} IOPS, {}{p99}{}",
                    format_count(iops.round() as u64),
                    format_rate(*bytes_per_s),
                    left(*eta_ns)
                ));
            }
            Event::TrialFinished { .. } => {}
        }
    }

    /// A line that stays.
    fn line(&self, text: &str) {
        match &self.live {
            Some(bar) => bar.suspend(|| self.output.note(text)),
            None => self.output.note(text),
        }
    }

    /// A line that the next one replaces; without a terminal every tenth stays.
    fn passing(&mut self, text: &str) {
        if let Some(bar) = &self.live {
            bar.set_message(text.to_owned());
            bar.tick();
            return;
        }
        if !self.output.json {
            self.since_plain += 1;
            if self.since_plain.is_multiple_of(PLAIN_EVERY) {
                self.output.note(&format!("  {text}"));
            }
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.live {
            bar.finish_and_clear();
        }
    }
}

/// The expected rest, where it is known.
fn left(eta_ns: Option<u64>) -> String {
    eta_ns.map_or_else(String::new, |ns| format!(", {} left in all", format_duration(ns)))
}
