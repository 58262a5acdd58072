//! Where the backing file of a loop device lies on the device of its filesystem.

use crate::content::Allowance;
use fathom_check::array::greatest_common_divisor;
use fathom_model::stack::BackingPlace;
use fathom_sys::fiemap::{self, Extent};
use fathom_sys::fsinfo;
use fathom_sys::loopdev;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Filesystems on one device, whose extents are told by addresses on that device.
const ON_ONE_DEVICE: [&str; 4] = ["ext2", "ext3", "ext4", "xfs"];
/// Extents that are looked at.
const EXTENTS_MAX: u64 = 16 << 10;
/// What the kernel may have to read for as many extents as it is asked for at once: their records have 12 or 16 bytes, and the
/// blocks that hold them are rarely less than a quarter full.
const BATCH_BYTES: u64 = fiemap::BATCH as u64 * 64;

/// The place of the file behind a loop device; none where the filesystem does not tell it, or where the path leads to
/// another file than the device has open.
pub(crate) fn place(
    root: &SysRoot,
    device: &BlockDir,
    path: &str,
    fs_type: &str,
    allowance: &mut Allowance,
) -> Option<BackingPlace> {
    if !ON_ONE_DEVICE.contains(&fs_type) {
        return None;
    }
    let inode = loopdev::by_devno(root, device.devno()?)?.backing_inode?;
    let file = fsinfo::open_for_questions(Path::new(path)).ok()?;
    let found = file.metadata().ok()?;
    if (fathom_sys::devno::DevNo::from_raw(found.dev()), found.ino()) != inode {
        return None;
    }
    let batches = allowance.left_bytes() / BATCH_BYTES;
    let extents_max = EXTENTS_MAX.min(batches * fiemap::BATCH as u64);
    if extents_max == 0 {
        return None;
    }
    let mut sum = Sum::new(found.size(), extents_max);
    let walked = fiemap::for_each_extent_now(&file, |extent| sum.add(extent));
    allowance.take(sum.extents.div_ceil(fiemap::BATCH as u64) * BATCH_BYTES)?;
    walked.ok()?;
    sum.finish()
}

/// What tells the file behind a loop device from all others.
pub(crate) fn inode(root: &SysRoot, device: &BlockDir) -> Option<String> {
    let (devno, inode) = loopdev::by_devno(root, device.devno()?)?.backing_inode?;
    Some(format!("{devno} {inode}"))
}

/// Adds extents up.
struct Sum {
    size: u64,
    place: Option<BackingPlace>,
    extents: u64,
    extents_max: u64,
    shift_before: i64,
    end_bytes: u64,
    is_whole: bool,
    unwritten_bytes: u64,
}

impl Sum {
    fn new(size: u64, extents_max: u64) -> Self {
        Self {
            size,
            place: None,
            extents: 0,
            extents_max,
            shift_before: 0,
            end_bytes: 0,
            is_whole: true,
            unwritten_bytes: 0,
        }
    }

    /// Adds one, and says whether more are wanted.
    fn add(&mut self, extent: Extent) -> bool {
        self.is_whole &= extent.logical <= self.end_bytes;
        self.end_bytes = extent.logical.saturating_add(extent.length);
        self.extents += 1;
        if extent.is_unwritten() {
            // Space may be reserved beyond the end of the file, where no read gets.
            self.unwritten_bytes += self.end_bytes.min(self.size).saturating_sub(extent.logical);
        }
        let addresses = (i64::try_from(extent.physical), i64::try_from(extent.logical));
        let (Ok(physical), Ok(logical)) = addresses else { return false };
        if extent.has_position() {
            let shift = physical - logical;
            match &mut self.place {
                None => {
                    let first =
                        BackingPlace { shift_bytes: shift, pieces: 1, ..BackingPlace::default() };
                    self.place = Some(first);
                }
                Some(place) => {
                    place.pieces += u64::from(shift != self.shift_before);
                    let apart = shift.abs_diff(place.shift_bytes);
                    place.step_bytes = greatest_common_divisor(place.step_bytes, apart);
                }
            }
            self.shift_before = shift;
        } else {
            self.is_whole = false;
        }
        let is_enough = self.extents >= self.extents_max && !extent.is_last();
        self.is_whole &= !is_enough;
        !is_enough
    }

    fn finish(self) -> Option<BackingPlace> {
        let is_whole = self.is_whole && self.end_bytes >= self.size;
        let unwritten_bytes = self.unwritten_bytes;
        self.place.map(|place| BackingPlace { is_whole, unwritten_bytes, ..place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(size: u64, extents: &[(u64, u64, u64)]) -> Option<BackingPlace> {
        up_to(EXTENTS_MAX, size, extents)
    }

    fn up_to(extents_max: u64, size: u64, extents: &[(u64, u64, u64)]) -> Option<BackingPlace> {
        let mut sum = Sum::new(size, extents_max);
        for &(logical, physical, length) in extents {
            if !sum.add(Extent { logical, physical, length, flags: 0 }) {
                break;
            }
        }
        sum.finish()
    }

    #[test]
    fn one_piece_has_one_shift() {
        let place = sum(8192, &[(0, 1_048_576, 4096), (4096, 1_052_672, 4096)]).unwrap();
        let of = BackingPlace {
            shift_bytes: 1_048_576,
            pieces: 1,
            is_whole: true,
            ..BackingPlace::default()
        };
        assert_eq!(place, of);
    }

    #[test]
    fn what_was_never_written_counts_up_to_the_end_of_the_file() {
        let mut sum = Sum::new(10_000, EXTENTS_MAX);
        for (logical, flags) in [(0, 0), (4096, 0x800), (8192, 0x800), (12_288, 0x800)] {
            assert!(sum.add(Extent { logical, physical: 65_536 + logical, length: 4096, flags }));
        }
        let place = sum.finish().unwrap();
        assert_eq!((place.unwritten_bytes, place.is_whole), (4096 + 10_000 - 8192, true));
    }

    #[test]
    fn of_too_many_extents_the_first_are_known() {
        let extents = [(0, 65_536, 4096), (4096, 4096, 4096), (8192, 20_480, 4096)];
        let place = up_to(2, 12_288, &extents).unwrap();
        assert_eq!((place.pieces, place.is_whole), (2, false));
    }

    #[test]
    fn pieces_differ_by_multiples_and_holes_have_no_place() {
        let place = sum(12_288, &[(0, 65_536, 4096), (4096, 4096, 4096), (8192, 20_480, 4096)]);
        let place = place.unwrap();
        assert_eq!((place.shift_bytes, place.step_bytes, place.pieces), (65_536, 4096, 3));
        assert!(place.is_whole);
        assert!(!sum(12_288, &[(0, 65_536, 4096)]).unwrap().is_whole, "a hole at the end");
        assert!(!sum(8192, &[(4096, 65_536, 4096)]).unwrap().is_whole, "a hole at the start");
        assert_eq!(sum(4096, &[]), None);
    }
}
