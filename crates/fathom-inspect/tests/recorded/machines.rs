//! The machines.

/// One of the SATA disks behind an AHCI controller: `sda` is 0.
fn sata_disk(index: usize, holder: &str) -> String {
    let letter = char::from(b'a' + index as u8);
    let (port, minor) = (index + 1, index * 16);
    let host = "sys/devices/pci0000:00/0000:00:1f.2";
    let scsi = format!("{host}/ata{port}/host{index}/target{index}:0:0/{index}:0:0:0");
    format!(
        "
[{host}]
subsystem -> ../../../bus/pci
driver -> ../../../bus/pci/drivers/ahci
[{host}/ata{port}/link{port}/ata_link/link{port}]
sata_spd = 3.0 Gbps
hw_sata_spd_limit = 3.0 Gbps
[{scsi}]
subsystem -> ../../../../../../../bus/scsi
vendor = ATA
model = WD10EACS
rev = 01.0
state = running
queue_depth = 31
wwid = naa.50014ee2000000{port:02x}
scsi_disk/{index}:0:0:0/cache_type = write back
[{scsi}/block/sd{letter}]
dev = 8:{minor}
size = 1953525168
ro = 0
alignment_offset = 0
device -> ../../../{index}:0:0:0
holders/{holder} -> ../../../../../../../../../virtual/block/{holder}
queue/logical_block_size = 512
queue/physical_block_size = 512
queue/minimum_io_size = 512
queue/optimal_io_size = 0
queue/scheduler = none [mq-deadline] kyber
queue/nr_requests = 64
queue/read_ahead_kb = 128
queue/rotational = 1
queue/write_cache = write back
mq/0/nr_tags = 31
"
    )
}

/// ext4 on a linear LV on raid10 far=2 of six SATA disks, with `sync_action` as given.
pub fn six_disk_array(sync_action: &str, sync_completed: &str, degraded: u32) -> String {
    let disks: String = (0..6).map(|index| sata_disk(index, "md10")).collect();
    let members: String = ('a'..='f')
        .enumerate()
        .map(|(slot, letter)| {
            format!(
                "slaves/sd{letter} -> ../../sd{letter}\nmd/dev-sd{letter}/state = in_sync\n\
                 md/dev-sd{letter}/slot = {slot}\nmd/dev-sd{letter}/offset = 262144\n\
                 md/dev-sd{letter}/errors = 0\n"
            )
        })
        .collect();
    format!(
        "
[proc/self]
mountinfo = 22 1 254:9 / / rw,relatime - ext4 /dev/vda1 rw\\n41 22 253:0 / /srv/data rw,noatime - ext4 /dev/mapper/vg0-data rw
[proc/fs/ext4/dm-0]
options = rw\\nbarrier\\ndata=ordered\\nstripe=48
[sys/fs/ext4/dm-0]
errors_count = 0
{disks}
[sys/devices/virtual/block/md10]
dev = 9:10
size = 5859247104
ro = 0
queue/logical_block_size = 512
queue/physical_block_size = 512
queue/minimum_io_size = 65536
queue/optimal_io_size = 393216
queue/read_ahead_kb = 768
queue/rotational = 1
{members}
holders/dm-0 -> ../../dm-0
md/level = raid10
md/layout = 513
md/chunk_size = 65536
md/raid_disks = 6
md/degraded = {degraded}
md/array_state = clean
md/sync_action = {sync_action}
md/sync_completed = {sync_completed}
md/metadata_version = 1.2
md/mismatch_cnt = 0
md/bitmap/location = none
[sys/devices/virtual/block/dm-0]
dev = 253:0
size = 5859237888
ro = 0
slaves/md10 -> ../../md10
dm/name = vg0-data
dm/uuid = LVM-abcdefghijklmnopqrstuvwxyz0123456789
dm/suspended = 0
queue/logical_block_size = 512
queue/physical_block_size = 512
queue/read_ahead_kb = 768
queue/rotational = 1
[dm]
dm-0.table = 0 5859237888 linear 9:10 2048
dm-0.status = 0 5859237888 linear
[dev/mapper]
vg0-data -> ../dm-0
[dev/vg0]
data -> ../dm-0
"
    )
}

/// One NVMe namespace over two controllers, a partition on it, XFS in that.
pub fn nvme_multipath() -> String {
    let path = |controller: u32, bus: u32, state: &str| {
        let pci = format!("sys/devices/pci0000:{bus:02}/0000:{bus:02}:00.0");
        format!(
            "
[{pci}]
subsystem -> ../../../bus/pci
driver -> ../../../bus/pci/drivers/nvme
current_link_speed = 8.0 GT/s PCIe
max_link_speed = 8.0 GT/s PCIe
current_link_width = 2
max_link_width = 4
[{pci}/nvme/nvme{controller}]
subsystem -> ../../../../../class/nvme
device -> ../../../0000:{bus:02}:00.0
model = EXAMPLE DUAL PORT
serial = S0N1
firmware_rev = AB12
transport = pcie
state = live
[{pci}/nvme/nvme{controller}/nvme0c{controller}n1]
hidden = 1
size = 3125627568
device -> ../../nvme{controller}
ana_state = {state}
wwid = eui.0025385000000001
"
        )
    };
    let head = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
    format!(
        "
[proc/self]
mountinfo = 41 22 259:1 / /fast rw,relatime - xfs /dev/nvme0n1p1 rw,attr2,inode64,noquota
{}{}
[{head}]
subsystem -> ../../../../class/nvme-subsystem
model = EXAMPLE DUAL PORT
serial = S0N1
firmware_rev = AB12
iopolicy = numa
[{head}/nvme0n1]
dev = 259:0
size = 3125627568
ro = 0
device -> ../../nvme-subsys0
wwid = eui.0025385000000001
queue/logical_block_size = 512
queue/physical_block_size = 4096
queue/scheduler = none
queue/rotational = 0
queue/read_ahead_kb = 128
queue/write_cache = write through
[{head}/nvme0n1/nvme0n1p1]
dev = 259:1
partition = 1
start = 2048
size = 3125624832
ro = 0
alignment_offset = 0
[run/udev/data]
b259:1 = S:disk/by-id/x\\nE:ID_FS_UUID=0f0f0f0f-1111-2222-3333-444444444444\\nE:ID_FS_LABEL=fast
",
        path(0, 1, "optimized"),
        path(1, 2, "non-optimized"),
    )
}

/// A virtual machine with its root on a virtio disk.
pub fn virtio_root() -> String {
    "
[proc/self]
mountinfo = 27 1 254:0 / / rw,relatime - ext4 /dev/root rw,discard
[proc/fs/ext4/vda]
options = rw\\ndiscard\\nbarrier\\ndata=ordered
[sys/devices/pci0000:00/0000:00:02.0]
subsystem -> ../../../bus/pci
driver -> ../../../bus/pci/drivers/virtio-pci
[sys/devices/pci0000:00/0000:00:02.0/virtio1]
subsystem -> ../../../../bus/virtio
vendor = 0x1af4
[sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda]
dev = 254:0
size = 41943040
ro = 0
serial = root-disk
device -> ../../../virtio1
queue/logical_block_size = 512
queue/physical_block_size = 512
queue/scheduler = [none] mq-deadline
queue/rotational = 1
queue/read_ahead_kb = 128
queue/write_cache = write back
"
    .to_owned()
}

/// Two paths to one SAN volume under dm-multipath, given as a device.
pub fn dm_multipath() -> String {
    let path = |letter: char, host: u32, minor: u32| {
        let port = format!("sys/devices/pci0000:00/0000:05:00.{host}/host{host}/rport-{host}:0-0");
        format!(
            "
[{port}/target{host}:0:0/{host}:0:0:1]
subsystem -> ../../../../../../../bus/scsi
vendor = EXAMPLE
model = SAN VOLUME
rev = 0210
state = running
queue_depth = 64
wwid = naa.6000000000000000000000000000cafe
[{port}/target{host}:0:0/{host}:0:0:1/block/sd{letter}]
dev = 8:{minor}
size = 4294967296
ro = 0
device -> ../../../{host}:0:0:1
holders/dm-0 -> ../../../../dm-0
queue/rotational = 0
queue/scheduler = [mq-deadline] none
"
        )
    };
    format!(
        "
[proc/self]
mountinfo = 27 1 254:0 / / rw,relatime - ext4 /dev/root rw
{}{}
[sys/devices/virtual/block/dm-0]
dev = 253:0
size = 4294967296
ro = 0
slaves/sda -> ../../sda
slaves/sdb -> ../../sdb
dm/name = mpatha
dm/uuid = mpath-36000000000000000000000000000cafe
queue/rotational = 0
queue/scheduler = [mq-deadline] none
[dm]
dm-0.table = 0 4294967296 multipath 0 1 alua 1 1 service-time 0 2 2 8:0 1 1 8:16 1 1
[dev/mapper]
mpatha -> ../dm-0
",
        path('a', 1, 0),
        path('b', 2, 16),
    )
}

/// ext4 on dm-crypt on a partition of a SATA SSD.
pub fn dm_crypt() -> String {
    let disk = sata_disk(0, "none")
        .replace("WD10EACS", "EXAMPLE SSD")
        .replace("= 1953525168", "= 976773168")
        .replace("physical_block_size = 512", "physical_block_size = 4096")
        .replace("rotational = 1", "rotational = 0");
    format!(
        "
[proc/self]
mountinfo = 27 1 253:0 / /home rw,relatime - ext4 /dev/mapper/home rw
{disk}
[sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda2]
dev = 8:2
partition = 2
start = 2063
size = 976771072
ro = 0
alignment_offset = 0
uevent = DEVNAME=sda2\\nPARTUUID=5c7e2c0f-02
holders/dm-0 -> ../../../dm-0
[sys/devices/virtual/block/dm-0]
dev = 253:0
size = 976738304
ro = 0
slaves/sda2 -> ../../sda2
dm/name = home
dm/uuid = CRYPT-LUKS2-00112233445566778899aabbccddeeff-home
[dm]
dm-0.table = 0 976738304 crypt aes-xts-plain64 5ec2e75ec2e75ec2e75ec2e75ec2e7 0 8:2 32768 1 allow_discards
"
    )
}

/// f2fs on a partition of a card, and a share of a Windows machine.
pub fn card_and_share() -> String {
    "
[proc/self]
mountinfo = 27 1 179:2 / / rw,noatime - f2fs /dev/mmcblk0p2 rw\\n91 27 0:53 / /mnt/share rw,relatime - cifs //filer/share rw,vers=3.1.1
[sys/devices/platform/soc/3f300000.mmc/mmc_host/mmc0/mmc0:aaaa]
type = SD
name = SC32G
manfid = 0x000003
serial = 0x5f3c1a2b
fwrev = 0x0
subsystem -> ../../../../../../../bus/mmc
[sys/devices/platform/soc/3f300000.mmc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0]
dev = 179:0
size = 62333952
ro = 0
removable = 0
device -> ../../../mmc0:aaaa
queue/rotational = 0
queue/logical_block_size = 512
queue/physical_block_size = 512
queue/scheduler = [mq-deadline] none
[sys/devices/platform/soc/3f300000.mmc/mmc_host/mmc0/mmc0:aaaa/block/mmcblk0/mmcblk0p2]
dev = 179:2
partition = 2
start = 532480
size = 61801472
ro = 0
"
    .to_owned()
}

/// A directory on an NFS server.
pub fn nfs() -> String {
    "
[proc/self]
mountinfo = 27 1 254:0 / / rw - ext4 /dev/root rw\\n90 27 0:52 / /mnt/nfs rw,relatime - nfs4 filer:/export/db rw,vers=4.2,hard
"
    .to_owned()
}

/// An overlay whose upper directory lies on the ext4 of a virtio disk.
pub fn overlay() -> String {
    virtio_root().replace(
        "mountinfo = ",
        "mountinfo = 99 27 0:60 / /var/merged rw,relatime - overlay overlay \
         rw,lowerdir=/var/lower,upperdir=/var/upper,workdir=/var/work\\n",
    )
}

/// One of everything: an array of SATA disks with attributes of every kind, a path of NVMe with all that its link says, a
/// USB stick, a disk of SAS, a partition, a volume, a loop device, compressed memory, a cache, ext4, btrfs and XFS with what
/// sysfs says of them, a mount from a server, another namespace, udev's records, swap.
pub fn one_of_each() -> String {
    let without_mounts = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with("mountinfo = "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let usb = "sys/devices/pci0000:00/0000:00:14.0/usb2/2-1";
    let stick = format!("{usb}/2-1:1.0/host7/target7:0:0/7:0:0:0/block/sdu");
    let (md, nvme) = (six_disk_array("check", "31 / 100", 1), nvme_multipath());
    [
        &without_mounts(&md),
        "\n",
        &without_mounts(&nvme),
        "\n",
        &filesystems_of_each(&stick),
        ARRAY_AND_DISK_OF_EACH,
        &sas_and_usb_of_each(usb, &stick),
        NAMES_AND_OTHERS_OF_EACH,
    ]
    .concat()
}

fn filesystems_of_each(stick: &str) -> String {
    let mounts = "22 1 9:99 / / rw,relatime - ext4 /dev/vda1 rw\\n\
        41 22 253:0 / /srv/data rw,noatime - ext4 /dev/mapper/vg0-data rw\\n\
        42 22 259:1 / /fast rw,relatime - xfs /dev/nvme0n1p1 rw,attr2,inode64,noquota\\n\
        43 22 0:40 /@home /home rw,relatime - btrfs /dev/sdu1 rw,space_cache,subvol=/@home\\n\
        44 22 0:52 / /mnt/nfs rw,relatime - nfs4 filer:/export/db rw,vers=4.2,rsize=1048576";
    format!(
        "[proc]
self/mountinfo = {mounts}
7/mountinfo = {mounts}\\n50 22 253:0 /inside /container rw - ext4 /dev/mapper/vg0-data rw
7/comm = dockerd
swaps = Filename Type Size Used Priority\\n/dev/sdu1 partition 1024 8 -2
filesystems = nodev proc\\nnodev made_up\\n ext4
diskstats = 8 0 sda 10 1 80 5 20 2 160 9 0 12 14
fs/ext4/dm-0/mb_groups = #group: free frags first [ 2^0 2^1 ]\\n#0    : 63    7     1788  [ 5     5     2 ]
[sys/fs/ext4/dm-0]
first_error_time = 1700000000
lifetime_write_kbytes = 123456
reserved_clusters = 4096
mb_stream_req = 16
[sys/fs/xfs/nvme0n1p1/error]
fail_at_unmount = 1
metadata/EIO/max_retries = -1
[sys/fs/btrfs/6a6a6a6a-1111-2222-3333-444444444444]
label = home
nodesize = 16384
sectorsize = 4096
allocation/data/disk_total = 1073741824
allocation/data/bytes_used = 73741824
allocation/metadata/disk_total = 268435456
allocation/system/disk_total = 8388608
devinfo/1/error_stats = write_errs 0\\nread_errs 3\\nflush_errs 0
bdi/read_ahead_kb = 4096
devices/sdu1 -> ../../../../../{stick}/sdu1
[sys/class/bdi/0:52]
read_ahead_kb = 128
"
    )
}

const ARRAY_AND_DISK_OF_EACH: &str = "[sys/devices/virtual/block/md10]
stat = 10 1 80 5 20 2 160 9 0 12 14 0 0 0 0 3 4
inflight = 1 2
queue/max_sectors_kb = 1280
queue/discard_max_bytes = 0
queue/discard_granularity = 512
queue/nr_requests = 128
queue/zoned = none
md/sync_speed = 120000
md/consistency_policy = bitmap
md/stripe_cache_size = 256
md/group_thread_cnt = 0
md/uuid = 01234567-89ab-cdef-0123-456789abcdef
md/bitmap/chunksize = 67108864
md/bitmap/backlog = 0
md/sync_min = 0
md/reshape_position = none
md/resync_start = none
md/dev-sda/bad_blocks = 2048 8\\n4096 16
md/dev-sda/size = 976630464
md/rd0 -> dev-sda
[sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/scsi_host/host0]
proc_name = ahci
can_queue = 32
cmd_per_lun = 1
link_power_management_policy = max_performance
[sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0]
timeout = 30
type = 0
vpd_pg80 = ####SERIAL7
access_state = active/optimized
power/runtime_status = active
[sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda]
stat = 10 1 80 5 20 2 160 9 0 12 14
inflight = 0 3
queue/iosched/read_expire = 500
queue/max_sectors_kb = 1280
queue/max_hw_sectors_kb = 32767
queue/discard_max_bytes = 2147450880
queue/discard_granularity = 4096
queue/nomerges = 0
queue/rq_affinity = 1
queue/iostats = 1
queue/wbt_lat_usec = 75000
queue/fua = 0
queue/dax = 0
queue/zoned = none
queue/io_poll = 0
queue/io_timeout = 30000
queue/max_segments = 168
mq/0/cpu_list = 0, 1, 2
uevent = DEVNAME=sda\\nDISKSEQ=3
[sys/devices/pci0000:01/0000:01:00.0]
numa_node = 0
iommu_group/type = DMA-FQ
aer_dev_correctable = RxErr 3\\nBadTLP 1\\nTOTAL_ERR_COR 4
aer_dev_nonfatal = TOTAL_ERR_NONFATAL 0
aer_dev_fatal = TOTAL_ERR_FATAL 0
power/runtime_status = active
config = no capabilities
[sys/devices/pci0000:01/0000:01:00.0/nvme/nvme0]
numa_node = 0
power/pm_qos_latency_tolerance_us = 100000
";

fn sas_and_usb_of_each(usb: &str, stick: &str) -> String {
    let sas = "sys/devices/pci0000:00/0000:00:03.0/0000:02:00.0/host9/port-9:0";
    format!(
        "[{sas}/end_device-9:0/target9:0:0/9:0:0:0]
subsystem -> ../../../../../../../../../bus/scsi
vendor = EXAMPLE
model = NEARLINE
rev = E001
[{sas}/end_device-9:0/target9:0:0/9:0:0:0/block/sds]
dev = 65:32
size = 3907029168
device -> ../../../9:0:0:0
queue/rotational = 1
[{sas}/phy-9:0/sas_phy/phy-9:0]
negotiated_linkrate = 6.0 Gbit
maximum_linkrate = 12.0 Gbit
[{usb}]
speed = 480
bMaxPower = 500mA
[{stick}]
dev = 65:64
size = 62333952
device -> ../../../7:0:0:0
queue/rotational = 1
[{stick}/sdu1]
dev = 65:65
partition = 1
start = 2048
size = 62330880
[{usb}/2-1:1.0/host7/target7:0:0/7:0:0:0]
subsystem -> ../../../../../../../../../bus/scsi
vendor = LAB
model = STICK
"
    )
}

const NAMES_AND_OTHERS_OF_EACH: &str = "[run/udev/data]
b65:65 = E:ID_PART_ENTRY_UUID=0b1c-01\\nE:ID_FS_UUID=6a6a6a6a-1111-2222-3333-444444444444
b9:10 = E:MD_UUID=01234567:89abcdef:01234567:89abcdef
b8:0 = E:ID_SERIAL_SHORT=WD-1\\nE:ID_WWN=0x50014ee200000001\\nE:ID_REVISION=01.0
[dev/disk]
by-id/wwn-0x50014ee200000001 -> ../../sda
by-uuid/6a6a6a6a-1111-2222-3333-444444444444 -> ../../sdu1
by-path/pci-0000:00:1f.2-ata-1 -> ../../sda
[sys/devices/virtual/block/loop0]
dev = 7:0
size = 2048
loop/backing_file = /srv/data/image
loop/offset = 0
loop/sizelimit = 0
loop/dio = 0
loop/autoclear = 0
queue/logical_block_size = 512
[sys/devices/virtual/block/zram0]
dev = 252:0
size = 8388608
comp_algorithm = lzo [zstd]
backing_dev = /dev/sds
mm_stat = 4096 64 12288 0 12288 0 0 0
[sys/fs/bcache]
register = x
[sys/devices/virtual/block/bcache0]
dev = 251:0
size = 2048
slaves/sdf -> ../../sdf
bcache/state = clean
bcache/cache_mode = writethrough [writeback]
bcache/dirty_data = 0.0k
";
