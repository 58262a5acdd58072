//! Removing what fathom wrote: only under a claim, so that nobody else can use the device meanwhile.

use fathom_guard::Claim;
use fathom_sys::io::{OpenMode, fsync, write_at};
use fathom_sys::probe;
use std::fs::File;
use std::io;

/// How a device is opened to be wiped.
pub(crate) const FOR_WRITING: OpenMode =
    OpenMode { write: true, direct: false, dsync: false, sync: false };

/// At both ends: beyond what any recogniser looks at but for single blocks, and beyond all copies of a GPT.
const END_BYTES: u64 = 1 << 20;
/// Single blocks further in: of headers that have copies there, and of btrfs, whose tools would find them again.
const COPIES_AT: [u64; 5] = [1 << 20, 2 << 20, 4 << 20, 64 << 20, 256 << 30];
const BLOCK_BYTES: u64 = 4096;

/// Makes the device blank: zeros at both ends and wherever something is still recognised.
///
/// # Errors
/// Those of writing; something is still recognised afterwards.
pub(crate) fn wipe(claim: &Claim) -> io::Result<()> {
    let (file, size_bytes) = (claim.file(), claim.size_bytes());
    clear(file, 0, size_bytes)?;
    // Some headers have copies further in.
    const ROUNDS_MAX: u32 = 16;
    for _ in 0..ROUNDS_MAX {
        let found = probe::signatures(file, size_bytes)?;
        for signature in &found {
            let at = signature.offset_bytes / BLOCK_BYTES * BLOCK_BYTES;
            zero(file, at, (2 * BLOCK_BYTES).min(size_bytes.saturating_sub(at)))?;
        }
        if found.is_empty() {
            return fsync(file);
        }
    }
    Err(io::Error::other("something is still recognised after it was overwritten with zeros"))
}

/// Zeros wherever a recogniser looks on a piece of a device, on stable storage when this returns: a partition that is made there
/// afterwards is blank from its first moment on.
///
/// # Errors
/// Those of writing.
pub(crate) fn blank_piece(claim: &Claim, start: u64, size_bytes: u64) -> io::Result<()> {
    clear(claim.file(), start, size_bytes)?;
    fsync(claim.file())
}

fn clear(file: &File, start: u64, size_bytes: u64) -> io::Result<()> {
    let end_bytes = END_BYTES.min(size_bytes);
    zero(file, start, end_bytes)?;
    zero(file, start + size_bytes - end_bytes, end_bytes)?;
    for at in COPIES_AT {
        zero(file, start + at, BLOCK_BYTES.min(size_bytes.saturating_sub(at)))?;
    }
    Ok(())
}

/// Makes it blank where anything is recognised.
///
/// # Errors
/// As [`wipe`].
pub(crate) fn wipe_if_marked(claim: &Claim) -> io::Result<()> {
    let found = probe::signatures(claim.file(), claim.size_bytes())?;
    if found.is_empty() { Ok(()) } else { wipe(claim) }
}

fn zero(file: &File, at: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut done = 0;
    while done < zeros.len() {
        match write_at(file, &zeros[done..], at + done as u64)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => done += written,
        }
    }
    Ok(())
}
