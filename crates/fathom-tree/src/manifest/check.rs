//! Whether a tree is as it was built: names, sizes and times of everything in it, or every byte.

use super::Tree;
use super::judge::{self, Found};
use crate::build::Step;
use crate::build::crew::{self, Counters};
use crate::clean::is_another;
use crate::error::TreeError;
use crate::spec::layout::{FileNumber, Named};
use crate::walk::OWN_PREFIX;
use fathom_base::order::Order;
use fathom_base::units::format_count;
use fathom_sys::clock;
use fathom_sys::dirents::{Entry, EntryReader};
use fathom_sys::dirfd::Dir;
use fathom_sys::signals::StopFlag;
use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Deviations that are listed; the rest is counted.
const LISTED_MAX: usize = 100;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Names, kinds, sizes and times.
    Names,
    /// Every byte as well.
    Content,
}

/// What is not as it was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file or directory of the tree is not there.
    Missing,
    /// A file has another size, time or content, or is something else.
    Changed,
    /// Something that is not of the tree.
    Foreign,
}

/// One deviation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Deviation {
    /// Of which kind.
    pub kind: Kind,
    /// Where, relative to the tree; what is no text in it is replaced.
    pub path: String,
    /// What it is, for people.
    pub what: String,
}

/// What a check came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files that are as they were built.
    pub files: u64,
    /// Files that are not there, those of missing directories among them.
    pub missing_files: u64,
    /// Directories that are not there, or are something else.
    pub missing_dirs: u64,
    /// Files with another size, time or content, or that are something else.
    pub changed: u64,
    /// Names that are not of the tree.
    pub foreign: u64,
    /// Bytes of content that were compared.
    pub compared_bytes: u64,
    /// All deviations.
    pub deviations: u64,
    /// The first of them.
    pub listed: Vec<Deviation>,
    /// Time, nanoseconds.
    pub took_ns: u64,
}

impl Report {
    /// How many deviations of each kind there are, and the first of all, in a line; none when there are none.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        let first = self.listed.first()?;
        let many = |count: u64, one: &str, more: &str| {
            (count > 0)
                .then(|| format!("{} {}", format_count(count), if count == 1 { one } else { more }))
        };
        let parts = [
            many(self.missing_files, "file is missing", "files are missing"),
            many(self.missing_dirs, "directory is missing", "directories are missing"),
            many(self.changed, "file is changed", "files are changed"),
            many(self.foreign, "name is not of it", "names are not of it"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        Some(format!("{}; the first: {} ({})", parts.join(", "), first.path, first.what))
    }
}

/// Looks at everything in a tree.
///
/// # Errors
/// Those of reading; [`TreeError::Interrupted`].
pub fn check(
    tree: &Tree,
    depth: Depth,
    threads: usize,
    stop: &StopFlag,
    progress: &mut dyn FnMut(Step),
) -> Result<Report, TreeError> {
    let started_ns = clock::monotonic_ns();
    let counters = Counters::default();
    let report = Mutex::new(Report::default());
    let extent = tree.layout().extent();
    let total = (extent.files, if depth == Depth::Content { extent.bytes } else { 0 });
    let mut tick = || progress(Step::of("checking", &counters, total, started_ns));
    let work = |reader: &mut EntryReader, number| {
        let mut one = OneDir { tree, depth, number, counters: &counters, report: &report };
        one.check(reader)
    };
    crew::for_each(0..extent.dirs, threads, stop, &mut tick, EntryReader::default, work)?;
    if stop.is_set() {
        return Err(TreeError::Interrupted("the tree was not checked to its end".into()));
    }
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.listed.order_by(|a, b| a.path.cmp(&b.path));
    (report.files, report.compared_bytes) = counters.now();
    report.took_ns = clock::monotonic_ns() - started_ns;
    Ok(report)
}

/// The check of one directory.
struct OneDir<'a> {
    tree: &'a Tree,
    depth: Depth,
    number: u64,
    counters: &'a Counters,
    report: &'a Mutex<Report>,
}

impl OneDir<'_> {
    fn check(&mut self, reader: &mut EntryReader) -> Result<(), TreeError> {
        let layout = self.tree.layout();
        let dir = match self.tree.open_dir(self.number) {
            Ok(dir) => dir,
            Err(error) if self.number > 0 && is_another(&error) => {
                let what = "the directory is not there, or is something else";
                let mut report = self.tell(Kind::Missing, layout.dir_path(self.number), what);
                report.missing_dirs += 1;
                report.missing_files += layout.files_in(self.number);
                return Ok(());
            }
            Err(error) => {
                return Err(TreeError::io("open", self.tree.full_path(self.number))(error));
            }
        };
        let at = |file| self.tree.path().join(layout.file_path(file));
        for slot in 0..layout.files_in(self.number) {
            let file = FileNumber { dir: self.number, slot };
            self.file(&dir, file).map_err(|error| TreeError::io("read", at(file))(error))?;
        }
        let (mut foreign, mut more) = (Vec::new(), 0);
        let mut each = |entry: Entry<'_>| {
            // The card, and what a run makes beside the tree.
            let is_own = self.number == 0 && entry.name.starts_with(OWN_PREFIX);
            let is_known = is_own || layout.told_by_name(self.number, entry.name) != Named::Foreign;
            match foreign.len() {
                _ if is_known => {}
                ..LISTED_MAX => foreign.push(String::from_utf8_lossy(entry.name).into_owned()),
                _ => more += 1,
            }
            Ok(true)
        };
        reader
            .for_each(&dir, &mut each)
            .map_err(TreeError::io("list", self.tree.full_path(self.number)))?;
        for name in foreign {
            let dir = layout.dir_path(self.number);
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            self.tell(Kind::Foreign, path, "not made by fathom").foreign += 1;
        }
        if more > 0 {
            let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
            report.foreign += more;
            report.deviations += more;
        }
        Ok(())
    }

    fn file(&mut self, dir: &Dir, file: FileNumber) -> std::io::Result<()> {
        let layout = self.tree.layout();
        let path = || layout.file_path(file);
        let found = judge::judge(self.tree, dir, file)?;
        match found {
            Found::Missing => {
                self.tell(Kind::Missing, path(), "the file is not there").missing_files += 1;
            }
            Found::Foreign(why) => self.tell(Kind::Changed, path(), why).changed += 1,
            Found::Unsealed { is_whole: false } => {
                self.tell(Kind::Changed, path(), "a part of its content is missing").changed += 1;
            }
            Found::Unsealed { is_whole: true } => self.counters.add(layout.size(file)),
            Found::Whole if self.depth == Depth::Names => self.counters.add(0),
            Found::Whole => match judge::first_difference(self.tree, dir, file)? {
                None => self.counters.add(layout.size(file)),
                Some(offset) => {
                    let text = format!(
                        "wrong content from offset {offset} on, with the size and the time that it was left with"
                    );
                    self.tell(Kind::Changed, path(), &text).changed += 1;
                }
            },
        }
        Ok(())
    }

    /// Notes a deviation, and gives the report back to be counted in.
    fn tell(&self, kind: Kind, path: String, what: &str) -> MutexGuard<'_, Report> {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.deviations += 1;
        if report.listed.len() < LISTED_MAX {
            report.listed.push(Deviation { kind, path, what: what.to_owned() });
        }
        report
    }
}
