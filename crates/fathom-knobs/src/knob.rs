//! What is known of a setting.

/// One setting: what it is, where it is, what it may be, and what happens to others when it is written.
#[derive(Debug, Clone, Copy)]
pub struct Knob {
    /// Identifier, `family.name`.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// What a larger, smaller or other value does.
    pub does: &'static str,
    /// Where the kernel keeps it.
    pub home: Home,
    /// Unit of its numbers; empty for words and counts.
    pub unit: &'static str,
    /// What it may be.
    pub values: Values,
    /// Values with a meaning of their own.
    pub words: &'static [(&'static str, &'static str)],
    /// Settings that change with it: they are noted together.
    pub group: Group,
    /// Place in the order of writing; lower ones first.
    pub order: u16,
    /// How a value that was written may differ from what is read back.
    pub rounding: Rounding,
    /// What writing it does to others, and others to it.
    pub couplings: &'static str,
    /// Which kernels have it.
    pub kernels: &'static str,
    /// What can go wrong.
    pub risk: Risk,
    /// Whether it is set by fathom.
    pub access: Access,
    /// What of the former state cannot be put back; empty when all of it can.
    pub inexact: &'static str,
    /// How it is made to survive a boot.
    pub persist: Persist,
    /// What people run into.
    pub trap: &'static str,
    /// Drive or array keep it over a boot.
    pub is_kept: bool,
}

/// Where the kernel keeps a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// A file in `queue/` of a block device.
    Queue(&'static str),
    /// A file in `queue/iosched/`, there only while that scheduler is active.
    Scheduler(&'static str, &'static str),
    /// A file below the directory of a block device.
    Device(&'static str),
    /// A file of the device's `bdi`.
    Bdi(&'static str),
    /// A file of the `bdi` of a mounted filesystem without a block device, which has the number of the mount.
    MountBdi(&'static str),
    /// A file of the NVMe subsystem that a namespace belongs to.
    NvmeSubsystem(&'static str),
    /// A file of the NVMe controllers that lead to a namespace.
    NvmeController(&'static str),
    /// A file of the SCSI disk (`/sys/class/scsi_disk/*/`).
    ScsiDisk(&'static str),
    /// A file below `/proc/sys`.
    Sysctl(&'static str),
    /// A parameter of a module: `/sys/module/MODULE/parameters/NAME`.
    Module(&'static str, &'static str),
    /// A parameter of the kernel's command line.
    Boot(&'static str),
    /// A line per device in a file of the root control group.
    RootGroup(&'static str),
    /// A limit of one control group: no setting of a machine.
    Group(&'static str),
    /// How access times are kept, by mount.
    AccessTime,
    /// An option of a mounted filesystem of these types.
    Option(&'static [&'static str], Opt),
    /// A file in `/sys/fs/TYPE/` of the filesystem.
    FileSystem(&'static str, &'static str),
    /// A thing of which the kernel tells nothing, or that is done with a tool.
    Nowhere,
}

/// How an option of a mount is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opt {
    /// `NAME=value`, with the value that holds when the option is not shown.
    Value(&'static str, &'static str),
    /// One of two words: the first for 1, the second for 0; the last says what holds when neither is shown.
    Flag(&'static str, &'static str, bool),
    /// One of several: the value, the option that shows it (of the last one: none), the options that set it.
    Choice(&'static [(&'static str, &'static str, &'static str)]),
}

/// What a setting may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// 0 or 1.
    Switch,
    /// A whole number, both ends included.
    Number(i64, i64),
    /// A whole number up to what another attribute beside it says.
    UpTo(i64, &'static str),
    /// Requests of a queue: from 4 to what scheduler and hardware allow.
    Requests,
    /// A multiple of the discard granularity up to what the hardware can.
    Discard,
    /// 0, or exactly what another attribute says.
    ZeroOr(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// One of the words in the file itself, the active one in brackets.
    Listed,
    /// A number, or one of these words.
    NumberOr(i64, i64, &'static [&'static str]),
    /// `key=value` words as the kernel documents them.
    Line,
    /// Anything: it is only shown.
    Shown,
}

/// Settings that change with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The request queue with its scheduler.
    Queue,
    /// A software array.
    Array,
    /// Shares of the page cache of a device.
    Bdi,
    /// Limits of dirty memory.
    Dirty,
    /// How btrfs stores data.
    Storing,
    /// None.
    Alone,
}

/// How what is read back may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// Not at all.
    Exact,
    /// Rounded down to whole pages, in KiB.
    PagesKib,
    /// Rounded to the kernel's timer tick: a few milliseconds.
    Tick,
    /// Follows the free memory: within five percent.
    Share,
    /// `-1` and `0` stand for something else that is then read.
    Stands,
    /// The kernel adds further words to those that were written.
    Adds,
}

/// What a setting can do harm to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// Speed only.
    Performance,
    /// What is left after a crash or power cut.
    Durability,
    /// Data.
    Destructive,
}

impl Risk {
    /// One word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Performance => "performance",
            Self::Durability => "durability",
            Self::Destructive => "destructive",
        }
    }
}

/// Whether fathom sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Yes.
    Set,
    /// Never, for this reason.
    Refused(&'static str),
    /// The kernel does not let anybody while it runs; this is where it is set.
    Fixed(&'static str),
}

/// How a setting survives a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// A udev rule that writes the attribute when the device appears.
    Udev,
    /// A line in `/etc/sysctl.d`.
    Sysctl,
    /// An option in `/etc/fstab`.
    Fstab,
    /// `options MODULE NAME=value` in `/etc/modprobe.d`, or `MODULE.NAME=value` on the kernel's command line.
    Modprobe,
    /// On the kernel's command line.
    CommandLine,
    /// A line in `/etc/tmpfiles.d` that writes the file at boot.
    Tmpfiles,
    /// In this way.
    Other(&'static str),
}

impl Knob {
    /// What most settings are; tables say what differs.
    pub(crate) const BASE: Self = Self {
        id: "",
        title: "",
        does: "",
        home: Home::Nowhere,
        unit: "",
        values: Values::Switch,
        words: &[],
        group: Group::Alone,
        order: order::REST,
        rounding: Rounding::Exact,
        couplings: "",
        kernels: "all in use",
        risk: Risk::Performance,
        access: Access::Set,
        inexact: "",
        persist: Persist::Udev,
        trap: "",
        is_kept: false,
    };

    /// The family: what stands before the point.
    #[must_use]
    pub fn family(&self) -> &'static str {
        self.id.split_once('.').map_or(self.id, |(family, _)| family)
    }

    /// True when fathom sets it.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.access == Access::Set
    }

    /// What it belongs to, for people.
    #[must_use]
    pub fn scope(&self) -> &'static str {
        match self.home {
            Home::Queue(_)
            | Home::Scheduler(..)
            | Home::Device(_)
            | Home::Bdi(_)
            | Home::NvmeSubsystem(_)
            | Home::NvmeController(_)
            | Home::ScsiDisk(_)
            | Home::RootGroup(_) => "each block device",
            Home::Sysctl(_) | Home::Module(..) | Home::Boot(_) => "the machine",
            Home::AccessTime => "each mount",
            Home::Option(..) | Home::FileSystem(..) => "each mounted filesystem",
            Home::MountBdi(_) => "each mounted filesystem of another machine or process",
            Home::Group(_) => "each control group",
            Home::Nowhere => "each mounted filesystem",
        }
    }

    /// The file or place in the kernel's words, with `DEV` for the device.
    #[must_use]
    pub fn place(&self) -> String {
        match self.home {
            Home::Queue(file) => format!("/sys/block/DEV/queue/{file}"),
            Home::Scheduler(_, file) => format!("/sys/block/DEV/queue/iosched/{file}"),
            Home::Device(file) => format!("/sys/block/DEV/{file}"),
            Home::Bdi(file) | Home::MountBdi(file) => format!("/sys/class/bdi/MAJ:MIN/{file}"),
            Home::NvmeSubsystem(file) => format!("/sys/class/nvme-subsystem/*/{file}"),
            Home::NvmeController(file) => format!("/sys/class/nvme/nvmeN/{file}"),
            Home::ScsiDisk(file) => format!("/sys/class/scsi_disk/H:C:T:L/{file}"),
            Home::Sysctl(file) => format!("/proc/sys/{file}"),
            Home::Module(module, name) => format!("/sys/module/{module}/parameters/{name}"),
            Home::Boot(name) => format!("{name}= on the kernel's command line"),
            Home::RootGroup(file) => format!("/sys/fs/cgroup/{file}"),
            Home::Group(file) => format!("/sys/fs/cgroup/GROUP/{file}"),
            Home::AccessTime => "mount -o remount,bind,WORD".to_owned(),
            Home::Option(_, Opt::Value(name, _)) => format!("mount -o remount,{name}=VALUE"),
            Home::Option(_, Opt::Flag(on, off, _)) => format!("mount -o remount,{on} or {off}"),
            Home::Option(_, Opt::Choice(several)) => {
                let words: Vec<&str> = several.iter().map(|(_, _, write)| *write).collect();
                format!("mount -o remount,{}", words.join(" or "))
            }
            Home::FileSystem(kind, file) => format!("/sys/fs/{kind}/DEV/{file}"),
            Home::Nowhere => "nothing of the kernel's shows it".to_owned(),
        }
    }
}

/// The order of writing, as the couplings demand: what resets others comes first.
pub(crate) mod order {
    /// The drive is asked again for all its limits.
    pub const DRIVE: u16 = 5;
    /// A new scheduler resets the number of requests and brings its own settings.
    pub const SCHEDULER: u16 = 10;
    /// Flags of the queue, limits: each write raises the read-ahead.
    pub const LIMITS: u16 = 20;
    /// Resets the scheduler's `async_depth`.
    pub const REQUESTS: u16 = 30;
    /// Settings of the scheduler that raise others of it.
    pub const SCHEDULER_FIRST: u16 = 39;
    /// Settings of the scheduler.
    pub const SCHEDULER_OWN: u16 = 40;
    /// Settings of the scheduler that say the same as others, finer.
    pub const SCHEDULER_LAST: u16 = 41;
    /// Before what must not be above it.
    pub const BEFORE: u16 = 49;
    /// What nothing depends on.
    pub const REST: u16 = 50;
    /// Must not be above what [`BEFORE`] sets.
    pub const AFTER: u16 = 51;
    /// Turned off by one scheduler.
    pub const WRITEBACK: u16 = 60;
    /// Raised by every write to a limit.
    pub const READ_AHEAD: u16 = 90;
}
