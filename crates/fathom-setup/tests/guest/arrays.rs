//! md arrays: every level and layout, odd numbers of members, all states; killed, and found again after a power cut under another name.

use crate::{driver, ended, has, job, killed, look, old_shown, tell_failures, word};
use fathom_model::plan::setup::{ArraySpec, ArrayState, FilesystemSpec, SetupSpec};
use fathom_testkit::{
    Capability, Guest, GuestJob, GuestReport, Trial, counted, kernel_test, sample,
};

/// Level, layout, members, chunk, metadata, whether assumed clean; what sysfs says of level, layout and chunk.
type Shape = (
    &'static str,
    Option<&'static str>,
    u32,
    Option<&'static str>,
    &'static str,
    bool,
    &'static str,
);

const SHAPES: &[Shape] = &[
    ("raid0", None, 3, Some("64k"), "1.2", false, "raid0 -1 65536"),
    ("raid1", None, 3, None, "1.0", false, "raid1 0 0"),
    ("raid4", None, 3, Some("16k"), "1.2", true, "raid4 0 16384"),
    ("raid5", Some("left-symmetric"), 3, Some("64k"), "0.90", false, "raid5 2 65536"),
    ("raid5", Some("left-asymmetric"), 4, Some("64k"), "1.2", true, "raid5 0 65536"),
    ("raid5", Some("right-symmetric"), 5, Some("32k"), "1.2", true, "raid5 3 32768"),
    ("raid5", Some("right-asymmetric"), 3, None, "1.1", true, "raid5 1 524288"),
    ("raid6", None, 5, Some("64k"), "1.2", true, "raid6 2 65536"),
    ("raid10", Some("n2"), 4, Some("64k"), "1.2", true, "raid10 258 65536"),
    ("raid10", Some("n2"), 5, Some("64k"), "1.2", false, "raid10 258 65536"),
    ("raid10", Some("f2"), 3, Some("64k"), "1.2", true, "raid10 513 65536"),
    ("raid10", Some("o2"), 5, Some("64k"), "1.2", true, "raid10 66049 65536"),
];
const DISKS: [&str; 5] = ["/dev/ubda", "/dev/ubdb", "/dev/ubdc", "/dev/ubdd", "/dev/ubde"];
/// Prints what the kernel says of the array under the target.
const FACTS: &str = "d=$(basename $(readlink -f $1)); cd /sys/block/$d/md; \
    echo KERNEL $(cat level layout chunk_size); \
    echo STATE degraded=$(cat degraded 2>/dev/null) action=$(cat sync_action 2>/dev/null) bitmap=$(cat bitmap/location 2>/dev/null)";

/// Prints where the data of the members begin, in sectors.
const OFFSETS: &str = "; echo OFFSETS $(cat dev-*/offset)";

pub fn trial() -> Trial {
    let needs = [
        // The journal lies on the host: root in the guest does not believe what belongs to somebody else.
        Capability::Root,
        Capability::Uml,
        Capability::Tool("busybox"),
        Capability::Tool("modprobe"),
        Capability::Tool("mdadm"),
        Capability::Tool("sfdisk"),
        Capability::Tool("mkfs.ext4"),
    ];
    kernel_test("arrays", &needs, arrays)
}

fn setup(level: &str, members: u32) -> SetupSpec {
    let array = ArraySpec {
        level: level.to_owned(),
        layout: None,
        chunk: None,
        members: Some(members),
        order: Vec::new(),
        bitmap: None,
        metadata: None,
        data_offset: None,
        spares: 0,
        is_assumed_clean: true,
        state: ArrayState::Normal,
    };
    let devices = DISKS.iter().take(members as usize).map(|disk| (*disk).to_owned()).collect();
    SetupSpec { devices, array: Some(array), ..SetupSpec::default() }
}

fn in_state(level: &str, members: u32, state: ArrayState, is_assumed_clean: bool) -> SetupSpec {
    let mut spec = setup(level, members);
    if let Some(array) = &mut spec.array {
        array.state = state;
        array.is_assumed_clean = is_assumed_clean;
        array.bitmap = Some("internal".to_owned());
    }
    spec
}

fn with_ext4(mut spec: SetupSpec) -> SetupSpec {
    spec.filesystem = Some(FilesystemSpec {
        kind: "ext4".to_owned(),
        make_options: Vec::new(),
        is_aligned: true,
        mount_options: vec!["noatime".to_owned()],
        journal: None,
        is_lazy: false,
        fill_percent: None,
        ageing_rounds: None,
        data_profile: None,
        metadata_profile: None,
        is_on_each: false,
    });
    spec
}

fn arrays() {
    let mut all = job("md-mod raid0 raid1 raid10 raid456");
    for _ in DISKS {
        all = all.disk(32 << 20);
    }
    for (number, (level, layout, members, chunk, metadata, clean, _)) in SHAPES.iter().enumerate() {
        let mut spec = setup(level, *members);
        if let Some(array) = &mut spec.array {
            array.layout = layout.map(str::to_owned);
            array.chunk = chunk.map(str::to_owned);
            array.metadata = Some((*metadata).to_owned());
            array.is_assumed_clean = *clean;
        }
        all = look(all, &format!("shape{number}"), &spec, FACTS);
    }
    let mut spares = in_state("raid1", 2, ArrayState::Normal, true);
    spares.devices.push("/dev/ubdc".to_owned());
    if let Some(array) = &mut spares.array {
        array.spares = 1;
        array.order = vec![2, 0];
    }
    let slaves =
        "; for d in /sys/block/md*/md/dev-*; do echo SLOT $(basename $d) $(cat $d/slot); done";
    all = look(all, "spares", &spares, &format!("{FACTS}{slaves}"));
    all = look(all, "degraded", &in_state("raid5", 4, ArrayState::Degraded, true), FACTS);
    all = at_work(all);
    let mut filesystem = with_ext4(setup("raid5", 4));
    if let Some(array) = &mut filesystem.array {
        array.chunk = Some("64k".to_owned());
    }
    let dump = "dev=$(grep $1 /proc/mounts | cut -d\" \" -f1); dumpe2fs -h $dev 2>/dev/null | grep -i stri; echo x >$1/file; sync $1/file";
    all = look(all, "filesystem", &filesystem, dump);
    all = all.step(
        "refused",
        &format!("mkfs.ext4 -q /dev/ubdb; setup cycle $STATE {}", word(&setup("raid1", 2))),
    );
    all = all.setup("blank", "wipefs -aq /dev/ubdb");
    all = old_table(all);
    let kills = sample(6, 80);
    let mut killed = with_ext4(in_state("raid5", 3, ArrayState::Degraded, true));
    if let Some(array) = &mut killed.array {
        array.metadata = Some("1.0".to_owned());
    }
    all = all.step("kills", &format!("setup kills $STATE {} {kills}", word(&killed)));
    // The process dies; somebody stops the array and has it assembled under another name.
    let left = with_ext4(setup("raid10", 4));
    all = all.step(
        "left",
        &format!(
            "setup leave $STATE {} || true; umount $(grep $STATE /proc/mounts | cut -d' ' -f2); mdadm --stop --scan",
            word(&left)
        ),
    );
    all = all.step("renamed", "mdadm --assemble --run /dev/md7 /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd; setup undo $STATE");
    all = all.step("traces", "cat /proc/mdstat; for d in a b c d e; do wipefs /dev/ubd$d; done; find $STATE/work $STATE/changes");
    all = theirs(all, &left);
    // The power fails with a degraded array.
    all = all.step("left2", &format!("setup leave $STATE {} || true; sync", word(&killed)));
    all = all.power_cut("cut").setup("again", "load md-mod raid456");
    all = all.step(
        "booted",
        "mdadm --assemble --run --force /dev/md9 /dev/ubda /dev/ubdb; setup undo $STATE",
    );
    all = all.step("traces2", "cat /proc/mdstat; for d in a b c d e; do wipefs /dev/ubd$d; done; find $STATE/work $STATE/changes");
    let report = Guest::boot(all).and_then(Guest::wait).unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest arrays: {}", report.times());
    tell_failures(&report);
    judge(&report, kills);
}

/// Arrays that rebuild and check, so slowly that they cannot end while they are looked at.
fn at_work(mut all: GuestJob) -> GuestJob {
    let slow = "echo 100 >/proc/sys/dev/raid/speed_limit_min; echo 500 >/proc/sys/dev/raid/speed_limit_max";
    all = all.setup("slow", slow);
    all = look(all, "rebuilding", &in_state("raid6", 4, ArrayState::Rebuilding, true), FACTS);
    // A place of the data that mdadm would not choose, also on the member that is added again.
    let mut offset = in_state("raid1", 2, ArrayState::Rebuilding, true);
    if let Some(array) = &mut offset.array {
        array.data_offset = Some("3073k".to_owned());
    }
    all = look(all, "offset", &offset, &format!("{FACTS}{OFFSETS}"));
    let mut least = setup("raid5", 3);
    if let Some(array) = &mut least.array {
        array.data_offset = Some("12k".to_owned());
    }
    all = look(all, "least_offset", &least, &format!("{FACTS}{OFFSETS}"));
    all = look(all, "checking", &in_state("raid1", 2, ArrayState::Checking, true), FACTS);
    let fast = "echo 1000 >/proc/sys/dev/raid/speed_limit_min; echo 200000 >/proc/sys/dev/raid/speed_limit_max";
    all.setup("fast", fast)
}

/// Somebody's array once had a partition table, which shows when one like it is made of the same disks.
fn old_table(mut all: GuestJob) -> GuestJob {
    let three = "/dev/ubda /dev/ubdb /dev/ubdc";
    all = all.setup(
        "old",
        &format!(
            "cat >/run/old_data <<'END'
#!/bin/bash
if [ -e /run/turn ]; then rm /run/turn; label=dos; else touch /run/turn; label=gpt; fi
mdadm --create /dev/md9 --run --quiet --level=0 --metadata=1.2 --chunk=64 --homehost=any --raid-devices=3 {three} &&
printf \"label: $label\\nsize=8MiB\\n\" | sfdisk -q --wipe=never /dev/md9 && mdadm --stop --quiet /dev/md9 &&
mdadm --zero-superblock {three}
# The end of the last member is the end of the array.
for disk in {three}; do dd if=/dev/zero of=$disk bs=1M seek=31 count=1 status=none; done
END
             chmod +x /run/old_data; /run/old_data"
        ),
    );
    let prime = "/run/old_data";
    let mut old = setup("raid0", 3);
    if let Some(array) = &mut old.array {
        array.chunk = Some("64k".to_owned());
    }
    all = look(all, "old_table", &old, FACTS);
    // The process dies while the old table shows: it is told from what somebody has put there since, whose array stays.
    all = all.step(
        "old_kills",
        &format!(
            "setup kills_old $STATE {} {prime} 'before mdadm' 'after wiping old data'",
            word(&old)
        ),
    );
    for (number, point) in ["after mdadm", "before wiping old data"].iter().enumerate() {
        let goes_on = format!(
            "{prime}; setup die_at $STATE {} '{point}'; md=/dev/$(grep -o 'md2[0-9]*' /proc/mdstat); mkfs.ext4 -qF $md; sync
             sum() {{ cat {three} | md5sum; }}; a=$(sum); setup undo $STATE || true; b=$(sum); [ \"$a\" = \"$b\" ] && echo SAME
             dd if=/dev/zero of=$md bs=1M 2>/dev/null || true; setup undo $STATE",
            word(&old)
        );
        all = all.step(&format!("old_goes_on{number}"), &goes_on);
    }
    all
}

/// The process dies; somebody makes a filesystem of their own on the array.
fn theirs(mut all: GuestJob, left: &SetupSpec) -> GuestJob {
    all = all.step("left1", &format!("setup leave $STATE {} || true", word(left)));
    all = all.step(
        "theirs",
        "md=$(grep $STATE /proc/mounts | cut -d' ' -f1); umount $md; mkfs.ext4 -q $md; sum() { cat /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd | md5sum; }; \
         sync; a=$(sum); setup undo $STATE || true; b=$(sum); [ \"$a\" = \"$b\" ] && echo SAME; cat /sys/block/$(basename $md)/md/array_state; wipefs -aq $md",
    );
    all = all.step("theirs_gone", "setup undo $STATE");
    all
}

fn judge(report: &GuestReport, kills: usize) {
    for (number, shape) in SHAPES.iter().enumerate() {
        let step = ended(report, &format!("shape{number}"), 0);
        has(step, &format!("KERNEL {}\n", shape.6));
        has(step, "CLAIM true");
        if shape.0 != "raid0" {
            has(step, "STATE degraded=0 action=idle bitmap=none");
        }
    }
    let old = ended(report, "old_table", 0);
    for words in ["shows as partitions: forgotten", "wiped", "CLAIM true"] {
        has(old, words);
    }
    let old = old_shown(ended(report, "old_kills", 0));
    counted("kills in a guest while data of old shows on an array", old);
    for number in 0..2 {
        let step = ended(report, &format!("old_goes_on{number}"), 0);
        for words in ["SHOWN [\"", "ChangedBySomebody { found: \"", "ext4", "SAME"] {
            has(step, words);
        }
    }
    let spares = ended(report, "spares", 0);
    for slot in ["SLOT dev-ubdc 0", "SLOT dev-ubda 1", "SLOT dev-ubdb none"] {
        has(spares, slot);
    }
    has(ended(report, "degraded", 0), "STATE degraded=1 action=idle bitmap=+");
    has(ended(report, "rebuilding", 0), "STATE degraded=1 action=recover");
    has(ended(report, "checking", 0), "STATE degraded=0 action=check");
    let offset = ended(report, "offset", 0);
    for words in [
        "--data-offset=3073K",
        "OFFSETS 6146 6146\n",
        "FACT data begin 3073k into each member",
        "action=recover",
    ] {
        has(offset, words);
    }
    has(ended(report, "least_offset", 0), "OFFSETS 24 24 24\n");
    let filesystem = ended(report, "filesystem", 0);
    for words in [
        "RAID stride:              16",
        "RAID stripe width:        48",
        "FACT raid5 was assumed clean",
    ] {
        has(filesystem, words);
    }
    has(ended(report, "refused", 1), "ERROR Safety /dev/ubdb is not blank: ext4");
    let kills = killed(ended(report, "kills", 0), kills);
    counted("kills in a guest while arrays are built and taken down", kills);
    let theirs = ended(report, "theirs", 0);
    for words in ["ChangedBySomebody { found: \"ext4 on /dev/md", "SAME", "clean"] {
        has(theirs, words);
    }
    ended(report, "theirs_gone", 0);
    let renamed = ended(report, "renamed", 0);
    has(renamed, "NOTE mdadm --stop /dev/md7");
    has(ended(report, "booted", 0), "NOTE mdadm --stop /dev/md9");
    for step in ["traces", "traces2"] {
        let step = ended(report, step, 0);
        let left: Vec<&str> = step
            .stdout
            .lines()
            .filter(|l| {
                l.contains("DEVICE")
                    || l.contains(" : ") && l.starts_with("md")
                    || l.contains(driver::RUN)
            })
            .collect();
        assert_eq!(left, [] as [&str; 0], "{}", step.stdout);
    }
}
