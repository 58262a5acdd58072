//! Throughput, service times and requests in flight, now and in the past.

use super::{Row, Tone};
use crate::state::{Phase, Sample, State};
use fathom_base::units::{format_count, format_ns, format_rate};

/// Columns of names.
const NAMES: u16 = 14;
/// Columns of names and figures: curves begin below each other.
const FIGURES: u16 = 50;

/// Three lines, while something is measured.
pub fn rows(state: &State) -> Vec<Row> {
    let is_measuring = matches!(state.phase, Phase::Measuring { .. } | Phase::Started);
    let Some(last) = state.samples.back().filter(|_| is_measuring) else { return Vec::new() };
    let moves = state.samples.iter().any(|sample| sample.bytes_per_s > 0.0);
    let rate = if moves {
        format!(
            "{}, {} IOPS",
            format_rate(last.bytes_per_s),
            format_count(last.iops.round() as u64)
        )
    } else {
        format!("{} operations/s", format_count(last.iops.round() as u64))
    };
    let times =
        [("p50", last.latency_ns_p50), ("p99", last.latency_ns_p99), ("max", last.latency_ns_max)];
    let times: Vec<String> = times
        .iter()
        .filter_map(|(name, ns)| Some(format!("{name} {}", format_ns((*ns)?))))
        .collect();
    let times = if times.is_empty() { nothing_ended(state) } else { times.join("  ") };
    let of_rate = |sample: &Sample| (if moves { sample.bytes_per_s } else { sample.iops }) as u64;
    vec![
        row("throughput", rate, state, of_rate),
        row("service time", times, state, |sample| sample.latency_ns_p99.unwrap_or(0)),
        row("in flight", format!("{:.1}", last.in_flight), state, |s| {
            (s.in_flight * 1000.0) as u64
        }),
    ]
}

fn row(name: &str, figures: String, state: &State, of: impl Fn(&Sample) -> u64) -> Row {
    Row {
        curve: Some(state.samples.iter().map(of).collect()),
        ..Row::of(name, Tone::Faint).at(NAMES, figures, Tone::Strong).at(FIGURES, "", Tone::Plain)
    }
}

/// That nothing ends any more is worth more than an empty place.
fn nothing_ended(state: &State) -> String {
    let since = state.samples.iter().rev().take_while(|s| s.latency_ns_max.is_none()).count();
    format!("nothing ended in the last {since} intervals")
}
