//! Machines written down as text, and built as files when a test needs them.
//!
//! `[PREFIX]` sets a directory for the lines that follow; `PATH = TEXT` is a file (`\n` for a new
//! line), `PATH -> TARGET` a link. The links that sysfs keeps for every block device are made from
//! its `dev` and `hidden` files.

use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A machine in a directory, gone when dropped.
pub struct Tree {
    dir: TempDir,
}

impl Tree {
    pub fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tree = Self { dir };
        let mut prefix = PathBuf::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(path) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                prefix = PathBuf::from(path);
                tree.make_dir(&prefix);
            } else if let Some((path, target)) = line.split_once(" -> ") {
                tree.link(&prefix.join(path.trim()), Path::new(target.trim()));
            } else {
                let (path, content) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
                tree.write(&prefix.join(path.trim()), content);
            }
        }
        tree
    }

    pub fn root(&self) -> SysRoot {
        SysRoot::at(self.dir.path())
    }

    fn make_dir(&self, path: &Path) {
        std::fs::create_dir_all(self.dir.path().join(path)).unwrap();
    }

    fn link(&self, path: &Path, target: &Path) {
        self.make_dir(path.parent().unwrap());
        let path = self.dir.path().join(path);
        // Several devices may describe the bus above them in the same words.
        if std::fs::read_link(&path).ok().as_deref() != Some(target) {
            symlink(target, path).unwrap();
        }
    }

    fn write(&self, path: &Path, content: &str) {
        let dir = path.parent().unwrap();
        self.make_dir(dir);
        let content = content.replace("\\n", "\n") + "\n";
        std::fs::write(self.dir.path().join(path), &content).unwrap();
        let device = dir.starts_with("sys/devices") && path.ends_with("dev");
        if device || path.ends_with("hidden") {
            let up = PathBuf::from("../..").join(dir.strip_prefix("sys").unwrap());
            let name = dir.file_name().unwrap();
            self.link(&Path::new("sys/class/block").join(name), &up);
            let up = PathBuf::from("..").join(dir.strip_prefix("sys").unwrap());
            self.link(&Path::new("sys/block").join(name), &up);
            if device {
                let up = PathBuf::from("../..").join(dir.strip_prefix("sys").unwrap());
                self.link(&Path::new("sys/dev/block").join(content.trim()), &up);
            }
        }
    }
}
