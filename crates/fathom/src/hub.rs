//! The door through which others look at a measurement that runs: a socket beside the store. They get what is known, then what
//! happens; whoever does not read is left behind, and nobody is waited for.

use fathom_sys::clock;
use fathom_sys::door::{self, Door};
use fathom_sys::signals::{self, StopFlag};
use fathom_tui::state::{State, Update};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the socket beside the store. One is enough: a machine measures one thing at a time.
pub const DOOR: &str = ".fathom-live.sock";

/// What a visitor may say.
pub const END: &str = "end\n";

/// How often visitors are looked for when nothing happens.
const LOOK: Duration = Duration::from_secs(1);

/// What waits for a visitor who does not read; beyond it the visitor is left behind.
const PENDING_BYTES_MAX: usize = 4 << 20;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Removes the door that a killed process left. Whatever else has its name stays.
pub fn forget_left(state_dir: &Path) {
    let _ = door::forget_dead(state_dir, DOOR);
}

/// One line of what a visitor gets.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first: who speaks, and what is known.
    Hello {
        /// Version of fathom; another one may mean other things by the same words.
        version: String,
        /// What is known.
        state: Box<State>,
    },
    /// What happens.
    Update(Box<Update>),
}

/// An open door. When dropped it closes, after the last words: in a panic too, or the process could be gone before its thread has
/// removed the socket.
pub struct Hub {
    sender: Sender<Option<Box<Update>>>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Opens the door; none when that cannot be: a measurement needs no visitors.
    pub fn open(state_dir: &Path, stop: &StopFlag) -> Option<Self> {
        let door = Door::open(state_dir, DOOR).ok()?;
        let (sender, receiver) = mpsc::channel();
        let state = State::new(clock::monotonic_ns());
        let host = Host { door, receiver, state, visitors: Vec::new(), stop: stop.clone() };
        let thread = std::thread::Builder::new().name("door".into()).spawn(|| host.run()).ok()?;
        Some(Self { sender, thread: Some(thread) })
    }

    /// Tells what happened. Waits for nothing.
    pub fn tell(&self, update: Update) {
        let _ = self.sender.send(Some(Box::new(update)));
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.sender.send(None);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Who keeps the door.
struct Host {
    door: Door,
    receiver: Receiver<Option<Box<Update>>>,
    state: State,
    visitors: Vec<Visitor>,
    stop: StopFlag,
}

impl Host {
    fn run(mut self) {
        loop {
            match self.receiver.recv_timeout(LOOK) {
                Ok(Some(update)) => self.happened(update),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.look_out();
        }
        self.visitors.iter_mut().for_each(Visitor::take_leave);
    }

    fn happened(&mut self, update: Box<Update>) {
        self.state.apply(&update, clock::monotonic_ns());
        let line = line_of(&Line::Update(update));
        self.visitors.iter_mut().for_each(|visitor| visitor.give(&line));
    }

    /// Lets visitors in, hears what they say, and forgets those who have gone.
    fn look_out(&mut self) {
        while let Some(stream) = self.door.visitor() {
            let mut visitor = Visitor { stream, pending: Vec::new(), heard: String::new() };
            let version = env!("CARGO_PKG_VERSION").to_owned();
            let state = Box::new(self.state.clone());
            visitor.give(&line_of(&Line::Hello { version, state }));
            self.visitors.push(visitor);
        }
        for visitor in &mut self.visitors {
            visitor.give(&[]);
            if visitor.asks_for_the_end() {
                signals::interrupt(&self.stop);
            }
        }
        self.visitors.retain(|visitor| visitor.pending.len() <= PENDING_BYTES_MAX);
    }
}

fn line_of(line: &Line) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Somebody who looks.
struct Visitor {
    stream: UnixStream,
    pending: Vec<u8>,
    heard: String,
}

impl Visitor {
    /// Sends what is pending and this, as much as goes without waiting.
    fn give(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while !self.pending.is_empty() {
            match self.stream.write(&self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => return self.forget(),
            }
        }
    }

    /// Gone: more is pending than may be.
    fn forget(&mut self) {
        self.pending = vec![0; PENDING_BYTES_MAX + 1];
    }

    fn asks_for_the_end(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.stream.read(&mut bytes) {
            Ok(0) => self.forget(),
            Ok(count) => self.heard.push_str(&String::from_utf8_lossy(&bytes[..count])),
            Err(_) => {}
        }
        let asks = self.heard.contains(END);
        // Whoever says anything else says it to nobody.
        if asks || self.heard.len() > 64 {
            self.heard.clear();
        }
        asks
    }

    /// What is pending is sent, with a little patience.
    fn take_leave(&mut self) {
        let patient = self
            .stream
            .set_nonblocking(false)
            .and_then(|()| self.stream.set_write_timeout(Some(LAST_WORDS)));
        if patient.is_ok() && self.pending.len() <= PENDING_BYTES_MAX {
            let _ = self.stream.write_all(&self.pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::event::Event;
    use std::io::{BufRead, BufReader};

    fn note(text: &str) -> Update {
        Update::Event(Event::Note { text: text.into() })
    }

    #[test]
    fn visitors_get_what_is_known_and_what_happens() {
        let dir = std::env::temp_dir().join(format!("fathom-hub-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let hub = Hub::open(&dir, &StopFlag::default()).expect("opened");
        hub.tell(note("first"));
        let stream = fathom_sys::door::connect(&dir, DOOR).expect("open");
        // Somebody who never reads.
        let deaf = fathom_sys::door::connect(&dir, DOOR).expect("open");
        let mut lines = BufReader::new(stream).lines();
        let mut next = || lines.next().map(|line| line.expect("whole"));
        let hello: Line = serde_json::from_str(&next().expect("a line")).expect("understood");
        let Line::Hello { state, .. } = hello else { panic!("{hello:?}") };
        assert_eq!(state.note.as_deref(), Some("first"));
        let long = "x".repeat(100_000);
        for _ in 0..100 {
            hub.tell(note(&long));
            // One who reads gets everything.
            assert!(next().expect("a line").contains(&long));
        }
        hub.tell(Update::Ended { exit_code: 1, text: "Stored as x".into() });
        drop(hub);
        assert!(next().expect("a line").contains("Stored as x"));
        assert_eq!(next(), None);
        assert!(!dir.join(DOOR).exists());
        drop(deaf);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
