//! Facts about mounted filesystems: statvfs, identities and geometry by ioctl, ext4's own
//! superblock where it is readable.
//!
//! Every reader answers none when the filesystem, the kernel or the permissions do not give the
//! fact.

use crate::devno::DevNo;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Space and inodes of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Size.
    pub total_bytes: u64,
    /// Free bytes, with those reserved for root.
    pub free_bytes: u64,
    /// Free bytes for everybody.
    pub available_bytes: u64,
    /// Inodes; 0 where they are made as needed.
    pub inodes: u64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// Space and inodes of the filesystem that holds `path`.
///
/// # Errors
/// Those of statvfs: the path is missing or may not be reached.
pub fn space(path: &Path) -> io::Result<Space> {
    let stat = rustix::fs::statvfs(path)?;
    let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
    Ok(Space {
        block_bytes: stat.f_bsize,
        total_bytes: stat.f_blocks.saturating_mul(unit),
        free_bytes: stat.f_bfree.saturating_mul(unit),
        available_bytes: stat.f_bavail.saturating_mul(unit),
        inodes: stat.f_files,
        inodes_free: stat.f_ffree,
    })
}

/// Opens a file, directory or device for questions only: never waits, never becomes a controlling
/// terminal.
///
/// # Errors
/// Those of opening.
pub fn open_for_questions(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Runs an ioctl that fills `answer`; false when it fails for any reason.
fn ask<T>(file: &File, request: u32, answer: &mut T) -> bool {
    // SAFETY: each request used here encodes the size of `T` (see the constants), so the kernel
    // writes inside it.
    unsafe {
        libc::ioctl(file.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(answer)) == 0
    }
}

/// `_IOR(0x15, 0, struct fsuuid2)`, since Linux 6.9.
const FS_IOC_GETFSUUID: u32 = 0x8011_1500;
/// `_IOR(0x94, 49, char[256])`.
const FS_IOC_GETFSLABEL: u32 = 0x8100_9431;
/// `_IOR('f', 1, long)`; the kernel writes an int.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
/// `_IOR('X', 124, struct xfs_fsop_geom_v4)`: the 112 bytes that later forms extend.
const XFS_IOC_FSGEOMETRY_V4: u32 = 0x8070_587c;
/// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`.
const BTRFS_IOC_FS_INFO: u32 = 0x8400_941f;

/// `_IOR('X', 125, u32)`: ext4 (since 4.11), XFS and F2FS have it alike.
const FS_IOC_SHUTDOWN: u32 = 0x8004_587d;
/// Nothing more is written, not even the journal.
const SHUTDOWN_WITHOUT_LOG: u32 = 2;

/// Ends a mounted filesystem as a crash of the machine does: from now on nothing is written to its devices, and what was only in
/// memory is lost. Only unmounting is left to be done with it.
///
/// The open file says itself that its filesystem is the one on device `of`: what is mounted at a path may have changed since
/// somebody looked, and what lies below it then must not be ended.
///
/// # Errors
/// When it lies on another device. Those of ioctl(2): ENOTTY where the filesystem cannot, EPERM without root.
pub fn crash(file: &File, of: DevNo) -> io::Result<()> {
    let is = DevNo::from_raw(rustix::fs::fstat(file)?.st_dev);
    if is != of {
        return Err(io::Error::other(format!(
            "this is the filesystem of device {is}, not of {of}"
        )));
    }
    let mut how = SHUTDOWN_WITHOUT_LOG;
    if ask(file, FS_IOC_SHUTDOWN, &mut how) { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// UUID of the filesystem that holds the open file.
#[must_use]
pub fn uuid(file: &File) -> Option<String> {
    let mut answer = [0u8; 17];
    let known = ask(file, FS_IOC_GETFSUUID, &mut answer) && answer[0] == 16;
    known.then(|| format_uuid(&answer[1..17]))
}

/// UUID of the filesystem of that type (`xfs`) that holds the open file, also by the ways of older kernels; none for one of
/// zeros only, which is no UUID.
#[must_use]
pub fn uuid_of_type(file: &File, fs_type: &str) -> Option<String> {
    let found = uuid(file).or_else(|| match fs_type {
        "btrfs" => btrfs_uuid(file),
        "xfs" => xfs_geometry(file).map(|geometry| geometry.uuid),
        _ => None,
    });
    found.filter(|uuid| uuid.bytes().any(|b| b != b'0' && b != b'-'))
}

/// The number that statfs(2) gives the filesystem of the open file; none where it gives none (0).
#[must_use]
pub fn fsid(file: &File) -> Option<u64> {
    rustix::fs::fstatvfs(file).ok().map(|stat| stat.f_fsid).filter(|&fsid| fsid != 0)
}

/// Label of the filesystem that holds the open file; empty when it has none.
#[must_use]
pub fn label(file: &File) -> Option<String> {
    let mut answer = [0u8; 256];
    ask(file, FS_IOC_GETFSLABEL, &mut answer).then(|| text(&answer))
}

/// Flags of a single file or directory (`lsattr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeFlags {
    /// Exempt from copy-on-write, and so from checksums (btrfs).
    pub nocow: bool,
    /// Its data goes through the journal (ext4).
    pub data_journal: bool,
    /// Compressed on write.
    pub compressed: bool,
}

/// Flags of the open file.
#[must_use]
pub fn inode_flags(file: &File) -> Option<InodeFlags> {
    let mut answer = [0u32; 2];
    let known = ask(file, FS_IOC_GETFLAGS, &mut answer);
    let has = |bit: u32| answer[0] & bit != 0;
    known.then(|| InodeFlags {
        nocow: has(0x0080_0000),
        data_journal: has(0x4000),
        compressed: has(0x4),
    })
}

/// Geometry of an XFS filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XfsGeometry {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u64,
    /// Allocation groups.
    pub groups: u64,
    /// Stripe unit in bytes; 0 none.
    pub stripe_unit_bytes: u64,
    /// Stripe width in bytes; 0 none.
    pub stripe_width_bytes: u64,
    /// True when the log is inside the filesystem.
    pub internal_log: bool,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// UUID.
    pub uuid: String,
}

/// Geometry of the XFS filesystem that holds the open file.
#[must_use]
pub fn xfs_geometry(file: &File) -> Option<XfsGeometry> {
    // u64 words: the structure holds 64-bit numbers.
    let mut answer = [0u64; 14];
    if !ask(file, XFS_IOC_FSGEOMETRY_V4, &mut answer) {
        return None;
    }
    let bytes: Vec<u8> = answer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let number = |offset: usize| u64::from(native_u32(&bytes, offset));
    let block_bytes = number(0);
    Some(XfsGeometry {
        block_bytes,
        sector_bytes: number(20),
        groups: number(12),
        stripe_unit_bytes: number(80) * block_bytes,
        stripe_width_bytes: number(84) * block_bytes,
        internal_log: answer[7] != 0,
        log_bytes: number(16) * block_bytes,
        uuid: format_uuid(&bytes[64..80]),
    })
}

/// UUID of the btrfs filesystem that holds the open file, as sysfs names it.
#[must_use]
pub fn btrfs_uuid(file: &File) -> Option<String> {
    let mut answer = [0u64; 128];
    let known = ask(file, BTRFS_IOC_FS_INFO, &mut answer);
    let bytes: Vec<u8> = answer[2..4].iter().flat_map(|word| word.to_ne_bytes()).collect();
    known.then(|| format_uuid(&bytes))
}

/// What the superblock of an ext2, ext3 or ext4 filesystem says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtSuperblock {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Block groups.
    pub groups: u64,
    /// Groups whose inode tables the kernel still has to zero: 0 where group descriptors have no checksums, without which mkfs zeroes them
    /// all; none where they could not be read.
    pub groups_uninitialised: Option<u64>,
    /// Stripe unit in bytes; 0 none.
    pub stride_bytes: u64,
    /// Stripe width in bytes; 0 none.
    pub stripe_width_bytes: u64,
    /// When it was made, seconds since 1970.
    pub made_at_unix_s: i64,
    /// Whether it has a journal.
    pub journal: bool,
    /// Whether that lies on another device.
    pub journal_elsewhere: bool,
    /// Size of a journal inside, in bytes; none where the superblock has no copy of its inode.
    pub journal_bytes: Option<u64>,
    /// UUID.
    pub uuid: String,
    /// Label.
    pub label: String,
}

/// Of the compatible features: it has a journal.
pub const EXT_JOURNAL: u32 = 0x4;
const EXT_MAGIC: u16 = 0xef53;
/// Of the compatible features: group descriptors have checksums, by `uninit_bg` or `metadata_csum`.
const EXT_CHECKSUMS: u32 = 0x410;
/// Group descriptors of 16 TiB of 4 KiB blocks.
pub const EXT_DESCRIPTOR_BYTES_MAX: u64 = 8 << 20;

fn ext_bytes(device: &File) -> io::Result<[u8; 1024]> {
    let mut sb = [0u8; 1024];
    device.read_exact_at(&mut sb, 1024)?;
    if little_u16(&sb, 0x38) != EXT_MAGIC || little_u32(&sb, 0x18) > 6 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no ext superblock"));
    }
    Ok(sb)
}

/// Reads the superblock of an ext2, ext3 or ext4 filesystem from its device, and the flags of the
/// block groups where their descriptors are not longer than `descriptor_bytes_max`.
///
/// # Errors
/// `InvalidData` when it is none of these; those of reading.
pub fn ext_superblock(device: &File, descriptor_bytes_max: u64) -> io::Result<ExtSuperblock> {
    let sb = ext_bytes(device)?;
    let block_bytes = 1024u64 << little_u32(&sb, 0x18);
    let sixty_four = little_u32(&sb, 0x60) & 0x80 != 0;
    let high = if sixty_four { u64::from(little_u32(&sb, 0x150)) << 32 } else { 0 };
    let blocks =
        (u64::from(little_u32(&sb, 0x4)) | high).saturating_sub(u64::from(little_u32(&sb, 0x14)));
    let groups = blocks.div_ceil(u64::from(little_u32(&sb, 0x20)).max(1));
    let can_be_lazy = little_u32(&sb, 0x64) & EXT_CHECKSUMS != 0;
    let descriptors = Descriptors::of(&sb, block_bytes, groups);
    let descriptors = descriptors.filter(|d| d.bytes() <= descriptor_bytes_max);
    Ok(ExtSuperblock {
        block_bytes,
        groups,
        groups_uninitialised: match can_be_lazy {
            true => descriptors.and_then(|d| d.uninitialised(device)),
            false => Some(0),
        },
        stride_bytes: u64::from(little_u16(&sb, 0x164)) * block_bytes,
        stripe_width_bytes: u64::from(little_u32(&sb, 0x170)) * block_bytes,
        made_at_unix_s: i64::from(little_u32(&sb, 0x108)),
        journal: little_u32(&sb, 0x5c) & EXT_JOURNAL != 0,
        // No inode has it, but a device is named.
        journal_elsewhere: little_u32(&sb, 0xe0) == 0 && little_u32(&sb, 0xe4) != 0,
        journal_bytes: ext_journal_bytes(&sb),
        uuid: format_uuid(&sb[0x68..0x78]),
        label: text(&sb[0x78..0x88]),
    })
}

/// The compatible, incompatible and read-only compatible features of an ext filesystem, without those that mark that it is mounted and
/// what it has to clean up.
///
/// # Errors
/// As [`ext_superblock`].
pub fn ext_features(device: &File) -> io::Result<[u32; 3]> {
    const RECOVER: u32 = 0x4;
    const ORPHANS: u32 = 0x1_0000;
    let sb = ext_bytes(device)?;
    let [compatible, incompatible, read_only] = [0x5c, 0x60, 0x64].map(|at| little_u32(&sb, at));
    Ok([compatible, incompatible & !RECOVER, read_only & !ORPHANS])
}

/// The size in the copy of the journal's inode that the superblock has: its higher half stands before the lower one.
fn ext_journal_bytes(sb: &[u8]) -> Option<u64> {
    let (has_journal, has_copy) = (little_u32(sb, 0x5c) & 0x4 != 0, sb[0xfd] == 1);
    let bytes = u64::from(little_u32(sb, 0x148)) << 32 | u64::from(little_u32(sb, 0x14c));
    (has_journal && has_copy && little_u32(sb, 0xe0) != 0 && bytes > 0).then_some(bytes)
}

/// The table of group descriptors of an ext filesystem that says which inode tables are zeroed.
struct Descriptors {
    start_bytes: u64,
    descriptor_bytes: u64,
    groups: u64,
}

impl Descriptors {
    /// None where there is no such table in one piece.
    fn of(sb: &[u8], block_bytes: u64, groups: u64) -> Option<Self> {
        let (incompat, ro_compat) = (little_u32(sb, 0x60), little_u32(sb, 0x64));
        let (meta_bg, checksummed) = (incompat & 0x10 != 0, ro_compat & EXT_CHECKSUMS != 0);
        let size = if incompat & 0x80 != 0 { u64::from(little_u16(sb, 0xfe)) } else { 32 };
        groups.checked_mul(size)?;
        let start_bytes = (u64::from(little_u32(sb, 0x14)) + 1) * block_bytes;
        let told = !meta_bg && checksummed && size >= 32;
        told.then_some(Self { start_bytes, descriptor_bytes: size, groups })
    }

    fn bytes(&self) -> u64 {
        self.groups * self.descriptor_bytes
    }

    /// Counts the groups without the flag that says "inode table zeroed".
    fn uninitialised(&self, device: &File) -> Option<u64> {
        let mut table = vec![0; self.bytes() as usize];
        device.read_exact_at(&mut table, self.start_bytes).ok()?;
        let groups = table.chunks_exact(self.descriptor_bytes as usize);
        Some(groups.filter(|group| little_u16(group, 0x12) & 0x4 == 0).count() as u64)
    }
}

/// The usual form of a UUID.
fn format_uuid(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    out
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

fn little_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

fn little_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from(little_u16(bytes, offset)) | (u32::from(little_u16(bytes, offset + 2)) << 16)
}

fn native_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_of_the_root_adds_up() {
        let space = space(Path::new("/")).unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.free_bytes >= space.available_bytes);
        assert!(space.block_bytes >= 512 && space.total_bytes > 0, "{space:?}");
    }

    /// On a filesystem that knows no such call, so that nothing is lost where the check is.
    #[test]
    fn no_other_filesystem_than_the_one_meant_is_crashed() {
        let file = open_for_questions(Path::new("/proc/self/status")).unwrap();
        let error = crash(&file, DevNo { major: 7, minor: 999 }).unwrap_err();
        assert!(error.to_string().ends_with("not of 7:999"), "{error}");
        let own = DevNo::from_raw(rustix::fs::fstat(&file).unwrap().st_dev);
        assert_eq!(crash(&file, own).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn uuids_have_their_dashes() {
        let bytes: Vec<u8> = (0..16).collect();
        assert_eq!(format_uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    }

    #[test]
    fn a_file_without_superblock_is_none() {
        let file = open_for_questions(Path::new("/proc/self/exe")).unwrap();
        assert!(ext_superblock(&file, EXT_DESCRIPTOR_BYTES_MAX).is_err());
        assert!(xfs_geometry(&file).is_none() || uuid(&file).is_some());
    }
}
