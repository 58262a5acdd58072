//! A machine that says that it is one of a provider's, with a volume that may be fast on credit.

use super::look;
use crate::family::contains;
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{Guest, GuestJob, Trial, fathom_binary, kernel_test};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let needs = [Qemu, FathomBinary, Tool("busybox"), Tool("modprobe")];
    vec![kernel_test("check_cloud", &needs, cloud)]
}

/// The words by which Azure's machines and their volumes are known; the volume has credit for four fast seconds.
const PROVIDER: [&str; 10] = [
    "-smbios",
    "type=1,manufacturer=Microsoft Corporation,product=Virtual Machine",
    "-smbios",
    "type=3,asset=7783-7084-3265-9085-8269-3286-77",
    "-drive",
    "if=none,id=volume,format=raw,file.driver=null-co,file.read-zeroes=on,file.size=1073741824,\
     throttling.iops-total=40,throttling.iops-total-max=400,throttling.iops-total-max-length=4",
    "-device",
    "virtio-scsi-pci,id=adapter",
    "-device",
    "scsi-hd,bus=adapter.0,drive=volume,vendor=Msft,product=Virtual Disk",
];

/// Until the credit is used up and for a while after it.
const MEASURED: &str = "
fathom --db=/run/store.db run randread /dev/sda duration=8s depth=4 --interval=200ms || [ $? = 1 ]
echo === fathom
fathom --db=/run/store.db --json --quiet check
";

fn cloud() {
    let binary = fathom_binary().expect("asked for");
    let job = GuestJob::new(binary.parent().expect("a directory"));
    let job = super::job(job)
        .qemu()
        .limit(Duration::from_secs(900))
        .arguments(&PROVIDER)
        .setup("drivers", "load virtio_scsi sd_mod; wait_for /dev/sda")
        .step("cloud", "echo === fathom; fathom --json --quiet check")
        .step("cloud_measured", MEASURED);
    let report = Guest::boot(job).and_then(Guest::wait).map_err(|e| e.to_string());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest cloud: {}", report.times());
    let fresh = look(&report, "cloud");
    fresh.has(&["cloud-volume /dev/sda"]).lacks(&["rate-cliff"]);
    contains(&fresh.defect("cloud-volume").to_string(), &["managed disk", "Microsoft Azure"]);
    let measured = look(&report, "cloud_measured");
    measured.has(&["rate-cliff /dev/sda"]);
    contains(
        &measured.defect("rate-cliff").to_string(),
        &["finding not-steady", "Microsoft Azure"],
    );
}
