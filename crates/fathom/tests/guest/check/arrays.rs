//! md arrays of all levels: clean, degraded, at work, badly made.

use super::{Look, agree, look};
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

/// Rules that healthy arrays must not provoke.
const TROUBLE: &[&str] = &[
    "md-degraded",
    "md-broken",
    "md-inactive",
    "md-sync-frozen",
    "md-sync-running",
    "md-sync-slow",
    "md-mismatch",
    "md-not-running",
    "md-stale-member",
    "md-member-errors",
    "md-members-one-disk",
    "md-members-differ",
    "md-members-settings",
    "md-no-write-mostly",
    "md-raid0-unequal",
    "md-no-bitmap",
    "md-bitmap-chunk",
    "md-no-spare",
];

pub fn trials() -> Vec<Trial> {
    Family::new("check_md", &["mdadm", "sfdisk", "lsblk"], job)
        .test("clean_arrays_of_every_level", clean)
        .test("degraded_arrays", degraded)
        .test("a_rebuild_that_is_held_back", rebuild)
        .test("an_array_that_checks_itself", check_running)
        .test("a_frozen_array", |report| {
            look(report, "md_frozen").has(&["md-sync-frozen /dev/md10"]);
        })
        .test("a_new_array_whose_members_are_made_to_agree", |report| {
            let look = look(report, "md_resync");
            assert_eq!(look.node("md1")["md"]["sync_action"], "resync");
            assert_eq!(look.defect("md-sync-running")["gravity"], "medium");
        })
        .test("an_array_that_waits_with_its_resync", |report| {
            let look = look(report, "md_resync_pending");
            contains(
                &look.defect("md-resync-pending").to_string(),
                &["mdadm --readwrite /dev/md1", "read-auto"],
            );
            look.lacks(&["md-degraded", "md-sync-running"]);
            contains(&crate::family::ended(report, "md_resync_done", 0).stdout, &["none\n"]);
        })
        .test("an_array_whose_member_is_offline", |report| {
            let look = look(report, "md_offline");
            look.has(&["drive-offline /dev/sdb"]).lacks(&["md-degraded", "md-resync-pending"]);
            contains(
                &look.defect("drive-offline").to_string(),
                &[
                    "its state is offline; md1 lacks 1 of 2 members (sdb failed)",
                    "--remove /dev/sdb",
                ],
            );
            contains(&crate::family::ended(report, "md_offline_mended", 0).stdout, &["lacks 0\n"]);
        })
        .test("mismatches", mismatch)
        .test("an_array_that_does_not_run", not_running)
        .test("an_old_member", stale)
        .test("members_that_do_not_fit", unfit)
        .test("members_on_one_disk_and_of_unequal_size", one_disk)
        .test("an_array_that_lost_too_much", |report| {
            look(report, "md_broken").has(&["md-broken /dev/md5"]).lacks(&["md-degraded"]);
        })
        .test("an_array_that_waits_for_members", |report| {
            let look = look(report, "md_inactive");
            contains(
                &look.defect("md-inactive").to_string(),
                &["is not started: 1 of 3 members are there; it is a raid5 and needs 2"],
            );
            assert!(!look.defect("md-inactive").to_string().contains("--run"), "it cannot");
            look.lacks(&["md-not-running"]);
        })
        .test("an_array_that_waits_beside_a_spare", waiting_with_spare)
        .test("a_raid10_that_waits_for_one_of_each_pair", waiting_pairs)
        .test("bitmaps", bitmaps)
        .test("a_firmware_raid_without_a_member", firmware)
        .into_trials()
}

const DISKS: &str = "
load md-mod raid0 raid1 raid10 raid456 sd_mod
load_with scsi_debug dev_size_mb=32 add_host=10 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c,d,e,f,g,h,i,j}
";

/// Arrays of each level, as mdadm makes them; whole, so that nothing has to be synchronised.
const CLEAN: &str = "
make() { mdadm --create $1 --run --assume-clean --bitmap=internal --homehost=test $2 >&2; }
make /dev/md10 '--level=10 --layout=n2 --chunk=64 --raid-devices=2 /dev/sda /dev/sdb'
make /dev/md11 '--level=10 --layout=f2 --chunk=64 --raid-devices=2 /dev/sdc /dev/sdd'
make /dev/md12 '--level=10 --layout=o2 --chunk=64 --raid-devices=2 /dev/sde /dev/sdf'
make /dev/md6 '--level=6 --chunk=64 --raid-devices=4 /dev/sdg /dev/sdh /dev/sdi /dev/sdj'
look
";

const DEGRADED: &str = "
mdadm /dev/md10 --fail /dev/sdb >&2
mdadm /dev/md6 --fail /dev/sdj --remove /dev/sdj >&2
look
";

/// So slow that it outlasts the look.
const REBUILD: &str = "
echo 500 >/sys/block/md6/md/sync_speed_min
echo 1000 >/sys/block/md6/md/sync_speed_max
mdadm --zero-superblock /dev/sdj
mdadm /dev/md6 --add /dev/sdj >&2
sleep 1
glance
";

const CHECK: &str = "
echo 500 >/sys/block/md11/md/sync_speed_min
echo 1000 >/sys/block/md11/md/sync_speed_max
echo check >/sys/block/md11/md/sync_action
sleep 0.5
look
echo idle >/sys/block/md11/md/sync_action
";

const FROZEN: &str = "
mdadm /dev/md10 --remove /dev/sdb >&2
echo frozen >/sys/block/md10/md/sync_action
glance
echo idle >/sys/block/md10/md/sync_action
";

const STOP: &str = "
mdadm --stop /dev/md10 /dev/md11 /dev/md12 /dev/md6 >&2
for disk in /dev/sd[a-j]; do mdadm --zero-superblock $disk; done
";

/// Members of a new array are made to agree, so slowly that it outlasts the look.
const RESYNC: &str = "
before=$(cat /proc/sys/dev/raid/speed_limit_max)
echo 1000 >/proc/sys/dev/raid/speed_limit_max
mdadm --create /dev/md1 --run --bitmap=none --level=1 --raid-devices=2 /dev/sda /dev/sdb >&2
glance
mdadm --stop /dev/md1 >&2
echo $before >/proc/sys/dev/raid/speed_limit_max
";

/// It was stopped in the middle, and is started as at boot: it waits for the first write.
const RESYNC_PENDING: &str = "
echo 1 >/sys/module/md_mod/parameters/start_ro
mdadm --assemble --run /dev/md1 /dev/sda /dev/sdb >&2
echo 0 >/sys/module/md_mod/parameters/start_ro
glance
";

/// What is advised for it.
const RESYNC_DONE: &str = "
mdadm --readwrite /dev/md1 >&2
for _ in {1..300}; do [ $(cat /sys/block/md1/md/resync_start) != none ] || break; sleep 0.1; done
cat /sys/block/md1/md/resync_start
";

/// A member whose drive takes no more requests, which the array notices by the next write.
const OFFLINE: &str = "
echo offline >/sys/block/sdb/device/state
dd if=/dev/zero of=/dev/md1 bs=64k count=1 oflag=direct status=none
for _ in {1..100}; do [ $(cat /sys/block/md1/md/degraded) != 1 ] || break; sleep 0.1; done
glance
";

/// What is advised for it.
const OFFLINE_MENDED: &str = "
echo running >/sys/block/sdb/device/state
mdadm /dev/md1 --remove /dev/sdb >&2
mdadm /dev/md1 --add /dev/sdb >&2
for _ in {1..300}; do [ $(cat /sys/block/md1/md/degraded) != 0 ] || break; sleep 0.1; done
echo lacks $(cat /sys/block/md1/md/degraded)
mdadm --stop /dev/md1 >&2
";

/// One copy is changed behind the array's back.
const MISMATCH: &str = "
mdadm --create /dev/md1 --run --assume-clean --bitmap=none --level=1 --raid-devices=2 /dev/sda /dev/sdb >&2
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=512 --raid-devices=3 /dev/sd[cde] >&2
dd if=/dev/urandom of=/dev/sda bs=64k seek=300 count=1 oflag=direct status=none
dd if=/dev/urandom of=/dev/sdc bs=64k seek=300 count=1 oflag=direct status=none
for array in md1 md5; do
    echo check >/sys/block/$array/md/sync_action
    for _ in {1..200}; do [ $(cat /sys/block/$array/md/sync_action) != idle ] || break; sleep 0.1; done
done
look
";

const NOT_RUNNING: &str = "
mdadm --stop /dev/md1 /dev/md5 >&2
glance
";

const STALE: &str = "
for disk in /dev/sd[a-j]; do mdadm --zero-superblock $disk; done
mdadm --create /dev/md1 --run --assume-clean --bitmap=none --level=1 --raid-devices=3 /dev/sda /dev/sdb /dev/sdc >&2
mdadm /dev/md1 --fail /dev/sdc --remove /dev/sdc >&2
mdadm --grow /dev/md1 --raid-devices=2 >&2
glance
";

/// What is advised for the old member.
const STALE_ADDED: &str = "
mdadm /dev/md1 --add /dev/sdc >&2
mdadm --detail /dev/md1
mdadm --stop /dev/md1 >&2
for disk in /dev/sd[a-c]; do mdadm --zero-superblock $disk; done
";

/// A mirror and a parity array over drives that say that they rotate and others that do not; many members, no spare, chunks
/// as large as the cache of stripes is deep, and a place that a member could not write.
const UNFIT: &str = "
echo 1 >/sys/block/sda/queue/rotational
echo 1 >/sys/block/sdc/queue/rotational
mdadm --create /dev/md1 --run --assume-clean --bitmap=none --level=1 --raid-devices=2 /dev/sda /dev/sdb >&2
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=1024 --raid-devices=5 /dev/sd[cdefg] >&2
echo '2048 8' >/sys/block/md5/md/dev-sdd/bad_blocks
echo none >/sys/block/sde/queue/scheduler
glance
echo mq-deadline >/sys/block/sde/queue/scheduler
mdadm --stop /dev/md1 /dev/md5 >&2
for disk in /dev/sd[a-g]; do mdadm --zero-superblock $disk; done
";

/// Two members of an array that forgives one.
const BROKEN: &str = "
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=64 --raid-devices=3 /dev/sd[hij] >&2
mdadm /dev/md5 --fail /dev/sdi >&2
mdadm /dev/md5 --fail /dev/sdj >&2 || true
glance
mdadm --stop /dev/md5 >&2
";

/// One member arrives, and the others do not.
const INACTIVE: &str = "
for disk in /dev/sd[hij]; do mdadm --zero-superblock $disk; done
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=64 --raid-devices=3 /dev/sd[hij] >&2
mdadm --stop /dev/md5 >&2
mdadm --zero-superblock /dev/sdi /dev/sdj
mdadm --incremental /dev/sdh >&2 || true
glance
mdadm --stop --scan >&2
mdadm --zero-superblock /dev/sdh
";

/// One member of three arrives, and the spare, which the kernel counts as well; then one more.
const INACTIVE_SPARE: &str = "
mdadm --zero-superblock /dev/sdg
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=64 --raid-devices=3 --spare-devices=1 /dev/sd[ghij] >&2
mdadm --stop /dev/md5 >&2
mdadm --incremental /dev/sdg >&2 || true
mdadm --incremental /dev/sdj >&2 || true
glance
";

const INACTIVE_ENOUGH: &str = "
mdadm --incremental /dev/sdh >&2 || true
glance
";

/// Both disks of one pair of a RAID10, and then one of each.
const INACTIVE_PAIR: &str = "
mdadm --stop --scan >&2
for disk in /dev/sd[ghij]; do mdadm --zero-superblock $disk; done
mdadm --create /dev/md10 --run --assume-clean --bitmap=none --level=10 --layout=n2 --chunk=64 --raid-devices=4 /dev/sd[ghij] >&2
mdadm --stop /dev/md10 >&2
mdadm --incremental /dev/sdg >&2 || true
mdadm --incremental /dev/sdh >&2 || true
glance
";

const INACTIVE_PAIRS: &str = "
mdadm --stop --scan >&2
mdadm --incremental /dev/sdg >&2 || true
mdadm --incremental /dev/sdj >&2 || true
glance
";

/// What is advised for arrays that can run.
const STARTED: &str = "
mdadm --run /dev/$(ls /sys/block | grep '^md[0-9]') >&2
glance
";

const INACTIVE_END: &str = "
mdadm --stop --scan >&2
for disk in /dev/sd[ghij]; do mdadm --zero-superblock $disk; done
";

const ONE_DISK: &str = "
echo 0 >/sys/block/sda/queue/rotational
printf 'start=2048, size=20480\\nstart=24576, size=20480\\n' | sfdisk --quiet /dev/sda
wait_for /dev/sda1 /dev/sda2
mdadm --create /dev/md1 --run --assume-clean --bitmap=none --level=1 --raid-devices=2 /dev/sda1 /dev/sda2 >&2
printf 'start=2048, size=20480\\n' | sfdisk --quiet /dev/sdb
wait_for /dev/sdb1
mdadm --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 /dev/sdb1 /dev/sdd >&2
look
mdadm --stop /dev/md1 /dev/md0 >&2
";

/// Arrays of more than 100 GB on sparse disks, one without bitmap and one whose bitmap has small chunks.
const BITMAPS: &str = "
mdadm --create /dev/md1 --run --assume-clean --bitmap=none --level=1 --raid-devices=2 /dev/ubda /dev/ubdb >&2
mdadm --create /dev/md2 --run --assume-clean --bitmap=internal --bitmap-chunk=4M --level=1 --raid-devices=2 /dev/ubdc /dev/ubdd >&2
look
";

/// A mirror of a firmware's RAID that has lost a member.
const FIRMWARE: &str = "
mdadm --stop /dev/md1 /dev/md2 >&2
for disk in /dev/ubd[abcd]; do mdadm --zero-superblock $disk; done
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1
mdadm --create /dev/md127 --run --metadata=imsm --raid-devices=2 /dev/ubda /dev/ubdb >&2
mdadm --create /dev/md126 --run --level=1 --size=20M --raid-devices=2 /dev/md127 >&2
mdadm --wait /dev/md126 >&2 || true
mdadm /dev/md126 --fail /dev/ubdb >&2
sleep 1
glance
";

/// What is advised for it.
const FIRMWARE_MENDED: &str = "
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1
mdadm /dev/md127 --add /dev/ubdc >&2
for _ in {1..200}; do [ $(cat /sys/block/md126/md/degraded) != 0 ] || break; sleep 0.1; done
echo lacks $(cat /sys/block/md126/md/degraded)
mdadm --stop /dev/md126 /dev/md127 >&2
";

fn job(job: GuestJob) -> GuestJob {
    let job = (0..4).fold(super::job(job), |job, _| job.disk(110_000_000_000));
    job.limit(Duration::from_secs(400))
        .memory_mib(1024)
        .setup("disks", DISKS)
        .step("md_clean", CLEAN)
        .step("md_degraded", DEGRADED)
        .step("md_rebuild", REBUILD)
        .step("md_check", CHECK)
        .step("md_frozen", FROZEN)
        .setup("stop", STOP)
        .step("md_resync", RESYNC)
        .step("md_resync_pending", RESYNC_PENDING)
        .step("md_resync_done", RESYNC_DONE)
        .step("md_offline", OFFLINE)
        .step("md_offline_mended", OFFLINE_MENDED)
        .step("md_mismatch", MISMATCH)
        .step("md_not_running", NOT_RUNNING)
        .step("md_stale", STALE)
        .step("md_stale_added", STALE_ADDED)
        .step("md_unfit", UNFIT)
        .step("md_broken", BROKEN)
        .step("md_inactive", INACTIVE)
        .step("md_inactive_spare", INACTIVE_SPARE)
        .step("md_inactive_enough", INACTIVE_ENOUGH)
        .step("md_inactive_enough_started", STARTED)
        .step("md_inactive_pair", INACTIVE_PAIR)
        .step("md_inactive_pairs", INACTIVE_PAIRS)
        .step("md_inactive_pairs_started", STARTED)
        .step("md_inactive_end", INACTIVE_END)
        .step("md_one_disk", ONE_DISK)
        .step("md_bitmaps", BITMAPS)
        .step("md_firmware", FIRMWARE)
        .step("md_firmware_mended", FIRMWARE_MENDED)
}

fn clean(report: &GuestReport) {
    let look = look(report, "md_clean");
    look.lacks(TROUBLE);
    agree::with_all(&look);
    for (name, words) in
        [("md10", "near=2"), ("md11", "far=2"), ("md12", "offset=2"), ("md6", "left-symmetric")]
    {
        assert_eq!(look.node(name)["md"]["layout_words"], words, "{name}");
    }
}

fn degraded(report: &GuestReport) {
    let look = look(report, "md_degraded");
    look.has(&["md-degraded /dev/md10", "md-degraded /dev/md6"]).lacks(&[
        "md-broken",
        "md-sync-running",
        "md-not-running",
        "md-stale-member",
    ]);
    agree::with_all(&look);
    let defects = look.result["defects"].as_array().expect("defects");
    let of = |node: &str| {
        defects
            .iter()
            .find(|d| d["rule"] == "md-degraded" && d["node"] == node)
            .expect(node)
            .to_string()
    };
    contains(&of("/dev/md10"), &["lacks 1 of 2 members (sdb failed)", "--remove /dev/sdb"]);
    // The one that was taken out still says where it belongs.
    contains(&of("/dev/md6"), &["lacks 1 of 4 members", "mdadm /dev/md6 --re-add /dev/sdj"]);
}

fn rebuild(report: &GuestReport) {
    let look = look(report, "md_rebuild");
    look.has(&["md-degraded /dev/md6", "md-sync-slow /dev/md6"]).lacks(&["md-sync-running"]);
    contains(
        look.defect("md-sync-slow")["summary"].as_str().unwrap_or_default(),
        &["is rebuilding a member", "1000 KiB/s"],
    );
}

fn check_running(report: &GuestReport) {
    let look = look(report, "md_check");
    look.has(&["md-sync-running /dev/md11"]);
    assert_eq!(look.defect("md-sync-running")["gravity"], "low");
    agree::with_all(&look);
}

fn mismatch(report: &GuestReport) {
    let look = look(report, "md_mismatch");
    look.has(&["md-mismatch /dev/md1", "md-mismatch /dev/md5"]).lacks(&[
        "md-degraded",
        "md-no-bitmap",
        "md-stripe-cache",
    ]);
    agree::with_all(&look);
    let count = look.node("md1")["md"]["mismatch_count"].as_u64();
    assert!(count.is_some_and(|sectors| sectors >= 128), "{count:?}");
}

fn not_running(report: &GuestReport) {
    let look = look(report, "md_not_running");
    look.has(&["md-not-running /dev/sda", "md-not-running /dev/sdc"])
        .lacks(&["md-degraded", "md-stale-member"]);
}

fn stale(report: &GuestReport) {
    let look = look(report, "md_stale");
    look.has(&["md-stale-member /dev/sdc"]).lacks(&["md-degraded", "md-not-running"]);
    contains(
        &look.defect("md-stale-member").to_string(),
        &["mdadm --examine /dev/sdc", "mdadm /dev/md1 --add /dev/sdc", "events behind"],
    );
    contains(&crate::family::ended(report, "md_stale_added", 0).stdout, &["spare   /dev/sdc"]);
}

fn firmware(report: &GuestReport) {
    let look = look(report, "md_firmware");
    look.has(&["md-degraded /dev/md126"]).lacks(&["md-inactive", "md-not-running"]);
    let text = look.defect("md-degraded").to_string();
    contains(&text, &["mdadm /dev/md127 --add /dev/NEW"]);
    contains(&crate::family::ended(report, "md_firmware_mended", 0).stdout, &["lacks 0\n"]);
}

fn unfit(report: &GuestReport) {
    let look = look(report, "md_unfit");
    look.has(&[
        "md-no-write-mostly /dev/md1",
        "md-members-differ /dev/md5",
        "md-no-spare /dev/md5",
        "md-stripe-cache /dev/md5",
        "md-member-errors /dev/sdd",
        "md-members-settings /dev/md5",
    ]);
    assert!(!look.found().contains(&"md-members-differ /dev/md1".to_owned()), "told once");
}

/// What is said of an array that is not started, and whether starting it is advised.
fn waiting(report: &GuestReport, step: &str) -> (String, bool) {
    let look = look(report, step);
    look.lacks(&["md-not-running", "md-degraded", "md-broken"]);
    let defect = look.defect("md-inactive");
    let summary = defect["summary"].as_str().unwrap_or_default();
    let run = format!("mdadm --run {}", defect["node"].as_str().unwrap_or_default());
    (summary.to_owned(), defect.to_string().contains(&run))
}

fn waiting_with_spare(report: &GuestReport) {
    let (said, runs) = waiting(report, "md_inactive_spare");
    contains(&said, &["1 of 3 members and 1 without data are there; it is a raid5 and needs 2"]);
    assert!(!runs, "{said}");
    let (said, runs) = waiting(report, "md_inactive_enough");
    contains(&said, &["2 of 3 members and 1 without data are there"]);
    assert!(runs, "{said}");
    look(report, "md_inactive_enough_started").lacks(&["md-inactive", "md-broken"]);
}

fn waiting_pairs(report: &GuestReport) {
    let (said, runs) = waiting(report, "md_inactive_pair");
    contains(&said, &["2 of 4 members are there; it is a raid10 and needs 3, or as few as 2"]);
    assert!(!runs, "{said}");
    let (said, runs) = waiting(report, "md_inactive_pairs");
    contains(&said, &["2 of 4 members are there"]);
    assert!(runs, "{said}");
    let look = look(report, "md_inactive_pairs_started");
    look.lacks(&["md-inactive", "md-broken"]);
    contains(&look.defect("md-degraded").to_string(), &["lacks 2 of 4 members"]);
}

fn one_disk(report: &GuestReport) {
    let look: Look = look(report, "md_one_disk");
    look.has(&["md-members-one-disk /dev/md1", "md-raid0-unequal /dev/md0"])
        .lacks(&["md-degraded"]);
    agree::with_all(&look);
}

fn bitmaps(report: &GuestReport) {
    let look = look(report, "md_bitmaps");
    look.has(&["md-no-bitmap /dev/md1", "md-bitmap-chunk /dev/md2"]);
    let found = look.found();
    assert!(
        !found.contains(&"md-no-bitmap /dev/md2".to_owned())
            && !found.contains(&"md-bitmap-chunk /dev/md1".to_owned()),
        "{found:?}"
    );
    agree::with_all(&look);
}
