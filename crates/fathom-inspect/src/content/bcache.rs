//! bcache superblocks (`drivers/md/bcache/bcache_ondisk.h`).

use super::Found;
use super::bytes::ReadAt;
use super::checksum::crc64;
use fathom_model::stack::detail::BcacheSuperblock;

const AT: u64 = 4096;
const MAGIC: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const SECTOR_BYTES: u64 = 512;
/// Where data begin on backing devices whose superblock does not say.
const DATA_SECTORS_DEFAULT: u64 = 16;

/// A cache, or a device behind one.
pub fn bcache(source: &(impl ReadAt + ?Sized)) -> Found<BcacheSuperblock> {
    let Some(sb) = source.block(AT, 4096) else { return Ok(None) };
    if !sb.is(24, MAGIC) {
        return Ok(None);
    }
    if sb.le64(8) != AT / SECTOR_BYTES {
        return Err(format!("bcache superblock: says that it lies in sector {}", sb.le64(8)));
    }
    // From behind the sum to the last of the journal's buckets, of which a new one has none.
    let end = 208 + usize::from(sb.le16(206)) * 8;
    if end > 4096 || crc64(sb.bytes(8, end - 8)) != sb.le64(0) {
        return Err("bcache superblock: its checksum is wrong".to_owned());
    }
    let is_backing = match sb.le64(16) {
        0 | 3 | 5 => false,
        1 | 4 | 6 => true,
        other => return Err(format!("bcache superblock: version {other} is not known")),
    };
    let data_sectors = if sb.le64(16) == 1 { DATA_SECTORS_DEFAULT } else { sb.le64(184) };
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
    Ok(Some(BcacheSuperblock {
        kind: if is_backing { "backing" } else { "cache" }.to_owned(),
        set_uuid: sb.uuid(56),
        block_bytes: bytes(u64::from(sb.le16(192))).filter(|&size| size > 0),
        bucket_bytes: bytes(u64::from(sb.le16(194))).filter(|&size| size > 0 && !is_backing),
        data_offset_bytes: bytes(data_sectors).filter(|_| is_backing),
    }))
}
