//! What the I/O goes to, as an open file with the right to use it.

use fathom_guard::{
    Claim, FileRefusal, KeptFile, OwnedFile, OwnedNames, OwnedTree, open_owned_for_write,
};
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// An open target. One that may be written can only be made from a proof: a claim on a device, or a file that
/// fathom owns.
#[derive(Debug)]
pub struct LoadTarget {
    file: Option<File>,
    tree: Option<Tree>,
    names: Option<Arc<OwnedNames>>,
    size_bytes: u64,
    logical_block_bytes: u64,
    direct: bool,
    writable: bool,
}

/// Many files, of which the first is open.
#[derive(Debug)]
struct Tree {
    files: Arc<OwnedTree>,
    mode: OpenMode,
}

impl LoadTarget {
    /// Test files of a run, each of `size_bytes`.
    ///
    /// # Errors
    /// Those of opening the first of them.
    pub fn own_tree(
        tree: &Arc<OwnedTree>,
        size_bytes: u64,
        logical_block_bytes: u64,
        mode: OpenMode,
    ) -> io::Result<Self> {
        let first = tree.open(0, mode)?;
        let mut target =
            Self::over(first, size_bytes, logical_block_bytes, mode.direct, mode.write);
        target.tree = Some(Tree { files: Arc::clone(tree), mode });
        Ok(target)
    }

    /// A directory of fathom's in which files are created, looked up and deleted.
    #[must_use]
    pub fn own_names(names: &Arc<OwnedNames>) -> Self {
        Self { names: Some(Arc::clone(names)), ..Self::null(0) }
    }

    /// The directory of jobs on names.
    #[must_use]
    pub fn names(&self) -> Option<&OwnedNames> {
        self.names.as_deref()
    }

    /// How many files it is.
    #[must_use]
    pub fn files(&self) -> u32 {
        self.tree.as_ref().map_or(1, |tree| tree.files.count())
    }

    /// Opens one of its files, as the target itself was opened; without allocating.
    ///
    /// # Errors
    /// Those of open(2); ENOENT when it is not there, or not the one that was made.
    pub(crate) fn open_file(&self, index: u32) -> io::Result<File> {
        match &self.tree {
            Some(tree) => tree.files.open(index, tree.mode),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    /// A target that is only read: an existing file or device.
    ///
    /// # Errors
    /// Those of opening it; EINVAL for `direct` where the filesystem has no O_DIRECT.
    pub fn read_only(
        path: &Path,
        size_bytes: u64,
        logical_block_bytes: u64,
        mode: OpenMode,
    ) -> io::Result<Self> {
        let file = sys_io::open_existing(path, OpenMode { write: false, ..mode })?;
        Ok(Self::over(file, size_bytes, logical_block_bytes, mode.direct, false))
    }

    /// A claimed block device.
    ///
    /// # Errors
    /// Those of opening it once more.
    pub fn claimed(claim: &Claim, mode: OpenMode) -> io::Result<Self> {
        let block = u64::from(claim.logical_block_size_bytes());
        Ok(Self::over(claim.reopen(mode)?, claim.size_bytes(), block, mode.direct, true))
    }

    /// An existing file that fathom made, by its path: whether it did is checked here once more.
    ///
    /// # Errors
    /// [`FileRefusal`] when it is not ours or cannot be opened.
    pub fn own_path(
        root: &SysRoot,
        path: &Path,
        size_bytes: u64,
        logical_block_bytes: u64,
        mode: OpenMode,
    ) -> Result<Self, FileRefusal> {
        let file = open_owned_for_write(root, path, mode)?;
        Ok(Self::over(file, size_bytes, logical_block_bytes, mode.direct, true))
    }

    /// A new file at a path of the user's choice.
    ///
    /// # Errors
    /// Those of opening it once more.
    pub fn own_file(
        file: &OwnedFile,
        size_bytes: u64,
        logical_block_bytes: u64,
        mode: OpenMode,
    ) -> io::Result<Self> {
        Ok(Self::over(file.reopen(mode)?, size_bytes, logical_block_bytes, mode.direct, true))
    }

    /// A file that an earlier run made and kept.
    ///
    /// # Errors
    /// Those of opening it once more.
    pub fn kept_file(
        file: &KeptFile,
        size_bytes: u64,
        logical_block_bytes: u64,
        mode: OpenMode,
    ) -> io::Result<Self> {
        Ok(Self::over(file.reopen(mode)?, size_bytes, logical_block_bytes, mode.direct, true))
    }

    /// No target, for the null engine.
    #[must_use]
    pub fn null(size_bytes: u64) -> Self {
        Self {
            file: None,
            tree: None,
            names: None,
            size_bytes,
            logical_block_bytes: 512,
            direct: false,
            writable: true,
        }
    }

    fn over(file: File, size_bytes: u64, block: u64, direct: bool, writable: bool) -> Self {
        let logical_block_bytes = block.max(1);
        let (tree, names) = (None, None);
        Self { file: Some(file), tree, names, size_bytes, logical_block_bytes, direct, writable }
    }

    #[cfg(test)]
    pub(crate) fn for_test(file: File, size_bytes: u64, writable: bool) -> Self {
        Self::over(file, size_bytes, 512, false, writable)
    }

    /// Empties a file, or all files, that fathom owns, so that writes extend them again.
    ///
    /// # Errors
    /// Those of ftruncate(2); `InvalidInput` for a target that may not be written.
    pub fn truncate(&self) -> io::Result<()> {
        let Some(first) = self.file.as_ref().filter(|_| self.writable) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        first.set_len(0)?;
        (1..self.files()).try_for_each(|index| self.open_file(index)?.set_len(0))
    }

    /// The open file, of several the first; none for the null target and for names.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// What tells it from other targets, however often it is opened: device and inode, of a device its own number.
    /// None for the null target.
    #[must_use]
    pub fn identity(&self) -> Option<(u64, u64)> {
        let meta = self.file.as_ref()?.metadata().ok()?;
        let is_device = meta.file_type().is_block_device();
        Some(if is_device { (u64::MAX, meta.rdev()) } else { (meta.dev(), meta.ino()) })
    }

    /// Size in bytes; of several files that of each.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The unit of direct I/O.
    #[must_use]
    pub fn logical_block_bytes(&self) -> u64 {
        self.logical_block_bytes
    }

    /// True when it was opened with O_DIRECT.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// True when fathom may write to it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}
