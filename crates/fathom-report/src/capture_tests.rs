//! The page of a capture, in words and figures.

use super::*;
use fathom_model::capture::CaptureInterval;

#[test]
fn two_of_them_are_told_apart() {
    let row = |figure: &str, a, b| SideBySide { figure: figure.to_owned(), a, b };
    let rows = [
        row("read requests", Some(100.0), Some(250.0)),
        row("read p99", Some(1e6), Some(5e5)),
        row("write bytes", None, Some(2e6)),
    ];
    let distance = |figure: &str, distance, of| CaptureDistance {
        figure: figure.to_owned(),
        distance,
        median_a: None,
        median_b: None,
        of,
    };
    let alike = [
        distance("size of reads", 0.4, DistanceOf::Load),
        distance("latency of reads", 0.9, DistanceOf::Storage),
    ];
    let text = comparison_text(&rows, &alike, 100);
    for part in [
        "100.0/s",
        "+150.0 %",
        "1.0 ms",
        "500 us",
        "-50.0 %",
        "2.0 MB/s",
        "Two different loads: the distance is 0.40 of size of reads.",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Nine of ten go on where the last ended: the median of all distances is 0, that of the seeks is not.
#[test]
fn seeks_have_a_median_of_their_own() {
    let mut places = CapturePlaces { seeks: 10, count: 100, ..CapturePlaces::default() };
    places.seek_bytes.record_n(0, 90);
    places.seek_bytes.record_n(1 << 20, 6);
    places.seek_bytes.record_n(1 << 30, 4);
    let mut capture = CaptureRecord { places, window_ns: 1_000_000_000, ..Default::default() };
    let text = super::places(&capture);
    assert!(
        text.contains("10 seeks a second, over 1.0 MiB at the median, 1 GiB at 95 %"),
        "{text}"
    );
    capture.places.seeks = 0;
    assert!(!super::places(&capture).contains("seeks"), "none");
}

#[test]
fn processes_are_told_by_what_they_caused() {
    let class = CaptureClass { class: "read".into(), count: 1000, ..CaptureClass::default() };
    let of = |(name, count, bytes): (&str, u64, u64)| CaptureProcess {
        name: name.into(),
        count,
        bytes,
        ..CaptureProcess::default()
    };
    // As they are in a record: most bytes first.
    let all = [
        ("backup", 100, 100 << 20),
        ("copy", 20, 20 << 20),
        ("a", 10, 3 << 20),
        ("b", 10, 3 << 20),
        ("c", 10, 3 << 20),
        ("d", 10, 2 << 20),
        ("logger", 800, 400 << 10),
        ("e", 40, 20 << 10),
    ];
    let mut capture = CaptureRecord {
        classes: vec![class],
        processes: all.into_iter().map(of).collect(),
        ..CaptureRecord::default()
    };
    assert_eq!(
        processes(&capture),
        "logger 80 %, 400 KiB; backup 10 %, 100 MiB; copy 2.0 %, 20 MiB; e 4.0 %, 20 KiB; a 1.0 %, 3 MiB; 3 more 3.0 %, 8 MiB"
    );
    capture.processes.truncate(2);
    assert_eq!(processes(&capture), "backup 10 %, 100 MiB; copy 2.0 %, 20 MiB");
    capture.processes.clear();
    assert_eq!(processes(&capture), "");
}

#[test]
fn starts_of_rows_are_told_apart() {
    assert_eq!([start(0, 200_000_000), start(1_400_000_000, 200_000_000)], ["0.0 s", "1.4 s"]);
    assert_eq!(start(1_520_000_000, 20_000_000), "1.52 s");
    assert_eq!(
        [start(4_000_000_000, 2_000_000_000), start(90_000_000_000, 9_000_000_000)],
        ["4 s", "1 min 30 s"]
    );
}

#[test]
fn nothing_and_little_have_a_page_too() {
    let empty = CaptureRecord {
        device: "sda".into(),
        window_ns: 5_000_000_000,
        ..CaptureRecord::default()
    };
    assert_eq!(
        text(&empty, 100),
        "sda: 0 requests in 5 s, 0 a second, 0 B/s; 0 events, none lost\n"
    );
    let class = CaptureClass { class: "flush".into(), count: 3, ..CaptureClass::default() };
    let series = vec![CaptureInterval { length_ns: 1_000_000, ..CaptureInterval::default() }; 33];
    let little = CaptureRecord { classes: vec![class], series, ..empty };
    let page = text(&little, 100);
    assert!(
        page.contains("flush") && page.contains("queue") && page.contains("flushes 0.6/s"),
        "{page}"
    );
    assert!(page.lines().count() < 40, "{page}");
}

/// A device of which nothing is known is not idle.
#[test]
fn where_events_were_lost_rates_are_not_zero() {
    let interval = |at: u64, reads: u64, is_lossy: bool| CaptureInterval {
        start_ns: at * 100_000_000,
        length_ns: 100_000_000,
        reads,
        read_bytes: 4096 * reads,
        is_lossy,
        ..CaptureInterval::default()
    };
    let series = vec![interval(0, 10_000, false), interval(1, 3_000, true), interval(2, 0, true)];
    let class = CaptureClass {
        class: "read".into(),
        count: 13_000,
        bytes: 4096 * 13_000,
        ..CaptureClass::default()
    };
    let mut capture = CaptureRecord {
        window_ns: 300_000_000,
        events: 26_000,
        classes: vec![class],
        series,
        ..CaptureRecord::default()
    };
    let rows = |capture: &CaptureRecord| {
        let rows = course(capture).0.render_to(0, 200);
        let row = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        rows.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    assert!(rows(&capture)[2].starts_with("0.2 s 0 0 0 B/s"), "{:?}", rows(&capture));
    capture.faults.lost = 20_000;
    let rows = rows(&capture);
    assert!(rows[0].starts_with("0.0 s 100 000 0"), "{rows:?}");
    assert!(rows[1].starts_with("0.1 s >= 30 000 - >= 122.9 MB/s -"), "{rows:?}");
    assert!(rows[2].starts_with("0.2 s - - - - -"), "{rows:?}");
    let page = text(&capture, 200);
    assert!(page.contains(">= 43 333") && page.contains(">=: at least that"), "{page}");
}

#[test]
fn what_rests_on_few_windows_or_on_lost_ends_is_not_told_as_if_it_did_not() {
    let line = |of: &CaptureRecord, name| {
        let found = lines(of).into_iter().find(|(own, _)| *own == name);
        found.map(|(_, line)| line).unwrap_or_default()
    };
    let mut capture = CaptureRecord { depth_ns: vec![0, 5], ..CaptureRecord::default() };
    capture.events = 10_000;
    capture.arrivals.dispersion = vec![(100_000_000, 3.5, 10), (1_000_000_000, 0.1, 2)];
    let arrivals = line(&capture, "arrivals");
    assert!(arrivals.contains("3.5 in 100 ms (1 by"), "{arrivals}");
    assert!(!line(&capture, "in flight").contains("not seen"));
    capture.faults.abandoned = 39;
    let depth = line(&capture, "in flight");
    assert!(depth.contains("; 39 whose end was not seen count for as long"), "{depth}");
    // A processor is missing, and it does not say that none was lost.
    assert!(headline(&capture).ends_with("10 000 events, none lost"));
    let mut impatient = capture.clone();
    impatient.faults.refused = 5296;
    let told = "0 requests (5 296 more were refused at once, as nobody waited for them) in";
    assert!(headline(&impatient).contains(told), "{}", headline(&impatient));
    let lossy = |lost: u64| {
        let mut lossy = capture.clone();
        lossy.faults.lost = lost;
        headline(&lossy)
    };
    assert!(lossy(5000).contains(": at least 0 requests") && !lossy(20).contains("at least"));
    capture.faults.abandoned = 890;
    let depth = line(&capture, "in flight");
    assert_eq!(depth, "not known: the ends of 890 requests are missing");
    assert!(headline(&capture).ends_with("10 000 events"), "{}", headline(&capture));
    (capture.faults.abandoned, capture.faults.unsure, capture.faults.unsure_ns) = (3, 7, 40);
    let depth = line(&capture, "in flight");
    assert_eq!(depth, "not known: until when 7 requests waited cannot be told");
    capture.faults.unsure_ns = 0;
    (capture.faults.abandoned, capture.faults.came_online) = (0, vec![3]);
    assert!(line(&capture, "in flight").ends_with("on some processors is missing"));
}

/// What a filesystem with a journal writes: no flush stands for itself.
#[test]
fn flushes_that_come_with_writes_are_told() {
    let class = |preflush| {
        let (class, count) = ("write".to_owned(), 100);
        CaptureClass { class, count, preflush, ..CaptureClass::default() }
    };
    let of = |preflush: u64| {
        let classes = vec![class(preflush)];
        text(&CaptureRecord { classes, window_ns: 2_000_000_000, ..Default::default() }, 200)
    };
    assert!(of(10).contains("flushes with writes (preflush) 5.0/s; FUA"), "{}", of(10));
    assert!(!of(0).contains("preflush"));
}

/// A tail in the queue is another than one in the device. Of a device without a queue, or a trace without arrivals, there is one part.
#[test]
fn the_parts_of_latencies_are_told_apart() {
    let times = |values: &[u64]| {
        let mut times = Histogram::new();
        values.iter().for_each(|value| times.record(*value));
        times
    };
    let mut class = CaptureClass { class: "read".into(), count: 2, ..CaptureClass::default() };
    (class.wait_ns, class.service_ns) = (times(&[10, 20]), times(&[50, 60]));
    let told = |class: &CaptureClass, source: &str| {
        let (classes, source) = (vec![class.clone()], source.to_owned());
        let capture = CaptureRecord { classes, source, ..CaptureRecord::default() };
        stages(&capture).map(|(table, note)| (table.render(0), note))
    };
    let (table, note) = told(&class, "kernel").expect("both are known");
    let lines: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    let titles = "queue p50 queue p99 queue max device p50 device p99 device max";
    assert_eq!(lines[0].join(" "), titles);
    assert_eq!(lines[1].join(" "), "read 10 ns n/a 20 ns 50 ns n/a 60 ns");
    assert!(note.contains("(Q2D)") && note.contains("(D2C)"));
    assert!(note.ends_with("(ten must lie beyond a percentile: p99 needs 1 000)."), "{note}");
    // Flushes of writes have no arrival of their own.
    class.service_ns.record_n(70, 1500);
    let (counted, _) = told(&class, "kernel").expect("both are known");
    let lines: Vec<Vec<&str>> =
        counted.lines().map(|line| line.split_whitespace().collect()).collect();
    let titles =
        "queue count queue p50 queue p99 queue max device count device p50 device p99 device max";
    assert_eq!(lines[0].join(" "), titles);
    assert_eq!(lines[1].join(" "), "read 2 10 ns n/a 20 ns 1 502 70 ns 70 ns 70 ns");
    let (table, note) = told(&class, "replay").expect("both are known");
    assert!(table.contains("late p50") && note.contains("was due"), "{table}{note}");
    class.wait_ns = Histogram::new();
    assert_eq!(told(&class, "kernel"), None);
}

/// Which writes of a replay were to be durable is not counted.
#[test]
fn a_replay_says_nothing_of_marks() {
    let class = CaptureClass { class: "write".into(), count: 3, ..CaptureClass::default() };
    let of = |source: &str| {
        let (classes, source) = (vec![class.clone()], source.to_owned());
        text(&CaptureRecord { classes, source, ..CaptureRecord::default() }, 100)
    };
    assert!(of("kernel").contains("durability") && !of("replay").contains("durability"));
}
