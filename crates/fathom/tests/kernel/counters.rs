//! Findings that hold what was asked for against what the kernel counted, and changes in the middle of a run: each
//! provoked for real, with a control without it.

use crate::cli::{Done, GIB, MIB, Sandbox, p};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, IoUring, LoopDevices, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, Trial, kernel_test, loopdev,
};
use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    vec![
        kernel_test("syncs_that_never_reach_the_device", &[FathomBinary, ext4], no_barriers),
        kernel_test("flushes_below_a_partition", &[FathomBinary, ext4, Tool("sfdisk")], partition),
        kernel_test("a_setting_changed_in_the_middle", &[FathomBinary, LoopDevices], changed),
        kernel_test(
            "a_mount_changed_in_the_middle",
            &[FathomBinary, ext4, Tool("mount")],
            remounted,
        ),
        kernel_test(
            "frozen_when_the_window_ends",
            &[FathomBinary, ext4, IoUring, Tool("fsfreeze")],
            frozen,
        ),
        kernel_test("a_rate_that_falls_in_the_middle", &[FathomBinary, Tool("taskset")], falls),
        kernel_test("history_dates_a_change", &[FathomBinary, ext4], history),
        kernel_test("threads_without_a_processor", &[FathomBinary, Tool("taskset")], no_processor),
    ]
}

fn no_barriers() {
    let sandbox = Sandbox::new();
    for (options, is_expected) in [("barrier=0", true), ("", false)] {
        let fs = mounted(FsKind::Ext4, &[], options);
        let args = ["run", "commit", p(fs.dir()), "size=64M", "operations=200"];
        let done = sandbox.json(&args, &[0, 1]);
        if is_expected {
            let finding = done.finding("syncs-without-flush");
            assert_eq!(finding["severity"], "doubtful");
            assert!(finding["summary"].as_str().unwrap().starts_with("200 syncs"), "{finding}");
        } else {
            done.has_not("syncs-without-flush");
            // Each sync waits for the device, whose requests another thread serves.
            let events = &done.records()[0]["system_events"];
            assert!(events["context_switches"].as_u64() >= Some(200), "{events}");
            assert!(events["interrupts"].as_u64() > Some(0), "{events}");
            let run = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
            let shown = sandbox.run(&["show", &run]).stdout;
            assert!(shown.contains("\nkernel  of the whole machine: "), "{shown}");
        }
    }
}

/// The kernel counts flushes on the whole device and none on a partition.
fn partition() {
    let sandbox = Sandbox::new();
    let options = LoopOptions { direct_io: true, partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(2 * GIB, Content::Sparse, &options).unwrap();
    let mut sfdisk = tool("sh");
    sfdisk.args(["-c", r#"echo , | sfdisk -q --force "$0""#]).arg(device.path());
    assert!(sfdisk.status().unwrap().success());
    device.reread_partitions().unwrap();
    let partition = device.partition(1);
    FsKind::Ext4.make(&partition, &[]).unwrap();
    for (options, is_expected) in [("barrier=0", true), ("", false)] {
        let mount = Mount::new("ext4", &partition, options).unwrap();
        let args = ["run", "commit", p(mount.dir()), "size=64M", "operations=200"];
        let done = sandbox.json(&args, &[0, 1]);
        if is_expected {
            done.finding("syncs-without-flush");
        } else {
            done.has_not("syncs-without-flush");
        }
    }
}

fn device() -> LoopDevice {
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    LoopDevice::with(64 * MIB, Content::Pattern(1), &options).unwrap()
}

fn changed() {
    let sandbox = Sandbox::new();
    let device = device();
    let setting = format!("/sys/block/{}/queue/read_ahead_kb", device.name());
    let args = ["run", "randread", p(device.path()), "duration=6s"];
    sandbox.json(&args, &[0, 1]).has_not("setting-changed");
    let running = sandbox.start(&args, "progress", 1);
    let old = fs::read_to_string(&setting).unwrap();
    fs::write(&setting, "1240").unwrap();
    let done = running.finish();
    fs::write(&setting, old.trim()).unwrap();
    assert_eq!(done.code, 1, "{done:?}");
    let finding = done.finding("setting-changed");
    assert_eq!(finding["severity"], "void");
    let text = finding["summary"].as_str().unwrap();
    assert!(text.contains("loop.queue.read_ahead_kib") && text.contains("-> 1240"), "{text}");
}

/// Somebody remounts the filesystem while it is measured.
fn remounted() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["run", "randread", p(fs.dir()), "size=64M", "duration=6s"];
    sandbox.json(&args, &[0, 1]).has_not("setting-changed");
    let running = sandbox.start(&args, "progress", 1);
    let mut mount = tool("mount");
    mount.args(["-o", "remount,noatime"]).arg(fs.dir());
    assert!(mount.status().unwrap().success());
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    let finding = done.finding("setting-changed");
    assert_eq!(finding["severity"], "void");
    let text = finding["summary"].as_str().unwrap();
    assert!(text.contains("mount.mount.options") && text.contains("noatime"), "{text}");
}

/// A write that a frozen filesystem holds back beyond the end of the window: it is in no percentile, and that is said. Where a
/// last sync closes the window, as it does by default, the write still counts.
fn frozen() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let settings = ["size=8M", "depth=1", "engine=io_uring", "sync_at_end=none"];
    let args = [&["run", "randwrite", p(fs.dir()), "duration=10s"], &settings[..]].concat();
    let running = sandbox.start(&args, "progress", 1);
    let frozen = fs.mount().freeze().unwrap();
    thread::sleep(Duration::from_secs(11));
    drop(frozen);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let finding = done.finding("stalled");
    assert_eq!(finding["severity"], "note");
    let text = finding["summary"].as_str().unwrap();
    assert!(text.contains("oldest unfinished: write, "), "{text}");
    let job = &done.records()[0]["jobs"][0];
    let age_ns = job["censored"][0]["age_ns"].as_u64().unwrap();
    let longest_ns = job["slowest"][0]["latency_ns"].as_u64().unwrap();
    assert!(age_ns > 1_000_000_000 && longest_ns < age_ns, "{longest_ns} {age_ns}");
    let free = [&["run", "randwrite", p(fs.dir()), "duration=1s"], &settings[..]].concat();
    sandbox.json(&free, &[0, 1]).has_not("stalled");
}

/// Others that use the CPU of the worker; gone when dropped.
struct Hogs(Vec<Child>);

impl Hogs {
    fn on_cpu_0(count: usize) -> Self {
        let one = |_| {
            let mut command = tool("taskset");
            command.args(["-c", "0", "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        Self((0..count).map(one).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Reads from memory are as fast as the CPU lets them be: nine others on it leave a tenth.
fn falls() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("f");
    loopdev::make_file(&file, 4 * MIB, Content::Pattern(1)).unwrap();
    let args = ["run", "randread", p(&file), "direct=no", "engine=psync", "depth=1", "cpus=0"];
    let args = [&args[..], &["duration=12s", "--interval=200ms"]].concat();
    let run = || {
        let running = sandbox.start(&args, "progress", 1);
        thread::sleep(Duration::from_secs(5));
        let hogs = Hogs::on_cpu_0(9);
        let done = running.finish();
        drop(hogs);
        done
    };
    // Not where others take most of that processor before.
    let is_seen = |done: &Done| done.findings().contains(&"not-steady".to_owned());
    let done = (0..4).map(|_| run()).find(is_seen).expect("a fall is seen");
    let finding = done.finding("not-steady");
    assert_eq!(finding["severity"], "doubtful");
    let text = finding["summary"].as_str().unwrap();
    assert!(text.contains("the rate was not one but"), "{text}");
}

/// Sixteen runs; during the later half others use most of the CPU, which fathom does not record, and a setting of the
/// device differs, which it does: that stands beside the change.
fn history() {
    // Others who use the machine meanwhile may make a change of their own.
    assert!((0..4).any(|_| history_is_as_made()), "the change is dated, and no other");
}

fn history_is_as_made() -> bool {
    let sandbox = Sandbox::new();
    let mount = mounted(FsKind::Ext4, &[], "");
    let file = mount.dir().join("f");
    loopdev::make_file(&file, 4 * MIB, Content::Pattern(1)).unwrap();
    let setting = format!("/sys/block/{}/queue/read_ahead_kb", mount.device().name());
    let args = ["run", "randread", p(&file), "direct=no", "engine=psync", "depth=1", "cpus=0"];
    let args = [&args[..], &["duration=400ms"]].concat();
    let eight_runs = || (0..8).for_each(|_| drop(sandbox.json(&args, &[0, 1])));
    // Loop devices keep their settings when they are detached.
    let old = fs::read_to_string(&setting).unwrap();
    fs::write(&setting, "128").unwrap();
    eight_runs();
    fs::write(&setting, "4096").unwrap();
    let hogs = Hogs::on_cpu_0(9);
    eight_runs();
    drop(hogs);
    fs::write(&setting, old.trim()).unwrap();
    let done = sandbox.json(&["history", p(mount.dir())], &[0]);
    let series = &done.result()["series"][0];
    // A run of so short a time may have come to nothing.
    if series["points"].as_array().unwrap().len() != 16 {
        println!("points: {}", series["points"]);
        return false;
    }
    let changes = series["changes"].as_array().unwrap();
    if changes.len() != 1 || changes[0]["at"] != 8 {
        println!("changes: {changes:?}");
        return false;
    }
    let what: Vec<&str> = changes[0]["differences"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|difference| difference["what"].as_str())
        .collect();
    assert!(what.contains(&"loop.queue.read_ahead_kib"), "{what:?}");
    let text = sandbox.run(&["history", p(mount.dir())]);
    assert!(
        text.stdout.contains("<- changed") && text.stdout.contains("read_ahead_kib"),
        "{text:?}"
    );
    sandbox.refuses(&["history", "/nowhere"], 2, &["/nowhere", "fathom list"]);
    let no_row = ["history", p(mount.dir()), "--row=zebra"];
    sandbox.refuses(&no_row, 2, &["--row=zebra", "begins so", "there are: "]);
    true
}

/// Requests that end at once, of a thread that others keep from its processor: it cannot keep them in flight. With a processor
/// of its own it is fathom that is the limit, and that is said instead.
fn no_processor() {
    let sandbox = Sandbox::new();
    let args = ["run", "randread", "null:", "depth=32", "cpus=0", "duration=500ms"];
    let found = |id: &str| {
        let done = sandbox.json(&args, &[0, 1]);
        println!("{:?}", done.findings());
        done.findings().contains(&id.to_owned())
    };
    let hogs = Hogs::on_cpu_0(4);
    // Where the thread loses its processor, with requests in flight or between them, is chance.
    assert!((0..16).any(|_| found("depth-not-held")), "with others on its processor");
    drop(hogs);
}
