//! Single entries of partition tables: the identifier of a partition and what it is meant for.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a partition table says about one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEntry {
    /// PARTUUID as the kernel writes it, in lower case.
    pub uuid: String,
    /// The type: a GUID in lower case for GPT, `0x83` and the like for MBR; none for logical partitions.
    pub type_id: Option<String>,
}

/// The entry of partition `number` (from 1) on the disk behind `disk`; none when there is no table or no such entry.
///
/// # Errors
/// Those of reading.
pub fn partition_entry(disk: &File, number: u32) -> io::Result<Option<PartitionEntry>> {
    for block in [512, 1024, 2048, 4096] {
        let header: [u8; 92] = read(disk, block)?;
        if header.starts_with(b"EFI PART") {
            return gpt_entry(disk, &header, block, number);
        }
    }
    mbr_entry(disk, number)
}

fn gpt_entry(
    disk: &File,
    header: &[u8; 92],
    block_bytes: u64,
    number: u32,
) -> io::Result<Option<PartitionEntry>> {
    let (first, count, size) = (le64(header, 72), le32(header, 80), le32(header, 84));
    if number == 0 || number > count || !(128..=4096).contains(&size) {
        return Ok(None);
    }
    let Some(offset) = first
        .checked_mul(block_bytes)
        .and_then(|start| start.checked_add(u64::from(number - 1) * u64::from(size)))
    else {
        return Ok(None);
    };
    let entry: [u8; 32] = read(disk, offset)?;
    let guid = |at: usize| guid_text(std::array::from_fn(|i| entry[at + i]));
    if entry[..16] == [0; 16] {
        return Ok(None);
    }
    Ok(Some(PartitionEntry { uuid: guid(16), type_id: Some(guid(0)) }))
}

fn mbr_entry(disk: &File, number: u32) -> io::Result<Option<PartitionEntry>> {
    let sector: [u8; 512] = read(disk, 0)?;
    let disk_id = le32(&sector, 440);
    if sector[510..] != [0x55, 0xaa] || disk_id == 0 || number == 0 || number > 255 {
        return Ok(None);
    }
    let uuid = format!("{disk_id:08x}-{number:02x}");
    if number > 4 {
        return Ok(Some(PartitionEntry { uuid, type_id: None }));
    }
    let kind = sector[446 + 16 * (number as usize - 1) + 4];
    Ok((kind != 0).then(|| PartitionEntry { uuid, type_id: Some(format!("{kind:#04x}")) }))
}

/// Reads what is there; the part behind the end of the device stays zero.
fn read<const N: usize>(disk: &File, offset: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match disk.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    Ok(bytes)
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The usual text form of a UUID that is stored in reading order.
#[must_use]
pub fn uuid_text(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The usual text form of a GUID, whose first three groups are stored in little-endian order.
#[must_use]
pub fn guid_text(mut bytes: [u8; 16]) -> String {
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    uuid_text(bytes)
}
