//! One job of a record in full.

use crate::figures::{
    CPU_WINDOW_NS_MIN, NO_CPU_SHARE, NotEnough, iops_text, ns_text, per_second, quantile_text,
    rate_window_ns,
};
use crate::table::{Align, Table};
use crate::text::{format_share, push_wrapped_to};
use crate::verification;
use crate::{asked, open_loop, series};
use fathom_base::units;
use fathom_model::metadata::Metadata;
use fathom_model::pattern::{Cursor, Distribution, FileChoice, Mix};
use fathom_model::record::{ClassRecord, JobRecord, OpClass};
use fathom_model::workload::{Access, Extent, IoPriority, Job, OpenSync, SyncRule};
use fathom_stats::Histogram;

/// How many of the slowest operations are shown.
const SLOWEST_SHOWN: usize = 5;

pub(crate) const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Everything about one job. `asked` is what was asked of it.
pub(crate) fn push(out: &mut String, job: &JobRecord, asked: Option<&Job>, width: usize) {
    push_wrapped_to(out, width, &format!("job {}  ", job.name), &engine(job));
    let mut line =
        |name: &str, text: &str| push_wrapped_to(out, width, &format!("  {name:<12} "), text);
    if let Some(reason) = &job.engine.fallback {
        line("not as asked", reason);
    }
    if let Some(asked) = asked {
        let mut text = workload(asked);
        let part = asked::arrivals(asked);
        if !part.is_empty() {
            text += &format!(", {part}");
        }
        line("asked for", &text);
        if let Some(text) = job.limits.text(asked) {
            line("in effect", &text);
        }
        if let Some(group) = &job.control_group {
            line("cgroup", &format!("its own: {}", group.text()));
        }
    }
    push_classes(out, job, width);
    if let Some(open) = &job.open_loop {
        open_loop::push_responses(out, open, width);
    }
    let mut line =
        |name: &str, text: &str| push_wrapped_to(out, width, &format!("  {name:<12} "), text);
    if let Some(sync_ns) = job.final_sync_ns {
        line("final sync", &final_sync(job, sync_ns));
    }
    for (name, text) in job.open_loop.iter().flat_map(|open| open_loop::lines(job, open)) {
        line(name, &text);
    }
    line("CPU", &cpu(job));
    if let Some(text) = fairness(job) {
        line("fairness", &text);
    }
    if let Some(text) = asked.and_then(|asked| verification::delivered(job, asked)) {
        line("content", &text);
    }
    for (index, text) in verification::of_job(job).iter().enumerate() {
        line(if index == 0 { "verified" } else { "" }, text);
    }
    if let Some(drawn) = series::line(job) {
        line("IOPS", &drawn);
    }
    for (index, op) in job.slowest.iter().take(SLOWEST_SHOWN).enumerate() {
        let text = format!(
            "{}: {}, {} after the start",
            units::format_ns(op.latency_ns),
            place(op.class, file_of(asked, op.file), op.offset_bytes, op.size_bytes),
            seconds(op.end_ns)
        );
        line(if index == 0 { "slowest" } else { "" }, &text);
    }
    if job.slowest.len() > SLOWEST_SHOWN {
        line("", &format!("({} more are stored)", job.slowest.len() - SLOWEST_SHOWN));
    }
    if let Some(text) = censored(job, asked) {
        line("not ended", &text);
    }
}

/// What ended a job before the duration that it has as well.
pub(crate) fn early_end(job: &JobRecord, asked: &Job) -> Option<String> {
    let duration_ns = asked.duration_ns.filter(|ns| job.window_ns < *ns)?;
    // Trims and zero ranges count, too, but not for fairness.
    let cleared = job.merged(&[OpClass::Trim, OpClass::Zero]).latency_ns.count();
    let done = cleared + job.thread_operations.iter().sum::<u64>();
    let first = match (asked.operations, asked.amount_bytes) {
        (Some(operations), amount) if amount.is_none() || done >= operations => {
            format!("operations={operations}")
        }
        (_, Some(_)) => "amount, which is one pass at the most,".to_owned(),
        (_, None) if asked.access == Access::Sweep => "the end of the sweep".to_owned(),
        (_, None) if asked.metadata.is_some() => "the last of its names".to_owned(),
        (_, None) => return None,
    };
    let (lasted, asked) = (seconds(job.window_ns), seconds(duration_ns));
    Some(format!("after {lasted} of {asked}: {first} came first"))
}

fn engine(job: &JobRecord) -> String {
    let engine = &job.engine;
    let features = if engine.features.is_empty() {
        String::new()
    } else {
        format!(" ({})", engine.features.join(", "))
    };
    let held = job.in_flight_mean().map_or_else(String::new, |mean| {
        format!("; about {mean:.1} of {} in flight on average", job.in_flight_max())
    });
    let ended = ended_together(job).map_or_else(String::new, |ended| format!(" (really {ended})"));
    format!(
        "{}{features}, {} x depth {}, batch {}{ended}{held}",
        engine.kind.word(),
        plural(u64::from(engine.threads), "thread"),
        engine.depth,
        engine.batch
    )
}

/// How many ended at a time on average, where that was more than one: they waited for each other.
fn ended_together(job: &JobRecord) -> Option<String> {
    let requests = job.classes.iter().filter(|c| c.class.is_request());
    let ended: u64 = requests.map(|c| c.latency_ns.count()).sum();
    let is_counted = job.batches > 0 && ended > 0;
    let mean = is_counted.then(|| format!("{:.1}", ended as f64 / job.batches as f64));
    mean.filter(|mean| mean != "1.0")
}

/// What was asked, in the order in which people think of it.
pub(crate) fn workload(job: &Job) -> String {
    if let Some(metadata) = job.metadata {
        return on_names(job, metadata);
    }
    let mut parts = vec![format!("{}, {}", offsets(job), job.block_size_text())];
    match (job.reads(), job.writes()) {
        _ if job.access == Access::Replication => {
            let log = units::format_size(u64::from(job.log_block_size_bytes));
            parts.push(format!("rounds of read, write back, append {log} to the log"));
        }
        _ if job.write_back_fraction > 0.0 => {
            let share = format_share(job.write_back_fraction);
            parts.push(format!("reads, {share} of them written back"));
        }
        (true, true) if job.writes_data() => {
            let fixed = if job.mix == Mix::Interleave { " in a fixed order" } else { "" };
            parts.push(format!("{} writes{fixed}", format_share(job.write_fraction)));
        }
        (true, _) => parts.push("reads".into()),
        (false, _) if !job.writes_data() => {}
        (false, _) => parts.push("writes".into()),
    }
    for (share, kind) in [(job.trim_fraction, "trims"), (job.zero_fraction, "zero ranges")] {
        if share > 0.0 {
            parts.push(format!("{} {kind}", format_share(share)));
        }
    }
    match job.sync {
        SyncRule::Never => {}
        SyncRule::Fraction(share) => {
            parts.push(format!("{} after {} of them", job.sync_call.word(), format_share(share)));
        }
        SyncRule::Every(1) => parts.push(format!("{} after each write", job.sync_call.word())),
        SyncRule::Every(n) => {
            parts.push(format!("{} after every {n} writes", job.sync_call.word()))
        }
    }
    parts.extend(
        job.sync_all_every
            .map(|n| format!("{} of every file after every {n} requests", job.sync_call.word())),
    );
    parts.extend(job.sync_at_end.map(|end| format!("{} at the end", end.word())));
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
    if let Some(align) = job.align_bytes {
        parts.push(format!("on multiples of {}", units::format_size(align)));
    }
    if job.overwrite {
        parts.push("over what is there".into());
    }
    parts.extend(verification::asked(job));
    parts.extend(ways(job));
    parts.extend(ranks(job));
    if job.warmup_ns > 0 {
        // Whole seconds as they were asked for; a part of one is not rounded away.
        let is_whole = job.warmup_ns.is_multiple_of(1_000_000_000);
        let show = if is_whole { units::format_duration } else { seconds };
        parts.push(format!("after {} of warm-up", show(job.warmup_ns)));
    }
    parts.join(", ")
}

/// Who goes first, where, and how much it may take.
fn ranks(job: &Job) -> Vec<String> {
    let mut parts = Vec::new();
    if job.io_priority != IoPriority::Inherit {
        parts.push(format!("I/O priority {}", job.io_priority.word()));
    }
    parts.extend(job.nice.map(|nice| format!("nice {nice}")));
    parts.extend(job.numa_node.map(|node| format!("NUMA node {node}")));
    if !job.cpus.is_empty() {
        let cpus: Vec<String> = job.cpus.iter().map(u32::to_string).collect();
        parts.push(format!("on CPUs {}", cpus.join(", ")));
    }
    parts.extend(job.cgroup_weight.map(|weight| format!("cgroup weight {weight}")));
    if !job.cgroup_max.is_empty() {
        parts.push(format!("cgroup at most {}", job.cgroup_max.text()));
    }
    parts
}

/// How requests are handed to the kernel and taken back, where that is not as usual.
fn ways(job: &Job) -> Vec<String> {
    let mut parts = Vec::new();
    if job.batch > 1 {
        parts.push(format!("waits for {} ends at a time", job.batch));
    }
    parts.extend(job.batch_submit.map(|most| format!("hands over {most} at a time")));
    let switches = [
        (job.polled, "polled"),
        (job.sqpoll, "handed over by a thread of the kernel"),
        (job.registered == Some(true), "registered"),
        (job.registered == Some(false), "nothing registered"),
    ];
    parts.extend(
        switches.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, word)| word.into()),
    );
    parts
}

/// What is done with names, and in which order.
fn on_names(job: &Job, metadata: Metadata) -> String {
    let verb = match metadata {
        Metadata::Create => "creates",
        Metadata::Stat => "looks up",
        Metadata::Delete => "deletes",
    };
    let order = match (job.access, metadata) {
        (Access::Sequential, Metadata::Create) => "in the order of their names",
        (Access::Sequential, _) => "in the order of the directory",
        (_, Metadata::Create) => "with names in no order",
        _ => "in a random order",
    };
    let empty = if metadata == Metadata::Create { "empty " } else { "" };
    let count = plural(u64::from(job.names.unwrap_or(0)), &format!("{empty}file"));
    format!("{verb} {count} {order}, one after the other")
}

/// How offsets follow each other, and over which files.
fn offsets(job: &Job) -> String {
    let mut text = job.access.word().to_owned();
    if let Some(stride) = job.stride_bytes {
        text += &format!(" by {}", units::format_size(stride));
    }
    if let Some(points) = job.sweep_points {
        text += &format!(" over {}", plural(points, "place"));
    }
    if job.distribution != Distribution::Uniform {
        text += &format!(" {}", job.distribution.text());
    }
    match job.cursor {
        Cursor::Thread => {}
        Cursor::Job => text += " with one position for all threads",
        Cursor::Workload => text += " with one position for all jobs",
    }
    match (job.files, job.file_choice) {
        (1, _) => {}
        (_, FileChoice::Thread) => text += " in a file of each thread",
        (files, FileChoice::RoundRobin) => text += &format!(" in {files} files"),
        (files, FileChoice::Random) => text += &format!(" in {files} files by chance"),
        (files, FileChoice::Sequential) => text += &format!(" in {files} files, each to its end"),
    }
    if let Some(open) = job.files_open {
        text += &format!(", {open} of them open");
    }
    text
}

fn extent(extent: Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => units::format_size(bytes),
        Extent::Share(share) => format!("{} of the target", format_share(share)),
    }
}

/// Two tables, because one would be too wide: how much, and how long.
fn push_classes(out: &mut String, job: &JobRecord, width: usize) {
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
    let asked = Some(job.engine.batch.to_string()).filter(|_| job.engine.batch > 1);
    let title = ended_together(job)
        .or(asked)
        .map_or_else(|| "service time".to_owned(), |batch| format!("service time, batch {batch}"));
    let mut latencies = latency_table(&title);
    let mut not_enough = NotEnough::default();
    for class in classes {
        let histogram = &class.latency_ns;
        let (count, word) = (histogram.count(), class.class.word());
        let none = || "-".to_owned();
        let per_second =
            |count| Some(rate_window_ns(job)).filter(|ns| *ns > 0).map(|ns| per_second(count, ns));
        let (bytes, rate) = if class.bytes == 0 {
            (none(), none())
        } else {
            let rate = per_second(class.bytes).map_or_else(none, units::format_rate);
            (units::format_size(class.bytes), rate)
        };
        let iops = per_second(count).map_or_else(none, iops_text);
        amounts.row([word.to_owned(), units::format_count(count), iops, bytes, rate]);
        not_enough.look_at(histogram, &QUANTILES);
        latencies.row(latency_row(word, histogram));
    }
    out.push_str(&amounts.render_to(2, width));
    out.push_str(&latencies.render_to(2, width));
    if let Some(text) = not_enough.note() {
        push_wrapped_to(out, width, "    ", &text);
    }
}

/// A table of latencies, without rows.
pub(crate) fn latency_table(title: &str) -> Table {
    let right = |title| (title, Align::Right);
    let mut columns = vec![(title, Align::Left)];
    columns.extend(["min", "mean", "stddev"].map(right));
    columns.extend(QUANTILES.map(|(title, _)| right(title)));
    columns.push(right("max"));
    Table::new(columns, 2)
}

/// One row of it.
pub(crate) fn latency_row(word: &str, histogram: &Histogram) -> Vec<String> {
    let rounded = |ns: Option<f64>| ns_text(ns.map(|ns| ns.round() as u64));
    let mut cells = vec![
        word.to_owned(),
        ns_text(histogram.min()),
        rounded(histogram.mean()),
        rounded(histogram.stddev()),
    ];
    cells.extend(QUANTILES.map(|(_, q)| quantile_text(histogram, q)));
    cells.push(ns_text(histogram.max()));
    cells
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
    if (1..CPU_WINDOW_NS_MIN).contains(&job.window_ns) {
        return NO_CPU_SHARE.to_owned();
    }
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
fn censored(job: &JobRecord, asked: Option<&Job>) -> Option<String> {
    let oldest = job.censored.iter().max_by_key(|op| op.age_ns)?;
    // What begins with the end of the window has no age.
    let age = if oldest.age_ns == 0 {
        "just begun"
    } else {
        &format!("oldest {}", seconds(oldest.age_ns))
    };
    Some(format!(
        "{} still in flight at the end, {age}: {}",
        job.censored.len(),
        place(oldest.class, file_of(asked, oldest.file), oldest.offset_bytes, oldest.size_bytes)
    ))
}

/// The file of an operation, where there are several.
fn file_of(asked: Option<&Job>, file: u32) -> Option<u32> {
    asked.filter(|job| job.files > 1).map(|_| file)
}

fn place(class: OpClass, file: Option<u32>, offset_bytes: u64, size_bytes: u32) -> String {
    let of_file = file.map_or_else(String::new, |file| format!(" of file {file}"));
    if size_bytes == 0 {
        return format!("{}{of_file}", class.word());
    }
    let size = units::format_size(u64::from(size_bytes));
    format!("{} of {size} at offset {offset_bytes}{of_file}", class.word())
}

/// A point inside the window, or its length: `31.2 s`, below a second `214 ms`.
pub(crate) fn seconds(ns: u64) -> String {
    if ns < 999_500_000 { units::format_ns(ns) } else { format!("{:.1} s", ns as f64 / 1e9) }
}

/// `1 thread`, `16 threads`.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", units::format_count(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{class, record};

    #[test]
    fn a_short_warm_up_is_not_rounded_up() {
        for (warmup_ns, text) in [
            (100_000_000, "after 100 ms of warm-up"),
            (1_500_000_000, "after 1.5 s of warm-up"),
            (20_000_000_000, "after 20 s of warm-up"),
            (120_000_000_000, "after 2 min 00 s of warm-up"),
        ] {
            let text_of = workload(&Job { warmup_ns, ..Job::default() });
            assert!(text_of.ends_with(text), "{text_of}");
        }
    }
    #[test]
    fn what_really_ended_at_a_time_stands_beside_what_was_asked_for() {
        let told = |operations: u64, batches: u64, batch: u32| {
            let classes = vec![class(OpClass::Read, operations, 1000, 4096)];
            let mut job = record("randread", "x", classes).jobs.remove(0);
            (job.batches, job.engine.batch) = (batches, batch);
            let mut table = String::new();
            push_classes(&mut table, &job, 120);
            let line = engine(&job);
            let (_, line) = line.split_once("batch ").unwrap_or_default();
            let (_, title) = table.split_once("service time").unwrap_or_default();
            let title = title.trim_start_matches(", ").split("  ").next().unwrap_or_default();
            (line.split(';').next().unwrap_or_default().to_owned(), title.to_owned())
        };
        let words = |line: &str, title: &str| (line.to_owned(), title.to_owned());
        assert_eq!(told(204_946, 18_496, 1), words("1 (really 11.1)", "batch 11.1"));
        assert_eq!(told(4000, 1000, 4), words("4 (really 4.0)", "batch 4.0"));
        assert_eq!(told(1000, 1000, 1), words("1", ""));
        // Nobody counted.
        assert_eq!(told(1000, 0, 4), words("4", "batch 4"));
    }
}
