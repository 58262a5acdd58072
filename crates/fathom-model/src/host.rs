//! Facts about the machine that a measurement ran on.
//!
//! Nothing here names a person or a network: no host name, no address.

use serde::{Deserialize, Serialize};

/// The machine; every field is none when it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Build of the kernel.
    pub kernel_build: Option<String>,
    /// Machine architecture.
    pub architecture: Option<String>,
    /// Distribution, as it names itself.
    pub distribution: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// CPUs that exist.
    pub cpus_present: Option<u64>,
    /// CPUs that are on line.
    pub cpus_online: Option<u64>,
    /// CPUs that this process may use.
    pub cpus_allowed: Option<u64>,
    /// CPU time limit of the control groups, in CPUs.
    pub cgroup_cpus: Option<f64>,
    /// NUMA nodes.
    pub numa_nodes: Option<u64>,
    /// Memory.
    pub memory_total_bytes: Option<u64>,
    /// Memory that can be had without swapping.
    pub memory_available_bytes: Option<u64>,
    /// Tightest memory limit of the control groups that this process is in; none when there is
    /// none.
    pub cgroup_memory_limit_bytes: Option<u64>,
    /// Memory left under the control groups' limits, with page cache counted as free.
    pub cgroup_memory_available_bytes: Option<u64>,
    /// Swap.
    pub swap_total_bytes: Option<u64>,
    /// Swap that is free.
    pub swap_free_bytes: Option<u64>,
    /// What kind of virtual machine or container this is (`kvm`, `vmware`, `xen`, ...); `none` on
    /// bare metal.
    pub virtualisation: Option<String>,
    /// Maker and product of the machine.
    pub machine: Option<String>,
    /// Clock source in use.
    pub clock_source: Option<String>,
    /// Clock sources that could be used.
    pub clock_sources: Vec<String>,
    /// Identifies this boot.
    pub boot_id: Option<String>,
    /// Seconds since boot.
    pub uptime_s: Option<f64>,
    /// Kernel lockdown: `none`, `integrity`, `confidentiality`.
    pub lockdown: Option<String>,
    /// The sysctl that switches io_uring off: 0 free, 1 only for some, 2 off.
    pub io_uring_disabled: Option<u64>,
    /// Mitigations as the boot line asks for them.
    pub mitigations: Option<String>,
    /// Processor weaknesses that cost speed: `name: what the kernel does`.
    pub vulnerabilities: Vec<String>,
    /// Frequency governor of the first CPU.
    pub cpu_governor: Option<String>,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_hugepages: Option<String>,
    /// True when the kernel tells pressure (`/proc/pressure`).
    pub pressure_available: Option<bool>,
    /// Load average of one minute.
    pub load_1min: Option<f64>,
    /// Page size.
    pub page_bytes: Option<u64>,
}

impl HostFacts {
    /// The memory that can be used now: what is available, or less under a control group's limit.
    #[must_use]
    pub fn usable_memory_bytes(&self) -> Option<u64> {
        match (self.memory_available_bytes, self.cgroup_memory_available_bytes) {
            (Some(machine), Some(group)) => Some(machine.min(group)),
            (machine, group) => machine.or(group),
        }
    }

    /// The memory that could ever hold cached file data: all of it, or a control group's limit.
    #[must_use]
    pub fn cacheable_memory_bytes(&self) -> Option<u64> {
        match (self.memory_total_bytes, self.cgroup_memory_limit_bytes) {
            (Some(machine), Some(group)) => Some(machine.min(group)),
            (machine, group) => machine.or(group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_counts() {
        let mut host = HostFacts { memory_available_bytes: Some(100), ..HostFacts::default() };
        assert_eq!(host.usable_memory_bytes(), Some(100));
        host.cgroup_memory_available_bytes = Some(40);
        assert_eq!(host.usable_memory_bytes(), Some(40));
        host.memory_total_bytes = Some(200);
        assert_eq!(host.cacheable_memory_bytes(), Some(200));
        host.cgroup_memory_limit_bytes = Some(50);
        assert_eq!(host.cacheable_memory_bytes(), Some(50));
        assert_eq!(HostFacts::default().usable_memory_bytes(), None);
    }
}
