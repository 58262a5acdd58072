//! What a stored watch comes to, and two of them side by side.

use crate::figures::percentile_words;
use crate::table::{Align, Table};
use crate::text::{format_share, printable, push_wrapped_to};
use fathom_base::units::{format_count, format_figure, format_length, format_size};
use fathom_model::watch::{ApplicationRecord, ApplicationSample};
use fathom_study::watch::{
    MeanChange, OnlyInOne, WatchChange, WatchComparison, WatchFigure, WatchSummary, WatchedDevice,
};

/// Lines of an application's output that are shown.
const OUTPUT_LINES_MAX: usize = 12;

/// Medians of every device, the machine's means, what happened, and the application.
#[must_use]
pub fn answer_text(summary: &WatchSummary, width: usize) -> String {
    let mut out = lengths(summary);
    push_devices(&mut out, summary, width);
    push_latencies(&mut out, summary, width);
    push_host(&mut out, summary, width);
    for (second, what) in summary.events.iter().take(20) {
        let at = format_length((second * 1e9) as u64);
        out += &format!("  at {at}: {}\n", printable(what));
    }
    if summary.events.len() > 20 {
        out += &format!("  and {} more devices that came or went\n", summary.events.len() - 20);
    }
    if let Some(application) = &summary.application {
        out.push('\n');
        push_application(&mut out, application, width);
    }
    out.push('\n');
    out
}

/// How many intervals of what length there were, as a line.
#[must_use]
pub fn lengths(summary: &WatchSummary) -> String {
    let all = format_length((summary.seconds * 1e9) as u64);
    if summary.intervals == 1 {
        return format!("1 interval of {:.2} s\n", summary.seconds);
    }
    let whole = summary.intervals - summary.short;
    let plural = if whole == 1 { "interval" } else { "intervals" };
    let shorter = match summary.short {
        0 => String::new(),
        1 => format!(" and one of {:.2} s", summary.short_seconds),
        count => format!(" and {count} shorter ones"),
    };
    let interval = summary.interval_ns as f64 / 1e9;
    format!("{whole} {plural} of {interval:.2} s{shorter}, {all} in all\n")
}

fn push_devices(out: &mut String, summary: &WatchSummary, width: usize) {
    let busy: Vec<&WatchedDevice> =
        summary.devices.iter().filter(|device| !device.figures.is_empty()).collect();
    if busy.is_empty() {
        *out += "no device that was watched did anything\n";
        return;
    }
    let columns = [
        ("device", Align::Left),
        ("figure", Align::Left),
        ("median", Align::Right),
        ("95 % interval", Align::Right),
        ("mean", Align::Right),
        ("p95", Align::Right),
        ("max", Align::Right),
    ];
    let mut table = Table::new(columns, 2);
    for device in busy {
        for (at, figure) in device.figures.iter().enumerate() {
            let space = if device.title.is_empty() { "" } else { " " };
            let name = format!("{}{space}{}", device.name, device.title);
            let name = if at == 0 { name } else { String::new() };
            let remark = match (&device.stands_out, at) {
                (Some(reason), 0) => {
                    format!("<- slow in {} of {}: {reason}", device.stood_out, device.intervals)
                }
                _ => String::new(),
            };
            table.row_with_remark(cells(&name, figure), &remark);
        }
    }
    *out += &table.render_to(0, width);
    let idle = summary.devices.len() - table_devices(summary);
    if idle > 0 {
        let plural = if idle == 1 { "device" } else { "devices" };
        *out += &format!("{idle} more {plural} did nothing\n");
    }
    *out += "Medians of the intervals; their interval takes into account that seconds go together, and says nothing about another day.\n";
}

/// How long single requests took, all intervals together.
fn push_latencies(out: &mut String, summary: &WatchSummary, width: usize) {
    for device in &summary.devices {
        for of in &device.latency {
            let percentiles =
                [("p50", 0.5, of.p50_ns), ("p99", 0.99, of.p99_ns), ("p99.9", 0.999, of.p999_ns)];
            let text = format!(
                "{}: each of {} {} by itself: {}",
                printable(&device.name),
                format_count(of.count),
                of.direction,
                percentile_words(of.count, &percentiles, of.max_ns),
            );
            push_wrapped_to(out, width, "", &text);
        }
    }
}

fn table_devices(summary: &WatchSummary) -> usize {
    summary.devices.iter().filter(|device| !device.figures.is_empty()).count()
}

fn cells(name: &str, figure: &WatchFigure) -> [String; 7] {
    let interval = figure.interval.map_or_else(String::new, |of| of.range(format_figure));
    [
        name.to_owned(),
        figure.name.clone(),
        format_figure(figure.median),
        interval,
        format_figure(figure.mean),
        format_figure(figure.p95),
        format_figure(figure.max),
    ]
}

fn push_host(out: &mut String, summary: &WatchSummary, width: usize) {
    let mean = |name: &str| summary.host.get(name).copied().unwrap_or(0.0);
    let share = |name: &str| format_share(mean(name));
    let mut text = format!(
        "processors: user {}, system {}, iowait {}, steal {}; dirty memory {}",
        share("user"),
        share("system"),
        share("iowait"),
        share("steal"),
        format_size((mean("dirty") * 1024.0) as u64),
    );
    // Not every kernel tells it.
    if summary.host.contains_key("io_some") {
        let (some, all) = (share("io_some"), share("io_full"));
        text += &format!("; waiting for I/O: some tasks {some} of the time, all {all}");
    }
    push_wrapped_to(out, width, "", &text);
}

/// A watched application: how it ended, its figures, its own count, the devices below it, the end of what it printed.
#[must_use]
pub fn application_text(application: &ApplicationRecord, width: usize) -> String {
    let mut out = String::new();
    push_application(&mut out, application, width);
    out
}

fn push_application(out: &mut String, application: &ApplicationRecord, width: usize) {
    let ended = match (application.exit_status, application.signal, application.timed_out_ns) {
        (Some(status), ..) => format!("exit status {status}"),
        (_, Some(signal), _) => format!("ended by signal {signal}"),
        (_, _, Some(_)) => "ended by fathom, it took too long".to_owned(),
        _ => "ended with fathom".to_owned(),
    };
    let total = &application.total;
    let seconds = application.took_ns as f64 / 1e9;
    let head = format!(
        "{}: {seconds:.2} s, {ended}; {:.2} processors",
        printable(&application.command),
        total.cpu_share,
    );
    push_wrapped_to(out, width, "", &head);
    for (name, value) in &application.figures {
        *out += &format!("  {} {}\n", printable(name), format_figure(*value));
    }
    // Of the end only the storage's part is known.
    let (without, least) = match application.is_cut_off {
        true => (", without its end, which the kernel tells root only", "at least "),
        false => ("", ""),
    };
    let own = format!(
        "its own count{without}: asked to read {least}{} and to write {least}{}; read {} from storage, made {} to be written",
        format_size(total.asked_read_bytes),
        format_size(total.asked_write_bytes),
        format_size(total.read_bytes),
        format_size(total.written_bytes),
    );
    push_wrapped_to(out, width, "  ", &(own + unasked(total)));
    for (name, counts) in &application.devices {
        let text = format!(
            "{name}: read {} in {} requests, written {} in {}, {} flushes",
            format_size(512 * counts.reads.sectors),
            counts.reads.requests,
            format_size(512 * counts.writes.sectors),
            counts.writes.requests,
            counts.flushes
        );
        push_wrapped_to(out, width, "  ", &text);
    }
    let lines: Vec<&str> = application.output.lines().collect();
    let from = lines.len().saturating_sub(OUTPUT_LINES_MAX);
    if !lines.is_empty() {
        *out += if from > 0 { "  it printed, at the end:\n" } else { "  it printed:\n" };
    }
    for line in &lines[from..] {
        let line: String = printable(line).chars().take(width.saturating_sub(4)).collect();
        *out += &format!("    {line}\n");
    }
}

/// Why there is more than was asked for, where there is. Somewhat more is read ahead, or of a call that goes on.
fn unasked(total: &ApplicationSample) -> &'static str {
    const AHEAD_BYTES_MAX: u64 = 4 << 20;
    let is_more = |asked: u64, done: u64, unsure: u64| asked > 0 && done > asked + unsure;
    let (asked_read, asked_write) = (total.asked_read_bytes, total.asked_write_bytes);
    if is_more(asked_write, total.written_bytes, asked_write / 10) {
        " (what libaio, io_uring and mapped files ask for, the kernel does not count as asked for; what is to be written, it counts in whole folios of memory)"
    } else if is_more(asked_read, total.read_bytes, AHEAD_BYTES_MAX) {
        " (what libaio, io_uring and mapped files ask for, the kernel does not count as asked for)"
    } else {
        ""
    }
}

/// Two watches: medians and means, and which differ.
#[must_use]
pub fn comparison_text(comparison: &WatchComparison, width: usize) -> String {
    let columns = [
        ("device", Align::Left),
        ("figure", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("95 % interval of the difference", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(columns, 2);
    let mut last = "";
    for change in &comparison.changes {
        let name = if change.device == last { "" } else { &change.device };
        last = &change.device;
        table.row(change_cells(name, change));
        let means = [("  mean", &change.mean), ("  harmonic mean", &change.harmonic_mean)];
        for (word, mean) in means {
            if let Some(mean) = mean {
                table.row(mean_cells(word, mean));
            }
        }
    }
    let mut out = match (table.is_empty(), comparison.idle.is_empty()) {
        (true, true) => "the two watches have no device in common\n".to_owned(),
        (true, false) => String::new(),
        (false, _) => table.render_to(0, width),
    };
    if !comparison.idle.is_empty() {
        let text = format!("nothing was done in either: {}", comparison.idle.join(", "));
        push_wrapped_to(&mut out, width, "", &printable(&text));
    }
    let [a, b] = comparison.left_out;
    if a + b > 0 {
        let which = if a > 0 { "A" } else { "B" };
        let [intervals, _] = comparison.intervals;
        let (left, length) = (a.max(b), format_length((comparison.seconds[0] * 1e9) as u64));
        let plural = if intervals == 1 { "interval" } else { "intervals" };
        let text = format!(
            "compared over the same length, the first {length} ({intervals} {plural} of A): {left} more of {which} are left out"
        );
        push_wrapped_to(&mut out, width, "", &text);
    }
    if let Some((own, all)) = comparison.summed_ns {
        let [a, b, all] = [own[0], own[1], all].map(|ns| format_figure(ns as f64 / 1e9));
        let text = format!(
            "their intervals are not of one length, {a} s and {b} s: what was counted is summed up to intervals of {all} s in both, as medians and harmonic means depend on it"
        );
        push_wrapped_to(&mut out, width, "", &text);
    }
    if !comparison.only_in_one.is_empty() {
        let one = |only: &OnlyInOne| {
            let OnlyInOne { side, device, requests_per_s } = only;
            format!("{device} ({side}: {} requests a second)", format_figure(*requests_per_s))
        };
        let all: Vec<String> = comparison.only_in_one.iter().map(one).collect();
        let text = format!("only in one of them: {}", all.join(", "));
        push_wrapped_to(&mut out, width, "", &printable(&text));
    }
    let note = "Medians and means of each watch; their intervals take into account that seconds go together. \"differs\" means that these two watches did, by more than a step of the kernel's counters makes, not why, and not that two others would: an \
                experiment (fathom lab) says that.";
    push_wrapped_to(&mut out, width, "", note);
    out
}

fn change_cells(name: &str, change: &WatchChange) -> [String; 7] {
    let medians = MeanChange {
        a: change.a,
        b: change.b,
        change_percent: change.change_percent,
        difference: change.difference,
        differs: change.differs,
    };
    let mut cells = mean_cells(&change.figure, &medians);
    name.clone_into(&mut cells[0]);
    cells
}

fn mean_cells(word: &str, mean: &MeanChange) -> [String; 7] {
    let percent =
        mean.change_percent.map_or_else(String::new, |percent| format!("{percent:+.1} %"));
    let interval = mean.difference.map_or_else(|| "-".to_owned(), |of| of.range(format_figure));
    let verdict = match (mean.differs, &mean.difference) {
        (true, _) => "differs",
        (false, Some(_)) => "no difference seen",
        (false, None) => "",
    };
    [
        String::new(),
        word.to_owned(),
        format_figure(mean.a),
        format_figure(mean.b),
        percent,
        interval,
        verdict.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::watch::DeviceCounts;
    use fathom_stats::interval::Interval;
    use fathom_study::watch::WatchedLatency;

    fn figure(name: &str, median: f64) -> WatchFigure {
        let interval = Some(Interval { low: median - 1.0, high: median + 2.0, coverage: 0.95 });
        let (name, mean, p95, max) = (name.to_owned(), median, median * 2.0, median * 3.0);
        let (mean_interval, harmonic_mean) = (interval, None);
        WatchFigure {
            name,
            intervals: 20,
            median,
            interval,
            mean,
            mean_interval,
            harmonic_mean,
            p95,
            max,
        }
    }

    fn summary() -> WatchSummary {
        let device = WatchedDevice {
            name: "sdb".into(),
            title: "WD RED".into(),
            depth: 1,
            intervals: 20,
            seconds: 20.0,
            total: DeviceCounts::default(),
            requests_per_s: 80.0,
            asked_per_s: 80.0,
            requests_harmonic_per_s: None,
            figures: vec![figure("r/s", 80.0), figure("r_await", 12.34)],
            stood_out: 5,
            stands_out: Some("r_await 30 ms, its companions 4.1 ms".into()),
            syncing: 0,
            latency: vec![WatchedLatency {
                direction: "reads".to_owned(),
                count: 12_345,
                p50_ns: 120_000,
                p99_ns: 3_000_000,
                p999_ns: 9_000_000,
                max_ns: 40_000_000,
            }],
        };
        let idle = WatchedDevice {
            latency: Vec::new(),
            name: "sdc".into(),
            figures: Vec::new(),
            ..device.clone()
        };
        let application = ApplicationRecord {
            command: "sh -c 'x'".into(),
            took_ns: 12_340_000_000,
            exit_status: Some(0),
            figures: [("tps".to_owned(), 1840.25)].into(),
            output: (0..20).map(|n| format!("line {n}\n")).collect(),
            devices: [("sdb".to_owned(), DeviceCounts::default())].into(),
            ..ApplicationRecord::default()
        };
        WatchSummary {
            interval_ns: 1_000_000_000,
            intervals: 20,
            seconds: 20.0,
            devices: vec![device, idle],
            events: vec![(4.0, "sdd came".into())],
            application: Some(application),
            ..WatchSummary::default()
        }
    }

    #[test]
    fn everything_is_said_within_the_width() {
        let text = answer_text(&summary(), 100);
        for part in [
            "20 intervals of 1.00 s, 20 s in all",
            "<- slow in 5 of 20",
            "79.0 to 82.0",
            "1 more device did nothing",
            "at 4 s: sdd came",
            "sdb: each of 12 345 reads by itself: p50 120 us, p99 3.0 ms, p99.9 9.0 ms, longest 40 ms",
            "tps 1840",
            "exit status 0",
            "line 19",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("line 7\n"), "{text}");
    }

    #[test]
    fn lengths_are_those_that_were() {
        let head = |intervals: usize, short: usize, seconds: f64| {
            let short_seconds = 0.16 * short as f64;
            let (interval_ns, devices) = (1_000_000_000, Vec::new());
            let summary = WatchSummary {
                interval_ns,
                intervals,
                short,
                short_seconds,
                seconds,
                devices,
                ..WatchSummary::default()
            };
            answer_text(&summary, 100).lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(head(1, 1, 0.09), "1 interval of 0.09 s");
        assert_eq!(head(2, 1, 1.16), "1 interval of 1.00 s and one of 0.16 s, 1.2 s in all");
        assert_eq!(head(20, 0, 20.0004), "20 intervals of 1.00 s, 20 s in all");
        assert_eq!(head(4, 2, 2.3), "2 intervals of 1.00 s and 2 shorter ones, 2.3 s in all");
    }

    #[test]
    fn what_is_known_of_a_count_without_its_end_is_said() {
        let mut summary = summary();
        let application = summary.application.as_mut().expect("there");
        assert!(application_text(application, 200).contains("its own count: asked to read 0 B"));
        application.is_cut_off = true;
        let text = application_text(application, 200);
        assert!(text.contains("without its end") && text.contains("read at least 0 B"), "{text}");
    }

    #[test]
    fn pressure_is_told_only_where_it_is_known() {
        let mut summary = summary();
        assert!(!answer_text(&summary, 100).contains("waiting for I/O"));
        summary.host.insert("io_some".into(), 0.0);
        let text = answer_text(&summary, 200);
        assert!(text.contains("waiting for I/O: some tasks 0 % of the time, all 0 %"), "{text}");
    }

    #[test]
    fn two_watches_beside_each_other() {
        let change = WatchChange {
            device: "sda".into(),
            figure: "r/s".into(),
            a: 100.0,
            b: 150.0,
            change_percent: Some(50.0),
            difference: Some(Interval { low: 40.0, high: 60.0, coverage: 0.95 }),
            differs: true,
            mean: Some(MeanChange {
                a: 101.0,
                b: 102.0,
                change_percent: Some(1.0),
                difference: Some(Interval { low: -2.0, high: 4.0, coverage: 0.95 }),
                differs: false,
            }),
            harmonic_mean: None,
        };
        let none = WatchChange { difference: None, differs: false, mean: None, ..change.clone() };
        let comparison = WatchComparison {
            intervals: [60, 60],
            seconds: [60.0, 60.0],
            left_out: [0, 12],
            summed_ns: Some(([100_000_000, 1_000_000_000], 1_000_000_000)),
            changes: vec![change, none],
            idle: vec!["sdy".into()],
            only_in_one: vec![OnlyInOne { side: "B", device: "sdz".into(), requests_per_s: 12.0 }],
        };
        let text = comparison_text(&comparison, 100);
        assert!(text.contains("+50.0 %") && text.contains("40.0 to 60.0  differs"), "{text}");
        assert!(text.contains("-2.00 to 4.00  no difference seen"), "{text}");
        assert!(text.contains("the first 1 min 00 s (60 intervals of A): 12 more of B"), "{text}");
        let same = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            same.contains(
                "0.100 s and 1.00 s: what was counted is summed up to intervals of 1.00 s"
            ),
            "{text}"
        );
        assert!(text.contains("only in one of them: sdz (B: 12.0 requests a second)"), "{text}");
        let idle = WatchComparison { changes: Vec::new(), ..comparison };
        let text = comparison_text(&idle, 100);
        assert!(text.starts_with("nothing was done in either: sdy\n"), "{text}");
        let text = comparison_text(&WatchComparison { idle: Vec::new(), ..idle }, 100);
        assert!(text.starts_with("the two watches have no device in common\n"), "{text}");
    }

    /// More than was asked for is a matter of how the kernel counts.
    #[test]
    fn what_is_not_counted_as_asked_for_is_named_where_it_shows() {
        let of = |asked_write_bytes: u64, written_bytes: u64| {
            let mut application = ApplicationRecord::default();
            application.total.asked_write_bytes = asked_write_bytes;
            application.total.written_bytes = written_bytes;
            application_text(&application, 400).contains("whole folios of memory)")
        };
        assert!(of(10 << 20, 145 << 20) && !of(10 << 20, 10 << 20) && !of(0, 5) && !of(0, 0));
        let read = |asked_read_bytes: u64, read_bytes: u64| {
            let mut application = ApplicationRecord::default();
            application.total.asked_read_bytes = asked_read_bytes;
            application.total.read_bytes = read_bytes;
            application_text(&application, 400).contains("(what libaio")
        };
        assert!(read(60_000, 100 << 20) && !read(60_000, 1 << 20) && !read(0, 100 << 20));
    }
}
