//! The figures of a row as people read them.

use fathom_base::order::Order;
use fathom_base::units;
use fathom_stats::{Histogram, quantile};
pub use fathom_study::figures::{Counted, Figures, per_second, rate_window_ns};

/// Shown for a percentile that too few operations stand behind.
pub const NOT_ENOUGH: &str = "n/a";

/// Bytes per second; `-` where the rate is not the point.
#[must_use]
pub fn rate_text(figures: &Figures) -> String {
    match figures.counted {
        Counted::Requests if !figures.has_rate() => "-".to_owned(),
        Counted::Requests => units::format_rate(figures.bytes_per_s),
        Counted::Commits | Counted::Transactions | Counted::Names => "-".to_owned(),
    }
}

/// In a shorter window starting and ending threads is most of the CPU time, and a tick of the kernel's counters more than all of it.
pub(crate) const CPU_WINDOW_NS_MIN: u64 = 1_000_000;

/// Said instead of a share.
pub(crate) const NO_CPU_SHARE: &str = "- (the window is too short to tell)";

/// CPU time as a share of one core; none of a window that is too short.
#[must_use]
pub fn cpu_text(figures: &Figures) -> String {
    if figures.window_ns < CPU_WINDOW_NS_MIN {
        return "-".to_owned();
    }
    format!("{:.0} %", figures.cpu.total_ns() as f64 / figures.window_ns as f64 * 100.0)
}

/// Operations per second: whole above ten, with one decimal below.
#[must_use]
pub fn iops_text(iops: f64) -> String {
    if iops > 0.0 && iops < 9.95 {
        format!("{iops:.1}")
    } else {
        units::format_count(iops.round() as u64)
    }
}

/// The operations per second of a row; `-` where its window holds no whole one.
#[must_use]
pub fn iops_of(figures: &Figures) -> String {
    if figures.has_rate() { iops_text(figures.iops) } else { "-".to_owned() }
}

/// A percentile, [`NOT_ENOUGH`] when the count does not support it, `-` when there is nothing at all.
#[must_use]
pub fn quantile_text(latency_ns: &Histogram, q: f64) -> String {
    match latency_ns.quantile(q) {
        None => "-".to_owned(),
        Some(_) if !quantile::is_supported(latency_ns.count(), q) => NOT_ENOUGH.to_owned(),
        Some(ns) => units::format_ns(ns),
    }
}

/// Percentiles of `count` latencies in words, each with its name, its share and its nanoseconds: `p50 100 us, p99 3.0 ms`. Those that
/// too few stand behind are left out, and the longest is told last.
#[must_use]
pub fn percentile_words(count: u64, percentiles: &[(&str, f64, u64)], longest_ns: u64) -> String {
    let supported = percentiles.iter().filter(|(_, q, _)| quantile::is_supported(count, *q));
    let words = supported.map(|(name, _, ns)| format!("{name} {}, ", units::format_ns(*ns)));
    words.chain([format!("longest {}", units::format_ns(longest_ns))]).collect()
}

/// Nanoseconds that may be missing.
#[must_use]
pub fn ns_text(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), units::format_ns)
}

/// The percentiles of a table that are shown as [`NOT_ENOUGH`], for its footnote.
#[derive(Debug, Default)]
pub struct NotEnough {
    /// Names of percentiles and the numbers of operations that they need.
    needed: Vec<(&'static str, u64)>,
}

impl NotEnough {
    /// Notes those of a row.
    pub fn look_at(&mut self, latency_ns: &Histogram, percentiles: &[(&'static str, f64)]) {
        let missing = |q: f64| !quantile::is_supported(latency_ns.count(), q);
        for (name, q) in percentiles.iter().filter(|(_, q)| missing(*q)) {
            let needed = (*name, quantile::values_needed(*q));
            if !latency_ns.is_empty() && !self.needed.contains(&needed) {
                self.needed.push(needed);
            }
        }
    }

    /// The footnote; none where every percentile is shown.
    pub fn note(mut self) -> Option<String> {
        self.needed.order_by_key(|(_, count)| *count);
        let needs =
            |(name, count): &(&str, u64)| format!("{name} needs {}", units::format_count(*count));
        let all: Vec<String> = self.needed.iter().map(needs).collect();
        (!all.is_empty()).then(|| {
            format!(
                "n/a: too few operations (ten must lie beyond a percentile: {}).",
                all.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_leave_out_what_few_stand_behind() {
        let words =
            |count| percentile_words(count, &[("p50", 0.5, 1_000), ("p99", 0.99, 2_000)], 3_000);
        assert_eq!(words(1), "longest 3.0 us");
        assert_eq!(words(2), "p50 1.0 us, longest 3.0 us");
        assert_eq!(words(999), words(2));
        assert_eq!(words(1000), "p50 1.0 us, p99 2.0 us, longest 3.0 us");
    }

    #[test]
    fn the_footnote_names_what_is_missing() {
        let note = |count: u64| {
            let mut latency_ns = Histogram::new();
            (0..count).for_each(|_| latency_ns.record(1));
            let mut missing = NotEnough::default();
            missing.look_at(&latency_ns, &[("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)]);
            missing.look_at(&latency_ns, &[("p99", 0.99)]);
            missing.note()
        };
        let of = |needs: &str| {
            Some(format!("n/a: too few operations (ten must lie beyond a percentile: {needs})."))
        };
        assert_eq!(note(0), None, "nothing at all is shown as -");
        assert_eq!(note(199), of("p95 needs 200, p99 needs 1 000, p99.9 needs 10 000"));
        assert_eq!(note(200), of("p99 needs 1 000, p99.9 needs 10 000"));
        assert_eq!(note(1000), of("p99.9 needs 10 000"));
        assert_eq!(note(10_000), None);
    }
}
