//! Traps that fool a benchmark, each provoked for real, and a control without it.

use crate::cli::{Done, MIB, Sandbox, operations, p, run};
use crate::failures::while_cached;
use crate::filesystems::{InMemory, in_memory, mounted};
use fathom_model::finding::Verdict;
use fathom_model::record::Record;
use fathom_model::workload::EngineKind;
use fathom_study::verdict::judge;
use fathom_testkit::Capability::{
    FathomBinary, FsOnLoop, IoUring, LoopDevices, MountFs, Realtime, Root, Tool,
};
use fathom_testkit::command::{run_tool, tool};
use fathom_testkit::{
    Content, FsKind, Judged, LoopDevice, Snapshot, Trial, kernel_test, loopdev, without_io_uring,
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub fn trials() -> Vec<Trial> {
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let cached = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("fincore"), Tool("dd"), Tool("sync")];
    let chrt = [FathomBinary, FsOnLoop(FsKind::Ext4), Realtime];
    let seccomp = [FathomBinary, Tool("python3"), IoUring];
    vec![
        kernel_test("reads_from_the_page_cache", &fs, page_cache),
        kernel_test("writes_to_the_page_cache", &fs, written_in_memory),
        kernel_test("the_cache_of_others_is_left_alone", &cached, || while_cached(cache_of_others)),
        kernel_test("one_of_several_targets_is_sparse", &fs, one_is_sparse),
        kernel_test("generator_is_the_limit", &chrt, generator_bound),
        kernel_test(
            "sweep_that_the_cpu_limits",
            &[Root, FathomBinary, Realtime],
            sweep_without_storage,
        ),
        kernel_test(
            "others_use_the_device",
            &[FathomBinary, LoopDevices, MountFs("tmpfs"), Tool("dd")],
            other_io,
        ),
        kernel_test("small_sample_and_span", &fs, small_sample),
        kernel_test("few_requests_and_zeroes", &[FathomBinary], few_and_zeroes),
        kernel_test("io_uring_forbidden", &seccomp, forbidden_ring),
        kernel_test("one_seed_one_sequence", &[FathomBinary, LoopDevices], seeds),
    ]
}

/// A file of somebody's on a filesystem of its own.
fn file_on(dir: &Path, size_bytes: u64) -> PathBuf {
    let file = dir.join("file");
    loopdev::make_file(&file, size_bytes, Content::Pattern(1)).unwrap();
    file
}

fn page_cache() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = file_on(fs.dir(), 8 * MIB);
    let args = ["run", "randread", p(&file), "operations=20000"];
    let done = sandbox.json(&[&args[..], &["direct=no"]].concat(), &[1]);
    let finding = done.finding("reads-from-page-cache");
    assert_eq!(finding["severity"], "doubtful");
    assert!(finding["advice"][0].as_str().unwrap().contains("direct=yes"), "{finding}");
    let small = done.finding("sample-too-small");
    assert!(small["summary"].as_str().unwrap().contains("memory"), "{small}");
    sandbox.json(&args, &[0, 1]).has_not("reads-from-page-cache");
}

/// What is written over in memory again and again is no figure of the device; what is written once and synced is.
fn written_in_memory() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    for args in [
        &["run", "randwrite", dir, "size=8M", "direct=no", "duration=500ms"][..],
        &["run", "commit", dir, "size=8M", "fsync_every=0", "duration=500ms"],
    ] {
        let done = sandbox.json(args, &[1]);
        let finding = done.finding("writes-to-page-cache");
        assert_eq!(finding["severity"], "doubtful");
        assert!(finding["summary"].as_str().unwrap().contains("that of memory"), "{finding}");
    }
    let once = ["run", "seqwrite", dir, "size=16M", "direct=no", "sync_at_end=fdatasync"];
    sandbox.json(&once, &[0, 1]).has_not("writes-to-page-cache");
    let synced = ["run", "commit", dir, "size=8M", "operations=500"];
    sandbox.json(&synced, &[0, 1]).has_not("writes-to-page-cache");
}

/// Bytes of a file that the page cache holds.
fn cached_bytes(file: &Path) -> u64 {
    let args = ["--bytes", "--noheadings", "--output=RES", p(file)];
    run_tool("fincore", args).unwrap().trim().parse().unwrap()
}

/// Somebody's file that is read through the page cache keeps its place there; the finding's own advice empties it, and
/// one pass over cold data comes from the device.
fn cache_of_others() -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = file_on(fs.dir(), 8 * MIB);
    let device = fs.device().path();
    let args = ["run", "seqread", p(&file), "amount=8M", "direct=no"];
    // Other tests empty all caches now and then; fathom would take these 8 MiB each time.
    let emptied = || Judged::Failed("the cache of a file is emptied, time and again".into());
    if cached_bytes(&file) != 8 * MIB {
        return emptied();
    }
    let done = sandbox.json(&["run", "randread", p(&file), "operations=300", "direct=no"], &[0, 1]);
    let id = "reads-from-page-cache".to_owned();
    if cached_bytes(&file) != 8 * MIB || !done.findings().contains(&id) {
        return emptied();
    }
    let advice = done.finding("reads-from-page-cache")["advice"].clone();
    let command = advice.as_array().unwrap().last().unwrap().as_str().unwrap().to_owned();
    if !sandbox.json(&args, &[0, 1]).findings().contains(&id) {
        return emptied();
    }
    run_tool("sh", ["-c", &command]).unwrap();
    assert_eq!(cached_bytes(&file), 0, "{command} on {}", device.display());
    sandbox.json(&args, &[0, 1]).has_not("reads-from-page-cache");
    Judged::Passed
}

/// Jobs with targets of their own: the finding names the one that it is about.
fn one_is_sparse() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let (written, sparse) = (file_on(fs.dir(), 16 * MIB), fs.dir().join("sparse"));
    std::fs::File::create(&sparse).unwrap().set_len(16 * MIB).unwrap();
    let run = |targets: [&Path; 2]| {
        let job = |target: &Path| {
            format!(
                "[[job]]\nname = '{}'\ntarget = '{}'\noperations = 500\n",
                name_of(target),
                p(target)
            )
        };
        let file = sandbox.scratch.join("two.toml");
        let text = format!("name = 'two'\n{}{}", job(targets[0]), job(targets[1]));
        std::fs::write(&file, text).unwrap();
        sandbox.json(&["run", p(&file), p(fs.dir())], &[0, 1])
    };
    for targets in [[&*written, &*sparse], [&*sparse, &*written]] {
        let done = run(targets);
        assert_eq!((done.code, &done.result()["verdict"]), (1, &"void".into()), "{done:?}");
        let finding = done.finding("unwritten-extents");
        let summary = finding["summary"].as_str().unwrap();
        assert!(summary.contains(p(&sparse)) && !summary.contains(p(&written)), "{summary}");
        assert_eq!(done.records()[0]["targets"].as_array().unwrap().len(), 2);
    }
    let second = fs.dir().join("second");
    loopdev::make_file(&second, 16 * MIB, Content::Pattern(2)).unwrap();
    run([&written, &second]).has_not("unwritten-extents");
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The worker of the only job had a processor nearly all the time.
fn has_a_processor(record: &Record) -> bool {
    let cpu = record.jobs[0].cpu;
    let share = (cpu.user_ns + cpu.system_ns) as f64 / record.window_ns as f64;
    println!("{:.1} % of a processor", share * 100.0);
    share > 0.97
}

/// Why nothing is judged on a machine that is never quiet.
const NO_PROCESSOR: &str =
    "in ten attempts others left no processor to a thread that never waits: nothing was judged";

fn generator_bound() -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = file_on(fs.dir(), MIB);
    let args = ["run", "randread", p(&file), "direct=no", "engine=psync", "depth=1", "duration=2s"];
    // On a busy machine, or one whose host takes processor time away, the thread gets less than it would use.
    let first_in_line = || {
        let fathom = sandbox.command(&[&["--json", "--quiet"], &args[..]].concat());
        let mut command = tool("chrt");
        command.args(["--rr", "1"]).arg(fathom.get_program()).args(fathom.get_args());
        command
    };
    let is_judged = |done: &Done| {
        let record: Record = serde_json::from_value(done.records()[0].clone()).unwrap();
        has_a_processor(&record)
    };
    let found = (0..10).map(|_| run(first_in_line)).find(is_judged);
    let Some(done) = found else { return Judged::Skipped(NO_PROCESSOR.to_owned()) };
    let finding = done.finding("generator-bound");
    assert_eq!(finding["severity"], "doubtful");
    assert!(finding["advice"][0].as_str().unwrap().contains("threads=2"), "{finding}");
    let args = ["run", "randread", p(&file), "depth=1", "duration=1s"];
    sandbox.json(&args, &[0, 1]).has_not("generator-bound");
    Judged::Passed
}

/// A sweep of the null engine uses up the CPU in every row. The rows are real; injected is only that they claim to come
/// from io_uring, because for the null engine that is no finding.
fn sweep_without_storage() -> Judged {
    let sandbox = Sandbox::new();
    let row = |depth: &str| -> Record {
        let args = ["--json", "--quiet", "run", "randread", "null:", "duration=1s", depth];
        let done = run(|| {
            let fathom = sandbox.command(&args);
            let mut command = tool("chrt");
            command.args(["--rr", "1"]).arg(fathom.get_program()).args(fathom.get_args());
            command
        });
        serde_json::from_value(done.records()[0].clone()).unwrap()
    };
    let ids = |rows: &[Record]| -> Vec<String> {
        let bound =
            judge(rows).findings.into_iter().filter(|f| f.id.starts_with("generator-bound"));
        bound.map(|f| f.id).collect()
    };
    let measure = || {
        let rows = ["depth=1", "depth=8", "depth=32"].map(row);
        rows.iter().all(has_a_processor).then_some(rows)
    };
    let is_as_expected = |mut rows: [Record; 3]| {
        assert_eq!(
            ids(&rows),
            Vec::<String>::new(),
            "the null engine is meant to be its own limit"
        );
        rows.iter_mut().for_each(|r| r.jobs[0].engine.kind = EngineKind::IoUring);
        ids(&rows) == ["generator-bound"] && judge(&rows).verdict == Verdict::Doubtful
    };
    // On a busy machine the thread may get less than it would use.
    let Some(rows) = (0..10).find_map(|_| measure()) else {
        return Judged::Skipped(NO_PROCESSOR.to_owned());
    };
    assert!(is_as_expected(rows));
    Judged::Passed
}

/// Runs `dd` with these arguments again and again; ends with its scope.
fn busy<R>(args: &[String], body: impl FnOnce() -> R) -> R {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let mut command = tool("dd");
                command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
                let mut child: Child = command.spawn().unwrap();
                child.wait().unwrap();
            }
        });
        let result = body();
        is_done.store(true, Ordering::Relaxed);
        result
    })
}

fn other_io() {
    let sandbox = Sandbox::new();
    let InMemory { device, .. } = &in_memory(64 * MIB, Content::Pattern(1));
    let name = p(device.path());
    let args = ["run", "randread", name, "depth=1", "duration=1s"];
    sandbox.json(&args, &[0, 1]).has_not("other-io");
    for dd in [
        ["of=/dev/null".to_owned(), format!("if={name}"), "iflag=direct".to_owned()],
        ["if=/dev/zero".to_owned(), format!("of={name}"), "oflag=direct".to_owned()],
    ] {
        let dd = [&dd[..], &["bs=1M".to_owned(), "count=64".to_owned()]].concat();
        // Where others use the machine, dd may come to nothing in a second.
        let is_seen = |done: &Done| done.findings().contains(&"other-io".to_owned());
        let done = busy(&dd, || (0..8).map(|_| sandbox.json(&args, &[0, 1])).find(is_seen));
        let finding = done.expect("somebody else's I/O is seen").finding("other-io");
        assert_eq!(finding["severity"], "doubtful");
        assert!(finding["summary"].as_str().unwrap().contains(&device.name()), "{finding}");
    }
    others_who_write(&sandbox);
}

/// Beside a run that writes itself, and beside one that reads through the page cache.
fn others_who_write(sandbox: &Sandbox) {
    let fs = mounted(FsKind::Ext4, &[], "");
    let beside = fs.dir().join("theirs");
    let dd = ["if=/dev/zero", &format!("of={}", p(&beside)), "bs=1M", "count=32", "oflag=direct"];
    let dd = dd.map(str::to_owned);
    for (workload, direct) in [("randwrite", "direct=yes"), ("randread", "direct=no")] {
        let args = ["run", workload, p(fs.dir()), "size=32M", direct, "rate=500", "duration=1s"];
        let alone = (0..8).map(|_| sandbox.json(&args, &[0, 1]));
        let has = |done: &Done| done.findings().contains(&"other-io".to_owned());
        assert!(alone.into_iter().any(|done| !has(&done)), "{workload}: nobody else is there");
        let done = busy(&dd, || (0..8).map(|_| sandbox.json(&args, &[0, 1])).find(has));
        assert!(done.is_some(), "{workload}: somebody else writes");
    }
}

fn small_sample() -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let run = |size: &str| {
        sandbox.json(&["run", "randread", p(fs.dir()), size, "operations=1000"], &[0, 1])
    };
    let small = run("size=32M");
    assert_eq!(small.finding("sample-too-small")["severity"], "doubtful");
    assert_eq!(small.finding("small-span")["severity"], "note");
    let share = &small.records()[0]["targets"][0]["extents"]["share_of_device"];
    assert!((0.01..0.03).contains(&share.as_f64().unwrap()), "{share}");
    let args = ["run", "randread", p(fs.dir()), "size=32M", "operations=1000", "--fail-on=void"];
    let relaxed = sandbox.json(&args, &[0]);
    assert_eq!(relaxed.result()["verdict"], "doubtful", "said, but no failure");
    // What others do to the machine, or the host to a virtual one, is none of what is judged here.
    let others = ["stolen-time", "busy-cpus", "held-up", "not-steady", "uneven", "other-io"];
    let mut disturbed = Vec::new();
    let is_judged = |large: &Done| {
        large.has_not("sample-too-small");
        large.has_not("small-span");
        let is_others = |id: &String| others.contains(&id.as_str());
        disturbed.extend(large.findings().into_iter().find(is_others));
        large.result()["verdict"] == "trusted" || !large.findings().iter().any(is_others)
    };
    let judged = (0..3).map(|_| run("size=600M")).find(is_judged);
    sandbox.nothing_left(&[fs.dir()]);
    let Some(large) = judged else {
        let how = disturbed.join(", ");
        return Judged::Skipped(format!(
            "others disturbed all three runs ({how}): whether a quiet one is trusted was not judged"
        ));
    };
    assert_eq!(large.result()["verdict"], "trusted", "{:?}", large.findings());
    assert_eq!(large.code, 0);
    Judged::Passed
}

fn few_and_zeroes() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let few = sandbox.json(&["run", "randread", p(&dir), "size=8M", "operations=20"], &[1]);
    assert!(few.finding("too-few")["summary"].as_str().unwrap().contains("only 20 requests"));
    let args = ["run", "randwrite", p(&dir), "size=8M", "operations=1000"];
    let zeroes = sandbox.json(&[&args[..], &["content=zero"]].concat(), &[0, 1]);
    assert_eq!(zeroes.finding("zero-content")["severity"], "note");
    let tail = zeroes.finding("tail-of-few");
    let words = "p99.9 is not shown: 1 000 requests ended, and p99.9 takes 10 000";
    assert!(tail["summary"].as_str().unwrap().starts_with(words), "{tail}");
    sandbox.json(&args, &[0, 1]).has_not("zero-content");
    let many = ["run", "randread", p(&dir), "size=8M", "operations=10000"];
    sandbox.json(&many, &[0, 1]).has_not("tail-of-few");
}

fn forbidden_ring() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let forbidden = |args: &[&str]| -> Done { run(|| without_io_uring(&sandbox.command(args))) };
    let args = ["--json", "--quiet", "run", "randread", p(&dir), "size=8M"];
    let done = forbidden(&[&args[..], &["depth=4", "threads=2", "operations=4000"]].concat());
    assert!([0, 1].contains(&done.code), "{done:?}");
    let engine = &done.records()[0]["jobs"][0]["engine"];
    assert_eq!((&engine["kind"], engine["threads"].as_u64()), (&"psync".into(), Some(8)));
    assert_eq!(engine["depth"].as_u64(), Some(1));
    assert!(engine["fallback"].as_str().unwrap().contains("io_uring is forbidden"), "{engine}");
    assert_eq!(operations(&done.records()[0]), 4000);
    let finding = done.finding("engine-fallback");
    assert_eq!(finding["severity"], "note");
    assert!(finding["summary"].as_str().unwrap().contains("8 threads"), "{finding}");
    // Asked for openly it is no fall-back.
    let open = ["engine=psync", "depth=1", "threads=8", "operations=4000"];
    forbidden(&[&args[..], &open].concat()).has_not("engine-fallback");
    let doctor = forbidden(&["--json", "doctor"]);
    let result = doctor.result();
    let ring = result["checks"].as_array().unwrap().iter().find(|c| c["what"] == "io_uring");
    assert_eq!(ring.unwrap()["works"], false);
    assert!(ring.unwrap()["detail"].as_str().unwrap().contains("psync"));
}

/// The 100 slowest of 100 operations are all of them.
fn offsets(done: &Done) -> Vec<u64> {
    let record = &done.records()[0];
    let slowest = record["jobs"][0]["slowest"].as_array().unwrap();
    let mut offsets: Vec<u64> =
        slowest.iter().map(|op: &Value| op["offset_bytes"].as_u64().unwrap()).collect();
    assert_eq!(offsets.len(), 100);
    offsets.sort_unstable();
    offsets
}

fn seeds() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for threads in ["threads=1", "threads=2"] {
        let of = |seed: &str| {
            let args = [
                "run",
                "randread",
                p(&dir),
                "size=64M",
                "operations=100",
                "depth=1",
                threads,
                seed,
            ];
            offsets(&sandbox.json(&args, &[0, 1]))
        };
        assert_eq!(of("--seed=7"), of("--seed=7"));
        assert_ne!(of("--seed=7"), of("--seed=8"));
    }
    // Where none is given, the stored command has the one that was drawn.
    let args = ["run", "randread", p(&dir), "size=64M", "operations=100", "depth=1"];
    let drawn = sandbox.json(&args, &[0, 1]);
    let shown = sandbox.run(&["show", &drawn.id()]).stdout;
    let first = shown.lines().next().unwrap();
    let seed = first.split(' ').find(|word| word.starts_with("--seed=")).expect(first);
    let again = sandbox.json(&[&args[..], &[seed]].concat(), &[0, 1]);
    assert_eq!(offsets(&again), offsets(&drawn), "{first}");
    // Writes too: the same places of two blank devices, and the same bytes in them.
    let written = |seed: &str| {
        let device = LoopDevice::new(16 * MIB).unwrap();
        let id = format!("--destroy={}", device.backing().display());
        let args = ["run", "randwrite", p(device.path()), "operations=100", "depth=1", seed, &id];
        sandbox.json(&args, &[0, 1]);
        Snapshot::take(device.path()).unwrap()
    };
    let first = written("--seed=7");
    assert_eq!(first, written("--seed=7"));
    assert_ne!(first, written("--seed=8"));
}
