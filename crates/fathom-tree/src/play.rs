//! The client of a personality: transaction after transaction, each chosen by weight, on a set of files of its own that
//! keeps its size. What it makes has the names and bytes that fathom's leftovers know as fathom's, wherever a kill ends it.

mod files;
pub mod kept;
mod pace;
mod set;
mod trees;

use crate::name::Name;
use crate::ops::Meter;
use crate::walk::{Failed, below};
use crate::window::{Schedule, Window};
use fathom_base::clock::Clock;
use fathom_base::content::Filler;
use fathom_base::lognormal::LogNormal;
use fathom_base::prng::Prng;
use fathom_model::play::{PlayAct, PlaySpec, Sizes};
use fathom_model::record::OpClass;
use fathom_sys::walked::{EntryBuffer, WalkedDir};
use kept::Kept;
use pace::{Arriving, Ledger};
use set::{Entry, Set};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trees::Wood;

/// Bytes after which stored content has a stamp, and the unit in which it is made.
const STEP_BYTES: u64 = 4096;
/// The unit in which it is told whose content is.
const SECTOR_BYTES: u64 = 512;
/// Of a last part of a file that is shorter, nobody can tell that it is fathom's: no file ends so.
const TAIL_BYTES: u64 = 64;
/// Bits for the steps of one file in the number of a content.
const STEP_BITS: u32 = 28;
/// How long waits for the next transaction go on before it is asked whether time is over.
const WAIT_NS: u64 = 20_000_000;
/// Streams of chance of one client: sizes of the first files, everything that comes later, arrivals.
const FIRST_STREAM: u64 = 0;
const LATER_STREAM: u64 = 1;
const ARRIVALS_STREAM: u64 = 2;

/// What one client is to do.
#[derive(Debug, Clone)]
pub struct Playing {
    /// The personality.
    pub spec: PlaySpec,
    /// Most bytes of one read or write.
    pub block_bytes: usize,
    /// Its number.
    pub number: u32,
    /// Seed of its choices.
    pub seed: u64,
    /// True when trees are read back at the end, so that it remembers every file of them.
    pub remembers_trees: bool,
}

impl Playing {
    fn mix(&self) -> &[(PlayAct, u32)] {
        if self.number < self.spec.writers { &self.spec.writer_mix } else { &self.spec.mix }
    }
}

/// Draws sizes that a file of fathom's may have.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Uniform(u64, u64),
    LogNormal(LogNormal),
}

impl Draw {
    fn new(sizes: Sizes) -> Self {
        match sizes {
            Sizes::Uniform { min, max } => Self::Uniform(min, max),
            Sizes::LogNormal { median, mean, max } => {
                // The mean of a log-normal distribution is median x exp(sigma^2 / 2).
                let ratio = mean as f64 / median.max(1) as f64;
                let sigma = (2.0 * ratio.ln()).max(0.0).sqrt();
                Self::LogNormal(LogNormal::new(median, sigma, max))
            }
        }
    }

    fn size(self, random: &mut Prng) -> u64 {
        match self {
            Self::Uniform(min, max) => min + random.below(max - min + 1),
            Self::LogNormal(sizes) => sizes.draw(random),
        }
    }
}

/// The next length from which on the last part of a file can be told.
fn told(length: u64) -> u64 {
    match length % SECTOR_BYTES {
        1..TAIL_BYTES => length - length % SECTOR_BYTES + TAIL_BYTES,
        _ => length,
    }
}

/// Chooses by weight.
fn choose(mix: &[(PlayAct, u32)], random: &mut Prng) -> Option<PlayAct> {
    let sum: u64 = mix.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let mut place = random.below(sum);
    mix.iter().find_map(|(act, weight)| match place.checked_sub(u64::from(*weight)) {
        Some(rest) => {
            place = rest;
            None
        }
        None => Some(*act),
    })
}

/// A transaction that can be done.
#[derive(Debug, Clone, Copy)]
struct Todo {
    act: PlayAct,
    /// On which tree, where it is one of trees.
    tree: usize,
}

/// Why a transaction ended before its end.
#[derive(Debug)]
enum Stop {
    /// It was asked to.
    Asked,
    /// Something failed, on a name.
    Failed(OpClass, String, io::Error),
}

/// One client.
pub struct Player<'a, 'm, C: Clock> {
    playing: &'a Playing,
    meter: &'a mut Meter<'m, C>,
    over: &'a AtomicBool,
    random: Prng,
    sizes: Draw,
    appends: Draw,
    dirs: Vec<Rc<WalkedDir>>,
    set: Set,
    wood: Wood,
    streams: files::Streams,
    log: files::Log,
    /// Files that were replaced and are to be deleted.
    leaving: Vec<Entry>,
    filler: Filler,
    data: Vec<u8>,
    entries: EntryBuffer,
    /// Files that were made by all acts so far: the numbers of their contents.
    contents: u64,
}

impl<'a, 'm, C: Clock> Player<'a, 'm, C> {
    /// A client on its directory, with the files that [`Player::prepare`] makes of the same settings.
    ///
    /// # Errors
    /// [`Failed`] when its directories cannot be opened or made.
    pub fn new(
        root: &'a WalkedDir,
        playing: &'a Playing,
        meter: &'a mut Meter<'m, C>,
        over: &'a AtomicBool,
    ) -> Result<Self, Failed> {
        let failed = |error| Failed { class: OpClass::OpenDir, name: String::new(), error };
        let spec = &playing.spec;
        let mut first = Prng::new(playing.seed, FIRST_STREAM);
        let sizes = Draw::new(spec.sizes);
        let (step, number) = if spec.shared { (spec.clients, playing.number) } else { (1, 0) };
        let mut set = Set::new(u64::from(step), u64::from(number), spec);
        (0..spec.files_each()).for_each(|_| set.add_first(told(sizes.size(&mut first))));
        let contents = set.len();
        let mut wood = Wood::new(root.again().map_err(failed)?, spec);
        if playing.remembers_trees {
            wood.remember(sizes, Prng::new(playing.seed, LATER_STREAM), contents);
        }
        Ok(Self {
            playing,
            meter,
            over,
            random: Prng::new(playing.seed, LATER_STREAM),
            sizes,
            appends: Draw::new(spec.append_sizes),
            dirs: files::directories(root, spec.dirs).map_err(failed)?,
            set,
            wood,
            streams: files::Streams::default(),
            log: files::Log::default(),
            leaving: Vec::new(),
            filler: Filler::noise(playing.seed),
            data: Vec::new(),
            entries: EntryBuffer::default(),
            contents,
        })
    }

    /// Makes the files that there are when the measurement begins. False when it was asked to stop.
    ///
    /// # Errors
    /// [`Failed`] with the operation that did.
    pub fn prepare(&mut self) -> Result<bool, Failed> {
        let made = (0..self.set.len()).try_for_each(|index| {
            self.go_on()?;
            self.make_first(index)
        });
        let made = made.and_then(|()| self.plant());
        finished(made)
    }

    /// Goes on until it is told to stop. Transactions become due from its start on, and are counted in one window.
    ///
    /// # Errors
    /// [`Failed`] with the operation that did, as for want of space.
    pub fn run(&mut self, schedule: &Schedule, window: usize) -> Result<(), Failed> {
        let start_ns = schedule.starts_ns.get(window).copied().unwrap_or(0);
        let none = Window { start_ns, end_ns: start_ns };
        let window = schedule.windows.get(window).copied().unwrap_or(none);
        let chance = Prng::new(self.playing.seed, ARRIVALS_STREAM);
        let arriving = Arriving::new(&self.playing.spec, self.playing.number, start_ns, chance);
        let mut ledger = Ledger::new(self.playing.mix(), arriving, window, start_ns);
        let ended = self.transactions(&mut ledger);
        self.meter.resume();
        let window_end_ns = window.end_ns.min(self.meter.cut_ns()).min(self.meter.now_ns());
        self.meter.played = Some(Box::new(ledger.finish(window_end_ns)));
        finished(ended).map(|_| ())
    }

    /// The files that it has now; those of trees where it remembers them.
    #[must_use]
    pub fn kept(self) -> Kept {
        let log = self.log.current.map(|(entry, _)| entry);
        let writing = self.streams.writing.map(|(_, entry, at)| Entry { size: at, ..entry });
        let more = self.leaving.into_iter().chain(log).chain(writing);
        let entries = self.set.into_entries().into_iter().chain(more).collect();
        Kept { entries, planted: self.wood.planted.unwrap_or_default() }
    }

    fn transactions(&mut self, ledger: &mut Ledger) -> Result<(), Stop> {
        loop {
            self.go_on()?;
            if let Some(due_ns) = ledger.next_due_ns() {
                self.wait_until(due_ns)?;
            }
            let Some(act) = choose(self.playing.mix(), &mut self.random) else { return Ok(()) };
            let Some(todo) = self.fit(act) else { return Ok(()) };
            self.meter.resume();
            ledger.begin(todo.act, self.meter.now_ns());
            self.act(todo)?;
            ledger.end(self.meter.now_ns());
        }
    }

    fn wait_until(&mut self, due_ns: u64) -> Result<(), Stop> {
        loop {
            self.go_on()?;
            self.meter.resume();
            let left_ns = due_ns.saturating_sub(self.meter.now_ns());
            if left_ns == 0 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_nanos(left_ns.min(WAIT_NS)));
        }
    }

    fn go_on(&self) -> Result<(), Stop> {
        if self.over.load(Ordering::Relaxed) { Err(Stop::Asked) } else { Ok(()) }
    }

    /// What can be done of what was drawn: there is nothing to delete where there is nothing, and no room for more than there
    /// may be. None where nothing at all can be done.
    fn fit(&mut self, act: PlayAct) -> Option<Todo> {
        if act.is_on_trees() {
            return self.fit_tree(act);
        }
        let act = match act {
            PlayAct::Create if self.set.is_full() => PlayAct::Delete,
            // What is to be done to a file needs one.
            PlayAct::Delete
            | PlayAct::Read
            | PlayAct::Append
            | PlayAct::Stat
            | PlayAct::Rename
            | PlayAct::Link
            | PlayAct::Replace
                if self.set.len() == 0 =>
            {
                PlayAct::Create
            }
            act => act,
        };
        Some(Todo { act, tree: 0 })
    }

    fn act(&mut self, todo: Todo) -> Result<(), Stop> {
        match todo.act {
            PlayAct::Deliver => self.deliver(),
            PlayAct::Create => self.create(),
            PlayAct::Delete => self.delete(),
            PlayAct::Read => self.read_one(),
            PlayAct::Append => self.append(),
            PlayAct::Log => self.write_log(),
            PlayAct::Stat => self.stat(),
            PlayAct::Rename => self.rename(),
            PlayAct::Link => self.link(),
            PlayAct::List => self.list(),
            PlayAct::Replace => self.replace(),
            PlayAct::Stream => self.stream(),
            PlayAct::Record => self.record(),
            PlayAct::TreeCreate
            | PlayAct::TreeCompile
            | PlayAct::TreePatch
            | PlayAct::TreeClean
            | PlayAct::TreeRead
            | PlayAct::TreeStat
            | PlayAct::TreeDelete => self.on_tree(todo),
        }
    }

    /// Times one operation on a name.
    fn time<T>(
        &mut self,
        class: OpClass,
        name: &CStr,
        operation: impl FnOnce() -> io::Result<T>,
        bytes: impl FnOnce(&T) -> u64,
    ) -> Result<T, Stop> {
        let done = self.meter.time(class, operation, bytes);
        done.map_err(|error| Stop::Failed(class, self.in_place(name), error))
    }

    /// The name of one of the files, with the directory over which they are spread.
    #[cold]
    fn in_place(&self, name: &CStr) -> String {
        let text = name.to_string_lossy();
        let number = text.strip_prefix('f').and_then(|number| number.parse::<u64>().ok());
        match (number, u64::from(self.playing.spec.dirs)) {
            (Some(number), dirs @ 1..) if !self.playing.spec.acts().any(PlayAct::is_on_trees) => {
                below(&Name::dir(number % dirs), name)
            }
            _ => text.into_owned(),
        }
    }

    /// Writes content of that number from one place of a file to another, in whole blocks of the file, as one operation of
    /// each call.
    fn write(
        &mut self,
        class: OpClass,
        (file, name): (&File, &CStr),
        content: u64,
        from: u64,
        to: u64,
    ) -> Result<(), Stop> {
        let block = self.playing.block_bytes as u64;
        let mut at = from;
        while at < to {
            let end = ((at / block + 1) * block).min(to);
            let mut left = fill(&self.filler, &mut self.data, content, at, end);
            self.meter.resume();
            while !left.is_empty() {
                let data = &self.data[left.clone()];
                let written = self.meter.time(
                    class,
                    || fathom_sys::walked::write(file, data),
                    |bytes| *bytes as u64,
                );
                left.start +=
                    written.map_err(|error| Stop::Failed(class, self.in_place(name), error))?;
            }
            at = end;
        }
        Ok(())
    }

    fn next_content(&mut self) -> u64 {
        self.contents += 1;
        self.contents
    }
}

/// Makes what a file of that content has between two places, and gives where in `data` it is. What a file holds at a place
/// follows from the place: whole steps are made, so that parts that are written at different times fit.
fn fill(filler: &Filler, data: &mut Vec<u8>, content: u64, from: u64, to: u64) -> Range<usize> {
    let first = from / STEP_BYTES;
    let steps = to.div_ceil(STEP_BYTES) - first;
    data.resize((steps * STEP_BYTES) as usize, 0);
    for (step, block) in (first..).zip(data.chunks_mut(STEP_BYTES as usize)) {
        filler.fill(block, 0, (content << STEP_BITS).wrapping_add(step));
    }
    (from - first * STEP_BYTES) as usize..(to - first * STEP_BYTES) as usize
}

/// True when it came to its end.
fn finished(ended: Result<(), Stop>) -> Result<bool, Failed> {
    match ended {
        Ok(()) => Ok(true),
        Err(Stop::Asked) => Ok(false),
        Err(Stop::Failed(class, name, error)) => Err(Failed { class, name, error }),
    }
}

#[cfg(test)]
#[path = "play_tests.rs"]
mod tests;
