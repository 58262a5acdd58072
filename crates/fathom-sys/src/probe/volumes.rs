//! Members of md arrays, LVM, ZFS pools, DRBD and device-mapper stores, whose places depend on the device's size or
//! whose magic numbers need a second look.

use super::SignatureKind::{Raid, Volume};
use super::{Image, Signature, table};

/// A ZFS label is 256 KiB: two at the front, two at the end of the device (rounded down to whole labels).
const ZFS_LABEL_BYTES: u64 = 256 << 10;
/// The pool's configuration inside a label, as an XDR name-value list.
pub(super) const ZFS_CONFIG_AT: u64 = 16 << 10;
/// The ring of uberblocks inside a label.
pub(super) const ZFS_RING_AT: u64 = 128 << 10;
/// Its size; slots are a power of two from 1 KiB.
pub(super) const ZFS_RING_BYTES: u64 = 128 << 10;
const ZFS_SLOT_BYTES: u64 = 1 << 10;
const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;

pub(super) fn find(image: &Image) -> Vec<Signature> {
    let mut found = md(image);
    found.extend(lvm(image));
    found.extend(zfs(image));
    found.extend(drbd(image));
    found.extend(dm_metadata(image));
    found
}

/// Where the two labels at the end start; empty for a device that is too small for ZFS.
pub(super) fn zfs_tail_labels(size_bytes: u64) -> Vec<u64> {
    let whole = size_bytes / ZFS_LABEL_BYTES * ZFS_LABEL_BYTES;
    if whole < 4 * ZFS_LABEL_BYTES {
        return Vec::new();
    }
    vec![whole - 2 * ZFS_LABEL_BYTES, whole - ZFS_LABEL_BYTES]
}

fn zfs(image: &Image) -> Option<Signature> {
    let mut labels = vec![0, ZFS_LABEL_BYTES];
    labels.extend(zfs_tail_labels(image.size_bytes()));
    labels.into_iter().find_map(|label| {
        let config = label + ZFS_CONFIG_AT;
        // XDR encoding, either byte order of the writer, list version 0, unique names.
        let is_config = image.is(config, b"\x01\x01\0\0\0\0\0\0\0\0\0\x01")
            || image.is(config, b"\x01\x00\0\0\0\0\0\0\0\0\0\x01");
        if is_config {
            return Some(Signature::new(Volume, "ZFS member", config));
        }
        (0..ZFS_RING_BYTES / ZFS_SLOT_BYTES).find_map(|slot| {
            let at = label + ZFS_RING_AT + slot * ZFS_SLOT_BYTES;
            let magic = image.le64(at)?;
            let is_uberblock = magic == ZFS_UBERBLOCK || magic.swap_bytes() == ZFS_UBERBLOCK;
            is_uberblock.then(|| Signature::new(Volume, "ZFS member", at))
        })
    })
}

/// md superblocks: 0.90 in the last whole 64 KiB block but one (byte order of its host), 1.0 near the end, 1.1 at
/// the start, 1.2 at 4 KiB.
fn md(image: &Image) -> Vec<Signature> {
    const MAGIC: u32 = 0xa92b_4efc;
    const OLD_BYTES: u64 = 64 << 10;
    let mut found = Vec::new();
    let sectors = image.size_bytes() / 512;
    let places = [
        ("md 1.0", sectors.checked_sub(16).map(|s| (s & !7) * 512)),
        ("md 1.1", Some(0)),
        ("md 1.2", Some(4096)),
    ];
    for (name, at) in places {
        let Some(at) = at else { continue };
        if image.le32(at) == Some(MAGIC) && image.le32(at + 4) == Some(1) {
            let signature = Signature::new(Raid, name, at);
            found.push(signature.with(image.uuid(at + 16), image.text(at + 32, 32)));
        }
    }
    if let Some(at) = (image.size_bytes() / OLD_BYTES * OLD_BYTES).checked_sub(OLD_BYTES) {
        let magic = [image.le32(at), image.be32(at)].contains(&Some(MAGIC));
        let version = [image.le32(at + 4), image.be32(at + 4)].contains(&Some(0));
        if magic && version {
            let mut uuid = [0; 16];
            uuid[..4].copy_from_slice(&image.array::<4>(at + 20).unwrap_or_default());
            uuid[4..].copy_from_slice(&image.array::<12>(at + 52).unwrap_or_default());
            let uuid = (uuid != [0; 16]).then(|| table::uuid_text(uuid));
            found.push(Signature::new(Raid, "md 0.90", at).with(uuid, None));
        }
    }
    found
}

/// An LVM2 label lies in one of the first four sectors; without its type, which `wipefs` erases, LVM ignores it too.
fn lvm(image: &Image) -> Option<Signature> {
    (0..4).map(|sector| sector * 512).find_map(|at| {
        if !image.is(at, b"LABELONE") || !image.is(at + 24, b"LVM2 001") {
            return None;
        }
        let header = at + u64::from(image.le32(at + 20)?);
        let uuid = image.text(header, 32).filter(|text| text.len() == 32);
        Some(Signature::new(Volume, "LVM2 PV", at).with(uuid, None))
    })
}

/// DRBD's internal metadata end with the device.
fn drbd(image: &Image) -> Option<Signature> {
    const MAGIC_AT: u64 = 60;
    let at = (image.size_bytes() / 4096 * 4096).checked_sub(4096)? + MAGIC_AT;
    let known = (0x8374_026b..=0x8374_026d).contains(&image.be32(at)?);
    known.then(|| Signature::new(Raid, "DRBD", at))
}

/// Metadata devices of dm-thin, dm-cache and dm-era.
fn dm_metadata(image: &Image) -> Option<Signature> {
    const MAGIC_AT: u64 = 32;
    let name = match image.le64(MAGIC_AT)? {
        27_022_010 => "dm-thin metadata",
        6_142_003 => "dm-cache metadata",
        2_126_579_579 => "dm-era metadata",
        _ => return None,
    };
    Some(Signature::new(Volume, name, MAGIC_AT))
}
