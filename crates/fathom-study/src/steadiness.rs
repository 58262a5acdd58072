//! Whether the rate stayed the same inside a run: a cache that fills up, garbage collection or throttling make two runs of
//! one, and their mean describes neither.

use fathom_base::units::{format_count, format_ns};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::Record;
use fathom_model::workload::Access;
use fathom_stats::change::{self, Regime};
use fathom_stats::warm_up::{self, WarmUp};

/// Shorter stretches are no state of their own: garbage collection and flushes of caches come and go in seconds.
const REGIME_INTERVALS_MIN: usize = 10;
/// Fewer intervals than this say nothing.
const INTERVALS_MIN: usize = 2 * REGIME_INTERVALS_MIN;
/// A step that matters: more than any comparison here would let pass, and more than a quiet machine does by itself.
const STEP_PERCENT: f64 = 20.0;
/// A rise or fall of the fitted line over the whole window that the standard for solid-state disks no longer calls
/// steady (SNIA PTS: 10 % of the mean), doubled because no rounds were averaged here.
const RISE_SHARE: f64 = 0.2;

/// Reads and writes per second in each whole interval, all jobs together, and the length of an interval.
fn rates(record: &Record) -> Option<(Vec<f64>, u64)> {
    let first = record.jobs.first()?.series.first()?;
    let length_ns = first.length_ns;
    let whole = |job: &fathom_model::record::JobRecord| {
        job.series.iter().take_while(|i| i.length_ns == length_ns).count()
    };
    let count = record.jobs.iter().map(whole).min()?;
    let rate = |at: usize| {
        let of = |job: &fathom_model::record::JobRecord| -> u64 {
            let classes = job.series[at].classes.iter();
            classes.filter(|c| c.class.is_request()).map(|c| c.latency_ns.count()).sum()
        };
        record.jobs.iter().map(of).sum::<u64>() as f64 / (length_ns as f64 / 1e9)
    };
    (length_ns > 0).then(|| ((0..count).map(rate).collect(), length_ns))
}

/// Says when the rate had several levels, or rose or fell all the time.
pub(crate) fn not_steady(record: &Record) -> Option<Finding> {
    let (rates, length_ns) = rates(record)?;
    // An open loop's rate is the one asked for, as long as it keeps up, which other rules say.
    let is_open = record.workload.jobs.iter().any(|job| job.rate.is_some());
    if rates.len() < INTERVALS_MIN || is_open {
        return None;
    }
    let regimes = change::regimes(&rates, REGIME_INTERVALS_MIN, STEP_PERCENT).ok()?;
    match regimes.as_slice() {
        [one] if is_in_place(record) => drifting(one).or_else(|| warming_up(&rates, length_ns)),
        [_] => warming_up(&without_trend(&rates), length_ns),
        several => Some(in_regimes(several, length_ns)),
    }
}

/// True when the requests go everywhere all the time: the place on the medium cannot make the rate rise or fall.
fn is_in_place(record: &Record) -> bool {
    let scattered = [Access::Random, Access::Shuffled, Access::Randomio];
    record.workload.jobs.iter().all(|job| scattered.contains(&job.access))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The rates without the parabola that describes them best, at the same mean. One pass over a rotating disk slows down
/// smoothly, to half on its innermost tracks: that is no defect, and a parabola fits it to less than a percent. A step is
/// fitted with it, at the best of 60 places, and stays, so that the parabola does not take a part of a warm-up away.
fn without_trend(rates: &[f64]) -> Vec<f64> {
    const PLACES: usize = 60;
    let n = rates.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let minus = |a: &[f64], factor: f64, b: &[f64]| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| a - factor * b).collect()
    };
    // Orthogonal polynomials of degree 0 to 2 (Gram and Schmidt).
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let outside = |values: &[f64], basis: &[Vec<f64>]| {
        basis.iter().fold(values.to_vec(), |rest, b| minus(&rest, dot(&rest, b) / dot(b, b), b))
    };
    for degree in 0..3 {
        let power = |i: usize| (2.0 * i as f64 / n as f64 - 1.0).powi(degree);
        let values: Vec<f64> = (0..n).map(power).collect();
        basis.push(outside(&values, &basis));
    }
    let bent = outside(rates, &basis);
    let step = |place: usize| -> (f64, Vec<f64>) {
        let values: Vec<f64> = (0..n).map(|i| f64::from(i >= place)).collect();
        let own = outside(&values, &basis);
        let height = dot(&bent, &own) / dot(&own, &own);
        let parabola = minus(&values, 1.0, &own);
        (height * dot(&bent, &own), minus(&bent, -height, &parabola))
    };
    let places = (1..PLACES).map(|k| k * n / PLACES).filter(|place| (3..n - 3).contains(place));
    let best = places.map(step).max_by(|a, b| a.0.total_cmp(&b.0));
    let rest = best.map_or(bent, |(_, rest)| rest);
    let lift = mean(rates) - mean(&rest);
    rest.into_iter().map(|rate| rate + lift).collect()
}

fn in_regimes(regimes: &[Regime], length_ns: u64) -> Finding {
    let words = |regime: &Regime| {
        format!(
            "{} per second for {}",
            format_count(regime.level.round() as u64),
            format_ns((regime.end - regime.start) as u64 * length_ns)
        )
    };
    let shown: Vec<String> = regimes.iter().take(4).map(words).collect();
    let more =
        if regimes.len() > 4 { format!(", and {} more", regimes.len() - 4) } else { String::new() };
    let text = format!(
        "the rate was not one but {}: {}{more}; the mean describes none of them",
        regimes.len(),
        shown.join(", then ")
    );
    let mut finding = Finding::new("not-steady", Severity::Doubtful, text)
        .advise("a cache that was used up, garbage collection, throttling or other load does that; fathom show has the series");
    if let Some(first) = regimes.first() {
        let cut = format_ns(first.end as u64 * length_ns).replace(' ', "");
        finding = finding.advise(format!("for the later level alone: warmup={cut}"));
    }
    finding
}

/// A beginning that differs from the rest, too short for a level of its own. A fifth of the window moves the mean by a
/// fifth of the difference: more than a tenth is worth saying, and only where the beginning is at least that much off.
fn warming_up(rates: &[f64], length_ns: u64) -> Option<Finding> {
    let WarmUp::Ends { cut } = warm_up::mser5(rates).ok()? else { return None };
    let (early, late) = (mean(&rates[..cut]), mean(&rates[cut..]));
    let is_other = late > 0.0 && (early / late - 1.0).abs() > 0.1;
    (cut > 0 && is_other).then(|| {
        let first = format_ns(cut as u64 * length_ns);
        let text = format!(
            "the first {first} went at {:.0} % of the later rate: the window holds a warm-up",
            100.0 * early / late
        );
        Finding::new("warm-up-inside", Severity::Note, text)
            .advise(format!("warmup={} leaves it out", first.replace(' ', "")))
    })
}

/// A level that keeps rising or falling.
fn drifting(regime: &Regime) -> Option<Finding> {
    let share = if regime.level > 0.0 { regime.rise / regime.level } else { 0.0 };
    (share.abs() > RISE_SHARE).then(|| {
        let how = if share > 0.0 { "rose" } else { "fell" };
        let text = format!(
            "the rate {how} by {:.0} % from the beginning to the end of the window: it had not become steady",
            share.abs() * 100.0
        );
        Finding::new("not-steady", Severity::Doubtful, text)
            .advise("use warmup= and a longer duration=; solid-state disks may need their whole size written twice first")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use fathom_base::prng::Prng;

    /// A run of so many reads in each second.
    fn found(rates: &[f64]) -> Option<Finding> {
        found_in(Access::Random, rates)
    }

    fn found_in(access: Access, rates: &[f64]) -> Option<Finding> {
        let mut record = fixtures::record();
        record.workload.jobs[0].access = access;
        record.jobs[0].series = fixtures::seconds(rates.iter().map(|rate| *rate as u64));
        not_steady(&record)
    }

    fn noisy(levels: &[(f64, usize)]) -> Vec<f64> {
        let mut prng = Prng::new(11, 0);
        let mut noise = || 1.0 + 0.06 * (fixtures::uniform(&mut prng) - 0.5);
        levels.iter().flat_map(|(level, n)| vec![*level; *n]).map(|v| v * noise()).collect()
    }

    #[test]
    fn a_cliff_is_two_regimes() {
        let finding = found(&noisy(&[(52_000.0, 34), (21_000.0, 26)])).expect("a cliff");
        assert!(finding.summary.contains("not one but 2"), "{}", finding.summary);
        assert!(finding.summary.contains("for 34 s, then"), "{}", finding.summary);
        assert_eq!(finding.advice[1], "for the later level alone: warmup=34s");
    }

    #[test]
    fn steady_and_short_runs_say_nothing() {
        assert_eq!(found(&noisy(&[(10_000.0, 60)])), None);
        assert_eq!(found(&noisy(&[(10_000.0, 9), (5_000.0, 9)])), None);
        assert_eq!(found(&[]), None);
        // One bad second is an outlier and no regime.
        let mut one = noisy(&[(10_000.0, 60)]);
        one[30] = 100.0;
        assert_eq!(found(&one), None);
    }

    #[test]
    fn a_steady_fall_is_not_steady() {
        let falling: Vec<f64> = noisy(&[(1.0, 60)])
            .iter()
            .zip(0..)
            .map(|(noise, i)| noise * 10_000.0 * (1.0 - 0.006 * f64::from(i)))
            .collect();
        let finding = found(&falling).expect("a drift");
        assert!(finding.summary.starts_with("the rate fell by "), "{}", finding.summary);
    }

    #[test]
    fn a_short_warm_up_is_a_note() {
        let finding = found(&noisy(&[(4_000.0, 5), (10_000.0, 60)])).expect("a warm-up");
        assert_eq!((finding.id.as_str(), finding.severity), ("warm-up-inside", Severity::Note));
        // The rule cuts in steps of five intervals.
        let advice = finding.advice[0].as_str();
        assert!(
            ["warmup=5s leaves it out", "warmup=10s leaves it out"].contains(&advice),
            "{advice}"
        );
    }
    /// A pass over a disk whose innermost tracks do half of the outermost ones.
    fn zones(count: usize, noise: f64, seed: u64) -> Vec<f64> {
        let mut prng = Prng::new(seed, 0);
        let mut normal = || {
            let uniforms = (0..12).map(|_| fixtures::uniform(&mut prng));
            1.0 + noise * (uniforms.sum::<f64>() - 6.0)
        };
        let place = |i: usize| i as f64 / count as f64;
        (0..count).map(|i| 20_000.0 * (1.0 - 0.75 * place(i)).sqrt() * normal()).collect()
    }

    #[test]
    fn the_zones_of_a_disk_are_no_regimes() {
        for count in [20, 60, 300] {
            for noise in [0.005, 0.01, 0.02] {
                for seed in 0..10 {
                    let rates = zones(count, noise, seed);
                    let inwards = found_in(Access::Sequential, &rates);
                    assert_eq!(inwards, None, "{count} {noise} {seed}");
                    let outwards: Vec<f64> = rates.into_iter().rev().collect();
                    let outwards = found_in(Access::Reverse, &outwards);
                    assert_eq!(outwards, None, "{count} {noise} {seed}");
                }
            }
        }
        // The same curve where the place cannot be the reason.
        assert!(found(&zones(60, 0.01, 1)).is_some());
    }

    #[test]
    fn a_cliff_under_sequential_access_is_found() {
        for (count, left) in [(60, 0.6), (300, 0.6), (60, 0.3)] {
            let mut rates = zones(count, 0.02, 3);
            rates[count / 2..].iter_mut().for_each(|rate| *rate *= left);
            let finding = found_in(Access::Sequential, &rates).expect("a cliff");
            assert_eq!((finding.id.as_str(), finding.severity), ("not-steady", Severity::Doubtful));
            assert!(finding.summary.contains("not one but 2"), "{}", finding.summary);
        }
        let flat = noisy(&[(52_000.0, 34), (21_000.0, 26)]);
        assert!(found_in(Access::Sequential, &flat).is_some());
        // The warm-up rule misses some by chance, as at random access.
        let warms_up = |late: usize| {
            let rates = noisy(&[(4_000.0, 5), (10_000.0, late)]);
            found_in(Access::Sequential, &rates).is_some_and(|f| f.id == "warm-up-inside")
        };
        let noted = [60, 90, 120, 180, 240].into_iter().filter(|late| warms_up(*late)).count();
        assert!(noted >= 2, "{noted} of 5");
    }

    #[test]
    fn a_cliff_between_uneven_levels_is_found_and_noise_makes_none() {
        let mut prng = Prng::new(23, 0);
        let mut uneven = |level: f64, n: usize, noise: f64| -> Vec<f64> {
            let mut wander = 0.0;
            let mut one = || {
                let random = fixtures::uniform(&mut prng) - 0.5;
                wander = 0.7 * wander + random;
                level * (1.0 + noise * wander)
            };
            (0..n).map(|_| one()).collect()
        };
        let rates = [uneven(500_000.0, 30, 0.4), uneven(45_000.0, 30, 0.4)].concat();
        let finding = found(&rates).expect("a cliff");
        assert!(finding.summary.contains("not one but 2"), "{}", finding.summary);
        let alarms = (0..400).filter(|_| found(&uneven(10_000.0, 40, 0.2)).is_some()).count();
        assert!(alarms <= 8, "{alarms} of 400");
    }
}
