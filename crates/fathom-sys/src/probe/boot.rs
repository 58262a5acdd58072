//! Boot sectors and partition tables: FAT, NTFS, exFAT, MBR, GPT, BSD, Sun, Amiga.
//!
//! An MBR that is signed but lists no partition still counts as a partition table: the loss of its entries is just
//! what somebody may be about to repair. A signed sector that starts with a jump but is none of these is reported as
//! an unknown boot sector.

use super::SignatureKind::{BootSector, Filesystem, PartitionTable};
use super::{Image, Signature};

/// Logical block sizes at which a GPT may have been written.
const BLOCK_SIZES: [u64; 4] = [512, 1024, 2048, 4096];

pub(super) fn find(image: &Image, others: &[Signature]) -> Vec<Signature> {
    let mut found = gpt(image);
    found.extend([bsd(image), sun(image), amiga(image)].into_iter().flatten());
    let volume = fat(image).or_else(|| named_boot_sector(image));
    let boot_sector_is_known = volume.is_some() || others.iter().any(|s| s.name == "BitLocker");
    found.extend(volume);
    if !boot_sector_is_known {
        found.extend(mbr(image));
    }
    found
}

fn gpt(image: &Image) -> Vec<Signature> {
    let is_header = |at: u64| image.is(at, b"EFI PART");
    let guid = |at: u64| image.array::<16>(at + 56).map(super::table::guid_text);
    let primary = BLOCK_SIZES.into_iter().find(|&at| is_header(at));
    let backup = BLOCK_SIZES
        .into_iter()
        .filter_map(|block| (image.size_bytes() / block * block).checked_sub(block))
        .find(|&at| is_header(at));
    match (primary, backup) {
        (Some(at), _) => vec![Signature::new(PartitionTable, "GPT", at).with(guid(at), None)],
        (None, Some(at)) => {
            vec![Signature::new(PartitionTable, "GPT (backup only)", at).with(guid(at), None)]
        }
        (None, None) => Vec::new(),
    }
}

fn is_signed(image: &Image) -> bool {
    image.is(510, b"\x55\xaa")
}

fn starts_with_jump(image: &Image) -> bool {
    image.u8(0) == Some(0xe9) || (image.u8(0) == Some(0xeb) && image.u8(2) == Some(0x90))
}

/// FAT 12, 16, 32: by its own type string, or by a boot sector with sane parameters.
fn fat(image: &Image) -> Option<Signature> {
    let string = |at: u64| {
        let known = [b"FAT12   ", b"FAT16   ", b"FAT32   ", b"FAT     "];
        known.iter().any(|text| image.is(at, *text))
    };
    let (old, new) = (string(54), string(82));
    let sector_bytes = image.le16(11)?;
    let parameters = (512..=4096).contains(&sector_bytes)
        && sector_bytes.is_power_of_two()
        && image.u8(13)?.is_power_of_two()
        && image.le16(14)? != 0
        && (1..=4).contains(&image.u8(16)?)
        && image.u8(21)? >= 0xf0;
    if !(old || new || (is_signed(image) && parameters)) {
        return None;
    }
    let (id_at, label_at) = if new { (67, 71) } else { (39, 43) };
    let id = image.le32(id_at).map(|id| format!("{:04X}-{:04X}", id >> 16, id & 0xffff));
    let label = image.text(label_at, 11).filter(|label| label != "NO NAME");
    Some(Signature::new(Filesystem, "fat", 0).with(id, label))
}

fn named_boot_sector(image: &Image) -> Option<Signature> {
    let known: [(&str, &[u8; 8]); 3] =
        [("ntfs", b"NTFS    "), ("exfat", b"EXFAT   "), ("refs", b"ReFS\0\0\0\0")];
    let (name, _) = known.into_iter().find(|(_, magic)| image.is(3, *magic))?;
    let id = match name {
        "ntfs" => image.le64(72).map(|id| format!("{id:016X}")),
        "exfat" => image.le32(100).map(|id| format!("{:04X}-{:04X}", id >> 16, id & 0xffff)),
        _ => None,
    };
    Some(Signature::new(Filesystem, name, 3).with(id, None))
}

fn mbr(image: &Image) -> Option<Signature> {
    const ENTRIES_AT: u64 = 446;
    const ENTRY_BYTES: u64 = 16;
    if !is_signed(image) {
        return None;
    }
    let entries: Vec<&[u8]> =
        (0..4).filter_map(|i| image.get(ENTRIES_AT + i * ENTRY_BYTES, 16)).collect();
    let is_table = entries.len() == 4 && entries.iter().all(|entry| matches!(entry[0], 0 | 0x80));
    if is_table {
        let has_type = |kind: u8| entries.iter().any(|entry| entry[4] == kind);
        let is_empty = entries.iter().all(|entry| entry[4] == 0);
        let name = match (is_empty, has_type(0xee)) {
            (true, _) => "MBR (no partitions)",
            (_, true) => "MBR (protective)",
            _ => "MBR",
        };
        let id = image.le32(440).filter(|&id| id != 0).map(|id| format!("{id:08x}"));
        return Some(Signature::new(PartitionTable, name, 510).with(id, None));
    }
    starts_with_jump(image).then(|| Signature::new(BootSector, "unknown boot sector", 510))
}

/// A BSD disk label: its magic number twice, 132 bytes apart.
fn bsd(image: &Image) -> Option<Signature> {
    const MAGIC: u32 = 0x8256_4557;
    [0, 64, 128, 512, 576, 1024].into_iter().find_map(|at| {
        let little = [image.le32(at), image.le32(at + 132)] == [Some(MAGIC); 2];
        let big = [image.be32(at), image.be32(at + 132)] == [Some(MAGIC); 2];
        (little || big).then(|| Signature::new(PartitionTable, "BSD disk label", at))
    })
}

/// A Sun label: a 16-bit magic number, and all words of the sector add up to zero by exclusive or.
fn sun(image: &Image) -> Option<Signature> {
    let sector = image.get(0, 512)?;
    let parity = sector.chunks_exact(2).fold(0, |sum, b| sum ^ u16::from_be_bytes([b[0], b[1]]));
    (image.be16(508)? == 0xdabe && parity == 0)
        .then(|| Signature::new(PartitionTable, "Sun disk label", 508))
}

/// An Amiga rigid disk block lies in one of the first sixteen sectors.
fn amiga(image: &Image) -> Option<Signature> {
    (0..16)
        .map(|sector| sector * 512)
        .find(|&at| image.is(at, b"RDSK") && image.be32(at + 4).is_some_and(|longs| longs <= 128))
        .map(|at| Signature::new(PartitionTable, "Amiga partition table", at))
}
