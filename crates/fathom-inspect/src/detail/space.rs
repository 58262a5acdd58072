//! The space of filesystems whose drivers have to read for the answer: FAT counts its whole table, once after each mount, and
//! UDF its bitmap where nobody has noted the sum.

use super::bytes::Bytes;
use fathom_sys::blkdev;
use fathom_sys::sysfs_block::BlockDir;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What is read of a FAT to learn how long its table is: a page, of which the first sector is parsed.
const FAT_HEAD_BYTES: u64 = 4096;
/// The smallest clusters of FAT, and the bytes of an entry in the table for each.
const FAT_CLUSTER_BYTES: u64 = 512;
const FAT_ENTRY_BYTES: u64 = 4;
/// Blocks of UDF, of which each has a bit.
const UDF_BLOCK_BYTES: u64 = 2048;

/// True for types that must not be asked before it is known that their device is awake.
pub(crate) fn is_read_for(fs_type: &str) -> bool {
    ["vfat", "msdos", "udf"].contains(&fs_type)
}

/// The most that a driver reads of a device when it is asked for the space.
pub(crate) fn bytes_to_read(fs_type: &str, device: &BlockDir) -> u64 {
    let size = device.size_bytes().unwrap_or(u64::MAX);
    if fs_type == "udf" {
        return size / (UDF_BLOCK_BYTES * 8);
    }
    let mut sector = [0; 512];
    let opened = blkdev::open_to_look(Path::new(&device.dev_path()), false);
    let read = opened.and_then(|file| file.read_exact_at(&mut sector, 0)).ok();
    let told = read.and_then(|()| table_bytes(&sector));
    // Who may not read the device knows at least how long the table cannot be.
    told.map_or(size / FAT_CLUSTER_BYTES * FAT_ENTRY_BYTES, |bytes| bytes + FAT_HEAD_BYTES)
}

/// The length of the table, from the first sector (Microsoft, FAT specification 1.03).
fn table_bytes(sector: &[u8]) -> Option<u64> {
    let bytes = Bytes(sector);
    let sector_bytes = bytes.le16(11).filter(|bytes| (512..=4096).contains(bytes))?;
    let sectors = bytes.le16(22).filter(|&sectors| sectors > 0).or_else(|| bytes.le32(36))?;
    (bytes.le16(510) == Some(0xaa55) && sectors > 0).then(|| sector_bytes * sectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_fat() {
        let told = |sector_bytes: u16, short: u16, long: u32| {
            let mut sector = [0u8; 512];
            sector[11..13].copy_from_slice(&sector_bytes.to_le_bytes());
            sector[22..24].copy_from_slice(&short.to_le_bytes());
            sector[36..40].copy_from_slice(&long.to_le_bytes());
            sector[510..].copy_from_slice(&[0x55, 0xaa]);
            table_bytes(&sector)
        };
        assert_eq!(told(512, 250, 99), Some(128_000), "FAT16");
        assert_eq!(told(4096, 0, 2048), Some(8 << 20), "FAT32");
        assert_eq!((told(0, 250, 0), told(512, 0, 0)), (None, None));
        assert_eq!((table_bytes(&[0; 512]), table_bytes(&[])), (None, None));
    }
}
