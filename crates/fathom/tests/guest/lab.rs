//! Experiments on real arrays: every state as a level of a factor, a member that fails in the middle of a trial, kills.

use crate::family::{Family, contains, result};
use fathom_testkit::{GuestJob, GuestReport, Trial, counted, sample};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new(
        "lab",
        &["mdadm", "blkid", "lvm", "mkfs.xfs", "mkfs.btrfs", "mkfs.f2fs", "unshare"],
        job,
    )
    .test("states_of_an_array_are_levels", states)
    .test("data_begin_where_the_cell_says", offsets)
    .test("room_on_unlike_disks_stands_in_columns", unlike)
    .test("a_member_that_fails_makes_the_trial_void", member)
    .test("kills_leave_no_array", kills)
    .test("kills_in_containers_leave_no_array", contained)
    .test("ready_plans_of_arrays", ready)
    .test("ready_plan_raw_lvm_filesystem", raw_lvm_filesystem)
    .test("ready_plan_member_order", member_order)
    .test("f2fs_is_a_filesystem_like_others", f2fs)
    .test("cells_of_another_boot_are_measured_there", boots)
    .into_trials()
}

/// What is left of arrays, loop devices and journals: nothing may be.
const LEFT: &str = r#"
destroy() { for disk in ${*:-ubda ubdb ubdc}; do echo --destroy=$disk:$(($(cat /sys/block/$disk/size) * 512)):$(cat /sys/block/$disk/diskseq); done; }
left() {
    grep ^md /proc/mdstat && return 1
    for disk in ubda ubdb ubdc ubdd; do blkid -p /dev/$disk && return 1; done
    dmsetup ls | grep -v '^No devices' && return 1
    ls /run/store/changes | grep . && return 1
    find /run/store -mindepth 1 -not -name 'fathom.db*' -not -name changes -not -name owned | grep . && return 1
    echo NOTHING LEFT
}
plan() {
    cat <<END
question = "What does the state of the array cost?"
[[workload]]
use = "randread"
depth = 4
duration = "$1"
warmup = "0s"
[setup]
devices = ["/dev/ubda", "/dev/ubdb", "/dev/ubdc"]
array.level = "raid5"
array.chunk = "64k"
array.bitmap = "none"
array.assume_clean = true
$2
[design]
blocks = 1
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
[[objective]]
metric = "iops"
END
}
shorten() {
    sed -i 's/^blocks.*/blocks = 1\nsentinel = false/' $1
    printf '[prepare]\nsettle = "0s"\nquiet = "0s"\n' >>$1
}
"#;

/// An experiment in a mount namespace, on the machine's root directory or on one of its own, in which the state directory is `/data`.
const BOX: &str = r#"
set -e
kind=$1
shift
if [ $kind = same ]; then exec fathom --quiet lab /run/boxed.toml --new "$@"; fi
mkdir -p /run/box
mount -t tmpfs none /run/box
cp /run/boxed.toml /run/box/plan.toml
tools=$(dirname "$(command -v fathom)")
cd /run/box
mkdir -p usr etc proc sys dev tools data run
mkdir -m 1777 tmp
for part in bin sbin lib lib64; do
    if [ -L /$part ]; then ln -s "$(readlink /$part)" $part; else mkdir $part; mount --bind /$part $part; fi
done
for part in usr etc dev; do mount --bind /$part $part; done
mount --bind "$tools" tools
mount --bind /run/store data
mount -t proc proc proc
mount -t sysfs sys sys
exec chroot . /tools/fathom --db=/data/fathom.db --quiet lab /plan.toml --new "$@"
"#;

fn job(job: GuestJob) -> GuestJob {
    let job = (0..3).fold(job, |job, _| job.disk(48 << 20));
    // The fourth is large enough for XFS; on the fifth is kept what outlives a boot.
    let job = job.disk(400 << 20).disk(64 << 20);
    let job = job.setup("drivers", "load raid456 raid10 dm-mod xfs btrfs f2fs; mkdir -p /run/store; echo 500 >/proc/sys/dev/raid/speed_limit_min; echo 1000 >/proc/sys/dev/raid/speed_limit_max")
        .setup("library", &format!("cat >/run/lib.sh <<'EOS'\n{LEFT}\nEOS"))
        .setup("box", &format!("cat >/run/box.sh <<'EOS'\n{BOX}\nEOS"))
        .setup(
            "plans",
            ". /run/lib.sh
             plan 300ms '[factors]
array.state = [\"normal\", \"degraded\", \"rebuilding\", \"checking\"]' >/run/states.toml
             plan 100ms '[factors]
array.data_offset = [\"1025k\", \"64k\"]' >/run/offsets.toml
             plan 100ms 'array.data_offset = \"1MiB\"
[factors]
array.level = [\"raid5\", \"raid0\"]' | sed -e '/^array.level = \"/d' -e s,ubdc,ubdd, >/run/unlike.toml
             plan 20s '' >/run/member.toml
             plan 100ms '[knobs]
md.stripe_cache_size = 300' >/run/killed.toml
             plan 100ms 'filesystem.type = \"ext4\"
[knobs]
md.stripe_cache_size = 300' | sed 's/^depth.*/size = \"8MiB\"/' >/run/boxed.toml",
        )
        .step("states", ". /run/lib.sh; fathom --json --quiet lab /run/states.toml $(destroy)")
        .step("after_states", ". /run/lib.sh; left")
        .step("offsets", ". /run/lib.sh; fathom --json --quiet lab /run/offsets.toml $(destroy)")
        .step("after_offsets", ". /run/lib.sh; left")
        .step("unlike_plan", ". /run/lib.sh; fathom --json lab /run/unlike.toml --dry-run $(destroy ubda ubdb ubdd)")
        .step("unlike", ". /run/lib.sh; fathom --json lab /run/unlike.toml $(destroy ubda ubdb ubdd)")
        .step("after_unlike", ". /run/lib.sh; left")
        .step(
            "member",
            ". /run/lib.sh
             (for _ in {1..3000}; do
                  md=$(sed -n 's/^\\(md[0-9]*\\) : active.*/\\1/p' /proc/mdstat)
                  if [ -n \"$md\" ] && [ $(awk '{print $1}' /sys/block/$md/stat) -gt 200 ]; then
                      mdadm /dev/$md --fail /dev/$(ls /sys/block/$md/slaves | head -1); break
                  fi
                  sleep 0.1
              done) >&2 &
             fathom --json --quiet lab /run/member.toml $(destroy)",
        )
        .step("after_member", ". /run/lib.sh; left")
        .step(
            "ready",
            ". /run/lib.sh
             disks='--device /dev/ubda --device /dev/ubdb --device /dev/ubdc'
             fathom lab chunk $disks duration=100ms size=16MiB --print >/run/chunk.toml
             sed -i 's/^slice.start.*/slice.start = \"1MiB\"/; s/^blocks.*/blocks = 1\\nsentinel = false/' /run/chunk.toml
             printf '[prepare]\\nsettle = \"0s\"\\nquiet = \"0s\"\\n' >>/run/chunk.toml
             fathom lab /run/chunk.toml --dry-run $(destroy) >&2
             fathom --json --quiet lab /run/chunk.toml --skip chunk=16k --skip chunk=128k --skip chunk=256k --skip chunk=1m $(destroy)",
        )
        .step("after_ready", ". /run/lib.sh; left");
    booted(boxed(killed(as_they_come(job))))
}

/// Ready-made plans, and f2fs.
fn as_they_come(job: GuestJob) -> GuestJob {
    job
        .step(
            "raw",
            ". /run/lib.sh
             fathom lab raw-lvm-filesystem --device /dev/ubdd duration=100ms size=8MiB --print >/run/raw.toml
             shorten /run/raw.toml
             fathom --json --quiet lab /run/raw.toml $(destroy ubdd)",
        )
        .step("after_raw", ". /run/lib.sh; left")
        .step(
            "order",
            ". /run/lib.sh
             disks='--device /dev/ubda --device /dev/ubdb --device /dev/ubdc --device /dev/ubdd'
             fathom lab member-order $disks duration=100ms size=32MiB --print >/run/order.toml
             sed -i 's/^slice.start.*/slice.start = \"1MiB\"/' /run/order.toml
             shorten /run/order.toml
             fathom --json --quiet lab /run/order.toml $(destroy ubda ubdb ubdc ubdd)",
        )
        .step("after_order", ". /run/lib.sh; left")
        .step(
            "f2fs",
            ". /run/lib.sh
             plan 100ms 'filesystem.type = \"f2fs\"
filesystem.fill = \"20%\"
mount.options = \"noatime\"' | sed -e /^array/d -e 's/^depth.*/size = \"8MiB\"/' -e 's,ubda.*ubdc,ubdd,' >/run/f2fs.toml
             fathom --json --quiet lab /run/f2fs.toml $(destroy ubdd)",
        )
        .step("after_f2fs", ". /run/lib.sh; left")
}

fn killed(job: GuestJob) -> GuestJob {
    let kills = sample(8, 60);
    job
        .step(
            "kills",
            &format!(
                ". /run/lib.sh
                 set +e
                 FATHOM_FAULT=list:/run/points fathom --quiet lab /run/killed.toml $(destroy) >/dev/null 2>&1
                 all=$(wc -l </run/points); killed=0
                 for i in $(seq 1 {kills}); do
                     at=$((1 + (i - 1) * all / {kills}))
                     FATHOM_FAULT=kill:$at fathom --quiet lab /run/killed.toml --new $(destroy) >/dev/null 2>&1
                     [ $? -eq 137 ] && killed=$((killed + 1))
                     fathom restore >/run/restored 2>&1 || {{ cat /run/restored; exit 1; }}
                     left >/run/left || {{ echo \"killed at $at: $(sed -n ${{at}}p /run/points)\"; cat /run/left /run/restored; exit 1; }}
                 done
                 echo KILLED $killed"
            ),
        )
}

/// Killed with its namespace: the array outlives that, its filesystem is not mounted any more.
fn boxed(job: GuestJob) -> GuestJob {
    let kills = boxed_kills();
    job.step(
        "boxed",
        &format!(
            ". /run/lib.sh
             set +e
             killed=0
             for kind in same own; do
                 state=/run/store; [ $kind = own ] && state=/data
                 FATHOM_FAULT=list:$state/points unshare --mount bash /run/box.sh $kind $(destroy) >/run/whole 2>&1
                 mv /run/store/points /run/points || {{ cat /run/whole; exit 1; }}
                 all=$(wc -l </run/points)
                 for at in $(grep -n 'before a measurement' /run/points | cut -d: -f1) $(seq $((all / {kills})) $((all / {kills})) $all); do
                     FATHOM_FAULT=kill:$at unshare --mount bash /run/box.sh $kind $(destroy) >/dev/null 2>&1
                     [ $? -eq 137 ] && killed=$((killed + 1))
                     fathom restore >/run/restored 2>&1 || {{ echo \"$kind $at\"; cat /run/restored; exit 1; }}
                     left >/run/left || {{ echo \"$kind, killed at $at: $(sed -n ${{at}}p /run/points)\"; cat /run/left /run/restored; exit 1; }}
                 done
             done
             echo KILLED $killed"
        ),
    )
}

/// How often in each kind of namespace, beside once in the middle of a measurement.
fn boxed_kills() -> usize {
    sample(3, 30)
}

/// One boot after another.
fn booted(job: GuestJob) -> GuestJob {
    job
        .setup("keep", "mkfs.ext4 -q /dev/ubde; mkdir -p /run/kept; mount /dev/ubde /run/kept")
        .step(
            "boot",
            "cat >/run/kept/boot.toml <<'END'
question = \"What does the parameter cost?\"
target = \"null:\"
[[workload]]
use = \"randread\"
duration = \"100ms\"
warmup = \"0s\"
[factors]
boot.fathom_word = [\"absent\", \"1\"]
[design]
blocks = 2
sentinel = false
[[objective]]
metric = \"iops\"
END
             code=0; fathom --db /run/kept/fathom.db --json --quiet lab /run/kept/boot.toml || code=$?
             umount /run/kept; exit $code",
        )
        .power_cut("cut")
        .setup(
            "again",
            "mkdir -p /run/kept; mount /dev/ubde /run/kept
             echo \"$(cat /proc/cmdline) fathom_word=1\" >/run/cmdline; mount --bind /run/cmdline /proc/cmdline",
        )
        .step(
            "booted",
            "code=0; fathom --db /run/kept/fathom.db --json --quiet lab /run/kept/boot.toml || code=$?
             umount /run/kept; exit $code",
        )
        .power_cut("cut_again")
        .setup("back", "mkdir -p /run/kept; mount /dev/ubde /run/kept")
        .step(
            "booted_back",
            "code=0; fathom --db /run/kept/fathom.db --json --quiet lab /run/kept/boot.toml || code=$?
             umount /run/kept; exit $code",
        )
}

/// All levels of the trials, each with what its array lacked and did.
fn states(report: &GuestReport) {
    let result = result(report, "states", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 4);
    for record in records {
        let cell = &record["cell"];
        assert!(cell["void"].is_null(), "{cell}");
        let level = cell["levels"][0][1].as_str().expect("a level");
        let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
        let md = nodes
            .iter()
            .find_map(|node| node.get("md").filter(|md| md.is_object()))
            .expect("an array");
        let (lacks, action) = (md["degraded"].as_u64(), md["sync_action"].as_str());
        let expected = match level {
            "normal" => (Some(0), Some("idle")),
            "degraded" => (Some(1), Some("idle")),
            "rebuilding" => (Some(1), Some("recover")),
            "checking" => (Some(0), Some("check")),
            other => panic!("{other}"),
        };
        assert_eq!((lacks, action), expected, "{level}");
    }
    let around = result["around"].as_array().expect("lines");
    let settings = around.iter().find(|line| line["what"] == "settings of the queues");
    assert_eq!(settings.map(|line| &line["is_same"]), Some(&Value::from(true)), "{around:?}");
    contains(&report.step("after_states").stdout, &["NOTHING LEFT"]);
}

/// Each cell has an array whose data begin elsewhere on its members, as the kernel says.
fn offsets(report: &GuestReport) {
    let records = all_of(report, "offsets", 2);
    for record in &records {
        let cell = &record["cell"];
        let level = cell["levels"][0][1].as_str().expect("an offset");
        let kib: u64 = level.trim_end_matches('k').parse().expect("KiB");
        let facts = cell["setup"].to_string();
        assert!(facts.contains(&format!("--data-offset={kib}")), "{facts}");
        let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
        let members = nodes.iter().filter_map(|node| node["md"]["members"].as_array());
        let found: Vec<u64> =
            members.flatten().filter_map(|member| member["offset_bytes"].as_u64()).collect();
        assert_eq!(found, [kib << 10; 3], "{level}: {nodes:?}");
    }
}

/// 48, 48 and 400 MiB, of which a MiB each is before the data: raid5 takes 47 of each, raid0 goes on with the largest alone.
fn unlike(report: &GuestReport) {
    const MIB: u64 = 1 << 20;
    let expected = [("raid5", 2 * 47, 352), ("raid0", 47 + 47 + 399, 0)];
    let plan = result(report, "unlike_plan", 0);
    let records = all_of(report, "unlike", 2);
    let cells = answered(report, "unlike")["experiment"]["cells"].clone();
    for (at, (level, usable, wasted)) in expected.into_iter().enumerate() {
        let expected = serde_json::json!({
            "devices_bytes": 496 * MIB, "usable_bytes": usable * MIB, "wasted_bytes": wasted * MIB,
        });
        assert_eq!(cells[at]["levels"][0][1], level);
        assert_eq!(cells[at]["capacity"], expected, "{level}");
        assert_eq!(plan["outline"]["cells"][at]["capacity"], expected, "{level}");
        let record = records.iter().find(|record| record["cell"]["levels"][0][1] == level);
        let record = record.unwrap_or_else(|| panic!("no {level}"));
        let size = &record["targets"][0]["size_bytes"];
        assert_eq!(*size, Value::from(usable * MIB), "{level}: as the target has it");
    }
    for step in ["unlike_plan", "unlike"] {
        let said = &report.step(step).stderr;
        contains(said, &["usable", "wasted", "94 MiB", "352 MiB", "493 MiB", "  0 B"]);
    }
}

fn member(report: &GuestReport) {
    let result = result(report, "member", 5);
    let records = result["records"].as_array().expect("records");
    let void = records[0]["cell"]["void"].as_str().expect("it is void");
    assert!(void.contains("lost a member"), "{void}");
    assert_eq!(result["ended"], Value::from("failed"));
    contains(&report.step("after_member").stdout, &["NOTHING LEFT"]);
}

/// The plan for chunk sizes as it comes, shortened: an array for each size, and every load on it.
fn ready(report: &GuestReport) {
    let result = result(report, "ready", 1);
    let records = result["records"].as_array().expect("records");
    assert_eq!(records.len(), 2 * 4, "two sizes, four loads");
    for record in records {
        let cell = &record["cell"];
        assert!(cell["void"].is_null(), "{cell}");
        let level = cell["levels"][0][1].as_str().expect("a size");
        let facts = cell["setup"].to_string();
        let chunk = format!("--chunk={}", level.trim_end_matches('k'));
        assert!(facts.contains(&chunk), "{chunk} in {facts}");
    }
    contains(&report.step("ready").stderr, &["chunk=16k", "--chunk=1024K", "DESTROYED"]);
    contains(&report.step("after_ready").stdout, &["NOTHING LEFT"]);
}

/// The result of an experiment that ran to its end; so few trials may or may not be trusted.
fn answered(report: &GuestReport, step: &str) -> Value {
    let is_trusted = report.step(step).code == Some(0);
    result(report, step, i32::from(!is_trusted))
}

/// Trials of a plan that none of its cells failed in.
fn all_of(report: &GuestReport, step: &str, count: usize) -> Vec<Value> {
    let result = answered(report, step);
    let records = result["records"].as_array().expect("records").clone();
    assert_eq!(records.len(), count, "{step}");
    for record in &records {
        assert!(record["cell"]["void"].is_null(), "{step}: {}", record["cell"]);
    }
    contains(&report.step(&format!("after_{step}")).stdout, &["NOTHING LEFT"]);
    records
}

/// The kinds of what a trial stood on, from the top.
fn kinds(record: &Value) -> Vec<&str> {
    let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
    nodes.iter().filter_map(|node| node["kind"].as_str()).collect()
}

/// The plan as it comes, shortened: the device, a volume, and three filesystems on both, each under three loads.
fn raw_lvm_filesystem(report: &GuestReport) {
    for record in all_of(report, "raw", 8 * 3) {
        let level = |at: usize| record["cell"]["levels"][at][1].as_str().expect("a level");
        let kinds = kinds(&record);
        assert_eq!(kinds.contains(&"dm"), level(0) == "linear", "{kinds:?}");
        assert_eq!(kinds.contains(&"file_system"), level(1) != "none", "{kinds:?}");
        let facts = record["cell"]["setup"].to_string();
        let made = format!("mkfs.{}", level(1));
        assert_eq!(facts.contains(&made), level(1) != "none", "{facts}");
    }
}

/// Four orders of the same members: what mdadm was given is the order of the cell.
fn member_order(report: &GuestReport) {
    for record in all_of(report, "order", 4 * 2) {
        let order = record["cell"]["levels"][0][1].as_str().expect("an order");
        let disk = |place: &str| {
            let place: usize = place.parse().expect("a place");
            format!("/dev/ubd{}1", ["a", "b", "c", "d"][place])
        };
        let members: Vec<String> = order.split(',').map(disk).collect();
        let facts = record["cell"]["setup"].to_string();
        assert!(facts.contains(&members.join(" ")), "{order}: {facts}");
    }
}

fn f2fs(report: &GuestReport) {
    let record = &all_of(report, "f2fs", 1)[0];
    let nodes = record["targets"][0]["stack"]["nodes"].as_array().expect("nodes");
    let fs = nodes.iter().find_map(|node| node["mount"]["fs_type"].as_str());
    assert_eq!(fs, Some("f2fs"), "{record}");
    let facts = record["cell"]["setup"].to_string();
    contains(&facts, &["mkfs.f2fs", "f2fs options in effect", "noatime"]);
}

/// The first boot measures its cell of the first block and asks for the other; that one ends the block, begins the next, and asks for the
/// first again: three boots in all, and nothing twice.
fn boots(report: &GuestReport) {
    for (step, count) in [("boot", 1), ("booted", 3)] {
        let part = result(report, step, 4);
        assert_eq!(
            (&part["ended"], part["records"].as_array().map(Vec::len)),
            (&Value::from("boot"), Some(count)),
            "{step}"
        );
    }
    let last = answered(report, "booted_back");
    assert_eq!(last["ended"], "complete", "{last}");
    let records = last["records"].as_array().expect("records");
    let ids: std::collections::BTreeSet<&str> =
        records.iter().filter_map(|record| record["cell"]["boot_id"].as_str()).collect();
    assert_eq!(ids.len(), 3, "each trial tells its boot");
    let mut levels: Vec<&str> =
        records.iter().filter_map(|record| record["cell"]["levels"][0][1].as_str()).collect();
    levels.sort_unstable();
    assert_eq!(levels, ["1", "1", "absent", "absent"], "of both kinds, nothing twice");
    let said = last["experiment"]["findings"].to_string();
    assert!(said.contains("few-boots"), "{said}");
    let cells = last["experiment"]["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 2, "the answer is of both boots");
}

fn kills(report: &GuestReport) {
    let killed = killed_in(report, "kills");
    assert!(killed * 10 >= sample(8, 60) * 8, "{killed} kills");
    counted("kills of an experiment on a real array", killed);
}

fn contained(report: &GuestReport) {
    let killed = killed_in(report, "boxed");
    assert!(killed >= 2 * boxed_kills(), "{killed} kills");
    counted("kills of an experiment on a real array in a container", killed);
}

fn killed_in(report: &GuestReport, step: &str) -> usize {
    let step = report.step(step);
    assert_eq!(step.code, Some(0), "{}", step.said());
    let line = step.stdout.lines().find_map(|line| line.strip_prefix("KILLED "));
    line.and_then(|count| count.parse().ok()).expect("a count")
}
