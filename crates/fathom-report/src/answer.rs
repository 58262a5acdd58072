//! A matrix of arrays, layers, and a watch in one sentence.

use crate::raid::{mib_per_s, place};
use crate::ratio::{self, NOT_TOLD};
use crate::text::format_share;
use crate::watch::answer::lengths;
use fathom_base::units::{format_figure, format_rate};
use fathom_stats::interval::Estimate;
use fathom_study::layers::{LayersStudy, OfWorkload, Row as Layer};
use fathom_study::raid::{Figure, Pattern, RaidStudy, Row, State};
use fathom_study::watch::{WatchFigure, WatchSummary, WatchedDevice};

/// The fastest whole array under each load.
#[must_use]
pub fn of_raid(study: &RaidStudy) -> String {
    let of_pattern = |pattern: Pattern| {
        let (row, best) = fastest(study, pattern)?;
        let name = row.name();
        let (load, rate) = (load(pattern), mib_per_s(best.bytes_per_s.value));
        let known = how_well(&best.bytes_per_s, mib_per_s);
        let times = best.of_one_member.map_or_else(String::new, |times| {
            format!(
                ", {} x one member ({})",
                ratio::times(times.value),
                how_well_of_ratio(&times, ratio::times)
            )
        });
        Some(format!("{load} {name} with {rate} ({known}){times}"))
    };
    let words: Vec<String> = Pattern::ALL.into_iter().filter_map(of_pattern).collect();
    match words.as_slice() {
        [] => "No answer: see the findings below.".to_owned(),
        words => format!("Fastest in these trials: {}.", words.join("; ")),
    }
}

/// Where the median of trials lies, or why that cannot be said.
fn how_well(of: &Estimate, text: impl Fn(f64) -> String) -> String {
    how_sure(of, "trial", text)
}

/// The same for a ratio, of which few trials may say nothing.
fn how_well_of_ratio(of: &Estimate, text: impl Fn(f64) -> String) -> String {
    match of.interval {
        Some(interval) if interval.says_nothing() => {
            format!("how sure {NOT_TOLD} from {} trials", of.count)
        }
        _ => how_well(of, text),
    }
}

/// Where the median of so many of something lies, or why that cannot be said.
#[must_use]
pub fn how_sure(of: &Estimate, noun: &str, text: impl Fn(f64) -> String) -> String {
    match (of.interval, of.count) {
        (Some(interval), n) => format!("{}, {n} {noun}s", interval.sure_range(text)),
        (None, 1) => format!("one {noun}, no interval"),
        (None, n) => format!("median of {n} {noun}s, too few for an interval"),
    }
}

/// The fastest whole array under a load.
#[must_use]
pub fn fastest(study: &RaidStudy, pattern: Pattern) -> Option<(&Row, &Figure)> {
    let all = study.rows.iter().filter_map(|row| {
        Some((row, row.in_state(State::Normal)?.figures[place(pattern)].as_ref()?))
    });
    all.max_by(|a, b| a.1.bytes_per_s.value.total_cmp(&b.1.bytes_per_s.value))
}

/// A load in words.
#[must_use]
pub fn load(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::SequentialWrite => "sequential write",
        Pattern::SequentialRead => "sequential read",
        Pattern::RandomRead => "random read",
        Pattern::RandomMix => "random mix",
    }
}

/// What arrives at the top under each workload, and which layer costs most.
#[must_use]
pub fn of_layers(study: &LayersStudy) -> String {
    let words: Vec<String> = study.workloads.iter().filter_map(of_workload).collect();
    match words.as_slice() {
        [] => "No answer: see the findings below.".to_owned(),
        words => format!("In these trials {}.", words.join("; ")),
    }
}

fn of_workload(of: &OfWorkload) -> Option<String> {
    let top = of.rows.last()?;
    let rate = format_rate(top.bytes_per_s.value);
    let share = |row: &&Layer| row.efficiency.is_some();
    let share_of = |row: &Layer| row.efficiency.map_or(1.0, |share| share.value);
    let least = |a: &&Layer, b: &&Layer| share_of(a).total_cmp(&share_of(b));
    let costly = of.rows.iter().filter(share).min_by(least);
    let cost = costly.and_then(|row| {
        let (share, name) = (row.efficiency?, row.layer.name());
        let kept = format_share(share.value);
        let known = how_well_of_ratio(&share, format_share);
        Some(match share.value < 0.995 {
            true => format!(
                "; the costliest layer, {name}, keeps {kept} of what is below it ({known})"
            ),
            false => format!(
                "; no layer is seen to cost anything, {name} keeps least: {kept} of what is below it ({known})"
            ),
        })
    });
    let (name, workload) = (top.layer.name(), &of.workload);
    let known = how_well(&top.bytes_per_s, format_rate);
    Some(format!("{name} gets {rate} of {workload} ({known}){}", cost.unwrap_or_default()))
}

/// The busiest device of a watch with its figures.
#[must_use]
pub fn of_watch(summary: &WatchSummary) -> String {
    let over = format!("In {}", lengths(summary).trim_end());
    let figure = |device: &'_ WatchedDevice, name: &str| -> Option<WatchFigure> {
        device.figures.iter().find(|figure| figure.name == name).cloned()
    };
    let busy = |device: &&WatchedDevice| figure(device, "%util").map_or(0.0, |of| of.mean);
    let busiest = summary.devices.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let Some(device) = busiest.filter(|device| !device.figures.is_empty()) else {
        return format!("{over}, no device that was watched did anything.");
    };
    let words = |name: &str, unit: &str| {
        let of = figure(device, name)?;
        let text = |value: f64| format!("{} {unit}", format_figure(value));
        let known = of.interval.map_or_else(|| "no interval".into(), |i| i.sure_range(text));
        Some(format!("{name} median {} ({known}), at most {}", text(of.median), text(of.max)))
    };
    let all = [("%util", "%"), ("r_await", "ms"), ("w_await", "ms")];
    let said: Vec<String> = all.iter().filter_map(|(name, unit)| words(name, unit)).collect();
    format!(
        "{over}, {} was the busiest of {} devices: {}.",
        device.name,
        summary.devices.len(),
        said.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_comes_with_its_interval_or_with_why_it_has_none() {
        let said = |rates: &[f64]| {
            let median = fathom_stats::interval::median_interval(rates, 0.95);
            how_well(&median.expect("finite"), format_rate)
        };
        assert_eq!(said(&[1e6]), "one trial, no interval");
        assert_eq!(said(&[1e6, 2e6, 3e6]), "median of 3 trials, too few for an interval");
        let six = [1e6, 2e6, 3e6, 4e6, 5e6, 6e6];
        assert_eq!(said(&six), "97 %: 1.0 to 6.0 MB/s, 6 trials");
    }
}
