//! Two watches side by side: medians of the same figures of the same devices.

use super::{LEVEL, WatchFigure, WatchSummary};
use fathom_stats::interval::Interval;
use serde::Serialize;

/// One figure of one device in both.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchChange {
    /// Kernel name.
    pub device: String,
    /// The word of iostat, or the name of an application's figure.
    pub figure: String,
    /// Median of A.
    pub a: f64,
    /// Median of B.
    pub b: f64,
    /// By how much B is more, in percent; none where A is zero.
    pub change_percent: Option<f64>,
    /// Where the difference of the medians lies, in the unit of the figure; none where one of them is too short.
    pub difference: Option<Interval>,
    /// True when that does not hold zero: the two watches differ. Not that the next two would.
    pub differs: bool,
}

/// Two watches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchComparison {
    /// Figures of devices that both have.
    pub changes: Vec<WatchChange>,
    /// Devices that only one has.
    pub only_in_one: Vec<String>,
}

/// Compares two watches. Devices are told by name, in the tree's order of A.
#[must_use]
pub fn compare(a: &WatchSummary, b: &WatchSummary) -> WatchComparison {
    let mut changes = Vec::new();
    for device in &a.devices {
        let Some(other) = b.devices.iter().find(|other| other.name == device.name) else {
            continue;
        };
        for figure in &device.figures {
            let Some(beside) = other.figures.iter().find(|f| f.name == figure.name) else {
                continue;
            };
            changes.push(change(&device.name, figure, beside));
        }
    }
    if let Some((a, b)) = a.application.as_ref().zip(b.application.as_ref()) {
        let own = [("seconds".to_owned(), a.took_ns as f64 / 1e9, b.took_ns as f64 / 1e9)];
        let figures = a.figures.iter().filter_map(|(name, value)| {
            b.figures.get(name).map(|other| (name.clone(), *value, *other))
        });
        changes.extend(own.into_iter().chain(figures).map(|(figure, a, b)| WatchChange {
            device: "application".to_owned(),
            figure,
            a,
            b,
            change_percent: percent(a, b),
            difference: None,
            differs: false,
        }));
    }
    let is_in = |summary: &WatchSummary, name: &str| summary.devices.iter().any(|d| d.name == name);
    let only_a = a.devices.iter().filter(|device| !is_in(b, &device.name));
    let only_b = b.devices.iter().filter(|device| !is_in(a, &device.name));
    let only_in_one = only_a.chain(only_b).map(|device| device.name.clone()).collect();
    WatchComparison { changes, only_in_one }
}

fn percent(a: f64, b: f64) -> Option<f64> {
    (a != 0.0).then(|| 100.0 * (b - a) / a)
}

/// The interval of the difference: both reaches at right angles, as errors of two independent watches add up.
fn change(device: &str, a: &WatchFigure, b: &WatchFigure) -> WatchChange {
    let difference = a.interval.zip(b.interval).map(|(of_a, of_b)| {
        let middle = b.median - a.median;
        let down = (b.median - of_b.low).hypot(of_a.high - a.median);
        let up = (of_b.high - b.median).hypot(a.median - of_a.low);
        Interval { low: middle - down, high: middle + up, coverage: LEVEL }
    });
    WatchChange {
        device: device.to_owned(),
        figure: a.name.clone(),
        a: a.median,
        b: b.median,
        change_percent: percent(a.median, b.median),
        differs: difference.is_some_and(|of| !of.contains(0.0)),
        difference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::summary;
    use crate::watch::tests::watch;

    #[test]
    fn a_difference_is_one_when_it_is_more_than_the_noise() {
        let of = |base: u64| {
            let reads: Vec<u64> = (0..60).map(|x| base + x * 37 % 11).collect();
            summary(&watch(&reads))
        };
        let reads = |a: &WatchSummary, b: &WatchSummary| {
            let found = compare(a, b);
            found.changes.into_iter().find(|change| change.figure == "r/s").expect("both read")
        };
        let more = reads(&of(50), &of(70));
        assert!(more.differs && (more.a, more.b) == (55.0, 75.0), "{more:?}");
        assert!((more.change_percent.expect("a number") - 36.4).abs() < 0.1);
        assert!(!reads(&of(50), &of(50)).differs);
    }

    #[test]
    fn short_watches_have_no_intervals_and_devices_may_be_missing() {
        let short = summary(&watch(&[10, 12, 11]));
        let found = compare(&short, &WatchSummary::default());
        assert_eq!((found.changes.len(), found.only_in_one), (0, vec!["sda".to_owned()]));
        let found = compare(&short, &short);
        assert!(found.changes.iter().all(|change| change.difference.is_none() && !change.differs));
    }
}
