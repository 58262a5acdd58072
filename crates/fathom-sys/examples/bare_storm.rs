//! The barest storm on names, as mdtest has it: each process makes empty files, looks at each, and deletes each; then from the
//! beginning. All work in one directory, or each in one of its own.
//!
//! `bare_storm DIR MILLISECONDS PROCESSES FILES SHARED`, for `cargo xtask bench`: prints how many names were made, looked at and
//! deleted together, and how long that took. SHARED is 1 for one directory. DIR is empty before and after.

mod bare;

use bare::Timed;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::process::ExitCode;
use std::time::Duration;

const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::CLOEXEC);
const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Makes, looks at and deletes every name once.
fn round(dir: &OwnedFd, names: &[CString]) -> Result<u64, Errno> {
    for name in names {
        let flags = NEW | OFlags::NOFOLLOW;
        drop(rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?);
    }
    for name in names {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    for name in names {
        rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    }
    Ok(3 * names.len() as u64)
}

/// One process: a thread with a table of open files of its own, as mdtest's processes have, and fathom's clients too.
fn process(
    root: &str,
    number: u64,
    (length, files, is_shared): (Duration, u64, bool),
) -> Result<Timed, Errno> {
    let _own = fathom_sys::threads::own_files();
    let root = rustix::fs::openat(CWD, root, DIR, Mode::empty())?;
    let name = |file: u64| CString::new(format!("f{number:02}{file:07}")).unwrap_or_default();
    let names: Vec<CString> = (0..files).map(name).collect();
    if is_shared {
        return bare::timed(length, || round(&root, &names));
    }
    let own = CString::new(format!("d{number:02}")).unwrap_or_default();
    rustix::fs::mkdirat(&root, &own, Mode::RWXU)?;
    let dir = rustix::fs::openat(&root, &own, DIR, Mode::empty())?;
    let timed = bare::timed(length, || round(&dir, &names))?;
    rustix::fs::unlinkat(&root, &own, AtFlags::REMOVEDIR)?;
    Ok(timed)
}

fn measured(dir: &str, processes: u64, how: (Duration, u64, bool)) -> Result<Timed, Errno> {
    std::thread::scope(|scope| {
        let start = |number| scope.spawn(move || process(dir, number, how));
        let all: Vec<_> = (0..processes).map(start).collect();
        all.into_iter().map(|one| one.join().map_err(|_| Errno::IO)?).sum()
    })
}

fn main() -> ExitCode {
    let usage = "DIR MILLISECONDS PROCESSES FILES SHARED";
    bare::run(usage, |dir, [length, processes, files, shared]| {
        measured(dir, processes, (Duration::from_millis(length), files.max(1), shared == 1))
    })
}
