//! What programs wait for on a disk that turns: steps of a guest of QEMU, whose SATA disk serves fifty requests a second, however many
//! wait for it.

use crate::family::{findings, result};
use fathom_testkit::{GuestJob, GuestReport};
use serde_json::Value;

/// The disk, as words of QEMU's command line.
const DISK: [&str; 8] = [
    "-object",
    "throttle-group,id=turns,x-iops-total=50",
    "-blockdev",
    "driver=null-co,size=67108864,read-zeroes=on,node-name=plates",
    "-blockdev",
    "driver=throttle,throttle-group=turns,file=plates,node-name=turning",
    "-device",
    "ide-hd,bus=ide.5,drive=turning,model=LAB-DISK,serial=turning,rotation_rate=7200",
];

const FOUND: &str = r#"
load ahci sd_mod
for i in $(seq 100); do grep -l LAB-DISK /sys/block/sd*/device/model 2>/dev/null >turning && break; sleep 0.1; done
cut -d/ -f4 turning >turning.name
"#;

const ONE: &str = "disk=$(cat turning.name)
fathom --json --quiet watch $disk --interval=500ms -- dd if=/dev/$disk of=/dev/null bs=4k count=100 iflag=direct status=none";

const EIGHT: &str = r#"disk=$(cat turning.name)
fathom --json --quiet watch $disk --interval=500ms -- sh -c "for i in 1 2 3 4 5 6 7 8; do
    dd if=/dev/$disk of=/dev/null bs=4k skip=\$((i * 1000)) count=50 iflag=direct status=none &
done; wait""#;

/// The guest has the disk, and is to read it.
pub fn steps(job: GuestJob) -> GuestJob {
    let job = job.arguments(&DISK);
    job.step("turning", FOUND).step("one_reader", ONE).step("eight_readers", EIGHT)
}

/// One reader waits for one request after another. Eight keep the disk busy all the time, and get no more of it: what is said
/// about more threads is true.
pub fn check(report: &GuestReport) {
    let per_s = |step: &str, requests: u64, id: &str| {
        let result = result(report, step, 0);
        assert!(findings(&result).contains(&id), "{step}: {result}");
        let application = &result["summary"]["application"];
        let devices = application["devices"].as_object().expect("devices");
        let reads: Vec<&Value> =
            devices.values().map(|device| &device["reads"]["requests"]).collect();
        assert_eq!(reads, [requests], "{step}: {application}");
        let text = result["findings"].to_string();
        let of_more = "more threads would make them wait longer and bring little";
        assert_eq!(text.contains(of_more), id == "device-bound", "{step}: {text}");
        requests as f64 * 1e9 / application["took_ns"].as_f64().expect("a time")
    };
    let one = per_s("one_reader", 100, "latency-bound");
    let eight = per_s("eight_readers", 400, "device-bound");
    assert!(eight < 1.5 * one, "{one:.1} reads a second of one reader, {eight:.1} of eight");
}
