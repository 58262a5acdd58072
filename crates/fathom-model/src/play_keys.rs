//! The keys of personalities, as the command line and workload files have them, and the files themselves.

use crate::fsop::{FsopPhase, FsopSpec};
use crate::fsop_keys::{FsopKey, key, unknown};
use crate::pace_keys;
use crate::play::{PlayAct, PlaySpec, PlaySync, Sizes};
use crate::workload::{Arrivals, Workload};
use fathom_base::suggest;
use fathom_base::units::{format_size, parse_count, parse_size};

/// All keys, in the order in which help shows them.
pub const KEYS: &[FsopKey] = &[
    key("clients", "1 to 1000", "processes that work side by side, each with files of its own"),
    key("writers", "N", "of the clients, the first N choose from writer_mix"),
    key("mix", "read:10,log:1", "transactions with their weights"),
    key("writer_mix", "record:1", "those of writers"),
    key(
        "files",
        "N",
        "files that there are when the measurement begins, of all clients together; entries= is the same",
    ),
    key(
        "dirs",
        "0 to 1000",
        "directories over which each client's files are spread; 0: all lie in one",
    ),
    key("shared", "yes, no", "whether all clients work in one directory"),
    key(
        "sizes",
        "4k, 500..10000, 4k:26k:16M",
        "sizes of files: one, between two with equal chances, or log-normal with median, mean and most",
    ),
    key("append_size", "as sizes", "sizes of what append and log write"),
    key("log_size_max", "64M", "a log that is so long begins anew"),
    key("trees", "1 to 100", "trees of each client, for tree-..."),
    key("tree_dirs", "1 to 10000", "directories of a tree"),
    key("tree_files", "1 to 10000", "sources in each of them"),
    key(
        "sync",
        "none, file, data, dir, fs, fs-one, reverse, fs-reverse, after, fs-after, or 0 to 6",
        "what is brought to stable storage: nothing; each file before it is closed (fsync, fdatasync, with its directory); the \
         filesystem after a batch; the files of a batch afterwards. 0 to 6 are those of fs_mark",
    ),
    key("batch", "1 to 10000", "files of one delivery"),
    key(
        "block_size",
        "64k",
        "most bytes of one read or write, a multiple of 512; what stream and record move at once",
    ),
    key(
        "rate",
        "N",
        "transactions per second of all clients together, whether earlier ones have ended or not (open loop)",
    ),
    key("arrivals", "even, poisson", "how the transactions of rate= follow each other"),
    key("window", "30s", "how long it is measured"),
    key("warmup", "10s", "how long clients run before"),
    key(
        "drop_caches",
        "yes, no",
        "whether the machine's caches are dropped when the files are made",
    ),
    key(
        "verify",
        "yes, no",
        "whether all files that clients have at the end are read back and compared, names and bytes",
    ),
    key("points", "20000", "operations kept for pictures, at most 1000000"),
    key("stall", "1s", "operations of this length and above are listed as stalls"),
];

/// The built-in personalities, in the order of lists.
const FILES: &[&str] = &[
    include_str!("../workloads/mail.toml"),
    include_str!("../workloads/postmark.toml"),
    include_str!("../workloads/metadata-storm.toml"),
    include_str!("../workloads/webserver.toml"),
    include_str!("../workloads/fileserver.toml"),
    include_str!("../workloads/video.toml"),
    include_str!("../workloads/build-tree.toml"),
];

/// A personality: what lists say of it, and its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Personality {
    /// Its name, title and description; it has no jobs.
    pub workload: Workload,
    /// What it does, with the settings of its file.
    pub spec: FsopSpec,
}

/// Another name of `files`, for those who count what is in a directory.
pub const ENTRIES: &str = "entries";

/// All that are built in.
#[must_use]
pub fn all() -> Vec<Personality> {
    FILES.iter().filter_map(|text| parse(text).ok()?).collect()
}

/// The built-in one of that name.
#[must_use]
pub fn named(name: &str) -> Option<Personality> {
    all().into_iter().find(|one| one.workload.name == name)
}

/// Reads a workload file; none when it has no `[play]` and is one of another kind.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Option<Personality>, String> {
    // What is no TOML is said where other workload files are read.
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(None) };
    let Some(play) = table.get("play") else { return Ok(None) };
    let Some(play) = play.as_table() else { return Err("[play] must be a table".into()) };
    let word = |key: &str| match table.get(key) {
        None => Ok(String::new()),
        Some(toml::Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("{key} = {other} is no text; put it into quotation marks")),
    };
    let known = ["name", "title", "description", "play"];
    if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unexpected '{key}' beside [play]{}", suggest::hint(key, known)));
    }
    let workload = Workload {
        name: word("name")?,
        title: word("title")?,
        description: word("description")?,
        classic: None,
        jobs: Vec::new(),
        tracked: Vec::new(),
    };
    if workload.name.is_empty() {
        return Err("needs a name".into());
    }
    let text_of = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::String(text) => Ok((key.clone(), text.clone())),
        toml::Value::Integer(_) | toml::Value::Float(_) => Ok((key.clone(), value.to_string())),
        toml::Value::Boolean(yes) => Ok((key.clone(), if *yes { "yes" } else { "no" }.to_owned())),
        _ => Err(format!("'{key}' takes a string or a number")),
    };
    let settings = play.iter().map(text_of).collect::<Result<Vec<_>, _>>()?;
    let mut personality = Personality { spec: start(&workload), workload };
    personality.set(&settings)?;
    Ok(Some(personality))
}

fn start(workload: &Workload) -> FsopSpec {
    let (name, title) = (workload.name.clone(), workload.title.clone());
    let play = PlaySpec { name, title, ..PlaySpec::default() };
    FsopSpec { warmup_ns: 10_000_000_000, play: Some(Box::new(play)), ..FsopSpec::default() }
}

impl Personality {
    /// Applies settings, each at most once, and looks whether they make sense together.
    ///
    /// # Errors
    /// The key, the value, and what it may be.
    pub fn set(&mut self, settings: &[(String, String)]) -> Result<(), String> {
        let canonical =
            |key: &str| if key == ENTRIES { "files".to_owned() } else { key.to_owned() };
        for (index, (key, value)) in settings.iter().enumerate() {
            if settings[..index].iter().any(|(earlier, _)| canonical(earlier) == canonical(key)) {
                return Err(format!("{key} is set twice"));
            }
            set(&mut self.spec, &canonical(key), value)
                .map_err(|reason| format!("{key}={value}: {reason}"))?;
        }
        self.spec.check_times()?;
        let Some(play) = &self.spec.play else { return Ok(()) };
        let run_ns = self.spec.warmup_ns.saturating_add(self.spec.window_ns);
        let even_rate = play.rate.filter(|_| play.arrivals == Arrivals::Even);
        let slow = |rate: f64| pace_keys::no_second("rate", 1.0 / rate, Some(run_ns));
        if let Some(reason) = even_rate.and_then(slow) {
            return Err(reason);
        }
        let phase = FsopPhase { readers: 0, writers: 0, clients: play.clients };
        self.spec.phases = vec![phase];
        check(play)
    }
}

/// Better words for keys that clients do not have.
const INSTEAD: &[(&str, &str)] = &[
    ("threads", "clients= says how many there are"),
    ("readers", "clients= says how many there are, mix= what they do"),
    ("size", "sizes= are those of the files, files= says how many there are"),
];

fn set(spec: &mut FsopSpec, key: &str, value: &str) -> Result<(), String> {
    let count = |least: u64, most: u64| {
        let count = parse_count(value).map_err(|error| error.to_string())?;
        let fits = (least..=most).contains(&count);
        fits.then_some(count).ok_or_else(|| format!("from {least} to {most}"))
    };
    let small = |least: u64, most: u64| count(least, most).map(|count| count as u32);
    let of_both = ["window", "warmup", "block_size", "drop_caches", "points", "stall", "verify"];
    if of_both.contains(&key) {
        return spec.set(key, value);
    }
    let play = spec.play.get_or_insert_default();
    match key {
        "clients" => play.clients = small(1, 1_000)?,
        "writers" => play.writers = small(0, 1_000)?,
        "mix" => play.mix = mix(value)?,
        "writer_mix" => play.writer_mix = mix(value)?,
        "files" => play.files = count(0, 10_000_000)?,
        "dirs" => play.dirs = small(0, 1_000)?,
        "shared" => play.shared = word(value, &[("yes", true), ("no", false)])?,
        "sizes" => play.sizes = sizes(value)?,
        "append_size" => play.append_sizes = sizes(value)?,
        "log_size_max" => {
            let bytes = parse_size(value).map_err(|error| error.to_string())?;
            let fits = (4_096..=1 << 40).contains(&bytes);
            play.log_bytes_max = fits.then_some(bytes).ok_or("from 4k to 1T")?;
        }
        "trees" => play.trees = small(1, 100)?,
        "tree_dirs" => play.tree_dirs = small(1, 10_000)?,
        "tree_files" => play.tree_files = small(1, 10_000)?,
        "sync" => play.sync = sync(value)?,
        "batch" => play.batch = small(1, 10_000)?,
        "rate" => {
            let rate: f64 = value.trim().parse().map_err(|_| "a number per second".to_owned())?;
            let fits = (0.001..=1e6).contains(&rate);
            play.rate = Some(fits.then_some(rate).ok_or("from 0.001 to 1000000 per second")?);
        }
        "arrivals" => {
            let known = [Arrivals::Even, Arrivals::Poisson].map(|one| (one.word(), one));
            play.arrivals = word(value, &known)?;
        }
        _ => return Err(unknown(key, KEYS, INSTEAD)),
    }
    Ok(())
}

fn sync(value: &str) -> Result<PlaySync, String> {
    let numbers = PlaySync::ALL.iter().filter_map(|(sync, _, number)| Some(((*number)?, *sync)));
    let words = PlaySync::ALL.iter().map(|(sync, word, _)| (*word, *sync));
    word(value, &words.chain(numbers).collect::<Vec<_>>())
}

/// `read:10,log:1`.
fn mix(value: &str) -> Result<Vec<(PlayAct, u32)>, String> {
    let known: Vec<(&str, PlayAct)> =
        PlayAct::ALL.iter().map(|(act, word, _)| (*word, *act)).collect();
    let mut mix: Vec<(PlayAct, u32)> = Vec::new();
    for part in value.split(',') {
        let (name, weight) = part.trim().split_once(':').unwrap_or((part.trim(), "1"));
        let act = word(name, &known)?;
        let weight = parse_count(weight).map_err(|error| error.to_string())?;
        if weight > 1_000_000 {
            return Err(format!("{part}: weights are at most 1000000"));
        }
        if mix.iter().any(|(known, _)| *known == act) {
            return Err(format!("{name} is there twice"));
        }
        mix.push((act, weight as u32));
    }
    let any = mix.iter().any(|(_, weight)| *weight > 0);
    if any { Ok(mix) } else { Err("one weight must be above 0".into()) }
}

/// `4k`, `500..10000`, `4k:26k:16M`.
fn sizes(value: &str) -> Result<Sizes, String> {
    const MAX: u64 = 1 << 40;
    let size = |text: &str| parse_size(text.trim()).map_err(|error| error.to_string());
    let sizes = if let Some((min, max)) = value.split_once("..") {
        Sizes::Uniform { min: size(min)?, max: size(max)? }
    } else {
        match value.split(':').collect::<Vec<_>>()[..] {
            [one] => Sizes::Uniform { min: size(one)?, max: size(one)? },
            [median, mean, max] => {
                Sizes::LogNormal { median: size(median)?, mean: size(mean)?, max: size(max)? }
            }
            _ => return Err("one size, MIN..MAX, or MEDIAN:MEAN:MAX".into()),
        }
    };
    let is_ordered = match sizes {
        Sizes::Uniform { min, max } => min <= max,
        Sizes::LogNormal { median, mean, max } => median > 0 && median <= mean && mean <= max,
    };
    if !is_ordered || sizes.max() > MAX {
        return Err(format!("each at most the next, the last at most {}", format_size(MAX)));
    }
    Ok(sizes)
}

fn check(play: &PlaySpec) -> Result<(), String> {
    if play.writers > play.clients {
        return Err(format!("writers={}: of clients={} only", play.writers, play.clients));
    }
    if play.writers < play.clients && play.mix.is_empty() {
        return Err("mix says which transactions clients make; it is missing".into());
    }
    if play.writers > 0 && play.writer_mix.is_empty() {
        return Err("writer_mix says which transactions writers make; it is missing".into());
    }
    let has = |wanted: fn(PlayAct) -> bool| play.acts().any(wanted);
    if play.shared && (play.dirs > 0 || has(PlayAct::is_on_trees)) {
        return Err("shared=yes is one directory for all: leave dirs= and tree-... out".into());
    }
    if play.sync.is_after_files() && !has(|act| act == PlayAct::Deliver) {
        let word = play.sync.word();
        return Err(format!("sync={word} is about the files of a delivery; mix has no deliver"));
    }
    if play.sync == PlaySync::Fs && !has(|act| act == PlayAct::Deliver || act.is_on_trees()) {
        return Err(
            "sync=fs comes after a delivery or a transaction on a tree; mix has neither".into()
        );
    }
    if play.batch > 1 && !has(|act| act == PlayAct::Deliver) {
        return Err("batch is about deliveries; mix has no deliver".into());
    }
    if has(|act| matches!(act, PlayAct::Stream | PlayAct::Record)) && play.files_each() == 0 {
        return Err("files=0: stream and record need large files".into());
    }
    if play.arrivals == Arrivals::Poisson && play.rate.is_none() {
        return Err(
            "arrivals=poisson is about the transactions of an open loop; give their rate=".into()
        );
    }
    if has(|act| matches!(act, PlayAct::Append | PlayAct::Log)) && play.append_sizes.max() == 0 {
        return Err("append_size=0: nothing would be written".into());
    }
    Ok(())
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

    fn personality(name: &str, pairs: &[(&str, &str)]) -> Result<PlaySpec, String> {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let mut personality = named(name).expect("built in");
        personality.set(&pairs.iter().map(own).collect::<Vec<_>>())?;
        Ok(*personality.spec.play.expect("one"))
    }

    #[test]
    fn every_built_in_file_is_valid_and_says_what_it_is() {
        assert_eq!(all().len(), FILES.len());
        for one in all() {
            let play = one.spec.play.as_ref().expect("one");
            assert_eq!(play.name, one.workload.name);
            assert!(one.workload.title.len() > 10 && one.workload.description.len() > 40);
            assert_eq!(one.spec.phases.len(), 1);
            assert_eq!(one.spec.phases[0].clients, play.clients);
            assert!(play.acts().count() > 0 && play.room().1 > 0, "{}", play.name);
            assert!(crate::builtin::named(&play.name).is_err(), "the name is not taken");
        }
    }

    #[test]
    fn settings_are_read_and_stay_within_bounds() {
        let play = personality("mail", &[("sync", "4"), ("batch", "7"), ("clients", "3")]);
        let play = play.expect("valid");
        assert_eq!((play.sync, play.batch, play.clients), (PlaySync::FsReverse, 7, 3));
        let play = personality("postmark", &[("mix", "read:3,create"), ("sizes", "1k..2k")]);
        let play = play.expect("valid");
        assert_eq!(play.mix, [(PlayAct::Read, 3), (PlayAct::Create, 1)]);
        assert_eq!(play.sizes, Sizes::Uniform { min: 1024, max: 2048 });
        let storm = personality("metadata-storm", &[("entries", "1000000")]).expect("valid");
        assert_eq!(storm.files, 1_000_000);
        let sizes = Sizes::LogNormal { median: 4096, mean: 26 << 10, max: 16 << 20 };
        assert_eq!(super::sizes("4k:26k:16M"), Ok(sizes));
        let rate = personality("mail", &[("rate", "2000"), ("arrivals", "poisson")]);
        assert_eq!(rate.expect("valid").rate, Some(2000.0));
        assert!(personality("mail", &[("rate", "0.03"), ("warmup", "30s")]).is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_cure() {
        for (name, pairs, part) in [
            ("mail", &[("mix", "deliverr")][..], "did you mean 'deliver'?"),
            ("mail", &[("mix", "deliver:0")], "one weight must be above 0"),
            ("mail", &[("mix", "read,read")], "read is there twice"),
            ("mail", &[("sync", "7")], "one of none, file"),
            ("mail", &[("writers", "1")], "writer_mix says"),
            ("mail", &[("writers", "2000")], "from 0 to 1000"),
            ("mail", &[("sizes", "9k..1k")], "each at most the next"),
            ("mail", &[("sizes", "1k:2k")], "MEDIAN:MEAN:MAX"),
            ("mail", &[("rate", "0")], "per second"),
            ("mail", &[("rate", "0.001")], "in a run of 40 s no second one would start"),
            ("mail", &[("arrivals", "poisson")], "give their rate="),
            ("mail", &[("duration", "5s")], "no such key; window= says how long"),
            ("mail", &[("threads", "5")], "clients= says how many"),
            ("mail", &[("file", "1")], "no such key; did you mean 'files'?"),
            ("mail", &[("files", "1"), ("entries", "2")], "entries is set twice"),
            ("postmark", &[("sync", "reverse")], "mix has no deliver"),
            ("fileserver", &[("sync", "fs")], "mix has neither"),
            ("metadata-storm", &[("dirs", "3")], "leave dirs="),
            ("mail", &[("block_size", "1000")], "multiple of 512"),
            ("mail", &[("window", "1ms")], "from 100ms to 24h"),
        ] {
            let error = personality(name, pairs).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn files_of_people_are_read_the_same_way() {
        let text = "name='own'\ntitle='t'\n[play]\nmix='stat:1'\nfiles=10\nshared=true\nclients=2";
        let own = parse(text).expect("valid").expect("one");
        let play = own.spec.play.expect("one");
        assert!(play.shared && play.files_each() == 5);
        assert_eq!(parse("name='x'\n[[job]]\noperations=1"), Ok(None));
        for (text, part) in [
            ("[play]\nmix='stat'", "needs a name"),
            ("name='x'\n[play]\nmix=[1]", "takes a string or a number"),
            ("name='x'\njob=1\n[play]\nmix='stat'", "unexpected 'job' beside [play]"),
            ("name='x'\n[play]\nfiles=1", "mix says which"),
        ] {
            let error = parse(text).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
