//! Loop devices over files of a test's own, detached when dropped.

use crate::command::{KitError, at, run_tool};
use crate::leftovers;
use crate::oracle;
use crate::scratch::Scratch;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What the backing file holds at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Zeros that take no space.
    Sparse,
    /// Zeros that were really written.
    Zeros,
    /// The incompressible pattern of [`oracle::pattern_fill`], really written.
    Pattern(u64),
}

/// How a file is attached.
#[derive(Debug, Clone, Default)]
pub struct LoopOptions {
    /// Attach read-only.
    pub read_only: bool,
    /// Where in the file the device begins, in bytes.
    pub offset_bytes: u64,
    /// How much of the file the device shows, in bytes; none is all.
    pub size_limit_bytes: Option<u64>,
    /// Allow partition devices; see [`LoopDevice::reread_partitions`].
    pub partition_scan: bool,
    /// Bypass the page cache of the backing file.
    pub direct_io: bool,
    /// Logical block size, in bytes; none is 512.
    pub sector_size_bytes: Option<u32>,
}

impl LoopOptions {
    fn to_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        let flags = [(self.read_only, "--read-only"), (self.partition_scan, "--partscan")];
        args.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()));
        if self.direct_io {
            args.push("--direct-io=on".to_owned());
        }
        if self.offset_bytes > 0 {
            args.push(format!("--offset={}", self.offset_bytes));
        }
        args.extend(self.size_limit_bytes.map(|bytes| format!("--sizelimit={bytes}")));
        args.extend(self.sector_size_bytes.map(|bytes| format!("--sector-size={bytes}")));
        args
    }
}

/// A loop device. Dropping it ends swap and mounts on it, detaches it, and removes its file if the device made it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    backing: PathBuf,
    // Dropped after the detaching in `drop`: the file must outlive the device.
    _scratch: Option<Scratch>,
}

impl LoopDevice {
    /// A blank device of that size over a sparse file.
    ///
    /// # Errors
    /// Those of making the file and of `losetup`.
    pub fn new(size_bytes: u64) -> Result<Self, KitError> {
        Self::with(size_bytes, Content::Sparse, &LoopOptions::default())
    }

    /// A device over a new file of that size and content.
    ///
    /// # Errors
    /// Those of making the file and of `losetup`.
    pub fn with(
        size_bytes: u64,
        content: Content,
        options: &LoopOptions,
    ) -> Result<Self, KitError> {
        let scratch = Scratch::new()?;
        let backing = scratch.join("disk.img");
        make_file(&backing, size_bytes, content)?;
        let path = attach(&backing, options)?;
        Ok(Self { path, backing, _scratch: Some(scratch) })
    }

    /// A device over an existing file, which stays when the device goes. The file may already back another one.
    /// It must lie in a [`Scratch`] directory, or a killed test's device would not be found.
    ///
    /// # Errors
    /// Those of `losetup`.
    pub fn over(backing: &Path, options: &LoopOptions) -> Result<Self, KitError> {
        let path = attach(backing, options)?;
        Ok(Self { path, backing: backing.to_owned(), _scratch: None })
    }

    /// The device node, `/dev/loopN`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's name, `loopN`.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The backing file.
    #[must_use]
    pub fn backing(&self) -> &Path {
        &self.backing
    }

    /// The node of a partition, counted from 1; it exists once the table was read.
    #[must_use]
    pub fn partition(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.path.display()))
    }

    /// Makes the kernel's partition devices follow the partition table. `partx` reads the table itself, so this works
    /// on kernels that cannot read its format.
    ///
    /// # Errors
    /// When a partition that changed is in use.
    pub fn reread_partitions(&self) -> Result<(), KitError> {
        run_tool("partx", [Path::new("--update"), &self.path]).map(drop)
    }

    /// Has the kernel take over the backing file's present size.
    ///
    /// # Errors
    /// Those of `losetup`.
    pub fn reread_size(&self) -> Result<(), KitError> {
        run_tool("losetup", [Path::new("--set-capacity"), &self.path]).map(drop)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        reset_queue(&self.path);
        leftovers::release_device(&self.path);
        leftovers::detach(&self.path);
    }
}

/// Makes a file of that size and content.
///
/// # Errors
/// Those of writing it.
pub fn make_file(path: &Path, size_bytes: u64, content: Content) -> Result<(), KitError> {
    match content {
        Content::Sparse => {
            let file = File::create_new(path).map_err(at(path))?;
            file.set_len(size_bytes).map_err(at(path))
        }
        Content::Zeros => oracle::write_blocks(path, size_bytes, |block, _| block.fill(0)),
        Content::Pattern(seed) => oracle::pattern_write(path, size_bytes, seed),
    }
}

fn attach(backing: &Path, options: &LoopOptions) -> Result<PathBuf, KitError> {
    let mut args = vec!["--find".to_owned(), "--show".to_owned()];
    args.extend(options.to_args());
    args.push(backing.display().to_string());
    let path = PathBuf::from(run_tool("losetup", args)?);
    if !options.read_only {
        // A device that somebody set read-only stays so over detaching and attaching.
        run_tool("blockdev", [Path::new("--setrw"), &path])?;
    }
    reset_queue(&path);
    Ok(path)
}

/// The scheduler, merging and the largest request that a test set stay so over detaching and attaching as well: puts back those of a
/// new loop device.
///
/// A discard limit of 0 cannot be put back: the kernel then refuses every other value until the device is made anew. Tests
/// that need a device without discard put it on a filesystem that cannot punch holes.
fn reset_queue(path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let queue = Path::new("/sys/block").join(&*name).join("queue");
    drop(fs::write(queue.join("scheduler"), "none"));
    drop(fs::write(queue.join("nomerges"), "0"));
    // Nothing is the default to kernels from 6.9 on; older ones have the largest.
    let largest = queue.join("max_sectors_kb");
    if fs::write(&largest, "0").is_err()
        && let Ok(limit) = fs::read(queue.join("max_hw_sectors_kb"))
    {
        drop(fs::write(&largest, limit));
    }
}
