//! Who has a device or a file open or mapped: every process's file descriptors and mappings.
//!
//! Files that the kernel itself holds (a mounted filesystem, the back of a loop device) do not show here, nor do those
//! of processes that may not be looked into.

use crate::devno::DevNo;
use crate::sysroot::SysRoot;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Any of these block devices, by whatever node they were opened.
    Devices(Vec<DevNo>),
    /// The file with this inode on the filesystem with this device number.
    File(DevNo, u64),
}

/// A process that has it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// Process number.
    pub pid: u32,
    /// Name of its program, without control characters.
    pub command: String,
}

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// The processes, without this one.
    pub openers: Vec<Opener>,
    /// Processes that may not be looked into.
    pub hidden_processes: u32,
}

impl Wanted {
    fn is(&self, meta: &Metadata) -> bool {
        match self {
            Self::Devices(devices) => {
                meta.file_type().is_block_device()
                    && devices.contains(&DevNo::from_raw(meta.rdev()))
            }
            Self::File(dev, inode) => meta.ino() == *inode && DevNo::from_raw(meta.dev()) == *dev,
        }
    }
}

/// Looks through all other processes.
#[must_use]
pub fn scan(root: &SysRoot, wanted: &Wanted) -> Scan {
    let mut scan = Scan::default();
    let own = std::process::id();
    for pid in root.names("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        if pid == own && root.is_live() {
            continue;
        }
        match has_open(root, pid, wanted) {
            Some(true) => scan.openers.push(Opener { pid, command: command(root, pid) }),
            Some(false) => {}
            None => scan.hidden_processes += 1,
        }
    }
    scan
}

/// The other processes of the live machine that have a file open in a directory of this name, however it is reached. No file is asked
/// what it is.
#[must_use]
pub fn inside(root: &SysRoot, directory: &str) -> Vec<Opener> {
    let own = std::process::id();
    let pids = root.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let is_inside = |pid: u32| {
        let fds = std::fs::read_dir(root.path(format!("proc/{pid}/fd")));
        fds.into_iter().flatten().flatten().any(|link| {
            let path = std::fs::read_link(link.path()).unwrap_or_default();
            path.parent().is_some_and(|dir| dir.iter().any(|part| part == directory))
        })
    };
    let users = pids.filter(|pid| *pid != own && is_inside(*pid));
    users.map(|pid| Opener { pid, command: command(root, pid) }).collect()
}

/// The block devices of the live machine that any other process has open, by nodes below `/dev`. What else is open is not
/// asked what it is: a file on a server that is gone would never answer.
#[must_use]
pub fn open_devices(root: &SysRoot) -> BTreeSet<DevNo> {
    let own = std::process::id();
    let pids = root.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
    let mut found = BTreeSet::new();
    for pid in pids.filter(|&pid| pid != own) {
        let Ok(entries) = std::fs::read_dir(root.path(format!("proc/{pid}/fd"))) else { continue };
        for link in entries.flatten().map(|entry| entry.path()) {
            let is_node = std::fs::read_link(&link).is_ok_and(|path| path.starts_with("/dev"));
            if is_node
                && let Ok(meta) = std::fs::metadata(&link)
                && meta.file_type().is_block_device()
            {
                found.insert(DevNo::from_raw(meta.rdev()));
            }
        }
    }
    found
}

/// The initial namespaces have these fixed numbers (the kernel's include/linux/proc_ns.h).
const INITIAL_PIDS: &str = crate::process::FIRST_PID_NAMESPACE;
const INITIAL_USERS: &str = "user:[4026531837]";

/// Capabilities (linux/capability.h) that looking takes: the descriptors of everybody's processes, and one of two for
/// what they have mapped.
const SYS_PTRACE: u64 = 1 << 19;
const MAPPINGS: u64 = 1 << 21 | 1 << 40;

/// What keeps this process from seeing what all others have open, in words that name the cure. Rights alone do not say:
/// in a container the host's processes are not even listed.
#[must_use]
pub fn blindness(root: &SysRoot) -> Option<&'static str> {
    // Without namespaces in the kernel there are no links.
    let is_other = |name: &str, initial: &str| {
        let link = root.link(Path::new("proc/self/ns").join(name));
        link.is_some_and(|link| link != Path::new(initial))
    };
    let status = root.text("proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    if is_other("user", INITIAL_USERS) {
        return Some("this is a user namespace: run as root of the machine itself");
    }
    if rights & SYS_PTRACE == 0 {
        return Some(
            "it takes CAP_SYS_PTRACE: run as root, in a container with --cap-add=SYS_PTRACE",
        );
    }
    if rights & MAPPINGS == 0 {
        return Some(
            "mappings take CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE: run as root, in a container with --cap-add=SYS_ADMIN",
        );
    }
    is_other("pid", INITIAL_PIDS).then_some(
        "only the processes of this container are listed: start it with --pid=host, or run outside",
    )
}

/// None when the process may not be looked into; one that ends meanwhile has nothing open.
fn has_open(root: &SysRoot, pid: u32, wanted: &Wanted) -> Option<bool> {
    let (fds_seen, in_fds) = any_link(root, &format!("proc/{pid}/fd"), wanted);
    let (maps_seen, in_maps) = any_link(root, &format!("proc/{pid}/map_files"), wanted);
    if in_fds || in_maps { Some(true) } else { (fds_seen && maps_seen).then_some(false) }
}

/// Whether the links of the directory could be followed, and whether one leads to what is wanted.
fn any_link(root: &SysRoot, dir: &str, wanted: &Wanted) -> (bool, bool) {
    let entries = match std::fs::read_dir(root.path(dir)) {
        Ok(entries) => entries,
        Err(error) => return (error.kind() != std::io::ErrorKind::PermissionDenied, false),
    };
    let mut is_visible = true;
    for entry in entries.flatten() {
        match std::fs::metadata(entry.path()) {
            Ok(meta) if wanted.is(&meta) => return (true, true),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                is_visible = false
            }
            Ok(_) | Err(_) => {}
        }
    }
    (is_visible, false)
}

/// Name of a process's program as the kernel has it, without control characters; empty when it is gone.
#[must_use]
pub fn command(root: &SysRoot, pid: u32) -> String {
    let name = root.text(Path::new("proc").join(pid.to_string()).join("comm")).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn finds(pid: u32, wanted: &Wanted) -> bool {
        scan(&SysRoot::live(), wanted).openers.iter().any(|opener| opener.pid == pid)
    }

    #[test]
    fn a_child_that_holds_a_file_is_found_until_it_ends() {
        let path = std::env::temp_dir().join(format!("fathom-openers-{}", std::process::id()));
        std::fs::write(&path, "x").unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        let wanted = Wanted::File(DevNo::from_raw(meta.dev()), meta.ino());
        let file = std::fs::File::open(&path).unwrap();
        assert_eq!(scan(&SysRoot::live(), &wanted).openers, [], "this process does not count");
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::from(file)).spawn().unwrap();
        let found = finds(child.id(), &wanted);
        child.kill().unwrap();
        child.wait().unwrap();
        let after = finds(child.id(), &wanted);
        std::fs::remove_file(&path).unwrap();
        assert!(found && !after);
    }

    #[test]
    fn a_file_that_is_only_mapped_is_found() {
        let dir = std::env::temp_dir().join(format!("fathom-mapped-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("sleep");
        std::fs::copy("/bin/sleep", &path).unwrap();
        let meta = std::fs::metadata(&path).unwrap();
        let mut child = Command::new(&path).arg("60").stdin(Stdio::null()).spawn().unwrap();
        let root = SysRoot::live();
        let seen = scan(&root, &Wanted::File(DevNo::from_raw(meta.dev()), meta.ino()));
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        // A running program has its file mapped, but not open. Without the rights it counts as hidden.
        let found = seen.openers.iter().any(|opener| opener.pid == child.id());
        assert!(found || (blindness(&root).is_some() && seen.hidden_processes > 0), "{seen:?}");
    }

    #[test]
    fn what_keeps_from_seeing_is_named() {
        let dir = std::env::temp_dir().join(format!("fathom-blind-{}", std::process::id()));
        let told = |rights: u64, pids: &str, users: &str| {
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(dir.join("proc/self/ns")).unwrap();
            let status = format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{rights:016x}\n");
            std::fs::write(dir.join("proc/self/status"), status).unwrap();
            std::os::unix::fs::symlink(pids, dir.join("proc/self/ns/pid")).unwrap();
            std::os::unix::fs::symlink(users, dir.join("proc/self/ns/user")).unwrap();
            blindness(&SysRoot::at(&dir))
        };
        let (all, checkpoint) = (0x1ff_ffff_ffff, SYS_PTRACE | 1 << 40);
        assert_eq!(told(all, INITIAL_PIDS, INITIAL_USERS), None);
        assert_eq!(told(checkpoint, INITIAL_PIDS, INITIAL_USERS), None);
        // What Docker gives to root.
        let docker = told(0xa804_25fb, "pid:[4026532500]", INITIAL_USERS);
        assert!(docker.unwrap().contains("CAP_SYS_PTRACE"));
        assert!(told(SYS_PTRACE, INITIAL_PIDS, INITIAL_USERS).unwrap().contains("CAP_SYS_ADMIN"));
        assert!(told(all, "pid:[4026532500]", INITIAL_USERS).unwrap().contains("--pid=host"));
        assert!(told(all, INITIAL_PIDS, "user:[4026532501]").unwrap().contains("user namespace"));
        assert!(told(0, INITIAL_PIDS, INITIAL_USERS).unwrap().contains("run as root"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_device_is_found_by_number() {
        let none = Wanted::Devices(vec![DevNo { major: 1, minor: 3 }]);
        // Everybody has /dev/null (1:3) open, but that is a character device.
        assert_eq!(scan(&SysRoot::live(), &none).openers, []);
    }
}
