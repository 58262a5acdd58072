//! Loop devices: which file, and which part of it, each one shows.

use crate::devno::DevNo;
use crate::fsinfo::open_for_questions;
use crate::sysfs_block::BlockDir;
use crate::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A loop device that has a backing file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopDevice {
    /// Kernel name, `loop0`.
    pub name: String,
    /// Its number.
    pub devno: DevNo,
    /// Path of the backing file as sysfs gives it: with ` (deleted)` at the end when it has no name any more.
    pub backing_path: Option<PathBuf>,
    /// Filesystem and inode of the backing file; none when it cannot be found out.
    pub backing_inode: Option<(DevNo, u64)>,
    /// The device number when the backing file is itself a block device.
    pub backing_device: Option<DevNo>,
    /// First byte of the file that is shown.
    pub offset_bytes: u64,
    /// Bytes that are shown; 0 is all.
    pub size_limit_bytes: u64,
    /// Attached read-only.
    pub is_read_only: bool,
}

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

const LOOP_GET_STATUS64: u32 = 0x4c05;
const LO_FLAGS_READ_ONLY: u32 = 1;

fn status(device: &File) -> io::Result<LoopInfo64> {
    let mut info = std::mem::MaybeUninit::<LoopInfo64>::zeroed();
    // SAFETY: the request writes one `struct loop_info64`, whose layout `LoopInfo64` repeats.
    let result = unsafe {
        libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64 as libc::Ioctl, info.as_mut_ptr())
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all-zero bytes are a valid value of every field, and the kernel has overwritten them.
    Ok(unsafe { info.assume_init() })
}

/// All loop devices that have a backing file, sorted by name.
#[must_use]
pub fn attached(root: &SysRoot) -> Vec<LoopDevice> {
    BlockDir::disks(root).iter().filter_map(|disk| of_disk(root, disk)).collect()
}

/// The loop device with that number; none when it is no loop device or has no backing file.
#[must_use]
pub fn by_devno(root: &SysRoot, devno: DevNo) -> Option<LoopDevice> {
    of_disk(root, &BlockDir::by_devno(root, devno)?)
}

fn of_disk(root: &SysRoot, disk: &BlockDir) -> Option<LoopDevice> {
    if !disk.has("loop") {
        return None;
    }
    let mut device = LoopDevice {
        name: disk.name().to_owned(),
        devno: disk.devno()?,
        backing_path: disk.text("loop/backing_file").map(PathBuf::from),
        backing_inode: None,
        backing_device: None,
        offset_bytes: disk.value("loop/offset").unwrap_or(0),
        size_limit_bytes: disk.value("loop/sizelimit").unwrap_or(0),
        is_read_only: disk.flag("ro").unwrap_or(false),
    };
    device.look_up_backing(root, disk);
    Some(device)
}

impl LoopDevice {
    /// Asks the device itself; where that is not possible, the file that sysfs names.
    fn look_up_backing(&mut self, root: &SysRoot, disk: &BlockDir) {
        let asked = root.is_live().then(|| open_for_questions(disk.dev_path().as_ref()).ok());
        if let Some(info) = asked.flatten().and_then(|file| status(&file).ok()) {
            self.backing_inode = Some((DevNo::from_raw(info.device), info.inode));
            self.backing_device = (info.rdevice != 0).then(|| DevNo::from_raw(info.rdevice));
            self.offset_bytes = info.offset;
            self.size_limit_bytes = info.size_limit;
            self.is_read_only |= info.flags & LO_FLAGS_READ_ONLY != 0;
        } else if let Some(path) = &self.backing_path {
            let Ok(meta) = std::fs::metadata(root.path(path)) else { return };
            self.backing_inode = Some((DevNo::from_raw(meta.dev()), meta.ino()));
            self.backing_device = (meta.rdev() != 0).then(|| DevNo::from_raw(meta.rdev()));
        }
    }

    /// The path of the backing file, when that path still leads to it.
    #[must_use]
    pub fn backing_path_verified(&self, root: &SysRoot) -> Option<PathBuf> {
        let path = self.backing_path.as_ref()?;
        let meta = std::fs::metadata(root.path(path)).ok()?;
        let is_same = self.backing_inode == Some((DevNo::from_raw(meta.dev()), meta.ino()));
        is_same.then(|| path.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_structure_has_its_size() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
    }

    #[test]
    fn a_recorded_loop_device_is_judged_by_the_recorded_file() {
        let dir = std::env::temp_dir().join(format!("fathom-loopdev-{}", std::process::id()));
        let sys = dir.join("sys/devices/virtual/block/loop3");
        std::fs::create_dir_all(sys.join("loop")).unwrap();
        std::fs::create_dir_all(dir.join("sys/block")).unwrap();
        std::os::unix::fs::symlink("../devices/virtual/block/loop3", dir.join("sys/block/loop3"))
            .unwrap();
        for (name, text) in [("dev", "7:3"), ("loop/backing_file", "/img"), ("loop/offset", "512")]
        {
            std::fs::write(sys.join(name), text).unwrap();
        }
        std::fs::write(dir.join("img"), "x").unwrap();
        let root = SysRoot::at(&dir);
        let all = attached(&root);
        let meta = std::fs::metadata(dir.join("img")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].devno.minor, all[0].offset_bytes), (3, 512));
        assert_eq!(all[0].backing_inode, Some((DevNo::from_raw(meta.dev()), meta.ino())));
    }
}
