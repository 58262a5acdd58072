//! What lies on a block device: recognises superblocks, labels and partition tables by their published formats.
//!
//! The answer decides whether a device may be overwritten, so a doubt counts as a find. Random bytes, zeros and
//! 0xFF must find nothing: every recogniser asks for at least 32 bits of agreement. The set of formats follows what
//! `wipefs` knows, so that its `-a` is a cure, with few more.

mod boot;
mod filesystems;
mod magics;
mod old;
pub mod table;
mod volumes;

use fathom_base::order::Order;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a signature says that the device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureKind {
    /// A file system, or a part of one (journal, further device).
    Filesystem,
    /// A swap area, or the image of a suspended machine.
    Swap,
    /// A member of a software or firmware RAID.
    Raid,
    /// A part of a volume manager, cluster store or database.
    Volume,
    /// An encrypted container.
    Encrypted,
    /// A cache or the device behind one.
    Cache,
    /// A partition table.
    PartitionTable,
    /// A boot sector of a format that is not known here.
    BootSector,
}

/// One find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The family.
    pub kind: SignatureKind,
    /// The format's usual name, such as `ext4`, `LVM2 PV`, `GPT (backup only)`.
    pub name: &'static str,
    /// Where on the device the evidence is.
    pub offset_bytes: u64,
    /// The identifier inside, in its usual text form.
    pub uuid: Option<String>,
    /// The label inside; never empty.
    pub label: Option<String>,
}

const KIB: u64 = 1024;
/// Covers everything that starts near the front, and the two front labels of ZFS.
const FRONT_BYTES: u64 = 512 * KIB;
/// Covers the md 0.90 superblock, firmware RAID and the backup GPT header.
const TAIL_BYTES: u64 = 132 * KIB;
/// Single blocks further in: secondary LUKS2 headers, VMFS.
const ISLANDS_AT: [u64; 4] = [512 * KIB, 1024 * KIB, 2048 * KIB, 4096 * KIB];
const ISLAND_BYTES: u64 = 4 * KIB;

/// All signatures on the device or image behind `file`, which is `size_bytes` long; sorted by offset.
///
/// Reads less than 1 MiB.
///
/// # Errors
/// Those of reading: a device that cannot be read cannot be called blank.
pub fn signatures(file: &File, size_bytes: u64) -> io::Result<Vec<Signature>> {
    Ok(find(&Image::read(file, size_bytes)?))
}

/// The signatures that show in parts of a device of `size_bytes` that were read already, each with its offset; sorted by
/// offset. What no part covers is not found.
#[must_use]
pub fn signatures_among(size_bytes: u64, regions: Vec<(u64, Vec<u8>)>) -> Vec<Signature> {
    find(&Image { size_bytes, regions })
}

fn find(image: &Image) -> Vec<Signature> {
    let mut found = magics::find(image);
    found.extend(filesystems::find(image));
    found.extend(volumes::find(image));
    found.extend(old::find(image));
    found.extend(boot::find(image, &found));
    found.order_by_key(|signature| signature.offset_bytes);
    found.dedup();
    found
}

/// The parts of a device that recognisers look at.
pub(crate) struct Image {
    size_bytes: u64,
    regions: Vec<(u64, Vec<u8>)>,
}

impl Image {
    fn read(file: &File, size_bytes: u64) -> io::Result<Self> {
        let mut image = Self { size_bytes, regions: Vec::new() };
        image.add(file, 0, FRONT_BYTES)?;
        for at in ISLANDS_AT {
            image.add(file, at, ISLAND_BYTES)?;
        }
        for label in volumes::zfs_tail_labels(size_bytes) {
            image.add(file, label + volumes::ZFS_CONFIG_AT, KIB)?;
            image.add(file, label + volumes::ZFS_RING_AT, volumes::ZFS_RING_BYTES)?;
        }
        image.add(file, size_bytes.saturating_sub(TAIL_BYTES), TAIL_BYTES)?;
        Ok(image)
    }

    /// Reads a region, cut at the end of the device.
    fn add(&mut self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len).min(self.size_bytes);
        if offset >= end {
            return Ok(());
        }
        let mut bytes = vec![0; usize::try_from(end - offset).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, offset)?;
        self.regions.push((offset, bytes));
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The bytes at `offset`, when that part was read.
    pub(crate) fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        self.regions.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(len)?)
        })
    }

    pub(crate) fn is(&self, offset: u64, magic: &[u8]) -> bool {
        self.get(offset, magic.len()) == Some(magic)
    }

    pub(crate) fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.get(offset, N)?.try_into().ok()
    }

    pub(crate) fn u8(&self, offset: u64) -> Option<u8> {
        self.array::<1>(offset).map(|b| b[0])
    }

    pub(crate) fn le16(&self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub(crate) fn le32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub(crate) fn le64(&self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    pub(crate) fn be16(&self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_be_bytes)
    }

    pub(crate) fn be32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_be_bytes)
    }

    /// 16 bytes in the usual text form; none when they are all zero.
    pub(crate) fn uuid(&self, offset: u64) -> Option<String> {
        let bytes = self.array::<16>(offset)?;
        (bytes != [0; 16]).then(|| table::uuid_text(bytes))
    }

    /// Text up to a NUL, without trailing blanks; none when it is empty or holds control characters.
    pub(crate) fn text(&self, offset: u64, len: usize) -> Option<String> {
        let bytes = self.get(offset, len)?;
        let bytes = bytes.split(|&b| b == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.to_owned())
    }
}

impl Signature {
    pub(crate) fn new(kind: SignatureKind, name: &'static str, offset_bytes: u64) -> Self {
        Self { kind, name, offset_bytes, uuid: None, label: None }
    }

    pub(crate) fn with(mut self, uuid: Option<String>, label: Option<String>) -> Self {
        self.uuid = uuid;
        self.label = label;
        self
    }
}

#[cfg(test)]
mod tests;
