//! Formats of old machines, and of controllers that are rare by now.

use super::SignatureKind::{Filesystem, PartitionTable, Raid};
use super::{Image, Signature};

pub(super) fn find(image: &Image) -> Vec<Signature> {
    [sysv(image), ultrix(image), atari(image), jmicron(image)].into_iter().flatten().collect()
}

/// UNIX System V: the superblock is the second sector of one of these blocks of 1 KiB, in either order of bytes.
fn sysv(image: &Image) -> Option<Signature> {
    const MAGIC: u32 = 0xfd18_7e20;
    let at = [0, 9, 15, 18].map(|block| block * 1024 + 512 + 504);
    let has_it = |at: &u64| [image.le32(*at), image.be32(*at)].contains(&Some(MAGIC));
    at.into_iter().find(has_it).map(|at| Signature::new(Filesystem, "sysv", at))
}

/// The label at the end of the first 16 KiB.
fn ultrix(image: &Image) -> Option<Signature> {
    const AT: u64 = 16384 - 72;
    let is_it = |of: fn(&Image, u64) -> Option<u32>| {
        of(image, AT) == Some(0x0003_2957) && of(image, AT + 4) == Some(1)
    };
    (is_it(Image::le32) || is_it(Image::be32))
        .then(|| Signature::new(PartitionTable, "Ultrix disk label", AT))
}

/// A root sector without a fixed string: an entry is believed whose kind is known, or where the number of sectors is that of the device.
fn atari(image: &Image) -> Option<Signature> {
    const ENTRIES_AT: [u64; 4] = [0x1c6, 0x1d2, 0x1de, 0x1ea];
    const KINDS: [&[u8; 3]; 8] = [b"GEM", b"BGM", b"XGM", b"LNX", b"SWP", b"RAW", b"MIX", b"UNX"];
    let sectors = image.size_bytes() / 512;
    let is_of_device = image.be32(0x1c2).map(u64::from) == Some(sectors);
    let is_entry = |at: &u64| {
        let (flags, kind) = (image.u8(*at)?, image.array::<3>(at + 1)?);
        let (start, size) = (u64::from(image.be32(at + 4)?), u64::from(image.be32(at + 8)?));
        let is_kind = KINDS.contains(&&kind) && matches!(flags, 1 | 0x81);
        let is_like = is_of_device && flags & 1 == 1 && kind.iter().all(u8::is_ascii_alphanumeric);
        Some((is_kind || is_like) && start > 0 && size > 0 && start + size <= sectors)
    };
    let at = ENTRIES_AT.into_iter().find(|at| is_entry(at) == Some(true))?;
    Some(Signature::new(PartitionTable, "Atari partition table", at))
}

/// Metadata in the last sector, the 16-bit words of which sum up to 0 or 1.
fn jmicron(image: &Image) -> Option<Signature> {
    const WORDS: u64 = 64;
    let at = (image.size_bytes() / 512).checked_sub(1)? * 512;
    if !image.is(at, b"JM") {
        return None;
    }
    let mut words = (0..WORDS).map(|word| image.le16(at + 2 * word));
    let sum = words.try_fold(0_u16, |sum, word| Some(sum.wrapping_add(word?)))?;
    (sum <= 1).then(|| Signature::new(Raid, "JMicron RAID", at))
}
