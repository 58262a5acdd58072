//! QEMU with Debian's own kernel: a PC with NVMe, several CPUs and tracing. Always emulated, never KVM: a `/dev/kvm`
//! says little on machines that are guests themselves, and so a test is the same everywhere.

use super::job::{Bus, Disk, GuestJob};
use super::{disk_path, initramfs};
use crate::command::{KitError, at, find_tool};
use crate::scratch::Scratch;
use fathom_sys::clock::{Calibration, FastClock};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The name of the emulator.
pub(crate) const EMULATOR: &str = "qemu-system-x86_64";
/// Where `cargo xtask test --install` puts the guest's kernel: `vmlinux`, and `lib/modules` of its package.
const KERNEL: &str = "/var/cache/fathom-testkit/linux";
/// No mitigations: nobody attacks a guest, and emulated they are dear. Without the random seed a boot would wait. A timer
/// whose interrupt comes late, because the host is busy, is no reason to give up.
const COMMAND_LINE: &str = "console=ttyS0 loglevel=5 panic=-1 mitigations=off nokaslr audit=0 \
    random.trust_cpu=on tsc=reliable raid=noautodetect unknown_nmi_panic panic_print=0x40 no_timer_check";
/// The socket at which the emulator takes commands.
const MONITOR: &str = "monitor";

/// What is different in the first process.
pub(super) fn init() -> String {
    let share = "mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 out /run/out";
    format!("MODULES={KERNEL}/lib/modules\nmount_out() {{ {share}; }}\n")
}

/// The directory of the kernel's modules.
///
/// # Errors
/// When the kernel is not there: the reason and the cure.
pub(crate) fn modules() -> Result<PathBuf, String> {
    let base = Path::new(KERNEL);
    let versions = fs::read_dir(base.join("lib/modules")).into_iter().flatten().flatten();
    let version = versions.map(|entry| entry.path()).find(|dir| dir.join("modules.dep").exists());
    version.filter(|_| base.join("vmlinux").exists()).ok_or_else(|| {
        format!("no kernel for QEMU guests in {KERNEL} (as root: cargo xtask test --install)")
    })
}

/// The command that starts the emulator; the kernel's first files are written for it. With `has_cache` the disks are
/// served from their sockets, else they are files.
///
/// # Errors
/// When the kernel or busybox is missing, or the files cannot be written.
pub(super) fn command(
    job: &GuestJob,
    scratch: &Scratch,
    has_cache: bool,
) -> Result<Command, KitError> {
    let modules = modules().map_err(KitError::Other)?;
    let archive = scratch.join("initramfs");
    let init = super::quoted(&scratch.join("init"));
    fs::write(&archive, initramfs::build(&modules, &init)?).map_err(at(&archive))?;
    let mut command = Command::new(find_tool(EMULATOR).unwrap_or_else(|| PathBuf::from(EMULATOR)));
    let machine = "-M q35 -accel tcg,thread=multi -cpu max -nodefaults -no-user-config \
        -display none -no-reboot -serial stdio -initrd initramfs";
    command.args(machine.split_whitespace());
    command.args(["-monitor", &format!("unix:{MONITOR},server=on,wait=off")]);
    command.args(["-smp", &job.cpus.to_string(), "-m", &format!("{}M", job.memory_mib)]);
    if job.has_two_nodes {
        for node in 0..2 {
            let (size, share) = (job.memory_mib / 2, job.cpus / 2);
            let (first, last) = (node * share, (node + 1) * share - 1);
            command.args(["-object", &format!("memory-backend-ram,id=node{node},size={size}M")]);
            let cpus = format!("cpus={first}-{last}");
            command.args(["-numa", &format!("node,nodeid={node},{cpus},memdev=node{node}")]);
        }
    }
    command.args([
        "-kernel",
        &format!("{KERNEL}/vmlinux"),
        "-append",
        &(command_line() + &job.kernel_words),
    ]);
    let share = "local,security_model=none,multidevs=remap";
    command.args(["-virtfs", &format!("{share},path=/,mount_tag=root,readonly=on")]);
    command.args(["-virtfs", &format!("{share},path=out,mount_tag=out")]);
    for (index, disk) in job.disks.iter().enumerate() {
        let path = disk_path(scratch, index);
        let source = if has_cache {
            format!("driver=nbd,server.type=unix,server.path={}", socket(&path).display())
        } else {
            format!("driver=file,filename={}", path.display())
        };
        command.args(["-blockdev", &format!("{source},node-name=disk{index}")]);
        for device in devices(index, *disk) {
            command.args(["-device", &device]);
        }
    }
    command.args(&job.arguments);
    Ok(command)
}

/// The guest reads the host's time-stamp counter. How fast that is, it would find out by a few milliseconds of an emulated
/// timer: on a busy host it has been wrong by a factor of ten, and its clock ran away.
fn command_line() -> String {
    let clock = FastClock::calibrated(Calibration::begin(), Some("tsc"));
    match clock.counter_khz().filter(|_| cfg!(target_arch = "x86_64")) {
        Some(khz) => format!("{COMMAND_LINE} tsc_early_khz={khz}"),
        None => COMMAND_LINE.to_owned(),
    }
}

/// The socket at which a disk with a cache is served.
pub(super) fn socket(disk: &Path) -> PathBuf {
    disk.with_extension("socket")
}

/// Has a guest that hangs say on its console where its processors are, by an interrupt that it cannot mask and takes as the
/// reason for a panic; gives what the emulator knows of their registers. The kernel's addresses are the same at each boot.
pub(super) fn interrogate(scratch: &Scratch) -> String {
    let ask = || -> io::Result<String> {
        let mut monitor = UnixStream::connect(scratch.join(MONITOR))?;
        monitor.set_read_timeout(Some(Duration::from_secs(5)))?;
        monitor.write_all(b"info registers -a\nnmi\n")?;
        let mut said = Vec::new();
        // Until the guest has ended by its panic, or nothing more is said.
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = monitor.read(&mut bytes) {
            said.extend_from_slice(&bytes[..length]);
        }
        let said = String::from_utf8_lossy(&said);
        let is_place = |line: &&str| line.starts_with("CPU#") || line.contains("RIP=");
        Ok(said.lines().filter(is_place).collect::<Vec<_>>().join("\n"))
    };
    ask().unwrap_or_else(|error| format!("the emulator cannot be asked: {error}"))
}

/// The devices of one disk: host adapters first.
fn devices(n: usize, disk: Disk) -> Vec<String> {
    let scsi = |path: usize| {
        [
            format!("virtio-scsi-pci,id=scsi{n}-{path}"),
            // 5: registered by a company; the rest is made up.
            format!(
                "scsi-hd,bus=scsi{n}-{path}.0,drive=disk{n},serial=fathom-{n},wwn=0x5fa7000000000{n:03x},share-rw=on"
            ),
        ]
    };
    let controller =
        |path: usize| format!("nvme,id=nvme{n}-{path},serial=fathom-{n},subsys=subsys{n}");
    let subsystem = format!("nvme-subsys,id=subsys{n},nqn=fathom-{n}");
    // Shared namespaces are attached to all controllers of the subsystem.
    let namespace =
        |shared: &str| format!("nvme-ns,bus=nvme{n}-0,drive=disk{n},nsid=1,shared={shared}");
    let sata = |model: &str| {
        let disk = format!("ide-hd,bus=ide.{n},drive=disk{n},serial=fathom-{n}");
        vec![format!("{disk},model={model},rotation_rate=7200")]
    };
    match disk.bus {
        Bus::Virtio => vec![format!("virtio-blk-pci,drive=disk{n},serial=fathom-{n}")],
        Bus::Scsi => scsi(0).into(),
        Bus::TwoPathScsi => scsi(0).into_iter().chain(scsi(1)).collect(),
        Bus::Nvme => vec![format!("nvme,id=nvme{n}-0,serial=fathom-{n}"), namespace("off")],
        Bus::Sata => sata("LAB-DISK"),
        Bus::SataOf(model) => sata(model),
        Bus::NvmeNear(node) => vec![
            format!("pxb-pcie,id=bridge{n},bus=pcie.0,bus_nr={},numa_node={node}", 64 + 8 * n),
            format!("pcie-root-port,id=port{n},bus=bridge{n},chassis={}", 64 + n),
            format!("nvme,id=nvme{n}-0,bus=port{n},serial=fathom-{n},max_ioqpairs=1"),
            namespace("off"),
        ],
        Bus::TwoPathNvme => vec![subsystem, controller(0), controller(1), namespace("on")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_paths_lead_to_one_disk() {
        for (bus, adapter) in [(Bus::TwoPathScsi, "virtio-scsi-pci"), (Bus::TwoPathNvme, "nvme,")] {
            let devices = devices(3, Disk { bus, size_bytes: 1 << 20, lies: false });
            let count = |start: &str| devices.iter().filter(|d| d.starts_with(start)).count();
            assert_eq!(count(adapter), 2, "{devices:?}");
            assert!(
                devices.iter().filter(|d| d.contains("drive=")).all(|d| d.contains("drive=disk3"))
            );
        }
    }
}
