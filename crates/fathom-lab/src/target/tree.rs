//! A directory target of many test files, or of files that jobs create themselves.

use super::{
    Holder, PreparedTarget, TargetWish, check_fit, check_room, check_size_limit, logical_block,
    new_dir, resolve, wished_size,
};
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::run::wrong_kind;
use fathom_base::units::{format_count, format_size};
use fathom_guard::{FileRefusal, OwnedNames, OwnedTree};
use fathom_load::target::LoadTarget;
use fathom_model::event::Event;
use fathom_model::pattern::FileChoice;
use fathom_model::record::TargetKind;
use fathom_model::workload::Job;
use fathom_sys::clock;
use fathom_sys::fsinfo;
use fathom_sys::io::{self as sys_io, OpenMode};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Blocks in which filesystems give out space.
const FS_BLOCK_BYTES: u64 = 4096;

/// The test files of a target.
pub(super) enum TestFiles {
    /// Of equal size.
    Data(Arc<OwnedTree>),
    /// Empty ones, which jobs create, look up and delete.
    Names(Arc<OwnedNames>),
}

impl TestFiles {
    /// Opens them for a job, with so many bytes in all of them together: the first at once, the others when they are
    /// needed.
    pub fn open(
        &self,
        size_bytes: u64,
        block_bytes: u64,
        mode: OpenMode,
    ) -> io::Result<LoadTarget> {
        match self {
            Self::Data(tree) => {
                let each_bytes = size_bytes / u64::from(tree.count().max(1));
                LoadTarget::own_tree(tree, each_bytes, block_bytes, mode)
            }
            Self::Names(names) => Ok(LoadTarget::own_names(names)),
        }
    }

    /// How many test files there are for data.
    pub fn count(&self) -> u32 {
        match self {
            Self::Data(tree) => tree.count(),
            Self::Names(_) => 0,
        }
    }

    /// Bytes that all of them have: the shortest counts for each.
    pub fn written_bytes(&self) -> io::Result<u64> {
        let Self::Data(tree) = self else { return Ok(0) };
        let length = |index| Ok(tree.open(index, OpenMode::default())?.metadata()?.len());
        let lengths = (0..tree.count()).map(length).collect::<io::Result<Vec<u64>>>()?;
        Ok(lengths.into_iter().min().unwrap_or(0) * u64::from(tree.count()))
    }

    /// Drops what the page cache holds of all of them.
    pub fn drop_cached_pages(&self) -> io::Result<()> {
        let Self::Data(tree) = self else { return Ok(()) };
        for index in 0..tree.count() {
            sys_io::drop_cached_pages(&tree.open(index, OpenMode::default())?)?;
        }
        Ok(())
    }
}

/// The error for several files where there is no room for them.
pub(super) fn needs_directory(path: &Path, wish: &TargetWish) -> LabError {
    let by_thread = |job: &&Job| job.file_choice == FileChoice::Thread;
    let reason = match wish.jobs.iter().find(|job| job.metadata.is_some()) {
        Some(job) => format!(
            "is no directory, in which fathom could create files for {}; give one, or choose other phases (--phase=)",
            job.name
        ),
        None if wish.jobs.iter().any(|job| by_thread(&job)) => format!(
            "is no directory, in which fathom could make a file for each of {} threads; give one, or let the threads share it, each its own part: file_choice=round_robin",
            wish.files
        ),
        None => {
            format!("is no directory, in which fathom could make files={}; give one", wish.files)
        }
    };
    wrong_kind(path, reason)
}

/// Makes a directory for files that the jobs create.
pub(super) fn make_names(
    lab: &mut Lab<'_>,
    directory: &Path,
    wish: &TargetWish,
) -> Result<PreparedTarget, LabError> {
    let stack = resolve(lab, directory)?;
    check_files(directory, "names", wish.names)?;
    // Inodes and names take about so much.
    check_room(lab, directory, u64::from(wish.names) * FS_BLOCK_BYTES / 8)?;
    let mut dir = new_dir(lab, directory)?;
    let tree = Some(TestFiles::Names(dir.create_names()?));
    let (path, kind) = (dir.path().to_owned(), TargetKind::OwnDirectory);
    Ok(PreparedTarget {
        tree,
        ..PreparedTarget::new(lab, path, Holder::of_dir(dir), kind, 0, stack)
    })
}

/// How often it is told how many files there are.
const TELL_NS: u64 = 2_000_000_000;

/// Makes the files that the jobs want, still empty.
pub(super) fn make(
    lab: &mut Lab<'_>,
    directory: &Path,
    wish: &TargetWish,
) -> Result<PreparedTarget, LabError> {
    let stack = resolve(lab, directory)?;
    let wished_bytes = wish.size_bytes.unwrap_or(wished_size(lab, directory, wish)?);
    let file_bytes = file_bytes(directory, wish, wished_bytes, logical_block(&stack))?;
    check_fit(&wish.jobs, directory, file_bytes, &stack)?;
    check_size_limit(directory, file_bytes)?;
    check_files(directory, "files", wish.files)?;
    check_room(lab, directory, room_bytes(file_bytes, wish.files))?;
    let mut dir = new_dir(lab, directory)?;
    let (stop, emit, mut told_ns) = (&lab.stop, &mut *lab.emit, clock::monotonic_ns());
    let mut goes_on = |made| {
        if clock::monotonic_ns() - told_ns >= TELL_NS {
            told_ns = clock::monotonic_ns();
            let (made, all) = (format_count(u64::from(made)), format_count(u64::from(wish.files)));
            emit(Event::Note { text: format!("making test files: {made} of {all}") });
        }
        !stop.is_set()
    };
    let tree = dir.create_tree(wish.files, &mut goes_on).map_err(|error| match error {
        FileRefusal::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted => {
            LabError::Interrupted
        }
        other => other.into(),
    })?;
    let (path, kind) = (dir.path().to_owned(), TargetKind::OwnFile);
    let size_bytes = file_bytes * u64::from(wish.files);
    Ok(PreparedTarget {
        to_fill: !wish.fresh,
        tree: Some(TestFiles::Data(tree)),
        ..PreparedTarget::new(lab, path, Holder::of_dir(dir), kind, size_bytes, stack)
    })
}

/// The size of each file: the whole over their number, in whole requests.
fn file_bytes(
    directory: &Path,
    wish: &TargetWish,
    wished_bytes: u64,
    block_bytes: u64,
) -> Result<u64, LabError> {
    let largest = wish.jobs.iter().map(|job| u64::from(job.block_size_bytes_max())).max();
    let unit = largest.unwrap_or(1).max(1).next_multiple_of(block_bytes.max(1));
    let each = wished_bytes / u64::from(wish.files.max(1));
    if each < unit {
        let reason = format!(
            "size={} over files={} is {} for each file, less than one request of {}; use size={}k or more, fewer files or a smaller block_size",
            format_size(wished_bytes).replace(' ', ""),
            wish.files,
            format_size(each),
            format_size(unit),
            (unit * u64::from(wish.files)).div_ceil(1024)
        );
        return Err(wrong_kind(directory, reason));
    }
    Ok(each / unit * unit)
}

/// What files of that size take in all; the most that there is where that is beyond counting.
fn room_bytes(file_bytes: u64, files: u32) -> u64 {
    let each_bytes = file_bytes.checked_next_multiple_of(FS_BLOCK_BYTES).unwrap_or(u64::MAX);
    each_bytes.saturating_mul(u64::from(files))
}

/// Makes sure that so many files can be made as the key says.
fn check_files(directory: &Path, key: &str, files: u32) -> Result<(), LabError> {
    let refuse = |reason| {
        Err(LabError::Target { path: directory.to_owned(), reason, class: ErrorClass::Missing })
    };
    if files > OwnedTree::FILES_MAX {
        return refuse(format!("{key}={files} is more than {}", OwnedTree::FILES_MAX));
    }
    let Ok(space) = fsinfo::space(directory) else { return Ok(()) };
    if space.inodes > 0 && space.inodes_free < u64::from(files) {
        return refuse(format!(
            "has room for {} more files, {key}={} need more; use fewer, or a filesystem made with more inodes",
            format_count(space.inodes_free),
            format_count(u64::from(files))
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_sizes_beyond_counting_is_not_less_than_for_others() {
        assert_eq!(room_bytes(4097, 3), 3 * 8192);
        // size=18446744073709551615 files=2 block_size=512
        assert_eq!(room_bytes(u64::MAX / 2 / 512 * 512, 2), u64::MAX);
        assert_eq!(room_bytes(u64::MAX, 1), u64::MAX);
    }
}
