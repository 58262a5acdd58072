//! Marks on files: an extended attribute that names the run and the inode, so that a copy of a file, which takes its
//! attributes along, is not taken for the file; where there are no attributes, a list of inodes.
//!
//! Of a file that is kept, the mark also says how fathom left it: when its content last changed, and its size. Whatever
//! changed one of these since was not fathom, and may be somebody's data, be it a single byte.

use fathom_base::json;
use fathom_sys::clock;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

/// The attribute.
pub const XATTR: &str = "user.fathom.owner";
/// How the names of fathom's directories begin.
pub const DIR_PREFIX: &str = ".fathom-";
/// The list of files in a directory of fathom's, one JSON object per line.
pub const MANIFEST: &str = "manifest";
/// Says whose a directory of fathom's is.
pub const OWNER: &str = "owner.json";
/// True for the names of fathom's own notes in a directory of ours.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    matches!(name, MANIFEST | OWNER)
}

/// Notes are a few lines; more is not read.
pub(crate) const NOTE_BYTES_MAX: u64 = 16 << 20;

/// A line or a file of notes. All are read as text: reading bytes and streams as well would put the code for every type into
/// the binary once more.
pub(crate) fn parse<T: DeserializeOwned>(note: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(note).map_err(|error| error.to_string())?;
    json::from_str(text).map_err(|error| error.to_string())
}

/// A file, told from a later one that got the same inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    /// Inode number.
    pub inode: u64,
    /// When it was made, nanoseconds since 1970, where the file system knows.
    pub born_ns: Option<i64>,
}

impl From<FileFacts> for FileId {
    fn from(facts: FileFacts) -> Self {
        Self { inode: facts.inode, born_ns: facts.born_ns }
    }
}

/// How fathom left a file. The change time (ctime) is no part of it: setting the mark itself changes that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// When its content last changed, nanoseconds since 1970.
    pub modified_ns: i64,
    /// Size in bytes.
    pub size_bytes: u64,
}

impl From<FileFacts> for Seal {
    fn from(facts: FileFacts) -> Self {
        Self { modified_ns: facts.modified_ns, size_bytes: facts.size_bytes }
    }
}

/// What a file's mark, or the manifest beside it, says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The run that made it.
    pub run_id: String,
    /// How it was left; none while a run may write to it, and for ever when that run was killed.
    pub seal: Option<Seal>,
}

impl Mark {
    /// The value of the attribute: `RUN INODE`, and `MODIFIED_NS SIZE` behind that when sealed.
    fn text(&self, inode: u64) -> String {
        let seal = self.seal.map(|seal| format!(" {} {}", seal.modified_ns, seal.size_bytes));
        format!("{} {inode}{}", self.run_id, seal.unwrap_or_default())
    }

    /// None for the mark of another inode and for what is none at all.
    fn parse(text: &str, inode: u64) -> Option<Self> {
        let mut words = text.split(' ');
        let run_id = words.next()?.to_owned();
        if words.next()?.parse() != Ok(inode) {
            return None;
        }
        let seal = match words.next() {
            None => None,
            Some(modified) => Some(Seal {
                modified_ns: modified.parse().ok()?,
                size_bytes: words.next()?.parse().ok()?,
            }),
        };
        words.next().is_none().then_some(Self { run_id, seal })
    }
}

/// A line of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// Written before a file is made.
    Intent {
        /// Its name.
        name: String,
    },
    /// Written after it was made, where it could not be marked itself.
    Made {
        /// Its name.
        name: String,
        /// Its identity.
        id: FileId,
    },
    /// Written before a directory of test files is made.
    DirectoryIntent {
        /// Its name.
        name: String,
    },
    /// Written after it was made. What has a test file's name in it is ours unless somebody put data into it.
    MadeDirectory {
        /// Its name.
        name: String,
        /// Its identity.
        id: FileId,
    },
    /// Written when a directory of test files is left.
    SealedDirectory {
        /// Its name.
        name: String,
        /// Its identity.
        id: FileId,
        /// Of identity and seal of each file in it.
        digest: u64,
    },
    /// Written when a file is left, where it could not be marked itself.
    Sealed {
        /// Its name.
        name: String,
        /// Its identity.
        id: FileId,
        /// How it was left.
        seal: Seal,
    },
    /// Written before a file that was left is written to again.
    Reopened {
        /// Its name.
        name: String,
        /// Its identity.
        id: FileId,
    },
}

/// Marks a file of a run; false where the file system has no attributes.
///
/// # Errors
/// Those of setting the attribute.
pub fn set(file: &File, run_id: &str) -> io::Result<bool> {
    let inode = dirfd::facts_of(file)?.inode;
    let mark = Mark { run_id: run_id.to_owned(), seal: None };
    match dirfd::set_xattr(file, XATTR, &mark.text(inode)) {
        Ok(()) => Ok(true),
        Err(error) if dirfd::is_xattr_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a marked file another mark.
///
/// # Errors
/// Those of setting the attribute; that there is none is one.
pub fn replace(file: &File, mark: &Mark) -> io::Result<()> {
    dirfd::replace_xattr(file, XATTR, &mark.text(dirfd::facts_of(file)?.inode))
}

/// Notes, on stable storage, how a file is left: in its mark or, without one, in the manifest of its directory. A file
/// without either is not provably ours and stays so.
///
/// # Errors
/// Those of bringing its data onto stable storage and of noting.
pub fn seal(dir: &Dir, name: &str, file: &File) -> io::Result<()> {
    let facts = settled(file)?;
    if let Some(mark) = get(file)? {
        replace(file, &Mark { seal: Some(facts.into()), ..mark })?;
        return file.sync_all();
    }
    if Manifest::read(dir)?.lists(name, facts.into()) {
        let name = name.to_owned();
        append(dir, &Line::Sealed { name, id: facts.into(), seal: facts.into() })?;
    }
    Ok(())
}

/// Facts of a file whose data is on stable storage, and in which every later change will show.
///
/// # Errors
/// Those of bringing its data onto stable storage.
pub fn settled(file: &File) -> io::Result<FileFacts> {
    // First the data: some file systems settle the time of the change only when they write.
    file.sync_all()?;
    let facts = dirfd::facts_of(file)?;
    settle(facts.modified_ns);
    Ok(facts)
}

/// Waits until a change would get another time than the last one had. The kernel's clock for files goes on in steps of up
/// to 10 ms, and file systems that note whole seconds do so in steps of up to two.
pub fn settle(modified_ns: i64) {
    const TICK_NS: i64 = 10_000_000;
    const SECOND_NS: i64 = 1_000_000_000;
    let step_ns = if modified_ns % SECOND_NS == 0 { 2 * SECOND_NS } else { TICK_NS };
    let left_ns = modified_ns.saturating_add(step_ns).saturating_sub(clock::unix_ns());
    // A time in the future, of another machine's clock, is not waited for.
    if (1..=step_ns).contains(&left_ns) {
        std::thread::sleep(Duration::from_nanos(left_ns.unsigned_abs()));
    }
}

/// Takes the mark off: from here on the file is its user's.
///
/// # Errors
/// Those of removing the attribute.
pub fn take_off(file: &File) -> io::Result<()> {
    dirfd::remove_xattr(file, XATTR)
}

/// The mark that a file carries; none without one, and with one that belongs to another inode.
///
/// # Errors
/// Those of reading the attribute.
pub fn get(file: &File) -> io::Result<Option<Mark>> {
    let Some(value) = dirfd::get_xattr(file, XATTR)? else { return Ok(None) };
    Ok(Mark::parse(&value, dirfd::facts_of(file)?.inode))
}

/// What a directory's manifest says.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    lines: Vec<Line>,
}

impl Manifest {
    /// Reads the manifest of a directory; empty when there is none. Lines that a crash has torn are passed over.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(dir: &Dir) -> io::Result<Self> {
        let file = match dir.open_file(MANIFEST, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        if !dirfd::facts_of(&file)?.is_file {
            return Ok(Self::default());
        }
        let mut text = Vec::new();
        file.take(NOTE_BYTES_MAX).read_to_end(&mut text)?;
        let lines = text.split(|&b| b == b'\n').filter_map(|line| parse(line).ok());
        Ok(Self { lines: lines.collect() })
    }

    /// True for lines of its own alone; the last one may be cut off.
    pub(crate) fn is_whole(text: &[u8]) -> bool {
        let end = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = text.split_at(end);
        let is_line = |line: &[u8]| line.is_empty() || parse::<Line>(line).is_ok();
        let is_cut_off = |error: &String| error.starts_with("EOF");
        let mut lines = lines.split(|&byte| byte == b'\n');
        lines.all(is_line) && parse::<Line>(rest).as_ref().err().is_none_or(is_cut_off)
    }

    /// Notes that a file of that name is about to be made.
    ///
    /// # Errors
    /// Those of writing.
    pub fn intend(dir: &Dir, name: &str) -> io::Result<()> {
        append(dir, &Line::Intent { name: name.to_owned() })
    }

    /// Notes that a file was made that could not be marked.
    ///
    /// # Errors
    /// Those of writing.
    pub fn made(dir: &Dir, name: &str, id: FileId) -> io::Result<()> {
        append(dir, &Line::Made { name: name.to_owned(), id })
    }

    /// Notes that a directory of that name is about to be made.
    ///
    /// # Errors
    /// Those of writing.
    pub fn intend_directory(dir: &Dir, name: &str) -> io::Result<()> {
        append(dir, &Line::DirectoryIntent { name: name.to_owned() })
    }

    /// Notes that a directory was made.
    ///
    /// # Errors
    /// Those of writing.
    pub fn made_directory(dir: &Dir, name: &str, id: FileId) -> io::Result<()> {
        append(dir, &Line::MadeDirectory { name: name.to_owned(), id })
    }

    /// True when just this directory was made under that name.
    #[must_use]
    pub fn lists_directory(&self, name: &str, id: FileId) -> bool {
        self.lines.contains(&Line::MadeDirectory { name: name.to_owned(), id })
    }

    /// Notes how all files of a directory are left.
    ///
    /// # Errors
    /// Those of writing.
    pub fn sealed_directory(dir: &Dir, name: &str, id: FileId, digest: u64) -> io::Result<()> {
        append(dir, &Line::SealedDirectory { name: name.to_owned(), id, digest })
    }

    /// True when the files of just this directory were left like that.
    #[must_use]
    pub fn seals_directory(&self, name: &str, id: FileId, digest: u64) -> bool {
        self.lines.contains(&Line::SealedDirectory { name: name.to_owned(), id, digest })
    }

    /// True when a directory of that name was about to be made.
    #[must_use]
    pub fn intends_directory(&self, name: &str) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::DirectoryIntent { name: n } if n == name))
    }

    /// Notes that a file that was left is about to be written to again.
    ///
    /// # Errors
    /// Those of writing.
    pub fn reopened(dir: &Dir, name: &str, id: FileId) -> io::Result<()> {
        append(dir, &Line::Reopened { name: name.to_owned(), id })
    }

    /// How just this file was last left; none when it never was, or was opened for writing since.
    #[must_use]
    pub fn seal_of(&self, name: &str, id: FileId) -> Option<Seal> {
        let last = self.lines.iter().rev().find_map(|line| match line {
            Line::Sealed { name: n, id: i, seal } if n == name && *i == id => Some(Some(*seal)),
            Line::Reopened { name: n, id: i } if n == name && *i == id => Some(None),
            _ => None,
        });
        last.flatten()
    }

    /// True when a file of that name was about to be made.
    #[must_use]
    pub fn intends(&self, name: &str) -> bool {
        self.lines.iter().any(|line| matches!(line, Line::Intent { name: n } if n == name))
    }

    /// True when just this file was made under that name.
    #[must_use]
    pub fn lists(&self, name: &str, id: FileId) -> bool {
        self.lines.contains(&Line::Made { name: name.to_owned(), id })
    }
}

/// One write for one line: a kill leaves it whole or absent.
fn append(dir: &Dir, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    dir.open_file(MANIFEST, true)?.write_all(&text)
}

/// True when a name in a directory of that run is a file that the run made: marked, listed, or planned and still empty.
///
/// # Errors
/// Those of looking at it.
pub fn is_ours(dir: &Dir, manifest: &Manifest, name: &str, run_id: &str) -> io::Result<bool> {
    let facts = dir.facts(name)?;
    if !facts.is_file || facts.dev != dir.own_facts()?.dev {
        return Ok(false);
    }
    if manifest.lists(name, facts.into()) {
        return Ok(true);
    }
    if facts.size_bytes == 0 && (is_reserved(name) || manifest.intends(name)) {
        return Ok(true);
    }
    let file = dir.open_file(name, false)?;
    if get(&file)?.is_some_and(|mark| mark.run_id == run_id) {
        return Ok(true);
    }
    Ok(is_reserved(name) && !dirfd::supports_xattr(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_whose_file_it_is_and_how_it_was_left() {
        let open = Mark { run_id: "7f3k".to_owned(), seal: None };
        let seal = Some(Seal { modified_ns: -7, size_bytes: u64::MAX });
        let left = Mark { seal, ..open.clone() };
        assert_eq!(
            (open.text(12), left.text(12)),
            ("7f3k 12".into(), format!("7f3k 12 -7 {}", u64::MAX))
        );
        for mark in [open, left] {
            assert_eq!(Mark::parse(&mark.text(12), 12), Some(mark.clone()));
            assert_eq!(Mark::parse(&mark.text(12), 13), None, "another inode");
        }
        for text in ["", "7f3k", "7f3k x", "7f3k 12 5", "7f3k 12 x 5", "7f3k 12 5 5 5", "7f3k 12 "]
        {
            assert_eq!(Mark::parse(text, 12), None, "{text:?}");
        }
    }
}
