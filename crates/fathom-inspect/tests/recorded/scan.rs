//! Whole machines: what is entered, what is left out, what is collected beside.

use crate::machines;
use fathom_inspect::{Scan, scan};
use fathom_model::snapshot::{MOUNTS_FILE, Machine, Unread};
use fathom_model::stack::{Detail, Node, NodeKind};
use fathom_testkit::Tree;
use std::collections::BTreeSet;
use std::path::PathBuf;

fn look(machine: &str) -> Scan {
    look_at(machine, &[])
}

fn look_at(machine: &str, targets: &[&str]) -> Scan {
    let tree = Tree::of_text(machine);
    let targets: Vec<PathBuf> = targets.iter().map(PathBuf::from).collect();
    let scan = scan(&tree.root(), &targets).unwrap();
    check_graph(&scan.machine);
    scan
}

/// What holds for every machine: indexes lead to nodes, keys are unique, and the tops are those that nothing stands on.
pub fn check_graph(machine: &Machine) {
    let count = machine.nodes.len();
    assert!(machine.nodes.iter().flat_map(|node| &node.below).all(|&below| below < count));
    let keys: BTreeSet<String> = machine.nodes.iter().map(Node::key).collect();
    assert_eq!(keys.len(), count, "{keys:?}");
    let above = machine.above();
    let tops: Vec<usize> = (0..count).filter(|&index| above[index].is_empty()).collect();
    assert_eq!(machine.tops, tops);
}

fn keys(machine: &Machine, indexes: impl IntoIterator<Item = usize>) -> Vec<String> {
    indexes.into_iter().map(|index| machine.nodes[index].key()).collect()
}

fn tops(scan: &Scan) -> Vec<String> {
    keys(&scan.machine, scan.machine.tops.iter().copied())
}

fn node<'a>(scan: &'a Scan, key: &str) -> &'a Node {
    let found = scan.machine.nodes.iter().find(|node| node.key() == key);
    found.unwrap_or_else(|| panic!("{key} is not among {:?}", all_keys(scan)))
}

fn all_keys(scan: &Scan) -> Vec<String> {
    scan.machine.nodes.iter().map(Node::key).collect()
}

fn below(scan: &Scan, key: &str) -> Vec<String> {
    keys(&scan.machine, node(scan, key).below.iter().copied())
}

fn detail<'a>(scan: &'a Scan, key: &str) -> &'a Detail {
    node(scan, key).details()
}

fn value<'a>(list: &'a [(String, String)], name: &str) -> Option<&'a str> {
    list.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_server_as_one_graph() {
    let scan = look(&machines::six_disk_array("idle", "none", 0));
    // The root's device is not in this tree; the array stands once, under everything that uses it.
    assert_eq!(tops(&scan), ["/", "/srv/data"]);
    assert_eq!(below(&scan, "/srv/data"), ["ext4 on /dev/dm-0"]);
    assert_eq!(below(&scan, "ext4 on /dev/dm-0"), ["/dev/dm-0"]);
    assert_eq!(below(&scan, "/dev/md10").len(), 6);
    let disks = scan.machine.nodes.iter().filter(|node| node.kind == NodeKind::Disk);
    assert_eq!(disks.count(), 6);
    assert_eq!(node(&scan, "/dev/dm-0").dm.as_ref().unwrap().targets, ["linear"]);
    assert_eq!(scan.unread, []);
}

#[test]
fn a_card_and_a_share() {
    let scan = look(&machines::card_and_share());
    assert_eq!(below(&scan, "/"), ["f2fs on /dev/mmcblk0p2"]);
    assert_eq!(below(&scan, "f2fs on /dev/mmcblk0p2"), ["/dev/mmcblk0p2"]);
    assert_eq!(below(&scan, "/dev/mmcblk0p2"), ["/dev/mmcblk0"]);
    let card = node(&scan, "/dev/mmcblk0");
    let drive = card.drive.as_ref().unwrap();
    assert_eq!((card.kind, drive.transport.as_deref()), (NodeKind::Disk, Some("mmc")));
    assert_eq!(
        (drive.model.as_deref(), drive.serial.as_deref()),
        (Some("SC32G"), Some("0x5f3c1a2b"))
    );
    let share = node(&scan, &below(&scan, "/mnt/share")[0]);
    assert_eq!((share.kind, share.name.as_str()), (NodeKind::Remote, "cifs"));
    assert!(share.below.is_empty() && share.path.as_deref() == Some("//filer/share"));
}

#[test]
fn targets_narrow_the_look() {
    let machine = machines::six_disk_array("idle", "none", 0);
    let scan = look_at(&machine, &["/dev/sdb", "/dev/sda"]);
    assert_eq!(all_keys(&scan), ["/dev/sdb", "/dev/sda"]);
    assert_eq!(node(&scan, "/dev/sda").mounted_at, ["/srv/data"]);
    assert_eq!(detail(&scan, "/dev/sda").host.as_deref(), Some("host0"));
    let shared = look_at(&machine, &["/srv/data/file", "/dev/sda"]);
    assert_eq!(tops(&shared), ["/srv/data"]);
    let missing = Tree::of_text("[proc]\nx = y\n");
    assert!(scan_error(&missing).contains("no mount holds it"));
}

/// Of a disk that is named its partitions are looked at too: what it holds is there.
#[test]
fn a_disk_brings_its_partitions() {
    let machine = machines::card_and_share();
    let scan = look_at(&machine, &["/dev/mmcblk0"]);
    assert_eq!(tops(&scan), ["/dev/mmcblk0p2"]);
    assert_eq!(below(&scan, "/dev/mmcblk0p2"), ["/dev/mmcblk0"]);
    assert_eq!(node(&scan, "/dev/mmcblk0p2").mounted_at, ["/"]);
    assert_eq!(all_keys(&look_at(&machine, &["/dev/mmcblk0p2"])).len(), 2);
    // Those that device-mapper makes of a table too, and nothing else that stands on it.
    let mapped = "
[proc/self]
mountinfo = 27 1 254:2 / / rw - ext4 /dev/mapper/disk-part1 rw
[sys/devices/virtual/block/dm-0]
dev = 254:0
size = 62333952
dm/name = disk
dm/uuid = mpath-3600
holders/dm-1 -> ../../dm-1
holders/dm-2 -> ../../dm-2
[sys/devices/virtual/block/dm-1]
dev = 254:1
size = 2048
dm/name = vg-lv
dm/uuid = LVM-x
slaves/dm-0 -> ../../dm-0
[sys/devices/virtual/block/dm-2]
dev = 254:2
size = 2048
dm/name = disk-part1
dm/uuid = part1-mpath-3600
slaves/dm-0 -> ../../dm-0
";
    let scan = look_at(mapped, &["/dev/dm-0"]);
    assert_eq!(tops(&scan), ["/dev/dm-2"]);
    assert_eq!(below(&scan, "/dev/dm-2"), ["/dev/dm-0"]);
}

#[test]
fn what_lists_devices_and_mounts_is_told_when_it_is_not_there() {
    let told = |text: &str| -> Vec<String> {
        let scan = look(text);
        scan.unread.iter().map(|unread| unread.what.clone()).collect()
    };
    assert_eq!(told(&machines::card_and_share()), [""; 0]);
    let mounts = "[proc/self]\nmountinfo = 27 1 254:0 / / rw - ext4 /dev/vda rw\n";
    assert_eq!(told(mounts), ["/sys/class/block"]);
    let of_one = look_at(mounts, &["/"]).unread;
    assert_eq!(of_one.len(), 1, "as in a chroot: {of_one:?}");
    assert_eq!(of_one[0].what, "/sys/class/block");
    let devices = "[sys/class/block]\n";
    assert_eq!(told(devices), [MOUNTS_FILE]);
    let named = look_at(&machines::card_and_share().replace("mountinfo", "x"), &["/dev/mmcblk0"]);
    assert_eq!(named.unread[0].what, MOUNTS_FILE);
}

fn scan_error(tree: &Tree) -> String {
    scan(&tree.root(), &[PathBuf::from("/srv")]).unwrap_err().to_string()
}

#[test]
fn what_is_empty_or_made_up_is_left_out() {
    let machine = machines::virtio_root()
        + "
[sys/devices/virtual/block/loop0]
dev = 7:0
size = 0
[sys/devices/virtual/block/ram0]
dev = 1:0
size = 8192
[sys/devices/virtual/block/ram1]
dev = 1:1
size = 8192
[sys/devices/virtual/block/zram0]
dev = 252:0
size = 0
[sys/devices/virtual/block/nbd0]
dev = 43:0
size = 0
[sys/devices/virtual/block/md0]
dev = 9:0
size = 0
slaves/vda -> ../../vda
md/array_state = inactive
[proc]
swaps = Filename Type Size Used Priority\\n/dev/ram1 partition 4096 0 -2
filesystems = nodev\tmystery\\n\text4\\nnodev\tzfs
";
    let mounts = "mountinfo = 22 27 0:21 / /proc rw - proc proc rw\\n23 27 0:6 / /dev rw - devtmpfs dev rw\\n\
                  24 27 0:30 / /run rw - tmpfs tmpfs rw\\n25 27 0:31 / /odd rw - mystery none rw\\n";
    let scan = look(&machine.replace("mountinfo = ", mounts));
    assert_eq!(tops(&scan), ["/dev/md0", "/dev/ram1", "/run", "/"]);
    assert_eq!(below(&scan, "/run"), ["tmpfs at /run"]);
    assert_eq!(below(&scan, "/dev/md0"), ["/dev/vda"]);
}

#[test]
fn mounts_of_all_namespaces_stand_once() {
    let own =
        "27 1 254:0 / / rw - ext4 /dev/vda rw\\n30 27 254:0 /var/x /srv rw - ext4 /dev/vda rw";
    let inside = "90 80 254:0 / / rw - ext4 /dev/vda rw\\n91 90 254:0 /priv /tmp rw - ext4 /dev/vda rw\\n\
                  92 90 0:50 / /run rw - tmpfs tmpfs rw\\n93 90 0:60 / /c rw - overlay overlay rw,upperdir=/var/up";
    let other = inside.replace("90", "190").replace("91", "191");
    let machine = machines::virtio_root();
    let start = machine.find("mountinfo").unwrap();
    let end = start + machine[start..].find('\n').unwrap();
    let machine = format!(
        "{}mountinfo = {own}\nns/mnt -> mnt:[1]\n[proc/1]\nns/mnt -> mnt:[1]\nmountinfo = {own}\n\
         [proc/40]\nns/mnt -> mnt:[2]\ncomm = postgres\nmountinfo = {inside}\n\
         [proc/41]\nns/mnt -> mnt:[2]\ncomm = worker\nmountinfo = {inside}\n\
         [proc/100]\nns/mnt -> mnt:[3]\ncomm = nginx\nmountinfo = {other}\n{}",
        &machine[..start],
        &machine[end..],
    );
    let scan = look(&machine);
    let private = "/tmp (as 40 postgres sees it)";
    let merged = "/c (as 40 postgres sees it)";
    assert_eq!(tops(&scan), ["/srv", private, merged]);
    assert_eq!(detail(&scan, "/").other_namespaces, ["40 postgres", "100 nginx"]);
    assert_eq!(detail(&scan, private).other_namespaces, ["40 postgres", "100 nginx"]);
    assert_eq!(below(&scan, private), below(&scan, "/"));
    assert_eq!(below(&scan, "/srv"), below(&scan, "/"));
    assert_eq!(below(&scan, "overlay at /c"), ["/"]);
    assert!(detail(&scan, "/srv").other_namespaces.is_empty());
}

/// What is read from an overlay may come from each of its layers.
#[test]
fn an_overlay_stands_on_all_that_holds_its_layers() {
    let of = |options: &str| {
        let machine = machines::virtio_root().replace(
            "mountinfo = ",
            &format!(
                "mountinfo = 30 27 0:50 / /run rw - tmpfs tmpfs rw\\n31 27 7:0 / /rofs ro - squashfs /dev/loop0 ro\\n\
                 32 27 0:60 / /merged rw - overlay overlay rw,{options}\\n",
            ),
        );
        below(&look(&machine), "overlay at /merged")
    };
    assert_eq!(of("lowerdir=/rofs:/srv,upperdir=/run/up,workdir=/run/w"), ["/run", "/rofs", "/"]);
    assert_eq!(of("lowerdir+=/srv/a,lowerdir+=/srv/b,datadir+=/rofs"), ["/", "/rofs"]);
    let relative = "directory a, relative to an unknown one";
    assert_eq!(of("lowerdir=a:b:/rofs:/merged/x,upperdir=/run/up"), ["/run", relative, "/rofs"]);
    // Of what another namespace calls so nothing is known.
    assert_eq!(of("lowerdir=/rofs:/srv,upperdir=/merged/up"), ["/merged/up"]);
}

#[test]
fn hidden_mounts_and_remote_ones_are_shown_as_such() {
    let machine = machines::virtio_root().replace(
        "mountinfo = ",
        "mountinfo = 40 27 0:52 / /data rw - nfs4 filer:/a rw\\n41 40 0:53 / /data rw - nfs4 filer:/a rw\\n",
    );
    let scan = look(&machine);
    let hidden = "/data (hidden by another mount)";
    assert_eq!(tops(&scan), ["/data", "/", hidden]);
    assert_eq!(below(&scan, "/data"), ["filer:/a"]);
    assert_eq!(below(&scan, hidden), ["filer:/a (2)"]);
    assert_eq!(node(&scan, "filer:/a").kind, NodeKind::Remote);
}

/// One AHCI disk with everything that its kernel says of it.
fn detailed_disk() -> String {
    let port = "sys/devices/pci0000:00/0000:00:1f.2/ata1";
    let scsi = format!("{port}/host0/target0:0:0/0:0:0:0");
    let first = machines::six_disk_array("check", "1 / 4", 0)
        .replace("queue_depth = 31", "queue_depth = 31\ntimeout = 30");
    format!(
        "{first}
[{scsi}/block/sda]
inflight =       2        1
stat = 100 0 800 40 50 0 400 30 0 60 70 5 0 40 1 6 9
queue/max_segments = 168
queue/hw_sector_size = 512
queue/iosched/read_expire = 500
mq/0/cpu_list = 0, 1
[{scsi}/power]
runtime_status = active
[sys/devices/pci0000:00/0000:00:1f.2]
numa_node = -1
aer_dev_correctable = RxErr 2\\nTOTAL_ERR_COR 2
aer_dev_nonfatal = TOTAL_ERR_NONFATAL 0
aer_dev_fatal = TOTAL_ERR_FATAL 1
iommu_group -> ../../../kernel/iommu_groups/7
[sys/kernel/iommu_groups/7]
type = DMA-FQ
[{port}/host0/scsi_host/host0]
proc_name = ahci
can_queue = 32
cmd_per_lun = 1
link_power_management_policy = med_power_with_dipm
[dev/disk/by-id]
wwn-0x50014ee200000001 -> ../../sda
[dev/disk/by-path]
pci-0000:00:1f.2-ata-1 -> ../../sda
[sys/devices/virtual/block/md10]
md/sync_speed_max = 200000 (system)
md/bitmap/backlog = 0
md/dev-sda/bad_blocks = 800 8\\n1600 8
md/dev-sdb/bad_blocks = -
"
    )
}

#[test]
fn details_of_devices() {
    let scan = look(&detailed_disk());
    let sda = detail(&scan, "/dev/sda");
    assert_eq!(sda.in_flight, Some((2, 1)));
    let counters = sda.counters.as_ref().unwrap();
    assert_eq!((counters.read_bytes, counters.flushes), (800 * 512, 6));
    assert_eq!(value(&sda.queue, "max_segments"), Some("168"));
    assert_eq!(sda.queue.len(), 1, "what records hold stands there: {:?}", sda.queue);
    assert_eq!(value(&sda.scheduler, "read_expire"), Some("500"));
    assert_eq!(sda.queue_cpus, ["0, 1"]);
    assert_eq!(sda.links, ["by-id/wwn-0x50014ee200000001", "by-path/pci-0000:00:1f.2-ata-1"]);
    assert_eq!(sda.timeout_s, Some(30));
    assert_eq!(sda.sata_speed, Some(("3.0 Gbps".to_owned(), "3.0 Gbps".to_owned())));
    assert_eq!(sda.host.as_deref(), Some("host0"));
    assert_eq!(sda.address.as_deref(), Some("0:0:0:0"));
    assert_eq!((sda.untouched.as_ref(), sda.health.as_ref()), (None, None));

    let array = detail(&scan, "/dev/md10");
    assert_eq!(value(&array.md, "sync_speed_max"), Some("200000 (system)"));
    assert_eq!(value(&array.md, "bitmap/backlog"), Some("0"));
    assert_eq!(value(&array.md, "level"), None);
    assert_eq!(array.bad_blocks[0], ("sda".to_owned(), 2));
}

#[test]
fn adapters_and_their_links() {
    let scan = look(&detailed_disk());
    assert_eq!(scan.hosts.len(), 6, "one for each port");
    let host = &scan.hosts[0];
    assert_eq!((host.name.as_str(), host.driver.as_deref()), ("host0", Some("ahci")));
    assert_eq!(host.pci_address.as_deref(), Some("0000:00:1f.2"));
    assert_eq!((host.can_queue, host.commands_per_lun), (Some(32), Some(1)));
    assert_eq!(host.link_power_policy.as_deref(), Some("med_power_with_dipm"));
    assert_eq!(host.ata_port, Some(1));
    assert_eq!(host.aer_errors, Some((2, 0, 1)));
    assert_eq!((host.iommu_type.as_deref(), host.numa_node), (Some("DMA-FQ"), Some(-1)));
    assert!(host.link.is_empty(), "it is in the chip set");
    // The host templates of 3ware's and Areca's drivers name nobody; the adapter's own driver does.
    for nobody in ["(null)", "<NULL>"] {
        let tree = detailed_disk().replace("proc_name = ahci", &format!("proc_name = {nobody}"));
        assert_eq!(look(&tree).hosts[0].driver.as_deref(), Some("ahci"), "{nobody}");
    }

    let nvme = look(&nvme_below_a_port());
    let host = nvme.hosts.iter().find(|host| host.name == "nvme0").unwrap();
    assert_eq!(host.transport.as_deref(), Some("pcie"));
    assert_eq!(host.latency_tolerance_us.as_deref(), Some("100000"));
    let link = |index: usize| {
        let link = &host.link[index];
        let rates = (link.speed_gts_x10, link.speed_max_gts_x10);
        (link.address.as_str(), rates, (link.width, link.width_max))
    };
    assert_eq!(link(0), ("0000:01:00.0", (Some(80), Some(160)), (Some(2), Some(4))));
    assert_eq!(link(1), ("0000:00:01.0", (Some(80), Some(80)), (Some(2), Some(4))));
    assert_eq!((host.aer_errors, host.link[0].aer_errors), (None, None));
    assert_eq!(host.link[1].aer_errors, Some((7, 1, 0)), "of the port");
    assert_eq!(detail(&nvme, "/dev/nvme0n1").host.as_deref(), Some("nvme0"));
    assert_eq!(detail(&nvme, "/dev/nvme0n1").address, None);
    assert_eq!(detail(&nvme, "/dev/nvme0n1").timeout_s, Some(30));
}

fn nvme_below_a_port() -> String {
    let root_port = "sys/devices/pci0000:00/0000:00:01.0";
    let function = format!("{root_port}/0000:01:00.0");
    format!(
        "
[proc/self]
mountinfo = 20 1 0:20 / / rw - tmpfs tmpfs rw
[{root_port}]
current_link_speed = 8.0 GT/s PCIe
max_link_speed = 8.0 GT/s PCIe
current_link_width = 2
max_link_width = 4
aer_dev_correctable = BadTLP 7\\nTOTAL_ERR_COR 7
aer_dev_nonfatal = TOTAL_ERR_NONFATAL 1
aer_dev_fatal = TOTAL_ERR_FATAL 0
[{function}]
subsystem -> ../../../../bus/pci
driver -> ../../../../bus/pci/drivers/nvme
current_link_speed = 8.0 GT/s PCIe
max_link_speed = 16.0 GT/s PCIe
current_link_width = 2
max_link_width = 4
power/runtime_status = active
[{function}/nvme/nvme0]
subsystem -> ../../../../../../class/nvme
device -> ../../../0000:01:00.0
state = live
transport = pcie
power/pm_qos_latency_tolerance_us = 100000
[{function}/nvme/nvme0/nvme0n1]
dev = 259:0
size = 8192
device -> ../../nvme0
queue/io_timeout = 30000
"
    )
}

/// The same, with its configuration space.
fn with_configuration(machine: &str, runtime: &str) -> (Tree, Scan) {
    let tree = Tree::of_text(&machine.replace("runtime_status = active", runtime));
    let mut space = vec![0u8; 256];
    (space[6], space[0x34], space[0x40]) = (0x10, 0x40, 0x10);
    let control: u16 = 1 << 5 | 2 << 12;
    space[0x48..0x4a].copy_from_slice(&control.to_le_bytes());
    tree.put("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/config", &space);
    let scan = scan(&tree.root(), &[]).unwrap();
    (tree, scan)
}

#[test]
fn what_sleeps_is_not_touched_and_listed() {
    let awake = with_configuration(&nvme_below_a_port(), "runtime_status = active").1;
    let link = &awake.hosts[0].link[0];
    assert_eq!((link.max_payload_bytes, link.max_read_request_bytes), (Some(256), Some(512)));
    assert_eq!(awake.unread, []);
    let asleep = with_configuration(&nvme_below_a_port(), "runtime_status = suspended").1;
    let link = &asleep.hosts[0].link[0];
    assert_eq!((link.speed_gts_x10, link.max_payload_bytes), (None, None));
    assert_eq!(detail(&asleep, "/dev/nvme0n1").untouched.as_deref(), Some("suspended"));
    let told = |what: &str, why: &str| Unread { what: what.into(), why: why.into() };
    let function = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0: PCI Express link";
    assert_eq!(
        asleep.unread,
        [
            told("/dev/nvme0n1: superblocks and health", "suspended: not touched"),
            told(function, "suspended: not touched"),
        ]
    );
}

#[test]
fn a_suspended_volume_rests_with_all_that_stands_on_it() {
    let machine =
        machines::dm_crypt().replace("dm/name = home", "dm/name = home\ndm/suspended = 1");
    let scan = look(&machine);
    assert_eq!(detail(&scan, "/dev/dm-0").untouched.as_deref(), Some("suspended"));
    assert_eq!(detail(&scan, "/dev/sda").untouched, None);
    assert_eq!(scan.unread.len(), 1);
    let blocked = machines::dm_multipath().replacen("state = running", "state = blocked", 1);
    let scan = look(&blocked);
    assert_eq!(detail(&scan, "/dev/sda").untouched.as_deref(), Some("blocked"));
    assert_eq!(detail(&scan, "/dev/dm-0").untouched, None, "there is another path");
}

/// A loop device whose file lies on a filesystem of that type, and an overlay that has a layer there.
fn image_on(fs_type: &str) -> String {
    format!(
        "
[proc/self]
mountinfo = 22 1 8:1 / / rw - ext4 /dev/sda1 rw\\n41 22 0:50 / /images rw - {fs_type} server:/images rw\\n42 22 7:0 / /mnt ro - iso9660 /dev/loop0 ro\\n43 22 0:51 / /work rw - overlay overlay rw,lowerdir=/base:/images/base,upperdir=/up
[images]
disk.img = 0123456789
[sys/devices/virtual/block/loop0]
dev = 7:0
size = 2048
loop/backing_file = /images/disk.img
"
    )
}

#[test]
fn files_of_another_machine_are_not_looked_at() {
    let size =
        |scan: &Scan| node(scan, "/dev/loop0").loop_device.as_ref().unwrap().backing_size_bytes;
    let here = look(&image_on("ext4"));
    assert!(size(&here).is_some_and(|bytes| bytes >= 10));
    assert_eq!((detail(&here, "/dev/loop0").untouched.as_ref(), &here.unread), (None, &Vec::new()));
    for fs_type in ["nfs4", "cifs", "fuse.sshfs", "fuseblk"] {
        let there = look(&image_on(fs_type));
        assert_eq!(size(&there), None, "{fs_type}");
        assert_eq!(detail(&there, "/dev/loop0").untouched.as_deref(), Some("remote"));
        assert_eq!(
            (below(&there, "/mnt"), below(&there, "/dev/loop0")),
            (vec!["iso9660 on /dev/loop0".to_owned()], vec!["/images".to_owned()])
        );
        let told = |what: &str, why: &str| Unread { what: what.to_owned(), why: why.to_owned() };
        assert_eq!(
            there.unread,
            [
                told("/dev/loop0: superblocks and its file", "remote: not touched"),
                told("space of /work", "behind another machine: not asked"),
            ]
        );
    }
}

#[test]
fn a_device_of_another_machine_is_read_only_when_it_is_asked_for() {
    let machine = "[proc/self]\nmountinfo = 30 1 43:0 / /far rw - ext4 /dev/nbd0 rw\n\
                   [sys/devices/virtual/block/nbd0]\ndev = 43:0\nsize = 2097152\n";
    let scan = look(machine);
    assert_eq!(node(&scan, "/dev/nbd0").kind, NodeKind::Remote);
    assert_eq!(detail(&scan, "/dev/nbd0").untouched.as_deref(), Some("remote"));
    let what = "/dev/nbd0: superblocks and health".to_owned();
    assert_eq!(scan.unread, [Unread { what, why: "remote: not touched".into() }]);
    assert_eq!(detail(&look_at(machine, &["/far"]), "/dev/nbd0").untouched, None);
}

#[test]
fn namespaces_of_nvme_stand_on_their_paths() {
    let scan = look(&machines::nvme_multipath());
    assert_eq!(tops(&scan), ["/fast"]);
    assert_eq!(below(&scan, "/dev/nvme0n1"), ["nvme0c0n1", "nvme0c1n1"]);
    assert_eq!(detail(&scan, "nvme0c1n1").access_state.as_deref(), Some("non-optimized"));
    assert_eq!(scan.hosts.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(), ["nvme0", "nvme1"]);
    assert_eq!(node(&scan, "/dev/nvme0n1p1").kind, NodeKind::Partition);
    assert_eq!(below(&scan, "/fast"), ["xfs 0f0f0f0f-1111-2222-3333-444444444444"]);
}

#[test]
fn btrfs_and_zfs_stand_on_all_their_devices() {
    let device = |name: &str, minor: u32, udev: &str| {
        format!(
            "[sys/devices/virtual/block/{name}]\ndev = 8:{minor}\nsize = 2097152\n\
             [run/udev/data]\nb8:{minor} = {udev}\n"
        )
    };
    let uuid = "0b1c0b1c-1111-2222-3333-444444444444";
    let zfs = "E:ID_FS_TYPE=zfs_member\\nE:ID_FS_LABEL=tank";
    let machine = format!(
        "[proc/self]\nmountinfo = 30 1 0:40 / /pair rw - btrfs /dev/sda rw\\n\
         31 1 0:40 /sub /sub rw - btrfs /dev/sda rw\\n32 1 0:41 / /tank rw - zfs tank/data rw\n{}{}{}{}\
         [sys/fs/btrfs/{uuid}]\nnodesize = 16384\ndevices/sda -> ../../../../block/sda\n\
         devices/sdb -> ../../../../block/sdb\nallocation/data/disk_total = 1073741824\n\
         allocation/metadata/disk_total = 536870912\nallocation/system/disk_total = 16777216\n\
         allocation/data/raid0/used_bytes = 1\nbdi/read_ahead_kb = 4096\n",
        device("sda", 0, "E:X=1"),
        device("sdb", 16, "E:X=1"),
        device("sdc", 32, zfs),
        device("sdd", 48, zfs),
    );
    let scan = look(&machine);
    assert_eq!(tops(&scan), ["/pair", "/sub", "/tank"]);
    let btrfs = format!("btrfs {uuid}");
    assert_eq!(below(&scan, "/pair"), [btrfs.as_str()]);
    assert_eq!(below(&scan, "/sub"), [btrfs.as_str()]);
    assert_eq!(below(&scan, &btrfs), ["/dev/sda", "/dev/sdb"]);
    let facts = detail(&scan, &btrfs);
    let allocated = (1u64 << 30) + (512 << 20) + (16 << 20);
    assert_eq!(facts.unallocated_bytes, Some((2 << 30) - allocated));
    assert_eq!(facts.bdi_read_ahead_kib, Some(4096));
    assert_eq!(value(&facts.filesystem, "nodesize"), Some("16384"));
    assert_eq!(value(&facts.filesystem, "allocation/data/raid0/used_bytes"), Some("1"));
    assert_eq!(below(&scan, "zfs on /dev/sdc"), ["/dev/sdc", "/dev/sdd"]);
}

#[test]
fn twins_have_keys_of_their_own() {
    let label = "E:ID_FS_UUID=0b1c\\nE:ID_FS_TYPE=xfs";
    let machine = format!(
        "[proc/self]\nmountinfo = 30 1 8:0 / /a rw - xfs /dev/sda rw\\n31 1 8:16 / /b rw - xfs /dev/sdb rw,nouuid\n\
         [run/udev/data]\nb8:0 = {label}\nb8:16 = {label}\n[sys/devices/virtual/block/sda]\ndev = 8:0\nsize = 8\n\
         [sys/devices/virtual/block/sdb]\ndev = 8:16\nsize = 8\n"
    );
    let scan = look(&machine);
    assert_eq!(below(&scan, "/a"), ["xfs 0b1c"]);
    assert_eq!(below(&scan, "/b"), ["xfs on /dev/sdb"]);
}
