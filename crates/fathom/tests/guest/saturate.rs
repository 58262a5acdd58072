//! `saturate` and `size` on a disk whose true answer is known: a SCSI disk in memory that takes eight commands at a time and
//! five milliseconds for each, so that it does 1600 a second with eight in flight, and no more with any number; and the same
//! disk with a limit of the control group on top.

use crate::family::{Family, findings, result};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

const DISK: &str = "load sd_mod
    load_with scsi_debug dev_size_mb=64 ndelay=5000000 max_queue=8 per_host_store=1
    wait_for /dev/sda
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    echo +io >/sys/fs/cgroup/cgroup.subtree_control";

/// Four more disks, each with a store of its own, as if they had heads; from then on all take forty milliseconds for a command.
/// The driver takes eight commands at a time, for all its disks together.
const ARRAY: &str = "load md-mod raid0
    echo 4 >/sys/bus/pseudo/drivers/scsi_debug/add_host
    wait_for /dev/sdb /dev/sdc /dev/sdd /dev/sde
    for disk in b c d e; do echo 1 >/sys/block/sd$disk/queue/rotational; echo 2 >/sys/block/sd$disk/device/queue_depth; done
    mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=4 /dev/sd[bcde]
    echo 45000000 >/sys/bus/pseudo/drivers/scsi_debug/ndelay";

pub fn trials() -> Vec<Trial> {
    Family::new("saturate", &["mdadm"], job)
        .alone()
        .judge("eight_commands_at_a_time", &["servers"], servers)
        .judge("a_load_within_a_bound", &["bound"], bound)
        .judge("a_limit_above_the_disk", &["throttled"], throttled)
        .judge("every_size_agrees", &["sizes"], sizes)
        .judge("rounds_become_steady", &["steady"], steady)
        .judge("a_busy_disk_is_not_saturated", &["busy"], busy)
        .judge("one_slow_member_holds_up_the_array", &["members", "slow_member"], slow_member)
        .into_trials()
}

fn job(job: GuestJob) -> GuestJob {
    job.setup("disk", DISK)
        .step("servers", "json saturate /dev/sda --time=25s")
        .step("bound", "json saturate /dev/sda --time=40s --bound=p90:100ms")
        .step("throttled", "json saturate /dev/sda --time=30s cgroup_max=read_iops:300")
        .step("steady", "json run randread /dev/sda depth=4 duration=1s --until-steady")
        .step("sizes", "json size /dev/sda --time=30s --margin=30% depth=16")
        .setup("array", ARRAY)
        .step("busy", "json run randread /dev/sda depth=3 duration=4s")
        .step("members", "json run randread /dev/md0 depth=16 warmup=3s duration=8s")
        .setup("slow", "echo 1 >/sys/block/sdb/device/queue_depth")
        .step("slow_member", "json run randread /dev/md0 depth=16 warmup=3s duration=8s")
}

/// The result of a step that ended, whatever its verdict.
fn outcome(report: &GuestReport, step: &str) -> Value {
    let code = report.step(step).code.unwrap_or(-1);
    assert!((0..=1).contains(&code), "{step}: {}", report.step(step).said());
    result(report, step, code)
}

fn highest(saturation: &Value) -> f64 {
    let rows = saturation["rows"].as_array().expect("rows");
    rows.iter().filter_map(|row| row["iops"]["value"].as_f64()).fold(0.0, f64::max)
}

fn servers(report: &GuestReport) {
    let saturation = &outcome(report, "servers")["saturation"];
    let most = highest(saturation);
    assert!((1100.0..=1760.0).contains(&most), "{most} of 1600: {saturation}");
    let knee = saturation["knee"]["concurrency"].as_u64().expect("a knee");
    assert!((7..=10).contains(&knee), "{saturation}");
    let cause = saturation["limit"]["cause"].as_str().expect("a cause");
    assert!(["queue", "device"].contains(&cause), "{}", saturation["limit"]);
    // One at a time takes its five milliseconds.
    let single = saturation["rows"][0]["iops"]["value"].as_f64().expect("measured");
    assert!(
        saturation["rows"][0]["concurrency"] == 1 && (120.0..=210.0).contains(&single),
        "{single}"
    );
}

/// The disk alone would keep this bound up to nearly all that it does. The rest is the host's: one that is busy with others
/// stops the guest for 20 to 500 ms more often than once in a hundred requests, at any rate, so that no bound on p99 has an
/// answer there; p90 bears nine of them in a hundred. A third of the most is certain.
fn bound(report: &GuestReport) {
    let saturation = &outcome(report, "bound")["saturation"];
    let (most, bound) = (highest(saturation), &saturation["bound"]);
    let rate = bound["answer"]["rate"].as_f64().unwrap_or_else(|| panic!("no rate: {bound}"));
    assert!(rate > most * 0.3 && rate <= most * 1.01, "{rate} of {most}: {bound}");
    for row in bound["rows"].as_array().expect("rows") {
        let (runs, kept) = (row["runs"].as_u64(), row["kept"].as_u64());
        let is_answer = row["rate"].as_f64() == Some(rate);
        assert!(!is_answer || runs == kept, "{row}");
        let worst_ns = row["figure_ns"][1].as_u64().expect("enough requests");
        assert!(!is_answer || worst_ns <= 100_000_000, "{row}");
    }
}

fn throttled(report: &GuestReport) {
    let saturation = &outcome(report, "throttled")["saturation"];
    let most = highest(saturation);
    // The kernel gives out its shares in slices of a tenth of a second and more.
    assert!((150.0..=400.0).contains(&most), "{most} of 300: {saturation}");
    // Of five milliseconds each, two in flight reach the limit.
    let knee = saturation["knee"]["concurrency"].as_u64().expect("a knee");
    assert!((2..=4).contains(&knee), "{saturation}");
    assert_eq!(saturation["limit"]["cause"], "asked", "{}", saturation["limit"]);
}

fn sizes(report: &GuestReport) {
    let sizes = &outcome(report, "sizes")["sizes"];
    // The disk has no cache and no heads: every set agrees, and every read reaches the disk. The margin is what a host that is
    // busy with others takes and gives between two runs; a cache would give many times that.
    let cells = sizes["cells"].as_array().expect("cells");
    for cell in cells.iter().filter(|cell| cell["is_part"] == false) {
        let agrees = cell["outcome"] == "agrees" || cell["outcome"] == "reference";
        assert!(agrees && cell["from_device"].as_f64() > Some(0.9), "{cell}");
    }
    assert!(sizes["answer"][0].as_u64().is_some_and(|bytes| bytes <= 16 << 20), "{sizes}");
    assert_eq!(sizes["cells"][0]["outcome"], "reference", "{sizes}");
}

/// Four in flight, each for five milliseconds.
fn steady(report: &GuestReport) {
    let result = outcome(report, "steady");
    let rounds = &result["rounds"];
    let reached = rounds["reached"].as_u64().unwrap_or_else(|| panic!("not steady: {rounds}"));
    assert_eq!(result["records"].as_array().map(Vec::len), Some(reached as usize));
    let window =
        |figure: usize| rounds["figures"][figure]["window"]["average"].as_f64().expect("a window");
    let (iops, mean_ms) = (window(0), window(1) / 1e6);
    assert!((600.0..=840.0).contains(&iops), "{iops} of 800: {rounds}");
    assert!((4.9..=6.7).contains(&mean_ms), "{mean_ms} ms of 5: {rounds}");
}

/// With three in flight the disk has something to do all the time, and does less than half of what it can with eight.
fn busy(report: &GuestReport) {
    let result = outcome(report, "busy");
    assert!(findings(&result).contains(&"busy-is-not-saturated"), "{:?}", findings(&result));
}

/// Four disks that take two commands at a time, and then one of them only one: all wait for it, once sixteen have gathered there. By
/// arithmetic about 150 reads per second, then 89; 112 are the line between them.
fn slow_member(report: &GuestReport) {
    let (all, slow) = (outcome(report, "members"), outcome(report, "slow_member"));
    let is_found = |result: &Value| findings(result).contains(&"array-like-one-disk");
    assert!(!is_found(&all), "{:?}", findings(&all));
    assert!(is_found(&slow), "{:?} {}", findings(&slow), slow["records"][0]["devices"]);
}
