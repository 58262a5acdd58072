//! Where requests go and how they mix: distributions, cursors, several files, sizes; the words for them, and which of
//! them exclude each other.

use crate::workload::{Access, EngineKind, Job, SyncRule, WeightedSize};
use fathom_base::distribution::{DistributionError, Normal, Pareto, Zone, Zones};
use fathom_base::units;
use fathom_base::zipf::Zipf;
use serde::{Deserialize, Serialize};

/// Where random I/O goes when it does not go everywhere alike.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Everywhere alike.
    #[default]
    Uniform,
    /// The place of rank k is chosen with a probability proportional to `k^-exponent`; hot places are scattered.
    Zipf(f64),
    /// Share 1 - h of the I/O goes to share h of the places, and so again inside; hot places are scattered.
    Pareto(f64),
    /// Around the middle, with this standard deviation in percent of the range.
    Normal(f64),
    /// Adjacent zones from the start of the range on.
    Zones(Vec<ZoneShare>),
}

/// One zone: which share of the I/O goes to which share of the space.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ZoneShare {
    /// Share of the I/O in percent.
    pub io_percent: f64,
    /// Share of the space in percent.
    pub space_percent: f64,
}

/// Who shares one position in the order of offsets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// Nobody: each thread has its own part of the range.
    #[default]
    Thread,
    /// All threads of the job.
    Job,
    /// All jobs of the workload on the same target.
    Workload,
}

/// How the kinds of requests follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mix {
    /// Each by chance.
    #[default]
    Random,
    /// Reads and writes in a fixed pattern on each thread.
    Interleave,
}

/// Which of several files comes next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChoice {
    /// One after the other, with each request.
    #[default]
    RoundRobin,
    /// By chance.
    Random,
    /// One after the other, each to its end.
    Sequential,
    /// There are as many files as threads, and each thread keeps to its own.
    Thread,
}

/// The words of [`Access`].
pub(crate) const ACCESS_WORDS: [(&str, Access); 10] = [
    ("random", Access::Random),
    ("shuffled", Access::Shuffled),
    ("sequential", Access::Sequential),
    ("reverse", Access::Reverse),
    ("strided", Access::Strided),
    ("sweep", Access::Sweep),
    ("append", Access::Append),
    ("replication", Access::Replication),
    ("randomio", Access::Randomio),
    ("iozone", Access::Iozone),
];

impl Access {
    /// The word that people use.
    #[must_use]
    pub fn word(self) -> &'static str {
        ACCESS_WORDS.iter().find(|(_, access)| *access == self).map_or("", |(word, _)| word)
    }

    /// True when a position moves through the range, which threads can share.
    #[must_use]
    pub fn has_cursor(self) -> bool {
        matches!(
            self,
            Self::Sequential | Self::Reverse | Self::Strided | Self::Sweep | Self::Iozone
        )
    }
}

impl Distribution {
    /// A short text, as the key reads it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Uniform => "uniform".to_owned(),
            Self::Zipf(exponent) => format!("zipf:{exponent}"),
            Self::Pareto(share) => format!("pareto:{share}"),
            Self::Normal(percent) => format!("normal:{percent}%"),
            Self::Zones(zones) => {
                let pairs = zones.iter().map(|z| format!("{}/{}", z.io_percent, z.space_percent));
                format!("zones:{}", pairs.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Reads `uniform`, `zipf:1.2`, `pareto:0.2`, `normal:10%`, `zones:90/10,10/90`. What the numbers may
    /// be is found out with the whole job.
    pub(crate) fn parse(value: &str) -> Result<Self, String> {
        let (kind, parameter) = value.split_once(':').unwrap_or((value, ""));
        let number = || {
            let digits = parameter.trim_end_matches('%');
            let parsed = digits.trim().parse().ok().filter(|x: &f64| x.is_finite());
            parsed.ok_or_else(|| match parameter {
                "" => format!("{kind} needs a number, as in {kind}:0.5"),
                _ => format!("'{parameter}' is not a number"),
            })
        };
        match kind {
            "uniform" if parameter.is_empty() => Ok(Self::Uniform),
            "zipf" => number().map(Self::Zipf),
            "pareto" if parameter.ends_with('%') => number().map(|x| Self::Pareto(x / 100.0)),
            "pareto" => number().map(Self::Pareto),
            "normal" => number().map(Self::Normal),
            "zones" => zones(parameter).map(Self::Zones),
            _ => Err("not a known distribution".to_owned()),
        }
    }

    /// What is wrong with its numbers, whatever the range.
    fn fault(&self) -> Option<DistributionError> {
        // Room for everything: the range itself is not known yet.
        let places = 1 << 50;
        match self {
            Self::Uniform => None,
            Self::Zipf(exponent) => Zipf::new(places, *exponent, 0).err(),
            Self::Pareto(share) => Pareto::new(places, *share, 0).err(),
            Self::Normal(percent) => Normal::new(places, *percent).err(),
            Self::Zones(shares) => Zones::new(places, &zones_of(shares)).err(),
        }
    }
}

/// Shares as the distribution takes them.
#[must_use]
pub fn zones_of(shares: &[ZoneShare]) -> Vec<Zone> {
    let zone = |share: &ZoneShare| {
        let ZoneShare { io_percent, space_percent } = *share;
        Zone { io_percent, space_percent }
    };
    shares.iter().map(zone).collect()
}

fn zones(list: &str) -> Result<Vec<ZoneShare>, String> {
    let share = |text: &str, pair: &str| {
        let digits = text.trim().trim_end_matches('%');
        digits.parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(|| {
            format!("'{pair}' is not a share of the I/O and one of the space, as in 90/10")
        })
    };
    list.split(',')
        .map(|pair| {
            let (io, space) = pair.split_once('/').unwrap_or((pair, ""));
            Ok(ZoneShare { io_percent: share(io, pair)?, space_percent: share(space, pair)? })
        })
        .collect()
}

/// Reads sizes: `4k`, `4k:80,64k:20`, `4k-64k`, and all together.
pub(crate) fn sizes(
    value: &str,
    request_size: fn(&str) -> Result<u32, String>,
) -> Result<Vec<WeightedSize>, String> {
    check_weights(value)?;
    let mut sizes = Vec::new();
    for part in value.split(',') {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        let weight: f64 = weight
            .trim_end_matches('%')
            .parse()
            .ok()
            .filter(|w| *w > 0.0 && *w <= 1e9)
            .ok_or_else(|| format!("the weight in '{part}' must be a number above 0"))?;
        // A minus in front belongs to the number, which then says what is wrong with it.
        let (least, most) = match size.split_once('-') {
            Some((least, most)) if !least.trim().is_empty() => (least, Some(most)),
            _ => (size, None),
        };
        let size_bytes = request_size(least)?;
        let up_to_bytes = most.map(request_size).transpose()?;
        if let Some(most) = up_to_bytes
            && (most < size_bytes || most % size_bytes != 0)
        {
            return Err(format!(
                "the range '{size}' must end at a multiple of its beginning: sizes are its multiples"
            ));
        }
        sizes.push(WeightedSize { size_bytes, up_to_bytes, weight });
    }
    Ok(sizes)
}

/// Weights are relative to each other, percentages are shares of a whole; either way each size needs its own.
fn check_weights(value: &str) -> Result<(), String> {
    let weights: Vec<Option<&str>> =
        value.split(',').map(|part| part.split_once(':').map(|(_, weight)| weight)).collect();
    let percents: Vec<f64> =
        weights.iter().filter_map(|w| w.as_ref()?.strip_suffix('%')?.parse().ok()).collect();
    let is_even = weights.iter().all(|w| w.is_some() == weights[0].is_some());
    if !is_even || (!percents.is_empty() && percents.len() < weights.len()) {
        return Err(format!(
            "in '{value}' some sizes have a weight and others none, or only some in percent; give one of a kind to each"
        ));
    }
    let sum: f64 = percents.iter().sum();
    if !percents.is_empty() && (sum - 100.0).abs() > 1e-6 {
        return Err(format!(
            "the shares in '{value}' sum to {} %, not 100 %; weights without % are relative to each other",
            units::format_number(sum)
        ));
    }
    Ok(())
}

impl WeightedSize {
    /// One size.
    #[must_use]
    pub fn fixed(size_bytes: u32) -> Self {
        Self { size_bytes, up_to_bytes: None, weight: 1.0 }
    }

    /// The largest request in bytes.
    #[must_use]
    pub fn max_bytes(self) -> u32 {
        self.up_to_bytes.unwrap_or(self.size_bytes)
    }

    /// The mean request in bytes.
    #[must_use]
    pub fn mean_bytes(self) -> f64 {
        f64::midpoint(f64::from(self.size_bytes), f64::from(self.max_bytes()))
    }
}

/// The weighted mean of sizes in bytes.
#[must_use]
pub fn mean_bytes(sizes: &[WeightedSize]) -> f64 {
    let total: f64 = sizes.iter().map(|s| s.weight).sum();
    sizes.iter().map(|s| s.mean_bytes() * s.weight).sum::<f64>() / total
}

/// A short text of sizes.
#[must_use]
pub fn sizes_text(sizes: &[WeightedSize]) -> String {
    match sizes {
        [one] => match one.up_to_bytes {
            None => units::format_size(u64::from(one.size_bytes)),
            Some(most) => format!(
                "{} to {}",
                units::format_size(u64::from(one.size_bytes)),
                units::format_size(u64::from(most))
            ),
        },
        many => format!(
            "{} sizes, mean {}",
            many.len(),
            units::format_size(mean_bytes(many).round() as u64)
        ),
    }
}

/// What contradicts what among offsets, kinds and files, with the cure.
pub(crate) fn contradiction(job: &Job) -> Option<String> {
    shares(job)
        .or_else(|| offsets(job))
        .or_else(|| replayed(job))
        .or_else(|| several_files(job))
        .or_else(|| in_turn(job))
}

/// What comes right after a request needs one request at a time.
fn in_turn(job: &Job) -> Option<String> {
    let asked = [
        ("sync_all_every", job.sync_all_every.is_some()),
        ("write_back_fraction", job.write_back_fraction > 0.0),
    ];
    let (word, _) = asked.into_iter().find(|(_, is_asked)| *is_asked)?;
    if job.depth > 1 {
        return Some(format!(
            "{word} follows a request that has ended; use depth=1 and more threads"
        ));
    }
    if matches!(job.access, Access::Append | Access::Replication | Access::Randomio) {
        let access = job.access.word();
        return Some(format!("access={access} has its own order of requests; leave out {word}"));
    }
    if job.rate.is_some() {
        return Some(format!(
            "{word} follows what has ended, rate= does not wait for that; leave out one of them"
        ));
    }
    let reads_only = job.write_fraction + job.trim_fraction + job.zero_fraction == 0.0;
    if job.write_back_fraction > 0.0 && !reads_only {
        return Some(
            "write_back_fraction writes after reads; leave out write_fraction, trim_fraction and zero_fraction"
                .to_owned(),
        );
    }
    if job.write_back_fraction > 0.0 && !job.write_block_size.is_empty() {
        return Some(
            "write_back_fraction writes the block that was read; leave out write_block_size"
                .to_owned(),
        );
    }
    None
}

fn shares(job: &Job) -> Option<String> {
    let sum = job.write_fraction + job.trim_fraction + job.zero_fraction;
    if sum > 1.0 + 1e-9 {
        return Some(format!(
            "write_fraction={}, trim_fraction={} and zero_fraction={} sum to {sum:.3}, more than 1; the rest reads",
            job.write_fraction, job.trim_fraction, job.zero_fraction
        ));
    }
    let gives_back = job.trim_fraction + job.zero_fraction > 0.0;
    if gives_back && matches!(job.access, Access::Append | Access::Replication | Access::Randomio) {
        return Some(format!(
            "access={} has its own kinds of requests; leave out trim_fraction and zero_fraction",
            job.access.word()
        ));
    }
    if job.mix == Mix::Interleave && (gives_back || !(job.reads() && job.writes_data())) {
        return Some(
            "mix=interleave alternates reads and writes; give write_fraction between 0 and 1 and no trims or zero ranges"
                .to_owned(),
        );
    }
    if job.mix == Mix::Interleave && matches!(job.access, Access::Replication | Access::Randomio) {
        return Some(format!(
            "access={} has its own order of kinds; leave out mix=interleave",
            job.access.word()
        ));
    }
    None
}

fn offsets(job: &Job) -> Option<String> {
    let word = job.access.word();
    if let Some(fault) = job.distribution.fault() {
        return Some(format!("distribution={}: {fault}", job.distribution.text()));
    }
    if job.distribution != Distribution::Uniform && job.access != Access::Random {
        return Some(format!(
            "distribution={} is for access=random, not access={word}; leave out one of them",
            job.distribution.text()
        ));
    }
    if job.stride_bytes.is_some() != (job.access == Access::Strided) {
        return Some(match job.stride_bytes {
            Some(_) => {
                format!("stride is for access=strided, not access={word}; leave out one of them")
            }
            None => "access=strided needs the distance between requests: stride=1M".to_owned(),
        });
    }
    if job.sweep_points.is_some() != (job.access == Access::Sweep) {
        return Some(match job.sweep_points {
            Some(_) => format!(
                "sweep_points is for access=sweep, not access={word}; leave out one of them"
            ),
            None => "access=sweep needs the number of places: sweep_points=1000".to_owned(),
        });
    }
    if job.access == Access::Sweep && job.warmup_ns > 0 {
        return Some(
            "access=sweep is one pass, which a warm-up would use up; leave out warmup".to_owned(),
        );
    }
    let goes_on = matches!(job.access, Access::Sequential | Access::Reverse | Access::Append);
    let is_off = |align: u64| {
        let sizes = [&job.block_size, &job.write_block_size, &job.trim_block_size];
        sizes.into_iter().flatten().any(|s| !u64::from(s.size_bytes.max(1)).is_multiple_of(align))
    };
    if let Some(align) = job.align_bytes.filter(|align| goes_on && is_off(*align)) {
        return Some(format!(
            "access={word} goes on where the last request ended, which is not a multiple of align={align}; leave out align, or use access=strided with stride={align}"
        ));
    }
    if job.cursor != Cursor::Thread && !job.access.has_cursor() {
        return Some(format!(
            "access={word} has no position to share; leave out cursor, or use access=sequential"
        ));
    }
    None
}

/// What repeats another program's requests has to be asked as that program was.
fn replayed(job: &Job) -> Option<String> {
    if !matches!(job.access, Access::Randomio | Access::Iozone) {
        return None;
    }
    let word = job.access.word();
    let [WeightedSize { up_to_bytes: None, size_bytes, .. }] = job.block_size[..] else {
        return Some(format!("access={word} has one size; use a single block_size"));
    };
    if !job.write_block_size.is_empty() || !job.trim_block_size.is_empty() {
        return Some(format!(
            "access={word} has one size; leave out write_block_size and trim_block_size"
        ));
    }
    if job.align_bytes.is_some_and(|align| align != u64::from(size_bytes)) {
        return Some(format!(
            "access={word} works on multiples of its block_size; leave out align"
        ));
    }
    if job.access == Access::Randomio && matches!(job.sync, SyncRule::Every(_)) {
        return Some("access=randomio syncs a share of its writes; use fsync_fraction".to_owned());
    }
    None
}

fn several_files(job: &Job) -> Option<String> {
    if job.file_choice == FileChoice::Thread {
        let asked =
            [("cursor", job.cursor != Cursor::Thread), ("files_open", job.files_open.is_some())];
        if let Some((word, _)) = asked.into_iter().find(|(_, is_asked)| *is_asked) {
            return Some(format!(
                "file_choice=thread leaves each thread alone with its file; leave out {word}"
            ));
        }
    } else if job.files == 1 {
        let asked = [
            ("file_choice", job.file_choice != FileChoice::RoundRobin),
            ("files_open", job.files_open.is_some()),
        ];
        let (word, _) = asked.into_iter().find(|(_, is_asked)| *is_asked)?;
        return Some(format!("{word} is for several files; give files=100, or leave it out"));
    }
    if matches!(job.access, Access::Append | Access::Replication | Access::Randomio) {
        return Some(format!("access={} works on one file; leave out files", job.access.word()));
    }
    let is_ordered = matches!(
        job.access,
        Access::Sequential | Access::Reverse | Access::Strided | Access::Sweep
    );
    if is_ordered && job.file_choice == FileChoice::Random {
        return Some(format!(
            "access={} has an order, file_choice=random has none; use access=random or shuffled, or file_choice=round_robin",
            job.access.word()
        ));
    }
    if let Some(open) = job.files_open {
        if open < job.depth {
            return Some(format!(
                "files_open={open} is less than the depth={} requests in flight, each of which may need its own file",
                job.depth
            ));
        }
        if job.engine == EngineKind::Mmap && open < job.files {
            return Some("engine=mmap maps every file once; leave out files_open".to_owned());
        }
    }
    None
}
