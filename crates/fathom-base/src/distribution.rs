//! Where I/O goes when it does not go everywhere alike: Pareto, normal, hot zones (Zipf has a module of its own), and
//! when it comes: exponential gaps.
//!
//! A distribution is made once, with all checks, and then only reads: threads share it, each draws from its own
//! [`Prng`]. A draw allocates nothing. Uniform places are [`Prng::below`], or [`crate::permutation::Shuffle`] without
//! repetition.

use crate::math::{exp, ln, ln_1p_over, unit};
use crate::permutation::{PLACES_MAX, Permutation, check_places};
use crate::prng::{Prng, chance_threshold};
use crate::units::format_number;
use crate::zipf::ZIPF_EXPONENT_MAX;
use thiserror::Error;

/// A distribution or an order that does not exist; the text names the value and what would work.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum DistributionError {
    /// Nothing to choose from.
    #[error(
        "the range holds no block: it is empty or smaller than one block; make the range longer or the block smaller"
    )]
    NoPlaces,
    /// More than [`PLACES_MAX`].
    #[error(
        "the range has {0} places, at most {PLACES_MAX} (2^52) can be addressed; use a larger alignment or a shorter range"
    )]
    TooManyPlaces(u64),
    /// Zipf exponent out of range.
    #[error(
        "zipf exponent {} is out of range: above 0, at most {ZIPF_EXPONENT_MAX}; typical are 0.8 to 1.2, and 0 would be uniform random access", format_number(*.0)
    )]
    ZipfExponent(f64),
    /// Pareto share out of range.
    #[error(
        "pareto share {} is out of range: above 0 and below 1; 0.2 sends 80 % of the I/O to 20 % of the space, 0.5 is uniform", format_number(*.0)
    )]
    ParetoShare(f64),
    /// Normal deviation out of range.
    #[error(
        "normal deviation {} % is out of range: above 0 %, at most 100 % of the range; 10 % sends 68 % of the I/O to the middle fifth", format_number(*.0)
    )]
    NormalDeviation(f64),
    /// A list without zones.
    #[error(
        "the list of zones is empty; write at least one pair of a share of the I/O and a share of the space, each list summing to 100 %"
    )]
    NoZones,
    /// A share that is negative or no number, or a zone without space.
    #[error(
        "zone {zone}: {} % of the I/O in {} % of the space is impossible; I/O needs 0 to 100 %, space more than 0 up to 100 %", format_number(*io_percent), format_number(*space_percent)
    )]
    ZoneShare {
        /// Which, counted from 1.
        zone: usize,
        /// Its share of I/O in percent.
        io_percent: f64,
        /// Its share of space in percent.
        space_percent: f64,
    },
    /// The I/O shares are more or less than everything.
    #[error("the zones' shares of I/O sum to {} %, not 100 %", format_number(*.0))]
    ZonesIo(f64),
    /// The space shares are more or less than everything.
    #[error(
        "the zones' shares of space sum to {} %, not 100 %; a zone that is never touched has 0 % of the I/O", format_number(*.0)
    )]
    ZonesSpace(f64),
    /// A zone that should get I/O but is smaller than one block.
    #[error(
        "zone {zone} ({} % of the space) holds no block in a range of {places} blocks; make the range or the zone larger", format_number(*space_percent)
    )]
    ZoneWithoutPlaces {
        /// Which, counted from 1.
        zone: usize,
        /// Its share of space in percent.
        space_percent: f64,
        /// How many blocks the whole range holds.
        places: u64,
    },
    /// A stride or a number of steps that does not fit the range.
    #[error(
        "a {what} of {value} is out of range: 1 to {places}, the number of blocks of the range"
    )]
    Steps {
        /// "stride" or "number of steps".
        what: &'static str,
        /// The value given.
        value: u64,
        /// How many blocks the range holds.
        places: u64,
    },
    /// A rate that gives no usable gaps.
    #[error("a rate of {} operations per second is out of range: above 0, at most {RATE_MAX}", format_number(*.0))]
    Rate(f64),
}

/// The highest rate of [`Exponential`], per second: a mean gap of 10 ns.
pub const RATE_MAX: f64 = 1e8;

/// Self-similar access: share `1 - h` of the I/O goes to share `h` of the places, and so again inside that share.
///
/// The rank is `floor(places * U^(ln h / ln(1 - h)))` with U uniform in (0, 1], the formula that fio's `pareto:h` and
/// sysbench's `--rand-type=pareto` use, so P(rank < h * places) = 1 - h. Source: J. Gray et al., "Quickly generating
/// billion-record synthetic databases", SIGMOD 1994 ("self-similar, 80-20 rule").
#[derive(Debug, Clone)]
pub struct Pareto {
    power: f64,
    scatter: Permutation,
}

impl Pareto {
    /// Over `0..places` with the parameter `share` = h. The seed decides which places are the hot ones; all threads of
    /// a job must be given the same.
    ///
    /// # Errors
    /// [`DistributionError::ParetoShare`] unless 0 < h < 1, or a number of places that is not 1 to [`PLACES_MAX`].
    pub fn new(places: u64, share: f64, seed: u64) -> Result<Self, DistributionError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(DistributionError::ParetoShare(share));
        }
        // -h * ln_1p_over(-h) is ln(1 - h), also for a tiny h.
        let power = ln(share.max(f64::MIN_POSITIVE)) / (-share * ln_1p_over(-share));
        Ok(Self { power: power.min(f64::MAX), scatter: Permutation::new(places, seed, 0)? })
    }

    /// A place of the range. Hot places are scattered over it.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        self.scatter.nth(self.rank(prng))
    }

    /// How hot the drawn place is: 0 is the hottest.
    #[inline]
    pub fn rank(&self, prng: &mut Prng) -> u64 {
        let places = self.scatter.places();
        let rank = places as i64 as f64 * exp(self.power * ln(unit(prng)));
        fill_gaps((rank as i64 as u64).min(places - 1), places, prng)
    }
}

/// Redraws the low bits of a rank above 2^32, where numbers computed in floating point lie on a grid with gaps.
///
/// Only for densities that are flat within a relative width of 2^-30: then no test of a size that can be run tells the
/// difference, and each place near a reachable one is reached.
#[inline]
pub(crate) fn fill_gaps(rank: u64, places: u64, prng: &mut Prng) -> u64 {
    if rank < 1 << 32 {
        return rank;
    }
    let mask = (1 << (rank.ilog2() - 30)) - 1;
    let filled = rank & !mask | prng.next_u64() & mask;
    // Beyond the end the rank drawn stands: it is one of less than 2^-30 of all.
    if filled < places { filled } else { rank }
}

/// Access around the middle of the range, dense there and thin at the ends: a normal distribution whose tails beyond
/// the range are drawn again, not folded back.
#[derive(Debug, Clone)]
pub struct Normal {
    places: f64,
    deviation: f64,
}

impl Normal {
    /// Around the middle of `0..places`, with a standard deviation in percent of the range.
    ///
    /// # Errors
    /// [`DistributionError::NormalDeviation`] unless 0 < deviation <= 100, or a number of places that is not 1 to
    /// [`PLACES_MAX`].
    pub fn new(places: u64, deviation_percent: f64) -> Result<Self, DistributionError> {
        check_places(places)?;
        if !(deviation_percent > 0.0 && deviation_percent <= 100.0) {
            return Err(DistributionError::NormalDeviation(deviation_percent));
        }
        let places = places as f64;
        Ok(Self { places, deviation: places * deviation_percent / 100.0 })
    }

    /// A place of the range.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        loop {
            let place = self.places / 2.0 + self.deviation * standard_normal(prng);
            if place >= 0.0 && place < self.places {
                return place as i64 as u64;
            }
        }
    }
}

/// G. Marsaglia, T. A. Bray, "A convenient method for generating normal variables", SIAM Review 6 (1964): the polar method.
#[inline]
fn standard_normal(prng: &mut Prng) -> f64 {
    loop {
        let x = 2.0 * unit(prng) - 1.0;
        let y = 2.0 * unit(prng) - 1.0;
        let square = x * x + y * y;
        if square < 1.0 && square > f64::MIN_POSITIVE {
            return x * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

/// One hot (or cold) part of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    /// Share of the I/O that goes there, in percent; 0 for a part that is never touched.
    pub io_percent: f64,
    /// Share of the space that it takes, in percent.
    pub space_percent: f64,
}

/// "90 % of the I/O in 10 % of the space": adjacent zones from the start of the range on, uniform within each.
#[derive(Debug, Clone)]
pub struct Zones {
    zones: Vec<ZoneRange>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ZoneRange {
    /// Cumulative threshold on 64 bits.
    below: u64,
    start: u64,
    places: u64,
}

/// How far a sum of shares may be from 100 %: decimal fractions do not sum exactly.
const PERCENT_TOLERANCE: f64 = 1e-6;

impl Zones {
    /// Zones over `0..places` in the order given. Both kinds of shares must sum to 100 %. Borders are rounded to whole
    /// places.
    ///
    /// # Errors
    /// [`DistributionError`] when the list is empty, a share is impossible, a sum is not 100 %, or a zone that should
    /// get I/O is smaller than one place.
    pub fn new(places: u64, zones: &[Zone]) -> Result<Self, DistributionError> {
        check_places(places)?;
        check_shares(zones)?;
        let (mut io, mut space, mut start) = (0.0, 0.0, 0);
        let mut ranges = Vec::with_capacity(zones.len());
        for (i, zone) in zones.iter().enumerate() {
            io += zone.io_percent / 100.0;
            space += zone.space_percent / 100.0;
            let is_last = i + 1 == zones.len();
            let end = if is_last { places } else { (places as f64 * space).round() as u64 };
            let end = end.clamp(start, places);
            if zone.io_percent > 0.0 {
                if start == end {
                    let space_percent = zone.space_percent;
                    return Err(DistributionError::ZoneWithoutPlaces {
                        zone: i + 1,
                        space_percent,
                        places,
                    });
                }
                ranges.push(ZoneRange { below: chance_threshold(io), start, places: end - start });
            }
            start = end;
        }
        if let Some(last) = ranges.last_mut() {
            last.below = u64::MAX;
        }
        Ok(Self { zones: ranges })
    }

    /// A place of the range.
    #[inline]
    pub fn draw(&self, prng: &mut Prng) -> u64 {
        let draw = prng.next_u64();
        let zone = self.zones.iter().find(|zone| draw < zone.below);
        // Only the very last value of a draw is below no threshold.
        let zone = zone.or(self.zones.last()).copied().unwrap_or_default();
        zone.start + prng.below(zone.places)
    }
}

fn check_shares(zones: &[Zone]) -> Result<(), DistributionError> {
    if zones.is_empty() {
        return Err(DistributionError::NoZones);
    }
    for (i, &Zone { io_percent, space_percent }) in zones.iter().enumerate() {
        let is_share = |percent: f64| (0.0..=100.0 + PERCENT_TOLERANCE).contains(&percent);
        if !is_share(io_percent) || !is_share(space_percent) || space_percent == 0.0 {
            return Err(DistributionError::ZoneShare { zone: i + 1, io_percent, space_percent });
        }
    }
    let io: f64 = zones.iter().map(|zone| zone.io_percent).sum();
    let space: f64 = zones.iter().map(|zone| zone.space_percent).sum();
    if (io - 100.0).abs() > PERCENT_TOLERANCE {
        return Err(DistributionError::ZonesIo(io));
    }
    if (space - 100.0).abs() > PERCENT_TOLERANCE {
        return Err(DistributionError::ZonesSpace(space));
    }
    Ok(())
}

/// Gaps between independent arrivals (a Poisson process): `-ln(U) / rate`.
#[derive(Debug, Clone, Copy)]
pub struct Exponential {
    mean_ns: f64,
}

impl Exponential {
    /// Arrivals at `rate` per second on average.
    ///
    /// # Errors
    /// [`DistributionError::Rate`] unless 0 < rate <= [`RATE_MAX`].
    pub fn from_rate(rate: f64) -> Result<Self, DistributionError> {
        if !(rate > 0.0 && rate <= RATE_MAX) {
            return Err(DistributionError::Rate(rate));
        }
        Ok(Self { mean_ns: 1e9 / rate })
    }

    /// Time to the next arrival in nanoseconds, rounded; the rounding moves the mean by less than 0.05 %, at rates
    /// below 10 million per second by less than 5 in a million. What does not fit into 64 bits is the largest number.
    #[inline]
    pub fn draw_ns(&self, prng: &mut Prng) -> u64 {
        (self.mean_ns * -ln(unit(prng)) + 0.5) as u64
    }
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
