//! A job's series as one line of characters.

use crate::figures::{Figures, iops_text, per_second};
use fathom_base::units;
use fathom_model::record::{IntervalRecord, JobRecord, OpClass};

/// From nothing to the highest value.
const LEVELS: &[u8] = b"_.:-=+*#";

/// Characters in the line; longer series are drawn with several intervals per character.
const CHARS_MAX: usize = 60;

/// The operations per second of each interval: the line, its scale, and the extremes. None for fewer than two
/// intervals.
pub(crate) fn line(job: &JobRecord) -> Option<String> {
    let classes = Figures::of_job(job).counted.classes();
    let (drawn, scale) = drawn(job, |intervals| rate(intervals, classes))?;
    let kept = kept(job);
    let rates = kept.iter().map(|one| rate(std::slice::from_ref(one), classes));
    let (min, max) =
        rates.fold((f64::INFINITY, 0.0f64), |(min, max), rate| (min.min(rate), max.max(rate)));
    let of_intervals = if kept.len() <= CHARS_MAX {
        String::new()
    } else {
        format!(" in intervals of {}", time(kept[0].length_ns))
    };
    let (min, max) = (iops_text(min), iops_text(max));
    Some(format!("|{drawn}| {scale} per character; min {min}, max {max}{of_intervals}"))
}

/// A series as one line of characters, each the value of one or several intervals, and how long a character is. None for
/// fewer than two intervals.
pub(crate) fn drawn(
    job: &JobRecord,
    value: impl Fn(&[IntervalRecord]) -> f64,
) -> Option<(String, String)> {
    let kept = kept(job);
    if kept.len() < 2 {
        return None;
    }
    let per_char = kept.len().div_ceil(CHARS_MAX);
    let points: Vec<f64> = kept.chunks(per_char).map(value).collect();
    let highest = points.iter().copied().fold(0.0, f64::max);
    let drawn = points.iter().map(|point| level(*point, highest)).collect();
    Some((drawn, time(kept[0].length_ns * per_char as u64)))
}

/// All intervals; a last one that is less than half as long as the first is left out: its rate is noise.
fn kept(job: &JobRecord) -> &[IntervalRecord] {
    match job.series.as_slice() {
        [first, .., last] if last.length_ns * 2 < first.length_ns => {
            &job.series[..job.series.len() - 1]
        }
        all => all,
    }
}

/// Intervals are whole seconds, or shorter than one.
fn time(ns: u64) -> String {
    if ns < 1_000_000_000 { units::format_ns(ns) } else { units::format_duration(ns) }
}

fn rate(intervals: &[IntervalRecord], classes: &[OpClass]) -> f64 {
    let ended = intervals
        .iter()
        .flat_map(|interval| &interval.classes)
        .filter(|record| classes.contains(&record.class))
        .map(|record| record.latency_ns.count())
        .sum();
    per_second(ended, intervals.iter().map(|interval| interval.length_ns).sum())
}

fn level(rate: f64, highest: f64) -> char {
    if highest <= 0.0 {
        return char::from(LEVELS[0]);
    }
    let step = (rate / highest * (LEVELS.len() - 1) as f64).round() as usize;
    char::from(LEVELS[step.min(LEVELS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{job, series};

    fn drawn(counts: &[u64], length_ns: u64) -> Option<String> {
        let mut job = job("x");
        job.series = series(counts, length_ns);
        line(&job)
    }

    #[test]
    fn short_intervals_keep_their_unit() {
        let text = drawn(&[1, 2, 3], 100_000_000);
        assert!(text.is_some_and(|t| t.contains("| 100 ms per character;")));
    }

    #[test]
    fn stalls_are_seen() {
        assert_eq!(
            drawn(&[100, 100, 0, 50, 100], 1_000_000_000).as_deref(),
            Some("|##_=#| 1 s per character; min 0, max 100")
        );
        assert_eq!(drawn(&[100], 1_000_000_000), None);
        assert_eq!(drawn(&[0, 0], 1_000_000_000).as_deref().map(|t| &t[..4]), Some("|__|"));
    }

    #[test]
    fn long_series_are_merged_and_short_ends_dropped() {
        let text = drawn(&[10; 150], 1_000_000_000).unwrap_or_default();
        let expected = "| 3 s per character; min 10, max 10 in intervals of 1 s";
        assert_eq!(text, format!("|{}{expected}", "#".repeat(50)));
        let mut job = job("x");
        job.series = series(&[100, 100, 900], 1_000_000_000);
        job.series[2].length_ns = 100_000_000;
        assert!(line(&job).is_some_and(|text| text.ends_with("max 100")));
    }
}
