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
