//! Replays of traces that are written by hand, exact to the byte: what is written where, when, and what is said of a bad trace.

use crate::cli::{Done, MIB, Running, Sandbox, p, run};
use crate::failures;
use crate::filesystems::mounted;
use fathom_observe::trace::event::{Action, Class, Event, Names};
use fathom_observe::trace::file::{Head, Writer};
use fathom_stats::Histogram;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountFs, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::oracle::{Snapshot, pattern_write};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Trial, kernel_test,
    without_io_uring,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices];
    let tmpfs = [FathomBinary, MountFs("tmpfs")];
    let ext4 = [FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4)];
    let without = [FathomBinary, LoopDevices, Tool("python3")];
    vec![
        kernel_test("replay_writes_only_what_the_trace_has", &needs, writes_only_that),
        kernel_test("replay_refuses_what_run_refuses", &ext4, refuses),
        kernel_test("replay_reads_files_of_others_only", &[FathomBinary], files_of_others),
        kernel_test("replay_maps_places", &needs, maps),
        kernel_test("replay_tells_what_is_wrong_with_its_trace", &needs, bad_traces),
        kernel_test("replay_that_loses_its_trace_is_void", &tmpfs, loses_its_trace),
        kernel_test("replay_is_on_time", &tmpfs, on_time),
        kernel_test("replay_on_a_slow_target_shows_it", &needs, slow_target),
        kernel_test("replay_from_the_page_cache_is_doubtful", &ext4, from_the_page_cache),
        kernel_test("replay_of_a_device_that_grows_is_void", &needs, grows),
        kernel_test("replayed_commits_stay_commits", &needs, commits),
        kernel_test("replay_cuts_no_request_for_its_rare_size", &needs, rare_sizes),
        kernel_test("replay_without_io_uring", &without, without_ring),
        kernel_test("replay_compares_what_was_issued", &needs, what_was_issued),
        kernel_test("replay_is_stopped_and_leaves_nothing", &[FathomBinary], stopped),
        kernel_test("capture_of_a_part_of_a_trace_is_none", &[FathomBinary], part_of_a_trace),
        kernel_test("replay_on_a_failing_target", &needs, failing),
        kernel_test("replay_needs_no_memory_for_a_long_trace", &tmpfs, long_trace),
    ]
}

/// Time in microseconds, what, first sector, sectors.
type Request<'a> = (u64, &'a str, u64, u32);

/// What blkparse prints of requests that take 10 us each.
fn text(requests: &[Request<'_>]) -> String {
    let mut out = String::new();
    for (number, (us, letters, sector, sectors)) in requests.iter().enumerate() {
        let mut line = |us: u64, action: &str, who: &str| {
            let (s, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
            writeln!(
                out,
                "8,0 0 {number} {s}.{ns:09} 9 {action} {letters} {sector} + {sectors} [{who}]"
            )
            .unwrap();
        };
        line(*us, "Q", "x");
        line(us + 10, "C", "0");
    }
    out
}

fn trace(sandbox: &Sandbox, name: &str, requests: &[Request<'_>]) -> PathBuf {
    let path = sandbox.dir().join(name);
    fs::write(&path, text(requests)).unwrap();
    path
}

/// Reads of 4 KiB at the start of 32 MiB, so many microseconds apart.
fn reads(count: u64, apart_us: u64) -> Vec<Request<'static>> {
    (0..count).map(|n| (n * apart_us, "R", n * 37 % 8000 * 8, 8)).collect()
}

/// A loop device over an image without a byte that is zero by chance.
pub fn patterned(sandbox: &Sandbox, size_bytes: u64) -> LoopDevice {
    let image = sandbox.scratch.join("image");
    pattern_write(&image, size_bytes, 5).unwrap();
    LoopDevice::over(&image, &LoopOptions::default()).unwrap()
}

pub fn consent(device: &LoopDevice) -> String {
    format!("--destroy={}", device.backing().display())
}

/// The 4 KiB blocks in which two images differ.
fn changed_blocks(before: &[u8], after: &[u8]) -> BTreeSet<u64> {
    let pairs = before.chunks(4096).zip(after.chunks(4096)).enumerate();
    pairs.filter(|(_, (a, b))| a != b).map(|(number, _)| number as u64).collect()
}

fn writes_only_that() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 32 * MIB);
    let blocks: BTreeSet<u64> = (0..200).map(|n| n * 41 % 8192).collect();
    let requests: Vec<Request<'_>> =
        blocks.iter().enumerate().map(|(n, b)| (n as u64 * 20, "W", b * 8, 8)).collect();
    let mut all = requests.clone();
    all.push((9000, "R", 0, 8));
    let trace = trace(&sandbox, "t", &all);
    let before = fs::read(device.backing()).unwrap();
    let words = ["replay", p(&trace), p(device.path()), "--map=fit"];
    let unchanged = || assert!(fs::read(device.backing()).unwrap() == before);
    // Without consent only the read, and no write with it when none is asked for.
    let done = sandbox.json(&words, &[0, 1]);
    assert!(done.finding("replay-left-out")["summary"].as_str().unwrap().starts_with("200 "));
    unchanged();
    let id = consent(&device);
    sandbox.json(&[&words[..], &[&id, "--reads-only"]].concat(), &[0, 1]);
    unchanged();
    let wrong = sandbox.run(&[&words[..], &["--destroy=/no/such/image"]].concat());
    assert_eq!(wrong.code, 3, "{wrong:?}");
    unchanged();
    sandbox.json(&[&words[..], &[&id]].concat(), &[0, 1]);
    let after = fs::read(device.backing()).unwrap();
    assert_eq!(changed_blocks(&before, &after), blocks);
}

fn refuses() {
    let sandbox = Sandbox::new();
    let trace = trace(&sandbox, "t", &[(0, "W", 0, 8), (10, "R", 8, 8)]);
    let mounted = MountedFs::new(FsKind::Ext4, 64 * MIB).unwrap();
    let device = mounted.device();
    let id = consent(device);
    let words = ["replay", p(&trace), p(device.path()), &id];
    let before = Snapshot::take(device.backing()).unwrap();
    // It is mounted; nothing is said of what would have been replayed.
    sandbox.run(&words).is_refusal(3, &[]);
    let device = mounted.unmount();
    // The identity of another.
    let words = ["replay", p(&trace), p(device.path()), "--destroy=sda"];
    sandbox.run(&words).is_refusal(3, &[]);
    // The superblock's time of mounting is the filesystem's own.
    assert!(before.differences(&Snapshot::take(device.backing()).unwrap()).len() < 64);
    sandbox.refuses(&["replay", p(&trace), "null:"], 2, &["has no places"]);
    let new = sandbox.dir().join("new");
    sandbox.refuses(&["replay", p(&trace), p(&new)], 2, &["--size="]);
    // No advice to make a file among the devices.
    for size in [&[][..], &["--size=1G"]] {
        let words = ["replay", p(&trace), "/dev/nosuchdevice"];
        sandbox.refuses(&[&words[..], size].concat(), 2, &["there is no such device"]);
    }
    let existing = ["replay", p(&trace), p(device.path()), "--size=1G"];
    sandbox.refuses(&existing, 2, &["--size is for a file that fathom makes"]);
    for depth in ["0", "5000"] {
        let depth = format!("--depth={depth}");
        sandbox.refuses(&["replay", p(&trace), p(device.path()), &depth], 2, &["from 1 to 1024"]);
    }
}

fn files_of_others() {
    let sandbox = Sandbox::new();
    let trace = trace(&sandbox, "t", &[(0, "W", 0, 8), (10, "R", 8, 8), (20, "R", 16, 8)]);
    let file = sandbox.dir().join("somebodys");
    pattern_write(&file, 2 * MIB, 8).unwrap();
    let before = fs::read(&file).unwrap();
    let replay = |file: &Path| {
        sandbox.json(&["replay", p(&trace), p(file), "--buffered", "--speed=max"], &[0, 1])
    };
    let left_out = |done: &crate::cli::Done| {
        done.finding("replay-left-out")["advice"][0].as_str().unwrap_or_default().to_owned()
    };
    assert!(left_out(&replay(&file)).contains("is not fathom's"));
    assert!(fs::read(&file).unwrap() == before);
    // One that fathom made and kept is written, until somebody changes it.
    let kept = sandbox.dir().join("kept");
    let make = ["run", "randwrite", p(&kept), "size=4M", "direct=no", "duration=50ms", "--keep"];
    sandbox.json(&make, &[0, 1]);
    let content = || fs::read(&kept).unwrap();
    let before = content();
    // A look changes nothing of it.
    let ctime = || std::os::unix::fs::MetadataExt::ctime_nsec(&fs::metadata(&kept).unwrap());
    let looked = ctime();
    let reads = ["replay", p(&trace), p(&kept), "--buffered", "--speed=max", "--reads-only"];
    sandbox.json(&reads, &[0, 1]);
    assert_eq!(ctime(), looked);
    replay(&kept).has_not("replay-left-out");
    assert_eq!(changed_blocks(&before, &content()), BTreeSet::from([0]));
    OpenOptions::new().append(true).open(&kept).unwrap().write_all(b"x\n").unwrap();
    let before = content();
    assert!(left_out(&replay(&kept)).contains("changed by somebody else"));
    assert!(content() == before);
}

fn maps() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 16 * MIB);
    let sectors = 64 * MIB / 512;
    let places: Vec<u64> = (0..64).map(|n| (n * 2 + 1) * 1024).chain([sectors - 8]).collect();
    let requests: Vec<Request<'_>> =
        places.iter().enumerate().map(|(n, place)| (n as u64 * 50, "W", *place, 8)).collect();
    let trace = trace(&sandbox, "t", &requests);
    let id = consent(&device);
    let words = ["replay", p(&trace), p(device.path()), "--speed=max", &id];
    let fit = sandbox.run(&[&words[..], &["--map=fit"]].concat());
    assert!(fit.code == 2 && fit.stderr.contains("use --map=scale"), "{fit:?}");
    let mut before = fs::read(device.backing()).unwrap();
    let expected = |to: fn(u64) -> u64| {
        places.iter().map(|sector| to(sector * 512) / 4096).collect::<BTreeSet<u64>>()
    };
    let modulo = expected(|byte| byte % (16 * MIB));
    let scale = expected(|byte| byte / MIB / 4 * MIB + byte % MIB);
    for (how, expected) in [("--map=modulo", modulo), ("--map=scale", scale)] {
        let done = sandbox.json(&[&words[..], &[how]].concat(), &[0, 1]);
        let after = fs::read(device.backing()).unwrap();
        assert_eq!(changed_blocks(&before, &after), expected, "{how}");
        // Places are changed on purpose, and no part of the verdict.
        let likeness = done.finding("replay-likeness")["summary"].to_string();
        assert!(likeness.contains("not compared: distance of places"), "{likeness}");
        before = after;
    }
}

fn bad_traces() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 32 * MIB);
    let good = trace(&sandbox, "good", &reads(3000, 100));
    let replay = |trace: &Path, more: &[&str], codes: &[i32]| {
        let words = [&["replay", p(trace), p(device.path()), "--speed=max"], more].concat();
        sandbox.json(&words, codes)
    };
    replay(&good, &[], &[0, 1]).has_not("capture-cut-off");
    // Lines that are none.
    let broken = sandbox.dir().join("broken");
    let lines = text(&reads(300, 100));
    fs::write(&broken, format!("{lines}8,0 0 1 x y z\nhello\n8,0 0\n")).unwrap();
    replay(&broken, &[], &[0, 1]).finding("capture-lines-skipped");
    // Times go back: there are none to replay at.
    let back = sandbox.dir().join("back");
    let later = text(&[(6_000_000, "R", 0, 8), (6_000_100, "R", 8, 8)]);
    fs::write(&back, format!("{later}{lines}")).unwrap();
    let at_times = ["replay", p(&back), p(device.path())];
    sandbox.refuses(&at_times, 2, &["time goes back"]);
    replay(&back, &[], &[1]).finding("capture-time-goes-back");
    for (name, content) in [("empty", &b""[..]), ("picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")] {
        let path = sandbox.dir().join(name);
        fs::write(&path, content).unwrap();
        let words = ["replay", p(&path), p(device.path())];
        sandbox.refuses(&words, 2, &[]);
    }
    let dir = sandbox.dir();
    sandbox.refuses(&["replay", p(&dir), p(device.path())], 2, &["is a directory"]);
    let none = sandbox.dir().join("none");
    let cure = ["there is no such file; fathom capture DEVICE makes a trace"];
    sandbox.refuses(&["replay", p(&none), p(device.path())], 2, &cure);
    sandbox.refuses(&["replay", p(&none), p(device.path()), "--twin"], 2, &cure);
    let pipe = sandbox.dir().join("pipe");
    fathom_testkit::command::run_tool("mkfifo", [&pipe]).unwrap();
    sandbox.refuses(&["replay", p(&pipe), p(device.path())], 2, &["it is a pipe"]);
    // What is known before a file is made and filled.
    let place = sandbox.dir().join("place");
    fs::create_dir(&place).unwrap();
    for (options, word) in [
        (["--size=1k", "--speed=max"], "less than one request of the trace (4 KiB)"),
        (["--size=1M", "--map=fit"], "--map=fit: the trace reaches"),
    ] {
        let words = [&["--quiet", "replay", p(&good), p(&place)], &options[..]].concat();
        let done = sandbox.refuses(&words, 2, &[word]);
        assert!(!done.stderr.contains("block_size"), "{done:?}");
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

fn loses_its_trace() {
    let sandbox = Sandbox::new();
    let memory = Mount::new("tmpfs", Path::new("none"), "size=1200M").unwrap();
    let trace = trace(&sandbox, "t", &reads(200_000, 50));
    let file = memory.dir().join("data");
    let words = ["--quiet", "replay", p(&trace), p(&file), "--size=32M", "--buffered"];
    let running = sandbox.start(&words, "progress", 1);
    let mut lost = OpenOptions::new().write(true).open(&trace).unwrap();
    let length = lost.seek(SeekFrom::End(0)).unwrap();
    lost.seek(SeekFrom::Start(100_000)).unwrap();
    lost.write_all(&vec![0; (length - 100_000) as usize]).unwrap();
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    assert_eq!(done.result()["verdict"], "void");
    done.finding("replay-incomplete");
}

fn histogram(record: &Value, of: &str) -> Histogram {
    let class = &record["capture"]["classes"][0];
    serde_json::from_value(class[of].clone()).unwrap()
}

/// Requests of a trace at its times, at twice and at half of its speed: on time, and as long as they should take.
fn on_time() {
    let sandbox = Sandbox::new();
    let memory = Mount::new("tmpfs", Path::new("none"), "size=1200M").unwrap();
    let file = memory.dir().join("data");
    let trace = trace(&sandbox, "t", &reads(5000, 400));
    for (speed, expected_ns) in [("1x", 2e9), ("2x", 1e9), ("0.5x", 4e9)] {
        let words = [
            "replay",
            p(&trace),
            p(&file),
            "--size=32M",
            "--buffered",
            &format!("--speed={speed}"),
        ];
        // The machine may be busy: a late start is tried again.
        let is_good = || {
            let record = sandbox.json(&words, &[0, 1]).records().remove(0);
            let window_ns = record["capture"]["window_ns"].as_f64().unwrap();
            let late = histogram(&record, "wait_ns");
            assert_eq!(late.count(), 5000);
            // Never early.
            assert!(window_ns >= 0.99 * expected_ns, "{speed}: {window_ns}");
            late.quantile(0.5).unwrap() < 1_000_000 && window_ns < 1.01 * expected_ns
        };
        assert!((0..5).any(|_| is_good()), "{speed}: requests start late");
    }
}

/// All at once, one at a time: each waited for all before it, and that is in its latency.
fn slow_target() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 32 * MIB);
    let trace = trace(&sandbox, "t", &reads(2000, 0));
    let words = ["replay", p(&trace), p(device.path()), "--depth=1"];
    // A device that stands still near one end makes the middle one of all an early or a late one.
    let is_seen = || {
        let record = sandbox.json(&words, &[0, 1]).records().remove(0);
        let window_ns = record["capture"]["window_ns"].as_u64().unwrap();
        let [total, service] =
            ["total_ns", "service_ns"].map(|of| histogram(&record, of).quantile(0.5).unwrap());
        println!("{total} and {service} of {window_ns}");
        total > window_ns / 3 && service < window_ns / 20
    };
    assert!((0..5).any(|_| is_seen()));
}

/// A loop device without direct I/O, whose file was written a moment ago: of 40 MiB the disk below has seen nothing, and what is written
/// stays in memory. With direct I/O all of it is the disk's.
fn from_the_page_cache() {
    let sandbox = Sandbox::new();
    let below = mounted(FsKind::Ext4, &[], "");
    let image = below.mount().backing().unwrap();
    pattern_write(&image, 32 * MIB, 5).unwrap();
    let trace = |letters: &str| {
        let requests: Vec<Request<'_>> =
            (0..10_000).map(|n| (n * 10, letters, n * 37 % 8000 * 8, 8)).collect();
        trace(&sandbox, letters, &requests)
    };
    let (reads, writes) = (trace("R"), trace("W"));
    for direct_io in [false, true] {
        let options = LoopOptions { direct_io, ..LoopOptions::default() };
        let device = LoopDevice::over(&image, &options).unwrap();
        let replay = |trace: &Path, more: &str| {
            sandbox.json(&["replay", p(trace), p(device.path()), "--speed=max", more], &[0, 1])
        };
        let told = |done: &Done, id: &str| done.findings().contains(&id.to_owned());
        let (read, written) = (replay(&reads, "--reads-only"), replay(&writes, &consent(&device)));
        assert_eq!(told(&read, "reads-not-from-device"), !direct_io, "{read:?}");
        assert_eq!(told(&written, "direct-is-buffered"), !direct_io, "{written:?}");
        for done in [&read, &written] {
            assert!(direct_io || done.code == 1, "{done:?}");
            assert!(!told(done, "other-io"), "{done:?}");
            let record = done.records().remove(0);
            assert!(!record["devices"].as_array().unwrap().is_empty(), "{record}");
        }
    }
}

/// Flushes that a device has done.
fn flushes(device: &LoopDevice) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
    stat.split_whitespace().nth(15).unwrap().parse().unwrap()
}

fn commits() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 16 * MIB);
    let requests: Vec<Request<'_>> = (0..100).map(|n| (n * 100, "FWFS", n * 8, 8)).collect();
    let trace = trace(&sandbox, "t", &requests);
    let before = flushes(&device);
    let id = consent(&device);
    let done = sandbox.json(&["replay", p(&trace), p(device.path()), "--speed=max", &id], &[0, 1]);
    assert!(flushes(&device) >= before + 200, "{} after {before}", flushes(&device));
    assert!(done.finding("replay-durable")["summary"].as_str().unwrap().starts_with("100 "));
    let class = &done.records()[0]["capture"]["classes"][0];
    assert_eq!((class["count"].as_u64(), class["durable"].as_u64()), (Some(100), Some(100)));
}

/// What the target made of sizes is compared, and not what the trace has.
fn what_was_issued() {
    let sandbox = Sandbox::new();
    let options = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let image = sandbox.scratch.join("image");
    pattern_write(&image, 32 * MIB, 5).unwrap();
    let device = LoopDevice::over(&image, &options).unwrap();
    let small: Vec<Request<'_>> = (0..500).map(|n| (n * 20, "R", n * 8, 1)).collect();
    let large: Vec<Request<'_>> = (0..120).map(|n| (n * 500, "R", n % 15 * 4096, 4096)).collect();
    let distance = |done: &crate::cli::Done| {
        let result = done.result();
        let all = result["likeness"].as_array().unwrap();
        let of_sizes = all.iter().find(|d| d["figure"] == "size of reads");
        of_sizes.and_then(|d| d["distance"].as_f64()).unwrap()
    };
    let replay = |name: &str, requests: &[Request<'_>]| {
        let trace = trace(&sandbox, name, requests);
        sandbox.json(&["replay", p(&trace), p(device.path()), "--speed=max"], &[0, 1])
    };
    let done = replay("small", &small);
    assert_eq!(distance(&done), 1.0);
    assert_eq!(done.finding("replay-likeness")["severity"], "doubtful");
    let read = &done.records()[0]["capture"]["classes"][0];
    assert_eq!(read["bytes"].as_u64(), Some(500 * 4096));
    // In two parts, of which both are compared.
    let done = replay("large", &large);
    assert_eq!(distance(&done), 0.0);
    let read = &done.records()[0]["capture"]["classes"][0];
    assert_eq!((read["count"].as_u64(), read["bytes"].as_u64()), (Some(240), Some(240 * MIB)));
    // Stored, and shown again.
    let shown = sandbox.run(&["show", &done.id()]);
    assert!(shown.stdout.contains("likeness") && shown.stdout.contains("size of reads"));
}

/// More sizes than are told one by one, each once.
fn rare_sizes() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 32 * MIB);
    let requests: Vec<Request<'_>> =
        (1..=200).map(|n| (n * 50, "R", n * 64, n as u32 * 8)).collect();
    let trace = trace(&sandbox, "t", &requests);
    let done = sandbox.json(&["replay", p(&trace), p(device.path()), "--speed=max"], &[0, 1]);
    let sizes = histogram(&done.records()[0], "all_sizes");
    assert_eq!((sizes.count(), sizes.max()), (200, Some(800 << 10)));
    let likeness = done.result()["likeness"].as_array().unwrap().clone();
    let of_sizes = likeness.iter().find(|d| d["figure"] == "size of reads").unwrap();
    assert_eq!(of_sizes["distance"], 0.0, "{of_sizes}");
}

/// Where a ring is forbidden libaio issues the same requests, commits among them, and the replay says so.
fn without_ring() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 16 * MIB);
    let requests: Vec<Request<'_>> = (0..100).map(|n| (n * 100, "FWFS", n * 8, 8)).collect();
    let trace = trace(&sandbox, "t", &requests);
    let id = consent(&device);
    let forbidden = |words: &[&str]| {
        let words = [&["--json", "--quiet", "replay", p(&trace)], words].concat();
        let done = run(|| without_io_uring(&sandbox.command(&words)));
        assert!([0, 1].contains(&done.code), "{done:?}");
        done
    };
    let (before, content) = (flushes(&device), fs::read(device.backing()).unwrap());
    let done = forbidden(&[p(device.path()), &id, "--speed=max"]);
    assert!(flushes(&device) >= before + 200, "{} after {before}", flushes(&device));
    let changed = changed_blocks(&content, &fs::read(device.backing()).unwrap());
    assert_eq!(changed, (0..100).collect());
    let finding = done.finding("replay-engine");
    assert_eq!(finding["severity"], "note", "{finding}");
    assert!(finding["summary"].as_str().unwrap().contains("libaio"), "{finding}");
    assert_eq!(histogram(&done.records()[0], "total_ns").count(), 100);
    // Buffered, each waits for the one before.
    let file = sandbox.dir().join("new");
    let done = forbidden(&[p(&file), "--size=1M", "--buffered", "--speed=max"]);
    assert_eq!(done.finding("replay-engine")["severity"], "doubtful");
    sandbox.json(&["replay", p(&trace), p(device.path()), &id], &[0, 1]).has_not("replay-engine");
}

/// Figures of a part of a trace would look like those of the whole.
fn part_of_a_trace() {
    let sandbox = Sandbox::new();
    let trace = trace(&sandbox, "t", &reads(400_000, 1000));
    let (from, twin) = (format!("--from={}", p(&trace)), sandbox.dir().join("twin.toml"));
    let workload = format!("--workload={}", p(&twin));
    let reading = sandbox.start(&["--quiet", "capture", &from, &workload], "trace_progress", 1);
    reading.signal("INT");
    let done = reading.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(done.stderr.contains("ended before all of it was read"), "{done:?}");
    assert!(!twin.exists() && !sandbox.db().exists(), "{done:?}");
}

fn stopped() {
    let sandbox = Sandbox::new();
    let trace = trace(&sandbox, "t", &reads(60_000, 1000));
    let dir = sandbox.dir().join("place");
    fs::create_dir(&dir).unwrap();
    let words = ["--quiet", "replay", p(&trace), p(&dir), "--size=32M", "--buffered"];
    let running = sandbox.start(&words, "progress", 1);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert_eq!(
        done.result()["likeness"].as_array().map(Vec::len),
        Some(0),
        "of a part there is none"
    );
    sandbox.nothing_left(&[&dir]);
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
    let killed = sandbox.start(&words, "progress", 1);
    killed.signal("KILL");
    killed.finish();
    assert!(fs::read_dir(&dir).unwrap().next().is_some(), "it had a file there");
    sandbox.json(&["run", "randread", "null:", "duration=10ms"], &[0, 1]);
    sandbox.nothing_left(&[&dir]);
}

/// What was measured is of neither size.
fn grows() {
    let sandbox = Sandbox::new();
    let device = patterned(&sandbox, 16 * MIB);
    let trace = trace(&sandbox, "t", &reads(1500, 2000));
    let words = ["--quiet", "replay", p(&trace), p(device.path()), "--map=scale"];
    let replay = sandbox.start(&words, "progress", 1);
    failures::truncate(device.backing(), 32 * MIB);
    run_tool("losetup", ["--set-capacity", p(device.path())]).unwrap();
    let done = replay.finish();
    assert_eq!(done.code, 1, "{done:?}");
    let changed = done.finding("setting-changed");
    assert_eq!(changed["severity"], "void", "{changed}");
    let told = changed["summary"].as_str().unwrap();
    assert!(told.contains("loop.size_bytes 16 MiB -> 32 MiB"), "{told}");
}

/// The second half of the device fails.
fn failing() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Pattern(1), &failures::direct()).unwrap();
    failures::truncate(device.backing(), 8 * MIB);
    let requests: Vec<Request<'_>> = (0..200).map(|n| (n * 50, "R", n * 160, 8)).collect();
    let trace = trace(&sandbox, "t", &requests);
    let done =
        sandbox.run(&["--json", "--quiet", "replay", p(&trace), p(device.path()), "--map=fit"]);
    failures::failed(&sandbox, &done, "read", failures::EIO, p(device.path()));
    sandbox.nothing_left(&[]);
}

/// A trace of fathom's own of so many reads of 4 KiB all over 64 MiB, eight in flight, 20 us apart.
fn written(sandbox: &Sandbox, count: u64) -> PathBuf {
    let path = sandbox.dir().join(format!("of-{count}"));
    let head = Head { device: "sda".into(), size_bytes: 64 * MIB, ..Head::default() };
    let mut names = Names::default();
    let name = names.number_of("worker");
    let mut writer = Writer::new(fs::File::create(&path).unwrap(), &head).unwrap();
    let mut push = |action, time_ns, number: u64| {
        let (sector, class) = (number * 7919 % (64 * MIB / 4096) * 8, Class::Read);
        let event = Event { sector, sectors: 8, class, name, ..Event::new(action, time_ns) };
        writer.push(&event, &names).unwrap();
    };
    for number in 0..count {
        push(Action::Queue, number * 20_000, number);
        if let Some(ended) = number.checked_sub(8) {
            push(Action::Complete, number * 20_000 + 10, ended);
        }
    }
    writer.finish(&names).unwrap();
    path
}

/// The largest memory that a command ever had, in KiB, as its process tells while it runs.
fn largest_kib(sandbox: &Sandbox, words: &[&str]) -> u64 {
    loop {
        let mut command = sandbox.command(&[&["--json", "--quiet"], words].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running::of(child);
        let status = format!("/proc/{}/status", running.pid());
        let mut largest = 0;
        while !running.is_over() {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            largest = largest.max(kib.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(1));
        }
        let done = running.finish();
        if !done.is_locked_out() {
            assert!(done.code <= 1, "{words:?}: {done:?}");
            return largest;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Four times as many events, and no more memory, whether the trace is characterised or replayed. Kept, the others would have 30 MB.
fn long_trace() {
    // What is kept of places, depths and time has its most by then, or nearly.
    const FEW: u64 = 120_000;
    const MANY: u64 = FEW + 360_000;
    let sandbox = Sandbox::new();
    let memory = Mount::new("tmpfs", Path::new("none"), "size=1200M").unwrap();
    let file = memory.dir().join("data");
    let (short, long) = (written(&sandbox, FEW), written(&sandbox, MANY));
    let more = ["--size=64M", "--buffered", "--speed=max", "--depth=32"];
    let replay = |trace: &Path| {
        let words = [&["replay", p(trace), p(&file)], &more[..]].concat();
        let kib = largest_kib(&sandbox, &words);
        let done = sandbox.runs();
        assert_eq!(done[0]["state"], "complete", "{}", done[0]);
        kib
    };
    let characterise = |trace: &Path| largest_kib(&sandbox, &["capture", "--from", p(trace)]);
    for (what, of) in [("replayed", &replay as &dyn Fn(&Path) -> u64), ("read", &characterise)] {
        let (least, most) = (of(&short), of(&long));
        println!("{what}: {least} KiB for {FEW} requests, {most} KiB for {MANY}");
        assert!(least > 1000, "{what}: its memory was never seen");
        assert!(most < least + 6 * 1024, "{what}: {least} KiB, then {most} KiB");
    }
}
