//! CPU frequency, idle states, stolen time, and which CPUs serve the interrupts of storage devices.

use super::reader::Reader;
use fathom_base::order::Order;
use fathom_model::system::{CpuFrequency, CpuIdle, Interrupt};
use fathom_sys::counters;
use fathom_sys::hostinfo;
use fathom_sys::sysroot::SysRoot;

const CPUS: &str = "sys/devices/system/cpu";

/// CPUs on line.
pub(crate) fn online(root: &SysRoot) -> Option<u64> {
    hostinfo::cpu_list_len(&root.text(format!("{CPUS}/online"))?)
}

/// Share of all CPU time since boot that the hypervisor took, 0 to 1.
pub(crate) fn stolen_share(root: &SysRoot) -> Option<f64> {
    let ticks = counters::system_cpu_ticks(root);
    (ticks.total > 0).then(|| ticks.steal as f64 / ticks.total as f64)
}

/// The frequency policies; those that differ in nothing but their CPUs are one.
pub(crate) fn frequency_policies(reader: &mut Reader<'_>) -> Vec<CpuFrequency> {
    let mut found: Vec<(CpuFrequency, Vec<u64>)> = Vec::new();
    for name in reader.names(format!("{CPUS}/cpufreq")) {
        if !name.starts_with("policy") {
            continue;
        }
        let (policy, cpus) = frequency_policy(reader, &format!("{CPUS}/cpufreq/{name}"));
        match found.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, known)) => known.extend(cpus),
            None => found.push((policy, cpus)),
        }
    }
    let listed = found.into_iter().map(|(policy, mut cpus)| {
        cpus.order();
        CpuFrequency { cpus: cpu_list(&cpus), ..policy }
    });
    listed.collect()
}

/// The policy without its CPUs, and these. The frequency of the moment is not read: that may interrupt the CPU.
fn frequency_policy(reader: &mut Reader<'_>, dir: &str) -> (CpuFrequency, Vec<u64>) {
    let mut line = |name: &str| reader.line(format!("{dir}/{name}"));
    let cpus = line("affected_cpus").unwrap_or_default();
    let governors = line("scaling_available_governors").unwrap_or_default();
    let mut number = |name: &str| line(name)?.parse::<u64>().ok();
    let limits_khz = number("scaling_min_freq").zip(number("scaling_max_freq"));
    let policy = CpuFrequency {
        cpus: String::new(),
        hardware_max_khz: number("cpuinfo_max_freq"),
        limits_khz,
        driver: line("scaling_driver"),
        governor: line("scaling_governor"),
        governors: governors.split_ascii_whitespace().map(str::to_owned).collect(),
        energy_preference: line("energy_performance_preference"),
    };
    (policy, cpus.split_ascii_whitespace().filter_map(|cpu| cpu.parse().ok()).collect())
}

/// `0-3,8` for sorted numbers.
#[must_use]
pub fn cpu_list(cpus: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if cpu == *last || last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

/// The idle states of the first CPU that has any.
pub(crate) fn idle_states(reader: &mut Reader<'_>) -> Vec<CpuIdle> {
    let mut cpus: Vec<u64> = numbered(&reader.names(CPUS), "cpu");
    cpus.order();
    for cpu in cpus {
        let dir = format!("{CPUS}/cpu{cpu}/cpuidle");
        let mut states = numbered(&reader.names(&dir), "state");
        states.order();
        if !states.is_empty() {
            return states
                .into_iter()
                .filter_map(|state| idle_state(reader, &format!("{dir}/state{state}")))
                .collect();
        }
    }
    Vec::new()
}

fn numbered(names: &[String], prefix: &str) -> Vec<u64> {
    names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
}

fn idle_state(reader: &mut Reader<'_>, dir: &str) -> Option<CpuIdle> {
    Some(CpuIdle {
        name: reader.line(format!("{dir}/name"))?,
        exit_latency_us: reader.number(format!("{dir}/latency"))?,
        disabled: reader.number(format!("{dir}/disable")) == Some(1),
    })
}

/// The interrupts of storage devices, with their affinity.
pub(crate) fn storage_interrupts(reader: &mut Reader<'_>) -> Vec<Interrupt> {
    let text = reader.text("proc/interrupts").unwrap_or_default();
    let mut found = parse_interrupts(&text);
    found.retain(|interrupt| is_storage(&interrupt.name));
    for interrupt in &mut found {
        let mut line = |name: &str| reader.line(format!("proc/irq/{}/{name}", interrupt.irq));
        interrupt.allowed_cpus = line("smp_affinity_list");
        interrupt.effective_cpus = line("effective_affinity_list");
    }
    found
}

/// The numbered lines of `/proc/interrupts`: the number, a count for each CPU of the first line, the controller with its own
/// number, and the names of those that asked for it.
#[must_use]
pub fn parse_interrupts(text: &str) -> Vec<Interrupt> {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Vec<u64> = head.filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    lines.filter_map(|line| parse_interrupt(line, &cpus)).collect()
}

fn parse_interrupt(line: &str, cpus: &[u64]) -> Option<Interrupt> {
    let (irq, rest) = line.trim_start().split_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let mut counts = Vec::new();
    for &cpu in cpus {
        let count: u64 = words.next()?.parse().ok()?;
        if count > 0 {
            counts.push((cpu, count));
        }
    }
    // `IO-APIC 4-edge ttyS0`, `PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0`, `GICv3 23 Level arch_timer`: names come last,
    // several with commas between them.
    let rest: Vec<&str> = words.collect();
    let last = rest.iter().rposition(|word| !word.ends_with(',')).unwrap_or(0);
    let first = rest[..last].iter().rposition(|word| !word.ends_with(',')).map_or(0, |i| i + 1);
    Some(Interrupt {
        irq: irq.parse().ok()?,
        name: rest.get(first..)?.join(" "),
        counts,
        allowed_cpus: None,
        effective_cpus: None,
    })
}

/// Names that drivers of storage give their interrupts, as they begin.
const STORAGE_NAMES: [&str; 22] = [
    "3w-",
    "aacraid",
    "ahci",
    "arcmsr",
    "ata_",
    "hisi_sas",
    "hpsa",
    "ioc",
    "lpfc",
    "megasas",
    "megaraid",
    "mmc",
    "mpt2sas",
    "mpt3sas",
    "mpi3mr",
    "mvsas",
    "nvme",
    "pmcraid",
    "qla2xxx",
    "sata_",
    "smartpqi",
    "vmw_pvscsi",
];

/// True for the name of an interrupt of a disk or its adapter. Virtio devices are told by their queues: `virtio1-req.0` of a
/// disk, `virtio2-request` of a SCSI adapter.
#[must_use]
pub fn is_storage(name: &str) -> bool {
    name.split(", ").any(|name| {
        let virtio = name.strip_prefix("virtio").and_then(|rest| rest.split_once('-'));
        let virtio_disk =
            virtio.is_some_and(|(_, queue)| queue.starts_with("req.") || queue == "request");
        virtio_disk || STORAGE_NAMES.iter().any(|prefix| name.starts_with(prefix))
    })
}

#[cfg(test)]
#[path = "processors_tests.rs"]
mod tests;
