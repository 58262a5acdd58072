//! Completions by polling, on devices that can, in a guest of QEMU: NVMe with a poll queue and null_blk.

use crate::family::{contains, ended, findings, result, run_guest};
use crate::{traced, turning};
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{Bus, GuestJob, GuestReport, Trial, fathom_binary, kernel_test};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn trials() -> Vec<Trial> {
    let tools = ["busybox", "modprobe", "mkfs.ext4", "mdadm", "dmsetup", "blktrace", "blkparse"];
    let tools = tools.map(Tool);
    let needs = [&[Qemu, FathomBinary], &tools[..]].concat();
    vec![kernel_test("polled_completions", &needs, polled)]
}

/// What the NVMe controller's interrupts have come to.
const PRELUDE: &str = r#"
export FATHOM_DB=/run/store/fathom.db
read_some() { fathom --json --quiet run randread "$@"; }
limit() { echo $1 >$(ls /sys/class/nvme/nvme*/hwmon*/temp1_max /sys/class/nvme/nvme*/hwmon/hwmon*/temp1_max 2>/dev/null | head -1); }
interrupts() { awk '/nvme/ { for (i = 2; i <= 3; i++) sum += $i } END { print sum + 0 }' /proc/interrupts; }
"#;

/// The kernel's own counts of the disk's interrupts around the reads of a watched command, and around the watch.
const QUEUES: &str = r#"
list() { awk '/nvme/ { print $NF, $2 + $3 }' /proc/interrupts; }
list >outside.before
fathom --json --quiet watch /run/nvme --interval=500ms -- sh -c "
    awk '/nvme/ { print \$NF, \$2 + \$3 }' /proc/interrupts >inside.before
    dd if=/run/nvme of=/dev/null bs=4k count=600 iflag=direct status=none
    awk '/nvme/ { print \$NF, \$2 + \$3 }' /proc/interrupts >inside.after"
list >outside.after
for list in outside.before inside.before inside.after outside.after; do echo "$list" $(cat $list); done
"#;

fn job() -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    let job = GuestJob::new(binary.parent().expect("a directory"))
        .qemu()
        .disk(16 << 20)
        .disk_on(Bus::Nvme, 3 << 30)
        .prelude(PRELUDE)
        .setup(
            "drivers",
            "load virtio_blk
             load_with nvme poll_queues=1
             load_with null_blk queue_mode=2 submit_queues=1 poll_queues=1
             wait_for /dev/vda /dev/nullb0
             ln -s /dev/$(nvme_disk fathom-1) /run/nvme
             mkfs.ext4 -q /run/nvme
             mkdir mnt; mount /run/nvme mnt",
        )
        .step("before", "interrupts")
        .step("nvme", "read_some /run/nvme operations=2000 depth=1 polled=yes")
        .step("between", "interrupts")
        .step("waiting", "read_some /run/nvme operations=2000 depth=1 polled=no")
        .step("after", "interrupts")
        .step("deep", "read_some /run/nvme operations=2000 depth=16 polled=yes registered=no")
        .step("thread", "read_some /run/nvme operations=500 depth=4 polled=yes sqpoll=yes")
        .step("null", "read_some /dev/nullb0 operations=2000 depth=8 polled=yes")
        .step("file", "read_some mnt size=8M operations=500 depth=4 polled=yes")
        .step("written", "fathom --json --quiet run randwrite mnt size=8M operations=500 polled=yes sync_at_end=none")
        .step("rate", "read_some /run/nvme rate=200 operations=400 depth=4 polled=yes")
        .step("rate_thread", "read_some /run/nvme rate=200 operations=400 depth=4 polled=yes sqpoll=yes")
        .step("slow", "read_some /run/nvme cap_iops=200 operations=200 depth=2 polled=yes")
        .step("refused", "read_some /dev/vda operations=500 polled=yes")
        // The drive says that it has 50 degrees; the limit is a setting of its own.
        .step("cool", "read_some /run/nvme operations=500 depth=4")
        .step("hot", "limit 40000; read_some /run/nvme operations=500 depth=4 || code=$?; limit 80000; exit ${code:-0}")
        .step(
            "clock",
            "echo acpi_pm >/sys/devices/system/clocksource/clocksource0/current_clocksource
             read_some /run/nvme operations=500 depth=4",
        );
    turning::steps(traced::steps(job.step("queues", QUEUES)))
}

fn polled() {
    let report = run_guest("polled", job(), false).unwrap_or_else(|error| panic!("{error}"));
    conditions(&report);
    queues(&report);
    traced::check(&report);
    turning::check(&report);
    for (step, operations) in
        [("nvme", 2000), ("deep", 2000), ("thread", 500), ("null", 2000), ("file", 500)]
    {
        did(&report, step, operations, "read");
    }
    did(&report, "written", 500, "write");
    at_a_rate(&report);
    let interrupts =
        |step: &str| -> u64 { ended(&report, step, 0).stdout.trim().parse().expect("a number") };
    let polled = interrupts("between") - interrupts("before");
    let waiting = interrupts("after") - interrupts("between");
    assert!(polled * 4 < waiting, "{polled} interrupts when polled, {waiting} when not");
    let refused = report.step("refused");
    assert_eq!(refused.code, Some(4), "{}", refused.said());
    contains(&refused.said(), &["cannot be polled", "use polled=no"]);
}

/// What watch counts of each queue lies between what the kernel counted around the command and around the watch.
fn queues(report: &GuestReport) {
    let lines: Vec<&str> = ended(report, "queues", 0).stdout.lines().collect();
    let count = |list: &str, queue: &str| -> u64 {
        let line = lines.iter().find_map(|line| line.strip_prefix(list)).expect("a list");
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_queue = words.chunks(2).find(|pair| pair[0] == queue);
        of_queue.map_or(0, |pair| pair[1].parse().expect("a number"))
    };
    let samples: Vec<Value> = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|object: &Value| object["type"] == "sample")
        .collect();
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    for device in samples.iter().flat_map(|sample| sample["devices"].as_array().expect("devices")) {
        for each in device["interrupts"].as_array().into_iter().flatten() {
            let queue = each[0].as_str().expect("a name");
            *told.entry(queue).or_default() += each[1].as_u64().expect("a number");
        }
    }
    assert!(told.len() >= 2, "{told:?}");
    for (queue, told) in &told {
        let between = |from: &str, to: &str| count(to, queue) - count(from, queue);
        let inside = between("inside.before", "inside.after");
        let outside = between("outside.before", "outside.after");
        assert!((inside..=outside).contains(told), "{queue}: {inside} to {outside}, told {told}");
    }
    // One that waits for each of its reads gets an interrupt for each.
    let sum: u64 = told.values().sum();
    assert!(sum >= 600, "{told:?}");
}

/// Requests start when they are due, also where nothing but looking tells that others have ended.
fn at_a_rate(report: &GuestReport) {
    for step in ["rate", "rate_thread"] {
        let record = did(report, step, 400, "read");
        let open = &record["jobs"][0]["open_loop"];
        assert_eq!((&open["due"], &open["not_started"]), (&400.into(), &0.into()), "{step}");
        // The last one is due 399 gaps of 5 ms after the first. Here a program takes six times as long as elsewhere.
        let window_ns = record["window_ns"].as_u64().expect("a number");
        assert!((1_995_000_000..20_000_000_000).contains(&window_ns), "{step}: {window_ns}");
    }
    let record = did(report, "slow", 200, "read");
    let window_ns = record["window_ns"].as_u64().expect("a number");
    // Ten milliseconds may be caught up.
    assert!(window_ns >= 980_000_000, "200 at 200 per second: {window_ns}");
}

/// The step issued so many operations on a ring that polls; gives its record.
#[track_caller]
fn did(report: &GuestReport, step: &str, operations: u64, class: &str) -> Value {
    let code = report.step(step).code.expect("it ended");
    assert!(code < 2, "{}", report.step(step).said());
    // A mounted device is otherwise read through the page cache too, which cannot be polled.
    let records = &result(report, step, code)["records"];
    assert_eq!(records.as_array().map(Vec::len), Some(1), "{step}");
    let record = records[0].clone();
    let classes = record["jobs"][0]["classes"].as_array().expect("classes");
    let done = classes.iter().find(|c| c["class"] == class).expect("a class");
    assert_eq!(done["latency_ns"]["count"], operations, "{step}");
    let features = record["jobs"][0]["engine"]["features"].to_string();
    contains(&features, &["\"polled\""]);
    record
}

/// A drive at its limit of temperature, and a clock that is dear to read.
fn conditions(report: &GuestReport) {
    let found = |step: &str| {
        let code = report.step(step).code.unwrap_or(-1);
        assert!((0..=1).contains(&code), "{step}: {}", report.step(step).said());
        result(report, step, code)
    };
    let (cool, hot, clock) = (found("cool"), found("hot"), found("clock"));
    let of = |result: &Value| -> Vec<String> {
        findings(result)
            .into_iter()
            .filter(|id| ["throttled", "slow-clock"].contains(id))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(of(&cool), [] as [&str; 0], "{cool}");
    assert_eq!(of(&hot), ["throttled"], "{hot}");
    assert_eq!(hot["verdict"], "doubtful", "{hot}");
    assert_eq!(of(&clock), ["slow-clock"], "{clock}");
}
