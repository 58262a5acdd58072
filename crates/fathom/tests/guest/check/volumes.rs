//! Volumes of the device-mapper: LVM on arrays, thin pools, snapshots, caches, encryption; healthy and in trouble.

use super::{agree, look};
use crate::family::{Family, contains};
use fathom_testkit::{GuestJob, GuestReport, Trial};
use serde_json::Value;
use std::time::Duration;

const TOOLS: [&str; 6] = ["mdadm", "lvcreate", "dmsetup", "mkfs.ext4", "lsblk", "setpriv"];

pub fn trials() -> Vec<Trial> {
    Family::new("check_volumes", &TOOLS, job)
        .test("lvm_on_an_array_well_aligned", |report| {
            let look = look(report, "lvm_good");
            look.lacks(&[
                "stripe-misaligned",
                "ext4-stripe-geometry",
                "lvm-legs-one-disk",
                "lvm-pv-resized",
                "lvm-vg-incomplete",
                "lvm-duplicate-pv",
                "dm-suspended",
            ]);
            agree::with_all(&look);
            volumes_agree(report, "lvm_good");
        })
        .test("a_volume_that_a_virtual_machine_has_open", held)
        .test("lvm_on_an_array_badly_aligned", badly_aligned)
        .test("four_layers_deep", four_deep)
        .test("a_thin_pool_and_a_snapshot", thin)
        .test("a_pool_that_keeps_what_is_free", keeping)
        .test("a_full_pool_and_a_lost_snapshot", full)
        .test("a_pool_that_has_stopped", |report| {
            let look = look(report, "thin_stopped");
            contains(&look.defect("thin-pool-failed").to_string(), &["vg0/pool has no space left"]);
            look.lacks(&["thin-pool-full"]);
        })
        .test("copies_that_are_made_to_agree", |report| {
            let look = look(report, "syncing");
            contains(&look.defect("lvm-raid-syncing").to_string(), &["vg2/copies works on itself"]);
        })
        .test("copies_that_differ", differing)
        .test("a_pool_without_space_for_metadata", full_metadata)
        .test("a_cache_that_lost_its_metadata", cache_failed)
        .test("copies_on_one_drive", |report| {
            let look = look(report, "legs");
            look.has(&["lvm-legs-one-disk /dev/dm-0"]);
            agree::with_all(&look);
        })
        .test("a_mirror_that_lost_a_leg", |report| {
            let look = look(report, "leg_lost");
            look.has(&["drive-offline /dev/sdb"]).lacks(&["lvm-raid-degraded"]);
            contains(
                &look.defect("drive-offline").to_string(),
                &["1 of the 2 parts of vg0/copies are dead", "lvconvert --repair vg0/copies"],
            );
        })
        .test("caches", caches)
        .test("encryption_with_small_and_large_sectors", encryption)
        .test("a_suspended_device_is_not_read", suspended)
        .test("errors_in_a_part_a_journal_and_no_discards", errors)
        .test("a_device_that_grew_and_one_that_shrank", resized)
        .test("a_group_that_lacks_a_device", |report| {
            let look = look(report, "incomplete");
            // The lines of the disk that is gone are told with it.
            look.has(&["lvm-vg-incomplete /dev/sda"]).lacks(&["kernel-log-resets"]);
            contains(
                &look.defect("lvm-vg-incomplete").to_string(),
                &["1 of the 2 devices of the group vg0"],
            );
        })
        .test("a_copied_label", |report| {
            let look = look(report, "duplicate");
            assert!(
                look.found().iter().any(|found| found.starts_with("lvm-duplicate-pv ")),
                "{:?}",
                look.found()
            );
        })
        .test("a_large_pool_in_small_pieces", thin_large)
        .into_trials()
}

fn keeping(report: &GuestReport) {
    contains(
        &look(report, "thin_kept").defect("trim-lost").to_string(),
        &["the thin pool vg0-pool", "lvchange --discards passdown vg0/pool"],
    );
    look(report, "thin_passed").lacks(&["trim-lost"]);
}

fn differing(report: &GuestReport) {
    let look = look(report, "differing");
    contains(&look.defect("lvm-raid-mismatch").to_string(), &["vg3/copies", "do not agree"]);
}

fn held(report: &GuestReport) {
    look(report, "held").lacks(&["filesystem-unclean"]);
    let look = look(report, "let_go");
    let told = look.defect("filesystem-unclean").to_string();
    contains(&told, &["needs recovery", "\"mount it once"]);
}

fn full_metadata(report: &GuestReport) {
    let look = look(report, "thin_metadata");
    contains(&look.defect("thin-pool-metadata-full").to_string(), &["thin pool", "% full"]);
}

fn cache_failed(report: &GuestReport) {
    let look = look(report, "cache_failed");
    contains(&look.defect("cache-failed").to_string(), &["failing"]);
}

/// Disks in memory, each with a store of its own, that take discards.
const DISKS: &str = r#"
load md-mod raid0 raid1 raid10 raid456 sd_mod dm-mod dm-snapshot dm-thin-pool dm-mirror dm-raid dm-cache dm-cache-smq dm-crypt dm-integrity xts aes_ti ecb ext4 loop
load_with scsi_debug dev_size_mb=64 add_host=6 per_host_store=1 delay=0 lbpu=1
wait_for /dev/sd{a,b,c,d,e,f}
# Checkers that are not installed; nobody watches.
cat >>/etc/lvm/lvmlocal.conf <<'CONF'
global {
    thin_check_executable = ""
    thin_repair_executable = ""
    cache_check_executable = ""
    cache_repair_executable = ""
}
CONF
sed -i 's/^activation {/activation {\n    monitoring = 0/' /etc/lvm/lvmlocal.conf
"#;

/// Runs before `look` what names the volumes.
const LVM_GOOD: &str = "
mdadm --create /dev/md5 --run --assume-clean --bitmap=none --level=5 --chunk=64 --raid-devices=3 /dev/sd[abc] >&2
pvcreate --dataalignment 128k /dev/md5 >&2
vgcreate vg0 /dev/md5 >&2
lvcreate -Wn -Zn -L 32M -n data vg0 >&2
mkfs.ext4 -q -b 4096 -E stride=16,stripe_width=32,nodiscard /dev/vg0/data
mkdir -p mnt
mount /dev/vg0/data mnt
echo === lvs
lvs --noheadings --units b --nosuffix -o vg_name,lv_name,lv_size,lv_kernel_major,lv_kernel_minor
echo === dumpe2fs
dumpe2fs -h /dev/vg0/data 2>/dev/null
look
umount mnt
";

/// A volume that a virtual machine has open, with its filesystem as that is while it is mounted there. Who may not see what
/// processes have open asks the kernel, as for guests that it serves itself.
const HELD: &str = r#"
mount /dev/vg0/data mnt
echo x >mnt/file
sync mnt/file
dd if=/dev/vg0/data of=copy bs=1M iflag=direct status=none
umount mnt
dd if=copy of=/dev/vg0/data bs=1M oflag=direct status=none
rm copy
sleep 1000 </dev/vg0/data &
echo "=== fathom"
setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace fathom --json --quiet check
kill $!
"#;

const LET_GO: &str = "
glance
";

/// Extents that begin 4 KiB behind a stripe of the array, and a filesystem that does not know of it.
const LVM_BAD: &str = "
vgremove -f vg0 >&2
pvremove /dev/md5 >&2
pvcreate --dataalignment 128k --dataalignmentoffset 4k /dev/md5 >&2
vgcreate vg0 /dev/md5 >&2
lvcreate -Wn -Zn -L 32M -n data vg0 >&2
mkfs.ext4 -q -E nodiscard,stride=2,stripe_width=4 /dev/vg0/data
mount /dev/vg0/data mnt
look
umount mnt
";

/// A filesystem on a loop device on a file of a filesystem on encrypted storage on a volume on an array.
const FOUR_DEEP: &str = r#"
key=$(printf '0%.0s' {1..128})
dmsetup create safe --table "0 $(blockdev --getsz /dev/vg0/data) crypt aes-xts-plain64 $key 0 /dev/vg0/data 0"
mkfs.ext4 -q -E nodiscard /dev/mapper/safe
mount /dev/mapper/safe mnt
truncate -s 8M mnt/image
losetup /dev/loop0 mnt/image
mkfs.ext4 -q /dev/loop0
mkdir -p inner
mount /dev/loop0 inner
look
umount inner
losetup -d /dev/loop0
umount mnt
dmsetup remove safe
vgremove -f vg0 >&2
pvremove /dev/md5 >&2
mdadm --stop /dev/md5 >&2
for disk in /dev/sd[abc]; do mdadm --zero-superblock $disk; wipefs -qa $disk; done
"#;

const THIN: &str = "
vgcreate vg0 /dev/sda /dev/sdb >&2
lvcreate -L 32M --chunksize 512k --thinpool pool vg0 >&2
lvcreate -V 200M --thin -n wide vg0/pool >&2
lvcreate -Wn -Zn -L 16M -n plain vg0 >&2
lvcreate -L 8M --snapshot --chunksize 4k -n before vg0/plain >&2
dd if=/dev/zero of=/dev/vg0/plain bs=1M count=2 oflag=direct status=none
look
";

/// The pool is told to keep what is free in it, and then not.
const THIN_KEPT: &str = "
lvcreate -V 16M --thin -n small vg0/pool >&2
mkfs.ext4 -q -E nodiscard /dev/vg0/small
mkdir thin
mount /dev/vg0/small thin
lvchange --discards nopassdown vg0/pool >&2
glance
";

const THIN_PASSED: &str = "
lvchange --discards passdown vg0/pool >&2
glance
umount thin
lvremove -f vg0/small >&2
";

/// More than the snapshot can keep, and most of the pool.
const FULL: &str = "
dd if=/dev/zero of=/dev/vg0/plain bs=1M count=12 oflag=direct status=none || true
dd if=/dev/zero of=/dev/vg0/wide bs=1M count=27 oflag=direct status=none
glance
";

/// A measurement on a volume of a pool with little space left.
const THIN_MEASURED: &str = "
dd if=/dev/zero of=/dev/vg0/wide bs=1M count=30 oflag=direct status=none
fathom --json --quiet run randread /dev/vg0/wide span=16M duration=1s || [ $? = 1 ]
";

/// A write that finds no space waits; the pool has stopped.
const THIN_STOPPED: &str = "
echo 3 >/sys/module/dm_thin_pool/parameters/no_space_timeout
timeout 5 dd if=/dev/zero of=/dev/vg0/wide bs=1M count=40 oflag=direct status=none || true
glance
vgremove -f vg0 >&2 || dmsetup remove_all -f
for disk in /dev/sd[ab]; do dd if=/dev/zero of=$disk bs=1M count=2 oflag=direct status=none; done
";

/// Copies that are being made to agree, slowly.
const SYNCING: &str = "
vgcreate vg2 /dev/sde /dev/sdf >&2
lvcreate -Wn -Zn --type raid1 -m 1 --maxrecoveryrate 500k -L 32M -n copies vg2 >&2
glance
vgremove -f vg2 >&2
wipefs -qa /dev/sde /dev/sdf >&2
";

/// One copy is changed behind LVM's back.
const DIFFERING: &str = "
vgcreate vg3 /dev/sde /dev/sdf >&2
lvcreate -Wn -Zn --type raid1 -m 1 --nosync -L 16M -n copies vg3 >&2
dd if=/dev/urandom of=/dev/mapper/vg3-copies_rimage_1 bs=1M count=1 seek=2 oflag=direct status=none
lvchange --syncaction check vg3/copies >&2
for _ in {1..100}; do
    dmsetup status vg3-copies | grep -q ' idle ' && break
    sleep 0.2
done
glance
vgremove -f vg3 >&2
wipefs -qa /dev/sde /dev/sdf >&2
";

/// A pool with room for the metadata of few volumes; each takes some.
const THIN_METADATA: &str = r#"
dd if=/dev/zero of=/dev/sda bs=1M count=1 oflag=direct status=none
dmsetup create meta --table "0 512 linear /dev/sda 0"
dmsetup create data --table "0 65536 linear /dev/sda 8192"
dmsetup create few --table "0 65536 thin-pool /dev/mapper/meta /dev/mapper/data 128 0 1 skip_block_zeroing"
for volume in {1..60}; do
    dmsetup message few 0 "create_thin $volume" || break
    status=$(dmsetup status few)
    words=($status)
    used=${words[4]%/*}
    [ $used -lt 54 ] || break
done
glance
dmsetup remove few data meta
dd if=/dev/zero of=/dev/sda bs=1M count=1 oflag=direct status=none
"#;

/// The device that holds the metadata of a cache begins to fail.
const CACHE_FAILED: &str = r#"
dd if=/dev/zero of=/dev/sdd bs=1M oflag=direct status=none || true
dmsetup create meta1 --table "0 8192 linear /dev/sdd 0"
dmsetup create fast1 --table "0 32768 linear /dev/sdd 8192"
dmsetup create failing --table "0 65536 cache /dev/mapper/meta1 /dev/mapper/fast1 /dev/sde 128 1 writeback smq 0"
dmsetup suspend --nolockfs meta1
dmsetup reload meta1 --table "0 8192 error"
dmsetup resume meta1
dd if=/dev/zero of=/dev/mapper/failing bs=64k count=64 oflag=direct conv=fsync status=none || true
sleep 2
glance
dmsetup remove failing meta1 fast1
"#;

const LEGS: &str = "
printf 'start=2048, size=40960\\nstart=43008, size=40960\\n' | sfdisk --quiet /dev/sdc
wait_for /dev/sdc1 /dev/sdc2
vgcreate vg1 /dev/sdc1 /dev/sdc2 >&2
lvcreate -Wn -Zn -i 2 -I 64k -L 16M -n stripes vg1 >&2
look
vgremove -f vg1 >&2
wipefs -qa /dev/sdc1 /dev/sdc2 /dev/sdc >&2
";

const LEG_LOST: &str = "
vgcreate vg0 /dev/sda /dev/sdb >&2
lvcreate -Wn -Zn --type raid1 -m 1 --nosync -L 16M -n copies vg0 >&2
echo offline >/sys/block/sdb/device/state
dd if=/dev/zero of=/dev/vg0/copies bs=64k count=16 oflag=direct status=none || true
sleep 1
glance
lvchange -an vg0/copies >&2 || true
echo running >/sys/block/sdb/device/state
vgremove -f vg0 >&2 || { dmsetup remove_all -f; wipefs -qaf /dev/sda /dev/sdb; }
";

/// Both modes, without LVM: its tools want checkers that are not installed here.
const CACHES: &str = r#"
dd if=/dev/zero of=/dev/sdd bs=1M oflag=direct status=none || true
dmsetup create meta1 --table "0 8192 linear /dev/sdd 0"
dmsetup create fast1 --table "0 32768 linear /dev/sdd 8192"
dmsetup create through --table "0 65536 cache /dev/mapper/meta1 /dev/mapper/fast1 /dev/sde 128 1 writethrough smq 0"
dmsetup create meta2 --table "0 8192 linear /dev/sdd 49152"
dmsetup create fast2 --table "0 32768 linear /dev/sdd 57344"
dmsetup create back --table "0 65536 cache /dev/mapper/meta2 /dev/mapper/fast2 /dev/sdf 128 1 writeback smq 0"
look
dmsetup remove back through
dmsetup remove meta1 meta2 fast1 fast2
"#;

const ENCRYPTION: &str = r#"
key=$(printf '0%.0s' {1..128})
dmsetup create small --table "0 65536 crypt aes-xts-plain64 $key 0 /dev/sda 0"
dmsetup create large --table "0 65536 crypt aes-xts-plain64 $key 0 /dev/sdb 0 1 sector_size:4096"
for name in small large; do
    mkfs.ext4 -q /dev/mapper/$name
    mkdir -p $name
    mount /dev/mapper/$name $name
done
look
umount small large
dmsetup remove small large
"#;

const SUSPENDED: &str = r#"
dmsetup create held --table "0 8192 linear /dev/sda 0"
dmsetup suspend held
timeout 60 fathom --json --quiet check || echo "code $?"
dmsetup resume held
dmsetup remove held
"#;

const ERRORS: &str = r#"
printf '0 8192 linear /dev/sda 0\n8192 8192 error\n' | dmsetup create holes
dd if=/dev/zero of=/dev/sdb bs=1M count=1 oflag=direct status=none
dmsetup create checked --table "0 16384 integrity /dev/sdb 0 - J 1 internal_hash:crc32c"
mode=$(echo /sys/block/sdc/device/scsi_disk/*/provisioning_mode)
before=$(cat $mode)
echo disabled >$mode
glance
echo $before >$mode
dmsetup remove checked holes
"#;

/// Where the first block of such a volume lies: behind its copy in the journal.
const CHECKED_PLACE: &str = r#"
dd if=/dev/zero of=/dev/sdb bs=1M count=8 oflag=direct status=none
dmsetup create checked --table "0 8192 integrity /dev/sdb 0 - J 1 internal_hash:crc32c"
printf 'a word of its own' | dd of=/dev/mapper/checked bs=4096 conv=sync oflag=direct status=none
dmsetup remove checked
grep -abo 'a word of its own' /dev/sdb | tail -1 | cut -d: -f1
"#;

/// A pool of more than a terabyte, in small pieces, on a disk that turns: scsi_debug makes up the size and keeps the front.
const THIN_LARGE: &str = r#"
echo 1100 >/sys/bus/pseudo/drivers/scsi_debug/virtual_gb
echo 1 >/sys/block/sda/device/rescan
echo 1 >/sys/block/sda/queue/rotational
dd if=/dev/zero of=/dev/sdd bs=1M count=1 oflag=direct status=none
dmsetup create map --table "0 65536 linear /dev/sdd 0"
dmsetup create large --table "0 $(blockdev --getsz /dev/sda) thin-pool /dev/mapper/map /dev/sda 128 0 1 skip_block_zeroing"
glance
"#;

/// Loop devices, for they can grow and shrink.
const RESIZED: &str = "
for disk in /dev/sd[a-f]; do dd if=/dev/zero of=$disk bs=1M count=2 oflag=direct status=none; done
truncate -s 300M grows shrinks
losetup /dev/loop0 grows
losetup /dev/loop1 shrinks
vgcreate vga /dev/loop0 >&2
vgcreate vgb /dev/loop1 >&2
truncate -s 500M grows
losetup -c /dev/loop0
truncate -s 200M shrinks
losetup -c /dev/loop1
glance
losetup -d /dev/loop0 /dev/loop1
rm grows shrinks
";

const INCOMPLETE: &str = "
vgcreate vg0 /dev/sda /dev/sdb >&2
echo 1 >/sys/block/sdb/device/delete
glance
";

const DUPLICATE: &str = "
dd if=/dev/sda of=/dev/sdc bs=1M count=4 oflag=direct status=none
glance
";

fn job(job: GuestJob) -> GuestJob {
    super::job(job)
        .limit(Duration::from_secs(400))
        .memory_mib(1024)
        .setup("disks", DISKS)
        .step("lvm_good", LVM_GOOD)
        .step("held", HELD)
        .step("let_go", LET_GO)
        .step("lvm_bad", LVM_BAD)
        .step("four_deep", FOUR_DEEP)
        .step("thin", THIN)
        .step("thin_kept", THIN_KEPT)
        .step("thin_passed", THIN_PASSED)
        .step("thin_full", FULL)
        .step("thin_measured", THIN_MEASURED)
        .step("thin_stopped", THIN_STOPPED)
        .step("syncing", SYNCING)
        .step("differing", DIFFERING)
        .step("thin_metadata", THIN_METADATA)
        .step("legs", LEGS)
        .step("leg_lost", LEG_LOST)
        .step("caches", CACHES)
        .step("cache_failed", CACHE_FAILED)
        .step("encryption", ENCRYPTION)
        .step("suspended", SUSPENDED)
        .step("errors", ERRORS)
        .step("checked_place", CHECKED_PLACE)
        .step("resized", RESIZED)
        .step("incomplete", INCOMPLETE)
        .step("duplicate", DUPLICATE)
        .step("thin_large", THIN_LARGE)
}

/// Names, sizes and numbers of volumes as LVM has them; the geometry as the filesystem has it.
fn volumes_agree(report: &GuestReport, step: &str) {
    let look = look(report, step);
    let mut compared = 0;
    for line in look.tool("lvs").lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [group, volume, size, major, minor] = words[..] else { continue };
        let node = look
            .nodes()
            .iter()
            .find(|node| node["devno"] == format!("{major}:{minor}"))
            .expect(line);
        assert_eq!(node["dm"]["name"], format!("{group}-{volume}"));
        assert_eq!(node["size_bytes"].as_u64(), size.parse().ok(), "{line}");
        compared += 1;
    }
    assert_eq!(compared, 1, "{}", look.tool("lvs"));
    let says = |key: &str| {
        look.tool("dumpe2fs")
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .map(str::trim)
    };
    let fs = look
        .nodes()
        .iter()
        .find(|node| {
            node["kind"] == "file_system"
                && node["below"].as_array().is_some_and(|below| !below.is_empty())
                && node["name"] == "ext4"
        })
        .expect("ext4");
    let fs = &fs["fs"];
    let blocks = |key: &str| {
        says(key)
            .and_then(|text| text.parse::<u64>().ok())
            .map(|n| n * fs["block_bytes"].as_u64().unwrap_or(0))
    };
    assert_eq!(fs["uuid"].as_str(), says("Filesystem UUID"));
    assert_eq!(fs["block_bytes"].as_u64(), says("Block size").and_then(|text| text.parse().ok()));
    assert_eq!(fs["stripe_unit_bytes"].as_u64(), blocks("RAID stride"));
    assert_eq!(fs["stripe_width_bytes"].as_u64(), blocks("RAID stripe width"));
}

fn badly_aligned(report: &GuestReport) {
    let look = look(report, "lvm_bad");
    agree::with_all(&look);
    let found = look.found();
    for rule in ["stripe-misaligned ", "ext4-stripe-geometry "] {
        assert!(found.iter().any(|found| found.starts_with(rule)), "{rule}: {found:#?}");
    }
}

fn four_deep(report: &GuestReport) {
    let look = look(report, "four_deep");
    agree::with_all(&look);
    look.has(&["loop-buffered /dev/loop0", "loop-sparse /dev/loop0"]);
    // From the innermost mount every layer is reached.
    let nodes = look.nodes();
    let mut index = nodes.iter().position(|node| node["name"] == "/run/inner").expect("the mount");
    let mut kinds: Vec<String> = Vec::new();
    loop {
        kinds.push(nodes[index]["kind"].as_str().unwrap_or_default().to_owned());
        match nodes[index]["below"]
            .as_array()
            .and_then(|below| below.first())
            .and_then(Value::as_u64)
        {
            Some(below) => index = below as usize,
            None => break,
        }
    }
    let expected =
        ["mount", "file_system", "loop", "mount", "file_system", "dm", "dm", "md", "disk"];
    assert_eq!(kinds, expected);
}

fn thin(report: &GuestReport) {
    let look = look(report, "thin");
    agree::with_all(&look);
    look.lacks(&["thin-pool-full", "thin-pool-failed", "snapshot-full"]);
    let found = look.found();
    for rule in ["snapshot-present ", "thin-pool-zeroing ", "thin-pool-no-autoextend "] {
        assert!(found.iter().any(|found| found.starts_with(rule)), "{rule}: {found:#?}");
    }
}

fn full(report: &GuestReport) {
    let look = look(report, "thin_full");
    look.lacks(&["snapshot-present"]);
    contains(
        &look.defect("snapshot-full").to_string(),
        &["vg0/before is lost (Invalid)", "lvremove vg0/before"],
    );
    contains(
        &look.defect("thin-pool-full").to_string(),
        &["vg0/pool is 8", "lvextend -l +80%FREE vg0/pool"],
    );
    let measured = &report.step("thin_measured").stdout;
    contains(measured, &["\"thin-pool-full\"", "% full: when nothing is left"]);
}

fn caches(report: &GuestReport) {
    let look = look(report, "caches");
    agree::with_all(&look);
    contains(
        &look.defect("cache-not-writing").to_string(),
        &["through has a cache", "writethrough"],
    );
    contains(&look.defect("cache-dirty-alone").to_string(), &["back keeps writes back"]);
    look.lacks(&["cache-failed"]);
}

fn encryption(report: &GuestReport) {
    let look = look(report, "encryption");
    agree::with_all(&look);
    let found = look.found();
    // Both keep discards to themselves, and say so once each or together.
    assert!(found.iter().any(|found| found.starts_with("trim-lost ")), "{found:#?}");
    let sector = |name: &str| {
        let node = look.nodes().iter().find(|node| node["dm"]["name"] == name).expect(name);
        node["queue"]["logical_block_bytes"].as_u64()
    };
    assert_eq!((sector("small"), sector("large")), (Some(512), Some(4096)));
    // No key, not even one of zeros, is in what is stored.
    assert!(!look.result.to_string().contains(&"0".repeat(64)), "a key was kept");
}

fn suspended(report: &GuestReport) {
    let step = report.step("suspended");
    let line = step.stdout.lines().last().unwrap_or_default();
    let result: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", step.said()));
    let defects = result["defects"].as_array().expect("defects");
    let defect = defects.iter().find(|defect| defect["rule"] == "dm-suspended").expect("a finding");
    contains(&defect.to_string(), &["held is suspended", "dmsetup resume held"]);
    contains(&result["snapshot"]["unread"].to_string(), &["suspended"]);
}

fn resized(report: &GuestReport) {
    let look = look(report, "resized");
    look.has(&["lvm-pv-resized /dev/loop0", "lvm-pv-resized /dev/loop1"]);
    let defects = look.result["defects"].as_array().expect("defects");
    let gravity = |node: &str| {
        defects.iter().find(|d| d["rule"] == "lvm-pv-resized" && d["node"] == node).expect(node)["gravity"].clone()
    };
    assert_eq!((gravity("/dev/loop0"), gravity("/dev/loop1")), ("low".into(), "high".into()));
}

fn errors(report: &GuestReport) {
    let look = look(report, "errors");
    look.has(&["dm-error-target /dev/dm-0", "dm-integrity-journal /dev/dm-1"]);
    look.has(&["io-hints-differ /dev/sdc"]);
    // What the alignment says of dm-integrity: its data are moved by whole blocks of 4 KiB.
    let place = report.step("checked_place");
    assert_eq!(place.code, Some(0), "{}", place.said());
    let offset: u64 = place.stdout.trim().parse().expect("a place");
    assert!(offset > 0 && offset.is_multiple_of(4096), "{offset}");
}

fn thin_large(report: &GuestReport) {
    look(report, "thin").lacks(&["thin-pool-small-chunk"]);
    let look = look(report, "thin_large");
    let defect = look.defect("thin-pool-small-chunk").to_string();
    contains(&defect, &["the thin pool large of 1.1 TiB", "pieces of 64 KiB"]);
}
