//! `fathom layers`: what each layer of a stack costs, and which disk is slower than its companions. Pure: records in, a study
//! out. The unit is the trial; every figure is the median over the blocks.

use crate::blocks::{self, ByBlock};
use crate::compare::rows::without_number;
use crate::raid::{self, Counted, EventsPerIo, State, outlier};
use crate::verdict;
use fathom_base::order::Order;
use fathom_model::finding::{Finding, Severity, Verdict};
use fathom_model::record::{Ending, Record};
use fathom_stats::Histogram;
use fathom_stats::interval::{Estimate, median, median_interval};
use fathom_stats::means::coefficient_of_variation;
use serde::Serialize;
use std::collections::BTreeSet;

/// Above what is below it by more than this, a layer is faster than what carries it: something was cached.
const FASTER_SHARE: f64 = 1.15;
/// A layer that keeps less than this share of what is below it is told.
const COSTLY_SHARE: f64 = 0.8;

/// A layer of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Layer {
    /// A disk or partition by itself.
    Alone {
        /// Kernel name.
        name: String,
    },
    /// All of these at the same time.
    Together {
        /// How many.
        count: u32,
    },
    /// A block device above them.
    Device {
        /// Its name.
        name: String,
    },
    /// A file in a filesystem.
    Files {
        /// Where.
        name: String,
    },
}

const ALONE: &str = " alone";
const AT_ONCE: &str = " at once";

impl Layer {
    /// True for a disk by itself.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Alone { .. })
    }

    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Alone { name } => format!("{name}{ALONE}"),
            Self::Together { count } => format!("all {count}{AT_ONCE}"),
            Self::Device { name } | Self::Files { name } => name.clone(),
        }
    }

    fn of(name: &str) -> Self {
        if let Some(name) = name.strip_suffix(ALONE) {
            return Self::Alone { name: name.to_owned() };
        }
        let count =
            name.strip_prefix("all ").and_then(|rest| rest.strip_suffix(AT_ONCE)?.parse().ok());
        match count {
            Some(count) => Self::Together { count },
            None if name.starts_with('/') => Self::Files { name: name.to_owned() },
            None => Self::Device { name: name.to_owned() },
        }
    }
}

/// The label of a trial's record, without the number of its block.
#[must_use]
pub fn label(layer: &Layer, workload: &str) -> String {
    format!("{}: {workload}", layer.name())
}

/// One layer under one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which layer.
    pub layer: Layer,
    /// Bytes per second, median over trials.
    pub bytes_per_s: Estimate,
    /// Reads per second, median over trials.
    pub iops: f64,
    /// Median latency in nanoseconds.
    pub latency_ns_p50: Option<f64>,
    /// 99th percentile of latency in nanoseconds; none with too few requests.
    pub latency_ns_p99: Option<f64>,
    /// Standard deviation of the rate by its mean; none of one trial.
    pub spread: Option<f64>,
    /// CPU time of one read with the kernel's threads for it, in nanoseconds.
    pub cpu_ns_per_io: Option<f64>,
    /// Interrupts and context switches of the machine for one read.
    pub events_per_io: Option<EventsPerIo>,
    /// Reads of the disks for one read of the layer, by their own counters.
    pub disk_reads: Option<f64>,
    /// What the members of the array below counted, and what its address map asks for.
    pub counted: Option<Counted>,
    /// What the layer below does at most, in bytes per second: all disks at once, else the disk.
    pub below_bytes_per_s: Option<f64>,
    /// Its share of what the layer below does in the same blocks, with the interval of their mean.
    pub efficiency: Option<Estimate>,
}

/// All layers under one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfWorkload {
    /// Its name.
    pub workload: String,
    /// From the disks upward.
    pub rows: Vec<Row>,
}

/// What the layers cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayersStudy {
    /// By workload, in the order of their names.
    pub workloads: Vec<OfWorkload>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Whether the figures can be believed.
    pub verdict: Verdict,
}

/// Studies the records of `fathom layers`.
#[must_use]
pub fn study(records: &[Record]) -> LayersStudy {
    let good: Vec<&Record> = records.iter().filter(|r| r.ending == Ending::Complete).collect();
    let mut names: Vec<&str> = Vec::new();
    for (_, workload) in good.iter().filter_map(|record| split(record)) {
        if !names.contains(&workload) {
            names.push(workload);
        }
    }
    names.order();
    let workloads: Vec<OfWorkload> = names.iter().map(|name| of_workload(&good, name)).collect();
    let mut findings: Vec<Finding> = workloads.iter().filter_map(odd_disk).take(1).collect();
    findings.extend(workloads.iter().flat_map(costs));
    findings.extend(of_trials(records));
    findings.order_by_key(|finding| std::cmp::Reverse(finding.severity));
    let verdict = Verdict::of(&findings);
    LayersStudy { workloads, findings, verdict }
}

/// Layer and workload of a record.
fn split(record: &Record) -> Option<(&str, &str)> {
    without_number(&record.label).rsplit_once(": ")
}

fn of_workload(good: &[&Record], workload: &str) -> OfWorkload {
    let mut layers: Vec<(usize, Layer)> = Vec::new();
    for record in good {
        let Some((name, _)) = split(record).filter(|(_, of)| *of == workload) else { continue };
        let layer = Layer::of(name);
        if !layers.iter().any(|(_, known)| *known == layer) {
            layers.push((depth(record), layer));
        }
    }
    let class = |layer: &Layer| match layer {
        Layer::Alone { .. } => 0,
        Layer::Together { .. } => 1,
        Layer::Device { .. } => 2,
        Layer::Files { .. } => 3,
    };
    layers.order_by(|a, b| {
        let key = |of: &(usize, Layer)| (class(&of.1), of.0, of.1.name());
        key(a).cmp(&key(b))
    });
    let of = |(_, layer): (usize, Layer)| {
        let own = of_layer(good, &layer, workload);
        Some((row(good, &own, layer)?, by_block(&own)))
    };
    let (mut rows, rates): (Vec<Row>, Vec<ByBlock>) = layers.into_iter().filter_map(of).unzip();
    let disks = || rows.iter().zip(&rates).filter(|(row, _)| row.layer.is_alone());
    let sum: f64 = disks().map(|(row, _)| row.bytes_per_s.value).sum();
    let mut below = (sum > 0.0).then(|| (sum, ByBlock::sum(disks().map(|(_, rates)| rates))));
    for (row, rates) in rows.iter_mut().zip(rates).filter(|(row, _)| !row.layer.is_alone()) {
        row.below_bytes_per_s = below.as_ref().map(|(sum, _)| *sum);
        row.efficiency = below.and_then(|(_, below)| rates.ratio(&below));
        below = Some((row.bytes_per_s.value, rates));
    }
    OfWorkload { workload: workload.to_owned(), rows }
}

/// The trials of a layer.
fn of_layer<'r>(good: &[&'r Record], layer: &Layer, workload: &str) -> Vec<&'r Record> {
    let name = layer.name();
    let is_own = |record: &&&Record| split(record) == Some((name.as_str(), workload));
    good.iter().filter(is_own).copied().collect()
}

/// The rates of trials by the number of their block, which ends their label.
fn by_block(own: &[&Record]) -> ByBlock {
    let block = |record: &Record| record.label.rsplit_once('#')?.1.parse().ok();
    ByBlock::medians(own.iter().map(|record| (block(record).unwrap_or(0), blocks::rate(record))))
}

/// How many layers lie below what was read.
fn depth(record: &Record) -> usize {
    record.targets.first().map_or(0, |target| target.stack.walk().len())
}

fn row(good: &[&Record], own: &[&Record], layer: Layer) -> Option<Row> {
    let seconds = |record: &Record| record.window_ns.max(1) as f64 / 1e9;
    let merged = |record: &Record| {
        let mut all = Histogram::new();
        record.jobs.iter().for_each(|job| all.merge(&job.transfers().latency_ns));
        all
    };
    let rates: Vec<f64> = own.iter().map(|record| blocks::rate(record)).collect();
    let counts: Vec<f64> = own.iter().map(|r| merged(r).count() as f64 / seconds(r)).collect();
    let quantile = |share: f64| {
        let of = |record: &&Record| {
            let all = merged(record);
            let beyond = all.count() as f64 * (1.0 - share);
            (beyond >= 10.0).then(|| all.quantile(share).map(|ns| ns as f64)).flatten()
        };
        // Of some trials only it would be a selection.
        median(&own.iter().map(of).collect::<Option<Vec<_>>>()?).ok()
    };
    let cpu = |record: &&Record| {
        let kernel: u64 = record.devices.iter().filter_map(|d| d.kernel_thread_cpu_ns).sum();
        let (count, cpu_ns) = (merged(record).count(), record.process_cpu.total_ns() + kernel);
        (count > 0 && cpu_ns > 0).then(|| cpu_ns as f64 / count as f64)
    };
    Some(Row {
        bytes_per_s: median_interval(&rates, 0.95).ok().filter(|rate| rate.value > 0.0)?,
        iops: median(&counts).ok()?,
        latency_ns_p50: quantile(0.5),
        latency_ns_p99: quantile(0.99),
        spread: coefficient_of_variation(&rates).ok(),
        cpu_ns_per_io: median(&own.iter().filter_map(cpu).collect::<Vec<_>>()).ok(),
        events_per_io: EventsPerIo::of(own),
        disk_reads: disk_reads(good, own),
        counted: raid::counted_members(own, State::Normal).filter(|_| !is_degraded(own)),
        below_bytes_per_s: None,
        efficiency: None,
        layer,
    })
}

/// Reads that the disks at the bottom counted for each read of the layer.
fn disk_reads(good: &[&Record], own: &[&Record]) -> Option<f64> {
    let alone = |record: &&Record| match split(record).map(|(name, _)| Layer::of(name)) {
        Some(Layer::Alone { name }) => Some(name),
        _ => None,
    };
    let disks: BTreeSet<String> = good.iter().filter_map(alone).collect();
    let of = |record: &&Record| {
        let there = record.devices.iter().filter(|delta| disks.contains(&delta.name));
        let reads: u64 = there.map(|delta| delta.reads).sum();
        let count: u64 = record.jobs.iter().map(|job| job.transfers().latency_ns.count()).sum();
        (count > 0 && reads > 0).then(|| reads as f64 / count as f64)
    };
    median(&own.iter().filter_map(of).collect::<Vec<_>>()).ok()
}

/// Some array below lacks members: what it then reads more is no fault.
fn is_degraded(own: &[&Record]) -> bool {
    let lacks = |record: &&Record| {
        let stack = record.targets.first().map(|target| &target.stack);
        stack.is_some_and(|stack| {
            stack
                .walk()
                .iter()
                .any(|n| n.md.as_ref().is_some_and(|md| md.degraded.unwrap_or(0) > 0))
        })
    };
    own.iter().any(lacks)
}

/// A disk that is slower than the others by more than these differ.
fn odd_disk(of: &OfWorkload) -> Option<Finding> {
    let disks: Vec<&Row> = of.rows.iter().filter(|row| row.layer.is_alone()).collect();
    let rates: Vec<f64> = disks.iter().map(|row| row.bytes_per_s.value).collect();
    // With two nobody knows which one is odd.
    let at = outlier(&rates).filter(|_| rates.len() > 2)?;
    let share = 100.0 * rates[at] / median(&rates).ok()?;
    let text = format!(
        "{}: {} at {share:.0} % of what the disks beside it do",
        disks[at].layer.name(),
        of.workload
    );
    Some(Finding::new("odd-disk", Severity::Doubtful, text).advise(
        "everything above waits for it: look at its errors, link and temperature (fathom check)",
    ))
}

/// Layers that cost much, and those that seem to be faster than what carries them.
fn costs(of: &OfWorkload) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in &of.rows {
        let Some(share) = row.efficiency else { continue };
        let (name, percent, efficiency) = (row.layer.name(), blocks::percent(&share), share.value);
        let too_many =
            row.counted.and_then(|counted| Some((counted.reads, counted.too_many_reads()?)));
        if let Some((reads, expected)) = too_many {
            let text = format!(
                "{name}, {}: {reads:.2} reads of members for each request, where the array's map asks for {expected:.2}",
                of.workload
            );
            found.push(
                Finding::new("too-many-member-reads", Severity::Doubtful, text)
                    .advise("one small request wakes more disks than it must: alignment (fathom check), or somebody else reads"),
            );
        }
        let is_together = matches!(row.layer, Layer::Together { .. });
        // Not where the interval leaves it open.
        let is_faster = share.interval.is_none_or(|interval| interval.low > FASTER_SHARE);
        if efficiency > FASTER_SHARE && is_faster && !is_together {
            let text = format!(
                "{name}, {}: {percent} of what is below it: its data lies in a faster part, or something was cached",
                of.workload
            );
            found.push(Finding::new("faster-than-below", Severity::Note, text));
        }
        if efficiency < COSTLY_SHARE {
            let text = if is_together {
                format!(
                    "{name}, {}: together the disks do {percent} of what they do one after the other: the link, the \
                     controller or the CPU is shared",
                    of.workload
                )
            } else {
                format!("{name}, {}: {percent} of what the layer below it does", of.workload)
            };
            found.push(Finding::new("costly-layer", Severity::Note, text));
        }
    }
    found
}

/// What the rules say about the trials themselves.
fn of_trials(records: &[Record]) -> Vec<Finding> {
    // Raw layers of data in use are read on purpose, and a stack is measured as it is.
    const ON_PURPOSE: [&str; 2] = ["short-windows", "small-span"];
    let study = verdict::judge(records);
    study.findings.into_iter().filter(|f| !ON_PURPOSE.contains(&f.id.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_model::stack::{Node, NodeKind};

    fn record(layer: &str, workload: &str, iops: f64, depth: usize, block: u32) -> Record {
        let mut record = fixtures::record();
        fixtures::reads(&mut record, (iops * 60.0) as u64, 1_000_000);
        record.label = format!("{layer}: {workload} #{block}");
        let stack = &mut record.targets[0].stack;
        stack.nodes = (0..depth).map(|_| Node::new(NodeKind::Dm, "x")).collect();
        for at in 1..depth {
            stack.nodes[at - 1].below = vec![at];
        }
        record
    }

    fn whole(rates: &[(&str, f64, usize)]) -> LayersStudy {
        let records: Vec<Record> = (1..=3)
            .flat_map(|block| {
                rates.iter().map(move |(layer, iops, depth)| {
                    record(
                        layer,
                        "randread",
                        iops * (1.0 + 0.001 * f64::from(block)),
                        *depth,
                        block,
                    )
                })
            })
            .collect();
        let mut study = study(&records);
        study.findings.retain(|finding| {
            ["odd-disk", "costly-layer", "faster-than-below"].contains(&finding.id.as_str())
        });
        study
    }

    #[test]
    fn each_layer_against_what_is_below_it() {
        let study = whole(&[
            ("/srv", 760.0, 5),
            ("vg-data", 800.0, 3),
            ("md0", 800.0, 2),
            ("all 4 at once", 950.0, 1),
            ("sdb alone", 250.0, 1),
            ("sda alone", 250.0, 1),
            ("sdc alone", 250.0, 1),
            ("sdd alone", 250.0, 1),
        ]);
        let rows = &study.workloads[0].rows;
        let names: Vec<String> = rows.iter().map(|row| row.layer.name()).collect();
        assert_eq!(names[..2], ["sda alone", "sdb alone"]);
        assert_eq!(names[4..], ["all 4 at once", "md0", "vg-data", "/srv"]);
        let percent: Vec<i64> = rows[4..]
            .iter()
            .map(|row| (100.0 * row.efficiency.expect("some").value).round() as i64)
            .collect();
        assert_eq!(percent, [95, 84, 100, 95]);
        // All rates rise alike from block to block: no doubt about shares.
        for share in rows[4..].iter().filter_map(|row| row.efficiency) {
            let interval = share.interval.expect("three blocks");
            assert!(interval.contains(share.value) && interval.high - interval.low < 0.001);
        }
        assert_eq!(study.findings, []);
    }

    #[test]
    fn odd_disks_and_costly_layers_are_named() {
        let study = whole(&[
            ("md0", 400.0, 2),
            ("all 3 at once", 500.0, 1),
            ("sda alone", 250.0, 1),
            ("sdb alone", 120.0, 1),
            ("sdc alone", 251.0, 1),
        ]);
        let ids: Vec<&str> = study.findings.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids, ["odd-disk"]);
        assert!(study.findings[0].summary.starts_with("sdb alone: randread at 48 %"));
        let slow = whole(&[("md0", 150.0, 2), ("sda alone", 250.0, 1)]);
        assert_eq!(slow.findings[0].id, "costly-layer");
        let cached = whole(&[("/srv", 500.0, 2), ("sda alone", 250.0, 1)]);
        assert_eq!(cached.findings[0].id, "faster-than-below");
    }

    #[test]
    fn names_say_what_a_layer_is() {
        let all = [
            Layer::Alone { name: "sda".into() },
            Layer::Together { count: 12 },
            Layer::Device { name: "md0".into() },
            Layer::Files { name: "/srv/a: b".into() },
        ];
        for layer in all {
            assert_eq!(Layer::of(&layer.name()), layer);
        }
    }
}
