//! What an application waited for: devices of known counts, with the answer that is true of each.

use super::*;
use crate::fixtures;
use crate::watch::application::findings;
use crate::watch::storage::tests::{array, storage};
use fathom_model::stack::{Stack, StackAround};
use fathom_model::watch::{DeviceSample, Sample};

/// Ten seconds of an application on a device, which wrote 102.4 MB.
pub(in crate::watch) fn application(
    busy_ms: u64,
    took_ms: u64,
    cpu_share: f64,
) -> ApplicationRecord {
    let writes = FlowCounts { requests: 10_000, sectors: 200_000, took_ms, merged: 0 };
    let queued_ms = took_ms;
    let counts = DeviceCounts { writes, busy_ms, queued_ms, ..DeviceCounts::default() };
    let total = ApplicationSample {
        cpu_share,
        asked_write_bytes: 100_000_000,
        written_bytes: 100_000_000,
        ..ApplicationSample::default()
    };
    ApplicationRecord {
        took_ns: 10_000_000_000,
        exit_status: Some(0),
        total,
        devices: [("sda".to_owned(), counts)].into(),
        ..ApplicationRecord::default()
    }
}

#[track_caller]
pub(in crate::watch) fn check(application: &ApplicationRecord, expected: &[&str]) {
    check_on(application, &[], expected);
}

/// The same on what is known to stand on these layers.
#[track_caller]
fn check_on(application: &ApplicationRecord, stacks: &[Stack], expected: &[&str]) {
    let found = found(application, stacks, &[]);
    let ids: Vec<&str> = found.iter().map(|finding| finding.id.as_str()).collect();
    assert_eq!(ids, expected, "{found:?}");
}

fn found(
    application: &ApplicationRecord,
    stacks: &[Stack],
    pieces: &[&WatchRecord],
) -> Vec<Finding> {
    let storage = &storage(stacks, &[]);
    findings(&Seen { application, storage, pieces, is_trial: false }, &[])
}

/// All that is said of what it waits for.
fn said(application: &ApplicationRecord) -> String {
    let found = found(application, &[], &[]);
    format!("{} {}", found[0].summary, found[0].advice.join(" "))
}

/// The same application on a device of another name.
fn on(name: &str, application: ApplicationRecord) -> ApplicationRecord {
    let counts = application.devices["sda"];
    ApplicationRecord { devices: [(name.to_owned(), counts)].into(), ..application }
}

/// So many seconds beside devices that read: name, bytes, share of the time that it was busy, requests in flight meanwhile.
fn beside(seconds: f64, read_bytes: u64, devices: &[(&str, u64, f64, f64)]) -> ApplicationRecord {
    let device = |(name, bytes, busy_share, in_flight): &(&str, u64, f64, f64)| {
        let busy_ms = 1e3 * seconds * busy_share;
        let (took_ms, sectors) = ((busy_ms * in_flight) as u64, bytes / 512);
        let reads = FlowCounts { requests: 10_000, sectors, took_ms, merged: 0 };
        let busy_ms = busy_ms as u64;
        ((*name).to_owned(), DeviceCounts { reads, busy_ms, ..DeviceCounts::default() })
    };
    let total =
        ApplicationSample { asked_read_bytes: 6900, read_bytes, ..ApplicationSample::default() };
    ApplicationRecord {
        took_ns: (seconds * 1e9) as u64,
        exit_status: Some(0),
        total,
        devices: devices.iter().map(device).collect(),
        ..ApplicationRecord::default()
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn what_an_application_waits_for() {
    check(&application(9800, 10_100, 0.05), &["latency-bound"]);
    check(&application(9900, 160_000, 0.05), &["parallel"]);
    check(&application(8000, 20_000, 0.3), &["partly-parallel"]);
    check(&application(2000, 2000, 0.97), &["not-storage-bound"]);
    let idle = ApplicationRecord {
        devices: [("sda".to_owned(), DeviceCounts::default())].into(),
        total: ApplicationSample::default(),
        ..application(0, 0, 0.0)
    };
    check(&idle, &["hardly-any-io"]);
}

/// Somebody reads 1127 MiB, and it 40 MiB, or sleeps.
#[test]
fn reads_of_others_are_not_the_applications() {
    let with = |own: u64| beside(3.2, own * MIB, &[("loop4", 1127 * MIB, 0.78, 1.0)]);
    check(&with(40), &["others-io", "io-gap"]);
    let text = said(&with(40));
    let part = "loop4 was busy for 78 % of the time, with requests of others: of 1.1 GiB moved, the kernel charges 40 MiB to the command";
    assert!(text.starts_with(part), "{text}");
    assert!(text.contains("A server that works for the command"), "{text}");
    check(&with(0), &["others-io", "io-gap"]);
    // Half of 1127 MiB are 563.5 MiB.
    check(&with(563), &["others-io", "io-gap"]);
    check(&with(564), &["latency-bound", "io-gap"]);
    // Who is not told about the end is told about what was read.
    let cut_off = ApplicationRecord { is_cut_off: true, ..with(40) };
    check(&cut_off, &["others-io"]);
    assert!(said(&cut_off).contains("charges at least 40 MiB"));
    // Whom the kernel does not count it says nothing of.
    let mut uncounted = with(0);
    uncounted.total.asked_read_bytes = 0;
    check(&uncounted, &["latency-bound"]);
    // What it writes beside that is not most of what the device does.
    let mut writes = with(0);
    (writes.total.asked_write_bytes, writes.total.written_bytes) = (100 * MIB, 100 * MIB);
    let counts = writes.devices.get_mut("loop4").expect("there");
    counts.writes = FlowCounts { requests: 100, sectors: 204_800, took_ms: 900, merged: 0 };
    check(&writes, &["others-io", "io-gap"]);
}

/// What is written beyond its own count is others', or journals and metadata of its own: the removal of a tree is charged with
/// nothing.
#[test]
fn writes_that_nobody_is_charged_with_are_not_called_those_of_others() {
    let with = |written_bytes: u64, busy_ms: u64| {
        let mut with = application(busy_ms, busy_ms, 0.05);
        (with.total.asked_write_bytes, with.total.written_bytes) = (1600, written_bytes);
        with
    };
    check(&with(0, 9800), &["uncharged-io", "io-gap"]);
    check(&with(0, 2000), &["not-storage-bound", "io-gap"]);
    let text = said(&with(0, 9800));
    for part in [
        "sda was busy for 98 % of the time: of 97.7 MiB moved, the kernel charges 0 B to the command",
        "or others'",
        "If nobody does, it is the command's: latency-bound, 1.0 requests in flight",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("with requests of others"), "{text}");
    // What it read came from elsewhere.
    let mut reader = with(0, 9800);
    (reader.total.asked_read_bytes, reader.total.read_bytes) = (5_000_000, 5_000_000);
    check(&reader, &["uncharged-io", "io-gap", "io-gap"]);
    assert!(said(&reader).contains("charges 0 B to the command"), "{}", said(&reader));
    // Commits of few bytes make a filesystem write many times as much: half of 102.4 MB are 50 x 1 024 000 bytes.
    check(&with(5_000_000, 9800), &["latency-bound", "io-gap"]);
    check(&with(1_024_000, 9800), &["latency-bound", "io-gap"]);
    check(&with(1_023_999, 9800), &["uncharged-io", "io-gap"]);
}

/// Somebody else may write beside it: from half of all on by its own count the answer is about it without an if.
#[test]
fn a_small_part_of_what_is_written_has_a_verdict_with_an_if() {
    let with = |written_bytes: u64| {
        let mut with = application(9600, 9600 * 25, 0.05);
        (with.total.asked_write_bytes, with.total.written_bytes) = (written_bytes, written_bytes);
        with
    };
    // A fortieth of 102.4 MB.
    check(&with(2_560_000), &["parallel", "io-gap"]);
    let text = said(&with(2_560_000));
    for part in [
        "if nobody else uses it, many requests at once: sda was busy for 96 %",
        "of 97.7 MiB moved, the kernel charges 2.4 MiB to the command",
        "or others'",
        "Whether others use it",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(said(&with(51_199_999)).starts_with("if nobody else"), "{}", said(&with(51_199_999)));
    assert!(said(&with(51_200_000)).starts_with("many requests"), "{}", said(&with(51_200_000)));
}

/// One that reads from two devices in turn waits for storage all the time; who sleeps beside these does not.
#[test]
fn devices_that_are_busy_in_turn_are_not_idle() {
    let both = [("loop0", 996 * MIB, 0.32, 1.0), ("loop4", 995 * MIB, 0.48, 1.0)];
    check(&beside(2.0, 0, &both), &["others-io", "io-gap"]);
    let text = said(&beside(2.0, 0, &both));
    let start = "several devices were busy, loop4 for 48 %, loop0 for 32 % of the time, with requests of others: of 1.9 GiB moved";
    assert!(text.starts_with(start), "{text}");
    let own = 1991 * MIB;
    check(&beside(2.0, own, &both), &["latency-bound"]);
    let text = said(&beside(2.0, own, &both));
    assert!(
        text.contains("1.0 requests in flight meanwhile") && text.contains("one after the other"),
        "{text}"
    );
    // Two at each, or more together than one at a time could be.
    let two = both.map(|(name, bytes, share, _)| (name, bytes, share, 2.0));
    check(&beside(2.0, own, &two), &["several-devices"]);
    let three = ["a", "b", "c"].map(|name| (name, 600 * MIB, 0.45, 1.0));
    check(&beside(2.0, 1800 * MIB, &three), &["several-devices"]);
    let idle = both.map(|(name, bytes, share, _)| (name, bytes, share / 2.0, 1.0));
    check(&beside(2.0, own, &idle), &["not-storage-bound"]);
    // The busiest is the neighbour's, the other one its own.
    let mut mixed = beside(2.0, 0, &[("loop0", 900 * MIB, 0.95, 1.0), ("loop4", 0, 0.0, 1.0)]);
    (mixed.total.asked_write_bytes, mixed.total.written_bytes) = (500 * MIB, 500 * MIB);
    let counts = mixed.devices.get_mut("loop4").expect("there");
    (counts.reads, counts.busy_ms) = (FlowCounts::default(), 1600);
    counts.writes = FlowCounts { requests: 500, sectors: 1_024_000, took_ms: 1600, merged: 0 };
    check(&mixed, &["latency-bound", "io-gap"]);
    assert!(said(&mixed).starts_with("latency-bound: loop4 was busy for 80 %"), "{}", said(&mixed));
}

/// A course of the device `md0`: length and busy time of each interval, with 30 requests in flight.
fn course(intervals: &[(u64, u64)]) -> WatchRecord {
    let mut piece = WatchRecord::new(1_000_000_000, 0);
    for (length_ms, busy_ms) in intervals {
        let reads = FlowCounts {
            requests: 10 * busy_ms,
            sectors: 80 * busy_ms,
            took_ms: 30 * busy_ms,
            merged: 0,
        };
        let counts = DeviceCounts { reads, busy_ms: *busy_ms, ..DeviceCounts::default() };
        let device = DeviceSample {
            name: "md0".into(),
            title: String::new(),
            depth: 0,
            counts,
            rates: counts.rates(length_ms * 1_000_000),
            stands_out: None,
            array: None,
            interrupts: Vec::new(),
            latency: None,
        };
        piece.push(&Sample {
            length_ns: length_ms * 1_000_000,
            devices: vec![device],
            application: Some(ApplicationSample { processes: 1, ..Default::default() }),
            ..Sample::default()
        });
    }
    piece
}

/// A load that begins slowly fills a device between its first and its last request all the same.
#[test]
fn an_idle_start_does_not_make_a_device_less_full() {
    let told = |intervals: &[(u64, u64)]| {
        let (took_ms, busy_ms) = intervals
            .iter()
            .fold((0, 0), |(took, busy), (length, own)| (took + length, busy + own));
        let seconds = took_ms as f64 / 1e3;
        let share = busy_ms as f64 / took_ms as f64;
        let of = beside(seconds, 100 * MIB, &[("md0", 100 * MIB, share, 30.0)]);
        let found = found(&of, &[array(&[true])], &[&course(intervals)]);
        format!("{}: {}", found[0].id, found[0].summary)
    };
    let text = told(&[(1000, 300), (1000, 990), (1000, 970), (600, 300)]);
    // 2560 of 3600, and 1960 of 2000.
    let part =
        "md0 was busy for 71 % of the time (98 % between its first and its last request), 30.0";
    assert!(text.starts_with("device-bound: ") && text.contains(part), "{text}");
    // Pauses are no slow start.
    let text = told(&[(1000, 700), (1000, 990), (1000, 300), (1000, 700)]);
    assert!(text.starts_with("partly-parallel: ") && text.contains("67 % of the time,"), "{text}");
    // Whether it waits for storage is a matter of all its time.
    let text = told(&[(1000, 0), (1000, 600), (1000, 900), (1000, 0)]);
    assert!(text.starts_with("not-storage-bound: "), "{text}");
    // Where there is nothing between the borders, these count.
    let text = told(&[(1000, 0), (1000, 940), (1000, 960), (600, 0)]);
    assert!(text.starts_with("device-bound: ") && text.contains("(95 % between"), "{text}");
}

#[test]
fn a_device_is_full_only_where_each_head_has_a_few_requests() {
    let with = |in_flight: u64| on("md0", application(10_000, 10_000 * in_flight, 0.05));
    let eight = [array(&[true; 8])];
    check_on(&with(40), &eight, &["device-bound"]);
    check_on(&with(20), &eight, &["partly-parallel"]);
    // Heads are shared by those who wait for them; what serves many at once has them go on beside each other.
    let text_of = |storage: &[Stack]| format!("{:?}", found(&with(3), storage, &[])[0].advice);
    assert!(text_of(&eight).contains("less than in proportion"), "{}", text_of(&eight));
    let flash = text_of(&[array(&[false; 2])]);
    assert!(flash.contains("up to in proportion, until md0 is full"), "{flash}");
    check_on(&with(5), &[array(&[true])], &["device-bound"]);
    check_on(&with(40), &[array(&[false; 2])], &["parallel"]);
    check_on(&with(40), &[array(&[true, false])], &["parallel"]);
    check_on(&with(1), &eight, &["latency-bound"]);
}

#[test]
fn nothing_is_said_of_what_is_not_counted() {
    let mut off = [array(&[true])];
    for node in &mut off[0].nodes {
        node.queue.as_mut().expect("a queue").iostats = Some(false);
    }
    let idle = on("md0", application(0, 0, 0.05));
    let with = |requests: u64, took_ms: u64| {
        let mut with = idle.clone();
        let counts = with.devices.get_mut("md0").expect("there");
        (counts.writes.requests, counts.writes.took_ms) = (requests, took_ms);
        with
    };
    check_on(&with(0, 0), &off, &[]);
    check_on(&with(0, 0), &[array(&[true])], &["hardly-any-io"]);
    // Requests without any time: of an array, on kernels that do not tell.
    check_on(&with(10_000, 0), &[], &["times-uncounted"]);
    check_on(&with(10_000, 5), &[], &["not-storage-bound"]);
    check(&application(0, 0, 0.05), &["not-storage-bound"]);
}

#[test]
fn who_commits_waits_once_for_a_write_and_the_flush_before_it() {
    let mut one = application(9800, 9700, 0.05);
    for counts in one.devices.values_mut() {
        // As the kernel counts them: in the queue, but not as busy time.
        (counts.flushes, counts.flush_ms) = (10_000, 9000);
        counts.queued_ms += counts.flush_ms;
    }
    check(&one, &["latency-bound"]);
    let text = said(&one);
    assert!(text.contains("1.0 requests in flight") && text.contains("0.97 ms each"), "{text}");
}

#[test]
fn who_discards_waits_for_discards() {
    let mut trims = application(9000, 100, 0.05);
    for counts in trims.devices.values_mut() {
        let flow = FlowCounts { requests: 500, took_ms: 144_000, ..FlowCounts::default() };
        counts.discards = flow;
    }
    check(&trims, &["parallel"]);
}

/// A trial of one second with a command, as far as it is followed.
fn trial(course: WatchRecord, stacks: &[Stack]) -> Record {
    let around = |before: &Stack| StackAround { before: before.clone(), after: None };
    let watch = WatchRecord { stacks: stacks.iter().map(around).collect(), ..course };
    let window_ns = watch.length_us.values().iter().sum::<u64>() * 1000;
    let mut record = Record { window_ns, watch: Some(Box::new(watch)), ..fixtures::record() };
    record.targets.clear();
    record
}

/// A plan may have a server as its load, or one that runs by itself: whatever the command moves itself, the answer is about the
/// device.
#[test]
fn the_load_of_a_trial_is_whoever_uses_its_device() {
    let of = |busy_ms: u64| {
        let mut course = course(&[(1000, busy_ms)]);
        // The watcher has read 336 KiB itself, the device 46 MB.
        course.application.push("read", 0, 336 << 10);
        course.application.push("asked_read", 0, 500_000);
        of_command(&trial(course, &[array(&[false])])).expect("an answer")
    };
    let (busy, idle) = (of(600), of(300));
    assert_eq!((busy.id.as_str(), idle.id.as_str()), ("partly-parallel", "not-storage-bound"));
    for text in [busy.summary, busy.advice.join(" "), idle.summary, idle.advice.join(" ")] {
        assert!(!text.contains("application") && !text.contains("others: "), "{text}");
    }
}

/// Earlier versions kept no layers of a trial: an array and its members are not several devices that were busy.
#[test]
fn without_layers_nothing_is_said_of_several_devices() {
    let members = |busy_ms: u64| {
        let mut all = course(&[(1000, busy_ms)]);
        let md0 = all.devices[0].clone();
        for name in ["sd1", "sd2"] {
            all.devices
                .push(fathom_model::watch::DeviceSeries { name: name.into(), ..md0.clone() });
        }
        all
    };
    let id = |course: WatchRecord, stacks: &[Stack]| {
        of_command(&trial(course, stacks)).map(|finding| finding.id)
    };
    assert_eq!(id(members(300), &[]), None);
    let known = of_command(&trial(members(300), &[array(&[false; 2])])).expect("an answer");
    assert!(known.summary.contains("md0 was busy for 30 %"), "{known:?}");
    assert_eq!(id(course(&[(1000, 900)]), &[]).as_deref(), Some("parallel"));
    // It may have been told not to count.
    assert_eq!(id(course(&[(1000, 0)]), &[]), None);
    assert_eq!(id(course(&[(1000, 0)]), &[array(&[false])]).as_deref(), Some("hardly-any-io"));
}
