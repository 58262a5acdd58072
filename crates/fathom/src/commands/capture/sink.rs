//! Where a trace goes while it is made, and how much room there is for it.

use crate::commands::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use fathom_base::shell;
use fathom_guard::{FileRefusal, place};
use fathom_sys::mounts;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{counters, fsinfo};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of a trace of the disk that it would be written to, so much is kept in memory at most.
const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Memory is taken in pieces of this size: one that grows as a whole would need twice as much for a moment.
const PIECE_BYTES: usize = 1 << 20;
/// Room below which a capture ends: what may come until it is looked at again.
const ROOM_BYTES_MIN: u64 = 16 << 20;
/// How often the free space is looked at.
const LOOK_NS: u64 = 1_000_000_000;

/// Where a trace goes while it is made.
pub enum Sink {
    /// Its file.
    File(File),
    /// The file lies on the captured device: writing would be captured too.
    Memory(Pieces, File),
}

/// Memory that does not move when it grows.
#[derive(Default)]
pub struct Pieces(Vec<Vec<u8>>);

impl Pieces {
    fn push(&mut self, bytes: &[u8]) {
        let fits = |piece: &&mut Vec<u8>| piece.capacity() - piece.len() >= bytes.len();
        if let Some(piece) = self.0.last_mut().filter(fits) {
            piece.extend_from_slice(bytes);
            return;
        }
        let mut piece = Vec::with_capacity(PIECE_BYTES.max(bytes.len()));
        piece.extend_from_slice(bytes);
        self.0.push(piece);
    }
}

impl Sink {
    /// All that is in memory goes to its file.
    pub fn settle(self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Memory(pieces, mut file) => {
                pieces.0.into_iter().try_for_each(|piece| file.write_all(&piece))
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Memory(pieces, _) => {
                pieces.push(bytes);
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a capture ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// What is kept in memory.
    Memory,
    /// The filesystem of the trace, but for what stays free for others.
    Disk,
}

/// How much more fits.
pub struct Room {
    dir: PathBuf,
    root: SysRoot,
    /// The filesystem lies in memory.
    is_memory: bool,
    /// Of a trace that stays in memory until the end.
    memory_bytes_max: Option<u64>,
    looked_ns: u64,
}

impl Room {
    /// For a trace in that directory; in memory until the end, if so.
    ///
    /// # Errors
    /// There is no room for any trace.
    pub fn of(root: &SysRoot, dir: &Path, is_in_memory: bool) -> Result<Self, FileRefusal> {
        place::check_space(dir, ROOM_BYTES_MIN)?;
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let own = mounts::own_mounts(root);
        let fs_type = mounts::mount_of(&own, &dir).map_or("", |mount| mount.fs_type.as_str());
        let is_memory = matches!(fs_type, "tmpfs" | "ramfs");
        let (memory_bytes_max, looked_ns) = (None, 0);
        let mut room = Self { dir, root: root.clone(), is_memory, memory_bytes_max, looked_ns };
        if is_in_memory {
            let free_bytes = counters::memory_available_bytes(root).unwrap_or(1 << 30);
            let most = MEMORY_BYTES_MAX.min(free_bytes / 4).min(room.left_bytes());
            room.memory_bytes_max = Some(most);
        }
        Ok(room)
    }

    /// What a trace of so many bytes has run out of at that time.
    pub fn full(&mut self, trace_bytes: u64, now_ns: u64) -> Option<Full> {
        if self.memory_bytes_max.is_some_and(|most| trace_bytes > most) {
            return Some(Full::Memory);
        }
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return None;
        }
        self.looked_ns = now_ns;
        let coming = if self.memory_bytes_max.is_some() { trace_bytes } else { 0 };
        (self.left_bytes() < coming + ROOM_BYTES_MIN).then_some(Full::Disk)
    }

    /// What may be used: but for 5 % and 1 GiB; of a filesystem in memory half of what is free. Without end where that is not told.
    fn left_bytes(&self) -> u64 {
        let Ok(space) = fsinfo::space(&self.dir) else { return u64::MAX };
        let left = match space.total_bytes {
            0 => u64::MAX,
            total => space.available_bytes.saturating_sub(place::reserve_bytes(total)),
        };
        if !self.is_memory {
            return left;
        }
        let free_bytes = counters::memory_available_bytes(&self.root).unwrap_or(0);
        left.min(free_bytes / 2)
    }
}

/// A file that is to be made: with a new name, and in no filesystem of the kernel's.
///
/// # Errors
/// Reported.
pub fn check_new(output: Output, path: &Path) -> Result<(), CommandError> {
    if path.symlink_metadata().is_ok() {
        let text = format!("{}: exists; name a new file", shell::path(path));
        return Err(CommandError::usage(output, &text));
    }
    let dir = directory(path);
    if dir.metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        let text = format!(
            "{}: there is no directory {}; make it first",
            shell::path(path),
            shell::path(dir)
        );
        return Err(CommandError::usage(output, &text));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    place::check_new_path(&SysRoot::live(), &absolute)
        .map_err(|refusal| CommandError::report_as(output, &refusal, Exit::Refused))
}

/// The path as it would be after resolving the directory that it lies in.
pub fn resolved(path: &Path) -> PathBuf {
    let dir = directory(path);
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    path.file_name().map_or_else(|| path.to_owned(), |name| dir.join(name))
}

/// The directory that a file is to be made in.
pub fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a file that does not exist.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// True when that path still names the open file.
pub fn is_named(path: &Path, file: &File) -> bool {
    let same = |a: Metadata, b: Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    path.symlink_metadata().and_then(|named| Ok(same(named, file.metadata()?))).unwrap_or(false)
}

/// Where the open file of this process can be opened again when it has no name any more.
pub fn without_name(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_every_byte_in_order() {
        let mut pieces = Pieces::default();
        let sizes = [3, PIECE_BYTES - 2, 0, 7, 2 * PIECE_BYTES, 1];
        let all: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|at| (at % 251) as u8).collect();
        let mut rest = all.as_slice();
        for size in sizes {
            let (now, later) = rest.split_at(size);
            pieces.push(now);
            rest = later;
        }
        assert!(pieces.0.concat() == all);
        assert_eq!(pieces.0.len(), 5, "small ones share a piece");
    }

    #[test]
    fn a_trace_in_memory_ends_at_its_limit() {
        let dir = std::env::temp_dir();
        let (root, memory_bytes_max) = (SysRoot::live(), Some(100));
        let mut room = Room { dir, root, is_memory: false, memory_bytes_max, looked_ns: 5 };
        assert_eq!((room.full(100, 6), room.full(101, 6)), (None, Some(Full::Memory)));
    }

    #[test]
    fn names_of_one_file_are_the_same() {
        let dir = std::env::temp_dir();
        let here = resolved(&dir.join("x"));
        assert_eq!(here, resolved(&dir.join(".").join("x")));
        assert_ne!(here, resolved(&dir.join("y")));
        assert_eq!(directory(Path::new("x")), Path::new("."));
    }
}
