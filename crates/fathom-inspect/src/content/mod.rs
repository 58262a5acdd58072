//! What lies on a device, by its own superblocks: filesystem, membership in arrays and volume groups, encryption,
//! caches, partition table.
//!
//! Nothing is believed that contradicts itself: a superblock with the right magic number and a wrong checksum or
//! impossible sizes is listed as damaged. Parsers are pure functions over bytes; at most 1 MiB is read of a device, see [`Allowance`].

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
use bytes::{Device, ReadAt};
use fathom_model::snapshot::Unread;
use fathom_model::stack::detail::{Content, MdSuperblock, PartitionTable};
use fathom_sys::blkdev;
use fathom_sys::probe::{self, Signature};
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
    /// What may still be read of it.
    pub allowance: Allowance,
}

/// What superblocks and the partition table of a device say, and what could not be read. Opens the device read-only,
/// waits for nothing, and never touches one that is suspended or stands on one that is; whether a drive sleeps is the
/// caller's to ask first.
///
/// In a recorded tree an image of the device may lie at `content/NAME.img`; without it nothing is known.
#[must_use]
pub fn read(root: &SysRoot, device: &BlockDir) -> Look {
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
    let source = Device::new(file, size_bytes);
    let sector_bytes = device.disk().and_then(|disk| disk.value("queue/logical_block_size"));
    let sector_bytes = sector_bytes.filter(|bytes| [512, 1024, 2048, 4096].contains(bytes));
    let parse = || parse(&source, sector_bytes.unwrap_or(512), device.is_partition());
    let (mut content, mut table) = parse();
    if !content.damaged.is_empty() {
        // Somebody may have been writing just then.
        source.forget();
        (content, table) = parse();
    }
    let allowance = source.allowance();
    match source.failure() {
        Some(error) => {
            let content = Some(content).filter(|c| *c != Content::default());
            Look { content, table, allowance, ..unread(why(&error)) }
        }
        None => Look { content: Some(content), table, allowance, ..Look::default() },
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

/// Parts of a device that recognisers look at: the front with almost all formats, single blocks with second copies,
/// and the end.
const FRONT_BYTES: u64 = 132 << 10;
const ISLANDS_AT: [u64; 4] = [256 << 10, 512 << 10, 1 << 20, 2 << 20];
const ISLAND_BYTES: u64 = 4096;
const TAIL_BYTES: u64 = 132 << 10;

fn signatures(source: &(impl ReadAt + ?Sized)) -> Vec<Signature> {
    let size = source.size_bytes();
    let front = FRONT_BYTES.min(size);
    let tail = size.saturating_sub(TAIL_BYTES).max(front);
    let mut places = vec![(0, front), (tail, size - tail)];
    places.extend(ISLANDS_AT.map(|at| (at, ISLAND_BYTES)));
    let mut regions = Vec::new();
    for (at, len) in places.into_iter().filter(|(_, len)| *len > 0) {
        regions.extend(source.read_at(at, len).map(|bytes| (at, bytes)));
    }
    probe::signatures_among(size, regions)
}

/// Everything that can be said of the bytes.
fn parse(
    source: &(impl ReadAt + ?Sized),
    sector_bytes: u64,
    is_partition: bool,
) -> (Content, Option<PartitionTable>) {
    let found = signatures(source);
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
        if !content.other.iter().any(|known| known == name) {
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
