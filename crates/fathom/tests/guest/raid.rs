//! `fathom raid` on disks of the kernel's own making: all levels and layouts, an odd number of members, unattended; and
//! `fathom layers` on an array with a volume and a filesystem. Afterwards everything is as before.

use crate::family::{Family, contains, ended};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    Family::new("raid", &["mdadm", "lvm", "mkfs.ext4"], job)
        .test("every_array_is_measured_and_taken_down", matrix)
        .test("members_do_what_the_address_maps_say", counted)
        .test("rebuilds_have_a_speed", rebuilds)
        .test("a_dry_run_touches_nothing", dry)
        .test("the_stored_matrix_says_the_same", stored)
        .test("layers_from_the_disks_upward", layers)
        .test("a_disk_that_is_away_is_told_until_it_is_back", away)
        .into_trials()
}

/// A rebuild so slow that it outlasts the measurements on it.
const DISKS: &str = "
load md-mod raid0 raid1 raid10 raid456 sd_mod dm-mod
load_with scsi_debug dev_size_mb=32 add_host=5 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c,d,e}
echo 1000 >/proc/sys/dev/raid/speed_limit_min
echo 2000 >/proc/sys/dev/raid/speed_limit_max
mkdir -p /run/store
";

/// What must be the same before and after: arrays, signatures, settings of the disks and of md, loop devices, mounts.
const AROUND: &str = r#"
around() {
    cat /proc/mdstat /proc/mounts
    losetup -a
    for disk in /dev/sd[a-e]; do
        head -c 64k $disk | od -An -tx1 | grep -v '^ 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00$' | grep -v '^\*$' | head -3
    done
    for disk in a b c d e; do
        (cd /sys/block/sd$disk/queue && grep -H . scheduler nr_requests read_ahead_kb max_sectors_kb wbt_lat_usec)
    done
    cat /proc/sys/dev/raid/speed_limit_min /proc/sys/dev/raid/speed_limit_max
    find /run/store -mindepth 1 -not -name 'fathom.db*' -not -name owned -not -name changes
}
consent() { for disk in a b c d e; do printf -- '--destroy=%s ' $(wwn sd$disk); done; }
raid() { fathom raid /dev/sd[a-e] $(consent) --size=all --time=150ms --runs=1 --depth=8 --assume-clean --fail-on=void "$@"; }
"#;

/// An array, a volume, a filesystem, a file.
const STACK: &str = "
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --homehost=any --level=5 --chunk=64 --raid-devices=3 /dev/sd[abc] >&2
pvcreate -qq /dev/md5 >&2
vgcreate -qq vg0 /dev/md5 >&2
lvcreate -qq -y -n data -l 100%FREE vg0 >&2
mkfs.ext4 -q -F /dev/vg0/data >&2
mkdir -p /run/mnt
mount /dev/vg0/data /run/mnt
dd if=/dev/urandom of=/run/mnt/file bs=1M count=16 oflag=direct status=none
";

/// Killed with a partition table of its own on a disk, which then goes, and comes back.
const AWAY: &str = r#"
. /run/lib.sh
cat >/run/away.toml <<'END'
question = "Is it told?"
[[workload]]
use = "randread"
duration = "100ms"
warmup = "0s"
[setup]
devices = ["/dev/sde"]
slice.start = "1MiB"
slice.size = "8MiB"
[design]
blocks = 1
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
[[objective]]
metric = "iops"
END
killed() { FATHOM_FAULT=$1 fathom --quiet lab /run/away.toml --new $(consent) >&2 || code=$?; }
restored() { code=0; fathom restore || code=$?; echo CODE $code; }
code=0; killed list:/run/points; [ $code -le 1 ]
at=$(sed -n 's/^\([0-9]*\) .*before a measurement.*/\1/p' /run/points | head -1)
code=0; killed kill:$at; [ $code = 137 ]
blkid -p -o value -s PTTYPE /dev/sde
host=$(readlink -f /sys/block/sde/device | sed 's,.*/\(host[0-9]*\)/.*,\1,')
echo 1 >/sys/block/sde/device/delete
restored
echo '- - -' >/sys/class/scsi_host/$host/scan
wait_for /dev/sde
restored
fathom restore --list
blkid -p /dev/sde >&2 || echo BLANK
"#;

/// What a dry run says of disks that are not alike.
const UNLIKE: &str = r#"
load loop
cd /tmp
disks='disk32 disk40 disk24'
for disk in $disks; do truncate -s ${disk#disk}M $disk; done
loops=$(for disk in $disks; do losetup --show -f $disk; done)
fathom raid $loops $(for disk in $disks; do echo --destroy=/tmp/$disk; done) --level=raid0,raid1,raid5 --layout=left-symmetric \
    --state=normal --size=all --time=150ms --runs=1 --assume-clean --dry-run
losetup -d $loops
rm $disks
"#;

fn job(job: GuestJob) -> GuestJob {
    job.memory_mib(1024)
        .setup("disks", DISKS)
        .setup("library", &format!("cat >/run/lib.sh <<'EOS'\n{AROUND}\nEOS"))
        .setup("before", ". /run/lib.sh; around >/run/before")
        .step("dry", ". /run/lib.sh; raid --dry-run; around | diff /run/before - && echo SAME")
        .step("dry_unlike", UNLIKE)
        .step("matrix", ". /run/lib.sh; raid --json --quiet")
        .step("after", ". /run/lib.sh; around | diff /run/before - && echo SAME")
        .step("again", "show_last")
        .setup("stack", STACK)
        .step("layers", "json layers /run/mnt/file --time=200ms --runs=2 depth=4 --fail-on=void")
        .step("layers_shown", "show_last")
        .step(
            "layers_left",
            "[ \"$(ls -A /run/mnt | tr '\\n' ' ')\" = 'file lost+found ' ] && echo NOTHING LEFT",
        )
        .step("away", AWAY)
}

/// The result of a step, whatever is doubtful about figures of windows that short.
#[track_caller]
fn result(report: &GuestReport, step: &str) -> Value {
    let step = report.step(step);
    assert!(matches!(step.code, Some(0 | 1)), "{}: {:?} {}", step.name, step.code, step.said());
    let line = step.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).expect(line)
}

/// A disk that is away with what fathom made of it: nothing is as before, and the code says so.
fn away(report: &GuestReport) {
    let step = report.step("away");
    assert_eq!(step.code, Some(0), "{}", step.said());
    let (gone, back) = step.stdout.split_once("CODE 4").expect("it is missing");
    contains(gone, &["gpt\n", "sde", "is away; when it is there again: fathom restore"]);
    contains(back, &["CODE 0", "Nothing is left changed.", "BLANK"]);
}

/// The rows of the matrix: name, states.
fn rows(report: &GuestReport) -> Vec<Value> {
    let result = result(report, "matrix");
    result["raid"]["rows"].as_array().expect("rows").clone()
}

fn name(row: &Value) -> String {
    let word = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
    format!("{} {}", word("level"), word("layout"))
}

fn state<'r>(row: &'r Value, state: &str) -> Option<&'r Value> {
    row["states"].as_array()?.iter().find(|of| of["state"] == state)
}

fn matrix(report: &GuestReport) {
    let result = result(report, "matrix");
    let void: Vec<&Value> = result["raid"]["void"].as_array().expect("a list").iter().collect();
    assert!(void.is_empty(), "{void:#?}");
    assert_eq!(result["ended"], "complete");
    let told = &report.step("matrix").stdout;
    for level in ["raid0", "raid1"] {
        assert!(told.contains(&format!("level={level} ")), "{level}");
        assert!(!told.contains(&format!("level={level} layout")), "{level} has none");
    }
    let rows = rows(report);
    let mut names: Vec<String> = rows.iter().map(name).collect();
    names.sort();
    let expected = [
        "raid0 -",
        "raid1 -",
        "raid10 f2",
        "raid10 n2",
        "raid10 o2",
        "raid5 left-asymmetric",
        "raid5 left-symmetric",
        "raid5 right-asymmetric",
        "raid5 right-symmetric",
        "raid6 left-symmetric",
    ];
    assert_eq!(names, expected);
    for row in &rows {
        let states: Vec<&str> = ["normal", "degraded", "rebuilding"]
            .into_iter()
            .filter(|wanted| state(row, wanted).is_some())
            .collect();
        let is_striped = row["level"] == "raid0";
        assert_eq!(states.len(), if is_striped { 1 } else { 3 }, "{}: {states:?}", name(row));
        for of in row["states"].as_array().expect("states") {
            let figures = of["figures"].as_array().expect("figures");
            let is_there = figures.iter().all(|f| f["bytes_per_s"]["value"].as_f64() > Some(0.0));
            assert!(is_there && figures.len() == 4, "{} {}", name(row), of["state"]);
        }
    }
    // Each disk alone, and their median as the measure of the others.
    let alone = result["raid"]["components"].as_array().expect("members");
    let members: Vec<&str> = alone.iter().filter_map(|member| member["name"].as_str()).collect();
    assert_eq!(members, ["sda", "sdb", "sdc", "sdd", "sde"]);
    contains(&report.step("after").stdout, &["SAME"]);
}

/// Random reads: what the members counted, by the kernel, against the map.
fn counted(report: &GuestReport) {
    for row in rows(report) {
        let normal = state(&row, "normal").expect("measured");
        let counted = &normal["counted"][2];
        let (reads, expected) = (counted["reads"].as_f64(), counted["reads_expected"].as_f64());
        let (Some(reads), Some(expected)) = (reads, expected) else {
            // Too few requests in so short a window on a slow machine.
            assert!(counted.is_null(), "{}: {counted}", name(&row));
            continue;
        };
        assert_eq!(expected, 1.0, "{}", name(&row));
        assert!((0.8..1.25).contains(&reads), "{}: {reads} reads of members for one", name(&row));
        // A mix of which 30 % are writes; what the rules of md ask for, in bytes written.
        let mix = &normal["counted"][3];
        let written = mix["written_bytes"].as_f64().zip(mix["written_bytes_expected"].as_f64());
        if let Some((written, expected)) = written {
            let ratio = written / expected;
            assert!((0.7..1.4).contains(&ratio), "{}: {written} instead of {expected}", name(&row));
        }
    }
    let result = result(report, "matrix");
    let findings = result["raid"]["findings"].as_array().expect("findings");
    let reads = findings.iter().filter(|f| f["id"] == "too-many-member-reads").count();
    assert_eq!(reads, 0, "{findings:#?}");
}

fn rebuilds(report: &GuestReport) {
    let with_speed = |row: &Value| {
        let of = state(row, "rebuilding")?;
        let rebuilds = of["rebuilds"].as_array()?;
        rebuilds.iter().find_map(|rebuild| rebuild["bytes_per_s"].as_f64())
    };
    let rows = rows(report);
    let redundant: Vec<&Value> = rows.iter().filter(|row| row["level"] != "raid0").collect();
    let rebuilt = redundant.iter().filter(|row| with_speed(row).is_some()).count();
    // A rebuild of a tiny member may rest between two windows.
    assert!(2 * rebuilt > redundant.len(), "{rebuilt} of {}", redundant.len());
}

fn dry(report: &GuestReport) {
    contains(&report.step("dry").stdout, &["mdadm --create", "SAME"]);
    // Of each disk 1 MiB is md's.
    let alike: &[_] = &[
        ("raid0 ", "155 MiB 0 B"),
        ("raid1 ", "31 MiB 0 B"),
        ("raid5 layout=right-symmetric ", "124 MiB 0 B"),
        ("raid6 ", "93 MiB 0 B"),
        ("raid10 layout=f2 ", "77.5 MiB 0 B"),
    ];
    let unlike: &[_] =
        &[("raid0 ", "93 MiB 0 B"), ("raid1 ", "23 MiB 24 MiB"), ("raid5 ", "46 MiB 24 MiB")];
    for (step, rows) in [("dry", alike), ("dry_unlike", unlike)] {
        let text = &ended(report, step, 0).stdout;
        contains(text, &[" usable  wasted  one trial"]);
        for (level, room) in rows {
            let is_it = |line: &&str| line.contains(&format!(" level={level}"));
            let line = text.lines().find(is_it).expect(level);
            let words: Vec<&str> = line.split_whitespace().collect();
            contains(&words.join(" "), &[&format!("state=normal {room} ")]);
        }
    }
}

fn stored(report: &GuestReport) {
    let text = &report.step("again").stdout;
    contains(
        text,
        &[
            "raid5 left-asymmetric",
            "multiples of one member",
            "n/a",
            "Rebuilding",
            "one member alone",
            "n/a: raid0 has no redundancy",
        ],
    );
}

fn layers(report: &GuestReport) {
    let result = result(report, "layers");
    let workloads = result["layers"]["workloads"].as_array().expect("workloads");
    let names: Vec<&str> = workloads.iter().filter_map(|of| of["workload"].as_str()).collect();
    assert_eq!(names, ["randread", "seqread"]);
    for of in workloads {
        let rows = of["rows"].as_array().expect("rows");
        let layers: Vec<String> = rows
            .iter()
            .map(|row| {
                let layer = &row["layer"];
                let what = layer["name"]
                    .as_str()
                    .map_or_else(|| layer["count"].to_string(), str::to_owned);
                format!("{} {what}", layer["kind"].as_str().unwrap_or_default())
            })
            .collect();
        let expected = [
            "alone sda",
            "alone sdb",
            "alone sdc",
            "together 3",
            "device md5",
            "device vg0-data",
            "files /run/mnt/file",
        ];
        assert_eq!(layers, expected);
        assert!(
            rows[3..].iter().all(|row| row["efficiency"]["value"].as_f64() > Some(0.0)),
            "{rows:#?}"
        );
    }
    contains(&report.step("layers_shown").stdout, &["sda alone", "all 3 at once", "of below"]);
    contains(&report.step("layers_left").stdout, &["NOTHING LEFT"]);
}
