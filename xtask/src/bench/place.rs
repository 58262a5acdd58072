//! What the benchmark builds and takes down again: files, a loop device, the CPUs of kernel workers.

use super::tools::SYSBENCH_FILE;
use crate::workspace;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A directory of its own in the target directory, removed at the end.
pub struct Place {
    /// Its path.
    pub directory: PathBuf,
    _janitor: Janitor,
}

impl Place {
    /// Makes it.
    ///
    /// # Errors
    /// Those of making a directory.
    pub fn new() -> Result<Self, String> {
        let directory =
            workspace::root().join("target").join(format!("bench-{}", std::process::id()));
        let janitor = Janitor::new(format!("rm -rf '{}'", directory.display()))?;
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        Ok(Self { directory, _janitor: janitor })
    }

    /// A test file under the name that sysbench gives its first one, so that all tools read the same file.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name).join(SYSBENCH_FILE)
    }

    /// The store that fathom's runs go to.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.directory.join("fathom.db")
    }
}

/// Writes a file full of random bytes: never sparse, never only allocated.
///
/// # Errors
/// Those of writing it.
pub fn lay_out(path: &Path, size_bytes: u64) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(fail)?;
    }
    let random = fs::File::open("/dev/urandom").map_err(fail)?;
    let mut file = fs::File::create(path).map_err(fail)?;
    std::io::copy(&mut random.take(size_bytes), &mut file).map_err(fail)?;
    file.flush().and_then(|()| file.sync_all()).map_err(fail)?;
    // The dust of a gigabyte written settles before anything is measured.
    std::thread::sleep(Duration::from_secs(u64::from(size_bytes >= 1 << 30)));
    Ok(())
}

/// How the names of what lies in memory begin; the process's number follows.
pub const IN_MEMORY: &str = "/dev/shm/fathom-bench";

/// A tree of files in memory, as the classic test of file servers makes them: three directories and eleven files in each
/// directory, five levels deep, files of 4 KiB.
pub struct Tree {
    /// Its root.
    pub path: PathBuf,
    _janitor: Janitor,
}

/// Files in each directory of the tree.
const TREE_FILES: u32 = 11;
/// Directories in each but those of the last level.
const TREE_DIRECTORIES: u32 = 3;
const TREE_LEVELS: u32 = 5;
const TREE_FILE_BYTES: usize = 4096;

impl Tree {
    /// Makes it.
    ///
    /// # Errors
    /// In words, when it cannot be made: /dev/shm is no memory, or has no room.
    pub fn new() -> Result<Self, String> {
        let path = PathBuf::from(format!("{IN_MEMORY}-{}-tree", std::process::id()));
        let kind = workspace::output_of(Command::new("stat").args(["-f", "-c", "%T", "/dev/shm"]))?;
        if kind.trim() != "tmpfs" {
            return Err(format!("/dev/shm is {} and not tmpfs", kind.trim()));
        }
        let janitor = Janitor::new(format!("rm -rf '{}'", path.display()))?;
        grow(&path, TREE_LEVELS).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, _janitor: janitor })
    }
}

fn grow(directory: &Path, levels: u32) -> std::io::Result<()> {
    fs::create_dir(directory)?;
    for number in 0..TREE_FILES {
        fs::write(directory.join(format!("f{number:07}")), [0xA5; TREE_FILE_BYTES])?;
    }
    let below = if levels == 0 { 0 } else { TREE_DIRECTORIES };
    (0..below).try_for_each(|number| grow(&directory.join(format!("d{number:07}")), levels - 1))
}

const LOOP_BYTES: u64 = 256 << 20;
const UNBOUND_WORK: &str = "/sys/devices/virtual/workqueue/cpumask";

/// A shell that waits for our end, whatever ends us, and then puts things in order: Ctrl-C and kill leave nothing
/// behind. It has a process group of its own, which is not the terminal's.
pub struct Janitor {
    shell: Child,
    script: String,
}

impl Janitor {
    /// Starts it before the first of the things is there.
    ///
    /// # Errors
    /// Without a shell.
    pub fn new(script: String) -> Result<Self, String> {
        let waiting = format!("trap '' INT TERM HUP; cat >/dev/null; {script}");
        let mut command = Command::new("sh");
        command.process_group(0).args(["-c", &waiting]).stdin(Stdio::piped()).stdout(Stdio::null());
        let shell = command.spawn().map_err(|error| format!("cannot run sh: {error}"))?;
        Ok(Self { shell, script })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        if !self.shell.wait().is_ok_and(|status| status.success()) {
            eprintln!("not everything was put in order; run as root: {}", self.script);
        }
    }
}

/// A loop device with direct I/O over a file in memory. While it is there, the kernel's unbound workers stay off CPU 0,
/// on which the measured thread runs: where they run by chance, they double or halve its rate from run to run.
pub struct LoopDevice {
    /// Its path, such as `/dev/loop0`.
    pub path: PathBuf,
    _janitor: Janitor,
}

impl LoopDevice {
    /// Makes it.
    ///
    /// # Errors
    /// In words, when it cannot be made: no root, no /dev/shm, no loop devices.
    pub fn new() -> Result<Self, String> {
        let backing = format!("{IN_MEMORY}-{}", std::process::id());
        let fail = |error: std::io::Error| format!("{UNBOUND_WORK}: {error}");
        let before = fs::read_to_string(UNBOUND_WORK).map_err(fail)?;
        let before = before.trim();
        let without = without_cpu_0(before)
            .ok_or_else(|| format!("{UNBOUND_WORK}: '{before}' leaves no CPU but 0"))?;
        let janitor = Janitor::new(format!(
            "echo {before} >{UNBOUND_WORK} && losetup --associated {backing} --noheadings --output NAME | \
             xargs --no-run-if-empty losetup --detach && rm -f {backing}"
        ))?;
        lay_out(Path::new(&backing), LOOP_BYTES)?;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on", &backing]);
        let path = PathBuf::from(workspace::output_of(&mut losetup)?.trim());
        fs::write(UNBOUND_WORK, without).map_err(fail)?;
        Ok(Self { path, _janitor: janitor })
    }

    /// `MAJOR:MINOR`, as sysfs has it.
    ///
    /// # Errors
    /// When sysfs does not know the device.
    pub fn number(&self) -> Result<(u32, u32), String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let path = format!("/sys/block/{name}/dev");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let parts = text.trim().split_once(':');
        parts
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| format!("{path}: '{text}' is no device number"))
    }
}

/// Many loop devices over one small file in memory, for those who look at many.
pub struct LoopDevices {
    /// Their paths.
    pub paths: Vec<PathBuf>,
    _janitor: Janitor,
}

/// Size of each.
const SMALL_LOOP_BYTES: u64 = 1 << 20;

impl LoopDevices {
    /// Makes so many.
    ///
    /// # Errors
    /// As those of [`LoopDevice::new`].
    pub fn new(count: usize) -> Result<Self, String> {
        let backing = format!("{IN_MEMORY}-{}-many", std::process::id());
        let janitor = Janitor::new(format!(
            "losetup --associated {backing} --noheadings --output NAME | xargs --no-run-if-empty losetup --detach && rm -f {backing}"
        ))?;
        lay_out(Path::new(&backing), SMALL_LOOP_BYTES)?;
        let one = |_| {
            let mut losetup = Command::new("losetup");
            losetup.args(["--find", "--show", "--read-only", &backing]);
            Ok(PathBuf::from(workspace::output_of(&mut losetup)?.trim()))
        };
        let paths = (0..count).map(one).collect::<Result<_, String>>()?;
        Ok(Self { paths, _janitor: janitor })
    }
}

/// A CPU mask in hexadecimal groups without its lowest bit; none when nothing is left.
fn without_cpu_0(mask: &str) -> Option<String> {
    let (rest, last) = mask.rsplit_once(',').map_or(("", mask), |(rest, last)| (rest, last));
    let last = u32::from_str_radix(last, 16).ok()? & !1;
    let is_empty = last == 0 && rest.chars().all(|c| c == '0' || c == ',');
    let comma = if rest.is_empty() { "" } else { "," };
    (!is_empty).then(|| format!("{rest}{comma}{last:x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_janitor_works_when_its_owner_goes() {
        let place = std::env::temp_dir().join(format!("fathom-janitor-{}", std::process::id()));
        let janitor = Janitor::new(format!("touch {}", place.display())).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!place.exists());
        drop(janitor);
        fs::remove_file(place).unwrap();
    }

    #[test]
    fn a_tree_has_what_its_levels_say_and_goes_with_its_owner() {
        let place = std::env::temp_dir().join(format!("fathom-grown-{}", std::process::id()));
        let janitor = Janitor::new(format!("rm -rf '{}'", place.display())).unwrap();
        grow(&place, 1).unwrap();
        let inside = |path: &Path| fs::read_dir(path).unwrap().count();
        assert_eq!((inside(&place), inside(&place.join("d0000002"))), (14, 11));
        assert_eq!(fs::metadata(place.join("d0000002/f0000010")).unwrap().len(), 4096);
        drop(janitor);
        assert!(!place.exists());
    }

    #[test]
    fn masks_lose_cpu_0_only() {
        assert_eq!(without_cpu_0("3").as_deref(), Some("2"));
        assert_eq!(without_cpu_0("ffffffff").as_deref(), Some("fffffffe"));
        assert_eq!(without_cpu_0("ff,ffffffff").as_deref(), Some("ff,fffffffe"));
        assert_eq!(without_cpu_0("1,00000001").as_deref(), Some("1,0"));
        assert_eq!(without_cpu_0("1"), None);
        assert_eq!(without_cpu_0("0,00000001"), None);
        assert_eq!(without_cpu_0("x"), None);
    }
}
