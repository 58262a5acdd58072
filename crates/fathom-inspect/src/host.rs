//! The facts of the machine that go with every record.

use fathom_model::host::HostFacts;
use fathom_sys::cgroup;
use fathom_sys::hostinfo;
use fathom_sys::sysroot::SysRoot;

/// Everything about the machine that can be read; what cannot is none.
#[must_use]
pub fn host_facts(root: &SysRoot) -> HostFacts {
    let kernel = hostinfo::kernel(root);
    let memory = |key| hostinfo::meminfo_bytes(root, key);
    let limit = cgroup::memory_limit(root);
    let cpus = |path: &str| root.text(path).and_then(|list| hostinfo::cpu_list_len(&list));
    let clock = "sys/devices/system/clocksource/clocksource0";
    let clock_sources = root.text(format!("{clock}/available_clocksource")).unwrap_or_default();
    let allowed = hostinfo::own_status(root, "Cpus_allowed_list");
    HostFacts {
        kernel: kernel.release,
        kernel_build: kernel.build,
        architecture: kernel.architecture,
        distribution: hostinfo::distribution(root),
        cpu_model: hostinfo::cpu_model(root),
        cpus_present: cpus("sys/devices/system/cpu/present"),
        cpus_online: cpus("sys/devices/system/cpu/online"),
        cpus_allowed: allowed.and_then(|list| hostinfo::cpu_list_len(&list)),
        cgroup_cpus: cgroup::cpu_limit(root),
        numa_nodes: cpus("sys/devices/system/node/online"),
        memory_total_bytes: memory("MemTotal"),
        memory_available_bytes: memory("MemAvailable"),
        cgroup_memory_limit_bytes: limit.map(|l| l.limit_bytes),
        cgroup_memory_available_bytes: limit.map(|l| l.available_bytes),
        swap_total_bytes: memory("SwapTotal"),
        swap_free_bytes: memory("SwapFree"),
        virtualisation: hostinfo::virtualisation(root),
        machine: hostinfo::machine(root),
        clock_source: root.text(format!("{clock}/current_clocksource")),
        clock_sources: clock_sources.split_ascii_whitespace().map(str::to_owned).collect(),
        boot_id: root.text("proc/sys/kernel/random/boot_id"),
        uptime_s: first_number(root, "proc/uptime"),
        lockdown: hostinfo::lockdown(root),
        io_uring_disabled: root.value("proc/sys/kernel/io_uring_disabled"),
        mitigations: mitigations(root),
        vulnerabilities: vulnerabilities(root),
        cpu_governor: root.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        transparent_hugepages: root
            .text("sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|text| hostinfo::bracketed(&text)),
        pressure_available: Some(root.read("proc/pressure/io").is_ok()),
        load_1min: first_number(root, "proc/loadavg"),
        page_bytes: root.is_live().then(hostinfo::page_bytes),
    }
}

fn first_number(root: &SysRoot, path: &str) -> Option<f64> {
    root.text(path)?.split_ascii_whitespace().next()?.parse().ok()
}

/// The `mitigations=` word of the boot line; the kernel's default where there is none.
fn mitigations(root: &SysRoot) -> Option<String> {
    let line = root.text("proc/cmdline")?;
    let word = line.split_ascii_whitespace().find_map(|word| word.strip_prefix("mitigations="));
    Some(word.unwrap_or("auto").to_owned())
}

/// What the kernel does about the processor's weaknesses; those that the processor does not have
/// are left out.
fn vulnerabilities(root: &SysRoot) -> Vec<String> {
    let dir = "sys/devices/system/cpu/vulnerabilities";
    let lines = root.names(dir).into_iter().filter_map(|name| {
        let state = root.text(format!("{dir}/{name}"))?;
        (state != "Not affected").then(|| format!("{name}: {state}"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_who_it_is() {
        let host = host_facts(&SysRoot::live());
        assert!(host.kernel.is_some() && host.cpu_model.is_some(), "{host:?}");
        assert!(host.cpus_online >= host.cpus_allowed, "{host:?}");
        assert!(host.memory_total_bytes >= host.memory_available_bytes);
        assert!(host.boot_id.as_ref().is_some_and(|id| id.len() == 36));
        assert!(host.uptime_s.is_some_and(|s| s > 0.0));
        let page = host.page_bytes.unwrap();
        assert!(page >= 4096 && page.is_power_of_two());
    }

    #[test]
    fn a_recorded_tree_tells_only_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\nflags\t\t: fpu hypervisor\n",
        );
        put("sys/class/dmi/id/sys_vendor", "QEMU\n");
        put("sys/class/dmi/id/product_name", "Standard PC\n");
        put("etc/os-release", "NAME=\"X\"\nPRETTY_NAME=\"X Linux 1 (one)\"\n");
        put("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable: 1024 kB\n");
        put("proc/cmdline", "root=/dev/sda mitigations=off quiet\n");
        put("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
        put("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n");
        put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
        let host = host_facts(&SysRoot::at(dir.path()));
        assert_eq!(host.cpu_model.as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(host.virtualisation.as_deref(), Some("qemu"));
        assert_eq!(host.machine.as_deref(), Some("QEMU Standard PC"));
        assert_eq!(host.distribution.as_deref(), Some("X Linux 1 (one)"));
        assert_eq!(host.memory_total_bytes, Some(2 << 20));
        assert_eq!(host.mitigations.as_deref(), Some("off"));
        assert_eq!(host.vulnerabilities, ["meltdown: Mitigation: PTI"]);
        assert_eq!(host.lockdown.as_deref(), Some("integrity"));
        assert_eq!(host.kernel, None);
        assert_eq!(host.pressure_available, Some(false));
    }
}
