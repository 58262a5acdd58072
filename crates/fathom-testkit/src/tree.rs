//! Recorded machines: `sys`, `proc` and `dev` as files in a directory of a test's own, for what no test machine has.

use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A machine in a directory, gone when dropped. What cannot be built panics: that is an error of the test.
#[derive(Debug)]
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    /// An empty machine.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    #[must_use]
    pub fn new() -> Self {
        // As sysfs is in memory: a disk's filesystem takes ten times as long for that many small files.
        if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
            return Self { dir };
        }
        let place = std::env::temp_dir();
        Self { dir: must(&place, tempfile::tempdir_in(&place)) }
    }

    /// A machine that is written down as text: `[PREFIX]` sets a directory for the lines that follow; `PATH = TEXT` is a
    /// file (`\n` for a new line), `PATH -> TARGET` a link, `#` begins a comment.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        let tree = Self::new();
        let mut prefix = PathBuf::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(path) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                prefix = PathBuf::from(path);
                tree.make_dir(&prefix);
            } else if let Some((path, target)) = line.split_once(" -> ") {
                tree.link(prefix.join(path.trim()), target.trim());
            } else {
                let (path, content) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
                tree.put(prefix.join(path.trim()), content.replace("\\n", "\n") + "\n");
            }
        }
        tree
    }

    /// The machine's root.
    #[must_use]
    pub fn root(&self) -> SysRoot {
        SysRoot::at(self.dir.path())
    }

    /// Writes a file. The links that sysfs keeps for every block device are made from its `dev` and `hidden` files.
    pub fn put(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let (path, content) = (path.as_ref(), content.as_ref());
        let dir = path.parent().unwrap_or(Path::new(""));
        self.make_dir(dir);
        must(path, fs::write(self.dir.path().join(path), content));
        let (Ok(device), Some(name)) = (dir.strip_prefix("sys/devices"), dir.file_name()) else {
            return self;
        };
        if path.ends_with("dev") || path.ends_with("hidden") {
            self.link(
                Path::new("sys/class/block").join(name),
                Path::new("../../devices").join(device),
            );
            self.link(Path::new("sys/block").join(name), Path::new("../devices").join(device));
        }
        if path.ends_with("dev") {
            let number = String::from_utf8_lossy(content).trim().to_owned();
            self.link(
                Path::new("sys/dev/block").join(number),
                Path::new("../../devices").join(device),
            );
        }
        self
    }

    /// Makes a symbolic link; several devices may describe the bus above them in the same words.
    pub fn link(&self, path: impl AsRef<Path>, target: impl AsRef<Path>) -> &Self {
        let (path, target) = (path.as_ref(), target.as_ref());
        self.make_dir(path.parent().unwrap_or(Path::new("")));
        let path = self.dir.path().join(path);
        if fs::read_link(&path).ok().as_deref() != Some(target) {
            must(&path, symlink(target, &path));
        }
        self
    }

    /// Adds a block device at `sys/devices/DIR`, with attributes.
    pub fn device(&self, dir: &str, devno: &str, attributes: &[(&str, &str)]) -> &Self {
        for (name, text) in [("dev", devno)].iter().chain(attributes) {
            self.put(Path::new("sys/devices").join(dir).join(name), text);
        }
        self
    }

    fn make_dir(&self, path: &Path) {
        must(path, fs::create_dir_all(self.dir.path().join(path)));
    }
}

fn must<T>(path: &Path, result: io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
