//! `fathom lab in-use`: a load that runs by itself, watched under one setting after the other, with windows of one or two seconds.

use crate::cli::{Done, Kept, MIB, Running, Sandbox, names, p, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, machine};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{FsKind, LoopDevice, Mount, Trial, kernel_test};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    let (binary, shuf) = (FathomBinary, Tool("shuf"));
    vec![
        kernel_test("lab_in_use", &[binary, FsOnLoop(FsKind::Ext4), shuf], in_use),
        kernel_test("lab_in_use_of_several", &[binary, FsOnLoop(FsKind::Btrfs), shuf], several),
        kernel_test("lab_in_use_of_merges", &[binary, LoopDevices, shuf, Tool("fio")], merging),
        kernel_test("lab_in_use_of_nobody", &[binary, LoopDevices, shuf], nobody),
    ]
}

/// Short windows, of two settings.
const SHORT: [&str; 4] = ["shortest=1", "longest=2", "settle=0s", "--skip=scheduler=bfq"];

/// Somebody who reads a file that he has written, again and again.
fn load(data: &Path, mib: u64) -> Kept {
    let blocks = 16 * mib;
    let script = format!(
        "dd if=/dev/zero of={0} bs=64k count={blocks} oflag=direct status=none && while dd if={0} of=/dev/null bs=4k iflag=direct status=none; do :; done",
        p(data)
    );
    let load = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    let load = Kept(load);
    wait_until("the load reads", || data.metadata().is_ok_and(|meta| meta.len() == mib << 20));
    load
}

/// The plan, ended when so many windows were begun, as its text says that one may: an answer takes 25 blocks at the most.
fn windows(mut command: Command, dir: &Path, count: usize) -> Vec<Value> {
    command.args(["--json", "--quiet", "lab", "in-use", p(dir)]).args(SHORT).stdin(Stdio::null());
    let mut running = Running::start(&mut command, "slot_started", 1);
    if running.wait_for("slot_started", count) {
        running.signal("INT");
    }
    let done = running.finish();
    assert_eq!(done.code, 130, "{}", ending(&done));
    let result = done.result();
    assert_eq!(result["ended"], "interrupted", "{}", ending(&done));
    let records: Vec<Value> =
        done.records().into_iter().filter(|record| record["cell"]["void"].is_null()).collect();
    assert!(records.len() >= count - 1, "{}", ending(&done));
    for record in &records {
        let watched = &record["cell"]["application"]["asked_per_s"];
        assert!(watched.as_f64() > Some(10.0), "{}\n{}", record["cell"], ending(&done));
        let window_s = record["window_ns"].as_f64().unwrap() / 1e9;
        assert!((0.9..60.0).contains(&window_s), "{window_s} s: {}", record["cell"]);
    }
    records
}

/// It is watched under every setting, by the very program that runs the plan, which lies in no directory of PATH.
fn in_use() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let program = sandbox.scratch.join("not in PATH");
    fs::copy(fathom_testkit::fathom_binary().unwrap(), &program).unwrap();
    let load = load(&fs.dir().join("data"), 4);
    let _store = Windows::default();
    let mut command = Command::new(&program);
    command.arg("--db").arg(sandbox.db());
    command.env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env_remove("FATHOM_DB").env_remove("FATHOM");
    let records = windows(command, fs.dir(), 6);
    drop(load);
    let levels: BTreeSet<String> =
        records.iter().map(|record| record["cell"]["levels"].to_string()).collect();
    assert_eq!(levels.len(), 2, "{levels:?}");
    // Each window is found by its setting.
    let mut list = Command::new(&program);
    list.args(["--db", "/run/fathom-in-use.db", "list", "--json"]).env_remove("FATHOM_DB");
    let listed = String::from_utf8(list.output().unwrap().stdout).unwrap();
    for label in ["scheduler=none", "scheduler=mq-deadline"] {
        assert!(listed.contains(&format!("\"label\":\"{label}\"")), "{label}: {listed}");
    }
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after the plan");
}

/// What a filesystem has on its second device counts, where the first one has nothing to do.
fn several() {
    let sandbox = Sandbox::new();
    // Data go to where most is free.
    let [small, large] = [256, 1024].map(|mib| LoopDevice::new(mib * MIB).unwrap());
    let devices = [p(small.path()), p(large.path())];
    run_tool("mkfs.btrfs", [&["-q", "-f", "-m", "single", "-d", "single"], &devices[..]].concat())
        .unwrap();
    let options = format!("device={},device={}", devices[0], devices[1]);
    let mount = Mount::new("btrfs", small.path(), &options).unwrap();
    let _store = Windows::default();
    let load = load(&mount.dir().join("data"), 128);
    let reads = |device: &LoopDevice| {
        let stat = fs::read_to_string(format!("/sys/block/{}/stat", device.name())).unwrap();
        stat.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let before = [reads(&small), reads(&large)];
    let records = windows(sandbox.command(&[]), mount.dir(), 3);
    let [first, second] = [reads(&small) - before[0], reads(&large) - before[1]];
    drop(load);
    assert!(10 * first < second, "{first} and {second} reads");
    // By the load of the device: what is told of a trial is about that, and not about who watched it.
    for record in &records {
        let names = record["watch"]["devices"].as_array().unwrap().iter().map(|d| &d["name"]);
        let names: Vec<&Value> = names.collect();
        assert!([&small, &large].iter().all(|d| names.contains(&&d.name().into())), "{names:?}");
    }
}

/// A whole experiment, of two blocks: 4 KiB in sequence with many in flight, which mq-deadline merges where they wait for the device. What
/// counts is what was asked for.
fn merging() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let path = p(device.path());
    let file = format!("--filename={path}");
    let fixed = ["--name=x", "--thread", "--rw=write", "--bs=4k", "--direct=1", "--size=64M"];
    let deep = ["--ioengine=libaio", "--iodepth=1024", "--time_based", "--runtime=600", &file];
    let mut fio = Command::new("fio");
    fio.args(fixed).args(deep).current_dir(sandbox.dir()).stdout(Stdio::null());
    let load = Kept(fio.spawn().unwrap());
    let _store = Windows::default();
    let words = [&["lab", "in-use", path, "blocks=2"], &SHORT[..]].concat();
    let done = sandbox.json(&words, &[0, 1]);
    drop(load);
    assert_eq!(done.result()["ended"], "complete", "{}", ending(&done));
    let records = done.records();
    assert_eq!(records.len(), 4, "{}", ending(&done));
    let mut most = 0.0_f64;
    for record in &records {
        let cell = &record["cell"];
        let window = cell["output"].as_str().unwrap().lines().last().unwrap();
        let window: Value = serde_json::from_str(window).unwrap();
        let of = |figure: &str| window["summary"][figure].as_f64().unwrap();
        let (asked, requests) = (of("asked_per_s"), of("requests_per_s"));
        assert_eq!(cell["application"]["asked_per_s"].as_f64(), Some(asked), "{cell}");
        match cell["levels"][0][1].as_str() {
            Some("none") => assert!(asked < 1.1 * requests, "{asked} of {requests}: {cell}"),
            _ => most = most.max(asked / requests),
        }
    }
    // How much waits for the device, and is merged, is the matter of a moment on a machine that does other things beside.
    assert!(most > 1.02, "{most}: {}", ending(&done));
}

/// Where nothing is asked of the device the first window says so; and another device is another experiment.
fn nobody() {
    let sandbox = Sandbox::new();
    let idle = [16, 16].map(|mib| LoopDevice::new(mib * MIB).unwrap());
    let _store = Windows::default();
    // How long the windows are is told beforehand, and no window is begun with lengths that cannot be.
    let lab = ["lab", "in-use", p(idle[0].path()), "--dry-run"];
    let told = sandbox.run(&[&lab[..], &["shortest=60", "longest=3600"]].concat());
    assert!(told.stdout.contains("(1 min 00 s to 1 h 00 min)"), "{}", ending(&told));
    assert!(told.stdout.contains("About 38 h ") && !told.stdout.contains("the time that"));
    for (lengths, cause) in [
        (["shortest=10", "longest=5"], "the longest time, 5s, is less than the shortest one, 10s"),
        (["shortest=10", "longest=20000"], "takes up to 5 h 33 min, and is ended after 3 h 00 min"),
        (["shortest=0", "longest=5"], "shortest=0: takes whole seconds, from 1 on"),
        (["shortest=1", "shortest=2"], "shortest is given twice"),
    ] {
        for more in [&lab[..], &lab[..3]] {
            let done = sandbox.run(&[more, &lengths[..]].concat());
            let said = format!("{}{}", done.stdout, done.stderr);
            assert!(done.code != 0 && said.contains(cause), "{}", ending(&done));
        }
    }
    // What is not there: nothing is set on the disk that it would lie on.
    let typo = sandbox.dir().join("typo");
    for more in [&["--dry-run"][..], &[]] {
        let words = [&["lab", "in-use", p(&typo)], &SHORT[..], more].concat();
        let done = sandbox.run(&words);
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(done.code == 2 && said.contains("typo: does not exist"), "{}", ending(&done));
    }
    assert!(sandbox.runs().is_empty());
    for device in &idle {
        let words = [&["lab", "in-use", p(device.path())], &SHORT[..]].concat();
        let done = sandbox.run(&words);
        let cause = format!("nothing was asked of {} in ", device.name());
        assert!(done.code == 5 && done.stdout.contains(&cause), "{}", ending(&done));
        assert!(done.stdout.contains("start the load first"), "{}", ending(&done));
    }
    let runs = sandbox.runs();
    assert_eq!(runs.len(), 2, "{runs:?}");
    // The first of them goes on where its load has begun.
    let path = p(idle[0].path());
    let script =
        format!("while dd if={path} of=/dev/null bs=4k iflag=direct status=none; do :; done");
    let load = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    let load = Kept(load);
    windows(sandbox.command(&[]), idle[0].path(), 3);
    drop(load);
    assert_eq!(sandbox.runs().len(), 2);
}

/// Where the plan keeps its windows; what was not there before is taken away.
struct Windows {
    before: Vec<String>,
}

impl Windows {
    const DIR: &str = "/run";

    /// The store, and what lies beside it.
    fn there() -> Vec<String> {
        let is_its = |name: &String| name.starts_with("fathom-in-use.db");
        names(Path::new(Self::DIR)).into_iter().filter(is_its).collect()
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self { before: Self::there() }
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        for name in Self::there().into_iter().filter(|name| !self.before.contains(name)) {
            fs::remove_file(Path::new(Self::DIR).join(name)).ok();
        }
    }
}

/// The last of what a command said, on both streams: what went wrong stands at the end.
fn ending(done: &Done) -> String {
    let last = |text: &str| {
        let start = text.char_indices().rev().nth(3000).map_or(0, |(at, _)| at);
        text[start..].to_owned()
    };
    format!(
        "code {}; stdout ends with\n{}\nstderr ends with\n{}",
        done.code,
        last(&done.stdout),
        last(&done.stderr)
    )
}
