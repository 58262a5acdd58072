//! The page of a file-server workload: what readers keep beside writers, every operation on the time axis with what stood still,
//! latencies by kind of operation, the devices second by second.

#[cfg(test)]
mod tests;

use super::{Source, parts};
use crate::page::{Axis, Block, Cell, Chart, ChartKind, Column, Page, Point, Section, Table, Unit};
use fathom_base::units::{format_count, format_ns, format_rate};
use fathom_model::fsop::{FsopPhase, FsopProcess, FsopRecord, Role, SecondSample};
use fathom_model::play::PlayedAct;
use fathom_model::record::{OpClass, Record};
use fathom_report::figures::{iops_text, ns_text, quantile_text};
use fathom_report::fsop::{competition_text, integrity, summary};
use fathom_report::summary::{SINGLE, spread};
use fathom_report::text::WIDTH;
use fathom_stats::Histogram;
use fathom_stats::interval::median_interval;
use fathom_stats::quantile::is_supported;
use fathom_study::fsop::{Kept, competition, readers_rate, stalls};
use fathom_study::play;
use fathom_study::repeats::LEVEL;

/// Phases that get charts of their own; the others are in the tables.
const DRAWN_MAX: usize = 6;
/// Processes whose statistics are in a table; the record has all.
const EACH_MAX: usize = 64;

/// A phase of one repeat.
#[derive(Clone, Copy)]
struct Shown<'a> {
    record: &'a Record,
    fsop: &'a FsopRecord,
}

impl Shown<'_> {
    fn name(&self) -> String {
        format!("{}, repeat {}", self.fsop.phase.text(), self.fsop.repeat)
    }

    /// Writers' bytes per second, all together.
    fn written_per_s(&self) -> f64 {
        let bytes: u64 = self.fsop.of_role(Role::Writer).map(FsopProcess::bytes).sum();
        bytes as f64 * 1e9 / self.record.window_ns.max(1) as f64
    }
}

/// True for records of such a workload.
pub(super) fn is_meant(records: &[Record]) -> bool {
    records.iter().any(|record| record.fsop.is_some())
}

/// Makes it.
pub(super) fn page(source: &Source) -> Page {
    let of = |record: &'_ Record| record.fsop.is_some();
    let all: Vec<Shown> = source
        .records
        .iter()
        .filter(|record| of(record))
        .filter_map(|record| Some(Shown { record, fsop: record.fsop.as_deref()? }))
        .collect();
    let mut first = vec![Block::Findings(source.findings.to_vec())];
    first.extend(parts::stacks(source.records));
    first.push(phases(&all).into());
    let mut sections: Vec<Section> = competing(&all).into_iter().collect();
    for shown in all.iter().take(DRAWN_MAX) {
        sections.push(section(shown, source));
    }
    if let (true, Some(last)) = (all.len() > DRAWN_MAX, sections.last_mut()) {
        let more = all.len() - DRAWN_MAX;
        last.blocks.push(Block::Text(format!(
            "The first {DRAWN_MAX} phases are drawn; {more} more are in the table."
        )));
    }
    sections.extend(prices(source.records));
    sections.extend(parts::layers(source.records));
    sections.push(parts::machine(source.head, source.zone));
    sections.push(parts::again(source));
    let phases: Vec<String> = distinct(&all).into_iter().map(FsopPhase::text).collect();
    let play = all.first().and_then(|shown| shown.fsop.spec.play.as_ref());
    let what = play.map_or("file server", |play| &play.name);
    let article = if play.is_some() { "" } else { "a " };
    Page {
        title: format!("{what} {} on {}", source.name, source.head.target),
        question: format!(
            "What does {} do for {article}{what}: {}?",
            source.head.target,
            phases.join("; then ")
        ),
        answer: answer(source.records, &all),
        verdict: Some(source.verdict),
        first,
        sections,
    }
}

fn distinct(all: &[Shown]) -> Vec<FsopPhase> {
    let mut phases: Vec<FsopPhase> = Vec::new();
    for shown in all {
        if !phases.contains(&shown.fsop.phase) {
            phases.push(shown.fsop.phase);
        }
    }
    phases
}

/// What readers keep beside writers; else what the phases did.
fn answer(records: &[Record], all: &[Shown]) -> String {
    let text = competition_text(&competition(records), usize::MAX);
    let kept: Vec<&str> =
        text.lines().map(|line| line.trim_start_matches("competition").trim()).collect();
    if !kept.is_empty() {
        return format!("{}.", kept.join("; "));
    }
    if let Some(text) = transactions(all) {
        return text;
    }
    let one = |shown: &Shown| {
        if let Some(rate) = play::transactions_per_s(shown.record, shown.fsop) {
            return format!("{}: {} transactions/s", shown.name(), iops_text(rate));
        }
        let files = readers_rate(shown.record, shown.fsop, Kept::Files);
        match shown.fsop.phase.readers {
            0 => format!("{}: {} written", shown.name(), format_rate(shown.written_per_s())),
            _ => format!("{}: {} files/s", shown.name(), iops_text(files)),
        }
    };
    let each: Vec<String> = all.iter().take(4).map(one).collect();
    if each.is_empty() { String::new() } else { format!("{}. {SINGLE}", each.join("; ")) }
}

/// Transactions per second of the repeats of a personality; none for what ran once, or is no personality.
fn transactions(all: &[Shown]) -> Option<String> {
    let rate = |shown: &Shown| play::transactions_per_s(shown.record, shown.fsop);
    let rates: Vec<f64> = all.iter().filter_map(rate).collect();
    if rates.len() < 2 || rates.len() != all.len() || distinct(all).len() != 1 {
        return None;
    }
    let phase = all[0].fsop.phase.text();
    let median = median_interval(&rates, LEVEL).ok()?;
    let end = |pick: fn(f64, f64) -> f64| rates.iter().copied().reduce(pick);
    let spread = spread("repeats", median, [end(f64::min)?, end(f64::max)?]);
    Some(format!("{phase}: transactions/s {spread}."))
}

/// One row for each phase of each repeat.
fn phases(all: &[Shown]) -> Table {
    let is_played = all.iter().any(|shown| shown.fsop.spec.play.is_some());
    let mut columns = vec![
        Column::left("phase"),
        Column::right("repeat"),
        Column::right(if is_played { "transactions/s" } else { "files/s read" }),
    ];
    // Clients are neither readers nor writers.
    if !is_played {
        columns.extend([Column::right("read"), Column::right("written")]);
    }
    columns.extend([Column::right("stalls"), Column::right("oldest unfinished")]);
    let mut table = Table::new("Phases", columns);
    for shown in all {
        let Shown { record, fsop } = shown;
        let [files, bytes] =
            [Kept::Files, Kept::Bytes].map(|kept| readers_rate(record, fsop, kept));
        let files = play::transactions_per_s(record, fsop).unwrap_or(files);
        let oldest = fsop.oldest_unfinished(record.window_ns);
        let stalled = stalls(record, fsop).len();
        let rate = |rate: f64| {
            Cell::number(if rate > 0.0 { format_rate(rate) } else { "-".to_owned() }, rate)
        };
        let mut cells = vec![
            fsop.phase.text().into(),
            Cell::number(fsop.repeat.to_string(), f64::from(fsop.repeat)),
            Cell::number(iops_text(files), files),
        ];
        if !is_played {
            cells.extend([rate(bytes), rate(shown.written_per_s())]);
        }
        cells.extend([
            Cell::number(stalled.to_string(), stalled as f64),
            oldest.map_or_else(
                || "".into(),
                |(_, class, age)| format!("{}, {}", class.word(), format_ns(age)).into(),
            ),
        ]);
        table.row(cells);
    }
    table
}

/// The readers' rate in every phase and repeat.
fn competing(all: &[Shown]) -> Option<Section> {
    let phases: Vec<FsopPhase> =
        distinct(all).into_iter().filter(|phase| phase.readers > 0).collect();
    if phases.len() < 2 {
        return None;
    }
    let point = |shown: &Shown| {
        let at = phases.iter().position(|phase| *phase == shown.fsop.phase)?;
        Some(Point::new(at as f64, readers_rate(shown.record, shown.fsop, Kept::Files)))
    };
    let points: Vec<Point> = all.iter().filter_map(point).collect();
    let x = Axis::names("phase", phases.iter().map(|phase| phase.text()));
    let repeats = points.len() / phases.len().max(1);
    let plural = if repeats == 1 { "repeat" } else { "repeats" };
    let chart = Chart::new(
        "What readers read in each phase",
        ChartKind::Scatter,
        x,
        Axis::new("files opened", Unit::PerSecond),
    )
    .series("all readers together", points)
    .n(format!("{repeats} {plural}, one point for each phase of each"));
    Some(Section::new("Readers alone and beside writers", "").block(chart))
}

fn section(shown: &Shown, source: &Source) -> Section {
    let mut section = Section::new(shown.name(), "");
    let acts = shown.fsop.acts();
    let [service, response] = by_act(shown, &acts);
    section.blocks = [service, response].into_iter().flatten().map(Block::from).collect();
    let charts = [stream(shown), by_class(shown), by_second(shown), busy(shown), dirty(shown)];
    section.blocks.extend(charts.into_iter().flatten().map(Block::from));
    section.blocks.extend(each_process(shown).map(Block::from));
    section.block(Block::Plain(summary(shown.record, shown.fsop, source.zone, WIDTH)))
}

/// What the settings of journal, barrier and data mode cost in integrity and after a crash; none where the filesystem has none.
fn prices(records: &[Record]) -> Option<Section> {
    let lines = integrity(&records.first()?.targets.first()?.stack);
    let columns = [Column::left("setting"), Column::left("price for integrity and recovery")];
    let mut table = Table::new("Settings of the filesystem", columns);
    for (setting, text) in lines.iter().filter_map(|line| line.split_once(": ")) {
        table.row([Cell::from(setting.to_owned()), text.to_owned().into()]);
    }
    (!lines.is_empty()).then(|| Section::new("Price for safety", "").block(table))
}

/// The statistics of each process by kind of operation.
fn each_process(shown: &Shown) -> Option<Table> {
    let all = &shown.fsop.processes;
    if all.len() < 2 {
        return None;
    }
    let titles = ["count", "min", "avg", "p50", "p99", "p99.9", "max", "std"];
    let columns = titles.map(Column::right);
    let head = [Column::left("process"), Column::left("operation")];
    let mut caption = format!("Each process of {}", shown.name());
    if all.len() > EACH_MAX {
        caption += &format!(", the first {EACH_MAX} of {}", all.len());
    }
    let mut table = Table::new(caption, head.into_iter().chain(columns));
    for process in all.iter().take(EACH_MAX) {
        for class in process.classes.iter().filter(|class| !class.latency_ns.is_empty()) {
            let name = format!("{} {}", process.role.word(), process.number);
            let head = [Cell::from(name), class.class.word().into()];
            table.row(head.into_iter().chain(statistics(&class.latency_ns)));
        }
    }
    Some(table)
}

/// Count, min, avg, p50, p99, p99.9, max, standard deviation.
fn statistics(latency_ns: &Histogram) -> [Cell; 8] {
    let time = |ns: Option<f64>| {
        let text = ns_text(ns.map(|ns| ns.round() as u64));
        ns.map_or_else(|| Cell::from("-"), |ns| Cell::number(text, ns))
    };
    let whole = |ns: Option<u64>| time(ns.map(|ns| ns as f64));
    let quantile = |q: f64| {
        let at = latency_ns.quantile(q).filter(|_| is_supported(latency_ns.count(), q));
        Cell { text: quantile_text(latency_ns, q), value: at.map(|ns| ns as f64) }
    };
    [
        Cell::number(format_count(latency_ns.count()), latency_ns.count() as f64),
        whole(latency_ns.min()),
        time(latency_ns.mean()),
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        whole(latency_ns.max()),
        time(latency_ns.stddev()),
    ]
}

/// Every operation, or a part of them chosen by chance.
fn stream(shown: &Shown) -> Option<Chart> {
    let stream = &shown.fsop.stream;
    let mut chart = Chart::new(
        format!("Operations of {}", shown.name()),
        ChartKind::Scatter,
        Axis::new("start, since the window began", Unit::Seconds),
        Axis::new("latency", Unit::Nanoseconds).log(),
    );
    for (index, class) in stream.classes.iter().enumerate() {
        let own = stream.class.iter().enumerate().filter(|(_, of)| usize::from(**of) == index);
        let point = |(at, _): (usize, &u8)| {
            let (start_us, took_ns) = (stream.start_us.get(at)?, stream.took_ns(at)?);
            // What is shorter than a step of the clock is one; nothing on a scale of powers is zero.
            Some(Point::new(*start_us as f64 / 1e6, took_ns.max(stream.step_ns()) as f64))
        };
        let points: Vec<Point> = own.filter_map(point).collect();
        if !points.is_empty() {
            chart = chart.series(class.word(), points);
        }
    }
    let n = format!("{} operations", format_count(stream.operations));
    if stream.operations > stream.len() as u64 {
        chart.reduction = format!("Drawn: {}.", stream.reduction());
    }
    let note = "Points that stand above each other began together.";
    (!chart.is_empty()).then(|| chart.n(n).note(note))
}

/// Latencies by kind of operation, all processes together.
fn by_class(shown: &Shown) -> Option<Chart> {
    let mut all: Vec<(OpClass, Histogram)> = Vec::new();
    for class in shown.fsop.processes.iter().flat_map(|process| &process.classes) {
        match all.iter_mut().find(|(known, _)| *known == class.class) {
            Some((_, sum)) => sum.merge(&class.latency_ns),
            None => all.push((class.class, class.latency_ns.clone())),
        }
    }
    let title = format!("Latency distribution of {}", shown.name());
    parts::distributions(&title, all.iter().map(|(class, sum)| (class.word().to_owned(), sum)))
}

/// Transactions of a personality by kind, all clients together; with a rate also from when they were due.
fn by_act(shown: &Shown, acts: &[PlayedAct]) -> [Option<Chart>; 2] {
    let name = |act: &PlayedAct| act.act.word().to_owned();
    let service = acts.iter().map(|act| (name(act), &act.service_ns));
    let response = acts.iter().filter_map(|act| Some((name(act), act.response_ns.as_ref()?)));
    let of = shown.name();
    let title = format!("Transactions of {of}");
    let due = format!("Transactions of {of}, from when they were due");
    [
        parts::distributions(&title, service),
        parts::distributions(&due, response).map(|mut chart| {
            chart.note += " Only what ended is drawn; the summary below says what did not.";
            chart
        }),
    ]
}

/// What each process got done.
fn by_second(shown: &Shown) -> Option<Chart> {
    let mut chart = Chart::new(
        format!("Operations of each process, {}", shown.name()),
        ChartKind::Line,
        Axis::new("time since the window began", Unit::Seconds),
        Axis::new("operations ended", Unit::PerSecond),
    );
    for process in &shown.fsop.processes {
        let points = rates(&process.operations_by_second, shown.record.window_ns);
        if points.len() > 1 {
            chart = chart.series(format!("{} {}", process.role.word(), process.number), points);
        }
    }
    let seconds = shown.fsop.processes.iter().map(|p| p.operations_by_second.len()).max();
    let n = format!("{} seconds of one run", seconds.unwrap_or(0));
    (!chart.is_empty()).then(|| chart.n(n))
}

/// Counts of the seconds of a window as rates, each at the end of its second. What a window that is no whole number of seconds
/// has left is a rate over its own length; where that is less than a tenth, it belongs to the second before.
fn rates(counts: &[u64], window_ns: u64) -> Vec<Point> {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut points = Vec::new();
    let (mut sum, mut from_ns) = (0, 0);
    for (end, count) in (1u64..).zip(counts) {
        let end_ns = (end * SECOND_NS).min(window_ns);
        sum += count;
        let rest_ns = window_ns.saturating_sub(end_ns);
        if (1..SECOND_NS / 10).contains(&rest_ns) {
            continue;
        }
        let length_s = end_ns.saturating_sub(from_ns).max(1) as f64 / 1e9;
        points.push(Point::new(end_ns as f64 / 1e9, sum as f64 / length_s));
        (sum, from_ns) = (0, end_ns);
    }
    points
}

/// A line over the seconds of a phase.
fn line(shown: &Shown, of: impl Fn(&SecondSample) -> Option<f64>) -> Vec<Point> {
    let point = |second: &SecondSample| Some(Point::new(second.end_ns as f64 / 1e9, of(second)?));
    shown.fsop.seconds.iter().filter_map(point).collect()
}

fn over_seconds(
    shown: &Shown,
    title: &str,
    y: Axis,
    lines: Vec<(String, Vec<Point>)>,
) -> Option<Chart> {
    let x = Axis::new("time since the window began", Unit::Seconds);
    let mut chart = Chart::new(format!("{title}, {}", shown.name()), ChartKind::Line, x, y);
    for (name, points) in lines {
        if points.len() > 1 && points.iter().any(|point| point.y > 0.0) {
            chart = chart.series(name, points);
        }
    }
    let n = format!("{} seconds of one run", shown.fsop.seconds.len());
    (!chart.is_empty()).then(|| chart.n(n).joined(1.0))
}

fn busy(shown: &Shown) -> Option<Chart> {
    let mut names: Vec<&str> = Vec::new();
    for device in shown.fsop.seconds.iter().flat_map(|second| &second.devices) {
        if !names.contains(&device.name.as_str()) {
            names.push(&device.name);
        }
    }
    let share = |name: &str| {
        line(shown, |second| {
            second.devices.iter().find(|device| device.name == name).map(|device| device.busy_share)
        })
    };
    let lines = names.iter().map(|name| ((*name).to_owned(), share(name))).collect();
    over_seconds(shown, "Devices busy", Axis::new("share of the time", Unit::Share), lines)
}

fn dirty(shown: &Shown) -> Option<Chart> {
    let lines = vec![
        ("to be written".to_owned(), line(shown, |second| Some(second.dirty_bytes as f64))),
        ("being written".to_owned(), line(shown, |second| Some(second.writeback_bytes as f64))),
    ];
    over_seconds(shown, "Memory on its way to storage", Axis::new("memory", Unit::Bytes), lines)
}
