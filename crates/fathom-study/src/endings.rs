//! Rules about how a record ended: with something unfinished, before its time, with too little to say anything.

use crate::figures::{Counted, Figures, rate_window_ns};
use crate::rules::{ended, is_quick};
use fathom_base::units::{format_count, format_length, format_ns, format_size, format_sizes};
use fathom_model::builtin;
use fathom_model::finding::{Finding, Severity};
use fathom_model::record::{Ending, JobRecord, Record};
use fathom_model::workload::{Access, Job};
use fathom_stats::quantile::{is_supported, values_needed};

/// Something was in flight for more than a second when the window ended.
pub(crate) fn stalled(record: &Record) -> Option<Finding> {
    let oldest = record.jobs.iter().filter_map(|j| j.censored.first()).max_by_key(|c| c.age_ns)?;
    (oldest.age_ns > 1_000_000_000).then(|| {
        let text = format!(
            "oldest unfinished: {}, {} at offset {}",
            oldest.class.word(),
            format_ns(oldest.age_ns),
            format_size(oldest.offset_bytes)
        );
        Finding::new("stalled", Severity::Note, text)
            .advise("it is in no percentile: its latency is at least that long")
    })
}

/// A log that was full before its time: appending ends there, since going on would overwrite.
pub(crate) fn log_full(record: &Record) -> Option<Finding> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    let mut appending = jobs.filter(|(_, job)| job.access == Access::Append);
    let (done, job) = appending.find(|(done, job)| {
        let is_early = job.duration_ns.is_some_and(|planned_ns| done.window_ns < planned_ns);
        is_early && !has_done_all(done, job)
    })?;
    let ended = record.ending == Ending::Complete;
    ended.then(|| {
        let (who, cure) = if is_quick(record) {
            (&record.label, "fathom run commit DIR size=... with a larger size= lets it go on")
        } else {
            (&job.name, "a larger size= lets it go on")
        };
        let text = format!("{who}: the log was full after {}", format_ns(done.window_ns));
        Finding::new("log-full", Severity::Note, text).advise(cure)
    })
}

/// All the operations or bytes that were asked for were done, and nothing else ended it.
fn has_done_all(done: &JobRecord, job: &Job) -> bool {
    let operations: u64 = done.thread_operations.iter().sum();
    job.operations.is_some_and(|asked| operations >= asked)
        || job.amount_bytes.is_some_and(|asked_bytes| moved_bytes(done) >= asked_bytes)
}

/// Nothing that was counted began in the window: a rate would be of requests that were nearly done when it began.
pub(crate) fn no_whole_request(record: &Record) -> Option<Finding> {
    let job = record.jobs.iter().find(|job| rate_window_ns(job) < job.window_ns)?;
    let text = format!(
        "{}: no whole request ended in the {} that were measured: what ended had begun in the warm-up, and no rate can be told",
        job.name,
        format_ns(job.window_ns)
    );
    let cure = "leave out warmup=, or give more operations=, a larger amount= or a duration=";
    Some(Finding::new("no-whole-request", Severity::Void, text).advise(cure))
}

/// Less than was asked for, because the target had no more: a command line with a size and an amount that do not fit. What
/// a ready workload does by itself is meant as the most, and nobody asked for it; but its amount may be why a time that
/// somebody asked for was not reached.
pub(crate) fn short_of_amount(record: &Record) -> Option<Finding> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    let mut asked = jobs.filter_map(|(done, job)| Some((done, job, job.amount_bytes?)));
    let (done, job, asked_bytes) = asked.find(|(done, job, asked_bytes)| {
        let is_early = job.duration_ns.is_none_or(|planned_ns| done.window_ns < planned_ns);
        let is_less = moved_bytes(done) < asked_bytes / 100 * 99;
        let is_meant = !is_default_amount(record, job) || asked_duration(record, job).is_some();
        is_early && is_less && job.operations.is_none() && is_meant
    })?;
    (record.ending == Ending::Complete).then(|| {
        let (moved, asked) = format_sizes(moved_bytes(done), asked_bytes);
        let before = asked_duration(record, job).map_or_else(String::new, |duration_ns| {
            format!(", before its duration of {}", format_length(duration_ns))
        });
        let text = format!(
            "{}: ended after {moved} of amount={asked}{before}: the target has no more",
            job.name
        );
        Finding::new("short-of-amount", Severity::Note, text)
            .advise("a larger size=, or a larger target, has as much")
    })
}

/// The amount is that of the ready workload.
fn is_default_amount(record: &Record, job: &Job) -> bool {
    let ready = builtin::named(&record.workload.name);
    let jobs = ready.iter().flat_map(|ready| &ready.jobs);
    jobs.filter(|known| known.name == job.name).any(|known| known.amount_bytes == job.amount_bytes)
}

/// The time that a job was to take, where it is not that of the ready workload.
fn asked_duration(record: &Record, job: &Job) -> Option<u64> {
    let ready = builtin::named(&record.workload.name);
    let mut jobs = ready.iter().flat_map(|ready| &ready.jobs);
    let is_known = jobs.any(|known| known.name == job.name && known.duration_ns == job.duration_ns);
    job.duration_ns.filter(|_| !is_known)
}

fn moved_bytes(done: &JobRecord) -> u64 {
    done.classes.iter().map(|class| class.bytes).sum()
}

/// Fewer requests say little about a rate.
const FEW: u64 = 30;

/// Too few requests for any figure.
pub(crate) fn too_few(record: &Record) -> Option<Finding> {
    let ended = ended(record);
    if ended >= FEW {
        return too_few_pauses(record);
    }
    (ended > 0).then(|| {
        let noun = if ended == 1 { "request" } else { "requests" };
        let text = format!("only {ended} {noun} ended inside the window");
        let cure = match fewest_end(record) {
            Some("names") => "use more names=".to_owned(),
            Some(key) => format!("use more {key}= or a smaller block_size="),
            None => "use a longer duration= or a smaller block_size=".to_owned(),
        };
        Finding::new("too-few", Severity::Doubtful, text).advise(cure)
    })
}

/// A window has so many think times at least, or its rate says more of its beginning than of the pace.
const PAUSES: u64 = 10;

/// The first requests of all places start at once, without a think time before: of a few think times that many requests too much.
fn too_few_pauses(record: &Record) -> Option<Finding> {
    let of = |(job, done): (&Job, &JobRecord)| {
        let is_few = job.think_time_ns.saturating_mul(PAUSES) > done.window_ns;
        (is_few && job.warmup_ns < job.think_time_ns).then_some((job.think_time_ns, done.window_ns))
    };
    let (think_ns, window_ns) = record.workload.jobs.iter().zip(&record.jobs).find_map(of)?;
    let text = format!(
        "the window of {} has room for few think times of {}, and its first requests started at once, without any: the rate is up to {:.0} % too high",
        format_ns(window_ns),
        format_ns(think_ns),
        think_ns as f64 / window_ns.max(1) as f64 * 100.0
    );
    let cure = format!(
        "warmup={} and more leaves these out; or use a longer duration=",
        format_ns(think_ns)
    );
    Some(Finding::new("too-few", Severity::Doubtful, text).advise(cure))
}

/// Percentiles that are not shown, of all requests or of one class, because fewer ended than carry them: how many there were, and how many it
/// takes. With fewer a single slow request decides the figure. No reason for doubt: the other figures stand.
pub(crate) fn tail_of_few(record: &Record) -> Option<Finding> {
    const SHOWN: [(&str, f64); 2] = [("p99", 0.99), ("p99.9", 0.999)];
    let (count, noun) = fewest_shown(record);
    let missing = SHOWN.iter().filter(|(_, q)| !is_supported(count, *q));
    let missing: Vec<(&str, u64)> = missing.map(|(name, q)| (*name, values_needed(*q))).collect();
    let is_enough = count > 0 && ended(record) >= FEW;
    let (nearest, needed) = *missing.first().filter(|_| is_enough)?;
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let takes = |(name, needed): &(&str, u64)| format!("{name} takes {}", format_count(*needed));
    let text = format!(
        "{} not shown: {} {noun} ended, and {}, so that ten lie beyond it",
        if let [one] = names[..] {
            format!("{one} is")
        } else {
            format!("{} are", names.join(" and "))
        },
        format_count(count),
        missing.iter().map(takes).collect::<Vec<_>>().join(", ")
    );
    let whole_ns = record.window_ns as f64 * needed as f64 / count as f64;
    Some(Finding::new("tail-of-few", Severity::Note, text).advise(format!(
        "at this rate {nearest} takes {} of measuring",
        format_ns(whole_ns as u64)
    )))
}

/// How many ended of the class that has the fewest of those that have percentiles of their own, and what they are called.
fn fewest_shown(record: &Record) -> (u64, String) {
    let whole = Figures::of_record(record);
    let parts = Figures::parts(record).into_iter();
    let fewest = parts.map(|(class, part)| (part.latency_ns.count(), class)).min_by_key(|p| p.0);
    match fewest {
        Some((count, class)) => (count, format!("requests ({})", class.word())),
        None if whole.counted == Counted::Transactions => {
            (whole.latency_ns.count(), "transactions".to_owned())
        }
        None => (ended(record), "requests".to_owned()),
    }
}

/// The setting that ended the run before its time, where it was not the time.
fn fewest_end(record: &Record) -> Option<&'static str> {
    let jobs = record.jobs.iter().zip(&record.workload.jobs);
    let early = |done: &JobRecord, job: &Job| job.duration_ns.is_none_or(|ns| done.window_ns < ns);
    jobs.filter(|(done, job)| early(done, job)).find_map(|(_, job)| {
        let by_count = job.names.map(|_| "names").or(job.operations.map(|_| "operations"));
        by_count.or(job.amount_bytes.map(|_| "amount"))
    })
}
