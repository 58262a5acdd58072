//! Disks of all sector sizes, partitions that miss them, and filesystems with options that cost.

use super::{agree, look};
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let large = Family::new("check_4kn", &["sfdisk", "mkfs.xfs", "lsblk"], job_4kn)
        .test("a_disk_of_4096_byte_sectors", |report| {
            let look = look(report, "disk_4kn");
            agree::with_all(&look);
            let queue = &look.node("sda")["queue"];
            assert_eq!(
                (queue["logical_block_bytes"].as_u64(), queue["physical_block_bytes"].as_u64()),
                (Some(4096), Some(4096))
            );
        })
        .test("xfs_has_the_geometry_that_xfs_info_shows", xfs_info)
        .test("xfs_has_its_realtime_section_below_it", realtime);
    let emulated = Family::new("check_512e", &["sfdisk", "mkfs.ext4", "lsblk"], job_512e)
        .test("partitions_that_miss_and_that_meet", misaligned)
        .test("options_that_cost", options)
        .test("space_and_inodes", |report| {
            let look = look(report, "fs_full");
            agree::with_all(&look);
            contains(&look.defect("filesystem-full").to_string(), &["/run/full is 9"]);
            contains(&look.defect("inodes-low").to_string(), &["/run/few has only"]);
        })
        .test("what_is_not_mounted", |report| {
            let look = look(report, "unmounted");
            look.has(&["filesystem-unclean /dev/sda1", "filesystem-check-due /dev/sda2"]);
            contains(&look.defect("filesystem-unclean").to_string(), &["\"mount it once"]);
        })
        .test("what_a_process_has_open_is_in_use", |report| {
            let look = look(report, "unmounted_held");
            look.lacks(&["filesystem-unclean"]).has(&["filesystem-check-due /dev/sda2"]);
        })
        .test("a_journal_on_the_same_disk", |report| {
            let look = look(report, "journal");
            contains(&look.defect("journal-same-spindle").to_string(), &["on the same disk sda"]);
        })
        .test("errors_that_were_counted", |report| {
            let look = look(report, "fs_errors");
            contains(&look.defect("filesystem-errors").to_string(), &["has counted 1 error"]);
            contains(
                &look.defect("remounted-read-only").to_string(),
                &["ext4 at /run/stops is read-only"],
            );
        })
        .test("lazy_initialisation", |report| {
            let look = look(report, "lazy");
            contains(&look.defect("ext4-lazy-init").to_string(), &["block groups are left"]);
        });
    [large.into_trials(), emulated.into_trials()].into_iter().flatten().collect()
}

/// XFS wants more space than a disk in memory has: a loop device of such sectors over a sparse disk.
const DISK_4KN: &str = "
load_with scsi_debug dev_size_mb=64 sector_size=4096 delay=0
wait_for /dev/sda
printf 'start=256\\n' | sfdisk --quiet /dev/sda
wait_for /dev/sda1
mkfs.ext4 -q -E nodiscard /dev/sda1
mkdir mnt small
mount /dev/sda1 small
losetup --sector-size 4096 --direct-io=on /dev/loop0 /dev/ubda
mkfs.xfs -q -K -d su=64k,sw=2 /dev/loop0
mount /dev/loop0 mnt
echo === xfs_info
xfs_info mnt
look
";

/// Files of XFS on another device than its tables.
const REALTIME: &str = "
umount mnt small
wipefs -qa /dev/sda1
mkfs.xfs -q -f -K -r rtdev=/dev/sda1 /dev/loop0
mount -o rtdev=/dev/sda1 /dev/loop0 mnt
echo === tree
fathom --quiet check mnt
glance
umount mnt
";

/// It is drawn below its filesystem, is none that nothing stands on, and its disk is one of the filesystem's.
fn realtime(report: &GuestReport) {
    let look = look(report, "realtime");
    let tree = look.tool("tree");
    let line = tree.lines().find(|line| line.contains("its realtime section"));
    contains(line.unwrap_or(tree), &["sda1"]);
    assert!(tree.lines().any(|line| line.trim_start().starts_with("sda ")), "{tree}");
    let tops = look.result["snapshot"]["machine"]["tops"].as_array().expect("tops");
    let index = look.nodes().iter().position(|node| node["name"] == "sda1").expect("sda1");
    assert!(!tops.iter().any(|top| top.as_u64() == Some(index as u64)), "{tops:?}");
}

fn job_4kn(job: GuestJob) -> GuestJob {
    super::job(job)
        .disk(4 << 30)
        .limit(Duration::from_secs(120))
        .setup("drivers", "load sd_mod loop xfs")
        .step("disk_4kn", DISK_4KN)
        .step("realtime", REALTIME)
}

/// `sunit=16 swidth=32 blks` of the data section, in blocks.
fn xfs_info(report: &GuestReport) {
    let look = look(report, "disk_4kn");
    let said = look.tool("xfs_info");
    let number = |key: &str| -> Option<u64> {
        let rest = said.split_once(key)?.1;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let fs = &look.nodes().iter().find(|node| node["name"] == "xfs").expect("xfs")["fs"];
    let block = number("bsize=");
    assert_eq!(fs["block_bytes"].as_u64(), block);
    let bytes = |key: &str| Some(number(key)? * block?);
    assert_eq!(fs["stripe_unit_bytes"].as_u64(), bytes("sunit="));
    assert_eq!(fs["stripe_width_bytes"].as_u64(), bytes("swidth="));
    assert_eq!(fs["groups"].as_u64(), number("agcount="));
    assert_eq!(fs["sector_bytes"].as_u64(), number("sectsz="));
}

const DISKS_512E: &str = "
load sd_mod loop
load_with scsi_debug dev_size_mb=256 physblk_exp=3 delay=0 lbpu=1
wait_for /dev/sda
echo 1 >/sys/block/sda/queue/rotational
";

/// The third is so small that it counts only when it is used.
const MISALIGNED: &str = "
printf 'start=63, size=65473\\nstart=67584, size=65536\\nstart=133127, size=16384\\n' | sfdisk --quiet /dev/sda
wait_for /dev/sda1 /dev/sda2 /dev/sda3
echo === unused
fathom --quiet check --alignment /dev/sda3
mkfs.ext4 -q -E nodiscard /dev/sda3
mkdir tiny
mount /dev/sda3 tiny
look
umount tiny
";

/// Each option on a filesystem of its own.
const OPTIONS: &str = "
i=0
for options in sync discard strictatime data=journal data=writeback nobarrier defaults; do
    i=$((i + 1))
    truncate -s 16M image$i
    fallocate -l 16M image$i
    losetup --direct-io=off /dev/loop$i image$i
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/loop$i
    mkdir -p with_${options/=/_}
    mount -o $options /dev/loop$i with_${options/=/_}
done
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/sda2
mkdir -p on_disk
mount -o nobarrier,discard /dev/sda2 on_disk
look
umount on_disk with_*
for i in 1 2 3 4 5 6 7; do losetup -d /dev/loop$i; rm image$i; done
";

const FULL: &str = "
mkfs.ext4 -q -m 0 -E nodiscard /dev/sda1
mkdir -p full few
mount /dev/sda1 full
dd if=/dev/zero of=full/file bs=1M count=26 status=none
mkfs.ext4 -q -N 16 -E nodiscard /dev/sda2
mount /dev/sda2 few
i=0
while touch few/$i 2>/dev/null; do i=$((i + 1)); done
look
umount full few
";

/// One that was pulled while it was mounted, one that was mounted more often than it may.
const UNMOUNTED: &str = "
mkfs.ext4 -q -E nodiscard /dev/sda1
mount /dev/sda1 full
echo x >full/file
sync full/file
dd if=/dev/sda1 of=copy bs=1M iflag=direct status=none
umount full
dd if=copy of=/dev/sda1 bs=1M oflag=direct status=none
rm copy
mkfs.ext4 -q -E nodiscard /dev/sda2
tune2fs -c 5 -C 7 /dev/sda2 >/dev/null
echo '/dev/sda2 /run/due ext4 defaults 0 2' >/etc/fstab
glance
";

/// As a virtual machine has it.
const UNMOUNTED_HELD: &str = "
sleep 1000 </dev/sda1 &
glance
kill $!
";

const JOURNAL: &str = "
mke2fs -q -b 1024 -O journal_dev /dev/sda1
mkfs.ext4 -q -b 1024 -E nodiscard -J device=/dev/sda1 /dev/sda2
mount /dev/sda2 full
# Reading the partition table anew has set it back.
echo 1 >/sys/block/sda/queue/rotational
glance
umount full
";

/// The kernel counts an error; another filesystem is made read-only against fstab (newer kernels show no `ro` after an
/// error, so by hand).
const ERRORS: &str = "
mkfs.ext4 -q -E nodiscard /dev/sda1
mkfs.ext4 -q -E nodiscard /dev/sda2
mkdir -p goes_on stops
mount -o errors=continue /dev/sda1 goes_on
mount -o errors=remount-ro /dev/sda2 stops
echo '/dev/sda2 /run/stops ext4 defaults,errors=remount-ro 0 2' >>/etc/fstab
echo tested >/sys/fs/ext4/sda1/trigger_fs_error
mount -o remount,ro stops
glance
umount goes_on stops
";

/// Large and sparse, so that there is much to zero.
const LAZY: &str = "
mkfs.ext4 -q -i 4096 -E lazy_itable_init=1,nodiscard /dev/ubda
mount /dev/ubda full
glance
";

fn job_512e(job: GuestJob) -> GuestJob {
    super::job(job)
        .disk(4 << 30)
        .limit(Duration::from_secs(200))
        .memory_mib(1024)
        .setup("disks", DISKS_512E)
        .step("misaligned", MISALIGNED)
        .step("options", OPTIONS)
        .step("fs_full", FULL)
        .step("unmounted", UNMOUNTED)
        .step("unmounted_held", UNMOUNTED_HELD)
        .step("journal", JOURNAL)
        .step("fs_errors", ERRORS)
        .step("lazy", LAZY)
}

fn misaligned(report: &GuestReport) {
    let look = look(report, "misaligned");
    agree::with_all(&look);
    let found = look.found();
    let of = |device: &str| {
        found.iter().filter(|found| found.contains("misaligned") && found.ends_with(device)).count()
    };
    assert_eq!((of("/dev/sda1"), of("/dev/sda2")), (1, 0), "{found:#?}");
    let unused = look.tool("unused");
    contains(unused, &["verdict: MISALIGNED (no finding below 16 MiB, as nothing uses it)"]);
    assert!(!unused.contains("[misaligned]"), "{unused}");
    assert_eq!(of("/dev/sda3"), 1, "{found:#?}");
}

fn options(report: &GuestReport) {
    let look = look(report, "options");
    look.has(&[
        "mount-sync /run/with_sync",
        "discard-online /run/on_disk",
        "mount-strictatime /run/with_strictatime",
        "mount-data-journal /run/with_data_journal",
        "mount-data-writeback /run/with_data_writeback",
        "barriers-off /run/on_disk",
    ]);
    let on_defaults: Vec<String> =
        look.found().into_iter().filter(|found| found.ends_with("/run/with_defaults")).collect();
    assert_eq!(on_defaults, [""; 0]);
    agree::with_all(&look);
}
