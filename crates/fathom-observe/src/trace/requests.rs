//! The requests of a trace, to be issued once more: which, when, and where on a target of another size.

use super::event::{Action, Class, Event, Names, SECTOR_BYTES};
use super::file::TraceError;
use super::open::Source;
use super::study::Study;
use fathom_model::capture::CaptureRecord;
use std::path::Path;

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
    /// The event as an arrival; none when it is no request that is issued once more.
    #[must_use]
    pub fn request(&self, event: &Event) -> Option<Event> {
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

/// What the requests that are to be issued look like as a load, and how many are left out.
///
/// # Errors
/// [`TraceError`] for a file that is none.
pub fn reference(path: &Path, wanted: Wanted) -> Result<(CaptureRecord, u64), TraceError> {
    let mut source = Source::open(path)?;
    let mut study = Study::new(source.head().size_bytes);
    let mut left_out = 0;
    while let Some(event) = source.next_event()? {
        match wanted.for_study(&event) {
            Some(event) => study.event(&event, source.names()),
            None => {
                let every = Wanted { writes: true, ..wanted };
                let arrives = if wanted.of_driver { Action::Issue } else { Action::Queue };
                left_out += u64::from(event.action == arrives || every.request(&event).is_some());
            }
        }
    }
    Ok((study.finish(None), left_out))
}

/// A study of what happened to requests that are issued once more.
#[derive(Debug)]
pub struct Replayed {
    study: Study,
    names: Names,
}

impl Replayed {
    /// Places are told in those of the trace, on a device of that size.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let mut study = Study::new(size_bytes);
        study.begin(0);
        let mut names = Names::default();
        names.number_of("fathom");
        Self { study, names }
    }

    /// A request starts, or has ended.
    pub fn step(
        &mut self,
        time_ns: u64,
        class: Class,
        (sector, sectors): (u64, u32),
        ended: Option<i32>,
    ) {
        let action = if ended.is_some() { Action::BioComplete } else { Action::Queue };
        let event = Event {
            sector,
            sectors,
            class,
            name: 1,
            error: ended.map_or(0, |errno| -errno),
            ..Event::new(action, time_ns)
        };
        self.study.event(&event, &self.names);
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
