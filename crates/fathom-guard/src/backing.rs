//! The file behind a loop device: exclusive opening of the device says nothing about it.

use crate::protected::{self, Protected};
use crate::refusal::Refusal;
use crate::target::Target;
use fathom_sys::devno::DevNo;
use fathom_sys::loopdev::{self, LoopDevice};
use fathom_sys::mounts;
use fathom_sys::openers::{self, Wanted};
use fathom_sys::sysroot::SysRoot;
use std::path::Path;

/// Refuses a loop device (or a partition of one) whose backing file is used by anybody else.
///
/// # Errors
/// [`Refusal::LoopOverDevice`], [`Refusal::System`], [`Refusal::SameBackingFile`], [`Refusal::ReadOnly`],
/// [`Refusal::BackingOpen`]; [`Refusal::CannotCheck`] when the file cannot be found out.
pub fn check(root: &SysRoot, target: &Target, protect: &Protected) -> Result<(), Refusal> {
    let disk = target.device.disk().and_then(|disk| disk.devno());
    let Some(device) = disk.and_then(|disk| loopdev::by_devno(root, disk)) else { return Ok(()) };
    let shown_path = device.backing_path.clone().unwrap_or_default();
    let backing = shown_path.display().to_string();
    if device.backing_device.is_some() {
        return Err(Refusal::LoopOverDevice { device: target.path.clone(), backing });
    }
    let Some(inode) = device.backing_inode else {
        let what = format!("the file behind it ({backing}) cannot be found out");
        return Err(Refusal::CannotCheck { device: target.path.clone(), what });
    };
    protected::check_file(root, target, &shown_path, protect)?;
    check_other_loops(root, target, &device, &backing)?;
    check_mount(root, target, &shown_path)?;
    check_openers(root, target, inode, backing)
}

fn check_other_loops(
    root: &SysRoot,
    target: &Target,
    device: &LoopDevice,
    backing: &str,
) -> Result<(), Refusal> {
    for other in loopdev::attached(root).iter().filter(|other| other.devno != device.devno) {
        let same_inode = other.backing_inode == device.backing_inode;
        let same_path = other.backing_inode.is_none() && other.backing_path == device.backing_path;
        if same_inode || same_path {
            return Err(Refusal::SameBackingFile {
                device: target.path.clone(),
                other: format!("/dev/{}", other.name),
                backing: backing.to_owned(),
            });
        }
    }
    Ok(())
}

/// A mount that was made read-only after the loop device was attached.
fn check_mount(root: &SysRoot, target: &Target, file: &Path) -> Result<(), Refusal> {
    let own = mounts::own_mounts(root);
    let Some(mount) = mounts::mount_of(&own, file) else { return Ok(()) };
    let is_read_only = |options: &str| options.split(',').any(|option| option == "ro");
    if is_read_only(&mount.options) || is_read_only(&mount.super_options) {
        let point = mount.mount_point.display();
        let why =
            format!(": its backing file {} lies on {point}, mounted read-only", file.display());
        return Err(Refusal::ReadOnly { device: target.path.clone(), why });
    }
    Ok(())
}

fn check_openers(
    root: &SysRoot,
    target: &Target,
    (dev, inode): (DevNo, u64),
    backing: String,
) -> Result<(), Refusal> {
    let openers = openers::scan(root, &Wanted::File(dev, inode)).openers;
    if openers.is_empty() {
        return Ok(());
    }
    Err(Refusal::BackingOpen { device: target.path.clone(), backing, openers })
}
