//! How each kind of layer lies on those below it.

use crate::array::Striping;
use crate::dm::{self, Line, SECTOR_BYTES};
use crate::scene::Scene;
use fathom_model::stack::{Node, NodeKind};

/// A piece of a volume is at most told apart this often.
const PIECES_MAX: usize = 256;
/// Files lie in multiples of the filesystem's block; most have this.
const BLOCK_BYTES_USUAL: u64 = 4096;
/// dm-integrity puts its superblock, its journal and the checksums before and between the data, each in multiples of this
/// (`SB_SECTORS`, `JOURNAL_BLOCK_SECTORS` and `METADATA_PADDING_SECTORS` of drivers/md/dm-integrity.c).
const INTEGRITY_UNIT_BYTES: u64 = 4096;
/// btrfs puts chunks on multiples of its stripe (`BTRFS_STRIPE_LEN`).
const BTRFS_UNIT_BYTES: u64 = 64 << 10;

/// A piece of a layer on one below.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the layer below.
    pub below: usize,
    /// Bytes by which addresses there are larger.
    pub shift_bytes: i128,
    /// Addresses are dealt out in chunks.
    pub cut: Option<Striping>,
    /// Addresses are moved by unknown multiples of this; 0 for not at all.
    pub loose_bytes: u64,
    /// It is several pieces, whose shifts differ from the first one's by multiples of this; 0 for a single one.
    pub apart_bytes: u64,
    /// What shifts or deals, for people.
    pub words: String,
}

/// What is below a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Below {
    /// Pieces on other layers.
    Places(Vec<Place>),
    /// Nothing: a disk.
    End,
    /// Something whose addresses are not known.
    Unknown,
}

/// How a layer lies on those below.
pub(crate) fn below(scene: &Scene<'_>, index: usize) -> Below {
    let node = scene.node(index);
    let found = match node.kind {
        NodeKind::Disk | NodeKind::NvmeMultipath | NodeKind::Zram | NodeKind::Ram => {
            return Below::End;
        }
        NodeKind::Partition => partition(scene, index),
        NodeKind::Md => md(scene, index),
        NodeKind::Dm => dm_places(scene, index),
        NodeKind::Loop => loop_device(scene, index),
        NodeKind::Bcache => bcache(scene, index),
        NodeKind::Mount => all(scene, index, 0, "mounted from"),
        NodeKind::FileSystem => filesystem(scene, index),
        NodeKind::Overlay | NodeKind::Memory | NodeKind::Remote | NodeKind::Unknown => None,
    };
    found.map_or(Below::Unknown, Below::Places)
}

/// Physical block of a disk, and its smallest preferred I/O where that is a multiple of it.
pub(crate) fn granularity(node: &Node) -> Option<(u64, u64)> {
    let queue = node.queue.as_ref()?;
    let physical = queue.physical_block_bytes.filter(|&bytes| bytes > 0)?;
    let minimum = queue.minimum_io_bytes.filter(|bytes| bytes.is_multiple_of(physical));
    Some((physical, minimum.unwrap_or(physical)))
}

/// Where the physical blocks of a disk begin.
pub(crate) fn origin_bytes(node: &Node) -> u64 {
    node.alignment_offset_bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
}

fn plain(below: usize, shift_bytes: i128, words: impl Into<String>) -> Place {
    Place { below, shift_bytes, cut: None, loose_bytes: 0, apart_bytes: 0, words: words.into() }
}

fn all(scene: &Scene<'_>, index: usize, loose_bytes: u64, words: &str) -> Option<Vec<Place>> {
    let places =
        scene.below(index).map(|(below, _)| Place { loose_bytes, ..plain(below, 0, words) });
    Some(places.collect())
}

fn partition(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    let start = scene.node(index).partition.as_ref()?.start_bytes?;
    let (disk, _) = scene.below(index).next()?;
    Some(vec![plain(disk, i128::from(start), format!("the partition starts at byte {start}"))])
}

fn filesystem(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    let loose_bytes = match scene.node(index).name.as_str() {
        "btrfs" => BTRFS_UNIT_BYTES,
        "zfs" => SECTOR_BYTES,
        _ => 0,
    };
    all(scene, index, loose_bytes, "the filesystem lies on it")
}

fn loop_device(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    let node = scene.node(index);
    let offset = node.loop_device.as_ref()?.offset_bytes.unwrap_or(0);
    let (below, holder) = scene.below(index).next()?;
    if holder.devno.is_some() {
        let words = format!("from byte {offset} of the device on");
        return Some(vec![plain(below, i128::from(offset), words)]);
    }
    let Some(file) = node.details().backing else {
        let block = scene.below(below).next().and_then(|(_, fs)| fs.fs.as_ref()?.block_bytes);
        let words = format!("from byte {offset} of the backing file, whose blocks lie anywhere");
        let place = plain(below, i128::from(offset), words);
        return Some(vec![Place { loose_bytes: block.unwrap_or(BLOCK_BYTES_USUAL), ..place }]);
    };
    let block = scene.below(below).next().and_then(|(_, fs)| fs.fs.as_ref()?.block_bytes);
    let words = match file.pieces {
        1 => format!("from byte {offset} of the backing file, which lies in one piece"),
        pieces => format!("from byte {offset} of the backing file, which lies in {pieces} pieces"),
    };
    let holes = if file.is_whole { "" } else { " and has parts without a place" };
    Some(vec![Place {
        loose_bytes: if file.is_whole { 0 } else { block.unwrap_or(BLOCK_BYTES_USUAL) },
        apart_bytes: file.step_bytes,
        ..plain(below, i128::from(offset) + i128::from(file.shift_bytes), format!("{words}{holes}"))
    }])
}

fn bcache(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    scene.below(index).find_map(|(below, node)| {
        let facts = node.details().content.as_ref()?.bcache.as_ref()?;
        let offset = facts.data_offset_bytes.filter(|_| facts.kind == "backing")?;
        Some(vec![plain(below, i128::from(offset), format!("data from byte {offset} on"))])
    })
}

fn md(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    let node = scene.node(index);
    let md = node.md.as_ref()?;
    let striping = Striping::of_md(md);
    // Of other levels than these the addresses on the members are not worked out.
    if striping.is_none() && md.level.as_deref() != Some("raid1") {
        return None;
    }
    let cut = striping.filter(|striping| !striping.is_copy);
    let offset_of = |member: &Node| {
        let listed = md.members.iter().find(|m| m.name == member.name);
        let said = member.details().content.as_ref().and_then(|c| c.md.as_ref());
        let is_in = listed.is_none_or(|m| m.slot.as_deref() != Some("none"));
        let offset = listed.and_then(|m| m.offset_bytes);
        offset.or_else(|| said?.data_offset_bytes).filter(|_| is_in)
    };
    let places = scene.below(index).filter_map(|(below, member)| {
        let offset = offset_of(member)?;
        let words = format!("data from byte {offset} of the member on");
        Some(Place { cut, ..plain(below, i128::from(offset), words) })
    });
    Some(places.collect())
}

fn dm_places(scene: &Scene<'_>, index: usize) -> Option<Vec<Place>> {
    let facts = scene.node(index).dm.as_ref()?;
    let mut places: Vec<Place> = Vec::new();
    for line in facts.table.iter().take(PIECES_MAX).filter_map(|text| dm::line(text)) {
        for place in target(scene, index, line)? {
            let is_known = |known: &Place| {
                (known.below, known.shift_bytes, known.cut)
                    == (place.below, place.shift_bytes, place.cut)
            };
            if !places.iter().any(is_known) {
                places.push(place);
            }
        }
    }
    (!places.is_empty()).then_some(places)
}

/// The device that a word `major:minor` means, among those below.
fn named(scene: &Scene<'_>, index: usize, word: &str) -> Option<usize> {
    scene.below(index).find(|(_, node)| node.devno.as_deref() == Some(word)).map(|(below, _)| below)
}

/// One line of a table; none for targets whose addresses are not known.
fn target(scene: &Scene<'_>, index: usize, line: Line<'_>) -> Option<Vec<Place>> {
    let words: Vec<&str> = line.words.split_ascii_whitespace().collect();
    let device = |at: usize| named(scene, index, words.get(at)?);
    // Address in the volume to address below: what stands in the table less where the piece begins.
    let shifted = |below: usize, sector: Option<&&str>, what: &str| {
        let sector: u64 = sector?.parse().ok()?;
        let sectors = i128::from(sector) - i128::from(line.start_sector);
        let words =
            format!("{what} from byte {} on", i128::from(sector) * i128::from(SECTOR_BYTES));
        Some(plain(below, sectors * i128::from(SECTOR_BYTES), words))
    };
    let same = |at: usize, what: &str| Some(vec![plain(device(at)?, 0, what)]);
    match line.kind {
        "linear" | "flakey" | "delay" | "dust" => {
            Some(vec![shifted(device(0)?, words.get(1), "piece of the volume")?])
        }
        "crypt" => Some(vec![shifted(device(3)?, words.get(4), "encrypted data")?]),
        "striped" => {
            let striping = Striping::of_line(line);
            let cut = striping.filter(|striping| !striping.is_copy);
            let legs = words.get(2..)?.chunks_exact(2);
            let leg = |pair: &[&str]| {
                let place = shifted(named(scene, index, pair[0])?, Some(&pair[1]), "stripes")?;
                Some(Place { cut, ..place })
            };
            legs.map(leg).collect()
        }
        "raid" => {
            let striping = Striping::of_line(line);
            let is_copy = words.first() == Some(&"raid1");
            if striping.is_none() && !is_copy {
                return None;
            }
            let cut = striping.filter(|striping| !striping.is_copy);
            let legs = dm::legs(line).into_iter().filter_map(|leg| named(scene, index, leg));
            Some(legs.map(|leg| Place { cut, ..plain(leg, 0, "a leg of the volume") }).collect())
        }
        "mirror" => {
            let legs = dm::legs(line).into_iter().filter_map(|leg| named(scene, index, leg));
            Some(legs.map(|leg| plain(leg, 0, "a copy of the volume")).collect())
        }
        "thin" => {
            let pool = device(0)?;
            let table = scene.node(pool).dm.as_ref()?.table.first()?;
            let chunk_bytes = dm::pool_table(dm::line(table)?.words)?.chunk_bytes;
            let place = plain(pool, 0, "chunks of the thin pool");
            let cut = (chunk_bytes > 0).then(|| dealt_one_by_one(chunk_bytes));
            Some(vec![Place { cut, ..place }])
        }
        "thin-pool" => same(1, "the pool's data"),
        "cache" => same(2, "the cached volume"),
        "writecache" | "era" => same(1, "the volume below"),
        "integrity" => Some(vec![integrity(device(0)?, &words)?]),
        "snapshot-origin" => same(0, "the origin"),
        "snapshot" => {
            // What was not changed lies in the origin, the rest in pieces anywhere in the store.
            let (origin, store) = (device(0)?, device(1)?);
            let chunk_bytes = words.get(3)?.parse::<u64>().ok()?.checked_mul(SECTOR_BYTES)?;
            let cut = (chunk_bytes > 0).then(|| dealt_one_by_one(chunk_bytes));
            let stored = Place { cut, ..plain(store, 0, "pieces in the store of the snapshot") };
            Some(vec![plain(origin, 0, "the origin"), stored])
        }
        "multipath" => {
            let (first, _) = scene.below(index).next()?;
            Some(vec![plain(first, 0, "one of its paths")])
        }
        _ => None,
    }
}

/// Data on dm-integrity: between their checksums behind the reserved sectors, or alone where another device has these.
fn integrity(below: usize, words: &[&str]) -> Option<Place> {
    if words.iter().any(|word| word.starts_with("meta_device:")) {
        return Some(plain(below, 0, "data, with their checksums elsewhere"));
    }
    let reserved: u64 = words.get(1)?.parse().ok()?;
    let shift_bytes = i128::from(reserved) * i128::from(SECTOR_BYTES);
    let place = plain(below, shift_bytes, "data between their checksums");
    Some(Place { loose_bytes: INTEGRITY_UNIT_BYTES, ..place })
}

/// Chunks that lie anywhere: as if they were dealt out one by one.
fn dealt_one_by_one(chunk_bytes: u64) -> Striping {
    Striping { chunk_bytes, data_disks: 1, disks: 1, near_copies: 1, parity: false, is_copy: false }
}
