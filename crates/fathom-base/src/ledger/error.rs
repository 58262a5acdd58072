//! Why there is no ledger.

use super::granule::GENERATION;
use super::{FILE_COST_BYTES, GRANULE_COST_BYTES};
use std::fmt;
use thiserror::Error;

/// Why there is no ledger, or why a write cannot be noted.
#[derive(Debug, Error)]
pub enum LedgerError {
    /// More granules or files than memory is allowed for.
    #[error("{0}")]
    TooLarge(TooLarge),
    /// A region or granule that makes no sense.
    #[error(
        "a ledger for {length_bytes} bytes from {start_bytes} in pieces of {granule_bytes}: must be whole pieces of a multiple of 512"
    )]
    Region {
        /// Where it begins.
        start_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// A write that does not fill whole granules.
    #[error(
        "a write of {length_bytes} bytes at offset {offset_bytes} does not fill pieces of {granule_bytes} bytes"
    )]
    Unaligned {
        /// Its offset.
        offset_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// More writes than the number in a block can tell apart.
    #[error("{GENERATION} writes were noted, more than can be told apart: begin anew")]
    Exhausted,
    /// Bytes that are no ledger or mark, or damaged.
    #[error("this is no record of a verified target, or it is damaged: {0}")]
    Unreadable(&'static str),
    /// A ledger of another version of fathom.
    #[error(
        "this record of a verified target has form {0}, which this version of fathom does not read (it reads 2 and 3): verify it \
         with the version that wrote it, or write the target again"
    )]
    Form(u8),
}

/// More granules or files than memory is allowed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Files.
    pub files: u32,
    /// The region in each of them.
    pub length_bytes: u64,
    /// The granule.
    pub granule_bytes: u64,
    /// How many there are.
    pub granules: u64,
    /// What it would take.
    pub needed_bytes: u64,
    /// What it may take.
    pub limit_bytes: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, length_bytes, granule_bytes, granules, needed_bytes, limit_bytes } = self;
        if *files > 1 {
            return write!(
                f,
                "verifying {files} files of {length_bytes} bytes in pieces of {granule_bytes} needs {needed_bytes} bytes of \
                 memory ({granules} pieces x {GRANULE_COST_BYTES} + {files} files x {FILE_COST_BYTES}), more than \
                 {limit_bytes}: verify fewer files (files=) or less (size=), or write larger blocks"
            );
        }
        let fits_bytes = limit_bytes / GRANULE_COST_BYTES * granule_bytes;
        write!(
            f,
            "verifying {length_bytes} bytes in pieces of {granule_bytes} needs {needed_bytes} bytes of memory, more than \
             {limit_bytes}: verify at most {fits_bytes} bytes (size=), or write larger blocks"
        )
    }
}
