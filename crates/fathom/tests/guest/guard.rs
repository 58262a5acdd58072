//! What must never be overwritten, tried with the right consent given, so that only the guard stands between; and the same
//! command on blank devices, which must write.

use crate::family::{Family, contains, ended};
use fathom_testkit::{GuestJob, GuestReport, Trial};

/// Disks in memory, and on them:
/// a, b: an array, on it a volume group with a mounted, a swap and a blank volume;
/// c: a volume group with an active volume; d: one without volumes; e: LUKS, open;
/// f, g: arrays that were stopped; h, i, j: a blank raid5; k: nothing;
/// l: opened by the kernel's SCSI target; m: opened by it without holding it.
const STORAGE: &str = r#"
load sd_mod raid1 raid456 dm-mod dm-crypt xts configfs target_core_mod target_core_iblock target_core_file
load_with scsi_debug dev_size_mb=40 add_host=13 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c,d,e,f,g,h,i,j,k,l,m}
mdadm --create /dev/md0 --run --level=1 --raid-devices=2 --assume-clean /dev/sda /dev/sdb
pvcreate /dev/md0 /dev/sdc /dev/sdd
vgcreate vg0 /dev/md0
vgcreate vg1 /dev/sdc
vgcreate vg2 /dev/sdd
for name in mnt swap blank; do lvcreate -Wn -Zn -L 8M -n $name vg0; done
lvcreate -Wn -Zn -L 8M -n idle vg1
mkfs.ext4 -q -E lazy_itable_init=0 /dev/vg0/mnt
mkdir mnt
mount /dev/vg0/mnt mnt
mkswap /dev/vg0/swap
swapon /dev/vg0/swap
echo secret | cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/sde -
echo secret | cryptsetup open --key-file - /dev/sde opened
mdadm --create /dev/md2 --run --level=5 --chunk=64 --raid-devices=3 --assume-clean --bitmap=none /dev/sd[hij]
mount -t configfs configfs /sys/kernel/config
export=/sys/kernel/config/target/core/iblock_1/disk
mkdir -p $export
echo udev_path=/dev/sdl >$export/control
echo 1 >$export/enable
export=/sys/kernel/config/target/core/fileio_2/disk
mkdir -p $export
echo fd_dev_name=/dev/sdm >$export/control
echo 1 >$export/enable
fsfreeze -f mnt
# An array notes in its superblocks that it is clean, some time after the last write.
for array in md0 md2; do
    for _ in {1..100}; do
        read -r state </sys/block/$array/md/array_state
        case $state in *active*) sleep 0.1 ;; *) break ;; esac
    done
done
sleep 1
"#;

pub fn trials() -> Vec<Trial> {
    let tools = ["mdadm", "lvcreate", "cryptsetup", "mkswap", "fsfreeze"];
    let family = Family::new("guard", &tools, job)
        .test("consent_is_asked_for_by_the_right_identifier", consent)
        .test("blank_devices_with_consent_are_written", blank)
        .test("a_wiped_member_is_blank", wiped)
        .test("raid5_has_a_thread_that_works", array_thread)
        .test("a_bad_sector_ends_the_run_and_is_named", bad_sector);
    REFUSED
        .iter()
        .fold(family, |family, case| family.test(case.name, move |report| refused(report, case)))
        .into_trials()
}

/// A device in use or not blank.
struct Case {
    name: &'static str,
    /// What has to be done just before.
    before: &'static str,
    device: &'static str,
    /// The command that prints the identifier of the device.
    id: &'static str,
    /// What the refusal says.
    why: &'static str,
}

const fn case(
    name: &'static str,
    device: &'static str,
    id: &'static str,
    why: &'static str,
) -> Case {
    Case { name, before: "", device, id, why }
}

/// A member of an array that `before` makes and stops.
const fn stopped(name: &'static str, before: &'static str, why: &'static str) -> Case {
    Case { name, before, device: "/dev/sdf", id: "wwn sdf", why }
}

const REFUSED: &[Case] = &[
    case(
        "member_of_an_array_with_a_mounted_volume",
        "/dev/sda",
        "wwn sda",
        "is mounted on /run/mnt",
    ),
    case("array_with_a_mounted_volume", "/dev/md0", "md md0", "is mounted on /run/mnt"),
    case("mounted_volume", "/dev/vg0/mnt", "dm vg0-mnt", "is mounted on /run/mnt"),
    case("mounted_volume_by_its_node", "/dev/dm-0", "dm vg0-mnt", "is mounted on /run/mnt"),
    case("swap_on_a_volume", "/dev/vg0/swap", "dm vg0-swap", "is a swap area"),
    case("disk_of_an_active_volume", "/dev/sdc", "wwn sdc", "/dev/sdc is part of /dev/dm-"),
    case("physical_volume_without_volumes", "/dev/sdd", "wwn sdd", "LVM2 PV"),
    case("disk_under_an_open_crypt", "/dev/sde", "wwn sde", "/dev/sde is part of /dev/dm-"),
    case("member_of_a_blank_array", "/dev/sdh", "wwn sdh", "/dev/sdh is part of /dev/md2"),
    case("disk_exported_by_the_kernel", "/dev/sdl", "wwn sdl", "is held exclusively"),
    case("disk_served_without_hold", "/dev/sdm", "wwn sdm", "serves /dev/sdm to other machines"),
    stopped("stopped_0_90", "stopped_array 0.90", "md 0.90"),
    stopped("stopped_1_0", "stopped_array 1.0", "md 1.0"),
    stopped("stopped_1_1", "stopped_array 1.1", "md 1.1"),
    stopped("stopped_ddf", "stopped_array ddf", "DDF"),
    stopped("stopped_1_2", "stopped_array 1.2", "md 1.2"),
    Case {
        name: "member_of_an_array_that_did_not_start",
        before: "mdadm --incremental /dev/sdf",
        device: "/dev/sdf",
        id: "wwn sdf",
        why: "/dev/sdf is part of /dev/md",
    },
];

/// Blank devices: a name, the device, the command that prints its identifier, and how that begins.
const BLANK: &[(&str, &str, &str, &str)] = &[
    ("disk", "/dev/sdk", "wwn sdk", "naa.3333"),
    ("volume", "/dev/vg0/blank", "dm vg0-blank", "LVM-"),
    ("array", "/dev/md2", "md md2", ""),
    ("crypt", "/dev/mapper/opened", "dm opened", "CRYPT-LUKS2-"),
];

/// Makes an array on f and g in a metadata format, and stops it.
const STOPPED_ARRAY: &str = r#"
stopped_array() {
    mdadm --zero-superblock /dev/sdf /dev/sdg || true
    mdadm --create /dev/md1 --run --metadata=$1 --level=$([ $1 = ddf ] && echo container || echo 1) \
        --raid-devices=2 $([ $1 = ddf ] || echo --assume-clean) /dev/sdf /dev/sdg
    mdadm --stop /dev/md1
}
"#;

/// Superblocks of version 0.90 hold the UUID as four numbers. The copies must agree: reads come from either.
const OLD_ARRAY: &str = "
for disk in sdf sdg; do dd if=/dev/zero of=/dev/$disk bs=1M count=40 oflag=direct status=none; done
mdadm --create /dev/md3 --run --metadata=0.90 --level=1 --raid-devices=2 --assume-clean /dev/sdf /dev/sdg
";

/// From the second MiB on, eight sectors cannot be read.
const BAD_SECTOR: &str = "
echo 2048 >/sys/module/scsi_debug/parameters/medium_error_start
echo 8 >/sys/module/scsi_debug/parameters/medium_error_count
echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
";

/// Gives back what blank devices need: an array that did not start, a frozen file system.
const THAW: &str = "
fsfreeze -u mnt
for array in $(grep -l inactive /sys/block/md*/md/array_state | cut -d/ -f4); do mdadm --stop /dev/$array; done
";

fn job(job: GuestJob) -> GuestJob {
    let mut job = job.memory_mib(1024).prelude(STOPPED_ARRAY).setup("storage", STORAGE);
    for case in REFUSED {
        let Case { name, before, device, id, .. } = case;
        let script = format!("{before} >&2\nattempt {device} --destroy=$({id})");
        job = job.step(name, &script);
    }
    job = job.setup("thaw", THAW);
    for (name, device, id, _) in BLANK {
        job = job
            .setup(&format!("{name}_id"), id)
            .step(&format!("{name}_without"), &format!("attempt {device}"))
            .step(&format!("{name}_written"), &format!("attempt {device} --destroy=$({id})"));
    }
    job.step("wrong", "attempt /dev/sdk --destroy=$(wwn sda)")
        .step("array_by_sysfs", "attempt /dev/md2 --destroy=$(cat /sys/block/md2/md/uuid)")
        .step("wiped_before", "attempt /dev/sdf --destroy=$(wwn sdf)")
        .setup("wipe", "mdadm --zero-superblock /dev/sdf")
        .step("wiped", "attempt /dev/sdf --destroy=$(wwn sdf)")
        .setup("old_array", OLD_ARRAY)
        .setup("old_array_id", "md md3")
        .step("old_array_without", "attempt /dev/md3")
        .step("old_array_written", "attempt /dev/md3 --destroy=$(md md3)")
        .setup("break", BAD_SECTOR)
        .step("broken", "fathom run seqread /dev/sdk block_size=64k depth=1")
}

#[track_caller]
fn stays(report: &GuestReport, step: &str, why: &[&str]) {
    let step = ended(report, step, 3);
    contains(&step.stderr, why);
    assert_eq!(step.stdout.trim(), "UNCHANGED", "{}", step.said());
}

#[track_caller]
fn is_written(report: &GuestReport, step: &str) {
    // A device so small is doubtful.
    let step = ended(report, step, 1);
    contains(&step.stderr, &["DESTROYS everything on"]);
    assert!(step.stdout.trim_end().ends_with("CHANGED") && !step.stdout.contains("UNCHANGED"));
}

fn refused(report: &GuestReport, case: &Case) {
    stays(report, case.name, &["fathom: ", case.why]);
}

fn consent(report: &GuestReport) {
    for (name, _, _, prefix) in BLANK {
        let id = ended(report, &format!("{name}_id"), 0).stdout.trim();
        assert!(id.starts_with(prefix) && id.len() > 15, "{name}: {id}");
        let wanted = format!("add exactly: --destroy={id}\n");
        stays(report, &format!("{name}_without"), &["would be overwritten", &wanted]);
    }
    let id = ended(report, "old_array_id", 0).stdout.trim();
    stays(report, "old_array_without", &[&format!("add exactly: --destroy={id}\n")]);
    let groups: Vec<usize> = id.split(':').map(str::len).collect();
    assert_eq!(groups, [8, 8, 8, 8], "as mdadm shows it: {id}");
    stays(report, "wrong", &["what was consented to is another device: naa.3333"]);
}

fn blank(report: &GuestReport) {
    for (name, ..) in BLANK {
        is_written(report, &format!("{name}_written"));
    }
    is_written(report, "array_by_sysfs");
    is_written(report, "old_array_written");
}

fn wiped(report: &GuestReport) {
    stays(report, "wiped_before", &["md 1.2"]);
    is_written(report, "wiped");
}

fn array_thread(report: &GuestReport) {
    let text = &ended(report, "array_written", 1).stdout;
    let share = text.split("md2  its kernel thread used ").nth(1).expect(text);
    let percent: f64 = share.split(' ').next().unwrap_or_default().parse().expect(share);
    assert!(percent > 0.0, "{share}");
}

fn bad_sector(report: &GuestReport) {
    let step = ended(report, "broken", 5);
    contains(&step.said(), &["/dev/sdk: read of 65536 bytes at offset 1048576", "dmesg"]);
}
