//! An array that one member holds up, and one whose members share an adapter that takes one request at a time.

use super::look;
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    Family::new("check_slow", &["mdadm", "lsblk"], job)
        .test("a_member_that_holds_up_the_others", slow_member)
        .test("members_that_cannot_work_at_once", |report| {
            let look = look(report, "narrow");
            look.has(&["array-below-members /dev/md1"])
                .lacks(&["member-slow", "array-like-one-disk"]);
            let defect = look.defect("array-below-members").to_string();
            contains(&defect, &["its members would allow", "measured: /dev/sd"]);
        })
        .into_trials()
}

/// A disk that answers one request at a time, after 60 ms, among three others; for the kernel all of them turn.
const ARRAY: &str = "
echo 1 >/sys/block/sda/device/queue_depth
mdadm --create /dev/md0 --run --quiet --level=0 --chunk=64 --raid-devices=4 /dev/ub{da,db,dc} /dev/sda
echo 1 | tee /sys/block/{ubda,ubdb,ubdc,sda}/queue/rotational >/dev/null
glance
";

const MEASURED: &str = "
for disk in ubda ubdb ubdc sda; do
    fathom run seqread /dev/$disk duration=2s || [ $? = 1 ]
done
fathom run randread /dev/md0 duration=5s depth=32 block_size=4k || [ $? = 1 ]
glance
";

/// Three disks more behind the adapter, which serves one request at a time, of whichever. All are names of the same memory,
/// so the array has no superblock.
const NARROW: &str = "
mdadm --stop /dev/md0 >&2
cd /sys/bus/pseudo/drivers/scsi_debug
echo 4000000 >ndelay
echo 4 >num_tgts
echo '- - -' | tee /sys/class/scsi_host/host*/scan >/dev/null
wait_for /dev/sdb /dev/sdc /dev/sdd
mdadm --build /dev/md1 --level=0 --chunk=64 --raid-devices=3 /dev/sd{b,c,d} >&2
for device in sdb sdc sdd md1; do
    fathom run seqread /dev/$device duration=1s depth=4 || [ $? = 1 ]
done
glance
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
        .step("narrow", NARROW)
}

fn slow_member(report: &GuestReport) {
    look(report, "slow_fresh").lacks(&["member-slow", "array-like-one-disk"]);
    let look = look(report, "slow_member");
    look.has(&["member-slow /dev/sda", "array-like-one-disk /dev/md0"]);
}
