//! Whose a file in a tree is: the name says which it would have to be, a time of change that nothing but fathom sets that
//! it is as it was left; where that is missing, every byte is compared.

use super::{DRAFT, Tree};
use crate::spec::layout::FileNumber;
use fathom_sys::dirents;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use fathom_sys::fsinfo;
use std::fs::File;
use std::io::{self, Read};

/// Steps in which filesystems keep times, nanoseconds: 1 ns, NTFS, microseconds and milliseconds, exFAT, ext3, FAT.
const STEPS_NS: [i64; 7] = [1, 100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000];
/// Bytes compared at once.
const COMPARE_BYTES: usize = 64 << 10;
/// A crash leaves zeros in whole sectors.
const SECTOR: usize = 512;

/// What lies under the name of a file of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Missing,
    /// The file, as it was left.
    Whole,
    /// The file, without its time, and nothing in it but what was made: all of that, or a part.
    Unsealed {
        /// All of its content is there.
        is_whole: bool,
    },
    /// Somebody's.
    Foreign(&'static str),
}

/// True for steps in which filesystems keep times.
pub(crate) fn is_step(step_ns: i64) -> bool {
    STEPS_NS.contains(&step_ns)
}

/// In which steps the filesystem of a directory keeps times of change; none when it keeps what it likes. Makes and removes
/// the draft of the card for that.
pub(crate) fn stamp_step(root: &Dir) -> io::Result<Option<i64>> {
    const PROBE_NS: i64 = 1_000_000_003_123_456_789;
    match root.unlink(DRAFT) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = root.create_file(DRAFT)?;
    let set = dirents::set_modified_ns(&file, PROBE_NS).and_then(|()| dirfd::facts_of(&file));
    root.unlink(DRAFT)?;
    let found_ns = set?.modified_ns;
    Ok(STEPS_NS.into_iter().find(|step| PROBE_NS - PROBE_NS % step == found_ns))
}

/// Looks at a file of a tree in its open directory.
///
/// # Errors
/// Those of looking and reading.
pub fn judge(tree: &Tree, dir: &Dir, file: FileNumber) -> io::Result<Found> {
    let name = tree.layout().file_name(file);
    let facts = match dir.facts_of_name(name.bytes()) {
        Ok(facts) => facts,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(error),
    };
    if let Some(reason) = other_kind(tree, facts) {
        return Ok(Found::Foreign(reason));
    }
    if is_sealed(tree, file, facts) {
        return Ok(Found::Whole);
    }
    by_content(tree, dir, file, facts)
}

/// True when a file has the size and the time that fathom left it with.
#[must_use]
pub fn is_sealed(tree: &Tree, file: FileNumber, facts: FileFacts) -> bool {
    let (layout, step) = (tree.layout(), tree.card().stamp_step_ns.max(1));
    let stamp = layout.stamp_ns(file);
    facts.modified_ns == stamp - stamp % step && facts.size_bytes == layout.size(file)
}

fn other_kind(tree: &Tree, facts: FileFacts) -> Option<&'static str> {
    if facts.dev != tree.dev() {
        return Some("something is mounted over it");
    }
    if !facts.is_file {
        return Some("no regular file");
    }
    (facts.links != 1).then_some("it has a second name (hard link)")
}

fn by_content(tree: &Tree, dir: &Dir, number: FileNumber, seen: FileFacts) -> io::Result<Found> {
    let size = tree.layout().size(number);
    if seen.size_bytes > size {
        return Ok(Found::Foreign("it is longer than it was made"));
    }
    if seen.size_bytes > fsinfo::space(tree.path()).map_or(u64::MAX, |space| space.total_bytes) {
        // To read all of its holes would take for ever.
        return Ok(Found::Foreign("it is larger than its filesystem"));
    }
    let file = dir.open_for_reading(tree.layout().file_name(number).bytes())?;
    let facts = dirfd::facts_of(&file)?;
    if (facts.dev, facts.inode) != (seen.dev, seen.inode) {
        return Ok(Found::Foreign("it is being replaced"));
    }
    let (mut is_ours, mut all_there) = (true, facts.size_bytes == size);
    compare(tree, number, &file, &mut |_, found, made| {
        for (found, made) in found.chunks(SECTOR).zip(made.chunks(SECTOR)) {
            if found != made {
                all_there = false;
                is_ours &= found.iter().all(|byte| *byte == 0);
            }
        }
        is_ours
    })?;
    if !is_ours {
        return Ok(Found::Foreign("its content was changed"));
    }
    Ok(Found::Unsealed { is_whole: all_there })
}

/// Where the content of a file differs from what was made, by reading all of it; none when it does not.
///
/// # Errors
/// Those of reading.
pub fn first_difference(tree: &Tree, dir: &Dir, number: FileNumber) -> io::Result<Option<u64>> {
    let file = dir.open_for_reading(tree.layout().file_name(number).bytes())?;
    let mut first = None;
    let read = compare(tree, number, &file, &mut |offset, found, made| {
        let differs = found.iter().zip(made).position(|(a, b)| a != b);
        first = differs.map(|at| offset + at as u64);
        first.is_none()
    })?;
    let size = tree.layout().size(number);
    Ok(first.or((read != size).then_some(read.min(size))))
}

/// Gets an offset, what was found there, and what was made; false ends it.
type Compared<'a> = dyn FnMut(u64, &[u8], &[u8]) -> bool + 'a;

/// Gives `each` what a file holds beside what was made, with the offset, until that says false; gives back how far it was read.
fn compare(
    tree: &Tree,
    number: FileNumber,
    mut file: &File,
    each: &mut Compared<'_>,
) -> io::Result<u64> {
    let mut content = tree.layout().content(number);
    let bytes = (tree.layout().size(number) as usize + 1).clamp(SECTOR, COMPARE_BYTES);
    let (mut found, mut made) = (vec![0u8; bytes.next_multiple_of(SECTOR)], Vec::new());
    made.resize(found.len(), 0);
    let mut offset = 0;
    loop {
        let mut length = 0;
        while length < found.len() {
            match file.read(&mut found[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        content.fill(&mut made);
        let goes_on = each(offset, &found[..length], &made[..length]);
        offset += length as u64;
        if length < found.len() || !goes_on {
            return Ok(offset);
        }
    }
}
