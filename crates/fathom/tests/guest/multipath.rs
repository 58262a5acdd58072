//! Two disks, each over two paths, under multipathd with udev running.

use crate::family::{Family, contains, ended, findings, nodes, result};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new("multipath", &["multipathd", "dmsetup", "udevadm"], job)
        .test("paths_without_a_map_cannot_be_told_apart", paths_without_a_map)
        .test("the_map_and_its_paths_are_seen", map_and_paths)
        .test("two_maps_of_two_paths_are_two_disks", two_disks)
        .test("a_path_of_a_map_is_refused", path_of_a_map)
        .test("the_map_is_written_with_consent", map_is_written)
        .test("groups_selector_and_a_lost_path_are_factors", paths)
        .test("a_failed_path_shows", failed_path)
        .test("maps_are_built_and_taken_down", built)
        .test("a_disk_that_disappears_makes_the_trial_void", deleted)
        .into_trials()
}

const CONFIGURATION: &str = r#"
cat >/etc/multipath.conf <<'CONF'
defaults {
    user_friendly_names yes
    find_multipaths no
    path_grouping_policy multibus
    path_selector "round-robin 0"
}
blacklist {
    devnode "^(ubd|loop|md|ram|dm-)"
}
CONF
"#;

/// Two disks in memory, each seen over two adapters.
pub const DISKS: &str = "
load sd_mod dm-mod dm-multipath dm-round-robin dm-service-time
load_with scsi_debug dev_size_mb=64 add_host=2 num_tgts=2 vpd_use_hostno=0 delay=0
wait_for /dev/sd{a,b,c,d}
";

/// Starts udev and multipathd and waits for both maps.
pub const MAPS: &str = "
unset DM_DISABLE_UDEV
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=block
udevadm settle --timeout=120
multipathd
for _ in {1..900}; do [ $(dmsetup ls --target multipath | grep -c mpath) -lt 2 ] || break; sleep 0.1; done
udevadm settle --timeout=120
[ -e /dev/mapper/mpatha ] && [ -e /dev/mapper/mpathb ]
";

/// A device across both maps. The disks share one memory, so nothing may be kept on them.
const STRIPED: &str = r#"
dmsetup create striped --table "0 262144 striped 2 128 /dev/mapper/mpatha 0 /dev/mapper/mpathb 0"
udevadm settle --timeout=120
"#;

/// A path fails, and the map has noticed.
const FAIL: &str = "
echo offline >/sys/block/sda/device/state
dd if=/dev/mapper/mpatha of=/dev/null iflag=direct bs=4k count=64 status=none
for _ in {1..450}; do dmsetup status mpatha | grep -v '8:0 F' || break; sleep 0.2; done
dmsetup status mpatha
";

/// Nobody uses the paths any more.
const UNMAPPED: &str = "
multipathd -k'shutdown' || true
for _ in {1..300}; do pidof multipathd >/dev/null || break; sleep 0.1; done
unset DM_DISABLE_UDEV
dmsetup remove striped
dmsetup remove_all
echo running >/sys/block/sda/device/state
udevadm settle --timeout=120
udevadm control --exit
";

/// A disk is gone in the middle of a trial, with a setting of another one changed.
const DELETED: &str = r#"
cat >/run/deleted.toml <<'END'
question = "Which?"
target = "/dev/sdd"
[[workload]]
use = "randread"
duration = "60s"
[knobs]
"block.read_ahead_kb@sdd" = 64
vm.swappiness = 33
[design]
blocks = 2
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
END
before=$(cat /proc/sys/vm/swappiness)
(while sleep 0.5; do
    now=$(awk '{print $1}' /sys/block/sdd/stat); sleep 0.5
    [ $(($(awk '{print $1}' /sys/block/sdd/stat) - now)) -lt 20 ] || break
done
echo 1 >/sys/block/sdd/device/delete) >&2 &
code=0
json lab /run/deleted.toml || code=$?
echo swappiness $before $(cat /proc/sys/vm/swappiness) >&2
fathom restore --list >&2
exit $code
"#;

/// The example of the documentation, script and plan.
const DOCUMENT: &str = include_str!("../../../../docs/lab.md");

fn example(after: &str) -> &'static str {
    let (_, section) = DOCUMENT.split_once("## Paths of a multipath map").expect("the section");
    let (_, block) = section.split_once(after).expect("a block");
    block.split("```").next().expect("its end")
}

fn job(job: GuestJob) -> GuestJob {
    let plan = example("```toml\nquestion").replace("60s", "200ms");
    let (script, plan) = (example("```sh\n"), format!("question{plan}"));
    let calm = "[design]\nblocks = 1\nsentinel = false\n[prepare]\nsettle = \"0s\"\nquiet = \"0s\"\ndrop_caches = false\n";
    // The other example says only what the setup is.
    let built = example("```toml\n").replace("/dev/sdb", "/dev/sdc");
    let load = "question = \"Which?\"\n[[workload]]\nuse = \"randread\"\ndepth = 8\nduration = \"200ms\"\n";
    let files = format!(
        "cat >/run/paths <<'EOS'\n{script}EOS\nchmod +x /run/paths\ncat >/run/paths.toml <<'EOS'\n{plan}{calm}EOS\n\
         cat >/run/built.toml <<'EOS'\n{load}{built}{calm}EOS\nload dm-queue-length\n"
    );
    job.setup("configuration", CONFIGURATION)
        .setup("paths", DISKS)
        .step("twins", "attempt /dev/sda --destroy=$(wwn sda)")
        .setup("maps", MAPS)
        .step("run", "json run randread /dev/mapper/mpatha duration=1s depth=8")
        .step("show", "show_last")
        .step("path", "attempt /dev/sda --destroy=$(wwn sda)")
        .setup("id", "dm mpatha")
        .step("without", "attempt /dev/mapper/mpatha")
        .step("map", "attempt /dev/mapper/mpatha --destroy=$(dm mpatha)")
        .setup("stripes", STRIPED)
        .step("striped", "json run randread /dev/mapper/striped duration=1s depth=8")
        .setup("files", &files)
        .step("table", "dmsetup table mpatha")
        .step(
            "uses",
            "unset DM_DISABLE_UDEV; PATH=/run:$PATH; FATHOM_FAULT=list:/run/points json lab /run/paths.toml --seed=1 --skip selector=queue-length",
        )
        .step(
            "killed",
            "unset DM_DISABLE_UDEV; PATH=/run:$PATH; code=0
             at=$(grep -n 'after own.selector is written' /run/points | head -1 | cut -d: -f1)
             FATHOM_FAULT=kill:$at json lab /run/paths.toml --new --seed=1 --skip selector=queue-length >/run/listed || code=$?
             echo ended $code; dmsetup table mpatha; fathom restore",
        )
        .step("table_again", "dmsetup table mpatha; cat /sys/block/sda/device/state")
        .setup("fail", FAIL)
        .step("failed", "json run randread /dev/mapper/mpatha duration=1s depth=8")
        .setup("unmapped", UNMAPPED)
        .step("built", "json lab /run/built.toml --seed=1 --destroy=$(wwn sda)")
        .step("built_gone", "dmsetup ls; attempt /dev/sda --destroy=$(wwn sda)")
        .step("deleted", DELETED)
}

/// The bytes that a device read in a run.
fn read_bytes(record: &Value, name: &str) -> f64 {
    let devices = record["devices"].as_array().expect("devices");
    let device = devices.iter().find(|device| device["name"] == name).expect(name);
    device["read_bytes"].as_f64().expect("bytes")
}

fn paths_without_a_map(report: &GuestReport) {
    let step = ended(report, "twins", 3);
    contains(&step.stderr, &["/dev/sda cannot be told from /dev/sdc", "naa.3333"]);
    assert_eq!(step.stdout.trim(), "UNCHANGED");
}

fn map_and_paths(report: &GuestReport) {
    let result = result(report, "run", 1);
    assert!(!findings(&result).contains(&"multipath-degraded"), "both paths work");
    let record = &result["records"][0];
    assert_eq!(nodes(record, "dm")[0]["dm"]["targets"][0], "multipath");
    let paths: Vec<&Value> = nodes(record, "disk").iter().map(|disk| &disk["name"]).collect();
    assert_eq!(paths, ["sda", "sdc"]);
    // Round robin: each path carries half.
    let whole = read_bytes(record, "dm-0");
    for path in ["sda", "sdc"] {
        let share = read_bytes(record, path) / whole;
        assert!((0.45..0.55).contains(&share), "{path}: {share}");
    }
    // Two paths have one cache.
    let reason = "the controller and drive caches (assumed 256 MiB)";
    assert_eq!(record["targets"][0]["device_cache_reason"], reason);
    let tree = &ended(report, "show", 0).stdout;
    contains(
        tree,
        &["  dm-0  multipath mpatha (2 paths)", "    sda  Linux scsi_debug", "    sdc  Linux"],
    );
}

fn two_disks(report: &GuestReport) {
    let result = result(report, "striped", 1);
    let record = &result["records"][0];
    assert_eq!(nodes(record, "disk").len(), 4);
    let reason = record["targets"][0]["device_cache_reason"].as_str().unwrap_or_default();
    contains(reason, &["caches of 2 disks"]);
}

fn path_of_a_map(report: &GuestReport) {
    let step = ended(report, "path", 3);
    contains(
        &step.stderr,
        &["/dev/sda is in use", "one path of the multipath map /dev/mapper/mpatha"],
    );
    assert_eq!(step.stdout.trim(), "UNCHANGED");
}

fn map_is_written(report: &GuestReport) {
    let id = ended(report, "id", 0).stdout.trim();
    assert!(id.starts_with("mpath-"), "{id}");
    let step = ended(report, "without", 3);
    contains(&step.stderr, &[&format!("--destroy={id}\n")]);
    assert_eq!(step.stdout.trim(), "UNCHANGED");
    let step = ended(report, "map", 1);
    assert_eq!(step.stdout.lines().last(), Some("CHANGED"));
}

/// Every way to use the paths is a cell, and shows in what each path carried; afterwards, also when it was killed, the map is as before.
fn paths(report: &GuestReport) {
    let result = result(report, "uses", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 2 * 2 * 2);
    for record in records {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]);
        let level = |at: usize| record["cell"]["levels"][at][1].as_str().expect("a level");
        let share = read_bytes(record, "sda") / read_bytes(record, "dm-0");
        match (level(0), level(1), level(2)) {
            (_, _, "offline") => assert_eq!(share, 0.0, "{}", record["cell"]),
            ("8:0,8:32", "round-robin", _) => assert!((0.4..0.6).contains(&share), "{share}"),
            // A map goes to another group only when all paths of its own have failed.
            ("8:0/8:32", ..) => assert!(!(0.01..=0.99).contains(&share), "{share}"),
            _ => assert!((0.0..=1.0).contains(&share), "{share}"),
        }
    }
    let before = ended(report, "table", 0).stdout.trim();
    let killed = ended(report, "killed", 0);
    contains(&killed.stdout, &["ended 137"]);
    assert!(!killed.stdout.contains(before), "something was to be put back: {}", killed.stdout);
    let after: Vec<&str> = ended(report, "table_again", 0).stdout.lines().map(str::trim).collect();
    assert_eq!(after, [before, "running"]);
}

fn failed_path(report: &GuestReport) {
    contains(&ended(report, "fail", 0).stdout, &["8:0 F", "8:32 A"]);
    let result = result(report, "failed", 1);
    let record = &result["records"][0];
    assert_eq!(read_bytes(record, "sda"), 0.0);
    assert_eq!(read_bytes(record, "sdc"), read_bytes(record, "dm-0"));
    let states: Vec<&Value> =
        nodes(record, "disk").iter().map(|disk| &disk["drive"]["state"]).collect();
    assert_eq!(states, ["offline", "running"]);
    assert_eq!(result["verdict"], "doubtful");
    let found = result["findings"].as_array().expect("findings");
    let degraded = found.iter().find(|f| f["id"] == "multipath-degraded").expect("a finding");
    let summary = degraded["summary"].as_str().unwrap_or_default();
    contains(summary, &["mpatha has lost 1 of its 2 paths (sda)"]);
}

/// The map of each cell is built over the two paths, of which one has failed or none, and is gone afterwards.
fn built(report: &GuestReport) {
    let result = result(report, "built", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 3 * 2);
    for record in records {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]);
        let share = read_bytes(record, "sda") / read_bytes(record, "dm-0");
        match record["cell"]["levels"][1][1].as_str() {
            Some("1") => assert_eq!(share, 0.0, "{}", record["cell"]),
            _ => assert!(share > 0.0, "{}", record["cell"]),
        }
    }
    let after = ended(report, "built_gone", 3);
    contains(&after.stdout, &["No devices found"]);
    contains(&after.stderr, &["/dev/sda cannot be told from /dev/sdc"]);
}

fn deleted(report: &GuestReport) {
    let result = result(report, "deleted", 5);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 1, "it ends with the first");
    let void = records[0]["cell"]["void"].as_str().unwrap_or_default();
    contains(void, &["the device is gone"]);
    let said = &ended(report, "deleted", 5).stderr;
    let line = said.lines().find_map(|line| line.strip_prefix("swappiness ")).expect(said);
    let (before, after) = line.split_once(' ').expect(line);
    assert_eq!(before, after);
    contains(said, &["Nothing is left changed."]);
}
