//! Events as people see them: a live view on a terminal, plain lines elsewhere, JSON lines for programs.

use crate::exit::Exit;
use crate::hub::Hub;
use crate::live::Live;
use crate::output::Output;
use crate::plain::Plain;
use crate::screen::Screen;
use fathom_guard::faults::Faults;
use fathom_model::event::Event;
use fathom_model::record::{Record, RunKind};
use fathom_report::{asked, brief};
use fathom_study::verdict;
use fathom_sys::signals::StopFlag;
use fathom_tui::state::Update;
use std::path::Path;

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
    /// Lines go to a file that is not to be written while something is measured.
    pub is_detached: bool,
    /// Where others can look on: beside the store; nowhere when none.
    pub door: Option<&'a Path>,
}

/// Shows events.
pub struct Progress {
    output: Output,
    kind: RunKind,
    live: Option<Live>,
    hub: Option<Hub>,
    plain: Plain,
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
            hub: subject.door.and_then(|dir| Hub::open(dir, stop)),
            plain: Plain::new(output, !output.json && !subject.is_detached),
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
        if self.live.is_none() {
            self.plain.show(&event);
        }
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
        match (&self.live, &self.hub) {
            (Some(live), Some(hub)) => {
                let update = update();
                hub.tell(update.clone());
                live.tell(update);
            }
            (Some(live), None) => live.tell(update()),
            (None, Some(hub)) => hub.tell(update()),
            (None, None) => {}
        }
    }

    /// Takes the live view away, which waits for a terminal that takes nothing.
    pub fn finish(self) {
        if let Some(live) = self.live {
            live.finish();
        }
    }

    /// Tells those who look on how it ended; then takes the live view away.
    pub fn ended(mut self, exit: Exit, text: &str) {
        if let Some(hub) = self.hub.take() {
            hub.tell(Update::Ended { exit_code: exit.code(), text: text.to_owned() });
            drop(hub);
        }
        self.finish();
    }
}

/// As a test asks by `FATHOM_FAULT=event-panic:N`: at the N-th event.
fn faults() -> Faults {
    let asked = std::env::var("FATHOM_FAULT").ok();
    Faults::parse(asked.as_deref().and_then(|asked| asked.strip_prefix("event-")))
}

/// The word for programs.
pub fn word(event: &Event) -> &'static str {
    match event {
        Event::Note { .. } => "note",
        Event::JobAsked { .. } => "job_asked",
        Event::Layout { .. } => "layout",
        Event::Verifying { .. } => "verifying",
        Event::SlotStarted { .. } => "slot_started",
        Event::TrialStarted { .. } => "trial_started",
        Event::Progress { .. } => "progress",
        Event::Syncing { .. } => "syncing",
        Event::TrialFinished { .. } => "trial_finished",
    }
}
