//! Where a tree may be made, and whether it fits.

use crate::error::TreeError;
use crate::manifest::{CARD, DRAFT};
use crate::spec::layout::Extent;
use crate::spec::{Amount, TreeSpec};
use fathom_guard::FileRefusal;
use fathom_guard::journal::Record;
use fathom_guard::mark::FileId;
use fathom_guard::place;
use fathom_sys::dirfd::Dir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{counters, fsinfo, mounts};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The path of a tree without symbolic links on the way; the directory itself may be missing, but not the one above.
pub fn resolve(root: &SysRoot, path: &Path) -> Result<PathBuf, TreeError> {
    let is_link = path.symlink_metadata().is_ok_and(|found| found.file_type().is_symlink());
    if is_link {
        return Err(FileRefusal::Symlink(path.to_owned()).into());
    }
    let resolved = if path.exists() {
        place::check_directory(root, path)?
    } else {
        let path = std::path::absolute(path).map_err(TreeError::io("reach", path))?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(FileRefusal::Missing(path).into());
        };
        place::check_directory(root, parent)?.join(name)
    };
    if resolved.to_str().is_none() {
        return Err(FileRefusal::NotText(resolved).into());
    }
    Ok(resolved)
}

/// Makes the tree's directory, or opens one that is empty, or that a killed build has begun.
pub fn make_or_open(path: &Path, is_there: bool, record: &Record) -> Result<Dir, TreeError> {
    if !is_there {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
        else {
            return Err(FileRefusal::Missing(path.to_owned()).into());
        };
        let parent = Dir::open(parent).map_err(TreeError::io("open", parent))?;
        return parent.make(name).map_err(TreeError::io("make", path));
    }
    let dir = Dir::open(path).map_err(TreeError::io("open", path))?;
    let names = dir.names().map_err(TreeError::io("list", path))?;
    let id = FileId::from(dir.own_facts().map_err(TreeError::io("look at", path))?);
    let is_begun = record.entry.id == Some(id) || is_only_begun(&dir, &names);
    match names.iter().find(|name| !(is_begun && matches!(name.as_str(), CARD | DRAFT))) {
        None => Ok(dir),
        Some(what) => Err(TreeError::NotEmpty { path: path.to_owned(), what: what.clone() }),
    }
}

/// True for a directory in which a killed build has left the beginning of a card, and nothing else.
fn is_only_begun(dir: &Dir, names: &[String]) -> bool {
    const BEGIN: &[u8] = b"{\n  \"format\": ";
    let is_beginning = || -> io::Result<bool> {
        let facts = dir.facts(DRAFT)?;
        let mut begin = Vec::new();
        dir.open_file(DRAFT, false)?.take(BEGIN.len() as u64).read_to_end(&mut begin)?;
        Ok(facts.is_file && facts.links == 1 && BEGIN.starts_with(&begin))
    };
    names == [DRAFT] && is_beginning().unwrap_or(false)
}

/// What a tree takes: every file in whole blocks and a little for its inode, every directory a block.
pub fn needed_bytes(extent: Extent, block_bytes: u64) -> u64 {
    let rounding = extent.files.saturating_mul(block_bytes / 2 + 256);
    let dirs = extent.dirs.saturating_mul(block_bytes + 256);
    extent.bytes.saturating_add(rounding).saturating_add(dirs)
}

/// What must stay free of a filesystem of that many bytes.
pub type Reserve = fn(u64) -> u64;

/// What may be used of a filesystem: but for what stays free; of one in memory half of what is free.
pub fn usable_bytes(root: &SysRoot, path: &Path, reserve: Reserve) -> Result<u64, TreeError> {
    let (there, space) = space_of(path)?;
    let reserve = reserve(space.total_bytes);
    let usable = space.available_bytes.saturating_sub(reserve);
    let own = mounts::own_mounts(root);
    let fs_type = mounts::mount_of(&own, there).map_or("", |mount| mount.fs_type.as_str());
    if matches!(fs_type, "tmpfs" | "ramfs") {
        let free = counters::memory_available_bytes(root).unwrap_or(0);
        return Ok(usable.min(free / 2));
    }
    Ok(usable)
}

/// The nearest directory that exists, and its filesystem's space.
fn space_of(path: &Path) -> Result<(&Path, fsinfo::Space), TreeError> {
    let there = path.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let space = fsinfo::space(there).map_err(TreeError::io("ask for the free space of", there))?;
    Ok((there, space))
}

/// Makes sure that the rest of a tree fits, in bytes and in inodes.
pub fn check_room(
    (root, reserve): (&SysRoot, Reserve),
    path: &Path,
    rest: Extent,
) -> Result<(), TreeError> {
    let (_, space) = space_of(path)?;
    check_bytes((root, reserve), path, needed_bytes(rest, space.block_bytes.clamp(512, 65536)))?;
    check_inodes(path, space, rest.files + rest.dirs)
}

/// Refuses what cannot fit by far, before the tree is computed file by file.
pub fn check_amount(
    (root, reserve): (&SysRoot, Reserve),
    path: &Path,
    spec: &TreeSpec,
) -> Result<(), TreeError> {
    let (_, space) = space_of(path)?;
    // What is drawn may come out smaller than the mean says.
    let mean = spec.sizes.mean().max(1.0);
    let (files, bytes) = match spec.amount {
        Amount::Files(files) => (files as f64, files as f64 * mean / 2.0),
        Amount::Bytes(bytes) => (bytes as f64 / mean / 2.0, bytes as f64),
    };
    check_bytes((root, reserve), path, bytes as u64)?;
    check_inodes(path, space, files as u64)
}

fn check_inodes(path: &Path, space: fsinfo::Space, wanted: u64) -> Result<(), TreeError> {
    // Filesystems that make inodes as needed tell none, or as many as the space allows.
    if space.inodes > 0 && wanted > space.inodes_free.saturating_sub(space.inodes / 20) {
        return Err(TreeError::Inodes {
            path: path.to_owned(),
            wanted,
            total: space.inodes,
            free: space.inodes_free,
        });
    }
    Ok(())
}

fn check_bytes(
    (root, reserve): (&SysRoot, Reserve),
    path: &Path,
    wanted: u64,
) -> Result<(), TreeError> {
    let (there, _) = space_of(path)?;
    if wanted > usable_bytes(root, path, reserve)? {
        // The figures of the refusal, or the memory when it is that.
        place::check_space_keeping(there, wanted, reserve)?;
        let reason = format!(
            "{} lies in memory: a tree of {} would take more than half of what is free of it; use a smaller size= or files=",
            path.display(),
            fathom_base::units::format_size(wanted)
        );
        return Err(TreeError::Io {
            doing: "fill",
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::StorageFull, reason),
        });
    }
    Ok(())
}
