//! A captured workload on one page.

use crate::figures::{NotEnough, quantile_text};
use crate::table::{Align, Table};
use crate::text::{format_share, printable, push_wrapped_to};
use fathom_base::order::Order;
use fathom_base::units::{format_count, format_length, format_ns, format_rate, format_size};
use fathom_model::capture::{
    CaptureClass, CaptureDistance, CapturePlaces, CaptureProcess, CaptureRecord, DistanceOf,
};
use fathom_stats::Histogram;
use fathom_study::capture::likeness::{FAR, NEAR, SideBySide, apart_most, median};
use std::fmt::Write;

/// Processes that are named.
const PROCESSES: usize = 5;
/// Sizes that are named.
const SIZES: usize = 4;
/// Those of the tables.
const PERCENTILES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];
/// A variance of fewer windows is none.
const WINDOWS_MIN: u64 = 10;

/// The page, in lines of `width` columns.
#[must_use]
pub fn text(capture: &CaptureRecord, width: usize) -> String {
    let mut out = String::new();
    push_wrapped_to(&mut out, width, "", &headline(capture));
    if capture.requests() == 0 {
        return out;
    }
    out.push('\n');
    out += &classes(capture).render_to(0, width);
    push_wrapped_to(&mut out, width, "  ", &classes_note(capture));
    out.push('\n');
    if let Some((table, note)) = stages(capture) {
        out += &table.render_to(0, width);
        push_wrapped_to(&mut out, width, "  ", &note);
        out.push('\n');
    }
    for (name, line) in lines(capture) {
        push_wrapped_to(&mut out, width, &format!("{name:<12}"), &line);
    }
    out.push('\n');
    let (course, few) = course(capture);
    out += &course.render_to(0, width);
    few.iter().for_each(|few| push_wrapped_to(&mut out, width, "  ", few));
    if let Some(table) = likeness(capture) {
        out.push('\n');
        out += &table.render_to(0, width);
    }
    out
}

/// The device and how much was asked of it, in one sentence without its end.
#[must_use]
pub fn headline(capture: &CaptureRecord) -> String {
    let size = match capture.size_bytes {
        0 => String::new(),
        bytes => format!(" ({})", format_size(bytes)),
    };
    let seconds = seconds(capture);
    let requests = capture.requests();
    let bytes = |word| capture.class(word).map_or(0, |class| class.bytes);
    let moved = bytes("read") + bytes("write");
    let discarded = match bytes("discard") {
        0 => String::new(),
        bytes => format!(" and {} discarded", format_size(bytes)),
    };
    let least = if capture.lacks_events() { "at least " } else { "" };
    let refused = match capture.faults.refused {
        0 => String::new(),
        count => format!(
            " ({} more were refused at once, as nobody waited for them)",
            format_count(count)
        ),
    };
    format!(
        "{}{size}: {least}{} requests{refused} in {}, {} a second, {}{discarded}; {} events{}",
        printable(&capture.device),
        format_count(requests),
        format_length(capture.window_ns),
        format_count((requests as f64 / seconds).round() as u64),
        format_rate(moved as f64 / seconds),
        format_count(capture.events),
        match (capture.faults.lost, capture.lacks_ends()) {
            (0, false) if capture.faults.before_first > 0 => {
                format!(", {} before them missing", format_count(capture.faults.before_first))
            }
            (0, false) => ", none lost".to_owned(),
            (0, true) => String::new(),
            (lost, _) => format!(", {} lost", format_count(lost)),
        }
    )
}

fn seconds(capture: &CaptureRecord) -> f64 {
    (capture.window_ns as f64 / 1e9).max(1e-9)
}

/// What was asked, by class.
#[must_use]
pub fn classes(capture: &CaptureRecord) -> Table {
    let columns = [
        ("", Align::Left),
        ("share", Align::Right),
        ("IOPS", Align::Right),
        ("rate", Align::Right),
        ("mean size", Align::Right),
        ("deviation", Align::Right),
        ("harmonic", Align::Right),
        ("sequential", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("driver's share", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    let seconds = seconds(capture);
    for class in &capture.classes {
        let all = latency_of(capture, class);
        let of = |part: u64| format_share(part as f64 / class.count.max(1) as f64);
        let size =
            |bytes: f64| if class.bytes == 0 { String::new() } else { format_size(bytes as u64) };
        table.row([
            class.class.clone(),
            format_share(class.count as f64 / capture.requests() as f64),
            at_least(
                capture.lacks_events(),
                format_count((class.count as f64 / seconds).round() as u64),
            ),
            if class.bytes == 0 {
                String::new()
            } else {
                at_least(capture.lacks_events(), format_rate(class.bytes as f64 / seconds))
            },
            size(class.size_mean),
            size(class.size_deviation),
            size(class.size_harmonic),
            // What is discarded is not gone to.
            if matches!(&*class.class, "read" | "write") {
                of(class.follow)
            } else {
                String::new()
            },
            percentile(all, 0.5),
            percentile(all, 0.99),
            time(all.max()),
            driver_share(class),
        ]);
    }
    table
}

/// A rate as text; where events are missing it may have been more, and of none nothing is known.
fn at_least(is_lossy: bool, rate: String) -> String {
    match is_lossy {
        false => rate,
        true if rate.starts_with("0 ") || rate == "0" => "-".to_owned(),
        true => format!(">= {rate}"),
    }
}

/// What the columns of [`classes`] are.
#[must_use]
pub fn classes_note(capture: &CaptureRecord) -> String {
    let latency = match (capture.source.as_str(), capture.is_of_driver) {
        ("replay", _) => {
            "from the time at which a request was due (without such times: its start) to its end; driver's share: the part from its \
             start on"
        }
        (_, true) => {
            "from the driver to the end; when requests arrived before it the trace does not say"
        }
        (_, false) => {
            "from the arrival at the device to the end; driver's share: the part after the driver got the request, the rest was \
             waited in the kernel's queue"
        }
    };
    let note = format!(
        "deviation, harmonic: standard deviation and harmonic mean of the sizes. sequential: begins where one of the last 64 \
         streams of its class ended. p50 to max: latency {latency}."
    );
    let mut few = NotEnough::default();
    capture.classes.iter().for_each(|class| few.look_at(latency_of(capture, class), &PERCENTILES));
    let lost = ">=: at least that, as events were lost; - where none is left.".to_owned();
    let lost = capture.lacks_events().then_some(lost);
    [Some(note), lost, few.note()].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// The two parts of the latency of each class, with what they are; none where the trace does not tell them apart.
#[must_use]
pub fn stages(capture: &CaptureRecord) -> Option<(Table, String)> {
    let mut few = NotEnough::default();
    let (first, second, note) = if capture.is_replay() {
        let note = "late: from the time at which a request was due to its start. served: from its start to its end.";
        ("late", "served", note)
    } else {
        let note = "queue: from the arrival at the device to the driver (Q2D). device: from the driver to the end (D2C), of requests as the driver got them.";
        ("queue", "device", note)
    };
    let has_both =
        |class: &&CaptureClass| class.wait_ns.count() > 0 && class.service_ns.count() > 0;
    let classes = || capture.classes.iter().filter(has_both);
    // Merged, cut, and flushes that belong to writes.
    let counts = classes().any(|class| class.wait_ns.count() != class.service_ns.count());
    let figures = if counts { &["count", "p50", "p99", "max"][..] } else { &["p50", "p99", "max"] };
    let of = |stage: &str| {
        let name = |figure: &&str| (format!("{stage} {figure}"), Align::Right);
        figures.iter().map(name).collect::<Vec<_>>()
    };
    let names = std::iter::once((String::new(), Align::Left)).chain(of(first)).chain(of(second));
    let names: Vec<(String, Align)> = names.collect();
    let mut table = Table::new(names.iter().map(|(name, align)| (name.as_str(), *align)), 2);
    for class in classes() {
        let of = |times: &Histogram| {
            let count = counts.then(|| format_count(times.count()));
            let times = [percentile(times, 0.5), percentile(times, 0.99), time(times.max())];
            count.into_iter().chain(times).collect::<Vec<_>>()
        };
        let cells = [of(&class.wait_ns), of(&class.service_ns)].concat();
        table.row(std::iter::once(class.class.clone()).chain(cells));
        few.look_at(&class.wait_ns, &PERCENTILES);
        few.look_at(&class.service_ns, &PERCENTILES);
    }
    let note =
        [Some(note.to_owned()), few.note()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    (!table.is_empty()).then_some((table, note))
}

/// The driver's part of the time; the rest was waited for before.
fn driver_share(class: &CaptureClass) -> String {
    let (Some(total), Some(wait)) = (class.total_ns.mean(), class.wait_ns.mean()) else {
        return String::new();
    };
    if total == 0.0 { String::new() } else { format_share((1.0 - wait / total).max(0.0)) }
}

/// The latency that the table tells of a class: as much of it as the trace knows.
fn latency_of<'a>(capture: &CaptureRecord, class: &'a CaptureClass) -> &'a Histogram {
    if capture.is_of_driver { &class.service_ns } else { &class.total_ns }
}

/// A percentile, [`crate::figures::NOT_ENOUGH`] where few stand behind it, nothing where there is none.
fn percentile(latency_ns: &Histogram, q: f64) -> String {
    if latency_ns.is_empty() { String::new() } else { quantile_text(latency_ns, q) }
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, format_ns)
}

/// What has a line of its own: sizes, places, arrivals, depth, queue, durability, processes.
#[must_use]
pub fn lines(capture: &CaptureRecord) -> Vec<(&'static str, String)> {
    let mut lines = vec![("sizes", sizes(capture))];
    lines.push(("places", places(capture)));
    lines.push(("arrivals", arrivals(capture)));
    let depth = if capture.knows_depth() {
        format!(
            "{:.1} on average, {} at the median of the busy time, {} at most; busy {} of the time",
            capture.depth_mean(),
            capture.depth_quantile(0.5),
            capture.depth_quantile(1.0),
            format_share(capture.busy_share())
        ) + &with_driver(capture)
            + &without_end(capture)
    } else {
        not_known(capture)
    };
    lines.push(("in flight", depth));
    match starts(capture) {
        Some(starts) => lines.push(("starts", starts)),
        None => lines.push(("queue", queue(capture))),
    }
    let durable = durable(capture);
    if !durable.is_empty() {
        lines.push(("durability", durable));
    }
    lines.push(("processes", processes(capture)));
    lines
}

/// Those first that caused most, be it requests or bytes, and what all others together did.
fn processes(capture: &CaptureRecord) -> String {
    let requests = capture.requests().max(1) as f64;
    let bytes: u64 = capture.processes.iter().map(|process| process.bytes).sum();
    let caused =
        |p: &CaptureProcess| (p.count as f64 / requests).max(p.bytes as f64 / bytes.max(1) as f64);
    let mut all: Vec<&CaptureProcess> = capture.processes.iter().collect();
    all.order_by(|a, b| caused(b).total_cmp(&caused(a)));
    let (named, others) = all.split_at(all.len().min(PROCESSES));
    let of = |name: &str, count: u64, bytes: u64| {
        format!("{name} {}, {}", format_share(count as f64 / requests), format_size(bytes))
    };
    let mut parts: Vec<String> = Vec::new();
    for process in named {
        let name = if process.name.is_empty() { "(no name)" } else { &process.name };
        parts.push(of(&printable(name), process.count, process.bytes));
    }
    if !others.is_empty() {
        let (count, bytes) = others
            .iter()
            .fold((0, 0), |(count, bytes), process| (count + process.count, bytes + process.bytes));
        parts.push(of(&format!("{} more", others.len()), count, bytes));
    }
    parts.join("; ")
}

/// Why nobody knows how many were in flight.
fn not_known(capture: &CaptureRecord) -> String {
    if capture.is_out_of_order() {
        return "not known: the events are not in the order of their times".to_owned();
    }
    if capture.faults.lost == 0 && !capture.lacks_ends() && capture.is_unsure() {
        let count = format_count(capture.faults.unsure);
        return format!("not known: until when {count} requests waited cannot be told");
    }
    match (capture.faults.lost, capture.faults.abandoned) {
        (0, 0) => "not known: what happened on some processors is missing".to_owned(),
        (0, count) => {
            format!("not known: the ends of {} requests are missing", format_count(count))
        }
        _ => "not known: ends of requests are among the events that were lost".to_owned(),
    }
}

/// How many of them the driver had.
fn with_driver(capture: &CaptureRecord) -> String {
    let of = |share| capture.driver_depth_quantile(share);
    match (of(0.5), of(0.95), of(1.0)) {
        (Some(half), Some(most), Some(all)) => format!(
            "; the driver had {half} at the median of its busy time, {most} at 95 %, {all} at most"
        ),
        _ => String::new(),
    }
}

/// Requests of which nobody knows when they ended.
fn without_end(capture: &CaptureRecord) -> String {
    match capture.faults.abandoned {
        0 => String::new(),
        count => format!(
            "; {} whose end was not seen count for as long as others took",
            format_count(count)
        ),
    }
}

fn sizes(capture: &CaptureRecord) -> String {
    let mut parts = Vec::new();
    for class in capture.classes.iter().filter(|class| class.bytes > 0) {
        let of = |(bytes, count): &(u64, u64)| {
            format!("{} {}", format_size(*bytes), format_share(*count as f64 / class.count as f64))
        };
        let most: Vec<String> = class.sizes.iter().take(SIZES).map(of).collect();
        parts.push(format!("{}s of {}", class.class, most.join(", ")));
    }
    parts.join("; ")
}

fn places(capture: &CaptureRecord) -> String {
    let places = &capture.places;
    let all = places.count.max(1) as f64;
    let mut text = format!(
        "{} go on where one of the last streams ended ({} where the last request did)",
        format_share(places.follow_any as f64 / all),
        format_share(places.follow_last as f64 / all),
    );
    // What goes on or stays near has a distance, too: seeks are the longest of all.
    let share = places.seeks as f64 / places.seek_bytes.count().max(1) as f64;
    let of_seeks = |p: f64| places.seek_bytes.quantile(1.0 - (1.0 - p) * share);
    if let (true, Some(half), Some(most)) = (places.seeks > 0, of_seeks(0.5), of_seeks(0.95)) {
        let rate = places.seeks as f64 / seconds(capture);
        let _ = write!(
            text,
            "; {} seeks a second, over {} at the median, {} at 95 %",
            format_count(rate.round() as u64),
            format_size(half),
            format_size(most)
        );
    }
    let _ = write!(
        text,
        "; from {} to {}{}, half of it in {} and 90 % in {} of {} touched",
        format_size(places.first_byte),
        format_size(places.end_byte),
        areas(places),
        format_size(places.hot_bytes(0.5)),
        format_size(places.hot_bytes(0.9)),
        format_size(places.touched_bytes())
    );
    if is_even(places) {
        text +=
            " (no part of it gets more than another, as of a scan or of random places everywhere)";
    }
    text
}

/// Half of the requests begin in about half of what was touched, and nine tenths in about nine tenths: nothing of it is hot.
fn is_even(places: &CapturePlaces) -> bool {
    const REQUESTS_MIN: u64 = 100;
    let touched = places.touched_bytes() as f64;
    let is_spread = |share: f64| places.hot_bytes(share) as f64 >= 0.9 * share * touched;
    places.count >= REQUESTS_MIN && touched > 0.0 && is_spread(0.5) && is_spread(0.9)
}

/// What lies far apart, and which of it gets the most.
fn areas(places: &CapturePlaces) -> String {
    let is_one = places.areas.len() < 2 && places.elsewhere == 0;
    let Some((from, bytes, _)) = places.fullest_area().filter(|_| !is_one) else {
        return String::new();
    };
    let (from, bytes) = (format_size(from), format_size(bytes));
    let mut text = match places.areas.len() {
        1 => format!(", nearly all in {bytes} from {from} on"),
        count => format!(", in {count} areas far apart (most of it in {bytes} from {from} on)"),
    };
    if places.elsewhere > 0 {
        let share = format_share(places.elsewhere as f64 / places.count.max(1) as f64);
        let _ = write!(text, ", {share} elsewhere");
    }
    text
}

fn arrivals(capture: &CaptureRecord) -> String {
    let gap = &capture.arrivals.gap_ns;
    let mut text = match (gap.quantile(0.5), gap.quantile(0.99)) {
        (Some(half), Some(most)) => {
            format!("{} apart at the median, {} at 99 %", format_ns(half), format_ns(most))
        }
        _ => "one request only".to_owned(),
    };
    let of = |(length_ns, index, windows): &(u64, f64, u64)| {
        (*windows >= WINDOWS_MIN).then(|| format!("{index:.1} in {}", format_ns(*length_ns)))
    };
    let indices: Vec<String> = capture.arrivals.dispersion.iter().filter_map(of).collect();
    if !indices.is_empty() {
        let _ = write!(
            text,
            "; index of dispersion {} (1 by chance, more in bursts)",
            indices.join(", ")
        );
    }
    text
}

/// Of a replay: how late requests started.
fn starts(capture: &CaptureRecord) -> Option<String> {
    if !capture.is_replay() {
        return None;
    }
    let late = late(capture);
    let (Some(half), Some(most), Some(max)) = (late.quantile(0.5), late.quantile(0.99), late.max())
    else {
        return Some("as fast as they went; latency counts from the start".to_owned());
    };
    Some(format!(
        "{} after their time at the median, {} at 99 %, {} at most; latency counts from that time, the driver's share of it from the start",
        format_ns(half),
        format_ns(most),
        format_ns(max)
    ))
}

/// How late the requests of a replay started; empty of one without times.
#[must_use]
pub fn late(capture: &CaptureRecord) -> Histogram {
    let mut late = Histogram::new();
    capture.classes.iter().for_each(|class| late.merge(&class.wait_ns));
    late
}

fn queue(capture: &CaptureRecord) -> String {
    let [front, back, whole] = capture.merges;
    let merged = front + back + whole;
    let mut parts = vec![match capture.issued {
        0 => "none: the device has no queue of the kernel's".to_owned(),
        issued => format!("{} requests reached the driver", format_count(issued)),
    }];
    for (count, word) in [
        (merged, "merged"),
        (capture.splits, "cut"),
        (capture.requeues, "given back"),
        (capture.remaps, "from a partition or another device"),
        (capture.errors, "failed"),
    ] {
        if count > 0 {
            parts.push(format!("{} {word}", format_count(count)));
        }
    }
    parts.join(", ")
}

fn durable(capture: &CaptureRecord) -> String {
    let rate = |count: u64| format!("{:.1}/s", count as f64 / seconds(capture));
    let mut parts = Vec::new();
    if let Some(flush) = capture.class("flush") {
        parts.push(format!("flushes {}", rate(flush.count)));
    }
    // Of what a replay issues the marks are not known.
    if let Some(write) = capture.class("write").filter(|_| !capture.is_replay()) {
        let of = |count: u64| format_share(count as f64 / write.count.max(1) as f64);
        if write.preflush > 0 {
            parts.push(format!("flushes with writes (preflush) {}", rate(write.preflush)));
        }
        parts.push(format!(
            "FUA {} of the writes, waited for (sync) {}",
            of(write.fua),
            of(write.sync)
        ));
    }
    parts.join("; ")
}

/// Where a row of such a length begins, told apart from the one before.
fn start(start_ns: u64, length_ns: u64) -> String {
    match length_ns {
        1_000_000_000.. => format_length(start_ns),
        ns => {
            let decimals = 9 - ns.max(1).ilog10() as usize;
            format!("{:.decimals$} s", start_ns as f64 / 1e9)
        }
    }
}

/// How it went over time, in ten rows, with what is said of the percentiles that are missing in it.
fn course(capture: &CaptureRecord) -> (Table, Option<String>) {
    let mut few = NotEnough::default();
    let columns = [
        ("from", Align::Right),
        ("reads/s", Align::Right),
        ("writes/s", Align::Right),
        ("read", Align::Right),
        ("written", Align::Right),
        ("seeks/s", Align::Right),
        ("in flight", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    let each = capture.series.len().div_ceil(10).max(1);
    for rows in capture.series.chunks(each) {
        let ns: u64 = rows.iter().map(|row| row.length_ns).sum();
        let per_s = |count: u64| count as f64 * 1e9 / ns.max(1) as f64;
        let sum = |of: fn(&fathom_model::capture::CaptureInterval) -> u64| {
            rows.iter().map(of).sum::<u64>()
        };
        let is_lossy = capture.lacks_events() && rows.iter().any(|row| row.is_lossy);
        let count = |of| at_least(is_lossy, format_count(per_s(sum(of)).round() as u64));
        let rate = |of| at_least(is_lossy, format_rate(per_s(sum(of))));
        let mut latency = Histogram::new();
        rows.iter().for_each(|row| latency.merge_sparse(&row.latency_ns));
        few.look_at(&latency, &PERCENTILES);
        let depth: f64 = rows.iter().map(|row| row.depth_mean * row.length_ns as f64).sum();
        table.row([
            start(rows[0].start_ns, rows[0].length_ns.saturating_mul(each as u64)),
            count(|row| row.reads),
            count(|row| row.writes),
            rate(|row| row.read_bytes),
            rate(|row| row.write_bytes),
            count(|row| row.seeks),
            if capture.knows_depth() {
                format!("{:.1}", depth / ns.max(1) as f64)
            } else {
                "-".into()
            },
            percentile(&latency, 0.5),
            percentile(&latency, 0.99),
        ]);
    }
    (table, few.note())
}

/// How alike a replay was, or what was compared with another trace, figure by figure; none where nothing was compared.
#[must_use]
pub fn likeness(capture: &CaptureRecord) -> Option<Table> {
    let own = if capture.is_replay() { "replay" } else { "here" };
    let table = distances(&capture.likeness, ["trace", own]);
    (!capture.likeness.is_empty()).then_some(table)
}

fn distances(all: &[CaptureDistance], [a, b]: [&'static str; 2]) -> Table {
    let columns = [
        ("likeness", Align::Left),
        ("distance", Align::Right),
        (a, Align::Right),
        (b, Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns, 2);
    for d in all {
        let value = |value: Option<u64>| match value {
            None => String::new(),
            Some(value) => median(d, value),
        };
        table.row([
            d.figure.clone(),
            format!("{:.2}", d.distance),
            value(d.median_a),
            value(d.median_b),
            whose(d).to_owned(),
        ]);
    }
    table
}

/// Two captures or replays: how much was asked and how fast it was answered, then how far apart their distributions are.
#[must_use]
pub fn comparison_text(rows: &[SideBySide], alike: &[CaptureDistance], width: usize) -> String {
    let columns =
        [("", Align::Left), ("A", Align::Right), ("B", Align::Right), ("change", Align::Right)];
    let mut table = Table::new(columns, 2);
    for row in rows {
        let value = |value: Option<f64>| match value {
            None => "-".to_owned(),
            Some(bytes) if row.figure.ends_with("bytes") => format_rate(bytes),
            Some(ns) if row.figure.contains(" p") => format_ns(ns.round() as u64),
            Some(count) => format!("{count:.1}/s"),
        };
        let change = row
            .a
            .zip(row.b)
            .map_or_else(String::new, |(a, b)| format!("{:+.1} %", 100.0 * (b - a) / a));
        table.row([row.figure.clone(), value(row.a), value(row.b), change]);
    }
    let mut out = table.render_to(0, width);
    out.push('\n');
    out += &distances(alike, ["A", "B"]).render_to(0, width);
    let of_load = alike.iter().filter(|d| d.of == DistanceOf::Load);
    let worst = of_load.max_by(|a, b| a.distance.total_cmp(&b.distance));
    let said = worst.map_or_else(
        || "Nothing of the load is in both.".to_owned(),
        |d| {
            let word = match d.distance {
                value if value <= NEAR => "The same load",
                value if value <= FAR => "Nearly the same load",
                _ => "Two different loads",
            };
            format!("{word}: {}.", apart_most(alike))
        },
    );
    push_wrapped_to(&mut out, width, "", &said);
    let note = "Rates are those from the first request to the last one. Distances go from 0, the same distribution, to 1, another altogether. One run of each: how much the next two would differ is not known.";
    push_wrapped_to(&mut out, width, "", note);
    out
}

fn whose(distance: &CaptureDistance) -> &'static str {
    match distance.of {
        DistanceOf::Load => "of the load",
        DistanceOf::Changed => "changed on purpose",
        DistanceOf::Storage => "of the storage",
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
