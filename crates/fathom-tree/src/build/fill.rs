//! Makes the directories of a block and the files in one.

use super::crew::Counters;
use crate::error::TreeError;
use crate::manifest::Tree;
use crate::manifest::judge::{self, Found};
use crate::spec::layout::FileNumber;
use fathom_sys::dirents;
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use std::io::{self, Write};
use std::ops::Range;

/// Bytes written at once.
const WRITE_BYTES: usize = 256 << 10;

/// Makes the directories of a range whose parents exist; those that exist stay.
pub fn make_dirs(tree: &Tree, range: Range<u64>) -> Result<(), TreeError> {
    let layout = tree.layout();
    let mut above: Option<(u64, Dir)> = None;
    for dir in range {
        let Some(parent) = layout.parent(dir) else { continue };
        if above.as_ref().is_none_or(|(number, _)| *number != parent) {
            let opened =
                tree.open_dir(parent).map_err(TreeError::io("open", tree.full_path(parent)))?;
            above = Some((parent, opened));
        }
        let Some((_, inside)) = &above else { continue };
        match inside.make_only(layout.dir_name(dir).bytes()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(TreeError::io("make", tree.full_path(dir))(error));
            }
            // One that exists shows when it is opened.
            _ => {}
        }
    }
    Ok(())
}

/// Makes files; one for each thread.
pub struct Filler {
    buffer: Vec<u8>,
}

impl Filler {
    /// With its buffer.
    pub fn new() -> Self {
        Self { buffer: vec![0; WRITE_BYTES] }
    }

    /// Makes the files of a directory that are not there yet. The counters are for all files and for those made now.
    pub fn fill(
        &mut self,
        tree: &Tree,
        dir: u64,
        stop: &StopFlag,
        (all, made): (&Counters, &Counters),
    ) -> Result<(), TreeError> {
        let count = tree.layout().files_in(dir);
        if count == 0 {
            return Ok(());
        }
        let inside = tree.open_dir(dir).map_err(TreeError::io("open", tree.full_path(dir)))?;
        for slot in 0..count {
            if stop.is_set() {
                return Ok(());
            }
            let file = FileNumber { dir, slot };
            let path = || tree.path().join(tree.layout().file_path(file));
            let size = tree.layout().size(file);
            let is_new = self.make(tree, &inside, file, size).map_err(|error| match error {
                Failure::Io(doing, error) => TreeError::io(doing, path())(error),
                Failure::Foreign(why) => TreeError::Changed {
                    path: tree.path().to_owned(),
                    what: format!("{} is somebody's ({why})", path().display()),
                },
            })?;
            all.add(size);
            if is_new {
                made.add(size);
            }
        }
        Ok(())
    }

    /// Makes a file, unless it is there as it was left; what was broken off is made anew.
    fn make(
        &mut self,
        tree: &Tree,
        dir: &Dir,
        file: FileNumber,
        size: u64,
    ) -> Result<bool, Failure> {
        let name = tree.layout().file_name(file);
        let created = match dir.create_for_writing(name.bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match judge::judge(tree, dir, file).map_err(|e| Failure::Io("look at", e))? {
                    Found::Whole => return Ok(false),
                    Found::Foreign(why) => return Err(Failure::Foreign(why)),
                    Found::Missing | Found::Unsealed { .. } => {}
                }
                dir.unlink_name(name.bytes()).map_err(|e| Failure::Io("remove", e))?;
                dir.create_for_writing(name.bytes())
            }
            other => other,
        };
        let mut open = created.map_err(|e| Failure::Io("make", e))?;
        let mut content = tree.layout().content(file);
        let mut left = size;
        while left > 0 {
            let length = left.min(WRITE_BYTES as u64) as usize;
            // Whole words: the content does not depend on how it is cut.
            content.fill(&mut self.buffer[..length.next_multiple_of(8)]);
            open.write_all(&self.buffer[..length]).map_err(|e| Failure::Io("write", e))?;
            left -= length as u64;
        }
        let stamp = tree.layout().stamp_ns(file);
        dirents::set_modified_ns(&open, stamp).map_err(|e| Failure::Io("set the time of", e))?;
        Ok(true)
    }
}

/// Why a file was not made.
enum Failure {
    Io(&'static str, io::Error),
    Foreign(&'static str),
}
