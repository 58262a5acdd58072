//! One job of a record in full.

use crate::figures::{NOT_ENOUGH, NOT_ENOUGH_NOTE, iops_text, ns_text, per_second, quantile_text};
use crate::series;
use crate::table::{Align, Table};
use crate::text::{format_share, push_wrapped};
use fathom_base::units;
use fathom_model::record::{ClassRecord, JobRecord, OpClass};
use fathom_model::workload::{
    Access, Content, Extent, IoPriority, Job, OpenSync, SyncCall, SyncRule,
};

/// How many of the slowest operations are shown.
const SLOWEST_SHOWN: usize = 5;

const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Everything about one job. `asked` is what was asked of it.
pub(crate) fn push(out: &mut String, job: &JobRecord, asked: Option<&Job>) {
    push_wrapped(out, &format!("job {}  ", job.name), &engine(job));
    let mut line = |name: &str, text: &str| push_wrapped(out, &format!("  {name:<12} "), text);
    if let Some(reason) = &job.engine.fallback {
        line("not as asked", reason);
    }
    if let Some(asked) = asked {
        line("asked for", &workload(asked));
    }
    push_classes(out, job);
    let mut line = |name: &str, text: &str| push_wrapped(out, &format!("  {name:<12} "), text);
    if let Some(sync_ns) = job.final_sync_ns {
        line("final sync", &final_sync(job, sync_ns));
    }
    line("CPU", &cpu(job));
    if let Some(text) = fairness(job) {
        line("fairness", &text);
    }
    if let Some(drawn) = series::line(job) {
        line("IOPS", &drawn);
    }
    for (index, op) in job.slowest.iter().take(SLOWEST_SHOWN).enumerate() {
        let text = format!(
            "{}: {}, {} after the start",
            units::format_ns(op.latency_ns),
            place(op.class, op.offset_bytes, op.size_bytes),
            seconds(op.end_ns)
        );
        line(if index == 0 { "slowest" } else { "" }, &text);
    }
    if job.slowest.len() > SLOWEST_SHOWN {
        line("", &format!("({} more are stored)", job.slowest.len() - SLOWEST_SHOWN));
    }
    if let Some(text) = censored(job) {
        line("not ended", &text);
    }
}

fn engine(job: &JobRecord) -> String {
    let engine = &job.engine;
    let features = if engine.features.is_empty() {
        String::new()
    } else {
        format!(" ({})", engine.features.join(", "))
    };
    let held = if job.batches == 0 {
        String::new()
    } else {
        let mean = job.in_flight_sum as f64 / job.batches as f64;
        format!("; {mean:.1} of {} in flight on average per thread", engine.depth)
    };
    format!(
        "{}{features}, {} x depth {}, batch {}{held}",
        engine.kind.word(),
        plural(u64::from(engine.threads), "thread"),
        engine.depth,
        engine.batch
    )
}

/// What was asked, in the order in which people think of it.
fn workload(job: &Job) -> String {
    let access = match job.access {
        Access::Random => "random",
        Access::Sequential => "sequential",
        Access::Append => "append",
        Access::Replication => "replication",
    };
    let mut parts = vec![format!("{access}, {}", job.block_size_text())];
    match (job.reads(), job.writes()) {
        _ if job.access == Access::Replication => {
            parts.push("rounds of read, write back, append to the log".into());
        }
        (true, true) => parts.push(format!("{} writes", format_share(job.write_fraction))),
        (true, false) => parts.push("reads".into()),
        (false, _) => parts.push("writes".into()),
    }
    match job.sync {
        SyncRule::Never => {}
        SyncRule::Fraction(share) => {
            parts.push(format!("{} after {} of them", call(job.sync_call), format_share(share)));
        }
        SyncRule::Every(1) => parts.push(format!("{} after each write", call(job.sync_call))),
        SyncRule::Every(n) => parts.push(format!("{} after every {n} writes", call(job.sync_call))),
    }
    parts.extend(job.sync_at_end.map(|end| format!("{} at the end", call(end))));
    parts.push(if job.direct { "O_DIRECT".into() } else { "buffered".into() });
    match job.open_sync {
        OpenSync::None => {}
        OpenSync::Dsync => parts.push("O_DSYNC".into()),
        OpenSync::Sync => parts.push("O_SYNC".into()),
    }
    parts.extend(job.target.as_ref().map(|target| format!("on {target}")));
    if job.offset != Extent::Bytes(0) {
        parts.push(format!("from {}", extent(job.offset)));
    }
    parts.extend(job.span.map(|span| format!("over {}", extent(span))));
    if job.writes() && job.content == Content::Zero {
        parts.push("zero bytes".into());
    }
    match job.io_priority {
        IoPriority::Inherit => {}
        IoPriority::BestEffort(level) => parts.push(format!("best-effort priority {level}")),
        IoPriority::Idle => parts.push("idle priority".into()),
    }
    if job.warmup_ns > 0 {
        parts.push(format!("after {} of warm-up", units::format_duration(job.warmup_ns)));
    }
    parts.join(", ")
}

fn call(call: SyncCall) -> &'static str {
    match call {
        SyncCall::Fsync => "fsync",
        SyncCall::Fdatasync => "fdatasync",
    }
}

fn extent(extent: Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => units::format_size(bytes),
        Extent::Share(share) => format!("{} of the target", format_share(share)),
    }
}

/// Two tables, because one would be too wide: how much, and how long.
fn push_classes(out: &mut String, job: &JobRecord) {
    let classes: Vec<&ClassRecord> =
        job.classes.iter().filter(|class| !class.latency_ns.is_empty()).collect();
    if classes.is_empty() {
        out.push_str("  no operation ended in the measured window\n");
        return;
    }
    let right = |title| (title, Align::Right);
    let mut amounts = Table::new(
        [("", Align::Left), right("count"), right("per second"), right("bytes"), right("rate")],
        3,
    );
    let mut columns = vec![("service time", Align::Left)];
    columns.extend(["min", "mean", "stddev"].map(right));
    columns.extend(QUANTILES.map(|(title, _)| right(title)));
    columns.push(right("max"));
    let mut latencies = Table::new(columns, 2);
    let mut not_enough = false;
    for class in classes {
        let histogram = &class.latency_ns;
        let (count, word) = (histogram.count(), class.class.word());
        let (bytes, rate) = if class.bytes == 0 {
            ("-".to_owned(), "-".to_owned())
        } else {
            let rate = units::format_rate(per_second(class.bytes, job.window_ns));
            (units::format_size(class.bytes), rate)
        };
        let iops = iops_text(per_second(count, job.window_ns));
        amounts.row([word.to_owned(), units::format_count(count), iops, bytes, rate]);
        let rounded = |ns: Option<f64>| ns_text(ns.map(|ns| ns.round() as u64));
        let mut cells = vec![
            word.to_owned(),
            ns_text(histogram.min()),
            rounded(histogram.mean()),
            rounded(histogram.stddev()),
        ];
        cells.extend(QUANTILES.map(|(_, q)| quantile_text(histogram, q)));
        not_enough |= cells.iter().any(|cell| cell == NOT_ENOUGH);
        cells.push(ns_text(histogram.max()));
        latencies.row(cells);
    }
    out.push_str(&amounts.render(2));
    out.push_str(&latencies.render(2));
    if not_enough {
        push_wrapped(out, "    ", NOT_ENOUGH_NOTE);
    }
}

fn final_sync(job: &JobRecord, sync_ns: u64) -> String {
    let mut text = format!("{}, inside the measured time", units::format_ns(sync_ns));
    let bytes = job.transfers().bytes;
    if bytes > 0 && sync_ns < job.window_ns {
        let without = units::format_rate(per_second(bytes, job.window_ns - sync_ns));
        text += &format!("; without it the rate would be {without}");
    }
    text
}

fn cpu(job: &JobRecord) -> String {
    let share = |ns: u64| {
        if job.window_ns == 0 { 0.0 } else { ns as f64 / job.window_ns as f64 }
    };
    let mut text = format!("threads {} of one core", format_share(share(job.cpu.total_ns())));
    if job.engine.threads > 1 {
        text += &format!(", busiest thread {}", format_share(share(job.busiest_thread_cpu_ns)));
    }
    // Requests to the kernel: what the CPU time was spent on, syncs included.
    let requests: u64 = job
        .classes
        .iter()
        .filter(|class| class.class.is_request())
        .map(|class| class.latency_ns.count())
        .sum();
    if let (Some(user), Some(system)) =
        (job.cpu.user_ns.checked_div(requests), job.cpu.system_ns.checked_div(requests))
    {
        text += &format!(
            "; per I/O {} user + {} system",
            units::format_ns(user),
            units::format_ns(system)
        );
    }
    text
}

/// How evenly the threads were served: operations of each, and the spread relative to the mean.
fn fairness(job: &JobRecord) -> Option<String> {
    let operations = &job.thread_operations;
    let (least, most) = (operations.iter().min()?, operations.iter().max()?);
    if operations.len() < 2 {
        return None;
    }
    let n = operations.len() as f64;
    let mean = operations.iter().sum::<u64>() as f64 / n;
    let variance = operations.iter().map(|o| (*o as f64 - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let spread = if mean > 0.0 { variance.sqrt() / mean } else { 0.0 };
    Some(format!(
        "operations per thread {} to {}, mean {}, stddev {} of it",
        units::format_count(*least),
        units::format_count(*most),
        units::format_count(mean.round() as u64),
        format_share(spread)
    ))
}

/// Operations that were in flight at the end.
fn censored(job: &JobRecord) -> Option<String> {
    let oldest = job.censored.iter().max_by_key(|op| op.age_ns)?;
    Some(format!(
        "{} still in flight at the end, oldest {}: {}",
        job.censored.len(),
        if oldest.age_ns < 1_000_000_000 {
            units::format_ns(oldest.age_ns)
        } else {
            seconds(oldest.age_ns)
        },
        place(oldest.class, oldest.offset_bytes, oldest.size_bytes)
    ))
}

fn place(class: OpClass, offset_bytes: u64, size_bytes: u32) -> String {
    if size_bytes == 0 {
        return class.word().to_owned();
    }
    let size = units::format_size(u64::from(size_bytes));
    format!("{} of {size} at offset {offset_bytes}", class.word())
}

/// A point inside the window: `31.2 s`.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.1} s", ns as f64 / 1e9)
}

/// `1 thread`, `16 threads`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", units::format_count(count))
}
