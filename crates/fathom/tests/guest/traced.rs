//! Requests followed by tracepoints through device mapper, md and SCSI: steps of a guest of QEMU, whose kernel has tracepoints that the
//! kernels of other guests lack.

use crate::family::{ended, result};
use fathom_testkit::{GuestJob, GuestReport};
use serde_json::Value;

/// A linear volume on a RAID 0 of two disks.
const STACK: &str = r#"
load sd_mod raid0 dm-mod
load_with scsi_debug dev_size_mb=16 add_host=2 per_host_store=1 delay=0
wait_for /dev/sda /dev/sdb
mdadm --build /dev/md0 --level=0 --chunk=4 --raid-devices=2 /dev/sda /dev/sdb
dmsetup create linear --table "0 32768 linear /dev/md0 0"
wait_for /dev/mapper/linear
"#;

/// Reads of the volume: each is one of the array and one of a disk.
const READS: u64 = 400;
const READ: &str = "dd if=/dev/mapper/linear of=/dev/null bs=4k count=400 iflag=direct status=none";

/// What the guest does.
pub fn steps(job: GuestJob) -> GuestJob {
    let watch = format!("fathom --json --quiet watch dm-0 --latency --interval=500ms -- {READ}");
    let capture = |device: &str| {
        format!("fathom --json --quiet capture {device} -o mnt/{device}.trace -- {READ}")
    };
    job.step("stack", STACK)
        .step("watched", &watch)
        .step("captured", &capture("dm-0"))
        .step("disk", &capture("sda"))
}

/// What came of it.
pub fn check(report: &GuestReport) {
    ended(report, "stack", 0);
    watched(&ended(report, "watched", 0).stdout);
    let captured = |step: &str| {
        let code = report.step(step).code.expect("it ended");
        assert!(code <= 1, "{}", report.step(step).said());
        result(report, step, code)["capture"].clone()
    };
    let volume = captured("captured");
    assert_eq!(reads(&volume), READS, "{volume}");
    // Without a queue of the kernel's there is none to get out of.
    assert_eq!(volume["requeues"], 0, "{volume}");
    assert!(volume["classes"][0]["total_ns"]["count"].as_u64() > Some(0), "{volume}");
    let disk = captured("disk");
    // What each stands on is kept with it, before and after: the volume on its disk, the disk on nothing.
    for (capture, least) in [(&volume, 2), (&disk, 1)] {
        for when in ["before", "after"] {
            let nodes = capture["stacks"][0][when]["nodes"].as_array().map_or(0, Vec::len);
            assert!(nodes >= least, "{when}: {}", capture["stacks"]);
        }
    }
    assert_eq!(reads(&disk), READS / 2, "{disk}");
}

fn reads(capture: &Value) -> u64 {
    let classes = capture["classes"].as_array().expect("classes");
    let read = classes.iter().find(|class| class["class"] == "read");
    read.and_then(|class| class["count"].as_u64()).unwrap_or_default()
}

/// Every layer is told by itself; of those without a queue from the arrival.
fn watched(stdout: &str) {
    let samples: Vec<Value> = stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|object: &Value| object["type"] == "sample")
        .collect();
    for (name, wanted, from_arrival) in [
        ("dm-0", READS, true),
        ("md0", READS, true),
        ("sda", READS / 2, false),
        ("sdb", READS / 2, false),
    ] {
        let own = || {
            let devices = samples.iter().flat_map(|s| s["devices"].as_array().expect("devices"));
            devices.filter(|device| device["name"] == name)
        };
        let sum = |place: &str| -> u64 {
            own().filter_map(|device| device.pointer(place)?.as_u64()).sum()
        };
        let told = [sum("/counts/reads/requests"), sum("/latency/reads/count")];
        assert_eq!(told, [wanted; 2], "{name}: {samples:?}");
        let says = own().any(|device| device["latency"]["from_arrival"] == true);
        assert_eq!(says, from_arrival, "{name}");
    }
}
