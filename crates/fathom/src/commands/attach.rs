//! `fathom attach`: the view of a measurement that another process makes.

use super::{CommandError, CommandResult};
use crate::args::{Attach, Common};
use crate::exit::Exit;
use crate::hub::{self, Line};
use crate::live::{Viewer, quiet};
use crate::output::Output;
use crate::plain::Plain;
use crate::progress::word;
use crate::screen::Screen;
use crate::session;
use fathom_base::json;
use fathom_model::event::Event;
use fathom_sys::clock;
use fathom_sys::door;
use fathom_sys::signals::StopFlag;
use fathom_tui::dialog::{Dialog, Seat, Wish};
use fathom_tui::state::{State, Update};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

/// Time goes on also when nothing happens.
const DRAWN_AT_LEAST: Duration = Duration::from_secs(1);
/// More often nobody can look.
const DRAWN_AT_MOST: Duration = Duration::from_millis(100);

/// More than is kept for one who looks on.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Looks at what is measured with this store, until it ends or the view is left.
pub fn run(common: &Common, output: Output, stop: &StopFlag, args: &Attach) -> CommandResult {
    output.screen.look_only();
    let store = session::store_path(common)
        .map_err(|error| CommandError::report_as(output, &error, Exit::Internal))?;
    let stream = connect(output, store.parent().unwrap_or(Path::new(".")))?;
    let failed = |error: io::Error| {
        CommandError::report_as(output, &format!("looking on: {error}"), Exit::Internal)
    };
    let (bell, heard) = UnixStream::pair().map_err(failed)?;
    bell.set_nonblocking(true).and_then(|()| heard.set_nonblocking(true)).map_err(failed)?;
    let lines = read(stream.try_clone().map_err(failed)?, bell.try_clone().map_err(failed)?)
        .map_err(failed)?;
    let is_plain = args.plain || output.quiet || output.json;
    let look = if is_plain { None } else { Screen::look() };
    let has_keys = look.is_some() && output.screen.begin(bell);
    let viewer = look.map(|look| Viewer {
        screen: output.screen,
        look,
        seat: Seat::Attached,
        has_keys,
        state: State::new(clock::monotonic_ns()),
        dialog: Dialog::None,
    });
    let mut looking =
        Looking { output, viewer, plain: Plain::new(output, true), stream, ended: None };
    let left = looking.until_end(&lines, heard, stop);
    output.screen.end();
    match (looking.ended, left) {
        (Some((code, text)), _) => {
            output.text(&format!("The run has ended, exit code {code}. {text}\n"))?;
            output.json("result", &serde_json::json!({ "exit_code": code, "text": text }))?;
            Ok(Exit::of_code(i32::from(code)))
        }
        (None, true) => {
            output.text("Left; it runs on. fathom attach comes back.\n")?;
            output.json("result", &serde_json::json!({ "exit_code": 0 }))?;
            Ok(Exit::Done)
        }
        (None, false) => {
            let text = "the connection was lost: the run was killed, or this view fell behind; see fathom list, or \
                        attach again";
            Err(CommandError::report_as(output, &text, Exit::Internal))
        }
    }
}

fn connect(output: Output, state_dir: &Path) -> Result<UnixStream, CommandError> {
    door::connect(state_dir, hub::DOOR).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            let text = format!(
                "whether anything is running with the store in {} cannot be seen: {error}; attach as its owner or as root, or name \
                 another store with --db",
                state_dir.display()
            );
            return CommandError::report_as(output, &text, Exit::Internal);
        }
        let nothing = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        );
        let why = if nothing { String::new() } else { format!(" ({error})") };
        let text = format!(
            "no lab, raid, layers, saturate or size is running with the store in {}{why}; another store is named by --db",
            state_dir.display()
        );
        CommandError::usage(output, &text)
    })
}

/// Lines as they come, each with a ring of the bell.
fn read(stream: UnixStream, bell: UnixStream) -> io::Result<Receiver<Line>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("reader".into()).spawn(move || {
        let mut stream = BufReader::new(stream);
        while let Some(line) = next_line(&mut stream) {
            let Ok(line) = json::from_str(&line) else { break };
            if sender.send(line).is_err() {
                break;
            }
            let _ = (&bell).write(&[0]);
        }
        drop(sender);
        let _ = (&bell).write(&[0]);
    })?;
    Ok(receiver)
}

/// The next line; none at the end, and when there is no end to it: whoever that is, it is no fathom.
fn next_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    line.ends_with('\n').then_some(line)
}

/// Somebody who looks on.
struct Looking {
    output: Output,
    viewer: Option<Viewer>,
    plain: Plain,
    stream: UnixStream,
    ended: Option<(u8, String)>,
}

impl Looking {
    /// Until the run or its process ends; true when the view is left before.
    fn until_end(
        &mut self,
        lines: &Receiver<Line>,
        mut heard: UnixStream,
        stop: &StopFlag,
    ) -> bool {
        loop {
            let typed = self.output.screen.wait(&heard, DRAWN_AT_LEAST);
            quiet(&mut heard);
            let wish = self.viewer.as_mut().and_then(|viewer| viewer.typed(&typed));
            match wish {
                Some(Wish::Leave) => return true,
                Some(Wish::End) => drop(self.stream.write_all(hub::END.as_bytes())),
                None => {}
            }
            if stop.is_set() {
                return true;
            }
            loop {
                match lines.try_recv() {
                    Ok(line) => self.take_in(line),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return false,
                }
            }
            if self.ended.is_some() {
                return false;
            }
            if let Some(viewer) = &self.viewer {
                viewer.draw();
            }
            std::thread::sleep(DRAWN_AT_MOST);
        }
    }

    fn take_in(&mut self, line: Line) {
        match line {
            Line::Hello { version, state } => self.begin(&version, *state),
            Line::Update(update) => self.happened(&update),
        }
    }

    fn begin(&mut self, version: &str, state: State) {
        if version != env!("CARGO_PKG_VERSION") {
            let own = env!("CARGO_PKG_VERSION");
            self.output.note(&format!("The run is made by fathom {version}, this is {own}."));
        }
        match &mut self.viewer {
            Some(viewer) => viewer.state = state,
            None => self.output.note(&format!("{} (process {})", state.title, state.pid)),
        }
    }

    fn happened(&mut self, update: &Update) {
        if let Update::Ended { exit_code, text } = update {
            self.ended = Some((*exit_code, text.clone()));
        }
        if let Some(viewer) = &mut self.viewer {
            if let Update::Event(Event::Note { text }) = update {
                self.output.note(text);
            }
            viewer.state.apply(update, clock::monotonic_ns());
            return;
        }
        match update {
            Update::Event(event) => {
                let _ = self.output.json(word(event), event);
                self.plain.show(event);
            }
            Update::Done { label, figures, findings } => {
                let done = serde_json::json!({ "label": label, "findings": findings });
                let _ = self.output.json("trial_finished", &done);
                self.output.note(&format!("{label}: {figures}"));
            }
            Update::Begun { .. } | Update::Stopping | Update::Ended { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_none() {
        let mut two = BufReader::new(&b"one\ntwo"[..]);
        assert_eq!(next_line(&mut two).as_deref(), Some("one\n"));
        assert_eq!(next_line(&mut two), None, "cut off");
        assert_eq!(next_line(&mut BufReader::new(io::repeat(b'x'))), None);
    }
}
