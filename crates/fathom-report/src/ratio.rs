//! Ratios as changes: in percent as long as percents mean something, else as multiples.

use fathom_base::units::format_range;
use fathom_stats::interval::{Estimate, Interval};
use std::ops::Range;

/// Where percents mean something: -80 % and -95 % look alike, and +1900 % is hard to read.
const PERCENTS: Range<f64> = 1.0 / 3.0..3.0;

/// A ratio as a change with its sign.
#[must_use]
pub fn change(ratio: f64) -> String {
    if PERCENTS.contains(&ratio) { percent(ratio) } else { multiple(ratio) }
}

/// A ratio as a change in the form that its interval has: a multiple where one of its ends is.
#[must_use]
pub fn change_with(ratio: f64, interval: Option<Interval>) -> String {
    let is_wide = |of: Interval| [of.low, of.high].iter().any(|end| !PERCENTS.contains(end));
    if interval.is_some_and(is_wide) { multiple(ratio) } else { change(ratio) }
}

/// The size of a change without its direction, and its interval in the same form: `12.0 % | +8.1 to +16.0 %`, and of a
/// quarter `4.00 times | 3.33 to 5.88 times`.
#[must_use]
pub fn size_and_range(ratio: f64, interval: Interval) -> (String, String) {
    let all = [interval.low, ratio, interval.high];
    if all.iter().all(|ratio| PERCENTS.contains(ratio)) {
        return (format!("{:.1} %", 100.0 * (ratio - 1.0).abs()), self::interval(interval));
    }
    let factor =
        |ratio: f64| format!("{} times", times(if ratio < 1.0 { 1.0 / ratio } else { ratio }));
    let range = if interval.low >= 1.0 {
        interval.range(factor)
    } else if interval.high <= 1.0 {
        format_range(&factor(interval.high), &factor(interval.low))
    } else {
        self::interval(interval)
    };
    (factor(ratio), range)
}

/// In the place of an interval that says nothing.
pub const NOT_TOLD: &str = "cannot be told";

/// What that means, where it is said of one of these.
#[must_use]
pub fn not_told_note(of: impl IntoIterator<Item = Estimate>) -> Option<&'static str> {
    let mut intervals = of.into_iter().filter_map(|of| of.interval);
    intervals.any(|interval| interval.says_nothing()).then_some(
        "cannot be told: the ends of the interval lie a factor of more than 1000 apart, because there are too few trials, or they scatter too \
         much.",
    )
}

/// An interval of a ratio, both ends in the same form.
#[must_use]
pub fn interval(interval: Interval) -> String {
    if interval.says_nothing() {
        return NOT_TOLD.to_owned();
    }
    let is_small = [interval.low, interval.high].iter().all(|end| PERCENTS.contains(end));
    interval.range(if is_small { percent } else { multiple })
}

/// Three digits that count.
#[must_use]
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r if r >= 0.1 => format!("{r:.2}"),
        // As many zeroes as it takes, to nine digits.
        r if r >= 1e-8 => format!("{r:.*}", 2 + (-r.log10()).ceil() as usize),
        _ => "0".to_owned(),
    }
}

/// Scatter, a standard deviation of logarithms, with its interval: `1.2 % (0.9 to 1.8 %)`.
#[must_use]
pub fn scatter(deviation: &Estimate) -> String {
    // Below 1 % one digit more, for the value and both ends alike.
    let digits = if deviation.value < 0.01 { 2 } else { 1 };
    let percent = |share: f64| format!("{:.digits$}", 100.0 * share);
    let interval =
        deviation.interval.map(|of| format!(" ({} to {} %)", percent(of.low), percent(of.high)));
    format!("{} %{}", percent(deviation.value), interval.unwrap_or_default())
}

/// What the intervals of several such are, for a sentence that names them.
#[must_use]
pub fn scatter_intervals(all: &[Estimate]) -> String {
    match all.iter().find_map(|of| of.interval) {
        Some(of) => format!("intervals of {} %", (1000.0 * of.coverage).round() / 10.0),
        None => "in these runs, no interval".to_owned(),
    }
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

fn multiple(ratio: f64) -> String {
    format!("x {}", times(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_has_its_interval() {
        let interval = Some(Interval { low: 0.0, high: 0.0184, coverage: 0.95 });
        let of = |value, interval| Estimate { value, interval, count: 8 };
        assert_eq!(scatter(&of(0.0123, interval)), "1.2 % (0.0 to 1.8 %)");
        assert_eq!(scatter(&of(0.0023, interval)), "0.23 % (0.00 to 1.84 %)");
        assert_eq!(scatter(&of(0.0123, None)), "1.2 %");
        assert_eq!(scatter_intervals(&[of(0.1, None), of(0.1, interval)]), "intervals of 95 %");
        assert_eq!(scatter_intervals(&[of(0.1, None)]), "in these runs, no interval");
    }

    #[test]
    fn both_ends_have_one_form() {
        let of = |low, high| interval(Interval { low, high, coverage: 0.95 });
        assert_eq!(of(0.9, 1.2), "-10.0 to +20.0 %");
        assert_eq!(of(0.33, 0.501), "x 0.33 to x 0.50");
        assert_eq!(of(1.1, 4.0), "x 1.10 to x 4.00");
        assert_eq!(of(0.048, 12.34), "x 0.0480 to x 12.3");
        // Two trials of which one is ten times the other.
        assert_eq!(of(9.4e-9, 623_595.0), "cannot be told");
        assert_eq!([of(0.0, 0.5), of(0.5, f64::INFINITY)], ["x 0 to x 0.50", "cannot be told"]);
    }

    #[test]
    fn a_change_has_the_form_of_its_interval() {
        let of = |low, high| Some(Interval { low, high, coverage: 0.95 });
        assert_eq!(change_with(0.5, of(0.4, 0.6)), "-50.0 %");
        assert_eq!(change_with(0.5, of(0.2, 0.6)), "x 0.50");
        assert_eq!(change_with(0.5, None), "-50.0 %");
    }

    #[test]
    fn changes_are_percents_as_long_as_these_mean_something() {
        for (ratio, text) in [
            (1.12, "+12.0 %"),
            (0.44, "-56.0 %"),
            (0.25, "x 0.25"),
            (3.0, "x 3.00"),
            (0.0001, "x 0.000100"),
            (0.000_018_13, "x 0.0000181"),
            (1.0, "+0.0 %"),
            (250.4, "x 250"),
        ] {
            assert_eq!(change(ratio), text);
        }
    }

    #[test]
    fn a_size_has_the_form_of_its_range() {
        for (low, ratio, high, size, range) in [
            (1.081, 1.12, 1.16, "12.0 %", "+8.1 to +16.0 %"),
            (0.40, 0.44, 0.50, "56.0 %", "-60.0 to -50.0 %"),
            (0.17, 0.25, 0.30, "4.00 times", "3.33 to 5.88 times"),
            (0.30, 0.44, 0.50, "2.27 times", "2.00 to 3.33 times"),
            (1.8, 4.0, 5.0, "4.00 times", "1.80 to 5.00 times"),
            (0.000_018, 0.000_019, 0.000_02, "52632 times", "50000 to 55556 times"),
            (0.2, 0.3, 1.1, "3.33 times", "x 0.20 to x 1.10"),
        ] {
            let got = size_and_range(ratio, Interval { low, high, coverage: 0.95 });
            assert_eq!(got, (size.to_owned(), range.to_owned()));
        }
    }
}
