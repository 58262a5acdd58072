//! A directory of a test's own, whose removal first takes down whatever still uses it.

use crate::command::{KitError, at};
use crate::leftovers;
use std::fs;
use std::path::{Path, PathBuf};

/// How every scratch directory's name begins.
pub const PREFIX: &str = "fathom-testkit-";

/// A temporary directory; when dropped, mounts below it, loop devices backed by files in it, swap on those and zram
/// devices noted in it are taken down first, then it is removed. A mount that cannot be undone keeps it.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Makes a new, empty directory named after this process.
    ///
    /// # Errors
    /// Those of making it.
    pub fn new() -> Result<Self, KitError> {
        let base = std::env::temp_dir();
        let prefix = format!("{PREFIX}{}-", Owner::this_process());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(&base).map_err(at(&base))?;
        // Removal is ours: a recursive delete must not reach into what is mounted below.
        Ok(Self { dir: dir.keep() })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// A path in the directory; nothing is created.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = leftovers::take_down(&self.dir) {
            eprintln!("test kit: {error}");
        }
    }
}

/// The process that made a scratch directory: its number and start time, so that a reused number is not mistaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pid: u32,
    start_ticks: u64,
}

impl Owner {
    /// The owner that is running this code.
    #[must_use]
    pub fn this_process() -> Self {
        let pid = std::process::id();
        Self { pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// The owner that a path names: its first component that is a scratch directory.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<(PathBuf, Self)> {
        let dir = path.ancestors().filter(|dir| Self::of_name(dir).is_some()).last()?;
        Some((dir.to_owned(), Self::of_name(dir)?))
    }

    fn of_name(dir: &Path) -> Option<Self> {
        let rest = dir.file_name()?.to_str()?.strip_prefix(PREFIX)?;
        let mut fields = rest.split('-');
        let pid = fields.next()?.parse().ok()?;
        Some(Self { pid, start_ticks: fields.next()?.parse().ok()? })
    }

    /// True when that very process still runs.
    #[must_use]
    pub fn is_alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.pid, self.start_ticks)
    }
}

/// Field 22 of `/proc/PID/stat`; the command name before it may hold spaces and brackets. None for a zombie, which
/// holds nothing any more.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_directory_names_its_owner_and_goes() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.join("a");
        fs::write(&file, "x").unwrap();
        let dir = scratch.path().to_owned();
        assert_eq!(Owner::of_path(&file), Some((dir.clone(), Owner::this_process())));
        assert!(Owner::this_process().is_alive());
        drop(scratch);
        assert!(!dir.exists());
    }

    #[test]
    fn a_reused_process_number_is_another_owner() {
        let other = Owner { pid: std::process::id(), start_ticks: 1 };
        assert!(!other.is_alive());
        assert_eq!(Owner::of_path(Path::new("/tmp/fathom-testkit-x/y")), None);
        assert_eq!(Owner::of_path(Path::new("/dev/vda")), None);
    }
}
