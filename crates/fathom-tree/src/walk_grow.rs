//! The writer: makes a tree of directories and files, as readers find them, level by level. What it makes holds only what fathom's
//! leftovers know as fathom's, wherever a kill ends it.

use crate::name::Name;
use crate::ops::Meter;
use crate::walk::{Failed, Halt, Pending, WalkPath, below};
use fathom_base::clock::Clock;
use fathom_base::content::Filler;
use fathom_base::lognormal::LogNormal;
use fathom_base::prng::Prng;
use fathom_model::fsop::{SyncMode, WalkOrder};
use fathom_model::record::OpClass;
use fathom_sys::io as sys_io;
use fathom_sys::walked::{self, WalkedDir};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Of a last part of a file that is shorter, nobody can tell that it is fathom's noise: it is zero.
const TAIL_BYTES: usize = 64;
/// Lowest bits of the number of a content that stay zero.
const FREE_BITS: u32 = 8;
/// The unit in which it is told.
const SECTOR_BYTES: usize = 512;
/// What a file or a directory takes beside its blocks, about.
const INODE_BYTES: u64 = 512;

/// What writers make.
#[derive(Debug, Clone)]
pub struct Growing {
    /// What is brought to stable storage.
    pub sync: SyncMode,
    /// Most bytes of one write behind the first byte.
    pub block_bytes: usize,
    /// Sizes of files.
    pub sizes: LogNormal,
    /// Directories made in each directory.
    pub directories: u32,
    /// Files made in each directory.
    pub files: u32,
    /// What files and directories take is rounded up to this.
    pub unit_bytes: u64,
    /// A writer ends before it takes more.
    pub bytes_max: u64,
    /// And when it has made so many files and directories.
    pub names_max: u64,
}

/// One writer.
pub struct Writer<'a, 'm, C: Clock> {
    root: &'a WalkedDir,
    growing: &'a Growing,
    meter: &'a mut Meter<'m, C>,
    over: &'a AtomicBool,
    filler: Filler,
    random: Prng,
    data: Vec<u8>,
    taken: u64,
    names: u64,
    is_full: bool,
}

impl<'a, 'm, C: Clock> Writer<'a, 'm, C> {
    /// A writer into an empty directory of fathom's, until `over`.
    pub fn new(
        root: &'a WalkedDir,
        growing: &'a Growing,
        meter: &'a mut Meter<'m, C>,
        over: &'a AtomicBool,
        seed: u64,
    ) -> Self {
        let (filler, random) = (zero_first(seed), Prng::new(seed, 0));
        let data = Vec::new();
        Self {
            root,
            growing,
            meter,
            over,
            filler,
            random,
            data,
            taken: 0,
            names: 0,
            is_full: false,
        }
    }

    /// Makes directory after directory until it is told to stop, or has made as much as it may: then it says true.
    ///
    /// # Errors
    /// [`Failed`] with the operation that did, as for want of space.
    pub fn run(&mut self) -> Result<bool, Failed> {
        let mut pending = Pending::new(WalkOrder::Breadth);
        let mut next = Some(WalkPath::default());
        while let Some(path) = next {
            match self.directory(&path, &mut pending) {
                Ok(()) if self.is_full || self.names >= self.growing.names_max => return Ok(true),
                Ok(()) => {}
                Err(Halt::Asked) => return Ok(false),
                Err(Halt::Failed(failed)) => return Err(failed),
            }
            pending.give_back(path);
            next = pending.next_path();
        }
        Ok(true)
    }

    /// True when a file or directory of that size may still be made; then it counts. Once one may not, none may.
    fn takes(&mut self, size: u64) -> bool {
        let takes = size.next_multiple_of(self.growing.unit_bytes.max(1)) + INODE_BYTES;
        let fits = self.taken.saturating_add(takes) <= self.growing.bytes_max
            && self.names < self.growing.names_max;
        self.taken += if fits { takes } else { 0 };
        self.is_full |= !fits;
        fits
    }

    /// Fills a directory: files first, then the directories that are filled later.
    fn directory(&mut self, path: &CStr, pending: &mut Pending) -> Result<(), Halt> {
        let failed = |class, name: &CStr, error| {
            Halt::Failed(Failed { class, name: below(path, name), error })
        };
        self.meter.resume();
        let opened = self.meter.time(OpClass::OpenDir, || self.root.below(path, false), |_| 0);
        let dir = opened.map_err(|error| failed(OpClass::OpenDir, c"", error))?;
        for _ in 0..self.growing.files {
            let size = self.growing.sizes.draw(&mut self.random);
            if !self.takes(size) {
                return Ok(());
            }
            let name = Name::file(self.names);
            self.file(&dir, &name, size as usize)
                .map_err(|(class, error)| failed(class, &name, error))?;
            self.go_on()?;
        }
        self.meter.resume();
        for _ in 0..self.growing.directories {
            if !self.takes(1) {
                return Ok(());
            }
            let name = Name::dir(self.names);
            self.make_dir(&dir, &name).map_err(|(class, error)| failed(class, &name, error))?;
            pending.add(path, &name);
            self.go_on()?;
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Halt> {
        self.names += 1;
        if self.over.load(Ordering::Relaxed) { Err(Halt::Asked) } else { Ok(()) }
    }

    fn make_dir(&mut self, dir: &WalkedDir, name: &CStr) -> Result<(), (OpClass, io::Error)> {
        let made = self.meter.time(OpClass::MakeDir, || dir.make_dir(name), |()| 0);
        made.map_err(|error| (OpClass::MakeDir, error))?;
        if self.growing.sync == SyncMode::Dir {
            let synced = self.meter.time(OpClass::SyncDir, || dir.sync(), |()| 0);
            synced.map_err(|error| (OpClass::SyncDir, error))?;
        }
        Ok(())
    }

    fn file(
        &mut self,
        dir: &WalkedDir,
        name: &CStr,
        size: usize,
    ) -> Result<(), (OpClass, io::Error)> {
        self.fill(size);
        // What was done before is no part of any operation.
        self.meter.resume();
        let of = |class: OpClass| move |error| (class, error);
        let made = self.meter.time(OpClass::OpenWrite, || dir.create_write(name), |_| 0);
        let file = made.map_err(of(OpClass::OpenWrite))?;
        let data = &self.data[..size];
        if size > 0 {
            let write = || walked::write(&file, &data[..1]);
            let written = self.meter.time(OpClass::FirstWrite, write, |bytes| *bytes as u64);
            written.map_err(of(OpClass::FirstWrite))?;
        }
        if size > 1 {
            let write = || write_rest(&file, data, self.growing.block_bytes);
            let written = self.meter.time(OpClass::RestWrite, write, |bytes| *bytes);
            written.map_err(of(OpClass::RestWrite))?;
        }
        self.sync(dir, &file).map_err(of(OpClass::Sync))?;
        let closed = self.meter.time(OpClass::CloseWrite, || walked::close(file), |()| 0);
        closed.map_err(of(OpClass::CloseWrite))
    }

    fn sync(&mut self, dir: &WalkedDir, file: &File) -> io::Result<()> {
        match self.growing.sync {
            SyncMode::None => Ok(()),
            SyncMode::File => self.meter.time(OpClass::Sync, || sys_io::fsync(file), |()| 0),
            SyncMode::Data => self.meter.time(OpClass::Sync, || sys_io::fdatasync(file), |()| 0),
            SyncMode::Dir => {
                let both = || sys_io::fsync(file).and_then(|()| dir.sync());
                self.meter.time(OpClass::Sync, both, |()| 0)
            }
        }
    }

    /// New content for a file of that size.
    fn fill(&mut self, size: usize) {
        fill(&self.filler, &mut self.data, size, self.names);
    }

    /// Files and directories that it has made, every one of them whole.
    pub fn made(&self) -> u64 {
        self.names
    }
}

/// The content of the file of that number, at the start of `data`.
pub(crate) fn fill(filler: &Filler, data: &mut Vec<u8>, size: usize, number: u64) {
    if data.len() < size {
        data.resize(size, 0);
    }
    let data = &mut data[..size];
    filler.fill(data, 0, (number + 1) << FREE_BITS);
    let tail = size % SECTOR_BYTES;
    if tail < TAIL_BYTES {
        data[size - tail..].fill(0);
    }
}

/// Noise of which the first byte of a file is zero: what a kill leaves between the first byte and the rest is then known as
/// fathom's too. The first byte is the lowest of a product with an odd number, so that one stream in 256 has it, for all
/// generations that leave the lowest bits alone.
pub(crate) fn zero_first(seed: u64) -> Filler {
    let has_it = |filler: &Filler| {
        let mut head = [0xFF; TAIL_BYTES];
        filler.fill(&mut head, 0, 0);
        head[0] == 0
    };
    let mut fillers = (0..1 << 16).map(|step| Filler::noise(seed.wrapping_add(step)));
    fillers.find(has_it).unwrap_or_else(|| Filler::noise(seed))
}

/// Writes all behind the first byte, in calls of at most `block_bytes`.
fn write_rest(file: &File, data: &[u8], block_bytes: usize) -> io::Result<u64> {
    let mut done = 1;
    while done < data.len() {
        let end = next_end(done, data.len(), block_bytes);
        done += walked::write(file, &data[done..end])?;
    }
    Ok(done as u64 - 1)
}

/// Where the next write call ends: with a whole block of the file, so that no kill between two calls leaves a sector of which
/// only a few bytes are there. Blocks are whole sectors.
pub(crate) fn next_end(done: usize, size: usize, block_bytes: usize) -> usize {
    let block_bytes = block_bytes.max(1);
    size.min((done / block_bytes + 1) * block_bytes)
}
