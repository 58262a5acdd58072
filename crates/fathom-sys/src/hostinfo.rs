//! The machine: kernel, distribution, processor, memory, clock, virtualisation, as the kernel's
//! files tell them.

use crate::sysroot::SysRoot;

/// Kernel release, build and architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Release, such as `6.1.0-18-amd64`.
    pub release: Option<String>,
    /// Build text.
    pub build: Option<String>,
    /// Machine architecture; only known of the live machine.
    pub architecture: Option<String>,
}

/// The kernel, from `/proc/sys/kernel` and uname.
#[must_use]
pub fn kernel(root: &SysRoot) -> Kernel {
    let machine = || rustix::system::uname().machine().to_string_lossy().into_owned();
    Kernel {
        release: root.text("proc/sys/kernel/osrelease"),
        build: root.text("proc/sys/kernel/version"),
        architecture: root.is_live().then(machine),
    }
}

/// The distribution's own name with version (`PRETTY_NAME` of os-release).
#[must_use]
pub fn distribution(root: &SysRoot) -> Option<String> {
    let text = root.text("etc/os-release").or_else(|| root.text("usr/lib/os-release"))?;
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.trim().trim_matches(['"', '\'']).to_owned())
    };
    value("PRETTY_NAME").or_else(|| value("NAME"))
}

/// Processor model, from the first of the names that architectures use in `/proc/cpuinfo`.
#[must_use]
pub fn cpu_model(root: &SysRoot) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    let keys = ["model name", "cpu model", "Hardware", "Model", "cpu", "machine"];
    keys.iter().find_map(|key| cpuinfo_value(&text, key))
}

fn cpuinfo_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        (name.trim() == key && !value.is_empty()).then_some(value)
    })
}

/// How many CPUs a list such as `0-3,8` names.
#[must_use]
pub fn cpu_list_len(list: &str) -> Option<u64> {
    list.trim().split(',').map(range_len).try_fold(0, |all, len| u64::checked_add(all, len?))
}

fn range_len(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// A line of `/proc/meminfo` in bytes.
#[must_use]
pub fn meminfo_bytes(root: &SysRoot, key: &str) -> Option<u64> {
    let text = root.text("proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = value.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes of a memory page of the live machine.
#[must_use]
pub fn page_bytes() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of the caller.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A line of `/proc/self/status`.
#[must_use]
pub fn own_status(root: &SysRoot, key: &str) -> Option<String> {
    let text = root.text("proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// The word in brackets of `[always] madvise never`.
#[must_use]
pub fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// Kernel lockdown: `none`, `integrity` or `confidentiality`; none where the kernel has none or
/// hides it.
#[must_use]
pub fn lockdown(root: &SysRoot) -> Option<String> {
    bracketed(&root.text("sys/kernel/security/lockdown")?)
}

/// The kind of virtual machine or container, `none` for bare metal; none when nothing tells.
///
/// From DMI, `/sys/hypervisor`, the processor's hypervisor flag, and the marks that containers
/// leave.
#[must_use]
pub fn virtualisation(root: &SysRoot) -> Option<String> {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let machine = virtual_machine(root, &cpuinfo);
    match (container(root), machine) {
        (Some(container), Some(machine)) => Some(format!("{container} in {machine}")),
        (Some(only), None) | (None, Some(only)) => Some(only),
        (None, None) => (!cpuinfo.is_empty()).then(|| "none".to_owned()),
    }
}

fn container(root: &SysRoot) -> Option<String> {
    if let Some(name) = root.text("run/systemd/container") {
        return Some(name);
    }
    if root.text("proc/2/comm").as_deref() == Some("kthreadd") {
        // All processes of the machine are seen: an image that was booted keeps the marks of its
        // making.
        return None;
    }
    let marks = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    marks.iter().find(|(mark, _)| root.exists(mark)).map(|(_, name)| (*name).to_owned())
}

/// Words in DMI's maker and product, and the hypervisor that they mean.
const DMI_WORDS: [(&str, &str); 12] = [
    ("vmware", "vmware"),
    ("virtualbox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("xen", "xen"),
    ("bochs", "bochs"),
    ("parallels", "parallels"),
    ("bhyve", "bhyve"),
    ("google compute engine", "kvm (google)"),
    ("amazon ec2", "amazon ec2"),
    ("openstack", "kvm (openstack)"),
    ("kvm", "kvm"),
    ("qemu", "qemu"),
];

fn virtual_machine(root: &SysRoot, cpuinfo: &str) -> Option<String> {
    if cpuinfo.contains("User Mode Linux") {
        return Some("uml".to_owned());
    }
    if let Some(kind) = root.text("sys/hypervisor/type") {
        return Some(kind);
    }
    let flags = cpuinfo_value(cpuinfo, "flags").unwrap_or_default();
    let guest = flags.split(' ').any(|flag| flag == "hypervisor");
    let dmi = machine(root).unwrap_or_default().to_lowercase();
    let named = DMI_WORDS.iter().find(|(word, _)| dmi.contains(word)).map(|(_, name)| *name);
    // Amazon's bare metal machines carry the same maker: only the flag tells a guest there.
    let named = named.filter(|name| guest || *name != "amazon ec2");
    let hyperv = guest && dmi.contains("microsoft") && dmi.contains("virtual machine");
    let clocked = || {
        let sources =
            root.text("sys/devices/system/clocksource/clocksource0/available_clocksource");
        let sources = sources.unwrap_or_default();
        let known = [("kvm-clock", "kvm"), ("hyperv", "hyper-v"), ("xen", "xen")];
        known.iter().find(|(word, _)| sources.contains(word)).map(|(_, name)| *name)
    };
    match named {
        Some(name) => Some(name.to_owned()),
        None if hyperv => Some("hyper-v".to_owned()),
        None if guest => Some(clocked().unwrap_or("unknown hypervisor").to_owned()),
        None => None,
    }
}

/// Maker and product of the machine, from DMI or the device tree.
#[must_use]
pub fn machine(root: &SysRoot) -> Option<String> {
    let words: Vec<String> = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|name| root.text(format!("sys/class/dmi/id/{name}")))
        .collect();
    if words.is_empty() { root.text("proc/device-tree/model") } else { Some(words.join(" ")) }
}

/// Names of the running kernel threads and processes (`/proc/PID/comm`) that `wanted` accepts; true
/// at the first.
#[must_use]
pub fn any_process_named(root: &SysRoot, wanted: impl Fn(&str) -> bool) -> bool {
    let pids = root.names("proc");
    let mut pids = pids.iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    pids.any(|pid| root.text(format!("proc/{pid}/comm")).is_some_and(|comm| wanted(&comm)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(cpu_list_len("0-3,8\n"), Some(5));
        assert_eq!(cpu_list_len("0"), Some(1));
        assert_eq!(cpu_list_len(""), None);
        assert_eq!(cpu_list_len("3-1"), None);
    }

    #[test]
    fn the_choice_in_brackets() {
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(bracketed("none"), None);
    }

    #[test]
    fn this_machine_tells_its_kernel_and_memory() {
        let root = SysRoot::live();
        assert!(kernel(&root).release.is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit())));
        assert!(meminfo_bytes(&root, "MemTotal").is_some_and(|bytes| bytes > 1 << 20));
        assert!(own_status(&root, "Cpus_allowed_list").and_then(|l| cpu_list_len(&l)) >= Some(1));
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert!(any_process_named(&root, |comm| comm == own.trim()));
        assert!(!any_process_named(&root, |comm| comm == "no such process"));
    }
}
