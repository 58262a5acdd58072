//! Events as people see them: a live view on a terminal, plain lines elsewhere, JSON lines for programs.

use crate::live::Live;
use crate::output::Output;
use crate::screen::Screen;
use fathom_base::units::{format_count, format_duration, format_ns, format_rate, format_size};
use fathom_guard::faults::Faults;
use fathom_model::event::Event;
use fathom_model::record::{Record, RunKind};
use fathom_report::{asked, brief};
use fathom_study::verdict;
use fathom_sys::signals::StopFlag;
use fathom_tui::state::Update;
use std::time::{Duration, Instant};

/// Lines about what passes come at most this often: files of them stay small.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

/// What is shown.
pub struct Subject<'a> {
    /// What kind of run.
    pub kind: RunKind,
    /// The command.
    pub title: &'a str,
    /// Identifier of the run; empty when there is none.
    pub run_id: &'a str,
    /// Plain lines are wanted.
    pub is_plain: bool,
}

/// Shows events.
pub struct Progress {
    output: Output,
    kind: RunKind,
    live: Option<Live>,
    /// When the last line about what passes was printed, or could have been.
    last_plain: Instant,
    /// The cell of an experiment that was told of last.
    cell: Option<String>,
    /// Where a test ends this process.
    faults: Faults,
}

impl Progress {
    /// A live view when standard error is a terminal and people read it.
    pub fn new(output: Output, stop: &StopFlag, subject: &Subject<'_>) -> Self {
        let is_wanted = !output.quiet && !output.json && !subject.is_plain;
        let look = is_wanted.then(Screen::look).flatten();
        let live = look.and_then(|look| Live::start(output.screen, look, stop.clone()));
        let progress = Self {
            output,
            kind: subject.kind,
            live,
            last_plain: Instant::now(),
            cell: None,
            faults: faults(),
        };
        progress.tell(|| Update::Begun {
            title: subject.title.to_owned(),
            run_id: subject.run_id.to_owned(),
            pid: std::process::id(),
        });
        progress
    }

    /// Shows one event.
    pub fn show(&mut self, event: Event) {
        self.faults.point("event");
        if self.output.json {
            // A reader that has gone shows when the result is written.
            let _ = self.output.json(word(&event), &event);
        }
        if self.live.is_some() {
            self.show_live(event);
        } else {
            self.show_plain(&event);
        }
    }

    fn show_live(&self, event: Event) {
        self.tell(|| match event {
            Event::TrialFinished { record } => self.done(&record),
            Event::JobAsked { job, target, target_bytes } => {
                let text = asked::line(&job, &target, target_bytes);
                Update::Event(Event::Note { text })
            }
            event => Update::Event(event),
        });
    }

    /// A finished trial in short: what is shown of it need not carry its record.
    fn done(&self, record: &Record) -> Update {
        let judged = verdict::judge_run(self.kind, std::slice::from_ref(record));
        Update::Done {
            label: record.label.clone(),
            figures: brief::line(record),
            findings: judged.findings,
        }
    }

    fn tell(&self, update: impl FnOnce() -> Update) {
        if let Some(live) = &self.live {
            live.tell(update());
        }
    }

    fn show_plain(&mut self, event: &Event) {
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
                    "block {block}/{blocks}, {place}/{places}: {cell}{next}; at most {} left",
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
                        "{label}: {} IOPS, {}{p99}{}",
                        format_count(iops.round() as u64),
                        format_rate(*bytes_per_s),
                        left(*eta_ns)
                    )
                });
            }
            Event::TrialFinished { .. } => {}
        }
    }

    /// A line about something that goes on, from time to time.
    fn passing(&mut self, text: impl FnOnce() -> String) {
        if !self.output.json && self.last_plain.elapsed() >= PLAIN_EVERY {
            self.last_plain = Instant::now();
            self.output.note(&format!("  {}", text()));
        }
    }

    /// Takes the live view away.
    pub fn finish(self) {
        if let Some(live) = self.live {
            live.finish();
        }
    }
}

/// As a test asks by `FATHOM_FAULT=event-panic:N`: at the N-th event.
fn faults() -> Faults {
    let asked = std::env::var("FATHOM_FAULT").ok();
    Faults::parse(asked.as_deref().and_then(|asked| asked.strip_prefix("event-")))
}

/// The word for programs.
fn word(event: &Event) -> &'static str {
    match event {
        Event::Note { .. } => "note",
        Event::JobAsked { .. } => "job_asked",
        Event::Layout { .. } => "layout",
        Event::Verifying { .. } => "verifying",
        Event::SlotStarted { .. } => "slot_started",
        Event::TrialStarted { .. } => "trial_started",
        Event::Progress { .. } => "progress",
        Event::TrialFinished { .. } => "trial_finished",
    }
}

/// The expected rest, where it is known.
fn left(eta_ns: Option<u64>) -> String {
    eta_ns.map_or_else(String::new, |ns| format!(", {} left in all", format_duration(ns)))
}
