//! From a path to the graph of everything below it.

use crate::InspectError;
use crate::graph::{Builder, Reach, shown};
use crate::links::Links;
use crate::paths;
use fathom_model::stack::Stack;
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Resolves a target (a file, a directory, a file yet to be made, a block device, or a link to any
/// of these) to the stack under it. Layers that cannot be read become `NodeKind::Unknown` or lack
/// facts: that is no error.
///
/// # Errors
/// [`InspectError`] when the path is no storage target at all: a missing directory or device, a
/// character device.
pub fn resolve(root: &SysRoot, path: &Path) -> Result<Stack, InspectError> {
    let resolved = paths::resolved(root, path)?;
    let links = Links::new(root);
    let mut builder = Builder::new(root, &links, Reach::Record);
    let top = enter(&mut builder, root, &resolved)?;
    builder.break_circles();
    Ok(Stack { path: shown(path), resolved_path: shown(&resolved), nodes: builder.nodes, top })
}

/// Enters the stack under a resolved path and returns its top.
pub(crate) fn enter(
    builder: &mut Builder,
    root: &SysRoot,
    resolved: &Path,
) -> Result<usize, InspectError> {
    let Some(device) = target_device(root, resolved)? else {
        return builder.file(resolved).ok_or_else(|| InspectError::NoMount(shown(resolved)));
    };
    let top = builder.block(&device);
    builder.nodes[top].mounted_at = builder.mounted_above(&device);
    Ok(top)
}

/// `EIO`.
pub(crate) const INPUT_OUTPUT_ERROR: i32 = 5;

/// The block device that the resolved path names; none for files and directories.
pub(crate) fn target_device(root: &SysRoot, path: &Path) -> Result<Option<BlockDir>, InspectError> {
    if !root.is_live() {
        // A recorded tree holds no device nodes: the name decides.
        return Ok(paths::block_device(root, path));
    }
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return if path.starts_with("/dev") && !path.starts_with("/dev/shm") {
                Err(InspectError::NoDevice(shown(path)))
            } else if path.parent().is_some_and(Path::is_dir) {
                Ok(None)
            } else {
                Err(InspectError::NoParent(shown(path)))
            };
        }
        // A filesystem that has given up answers nothing: there is all the more to tell of it.
        Err(error) if error.raw_os_error() == Some(INPUT_OUTPUT_ERROR) => return Ok(None),
        Err(error) => return Err(InspectError::io(path, error)),
    };
    let kind = metadata.file_type();
    if kind.is_block_device() {
        let devno = DevNo::from_raw(metadata.rdev());
        let found = BlockDir::by_devno(root, devno);
        return found.map(Some).ok_or_else(|| InspectError::NotInSysfs(shown(path), devno));
    }
    if kind.is_dir() || kind.is_file() {
        return Ok(None);
    }
    let what = if kind.is_char_device() { "a character device" } else { "a pipe or socket" };
    Err(InspectError::NotStorage(shown(path), what))
}

/// The path itself or the nearest directory above it that exists: what can be opened and asked
/// about a target that is yet to be made, and what a store's place can be resolved by before it is
/// made.
#[must_use]
pub fn nearest_existing(path: &Path) -> PathBuf {
    // A name without a directory lies in the one where fathom was started.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/")).to_path_buf()
}
