//! Marks on files: an extended attribute that names the run and the inode, so that a copy of a file, which takes its
//! attributes along, is not taken for the file; where there are no attributes, a list of inodes.

use fathom_sys::dirfd::{self, Dir, FileFacts};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};

/// The attribute.
pub const XATTR: &str = "user.fathom.owner";
/// How the names of fathom's directories begin.
pub const DIR_PREFIX: &str = ".fathom-";
/// The list of files in a directory of fathom's, one JSON object per line.
pub const MANIFEST: &str = "manifest";
/// Says whose a directory of fathom's is.
pub const OWNER: &str = "owner.json";
/// A manifest is a few lines; more is not read.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

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
}

/// Marks a file of a run; false where the file system has no attributes.
///
/// # Errors
/// Those of setting the attribute.
pub fn set(file: &File, run_id: &str) -> io::Result<bool> {
    let inode = dirfd::facts_of(file)?.inode;
    match dirfd::set_xattr(file, XATTR, &format!("{run_id} {inode}")) {
        Ok(()) => Ok(true),
        Err(error) if dirfd::is_xattr_missing(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Takes the mark off: from here on the file is its user's.
///
/// # Errors
/// Those of removing the attribute.
pub fn take_off(file: &File) -> io::Result<()> {
    dirfd::remove_xattr(file, XATTR)
}

/// The run whose mark the file carries; none without a mark, and with one that belongs to another inode.
///
/// # Errors
/// Those of reading the attribute.
pub fn get(file: &File) -> io::Result<Option<String>> {
    let Some(value) = dirfd::get_xattr(file, XATTR)? else { return Ok(None) };
    let inode = dirfd::facts_of(file)?.inode;
    let own = value.split_once(' ').filter(|(_, marked)| *marked == inode.to_string());
    Ok(own.map(|(run_id, _)| run_id.to_owned()))
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
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text)?;
        let lines =
            text.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
        Ok(Self { lines: lines.collect() })
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
    let is_reserved = matches!(name, MANIFEST | OWNER);
    if facts.size_bytes == 0 && (is_reserved || manifest.intends(name)) {
        return Ok(true);
    }
    let file = dir.open_file(name, false)?;
    if get(&file)?.as_deref() == Some(run_id) {
        return Ok(true);
    }
    Ok(is_reserved && !dirfd::supports_xattr(&file)?)
}
