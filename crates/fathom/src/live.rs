//! The live view of a terminal: a thread that takes in what happens and draws it, so that nobody who measures waits for a terminal.

use crate::screen::Screen;
use fathom_model::event::Event;
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use fathom_sys::terminal;
use fathom_tui::dialog::{Dialog, Seat, Wish, keys_in};
use fathom_tui::paint;
use fathom_tui::state::{Phase, State, Update};
use fathom_tui::view::{self, Look, Shown};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time goes on also when nothing happens.
const DRAWN_AT_LEAST: Duration = Duration::from_secs(1);
/// More often nobody can look.
const DRAWN_AT_MOST: Duration = Duration::from_millis(100);

/// What the thread is told.
enum Message {
    Update(Box<Update>),
    End,
}

/// A view that runs.
pub struct Live {
    sender: Sender<Message>,
    bell: UnixStream,
    thread: JoinHandle<()>,
}

impl Live {
    /// A view of the measurement of this process; none when the system has nothing to give for it, so that lines have to do.
    pub fn start(screen: &'static Screen, look: Look, stop: StopFlag) -> Option<Self> {
        let (sender, receiver) = mpsc::channel();
        let (bell, heard) = UnixStream::pair().ok()?;
        bell.set_nonblocking(true).ok()?;
        heard.set_nonblocking(true).ok()?;
        let (for_screen, state) = (bell.try_clone().ok()?, State::new(clock::monotonic_ns()));
        let drawing = move || {
            let has_keys = screen.begin(for_screen);
            let viewer =
                Viewer { screen, look, seat: Seat::Own, has_keys, state, dialog: Dialog::None };
            Own { viewer, receiver, heard, stop }.run();
        };
        let thread = std::thread::Builder::new().name("view".into()).spawn(drawing).ok()?;
        Some(Self { sender, bell, thread })
    }

    /// Takes in what happened. Waits for nothing.
    pub fn tell(&self, update: Update) {
        self.send(Message::Update(Box::new(update)));
    }

    fn send(&self, message: Message) {
        let _ = self.sender.send(message);
        let _ = (&self.bell).write(&[0]);
    }

    /// Takes the view away.
    pub fn finish(self) {
        self.send(Message::End);
        let _ = self.thread.join();
    }
}

/// Somebody who looks at a state.
pub struct Viewer {
    /// Where.
    pub screen: &'static Screen,
    /// In which characters.
    pub look: Look,
    /// As whom.
    pub seat: Seat,
    /// Whether keys are heard.
    pub has_keys: bool,
    /// At what.
    pub state: State,
    /// What was asked for.
    pub dialog: Dialog,
}

impl Viewer {
    /// Draws, once there is something to see.
    pub fn draw(&self) {
        let has_begun = self.state.phase != Phase::Preparing
            || self.state.slot.is_some()
            || self.state.done_count > 0;
        if !has_begun && self.dialog == Dialog::None {
            return;
        }
        let shown = Shown {
            state: &self.state,
            dialog: self.dialog,
            seat: self.seat,
            has_keys: self.has_keys,
            now_ns: clock::monotonic_ns(),
        };
        let (columns, lines) = terminal::size(io::stderr()).unwrap_or((80, 24));
        let view = view::render(shown, self.look, columns, lines);
        self.screen.paint(view.map(|view| paint::frame(&view)));
    }

    /// What typed keys ask for.
    pub fn typed(&mut self, bytes: &[u8]) -> Option<Wish> {
        let mut wished = None;
        for key in keys_in(bytes) {
            let (dialog, wish) = self.dialog.pressed(key, self.seat);
            self.dialog = dialog;
            wished = wished.or(wish);
        }
        wished
    }
}

/// The view of the process that measures.
struct Own {
    viewer: Viewer,
    receiver: Receiver<Message>,
    heard: UnixStream,
    stop: StopFlag,
}

impl Own {
    fn run(mut self) {
        loop {
            let typed = self.viewer.screen.wait(&self.heard, DRAWN_AT_LEAST);
            quiet(&mut self.heard);
            if self.viewer.typed(&typed) == Some(Wish::End) {
                fathom_sys::signals::interrupt(&self.stop);
            }
            let goes_on = self.take_in();
            self.tell_of_stop();
            if !goes_on {
                break;
            }
            self.viewer.draw();
            std::thread::sleep(DRAWN_AT_MOST);
        }
        self.viewer.screen.end();
    }

    /// False at the end.
    fn take_in(&mut self) -> bool {
        loop {
            match self.receiver.try_recv() {
                Ok(Message::Update(update)) => {
                    if let Update::Event(Event::Note { text }) = &*update {
                        let _ = self.viewer.screen.print(io::stderr(), &format!("{text}\n"));
                    }
                    self.viewer.state.apply(&update, clock::monotonic_ns());
                }
                Ok(Message::End) | Err(mpsc::TryRecvError::Disconnected) => return false,
                Err(mpsc::TryRecvError::Empty) => return true,
            }
        }
    }

    fn tell_of_stop(&mut self) {
        if self.stop.is_set() && !self.viewer.state.is_stopping {
            self.viewer.state.apply(&Update::Stopping, clock::monotonic_ns());
            let _ =
                self.viewer.screen.print(io::stderr(), &format!("fathom: {}\n", crate::STOPPING));
        }
    }
}

/// Empties a bell.
pub fn quiet(bell: &mut UnixStream) {
    let mut bytes = [0; 256];
    while matches!(bell.read(&mut bytes), Ok(count) if count == bytes.len()) {}
}
