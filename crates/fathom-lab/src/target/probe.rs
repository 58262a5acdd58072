//! Whether direct writes to a test file bypass the page cache.

use super::{Holder, PreparedTarget};
use crate::error::{ErrorClass, LabError};
use fathom_base::content::Filler;
use fathom_model::stack::Node;
use fathom_sys::arena::Arena;
use fathom_sys::counters;
use fathom_sys::io::{self as sys_io, OpenMode};

impl PreparedTarget {
    /// Finds out whether direct writes to a file of ours bypass the page cache, by what they dirty.
    ///
    /// The counter is the whole machine's, so that others can add to it but not take away: of several short tries the
    /// least counts, and the first that dirties next to nothing decides.
    pub(super) fn probe_direct(&mut self) -> Result<(), LabError> {
        const TRIES: usize = 16;
        /// Counters of single processors are added up some hundred pages late.
        const PIECE_BYTES: std::ops::RangeInclusive<usize> = 1 << 20..=4 << 20;
        let buffers_below =
            |n: &Node| n.loop_device.as_ref().is_some_and(|l| l.direct_io != Some(true));
        if self.stack.walk().into_iter().any(buffers_below) {
            // What a loop device below dirties cannot be told from what the filesystem does.
            return Ok(());
        }
        let mode = OpenMode { write: true, direct: true, ..OpenMode::default() };
        let was_empty = std::fs::metadata(&self.path).is_ok_and(|meta| meta.len() == 0);
        let target = match self.open(mode, was_empty) {
            Err(LabError::Target { class: ErrorClass::Missing, .. }) => return Ok(()),
            other => other?,
        };
        // Each try has a place of its own: ext4 with data=journal counts a page only once until it is written back.
        let of_file = |share: usize| (target.size_bytes() as usize / share) >> 16 << 16;
        let size = of_file(TRIES).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()).min(of_file(4));
        let Some(file) = target.file().filter(|_| size >= 256 << 10) else { return Ok(()) };
        let failed = |source| LabError::TargetIo {
            path: self.path.clone(),
            what: "trying direct writes",
            source,
        };
        let mut arena = Arena::new(1, size).map_err(failed)?;
        // Like all that fathom writes; otherwise the file would be taken for somebody's data.
        let filler = Filler::noise(self.size_bytes ^ 0xD1);
        let mut is_honoured = None;
        for place in 0..TRIES.min(target.size_bytes() as usize / size) {
            if matches!(self.holder, Holder::Kept(_)) && !was_empty {
                // It may hold blocks that somebody wants to verify: they are written again as they are.
                let read = sys_io::read_at(file, arena.slot_mut(0), (place * size) as u64);
                if read.map_err(failed)? < size {
                    break;
                }
            } else {
                filler.fill(arena.slot_mut(0), (place * size) as u64, place as u64);
            }
            let before = counters::page_traffic(&self.root).dirtied_bytes;
            sys_io::write_at(file, arena.slot_mut(0), (place * size) as u64).map_err(failed)?;
            let after = counters::page_traffic(&self.root).dirtied_bytes;
            is_honoured = Some(after.saturating_sub(before) < size as u64 / 2);
            if is_honoured == Some(true) {
                break;
            }
        }
        self.direct_honoured = is_honoured;
        if was_empty {
            target.truncate().map_err(failed)?;
        }
        Ok(())
    }
}
