//! What is known of verified blocks, kept for a later run and for after a crash of the machine: beside the journal, never
//! on the tested filesystem for its own sake.
//!
//! A directory for each job that verified: `head.json` says what was written where and from which requests, `N.ledger`
//! what must be found of thread N's writes when its run had ended, `N.marks` what was acknowledged as durable, in which
//! file, while it went on. It is made under another name, and gets a third one when it is forgotten, so that it is there as a whole or
//! not at all: what a kill leaves of it is removed by the next start.

use fathom_base::json;
use fathom_base::ledger::{LastMarks, Ledger, LedgerError, Mark};
use fathom_base::order::Order;
use fathom_base::verify_block::Format;
use fathom_guard::filesystem::{self, FilesystemId, Mounted};
use fathom_guard::mark::FileId;
use fathom_guard::place;
use fathom_inspect::identity;
use fathom_load::verify::{Book, BookId, Marks, StoredPlan};
use fathom_sys::devno::DevNo;
use fathom_sys::dirfd::Dir;
use fathom_sys::note;
use fathom_sys::sysroot::SysRoot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

mod devices;

/// Version of the directory's form.
const VERSION: u32 = 1;
/// What makes a directory a volume.
const HEAD: &str = "head.json";
/// How the name of a directory ends that is being made.
const DRAFT: &str = ".draft";
/// How the name of one ends that is forgotten.
const FORGOTTEN: &str = ".forgotten";
/// How long the writer of marks waits for one.
const WAIT: Duration = Duration::from_millis(100);

/// What was written, by whom, where.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    version: u32,
    /// Version of fathom: only the same one makes the same requests again.
    pub fathom_version: String,
    /// The run.
    pub run_id: String,
    /// Start of the trial, UTC, nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// The target, without symbolic links.
    pub target: PathBuf,
    /// The device's identifier; none for files.
    pub device_id: Option<String>,
    /// The identity of the file, or of the directory of several; none for devices.
    #[serde(default)]
    file_id: Option<FileId>,
    /// Where its filesystem was mounted; none for devices.
    #[serde(default)]
    mount_point: Option<PathBuf>,
    /// That filesystem; none for devices, in heads of older versions, and where nothing tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    filesystem: Option<FilesystemId>,
    /// The job with its range.
    pub plan: StoredPlan,
    /// Threads that ran.
    pub threads: u32,
}

/// What tells a target from others: a device keeps its identifier when its name changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Without symbolic links.
    pub path: PathBuf,
    /// None for files.
    pub device_id: Option<String>,
    /// None for devices.
    file_id: Option<FileId>,
    /// None for devices.
    mount_point: Option<PathBuf>,
    /// None for devices and where nothing tells.
    filesystem: Option<FilesystemId>,
}

impl Place {
    /// Of an existing file, directory or device.
    ///
    /// # Errors
    /// Those of looking at it.
    pub fn of(root: &SysRoot, path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let meta = fs::metadata(&path)?;
        let is_device = meta.file_type().is_block_device();
        let device_id =
            is_device.then(|| identity::device_id(root, DevNo::from_raw(meta.rdev())).text);
        let file_id = if meta.is_file() {
            Some(file_id(&path)?)
        } else {
            // The root directory has no name.
            (!is_device).then(|| file_id(&path).ok()).flatten()
        };
        let mount_point = (!is_device).then(|| place::mount_point(root, &path));
        let filesystem = if is_device { None } else { FilesystemId::of(root, &path) };
        Ok(Self { path, device_id, file_id, mount_point, filesystem })
    }

    /// Of what is no longer there: its path, with what is left of the directories above it.
    #[must_use]
    pub fn gone(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let real = |above: &Path| {
            let rest = absolute.strip_prefix(above).ok()?;
            Some(fs::canonicalize(above).ok()?.join(rest))
        };
        let path = absolute.ancestors().skip(1).find_map(real).unwrap_or_else(|| absolute.clone());
        Self { path, device_id: None, file_id: None, mount_point: None, filesystem: None }
    }

    /// True for the target itself, or a directory that it lies in.
    fn covers(&self, head: &Head) -> bool {
        match (&self.device_id, &head.device_id) {
            // An identifier of last resort begins with the device's name and ends with the boot.
            (Some(own), Some(other)) => {
                let name = self.path.file_name().unwrap_or_default().to_string_lossy();
                own == other || (head.target == self.path && other.starts_with(&format!("{name}:")))
            }
            (None, None) => head.target.starts_with(&self.path),
            _ => false,
        }
    }
}

/// Looks at the identity of a file or directory without opening it.
fn file_id(path: &Path) -> io::Result<FileId> {
    let nowhere = || io::Error::from(io::ErrorKind::NotFound);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(nowhere)?;
    let dir = Dir::open(path.parent().ok_or_else(nowhere)?)?;
    Ok(dir.facts(name)?.into())
}

/// Where a file, or a directory of several, is that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In its place; also of devices, whose identifier tells them.
    There,
    /// Removed or lost: the filesystem that it was on is mounted, and has no such file.
    Gone,
    /// Another one is in its place.
    Replaced,
    /// Another filesystem, or another part of it, is mounted where its own was.
    Hidden,
    /// The filesystem that it was on is not mounted, nor another one in its place.
    Away,
}

impl Head {
    /// Where it is, as far as that can be known. The time of birth tells whether a file is the one that was written, and only
    /// where a filesystem has none the inode's number: FAT gives other numbers after each mount. The filesystem's device number
    /// tells nothing, as it may change with every start of the machine.
    ///
    /// # Errors
    /// Those of looking at it.
    pub fn whereabouts(&self, root: &SysRoot) -> io::Result<Whereabouts> {
        let Some(written) = self.file_id else { return Ok(Whereabouts::There) };
        let elsewhere = self.elsewhere(root);
        match file_id(&self.target) {
            Ok(found) => {
                let is_same = match (written.born_ns, found.born_ns) {
                    (Some(written_ns), Some(found_ns)) => written_ns == found_ns,
                    // Of another filesystem the number says nothing.
                    _ => elsewhere != Some(Whereabouts::Hidden) && written.inode == found.inode,
                };
                let other = elsewhere.unwrap_or(Whereabouts::Replaced);
                Ok(if is_same { Whereabouts::There } else { other })
            }
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => Ok(elsewhere.unwrap_or(Whereabouts::Gone)),
                io::ErrorKind::NotADirectory => Ok(elsewhere.unwrap_or(Whereabouts::Replaced)),
                _ => Err(error),
            },
        }
    }

    /// What has become of the filesystem that it was on; none where that is mounted.
    fn elsewhere(&self, root: &SysRoot) -> Option<Whereabouts> {
        let Some(mount_point) = &self.mount_point else { return Some(Whereabouts::Away) };
        match filesystem::mounted(root, &self.target, mount_point, self.filesystem.as_ref()) {
            Mounted::Same => None,
            Mounted::Another => Some(Whereabouts::Hidden),
            Mounted::Nothing => Some(Whereabouts::Away),
        }
    }

    /// Where it is seen by now, when its filesystem is mounted in another place, or is on another device.
    #[must_use]
    pub fn seen_at(&self, root: &SysRoot) -> Option<PathBuf> {
        let (written, filesystem) = (self.file_id?, self.filesystem.as_ref()?);
        let places = filesystem.places_of(root, self.mount_point(), &self.target);
        places.into_iter().find(|path| {
            file_id(path).is_ok_and(|found| match (written.born_ns, found.born_ns) {
                (Some(written_ns), Some(found_ns)) => written_ns == found_ns,
                _ => written.inode == found.inode,
            })
        })
    }

    /// True where its filesystem may be seen again without anybody's mounting it.
    #[must_use]
    pub fn may_be_mounted(&self, root: &SysRoot) -> bool {
        self.filesystem.as_ref().is_some_and(|id| id.may_be_mounted(root, self.mount_point()))
    }

    /// Where its filesystem was mounted; of older versions' heads, and of devices, its own place.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        self.mount_point.as_deref().unwrap_or(&self.target)
    }

    fn is_gone(&self, root: &SysRoot) -> bool {
        self.whereabouts(root).is_ok_and(|found| found == Whereabouts::Gone)
    }
}

/// A head for a job that is about to run.
pub fn head(
    place: Place,
    run_id: &str,
    started_unix_ns: i64,
    plan: StoredPlan,
    threads: u32,
) -> Head {
    Head {
        version: VERSION,
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: run_id.to_owned(),
        started_unix_ns,
        target: place.path,
        device_id: place.device_id,
        file_id: place.file_id,
        mount_point: place.mount_point,
        filesystem: place.filesystem,
        plan,
        threads,
    }
}

/// Everything that is kept.
#[derive(Debug, Clone)]
pub struct Shelf(PathBuf);

/// What is kept of one job.
#[derive(Debug, Clone)]
pub struct Volume {
    dir: PathBuf,
    /// What was written.
    pub head: Head,
}

/// What is known of one thread's writes.
#[derive(Debug)]
pub enum Known {
    /// The run had ended: exactly what must be there.
    Ended(Box<Ledger>, Format),
    /// It had not: the last mark of each file; none of one of which nothing had been acknowledged. With the file that they are noted in.
    Marked(LastMarks, PathBuf),
}

impl Shelf {
    /// The one beside the journal.
    #[must_use]
    pub fn new(state_dir: &Path) -> Self {
        Self(state_dir.join("verify"))
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What is kept about a target or what lies below a directory, the oldest first. Volumes that cannot be read are
    /// left out; [`Shelf::unread`] tells them.
    #[must_use]
    pub fn about(&self, place: &Place) -> Vec<Volume> {
        let mut volumes: Vec<Volume> =
            self.all().into_iter().filter(|volume| place.covers(&volume.head)).collect();
        volumes.order_by_key(|volume| volume.head.started_unix_ns);
        volumes
    }

    /// The targets that something is known of.
    #[must_use]
    pub fn targets(&self) -> Vec<PathBuf> {
        let mut targets: Vec<PathBuf> = self.all().into_iter().map(|v| v.head.target).collect();
        targets.order();
        targets.dedup();
        targets
    }

    /// Forgets what is kept about files that were removed, as those of killed runs are; which they were, and why the last one could
    /// not be forgotten. The caller holds the measuring lock.
    pub fn forget_removed(&self, root: &SysRoot) -> (Vec<PathBuf>, Option<io::Error>) {
        let (mut forgotten, mut failed) = (Vec::new(), self.finish().err());
        for volume in self.all().into_iter().filter(|volume| volume.head.is_gone(root)) {
            let target = volume.head.target.clone();
            match volume.remove() {
                Ok(()) => forgotten.push(target),
                Err(error) => failed = Some(error),
            }
        }
        (forgotten, failed)
    }

    /// Removes what killed processes have left of notes that they were making, or forgetting; the caller holds the measuring lock.
    ///
    /// # Errors
    /// That of the last one that could not be removed.
    pub fn finish(&self) -> io::Result<()> {
        let mut all = paths_in(&self.0).unwrap_or_default();
        all.retain(|path| is_being_changed(path) || is_without_head(path));
        // One that cannot be removed keeps no other from it.
        let mut result = Ok(());
        for failed in
            all.iter().map(fs::remove_dir_all).filter(|one| one.as_ref().is_err_and(is_there))
        {
            result = failed;
        }
        result
    }

    /// What of it is there and cannot be read, with the reason, one file or directory of each volume at the most: nobody can
    /// say what it tells. What was never finished is not there.
    #[must_use]
    pub fn unread(&self) -> Vec<(PathBuf, io::Error)> {
        let not_open = |file: PathBuf| {
            let error = note::open(&file).err().filter(is_there)?;
            Some((file, error))
        };
        let damaged = |dir: &Path| Some((dir.join(HEAD), head_in(dir).err()?));
        let first_of = |dir: PathBuf| match paths_in(&dir) {
            Ok(files) => files.into_iter().find_map(not_open).or_else(|| damaged(&dir)),
            Err(error) if is_there(&error) => Some((dir, error)),
            // Something else in the place of a volume is there, too.
            Err(_) if is_volume(&dir) && dir.symlink_metadata().is_ok() => {
                let no_directory = "is in the place of a directory of notes, and is none";
                Some((dir, io::Error::new(io::ErrorKind::InvalidData, no_directory)))
            }
            Err(_) => None,
        };
        match self.dirs() {
            Ok(dirs) => dirs.into_iter().filter_map(first_of).collect(),
            // Something else in its place is there, too.
            Err(error) if is_there(&error) || self.0.symlink_metadata().is_ok() => {
                vec![(self.0.clone(), error)]
            }
            Err(_) => Vec::new(),
        }
    }

    fn all(&self) -> Vec<Volume> {
        let volume = |dir: PathBuf| {
            let head = head_in(&dir).ok().flatten()?;
            Some(Volume { dir, head })
        };
        self.dirs().unwrap_or_default().into_iter().filter_map(volume).collect()
    }

    /// Those of volumes.
    fn dirs(&self) -> io::Result<Vec<PathBuf>> {
        let mut all = paths_in(&self.0)?;
        all.retain(|path| !is_being_changed(path));
        Ok(all)
    }

    /// Makes a volume, on stable storage when this returns.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn add(&self, head: Head, has_marks: bool) -> io::Result<Volume> {
        fs::create_dir_all(&self.0)?;
        let dir = self.0.join(format!("{:016x}", head.plan.target_id));
        let draft = with_ending(&dir, DRAFT);
        fs::create_dir(&draft)?;
        let made = fill(&draft, &head, has_marks).and_then(|()| fs::rename(&draft, &dir));
        if made.is_err() {
            fs::remove_dir_all(&draft).ok();
        }
        made?;
        File::open(&self.0)?.sync_all()?;
        Ok(Volume { dir, head })
    }
}

/// Writes what a volume begins with.
fn fill(dir: &Path, head: &Head, has_marks: bool) -> io::Result<()> {
    let mut file = File::create_new(dir.join(HEAD))?;
    serde_json::to_writer(&mut file, head)?;
    file.sync_all()?;
    if has_marks {
        for thread in 0..head.threads {
            File::create_new(dir.join(format!("{thread}.marks")))?.sync_all()?;
        }
    }
    File::open(dir)?.sync_all()
}

fn with_ending(dir: &Path, ending: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// True for the name of a volume, which is a number.
fn is_number(name: &str) -> bool {
    name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// True for the path of a volume.
pub fn is_volume(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_number)
}

/// True for a volume that is being made or forgotten, or was when somebody was killed.
fn is_being_changed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let number = name.strip_suffix(DRAFT).or_else(|| name.strip_suffix(FORGOTTEN));
    number.is_some_and(is_number)
}

/// True for what is left of one where older versions were killed while they forgot it: without its head, the rest is nothing.
fn is_without_head(path: &Path) -> bool {
    let is_note = |path: &PathBuf| path.extension().is_some_and(|e| e == "ledger" || e == "marks");
    is_volume(path) && paths_in(path).is_ok_and(|files| files.iter().all(is_note))
}

/// What a directory holds; it is closed again before any of that is opened.
fn paths_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

/// The head of a volume; none where there is none.
///
/// # Errors
/// `InvalidData` for one that is damaged, or of another version of fathom; those of reading it.
fn head_in(dir: &Path) -> io::Result<Option<Head>> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let text = match note::read(&dir.join(HEAD)) {
        Ok(text) => {
            String::from_utf8(text).map_err(|error| wrong(format!("is damaged: {error}")))?
        }
        Err(error) if is_there(&error) => return Err(error),
        Err(_) => return Ok(None),
    };
    match json::from_str::<Head>(&text) {
        Ok(head) if head.version == VERSION => Ok(Some(head)),
        Ok(head) => {
            Err(wrong(format!("is of form {}, and this fathom knows {VERSION}", head.version)))
        }
        Err(error) => Err(wrong(format!("is damaged: {error}"))),
    }
}

/// Whether an error of opening leaves open that there is something.
fn is_there(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Volume {
    /// True for what lies in its directory, and for that.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        path.starts_with(&self.dir)
    }

    /// Where what is known of a thread's writes is noted, and the directory of all that.
    #[must_use]
    pub fn note_of(&self, thread: u32) -> (PathBuf, &Path) {
        let ledger = self.file(thread, "ledger");
        let is_ended = ledger.symlink_metadata().is_ok();
        (if is_ended { ledger } else { self.file(thread, "marks") }, &self.dir)
    }

    fn file(&self, thread: u32, kind: &str) -> PathBuf {
        self.dir.join(format!("{thread}.{kind}"))
    }

    /// Notes what must be found after the end of a run.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn close(&self, book: &Book) -> io::Result<()> {
        let mut file = File::create_new(self.file(book.id.thread, "ledger"))?;
        file.write_all(&book.ledger.to_bytes(&book.format))?;
        file.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    /// What is known of a thread's writes.
    ///
    /// # Errors
    /// [`LedgerError`] for a ledger that is damaged or needs more memory than it may take; `Unreadable` for one that
    /// cannot be opened.
    pub fn known(&self, thread: u32, limit_bytes: u64) -> Result<Known, LedgerError> {
        let noted = |kind| match note::read(&self.file(thread, kind)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if is_there(&error) => Err(LedgerError::Unreadable("it cannot be read")),
            Err(_) => Ok(None),
        };
        if let Some(bytes) = noted("ledger")? {
            return Ledger::from_bytes(&bytes, limit_bytes)
                .map(|(ledger, format)| Known::Ended(Box::new(ledger), format));
        }
        let marks = noted("marks")?.unwrap_or_default();
        Ok(Known::Marked(Mark::last_of(&marks), self.file(thread, "marks")))
    }

    /// True when acknowledged writes were noted.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        self.file(0, "marks").exists()
    }

    /// Forgets it, also for after a crash of the machine: what is written next must not be held against it then.
    ///
    /// # Errors
    /// Those of removing it.
    pub fn remove(self) -> io::Result<()> {
        let forgotten = with_ending(&self.dir, FORGOTTEN);
        fs::rename(&self.dir, &forgotten)?;
        File::open(self.dir.parent().unwrap_or(Path::new("/")))?.sync_all()?;
        // What cannot be removed now tells nothing any more, and goes at the next start.
        fs::remove_dir_all(&forgotten).ok();
        Ok(())
    }
}

/// Writes marks down while jobs run, as fast as stable storage takes them.
#[derive(Debug)]
pub struct Scribe {
    marks: Arc<Marks>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Scribe {
    /// For jobs by their place in the workload.
    ///
    /// # Errors
    /// When the files cannot be opened or the thread not be started.
    pub fn start(volumes: &BTreeMap<usize, Volume>) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for (&job, volume) in volumes {
            for thread in 0..volume.head.threads {
                let file = File::options().append(true).open(volume.file(thread, "marks"))?;
                files.insert(BookId { job, thread }, file);
            }
        }
        let (marks, is_over) = (Arc::new(Marks::default()), Arc::new(AtomicBool::new(false)));
        let (source, ends) = (Arc::clone(&marks), Arc::clone(&is_over));
        let thread = std::thread::Builder::new()
            .name("verify-marks".into())
            .spawn(move || write_down(&source, &ends, &files))?;
        Ok(Self { marks, is_over, thread })
    }

    /// Where jobs put their marks.
    #[must_use]
    pub fn marks(&self) -> Arc<Marks> {
        Arc::clone(&self.marks)
    }

    /// Writes down what is still waiting, and ends.
    ///
    /// # Errors
    /// When marks could not be written: then less is known than could be.
    pub fn end(self) -> io::Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("it gave up")))
    }
}

fn write_down(
    marks: &Marks,
    is_over: &AtomicBool,
    files: &BTreeMap<BookId, File>,
) -> io::Result<()> {
    loop {
        let ends = is_over.load(Ordering::Relaxed);
        let waiting = marks.take(if ends { Duration::ZERO } else { WAIT });
        if waiting.is_empty() && ends {
            return Ok(());
        }
        for (id, marks) in waiting {
            let Some(mut file) = files.get(&id) else { continue };
            let mut bytes = Vec::new();
            marks.values().for_each(|mark| mark.append_to(&mut bytes));
            file.write_all(&bytes)?;
            file.sync_data()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_load::plan::plan;
    use fathom_model::keys;
    use fathom_model::workload::Job;
    use std::process::Command;

    /// A shelf with one volume about a file, both in a directory of the test's own.
    fn shelf_about_a_file(name: &str) -> (PathBuf, PathBuf, Shelf) {
        let dir = std::env::temp_dir().join(format!("fathom-books-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("data");
        fs::write(&file, "written").unwrap();
        let mut job = Job::default();
        for (key, value) in [("write_fraction", "1"), ("verify", "after"), ("operations", "1")] {
            keys::set(&mut job, key, value).unwrap();
        }
        let stored = StoredPlan::of(&plan(&job, 1 << 20, 512, 1).unwrap()).unwrap();
        let place = Place::of(&SysRoot::live(), &file).unwrap();
        let shelf = Shelf::new(&dir);
        shelf.add(head(place, "run", 1, stored, 1), false).unwrap();
        (dir, file, shelf)
    }

    #[test]
    fn another_file_of_the_same_name_is_not_the_one_that_was_written() {
        let (dir, file, shelf) = shelf_about_a_file("another");
        let head = shelf.all().pop().unwrap().head;
        let whereabouts = || head.whereabouts(&SysRoot::live()).unwrap();
        fs::write(&file, "the same one, written again").unwrap();
        assert_eq!(whereabouts(), Whereabouts::There);
        // Times of birth are as fine as a tick of the kernel.
        std::thread::sleep(Duration::from_millis(50));
        fs::remove_file(&file).unwrap();
        assert_eq!(whereabouts(), Whereabouts::Gone);
        fs::write(&file, "written").unwrap();
        assert_eq!(whereabouts(), Whereabouts::Replaced, "its inode number may be the old one");
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Where no time of birth tells, the number of an inode does, but not on another filesystem.
    #[test]
    fn a_number_of_an_inode_says_nothing_of_another_filesystem() {
        let (dir, file, shelf) = shelf_about_a_file("number");
        let root = SysRoot::live();
        let mut head = shelf.all().pop().unwrap().head;
        head.file_id.as_mut().unwrap().born_ns = None;
        assert_eq!(head.whereabouts(&root).unwrap(), Whereabouts::There);
        let another = FilesystemId::of(&root, Path::new("/proc/self"));
        head.filesystem = another;
        assert_eq!(head.whereabouts(&root).unwrap(), Whereabouts::Hidden);
        fs::remove_file(&file).unwrap();
        assert_eq!(head.whereabouts(&root).unwrap(), Whereabouts::Hidden);
        head.mount_point = Some("/nowhere".into());
        assert_eq!(head.whereabouts(&root).unwrap(), Whereabouts::Away);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_kept_about_removed_files_is_forgotten() {
        let (dir, file, shelf) = shelf_about_a_file("removed");
        let root = SysRoot::live();
        assert!(shelf.forget_removed(&root).1.is_none());
        assert_eq!(shelf.all().len(), 1, "it is there");
        // As if the file lay on a filesystem that is not mounted now.
        let head_file = shelf.all().pop().unwrap().dir.join(HEAD);
        let text = fs::read_to_string(&head_file).unwrap();
        let mut elsewhere: Head = serde_json::from_str(&text).unwrap();
        elsewhere.mount_point = Some("/nowhere".into());
        fs::write(&head_file, serde_json::to_string(&elsewhere).unwrap()).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(shelf.forget_removed(&root).1.is_none());
        assert_eq!(shelf.all().len(), 1, "it may come back with its filesystem");
        // As if another filesystem were mounted in its place.
        let mut hidden: serde_json::Value = serde_json::from_str(&text).unwrap();
        hidden["filesystem"]["root"] = "/another".into();
        fs::write(&head_file, hidden.to_string()).unwrap();
        assert!(shelf.forget_removed(&root).1.is_none());
        assert_eq!(shelf.all().len(), 1, "that one never had the file");
        fs::write(&head_file, text).unwrap();
        assert_eq!(shelf.forget_removed(&root).0, std::slice::from_ref(&file));
        assert!(shelf.all().is_empty());
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Whatever else lies in the place of notes is named, and waited for by nobody.
    #[test]
    fn what_is_no_file_is_no_note() {
        let (dir, _, shelf) = shelf_about_a_file("no-file");
        let volume = shelf.all().pop().unwrap();
        let pipe = |path: &Path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        let said = || {
            let all = shelf.unread().into_iter();
            all.map(|(path, error)| (path, error.to_string())).collect::<Vec<_>>()
        };
        let it_is = |what: &str| format!("it is a {what}, and no regular file");
        let [ledger, marks] = ["ledger", "marks"].map(|kind| volume.file(0, kind));
        pipe(&ledger);
        assert_eq!(said(), [(ledger.clone(), it_is("named pipe"))]);
        assert!(matches!(volume.known(0, 1 << 20), Err(LedgerError::Unreadable(_))));
        fs::remove_file(&ledger).unwrap();
        fs::create_dir(&marks).unwrap();
        assert_eq!(said(), [(marks.clone(), it_is("directory"))]);
        assert!(matches!(volume.known(0, 1 << 20), Err(LedgerError::Unreadable(_))));
        fs::remove_dir(&marks).unwrap();
        let head = volume.dir.join(HEAD);
        fs::remove_file(&head).unwrap();
        pipe(&head);
        assert_eq!(said(), [(head, it_is("named pipe"))]);
        assert!(shelf.all().is_empty());
        fs::remove_dir_all(shelf.path()).unwrap();
        assert_eq!(said(), []);
        fs::create_dir(shelf.path()).unwrap();
        pipe(&volume.dir);
        fs::write(shelf.path().join("copy"), "").unwrap();
        assert_eq!(
            said(),
            [(
                volume.dir.clone(),
                "is in the place of a directory of notes, and is none".to_owned()
            )]
        );
        fs::remove_dir_all(shelf.path()).unwrap();
        pipe(shelf.path());
        assert_eq!(said().len(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Who was killed while notes were made, or forgotten, leaves nothing behind for ever; what others have put there stays.
    #[test]
    fn notes_of_the_killed_go() {
        let (dir, _, shelf) = shelf_about_a_file("killed");
        let volume = shelf.all().pop().unwrap().dir;
        fs::write(volume.join("0.ledger"), "").unwrap();
        let at = |name: &str| shelf.path().join(name);
        let names = [
            "0123456789abcdef.draft",
            "0123456789abcdef.forgotten",
            "0123456789abcdef",
            "copy.forgotten",
            "copy",
        ];
        for (name, file) in names.into_iter().zip([HEAD, HEAD, "0.ledger", "0.ledger", "0.marks"]) {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join(file), "").unwrap();
        }
        assert_eq!((shelf.unread().len(), shelf.all().len()), (0, 1));
        assert!(shelf.forget_removed(&SysRoot::live()).1.is_none());
        assert_eq!(names.map(|name| at(name).exists()), [false, false, false, true, true]);
        shelf.all().pop().unwrap().remove().unwrap();
        assert!(!volume.exists() && paths_in(shelf.path()).unwrap().len() == 2);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// What was never finished has another name, so that all that cannot be understood is told.
    #[test]
    fn a_damaged_head_is_not_unknown() {
        let (dir, _, shelf) = shelf_about_a_file("damaged");
        let head_file = shelf.all().pop().unwrap().dir.join(HEAD);
        let text = fs::read_to_string(&head_file).unwrap();
        let said = |text: &[u8]| {
            fs::write(&head_file, text).unwrap();
            shelf.unread().pop().map(|(path, error)| {
                assert_eq!(path, head_file);
                error.to_string()
            })
        };
        assert_eq!(said(text.as_bytes()), None);
        for cut_off in [0, text.len() / 2] {
            let why = said(&text.as_bytes()[..cut_off]);
            assert!(why.is_some_and(|why| why.starts_with("is damaged: EOF")), "{cut_off}");
        }
        let bent = text.replacen(':', ";", 1);
        assert!(said(bent.as_bytes()).is_some_and(|why| why.starts_with("is damaged: ")));
        assert!(said(&[0xff; 9]).is_some());
        let later = text.replacen("\"version\":1", "\"version\":77", 1);
        assert!(said(later.as_bytes()).is_some_and(|why| why.contains("is of form 77")));
        assert!(shelf.all().is_empty());
        fs::remove_dir_all(&dir).unwrap();
    }
}
