//! The barest mail spool, as fs_mark and mdtest have it: make a file, write it, sync it, close it, delete the oldest. One look
//! at the clock for each delivery.
//!
//! `bare_mail DIR MILLISECONDS FILES BYTES`, for `cargo xtask bench`: prints how many files were delivered, and how long that
//! took. DIR is empty before and after.

mod bare;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::process::ExitCode;
use std::time::Duration;

const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);

struct Spool {
    dir: OwnedFd,
    data: Vec<u8>,
}

fn name(number: u64) -> CString {
    CString::new(format!("f{number:07}")).unwrap_or_default()
}

impl Spool {
    fn deliver(&self, number: u64) -> Result<(), Errno> {
        let flags = NEW | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(&self.dir, name(number), flags, Mode::RUSR | Mode::WUSR)?;
        if rustix::io::write(&file, &self.data)? < self.data.len() {
            return Err(Errno::NOSPC);
        }
        rustix::fs::fsync(&file)
    }

    fn delete(&self, number: u64) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.dir, name(number), AtFlags::empty())
    }
}

fn measured(dir: &str, length: Duration, files: u64, bytes: usize) -> Result<bare::Timed, Errno> {
    let dir = rustix::fs::openat(CWD, dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // No two bytes alike, so that nothing below can save them.
    let data = (0..bytes as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8);
    let spool = Spool { dir, data: data.collect() };
    (0..files).try_for_each(|number| spool.deliver(number))?;
    let mut next = files;
    let timed = bare::timed(length, || {
        spool.deliver(next)?;
        spool.delete(next - files)?;
        next += 1;
        Ok(1)
    })?;
    (next - files..next).try_for_each(|number| spool.delete(number))?;
    Ok(timed)
}

fn main() -> ExitCode {
    bare::run("DIR MILLISECONDS FILES BYTES", |dir, [length, files, bytes]| {
        measured(dir, Duration::from_millis(length), files.max(1), bytes as usize)
    })
}
