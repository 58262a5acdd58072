//! What a virtual machine does not say of itself: QEMU with eight processors on two memory nodes, an IOMMU, drives of makers
//! and tables of the firmware, which hides that it is no iron; and what somebody may have set there.

use super::{Look, look};
use crate::family::contains;
use fathom_testkit::Capability::{FathomBinary, Qemu, Tool};
use fathom_testkit::{
    Bus, Guest, GuestJob, GuestReport, Scratch, Trial, fathom_binary, kernel_test,
};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let tools = ["busybox", "modprobe", "sfdisk", "mdadm", "dmsetup", "smartd"];
    let needs: Vec<_> = [Qemu, FathomBinary].into_iter().chain(tools.map(Tool)).collect();
    vec![kernel_test("check_iron", &needs, iron)]
}

/// What a firmware says of the first processor, compiled by iasl from
/// ```text
/// DefinitionBlock ("", "SSDT", 2, "LAB", "CPUTEST", 1) {
///   External (\_SB.CPUS.C000, DeviceObj)
///   Scope (\_SB.CPUS.C000) {
///     Name (_CST, Package () { 1, Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 200, 1000 } })
///     Name (_PCT, Package () { ResourceTemplate () { Register (SystemIO, 16, 0, 0x0900) },
///                              ResourceTemplate () { Register (SystemIO, 16, 0, 0x0900) } })
///     Name (_PSS, Package () { Package () { 2000, 10000, 10, 10, 1, 1 }, Package () { 1000, 5000, 10, 10, 2, 2 } })
///     Name (_PPC, 0) } }
/// ```
/// One idle state that takes 200 us to leave, and two speeds.
const FIRMWARE: &str = "\
    53534454d200000002554c4142000000435055544553540001000000494e544c25092020a01400155c2f035f5342\
    5f435055534330303006001048095c2f035f53425f4350555343303030085f43535412210201121d0411140a1182\
    0c007f00000000000000000000007900010ac80be803085f504354122c0211140a11820c00011000000009000000\
    000000790011140a11820c000110000000090000000000007900085f505353122202120e060bd0070b10270a0a0a\
    0a01011210060be8030b88130a0a0a0a0a020a02085f50504300";

/// Disks that turn behind one lane, one of flash that takes 2 ms for everything, and sticks at two speeds; a maker that is none of a hypervisor.
const HARDWARE: &str = "-cpu max,-hypervisor,vendor=GenuineIntel
    -smbios type=1,manufacturer=LAB,product=IRON -device intel-iommu
    -device pcie-root-port,id=lane,bus=pcie.0,chassis=1 -device megasas-gen2,id=raid,bus=lane
    -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=spin0
    -device scsi-hd,bus=raid.0,scsi-id=0,drive=spin0,vendor=LAB,product=SPIN,rotation_rate=7200
    -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=spin1
    -device scsi-hd,bus=raid.0,scsi-id=1,drive=spin1,vendor=LAB,product=SPIN,rotation_rate=7200
    -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=nowhere
    -device nvme,bus=pcie.0,drive=nowhere,serial=nowhere-1
    -blockdev driver=null-co,read-zeroes=on,size=67108864,latency-ns=2000000,node-name=late
    -device ide-hd,bus=ide.4,drive=late,serial=late,model=LAB-FLASH,rotation_rate=1
    -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=slow
    -device usb-ehci,id=ehci,bus=pcie.0 -device usb-bot,bus=ehci.0,id=slow -device scsi-hd,bus=slow.0,drive=slow,vendor=LAB,product=STICK
    -blockdev driver=null-co,read-zeroes=on,size=67108864,node-name=fast
    -device qemu-xhci,id=xhci,bus=pcie.0 -device usb-bot,bus=xhci.0,id=fast -device scsi-hd,bus=fast.0,drive=fast,vendor=LAB,product=STICK";

/// Disks with overlapping tracks, of which the kernel itself does not know that they have them.
const SHINGLED: &str = "ST8000DM004-2CX188";

const NAMES: &str = "
named() { grep -l $1 /sys/block/sd*/device/model | cut -d/ -f4; }
";

const DRIVERS: &str = "
load nvme ahci sd_mod megaraid_sas ehci_pci xhci_pci usb_storage raid0 raid1 raid456 dm_multipath dm_round_robin
first=$(nvme_disk fathom-0)
second=$(nvme_disk fathom-1)
wait_for /dev/$first /dev/$second /dev/sd{a,b,c,d,e,f,g}
echo === fathom
fathom --json --quiet check
";

/// Arrays over both nodes and over disks with overlapping tracks, a map over links that differ, processors that save energy.
const CHANGED: &str = r#"
first=$(nvme_disk fathom-0)
second=$(nvme_disk fathom-1)
for disk in $first $second; do
    printf 'size=16M\nsize=16M\nsize=16M\n' | sfdisk --quiet --label gpt /dev/$disk
    wait_for /dev/${disk}p3
done
mdadm --create /dev/md0 --run --quiet --level=0 --raid-devices=2 /dev/${first}p1 /dev/${second}p1
mdadm --create /dev/md1 --run --quiet --level=5 --assume-clean --raid-devices=3 \
    /dev/${first}p2 /dev/${second}p2 /dev/${first}p3
mdadm --create /dev/md2 --run --quiet --level=1 --assume-clean --bitmap=none --raid-devices=2 \
    $(named ST8000DM004 | sed s:^:/dev/:)
set -- $(named STICK)
dmsetup create uneven --table \
    "0 131072 multipath 0 0 1 1 round-robin 0 2 1 $(cat /sys/block/$1/dev) 1 $(cat /sys/block/$2/dev) 1"
load acpi_cpufreq cpufreq_powersave
echo powersave >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
echo === fathom
fathom --json --quiet check
"#;

/// It knows one of the drives, and nobody to write to.
const WATCHED: &str = "
echo \"/dev/$(named ST8000DM004 | head -1) -a\" >/etc/smartd.conf
smartd -c /etc/smartd.conf
for _ in {1..300}; do ! pgrep -x smartd >/dev/null || break; sleep 0.1; done
echo === fathom
fathom --json --quiet check
";

/// Something holds the reads of the disk back: it is much slower than its mechanics.
const SLOW: &str = "
disk=$(named ST8000DM004 | head -1)
mkdir -p /sys/fs/cgroup
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/a
echo \"$(cat /sys/block/$disk/dev) riops=20\" >/sys/fs/cgroup/a/io.max
(echo $BASHPID >/sys/fs/cgroup/a/cgroup.procs
 fathom --db=/run/store.db run seeker /dev/$disk duration=4s || [ $? = 1 ])
echo === fathom
fathom --db=/run/store.db --json --quiet check
";

/// A disk that the kernel lets sleep, and for how long it was awake before and after the look.
const ASLEEP: &str = "
disk=$(named SPIN | head -1)
power=/sys/block/$disk/device/power
echo 50 >$power/autosuspend_delay_ms
echo auto >$power/control
for _ in {1..300}; do ! grep -q suspended $power/runtime_status || break; sleep 0.1; done
before=$(cat $power/runtime_active_time)
fathom --json --quiet check >asleep
echo $disk $(cat $power/runtime_status) $(($(cat $power/runtime_active_time) - before))
echo === fathom
cat asleep
";

/// More than a thousand small writes, each of which waits for the drive's cache.
const FLUSHED: &str = "
dd if=/dev/zero of=/dev/$(named LAB-FLASH) bs=4k count=1100 oflag=dsync status=none
echo === fathom
fathom --json --quiet check
";

/// A drive in the chip set, of which no table of the firmware says where that is. Its name, which is that of the emulator, is hidden as that of
/// the machine is.
const NOWHERE: &str = "
disk=$(nvme_disk nowhere-1)
file=$(readlink -f /sys/block/$disk/device/model)
echo LAB-NVME >model
mount --bind model $file
echo $disk $(cat /sys/block/$disk/device/numa_node)
echo === fathom
fathom --json --quiet check
umount $file
";

/// The kernel's own module puts a corrected error into the port above an adapter: its bus, device and function, no uncorrectable
/// one, a bad packet, and nothing of the packet.
const LINK: &str = r#"
load aer_inject
disk=$(named SPIN | head -1)
port=$(readlink -f /sys/block/$disk | grep -oE '[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]' | tail -2 | head -1)
numbers=$(printf '\\x%02x\\x%02x\\x%02x' $((16#${port:5:2})) $((16#${port:8:2})) ${port:11:1})
zeros() { head -c $1 /dev/zero; }
(printf "$numbers"; zeros 5; printf '\x40'; zeros 23) | dd of=/dev/aer_inject bs=32 count=1 iflag=fullblock status=none
for _ in {1..300}; do ! dmesg | grep -q 'PCIe Bus Error' || break; sleep 0.1; done
echo $port
echo === fathom
fathom --json --quiet check
"#;

/// Many more of these, each when the one before was counted: the kernel forgets what comes too fast. Without any other process, for a
/// hundred of them take a while.
const LINK_MANY: &str = r#"
port=$(readlink -f /sys/block/$(named SPIN | head -1) | grep -oE '[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]' | tail -2 | head -1)
record=$(printf '\\x%02x\\x%02x\\x%02x' $((16#${port:5:2})) $((16#${port:8:2})) ${port:11:1})
for _ in {1..5}; do record+='\x00'; done
record+='\x40'
for _ in {1..23}; do record+='\x00'; done
counter=/sys/bus/pci/devices/$port/aer_dev_correctable
counted=0
read_counter() {
    local name value
    while read -r name value; do [ $name != TOTAL_ERR_COR ] || counted=$value; done <$counter
}
read_counter
begun=$counted
for ((n = 1; n <= 120; n++)); do
    printf "$record" >/dev/aer_inject
    for _ in {1..2000}; do
        read_counter
        [ $counted -lt $((begun + n)) ] || break
    done
done
echo $port $begun $counted
echo === fathom
fathom --json --quiet check
"#;

fn job(firmware: &Path) -> GuestJob {
    let binary = fathom_binary().expect("asked for");
    let job = GuestJob::new(binary.parent().expect("a directory"));
    let hardware: Vec<&str> = HARDWARE.split_ascii_whitespace().collect();
    let firmware = format!("file={}", firmware.display());
    super::job(job)
        .qemu()
        .limit(Duration::from_secs(900))
        .cpus(8)
        .two_nodes()
        .kernel_words("pti=on intel_iommu=on iommu.strict=1 elevator=deadline")
        // Its ports do not tell what they can. Each link runs at 1.5 Gbit/s.
        .kernel_words("libata.force=5:3.0Gbps,3:1.5Gbps")
        .disk_on(Bus::NvmeNear(0), 64 << 20)
        .disk_on(Bus::NvmeNear(1), 64 << 20)
        .disk_on(Bus::SataOf(SHINGLED), 32 << 20)
        .disk_on(Bus::SataOf(SHINGLED), 32 << 20)
        .arguments(&hardware)
        .arguments(&["-acpitable", &firmware])
        .prelude(NAMES)
        .setup("drivers", "true")
        .step("iron", DRIVERS)
        .step("iron_changed", CHANGED)
        .step("iron_asleep", ASLEEP)
        .step("iron_watched", WATCHED)
        .step("iron_slow", SLOW)
        .step("iron_flushed", FLUSHED)
        .step("iron_nowhere", NOWHERE)
        .step("iron_link", LINK)
        .step("iron_link_many", LINK_MANY)
}

fn iron() {
    let scratch = Scratch::new().expect("a directory");
    let table = scratch.join("firmware");
    let digits = FIRMWARE.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("text"));
    let bytes = digits.map(|pair| u8::from_str_radix(pair, 16).expect("digits"));
    std::fs::write(&table, bytes.collect::<Vec<u8>>()).expect("written");
    let report = Guest::boot(job(&table)).and_then(Guest::wait).map_err(|e| e.to_string());
    let report = report.unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest iron: {}", report.times());
    as_made(&report);
    changed(&report);
    asleep(&report);
    watched(&report);
    link(&report);
    flushed(&report);
    nowhere(&report);
}

fn nowhere(report: &GuestReport) {
    let look = look(report, "iron_nowhere");
    let said = report.step("iron_nowhere").stdout.lines().next().unwrap_or_default();
    let Some((disk, "-1")) = said.split_once(' ') else { panic!("{said}") };
    let found: Vec<String> =
        look.found().into_iter().filter(|found| found.starts_with("numa-unknown ")).collect();
    assert_eq!(found, [format!("numa-unknown /dev/{disk}")]);
}

/// The drives whose model begins so, whichever names they have got: the kernel looks for them in parallel.
fn drives<'l>(look: &'l Look, model: &str) -> Vec<&'l str> {
    let is_one = |node: &&Value| {
        node["drive"]["model"].as_str().is_some_and(|whole| whole.starts_with(model))
    };
    look.nodes().iter().filter(is_one).filter_map(|node| node["path"].as_str()).collect()
}

/// The drive of flash.
fn flash(look: &Look) -> &str {
    drives(look, "LAB-FLASH").first().expect("the drive")
}

fn flushed(report: &GuestReport) {
    let look = look(report, "iron_flushed");
    look.has(&[&format!("flushes-slow {}", flash(&look))]);
    contains(&look.defect("flushes-slow").to_string(), &["on average to flush"]);
}

/// A disk that sleeps is listed and not woken.
fn asleep(report: &GuestReport) {
    let look = look(report, "iron_asleep");
    let said = report.step("iron_asleep").stdout.lines().next().unwrap_or_default();
    let words: Vec<&str> = said.split(' ').collect();
    assert_eq!(words[1..], ["suspended", "0"], "{said}");
    assert_eq!(look.node(words[0])["detail"]["untouched"], "suspended");
    let unread = look.result["snapshot"]["unread"].to_string();
    contains(&unread, &["suspended: not touched"]);
}

/// What the steps bring about, each on the layer that causes it.
const BROUGHT_ABOUT: [&str; 12] = [
    "cpu-governor",
    "cpu-idle-deep",
    "cpu-mitigations",
    "flushes-slow",
    // Its ports say at boot that they can tell errors, which is none.
    "kernel-log-link-errors",
    "md-group-threads",
    "multipath-selector",
    "numa-split",
    "smart-misses-drives",
    "smart-no-alarm",
    "smart-no-monitor",
    "smr-in-array",
];

fn as_made(report: &GuestReport) {
    let look = look(report, "iron");
    assert_eq!(look.result["snapshot"]["host"]["virtualisation"], "none");
    look.lacks(&BROUGHT_ABOUT);
    contains(
        &look.defect("hardware-queues-few").to_string(),
        &["has 1 hardware queue for 8 processors"],
    );
    // Told once for all drives of which it is so, whichever of them comes first.
    let features = look.defect("drive-features");
    let shingled = drives(&look, "ST8000DM004");
    assert_eq!(shingled.len(), 2);
    let summary = features["summary"].as_str().unwrap_or_default();
    let is_named =
        |path: &&str| summary == format!("the look-ahead of {} is off", &path["/dev/".len()..]);
    assert_eq!(shingled.iter().filter(|path| is_named(path)).count(), 1, "{summary}");
    for place in ["evidence", "fix"] {
        contains(&features[place].to_string(), &shingled);
    }
    contains(&features["evidence"].to_string(), &["look-ahead: supported, off"]);
    contains(
        &look.defect("boot-parameters-left").to_string(),
        &["started with elevator=deadline: the kernel ignores it"],
    );
    contains(&look.defect("pcie-transfer-size").to_string(), &["pieces of 128 bytes"]);
    let slow: Vec<String> =
        look.found().into_iter().filter(|found| found.starts_with("sata-link-slow ")).collect();
    assert_eq!(slow, [format!("sata-link-slow {}", flash(&look))]);
    let slow = look.defect("sata-link-slow").to_string();
    contains(&slow, &["runs at 1.5 Gbit/s instead of 3.0 Gbit/s", "\"high\""]);
    contains(&look.defect("iommu-strict").to_string(), &["strict mode for nvme0, nvme1"]);
    contains(
        &look.defect("link-oversubscribed").to_string(),
        &["2 drives can read 400", "the PCI Express link that they share carries"],
    );
}

fn changed(report: &GuestReport) {
    let look = look(report, "iron_changed");
    look.has(&["numa-split /dev/md0", "md-group-threads /dev/md1", "multipath-selector /dev/dm-0"]);
    let expected = [
        ("cpu-governor", "scaling_governor"),
        ("cpu-idle-deep", "200 us"),
        ("cpu-mitigations", "Mitigation: PTI"),
        ("md-group-threads", "one of 8 CPUs"),
        ("multipath-selector", "480 Mbit/s"),
        ("numa-split", "numa_node 1"),
        ("smart-no-monitor", "no smartd"),
        ("smr-in-array", "raid1 md2"),
    ];
    for (rule, words) in expected {
        contains(&look.defect(rule).to_string(), &[words]);
    }
    look.lacks(&["smart-no-alarm", "smart-misses-drives"]);
}

fn watched(report: &GuestReport) {
    let look = look(report, "iron_watched");
    look.lacks(&["smart-no-monitor"]);
    contains(&look.defect("smart-no-alarm").to_string(), &["no directive -m"]);
    contains(&look.defect("smart-misses-drives").to_string(), &["no DEVICESCAN"]);
    look.lacks(&["access-time-high"]);
    let slow = self::look(report, "iron_slow");
    contains(&slow.defect("access-time-high").to_string(), &["7200", "half a rotation"]);
}

/// A single bad packet that the port has received stands in the log only, for its adapter counts nothing; of many the counter of the port
/// tells, and the log no longer.
fn link(report: &GuestReport) {
    let look = look(report, "iron_link");
    let port = report.step("iron_link").stdout.lines().next().unwrap_or_default();
    let found = look.defect("kernel-log-link-errors").to_string();
    contains(&found, &[port, "severity=Corrected"]);
    look.lacks(&["pcie-errors"]);
    let many = self::look(report, "iron_link_many");
    let said = report.step("iron_link_many").stdout.lines().next().unwrap_or_default();
    let [port, begun, counted] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_eq!((begun, counted), ("1", "121"), "{said}");
    let found = many.defect("pcie-errors");
    assert!(drives(&many, "SPIN").contains(&found["node"].as_str().unwrap_or_default()), "{found}");
    contains(
        &found.to_string(),
        &["121 corrected errors", &format!("/sys/bus/pci/devices/{port}/aer_dev_correctable")],
    );
    many.lacks(&["kernel-log-link-errors"]);
}
