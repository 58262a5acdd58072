//! File systems whose magic number is short or needs a look at the fields around it.

use super::SignatureKind::Filesystem;
use super::{Image, Signature};

pub(super) fn find(image: &Image) -> Vec<Signature> {
    let mut found: Vec<Signature> =
        [ext(image), hfs(image), hfs_plus(image), minix(image), xfs_log(image)]
            .into_iter()
            .flatten()
            .collect();
    found.extend(nilfs(image));
    found.extend(ufs(image));
    found
}

/// ext2, ext3, ext4 and their external journals: 16-bit magic, so the geometry must make sense as well.
fn ext(image: &Image) -> Option<Signature> {
    const SB: u64 = 1024;
    const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
    // Extents, 64 bit, flexible groups, inline data, encryption and so on: only ext4 has them.
    const INCOMPAT_EXT4: u32 =
        0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x1000 | 0x8000 | 0x10000 | 0x20000;
    const COMPAT_JOURNAL: u32 = 0x4;
    if image.le16(SB + 56)? != 0xef53 {
        return None;
    }
    let (inodes, blocks) = (image.le32(SB)?, image.le32(SB + 4)?);
    let (log_block, revision) = (image.le32(SB + 24)?, image.le32(SB + 76)?);
    let incompat = image.le32(SB + 96)?;
    let journal_device = incompat & INCOMPAT_JOURNAL_DEV != 0;
    let blocks_high = image.le32(SB + 336)?;
    let sane = log_block <= 6 && revision <= 1 && (blocks != 0 || blocks_high != 0);
    if !sane || (inodes == 0 && !journal_device) {
        return None;
    }
    let name =
        match (journal_device, incompat & INCOMPAT_EXT4, image.le32(SB + 92)? & COMPAT_JOURNAL) {
            (true, _, _) => "ext journal",
            (_, 0, 0) => "ext2",
            (_, 0, _) => "ext3",
            _ => "ext4",
        };
    let signature = Signature::new(Filesystem, name, SB + 56);
    Some(signature.with(image.uuid(SB + 104), image.text(SB + 120, 16)))
}

/// NILFS2: 16-bit magic; a second superblock lies in the last whole 4 KiB block but one.
fn nilfs(image: &Image) -> Vec<Signature> {
    let check = |sb: u64| {
        let sane = image.le16(sb + 6)? == 0x3434
            && image.le32(sb)? == 2
            && (32..=1024).contains(&image.le16(sb + 8)?)
            && image.le32(sb + 20)? <= 6;
        sane.then(|| Signature::new(Filesystem, "nilfs2", sb + 6))
    };
    let second = (image.size_bytes() >> 12).saturating_sub(1) << 12;
    [1024, second].into_iter().filter_map(check).collect()
}

/// HFS: 16-bit magic and an allocation block size that is a multiple of 512.
fn hfs(image: &Image) -> Option<Signature> {
    const SB: u64 = 1024;
    let block = image.be32(SB + 20)?;
    let sane = image.is(SB, b"BD")
        && image.be16(SB + 18)? != 0
        && block != 0
        && block.is_multiple_of(512)
        && block <= 1 << 24
        && (1..=27).contains(&image.u8(SB + 36)?);
    sane.then(|| Signature::new(Filesystem, "hfs", SB))
}

fn hfs_plus(image: &Image) -> Option<Signature> {
    const SB: u64 = 1024;
    let block = image.be32(SB + 40)?;
    let magic = image.is(SB, b"H+\0\x04") || image.is(SB, b"HX\0\x05");
    (magic && block >= 512 && block.is_power_of_two())
        .then(|| Signature::new(Filesystem, "hfs+", SB))
}

/// Minix versions 1 to 3: 16-bit magics; the size of the inode map must follow from the number of inodes.
fn minix(image: &Image) -> Option<Signature> {
    const SB: u64 = 1024;
    let (inodes, map_blocks, log_zone, block_bytes) =
        match (image.le16(SB + 16)?, image.le16(SB + 24)?) {
            (0x137f | 0x138f | 0x2468 | 0x2478, _) => {
                (u32::from(image.le16(SB)?), image.le16(SB + 4)?, image.le16(SB + 10)?, 1024)
            }
            (_, 0x4d5a) => {
                (image.le32(SB)?, image.le16(SB + 6)?, image.le16(SB + 12)?, image.le16(SB + 28)?)
            }
            _ => return None,
        };
    let sane_block = matches!(block_bytes, 1024 | 2048 | 4096);
    if inodes == 0 || log_zone != 0 || !sane_block {
        return None;
    }
    let needed = (u64::from(inodes) + 1).div_ceil(u64::from(block_bytes) * 8);
    (u64::from(map_blocks) == needed).then(|| Signature::new(Filesystem, "minix", SB + 16))
}

/// UFS 1 and 2, both byte orders, at the four places where BSDs put the superblock.
fn ufs(image: &Image) -> Vec<Signature> {
    const MAGIC_AT: u64 = 1372;
    let known = |at: u64| {
        let magics = [image.le32(at), image.be32(at)];
        let is = |magic: u32| magics.contains(&Some(magic));
        (is(0x0001_1954) || is(0x1954_0119)).then(|| Signature::new(Filesystem, "ufs", at))
    };
    [0, 8192, 65536, 262_144].into_iter().filter_map(|sb| known(sb + MAGIC_AT)).collect()
}

/// An external XFS log has no superblock: it starts with log records somewhere in the first 256 KiB.
fn xfs_log(image: &Image) -> Option<Signature> {
    (0..512).map(|sector| sector * 512).find_map(|at| {
        let record = image.is(at, b"\xfe\xed\xba\xbe")
            && matches!(image.be32(at + 8)?, 1 | 2)
            && image.be32(at + 12)?.is_multiple_of(4);
        let uuid = || image.uuid(at + 304);
        record.then(|| Signature::new(Filesystem, "xfs external log", at).with(uuid(), None))
    })
}
