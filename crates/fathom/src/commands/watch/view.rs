//! The live view of a watch: a thread that draws intervals as they come, so that nobody who watches waits for a terminal.

use crate::args::watch::Watch as Args;
use crate::live::quiet;
use crate::output::Output;
use crate::screen::Screen;
use fathom_model::watch::Sample;
use fathom_report::watch::{remarks, svctm_words};
use fathom_sys::signals::{self, StopFlag};
use fathom_sys::terminal;
use fathom_tui::dialog::{Key, keys_in};
use fathom_tui::paint;
use fathom_tui::view::Look;
use fathom_tui::watch::{Asked, Watched, render};
use std::io::{self, IsTerminal, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Keys and sizes are looked at when something happens, and so often.
const DRAWN_AT_LEAST: Duration = Duration::from_secs(1);
/// More often nobody can look.
const DRAWN_AT_MOST: Duration = Duration::from_millis(50);

/// An interval, what is to be said of its devices, and its time.
type Told = (Sample, Vec<Vec<String>>, String);

/// A view that runs.
pub struct View {
    sender: Sender<Told>,
    bell: UnixStream,
    thread: JoinHandle<()>,
    with_details: bool,
}

impl View {
    /// A view where both streams are a terminal that can show it, and people read; none else: then there are lines.
    pub fn start(output: Output, stop: &StopFlag, args: &Args, has_command: bool) -> Option<Self> {
        let is_wanted = !output.quiet && !output.json && !args.plain && io::stdout().is_terminal();
        let look = is_wanted.then(Screen::look).flatten()?;
        let title = match args.devices.as_slice() {
            [] => "fathom watch".to_owned(),
            devices => format!("fathom watch {}", devices.join(" ")),
        };
        let watched = Watched::new(title, args.all, has_command);
        let (sender, receiver) = mpsc::channel();
        let (bell, heard) = UnixStream::pair().ok()?;
        bell.set_nonblocking(true).ok()?;
        heard.set_nonblocking(true).ok()?;
        let (for_screen, stop, screen) = (bell.try_clone().ok()?, stop.clone(), output.screen);
        let drawing = move || {
            let has_keys = screen.begin(for_screen);
            let asked = Asked::Nothing;
            Drawing { screen, look, watched, asked, has_keys, receiver, heard, stop }.run();
        };
        let thread = std::thread::Builder::new().name("view".into()).spawn(drawing).ok()?;
        Some(Self { sender, bell, thread, with_details: args.details })
    }

    /// Takes in an interval. Waits for nothing.
    pub fn show(&self, sample: &Sample, time: String) {
        let of = |device| {
            let mut all = remarks(device, self.with_details);
            all.extend(svctm_words(device).filter(|_| self.with_details));
            all
        };
        let remarks = sample.devices.iter().map(of).collect();
        let _ = self.sender.send((sample.clone(), remarks, time));
        let _ = (&self.bell).write(&[0]);
    }

    /// Takes the view away.
    pub fn finish(self) {
        let Self { sender, bell, thread, .. } = self;
        drop(sender);
        let _ = (&bell).write(&[0]);
        let _ = thread.join();
    }
}

/// The thread.
struct Drawing {
    screen: &'static Screen,
    look: Look,
    watched: Watched,
    asked: Asked,
    has_keys: bool,
    receiver: Receiver<Told>,
    heard: UnixStream,
    stop: StopFlag,
}

impl Drawing {
    fn run(mut self) {
        let mut has_begun = false;
        loop {
            let typed = self.screen.wait(&self.heard, DRAWN_AT_LEAST);
            quiet(&mut self.heard);
            if keys_in(&typed).into_iter().any(|key| self.pressed(key)) {
                signals::interrupt(&self.stop);
            }
            loop {
                match self.receiver.try_recv() {
                    Ok((sample, remarks, time)) => {
                        self.watched.take(sample, remarks, time);
                        has_begun = true;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.screen.end(),
                }
            }
            if has_begun {
                self.draw();
            }
            std::thread::sleep(DRAWN_AT_MOST);
        }
    }

    fn draw(&self) {
        let size = terminal::size(io::stderr()).unwrap_or((80, 24));
        let view = render(&self.watched, self.asked, self.has_keys, self.look, size);
        self.screen.paint(view.map(|view| paint::frame(&view)));
    }

    /// What a key does; true when it ends the watch. A command is ended after a question.
    fn pressed(&mut self, key: Key) -> bool {
        let (asked, ends) = match (self.asked, key) {
            (Asked::End, Key::Char('y' | 'Y')) => (Asked::Nothing, true),
            (Asked::End | Asked::Help, _) => (Asked::Nothing, false),
            (Asked::Nothing, Key::Char('q' | 'Q')) if self.watched.has_command() => {
                (Asked::End, false)
            }
            (Asked::Nothing, Key::Char('q' | 'Q')) => (Asked::Nothing, true),
            (Asked::Nothing, Key::Char('?' | 'h')) => (Asked::Help, false),
            (Asked::Nothing, Key::Char('d' | 'D')) => {
                self.watched.turn();
                (Asked::Nothing, false)
            }
            (Asked::Nothing, _) => (Asked::Nothing, false),
        };
        self.asked = asked;
        ends
    }
}
