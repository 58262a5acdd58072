//! Transactions on the files of a client.

use super::set::Entry;
use super::{Player, Stop, told};
use crate::name::Name;
use fathom_base::clock::Clock;
use fathom_model::play::PlaySync;
use fathom_model::record::OpClass;
use fathom_sys::io as sys_io;
use fathom_sys::walked::{self, WalkedDir};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::rc::Rc;

/// Names after which a list asks whether time is over.
const NAMES_AT_ONCE: u64 = 4096;

/// Large files that a client reads or writes block by block.
#[derive(Debug, Default)]
pub(super) struct Streams {
    reading: Option<File>,
    pub(super) writing: Option<(File, Entry, u64)>,
}

/// The log of a client.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) current: Option<(Entry, File)>,
}

/// The directories over which files are spread; those that are missing are made.
pub(super) fn directories(root: &WalkedDir, count: u32) -> io::Result<Vec<Rc<WalkedDir>>> {
    for number in 0..u64::from(count) {
        match root.make_dir(&Name::dir(number)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    directories_there(root, count)
}

/// As [`directories`], where all of them are to be there; nothing is created.
pub(super) fn directories_there(root: &WalkedDir, count: u32) -> io::Result<Vec<Rc<WalkedDir>>> {
    if count == 0 {
        return Ok(vec![Rc::new(root.again()?)]);
    }
    let one = |number| {
        let name = Name::dir(number);
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", name.to_string_lossy()))
        };
        root.below(&name, false).map(Rc::new).map_err(named)
    };
    (0..u64::from(count)).map(one).collect()
}

impl<C: Clock> Player<'_, '_, C> {
    fn place(&self, number: u64) -> usize {
        (number % self.dirs.len().max(1) as u64) as usize
    }

    fn dir(&self, place: usize) -> Rc<WalkedDir> {
        Rc::clone(&self.dirs[place])
    }

    /// Makes a file that is there from the start.
    pub(super) fn make_first(&mut self, index: u64) -> Result<(), Stop> {
        let Some(entry) = self.set.get(index as usize) else { return Ok(()) };
        self.make(entry, PlaySync::None)
    }

    fn new_entry(&mut self) -> Entry {
        let size = told(self.sizes.size(&mut self.random));
        Entry { number: self.set.next_number(), content: self.next_content(), size }
    }

    /// Creates, writes, syncs if that comes before closing, closes.
    fn make(&mut self, entry: Entry, sync: PlaySync) -> Result<(), Stop> {
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let dir = self.dir(place);
        self.make_in(&dir, &name, entry, sync)
    }

    /// As `make`, in a directory of any kind.
    pub(super) fn make_in(
        &mut self,
        dir: &WalkedDir,
        name: &CStr,
        entry: Entry,
        sync: PlaySync,
    ) -> Result<(), Stop> {
        self.meter.resume();
        let file = self.time(OpClass::OpenWrite, name, || dir.create_write(name), |_| 0)?;
        self.write(OpClass::Write, (&file, name), entry.content, 0, entry.size)?;
        self.sync_open((&file, name), dir, sync)?;
        self.time(OpClass::CloseWrite, name, || walked::close(file), |()| 0)
    }

    fn sync_open(
        &mut self,
        (file, name): (&File, &CStr),
        dir: &WalkedDir,
        sync: PlaySync,
    ) -> Result<(), Stop> {
        if !sync.is_in_file() {
            return Ok(());
        }
        let data_alone = sync == PlaySync::Data;
        let call = || if data_alone { sys_io::fdatasync(file) } else { sys_io::fsync(file) };
        self.time(OpClass::Sync, name, call, |()| 0)?;
        if sync == PlaySync::Dir {
            self.time(OpClass::SyncDir, name, || dir.sync(), |()| 0)?;
        }
        Ok(())
    }

    /// A batch of new files; as many of the oldest go.
    pub(super) fn deliver(&mut self) -> Result<(), Stop> {
        let sync = self.playing.spec.sync;
        let mut first = None;
        let count = self.playing.spec.batch;
        let mut made = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let entry = self.new_entry();
            self.make(entry, sync)?;
            self.leaving.extend(self.set.turn_over(entry, self.playing.spec.files_each()));
            made.push(entry);
            first.get_or_insert(entry);
            self.go_on()?;
        }
        if let Some(first) = first {
            self.sync_after(sync, &made, first)?;
        }
        let mut gone = std::mem::take(&mut self.leaving);
        let done = gone.drain(..).try_for_each(|entry| self.unlink(entry));
        self.leaving = gone;
        done
    }

    /// The methods that sync what was made before.
    fn sync_after(&mut self, sync: PlaySync, made: &[Entry], first: Entry) -> Result<(), Stop> {
        use PlaySync::{After, Fs, FsAfter, FsOne, FsReverse, Reverse};
        if matches!(sync, Fs | FsOne | FsReverse | FsAfter) {
            self.sync_filesystem(first)?;
        }
        match sync {
            FsOne => self.sync_closed(first),
            Reverse | FsReverse => made.iter().rev().try_for_each(|one| self.sync_closed(*one)),
            After | FsAfter => made.iter().try_for_each(|one| self.sync_closed(*one)),
            _ => Ok(()),
        }
    }

    fn sync_filesystem(&mut self, entry: Entry) -> Result<(), Stop> {
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let dir = self.dir(place);
        self.time(OpClass::Sync, &name, || dir.sync_filesystem(), |()| 0)
    }

    /// Opens a file, syncs it, closes it.
    fn sync_closed(&mut self, entry: Entry) -> Result<(), Stop> {
        let name = Name::file(entry.number);
        let file = self.open(&name, entry)?;
        self.time(OpClass::Sync, &name, || sys_io::fsync(&file), |()| 0)?;
        self.time(OpClass::CloseRead, &name, || walked::close(file), |()| 0)
    }

    fn open(&mut self, name: &CStr, entry: Entry) -> Result<File, Stop> {
        let place = self.place(entry.number);
        let dir = self.dir(place);
        self.time(OpClass::OpenRead, name, || dir.open_read(name, false), |_| 0)
    }

    fn unlink(&mut self, entry: Entry) -> Result<(), Stop> {
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        self.on_names(OpClass::Unlink, &name, place, |dir, name| dir.unlink(name))
    }

    fn on_names(
        &mut self,
        class: OpClass,
        name: &Name,
        place: usize,
        call: impl FnOnce(&WalkedDir, &CStr) -> io::Result<()>,
    ) -> Result<(), Stop> {
        let dir = self.dir(place);
        self.time(class, name, || call(&dir, name), |()| 0)
    }

    pub(super) fn create(&mut self) -> Result<(), Stop> {
        let entry = self.new_entry();
        self.make(entry, self.playing.spec.sync)?;
        self.set.add(entry);
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Result<(), Stop> {
        let Some((index, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        self.unlink(entry)?;
        self.set.remove(index);
        Ok(())
    }

    pub(super) fn read_one(&mut self) -> Result<(), Stop> {
        let Some((_, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        let name = Name::file(entry.number);
        let file = self.open(&name, entry)?;
        self.read_whole(file, &name)
    }

    /// Reads an open file to its end, as one operation, and closes it.
    pub(super) fn read_whole(&mut self, file: File, name: &CStr) -> Result<(), Stop> {
        let mut data = std::mem::take(&mut self.data);
        data.resize(self.playing.block_bytes, 0);
        let read_all = || {
            let mut sum = 0;
            loop {
                match walked::read(&file, &mut data)? {
                    0 => return Ok(sum),
                    bytes => sum += bytes as u64,
                }
            }
        };
        let read = self.time(OpClass::Read, name, read_all, |bytes| *bytes);
        self.data = data;
        read?;
        self.time(OpClass::CloseRead, name, || walked::close(file), |()| 0)
    }

    /// Writes behind the end of a file; one that would become too long begins anew.
    pub(super) fn append(&mut self) -> Result<(), Stop> {
        let Some((index, mut entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        let more = self.appends.size(&mut self.random).max(1);
        if entry.size + more > self.playing.spec.sizes.max() {
            self.unlink(entry)?;
            entry = Entry { content: self.next_content(), size: 0, ..entry };
            self.make(entry, PlaySync::None)?;
            self.set.change(index, entry);
        }
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let end = told(entry.size + more);
        let sync = self.playing.spec.sync;
        let dir = self.dir(place);
        let done = self
            .time(OpClass::OpenAppend, &name, || dir.open_append(&name), |_| 0)
            .and_then(|file| {
                let both = (&file, &*name);
                self.write(OpClass::Append, both, entry.content, entry.size, end)?;
                self.sync_open(both, &dir, sync)?;
                self.time(OpClass::CloseWrite, &name, || walked::close(file), |()| 0)
            });
        self.set.change(index, Entry { size: end, ..entry });
        done
    }

    /// Writes behind the end of the log, which stays open; a full one is deleted, and a new one begins.
    pub(super) fn write_log(&mut self) -> Result<(), Stop> {
        let more = self.appends.size(&mut self.random).max(1);
        let (entry, file) = match self.log.current.take() {
            Some((entry, file)) if entry.size + more <= self.playing.spec.log_bytes_max => {
                (entry, file)
            }
            old => {
                if let Some((entry, file)) = old {
                    let name = Name::file(entry.number);
                    self.time(OpClass::CloseWrite, &name, || walked::close(file), |()| 0)?;
                    self.unlink(entry)?;
                }
                self.begin_log()?
            }
        };
        let (name, end) = (Name::file(entry.number), told(entry.size + more));
        self.write(OpClass::Append, (&file, &name), entry.content, entry.size, end)?;
        let (sync, place) = (self.playing.spec.sync, self.place(entry.number));
        let dir = self.dir(place);
        let synced = self.sync_open((&file, &name), &dir, sync);
        self.log.current = Some((Entry { size: end, ..entry }, file));
        synced
    }

    fn begin_log(&mut self) -> Result<(Entry, File), Stop> {
        let entry = Entry { number: self.set.next_number(), content: self.next_content(), size: 0 };
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let dir = self.dir(place);
        let made = self.time(OpClass::OpenWrite, &name, || dir.create_write(&name), |_| 0);
        Ok((entry, made?))
    }

    pub(super) fn stat(&mut self) -> Result<(), Stop> {
        let Some((_, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        self.on_names(OpClass::Stat, &name, place, |dir, name| dir.look(name).map(|_| ()))
    }

    /// A new name in the same directory.
    pub(super) fn rename(&mut self) -> Result<(), Stop> {
        let Some((index, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let number = self.number_in(place);
        let to = Name::file(number);
        self.on_names(OpClass::Rename, &name, place, |dir, name| dir.rename(name, &to))?;
        self.set.change(index, Entry { number, ..entry });
        Ok(())
    }

    /// A number whose file lies in that directory.
    fn number_in(&mut self, place: usize) -> u64 {
        loop {
            let number = self.set.next_number();
            if self.place(number) == place {
                return number;
            }
        }
    }

    /// A second name, which goes again.
    pub(super) fn link(&mut self) -> Result<(), Stop> {
        let Some((_, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let second = Name::file(self.number_in(place));
        self.on_names(OpClass::Link, &name, place, |dir, name| dir.link(name, &second))?;
        self.on_names(OpClass::Unlink, &second, place, |dir, name| dir.unlink(name))
    }

    /// Reads all names of one of the directories, as one operation.
    pub(super) fn list(&mut self) -> Result<(), Stop> {
        let place = self.random.below(self.dirs.len() as u64) as usize;
        let dir = self.dir(place);
        let mut entries = std::mem::take(&mut self.entries);
        let over = self.over;
        let read_all = || {
            let dir = dir.again()?;
            let mut names = dir.entries(&mut entries);
            let mut seen = 0;
            while names.next_name()?.is_some() {
                seen += 1;
                if seen % NAMES_AT_ONCE == 0 && over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        };
        let listed = self.time(OpClass::List, c".", read_all, |()| 0);
        self.entries = entries;
        listed
    }

    /// A new file, made under another name, takes the place of an old one.
    pub(super) fn replace(&mut self) -> Result<(), Stop> {
        let Some((index, old)) = self.set.any(&mut self.random) else { return Ok(()) };
        let place = self.place(old.number);
        let entry = Entry { number: self.number_in(place), ..self.new_entry() };
        self.make(entry, self.playing.spec.sync)?;
        self.put_over(entry, old, index)
    }

    fn put_over(&mut self, new: Entry, old: Entry, index: usize) -> Result<(), Stop> {
        let (from, to) = (Name::file(new.number), Name::file(old.number));
        let place = self.place(old.number);
        self.on_names(OpClass::Rename, &from, place, |dir, name| dir.rename(name, &to))?;
        self.set.change(index, Entry { number: old.number, ..new });
        Ok(())
    }

    /// The next block of a large file; at its end another one is opened.
    pub(super) fn stream(&mut self) -> Result<(), Stop> {
        let (name, file) = match self.streams.reading.take() {
            Some(file) => (Name::file(0), file),
            None => {
                let Some((_, entry)) = self.set.any(&mut self.random) else { return Ok(()) };
                let name = Name::file(entry.number);
                (name, self.open(&name, entry)?)
            }
        };
        let mut data = std::mem::take(&mut self.data);
        data.resize(self.playing.block_bytes, 0);
        let read = || walked::read(&file, &mut data);
        let bytes = self.time(OpClass::Read, &name, read, |bytes| *bytes as u64);
        self.data = data;
        if bytes? < self.playing.block_bytes {
            return self.time(OpClass::CloseRead, &name, || walked::close(file), |()| 0);
        }
        self.streams.reading = Some(file);
        Ok(())
    }

    /// The next block of a new large file, which takes the place of an old one when it is whole.
    pub(super) fn record(&mut self) -> Result<(), Stop> {
        let (file, entry, at) = match self.streams.writing.take() {
            Some(writing) => writing,
            None => self.begin_record()?,
        };
        let name = Name::file(entry.number);
        let end = (at + self.playing.block_bytes as u64).min(entry.size);
        self.write(OpClass::Write, (&file, &name), entry.content, at, end)?;
        if end < entry.size {
            self.streams.writing = Some((file, entry, end));
            return Ok(());
        }
        let (sync, place) = (self.playing.spec.sync, self.place(entry.number));
        let dir = self.dir(place);
        let synced = self.sync_open((&file, &name), &dir, sync);
        synced?;
        self.time(OpClass::CloseWrite, &name, || walked::close(file), |()| 0)?;
        match self.set.turn_over(entry, self.playing.spec.files_each()) {
            Some(old) => self.unlink(old),
            None => Ok(()),
        }
    }

    fn begin_record(&mut self) -> Result<(File, Entry, u64), Stop> {
        let entry = self.new_entry();
        let (name, place) = (Name::file(entry.number), self.place(entry.number));
        let dir = self.dir(place);
        let made = self.time(OpClass::OpenWrite, &name, || dir.create_write(&name), |_| 0);
        Ok((made?, entry, 0))
    }
}
