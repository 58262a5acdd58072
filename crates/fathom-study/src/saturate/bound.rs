//! The highest load that keeps a latency bound: `p99:2ms`, `max:500ms`. Loads are rates of an open loop; the rate is
//! found by halving, then measured again. A pure state machine: the caller measures.

use fathom_base::units::{format_ns, parse_duration_ns};
use fathom_model::record::{OpClass, Record};
use fathom_stats::{Histogram, quantile};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What a bound is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Of {
    /// A quantile, above 0 and below 1.
    Quantile(f64),
    /// Every single request.
    Max,
}

/// A bound on the response time, from the intended start to the end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Of which requests.
    pub of: Of,
    /// The most that it may be.
    pub most_ns: u64,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write what and how long, such as p99:2ms, p99.9:20ms or max:500ms";
        let (of, time) = text.split_once(':').ok_or_else(|| format!("'{text}': {FORM}"))?;
        let most_ns = parse_duration_ns(time).map_err(|e| format!("'{text}': {e}"))?;
        let percent = of.strip_prefix('p').and_then(|p| p.parse::<f64>().ok());
        let of = match (of, percent) {
            ("max", _) => Of::Max,
            (_, Some(p)) if p > 0.0 && p < 100.0 => Of::Quantile(p / 100.0),
            _ => return Err(format!("'{text}': {FORM}")),
        };
        if most_ns == 0 {
            return Err(format!("'{text}': nothing takes no time; {FORM}"));
        }
        Ok(Self { of, most_ns })
    }
}

impl Bound {
    /// `p99`, `max`.
    #[must_use]
    pub fn what(&self) -> String {
        match self.of {
            Of::Max => "max".to_owned(),
            // Back from the share, without the digits that rounding adds.
            Of::Quantile(q) => format!("p{}", (q * 1e8).round() / 1e6),
        }
    }

    /// The figure that the bound is about; none where the requests are too few for it.
    #[must_use]
    pub fn figure_ns(&self, response_ns: &Histogram) -> Option<u64> {
        match self.of {
            Of::Max => response_ns.max(),
            Of::Quantile(q) if quantile::is_supported(response_ns.count(), q) => {
                response_ns.quantile(q)
            }
            Of::Quantile(_) => None,
        }
    }

    /// The fewest requests that can say something: ten beyond a quantile, a hundred for the slowest of all.
    #[must_use]
    pub fn requests_needed(&self) -> u64 {
        match self.of {
            Of::Max => 100,
            Of::Quantile(q) => quantile::values_needed(q).max(100),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {}", self.what(), format_ns(self.most_ns))
    }
}

/// Response times of the open loops of a record: what had not ended counts with the age that it had.
#[must_use]
pub fn response_ns(record: &Record) -> Histogram {
    // A write with its sync is one request; its parts are no further ones.
    const WHOLE: [OpClass; 5] =
        [OpClass::Read, OpClass::Write, OpClass::Commit, OpClass::Trim, OpClass::Zero];
    let mut all = Histogram::new();
    for open in record.jobs.iter().filter_map(|job| job.open_loop.as_ref()) {
        all.merge(&open.merged(&WHOLE).at_least_ns());
    }
    all
}

/// Whether a run at a rate kept the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// It did.
    Yes,
    /// It did not, or more was due than could be done.
    No,
    /// Too few requests to tell.
    TooFew,
}

/// Judges one open-loop run.
#[must_use]
pub fn kept(record: &Record, bound: &Bound) -> Kept {
    if crate::open_loop::overloaded(record).is_some() {
        return Kept::No;
    }
    let response_ns = response_ns(record);
    match bound.figure_ns(&response_ns) {
        _ if response_ns.count() < bound.requests_needed() => Kept::TooFew,
        Some(ns) if ns <= bound.most_ns => Kept::Yes,
        Some(_) => Kept::No,
        None => Kept::TooFew,
    }
}

/// Rates nearer than this ratio are not told apart.
pub const RESOLUTION: f64 = 1.05;
/// Runs at the rate that was found, after the one that found it; all of them have to keep the bound.
pub const REPEATS: usize = 3;
/// Below this share of the highest throughput the search gives up.
const SHARE_MIN: f64 = 1.0 / 300.0;

/// The answer of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answer {
    /// The highest rate at which every run kept the bound; none when there was none.
    pub rate: Option<f64>,
    /// Runs at that rate.
    pub runs: usize,
    /// The lowest rate above it that did not keep the bound; none when the highest throughput itself did.
    pub broken_at: Option<f64>,
    /// True when the search came to its end, and not the time to its own.
    pub is_finished: bool,
    /// True when the rate was measured again as often as it should, and the two rates are near enough.
    pub is_verified: bool,
}

/// The search for the rate.
#[derive(Debug, Clone)]
pub struct Search {
    /// No rate above this is tried: the highest throughput of the closed loop.
    top: f64,
    guess: f64,
    /// Every rate with the runs that kept the bound at it, and those that did not.
    rates: Vec<(f64, usize, usize)>,
    too_few: bool,
}

impl Search {
    /// A search up to `top` requests per second, beginning at `guess`.
    #[must_use]
    pub fn new(top: f64, guess: f64) -> Self {
        let top = rounded(top);
        Self { top, guess: rounded(guess).min(top), rates: Vec::new(), too_few: false }
    }

    /// The next rate, when the time is enough for `left` more runs. None ends the search.
    #[must_use]
    pub fn next(&self, left: usize) -> Option<f64> {
        if left == 0 || self.too_few {
            return None;
        }
        let Some((low, runs)) = self.highest_kept() else {
            let Some(high) = self.lowest_broken(0.0) else { return Some(self.guess) };
            let next = rounded(high / 2.0);
            let is_once =
                |(rate, kept, broken): &(f64, usize, usize)| *rate == high && kept + broken < 2;
            // That no load keeps the bound is not said after one run at the lowest.
            let again = || self.rates.iter().any(is_once).then_some(high);
            return if next >= self.top * SHARE_MIN { Some(next) } else { again() };
        };
        let again = (runs <= REPEATS).then_some(low);
        match self.lowest_broken(low) {
            // The last runs are for making sure.
            _ if left <= REPEATS + 1 - runs.min(REPEATS) => again,
            None if low >= self.top => again,
            None => Some(rounded(low * 2.0).min(self.top)),
            Some(high) => {
                let middle = rounded((low * high).sqrt());
                let is_new = high > low * RESOLUTION && middle > low && middle < high;
                if is_new { Some(middle) } else { again }
            }
        }
    }

    /// Takes in a result.
    pub fn measured(&mut self, rate: f64, kept: Kept) {
        let counts = |kept| (usize::from(kept == Kept::Yes), usize::from(kept == Kept::No));
        self.too_few |= kept == Kept::TooFew;
        let (yes, no) = counts(kept);
        match self.rates.iter_mut().find(|(known, ..)| *known == rate) {
            Some((_, kept, broken)) => (*kept, *broken) = (*kept + yes, *broken + no),
            None => self.rates.push((rate, yes, no)),
        }
    }

    /// What it has come to so far.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let (rate, runs) = self.highest_kept().unzip();
        let broken_at = self.lowest_broken(rate.unwrap_or(0.0));
        let is_near = match (rate, broken_at) {
            (Some(rate), Some(broken)) => broken <= rate * RESOLUTION,
            (Some(rate), None) => rate >= self.top,
            (None, _) => false,
        };
        let runs = runs.unwrap_or(0);
        let is_finished = self.next(usize::MAX).is_none();
        Answer { rate, runs, broken_at, is_finished, is_verified: is_near && runs > REPEATS }
    }

    /// The highest rate below every broken one at which no run broke the bound. A higher one that was kept by luck, while a
    /// lower one was not, does not count.
    fn highest_kept(&self) -> Option<(f64, usize)> {
        let broken = self.lowest_broken(0.0).unwrap_or(f64::INFINITY);
        let kept = self.rates.iter().filter(|(rate, kept, _)| *kept > 0 && *rate < broken);
        kept.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(rate, kept, _)| (*rate, *kept))
    }

    fn lowest_broken(&self, above: f64) -> Option<f64> {
        let broken = self.rates.iter().filter(|(rate, _, broken)| *broken > 0 && *rate > above);
        broken.map(|(rate, ..)| *rate).min_by(f64::total_cmp)
    }
}

/// Three digits: more would not be measured.
fn rounded(rate: f64) -> f64 {
    if rate <= 0.0 || !rate.is_finite() {
        return 1.0;
    }
    let unit = 10f64.powf(rate.log10().floor() - 2.0);
    let rounded = (rate / unit).round() * unit;
    // Units below one are not exact; a hundredth of a request per second is enough.
    if unit >= 1.0 { rounded.round() } else { (rounded * 100.0).round().max(1.0) / 100.0 }
}

#[cfg(test)]
#[path = "bound_tests.rs"]
mod tests;
