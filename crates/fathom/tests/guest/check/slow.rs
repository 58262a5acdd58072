//! An array that one member holds up.

use super::look;
use crate::family::Family;
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    Family::new("check_slow", &["mdadm", "lsblk"], job)
        .test("a_member_that_holds_up_the_others", slow_member)
        .into_trials()
}

/// A disk that answers one request at a time, after 60 ms, among three others; for the kernel all of them turn.
const ARRAY: &str = "
echo 1 >/sys/block/sda/device/queue_depth
echo 1 | tee /sys/block/{ubda,ubdb,ubdc,sda}/queue/rotational >/dev/null
mdadm --create /dev/md0 --run --quiet --level=0 --chunk=64 --raid-devices=4 /dev/ub{da,db,dc} /dev/sda
look
";

const MEASURED: &str = "
for disk in ubda ubdb ubdc sda; do
    fathom run seqread /dev/$disk duration=2s || [ $? = 1 ]
done
fathom run randread /dev/md0 duration=5s depth=32 block_size=4k || [ $? = 1 ]
look
";

fn job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(240))
        .disk(64 << 20)
        .disk(64 << 20)
        .disk(64 << 20)
        .setup(
            "disks",
            "load sd_mod raid0
             load_with scsi_debug dev_size_mb=64 ndelay=60000000 max_queue=1
             wait_for /dev/sda",
        )
        .step("slow_fresh", ARRAY)
        .step("slow_member", MEASURED)
}

fn slow_member(report: &GuestReport) {
    look(report, "slow_fresh").lacks(&["member-slow", "array-like-one-disk"]);
    let look = look(report, "slow_member");
    look.has(&["member-slow /dev/sda", "array-like-one-disk /dev/md0"]);
}
