//! What clients leave is read back: each knows the files that it has when it ends, and what they hold.

use super::set::Entry;
use super::trees::{self, Planted};
use super::{Playing, files, fill};
use crate::grown::Grown;
use crate::name::Name;
use fathom_base::content::Filler;
use fathom_base::order::Order;
use fathom_sys::io::drop_cached_pages;
use fathom_sys::signals::StopFlag;
use fathom_sys::walked::{EntryBuffer, WalkedDir};
use std::ffi::CStr;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read and compared at once, whole steps of the content.
const PART_BYTES: u64 = 1 << 20;

/// The files that a client has when it ends.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub(super) entries: Vec<Entry>,
    /// Those of its trees.
    pub(super) planted: Planted,
}

/// Reads all that clients have left in one directory: the files that each of them knows, and nothing else. Files are read
/// from the device, as far as the kernel lets go of them. None when somebody wanted the end meanwhile.
#[must_use]
pub fn verify(root: &WalkedDir, clients: &[(&Playing, &Kept)], stop: &StopFlag) -> Option<Grown> {
    let mut check = Check::default();
    let Some((first, _)) = clients.first() else { return Some(check.grown) };
    let dirs = match files::directories_there(root, first.spec.dirs) {
        Ok(dirs) => dirs,
        Err(error) => {
            check.grown.wrong(c"", c"", &format!("its directories cannot be opened: {error}"));
            return Some(check.grown);
        }
    };
    let mut known: Vec<Known> = dirs.iter().map(|_| Known::default()).collect();
    let mut in_root = Vec::new();
    for (playing, kept) in clients {
        let filler = Filler::noise(playing.seed);
        for entry in &kept.entries {
            if stop.is_set() {
                return None;
            }
            let place = (entry.number % dirs.len().max(1) as u64) as usize;
            known[place].files.push(entry.number);
            check.file((&dirs[place], &path(first, place)), *entry, &filler);
        }
        check.trees(root, playing, &kept.planted, stop)?;
        in_root.extend(tops(playing, &kept.planted));
    }
    if first.spec.dirs == 0 {
        known[0].dirs = in_root;
    } else {
        in_root.extend(0..u64::from(first.spec.dirs));
        match root.again() {
            Ok(root) => check.others(&root, c"", Known { files: Vec::new(), dirs: in_root }),
            Err(error) => check.grown.wrong(c"", c"", &format!("cannot be opened: {error}")),
        }
        check.grown.dirs += dirs.len() as u64;
    }
    for (place, (dir, known)) in dirs.iter().zip(known).enumerate() {
        check.others(dir, &path(first, place), known);
    }
    Some(check.grown)
}

/// The numbers of what there is in a directory.
#[derive(Debug, Default)]
struct Known {
    files: Vec<u64>,
    dirs: Vec<u64>,
}

/// The tops of trees.
fn tops(playing: &Playing, planted: &Planted) -> impl Iterator<Item = u64> {
    let dirs = u64::from(playing.spec.tree_dirs);
    planted.keys().copied().filter(move |dir| trees::top_of(*dir, dirs).is_none())
}

/// What was found so far, and room for what is read and for what it should be.
#[derive(Debug, Default)]
struct Check {
    grown: Grown,
    wanted: Vec<u8>,
    found: Vec<u8>,
}

impl Check {
    fn file(&mut self, (dir, path): (&WalkedDir, &CStr), entry: Entry, filler: &Filler) {
        let name = Name::file(entry.number);
        let room = (&mut self.wanted, &mut self.found);
        match compare((dir, &name), entry, filler, room) {
            Ok(None) => {
                self.grown.files += 1;
                self.grown.bytes += entry.size;
            }
            Ok(Some(what)) => self.grown.wrong(path, &name, &what),
            Err(error) => self.grown.wrong(path, &name, &format!("cannot be read: {error}")),
        }
    }

    /// The trees of one client. None when somebody wanted the end meanwhile.
    fn trees(
        &mut self,
        root: &WalkedDir,
        playing: &Playing,
        planted: &Planted,
        stop: &StopFlag,
    ) -> Option<()> {
        let (filler, dirs) = (Filler::noise(playing.seed), u64::from(playing.spec.tree_dirs));
        for (number, files) in planted {
            let name = Name::dir(*number);
            let top = trees::top_of(*number, dirs).map(Name::dir);
            let opened = match &top {
                Some(top) => root.below(top, false).and_then(|top| top.below(&name, false)),
                None => root.below(&name, false),
            };
            let dir = match opened {
                Ok(dir) => dir,
                Err(error) => {
                    let place = top.as_deref().unwrap_or_default();
                    self.grown.wrong(place, &name, &format!("cannot be opened: {error}"));
                    continue;
                }
            };
            self.grown.dirs += 1;
            for entry in files.values() {
                if stop.is_set() {
                    return None;
                }
                self.file((&dir, &name), *entry, &filler);
            }
            let below = match top {
                // Those of a tree follow its top.
                None => planted.range(number + 1..=number + dirs).map(|(dir, _)| *dir).collect(),
                Some(_) => Vec::new(),
            };
            self.others(&dir, &name, Known { files: files.keys().copied().collect(), dirs: below });
        }
        Some(())
    }

    /// What no client left.
    fn others(&mut self, dir: &WalkedDir, path: &CStr, mut known: Known) {
        known.files.order();
        known.dirs.order();
        let mut buffer = EntryBuffer::default();
        let mut entries = dir.entries(&mut buffer);
        loop {
            match entries.next_name() {
                Ok(Some(name)) if known.has(name) => {}
                Ok(Some(name)) => {
                    self.grown.wrong(path, name, "is there, and no client left it");
                }
                Ok(None) => return,
                Err(error) => {
                    return self.grown.wrong(path, c"", &format!("cannot be listed: {error}"));
                }
            }
        }
    }
}

impl Known {
    fn has(&self, name: &CStr) -> bool {
        let number = |letter: char| {
            name.to_str().ok().and_then(|name| name.strip_prefix(letter)?.parse::<u64>().ok())
        };
        let is_in = |numbers: &[u64], n: u64| numbers.binary_search(&n).is_ok();
        // A number may be written in other ways.
        number('f').is_some_and(|n| is_in(&self.files, n) && *Name::file(n) == *name)
            || number('d').is_some_and(|n| is_in(&self.dirs, n) && *Name::dir(n) == *name)
    }
}

/// Where a file lies, in words; nothing where all lie in one directory.
fn path(playing: &Playing, place: usize) -> std::ffi::CString {
    if playing.spec.dirs == 0 {
        return std::ffi::CString::default();
    }
    (*Name::dir(place as u64)).into()
}

/// What is wrong with a file, if anything.
fn compare(
    (dir, name): (&WalkedDir, &CStr),
    entry: Entry,
    filler: &Filler,
    (wanted, found): (&mut Vec<u8>, &mut Vec<u8>),
) -> io::Result<Option<String>> {
    let file = dir.open_read(name, true)?;
    drop_cached_pages(&file)?;
    let size_bytes = file.metadata()?.len();
    if size_bytes != entry.size {
        return Ok(Some(format!("is {size_bytes} bytes long instead of {}", entry.size)));
    }
    let (mut at, mut first, mut count) = (0, None, 0u64);
    while at < entry.size {
        let end = (at + PART_BYTES).min(entry.size);
        let part = fill(filler, wanted, entry.content, at, end);
        found.resize((end - at) as usize, 0);
        file.read_exact_at(found, at)?;
        let pairs = found.iter().zip(&wanted[part]).enumerate();
        for (place, _) in pairs.filter(|(_, (found, wanted))| found != wanted) {
            first.get_or_insert(at + place as u64);
            count += 1;
        }
        at = end;
    }
    let size = entry.size;
    Ok(first.map(|first| format!("has {count} other bytes of {size}, the first at {first}")))
}
