//! A sample of `fathom watch` as lines: the machine, then one line for each device, in the terms of iostat -x.

pub mod answer;

use crate::figures::percentile_words;
use crate::text::printable;
use fathom_base::units::{format_count, format_rate, format_size};
use fathom_model::watch::{
    ArraySample, DeviceRates, DeviceSample, FlowRates, LatencySample, Sample,
};

/// What is shown of a device.
#[derive(Debug, Clone, Copy)]
struct Column {
    title: &'static str,
    /// How soon it is left out on a narrow terminal: 0 never, the highest first.
    spare: u8,
    of: fn(&DeviceSample) -> Option<f64>,
}

macro_rules! figure {
    ($title:literal, $spare:literal, $of:expr) => {
        Column { title: $title, spare: $spare, of: $of }
    };
}

/// In the order of iostat -x; what it does not have stands at the end.
const COLUMNS: &[Column] = &[
    figure!("r/s", 0, |d| Some(d.rates.reads.per_s)),
    figure!("rkB/s", 0, |d| Some(d.rates.reads.kib_per_s)),
    figure!("rrqm/s", 6, |d| Some(d.rates.reads.merged_per_s)),
    figure!("%rrqm", 5, |d| d.rates.reads.merged_percent),
    figure!("r_await", 0, |d| d.rates.reads.await_ms),
    figure!("rareq-sz", 2, |d| d.rates.reads.request_kib),
    figure!("w/s", 0, |d| Some(d.rates.writes.per_s)),
    figure!("wkB/s", 0, |d| Some(d.rates.writes.kib_per_s)),
    figure!("wrqm/s", 6, |d| Some(d.rates.writes.merged_per_s)),
    figure!("%wrqm", 5, |d| d.rates.writes.merged_percent),
    figure!("w_await", 0, |d| d.rates.writes.await_ms),
    figure!("wareq-sz", 2, |d| d.rates.writes.request_kib),
    figure!("d/s", 4, |d| Some(d.rates.discards.per_s)),
    figure!("dkB/s", 4, |d| Some(d.rates.discards.kib_per_s)),
    figure!("drqm/s", 6, |d| Some(d.rates.discards.merged_per_s)),
    figure!("%drqm", 6, |d| d.rates.discards.merged_percent),
    figure!("d_await", 4, |d| d.rates.discards.await_ms),
    figure!("dareq-sz", 6, |d| d.rates.discards.request_kib),
    figure!("f/s", 3, |d| Some(d.rates.flushes_per_s)),
    figure!("f_await", 3, |d| d.rates.flush_await_ms),
    figure!("aqu-sz", 0, |d| Some(d.rates.queue)),
    figure!("%util", 0, |d| Some(d.rates.util_percent)),
    figure!("now", 1, |d| Some(d.counts.in_flight as f64)),
    figure!("svctm", 7, |d| d.rates.svctm_ms),
];

/// `svctm` is shown only when asked for, and with what it is: it misleads.
const ONLY_ON_REQUEST: u8 = 7;
const SVCTM: [&str; 2] = [
    "svctm: busy time over requests, as old iostat had it",
    "it is no service time where several are served at once",
];

/// How samples are shown: chosen once, so that columns stay where they are.
#[derive(Debug, Clone)]
pub struct Form {
    columns: Vec<Column>,
    name_chars: usize,
    width: usize,
    /// Devices without a request in the interval too.
    pub with_idle: bool,
    /// Old and rarely needed figures, and the interrupts of each queue.
    pub with_details: bool,
}

/// Columns that a figure takes with the space before it.
const CELL: usize = 9;
/// The widest that names get.
const NAME_CHARS_MAX: usize = 32;

impl Form {
    /// A form for a terminal of so many columns (none: somewhere else, where lines may be of any length) and devices with
    /// these names.
    #[must_use]
    pub fn new<'a>(
        width: Option<usize>,
        names: impl Iterator<Item = (&'a str, &'a str, usize)>,
        with_idle: bool,
        with_details: bool,
    ) -> Self {
        let longest = names.map(|(name, title, depth)| label(name, title, depth).chars().count());
        let name_chars = longest.max().unwrap_or(0).clamp(8, NAME_CHARS_MAX);
        let width = width.unwrap_or(usize::MAX);
        let fits = |most: u8| {
            let count = COLUMNS.iter().filter(|column| column.spare <= most).count();
            name_chars + count * CELL <= width
        };
        let most = (0..ONLY_ON_REQUEST).rev().find(|most| fits(*most)).unwrap_or(0);
        let is_shown = |column: &&Column| {
            column.spare <= most || with_details && column.spare == ONLY_ON_REQUEST
        };
        // Names give way before figures do.
        let columns: Vec<Column> = COLUMNS.iter().filter(is_shown).copied().collect();
        let room = width.saturating_sub(columns.len() * CELL).max(8);
        Self { columns, name_chars: name_chars.min(room), width, with_idle, with_details }
    }
}

/// The lines of one interval; ends with an empty one.
#[must_use]
pub fn sample_text(sample: &Sample, form: &Form, time: &str) -> String {
    let mut out = String::new();
    push_parts(&mut out, form.width, &machine(sample, time));
    let shown: Vec<&DeviceSample> =
        sample.devices.iter().filter(|d| form.with_idle || !is_idle(d)).collect();
    if !shown.is_empty() {
        out += &format!("{:<1$}", "device", form.name_chars);
        for column in &form.columns {
            out += &format!("{:>1$}", column.title, CELL);
        }
        out.push('\n');
    }
    for device in &shown {
        push_device(&mut out, device, form);
    }
    if form.with_details && !shown.is_empty() {
        push_parts(&mut out, form.width, &SVCTM.map(str::to_owned));
    }
    for line in sample.changes().lines() {
        out += &format!("{}\n", printable(&line));
    }
    if let Some(lost) = sample.latency_lost.filter(|lost| *lost > 0) {
        out += &format!(
            "{} trace events were lost: p50, p99 and longest lack requests of this interval\n",
            format_count(lost)
        );
    }
    let idle = sample.devices.len() - shown.len();
    match (idle, shown.len()) {
        (0, 0) if !sample.came.is_empty() => {}
        (0, 0) => {
            out += "nothing to watch: no such device is there, or none has had a request yet\n"
        }
        (0, _) => {}
        (1, _) => out += "1 device did nothing\n",
        (idle, 0) => out += &format!("all {idle} devices did nothing\n"),
        (idle, _) => out += &format!("{idle} more devices did nothing\n"),
    }
    out.push('\n');
    out
}

fn is_idle(device: &DeviceSample) -> bool {
    let is_syncing =
        device.array.as_ref().is_some_and(|a| !matches!(a.sync_action.as_str(), "" | "idle"));
    device.counts.is_idle() && !is_syncing && device.depth == 0
        || device.counts.is_idle() && device.depth > 0
}

/// What the machine did, in pieces that stay together.
fn machine(sample: &Sample, time: &str) -> Vec<String> {
    let host = &sample.host;
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let mut parts = vec![
        format!("{time}  {:.2} s", sample.length_ns as f64 / 1e9),
        format!(
            "%user {} %system {} %iowait {} %steal {}",
            percent(host.user_share),
            percent(host.system_share),
            percent(host.iowait_share),
            percent(host.steal_share)
        ),
        format!(
            "dirty {}, writeback {}",
            format_size(host.dirty_bytes),
            format_size(host.writeback_bytes)
        ),
    ];
    // Some, then all of the tasks that had something to do.
    let pressed = [("io", host.io_pressure), ("memory", host.memory_pressure)];
    let pressed: Vec<String> = pressed
        .iter()
        .filter_map(|(name, shares)| {
            let (some, full) = (*shares)?;
            Some(format!("{name} {}/{}", percent(some), percent(full)))
        })
        .collect();
    if !pressed.is_empty() {
        parts.push(format!("%pressure {}", pressed.join(" ")));
    }
    if let Some(application) = &sample.application {
        let per_s = |bytes: u64| {
            let seconds = (sample.length_ns as f64 / 1e9).max(1e-9);
            format_rate(bytes as f64 / seconds)
        };
        parts.push(format!(
            "application: {} {}, %cpu {}, {} in memory, reads {}, writes {}",
            application.processes,
            if application.processes == 1 { "process" } else { "processes" },
            percent(application.cpu_share),
            format_size(application.resident_bytes),
            per_s(application.read_bytes),
            per_s(application.written_bytes),
        ));
    }
    parts
}

fn push_parts(out: &mut String, width: usize, parts: &[String]) {
    let mut column = 0;
    for part in parts {
        let chars = part.chars().count();
        if column > 0 && column + 3 + chars > width {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push_str("   ");
            column += 3;
        }
        out.push_str(part);
        column += chars;
    }
    out.push('\n');
}

fn label(name: &str, title: &str, depth: usize) -> String {
    let space = if title.is_empty() { "" } else { " " };
    printable(&format!("{:1$}{name}{space}{title}", "", 2 * depth))
}

fn push_device(out: &mut String, device: &DeviceSample, form: &Form) {
    let name = label(&device.name, &device.title, device.depth);
    let fits: String = name.chars().take(form.name_chars).collect();
    let mut line = format!("{fits:<0$}", form.name_chars);
    for column in &form.columns {
        let words = if column.title == "now" { whole } else { number };
        let cell = (column.of)(device).map_or_else(|| "-".to_owned(), words);
        line += &format!("{cell:>CELL$}");
    }
    let indent = " ".repeat(2 * device.depth + 2);
    let mut own_lines = String::new();
    for remark in remarks(device, form.with_details) {
        // Behind the figures where there is room, else below them.
        if own_lines.is_empty() && line.chars().count() + 2 + remark.chars().count() <= form.width {
            line += &format!("  {}", printable(&remark));
        } else {
            own_lines += &format!("{indent}{}\n", printable(&remark));
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out.push_str(&own_lines);
}

/// What is to be said of a device beside its figures: that it is slow first.
#[must_use]
pub fn remarks(device: &DeviceSample, with_details: bool) -> Vec<String> {
    let mut remarks: Vec<String> = Vec::new();
    remarks.extend(device.stands_out.as_ref().map(|reason| format!("<- slow: {reason}")));
    remarks.extend(device.array.as_ref().and_then(array_words));
    remarks.extend(device.latency.iter().flat_map(|latency| latency_words(latency)));
    if with_details && !device.interrupts.is_empty() {
        let each = device.interrupts.iter().filter(|(_, count)| *count > 0);
        let each: Vec<String> = each.map(|(name, count)| format!("{name} {count}")).collect();
        if !each.is_empty() {
            remarks.push(format!("interrupts: {}", each.join(", ")));
        }
    }
    remarks
}

/// `svctm` where there is no column for it, with what it is; none without requests.
#[must_use]
pub fn svctm_words(device: &DeviceSample) -> Option<String> {
    let value = number(device.rates.svctm_ms?);
    Some(format!(
        "svctm {value} ms (busy time over requests, as old iostat had it; no service time)"
    ))
}

/// How long single requests took: one text for each direction that had any.
fn latency_words(latency: &LatencySample) -> impl Iterator<Item = String> {
    let since = if latency.from_arrival { "from arrival to end" } else { "in the device" };
    latency.flows().map(move |(name, flow)| {
        let percentiles = [("p50", 0.5, flow.p50_ns), ("p99", 0.99, flow.p99_ns)];
        format!("{since}: {name} {}", percentile_words(flow.count, &percentiles, flow.max_ns))
    })
}

/// What an array does besides requests; none when that is nothing.
fn array_words(array: &ArraySample) -> Option<String> {
    let mut words = Vec::new();
    if array.degraded > 0 {
        words.push(format!("{} missing", array.degraded));
    }
    if !matches!(array.sync_action.as_str(), "" | "idle") {
        let mut text = array.sync_action.clone();
        if let Some(done) = array.sync_done {
            text += &format!(" {:.1} %", 100.0 * done);
        }
        if let Some(kib) = array.sync_kib_per_s.filter(|kib| *kib > 0) {
            text += &format!(" at {}", format_rate((kib << 10) as f64));
        }
        words.push(text);
    }
    if let Some(share) = array.thread_cpu_share.filter(|share| *share >= 0.005) {
        words.push(format!("its threads: {:.0} % of a processor", 100.0 * share));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// A figure in at most eight characters: two decimals below ten, one below a hundred thousand.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99_999.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Reads and writes together, for those who want one line.
#[must_use]
pub fn both(rates: &DeviceRates) -> (f64, f64) {
    let sum = |of: fn(&FlowRates) -> f64| of(&rates.reads) + of(&rates.writes);
    (sum(|flow| flow.per_s), sum(|flow| flow.kib_per_s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use fathom_model::watch::{DeviceCounts, FlowCounts, HostSample};

    fn device(name: &str, title: &str, depth: usize, reads: u64, ms: u64) -> DeviceSample {
        let reads =
            FlowCounts { requests: reads, merged: reads / 4, sectors: 16 * reads, took_ms: ms };
        let busy_ms = (ms / 2).min(1000);
        let counts =
            DeviceCounts { reads, busy_ms, queued_ms: ms, in_flight: 3, ..DeviceCounts::default() };
        DeviceSample {
            name: name.into(),
            title: title.into(),
            depth,
            counts: if reads.requests > 0 { counts } else { DeviceCounts::default() },
            rates: counts.rates(1_000_000_000),
            stands_out: None,
            array: None,
            interrupts: vec![("nvme0q1".into(), 700)],
            latency: None,
        }
    }

    fn sample() -> Sample {
        let mut array = device("md0", "raid5 of 3", 0, 900, 4000);
        array.array = Some(ArraySample {
            sync_action: "check".into(),
            sync_done: Some(0.314),
            sync_kib_per_s: Some(51_200),
            degraded: 1,
            thread_cpu_share: Some(0.31),
        });
        let mut slow = device("sdb", "", 1, 300, 9000);
        slow.stands_out = Some("r_await 30 ms, its companions 4.1 ms".into());
        let host = HostSample {
            user_share: 0.123,
            iowait_share: 0.4,
            dirty_bytes: 12 << 20,
            io_pressure: Some((0.5, 0.25)),
            ..HostSample::default()
        };
        let devices =
            vec![array, device("sda", "", 1, 300, 1000), slow, device("sdc", "", 0, 0, 0)];
        let came = vec!["sdd".to_owned()];
        Sample { length_ns: 1_000_000_000, host, devices, came, ..Sample::default() }
    }

    #[track_caller]
    fn check(width: Option<usize>, with_details: bool, expected: &Expect) {
        let sample = sample();
        let names = sample.devices.iter().map(|d| (d.name.as_str(), d.title.as_str(), d.depth));
        let form = Form::new(width, names, false, with_details);
        let text = sample_text(&sample, &form, "11:46:49");
        assert!(text.lines().all(|line| line.chars().count() <= width.unwrap_or(400)), "{text}");
        expected.assert_eq(&text);
    }

    #[test]
    fn narrow_and_wide() {
        check(
            Some(100),
            false,
            &expect![[r#"
                11:46:49  1.00 s   %user 12.3 %system 0.0 %iowait 40.0 %steal 0.0   dirty 12 MiB, writeback 0 B
                  %pressure io 50.0/25.0
                device              r/s    rkB/s  r_await      w/s    wkB/s  w_await   aqu-sz    %util      now
                md0 raid5 of 3    900.0   7200.0     4.44        0        0        -     4.00    100.0        3
                  1 missing, check 31.4 % at 52.4 MB/s, its threads: 31 % of a processor
                  sda             300.0   2400.0     3.33        0        0        -     1.00     50.0        3
                  sdb             300.0   2400.0     30.0        0        0        -     9.00    100.0        3
                    <- slow: r_await 30 ms, its companions 4.1 ms
                came: sdd
                1 device did nothing

            "#]],
        );
        check(
            Some(130),
            true,
            &expect![[r#"
                11:46:49  1.00 s   %user 12.3 %system 0.0 %iowait 40.0 %steal 0.0   dirty 12 MiB, writeback 0 B   %pressure io 50.0/25.0
                device              r/s    rkB/s  r_await rareq-sz      w/s    wkB/s  w_await wareq-sz   aqu-sz    %util      now    svctm
                md0 raid5 of 3    900.0   7200.0     4.44     8.00        0        0        -        -     4.00    100.0        3     1.11
                  1 missing, check 31.4 % at 52.4 MB/s, its threads: 31 % of a processor
                  interrupts: nvme0q1 700
                  sda             300.0   2400.0     3.33     8.00        0        0        -        -     1.00     50.0        3     1.67
                    interrupts: nvme0q1 700
                  sdb             300.0   2400.0     30.0     8.00        0        0        -        -     9.00    100.0        3     3.33
                    <- slow: r_await 30 ms, its companions 4.1 ms
                    interrupts: nvme0q1 700
                svctm: busy time over requests, as old iostat had it   it is no service time where several are served at once
                came: sdd
                1 device did nothing

            "#]],
        );
        check(
            None,
            false,
            &expect![[r#"
                11:46:49  1.00 s   %user 12.3 %system 0.0 %iowait 40.0 %steal 0.0   dirty 12 MiB, writeback 0 B   %pressure io 50.0/25.0
                device              r/s    rkB/s   rrqm/s    %rrqm  r_await rareq-sz      w/s    wkB/s   wrqm/s    %wrqm  w_await wareq-sz      d/s    dkB/s   drqm/s    %drqm  d_await dareq-sz      f/s  f_await   aqu-sz    %util      now
                md0 raid5 of 3    900.0   7200.0    225.0     20.0     4.44     8.00        0        0        0        -        -        -        0        0        0        -        -        -        0        -     4.00    100.0        3  1 missing, check 31.4 % at 52.4 MB/s, its threads: 31 % of a processor
                  sda             300.0   2400.0     75.0     20.0     3.33     8.00        0        0        0        -        -        -        0        0        0        -        -        -        0        -     1.00     50.0        3
                  sdb             300.0   2400.0     75.0     20.0     30.0     8.00        0        0        0        -        -        -        0        0        0        -        -        -        0        -     9.00    100.0        3  <- slow: r_await 30 ms, its companions 4.1 ms
                came: sdd
                1 device did nothing

            "#]],
        );
    }

    #[test]
    fn single_requests_have_a_line_and_losses_another() {
        let mut reads = fathom_stats::histogram::Histogram::new();
        [100_000; 98].into_iter().chain([3_000_000, 7_000_000]).for_each(|ns| reads.record(ns));
        let mut told = device("sda", "", 1, 100, 1000);
        let told_of = LatencySample {
            reads: fathom_model::watch::FlowLatency::of(&reads),
            ..LatencySample::default()
        };
        told.latency = Some(Box::new(told_of.clone()));
        let names = [("sda", "", 1)];
        let form = Form::new(Some(100), names.into_iter(), false, false);
        let sample =
            Sample { devices: vec![told], latency_lost: Some(12_345), ..Sample::default() };
        let text = sample_text(&sample, &form, "11:46:49");
        // A hundred requests have no p99.
        let line = "    in the device: reads p50 100 us, longest 7.0 ms\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("12 345 trace events were lost"), "{text}");
        assert_eq!(latency_words(&LatencySample::default()).count(), 0);
        let bios = LatencySample { from_arrival: true, ..told_of };
        let words = latency_words(&bios).next().unwrap();
        assert!(words.starts_with("from arrival to end: reads p50"), "{words}");
    }

    #[test]
    fn what_svctm_is_stands_beside_it() {
        let text = svctm_words(&device("sda", "", 0, 300, 1000)).unwrap();
        assert!(
            text.starts_with("svctm 1.67 ms (") && text.ends_with("no service time)"),
            "{text}"
        );
        let idle = DeviceSample { rates: DeviceRates::default(), ..device("sda", "", 0, 0, 0) };
        assert_eq!(svctm_words(&idle), None);
    }

    #[test]
    fn numbers_fit_their_cells() {
        for (value, text) in
            [(0.0, "0"), (0.004, "0.00"), (9.994, "9.99"), (9.996, "10.0"), (99_999.96, "100000")]
        {
            assert_eq!(number(value), text);
        }
        assert!(number(9_999_999.0).len() < CELL);
    }
}
