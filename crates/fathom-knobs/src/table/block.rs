//! The request queue of a block device: `/sys/block/DEV/queue/`.

use crate::knob::{Access, Group, Home, Knob, Persist, Risk, Rounding, Values, order};

const BASE: Knob = Knob { group: Group::Queue, order: order::LIMITS, ..Knob::BASE };

const RAISES: &str = "every write to it, even of the same value, raises the read-ahead to the kernel's own value again; fathom \
                      puts the read-ahead back afterwards";

const fn shown(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::Queue(file),
        values: Values::Shown,
        group: Group::Alone,
        access: Access::Fixed(
            "it is a property of device and driver; no kernel lets anybody change it",
        ),
        persist: Persist::Other("cannot be set"),
        ..Knob::BASE
    }
}

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "block.scheduler",
        title: "I/O scheduler",
        does: "Which request goes to the device next: none passes them on as they come (fast devices, arrays and virtual disks that \
               order themselves), mq-deadline sorts and bounds waiting (single rotating disks), kyber aims at latencies, bfq shares \
               fairly between programs at a cost of CPU time.",
        home: Home::Queue("scheduler"),
        values: Values::Listed,
        words: &[("none", "no scheduler")],
        order: order::SCHEDULER,
        couplings: "a new scheduler resets block.nr_requests (none: depth of the hardware queue; others: twice that, at most 256) and \
                    begins with its own settings; bfq turns block.wbt_lat_usec off unless somebody has set it, and leaving bfq turns it \
                    on again",
        kernels: "5.0 and later; before, noop, deadline and cfq on single-queue devices",
        inexact: "that the module of the scheduler was not loaded: it stays loaded",
        trap: "elevator= on the kernel's command line does nothing since 5.0. The default is mq-deadline with one hardware queue and none \
               with several; loop devices begin with none. Partitions, md and most device-mapper devices have none of their own: set their disks.",
        ..BASE
    },
    Knob {
        id: "block.nr_requests",
        title: "requests that wait in each hardware queue",
        does: "More of them let a scheduler sort and merge more; fewer bound the waiting time of each request.",
        home: Home::Queue("nr_requests"),
        unit: "requests",
        values: Values::Requests,
        order: order::REQUESTS,
        couplings: "reset by a new block.scheduler; writing it resets mq-deadline.async_depth to the same number",
        trap: "It counts for each hardware queue, not for the device. Below 4 the kernel silently takes 4. Without a scheduler it cannot \
               exceed the depth of the hardware queue.",
        ..BASE
    },
    Knob {
        id: "block.read_ahead_kb",
        title: "read-ahead",
        does: "How far the kernel reads ahead of buffered sequential reads. 0 turns it off. Reads with O_DIRECT never use it.",
        home: Home::Queue("read_ahead_kb"),
        unit: "KiB",
        values: Values::Number(0, 4_194_304),
        words: &[("0", "no read-ahead")],
        order: order::READ_AHEAD,
        rounding: Rounding::PagesKib,
        couplings: "raised by every write to block.iostats, block.max_sectors_kb, block.rotational and the other limits: it is written last",
        trap: "blockdev --setra counts 512-byte sectors: --setra 2048 is 1024 KiB. Rounded down to whole pages, so 3 is 0. btrfs and NFS \
               have a read-ahead of their own and ignore it (btrfs.read_ahead_kb, bdi.read_ahead_kb); an overlay has that of what lies below it. From Linux 6.17 on, rotating devices begin with \
               several MiB.",
        ..BASE
    },
    Knob {
        id: "block.max_sectors_kb",
        title: "largest request",
        does: "Larger requests are split. Large ones give rate, small ones let others pass sooner.",
        home: Home::Queue("max_sectors_kb"),
        unit: "KiB",
        values: Values::UpTo(4, "max_hw_sectors_kb"),
        couplings: RAISES,
        inexact: "that nobody had set it: the kernel then no longer follows the limits of the device",
        trap: "Above max_hw_sectors_kb newer kernels silently take the largest, older ones refuse. udev looks at a device again when somebody \
               closes it after writing, and a rule may set it then. Arrays take over the smallest of their members when they are assembled only.",
        ..BASE
    },
    Knob {
        id: "block.nomerges",
        title: "merging of neighbouring requests",
        does: "Whether requests that touch each other become one. Looking for neighbours costs CPU time that very fast devices do not earn back.",
        home: Home::Queue("nomerges"),
        values: Values::Number(0, 2),
        words: &[("0", "merge"), ("1", "only the cheap way"), ("2", "never")],
        trap: "2 hides what sequential access gains.",
        ..BASE
    },
    Knob {
        id: "block.rq_affinity",
        title: "CPU on which requests end",
        does: "Whether the end of a request is handled near the CPU that began it.",
        home: Home::Queue("rq_affinity"),
        values: Values::Number(0, 2),
        words: &[
            ("0", "where the interrupt comes"),
            ("1", "a CPU that shares its cache"),
            ("2", "exactly that CPU"),
        ],
        trap: "2 costs an interrupt between CPUs for each request and helps when one CPU takes all interrupts.",
        ..BASE
    },
    Knob {
        id: "block.iostats",
        title: "counting of requests",
        does: "Whether /proc/diskstats counts. Off saves about a percent at a million requests per second.",
        home: Home::Queue("iostats"),
        values: Values::Switch,
        couplings: RAISES,
        trap: "0 blinds iostat and fathom itself: verdicts that rest on device counters are gone.",
        ..BASE
    },
    Knob {
        id: "block.iostats_passthrough",
        title: "counting of passthrough commands",
        does: "Whether commands that bypass the filesystem (SG_IO, NVMe passthrough) are counted.",
        home: Home::Queue("iostats_passthrough"),
        values: Values::Switch,
        couplings: RAISES,
        kernels: "6.11 and later",
        ..BASE
    },
    Knob {
        id: "block.add_random",
        title: "entropy from the device",
        does: "Whether the times of requests feed the random number generator; costs a little CPU time.",
        home: Home::Queue("add_random"),
        values: Values::Switch,
        couplings: RAISES,
        trap: "On for disks, off for SSDs by default.",
        ..BASE
    },
    Knob {
        id: "block.rotational",
        title: "the kernel takes it for a rotating disk",
        does: "Decides defaults of others: throttling of writeback, read-ahead, the ssd mode of btrfs, placement of swap.",
        home: Home::Queue("rotational"),
        values: Values::Switch,
        couplings: RAISES,
        trap: "Only a belief. Filesystems look at it when they are mounted, wbt when it is set to its default. Virtual disks and RAID \
               controllers often say 1 for SSDs.",
        ..BASE
    },
    Knob {
        id: "block.wbt_lat_usec",
        title: "throttling of buffered writeback",
        does: "The latency of reads that background writeback must leave; 0 does not throttle. Direct writes are never throttled.",
        home: Home::Queue("wbt_lat_usec"),
        unit: "us",
        values: Values::Number(-1, 60_000_000),
        words: &[
            ("-1", "the kernel's default: 2000 for SSDs, 75000 for rotating disks"),
            ("0", "off"),
        ],
        order: order::WRITEBACK,
        rounding: Rounding::Stands,
        couplings: "bfq turns it off while nobody has set it (it reads 0); set by hand it stays on even with bfq",
        inexact: "that nobody had set it: the number comes back, but a later bfq no longer turns it off",
        trap: "EINVAL or no file where the device does not count requests (bio-based ones).",
        ..BASE
    },
    Knob {
        id: "block.io_timeout",
        title: "time after which a request counts as lost",
        does: "Then the driver begins to recover from an error. Not a matter of speed.",
        home: Home::Queue("io_timeout"),
        unit: "ms",
        values: Values::Number(1, 3_600_000),
        rounding: Rounding::Tick,
        risk: Risk::Durability,
        trap: "Below the time that a disk needs to correct errors (7 to 180 s without ERC) healthy disks are thrown out of arrays.",
        ..BASE
    },
    Knob {
        id: "block.discard_max_bytes",
        title: "largest discard",
        does: "Larger discards (TRIM) are split. Smaller ones hold up other requests for a shorter time.",
        home: Home::Queue("discard_max_bytes"),
        unit: "bytes",
        values: Values::Discard,
        couplings: RAISES,
        trap: "0 turns discards off, and on Linux 6.18 nothing turns them on again until the device is made anew; values that are no multiple \
               of the granularity cannot be written back. fathom refuses both.",
        ..BASE
    },
    Knob {
        id: "block.write_zeroes_unmap_max_bytes",
        title: "zeroing by unmapping",
        does: "Whether fallocate may zero a range by unmapping it.",
        home: Home::Queue("write_zeroes_unmap_max_bytes"),
        unit: "bytes",
        values: Values::ZeroOr("write_zeroes_unmap_max_hw_bytes"),
        couplings: RAISES,
        kernels: "6.17 and later",
        ..BASE
    },
    Knob {
        id: "block.stable_writes",
        title: "pages must not change while they are written",
        does: "1 makes writers wait while a page is on its way to the device.",
        home: Home::Queue("stable_writes"),
        values: Values::Switch,
        couplings: RAISES,
        risk: Risk::Durability,
        access: Access::Refused(
            "layers that compute checksums or parity (raid5, integrity) need 1, and find corruption with 0; md.skip_copy sets it for arrays",
        ),
        ..BASE
    },
    Knob {
        id: "block.write_cache",
        title: "what the kernel believes about the write cache",
        does: "With 'write through' the kernel sends no flushes.",
        home: Home::Queue("write_cache"),
        values: Values::Words(&["write back", "write through"]),
        risk: Risk::Destructive,
        access: Access::Refused(
            "it changes the kernel's belief, not the drive: 'write through' on a drive with a volatile cache drops every flush, and a power \
             cut then destroys filesystems. The real switch is in the drive: scsi.cache_type, hdparm -W0 DEV, nvme set-feature -f 6",
        ),
        persist: Persist::Other("leave it alone; set the drive's own cache instead"),
        trap: "Figures with it changed are of a machine that loses data.",
        ..BASE
    },
    Knob {
        id: "block.io_poll",
        title: "polling for completions",
        does: "Whether requests with the high-priority flag are polled for instead of waiting for an interrupt.",
        home: Home::Queue("io_poll"),
        values: Values::Shown,
        group: Group::Alone,
        access: Access::Fixed(
            "writes are ignored; load the driver with polled queues: nvme.poll_queues=N",
        ),
        persist: Persist::Other("module.nvme.poll_queues"),
        trap: "The kernel takes the write and only says in its log that it did nothing.",
        ..BASE
    },
    Knob {
        id: "block.io_poll_delay",
        title: "wait before polling",
        does: "Meant a sleep before polling; without effect today.",
        home: Home::Queue("io_poll_delay"),
        values: Values::Shown,
        group: Group::Alone,
        access: Access::Fixed("writes are ignored since Linux 6.x: hybrid polling was removed"),
        persist: Persist::Other("cannot be set"),
        ..BASE
    },
    shown(
        "block.max_hw_sectors_kb",
        "max_hw_sectors_kb",
        "largest request of the hardware",
        "The bound of block.max_sectors_kb, in KiB.",
    ),
    shown(
        "block.logical_block_size",
        "logical_block_size",
        "smallest unit that can be addressed",
        "Direct I/O must be aligned to it.",
    ),
    shown(
        "block.physical_block_size",
        "physical_block_size",
        "smallest unit that is written without reading",
        "Smaller or unaligned writes cost a read first.",
    ),
    shown(
        "block.minimum_io_size",
        "minimum_io_size",
        "smallest good request",
        "The chunk of an array.",
    ),
    shown(
        "block.optimal_io_size",
        "optimal_io_size",
        "best request",
        "A whole stripe of an array; 0 when the device does not say.",
    ),
    shown(
        "block.fua",
        "fua",
        "forced unit access",
        "1 when single writes can bypass the drive's cache.",
    ),
    shown("block.zoned", "zoned", "zones", "Whether it must be written in zones."),
];
