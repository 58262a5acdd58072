//! The reader: walks a tree, and does with it what a file server does. Breadth first as the original, or depth first.

use crate::ops::Meter;
use fathom_base::clock::Clock;
use fathom_model::fsop::WalkOrder;
use fathom_model::record::OpClass;
use fathom_sys::walked::{self, EntryBuffer, WalkedDir};
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names that begin so are fathom's own: what writers make beside the tree is not read.
pub(crate) const OWN_PREFIX: &[u8] = b".fathom-";

/// Smallest room for a path: most fit into it, so that memory that had another path has room for this one.
const PATH_ROOM: usize = 64;

/// The path of a directory from the root of the walk, in memory that goes round; the root's own is empty.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct WalkPath(
    /// With its zero at the end, or empty.
    Vec<u8>,
);

impl WalkPath {
    fn set(&mut self, parent: &CStr, name: &CStr) {
        let (parent, name) = (parent.to_bytes(), name.to_bytes_with_nul());
        self.0.clear();
        self.0.reserve((parent.len() + name.len() + 1).next_power_of_two().max(PATH_ROOM));
        self.0.extend_from_slice(parent);
        if !parent.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
    }
}

impl Deref for WalkPath {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Directories that are still to be looked at, by their paths from the root. Memory of paths that are given back is used
/// again: a second round through a tree allocates nothing.
#[derive(Debug, Default)]
pub struct Pending {
    paths: VecDeque<WalkPath>,
    free: Vec<WalkPath>,
    order: WalkOrder,
    /// With depth first, how many of the last were found in the directory that is being read.
    fresh: usize,
}

impl Pending {
    /// Nothing to do yet.
    #[must_use]
    pub fn new(order: WalkOrder) -> Self {
        Self { order, ..Self::default() }
    }

    /// Puts a directory in, of that name in the directory of that path.
    pub fn add(&mut self, parent: &CStr, name: &CStr) {
        let mut path = self.free.pop().unwrap_or_default();
        path.set(parent, name);
        self.paths.push_back(path);
        self.fresh += 1;
    }

    /// The directory that comes next. Depth first goes into the first of those that the last one held.
    pub fn next_path(&mut self) -> Option<WalkPath> {
        match self.order {
            WalkOrder::Breadth => self.paths.pop_front(),
            WalkOrder::Depth => {
                let first = self.paths.len() - self.fresh.min(self.paths.len());
                self.paths.make_contiguous()[first..].reverse();
                self.fresh = 0;
                self.paths.pop_back()
            }
        }
    }

    /// Takes the memory of a path that is done with.
    pub fn give_back(&mut self, path: WalkPath) {
        self.free.push(path);
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.free.extend(self.paths.drain(..));
        self.fresh = 0;
    }
}

/// Where readers read, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Directories to begin with, from the root of the walk; empty for the root itself.
    pub begins: Vec<CString>,
    /// In which order.
    pub order: WalkOrder,
    /// Most bytes of one read.
    pub block_bytes: usize,
    /// Leaves access times alone, where that is allowed: the tree is somebody else's.
    pub no_atime: bool,
}

/// A name in a directory, from the root of the walk, in words.
pub(crate) fn below(path: &CStr, name: &CStr) -> String {
    let parts = [path, name].map(CStr::to_string_lossy);
    let parts: Vec<&str> =
        parts.iter().map(AsRef::as_ref).filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// An operation that ended a process.
#[derive(Debug)]
pub struct Failed {
    /// Which class.
    pub class: OpClass,
    /// On what, from the directory of the process; empty for that itself.
    pub name: String,
    /// Why.
    pub error: io::Error,
}

/// Why a walk goes no further.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It was asked to.
    Asked,
    /// Something failed.
    Failed(Failed),
}

/// One reader.
pub struct Reader<'a, 'm, C: Clock> {
    root: &'a WalkedDir,
    reading: &'a Reading,
    meter: &'a mut Meter<'m, C>,
    over: &'a AtomicBool,
    data: Vec<u8>,
    dev: u64,
    /// What the walk of now has found: a tree without any is not walked for ever.
    found: u64,
}

/// Names that vanish between two calls, and what this user may not read, are no failures: others use the tree too.
fn is_passed_over(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    // ELOOP: a symbolic link by now; ENXIO: a socket; ESTALE: gone on a network filesystem.
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
        || matches!(error.raw_os_error(), Some(40 | 6 | 116))
}

impl<'a, 'm, C: Clock> Reader<'a, 'm, C> {
    /// A reader of what lies below `root`, until `over`.
    pub fn new(
        root: &'a WalkedDir,
        reading: &'a Reading,
        meter: &'a mut Meter<'m, C>,
        over: &'a AtomicBool,
    ) -> Self {
        let dev = root.look(c".").map_or(0, |looked| looked.dev);
        let data = vec![0; reading.block_bytes.max(1)];
        Self { root, reading, meter, over, data, dev, found: 0 }
    }

    /// Walks round after round until it is told to stop.
    ///
    /// # Errors
    /// [`Failed`] with the operation that did; names that vanish are counted and passed over.
    pub fn run(&mut self) -> Result<(), Failed> {
        let (mut pending, mut memory) = (Pending::new(self.reading.order), EntryBuffer::default());
        self.meter.resume();
        loop {
            match self.round(&mut pending, &mut memory) {
                Ok(()) if self.found == 0 => return Ok(()),
                Ok(()) => self.meter.rounds += 1,
                Err(Halt::Asked) => return Ok(()),
                Err(Halt::Failed(failed)) => return Err(failed),
            }
        }
    }

    /// Through the whole tree once.
    fn round(&mut self, pending: &mut Pending, memory: &mut EntryBuffer) -> Result<(), Halt> {
        self.found = 0;
        pending.clear();
        self.reading.begins.iter().for_each(|begin| pending.add(c"", begin));
        while let Some(path) = pending.next_path() {
            self.directory(&path, memory, pending)?;
            pending.give_back(path);
        }
        Ok(())
    }

    fn directory(
        &mut self,
        path: &CStr,
        memory: &mut EntryBuffer,
        pending: &mut Pending,
    ) -> Result<(), Halt> {
        let (root, no_atime) = (self.root, self.reading.no_atime);
        let mut place = None;
        // The first entry is there when the directory was opened and the kernel has given some.
        let opened = self.meter.time(
            OpClass::ReadDir,
            || {
                let dir: &WalkedDir = place.insert(root.below(path, no_atime)?);
                let mut entries = dir.entries(memory);
                let is_there = entries.advance()?;
                Ok((dir, entries, is_there))
            },
            |_| 0,
        );
        let (dir, mut entries, mut is_there) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.pass_over(OpClass::ReadDir, path, c"", error),
        };
        while is_there {
            self.check()?;
            let name = entries.name();
            if !name.to_bytes().starts_with(OWN_PREFIX) {
                self.found += 1;
                match self.entry(dir, name) {
                    Ok(true) => pending.add(path, name),
                    Ok(false) => {}
                    Err((class, error)) => self.pass_over(class, path, name, error)?,
                }
                self.check()?;
            }
            is_there = match self.meter.time(OpClass::ReadDir, || entries.advance(), |_| 0) {
                Ok(is_there) => is_there,
                Err(error) => return self.pass_over(OpClass::ReadDir, path, c"", error),
            };
        }
        self.check()
    }

    /// Counts a name that vanished; every other error ends the walk.
    #[cold]
    fn pass_over(
        &mut self,
        class: OpClass,
        path: &CStr,
        name: &CStr,
        error: io::Error,
    ) -> Result<(), Halt> {
        if is_passed_over(&error) {
            self.meter.vanished += 1;
            self.meter.resume();
            return self.check();
        }
        Err(Halt::Failed(Failed { class, name: below(path, name), error }))
    }

    fn check(&self) -> Result<(), Halt> {
        if self.over.load(Ordering::Relaxed) { Err(Halt::Asked) } else { Ok(()) }
    }

    /// Looks at an entry, and reads it if it is a file; true for a directory of the same filesystem.
    fn entry(&mut self, dir: &WalkedDir, name: &CStr) -> Result<bool, (OpClass, io::Error)> {
        let of = |class: OpClass| move |error| (class, error);
        let looked = self.meter.time(OpClass::Stat, || dir.look(name), |_| 0);
        let looked = looked.map_err(of(OpClass::Stat))?;
        if !looked.is_file {
            return Ok(looked.is_dir && looked.dev == self.dev);
        }
        let no_atime = self.reading.no_atime;
        let opened = self.meter.time(OpClass::OpenRead, || dir.open_read(name, no_atime), |_| 0);
        let file = opened.map_err(of(OpClass::OpenRead))?;
        let read = || walked::read(&file, &mut self.data[..1]);
        let read = self.meter.time(OpClass::FirstRead, read, |bytes| *bytes as u64);
        let is_empty = read.map_err(of(OpClass::FirstRead))? == 0;
        if !is_empty && looked.size_bytes > 1 {
            let read = || rest_of(&file, &mut self.data, looked.size_bytes - 1, self.over);
            let read = self.meter.time(OpClass::RestRead, read, |bytes| *bytes);
            read.map_err(of(OpClass::RestRead))?;
        }
        let closed = self.meter.time(OpClass::CloseRead, || walked::close(file), |()| 0);
        closed.map_err(of(OpClass::CloseRead))?;
        Ok(false)
    }
}

/// Reads so many bytes, or up to the end of the file; a large one is left in the middle when it is over.
fn rest_of(file: &File, data: &mut [u8], bytes: u64, over: &AtomicBool) -> io::Result<u64> {
    let mut total = 0;
    while total < bytes && !over.load(Ordering::Relaxed) {
        match walked::read(file, data)? {
            0 => break,
            read => total += read as u64,
        }
    }
    Ok(total)
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
