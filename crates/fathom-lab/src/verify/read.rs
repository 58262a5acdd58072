//! Reading a target back: which files it consists of, how they are opened, and what was found, as records.

use crate::error::{ErrorClass, LabError};
use fathom_base::verify_block::Mismatch;
use fathom_guard::OwnedTree;
use fathom_load::readback::{Beyond, Page, Unreadable, is_shortage, read_back};
use fathom_load::verify::{MISMATCHES_KEPT, Mismatches};
use fathom_model::event::Event;
use fathom_model::verification::{MismatchRecord, ReadBackWay, VerifyRecord};
use fathom_sys::clock;
use fathom_sys::dirfd::Dir;
use fathom_sys::io::{self as sys_io, OpenMode};
use fathom_sys::signals::StopFlag;
use fathom_sys::threads;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// EINVAL: how a filesystem says that it has no direct I/O.
const EINVAL: i32 = 22;

/// The files of a target: the target itself, or those in a directory of fathom's.
pub struct Files {
    path: PathBuf,
    /// None of a single file or device.
    directory: Option<Dir>,
    /// Some could not be opened for direct I/O.
    has_cached: AtomicBool,
}

impl Files {
    /// Of a target's path, which is a directory where there are several.
    ///
    /// # Errors
    /// [`LabError::TargetIo`] when the directory cannot be opened.
    pub fn of(path: &Path) -> Result<Self, LabError> {
        let directory = path.is_dir().then(|| Dir::open(path)).transpose();
        let directory = directory.map_err(|error| failed(path, "opening", error))?;
        Ok(Self { path: path.to_owned(), directory, has_cached: AtomicBool::new(false) })
    }

    fn open(&self, file: u32, mode: OpenMode) -> io::Result<File> {
        match &self.directory {
            Some(directory) => {
                let name = OwnedTree::name_of(file);
                // A FIFO that somebody put there would be waited for without end.
                if !directory.facts(&name)?.is_file {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "it is no regular file",
                    ));
                }
                directory.open_for_io(&name, mode)
            }
            None => sys_io::open_existing(&self.path, mode),
        }
    }

    /// Writes and drops what the page cache holds of a file or device, and opens it, directly where that is possible.
    fn open_uncached(&self, file: u32) -> io::Result<File> {
        let cached = self.open(file, OpenMode::default())?;
        sys_io::drop_cached_pages(&cached)?;
        match self.open(file, OpenMode { direct: true, ..OpenMode::default() }) {
            Err(error) if error.raw_os_error() == Some(EINVAL) => {
                self.has_cached.store(true, Ordering::Relaxed);
                Ok(cached)
            }
            other => other,
        }
    }

    /// Brings to stable storage what was written to so many files. Gives the error of the first file that this process lacks the
    /// right or the means to open, which are left out.
    ///
    /// # Errors
    /// [`LabError::TargetIo`] at the first that fails.
    pub fn make_durable(&self, files: u32) -> Result<Option<LabError>, LabError> {
        let files = if self.directory.is_some() { files } else { 1 };
        let mut left_out = None;
        for file in 0..files {
            match self.open(file, OpenMode::default()) {
                Err(error) if is_shortage(&error) => {
                    left_out.get_or_insert_with(|| self.not_opened(file, &error));
                }
                opened => opened.and_then(|cached| sys_io::drop_cached_pages(&cached)).map_err(
                    |error| failed(&self.path_of(file), "writing its cached pages", error),
                )?,
            }
        }
        Ok(left_out)
    }

    fn path_of(&self, file: u32) -> PathBuf {
        self.name(file).map_or_else(|| self.path.clone(), |name| self.path.join(name))
    }

    /// Where a file of that number lies in its directory.
    fn name(&self, file: u32) -> Option<String> {
        self.directory.as_ref().map(|_| OwnedTree::name_of(file))
    }

    /// Reads back what the ledgers know of, and adds what was found to the record. Gives the error of the first file that this process
    /// lacks the right or the means to open, which are left out.
    ///
    /// # Errors
    /// [`LabError::TargetIo`] when a target that is one file fails to open, or there is no memory for buffers.
    pub fn check(
        &self,
        pages: &[Page<'_>],
        stop: &StopFlag,
        emit: &mut dyn FnMut(Event),
        record: &mut VerifyRecord,
    ) -> Result<Option<LabError>, LabError> {
        let started_ns = clock::monotonic_ns();
        if self.directory.is_none()
            && let Err(error) = self.open_uncached(0)
            && !is_shortage(&error)
        {
            return Err(failed(&self.path, "opening", error));
        }
        let mut tick = |done_bytes, total_bytes| {
            emit(Event::Verifying { done_bytes, total_bytes });
            !stop.is_set()
        };
        let found = read_back(&|file| self.open_uncached(file), pages, &mut tick)
            .map_err(|error| failed(&self.path, "reading it back", error))?;
        record.checked_bytes += found.checked_bytes;
        record.skipped_bytes += found.skipped_bytes;
        // First: each stands for many.
        record.mismatches += found.beyond.values().map(|beyond| beyond.blocks).sum::<u64>();
        record.first.extend(found.beyond.iter().map(|(file, beyond)| self.beyond(*file, *beyond)));
        self.note(record, &found.mismatches);
        record.mismatches += found.unreadable_count;
        record.first.extend(found.unreadable.iter().map(|part| self.unread(part)));
        record.first.truncate(MISMATCHES_KEPT);
        let has_cached = self.has_cached.load(Ordering::Relaxed);
        record.read_back =
            Some(if has_cached { ReadBackWay::DroppedCache } else { ReadBackWay::Direct });
        record.read_back_ns += clock::monotonic_ns() - started_ns;
        record.is_partial |= found.is_partial;
        let first = found.unopened.first_key_value();
        record.unopened_files += found.unopened.len() as u64;
        if let Some((file, error)) = first {
            let name = self.name(*file).unwrap_or_else(|| self.path.display().to_string());
            record.unopened_first.get_or_insert(format!("{name}: {error}"));
        }
        Ok(first.map(|(file, error)| self.not_opened(*file, error)))
    }

    /// What is lacking is ours, and not the storage's.
    fn not_opened(&self, file: u32, error: &io::Error) -> LabError {
        let (class, cure) = match threads::descriptors_limit(error) {
            Some(limit) => (ErrorClass::Missing, format!("raise {limit}")),
            None if error.kind() == io::ErrorKind::PermissionDenied => {
                (ErrorClass::Usage, "check it as their owner, or as root".to_owned())
            }
            None => (ErrorClass::Missing, "free memory".to_owned()),
        };
        LabError::Target {
            path: self.path_of(file),
            reason: format!(
                "cannot be opened: {error}; nothing can be said of what was written: {cure}"
            ),
            class,
        }
    }

    /// Adds what was found wrong to the record.
    pub fn note(&self, record: &mut VerifyRecord, wrong: &Mismatches) {
        record.mismatches += wrong.count;
        record.first.extend(wrong.first.iter().map(|mismatch| self.wrong(mismatch)));
        record.first.truncate(MISMATCHES_KEPT);
    }

    fn wrong(&self, mismatch: &Mismatch) -> MismatchRecord {
        MismatchRecord {
            kind: mismatch.found.word().to_owned(),
            file: mismatch.file,
            path: mismatch.file.and_then(|file| self.name(file)),
            offset_bytes: mismatch.offset_bytes,
            length_bytes: u64::from(mismatch.length_bytes),
            expected: mismatch.legal.to_string(),
            found: mismatch.found.to_string(),
            blocks: 1,
        }
    }

    fn beyond(&self, file: u32, beyond: Beyond) -> MismatchRecord {
        let Beyond { end_bytes, offset_bytes, blocks, length_bytes } = beyond;
        let path = self.name(file);
        let is_device = path.is_none() && !self.path.is_file();
        let what = if is_device { "device" } else { "file" };
        let lay = if blocks == 1 { "1 block lay" } else { &format!("{blocks} blocks lay") };
        MismatchRecord {
            kind: "beyond_end".to_owned(),
            file: path.as_ref().map(|_| file),
            path,
            offset_bytes,
            length_bytes,
            expected: "what was written there".to_owned(),
            found: format!("nothing: the {what} ends at offset {end_bytes}; {lay} beyond it"),
            blocks,
        }
    }

    fn unread(&self, part: &Unreadable) -> MismatchRecord {
        let path = self.name(part.file);
        MismatchRecord {
            kind: "unreadable".to_owned(),
            file: path.as_ref().map(|_| part.file),
            path,
            offset_bytes: part.offset_bytes,
            length_bytes: part.length_bytes,
            expected: "what was written there".to_owned(),
            found: format!("nothing: {}", part.error),
            blocks: 1,
        }
    }
}

fn failed(path: &Path, what: &'static str, source: io::Error) -> LabError {
    LabError::TargetIo { path: path.to_owned(), what, source }
}
