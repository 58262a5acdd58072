//! Targets that fill up: thin pools, snapshots, caches, VDO.

use super::{SECTOR_BYTES, Usage, Words};

/// Bytes of a block of a thin pool's metadata.
const POOL_METADATA_BLOCK_BYTES: u64 = 4096;

/// Table of a `thin-pool`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTable<'a> {
    /// Device of the metadata, as `major:minor`.
    pub metadata_device: &'a str,
    /// Device of the data.
    pub data_device: &'a str,
    /// Unit of allocation.
    pub chunk_bytes: u64,
    /// `skip_block_zeroing`, `error_if_no_space`, `no_discard_passdown`, ...
    pub features: Vec<&'a str>,
}

/// Table of a `thin-pool`: metadata, data, block size, low water mark, features.
#[must_use]
pub fn pool_table(words: &str) -> Option<PoolTable<'_>> {
    let mut words = Words::of(words);
    let (metadata_device, data_device) = (words.word()?, words.word()?);
    let chunk_bytes = words.sectors()?;
    let _low_water_mark = words.number()?;
    let features = words.list().unwrap_or_default();
    Some(PoolTable { metadata_device, data_device, chunk_bytes, features })
}

/// Status of a `thin-pool`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolStatus<'a> {
    /// Given up after errors of its metadata.
    Failed,
    /// At work.
    Works(PoolState<'a>),
}

/// What a working thin pool says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolState<'a> {
    /// Blocks of metadata.
    pub metadata: Usage,
    /// Chunks of data.
    pub data: Usage,
    /// `rw`, `ro`, `out_of_data_space`.
    pub mode: &'a str,
    /// `queue_if_no_space` or `error_if_no_space`; empty where the kernel does not say.
    pub without_space: &'a str,
    /// The metadata has to be checked before the pool may be written again.
    pub needs_check: bool,
    /// What is free in the pool is told to no device below it (`no_discard_passdown`).
    pub keeps_discards: bool,
}

impl PoolState<'_> {
    /// Metadata in bytes.
    #[must_use]
    pub fn metadata_bytes(&self) -> (u64, u64) {
        let bytes = |blocks: u64| blocks.saturating_mul(POOL_METADATA_BLOCK_BYTES);
        (bytes(self.metadata.used), bytes(self.metadata.total))
    }
}

/// Status of a `thin-pool`: `0 141/1024 3072/16384 - rw discard_passdown queue_if_no_space - 256`.
#[must_use]
pub fn pool_status(text: &str) -> Option<PoolStatus<'_>> {
    let mut words = Words::of(text);
    let first = words.word()?;
    if first == "Fail" || first == "Error" {
        return Some(PoolStatus::Failed);
    }
    let _transaction: u64 = first.parse().ok()?;
    let (metadata, data) = (words.usage()?, words.usage()?);
    let _held_root = words.word()?;
    let mode = words.word()?;
    let rest = words.rest();
    let without_space = rest.iter().find(|word| word.ends_with("_if_no_space"));
    Some(PoolStatus::Works(PoolState {
        metadata,
        data,
        mode,
        without_space: without_space.copied().unwrap_or_default(),
        needs_check: rest.contains(&"needs_check"),
        keeps_discards: rest.contains(&"no_discard_passdown"),
    }))
}

/// Table of a `snapshot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotTable<'a> {
    /// Device that it is a snapshot of.
    pub origin: &'a str,
    /// Device that takes what the origin had before it changed.
    pub store: &'a str,
    /// Unit of copying.
    pub chunk_bytes: u64,
}

/// Table of a `snapshot` or `snapshot-merge`: origin, store, persistent or not, chunk.
#[must_use]
pub fn snapshot_table(words: &str) -> Option<SnapshotTable<'_>> {
    let mut words = Words::of(words);
    let (origin, store) = (words.word()?, words.word()?);
    let _persistent = words.word()?;
    Some(SnapshotTable { origin, store, chunk_bytes: words.sectors()? })
}

/// Status of a `snapshot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotStatus<'a> {
    /// Space in the store, in bytes.
    Works(Usage),
    /// `Invalid`, `Overflow`, `Merge failed`, `Unknown`: what it held is lost.
    Broken(&'a str),
}

/// Status of a `snapshot` or `snapshot-merge`: `3248/2097152 16`.
#[must_use]
pub fn snapshot_status(text: &str) -> Option<SnapshotStatus<'_>> {
    let text = text.trim();
    match Words::of(text).usage() {
        Some(sectors) => Some(SnapshotStatus::Works(Usage {
            used: sectors.used.checked_mul(SECTOR_BYTES)?,
            total: sectors.total.checked_mul(SECTOR_BYTES)?,
        })),
        None => ["Invalid", "Overflow", "Merge failed", "Unknown"]
            .contains(&text)
            .then_some(SnapshotStatus::Broken(text)),
    }
}

/// Table of a `cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTable<'a> {
    /// Device of the fast copy.
    pub cache_device: &'a str,
    /// Device that is made faster.
    pub origin: &'a str,
    /// Unit of caching.
    pub block_bytes: u64,
    /// `writeback`, `writethrough` or `passthrough`.
    pub mode: &'a str,
}

/// Table of a `cache`: metadata, cache, origin, block size, features, policy.
#[must_use]
pub fn cache_table(words: &str) -> Option<CacheTable<'_>> {
    let mut words = Words::of(words);
    let _metadata = words.word()?;
    let (cache_device, origin, block_bytes) = (words.word()?, words.word()?, words.sectors()?);
    // Without a word on it, writes are kept back.
    let mode = cache_mode(&words.list()?).unwrap_or("writeback");
    Some(CacheTable { cache_device, origin, block_bytes, mode })
}

fn cache_mode<'a>(features: &[&'a str]) -> Option<&'a str> {
    let is_mode = |word: &&&str| matches!(**word, "writeback" | "writethrough" | "passthrough");
    features.iter().find(is_mode).copied()
}

/// Status of a `cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus<'a> {
    /// Given up after errors of its metadata.
    Failed,
    /// At work.
    Works(CacheState<'a>),
}

/// What a working cache says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheState<'a> {
    /// Blocks of metadata.
    pub metadata: Usage,
    /// Blocks of the cache.
    pub blocks: Usage,
    /// Reads found in it, since it was set up.
    pub read_hits: u64,
    /// Reads that were not.
    pub read_misses: u64,
    /// Blocks that the slow device does not have yet.
    pub dirty_blocks: u64,
    /// `writeback`, `writethrough`, `passthrough`; empty where it does not say.
    pub mode: &'a str,
    /// The metadata can be written.
    pub writable: bool,
    /// The metadata has to be checked before the cache may be used again.
    pub needs_check: bool,
}

/// Status of a `cache`:
/// `8 27/1024 128 10/16384 23 5 14 2 0 10 0 2 writethrough metadata2 2 migration_threshold 2048 smq 0 rw -`.
#[must_use]
pub fn cache_status(text: &str) -> Option<CacheStatus<'_>> {
    let mut words = Words::of(text);
    let first = words.word()?;
    if first == "Fail" || first == "Error" {
        return Some(CacheStatus::Failed);
    }
    let _metadata_block: u64 = first.parse().ok()?;
    let metadata = words.usage()?;
    let _block = words.number()?;
    let blocks = words.usage()?;
    let (read_hits, read_misses) = (words.number()?, words.number()?);
    let _write_hits_misses_demotions_promotions = words.words(4)?;
    let dirty_blocks = words.number()?;
    let mode = cache_mode(&words.list()?).unwrap_or_default();
    let rest = words.rest();
    Some(CacheStatus::Works(CacheState {
        metadata,
        blocks,
        read_hits,
        read_misses,
        dirty_blocks,
        mode,
        writable: !rest.contains(&"ro"),
        needs_check: rest.contains(&"needs_check"),
    }))
}

/// Status of a `vdo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdoStatus<'a> {
    /// `normal`, `recovering`, `read-only`.
    pub mode: &'a str,
    /// Physical blocks.
    pub blocks: Usage,
}

/// Status of a `vdo`: `/dev/dm-3 normal - online online 1024 262144`.
#[must_use]
pub fn vdo_status(text: &str) -> Option<VdoStatus<'_>> {
    let mut words = Words::of(text);
    let _device = words.word()?;
    let mode = words.word()?;
    let _recovery_index_compression = words.words(3)?;
    Some(VdoStatus { mode, blocks: Usage { used: words.number()?, total: words.number()? } })
}
