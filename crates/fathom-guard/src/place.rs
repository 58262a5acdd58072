//! Where files may be made, whether there is space, and why a file is not written to.

use fathom_base::shell;
use fathom_base::units::{format_size, format_sizes};
use fathom_sys::fsinfo;
use fathom_sys::mounts;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Why a file or directory is not made or written to.
#[derive(Debug, Error)]
pub enum FileRefusal {
    /// The directory is not there, or the file to be opened.
    #[error("{0} does not exist")]
    Missing(PathBuf),
    /// The name is taken.
    #[error("{0} exists already; a file that is to be made needs a new name")]
    Exists(PathBuf),
    /// Not a directory.
    #[error("{0} is not a directory")]
    NotDirectory(PathBuf),
    /// The kernel's own file systems.
    #[error("nothing is made in {path} ({}): give a directory on a disk", whose(.fs_type))]
    Forbidden {
        /// The directory.
        path: PathBuf,
        /// Its file system.
        fs_type: String,
    },
    /// A name or identifier that is no plain name.
    #[error("{0:?} is no usable file name")]
    Name(String),
    /// A path that is no text.
    #[error(
        "{} has bytes that are not UTF-8: files there could not be noted in the journal, which is text; use a path \
         of plain text (for a directory another one can be made: mount --bind {} /mnt)",
        .0.display(), shell::path(.0.parent().unwrap_or(.0))
    )]
    NotText(PathBuf),
    /// A symbolic link.
    #[error("{0} is a symbolic link; only the file itself is written to: give its own path")]
    Symlink(PathBuf),
    /// Not a regular file.
    #[error("{0} is not a regular file")]
    NotRegular(PathBuf),
    /// More than one name.
    #[error("{0} has a second name (hard link), so it may be somebody's data; it is only read")]
    HardLinked(PathBuf),
    /// A loop device shows it.
    #[error("{path} is in use: {device} shows it\ndetach it first: losetup -d {}", shell::word(.device))]
    InUseByLoop {
        /// The file.
        path: PathBuf,
        /// The loop device.
        device: String,
    },
    /// Somebody else's.
    #[error("{0} was not made by fathom, so it is only read; to write, give a new name and size=")]
    NotOurs(PathBuf),
    /// Made by fathom, but changed by somebody else.
    #[error(
        "{0} was made by fathom but changed by somebody else since, so it may hold their data and is only read; \
         remove it yourself if it may go, or give a new name and size="
    )]
    Changed(PathBuf),
    /// Made by fathom, but not closed by the run that last wrote to it.
    #[error(
        "{0} was made by fathom, but the run that last wrote to it has not closed it (killed, or still at it): whether \
         somebody changed it since cannot be told, so it is only read; remove it yourself if it may go, or give a new \
         name and size="
    )]
    NotClosed(PathBuf),
    /// Somebody's data is in a file of ours, which therefore stays.
    #[error("{} stays: it holds data that fathom did not write; if nobody needs it: rm {}", .0.display(), shell::path(.0))]
    ForeignData(PathBuf),
    /// Not enough space.
    #[error(
        "{} needs {} more, but of {} only {} are free and {} stay free ({}): at most {} can be used; use {}another file \
         system",
        .path.display(),
        format_sizes(*.wanted_bytes, .available_bytes.saturating_sub(*.reserve_bytes)).0,
        format_size(*.total_bytes), format_size(*.available_bytes), format_size(*.reserve_bytes),
        if *.reserve_bytes == self::reserve_bytes(*.total_bytes) { "5 % and at least 1 GiB" } else { "5 %" },
        format_sizes(*.wanted_bytes, .available_bytes.saturating_sub(*.reserve_bytes)).1,
        if .available_bytes > .reserve_bytes { "a smaller size, or " } else { "" }
    )]
    Space {
        /// The directory.
        path: PathBuf,
        /// What was asked for.
        wanted_bytes: u64,
        /// Free for this user.
        available_bytes: u64,
        /// Size of the file system.
        total_bytes: u64,
        /// What must stay free.
        reserve_bytes: u64,
    },
    /// Root would work where others could put something else in the place of what it makes.
    #[error(
        "others than root can change {dir}, and so put something else in the place of what root makes in {path}: run fathom as \
         the user whom it belongs to, or give a directory that only root can change"
    )]
    OthersMayMove {
        /// The directory that was given.
        path: PathBuf,
        /// It, or one above it.
        dir: PathBuf,
    },
    /// Something is mounted in a directory of ours, which therefore stays.
    #[error(
        "{} stays: something is mounted in it ({names}); unmount that, then: fathom clean {}",
        .path.display(), shell::path(.path)
    )]
    Mounted {
        /// The directory.
        path: PathBuf,
        /// Where in it.
        names: String,
    },
    /// `/proc` does not say who this process is.
    #[error("/proc does not tell this process's start time and boot: mount /proc")]
    NoIdentity,
    /// Something foreign is in a directory of ours, which therefore stays.
    #[error(
        "{} stays: it holds what fathom did not write: {names}; if nobody needs it: rm -r {}",
        .path.display(), shell::path(.path)
    )]
    ForeignFiles {
        /// The directory.
        path: PathBuf,
        /// Their names.
        names: String,
    },
    /// The system refused.
    #[error("cannot {doing} {path}: {source}{}", cure(.source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Why a file system is not written to, by its type and by where it is mounted.
fn whose(fs_type: &str) -> String {
    if KERNEL_FILE_SYSTEMS.contains(&fs_type) {
        format!("{fs_type}, the kernel's own")
    } else {
        format!("{fs_type} below /dev, /proc or /sys")
    }
}

fn cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run as the owner or as root",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; its file system is mounted read-only: give a directory on another one, or mount -o remount,rw it"
        }
        io::ErrorKind::StorageFull => "; the file system is full",
        _ => threads::descriptors_cure(source).unwrap_or_default(),
    }
}

impl FileRefusal {
    /// True when the rules of safety refuse, false when the system does or the target was named wrongly.
    #[must_use]
    pub fn is_safety(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. }
                | Self::Symlink(_)
                | Self::HardLinked(_)
                | Self::InUseByLoop { .. }
                | Self::NotOurs(_)
                | Self::Changed(_)
                | Self::NotClosed(_)
                | Self::OthersMayMove { .. }
        )
    }

    /// True when there is too little room, whoever says so: something that the system lacks, and no danger to anything. The one rule for the
    /// exit code of all commands.
    #[must_use]
    pub fn is_out_of_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Self::Space { .. } => true,
            Self::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            _ => false,
        }
    }

    /// True when this process, or the system, may open no more files: that says nothing of the place.
    #[must_use]
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, Self::Io { source, .. } if threads::descriptors_cure(source).is_some())
    }
}

pub(crate) fn io_at(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> FileRefusal {
    let path = path.into();
    move |source| FileRefusal::Io { doing, path, source }
}

/// File systems of the kernel itself: nothing is ever made there.
const KERNEL_FILE_SYSTEMS: &[&str] = &[
    "bpf",
    "binfmt_misc",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "proc",
    "pstore",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// The directory without symbolic links, when files may be made in it.
///
/// # Errors
/// [`FileRefusal::Missing`], [`FileRefusal::NotDirectory`], [`FileRefusal::Forbidden`], [`FileRefusal::Io`].
pub fn check_directory(root: &SysRoot, dir: &Path) -> Result<PathBuf, FileRefusal> {
    let resolved = std::fs::canonicalize(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => FileRefusal::Missing(dir.to_owned()),
        io::ErrorKind::NotADirectory => FileRefusal::NotDirectory(dir.to_owned()),
        _ => io_at("reach", dir)(error),
    })?;
    if !resolved.is_dir() {
        return Err(FileRefusal::NotDirectory(dir.to_owned()));
    }
    let own = mounts::own_mounts(root);
    let fs_type = mounts::mount_of(&own, &resolved).map(|m| m.fs_type.clone()).unwrap_or_default();
    let is_kernels = ["/dev", "/proc", "/sys"].iter().any(|top| resolved.starts_with(top))
        || KERNEL_FILE_SYSTEMS.contains(&fs_type.as_str());
    if is_kernels { Err(FileRefusal::Forbidden { path: resolved, fs_type }) } else { Ok(resolved) }
}

/// Makes sure that nobody but root can put something else in the place of a directory: neither of itself nor of one above it.
///
/// # Errors
/// [`FileRefusal::OthersMayMove`] with the first one that others can change.
pub fn check_only_roots(dir: &Path) -> Result<(), FileRefusal> {
    const STICKY: u32 = 0o1000;
    for at in dir.ancestors() {
        let meta = std::fs::symlink_metadata(at).map_err(io_at("look at", at))?;
        let writers = if meta.gid() == 0 { 0o002 } else { 0o022 };
        let may_rename = meta.mode() & writers != 0 && meta.mode() & STICKY == 0;
        if meta.uid() != 0 || may_rename {
            return Err(FileRefusal::OthersMayMove { path: dir.to_owned(), dir: at.to_owned() });
        }
    }
    Ok(())
}

/// Makes sure that a file which need not exist yet, nor its directories, would not come to lie in one of the kernel's
/// file systems. A symbolic link in its place is followed, also one that leads to nothing yet.
///
/// # Errors
/// [`FileRefusal::Forbidden`]; [`FileRefusal::Missing`] for a way back (`..`) out of a directory that does not exist.
/// Whatever else is wrong with the path shows when it is used.
pub fn check_new_path(root: &SysRoot, path: &Path) -> Result<(), FileRefusal> {
    /// As many links as the kernel follows.
    const LINKS_MAX: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    let is_there = |dir: &&Path| std::fs::symlink_metadata(dir).is_ok();
    let Some(nearest) = path.ancestors().skip(1).find(is_there) else { return Ok(()) };
    let missing = path.strip_prefix(nearest).unwrap_or(Path::new(""));
    if missing.components().any(|part| part == Component::ParentDir) {
        return Err(FileRefusal::Missing(nearest.join(missing.iter().next().unwrap_or_default())));
    }
    match check_directory(root, nearest) {
        Err(forbidden @ FileRefusal::Forbidden { .. }) => Err(forbidden),
        _ => Ok(()),
    }
}

/// The mount point that an absolute path without symbolic links lies under.
#[must_use]
pub fn mount_point(root: &SysRoot, path: &Path) -> PathBuf {
    let own = mounts::own_mounts(root);
    mounts::mount_of(&own, path).map(|mount| mount.mount_point.clone()).unwrap_or_default()
}

/// Makes sure that `wanted_bytes` more fit into the file system of a directory and that, afterwards, 5 % of it and at
/// least 1 GiB are still free for everybody.
///
/// # Errors
/// [`FileRefusal::Space`] with the figures; [`FileRefusal::Io`].
pub fn check_space(dir: &Path, wanted_bytes: u64) -> Result<(), FileRefusal> {
    check_space_keeping(dir, wanted_bytes, reserve_bytes)
}

/// The same for a file system that fathom made for an experiment: nobody else needs space on it, so that 5 % are enough.
///
/// # Errors
/// As [`check_space`].
pub fn check_space_of_setup(dir: &Path, wanted_bytes: u64) -> Result<(), FileRefusal> {
    check_space_keeping(dir, wanted_bytes, reserve_bytes_of_setup)
}

/// The same where `reserve` says what must stay free of so many bytes.
///
/// # Errors
/// As [`check_space`].
pub fn check_space_keeping(
    dir: &Path,
    wanted_bytes: u64,
    reserve: fn(u64) -> u64,
) -> Result<(), FileRefusal> {
    let space = fsinfo::space(dir).map_err(io_at("ask for the free space of", dir))?;
    let reserve_bytes = reserve(space.total_bytes);
    if wanted_bytes.saturating_add(reserve_bytes) <= space.available_bytes {
        return Ok(());
    }
    Err(FileRefusal::Space {
        path: dir.to_owned(),
        wanted_bytes,
        available_bytes: space.available_bytes,
        total_bytes: space.total_bytes,
        reserve_bytes,
    })
}

/// What must stay free of a file system of that size: 5 % and at least 1 GiB.
#[must_use]
pub fn reserve_bytes(total_bytes: u64) -> u64 {
    reserve_bytes_of_setup(total_bytes).max(1 << 30)
}

/// What must stay free of a file system of that size that fathom made for an experiment: 5 %.
#[must_use]
pub fn reserve_bytes_of_setup(total_bytes: u64) -> u64 {
    total_bytes / 20
}

/// A single path component that is safe to use as a name.
pub(crate) fn check_name(name: &str) -> Result<(), FileRefusal> {
    let is_bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    if is_bad { Err(FileRefusal::Name(name.to_owned())) } else { Ok(()) }
}

/// The last component of a path, as text that is safe to use as a name.
pub(crate) fn name_of(path: &Path) -> Result<String, FileRefusal> {
    let name = path.file_name().unwrap_or_default();
    let name = name.to_str().ok_or_else(|| FileRefusal::NotText(path.to_owned()))?;
    check_name(name)?;
    Ok(name.to_owned())
}

/// A path that the journal can note.
pub(crate) fn check_text(path: PathBuf) -> Result<PathBuf, FileRefusal> {
    if path.to_str().is_some() { Ok(path) } else { Err(FileRefusal::NotText(path)) }
}

/// A run identifier: it becomes part of names.
pub(crate) fn check_run_id(run_id: &str) -> Result<(), FileRefusal> {
    let is_good = !run_id.is_empty()
        && run_id.len() <= 64
        && run_id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if is_good { Ok(()) } else { Err(FileRefusal::Name(run_id.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nothing at all may be used, no size is small enough.
    #[test]
    fn a_smaller_size_helps_where_there_is_any_room() {
        let text = |available_bytes: u64| {
            let path = PathBuf::from("/x");
            let (wanted_bytes, total_bytes, reserve_bytes) = (8 << 30, 40 << 30, 2 << 30);
            FileRefusal::Space { path, wanted_bytes, available_bytes, total_bytes, reserve_bytes }
                .to_string()
        };
        assert!(text(3 << 30).ends_with("; use a smaller size, or another file system"));
        assert!(text(1 << 30).ends_with("at most 0 B can be used; use another file system"));
    }

    #[test]
    fn nothing_is_made_in_the_kernels_file_systems() {
        let root = SysRoot::live();
        for dir in
            ["/dev", "/dev/shm", "/dev/pts", "/proc", "/proc/self/fd/../../..", "/sys/kernel"]
        {
            let refusal = check_directory(&root, Path::new(dir));
            let allowed = dir == "/proc/self/fd/../../..";
            assert_eq!(matches!(refusal, Err(FileRefusal::Forbidden { .. })), !allowed, "{dir}");
        }
        assert!(check_directory(&root, &std::env::temp_dir()).is_ok());
        let missing = check_directory(&root, Path::new("/no/such"));
        assert!(matches!(missing, Err(FileRefusal::Missing(_))));
        let file = check_directory(&root, Path::new("/proc/self/exe"));
        assert!(matches!(file, Err(FileRefusal::NotDirectory(_))));
    }

    #[test]
    fn a_new_path_is_judged_by_where_it_would_come_to_lie() {
        let root = SysRoot::live();
        let scratch = fathom_testkit::Scratch::new().unwrap();
        let dangling = scratch.path().join("link");
        std::os::unix::fs::symlink("/dev/no-such-disk", &dangling).unwrap();
        for bad in
            ["/dev/no-such-disk", "/dev/no/such/dir", "/proc/x", "/sys/kernel/x", "/dev/shm/x"]
        {
            let refusal = check_new_path(&root, Path::new(bad));
            assert!(matches!(refusal, Err(FileRefusal::Forbidden { .. })), "{bad}: {refusal:?}");
        }
        let refusal = check_new_path(&root, &dangling);
        assert!(matches!(refusal, Err(FileRefusal::Forbidden { .. })), "{refusal:?}");
        let refusal = check_new_path(&root, Path::new("/no-such/../dev/no-such-disk"));
        assert!(matches!(refusal, Err(FileRefusal::Missing(_))), "{refusal:?}");
        check_new_path(&root, &scratch.path().join("a/b/c.db")).unwrap();
        check_new_path(&root, &scratch.path().join("../x.db")).unwrap();
    }

    #[test]
    fn a_reserve_stays_free() {
        assert_eq!(reserve_bytes(4 << 30), 1 << 30);
        assert_eq!(reserve_bytes(100 << 30), 5 << 30);
        assert_eq!(reserve_bytes_of_setup(400 << 20), 20 << 20);
        let dir = std::env::temp_dir();
        let space = fsinfo::space(&dir).unwrap();
        check_space(&dir, 0).unwrap();
        let refusal = check_space(&dir, space.available_bytes).unwrap_err();
        assert!(refusal.is_out_of_room(), "{refusal}");
        let of = |number| io_at("write", &dir)(io::Error::from_raw_os_error(number));
        let [full, quota, broken] = [28, 122, 5].map(|number| of(number).is_out_of_room());
        assert!(full && quota && !broken, "what the system says of it is the same");
        assert!(!refusal.is_safety() && refusal.to_string().contains("at most"), "{refusal}");
    }

    #[test]
    fn names_are_single_components() {
        for bad in ["", ".", "..", "a/b", "/", "a\0"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "../x", "A", "a b", "\u{e9}"] {
            assert!(check_run_id(bad).is_err(), "{bad:?}");
        }
        assert!(check_name("data.0").is_ok() && check_run_id("7f3kq2m8xw01").is_ok());
    }
}
