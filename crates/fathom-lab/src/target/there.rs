//! What can be refused of a target by looking at it: nothing is made, marked or opened for writing.

use super::{fits, is_several, logical_block, resolve_at, tree, unreachable_target};
use crate::error::LabError;
use crate::run::wrong_kind;
use crate::target::{SEVERAL_TARGETS, TargetWish};
use fathom_base::units::format_size;
use fathom_guard::{FileRefusal, KeptFile};
use fathom_model::record::TargetKind;
use fathom_model::stack::Stack;
use fathom_sys::blkdev;
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::sysroot::SysRoot;
use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Refuses what preparing the target would refuse, but for the claim of a device that is written. `may_change` says that programs of the user's
/// run before it: only what they cannot mend is looked at.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn check(
    root: &SysRoot,
    path: &Path,
    wish: &TargetWish,
    may_change: bool,
) -> Result<(), LabError> {
    let kind = match std::fs::metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if may_change {
                return Ok(());
            }
            check_new(path, wish)?;
            return may_make_files(path.parent().unwrap_or(path));
        }
        Err(error) => return Err(unreachable_target(path, &error)),
    };
    check_kind(path, kind, wish)?;
    if kind.is_file() && wish.write {
        KeptFile::check(root, path)?;
    }
    if may_change {
        return Ok(());
    }
    if kind.is_dir() {
        return may_make_files(path);
    }
    let kind =
        if kind.is_block_device() { TargetKind::BlockDevice } else { TargetKind::ForeignFile };
    let (_, size_bytes, block_bytes) = look(root, path, kind)?;
    fits(&wish.jobs, path, size_bytes, block_bytes)
}

/// Refuses a directory in which this user can make nothing.
fn may_make_files(dir: &Path) -> Result<(), LabError> {
    let refusal = |source| FileRefusal::Io { doing: "make files in", path: dir.to_owned(), source };
    sys_io::check_writable(dir).map_err(|error| refusal(error).into())
}

/// Refuses something that is there and of the wrong kind.
pub(super) fn check_kind(path: &Path, kind: FileType, wish: &TargetWish) -> Result<(), LabError> {
    if kind.is_dir() {
        return Ok(());
    }
    if wish.files > 1 || wish.names > 0 {
        return Err(tree::needs_directory(path, wish));
    }
    if !kind.is_block_device() && !kind.is_file() {
        let reason = "is neither a file, a directory nor a block device".to_owned();
        return Err(wrong_kind(path, reason));
    }
    let Some(size_bytes) = wish.size_bytes else { return Ok(()) };
    let reason = format!(
        "exists; size={} is for files that fathom makes: span= limits how much of an existing target is used",
        format_size(size_bytes).replace(' ', "")
    );
    Err(wrong_kind(path, reason))
}

/// Refuses what cannot become a file; gives its size.
pub(super) fn check_new(path: &Path, wish: &TargetWish) -> Result<u64, LabError> {
    if is_several(path) {
        return Err(wrong_kind(path, SEVERAL_TARGETS.to_owned()));
    }
    if wish.files.max(wish.names) > 1 {
        return Err(tree::needs_directory(path, wish));
    }
    if path.starts_with("/dev") {
        return Err(unreachable_target(path, &io::Error::from(io::ErrorKind::NotFound)));
    }
    let parent = super::directory_above(path);
    if !parent.is_dir() {
        let reason = format!("there is no directory {}; make it first", parent.display());
        return Err(wrong_kind(path, reason));
    }
    wish.size_bytes.ok_or_else(|| {
        let gib = wish.pass_bytes.max(wish.range_bytes_min).max(4 << 30).div_ceil(1 << 30);
        let reason = format!("does not exist; to make it, say how large: size={gib}G");
        wrong_kind(path, reason)
    })
}

/// The layers below an existing file or device, its size, and the unit of direct I/O on it.
pub(super) fn look(
    root: &SysRoot,
    path: &Path,
    kind: TargetKind,
) -> Result<(Stack, u64, u64), LabError> {
    let file = sys_io::open_existing(path, OpenMode::default())
        .map_err(|e| unreachable_target(path, &e))?;
    let stack = resolve_at(root, path)?;
    let failed =
        |source| LabError::TargetIo { path: path.to_owned(), what: "asking for its size", source };
    let (size_bytes, block_bytes) = if kind == TargetKind::BlockDevice {
        let block = blkdev::logical_block_size_bytes(&file).map_err(failed)?;
        (blkdev::size_bytes(&file).map_err(failed)?, u64::from(block))
    } else {
        (file.metadata().map_err(failed)?.len(), logical_block(&stack))
    };
    if size_bytes == 0 {
        return Err(wrong_kind(path, "is empty: there is nothing to read".into()));
    }
    Ok((stack, size_bytes, block_bytes))
}
