//! Loop devices that a test takes away while they are looked at.

use crate::cli::p;
use fathom_testkit::command::tool;
use fathom_testkit::{Content, Scratch, loopdev};
use std::path::{Path, PathBuf};

/// A loop device that may be taken away by others. When this is dropped, whatever has its files is detached, and nothing else that
/// may have its number by then.
pub struct Passing {
    /// `/dev/loopN`.
    pub path: String,
    files: Vec<PathBuf>,
    dir: PathBuf,
}

impl Passing {
    pub fn new(scratch: &Scratch, size_bytes: u64) -> Self {
        let mut new =
            Self { path: String::new(), files: Vec::new(), dir: scratch.path().to_owned() };
        let file = new.file(size_bytes);
        // Whoever else asks for a loop device gets a free one of the lowest number, and must not get this one when it is taken away.
        let is_free = |number: &u32| {
            !Path::new(&format!("/sys/block/loop{number}/loop/backing_file")).exists()
        };
        let number = (900..).find(is_free).unwrap();
        new.path = format!("/dev/loop{number}");
        let done = tool("losetup").arg(&new.path).arg(file).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        new
    }

    /// A file that may take its place.
    pub fn file(&mut self, size_bytes: u64) -> PathBuf {
        let file = self.dir.join(format!("passing{}.img", self.files.len()));
        loopdev::make_file(&file, size_bytes, Content::Pattern(7)).unwrap();
        self.files.push(file.clone());
        file
    }

    pub fn name(&self) -> &str {
        p(Path::new(&self.path).strip_prefix("/dev").unwrap())
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        for file in &self.files {
            let Ok(found) = tool("losetup").arg("--associated").arg(file).output() else {
                continue;
            };
            let text = String::from_utf8_lossy(&found.stdout).into_owned();
            for device in text.lines().filter_map(|line| line.split_once(':')) {
                tool("losetup").args(["--detach", device.0]).status().ok();
            }
        }
    }
}
