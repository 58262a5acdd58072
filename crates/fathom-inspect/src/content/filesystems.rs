//! Superblocks of ext2-4, XFS, btrfs and f2fs, by the structures that the kernel documents
//! (`Documentation/filesystems/ext4/super.rst`, `fs/xfs/libxfs/xfs_format.h`, `include/uapi/linux/btrfs_tree.h`,
//! `include/linux/f2fs_fs.h`).

use super::Found;
use super::bytes::{Block, ReadAt};
use super::checksum;
use fathom_model::stack::detail::FsSuperblock;

/// ext2, ext3, ext4 or an external journal of theirs (`jbd`).
pub fn ext(source: &(impl ReadAt + ?Sized)) -> Found<FsSuperblock> {
    let Some(sb) = source.block(1024, 1024) else { return Ok(None) };
    // The magic number has 16 bits only: two fields with few legal values make it certain.
    if sb.le16(0x38) != 0xef53 || sb.le32(0x4c) > 1 || sb.le32(0x48) > 4 {
        return Ok(None);
    }
    let (compat, incompat, ro_compat) = (sb.le32(0x5c), sb.le32(0x60), sb.le32(0x64));
    let log = sb.le32(0x18);
    if log > 6 {
        return Err(format!("ext superblock: its block size is 2^{} bytes", u64::from(log) + 10));
    }
    let block_bytes = 1024u64 << log;
    let high = if incompat & 0x80 != 0 { u64::from(sb.le32(0x150)) << 32 } else { 0 };
    let blocks = u64::from(sb.le32(0x4)) | high;
    let (first, per_group) = (u64::from(sb.le32(0x14)), u64::from(sb.le32(0x20)));
    let is_journal = incompat & 0x8 != 0;
    if blocks <= first || (!is_journal && (per_group == 0 || sb.le32(0x28) == 0)) {
        return Err(format!(
            "ext superblock: {blocks} blocks from {first} on in groups of {per_group}"
        ));
    }
    if ro_compat & 0x400 != 0 && checksum::crc32c_raw(sb.bytes(0, 0x3fc)) != sb.le32(0x3fc) {
        return Err("ext superblock: its checksum is wrong".to_owned());
    }
    Ok(Some(FsSuperblock {
        fs_type: ext_type(compat, incompat, ro_compat).to_owned(),
        uuid: sb.uuid(0x68),
        block_bytes: Some(block_bytes),
        size_bytes: blocks.checked_mul(block_bytes),
        stripe_unit_bytes: Some(u64::from(sb.le16(0x164)) * block_bytes),
        stripe_width_bytes: Some(u64::from(sb.le32(0x170)) * block_bytes),
        groups: (!is_journal).then(|| (blocks - first).div_ceil(per_group)),
        journal_uuid: sb.uuid(0xd0),
        journal: Some(compat & 0x4 != 0),
        state: ext_state(&sb, incompat),
        errors: Some(u64::from(sb.le32(0x194))),
        made_at_unix_s: Some(i64::from(sb.le32(0x108))).filter(|&s| s > 0),
        mounts: Some((u64::from(sb.le16(0x34)), i64::from(sb.le16(0x36) as i16))),
        checked_at_unix_s: Some(i64::from(sb.le32(0x40))),
        check_interval_s: Some(u64::from(sb.le32(0x44))),
        ..FsSuperblock::default()
    }))
}

/// ext4 is what has a feature that the drivers of ext2 and ext3 did not know.
fn ext_type(compat: u32, incompat: u32, ro_compat: u32) -> &'static str {
    const OLD_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
    const OLD_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
    if incompat & 0x8 != 0 {
        "jbd"
    } else if incompat & !OLD_INCOMPAT != 0 || ro_compat & !OLD_RO_COMPAT != 0 {
        "ext4"
    } else if compat & 0x4 != 0 {
        "ext3"
    } else {
        "ext2"
    }
}

fn ext_state(sb: &Block, incompat: u32) -> Option<String> {
    let state = sb.le16(0x3a);
    let words = [
        (incompat & 0x4 != 0, "needs recovery"),
        (state & 1 == 0, "not clean"),
        (state & 2 != 0, "with errors"),
    ];
    let words: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// XFS; all numbers are big-endian.
pub fn xfs(source: &(impl ReadAt + ?Sized)) -> Found<FsSuperblock> {
    let Some(sb) = source.block(0, 512) else { return Ok(None) };
    if !sb.is(0, b"XFSB") {
        return Ok(None);
    }
    let (block, sector) = (u64::from(sb.be32(4)), u64::from(sb.be16(102)));
    let logs = [(block, sb.u8(120), 512..=65536), (sector, sb.u8(121), 512..=32768)];
    if logs.iter().any(|(size, log, range)| {
        !range.contains(size) || 1u64.checked_shl(u32::from(*log)) != Some(*size)
    }) {
        return Err(format!("XFS superblock: blocks of {block} and sectors of {sector} bytes"));
    }
    let (blocks, group, groups) = (sb.be64(8), u64::from(sb.be32(84)), u64::from(sb.be32(88)));
    if blocks > group * groups || group * groups.saturating_sub(1) >= blocks {
        return Err(format!("XFS superblock: {blocks} blocks in {groups} groups of {group}"));
    }
    let (unit, width) = (u64::from(sb.be32(184)), u64::from(sb.be32(188)));
    if (unit == 0) != (width == 0) || (unit > 0 && !width.is_multiple_of(unit)) {
        return Err(format!("XFS superblock: stripe unit {unit} and width {width} do not fit"));
    }
    let version = sb.be16(100);
    if version & 0xf == 5 {
        let Some(whole) = source.block(0, sector) else { return Ok(None) };
        if checksum::crc32c(&whole.without(224, 4)) != whole.le32(224) {
            return Err("XFS superblock: its checksum is wrong".to_owned());
        }
    }
    // Without the bit for it the log has sectors of 512 bytes; a unit of one byte means none.
    let log_sector = if version & 0x800 == 0 { 512 } else { u64::from(sb.be16(194)) };
    let log_unit = u64::from(sb.be32(196));
    let needs_repair = version & 0xf == 5 && sb.be32(216) & 0x10 != 0;
    Ok(Some(FsSuperblock {
        fs_type: "xfs".to_owned(),
        uuid: sb.uuid(32),
        block_bytes: Some(block),
        sector_bytes: Some(sector),
        size_bytes: blocks.checked_mul(block),
        stripe_unit_bytes: Some(unit * block),
        stripe_width_bytes: Some(width * block),
        log_unit_bytes: Some(if log_unit > 1 { log_unit } else { 0 }),
        log_sector_bytes: Some(log_sector),
        groups: Some(groups),
        group_blocks: Some(group),
        state: needs_repair.then(|| "needs repair".to_owned()),
        ..FsSuperblock::default()
    }))
}

/// Where btrfs keeps its first superblock, and its size.
const BTRFS_AT: u64 = 64 << 10;
const BTRFS_BYTES: u64 = 4096;
/// `BTRFS_SUPER_FLAG_SEEDING`.
const SEEDING: u64 = 1 << 32;

/// btrfs; the size is that of this device's share.
pub fn btrfs(source: &(impl ReadAt + ?Sized)) -> Found<FsSuperblock> {
    let Some(sb) = source.block(BTRFS_AT, BTRFS_BYTES) else { return Ok(None) };
    if !sb.is(0x40, b"_BHRfS_M") {
        return Ok(None);
    }
    if sb.le64(0x30) != BTRFS_AT {
        return Err(format!("btrfs superblock: says that it lies at byte {}", sb.le64(0x30)));
    }
    // Of the four checksums only that of type 0 is computed here.
    if sb.le16(0xc4) == 0 && checksum::crc32c(sb.bytes(0x20, 4096 - 0x20)) != sb.le32(0) {
        return Err("btrfs superblock: its checksum is wrong".to_owned());
    }
    let (sector, node) = (u64::from(sb.le32(0x90)), u64::from(sb.le32(0x94)));
    let is_size = |bytes: u64| bytes.is_power_of_two() && (512..=65536).contains(&bytes);
    let (total, here) = (sb.le64(0x70), sb.le64(0xd1));
    if !is_size(sector) || !is_size(node) || here > total {
        return Err(format!(
            "btrfs superblock: sectors of {sector}, nodes of {node} bytes, {here} bytes here of {total} in all"
        ));
    }
    Ok(Some(FsSuperblock {
        fs_type: "btrfs".to_owned(),
        uuid: sb.uuid(0x20),
        device_uuid: sb.uuid(0x10b),
        device_number: Some(sb.le64(0xc9)),
        devices: Some(sb.le64(0x88)),
        generation: Some(sb.le64(0x48)),
        is_seed: sb.le64(0x38) & SEEDING != 0,
        block_bytes: Some(sector),
        sector_bytes: Some(sector),
        size_bytes: Some(here),
        state: (sb.le64(0x38) & 4 != 0).then(|| "with errors".to_owned()),
        ..FsSuperblock::default()
    }))
}

/// Both copies of an f2fs superblock.
const F2FS_AT: [u64; 2] = [1024, 4096 + 1024];
const F2FS_MAGIC: u32 = 0xf2f5_2010;

/// f2fs.
pub fn f2fs(source: &(impl ReadAt + ?Sized)) -> Found<FsSuperblock> {
    let copies: Vec<Block> = F2FS_AT
        .iter()
        .filter_map(|&at| source.block(at, 3072))
        .filter(|sb| sb.le32(0) == F2FS_MAGIC)
        .collect();
    let Some(sb) = copies.first() else { return Ok(None) };
    let (sector, block) = (sb.le32(8), sb.le32(16));
    if !(9..=14).contains(&sector) || !(12..=16).contains(&block) {
        return Err(format!("f2fs superblock: sectors of 2^{sector}, blocks of 2^{block} bytes"));
    }
    let checksum_at = sb.le32(32) as usize;
    if (1..=3068).contains(&checksum_at)
        && checksum::crc32_from(F2FS_MAGIC, sb.bytes(0, checksum_at)) != sb.le32(checksum_at)
    {
        return Err("f2fs superblock: its checksum is wrong".to_owned());
    }
    let blocks = sb.le64(36);
    if copies.get(1).is_some_and(|second| second.le64(36) != blocks) {
        return Err("f2fs superblock: the two copies say different sizes".to_owned());
    }
    Ok(Some(FsSuperblock {
        fs_type: "f2fs".to_owned(),
        uuid: sb.uuid(108),
        block_bytes: Some(1 << block),
        sector_bytes: Some(1 << sector),
        size_bytes: blocks.checked_mul(1 << block),
        groups: Some(u64::from(sb.le32(44))),
        ..FsSuperblock::default()
    }))
}
