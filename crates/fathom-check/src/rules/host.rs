//! The machine: memory, processors, interrupts, control groups, what disturbs, what watches, configuration files, the
//! kernel's log.

mod activity;
mod boot;
mod cloud;
mod configuration;
mod kernel_log;
mod limits;
mod memory;
mod processors;
mod udev_rules;
mod watch;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod watch_tests;

use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::stack::{Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("cpu-governor", "processors held at low speed", Medium, Guest, processors::governor),
    rule!(
        "cpu-idle-deep",
        "processors sleep deeper than a drive answers",
        Low,
        Guest,
        processors::deep_idle
    ),
    rule!(
        "cpu-mitigations",
        "every system call pays for a processor flaw",
        Low,
        Guest,
        processors::mitigations
    ),
    rule!(
        "interrupts-one-cpu",
        "one processor serves all storage interrupts",
        Medium,
        Simulated,
        processors::interrupts
    ),
    rule!(
        "interrupt-shared",
        "storage shares an interrupt with other devices",
        Low,
        Guest,
        processors::shared_interrupt
    ),
    rule!(
        "boot-parameters-left",
        "the kernel was started as for a trial",
        Medium,
        Guest,
        boot::parameters
    ),
    rule!(
        "stolen-time",
        "the hypervisor takes processor time",
        Medium,
        Simulated,
        processors::stolen_time
    ),
    rule!("slow-clock", "a clock that is slow to read", High, Guest, processors::slow_clock),
    rule!(
        "iommu-strict",
        "each transfer waits for the IOMMU",
        Low,
        Guest,
        processors::iommu_strict
    ),
    rule!("swapping", "memory is short and swap in use", Medium, Guest, memory::swapping),
    rule!(
        "swap-same-disks",
        "swap on the disks of the data",
        Medium,
        Guest,
        memory::swap_same_disks
    ),
    rule!(
        "swap-not-redundant",
        "swap dies with one disk",
        Medium,
        Guest,
        memory::swap_not_redundant
    ),
    rule!("writeback-off", "written data may wait for ever", Medium, Guest, memory::writeback_off),
    rule!(
        "memory-limit",
        "a control group limits the page cache",
        Low,
        Guest,
        memory::memory_limit
    ),
    rule!("io-limits-active", "a control group limits I/O", Low, Guest, limits::active),
    rule!("cgroup-weight-inert", "I/O weights without effect", Low, Guest, limits::weight_inert),
    rule!("maintenance-soon", "storage work is about to start", Low, Guest, activity::soon),
    rule!("maintenance-running", "storage work is going on", Low, Guest, activity::running),
    rule!("other-io", "disks are busy", Low, Guest, activity::other_io),
    rule!("cloud-volume", "volumes that live on credit", Low, Guest, cloud::volumes),
    rule!("md-no-monitor", "nobody watches the arrays", Medium, Guest, watch::md_no_monitor),
    rule!("md-no-alarm", "nobody is told when an array fails", Medium, Guest, watch::md_no_alarm),
    rule!("smart-no-monitor", "nobody watches the drives", Low, Guest, watch::smart_no_monitor),
    rule!(
        "smart-misses-drives",
        "some drives are not watched",
        Medium,
        Guest,
        watch::smart_misses_drives
    ),
    rule!("smart-no-alarm", "nobody is told when a drive fails", Low, Guest, watch::smart_no_alarm),
    rule!(
        "fstab-unstable-name",
        "a mount by a name that may change",
        Medium,
        Guest,
        configuration::unstable_name
    ),
    rule!(
        "fstab-no-netdev",
        "a network disk is mounted before the network",
        Medium,
        Guest,
        configuration::no_netdev
    ),
    rule!(
        "udev-rules-contradict",
        "rules of udev contradict each other",
        Low,
        Guest,
        udev_rules::contradict
    ),
    rule!(
        "udev-rule-not-in-effect",
        "a rule of udev has no effect",
        Low,
        Guest,
        udev_rules::not_in_effect
    ),
    rule!(
        "kernel-log-io-errors",
        "the kernel has logged I/O errors",
        High,
        Guest,
        kernel_log::io_errors
    ),
    rule!("kernel-log-resets", "the kernel has reset a device", High, Guest, kernel_log::resets),
    rule!(
        "kernel-log-link-errors",
        "the kernel has logged errors of a link",
        Medium,
        Guest,
        kernel_log::link_errors
    ),
];

/// A whole disk of a transport that a virtual machine's host, a network or memory does not stand behind.
fn is_physical(node: &Node) -> bool {
    let transport = node.drive.as_ref().and_then(|drive| drive.transport.as_deref());
    node.kind == NodeKind::Disk
        && matches!(transport, Some("sata" | "sas" | "scsi" | "nvme" | "usb"))
}

/// True in a virtual machine, where a drive's answers are its host's.
fn is_virtual(scene: &Scene<'_>) -> bool {
    scene.snapshot.host.virtualisation.as_deref().is_some_and(|kind| kind != "none")
}

/// Local NVMe drives in use, whose requests take some ten microseconds: what costs one matters there.
fn fast_drives<'a>(scene: &Scene<'a>) -> Vec<&'a Node> {
    let disks = scene.nodes(&[NodeKind::Disk]);
    let fast = disks.filter(|(index, node)| {
        let transport = node.drive.as_ref().and_then(|drive| drive.transport.as_deref());
        transport == Some("nvme") && scene.in_use(*index)
    });
    fast.map(|(_, node)| node).collect()
}
