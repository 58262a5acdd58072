//! `fathom run fsop`: readers and writers on real filesystems, among them one that is frozen, one that becomes full, one
//! that turns read-only, and one whose directories vanish.

use crate::cli::{
    Done, MIB, Running, Sandbox, as_nobody, binary_for_nobody, names, p, run, wait_until,
};
use crate::filesystems::in_memory;
use fathom_sys::walked::{self, WalkedDir};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, MountFs, Root, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{Content, FsKind, Mount, TreeSnapshot, Trial, counted, kernel_test};
use serde_json::Value;
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::{FileExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// Some seven times the peak of a run with a million points (304 MiB).
const DATA_BYTES_MAX: u64 = 2 << 30;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4), MountFs("tmpfs")];
    let xfs = [FathomBinary, FsOnLoop(FsKind::Xfs), MountFs("tmpfs")];
    let frozen = [FathomBinary, FsOnLoop(FsKind::Ext4), MountFs("tmpfs"), Tool("fsfreeze")];
    let logged = [FathomBinary, FsOnLoop(FsKind::Xfs), MountFs("tmpfs"), Tool("fsfreeze")];
    let killed = [FathomBinary, FsOnLoop(FsKind::Ext4), MountFs("tmpfs"), Tool("kill")];
    vec![
        kernel_test("fsop_phases", &ext4, phases),
        kernel_test("fsop_tree_that_is_not_whole", &[FathomBinary], not_whole),
        kernel_test("fsop_names_that_stay_in_memory", &ext4, names_stay),
        kernel_test("fsop_syncs_reach_the_device", &xfs, syncs),
        kernel_test("fsop_frozen_in_a_window", &frozen, frozen_window),
        kernel_test("fsop_frozen_over_the_start_of_a_window", &frozen, frozen_start),
        kernel_test("fsop_journal_on_another_device", &frozen, ext4_journal_elsewhere),
        kernel_test("fsop_log_on_another_device", &logged, xfs_log_elsewhere),
        kernel_test(
            "fsop_keeps_a_million_points",
            &[FathomBinary, Tool("prlimit")],
            million_points,
        ),
        kernel_test("fsop_without_space", &ext4, without_space),
        kernel_test("fsop_leaves_what_must_stay_free", &killed, reserve),
        kernel_test("fsop_reads_back_what_writers_made", &ext4, read_back),
        kernel_test("fsop_without_inodes", &ext4, without_inodes),
        kernel_test("fsop_long_names_and_deep_paths", &[FathomBinary], long_and_deep),
        kernel_test("fsop_read_only_after_an_error", &ext4, read_only),
        kernel_test("fsop_directories_that_vanish", &[FathomBinary], vanishing),
        kernel_test("fsop_killed", &killed, kill),
        kernel_test("fsop_interrupted", &[FathomBinary, Tool("kill")], interrupted),
        kernel_test("fsop_words", &[FathomBinary], words),
        kernel_test("fsop_as_nobody", &[FathomBinary, Root, Tool("setpriv")], nobody),
    ]
}

/// A filesystem on a disk in memory, with room for a small tree and what writers make.
struct Ground {
    mount: Mount,
    // Unmounted before.
    _disk: crate::filesystems::InMemory,
}

impl Ground {
    fn new(kind: FsKind, size_mib: u64, options: &str) -> Self {
        Self::made(kind, size_mib, &[], options)
    }

    fn made(kind: FsKind, size_mib: u64, mkfs: &[&str], options: &str) -> Self {
        let disk = in_memory(size_mib * MIB, Content::Sparse);
        kind.make(disk.device.path(), mkfs).unwrap();
        let mount = Mount::new(kind.name(), disk.device.path(), options).unwrap();
        Self { mount, _disk: disk }
    }

    fn dir(&self) -> &Path {
        self.mount.dir()
    }

    /// Mounts it anew in the same place.
    fn mount_anew(&self) {
        run_tool("umount", [self.dir()]).unwrap();
        run_tool("mount", [self._disk.device.path(), self.dir()]).unwrap();
    }
}

/// A plain tree of somebody's: three levels of four directories, two files in each.
fn somebodys_tree(dir: &Path) {
    let mut level = vec![dir.to_owned()];
    for depth in 0..3 {
        let mut below = Vec::new();
        for path in &level {
            for number in 0..4 {
                let inner = path.join(format!("dir{number}"));
                fs::create_dir(&inner).unwrap();
                for file in 0..2 {
                    let bytes = vec![b'x'; 100 + 9_000 * depth * file];
                    fs::write(inner.join(format!("file{file}")), bytes).unwrap();
                }
                below.push(inner);
            }
        }
        level = below;
    }
}

fn fsop(record: &Value) -> &Value {
    assert!(record["fsop"].is_object(), "{record}");
    &record["fsop"]
}

fn processes(record: &Value) -> Vec<Value> {
    fsop(record)["processes"].as_array().unwrap().clone()
}

fn count(process: &Value, class: &str) -> u64 {
    let classes = process["classes"].as_array().unwrap();
    let found = classes.iter().find(|c| c["class"] == class);
    found.map_or(0, |c| c["latency_ns"]["count"].as_u64().unwrap_or(0))
}

/// Three phases in exact windows: what stands in the record fits together, and all is as it was before.
fn phases() {
    let sandbox = Sandbox::new();
    // A tree leaves 1 GiB alone.
    let ground = Ground::new(FsKind::Ext4, 2_048, "");
    let tree = ground.dir().join("tree");
    let built = sandbox.run(&["tree", "build", p(&tree), "files=800", "--seed=3"]);
    assert_eq!(built.code, 0, "{built:?}");
    let before = TreeSnapshot::take(&tree).unwrap();
    let args = [
        "run",
        "fsop",
        p(&tree),
        "readers=2",
        "writers=2",
        "window=1s",
        "warmup=300ms",
        "points=500",
    ];
    let done = sandbox.json(&args, &[0, 1]);
    let records = done.records();
    let labels: Vec<&str> = records.iter().map(|r| r["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["fsop, 1 reader", "fsop, 2 readers", "fsop, 2 readers, 2 writers"]);
    for (record, count_of_processes) in records.iter().zip([1, 2, 4]) {
        assert_eq!(record["window_ns"].as_u64(), Some(SECOND_NS), "exact");
        let processes = processes(record);
        assert_eq!(processes.len(), count_of_processes);
        for process in &processes {
            holds_together(process);
        }
        let points = fsop(record)["stream"]["start_us"].as_array().unwrap();
        assert!(!points.is_empty() && points.len() <= 500 + 100 * processes.len());
    }
    let caches = &fsop(&records[0])["caches"]["dropped"];
    assert!(caches["files_checked"].as_u64().unwrap() > 10, "{caches}");
    assert_eq!(caches["cached_bytes"].as_u64(), Some(0));
    assert!(caches["names_checked"].as_u64().unwrap() > 10, "{caches}");
    assert_eq!(caches["names_cached"].as_u64(), Some(0));
    let machine = |which: &str| [0, 1].map(|at| caches[which][at].as_u64().unwrap());
    for [before, after] in ["unused_entries", "inodes"].map(machine) {
        assert!(after < before, "{caches}");
    }
    assert_eq!(fsop(&records[0])["tree"]["is_checked"], true);
    assert_eq!(fsop(&records[2])["caches"], "went_on");
    assert_eq!(fsop(&records[0])["tree"]["files"].as_u64(), Some(800));
    let writers = &processes(&records[2])[2..];
    assert!(writers.iter().all(|w| count(w, "open_write") > 10 && count(w, "make_dir") > 0));
    // A second of a small tree is short, and read again: said, not hidden.
    for id in ["fsop-short-window", "fsop-tree-read-again", "fsop-short-warmup"] {
        assert_eq!(done.finding(id)["severity"], "doubtful");
    }
    let competition = &done.result()["competition"];
    assert_eq!(competition.as_array().unwrap().len(), 2, "{competition}");
    let prices = done.result()["price_for_safety"].to_string();
    assert!(prices.contains("barrier=1: nothing given away"), "{prices}");
    // What is replayed is no more than the journal that mkfs made.
    let made = run_tool("dumpe2fs", [Path::new("-h"), ground._disk.device.path()]).unwrap();
    let size = made.lines().find_map(|line| line.strip_prefix("Total journal size:")).unwrap();
    assert_eq!(size.trim(), "64M");
    assert!(prices.contains("at most its 64 MiB are read"), "{prices}");
    before.assert_same(&tree);
    shown(&sandbox, &done);
    let verified = sandbox.run(&["tree", "verify", p(&tree)]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let cleaned = sandbox.run(&["clean", p(&tree)]);
    assert_eq!(cleaned.code, 0, "{cleaned:?}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// Operations one after the other fit into the window, a directory has one entry more read than looked at, and every file
/// that was opened was closed.
fn holds_together(process: &Value) {
    let classes = process["classes"].as_array().unwrap();
    let sum = |field: &str| -> u64 {
        let one = |class: &Value| match &class["latency_ns"][field] {
            Value::String(text) => text.parse().unwrap(),
            other => other.as_u64().unwrap_or(0),
        };
        classes.iter().map(one).sum()
    };
    assert!(sum("count") > 0 && sum("sum") <= SECOND_NS, "{process}");
    let by_second = process["operations_by_second"].as_array().unwrap();
    let seconds: u64 = by_second.iter().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(seconds, sum("count"));
    assert!(process["crossings"].as_array().unwrap().len() <= 2);
    if process["role"] == "reader" {
        assert!(count(process, "read_dir") + 1 >= count(process, "stat"));
        assert!(count(process, "open_read").abs_diff(count(process, "close_read")) <= 1);
    } else {
        assert!(count(process, "open_write").abs_diff(count(process, "close_write")) <= 1);
    }
}

/// What is stored is what was printed, also in the classic form.
fn shown(sandbox: &Sandbox, done: &Done) {
    let shown = sandbox.json(&["show", &done.id()], &[0]);
    assert_eq!(shown.records(), done.records());
    let text = sandbox.run(&["show", &done.id()]);
    assert!(text.stdout.contains("first byte") && text.stdout.contains("competition"), "{text:?}");
    let classic = sandbox.run(&["show", &done.id(), "--style=classic"]);
    assert_eq!(classic.code, 0, "{classic:?}");
    for price in ["barrier=1: nothing given away; ", "data=ordered: nothing given away; "] {
        assert!(text.stdout.contains(price), "{price}: {text:?}");
    }
    for line in ["fs=ext4", "A read dir", "D rd 1st byte", "I mkdir", "J write rate", "(1s)"] {
        assert!(classic.stdout.contains(line), "{line}: {classic:?}");
    }
}

/// A tree of fathom's is looked through before it is read: what is missing, cut or added is counted and named, and nothing is
/// measured.
fn not_whole() {
    let sandbox = Sandbox::new();
    let tree = sandbox.dir().join("tree");
    let built = sandbox.run(&["tree", "build", p(&tree), "files=300", "--seed=3"]);
    assert_eq!(built.code, 0, "{built:?}");
    let read = ["run", "fsop", p(&tree), "phases=1r", "window=200ms", "drop_caches=no"];
    let whole = sandbox.json(&read, &[0, 1]);
    assert_eq!(fsop(&whole.records()[0])["tree"]["is_checked"], true);
    let own = |dir: &Path| -> Vec<_> {
        let names = names(dir).into_iter().filter(|name| !name.starts_with(".fathom-"));
        names.map(|name| dir.join(name)).collect()
    };
    let mut files: Vec<_> = own(&tree).into_iter().filter(|path| path.is_file()).collect();
    files.sort_by_key(|path| path.metadata().unwrap().len());
    let refused = |words: &[&str]| sandbox.run(&read).is_refusal(5, words);
    // The longest file is cut, the shortest is gone.
    fs::File::options().write(true).open(files.pop().unwrap()).unwrap().set_len(7).unwrap();
    refused(&["is not the whole tree", ": 1 file is changed; the first: ", "fathom tree verify"]);
    fs::remove_file(&files[0]).unwrap();
    refused(&["1 file is missing, 1 file is changed; "]);
    // A directory without others in it, and what somebody put beside it.
    let mut leaf = tree.clone();
    while let Some(below) = own(&leaf).into_iter().find(|path| path.is_dir()) {
        leaf = below;
    }
    let gone = own(&leaf).len();
    assert!(gone > 1, "{}", leaf.display());
    fs::remove_dir_all(&leaf).unwrap();
    fs::write(tree.join("note.txt"), "mine").unwrap();
    let counts = format!(
        "{} files are missing, 1 directory is missing, 1 file is changed, 1 name is not of it; ",
        gone + 1
    );
    refused(&[&counts]);
    // Who reads nothing of it does not mind.
    let writes = ["run", "fsop", p(&tree), "phases=1w", "window=200ms", "warmup=0s"];
    assert_eq!(fsop(&sandbox.json(&writes, &[0, 1]).records()[0])["tree"]["is_ours"], true);
    let cleaned = sandbox.run(&["clean", p(&tree)]);
    assert!(cleaned.stdout.contains("note.txt"), "{cleaned:?}");
    assert_eq!(names(&tree), ["note.txt"]);
    sandbox.nothing_left(&[&tree]);
}

/// Names that somebody holds stay in memory with their inodes when the caches are dropped, though the data goes: found and told.
fn names_stay() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 256, "");
    somebodys_tree(ground.dir());
    let args = ["run", "fsop", p(ground.dir()), "phases=1r", "window=200ms"];
    let free = sandbox.json(&args, &[0, 1]);
    free.has_not("fsop-caches-still-full");
    let look = |done: &Done| fsop(&done.records()[0])["caches"]["dropped"].clone();
    assert!(look(&free)["names_checked"].as_u64().unwrap() > 20, "{}", look(&free));
    // An open file keeps its name and inode in memory, and no data.
    let (mut held, mut pending) = (Vec::new(), vec![ground.dir().to_owned()]);
    while let Some(dir) = pending.pop() {
        for path in names(&dir).into_iter().map(|name| dir.join(name)) {
            match path.is_dir() {
                true => pending.push(path),
                false => held.push(fs::File::open(path).unwrap()),
            }
        }
    }
    let done = sandbox.json(&args, &[1]);
    let look = look(&done);
    assert_eq!(look["names_cached"], look["names_checked"], "{look}");
    assert_eq!(look["cached_bytes"].as_u64(), Some(0), "{look}");
    let said = done.finding("fsop-caches-still-full")["summary"].to_string();
    assert!(said.contains("names and inodes looked for"), "{said}");
    drop(held);
    sandbox.nothing_left(&[ground.dir()]);
}

/// With syncs the device gets what writers write, and the rate of data is that of the device.
fn syncs() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Xfs, 2_048, "");
    for (mode, least) in [("file", 1), ("data", 1), ("dir", 1)] {
        let sync = format!("sync={mode}");
        let args = ["run", "fsop", p(ground.dir()), "phases=1w", "window=1s", "warmup=0s", &sync];
        let done = sandbox.json(&args, &[0, 1]);
        let record = &done.records()[0];
        let writer = &processes(record)[0];
        let (files, syncs) = (count(writer, "close_write"), count(writer, "sync"));
        let dirs = if mode == "dir" { count(writer, "make_dir") } else { 0 };
        let of_dirs = count(writer, "sync_dir");
        assert!(
            files > 0 && syncs.abs_diff(files) <= least && of_dirs.abs_diff(dirs) <= least,
            "{mode}: {files} {dirs} {syncs} {of_dirs}"
        );
        let bytes: u64 = writer["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["bytes"].as_u64().unwrap())
            .sum();
        let devices = record["devices"].as_array().unwrap();
        let written = devices.iter().map(|d| d["written_bytes"].as_u64().unwrap()).max().unwrap();
        assert!(written >= bytes * 9 / 10, "{mode}: {written} of {bytes}");
        done.has_not("fsop-written-to-memory");
        sandbox.nothing_left(&[ground.dir()]);
    }
}

/// The window ends while the filesystem is still frozen, at its instant; what hangs is told with its age, and how long it
/// took in all when that is known.
fn frozen_window() {
    let sandbox = Sandbox::new();
    // Large enough for what writers make before it is frozen.
    let ground = Ground::new(FsKind::Ext4, 8_192, "");
    let args = ["run", "fsop", p(ground.dir()), "phases=2w", "window=4s", "warmup=200ms"];
    let mut running = sandbox.start(&args, "progress", 1);
    let frozen = ground.mount.freeze().unwrap();
    // What the run is about, that writers warm up, and that the window is over, with the oldest operation: all of it
    // while every writer hangs in the kernel.
    assert!(running.wait_for("note", 3));
    thread::sleep(Duration::from_millis(700));
    assert!(!running.is_over());
    drop(frozen);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert!(done.stdout.contains("Oldest unfinished: "), "{done:?}");
    let record = &done.records()[0];
    assert_eq!(record["window_ns"].as_u64(), Some(4 * SECOND_NS), "neither longer nor shorter");
    for writer in processes(record) {
        let crossings = writer["crossings"].as_array().unwrap().clone();
        let hung = crossings.iter().find(|c| c["start_ns"].as_i64().unwrap() > 0).unwrap();
        let start_ns = hung["start_ns"].as_i64().unwrap();
        let took_ns = hung["took_ns"].as_i64().unwrap();
        assert!(start_ns + took_ns > 4_600_000_000, "it ended after the thaw: {hung}");
    }
    assert_eq!(fsop(record)["end_seen_late_ns"].as_u64().unwrap() / SECOND_NS, 0);
    let text = sandbox.run(&["show", &done.id()]).stdout;
    assert!(text.contains("oldest unfinished") && text.contains("in all"), "{text}");
    assert!(text.contains("stalls (from 1.0 s on") && text.contains("> "), "{text}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// What hangs while the window begins, and ends in it, is told with how long before it began; readers go on, and the window is
/// as long as ever.
fn frozen_start() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 8_192, "");
    somebodys_tree(ground.dir());
    let args =
        ["run", "fsop", p(ground.dir()), "phases=2r+2w", "window=4s", "warmup=3s", "sync=file"];
    // What the run is about, and that writers warm up.
    let mut running = sandbox.start(&args, "note", 2);
    thread::sleep(Duration::from_millis(300));
    let frozen = ground.mount.freeze().unwrap();
    assert!(running.wait_for("progress", 1), "the window began while it was frozen");
    drop(frozen);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let record = &done.records()[0];
    assert_eq!(record["window_ns"].as_u64(), Some(4 * SECOND_NS), "neither longer nor shorter");
    let processes = processes(record);
    for writer in &processes[2..] {
        let crossings = writer["crossings"].as_array().unwrap();
        let hung = crossings.iter().find(|c| c["start_ns"].as_i64().unwrap() < 0).unwrap();
        let end_ns = hung["start_ns"].as_i64().unwrap() + hung["took_ns"].as_i64().unwrap();
        assert!(end_ns >= SECOND_NS as i64, "it ended after the first second: {hung}");
    }
    assert!(processes[..2].iter().all(|reader| count(reader, "read_dir") > 0));
    let text = sandbox.run(&["show", &done.id()]).stdout;
    assert!(text.contains("stalls (from 1.0 s on") && text.contains(" s before"), "{text}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// As many points as may be asked for, of more operations than that, in bounded memory.
fn million_points() {
    const POINTS: u64 = 1_000_000;
    let sandbox = Sandbox::new();
    somebodys_tree(&sandbox.dir());
    let dir = sandbox.dir();
    let done = run(|| {
        let inner = sandbox.command(&["--json", "--quiet", "run", "fsop", p(&dir), "phases=1r"]);
        let mut command = Command::new("prlimit");
        command.arg(format!("--data={}", DATA_BYTES_MAX)).arg(inner.get_program());
        command.args(inner.get_args()).args(["window=8s", "points=1000000", "drop_caches=no"]);
        command.env("LC_ALL", "C").env_remove("FATHOM_DB");
        command
    });
    assert!([0, 1].contains(&done.code), "{}: {}", done.code, done.stderr);
    let record = &done.records()[0];
    let stream = &fsop(record)["stream"];
    let operations = stream["operations"].as_u64().unwrap();
    let points = stream["start_us"].as_array().unwrap().len() as u64;
    let least = operations.min(POINTS);
    assert!((least..=least + 100).contains(&points), "{points} of {operations}");
    for column in ["took_us", "took_rest_ns", "class", "process"] {
        assert_eq!(stream[column].as_array().unwrap().len() as u64, points, "{column}");
    }
    // Entries of directories come from memory, in far less than a microsecond each: told apart all the same.
    let number = |value: &Value| value.as_u64().unwrap();
    let column = |name: &str| stream[name].as_array().unwrap().iter().map(number);
    let short = column("took_us").zip(column("took_rest_ns")).filter(|(us, _)| *us == 0);
    let (short, zero) = short.fold((0, 0), |(n, zero), (_, ns)| (n + 1, zero + u64::from(ns == 0)));
    assert!(short > points / 10 && zero < short / 10, "{zero} of {short} took no time at all");
    let starts = stream["start_us"].as_array().unwrap();
    let in_order = starts.windows(2).all(|two| two[0].as_u64() <= two[1].as_u64());
    assert!(in_order && starts[starts.len() - 1].as_u64() > Some(7_000_000), "to the end");
    counted("points of a stream", points as usize);
    sandbox.nothing_left(&[]);
}

fn ext4_journal_elsewhere() {
    let log = in_memory(64 * MIB, Content::Sparse);
    let path = p(log.device.path());
    run_tool("mke2fs", ["-q", "-O", "journal_dev", "-b", "4096", path]).unwrap();
    let ground =
        Ground::made(FsKind::Ext4, 4_096, &["-b", "4096", "-J", &format!("device={path}")], "");
    journal_elsewhere(&ground, &log.device.name());
}

fn xfs_log_elsewhere() {
    let log = in_memory(128 * MIB, Content::Sparse);
    let option = format!("logdev={}", p(log.device.path()));
    let ground = Ground::made(FsKind::Xfs, 4_096, &["-l", &option], &option);
    journal_elsewhere(&ground, &log.device.name());
}

/// A stall beside which stands what the journal and its own device did in that second.
fn journal_elsewhere(ground: &Ground, log: &str) {
    let sandbox = Sandbox::new();
    let sync = ["phases=1w", "window=3s", "warmup=0s", "sync=file", "stall=300ms"];
    let args = [&["run", "fsop", p(ground.dir())], &sync[..]].concat();
    let mut running = sandbox.start(&args, "progress", 1);
    let frozen = ground.mount.freeze().unwrap();
    thread::sleep(Duration::from_millis(700));
    drop(frozen);
    assert!(running.wait_for("progress", 2));
    let done = running.finish();
    let record = &done.records()[0];
    let facts = &record["targets"][0]["stack"]["nodes"][1]["fs"];
    assert_eq!(facts["journal_device"], log, "{facts}");
    let seconds = fsop(record)["seconds"].as_array().unwrap();
    let written = |second: &Value| {
        let devices = second["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == log);
        own.unwrap()["written_bytes"].as_u64().unwrap()
    };
    assert!(seconds.iter().any(|second| written(second) > 0), "{seconds:?}");
    let commits = |second: &Value| second["journal_commits"].as_u64().unwrap();
    assert!(seconds.iter().map(commits).sum::<u64>() > 1, "{seconds:?}");
    let text = sandbox.run(&["show", &done.id()]).stdout;
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("stalls (from")).collect();
    assert!(lines[1].contains("commits") && lines[1].contains("journal"), "{text}");
    assert!(lines[2].contains(log) && lines[2].contains(&ground._disk.device.name()), "{text}");
    assert!(text.contains("journal=ext"), "{text}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// Starts writers and waits until the window goes on.
fn writing(sandbox: &Sandbox, dir: &Path) -> Running {
    // Syncs keep them from using up their share at once.
    let args = ["run", "fsop", p(dir), "phases=2w", "window=30s", "warmup=0s", "sync=file"];
    sandbox.start(&args, "progress", 1)
}

#[track_caller]
fn failed(done: &Done, errors: &[i64], cure: &str) {
    assert_eq!(done.code, 5, "{done:?}");
    let record = &done.records()[0];
    assert_eq!(record["ending"], "failed");
    let failure = &record["failure"];
    assert!(errors.contains(&failure["errno"].as_i64().unwrap()), "{failure}");
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("writer ") && message.contains(cure), "{message}");
    assert!(message.contains("/.fathom-") && message.contains("/grove"), "where: {message}");
    assert!(record["window_ns"].as_u64().unwrap() < 30 * SECOND_NS);
    done.finding("io-failure");
}

fn without_space() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 2_048, "");
    let running = writing(&sandbox, ground.dir());
    // Somebody else takes the space that writers leave alone, most of it at once.
    let thief = ground.dir().join("thief");
    let free = |percent: u64| {
        let bytes = fathom_sys::fsinfo::space(ground.dir()).unwrap().free_bytes / 100 * percent;
        run_tool("fallocate", ["-l", &bytes.to_string(), p(&thief)])
    };
    assert!([95, 80, 60].into_iter().any(|percent| free(percent).is_ok()));
    let _ = fs::write(ground.dir().join("thief1"), vec![1; 1 << 30]);
    let done = running.finish();
    failed(&done, &[28], "no space or no inodes are left");
    fs::remove_file(thief).unwrap();
    fs::remove_file(ground.dir().join("thief1")).unwrap();
    sandbox.nothing_left(&[ground.dir()]);
}

/// Writers go on until 5 % and 1 GiB are left, as all test files do, and not a block further; where there is less to begin with,
/// nothing is begun.
fn reserve() {
    const GIB: u64 = 1 << 30;
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 1_536, "");
    let available = || fathom_sys::fsinfo::space(ground.dir()).unwrap().available_bytes;
    assert!(available() > GIB + 200 * MIB, "{}", available());
    let large = ["file_size_median=256k", "file_size_mean=256k", "file_size_max=256k"];
    let args = ["run", "fsop", p(ground.dir()), "phases=2w", "window=10m", "warmup=0s"];
    let running = sandbox.start(&[&args[..], &large[..]].concat(), "progress", 1);
    let mut least = available();
    wait_until("the writers have used what they may", || {
        least = least.min(available());
        // What does not fit any more is two files, and what ext4 needs for itself.
        least < GIB + 16 * MIB
    });
    thread::sleep(Duration::from_millis(500));
    least = least.min(available());
    assert!(least >= GIB, "{least}");
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    sandbox.nothing_left(&[ground.dir()]);
    let small = Ground::new(FsKind::Ext4, 512, "");
    let words = ["2 writers make at least", "5 % and at least 1 GiB", "phases=3r"];
    sandbox.refuses(&["run", "fsop", p(small.dir()), "phases=2w"], 4, &words);
    sandbox.nothing_left(&[small.dir()]);
}

/// With verify= all that writers made is compared: as it is, and with one byte that somebody changed.
fn read_back() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 2_048, "");
    somebodys_tree(ground.dir());
    let sizes = ["file_size_median=8k", "file_size_mean=8k", "file_size_max=8k"];
    let args = ["run", "fsop", p(ground.dir()), "verify=yes", "sync=file", "warmup=0s"];
    let clean = [&args[..], &sizes[..], &["phases=1r,1r+2w", "window=500ms"]].concat();
    let done = sandbox.json(&clean, &[0, 1]);
    let said = done.finding("fsop-content-verified")["summary"].to_string();
    assert!(said.contains("every byte"), "{said}");
    done.has_not("fsop-content-wrong");
    let of_record =
        |record: &Value| record["findings"].to_string().contains("fsop-content-verified");
    assert_eq!(done.records().iter().map(of_record).collect::<Vec<_>>(), [false, true]);
    let running = sandbox.start(
        &[&args[..], &sizes[..], &["phases=1w", "window=3s"]].concat(),
        "progress",
        1,
    );
    let own = names(ground.dir()).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
    let grove = ground.dir().join(own).join("grove0");
    // The writer is done with the first file when there is a second.
    wait_until("a second file", || grove.join("f0000001").exists());
    let file = fs::File::options().write(true).open(grove.join("f0000000")).unwrap();
    let was = fs::read(grove.join("f0000000")).unwrap()[5_000];
    file.write_all_at(&[was ^ 4], 5_000).unwrap();
    drop(file);
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    let wrong = done.finding("fsop-content-wrong");
    assert_eq!(wrong["severity"], "void", "{wrong}");
    let part = "writer 0: f0000000 has 1 other bytes of 8192, the first at 5000";
    assert!(wrong["summary"].as_str().unwrap().contains(part), "{wrong}");
    assert_eq!(done.result()["verdict"], "void");
    done.has_not("fsop-content-verified");
    sandbox.nothing_left(&[ground.dir()]);
    sandbox.refuses(
        &["run", "fsop", p(ground.dir()), "phases=1r", "verify=yes"],
        2,
        &["verify=yes", "no phase has any"],
    );
}

/// Others take the inodes that writers leave alone.
fn without_inodes() {
    let sandbox = Sandbox::new();
    let ground = Ground::made(FsKind::Ext4, 2_048, &["-N", "60000"], "");
    let running = writing(&sandbox, ground.dir());
    let thief = ground.dir().join("thief");
    fs::create_dir(&thief).unwrap();
    let taken = |number: &u32| fs::File::create(thief.join(number.to_string())).is_ok();
    let count = (0..).take_while(taken).count();
    assert!(count > 20_000, "{count}");
    let done = running.finish();
    failed(&done, &[28], "no space or no inodes are left");
    fs::remove_dir_all(thief).unwrap();
    sandbox.nothing_left(&[ground.dir()]);
}

/// Names as long as they may be, in directories deeper than a path may be long.
fn long_and_deep() {
    const LEVELS: usize = 40;
    let sandbox = Sandbox::new();
    let name = CString::new("n".repeat(255)).unwrap();
    let file = CString::new("f".repeat(255)).unwrap();
    let mut at = WalkedDir::open(&sandbox.dir()).unwrap();
    for _ in 0..LEVELS {
        at.make_dir(&name).unwrap();
        at = at.below(&name, false).unwrap();
        let file = at.create_write(&file).unwrap();
        assert_eq!(walked::write(&file, b"hello").unwrap(), 5);
    }
    drop(at);
    let dir = sandbox.dir();
    let args = ["run", "fsop", p(&dir), "phases=1r", "window=2s", "walk=depth", "drop_caches=no"];
    let done = sandbox.json(&args, &[0, 1]);
    let record = &done.records()[0];
    assert_eq!(record["ending"], "complete");
    let reader = &processes(record)[0];
    assert!(reader["rounds"].as_u64().unwrap() > 0, "all of it: {reader}");
    assert_eq!(reader["vanished"].as_u64(), Some(0));
    assert!(count(reader, "open_read") >= LEVELS as u64);
    assert_eq!(count(reader, "first_read"), count(reader, "rest_read"));
    sandbox.nothing_left(&[]);
}

/// An error that the kernel finds, with what it does then: the filesystem is read-only, and nothing can be removed until
/// it is mounted anew. Then it is, and nothing else.
fn read_only() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 8_192, "errors=remount-ro");
    fs::write(ground.dir().join("thesis.txt"), "mine").unwrap();
    let running = writing(&sandbox, ground.dir());
    let device = ground._disk.device.name();
    fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "injected by a test").unwrap();
    let done = running.finish();
    failed(&done, &[30, 5], "dmesg");
    assert_eq!(names(ground.dir()).iter().filter(|name| name.contains("fathom")).count(), 1);
    ground.mount_anew();
    let cleaned = sandbox.run(&["clean", p(ground.dir())]);
    assert!(cleaned.code == 0 && cleaned.stdout.contains("removed"), "{cleaned:?}");
    sandbox.nothing_left(&[ground.dir()]);
    assert_eq!(fs::read(ground.dir().join("thesis.txt")).unwrap(), b"mine");
}

/// Others remove a part of the tree meanwhile: counted, said, no failure.
fn vanishing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    somebodys_tree(&dir);
    let args = ["run", "fsop", p(&dir), "phases=1r", "window=3s", "drop_caches=no"];
    let running = sandbox.start(&args, "progress", 1);
    // Empty directories come and go while they are walked.
    for round in 0..400 {
        let gone = dir.join(format!("dir0/gone{round}"));
        fs::create_dir_all(gone.join("below")).unwrap();
        fs::write(gone.join("file"), "x").unwrap();
        thread::sleep(Duration::from_millis(1));
        fs::remove_dir_all(&gone).unwrap();
    }
    fs::remove_dir_all(dir.join("dir1")).unwrap();
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let record = &done.records()[0];
    assert_eq!(record["ending"], "complete");
    assert_eq!(done.finding("fsop-caches-not-dropped")["severity"], "doubtful");
    assert_eq!(fsop(record)["tree"]["is_ours"], false);
    let gone: u64 = fsop(record)["processes"][0]["vanished"].as_u64().unwrap();
    let said = done.finding("fsop-vanished")["summary"].to_string();
    assert!(gone > 0 && said.contains(&gone.to_string()), "{gone}: {said}");
    sandbox.nothing_left(&[]);
}

/// Killed while it writes: the next start removes what is fathom's, and leaves what is not.
fn kill() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(FsKind::Ext4, 2_048, "");
    for precious in [false, true] {
        let running = writing(&sandbox, ground.dir());
        let is_ours = |name: &String| name.starts_with(".fathom-");
        let own = names(ground.dir()).into_iter().find(is_ours).unwrap();
        let grove = ground.dir().join(&own).join("grove0");
        thread::sleep(Duration::from_millis(400));
        running.signal("KILL");
        assert_eq!(running.finish().code, 137);
        assert!(names(&grove).len() > 3, "{:?}", names(&grove));
        let thesis = grove.join("thesis.txt");
        if precious {
            fs::write(&thesis, "mine").unwrap();
        }
        let next = sandbox.run(&["run", "randread", "null:", "operations=1", "--json"]);
        assert!([0, 1].contains(&next.code), "{next:?}");
        if precious {
            assert!(next.stderr.contains("thesis.txt"), "{next:?}");
            assert_eq!(fs::read(&thesis).unwrap(), b"mine");
            let dir = ground.dir().join(&own);
            assert_eq!(names(&dir.join("grove0")), ["thesis.txt"]);
        } else {
            assert!(next.stderr.contains("left behind by run"), "{next:?}");
            sandbox.nothing_left(&[ground.dir()]);
        }
    }
}

fn interrupted() {
    let sandbox = Sandbox::new();
    somebodys_tree(&sandbox.dir());
    let dir = sandbox.dir();
    let args =
        ["run", "fsop", p(&dir), "phases=1r,1r+1w", "window=60s", "warmup=60s", "drop_caches=no"];
    let running = sandbox.start(&args, "progress", 1);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let records = done.records();
    assert_eq!((records.len(), &records[0]["ending"]), (1, &Value::from("interrupted")));
    assert!(count(&processes(&records[0])[0], "open_read") > 0);
    sandbox.nothing_left(&[]);
}

fn words() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let d = p(&dir);
    for (args, words) in [
        (&["run", "fsop", d][..], &["has nothing to read", "fathom tree build"][..]),
        (&["run", "fsop", d, "windw=1s"], &["windw=1s", "did you mean 'window'?"]),
        (&["run", "fsop", d, "phases=3x"], &["'3x' is no phase"]),
        (&["run", "fsop", d, "--phase=a"], &["--phase does not go with fsop"]),
        (&["run", "fsop", d, "--keep"], &["--keep does not go with fsop", "fathom tree build"]),
        (&["run", "fsop", "/no/such/place"], &["/no/such/place", "does not exist"]),
        (&["run", "fsop", "null:"], &["null:"]),
    ] {
        sandbox.refuses(args, 2, words);
    }
    let list = sandbox.run(&["workloads"]);
    assert!(list.stdout.contains("fsop"), "{list:?}");
    let help = sandbox.run(&["workloads", "fsop"]);
    assert!(help.stdout.contains("sync") && help.stdout.contains("readers"), "{help:?}");
    assert!(list.stdout.contains("exercise"), "{list:?}");
    let help = sandbox.run(&["workloads", "exercise"]);
    assert!(help.code == 0 && help.stdout.contains("operations"), "{help:?}");
}

/// Somebody who may not drop caches is told, and gets figures with a doubt.
fn nobody() {
    const NOBODY: u32 = 65_534;
    let sandbox = Sandbox::new();
    let binary = binary_for_nobody(&sandbox.scratch);
    let home = sandbox.scratch.join("home");
    fs::create_dir(&home).unwrap();
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    somebodys_tree(&tree);
    for path in [&home, &tree] {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let done = run(|| {
        let mut command = as_nobody(&binary);
        command.arg("--db").arg(home.join("fathom.db")).args(["--json", "run", "fsop", p(&tree)]);
        command.args(["phases=1r,1r+1w", "window=500ms", "warmup=100ms"]);
        command
    });
    assert_eq!(done.code, 1, "{done:?}");
    let finding = done.finding("fsop-caches-not-dropped");
    assert!(finding["summary"].as_str().unwrap().contains("cannot be dropped"), "{finding}");
    assert_eq!(done.records().len(), 2);
    assert!(!names(&tree).iter().any(|name| name.contains("fathom")), "{:?}", names(&tree));
}
