//! What a writer has made is read back: which names, sizes and bytes there must be follows from its seed and from how much it has
//! made, so that nothing has to be remembered while it writes.

use crate::name::Name;
use crate::walk::{Pending, WalkPath};
use crate::walk_grow::{Growing, fill, zero_first};
use fathom_base::content::Filler;
use fathom_base::prng::Prng;
use fathom_model::fsop::WalkOrder;
use fathom_sys::io::drop_cached_pages;
use fathom_sys::signals::StopFlag;
use fathom_sys::walked::{EntryBuffer, WalkedDir};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io::{self, Read};

/// What is wrong is listed up to here; the rest is counted.
const LISTED_MAX: usize = 20;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grown {
    /// Files that are as they were written.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Directories that are there.
    pub dirs: u64,
    /// Things that are not as they were made.
    pub wrong: u64,
    /// The first of them, with what is wrong.
    pub listed: Vec<String>,
}

impl Grown {
    /// Takes what was found of another writer.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.dirs += other.dirs;
        self.wrong += other.wrong;
        self.listed.extend(other.listed);
        self.listed.truncate(LISTED_MAX);
    }

    pub(crate) fn wrong(&mut self, path: &CStr, name: &CStr, what: &str) {
        self.wrong += 1;
        if self.listed.len() < LISTED_MAX {
            let path = path.to_string_lossy();
            let slash = if path.is_empty() { "" } else { "/" };
            self.listed.push(format!("{path}{slash}{} {what}", name.to_string_lossy()));
        }
    }
}

/// Reads what a writer of that seed has made in its directory: the first `made` files and directories, and nothing else. Files are
/// read from the device, as far as the kernel lets go of them. None when somebody wanted the end meanwhile.
#[must_use]
pub fn verify(
    root: &WalkedDir,
    growing: &Growing,
    seed: u64,
    made: u64,
    stop: &StopFlag,
) -> Option<Grown> {
    let mut back = Back {
        filler: zero_first(seed),
        wanted: Vec::new(),
        found: Vec::new(),
        grown: Grown::default(),
    };
    let (mut random, mut names) = (Prng::new(seed, 0), 0);
    let mut pending = Pending::new(WalkOrder::Breadth);
    let mut next = Some(WalkPath::default());
    while let Some(path) = next {
        if stop.is_set() {
            return None;
        }
        let dir = root.below(&path, true);
        // One that is gone was told where it was made.
        if let Err(error) = &dir
            && (error.kind() != io::ErrorKind::NotFound || path.is_empty())
        {
            back.grown.wrong(&path, c"", &format!("cannot be opened: {error}"));
        }
        let mut known = BTreeSet::new();
        for _ in 0..u64::from(growing.files).min(made - names) {
            let (size, name) = (growing.sizes.draw(&mut random), Name::file(names));
            if let Ok(dir) = &dir {
                back.file(dir, &path, &name, (size as usize, names));
            }
            known.insert(CString::from(&*name));
            names += 1;
        }
        for _ in 0..u64::from(growing.directories).min(made - names) {
            let name = Name::dir(names);
            if let Ok(dir) = &dir {
                back.dir(dir, &path, &name);
            }
            pending.add(&path, &name);
            known.insert(CString::from(&*name));
            names += 1;
        }
        if let Ok(dir) = &dir {
            back.others(dir, &path, &known);
        }
        pending.give_back(path);
        next = pending.next_path();
    }
    Some(back.grown)
}

struct Back {
    filler: Filler,
    wanted: Vec<u8>,
    found: Vec<u8>,
    grown: Grown,
}

impl Back {
    fn file(&mut self, dir: &WalkedDir, path: &CStr, name: &CStr, (size, number): (usize, u64)) {
        fill(&self.filler, &mut self.wanted, size, number);
        let read = read_whole(dir, name, &mut self.found);
        let wanted = &self.wanted[..size];
        let what = match read {
            Err(error) => format!("cannot be read: {error}"),
            Ok(()) if self.found.len() != size => {
                format!("is {} bytes long instead of {size}", self.found.len())
            }
            Ok(()) => {
                match self.found.iter().zip(wanted).position(|(found, wanted)| found != wanted) {
                    Some(at) => {
                        let count = self.found.iter().zip(wanted).filter(|(a, b)| a != b).count();
                        format!("has {count} other bytes of {size}, the first at {at}")
                    }
                    None => {
                        self.grown.files += 1;
                        self.grown.bytes += size as u64;
                        return;
                    }
                }
            }
        };
        self.grown.wrong(path, name, &what);
    }

    fn dir(&mut self, dir: &WalkedDir, path: &CStr, name: &CStr) {
        match dir.look(name) {
            Ok(looked) if looked.is_dir => self.grown.dirs += 1,
            Ok(_) => self.grown.wrong(path, name, "is no directory any more"),
            Err(error) => self.grown.wrong(path, name, &format!("cannot be found: {error}")),
        }
    }

    /// What no writer made.
    fn others(&mut self, dir: &WalkedDir, path: &CStr, known: &BTreeSet<CString>) {
        let mut buffer = EntryBuffer::default();
        let mut entries = dir.entries(&mut buffer);
        loop {
            match entries.next_name() {
                Ok(Some(name)) if known.contains(name) => {}
                Ok(Some(name)) => self.grown.wrong(path, name, "is there, and no writer made it"),
                Ok(None) => return,
                Err(error) => {
                    return self.grown.wrong(path, c"", &format!("cannot be listed: {error}"));
                }
            }
        }
    }
}

fn read_whole(dir: &WalkedDir, name: &CStr, found: &mut Vec<u8>) -> io::Result<()> {
    let mut file = dir.open_read(name, true)?;
    drop_cached_pages(&file)?;
    found.clear();
    file.read_to_end(found).map(|_| ())
}
