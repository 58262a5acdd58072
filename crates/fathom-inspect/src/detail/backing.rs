//! Where the backing file of a loop device lies on the device of its filesystem.

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
/// Extents that are looked at: their records are less than 1 MiB on the device.
const EXTENTS_MAX: u64 = 16 << 10;

/// The place of the file behind a loop device; none where the filesystem does not tell it, or where the path leads to
/// another file than the device has open.
pub(crate) fn place(
    root: &SysRoot,
    device: &BlockDir,
    path: &str,
    fs_type: &str,
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
    let mut sum = Sum::new(found.size());
    fiemap::for_each_extent_now(&file, |extent| sum.add(extent)).ok()?;
    sum.finish()
}

/// Adds extents up.
struct Sum {
    size: u64,
    place: Option<BackingPlace>,
    extents: u64,
    shift_before: i64,
    end_bytes: u64,
    is_whole: bool,
}

impl Sum {
    fn new(size: u64) -> Self {
        Self { size, place: None, extents: 0, shift_before: 0, end_bytes: 0, is_whole: true }
    }

    /// Adds one, and says whether more are wanted.
    fn add(&mut self, extent: Extent) -> bool {
        self.is_whole &= extent.logical <= self.end_bytes;
        self.end_bytes = extent.logical.saturating_add(extent.length);
        self.extents += 1;
        let addresses = (i64::try_from(extent.physical), i64::try_from(extent.logical));
        let (Ok(physical), Ok(logical)) = addresses else { return false };
        if extent.has_position() {
            let shift = physical - logical;
            match &mut self.place {
                None => {
                    let (step_bytes, is_whole) = (0, false);
                    self.place =
                        Some(BackingPlace { shift_bytes: shift, step_bytes, pieces: 1, is_whole });
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
        let is_enough = self.extents >= EXTENTS_MAX && !extent.is_last();
        self.is_whole &= !is_enough;
        !is_enough
    }

    fn finish(self) -> Option<BackingPlace> {
        let is_whole = self.is_whole && self.end_bytes >= self.size;
        self.place.map(|place| BackingPlace { is_whole, ..place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(size: u64, extents: &[(u64, u64, u64)]) -> Option<BackingPlace> {
        let mut sum = Sum::new(size);
        for &(logical, physical, length) in extents {
            sum.add(Extent { logical, physical, length, flags: 0 });
        }
        sum.finish()
    }

    #[test]
    fn one_piece_has_one_shift() {
        let place = sum(8192, &[(0, 1_048_576, 4096), (4096, 1_052_672, 4096)]).unwrap();
        let of = BackingPlace { shift_bytes: 1_048_576, step_bytes: 0, pieces: 1, is_whole: true };
        assert_eq!(place, of);
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
