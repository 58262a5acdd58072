//! LVM, dm-crypt, and equal slices of unlike disks.

use crate::{driver, ended, has, job, killed, look, old_shown, tell_failures, word};
use fathom_model::plan::setup::{
    ArraySpec, ArrayState, CryptSpec, FilesystemSpec, SetupSpec, SliceSpec, VolumeSpec,
};
use fathom_testkit::{
    Capability, Guest, GuestJob, GuestReport, Trial, counted, kernel_test, sample,
};

const TABLE: &str = "dmsetup table; dmsetup info -c --noheadings -o name; pvs --noheadings -o pv_name,pe_start --units k; echo END";

pub fn trial() -> Trial {
    let needs = [
        // The journal lies on the host: root in the guest does not believe what belongs to somebody else.
        Capability::Root,
        Capability::Uml,
        Capability::Tool("busybox"),
        Capability::Tool("modprobe"),
        Capability::Tool("mdadm"),
        Capability::Tool("pvcreate"),
        Capability::Tool("cryptsetup"),
        Capability::Tool("sfdisk"),
        Capability::Tool("mkfs.ext4"),
    ];
    kernel_test("volumes", &needs, volumes)
}

fn over(disks: &[&str]) -> SetupSpec {
    let devices = disks.iter().map(|disk| format!("/dev/ubd{disk}")).collect();
    SetupSpec { devices, ..SetupSpec::default() }
}

fn volume(kind: &str) -> VolumeSpec {
    VolumeSpec { kind: kind.to_owned(), stripe_size: None, size: None, data_alignment: None }
}

fn crypt(kind: &str) -> CryptSpec {
    CryptSpec {
        kind: kind.to_owned(),
        cipher: "aes-xts-plain64".to_owned(),
        sector_size: 4096,
        no_workqueues: true,
    }
}

fn raid(level: &str) -> ArraySpec {
    ArraySpec {
        level: level.to_owned(),
        layout: None,
        chunk: Some("64k".to_owned()),
        members: None,
        order: Vec::new(),
        bitmap: None,
        metadata: None,
        data_offset: None,
        spares: 0,
        is_assumed_clean: true,
        state: ArrayState::Normal,
    }
}

fn ext4() -> FilesystemSpec {
    FilesystemSpec {
        kind: "ext4".to_owned(),
        make_options: Vec::new(),
        is_aligned: true,
        mount_options: Vec::new(),
        journal: None,
        is_lazy: false,
        fill_percent: None,
        ageing_rounds: None,
        data_profile: None,
        metadata_profile: None,
        is_on_each: false,
    }
}

fn volumes() {
    let modules = "md-mod raid0 raid1 raid456 dm-mod dm-crypt";
    // The last is larger than the others.
    let mut all = job(modules).disk(48 << 20).disk(48 << 20).disk(48 << 20).disk(80 << 20);
    let linear = SetupSpec { volume: Some(volume("linear")), ..over(&["a", "b"]) };
    all = look(all, "linear", &linear, TABLE);
    let mut striped = SetupSpec { volume: Some(volume("striped")), ..over(&["a", "b", "c"]) };
    striped.volume.as_mut().unwrap().stripe_size = Some("128k".to_owned());
    striped.filesystem = Some(ext4());
    let dump = "dev=$(grep $1 /proc/mounts | cut -d\" \" -f1); dumpe2fs -h $dev 2>/dev/null | grep -i stri";
    all = look(all, "striped", &striped, &format!("{TABLE}; {dump}"));
    let mut on_array = SetupSpec {
        volume: Some(volume("linear")),
        array: Some(raid("raid5")),
        ..over(&["a", "b", "c"])
    };
    on_array.volume.as_mut().unwrap().data_alignment = Some("stride".to_owned());
    on_array.volume.as_mut().unwrap().size = Some("50%".to_owned());
    on_array.filesystem = Some(ext4());
    all = look(all, "on_array", &on_array, &format!("{TABLE}; {dump}"));
    let luks = SetupSpec { crypt: Some(crypt("luks2")), filesystem: Some(ext4()), ..over(&["a"]) };
    all = look(all, "luks", &luks, TABLE);
    let plain = SetupSpec { crypt: Some(crypt("plain")), ..over(&["a"]) };
    all = look(all, "plain", &plain, TABLE);
    let mut sliced = SetupSpec { array: Some(raid("raid0")), ..over(&["a", "d"]) };
    sliced.slice = Some(SliceSpec { start: "2m".to_owned(), size: None });
    all = look(all, "sliced", &sliced, "cat /proc/partitions; cat /sys/block/md*/size");
    all = all.step("planned", &format!("setup check $STATE {}", word(&sliced)));
    let kills = sample(4, 80);
    let mut killed = SetupSpec {
        crypt: Some(crypt("luks2")),
        volume: Some(volume("linear")),
        ..over(&["a", "b"])
    };
    killed.slice = Some(SliceSpec { start: "1m".to_owned(), size: None });
    killed.filesystem = Some(ext4());
    all = all.step("kills", &format!("setup kills $STATE {} {kills}", word(&killed)));
    all = old_data(all);
    // The process dies; somebody makes a filesystem on our volume, or a volume of their own in our group.
    let small = SetupSpec {
        volume: Some(VolumeSpec { size: Some("50%".to_owned()), ..volume("linear") }),
        ..over(&["a", "b"])
    };
    let sum =
        "sum() { cat /dev/ubda /dev/ubdb | md5sum; }; LV=/dev/mapper/fathom--testrun00000-data";
    all = all.step("left1", &format!("setup leave $STATE {} || true; sync", word(&small)));
    all = all.step(
        "theirs",
        &format!("{sum}; mkfs.ext4 -q $LV; sync; a=$(sum); setup undo $STATE || true; b=$(sum); [ \"$a\" = \"$b\" ] && echo SAME"),
    );
    all = all.step(
        "theirs_inactive",
        "lvchange -an fathom-testrun00000; setup undo $STATE || true; lvchange -ay fathom-testrun00000; wipefs /dev/mapper/fathom--testrun00000-data",
    );
    all = all.step(
        "theirs_beside",
        "wipefs -aq /dev/mapper/fathom--testrun00000-data; lvcreate -qy -n theirs -L 8m -Zn -Wn fathom-testrun00000; setup undo $STATE || true; lvs --noheadings -o lv_full_name",
    );
    all = all.step("theirs_gone", "lvremove -qy fathom-testrun00000/theirs; setup undo $STATE");
    // The power fails; afterwards the volume is not active, and encryption is not open.
    let left = SetupSpec { filesystem: Some(ext4()), ..linear };
    all = all.step("left", &format!("setup leave $STATE {} || true; sync", word(&left)));
    all = all.power_cut("cut").setup("again", &format!("load {modules}"));
    all = all.step("booted", "setup undo $STATE");
    all = all.step("traces", "dmsetup ls; for d in a b c d; do wipefs /dev/ubd$d; done; find $STATE/work $STATE/changes; cat /proc/partitions");
    let report = Guest::boot(all).and_then(Guest::wait).unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest volumes: {}", report.times());
    tell_failures(&report);
    judge(&report, kills);
}

/// What a volume of somebody's held shows on ours, and the process dies before that is wiped.
fn old_data(mut all: GuestJob) -> GuestJob {
    all = all.setup(
        "old",
        "cat >/run/old_data <<'END'
#!/bin/bash
{ pvcreate -y /dev/ubda /dev/ubdb && vgcreate old /dev/ubda /dev/ubdb && lvcreate -y -n old -l 100%VG -Wn -Zn old &&
mkfs.ext4 -qF /dev/mapper/old-old && vgremove -yf old && pvremove -y /dev/ubda /dev/ubdb; } >/dev/null
END
         chmod +x /run/old_data",
    );
    let again = SetupSpec { volume: Some(volume("linear")), ..over(&["a", "b"]) };
    let ends = "'before lvm' 'after wiping old data'";
    let kills_old = format!("setup kills_old $STATE {} /run/old_data {ends}", word(&again));
    all.step("old_kills", &kills_old)
}

fn judge(report: &GuestReport, kills: usize) {
    let linear = ended(report, "linear", 0);
    has(linear, "linear 98:");
    has(linear, &format!("fathom--{}-data", driver::RUN));
    has(linear, "CLAIM true");
    let striped = ended(report, "striped", 0);
    for words in ["striped 3 256 ", "RAID stride:              32", "RAID stripe width:        96"]
    {
        has(striped, words);
    }
    let on_array = ended(report, "on_array", 0);
    for words in
        ["RAID stride:              16", "RAID stripe width:        32", "--dataalignment=128k"]
    {
        has(on_array, words);
    }
    for step in ["luks", "plain"] {
        let step = ended(report, step, 0);
        has(step, "crypt aes-xts-plain64");
        for words in ["sector_size:4096", "no_read_workqueue", "no_write_workqueue"] {
            has(step, words);
        }
    }
    let sliced = ended(report, "sliced", 0);
    // 45 MiB of either disk, whatever its size.
    for name in ["46080 ubda1", "46080 ubdd1"] {
        has(sliced, name);
    }
    let planned = ended(report, "planned", 0);
    has(planned, "wasted_bytes: 36700160");
    let kills = killed(ended(report, "kills", 0), kills);
    counted("kills in a guest while volumes and encryption are built and taken down", kills);
    let old = old_shown(ended(report, "old_kills", 0));
    counted("kills in a guest while data of old shows on a volume", old);
    for (step, words) in [
        ("theirs", "ChangedBySomebody { found: \"ext4 on /dev/dm-"),
        ("theirs", "SAME"),
        ("theirs_inactive", "ChangedBySomebody { found: \"ext4 on /dev/dm-"),
        ("theirs_inactive", "ext4"),
        ("theirs_beside", "ChangedBySomebody { found: \"logical volume fathom-testrun00000/theirs"),
        ("theirs_beside", "  fathom-testrun00000/theirs"),
    ] {
        let step = report.step(step);
        has(step, words);
    }
    ended(report, "theirs_gone", 0);
    ended(report, "booted", 0);
    let traces = ended(report, "traces", 0);
    let left: Vec<&str> = traces
        .stdout
        .lines()
        .filter(|line| {
            line.contains("DEVICE")
                || line.contains("fathom")
                || line.contains(driver::RUN)
                || line.contains("ubda1")
        })
        .collect();
    assert_eq!(left, [] as [&str; 0], "{}", traces.stdout);
}
