//! Where parsers get their bytes from: a device of which only some pages are read and each once, or bytes in memory.

use fathom_sys::arena::Arena;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The most that a look ever reads from one whole device: from a disk with all its partitions, superblocks of mounted filesystems
/// and what their drivers read for their answers included.
pub const READ_BYTES_MAX: u64 = 1 << 20;

/// What may still be read of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    left_bytes: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self { left_bytes: READ_BYTES_MAX }
    }
}

impl Allowance {
    /// Bytes that are left.
    #[must_use]
    pub fn left_bytes(self) -> u64 {
        self.left_bytes
    }

    /// So many bytes.
    #[must_use]
    pub fn of(left_bytes: u64) -> Self {
        Self { left_bytes }
    }

    /// Takes so many bytes, or none of them when fewer are left.
    pub fn take(&mut self, bytes: u64) -> Option<()> {
        self.left_bytes = self.left_bytes.checked_sub(bytes)?;
        Some(())
    }
}
/// Unit of reading: covers the logical blocks of all devices.
const PAGE_BYTES: u64 = 4096;

/// Bytes of a device or of an image.
pub trait ReadAt {
    /// Size of the whole.
    fn size_bytes(&self) -> u64;

    /// `len` bytes from `offset`; none when part of them lies behind the end, cannot be read, or is more than may be
    /// read.
    fn read_at(&self, offset: u64, len: u64) -> Option<Vec<u8>>;

    /// The same for the decoders.
    fn block(&self, offset: u64, len: u64) -> Option<Block> {
        self.read_at(offset, len).map(Block)
    }
}

impl ReadAt for [u8] {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let from = usize::try_from(offset).ok()?;
        let to = from.checked_add(usize::try_from(len).ok()?)?;
        self.get(from..to).map(<[u8]>::to_vec)
    }
}

/// A device or image behind a file. Pages are read when they are asked for, each once, and in all what the allowance holds.
pub struct Device {
    file: File,
    size_bytes: u64,
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
    allowance: Cell<Allowance>,
    read_bytes: Cell<u64>,
    is_short: Cell<bool>,
    failure: RefCell<Option<io::Error>>,
}

impl Device {
    /// The first `size_bytes` of what `file` is.
    #[must_use]
    pub fn new(file: File, size_bytes: u64, allowance: Allowance) -> Self {
        let (pages, failure) = (RefCell::default(), RefCell::new(None));
        let (read_bytes, is_short) = (Cell::new(0), Cell::new(false));
        let allowance = Cell::new(allowance);
        Self { file, size_bytes, pages, allowance, read_bytes, is_short, failure }
    }

    /// Bytes that were read so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.get()
    }

    /// True when something was not read because the allowance was used up.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_short.get()
    }

    /// True when all that was read may be read once more.
    #[must_use]
    pub fn can_read_again(&self) -> bool {
        self.allowance.get().left_bytes() >= self.read_bytes()
    }

    /// Why the first read that failed did.
    #[must_use]
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Forgets all pages, so that they are read again; what was read so far still counts.
    pub fn forget(&self) {
        self.pages.borrow_mut().clear();
    }

    /// Makes sure that the pages from `first` to before `end` were read.
    fn load(&self, first: u64, end: u64) -> Option<()> {
        let mut page = first;
        while page < end {
            if self.pages.borrow().contains_key(&page) {
                page += 1;
                continue;
            }
            let missing = (page..end).take_while(|p| !self.pages.borrow().contains_key(p)).count();
            self.load_run(page, missing as u64)?;
            page += missing as u64;
        }
        Some(())
    }

    fn load_run(&self, first: u64, count: u64) -> Option<()> {
        let bytes = count * PAGE_BYTES;
        let mut allowance = self.allowance.get();
        if allowance.take(bytes).is_none() {
            self.is_short.set(true);
            return None;
        }
        self.allowance.set(allowance);
        self.read_bytes.set(self.read_bytes() + bytes);
        match read_run(&self.file, first * PAGE_BYTES, usize::try_from(bytes).ok()?) {
            Ok(read) => {
                let chunks = read.chunks(PAGE_BYTES as usize).map(<[u8]>::to_vec);
                self.pages.borrow_mut().extend((first..).zip(chunks));
                Some(())
            }
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                None
            }
        }
    }
}

/// Up to `len` bytes; fewer only at the end of the device.
fn read_run(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut arena = Arena::new(1, len)?;
    let buffer = &mut arena.slot_mut(0)[..len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // Of a device with an odd number of sectors the last page is short, and a direct read may not start there.
        if !filled.is_multiple_of(512) {
            break;
        }
    }
    Ok(buffer[..filled].to_vec())
}

impl ReadAt for Device {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.size_bytes || len > READ_BYTES_MAX {
            return None;
        }
        let (first, last) = (offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        self.load(first, last)?;
        let pages = self.pages.borrow();
        let mut out = Vec::new();
        for page in first..last {
            out.extend_from_slice(pages.get(&page)?);
            if page + 1 < last && out.len() as u64 != (page + 1 - first) * PAGE_BYTES {
                return None;
            }
        }
        let from = usize::try_from(offset - first * PAGE_BYTES).ok()?;
        out.get(from..from + usize::try_from(len).ok()?).map(<[u8]>::to_vec)
    }
}

/// A piece of a device with the numbers in it. Behind its end everything is zero, so that no field can lie out of
/// bounds, whatever a damaged superblock says.
pub struct Block(pub Vec<u8>);

impl Block {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| at.checked_add(i).and_then(|at| self.0.get(at)).map_or(0, |b| *b))
    }

    /// `len` bytes, fewer at the end.
    pub fn bytes(&self, at: usize, len: usize) -> &[u8] {
        let rest = self.0.get(at..).unwrap_or_default();
        &rest[..rest.len().min(len)]
    }

    pub fn is(&self, at: usize, magic: &[u8]) -> bool {
        self.bytes(at, magic.len()) == magic
    }

    pub fn u8(&self, at: usize) -> u8 {
        self.array::<1>(at)[0]
    }

    pub fn le16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    pub fn le32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    pub fn le64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    pub fn be16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    pub fn be32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    pub fn be64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// 16 bytes as they are.
    pub fn id(&self, at: usize) -> [u8; 16] {
        self.array(at)
    }

    /// 16 bytes in the usual text form; none when all are zero.
    pub fn uuid(&self, at: usize) -> Option<String> {
        let id = self.id(at);
        (id != [0; 16]).then(|| fathom_sys::probe::table::uuid_text(id))
    }

    /// Text up to a NUL; none when it is empty or holds control characters.
    pub fn text(&self, at: usize, len: usize) -> Option<String> {
        let bytes = self.bytes(at, len).split(|&b| b == 0).next().unwrap_or_default();
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.to_owned())
    }

    /// The block with `len` bytes from `at` on set to zero, as checksums want their own field.
    pub fn without(&self, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = self.0.clone();
        bytes.iter_mut().skip(at).take(len).for_each(|byte| *byte = 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(len: usize) -> Device {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let bytes: Vec<u8> = (0..len).map(|i| (i / 512 + i % 251) as u8).collect();
        std::fs::write(&path, bytes).unwrap();
        Device::new(File::open(path).unwrap(), len as u64, Allowance::default())
    }

    #[test]
    fn pages_are_read_once_and_no_more_than_the_limit() {
        let device = device(4 << 20);
        assert_eq!(device.read_at(0, 8192).map(|bytes| bytes.len()), Some(8192));
        assert_eq!(device.read_at(4000, 200).map(|bytes| bytes.len()), Some(200));
        assert_eq!(device.read_bytes(), 8192);
        assert!(device.read_at(1 << 20, 512).is_some());
        assert_eq!(device.read_bytes(), 12288);
        assert_eq!(device.read_at(0, READ_BYTES_MAX + 1), None);
        assert!(!device.is_short() && device.can_read_again());
        assert_eq!(device.read_at(8192, READ_BYTES_MAX - 8192), None, "12 KiB are used up already");
        assert!(device.is_short());
        assert!(device.read_at(8192, READ_BYTES_MAX - 12288).is_some());
        assert_eq!(device.read_bytes(), READ_BYTES_MAX);
        assert!(!device.can_read_again());
        device.forget();
        assert_eq!(device.read_at(0, 1), None, "forgotten pages still count");
    }

    #[test]
    fn an_allowance_is_given_as_a_whole_or_not_at_all() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.take(READ_BYTES_MAX + 1), None);
        assert_eq!((allowance.take(READ_BYTES_MAX - 5), allowance.left_bytes()), (Some(()), 5));
        assert_eq!((allowance.take(6), allowance.left_bytes()), (None, 5));
        assert_eq!((allowance.take(5), allowance.take(1)), (Some(()), None));
    }

    #[test]
    fn nothing_behind_the_end() {
        let odd = device(4096 + 512);
        assert_eq!(odd.read_at(4096, 512).map(|bytes| bytes.len()), Some(512));
        assert_eq!(odd.read_at(4096, 513), None);
        assert_eq!(odd.read_at(u64::MAX, 2), None);
        let bytes = odd.read_at(4090, 10).unwrap();
        assert_eq!(bytes[6], (4096 / 512 + 4096 % 251) as u8);
        // A device that became shorter after its size was read.
        let shrunk = Device { size_bytes: 3 * 4096, ..device(4096) };
        assert_eq!((shrunk.read_at(4096, 16), shrunk.read_at(4000, 200)), (None, None));
    }

    #[test]
    fn fields_behind_the_end_are_zero() {
        let block = Block(vec![1, 2, 3]);
        assert_eq!((block.le16(1), block.le32(1), block.be16(2)), (0x302, 0x302, 0x300));
        assert_eq!((block.le64(99), block.be64(usize::MAX), block.u8(3)), (0, 0, 0));
        assert_eq!((block.bytes(2, 9), block.uuid(1).is_some()), ([3].as_slice(), true));
        assert_eq!((block.text(9, 9), block.without(1, 9)), (None, vec![1, 0, 0]));
    }
}
