//! Files that were read, until many of them are closed by one call.

use rustix::io::Errno;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

/// Files that are kept at most, so that threads on all processors stay far below the usual limit of open files.
const KEPT_MAX: usize = 16;

/// Files that nobody needs any more; all are closed when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct ReadFiles(Mutex<Vec<OwnedFd>>);

impl ReadFiles {
    /// Takes a file that was read.
    pub(crate) fn add(&self, file: OwnedFd) {
        // Poisoned only by a panic of another thread: then the file is closed at once.
        let Ok(mut kept) = self.0.lock() else { return };
        kept.push(file);
        if kept.len() == KEPT_MAX {
            close(&mut kept);
        }
    }
}

impl Drop for ReadFiles {
    fn drop(&mut self) {
        if let Ok(kept) = self.0.get_mut() {
            close(kept);
        }
    }
}

/// Closes all; such as have numbers that follow each other, as they mostly do, by one call.
fn close(files: &mut Vec<OwnedFd>) {
    let mut numbers: Vec<RawFd> = files.drain(..).map(IntoRawFd::into_raw_fd).collect();
    numbers.sort_unstable();
    for run in numbers.chunk_by(|a, b| a + 1 == *b) {
        if run.len() < 2 || close_range(run[0], run[run.len() - 1]).is_err() {
            // SAFETY: the numbers are those of files that were owned here and given up above; none was closed.
            run.iter().for_each(|&number| drop(unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
}

/// Closes the descriptors from a number to another, all of which the caller owns.
fn close_range(first: RawFd, last: RawFd) -> rustix::io::Result<()> {
    // SAFETY: no memory is touched, and every number of the range is that of a file which was given up to be closed here.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if done == 0 { Ok(()) } else { Err(Errno::NOSYS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// Numbers of files are other tests' matter too: that these go is seen from the other end of a pair.
    #[test]
    fn all_are_closed_and_no_others() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let other = File::open("/dev/null").unwrap();
        let kept = ReadFiles::default();
        let copies: Vec<OwnedFd> = (0..40).map(|_| writer.try_clone().unwrap().into()).collect();
        drop(writer);
        copies.into_iter().for_each(|copy| kept.add(copy));
        assert_eq!(kept.0.lock().unwrap().len(), 40 % KEPT_MAX);
        assert!(reader.read(&mut [0]).is_err(), "some are open");
        drop(kept);
        assert_eq!(reader.read(&mut [0]).ok(), Some(0), "nobody has the other end");
        assert!(rustix::io::fcntl_getfd(&other).is_ok());
    }
}
