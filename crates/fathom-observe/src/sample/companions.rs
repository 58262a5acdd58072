//! Which device is slower than those that do the same work beside it: a member of an array among its companions.

use fathom_base::order::Order;
use fathom_model::watch::FlowRates;

/// One of several that should do alike.
#[derive(Debug, Clone, Copy)]
pub struct Companion {
    /// Requests of both directions in the interval.
    pub requests: [u64; 2],
    /// Reads and writes.
    pub flows: [FlowRates; 2],
    /// Busy share, in percent.
    pub util_percent: f64,
}

/// Fewest requests of an interval whose mean time is worth a comparison.
const REQUESTS_MIN: u64 = 10;
/// How many times slower than the median of the others.
const TIMES_MIN: f64 = 2.0;
/// And by how much at least: below, it is the noise of whole milliseconds.
const MORE_MS_MIN: f64 = 1.0;

/// Why each of them stands out, where it does: its requests take at least twice as long as those of the others in the median, and
/// a millisecond more. With two, one of them can.
#[must_use]
pub fn stand_out(companions: &[Companion]) -> Vec<Option<String>> {
    (0..companions.len()).map(|at| of_one(companions, at)).collect()
}

fn of_one(companions: &[Companion], at: usize) -> Option<String> {
    let words = ["r_await", "w_await"];
    (0..2).find_map(|way| {
        let counted = |one: &Companion| {
            Some(one).filter(|one| one.requests[way] >= REQUESTS_MIN)?.flows[way].await_ms
        };
        let own = counted(&companions[at])?;
        let others = companions.iter().enumerate().filter(|(other, _)| *other != at);
        let mut others: Vec<f64> = others.filter_map(|(_, one)| counted(one)).collect();
        others.order_by(f64::total_cmp);
        let middle = median(&others)?;
        (own >= TIMES_MIN * middle && own - middle >= MORE_MS_MIN).then(|| {
            let beside = if others.len() == 1 { "its companion" } else { "its companions" };
            format!("{} {}, {beside} {}", words[way], milliseconds(own), milliseconds(middle))
        })
    })
}

fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

fn milliseconds(ms: f64) -> String {
    if ms < 9.95 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(requests: u64, await_ms: f64) -> Companion {
        let flow = FlowRates { await_ms: (requests > 0).then_some(await_ms), ..Default::default() };
        Companion {
            requests: [0, requests],
            flows: [FlowRates::default(), flow],
            util_percent: 0.0,
        }
    }

    #[track_caller]
    fn check(companions: &[Companion], expected: &[Option<&str>]) {
        let found = stand_out(companions);
        assert_eq!(found.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_slow_one_of_several_stands_out() {
        let reason = Some("w_await 38 ms, its companions 4.2 ms");
        check(
            &[one(80, 4.0), one(60, 38.0), one(70, 4.4), one(90, 4.2)],
            &[None, reason, None, None],
        );
        let reason = Some("w_await 9.0 ms, its companion 2.0 ms");
        check(&[one(80, 2.0), one(60, 9.0)], &[None, reason]);
    }

    #[test]
    fn noise_and_rare_requests_do_not() {
        check(&[one(80, 0.1), one(60, 0.9), one(70, 0.1)], &[None, None, None]);
        check(&[one(80, 4.0), one(9, 38.0), one(70, 4.0)], &[None, None, None]);
        check(&[one(80, 4.0)], &[None]);
        check(&[one(0, 0.0), one(80, 40.0)], &[None, None]);
        // All slow alike is no reason to name one.
        check(&[one(80, 40.0), one(80, 44.0), one(80, 38.0)], &[None, None, None]);
    }
}
