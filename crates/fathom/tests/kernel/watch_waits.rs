//! What `fathom watch` says that an application waited for: real loads, of which it is known.

use crate::cli::{self, Kept, MIB, Sandbox, p};
use crate::cli::{as_nobody, binary_for_nobody};
use crate::filesystems::{in_memory, mounted};
use crate::gone::Passing;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::{Content, FsKind, Scratch, Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let (binary, loops, ext4) = (FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4));
    vec![
        kernel_test("watch_says_what_waits_for_what", &[binary, loops], waits),
        kernel_test("watch_of_who_commits", &[binary, ext4], commits),
        kernel_test("watch_beside_others", &[binary, loops], beside_others),
        kernel_test("watch_of_a_tree_that_goes", &[binary, FsOnLoop(FsKind::Xfs)], tree_goes),
        kernel_test("watch_of_what_is_asked_elsewhere", &[binary, ext4, Tool("fio")], elsewhere),
        kernel_test(
            "watch_of_who_counts_by_itself",
            &[binary, ext4, Tool("sqlite3")],
            counts_itself,
        ),
        kernel_test("watch_of_what_is_not_counted", &[binary, loops], uncounted),
        kernel_test("watch_tells_what_outlives_its_command", &[binary, loops], outlives),
        kernel_test("watch_counts_what_was_merged_too", &[binary, loops, Tool("fio")], merged),
        kernel_test("watch_hands_its_input_on", &[binary, loops], input),
        kernel_test("watch_of_a_device_that_goes", &[binary, loops], goes),
        kernel_test(
            "watch_counts_to_the_end_for_everybody",
            &[binary, ext4, Tool("setpriv")],
            to_the_end,
        ),
    ]
}

fn waits() {
    let sandbox = Sandbox::new();
    let memory = in_memory(512 * MIB, Content::Pattern(1));
    let path = p(memory.device.path()).to_owned();
    let name = memory.device.name();
    let finding = |script: &str| {
        let done = sandbox.json(&["watch", &name, "--", "sh", "-c", script], &[0]);
        let ids = done.findings();
        (ids, done.result()["summary"]["application"].clone())
    };
    // One request after another, each small enough to stay one; then sixteen readers at once; then nothing but computing.
    let one = format!("dd if={path} of=/dev/null bs=64k iflag=direct 2>/dev/null");
    let many = format!(
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do dd if={path} of=/dev/null bs=256k iflag=direct 2>/dev/null & done; wait"
    );
    let (ids, told) = finding(&many);
    // How many of them the machine lets run at once is its own; eight on a device of known slowness: guest tests.
    assert!(ids.iter().any(|id| id == "parallel" || id == "partly-parallel"), "{ids:?} {told}");
    let (ids, told) = finding(&one);
    // Memory answers at once: where others take the processors, the reader waits for one of these most of the time.
    let is_one = |id: &String| id == "latency-bound" || id == "not-storage-bound";
    assert!(ids.iter().any(is_one), "{ids:?} {told}");
    let counts = &told["devices"][&name];
    let took_ms = counts["reads"]["took_ms"].as_f64().unwrap();
    assert!(took_ms / counts["busy_ms"].as_f64().unwrap() < 1.5, "{counts}");
    let (ids, told) = finding("i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done");
    assert!(ids.iter().any(|id| id == "hardly-any-io"), "{ids:?} {told}");
}

/// What commits waits for its write and, in that, for a flush, which the kernel counts beside it. A disk takes its time for both:
/// whoever else uses the machine, this waits for storage.
fn commits() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    let script = format!("dd if=/dev/zero of={dir}/log bs=4k count=1500 oflag=dsync 2>/dev/null");
    let done = sandbox.json(&["watch", dir, "--", "sh", "-c", &script], &[0]);
    let application = done.result()["summary"]["application"].clone();
    let devices = application["devices"].as_object().unwrap();
    let counts = devices.values().next().unwrap();
    assert!(counts["flushes"].as_u64() > Some(1000), "{counts}");
    assert!(done.findings().contains(&"latency-bound".to_owned()), "{done:?}");
    // What stays in memory is on no device: the two counts differ, and that is told.
    let script = format!("dd if=/dev/zero of={dir}/later bs=1M count=32 2>/dev/null");
    let done = sandbox.json(&["watch", dir, "--", "sh", "-c", &script], &[0]);
    let text = done.finding("io-gap")["summary"].as_str().unwrap().to_owned();
    assert!(text.contains("has written 32 MiB"), "{text}");
}

/// Who sleeps, or reads a little, while others read a lot, does not wait for their requests.
fn beside_others() {
    let sandbox = Sandbox::new();
    let memory = in_memory(64 * MIB, Content::Pattern(1));
    let (path, name) = (p(memory.device.path()), memory.device.name());
    let read =
        format!("while dd if={path} of=/dev/null bs=64k iflag=direct 2>/dev/null; do :; done");
    let others = ["-c"; 3].map(|c| Kept(Command::new("sh").args([c, &read]).spawn().unwrap()));
    for script in [
        "sleep 1".to_owned(),
        format!("dd if={path} of=/dev/null bs=64k count=8 iflag=direct; sleep 1"),
    ] {
        let done = sandbox.json(&["watch", &name, "--", "sh", "-c", &script], &[0]);
        // Where the machine lets them read for less than half of the time only, nobody is bound.
        let is_true = |id: &String| id == "others-io" || id == "not-storage-bound";
        assert!(done.findings().iter().any(is_true), "{done:?}");
        for id in ["latency-bound", "parallel", "partly-parallel", "device-bound"] {
            done.has_not(id);
        }
    }
    drop(others);
}

/// What a filesystem writes of a tree that is removed is charged to nobody: it is not called that of others.
fn tree_goes() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Xfs, &[], "");
    let dir = p(fs.dir());
    let make = format!(
        "for d in $(seq 40); do mkdir -p {dir}/t/$d; for f in $(seq 50); do echo x > {dir}/t/$d/$f; done; done; sync"
    );
    assert!(Command::new("sh").args(["-c", &make]).status().unwrap().success());
    let script = format!("rm -rf {dir}/t; sync");
    let done = sandbox.json(&["watch", dir, "--", "sh", "-c", &script], &[0]);
    done.has_not("others-io");
}

/// Requests of libaio are in no count of what was asked for, but in what was written: a device that saw nothing of it has a gap.
fn elsewhere() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let idle = in_memory(16 * MIB, Content::Sparse);
    let file = format!("--filename={}", p(&fs.dir().join("x")));
    let fio = [
        "fio",
        "--name=x",
        &file,
        "--rw=write",
        "--size=200M",
        "--bs=1M",
        "--direct=1",
        "--ioengine=libaio",
    ];
    let name = idle.device.name();
    let words = [&["watch", &name, "--"], &fio[..]].concat();
    let done = sandbox.json(&words, &[0]);
    let total = &done.result()["summary"]["application"]["total"];
    let (asked, written) = (&total["asked_write_bytes"], &total["written_bytes"]);
    assert!(asked.as_u64() < Some(MIB) && written.as_u64() >= Some(200 * MIB), "{total}");
    // The program itself may have to be read from elsewhere, too.
    let result = done.result();
    let findings = result["findings"].as_array().unwrap();
    let mut gaps = findings.iter().filter(|finding| finding["id"] == "io-gap");
    assert!(gaps.any(|gap| gap["summary"].to_string().contains("has written 0 B")), "{result}");
}

/// A database with counters of its own: what it reads from the page cache is on no device, what it reads from the device is in both.
fn counts_itself() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    let run = |script: &str| {
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success(), "{script}");
    };
    run(&format!(
        "sqlite3 {dir}/db \"CREATE TABLE t (x BLOB);
         INSERT INTO t SELECT randomblob(3000) FROM generate_series(1, 6000)\" && sync"
    ));
    // Pages that were not in SQLite's own cache, of 4 KiB each.
    let script = format!(
        "sqlite3 {dir}/db '.stats on' 'SELECT sum(length(x)) FROM t' |
         awk '/Page cache misses/ {{ printf \"own count: read %d bytes\\n\", 4096 * $NF }}'"
    );
    let gaps = || {
        let figure = "--figure=own_read_bytes=own count: read {} bytes";
        let done = sandbox.json(&["watch", dir, figure, "--", "sh", "-c", &script], &[0]);
        let own = done.result()["summary"]["application"]["figures"]["own_read_bytes"].clone();
        assert!(own.as_f64() > Some(16.0 * MIB as f64), "{own}");
        let found = done.result()["findings"].as_array().unwrap().clone();
        let is_its_own = |finding: &&Value| {
            let text = finding["summary"].as_str().unwrap();
            finding["id"] == "io-gap" && text.starts_with("by the counters in it")
        };
        found.iter().filter(is_its_own).cloned().collect::<Vec<Value>>()
    };
    run(&format!("cat {dir}/db >/dev/null"));
    let from_memory = gaps();
    let [gap] = from_memory.as_slice() else { panic!("{from_memory:?}") };
    assert_eq!(gap["advice"][0], "The rest came from the page cache, or from other devices.");
    run("sync; echo 1 >/proc/sys/vm/drop_caches");
    let from_the_device = gaps();
    assert!(from_the_device.is_empty(), "{from_the_device:?}");
}

/// Counters that somebody has switched off: an application that reads is not said to work in memory.
fn uncounted() {
    let sandbox = Sandbox::new();
    let memory = in_memory(64 * MIB, Content::Pattern(1));
    let name = memory.device.name();
    let switch = format!("/sys/block/{name}/queue/iostats");
    let read =
        format!("dd if={} of=/dev/null bs=64k iflag=direct 2>/dev/null", p(memory.device.path()));
    fs::write(&switch, "0").unwrap();
    let done = sandbox.json(&["watch", &name, "--", "sh", "-c", &read], &[1]);
    let cure = format!("echo 1 > {switch}");
    assert!(done.stderr.contains(&cure), "{done:?}");
    let finding = done.finding("counters-off");
    assert_eq!(finding["advice"][0], cure, "{finding}");
    let id = |done: &cli::Done| done.result()["id"].as_str().unwrap().to_owned();
    let off = id(&done);
    for id in ["hardly-any-io", "not-storage-bound", "io-gap"] {
        done.has_not(id);
    }
    // Without a command it is a watch all the same.
    let done = sandbox.run(&["watch", &name, "--count=1", "--interval=100ms"]);
    assert!(done.code == 0 && done.stderr.contains(&cure), "{done:?}");
    fs::write(&switch, "1").unwrap();
    let done = sandbox.json(&["watch", &name, "--", "sh", "-c", &read], &[0]);
    assert!(!done.stderr.contains("iostats"), "{done:?}");
    done.has_not("counters-off");
    // Beside each other they are worth no more than the doubtful one.
    let on = id(&done);
    let both = sandbox.json(&["compare", &off, &on], &[1]).result();
    let doubts = both["comparison"]["doubts"].as_array().unwrap();
    assert_eq!((doubts.len(), &doubts[0]["run"]), (1, &off.as_str().into()), "{doubts:?}");
    assert_eq!(doubts[0]["finding"]["id"], "counters-off");
    let told = sandbox.run(&["compare", &off, &on, "--fail-on=void"]);
    assert!(told.code == 0 && told.stdout.contains("was told not to count"), "{told:?}");
}

/// Writes that come in calls of 64, one behind the other, are merged; how many were asked for is told all the same.
fn merged() {
    let sandbox = Sandbox::new();
    let memory = in_memory(64 * MIB, Content::Sparse);
    let name = memory.device.name();
    let file = format!("--filename={}", p(memory.device.path()));
    let fio = [
        "fio",
        "--name=x",
        &file,
        "--rw=write",
        "--size=64M",
        "--bs=4k",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=64",
        "--iodepth_batch_submit=64",
        "--iodepth_batch_complete_min=64",
    ];
    let done = sandbox.json(&[&["watch", &name, "--"], &fio[..]].concat(), &[0]);
    let summary = done.result()["summary"].clone();
    let total = |of: &str| {
        summary[of].as_f64().unwrap() * summary["devices"][0]["seconds"].as_f64().unwrap()
    };
    let (asked, requests) = (total("asked_per_s"), total("requests_per_s"));
    assert!((16_384.0..16_500.0).contains(&asked.round()), "{asked} asked for: {summary}");
    assert!(requests < asked / 4.0, "{requests} of {asked}: hardly any was merged");
}

/// What a command leaves running is asked to end, has time to, and is told.
fn outlives() {
    let sandbox = Sandbox::new();
    let memory = in_memory(16 * MIB, Content::Pattern(1));
    let name = memory.device.name();
    let (up, asked) = (sandbox.scratch.join("up"), sandbox.scratch.join("asked"));
    let (up, asked) = (p(&up), p(&asked));
    let script = format!(
        "(trap 'sleep 0.3; touch {asked}; exit 0' TERM; touch {up}; sleep 60 & wait) &
         until [ -e {up} ]; do sleep 0.01; done; exit 0"
    );
    let done = sandbox.json(&["watch", &name, "--", "sh", "-c", &script], &[0]);
    let finding = done.finding("processes-left");
    assert_eq!(finding["severity"], "note", "{finding}");
    assert!(finding["summary"].as_str().unwrap().starts_with("2 processes"), "{finding}");
    assert!(Path::new(asked).exists(), "it was killed before it could end: {done:?}");
    let waits = "sleep 0.1 & wait";
    let done = sandbox.json(&["watch", &name, "--", "sh", "-c", waits], &[0]);
    done.has_not("processes-left");
}

/// What is piped into it is the command's, as where it is run alone.
fn input() {
    let sandbox = Sandbox::new();
    let memory = in_memory(16 * MIB, Content::Pattern(1));
    let name = memory.device.name();
    let file = sandbox.scratch.join("input");
    fs::write(&file, "5\n").unwrap();
    let script = "read n; echo x=$n";
    let words = ["--json", "--quiet", "watch", &name, "--figure=x=x={}", "--", "sh", "-c", script];
    let done = cli::run(|| {
        let mut command = sandbox.command(&words);
        command.stdin(fs::File::open(&file).unwrap());
        command
    });
    assert_eq!(done.result()["summary"]["application"]["figures"]["x"], 5.0, "{done:?}");
}

/// A device that is taken away while a program works on it: what it did before counts, and nothing is said about what the program
/// waited for.
fn goes() {
    let sandbox = Sandbox::new();
    let device = Passing::new(&sandbox.scratch, 32 * MIB);
    let path = &device.path;
    let script = format!(
        "dd if={path} of=/dev/null bs=64k count=300 iflag=direct 2>/dev/null; losetup -d {path}; sleep 1.2"
    );
    let words = ["watch", path, "--interval=200ms", "--", "sh", "-c", &script];
    let done = sandbox.json(&words, &[1]);
    let finding = done.finding("device-went");
    assert_eq!(finding["severity"], "doubtful", "{finding}");
    for id in ["hardly-any-io", "io-gap", "not-storage-bound"] {
        done.has_not(id);
    }
    let summary = &done.result()["summary"];
    let counts = &summary["application"]["devices"][device.name()];
    assert!(counts["reads"]["sectors"].as_u64() >= Some(300 * 128), "{summary}");
    // The disk below it went nowhere.
    let events = summary["events"].as_array().unwrap();
    let went = |event: &&Value| event[1].as_str().is_some_and(|what| what.ends_with("went"));
    assert_eq!(events.iter().filter(went).count(), 1, "{events:?}");
}

/// What ended a moment ago is told to root only: others get what the kernel tells everybody, and "at least" of the rest.
fn to_the_end() {
    let fs = mounted(FsKind::Ext4, &[], "");
    fs::set_permissions(fs.dir(), Permissions::from_mode(0o777)).unwrap();
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let (dir, db) = (p(fs.dir()), fs.dir().join("fathom.db"));
    let script =
        format!("dd if=/dev/zero of={dir}/x bs=64k count=100 oflag=dsync 2>/dev/null; true");
    let watch = |more: &[&str]| {
        let mut command = as_nobody(&binary);
        command.args(["--db", p(&db)]).args(more).args(["watch", dir, "--", "sh", "-c", &script]);
        command.env("HOME", dir).env("LC_ALL", "C").env_remove("FATHOM_DB");
        command
    };
    let done = cli::run(|| watch(&["--json", "--quiet"]));
    let application = done.result()["summary"]["application"].clone();
    let total = &application["total"];
    let written = total["written_bytes"].as_u64().unwrap();
    assert!(written >= 100 << 16, "{total}");
    // Within milliseconds of the end a good part of it was seen.
    assert!(total["asked_write_bytes"].as_u64() > Some(0), "{total}");
    let text = cli::run(|| watch(&[])).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_told = application["is_cut_off"] != true;
    assert!(is_told || text.contains("to write at least"), "{text}");
    assert!(is_told || !done.findings().contains(&"io-gap".to_owned()), "{done:?}");
}
