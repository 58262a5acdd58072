//! What a file of ours holds: only what fathom wrote, or data that somebody copied into it.
//!
//! A copy into an existing file keeps the file's inode and mark, so that only the blocks themselves tell. Those that
//! fathom writes carry stamps; a sample of them is looked at, and whatever is in doubt counts as somebody's.

use fathom_base::stamp::{STAMP_BYTES, STEP_BYTES, is_stamp};
use fathom_sys::fiemap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Blocks at the start and at the end of a file that are looked at.
const EDGE_BLOCKS: u64 = 8;
/// Blocks in between that are looked at, evenly spread; also the most extents of a file with holes.
const SPREAD_BLOCKS: u64 = 512;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Stamped,
    Zero,
    Foreign,
}

/// True when every block looked at was written by fathom, holds nothing but zero bytes, or was never written; true for
/// an empty file. The file must be open for reading, without O_DIRECT.
///
/// # Errors
/// Those of reading; a file that shrinks meanwhile is not ours alone, which is no error.
pub fn holds_only_ours(file: &File) -> io::Result<bool> {
    let size_bytes = file.metadata()?.len();
    let blocks = size_bytes.div_ceil(STEP_BYTES as u64);
    let mut zeros = false;
    for index in sample(blocks) {
        match look_at(file, size_bytes, index)? {
            Block::Stamped => {}
            Block::Zero => zeros = true,
            Block::Foreign => return Ok(false),
        }
    }
    if !zeros || blocks <= 2 * EDGE_BLOCKS + SPREAD_BLOCKS {
        return Ok(true);
    }
    // Data may lie between holes that the sample met.
    for index in extent_edges(file, blocks) {
        if look_at(file, size_bytes, index)? == Block::Foreign {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Numbers of the blocks to look at, in ascending order.
fn sample(blocks: u64) -> Vec<u64> {
    if blocks <= 2 * EDGE_BLOCKS + SPREAD_BLOCKS {
        return (0..blocks).collect();
    }
    let last = blocks - EDGE_BLOCKS;
    let between = last - EDGE_BLOCKS;
    let spread = (0..SPREAD_BLOCKS)
        .map(|i| EDGE_BLOCKS + (u128::from(between) * u128::from(i) / 512) as u64);
    (0..EDGE_BLOCKS).chain(spread).chain(last..blocks).collect()
}

/// The first and the last block of each extent; none where the file system does not tell.
fn extent_edges(file: &File, blocks: u64) -> Vec<u64> {
    let step = STEP_BYTES as u64;
    let mut edges = Vec::new();
    // A file system without extents (tmpfs) leaves it at the sample.
    let _ = fiemap::for_each_extent(file, |extent| {
        if extent.length > 0 && (edges.len() as u64) < 2 * SPREAD_BLOCKS {
            edges.push(extent.logical / step);
            edges.push((extent.logical + extent.length - 1) / step);
        }
    });
    edges.retain(|&index| index < blocks);
    edges
}

fn look_at(file: &File, size_bytes: u64, index: u64) -> io::Result<Block> {
    let mut block = [0u8; STEP_BYTES];
    let start = index * STEP_BYTES as u64;
    let len = (size_bytes - start).min(STEP_BYTES as u64) as usize;
    match file.read_exact_at(&mut block[..len], start) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Block::Foreign),
        Err(error) => return Err(error),
    }
    let block = &block[..len];
    Ok(if block.iter().all(|&byte| byte == 0) {
        Block::Zero
    } else if (0..STAMP_BYTES).any(|into| block.get(into..).is_some_and(is_stamp)) {
        // A request that began a few bytes into the block has its first stamp there.
        Block::Stamped
    } else {
        Block::Foreign
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::stamp::stamp;
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

    /// As a run fills it: noise with stamps.
    fn ours(blocks: usize) -> Vec<u8> {
        let mut data = vec![0xA5; blocks * STEP_BYTES];
        data.chunks_mut(1 << 20).enumerate().for_each(|(i, piece)| stamp(piece, i as u64));
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
        }
        // The first or the second half replaced, one block at either end, a few bytes appended.
        let data = ours(4096);
        let half = vec![b't'; data.len() / 2];
        for (offset, text) in [
            (0, &half[..]),
            (half.len(), &half),
            (0, b"a table of contents"),
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
        file.set_len(1 << 30).unwrap();
        // No block of the sample: those lie 2 MiB apart.
        file.write_all_at(&[b't'; 8192], (500 << 20) + (1 << 18)).unwrap();
        let has_extents = !extent_edges(&file, 1 << 18).is_empty();
        assert_eq!(holds_only_ours(&file).unwrap(), !has_extents);
    }

    #[test]
    fn a_sample_covers_the_whole_file_in_order() {
        for blocks in [0, 1, 528, 529, 1 << 20, u64::MAX / 4096] {
            let sample = sample(blocks);
            assert_eq!(sample.len() as u64, blocks.min(528));
            assert!(sample.is_sorted_by(|a, b| a < b) || blocks == 0, "{blocks}");
            assert!(sample.iter().all(|&index| index < blocks));
            assert_eq!(sample.last().copied(), blocks.checked_sub(1));
        }
    }
}
