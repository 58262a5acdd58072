//! Whether the caches were really dropped: files whose data, and names whose entries and inodes, are looked for in memory
//! behind it. Nothing is brought into memory by looking.

use super::Ground;
use super::readers::{Begins, inside};
use crate::experiment::calm;
use crate::lab::Lab;
use fathom_model::fsop::{Caches, CachesLook};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::walked::WalkedDir;
use fathom_sys::{hostinfo, io as sys_io};
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::rc::Rc;

/// Files, and as many other names, that are looked at.
const WITNESSES: usize = 64;
/// Directories that are searched for them.
const SEARCHED_MAX: usize = 500;
/// Files of one directory that are taken, every second for its data and the others for their names.
const OF_A_DIRECTORY: usize = 8;

/// Files and names spread over the tree that tell what is in memory.
#[derive(Debug, Default)]
pub struct Witnesses {
    /// Open, with their sizes: an open file keeps its own name and inode in memory, but not its data.
    files: Vec<(File, u64)>,
    /// In open directories, not open themselves, and in memory when they were chosen.
    names: Vec<(Rc<WalkedDir>, CString)>,
}

impl Witnesses {
    /// Chooses a few of each part of the tree.
    #[must_use]
    pub fn open(root: &WalkedDir, begins: &Begins) -> Self {
        let mut found = Self::default();
        let each = WITNESSES.div_ceil(begins.parts.len().max(1));
        for part in &begins.parts {
            let (mut pending, mut searched) = (VecDeque::from(part.clone()), 0);
            let before = found.count();
            while let Some(path) = pending.pop_front() {
                searched += 1;
                if searched > SEARCHED_MAX || found.count() - before >= 2 * each {
                    break;
                }
                let Ok(inside) = inside(root, &path, OF_A_DIRECTORY) else { continue };
                pending.extend(inside.dirs);
                if let Ok(dir) = root.below(&path, true) {
                    found.choose(&Rc::new(dir), &inside.files);
                }
            }
        }
        found
    }

    fn count(&self) -> usize {
        self.files.len() + self.names.len()
    }

    fn choose(&mut self, dir: &Rc<WalkedDir>, paths: &[CString]) {
        for path in paths {
            let name = last_of(path);
            let is_for_data = self.files.len() <= self.names.len();
            if let Some(file) = is_for_data.then(|| open(dir, name)).flatten() {
                self.files.push(file);
            } else if dir.look(name).is_ok() && dir.is_in_memory(name) == Some(true) {
                // Where the kernel cannot tell of one that was just looked at, it tells nothing of those that are gone.
                self.names.push((Rc::clone(dir), name.to_owned()));
            }
        }
    }

    /// How much of them is in memory now.
    #[must_use]
    pub fn look(&self) -> CachesLook {
        let told = self.files.iter().filter_map(|(file, size_bytes)| {
            Some((sys_io::cached_bytes(file, *size_bytes)?, *size_bytes))
        });
        let page_bytes = hostinfo::page_bytes();
        let mut look = CachesLook::default();
        for (cached, size) in told {
            look.files_checked += 1;
            look.cached_bytes += cached.min(size.next_multiple_of(page_bytes));
            look.checked_bytes += size.next_multiple_of(page_bytes);
        }
        for is_there in self.names.iter().filter_map(|(dir, name)| dir.is_in_memory(name)) {
            look.names_checked += 1;
            look.names_cached += u32::from(is_there);
        }
        look
    }
}

/// The name at the end of a path.
fn last_of(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let first = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |cut| cut + 1);
    CStr::from_bytes_with_nul(&bytes[first..]).unwrap_or_default()
}

fn open(dir: &WalkedDir, name: &CStr) -> Option<(File, u64)> {
    let file = dir.open_read(name, true).ok()?;
    let size_bytes = file.metadata().ok()?.len();
    (size_bytes > 0).then_some((file, size_bytes))
}

/// Entries of directories in the memory of the machine that nobody uses, and all inodes there: as long as an entry is there, its
/// inode counts as used.
fn in_machine(root: &SysRoot) -> [Option<u64>; 2] {
    let number = |file: &str, place: usize| {
        root.text(format!("proc/sys/fs/{file}"))?.split_ascii_whitespace().nth(place)?.parse().ok()
    };
    [number("dentry-state", 1), number("inode-nr", 0)]
}

/// Drops the caches and looks whether that did anything.
pub(super) fn empty_caches(lab: &mut Lab<'_>, ground: &Ground<'_>, reads: bool) -> Caches {
    if !ground.options.spec.drop_caches {
        return Caches::Kept { reason: "drop_caches=no".into() };
    }
    let witnesses = reads.then(|| Witnesses::open(&ground.root, &ground.begins));
    let before = in_machine(&lab.root);
    if let Err(error) = calm::try_drop_caches(&lab.root) {
        let reason = format!("they cannot be dropped: {error}");
        lab.note(format!("Caches stay: {reason}"));
        return Caches::Kept { reason };
    }
    let mut look = witnesses.as_ref().map(Witnesses::look).unwrap_or_default();
    let after = in_machine(&lab.root);
    let both = |place: usize| Some([before[place]?, after[place]?]);
    (look.unused_entries, look.inodes) = (both(0), both(1));
    if witnesses.is_some_and(|witnesses| witnesses.count() > 0) {
        // Those that were open until now kept their names and inodes; that it works is known.
        let _ = calm::try_drop_caches(&lab.root);
    }
    Caches::Dropped(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_names_of_all_parts_are_looked_for() {
        let base = tempfile::tempdir().expect("temporary directory");
        let dirs = ["a", "b", "c"].map(|name| base.path().join(name));
        for dir in &dirs {
            std::fs::create_dir(dir).expect("made");
            for number in 0..4 {
                std::fs::write(dir.join(number.to_string()), "data").expect("written");
            }
        }
        let root = WalkedDir::open(base.path()).expect("there");
        let begins = Begins { parts: ["a", "b", "c"].map(|name| vec![path(name)]).to_vec() };
        let witnesses = Witnesses::open(&root, &begins);
        let look = witnesses.look();
        assert_eq!((look.files_checked, look.checked_bytes), (6, 6 * hostinfo::page_bytes()));
        assert_eq!(look.cached_bytes, look.checked_bytes, "they were just written");
        assert_eq!((look.names_checked, look.names_cached), (6, 6), "and looked at");
        for dir in &dirs {
            std::fs::remove_dir_all(dir).expect("there");
        }
        assert_eq!(witnesses.look().names_cached, 0, "what is gone is in no memory");
    }

    #[test]
    fn counts_of_the_machine_are_read() {
        let base = tempfile::tempdir().expect("temporary directory");
        let dir = base.path().join("proc/sys/fs");
        std::fs::create_dir_all(&dir).expect("made");
        std::fs::write(dir.join("inode-nr"), "812345\t80123\n").expect("written");
        let root = SysRoot::at(base.path());
        assert_eq!(in_machine(&root), [None, Some(812_345)]);
        let state = "900000\t700001\t45\t0\t100\t0\n";
        std::fs::write(dir.join("dentry-state"), state).expect("written");
        assert_eq!(in_machine(&root)[0], Some(700_001));
    }

    fn path(name: &str) -> CString {
        CString::new(name).expect("no zero in it")
    }
}
