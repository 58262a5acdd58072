//! The kernel's log (`/dev/kmsg`), read without waiting and without taking anything away from other readers.

use crate::sysroot::SysRoot;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};

/// No record is longer (`CONSOLE_EXT_LOG_MAX` of the kernel, `Documentation/ABI/testing/dev-kmsg`).
const RECORD_BYTES_MAX: usize = 8192;

/// More than the largest ring buffer holds (`log_buf_len` is at most 2 GiB, records have 40 bytes and more; in practice it
/// is 256 KiB to 16 MiB), so that reading ends also while others write faster than it reads.
const RECORDS_MAX: usize = 500_000;

/// All records that the kernel still has, the oldest first, each ended by a line feed: `PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT`,
/// followed by lines with a blank in front that hold properties. In a recorded tree the file is taken as it is.
///
/// # Errors
/// Those of opening (the log needs root where `kernel.dmesg_restrict` is set) and of reading.
pub fn read(root: &SysRoot) -> io::Result<String> {
    let path = root.path("dev/kmsg");
    if !root.is_live() {
        return root.read("dev/kmsg");
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    records(File::from(rustix::fs::open(&path, flags, Mode::empty())?))
}

/// Each read gives one record; at the end of the log it would wait.
fn records(mut log: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let mut record = [0; RECORD_BYTES_MAX];
    for _ in 0..RECORDS_MAX {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => text += &String::from_utf8_lossy(&record[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // EPIPE: the record that comes next was overwritten meanwhile; reading goes on with the oldest that is left.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Nothing of what was read so far becomes wrong by it.
            Err(_) if !text.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one prepared answer for each read, as the device does.
    struct Device(Vec<Result<&'static str, io::ErrorKind>>);

    impl Read for Device {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let text = self.0.remove(0)?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    #[test]
    fn it_ends_where_it_would_wait_and_goes_on_after_what_was_overwritten() {
        let answers = vec![
            Err(io::ErrorKind::BrokenPipe),
            Ok("6,7,100,-;one\n"),
            Err(io::ErrorKind::Interrupted),
            Ok("3,8,200,-;two\n SUBSYSTEM=block\n"),
            Err(io::ErrorKind::WouldBlock),
        ];
        let text = records(Device(answers)).expect("a log");
        assert_eq!(text, "6,7,100,-;one\n3,8,200,-;two\n SUBSYSTEM=block\n");
    }

    #[test]
    fn what_was_read_before_an_error_counts() {
        let answers = vec![Ok("6,7,100,-;one\n"), Err(io::ErrorKind::InvalidInput)];
        assert_eq!(records(Device(answers)).expect("a log"), "6,7,100,-;one\n");
        let refused = records(Device(vec![Err(io::ErrorKind::PermissionDenied)]));
        assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
    }
}
