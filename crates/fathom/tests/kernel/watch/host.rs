//! What `fathom watch` says of the whole machine, beside the kernel's files that the test reads itself.

use super::{Load, samples};
use crate::cli::{MIB, Sandbox, p};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop};
use fathom_testkit::{FsKind, Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::time::Instant;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![kernel_test("watch_agrees_with_the_kernel_about_the_machine", &ext4, machine)]
}

/// Counters of the machine since it was started, and memory as it is.
struct Look {
    at: Instant,
    /// user and nice; system and interrupts; idle; iowait; stolen: in ticks.
    ticks: [f64; 5],
    interrupts: f64,
    switches: f64,
    /// Some and all waited for I/O, in microseconds; none where the kernel does not tell.
    stalled_us: Option<[f64; 2]>,
    dirty_bytes: f64,
}

impl Look {
    fn take() -> Self {
        let at = Instant::now();
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let numbers = |key: &str| -> Vec<f64> {
            let line = stat.lines().find(|line| line.split(' ').next() == Some(key)).unwrap();
            line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect()
        };
        let cpu = numbers("cpu");
        let pressure = fs::read_to_string("/proc/pressure/io").ok().map(|text| {
            let totals = text.lines().map(|line| line.rsplit_once("total=").unwrap().1);
            let totals: Vec<f64> = totals.map(|total| total.parse().unwrap()).collect();
            [totals[0], totals[1]]
        });
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
        let dirty = meminfo.lines().find_map(|line| line.strip_prefix("Dirty:")).unwrap();
        let dirty_kib: f64 = dirty.split_whitespace().next().unwrap().parse().unwrap();
        Self {
            at,
            ticks: [cpu[0] + cpu[1], cpu[2] + cpu[5] + cpu[6], cpu[3], cpu[4], cpu[7]],
            interrupts: numbers("intr")[0],
            switches: numbers("ctxt")[0],
            stalled_us: pressure,
            dirty_bytes: dirty_kib * 1024.0,
        }
    }
}

/// What fathom says that differs from what the two looks say, which enclose its interval.
fn differences(host: &Value, before: &Look, after: &Look) -> Vec<String> {
    let seconds = (after.at - before.at).as_secs_f64();
    let all: f64 = (0..5).map(|of| after.ticks[of] - before.ticks[of]).sum();
    let share = |of: usize| (after.ticks[of] - before.ticks[of]) / all;
    let mut found = Vec::new();
    let mut compare = |key: &str, own: f64, allowed: f64| {
        let told = host.pointer(key).and_then(Value::as_f64);
        if told.is_none_or(|told| (told - own).abs() > allowed) {
            found.push(format!("{key}: {told:?}, here {own}"));
        }
    };
    for (key, of) in
        [("/user_share", 0), ("/system_share", 1), ("/iowait_share", 3), ("/steal_share", 4)]
    {
        compare(key, share(of), 0.05);
    }
    for (key, count) in [
        ("/interrupts_per_s", after.interrupts - before.interrupts),
        ("/context_switches_per_s", after.switches - before.switches),
    ] {
        compare(key, count / seconds, count / seconds * 0.15);
    }
    if let Some((from, to)) = before.stalled_us.zip(after.stalled_us) {
        for at in 0..2 {
            let own = (to[at] - from[at]) / 1e6 / seconds;
            compare(&format!("/io_pressure/{at}"), own, 0.05);
        }
    }
    let dirty = after.dirty_bytes;
    compare("/dirty_bytes", dirty, dirty * 0.3);
    found
}

fn machine() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    // Much memory waits to be written, and some tasks wait for storage.
    let dirty = fs.dir().join("dirty");
    let _writes = Load::start(&format!(
        "dd if=/dev/zero of={0} bs=1M count=64; while :; do dd if=/dev/zero of={0} bs=1M count=64 conv=notrunc; sleep 0.1; done",
        p(&dirty)
    ));
    let synced = fs.dir().join("synced");
    let _waits = Load::start(&format!(
        "while :; do dd if=/dev/zero of={} bs=4k count=1 oflag=dsync; done",
        p(&synced)
    ));
    let name = fs.device().name();
    let mut tried = Vec::new();
    // Its interval lies between the two looks, and what happens beside it is not steady.
    for _ in 0..8 {
        let before = Look::take();
        let done = sandbox.json(&["watch", &name, "--interval=3s", "--count=1"], &[0]);
        let after = Look::take();
        let host = samples(&done)[0]["host"].clone();
        assert!(host["dirty_bytes"].as_u64() > Some(4 * MIB), "{host}");
        assert!(host["interrupts_per_s"].as_f64() > Some(10.0), "{host}");
        assert!(host["context_switches_per_s"].as_f64() > Some(10.0), "{host}");
        tried = differences(&host, &before, &after);
        if tried.is_empty() {
            return;
        }
    }
    panic!("{tried:?}");
}
