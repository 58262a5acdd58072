//! What drives themselves say, and that nobody wakes one: SCSI disks that can be stopped.

use super::{Look, look};
use crate::family::Family;
use fathom_testkit::{GuestJob, Trial};
use serde_json::Value;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let stopped = Family::new("check_stopped", &["sg_start", "sg_turs", "lsblk"], stopped_job)
        .test("a_stopped_drive_is_not_woken", |report| {
            let look = look(report, "stopped");
            assert_eq!(detail(&look, "sda")["untouched"], "standby");
            assert_eq!(detail(&look, "sda1")["untouched"], "standby");
            assert_eq!(detail(&look, "sda")["content"], Value::Null);
            assert_eq!(detail(&look, "sdb")["untouched"], Value::Null);
            assert!(
                unread(&look).contains(&"standby: not woken".to_owned()),
                "{:?}",
                unread(&look)
            );
            assert_eq!(report.step("still").stdout.trim(), "sdb", "the other was started");
        })
        .test("a_drive_that_turns_is_asked", |report| {
            let look = look(report, "turning");
            assert_eq!(detail(&look, "sda")["untouched"], Value::Null);
            let identity = &detail(&look, "sda")["identity"];
            assert_eq!((&identity["logical_bytes"], &identity["physical_bytes"]), sizes(512, 4096));
            assert_eq!(identity["write_cache_enabled"], true);
            let content = &detail(&look, "sda1")["content"]["filesystem"]["fs_type"];
            assert_eq!(content, "ext4");
        });
    stopped.into_trials()
}

pub(super) fn sizes(logical: u64, physical: u64) -> (&'static Value, &'static Value) {
    let number = |number: u64| -> &'static Value { Box::leak(Box::new(Value::from(number))) };
    (number(logical), number(physical))
}

pub(super) fn detail<'a>(look: &'a Look, name: &str) -> &'a Value {
    &look.node(name)["detail"]
}

/// Why things could not be read.
fn unread(look: &Look) -> Vec<String> {
    let list = look.result["snapshot"]["unread"].as_array().expect("a list");
    list.iter().map(|unread| unread["why"].as_str().unwrap_or_default().to_owned()).collect()
}

const DRIVES: &str = "
load sd_mod
load_with scsi_debug dev_size_mb=32 add_host=2 per_host_store=1 physblk_exp=3 delay=0
wait_for /dev/sda /dev/sdb
printf 'start=2048\\n' | sfdisk --quiet /dev/sda
wait_for /dev/sda1
mkfs.ext4 -q -E nodiscard /dev/sda1
";

/// The kernel's own copy of what was read before must not make up for the drive.
const STOP: &str = "
blockdev --flushbufs /dev/sda
blockdev --flushbufs /dev/sda1
sg_start --stop /dev/sda
look
";

/// Which of them turn.
const TURNING: &str = "
for disk in sda sdb; do
    if sg_turs /dev/$disk >/dev/null 2>&1; then echo $disk; fi
done
";

fn stopped_job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(120))
        .setup("drives", DRIVES)
        .step("turning", "look")
        .step("stopped", STOP)
        .step("still", TURNING)
}
