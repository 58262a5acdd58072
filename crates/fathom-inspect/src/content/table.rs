//! Partition tables: MBR with its chain of logical partitions, and both copies of a GPT (UEFI specification, chapter
//! 5).

use super::bytes::{Block, ReadAt};
use super::checksum::crc32;
use fathom_model::stack::detail::{PartitionEntry, PartitionTable};
use fathom_sys::probe::table::guid_text;

/// Logical partitions that are followed; the kernel stops at 100.
const LOGICAL_MAX: u64 = 100;
/// Largest table of entries that is read; the usual one has 16 KiB.
const ENTRIES_BYTES_MAX: u64 = 128 << 10;
/// Sector sizes that a GPT may have been written for.
const SECTOR_SIZES: [u64; 4] = [512, 4096, 1024, 2048];

/// The table on a disk with sectors of `sector_bytes`; damage goes to `damaged`. `has_mbr` says that the first sector is
/// a boot record with entries, and not the first one of a FAT or the like.
pub fn table(
    source: &(impl ReadAt + ?Sized),
    sector_bytes: u64,
    has_mbr: bool,
    damaged: &mut Vec<String>,
) -> Option<PartitionTable> {
    let first = source.block(0, 512)?;
    let entries: Vec<Block> =
        (0..4).map(|i| Block(first.bytes(446 + 16 * i, 16).to_vec())).collect();
    let is_protective = has_mbr && entries.iter().any(|entry| entry.u8(4) == 0xee);
    if let Some(table) = gpt(source, sector_bytes, damaged) {
        return Some(table);
    }
    if is_protective {
        damaged.push("protective MBR, but no copy of a GPT is whole".to_owned());
    }
    (has_mbr && !is_protective).then(|| mbr(source, sector_bytes, &entries))
}

fn mbr(source: &(impl ReadAt + ?Sized), sector_bytes: u64, records: &[Block]) -> PartitionTable {
    let mut table =
        PartitionTable { kind: "dos".to_owned(), sector_bytes, ..PartitionTable::default() };
    for (number, record) in (1..).zip(records) {
        table.entries.extend(mbr_entry(record, number, 0));
    }
    let is_extended = |entry: &&PartitionEntry| matches!(&*entry.kind, "05" | "0f" | "85");
    let Some(base) = table.entries.iter().find(is_extended).map(|entry| entry.start_sector) else {
        return table;
    };
    // Each record of the chain holds one partition, counted from itself, and the place of the next record, counted
    // from the start of the extended partition.
    let (mut at, mut number) = (base, 5);
    while number < 5 + LOGICAL_MAX {
        let place = at.checked_mul(sector_bytes);
        let Some(record) = place.and_then(|place| source.block(place, 512)) else { break };
        if !record.is(510, b"\x55\xaa") {
            break;
        }
        let part = |i: usize| Block(record.bytes(446 + 16 * i, 16).to_vec());
        if let Some(entry) = mbr_entry(&part(0), number, at) {
            table.entries.push(entry);
            number += 1;
        }
        let next = u64::from(part(1).le32(8));
        // A chain only leads onwards: anything else is a circle.
        if next == 0 || base + next <= at {
            break;
        }
        at = base + next;
    }
    table
}

fn mbr_entry(record: &Block, number: u64, base: u64) -> Option<PartitionEntry> {
    let (kind, start, sectors) = (record.u8(4), record.le32(8), record.le32(12));
    (kind != 0 && sectors != 0).then(|| PartitionEntry {
        number,
        start_sector: base + u64::from(start),
        sectors: u64::from(sectors),
        kind: format!("{kind:02x}"),
        name: None,
    })
}

/// A header whose checksum is right, with its table of entries.
struct Gpt {
    own_sector: u64,
    other_sector: u64,
    usable: (u64, u64),
    entries: Vec<PartitionEntry>,
}

fn gpt(
    source: &(impl ReadAt + ?Sized),
    sector_bytes: u64,
    damaged: &mut Vec<String>,
) -> Option<PartitionTable> {
    let sizes = std::iter::once(sector_bytes).chain(SECTOR_SIZES);
    let is_there = |size: &u64| {
        let last = (source.size_bytes() / size).checked_sub(1);
        let header =
            |sector| source.block(sector * size, 512).is_some_and(|b| b.is(0, b"EFI PART"));
        header(1) || last.is_some_and(header)
    };
    let size = sizes.into_iter().find(is_there)?;
    let last = (source.size_bytes() / size).checked_sub(1)?;
    let (first, mut problem) = match copy(source, size, 1) {
        Ok(first) => (Some(first), None),
        Err(problem) => (None, Some(format!("GPT, first copy: {problem}"))),
    };
    let second_at = first.as_ref().map_or(last, |first| first.other_sector);
    let second = match copy(source, size, second_at) {
        Ok(second) => Some(second),
        // A place behind the end is no damage of the table: the disk became smaller, or its size is wrong.
        Err(_) if second_at > last => None,
        Err(error) => {
            let text = format!("GPT, second copy in sector {second_at}: {error}");
            problem.get_or_insert(text);
            None
        }
    };
    if let (Some(a), Some(b)) = (&first, &second)
        && (a.entries != b.entries || b.other_sector != 1)
    {
        problem = Some("GPT: the two copies differ".to_owned());
    }
    damaged.extend(problem);
    let backup_sector = first.as_ref().map(|first| first.other_sector);
    let whole = first.or(second)?;
    Some(PartitionTable {
        kind: "gpt".to_owned(),
        sector_bytes: size,
        usable_sectors: Some(whole.usable),
        backup_sector: backup_sector.or(Some(whole.own_sector)),
        entries: whole.entries,
    })
}

/// The copy whose header is in this sector.
fn copy(source: &(impl ReadAt + ?Sized), size: u64, sector: u64) -> Result<Gpt, &'static str> {
    let at = sector.checked_mul(size).ok_or("its place cannot be")?;
    let header = source.block(at, 512).ok_or("it cannot be read")?;
    if !header.is(0, b"EFI PART") {
        return Err("there is none");
    }
    let len = header.le32(12) as usize;
    if !(92..=512).contains(&len) || header.le64(24) != sector {
        return Err("its header contradicts itself");
    }
    if crc32(&header.without(16, 4)[..len]) != header.le32(16) {
        return Err("the checksum of its header is wrong");
    }
    let (count, entry_bytes) = (u64::from(header.le32(80)), u64::from(header.le32(84)));
    let bytes = count * entry_bytes;
    if !(128..=4096).contains(&entry_bytes) || bytes > ENTRIES_BYTES_MAX {
        return Err("its header contradicts itself");
    }
    let place = header.le64(72).checked_mul(size).ok_or("its place cannot be")?;
    let raw = source.read_at(place, bytes).ok_or("its entries cannot be read")?;
    if crc32(&raw) != header.le32(88) {
        return Err("the checksum of its entries is wrong");
    }
    let chunks = (1..).zip(raw.chunks_exact(entry_bytes as usize));
    Ok(Gpt {
        own_sector: sector,
        other_sector: header.le64(32),
        usable: (header.le64(40), header.le64(48)),
        entries: chunks.filter_map(|(number, entry)| gpt_entry(number, entry)).collect(),
    })
}

fn gpt_entry(number: u64, entry: &[u8]) -> Option<PartitionEntry> {
    let entry = Block(entry.to_vec());
    let (first, last) = (entry.le64(32), entry.le64(40));
    if entry.id(0) == [0; 16] {
        return None;
    }
    let units: Vec<u16> =
        (0..36).map(|i| entry.le16(56 + 2 * i)).take_while(|&unit| unit != 0).collect();
    Some(PartitionEntry {
        number,
        start_sector: first,
        sectors: (last.saturating_sub(first)).saturating_add(1),
        kind: guid_text(entry.id(0)),
        name: Some(String::from_utf16_lossy(&units)).filter(|name| !name.is_empty()),
    })
}
