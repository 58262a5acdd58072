//! Several paths to one drive: without a map, with one, with a failed path, badly configured.

use super::{agree, look};
use crate::family::{Family, contains};
use crate::multipath::{DISKS, MAPS};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    Family::new("check_paths", &["multipathd", "dmsetup", "udevadm", "lsblk"], job)
        .test("paths_without_a_map", no_map)
        .test("a_blacklist_that_hides_them", blacklist)
        .test("maps_with_all_paths", healthy)
        .test("a_failed_path", failed)
        .test("a_map_of_one_path", |report| {
            let look = look(report, "one_path");
            let found = look.found();
            assert!(
                found.iter().any(|found| found.starts_with("multipath-single-path ")),
                "{found:#?}"
            );
            look.has(&["path-in-use /dev/sdb"]);
        })
        .test("links_of_unequal_speed_are_not_made_up", |report| {
            look(report, "maps").lacks(&["multipath-selector", "multipath-groups-unequal"]);
        })
        .test("nobody_watches", |report| {
            let look = look(report, "no_daemon");
            let found = look.found();
            assert!(
                found.iter().any(|found| found.starts_with("multipath-daemon-missing ")),
                "{found:#?}"
            );
        })
        .into_trials()
}

const BLACKLIST: &str = r#"
cat >/etc/multipath.conf <<'CONF'
blacklist {
    devnode "^sd"
}
CONF
glance
"#;

const CONFIGURATION: &str = r#"
cat >/etc/multipath.conf <<'CONF'
defaults {
    user_friendly_names yes
    find_multipaths no
    path_grouping_policy multibus
    path_selector "round-robin 0"
    no_path_retry queue
}
blacklist {
    devnode "^(ubd|loop|md|ram|dm-)"
}
CONF
cat >>/etc/lvm/lvmlocal.conf <<'CONF'
devices {
    multipath_component_detection = 0
}
CONF
"#;

const FAIL: &str = "
echo offline >/sys/block/sda/device/state
dd if=/dev/mapper/mpatha of=/dev/null iflag=direct bs=4k count=64 status=none
for _ in {1..100}; do dmsetup status mpatha | grep -v '8:0 F' || break; sleep 0.2; done
glance
";

/// And the other path is used by something that does not know of the map.
const ONE_PATH: &str = "
echo 1 >/sys/block/sdd/device/delete
udevadm settle --timeout=30
for _ in {1..100}; do [ $(dmsetup deps mpathb | grep -c '1 dep') = 0 ] || break; sleep 0.1; done
dmsetup create direct --noudevsync --table '0 2048 linear /dev/sdb 0'
glance
dmsetup remove --noudevsync direct
";

/// A process that fathom lists runs meanwhile, and shows that processes could be seen.
const NO_DAEMON: &str = "
multipathd shutdown >&2
for _ in {1..100}; do pgrep -x multipathd >/dev/null || break; sleep 0.1; done
(sleep 60 | dd of=/dev/null status=none) &
glance
";

fn job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(200))
        .setup("paths", DISKS)
        .step("no_map", "look")
        .step("blacklist", BLACKLIST)
        .setup("configuration", CONFIGURATION)
        .setup("set_up", MAPS)
        .step("maps", "look")
        .step("failed", FAIL)
        .step("one_path", ONE_PATH)
        .step("no_daemon", NO_DAEMON)
}

fn no_map(report: &GuestReport) {
    let look = look(report, "no_map");
    agree::with_all(&look);
    look.lacks(&["multipath-degraded", "multipath-blacklist-wide", "lvm-duplicate-pv"]);
    contains(&look.defect("multipath-no-map").to_string(), &["paths to one drive"]);
}

fn blacklist(report: &GuestReport) {
    let look = look(report, "blacklist");
    contains(&look.defect("multipath-blacklist-wide").to_string(), &["devnode", "^sd"]);
    // One cause is told once.
    look.lacks(&["multipath-no-map"]);
}

fn healthy(report: &GuestReport) {
    let look = look(report, "maps");
    agree::with_all(&look);
    look.lacks(&[
        "multipath-degraded",
        "multipath-no-map",
        "multipath-single-path",
        "multipath-daemon-missing",
        "path-in-use",
    ]);
    contains(&look.defect("multipath-queue-forever").to_string(), &["queue_if_no_path", "certain"]);
    contains(&look.defect("multipath-friendly-names").to_string(), &["mpatha, mpathb"]);
    contains(&look.defect("lvm-filter-paths").to_string(), &["multipath_component_detection"]);
}

fn failed(report: &GuestReport) {
    let look = look(report, "failed");
    let defect = look.defect("multipath-degraded");
    contains(
        &defect.to_string(),
        &["mpatha has lost 1 of its 2 paths (sda)", "/sys/class/block/sda/device/state"],
    );
    assert_eq!(defect["gravity"], "high");
    // The log's lines name the path by its address, and are told once.
    look.lacks(&["kernel-log-resets"]);
}
