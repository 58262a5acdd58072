//! What a file of ours holds: only what fathom wrote, or data that somebody copied into it.
//!
//! A write into an existing file keeps the file's inode and mark, so that only its bytes tell. [`holds_only_ours`]
//! explains every byte that it reads, and whatever is in doubt counts as somebody's. [`is_stamped`] is for the process
//! that wrote the file itself: a look at a few stamps, which tells a file that was replaced as a whole.

use fathom_base::provenance::Provenance;
use fathom_base::stamp::{STAMP_BYTES, STEP_BYTES, is_stamp};
use fathom_sys::fiemap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What is read at once, and the pieces of which a large file's sample consists.
const PIECE_BYTES: u64 = 4 << 20;
/// Pieces that are read: up to so many all of them, 1 GiB.
const PIECES: u64 = 256;
/// Pieces of a file that could not be explained at first, and are looked at again.
const DOUBTS_MAX: usize = 64;
/// Blocks at the start and at the end of a file whose stamps are looked at.
const EDGE_BLOCKS: u64 = 8;
/// Blocks in between whose stamps are looked at, evenly spread.
const SPREAD_BLOCKS: u64 = 512;
/// Extents of a large file with holes whose ends are looked at.
const EXTENTS_MAX: usize = 512;

/// True when every byte looked at was written by fathom, is zero, or was never written; true for an empty file. All of a
/// file of up to 1 GiB is read; of a larger one 256 pieces of 4 MiB, evenly spread, with its start and end, and the ends
/// of its extents. The file must be open for reading, without O_DIRECT.
///
/// # Errors
/// Those of reading; a file that shrinks meanwhile is not ours alone, which is no error.
pub fn holds_only_ours(file: &File) -> io::Result<bool> {
    let size_bytes = file.metadata()?.len();
    let pieces = size_bytes.div_ceil(PIECE_BYTES);
    let (mut known, mut buffer, mut doubts) = (Provenance::default(), Vec::new(), Vec::new());
    let mut explains = |known: &mut Provenance, start: u64, length: u64| {
        let Some(length) = size_bytes.checked_sub(start).map(|rest| rest.min(length)) else {
            return Ok(true);
        };
        buffer.resize(length as usize, 0);
        match file.read_exact_at(&mut buffer, start) {
            Ok(()) => Ok(known.explains(&buffer)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    };
    let ends = if pieces > PIECES { extent_ends(file) } else { Vec::new() };
    let step = STEP_BYTES as u64;
    let places = sample(pieces, PIECES).into_iter().map(|piece| (piece * PIECE_BYTES, PIECE_BYTES));
    for (start, length) in places.chain(ends.into_iter().map(|block| (block * step, step))) {
        if !explains(&mut known, start, length)? {
            if doubts.len() == DOUBTS_MAX {
                return Ok(false);
            }
            doubts.push((start, length));
        }
    }
    // What came later may have taught what these consist of.
    for (start, length) in doubts {
        let mut streams = usize::MAX;
        while !explains(&mut known, start, length)? {
            if streams == known.streams() {
                return Ok(false);
            }
            streams = known.streams();
        }
    }
    Ok(true)
}

/// True when the blocks looked at have stamps, are zero or were never written, which holds for what this process
/// itself wrote in whole sectors; true for an empty file. Somebody's bytes between the stamps are not seen.
///
/// # Errors
/// As [`holds_only_ours`].
pub fn is_stamped(file: &File) -> io::Result<bool> {
    let size_bytes = file.metadata()?.len();
    let blocks = size_bytes.div_ceil(STEP_BYTES as u64);
    let most = SPREAD_BLOCKS + 2 * EDGE_BLOCKS;
    let edges = (0..EDGE_BLOCKS).chain(blocks.saturating_sub(EDGE_BLOCKS)..blocks);
    let edges = edges.filter(|&index| index < blocks);
    for index in sample(blocks, most).into_iter().chain(edges) {
        if !is_block_stamped(file, size_bytes, index)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Numbers of at most `most` of `count` things, evenly spread, with the first and the last.
fn sample(count: u64, most: u64) -> Vec<u64> {
    if count <= most {
        return (0..count).collect();
    }
    let place = |i: u64| (u128::from(count - 1) * u128::from(i) / u128::from(most - 1)) as u64;
    (0..most).map(place).collect()
}

/// The first and the last block of each extent; none where the file system does not tell.
fn extent_ends(file: &File) -> Vec<u64> {
    let step = STEP_BYTES as u64;
    let mut ends = Vec::new();
    // A file system without extents (tmpfs) leaves it at the sample.
    let _ = fiemap::for_each_extent(file, |extent| {
        if extent.length > 0 && ends.len() < 2 * EXTENTS_MAX {
            ends.push(extent.logical / step);
            ends.push((extent.logical + extent.length - 1) / step);
        }
    });
    ends
}

fn is_block_stamped(file: &File, size_bytes: u64, index: u64) -> io::Result<bool> {
    let mut block = [0u8; STEP_BYTES];
    let start = index * STEP_BYTES as u64;
    let len = (size_bytes - start).min(STEP_BYTES as u64) as usize;
    match file.read_exact_at(&mut block[..len], start) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error),
    }
    let block = &block[..len];
    // A request that began a few bytes into the block has its first stamp there.
    let has_stamp = || (0..STAMP_BYTES).any(|into| block.get(into..).is_some_and(is_stamp));
    Ok(block.iter().all(|&byte| byte == 0) || has_stamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::content::Filler;
    use std::path::PathBuf;

    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    fn file(name: &str) -> (File, Scratch) {
        let path =
            std::env::temp_dir().join(format!("fathom-content-{name}-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        (file, Scratch(path))
    }

    /// As a run fills it.
    fn ours(blocks: usize) -> Vec<u8> {
        let mut data = vec![0; blocks * STEP_BYTES];
        for (i, piece) in data.chunks_mut(1 << 20).enumerate() {
            Filler::noise(3).fill(piece, (i as u64) << 20, i as u64 + 1);
        }
        data
    }

    #[test]
    fn what_fathom_wrote_is_known_by_its_blocks() {
        let (file, _scratch) = file("ours");
        assert!(holds_only_ours(&file).unwrap(), "empty");
        for blocks in [1, 2, 527, 528, 529, 4096] {
            file.set_len(0).unwrap();
            file.write_all_at(&ours(blocks), 0).unwrap();
            assert!(holds_only_ours(&file).unwrap(), "{blocks} blocks");
            assert!(is_stamped(&file).unwrap(), "{blocks} blocks");
        }
        file.set_len(1000 * 4096 + 512).unwrap();
        assert!(holds_only_ours(&file).unwrap(), "cut off in a block");
        file.set_len(1000 * 4096 + 10).unwrap();
        assert!(!holds_only_ours(&file).unwrap(), "cut off in a stamp: in doubt somebody's");
        file.set_len(0).unwrap();
        file.set_len(64 << 20).unwrap();
        assert!(holds_only_ours(&file).unwrap(), "never written");
        file.write_all_at(&vec![0; 5 << 20], 0).unwrap();
        assert!(holds_only_ours(&file).unwrap(), "zeros");
    }

    #[test]
    fn copied_in_data_is_somebodys() {
        let (file, _scratch) = file("copied");
        let mut texts = vec![b"x".to_vec(), b"thesis".to_vec(), vec![b't'; 16], vec![b't'; 5000]];
        // Zeros in front, as in disk images.
        texts.push([vec![0; 1024], vec![b't'; 3072]].concat());
        for text in &texts {
            file.set_len(0).unwrap();
            file.write_all_at(text, 0).unwrap();
            assert!(!holds_only_ours(&file).unwrap(), "{} bytes", text.len());
            assert!(!is_stamped(&file).unwrap(), "{} bytes", text.len());
        }
        // The first or the second half replaced, one block at either end, a few bytes appended.
        let data = ours(4096);
        let half = vec![b't'; data.len() / 2];
        for (offset, text) in [
            (0, &half[..]),
            (half.len(), &half),
            (0, b"a table of contents"),
            (4200, b"a table of contents"),
            (9 << 20, b"x"),
            (data.len() - 4096, b"a table of contents"),
            (data.len(), b"appended"),
            (data.len() + 4096, b"appended far behind"),
        ] {
            file.set_len(0).unwrap();
            file.write_all_at(&data, 0).unwrap();
            file.write_all_at(text, offset as u64).unwrap();
            assert!(!holds_only_ours(&file).unwrap(), "{} bytes at {offset}", text.len());
        }
    }

    #[test]
    fn data_between_holes_is_found() {
        let (file, _scratch) = file("sparse");
        file.set_len(8 << 30).unwrap();
        // No piece of the sample: those lie 32 MiB apart.
        file.write_all_at(&[b't'; 8192], (500 << 20) + (9 << 20)).unwrap();
        let has_extents = !extent_ends(&file).is_empty();
        assert_eq!(holds_only_ours(&file).unwrap(), !has_extents);
    }

    #[test]
    fn a_sample_covers_the_whole_file_in_order() {
        for count in [0, 1, 256, 257, 1 << 20, u64::MAX / 4096] {
            let sample = sample(count, 256);
            assert_eq!(sample.len() as u64, count.min(256));
            assert!(sample.is_sorted_by(|a, b| a < b) || count == 0, "{count}");
            assert_eq!(sample.last().copied(), count.checked_sub(1));
        }
    }
}
