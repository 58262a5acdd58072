//! Files of fathom's own places, which nobody else should have put anything into: only regular ones are opened. A named pipe would
//! hold up who opens it until somebody writes, a device may do anything, and what a link leads to is not what was noted there.

use rustix::fs::{Mode, OFlags};
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// `InvalidData`, with what lies there, for everything else; those of open(2).
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened: that alone does something to some devices.
    check(std::fs::symlink_metadata(path)?.file_type())?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    check(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads a regular file.
///
/// # Errors
/// As [`open`]; those of reading.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the text of a file that a user names, whatever links lead to it. A pipe is not waited for.
///
/// # Errors
/// `InvalidInput`, with what lies there, for what is no regular file; those of reading.
pub fn read_text(path: &Path) -> io::Result<String> {
    let is_file = |file_type| {
        check(file_type).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    };
    is_file(std::fs::metadata(path)?.file_type())?;
    std::fs::read_to_string(path)
}

fn check(kind: FileType) -> io::Result<()> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a directory",
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let text = format!("it is {what}, and no regular file");
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    /// Each is named at once; none is waited for.
    #[test]
    fn only_regular_files_are_opened() {
        let dir = std::env::temp_dir().join(format!("fathom-note-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("dir")).unwrap();
        let note = dir.join("note");
        std::fs::write(&note, "text").unwrap();
        assert_eq!(read(&note).unwrap(), b"text");
        mknodat(CWD, dir.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(&note, dir.join("link")).unwrap();
        let _socket = UnixListener::bind(dir.join("socket")).unwrap();
        let cases = [
            ("dir", "a directory"),
            ("pipe", "a named pipe"),
            ("link", "a symbolic link"),
            ("socket", "a socket"),
            ("/dev/null", "a device"),
        ];
        for (name, what) in cases {
            let error = read(&dir.join(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}");
            assert_eq!(error.to_string(), format!("it is {what}, and no regular file"));
        }
        assert_eq!(read(&dir.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_text(&dir.join("link")).unwrap(), "text");
        let error = read_text(&dir.join("pipe")).unwrap_err();
        assert_eq!(error.to_string(), "it is a named pipe, and no regular file");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
