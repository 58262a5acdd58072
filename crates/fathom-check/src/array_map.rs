//! Where the addresses of a software array lie: from a sector of the array to the disks and sectors that hold it, its copies
//! and its parity, as the kernel's md places them (`raid0.c`, `raid1.c`, `raid5.c`, `raid10.c`).
//!
//! [`demand`] says from that what a request costs on the members, so that what they count can be held against it: one small
//! read that wakes every disk is then seen.

pub mod demand;
mod parity;
#[cfg(test)]
mod tests;

use fathom_base::order::Order;
use fathom_model::stack::MdFacts;
use parity::Rotation;
use std::fmt;

/// Sectors of the kernel's interfaces.
const SECTOR_BYTES: u64 = 512;
/// Far sets, which mdadm does not make: copies that stay inside of groups of disks.
const FAR_SETS: u64 = 0b11 << 17;

/// A geometry that md does not have, or that this does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapError(String);

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no map of this array: {}", self.0)
    }
}

impl std::error::Error for MapError {}

/// A place on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Slot of the member, from 0.
    pub disk: u64,
    /// Sector from the start of the array's data there.
    pub sector: u64,
}

/// How a level places its data.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Zones of a striped array: as long as all disks last, then the longer ones alone.
    Striped { zones: Vec<Zone>, by_zone: bool },
    /// The same on each.
    Mirrored,
    /// With one parity or two.
    Parity { rotation: Rotation, parities: u64 },
    /// Copies side by side, and in other sections or in the next row.
    Copied { near: u64, far: u64, is_offset: bool },
}

/// A part of a striped array in which the same disks take part.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    /// First chunk of the array.
    first_chunk: u64,
    /// First chunk on the disks.
    disk_chunk: u64,
    /// Disks that reach so far, by slot.
    disks: Vec<u64>,
}

/// The map of one array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayMap {
    kind: Kind,
    disks: u64,
    chunk_sectors: u64,
    /// Whole chunks that the smallest disk has.
    disk_chunks: u64,
    /// Chunks of the array.
    chunks: u64,
}

impl ArrayMap {
    /// The map for a level and a layout as the kernel numbers it, over disks with so many sectors of data each. Chunks are in
    /// sectors; raid1 has none and takes any.
    ///
    /// # Errors
    /// [`MapError`] for what md does not make.
    pub fn new(
        level: &str,
        layout: u64,
        chunk_sectors: u64,
        disk_sectors: &[u64],
    ) -> Result<Self, MapError> {
        let refuse = |why: String| Err(MapError(why));
        let disks = disk_sectors.len() as u64;
        let least = match level {
            "raid4" | "raid5" | "raid6" => 3,
            _ => 2,
        };
        if disks < least {
            return refuse(format!("{level} of {disks} disks"));
        }
        let chunk_sectors = if level == "raid1" { 1 } else { chunk_sectors };
        if chunk_sectors == 0 {
            return refuse(format!("{level} without a chunk"));
        }
        let smallest = disk_sectors.iter().min().copied().unwrap_or(0);
        let disk_chunks = smallest / chunk_sectors;
        let (kind, chunks) = match level {
            "raid0" => {
                let zones = zones(disk_sectors, chunk_sectors);
                let chunks = disk_sectors.iter().map(|sectors| sectors / chunk_sectors).sum();
                (Kind::Striped { zones, by_zone: layout != 1 }, chunks)
            }
            "raid1" => (Kind::Mirrored, disk_chunks),
            "raid4" | "raid5" | "raid6" => {
                let parities = if level == "raid6" { 2 } else { 1 };
                let layout = if level == "raid4" { 5 } else { layout };
                let Some(rotation) = Rotation::of(parities, layout) else {
                    return refuse(format!("{level} with layout {layout}"));
                };
                if disks <= parities {
                    return refuse(format!("{level} of {disks} disks"));
                }
                (Kind::Parity { rotation, parities }, disk_chunks * (disks - parities))
            }
            "raid10" => {
                let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
                let is_offset = layout & 1 << 16 != 0;
                let copies = near * far;
                if near == 0 || far == 0 || copies > disks || layout & FAR_SETS != 0 {
                    return refuse(format!("raid10 of {disks} disks with layout {layout:#x}"));
                }
                if is_offset && near > 1 && far > 1 && !disks.is_multiple_of(near) {
                    // Two chunks would have one place.
                    return refuse(format!("near and offset copies mixed over {disks} disks"));
                }
                let chunks = disk_chunks / far * disks / near;
                (Kind::Copied { near, far, is_offset }, chunks)
            }
            other => return refuse(format!("level {other}")),
        };
        Ok(Self { kind, disks, chunk_sectors, disk_chunks, chunks })
    }

    /// That of an array with equal members of so many bytes; none for what is unknown.
    #[must_use]
    pub fn of_md(md: &MdFacts, member_bytes: u64) -> Option<Self> {
        let disks = usize::try_from(md.raid_disks?).ok().filter(|disks| *disks <= 1024)?;
        let chunk_sectors = md.chunk_bytes.unwrap_or(0) / SECTOR_BYTES;
        let sizes = vec![member_bytes / SECTOR_BYTES; disks];
        Self::new(md.level.as_deref()?, md.layout.unwrap_or(0), chunk_sectors, &sizes).ok()
    }

    /// Sectors of the array.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.chunks * self.chunk_sectors
    }

    /// Members.
    #[must_use]
    pub fn disks(&self) -> u64 {
        self.disks
    }

    /// Sectors that lie on one member before the next one's turn.
    #[must_use]
    pub fn chunk_sectors(&self) -> u64 {
        self.chunk_sectors
    }

    /// Disks' worth of parity in a stripe.
    #[must_use]
    pub fn parities(&self) -> u64 {
        match self.kind {
            Kind::Parity { parities, .. } => parities,
            _ => 0,
        }
    }

    /// How often each sector is there, parity not counted.
    #[must_use]
    pub fn copies(&self) -> u64 {
        match self.kind {
            Kind::Mirrored => self.disks,
            Kind::Copied { near, far, .. } => near * far,
            _ => 1,
        }
    }

    /// Disks that may fail whatever they are, without loss.
    #[must_use]
    pub fn may_fail(&self) -> u64 {
        match self.kind {
            Kind::Parity { parities, .. } => parities,
            _ => self.copies() - 1,
        }
    }

    /// Where a sector of the array lies: every copy, the first one first. Empty beyond the end.
    #[must_use]
    pub fn places(&self, sector: u64) -> Vec<Place> {
        let (chunk, rest) = (sector / self.chunk_sectors, sector % self.chunk_sectors);
        if chunk >= self.chunks {
            return Vec::new();
        }
        let at = |disk: u64, disk_chunk: u64| Place {
            disk,
            sector: disk_chunk * self.chunk_sectors + rest,
        };
        match &self.kind {
            Kind::Mirrored => (0..self.disks).map(|disk| at(disk, chunk)).collect(),
            Kind::Striped { zones, by_zone } => {
                let zone = zones.iter().rfind(|zone| zone.first_chunk <= chunk);
                let Some(zone) = zone else { return Vec::new() };
                let inside = chunk - zone.first_chunk;
                let count = zone.disks.len() as u64;
                let turn = if *by_zone { inside } else { chunk } % count;
                vec![at(zone.disks[turn as usize], zone.disk_chunk + inside / count)]
            }
            Kind::Parity { rotation, parities } => {
                let data = self.disks - parities;
                let (stripe, index) = (chunk / data, chunk % data);
                vec![at(rotation.data(self.disks, stripe, index), stripe)]
            }
            Kind::Copied { near, far, is_offset } => {
                self.copied(chunk, *near, *far, *is_offset).map(|(d, c)| at(d, c)).collect()
            }
        }
    }

    /// Where the parity of a sector lies: P, then Q. Empty for levels without.
    #[must_use]
    pub fn parity(&self, sector: u64) -> Vec<Place> {
        let Kind::Parity { rotation, parities } = &self.kind else { return Vec::new() };
        let (chunk, rest) = (sector / self.chunk_sectors, sector % self.chunk_sectors);
        let stripe = chunk / (self.disks - parities);
        let at = |disk: u64| Place { disk, sector: stripe * self.chunk_sectors + rest };
        let (p, q) = rotation.parity(self.disks, stripe);
        std::iter::once(p).chain(q).map(at).collect()
    }

    /// All copies of a chunk of raid10 as disk and chunk there.
    fn copied(
        &self,
        chunk: u64,
        near: u64,
        far: u64,
        is_offset: bool,
    ) -> impl Iterator<Item = (u64, u64)> {
        let (disks, first) = (self.disks, chunk * near);
        let stride = if is_offset { 1 } else { self.section_chunks(near, far) };
        (0..near).flat_map(move |copy| {
            // The next near copy is on the next disk, and after the last one in the next row of chunks.
            let place = first % disks + copy;
            let row = first / disks * if is_offset { far } else { 1 } + place / disks;
            (0..far).map(move |f| ((place + f * near) % disks, row + f * stride))
        })
    }

    /// Chunks of one section of a far layout on each disk: of those that are used, which are rounded up.
    fn section_chunks(&self, near: u64, far: u64) -> u64 {
        (self.chunks * near * far).div_ceil(self.disks) / far
    }
}

/// The zones of a striped array: the shortest disks end first.
fn zones(disk_sectors: &[u64], chunk_sectors: u64) -> Vec<Zone> {
    let chunks: Vec<u64> = disk_sectors.iter().map(|sectors| sectors / chunk_sectors).collect();
    let mut ends = chunks.clone();
    ends.order();
    ends.dedup();
    let (mut zones, mut first_chunk, mut disk_chunk) = (Vec::new(), 0, 0);
    for end in ends.into_iter().filter(|end| *end > 0) {
        let long = chunks.iter().enumerate().filter(|(_, chunks)| **chunks >= end);
        let disks: Vec<u64> = long.map(|(slot, _)| slot as u64).collect();
        let count = disks.len() as u64;
        zones.push(Zone { first_chunk, disk_chunk, disks });
        first_chunk += (end - disk_chunk) * count;
        disk_chunk = end;
    }
    zones
}
