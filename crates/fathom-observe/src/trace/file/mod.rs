//! Traces in a file of our own: a head, then blocks, each with a checksum.
//!
//! ```text
//! file  = "FATHTRC\n" version:u32 length:u32 checksum:u32 head (JSON of `length` bytes), block...
//! block = "FTRB" kind:u32 count:u32 length:u32 first:u64 second:u64 checksum:u32 payload (`length` bytes)
//! ```
//! All numbers are little-endian, checksums are CRC-32C (of the JSON; of the payload, continued over the 32 bytes before it).
//!
//! | kind | holds | first, second |
//! |---|---|---|
//! | 1 | names of processes (each a length and its bytes), numbered in their order from 1 on | 0, 0 |
//! | 2 | events of all processors, in form 1 only | how many were lost, base time |
//! | 3 | the end: the sums of events and of lost ones, how many processors came online meanwhile, their numbers, and when the capture ended (`count` is 0; old files end with the sums, or the numbers) | 0, 0 |
//! | 4 | events of one processor, in its order | its number, base time |
//! | 5 | the end of a round: when its device was no longer the one that was captured | how many were lost in it, up to when it is whole |
//!
//! Putting the events of all processors in order of time is left to readers: a recorder writes those of each as they come, block by
//! block, and then that a round is whole up to some moment, as nothing from before it can come any more. What is later waits for
//! the next round. A file without its end was cut off: what is whole of it counts.
//!
//! An event of kind 4 begins with two bytes: action, 4 bits; bytes of the time, less one, 3 bits; bytes of the place, 4 bits; and a
//! bit each for what, who, other and error. Then come the time since the event before (the block's base for the first), the first
//! sector since that of the event before (0 for the first; signed, low bit last), and what its bits say: `class | flags << 3` and sectors,
//! process and name, the other sector since the first one, the errno, all but the first of them variable-length numbers. What and who that are not
//! there are those of the last event of the same action in the block.
//!
//! One of kind 2 is `action | class << 4 | extra << 7`, `flags | error << 5`, then variable-length numbers: time since the event before
//! (the block's base for the first), first sector since the end of the event before, sectors, processor, process, name; with
//! `extra` the other sector since the first one; with `error` the errno. Differences are signed, low bit last.

mod codec;
mod merge;
mod reader;
mod shelf;
mod writer;

pub use reader::Reader;
pub(super) use shelf::{Step, what, who};
pub use writer::{Shelves, Totals, Until, Writer};

use serde::{Deserialize, Serialize};
use std::io;
use thiserror::Error;

/// How a file begins.
pub const MAGIC: &[u8; 8] = b"FATHTRC\n";
/// The form that is written; readers refuse newer ones.
pub const VERSION: u32 = 2;
/// The longest head and the longest block.
const LENGTH_MAX: u32 = 16 << 20;
const BLOCK_MAGIC: &[u8; 4] = b"FTRB";
const BLOCK_HEAD_BYTES: usize = 36;
const KIND_NAMES: u32 = 1;
const KIND_EVENTS: u32 = 2;
const KIND_END: u32 = 3;
const KIND_PROCESSOR: u32 = 4;
const KIND_ROUND: u32 = 5;

/// What a block begins with.
fn block_head(
    kind: u32,
    count: u32,
    (first, second): (u64, u64),
    payload: &[u8],
) -> [u8; BLOCK_HEAD_BYTES] {
    let mut head = [0; BLOCK_HEAD_BYTES];
    head[..4].copy_from_slice(BLOCK_MAGIC);
    for (at, number) in [(4, kind), (8, count), (12, payload.len() as u32)] {
        head[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    head[16..24].copy_from_slice(&first.to_le_bytes());
    head[24..32].copy_from_slice(&second.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(payload), &head[..32]);
    head[32..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// What a trace is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The device's kernel name, such as `sda1`.
    pub device: String,
    /// Its size; 0 where that is not known.
    pub size_bytes: u64,
    /// Its logical block; 0 where that is not known.
    #[serde(default)]
    pub logical_block_bytes: u32,
    /// Start, UTC, nanoseconds since 1970; none where it is not known.
    #[serde(default)]
    pub started_unix_ns: Option<i64>,
    /// The same moment on the clock of the events.
    #[serde(default)]
    pub started_ns: u64,
    /// The kernel's release.
    #[serde(default)]
    pub kernel: String,
    /// The tracepoints that were on.
    #[serde(default)]
    pub tracepoints: Vec<String>,
}

/// Why a trace cannot be read, or not any further.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Reading failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error(
        "is no trace: {0}; fathom reads its own traces (fathom capture), blktrace's files (NAME.blktrace.0) and what blkparse prints"
    )]
    Foreign(String),
    /// The device that was asked for is not in it.
    #[error("{0}")]
    Device(String),
    /// A later fathom wrote it.
    #[error(
        "is a trace of form {found}, and this fathom knows forms up to {VERSION}: use the fathom that wrote it, or a newer one"
    )]
    Newer {
        /// The form.
        found: u32,
    },
    /// It is damaged.
    #[error("is damaged at byte {at}: {what}; copy it again from where it was made")]
    Damaged {
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
