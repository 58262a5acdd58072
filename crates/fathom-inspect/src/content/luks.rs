//! LUKS1 and LUKS2 headers, by their on-disk format specifications. Key material is never read: it lies behind the
//! headers.

use super::Found;
use super::bytes::{Block, ReadAt};
use fathom_model::stack::detail::LuksHeader;
use serde_json::Value;

const MAGIC: &[u8] = b"LUKS\xba\xbe";
/// The binary header of LUKS2; the JSON text follows it.
const BINARY_BYTES: u64 = 4096;
/// Sizes that a LUKS2 header may have.
const HEADER_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=4 << 20;
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
