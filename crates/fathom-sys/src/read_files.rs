//! Files that were read, until many of them are closed by one call.

use fathom_base::order::Order;
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Files that a thread keeps at most: far below the usual limit of open files.
const KEPT_MAX: usize = 64;

thread_local! {
    static READ: RefCell<ReadFiles> = RefCell::default();
}

/// Files that nobody needs any more, and for how many directories they are kept; all are closed when it is dropped.
#[derive(Debug, Default)]
struct ReadFiles {
    kept: Vec<OwnedFd>,
    directories: usize,
}

/// A directory was opened in which files will be read: as long as this thread has any such, it keeps what was read.
pub(crate) fn begin() {
    // When the thread ends there is nothing left to keep.
    let _ = READ.try_with(|read| read.borrow_mut().directories += 1);
}

/// Takes a file that was read.
pub(crate) fn add(file: OwnedFd) {
    let _ = READ.try_with(|read| read.borrow_mut().add(file));
}

/// Takes a directory that is done with; with the last one all that was kept is closed.
pub(crate) fn end(directory: OwnedFd) {
    let _ = READ.try_with(|read| {
        let mut read = read.borrow_mut();
        read.kept.push(directory);
        read.directories = read.directories.saturating_sub(1);
        if read.directories == 0 {
            close(&mut read.kept);
        }
    });
}

impl ReadFiles {
    fn add(&mut self, file: OwnedFd) {
        self.kept.push(file);
        if self.kept.len() >= KEPT_MAX || self.directories == 0 {
            close(&mut self.kept);
        }
    }
}

impl Drop for ReadFiles {
    fn drop(&mut self) {
        close(&mut self.kept);
    }
}

/// Closes all; such as have numbers that follow each other, as they mostly do, by one call.
fn close(files: &mut Vec<OwnedFd>) {
    let mut numbers: Vec<RawFd> = files.drain(..).map(IntoRawFd::into_raw_fd).collect();
    numbers.order();
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
        let mut kept = ReadFiles { directories: 1, kept: Vec::new() };
        let copies: Vec<OwnedFd> = (0..150).map(|_| writer.try_clone().unwrap().into()).collect();
        drop(writer);
        copies.into_iter().for_each(|copy| kept.add(copy));
        assert_eq!(kept.kept.len(), 150 % KEPT_MAX);
        assert!(reader.read(&mut [0]).is_err(), "some are open");
        drop(kept);
        assert_eq!(reader.read(&mut [0]).ok(), Some(0), "nobody has the other end");
        assert!(rustix::io::fcntl_getfd(&other).is_ok());
    }

    #[test]
    fn with_the_last_directory_all_go() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        reader.set_nonblocking(true).unwrap();
        let copy = || -> OwnedFd { writer.try_clone().unwrap().into() };
        let directories = [copy(), copy()];
        directories.iter().for_each(|_| begin());
        (0..3).for_each(|_| add(copy()));
        let [first, second] = directories;
        end(first);
        drop(writer);
        assert!(reader.read(&mut [0]).is_err(), "one directory is open");
        end(second);
        assert_eq!(reader.read(&mut [0]).ok(), Some(0));
    }
}
