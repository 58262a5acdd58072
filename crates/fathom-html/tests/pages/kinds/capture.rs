//! A capture as it is read, written out as Markdown.

use super::made::around;
use super::sample::{head, markdown, page, record};
use expect_test::expect_file;
use fathom_html::page::{Block, ChartKind, Page};
use fathom_model::capture::{
    CaptureArrivals, CaptureClass, CaptureInterval, CaptureMap, CapturePlaces, CaptureProcess,
    CaptureRecord,
};
use fathom_model::record::{Record, RunKind};
use fathom_stats::{Histogram, SparseHistogram};

fn times(count: u64, typical_ns: u64) -> Histogram {
    let mut all = Histogram::new();
    (0..count).for_each(|at| all.record(typical_ns + at % 97 * typical_ns / 50));
    all
}

fn class(class: &str, count: u64, size: u64) -> CaptureClass {
    CaptureClass {
        class: class.into(),
        count,
        bytes: count * size,
        sizes: vec![(size, count)],
        size_mean: size as f64,
        size_harmonic: size as f64,
        follow: count / 4,
        total_ns: times(count, 400_000),
        wait_ns: times(count, 100_000),
        service_ns: times(count, 300_000),
        ..CaptureClass::default()
    }
}

fn captured() -> Record {
    let interval = |number: u64| CaptureInterval {
        start_ns: number * 1_000_000_000,
        length_ns: 1_000_000_000,
        reads: 900 + number,
        writes: 100,
        read_bytes: (900 + number) * 4096,
        write_bytes: 100 * 16_384,
        seeks: 700,
        depth_mean: 2.5,
        depth_max: 9,
        latency_ns: SparseHistogram::from(&times(1000, 400_000)),
        ..CaptureInterval::default()
    };
    let mut of = record("capture", 1, 4096);
    of.jobs.clear();
    of.targets.clear();
    of.capture = Some(Box::new(CaptureRecord {
        device: "sda".into(),
        size_bytes: 1 << 30,
        source: "kernel".into(),
        window_ns: 10_000_000_000,
        events: 50_000,
        classes: vec![class("read", 9045, 4096), class("write", 1000, 16_384)],
        issued: 9800,
        merges: [12, 233, 0],
        places: CapturePlaces {
            count: 10_045,
            follow_last: 1000,
            follow_any: 2500,
            seek_bytes: times(9000, 1 << 20),
            seeks: 7000,
            end_byte: 1 << 30,
            parts: vec![10_000, 45, 0, 0],
            part_bytes: 1 << 28,
            ..CapturePlaces::default()
        },
        arrivals: CaptureArrivals {
            gap_ns: times(10_000, 900_000),
            dispersion: vec![(10_000_000, 3.2, 1000)],
        },
        depth_ns: vec![2_000_000_000, 3_000_000_000, 4_000_000_000, 1_000_000_000],
        processes: vec![CaptureProcess {
            name: "postgres".into(),
            pid: 7,
            count: 10_045,
            bytes: 1 << 26,
            writes: 1000,
        }],
        series: (0..10).map(interval).collect(),
        map: CaptureMap {
            column_ns: 1_000_000_000,
            row_bytes: 1 << 28,
            cells: vec![(0, 1, 900, 0), (1, 1, 880, 100), (2, 2, 3, 0), (9, 3, 1, 1)],
        },
        stacks: vec![around("/dev/sda", 128)],
        ..CaptureRecord::default()
    }));
    of
}

/// The page that is read here, and opened in a browser.
pub fn shown() -> Page {
    of(captured())
}

fn of(record: Record) -> Page {
    page(&head(RunKind::Capture, "fathom capture /dev/sda", "/dev/sda"), &[record], None)
}

#[test]
fn a_database() {
    expect_file!["golden/database.md"].assert_eq(&fathom_html::markdown::markdown(&shown()));
}

#[test]
fn every_request_is_in_one_cell_of_the_latencies() {
    let sum = |record: Record| -> f64 {
        let page = of(record);
        let section = page.sections.iter().find(|section| section.heading == "Latency and depth");
        let blocks = &section.expect("a section").blocks;
        let picture = blocks.iter().find_map(|block| match block {
            Block::Chart(chart) if chart.kind == ChartKind::HeatMap => Some(chart),
            _ => None,
        });
        let points = picture.expect("a picture").series.iter().flat_map(|series| &series.points);
        points.filter_map(|point| point.weight).sum()
    };
    assert_eq!(sum(captured()), 10_000.0);
    // More intervals than columns: none is left out.
    let mut long = captured();
    let series = &mut long.capture.as_mut().expect("a capture").series;
    *series = (0..37).flat_map(|_| series.clone()).collect();
    assert_eq!(sum(long), 370_000.0);
}

/// In terabytes all of them would have the same name.
#[test]
fn places_far_from_the_start_count_from_the_lowest() {
    let mut far = captured();
    let map = &mut far.capture.as_mut().expect("a capture").map;
    map.row_bytes = 8 << 20;
    map.cells.iter_mut().for_each(|cell| cell.1 += 400_000);
    let head = head(RunKind::Capture, "fathom capture /dev/sda", "/dev/sda");
    let text = markdown(&head, &[far], None);
    for part in
        ["| offset beyond 3.1 TiB, from |", "| 0.00 s | 0 B | 900 |", "| 2.00 s | 8 MiB | 3 |"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A database and its journal a terabyte behind it: rows are those of both, and none of what lies between.
#[test]
fn areas_far_apart_stand_one_above_the_other() {
    let mut apart = captured();
    let capture = apart.capture.as_mut().expect("a capture");
    capture.map.row_bytes = 8 << 20;
    capture.map.cells = vec![(0, 10, 900, 0), (1, 11, 5, 0), (2, 200_000, 3, 100)];
    capture.places.areas = vec![(80 << 20, 16 << 20), (200_000 << 23, 8 << 20)];
    (capture.places.part_bytes, capture.places.parts) = (8 << 20, vec![900, 5, 103]);
    capture.places.elsewhere = 7;
    let head = head(RunKind::Capture, "fathom capture /dev/sda", "/dev/sda");
    let text = markdown(&head, &[apart], None);
    for part in [
        "| 0.00 s | 80 MiB | 900 |",
        "| 1.00 s | 80 MiB + 8 MiB | 5 |",
        "| 2.00 s | 1.5 TiB | 3 |",
        "7 requests lie far from all of them",
        "in 2 areas far apart (most of it in 16 MiB from 80 MiB on), 0.1 % elsewhere",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn nothing_asked_is_said() {
    let head = head(RunKind::Capture, "fathom capture /dev/sda", "/dev/sda");
    let mut silent = captured();
    silent.capture =
        Some(Box::new(CaptureRecord { device: "sda".into(), ..CaptureRecord::default() }));
    let text = markdown(&head, &[silent], None);
    assert!(text.contains("sda: 0 requests"), "{text}");
}
