//! Guests of QEMU: the devices that only they have, and a power failure that loses what a disk may lose.

use crate::{hung, job, outcome};
use fathom_sys::clock::{Calibration, FastClock};
use fathom_testkit::Capability::{Qemu, Tool};
use fathom_testkit::{Bus, GuestError, GuestReport, Trial, kernel_test};

pub fn trials() -> Vec<Trial> {
    let common = [Qemu, Tool("busybox"), Tool("modprobe")];
    let with = |tool| [common.as_slice(), &[Tool(tool)]].concat();
    vec![
        kernel_test("qemu_has_the_devices", &with("mdadm"), devices),
        kernel_test("qemu_power_cut_keeps_only_what_was_flushed", &with("mkfs.ext4"), power_cut),
        kernel_test("qemu_that_hangs_says_where", &common, hangs),
        kernel_test("qemu_that_dies_shows_its_console", &common, dies),
    ]
}

/// The output of a step that went well.
#[track_caller]
fn said<'a>(report: &'a GuestReport, step: &str) -> &'a str {
    let step = report.step(step);
    assert_eq!(step.code, Some(0), "{}: {}", step.name, step.said());
    step.stdout.trim()
}

/// Everything in one guest: booting is dear.
fn devices() {
    const MIB: u64 = 1 << 20;
    let job = job()
        .qemu()
        .disk(32 * MIB)
        .disk(32 * MIB)
        .disk_on(Bus::Nvme, 16 * MIB)
        .disk_on(Bus::TwoPathNvme, 24 * MIB)
        .disk_on(Bus::TwoPathScsi, 8 * MIB)
        .setup(
            "drivers",
            "load virtio_blk virtio_scsi sd_mod raid0
             load_with nvme poll_queues=1
             load_with null_blk queue_mode=2 submit_queues=1 poll_queues=1
             wait_for /dev/vda /dev/vdb /dev/sda /dev/sdb /dev/nullb0
             one=$(nvme_disk fathom-2); two=$(nvme_disk fathom-3); echo one=$one two=$two >names",
        )
        .step("processors", "nproc")
        .step("counter", r"dmesg | sed -n 's/.*tsc: Detected \([0-9.]*\) MHz processor/\1/p'")
        .step("polled", "cd /sys/block; . /run/names; cat $one/queue/io_poll nullb0/queue/io_poll vda/queue/io_poll")
        .step("nvme_sizes", ". ./names; cat /sys/block/$one/size /sys/block/$two/size")
        .step("nvme_paths", "cat /sys/class/nvme/nvme*/serial | tr -d ' ' | sort")
        .step("scsi_paths", "cat /sys/block/sd[ab]/device/wwid")
        .step(
            "array",
            "mdadm --create /dev/md0 --run --level=0 --raid-devices=2 /dev/vda /dev/vdb
             cat /sys/block/md0/md/level /sys/block/md0/md/raid_disks /sys/block/md0/queue/rotational",
        )
        .step(
            "traced",
            "cd /sys/kernel/tracing
             echo 1 >events/block/block_rq_issue/enable
             . /run/names
             dd if=/dev/$one of=/dev/null bs=64k count=1 iflag=direct status=none
             echo 0 >events/block/block_rq_issue/enable
             cat trace",
        );
    let report = outcome(job).unwrap();
    println!("guest devices: {}", report.times());
    assert_eq!(said(&report, "processors"), "2");
    // As fast as the host's, which it is told: found out by itself it may be far off.
    let host = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    let (told, own) = (said(&report, "counter").parse::<f64>(), host.counter_khz());
    let (told, own) = (told.unwrap(), own.unwrap() as f64 / 1e3);
    assert!((told / own - 1.0).abs() < 1e-4, "{told} MHz, the host's has {own}");
    assert_eq!(said(&report, "polled"), "1\n1\n0");
    assert_eq!(said(&report, "nvme_sizes"), "32768\n49152");
    assert_eq!(said(&report, "nvme_paths"), "fathom-2\nfathom-3\nfathom-3");
    let wwids: Vec<&str> = said(&report, "scsi_paths").lines().collect();
    assert!(wwids.len() == 2 && wwids[0] == wwids[1] && wwids[0].starts_with("naa."), "{wwids:?}");
    assert!(said(&report, "array").starts_with("raid0\n2\n"), "{}", said(&report, "array"));
    let is_read = |line: &str| line.contains("block_rq_issue: ") && line.ends_with("+ 128 [dd]");
    let trace = said(&report, "traced");
    assert_eq!(trace.lines().filter(|line| is_read(line)).count(), 1, "{trace}");
}

/// Raw sectors and files of a file system, some flushed before the cut and some not, on two kinds of disks.
fn power_cut() {
    let drivers = "load virtio_blk nvme; wait_for /dev/vda /dev/nvme0n1";
    let job = job()
        .qemu()
        .disk(64 << 20)
        .disk_on(Bus::Nvme, 1 << 20)
        .setup("drivers", drivers)
        .setup("file_system", "mkfs.ext4 -q /dev/vda; mkdir mnt; mount /dev/vda mnt; sync")
        .step(
            "sectors",
            "write() { printf $1 | dd of=/dev/nvme0n1 bs=512 seek=$2 conv=sync,notrunc$4 oflag=direct$3 status=none; }
             write flushed 0 '' ,fsync
             write through 8 ,dsync ''
             write cached 16 '' ''
             dd if=/dev/nvme0n1 bs=512 skip=16 count=1 iflag=direct status=none | tr -d '\\0'",
        )
        // Last, because some seconds later the file system writes by itself.
        .step(
            "files",
            "echo flushed >mnt/flushed; sync mnt/flushed mnt
             echo cached >mnt/cached",
        )
        .power_cut("cut")
        .setup("drivers_again", drivers)
        .setup("mounted_again", "mkdir mnt; mount /dev/vda mnt")
        .step("files_after", "cat mnt/flushed; test ! -s mnt/cached")
        .step(
            "sectors_after",
            "for n in 0 8 16; do
                dd if=/dev/nvme0n1 bs=512 skip=$n count=1 iflag=direct status=none | tr -d '\\0'; echo
             done",
        );
    let report = outcome(job).unwrap();
    println!("guest power_cut: {}", report.times());
    said(&report, "files");
    // Before the cut the disk gave back what it only had in its cache.
    assert_eq!(said(&report, "sectors"), "cached");
    assert_eq!(said(&report, "files_after"), "flushed");
    let after: Vec<&str> = report.step("sectors_after").stdout.lines().collect();
    assert_eq!(after, ["flushed", "through", ""]);
}

fn dies() {
    let error = outcome(job().qemu().step("panic", "echo c >/proc/sysrq-trigger")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(&error, GuestError::Lost { step, .. } if step == "panic"), "{text}");
    assert!(text.contains("sysrq triggered crash"), "{text}");
}

/// A shell in an endless loop, with interrupts; one processor has nothing to do.
fn hangs() {
    let text = hung(|| job().qemu(), "while :; do :; done");
    println!("{text}");
    assert!(text.matches("RIP=").count() == 2 && text.contains("CPU#1"), "{text}");
    assert!(text.contains("NMI") && text.contains("Comm: init"), "{text}");
}
