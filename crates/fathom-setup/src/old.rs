//! Data of old: what devices held before shows again on an array or a volume that is made of them in the same way. It is wiped under
//! a claim; until then, after a crash, it must be told from what somebody has put there since.

use crate::known;
use fathom_base::order::Order;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{blkdev, diskstats};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// A piece that is compared as a whole.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// What is wiped at each end before anything else.
const END_BYTES: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;

/// Where something is recognised in the partitions that the kernel shows on a device, in bytes of the device, with what it is.
pub(crate) fn in_partitions(device: &BlockDir) -> Vec<(u64, &'static str)> {
    let mut places = Vec::new();
    for partition in device.partitions() {
        let start = partition.value::<u64>("start").unwrap_or(0) * SECTOR_BYTES;
        let found = known::signatures(partition.dev_path().as_ref()).unwrap_or_default();
        places
            .extend(found.iter().map(|signature| (start + signature.offset_bytes, signature.name)));
    }
    places
}

/// All blocks at both ends, and those at these places, each with its place and its checksum; blocks of zeros are left out.
pub(crate) fn blocks(
    file: &File,
    size_bytes: u64,
    places: impl Iterator<Item = u64>,
) -> io::Result<Vec<(u64, u32)>> {
    let end = END_BYTES.min(size_bytes) / BLOCK_BYTES;
    let last = size_bytes.div_ceil(BLOCK_BYTES);
    let mut wanted: Vec<u64> = (0..end).chain(last - end..last).collect();
    wanted.extend(places.map(|at| at / BLOCK_BYTES));
    wanted.order();
    wanted.dedup();
    let mut blocks = Vec::new();
    for number in wanted {
        let block = (number * BLOCK_BYTES, block_at(file, number * BLOCK_BYTES)?);
        blocks.extend(block.1.map(|sum| (block.0, sum)));
    }
    Ok(blocks)
}

/// The checksum of a block; none for zeros. Behind the end of the device there are none.
fn block_at(file: &File, at: u64) -> io::Result<Option<u32>> {
    let mut bytes = [0; BLOCK_BYTES as usize];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], at + done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    Ok(bytes.iter().any(|byte| *byte != 0).then(|| crc32c::crc32c(&bytes)))
}

/// True when a block that was noted lies at each of these places of the device still.
pub(crate) fn are_noted(device: &BlockDir, places: &[u64], noted: &[(u64, u32)]) -> bool {
    let Ok(file) = blkdev::open_to_look(device.dev_path().as_ref(), false) else { return false };
    places.iter().all(|at| {
        let at = at / BLOCK_BYTES * BLOCK_BYTES;
        let sum = block_at(&file, at).ok().flatten();
        sum.is_some_and(|sum| noted.contains(&(at, sum)))
    })
}

/// True when nobody can have written to the device: it is the one that was made right after `since_s` (seconds since 1970), and the
/// kernel has counted reads of it, but no write. An array that was stopped and assembled again is another one.
pub(crate) fn is_untouched(root: &SysRoot, device: &BlockDir, since_s: i64) -> bool {
    const MADE_WITHIN_S: i64 = 10;
    let made_s = fs::metadata(root.path(device.dev_path())).map(|meta| meta.mtime());
    // The kernel's clock of files lags behind by a tick.
    let is_that =
        made_s.is_ok_and(|made_s| (since_s - 1..=since_s + MADE_WITHIN_S).contains(&made_s));
    // Sectors read, which shows that the kernel counts; writes and sectors written, what is in flight, discards.
    let is_unwritten = |fields: [u64; diskstats::FIELDS]| {
        fields[2] > 0 && [4, 6, 8, 11].iter().all(|field| fields[*field] == 0)
    };
    is_that && diskstats::fields_of(root, device.name()).is_some_and(is_unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn only_what_was_just_made_and_never_written_is_untouched() {
        const READ: &str = "3 0 24 1 0 0 0 0 0 1 1 0 0 0 0 0 0";
        let judge = |stat: &str, since_s: i64| {
            let tree = Tree::new();
            tree.device("m/md200", "9:200", &[("stat", stat)]);
            tree.link("sys/block/md200", "../devices/m/md200");
            tree.put("dev/md200", "");
            let root = tree.root();
            let made_s = fs::metadata(root.path("dev/md200")).unwrap().mtime();
            is_untouched(&root, &BlockDir::by_name(&root, "md200").unwrap(), made_s + since_s)
        };
        assert!(judge(READ, 0) && judge(READ, -10));
        // Made before, or so much later that it may have been stopped and assembled again.
        assert!(!judge(READ, 2) && !judge(READ, -11));
        for written in [
            "0 0 0 0 0 0 0 0 0 1 1 0 0 0 0 0 0",
            "3 0 24 1 1 0 8 0 0 1 1 0 0 0 0 0 0",
            "3 0 24 1 0 0 0 0 1 1 1 0 0 0 0 0 0",
            "3 0 24 1 0 0 0 0 0 1 1 1 0 8 0 0 0",
        ] {
            assert!(!judge(written, 0), "{written}");
        }
    }

    #[test]
    fn blocks_at_the_ends_and_at_places_are_noted_and_zeros_are_not() {
        let file = tempfile::tempfile().unwrap();
        let size_bytes = 6 << 20;
        file.set_len(size_bytes).unwrap();
        for at in [510, 3 << 20, (5 << 20) - 1, size_bytes - 1] {
            file.write_all_at(b"x", at).unwrap();
        }
        let noted = blocks(&file, size_bytes, [(3 << 20) + 7, 2 << 20].into_iter()).unwrap();
        let places: Vec<u64> = noted.iter().map(|block| block.0).collect();
        assert_eq!(places, [0, 3 << 20, size_bytes - BLOCK_BYTES]);
    }
}
