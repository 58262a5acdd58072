//! Twins can be run, advice has its reasons, distances are distances.

use super::likeness::{Changed, FAR, distance, distances, finding, side_by_side};
use super::twin::{fit, workload_file};
use super::*;
use fathom_base::units::format_size;
use fathom_model::builtin;
use fathom_model::capture::{
    CaptureClass, CaptureFaults, CaptureInterval, CapturePlaces, DistanceOf,
};
use fathom_model::pattern::mean_bytes;
use fathom_model::workload::{Access, Job};
use fathom_stats::{Histogram, SparseHistogram};

fn class(word: &str, count: u64, follow: u64, sizes: &[(u64, u64)]) -> CaptureClass {
    let bytes: u64 = sizes.iter().map(|(size, count)| size * count).sum();
    let mean = bytes as f64 / count as f64;
    let square: f64 = sizes.iter().map(|(size, n)| (*size as f64 - mean).powi(2) * *n as f64).sum();
    let mut all_sizes = Histogram::new();
    sizes.iter().for_each(|(size, count)| all_sizes.record_n(*size, *count));
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by_key(|(size, count)| (std::cmp::Reverse(*count), *size));
    sizes.truncate(64);
    CaptureClass {
        class: word.into(),
        count,
        follow,
        bytes,
        sizes,
        all_sizes: SparseHistogram::from(&all_sizes),
        size_mean: mean,
        size_deviation: (square / count as f64).sqrt(),
        ..CaptureClass::default()
    }
}

fn capture(classes: Vec<CaptureClass>, depth_ns: Vec<u64>) -> CaptureRecord {
    let count = classes.iter().map(|class| class.count).sum();
    let follow_any = classes.iter().map(|class| class.follow).sum();
    let mut parts = vec![10; 100];
    parts[7] = 3000;
    let places = CapturePlaces {
        count,
        follow_any,
        first_byte: 1 << 20,
        end_byte: 50 << 20,
        parts,
        part_bytes: 1 << 19,
        ..CapturePlaces::default()
    };
    CaptureRecord {
        device: "sda \"x\"".into(),
        size_bytes: 100 << 20,
        window_ns: 10_000_000_000,
        last_ns: 10_000_000_000,
        classes,
        depth_ns,
        places,
        ..CaptureRecord::default()
    }
}

fn twin(capture: &CaptureRecord) -> Vec<Job> {
    let text = workload_file(capture, "t").expect("a workload");
    let file = builtin::parse("twin.toml", &text);
    file.unwrap_or_else(|error| panic!("{error}\n{text}")).workload.jobs
}

#[test]
fn the_twin_of_a_random_load_has_its_mix_depth_and_hot_spot() {
    let reads = class("read", 7000, 10, &[(4096, 6000), (16384, 1000)]);
    let writes = class("write", 3000, 0, &[(4096, 3000)]);
    let flush = CaptureClass { class: "flush".into(), count: 300, ..CaptureClass::default() };
    let mut capture = capture(vec![reads, writes, flush], vec![1, 1, 0, 0, 100]);
    let jobs = twin(&capture);
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].access, jobs[0].depth, jobs[0].rate), (Access::Random, 4, None));
    assert!((jobs[0].write_fraction - 0.3).abs() < 1e-9);
    assert_eq!(jobs[0].block_size.len(), 2);
    assert!(format!("{:?}", jobs[0].distribution).contains("Zones"), "{:?}", jobs[0].distribution);
    assert!(jobs[0].span.is_some() && format!("{:?}", jobs[0].sync).contains("0.1"));
    // Ends are lost: what seems to be in flight is not, and nothing rests on it.
    let with_loss = CaptureRecord {
        faults: CaptureFaults { lost: 400, ..CaptureFaults::default() },
        events: 10_000,
        ..capture.clone()
    };
    let lost = &twin(&with_loss)[0];
    // What is wrong with the trace is told of its twin.
    let text = workload_file(&with_loss, "t").expect("a workload");
    assert!(text.contains("Of the trace: 400 events were lost (3.8 %): latencies are"), "{text}");
    let text = workload_file(&capture, "t").expect("a workload");
    assert!(!text.contains("Of the trace"), "{text}");
    assert_eq!((lost.rate.map(|rate| rate.round() as u64), lost.depth), (Some(1000), 128));
    let told = |of: &CaptureRecord| advice(of).iter().any(|note| note.id == "advice-depth");
    assert!(told(&capture) && !told(&with_loss));
    // What is merged, or waits before the driver, the device does not work on.
    let merging = CaptureRecord { driver_depth_ns: vec![10, 80, 10], ..capture.clone() };
    let text = |of: &CaptureRecord| {
        let all = advice(of).into_iter().find(|note| note.id == "advice-depth");
        let note = all.expect("an advice");
        format!("{} {}", note.summary, note.advice.join(" "))
    };
    assert!(text(&capture).contains("in flight at the median"), "{}", text(&capture));
    let told = text(&merging);
    assert!(told.contains("1 with the driver at the median, 2 at 95 %"), "{told}");
    assert!(told.contains("merged or waited before it") && told.ends_with("depth=2"), "{told}");
    // In flight now and then: requests come by themselves.
    capture.depth_ns = vec![1000, 100, 50, 20, 5];
    let jobs = twin(&capture);
    assert_eq!((jobs[0].rate.map(|rate| rate.round() as u64), jobs[0].depth), (Some(1000), 16));
    // By chance, unless nearly all come at the same distance.
    let arrivals = |gaps: &[u64]| {
        let mut of = capture.clone();
        gaps.iter().for_each(|ns| of.arrivals.gap_ns.record_n(*ns, 30));
        workload_file(&of, "t").expect("a workload").contains("arrivals = \"even\"")
    };
    assert!(arrivals(&[1_000_000, 990_000, 1_020_000]));
    assert!(!arrivals(&[1_000_000, 100_000, 3_000_000]) && !arrivals(&[]));
}

/// A database at 60 MiB of 100, its journal, and a request far from both: the hot part stays as small as it is, and where it is.
/// The load is merged where of five requests one went along with others; a trace of what was merged says how many arrived.
#[test]
fn a_twin_of_what_was_merged_says_so() {
    let mut load = capture(vec![class("write", 1000, 0, &[(4096, 1000)])], vec![0, 1000]);
    let merged =
        |load: &CaptureRecord, merges| CaptureRecord { merges, ..load.clone() }.is_merged();
    assert!(merged(&load, [0, 200, 0]) && merged(&load, [100, 50, 50]));
    assert!(!merged(&load, [0, 199, 0]) && !merged(&load, [0; 3]));
    let text = workload_file(&load, "t").expect("a workload");
    assert!(!text.contains("arrived"), "{text}");
    load.arrived = 64_000;
    let text = workload_file(&load, "t").expect("a workload");
    assert!(text.contains("64000 reads and writes arrived: what the kernel merged"), "{text}");
    assert!(!merged(&load, [0, 1000, 0]), "it is one already");
}

#[test]
fn the_twin_of_areas_far_apart_has_them_side_by_side() {
    let reads = class("read", 7000, 10, &[(4096, 7000)]);
    let mut capture = capture(vec![reads], vec![0, 100]);
    let places = &mut capture.places;
    places.part_bytes = 1 << 16;
    places.areas = vec![(1 << 20, 20 << 16), (60 << 20, 80 << 16)];
    (places.elsewhere, places.end_byte) = (9, 100 << 20);
    places.parts = vec![10; 100];
    places.parts[50] = 3000;
    let text = workload_file(&capture, "t").expect("a workload");
    assert!(text.contains("2 areas that it uses lie far apart") && text.contains("lie 9 requests"));
    // What is trimmed is not gone to, however large it is.
    capture.classes.push(class("discard", 20, 0, &[(1 << 30, 20)]));
    // 100 parts of 64 KiB, of which 20 lie before the database; none of the 100 MiB between. The last request may go on behind them.
    let jobs = twin(&capture);
    let place = |job: &Job| (job.offset.bytes(100 << 20), job.span.map(|s| s.bytes(100 << 20)));
    assert_eq!(place(&jobs[0]), ((60 << 20) - (20 << 16), Some((100 << 16) + 4096)), "{text}");
    assert!(format!("{:?}", jobs[0].distribution).contains("Zones"), "{text}");
}

/// A ring of few places on a large device, written in requests of 1 MiB, and a few elsewhere: there is room for each of them, also where
/// the target is smaller.
#[test]
fn the_twin_of_one_spot_has_room_for_a_request() {
    const SIZE: u64 = 4 << 40;
    let writes = class("write", 500, 0, &[(4096, 400), (1 << 20, 100)]);
    let mut capture = capture(vec![writes], vec![0, 100]);
    capture.size_bytes = SIZE;
    let places = &mut capture.places;
    places.part_bytes = 4096;
    (places.areas, places.parts) = (vec![(3 << 40, 4096)], vec![500]);
    (places.elsewhere, places.end_byte) = (3, SIZE);
    let text = workload_file(&capture, "t").expect("a workload");
    let place = |size_bytes: u64| {
        let mut workload = builtin::parse("twin.toml", &text).expect("parses").workload;
        fit(&mut workload, size_bytes);
        let job = &workload.jobs[0];
        (job.offset.bytes(size_bytes), job.span.map(|span| span.bytes(size_bytes)))
    };
    assert_eq!(place(SIZE), (3 << 40, Some((1 << 20) + 4096)), "{text}");
    // Of a device whose size is not known, it is as large as it was, at the start.
    capture.size_bytes = 0;
    let unknown = workload_file(&capture, "t").expect("a workload");
    assert!(unknown.contains("lie at the start of the target"), "{unknown}");
    let job = &twin(&capture)[0];
    assert_eq!(job.offset.bytes(SIZE), 0);
    assert_eq!(job.span.map(|span| span.bytes(SIZE)), Some((1 << 20) + 4096));
    // Of these its share is less than one request.
    assert_eq!(place(1 << 30), (3 << 28, Some(1 << 20)), "{text}");
    assert_eq!(place(2 << 20), (1 << 20, Some(1 << 20)), "{text}");
}

#[test]
fn streams_have_jobs_of_their_own() {
    let reads = class("read", 7000, 6900, &[(131_072, 7000)]);
    let writes = class("write", 3000, 100, &[(4096, 3000)]);
    let jobs = twin(&capture(vec![reads, writes], vec![0, 100]));
    let found: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.access)).collect();
    assert_eq!(found, [("random", Access::Random), ("seqread", Access::Sequential)]);
    assert!(workload_file(&CaptureRecord::default(), "t").is_none());
}

/// A backup beside a database: few requests, and most of the bytes.
#[test]
fn a_stream_of_few_large_requests_has_a_job_of_its_own() {
    let reads = class("read", 9900, 0, &[(4096, 9900)]);
    let mut writes = class("write", 100, 99, &[(1 << 20, 100)]);
    let streams = class("write", 99, 0, &[(1 << 20, 99)]);
    (writes.follow_sizes, writes.all_follow_sizes) = (streams.sizes, streams.all_sizes);
    let jobs = twin(&capture(vec![reads, writes], vec![0, 100]));
    let found: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.access)).collect();
    assert_eq!(found, [("random", Access::Random), ("seqwrite", Access::Sequential)]);
}

/// A database at random beside a log: each job has the sizes of its own requests.
#[test]
fn sizes_of_streams_are_not_those_at_random() {
    let mut reads = class("read", 4000, 450, &[(4096, 3300), (16_384, 250), (65_536, 450)]);
    let streams = class("read", 450, 0, &[(65_536, 450)]);
    (reads.follow_sizes, reads.all_follow_sizes) = (streams.sizes, streams.all_sizes);
    let of = |reads: &CaptureClass| {
        let jobs = twin(&capture(vec![reads.clone()], vec![0, 100]));
        let sizes = |job: &Job| -> Vec<_> {
            job.block_size.iter().map(|size| (size.size_bytes, size.weight)).collect()
        };
        (sizes(&jobs[0]), sizes(&jobs[1]))
    };
    let (random, sequential) = of(&reads);
    assert_eq!(random.iter().map(|size| size.0).collect::<Vec<_>>(), [4096, 16_384]);
    assert_eq!(sequential.iter().map(|size| size.0).collect::<Vec<_>>(), [65_536]);
    // Records of older versions do not tell them apart.
    (reads.follow_sizes, reads.all_follow_sizes) = (Vec::new(), SparseHistogram::default());
    let (random, sequential) = of(&reads);
    assert_eq!((random.len(), &random), (3, &sequential));
}

#[test]
fn chunks_follow_the_load() {
    let chunk = |capture: &CaptureRecord| {
        let found = advice(capture);
        found.into_iter().find(|f| f.id == "advice-chunk").expect("a chunk").summary
    };
    let text = |follow, follow_last, size, depth: &[u64]| {
        let read = class("read", 7000, follow, &[(size, 7000)]);
        let mut load = capture(vec![read], depth.to_vec());
        load.places.follow_last = follow_last;
        chunk(&load)
    };
    let (one, eight) = (&[0, 100][..], &[0, 1, 1, 1, 1, 1, 1, 1, 100][..]);
    // C11: 32 to 64 KiB for one client that reads in order, however many of its requests are in flight; C10: the request for
    // several; at random 256 KiB and what holds a request whole.
    assert!(text(6900, 6900, 65_536, one).contains(": 64 KiB"));
    assert!(text(6900, 6900, 131_072, eight).contains(": 64 KiB"));
    assert!(text(6900, 6900, 4096, one).contains(": 32 KiB"));
    let two = text(6900, 3700, 1 << 20, one);
    assert!(two.contains(&format!(": {} (", format_size(1 << 20))), "{two}");
    assert!(text(0, 0, 8192, one).contains(": 256 KiB"));
    assert!(text(0, 0, 1 << 20, one).contains(&format!(": {} (", format_size(1 << 20))));
    // C09: mean plus deviation.
    assert!(text(0, 0, 400_000, one).contains(": 512 KiB"));
}

/// One in flight: of small ones latency decides, of large ones what moves their bytes, as the chunk beside it says.
#[test]
fn the_advice_on_depth_fits_the_load() {
    let depth = |word: &str, size: u64, follow: u64| {
        let mut load = capture(vec![class(word, 7000, follow, &[(size, 7000)])], vec![0, 100]);
        load.places.follow_last = load.places.follow_any;
        let found = advice(&load).into_iter().find(|f| f.id == "advice-depth").expect("a depth");
        (found.summary, found.advice[0].clone())
    };
    let (what, next) = depth("read", 4096, 0);
    assert!(what.contains("latency decides, not throughput"), "{what}");
    assert!(next.ends_with("fathom run randread TARGET block_size=4096 depth=1"), "{next}");
    let (what, next) = depth("write", 1 << 20, 6900);
    assert!(what.contains("several disks that share each request"), "{what}");
    assert!(!what.contains("do not help"), "{what}");
    assert!(next.ends_with("fathom run seqwrite DIR block_size=1048576 depth=1"), "{next}");
    // One stream of small ones: several disks work for it once more comes at a time; of large ones in many places each is one disk's.
    let (what, _) = depth("read", 4096, 6900);
    assert!(
        what.contains("only where more comes at once") && !what.contains("do not help"),
        "{what}"
    );
    let (what, _) = depth("read", 1 << 20, 0);
    assert!(what.contains("what moves its bytes decides") && !what.contains("chunk"), "{what}");
    let (_, next) = depth("read", 512 << 10, 6900);
    assert!(next.ends_with("fathom run seqread TARGET block_size=524288 depth=1"), "{next}");
}

/// All that can be wrong.
fn all_faults() -> CaptureFaults {
    CaptureFaults {
        lost: 5,
        before_first: 3000,
        late: 3,
        back_ns_max: 60_000_000_000,
        abandoned: 1,
        unsure: 1,
        unsure_ns: 1,
        refused: 0,
        skipped: 2,
        other_devices: 11,
        others: vec!["8,16".into(), "8,32".into()],
        device_chosen: false,
        cut_off: Some("the writer was killed".into()),
        in_no_round: 3,
        came_online: vec![2, 3],
        ended_early: vec![4],
        without_file: vec![1],
    }
}

#[test]
fn what_is_wrong_with_a_trace_is_said() {
    let mut bad = capture(vec![class("read", 10, 0, &[(4096, 10)])], vec![1]);
    bad.faults = all_faults();
    bad.errors = 1;
    bad.events = 10;
    let ids: Vec<String> = faults(&bad).into_iter().map(|finding| finding.id).collect();
    let expected = [
        "capture-cut-off",
        "capture-processors-came",
        "capture-files-missing",
        "capture-files-end-early",
        "capture-lost-events",
        "capture-begins-late",
        "capture-time-goes-back",
        "capture-lines-skipped",
        "capture-other-devices",
        "capture-ends-missing",
        "capture-short",
        "capture-errors",
    ];
    assert_eq!(ids, expected);
    let skipped = |source: &str| {
        let told = faults(&CaptureRecord { source: source.into(), ..bad.clone() });
        told.into_iter().find(|f| f.id == "capture-lines-skipped").map(|f| f.summary)
    };
    let of = |what: &str| Some(format!("left out, as no events of requests: {what}"));
    assert_eq!(skipped("blkparse"), of("2 lines"));
    assert_eq!(skipped("blktrace"), of("2 damaged records"));
    let text = |came: Vec<u32>| {
        let mut good = capture(vec![class("read", 1000, 0, &[(4096, 1000)])], vec![1, 1]);
        good.events = 3000;
        good.faults.came_online = came;
        let found = faults(&good).into_iter().find(|f| f.id == "capture-processors-came");
        (found.map(|f| (f.severity, f.summary)), good.knows_depth())
    };
    assert_eq!(text(vec![]), (None, true));
    let expected_text = "processor 5 came online meanwhile: what happened on it is missing";
    let (found, knows_depth) = text(vec![5]);
    let (severity, summary) = found.expect("a finding");
    assert!(severity == Severity::Doubtful && summary.starts_with(expected_text), "{summary}");
    // Ends are missing, and how many were in flight is not known.
    assert!(!knows_depth);
    let (found, _) = text(vec![2, 3]);
    assert!(found.is_some_and(|(_, text)| text.starts_with("processors 2, 3 came online")));
    // Times that go back by less than that spoil what is short.
    let back = |late: u64, back_ns_max: u64| {
        let mut text = capture(vec![class("read", 1000, 0, &[(4096, 1000)])], vec![1, 1]);
        text.classes[0].total_ns.record_n(480_000, 1000);
        (text.events, text.source) = (3000, "blkparse".to_owned());
        (text.faults.late, text.faults.back_ns_max) = (late, back_ns_max);
        let found = faults(&text).into_iter().find(|f| f.id == "capture-time-goes-back");
        let found = found.expect("a finding");
        (found.severity, text.knows_depth(), found.advice.join(" ").contains("sort -s"))
    };
    assert_eq!(back(2700, 1_000_000), (Severity::Doubtful, false, true));
    assert_eq!(back(2700, 40_000), (Severity::Note, true, true));
    assert_eq!(back(20, 1_000_000), (Severity::Note, true, true));
    // At one place others always waited too, for as long as anything did.
    let unsure = |unsure_ns: u64| {
        let mut trace = capture(vec![class("read", 1000, 0, &[(4096, 1000)])], vec![0, 1000]);
        (trace.events, trace.faults.unsure, trace.faults.unsure_ns) = (3000, 2, unsure_ns);
        let found = faults(&trace).into_iter().find(|f| f.id == "capture-ends-missing");
        (found.map(|f| f.severity), advice(&trace).iter().any(|note| note.id == "advice-depth"))
    };
    assert_eq!(unsure(1000), (Some(Severity::Doubtful), false));
    assert_eq!(unsure(50), (None, true));
    // A replay tells what is wrong with its trace; how long that is, and its errors, are its own.
    let of_trace: Vec<String> = faults_of_trace(&bad).into_iter().map(|f| f.id).collect();
    assert_eq!(of_trace, expected[..10]);
    assert_eq!(faults(&CaptureRecord::default())[0].id, "capture-empty");
}

#[test]
fn distances_are_those_of_kolmogorov_and_smirnov() {
    let of = |values: &[u64]| {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    };
    let d = |a: &[u64], b: &[u64]| distance(&of(a), &of(b)).expect("values");
    assert_eq!(d(&[1, 2, 3], &[1, 2, 3]), 0.0);
    assert_eq!(d(&[1, 2], &[100, 200]), 1.0);
    assert!((d(&[1, 2, 3, 4], &[3, 4, 5, 6]) - 0.5).abs() < 1e-12);
    assert_eq!(distance(&of(&[]), &of(&[1])), None);
    let a = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
    let b = capture(vec![class("read", 100, 0, &[(8192, 100)])], vec![1, 1]);
    let none = Changed::default();
    assert_eq!(finding("likeness", &distances(&a, &a, none), none).severity, Severity::Note);
    let apart = finding("likeness", &distances(&a, &b, none), none);
    assert!(apart.severity == Severity::Doubtful && apart.summary.contains("size of reads"));
    assert!(distances(&a, &b, none).iter().any(|d| d.distance > FAR));
    assert_eq!(finding("likeness", &[], none).severity, Severity::Doubtful);
    // A microsecond apart or none is together; a millisecond is not.
    let gaps = |ns: u64| {
        let mut record = a.clone();
        record.arrivals.gap_ns = of(&[ns; 9]);
        record
    };
    let apart = |first: u64, second: u64| {
        let all = distances(&gaps(first), &gaps(second), none);
        all.iter().find(|d| d.figure == "time between arrivals").expect("gaps").distance
    };
    assert_eq!((apart(1000, 0), apart(9_000, 1_000_000)), (0.0, 1.0));
    // A million a second are not a hundred thousand, though both come sooner than that.
    assert!(apart(1000, 9900) > 0.85 && apart(1000, 1050) < 0.06);
    // Bursts of any pace with pauses between them are the same.
    let bursts = |ns: u64| {
        let mut record = a.clone();
        record.arrivals.gap_ns = of(&[[ns; 9].as_slice(), &[5_000_000]].concat());
        record
    };
    let all = distances(&bursts(500), &bursts(9_000), none);
    assert!(all.iter().all(|d| d.distance < 0.1), "{all:?}");
}

/// No storage sees whether requests come 500 us or 502 us after each other.
#[test]
fn gaps_that_nobody_sees_are_the_same() {
    let gaps = |values: &[u64]| {
        let mut record = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
        values.iter().for_each(|ns| record.arrivals.gap_ns.record(*ns));
        record
    };
    let apart = |a: &[u64], b: &[u64]| {
        let all = distances(&gaps(a), &gaps(b), Changed::default());
        all.iter().find(|d| d.figure == "time between arrivals").expect("gaps").distance
    };
    assert_eq!(apart(&[500_000; 9], &[502_500; 9]), 0.0);
    assert_eq!(apart(&[20_000_000; 9], &[20_150_000; 9]), 0.0);
    assert_eq!(apart(&[20_150_000; 9], &[20_000_000; 9]), 0.0);
    assert_eq!(apart(&[500_000; 9], &[550_000; 9]), 1.0);
    assert_eq!(apart(&[20_000_000; 9], &[21_000_000; 9]), 1.0);
    // A third of them elsewhere is a third.
    let third = apart(&[500_000; 3], &[501_000, 502_000, 900_000]);
    assert!((third - 1.0 / 3.0).abs() < 1e-12, "{third}");
}

/// The same gaps, once in bursts and once mixed.
#[test]
fn bursts_are_compared() {
    let of = |index: f64, windows: u64| {
        let mut record = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
        record.arrivals.dispersion = vec![(10_000_000, 3.0, 900), (100_000_000, index, windows)];
        record
    };
    let found = |a: (f64, u64), b: (f64, u64), changed: Changed| {
        finding("likeness", &distances(&of(a.0, a.1), &of(b.0, b.1), changed), changed)
    };
    let none = Changed::default();
    let apart = found((494.6, 54), (7.5, 54), none);
    assert_eq!(apart.severity, Severity::Doubtful);
    let text = "of index of dispersion in 100 ms (495 against 8)";
    assert!(apart.summary.contains(text), "{}", apart.summary);
    // Few windows, or none that are bursty, tell nothing apart.
    for (a, b) in [((12.0, 12), (7.5, 12)), ((0.01, 500), (0.9, 500)), ((99.0, 9), (1.0, 9))] {
        assert_eq!(found(a, b, none).severity, Severity::Note);
        assert!(!found(a, b, none).summary.contains("index"), "{a:?}");
    }
    let faster = Changed { times: true, ..none };
    assert_eq!(found((494.6, 54), (7.5, 54), faster).severity, Severity::Note);
}

/// What a filesystem writes back: half of it 4 KiB, the rest in any multiple of it up to 1 MiB.
fn written_back() -> CaptureClass {
    let rest = (2..=256).map(|n| (n * 4096, 10));
    class("write", 5100, 0, &std::iter::once((4096, 2550)).chain(rest).collect::<Vec<_>>())
}

#[test]
fn rare_sizes_count_as_much_as_frequent_ones() {
    let load = |class: CaptureClass| capture(vec![class], vec![1, 1]);
    let of_sizes = |a: &CaptureRecord, b: &CaptureRecord| {
        let all = distances(a, b, Changed::default());
        all.iter().find(|d| d.figure == "size of writes").expect("sizes").distance
    };
    let (many, one) = (load(written_back()), load(class("write", 5100, 0, &[(4096, 5100)])));
    assert!((of_sizes(&many, &one) - 0.5).abs() < 1e-9, "{}", of_sizes(&many, &one));
    // A record of an older version has no others than the most frequent ones, and both are compared by these.
    let mut old = many.clone();
    old.classes[0].all_sizes = SparseHistogram::default();
    assert_eq!(of_sizes(&many, &old), 0.0);
}

/// A program that takes a third of the capture to start, and always has 16 in flight then.
#[test]
fn what_sets_the_pace_is_seen_from_the_first_request_to_the_last() {
    let reads = class("read", 7000, 10, &[(4096, 7000)]);
    let mut depth_ns = vec![0; 17];
    (depth_ns[0], depth_ns[16]) = (800_000_000, 1_300_000_000);
    let mut slow_start = capture(vec![reads], depth_ns);
    let interval = |reads| CaptureInterval {
        length_ns: 100_000_000,
        reads,
        depth_max: reads.min(16),
        ..CaptureInterval::default()
    };
    let idle = |count| std::iter::repeat_n(interval(0), count);
    let busy = std::iter::repeat_n(interval(500), 13);
    slow_start.series = idle(7).chain(busy).chain(idle(1)).collect();
    // A record of an older version tells it by its intervals only.
    (slow_start.window_ns, slow_start.last_ns) = (2_100_000_000, 0);
    let job = &twin(&slow_start)[0];
    assert_eq!((job.depth, job.rate), (16, None));
    let exact =
        CaptureRecord { first_ns: 700_000_000, last_ns: 2_000_000_000, ..slow_start.clone() };
    let job = &twin(&exact)[0];
    assert_eq!((job.depth, job.rate), (16, None));
    // Beside another capture of the load, one that was idle at neither end, it has the same rates.
    let depth_ns: Vec<u64> = std::iter::once(0).chain(slow_start.depth_ns[1..].to_vec()).collect();
    let quick = CaptureRecord {
        depth_ns,
        series: Vec::new(),
        window_ns: 1_300_000_000,
        last_ns: 1_300_000_000,
        ..slow_start.clone()
    };
    for slow in [&slow_start, &exact] {
        let rows = side_by_side(slow, &quick);
        let reads = rows.iter().find(|row| row.figure == "read requests").expect("reads");
        assert_eq!(reads.a, reads.b, "{rows:?}");
        let apart = distances(slow, &quick, Changed::default());
        assert!(apart.iter().all(|of| of.distance == 0.0), "{apart:?}");
    }
    // With as much of it in the middle the requests came by themselves.
    slow_start.series.rotate_left(13);
    assert!(twin(&slow_start)[0].rate.is_some());
}

/// Sixty seconds of which the load takes twenty: a twin has its pace, for as long as it went on.
#[test]
fn a_twin_goes_as_fast_and_as_long_as_the_load() {
    let reads = class("read", 60_000, 10, &[(4096, 60_000)]);
    let mut load = capture(vec![reads], vec![50_000_000_000, 5_000_000_000, 5_000_000_000]);
    load.window_ns = 60_000_000_000;
    (load.first_ns, load.last_ns) = (10_000_000_000, 30_000_000_000);
    let text = workload_file(&load, "t").expect("a workload");
    let says = "60000 requests in 20 s from the first to the last: 3000 a second, 0.8 in flight";
    assert!(text.contains(says), "{text}");
    let job = &twin(&load)[0];
    assert_eq!(job.rate.map(f64::round), Some(3000.0));
    assert!(text.contains("duration = \"20s\""), "{text}");
}

/// Old records have an end that was lost in flight for all of a pause: that is no device which sets the pace.
#[test]
fn what_waits_while_nothing_happens_sets_no_pace() {
    let reads = class("read", 4000, 10, &[(4096, 4000)]);
    let mut load = capture(vec![reads], vec![100, 9900]);
    let interval = |reads| CaptureInterval {
        length_ns: 1000,
        reads,
        depth_mean: 1.0,
        depth_max: 1,
        ..CaptureInterval::default()
    };
    load.series = vec![interval(400); 10];
    assert_eq!(twin(&load)[0].rate, None);
    load.series[3..8].fill(interval(0));
    assert!(twin(&load)[0].rate.is_some());
    // Slow ones end in it.
    let mut slow = interval(0);
    slow.latency_ns = SparseHistogram::from(&{
        let mut one = Histogram::new();
        one.record(900_000);
        one
    });
    load.series[3..8].fill(slow);
    assert_eq!(twin(&load)[0].rate, None);
}

#[test]
fn the_twin_has_rare_sizes_too() {
    let check = |class: CaptureClass| {
        let (mean, count) = (class.size_mean, class.count);
        let original = capture(vec![class], vec![1, 0, 0, 100]);
        let sizes = twin(&original)[0].block_size.clone();
        let twin_mean = mean_bytes(&sizes);
        assert!((twin_mean / mean - 1.0).abs() < 0.02, "{twin_mean} for {mean}: {sizes:?}");
        let weights: f64 = sizes.iter().map(|size| size.weight).sum();
        assert!((weights - count as f64).abs() < 0.5, "{sizes:?}");
        let own: Vec<_> =
            sizes.iter().map(|s| (u64::from(s.size_bytes), s.weight as u64)).collect();
        let made = capture(vec![super::tests::class("write", count, 0, &own)], vec![1, 0, 0, 100]);
        let found = distances(&original, &made, Changed::default());
        let apart = found.iter().find(|d| d.figure == "size of writes").expect("sizes").distance;
        assert!(apart < 0.1, "{apart}: {sizes:?}");
        workload_file(&original, "t").expect("a workload")
    };
    let text = check(written_back());
    assert!(text.contains("The rarer sizes, of 50.0 % of the writes"), "{text}");
    // None is frequent; and few requests that have most of the bytes.
    let even: Vec<_> = (1..=250).map(|n| (n * 512, 20)).collect();
    check(class("write", 5000, 0, &even));
    check(class("write", 5040, 0, &[(4096, 5000), (1 << 20, 39), (12 << 10, 1)]));
    // A rare size alone in its group is exactly that size: a device that takes 1 MiB at the most would cut anything above.
    let rare = class("write", 5039, 0, &[(4096, 5000), (1 << 20, 39)]);
    let sizes = twin(&capture(vec![rare], vec![1, 0, 0, 100]))[0].block_size.clone();
    assert_eq!(sizes.iter().map(|s| s.size_bytes).collect::<Vec<_>>(), [4096, 1 << 20]);
    // Few requests with few bytes are no group of their own.
    let hardly = capture(vec![class("write", 5001, 0, &[(4096, 5000), (8192, 1)])], vec![1, 100]);
    assert_eq!(twin(&hardly)[0].block_size.len(), 1);
    assert!(!workload_file(&hardly, "t").is_some_and(|text| text.contains("rarer")));
}

/// Everything else alike, what kind the requests are decides.
#[test]
fn reads_are_no_writes_and_durable_writes_are_no_others() {
    let load = |reads, writes, durable| {
        let mut write = class("write", writes, 0, &[(4096, writes)]);
        write.durable = durable;
        let classes = [class("read", reads, 0, &[(4096, reads)]), write];
        capture(classes.into_iter().filter(|class| class.count > 0).collect(), vec![1, 1])
    };
    let found = |a: &CaptureRecord, b: &CaptureRecord| {
        finding("likeness", &distances(a, b, Changed::default()), Changed::default())
    };
    for (a, b, figure) in [
        (load(100, 0, 0), load(0, 100, 0), "1.00 of shares of reads and writes"),
        (load(90, 10, 0), load(10, 90, 0), "0.80 of shares of reads and writes"),
        (load(0, 100, 0), load(0, 100, 100), "1.00 of share of writes on stable storage"),
    ] {
        let found = found(&a, &b);
        assert_eq!(found.severity, Severity::Doubtful, "{}", found.summary);
        assert!(found.summary.contains(figure), "{}", found.summary);
    }
    let near = found(&load(90, 10, 0), &load(85, 15, 0));
    assert_eq!(near.severity, Severity::Note, "{}", near.summary);
    // A device without a volatile cache is sent none.
    let cacheless = found(&load(0, 100, 100), &load(0, 100, 0));
    assert_eq!(cacheless.severity, Severity::Note, "{}", cacheless.summary);
}

/// A stream of large requests among many small ones at random: few requests, and most of the bytes.
#[test]
fn how_much_is_sequential_counts_by_bytes() {
    let sizes = [(4096, 990), (1 << 20, 10)];
    let random = class("read", 1000, 0, &sizes);
    let mut stream = random.clone();
    stream.follow = 10;
    stream.all_follow_sizes = class("read", 10, 0, &[(1 << 20, 10)]).all_sizes;
    let [a, b] = [random.clone(), stream].map(|class| capture(vec![class], vec![1, 1]));
    let of = |a: &CaptureRecord, b: &CaptureRecord, changed| {
        let found = distances(a, b, changed);
        found.into_iter().find(|d| d.figure == "sequential share of bytes read")
    };
    let found = of(&a, &b, Changed::default()).expect("a distance");
    let share = 10.0 * (1 << 20) as f64 / (990 * 4096 + 10 * (1 << 20)) as f64;
    assert!((found.distance - share).abs() < 1e-9 && share > 0.7, "{} {share}", found.distance);
    assert_eq!(found.of, DistanceOf::Load);
    let moved = of(&a, &b, Changed { places: true, ..Changed::default() });
    assert_eq!(moved.map(|d| d.of), Some(DistanceOf::Changed));
    // A record of an older version does not say it, and none is told of writes that are not there.
    let mut old = b.clone();
    old.classes[0].all_follow_sizes = SparseHistogram::default();
    assert_eq!(of(&a, &old, Changed::default()), None);
    let all = distances(&a, &b, Changed::default());
    assert!(all.iter().all(|d| d.figure != "sequential share of bytes written"));
}

/// Which distributions are apart, each with its distance and medians, and none that are the storage's.
#[test]
fn all_that_is_apart_is_named() {
    let mut a = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
    let mut b = capture(vec![class("read", 100, 0, &[(8192, 100)])], vec![1, 1]);
    (1..100).for_each(|_| a.arrivals.gap_ns.record(1000));
    (1..100).for_each(|at| b.arrivals.gap_ns.record(if at < 60 { 1000 } else { 9_000_000 }));
    let found = finding("likeness", &distances(&a, &b, Changed::default()), Changed::default());
    let text = "distances are 1.00 of size of reads (median 4 KiB against 8 KiB), 0.40 of time between arrivals (median 1.0 us in both)";
    assert!(found.summary.ends_with(text), "{}", found.summary);
    let same = finding("likeness", &distances(&a, &a, Changed::default()), Changed::default());
    assert!(same.summary.contains("the largest distance is 0.00, of "), "{}", same.summary);
}

#[test]
fn what_is_changed_on_purpose_is_told_and_does_not_count() {
    let mut a = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
    let mut b = a.clone();
    (1..100).for_each(|gap| a.arrivals.gap_ns.record(gap * 1000));
    (1..100).for_each(|gap| b.arrivals.gap_ns.record(gap * 9_000_000));
    let of = |changed| finding("likeness", &distances(&a, &b, changed), changed);
    assert_eq!(of(Changed::default()).severity, Severity::Doubtful);
    let found = of(Changed { times: true, ..Changed::default() });
    assert_eq!(found.severity, Severity::Note);
    assert!(found.summary.contains("not compared: time between arrivals"), "{}", found.summary);
}

/// What was left out is not said to have arrived.
#[test]
fn of_reads_alone_only_reads_are_said_to_be_alike() {
    let a = capture(vec![class("read", 100, 0, &[(4096, 100)])], vec![1, 1]);
    let changed = Changed { reads_only: true, ..Changed::default() };
    let found = finding("likeness", &distances(&a, &a, changed), changed);
    assert!(
        found.summary.starts_with("the reads that arrived are those of the trace"),
        "{}",
        found.summary
    );
    assert!(
        found.summary.contains("not compared: shares of reads and writes"),
        "{}",
        found.summary
    );
}

#[test]
fn a_write_with_flush_and_fua_is_durable_once() {
    let mut write = class("write", 10_000, 0, &[(4096, 10_000)]);
    (write.fua, write.preflush, write.durable) = (1000, 1000, 1000);
    let found = advice(&capture(vec![write.clone()], vec![0, 100]));
    let text = &found.iter().find(|f| f.id == "advice-durability").expect("advice").summary;
    assert!(text.contains("000 durable writes") && text.contains("100 a second"), "{text}");
    let jobs = twin(&capture(vec![write.clone()], vec![0, 100]));
    assert!(format!("{:?}", jobs[0].sync).contains("0.1"), "{:?}", jobs[0].sync);
    // What was stored before the two were told apart.
    write.durable = 0;
    assert_eq!(write.durable(), 1000);
}

/// Newer kernels mark all reads through the page cache as ahead, also those of a page that somebody asked for: larger ones may be.
#[test]
fn that_reads_are_ahead_is_not_known_by_their_mark() {
    let told = |bytes: u64, ahead: u64| {
        let read = CaptureClass { ahead, ..class("read", 3000, 0, &[(bytes, 3000)]) };
        let found = advice(&capture(vec![read], vec![0, 100]));
        let found = found.into_iter().find(|note| note.id == "advice-read-ahead");
        found.map(|note| (note.summary, note.advice.join(" "))).expect("advice")
    };
    let (text, advice) = told(4096, 3000);
    assert_eq!(text, "reads are 100 % random: read-ahead hardly helps this load");
    assert_eq!(advice, "leave it as it is");
    assert_eq!(told(131_072, 0).1, "leave it as it is");
    let (text, advice) = told(131_072, 3000);
    assert!(text.contains("of 128 KiB on average: if the application asks for less"), "{text}");
    assert!(advice.contains("if that is less, try a smaller read-ahead"), "{advice}");
}

#[test]
fn any_count_of_lost_events_has_a_share() {
    let mut trace = capture(vec![class("read", 3000, 0, &[(4096, 3000)])], vec![0, 100]);
    (trace.events, trace.faults.lost) = (9000, u64::MAX);
    let found = faults(&trace).into_iter().find(|f| f.id == "capture-lost-events");
    assert!(
        found.is_some_and(|f| f.severity == Severity::Doubtful && f.summary.contains("(100.0 %)"))
    );
}

/// What stands in no whole round was asked all the same.
#[test]
fn a_trace_without_a_whole_round_does_not_say_that_nothing_was_asked() {
    let mut cut = capture(vec![], vec![]);
    let text = |capture: &CaptureRecord| {
        faults(capture).into_iter().map(|finding| finding.summary).collect::<Vec<_>>().join("\n")
    };
    assert!(text(&cut).starts_with("nothing was asked of sda"));
    (cut.faults.cut_off, cut.faults.in_no_round) = (Some("the file was cut off".into()), 25_616);
    let told = text(&cut);
    let behind = format!("without {} events behind its last whole round", format_count(25_616));
    assert!(told.contains(&behind), "{told}");
    assert!(told.contains("nothing whole") && !told.contains("nothing was asked"), "{told}");
}

#[test]
fn a_device_that_was_asked_for_is_no_doubt() {
    let of = |device_chosen: bool| {
        let mut trace = capture(vec![class("read", 3000, 0, &[(4096, 3000)])], vec![0, 100]);
        trace.events = 9000;
        (trace.faults.other_devices, trace.faults.device_chosen) = (123_289, device_chosen);
        let found = faults(&trace).into_iter().find(|f| f.id == "capture-other-devices");
        let found = found.expect("told");
        (found.severity, found.summary.contains("no --device"))
    };
    assert_eq!(of(false), (Severity::Doubtful, true));
    assert_eq!(of(true), (Severity::Note, false));
}
