//! Where everything in a tree lies, how it is called, how large it is and what it holds: functions of the seed and of a
//! number, so that a tree of ten million files needs no list of them.
//!
//! Directories are numbered breadth first from 0, the tree's own; the children of one follow each other. A file is a
//! directory's number and a slot. Names end with the number of slot or child behind letters that the seed gives, so that
//! from a name alone it is told what it would have to be, and nobody else comes to have such a name by accident.

use super::{Amount, TreeSpec};
use fathom_base::prng::Prng;
use std::ops::Range;

/// Files in one directory at the most: so many bits of a stream number are the slot's.
const SLOT_BITS: u32 = 24;
/// Directories of one tree at the most.
const DIRS_MAX: u64 = 1 << 32;
/// Levels of directories at the most: a path is made of all of them.
const DEPTH_MAX: usize = 100_000;
/// Letters of a name at least.
const LETTERS_MIN: usize = 3;
/// Times that files are given lie in half a year from here, in seconds since 1970 (September 2001).
const STAMP_FIRST_S: i64 = 1_000_000_000;
const STAMP_RANGE_S: u64 = 1 << 24;

/// What a stream of random numbers is for.
#[derive(Debug, Clone, Copy)]
enum Use {
    Count = 1,
    Size,
    FileName,
    DirName,
    Stamp,
    Content,
}

/// A name, without allocating.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    bytes: [u8; 255],
    length: u8,
}

impl Name {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// As text: names of ours are.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or_default()
    }
}

/// A file of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNumber {
    /// Its directory.
    pub dir: u64,
    /// Its place there.
    pub slot: u64,
}

/// What an entry of a directory is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A file of the tree.
    File(FileNumber),
    /// A directory of the tree.
    Dir(u64),
    /// Nothing of the tree's.
    Foreign,
}

/// How large a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Extent {
    /// Directories, the tree's own among them.
    pub dirs: u64,
    /// Files.
    pub files: u64,
    /// Bytes in files.
    pub bytes: u64,
    /// Files in the last directory, which may have fewer than its share.
    pub last_files: u64,
    /// Files of each directory are so many times what the spec draws.
    pub times: u64,
}

/// A tree as computed.
#[derive(Debug, Clone)]
pub struct Layout {
    spec: TreeSpec,
    extent: Extent,
}

impl Layout {
    /// Computes how far the tree reaches. Takes time for each file: about a second for ten million.
    ///
    /// # Errors
    /// What the spec asks for and cannot be.
    pub fn new(spec: TreeSpec) -> Result<Self, String> {
        let mut layout = Self::with(
            spec,
            Extent { dirs: DIRS_MAX, files: 0, bytes: 0, last_files: 0, times: 1 },
        );
        layout.check()?;
        let most_dirs = layout.dirs_of_depth();
        loop {
            if layout.reach(most_dirs) {
                layout.check_extent()?;
                return Ok(layout);
            }
            // Too few directories are allowed: each takes more files.
            let Extent { files, bytes, times, .. } = layout.extent;
            let missing = match layout.spec.amount {
                Amount::Files(wanted) => wanted as f64 / files.max(1) as f64,
                Amount::Bytes(wanted) => wanted as f64 / bytes.max(1) as f64,
            };
            let more = (times as f64 * missing).ceil() as u64;
            let extent = &mut layout.extent;
            *extent = Extent {
                dirs: DIRS_MAX,
                files: 0,
                bytes: 0,
                last_files: 0,
                times: more.max(times + 1),
            };
            let most = layout.draw_count(0).max(1).saturating_mul(layout.extent.times);
            if most >= 1 << SLOT_BITS {
                return Err(
                    "so many files in one directory cannot be: more depth or fan_out".into()
                );
            }
        }
    }

    /// The layout of a tree whose card says how far it reaches: anybody may have written that.
    ///
    /// # Errors
    /// What no tree of fathom's can be.
    pub fn known(spec: TreeSpec, extent: Extent) -> Result<Self, String> {
        let layout = Self::with(spec, extent);
        layout.check()?;
        layout.check_extent()?;
        Ok(layout)
    }

    fn with(spec: TreeSpec, extent: Extent) -> Self {
        Self { spec, extent }
    }

    fn check_extent(&self) -> Result<(), String> {
        let Extent { dirs, files, last_files, times, .. } = self.extent;
        let is_possible = (1..=DIRS_MAX).contains(&dirs)
            && files <= dirs << SLOT_BITS
            && last_files < 1 << SLOT_BITS
            && times > 0;
        if !is_possible {
            return Err(format!("no tree has {files} files in {dirs} directories"));
        }
        let above = std::iter::successors(Some(dirs - 1), |dir| self.parent(*dir));
        if above.take(DEPTH_MAX + 2).count() > DEPTH_MAX + 1 {
            return Err(format!("more than {DEPTH_MAX} levels of directories: more fan_out"));
        }
        Ok(())
    }

    /// The same tree cut off behind so many directories.
    #[must_use]
    pub fn cut(&self, dirs: u64) -> Self {
        let mut cut = self.clone();
        if dirs < self.extent.dirs {
            cut.extent =
                Extent { dirs: DIRS_MAX, files: 0, bytes: 0, last_files: 0, ..self.extent };
            cut.extent.files = (0..dirs).map(|dir| cut.files_in(dir)).sum();
            let of_dir = |dir: u64| cut.sizes_of(dir, cut.files_in(dir));
            let bytes = (0..dirs).map(of_dir).sum();
            let last_files = cut.files_in(dirs.saturating_sub(1));
            cut.extent = Extent { dirs, bytes, last_files, ..cut.extent };
        }
        cut
    }

    fn check(&self) -> Result<(), String> {
        let TreeSpec { fan_out, amount, files_per_directory, .. } = &self.spec;
        if !(1..=100_000).contains(fan_out) {
            return Err(format!("fan_out={fan_out}: 1 to 100000 directories in a directory"));
        }
        let (Amount::Files(amount) | Amount::Bytes(amount)) = amount;
        if *amount == 0 {
            return Err("a tree of nothing: give files= or size= above 0".into());
        }
        let most = match files_per_directory {
            super::Number::Fixed(number) => *number,
            super::Number::Table(table) => table.rows().last().map_or(0, |row| row.0),
        };
        if let Some(fault) = self.spec.fault_of_tables() {
            return Err(fault);
        }
        if !(1..1 << SLOT_BITS).contains(&most) {
            return Err(format!("files_per_directory={most}: 1 to {}", (1 << SLOT_BITS) - 1));
        }
        if matches!(self.spec.amount, Amount::Bytes(_)) && self.spec.sizes.mean() < 1.0 {
            return Err("files of no size never come to a size: give files= instead".into());
        }
        Ok(())
    }

    /// Directories that the greatest depth allows.
    fn dirs_of_depth(&self) -> u64 {
        let Some(depth) = self.spec.depth else { return DIRS_MAX };
        let (mut sum, mut level) = (1u64, 1u64);
        for _ in 0..depth {
            level = level.saturating_mul(self.spec.fan_out);
            sum = sum.saturating_add(level);
            if sum >= DIRS_MAX {
                return DIRS_MAX;
            }
        }
        sum
    }

    /// Adds directories until there is enough; false when there are too few.
    fn reach(&mut self, most_dirs: u64) -> bool {
        let (mut files, mut bytes) = (0u64, 0u64);
        for dir in 0..most_dirs {
            let count = self.files_in(dir);
            let (taken, size, is_enough) = self.take(dir, count, files, bytes);
            files += taken;
            bytes = bytes.saturating_add(size);
            if is_enough {
                let times = self.extent.times;
                self.extent = Extent { dirs: dir + 1, files, bytes, last_files: taken, times };
                return true;
            }
        }
        self.extent = Extent { files, bytes, ..self.extent };
        false
    }

    /// How many files of a directory are needed, their bytes, and whether that is all.
    fn take(&self, dir: u64, count: u64, files: u64, bytes: u64) -> (u64, u64, bool) {
        match self.spec.amount {
            Amount::Files(wanted) => {
                let taken = count.min(wanted - files);
                (taken, self.sizes_of(dir, taken), files + taken == wanted)
            }
            Amount::Bytes(wanted) => {
                let mut size = 0u64;
                for slot in 0..count {
                    size = size.saturating_add(self.size(FileNumber { dir, slot }));
                    if bytes.saturating_add(size) >= wanted {
                        return (slot + 1, size, true);
                    }
                }
                (count, size, false)
            }
        }
    }

    fn sizes_of(&self, dir: u64, count: u64) -> u64 {
        (0..count).map(|slot| self.size(FileNumber { dir, slot })).sum()
    }

    /// The spec.
    #[must_use]
    pub fn spec(&self) -> &TreeSpec {
        &self.spec
    }

    /// How large it is.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    fn prng(&self, what: Use, dir: u64, slot: u64) -> Prng {
        let seed = self.spec.seed ^ (what as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Prng::new(seed, dir << SLOT_BITS | slot)
    }

    fn draw_count(&self, dir: u64) -> u64 {
        self.spec.files_per_directory.draw(&mut self.prng(Use::Count, dir, 0))
    }

    /// Files in a directory.
    #[must_use]
    pub fn files_in(&self, dir: u64) -> u64 {
        if dir + 1 == self.extent.dirs {
            return self.extent.last_files;
        }
        self.draw_count(dir).saturating_mul(self.extent.times).min((1 << SLOT_BITS) - 1)
    }

    /// Directories in a directory.
    #[must_use]
    pub fn children(&self, dir: u64) -> Range<u64> {
        let first = dir.saturating_mul(self.spec.fan_out).saturating_add(1);
        let last = first.saturating_add(self.spec.fan_out);
        first.min(self.extent.dirs)..last.min(self.extent.dirs)
    }

    /// The directory that a directory lies in; none for the tree's own.
    #[must_use]
    pub fn parent(&self, dir: u64) -> Option<u64> {
        dir.checked_sub(1).map(|before| before / self.spec.fan_out)
    }

    /// Levels above a directory.
    #[must_use]
    pub fn depth(&self, dir: u64) -> u64 {
        std::iter::successors(self.parent(dir), |dir| self.parent(*dir)).count() as u64
    }

    /// Size of a file, bytes.
    #[must_use]
    pub fn size(&self, file: FileNumber) -> u64 {
        self.spec.sizes.draw(&mut self.prng(Use::Size, file.dir, file.slot))
    }

    /// The time of change that a finished file is given, nanoseconds since 1970: nothing that writes to a file leaves it
    /// by accident, so that it proves without reading that the content is still fathom's. Even seconds, for filesystems
    /// that have no others.
    #[must_use]
    pub fn stamp_ns(&self, file: FileNumber) -> i64 {
        let mut prng = self.prng(Use::Stamp, file.dir, file.slot);
        let seconds = STAMP_FIRST_S + (prng.below(STAMP_RANGE_S / 2) * 2) as i64;
        // Never whole seconds, so that it shows where a filesystem drops the rest.
        seconds * 1_000_000_000 + 1 + prng.below(999_999_999) as i64
    }

    /// The content of a file from its beginning, to be filled into buffers whose sizes are multiples of 8.
    #[must_use]
    pub fn content(&self, file: FileNumber) -> Prng {
        self.prng(Use::Content, file.dir, file.slot)
    }

    /// Name of a file in its directory.
    #[must_use]
    pub fn file_name(&self, file: FileNumber) -> Name {
        self.name(self.prng(Use::FileName, file.dir, file.slot), b'.', file.slot)
    }

    /// Name of a directory in the one above; nothing for the tree's own.
    #[must_use]
    pub fn dir_name(&self, dir: u64) -> Name {
        match self.parent(dir) {
            None => Name { bytes: [0; 255], length: 0 },
            Some(parent) => {
                let child = dir - parent * self.spec.fan_out - 1;
                self.name(self.prng(Use::DirName, dir, 0), b'_', child)
            }
        }
    }

    /// Letters, a mark and a number.
    fn name(&self, mut prng: Prng, mark: u8, number: u64) -> Name {
        const DIGITS: usize = 20;
        let mut digits = [0u8; DIGITS];
        let mut first = DIGITS;
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let tail = DIGITS - first + 1;
        let wanted = match &self.spec.name_bytes {
            Some(table) => table.draw(&mut prng) as usize,
            None => 8 + prng.below(13) as usize,
        };
        let letters = wanted.clamp(LETTERS_MIN + tail, 255) - tail;
        let mut bytes = [0u8; 255];
        let mut random = 0u64;
        for (at, byte) in bytes[..letters].iter_mut().enumerate() {
            if at % 12 == 0 {
                random = prng.next_u64();
            }
            *byte = b'a' + (random % 26) as u8;
            random /= 26;
        }
        bytes[letters] = mark;
        bytes[letters + 1..letters + tail].copy_from_slice(&digits[first..]);
        Name { bytes, length: (letters + tail) as u8 }
    }

    /// The path of a directory, relative to the tree's own; empty for that.
    #[must_use]
    pub fn dir_path(&self, dir: u64) -> String {
        let mut above: Vec<u64> =
            std::iter::successors(Some(dir), |dir| self.parent(*dir)).collect();
        above.pop();
        let mut path = String::new();
        for dir in above.into_iter().rev() {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(self.dir_name(dir).text());
        }
        path
    }

    /// The path of a file, relative to the tree's directory.
    #[must_use]
    pub fn file_path(&self, file: FileNumber) -> String {
        let (mut path, name) = (self.dir_path(file.dir), self.file_name(file));
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name.text());
        path
    }

    /// What a name in a directory is.
    #[must_use]
    pub fn told_by_name(&self, dir: u64, name: &[u8]) -> Named {
        let Some(mark) = name.iter().rposition(|byte| !byte.is_ascii_digit()) else {
            return Named::Foreign;
        };
        let number =
            std::str::from_utf8(&name[mark + 1..]).ok().and_then(|n| n.parse::<u64>().ok());
        match (name[mark], number) {
            (b'.', Some(slot)) if slot < self.files_in(dir) => {
                let file = FileNumber { dir, slot };
                if self.file_name(file).bytes() == name {
                    Named::File(file)
                } else {
                    Named::Foreign
                }
            }
            (b'_', Some(child)) => {
                let children = self.children(dir);
                match children.start.checked_add(child).filter(|c| children.contains(c)) {
                    Some(child) if self.dir_name(child).bytes() == name => Named::Dir(child),
                    _ => Named::Foreign,
                }
            }
            _ => Named::Foreign,
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
