//! Beside the originals on the same files, with one thread and a fixed number of requests: counts and sizes agree exactly;
//! rates and latencies are printed, and must lie within a factor of three, as machines are noisy.

use crate::classics::{count_of, sysbench_phase};
use crate::cli::{Sandbox, bytes, operations, p};
use fathom_testkit::Capability::{LoopDevices, Root, Tool};
use fathom_testkit::{LoopDevice, Trial, command, kernel_test};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("sysbench_asks_for_the_same", &[Tool("sysbench"), Tool("strace")], sysbench),
        kernel_test("sysbench_is_about_as_fast", &[Tool("sysbench")], sysbench_rate),
        kernel_test("dd_copies_the_same", &[], dd),
        kernel_test("dd_writes_the_same", &[Tool("strace")], dd_writes),
        kernel_test("ioping_asks_for_the_same", &[Tool("ioping"), Tool("strace")], ioping_counts),
        kernel_test("ioping_waits_as_long", &[Tool("ioping")], ioping),
        kernel_test("sysbench_threads_sync_as_often", &[Tool("sysbench")], sysbench_threads),
        kernel_test("bonnie_asks_for_the_same", &[Root, Tool("bonnie++"), Tool("strace")], bonnie),
        kernel_test("hdparm_reads_as_much", &[LoopDevices, Tool("hdparm"), Tool("strace")], hdparm),
    ]
}

/// The only file or files that a kept run has left in a directory.
fn kept_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(place) = pending.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else if entry.metadata().unwrap().len() > 4096 {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Runs a command to its good end; what strace saw of the named calls, and what the command said.
fn traced(command: &Command, calls: &str, trace: &Path) -> (String, String) {
    let mut strace = command::tool("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={calls}"), "-o", p(trace)]);
    strace.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        strace.current_dir(directory);
    }
    let output = strace.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    (fs::read_to_string(trace).unwrap(), said)
}

/// Calls of a traced program: reads, writes and syncs of files, with the bytes of the first two.
fn sysbench_calls(trace: &str) -> ([u64; 3], u64) {
    let mut counts = [0; 3];
    let mut moved = 0;
    // Its own libraries are read with pread64, too: only whole blocks count.
    let of_block = |line: &str| line.ends_with("= 16384");
    for line in trace.lines() {
        match line {
            _ if line.contains("pread64(") && of_block(line) => counts[0] += 1,
            _ if line.contains("pwrite64(") && of_block(line) => counts[1] += 1,
            _ if line.contains("fsync(") && line.ends_with("= 0") => counts[2] += 1,
            _ => continue,
        }
        moved += if of_block(line) { 16384 } else { 0 };
    }
    (counts, moved)
}

/// The original on four files in a directory; `size` of all together, such as `16M`.
fn sysbench_command(dir: &Path, size: &str, more: &[&str]) -> Command {
    let mut command = command::tool("sysbench");
    let size = format!("--file-total-size={size}");
    command.current_dir(dir).args(["fileio", "--file-num=4", &size]).args(more);
    command
}

/// Gives the files of a kept run the names that the original looks for, in the same directory.
fn link_for_sysbench(dir: &Path) {
    let files = kept_files(dir);
    assert_eq!(files.len(), 4, "{files:?}");
    for (number, file) in files.iter().enumerate() {
        std::os::unix::fs::symlink(file, dir.join(format!("test_file.{number}"))).unwrap();
    }
}

fn reads_writes_syncs(record: &Value) -> [u64; 3] {
    ["read", "write", "sync"].map(|class| count_of(record, class))
}

/// All six modes: 1000 reads and writes on 4 files, and what they are synchronised with.
fn sysbench() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for mode in ["rndrw", "rndwr", "rndrd", "seqrd", "seqrewr", "seqwr"] {
        let more = ["operations=1000", "direct=no", "--keep"];
        let record = sysbench_phase(&sandbox, mode, "size=16M", &more).records().swap_remove(0);
        link_for_sysbench(&dir);
        // Version 1.0 counts syncs as events: ten rounds of four where something is written.
        let events = if mode.ends_with("rd") { 1000 } else { 1040 };
        let more = [
            "--file-block-size=16384",
            "--file-fsync-freq=100",
            "--file-fsync-end=off",
            "--threads=1",
            "--time=0",
            &format!("--events={events}"),
            &format!("--file-test-mode={mode}"),
            "run",
        ];
        let command = sysbench_command(&dir, "16M", &more);
        let traced = traced(&command, "pread64,pwrite64,fsync", &sandbox.scratch.join("trace"));
        let (theirs, moved) = sysbench_calls(&traced.0);
        let ours = reads_writes_syncs(&record);
        assert_eq!(ours, theirs, "{mode}: reads, writes, fsyncs\n{}", traced.1);
        assert_eq!(bytes(&record), moved, "{mode}: bytes");
        println!("{mode}: {theirs:?} reads, writes, fsyncs");
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap()
            } else {
                fs::remove_file(path).unwrap()
            }
        }
    }
}

/// The published comparison in small: direct I/O, the fixed mix of reads and writes, syncs of all files.
fn sysbench_rate() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let more = ["operations=2000", "--keep"];
    let record = sysbench_phase(&sandbox, "rndrw", "size=64M", &more).records().swap_remove(0);
    link_for_sysbench(&dir);
    let more = [
        "--file-extra-flags=direct",
        "--file-fsync-end=off",
        "--rand-type=uniform",
        "--threads=1",
        "--time=0",
        "--events=2080",
        "--file-test-mode=rndrw",
        "run",
    ];
    let output = sysbench_command(&dir, "64M", &more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let per_second = |key: &str| -> f64 {
        let line = said.lines().find(|line| line.trim().starts_with(key)).unwrap();
        line.split(':').nth(1).unwrap().trim().parse().unwrap()
    };
    let ours = 2000.0 / (record["window_ns"].as_f64().unwrap() / 1e9);
    let theirs = per_second("reads/s") + per_second("writes/s");
    println!("rndrw: ours {ours:.0}/s, sysbench {theirs:.0}/s");
    assert!((1.0 / 3.0..3.0).contains(&(ours / theirs)), "{ours} {said}");
}

/// Reading a file of an odd size: the same records, the last one partial, and the same bytes.
fn dd() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = dir.join("odd");
    let made = sandbox
        .json(&["run", "dd", p(&file), "size=40000001", "amount=40000001", "--keep"], &[0, 1]);
    assert_eq!(made.records().len(), 1);
    assert_eq!(fs::metadata(&file).unwrap().len(), 40_000_001);
    for block in ["1000", "65536", "1048576", "30000000", "50000000"] {
        let block_size = format!("block_size={block}");
        let args = [
            "run",
            "dd",
            p(&file),
            "write_fraction=0",
            &block_size,
            "amount=1G",
            "--style=classic",
        ];
        let ours = sandbox.run(&args);
        assert!([0, 1].contains(&ours.code), "{ours:?}");
        let input = format!("if={}", file.display());
        let output = Command::new("dd")
            .env("LC_ALL", "C")
            .args([input.as_str(), "of=/dev/null", &format!("bs={block}")])
            .output()
            .unwrap();
        let theirs = String::from_utf8_lossy(&output.stderr).into_owned();
        let without_time = |text: &str| -> Vec<String> {
            let lines = text.lines().skip_while(|line| !line.contains("records in")).take(3);
            lines.map(|line| line.split(" copied").next().unwrap().to_owned()).collect()
        };
        assert_eq!(without_time(&ours.stdout), without_time(&theirs), "bs={block}");
        println!("bs={block}: {}", theirs.lines().last().unwrap_or_default());
    }
}

/// The form with which streams are written: calls, sizes, syncs and lines of both, buffered with a sync at the end and direct.
fn dd_writes() {
    const MIB: u64 = 1 << 20;
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let trace = sandbox.scratch.join("trace");
    // Writes of a whole block, data syncs.
    let calls = |trace: &str| {
        let of = |call: &str, end: &str| {
            let is_it = |line: &&str| line.contains(call) && line.ends_with(end);
            trace.lines().filter(is_it).count()
        };
        let writes = of("write(1<", "= 1048576") + of("pwrite64(", "= 1048576");
        (writes, of("fdatasync(", "= 0"))
    };
    for (ours, theirs) in [("direct=no", "conv=fdatasync"), ("direct=yes", "oflag=direct")] {
        let (own, other) = (dir.join("own"), dir.join("other"));
        let sync = if ours == "direct=no" { "sync_at_end=fdatasync" } else { "sync_at_end=none" };
        let args = ["run", "dd", p(&own), "size=64M", "amount=64M", "block_size=1M", ours, sync];
        let command = sandbox.command(&[&args[..], &["--style=classic", "--keep"]].concat());
        let (seen, said) = traced_calls(&command, "write,pwrite64,fdatasync", &trace);
        let mut dd = Command::new("dd");
        dd.env("LC_ALL", "C").args(["if=/dev/zero", "bs=1M", "count=64", theirs]);
        dd.arg(format!("of={}", other.display()));
        let (their_trace, their_text) = traced_calls(&dd, "write,pwrite64,fdatasync", &trace);
        assert_eq!(calls(&seen), calls(&their_trace), "{theirs}: writes, fdatasyncs");
        assert_eq!(calls(&seen).0, 64);
        let lines = |text: &str| -> Vec<String> {
            let kept = text.lines().skip_while(|line| !line.contains("records in")).take(3);
            kept.map(|line| line.split(" copied").next().unwrap().to_owned()).collect()
        };
        assert_eq!(lines(&said), lines(&their_text), "{theirs}");
        assert_eq!(lines(&said).len(), 3, "{said}");
        for file in [&own, &other] {
            assert_eq!(fs::metadata(file).unwrap().len(), 64 * MIB);
            fs::remove_file(file).unwrap();
        }
    }
}

/// Runs a command under strace; what that saw, and all that the command said. A doubtful result is one.
pub fn traced_calls(command: &Command, calls: &str, trace: &Path) -> (String, String) {
    let mut strace = command::tool("strace");
    strace.args(["-f", "-y", "-qq", "-e", &format!("trace={calls}"), "-o", p(trace)]);
    strace.arg(command.get_program()).args(command.get_args()).env("LC_ALL", "C");
    let begun = Instant::now();
    let (output, said) = loop {
        let output = strace.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        // Of another test.
        if !said.contains("another measurement is running") || begun.elapsed().as_secs() > 300 {
            break (output, said);
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(output.status.code().is_some_and(|code| code < 2), "{said}");
    (fs::read_to_string(trace).unwrap(), said)
}

/// A fixed number of direct reads of 4 KiB: as many calls, of the same size, at places of the same grid.
fn ioping_counts() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "seeker", p(&dir), "size=64M", "duration=1s", "engine=psync", "--keep"];
    sandbox.json(&args, &[0, 1]);
    let file = kept_files(&dir).swap_remove(0);
    let trace = sandbox.scratch.join("trace");
    let reads = |trace: &str| {
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_read = |line: &&str| line.contains(name) && line.ends_with("= 4096");
        let offset = |line: &str| -> u64 {
            let arguments = line.rsplit_once(')').map_or(line, |(before, _)| before);
            arguments.rsplit(", ").next().unwrap().parse().unwrap()
        };
        let offsets: Vec<u64> = trace.lines().filter(is_read).map(offset).collect();
        assert!(offsets.iter().all(|at| at % 4096 == 0 && at + 4096 <= 64 << 20));
        offsets.len()
    };
    let mut ioping = command::tool("ioping");
    ioping.args(["-D", "-q", "-i", "0", "-c", "1000", "-s", "4k"]).arg(&file);
    let (theirs, said) = traced_calls(&ioping, "pread64", &trace);
    let args = ["run", "seeker", p(&file), "operations=1000", "engine=psync", "--quiet"];
    let (ours, _) = traced_calls(&sandbox.command(&args), "pread64", &trace);
    assert_eq!(reads(&ours), 1000);
    assert_eq!(reads(&theirs), 1000, "{said}");
}

/// Direct random reads of 4 KiB, one at a time: the mean latency of the original. In turn, and once of three is enough: what
/// others do to the machine meanwhile hits one of the two.
fn ioping() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "seeker", p(&dir), "size=64M", "duration=1s", "engine=psync", "--keep"];
    sandbox.json(&args, &[0, 1]);
    let file = kept_files(&dir).swap_remove(0);
    let measure = || {
        let args = ["run", "seeker", p(&file), "duration=1s", "engine=psync"];
        let record = sandbox.json(&args, &[0, 1]).records().swap_remove(0);
        let ours_ns = record["window_ns"].as_f64().unwrap() / count_of(&record, "read") as f64;
        // -B prints figures only: requests, time, rate, bytes/s, then min, mean, max and deviation in ns.
        let output = command::tool("ioping")
            .args(["-B", "-D", "-q", "-i", "0", "-w", "1", "-s", "4k"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let figures = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let theirs_ns = figures.collect::<Vec<f64>>()[5];
        println!("mean latency: ours {ours_ns:.0} ns, ioping {theirs_ns:.0} ns");
        ours_ns / theirs_ns
    };
    let mut ratios = Vec::new();
    let is_alike = |ratio: &f64| (1.0 / 3.0..3.0).contains(ratio);
    while ratios.len() < 3 && !ratios.last().is_some_and(is_alike) {
        ratios.push(measure());
    }
    assert!(ratios.last().is_some_and(is_alike), "{ratios:?}");
}

/// Four threads on four files: as many syncs, and the fairness lines of both.
fn sysbench_threads() {
    let sandbox = Sandbox::new();
    let more = ["threads=4", "operations=1000"];
    let done = sysbench_phase(&sandbox, "rndwr", "size=16M", &more);
    assert_eq!(reads_writes_syncs(&done.records()[0]), [0, 1000, 40]);
    let there = sandbox.scratch.path();
    assert!(sysbench_command(there, "16M", &["prepare"]).output().unwrap().status.success());
    let more = [
        "--file-fsync-end=off",
        "--threads=4",
        "--time=0",
        "--events=1040",
        "--file-test-mode=rndwr",
        "run",
    ];
    let output = sysbench_command(there, "16M", &more).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let ours = sandbox.run(&["show", &done.id(), "--style=classic"]).stdout;
    let fairness = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains("stddev"))
            .map(|line| line.trim().to_owned())
            .collect()
    };
    println!("{:?} {:?}", fairness(&ours), fairness(&said));
    let names = |text: &str| -> Vec<String> {
        fairness(text).iter().map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&ours), names(&said));
    // Its events are writes and syncs; a round that was broken off leaves some syncs for later.
    assert!(said.contains("total number of events:              1040"), "{said}");
}

/// Whole blocks that a traced program has read and written, and the names that it has created, looked up and deleted.
fn bonnie_calls(trace: &str) -> [u64; 5] {
    let mut counts = [0; 5];
    // Not its data file, nor what the program is loaded from.
    let is_name = |line: &str| {
        let quoted = line.split('"').nth(1).unwrap_or_default();
        let is_long = quoted.len() >= 7 && quoted.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_long && quoted.bytes().filter(u8::is_ascii_digit).count() >= 7
    };
    for line in trace.lines() {
        let is_block = line.ends_with("= 8192");
        let call = |names: &[&str]| names.iter().any(|name| line.contains(name));
        match () {
            () if is_block && call(&[" read(", "read resumed", "pread64"]) => counts[0] += 1,
            () if is_block && call(&[" write(", "write resumed", "pwrite64"]) => counts[1] += 1,
            () if is_name(line) && call(&["creat(", "O_CREAT"]) => counts[2] += 1,
            () if is_name(line) && call(&["stat(", "newfstatat(", "statx("]) => counts[3] += 1,
            () if is_name(line) && call(&["unlink(", "unlinkat("]) => counts[4] += 1,
            () => {}
        }
    }
    counts
}

fn bonnie_command(dir: &Path, more: &[&str]) -> Command {
    let mut command = command::tool("bonnie++");
    command.current_dir(dir).args(["-d", p(dir), "-r", "8", "-f", "-q", "-u", "root", "-m", "x"]);
    command.args(more);
    command
}

/// 16 MiB and 1024 files. Blocks that seekers write back are chosen by chance, in both programs.
fn bonnie() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let records =
        sandbox.json(&["run", "bonnie", p(&dir), "size=16M", "names=1024"], &[0, 1]).records();
    let sum = |class: &str| -> u64 { records.iter().map(|r| count_of(r, class)).sum() };
    let ours = ["read", "write", "create", "stat", "unlink"].map(sum);
    let command = bonnie_command(&dir, &["-s", "16", "-n", "1"]);
    let calls = "file,read,write,pread64,pwrite64";
    let (trace, _) = traced(&command, calls, &sandbox.scratch.join("trace"));
    let theirs = bonnie_calls(&trace);
    println!("reads, writes, created, looked up, deleted: ours {ours:?}, bonnie++ {theirs:?}");
    let blocks = 2048;
    assert_eq!([ours[0], theirs[0]], [2 * blocks + 8192; 2]);
    for writes in [ours[1], theirs[1]] {
        // 819.2 expected with a deviation of 27.2: five of them.
        assert!((writes - 2 * blocks).abs_diff(819) < 136, "{writes}");
    }
    assert_eq!(ours[2..], [2048; 3]);
    assert_eq!(theirs[2..], [2048; 3]);
}

/// The whole of a device that is read in less than three seconds: the same amount in the same pieces.
fn hdparm() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 << 20).unwrap();
    let path = p(device.path());
    let args = ["run", "hdparm", path, "--phase=device", "direct=yes", "amount=64M"];
    let done = sandbox.json(&args, &[0, 1]);
    let record = done.records().swap_remove(0);
    assert_eq!((operations(&record), bytes(&record)), (32, 64 << 20));
    let shown = sandbox.run(&["show", &done.id(), "--style=classic"]).stdout;
    let mut command = command::tool("hdparm");
    command.args(["-t", "--direct", path]);
    let (reads, said) = traced(&command, "read", &sandbox.scratch.join("trace"));
    assert_eq!(reads.lines().filter(|line| line.ends_with("= 2097152")).count(), 32, "{reads}");
    let amount = |text: &str| {
        let line = text.lines().find(|line| line.contains("Timing")).unwrap().to_owned();
        line.split(" in ").next().unwrap().trim().to_owned()
    };
    println!("{said}{shown}");
    assert_eq!(amount(&shown), amount(&said));
}
