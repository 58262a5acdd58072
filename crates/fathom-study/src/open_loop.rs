//! What an open loop says about itself: whether fathom kept to the arrivals, and whether the storage kept up.

use fathom_base::units::{format_count, format_ns};
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{JobRecord, OpenLoopRecord, Record};
use fathom_model::workload::{EngineKind, Job};

/// The jobs that were open loops, with what was asked of them.
fn open_jobs(record: &Record) -> impl Iterator<Item = (&JobRecord, &OpenLoopRecord, &Job)> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    jobs.filter_map(|(done, job)| Some((done, done.open_loop.as_ref()?, job)))
}

/// Fathom itself started requests late, though there was a place for them: response times contain its delay.
///
/// One request in a hundred later than 1 ms is more than a timer on an idle machine ever is (some 0.05 ms). The delay
/// also has to matter: a tenth of all response time.
pub(crate) fn generator_behind(record: &Record) -> Option<Finding> {
    const LATE_NS: u64 = 1_000_000;
    open_jobs(record).find_map(|(done, open, _)| {
        let delays = &open.start_delay_ns;
        let p99_ns = delays.quantile(0.99)?;
        let responses_ns: u128 = open.classes.iter().map(|c| c.response_ns.sum()).sum();
        if p99_ns < LATE_NS || delays.sum() * 10 < responses_ns {
            return None;
        }
        let text = format!(
            "{}: fathom fell behind its own arrivals: {} of {} requests were started more than 1 ms after they were \
             due, though a place was free (p99 {}, at most {}); these delays are in the response times",
            done.name,
            format_count(delays.count_above(LATE_NS)),
            format_count(delays.count()),
            format_ns(p99_ns),
            format_ns(delays.max().unwrap_or(p99_ns))
        );
        let finding = Finding::new("generator-behind", Severity::Doubtful, text).advise(
            "fathom did not get a CPU in time: other programs, a stop, or too many threads; service times are those of the storage",
        );
        Some(finding.advise(format!(
            "stop what else runs, or use fewer threads with more depth (now threads={}, depth={})",
            done.engine.threads, done.engine.depth
        )))
    })
}

/// More was due than could be done: the backlog was larger at the end of the window than half-way, and more than a
/// hundredth of what was due was never started. Response times then grow with the length of the run and say nothing but that.
pub(crate) fn overloaded(record: &Record) -> Option<Finding> {
    open_jobs(record).find_map(|(done, open, job)| {
        let rate = job.rate?;
        let half_ns = done.window_ns / 2;
        let until_half = done.series.iter().take_while(|i| i.start_ns + i.length_ns <= half_ns);
        let half_way =
            until_half.filter_map(|i| i.open_loop.as_ref()).last().map(|open| open.backlog_end);
        let before = half_way.unwrap_or(open.backlog_start);
        if open.not_started <= before || open.not_started * 100 < open.due {
            return None;
        }
        let ended: u64 = open.classes.iter().map(|class| class.response_ns.count()).sum();
        let done_rate = ended as f64 / (done.window_ns.max(1) as f64 / 1e9);
        // A short run has no interval that ends before its half.
        let half_way = half_way
            .map_or_else(String::new, |backlog| format!(" ({} half-way)", format_count(backlog)));
        let text = format!(
            "{}: {rate} requests per second were due, {} ended: {} had not been started at the end{half_way}, the \
             oldest due for {}; response times grow with the length of such a run",
            done.name,
            format_count(done_rate.round() as u64),
            format_count(open.not_started),
            format_ns(open.oldest_not_started_ns.unwrap_or(0)),
        );
        let finding = Finding::new("overloaded", Severity::Doubtful, text);
        Some(finding.advise(cause(done)).advise(format!(
            "use a rate below {}, or a closed loop (without rate=) to find the highest",
            format_count((done_rate * 0.9).floor() as u64)
        )))
    })
}

/// True when fathom itself was what made requests late: it got no CPU in time, or used all of one.
pub(crate) fn is_late(record: &Record) -> bool {
    let is_busy = |(done, ..): (&JobRecord, &OpenLoopRecord, &Job)| busy(done) >= CPU_IS_LIMIT;
    generator_behind(record).is_some()
        || overloaded(record).is_some() && open_jobs(record).any(is_busy)
}

/// From this share of a processor on, the thread that asks is the limit.
const CPU_IS_LIMIT: f64 = 0.9;

/// Share of a processor that the busiest thread used.
fn busy(done: &JobRecord) -> f64 {
    done.busiest_thread_cpu_ns as f64 / done.window_ns.max(1) as f64
}

/// What kept requests from being started: the CPU, or places that did not become free.
fn cause(done: &JobRecord) -> String {
    let threads = done.engine.threads;
    let busy = busy(done);
    if busy >= CPU_IS_LIMIT {
        return format!(
            "the busiest thread used {:.0} % of its CPU: the processor is the limit; threads={} may do more",
            busy.min(1.0) * 100.0,
            u64::from(threads) * 2
        );
    }
    let most = done.in_flight_max();
    let more = if done.engine.kind.is_synchronous() || done.engine.kind == EngineKind::Null {
        format!("threads={}", u64::from(threads) * 4)
    } else {
        format!("depth={}", u64::from(done.engine.depth) * 4)
    };
    format!(
        "all {most} places were taken: the storage does not end requests as fast as they come; {more} shows whether \
         it takes more at a time"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::open_loop as open;
    use fathom_model::record::{IntervalRecord, OpenInterval};

    #[test]
    fn a_loop_that_keeps_up_is_silent() {
        let record = open(|_| ());
        assert_eq!((generator_behind(&record), overloaded(&record)), (None, None));
        let started_late = open(|o| (0..700).for_each(|_| o.start_delay_ns.record(2_000_000)));
        assert_eq!(generator_behind(&started_late), None, "half a per cent of the response time");
    }

    #[test]
    fn late_starts_are_told_with_their_count() {
        let record = open(|o| (0..700).for_each(|_| o.start_delay_ns.record(500_000_000)));
        let finding = generator_behind(&record).expect("behind");
        assert!(finding.summary.contains("700 of 60 700 requests"), "{}", finding.summary);
        assert_eq!(overloaded(&record), None);
    }

    #[test]
    fn a_growing_backlog_is_told_with_cause_and_cure() {
        let grown = |half_way: u64| {
            let mut record = open(|o| {
                (o.not_started, o.oldest_not_started_ns) = (6000, Some(5_500_000_000));
            });
            let interval = |start_ns: u64| IntervalRecord {
                start_ns,
                length_ns: 1_000_000_000,
                classes: Vec::new(),
                open_loop: Some(OpenInterval { backlog_end: half_way, ..OpenInterval::default() }),
            };
            record.jobs[0].series = (0..60).map(|s| interval(s * 1_000_000_000)).collect();
            record
        };
        let finding = overloaded(&grown(3000)).expect("overloaded");
        assert!(finding.summary.contains("6 000 had not been started at the end (3 000 half-way)"));
        assert!(finding.advice[0].starts_with("all 5 places were taken"), "{:?}", finding.advice);
        assert_eq!(overloaded(&grown(7000)), None, "it was going down");
        // No interval ended before the half of it.
        let mut short = grown(3000);
        short.jobs[0].series.truncate(1);
        short.jobs[0].window_ns = 1_000_000_000;
        let finding = overloaded(&short).expect("overloaded");
        assert!(finding.summary.contains("6 000 had not been started at the end, the oldest"));
        let mut busy = grown(3000);
        busy.jobs[0].busiest_thread_cpu_ns = 59_000_000_000;
        let finding = overloaded(&busy).expect("overloaded");
        assert!(finding.advice[0].contains("the processor is the limit"), "{:?}", finding.advice);
    }
}
