//! From a path on the command line to something that can be measured: a directory gets a test file, a new path
//! becomes one, an existing file or device is read, a device is written only under a claim.

use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::layout::lay_out;
use crate::run::{default_size_bytes, wrong_kind};
use fathom_base::shell;
use fathom_base::units::{format_count, format_size};
use fathom_check::measuring;
use fathom_guard::{Claim, FileRefusal, KeptFile, OwnedDir, OwnedFile, claim_block_device};
use fathom_load::plan::plan;
use fathom_load::target::LoadTarget;
use fathom_model::extents::FileExtents;
use fathom_model::finding::Finding;
use fathom_model::record::{TargetKind, TargetRecord};
use fathom_model::stack::{Node, Stack};
use fathom_model::workload::Job;
use fathom_sys::clock;
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

mod idle;
mod probe;
mod reuse;
mod room;
mod seal;
mod there;
mod tree;

pub use idle::say_what_is_idle;
pub(crate) use reuse::over_claim;
use room::{check_blocks, check_room, check_size_limit};
pub use room::{check_room_of_application, no_space, space, space_of_writers};
pub(crate) use there::check as check_there;
use tree::TestFiles;

/// The cure for who names several targets at once.
pub const SEVERAL_TARGETS: &str = "a job has one target: for several, write a workload file with a [[job]] for each, and target = \"PATH\" in it";

/// What the jobs on one target want of it together.
#[derive(Debug, Clone, Default)]
pub struct TargetWish {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Some job writes.
    pub write: bool,
    /// Some job uses direct I/O.
    pub direct: bool,
    /// The first jobs on it start with an empty file, which grows: nothing is written before.
    pub fresh: bool,
    /// Some job starts with an empty file.
    pub emptied: bool,
    /// Size that was asked for.
    pub size_bytes: Option<u64>,
    /// Every job runs on the null engine.
    pub null: bool,
    /// What a job moves in one pass; 0 where that is not known.
    pub pass_bytes: u64,
    /// What every job needs to run at all.
    pub range_bytes_min: u64,
    /// How many files.
    pub files: u32,
    /// How many files jobs create themselves.
    pub names: u32,
}

/// What holds the target, and what gives it back when dropped.
enum Holder {
    Null,
    Foreign,
    /// A file in a directory of ours; the directory is removed with its last file.
    InDir(Rc<RefCell<Option<OwnedDir>>>),
    New(Box<RefCell<OwnedFile>>),
    /// A file that an earlier run made and kept.
    Kept(Box<KeptFile>),
    Device(Box<Claim>),
}

impl Holder {
    fn of_dir(dir: OwnedDir) -> Self {
        Self::InDir(Rc::new(RefCell::new(Some(dir))))
    }
}

/// A target that is ready to be opened by jobs.
pub struct PreparedTarget {
    root: SysRoot,
    path: PathBuf,
    holder: Holder,
    kind: TargetKind,
    size_bytes: u64,
    logical_block_bytes: u64,
    /// Jobs that want an empty file empty it.
    fresh: bool,
    /// Still to be written full.
    to_fill: bool,
    /// Jobs write pieces that are no whole sectors.
    odd_writes: bool,
    /// Direct writes bypass the page cache; none where it was not tried.
    direct_honoured: Option<bool>,
    /// Its files, where it has many.
    tree: Option<TestFiles>,
    stack: Stack,
}

/// The stack under a path.
pub fn resolve(lab: &Lab<'_>, path: &Path) -> Result<Stack, LabError> {
    resolve_at(&lab.root, path)
}

/// The same of a machine.
pub(crate) fn resolve_at(root: &SysRoot, path: &Path) -> Result<Stack, LabError> {
    let stack = fathom_inspect::resolve(root, path)?;
    let is_suspended = |n: &&Node| n.dm.as_ref().is_some_and(|dm| dm.suspended == Some(true));
    if let Some(node) = stack.block_devices().into_iter().find(is_suspended) {
        let name =
            node.dm.as_ref().and_then(|dm| dm.name.clone()).unwrap_or_else(|| node.name.clone());
        let reason = format!(
            "{} below it is suspended, so that I/O would wait for ever: dmsetup resume {}",
            node.label(),
            shell::word(&name)
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
            shell::path(path)
        )
    } else {
        "is a file; quick works on directories: give the directory that it is in".to_owned()
    };
    Err(wrong_kind(path, cure))
}

pub(crate) fn unreachable_target(path: &Path, error: &io::Error) -> LabError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound if path.starts_with("/dev") => {
            "there is no such device; lsblk lists those that exist".to_owned()
        }
        io::ErrorKind::NotFound => "does not exist; give one that does".to_owned(),
        io::ErrorKind::PermissionDenied if process::is_root() => {
            "no permission, although this is root: a container, a security module or the device itself forbids it"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => "no permission; run as its owner or as root".to_owned(),
        _ => error.to_string(),
    };
    wrong_kind(path, reason)
}

/// Checks a target and makes what is missing; [`PreparedTarget::fill_up`] then writes test files full.
///
/// # Errors
/// [`LabError`]; whatever had been made is removed again.
pub fn prepare(
    lab: &mut Lab<'_>,
    path: &Path,
    wish: &TargetWish,
) -> Result<PreparedTarget, LabError> {
    let mut target = find_or_make(lab, path, wish)?;
    if matches!(target.holder, Holder::Foreign | Holder::Kept(_)) {
        fits(&wish.jobs, path, target.size_bytes, target.logical_block_bytes)?;
    }
    target.fresh = wish.emptied
        && matches!(target.holder, Holder::InDir(_) | Holder::New(_) | Holder::Kept(_));
    target.odd_writes = wish.jobs.iter().any(|job| seal::has_odd_writes(job, target.size_bytes));
    Ok(target)
}

fn find_or_make(
    lab: &mut Lab<'_>,
    path: &Path,
    wish: &TargetWish,
) -> Result<PreparedTarget, LabError> {
    if wish.null || path.as_os_str().as_encoded_bytes().starts_with(b"null:") {
        if wish.names > 0 {
            return Err(tree::needs_directory(path, wish));
        }
        let each_bytes = wish.size_bytes.unwrap_or(1 << 40) / u64::from(wish.files.max(1));
        return Ok(PreparedTarget::null(lab, each_bytes));
    }
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return new_file(lab, path, wish);
        }
        Err(e) => return Err(unreachable_target(path, &e)),
    };
    let kind = meta.file_type();
    there::check_kind(path, kind, wish)?;
    if kind.is_dir() && wish.names > 0 {
        return tree::make_names(lab, path, wish);
    }
    if kind.is_dir() && wish.files > 1 {
        return tree::make(lab, path, wish);
    }
    if kind.is_dir() {
        let size_bytes = wish.size_bytes.unwrap_or(wished_size(lab, path, wish)?);
        let stack = resolve(lab, path)?;
        check_fit(&wish.jobs, path, size_bytes, &stack)?;
        check_size_limit(path, size_bytes)?;
        return if wish.fresh {
            own_fresh_file(lab, path, size_bytes)
        } else {
            check_blocks(path, size_bytes, logical_block(&stack))?;
            check_room(lab, path, size_bytes)?;
            let mut target = in_new_dir(lab, path, "data", size_bytes)?;
            target.to_fill = true;
            Ok(target)
        };
    }
    if kind.is_block_device() {
        return if wish.write {
            claimed(lab, path, &wish.jobs)
        } else {
            readable(lab, path, TargetKind::BlockDevice)
        };
    }
    if wish.write {
        let kept = KeptFile::open(&lab.root, path)?;
        let mut target = readable(lab, path, TargetKind::OwnFile)?;
        target.holder = Holder::Kept(Box::new(kept));
        if wish.direct {
            target.probe_direct()?;
        }
        return Ok(target);
    }
    readable(lab, path, TargetKind::ForeignFile)
}

/// A list of paths that are there, as other programs take one.
fn is_several(path: &Path) -> bool {
    let mut parts = path.to_str().unwrap_or_default().split([':', ',']);
    parts.clone().count() > 1 && parts.all(|part| Path::new(part).exists())
}

fn wished_size(lab: &Lab<'_>, path: &Path, wish: &TargetWish) -> Result<u64, LabError> {
    wished_size_at(&lab.root, path, wish, (lab.cache_memory_bytes(), lab.free_memory_bytes()))
}

/// The same of a machine with so much memory that can cache data, and so much of it free.
pub(crate) fn wished_size_at(
    root: &SysRoot,
    path: &Path,
    wish: &TargetWish,
    (memory_bytes, free_memory_bytes): (u64, u64),
) -> Result<u64, LabError> {
    let stack = resolve_at(root, path)?;
    let (cache_bytes, _) = measuring::cache_bytes_assumed(&stack);
    let is_cached = !wish.direct && wish.jobs.iter().any(Job::reads);
    let all_bytes = cache_bytes + memory_bytes;
    let has_room =
        is_cached && room::space_at(root, path, free_memory_bytes)?.usable_bytes / 2 >= all_bytes;
    let cached_bytes = if has_room { all_bytes } else { 0 };
    let size_bytes = default_size_bytes(cache_bytes, cached_bytes, wish);
    Ok(size_bytes.next_multiple_of(logical_block(&stack).max(1)))
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

/// Makes `.fathom-ID/NAME` in a directory, for direct I/O, and writes it full; `time_limit_ns` may leave it smaller.
pub fn own_file(
    lab: &mut Lab<'_>,
    directory: &Path,
    name: &str,
    size_bytes: u64,
    time_limit_ns: Option<u64>,
    rest_after_ns: u64,
) -> Result<PreparedTarget, LabError> {
    check_room(lab, directory, size_bytes)?;
    check_size_limit(directory, size_bytes)?;
    let mut target = in_new_dir(lab, directory, name, size_bytes)?;
    // Before it is written, which may take long.
    target.open_untouched(OpenMode { write: true, direct: true, ..OpenMode::default() })?;
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
    let mut dir = new_dir(lab, directory)?;
    dir.create_file(name)?;
    let (path, kind) = (dir.path().join(name), TargetKind::OwnFile);
    Ok(PreparedTarget::new(lab, path, Holder::of_dir(dir), kind, size_bytes, stack))
}

/// A directory of ours for the files of a target.
pub(crate) fn new_dir(lab: &Lab<'_>, directory: &Path) -> Result<OwnedDir, LabError> {
    // Several targets of one run in one directory (a log beside the data) need names of their own.
    let id = format!("{}{}", lab.run_id, lab.next_suffix());
    Ok(OwnedDir::create(&lab.root, directory, &id, &lab.state_dir)?)
}

/// The directory in which a path is, or is to be.
pub(crate) fn directory_above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn new_file(lab: &mut Lab<'_>, path: &Path, wish: &TargetWish) -> Result<PreparedTarget, LabError> {
    let size_bytes = there::check_new(path, wish)?;
    let parent = directory_above(path);
    let stack = resolve(lab, parent)?;
    check_fit(&wish.jobs, path, size_bytes, &stack)?;
    check_size_limit(path, size_bytes)?;
    if !wish.fresh {
        check_blocks(path, size_bytes, logical_block(&stack))?;
    }
    check_room(lab, parent, size_bytes)?;
    let file = OwnedFile::create(&lab.root, path, &lab.run_id, &lab.state_dir)?;
    let path = file.path().to_owned();
    let (holder, kind) = (Holder::New(Box::new(RefCell::new(file))), TargetKind::OwnFile);
    let mut target = PreparedTarget {
        fresh: wish.fresh,
        to_fill: !wish.fresh,
        ..PreparedTarget::new(lab, path, holder, kind, size_bytes, stack)
    };
    if wish.fresh {
        target.probe_direct()?;
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
    let (path, size_bytes) = (claim.path().to_owned(), claim.size_bytes());
    let (holder, kind) = (Holder::Device(Box::new(claim)), TargetKind::BlockDevice);
    Ok(PreparedTarget {
        logical_block_bytes,
        ..PreparedTarget::new(lab, path, holder, kind, size_bytes, stack)
    })
}

/// An existing file or device that will only be read.
fn readable(lab: &Lab<'_>, path: &Path, kind: TargetKind) -> Result<PreparedTarget, LabError> {
    let (stack, size_bytes, logical_block_bytes) = there::look(&lab.root, path, kind)?;
    Ok(PreparedTarget {
        logical_block_bytes,
        ..PreparedTarget::new(lab, path.to_owned(), Holder::Foreign, kind, size_bytes, stack)
    })
}

impl PreparedTarget {
    /// A target to which nothing more is to be done, in the blocks of its stack.
    fn new(
        lab: &Lab<'_>,
        path: PathBuf,
        holder: Holder,
        kind: TargetKind,
        size_bytes: u64,
        stack: Stack,
    ) -> Self {
        Self {
            root: lab.root.clone(),
            path,
            holder,
            kind,
            size_bytes,
            logical_block_bytes: logical_block(&stack),
            fresh: false,
            to_fill: false,
            odd_writes: false,
            direct_honoured: None,
            tree: None,
            stack,
        }
    }

    fn null(lab: &Lab<'_>, size_bytes: u64) -> Self {
        let (path, resolved_path) = ("null:".to_owned(), "null:".to_owned());
        let stack = Stack { path, resolved_path, nodes: Vec::new(), top: 0 };
        Self::new(lab, "null:".into(), Holder::Null, TargetKind::Null, size_bytes, stack)
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
            to_fill: false,
            odd_writes: false,
            tree: None,
            direct_honoured: self.direct_honoured,
            stack: self.stack.clone(),
        })
    }

    /// Writes a test file full, where that is still to be done; after `limit_ns` it ends, smaller.
    ///
    /// # Errors
    /// [`LabError`] when there is no room any more or a write fails.
    pub fn fill_up(
        &mut self,
        lab: &mut Lab<'_>,
        limit_ns: Option<u64>,
        rest_after_ns: u64,
    ) -> Result<(), LabError> {
        if !std::mem::take(&mut self.to_fill) {
            return Ok(());
        }
        // Other targets of the run may have been written meanwhile.
        let directory = self.path.parent().unwrap_or(Path::new(".")).to_owned();
        check_room(lab, &directory, self.size_bytes)?;
        self.fill(lab, limit_ns, rest_after_ns)
    }

    /// Writes the file full, or as far as the time allows.
    fn fill(
        &mut self,
        lab: &mut Lab<'_>,
        limit_ns: Option<u64>,
        rest_ns: u64,
    ) -> Result<(), LabError> {
        let what = match &self.tree {
            Some(tree) => format!("{} test files", format_count(u64::from(tree.count()))),
            None => "the test file".to_owned(),
        };
        lab.note(format!(
            "Writing {what}: {} of random data in {}.",
            format_size(self.size_bytes),
            self.path.parent().unwrap_or(Path::new(".")).display()
        ));
        // Many small files are written faster through the page cache, which is brought to the disk at the end.
        let direct = self.tree.is_none();
        let direct = OpenMode { write: true, direct, ..OpenMode::default() };
        let target = match self.open(direct, true) {
            Err(LabError::Target { class: ErrorClass::Missing, .. }) => {
                self.open(OpenMode { direct: false, ..direct }, true)?
            }
            other => other?,
        };
        let started_ns = clock::monotonic_ns();
        let laid = lay_out(lab, &target, &self.path, self.size_bytes, limit_ns, rest_ns)?;
        self.size_bytes = laid.size_bytes;
        let took_ns = clock::monotonic_ns() - started_ns;
        let rate = laid.size_bytes as f64 / (took_ns.max(1) as f64 / 1e9);
        self.probe_direct()?;
        drop(target);
        self.seal()?;
        lab.note(format!(
            "Written: {} in {}, {}.",
            format_size(laid.size_bytes),
            fathom_base::units::format_ns(took_ns),
            fathom_base::units::format_rate(rate)
        ));
        Ok(())
    }

    /// Opens it for a job; `from_empty` empties it first, where it may be.
    ///
    /// # Errors
    /// [`LabError::Target`] with class `Missing` where the filesystem refuses direct I/O.
    pub fn open(&self, mode: OpenMode, from_empty: bool) -> Result<LoadTarget, LabError> {
        let from_empty = from_empty && self.fresh;
        let size = if self.fresh && !from_empty {
            self.written_bytes().map_err(|e| self.open_error(mode, e))?
        } else {
            self.size_bytes
        };
        let target = self.open_as(mode, mode.write || from_empty, size)?;
        if from_empty {
            target.truncate().map_err(|e| self.open_error(mode, e))?;
        }
        Ok(target)
    }

    /// Opens it as it is, to find out whether a job can: with the size that it will have.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_untouched(&self, mode: OpenMode) -> Result<LoadTarget, LabError> {
        self.open_as(mode, mode.write, self.size_bytes)
    }

    fn open_as(&self, mode: OpenMode, write: bool, size: u64) -> Result<LoadTarget, LabError> {
        if write {
            self.unseal()?;
        }
        let block = self.logical_block_bytes;
        let io_error = |e: io::Error| self.open_error(mode, e);
        if let Some(tree) = &self.tree {
            return tree.open(size, block, mode).map_err(io_error);
        }
        Ok(match (&self.holder, write) {
            (Holder::Null, _) => LoadTarget::null(size),
            (Holder::Device(claim), true) => LoadTarget::claimed(claim, mode).map_err(io_error)?,
            (Holder::New(file), true) => {
                LoadTarget::own_file(&file.borrow(), size, block, mode).map_err(io_error)?
            }
            (Holder::Kept(file), true) => {
                LoadTarget::kept_file(file, size, block, mode).map_err(io_error)?
            }
            (Holder::InDir(_), true) => LoadTarget::own_path(
                &self.root, &self.path, size, block, mode,
            )
            .map_err(|e| match e {
                FileRefusal::Io { source, .. } => self.open_error(mode, source),
                other => other.into(),
            })?,
            (_, _) => LoadTarget::read_only(&self.path, size, block, mode).map_err(io_error)?,
        })
    }

    /// What a file that starts empty has grown to.
    fn written_bytes(&self) -> io::Result<u64> {
        let written = |tree: &TestFiles| tree.written_bytes();
        let one = || Ok(std::fs::metadata(&self.path)?.len());
        match self.tree.as_ref().map_or_else(one, written)? {
            0 => Err(io::Error::other("it is empty: no phase has written it")),
            bytes => Ok(bytes),
        }
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

    /// Drops what the page cache holds of it, so that buffered reads reach the device. Only of what is ours: other
    /// people's programs may live from those pages, and their cache is not a benchmark's to empty.
    ///
    /// # Errors
    /// [`LabError::TargetIo`].
    pub fn drop_cached_pages(&self) -> Result<(), LabError> {
        if matches!(self.holder, Holder::Null | Holder::Foreign) {
            return Ok(());
        }
        let failed = |source| LabError::TargetIo {
            path: self.path.clone(),
            what: "dropping its cached pages",
            source,
        };
        if let Some(tree) = &self.tree {
            return tree.drop_cached_pages().map_err(failed);
        }
        let file = sys_io::open_existing(&self.path, OpenMode::default()).map_err(failed)?;
        sys_io::drop_cached_pages(&file).map_err(failed)
    }

    /// The layers below as they are now; none when they cannot be read, as those of a device that went away.
    #[must_use]
    pub fn stack_now(&self, lab: &Lab<'_>) -> Option<Stack> {
        match self.holder {
            Holder::Null => Some(self.stack.clone()),
            _ => resolve(lab, &self.path).ok(),
        }
    }

    /// What is to be said about them.
    #[must_use]
    pub fn findings(&self, lab: &Lab<'_>, stack: &Stack) -> Vec<Finding> {
        if matches!(self.holder, Holder::Null) {
            return Vec::new();
        }
        measuring::judge(stack, &lab.around)
    }

    /// The record's part about it; `stack` as it was when the trial began.
    #[must_use]
    pub fn record(&self, lab: &Lab<'_>, stack: Stack, direct: bool) -> TargetRecord {
        let (device_cache_bytes, device_cache_reason) = measuring::cache_bytes_assumed(&stack);
        TargetRecord {
            path: self.path_text(),
            kind: self.kind,
            size_bytes: self.size_bytes,
            direct,
            direct_honoured: self.direct_honoured,
            extents: self.extents(),
            is_never_read: false,
            device_cache_bytes,
            device_cache_reason,
            memory_bytes: lab.cache_memory_bytes(),
            stack,
        }
    }

    /// Where its data lies; none for devices and for many files.
    fn extents(&self) -> Option<FileExtents> {
        let is_file = matches!(self.kind, TargetKind::OwnFile | TargetKind::ForeignFile);
        if !is_file || self.tree.is_some() {
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
            Holder::New(file) => Some(file.into_inner().keep()?),
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
            Holder::New(file) => file.into_inner().remove()?,
            Holder::InDir(dir) => {
                if let Some(dir) = dir.take() {
                    dir.remove()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// True when it is still there after the run: kept as asked, or not made by it.
    #[must_use]
    pub fn stays(&self, keep: bool) -> bool {
        keep || matches!(self.holder, Holder::Kept(_) | Holder::Device(_))
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
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
