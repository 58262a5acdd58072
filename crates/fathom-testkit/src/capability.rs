//! What a test may need of the machine, and whether it is there: with the reason and the cure when it is not.

use crate::command::{KitError, find_tool, run_tool};
use crate::control_group::ControlGroup;
use crate::guest::qemu;
use crate::harness::fathom_binary;
use crate::loopdev::LoopDevice;
use crate::mounted::FsKind;
use crate::scratch::Scratch;
use std::fs;
use std::path::Path;

/// Something that a test cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// User 0 with the right to administer the system (in containers, root often lacks it).
    Root,
    /// Loop devices that can be attached.
    LoopDevices,
    /// zram devices that can be added.
    Zram,
    /// The tool that makes a file system.
    Mkfs(FsKind),
    /// Mounting a file system of that type (`xfs`, `tmpfs`).
    MountFs(&'static str),
    /// A file system of that kind made on a loop device and mounted: all that [`crate::MountedFs`] needs.
    FsOnLoop(FsKind),
    /// Extended attributes of users on files in the temporary directory.
    Xattr,
    /// io_uring, neither missing nor forbidden.
    IoUring,
    /// Mount namespaces of one's own.
    MountNamespaces,
    /// Swap areas.
    Swap,
    /// The realtime scheduling classes, which a control group without a share of them has not.
    Realtime,
    /// Control groups with the controller of processes, in which groups can be made.
    PidsController,
    /// The same with the controller of memory.
    MemoryController,
    /// A program, by name.
    Tool(&'static str),
    /// User-mode Linux for guest tests.
    Uml,
    /// QEMU with a kernel, for guest tests with [`crate::GuestJob::qemu`].
    Qemu,
    /// The built `fathom` binary, see [`fathom_binary`].
    FathomBinary,
}

impl Capability {
    /// Whether it is there.
    ///
    /// # Errors
    /// The reason why not and, where one exists, the cure: `make-bcache is not installed (apt: bcache-tools)`.
    pub fn check(self) -> Result<(), String> {
        match self {
            Self::Root => root(),
            Self::LoopDevices => loop_devices(),
            Self::Zram => zram(),
            Self::Mkfs(kind) => has_tool(kind.mkfs()),
            Self::MountFs(fs_type) => mount_fs(fs_type),
            Self::FsOnLoop(kind) => mount_fs(kind.name())
                .and_then(|()| has_tool(kind.mkfs()))
                .and_then(|()| loop_devices()),
            Self::Xattr => xattr(),
            Self::IoUring => io_uring(),
            Self::MountNamespaces => {
                root().and_then(|()| has_tool("unshare")).and_then(|()| unshare())
            }
            Self::Swap => root().and_then(|()| has_tool("mkswap")).and_then(|()| swap()),
            Self::Realtime => has_tool("chrt").and_then(|()| realtime()),
            Self::PidsController => {
                root().and_then(|()| group("processes", ControlGroup::of_threads(100)))
            }
            Self::MemoryController => {
                root().and_then(|()| group("memory", ControlGroup::of_memory(1 << 30)))
            }
            Self::Tool(name) => has_tool(name),
            Self::Uml => has_tool("linux.uml"),
            Self::Qemu => has_tool(qemu::EMULATOR).and_then(|()| qemu::modules().map(drop)),
            Self::FathomBinary => fathom_binary().map(drop).map_err(|error| error.to_string()),
        }
    }
}

/// Debian's package for each program that tests use, where it is not the program's name.
const PACKAGES: &[(&str, &str)] = &[
    ("blkid", "util-linux"),
    ("blkparse", "blktrace"),
    ("btrfs", "btrfs-progs"),
    ("busybox", "busybox-static"),
    ("chrt", "util-linux"),
    ("cryptsetup", "cryptsetup-bin"),
    ("dmesg", "util-linux"),
    ("fsfreeze", "util-linux"),
    ("getfattr", "attr"),
    ("groff", "groff-base"),
    ("linux.uml", "user-mode-linux"),
    ("losetup", "mount"),
    ("lvcreate", "lvm2"),
    ("make-bcache", "bcache-tools"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.f2fs", "f2fs-tools"),
    ("mkfs.minix", "util-linux"),
    ("mkfs.vfat", "dosfstools"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkswap", "util-linux"),
    ("modprobe", "kmod"),
    ("multipathd", "multipath-tools"),
    ("prlimit", "util-linux"),
    ("pvcreate", "lvm2"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("sfdisk", "fdisk"),
    ("sg_start", "sg3-utils"),
    ("sg_turs", "sg3-utils"),
    ("sgdisk", "gdisk"),
    ("smartd", "smartmontools"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("swapon", "mount"),
    ("systemd-analyze", "systemd"),
    ("udevadm", "udev"),
    ("unshare", "util-linux"),
    ("wipefs", "util-linux"),
];

fn has_tool(name: &'static str) -> Result<(), String> {
    if find_tool(name).is_some() {
        return Ok(());
    }
    let package = PACKAGES.iter().find(|(tool, _)| *tool == name).map_or(name, |(_, p)| *p);
    Err(format!("{name} is not installed (apt: {package})"))
}

/// Bit 21 of the capability masks of `/proc/self/status`.
const CAP_SYS_ADMIN: u64 = 1 << 21;

fn root() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("not root".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or("0").trim();
    let mask = u64::from_str_radix(mask, 16).unwrap_or(0);
    if mask & CAP_SYS_ADMIN == 0 {
        return Err("root without CAP_SYS_ADMIN (an unprivileged container)".to_owned());
    }
    Ok(())
}

/// Loads a module if there is a tool and a module for it; whether that helped is seen by what it brings.
fn load_module(name: &str) {
    if find_tool("modprobe").is_some() {
        drop(run_tool("modprobe", ["--quiet", name]));
    }
}

fn loop_devices() -> Result<(), String> {
    root()?;
    has_tool("losetup")?;
    if !Path::new("/dev/loop-control").exists() {
        load_module("loop");
    }
    LoopDevice::new(1 << 20).map(drop).map_err(|error| format!("no loop devices: {error}"))
}

fn zram() -> Result<(), String> {
    root()?;
    let control = Path::new("/sys/class/zram-control");
    if !control.exists() {
        load_module("zram");
    }
    let known = control.exists().then_some(());
    known.ok_or_else(|| "this kernel has no zram (module zram)".to_owned())
}

fn mount_fs(fs_type: &str) -> Result<(), String> {
    root()?;
    let is_known = || {
        let text = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        text.lines().any(|line| line.split('\t').next_back() == Some(fs_type))
    };
    if !is_known() {
        load_module(fs_type);
    }
    is_known()
        .then_some(())
        .ok_or_else(|| format!("this kernel has no {fs_type} (module {fs_type})"))
}

fn xattr() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|error| error.to_string())?;
    let file = scratch.join("x");
    fs::write(&file, "").map_err(|error| error.to_string())?;
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&file, c"user.fathom.probe", b"1", flags)
        .map_err(|error| format!("no extended attributes in {}: {error}", file.display()))
}

fn io_uring() -> Result<(), String> {
    io_uring::IoUring::new(1).map(drop).map_err(|error| {
        format!("io_uring_setup: {error} (kernel too old, or sysctl kernel.io_uring_disabled, or seccomp)")
    })
}

fn unshare() -> Result<(), String> {
    let result = run_tool("unshare", ["--mount", "true"]);
    result.map(drop).map_err(|error| format!("no mount namespaces: {error}"))
}

fn group(what: &str, made: Result<ControlGroup, KitError>) -> Result<(), String> {
    made.map(drop).map_err(|error| format!("no limits of {what}: {error}"))
}

fn realtime() -> Result<(), String> {
    let result = run_tool("chrt", ["--rr", "1", "true"]);
    result.map(drop).map_err(|error| format!("no realtime scheduling: {error}"))
}

fn swap() -> Result<(), String> {
    let known = Path::new("/proc/swaps").exists().then_some(());
    known.ok_or_else(|| "this kernel has no swap".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package() {
        let reason = Capability::Tool("no-such-tool").check();
        assert_eq!(reason, Err("no-such-tool is not installed (apt: no-such-tool)".to_owned()));
        assert_eq!(Capability::Tool("sh").check(), Ok(()));
    }

    #[test]
    fn an_unknown_file_system_has_a_reason() {
        let reason = Capability::MountFs("no-such-fs").check().unwrap_err();
        assert!(reason.contains("no-such-fs") || reason.contains("root"), "{reason}");
    }
}
