//! What several pages show in the same way: the course of records, what they ran on, how to do it again.

use super::Source;
use crate::page::{Axis, Block, Chart, ChartKind, Column, Point, Section, Table, Unit};
use fathom_base::order::Order;
use fathom_base::units::{format_count, format_duration, format_ns, format_size};
use fathom_model::record::{CensoredOp, JobRecord, Record, RunHead, RunKind, SlowOp};
use fathom_model::stack::Stack;
use fathom_report::figures::Figures;
use fathom_report::text::{WIDTH, format_share, format_time};
use fathom_stats::Histogram;
use fathom_study::course::{Stretch, distribution, heat, stretches};
use fathom_study::drift;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// Points of a line: more than these are closer than a screen shows.
const POINTS_MAX: usize = 1200;
/// Columns of a heat map.
const COLUMNS_MAX: usize = 120;
/// Records that get charts of their own; the others are in the tables.
const DRAWN_MAX: usize = 12;
/// Said of medians over trials that are shown beside what was asked.
pub(super) const OF_THESE_TRIALS: &str = "Medians of these trials, without intervals.";
/// Stacks that are drawn.
const STACKS_MAX: usize = 6;

/// A job of a record, and what it is called on the page.
struct Drawn<'a> {
    name: String,
    job: &'a JobRecord,
    record: &'a Record,
    figures: Figures,
}

/// The jobs of the records, repeats of one label numbered.
fn drawn(records: &[Record]) -> Vec<Drawn<'_>> {
    let mut all = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let same = |other: &&Record| other.label == record.label;
        let mut name = record.label.clone();
        if records.iter().filter(same).count() > 1 {
            name += &format!(" #{}", records[..=index].iter().filter(same).count());
        }
        for job in &record.jobs {
            let several = record.jobs.len() > 1;
            let name = if several { format!("{name}, {}", job.name) } else { name.clone() };
            all.push(Drawn { name, job, record, figures: Figures::of_job(job) });
        }
    }
    all
}

/// The stacks of the records, each once by its layers, in the order in which they first stood there. Experiments that build what they
/// measure have many.
fn distinct(records: &[Record]) -> Vec<&Stack> {
    let mut seen = BTreeSet::new();
    let all = records.iter().flat_map(Record::stacks);
    all.filter(|stack| seen.insert(stack.layers())).collect()
}

/// What the records stand on as pictures; none for what stands on nothing.
pub(super) fn stacks(records: &[Record]) -> Vec<Block> {
    pictures(&distinct(records))
}

/// Each with its name where there are several.
fn pictures(all: &[&Stack]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for stack in all.iter().take(STACKS_MAX) {
        if all.len() > 1 {
            blocks.push(Block::Text(format!("{}:", stack.path)));
        }
        blocks.push(Block::Stack(Box::new((*stack).clone())));
    }
    if all.len() > STACKS_MAX {
        blocks.push(Block::Text(more_stacks(all.len())));
    }
    blocks
}

fn more_stacks(all: usize) -> String {
    let more = all - STACKS_MAX;
    let plural = if more == 1 { "stack" } else { "stacks" };
    format!(
        "The first {STACKS_MAX} are shown; {more} more {plural}: fathom show RUN --json has all."
    )
}

/// Throughput, latency, distribution, heat maps, slowest operations; charts of a single job for so many jobs.
pub(super) fn course(records: &[Record], singly_max: usize) -> Vec<Section> {
    let all = drawn(records);
    let shown = &all[..all.len().min(DRAWN_MAX)];
    let singly = &shown[..shown.len().min(singly_max)];
    let mut over_time = Section::new("Over time", left_out(all.len()));
    over_time.blocks.extend(throughput(shown).map(Block::from));
    over_time.blocks.extend(singly.iter().filter_map(latency_over_time).map(Block::from));
    let mut spread = Section::new(
        "Latency",
        "Each operation counts. A curve ends where fewer than ten operations lie beyond.",
    );
    spread.blocks.extend(percentiles(shown).map(Block::from));
    spread.blocks.extend(singly.iter().filter_map(heat_map).map(Block::from));
    let mut slow = Section::new("Slowest operations", "");
    for of in singly {
        slow.blocks.extend(slowest(of).map(Block::from));
    }
    slow.blocks.extend(slowest_rows(shown).map(Block::from));
    let is_filled = |section: &Section| !section.blocks.is_empty();
    [over_time, spread, slow].into_iter().filter(is_filled).collect()
}

fn left_out(jobs: usize) -> String {
    match jobs.saturating_sub(DRAWN_MAX) {
        0 => String::new(),
        more => format!("The first {DRAWN_MAX} are drawn; {more} more are in the tables."),
    }
}

/// How many operations in which intervals.
fn n_of(of: &Drawn, course: &[Stretch]) -> String {
    let operations = format_count(of.figures.latency_ns.count());
    let length = course.first().map_or(0, |stretch| stretch.length_ns);
    format!("{operations} operations in {} intervals of {}", course.len(), length_text(length))
}

fn length_text(ns: u64) -> String {
    if ns < 1_000_000_000 { format_ns(ns) } else { format_duration(ns) }
}

fn reduction(course: &[Stretch], jobs: &[Drawn]) -> String {
    let intervals = jobs.iter().map(|of| of.job.series.len()).max().unwrap_or(0);
    if intervals <= POINTS_MAX {
        return String::new();
    }
    let length = length_text(course.first().map_or(0, |stretch| stretch.length_ns));
    format!(
        "Each point is {length}: {} recorded intervals were put together.",
        format_count(intervals as u64)
    )
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// One line for each job; rates where sizes differ would not show what is asked.
fn throughput(all: &[Drawn]) -> Option<Chart> {
    let courses: Vec<Vec<Stretch>> =
        all.iter().map(|of| stretches(of.job, of.figures.counted.classes(), POINTS_MAX)).collect();
    let mut chart = Chart::new(
        "Operations per second",
        ChartKind::Line,
        Axis::new("time since the window began", Unit::Seconds),
        Axis::new("operations", Unit::PerSecond),
    );
    for (of, course) in all.iter().zip(&courses).filter(|(_, course)| course.len() > 1) {
        let points = course.iter().map(|s| Point::new(seconds(s.start_ns), s.per_s)).collect();
        chart = chart.series(of.name.clone(), points);
    }
    let highest = |chart: &Chart| {
        let tops =
            chart.series.iter().map(|series| series.points.iter().map(|p| p.y).fold(0.0, f64::max));
        tops.fold((f64::INFINITY, 0.0f64), |(least, most), top| (least.min(top), most.max(top)))
    };
    let (least, most) = highest(&chart);
    // Rows that differ by powers of ten are not seen on one scale; nothing on a scale of powers is zero.
    if most > 20.0 * least && chart.series.iter().flat_map(|s| &s.points).all(|p| p.y > 0.0) {
        chart.y = chart.y.log();
    }
    let longest = courses.iter().max_by_key(|course| course.len())?;
    chart.n = match chart.series.len() {
        1 => n_of(&all[0], longest),
        n => format!("{n} windows, each one run of its workload"),
    };
    chart.reduction = reduction(longest, all);
    let note = "Intervals inside of a run show its course; they are no repetitions of it.";
    (!chart.is_empty()).then(|| chart.note(note))
}

fn latency_over_time(of: &Drawn) -> Option<Chart> {
    let course = stretches(of.job, of.figures.counted.classes(), POINTS_MAX);
    if course.len() < 2 {
        return None;
    }
    let line = |ns: fn(&Stretch) -> Option<u64>| -> Vec<Point> {
        let points = course
            .iter()
            .filter_map(|s| Some(Point::new(seconds(s.start_ns), ns(s)?.max(1) as f64)));
        points.collect()
    };
    let mut chart = Chart::new(
        format!("Latency of {}", of.name),
        ChartKind::Line,
        Axis::new("time since the window began", Unit::Seconds),
        Axis::new("latency", Unit::Nanoseconds).log(),
    );
    for (name, points) in [
        ("p50", line(|s| s.latency_ns_p50)),
        ("p99", line(|s| s.latency_ns_p99)),
        ("max", line(|s| s.latency_ns_max)),
    ] {
        if !points.is_empty() {
            chart = chart.series(name, points);
        }
    }
    chart.reduction = reduction(&course, std::slice::from_ref(of));
    let note =
        "A median is drawn where two operations ended, another percentile where ten lie beyond it.";
    let apart = seconds(course[0].length_ns);
    (!chart.is_empty()).then(|| chart.n(n_of(of, &course)).note(note).joined(apart))
}

/// The percentiles of every job on an axis of nines.
fn percentiles(all: &[Drawn]) -> Option<Chart> {
    let series = all.iter().map(|of| (of.name.clone(), &of.figures.latency_ns));
    distributions("Latency distribution", series)
}

/// Distributions on an axis of nines; none when nothing was measured.
pub(super) fn distributions<'a>(
    title: &str,
    all: impl Iterator<Item = (String, &'a Histogram)>,
) -> Option<Chart> {
    let mut chart = Chart::new(
        title,
        ChartKind::Line,
        Axis::new("share of operations", Unit::Nines),
        Axis::new("latency at most", Unit::Nanoseconds).log(),
    );
    let mut counts = Vec::new();
    for (name, latency_ns) in all {
        let points: Vec<Point> = distribution(latency_ns)
            .into_iter()
            .map(|(share, ns)| Point::new(share, ns.max(1) as f64))
            .collect();
        if !points.is_empty() {
            counts.push(format_count(latency_ns.count()));
            chart = chart.series(name, points);
        }
    }
    let note = "To read: at 99 % stands the latency that 99 % of all operations did not exceed.";
    let n = match counts.as_slice() {
        [one] => format!("{one} operations"),
        several => format!("operations: {}", several.join("; ")),
    };
    (!chart.is_empty()).then(|| chart.n(n).note(note))
}

/// When a column begins, in seconds: with as many digits as tell it from the next one.
pub(super) fn moment(start_ns: u64, length_ns: u64) -> String {
    let digits = (0..6).find(|digits| length_ns.is_multiple_of(10u64.pow(9 - digits))).unwrap_or(6);
    format!("{:.*} s", digits as usize, seconds(start_ns))
}

fn heat_map(of: &Drawn) -> Option<Chart> {
    let found = heat(of.job, of.figures.counted.classes(), COLUMNS_MAX)?;
    let (_, length_ns) = *found.columns.first()?;
    let when = |(start_ns, _): &(u64, u64)| moment(*start_ns, length_ns);
    let mut chart = Chart::new(
        format!("Latencies of {} over time", of.name),
        ChartKind::HeatMap,
        Axis::names("time since the window began", found.columns.iter().map(when)),
        Axis::names("latency from", found.rows_ns.iter().map(|ns| format_ns(*ns))),
    )
    .series("operations", found.cells.iter().map(|(c, r, per_s)| Point::cell(*c, *r, *per_s)).collect())
    .n(format!(
        "{} operations in columns of {}",
        format_count(of.figures.latency_ns.count()),
        length_text(length_ns)
    ))
    .note("The darker or brighter a cell, the more operations ended then with that latency. Empty cells: none.");
    chart.scale = Some(Axis::new("operations", Unit::PerSecond).log());
    if of.job.series.len() > found.columns.len() {
        chart.reduction = format!(
            "{} recorded intervals were put together to {} columns; no operation is left out.",
            format_count(of.job.series.len() as u64),
            found.columns.len()
        );
    }
    Some(chart)
}

fn slowest(of: &Drawn) -> Option<Chart> {
    let job = of.job;
    let mut classes: Vec<_> = job.slowest.iter().map(|op| op.class).collect();
    classes.order();
    classes.dedup();
    let mut chart = Chart::new(
        format!("Slowest operations of {}", of.name),
        ChartKind::Scatter,
        Axis::new("end, since the window began", Unit::Seconds),
        Axis::new("latency", Unit::Nanoseconds).log(),
    );
    for class in classes {
        let own = job.slowest.iter().filter(|op| op.class == class);
        let point = |op: &SlowOp| Point::new(seconds(op.end_ns), op.latency_ns.max(1) as f64);
        chart = chart.series(class.word(), own.map(point).collect());
    }
    if !job.censored.is_empty() {
        let end = seconds(job.window_ns);
        let point = |op: &CensoredOp| Point::new(end, op.age_ns.max(1) as f64);
        chart = chart
            .series("still in flight at the end, age", job.censored.iter().map(point).collect());
    }
    let n = format!(
        "the slowest {} of {}",
        job.slowest.len(),
        format_count(of.figures.latency_ns.count())
    );
    let note = "Points that stand above each other ended together: probably one event delayed all of them.";
    (!chart.is_empty()).then(|| chart.n(n).note(note))
}

/// The very slowest with their places.
fn slowest_rows(all: &[Drawn]) -> Option<Table> {
    const EACH: usize = 5;
    let columns = [
        Column::left("operation"),
        Column::left("of"),
        Column::right("latency"),
        Column::right("ended at"),
        Column::right("offset, bytes"),
        Column::right("size"),
    ];
    let mut table = Table::new("The slowest operations and where they went", columns);
    for of in all {
        for op in of.job.slowest.iter().take(EACH) {
            table.row([
                op.class.word().to_owned(),
                of.name.clone(),
                format_ns(op.latency_ns),
                format!("{:.3} s", seconds(op.end_ns)),
                format_count(op.offset_bytes),
                format_size(u64::from(op.size_bytes)),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the devices below counted, record by record.
pub(super) fn devices(records: &[Record]) -> Option<Section> {
    let columns = [
        Column::left("device"),
        Column::left("during"),
        Column::right("reads/s"),
        Column::right("read"),
        Column::right("writes/s"),
        Column::right("written"),
        Column::right("flushes/s"),
        Column::right("in flight"),
        Column::right("busy"),
    ];
    let mut table = Table::new("", columns);
    for of in drawn(records) {
        if !std::ptr::eq(&raw const of.record.jobs[0], of.job) {
            continue;
        }
        let window_ns = of.record.window_ns;
        let per_s = |count: u64| count as f64 / seconds(window_ns.max(1));
        for device in &of.record.devices {
            let in_flight = device.in_flight_mean(window_ns);
            let rate = |count: u64| fathom_report::figures::iops_text(per_s(count));
            let bytes = |bytes: u64| fathom_base::units::format_rate(per_s(bytes));
            table.row([
                device.name.clone(),
                of.name.clone(),
                rate(device.reads),
                bytes(device.read_bytes),
                rate(device.writes),
                bytes(device.written_bytes),
                device.flushes.map_or_else(|| "-".to_owned(), rate),
                in_flight.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}")),
                format_share(device.busy_share(window_ns)),
            ]);
        }
    }
    let note = "The devices' own counters over each whole window. In flight: requests on average; busy: share of the time with \
                at least one request.";
    (!table.rows.is_empty()).then(|| Section::new("Devices", note).block(table))
}

/// The machine.
pub(super) fn machine(head: &RunHead, zone: &TimeZone) -> Section {
    let host = &head.host;
    let number = |n: Option<u64>| n.map(format_count);
    let mut table = Table::new("", [Column::left("what"), Column::left("value")]);
    let rows = [
        ("machine", host.machine.clone()),
        ("virtualisation", host.virtualisation.clone()),
        ("processor", host.cpu_model.clone()),
        ("CPUs, allowed to fathom", number(host.cpus_allowed)),
        ("CPUs, on line", number(host.cpus_online)),
        ("NUMA nodes", number(host.numa_nodes)),
        ("memory", host.memory_total_bytes.map(format_size)),
        ("memory, available at the start", host.memory_available_bytes.map(format_size)),
        (
            "swap in use at the start",
            host.swap_total_bytes
                .zip(host.swap_free_bytes)
                .map(|(all, free)| format_size(all.saturating_sub(free))),
        ),
        ("distribution", host.distribution.clone()),
        ("kernel", host.kernel.clone()),
        ("architecture", host.architecture.clone()),
        ("frequency governor", host.cpu_governor.clone()),
        ("mitigations", host.mitigations.clone()),
        ("huge pages", host.transparent_hugepages.clone()),
        ("clock", host.clock_source.clone()),
        ("load before (1 min)", host.load_1min.map(|load| format!("{load:.2}"))),
        ("up for", host.uptime_s.map(|s| format_duration((s * 1e9) as u64))),
        ("began", Some(format_time(head.started_unix_ns, zone))),
        ("fathom", Some(head.fathom_version.clone())),
        ("run", Some(head.id.clone())),
        ("label", head.label.clone()),
    ];
    for (what, value) in rows {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            table.row([what.to_owned(), value]);
        }
    }
    Section::new("Machine", "").block(table)
}

/// The layers with their settings, as `fathom check` shows them, and what changed of these from look to look.
pub(super) fn layers(records: &[Record]) -> Option<Section> {
    let all = distinct(records);
    let is_observed = records.iter().any(|record| !record.stacks_around().is_empty());
    let mut note = String::from(match is_observed {
        true => "Each layer with its settings, as they were read when it began.",
        false => "Each layer with its settings, as they were read before the measurement.",
    });
    let changed = drift::course(records);
    note += match (is_observed, changed.is_empty()) {
        (true, true) if records.iter().any(is_read_again) => {
            " When it ended no setting was another."
        }
        (false, true) if records.len() > 1 => {
            " They were the same before every trial; what changes during a trial makes it void."
        }
        (false, true) => " What changes during the trial makes it void.",
        _ => "",
    };
    let mut section = Section::new("Layers and settings", note);
    for stack in all.iter().take(STACKS_MAX) {
        let lines = fathom_check::tree(stack);
        if all.len() > 1 {
            section.blocks.push(Block::Text(format!("{}:", stack.path)));
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        section.blocks.extend((!lines.is_empty()).then_some(Block::Plain(text)));
    }
    if all.len() > STACKS_MAX {
        section.blocks.push(Block::Text(more_stacks(all.len())));
    }
    section.blocks.extend(settings_changed(records, &changed).map(Block::from));
    (!section.blocks.is_empty()).then_some(section)
}

/// True where the settings were read again at the end.
fn is_read_again(record: &Record) -> bool {
    record.stacks_around().iter().any(|around| around.after.is_some())
}

/// The settings that were others at a later look.
fn settings_changed(records: &[Record], changed: &[drift::Changed]) -> Option<Table> {
    const CHANGES_MAX: usize = 200;
    let columns = ["setting", "of", "was", "then", "seen"].map(Column::left);
    let mut table = Table::new("Settings that changed", columns);
    for change in changed.iter().take(CHANGES_MAX) {
        let seen = match change.before_record.and_then(|at| records.get(at).map(|of| (at, of))) {
            Some((at, record)) => format!("before {} (trial {})", record.label, at + 1),
            None => "at the end".to_owned(),
        };
        table.row(
            [&change.name, &change.target, &change.from, &change.to, &seen].map(String::as_str),
        );
    }
    if changed.len() > CHANGES_MAX {
        table.notes.push(format!("The first {CHANGES_MAX} of {}.", changed.len()));
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Every record as `fathom show` prints it.
pub(super) fn in_full(records: &[Record], zone: &TimeZone) -> Option<Section> {
    let shown = &records[..records.len().min(DRAWN_MAX)];
    let texts = shown.iter().map(|record| fathom_report::detail::run_detail(record, zone, WIDTH));
    let mut section = Section::new("In full", left_out(records.len()).replace("drawn", "shown"));
    section.blocks = texts.map(Block::Plain).collect();
    (!shown.is_empty()).then_some(section)
}

/// How to measure it again, and what else can be had.
pub(super) fn again(source: &Source) -> Section {
    let command =
        |caption: &str, command: String| Block::Command { caption: caption.to_owned(), command };
    let (again, has_seed) = with_seed(source);
    let caption = if has_seed {
        "The command that was run; with the same seed the same requests are issued"
    } else {
        "The command that was run"
    };
    Section::new("Again", "")
        .block(command(caption, again))
        .block(command("All figures for programs", format!("fathom show {} --json", source.name)))
}

/// The command, and whether a seed is in it: that of its plan, or the one that it was stored with.
fn with_seed(source: &Source) -> (String, bool) {
    let command = &source.head.command;
    // What is watched has options of its own.
    let draws = !matches!(source.head.kind, RunKind::Watch | RunKind::Capture);
    let seed = source.plan.and_then(|plan| plan.design.seed);
    match seed.filter(|_| draws && !command.contains(" --seed")) {
        Some(seed) => (format!("{command} --seed={seed}"), true),
        None => (command.clone(), draws && command.contains(" --seed")),
    }
}
