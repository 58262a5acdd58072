//! What lies on a device, by its own superblocks: filesystem, membership in arrays and volume groups, encryption,
//! caches, partition table.
//!
//! Nothing is believed that contradicts itself: a superblock with the right magic number and a wrong checksum or
//! impossible sizes is listed as damaged. Parsers are pure functions over bytes; at most 1 MiB is read of a whole device, which
//! its partitions share, see [`Allowance`].

mod bcache;
mod bytes;
mod checksum;
mod filesystems;
mod luks;
mod lvm;
mod lvm_text;
mod md;
mod sha256;
mod table;
#[cfg(test)]
mod tests;

use crate::layers;
pub use bytes::Allowance;
pub(crate) use bytes::READ_BYTES_MAX;
use bytes::{Device, ReadAt};
use fathom_model::snapshot::Unread;
use fathom_model::stack::detail::{Content, MdSuperblock, PartitionTable};
use fathom_sys::blkdev;
use fathom_sys::probe::{self, Signature, SignatureKind};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::path::Path;

/// What a parser says: nothing of its format is there, its facts, or how they contradict themselves.
type Found<T> = Result<Option<T>, String>;

/// What was found on a device.
#[derive(Debug, Default, PartialEq)]
pub struct Look {
    /// What its superblocks say.
    pub content: Option<Content>,
    /// Its partition table.
    pub table: Option<PartitionTable>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Bytes that were read of it.
    pub read_bytes: u64,
}

/// Why something of a device was not read that could have been: see [`Allowance`].
pub(crate) const SPENT: &str = "1 MiB was read of the whole device: no more";

/// What superblocks and the partition table of a device say, and what could not be read or lay beyond the allowance. Opens the device read-only,
/// waits for nothing, and never touches one that is suspended or stands on one that is; whether a drive sleeps is the
/// caller's to ask first.
///
/// In a recorded tree an image of the device may lie at `content/NAME.img`; without it nothing is known.
#[must_use]
pub fn read(root: &SysRoot, device: &BlockDir, allowance: Allowance) -> Look {
    let unread = |why: String| {
        let what = format!("superblocks of {}", device.dev_path());
        Look { unread: vec![Unread { what, why }], ..Look::default() }
    };
    if layers::is_suspended(device) {
        return unread("suspended: not touched".to_owned());
    }
    let size_bytes = device.size_bytes().unwrap_or_default();
    if size_bytes == 0 {
        return Look::default();
    }
    let file = match open(root, device) {
        Ok(Some(file)) => file,
        Ok(None) => return Look::default(),
        Err(error) => return unread(why(&error)),
    };
    let source = Device::new(file, size_bytes, allowance);
    let sector_bytes = device.disk().and_then(|disk| disk.value("queue/logical_block_size"));
    let sector_bytes = sector_bytes.filter(|bytes| [512, 1024, 2048, 4096].contains(bytes));
    let parse = || parse(&source, sector_bytes.unwrap_or(512), device.is_partition());
    let (mut content, mut table) = parse();
    if !content.damaged.is_empty() && source.can_read_again() {
        // Somebody may have been writing just then.
        source.forget();
        (content, table) = parse();
    }
    let read_bytes = source.read_bytes();
    match source.failure() {
        Some(error) => {
            let content = Some(content).filter(|c| *c != Content::default());
            Look { content, table, read_bytes, ..unread(why(&error)) }
        }
        None => {
            let what = format!("part of the superblocks of {}", device.dev_path());
            let short = source.is_short().then(|| Unread { what, why: SPENT.to_owned() });
            Look { content: Some(content), table, read_bytes, unread: short.into_iter().collect() }
        }
    }
}

/// The device, or its image in a recorded tree; none where there is no image.
fn open(root: &SysRoot, device: &BlockDir) -> io::Result<Option<File>> {
    if !root.is_live() {
        let image = root.path(Path::new("content").join(format!("{}.img", device.name())));
        return Ok(File::open(image).ok());
    }
    // md writes its superblocks past the page cache, which may still hold those of an earlier look.
    let is_member = device.holders().iter().any(|holder| holder.has("md"));
    blkdev::open_to_look(Path::new(&device.dev_path()), is_member).map(Some)
}

fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no permission".to_owned(),
        io::ErrorKind::NotFound => "vanished".to_owned(),
        _ => format!("unreadable: {error}"),
    }
}

/// Pieces of a device that recognisers look at: where it begins and how long it is.
type Place = (u64, u64);
const PAGE_BYTES: u64 = 4096;
/// Where almost all formats in use are: at the front, btrfs at 64 KiB, md and the copy of a GPT at the end.
const COMMON_AT: [u64; 3] = [0, PAGE_BYTES, 64 << 10];
const COMMON_TAIL_BYTES: u64 = 3 * PAGE_BYTES;
/// Where rare and old formats are, and second copies.
const RARE_AT: [u64; 12] = [
    8 << 10,
    12 << 10,
    16 << 10,
    28 << 10,
    32 << 10,
    36 << 10,
    60 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
];
/// Where controllers that make arrays of whole disks write, counted from the end: Promise, DDF.
const FIRMWARE_FROM_END: [u64; 4] = [63 * 512, 255 * 512, 256 * 512, 257 * 512];
/// An external log of XFS without a filesystem around it shows by its records only, anywhere in here.
const FRONT_BYTES: u64 = 132 << 10;

/// What lies on it by fixed marks. Of a partition that has something common nothing else is looked for.
fn signatures(source: &(impl ReadAt + ?Sized), is_partition: bool) -> Vec<Signature> {
    let size = source.size_bytes();
    let page = |at: u64| (at / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES);
    let tail = page(size.saturating_sub(COMMON_TAIL_BYTES)).0;
    let old_md = (size / md::OLD_UNIT_BYTES * md::OLD_UNIT_BYTES).checked_sub(md::OLD_UNIT_BYTES);
    let mut common: Vec<Place> = COMMON_AT.map(page).to_vec();
    common.push((tail, size - tail));
    common.extend(old_md.map(page));
    let mut rare: Vec<Place> = RARE_AT.map(page).to_vec();
    if !is_partition {
        let from_end = FIRMWARE_FROM_END.into_iter().filter_map(|from| size.checked_sub(from));
        rare.extend(from_end.map(page));
    }
    let mut regions = Vec::new();
    let mut found = Vec::new();
    for (round, places) in [common, rare, vec![(0, FRONT_BYTES)]].into_iter().enumerate() {
        let places = places.into_iter().filter(|(at, _)| *at < size);
        regions.extend(places.filter_map(|(at, len)| {
            source.read_at(at, len.min(size - at)).map(|bytes| (at, bytes))
        }));
        found = probe::signatures_among(size, regions.clone());
        let is_enough = match round {
            0 => is_partition && found.iter().any(is_conclusive),
            _ => !found.is_empty(),
        };
        if is_enough {
            break;
        }
    }
    found
}

/// False for boot sectors, which many formats have beside their own marks.
fn is_conclusive(signature: &Signature) -> bool {
    !matches!(signature.kind, SignatureKind::BootSector | SignatureKind::PartitionTable)
}

/// Everything that can be said of the bytes.
fn parse(
    source: &(impl ReadAt + ?Sized),
    sector_bytes: u64,
    is_partition: bool,
) -> (Content, Option<PartitionTable>) {
    let found = signatures(source, is_partition);
    let mut content = Content::default();
    let damaged = &mut content.damaged;
    let filesystems = [
        keep(filesystems::xfs(source), damaged),
        keep(filesystems::btrfs(source), damaged),
        keep(filesystems::f2fs(source), damaged),
        keep(filesystems::ext(source), damaged),
    ];
    let mut filesystems = filesystems.into_iter().flatten();
    content.filesystem = filesystems.next();
    content.other.extend(filesystems.map(|further| further.fs_type));
    content.md = keep(md::md(source), damaged).or_else(|| foreign_md(&found));
    let lvm = lvm::lvm(source, damaged);
    content.lvm = keep(lvm, damaged);
    content.luks = keep(luks::luks(source), damaged);
    content.bcache = keep(bcache::bcache(source), damaged);
    for name in found.iter().filter_map(other_name) {
        // The second header of LUKS2 says something only where the first one is damaged.
        let is_second = name == "LUKS2 (secondary header)" && content.luks.is_some();
        if !is_second && !content.other.iter().any(|known| known == name) {
            content.other.push(name.to_owned());
        }
    }
    let has_mbr = found.iter().any(|s| s.name.starts_with("MBR"));
    let table = if is_partition {
        None
    } else {
        table::table(source, sector_bytes, has_mbr, &mut content.damaged)
    };
    (content, table)
}

fn keep<T>(found: Found<T>, damaged: &mut Vec<String>) -> Option<T> {
    found.unwrap_or_else(|text| {
        damaged.push(text);
        None
    })
}

/// Membership in an array whose metadata are a firmware's.
fn foreign_md(found: &[Signature]) -> Option<MdSuperblock> {
    let version = |signature: &Signature| match signature.name {
        "Intel RAID (IMSM)" => Some("imsm"),
        "DDF RAID" => Some("ddf"),
        _ => None,
    };
    let version = found.iter().find_map(version)?;
    Some(MdSuperblock { version: version.to_owned(), ..MdSuperblock::default() })
}

/// The name of what has no place of its own among the contents.
fn other_name(signature: &Signature) -> Option<&'static str> {
    match signature.name {
        "ext2" | "ext3" | "ext4" | "ext journal" | "xfs" | "btrfs" | "f2fs" | "md 0.90"
        | "md 1.0" | "md 1.1" | "md 1.2" | "LVM2 PV" | "LUKS1" | "LUKS2" | "bcache" => None,
        name if name.starts_with("MBR") || name.starts_with("GPT") => None,
        "ZFS member" => Some("zfs_member"),
        "Intel RAID (IMSM)" => Some("isw_raid_member"),
        "DDF RAID" => Some("ddf_raid_member"),
        name => Some(name),
    }
}
