//! The extents of a file: FIEMAP, or which parts hold data where a filesystem has no map.

use rustix::fs::SeekFrom;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// One extent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the device (on btrfs: in the filesystem's own addresses).
    pub physical: u64,
    /// Bytes.
    pub length: u64,
    /// `FIEMAP_EXTENT_*` bits.
    pub flags: u32,
}

impl Extent {
    const LAST: u32 = 0x1;
    const UNKNOWN: u32 = 0x2;
    const DELALLOC: u32 = 0x4;
    const ENCODED: u32 = 0x8;
    const ENCRYPTED: u32 = 0x80;
    const INLINE: u32 = 0x200;
    const TAIL: u32 = 0x400;
    const UNWRITTEN: u32 = 0x800;
    const SHARED: u32 = 0x2000;

    /// The last one of the file.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.flags & Self::LAST != 0
    }

    /// Allocated, but reads as zeroes.
    #[must_use]
    pub fn is_unwritten(&self) -> bool {
        self.flags & Self::UNWRITTEN != 0
    }

    /// Its position on the device is meaningful.
    #[must_use]
    pub fn has_position(&self) -> bool {
        self.flags & (Self::UNKNOWN | Self::DELALLOC | Self::INLINE | Self::TAIL) == 0
    }

    /// Compressed or encrypted.
    #[must_use]
    pub fn is_encoded(&self) -> bool {
        self.flags & (Self::ENCODED | Self::ENCRYPTED) != 0
    }

    /// Among the metadata or packed with other files' tails.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.flags & (Self::INLINE | Self::TAIL) != 0
    }

    /// Belongs to other files or snapshots too.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.flags & Self::SHARED != 0
    }
}

/// Extents asked for per call: bounds the memory whatever the file.
pub const BATCH: usize = 256;
/// Write back what is dirty first, so that delayed allocation has happened.
const FIEMAP_FLAG_SYNC: u32 = 1;
/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// Calls `each` for every extent of the file in order, after what is dirty was written back.
///
/// # Errors
/// `EOPNOTSUPP` (or `ENOTTY`) when the filesystem has no map; those of reading it.
pub fn for_each_extent(file: &File, mut each: impl FnMut(Extent)) -> io::Result<()> {
    walk(file, FIEMAP_FLAG_SYNC, |extent| {
        each(extent);
        true
    })
}

/// Calls `each` for every extent of the file as it is now, in order, until it says false. Nothing is written back: what is
/// still in memory alone has no position yet.
///
/// # Errors
/// As of [`for_each_extent`].
pub fn for_each_extent_now(file: &File, each: impl FnMut(Extent) -> bool) -> io::Result<()> {
    walk(file, 0, each)
}

fn walk(file: &File, first_flags: u32, mut each: impl FnMut(Extent) -> bool) -> io::Result<()> {
    let mut start = 0;
    let mut flags = first_flags;
    loop {
        let mut map = Fiemap {
            start,
            length: u64::MAX - start,
            flags,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [RawExtent::default(); BATCH],
        };
        // SAFETY: FS_IOC_FIEMAP reads the header and writes at most `extent_count` extents behind
        // it; `map` has room for exactly that many and lives through the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let got = &map.extents[..(map.mapped_extents as usize).min(BATCH)];
        let Some(last) = got.last() else { return Ok(()) };
        for raw in got {
            let RawExtent { logical, physical, length, flags, .. } = *raw;
            if !each(Extent { logical, physical, length, flags }) {
                return Ok(());
            }
        }
        let next = last.logical.saturating_add(last.length);
        if last.flags & Extent::LAST != 0 || next <= start {
            return Ok(());
        }
        start = next;
        flags = 0;
    }
}

/// Calls `each` with start and length of every part that holds data, in order, by SEEK_DATA and
/// SEEK_HOLE.
///
/// The file's offset is moved.
///
/// # Errors
/// `EINVAL` when the filesystem cannot tell; those of seeking.
pub fn for_each_data_range(file: &File, mut each: impl FnMut(u64, u64)) -> io::Result<()> {
    let mut position = 0;
    loop {
        let data = match rustix::fs::seek(file, SeekFrom::Data(position)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        if hole <= data {
            return Ok(());
        }
        each(data, hole - data);
        position = hole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn layouts_match_the_kernel() {
        assert_eq!(size_of::<RawExtent>(), 56);
        assert_eq!(size_of::<Fiemap>(), 32 + 56 * BATCH);
    }

    #[test]
    fn holes_are_seen_by_seeking() {
        let path = std::env::temp_dir().join(format!("fathom-seek-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
        file.write_all_at(&[7; 4096], 1 << 20).unwrap();
        file.set_len(2 << 20).unwrap();
        let mut ranges = Vec::new();
        for_each_data_range(&file, |start, length| ranges.push((start, length))).unwrap();
        let data: u64 = ranges.iter().map(|r| r.1).sum();
        assert!(data < 2 << 20, "no hole was seen: {ranges:?}");
        assert!(ranges.iter().any(|&(start, length)| start <= 1 << 20 && start + length > 1 << 20));
    }
}
