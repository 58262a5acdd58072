//! Drives and adapters as QEMU makes them: NVMe, SCSI, SATA, virtio, USB, a RAID controller, with two processors; and what
//! somebody may have set there.

use super::drives::{detail, sizes};
use super::{Look, look};
use crate::family::contains;
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{Bus, Guest, GuestJob, GuestReport, Trial, fathom_binary, kernel_test};
use serde_json::Value;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let needs = [
        Qemu,
        Tool("busybox"),
        Tool("modprobe"),
        Tool("lsblk"),
        Tool("sfdisk"),
        Tool("mkfs.ext4"),
        Tool("dmsetup"),
        Tool("python3"),
        Tool("make-bcache"),
        Tool("mkfs.f2fs"),
        FathomBinary,
    ];
    vec![kernel_test("check_hardware", &needs, hardware)]
}

/// Disks without content, on a USB port of the second generation and behind a RAID controller, which sends no messages. Pin A of
/// its slot has the line of pin D of the slot three before, which is the USB controller's.
const OTHER_DISKS: [&str; 16] = [
    "-blockdev",
    "driver=null-co,read-zeroes=on,size=67108864,node-name=stick",
    "-device",
    "usb-ehci,id=ehci,addr=0x11",
    "-device",
    "usb-bot,bus=ehci.0,id=bot",
    "-device",
    "scsi-hd,bus=bot.0,drive=stick,vendor=LAB,product=STICK",
    "-blockdev",
    "driver=null-co,read-zeroes=on,size=67108864,node-name=volume",
    "-device",
    "megasas,id=raid,addr=0x14,msi=off,msix=off",
    "-device",
    "scsi-hd,bus=raid.0,drive=volume,vendor=LAB,product=VOLUME",
    "-name",
    "hardware",
];

/// A disk with blocks of 4 KiB behind addresses of 512 bytes.
const LARGE_BLOCKS: &str = "LAB-DISK,physical_block_size=4096";

const DRIVERS: &str = "
load virtio_blk virtio_scsi sd_mod nvme ahci bfq ehci_pci usb_storage megaraid_sas dm_mod dm_crypt ext4
single=$(nvme_disk fathom-1)
double=$(nvme_disk fathom-2)
wait_for /dev/vda /dev/$single /dev/$double /dev/sda /dev/sdb /dev/sdc /dev/sdd
";

/// A disk by its model.
const NAMES: &str = "
named() { grep -l $1 /sys/block/sd*/device/model | cut -d/ -f4; }
";

const CHANGED: &str = r#"
sata=$(named LAB-DISK)
stick=$(named STICK)
single=$(nvme_disk fathom-1)
double=$(nvme_disk fathom-2)
echo mq-deadline >/sys/block/vda/queue/scheduler
echo 0 >/sys/block/vda/queue/wbt_lat_usec
echo mq-deadline >/sys/block/$single/queue/scheduler
echo 0 >/sys/block/$single/queue/rq_affinity
echo 'write through' >/sys/block/$single/queue/write_cache
echo bfq >/sys/block/$(named VOLUME)/queue/scheduler
echo 1 >/sys/block/$sata/device/queue_depth
echo 'write through' | tee /sys/block/$sata/device/scsi_disk/*/cache_type >/dev/null
echo 0 >/sys/block/$sata/queue/rotational
host=$(readlink -f /sys/block/$sata/device | grep -o 'host[0-9]*' | head -1)
echo min_power >/sys/class/scsi_host/$host/link_power_management_policy
dmsetup create shown --readonly --table "0 $(blockdev --getsz /dev/$stick) linear /dev/$stick 0"
blockdev --setro /dev/$stick
key=$(printf '0%.0s' {1..128})
dmsetup create secret --table "0 32768 crypt aes-xts-plain64 $key 0 /dev/$double 0"
load_with null_blk nr_devices=1 gb=1 zoned=1 zone_size=16
echo none >/sys/block/nullb0/queue/scheduler
mkfs.ext4 -q -E nodiscard /dev/$single
mkdir flash
mount /dev/$single flash
mkdir -p /run/systemd/system /etc/systemd/system/timers.target.wants
printf '[Timer]\nOnCalendar=weekly\n' >/etc/systemd/system/copy.timer
printf '[Service]\nExecStart=/usr/bin/rsync -a /srv /copy\n' >/etc/systemd/system/copy.service
ln -sf ../copy.timer /etc/systemd/system/timers.target.wants/copy.timer
rm -f /etc/systemd/system/timers.target.wants/fstrim.timer /etc/cron.*/fstrim
echo acpi_pm >/sys/devices/system/clocksource/clocksource0/current_clocksource
mkdir -p /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/a
echo 200 >/sys/fs/cgroup/a/io.weight
echo === fathom
fathom --json --quiet check
"#;

/// A namespace over the network of this one machine, first by one port, and a line that mounts it too early.
const FABRIC: &str = r#"
load configfs nvmet nvmet_tcp nvme_tcp
busybox ip link set lo up
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
target=/sys/kernel/config/nvmet
mkdir $target/subsystems/lab
echo 1 >$target/subsystems/lab/attr_allow_any_host
mkdir $target/subsystems/lab/namespaces/1
echo -n /dev/vda >$target/subsystems/lab/namespaces/1/device_path
echo 1 >$target/subsystems/lab/namespaces/1/enable
for port in 1 2; do
    mkdir $target/ports/$port
    echo tcp >$target/ports/$port/addr_trtype
    echo ipv4 >$target/ports/$port/addr_adrfam
    echo 127.0.0.1 >$target/ports/$port/addr_traddr
    echo 442$port >$target/ports/$port/addr_trsvcid
    ln -s $target/subsystems/lab $target/ports/$port/subsystems/lab
done
echo transport=tcp,traddr=127.0.0.1,trsvcid=4421,nqn=lab >/dev/nvme-fabrics
for _ in {1..100}; do
    fabric=$(grep -l '^Linux' /sys/class/nvme-subsystem/nvme-subsys*/model | head -1 | grep -o 'subsys[0-9]*' | grep -o '[0-9]*') && break
    sleep 0.1
done
wait_for /dev/nvme${fabric}n1
echo "/dev/nvme${fabric}n1 /srv ext4 defaults 0 2" >/etc/fstab
echo === fathom
fathom --json --quiet check
"#;

/// And a disk over two ports, of which only one is that of the controller that has the volume (a disk of scsi_debug takes
/// its access state from the number of its adapter).
const SECOND_PATH: &str = r#"
echo transport=tcp,traddr=127.0.0.1,trsvcid=4422,nqn=lab >/dev/nvme-fabrics
load dm_multipath dm_service_time scsi_dh_alua
load_with scsi_debug add_host=2 vpd_use_hostno=0 dev_size_mb=8 delay=0
for _ in {1..100}; do
    set -- $(named scsi_debug)
    [ $# -lt 2 ] || [ "$(sort -u /sys/block/{$1,$2}/device/access_state | wc -l)" = 1 ] || break
    sleep 0.1
done
first="$(cat /sys/block/$1/dev) 1" second="$(cat /sys/block/$2/dev) 1"
dmsetup create san --table "0 16384 multipath 0 1 alua 1 1 service-time 0 2 1 $first $second"
sleep 1
echo === fathom
fathom --json --quiet check
"#;

/// The second port goes away. The ports of the other disk get a group each.
const PATH_DOWN: &str = r#"
set -- $(named scsi_debug)
first="$(cat /sys/block/$1/dev) 1" second="$(cat /sys/block/$2/dev) 1"
dmsetup load san --table "0 16384 multipath 0 1 alua 2 1 service-time 0 1 1 $first service-time 0 1 1 $second"
dmsetup resume san
rm /sys/kernel/config/nvmet/ports/2/subsystems/lab
sleep 2
echo === fathom
fathom --json --quiet check
"#;

/// A drive that the test plays, with states of saving that the kernel lets it take. It is hot, read-only and at the end of its
/// life, and has the slower of its formats.
const FLASH: &str = "
echo celsius 86 used 100 warning 10 format 0 >played
python3 flash.py >played.log 2>&1 &
wait_for /run/played.ready
echo transport=tcp,traddr=127.0.0.1,trsvcid=4430,nqn=flash,nr_io_queues=1 >/dev/nvme-fabrics
nvme_disk flash-1 >&2
echo === fathom
fathom --json --quiet check
";

/// It is exchanged for one that is well, and what is advised for the others is done.
const FLASH_CURED: &str = "
echo celsius 40 used 3 warning 0 format 1 >played
controller=/sys/block/$(nvme_disk flash-1)/device
echo 1 >$controller/rescan_controller
echo 0 >$controller/power/pm_qos_latency_tolerance_us
echo === fathom
fathom --json --quiet check
";

/// A part of a disk in front of another, made for smaller blocks than theirs, and a filesystem of flash on them.
const CACHED: &str = r#"
load bcache f2fs
sata=$(named LAB-DISK)
printf 'size=600M\nsize=256M\n' | sfdisk --quiet /dev/$sata
wait_for /dev/${sata}1 /dev/${sata}2
make-bcache --wipe-bcache --block 512 -C /dev/${sata}1 -B /dev/${sata}2 >&2
for part in 1 2; do [ -e /sys/block/$sata/${sata}$part/bcache ] || echo /dev/${sata}$part >/sys/fs/bcache/register; done
wait_for /dev/bcache0
mkfs.f2fs -q /dev/bcache0 >&2
mkdir cached
mount -t f2fs /dev/bcache0 cached
echo === steps
fathom --quiet check --alignment cached
echo === fathom
fathom --json --quiet check
umount cached
echo 1 >/sys/block/bcache0/bcache/stop
for set in /sys/fs/bcache/*-*; do echo 1 >$set/stop; done
for _ in {1..300}; do
    [ -e /sys/block/bcache0 ] || [ -e /sys/block/$sata/${sata}1/bcache ] || break
    sleep 0.1
done
wipefs -qa /dev/${sata}1 /dev/${sata}2
"#;

/// Swap beside the data on a disk that turns, and less memory than is wanted.
const SWAPPING: &str = r#"
sata=$(named LAB-DISK)
echo 1 >/sys/block/$sata/queue/rotational
echo 'write back' | tee /sys/block/$sata/device/scsi_disk/*/cache_type >/dev/null
printf 'size=512M
,
' | sfdisk --quiet /dev/$sata
wait_for /dev/${sata}1 /dev/${sata}2
mkswap -q /dev/${sata}1
swapon /dev/${sata}1
mkfs.ext4 -q -E nodiscard,lazy_itable_init=1 /dev/${sata}2
mkdir data
mount /dev/${sata}2 data
mount -o remount,size=2G /dev/shm
dd if=/dev/zero of=/dev/shm/much bs=1M count=$(($(awk '/MemAvailable/ {print $2}' /proc/meminfo) / 1024 + 100)) status=none
echo === fathom
fathom --json --quiet check
"#;

fn job() -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    let job = GuestJob::new(binary.parent().expect("a directory"));
    let program = format!("cat >flash.py <<'END'\n{}END\n", include_str!("flash.py"));
    super::job(job)
        .qemu()
        .limit(Duration::from_secs(900))
        .disk_on(Bus::Scsi, 32 << 20)
        .disk_on(Bus::Nvme, 64 << 20)
        .disk_on(Bus::TwoPathNvme, 32 << 20)
        .disk_on(Bus::Virtio, 64 << 20)
        .disk_on(Bus::SataOf(LARGE_BLOCKS), 1 << 30)
        .arguments(&OTHER_DISKS)
        .prelude(NAMES)
        .setup("drivers", DRIVERS)
        .step("drives", "echo === fathom; fathom --json --quiet check")
        .step("hardware_changed", CHANGED)
        .step("fabric", FABRIC)
        .step("fabric_two_paths", SECOND_PATH)
        .step("fabric_path_down", PATH_DOWN)
        .setup("program", &program)
        .step("flash", FLASH)
        .step("flash_cured", FLASH_CURED)
        .step("hardware_cached", CACHED)
        .step("hardware_swapping", SWAPPING)
}

fn hardware() {
    let report = Guest::boot(job()).and_then(Guest::wait).map_err(|e| e.to_string());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    as_made(&report);
    changed(&report);
    played(&report);
    cached(&report);
}

/// The device that is seen, with both parts that it is made of, and what its own superblock says of where its data begin.
fn cached(report: &GuestReport) {
    let look = look(report, "hardware_cached");
    let node = look.node("bcache0");
    let fs = look.node("f2fs");
    assert_eq!((&node["kind"], &fs["kind"]), (&"bcache".into(), &"file_system".into()));
    assert_eq!(fs["fs"]["block_bytes"], 4096);
    let below = |node: &Value| -> Vec<String> {
        let indexes = node["below"].as_array().expect("indexes").iter();
        let nodes = indexes.filter_map(|index| look.nodes().get(index.as_u64()? as usize));
        nodes.map(|node| node["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(below(fs), ["bcache0"]);
    let parts = below(node);
    let kind = |name: &String| look.node(name)["detail"]["content"]["bcache"]["kind"].clone();
    let mut kinds: Vec<Value> = parts.iter().map(kind).collect();
    kinds.sort_by_key(Value::to_string);
    assert_eq!(kinds, ["backing", "cache"], "{parts:?}");
    look.has(&["cache-not-writing /dev/bcache0", "io-hints-lost /dev/bcache0"]);
    contains(&look.defect("io-hints-lost").to_string(), &["make-bcache --block 4096"]);
    contains(look.tool("steps"), &["/dev/bcache0", "data from byte 8192 on"]);
}

/// What the drive that the test plays says of itself, and then no longer.
fn played(report: &GuestReport) {
    let flash = look(report, "flash");
    let node = nvme(&flash, "flash-1");
    let mut told: Vec<String> = flash.found();
    told.retain(|found| PLAYED.iter().any(|rule| *found == format!("{rule} {node}")));
    assert_eq!(told.len(), PLAYED.len(), "{told:#?} of {:#?}", flash.found());
    let of_node = |rule: &str| {
        let mut defects = flash.result["defects"].as_array().expect("defects").iter();
        let own = defects.find(|defect| defect["rule"] == rule && defect["node"] == *node);
        own.expect(rule).to_string()
    };
    contains(&of_node("drive-failing"), &["it has turned read-only", "\"high\""]);
    contains(&of_node("drive-hot"), &["is at 86 C", "\"high\""]);
    contains(&of_node("drive-worn"), &["used up 100 %", "\"medium\""]);
    contains(&of_node("nvme-format-slow"), &["has sectors of 512 B", "those of 4 KiB faster"]);
    let advised = ["echo 0 > /sys/class/nvme/nvme", "/power/pm_qos_latency_tolerance_us"];
    contains(&of_node("nvme-power-saving"), &advised);
    look(report, "flash_cured").lacks(&PLAYED);
}

const PLAYED: [&str; 5] =
    ["drive-failing", "drive-hot", "drive-worn", "nvme-format-slow", "nvme-power-saving"];

/// The node of an NVMe drive by its serial number, not of its paths.
fn nvme(look: &Look, serial: &str) -> String {
    let is_it = |node: &&Value| {
        node["drive"]["serial"] == serial
            && node["path"].as_str().is_some_and(|p| p.contains("nvme"))
    };
    let node = look.nodes().iter().find(is_it).expect(serial);
    node["path"].as_str().expect("a path").to_owned()
}

/// The node of a disk by its model.
fn key(look: &Look, model: &str) -> String {
    let is_it = |node: &&Value| node["drive"]["model"].as_str().is_some_and(|m| m.contains(model));
    let node = look.nodes().iter().find(is_it).expect(model);
    node["path"].as_str().expect("a path").to_owned()
}

const SETTINGS: [&str; 16] = [
    "cgroup-weight-inert",
    "command-queueing-off",
    "completion-anywhere",
    "dm-crypt-workqueues",
    "drive-read-only",
    "flushes-dropped",
    "rotational-wrong",
    "sata-power-saving",
    "scheduler-doubled",
    "scheduler-idles",
    "scheduler-on-nvme",
    "slow-clock",
    "swap-same-disks",
    "swapping",
    "writeback-throttle-changed",
    "zoned-scheduler",
];

fn changed(report: &GuestReport) {
    look(report, "drives").lacks(&SETTINGS);
    let changed = look(report, "hardware_changed");
    let (sata, stick) = (key(&changed, "LAB-DISK"), key(&changed, "STICK"));
    let on = |rule: &str, node: &str| format!("{rule} {node}");
    let single = nvme(&changed, "fathom-1");
    let expected = [
        on("scheduler-doubled", "/dev/vda"),
        on("scheduler-idles", &key(&changed, "VOLUME")),
        on("writeback-throttle-changed", "/dev/vda"),
        on("scheduler-on-nvme", &single),
        on("completion-anywhere", &single),
        on("flushes-dropped", &single),
        on("command-queueing-off", &sata),
        on("write-cache-off", &sata),
        on("rotational-wrong", &sata),
        on("sata-power-saving", &sata),
        on("drive-read-only", &stick),
        on("dm-crypt-workqueues", "/dev/dm-1"),
        on("zoned-scheduler", "/dev/nullb0"),
        on("slow-clock", ""),
        on("cgroup-weight-inert", ""),
    ];
    let found = changed.found();
    assert!(found.iter().any(|found| found.starts_with("trim-never ")), "{found:#?}");
    fabric(report);
    let swapping = look(report, "hardware_swapping");
    swapping.has(&["swapping ", &on("swap-same-disks", &format!("{sata}1"))]);
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    changed.has(&expected);
}

/// A namespace that is reached over TCP.
fn fabric(report: &GuestReport) {
    let one = look(report, "fabric");
    let head = one.defect("nvme-single-path")["node"].as_str().expect("a node").to_owned();
    one.has(&[&format!("fstab-no-netdev {head}")]).lacks(&["nvme-io-policy", "nvme-path-down"]);
    let two = look(report, "fabric_two_paths");
    two.has(&[&format!("nvme-io-policy {head}")]).lacks(&["nvme-single-path", "nvme-path-down"]);
    let down = look(report, "fabric_path_down");
    down.has(&[&format!("nvme-path-down {head}")]).lacks(&["multipath-groups-unequal"]);
    let unequal = two.defect("multipath-groups-unequal").to_string();
    contains(&unequal, &["san uses paths of unequal state together", "device/access_state"]);
}

fn as_made(report: &GuestReport) {
    let look = look(report, "drives");
    let volume = key(&look, "VOLUME");
    let sata = key(&look, "LAB-DISK");
    let expected = [
        format!("raid-housekeeping-invisible {volume}"),
        format!("usb2-disk {}", key(&look, "STICK")),
        format!("drive-self-test-missing {sata}"),
    ];
    look.has(&expected.each_ref().map(String::as_str));
    let shared = look.defect("interrupt-shared").to_string();
    contains(&shared, &["is shared by ", "megasas", "ehci_hcd"]);
    let scsi = look.nodes().iter().find(|node| node["drive"]["transport"] == "virtio-scsi");
    let scsi = &scsi.expect("a virtio disk")["detail"];
    assert_eq!(
        (&scsi["identity"]["logical_bytes"], &scsi["identity"]["physical_bytes"]),
        sizes(512, 512)
    );
    assert_eq!(scsi["host"].as_str().map(|host| &host[..4]), Some("host"));
    let sata = &detail(&look, sata.trim_start_matches("/dev/"))["identity"];
    assert_eq!((&sata["rotation_rpm"], &sata["volatile_cache"]), (&7200.into(), &true.into()));

    let namespaces = look.nodes().iter().filter(|node| {
        node["name"].as_str().is_some_and(|name| name.starts_with("nvme") && !name.contains('c'))
    });
    let namespaces: Vec<&Value> = namespaces.collect();
    assert_eq!(namespaces.len(), 2, "{namespaces:#?}");
    for namespace in &namespaces {
        let (health, identity) = (&namespace["detail"]["health"], &namespace["detail"]["identity"]);
        assert_eq!((&health["passed"], &health["critical_warning"]), (&true.into(), &0.into()));
        assert!((0..100).contains(&health["celsius"].as_i64().expect("a temperature")), "{health}");
        assert_eq!(identity["logical_bytes"], 512);
        assert_eq!(identity["volatile_cache"], true);
        assert!(identity["write_cache_enabled"].is_boolean(), "{identity}");
        assert!(!identity["formats"].as_array().expect("formats").is_empty());
    }
    let joined = namespaces.iter().filter(|node| node["kind"] == "nvme_multipath");
    let paths: Vec<usize> =
        joined.map(|node| node["below"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(paths, [2]);
    let hosts = look.result["snapshot"]["system"]["hosts"].as_array().expect("hosts");
    let controllers = hosts.iter().filter(|host| host["driver"] == "nvme");
    assert!(controllers.clone().all(|host| host["transport"] == "pcie"), "{hosts:#?}");
    assert_eq!(controllers.count(), 3);
}
