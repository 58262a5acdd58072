//! Block devices through the command line: what may not be written is not, with the right consent in hand; reading is
//! free.

use crate::cli::{Done, MIB, Sandbox, operations, p};
use crate::filesystems::mounted;
use crate::scenarios::{self, Scenario, Staged};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Zram};
use fathom_testkit::command::KitError;
use fathom_testkit::oracle::pattern_mismatch;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Snapshot, TreeSnapshot, Trial, kernel_test,
};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const PATTERN: u64 = 11;

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = scenarios::all()
        .into_iter()
        .map(|scenario| {
            let needs = [&[FathomBinary], scenario.needs.as_slice()].concat();
            kernel_test(&format!("refuses_{}", scenario.name), &needs, move || refused(&scenario))
        })
        .collect();
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    trials.extend([
        kernel_test("writes_blank_device", &[FathomBinary, LoopDevices], || {
            written(scenarios::blank_device)
        }),
        kernel_test("writes_blank_partition", &ext4, || written(scenarios::blank_partition)),
        kernel_test("writes_blank_zram", &[FathomBinary, Zram], || written(scenarios::blank_zram)),
        kernel_test("consent_is_exact", &[FathomBinary, LoopDevices], consent),
        kernel_test("every_writing_workload", &[FathomBinary, LoopDevices], every_workload),
        kernel_test("two_loads_on_one_device", &[FathomBinary, LoopDevices], two_loads),
        kernel_test("several_devices", &[FathomBinary, LoopDevices], several),
        kernel_test("device_of_the_store", &ext4, device_of_store),
        kernel_test("raw_read_of_a_mounted_device", &ext4, mounted_above),
    ]);
    trials
}

fn write(sandbox: &Sandbox, device: &str, more: &[&str]) -> Done {
    sandbox.run(&[&["run", "randwrite", device, "operations=300"], more].concat())
}

/// Right consent, and still nothing changes; reading works.
fn refused(scenario: &Scenario) -> Result<(), KitError> {
    for _ in 1..scenario.attempts() {
        if refused_once(scenario, false)? {
            return Ok(());
        }
    }
    refused_once(scenario, true).map(|_| ())
}

/// True when nothing changed; with `is_strict` it panics otherwise.
fn refused_once(scenario: &Scenario, is_strict: bool) -> Result<bool, KitError> {
    let sandbox = Sandbox::new();
    let staged = (scenario.build)()?;
    let before = staged.snapshot()?;
    let device = p(&staged.device);
    let consent = format!("--destroy={}", staged.id);
    let done = write(&sandbox, device, &[&consent]);
    done.is_refusal(3, &[device, scenario.says]);
    let done = sandbox.json(&["run", "randread", device, "operations=50"], &[0, 1]);
    assert!(done.records().iter().all(|record| operations(record) == 50), "{done:?}");
    if !is_strict && !before.is_same(&staged.witness) {
        return Ok(false);
    }
    before.assert_same(&staged.witness);
    sandbox.nothing_left(&[]);
    Ok(true)
}

/// The control: the same arguments write a blank device.
fn written(build: fn() -> Result<Staged, KitError>) -> Result<(), KitError> {
    let sandbox = Sandbox::new();
    let staged = build()?;
    let before = staged.snapshot()?;
    let done = write(&sandbox, p(&staged.device), &[&format!("--destroy={}", staged.id)]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    for word in ["DESTROYS", p(&staged.device), &staged.id, "backup"] {
        assert!(done.stderr.contains(word), "'{word}' is not in {}", done.stderr);
    }
    let changed: u64 =
        before.differences(&staged.snapshot()?).iter().map(|range| range.end - range.start).sum();
    assert!((100 * 4096..=300 * 4096).contains(&changed), "{changed} bytes changed");
    given_back(&staged.device);
    Ok(())
}

/// Nobody has the device open any more: not at once, since the kernel takes rings apart some time after their process
/// has ended. zram tells, by letting itself be reset.
#[track_caller]
fn given_back(device: &Path) {
    let name = device.file_name().unwrap().to_string_lossy();
    let reset = Path::new("/sys/block").join(&*name).join("reset");
    let begun = Instant::now();
    while reset.exists() && fs::write(&reset, "1").is_err() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{} is still open", device.display());
        thread::sleep(Duration::from_millis(10));
    }
}

fn consent() {
    let sandbox = Sandbox::new();
    let device =
        LoopDevice::with(16 * MIB, Content::Pattern(PATTERN), &LoopOptions::default()).unwrap();
    let other = LoopDevice::new(MIB).unwrap();
    let (name, id) = (p(device.path()), device.backing().display().to_string());
    let exact = format!("--destroy={id}");
    let of_other = format!("--destroy={}", other.backing().display());
    for more in [
        &[][..],
        &["--destroy=wrong"],
        &["--destroy="],
        &[&format!("--destroy={name}")],
        &[&format!("--destroy={}", device.name())],
        &[&format!("{exact}x")],
        &[of_other.as_str()],
    ] {
        let done = write(&sandbox, name, more);
        // The message gives the words to be typed, exactly.
        done.is_refusal(3, &[name, &exact]);
        assert_eq!(pattern_mismatch(device.path(), PATTERN).unwrap(), None);
    }
    let both = write(&sandbox, name, &[&of_other, &exact]);
    assert!([0, 1].contains(&both.code), "{both:?}");
    assert!(pattern_mismatch(device.path(), PATTERN).unwrap().is_some(), "now it was written");
    let quick = sandbox.run(&["quick", name]);
    quick.is_refusal(2, &[name, "block device"]);
}

/// No workload that writes gets past the guard, nor does a job with a target of its own.
fn every_workload() {
    let sandbox = Sandbox::new();
    let device =
        LoopDevice::with(16 * MIB, Content::Pattern(PATTERN), &LoopOptions::default()).unwrap();
    let name = p(device.path());
    for workload in ["randomio", "randwrite", "seqwrite", "commit", "oltp", "replication"] {
        let done = sandbox.run(&["run", workload, name, "--destroy=wrong"]);
        done.is_refusal(3, &[name, "--destroy="]);
    }
    let dir = sandbox.dir();
    let elsewhere = format!("target={name}");
    let done = sandbox.run(&["run", "randwrite", p(&dir), &elsewhere]);
    done.is_refusal(3, &[name, "--destroy="]);
    let reading = sandbox.run(&["run", "randread", name, "write_fraction=0.01"]);
    reading.is_refusal(3, &[name, "--destroy="]);
    assert_eq!(pattern_mismatch(device.path(), PATTERN).unwrap(), None);
    sandbox.nothing_left(&[]);
}

/// A writer that would begin with an empty file, beside a reader: a device is claimed once for both.
fn two_loads() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let file = sandbox.dir().join("two.toml");
    let job = |name: &str, more: &str| {
        format!("[[job]]\nname='{name}'\noperations=100\ndepth=1\n{more}\n")
    };
    let head = "name='two'\ntitle='x'\ndescription='x'\n";
    let text = head.to_owned() + &job("w", "access='sequential'\nwrite_fraction=1") + &job("r", "");
    std::fs::write(&file, text).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    let done = sandbox.json(&["run", p(&file), p(device.path()), &id], &[0, 1]);
    let jobs = done.records()[0]["jobs"].as_array().unwrap().clone();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    assert_eq!(operations(&done.records()[0]), 200);
    sandbox.nothing_left(&[]);
}

const PAGE: &str = include_str!("../../../../docs/run.md");

/// What stands behind these words of the page, up to the end of its block.
fn of_page(after: &str, block: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(after).unwrap();
    rest.split_once(block).unwrap().1.split_once("```").unwrap().0
}

/// The example of the page on two loop devices: each job has its requests on its own, and the table their sum. Several targets
/// in any other form are a mistake with that cure.
fn several() {
    let sandbox = Sandbox::new();
    let disks = [0, 1].map(|_| LoopDevice::new(64 * MIB).unwrap());
    let [a, b] = [&disks[0], &disks[1]].map(|disk| p(disk.path()));
    let file = sandbox.dir().join("disks.toml");
    let on_loops = |text: &str| text.replace("/dev/sdb", a).replace("/dev/sdc", b);
    let text = on_loops(of_page("## Several devices", "```toml\n"));
    fs::write(&file, text.replace("\"60s\"", "\"1s\"")).unwrap();
    let command = on_loops(of_page("## Several devices", "```text\n"));
    let mut words: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert_eq!(words[..2], ["run", "disks.toml"], "{command}");
    words[1] = p(&file);
    let done = sandbox.run(&words);
    assert!([0, 1].contains(&done.code), "{done:?}");
    // The operations per second of a row of the table, which stands behind all jobs.
    let is_head = |line: &&str| line.contains("IOPS") && line.contains("p50");
    let table: Vec<&str> = done.stdout.lines().skip_while(|line| !is_head(line)).collect();
    let iops = |label: &str| -> f64 {
        let row = table.iter().find(|line| line.starts_with(&format!("{label}  "))).unwrap();
        let cells: Vec<&str> = row.trim().split("  ").filter(|cell| !cell.is_empty()).collect();
        cells[2].replace(' ', "").parse().unwrap()
    };
    let (sum, first, second) = (iops("disks"), iops("  first"), iops("  second"));
    assert!(first > 10.0 && second > 10.0 && (sum - first - second).abs() < 2.0, "{table:?}");
    assert!(done.stdout.contains(&format!("on {b}")), "which job is on which: {done:?}");
    // Counted by the kernel: each on its own device.
    let settings = ["first.operations=700", "second.operations=300", "warmup=0s", "duration=10m"];
    let done = sandbox.json(&[&words[..], &settings].concat(), &[0, 1]);
    let record = &done.records()[0];
    for (job, disk, count) in [(0_usize, &disks[0], 700), (1, &disks[1], 300)] {
        assert_eq!(record["jobs"][job]["classes"][0]["latency_ns"]["count"], count);
        let devices = record["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == disk.name()).unwrap();
        let reads = own["reads"].as_u64().unwrap();
        assert!((count..count + 100).contains(&reads), "{own}");
    }
    // Writing wants both.
    let ids = disks.each_ref().map(|disk| format!("--destroy={}", disk.backing().display()));
    let write = [&words[..], &["write_fraction=1", "operations=100", &ids[1]]].concat();
    sandbox.run(&write).is_refusal(3, &[a, &ids[0]]);
    sandbox.json(&[&write[..], &[&ids[0]]].concat(), &[0, 1]);
    let cure = ["a job has one target", "workload file with a [[job]] for each"];
    let list = [format!("{a}:{b}"), format!("{a},{b}"), format!("target={a}:{b}")];
    for several in [&[a, b][..], &[&list[0]], &[&list[1]], &[a, &list[2]]] {
        sandbox.refuses(&[&["run", "randread"], several].concat(), 2, &cure);
    }
    let cure = format!("the target comes after the workload: fathom run randread {a}");
    sandbox.refuses(&["run", "randread", &format!("--target={a}")], 2, &[&cure]);
    let cure = format!("the target comes before all settings: fathom run randread {a}");
    sandbox.refuses(&["run", "randread", &format!("target={a}")], 2, &[&cure]);
    sandbox.refuses(&["run", "randread", "threads=4"], 2, &["fathom run randread TARGET"]);
}

fn device_of_store() {
    let fs = mounted(FsKind::Ext4, &[], "");
    let sandbox = Sandbox::with_db(fs.dir().join("state/fathom.db"));
    sandbox.json(&["run", "randread", "null:", "operations=10"], &[0, 1]);
    let id = format!("--destroy={}", fs.device().backing().display());
    let done = write(&sandbox, p(fs.device().path()), &[&id]);
    done.is_refusal(3, &[p(fs.device().path())]);
    assert_eq!(sandbox.runs().len(), 1, "the store is as it was");
}

/// Which of the two figures was meant is not known: both are shown, and a finding says so.
fn mounted_above() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    fs::write(fs.dir().join("theirs"), vec![7; MIB as usize]).unwrap();
    let before = TreeSnapshot::take(fs.dir()).unwrap();
    let args = ["run", "seqread", p(fs.device().path()), "amount=64M"];
    let done = sandbox.json(&args, &[0, 1]);
    let finding = done.finding("mounted-above");
    assert!(finding["summary"].as_str().unwrap().contains(p(fs.dir())), "{finding}");
    let records = done.records();
    let direct: Vec<_> = records.iter().map(|r| r["targets"][0]["direct"].as_bool()).collect();
    assert_eq!(direct, [Some(true), Some(false)]);
    let labels: Vec<_> = records.iter().map(|r| r["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["seqread, direct", "seqread, buffered"]);
    assert!(records.iter().all(|record| crate::cli::bytes(record) == 64 * MIB));
    before.assert_same(fs.dir());
    let text = sandbox.run(&args);
    assert!(text.stdout.contains("seqread, direct") && text.stdout.contains("seqread, buffered"));
    let classic = ["run", "seeker", p(fs.device().path()), "operations=50", "--style=classic"];
    let text = sandbox.run(&classic).stdout;
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
    assert_eq!((lines[0], lines[2]), ("direct:", "buffered:"), "{text}");
    assert!([1, 3].iter().all(|&line| lines[line].starts_with("Results: ")), "{text}");
    let device = fs.unmount();
    let frozen = Snapshot::take(device.path()).unwrap();
    let args = ["run", "seqread", p(device.path()), "amount=64M"];
    let done = sandbox.json(&args, &[0, 1]);
    done.has_not("mounted-above");
    assert_eq!(done.records().len(), 1);
    frozen.assert_same(device.path());
}
