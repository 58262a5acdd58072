//! LUKS1 and LUKS2 headers, by their on-disk format specifications. Key material is never read: it lies behind the
//! headers.

use super::Found;
use super::bytes::{Block, ReadAt};
use super::sha256::sha256;
use fathom_model::stack::detail::LuksHeader;
use serde_json::Value;

const MAGIC: &[u8] = b"LUKS\xba\xbe";
/// That of the second copy of a LUKS2 header, right behind the first.
const SECOND_MAGIC: &[u8] = b"SKUL\xba\xbe";
/// The binary header of LUKS2; the JSON text follows it.
const BINARY_BYTES: u64 = 4096;
/// Sizes that a LUKS2 header may have.
const HEADER_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=4 << 20;
/// Larger headers are not read as a whole for their checksum: little is read of a device. The usual ones have 16 KiB.
const CHECKED_BYTES_MAX: u64 = 256 << 10;
/// Where the checksum stands, which counts as zeros in itself.
const SUM: std::ops::Range<usize> = 448..512;
/// The text is read in pieces of this size until its end shows.
const PIECE_BYTES: u64 = 12 << 10;

/// An encrypted container.
pub fn luks(source: &(impl ReadAt + ?Sized)) -> Found<LuksHeader> {
    let Some(head) = source.block(0, 512) else { return Ok(None) };
    match head.be16(6) {
        _ if !head.is(0, MAGIC) => Ok(None),
        1 => Ok(Some(version_1(&head))),
        2 => version_2(source, &head),
        other => Err(format!("LUKS header: version {other} is not known")),
    }
}

fn version_1(head: &Block) -> LuksHeader {
    let cipher = head.text(8, 32).zip(head.text(40, 32));
    LuksHeader {
        version: 1,
        uuid: head.text(168, 40),
        cipher: cipher.map(|(name, mode)| format!("{name}-{mode}")),
        sector_bytes: Some(512),
        data_offset_bytes: Some(u64::from(head.be32(104)) * 512),
        flags: Vec::new(),
    }
}

fn version_2(source: &(impl ReadAt + ?Sized), head: &Block) -> Found<LuksHeader> {
    let size = head.be64(8);
    if !HEADER_BYTES.contains(&size) || head.be64(256) != 0 {
        return Err(format!("LUKS2 header: {size} bytes at byte {}", head.be64(256)));
    }
    if is_whole(source, 0, MAGIC, size) == Some(false) {
        let second = is_whole(source, size, SECOND_MAGIC, size);
        let words = if second == Some(true) { ", that of its second copy is right" } else { "" };
        return Err(format!("LUKS2 header: its checksum is wrong{words}"));
    }
    let Some(text) = json_text(source, size - BINARY_BYTES) else { return Ok(None) };
    let text = std::str::from_utf8(&text).unwrap_or_default();
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return Err("LUKS2 header: its JSON text is damaged".to_owned());
    };
    // With several segments (a container that is being re-encrypted) the first one tells.
    let segments = json["segments"].as_object();
    let first = segments.and_then(|all| all.iter().min_by_key(|(key, _)| key.parse::<u64>().ok()));
    let segment = first.map_or(&Value::Null, |(_, segment)| segment);
    let flags = json["config"]["flags"].as_array();
    let words = flags.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(Some(LuksHeader {
        version: 2,
        uuid: head.text(168, 40),
        cipher: segment["encryption"].as_str().map(str::to_owned),
        sector_bytes: segment["sector_size"].as_u64(),
        data_offset_bytes: segment["offset"].as_str().and_then(|offset| offset.parse().ok()),
        flags: words.collect(),
    }))
}

/// Whether the checksum of a copy of the header is right; none where it is of another kind or covers too much.
fn is_whole(source: &(impl ReadAt + ?Sized), at: u64, magic: &[u8], size: u64) -> Option<bool> {
    let mut bytes = source.read_at(at, size.min(CHECKED_BYTES_MAX))?;
    let head = Block(bytes.clone());
    if size > CHECKED_BYTES_MAX || head.text(72, 32).as_deref() != Some("sha256") {
        return None;
    }
    bytes.get_mut(SUM)?.fill(0);
    Some(head.is(0, magic) && head.bytes(SUM.start, 32) == sha256(&bytes))
}

/// The JSON text, which ends with a NUL.
fn json_text(source: &(impl ReadAt + ?Sized), size: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while (text.len() as u64) < size {
        let at = text.len() as u64;
        let piece = source.read_at(BINARY_BYTES + at, PIECE_BYTES.min(size - at))?;
        match piece.iter().position(|&byte| byte == 0) {
            Some(end) => {
                text.extend_from_slice(&piece[..end]);
                return Some(text);
            }
            None => text.extend(piece),
        }
    }
    Some(text)
}
