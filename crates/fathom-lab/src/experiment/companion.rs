//! The load beside the measured one: what else a system in use does.

use fathom_sys::threads;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So much of what a companion says last is kept.
const SAID_BYTES_MAX: usize = 2048;

/// What a companion says on its standard error, of which the end is kept, however much it is: written to a file it would be I/O beside the
/// measured one, and what is not read would hold the companion up.
#[derive(Debug)]
pub(crate) struct Said {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Said {
    /// Begins to listen; the file is for the companion to write to.
    ///
    /// # Errors
    /// Those of pipe(2) and of starting a thread.
    pub fn listen() -> io::Result<(Self, File)> {
        let (mut from, to) = io::pipe()?;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&kept);
        let keep = move || {
            let mut piece = [0; 4096];
            loop {
                match from.read(&mut piece) {
                    Ok(0) => return,
                    Ok(length) => add(&keeps, &piece[..length]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        };
        let reader = thread::Builder::new().name("companion".to_owned()).spawn(keep)?;
        Ok((Self { kept, reader }, File::from(OwnedFd::from(to))))
    }

    /// What was said so far; of one that has ended all of it.
    pub fn text(&self) -> String {
        const TRIES: u32 = 50;
        // What it has left running may say more, and is not waited for.
        for _ in 0..TRIES {
            if self.reader.is_finished() {
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let kept = self.kept.lock();
        kept.map_or_else(|_| String::new(), |kept| String::from_utf8_lossy(&kept).into_owned())
    }
}

/// Adds to what is kept, of which the beginning goes.
fn add(kept: &Mutex<Vec<u8>>, piece: &[u8]) {
    let Ok(mut kept) = kept.lock() else { return };
    kept.extend_from_slice(piece);
    let over = kept.len().saturating_sub(SAID_BYTES_MAX);
    kept.drain(..over);
}

/// The commands of a companion, one for each program: `cpu` keeps every processor busy, `memory` the path to memory; anything
/// else is a command for the shell.
#[must_use]
pub(crate) fn commands(companion: &str) -> Vec<Vec<OsString>> {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let cpus = threads::allowed_cpus().map_or(1, |cpus| cpus.len().max(1));
    match companion {
        "" | "none" => Vec::new(),
        // A digest of what never ends: computing, almost no system calls.
        "cpu" => vec![words(&["sha256sum", "/dev/zero"]); cpus],
        // Far more at once than processors' caches hold, so every byte goes to memory.
        "memory" => {
            vec![
                words(&["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "status=none"]);
                cpus.div_ceil(2)
            ]
        }
        command => vec![words(&["/bin/sh", "-c", command])],
    }
}

/// In words, for the outline.
#[must_use]
pub(crate) fn words(companion: &str) -> String {
    let commands = commands(companion);
    let text = |words: &Vec<OsString>| {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    match commands.as_slice() {
        [] => "nothing".to_owned(),
        [_] if !matches!(companion, "cpu" | "memory") => companion.to_owned(),
        [one] => text(one),
        [one, ..] => format!("{} x {}", commands.len(), text(one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_end_of_what_was_said_is_kept() {
        let (said, mut file) = Said::listen().expect("a pipe");
        for line in 0..10_000 {
            writeln!(file, "line {line}").expect("it is read");
        }
        file.write_all(b"no such file").expect("it is read");
        drop(file);
        let text = said.text();
        assert!(
            text.ends_with("line 9999\nno such file") && text.len() == SAID_BYTES_MAX,
            "{text}"
        );
    }
}
