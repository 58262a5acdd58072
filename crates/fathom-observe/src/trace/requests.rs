//! The requests of a trace, to be issued once more: which, when, and where on a target of another size.

use super::event::{Action, Class, Event, Flags, Names, SECTOR_BYTES};
use super::file::TraceError;
use super::flight::{Done, Flight, GivenBack, Level};
use super::joined::Joined;
use super::open::Source;
use super::study::Study;
use fathom_model::capture::CaptureRecord;

/// How places of the trace become places of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// As they are; the target is large enough.
    Fit,
    /// Each MiB keeps its share of the way through the device; inside of it distances stay.
    Scale,
    /// Counted from the start again where the target ends.
    Modulo,
}

impl Mapping {
    /// The word of the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Scale => "scale",
            Self::Modulo => "modulo",
        }
    }
}

/// The unit of [`Mapping::Scale`].
const UNIT_BYTES: u64 = 1 << 20;

/// Places of a trace on a target.
#[derive(Debug, Clone, Copy)]
pub struct Map {
    /// How.
    pub mapping: Mapping,
    /// Bytes of the device of the trace.
    pub from_bytes: u64,
    /// Bytes of the target.
    pub to_bytes: u64,
    /// The target's unit.
    pub block_bytes: u64,
}

impl Map {
    /// Offset and size in bytes: whole blocks that lie inside of the target. The target has at least a block.
    #[must_use]
    pub fn place(&self, sector: u64, sectors: u32) -> (u64, u64) {
        let block = self.block_bytes.max(1);
        let end = self.to_bytes / block * block;
        let from = sector.saturating_mul(SECTOR_BYTES);
        let offset = match self.mapping {
            Mapping::Fit => from,
            Mapping::Modulo => from % end.max(1),
            Mapping::Scale => {
                let unit = u128::from(from / UNIT_BYTES * UNIT_BYTES);
                let scaled = unit * u128::from(self.to_bytes) / u128::from(self.from_bytes.max(1));
                // A whole unit, so that what follows each other does so there too.
                (scaled as u64 / UNIT_BYTES * UNIT_BYTES) + from % UNIT_BYTES
            }
        };
        let first = offset / block * block;
        let wanted = u64::from(sectors) * SECTOR_BYTES + (offset - first);
        let size = wanted.next_multiple_of(block).min(end);
        (first.min(end - size), size)
    }
}

/// Which events of a trace count as requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Those that the driver got, as arrivals do not show.
    pub of_driver: bool,
    /// Writes and flushes too.
    pub writes: bool,
}

impl Wanted {
    fn request(&self, event: &Event) -> Option<Event> {
        let arrives = if self.of_driver { Action::Issue } else { Action::Queue };
        let is_wanted = event.action == arrives && self.has(event);
        is_wanted.then_some(Event { action: Action::Queue, ..*event })
    }

    fn has(&self, event: &Event) -> bool {
        match event.class {
            Class::Read => event.sectors > 0,
            Class::Write => self.writes && event.sectors > 0,
            Class::Flush => self.writes,
            Class::Discard | Class::Other => false,
        }
    }

    /// What a study of the same requests is fed with: arrivals and ends, without the driver's part.
    fn for_study(&self, event: &Event) -> Option<Event> {
        let ends = matches!(event.action, Action::Complete | Action::BioComplete);
        if ends && self.has(event) || ends && event.class == Class::Flush && self.writes {
            return Some(Event { action: Action::BioComplete, ..*event });
        }
        self.request(event)
    }
}

/// The requests of a trace, event by event: those that the driver got a second time, because it had given them back, are none.
#[derive(Debug)]
pub struct Requests {
    wanted: Wanted,
    flight: Flight,
    done: Vec<Done>,
    given_back: GivenBack,
}

impl Requests {
    /// Of these.
    #[must_use]
    pub fn of(wanted: Wanted) -> Self {
        let (flight, given_back) = (Flight::default(), GivenBack::default());
        Self { wanted, flight, done: Vec::new(), given_back }
    }

    /// The event as an arrival; none when it is no request that is issued once more.
    pub fn request(&mut self, event: &Event) -> Option<Event> {
        if self.is_again(event) { None } else { self.wanted.request(event) }
    }

    /// True when the driver gets it not for the first time. Arrivals come once.
    fn is_again(&mut self, event: &Event) -> bool {
        if !self.wanted.of_driver {
            return false;
        }
        let before = self.flight.given_back();
        self.flight.step(event, &mut self.done);
        self.done.clear();
        if self.flight.given_back() > before {
            self.given_back.add(event);
        }
        event.action == Action::Issue && self.given_back.take(event)
    }
}

/// A request as it is issued: whole, or in parts of at most so many sectors. What has to come before it comes before the first,
/// what has to be true when it ends is the last one's.
pub fn parts(event: &Event, sectors_max: u32) -> impl Iterator<Item = Event> + use<> {
    let event = *event;
    let most = sectors_max.max(1);
    let count = if event.class == Class::Flush { 1 } else { event.sectors.div_ceil(most).max(1) };
    (0..count).map(move |number| {
        let from = number * most;
        let mut flags = event.flags;
        if number > 0 {
            flags = flags.without(Flags::PREFLUSH);
        }
        if number + 1 < count {
            flags = flags.without(Flags::FUA);
        }
        let sectors = (event.sectors - from.min(event.sectors)).min(most);
        Event { sector: event.sector + u64::from(from), sectors, flags, ..event }
    })
}

/// What a replay is held against.
#[derive(Debug)]
pub struct Reference {
    /// What the requests that are to be issued look like as a load, in the parts in which they are.
    pub load: CaptureRecord,
    /// How many requests of the trace are left out.
    pub left_out: u64,
    /// The most that became one request of the driver, as far as it can be issued as one.
    pub run_bytes_max: u64,
    /// Reads and writes that the driver got.
    pub driver: [DriverCount; 2],
}

/// How many requests of a class the driver got, each counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriverCount {
    /// All of them.
    pub count: u64,
    /// As many as they become in pieces that every device takes at once, whatever the buffers are made of.
    pub pieces: u64,
}

/// 128 pages of 4 KiB, each a segment of its own: about the fewest that disks take (loop and virtio 128, NVMe 127).
const PIECE_SECTORS: u32 = 1024;

impl DriverCount {
    fn add(&mut self, event: &Event) {
        self.count += 1;
        self.pieces += u64::from(event.sectors.div_ceil(PIECE_SECTORS));
    }
}

/// What the requests that are to be issued look like, with what the driver of the trace made of them, as far as the trace shows that.
///
/// # Errors
/// [`TraceError`] for a file that is none.
pub fn reference(
    mut source: Source,
    wanted: Wanted,
    (sectors_max, run_sectors_max): (u32, u32),
    goes_on: &dyn Fn() -> bool,
) -> Result<Reference, TraceError> {
    let mut requests = Requests::of(wanted);
    let mut given_back = Requests::of(Wanted { of_driver: true, ..wanted });
    let (mut joined, mut run_sectors) = (Joined::default(), 0);
    let mut study = Study::new(source.head().size_bytes);
    if source.may_lack_ends() {
        study.had_losses();
    }
    let (mut left_out, mut driver) = (0, [DriverCount::default(); 2]);
    let mut seen = 0u64;
    while let Some(event) = source.next_event()? {
        seen += 1;
        if seen.is_multiple_of(LOOK) && !goes_on() {
            break;
        }
        source.tell_losses(&mut study, event.time_ns);
        if !given_back.is_again(&event) && event.action == Action::Issue && wanted.has(&event) {
            match event.class {
                Class::Read => driver[0].add(&event),
                Class::Write => driver[1].add(&event),
                _ => {}
            }
        }
        if requests.is_again(&event) {
            continue;
        }
        joined.see(&event, wanted.request(&event));
        run_sectors = std::iter::from_fn(|| joined.next_run())
            .map(|run| run.sectors())
            .fold(run_sectors, u64::max);
        match wanted.for_study(&event) {
            Some(event) if event.action == Action::Queue => {
                parts(&event, sectors_max).for_each(|part| study.event(&part, source.names()));
            }
            Some(event) => study.event(&event, source.names()),
            None => {
                let every = Wanted { writes: true, ..wanted };
                let arrives = if wanted.of_driver { Action::Issue } else { Action::Queue };
                left_out += u64::from(event.action == arrives || every.request(&event).is_some());
            }
        }
    }
    if source.may_lack_ends() {
        study.had_losses();
    }
    run_sectors =
        std::iter::from_fn(|| joined.rest()).map(|run| run.sectors()).fold(run_sectors, u64::max);
    let run_bytes_max = run_sectors.min(u64::from(run_sectors_max)) * SECTOR_BYTES;
    Ok(Reference { load: study.finish(None), left_out, run_bytes_max, driver })
}

/// How often, in events, it is asked whether to go on.
const LOOK: u64 = 4096;

/// A request that is issued once more, as it was on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// What.
    pub class: Class,
    /// Where, in bytes.
    pub offset_bytes: u64,
    /// How much.
    pub size_bytes: u32,
    /// It has to be on stable storage when it ends, or needs a flush before it.
    pub is_durable: bool,
}

/// A study of what happened to requests that are issued once more.
#[derive(Debug)]
pub struct Replayed {
    study: Study,
    names: Names,
}

impl Replayed {
    /// On a target of that size.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let mut study = Study::new(size_bytes);
        study.begin(0);
        let mut names = Names::default();
        names.number_of("fathom");
        Self { study, names }
    }

    /// A request starts.
    pub fn starts(&mut self, time_ns: u64, issued: &Issued) {
        let event = Event {
            sector: issued.offset_bytes / SECTOR_BYTES,
            sectors: issued.size_bytes / SECTOR_BYTES as u32,
            class: issued.class,
            name: 1,
            flags: if issued.is_durable { Flags::FUA } else { Flags::default() },
            ..Event::new(Action::Queue, time_ns)
        };
        self.study.told_begin(&event, &self.names);
    }

    /// It has ended: with the time at which it should have started, where there is one, that at which it did, and that of its end.
    pub fn ends(
        &mut self,
        (due_ns, start_ns, end_ns): (Option<u64>, u64, u64),
        issued: &Issued,
        has_failed: bool,
    ) {
        self.study.told_end(&Done {
            level: Level::Arrived,
            class: issued.class,
            flags: Flags::default(),
            start_ns: due_ns.unwrap_or(start_ns).min(start_ns),
            issue_ns: due_ns.map(|_| start_ns),
            end_ns,
            sector: issued.offset_bytes / SECTOR_BYTES,
            sectors: issued.size_bytes / SECTOR_BYTES as u32,
            has_failed,
            spans_hole: false,
        });
    }

    /// What it came to.
    #[must_use]
    pub fn finish(self) -> CaptureRecord {
        self.study.finish(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_base::prng::Prng;

    #[test]
    fn places_lie_on_the_target_in_whole_blocks() {
        let mut prng = Prng::new(5, 5);
        for _ in 0..20_000 {
            let block_bytes = [512, 4096][prng.below(2) as usize];
            let from_bytes = (1 + prng.below(1 << 20)) * 512;
            let mapping = [Mapping::Fit, Mapping::Scale, Mapping::Modulo][prng.below(3) as usize];
            let to_bytes = match mapping {
                Mapping::Fit => from_bytes + block_bytes,
                _ => block_bytes + prng.below(1 << 30),
            };
            let map = Map { mapping, from_bytes, to_bytes, block_bytes };
            let sectors = 1 + prng.below(64.min(from_bytes / 512)) as u32;
            let sector = prng.below(from_bytes / 512 - u64::from(sectors) + 1);
            let (offset, size) = map.place(sector, sectors);
            assert!(offset % block_bytes == 0 && size % block_bytes == 0 && size > 0, "{map:?}");
            assert!(offset + size <= to_bytes, "{map:?} {sector} {sectors}: {offset} {size}");
            if mapping == Mapping::Fit && offset + size <= from_bytes / block_bytes * block_bytes {
                assert!(
                    offset <= sector * 512 && offset + size >= (sector + u64::from(sectors)) * 512
                );
            }
        }
    }

    #[test]
    fn parts_are_the_whole_in_order() {
        let flags = Flags::default().with(Flags::PREFLUSH).with(Flags::FUA).with(Flags::SYNC);
        let write = Event {
            sector: 100,
            sectors: 20,
            class: Class::Write,
            flags,
            ..Event::new(Action::Queue, 7)
        };
        let of = |max| parts(&write, max).map(|p| (p.sector, p.sectors)).collect::<Vec<_>>();
        assert_eq!(of(8), [(100, 8), (108, 8), (116, 4)]);
        assert_eq!(of(20), [(100, 20)]);
        let has = |flag| parts(&write, 8).map(|p| p.flags.has(flag)).collect::<Vec<_>>();
        assert_eq!(has(Flags::PREFLUSH), [true, false, false]);
        assert_eq!(has(Flags::FUA), [false, false, true]);
        assert_eq!(has(Flags::SYNC), [true; 3]);
        assert!(parts(&write, 20).eq([write]));
        let flush = Event { class: Class::Flush, sectors: 0, ..write };
        assert!(parts(&flush, 8).eq([flush]));
    }

    #[test]
    fn what_the_driver_got_twice_is_issued_once() {
        let step = |action, time_ns, sector| {
            let class = Class::Read;
            Event { sector, sectors: 8, class, ..Event::new(action, time_ns) }
        };
        use Action::{Complete, Issue, Queue, Requeue};
        // The second one is given back before the driver begins with it.
        let steps = [
            step(Issue, 1, 0),
            step(Requeue, 2, 0),
            step(Requeue, 3, 64),
            step(Issue, 4, 0),
            step(Issue, 5, 64),
            step(Complete, 6, 0),
            step(Complete, 7, 64),
            step(Issue, 8, 0),
            step(Complete, 9, 0),
        ];
        let issued = |of_driver, steps: &[Event]| {
            let mut requests = Requests::of(Wanted { of_driver, writes: true });
            let found = steps.iter().filter_map(|event| requests.request(event));
            found.map(|event| (event.time_ns, event.sector)).collect::<Vec<_>>()
        };
        assert_eq!(issued(true, &steps), [(1, 0), (5, 64), (8, 0)]);
        let arrivals = [&[step(Queue, 0, 0)], &steps[..]].concat();
        assert_eq!(issued(false, &arrivals), [(0, 0)]);
    }

    #[test]
    fn latency_counts_from_the_due_time_and_depth_from_the_start() {
        let mut replayed = Replayed::new(1 << 20);
        let issued =
            Issued { class: Class::Read, offset_bytes: 8192, size_bytes: 4096, is_durable: false };
        for number in 0..3u64 {
            let (start, end) = (number * 1_000_000, number * 1_000_000 + 400_000);
            replayed.starts(start, &issued);
            replayed.ends((Some(0), start, end), &issued, false);
        }
        let record = replayed.finish();
        let read = record.class("read").expect("reads");
        assert_eq!((read.count, read.bytes), (3, 3 * 4096));
        let max = |h: &fathom_stats::Histogram| h.max();
        assert_eq!(max(&read.total_ns), Some(2_400_000));
        assert_eq!((max(&read.wait_ns), max(&read.service_ns)), (Some(2_000_000), Some(400_000)));
        assert_eq!(record.depth_ns, [1_200_000, 1_200_000]);
    }

    #[test]
    fn what_follows_each_other_does_so_on_another_size() {
        let map = Map {
            mapping: Mapping::Scale,
            from_bytes: 1 << 30,
            to_bytes: 3 << 30,
            block_bytes: 512,
        };
        for sector in (0..2048).step_by(8) {
            assert_eq!(map.place(4096 + sector, 8).0, map.place(4096, 8).0 + sector * 512);
        }
    }
}
