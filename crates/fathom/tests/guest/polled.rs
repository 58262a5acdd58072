//! Completions by polling, on devices that can, in a guest of QEMU: NVMe with a poll queue and null_blk.

use crate::family::{contains, ended, findings, result, run_guest};
use crate::traced;
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{Bus, GuestJob, GuestReport, Trial, fathom_binary, kernel_test};
use serde_json::Value;

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
    traced::steps(job)
}

fn polled() {
    let report = run_guest("polled", job(), false).unwrap_or_else(|error| panic!("{error}"));
    conditions(&report);
    traced::check(&report);
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
