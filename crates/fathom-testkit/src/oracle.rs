//! Witnesses: whether a device or a directory tree is still what it was, and data that knows its place.

use crate::command::{KitError, at};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const BLOCK_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;

/// The state of a device or file, byte by byte: a 128-bit digest of every 4 KiB.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    size_bytes: u64,
    blocks: Vec<[u64; 2]>,
}

impl Snapshot {
    /// Reads all of it, from the device itself and not from the page cache where that is possible.
    ///
    /// # Errors
    /// Those of opening and reading.
    pub fn take(path: &Path) -> Result<Self, KitError> {
        let mut file = open_direct(path).map_err(at(path))?;
        let mut space = vec![0; CHUNK_BYTES + BLOCK_BYTES];
        let start = space.as_ptr().align_offset(BLOCK_BYTES);
        let chunk = &mut space[start..start + CHUNK_BYTES];
        let mut snapshot = Self { size_bytes: 0, blocks: Vec::new() };
        loop {
            let length = read_full(&mut file, chunk).map_err(at(path))?;
            snapshot.size_bytes += length as u64;
            snapshot.blocks.extend(chunk[..length].chunks(BLOCK_BYTES).map(digest));
            if length < CHUNK_BYTES {
                return Ok(snapshot);
            }
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The byte ranges, in whole blocks of 4 KiB, in which two snapshots differ; beyond the shorter one's end
    /// everything does.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Range<u64>> {
        let block_bytes = BLOCK_BYTES as u64;
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for i in 0..self.blocks.len().max(other.blocks.len()) {
            if self.blocks.get(i) == other.blocks.get(i) {
                continue;
            }
            let start = i as u64 * block_bytes;
            match ranges.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end += block_bytes,
                None => ranges.push(start..start + block_bytes),
            }
        }
        ranges
    }

    /// True when the device or file is as it was.
    #[must_use]
    pub fn is_same(&self, path: &Path) -> bool {
        Self::take(path).is_ok_and(|now| now == *self)
    }

    /// Panics with the changed ranges when the device or file is not as it was.
    #[track_caller]
    pub fn assert_same(&self, path: &Path) {
        match Self::take(path) {
            Ok(now) if now == *self => {}
            Ok(now) => {
                let (path, sizes) = (path.display(), (self.size_bytes, now.size_bytes));
                panic!("{path} changed: size {sizes:?}, byte ranges {:?}", self.differences(&now));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fold = |sum: u64, block: &[u64; 2]| (sum ^ block[0]).rotate_left(9) ^ block[1];
        let digest = self.blocks.iter().fold(0, fold);
        write!(f, "Snapshot({} bytes, {digest:016x})", self.size_bytes)
    }
}

/// Opens around the page cache; buffered where that is refused (a size that is no multiple of the block, tmpfs).
fn open_direct(path: &Path) -> std::io::Result<File> {
    let is_aligned = || -> std::io::Result<bool> {
        let size_bytes = File::open(path)?.seek(SeekFrom::End(0))?;
        Ok(size_bytes.is_multiple_of(BLOCK_BYTES as u64))
    };
    if !is_aligned()? {
        return File::open(path);
    }
    let flags = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => File::open(path),
        result => result,
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..])? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

/// Two independent multiplicative hashes over 64-bit words; the length is mixed in, so a short tail counts.
fn digest(block: &[u8]) -> [u64; 2] {
    let mut sums = [block.len() as u64 ^ 0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F];
    for bytes in block.chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        sums[0] = (sums[0] ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        sums[1] = sums[1].rotate_left(23).wrapping_add(mix(word ^ sums[0]));
    }
    sums
}

/// The finaliser of SplitMix64: every bit of the input reaches every bit of the output.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Fills a buffer with the incompressible bytes that belong at `offset_bytes` (a multiple of 8) of a pattern. Each
/// word depends on its place, so data that moved is told from data that stayed.
pub fn pattern_fill(buffer: &mut [u8], seed: u64, offset_bytes: u64) {
    for (word, number) in buffer.chunks_mut(8).zip(offset_bytes / 8..) {
        let value = mix(mix(seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_add(number));
        word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
    }
}

/// Writes the pattern over the first `size_bytes` of a file (made if missing) or device, and onto stable storage.
///
/// # Errors
/// Those of writing.
pub fn pattern_write(path: &Path, size_bytes: u64, seed: u64) -> Result<(), KitError> {
    write_blocks(path, size_bytes, |block, offset_bytes| pattern_fill(block, seed, offset_bytes))
}

/// Where a file or device first differs from the pattern; none when all of it is the pattern.
///
/// # Errors
/// Those of reading.
pub fn pattern_mismatch(path: &Path, seed: u64) -> Result<Option<u64>, KitError> {
    let mut file = File::open(path).map_err(at(path))?;
    let mut got = vec![0; CHUNK_BYTES];
    let mut expected = vec![0; CHUNK_BYTES];
    let mut offset_bytes = 0;
    loop {
        let length = read_full(&mut file, &mut got).map_err(at(path))?;
        pattern_fill(&mut expected, seed, offset_bytes);
        let differs =
            got[..length].iter().zip(&expected).position(|(got, expected)| got != expected);
        if let Some(place) = differs {
            return Ok(Some(offset_bytes + place as u64));
        }
        if length < CHUNK_BYTES {
            return Ok(None);
        }
        offset_bytes += length as u64;
    }
}

/// Writes a file or device from its start in pieces that `fill` makes from their offset, then syncs it.
pub(crate) fn write_blocks(
    path: &Path,
    size_bytes: u64,
    fill: impl Fn(&mut [u8], u64),
) -> Result<(), KitError> {
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let mut file = open.map_err(at(path))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        let length = (size_bytes - offset_bytes).min(CHUNK_BYTES as u64) as usize;
        fill(&mut chunk[..length], offset_bytes);
        file.write_all(&chunk[..length]).map_err(at(path))?;
        offset_bytes += length as u64;
    }
    file.sync_all().map_err(at(path))
}

/// What one entry of a tree was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    mode: u32,
    modified: (i64, i64),
    content: Option<Snapshot>,
}

/// The state of a directory tree: names, modes, modification times and every byte of every file. For mounted file
/// systems, whose device changes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeSnapshot {
    entries: BTreeMap<PathBuf, Entry>,
}

impl TreeSnapshot {
    /// Reads the whole tree below a directory.
    ///
    /// # Errors
    /// Those of listing and reading.
    pub fn take(dir: &Path) -> Result<Self, KitError> {
        let mut entries = BTreeMap::new();
        let mut pending = vec![dir.to_owned()];
        while let Some(dir) = pending.pop() {
            for item in fs::read_dir(&dir).map_err(at(&dir))? {
                let path = item.map_err(at(&dir))?.path();
                let meta = fs::symlink_metadata(&path).map_err(at(&path))?;
                let content = if meta.is_file() { Some(Snapshot::take(&path)?) } else { None };
                if meta.is_dir() {
                    pending.push(path.clone());
                }
                let modified = (meta.mtime(), meta.mtime_nsec());
                entries.insert(path, Entry { mode: meta.mode(), modified, content });
            }
        }
        Ok(Self { entries })
    }

    /// The paths that are in one tree only or differ.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<PathBuf> {
        let changed = |path: &&PathBuf| self.entries.get(*path) != other.entries.get(*path);
        let mut paths: Vec<PathBuf> =
            self.entries.keys().chain(other.entries.keys()).filter(changed).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Panics with the changed paths when the tree is not as it was.
    #[track_caller]
    pub fn assert_same(&self, dir: &Path) {
        match Self::take(dir) {
            Ok(now) => {
                let differences = self.differences(&now);
                assert!(differences.is_empty(), "{} changed: {differences:?}", dir.display());
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn one_changed_bit_is_found_and_placed() {
        let scratch = Scratch::new().unwrap();
        for size_bytes in [3 << 20, (1 << 20) + 5000] {
            let path = scratch.join(format!("f{size_bytes}"));
            pattern_write(&path, size_bytes, 7).unwrap();
            let before = Snapshot::take(&path).unwrap();
            assert_eq!(before.size_bytes(), size_bytes);
            before.assert_same(&path);
            let mut bytes = fs::read(&path).unwrap();
            bytes[9000] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let after = Snapshot::take(&path).unwrap();
            assert_eq!(before.differences(&after), vec![8192..12288]);
            assert_eq!(pattern_mismatch(&path, 7).unwrap(), Some(9000));
        }
    }

    #[test]
    fn a_grown_file_differs_at_its_end() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.join("f");
        pattern_write(&path, 8192, 1).unwrap();
        let before = Snapshot::take(&path).unwrap();
        pattern_write(&path, 16384, 1).unwrap();
        assert_eq!(before.differences(&Snapshot::take(&path).unwrap()), vec![8192..16384]);
    }

    #[test]
    fn the_pattern_depends_on_seed_and_place() {
        let part = |seed, offset_bytes| {
            let mut buffer = [0; 64];
            pattern_fill(&mut buffer, seed, offset_bytes);
            buffer
        };
        assert_ne!(part(1, 0), part(2, 0));
        assert_ne!(part(1, 0), part(1, 64));
        assert_eq!(part(1, 32)[..32], part(1, 0)[32..]);
    }

    #[test]
    fn a_tree_shows_new_changed_and_missing_files() {
        let scratch = Scratch::new().unwrap();
        fs::create_dir(scratch.join("d")).unwrap();
        for name in ["a", "d/b", "d/c"] {
            fs::write(scratch.join(name), "old").unwrap();
        }
        let before = TreeSnapshot::take(scratch.path()).unwrap();
        before.assert_same(scratch.path());
        fs::write(scratch.join("a"), "new").unwrap();
        fs::remove_file(scratch.join("d/b")).unwrap();
        fs::write(scratch.join("e"), "").unwrap();
        let after = TreeSnapshot::take(scratch.path()).unwrap();
        let expected = ["a", "d", "d/b", "e"].map(|name| scratch.join(name));
        assert_eq!(before.differences(&after), expected);
    }
}
