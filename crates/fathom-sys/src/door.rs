//! A socket in a directory, for processes of the same user on the same machine.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
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
    /// Device and inode of the file.
    id: (u64, u64),
}

impl Door {
    /// Opens it as `name` in the directory, in the place of one that a killed process of this user left there.
    ///
    /// # Errors
    /// Those of making it; AlreadyExists when anything else has that name.
    pub fn open(dir: &Path, name: &str) -> io::Result<Self> {
        forget_dead(dir, name)?;
        let listener = with_address(dir, name, |address| UnixListener::bind(address))?;
        let path = dir.join(name);
        let (file, stat) = look(&path)?;
        if !is_own_socket(&stat) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let door = Self { listener, path, id: (stat.st_dev, stat.st_ino) };
        // By the descriptor: whoever may write the directory could have put something else there.
        let by_descriptor = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
        fs::set_permissions(by_descriptor, Permissions::from_mode(0o600))?;
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
        if look(&self.path).is_ok_and(|(_, stat)| (stat.st_dev, stat.st_ino) == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket of this user that nobody listens at. That there is nothing is fine.
///
/// # Errors
/// AlreadyExists for anything else under that name, which stays.
pub fn forget_dead(dir: &Path, name: &str) -> io::Result<()> {
    let path = dir.join(name);
    let stat = match look(&path) {
        Ok((_, stat)) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if is_own_socket(&stat) && with_address(dir, name, is_dead)? {
        return fs::remove_file(&path);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// True when no process listens at a socket any more. Waits for nobody: one that is too busy to answer is alive.
fn is_dead(address: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let answer = rustix::net::connect(&socket, &SocketAddrUnix::new(address)?);
    Ok(answer == Err(Errno::CONNREFUSED))
}

/// What lies under a path, without following a link in its last place.
fn look(path: &Path) -> io::Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    Ok((file, stat))
}

fn is_own_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_socket() && stat.st_uid == geteuid().as_raw()
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
        drop(door);
        drop(with_address(&dir, "s", |address| UnixListener::bind(address)).expect("bound"));
        assert!(dir.join("s").exists());
        let door = Door::open(&dir, "s").expect("opened in its place");
        assert!(connect(&dir, "s").is_ok());
        drop(door);
        assert!(!dir.join("s").exists());
    }

    #[test]
    fn only_dead_sockets_make_room() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (dir, path) = (scratch.path(), scratch.path().join("s"));
        let is_kept = || {
            let kept = [forget_dead(dir, "s"), Door::open(dir, "s").map(drop)];
            kept.iter().all(|done| {
                done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
            })
        };
        forget_dead(dir, "s").expect("nothing there");
        fs::write(&path, "somebody's").expect("written");
        assert!(is_kept());
        assert_eq!(fs::read_to_string(&path).expect("there"), "somebody's");
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/etc/hostname", &path).expect("made");
        assert!(is_kept() && path.is_symlink());
        fs::remove_file(&path).expect("removed");
        let alive = UnixListener::bind(&path).expect("bound");
        assert!(is_kept() && connect(dir, "s").is_ok());
        fs::remove_file(&path).expect("removed");
        let other_kind = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
        assert!(is_kept());
        drop((alive, other_kind));
        // Now nobody listens any more.
        forget_dead(dir, "s").expect("dead");
        assert!(!path.exists());
        let door = Door::open(dir, "s").expect("opened");
        fs::rename(&path, dir.join("t")).expect("renamed");
        fs::write(&path, "somebody's").expect("written");
        drop(door);
        assert_eq!(fs::read_to_string(&path).expect("there"), "somebody's");
    }
}
