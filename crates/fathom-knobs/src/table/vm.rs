//! The page cache and writeback: `/proc/sys/vm/`, and what else holds for the machine.

use crate::knob::{Group, Home, Knob, Persist, Rounding, Values, order};

const BASE: Knob = Knob { persist: Persist::Sysctl, ..Knob::BASE };
const DIRTY: Knob = Knob { group: Group::Dirty, ..BASE };
const PAIR: &str = "ratio and bytes are two ways to say the same: setting one makes the other read 0. To go back to a ratio, write the \
                    ratio: 0 bytes is refused by the kernel";

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "vm.dirty_ratio",
        title: "dirty memory at which writers wait",
        does: "Above it programs that write are slowed to the speed of the device.",
        home: Home::Sysctl("vm/dirty_ratio"),
        unit: "% of the memory that may be dirty",
        values: Values::Number(0, 100),
        couplings: PAIR,
        trap: "Of free and cached memory, not of all memory. Large values make a write benchmark measure memory and a sync take minutes.",
        ..DIRTY
    },
    Knob {
        id: "vm.dirty_bytes",
        title: "dirty memory at which writers wait",
        does: "Above it programs that write are slowed to the speed of the device.",
        home: Home::Sysctl("vm/dirty_bytes"),
        unit: "bytes",
        values: Values::Number(8192, i64::MAX),
        couplings: PAIR,
        trap: "At least two pages. 0 is refused: set vm.dirty_ratio instead.",
        order: order::AFTER,
        ..DIRTY
    },
    Knob {
        id: "vm.dirty_background_ratio",
        title: "dirty memory at which writeback begins",
        does: "Above it the kernel begins to write in the background; programs do not wait.",
        home: Home::Sysctl("vm/dirty_background_ratio"),
        unit: "% of the memory that may be dirty",
        values: Values::Number(0, 100),
        couplings: PAIR,
        trap: "At or above vm.dirty_ratio the kernel uses half of that.",
        ..DIRTY
    },
    Knob {
        id: "vm.dirty_background_bytes",
        title: "dirty memory at which writeback begins",
        does: "Above it the kernel begins to write in the background; programs do not wait.",
        home: Home::Sysctl("vm/dirty_background_bytes"),
        unit: "bytes",
        values: Values::Number(1, i64::MAX),
        couplings: PAIR,
        trap: "0 is refused: set vm.dirty_background_ratio instead.",
        order: order::AFTER,
        ..DIRTY
    },
    Knob {
        id: "vm.dirty_expire_centisecs",
        title: "age at which dirty data is written",
        does: "Data older than this is written at the next turn of the writeback.",
        home: Home::Sysctl("vm/dirty_expire_centisecs"),
        unit: "1/100 s",
        values: Values::Number(0, 8_640_000),
        ..BASE
    },
    Knob {
        id: "vm.dirty_writeback_centisecs",
        title: "time between turns of the writeback",
        does: "How often the kernel looks for old dirty data.",
        home: Home::Sysctl("vm/dirty_writeback_centisecs"),
        unit: "1/100 s",
        values: Values::Number(0, 8_640_000),
        words: &[("0", "no turns: only limits and sync write")],
        ..BASE
    },
    Knob {
        id: "vm.dirtytime_expire_seconds",
        title: "age at which lazy time stamps are written",
        does: "With lazytime, time stamps older than this are written.",
        home: Home::Sysctl("vm/dirtytime_expire_seconds"),
        unit: "s",
        values: Values::Number(0, 31_536_000),
        ..BASE
    },
    Knob {
        id: "vm.swappiness",
        title: "swapping against dropping cache",
        does: "Low values keep the memory of programs and drop cache; 100 takes both alike; above it swap is taken for faster than files.",
        home: Home::Sysctl("vm/swappiness"),
        values: Values::Number(0, 200),
        kernels: "up to 200 from 5.8 on; 100 before",
        trap: "0 does not turn swap off.",
        ..BASE
    },
    Knob {
        id: "vm.vfs_cache_pressure",
        title: "keeping of directory entries and inodes",
        does: "Below 100 they are kept longer than file data, above it dropped sooner.",
        home: Home::Sysctl("vm/vfs_cache_pressure"),
        unit: "%",
        values: Values::Number(0, 100_000),
        words: &[("0", "never dropped: memory can run out")],
        ..BASE
    },
    Knob {
        id: "vm.min_free_kbytes",
        title: "memory that is kept free",
        does: "More of it lets bursts of network and disk interrupts find memory at once; all else has less.",
        home: Home::Sysctl("vm/min_free_kbytes"),
        unit: "KiB",
        values: Values::Number(1024, 4_194_304),
        inexact: "that nobody had set it: the kernel then no longer adapts it when memory is added or huge pages are switched on",
        trap: "Too much of it, and the machine kills programs at once: more than a tenth of all memory is refused.",
        ..BASE
    },
    Knob {
        id: "vm.page-cluster",
        title: "read-ahead of swap",
        does: "So many pages are read from swap at once, as a power of two.",
        home: Home::Sysctl("vm/page-cluster"),
        unit: "power of two pages",
        values: Values::Number(0, 31),
        kernels: "at most 31 from 6.x on; 0 for swap on SSD or zram",
        ..BASE
    },
    Knob {
        id: "vm.laptop_mode",
        title: "writing together with reads",
        does: "After a read, dirty data is written so many seconds later, so that a disk can sleep longer.",
        home: Home::Sysctl("vm/laptop_mode"),
        unit: "s",
        values: Values::Number(0, 3600),
        words: &[("0", "off")],
        rounding: Rounding::Exact,
        trap: "Anything but 0 on a server lets reads start writes.",
        ..BASE
    },
];
