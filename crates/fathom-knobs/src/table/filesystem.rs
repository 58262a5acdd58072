//! Options of mounted filesystems, as far as the kernel changes them while they are mounted, and `/sys/fs/`.

use crate::knob::{Access, Group, Home, Knob, Opt, Persist, Risk, Rounding, Values, order};

const BASE: Knob = Knob { persist: Persist::Fstab, ..Knob::BASE };
const EXT4: &[&str] = &["ext4", "ext3", "ext2"];
const XFS: &[&str] = &["xfs"];
const BTRFS: &[&str] = &["btrfs"];
const LAZY: &[&str] = &["ext4", "xfs", "btrfs", "f2fs"];

const AT_MOUNT: Access = Access::Fixed(
    "the filesystem looks at it only when it is mounted: a remount is accepted and does nothing, or is refused. As a level of an experiment on a \
     filesystem that fathom makes ([setup]): mount.OPTION, such as mount.data",
);
const FLUSHES: Access = Access::Refused(
    "without barriers nothing is flushed, and a power cut can destroy a filesystem that is in use. As a level of an experiment on a \
     filesystem that fathom makes ([setup]): mount.barrier",
);

const fn option(
    id: &'static str,
    kinds: &'static [&'static str],
    opt: Opt,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob { id, title, does, home: Home::Option(kinds, opt), ..BASE }
}

const fn at_mount(
    id: &'static str,
    kinds: &'static [&'static str],
    opt: Opt,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob { values: Values::Shown, access: AT_MOUNT, ..option(id, kinds, opt, title, does) }
}

const fn ext4(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::FileSystem("ext4", file),
        persist: Persist::Tmpfiles,
        ..Knob::BASE
    }
}

const fn btrfs(
    id: &'static str,
    file: &'static str,
    title: &'static str,
    does: &'static str,
) -> Knob {
    Knob {
        id,
        title,
        does,
        home: Home::FileSystem("btrfs", file),
        persist: Persist::Tmpfiles,
        ..Knob::BASE
    }
}

const NUMBER_MAX: i64 = i32::MAX as i64;

pub const KNOBS: &[Knob] = &[
    Knob {
        id: "mount.atime",
        title: "access times",
        does: "noatime never writes them; relatime when they are older than the last change, or than a day; strictatime at every read.",
        home: Home::AccessTime,
        values: Values::Words(&["relatime", "noatime", "strictatime"]),
        trap: "mount -o atime means relatime since 2.6.30: only strictatime writes at every read. It belongs to the mount: the same filesystem \
               mounted elsewhere keeps its own.",
        ..BASE
    },
    Knob {
        values: Values::Switch,
        kernels: "4.0 and later",
        risk: Risk::Durability,
        couplings: "vm.dirtytime_expire_seconds bounds how long they wait",
        ..option(
            "mount.lazytime",
            LAZY,
            Opt::Flag("lazytime", "nolazytime", false),
            "time stamps in memory",
            "1 keeps changes of time stamps in memory until something else writes the inode; a crash loses only them.",
        )
    },
    Knob {
        unit: "s",
        values: Values::Number(1, 300),
        risk: Risk::Durability,
        trap: "0 means the default of 5 s, not never; fathom wants the number.",
        ..option(
            "ext4.commit",
            EXT4,
            Opt::Value("commit", "5"),
            "time between commits of the journal",
            "Longer times write less metadata, and lose more after a crash when nobody called fsync.",
        )
    },
    Knob {
        values: Values::Switch,
        trap: "Slow on many SSDs; fstrim once a week does the same. Needs a device that can discard.",
        ..option(
            "ext4.discard",
            EXT4,
            Opt::Flag("discard", "nodiscard", false),
            "discard what is deleted",
            "1 tells the device with each commit which blocks are free.",
        )
    },
    Knob {
        access: Access::Fixed(
            "the kernel shows the pace and not whether it is on. As a level of an experiment with [setup]: mount.OPTION",
        ),
        ..at_mount(
            "ext4.init_itable",
            EXT4,
            Opt::Value("init_itable", "10"),
            "pace at which inode tables are zeroed after mkfs",
            "Waits so many times as long as zeroing the last group took.",
        )
    },
    Knob {
        unit: "us",
        values: Values::Number(0, 1_000_000),
        ..option(
            "ext4.max_batch_time",
            EXT4,
            Opt::Value("max_batch_time", "15000"),
            "longest wait for others before a commit",
            "fsync waits up to so long for further ones to share the commit; 0 never waits.",
        )
    },
    Knob {
        unit: "us",
        values: Values::Number(0, 1_000_000),
        ..option(
            "ext4.min_batch_time",
            EXT4,
            Opt::Value("min_batch_time", "0"),
            "shortest wait for others before a commit",
            "Helps many writers that sync on very fast devices.",
        )
    },
    Knob {
        unit: "blocks",
        values: Values::Number(0, NUMBER_MAX),
        ..option(
            "ext4.stripe",
            EXT4,
            Opt::Value("stripe", "0"),
            "blocks of a stripe",
            "New files are laid out in whole stripes of the array below. What is there already stays.",
        )
    },
    Knob {
        values: Values::Switch,
        ..option(
            "ext4.dioread_nolock",
            EXT4,
            Opt::Flag("dioread_nolock", "nodioread_nolock", true),
            "direct reads without a lock",
            "1 (the default since 5.6) allocates unwritten extents, so that direct reads need no lock.",
        )
    },
    Knob {
        values: Values::Switch,
        risk: Risk::Durability,
        ..option(
            "ext4.auto_da_alloc",
            EXT4,
            Opt::Flag("auto_da_alloc", "noauto_da_alloc", true),
            "replaced files are written at once",
            "1 writes the data of a file that replaces another by rename before the rename; 0 can leave it empty after a crash.",
        )
    },
    Knob {
        values: Values::Shown,
        risk: Risk::Destructive,
        access: FLUSHES,
        ..option(
            "ext4.barrier",
            EXT4,
            Opt::Flag("barrier", "nobarrier", true),
            "flushes of the device",
            "0 sends none.",
        )
    },
    at_mount(
        "ext4.data",
        EXT4,
        Opt::Value("data", "ordered"),
        "order of data and journal",
        "ordered, writeback, or journal: all data goes through the journal too, and O_DIRECT is buffered.",
    ),
    at_mount(
        "ext4.delalloc",
        EXT4,
        Opt::Flag("delalloc", "nodelalloc", true),
        "late allocation",
        "Blocks are chosen when data is written, not when it is handed over.",
    ),
    Knob {
        values: Values::Shown,
        access: Access::Fixed(
            "no kernel says what it is, so it could not be put back; mount -o remount,journal_ioprio=N sets it",
        ),
        id: "ext4.journal_ioprio",
        title: "I/O priority of the journal",
        does: "0 (highest) to 7. Default 3.",
        home: Home::Nowhere,
        persist: Persist::Other("journal_ioprio=N in the fourth field of the mount in /etc/fstab"),
        ..BASE
    },
    Knob {
        unit: "blocks",
        values: Values::Number(0, 1 << 30),
        trap: "0 or a power of two; the kernel refuses others.",
        ..ext4(
            "ext4.inode_readahead_blks",
            "inode_readahead_blks",
            "read-ahead of inode tables",
            "So many blocks of inodes are read at once. Default 32.",
        )
    },
    Knob {
        unit: "blocks",
        values: Values::Number(0, NUMBER_MAX),
        ..ext4(
            "ext4.mb_stream_req",
            "mb_stream_req",
            "smaller files are packed",
            "Files of fewer blocks are packed together. Default 16.",
        )
    },
    Knob {
        unit: "blocks",
        values: Values::Number(1, NUMBER_MAX),
        ..ext4(
            "ext4.mb_group_prealloc",
            "mb_group_prealloc",
            "blocks that are reserved for small files",
            "Larger reserves keep small files together. Default 512.",
        )
    },
    Knob {
        unit: "extents",
        values: Values::Number(0, NUMBER_MAX),
        ..ext4(
            "ext4.mb_max_to_scan",
            "mb_max_to_scan",
            "free extents looked at, at most",
            "More find a better place and cost CPU time. Default 200.",
        )
    },
    Knob {
        unit: "extents",
        values: Values::Number(0, NUMBER_MAX),
        ..ext4(
            "ext4.mb_min_to_scan",
            "mb_min_to_scan",
            "free extents looked at, at least",
            "More find a better place and cost CPU time. Default 10.",
        )
    },
    Knob {
        unit: "KiB",
        values: Values::Number(0, NUMBER_MAX),
        ..ext4(
            "ext4.extent_max_zeroout_kb",
            "extent_max_zeroout_kb",
            "unwritten extents zeroed as a whole",
            "A write into a smaller unwritten extent zeroes the rest instead of splitting it. Default 32.",
        )
    },
    Knob {
        values: Values::Words(&["inode32", "inode64"]),
        ..option(
            "xfs.inode",
            XFS,
            Opt::Choice(&[("inode32", "inode32", "inode32"), ("inode64", "", "inode64")]),
            "where inodes may lie",
            "inode32 keeps them in the first TiB, for programs that cannot bear large numbers; inode64 near their data.",
        )
    },
    at_mount("xfs.logbufs", XFS, Opt::Value("logbufs", "8"), "log buffers", "2 to 8."),
    at_mount(
        "xfs.logbsize",
        XFS,
        Opt::Value("logbsize", "32k"),
        "size of a log buffer",
        "16k to 256k, a multiple of the log's stripe unit.",
    ),
    at_mount(
        "xfs.allocsize",
        XFS,
        Opt::Value("allocsize", "dynamic"),
        "space reserved behind the end of a file",
        "4k to 1g, a power of two.",
    ),
    at_mount(
        "xfs.noalign",
        XFS,
        Opt::Flag("noalign", "", false),
        "allocation without regard to stripes",
        "Ignores the stripe unit that mkfs has noted.",
    ),
    at_mount(
        "xfs.largeio",
        XFS,
        Opt::Flag("largeio", "nolargeio", false),
        "preferred I/O size is the stripe",
        "What stat(2) tells programs.",
    ),
    at_mount(
        "xfs.swalloc",
        XFS,
        Opt::Flag("swalloc", "noswalloc", false),
        "allocation in stripe widths",
        "Rounds to the stripe width instead of the unit.",
    ),
    at_mount(
        "xfs.wsync",
        XFS,
        Opt::Flag("wsync", "nowsync", false),
        "metadata is written at once",
        "Directory operations wait for the log.",
    ),
    at_mount(
        "xfs.discard",
        XFS,
        Opt::Flag("discard", "nodiscard", false),
        "discard what is deleted",
        "Slow on many devices; prefer fstrim.",
    ),
    at_mount(
        "xfs.sunit",
        XFS,
        Opt::Value("sunit", "0"),
        "stripe unit",
        "In 512-byte sectors here; mkfs takes bytes (su), xfs_info prints blocks.",
    ),
    Knob {
        id: "xfs.xfssyncd_centisecs",
        title: "time between turns of the log worker",
        does: "How often metadata that lies in memory is written and the log is covered.",
        home: Home::Sysctl("fs/xfs/xfssyncd_centisecs"),
        unit: "1/100 s",
        values: Values::Number(100, 720_000),
        persist: Persist::Sysctl,
        ..Knob::BASE
    },
    Knob {
        id: "xfs.speculative_prealloc_lifetime",
        title: "life of space reserved behind files",
        does: "After it, unused reserved space is given back.",
        home: Home::Sysctl("fs/xfs/speculative_prealloc_lifetime"),
        unit: "s",
        values: Values::Number(1, 86_400),
        persist: Persist::Sysctl,
        ..Knob::BASE
    },
    Knob {
        unit: "s",
        values: Values::Number(1, 300),
        risk: Risk::Durability,
        ..option(
            "btrfs.commit",
            BTRFS,
            Opt::Value("commit", "30"),
            "time between commits",
            "Longer times write less metadata, and lose more after a crash.",
        )
    },
    Knob {
        values: Values::Words(&[
            "no", "zlib", "lzo", "zstd", "zlib:1", "zlib:3", "zlib:9", "zstd:1", "zstd:3",
            "zstd:9", "zstd:15",
        ]),
        group: Group::Storing,
        order: order::BEFORE,
        couplings: "switching it on brings checksums and copy on write back (btrfs.datacow)",
        trap: "Holds for what is written from now on. Figures with data that can be compressed are not of the device.",
        rounding: Rounding::Adds,
        ..option(
            "btrfs.compress",
            BTRFS,
            Opt::Value("compress", "no"),
            "compression",
            "Files that compress well are stored compressed.",
        )
    },
    Knob {
        unit: "B",
        values: Values::Number(0, 4096),
        trap: "Holds for what is written from now on.",
        ..option(
            "btrfs.max_inline",
            BTRFS,
            Opt::Value("max_inline", "2048"),
            "files that lie in metadata",
            "Smaller ones are stored beside their inode; 0 gives every file blocks of its own.",
        )
    },
    Knob {
        access: Access::Fixed(
            "its default follows from the processors, and the kernel does not show it. As a level of an experiment \
             with [setup]: mount.OPTION",
        ),
        ..at_mount(
            "btrfs.thread_pool",
            BTRFS,
            Opt::Value("thread_pool", "default"),
            "threads for checksums, compression and the like",
            "At the most so many of each kind.",
        )
    },
    Knob {
        values: Values::Words(&["async", "sync", "no"]),
        trap: "async is switched on by itself on devices that can discard.",
        ..option(
            "btrfs.discard",
            BTRFS,
            Opt::Choice(&[
                ("async", "discard=async", "discard=async"),
                ("sync", "discard", "discard=sync"),
                ("no", "", "nodiscard"),
            ]),
            "discard what is deleted",
            "async collects them and sends them in the background, sync with each commit.",
        )
    },
    Knob {
        values: Values::Switch,
        ..option(
            "btrfs.autodefrag",
            BTRFS,
            Opt::Flag("autodefrag", "noautodefrag", false),
            "defragment small random writes",
            "1 rewrites small files that are written at random.",
        )
    },
    Knob {
        values: Values::Switch,
        ..option(
            "btrfs.flushoncommit",
            BTRFS,
            Opt::Flag("flushoncommit", "noflushoncommit", false),
            "data goes with each commit",
            "1 writes all dirty data of a filesystem with each commit.",
        )
    },
    Knob {
        values: Values::Switch,
        ..option(
            "btrfs.treelog",
            BTRFS,
            Opt::Flag("treelog", "notreelog", true),
            "log for fsync",
            "0 makes every fsync a whole commit.",
        )
    },
    Knob {
        values: Values::Words(&["datacow", "nodatasum", "nodatacow"]),
        risk: Risk::Durability,
        group: Group::Storing,
        order: order::AFTER,
        couplings: "nodatacow switches btrfs.compress off",
        trap: "Without copy on write there are no checksums either. Holds for new files only.",
        ..option(
            "btrfs.datacow",
            BTRFS,
            Opt::Choice(&[
                ("nodatacow", "nodatacow", "nodatacow"),
                ("nodatasum", "nodatasum", "datacow,nodatasum"),
                ("datacow", "", "datasum,datacow"),
            ]),
            "copy on write and checksums of data",
            "nodatacow overwrites data in place: for databases and images of virtual machines.",
        )
    },
    Knob {
        values: Values::Shown,
        risk: Risk::Destructive,
        access: FLUSHES,
        ..option(
            "btrfs.barrier",
            BTRFS,
            Opt::Flag("barrier", "nobarrier", true),
            "flushes of the device",
            "0 sends none.",
        )
    },
    Knob {
        values: Values::Shown,
        access: Access::Fixed(
            "unless somebody chose, btrfs decides by block.rotational when it is mounted, and that state cannot be put back by a remount. As a \
             level of an experiment with [setup]: mount.OPTION",
        ),
        ..option(
            "btrfs.ssd",
            BTRFS,
            Opt::Flag("ssd", "nossd", false),
            "allocation for SSDs",
            "Data is put into larger free ranges.",
        )
    },
    at_mount(
        "btrfs.space_cache",
        BTRFS,
        Opt::Value("space_cache", "v1"),
        "cache of free space",
        "v2 is the free space tree.",
    ),
    Knob {
        unit: "KiB",
        values: Values::Number(0, 1_048_576),
        rounding: Rounding::PagesKib,
        trap: "btrfs has one read-ahead for all its devices, 4 MiB at first, and ignores block.read_ahead_kb.",
        ..btrfs(
            "btrfs.read_ahead_kb",
            "bdi/read_ahead_kb",
            "read-ahead of the filesystem",
            "How far the kernel reads ahead of buffered sequential reads.",
        )
    },
    Knob {
        values: Values::Listed,
        kernels: "5.11 and later; more than pid only with experimental features",
        ..btrfs(
            "btrfs.read_policy",
            "read_policy",
            "which copy is read",
            "pid: the process number chooses the copy, so one reader uses one disk.",
        )
    },
    Knob {
        unit: "%",
        values: Values::Number(0, 100),
        kernels: "5.13 and later",
        ..btrfs(
            "btrfs.bg_reclaim_threshold",
            "bg_reclaim_threshold",
            "fullness below which zones are emptied",
            "Block groups of zoned devices that are less full are rewritten elsewhere.",
        )
    },
    Knob {
        unit: "discards/s",
        values: Values::Number(0, NUMBER_MAX),
        kernels: "6.2 and later",
        ..btrfs(
            "btrfs.discard_iops_limit",
            "discard/iops_limit",
            "speed of background discards",
            "Discards per second with discard=async. Default 1000.",
        )
    },
    Knob {
        unit: "KiB/s",
        values: Values::Number(0, NUMBER_MAX),
        kernels: "6.2 and later",
        ..btrfs(
            "btrfs.discard_kbps_limit",
            "discard/kbps_limit",
            "rate of background discards",
            "0 is without a limit.",
        )
    },
];
