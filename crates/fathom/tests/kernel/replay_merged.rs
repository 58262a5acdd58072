//! Replays and twins of requests that were merged before the driver of the trace got them.

use crate::cli::{Kept, MIB, Sandbox, p, run};
use crate::replay::{consent, patterned};
use fathom_testkit::Capability::{self, FathomBinary, LoopDevices, Tool};
use fathom_testkit::no_ring::without_calls;
use fathom_testkit::{LoopDevice, Trial, Zram, kernel_test};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices];
    let zram = [FathomBinary, LoopDevices, Capability::Zram];
    let without = [FathomBinary, LoopDevices, Tool("python3")];
    vec![
        kernel_test("replay_hands_over_together_what_was_merged", &needs, merged),
        kernel_test("replay_judges_no_device_without_a_queue", &zram, on_zram),
        kernel_test("replay_counts_not_what_others_do", &needs, beside_others),
        kernel_test("replay_of_merges_without_libaio", &without, without_libaio),
        kernel_test("twin_of_merges_sends_as_few", &needs, twin_is_merged),
        kernel_test("likeness_of_what_was_merged", &needs, alike_as_one),
    ]
}

const BURSTS: u64 = 120;

/// Bursts of writes one behind the other.
#[derive(Debug, Clone, Copy)]
struct Burst {
    writes: u64,
    apart_us: u64,
    /// Of another process, one behind each write.
    reads: u64,
    is_merged: bool,
}

impl Burst {
    /// What blkparse prints of them, each merged into one request or by itself.
    fn text(self) -> String {
        let mut out = String::new();
        let mut line = |us: u64, action: &str, (letters, sector, sectors): (&str, u64, u64)| {
            let (s, ns) = (us / 1_000_000, us % 1_000_000 * 1000);
            let who = if action == "C" { "0" } else { "x" };
            writeln!(out, "8,0 0 0 {s}.{ns:09} 9 {action} {letters} {sector} + {sectors} [{who}]")
                .unwrap();
        };
        for number in 0..BURSTS {
            let (from_us, first) = (number * 5000, number * 512);
            let write = |n: u64| ("W", first + 8 * n, 8);
            for n in 0..self.writes {
                let us = from_us + n * self.apart_us;
                line(us, "Q", write(n));
                if self.is_merged && n > 0 {
                    line(us, "M", write(n));
                }
                if n < self.reads {
                    let read = ("R", (n * 977 + number * 131) % 8000 * 8, 8);
                    line(us, "Q", read);
                    line(us, "D", read);
                    line(us, "C", read);
                }
            }
            let issued_us = (self.writes * self.apart_us).max(1000);
            for (us, action) in [(issued_us, "D"), (issued_us + 900, "C")] {
                if self.is_merged {
                    line(from_us + us, action, ("W", first, 8 * self.writes));
                } else {
                    (0..self.writes).for_each(|n| line(from_us + us, action, write(n)));
                }
            }
        }
        out
    }
}

/// Writes that were one request to the driver of the trace are one here, however few, whatever comes between them, and slowly too. Of the
/// same writes without a word of a merge each is handed over by itself. Either way they count as they arrived.
fn merged() {
    let sandbox = Sandbox::new();
    let replayed = |burst: Burst, more: &[&str]| {
        // What is merged is merged by whoever hands it over, and not by a scheduler that waits for more.
        let device = unscheduled(&sandbox);
        let path = trace(&sandbox, burst);
        let before = count(&device.name(), 4);
        let id = consent(&device);
        let words = [&["replay", p(&path), p(device.path()), &id], more].concat();
        let done = sandbox.json(&words, &[0, 1]);
        let written = count(&device.name(), 4) - before;
        let record = done.records().remove(0);
        let classes = record["capture"]["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["class"] == "write").unwrap();
        assert_eq!(class["count"], BURSTS * burst.writes, "{record}");
        assert_eq!(class["bytes"], BURSTS * burst.writes * 4096, "{record}");
        done.has_not("replay-engine");
        (written, done)
    };
    let burst = BURST;
    for (burst, more) in [
        (burst, &[][..]),
        (Burst { writes: 2, ..burst }, &[]),
        (Burst { apart_us: 10, reads: 60, ..burst }, &[]),
        (Burst { writes: 16, apart_us: 50, ..burst }, &["--speed=0.2x"]),
        (burst, &["--speed=max"]),
    ] {
        let (writes, done) = replayed(burst, more);
        assert_eq!(writes, BURSTS, "{burst:?} {more:?}");
        done.has_not("replay-merges");
    }
    // They wait for the last, and arrived when they did.
    let (writes, done) = replayed(Burst { writes: 16, apart_us: 50, ..burst }, &[]);
    assert_eq!(writes, BURSTS);
    let result = done.result();
    let all = result["likeness"].as_array().unwrap();
    let gaps = all.iter().find(|d| d["figure"] == "time between arrivals").unwrap();
    assert!(gaps["distance"].as_f64().unwrap() < 0.5, "{gaps}");
    let (apart, done) = replayed(Burst { is_merged: false, ..burst }, &[]);
    assert!(apart > BURSTS * 32, "{apart} writes of what was not merged");
    done.has_not("replay-merges");
}

/// What `/sys/block/NAME/stat` counts in a column: 0 of reads, 4 of writes.
fn count(name: &str, column: usize) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
    stat.split_whitespace().nth(column).unwrap().parse().unwrap()
}

fn trace(sandbox: &Sandbox, burst: Burst) -> PathBuf {
    let path = sandbox.dir().join("t.txt");
    fs::write(&path, burst.text()).unwrap();
    path
}

/// A device on which nothing but a queue of hardware merges.
fn unscheduled(sandbox: &Sandbox) -> LoopDevice {
    let device = patterned(sandbox, 32 * MIB);
    fs::write(format!("/sys/block/{}/queue/scheduler", device.name()), "none").unwrap();
    device
}

const BURST: Burst = Burst { writes: 64, apart_us: 1, reads: 0, is_merged: true };

/// Writes that were merged more than a millisecond apart are not merged here. Where a device counts what its driver gets, that shows; zram,
/// which counts what arrives, is not judged.
fn on_zram() {
    let sandbox = Sandbox::new();
    let slow = trace(&sandbox, Burst { writes: 3, apart_us: 1200, ..BURST });
    let replay = |path: &str, id: &str| {
        sandbox.json(&["replay", p(&slow), path, &format!("--destroy={id}")], &[0, 1])
    };
    let device = unscheduled(&sandbox);
    let done = replay(p(device.path()), p(device.backing()));
    let finding = done.finding("replay-merges");
    assert!(finding["summary"].as_str().unwrap().contains("fewer were merged"), "{finding}");
    let zram = Zram::new(32 * MIB).unwrap();
    let number = fs::read_to_string(format!("/sys/block/{}/diskseq", zram.name())).unwrap();
    let id = format!("{}:{}:{}", zram.name(), 32 * MIB, number.trim());
    let before = count(&zram.name(), 4);
    let done = replay(p(zram.path()), &id);
    assert_eq!(count(&zram.name(), 4) - before, 3 * BURSTS);
    done.has_not("replay-merges");
    empty(&sandbox);
}

/// Reads of a zram that was never written touch nothing, be they replayed or made up; those of what was written do.
fn empty(sandbox: &Sandbox) {
    let zram = Zram::new(16 * MIB).unwrap();
    let mut text = String::new();
    for n in 0..400 {
        let (us, sector) = (n * 500, n * 37 % 4000 * 8);
        for (us, action, who) in [(us, "Q", "x"), (us + 10, "C", "0")] {
            writeln!(text, "8,0 0 0 0.{us:06}000 9 {action} R {sector} + 8 [{who}]").unwrap();
        }
    }
    let reads = sandbox.dir().join("reads.txt");
    fs::write(&reads, text).unwrap();
    let path = p(zram.path());
    let both = || {
        let replayed = sandbox.json(&["replay", p(&reads), path], &[0, 1]);
        let run = sandbox.json(&["run", "randread", path, "duration=200ms"], &[0, 1]);
        [replayed, run]
    };
    for done in both() {
        let finding = done.finding("unwritten-extents");
        assert_eq!(finding["severity"], "doubtful", "{finding}");
        assert!(finding["summary"].as_str().unwrap().contains("only 0 B"), "{finding}");
    }
    fs::write(zram.path(), (0..16 * MIB).map(|n| ((n * 7919) >> 5) as u8).collect::<Vec<u8>>())
        .unwrap();
    both().iter().for_each(|done| done.has_not("unwritten-extents"));
}

/// Somebody reads from the device meanwhile, more often than the trace does.
fn beside_others() {
    let sandbox = Sandbox::new();
    let device = unscheduled(&sandbox);
    let slow = Burst { writes: 1, reads: 1, is_merged: false, ..BURST };
    let (path, name) = (p(device.path()), device.name());
    let script = format!(
        "while dd if={path} of=/dev/null bs=4k count=64 iflag=direct 2>/dev/null; do sleep 0.02; done"
    );
    let others = Kept(Command::new("sh").args(["-c", &script]).spawn().unwrap());
    let before = count(&name, 0);
    let done =
        sandbox.json(&["replay", p(&trace(&sandbox, slow)), path, &consent(&device)], &[0, 1]);
    assert!(count(&name, 0) - before > 2 * BURSTS, "the others hardly read");
    drop(others);
    done.has_not("replay-merges");
}

/// io_uring needs no libaio to hand over as one what was merged. Without either nothing is written, and the cause is told.
fn without_libaio() {
    const IO_SETUP: u32 = if cfg!(target_arch = "x86_64") { 206 } else { 0 };
    const IO_URING_SETUP: u32 = 425;
    let sandbox = Sandbox::new();
    let device = unscheduled(&sandbox);
    let trace = trace(&sandbox, BURST);
    let id = consent(&device);
    let forbidden = |calls: &[u32]| {
        let words = ["--json", "--quiet", "replay", p(&trace), p(device.path()), &id];
        run(|| without_calls(&sandbox.command(&words), calls))
    };
    let before = count(&device.name(), 4);
    let done = forbidden(&[IO_SETUP]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    done.has_not("replay-engine");
    assert_eq!(count(&device.name(), 4) - before, BURSTS);
    let done = forbidden(&[IO_SETUP, IO_URING_SETUP]);
    assert!(done.code == 4 && done.stderr.contains("setting up libaio"), "{done:?}");
    assert_eq!(count(&device.name(), 4) - before, BURSTS);
}

/// The twin has the sizes and the rate of what the driver got, and its description says so; so has the workload that a capture writes.
fn twin_is_merged() {
    let sandbox = Sandbox::new();
    let device = unscheduled(&sandbox);
    let (trace, id) = (trace(&sandbox, BURST), consent(&device));
    let before = count(&device.name(), 4);
    let done = sandbox.json(&["replay", p(&trace), p(device.path()), "--twin", &id], &[0, 1]);
    let writes = count(&device.name(), 4) - before;
    let record = done.records().remove(0);
    let told = record["workload"]["description"].to_string();
    let arrived = format!("{} reads and writes arrived", 64 * BURSTS);
    assert!(told.contains(&arrived) && told.contains("is one request here"), "{told}");
    // For a whole second at least, 120 in 0.6 s.
    assert!((BURSTS..4 * BURSTS).contains(&writes), "{writes} writes of {BURSTS}");
    assert_eq!(record["workload"]["jobs"][0]["block_size"][0]["size_bytes"], 64 * 4096);
    let written = sandbox.dir().join("twin.toml");
    let (from, workload) = (format!("--from={}", p(&trace)), format!("--workload={}", p(&written)));
    sandbox.json(&["capture", &from, &workload], &[0, 1]);
    let text = fs::read_to_string(&written).unwrap();
    assert!(text.contains("block_size = \"262144\"") && text.contains(&arrived), "{text}");
}

/// What a replay issues as one is held against what was merged in the trace.
fn alike_as_one() {
    let sandbox = Sandbox::new();
    let device = unscheduled(&sandbox);
    let (trace, id) = (trace(&sandbox, BURST), consent(&device));
    let (like, out) = (format!("--like={}", p(&trace)), sandbox.dir().join("out.trace"));
    let program = fathom_testkit::fathom_binary().unwrap();
    let inner = format!("--db={}", p(&sandbox.dir().join("inner.db")));
    let words = ["capture", p(device.path()), &like, "-o", p(&out), "--", p(&program), &inner];
    let replay = ["replay", p(&trace), p(device.path()), &id, "--fail-on=void"];
    let done = sandbox.json(&[&words[..], &replay].concat(), &[0, 1]);
    let likeness = done.result()["capture"]["likeness"].clone();
    let all: &Vec<Value> = likeness.as_array().unwrap();
    let sizes = all.iter().find(|one| one["figure"] == "size of writes").unwrap();
    assert!(sizes["distance"].as_f64() < Some(0.05), "{likeness}");
    let told = done.finding("capture-likeness")["summary"].to_string();
    assert!(told.contains("what was merged there counts as the one request"), "{told}");
    // Of stored ones there is no trace.
    let merged = sandbox.json(&["capture", &format!("--from={}", p(&trace))], &[0, 1]);
    let told = sandbox.run(&["compare", &merged.id(), &done.id()]).stdout;
    assert!(told.contains(&format!("Requests of {} were merged", merged.id())), "{told}");
}
