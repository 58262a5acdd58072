//! The root under which `/sys`, `/proc`, `/dev` and `/etc` are read: `/` on a live machine, a directory of recorded
//! files in tests.

use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where the kernel's files are found.
#[derive(Debug, Clone)]
pub struct SysRoot {
    root: PathBuf,
}

impl SysRoot {
    /// The live machine.
    #[must_use]
    pub fn live() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A recorded tree.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// True for the live machine: only then may ioctls be asked about what the files name.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of `below` (absolute or relative) under this root.
    #[must_use]
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        let below = below.as_ref();
        self.root.join(below.strip_prefix("/").unwrap_or(below))
    }

    /// The whole file as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// Those of opening and reading.
    pub fn read(&self, below: impl AsRef<Path>) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.path(below))?).into_owned())
    }

    /// The file's text without surrounding white space; none when it is missing, unreadable or empty.
    #[must_use]
    pub fn text(&self, below: impl AsRef<Path>) -> Option<String> {
        let text = self.read(below).ok()?;
        let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!trimmed.is_empty()).then(|| trimmed.to_owned())
    }

    /// The file as a number (or anything that parses); none when it is missing or something else.
    #[must_use]
    pub fn value<T: FromStr>(&self, below: impl AsRef<Path>) -> Option<T> {
        self.text(below)?.parse().ok()
    }

    /// Where a symbolic link leads, as written in it.
    #[must_use]
    pub fn link(&self, below: impl AsRef<Path>) -> Option<PathBuf> {
        std::fs::read_link(self.path(below)).ok()
    }

    /// The names in a directory, sorted; empty when it is missing.
    #[must_use]
    pub fn names(&self, below: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(below)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// True when the path exists (a dangling link counts).
    #[must_use]
    pub fn exists(&self, below: impl AsRef<Path>) -> bool {
        std::fs::symlink_metadata(self.path(below)).is_ok()
    }
}
