//! Processors: speed, sleep, interrupts, clocks, what each request pays for safety.

use super::{fast_drives, is_virtual};
use crate::scene::Scene;
use fathom_base::shell;
use fathom_base::units::format_count;
use fathom_model::defect::{Certainty, Defect, Gravity};
use fathom_model::system::{CpuFrequency, Interrupt};
use std::collections::BTreeMap;

/// Drivers in which the processor chooses its speed itself: there `powersave` is the default, and the energy preference
/// decides.
const SELF_CHOOSING: [&str; 3] = ["intel_pstate", "amd-pstate-epp", "amd_pstate_epp"];

/// Governors that hold processors back, and preferences for energy over speed.
pub(super) fn governor(scene: &Scene<'_>) -> Vec<Defect> {
    let slow = |policy: &&CpuFrequency| slow_words(policy).is_some();
    let policies: Vec<&CpuFrequency> =
        scene.snapshot.system.cpu_frequency.iter().filter(slow).collect();
    let Some(first) = policies.first() else { return Vec::new() };
    let (file, value, better) = slow_words(first).unwrap_or_default();
    let cpus: Vec<&str> = policies.iter().map(|policy| policy.cpus.as_str()).collect();
    let summary =
        format!("CPUs {} run with {value}: they stay slow while they wait for I/O", cpus.join(","));
    let path = format!("/sys/devices/system/cpu/cpufreq/policy*/{file}");
    let mut defect = Defect::new("cpu-governor", Gravity::Medium, None, summary);
    for policy in &policies {
        if let Some((file, value, _)) = slow_words(policy) {
            let source =
                format!("/sys/devices/system/cpu/cpufreq/policy*/{file} (CPUs {})", policy.cpus);
            defect = defect.seen(source, value);
        }
    }
    let defect = defect
        .because(
            "a thread that waits for each request leaves its processor idle most of the time, so that the speed is never \
             raised, and every request takes longer",
        )
        .command("choose speed, until the next boot", format!("echo {better} | tee {path}"))
        .advise("make it lasting with tuned-adm, cpupower or the firmware's energy profile")
        .risking("more power and heat")
        .verified_by("fathom run randread PATH depth=1 before and after: fathom compare");
    vec![defect]
}

/// File, its value and a better one, for a policy that holds back.
fn slow_words(policy: &CpuFrequency) -> Option<(&'static str, String, &'static str)> {
    let governor = policy.governor.as_deref()?;
    let driver = policy.driver.as_deref().unwrap_or_default();
    let preference = policy.energy_preference.as_deref();
    if matches!(preference, Some("power" | "balance_power")) && governor != "performance" {
        let value = preference.unwrap_or_default().to_owned();
        return Some(("energy_performance_preference", value, "performance"));
    }
    let holds_back = matches!(governor, "powersave" | "conservative");
    (holds_back && !SELF_CHOOSING.contains(&driver))
        .then(|| ("scaling_governor", governor.to_owned(), "performance"))
}

/// Time to leave a sleep that is longer than a fast drive takes to answer.
const DEEP_US: u64 = 150;

/// Idle states that take longer to leave than an NVMe drive takes to answer.
pub(super) fn deep_idle(scene: &Scene<'_>) -> Vec<Defect> {
    let drives = fast_drives(scene);
    let states = scene.snapshot.system.cpu_idle.iter().enumerate();
    let deep = states.filter(|(_, state)| !state.disabled && state.exit_latency_us >= DEEP_US);
    let deep: Vec<_> = deep.collect();
    let Some((_, deepest)) = deep.iter().max_by_key(|(_, state)| state.exit_latency_us) else {
        return Vec::new();
    };
    if drives.is_empty() || is_virtual(scene) {
        return Vec::new();
    }
    let summary = format!(
        "idle processors go down to {}, which takes {} us to leave; an NVMe drive answers in less",
        deepest.name, deepest.exit_latency_us
    );
    let mut defect =
        Defect::new("cpu-idle-deep", Gravity::Low, None, summary).sure(Certainty::Possible);
    for (index, state) in &deep {
        let source = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{index}/latency");
        defect = defect.seen(source, format!("{} us ({})", state.exit_latency_us, state.name));
    }
    let defect = defect
        .because(format!(
            "a completion of {} that finds its processor asleep waits until it is awake; at low depth most do",
            drives[0].label()
        ))
        .command(
            "forbid the deep states while something is measured or answers matter (as long as the command runs)",
            "bash -c 'exec 3>/dev/cpu_dma_latency; printf \"\\x14\\x00\\x00\\x00\" >&3; sleep infinity'",
        )
        .advise("for good: tuned-adm profile latency-performance")
        .risking("more power and heat, and less turbo speed for busy processors")
        .verified_by("fathom run randread PATH depth=1 before and after: fathom compare");
    vec![defect]
}

/// Page tables that are switched at each entry into the kernel.
pub(super) fn mitigations(scene: &Scene<'_>) -> Vec<Defect> {
    let host = &scene.snapshot.host;
    let weakness = host.vulnerabilities.iter().find(|line| {
        line.strip_prefix("meltdown: ").is_some_and(|what| what.contains("Mitigation: PTI"))
    });
    let (Some(weakness), Some(drive)) = (weakness, fast_drives(scene).first().copied()) else {
        return Vec::new();
    };
    let summary = "the kernel switches page tables at each system call (PTI), because of a flaw of this processor (Meltdown)";
    let defect = Defect::new("cpu-mitigations", Gravity::Low, None, summary)
        .seen("/sys/devices/system/cpu/vulnerabilities/meltdown", weakness.trim_start_matches("meltdown: "))
        .because(format!(
            "each request to {} costs system calls and interrupts, each of which pays for the switch; a drive of a million \
             requests per second keeps more processors busy",
            drive.label()
        ))
        .advise("processors of later years do not have the flaw; leave the protection on wherever foreign code runs")
        .advise("on a machine for measurements alone the boot parameter pti=off (or mitigations=off) takes it away")
        .risking("without it any program can read all memory of the machine")
        .verified_by("fathom run randread PATH, and CPU time per request of fathom show");
    vec![defect]
}

/// Fewer interrupts than this say nothing about their distribution.
const INTERRUPTS_MIN: u64 = 1_000_000;
/// Share of all interrupts that makes one processor the one that serves them.
const ONE_CPU_SHARE: f64 = 0.9;

/// Several queues of a device, or several devices, all served by one processor.
pub(super) fn interrupts(scene: &Scene<'_>) -> Vec<Defect> {
    let system = &scene.snapshot.system;
    if system.cpus_online.is_none_or(|cpus| cpus < 2) {
        return Vec::new();
    }
    let mut lines: BTreeMap<&str, Vec<&Interrupt>> = BTreeMap::new();
    for interrupt in system.interrupts.iter().filter(|interrupt| carries_data(&interrupt.name)) {
        lines.entry(device_of(&interrupt.name)).or_default().push(interrupt);
    }
    let busy: Vec<&Interrupt> =
        lines.values().flatten().copied().filter(|i| total(i) > 0).collect();
    let all: u64 = busy.iter().map(|interrupt| total(interrupt)).fold(0, u64::saturating_add);
    let mut by_cpu: BTreeMap<u64, u64> = BTreeMap::new();
    for (cpu, count) in busy.iter().flat_map(|interrupt| &interrupt.counts) {
        let sum = by_cpu.entry(*cpu).or_default();
        *sum = sum.saturating_add(*count);
    }
    let Some((cpu, most)) = by_cpu.into_iter().max_by_key(|(_, count)| *count) else {
        return Vec::new();
    };
    // One queue has one interrupt and so one processor: only where there are several could they be spread. The busiest alone
    // says nothing.
    let share_of_others =
        1.0 - busy.iter().map(|i| total(i)).max().unwrap_or(0) as f64 / all as f64;
    let is_one = most as f64 >= ONE_CPU_SHARE * all as f64;
    if all < INTERRUPTS_MIN || busy.len() < 2 || share_of_others < 0.2 || !is_one {
        return Vec::new();
    }
    vec![one_cpu(scene, &busy, cpu, most as f64 / all as f64)]
}

fn total(interrupt: &Interrupt) -> u64 {
    interrupt.counts.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
}

/// False for the queue of commands to the controller itself, which does no I/O.
fn carries_data(name: &str) -> bool {
    !(name.starts_with("nvme") && name.ends_with("q0"))
}

/// `nvme0` of `nvme0q3`, `virtio1` of `virtio1-req.0`.
fn device_of(name: &str) -> &str {
    let end = if name.starts_with("nvme") { name.rfind('q') } else { name.find('-') };
    end.map_or(name, |end| &name[..end])
}

fn one_cpu(scene: &Scene<'_>, busy: &[&Interrupt], cpu: u64, share: f64) -> Defect {
    let system = &scene.snapshot.system;
    let cpus = system.cpus_online.unwrap_or(0);
    let summary = format!(
        "CPU {cpu} of {cpus} has served {:.0} % of the interrupts of {} storage queues since boot",
        share * 100.0,
        busy.len()
    );
    let mut defect = Defect::new("interrupts-one-cpu", Gravity::Medium, None, summary);
    for interrupt in busy.iter().take(8) {
        let allowed = interrupt.allowed_cpus.as_deref().unwrap_or("unknown");
        let effective = interrupt.effective_cpus.as_deref().unwrap_or("unknown");
        defect = defect.seen(
            format!("/proc/interrupts: {} ({})", interrupt.irq, interrupt.name),
            format!(
                "{} in all; may come on CPUs {allowed}, comes on {effective}",
                format_count(total(interrupt))
            ),
        );
    }
    defect = defect.because(
        "that processor alone finishes all requests: it is full while the others wait, and their latencies grow with it",
    );
    let balanced = system.daemons.iter().any(|daemon| daemon.name == "irqbalance");
    let pinned = busy.iter().any(|interrupt| {
        interrupt.allowed_cpus.as_deref().is_some_and(|list| !list.contains(['-', ',']))
    });
    if balanced && pinned {
        defect = defect.advise("irqbalance runs and leaves these alone: look for IRQBALANCE_BANNED_CPUS and its policy scripts");
    } else if !balanced {
        defect = defect.command("let a daemon spread them", "systemctl enable --now irqbalance");
    }
    for (turn, interrupt) in busy.iter().enumerate().take(4) {
        let target = turn as u64 % cpus.max(1);
        let text = format!("or put {} on a processor of its own by hand", interrupt.name);
        let command = format!("echo {target} > /proc/irq/{}/smp_affinity_list", interrupt.irq);
        defect = defect.command(text, command);
    }
    defect
        .advise("where the kernel refuses (managed interrupts of NVMe), the processors were not there when the driver was loaded: load it again, or boot with them on line")
        .risking("none; requests are finished on other processors from then on")
        .verified_by("watch -d 'grep -E \"nvme|virtio|mpt|mega\" /proc/interrupts' while fathom run randread PATH depth=32 runs; and its rate before and after")
}

/// True when a line serves several devices. A drive that sends a single message has all its queues on one: `nvme0q0, nvme0q1`.
fn is_shared(names: &str) -> bool {
    let mut names = names.split(", ");
    let Some(first) = names.next() else { return false };
    // Two adapters of one driver may have the same name.
    names.any(|other| device_of(other) != device_of(first) || device_of(other) == other)
}

/// Interrupts that storage has together with other devices.
pub(super) fn shared_interrupt(scene: &Scene<'_>) -> Vec<Defect> {
    let interrupts = scene.snapshot.system.interrupts.iter();
    let shared: Vec<&Interrupt> = interrupts.filter(|one| is_shared(&one.name)).collect();
    let Some(first) = shared.first() else { return Vec::new() };
    let summary = format!("interrupt {} is shared by {}", first.irq, first.name);
    let mut defect =
        Defect::new("interrupt-shared", Gravity::Low, None, summary).sure(Certainty::Possible);
    for one in &shared {
        let source = format!("/proc/interrupts: {}", one.irq);
        defect = defect.seen(source, format!("{}, {} in all", one.name, format_count(total(one))));
    }
    let defect = defect
        .because("each time one of them asks for attention, the drivers of all of them look at their devices, and a driver that takes long holds the others up; it is harmless as long as the other device has nothing to do")
        .command("see whether the device can have messages of its own (MSI, MSI-X) in the place of a line", "lspci -v | grep -iE '^[0-9a-f]|irq|msi'")
        .advise("where it can: take pci=nomsi, or the driver's own parameter against them, off the kernel's command line")
        .advise("where it cannot: another slot, or switch devices off in the firmware that nobody uses (USB, sound, serial)")
        .risking("none; the machine is off while a card is moved")
        .verified_by("/proc/interrupts shows the line for storage alone; fathom run randread DIR before and after");
    vec![defect]
}

/// Time that the hypervisor took, as a share of all processor time since boot.
pub(super) fn stolen_time(scene: &Scene<'_>) -> Vec<Defect> {
    let Some(share) = scene.snapshot.system.stolen_share.filter(|share| *share >= 0.03) else {
        return Vec::new();
    };
    let gravity = if share < 0.1 { Gravity::Low } else { Gravity::Medium };
    let summary = format!(
        "the hypervisor has taken {:.1} % of the processor time since boot for other guests",
        share * 100.0
    );
    let defect = Defect::new("stolen-time", gravity, None, summary)
        .seen("/proc/stat: steal of the line cpu", format!("{:.1} %", share * 100.0))
        .because("requests wait while this machine does not run, and latencies contain that without any fault of the storage")
        .advise("ask for processors that are not shared, or another host; use fewer virtual processors than the host has")
        .risking("none")
        .verified_by("vmstat 5 (column st), and the finding stolen-time of fathom run");
    vec![defect]
}

/// A clock source that costs about a microsecond per reading, or stands still for milliseconds.
pub(super) fn slow_clock(scene: &Scene<'_>) -> Vec<Defect> {
    let host = &scene.snapshot.host;
    let Some(source) = host.clock_source.as_deref() else { return Vec::new() };
    let (gravity, what) = match source {
        "hpet" | "acpi_pm" => (Gravity::Medium, "each reading takes about a microsecond"),
        "jiffies" | "refined-jiffies" => (Gravity::High, "it stands still for milliseconds"),
        _ => return Vec::new(),
    };
    let directory = "/sys/devices/system/clocksource/clocksource0";
    let others = host.clock_sources.iter().filter(|other| *other != source);
    let better = others.into_iter().find(|other| {
        ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "xen", "arch_sys_counter"]
            .contains(&other.as_str())
    });
    let mut defect = Defect::new("slow-clock", gravity, None, format!("the kernel's clock source is {source}: {what}"))
        .seen(format!("{directory}/current_clocksource"), source)
        .seen(format!("{directory}/available_clocksource"), host.clock_sources.join(" "))
        .because("databases and the kernel read the clock for every request, so that all of them become slower and measured latencies wrong")
        .command("see why the processor's own counter is not used", "dmesg | grep -iE 'tsc|clocksource'");
    if let Some(better) = better {
        let command = format!("echo {} > {directory}/current_clocksource", shell::word(better));
        defect = defect.command("use the faster one until the next boot", command);
    }
    let defect = defect
        .risking("where the kernel has marked the counter as unstable, time may jump: mend that first (firmware, hypervisor)")
        .verified_by("the finding slow-clock of fathom run is gone, and so is a part of the latency of cached reads");
    vec![defect]
}

/// An IOMMU that is told of the end of each transfer before it counts as ended.
pub(super) fn iommu_strict(scene: &Scene<'_>) -> Vec<Defect> {
    if is_virtual(scene) {
        return Vec::new();
    }
    let hosts = scene.snapshot.system.hosts.iter();
    let strict: Vec<_> = hosts
        .filter(|host| host.iommu_type.as_deref() == Some("DMA"))
        .filter(|host| host.name.starts_with("nvme"))
        .collect();
    let Some(first) = strict.first() else { return Vec::new() };
    let names: Vec<&str> = strict.iter().map(|host| host.name.as_str()).collect();
    let summary = format!("the IOMMU works in strict mode for {}", names.join(", "));
    let address = first.pci_address.as_deref().unwrap_or("ADDRESS");
    let mut defect = Defect::new("iommu-strict", Gravity::Low, None, summary);
    for host in &strict {
        let address = host.pci_address.as_deref().unwrap_or("ADDRESS");
        defect = defect.seen(format!("/sys/bus/pci/devices/{address}/iommu_group/type"), "DMA");
    }
    let defect = defect
        .because("after every transfer its mapping is taken out of the IOMMU's cache at once, which costs processor time with each of some hundred thousand requests per second")
        .advise("let invalidations be collected: boot with iommu.strict=0 (DMA-FQ)")
        .command(
            "see what is asked for now",
            format!("cat /proc/cmdline /sys/bus/pci/devices/{}/iommu_group/type", shell::word(address)),
        )
        .risking("for some milliseconds after a transfer a faulty or hostile device could still reach its memory")
        .verified_by("fathom saturate PATH before and after: rate and CPU time per request");
    vec![defect]
}
