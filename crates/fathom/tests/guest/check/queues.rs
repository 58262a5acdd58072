//! Request queues with settings that somebody left behind, caches that are not flushed, a drive that was given up.

use super::look;
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, Trial};
use std::time::Duration;

/// Rules that speak of what the steps change.
const CHANGED: [&str; 8] = [
    "entropy-from-disk",
    "flushes-dropped",
    "iostats-off",
    "merges-off",
    "requests-cut",
    "requests-few",
    "scheduler-parameters",
    "drive-offline",
];

pub fn trials() -> Vec<Trial> {
    Family::new("check_queues", &["mdadm", "mkfs.ext4", "lsblk"], job)
        .test("what_the_kernel_sets_itself", |report| {
            look(report, "queues_fresh").lacks(&CHANGED);
        })
        .test("two_disks_exceed_their_adapter", |report| {
            let look = look(report, "queues_fresh");
            contains(
                &look.defect("host-queue-short").to_string(),
                &["the adapter takes 32", "queue_depth"],
            );
        })
        .test("what_somebody_left_behind", |report| {
            let look = look(report, "queues_changed");
            for rule in &CHANGED[..7] {
                look.has(&[&format!("{rule} /dev/sda")]);
            }
            contains(
                &look.defect("flushes-dropped").to_string(),
                &["\"gravity\":\"high\"", "write through", "write back"],
            );
            contains(&look.defect("requests-cut").to_string(), &["pieces of 32 KiB"]);
        })
        .test("a_drive_that_was_given_up", |report| {
            look(report, "queues_offline").has(&["drive-offline /dev/sdb"]);
        })
        .test("read_ahead_of_an_array", |report| {
            look(report, "ahead_fresh").lacks(&[
                "read-ahead-below-stripe",
                "read-ahead-off",
                "read-ahead-excessive",
            ]);
            let little = look(report, "ahead_little");
            little.has(&["read-ahead-below-stripe /dev/md0"]);
            contains(
                &little.defect("read-ahead-below-stripe").to_string(),
                &["256 KiB = 512 sectors of 512 bytes"],
            );
            look(report, "ahead_none").has(&["read-ahead-off /dev/md0"]);
            look(report, "ahead_much").has(&["read-ahead-excessive /dev/md0"]);
        })
        .test("an_array_that_takes_no_flushes", |report| {
            look(report, "ahead_fresh").lacks(&["flushes-dropped"]);
            look(report, "ahead_much").has(&["flushes-dropped /dev/md0"]);
        })
        .into_trials()
}

const CHANGE: &str = "
cd /sys/block/sda/queue
echo mq-deadline >scheduler
echo 5 >iosched/read_expire
echo 2 >nomerges
echo 1 >add_random
echo 0 >iostats
echo 32 >max_sectors_kb
echo 8 >nr_requests
echo 'write through' >write_cache
cd /run
glance
echo 'write back' >/sys/block/sda/queue/write_cache
echo 1 >/sys/block/sda/queue/iostats
";

const OFFLINE: &str = "
echo offline >/sys/block/sdb/device/state
glance
echo running >/sys/block/sdb/device/state
";

/// The disks of scsi_debug are two names of the same memory.
const ARRAY: &str = "
mdadm --create /dev/md0 --run --quiet --level=0 --chunk=512 --raid-devices=2 /dev/ubda /dev/ubdb
wait_for /dev/md0
mkfs.ext4 -q -E nodiscard /dev/md0
mkdir striped
mount /dev/md0 striped
echo 2048 >/sys/block/md0/queue/read_ahead_kb
glance
";

const MUCH: &str = "
echo 131072 >/sys/block/md0/queue/read_ahead_kb
echo 'write through' >/sys/block/md0/queue/write_cache
glance
";

fn job(job: GuestJob) -> GuestJob {
    super::job(job)
        .disk(256 << 20)
        .disk(256 << 20)
        .limit(Duration::from_secs(120))
        .setup("drivers", "load sd_mod raid0")
        .setup(
            "disks",
            "load_with scsi_debug dev_size_mb=64 num_tgts=2 max_queue=32 delay=0; wait_for /dev/sda /dev/sdb",
        )
        .step("queues_fresh", "glance")
        .step("queues_changed", CHANGE)
        .step("queues_offline", OFFLINE)
        .step("ahead_fresh", ARRAY)
        .step("ahead_little", "echo 256 >/sys/block/md0/queue/read_ahead_kb; glance")
        .step("ahead_none", "echo 0 >/sys/block/md0/queue/read_ahead_kb; glance")
        .step("ahead_much", MUCH)
}
