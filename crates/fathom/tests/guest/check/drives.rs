//! What drives themselves say, and that nobody wakes one: SCSI disks that can be stopped, and an ATA and a SCSI drive that fall
//! ill and recover.

use super::{Look, look};
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
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
    let ill = Family::new("check_health", &["python3", "dmsetup"], ill_job)
        .test("healthy_drives", |report| {
            look(report, "healthy").lacks(&ILLNESSES);
        })
        .test("drives_that_are_worn_hot_and_damaged", ill)
        .test("drives_with_first_signs", first_signs)
        .test("a_drive_behind_a_bridge_that_hides_what_it_is", |report| {
            let look = look(report, "healthy");
            let mut found = look.found();
            found.retain(|found| HIDDEN.iter().any(|rule| found.starts_with(rule)));
            assert_eq!(found, HIDDEN.map(|rule| format!("{rule} /dev/sdc")));
            contains(&look.defect("flushes-dropped").to_string(), &[
                "identity of /dev/sdc",
                "echo 'temporary write back' | tee /sys/class/block/sdc/device/scsi_disk/*/cache_type",
            ]);
            let differs = look.defect("io-hints-differ").to_string();
            contains(&differs, &["physical blocks have 4096 B; the kernel uses 512 B"]);
        })
        .test("a_map_that_was_made_before_the_cache_was_known", |report| {
            let layer = look(report, "layer");
            let mut found = layer.found();
            found.retain(|found| found.starts_with("flushes-dropped "));
            assert_eq!(found, ["flushes-dropped /dev/dm-0"]);
            let told = layer.defect("flushes-dropped").to_string();
            contains(&told, &["refused by one that was made while", "then make the layer anew"]);
            let said = &report.step("mended").stdout;
            assert_eq!(said.lines().next(), Some("refused"), "the kernel takes it by now");
        })
        .test("drives_that_were_replaced", |report| {
            look(report, "mended").lacks(&ILLNESSES).lacks(&HIDDEN);
        });
    stopped.into_trials().into_iter().chain(ill.into_trials()).collect()
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

/// What a drive tells of itself, and only its own word brings about.
const ILLNESSES: [&str; 4] = ["drive-cable-errors", "drive-failing", "drive-hot", "drive-worn"];

/// What a bridge may hide of a drive.
const HIDDEN: [&str; 2] = ["flushes-dropped", "io-hints-differ"];

/// Drives that answer as the program says, behind the kernel's target for SCSI: each command goes the whole way through the
/// kernel's drivers.
const TARGET: &str = "
load sd_mod configfs target_core_mod target_core_user tcm_loop
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
target=/sys/kernel/config/target
echo $WELL >ata1
echo $WELL >scsi2
echo $WELL exponent 3 hidden 1 >ata3
for drive in ata1 scsi2 ata3; do
    number=${drive: -1}
    core=$target/core/user_$number/$drive
    mkdir -p $core
    echo dev_config=lab/$drive,dev_size=33554432,hw_block_size=512,nl_reply_supported=-1 >$core/control
    echo 1 >$core/enable
    python3 drive.py $drive >$drive.log 2>&1 &
    wait_for /run/$drive.ready
    loop=$target/loopback/naa.600140500000000$number/tpgt_1
    mkdir -p $loop/lun/lun_0
    echo naa.600140511111111$number >$loop/nexus
    ln -s $core $loop/lun/lun_0/port
done
wait_for /dev/sda /dev/sdb /dev/sdc
load dm_mod
dmsetup create over --table '0 65536 linear /dev/sdc 0'
";

const WELL: &str = "
WELL='celsius 35 limit 60 used 3 replaced 0 pending 0 cable 0 code 0 qualifier 0 exponent 0 hidden 0'
";

/// Beyond every limit. The SCSI drive foretells its failure.
const ILL: &str = "
echo $WELL celsius 61 used 101 replaced 150 pending 2 cable 100 >ata1
echo $WELL celsius 60 used 100 code 93 qualifier 16 >scsi2
glance
";

/// On the first step of each, or right before it.
const FIRST_SIGNS: &str = "
echo $WELL celsius 59 used 90 replaced 9 cable 1 >ata1
echo $WELL celsius 59 used 89 code 11 qualifier 1 >scsi2
glance
";

/// What is advised for the cache of the third drive is done; the map over it was made before.
const LAYER: &str = "
echo 'temporary write back' | tee /sys/class/block/sdc/device/scsi_disk/*/cache_type >&2
glance
";

/// The third drive is connected without the bridge, and what is advised for the map is done.
const MENDED: &str = "
echo $WELL >ata1
echo $WELL >scsi2
echo $WELL >ata3
echo 'write back' >/sys/class/block/dm-0/queue/write_cache || echo refused
dmsetup remove over
dmsetup create over --table '0 65536 linear /dev/sdc 0'
glance
";

fn ill_job(job: GuestJob) -> GuestJob {
    let program = format!("cat >drive.py <<'END'\n{}END\n", include_str!("drive.py"));
    super::job(job)
        .limit(Duration::from_secs(120))
        .prelude(WELL)
        .setup("program", &program)
        .setup("target", TARGET)
        .step("healthy", "glance")
        .step("ill", ILL)
        .step("first_signs", FIRST_SIGNS)
        .step("layer", LAYER)
        .step("mended", MENDED)
}

/// Rules, the drive's place, gravity and words of what drives tell of themselves.
#[track_caller]
fn told(look: &Look, expected: &[(&str, &str, &str, &[&str])]) {
    let defects = look.result["defects"].as_array().expect("defects");
    let of_drives: Vec<&Value> = defects
        .iter()
        .filter(|defect| defect["rule"].as_str().is_some_and(|rule| ILLNESSES.contains(&rule)))
        .collect();
    assert_eq!(of_drives.len(), expected.len(), "{of_drives:#?}");
    for (rule, node, gravity, words) in expected {
        let is_it = |defect: &&&Value| defect["rule"] == *rule && defect["node"] == *node;
        let defect = of_drives.iter().find(is_it).expect(rule);
        assert_eq!(defect["gravity"], *gravity, "{defect:#}");
        contains(&defect.to_string(), words);
    }
}

fn ill(report: &GuestReport) {
    let look = look(report, "ill");
    told(
        &look,
        &[
            (
                "drive-failing",
                "/dev/sda",
                "high",
                &["2 sectors that cannot be read", "150 sectors"],
            ),
            ("drive-failing", "/dev/sdb", "high", &["it says itself that it is failing"]),
            ("drive-worn", "/dev/sda", "medium", &["used up 101 %"]),
            ("drive-worn", "/dev/sdb", "medium", &["used up 100 %"]),
            ("drive-hot", "/dev/sda", "high", &["is at 61 C; its limit is 60 C"]),
            ("drive-hot", "/dev/sdb", "high", &["is at 60 C; its limit is 60 C"]),
            ("drive-cable-errors", "/dev/sda", "medium", &["100 transfer errors"]),
        ],
    );
}

fn first_signs(report: &GuestReport) {
    let look = look(report, "first_signs");
    told(
        &look,
        &[
            ("drive-failing", "/dev/sda", "low", &["9 sectors replaced"]),
            ("drive-worn", "/dev/sda", "low", &["used up 90 %"]),
            ("drive-hot", "/dev/sdb", "high", &["is at 59 C"]),
            ("drive-cable-errors", "/dev/sda", "low", &["1 transfer errors"]),
        ],
    );
}
