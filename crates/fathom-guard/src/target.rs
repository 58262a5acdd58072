//! From what the user typed to one block device.

use crate::refusal::Refusal;
use fathom_base::suggest;
use fathom_base::units::format_size;
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A block device that exists, by its resolved path and its number.
#[derive(Debug, Clone)]
pub struct Target {
    /// Path without symbolic links.
    pub path: PathBuf,
    /// Its number.
    pub devno: DevNo,
    /// Its directory in sysfs.
    pub device: BlockDir,
}

impl Target {
    /// Follows symbolic links and makes sure that a block device lies there. Creates nothing.
    ///
    /// # Errors
    /// [`Refusal::Missing`], [`Refusal::NotBlockDevice`], [`Refusal::CannotOpen`], [`Refusal::CannotCheck`].
    pub fn resolve(root: &SysRoot, path: &Path) -> Result<Self, Refusal> {
        let resolved =
            std::fs::canonicalize(path).map_err(|error| not_there(root, path, &error))?;
        let meta = std::fs::metadata(&resolved).map_err(|error| not_there(root, path, &error))?;
        if !meta.file_type().is_block_device() {
            return Err(Refusal::NotBlockDevice { path: path.to_owned(), what: kind(&meta) });
        }
        let devno = DevNo::from_raw(meta.rdev());
        let Some(device) = BlockDir::by_devno(root, devno) else {
            let what = format!("the kernel has no block device {devno} in /sys/dev/block");
            return Err(Refusal::CannotCheck { device: resolved, what });
        };
        Ok(Self { path: resolved, devno, device })
    }

    /// Size and model, for a person who must recognise the device.
    #[must_use]
    pub fn description(&self) -> String {
        let size = format_size(self.device.size_bytes().unwrap_or(0));
        let disk = self.device.disk();
        let word = |name: &str| disk.as_ref().and_then(|disk| disk.text(name));
        let model: Vec<String> =
            ["device/vendor", "device/model"].iter().filter_map(|name| word(name)).collect();
        let of_disk = match &disk {
            Some(disk) if self.device.is_partition() => {
                format!(", partition of {}", disk.dev_path())
            }
            _ => String::new(),
        };
        let model = if model.is_empty() { String::new() } else { format!(", {}", model.join(" ")) };
        format!("{size}{model}{of_disk}")
    }
}

fn not_there(root: &SysRoot, path: &Path, error: &std::io::Error) -> Refusal {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Refusal::CannotOpen { device: path.to_owned(), error: error.to_string(), cure: "" };
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = root.names("sys/class/block");
    let hint = match path.parent() {
        Some(parent) if parent == Path::new("/dev") => {
            suggest::hint(&name, known.iter().map(String::as_str))
        }
        _ => String::new(),
    };
    Refusal::Missing { path: path.to_owned(), hint }
}

fn kind(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    if kind.is_file() {
        "a regular file"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a pipe or socket"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_is_named() {
        let root = SysRoot::live();
        let refusal = |path: &str| Target::resolve(&root, Path::new(path)).unwrap_err();
        for (path, what) in [
            ("/", "a directory"),
            ("/proc/self/exe", "a regular file"),
            ("/dev/null", "a character device"),
        ] {
            let expected = Refusal::NotBlockDevice { path: path.into(), what };
            assert_eq!(refusal(path), expected);
            assert!(refusal(path).is_usage());
        }
    }

    #[test]
    fn a_mistyped_device_is_missing_and_stays_so() {
        let path = Path::new("/dev/lopo0");
        let refusal = Target::resolve(&SysRoot::live(), path).unwrap_err();
        assert!(matches!(&refusal, Refusal::Missing { .. }), "{refusal}");
        assert!(!path.exists());
    }
}
