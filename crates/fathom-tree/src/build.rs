//! Makes trees: block by block of directories, breadth first, so that every beginning is a whole tree; goes on with what
//! was broken off; takes up what is there already.

pub mod crew;
mod fill;
mod place;

use crate::error::TreeError;
use crate::manifest::{self, Access, Card, State, Tree, check};
use crate::spec::layout::{Extent, Layout};
use crate::spec::{Amount, TreeSpec};
use crew::Counters;
use fathom_guard::journal::{self, Entry, Kind, Owner, Record};
use fathom_guard::mark::FileId;
use fathom_guard::place as guard_place;
use fathom_sys::clock;
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use place::Reserve;
use std::path::{Path, PathBuf};

/// Directories of a block: between two of them space and time are looked at.
const BLOCK_DIRS: u64 = 512;

/// What a build needs.
pub struct Builder<'a> {
    /// The system.
    pub root: &'a SysRoot,
    /// Where the journal lies.
    pub state_dir: &'a Path,
    /// The run that makes the tree.
    pub run_id: &'a str,
    /// Threads that make files.
    pub threads: usize,
    /// It ends, as a whole tree, after so long.
    pub time_ns: Option<u64>,
    /// Says that somebody wants the end.
    pub stop: &'a StopFlag,
    /// Is told how far the work is.
    pub progress: &'a mut dyn FnMut(Step),
}

/// How far work on a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What is done: `building`, `checking`, `removing`.
    pub doing: &'static str,
    /// Files so far.
    pub files: u64,
    /// Files in all.
    pub files_total: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Time so far, nanoseconds.
    pub took_ns: u64,
    /// Time that is left, where it can be told, nanoseconds.
    pub left_ns: Option<u64>,
}

impl Step {
    /// The time that is left is by bytes and files: both cost.
    pub(crate) fn of(
        doing: &'static str,
        counters: &Counters,
        total: (u64, u64),
        started_ns: u64,
    ) -> Self {
        let (files, bytes) = counters.now();
        let took_ns = clock::monotonic_ns().saturating_sub(started_ns);
        let share =
            (files as f64 / total.0.max(1) as f64 + bytes as f64 / total.1.max(1) as f64) / 2.0;
        let share =
            if total.1 == 0 || bytes == 0 { files as f64 / total.0.max(1) as f64 } else { share };
        let left_ns =
            (share > 0.01).then(|| (took_ns as f64 / share * (1.0 - share.min(1.0))) as u64);
        Self { doing, files, files_total: total.0, bytes, took_ns, left_ns }
    }
}

/// What a build came to.
#[derive(Debug)]
pub struct Built {
    /// The tree, still held.
    pub tree: Tree,
    /// It was there already.
    pub reused: bool,
    /// Files that were made now.
    pub made_files: u64,
    /// Time that took, nanoseconds.
    pub took_ns: u64,
}

impl Builder<'_> {
    /// Makes sure that the tree of the spec is in a directory, which is new, empty, or has just that tree.
    ///
    /// # Errors
    /// [`TreeError`]. What was made until then stays, to be gone on with or cleaned.
    pub fn build(&mut self, path: &Path, spec: TreeSpec) -> Result<Built, TreeError> {
        self.build_keeping(path, spec, guard_place::reserve_bytes)
    }

    /// The same on a filesystem that was made for an experiment: nobody else needs space on it.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_in_setup(&mut self, path: &Path, spec: TreeSpec) -> Result<Built, TreeError> {
        self.build_keeping(path, spec, guard_place::reserve_bytes_of_setup)
    }

    fn build_keeping(
        &mut self,
        path: &Path,
        spec: TreeSpec,
        reserve: Reserve,
    ) -> Result<Built, TreeError> {
        let path = place::resolve(self.root, path)?;
        let started_ns = clock::monotonic_ns();
        if let Some(found) = self.take_up(&path, &spec)? {
            return match found.card().state {
                State::Complete => self.reuse(found, started_ns),
                _ => self.make(found, reserve, started_ns),
            };
        }
        place::check_amount((self.root, reserve), &path, &spec)?;
        let layout = Layout::new(spec).map_err(TreeError::Usage)?;
        place::check_room((self.root, reserve), &path, layout.extent())?;
        let tree = self.begin(&path, layout)?;
        self.make(tree, reserve, started_ns)
    }

    /// The tree that is there already, if it is that of the spec and not being removed.
    fn take_up(&self, path: &Path, spec: &TreeSpec) -> Result<Option<Tree>, TreeError> {
        let Ok(root) = Dir::open(path) else { return Ok(None) };
        if manifest::read_card(&root, path)?.is_none() {
            return Ok(None);
        }
        drop(root);
        let tree = Tree::open(path, Access::Alone)?;
        if let Some(differs) = differs(tree.card(), spec, self.time_ns.is_some()) {
            return Err(TreeError::Another { path: path.to_owned(), differs });
        }
        match tree.card().state {
            State::Removing => {
                Err(TreeError::Unfinished { path: path.to_owned(), doing: "removed" })
            }
            _ => Ok(Some(tree)),
        }
    }

    /// A whole tree: names, sizes and times are looked at.
    fn reuse(&mut self, tree: Tree, started_ns: u64) -> Result<Built, TreeError> {
        let report =
            check::check(&tree, check::Depth::Names, self.threads, self.stop, self.progress)?;
        if let Some(what) = report.told() {
            return Err(TreeError::Changed { path: tree.path().to_owned(), what });
        }
        let took_ns = clock::monotonic_ns() - started_ns;
        Ok(Built { tree, reused: true, made_files: 0, took_ns })
    }

    /// Makes and signs the tree's directory, noted before.
    fn begin(&self, path: &Path, layout: Layout) -> Result<Tree, TreeError> {
        let owner = Owner::current(self.root)?;
        let known = known(self.root, self.state_dir, path)?;
        let is_there = path.symlink_metadata().is_ok();
        let mut record = match known {
            Some(mut record) => {
                record.update(|entry| entry.owner = owner)?;
                record
            }
            None => Record::write_new(
                self.state_dir,
                Entry::new(self.root, self.run_id, Kind::Tree, path, owner),
            )?,
        };
        let root = place::make_or_open(path, is_there, &record).inspect_err(|_| {
            if record.entry.id.is_none() {
                record.remove().ok();
            }
        })?;
        manifest::hold(&root, path, Access::Alone)?;
        let id = FileId::from(root.own_facts().map_err(TreeError::io("look at", path))?);
        let made_root = !is_there || record.entry.id == Some(id);
        if made_root {
            record.update(|entry| entry.id = Some(id))?;
        }
        let signed = Tree::sign(root, path, self.run_id, made_root, layout);
        // What was made a moment ago is empty; as long as it is there, the entry says whose it is.
        if signed.is_err() && (!made_root || std::fs::remove_dir(path).is_ok()) {
            record.remove().ok();
        }
        signed
    }

    /// Makes what is missing.
    fn make(
        &mut self,
        mut tree: Tree,
        reserve: Reserve,
        started_ns: u64,
    ) -> Result<Built, TreeError> {
        let extent = tree.layout().extent();
        let total = (extent.files, extent.bytes);
        let (counters, made) = (Counters::default(), Counters::default());
        let mut first = 0;
        while first < extent.dirs {
            let last = (first + BLOCK_DIRS).min(extent.dirs);
            fill::make_dirs(&tree, first..last)?;
            let mut tick = || (self.progress)(Step::of("building", &counters, total, started_ns));
            let work =
                |own: &mut fill::Filler, dir| own.fill(&tree, dir, self.stop, (&counters, &made));
            crew::for_each(
                first..last,
                self.threads,
                self.stop,
                &mut tick,
                fill::Filler::new,
                work,
            )?;
            if self.stop.is_set() {
                return Err(TreeError::Interrupted(interrupted(tree.path())));
            }
            first = last;
            let took_ns = clock::monotonic_ns() - started_ns;
            if first < extent.dirs {
                if self.time_ns.is_some_and(|time_ns| took_ns >= time_ns) {
                    tree.cut(first);
                    break;
                }
                let (files, bytes) = counters.now();
                let rest = Extent {
                    dirs: extent.dirs - first,
                    files: extent.files.saturating_sub(files),
                    bytes: extent.bytes.saturating_sub(bytes),
                    ..extent
                };
                place::check_room((self.root, reserve), tree.path(), rest)?;
            }
        }
        tree.root().sync_filesystem().map_err(TreeError::io("sync", tree.path()))?;
        tree.set_state(State::Complete)?;
        if let Some(mut record) = known(self.root, self.state_dir, tree.path())? {
            record.update(|entry| entry.kept = true)?;
        }
        let took_ns = clock::monotonic_ns() - started_ns;
        Ok(Built { tree, reused: false, made_files: made.now().0, took_ns })
    }
}

/// What is said of a tree that a signal has broken off.
fn interrupted(path: &Path) -> String {
    let path = fathom_base::shell::path(path);
    format!(
        "fathom tree build {path} with the same settings goes on, fathom clean {path} removes it"
    )
}

/// The journal's entry of a tree.
pub(crate) fn known(
    root: &SysRoot,
    state_dir: &Path,
    path: &Path,
) -> Result<Option<Record>, TreeError> {
    let records = journal::read_all(root, state_dir)?.records;
    Ok(records
        .into_iter()
        .find(|record| record.entry.kind == Kind::Tree && record.entry.path == path))
}

/// In what a tree differs from the one that is asked for. One that ended by time may have any size.
fn differs(card: &Card, spec: &TreeSpec, by_time: bool) -> Option<String> {
    let have = &card.spec;
    let mut rest = spec.clone();
    if by_time {
        rest.amount = have.amount;
    }
    if *have == rest {
        return None;
    }
    let mut words = Vec::new();
    if have.seed != spec.seed {
        words.push(format!("seed {} instead of {}", have.seed, spec.seed));
    }
    if have.amount != rest.amount {
        words.push(format!("{} instead of {}", amount(have.amount), amount(spec.amount)));
    }
    for (is_same, word) in [
        (have.fan_out == spec.fan_out, "fan_out"),
        (have.depth == spec.depth, "depth"),
        (have.files_per_directory == spec.files_per_directory, "files_per_directory"),
        (have.sizes == spec.sizes, "the sizes of files"),
        (have.name_bytes == spec.name_bytes, "the lengths of names"),
    ] {
        if !is_same {
            words.push(format!("other {word}"));
        }
    }
    Some(words.join(", "))
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Files(files) => format!("files={files}"),
        Amount::Bytes(bytes) => format!("size={}", fathom_base::units::format_size(bytes)),
    }
}

/// What a tree would need of its filesystem, bytes: files in whole blocks, and directories.
#[must_use]
pub fn needed_bytes(layout: &Layout) -> u64 {
    place::needed_bytes(layout.extent(), 4096)
}

/// The most that a tree of no given amount takes in the filesystem of a path: 20 GB as the classic one, or half of what
/// may be used.
///
/// # Errors
/// [`TreeError::Io`], and what forbids the place.
pub fn default_bytes(root: &SysRoot, path: &Path) -> Result<u64, TreeError> {
    default_bytes_keeping(root, path, guard_place::reserve_bytes)
}

/// The same on a filesystem that was made for an experiment.
///
/// # Errors
/// As [`default_bytes`].
pub fn default_bytes_in_setup(root: &SysRoot, path: &Path) -> Result<u64, TreeError> {
    default_bytes_keeping(root, path, guard_place::reserve_bytes_of_setup)
}

fn default_bytes_keeping(root: &SysRoot, path: &Path, reserve: Reserve) -> Result<u64, TreeError> {
    const CLASSIC_BYTES: u64 = 20_000_000_000;
    let path: PathBuf = place::resolve(root, path)?;
    Ok((place::usable_bytes(root, &path, reserve)? / 2).clamp(1, CLASSIC_BYTES))
}

/// What is free for trees, for tests of the reserve.
#[must_use]
pub fn reserve_bytes(total_bytes: u64) -> u64 {
    guard_place::reserve_bytes(total_bytes)
}
