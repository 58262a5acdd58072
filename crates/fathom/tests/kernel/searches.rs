//! `saturate` and `size` that end in the middle: killed, with a target that fails, or with a store that fills up. What was
//! measured is kept, and nothing is left behind.

use crate::cli::{Done, MIB, Running, Sandbox, names, p};
use crate::failures::{
    EIO, direct, failed, nothing_left_of_what_is_cached, truncate, while_cached,
};
use crate::filesystems::mounted;
use crate::signals::next_start;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountFs, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{Content, FsKind, Judged, LoopDevice, Mount, Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Both searches, with a time that no test waits for.
const SATURATE: [&str; 2] = ["saturate", "--time=60s"];
const SIZE: [&str; 2] = ["size", "--time=30s"];

pub fn trials() -> Vec<Trial> {
    let kill = [FathomBinary, Tool("kill")];
    let device = [FathomBinary, LoopDevices];
    let fs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let tmpfs = [FathomBinary, MountFs("tmpfs")];
    vec![
        kernel_test("saturate_is_killed", &kill, || killed(SATURATE)),
        kernel_test("size_is_killed", &kill, || killed(SIZE)),
        kernel_test("saturate_on_a_device_that_fails", &device, || device_fails(SATURATE)),
        kernel_test("size_on_a_device_that_fails", &device, || device_fails(SIZE)),
        kernel_test("saturate_on_a_filesystem_that_fails", &fs, || {
            while_cached(|| filesystem_fails(SATURATE))
        }),
        kernel_test("size_on_a_filesystem_that_fails", &fs, || {
            while_cached(|| filesystem_fails(SIZE))
        }),
        kernel_test("saturate_into_a_store_that_fills_up", &tmpfs, || {
            store_fills_up(["saturate", "--time=10s"]);
        }),
        kernel_test("size_into_a_store_that_fills_up", &tmpfs, || {
            store_fills_up(["size", "--time=10s"]);
        }),
    ]
}

/// Two steps of the search are done.
fn start(sandbox: &Sandbox, search: [&str; 2], target: &str, more: &[&str]) -> Running {
    let [command, time] = search;
    sandbox.start(&[&[command, target, time], more].concat(), "trial_finished", 2)
}

/// The records of the first two steps, as they were reported when each was done.
fn two_reported(done: &Done) -> Vec<Value> {
    let lines = done.stdout.lines().filter(|line| line.contains("\"type\":\"trial_finished\""));
    let record = |line| serde_json::from_str::<Value>(line).unwrap()["record"].clone();
    lines.take(2).map(record).collect()
}

fn killed(search: [&str; 2]) {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let running = start(&sandbox, search, p(&dir), &["size=64M", "direct=no"]);
    running.signal("KILL");
    let done = running.finish();
    assert_eq!(done.code, 128 + 9, "{done:?}");
    let left = names(&dir);
    assert_eq!(left.len(), 1, "kill -9 lets nobody tidy up: {left:?}");
    let stored = sandbox.runs().swap_remove(0);
    assert_eq!((&stored["kind"], &stored["state"]), (&search[0].into(), &"partial".into()));
    let shown = sandbox.json(&["show", stored["id"].as_str().unwrap()], &[0]);
    let records = shown.records();
    assert_eq!(stored["trials"].as_u64(), Some(records.len() as u64));
    assert_eq!(records[..2], two_reported(&done), "each step is stored when it is done");
    assert!(records.iter().all(|record| record["ending"] == "complete"), "{shown:?}");
    shown.finding("unfinished-run");
    assert_ne!(shown.result()["verdict"], "trusted");
    let text = sandbox.run(&["show", stored["id"].as_str().unwrap()]);
    assert!(text.code == 0 && text.stdout.contains("[partial]"), "{text:?}");
    next_start(&sandbox, &dir.join(&left[0]));
    assert_eq!(sandbox.runs()[1]["state"], "partial", "the next start keeps what was measured");
}

/// The first step that fails is the last one; those before it count.
#[track_caller]
fn ended_by_failure(sandbox: &Sandbox, done: &Done, path: &str) {
    failed(sandbox, done, "read", EIO, path);
    let records = done.records();
    assert_eq!(records[..2], two_reported(done));
    let (_, before) = records.split_last().unwrap();
    assert!(before.iter().all(|record| record["ending"] == "complete"), "{done:?}");
    let objects = done.objects();
    let started = objects.iter().filter(|object| object["type"] == "trial_started").count();
    assert_eq!(started, records.len(), "nothing is begun after the failure");
}

fn device_fails(search: [&str; 2]) {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(64 * MIB, Content::Pattern(1), &direct()).unwrap();
    let running = start(&sandbox, search, p(device.path()), &[]);
    truncate(device.backing(), MIB);
    ended_by_failure(&sandbox, &running.finish(), p(device.path()));
    sandbox.nothing_left(&[]);
}

/// The disk below a mounted filesystem goes away; the test file is removed all the same.
fn filesystem_fails(search: [&str; 2]) -> Judged {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let running = start(&sandbox, search, p(fs.dir()), &["size=64M"]);
    let size_bytes = std::fs::metadata(fs.device().backing()).unwrap().len();
    truncate(fs.device().backing(), MIB);
    let done = running.finish();
    truncate(fs.device().backing(), size_bytes);
    ended_by_failure(&sandbox, &done, p(fs.dir()));
    nothing_left_of_what_is_cached(&sandbox, fs.dir())
}

/// No space is left for what is stored: the search goes on and its answer is printed, with the loss named; what was stored
/// before stays, what is read from the store is still there, and nothing comes into it.
fn store_fills_up(search: [&str; 2]) {
    let elsewhere = Sandbox::new();
    let other = elsewhere.dir();
    elsewhere.json(&["run", "randread", p(&other), "size=64M", "operations=100"], &[0, 1]);
    let mount = Mount::new("tmpfs", Path::new("none"), "size=2m").unwrap();
    let sandbox = Sandbox::with_db(mount.dir().join("fathom.db"));
    let dir = sandbox.dir();
    let running = start(&sandbox, search, p(&dir), &["size=64M", "direct=no"]);
    let rest = mount.dir().join("rest");
    let of = format!("of={}", rest.display());
    assert!(run_tool("dd", ["if=/dev/zero", &of, "bs=4k"]).is_err(), "dd ends on a full disk");
    let done = running.finish();
    assert_eq!(done.code, 6, "{done:?}");
    let result = done.result();
    assert_eq!((&result["stored"], result["exit_code"].as_i64()), (&Value::Bool(false), Some(6)));
    let reported = done.stdout.matches("\"type\":\"trial_finished\"").count();
    assert!(reported > 2, "the search went on: {done:?}");
    for word in ["could not be stored", p(sandbox.db()), "no space left", "--db"] {
        assert!(done.stderr.contains(word), "'{word}' is not in {}", done.stderr);
    }
    let shown = done.stderr.split("fathom show ").nth(1).expect("what was kept is named");
    let kept = sandbox.runs().swap_remove(0);
    assert!(
        kept["id"].as_str().unwrap().starts_with(shown.split_whitespace().next().unwrap()),
        "{done:?}"
    );
    assert_eq!((&kept["kind"], &kept["state"]), (&search[0].into(), &"partial".into()));
    let trials = kept["trials"].as_u64().unwrap();
    assert!((2..reported as u64).contains(&trials), "{trials} of {reported}");
    let export = elsewhere.scratch.join("other.jsonl");
    let written = elsewhere.run(&["export", "-o", p(&export)]);
    assert_eq!(written.code, 0, "{written:?}");
    let import = sandbox.run(&["import", p(&export)]);
    import.is_refusal(6, &[p(sandbox.db()), "no space left"]);
    assert_eq!(sandbox.runs(), [kept], "nothing of what did not fit has come in");
    fs::remove_file(&rest).unwrap();
    assert_eq!(sandbox.run(&["import", p(&export)]).code, 0);
    let history = sandbox.json(&["history", p(&other)], &[0]);
    assert_eq!(history.result()["series"].as_array().unwrap().len(), 1, "{history:?}");
    sandbox.nothing_left(&[]);
}
