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
/// Runs at the rate that was found that have to keep the bound, beside the one that found it.
pub const REPEATS: usize = 3;
/// So many runs that break a bound of a quantile are no accident. Of "every single request" one is enough.
const BREAKS: usize = 2;
/// Below this share of the highest throughput the search gives up.
const SHARE_MIN: f64 = 1.0 / 300.0;

/// The answer of a search.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Answer {
    /// The highest rate that keeps the bound; none when there was none.
    pub rate: Option<f64>,
    /// Runs at that rate that kept it.
    pub runs: usize,
    /// The lowest rate above it that did not keep the bound; none when the highest throughput itself did.
    pub broken_at: Option<f64>,
    /// True when the search came to its end, and not the time to its own.
    pub is_finished: bool,
    /// True when both rates were measured again as often as they should, and are near enough.
    pub is_verified: bool,
}

/// The search for the rate.
#[derive(Debug, Clone)]
pub struct Search {
    /// No rate above this is tried: the highest throughput of the closed loop.
    top: f64,
    guess: f64,
    /// Runs at one rate that prove it broken.
    breaks: usize,
    rates: Vec<Tried>,
    too_few: bool,
}

/// A rate with the runs that kept the bound at it, and those that did not.
#[derive(Debug, Clone, Copy)]
struct Tried {
    rate: f64,
    kept: usize,
    broken: usize,
}

impl Tried {
    /// One run that breaks it stands for nothing against two that keep it, where one is not proof enough.
    fn is_broken(&self, breaks: usize) -> bool {
        self.broken >= breaks || self.broken > 0 && self.kept < 2
    }

    /// Broken by one run, which another one may show to be an accident.
    fn is_open(&self, breaks: usize) -> bool {
        self.is_broken(breaks) && self.broken < breaks
    }
}

impl Search {
    /// A search up to `top` requests per second, beginning at `guess`.
    #[must_use]
    pub fn new(of: Of, top: f64, guess: f64) -> Self {
        let top = rounded(top);
        let breaks = if of == Of::Max { 1 } else { BREAKS };
        let guess = rounded(guess).min(top);
        Self { top, guess, breaks, rates: Vec::new(), too_few: false }
    }

    /// The next rate, when the time is enough for `left` more runs. None ends the search.
    #[must_use]
    pub fn next(&self, left: usize) -> Option<f64> {
        if left == 0 || self.too_few {
            return None;
        }
        let Some(low) = self.highest_kept() else {
            let Some(high) = self.lowest_broken(0.0) else { return Some(self.guess) };
            let next = rounded(high.rate / 2.0);
            let is_lowest = next < self.top * SHARE_MIN;
            // A rate that also kept it once is decided first; and that no load keeps it is not said after one run at the lowest.
            let again = (high.kept > 0 && high.is_open(self.breaks))
                || (is_lowest && high.kept + high.broken < 2);
            return if again { Some(high.rate) } else { (!is_lowest).then_some(next) };
        };
        let again = (low.kept <= REPEATS).then_some(low.rate);
        match self.lowest_broken(low.rate) {
            // The last runs are for making sure.
            _ if left <= REPEATS + 1 - low.kept.min(REPEATS) => again,
            None if low.rate >= self.top => again,
            None => Some(rounded(low.rate * 2.0).min(self.top)),
            Some(high) => {
                let middle = rounded((low.rate * high.rate).sqrt());
                let is_new =
                    high.rate > low.rate * RESOLUTION && middle > low.rate && middle < high.rate;
                match is_new {
                    true => Some(middle),
                    // One bad run must not be what the answer ends at.
                    false if high.is_open(self.breaks) => Some(high.rate),
                    false => again,
                }
            }
        }
    }

    /// Takes in a result.
    pub fn measured(&mut self, rate: f64, kept: Kept) {
        self.too_few |= kept == Kept::TooFew;
        let at = self.rates.iter().position(|tried| tried.rate == rate);
        let at = at.unwrap_or_else(|| {
            self.rates.push(Tried { rate, kept: 0, broken: 0 });
            self.rates.len() - 1
        });
        self.rates[at].kept += usize::from(kept == Kept::Yes);
        self.rates[at].broken += usize::from(kept == Kept::No);
    }

    /// What it has come to so far.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let low = self.highest_kept();
        let high = self.lowest_broken(low.map_or(0.0, |low| low.rate));
        let is_near = match (low, high) {
            (Some(low), Some(high)) => {
                high.rate <= low.rate * RESOLUTION && !high.is_open(self.breaks)
            }
            (Some(low), None) => low.rate >= self.top,
            (None, _) => false,
        };
        let runs = low.map_or(0, |low| low.kept);
        Answer {
            rate: low.map(|low| low.rate),
            runs,
            broken_at: high.map(|high| high.rate),
            is_finished: self.next(usize::MAX).is_none(),
            is_verified: is_near && runs > REPEATS,
        }
    }

    /// The highest rate below every broken one that kept the bound. A higher one that was kept by luck, while a lower one was
    /// not, does not count.
    fn highest_kept(&self) -> Option<Tried> {
        let broken = self.lowest_broken(0.0).map_or(f64::INFINITY, |high| high.rate);
        let kept = self.rates.iter().filter(|tried| tried.kept > 0 && tried.rate < broken);
        kept.max_by(|a, b| a.rate.total_cmp(&b.rate)).copied()
    }

    fn lowest_broken(&self, above: f64) -> Option<Tried> {
        let is_it = |tried: &&Tried| tried.is_broken(self.breaks) && tried.rate > above;
        self.rates.iter().filter(is_it).min_by(|a, b| a.rate.total_cmp(&b.rate)).copied()
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
