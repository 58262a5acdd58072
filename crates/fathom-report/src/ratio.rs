//! Ratios as changes: in percent as long as percents mean something, else as multiples.

use fathom_stats::interval::Interval;
use std::ops::Range;

/// Where percents mean something: -80 % and -95 % look alike, and +1900 % is hard to read.
const PERCENTS: Range<f64> = 1.0 / 3.0..3.0;

/// A ratio as a change with its sign.
#[must_use]
pub fn change(ratio: f64) -> String {
    if PERCENTS.contains(&ratio) { percent(ratio) } else { multiple(ratio) }
}

/// The size of a change without its direction.
#[must_use]
pub fn size(ratio: f64) -> String {
    if PERCENTS.contains(&ratio) {
        format!("{:.1} %", 100.0 * (ratio - 1.0).abs())
    } else {
        format!("{} times", times(if ratio < 1.0 { 1.0 / ratio } else { ratio }))
    }
}

/// Both ends of an interval of a ratio, in the same form.
#[must_use]
pub fn ends(interval: Interval) -> [String; 2] {
    let ends = [interval.low, interval.high];
    let form = if ends.iter().all(|end| PERCENTS.contains(end)) { percent } else { multiple };
    ends.map(form)
}

/// An interval of a ratio.
#[must_use]
pub fn interval(interval: Interval) -> String {
    ends(interval).join(" .. ")
}

/// Three digits that count.
#[must_use]
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r if r >= 0.1 => format!("{r:.2}"),
        r => format!("{r:.4}"),
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
    fn both_ends_have_one_form() {
        let of = |low, high| interval(Interval { low, high, coverage: 0.95 });
        assert_eq!(of(0.9, 1.2), "-10.0 % .. +20.0 %");
        assert_eq!(of(0.33, 0.501), "x 0.33 .. x 0.50");
        assert_eq!(of(1.1, 4.0), "x 1.10 .. x 4.00");
        assert_eq!(of(0.048, 12.34), "x 0.0480 .. x 12.3");
    }

    #[test]
    fn changes_are_percents_as_long_as_these_mean_something() {
        for (ratio, as_change, as_size) in [
            (1.12, "+12.0 %", "12.0 %"),
            (0.44, "-56.0 %", "56.0 %"),
            (0.25, "x 0.25", "4.00 times"),
            (3.0, "x 3.00", "3.00 times"),
            (0.0001, "x 0.0001", "10000 times"),
            (1.0, "+0.0 %", "0.0 %"),
            (250.4, "x 250", "250 times"),
        ] {
            assert_eq!((change(ratio).as_str(), size(ratio).as_str()), (as_change, as_size));
        }
    }
}
