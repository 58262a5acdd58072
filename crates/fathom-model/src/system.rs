//! Facts about a system that matter to its storage in use, beyond those that go with every record.
//!
//! A field is none or empty when it could not be read or is not there.

use serde::{Deserialize, Serialize};

/// The system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SystemFacts {
    /// The machine's own name, which goes with nothing but this: what is shown to others replaces it.
    pub host_name: Option<String>,
    /// Writeback and paging (`/proc/sys/vm`), by name: `dirty_ratio`, `dirty_bytes`, `swappiness`, ...
    pub vm: Vec<(String, String)>,
    /// Limits of array resynchronisation (`/proc/sys/dev/raid/speed_limit_min`, `_max`), KiB per second.
    pub raid_speed_limit_kib: Option<(u64, u64)>,
    /// Swap in use.
    pub swaps: Vec<Swap>,
    /// CPU frequency policies, equal ones once.
    pub cpu_frequency: Vec<CpuFrequency>,
    /// Idle states of the first CPU that has any.
    pub cpu_idle: Vec<CpuIdle>,
    /// CPUs on line.
    pub cpus_online: Option<u64>,
    /// Share of all CPU time that the hypervisor took since boot, 0 to 1.
    pub stolen_share: Option<f64>,
    /// The kernel's command line.
    pub command_line: Option<String>,
    /// Parameters of storage modules, `module.parameter` and value: `nvme_core.default_ps_max_latency_us`.
    pub module_parameters: Vec<(String, String)>,
    /// Interrupts of storage devices.
    pub interrupts: Vec<Interrupt>,
    /// Timers and cron jobs that work on storage.
    pub timers: Vec<Timer>,
    /// Processes that watch over or work on storage and run now, by name: `mdadm`, `smartd`, `multipathd`, `irqbalance`.
    pub daemons: Vec<Daemon>,
    /// Kernel threads that work on storage now: `md0_resync`, `ext4lazyinit`, `btrfs-balance`, ...
    pub kernel_threads: Vec<String>,
    /// Configuration files that say something on storage, already taken apart.
    pub configuration: Configuration,
    /// Limits of control groups that reach into I/O.
    pub io_limits: Vec<IoLimit>,
    /// Cloud and its volume type, as far as the firmware's tables tell: `Amazon EC2`, `Google Compute Engine`.
    pub cloud: Option<String>,
    /// Lines of the kernel's log about storage trouble, newest last, at most 200.
    pub kernel_log: Vec<LogLine>,
    /// True when the kernel's log could be read.
    pub kernel_log_read: bool,
    /// Other I/O between two looks half a second apart, by device: operations and bytes per second.
    pub io_now: Vec<IoNow>,
    /// Controllers of disks (`/sys/class/scsi_host`, NVMe controllers), with driver and address.
    pub hosts: Vec<StorageHost>,
}

/// A swap device or file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Swap {
    /// Device or file.
    pub path: String,
    /// True for a file.
    pub file: bool,
    /// Size.
    pub size_bytes: u64,
    /// Of it in use.
    pub used_bytes: u64,
    /// Key of the node that it lies on, where known.
    pub node: Option<String>,
}

/// A CPU frequency policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFrequency {
    /// CPUs that it holds for, as a list (`0-3,8`).
    pub cpus: String,
    /// Driver.
    pub driver: Option<String>,
    /// Governor.
    pub governor: Option<String>,
    /// Governors that could be chosen.
    pub governors: Vec<String>,
    /// Preference between speed and energy.
    pub energy_preference: Option<String>,
    /// Lowest and highest frequency allowed, in kHz.
    pub limits_khz: Option<(u64, u64)>,
    /// Highest frequency of the hardware, in kHz.
    pub hardware_max_khz: Option<u64>,
}

/// An idle state of a CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuIdle {
    /// Name, such as `C6`.
    pub name: String,
    /// Time to leave it.
    pub exit_latency_us: u64,
    /// True when it is switched off.
    pub disabled: bool,
}

/// An interrupt of a storage device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interrupt {
    /// Number.
    pub irq: u64,
    /// Name, such as `nvme0q3` or `virtio2-req.0`.
    pub name: String,
    /// How often it came on each CPU since boot, CPUs without any left out: `(cpu, count)`.
    pub counts: Vec<(u64, u64)>,
    /// CPUs that it may come on, as a list.
    pub allowed_cpus: Option<String>,
    /// CPUs that it really comes on, as a list.
    pub effective_cpus: Option<String>,
}

/// Something that starts work on storage at times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timer {
    /// Name of the timer or of the cron file.
    pub name: String,
    /// The file that says so.
    pub file: String,
    /// What it does to storage: `md-check`, `trim`, `scrub`, `backup`, `locate`, `smart-test`, `watch` (looks at the state of
    /// arrays and tells somebody), `other`.
    pub kind: String,
    /// When, in the words of the file (`OnCalendar=weekly`, `57 0 * * 0`).
    pub schedule: String,
    /// When it comes next, seconds since 1970; none when that could not be worked out.
    pub next_unix_s: Option<i64>,
    /// True when it is switched on.
    pub enabled: bool,
}

/// A process that watches over storage or works on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Daemon {
    /// Name of the process.
    pub name: String,
    /// Its arguments, without paths of users' files: `--monitor --scan`.
    pub arguments: String,
}

/// What configuration files say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// `/etc/multipath.conf` exists.
    pub multipath: Option<MultipathConfiguration>,
    /// `/etc/lvm/lvm.conf` and `lvmlocal.conf`.
    pub lvm: Option<LvmConfiguration>,
    /// `/etc/mdadm/mdadm.conf` or `/etc/mdadm.conf`.
    pub mdadm: Option<MdadmConfiguration>,
    /// `/etc/smartd.conf` names or scans devices.
    pub smartd: Option<SmartdConfiguration>,
    /// `/etc/fstab`.
    pub fstab: Vec<FstabEntry>,
    /// Rules below `/etc/udev/rules.d` that set queue attributes: file and line.
    pub udev_queue_rules: Vec<(String, String)>,
}

/// `multipath.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MultipathConfiguration {
    /// Settings of the section `defaults`, by name.
    pub defaults: Vec<(String, String)>,
    /// Entries of the sections `blacklist`: kind (`devnode`, `wwid`, `device`, `protocol`, `property`) and pattern.
    pub blacklist: Vec<(String, String)>,
    /// The same of `blacklist_exceptions`.
    pub exceptions: Vec<(String, String)>,
    /// Sections `device`: their settings.
    pub devices: Vec<Vec<(String, String)>>,
    /// Sections `multipath`: their settings.
    pub multipaths: Vec<Vec<(String, String)>>,
}

/// `lvm.conf`, the settings that decide which devices LVM looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LvmConfiguration {
    /// `devices/filter`.
    pub filter: Vec<String>,
    /// `devices/global_filter`.
    pub global_filter: Vec<String>,
    /// `devices/use_devicesfile`.
    pub use_devices_file: Option<bool>,
    /// `/etc/lvm/devices/system.devices` exists.
    pub devices_file_exists: bool,
    /// `devices/multipath_component_detection`.
    pub multipath_component_detection: Option<bool>,
    /// `devices/md_component_detection`.
    pub md_component_detection: Option<bool>,
    /// `devices/issue_discards`.
    pub issue_discards: Option<bool>,
    /// `activation/thin_pool_autoextend_threshold`, percent; 100 is off.
    pub thin_autoextend_threshold_percent: Option<u64>,
}

/// `mdadm.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdadmConfiguration {
    /// True when it has an address or a program for alarms (the address itself is not kept).
    pub alarm: bool,
    /// UUIDs of the arrays that it names.
    pub arrays: Vec<String>,
}

/// `smartd.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SmartdConfiguration {
    /// True for `DEVICESCAN`.
    pub scan: bool,
    /// Devices that it names.
    pub devices: Vec<String>,
    /// True when self-tests are scheduled (`-s`).
    pub schedules_tests: bool,
    /// True when it has an address for alarms (`-m`; the address itself is not kept).
    pub alarm: bool,
}

/// A line of fstab.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FstabEntry {
    /// What is mounted, as written: `/dev/sda1`, `UUID=...`.
    pub source: String,
    /// Where.
    pub mount_point: String,
    /// Type.
    pub fs_type: String,
    /// Options.
    pub options: Vec<String>,
    /// Whether and in which order it is checked at boot; 0 not at all.
    pub pass: u32,
}

/// A limit or weight of a control group on I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimit {
    /// Path of the group below the mount of the hierarchy.
    pub group: String,
    /// File: `io.max`, `io.weight`, `io.latency`, `io.cost.qos`, `blkio.throttle.read_bps_device`, ...
    pub file: String,
    /// Device number as `major:minor`; none for a default.
    pub devno: Option<String>,
    /// What it says.
    pub value: String,
}

/// A line of the kernel's log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogLine {
    /// Microseconds since boot.
    pub boot_us: u64,
    /// Level: 0 emergency to 7 debug.
    pub level: u8,
    /// The line.
    pub text: String,
}

/// I/O on a device while fathom looked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoNow {
    /// Kernel name.
    pub name: String,
    /// Requests ended per second.
    pub operations_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Requests in flight at the second look.
    pub in_flight: u64,
}

/// A host adapter or controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageHost {
    /// `host3`, `nvme0`, `virtio2`.
    pub name: String,
    /// Driver: `ahci`, `mpt3sas`, `megaraid_sas`, `nvme`, ...
    pub driver: Option<String>,
    /// PCI address.
    pub pci_address: Option<String>,
    /// Model and firmware as the driver tells them (`board_name`, `version_fw`).
    pub model: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Commands that the adapter takes at once (`can_queue`).
    pub can_queue: Option<u64>,
    /// Commands that one drive may have (`cmd_per_lun`).
    pub commands_per_lun: Option<u64>,
    /// SATA link power management policy.
    pub link_power_policy: Option<String>,
    /// Number of the port of SATA or PATA that it is, by which the kernel's log calls it: 3 of `ata3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ata_port: Option<u64>,
    /// Link to the host, from the adapter upwards.
    pub link: Vec<PciLink>,
    /// PCIe errors that were corrected, did not kill, or did: totals of `aer_dev_*`.
    pub aer_errors: Option<(u64, u64, u64)>,
    /// `DMA`, `DMA-FQ`, `identity`: how its memory accesses are translated.
    pub iommu_type: Option<String>,
    /// NUMA node; -1 when it has none.
    pub numa_node: Option<i64>,
    /// NVMe: longest time that power saving states may take to leave, as asked by user space (`auto`, microseconds).
    pub latency_tolerance_us: Option<String>,
    /// NVMe: transport (`pcie`, `tcp`, `rdma`, `fc`).
    pub transport: Option<String>,
}

/// One hop of a PCI Express path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciLink {
    /// Address of the device at the lower end.
    pub address: String,
    /// Speed now, in gigatransfers per second times 10 (80 is 8.0 GT/s).
    pub speed_gts_x10: Option<u64>,
    /// Highest speed of the lower end.
    pub speed_max_gts_x10: Option<u64>,
    /// Lanes now.
    pub width: Option<u64>,
    /// Lanes of the lower end at most.
    pub width_max: Option<u64>,
    /// Largest payload now, in bytes, from configuration space; none without root.
    pub max_payload_bytes: Option<u64>,
    /// Largest read request, in bytes.
    pub max_read_request_bytes: Option<u64>,
    /// Of a port above: the errors that it has counted, as [`StorageHost::aer_errors`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aer_errors: Option<(u64, u64, u64)>,
}
