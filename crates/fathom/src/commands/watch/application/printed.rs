//! What an application prints: read as it comes, the end of it kept in memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How much of the end is looked at for figures: reports in JSON may be long.
const LOOKED_AT_BYTES_MAX: usize = 4 << 20;
/// How much of that is stored.
const KEPT_BYTES_MAX: usize = 64 << 10;
/// How long the last of it is waited for when a daemon keeps the stream open.
const LAST: Duration = Duration::from_millis(500);

/// The end of what was printed so far.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    is_closed: bool,
}

/// A stream that is read by a thread of its own, so that nobody waits for a full pipe and nothing is written anywhere.
pub struct Printed {
    tail: Arc<Mutex<Tail>>,
}

impl Printed {
    /// The stream and its two writing ends, for standard output and standard error.
    pub fn new() -> io::Result<(Self, File, File)> {
        let (mut reader, writer) = io::pipe()?;
        let stdout = File::from(OwnedFd::from(writer));
        let stderr = stdout.try_clone()?;
        let tail = Arc::new(Mutex::new(Tail::default()));
        let filled = Arc::clone(&tail);
        std::thread::Builder::new().name("printed".into()).spawn(move || {
            let mut chunk = vec![0; 64 << 10];
            loop {
                let read = reader.read(&mut chunk);
                let mut tail = filled.lock().unwrap_or_else(PoisonError::into_inner);
                match read {
                    Ok(0) => break tail.is_closed = true,
                    Ok(count) => {
                        tail.bytes.extend(&chunk[..count]);
                        let over = tail.bytes.len().saturating_sub(LOOKED_AT_BYTES_MAX);
                        tail.bytes.drain(..over);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break tail.is_closed = true,
                }
            }
        })?;
        Ok((Self { tail }, stdout, stderr))
    }

    /// All of it that is kept; waits a little for the last of it.
    pub fn text(&self) -> String {
        let begun = Instant::now();
        loop {
            let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            if tail.is_closed || begun.elapsed() > LAST {
                let bytes: Vec<u8> = tail.bytes.iter().copied().collect();
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            drop(tail);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Of output that is longer, what a figure that is missing was looked for in.
pub fn looked_at(text: &str) -> &'static str {
    if text.len() < LOOKED_AT_BYTES_MAX { "" } else { " (in the last 4 MiB of the output)" }
}

/// What is stored of it: its end, from the beginning of a character on.
pub fn end_of(mut text: String) -> String {
    let over = text.len().saturating_sub(KEPT_BYTES_MAX);
    let from = (over..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.drain(..from);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn of_long_output_it_is_told_that_its_end_is_looked_at() {
        let printed = |bytes: usize| {
            let (printed, mut stdout, stderr) = Printed::new().expect("a pipe");
            stdout.write_all(&vec![b'a'; bytes]).expect("written");
            drop((stdout, stderr));
            printed.text()
        };
        let (long, short) = (printed(5 << 20), printed(1 << 20));
        assert_eq!((long.len(), short.len()), (LOOKED_AT_BYTES_MAX, 1 << 20));
        assert!(looked_at(&long).contains("4 MiB") && looked_at(&short).is_empty());
    }
}
