//! ext4 on a logical volume on a raid10 in far layout on four SCSI disks: what fathom sees of it, and what it says about
//! arrays and file systems that are busy with themselves.

use crate::family::{Family, contains, ended, findings, nodes, result};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

const GIB: u64 = 1 << 30;

pub fn trials() -> Vec<Trial> {
    Family::new("md", &["mdadm", "lvcreate", "mkfs.ext4"], job)
        .test("quick_names_every_layer_first", quick_names_every_layer_first)
        .test("show_draws_every_layer", show_draws_every_layer)
        .test("the_record_has_the_facts_of_the_array", facts_of_the_array)
        .test("the_record_has_counters_of_every_layer", counters_of_every_layer)
        .test("the_record_has_each_disks_queue", queues)
        .test("a_healthy_array_has_no_finding", healthy)
        .test("sizes_in_units_of_the_array", array_sizes)
        .test("a_check_is_found_and_the_advice_ends_it", checking)
        .test("a_degraded_array_is_found", degraded)
        .test("a_rebuild_is_found", rebuilding)
        .test("lazy_initialisation_is_found", lazy_init)
        .test("flushes_are_counted_below_the_array", flushes)
        .into_trials()
}

/// SCSI disks over the guest's sparse ones: as 1 GiB must stay free, the file system is too large for disks in memory.
const DISKS: &str = r#"
load sd_mod configfs target_core_mod target_core_iblock tcm_loop raid10 dm-mod bfq kyber-iosched
mount -t configfs configfs /sys/kernel/config
cd /sys/kernel/config/target
i=0
for letter in a b c d; do
    i=$((i + 1))
    disk=core/iblock_$i/disk$i
    mkdir -p $disk
    echo "udev_path=/dev/ubd$letter,force=1" >$disk/control
    echo 1 >$disk/enable
    echo "1111222$i-3333-4444-5555-666677778888" >$disk/wwn/vpd_unit_serial
    port=loopback/naa.600140500000000$i/tpgt_1
    mkdir -p $port/lun/lun_0
    echo naa.600140511111111$i >$port/nexus
    ln -s $PWD/$disk $port/lun/lun_0/port
    wait_for /dev/sd$letter
done
# A disk's queue shows before the kernel has read its limits for the second time, which sets the read-ahead.
for letter in a b c d; do
    for _ in {1..1200}; do ! dmesg | grep -F "[sd$letter] Attached" >/dev/null || continue 2; sleep 0.05; done
    echo "sd$letter is not attached" >&2
    exit 1
done
set_queue() { echo $2 >/sys/block/$1/queue/scheduler; echo $3 >/sys/block/$1/queue/read_ahead_kb; }
set_queue sda none 64
set_queue sdb bfq 128
set_queue sdc kyber 192
set_queue sdd mq-deadline 256
"#;

const STACK: &str = "
mdadm --create /dev/md10 --run --level=10 --layout=f2 --chunk=64 --raid-devices=4 --assume-clean \
    --bitmap=none /dev/sd[abcd]
pvcreate /dev/md10
vgcreate vg0 /dev/md10
lvcreate -Wn -Zn -l 100%FREE -n data vg0
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,nodiscard /dev/vg0/data
mkdir mnt
mount /dev/vg0/data mnt
";

/// The array's own work, so slow that it outlasts a run.
const CHECK: &str = "
echo 500 >/sys/block/md10/md/sync_speed_min
echo 1000 >/sys/block/md10/md/sync_speed_max
echo check >/sys/block/md10/md/sync_action
sleep 0.5
cat /sys/block/md10/md/sync_action
";

fn job(job: GuestJob) -> GuestJob {
    let job = (0..4).fold(job, |job, _| job.disk(GIB));
    job.setup("disks", DISKS)
        .setup("stack", STACK)
        .step("run", "measure")
        .step("show", "show_last")
        .step("quick", "fathom quick mnt --time=30s")
        .step(
            "array_sizes",
            "fathom --json --quiet run randread mnt size=16M duration=1s block_size=chunk:1,stride:1 align=2xchunk",
        )
        // An array that is marked clean and dirty again writes its superblocks, with flushes of its own.
        .setup("stays_active", "echo 0 >/sys/block/md10/md/safe_mode_delay")
        .step("flushed", "fathom --json --quiet run commit mnt size=16M duration=1s")
        .setup("no_barrier", "mount -o remount,barrier=0 mnt")
        .step("unflushed", "fathom --json --quiet run commit mnt size=16M duration=1s")
        .setup("barrier", "mount -o remount,barrier=1 mnt; echo 0.2 >/sys/block/md10/md/safe_mode_delay")
        .setup("check", CHECK)
        .step("checking", "measure")
        .step("advice", "echo idle > /sys/block/md10/md/sync_action; cat /sys/block/md10/md/sync_action")
        .setup("fail", "mdadm /dev/md10 --fail /dev/sdd; mdadm /dev/md10 --remove /dev/sdd")
        .step("degraded", "measure")
        .setup(
            "replace",
            "mdadm --zero-superblock /dev/sdd; mdadm /dev/md10 --add /dev/sdd
             for _ in {1..600}; do ! grep -q recover /sys/block/md10/md/sync_action || break; sleep 0.1; done",
        )
        .step("rebuilding", "measure")
        .setup(
            "young",
            "umount mnt; mkfs.ext4 -q -i 4096 -E lazy_itable_init=1,nodiscard /dev/vg0/data; mount /dev/vg0/data mnt",
        )
        .step("lazy", "measure")
}

/// A result of `measure`, doubtful at least because of its tiny file.
#[track_caller]
fn measured(report: &GuestReport, step: &str) -> Value {
    let result = result(report, step, 1);
    assert_eq!(result["records"][0]["ending"], "complete");
    result
}

fn quick_names_every_layer_first(report: &GuestReport) {
    let step = report.step("quick");
    assert!(matches!(step.code, Some(0 | 1)), "{:?}: {}", step.code, step.said());
    let expected = "/run/mnt  ext4 (data=ordered) on LV vg0/data (linear) on \
         md10 (raid10 far=2, 64 KiB chunk, 4 of 4) on 4 x LIO-ORG IBLOCK 1.07 GB";
    assert_eq!(step.stdout.lines().next(), Some(expected));
    contains(&step.stdout, &["sequential write", "commit", "Stored as"]);
}

fn show_draws_every_layer(report: &GuestReport) {
    let step = ended(report, "show", 0);
    let tree: Vec<&str> = step.stdout.lines().skip(2).take_while(|line| !line.is_empty()).collect();
    let expected = [
        "  /run/mnt  mount of /dev/mapper/vg0-data  rw,relatime",
        "    ext4  1.8 GiB free",
        "      dm-0  LV vg0/data (linear)",
        "        md10 (raid10 far=2, 64 KiB chunk, 4 of 4)",
        "          sda  LIO-ORG IBLOCK  1 GiB  scsi  serial 11112221-3333-4444-5555-666677778888",
        "          sdb  LIO-ORG IBLOCK  1 GiB  scsi  serial 11112222-3333-4444-5555-666677778888",
        "          sdc  LIO-ORG IBLOCK  1 GiB  scsi  serial 11112223-3333-4444-5555-666677778888",
        "          sdd  LIO-ORG IBLOCK  1 GiB  scsi  serial 11112224-3333-4444-5555-666677778888",
    ];
    assert_eq!(tree.len(), expected.len(), "{}", tree.join("\n"));
    for (line, start) in tree.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}\nis not\n{start}");
    }
    contains(tree[5], &["scheduler bfq", "read-ahead 128 KiB (256 sectors)"]);
    contains(&step.stdout, &["md10  its kernel thread used"]);
}

fn facts_of_the_array(report: &GuestReport) {
    let result = measured(report, "run");
    let arrays = nodes(&result["records"][0], "md");
    assert_eq!(arrays.len(), 1);
    let md = &arrays[0]["md"];
    for (key, value) in [
        ("level", Value::from("raid10")),
        ("layout_words", "far=2".into()),
        ("chunk_bytes", 65536.into()),
        ("raid_disks", 4.into()),
        ("degraded", 0.into()),
        ("sync_action", "idle".into()),
        ("metadata_version", "1.2".into()),
    ] {
        assert_eq!(md[key], value, "{key} of {md}");
    }
    let members = md["members"].as_array().expect("members");
    let names: Vec<&Value> = members.iter().map(|member| &member["name"]).collect();
    assert_eq!(names, ["sda", "sdb", "sdc", "sdd"]);
    assert!(members.iter().all(|member| member["state"] == "in_sync"), "{md}");
}

fn counters_of_every_layer(report: &GuestReport) {
    let result = measured(report, "run");
    let devices = result["records"][0]["devices"].as_array().expect("devices");
    let names: Vec<&str> = devices.iter().filter_map(|d| d["name"].as_str()).collect();
    assert_eq!(names, ["dm-0", "md10", "sda", "sdb", "sdc", "sdd"]);
    let bytes = |index: usize| devices[index]["read_bytes"].as_u64().expect("bytes");
    assert!((0..6).all(|index| bytes(index) > 0), "{devices:?}");
    // Each layer passes on what it gets, the array to one of its copies.
    let disks: u64 = (2..6).map(bytes).sum();
    let (volume, array) = (bytes(0) as f64, bytes(1) as f64);
    assert!(
        (array / volume - 1.0).abs() < 0.02 && (disks as f64 / array - 1.0).abs() < 0.02,
        "{devices:?}"
    );
    // Only an array has a thread of its own.
    let has_thread: Vec<bool> =
        devices.iter().map(|d| d["kernel_thread_cpu_ns"].is_u64()).collect();
    assert_eq!(has_thread, [false, true, false, false, false, false]);
}

fn queues(report: &GuestReport) {
    let result = measured(report, "run");
    let disks = nodes(&result["records"][0], "disk");
    let seen: Vec<(&str, &str, u64)> = disks
        .iter()
        .map(|disk| {
            let queue = &disk["queue"];
            (
                disk["name"].as_str().unwrap_or_default(),
                queue["scheduler"].as_str().unwrap_or_default(),
                queue["read_ahead_kib"].as_u64().unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        ("sda", "none", 64),
        ("sdb", "bfq", 128),
        ("sdc", "kyber", 192),
        ("sdd", "mq-deadline", 256),
    ];
    assert_eq!(seen, expected);
    for disk in disks {
        assert_eq!(disk["queue"]["schedulers"].as_array().map(Vec::len), Some(4), "{disk}");
        assert_eq!(disk["drive"]["vendor"], "LIO-ORG");
        assert!(disk["drive"]["wwn"].as_str().is_some_and(|wwn| wwn.starts_with("naa.6001405")));
    }
}

fn healthy(report: &GuestReport) {
    let result = measured(report, "run");
    let found = findings(&result);
    for id in ["md-sync-running", "md-degraded", "ext4-lazy-init"] {
        assert!(!found.contains(&id), "{found:?}");
    }
}

/// 64 KiB chunks on four disks, of which far copies leave all for each row.
fn array_sizes(report: &GuestReport) {
    let result = measured(report, "array_sizes");
    let job = &result["records"][0]["workload"]["jobs"][0];
    let sizes: Vec<&Value> = job["block_size"]
        .as_array()
        .expect("sizes")
        .iter()
        .map(|size| &size["size_bytes"])
        .collect();
    assert_eq!(sizes, [64 << 10, 256 << 10]);
    assert_eq!(job["align_bytes"], 128 << 10);
}

fn checking(report: &GuestReport) {
    assert_eq!(ended(report, "check", 0).stdout.trim(), "check");
    let result = measured(report, "checking");
    assert_eq!(result["verdict"], "doubtful");
    assert_eq!(findings(&result)[0], "md-sync-running");
    let md = &nodes(&result["records"][0], "md")[0]["md"];
    assert_eq!(md["sync_action"], "check");
    assert!(md["sync_completed_share"].as_f64().is_some_and(|share| share < 0.5), "{md}");
    let advice = "echo idle > /sys/block/md10/md/sync_action";
    contains(&report.step("checking").stderr, &["DOUBTFUL", "md10 is checking itself", advice]);
    assert_eq!(ended(report, "advice", 0).stdout.trim(), "idle");
}

fn degraded(report: &GuestReport) {
    let result = measured(report, "degraded");
    let found = findings(&result);
    assert!(found.contains(&"md-degraded") && !found.contains(&"md-sync-running"), "{found:?}");
    contains(
        &report.step("degraded").stderr,
        &["DOUBTFUL", "md10 lacks 1 of 4 members", "mdadm --detail"],
    );
}

fn rebuilding(report: &GuestReport) {
    let result = measured(report, "rebuilding");
    let found = findings(&result);
    assert!(found.contains(&"md-degraded") && found.contains(&"md-sync-running"), "{found:?}");
    contains(&report.step("rebuilding").stderr, &["md10 is rebuilding a member", "mdadm --wait"]);
}

fn lazy_init(report: &GuestReport) {
    let result = measured(report, "lazy");
    assert!(findings(&result).contains(&"ext4-lazy-init"), "{:?}", findings(&result));
    contains(&report.step("lazy").stderr, &["zeroes its inode tables", "block groups are left"]);
}

/// Neither the logical volume nor the array counts flushes; their disks do.
fn flushes(report: &GuestReport) {
    let flushed = |step: &str| -> (u64, u64, bool) {
        let code = report.step(step).code.unwrap_or(-1);
        assert!((0..=1).contains(&code), "{step}: {}", report.step(step).said());
        let result = result(report, step, code);
        let devices = result["records"][0]["devices"].as_array().expect("devices").clone();
        let of = |is_disk: bool| -> u64 {
            let own = devices.iter().filter(|device| {
                device["name"].as_str().is_some_and(|name| name.starts_with("sd")) == is_disk
            });
            own.filter_map(|device| device["flushes"].as_u64()).sum()
        };
        (of(true), of(false), findings(&result).contains(&"syncs-without-flush"))
    };
    let (disks, above, is_missed) = flushed("flushed");
    assert!(disks >= 8 && above == 0 && !is_missed, "{disks} {above} {is_missed}");
    assert_eq!(flushed("unflushed"), (0, 0, true));
}
