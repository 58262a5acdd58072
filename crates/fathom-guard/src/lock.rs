//! One measurement at a time on a machine: a whole-file lock on a file that every user can open.
//!
//! The file lies in the first of `/run/lock` and `/tmp` in which everybody may make files, so that root and everybody
//! else meet at the same one. Only the kernel's lock on it counts, which ends with its holder however that ends; the
//! file's content, owner and age mean nothing and nothing is ever written into it. Who holds it is read from the
//! kernel (`/proc/locks`), so it can be neither stale nor forged.

use fathom_base::shell;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Name of the file.
pub const FILE_NAME: &str = "fathom.lock";
/// Candidates for its place.
const PLACES: [&str; 2] = ["/run/lock", "/tmp"];
/// How often to begin again when the file is replaced while it is being locked.
const TRIES: u32 = 20;

/// How long one who was killed may take to let go of it, and how often that is looked at.
const DYING_MAX: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// The right to measure, until it is dropped or the process ends.
#[derive(Debug)]
pub struct MeasuringLock {
    _file: File,
    path: PathBuf,
}

/// Numbers of errors that have a cure of their own.
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;

/// Why there is none.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody measures.
    #[error(
        "another measurement is running on this machine: {holder}\nonly one at a time measures or puts settings back; wait for its end, or end it"
    )]
    Held {
        /// Who.
        holder: Holder,
    },
    /// The file cannot be used.
    #[error("the measuring lock {path} cannot be used: {reason}\n{cure}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
        /// What to do.
        cure: String,
    },
}

/// Who holds the lock, as far as it can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process number; none in another process namespace.
    pub pid: Option<u32>,
    /// Its command line; empty when it cannot be seen.
    pub command: String,
    /// How long it has been running, in seconds.
    pub age_s: Option<u64>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(pid) = self.pid else {
            return f.write_str("a process that cannot be seen from here (in a container?)");
        };
        write!(f, "process {pid}")?;
        if !self.command.is_empty() {
            write!(f, ", {}", self.command)?;
        }
        match self.age_s {
            Some(age_s) => write!(f, ", running for {age_s} s"),
            None => Ok(()),
        }
    }
}

impl MeasuringLock {
    /// Takes the machine's lock.
    ///
    /// # Errors
    /// [`LockError::Held`] says by whom; [`LockError::Unusable`].
    pub fn acquire(root: &SysRoot) -> Result<Self, LockError> {
        Self::acquire_in(root, place())
    }

    /// The machine's lock, which need not exist yet.
    #[must_use]
    pub fn default_path() -> PathBuf {
        place().join(FILE_NAME)
    }

    /// Takes the lock in a directory of one's own choice, which everybody who is to be excluded must choose too.
    ///
    /// # Errors
    /// As [`MeasuringLock::acquire`].
    pub fn acquire_in(root: &SysRoot, dir_path: &Path) -> Result<Self, LockError> {
        // The place itself may be reached by a symbolic link; the file must not be one.
        let dir_path = std::fs::canonicalize(dir_path).unwrap_or_else(|_| dir_path.to_owned());
        let path = dir_path.join(FILE_NAME);
        let foreign = |reason: &str| {
            let cure = format!("remove it as root: rm {}", shell::path(&path));
            LockError::Unusable { path: path.clone(), reason: reason.to_owned(), cure }
        };
        let unusable = |error: io::Error| {
            let cure = match error.raw_os_error() {
                Some(ENOSPC | EROFS) => "free some space there, or make it writable".to_owned(),
                Some(ENOENT | ENOTDIR) => {
                    "make the directory: it should be there on every system".to_owned()
                }
                _ => match threads::descriptors_limit(&error) {
                    Some(limit) => format!("raise {limit}"),
                    None => return foreign(&error.to_string()),
                },
            };
            let (path, reason) = (path.clone(), error.to_string());
            LockError::Unusable { path, reason, cure }
        };
        let dir = Dir::open(&dir_path).map_err(unusable)?;
        let mut waited = Duration::ZERO;
        for _ in 0..TRIES {
            let Some(file) = open(&dir).map_err(unusable)? else {
                continue;
            };
            let own = dirfd::facts_of(&file).map_err(unusable)?;
            if !own.is_file {
                return Err(foreign("it is not a regular file"));
            }
            while !dirfd::try_lock(&file).map_err(unusable)? {
                let holder = holder(root, own);
                // Nobody's number is there for who was killed, as long as what it was just starting has its open files.
                let is_going = holder.pid.is_none_or(|pid| process::is_dying(root, pid));
                if !is_going || waited >= DYING_MAX {
                    return Err(LockError::Held { holder });
                }
                thread::sleep(PAUSE);
                waited += PAUSE;
            }
            // Somebody may have removed or replaced it meanwhile; the lock on a nameless file excludes nobody.
            let named = dir.facts(FILE_NAME);
            if named.is_ok_and(|named| (named.dev, named.inode) == (own.dev, own.inode)) {
                return Ok(Self { _file: file, path });
            }
        }
        Err(foreign("it is replaced again and again"))
    }

    /// The file that is locked.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The first place in which everybody may make files; the same for all users, since it depends on nobody's rights.
fn place() -> &'static Path {
    const STICKY_FOR_ALL: u32 = 0o1777;
    let is_for_all = |place: &&&str| {
        let meta = std::fs::metadata(place);
        meta.is_ok_and(|m| m.is_dir() && m.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL)
    };
    Path::new(PLACES.iter().find(is_for_all).unwrap_or(&"/tmp"))
}

/// Opens the file for reading, which is all that locking needs, or makes it; none when another made it just now.
///
/// Opening and making are two steps: in a sticky directory the kernel lets nobody "create" an existing file of
/// somebody else (`fs.protected_regular`).
fn open(dir: &Dir) -> io::Result<Option<File>> {
    match dir.open_file(FILE_NAME, false) {
        Ok(file) => return Ok(Some(file)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    match dir.create_file(FILE_NAME) {
        Ok(file) => {
            // Whatever the umask: others must be able to open it.
            file.set_permissions(Permissions::from_mode(0o444))?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        Err(error) => Err(error),
    }
}

fn holder(root: &SysRoot, file: FileFacts) -> Holder {
    let locks = root.read("proc/locks").unwrap_or_default();
    let pid = locks.lines().find_map(|line| holder_in(line, file)).filter(|&pid| pid > 0);
    Holder {
        pid,
        command: pid.map(|pid| process::command_line(root, pid)).unwrap_or_default(),
        age_s: pid.and_then(|pid| process::age_s(root, pid)),
    }
}

/// `1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF`; those who wait have `->` in the second place.
fn holder_in(line: &str, file: FileFacts) -> Option<u32> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    if fields.next()? != "FLOCK" {
        return None;
    }
    let pid = fields.nth(2)?.parse().ok()?;
    let mut place = fields.next()?.split(':');
    let major = u32::from_str_radix(place.next()?, 16).ok()?;
    let minor = u32::from_str_radix(place.next()?, 16).ok()?;
    let inode: u64 = place.next()?.parse().ok()?;
    let dev = fathom_sys::devno::DevNo { major, minor }.to_raw();
    ((dev, inode) == (file.dev, file.inode)).then_some(pid)
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
