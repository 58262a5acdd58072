//! How much test files may take: of a filesystem's space, and of the memory that some of them lie in.

use super::{resolve, resolve_at};
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::run::wrong_kind;
use fathom_base::units::format_sizes;
use fathom_guard::changes::{self, ChangeLog};
use fathom_guard::{check_space, place};
use fathom_model::change::Change;
use fathom_model::change::setup::SetupChange;
use fathom_model::stack::{NodeKind, Stack};
use fathom_sys::fsinfo::{self, Space};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{counters, mounts, threads};
use std::path::Path;

/// Free space as it may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free for this user.
    pub free_bytes: u64,
    /// Free less what must stay free.
    pub usable_bytes: u64,
    /// It is memory that sets the limit.
    pub is_memory: bool,
}

/// How much of a directory's filesystem may be used.
pub fn space(lab: &Lab<'_>, directory: &Path) -> Result<FreeSpace, LabError> {
    space_at(&lab.root, directory, lab.free_memory_bytes())
}

/// The same of a machine with so much free memory.
pub(super) fn space_at(
    root: &SysRoot,
    directory: &Path,
    free_memory_bytes: u64,
) -> Result<FreeSpace, LabError> {
    let space = fsinfo::space(directory).map_err(|source| LabError::TargetIo {
        path: directory.to_owned(),
        what: "asking for its free space",
        source,
    })?;
    let in_memory = lies_in_memory(&resolve_at(root, directory)?);
    Ok(usable(space, in_memory.then_some(free_memory_bytes)))
}

/// How much processes that make files may use, all together, and why not more: what test files may.
///
/// # Errors
/// Those of asking for it.
pub fn space_of_writers(lab: &Lab<'_>, directory: &Path) -> Result<(u64, &'static str), LabError> {
    let io = |source| {
        let path = directory.to_owned();
        LabError::TargetIo { path, what: "asking for its free space", source }
    };
    let space = fsinfo::space(directory).map_err(io)?;
    let (reserve, why): (fn(u64) -> u64, _) =
        match is_of_experiment(&lab.root, &lab.state_dir, directory) {
            true => (place::reserve_bytes_of_setup, "5 % of a filesystem stay free"),
            false => (place::reserve_bytes, "5 % and at least 1 GiB of a filesystem stay free"),
        };
    let in_memory = lies_in_memory(&resolve(lab, directory)?);
    let found = usable_keeping(space, in_memory.then(|| lab.free_memory_bytes()), reserve);
    let why = if found.is_memory { "it lies in memory, half of which stays free" } else { why };
    Ok((found.usable_bytes, why))
}

/// `memory_bytes` is free, where the filesystem lies in memory.
fn usable(space: Space, memory_bytes: Option<u64>) -> FreeSpace {
    usable_keeping(space, memory_bytes, place::reserve_bytes)
}

/// The same where `reserve` says what must stay free of so many bytes.
fn usable_keeping(space: Space, memory_bytes: Option<u64>, reserve: fn(u64) -> u64) -> FreeSpace {
    let reserve_bytes = reserve(space.total_bytes);
    let of_space = FreeSpace {
        free_bytes: space.available_bytes,
        usable_bytes: space.available_bytes.saturating_sub(reserve_bytes),
        is_memory: false,
    };
    match memory_bytes {
        // ramfs and its like have no size.
        Some(bytes) if space.total_bytes == 0 || bytes / 2 < of_space.usable_bytes => {
            FreeSpace { free_bytes: bytes, usable_bytes: bytes / 2, is_memory: true }
        }
        _ => of_space,
    }
}

/// Files there take memory: tmpfs, ramfs, or an overlay that writes to one.
fn lies_in_memory(stack: &Stack) -> bool {
    let Some(top) = stack.filesystem() else { return false };
    let writes_to_memory = || {
        stack.top_block_devices().is_empty()
            && stack.walk().into_iter().any(|node| node.kind == NodeKind::Memory)
    };
    top.kind == NodeKind::Memory || top.kind == NodeKind::Overlay && writes_to_memory()
}

/// Makes sure that files of that size may and can be made in a directory.
pub(super) fn check_room(lab: &Lab<'_>, directory: &Path, size_bytes: u64) -> Result<(), LabError> {
    place::check_directory(&lab.root, directory)?;
    let has_size = fsinfo::space(directory).is_ok_and(|space| space.total_bytes > 0);
    check_reserve(&lab.root, &lab.state_dir, directory, size_bytes)?;
    if lies_in_memory(&resolve(lab, directory)?) || !has_size {
        return check_memory(directory, size_bytes, lab.free_memory_bytes());
    }
    Ok(())
}

/// Makes sure that a file of that size may be written by this process.
pub(super) fn check_size_limit(path: &Path, size_bytes: u64) -> Result<(), LabError> {
    let Some(limit_bytes) = threads::file_size_limit_bytes().filter(|limit| *limit < size_bytes)
    else {
        return Ok(());
    };
    let (limit, size) = format_sizes(limit_bytes, size_bytes);
    let reason = format!(
        "a file of {size} cannot be made: the limit of file sizes is {limit} (ulimit -f, or LimitFSIZE= of a service); \
         raise it, or use a smaller size="
    );
    Err(LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing })
}

/// The same for an application, which finds out itself what it cannot do.
///
/// # Errors
/// [`LabError`] when it does not fit with what must stay free.
pub fn check_room_of_application(
    root: &SysRoot,
    state_dir: &Path,
    directory: &Path,
    size_bytes: u64,
) -> Result<(), LabError> {
    let directory = place::check_directory(root, directory)?;
    check_reserve(root, state_dir, &directory, size_bytes)?;
    let is_memory = fathom_inspect::resolve(root, &directory).is_ok_and(|s| lies_in_memory(&s));
    match counters::memory_available_bytes(root).filter(|_| is_memory) {
        Some(free_bytes) => check_memory(&directory, size_bytes, free_bytes),
        None => Ok(()),
    }
}

/// Leaves what must stay free of a filesystem; those without a size have nothing to leave.
fn check_reserve(
    root: &SysRoot,
    state_dir: &Path,
    directory: &Path,
    size_bytes: u64,
) -> Result<(), LabError> {
    if !fsinfo::space(directory).is_ok_and(|space| space.total_bytes > 0) {
        return Ok(());
    }
    if is_of_experiment(root, state_dir, directory) {
        place::check_space_of_setup(directory, size_bytes)?;
    } else {
        check_space(directory, size_bytes)?;
    }
    Ok(())
}

/// A filesystem that an experiment has made for itself, as its journal says: nobody else needs space on it. One that somebody has
/// mounted below the state directory is somebody's.
fn is_of_experiment(root: &SysRoot, state_dir: &Path, directory: &Path) -> bool {
    let Ok(logs) = changes::look(root, state_dir) else { return false };
    let pending = logs.others.iter().chain(&logs.dead).flat_map(ChangeLog::pending);
    let mut mounts = pending.filter_map(|entry| match entry.change {
        Change::Setup(SetupChange::Mount { mount_point, .. }) => Some(mount_point),
        _ => None,
    });
    mounts.any(|mount_point| {
        let is_mounted = || mounts::own_mounts(root).iter().any(|m| m.mount_point == mount_point);
        directory.starts_with(&mount_point) && is_mounted()
    })
}

/// What is written there cannot be given back when memory runs out: the kernel would end this process, and leave the file.
fn check_memory(directory: &Path, size_bytes: u64, free_bytes: u64) -> Result<(), LabError> {
    if size_bytes <= free_bytes / 2 {
        return Ok(());
    }
    let (size, half) = format_sizes(size_bytes, free_bytes / 2);
    let reason = format!(
        "lies in memory: {size} are more than {half}, half of what is free; use a smaller size="
    );
    Err(wrong_kind(directory, reason))
}

/// The error for a directory with too little space.
pub fn no_space(lab: &Lab<'_>, directory: &Path, wanted_bytes: u64) -> LabError {
    match check_room(lab, directory, wanted_bytes) {
        Err(refusal) => refusal,
        Ok(()) => LabError::Usage(format!("{}: too little space", directory.display())),
    }
}

/// Test files are written in whole blocks of the device: the last part of another size could be written neither directly
/// nor so that it is told from somebody else's data.
pub(super) fn check_blocks(path: &Path, size_bytes: u64, block_bytes: u64) -> Result<(), LabError> {
    let block_bytes = block_bytes.max(1);
    if size_bytes.is_multiple_of(block_bytes) {
        return Ok(());
    }
    let lower = size_bytes / block_bytes * block_bytes;
    let upper = size_bytes.checked_next_multiple_of(block_bytes);
    let near: Vec<String> = [Some(lower), upper]
        .into_iter()
        .flatten()
        .filter(|&size| size > 0)
        .map(|size| format!("size={size}"))
        .collect();
    let reason = format!(
        "size={size_bytes} is no multiple of {block_bytes} bytes, the block in which test files are written; use {}",
        near.join(" or ")
    );
    Err(wrong_kind(path, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_sys::sysroot::SysRoot;

    const MIB: u64 = 1 << 20;

    fn of(total_bytes: u64) -> Space {
        Space {
            block_bytes: 4096,
            total_bytes,
            free_bytes: total_bytes,
            available_bytes: total_bytes,
            inodes: 0,
            inodes_free: 0,
        }
    }

    #[test]
    fn memory_limits_what_lies_in_it() {
        let disk = usable(of(4096 * MIB), None);
        assert_eq!((disk.usable_bytes, disk.is_memory), (3072 * MIB, false));
        // A tmpfs of 4 GiB in a control group of 400 MiB.
        let small = usable(of(4096 * MIB), Some(400 * MIB));
        assert_eq!((small.usable_bytes, small.is_memory), (200 * MIB, true));
        let large = usable(of(4096 * MIB), Some(1 << 40));
        assert_eq!((large.usable_bytes, large.is_memory), (3072 * MIB, false));
        let ramfs = usable(of(0), Some(400 * MIB));
        assert_eq!((ramfs.usable_bytes, ramfs.is_memory), (200 * MIB, true));
        let setup = usable_keeping(of(400 * MIB), None, place::reserve_bytes_of_setup);
        assert_eq!((setup.usable_bytes, usable(of(400 * MIB), None).usable_bytes), (380 * MIB, 0));
        let place = Path::new("/mnt");
        assert!(check_memory(place, 200 * MIB, 400 * MIB).is_ok());
        let text = check_memory(place, 2048 * MIB, 400 * MIB).unwrap_err().to_string();
        assert_eq!(
            text,
            "/mnt: lies in memory: 2 GiB are more than 200 MiB, half of what is free; use a smaller size="
        );
    }

    #[test]
    fn a_tmpfs_of_this_machine_lies_in_memory() {
        let resolve = |path: &str| fathom_inspect::resolve(&SysRoot::live(), Path::new(path));
        assert!(lies_in_memory(&resolve("/dev/shm").unwrap()));
        assert!(!lies_in_memory(&resolve("/proc").unwrap()));
    }

    #[test]
    fn sizes_are_whole_blocks() {
        let place = Path::new("/srv");
        assert!(check_blocks(place, 1_000_448, 512).is_ok());
        let text = check_blocks(place, 1_000_001, 512).unwrap_err().to_string();
        assert!(text.starts_with("/srv: size=1000001 is no multiple of 512 bytes"), "{text}");
        assert!(text.ends_with("use size=999936 or size=1000448"), "{text}");
        let text = check_blocks(place, 100, 4096).unwrap_err().to_string();
        assert!(text.ends_with("use size=4096"), "{text}");
        assert!(check_blocks(place, u64::MAX, 512).is_err());
    }
}
