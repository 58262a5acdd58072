//! Settings that only arrays, SCSI and NVMe disks have: in one guest, where this program runs a second time and sets them.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod inside;

use fathom_testkit::Capability::{Qemu, Tool};
use fathom_testkit::{Bus, Guest, GuestJob, GuestReport, harness, kernel_test};
use std::env;
use std::process::ExitCode;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// Disks: three for an array with parity, one NVMe namespace over two paths, one SCSI disk in memory.
const DISKS: &str = "
load virtio_blk md-mod raid456 bfq kyber-iosched nvme scsi_debug sd_mod
wait_for /dev/vda /dev/vdb /dev/vdc /dev/sda
mdadm --create /dev/md0 --run --level=5 --chunk=64 --raid-devices=3 --assume-clean --bitmap=internal \
    --bitmap-chunk=64M /dev/vda /dev/vdb /dev/vdc
nvme_disk fathom-3
mkdir -p /run/groups
mount -t cgroup2 groups /run/groups
";

fn main() -> ExitCode {
    if let Some(target) = env::var_os(inside::TARGET) {
        return inside::play(target.as_ref());
    }
    harness::run(vec![kernel_test(
        "settings_of_arrays_and_drives_come_back",
        &[Qemu, Tool("mdadm"), Tool("busybox"), Tool("modprobe")],
        come_back,
    )])
}

fn come_back() {
    let program = env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_string_lossy().into_owned();
    let on = |device: &str| format!("{}={device} {name}", inside::TARGET);
    let job = GuestJob::new(program.parent().unwrap()).qemu();
    let job = (0..3).fold(job, |job, _| job.disk_on(Bus::Virtio, 64 * MIB));
    let job = job
        .disk_on(Bus::TwoPathNvme, 64 * MIB)
        .setup("disks", DISKS)
        .step("array", &on("/dev/md0"))
        .step("nvme", &on("/dev/$(nvme_disk fathom-3)"))
        .step("scsi", &on("/dev/sda"));
    let report = Guest::boot(job.limit_at_least(Duration::from_secs(15 * 60)))
        .and_then(Guest::wait)
        .unwrap();
    println!("\nguest knobs: {}", report.times());
    let array = passed(&report, "array");
    for id in [
        "md.stripe_cache_size",
        "md.group_thread_cnt",
        "md.preread_bypass_threshold",
        "md.rmw_level",
        "md.skip_copy",
        "md.sync_speed_min",
        "md.sync_speed_max",
        "md.bitmap_time_base",
        "md.speed_limit_min",
        "block.read_ahead_kb",
    ] {
        assert!(array.contains(&format!("set {id} ")), "{id}:\n{array}");
    }
    let nvme = passed(&report, "nvme");
    assert!(nvme.contains("set nvme.iopolicy "), "{nvme}");
    let scsi = passed(&report, "scsi");
    for id in [
        "scsi.queue_depth",
        "scsi.cache_type",
        "block.nr_requests",
        "mq-deadline.fifo_batch",
        "cgroup.io_cost_qos",
        "cgroup.io_cost_model",
    ] {
        assert!(scsi.contains(&format!("set {id} ")), "{id}:\n{scsi}");
    }
}

fn passed(report: &GuestReport, step: &str) -> String {
    let step = report.step(step);
    assert_eq!(step.code, Some(0), "{}\n{}", step.stdout, step.stderr);
    println!("{}", step.stdout);
    step.stdout.clone()
}
