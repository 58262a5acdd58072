//! One file that is exercised: the same operation on the file and on the model, one after the other.

use super::model::{Difference, Kind, LENGTH_MAX, Model, Op};
use fathom_sys::arena::Arena;
use fathom_sys::blkdev::path_of_open;
use fathom_sys::holes;
use fathom_sys::io::{self as plain, OpenMode, open_existing};
use fathom_sys::mapping::Mapping;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// A file and its model.
pub struct Exercised {
    /// Holds the file as long as it has no name; never used for I/O but at the end.
    anchor: File,
    file: File,
    model: Model,
    arena: Arena,
    data: Vec<u8>,
    /// Kinds that the filesystem cannot, with its answer.
    pub dropped: Vec<(Kind, String)>,
    /// The last operations.
    pub log: VecDeque<Op>,
    log_max: usize,
    /// How often each kind was done, as in [`Kind::WEIGHTS`].
    pub done: [u64; Kind::WEIGHTS.len()],
    /// Bytes read and written.
    pub bytes: u64,
}

/// Why the exercise of a file ended early.
#[derive(Debug)]
pub enum Broken {
    /// What is in the file is not what must be.
    Different(Box<Difference>),
    /// It has another size, bytes: expected and found.
    Size(u64, u64),
    /// A read gave less than there is, bytes: expected and found.
    Short(u64, u64),
    /// The system failed.
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Exercised {
    /// An empty file and its model.
    ///
    /// # Errors
    /// Those of opening it anew, and of memory.
    pub fn new(anchor: File, model: Model, log_max: usize) -> io::Result<Self> {
        let file = reopen(&anchor, false)?;
        let arena = Arena::new(1, LENGTH_MAX as usize)?;
        let (dropped, log) = (Vec::new(), VecDeque::with_capacity(log_max + 1));
        let done = [0; Kind::WEIGHTS.len()];
        Ok(Self {
            anchor,
            file,
            model,
            arena,
            data: Vec::new(),
            dropped,
            log,
            log_max,
            done,
            bytes: 0,
        })
    }

    /// Nothing is opened with O_DIRECT.
    pub fn drop_kind(&mut self, kind: Kind, why: &str) {
        self.dropped.push((kind, why.to_owned()));
    }

    /// Does the next operation.
    ///
    /// # Errors
    /// [`Broken`], with the operation that showed it last in the log.
    pub fn step(&mut self) -> Result<(), Broken> {
        let dropped = &self.dropped;
        let op = self.model.next_op(|kind| dropped.iter().any(|(other, _)| *other == kind));
        if self.log.len() == self.log_max {
            self.log.pop_front();
        }
        self.log.push_back(op);
        let done = match self.perform(&op) {
            Err(Broken::Io(error)) if self.can_drop(op.kind) && is_refused(&error, op.kind) => {
                // Nothing was done, and the model knows nothing of it yet.
                self.dropped.push((op.kind, error.to_string()));
                return Ok(());
            }
            other => other,
        };
        done?;
        // An empty file has no range to zero: nothing was done.
        let has_range =
            matches!(op.kind, Kind::MapRead | Kind::MapWrite | Kind::PunchHole | Kind::ZeroRange);
        if op.length_bytes > 0 || !has_range {
            self.done[op.kind.index()] += 1;
        }
        self.bytes += op.length_bytes;
        self.check_size()
    }

    /// Reading and writing is what there must be.
    fn can_drop(&self, kind: Kind) -> bool {
        !matches!(kind, Kind::Read | Kind::Write | Kind::Truncate | Kind::Reopen)
    }

    fn perform(&mut self, op: &Op) -> Result<(), Broken> {
        let length = op.length_bytes as usize;
        match op.kind {
            Kind::Read => return self.read(op),
            Kind::MapRead | Kind::MapWrite if length == 0 => {}
            Kind::MapRead => {
                let size = self.model.size_bytes();
                let mut mapping = Mapping::new(self.file.as_fd(), size, false)?;
                let buffer = &mut self.arena.slot_mut(0)[..length];
                let read = mapping.read(buffer, op.offset_bytes)?;
                drop(mapping);
                if read != length {
                    return Err(Broken::Short(length as u64, read as u64));
                }
                return self.compare(op.offset_bytes, length);
            }
            Kind::Write => {
                self.fill(op);
                let buffer = &mut self.arena.slot_mut(0)[..length];
                buffer.copy_from_slice(&self.data);
                write_all(&self.file, buffer, op.offset_bytes)?;
            }
            Kind::MapWrite => {
                self.fill(op);
                let size = self.model.size_bytes();
                let mut mapping = Mapping::new(self.file.as_fd(), size, true)?;
                let written = mapping.write(&self.data, op.offset_bytes)?;
                if written != length {
                    return Err(Broken::Short(length as u64, written as u64));
                }
            }
            Kind::Truncate => self.file.set_len(op.offset_bytes)?,
            Kind::PunchHole | Kind::ZeroRange if length == 0 => {}
            Kind::PunchHole => holes::punch_hole(&self.file, op.offset_bytes, op.length_bytes)?,
            Kind::ZeroRange => holes::zero_range(&self.file, op.offset_bytes, op.length_bytes)?,
            Kind::Fsync => self.file.sync_all()?,
            Kind::Reopen => self.file = reopen(&self.anchor, false)?,
            Kind::ReopenDirect => self.file = reopen(&self.anchor, true)?,
            Kind::DropCache => plain::drop_cached_pages(&self.file)?,
        }
        if matches!(op.kind, Kind::Write | Kind::MapWrite) {
            self.model.apply(op, &self.data[..length.min(self.data.len())]);
        } else {
            self.model.apply(op, &[]);
        }
        Ok(())
    }

    fn fill(&mut self, op: &Op) {
        self.data.resize(op.length_bytes as usize, 0);
        self.model.content(op.number, &mut self.data);
    }

    fn read(&mut self, op: &Op) -> Result<(), Broken> {
        let expected = self.model.readable(op);
        let buffer = &mut self.arena.slot_mut(0)[..op.length_bytes as usize];
        let mut read = 0;
        while (read as u64) < expected {
            match plain::read_at(&self.file, &mut buffer[read..], op.offset_bytes + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        if read as u64 != expected {
            return Err(Broken::Short(expected, read as u64));
        }
        self.compare(op.offset_bytes, read)
    }

    fn compare(&mut self, offset_bytes: u64, length: usize) -> Result<(), Broken> {
        let found = &self.arena.slot_mut(0)[..length];
        match self.model.compare(offset_bytes, found) {
            None => Ok(()),
            Some(difference) => Err(Broken::Different(Box::new(difference))),
        }
    }

    /// Compares the whole file, as it is cached and as it is stored.
    ///
    /// # Errors
    /// [`Broken`].
    pub fn finish(&mut self) -> Result<(), Broken> {
        self.file = reopen(&self.anchor, false)?;
        self.check_size()?;
        for _ in 0..2 {
            let size = self.model.size_bytes();
            for offset in (0..size).step_by(LENGTH_MAX as usize) {
                let length_bytes = LENGTH_MAX.min(size - offset);
                let number = self.log.back().map_or(0, |op| op.number);
                let op = Op {
                    number,
                    kind: Kind::Read,
                    offset_bytes: offset,
                    length_bytes,
                    direct: false,
                };
                self.read(&op)?;
            }
            plain::drop_cached_pages(&self.file)?;
        }
        Ok(())
    }

    fn check_size(&self) -> Result<(), Broken> {
        let (expected, found) = (self.model.size_bytes(), self.file.metadata()?.len());
        if expected != found { Err(Broken::Size(expected, found)) } else { Ok(()) }
    }

    /// The model, for tests with a wrong one.
    #[cfg(test)]
    pub fn model(&mut self) -> &mut Model {
        &mut self.model
    }
}

/// True for an answer that means never, not now. O_DIRECT and mappings have answers of their own for that.
fn is_refused(error: &io::Error, kind: Kind) -> bool {
    let is_invalid = error.kind() == io::ErrorKind::InvalidInput;
    holes::is_unsupported(error) || (kind == Kind::ReopenDirect && is_invalid)
}

fn reopen(anchor: &File, direct: bool) -> io::Result<File> {
    open_existing(&path_of_open(anchor), OpenMode { write: true, direct, ..OpenMode::default() })
}

fn write_all(file: &File, buffer: &[u8], offset_bytes: u64) -> io::Result<()> {
    let mut written = 0;
    while written < buffer.len() {
        match plain::write_at(file, &buffer[written..], offset_bytes + written as u64)? {
            0 => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            more => written += more,
        }
    }
    Ok(())
}
