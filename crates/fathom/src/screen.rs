//! The terminal, shared by everything that prints: a view stands below what was printed, and makes room when something is.

use fathom_sys::signals::Heard;
use fathom_sys::terminal::{self, Keys};
use fathom_tui::paint;
use fathom_tui::view::Look;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a terminal that takes nothing any more (Ctrl-S, a dead connection) is waited for by those who cannot wait.
const PATIENCE: Duration = Duration::from_millis(200);

/// What may stand on the terminal, and who has its keys. One for the whole process.
#[derive(Debug, Default)]
pub struct Screen {
    /// What paints the view that stands there.
    standing: Mutex<Option<String>>,
    keys: Mutex<Option<Keys>>,
    /// Wakes whoever draws.
    bell: Mutex<Option<UnixStream>>,
    /// Somebody draws.
    is_on: AtomicBool,
    /// Nothing is drawn until it is our turn again.
    is_paused: AtomicBool,
    /// What is drawn is measured by somebody else: a signal ends nothing but the view.
    only_looks: AtomicBool,
    /// Known as soon as it is known what was asked for.
    stops: OnceLock<Stops>,
}

/// What the end of this process waits for, when somebody asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stops {
    /// Its requests in flight, and that all is put back.
    #[default]
    WithRequests,
    /// That all is in order: it has no requests in flight.
    InOrder,
    /// Nothing: it has changed nothing, or what it changes is whole at any moment.
    AtOnce,
}

impl Screen {
    /// Whether standard error can show a view, and in which characters; none when it cannot.
    pub fn look() -> Option<Look> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let term = variable("TERM");
        if !io::stderr().is_terminal() || term.is_empty() || term == "dumb" {
            return None;
        }
        let names = ["LC_ALL", "LC_CTYPE", "LANG"];
        let locale = names.map(variable).into_iter().find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let is_utf8 = locale.contains("utf-8") || locale.contains("utf8");
        // The fonts of the console of the kernel lack most of the bars.
        let has_unicode = is_utf8 && term != "linux";
        Some(Look { has_colour: variable("NO_COLOR").is_empty(), has_unicode })
    }

    /// Somebody draws from now on, and is woken by `bell`. True when keys are heard.
    pub fn begin(&self, bell: UnixStream) -> bool {
        *held(&self.bell) = Some(bell);
        let keys = Keys::take();
        let has_keys = keys.is_some();
        *held(&self.keys) = keys;
        self.is_on.store(true, Ordering::SeqCst);
        has_keys
    }

    /// Nobody draws any more: the view is taken away, the terminal is as it was.
    pub fn end(&self) {
        self.is_on.store(false, Ordering::SeqCst);
        self.clear(&mut held(&self.standing));
        held(&self.keys).take();
        held(&self.bell).take();
    }

    /// Prints whole lines above the view, if there is one.
    ///
    /// # Errors
    /// Those of writing to the stream.
    pub fn print(&self, mut stream: impl Write, text: &str) -> io::Result<()> {
        let standing = held(&self.standing);
        let frame = standing.as_ref();
        if frame.is_some() {
            let _ = io::stderr().write_all(paint::CLEAR.as_bytes());
        }
        let written = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
        if let Some(frame) = frame {
            let _ = io::stderr().write_all(frame.as_bytes());
        }
        written
    }

    /// Draws a view over the one that stands there, when the terminal is ours.
    pub fn paint(&self, frame: Option<String>) {
        let mut standing = held(&self.standing);
        let is_ours = || terminal::is_in_front(io::stderr());
        if !self.may_draw() || !is_ours() {
            return;
        }
        let Some(frame) = frame else { return self.clear(&mut standing) };
        // In one piece: nothing half drawn is seen.
        let _ = io::stderr().write_all(frame.as_bytes());
        *standing = Some(frame);
    }

    fn may_draw(&self) -> bool {
        self.is_on() && !self.is_paused.load(Ordering::SeqCst)
    }

    /// True while somebody draws.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::SeqCst)
    }

    /// Waits for keys or the bell; what was typed.
    pub fn wait(&self, bell: &UnixStream, most: Duration) -> Vec<u8> {
        let stdin = io::stdin();
        let has_keys = held(&self.keys).is_some() && terminal::is_in_front(&stdin);
        let mut fds = vec![bell.as_fd()];
        if has_keys {
            fds.push(stdin.as_fd());
        }
        terminal::wait(&fds, most);
        let mut keys = held(&self.keys);
        let Some(known) = keys.as_ref().filter(|_| has_keys) else { return Vec::new() };
        if !self.may_draw() {
            return Vec::new();
        }
        // A shell may have put the terminal in order while we were stopped.
        known.retake();
        match known.typed() {
            Some(typed) => typed,
            None => {
                keys.take();
                Vec::new()
            }
        }
    }

    /// This process measures nothing itself.
    pub fn look_only(&self) {
        self.only_looks.store(true, Ordering::SeqCst);
    }

    /// True when this process measures nothing itself.
    pub fn only_looks(&self) -> bool {
        self.only_looks.load(Ordering::SeqCst)
    }

    /// What the end waits for, from now on.
    pub fn stop_so(&self, stops: Stops) {
        let _ = self.stops.set(stops);
    }

    /// What the end waits for.
    pub fn stops(&self) -> Stops {
        self.stops.get().copied().unwrap_or_default()
    }

    /// Wakes whoever draws. Waits for nothing.
    pub fn ring(&self) {
        if let Some(bell) = held(&self.bell).as_mut() {
            let _ = bell.write(&[0]);
        }
    }

    /// What signals mean for the terminal; those that ask for the end are somebody else's.
    pub fn heard(&self, heard: Heard) {
        match heard {
            Heard::Pause => {
                self.is_paused.store(true, Ordering::SeqCst);
                if self.is_on() {
                    self.give_back();
                }
            }
            Heard::Resume => {
                self.is_paused.store(false, Ordering::SeqCst);
                self.ring();
            }
            Heard::Resized | Heard::Stop(_) => self.ring(),
        }
    }

    /// Makes the terminal what it was, for good, from wherever this is called: a panic, a second signal.
    pub fn give_up(&self) {
        if self.is_on.swap(false, Ordering::SeqCst) {
            self.give_back();
        }
    }

    /// Makes the terminal what it was; what keeps others from changing it again is set before. A terminal that takes nothing is
    /// not waited for.
    fn give_back(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Ok(mut standing) = self.standing.try_lock() {
                self.clear(&mut standing);
                break;
            }
            if Instant::now() > until {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(keys) = held(&self.keys).as_ref() {
            keys.give_back();
        }
    }

    fn clear(&self, standing: &mut Option<String>) {
        if standing.take().is_some() && terminal::is_in_front(io::stderr()) {
            let _ = io::stderr().write_all(paint::CLEAR.as_bytes());
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
