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
use std::sync::atomic::{AtomicBool, Ordering};

/// Names that begin so are fathom's own: what writers make beside the tree is not read.
const OWN_PREFIX: &[u8] = b".fathom-";

/// Directories that are still to be looked at, by their paths from the root.
#[derive(Debug, Default)]
pub struct Pending {
    paths: VecDeque<CString>,
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
        let (parent, name) = (parent.to_bytes(), name.to_bytes());
        let mut path = Vec::with_capacity(parent.len() + name.len() + 2);
        path.extend_from_slice(parent);
        if !parent.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        // Neither of the two holds a zero.
        if let Ok(path) = CString::new(path) {
            self.paths.push_back(path);
            self.fresh += 1;
        }
    }

    /// The directory that comes next. Depth first goes into the first of those that the last one held.
    pub fn next_path(&mut self) -> Option<CString> {
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

    /// Forgets all.
    pub fn clear(&mut self) {
        self.paths.clear();
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

/// An operation that ended a process.
#[derive(Debug)]
pub struct Failed {
    /// Which class.
    pub class: OpClass,
    /// On what.
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
    entries: EntryBuffer,
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
        let (entries, data) = (EntryBuffer::default(), vec![0; reading.block_bytes.max(1)]);
        Self { root, reading, meter, over, entries, data, dev, found: 0 }
    }

    /// Walks round after round until it is told to stop.
    ///
    /// # Errors
    /// [`Failed`] with the operation that did; names that vanish are counted and passed over.
    pub fn run(&mut self) -> Result<(), Failed> {
        loop {
            match self.round() {
                Ok(()) if self.found == 0 => return Ok(()),
                Ok(()) => self.meter.rounds += 1,
                Err(Halt::Asked) => return Ok(()),
                Err(Halt::Failed(failed)) => return Err(failed),
            }
        }
    }

    /// Through the whole tree once.
    fn round(&mut self) -> Result<(), Halt> {
        self.found = 0;
        let mut pending = Pending::new(self.reading.order);
        self.reading.begins.iter().for_each(|begin| pending.add(c"", begin));
        while let Some(path) = pending.next_path() {
            self.directory(&path, &mut pending)?;
        }
        Ok(())
    }

    fn directory(&mut self, path: &CStr, pending: &mut Pending) -> Result<(), Halt> {
        let mut memory = std::mem::take(&mut self.entries);
        let done = self.entries_of(path, &mut memory, pending);
        self.entries = memory;
        done
    }

    fn entries_of(
        &mut self,
        path: &CStr,
        memory: &mut EntryBuffer,
        pending: &mut Pending,
    ) -> Result<(), Halt> {
        let failed = |class, name: &CStr, error| {
            let name = [path, name].map(CStr::to_string_lossy).join("/");
            Halt::Failed(Failed { class, name, error })
        };
        // The first entry is there when the directory was opened and the kernel has given some.
        let (root, no_atime) = (self.root, self.reading.no_atime);
        let mut opened = None;
        let mut first = self.meter.time(
            OpClass::ReadDir,
            || {
                let dir = root.below(path, no_atime)?;
                let mut entries = dir.entries(memory)?;
                let name = entries.next_name()?.map(CStr::to_owned);
                opened = Some((dir, entries));
                Ok(name)
            },
            |_| 0,
        );
        loop {
            let name = match first {
                Ok(Some(name)) => name,
                Ok(None) => return self.check(),
                Err(error) if is_passed_over(&error) => {
                    self.meter.vanished += 1;
                    self.meter.resume();
                    return self.check();
                }
                Err(error) => return Err(failed(OpClass::ReadDir, c"", error)),
            };
            let Some((dir, entries)) = &mut opened else { return Ok(()) };
            self.check()?;
            if !name.to_bytes().starts_with(OWN_PREFIX) {
                self.found += 1;
                match self.entry(dir, &name) {
                    Ok(true) => pending.add(path, &name),
                    Ok(false) => {}
                    Err((_, error)) if is_passed_over(&error) => {
                        self.meter.vanished += 1;
                        self.meter.resume();
                    }
                    Err((class, error)) => return Err(failed(class, &name, error)),
                }
                self.check()?;
            }
            let next = || Ok(entries.next_name()?.map(CStr::to_owned));
            first = self.meter.time(OpClass::ReadDir, next, |_| 0);
        }
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
