//! The memory and CPU limits of the control groups that this process is in, versions 1 and 2, up to
//! the root.

use crate::mounts::{Mount, own_mounts};
use crate::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// The tightest memory limit over a group and all groups above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The smallest limit in bytes.
    pub limit_bytes: u64,
    /// The smallest remainder in bytes: limit less use, with page cache counted as free.
    pub available_bytes: u64,
}

/// Limits at or above this are what version 1 writes for "none" (the largest page count).
const NO_LIMIT: u64 = 1 << 62;

/// The memory limit of this process; none when no group sets one.
#[must_use]
pub fn memory_limit(root: &SysRoot) -> Option<MemoryLimit> {
    let groups = group_dirs(root, "memory");
    groups.iter().filter_map(|dir| one_limit(root, dir)).reduce(|a, b| MemoryLimit {
        limit_bytes: a.limit_bytes.min(b.limit_bytes),
        available_bytes: a.available_bytes.min(b.available_bytes),
    })
}

/// The CPU time limit of this process in CPUs; none when no group sets one.
#[must_use]
pub fn cpu_limit(root: &SysRoot) -> Option<f64> {
    let groups = group_dirs(root, "cpu");
    groups.iter().filter_map(|dir| one_cpu_limit(root, dir)).reduce(f64::min)
}

fn one_limit(root: &SysRoot, dir: &Path) -> Option<MemoryLimit> {
    let number = |name: &str| root.value::<u64>(dir.join(name));
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    let limit_bytes = limits.iter().filter_map(|n| number(n)).filter(|&n| n < NO_LIMIT).min()?;
    let used = number("memory.current").or_else(|| number("memory.usage_in_bytes")).unwrap_or(0);
    let used = used.saturating_sub(file_cache(root, dir));
    Some(MemoryLimit { limit_bytes, available_bytes: limit_bytes.saturating_sub(used) })
}

/// Clean, idle page cache of the group: it goes when memory is asked for.
fn file_cache(root: &SysRoot, dir: &Path) -> u64 {
    let text = root.text(dir.join("memory.stat")).unwrap_or_default();
    let value = |wanted: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .find(|(key, _)| *key == wanted)
            .and_then(|(_, value)| value.trim().parse::<u64>().ok())
    };
    // Version 1's plain keys leave out the groups below; the total_ ones do not.
    let inactive = value("total_inactive_file").or_else(|| value("inactive_file")).unwrap_or(0);
    let active = value("total_active_file").or_else(|| value("active_file")).unwrap_or(0);
    u64::saturating_add(inactive, active)
}

fn one_cpu_limit(root: &SysRoot, dir: &Path) -> Option<f64> {
    if let Some(text) = root.text(dir.join("cpu.max")) {
        let (quota, period) = text.split_once(' ')?;
        return Some(quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?);
    }
    let quota: f64 = root.value(dir.join("cpu.cfs_quota_us"))?;
    let period: f64 = root.value(dir.join("cpu.cfs_period_us"))?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// The directories of the process's group for one controller and of all groups above, as far as
/// they are visible.
pub(crate) fn group_dirs(root: &SysRoot, controller: &str) -> Vec<PathBuf> {
    let mounts = own_mounts(root);
    let text = root.read("proc/self/cgroup").unwrap_or_default();
    let mut dirs = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|c| c == controller) {
            continue;
        }
        let holds = |m: &&Mount| match m.fs_type.as_str() {
            "cgroup2" => unified,
            "cgroup" => !unified && m.super_options.split(',').any(|o| o == controller),
            _ => false,
        };
        if let Some(mount) = mounts.iter().find(holds) {
            dirs.extend(ancestry(mount, Path::new(group)));
        }
    }
    dirs
}

/// The group and its parents under a mount. In a container the mount may show only a part of the
/// tree: what lies outside it cannot be read, and the mount point itself stands for the part's top.
fn ancestry(mount: &Mount, group: &Path) -> Vec<PathBuf> {
    let below = group.strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let below = if below.starts_with("..") { Path::new("") } else { below };
    let relative = below.strip_prefix("/").unwrap_or(below);
    let point = mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point);
    relative.ancestors().map(|part| point.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (SysRoot, PathBuf) {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fathom-cgroup-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        for (path, content) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        (SysRoot::at(&dir), dir)
    }

    #[test]
    fn version_2_takes_the_tightest_of_the_whole_ancestry() {
        let (root, dir) = tree(&[
            ("proc/self/cgroup", "0::/a.slice/b.service\n"),
            ("proc/self/mountinfo", "1 0 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/a.slice/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a.slice/memory.current", "900000\n"),
            ("sys/fs/cgroup/a.slice/memory.stat", "anon 1\ninactive_file 300000\nactive_file 1\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.max", "max\n"),
            ("sys/fs/cgroup/a.slice/b.service/memory.high", "2000000\n"),
            ("sys/fs/cgroup/a.slice/b.service/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a.slice/cpu.max", "max 100000\n"),
        ]);
        let limit = memory_limit(&root);
        let cpus = cpu_limit(&root);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(limit, Some(MemoryLimit { limit_bytes: 1_000_000, available_bytes: 400_001 }));
        assert_eq!(cpus, Some(1.5));
    }

    #[test]
    fn version_1_in_a_container_that_sees_only_its_own_part() {
        let (root, dir) = tree(&[
            ("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:30 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 2 0 0:31 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 4096\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let limit = memory_limit(&root);
        let cpus = cpu_limit(&root);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(limit, Some(MemoryLimit { limit_bytes: 512 << 20, available_bytes: 4096 }));
        assert_eq!(cpus, None);
    }

    #[test]
    fn the_word_for_no_limit_is_no_limit() {
        let (root, dir) = tree(&[
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "proc/self/mountinfo",
                "1 0 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let limit = memory_limit(&root);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(limit, None);
    }
}
