//! Lines of the device-mapper taken apart: what its tables say and what its targets report of themselves.
//!
//! The forms are those of the kernel's `Documentation/admin-guide/device-mapper/`. Anything else, also a line that ends
//! early, is none: a rule then says nothing.

#[cfg(test)]
mod fuzz_tests;
mod paths;
mod pools;
#[cfg(test)]
mod tests;
mod volumes;

pub use paths::{Path, PathGroup, multipath_status, multipath_table};
pub use pools::{
    CacheState, CacheStatus, CacheTable, PoolState, PoolStatus, PoolTable, SnapshotStatus,
    SnapshotTable, VdoStatus, cache_status, cache_table, pool_status, pool_table, snapshot_status,
    snapshot_table, vdo_status,
};
pub use volumes::{
    CryptTable, IntegrityTable, MirrorStatus, RaidStatus, crypt_table, integrity_table, legs,
    mirror_status, raid_status,
};

use std::str::SplitAsciiWhitespace;

/// Bytes of a sector: the unit of the device-mapper, whatever the disks have.
pub const SECTOR_BYTES: u64 = 512;

/// One line of a table or status: `0 2097152 thin-pool 253:0 253:1 128 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// First sector in the device.
    pub start_sector: u64,
    /// Length.
    pub sectors: u64,
    /// Type of the target.
    pub kind: &'a str,
    /// What only the target understands.
    pub words: &'a str,
}

/// Takes a line apart.
#[must_use]
pub fn line(text: &str) -> Option<Line<'_>> {
    let (start, rest) = text.trim().split_once(' ')?;
    let (sectors, rest) = rest.trim_start().split_once(' ')?;
    let (kind, words) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
    Some(Line { start_sector: start.parse().ok()?, sectors: sectors.parse().ok()?, kind, words })
}

/// The lines of one type of target.
pub fn lines<'a>(all: &'a [String], kind: &'static str) -> impl Iterator<Item = Line<'a>> + 'a {
    all.iter().filter_map(|text| line(text)).filter(move |line| line.kind == kind)
}

/// So much of so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// In use.
    pub used: u64,
    /// There is.
    pub total: u64,
}

impl Usage {
    /// Used share, 0 to 1; none of nothing.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.total > 0).then(|| self.used as f64 / self.total as f64)
    }
}

/// The words of a target from left to right.
struct Words<'a>(SplitAsciiWhitespace<'a>);

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split_ascii_whitespace())
    }

    fn word(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    fn number(&mut self) -> Option<u64> {
        self.word()?.parse().ok()
    }

    /// `123/456`.
    fn usage(&mut self) -> Option<Usage> {
        let (used, total) = self.word()?.split_once('/')?;
        Some(Usage { used: used.parse().ok()?, total: total.parse().ok()? })
    }

    /// Sectors as bytes.
    fn sectors(&mut self) -> Option<u64> {
        self.number()?.checked_mul(SECTOR_BYTES)
    }

    fn words(&mut self, count: u64) -> Option<Vec<&'a str>> {
        (0..count).map(|_| self.word()).collect()
    }

    /// A count, and as many words.
    fn list(&mut self) -> Option<Vec<&'a str>> {
        let count = self.number()?;
        self.words(count)
    }

    /// The words up to the end.
    fn rest(self) -> Vec<&'a str> {
        self.0.collect()
    }
}
