//! The claim: proof that a block device was checked, that its owner consented, and that it is held exclusively.

use crate::protected::{self, Protected};
use crate::refusal::Refusal;
use crate::target::Target;
use crate::{backing, exports, relations};
use fathom_inspect::identity::{self, DeviceId};
use fathom_sys::blkdev;
use fathom_sys::devno::DevNo;
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::mounts;
use fathom_sys::openers::{self, Opener, Wanted};
use fathom_sys::probe::{self, Signature};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A block device that may be overwritten, held exclusively until this is dropped.
#[derive(Debug)]
pub struct Claim {
    file: File,
    held: File,
    path: PathBuf,
    devno: DevNo,
    id: DeviceId,
    size_bytes: u64,
    logical_block_size_bytes: u32,
}

/// The identifiers of devices that may be overwritten, as given with `--destroy`. Each names at most one device: an
/// identifier that several devices answer to is refused, unless they were said to be paths to one disk.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    destroy_ids: Vec<String>,
    paths: Vec<DevNo>,
}

impl Consent {
    /// Consent for these identifiers; none for an empty list.
    #[must_use]
    pub fn new(destroy_ids: Vec<String>) -> Self {
        Self { destroy_ids, paths: Vec::new() }
    }

    /// These devices were said to be paths to one disk: they may answer to one identifier.
    #[must_use]
    pub fn with_paths(self, paths: Vec<DevNo>) -> Self {
        Self { paths, ..self }
    }

    fn covers(&self, id: &DeviceId) -> bool {
        self.destroy_ids.iter().any(|text| id.is_meant_by(text))
    }

    /// The identifiers that none of these claims needed.
    #[must_use]
    pub fn beside(&self, claims: &[&Claim]) -> Vec<&str> {
        let is_used = |text: &str| claims.iter().any(|claim| claim.id.is_meant_by(text));
        self.destroy_ids.iter().map(String::as_str).filter(|text| !is_used(text)).collect()
    }
}

impl Claim {
    /// The device, open for reading and writing with the flags asked for.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Another open file of the same device for reading and writing; only `direct`, `dsync` and `sync` of the mode
    /// count. Valid also when the device's name means something else by now.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn reopen(&self, mode: OpenMode) -> io::Result<File> {
        open_held(&self.held, self.devno, mode)
    }

    /// The identifier, as given with `--destroy`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id.text
    }

    /// Path of the device node, without symbolic links.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device number.
    #[must_use]
    pub fn devno(&self) -> DevNo {
        self.devno
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The smallest unit that the device can address, in bytes.
    #[must_use]
    pub fn logical_block_size_bytes(&self) -> u32 {
        self.logical_block_size_bytes
    }
}

/// Checks a block device and takes hold of it for writing; `mode` says how to open it, always for writing.
///
/// What can be seen to use it is named first. Then it is opened exclusively, which keeps out mounts, swap, arrays and
/// volumes, and everything is checked again: nothing that those checks found can change while the claim lives.
///
/// # Errors
/// [`Refusal`] says why not; nothing has been changed then.
pub fn claim_block_device(
    root: &SysRoot,
    path: &Path,
    consent: &Consent,
    protect: &Protected,
    mode: OpenMode,
) -> Result<Claim, Refusal> {
    claim_ours(root, path, consent, protect, mode, &|_| false)
}

/// As [`claim_block_device`], for a device on which fathom itself has made something: signatures that `is_ours` recognises,
/// by a UUID that was in the journal before it was written, are no reason to refuse.
///
/// # Errors
/// [`Refusal`] says why not; nothing has been changed then.
pub fn claim_ours(
    root: &SysRoot,
    path: &Path,
    consent: &Consent,
    protect: &Protected,
    mode: OpenMode,
    is_ours: &dyn Fn(&Signature) -> bool,
) -> Result<Claim, Refusal> {
    let target = Target::resolve(root, path)?;
    check_sight(root, &target)?;
    protected::check(root, &target, protect)?;
    relations::check_unused(root, &target)?;
    let held = hold(root, &target)?;
    protected::check(root, &target, protect)?;
    relations::check_unused(root, &target)?;
    let size_bytes = check_content(&target, &held, is_ours)?;
    check_openers(root, &target)?;
    check_writable(&target, &held)?;
    exports::check(root, &target)?;
    backing::check(root, &target, protect)?;
    let id = check_consent(root, &target, consent)?;
    let cannot_open = |error| cannot_open(&target, &error);
    let file = open_held(&held, target.devno, mode).map_err(cannot_open)?;
    let logical_block_size_bytes = blkdev::logical_block_size_bytes(&held).map_err(cannot_open)?;
    let Target { path, devno, .. } = target;
    Ok(Claim { file, held, path, devno, id, size_bytes, logical_block_size_bytes })
}

/// Without sight nothing can be called unused.
fn check_sight(root: &SysRoot, target: &Target) -> Result<(), Refusal> {
    let blind = if !root.is_live() {
        "what is known of the machine was recorded elsewhere"
    } else if mounts::own_mounts(root).is_empty() {
        "no mounts can be read: is /proc mounted?"
    } else {
        return Ok(());
    };
    Err(Refusal::CannotCheck { device: target.path.clone(), what: blind.to_owned() })
}

/// How often something that others have for a moment is tried again, and how long is waited each time.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// Opens exclusively, and makes sure that this is the device that was looked at. The kernel lets go of a device only some time after
/// its last mount is gone from the list, or its holder has died: that is waited for, twice as long as for those who only look at it.
fn hold(root: &SysRoot, target: &Target) -> Result<File, Refusal> {
    let mut held = blkdev::hold(&target.path);
    for _ in 0..2 * TRIES {
        let is_busy = held.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::ResourceBusy);
        if !is_busy {
            break;
        }
        std::thread::sleep(PAUSE);
        held = blkdev::hold(&target.path);
    }
    let held = held.map_err(|error| {
        if error.kind() == io::ErrorKind::ResourceBusy {
            Refusal::Busy { device: target.path.clone(), openers: find_openers(root, target) }
        } else {
            cannot_open(target, &error)
        }
    })?;
    let meta = held.metadata().map_err(|error| cannot_open(target, &error))?;
    if DevNo::from_raw(meta.rdev()) != target.devno {
        let what = "its name came to mean another device while it was checked".to_owned();
        return Err(Refusal::CannotCheck { device: target.path.clone(), what });
    }
    Ok(held)
}

/// Opens the held device once more. This cannot be exclusive, and need not be: `held` is.
fn open_held(held: &File, devno: DevNo, mode: OpenMode) -> io::Result<File> {
    let file = open_existing(&blkdev::path_of_open(held), OpenMode { write: true, ..mode })?;
    if DevNo::from_raw(file.metadata()?.rdev()) != devno {
        return Err(io::Error::other("/proc/self/fd does not lead to the device that is held"));
    }
    Ok(file)
}

/// Refuses a device with anything recognisable on it that is not ours; gives its size.
fn check_content(
    target: &Target,
    held: &File,
    is_ours: &dyn Fn(&Signature) -> bool,
) -> Result<u64, Refusal> {
    let device = || target.path.clone();
    let cannot_check = |what: &str, error: &io::Error| Refusal::CannotCheck {
        device: target.path.clone(),
        what: format!("{what}: {error}"),
    };
    let size_bytes =
        blkdev::size_bytes(held).map_err(|e| cannot_check("its size is unknown", &e))?;
    if size_bytes == 0 {
        return Err(Refusal::NoSize { device: device() });
    }
    let mut found = probe::signatures(held, size_bytes)
        .map_err(|e| cannot_check("reading what is on it failed", &e))?;
    found.retain(|signature| !is_ours(signature));
    if !found.is_empty() {
        return Err(Refusal::Signature { device: device(), found });
    }
    let partitions = target.device.partitions();
    if !partitions.is_empty() {
        let partitions = relations::names(&partitions);
        return Err(Refusal::KernelPartitions { device: device(), partitions });
    }
    Ok(size_bytes)
}

/// Refuses a device that any process has open. A device that was just set up is often looked at for a moment, by
/// udev above all: that is waited for.
fn check_openers(root: &SysRoot, target: &Target) -> Result<(), Refusal> {
    let cannot_check = |what| Refusal::CannotCheck { device: target.path.clone(), what };
    if let Some(why) = openers::blindness(root) {
        return Err(cannot_check(format!("what other processes have open cannot be seen: {why}")));
    }
    // With all rights only a security module can hide a process, as some hide that of the machine's own agent: O_EXCL and
    // what the kernel itself holds are checked all the same.
    let mut openers = find_openers(root, target);
    for _ in 1..TRIES {
        if openers.is_empty() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
        openers = find_openers(root, target);
    }
    if openers.is_empty() {
        return Ok(());
    }
    Err(Refusal::OpenElsewhere { device: target.path.clone(), openers })
}

fn find_openers(root: &SysRoot, target: &Target) -> Vec<Opener> {
    let devices = relations::touching(&target.device).into_keys().collect();
    openers::scan(root, &Wanted::Devices(devices)).openers
}

fn check_writable(target: &Target, held: &File) -> Result<(), Refusal> {
    match blkdev::is_read_only(held) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Refusal::ReadOnly {
            device: target.path.clone(),
            why: format!("; if that may change: blockdev --setrw {}", target.path.display()),
        }),
        Err(error) => Err(cannot_open(target, &error)),
    }
}

fn check_consent(root: &SysRoot, target: &Target, consent: &Consent) -> Result<DeviceId, Refusal> {
    let id = identity::device_id(root, target.devno);
    let mut others = identity::namesakes(root, target.devno);
    if consent.paths.contains(&target.devno) {
        others.retain(|other| !consent.paths.contains(other));
    }
    if !others.is_empty() {
        let others: Vec<BlockDir> =
            others.iter().filter_map(|other| BlockDir::by_devno(root, *other)).collect();
        let others = relations::names(&others);
        return Err(Refusal::AmbiguousId { device: target.path.clone(), id: id.text, others });
    }
    if consent.covers(&id) {
        return Ok(id);
    }
    let given = if consent.destroy_ids.is_empty() {
        String::new()
    } else {
        format!("\nwhat was consented to is another device: {}", consent.destroy_ids.join(", "))
    };
    let what = target.description();
    Err(Refusal::ConsentMissing { device: target.path.clone(), what, id: id.text, given })
}

fn cannot_open(target: &Target, error: &io::Error) -> Refusal {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root, who may write to devices",
        io::ErrorKind::InvalidInput => "; it may not support direct I/O",
        _ => "",
    };
    Refusal::CannotOpen { device: target.path.clone(), error: error.to_string(), cure }
}
