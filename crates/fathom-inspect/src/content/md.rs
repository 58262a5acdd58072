//! Superblocks of md members: 0.90 and 1.x (`include/uapi/linux/raid/md_p.h`).

use super::Found;
use super::bytes::{Block, ReadAt};
use super::checksum::md_sum;
use fathom_model::stack::detail::MdSuperblock;

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR_BYTES: u64 = 512;
const BLOCK_BYTES: u64 = 4096;
/// 0.90 lies in the last whole block of this size but one.
pub(super) const OLD_UNIT_BYTES: u64 = 64 << 10;

/// The superblock of an md member: 1.2 at 4 KiB, 1.1 at the start, 1.0 and 0.90 near the end, in this order.
pub fn md(source: &(impl ReadAt + ?Sized)) -> Found<MdSuperblock> {
    let at_end = (source.size_bytes() / SECTOR_BYTES).checked_sub(16).map(|s| (s & !7) * 512);
    for (version, at) in [("1.2", Some(4096)), ("1.1", Some(0)), ("1.0", at_end)] {
        let Some(at) = at else { continue };
        if let Some(found) = version_1(source, version, at)? {
            return Ok(Some(found));
        }
    }
    version_0(source)
}

fn version_1(source: &(impl ReadAt + ?Sized), version: &str, at: u64) -> Found<MdSuperblock> {
    let Some(sb) = source.block(at, BLOCK_BYTES) else { return Ok(None) };
    if sb.le32(0) != MAGIC || sb.le32(4) != 1 {
        return Ok(None);
    }
    // One that names another place belongs to a partition that ends or begins here, or was copied.
    if sb.le64(144) != at / SECTOR_BYTES {
        return Ok(None);
    }
    let roles = u64::from(sb.le32(220));
    let len = 256 + 2 * roles;
    if len > BLOCK_BYTES {
        return Err(format!("md {version} superblock: room for {roles} members"));
    }
    let body = sb.without(216, 4);
    if md_sum(&body[..len as usize], u32::from_le_bytes) != sb.le32(216) {
        return Err(format!("md {version} superblock: its checksum is wrong"));
    }
    let number = u64::from(sb.le32(160));
    let role = if number < roles { sb.le16(256 + 2 * number as usize) } else { 0xffff };
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
    Ok(Some(MdSuperblock {
        version: version.to_owned(),
        array_uuid: Some(colons(&sb, 16)),
        device_uuid: Some(colons(&sb, 168)),
        name: sb.text(32, 32),
        level: Some(i64::from(sb.le32(72) as i32)),
        layout: Some(u64::from(sb.le32(76))),
        chunk_bytes: Some(u64::from(sb.le32(88)) * SECTOR_BYTES),
        raid_disks: Some(u64::from(sb.le32(92))),
        data_offset_bytes: bytes(sb.le64(128)),
        data_size_bytes: bytes(sb.le64(136)),
        events: Some(sb.le64(200)),
        role: Some(match role {
            0xffff => "spare".to_owned(),
            0xfffe => "faulty".to_owned(),
            0xfffd => "journal".to_owned(),
            slot => slot.to_string(),
        }),
        // The upper 24 bits are microseconds.
        updated_at_unix_s: Some((sb.le64(192) & 0xff_ffff_ffff) as i64),
    }))
}

/// A UUID as mdadm writes it.
fn colons(sb: &Block, at: usize) -> String {
    let digits: String = sb.id(at).iter().map(|byte| format!("{byte:02x}")).collect();
    [&digits[..8], &digits[8..16], &digits[16..24], &digits[24..]].join(":")
}

/// Numbers are in the byte order of the machine that wrote it.
fn version_0(source: &(impl ReadAt + ?Sized)) -> Found<MdSuperblock> {
    let size = source.size_bytes() / OLD_UNIT_BYTES * OLD_UNIT_BYTES;
    let Some(at) = size.checked_sub(OLD_UNIT_BYTES) else { return Ok(None) };
    let Some(sb) = source.block(at, BLOCK_BYTES) else { return Ok(None) };
    let is_little = sb.le32(0) == MAGIC;
    if !is_little && sb.be32(0) != MAGIC {
        return Ok(None);
    }
    let to_word = if is_little { u32::from_le_bytes } else { u32::from_be_bytes };
    let word = |index: usize| if is_little { sb.le32(4 * index) } else { sb.be32(4 * index) };
    if word(1) != 0 || word(2) < 90 {
        return Ok(None);
    }
    if md_sum(&sb.without(4 * 38, 4), to_word) != word(38) {
        return Err("md 0.90 superblock: its checksum is wrong".to_owned());
    }
    // The two halves of the count stand in the machine's order too.
    let (low, high) = if is_little { (word(39), word(40)) } else { (word(40), word(39)) };
    let uuid = [5, 13, 14, 15].map(|index| format!("{:08x}", word(index))).join(":");
    let (slot, state) = (word(992 + 3), word(992 + 4));
    let role = match () {
        () if state & 1 != 0 => "faulty".to_owned(),
        () if state & 4 != 0 && slot < word(10) => slot.to_string(),
        () => "spare".to_owned(),
    };
    Ok(Some(MdSuperblock {
        version: "0.90".to_owned(),
        array_uuid: Some(uuid),
        device_uuid: None,
        name: None,
        level: Some(i64::from(word(7) as i32)),
        layout: Some(u64::from(word(64))),
        chunk_bytes: Some(u64::from(word(65))),
        raid_disks: Some(u64::from(word(10))),
        data_offset_bytes: Some(0),
        data_size_bytes: Some(u64::from(word(8)) * 1024),
        events: Some(u64::from(high) << 32 | u64::from(low)),
        role: Some(role),
        updated_at_unix_s: Some(i64::from(word(32))),
    }))
}
