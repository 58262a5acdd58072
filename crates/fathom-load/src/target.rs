//! What the I/O goes to, as an open file with the right to use it.

use fathom_guard::{Claim, FileRefusal, OwnedFile, open_owned_for_write};
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::path::Path;

/// An open target. One that may be written can only be made from a proof: a claim on a device, or a file that
/// fathom owns.
#[derive(Debug)]
pub struct LoadTarget {
    file: Option<File>,
    size_bytes: u64,
    logical_block_bytes: u64,
    direct: bool,
    writable: bool,
}

impl LoadTarget {
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

    /// No target, for the null engine.
    #[must_use]
    pub fn null(size_bytes: u64) -> Self {
        Self { file: None, size_bytes, logical_block_bytes: 512, direct: false, writable: true }
    }

    fn over(file: File, size_bytes: u64, block: u64, direct: bool, writable: bool) -> Self {
        Self { file: Some(file), size_bytes, logical_block_bytes: block.max(1), direct, writable }
    }

    #[cfg(test)]
    pub(crate) fn for_test(file: File, size_bytes: u64, writable: bool) -> Self {
        Self::over(file, size_bytes, 512, false, writable)
    }

    /// Empties a file that fathom owns, so that writes extend it again.
    ///
    /// # Errors
    /// Those of ftruncate(2); `InvalidInput` for a target that may not be written.
    pub fn truncate(&self) -> io::Result<()> {
        match &self.file {
            Some(file) if self.writable => file.set_len(0),
            _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }

    /// The open file; none for the null target.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Size in bytes.
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
