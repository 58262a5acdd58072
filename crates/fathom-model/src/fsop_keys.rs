//! The keys of file-server workloads, as the command line and workload files have them.

use crate::fsop::{FsopPhase, FsopSpec, SyncMode, WalkOrder};
use fathom_base::suggest;
use fathom_base::units::{
    format_duration, format_size, parse_count, parse_duration_ns, parse_size,
};

/// One key, for help.
#[derive(Debug, Clone, Copy)]
pub struct FsopKey {
    /// Its name.
    pub name: &'static str,
    /// What values look like.
    pub values: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// All keys, in the order in which help shows them.
pub const KEYS: &[FsopKey] = &[
    key("readers", "3", "processes that walk the tree, in the second phase and the third"),
    key("writers", "3", "processes that make trees, in the third phase"),
    key(
        "phases",
        "1r,3r,3r+3w",
        "all phases, instead of readers and writers; readers go on where only writers are added",
    ),
    key("window", "30s", "how long each phase is measured"),
    key("warmup", "30s", "how long writers run before the window of their phase"),
    key("walk", "breadth, depth", "the order in which readers walk; writers fill level by level"),
    key(
        "sync",
        "none, file, data, dir",
        "what writers sync before closing a file: nothing, fsync, fdatasync, fsync of file and directory",
    ),
    key("block_size", "64k", "most bytes of one read or write behind the first byte"),
    key("file_size_median", "4k", "half of the files that writers make are smaller"),
    key("file_size_mean", "26k", "their mean size; sizes are log-normal"),
    key("file_size_max", "16M", "none of them is larger"),
    key("directories", "3", "directories that writers make in each directory"),
    key("files", "11", "files that writers make in each directory"),
    key(
        "drop_caches",
        "yes, no",
        "whether the machine's caches are dropped before a phase that begins anew",
    ),
    key("points", "20000", "operations kept of each phase for pictures, at most 1000000"),
    key("stall", "1s", "operations of this length and above are listed as stalls"),
    key(
        "verify",
        "no, yes",
        "whether all that writers made is read back afterwards, and compared byte by byte",
    ),
];

pub(crate) const fn key(name: &'static str, values: &'static str, help: &'static str) -> FsopKey {
    FsopKey { name, values, help }
}

/// Keys of workloads that issue single requests, with what stands for them where files are opened, read and made.
const OF_REQUESTS: &[(&str, &str)] = &[
    ("duration", "window= says how long it is measured"),
    ("operations", "window= says how long it is measured"),
    ("time", "window= says how long it is measured"),
    ("ramp", "warmup= is what runs before the window"),
    (
        "depth",
        "each process does one operation at a time, as a process of a server does; take more processes",
    ),
    (
        "direct",
        "files are opened as servers open them, through the page cache; drop_caches=yes empties it before",
    ),
    ("engine", "the operations are single system calls: open, read, write, fsync, mkdir"),
];

/// What to say of a key that there is not. `beside` knows better words for some.
pub(crate) fn unknown(key: &str, known: &[FsopKey], beside: &[(&str, &str)]) -> String {
    let names = || known.iter().map(|key| key.name);
    let hint = match beside.iter().chain(OF_REQUESTS).find(|(other, _)| *other == key) {
        Some((_, instead)) => format!("; {instead}"),
        None => suggest::hint(key, names()),
    };
    format!("no such key{hint}; there are {}", names().collect::<Vec<_>>().join(", "))
}

/// Better words for keys that readers and writers do not have.
const INSTEAD: &[(&str, &str)] = &[
    ("threads", "readers= and writers= say how many there are"),
    ("clients", "readers= and writers= say how many there are"),
    (
        "rate",
        "readers and writers go as fast as they can; clients have a rate: fathom run fileserver DIR rate=200",
    ),
    (
        "size",
        "the tree that is read has its size when it is built: fathom tree build DIR size=20G; what writers make: file_size_mean=",
    ),
    (
        "sizes",
        "file_size_median=, file_size_mean= and file_size_max= are those of what writers make",
    ),
];

/// Processes of one role in one phase at the most.
const PROCESSES_MAX: u32 = 1_000;
/// Phases at the most.
const PHASES_MAX: usize = 50;

impl FsopSpec {
    /// The default with settings; each may be given once.
    ///
    /// # Errors
    /// The key, the value, and what it may be.
    pub fn with(settings: &[(String, String)]) -> Result<Self, String> {
        let mut spec = Self::default();
        let (mut readers, mut writers, mut phases) = (None, None, None);
        for (index, (key, value)) in settings.iter().enumerate() {
            if settings[..index].iter().any(|(earlier, _)| earlier == key) {
                return Err(format!("{key} is set twice"));
            }
            let fault = |reason: String| format!("{key}={value}: {reason}");
            match key.as_str() {
                "readers" => readers = Some(processes(value).map_err(fault)?),
                "writers" => writers = Some(processes(value).map_err(fault)?),
                "phases" => phases = Some(phases_of(value).map_err(fault)?),
                _ => spec.set(key, value).map_err(fault)?,
            }
        }
        spec.phases = match phases {
            Some(_) if readers.is_some() || writers.is_some() => {
                return Err("phases says how many readers and writers there are; leave readers and writers out".into());
            }
            Some(phases) => phases,
            None => classic_phases(readers.unwrap_or(3), writers.unwrap_or(3)),
        };
        spec.check()?;
        Ok(spec)
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let size = || parse_size(value).map_err(|error| error.to_string());
        let time = || parse_duration_ns(value).map_err(|error| error.to_string());
        let count = |least: u64, most: u64| {
            let count = parse_count(value).map_err(|error| error.to_string())?;
            let fits = (least..=most).contains(&count);
            fits.then_some(count as u32).ok_or_else(|| format!("from {least} to {most}"))
        };
        match key {
            "window" => self.window_ns = time()?,
            "warmup" => self.warmup_ns = time()?,
            "walk" => {
                self.walk =
                    word(value, &[("breadth", WalkOrder::Breadth), ("depth", WalkOrder::Depth)])?
            }
            "sync" => self.sync = word(value, &SyncMode::ALL.map(|mode| (mode.word(), mode)))?,
            "block_size" => {
                let bytes = size()?;
                let fits = (512..=64 << 20).contains(&bytes) && bytes.is_multiple_of(512);
                self.block_bytes = if fits {
                    bytes as u32
                } else {
                    return Err("a multiple of 512 from 512 to 64M".into());
                };
            }
            "file_size_median" => self.size_bytes_median = size()?,
            "file_size_mean" => self.size_bytes_mean = size()?,
            "file_size_max" => self.size_bytes_max = size()?,
            "directories" => self.directories = count(1, 100_000)?,
            "files" => self.files = count(0, 1_000_000)?,
            "drop_caches" => self.drop_caches = word(value, &[("yes", true), ("no", false)])?,
            "points" => self.points = count(0, 1_000_000)?,
            "stall" => self.stall_ns = time()?,
            "verify" => self.verify = word(value, &[("yes", true), ("no", false)])?,
            _ => return Err(unknown(key, KEYS, INSTEAD)),
        }
        Ok(())
    }

    /// Looks whether window and warm-up can be.
    pub(crate) fn check_times(&self) -> Result<(), String> {
        const WINDOW_NS: std::ops::RangeInclusive<u64> = 100_000_000..=86_400_000_000_000;
        if !WINDOW_NS.contains(&self.window_ns) {
            return Err(format!("window={}: from 100ms to 24h", format_duration(self.window_ns)));
        }
        if self.warmup_ns > *WINDOW_NS.end() {
            return Err(format!("warmup={}: up to 24h", format_duration(self.warmup_ns)));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        self.check_times()?;
        if self.verify && self.phases.iter().all(|phase| phase.writers == 0) {
            return Err("verify=yes: it is about what writers make, and no phase has any; add one: phases=3r,3r+3w".into());
        }
        let [median, mean, max] =
            [self.size_bytes_median, self.size_bytes_mean, self.size_bytes_max];
        if median == 0 || mean < median || max < mean || max > 1 << 30 {
            return Err(format!(
                "file_size_median={}, file_size_mean={}, file_size_max={}: each at most the next, the last at most 1 GiB",
                format_size(median),
                format_size(mean),
                format_size(max)
            ));
        }
        Ok(())
    }

    /// The phases that begin anew, each with those whose readers go on from it: numbers of phases.
    #[must_use]
    pub fn sessions(&self) -> Vec<Vec<usize>> {
        let mut sessions: Vec<Vec<usize>> = Vec::new();
        for (number, phase) in self.phases.iter().enumerate() {
            let goes_on = number.checked_sub(1).is_some_and(|before| {
                let before = self.phases[before];
                before.readers > 0
                    && before.readers == phase.readers
                    && before.writers < phase.writers
            });
            match sessions.last_mut().filter(|_| goes_on) {
                Some(session) => session.push(number),
                None => sessions.push(vec![number]),
            }
        }
        sessions
    }

    /// How long one repeat takes, without preparations.
    #[must_use]
    pub fn planned_ns(&self) -> u64 {
        let one = |phase: &FsopPhase| {
            self.window_ns + if phase.readers_alone() { 0 } else { self.warmup_ns }
        };
        self.phases.iter().map(one).fold(0, u64::saturating_add)
    }
}

/// One reader, all readers, all readers and writers; what is 0 or the same is left out.
fn classic_phases(readers: u32, writers: u32) -> Vec<FsopPhase> {
    let all = [(readers.min(1), 0), (readers, 0), (readers, writers)];
    let mut phases: Vec<FsopPhase> = Vec::new();
    for (readers, writers) in all {
        let phase = FsopPhase { readers, writers, clients: 0 };
        if readers + writers > 0 && phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    phases
}

fn processes(text: &str) -> Result<u32, String> {
    let count = parse_count(text).map_err(|error| error.to_string())?;
    let fits = count <= u64::from(PROCESSES_MAX);
    fits.then_some(count as u32).ok_or_else(|| format!("at most {PROCESSES_MAX}"))
}

/// `1r,3r,3r+3w`.
fn phases_of(text: &str) -> Result<Vec<FsopPhase>, String> {
    let phases = text.split(',').map(phase_of).collect::<Result<Vec<_>, _>>()?;
    if phases.len() > PHASES_MAX { Err(format!("at most {PHASES_MAX} phases")) } else { Ok(phases) }
}

fn phase_of(text: &str) -> Result<FsopPhase, String> {
    let shape = || {
        format!(
            "'{text}' is no phase; write 3r for three readers, 3r+2w for two writers beside them"
        )
    };
    let mut phase = FsopPhase { readers: 0, writers: 0, clients: 0 };
    for part in text.trim().split('+') {
        let (place, digits) = match (part.strip_suffix('r'), part.strip_suffix('w')) {
            (Some(digits), _) => (&mut phase.readers, digits),
            (_, Some(digits)) => (&mut phase.writers, digits),
            _ => return Err(shape()),
        };
        if *place > 0 {
            return Err(shape());
        }
        *place = processes(digits).map_err(|reason| format!("{}: {reason}", shape()))?;
    }
    if phase.readers + phase.writers == 0 { Err(shape()) } else { Ok(phase) }
}

fn word<T: Copy>(value: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(word, _)| *word == value).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let all: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        format!("one of {}{}", all.join(", "), suggest::hint(value, all.iter().copied()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<FsopSpec, String> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        FsopSpec::with(&pairs.iter().map(own).collect::<Vec<_>>())
    }

    fn phases(pairs: &[(&str, &str)]) -> Vec<(u32, u32)> {
        let spec = with(pairs).expect("valid");
        spec.phases.iter().map(|phase| (phase.readers, phase.writers)).collect()
    }

    #[test]
    fn phases_of_the_original_with_other_numbers() {
        assert_eq!(phases(&[]), [(1, 0), (3, 0), (3, 3)]);
        assert_eq!(phases(&[("readers", "8"), ("writers", "2")]), [(1, 0), (8, 0), (8, 2)]);
        assert_eq!(phases(&[("readers", "1")]), [(1, 0), (1, 3)]);
        assert_eq!(phases(&[("writers", "0")]), [(1, 0), (3, 0)]);
        assert_eq!(phases(&[("readers", "0")]), [(0, 3)]);
        assert_eq!(phases(&[("phases", "2w,5r+1w,1r")]), [(0, 2), (5, 1), (1, 0)]);
    }

    #[test]
    fn readers_go_on_where_only_writers_are_added() {
        let sessions = |text| with(&[("phases", text)]).expect("valid").sessions();
        assert_eq!(sessions("1r,3r,3r+3w"), [vec![0], vec![1, 2]]);
        assert_eq!(sessions("3r,3r+1w,3r+2w,3r"), [vec![0, 1, 2], vec![3]]);
        assert_eq!(sessions("2w,3w"), [vec![0], vec![1]]);
        let spec = with(&[("window", "2s"), ("warmup", "5s")]).expect("valid");
        assert_eq!(spec.planned_ns(), 11_000_000_000);
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_cure() {
        for (pairs, part) in [
            (&[("phases", "3x")][..], "'3x' is no phase; write 3r"),
            (&[("phases", "0r")], "is no phase"),
            (&[("phases", "1r+1r")], "is no phase"),
            (&[("phases", "1r"), ("readers", "2")], "leave readers and writers out"),
            (&[("window", "1s"), ("window", "2s")], "window is set twice"),
            (&[("window", "1ms")], "from 100ms to 24h"),
            (&[("sync", "files")], "one of none, file, data, dir; did you mean 'file'?"),
            (&[("windows", "1s")], "no such key; did you mean 'window'?"),
            (&[("duration", "1s")], "no such key; window= says how long"),
            (&[("rate", "5")], "fathom run fileserver DIR rate=200; there are readers"),
            (&[("file_size_mean", "1k")], "each at most the next"),
            (&[("points", "2000000")], "from 0 to 1000000"),
            (&[("block_size", "1000")], "a multiple of 512"),
            (&[("readers", "1001")], "at most 1000"),
            (&[("phases", "2r"), ("verify", "yes")], "no phase has any"),
            (&[("verify", "content")], "one of yes, no"),
        ] {
            let error = with(pairs).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_key_is_known_to_the_settings_and_takes_its_default() {
        for key in KEYS {
            let value = key.values.split(", ").next().unwrap_or_default();
            let spec = with(&[(key.name, value)]);
            assert_eq!(spec, Ok(FsopSpec::default()), "{}={value}", key.name);
        }
    }
}
