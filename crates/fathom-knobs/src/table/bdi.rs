//! Shares of the page cache of a device, and the read-ahead of filesystems without one: `/sys/class/bdi/MAJ:MIN/`.

use crate::knob::{Group, Home, Knob, Persist, Rounding, Values, order};

const BASE: Knob = Knob { group: Group::Bdi, ..Knob::BASE };
const SAME: &str = "ratio, ratio_fine and bytes are three ways to say the same; fathom keeps the finest that the kernel has";

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "bdi.max_ratio",
        title: "largest share of dirty memory",
        does: "So much of the dirty memory may wait for this device, so that a slow one cannot fill all.",
        home: Home::Bdi("max_ratio"),
        unit: "%",
        values: Values::Number(0, 100),
        order: order::BEFORE,
        couplings: SAME,
        trap: "Without bdi.strict_limit it only holds when memory is short.",
        ..BASE
    },
    Knob {
        id: "bdi.max_ratio_fine",
        title: "largest share of dirty memory, finer",
        does: "So much of the dirty memory may wait for this device.",
        home: Home::Bdi("max_ratio_fine"),
        unit: "parts per million",
        values: Values::Number(0, 1_000_000),
        order: order::BEFORE,
        couplings: SAME,
        kernels: "6.2 and later",
        ..BASE
    },
    Knob {
        id: "bdi.max_bytes",
        title: "largest amount of dirty memory",
        does: "So much dirty memory may wait for this device.",
        home: Home::Bdi("max_bytes"),
        unit: "bytes",
        values: Values::Number(1 << 20, i64::MAX),
        order: order::BEFORE,
        rounding: Rounding::Share,
        couplings: SAME,
        kernels: "6.2 and later",
        trap: "Kept as a share: the number follows the memory that is free, and what is read back is a little less. For 0 use the ratio.",
        ..BASE
    },
    Knob {
        id: "bdi.min_ratio",
        title: "smallest share of dirty memory",
        does: "So much of the dirty memory is kept for this device.",
        home: Home::Bdi("min_ratio"),
        unit: "%",
        values: Values::Number(0, 100),
        order: order::AFTER,
        couplings: "cannot be above bdi.max_ratio, and all devices together not above 100",
        ..BASE
    },
    Knob {
        id: "bdi.min_ratio_fine",
        title: "smallest share of dirty memory, finer",
        does: "So much of the dirty memory is kept for this device.",
        home: Home::Bdi("min_ratio_fine"),
        unit: "parts per million",
        values: Values::Number(0, 1_000_000),
        order: order::AFTER,
        couplings: "cannot be above bdi.max_ratio_fine, and all devices together not above 1000000",
        kernels: "6.2 and later",
        ..BASE
    },
    Knob {
        id: "bdi.min_bytes",
        title: "smallest amount of dirty memory",
        does: "So much dirty memory is kept for this device.",
        home: Home::Bdi("min_bytes"),
        unit: "bytes",
        values: Values::Number(1 << 20, i64::MAX),
        order: order::AFTER,
        rounding: Rounding::Share,
        couplings: SAME,
        kernels: "6.2 and later",
        trap: "Kept as a share: the number follows the memory that is free. For 0 use the ratio.",
        ..BASE
    },
    Knob {
        id: "bdi.read_ahead_kb",
        title: "read-ahead of NFS and FUSE",
        does: "How far the kernel reads ahead of buffered sequential reads from another machine or process.",
        home: Home::MountBdi("read_ahead_kb"),
        group: Group::Alone,
        unit: "KiB",
        values: Values::Number(0, 1_048_576),
        rounding: Rounding::PagesKib,
        persist: Persist::Other(
            "each mount begins with the kernel's own again; where nfs-utils have nfsrahead: nfs4 = KIB in the section [nfsrahead] of /etc/nfs.conf",
        ),
        trap: "Mounts of one export share it. Disks have block.read_ahead_kb, btrfs btrfs.read_ahead_kb.",
        ..BASE
    },
    Knob {
        id: "bdi.strict_limit",
        title: "the share holds always",
        does: "1 makes the limits of the device hold even while memory is plenty.",
        home: Home::Bdi("strict_limit"),
        values: Values::Switch,
        kernels: "6.2 and later",
        ..BASE
    },
];
