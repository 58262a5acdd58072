//! Every engine on real devices: what it does, what it refuses before anything is measured, and how it fails.

use crate::classics_peers::traced_calls;
use crate::cli::{Done, MIB, Sandbox, operations, p};
use fathom_testkit::Capability::{FathomBinary, IoUring, LoopDevices, Tool};
use fathom_testkit::{Content, LoopDevice, LoopOptions, Trial, kernel_test, loopdev};
use serde_json::Value;
use std::fs::OpenOptions;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let device = [FathomBinary, LoopDevices];
    vec![
        kernel_test("engines_count_the_same", &device, count_the_same),
        kernel_test("engines_write_what_they_say", &device, write_what_they_say),
        kernel_test("synchronous_writes_flush_the_device", &device, synchronous_writes),
        kernel_test(
            "sync_file_range_is_of_what_was_written",
            &[FathomBinary, Tool("strace")],
            written_back,
        ),
        kernel_test("engine_contradictions", &[FathomBinary], contradictions),
        kernel_test(
            "a_device_that_cannot_be_polled",
            &[FathomBinary, LoopDevices, IoUring],
            not_polled,
        ),
        kernel_test("engines_see_failing_reads", &device, reads_fail),
        kernel_test("a_mapped_file_that_becomes_shorter", &[FathomBinary], mapped_file_shrinks),
        kernel_test("buffered_libaio_is_called_synchronous", &[FathomBinary], synchronous),
        kernel_test("a_submitting_thread_counts", &[FathomBinary, IoUring], submitting_thread),
        kernel_test("no_place_for_asynchronous_requests", &[FathomBinary, Tool("sh")], no_place),
    ]
}

/// Ways to run, and a word of the features that each must show.
const WAYS: [(&[&str], &str); 7] = [
    (&["engine=io_uring", "depth=16"], "registered_buffers"),
    (&["engine=io_uring", "depth=16", "batch_submit=4"], "batch_submit=4"),
    (&["engine=io_uring", "depth=16", "registered=no"], "single_issuer"),
    (&["engine=io_uring", "depth=16", "sqpoll=yes"], "sqpoll"),
    (&["engine=libaio", "depth=16", "batch_submit=4"], "asynchronous: "),
    (&["engine=psync", "depth=1"], ""),
    (&["engine=mmap", "depth=1", "direct=no"], "fdatasync_is_msync"),
];

fn device() -> LoopDevice {
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    LoopDevice::with(16 * MIB, Content::Pattern(3), &options).unwrap()
}

fn features(record: &Value) -> Vec<String> {
    let features = record["jobs"][0]["engine"]["features"].as_array().unwrap();
    features.iter().map(|f| f.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn ran(sandbox: &Sandbox, args: &[&str], way: &[&str], word: &str) -> Value {
    let record = sandbox.json(&[args, way].concat(), &[0, 1]).records().remove(0);
    let engine = way[0].strip_prefix("engine=").unwrap();
    assert_eq!(record["jobs"][0]["engine"]["kind"], engine, "{way:?}");
    let features = features(&record);
    assert!(word.is_empty() || features.iter().any(|f| f.starts_with(word)), "{features:?}");
    record
}

fn count_the_same() {
    let device = device();
    let sandbox = Sandbox::new();
    for (way, word) in WAYS {
        let record =
            ran(&sandbox, &["run", "randread", p(device.path()), "operations=2000"], way, word);
        assert_eq!(operations(&record), 2000, "{way:?}");
    }
}

/// One pass of writes over a device by each engine leaves different content on every block.
fn write_what_they_say() {
    for (way, word) in WAYS {
        let device = device();
        let sandbox = Sandbox::new();
        let destroy = format!("--destroy={}", device.backing().display());
        let args = ["run", "seqwrite", p(device.path()), "block_size=64k", "amount=16M", &destroy];
        let record = ran(&sandbox, &args, way, word);
        assert_eq!(operations(&record), 256, "{way:?}");
        let content = std::fs::read(device.path()).unwrap();
        let blocks: std::collections::BTreeSet<&[u8]> = content.chunks(4096).collect();
        assert_eq!(blocks.len(), 4096, "{way:?}: no two blocks alike");
        assert!(record["jobs"][0]["final_sync_ns"].as_u64().unwrap() > 0, "{way:?}");
    }
}

fn contradictions() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for (settings, words) in [
        (&["engine=mmap", "depth=1"][..], &["engine=mmap", "use direct=no"][..]),
        (&["engine=mmap", "direct=no", "depth=4"], &["depth=4", "threads=4"]),
        (&["engine=libaio", "depth=8", "direct=no"], &["depth=8", "engine=libaio", "direct=yes"]),
        (&["engine=libaio", "sqpoll=yes"], &["sqpoll=yes", "engine=libaio", "engine=io_uring"]),
        (&["engine=psync", "depth=1", "batch_submit=1"], &["batch_submit=1", "psync"]),
        (&["polled=yes", "direct=no"], &["polled=yes", "direct=yes"]),
        (&["depth=8", "batch_submit=9"], &["batch_submit=9", "depth=8"]),
        (&["engine=libayo"], &["did you mean 'libaio'?"]),
    ] {
        sandbox.refuses(&[&["run", "randread", p(&dir)], settings].concat(), 2, words);
    }
    let words = ["a mapping cannot make a file longer", "engine=psync"];
    let append = ["run", "commit", p(&dir), "engine=mmap", "direct=no"];
    sandbox.refuses(&append, 2, &words);
}

/// A loop device has no poll queues: said before anything is measured.
fn not_polled() {
    let device = device();
    let sandbox = Sandbox::new();
    let args = ["run", "randread", p(device.path()), "duration=60s", "polled=yes"];
    for settings in [&[][..], &["sqpoll=yes"]] {
        let refused = sandbox.run(&[&args[..], settings].concat());
        assert_eq!(refused.code, 4, "{refused:?}");
        for word in ["job 'read'", "cannot be polled", "io_poll", "use polled=no"] {
            assert!(refused.stderr.contains(word), "'{word}' is not in {refused:?}");
        }
    }
    assert!(sandbox.runs().is_empty(), "nothing was measured");
}

#[track_caller]
fn failed(done: &Done, errno: i64) {
    assert_eq!(done.code, 5, "{done:?}");
    let record = done.records().pop().unwrap();
    assert_eq!(record["ending"], "failed");
    assert_eq!(record["failure"]["operation"], "read");
    assert_eq!(record["failure"]["errno"].as_i64(), Some(errno), "{}", record["failure"]);
}

/// Every write waits for stable storage: the device is flushed for each, where nothing is asked for it is not.
fn synchronous_writes() {
    let sandbox = Sandbox::new();
    let device = device();
    let destroy = format!("--destroy={}", device.backing().display());
    let flushes = |way: &[&str], open_sync: &str| {
        let args = ["run", "randwrite", p(device.path()), "operations=100", &destroy, open_sync];
        let record = sandbox.json(&[&args[..], way].concat(), &[0, 1]).records().remove(0);
        let name = device.name();
        let devices = record["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == name).unwrap();
        own["flushes"].as_u64().unwrap()
    };
    for engine in ["engine=io_uring", "engine=libaio", "engine=psync"] {
        let way = [engine, "depth=1"];
        for open_sync in ["open_sync=dsync", "open_sync=sync"] {
            let seen = flushes(&way, open_sync);
            assert!(seen >= 90, "{way:?} {open_sync}: {seen} flushes");
        }
        assert!(flushes(&way, "open_sync=none") < 10, "{way:?}");
    }
}

/// Each write is followed by the call on its own place, which waits for its write-back.
fn written_back() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["--json", "--quiet", "run", "randwrite", p(&dir), "size=4M", "operations=60"];
    let more =
        ["engine=psync", "depth=1", "direct=no", "sync_call=sync_file_range", "fsync_every=3"];
    let command = sandbox.command(&[&args[..], &more].concat());
    let trace = sandbox.scratch.join("trace");
    let (seen, said) = traced_calls(&command, "pwrite64,sync_file_range", &trace);
    let calls: Vec<&str> = seen.lines().collect();
    let is_sync = |line: &str| line.contains("sync_file_range(");
    let syncs: Vec<usize> = (0..calls.len()).filter(|at| is_sync(calls[*at])).collect();
    assert_eq!(syncs.len(), 20, "after every third of 60 writes: {said}");
    for at in syncs {
        let offset_of = |line: &str, field: usize| {
            let fields = line.rsplit_once(')').unwrap().0.rsplit(", ");
            fields.map(str::to_owned).nth(field).unwrap()
        };
        let (write, sync) = (calls[at - 1], calls[at]);
        assert!(write.contains("pwrite64(") && write.ends_with("= 4096"), "{write}");
        assert_eq!(offset_of(write, 0), offset_of(sync, 2), "{write} {sync}");
        assert!(sync.ends_with("= 0") && sync.contains(", 4096, "), "{sync}");
        // Newer ones have a word for the three together.
        let mut flags = ["WAIT_BEFORE", "RANGE_WRITE", "WAIT_AFTER"].into_iter();
        let is_whole = sync.contains("RANGE_WRITE_AND_WAIT");
        assert!(is_whole || flags.all(|flag| sync.contains(flag)), "{sync}");
    }
}

fn truncate(path: &Path, size_bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(size_bytes).unwrap();
}

fn reads_fail() {
    const EIO: i64 = 5;
    for (way, _) in WAYS {
        let sandbox = Sandbox::new();
        let device = device();
        let args = ["run", "randread", p(device.path()), "duration=10m"];
        if way[0] == "engine=mmap" {
            // What is in the page cache by then would still be had.
            truncate(device.backing(), MIB);
            let done = sandbox.run(&[&["--json"], &args[..], way].concat());
            failed(&done, EIO);
        } else {
            let running = sandbox.start(&[&args[..], way].concat(), "progress", 1);
            truncate(device.backing(), MIB);
            failed(&running.finish(), EIO);
        }
        sandbox.nothing_left(&[]);
    }
}

fn mapped_file_shrinks() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("log");
    loopdev::make_file(&file, 16 * MIB, Content::Pattern(1)).unwrap();
    let args = [
        "run",
        "randread",
        p(&file),
        "duration=10m",
        "engine=mmap",
        "direct=no",
        "depth=1",
        "threads=3",
    ];
    let running = sandbox.start(&args, "progress", 1);
    truncate(&file, MIB);
    let done = running.finish();
    failed(&done, 0);
    assert!(done.finding("io-failure")["summary"].as_str().unwrap().contains("became shorter"));
}

fn synchronous() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("data");
    loopdev::make_file(&file, 16 * MIB, Content::Pattern(1)).unwrap();
    let args = ["run", "randread", p(&file), "operations=5000", "engine=libaio", "depth=8"];
    let buffered = [&args[..], &["direct=no"]].concat();
    sandbox.refuses(&buffered, 2, &["depth=8 cannot be honoured", "direct=yes", "threads=8"]);
    // Only the run itself shows it where a file becomes longer.
    let dir = sandbox.dir();
    let args =
        ["run", "seqwrite", p(&dir), "size=64M", "block_size=64k", "engine=libaio", "depth=8"];
    let extending = sandbox.json(&args, &[1]);
    assert_eq!(extending.finding("libaio-synchronous")["severity"], "doubtful");
    let share = |f: &String| f.starts_with("synchronous: ");
    assert!(features(&extending.records()[0]).iter().any(share));
    let args = ["run", "randread", p(&file), "operations=5000", "engine=libaio", "depth=8"];
    sandbox.json(&[&args[..], &["direct=yes"]].concat(), &[0, 1]).has_not("libaio-synchronous");
}

/// The kernel's thread that submits is one of the process: its CPU time is in the process's and not in the job's.
fn submitting_thread() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("data");
    loopdev::make_file(&file, 16 * MIB, Content::Pattern(1)).unwrap();
    let args = ["run", "randread", p(&file), "duration=1s", "direct=no", "depth=4"];
    let beside_job_ns = |setting: &str| {
        let done = sandbox.json(&[&args[..], &[setting]].concat(), &[0, 1]);
        let record = done.records().remove(0);
        let sum =
            |cpu: &Value| cpu["user_ns"].as_u64().unwrap() + cpu["system_ns"].as_u64().unwrap();
        sum(&record["process_cpu"]).saturating_sub(sum(&record["jobs"][0]["cpu"]))
    };
    // On a busy machine it gets less than it would use.
    let mut seen = Vec::new();
    let mut is_counted = || {
        let (without, with) = (beside_job_ns("sqpoll=no"), beside_job_ns("sqpoll=yes"));
        seen.push((without, with));
        with > 100_000_000 && with > 2 * without
    };
    let is_counted = (0..8).any(|_| is_counted());
    assert!(is_counted, "ns without and with: {seen:?}");
}

/// The system's limit on asynchronous requests: exit code 4 with the switch's name. The limit is not changed: one job
/// alone asks for more than it allows.
fn no_place() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("data");
    loopdev::make_file(&file, 16 * MIB, Content::Pattern(1)).unwrap();
    let limit: u64 =
        std::fs::read_to_string("/proc/sys/fs/aio-max-nr").unwrap().trim().parse().unwrap();
    let threads = limit / 32_768 + 1;
    let threads = format!("threads={threads}");
    let args = ["run", "randread", p(&file), "operations=10", "engine=libaio", "depth=32768"];
    let refused = sandbox.run(&[&args[..], &["block_size=512", &threads]].concat());
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("fs.aio-max-nr"), "{refused:?}");
}
