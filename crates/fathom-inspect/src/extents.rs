//! Where a file lies on its device.

use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_model::stack::{NodeKind, Stack};
use fathom_sys::fiemap::{self, Extent};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Filesystems whose extents are addresses of their own, mapped to devices once more.
const LOGICAL: [&str; 3] = ["btrfs", "bcachefs", "zfs"];

/// Finds out where the file lies, after what is dirty was written back; in bounded memory however
/// many extents it has.
///
/// With the file's stack, positions become a share of the device. Filesystems without a map (tmpfs,
/// NFS) tell only which parts hold data. The file's offset may be moved.
///
/// # Errors
/// Those of stat and of reading the map (not of its absence).
pub fn extents(file: &File, stack: Option<&Stack>) -> io::Result<FileExtents> {
    let metadata = file.metadata()?;
    let size = metadata.len();
    let mut sum = Sum::new(size);
    let source = match fiemap::for_each_extent(file, |extent| sum.add(extent)) {
        Ok(()) => ExtentSource::Fiemap,
        Err(error) if is_unsupported(&error) => {
            sum = Sum::new(size);
            let ranges =
                fiemap::for_each_data_range(file, |start, length| sum.add_range(start, length));
            let stat_bytes = metadata.blocks() * 512;
            if ranges.is_err() || sum.is_contradicted(stat_bytes) {
                sum = Sum::new(size);
                sum.add_range(0, stat_bytes);
                ExtentSource::StatBlocks
            } else {
                ExtentSource::SeekData
            }
        }
        Err(error) => return Err(error),
    };
    let mut found = sum.finish(source);
    if let Some(stack) = stack {
        add_device(stack, &mut found);
    }
    Ok(found)
}

fn is_unsupported(error: &io::Error) -> bool {
    // EOPNOTSUPP, ENOTTY, EINVAL, ENOSYS: filesystems do not agree on how to say "no map".
    matches!(error.raw_os_error(), Some(95 | 25 | 22 | 38))
}

fn add_device(stack: &Stack, found: &mut FileExtents) {
    // An overlay hands the question on to the filesystem below it.
    let walk = stack.walk();
    let fs = walk.into_iter().find(|node| node.kind == NodeKind::FileSystem);
    let fs_type = fs.map(|fs| fs.name.as_str()).unwrap_or_default();
    found.physical_is_logical = LOGICAL.contains(&fs_type);
    let devices = stack.top_block_devices();
    let (Some(span), [device]) = (found.span_bytes(), devices.as_slice()) else { return };
    let Some(size) = device.size_bytes.filter(|&size| size > 0) else { return };
    if !found.physical_is_logical {
        found.share_of_device = Some((span as f64 / size as f64).min(1.0));
    }
}

/// Adds extents up one by one.
struct Sum {
    size: u64,
    extents: u64,
    fragments: u64,
    previous_end: Option<u64>,
    first: Option<u64>,
    last: Option<u64>,
    allocated: u64,
    unwritten: u64,
    shared: bool,
    inline: bool,
    encoded: bool,
}

impl Sum {
    fn new(size: u64) -> Self {
        Self {
            size,
            extents: 0,
            fragments: 0,
            previous_end: None,
            first: None,
            last: None,
            allocated: 0,
            unwritten: 0,
            shared: false,
            inline: false,
            encoded: false,
        }
    }

    /// True when the file is one piece of data from beginning to end, of which stat knows less: a filesystem that does not
    /// know its holes (9p, FUSE, old NFS) has the kernel call everything data. Those that count no blocks say nothing.
    fn is_contradicted(&self, stat_bytes: u64) -> bool {
        self.extents == 1 && self.allocated == self.size && (1..self.size).contains(&stat_bytes)
    }

    /// The part of a range that lies below the end of the file.
    fn inside(&self, start: u64, length: u64) -> u64 {
        start.saturating_add(length).min(self.size).saturating_sub(start)
    }

    fn add_range(&mut self, start: u64, length: u64) {
        self.extents += 1;
        self.allocated += self.inside(start, length);
    }

    fn add(&mut self, extent: Extent) {
        self.shared |= extent.is_shared();
        self.inline |= extent.is_inline();
        self.encoded |= extent.is_encoded();
        let inside = self.inside(extent.logical, extent.length);
        if inside == 0 && !extent.is_inline() {
            // Space beyond the end of the file (preallocated): no read ever gets there.
            return;
        }
        self.extents += 1;
        self.allocated += inside;
        if extent.is_unwritten() {
            self.unwritten += inside;
        }
        if extent.has_position() && extent.length > 0 {
            let end = extent.physical.saturating_add(extent.length);
            self.fragments += u64::from(self.previous_end != Some(extent.physical));
            self.previous_end = Some(end);
            self.first = Some(self.first.map_or(extent.physical, |f| f.min(extent.physical)));
            self.last = Some(self.last.map_or(end - 1, |l| l.max(end - 1)));
        }
    }

    fn finish(self, source: ExtentSource) -> FileExtents {
        let mapped = source == ExtentSource::Fiemap;
        FileExtents {
            source,
            size_bytes: self.size,
            extents: (source != ExtentSource::StatBlocks).then_some(self.extents),
            fragments: mapped.then_some(self.fragments),
            first_byte: self.first,
            last_byte: self.last,
            allocated_bytes: self.allocated,
            hole_bytes: self.size.saturating_sub(self.allocated),
            unwritten_bytes: self.unwritten,
            shared: self.shared,
            inline: self.inline,
            encoded: self.encoded,
            physical_is_logical: false,
            share_of_device: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u64, physical: u64, length: u64, flags: u32) -> Extent {
        Extent { logical, physical, length, flags }
    }

    #[test]
    fn extents_add_up() {
        let mut sum = Sum::new(10_000);
        sum.add(extent(0, 1_000_000, 4096, 0));
        sum.add(extent(4096, 1_004_096, 4096, 0x800));
        sum.add(extent(12_288, 5_000_000, 8192, 0x1));
        let found = sum.finish(ExtentSource::Fiemap);
        assert_eq!((found.extents, found.fragments), (Some(2), Some(1)));
        assert_eq!((found.first_byte, found.last_byte), (Some(1_000_000), Some(1_008_191)));
        assert_eq!(found.allocated_bytes, 8192);
        assert_eq!(found.hole_bytes, 10_000 - 8192);
        assert_eq!(found.unwritten_bytes, 4096);
        assert!(!found.fully_written());
        assert_eq!(found.span_bytes(), Some(8192));
    }

    #[test]
    fn inline_and_encoded_extents_are_told() {
        let mut sum = Sum::new(100);
        sum.add(extent(0, 0, 100, 0x200 | 0x8 | 0x2000 | 0x1));
        let found = sum.finish(ExtentSource::Fiemap);
        assert!(found.inline && found.encoded && found.shared && found.fully_written());
        assert_eq!((found.first_byte, found.fragments), (None, Some(0)));
    }

    #[test]
    fn all_data_and_fewer_blocks_contradict_each_other() {
        let contradicted = |ranges: &[(u64, u64)], stat_bytes| {
            let mut sum = Sum::new(1 << 20);
            ranges.iter().for_each(|(start, length)| sum.add_range(*start, *length));
            sum.is_contradicted(stat_bytes)
        };
        assert!(contradicted(&[(0, 1 << 20)], 4096));
        assert!(!contradicted(&[(0, 1 << 20)], 1 << 20), "all of it is there");
        assert!(!contradicted(&[(0, 1 << 20)], 0), "blocks are not counted");
        assert!(!contradicted(&[(0, 4096)], 4096), "the hole is known");
    }

    #[test]
    fn memory_files_have_no_positions() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let file =
            File::options().read(true).write(true).create_new(true).open(dir.path().join("f"));
        let file = file.unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 8192], 65_536).unwrap();
        let found = extents(&file, None).unwrap();
        assert_eq!(found.source, ExtentSource::SeekData);
        assert_eq!((found.allocated_bytes, found.hole_bytes), (8192, 65_536));
        assert_eq!((found.first_byte, found.fragments), (None, None));
    }
}
