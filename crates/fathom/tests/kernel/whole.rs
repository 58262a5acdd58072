//! The main job: `fathom quick` from the first line to the stored run; the well-known forms of `run`.

use crate::cli::{GIB, MIB, Sandbox, bytes, operations, p, run};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices};
use fathom_testkit::{
    Content, FsKind, Judged, LoopDevice, LoopOptions, MountedFs, Trial, is_soak, kernel_test,
};
use serde_json::Value;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("quick", &[FathomBinary, FsOnLoop(FsKind::Ext4)], quick),
        kernel_test("quick_as_asked", &[FathomBinary, FsOnLoop(FsKind::Ext4)], quick_as_asked),
        kernel_test("several_jobs_and_targets", &[FathomBinary], several_jobs),
        kernel_test("odd_names_and_relative_paths", &[FathomBinary], odd_names),
        kernel_test("odd_sizes_and_full_logs", &[FathomBinary], odd_sizes),
        kernel_test("null_beside_a_real_job", &[FathomBinary], null_beside_real),
        kernel_test("one_measurement_at_a_time", &[FathomBinary], one_at_a_time),
        kernel_test("classic_randomio", &[FathomBinary], classic_randomio),
        kernel_test("classic_seeker", &[FathomBinary], classic_seeker),
        kernel_test("classic_sdd", &[FathomBinary], classic_sdd),
        kernel_test("classic_dd", &[FathomBinary], classic_dd),
        kernel_test("records_longer_than_one_call_moves", &[FathomBinary], long_records),
        kernel_test("every_size_is_moved_whole", &[FathomBinary, LoopDevices], sizes),
        kernel_test("up_to_two_thousand_threads", &[FathomBinary], numbers_of_threads),
        kernel_test("the_whole_command_beside_its_window", &[FathomBinary], whole_command),
    ]
}

const ROWS: [&str; 6] = [
    "sequential read",
    "sequential write",
    "random read, 1 in flight",
    "random read, ",
    "mixed (20 % writes)",
    "commit (append + fdatasync)",
];

fn quick() -> Judged {
    let sandbox = Sandbox::new();
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(3 * GIB, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &[], "").unwrap();
    fs::write(fs.dir().join("theirs"), "somebody's").unwrap();
    let began = Instant::now();
    let done = run(|| {
        let mut command = sandbox.command(&["quick", p(fs.dir()), "--time=30s", "--label=it"]);
        command.current_dir(sandbox.scratch.path());
        command
    });
    let took_s = began.elapsed().as_secs_f64();
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert!((25.0..300.0).contains(&took_s), "asked for 30 s, took {took_s:.0} s");
    let text = &done.stdout;
    let first = text.lines().next().unwrap();
    for word in [p(fs.dir()), "ext4", &fs.device().name()] {
        assert!(first.contains(word), "the stack comes first: {first}");
    }
    for row in ROWS {
        let line = text.lines().find(|line| line.starts_with(row));
        let line = line.unwrap_or_else(|| panic!("no row '{row}' in\n{text}"));
        assert!(line.split_whitespace().any(|word| word.ends_with('s')), "latencies: {line}");
    }
    let marks = ["where throughput stops growing", "still growing"];
    let knee = text.lines().find(|line| marks.iter().any(|mark| line.contains(mark)));
    assert!(knee.is_some_and(|line| line.starts_with("random read, ")), "{text}");
    let verdict =
        ["TRUSTED", "DOUBTFUL", "VOID"].iter().any(|v| text.lines().any(|l| l.starts_with(v)));
    assert!(verdict && text.contains("Stored as"), "{text}");
    // The report lies where it was begun, and is named.
    let (_, html) = text.split_once("(HTML: ").unwrap_or_else(|| panic!("{text}"));
    let html = sandbox.scratch.join(html.split(')').next().unwrap());
    assert!(fs::read_to_string(html).unwrap().starts_with("<!doctype html>"));
    assert!(done.stderr.contains("Test file") && done.stderr.contains("About"), "{done:?}");
    let last = done.stderr.lines().rfind(|line| line.starts_with('[')).unwrap();
    let (number, count) = last[1..].split_once(']').unwrap().0.split_once('/').unwrap();
    assert!(number == count && last.contains("commit"), "the last row is the last: {last}");

    let runs = sandbox.runs();
    assert_eq!((runs.len(), &runs[0]["kind"]), (1, &"quick".into()));
    assert_eq!((&runs[0]["state"], &runs[0]["label"]), (&"complete".into(), &"it".into()));
    let shown = sandbox.json(&["show", runs[0]["id"].as_str().unwrap()], &[0]);
    let records = shown.records();
    assert!(records.len() >= ROWS.len(), "{}", records.len());
    assert!(records.iter().all(|r| r["ending"] == "complete" && operations(r) > 0));
    assert!(shown.findings().contains(&"short-windows".to_owned()), "indicative: said");
    let mut is_trusted = judged_by_the_disk_alone(&shown.result(), text);
    let file = &records[0]["targets"][0];
    let size_bytes = file["size_bytes"].as_u64().unwrap();
    // As much as a slow disk writes in a part of the time.
    assert!((16 * MIB..2 * GIB).contains(&size_bytes), "{size_bytes}");
    assert_eq!(file["extents"]["hole_bytes"].as_u64(), Some(0), "really written");
    assert_eq!(file["extents"]["unwritten_bytes"].as_u64(), Some(0), "really written");
    sandbox.nothing_left(&[fs.dir()]);
    let mut names = crate::cli::names(fs.dir());
    names.sort();
    assert_eq!(names, ["lost+found", "theirs"]);
    for _ in 0..2 {
        if is_trusted {
            return Judged::Passed;
        }
        let again = sandbox.json(&["quick", p(fs.dir()), "--time=30s"], &[0, 1]);
        is_trusted =
            judged_by_the_disk_alone(&again.result(), again.result()["verdict"].as_str().unwrap());
    }
    if is_trusted {
        Judged::Passed
    } else {
        Judged::Skipped(
            "others disturbed all three runs: whether a quiet one is trusted was not judged".into(),
        )
    }
}

/// What others do to the machine may make it doubtful. Short rows, a small span and what quick itself chose may not: without
/// the others it is trusted. True when it was.
fn judged_by_the_disk_alone(result: &Value, text: &str) -> bool {
    let findings = result["findings"].as_array().unwrap();
    let of_others = [
        "not-steady",
        "other-io",
        "stolen-time",
        "held-up",
        "generator-bound",
        "waiting-above-device",
    ];
    let not_notes = findings.iter().filter(|finding| finding["severity"] != "note");
    let is_of_others = |finding: &&Value| of_others.contains(&finding["id"].as_str().unwrap());
    let (others, own): (Vec<&Value>, Vec<&Value>) = not_notes.partition(is_of_others);
    assert!(own.is_empty(), "{own:#?}");
    let is_trusted = text.to_uppercase().lines().any(|line| line.starts_with("TRUSTED"));
    assert_eq!(is_trusted, others.is_empty(), "{others:#?} in\n{text}");
    is_trusted
}

/// Settings reach the rows that they are for, and the whole free space is covered.
fn quick_as_asked() {
    let sandbox = Sandbox::new();
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(3 * GIB / 2, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &[], "").unwrap();
    let asked = ["block_size=16k", "threads=6", "write_fraction=0.5", "--span=full", "--time=30s"];
    let done = sandbox.json(&[&["quick", p(fs.dir())], &asked[..]].concat(), &[0, 1]);
    let records = done.records();
    let is_16k = |job: &Value| {
        let sizes = job["block_size"].as_array().unwrap();
        sizes.len() == 1 && sizes[0]["size_bytes"] == 16 << 10
    };
    let job = |record: &Value| record["workload"]["jobs"][0].clone();
    let in_flight = |job: &Value| job["threads"].as_u64().unwrap() * job["depth"].as_u64().unwrap();
    for record in &records {
        let (label, job) = (record["label"].as_str().unwrap(), job(record));
        match label.split([',', ' ']).next().unwrap() {
            "random" => assert!(is_16k(&job), "{label}"),
            "mixed" => {
                assert_eq!(label, "mixed (50 % writes), 6");
                assert_eq!((is_16k(&job), in_flight(&job)), (true, 6));
                assert_eq!(job["write_fraction"], 0.5);
                let [reads, writes] = [&["read"][..], &["write", "synced_write"]].map(|names| {
                    let classes = record["jobs"][0]["classes"].as_array().unwrap().iter();
                    let named = classes.filter(|c| names.contains(&c["class"].as_str().unwrap()));
                    named.map(|c| c["latency_ns"]["count"].as_f64().unwrap()).sum::<f64>()
                });
                assert!((0.8..1.25).contains(&(reads / writes)), "{reads} reads, {writes} writes");
            }
            _ => assert!(!is_16k(&job), "{label} is not shaped"),
        }
    }
    // An eighth is for the log; of the rest the file has all but the reserve.
    let size_bytes = records[0]["targets"][0]["size_bytes"].as_u64().unwrap();
    assert!(size_bytes > 300 * MIB, "{size_bytes}");
    let first = records.iter().find(|r| r["label"] == "random read, 1 in flight");
    assert_eq!(first.map(|r| in_flight(&job(r))), Some(1));
    sandbox.nothing_left(&[fs.dir()]);
}

/// Data and log side by side, and a third job somewhere else.
fn odd_sizes() {
    let sandbox = Sandbox::new();
    let (dir, odd) = (sandbox.dir(), sandbox.scratch.join("odd"));
    fs::write(&odd, vec![0x5A; 1_000_001]).unwrap();
    let read = sandbox.json(&["run", "seqread", p(&odd), "block_size=4k"], &[0, 1]);
    let reached = bytes(&read.records()[0]);
    assert!((1_000_001 - 4096..=1_000_001).contains(&reached), "as far as blocks reach: {reached}");
    sandbox.refuses(&["run", "seqread", p(&odd), "amount=100001"], 2, &["amount=", "multiple"]);
    // A log that is full ends the run and does not begin to overwrite itself.
    let log = sandbox.json(&["run", "commit", p(&dir), "size=64k", "duration=30s"], &[0, 1]);
    assert_eq!(bytes(&log.records()[0]), 64 << 10);
    log.finding("log-full");
    // An amount that the target does not have is said, and one that it has is not.
    let dd = ["run", "dd", p(&dir), "size=1M", "block_size=64k"];
    let short = sandbox.json(&[&dd[..], &["amount=100G"]].concat(), &[0, 1]);
    short.finding("short-of-amount");
    let read = ["run", "seqread", p(&dir), "size=1M"];
    let early = sandbox.json(&[&read[..], &["duration=5m", "amount=10G"]].concat(), &[0, 1]);
    let text = early.finding("short-of-amount")["summary"].to_string();
    assert!(
        text.contains("ended after 1 MiB of amount=10 GiB, before its duration of 5 min"),
        "{text}"
    );
    lasts_as_long_as_asked(&sandbox, &dir);
    // A number of requests is reached, over the same place again if need be.
    for workload in ["seqread", "seqwrite", "dd", "sdd"] {
        let many = ["run", workload, p(&dir), "size=1M", "block_size=4k", "operations=1000"];
        let done = sandbox.json(&many, &[0, 1]);
        assert_eq!(operations(&done.records()[0]), 1000, "{workload}");
    }
    for own in [&[&dd[..], &["amount=512k"]].concat(), &["run", "seqread", p(&dir), "size=1M"][..]]
    {
        let enough = sandbox.json(own, &[0, 1]);
        let findings = enough.findings();
        assert!(!findings.contains(&"short-of-amount".to_owned()), "{own:?}: {findings:?}");
    }
    sandbox.nothing_left(&[]);
}

/// A time that was asked for is used up, whatever the amount of the workload itself: over a smaller target again, and beyond the
/// amount on a larger one.
fn lasts_as_long_as_asked(sandbox: &Sandbox, dir: &Path) {
    let lasts = |args: &[&str], more_than_bytes: u64| {
        let done = sandbox.json(args, &[0, 1]);
        let record = &done.records()[0];
        assert!(bytes(record) > more_than_bytes, "{args:?}: {} bytes", bytes(record));
        let window_ns = record["window_ns"].as_u64().unwrap();
        assert!(window_ns >= 300_000_000, "{args:?}: {window_ns} ns");
        assert!(!done.findings().contains(&"short-of-amount".to_owned()), "{args:?}");
    };
    for workload in ["seqread", "seqwrite", "dd", "sdd"] {
        let small = ["run", workload, p(dir), "size=1M", "block_size=64k", "duration=300ms"];
        lasts(&small, 1 << 20);
        let large = ["run", workload, "null:", "block_size=16M", "duration=300ms"];
        // What is written takes time to be made, unless it is nothing but zeros.
        let zeros: &[&str] = if workload == "seqwrite" { &["content=zero"] } else { &[] };
        lasts(&[&large, zeros].concat(), 10 << 30);
    }
    // A pass begins while the one before is in flight; what is lost afterwards is found.
    let file = dir.join("again");
    let again =
        ["run", "seqwrite", p(&file), "size=1M", "duration=300ms", "verify=after", "--keep"];
    lasts(&again, 1 << 20);
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.write_all_at(&vec![0x5A; 1 << 20], 0).unwrap();
    let told = sandbox.run(&["verify", p(&file)]);
    assert!(told.code == 5 && told.stdout.contains("WRONG"), "{told:?}");
    fs::remove_file(&file).unwrap();
}

fn null_beside_real() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("two.toml");
    let text = "name = 'two'
        [[job]]
        name = 'nothing'
        engine = 'null'
        operations = 100
        [[job]]
        name = 'real'
        size = '16M'
        operations = 100";
    fs::write(&file, text).unwrap();
    let done = sandbox.json(&["run", p(&file), p(&sandbox.dir())], &[0, 1]);
    let record = done.records().remove(0);
    let kinds: Vec<_> =
        record["jobs"].as_array().unwrap().iter().map(|j| &j["engine"]["kind"]).collect();
    assert_eq!(kinds, ["null", "io_uring"]);
    sandbox.nothing_left(&[]);
}

fn several_jobs() {
    let sandbox = Sandbox::new();
    let (dir, other) = (sandbox.dir(), sandbox.scratch.join("other"));
    fs::create_dir(&other).unwrap();
    let file = sandbox.scratch.join("mix.toml");
    let text = "name = 'mix'
        [[job]]
        name = 'data'
        size = '16M'
        write_fraction = 0.5
        duration = '1s'
        [[job]]
        name = 'log'
        access = 'append'
        direct = 'no'
        write_fraction = 1
        fsync_every = 1
        size = '16M'
        duration = '1s'
        [[job]]
        name = 'far'
        size = '8M'
        threads = 2
        duration = '1s'";
    fs::write(&file, text).unwrap();
    let far = format!("far.target={}", other.display());
    let done = sandbox.json(&["run", p(&file), p(&dir), &far, "log.block_size=8k"], &[0, 1]);
    let record = done.records().remove(0);
    let jobs = record["jobs"].as_array().unwrap();
    let names: Vec<_> = jobs.iter().map(|job| job["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["data", "log", "far"]);
    for job in jobs {
        assert!(job["classes"][0]["latency_ns"]["count"].as_u64() > Some(10), "{}", job["name"]);
    }
    assert_eq!(record["targets"].as_array().unwrap().len(), 3, "a file each");
    let log = jobs[1]["classes"].as_array().unwrap();
    let commits = log.iter().find(|class| class["class"] == "commit").unwrap();
    let count = commits["latency_ns"]["count"].as_u64().unwrap();
    assert!(count > 10, "each append and its sync are one commit");
    sandbox.nothing_left(&[&other]);
}

fn odd_names() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir().join("a b'c \u{fc}");
    fs::create_dir(&dir).unwrap();
    let args = ["--json", "--quiet", "run", "randread", ".", "size=4M", "operations=50"];
    let relative = || {
        let mut command = sandbox.command(&args);
        command.current_dir(&dir);
        command
    };
    let done = run(relative);
    assert!([0, 1].contains(&done.code), "{done:?}");
    let mut new = args;
    new[4] = "n e w";
    let done = run(|| {
        let mut command = sandbox.command(&new);
        command.current_dir(&dir);
        command
    });
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert!(crate::cli::names(&dir).is_empty());
    let done = sandbox.json(&["run", "randread", p(&dir), "size=4M", "operations=50"], &[0, 1]);
    let shown = sandbox.json(&["show", &done.id()], &[0]);
    let command = shown.result()["head"]["command"].as_str().unwrap().to_owned();
    assert!(command.contains(r"a b'\''c"), "as a shell takes it: {command}");
    sandbox.nothing_left(&[&dir]);
    let not_unicode = sandbox.scratch.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    std::fs::create_dir(&not_unicode).unwrap();
    let done = run(|| {
        let mut command = sandbox.command(&["run", "randread"]);
        command.arg(&not_unicode);
        command
    });
    done.is_refusal(2, &["not UTF-8", "mount --bind $'", r"/\377\376' /mnt"]);
}

fn one_at_a_time() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let running =
        sandbox.start(&["run", "randread", p(&dir), "size=8M", "duration=10m"], "progress", 1);
    let second = Sandbox::new();
    let output = second.command(&["run", "randread", "null:", "duration=1s"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    for word in ["another measurement is running", &running.pid().to_string(), "run randread"] {
        assert!(text.contains(word), "'{word}' is not in {text}");
    }
    assert!(output.stdout.is_empty());
    // Looking is always possible.
    assert_eq!(sandbox.runs()[0]["state"], "running");
    let doctor = sandbox.json(&["doctor"], &[0]);
    let checks = doctor.result()["checks"].clone();
    let lock = checks.as_array().unwrap().iter().find(|c| c["what"] == "measuring lock").unwrap();
    assert!(
        lock["works"] == false && lock["detail"].as_str().unwrap().contains("another"),
        "{lock}"
    );
    running.signal("INT");
    assert_eq!(running.finish().code, 130);
    assert!(!second.db().exists() || second.runs().is_empty());
}

/// The text of a classic run and the record behind it.
fn classic(sandbox: &Sandbox, args: &[&str]) -> (Vec<String>, serde_json::Value) {
    let done = sandbox.run(&[&["run"], args, &["--style=classic", "--quiet"]].concat());
    assert!([0, 1].contains(&done.code) && done.stderr.is_empty(), "{done:?}");
    let stored = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    let record = sandbox.json(&["show", &stored], &[0]).records().remove(0);
    let shown = sandbox.run(&["show", &stored, "--style=classic"]);
    let lines: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
    assert!(shown.stdout.contains(&lines[0]), "{}", shown.stdout);
    (lines, record)
}

fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|c: char| c == '|' || c.is_whitespace());
    words.filter(|word| !word.is_empty()).map(|word| word.parse().unwrap()).collect()
}

fn classic_randomio() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["randomio", p(&dir), "size=8M", "duration=1s", "threads=2"];
    let (lines, record) = classic(&sandbox, &args);
    assert_eq!(
        lines[0],
        "  total |  read:         latency (ms)       |  write:        latency (ms)"
    );
    assert_eq!(
        lines[1],
        "   iops |   iops   min    avg    max   sdev |   iops   min    avg    max   sdev"
    );
    assert_eq!(
        lines[2],
        "--------+-----------------------------------+----------------------------------"
    );
    let row = numbers(&lines[3]);
    assert_eq!(row.len(), 11, "{}", lines[3]);
    assert!((row[0] - row[1] - row[6]).abs() < 0.2, "reads and writes are the total: {row:?}");
    for side in [&row[1..6], &row[6..11]] {
        assert!(side[1] <= side[2] && side[2] <= side[3], "min <= avg <= max: {side:?}");
    }
    let seconds = record["window_ns"].as_f64().unwrap() / 1e9;
    let total = operations(&record) as f64 / seconds;
    assert!((row[0] - total).abs() < 0.06 + 0.001 * total, "{} of {total}", row[0]);
    // Five deviations of what a fifth of so many comes to.
    let (count, writes) = (row[0] * seconds, row[6] * seconds);
    let deviation = (0.2 * 0.8 * count).sqrt();
    assert!((writes - 0.2 * count).abs() < 1.0 + 5.0 * deviation, "{writes} of {count} write");
}

fn classic_seeker() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let (lines, record) = classic(&sandbox, &["seeker", p(&dir), "size=8M", "duration=1s"]);
    let rest = lines[0].strip_prefix("Results: ").unwrap();
    let (seeks, rest) = rest.split_once(" seeks/second, ").unwrap();
    let (ms, end) = rest.split_once(' ').unwrap();
    assert_eq!(end, "ms random access time");
    let (seeks, ms): (f64, f64) = (seeks.parse().unwrap(), ms.parse().unwrap());
    let seconds = record["window_ns"].as_f64().unwrap() / 1e9;
    let count = operations(&record) as f64;
    assert!((1000.0 * seconds / count - ms).abs() < 0.006, "{count} in {seconds} s, {ms} ms");
    assert_eq!(seeks, (count / seconds).floor());
    assert_eq!(record["jobs"][0]["engine"]["threads"].as_u64(), Some(1));
    // Of several threads it is the time of one, not that divided by all.
    let args = ["seeker", p(&dir), "size=8M", "duration=1s", "threads=4"];
    let (lines, record) = classic(&sandbox, &args);
    let (_, ms) = lines[0].split_once(" seeks/second (4 at a time), ").unwrap();
    let ms: f64 = ms.strip_suffix(" ms random access time").unwrap().parse().unwrap();
    let window_ms = record["window_ns"].as_f64().unwrap() / 1e6;
    let count = operations(&record) as f64;
    assert!((4.0 * window_ms / count - ms).abs() < 0.006, "{count} in {window_ms} ms, {ms} ms");
}

fn classic_sdd() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let (lines, record) = classic(&sandbox, &["seqread", p(&dir), "size=64M", "amount=64M"]);
    assert_eq!(bytes(&record), 64 * MIB);
    let moved = "64 records + 0 bytes (total of 67108864 bytes = 65536.00k).";
    assert_eq!(lines[0], format!("Read  {moved}"));
    assert_eq!(lines[1], "Wrote 0 records + 0 bytes (total of 0 bytes = 0.00k).");
    let rest = lines[2].strip_prefix("Total time ").unwrap();
    let (seconds, rest) = rest.split_once("sec (").unwrap();
    let rate: f64 = rest.strip_suffix(" kBytes/sec)").unwrap().parse().unwrap();
    assert_eq!(seconds.split_once('.').unwrap().1.len(), 3, "{}", lines[2]);
    let seconds: f64 = seconds.parse().unwrap();
    assert_eq!(rate, (65536.0 / seconds).floor(), "{}", lines[2]);
    // A position in percent, as sdd users give it.
    let tail = ["seqread", p(&dir), "size=64M", "offset=75%", "amount=8M"];
    let (_, record) = classic(&sandbox, &tail);
    let slowest = record["jobs"][0]["slowest"].as_array().unwrap();
    assert!(slowest.iter().all(|op| op["offset_bytes"].as_u64() >= Some(48 * MIB)));
}

/// As many bytes as asked for, in the lines and on the disk.
fn classic_dd() {
    let sandbox = Sandbox::new();
    for (number, (settings, records, amount, shown)) in [
        (&["amount=8M"][..], "8+0", 8 * MIB, "8388608 bytes (8.4 MB, 8.0 MiB) copied, "),
        (
            &["amount=7M", "block_size=2M"],
            "3+1",
            7 * MIB,
            "7340032 bytes (7.3 MB, 7.0 MiB) copied, ",
        ),
        (
            &["amount=5000000", "direct=no", "content=zero"],
            "4+1",
            5_000_000,
            "5000000 bytes (5.0 MB, 4.8 MiB) copied, ",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let file = sandbox.dir().join(format!("new{number}"));
        let args = [&["seqwrite", p(&file), "size=8M", "--keep"], settings].concat();
        let (lines, record) = classic(&sandbox, &args);
        assert_eq!(lines[0], format!("{records} records in"));
        assert_eq!(lines[1], format!("{records} records out"));
        let (seconds, rate) = lines[2].strip_prefix(shown).unwrap().split_once(" s, ").unwrap();
        let seconds: f64 = seconds.parse().unwrap();
        assert!(rate.ends_with("MB/s") || rate.ends_with("GB/s"), "{rate}");
        assert_eq!(bytes(&record), amount);
        let window_s = record["window_ns"].as_f64().unwrap() / 1e9;
        assert!((seconds / window_s - 1.0).abs() < 1e-4, "{seconds} of {window_s}");
        assert!(record["jobs"][0]["final_sync_ns"].as_u64() > Some(0), "inside the time");
        assert_eq!(fs::metadata(&file).unwrap().len(), amount);
        let is_zero = fs::read(&file).unwrap().iter().all(|byte| *byte == 0);
        assert_eq!(is_zero, settings.contains(&"content=zero"));
    }
}

/// A record of 8 GiB is what one call moves of it, 0x7ffff000 bytes; in a soak really read from a file, which takes as much memory.
fn long_records() {
    const MOVED: u64 = 0x7fff_f000;
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("holes");
    fs::File::create(&file).unwrap().set_len(2 * MOVED).unwrap();
    let target = if is_soak() { p(&file) } else { "null:" };
    let args = ["dd", target, "record_size=8G", "operations=2", "write_fraction=0"];
    let (lines, record) = classic(&sandbox, &[&args[..], &["sync_at_end=none"]].concat());
    assert_eq!(lines[0], "0+2 records in");
    assert_eq!(lines[1], "0+2 records out");
    assert!(lines[2].starts_with("4294959104 bytes (4.3 GB, 4.0 GiB) copied, "), "{}", lines[2]);
    assert_eq!((operations(&record), bytes(&record)), (2, 2 * MOVED));
}

/// From a sector to one and a half stripes of ten disks, on a device.
fn sizes() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    for (size, size_bytes) in [
        ("512", 512),
        ("32k", 32 << 10),
        ("64k", 64 << 10),
        ("128k", 128 << 10),
        ("640k", 640 << 10),
        ("1M", MIB),
    ] {
        let size = format!("block_size={size}");
        let args = ["run", "randomio", p(device.path()), &id, &size, "operations=200"];
        let record = sandbox.json(&args, &[0, 1]).records().remove(0);
        assert_eq!((operations(&record), bytes(&record)), (200, 200 * size_bytes), "{size}");
    }
}

fn numbers_of_threads() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for threads in [1, 8, 244, 2048] {
        let (number, requests) =
            (format!("threads={threads}"), format!("operations={}", threads * 5));
        let args = ["run", "randomio", p(&dir), "size=8M", &number, &requests];
        let record = sandbox.json(&args, &[0, 1]).records().remove(0);
        assert_eq!(operations(&record), threads * 5);
        let shares = record["jobs"][0]["thread_operations"].as_array().unwrap();
        assert_eq!(shares.len() as u64, threads);
        assert!(shares.iter().all(|share| share.as_u64() == Some(5)), "{shares:?}");
    }
}

/// The time of the whole command, which is more than what was measured, and what that was.
fn whole_command() {
    let sandbox = Sandbox::new();
    let args = ["run", "randread", "null:", "duration=300ms", "warmup=700ms"];
    let begun = Instant::now();
    let done = sandbox.run(&args);
    let took_ms = begun.elapsed().as_secs_f64() * 1e3;
    let (_, line) = done.stdout.split_once("Whole command ").unwrap();
    let (whole, rest) = line.split_once(", of it measured ").unwrap();
    let measured = rest.split_once(" ms.").unwrap().0;
    let ms = |text: &str| -> f64 {
        let (number, unit) = text.split_once(' ').unwrap_or((text, "ms"));
        number.parse::<f64>().unwrap() * if unit == "s" { 1e3 } else { 1.0 }
    };
    assert!((300.0..400.0).contains(&ms(measured)), "{line}");
    // Rounded to a tenth of a second.
    assert!((1000.0..took_ms + 60.0).contains(&ms(whole)), "{line} {took_ms} ms");
}
