//! Where things begin on disks and arrays, what filesystems know of these, and that the advice of each finding cures it.

use super::look;
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

/// Every rule about geometry that something made well must not provoke.
const TROUBLE: &[&str] = &[
    "misaligned",
    "stripe-misaligned",
    "lvm-extent-off-stripe",
    "ext4-stripe-geometry",
    "xfs-stripe-geometry",
    "made-before-reshape",
    "fs-block-below-physical",
    "filesystem-larger-than-device",
    "superblock-damaged",
    "io-hints-lost",
    "io-hints-differ",
    "crypt-sector-512",
];

pub fn trials() -> Vec<Trial> {
    let tools = &["mdadm", "lvcreate", "dmsetup", "sfdisk", "mkfs.ext4", "mkfs.xfs", "tune2fs"];
    let arrays = Family::new("check_geometry", tools, job)
        .test("a_partition_inside_a_stripe", |report| {
            let look = look(report, "geo_partition");
            look.has(&["stripe-misaligned /dev/md5p1"]);
            let text = look.defect("stripe-misaligned").to_string();
            contains(
                &text,
                &["64 KiB behind the full stripes of 192 KiB of md5", "mkpart primary 3145728B"],
            );
        })
        .test("a_physical_volume_inside_a_stripe", |report| {
            let look = look(report, "geo_volume");
            look.has(&["stripe-misaligned /dev/md5"]);
            contains(
                &look.defect("stripe-misaligned").to_string(),
                &["pvcreate --dataalignment 3072k /dev/md5"],
            );
        })
        .test("extents_that_do_not_fill_stripes", |report| {
            let look = look(report, "geo_extents");
            look.has(&["lvm-extent-off-stripe /dev/md5"]).lacks(&["stripe-misaligned"]);
            let text = look.defect("lvm-extent-off-stripe").to_string();
            contains(&text, &["vg0-second begin inside one"]);
        })
        .test("what_the_tools_choose_themselves_is_right", |report| {
            for step in ["geo_ext4_default", "geo_xfs_default", "geo_far", "geo_odd"] {
                look(report, step).lacks(TROUBLE);
            }
        })
        .test("ext4_that_was_told_something_else", ext4)
        .test("xfs_that_was_told_something_else", xfs)
        .test("an_array_that_grew", grown)
        .test("small_sectors", small)
        .test("requests_that_a_chunk_cuts", requests)
        .test("chunks_that_drives_read_past", |report| {
            look(report, "geo_chunk").has(&["chunk-small /dev/md8"]);
        })
        .test("every_step_of_the_calculation", steps);
    let compensated = Family::new("check_compensated", &["sfdisk"], job_compensated)
        .test("sector_63_of_a_compensated_drive", sector_63);
    [arrays.into_trials(), compensated.into_trials()].into_iter().flatten().collect()
}

const DISKS: &str = "
load md-mod raid0 raid10 raid456 sd_mod dm-mod dm-crypt xts aes_ti ecb ext4 xfs
load_with scsi_debug dev_size_mb=160 physblk_exp=3 opt_blks=0 add_host=4 per_host_store=1 delay=0
wait_for /dev/sd{a,b,c,d}
mkdir -p mnt
create() { mdadm --create $1 --run --assume-clean --bitmap=none --chunk=64 $2 >&2; }
declare -f create >functions
";

const PARTITION: &str = "
. ./functions
create /dev/md5 '--level=5 --raid-devices=4 /dev/sda /dev/sdb /dev/sdc /dev/sdd'
printf 'start=2048, size=204800\\n' | sfdisk --quiet /dev/md5
wait_for /dev/md5p1
glance
{ sfdisk --quiet --delete /dev/md5 || true; wipefs -qaf /dev/md5; } >&2
";

const VOLUME: &str = "
pvcreate --dataalignment 1m /dev/md5 >&2
glance
pvremove /dev/md5 >&2
";

/// As advised; the second volume begins 7 MiB into the array.
const EXTENTS: &str = "
pvcreate --dataalignment 3072k /dev/md5 >&2
vgcreate vg0 /dev/md5 >&2
lvcreate -Wn -Zn -l 1 -n first vg0 >&2
lvcreate -Wn -Zn -l 3 -n second vg0 >&2
echo === alignment
fathom --quiet check --alignment /dev/vg0/second
glance
vgremove -f vg0 >&2
pvremove /dev/md5 >&2
";

const EXT4_DEFAULT: &str = "
mkfs.ext4 -q -b 4096 -E nodiscard /dev/md5
mount /dev/md5 mnt
glance
umount mnt
";

const EXT4: &str = "
mkfs.ext4 -q -b 4096 -E nodiscard,stride=4,stripe_width=8 /dev/md5
mount /dev/md5 mnt
glance
";

/// As advised.
const EXT4_CURED: &str = "
tune2fs -E stride=16,stripe_width=48 /dev/md5 >&2
umount mnt
mount /dev/md5 mnt
glance
umount mnt
";

/// On larger disks: XFS wants room.
const XFS_DEFAULT: &str = "
. ./functions
create /dev/md9 '--level=5 --raid-devices=3 /dev/ubda /dev/ubdb /dev/ubdc'
mkfs.xfs -q -f -K /dev/md9
mount /dev/md9 mnt
glance
umount mnt
";

const XFS: &str = "
mkfs.xfs -q -f -K -d su=32k,sw=3 /dev/md9 2>/dev/null
mount /dev/md9 mnt
glance
umount mnt
";

const XFS_WIDTH: &str = "
mkfs.xfs -q -f -K -d su=64k,sw=3 /dev/md9 2>/dev/null
mount /dev/md9 mnt
glance
umount mnt
";

/// As advised, in sectors of 512 bytes.
const XFS_CURED: &str = "
mount -o sunit=128,swidth=256 /dev/md9 mnt
glance
umount mnt
mdadm --stop /dev/md9 >&2
for disk in /dev/ubd[abc]; do mdadm --zero-superblock $disk; wipefs -qaf $disk; done
";

/// Both mkfs on layouts whose stripe is not the usual quotient; then the array goes.
const FAR: &str = "
. ./functions
mdadm --stop /dev/md5 >&2
for disk in /dev/sd[abcd]; do mdadm --zero-superblock $disk; done
create /dev/md6 '--level=10 --layout=f2 --raid-devices=4 /dev/sda /dev/sdb /dev/sdc /dev/sdd'
mkfs.ext4 -q -b 4096 -E nodiscard /dev/md6
mount /dev/md6 mnt
glance
umount mnt
mdadm --stop /dev/md6 >&2
";

const ODD: &str = "
. ./functions
for disk in /dev/sd[abcd]; do mdadm --zero-superblock $disk; done
create /dev/md6 '--level=10 --layout=n2 --raid-devices=3 /dev/sda /dev/sdb /dev/sdc'
mkfs.ext4 -q -F -b 4096 -E nodiscard /dev/md6
mount /dev/md6 mnt
glance
umount mnt
mdadm --stop /dev/md6 >&2
for disk in /dev/sd[abcd]; do mdadm --zero-superblock $disk || true; done
";

/// A volume that stays active while the array below it is reshaped.
const GROWN: &str = "
. ./functions
create /dev/md7 '--level=5 --raid-devices=3 --size=32M /dev/sda /dev/sdb /dev/sdc'
dmsetup create volume --table \"0 $(blockdev --getsz /dev/md7) linear /dev/md7 0\"
mkfs.ext4 -q -b 4096 -E nodiscard /dev/mapper/volume
mount /dev/mapper/volume mnt
mdadm --add /dev/md7 /dev/sdd >&2
mdadm --grow /dev/md7 --raid-devices=4 --backup-file=/run/backup >&2
mdadm --wait /dev/md7 >&2 || true
glance
umount mnt
dmsetup remove volume
mdadm --stop /dev/md7 >&2
for disk in /dev/sd[abcd]; do mdadm --zero-superblock $disk; wipefs -qa $disk; done
";

/// XFS with small sectors on a volume that begins on a disk with larger ones, and encryption with small sectors.
const SMALL: &str = r#"
dmsetup create large <<TABLE
0 163840 linear /dev/sda 0
163840 4030464 linear /dev/ubda 0
TABLE
mkfs.xfs -q -f -K -s size=512 /dev/mapper/large
key=$(printf '0%.0s' {1..128})
dmsetup create small --table "0 65536 crypt aes-xts-plain64 $key 0 /dev/sdb 0"
glance
dmsetup remove small
dmsetup remove large
wipefs -qaf /dev/sda
"#;

const REQUESTS: &str = "
. ./functions
wipefs -qaf /dev/ubda /dev/ubdb
mdadm --create /dev/md8 --run --chunk=64 --level=0 --raid-devices=2 /dev/ubda /dev/ubdb >&2
mkfs.ext4 -q -F -b 4096 -E nodiscard /dev/md8
mount /dev/md8 mnt
fathom --quiet run randread mnt size=16M duration=1s block_size=256k >/dev/null 2>&1 || true
glance
umount mnt
mdadm --stop /dev/md8 >&2
";

/// Chunks of 8 KiB on disks that rotate. The driver says at each first open that its disk does not: the array has to hold them.
const CHUNK: &str = "
for disk in ubda ubdb; do mdadm --zero-superblock /dev/$disk; done
mdadm --create /dev/md8 --run --chunk=8 --level=0 --raid-devices=2 /dev/ubda /dev/ubdb >&2
wipefs -qaf /dev/md8
for disk in ubda ubdb; do echo 1 >/sys/block/$disk/queue/rotational; done
glance
mdadm --stop /dev/md8 >&2
";

fn job(job: GuestJob) -> GuestJob {
    (0..3)
        .fold(super::job(job), |job, _| job.disk(3 << 30))
        .limit(Duration::from_secs(400))
        .memory_mib(1536)
        .setup("disks", DISKS)
        .step("geo_partition", PARTITION)
        .step("geo_volume", VOLUME)
        .step("geo_extents", EXTENTS)
        .step("geo_ext4_default", EXT4_DEFAULT)
        .step("geo_ext4", EXT4)
        .step("geo_ext4_cured", EXT4_CURED)
        .step("geo_xfs_default", XFS_DEFAULT)
        .step("geo_xfs", XFS)
        .step("geo_xfs_width", XFS_WIDTH)
        .step("geo_xfs_cured", XFS_CURED)
        .step("geo_far", FAR)
        .step("geo_odd", ODD)
        .step("geo_grown", GROWN)
        .step("geo_small", SMALL)
        .step("geo_requests", REQUESTS)
        .step("geo_chunk", CHUNK)
}

fn grown(report: &GuestReport) {
    let look = look(report, "geo_grown");
    let reshaped = look.defect("made-before-reshape").to_string();
    contains(&reshaped, &["was made for 2 data disks; md7 has 3"]);
    let lost = look.defect("io-hints-lost").to_string();
    contains(&lost, &["says 128 KiB for its stripe; md7 below says 192 KiB"]);
}

fn small(report: &GuestReport) {
    let found = look(report, "geo_small").found();
    for rule in ["fs-block-below-physical ", "crypt-sector-512 "] {
        assert!(found.iter().any(|found| found.starts_with(rule)), "{rule}: {found:#?}");
    }
}

fn requests(report: &GuestReport) {
    let text = look(report, "geo_requests").defect("chunk-below-requests").to_string();
    contains(&text, &["100 % of the random requests", "chunk of 256 KiB"]);
}

fn sector_63(report: &GuestReport) {
    look(report, "geo_63").lacks(TROUBLE);
    let look = look(report, "geo_2048");
    look.has(&["misaligned /dev/sda1"]);
    let text = look.defect("misaligned").to_string();
    contains(&text, &["512 B behind", "mkpart primary 1052160B"]);
}

fn ext4(report: &GuestReport) {
    let wrong = look(report, "geo_ext4");
    let text = wrong.defect("ext4-stripe-geometry").to_string();
    contains(
        &text,
        &[
            "knows a chunk of 16 KiB and a stripe of 32 KiB",
            "tune2fs -E stride=16,stripe_width=48 /dev/md5",
        ],
    );
    look(report, "geo_ext4_cured").lacks(TROUBLE);
}

fn xfs(report: &GuestReport) {
    let wrong = look(report, "geo_xfs");
    let text = wrong.defect("xfs-stripe-geometry").to_string();
    contains(&text, &["knows a chunk of 32 KiB and a stripe of 96 KiB", "su=64k,sw=2 /dev/EMPTY"]);
    let wrong = look(report, "geo_xfs_width");
    let text = wrong.defect("made-before-reshape").to_string();
    contains(&text, &["was made for 3 data disks", "mount -o sunit=128,swidth=256 /dev/md9"]);
    look(report, "geo_xfs_cured").lacks(TROUBLE);
}

/// The volume lies 7 MiB into the array: 7168 KiB modulo 192 KiB leaves 64 KiB.
fn steps(report: &GuestReport) {
    let look = look(report, "geo_extents");
    let text = look.tool("alignment");
    contains(
        text,
        &[
            "the start lies at byte 7340032",
            "full stripe, modulo 196608 B: remainder 65536, MISALIGNED",
            "physical block, modulo 4096 B: remainder 0, aligned",
            "verdict: MISALIGNED",
        ],
    );
}

/// A drive that moves its sectors so that sector 63 is a good start.
fn job_compensated(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(120))
        .setup("disk", "load sd_mod; load_with scsi_debug dev_size_mb=128 physblk_exp=3 lowest_aligned=7 delay=0; wait_for /dev/sda")
        .step("geo_63", "printf 'start=63, size=204800\\n' | sfdisk --quiet /dev/sda; wait_for /dev/sda1; glance")
        .step("geo_2048", "printf 'start=2048, size=204800\\n' | sfdisk --quiet --wipe always /dev/sda; wait_for /dev/sda1; glance")
}
