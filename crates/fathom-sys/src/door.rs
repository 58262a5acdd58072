//! A socket in a directory, for processes of the same user on the same machine.

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path that fits into an address of a socket.
const PATH_MAX: usize = 107;

/// A socket that others can connect to; its file goes with it.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    /// Opens it as `name` in the directory, in the place of one that a killed process left there: the caller knows that no other
    /// uses it.
    ///
    /// # Errors
    /// Those of making it.
    pub fn open(dir: &Path, name: &str) -> io::Result<Self> {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_address(dir, name, |address| UnixListener::bind(address))?;
        let door = Self { listener, path };
        fs::set_permissions(&door.path, Permissions::from_mode(0o600))?;
        door.listener.set_nonblocking(true)?;
        Ok(door)
    }

    /// The next who has connected, without waiting; neither reads nor writes of it wait. Others than this user and root are
    /// turned away: for a moment the file was open to them.
    #[must_use]
    pub fn visitor(&self) -> Option<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().ok()?;
            let is_welcome = socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid == geteuid() || peer.uid.is_root());
            if is_welcome && stream.set_nonblocking(true).is_ok() {
                return Some(stream);
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to a door.
///
/// # Errors
/// NotFound when there is none, ConnectionRefused when the process behind it has gone.
pub fn connect(dir: &Path, name: &str) -> io::Result<UnixStream> {
    with_address(dir, name, |address| UnixStream::connect(address))
}

/// The address of a socket is short; that of one in a deep directory begins at the directory's descriptor.
fn with_address<T>(
    dir: &Path,
    name: &str,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let path = dir.join(name);
    if path.as_os_str().len() <= PATH_MAX {
        return act(&path);
    }
    let dir = File::open(dir)?;
    act(&Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_door_in_a_deep_directory_is_open_to_its_owner_only() {
        let scratch = tempfile::tempdir().expect("a directory");
        let dir = scratch.path().join("d".repeat(150));
        fs::create_dir(&dir).expect("made");
        assert_eq!(connect(&dir, "s").expect_err("no door").kind(), io::ErrorKind::NotFound);
        let door = Door::open(&dir, "s").expect("opened");
        let mode = fs::metadata(dir.join("s")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(door.visitor().is_none());
        let mut visitor = connect(&dir, "s").expect("open");
        let mut seen = door.visitor().expect("connected");
        visitor.write_all(b"end\n").expect("written");
        let mut text = [0; 4];
        seen.read_exact(&mut text).expect("read");
        assert_eq!(&text, b"end\n");
        // One that was killed leaves its file.
        std::mem::forget(door);
        let door = Door::open(&dir, "s").expect("opened in its place");
        assert!(connect(&dir, "s").is_ok());
        drop(door);
        assert!(!dir.join("s").exists());
    }
}
