//! A watch as it is read, written out as Markdown.

use super::made::around;
use super::sample::{head, markdown, page, record};
use expect_test::expect_file;
use fathom_html::page::{Block, Chart, Page};
use fathom_model::record::{Record, RunHead, RunKind};
use fathom_model::watch::{
    ApplicationRecord, ApplicationSample, DeviceCounts, DeviceSample, FlowCounts, FlowLatency,
    HostSample, LatencySample, Sample, WatchRecord,
};
use fathom_stats::Histogram;

/// An array of two disks, the second of which is slow in every fifth second; one second has a peak.
fn watch(seconds: u64, application: bool) -> Vec<Record> {
    let mut piece = WatchRecord::new(1_000_000_000, 0);
    for index in 0..seconds {
        let load = if index == seconds / 2 { 5000 } else { 100 + index * 7 % 13 };
        let device = |name: &str, depth: usize, requests: u64, ms: u64| {
            let reads =
                FlowCounts { requests, sectors: 8 * requests, took_ms: ms * requests, merged: 0 };
            let counts = DeviceCounts {
                reads,
                busy_ms: (ms * requests / 4).min(1000),
                queued_ms: ms * requests,
                ..DeviceCounts::default()
            };
            let is_slow = ms > 10;
            DeviceSample {
                name: name.into(),
                title: if depth == 0 { "raid1 of 2".into() } else { String::new() },
                depth,
                rates: counts.rates(1_000_000_000),
                counts,
                stands_out: is_slow.then(|| format!("r_await {ms} ms, its companions 2 ms")),
                array: None,
                interrupts: Vec::new(),
                latency: (name == "sda").then(|| one_by_one(requests)),
            }
        };
        let slow_ms = if index % 5 == 0 { 30 } else { 2 };
        let devices = vec![
            device("md0", 0, load, 3),
            device("sda", 1, load / 2, 2),
            device("sdb", 1, load / 2, slow_ms),
            device("sdc", 0, 0, 0),
        ];
        let host = HostSample {
            user_share: 0.1,
            iowait_share: 0.2,
            dirty_bytes: 5 << 20,
            ..HostSample::default()
        };
        let own = ApplicationSample {
            processes: 3,
            cpu_share: 0.8,
            resident_bytes: 90 << 20,
            ..ApplicationSample::default()
        };
        piece.push(&Sample {
            index,
            start_ns: index * 1_000_000_000,
            length_ns: 1_000_000_000,
            host,
            devices,
            came: if index == 9 { vec!["sdd".into()] } else { Vec::new() },
            application: application.then_some(own),
            ..Sample::default()
        });
    }
    if application {
        piece.ended = Some(pgbench(seconds));
    }
    let mut of = record("watch", 1, 4096);
    of.jobs.clear();
    of.targets.clear();
    piece.stacks = vec![around("/dev/md0", 512), around("/srv", 512)];
    of.watch = Some(Box::new(piece));
    vec![of]
}

fn pgbench(seconds: u64) -> ApplicationRecord {
    ApplicationRecord {
        command: "pgbench -T 60 bench".into(),
        took_ns: seconds * 1_000_000_000,
        exit_status: Some(0),
        figures: [("tps".to_owned(), 812.5)].into(),
        output: "tps = 812.5\n".into(),
        ..ApplicationRecord::default()
    }
}

/// Reads of a millisecond, and one in fifty of 3 ms and a microsecond more for each request of the interval.
fn one_by_one(requests: u64) -> Box<LatencySample> {
    let mut reads = Histogram::new();
    reads.record_n(1_000_000, requests);
    reads.record_n(3_000_000 + 1000 * requests, 1 + requests / 50);
    Box::new(LatencySample { reads: FlowLatency::of(&reads), ..LatencySample::default() })
}

fn watched() -> RunHead {
    head(RunKind::Watch, "fathom watch --record /dev/md0", "/dev/md0")
}

fn charts(page: &Page) -> Vec<&Chart> {
    fn chart(block: &Block) -> Option<&Chart> {
        match block {
            Block::Chart(chart) => Some(chart),
            _ => None,
        }
    }
    page.sections.iter().flat_map(|section| &section.blocks).filter_map(chart).collect()
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    page(&watched(), &watch(90, true), None)
}

#[test]
fn an_array_with_a_slow_member_and_an_application() {
    expect_file!["golden/array.md"].assert_eq(&fathom_html::markdown::markdown(&shown()));
}

/// 20 000 seconds: fewer points, and the one second of the peak is still as high.
#[test]
fn a_long_watch_is_put_together_and_its_peak_stays() {
    let records = watch(20_000, false);
    let page = page(&watched(), &records, None);
    let all = charts(&page);
    let rate = all.iter().find(|chart| chart.title == "sda: rate").expect("a chart");
    let points = &rate.series[0].points;
    assert!(points.len() <= 1200, "{}", points.len());
    let highest = points.iter().filter_map(|point| point.high).fold(0.0, f64::max);
    assert_eq!(highest, 2500.0 * 4096.0);
    assert!(rate.reduction.contains("17 intervals"), "{}", rate.reduction);
    let single = all.iter().find(|chart| chart.title.starts_with("sda: p50 and p99"));
    let p99 = &single.expect("sda is known request by request").series[1];
    let highest = p99.points.iter().map(|point| point.y).fold(0.0, f64::max);
    assert!(p99.name == "reads p99" && (highest / 5_500_000.0 - 1.0).abs() < 0.02, "{highest}");
    assert!(all.iter().all(|chart| !chart.title.starts_with("sdb: p50")), "not told of sdb");
    assert!(all[0].title.starts_with("Busiest") && all[0].reduction.contains("intervals"));
}

#[test]
fn a_watch_without_a_piece_is_a_page_too() {
    let text = markdown(&watched(), &[], None);
    assert!(text.contains("no device that was watched did anything"), "{text}");
}
