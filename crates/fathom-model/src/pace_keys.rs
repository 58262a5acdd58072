//! How fast a job goes: which rates there are, and what cannot go together.

use crate::workload::{Access, Arrivals, Job};
use fathom_base::distribution::Exponential;
use fathom_base::units;

/// Nobody waits longer for the next request.
const DAY_S: f64 = 86_400.0;

/// A number of requests per second, which need not be whole.
pub(crate) fn per_second(value: &str) -> Result<f64, String> {
    let rate: f64 = value
        .trim()
        .parse()
        .map_err(|_| format!("'{value}' is not a number; write for example 2000 or 0.5"))?;
    Exponential::from_rate(rate).map_err(|e| e.to_string())?;
    if rate * DAY_S < 1.0 {
        return Err("is less than one request a day; use at least 0.000012".to_owned());
    }
    Ok(rate)
}

/// What an open loop and a slowed-down closed one cannot have both, and paces at which a run ends before its second request.
pub(crate) fn contradiction(job: &Job) -> Option<String> {
    if job.rate.is_none() && job.arrivals == Arrivals::Poisson {
        let reason = "arrivals=poisson is about the requests of an open loop; give their rate=";
        return Some(reason.to_owned());
    }
    let Some(rate) = job.rate else { return too_slow(job) };
    let closed = [
        ("think_time", job.think_time_ns > 0),
        ("cap_iops", job.cap_iops.is_some()),
        ("cap_bytes", job.cap_bytes.is_some()),
    ];
    if let Some((key, _)) = closed.into_iter().find(|(_, is_set)| *is_set) {
        return Some(format!(
            "with rate={} requests start when they are due, {key} would hold them back; leave out one of the two",
            units::format_number(rate)
        ));
    }
    if job.access == Access::Replication {
        return Some(
            "access=replication starts each step when the one before has ended, so no rate= can be kept; use cap_iops= to slow it down".to_owned()
        );
    }
    too_slow(job)
}

/// The first pace that a run is too short for. Random arrivals may come sooner than on average. A think time is one of each place, of
/// which none would have a second request: all that is seen then are those that start at once.
fn too_slow(job: &Job) -> Option<String> {
    if job.operations == Some(1) {
        return None;
    }
    let per_request = |per_second: f64| 1.0 / per_second;
    let request_bytes = job.block_size_bytes_mean();
    let even_rate = job.rate.filter(|_| job.arrivals == Arrivals::Even);
    let think_s = (job.think_time_ns > 0).then_some(job.think_time_ns as f64 / 1e9);
    let is_all_at_once = job.operations.is_some_and(|count| count <= places(job));
    let paces = [
        ("think_time", think_s.filter(|_| !is_all_at_once)),
        ("rate", even_rate.map(per_request)),
        ("cap_iops", job.cap_iops.map(per_request)),
        ("cap_bytes", job.cap_bytes.map(|bytes| request_bytes / bytes as f64)),
    ];
    let run_ns = job.duration_ns.map(|ns| ns.saturating_add(job.warmup_ns));
    let slow = |(key, pause_s): (&str, Option<f64>)| no_second(key, pause_s?, run_ns);
    paces.into_iter().find_map(slow)
}

/// Why a pace makes no sense where a run of that length, or a day, is over before a second request starts.
pub(crate) fn no_second(key: &str, pause_s: f64, run_ns: Option<u64>) -> Option<String> {
    let run_s = run_ns.map(|ns| ns as f64 / 1e9).filter(|run_s| *run_s < DAY_S);
    // Faster than one a second is no slow pace, but a short run.
    let longest_s = run_s.map_or(DAY_S, |run_s| run_s.max(1.0));
    let end = match run_ns.filter(|_| run_s.is_some()) {
        Some(run_ns) => {
            let run = units::format_ns(run_ns);
            format!("in a run of {run} no second one would start; make it longer, or")
        }
        None => "no second one would start within a day;".to_owned(),
    };
    let (of, change) = match key {
        "think_time" => (" of a place", "lower"),
        _ => ("", "raise"),
    };
    let pause = units::format_ns((pause_s * 1e9) as u64);
    (pause_s >= longest_s)
        .then(|| format!("{key} puts {pause} between two requests{of}, and {end} {change} {key}"))
}

/// How many requests may start at once.
fn places(job: &Job) -> u64 {
    u64::from(job.threads) * u64::from(job.depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn said(settings: &[(&str, &str)]) -> String {
        let mut job = Job::default();
        for (key, value) in settings {
            if let Err(error) = keys::set(&mut job, key, value) {
                return error.to_string();
            }
        }
        contradiction(&job).unwrap_or_default()
    }

    /// What would never start a second request is refused, also where it is too small for a number of nanoseconds; what can is not.
    #[test]
    fn a_pace_without_a_second_request_is_refused() {
        let run = ("duration", "60s");
        for slow in ["1e-300", "5e-324", "1e-9", "0.00001"] {
            for key in ["rate", "cap_iops"] {
                let said = said(&[(key, slow)]);
                assert!(said.contains("less than one request a day"), "{key}={slow}: {said}");
            }
        }
        for fast in ["1e300", "inf", "1e9", "NaN", "-1", "0"] {
            assert!(said(&[("rate", fast)]).contains("out of range"), "{fast}");
        }
        let refused: [&[(&str, &str)]; 7] = [
            &[("think_time", "1h"), run],
            &[("think_time", "60s"), run],
            &[("think_time", "365d"), ("operations", "33"), ("depth", "32")],
            &[("rate", "0.01"), run],
            &[("cap_iops", "0.01"), run],
            &[("cap_bytes", "10"), ("block_size", "4k"), run],
            &[("cap_bytes", "1"), ("block_size", "1M"), ("operations", "10")],
        ];
        for settings in refused {
            let said = said(settings);
            assert!(said.contains("no second one would start"), "{settings:?}: {said}");
            assert!(said.contains(settings[0].0), "{said}");
        }
        let fine: [&[(&str, &str)]; 10] = [
            &[("think_time", "50s"), run],
            &[("think_time", "1h"), ("operations", "32"), ("depth", "32")],
            &[("think_time", "70s"), ("warmup", "20s"), run],
            &[("rate", "0.02"), run],
            &[("rate", "0.01"), ("operations", "1"), run],
            &[("rate", "0.01"), ("warmup", "50s"), run],
            &[("cap_bytes", "10"), ("operations", "10"), ("block_size", "4k")],
            &[("cap_bytes", "18446744073709551615"), run],
            &[("rate", "2"), ("duration", "1ms")],
            &[("rate", "0.01"), ("arrivals", "poisson"), run],
        ];
        for settings in fine {
            assert_eq!(said(settings), "", "{settings:?}");
        }
    }
}
