//! Software arrays: `/sys/block/mdN/md/`, and the limits for all of them.

use crate::knob::{Access, Group, Home, Knob, Persist, Risk, Rounding, Values, order};

const BASE: Knob = Knob { group: Group::Array, kernels: "with md arrays", ..Knob::BASE };

const fn made(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::Device(file),
        values: Values::Shown,
        group: Group::Alone,
        risk: Risk::Destructive,
        access: Access::Fixed(
            "it is chosen when an array is made; changing it moves all data (mdadm --grow). As a level of an experiment: setup.array",
        ),
        persist: Persist::Other("in the array's own superblock"),
        ..BASE
    }
}

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "md.stripe_cache_size",
        title: "stripes that are kept in memory",
        does: "raid4, raid5 and raid6 collect writes there until a stripe is whole. More of them save reads before writes.",
        home: Home::Device("md/stripe_cache_size"),
        unit: "stripes",
        values: Values::Number(17, 32_768),
        order: order::BEFORE,
        couplings: "md.preread_bypass_threshold cannot be above it",
        trap: "Costs pages times members each: 4096 stripes of 8 members are 128 MiB. Not kept over a boot. When memory is short the \
               kernel may hold fewer than it says.",
        ..BASE
    },
    Knob {
        id: "md.preread_bypass_threshold",
        title: "whole stripes that pass first",
        does: "So many whole stripes may pass one that must be read first. 0 serves strictly in turn.",
        home: Home::Device("md/preread_bypass_threshold"),
        unit: "stripes",
        values: Values::UpTo(0, "stripe_cache_size"),
        order: order::AFTER,
        couplings: "cannot be above md.stripe_cache_size; therefore written after it",
        ..BASE
    },
    Knob {
        id: "md.group_thread_cnt",
        title: "threads that compute parity",
        does: "0 is one thread for the array, which is what fast SSDs wait for; N gives N threads on each NUMA node.",
        home: Home::Device("md/group_thread_cnt"),
        unit: "threads",
        values: Values::Number(0, 8192),
        trap: "The array stands still while it changes. Not kept over a boot.",
        ..BASE
    },
    Knob {
        id: "md.rmw_level",
        title: "how parity is brought up to date",
        does: "Whether old data and parity are read (read-modify-write) where that needs fewer reads than the rest of the stripe.",
        home: Home::Device("md/rmw_level"),
        values: Values::Number(0, 2),
        words: &[("0", "never"), ("1", "where it is cheaper"), ("2", "whenever it is possible")],
        kernels: "4.1 and later; raid6 only where the parity code can",
        ..BASE
    },
    Knob {
        id: "md.skip_copy",
        title: "no copy of whole pages",
        does: "1 lets whole stripes be written from the page cache without a copy.",
        home: Home::Device("md/skip_copy"),
        values: Values::Switch,
        couplings: "switches block.stable_writes of the array with it, which raises the read-ahead; fathom puts that back",
        trap: "The array stands still while it changes.",
        ..BASE
    },
    Knob {
        id: "md.stripe_size",
        title: "unit of the stripe cache",
        does: "Smaller units read and write less around small requests.",
        home: Home::Device("md/stripe_size"),
        unit: "bytes",
        values: Values::Number(4096, 65_536),
        kernels: "5.10 and later; can be changed only where pages are larger than 4096 bytes",
        trap: "Elsewhere it is there and refuses every write.",
        ..BASE
    },
    Knob {
        id: "md.journal_mode",
        title: "how the journal device is used",
        does: "write-back acknowledges what is in the journal, write-through only what is in the array too.",
        home: Home::Device("md/journal_mode"),
        values: Values::Listed,
        risk: Risk::Durability,
        kernels: "4.10 and later, arrays with a journal device",
        trap: "With write-back the journal device holds data that exist nowhere else.",
        ..BASE
    },
    Knob {
        id: "md.ppl_write_hint",
        title: "life-time hint of the partial parity log",
        does: "Told to the drives; none of today's kernels uses it.",
        home: Home::Device("md/ppl_write_hint"),
        values: Values::Shown,
        access: Access::Fixed("it does nothing since drives are no longer given such hints"),
        persist: Persist::Other("cannot be set"),
        kernels: "4.18 to 6.x",
        ..BASE
    },
    Knob {
        id: "md.sync_speed_min",
        title: "speed that a rebuild always gets",
        does: "Below it resync, rebuild and check do not give way to other I/O.",
        home: Home::Device("md/sync_speed_min"),
        unit: "KiB/s",
        values: Values::NumberOr(1, 100_000_000, &["system"]),
        words: &[("system", "as md.speed_limit_min says")],
        couplings: "cannot be above md.sync_speed_max",
        order: order::AFTER,
        trap: "Reads as 1000 (system) or 1000 (local); to go back, the word system is written, not the number. For each member, not for the array.",
        ..BASE
    },
    Knob {
        id: "md.sync_speed_max",
        title: "speed that a rebuild never exceeds",
        does: "Above it resync, rebuild and check wait, even when nobody else wants the disks.",
        home: Home::Device("md/sync_speed_max"),
        unit: "KiB/s",
        values: Values::NumberOr(1, 100_000_000, &["system"]),
        words: &[("system", "as md.speed_limit_max says")],
        order: order::BEFORE,
        trap: "200000 is far below what SSDs can do.",
        ..BASE
    },
    Knob {
        id: "md.sync_action",
        title: "what the array does to itself",
        does: "idle, check, repair, resync, recover, frozen.",
        home: Home::Device("md/sync_action"),
        values: Values::Shown,
        group: Group::Alone,
        risk: Risk::Destructive,
        access: Access::Refused(
            "it is an act, not a setting: what began cannot be put back, and repair writes. As a level of an experiment: setup.array.state = \
             \"checking\" or \"rebuilding\" on an array that fathom made",
        ),
        persist: Persist::Other("cannot be set"),
        trap: "idle may begin again by itself.",
        ..BASE
    },
    Knob {
        id: "md.safe_mode_delay",
        title: "quiet time after which an array is marked clean",
        does: "Longer delays save writes to the superblocks under load that comes in bursts.",
        home: Home::Device("md/safe_mode_delay"),
        unit: "s",
        values: Values::Shown,
        access: Access::Refused(
            "longer delays let a power cut find the array dirty more often, and then it is synchronised as a whole",
        ),
        risk: Risk::Durability,
        ..BASE
    },
    Knob {
        id: "md.bitmap_backlog",
        title: "writes that slow members may be behind",
        does: "So many writes to write-mostly members of raid1 may be outstanding while the request is done already. 0 for none.",
        home: Home::Device("md/bitmap/backlog"),
        unit: "requests",
        values: Values::Number(0, 16_383),
        risk: Risk::Durability,
        trap: "Needs a bitmap and members marked write-mostly. It is stored in the array.",
        is_kept: true,
        ..BASE
    },
    Knob {
        id: "md.bitmap_time_base",
        title: "time after which bits are cleared",
        does: "Longer times save writes to the bitmap, and leave more to synchronise after a crash.",
        home: Home::Device("md/bitmap/time_base"),
        unit: "s",
        values: Values::Number(1, 3600),
        rounding: Rounding::Exact,
        trap: "Needs a bitmap. It is stored in the array.",
        is_kept: true,
        ..BASE
    },
    made(
        "md.bitmap_location",
        "md/bitmap/location",
        "where the bitmap is",
        "none, or its place on the members.",
    ),
    made(
        "md.bitmap_chunksize",
        "md/bitmap/chunksize",
        "what a bit stands for",
        "Bytes that are synchronised together after a crash.",
    ),
    made(
        "md.consistency_policy",
        "md/consistency_policy",
        "how it survives a crash",
        "none, resync, bitmap, journal or ppl.",
    ),
    made(
        "md.bitmap_type",
        "md/bitmap_type",
        "kind of bitmap",
        "bitmap, or llbitmap without locks.",
    ),
    made("md.level", "md/level", "level", "raid0, raid1, raid4, raid5, raid6, raid10."),
    made("md.layout", "md/layout", "layout", "How data, copies and parity go round the members."),
    made(
        "md.chunk_size",
        "md/chunk_size",
        "chunk",
        "Bytes on one member before the next one follows.",
    ),
    made("md.raid_disks", "md/raid_disks", "members", "How many there are."),
    made("md.metadata_version", "md/metadata_version", "superblocks", "Their form and place."),
    Knob {
        id: "md.speed_limit_min",
        title: "speed that every rebuild gets",
        does: "Below it resync, rebuild and check of arrays without a limit of their own do not give way to other I/O.",
        home: Home::Sysctl("dev/raid/speed_limit_min"),
        unit: "KiB/s",
        values: Values::Number(0, 100_000_000),
        group: Group::Alone,
        persist: Persist::Sysctl,
        ..BASE
    },
    Knob {
        id: "md.speed_limit_max",
        title: "speed that no rebuild exceeds",
        does: "Above it resync, rebuild and check of arrays without a limit of their own wait.",
        home: Home::Sysctl("dev/raid/speed_limit_max"),
        unit: "KiB/s",
        values: Values::Number(0, 100_000_000),
        group: Group::Alone,
        persist: Persist::Sysctl,
        ..BASE
    },
];
