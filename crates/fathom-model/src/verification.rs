//! What checking written blocks came to.

use serde::{Deserialize, Serialize};

/// What checking the blocks of a job came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyRecord {
    /// Bytes that were compared with what must be there.
    pub checked_bytes: u64,
    /// Bytes of which nothing is promised: they had been trimmed; a read met a write of them and found neither the old
    /// nor the new; or anything may be there, after a failed write or one that thousands of others overtook, or after a
    /// crash where no sync had covered what was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped_bytes: u64,
    /// Blocks that are not as they must be, or could not be read.
    pub mismatches: u64,
    /// The first hundred of them: those that the job's own reads met by time, the others by file and offset.
    pub first: Vec<MismatchRecord>,
    /// How everything was read back after the window; none when only the job's own reads were checked.
    pub read_back: Option<ReadBackWay>,
    /// Time that reading back took.
    pub read_back_ns: u64,
    /// Reading back was ended by a signal, or not begun: not all is checked.
    pub is_partial: bool,
    /// Files that fathom lacked the right or the means (descriptors, memory) to open: they are not checked, and say nothing of the storage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unopened_files: u64,
    /// The first of them, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unopened_first: Option<String>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// How reading back kept out of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadBackWay {
    /// Direct reads, after cached pages were written and dropped.
    Direct,
    /// Cached pages were written and dropped; there are no direct reads here.
    DroppedCache,
}

impl ReadBackWay {
    /// In words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Direct => "read back directly, past the page cache",
            Self::DroppedCache => {
                "read back after its cached pages were dropped (no direct reads here)"
            }
        }
    }
}

/// A block that does not hold what must be there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MismatchRecord {
    /// What kind of damage, one word: `zeros`, `foreign`, `other_target`, `misplaced`, `stale`, `future`, `torn`,
    /// `corrupt`, `beyond_end`, `unreadable`.
    pub kind: String,
    /// In which of the job's files, from 0 on; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u32>,
    /// Where that file lies in the test directory; none where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where, in bytes from the start of the target, or of the file.
    pub offset_bytes: u64,
    /// How much.
    pub length_bytes: u64,
    /// What may be there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// How many blocks that is.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub blocks: u64,
}

fn one() -> u64 {
    1
}

fn is_one(blocks: &u64) -> bool {
    *blocks == 1
}

impl std::fmt::Display for MismatchRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, path, offset_bytes, length_bytes, expected, found, .. } = self;
        match (file, path) {
            (Some(file), Some(path)) => write!(f, "file {file} ({path}), ")?,
            (Some(file), None) => write!(f, "file {file}, ")?,
            (None, _) => {}
        }
        write!(f, "offset {offset_bytes}, {length_bytes} bytes: expected {expected}; found {found}")
    }
}
