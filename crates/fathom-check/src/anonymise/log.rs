//! Words of the kernel's log. What it names in its own words is known, what is not known may name anything: it goes.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Words of messages about storage, in lower case.
const WORDS: &str = "
10b8b aacraid abnormal abort aborted aborting abrt abts access accessible acknowledge acl acpi
acquire acsviol action active actually adapter add adding additional address advice aer affected
after again agf agfl agi agno ahci aligned alignment all alloc allocate allocated allocating
allocation already amnf and any apptag are array arrays ascq assuming async asynchronous ata atapi
atomic attached attempt attempting attempts attr attribute auto automatically awaiting back
backing bad badcrc baddllp badly badreq badtlp bailing bandwidth bbu bcache bdev because been
before being below between beyond bio bios bitmap bitmaps blk block blocked blocknr blocks bmap
bmbt boot both bpdu break bsy btree btrfs buffer buffers bug bus busy but button byte bytes cable
cache cached called calling cancel canceling cancelled cannot capacity card casefold cdb change
changed channel check checking checksum checksums chunk class clean cleanup clear cleared clearing
cluster clusters cmd cmnd cmpltabrt cntl code comm command commands commwake comp complete
completed completer completing completion compltto config configuration confused conn connect
connected connection consistency containment continue continuing control controller controllers
core correctable corrected corrupt corrupted corruption corruptions could couldn count counter
counters cow cpu crc created critical crypt csts csum ctl ctrl current dangerous data dax
deactivated deactivating dead deadlock debug default defective deferred degraded delalloc delayed
deleted deleting delta dentry depth descriptor destroy det detaching detected dev device devices
devinfo devloss dfl did dif different dimension dir dirblock direct directory dirty disable
disabled disabling disappeared discard discarded discarding discards disconnect disconnected
discontinuity discovery disk disks dispar dlp dma dmaen dmar does done doorbell down dpc drdy
drive driver driverbyte drives dropped drq due dump duplicate during e1000e ea each early ecc ecrc
eh eio elapsed elevator emask empty enable enabled enclosure encountered encryption end ended
ending endpoint enforce enoent enospc entries entry eof epoch erase err error errors errs
escalated eui event events every exceeded exceeds exception exclusive existing exit expander
expected expired ext2 ext3 ext4 extend extended extent extents extra f2fs fabric fail failed
failing fails failure failures fast fatal fault faulty fcp fctl feature features field file
filemark files filesystem filesystems fill find finish finished firmware first fixed fixing flag
flags flogi flt flush follow for force forced forcing format found fpdma frame free freed freeing
freeze fresh from frozen full function further gap gbps gdt gen generation generic get getting
gfs2 gib give given giving going goingdown gone good greater group groups grown guaranteed guard
had handle handle0 handler handling handshk hard hardware has hash have having header heads held
high hold holding host hostbyte hpsa hsm htree hung hz icmd icrc id ident identify idle idnf
ignored ignoring illegal image impossible inaccessible inactive inconsistency incorrect index
indicates indx info information inhibited init initialization initialize initialized initializing
initiator ino inode inodes inquiry insane insert inside instead insufficient integrity interface
internal interrupt interrupts into inval invalid invalidate ioc ioc0 iocstatus ioctl iommu ipm iqn
irq iscsi issue issued isw item its jbd2 journal just keep kernel key kib kicking killed killing
known kswapd kthread kworker lacks laptop large larger last latency layer lba lbas lblock lcrc ldm
leaf least leave leaving left len length less level limit limited limiting line linear lines link
linkdown linked links linkup linux list llp lnr load local locate location lock locked log logged
logical login loginfo loglevel logout long longer lookup loop lost low lower lpm luks luks2 lun
lun0 lvm made magic make making malftlp many map mapcount mapped mapper mapping maps mark marked
marking mask match matching max maximum may mbps mce mdx mechanical media medium megaraid mem
member members memory message metadata mib migrate minimal minimum minor mirror misaligned
mismatch mismatched missed missing mode model modes modified more most mount mounted mounting
moved mpath mpi3mr mpt3sas ms msec msecs msg multi multipath multipathed must naa nak name namelen
names namespace namespaces narrow nbd nbytes ncq ncqerr need needed needs negotiated network never
new newer next nfs nlink nodata node nodes non none nonfatal nop normal not nothing now nport nr
null number nvme nvmf object occurred ocfs2 off offline offlined offlining offset often old older
once one ones online only open opened opening operation operational operations optimal option
options order original originator orphan other our out output outside over overflow overlapping
overrun own owner packet page pages parent parity parser partial partially partition partitions
passed path paths pci pcie pcieport pdu pending perf permanent permission persist persistent phy
phyerr phyrdy phyrdychg phys physical pi ping pins pio place plogi pmp point pointer poisoned
policy poll polled pool pools port ports possible possibly power powered preparing present prevent
preventing previous prio prior prli probably probe probing problem problems process processed
processing programming progress protection protocol provided purge putting qid queue queued queues
quiesce quiescing quota raid raid0 raid1 raid10 raid4 raid5 raid6 raising ran range rank rate raw
rbd rbytes rdma reach reached reaches read readable readahead reading readonly ready real realloc
reallocated reason reassign rebuild rebuilding rec received receiver receiverid reconnect
reconnecting recover recoverable recovered recovering recovery recreate recursive recv reducing
redundant ref reference referenced refs reftag regard regarding register registered registers
regular reinstating reject rejected rejecting related release released releasing relog remain
remaining remains remap remapped remount remounted remounting remove removed removing repair
repaired repairing replace replaced replacement replacing replay replayed reported reporting
reports request requested requester requests requeue require required requires rescan reservation
reserve reserved reset resets resetting resize resource resources respond responded responding
response restart restarting restore restored result resulted results resume resumed resuming
resync retained retire retried retries retry retrying return returned returning rev revalidate
revalidation revision rollover root rotation rpm rport rscn rtt run running rxerr rxof sact safe
same sas sata saturated save sbytes scan scanning scheduled scheduling scmd scontrol scrub scsi
sec second seconds secs sect sector sectors secure see seen seg segment segments self send sending
sense sent sequence serr serror service ses sess session set setting setup several severity sgl
shadow shared short should shrink shut shutdown shutting signature since single size sizes skip
skipped skipping slave sleep slot slots slow smaller smart smartpqi smp snapshot snapshots snoop
soft softreset some space spare sparse spd spdk specified speed speeddown spin spinning spinup
spurious sstatus stack stale standby start started starting stat state stats status step still
stop stopped stopping storage stripe stuck sub submit submitted succeeded success successful
successfully such suddenly suggest sum super superblock supply support supported surprise suspend
suspended suspending switch switched switching sync synchronize synchronized synchronizing
synchronous synthetic system table tag tainted takes tape target task tasks tcp temperature
temporarily terminate terminated test tested than that the then there these they thin this thread
three threshold through time timed timeout timeouts timing tlp tmf tmo too took tool toolarge
total touch track tracks transaction transactions transfer transid transition transitioning
transmitted transmitter transport tree tried trigger trim truncate truncated try trying two type
ua uas udma udma100 udma133 ultra unable unaligned unavailable unc uncorrectable uncorrected under
underflow underrun unexpected unhandled unit units unknown unlink unlinked unload unmap unmaps
unmount unmounted unmounting unplug unreachable unreadable unrecognized unrecoverable unrecovered
unrecovfdata unresponsive unsafe unsupported unsupreq until unused unwritten unxcmplt update
updated updates updating upper us usable usb use usec used useful user using uuid valid validate
value values vendor verification verified verify verifying version vfat violation virtblk virtio
virtual vmd volume volumes vport wait waited waiting wanted warning was wasted water watermark way
wce were what when where which while whole wide will with within without wlun work worker working
workqueue would wrap write writeback writes writing written wrong wwid wwn x400000 xattr xfer
xfermode xfs yet zero zeroed zeroes zeroing zfs zone zoned zones zram
";

/// What a name of the kernel's own begins with that has underscores: functions, codes, instances of drivers.
const PREFIXES: &[&str] = &[
    "aac", "ahci", "arcmsr", "ata", "blk", "blkdev", "btree", "btrfs", "cc", "check", "did", "dm",
    "dquot", "driver", "ext2", "ext3", "ext4", "f2fs", "fs", "generic", "gfs2", "htree", "iomap",
    "iscsi", "jbd2", "journal", "lpfc", "mb", "md", "megaraid", "megasas", "mpi3mr", "mpt2sas",
    "mpt3sas", "nbd", "nvme", "ocfs2", "pm80xx", "qla2xxx", "raid1", "raid10", "raid5", "rbd",
    "scsi", "sd", "sense", "submit", "sub", "task", "trigger", "ufshcd", "usb", "validate",
    "verify", "virtio", "xen", "xfs", "zfs",
];

/// What the kernel numbers through: `host3`, `virtio2`.
const NUMBERED: &[&str] = &[
    "ata",
    "cm",
    "connection",
    "controller",
    "disk",
    "eth",
    "host",
    "ioc",
    "phy",
    "port",
    "qid",
    "raid",
    "rport",
    "session",
    "slot",
    "tag",
    "target",
    "u",
    "usb",
    "virtio",
    "vmbus",
];

/// Numbers in hexadecimal digits without a mark are bytes, or the domain of a PCI address.
const HEX_CHARS_MAX: usize = 4;

static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| WORDS.split_whitespace().collect());

/// True for a run of letters and digits that names nothing of anybody's.
pub(super) fn is_known(run: &str) -> bool {
    let lower = run.to_ascii_lowercase();
    let letters = lower.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = letters.len() < lower.len() && NUMBERED.contains(&letters);
    let is_hex = |digits: &str| {
        !digits.is_empty()
            && digits.len() <= HEX_CHARS_MAX
            && digits.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let is_number = lower.bytes().any(|b| b.is_ascii_digit()) && is_hex(&lower)
        || lower.strip_prefix("0x").is_some_and(|digits| digits.len() < super::LONG_HEX)
        || lower.bytes().all(|b| b.is_ascii_digit());
    KNOWN.contains(lower.as_str()) || is_numbered || is_number
}

/// True for a name with underscores that is the kernel's own, by how it begins or where it stands: in lines of ext4 a function with the
/// number of its line follows the device.
pub(super) fn is_own_name(line: &str, at: usize, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let begins = || lower.split('_').next().is_some_and(|first| PREFIXES.contains(&first));
    let is_function = || {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let number = after.strip_prefix(':').map(|after| after.split(':').next().unwrap_or(""));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        line.starts_with("EXT4-fs") && before.ends_with("): ") && number.is_some_and(is_number)
    };
    (name.contains('_') && begins()) || is_function()
}
