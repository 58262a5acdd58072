//! A block device in compressed RAM, removed when dropped.

use crate::command::{KitError, at, run_tool};
use crate::leftovers;
use crate::scratch::Scratch;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/sys/class/zram-control";
const NOTE_PREFIX: &str = "zram-";

/// A zram device of its own: those that the machine already has are never used.
#[derive(Debug)]
pub struct Zram {
    number: u32,
    path: PathBuf,
    // Holds the note that names the device, so that it is found when this process is killed.
    scratch: Scratch,
}

impl Zram {
    /// Adds a device of that size, in bytes.
    ///
    /// # Errors
    /// Without root, without the module, or when the kernel refuses.
    pub fn new(size_bytes: u64) -> Result<Self, KitError> {
        let scratch = Scratch::new()?;
        let hot_add = Path::new(CONTROL).join("hot_add");
        let text = fs::read_to_string(&hot_add).map_err(at(&hot_add))?;
        let number: u32 = text.trim().parse().map_err(|_| {
            KitError::Other(format!("{}: '{text}' is no number", hot_add.display()))
        })?;
        let note = scratch.join(format!("{NOTE_PREFIX}{number}"));
        fs::write(&note, "").map_err(at(&note))?;
        let path = PathBuf::from(format!("/dev/zram{number}"));
        let mut zram = Self { number, path, scratch };
        let disksize = sysfs(number).join("disksize");
        fs::write(&disksize, size_bytes.to_string()).map_err(at(&disksize))?;
        if !zram.path.exists() {
            zram.path = zram.make_node()?;
        }
        Ok(zram)
    }

    /// The device node: `/dev/zramN`, or one in a scratch directory where `/dev` is not kept by the kernel.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's name, `zramN`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("zram{}", self.number)
    }

    fn make_node(&self) -> Result<PathBuf, KitError> {
        let file = format!("sys/block/zram{}/dev", self.number);
        let devno = SysRoot::live().text(&file).unwrap_or_default();
        let (major, minor) = devno.split_once(':').unwrap_or_default();
        let node = self.scratch.join(self.name());
        let args = [node.as_os_str(), "b".as_ref(), major.as_ref(), minor.as_ref()];
        run_tool("mknod", args)?;
        Ok(node)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        leftovers::release_device(&self.path);
        if let Err(error) = remove_device(self.number) {
            eprintln!("test kit: {error}");
        }
    }
}

/// The numbers of the devices that a scratch directory notes and that still exist.
pub(crate) fn noted_in(dir: &Path) -> Vec<u32> {
    let number = |name: String| name.strip_prefix(NOTE_PREFIX)?.parse().ok();
    let exists = |number: &u32| sysfs(*number).exists();
    SysRoot::live().names(dir).into_iter().filter_map(number).filter(exists).collect()
}

fn sysfs(number: u32) -> PathBuf {
    PathBuf::from(format!("/sys/block/zram{number}"))
}

/// Resets and removes a device; one that is gone already is fine.
pub(crate) fn remove_device(number: u32) -> Result<(), KitError> {
    if !sysfs(number).exists() {
        return Ok(());
    }
    let reset = sysfs(number).join("reset");
    // Whoever had it open may take a moment to let go: the kernel closes files of a dead process some time later.
    const TRIES: u32 = 300;
    let mut written = fs::write(&reset, "1");
    for _ in 1..TRIES {
        if !written.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ResourceBusy) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        written = fs::write(&reset, "1");
    }
    written.map_err(at(&reset))?;
    let hot_remove = Path::new(CONTROL).join("hot_remove");
    fs::write(&hot_remove, number.to_string()).map_err(at(&hot_remove))
}
