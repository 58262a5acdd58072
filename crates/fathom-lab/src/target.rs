//! From a path on the command line to something that can be measured: a directory gets a test file, a new path
//! becomes one, an existing file or device is read, a device is written only under a claim.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::layout::lay_out;
use crate::run::{default_size_bytes, wrong_kind};
use fathom_base::prng::Prng;
use fathom_base::units::format_size;
use fathom_guard::{Claim, FileRefusal, OwnedDir, OwnedFile, check_space, claim_block_device};
use fathom_guard::{open_owned_for_write, place};
use fathom_inspect::rules;
use fathom_load::plan::plan;
use fathom_load::target::LoadTarget;
use fathom_model::extents::FileExtents;
use fathom_model::finding::Finding;
use fathom_model::record::{TargetKind, TargetRecord};
use fathom_model::stack::{Node, Stack};
use fathom_model::workload::Job;
use fathom_sys::arena::Arena;
use fathom_sys::blkdev;
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, counters, fsinfo};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What the jobs on one target want of it together.
#[derive(Debug, Clone, Default)]
pub struct TargetWish {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Some job writes.
    pub write: bool,
    /// Some job uses direct I/O.
    pub direct: bool,
    /// The file starts empty and grows.
    pub fresh: bool,
    /// Size that was asked for.
    pub size_bytes: Option<u64>,
    /// Every job runs on the null engine.
    pub null: bool,
    /// What one pass of a job needs.
    pub smallest_bytes: u64,
}

/// Free space as it may be used.
#[derive(Debug, Clone, Copy)]
pub struct FreeSpace {
    /// Free for this user.
    pub free_bytes: u64,
    /// Free less what must stay free.
    pub usable_bytes: u64,
}

/// What holds the target, and what gives it back when dropped.
enum Holder {
    Null,
    Foreign,
    /// A file in a directory of ours; the directory is removed with its last file.
    InDir(Rc<RefCell<Option<OwnedDir>>>),
    New(Box<OwnedFile>),
    /// A file that an earlier run made and kept.
    Kept,
    Device(Box<Claim>),
}

/// A target that is ready to be opened by jobs.
pub struct PreparedTarget {
    root: SysRoot,
    path: PathBuf,
    holder: Holder,
    kind: TargetKind,
    size_bytes: u64,
    logical_block_bytes: u64,
    /// Emptied whenever it is opened.
    fresh: bool,
    /// Direct writes bypass the page cache; none where it was not tried.
    direct_honoured: Option<bool>,
    stack: Stack,
}

/// The stack under a path.
pub fn resolve(lab: &Lab<'_>, path: &Path) -> Result<Stack, LabError> {
    let stack = fathom_inspect::resolve(&lab.root, path)?;
    let is_suspended = |n: &&Node| n.dm.as_ref().is_some_and(|dm| dm.suspended == Some(true));
    if let Some(node) = stack.block_devices().into_iter().find(is_suspended) {
        let name =
            node.dm.as_ref().and_then(|dm| dm.name.clone()).unwrap_or_else(|| node.name.clone());
        let reason = format!(
            "{} below it is suspended, so that I/O would wait for ever: dmsetup resume {name}",
            node.label()
        );
        return Err(LabError::Target { path: path.to_owned(), reason, class: ErrorClass::Missing });
    }
    Ok(stack)
}

/// The directory itself, or the one that holds a file.
pub fn directory_of(path: &Path) -> Result<PathBuf, LabError> {
    let meta = std::fs::metadata(path).map_err(|e| unreachable_target(path, &e))?;
    if meta.is_dir() {
        return Ok(path.to_owned());
    }
    let cure = if meta.file_type().is_block_device() {
        format!(
            "is a block device; quick works on directories: fathom run randread {} reads the device",
            path.display()
        )
    } else {
        "is a file; quick works on directories: give the directory that it is in".to_owned()
    };
    Err(wrong_kind(path, cure))
}

/// How much of a directory's filesystem may be used.
pub fn space(directory: &Path) -> Result<FreeSpace, LabError> {
    let space = fsinfo::space(directory).map_err(|source| LabError::TargetIo {
        path: directory.to_owned(),
        what: "asking for its free space",
        source,
    })?;
    let usable_bytes =
        space.available_bytes.saturating_sub(place::reserve_bytes(space.total_bytes));
    Ok(FreeSpace { free_bytes: space.available_bytes, usable_bytes })
}

fn unreachable_target(path: &Path, error: &io::Error) -> LabError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound if path.starts_with("/dev") => {
            "there is no such device; lsblk lists those that exist".to_owned()
        }
        io::ErrorKind::NotFound => "does not exist".to_owned(),
        io::ErrorKind::PermissionDenied => "no permission; run as its owner or as root".to_owned(),
        _ => error.to_string(),
    };
    wrong_kind(path, reason)
}

/// Prepares a target: nothing is measured yet, but test files are written.
///
/// # Errors
/// [`LabError`]; whatever had been made is removed again.
pub fn prepare(
    lab: &mut Lab<'_>,
    path: &Path,
    wish: &TargetWish,
    rest_after_ns: u64,
) -> Result<PreparedTarget, LabError> {
    if wish.null || path.as_os_str().as_encoded_bytes().starts_with(b"null:") {
        return Ok(PreparedTarget::null(lab, wish.size_bytes.unwrap_or(1 << 40)));
    }
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return new_file(lab, path, wish, rest_after_ns);
        }
        Err(e) => return Err(unreachable_target(path, &e)),
    };
    let kind = meta.file_type();
    if kind.is_dir() {
        let size_bytes = wish.size_bytes.unwrap_or(wished_size(lab, path, wish)?);
        check_fit(&wish.jobs, path, size_bytes, &resolve(lab, path)?)?;
        return if wish.fresh {
            own_fresh_file(lab, path, size_bytes)
        } else {
            own_file(lab, path, "data", size_bytes, None, rest_after_ns)
        };
    }
    if !kind.is_block_device() && !kind.is_file() {
        let reason = "is neither a file, a directory nor a block device".to_owned();
        return Err(wrong_kind(path, reason));
    }
    if let Some(size_bytes) = wish.size_bytes {
        let reason = format!(
            "exists; size={} is for files that fathom makes: span= limits how much of an existing target is used",
            format_size(size_bytes).replace(' ', "")
        );
        return Err(wrong_kind(path, reason));
    }
    if kind.is_block_device() {
        return if wish.write {
            claimed(lab, path, &wish.jobs)
        } else {
            readable(lab, path, TargetKind::BlockDevice)
        };
    }
    if wish.write {
        open_owned_for_write(&lab.root, path, OpenMode::default())?;
        let mut target = readable(lab, path, TargetKind::OwnFile)?;
        target.holder = Holder::Kept;
        target.fresh = wish.fresh;
        return Ok(target);
    }
    readable(lab, path, TargetKind::ForeignFile)
}

fn wished_size(lab: &Lab<'_>, path: &Path, wish: &TargetWish) -> Result<u64, LabError> {
    let (cache_bytes, _) = rules::cache_bytes_assumed(&resolve(lab, path)?);
    Ok(default_size_bytes(cache_bytes, wish.smallest_bytes))
}

/// The unit of direct I/O on a file of this stack.
fn logical_block(stack: &Stack) -> u64 {
    let blocks =
        stack.top_block_devices().into_iter().filter_map(|n| n.queue.as_ref()?.logical_block_bytes);
    blocks.max().unwrap_or(512)
}

/// Finds out whether jobs fit a file that is still to be made: it may take long to write.
pub fn check_fit(
    jobs: &[Job],
    path: &Path,
    size_bytes: u64,
    stack: &Stack,
) -> Result<(), LabError> {
    fits(jobs, path, size_bytes, logical_block(stack))
}

fn fits(jobs: &[Job], path: &Path, size_bytes: u64, block_bytes: u64) -> Result<(), LabError> {
    for job in jobs {
        plan(job, size_bytes, block_bytes, 0).map_err(|source| LabError::Plan {
            job: job.name.clone(),
            target: path.display().to_string(),
            source,
        })?;
    }
    Ok(())
}

/// Makes sure that a file of that size may and can be made in a directory.
fn check_room(lab: &Lab<'_>, directory: &Path, size_bytes: u64) -> Result<(), LabError> {
    place::check_directory(&lab.root, directory)?;
    if fsinfo::space(directory).is_ok_and(|space| space.total_bytes > 0) {
        return Ok(check_space(directory, size_bytes)?);
    }
    // ramfs and its like have no size: what they take is memory.
    let free_bytes = lab.free_memory_bytes();
    if size_bytes <= free_bytes / 2 {
        return Ok(());
    }
    let reason = format!(
        "lies in memory: {} are more than half of what is free ({}); use a smaller size=",
        format_size(size_bytes),
        format_size(free_bytes)
    );
    Err(wrong_kind(directory, reason))
}

/// Makes `.fathom-ID/NAME` in a directory and writes it full; `time_limit_ns` may leave it smaller.
pub fn own_file(
    lab: &mut Lab<'_>,
    directory: &Path,
    name: &str,
    size_bytes: u64,
    time_limit_ns: Option<u64>,
    rest_after_ns: u64,
) -> Result<PreparedTarget, LabError> {
    check_room(lab, directory, size_bytes)?;
    let mut target = in_new_dir(lab, directory, name, size_bytes)?;
    target.fill(lab, time_limit_ns, rest_after_ns)?;
    Ok(target)
}

fn own_fresh_file(
    lab: &Lab<'_>,
    directory: &Path,
    size_bytes: u64,
) -> Result<PreparedTarget, LabError> {
    check_room(lab, directory, size_bytes)?;
    let mut target = in_new_dir(lab, directory, "data", size_bytes)?;
    target.fresh = true;
    target.probe_direct()?;
    Ok(target)
}

fn in_new_dir(
    lab: &Lab<'_>,
    directory: &Path,
    name: &str,
    size_bytes: u64,
) -> Result<PreparedTarget, LabError> {
    let stack = resolve(lab, directory)?;
    // Several targets of one run in one directory (a log beside the data) need names of their own.
    let id = format!("{}{}", lab.run_id, lab.next_suffix());
    let mut dir = OwnedDir::create(&lab.root, directory, &id, &lab.state_dir)?;
    dir.create_file(name)?;
    let path = dir.path().join(name);
    Ok(PreparedTarget {
        root: lab.root.clone(),
        path,
        holder: Holder::InDir(Rc::new(RefCell::new(Some(dir)))),
        kind: TargetKind::OwnFile,
        size_bytes,
        logical_block_bytes: logical_block(&stack),
        fresh: false,
        direct_honoured: None,
        stack,
    })
}

fn new_file(
    lab: &mut Lab<'_>,
    path: &Path,
    wish: &TargetWish,
    rest_after_ns: u64,
) -> Result<PreparedTarget, LabError> {
    if path.starts_with("/dev") {
        return Err(unreachable_target(path, &io::Error::from(io::ErrorKind::NotFound)));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let reason = format!("there is no directory {}; make it first", parent.display());
        return Err(wrong_kind(path, reason));
    }
    let stack = resolve(lab, parent)?;
    let Some(size_bytes) = wish.size_bytes else {
        let reason = "does not exist; to make it, say how large: size=4G".to_owned();
        return Err(wrong_kind(path, reason));
    };
    check_fit(&wish.jobs, path, size_bytes, &stack)?;
    check_room(lab, parent, size_bytes)?;
    let file = OwnedFile::create(&lab.root, path, &lab.run_id, &lab.state_dir)?;
    let mut target = PreparedTarget {
        root: lab.root.clone(),
        path: file.path().to_owned(),
        holder: Holder::New(Box::new(file)),
        kind: TargetKind::OwnFile,
        size_bytes,
        logical_block_bytes: logical_block(&stack),
        fresh: wish.fresh,
        direct_honoured: None,
        stack,
    };
    if wish.fresh {
        target.probe_direct()?;
    } else {
        target.fill(lab, None, rest_after_ns)?;
    }
    Ok(target)
}

fn claimed(lab: &mut Lab<'_>, path: &Path, jobs: &[Job]) -> Result<PreparedTarget, LabError> {
    // Before anything is read from it: a suspended device would never answer.
    let stack = resolve(lab, path)?;
    let claim =
        claim_block_device(&lab.root, path, &lab.consent, &lab.protected, OpenMode::default())?;
    let logical_block_bytes = u64::from(claim.logical_block_size_bytes());
    fits(jobs, path, claim.size_bytes(), logical_block_bytes)?;
    lab.note(format!(
        "DESTROYS everything on {} ({}, {}). Every other device stays as it is. \
         There is no way back but a backup that was verified.",
        claim.path().display(),
        claim.id(),
        format_size(claim.size_bytes())
    ));
    Ok(PreparedTarget {
        root: lab.root.clone(),
        path: claim.path().to_owned(),
        size_bytes: claim.size_bytes(),
        logical_block_bytes,
        holder: Holder::Device(Box::new(claim)),
        kind: TargetKind::BlockDevice,
        fresh: false,
        direct_honoured: None,
        stack,
    })
}

/// An existing file or device that will only be read.
fn readable(lab: &Lab<'_>, path: &Path, kind: TargetKind) -> Result<PreparedTarget, LabError> {
    let file = sys_io::open_existing(path, OpenMode::default())
        .map_err(|e| unreachable_target(path, &e))?;
    let stack = resolve(lab, path)?;
    let failed =
        |source| LabError::TargetIo { path: path.to_owned(), what: "asking for its size", source };
    let (size_bytes, logical_block_bytes) = if kind == TargetKind::BlockDevice {
        let block = blkdev::logical_block_size_bytes(&file).map_err(failed)?;
        (blkdev::size_bytes(&file).map_err(failed)?, u64::from(block))
    } else {
        (file.metadata().map_err(failed)?.len(), logical_block(&stack))
    };
    if size_bytes == 0 {
        return Err(wrong_kind(path, "is empty: there is nothing to read".into()));
    }
    Ok(PreparedTarget {
        root: lab.root.clone(),
        path: path.to_owned(),
        holder: Holder::Foreign,
        kind,
        size_bytes,
        logical_block_bytes,
        fresh: false,
        direct_honoured: None,
        stack,
    })
}

/// The error for a directory with too little space.
pub fn no_space(directory: &Path, wanted_bytes: u64) -> LabError {
    match check_space(directory, wanted_bytes) {
        Err(refusal) => LabError::FileRefused(refusal),
        Ok(()) => LabError::Usage(format!("{}: too little space", directory.display())),
    }
}

impl PreparedTarget {
    fn null(lab: &Lab<'_>, size_bytes: u64) -> Self {
        let (path, resolved_path) = ("null:".to_owned(), "null:".to_owned());
        Self {
            root: lab.root.clone(),
            path: PathBuf::from("null:"),
            holder: Holder::Null,
            kind: TargetKind::Null,
            size_bytes,
            logical_block_bytes: 512,
            fresh: false,
            direct_honoured: None,
            stack: Stack { path, resolved_path, nodes: Vec::new(), top: 0 },
        }
    }

    /// Another file in the same directory of ours, which starts empty whenever it is opened.
    ///
    /// # Errors
    /// [`LabError`] when the target has no directory of its own or the file cannot be made.
    pub fn sibling_empty(&self, name: &str, size_bytes: u64) -> Result<Self, LabError> {
        let Holder::InDir(dir) = &self.holder else {
            return Err(LabError::Usage(
                "only a directory target has room for a second file".into(),
            ));
        };
        let mut held = dir.borrow_mut();
        let Some(owned) = held.as_mut() else {
            return Err(LabError::Usage("the test directory has been given up".into()));
        };
        owned.create_file(name)?;
        Ok(Self {
            root: self.root.clone(),
            path: owned.path().join(name),
            holder: Holder::InDir(Rc::clone(dir)),
            kind: TargetKind::OwnFile,
            size_bytes,
            logical_block_bytes: self.logical_block_bytes,
            fresh: true,
            direct_honoured: self.direct_honoured,
            stack: self.stack.clone(),
        })
    }

    /// Writes the file full, or as far as the time allows.
    fn fill(
        &mut self,
        lab: &mut Lab<'_>,
        limit_ns: Option<u64>,
        rest_ns: u64,
    ) -> Result<(), LabError> {
        lab.note(format!(
            "Writing the test file: {} of random data in {}.",
            format_size(self.size_bytes),
            self.path.parent().unwrap_or(Path::new(".")).display()
        ));
        let direct = OpenMode { write: true, direct: true, ..OpenMode::default() };
        let target = match self.open(direct) {
            Err(LabError::Target { class: ErrorClass::Missing, .. }) => {
                self.open(OpenMode { direct: false, ..direct })?
            }
            other => other?,
        };
        let started_ns = clock::monotonic_ns();
        let laid = lay_out(lab, &target, &self.path, self.size_bytes, limit_ns, rest_ns)?;
        self.size_bytes = laid.size_bytes;
        let took_ns = clock::monotonic_ns() - started_ns;
        let rate = laid.size_bytes as f64 / (took_ns.max(1) as f64 / 1e9);
        self.probe_direct()?;
        lab.note(format!(
            "Written: {} in {}, {}.",
            format_size(laid.size_bytes),
            fathom_base::units::format_ns(took_ns),
            fathom_base::units::format_rate(rate)
        ));
        Ok(())
    }

    /// Finds out whether direct writes to a file of ours bypass the page cache, by what they dirty.
    ///
    /// The counter is the whole machine's, so that others can add to it but not take away: of several short tries the
    /// least counts.
    fn probe_direct(&mut self) -> Result<(), LabError> {
        const TRIES: usize = 4;
        const PIECE_BYTES: usize = 4 << 20;
        let buffers_below =
            |n: &Node| n.loop_device.as_ref().is_some_and(|l| l.direct_io != Some(true));
        if self.stack.walk().into_iter().any(buffers_below) {
            // What a loop device below dirties cannot be told from what the filesystem does.
            return Ok(());
        }
        let mode = OpenMode { write: true, direct: true, ..OpenMode::default() };
        let target = match self.open(mode) {
            Err(LabError::Target { class: ErrorClass::Missing, .. }) => return Ok(()),
            other => other?,
        };
        // Each try has a place of its own: ext4 with data=journal counts a page only once until it is written back.
        let size = PIECE_BYTES.min((self.size_bytes as usize / TRIES) >> 16 << 16);
        let Some(file) = target.file().filter(|_| size >= 256 << 10) else { return Ok(()) };
        let failed = |source| LabError::TargetIo {
            path: self.path.clone(),
            what: "trying direct writes",
            source,
        };
        let mut arena = Arena::new(1, size).map_err(failed)?;
        Prng::new(self.size_bytes, 0xD1).fill(arena.slot_mut(0));
        let mut least = u64::MAX;
        for place in 0..TRIES {
            // Like all that fathom writes; otherwise the file would be taken for somebody's data.
            fathom_base::stamp::stamp(arena.slot_mut(0), place as u64);
            let before = counters::page_traffic(&self.root).dirtied_bytes;
            sys_io::write_at(file, arena.slot_mut(0), (place * size) as u64).map_err(failed)?;
            least =
                least.min(counters::page_traffic(&self.root).dirtied_bytes.saturating_sub(before));
        }
        self.direct_honoured = Some(least < size as u64 / 2);
        if self.fresh {
            target.truncate().map_err(failed)?;
        }
        Ok(())
    }

    /// Opens it for a job.
    ///
    /// # Errors
    /// [`LabError::Target`] with class `Missing` where the filesystem refuses direct I/O.
    pub fn open(&self, mode: OpenMode) -> Result<LoadTarget, LabError> {
        let (size, block) = (self.size_bytes, self.logical_block_bytes);
        let io_error = |e: io::Error| self.open_error(mode, e);
        let target = match (&self.holder, mode.write || self.fresh) {
            (Holder::Null, _) => LoadTarget::null(size),
            (Holder::Device(claim), true) => LoadTarget::claimed(claim, mode).map_err(io_error)?,
            (Holder::New(file), true) => {
                LoadTarget::own_file(file, size, block, mode).map_err(io_error)?
            }
            (Holder::InDir(_) | Holder::Kept, true) => LoadTarget::own_path(
                &self.root, &self.path, size, block, mode,
            )
            .map_err(|e| match e {
                FileRefusal::Io { source, .. } => self.open_error(mode, source),
                other => other.into(),
            })?,
            (_, _) => LoadTarget::read_only(&self.path, size, block, mode).map_err(io_error)?,
        };
        if self.fresh {
            target.truncate().map_err(|e| self.open_error(mode, e))?;
        }
        Ok(target)
    }

    fn open_error(&self, mode: OpenMode, error: io::Error) -> LabError {
        // EINVAL is how a filesystem says that it has no O_DIRECT.
        if mode.direct && error.raw_os_error() == Some(22) {
            let fs =
                self.stack.filesystem().map_or("this filesystem", |n| n.name.as_str()).to_owned();
            return LabError::Target {
                path: self.path.clone(),
                reason: format!(
                    "{fs} has no direct I/O (O_DIRECT refused); use direct=no, which measures through the page cache"
                ),
                class: ErrorClass::Missing,
            };
        }
        let (path, what) = (self.path.clone(), "opening");
        LabError::TargetIo { path, what, source: error }
    }

    /// Drops what the page cache holds of it, so that buffered reads reach the device.
    ///
    /// # Errors
    /// [`LabError::TargetIo`].
    pub fn drop_cached_pages(&self) -> Result<(), LabError> {
        if matches!(self.holder, Holder::Null) {
            return Ok(());
        }
        let failed = |source| LabError::TargetIo {
            path: self.path.clone(),
            what: "dropping its cached pages",
            source,
        };
        let file = sys_io::open_existing(&self.path, OpenMode::default()).map_err(failed)?;
        sys_io::drop_cached_pages(&file).map_err(failed)
    }

    /// What is known about it before a trial: the state of the stack.
    #[must_use]
    pub fn findings(&self, lab: &Lab<'_>) -> Vec<Finding> {
        if matches!(self.holder, Holder::Null) {
            return Vec::new();
        }
        // State changes (an array starts to check itself) between trials: look again.
        match resolve(lab, &self.path) {
            Ok(stack) => rules::judge(&stack, &lab.around),
            Err(_) => rules::judge(&self.stack, &lab.around),
        }
    }

    /// The record's part about it.
    #[must_use]
    pub fn record(&self, lab: &Lab<'_>, direct: bool) -> TargetRecord {
        let (device_cache_bytes, device_cache_reason) = rules::cache_bytes_assumed(&self.stack);
        TargetRecord {
            path: self.path_text(),
            kind: self.kind,
            size_bytes: self.size_bytes,
            direct,
            direct_honoured: self.direct_honoured,
            extents: self.extents(),
            device_cache_bytes,
            device_cache_reason,
            memory_bytes: lab.cache_memory_bytes(),
            stack: self.stack.clone(),
        }
    }

    /// Where its data lies; none for devices.
    fn extents(&self) -> Option<FileExtents> {
        if !matches!(self.kind, TargetKind::OwnFile | TargetKind::ForeignFile) {
            return None;
        }
        let file = File::open(&self.path).ok()?;
        fathom_inspect::extents(&file, Some(&self.stack)).ok()
    }

    /// Leaves it for later runs instead of removing it.
    ///
    /// # Errors
    /// [`LabError::FileRefused`] when that cannot be noted.
    pub fn keep(self) -> Result<Option<PathBuf>, LabError> {
        Ok(match self.holder {
            Holder::New(file) => Some(file.keep()?),
            Holder::InDir(dir) => dir.take().map(OwnedDir::keep).transpose()?,
            _ => None,
        })
    }

    /// Removes what was made for it.
    ///
    /// # Errors
    /// [`LabError::FileRefused`] when something cannot be removed; the next start tries again.
    pub fn remove(self) -> Result<(), LabError> {
        match self.holder {
            Holder::New(file) => file.remove()?,
            Holder::InDir(dir) => {
                if let Some(dir) = dir.take() {
                    dir.remove()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As given or made.
    #[must_use]
    pub fn path_text(&self) -> String {
        self.path.display().to_string()
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> TargetKind {
        self.kind
    }

    /// The layers below.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// True when a filesystem on it is mounted.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.stack.top_block_devices().iter().any(|n| !n.mounted_at.is_empty())
    }
}
