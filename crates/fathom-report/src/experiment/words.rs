//! Words for the figures of an experiment and for changes.

pub use crate::ratio::{change, change_with, interval, scatter, times};
use fathom_base::units::{format_figure, format_ns, format_rate, format_size, format_whole};
use fathom_model::plan::setup::SetupCapacity;
use fathom_model::plan::{Metric, MetricUnit};
use fathom_stats::equivalence::Decision;
use fathom_stats::interval::Estimate;
use fathom_study::experiment::{ExperimentStudy, Figure};

/// The words that people see.
#[must_use]
pub fn metric(metric: Metric) -> &'static str {
    match metric {
        Metric::Iops => "IOPS",
        Metric::Rate => "rate",
        Metric::LatencyMean => "mean latency",
        Metric::LatencyP50 => "p50",
        Metric::LatencyP99 => "p99",
        Metric::LatencyP999 => "p99.9",
        Metric::LatencyMax => "longest",
        Metric::CpuPerIo => "CPU per I/O",
        Metric::Application => "application",
        Metric::ReadFiles => "files read/s",
        Metric::WrittenFiles => "files written/s",
        Metric::ReadersKeep => "readers keep",
        Metric::OpenP99 => "open p99",
        Metric::MkdirP99 => "mkdir p99",
        Metric::ReadBytes => "read",
        Metric::WrittenBytes => "written",
        Metric::ReadDataRate => "data alone",
        Metric::FirstReadP99 => "first byte p99",
        Metric::CreateP99 => "create p99",
        Metric::CloseP99 => "close p99",
        Metric::Longest => "longest operation",
        Metric::Recovery => "mount after a crash",
        Metric::ReaderFairness => "fairness of readers",
        Metric::WriterFairness => "fairness of writers",
        Metric::ClientFairness => "fairness of clients",
        Metric::Transactions => "transactions/s",
        Metric::TransactionP99 => "transaction p99",
    }
}

/// A figure's name in this study: with its workload, where there are several.
#[must_use]
pub fn figure(study: &ExperimentStudy, of: &Figure) -> String {
    let mut workloads: Vec<&Option<String>> = study.figures.iter().map(|f| &f.workload).collect();
    workloads.dedup();
    let mut words = metric(of.metric);
    if of.metric == Metric::Application {
        let named = match &of.workload {
            Some(label) => study.application.get(label),
            None => study.application.values().next().filter(|_| study.application.len() == 1),
        };
        words = of.name.as_ref().or(named).map_or(words, String::as_str);
    }
    match &of.workload {
        Some(label) if workloads.len() > 1 => format!("{label} {words}"),
        None if workloads.len() > 1 && study.is_together => format!("all {words}"),
        None if workloads.len() > 1 => format!("mean {words}"),
        _ => words.to_owned(),
    }
}

/// A value with its unit.
#[must_use]
pub fn value(metric: Metric, value: f64) -> String {
    match metric.unit() {
        MetricUnit::BytesPerSecond => format_rate(value),
        MetricUnit::PerSecond if value < 9.95 => format!("{value:.1}"),
        MetricUnit::Share => format!("{:.1} %", 100.0 * value),
        MetricUnit::Index => format!("{value:.3}"),
        MetricUnit::Own if value < 9.995 => format_figure(value),
        MetricUnit::Own if value < 99.95 => format!("{value:.2}"),
        MetricUnit::PerSecond | MetricUnit::Own => format_whole(value),
        MetricUnit::Nanoseconds => format_ns(value.round() as u64),
    }
}

/// A change against the baseline within blocks, with its interval or with why it has none: `+12.0 % (+8.1 to +16.0 %)`.
#[must_use]
pub fn sure_change(of: Estimate) -> String {
    let blocks = || count(of.count, "block", "blocks");
    let known =
        of.interval.map_or_else(|| format!("{}, too few for an interval", blocks()), interval);
    format!("{} ({known})", change_with(of.value, of.interval))
}

/// A decision in a word.
#[must_use]
pub fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Faster => "better",
        Decision::Slower => "worse",
        Decision::Equivalent => "same",
        Decision::Inconclusive => "open",
    }
}

/// A share in percent without a tail of digits.
#[must_use]
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number of things.
#[must_use]
pub fn count(number: usize, one: &str, several: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {several}") }
}

/// The columns of a setup's capacity.
pub const CAPACITY: [&str; 2] = ["usable", "wasted"];

/// What they mean.
pub const CAPACITY_LEGEND: &str = "usable: what the setup holds of its devices; wasted: what nothing of it uses, because another device is smaller, because a \
    slice leaves it out, or as a spare.";

/// What stands in them; nothing of a cell without.
#[must_use]
pub fn capacity(capacity: Option<&SetupCapacity>) -> [String; 2] {
    let of = |bytes: fn(&SetupCapacity) -> u64| {
        capacity.map_or_else(String::new, |own| format_size(bytes(own)))
    };
    [of(|own| own.usable_bytes), of(|own| own.wasted_bytes)]
}

/// A cell's levels in a line.
#[must_use]
pub fn levels(levels: &[(String, String)]) -> String {
    let words: Vec<String> = levels.iter().map(|(f, l)| format!("{f}={l}")).collect();
    if words.is_empty() { "the only cell".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_an_application_keep_their_digits() {
        for (number, text) in [
            (0.0004, "0.000400"),
            (0.0123, "0.0123"),
            (5.25, "5.25"),
            (10.1, "10.10"),
            (1840.4, "1 840"),
        ] {
            assert_eq!(value(Metric::Application, number), text);
        }
    }
}
