//! Drives and their drivers: SCSI and SATA, NVMe, parameters of modules and of the kernel.

use crate::knob::{Access, Group, Home, Knob, Persist, Risk, Rounding, Values, order};

const BASE: Knob = Knob { ..Knob::BASE };

const fn module(id: &'static str, home: Home, title: &'static str, does: &'static str) -> Knob {
    Knob {
        id,
        title,
        does,
        home,
        values: Values::Shown,
        access: Access::Fixed(
            "the driver reads it when it is loaded: set it as below and boot. As a level of an experiment: a factor of the kind boot",
        ),
        persist: Persist::Modprobe,
        ..Knob::BASE
    }
}

const fn boot(
    id: &'static str,
    name: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::Boot(name),
        values: Values::Shown,
        access: Access::Fixed(
            "the kernel reads it when it begins: set it as below and boot. As a level of an experiment: a factor of the kind boot",
        ),
        persist: Persist::CommandLine,
        ..Knob::BASE
    }
}

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "scsi.queue_depth",
        title: "commands queued in the drive",
        does: "How many commands the drive has at once to order by itself. 1 is without queueing (NCQ off).",
        home: Home::Device("device/queue_depth"),
        unit: "commands",
        values: Values::Number(1, 4096),
        trap: "SATA has at most 32. A value above what the host adapter can is refused, or silently lowered. Drivers lower it by themselves when \
               the drive says it is full.",
        ..BASE
    },
    Knob {
        id: "scsi.queue_type",
        title: "queueing in the drive",
        does: "none or simple; ordered only with drives that can.",
        home: Home::Device("device/queue_type"),
        values: Values::Words(&["none", "simple", "ordered"]),
        trap: "Only a few drivers let it be changed; the others refuse the write, or ignore it, and fathom then says so.",
        ..BASE
    },
    Knob {
        id: "scsi.cache_type",
        title: "the drive's own write cache",
        does: "write through: a write is done when it is on the medium. write back: when it is in the drive's memory.",
        home: Home::ScsiDisk("cache_type"),
        values: Values::Words(&[
            "write through",
            "write back",
            "none",
            "write back, no read (daft)",
        ]),
        risk: Risk::Durability,
        group: Group::Queue,
        order: order::DRIVE,
        couplings: "block.write_cache follows it; the kernel asks the drive for its limits again, which raises the read-ahead",
        is_kept: true,
        persist: Persist::Other(
            "most drives keep it; otherwise hdparm -W0 (SATA) or sdparm --clear WCE --save (SAS) from a udev rule",
        ),
        trap: "This is the real switch: the drive is told (MODE SELECT), and the kernel reads back what it did. Drives without protection against \
               power loss keep flushed data only; write through makes single disks slow, and arrays with a protected controller cache not safer.",
        ..BASE
    },
    Knob {
        id: "nvme.iopolicy",
        title: "how several paths are used",
        does: "numa: the nearest path only; round-robin: all in turn; queue-depth: the one with the fewest requests.",
        home: Home::NvmeSubsystem("iopolicy"),
        values: Values::Words(&["numa", "round-robin", "queue-depth"]),
        kernels: "5.1 and later with NVMe multipath; queue-depth from 6.11 on",
        persist: Persist::Other(
            "ACTION==\"add|change\", SUBSYSTEM==\"nvme-subsystem\", ATTR{iopolicy}=\"VALUE\" in /etc/udev/rules.d/71-storage.rules",
        ),
        trap: "numa, the default, leaves the other paths idle.",
        ..BASE
    },
    Knob {
        id: "nvme.pm_qos_latency_tolerance_us",
        title: "longest wake-up time of the drive",
        does: "Power states that take longer to leave are not entered. 0 keeps the drive awake.",
        home: Home::NvmeController("power/pm_qos_latency_tolerance_us"),
        unit: "us",
        values: Values::NumberOr(0, 2_000_000_000, &["auto", "any"]),
        words: &[
            ("auto", "the driver's default"),
            ("any", "no bound: every power state may be entered"),
        ],
        rounding: Rounding::Exact,
        kernels: "4.11 and later; only drives with power states of their own (APST)",
        trap: "Drives that leave a power state late show it as rare latencies of milliseconds.",
        ..BASE
    },
    module(
        "module.nvme.poll_queues",
        Home::Module("nvme", "poll_queues"),
        "queues that are polled",
        "Queues without interrupts for polled I/O (io_uring with IOPOLL). 0: there is none.",
    ),
    module(
        "module.nvme.write_queues",
        Home::Module("nvme", "write_queues"),
        "queues for writes only",
        "Keeps reads from waiting behind writes in the same queue.",
    ),
    module(
        "module.nvme.io_queue_depth",
        Home::Module("nvme", "io_queue_depth"),
        "depth of each queue",
        "Commands that a queue of the controller holds; 2 to 4095.",
    ),
    module(
        "module.nvme.use_threaded_interrupts",
        Home::Module("nvme", "use_threaded_interrupts"),
        "interrupts handled by threads",
        "Bounds the time that interrupts take from real-time programs, at a price in latency.",
    ),
    module(
        "module.nvme_core.multipath",
        Home::Module("nvme_core", "multipath"),
        "the kernel joins the paths of a namespace",
        "N leaves it to dm-multipath.",
    ),
    module(
        "module.nvme_core.default_ps_max_latency_us",
        Home::Module("nvme_core", "default_ps_max_latency_us"),
        "longest wake-up time of all drives",
        "0 forbids power states. For one drive while it runs: nvme.pm_qos_latency_tolerance_us.",
    ),
    module(
        "module.nvme_core.io_timeout",
        Home::Module("nvme_core", "io_timeout"),
        "seconds after which a command counts as lost",
        "New devices begin with it; block.io_timeout changes those that are there.",
    ),
    module(
        "module.scsi_mod.use_blk_mq",
        Home::Module("scsi_mod", "use_blk_mq"),
        "multi-queue SCSI",
        "Always on since Linux 5.0.",
    ),
    module(
        "module.libata.force",
        Home::Module("libata", "force"),
        "forced SATA settings",
        "Link speed, NCQ and others for ports: libata.force=1.00:noncq.",
    ),
    boot(
        "boot.mitigations",
        "mitigations",
        "protection against processor bugs",
        "off makes system calls cheaper, and each small I/O with them.",
    ),
    boot(
        "boot.intel_iommu",
        "intel_iommu",
        "translation of device addresses",
        "On with strict flushing it costs every I/O; iommu.strict=0 defers.",
    ),
    boot(
        "boot.iommu",
        "iommu",
        "translation of device addresses",
        "pt lets devices of the host itself bypass it.",
    ),
    boot(
        "boot.pcie_aspm",
        "pcie_aspm",
        "power saving of PCIe links",
        "off keeps links awake: the first request after a pause is faster.",
    ),
    boot(
        "boot.elevator",
        "elevator",
        "I/O scheduler at boot",
        "Without effect since Linux 5.0; use block.scheduler with a udev rule.",
    ),
    boot(
        "boot.mem",
        "mem",
        "memory that the kernel uses",
        "Less of it makes a small file larger than the cache; a control group with a memory limit does without a boot.",
    ),
];
