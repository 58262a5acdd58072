//! Which device the word of the command line means.

use fathom_observe::trace::live::Watched;
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A device that can be captured.
pub struct Device {
    /// Kernel name.
    pub name: String,
    /// Size in bytes; 0 when it does not say.
    pub size_bytes: u64,
    /// Logical block.
    pub logical_block_bytes: u32,
    /// What of the tracepoints is its own.
    pub watched: Watched,
    /// The number of the device itself.
    pub devno: DevNo,
}

/// `sda`, `/dev/sda1`, or any path on it.
pub fn find(root: &SysRoot, word: &str) -> Result<Device, String> {
    let path = Path::new(word);
    let is_name = !word.contains('/') && !path.exists();
    let dir = match BlockDir::by_name(root, word).filter(|_| is_name) {
        Some(dir) => dir,
        None => below(root, word, path)?,
    };
    let unknown = || format!("{word}: the kernel tells no device number of {}", dir.name());
    let own = dir.devno().ok_or_else(unknown)?;
    let disk = dir.disk().unwrap_or_else(|| dir.clone());
    let device = disk.devno().ok_or_else(unknown)?;
    let part = if dir.is_partition() {
        let start = dir.value::<u64>("start").ok_or_else(unknown)?;
        Some((start, dir.size_bytes().unwrap_or(0) / 512))
    } else {
        None
    };
    Ok(Device {
        name: dir.name().to_owned(),
        size_bytes: dir.size_bytes().unwrap_or(0),
        logical_block_bytes: disk.value("queue/logical_block_size").unwrap_or(512),
        watched: Watched { device, part },
        devno: own,
    })
}

fn below(root: &SysRoot, word: &str, path: &Path) -> Result<BlockDir, String> {
    let meta = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{word}: there is no such device or path; lsblk lists devices")
        }
        _ => format!("{word}: {error}"),
    })?;
    let is_device = meta.file_type().is_block_device();
    let number = DevNo::from_raw(if is_device { meta.rdev() } else { meta.dev() });
    BlockDir::by_devno(root, number).ok_or_else(|| match fathom_inspect::resolve(root, path) {
        Ok(stack) if !stack.top_block_devices().is_empty() => {
            let names: Vec<String> =
                stack.top_block_devices().iter().map(|node| node.name.clone()).collect();
            format!("{word}: lies on {}; name one of them", names.join(", "))
        }
        _ => format!("{word}: there is no block device below it that could be captured"),
    })
}
