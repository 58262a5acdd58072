//! The terminal that somebody reads: how large it is, whose it is, and its keys.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Columns of the terminal behind a descriptor; none when it is no terminal, or one that does not say.
#[must_use]
pub fn columns(fd: impl AsFd) -> Option<usize> {
    tcgetwinsize(fd).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Columns and lines of the terminal behind a descriptor; none when it is no terminal, or one that does not say.
#[must_use]
pub fn size(fd: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(fd).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// True when the terminal behind a descriptor belongs to this process group: a shell has put nobody else to the front.
#[must_use]
pub fn is_in_front(fd: impl AsFd) -> bool {
    tcgetpgrp(fd).is_ok_and(|front| front == getpgrp())
}

/// Keys one by one from standard input, without showing them. Signals of keys (Ctrl-C, Ctrl-Z) stay what they are, and so does
/// everything that is printed: nothing about the terminal changes but that lines are not edited by it.
#[derive(Debug)]
pub struct Keys {
    before: Termios,
}

impl Keys {
    /// Takes the keys. None when standard input is no terminal, or not ours: a process in the background that changes a terminal
    /// is stopped.
    #[must_use]
    pub fn take() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok().filter(|_| is_in_front(io::stdin()))?;
        let keys = Self { before };
        keys.retake();
        Some(keys)
    }

    /// Takes them again, after a pause in which somebody else had them, or a shell may have put the terminal in order.
    pub fn retake(&self) {
        if !is_in_front(io::stdin()) {
            return;
        }
        let mut wanted = self.before.clone();
        wanted.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        let is_so = tcgetattr(io::stdin())
            .is_ok_and(|now| !now.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        if !is_so {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &wanted);
        }
    }

    /// Makes the terminal what it was. Waits for nothing, and may be done any number of times.
    pub fn give_back(&self) {
        if is_in_front(io::stdin()) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        }
    }

    /// What was typed and not read yet, without waiting; none when the terminal has gone.
    #[must_use]
    pub fn typed(&self) -> Option<Vec<u8>> {
        // Reading somebody else's keys would stop this process.
        if !is_in_front(io::stdin()) || !is_ready(io::stdin().as_fd()) {
            return Some(Vec::new());
        }
        let mut bytes = [0; 64];
        let count = rustix::io::read(io::stdin(), &mut bytes).ok().filter(|count| *count > 0)?;
        Some(bytes[..count].to_vec())
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.give_back();
    }
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Waits until one of some descriptors can be read or has been closed, at most so long.
pub fn wait(fds: &[BorrowedFd<'_>], most: Duration) {
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
    let _ = poll(&mut fds, Some(&most));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::termios::{Winsize, tcsetwinsize};

    #[test]
    fn only_a_terminal_that_says_so_has_columns() {
        assert_eq!(columns(std::fs::File::open("/dev/null").expect("it is there")), None);
        let terminal = std::fs::File::options().read(true).write(true).open("/dev/ptmx");
        let terminal = terminal.expect("a terminal");
        let sized = |ws_col| {
            let size = Winsize { ws_row: 24, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
            tcsetwinsize(&terminal, size).expect("set");
            columns(&terminal)
        };
        assert_eq!((sized(80), sized(0)), (Some(80), None));
    }
}
