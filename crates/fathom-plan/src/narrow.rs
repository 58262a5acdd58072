//! Narrowing: one numeric factor, searched by halving the interval around the best level.
//!
//! From the levels that the plan names, the interval between the neighbours of the best one is halved on its wider side: on
//! a logarithmic scale where all levels are positive, in the middle otherwise. It ends when nothing new lies between, or
//! the neighbours are near enough (`narrow_to`).

use crate::PlanError;
use crate::factor;
use fathom_base::order::Order;
use fathom_base::units;
use fathom_model::plan::{DesignKind, Plan};

/// Ends without being told: neighbours nearer than this to the best level.
const NARROW_TO: f64 = 0.1;

/// What comes next in a narrowing design.
#[derive(Debug, Clone, PartialEq)]
pub enum Narrowed {
    /// Measure this level too: the plan with it as its last level (indices of the cells before stay).
    Next {
        /// The level.
        level: String,
        /// The measured ones that it lies between.
        between: [String; 2],
        /// The plan that has it.
        plan: Box<Plan>,
    },
    /// The interval is narrow enough.
    Done {
        /// The best level.
        best: String,
        /// Its neighbours that were measured, where the best is not at an end of the range.
        between: (Option<String>, Option<String>),
        /// Why it ended, in words.
        reason: String,
    },
}

/// A level as a number, and how it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// A whole number.
    Count(u64),
    /// A size with a unit.
    Size(u64),
    /// A duration with a unit.
    Duration(u64),
}

impl Number {
    /// Reads a level; none when it is no number.
    pub(crate) fn of(level: &str) -> Option<Self> {
        if let Ok(count) = level.trim().parse() {
            return Some(Self::Count(count));
        }
        let size = units::parse_size(level).ok().map(Self::Size);
        // `2m` may be either: a duration only where no size has been written like it.
        size.or_else(|| units::parse_duration_ns(level).ok().map(Self::Duration))
    }

    fn value(self) -> u64 {
        match self {
            Self::Count(value) | Self::Size(value) | Self::Duration(value) => value,
        }
    }

    fn is_alike(self, other: Self) -> bool {
        // A bare 0 goes with everything.
        let both = std::mem::discriminant(&self) == std::mem::discriminant(&other);
        both || self.value() == 0 || other.value() == 0
    }

    /// The steps in which levels of this kind are chosen: what all given ones are multiples of, up to a page.
    fn step(self, levels: &[Self]) -> u64 {
        let most = match self {
            Self::Count(_) => 4,
            Self::Size(_) => 4096,
            Self::Duration(_) => 1_000_000,
        };
        let divisor = levels.iter().fold(0, |divisor, level| gcd(divisor, level.value()));
        gcd(divisor, most).max(1)
    }

    fn write(self, value: u64) -> String {
        match self {
            Self::Count(_) => value.to_string(),
            Self::Size(_) if value.is_multiple_of(1 << 20) => format!("{}m", value >> 20),
            Self::Size(_) if value.is_multiple_of(1 << 10) => format!("{}k", value >> 10),
            Self::Size(_) => value.to_string(),
            Self::Duration(_) if value.is_multiple_of(1_000_000_000) => {
                format!("{}s", value / 1_000_000_000)
            }
            Self::Duration(_) => format!("{}us", value / 1_000),
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Checks that the levels of a narrowing design are numbers of one kind.
///
/// # Errors
/// The first that is not.
pub(crate) fn check(plan: &Plan) -> Result<(), PlanError> {
    let [factor] = plan.factors.as_slice() else { return Ok(()) };
    let key = format!("factors.{}", factor::id_of(factor));
    let mut kind: Option<Number> = None;
    for level in &factor.levels {
        let number = Number::of(level).filter(|n| kind.is_none_or(|kind| kind.is_alike(*n)));
        let Some(number) = number else {
            let reason =
                "narrowing needs levels that are numbers of one kind, such as [\"64k\", \"1m\"]";
            return Err(PlanError::new(reason).about(key).with_value(format!("'{level}'")));
        };
        if number.value() > 0 {
            kind = Some(number);
        }
    }
    Ok(())
}

/// The next level, from what was measured of the others: each level with a figure of which more is better.
///
/// # Errors
/// When the plan does not narrow, or a level was not measured.
pub fn narrow(plan: &Plan, measured: &[(String, f64)]) -> Result<Narrowed, PlanError> {
    let factor = match (plan.design.kind, plan.factors.as_slice()) {
        (DesignKind::Narrowing, [factor]) => factor,
        _ => {
            let reason = format!("plan '{}' does not narrow one factor", plan.name);
            return Err(PlanError::new(reason).about("design.kind"));
        }
    };
    check(plan)?;
    let mut points = Vec::new();
    for level in &factor.levels {
        let found = measured.iter().find(|(name, _)| name == level).map(|(_, figure)| *figure);
        let Some((number, figure)) = Number::of(level).zip(found) else {
            return Err(PlanError::new(format!("{}={level} was not measured", factor.name)));
        };
        points.push((number, level, figure));
    }
    points.order_by_key(|(number, ..)| number.value());
    let best =
        (0..points.len()).fold(0, |best, at| if points[at].2 > points[best].2 { at } else { best });
    let name = |at: Option<usize>| at.map(|at| points[at].1.clone());
    let below = best.checked_sub(1);
    let above = Some(best + 1).filter(|at| *at < points.len());
    let done = |reason: String| {
        let between = (name(below), name(above));
        Ok(Narrowed::Done { best: points[best].1.clone(), between, reason })
    };
    let numbers: Vec<Number> = points.iter().map(|(number, ..)| *number).collect();
    let kind = kind_of(&numbers);
    let value = |at: Option<usize>| at.map(|at| numbers[at].value());
    let halving = Halving::of(plan, &numbers);
    match halving.next(value(below), numbers[best].value(), value(above)) {
        Halved::Near => {
            done(format!("its neighbours are nearer than {}", percent(halving.nearness)))
        }
        Halved::Nothing => done("there is no level between it and its neighbours".to_owned()),
        Halved::Level { value, is_below } => {
            let level = kind.write(value);
            let mut next = plan.clone();
            next.factors[0].levels.push(level.clone());
            let side = if is_below { name(below) } else { name(above) };
            let between = [points[best].1.clone(), side.unwrap_or_default()];
            Ok(Narrowed::Next { level, between, plan: Box::new(next) })
        }
    }
}

fn kind_of(numbers: &[Number]) -> Number {
    numbers.iter().find(|number| number.value() > 0).copied().unwrap_or(numbers[0])
}

/// How an interval is halved.
struct Halving {
    /// Levels are multiples of it.
    step: u64,
    /// Neighbours nearer than this share of the best level are near enough.
    nearness: f64,
}

enum Halved {
    Near,
    Nothing,
    Level { value: u64, is_below: bool },
}

impl Halving {
    fn of(plan: &Plan, numbers: &[Number]) -> Self {
        let step = kind_of(numbers).step(numbers);
        Self { step, nearness: plan.design.narrow_to.unwrap_or(NARROW_TO) }
    }

    /// What lies in the middle of the wider side of a level, on a logarithmic scale.
    fn next(&self, below: Option<u64>, centre: u64, above: Option<u64>) -> Halved {
        let distance = |value: u64| value.abs_diff(centre) as f64 / centre.max(1) as f64;
        let sides = [(below, true), (above, false)].into_iter();
        let sides = sides.filter_map(|(side, is_below)| Some((side?, is_below)));
        let mut open: Vec<(u64, bool)> =
            sides.filter(|(side, _)| distance(*side) > self.nearness).collect();
        if open.is_empty() {
            return Halved::Near;
        }
        let scaled = |value: u64| (value as f64 + self.step as f64).ln();
        let width = |value: u64| (scaled(value) - scaled(centre)).abs();
        open.order_by(|(a, _), (b, _)| width(*b).total_cmp(&width(*a)));
        let mut levels = open.into_iter().filter_map(|(side, is_below)| {
            Some(Halved::Level { value: between(centre, side, self.step)?, is_below })
        });
        levels.next().unwrap_or(Halved::Nothing)
    }

    /// How many levels follow at the most, when a new one is the best so many times.
    fn most(&self, [below, above]: [Option<u64>; 2], centre: u64, moves: u32) -> u32 {
        let Halved::Level { value, is_below } = self.next(below, centre, above) else { return 0 };
        let (stays, moved) = match is_below {
            true => ([Some(value), above], [below, Some(centre)]),
            false => ([below, Some(value)], [Some(centre), above]),
        };
        let left = self.most(stays, centre, moves);
        let then = moves.checked_sub(1).map_or(0, |moves| self.most(moved, value, moves));
        1 + left.max(then)
    }
}

/// Levels follow longest where the best one stays: more moves than these add none.
const MOVES: u32 = 2;

/// How many further levels a narrowing measures at the most, whichever of its levels are the best, as long as those that were measured
/// stay in the same order; 0 of other designs.
pub(crate) fn further_levels(plan: &Plan) -> u32 {
    let (DesignKind::Narrowing, [factor]) = (plan.design.kind, plan.factors.as_slice()) else {
        return 0;
    };
    let mut numbers: Vec<Number> =
        factor.levels.iter().filter_map(|level| Number::of(level)).collect();
    if numbers.is_empty() {
        return 0;
    }
    numbers.order_by_key(|number| number.value());
    let halving = Halving::of(plan, &numbers);
    let value = |at: usize| numbers.get(at).map(|number| number.value());
    let of_best = |best: usize| {
        let sides = [best.checked_sub(1).and_then(value), value(best + 1)];
        halving.most(sides, numbers[best].value(), MOVES)
    };
    (0..numbers.len()).map(of_best).max().unwrap_or(0)
}

fn percent(share: f64) -> String {
    format!("{} %", share * 100.0)
}

/// The middle of two values in whole steps: the geometric one, or the arithmetic one beside 0. None when nothing lies between.
fn between(a: u64, b: u64, step: u64) -> Option<u64> {
    let (low, high) = (a.min(b), a.max(b));
    let middle = if low > 0 {
        (low as f64 * high as f64).sqrt()
    } else {
        low as f64 + (high - low) as f64 / 2.0
    };
    let rounded = (middle / step as f64).round() as u64 * step;
    // Rounding may land on an end; the next step inside will do as well.
    let (least, most) = ((low / step + 1) * step, (high.max(1) - 1) / step * step);
    (least <= most).then(|| rounded.clamp(least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        assert_eq!(between(4, 1024, 4), Some(64));
        assert_eq!(between(1024, 4, 4), Some(64));
        assert_eq!(between(0, 128, 4), Some(64));
        assert_eq!(between(4, 8, 4), None);
        assert_eq!(between(4, 5, 1), None);
        assert_eq!(between(4, 6, 1), Some(5));
        assert_eq!(between(0, 4, 4), None);
    }

    /// Whichever level is the best after each step, also where that moves as often as it can.
    #[test]
    fn no_order_of_best_levels_takes_more_than_is_said() {
        for levels in [&[16, 64, 256][..], &[4, 64, 1024], &[1, 1_000_000], &[0, 128, 4096]] {
            let numbers: Vec<Number> = levels.iter().map(|level| Number::Count(*level)).collect();
            let halving = Halving { step: kind_of(&numbers).step(&numbers), nearness: NARROW_TO };
            let of = |moves: u32| {
                let value = |at: usize| levels.get(at).copied();
                let sides = |best: usize| [best.checked_sub(1).and_then(value), value(best + 1)];
                let all = (0..levels.len()).map(|at| halving.most(sides(at), levels[at], moves));
                all.max().unwrap_or(0)
            };
            assert_eq!(of(MOVES), of(24), "{levels:?}");
            assert!((5..40).contains(&of(MOVES)), "{levels:?}: {}", of(MOVES));
        }
    }

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(Number::of("64"), Some(Number::Count(64)));
        assert_eq!(Number::of("64k"), Some(Number::Size(65536)));
        assert_eq!(Number::of("2s"), Some(Number::Duration(2_000_000_000)));
        assert_eq!(Number::of("none"), None);
        assert_eq!(Number::Size(1).write(3 << 20), "3m");
        assert_eq!(Number::Duration(1).write(1_500_000), "1500us");
    }
}
