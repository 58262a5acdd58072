//! Many files, trims and zero ranges, shared positions, as a user asks for them.

use crate::cli::{Done, Sandbox, bytes, names, operations, p, run};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, IoUring, LoopDevices, MountFs, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, Trial, counted, kernel_test, loopdev, sample,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let kills = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("kill")];
    let devices = [FathomBinary, LoopDevices, MountFs("ramfs")];
    let limits = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("prlimit"), IoUring];
    vec![
        kernel_test("many_files_with_few_open", &ext4, many_files),
        kernel_test("slow_ones_name_their_file", &[FathomBinary], slow_ones_name_their_file),
        kernel_test("every_file_is_really_written", &ext4, really_written),
        kernel_test("files_within_the_limit_of_descriptors", &limits, descriptors),
        kernel_test("more_files_than_there_is_room_for", &ext4, no_room),
        kernel_test("killed_with_many_files", &kills, killed),
        kernel_test("trims_free_space_in_files", &ext4, trim_file),
        kernel_test("reads_beside_trims_are_a_note", &ext4, reads_beside_trims),
        kernel_test("trims_reach_the_device", &devices, trim_device),
        kernel_test("trims_at_great_depth_hit_their_own_range", &devices, trim_deep),
        kernel_test("trims_below_the_unit_are_doubtful", &[FathomBinary, LoopDevices], trim_unit),
        kernel_test("jobs_share_one_position", &[FathomBinary], shared_position),
        kernel_test("orders_on_a_real_file", &[FathomBinary], orders),
    ]
}

/// How often an operation of a class ended in the first job.
fn count(record: &Value, class: &str) -> u64 {
    let classes = record["jobs"][0]["classes"].as_array().unwrap();
    let found = classes.iter().find(|known| known["class"] == class);
    found.map_or(0, |class| class["latency_ns"]["count"].as_u64().unwrap())
}

/// Offsets of all operations of a job, in blocks of 4 KiB: of a hundred operations all are among the slowest.
fn blocks(job: &Value) -> Vec<u64> {
    let slowest = job["slowest"].as_array().unwrap();
    slowest.iter().map(|op| op["offset_bytes"].as_u64().unwrap() / 4096).collect()
}

fn many_files() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &["-N", "150000"], "");
    let files = sample(1000, 100_000);
    let (files_key, size) = (format!("files={files}"), format!("size={}", files * 8192));
    for (engine, depth) in [("io_uring", "depth=4"), ("psync", "depth=1"), ("libaio", "depth=4")] {
        let engine = format!("engine={engine}");
        let args = ["run", "randread", p(fs.dir()), &files_key, &size, &engine, depth];
        let more = ["files_open=50", "write_fraction=0.3", "fsync_every=50", "operations=5000"];
        let done = sandbox.json(&[&args[..], &more].concat(), &[0, 1]);
        let record = &done.records()[0];
        assert_eq!(operations(record), 5000, "{engine}");
        assert_eq!(bytes(record), 5000 * 4096);
        // In turn over a thousand with fifty open: each request finds its file closed, but for the first fifty.
        assert_eq!(count(record, "open"), 4950, "{engine}");
        assert_eq!(count(record, "sync"), count(record, "synced_write"));
        sandbox.nothing_left(&[fs.dir()]);
    }
    // While it runs: no more of them are open than was asked for, and their number costs little memory.
    let args = ["run", "randread", p(fs.dir()), &files_key, &size, "files_open=50"];
    let more = ["engine=psync", "depth=1", "duration=10m"];
    let running = sandbox.start(&[&args[..], &more].concat(), "progress", 1);
    let process = PathBuf::from(format!("/proc/{}", running.pid()));
    let links = fs::read_dir(process.join("fd")).unwrap().flatten();
    let links: Vec<PathBuf> = links.filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    let open = links.iter().filter(|link| link.starts_with(fs.dir())).count();
    let status = fs::read_to_string(process.join("status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    running.signal("INT");
    assert_eq!(running.finish().code, 130);
    assert!((50..60).contains(&open), "{open} files are open: {links:?}");
    assert!(peak_kib < 100 << 10, "{peak_kib} KiB");
    counted("files in one job", files);
}

/// With fewer requests than are kept, the slowest are all of them: each with its own file and place, also where files
/// take turns at being open.
fn slow_ones_name_their_file() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args =
        ["run", "randread", p(&dir), "access=sequential", "files=5", "size=160k", "direct=no"];
    let expected: BTreeSet<(u64, u64)> =
        (0..5).flat_map(|file| (0..8).map(move |block| (file, block * 4096))).collect();
    for more in [&["files_open=5", "depth=4"][..], &["files_open=2", "depth=2"]] {
        let done = sandbox.json(&[&args[..], more, &["amount=160k"]].concat(), &[0, 1]);
        let record = done.records().remove(0);
        let slow = record["jobs"][0]["slowest"].as_array().unwrap();
        let number = |op: &Value, key: &str| op[key].as_u64().unwrap();
        let reads = slow.iter().filter(|op| op["class"] == "read");
        let found: Vec<(u64, u64)> =
            reads.map(|op| (number(op, "file"), number(op, "offset_bytes"))).collect();
        assert_eq!(found.len(), 40, "{more:?}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{more:?}");
    }
    let shown = sandbox.run(&["show", sandbox.runs()[0]["id"].as_str().unwrap()]);
    assert!(shown.stdout.contains(" of file "), "{}", shown.stdout);
}

/// The test files of a run that kept them.
fn kept_files(dir: &Path) -> Vec<PathBuf> {
    let own = names(dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
    let own = dir.join(own);
    let inner = names(&own).into_iter().filter(|name| name.starts_with('d'));
    let mut files: Vec<PathBuf> = inner
        .flat_map(|name| {
            let inner = own.join(name);
            names(&inner).into_iter().map(move |file| inner.join(file))
        })
        .collect();
    files.sort();
    files
}

fn really_written() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    // 1200 files over two directories, each of two blocks and no more.
    let args = ["run", "randread", p(fs.dir()), "files=1200", "size=10M", "--keep"];
    sandbox.json(&[&args[..], &["operations=10"]].concat(), &[0, 1]);
    let files = kept_files(fs.dir());
    assert_eq!(files.len(), 1200);
    for file in &files {
        let (meta, data) = (fs::metadata(file).unwrap(), fs::read(file).unwrap());
        assert_eq!((meta.len(), meta.blocks() * 512), (8192, 8192), "{}", file.display());
        assert!(data.chunks(4096).all(|block| fathom_base::stamp::is_stamp(&block[..16])));
    }
    // A sync at the end, over all of them, is inside the measured time.
    let args = ["run", "randwrite", p(fs.dir()), "files=100", "size=1M", "files_open=32"];
    let more = ["operations=500", "sync_at_end=fdatasync", "depth=8"];
    let done = sandbox.json(&[&args[..], &more].concat(), &[0, 1]);
    assert!(done.records()[0]["jobs"][0]["final_sync_ns"].as_u64().unwrap() > 0);
}

fn descriptors() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let limited = |limit: &str, more: &[&str]| -> Done {
        run(|| {
            let args = ["--json", "--quiet", "run", "randread", p(fs.dir())];
            let all = ["files=1000", "size=8M", "operations=3000"];
            let fathom = sandbox.command(&[&args[..], &all, more].concat());
            let mut command = tool("prlimit");
            command.arg(format!("--nofile={limit}:{limit}")).arg(fathom.get_program());
            command.args(fathom.get_args());
            command
        })
    };
    let done = limited("250", &["threads=2", "depth=8"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert_eq!(operations(&done.records()[0]), 3000);
    assert!(count(&done.records()[0], "open") > 2000, "not all can be open");
    // Enough for all of them: nothing is opened while measuring.
    let done = limited("2000", &["threads=2", "depth=8"]);
    assert_eq!(count(&done.records()[0], "open"), 0);
    // However few: so many are open at a time.
    let done = limited("100", &["depth=4"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert_eq!(operations(&done.records()[0]), 3000);
    assert!(count(&done.records()[0], "open") > 2000, "few can be open");
    for (more, cure) in [
        (&["threads=8", "depth=32"][..], "less depth"),
        (&["threads=8", "depth=8", "files_open=100"], "a smaller files_open"),
    ] {
        let done = limited("100", more);
        assert_eq!(done.code, 4, "{done:?}");
        for word in ["opening its files", "limit of 100 descriptors", "ulimit -n", cure] {
            assert!(done.stderr.contains(word), "'{word}' is not in {done:?}");
        }
        sandbox.nothing_left(&[fs.dir()]);
        // The limit that is named is enough.
        let named = done.stderr.split_once("raise it to ").unwrap().1.split(' ').next().unwrap();
        let done = limited(named, more);
        assert!([0, 1].contains(&done.code), "{named}: {done:?}");
    }
    // Writing the test files needs no more than the job.
    let alone = ["engine=psync", "depth=1"];
    let done = (60..100).map(|limit| limited(&limit.to_string(), &alone)).find(|done| {
        assert!(!done.stderr.contains("layout"), "{done:?}");
        done.code < 2
    });
    assert!(done.is_some_and(|done| operations(&done.records()[0]) == 3000));
    // The kernel's thread takes requests up when it likes: no file may change its number.
    let done = limited("250", &["sqpoll=yes", "depth=8"]);
    let words = ["sqpoll=yes needs all files open", "limit of 250 descriptors", "its 1000 files"];
    let named = |done: &Done| -> String {
        assert!(
            done.code == 4 && words[1..].iter().all(|word| done.stderr.contains(word)),
            "{done:?}"
        );
        done.stderr.split_once("raise it to ").unwrap().1.split(' ').next().unwrap().to_owned()
    };
    assert!(done.stderr.contains(words[0]), "{done:?}");
    let done = limited(&named(&done), &["sqpoll=yes", "depth=8"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    // A mapping stays with its file: what is opened under the same number later would not be read at all.
    let mapped = ["engine=mmap", "direct=no", "depth=1"];
    let done = limited("250", &mapped);
    assert!(done.stderr.contains("maps every file once"), "{done:?}");
    let done = limited(&named(&done), &mapped);
    assert!([0, 1].contains(&done.code), "{done:?}");
}

fn no_room() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &["-N", "2000"], "");
    let run = |more: &[&str], code, words: &[&str]| {
        sandbox.refuses(&[&["run", "randread", p(fs.dir())], more].concat(), code, words);
    };
    run(&["files=5000", "size=100M"], 4, &["more files", "files=5 000", "more inodes"]);
    run(&["files=1000", "size=1T"], 4, &["needs 1024.0 GiB more", "can be used"]);
    run(
        &["files=1000", "size=1M"],
        2,
        &["files=1000 is 1.0 KiB for each file", "size=4000k or more"],
    );
    // A file takes a whole block: 512 bytes each would fit, 4 KiB each do not.
    let many = ["files=1000000", "size=600M", "block_size=512"];
    let refused = sandbox.run(&[&["run", "randread", p(fs.dir())], &many[..]].concat());
    assert!([3, 4].contains(&refused.code), "{refused:?}");
    sandbox.nothing_left(&[fs.dir()]);
}

fn killed() {
    let fs = mounted(FsKind::Ext4, &["-N", "100000"], "");
    // While the files are made, written, measured.
    for (kind, wait_ms) in [("note", 5), ("note", 120), ("progress", 50)] {
        let sandbox = Sandbox::new();
        let args = ["run", "randread", p(fs.dir()), "files=20000", "size=160M"];
        let more = ["duration=10m", "write_fraction=0.5"];
        let running = sandbox.start(&[&args[..], &more].concat(), kind, 1);
        crate::cli::wait_until("there is something to tidy up", || {
            names(fs.dir()).iter().any(|name| name.contains("fathom"))
        });
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        running.signal("KILL");
        assert_eq!(running.finish().code, 128 + 9);
        let left = names(fs.dir()).into_iter().filter(|name| name.contains("fathom")).count();
        assert_eq!(left, 1, "kill -9 lets nobody tidy up");
        let next = sandbox.json(&["run", "randread", "null:", "operations=100"], &[0, 1]);
        assert!(!next.stdout.contains("stays"), "{next:?}");
        sandbox.nothing_left(&[fs.dir()]);
    }
}

fn trim_file() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = fs.dir().join("new");
    let used = || fs::metadata(&file).unwrap().blocks() * 512;
    let pass = |key: &str, engine: &str| {
        let args = ["run", "seqread", p(&file), "size=32M", "--keep", key, "block_size=1M"];
        let more = [engine, "depth=1", "access=sequential", "amount=32M", "duration=60s"];
        let done = sandbox.json(&[&args[..], &more].concat(), &[0, 1]);
        done.records()[0].clone()
    };
    for engine in ["engine=io_uring", "engine=psync"] {
        let record = pass("trim_fraction=1", engine);
        assert_eq!(count(&record, "trim"), 32);
        assert_eq!(bytes(&record), 0, "what is given back is not moved");
        assert!(used() < 1 << 20, "{} bytes are still there", used());
        assert_eq!(fs::metadata(&file).unwrap().len(), 32 << 20, "it is no shorter");
        fs::remove_file(&file).unwrap();
        let record = pass("zero_fraction=1", engine);
        assert_eq!(count(&record, "zero"), 32);
        assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 0));
        assert!(used() >= 32 << 20, "zeroed, not given back");
        fs::remove_file(&file).unwrap();
    }
    // Somebody's file is not trimmed, as it is not written.
    let theirs = fs.dir().join("theirs");
    fs::write(&theirs, vec![7u8; 1 << 20]).unwrap();
    for key in ["trim_fraction=0.1", "zero_fraction=0.1"] {
        let refused = sandbox.run(&["run", "randread", p(&theirs), key, "operations=10"]);
        assert_eq!(refused.code, 3, "{refused:?}");
    }
    assert_eq!(fs::read(&theirs).unwrap(), vec![7u8; 1 << 20]);
}

/// Reads beside trims are a measurement, with a note; the null engine on a directory is none.
fn reads_beside_trims() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["run", "randread", p(fs.dir()), "size=16M", "operations=4000"];
    let mixed = sandbox.json(&[&args[..], &["trim_fraction=0.2"]].concat(), &[0, 1]);
    assert_eq!(mixed.finding("reads-of-trimmed")["severity"], "note");
    mixed.has_not("unwritten-extents");
    let only = sandbox.json(&[&args[..], &["trim_fraction=1"]].concat(), &[0, 1]);
    ["nothing-measured", "too-few"].iter().for_each(|id| only.has_not(id));
    let null = sandbox.json(&[&args[..], &["engine=null"]].concat(), &[1]);
    assert_eq!(null.finding("null-engine")["severity"], "void");
}

fn trim_device() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(32 << 20, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let used = || fs::metadata(device.backing()).unwrap().blocks() * 512;
    let consent = format!("--destroy={}", device.backing().display());
    let args = ["run", "seqread", p(device.path()), "trim_fraction=1", "block_size=1M"];
    let more = ["engine=psync", "depth=1", "amount=32M", "duration=60s"];
    let before = used();
    assert!(before >= 32 << 20);
    sandbox.refuses(&[&args[..], &more].concat(), 3, &["--destroy="]);
    assert_eq!(used(), before, "without consent nothing is trimmed");
    let done = sandbox.json(&[&args[..], &more, &[&consent]].concat(), &[0, 1]);
    assert_eq!(count(&done.records()[0], "trim"), 32);
    assert!(used() < 1 << 20, "{} bytes are still there", used());
    // A device without discard: ramfs cannot make holes. A limit set to zero would stay with the device for ever.
    let memory = Mount::new("ramfs", Path::new("ramfs"), "").unwrap();
    let backing = memory.backing().unwrap();
    loopdev::make_file(&backing, 32 << 20, Content::Zeros).unwrap();
    let device = LoopDevice::over(&backing, &LoopOptions::default()).unwrap();
    let consent = format!("--destroy={}", backing.display());
    let args = ["run", "seqread", p(device.path()), "trim_fraction=1", "block_size=1M"];
    let refused = sandbox.run(&[&args[..], &more, &[&consent]].concat());
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("no discard"), "{refused:?}");
    assert!(
        !refused.stderr.contains("DESTROYS"),
        "nothing is announced that is refused: {refused:?}"
    );
    // What is in the page cache keeps the kernel from clearing it. Where nothing is written, nothing is there.
    let cached = ["run", "randwrite", p(device.path()), "direct=no", "engine=psync", "depth=1"];
    let mixed = ["write_fraction=0.5", "zero_fraction=0.2", "operations=100", &consent];
    let refused = sandbox.run(&[&cached[..], &mixed].concat());
    refused.is_refusal(4, &["zero", "direct=no", "busy", "use direct=yes"]);
    let unwritten = ["write_fraction=0", "zero_fraction=0.2", "operations=100", &consent];
    sandbox.json(&[&cached[..], &unwritten].concat(), &[0, 1]);
    let part = ["write_fraction=0", "zero_fraction=1", "align=100", "duration=1s", &consent];
    let refused = sandbox.run(&[&cached[..], &part].concat());
    refused.is_refusal(2, &["align=100 B", "logical block", "use a multiple"]);
    cached_by_others(&sandbox, device.path(), &consent);
    // Zeros can be had from it, but only by writing them.
    let zeros = ["run", "seqread", p(device.path()), "zero_fraction=1", "block_size=1M"];
    let done = sandbox.json(&[&zeros[..], &more, &[&consent]].concat(), &[0, 1]);
    assert_eq!(done.finding("zeros-sent")["severity"], "note");
    // A filesystem that makes no holes.
    let place = memory.dir().join("place");
    fs::create_dir(&place).unwrap();
    let args = ["run", "randread", p(&place), "direct=no", "size=4M", "operations=10"];
    for (kind, word) in
        [("trim_fraction=1", "cannot do trim"), ("zero_fraction=1", "cannot do zero")]
    {
        let refused = sandbox.run(&[&args[..], &[kind]].concat());
        refused.is_refusal(4, &[word, "job 'read'", "ext4, XFS or btrfs"]);
    }
    sandbox.nothing_left(&[&place]);
}

/// What another job leaves in the page cache is in the way as well: beside it nothing is cleared, after it everything.
fn cached_by_others(sandbox: &Sandbox, device: &Path, consent: &str) {
    let jobs = |phases: [&str; 2]| {
        format!(
            "name = 'x'\n[[job]]\nname = 'w'\n{}write_fraction = 1\ndirect = false\nengine = 'psync'\ndepth = 1\n\
             operations = 500\n[[job]]\nname = 'z'\n{}write_fraction = 0\nzero_fraction = 1\ndepth = 4\noperations = 500\n",
            phases[0], phases[1]
        )
    };
    let file = sandbox.scratch.join("jobs.toml");
    let args = ["run", p(&file), p(device), consent];
    fs::write(&file, jobs(["", ""])).unwrap();
    sandbox.run(&args).is_refusal(4, &["zero", "direct=no", "job w", "busy", "use direct=yes"]);
    fs::write(&file, jobs(["phase = 'one'\n", "phase = 'two'\n"])).unwrap();
    for _ in 0..3 {
        let done = sandbox.json(&args, &[0, 1]);
        assert_eq!(count(&done.records()[1], "zero"), 500);
    }
}

/// More requests than the device has room for: none is refused, and no trim hits what was written.
fn trim_deep() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(32 << 20, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let consent = format!("--destroy={}", device.backing().display());
    let args = ["run", "randwrite", p(device.path()), &consent, "block_size=512-8k", "align=512"];
    let more = ["depth=1000", "write_fraction=0.4", "trim_fraction=0.2", "verify=after"];
    for _ in 0..3 {
        let done = sandbox.json(&[&args[..], &more, &["duration=500ms"]].concat(), &[0, 1]);
        let record = &done.records()[0];
        assert!(count(record, "trim") > 0);
        assert_eq!(record["jobs"][0]["verify"]["mismatches"], 0);
    }
}

/// A unit in which space is given back that is larger than the trims.
fn trim_unit() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(32 << 20, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let unit =
        fs::read_to_string(format!("/sys/block/{}/queue/discard_granularity", device.name()));
    let unit: u64 = unit.unwrap().trim().parse().unwrap();
    assert!(unit > 512, "a loop device over a file gives back its blocks: {unit}");
    let consent = format!("--destroy={}", device.backing().display());
    let args = ["run", "randread", p(device.path()), "trim_fraction=1", "engine=psync", "depth=1"];
    let args = [&args[..], &["operations=100", &consent]].concat();
    let small = sandbox.json(&[&args[..], &["block_size=512"]].concat(), &[1]);
    assert_eq!(small.finding("trim-below-granularity")["severity"], "doubtful");
    let whole = sandbox.json(&[&args[..], &[&format!("block_size={unit}")]].concat(), &[0, 1]);
    whole.has_not("trim-below-granularity");
}

fn shared_position() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("two.toml");
    let job = |name: &str, cursor: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\naccess = \"sequential\"\nblock_size = \"4k\"\noperations = 40\n{cursor}\n"
        )
    };
    let head = "name = \"two\"\ntitle = \"two readers\"\ndescription = \"of one stream\"\n";
    let offsets = |cursor: &str| {
        let text = format!("{head}{}{}", job("a", cursor), job("b", cursor));
        fs::write(&file, text).unwrap();
        let done = sandbox.json(&["run", p(&file), p(&sandbox.dir()), "size=8M"], &[0, 1]);
        let record = done.records()[0].clone();
        let mut all: Vec<u64> =
            record["jobs"].as_array().unwrap().iter().flat_map(blocks).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(offsets("cursor = \"workload\""), (0..80).collect::<Vec<_>>());
    let apart: Vec<u64> = (0..40).flat_map(|block| [block, block]).collect();
    assert_eq!(offsets("cursor = \"job\""), apart);
}

fn orders() {
    let sandbox = Sandbox::new();
    let visited = |more: &[&str]| {
        let dir = sandbox.dir();
        let args = ["run", "randread", p(&dir), "size=256k", "duration=60s"];
        let all = ["threads=2", "depth=2", "align=4k"];
        let done = sandbox.json(&[&args[..], &all, more].concat(), &[0, 1]);
        let mut all = blocks(&done.records()[0]["jobs"][0]);
        all.sort_unstable();
        all
    };
    let once: Vec<u64> = (0..64).collect();
    for order in [
        &["access=shuffled", "operations=64"][..],
        &["access=reverse", "amount=256k"],
        &["access=reverse", "amount=256k", "cursor=job"],
        &["access=strided", "stride=20k", "amount=256k", "cursor=job"],
        &["access=iozone", "amount=256k"],
    ] {
        assert_eq!(visited(order), once, "{order:?}");
    }
    let sweep = visited(&["access=sweep", "sweep_points=8"]);
    assert_eq!(sweep, (0..8).map(|i| i * 9).collect::<Vec<u64>>());
}
