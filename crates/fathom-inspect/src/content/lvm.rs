//! LVM2: the label in one of the first four sectors, the header behind it, and the text in the metadata area
//! (`lib/format_text/layout.h`, `lib/label/label.h` of LVM2 describe them).

use super::Found;
use super::bytes::{Block, ReadAt};
use super::checksum::crc32_from;
use super::lvm_text::{self, Section};
use fathom_model::stack::detail::{LvmHeader, LvmSegment, LvmVolume};
use std::collections::BTreeMap;

const SECTOR_BYTES: u64 = 512;
/// The first value of LVM's checksums.
const CRC_FIRST: u32 = 0xf597_a6cf;
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// Size of the header of a metadata area; its text goes round behind it.
const AREA_HEADER_BYTES: u64 = 512;
/// Entries of the lists in the header; a real one has one or two.
const AREAS_MAX: usize = 16;

/// A physical volume. Damage of the text leaves what the label says.
pub fn lvm(source: &(impl ReadAt + ?Sized), damaged: &mut Vec<String>) -> Found<LvmHeader> {
    let label = (0..4).find_map(|sector| {
        let sb = source.block(sector * SECTOR_BYTES, SECTOR_BYTES)?;
        (sb.is(0, b"LABELONE") && sb.is(24, b"LVM2 001")).then_some((sector, sb))
    });
    let Some((sector, label)) = label else { return Ok(None) };
    if label.le64(8) != sector {
        return Err(format!("LVM label in sector {sector}: says sector {}", label.le64(8)));
    }
    if crc32_from(CRC_FIRST, label.bytes(20, 492)) != label.le32(16) {
        return Err("LVM label: its checksum is wrong".to_owned());
    }
    let at = label.le32(20) as usize;
    let (data, next) = areas(&label, at + 40);
    let (metadata, _) = areas(&label, next);
    let uuid = label.text(at, 32).filter(|text| text.len() == 32 && text.is_ascii());
    let mut header = LvmHeader {
        uuid: uuid.map(|text| dashed(&text)),
        device_size_bytes: Some(label.le64(at + 32)),
        extents_start_bytes: data.first().map(|area| area.0),
        ..LvmHeader::default()
    };
    let mut problem = None;
    for &(offset, size) in &metadata {
        match text(source, offset, size) {
            Ok(Some(text)) => {
                match lvm_text::parse(&text) {
                    Some(parsed) => add_group(&mut header, &parsed),
                    None => damaged.push("LVM metadata: the text cannot be read".to_owned()),
                }
                return Ok(Some(header));
            }
            Ok(None) => {}
            Err(error) => problem = problem.or(Some(error)),
        }
    }
    damaged.extend(problem);
    Ok(Some(header))
}

/// Pairs of offset and size up to one of zeros, and where the next list begins.
fn areas(label: &Block, mut at: usize) -> (Vec<(u64, u64)>, usize) {
    let mut areas = Vec::new();
    while areas.len() < AREAS_MAX {
        let area = (label.le64(at), label.le64(at + 8));
        at += 16;
        if area.0 == 0 {
            break;
        }
        areas.push(area);
    }
    (areas, at)
}

/// The text of the group in the metadata area; none while the physical volume is in no group, or where the area holds
/// no text on purpose.
fn text(source: &(impl ReadAt + ?Sized), area: u64, size: u64) -> Found<String> {
    let Some(head) = source.block(area, AREA_HEADER_BYTES) else { return Ok(None) };
    if !head.is(4, AREA_MAGIC) || crc32_from(CRC_FIRST, head.bytes(4, 508)) != head.le32(0) {
        return Err(format!("LVM metadata area at byte {area}: its header is damaged"));
    }
    let (offset, len) = (head.le64(40), head.le64(48));
    let is_ignored = head.le32(60) & 1 != 0;
    if offset == 0 || is_ignored {
        return Ok(None);
    }
    let size = size.min(head.le64(32));
    if offset < AREA_HEADER_BYTES || offset >= size || len > size - AREA_HEADER_BYTES {
        return Err(format!("LVM metadata area at byte {area}: text of {len} bytes from {offset}"));
    }
    // The text goes round: what does not fit behind `offset` stands behind the header.
    let first = len.min(size - offset);
    let place = |at: u64| area.checked_add(at);
    let (Some(tail), Some(front)) = (place(offset), place(AREA_HEADER_BYTES)) else {
        return Ok(None);
    };
    let Some(mut bytes) = source.read_at(tail, first) else { return Ok(None) };
    if len > first {
        let Some(rest) = source.read_at(front, len - first) else { return Ok(None) };
        bytes.extend(rest);
    }
    if crc32_from(CRC_FIRST, &bytes) != head.le32(56) {
        return Err(format!("LVM metadata area at byte {area}: checksum of the text is wrong"));
    }
    let text = bytes.split(|&b| b == 0).next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(text).into_owned()))
}

/// A UUID as LVM prints it: 32 characters in groups of 6, 4, 4, 4, 4, 4, 6.
fn dashed(text: &str) -> String {
    [
        &text[..6],
        &text[6..10],
        &text[10..14],
        &text[14..18],
        &text[18..22],
        &text[22..26],
        &text[26..],
    ]
    .join("-")
}

fn add_group(header: &mut LvmHeader, text: &Section) {
    let Some((name, group)) = text.sections().next() else { return };
    header.group = Some(name.to_owned());
    header.extent_bytes = sectors(group, "extent_size");
    header.seqno = group.number("seqno");
    header.free_extents = free_extents(group);
    let members = || group.section("physical_volumes").into_iter().flat_map(Section::sections);
    for (_, member) in members() {
        let id = member.text("id").map(str::to_owned);
        if id.is_some() && id == header.uuid {
            header.extents_start_bytes = sectors(member, "pe_start").or(header.extents_start_bytes);
            // pvresize writes the new size here, and leaves that of the label as it was made.
            header.device_size_bytes = sectors(member, "dev_size").or(header.device_size_bytes);
        }
        header.group_members.extend(id);
    }
    let volumes = group.section("logical_volumes").into_iter().flat_map(Section::sections);
    header.volumes = volumes
        .map(|(name, volume)| LvmVolume {
            name: name.to_owned(),
            uuid: volume.text("id").map(str::to_owned),
            segments: volume
                .sections()
                .filter(|(name, _)| name.starts_with("segment"))
                .map(|(_, segment)| of_segment(segment))
                .collect(),
        })
        .collect();
}

/// What the physical volumes have that take new extents, less what segments have of it. LVM gives none of a volume that was
/// missing before it is taken back (`vgextend --restoremissing`).
fn free_extents(group: &Section) -> Option<u64> {
    let mut free = BTreeMap::new();
    for (name, member) in group.section("physical_volumes")?.sections() {
        let is_missing = member.texts("flags").contains(&"MISSING");
        if member.texts("status").contains(&"ALLOCATABLE") && !is_missing {
            free.insert(name, member.number("pe_count")?);
        }
    }
    let volumes = group.section("logical_volumes").into_iter().flat_map(Section::sections);
    for (_, segment) in volumes.flat_map(|(_, volume)| volume.sections()) {
        let all = segment.number("extent_count").unwrap_or(0);
        let stripes = segment.texts("stripes");
        let share = all / stripes.len().max(1) as u64;
        // Each copy has all of them: pvmove makes these on physical volumes.
        let copies = segment.texts("mirrors").into_iter().map(|copy| (copy, all));
        for (name, extents) in stripes.into_iter().map(|stripe| (stripe, share)).chain(copies) {
            free.entry(name).and_modify(|left| *left = left.saturating_sub(extents));
        }
    }
    Some(free.into_values().fold(0, u64::saturating_add))
}

fn of_segment(segment: &Section) -> LvmSegment {
    let stripes = segment.number("stripe_count").or_else(|| segment.number("device_count"));
    // Flags stand behind a plus sign.
    let kind = segment.text("type").unwrap_or_default();
    let kind = kind.split('+').next().unwrap_or_default();
    LvmSegment {
        kind: if kind == "striped" && stripes == Some(1) { "linear" } else { kind }.to_owned(),
        start_extent: segment.number("start_extent").unwrap_or_default(),
        extents: segment.number("extent_count").unwrap_or_default(),
        stripes,
        stripe_bytes: sectors(segment, "stripe_size"),
        chunk_bytes: sectors(segment, "chunk_size"),
    }
}

/// A number of sectors as bytes.
fn sectors(section: &Section, name: &str) -> Option<u64> {
    section.number(name)?.checked_mul(SECTOR_BYTES)
}
