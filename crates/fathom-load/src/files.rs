//! More files than may be open: which of them are, and which one is closed for another.

use crate::target::LoadTarget;
use fathom_model::workload::Job;
use fathom_sys::io as sys_io;
use fathom_sys::request::FileTable;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Descriptors that a job keeps open over all its threads, unless it asks for another number.
const OPEN_MAX: u64 = 4096;
/// Left for rings, libraries and everything else.
const OPEN_RESERVE: u64 = 128;

/// How the files of a job are kept open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeping {
    /// All of them, by all threads together.
    All,
    /// So many by each thread, and no more.
    Some(u32),
}

impl Keeping {
    /// What the limit of descriptors allows, or what was asked for; none when that is less than the depth.
    pub fn of(
        files: u32,
        asked: Option<u32>,
        threads: u32,
        depth: u32,
        limit: u64,
    ) -> Option<Self> {
        if let Some(asked) = asked {
            return Some(if asked >= files { Self::All } else { Self::Some(asked) });
        }
        // A ring and its like take two for each thread.
        let others = OPEN_RESERVE + 2 * u64::from(threads);
        // More than is good for the memory of the kernel only where each request may need a file of its own.
        let needed = u64::from(threads) * u64::from(depth.max(1));
        let usable = OPEN_MAX.max(needed).min(limit.saturating_sub(others));
        if u64::from(files) <= usable {
            return Some(Self::All);
        }
        let each = u32::try_from(usable / u64::from(threads.max(1))).unwrap_or(u32::MAX);
        (each >= depth.max(1)).then_some(Self::Some(each))
    }
}

/// The open files of a job with several: made before the threads start.
#[derive(Debug)]
pub struct FileSet {
    /// All files, once for all threads; or some, for each thread; nothing of a single file.
    pools: Vec<Vec<File>>,
    keeping: Keeping,
}

impl FileSet {
    /// Opens what is to be open at the beginning.
    ///
    /// # Errors
    /// Those of opening; EMFILE when the limit of descriptors allows too few.
    pub fn new(target: &LoadTarget, job: &Job, threads: u32, depth: u32) -> io::Result<Self> {
        let files = target.files();
        if files == 1 {
            return Ok(Self { pools: Vec::new(), keeping: Keeping::All });
        }
        let limit = fathom_sys::threads::file_limit();
        let keeping = Keeping::of(files, job.files_open, threads, depth, limit)
            .ok_or_else(|| io::Error::from_raw_os_error(EMFILE))?;
        let (pools, each) = match keeping {
            Keeping::All => (1, files),
            Keeping::Some(each) => (threads, each),
        };
        let open = |_| (0..each).map(|index| target.open_file(index)).collect();
        let pools = (0..pools).map(open).collect::<io::Result<_>>()?;
        Ok(Self { pools, keeping })
    }

    /// True when files are closed and opened while the job runs.
    pub fn is_switching(&self) -> bool {
        self.keeping != Keeping::All
    }

    fn pool(&self, thread: u32) -> Option<&[File]> {
        let pool = self.pools.get(thread as usize).or(self.pools.first())?;
        Some(pool.as_slice())
    }

    /// The descriptors of a thread, in the order of its engine's indices.
    pub fn table<'f>(&'f self, target: &'f LoadTarget, thread: u32) -> io::Result<FileTable<'f>> {
        let files: Vec<BorrowedFd<'f>> = match self.pool(thread) {
            Some(pool) => pool.iter().map(AsFd::as_fd).collect(),
            None => target.file().map(AsFd::as_fd).into_iter().collect(),
        };
        FileTable::new(&files)
    }

    /// What a thread needs that cannot have all files open.
    pub fn switching<'f>(&'f self, target: &'f LoadTarget, thread: u32) -> Option<OpenFiles<'f>> {
        let pool = self.pool(thread).filter(|_| self.is_switching())?;
        Some(OpenFiles::new(target, pool))
    }
}

/// Too many open files.
const EMFILE: i32 = 24;

/// The end of a list.
const NOBODY: u32 = u32::MAX;

/// The open files of one thread: a place for each descriptor, in the order of their last use. Everything is allocated
/// when it is made.
#[derive(Debug)]
pub struct OpenFiles<'f> {
    target: &'f LoadTarget,
    /// The descriptors, by place; each keeps its number and changes its meaning.
    descriptors: &'f [File],
    /// For each file its place, plus one; 0 when it is not open.
    place_of: Vec<u32>,
    /// For each place its file.
    file_of: Vec<u32>,
    /// Neighbours in the order of use, towards the latest and towards the oldest.
    newer: Vec<u32>,
    older: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl<'f> OpenFiles<'f> {
    /// Over the first files of a target, which are open.
    pub fn new(target: &'f LoadTarget, descriptors: &'f [File]) -> Self {
        Self::of(target, descriptors, target.files() as usize)
    }

    fn of(target: &'f LoadTarget, descriptors: &'f [File], files: usize) -> Self {
        let places = descriptors.len() as u32;
        let mut place_of = vec![0; files];
        (0..places).for_each(|place| place_of[place as usize] = place + 1);
        Self {
            target,
            descriptors,
            place_of,
            file_of: (0..places).collect(),
            newer: (0..places).map(|place| place.checked_sub(1).unwrap_or(NOBODY)).collect(),
            older: (1..places).chain([NOBODY]).collect(),
            newest: 0,
            oldest: places - 1,
        }
    }

    /// Takes all files for closed: somebody else has used the descriptors.
    pub fn forget(&mut self) {
        self.place_of.fill(0);
    }

    /// The place of a file that is open, which is now the latest used.
    pub fn find(&mut self, file: u32) -> Option<u32> {
        let place = self.place_of[file as usize].checked_sub(1)?;
        self.use_now(place);
        Some(place)
    }

    /// The file that is open in a place.
    pub fn file_in(&self, place: u32) -> u32 {
        self.file_of[place as usize]
    }

    /// Opens a file in the place of the one that was used the longest time ago, unless that is in use.
    ///
    /// # Errors
    /// Those of opening; EBUSY when every place is in use.
    pub fn replace(&mut self, file: u32, in_use: impl Fn(u32) -> bool) -> io::Result<u32> {
        let mut place = self.oldest;
        while place != NOBODY && in_use(place) {
            place = self.newer[place as usize];
        }
        if place == NOBODY {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        let opened = self.target.open_file(file)?;
        sys_io::replace_open(&self.descriptors[place as usize], opened)?;
        let before = std::mem::replace(&mut self.file_of[place as usize], file);
        self.place_of[before as usize] = 0;
        self.place_of[file as usize] = place + 1;
        self.use_now(place);
        Ok(place)
    }

    fn use_now(&mut self, place: u32) {
        if self.newest == place {
            return;
        }
        let (newer, older) = (self.newer[place as usize], self.older[place as usize]);
        // Not the newest, so somebody is newer.
        self.older[newer as usize] = older;
        match older {
            NOBODY => self.oldest = newer,
            _ => self.newer[older as usize] = newer,
        }
        self.newer[self.newest as usize] = place;
        (self.newer[place as usize], self.older[place as usize]) = (NOBODY, self.newest);
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::prng::Prng;
    use fathom_sys::io::{OpenMode, open_existing};

    #[test]
    fn what_is_kept_open_follows_limit_and_wish() {
        assert_eq!(Keeping::of(1000, None, 4, 32, 1 << 20), Some(Keeping::All));
        assert_eq!(Keeping::of(100_000, None, 4, 32, 1 << 20), Some(Keeping::Some(1024)));
        assert_eq!(Keeping::of(1000, None, 4, 32, 1024), Some(Keeping::Some(222)));
        assert_eq!(Keeping::of(1000, None, 16, 32, 256), None, "less than the depth");
        assert_eq!(Keeping::of(1000, Some(10), 4, 8, 1024), Some(Keeping::Some(10)));
        assert_eq!(Keeping::of(10, Some(10), 4, 8, 1024), Some(Keeping::All));
    }

    /// Against a list that is sorted by use. The target has no files, so only the order is tested here.
    #[test]
    fn the_least_recently_used_place_is_the_oldest() {
        let target = LoadTarget::null(1);
        let open = || open_existing(std::path::Path::new("/dev/null"), OpenMode::default());
        let descriptors: Vec<File> = (0..8).map(|_| open().expect("open")).collect();
        let mut files = OpenFiles::of(&target, &descriptors, 8);
        let mut expected: Vec<u32> = (0..8).collect();
        let mut prng = Prng::new(1, 0);
        for _ in 0..10_000 {
            let file = prng.below(8) as u32;
            assert_eq!(files.find(file), Some(file));
            expected.retain(|other| *other != file);
            expected.insert(0, file);
            let mut order = vec![files.newest];
            while files.older[order[order.len() - 1] as usize] != NOBODY {
                order.push(files.older[order[order.len() - 1] as usize]);
            }
            assert_eq!(order, expected);
            assert_eq!(files.oldest, expected[7]);
        }
        let all_used = files.replace(0, |_| true).expect_err("no place");
        assert_eq!(all_used.kind(), io::ErrorKind::ResourceBusy);
    }
}
