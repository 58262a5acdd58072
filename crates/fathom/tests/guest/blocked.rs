//! Devices that do not answer any more, or are gone: nothing may wait for ever.

use crate::family::{Family, contains, ended, result};
use fathom_testkit::{GuestJob, GuestReport, Trial};

pub fn trials() -> Vec<Trial> {
    Family::new("blocked", &["dmsetup", "timeout"], job)
        .test("suspended_devices_are_refused", refused)
        .test("a_resumed_device_is_measured", resumed)
        .test("suspended_in_a_run", in_a_run)
        .test("a_disk_that_goes_away", gone)
        .into_trials()
}

/// A file system on one device, another device beside it; the store lies elsewhere.
const STORAGE: &str = r#"
load sd_mod dm-mod
load_with scsi_debug dev_size_mb=40 num_tgts=1 add_host=3 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c}
dmsetup create lower --table "0 65536 linear /dev/sda 0"
dmsetup create raw --table "0 65536 linear /dev/sdb 0"
mkfs.ext4 -q -E lazy_itable_init=0 /dev/mapper/lower
mkdir mnt
mount /dev/mapper/lower mnt
dd if=/dev/urandom of=mnt/theirs bs=1M count=4 status=none
sync
"#;

/// Starts a command, suspends the device below it, asks twice for its end, and says whether anything of it was still
/// there after the first and the second time. (An ended child that nobody waited for yet is still listed.)
const TWICE: &str = r#"
lives() {
    [ -e /proc/$1 ] || return
    [ "$(ls /proc/$1/task | wc -l)" -gt 1 ] || ! grep -q '^State:.Z' /proc/$1/status
}
# Measuring has begun.
begun() {
    local _
    for _ in {1..900}; do ! grep -qF '[1/1]' said || break; sleep 0.1; done
    sleep 2
}
twice() {
    "$@" 2>said &
    local pid=$! code=0
    begun
    dmsetup suspend --nolockfs --noflush raw
    sleep 1
    kill -TERM $pid
    sleep 1
    if lives $pid; then echo WAITS; fi
    kill -TERM $pid
    for _ in {1..900}; do lives $pid || break; sleep 0.1; done
    if lives $pid; then echo HANGS; fi
    dmsetup resume raw
    wait $pid || code=$?
    cat said >&2
    return $code
}
"#;

/// A run on a disk that is removed meanwhile.
const REMOVED: &str = r#"
fathom run randwrite /dev/sdc duration=10m --destroy=$(wwn sdc) 2>said &
pid=$! code=0
begun
echo 1 >/sys/block/sdc/device/delete
wait $pid || code=$?
cat said >&2
exit $code
"#;

fn job(job: GuestJob) -> GuestJob {
    job.prelude(TWICE)
        .setup("storage", STORAGE)
        .setup("id", "dm raw || true")
        .setup("suspend", "dmsetup suspend raw; dmsetup suspend lower")
        .step("raw", "timeout 200 fathom run randread /dev/mapper/raw duration=1s")
        .step("write", "timeout 200 fathom run randwrite /dev/mapper/raw duration=1s --destroy=x")
        .step("directory", "timeout 200 fathom run randread mnt size=4M duration=1s")
        .step("file", "timeout 200 fathom run randread mnt/theirs duration=1s")
        .step("quick", "timeout 200 fathom quick mnt")
        .setup("resume", "dmsetup resume raw; dmsetup resume lower")
        .step(
            "resumed",
            "timeout 600 fathom --json --quiet run randread /dev/mapper/raw duration=1s",
        )
        .step("left", "ls -A mnt")
        .step("signals", "twice fathom run randread /dev/mapper/raw duration=10m")
        .step("removed", REMOVED)
}

fn refused(report: &GuestReport) {
    for (step, map) in [
        ("raw", "raw"),
        ("write", "raw"),
        ("directory", "lower"),
        ("file", "lower"),
        ("quick", "lower"),
    ] {
        let step = ended(report, step, 4);
        contains(&step.stderr, &["is suspended", &format!("dmsetup resume {map}")]);
    }
    assert_eq!(ended(report, "left", 0).stdout, "lost+found\ntheirs\n");
}

fn resumed(report: &GuestReport) {
    let result = result(report, "resumed", 1);
    let record = &result["records"][0];
    assert_eq!(record["ending"], "complete", "{record}");
    let count = record["jobs"][0]["classes"][0]["latency_ns"]["count"].as_u64().expect("a count");
    assert!(count > 100, "as before it was suspended: {count}");
}

fn in_a_run(report: &GuestReport) {
    let step = ended(report, "signals", 130);
    contains(&step.stdout, &["WAITS"]);
    assert!(!step.stdout.contains("HANGS"), "{}", step.said());
    contains(&step.stderr, &["requests in flight are waited for", "ended at once"]);
}

fn gone(report: &GuestReport) {
    let step = ended(report, "removed", 5);
    contains(&step.said(), &["/dev/sdc: write of 4096 bytes at offset"]);
}
