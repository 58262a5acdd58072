//! What clients leave is read back: each knows the files that it has when it ends, and what they hold.

use super::set::Entry;
use super::{Playing, files, fill};
use crate::grown::Grown;
use crate::name::Name;
use fathom_base::content::Filler;
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
}

/// Reads all that clients have left in one directory: the files that each of them knows, and nothing else. Files are read
/// from the device, as far as the kernel lets go of them. None when somebody wanted the end meanwhile.
#[must_use]
pub fn verify(root: &WalkedDir, clients: &[(&Playing, &Kept)], stop: &StopFlag) -> Option<Grown> {
    let mut grown = Grown::default();
    let Some((first, _)) = clients.first() else { return Some(grown) };
    let dirs = match files::directories_there(root, first.spec.dirs) {
        Ok(dirs) => dirs,
        Err(error) => {
            grown.wrong(c"", c"", &format!("its directories cannot be opened: {error}"));
            return Some(grown);
        }
    };
    let mut known: Vec<Vec<u64>> = vec![Vec::new(); dirs.len()];
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    for (playing, kept) in clients {
        let filler = Filler::noise(playing.seed);
        for entry in &kept.entries {
            if stop.is_set() {
                return None;
            }
            let place = (entry.number % dirs.len().max(1) as u64) as usize;
            known[place].push(entry.number);
            let name = Name::file(entry.number);
            match compare((&dirs[place], &name), *entry, &filler, (&mut wanted, &mut found)) {
                Ok(None) => {
                    grown.files += 1;
                    grown.bytes += entry.size;
                }
                Ok(Some(what)) => grown.wrong(&path(first, place), &name, &what),
                Err(error) => {
                    let what = format!("cannot be read: {error}");
                    grown.wrong(&path(first, place), &name, &what);
                }
            }
        }
    }
    for (place, (dir, known)) in dirs.iter().zip(&mut known).enumerate() {
        known.sort_unstable();
        others(dir, &path(first, place), known, &mut grown);
    }
    grown.dirs = if first.spec.dirs == 0 { 0 } else { dirs.len() as u64 };
    Some(grown)
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

/// What no client left.
fn others(dir: &WalkedDir, path: &CStr, known: &[u64], grown: &mut Grown) {
    let mut buffer = EntryBuffer::default();
    let mut entries = dir.entries(&mut buffer);
    loop {
        match entries.next_name() {
            Ok(Some(name)) if is_known(name, known) => {}
            Ok(Some(name)) => grown.wrong(path, name, "is there, and no client left it"),
            Ok(None) => return,
            Err(error) => return grown.wrong(path, c"", &format!("cannot be listed: {error}")),
        }
    }
}

/// A number without its letter, as the name of a file has it.
fn is_known(name: &CStr, known: &[u64]) -> bool {
    let number = name.to_str().ok().and_then(|name| name.strip_prefix('f')?.parse().ok());
    number
        .is_some_and(|number| known.binary_search(&number).is_ok() && *Name::file(number) == *name)
}
