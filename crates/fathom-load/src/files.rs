//! More files than may be open: which of them are, and which one is closed for another.

use crate::run::LoadError;
use crate::target::LoadTarget;
use fathom_model::workload::Job;
use fathom_sys::io as sys_io;
use fathom_sys::request::FileTable;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Descriptors that a job keeps open over all its threads, unless it asks for another number.
const OPEN_MAX: u64 = 4096;
/// Left for what is opened while a job runs: counters of the system, the store, libraries.
const OPEN_RESERVE: u64 = 24;
/// A ring and its like.
const OPEN_EACH_THREAD: u64 = 2;
/// Taken for open where nobody can count it.
const OPEN_UNKNOWN: u64 = 104;

/// Files that are written at once before a job finds them.
const LAID_OUT_AT_ONCE: u64 = 4;

/// What the limit of descriptors leaves to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Descriptors that this process may have.
    pub limit: u64,
    /// Descriptors that are not for files: those that are open, those that will be.
    pub taken: u64,
    /// Jobs that still need files, this one among them.
    pub jobs: u64,
}

impl Room {
    /// For the first of these jobs, given by the threads of each; those before it have their files open.
    pub fn now(threads: impl Iterator<Item = u32>) -> Self {
        let open = std::fs::read_dir("/proc/self/fd").map(|all| all.count() as u64);
        let (mut taken, mut jobs) = (open.unwrap_or(OPEN_UNKNOWN) + OPEN_RESERVE, 0);
        for threads in threads {
            taken += OPEN_EACH_THREAD * u64::from(threads);
            jobs += 1;
        }
        Self { limit: fathom_sys::threads::file_limit(), taken, jobs }
    }

    /// Files that the job may have open.
    fn files(self) -> u64 {
        self.limit.saturating_sub(self.taken) / self.jobs.max(1)
    }

    /// The limit with which it may have so many open.
    pub fn limit_for(self, files: u64) -> u64 {
        self.taken.saturating_add(files.saturating_mul(self.jobs.max(1)))
    }
}

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
        room: Room,
    ) -> Option<Self> {
        if let Some(asked) = asked {
            return Some(if asked >= files { Self::All } else { Self::Some(asked) });
        }
        // More than is good for the memory of the kernel only where each request may need a file of its own.
        let usable = most_open(threads, depth).min(room.files());
        if u64::from(files) <= usable {
            return Some(Self::All);
        }
        let each = u32::try_from(usable / u64::from(threads.max(1))).unwrap_or(u32::MAX);
        (each >= depth.max(1)).then_some(Self::Some(each))
    }
}

/// Files that a job keeps open at the most, unless it asks for another number.
fn most_open(threads: u32, depth: u32) -> u64 {
    OPEN_MAX.max(files_in_flight(threads, depth))
}

/// Files that all requests in flight may need at once.
fn files_in_flight(threads: u32, depth: u32) -> u64 {
    u64::from(threads) * u64::from(depth.max(1))
}

/// The open files of a job with several: made before the threads start.
#[derive(Debug)]
pub struct FileSet {
    /// All files, once for all threads; or some, for each thread; nothing of a single file.
    pools: Vec<Vec<File>>,
    keeping: Keeping,
    /// What the limit left to it; none of a single file.
    room: Option<Room>,
}

impl FileSet {
    /// Opens what is to be open at the beginning.
    ///
    /// # Errors
    /// Those of opening; [`LoadError::Missing`] when the limit of descriptors allows too few.
    pub fn new(
        target: &LoadTarget,
        job: &Job,
        threads: u32,
        depth: u32,
        room: impl FnOnce() -> Room,
    ) -> Result<Self, LoadError> {
        let files = target.files();
        if files == 1 {
            return Ok(Self { pools: Vec::new(), keeping: Keeping::All, room: None });
        }
        let room = room();
        let missing = |what| LoadError::Missing { job: job.name.clone(), what };
        let keeping = Keeping::of(files, job.files_open, threads, depth, room)
            .ok_or_else(|| missing(too_few(threads, depth, room)))?;
        let (pools, each) = match keeping {
            Keeping::All => (1, files),
            Keeping::Some(each) => (threads, each),
        };
        let open = |_| (0..each).map(|index| target.open_file(index)).collect();
        let pools = (0..pools).map(open).collect::<io::Result<_>>().map_err(|error| {
            let open = u64::from(pools) * u64::from(each);
            missing(match error.raw_os_error() {
                Some(EMFILE) => too_many(open, job.files_open.is_some(), room),
                _ => format!("opening {open} of its files: {error}"),
            })
        })?;
        Ok(Self { pools, keeping, room: Some(room) })
    }

    /// Why an engine that needs so many files open cannot have them, and what helps; none when it has.
    pub fn why_switching(&self, files: u32, (threads, depth): (u32, u32)) -> Option<String> {
        let room = self.room.filter(|_| self.is_switching())?;
        Some(too_many_for_all(files.into(), most_open(threads, depth), room))
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

fn too_few(threads: u32, depth: u32, room: Room) -> String {
    let needed = files_in_flight(threads, depth);
    format!(
        "opening its files: threads={threads} depth={depth} may need {needed} at once, and the limit of {} descriptors leaves {}; raise it to {} (ulimit -n), or use less depth or fewer threads",
        room.limit,
        room.files(),
        room.limit_for(needed.max(LAID_OUT_AT_ONCE))
    )
}

fn too_many(open: u64, is_asked: bool, room: Room) -> String {
    let cure = if is_asked { ", or use a smaller files_open or fewer threads" } else { "" };
    format!(
        "opening its files: {open} at once are more than the limit of {} descriptors allows; raise it to {} (ulimit -n){cure}",
        room.limit,
        room.limit_for(open)
    )
}

fn too_many_for_all(files: u64, most: u64, room: Room) -> String {
    if files > most {
        return format!(
            "fathom keeps {most} of its {files} open at the most; use that many files or fewer"
        );
    }
    format!(
        "the limit of {} descriptors leaves {} for its {files} files; raise it to {} (ulimit -n), or use fewer files",
        room.limit,
        room.files(),
        room.limit_for(files)
    )
}

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
        let keeping = |files, asked, threads, depth, limit| {
            Keeping::of(files, asked, threads, depth, Room { limit, taken: 136, jobs: 1 })
        };
        assert_eq!(keeping(1000, None, 4, 32, 1 << 20), Some(Keeping::All));
        assert_eq!(keeping(100_000, None, 4, 32, 1 << 20), Some(Keeping::Some(1024)));
        assert_eq!(keeping(1000, None, 4, 32, 1024), Some(Keeping::Some(222)));
        assert_eq!(keeping(1000, None, 16, 32, 256), None, "less than the depth");
        assert_eq!(keeping(1000, None, 1, 1, 137), Some(Keeping::Some(1)), "however few");
        assert_eq!(keeping(1000, None, 1, 1, 136), None, "none at all");
        assert_eq!(keeping(1000, Some(10), 4, 8, 1024), Some(Keeping::Some(10)));
        assert_eq!(keeping(10, Some(10), 4, 8, 1024), Some(Keeping::All));
    }

    /// The limit that the message asks for is one with which the job runs, and one less is not.
    #[test]
    fn the_cure_of_too_few_descriptors_is_enough() {
        for (taken, jobs, threads, depth) in [(40, 1, 1, 32), (60, 2, 3, 8), (40, 3, 16, 1)] {
            let room = Room { limit: 64, taken, jobs };
            let cure = room.limit_for(files_in_flight(threads, depth));
            assert!(too_few(threads, depth, room).contains(&format!("raise it to {cure} (")));
            let with = |limit| Keeping::of(1000, None, threads, depth, Room { limit, ..room });
            assert_eq!(with(cure), Some(Keeping::Some(depth)));
            assert_eq!(with(cure - 1), None);
        }
    }

    /// Jobs share what there is: what one takes is left to those after it.
    #[test]
    fn jobs_share_the_descriptors() {
        let now = Room::now([1, 2, 1].into_iter());
        assert_eq!(now.jobs, 3);
        assert!(now.taken > OPEN_RESERVE + 8, "what is open counts, and two for each thread");
        let of = |jobs| Room { limit: 1000, taken: 100, jobs }.files();
        assert_eq!((of(1), of(3)), (900, 300));
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
