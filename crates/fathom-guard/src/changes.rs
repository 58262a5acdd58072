//! The journal of changes to the machine: `changes/RUN.jsonl` in the state directory, one line for each step, each on stable
//! storage before the next thing happens.
//!
//! A change is noted before it is made (`Intended`), noted again when it is made (`Made`, with what only then is known), and once
//! more when it was taken back (`Undone`). What a dead process left is therefore always known: everything intended and not undone.
//! A line that was being written when the machine or the process stopped is no line: what it would have noted was not made.

use crate::faults::Faults;
use crate::journal::Owner;
use crate::mark;
use crate::place::{FileRefusal, io_at};
use fathom_base::order::Order;
use fathom_base::shell;
use fathom_model::change::Change;
use fathom_sys::clock;
use fathom_sys::dirfd::Dir;
use fathom_sys::holes;
use fathom_sys::note;
use fathom_sys::process::{self, Life};
use fathom_sys::sysroot::SysRoot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Version of the lines; logs of a newer fathom are left alone.
pub const FORMAT: u32 = 1;

/// Number of a change in its log, from 0 in the order in which they were intended.
pub type Step = u32;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "line")]
enum Line {
    Head {
        format: u32,
        run_id: String,
        owner: Owner,
        /// When it was begun; none in journals of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        begun_unix_ns: Option<i64>,
        /// Lines that say what was changed end with a sum of theirs.
        #[serde(default)]
        has_sums: bool,
    },
    Intended {
        step: Step,
        change: Change,
    },
    Made {
        step: Step,
        change: Change,
    },
    Undone {
        step: Step,
    },
    /// Another process goes on with the log: a resumed experiment, or one that restores.
    Adopted {
        owner: Owner,
    },
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// About to be made: it may have happened or not, or in part.
    Intended,
    /// Made.
    Made,
    /// Taken back.
    Undone,
}

/// A change with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub step: Step,
    /// What it is, as last noted.
    pub change: Change,
    /// What became of it.
    pub state: State,
}

/// The log of one run.
#[derive(Debug)]
pub struct ChangeLog {
    path: PathBuf,
    /// None where nothing can be written, as on a filesystem that an error of its disk has made read-only.
    file: Option<File>,
    run_id: String,
    owner: Owner,
    /// Who has changed everything, whoever takes it back.
    maker: Owner,
    begun_unix_ns: Option<i64>,
    entries: BTreeMap<Step, Entry>,
    /// Whole lines that say nothing that is known, each with its number and the reason.
    damaged: Vec<(usize, String)>,
    faults: Faults,
    /// Up to which place of the file room was asked for, in bytes.
    reserved_bytes: u64,
}

/// Room that is taken ahead of what is written: what is noted of taking changes back must not want for it when the load has filled the disk
/// of the journal.
const RESERVE_BYTES: u64 = 256 << 10;

/// How the name of a journal ends that is being begun.
const DRAFT: &str = "draft";

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("changes")
}

impl ChangeLog {
    /// A new log, on stable storage when this returns.
    ///
    /// # Errors
    /// [`FileRefusal::Io`], also when the run has a log already: nothing may be changed then.
    pub fn create(
        root: &SysRoot,
        state_dir: &Path,
        run_id: &str,
        faults: Faults,
    ) -> Result<Self, FileRefusal> {
        let dir = directory(state_dir);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&dir).map_err(io_at("make", &dir))?;
        Dir::open(state_dir).and_then(|dir| dir.sync()).map_err(io_at("write", state_dir))?;
        // A draft until its head is whole: a journal without one has lost it.
        let (path, draft) = (dir.join(format!("{run_id}.jsonl")), format!("{run_id}.{DRAFT}"));
        let draft_path = dir.join(&draft);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft_path)
            .map_err(io_at("make", &draft_path))?;
        let (owner, begun_unix_ns) = (Owner::current(root)?, Some(clock::unix_ns()));
        let mut log = Self {
            path: path.clone(),
            file: Some(file),
            run_id: run_id.to_owned(),
            owner: owner.clone(),
            maker: owner.clone(),
            begun_unix_ns,
            entries: BTreeMap::new(),
            damaged: Vec::new(),
            faults,
            reserved_bytes: 0,
        };
        log.reserve();
        let (format, id) = (FORMAT, run_id.to_owned());
        let head = Line::Head { format, run_id: id, owner, begun_unix_ns, has_sums: true };
        let named = log.append(&head).and_then(|()| {
            let renamed = Dir::open(&dir)
                .and_then(|dir| dir.rename(&draft, format!("{run_id}.jsonl"), false));
            renamed.map_err(io_at("make", &path))
        });
        if let Err(error) = named {
            fs::remove_file(&draft_path).ok();
            return Err(error);
        }
        Dir::open(&dir).and_then(|dir| dir.sync()).map_err(io_at("write", &dir))?;
        log.fault_point("after the journal was begun");
        Ok(log)
    }

    /// Identifier of the run that began it.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Whose it is now.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The boot in which the changes were made. It is not that of the owner when somebody else had begun to take them back.
    #[must_use]
    pub fn boot_id(&self) -> &str {
        &self.maker.boot_id
    }

    /// Who made the changes.
    #[must_use]
    pub fn maker(&self) -> &Owner {
        &self.maker
    }

    /// Paths mean here what they meant to who made the changes.
    #[must_use]
    pub fn shares_paths(&self, root: &SysRoot) -> bool {
        self.maker.shares_paths(root)
    }

    /// Somebody has tried before to take the changes back from where paths mean what they mean here.
    #[must_use]
    pub fn was_tried_here(&self, root: &SysRoot) -> bool {
        self.owner != self.maker && self.owner.shares_paths(root)
    }

    /// Sorts logs by when they were begun. Not by their last lines: who tries to take back what an old one says writes to it.
    #[must_use]
    pub fn age_key(&self) -> (i64, &Path) {
        let of_file = || {
            let made = fs::metadata(&self.path).and_then(|m| m.created().or(m.modified())).ok();
            let since = made.and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
            since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
        };
        (self.begun_unix_ns.unwrap_or_else(of_file), &self.path)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on with the log of a dead process.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn adopt(&mut self, root: &SysRoot, faults: Faults) -> Result<(), FileRefusal> {
        self.faults = faults;
        let owner = Owner::current(root)?;
        self.append(&Line::Adopted { owner: owner.clone() })?;
        self.owner = owner;
        Ok(())
    }

    /// Notes what is about to be changed; on stable storage when this returns.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]: the change must not be made then.
    pub fn intend(&mut self, change: Change) -> Result<Step, FileRefusal> {
        let step = self.entries.last_key_value().map_or(0, |(last, _)| last + 1);
        self.reserve();
        self.append(&Line::Intended { step, change: change.clone() })?;
        self.entries.insert(step, Entry { step, change, state: State::Intended });
        Ok(step)
    }

    /// Notes that it is made, and what only now is known of it. May be called again when it changes further.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]: the change is to be taken back then.
    pub fn made(&mut self, step: Step, change: Change) -> Result<(), FileRefusal> {
        self.append(&Line::Made { step, change: change.clone() })?;
        self.entries.insert(step, Entry { step, change, state: State::Made });
        Ok(())
    }

    /// Notes that it was taken back, verified.
    ///
    /// # Errors
    /// [`FileRefusal::Io`]: taking it back again later must do no harm.
    pub fn undone(&mut self, step: Step) -> Result<(), FileRefusal> {
        self.append(&Line::Undone { step })?;
        if let Some(entry) = self.entries.get_mut(&step) {
            entry.state = State::Undone;
        }
        Ok(())
    }

    /// What is still to be taken back, newest first: the order in which it must be.
    #[must_use]
    pub fn pending(&self) -> Vec<Entry> {
        self.entries.values().rev().filter(|e| e.state != State::Undone).cloned().collect()
    }

    /// By which the programs that a change starts, and all that these start, are known again.
    #[must_use]
    pub fn program_mark(&self, step: Step) -> String {
        format!("{}/{step}", self.run_id)
    }

    /// The same of those that take it back.
    #[must_use]
    pub fn undo_mark(&self, step: Step) -> String {
        format!("{}/{step}/back", self.run_id)
    }

    /// One change.
    #[must_use]
    pub fn entry(&self, step: Step) -> Option<&Entry> {
        self.entries.get(&step)
    }

    /// A place at which a test can end this process: call it before and after each act on the machine.
    pub fn fault_point(&self, name: &str) {
        self.faults.point(name);
    }

    /// Lines that were written and cannot be read, in words: nobody knows what of theirs is still to be taken back.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let (number, reason) = self.damaged.first()?;
        let further = match self.damaged.len() {
            1 => String::new(),
            count => format!(" ({} more cannot be read)", count - 1),
        };
        Some(format!(
            "line {number} cannot be read: {reason}{further}; look at what it changed, put that back yourself, then remove the file: rm {}",
            shell::path(&self.path)
        ))
    }

    /// Removes the log when nothing is left to take back, and all of it was read; gives it back otherwise.
    ///
    /// # Errors
    /// [`FileRefusal::Io`].
    pub fn close(self) -> Result<Option<Self>, FileRefusal> {
        if !self.pending().is_empty() || !self.damaged.is_empty() {
            return Ok(Some(self));
        }
        self.faults.point("remove the journal");
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_at("remove", &self.path)(error))
            }
            Ok(()) | Err(_) => Ok(None),
        }
    }

    /// Keeps room for later lines. Not every filesystem can: then they may fail, each for itself.
    fn reserve(&mut self) {
        let Some(file) = &self.file else { return };
        let Ok(size_bytes) = file.metadata().map(|meta| meta.len()) else { return };
        if size_bytes + RESERVE_BYTES / 2 > self.reserved_bytes {
            // Asked for once only: where it cannot be had, every line would ask again.
            self.reserved_bytes = size_bytes + RESERVE_BYTES;
            holes::reserve(file, size_bytes, RESERVE_BYTES).ok();
        }
    }

    /// Writes a line. One that fails says nothing, and keeps no later one from being written: a change that was not noted was not made, and
    /// one whose taking back could not be noted is looked at again.
    fn append(&mut self, line: &Line) -> Result<(), FileRefusal> {
        self.faults.point("before a line of the journal");
        let text = written(line).map_err(io::Error::other);
        // The newline comes first too, so that a torn line before it spoils nothing but itself.
        let written = text.and_then(|text| {
            let read_only = || io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
            let mut file = self.file.as_ref().ok_or_else(read_only)?;
            file.write_all(format!("\n{text}\n").as_bytes())?;
            file.sync_data()
        });
        written.map_err(io_at("write", &self.path))?;
        self.faults.point("after a line of the journal");
        Ok(())
    }

    /// Reads a log.
    fn open(path: &Path) -> Result<Self, String> {
        check_author(path)?;
        let text = note::read(path).map_err(|error| error.to_string())?;
        let mut lines = lines(&text).into_iter();
        let run = path.file_stem().unwrap_or_default().to_string_lossy();
        let run = run.split('-').next().unwrap_or_default();
        let cure = format!(
            "fathom show {run} --json tells what its trials had set (knobs) and found before; put that back yourself, \
             then remove the file: rm {}",
            shell::path(path)
        );
        let (_, head, _) = lines.next().ok_or_else(|| {
            format!(
                "it is empty, though each is begun with a whole line: what it said is lost; {cure}"
            )
        })?;
        let head: Line = mark::parse(head)
            .map_err(|reason| format!("its head cannot be read: {reason}; {cure}"))?;
        let Line::Head { format, run_id, owner, begun_unix_ns, has_sums } = head else {
            return Err(format!("it has no head; {cure}"));
        };
        if format > FORMAT {
            return Err(format!(
                "written by a newer fathom (format {format}, this one knows {FORMAT}): fathom restore of that one puts it back"
            ));
        }
        let file = match OpenOptions::new().append(true).open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => None,
            Err(error) => return Err(error.to_string()),
        };
        let mut log = Self {
            path: path.to_owned(),
            file,
            run_id,
            maker: owner.clone(),
            owner,
            begun_unix_ns,
            entries: BTreeMap::new(),
            damaged: Vec::new(),
            faults: Faults::none(),
            reserved_bytes: 0,
        };
        for (number, line, is_whole) in lines {
            match read_line(line, has_sums) {
                Ok(line) => log.take(line),
                Err(reason) if is_whole => log.damaged.push((number, reason)),
                // What was torn by a crash says nothing; what follows it was written by a process that knew.
                Err(_) => {}
            }
        }
        Ok(log)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Head { .. } => {}
            Line::Adopted { owner } => self.owner = owner,
            Line::Intended { step, change } => {
                self.entries.insert(step, Entry { step, change, state: State::Intended });
            }
            Line::Made { step, change } => {
                self.entries.insert(step, Entry { step, change, state: State::Made });
            }
            Line::Undone { step } => {
                if let Some(entry) = self.entries.get_mut(&step) {
                    entry.state = State::Undone;
                }
            }
        }
    }
}

/// What lies in the state directory.
#[derive(Debug, Default)]
pub struct Logs {
    /// Logs of processes that are dead, oldest first.
    pub dead: Vec<ChangeLog>,
    /// Logs of processes that live, or of which nobody can tell here: they are left alone.
    pub others: Vec<ChangeLog>,
    /// Files that cannot be understood, with the reason; they are left alone.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// All logs. Under a draft nothing was changed, and it is removed: nobody lives who could be writing it, which the measuring
/// lock of the caller guarantees.
///
/// # Errors
/// [`FileRefusal::Io`] when the directory exists but cannot be listed.
pub fn read_all(root: &SysRoot, state_dir: &Path) -> Result<Logs, FileRefusal> {
    read(root, state_dir, true)
}

/// All logs, for a look at them without the measuring lock: nothing is removed.
///
/// # Errors
/// [`FileRefusal::Io`] when the directory exists but cannot be listed.
pub fn look(root: &SysRoot, state_dir: &Path) -> Result<Logs, FileRefusal> {
    read(root, state_dir, false)
}

fn read(root: &SysRoot, state_dir: &Path, is_locked: bool) -> Result<Logs, FileRefusal> {
    let dir = directory(state_dir);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Logs::default()),
        Err(error) => return Err(io_at("list", dir)(error)),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let ends_in = |file: &Path, ending: &str| file.extension().is_some_and(|e| e == ending);
    for draft in files.iter().filter(|file| is_locked && ends_in(file, DRAFT)) {
        fs::remove_file(draft).ok();
    }
    files.retain(|file| ends_in(file, "jsonl"));
    files.order();
    let mut logs = Logs::default();
    for file in files {
        match ChangeLog::open(&file) {
            Ok(log) if log.owner.life(root) == Life::Dead => logs.dead.push(log),
            Ok(log) => logs.others.push(log),
            Err(reason) => logs.unreadable.push((file, reason)),
        }
    }
    let age = |a: &ChangeLog, b: &ChangeLog| a.age_key().cmp(&b.age_key());
    logs.dead.order_by(age);
    logs.others.order_by(age);
    Ok(logs)
}

/// A line as it is written. One that says what was changed ends with its CRC-32C: a wrong byte could make it say something else.
fn written(line: &Line) -> serde_json::Result<String> {
    let text = serde_json::to_string(line)?;
    Ok(match line {
        Line::Head { .. } | Line::Adopted { .. } => text,
        _ => format!("{text}{}", sum_of(text.as_bytes())),
    })
}

fn sum_of(text: &[u8]) -> String {
    format!(" {:08x}", crc32c::crc32c(text))
}

/// What was written. Journals of older versions have no sums.
fn read_line(line: &[u8], has_sums: bool) -> Result<Line, String> {
    const SUM_BYTES: usize = 9;
    let is_bare = line.ends_with(b"}");
    let end = if is_bare { line.len() } else { line.len().saturating_sub(SUM_BYTES) };
    let (text, sum) = line.split_at(end);
    if !is_bare && sum != sum_of(text).as_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    let read: Line = mark::parse(text)?;
    let is_of_owner = matches!(read, Line::Head { .. } | Line::Adopted { .. });
    if has_sums && is_bare && !is_of_owner {
        return Err("it has no checksum".to_owned());
    }
    Ok(read)
}

/// The lines with their numbers, and whether each was written to its end: then what follows is the end of the file, or the newline that every
/// line begins with.
fn lines(text: &[u8]) -> Vec<(usize, &[u8], bool)> {
    let all: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let is_whole = |index: usize| all.get(index + 1).is_some_and(|next| next.is_empty());
    let numbered = all.iter().enumerate().filter(|(_, line)| !line.is_empty());
    numbered.map(|(index, line)| (index + 1, *line, is_whole(index))).collect()
}

/// A journal says what is to be run and written as root: only one that nobody else could have written is believed.
fn check_author(path: &Path) -> Result<(), String> {
    let meta = fs::symlink_metadata(path).map_err(|error| error.to_string())?;
    if !meta.is_file() || meta.nlink() > 1 {
        let file = shell::path(path);
        return Err(format!("it is no plain file of its own; if nobody needs it: rm {file}"));
    }
    if !process::is_own(meta.uid()) {
        return Err(format!(
            "it belongs to user {}; what it says is not done; if it is what a fathom of yours wrote: chown it",
            meta.uid()
        ));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write to it; what it says is not done; if nobody has changed it: chmod 600 {}",
            shell::path(path)
        ));
    }
    Ok(())
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
