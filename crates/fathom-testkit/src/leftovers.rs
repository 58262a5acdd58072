//! What tests left behind: processes, mounts, swap, loop and zram devices, directories; and taking them down.
//!
//! Found by name only: a path with a scratch directory in it. Nothing else is ever touched, and the directories of
//! processes that still run belong to them.

use crate::command::{KitError, at, run_tool};
use crate::scratch::{Owner, PREFIX};
use crate::zram;
use fathom_sys::mounts::{Mount, own_mounts, swap_areas};
use fathom_sys::sysroot::SysRoot;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One thing that a test did not take down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The scratch directory that it belongs to.
    pub dir: PathBuf,
    /// The thing, such as `mount /tmp/.../mnt` or `loop device /dev/loop3 over /tmp/.../disk`.
    pub what: String,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// What dead test processes left.
#[must_use]
pub fn leftovers() -> Vec<Leftover> {
    found(|owner| !owner.is_alive())
}

/// What this process holds at the moment.
#[must_use]
pub fn held_by_this_process() -> Vec<Leftover> {
    let this = Owner::this_process();
    found(|owner| owner == this)
}

/// Takes down what dead test processes left.
///
/// # Errors
/// The first that could not be removed; the others are still tried.
pub fn remove_leftovers() -> Result<(), KitError> {
    let mut dirs: Vec<PathBuf> = leftovers().into_iter().map(|leftover| leftover.dir).collect();
    dirs.dedup();
    dirs.iter().map(|dir| take_down(dir)).fold(Ok(()), Result::and)
}

fn found(wanted: impl Fn(Owner) -> bool) -> Vec<Leftover> {
    let mut all: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    let mut note = |path: &Path, what: String| {
        if let Some((dir, _)) = Owner::of_path(path).filter(|(_, owner)| wanted(*owner)) {
            all.entry(dir).or_default().push(what);
        }
    };
    for (pid, dir) in orphans() {
        note(&dir, format!("process {} in {}", pid.as_raw_nonzero(), dir.display()));
    }
    for mount in own_mounts(&SysRoot::live()) {
        note(&mount.mount_point, format!("mount {}", mount.mount_point.display()));
    }
    for device in loop_devices() {
        let what =
            format!("loop device {} over {}", device.path.display(), device.backing.display());
        note(&device.backing, what);
    }
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for dir in entries.map(|entry| entry.path()).filter(|dir| is_scratch(dir)) {
        for number in zram::noted_in(&dir) {
            note(&dir, format!("zram device {number} of {}", dir.display()));
        }
        note(&dir, format!("directory {}", dir.display()));
    }
    let one = |(dir, what): (PathBuf, Vec<String>)| {
        what.into_iter().map(move |what| Leftover { dir: dir.clone(), what })
    };
    all.into_iter().flat_map(one).collect()
}

/// Processes that work in a scratch directory of a dead process, such as its guest.
fn orphans() -> Vec<(Pid, PathBuf)> {
    let is_orphaned =
        |(_, cwd): &(Pid, PathBuf)| Owner::of_path(cwd).is_some_and(|(_, owner)| !owner.is_alive());
    let working_in = |name: String| {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        Some((pid, fs::read_link(format!("/proc/{name}/cwd")).ok()?))
    };
    let names = SysRoot::live().names("proc").into_iter();
    names.filter_map(working_in).filter(is_orphaned).collect()
}

/// Kills the orphans in a directory and waits until they are gone.
fn kill_orphans(dir: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let left: Vec<Pid> = orphans()
            .into_iter()
            .filter(|(_, cwd)| cwd.starts_with(dir))
            .map(|(pid, _)| pid)
            .collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            // It may have gone by itself.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_scratch(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// A loop device in use.
struct LoopInUse {
    path: PathBuf,
    backing: PathBuf,
}

fn loop_devices() -> Vec<LoopInUse> {
    let root = SysRoot::live();
    let in_use = |name: String| {
        let backing = PathBuf::from(root.text(format!("sys/block/{name}/loop/backing_file"))?);
        Some(LoopInUse { path: Path::new("/dev").join(name), backing })
    };
    root.names("sys/block")
        .into_iter()
        .filter(|name| name.starts_with("loop"))
        .filter_map(in_use)
        .collect()
}

/// Mounts and devices that keep a scratch directory from going.
#[derive(PartialEq, Eq)]
struct InUse {
    mounts: Vec<PathBuf>,
    devices: Vec<PathBuf>,
}

impl InUse {
    fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.devices.is_empty()
    }
}

fn in_use(dir: &Path) -> InUse {
    let loops = loop_devices().into_iter().filter(|device| device.backing.starts_with(dir));
    let zrams = zram::noted_in(dir).into_iter().map(|n| PathBuf::from(format!("/dev/zram{n}")));
    let devices: Vec<PathBuf> = loops.map(|device| device.path).chain(zrams).collect();
    InUse { mounts: mounts_on(dir, &devices), devices }
}

/// Takes down everything that uses `dir`, innermost first, then removes the directory. Processes that work in it are
/// killed when the one that made it is dead.
///
/// # Errors
/// When something below is still mounted afterwards (the directory then stays), or a removal failed.
pub fn take_down(dir: &Path) -> Result<(), KitError> {
    kill_orphans(dir);
    // A stack (a file system on a loop device in a file system on a loop device) comes down one layer per round.
    // Politely as long as that gets on; what is then still busy is unmounted lazily.
    let mut is_lazy = false;
    loop {
        let before = in_use(dir);
        if before.is_empty() {
            break;
        }
        release_swap(dir, &before.devices);
        unmount_all(dir, &before.devices, is_lazy);
        before.devices.iter().for_each(|device| detach(device));
        zram::noted_in(dir).into_iter().for_each(|number| report(zram::remove_device(number)));
        match (in_use(dir) == before, is_lazy) {
            (false, _) => {}
            (true, false) => is_lazy = true,
            (true, true) => break,
        }
    }
    let still = own_mounts(&SysRoot::live()).into_iter().find(|m| m.mount_point.starts_with(dir));
    if let Some(mount) = still {
        return Err(KitError::Other(format!("{} stays mounted", mount.mount_point.display())));
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(dir)(error)),
        _ => Ok(()),
    }
}

/// Ends every use of one device (swap, mounts of it and of its partitions) in this mount namespace.
pub fn release_device(device: &Path) {
    let devices = [device.to_owned()];
    // A directory that holds nothing: only the device counts.
    let nowhere = device.join("nowhere");
    release_swap(&nowhere, &devices);
    unmount_all(&nowhere, &devices, true);
}

fn release_swap(dir: &Path, devices: &[PathBuf]) {
    for area in swap_areas(&SysRoot::live()) {
        if area.starts_with(dir) || devices.iter().any(|device| is_on(&area, device)) {
            report(run_tool("swapoff", [&area]).map(drop));
        }
    }
}

/// The mount points below `dir` or of the devices, in the order of mounting.
fn mounts_on(dir: &Path, devices: &[PathBuf]) -> Vec<PathBuf> {
    let ours = |mount: &Mount| {
        mount.mount_point.starts_with(dir)
            || devices.iter().any(|device| is_on(Path::new(&mount.source), device))
    };
    let mounts = own_mounts(&SysRoot::live()).into_iter().filter(ours);
    mounts.map(|mount| mount.mount_point).collect()
}

/// Unmounts what lies below `dir` or on the devices, last mounted first.
fn unmount_all(dir: &Path, devices: &[PathBuf], is_lazy: bool) {
    for point in mounts_on(dir, devices).iter().rev() {
        if is_lazy {
            report(unmount(point));
        } else {
            // Whether that was enough is seen by what is still mounted.
            drop(run_tool("umount", [point]));
        }
    }
}

/// Unmounts, patiently first (something may just be closing a file), then lazily. What is not mounted is left so.
///
/// # Errors
/// When even the lazy way failed.
pub fn unmount(point: &Path) -> Result<(), KitError> {
    for _ in 0..100 {
        let is_mounted = own_mounts(&SysRoot::live()).iter().any(|m| m.mount_point == point);
        if !is_mounted || run_tool("umount", [point]).is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let lazily = run_tool("umount", [Path::new("--lazy"), point]).map(drop);
    eprintln!("test kit: {} was busy, unmounted lazily", point.display());
    lazily
}

/// The device itself or one of its partitions (`/dev/loop1p2`, but not `/dev/loop12`).
fn is_on(path: &Path, device: &Path) -> bool {
    let (path, device) = (path.to_string_lossy(), device.to_string_lossy());
    path.strip_prefix(&*device).is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
}

/// Detaches a loop device and waits until the kernel has let go of its file. A device that is still in use goes when
/// its last user does.
pub fn detach(device: &Path) {
    let Some(name) = device.file_name() else { return };
    let attached = Path::new("/sys/block").join(name).join("loop/backing_file");
    if !attached.exists() {
        return;
    }
    report(run_tool("losetup", [Path::new("--detach"), device]).map(drop));
    let deadline = Instant::now() + Duration::from_secs(5);
    while attached.exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn report(result: Result<(), KitError>) {
    if let Err(error) = result {
        eprintln!("test kit: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn partitions_belong_to_their_device_and_neighbours_do_not() {
        let device = Path::new("/dev/loop1");
        assert!(is_on(Path::new("/dev/loop1"), device));
        assert!(is_on(Path::new("/dev/loop1p2"), device));
        assert!(!is_on(Path::new("/dev/loop12"), device));
    }

    #[test]
    fn a_living_process_has_no_leftovers() {
        let scratch = Scratch::new().unwrap();
        let holds = |all: Vec<Leftover>| all.iter().any(|leftover| leftover.dir == scratch.path());
        assert!(holds(held_by_this_process()));
        assert!(!holds(leftovers()));
    }

    #[test]
    fn a_dead_process_has() {
        let dir =
            std::env::temp_dir().join(format!("{PREFIX}1-999999999-unit{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        assert!(leftovers().iter().any(|leftover| leftover.dir == dir));
        take_down(&dir).unwrap();
        assert!(!dir.exists());
    }
}
