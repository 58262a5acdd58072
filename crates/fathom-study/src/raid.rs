//! `fathom raid`: levels, layouts and chunks against each other, whole, without a member, and while one is rebuilt; all as
//! multiples of what one member does alone. Pure: records in, a study out.
//!
//! The unit is the trial: each figure is the median over the blocks. What members count is held against the address maps of
//! the arrays ([`fathom_check::array_map`]): a read that wakes more disks than it must is found.

mod counted;
mod rebuild;
#[cfg(test)]
mod tests;

pub use counted::Counted;
pub(crate) use counted::of as counted_members;
use fathom_base::order::Order;
pub use rebuild::Rebuild;

use crate::blocks::{self, ByBlock};
use crate::experiment::VoidTrial;
use crate::rules;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::{Ending, Record};
use fathom_stats::interval::{Estimate, median, median_interval};
use fathom_stats::means::coefficient_of_variation;
use serde::Serialize;

/// The load patterns, by the labels of their workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Large blocks written in order.
    SequentialWrite,
    /// Large blocks read in order.
    SequentialRead,
    /// Small blocks read at random.
    RandomRead,
    /// Small blocks read and written at random.
    RandomMix,
}

impl Pattern {
    /// All, in the order of tables.
    pub const ALL: [Self; 4] =
        [Self::SequentialWrite, Self::SequentialRead, Self::RandomRead, Self::RandomMix];

    /// The label of its workload.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::SequentialWrite => "seqwrite",
            Self::SequentialRead => "seqread",
            Self::RandomRead => "randread",
            Self::RandomMix => "randmix",
        }
    }

    fn of(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.label() == label)
    }

    fn place(self) -> usize {
        match self {
            Self::SequentialWrite => 0,
            Self::SequentialRead => 1,
            Self::RandomRead => 2,
            Self::RandomMix => 3,
        }
    }
}

/// The states in which an array is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All members there.
    Normal,
    /// One is missing.
    Degraded,
    /// One is being rebuilt.
    Rebuilding,
}

impl State {
    /// All, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Normal, Self::Degraded, Self::Rebuilding];

    /// The level of the plan's factor.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Degraded => "degraded",
            Self::Rebuilding => "rebuilding",
        }
    }
}

/// Names of the factors in the plans of `fathom raid`.
pub mod factor {
    /// Which member is measured alone.
    pub const MEMBER: &str = "member";
    /// Level of the array.
    pub const LEVEL: &str = "level";
    /// Its layout.
    pub const LAYOUT: &str = "layout";
    /// Its chunk.
    pub const CHUNK: &str = "chunk";
    /// How many members it has.
    pub const MEMBERS: &str = "members";
    /// Its state.
    pub const STATE: &str = "state";
}

/// One figure over the blocks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Bytes per second, median over trials.
    pub bytes_per_s: Estimate,
    /// That rate in multiples of what one member does alone in the same blocks, with the interval of their mean; none where no
    /// member was measured alone.
    pub of_one_member: Option<Estimate>,
    /// Its share of what the whole array does in the same blocks, likewise; none of the whole array itself.
    pub of_whole: Option<Estimate>,
    /// Reads and writes per second, median over trials.
    pub iops: f64,
    /// Median over trials of the 99th percentile of latency, in nanoseconds; none with too few requests.
    pub latency_ns_p99: Option<f64>,
    /// Standard deviation of the rate by its mean; none of one trial.
    pub spread: Option<f64>,
    /// CPU time of one request, threads of the array included, in nanoseconds.
    pub cpu_ns_per_io: Option<f64>,
    /// Interrupts and context switches of the machine for one request.
    pub events_per_io: Option<EventsPerIo>,
}

/// What the whole machine did for one request: an upper limit, because nobody knows whose an interrupt was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EventsPerIo {
    /// Interrupts, median over trials.
    pub interrupts: f64,
    /// Switches from one thread to another, median over trials.
    pub context_switches: f64,
}

impl EventsPerIo {
    /// Over trials of the same; none when one was not counted or had no request.
    #[must_use]
    pub fn of(records: &[&Record]) -> Option<Self> {
        let each = |record: &&Record| {
            let requests = record.jobs.iter().map(|job| job.transfers().latency_ns.count());
            let requests = Some(requests.sum::<u64>()).filter(|count| *count > 0)? as f64;
            let events = record.system_events?;
            Some((events.interrupts as f64 / requests, events.context_switches as f64 / requests))
        };
        let (interrupts, switches): (Vec<f64>, Vec<f64>) =
            records.iter().map(each).collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some(Self {
            interrupts: median(&interrupts).ok()?,
            context_switches: median(&switches).ok()?,
        })
    }
}

/// A member alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// By pattern, in the order of [`Pattern::ALL`].
    pub figures: [Option<Figure>; 4],
}

/// An array in one state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InState {
    /// Which.
    pub state: State,
    /// By pattern; none where it was not measured.
    pub figures: [Option<Figure>; 4],
    /// What the members counted, by pattern.
    pub counted: [Option<Counted>; 4],
    /// How fast the member was rebuilt under each pattern.
    pub rebuilds: [Option<Rebuild>; 4],
}

/// One array.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// `raid5`.
    pub level: String,
    /// `left-symmetric`; none for levels without.
    pub layout: Option<String>,
    /// `64k`; none for levels without.
    pub chunk: Option<String>,
    /// How many members, where that varies.
    pub members: Option<String>,
    /// True where the level can lose a member.
    pub is_redundant: bool,
    /// Bytes that it holds.
    pub size_bytes: Option<u64>,
    /// In the order of [`State::ALL`], those that were measured.
    pub states: Vec<InState>,
}

impl Row {
    /// Its name in a line.
    #[must_use]
    pub fn name(&self) -> String {
        let members = self.members.as_ref().map(|count| format!("of {count}"));
        let parts = [
            Some(self.level.as_str()),
            self.layout.as_deref(),
            self.chunk.as_deref(),
            members.as_deref(),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The array in that state, if it was measured.
    #[must_use]
    pub fn in_state(&self, state: State) -> Option<&InState> {
        self.states.iter().find(|of| of.state == state)
    }
}

/// The whole matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RaidStudy {
    /// Members alone.
    pub components: Vec<Component>,
    /// Median over the members, by pattern, in bytes per second: what multiples are of.
    pub component_bytes_per_s: [Option<f64>; 4],
    /// The arrays, in the order of their first trials.
    pub rows: Vec<Row>,
    /// Trials that do not count.
    pub void: Vec<VoidTrial>,
    /// What speaks against the figures, and what was found.
    pub findings: Vec<Finding>,
    /// Whether they can be believed.
    pub verdict: Verdict,
}

/// The level of a factor in a record.
fn level<'r>(record: &'r Record, factor: &str) -> Option<&'r str> {
    let cell = record.cell.as_ref()?;
    cell.levels.iter().find(|(name, _)| name == factor).map(|(_, level)| level.as_str())
}

/// True for levels that have layouts to choose from.
#[must_use]
pub fn has_layouts(level: &str) -> bool {
    matches!(level, "raid5" | "raid6" | "raid10")
}

/// True for levels that have chunks.
#[must_use]
pub fn has_chunks(level: &str) -> bool {
    level != "raid1"
}

/// Levels of factors, without those of factors that the array does not have.
#[must_use]
pub fn own_levels(levels: &[(String, String)]) -> Vec<(String, String)> {
    let of = levels.iter().find(|(name, _)| name == factor::LEVEL);
    let of = of.map_or("", |(_, level)| level.as_str());
    let is_own = |(name, _): &&(String, String)| has_factor(of, name);
    levels.iter().filter(is_own).cloned().collect()
}

/// False for what a level does not have.
#[must_use]
pub fn has_factor(level: &str, factor: &str) -> bool {
    match factor {
        factor::LAYOUT => has_layouts(level),
        factor::CHUNK => has_chunks(level),
        _ => true,
    }
}

/// What tells one array from another: level, layout, chunk, members.
type Key = (String, Option<String>, Option<String>, Option<String>);

fn key(record: &Record) -> Option<Key> {
    let level = self::level(record, factor::LEVEL)?.to_owned();
    let of = |factor: &str| self::level(record, factor).map(str::to_owned);
    let layout = of(factor::LAYOUT).filter(|_| has_layouts(&level));
    let chunk = of(factor::CHUNK).filter(|_| has_chunks(&level));
    Some((level, layout, chunk, of(factor::MEMBERS)))
}

/// Studies the records of `fathom raid`.
#[must_use]
pub fn study(records: &[Record]) -> RaidStudy {
    let (good, void) = sorted(records);
    let components = components(&good);
    let component_bytes_per_s = Pattern::ALL.map(|pattern| {
        let rates = components.iter().filter_map(|c| c.figures[pattern.place()].as_ref());
        median(&rates.map(|figure| figure.bytes_per_s.value).collect::<Vec<_>>()).ok()
    });
    let mut keys: Vec<Key> = Vec::new();
    for record in &good {
        if let Some(key) = key(record).filter(|key| !keys.contains(key)) {
            keys.push(key);
        }
    }
    keys.order();
    let one = Pattern::ALL.map(|pattern| {
        let alone = of_pattern(&good, pattern).into_iter();
        by_block(alone.filter(|record| level(record, factor::MEMBER).is_some()))
    });
    let rows: Vec<Row> = keys.into_iter().map(|key| row(&good, &key, &one)).collect();
    let mut findings = counted::findings(&rows);
    findings.extend(odd_member(&components));
    findings.extend(of_void(&void, records.len()));
    findings.extend(of_trials(&good));
    if rows.is_empty() {
        findings.push(Finding::new("nothing-measured", Severity::Void, "no array was measured"));
    }
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    RaidStudy { components, component_bytes_per_s, rows, void, findings, verdict }
}

fn sorted(records: &[Record]) -> (Vec<&Record>, Vec<VoidTrial>) {
    let (mut good, mut void) = (Vec::new(), Vec::new());
    for record in records {
        let Some(cell) = &record.cell else { continue };
        let unplanned = (record.ending != Ending::Complete).then(|| "not complete".to_owned());
        match cell.void.clone().or(unplanned) {
            None => good.push(record),
            Some(cause) => void.push(VoidTrial {
                slot: cell.slot,
                cell: own_levels(&cell.levels)
                    .iter()
                    .map(|(f, l)| format!("{f}={l}"))
                    .collect::<Vec<_>>()
                    .join(" "),
                workload: cell.workload.clone(),
                cause,
            }),
        }
    }
    (good, void)
}

/// The trials of one pattern among records.
fn of_pattern<'r>(records: &[&'r Record], pattern: Pattern) -> Vec<&'r Record> {
    let is_it = |record: &&&Record| {
        record.cell.as_ref().and_then(|cell| Pattern::of(&cell.workload)) == Some(pattern)
    };
    records.iter().filter(is_it).copied().collect()
}

fn by_block<'r>(records: impl IntoIterator<Item = &'r Record>) -> ByBlock {
    let block = |record: &Record| record.cell.as_ref().map_or(0, |cell| u64::from(cell.slot.block));
    ByBlock::medians(records.into_iter().map(|record| (block(record), blocks::rate(record))))
}

fn figure(records: &[&Record]) -> Option<Figure> {
    let seconds = |record: &Record| record.window_ns.max(1) as f64 / 1e9;
    let sum = |record: &Record, of: &dyn Fn(&fathom_model::record::ClassRecord) -> f64| {
        record.jobs.iter().map(|job| of(&job.transfers())).sum::<f64>()
    };
    let rates: Vec<f64> = records.iter().map(|record| blocks::rate(record)).collect();
    let counts = |record: &Record| sum(record, &|class| class.latency_ns.count() as f64);
    let iops: Vec<f64> = records.iter().map(|r| counts(r) / seconds(r)).collect();
    let p99 = |record: &&Record| {
        let mut all = fathom_stats::Histogram::new();
        record.jobs.iter().for_each(|job| all.merge(&job.transfers().latency_ns));
        // Ten requests beyond it at least.
        (all.count() >= 1000).then(|| all.quantile(0.99).map(|ns| ns as f64)).flatten()
    };
    // Of some trials only it would be a selection.
    let p99: Option<Vec<f64>> = records.iter().map(p99).collect();
    let cpu = |record: &&Record| {
        let arrays: u64 = record.devices.iter().filter_map(|d| d.kernel_thread_cpu_ns).sum();
        let cpu_ns = record.process_cpu.total_ns() + arrays;
        (counts(record) > 0.0 && cpu_ns > 0).then(|| cpu_ns as f64 / counts(record))
    };
    let cpu: Vec<f64> = records.iter().filter_map(cpu).collect();
    Some(Figure {
        bytes_per_s: median_interval(&rates, 0.95).ok().filter(|rate| rate.value > 0.0)?,
        of_one_member: None,
        of_whole: None,
        iops: median(&iops).ok()?,
        latency_ns_p99: p99.and_then(|p99| median(&p99).ok()),
        spread: coefficient_of_variation(&rates).ok(),
        cpu_ns_per_io: median(&cpu).ok(),
        events_per_io: EventsPerIo::of(records),
    })
}

fn components(good: &[&Record]) -> Vec<Component> {
    let mut names: Vec<&str> = Vec::new();
    for name in good.iter().filter_map(|record| level(record, factor::MEMBER)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let one = |name: &str| {
        let is_own = |record: &&&Record| level(record, factor::MEMBER) == Some(name);
        let own: Vec<&Record> = good.iter().filter(is_own).copied().collect();
        Component {
            name: name.to_owned(),
            figures: Pattern::ALL.map(|pattern| figure(&of_pattern(&own, pattern))),
        }
    };
    names.into_iter().map(one).collect()
}

fn row(good: &[&Record], key: &Key, one: &[ByBlock; 4]) -> Row {
    let own: Vec<&Record> =
        good.iter().filter(|r| self::key(r).as_ref() == Some(key)).copied().collect();
    let in_state = |state: State| -> Vec<&Record> {
        let is_there =
            |record: &&&Record| level(record, factor::STATE).unwrap_or("normal") == state.word();
        own.iter().filter(is_there).copied().collect()
    };
    let whole = in_state(State::Normal);
    let against = |there: &[&Record], pattern: Pattern, state: State| {
        let there = of_pattern(there, pattern);
        let rates = by_block(there.iter().copied());
        let of_whole = || rates.ratio(&by_block(of_pattern(&whole, pattern)));
        Some(Figure {
            of_one_member: rates.ratio(&one[pattern.place()]),
            of_whole: (state != State::Normal).then(of_whole).flatten(),
            ..figure(&there)?
        })
    };
    let state = |state: State| {
        let there = in_state(state);
        (!there.is_empty()).then(|| InState {
            state,
            figures: Pattern::ALL.map(|pattern| against(&there, pattern, state)),
            counted: Pattern::ALL.map(|pattern| counted::of(&of_pattern(&there, pattern), state)),
            rebuilds: Pattern::ALL.map(|pattern| match state {
                State::Rebuilding => rebuild::of(&of_pattern(&there, pattern)),
                _ => None,
            }),
        })
    };
    let (level, layout, chunk, members) = key.clone();
    Row {
        is_redundant: level != "raid0",
        size_bytes: own.iter().find_map(|r| r.targets.first()).map(|target| target.size_bytes),
        states: State::ALL.into_iter().filter_map(state).collect(),
        level,
        layout,
        chunk,
        members,
    }
}

/// A member that is slower than the others by more than their usual differences: it slows the whole array down.
fn odd_member(components: &[Component]) -> Option<Finding> {
    // With two nobody knows which one is odd.
    if components.len() < 3 {
        return None;
    }
    let odd = |pattern: Pattern| {
        let rates: Vec<f64> = components
            .iter()
            .map(|c| Some(c.figures[pattern.place()].as_ref()?.bytes_per_s.value))
            .collect::<Option<_>>()?;
        let at = outlier(&rates)?;
        Some((pattern, at, rates[at] / median(&rates).ok()?))
    };
    let (pattern, at, ratio) = Pattern::ALL.into_iter().find_map(odd)?;
    let text = format!(
        "{} is the odd member: {} at {:.0} % of the others' median",
        components[at].name,
        pattern.label(),
        100.0 * ratio
    );
    Some(
        Finding::new("odd-member", Severity::Doubtful, text)
            .advise("an array waits for its slowest member: look at its errors, link and temperature (fathom check)"),
    )
}

/// The place of the one value that lies below the others' by far more than these differ: by a tenth at least, and by five
/// robust standard deviations.
#[must_use]
pub fn outlier(rates: &[f64]) -> Option<usize> {
    let middle = median(rates).ok().filter(|middle| *middle > 0.0)?;
    let distances: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
    let usual = 1.4826 * median(&distances).ok()?;
    let (at, least) = rates.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1))?;
    let below = middle - least;
    (below > 0.1 * middle && below > 5.0 * usual).then_some(at)
}

fn of_void(void: &[VoidTrial], all: usize) -> Option<Finding> {
    let first = void.first()?;
    let severity = if 2 * void.len() > all { Severity::Doubtful } else { Severity::Note };
    let are = if void.len() == 1 { "is" } else { "are" };
    let text = format!(
        "{} of {all} trials {are} void, the first one ({}, {}) because: {}",
        void.len(),
        first.cell,
        first.workload,
        first.cause
    );
    Some(Finding::new("void-trials", severity, text))
}

/// What an array that is degraded or rebuilt on purpose is blamed for.
const ON_PURPOSE: [&str; 6] = [
    "md-degraded",
    "md-sync-running",
    "md-member-failed",
    "other-io",
    "short-windows",
    "small-span",
];

fn of_trials(good: &[&Record]) -> Vec<Finding> {
    let mut found: Vec<(Finding, usize)> = Vec::new();
    for record in good {
        let is_normal = level(record, factor::STATE).is_none_or(|state| state == "normal");
        for finding in record.findings.iter().cloned().chain(rules::all(record)) {
            let is_meant = !is_normal && ON_PURPOSE.contains(&finding.id.as_str());
            if finding.severity == Severity::Note || is_meant {
                continue;
            }
            match found.iter_mut().find(|(known, _)| known.id == finding.id) {
                Some((known, count)) => {
                    known.severity = known.severity.max(finding.severity);
                    *count += 1;
                }
                None => found.push((finding, 1)),
            }
        }
    }
    let all = good.len();
    let said = |(mut finding, count): (Finding, usize)| {
        finding.summary = format!("{count} of {all} trials: {}", finding.summary);
        if 2 * count < all {
            // Medians bear it.
            finding.severity = finding.severity.min(Severity::Doubtful);
        }
        finding
    };
    found.into_iter().map(said).collect()
}
