//! What fathom has made outside its own places, written down before it is made: `owned/ID.json` in the state directory.

use crate::file_at;
use crate::filesystem::FilesystemId;
use crate::mark::{self, FileId, Seal};
use crate::place::{self, FileRefusal, io_at};
use fathom_base::order::Order;
use fathom_model::change::FileAt;
use fathom_sys::dirfd::Dir;
use fathom_sys::note;
use fathom_sys::process::{self, Life, ProcessIdentity};
use fathom_sys::sysroot::SysRoot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Version of the entries; those of a newer fathom are left alone.
pub const FORMAT: u32 = 1;

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A directory `.fathom-ID` with what is in it.
    Directory,
    /// A single file.
    File,
    /// A tree of files with a card of its own that proves what is in it; only `fathom clean` removes it.
    Tree,
    /// A private directory of an application that fathom started: everything in it goes.
    Private,
    /// A control group.
    ControlGroup {
        /// The `io` controller was enabled in the group above for this one alone.
        is_enabled_for_it: bool,
    },
}

/// The process that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Process number.
    pub pid: u32,
    /// Start, in clock ticks since boot.
    pub start_time_ticks: u64,
    /// Boot.
    pub boot_id: String,
    /// Machine.
    pub machine: String,
    /// Process namespace.
    pub pid_namespace: String,
    /// Mount namespace, in which paths mean what they meant to it; empty in entries of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mount_namespace: String,
    /// Device and inode of its root directory; empty likewise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub root: String,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// [`FileRefusal::NoIdentity`].
    pub fn current(root: &SysRoot) -> Result<Self, FileRefusal> {
        let me = ProcessIdentity::current(root).ok_or(FileRefusal::NoIdentity)?;
        Ok(Self {
            pid: me.pid,
            start_time_ticks: me.start_time_ticks,
            boot_id: me.boot_id,
            machine: me.machine,
            pid_namespace: me.pid_namespace,
            mount_namespace: process::namespace(root, "mnt"),
            root: process::root_directory(root),
        })
    }

    /// Whether it still runs. Of another process namespace on the same root directory that is known where all processes are seen.
    #[must_use]
    pub fn life(&self, root: &SysRoot) -> Life {
        let Self { pid, start_time_ticks, boot_id, machine, pid_namespace, .. } = self.clone();
        let own = ProcessIdentity { pid, start_time_ticks, boot_id, machine, pid_namespace };
        let life = own.life(root);
        let has_gone = || self.has_same_root(root) && self.namespace_is_gone(root) == Ok(true);
        if life == Life::Unknown && has_gone() { Life::Dead } else { life }
    }

    /// It ran since the last boot on the root directory that this process has: names of services and commands mean the same.
    #[must_use]
    pub fn has_same_root(&self, root: &SysRoot) -> bool {
        self.is_of_this_boot(root)
            && self.machine == process::machine(root)
            && !self.root.is_empty()
            && self.root == process::root_directory(root)
    }

    /// Paths mean here what they meant to it.
    #[must_use]
    pub fn shares_paths(&self, root: &SysRoot) -> bool {
        if !self.is_of_this_boot(root) {
            // Of a container nobody knows whether what runs here by its name has the same paths.
            return matches!(self.pid_namespace.as_str(), "" | process::FIRST_PID_NAMESPACE);
        }
        if self.root.is_empty() {
            return self.pid_namespace == process::namespace(root, "pid");
        }
        self.mount_namespace == process::namespace(root, "mnt")
            && self.root == process::root_directory(root)
    }

    /// What was mounted in its mount namespace alone has gone with that.
    #[must_use]
    pub fn mounts_are_gone(&self, root: &SysRoot) -> bool {
        !self.is_of_this_boot(root)
            || self.mount_namespace.is_empty()
            || process::is_namespace_gone(root, &self.mount_namespace) == Ok(true)
    }

    /// It ran since the machine was booted last.
    #[must_use]
    pub fn is_of_this_boot(&self, root: &SysRoot) -> bool {
        process::boot_id(root).is_some_and(|boot| boot == self.boot_id)
    }

    /// True when it ran on this machine in a process namespace that has no process any more, as far as that can be seen.
    #[must_use]
    pub fn has_gone_elsewhere(&self, root: &SysRoot) -> bool {
        self.is_of_this_boot(root) && self.namespace_is_gone(root) == Ok(true)
    }

    /// Whether its process namespace has no process any more, so that it has ended for certain.
    ///
    /// # Errors
    /// What keeps this process from seeing all others, with the cure.
    pub fn namespace_is_gone(&self, root: &SysRoot) -> Result<bool, &'static str> {
        if self.pid_namespace.is_empty() {
            return Err("its journal does not say in which namespace it ran");
        }
        process::is_namespace_gone(root, &self.pid_namespace)
    }
}

/// One thing that was, or was about to be, made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of this form.
    pub format: u32,
    /// The run.
    pub run_id: String,
    /// What it is.
    pub kind: Kind,
    /// Absolute path without symbolic links.
    pub path: PathBuf,
    /// The mount point that its file system had.
    pub mount_point: PathBuf,
    /// That file system; none in entries of older versions, and where nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<FilesystemId>,
    /// Where it is, in words that hold in every mount namespace; none in entries of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<FileAt>,
    /// Its identity; none until it was made.
    pub id: Option<FileId>,
    /// Whose it is.
    pub owner: Owner,
    /// True when it is to stay.
    pub kept: bool,
    /// Of files that are only read now, by name, how their owner left them. What has another time or size is somebody's.
    #[serde(default)]
    pub seals: BTreeMap<String, Seal>,
}

impl Entry {
    /// What is about to be made by this process at an absolute path.
    #[must_use]
    pub fn new(root: &SysRoot, run_id: &str, kind: Kind, path: &Path, owner: Owner) -> Self {
        Self {
            format: FORMAT,
            run_id: run_id.to_owned(),
            kind,
            path: path.to_owned(),
            mount_point: place::mount_point(root, path),
            filesystem: FilesystemId::of(root, path),
            at: file_at::note(root, path),
            id: None,
            owner,
            kept: false,
            seals: BTreeMap::new(),
        }
    }
}

/// An entry and the file that holds it.
#[derive(Debug)]
pub struct Record {
    /// The journal's file.
    pub file: PathBuf,
    /// What it says.
    pub entry: Entry,
}

/// What the journal holds.
#[derive(Debug, Default)]
pub struct Contents {
    /// The entries.
    pub records: Vec<Record>,
    /// Files that cannot be understood, with the reason; they are left alone.
    pub damaged: Vec<(PathBuf, String)>,
    /// Files that cannot be read, as those of another user, and what is no file; nobody can say what they tell of.
    pub unread: Vec<(PathBuf, io::Error)>,
}

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("owned")
}

impl Record {
    /// Writes a new entry onto stable storage.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]: without an entry nothing may be made.
    pub fn write_new(state_dir: &Path, entry: Entry) -> Result<Self, FileRefusal> {
        let dir = directory(state_dir);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&dir).map_err(io_at("make", &dir))?;
        for number in 1..10_000 {
            let name = match number {
                1 => format!("{}.json", entry.run_id),
                _ => format!("{}.{number}.json", entry.run_id),
            };
            match put(&dir, &name, &entry, false) {
                Ok(()) => return Ok(Self { file: dir.join(name), entry }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_at("write", dir.join(name))(error)),
            }
        }
        Err(io_at("write", dir)(io::Error::other("too many entries of one run")))
    }

    /// Changes the entry, as a whole or not at all.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]; the old entry stays then.
    pub fn update(&mut self, change: impl FnOnce(&mut Entry)) -> Result<(), FileRefusal> {
        let mut entry = self.entry.clone();
        change(&mut entry);
        let name = self.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let dir = self.file.parent().unwrap_or(Path::new("/"));
        put(dir, name, &entry, true).map_err(io_at("write", &self.file))?;
        self.entry = entry;
        Ok(())
    }

    /// Removes the entry; one that is gone already is fine.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn remove(&self) -> Result<(), FileRefusal> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_at("remove", &self.file)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// All entries. Drafts of processes that were killed while
/// writing are removed: what they would have noted was not made.
///
/// # Errors
/// [`FileRefusal::Io`] when the directory exists but cannot be listed.
pub fn read_all(root: &SysRoot, state_dir: &Path) -> Result<Contents, FileRefusal> {
    let dir = directory(state_dir);
    let mut contents = Contents::default();
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(contents),
        Err(error) => return Err(io_at("list", dir)(error)),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.order();
    for draft in files.iter().filter(|file| is_dead_draft(root, file)) {
        // Another fathom may have removed it meanwhile.
        fs::remove_file(draft).ok();
    }
    for file in files.into_iter().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        let text = match note::read(&file) {
            Ok(text) => text,
            // Another fathom has put it in order meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                contents.unread.push((file, error));
                continue;
            }
        };
        match mark::parse::<Entry>(&text) {
            Ok(entry) if entry.format <= FORMAT => contents.records.push(Record { file, entry }),
            Ok(entry) => {
                let reason = format!("written by a newer fathom ({})", entry.format);
                contents.damaged.push((file, reason));
            }
            Err(reason) => contents.damaged.push((file, reason)),
        }
    }
    Ok(contents)
}

/// Writes an entry so that its file appears, or changes, as a whole. Until then it is a draft whose name tells the
/// writing process, since an empty file could not say whether its writer is still at it. A new entry never takes
/// another's place.
fn put(dir_path: &Path, name: &str, entry: &Entry, replace: bool) -> io::Result<()> {
    let dir = Dir::open(dir_path)?;
    let Owner { pid, start_time_ticks, .. } = entry.owner;
    let draft = format!("{pid}-{start_time_ticks}-{name}{DRAFT}");
    let mut file = dir.create_file(&draft)?;
    let text = serde_json::to_vec(entry).map_err(io::Error::other);
    let written = text
        .and_then(|text| file.write_all(&text))
        .and_then(|()| file.sync_all())
        .and_then(|()| dir.rename(&draft, name, replace));
    if written.is_err() {
        dir.unlink(&draft).ok();
        return written;
    }
    let synced = dir.sync();
    if synced.is_err() && !replace {
        dir.unlink(name).ok();
    }
    synced
}

/// How the names of drafts end.
const DRAFT: &str = ".draft";

fn is_dead_draft(root: &SysRoot, file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(stem) = name.strip_suffix(DRAFT) else { return false };
    let mut numbers = stem.split('-');
    let pid = numbers.next().and_then(|pid| pid.parse::<u32>().ok());
    let start = numbers.next().and_then(|start| start.parse::<u64>().ok());
    match (pid, start) {
        (Some(pid), Some(start)) => match process::start_time_ticks(root, pid) {
            Some(now) => now != start && !process::has_other_time(root, pid),
            None => true,
        },
        _ => false,
    }
}
