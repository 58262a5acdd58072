//! How wide the terminal is that somebody reads.

use rustix::termios::tcgetwinsize;
use std::os::fd::AsFd;

/// Columns of the terminal behind a descriptor; none when it is no terminal, or one that does not say.
#[must_use]
pub fn columns(fd: impl AsFd) -> Option<usize> {
    tcgetwinsize(fd).ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
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
