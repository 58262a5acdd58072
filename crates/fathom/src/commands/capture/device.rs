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
    /// The very device.
    pub identity: Identity,
}

/// A device as it was when it was found. Its number and its name may be another's later.
pub struct Identity {
    root: SysRoot,
    devno: DevNo,
    /// Its directory, held open: that of another device is another one.
    own: BlockDir,
    /// That of the disk.
    disk: BlockDir,
    /// Number of the disk, or what is in it, among all that this boot has seen; none on kernels before 5.15.
    sequence: Option<u64>,
    size_bytes: u64,
}

/// What became of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    /// It is there.
    Same,
    /// It is not, nor anything else of its number.
    Gone,
    /// Something else has its number.
    Other,
}

impl Identity {
    fn of(root: &SysRoot, devno: DevNo, own: &BlockDir, disk: &BlockDir) -> Self {
        let (own, disk) = (own.held(), disk.held());
        let sequence = disk.value("diskseq");
        let size_bytes = own.size_bytes().unwrap_or(0);
        Self { root: root.clone(), devno, own, disk, sequence, size_bytes }
    }

    /// Whether what is in it may change while it stays: a file below a loop device, a medium in a drive.
    fn is_filled_anew(&self) -> bool {
        self.disk.has("loop") || self.disk.flag("removable") == Some(true)
    }

    /// The size that it has now, when that is another one than it was.
    pub fn other_size(&self) -> Option<u64> {
        self.own.size_bytes().filter(|bytes| *bytes > 0 && *bytes != self.size_bytes)
    }

    /// What it is now.
    pub fn now(&self) -> Now {
        match self.own.size_bytes() {
            // A loop device that lost its file.
            Some(0) if self.size_bytes > 0 => Now::Gone,
            Some(bytes) => match self.sequence {
                Some(before) if self.disk.value("diskseq") == Some(before) => Now::Same,
                // It may grow. Where nothing else tells, another size is another file or medium.
                None if bytes == self.size_bytes || !self.is_filled_anew() => Now::Same,
                _ => Now::Other,
            },
            None => {
                let next = BlockDir::by_devno(&self.root, self.devno);
                let is_there = next.is_some_and(|next| next.size_bytes() != Some(0));
                if is_there { Now::Other } else { Now::Gone }
            }
        }
    }
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
        identity: Identity::of(root, own, &dir, &disk),
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

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;
    use std::fs;

    #[test]
    fn what_has_the_number_of_a_device_later_is_another_one() {
        let tree = Tree::new();
        let put = |sequence: &str, size: &str| {
            tree.device("v/block/loop1", "7:1", &[("diskseq", sequence), ("size", size)]);
        };
        put("5", "2048");
        let root = tree.root();
        let dir = BlockDir::by_name(&root, "loop1").unwrap();
        let identity = Identity::of(&root, dir.devno().unwrap(), &dir, &dir);
        let then = |sequence: &str, size: &str| {
            put(sequence, size);
            identity.now()
        };
        assert_eq!(identity.now(), Now::Same);
        assert_eq!(then("5", "4096"), Now::Same, "it has grown");
        assert_eq!(then("6", "0"), Now::Gone);
        assert_eq!(then("7", "2048"), Now::Other);
        assert_eq!(then("5", "2048"), Now::Same);
        // Taken away, and another one of its number put there.
        let own = root.path("sys/devices/v/block/loop1");
        fs::rename(&own, root.path("sys/devices/v/block/away")).unwrap();
        ["dev", "size", "diskseq"].iter().for_each(|name| {
            fs::remove_file(root.path("sys/devices/v/block/away").join(name)).unwrap();
        });
        assert_eq!(identity.now(), Now::Gone);
        put("5", "2048");
        assert_eq!(identity.now(), Now::Other);
    }

    /// Kernels before 5.15 number nothing.
    #[test]
    fn what_grows_is_the_same_unless_it_may_be_filled_anew() {
        let tree = Tree::new();
        for (name, number, more, then) in [
            ("sda", "8:0", None, Now::Same),
            ("sdb", "8:16", Some(("removable", "0\n")), Now::Same),
            ("sdc", "8:32", Some(("removable", "1\n")), Now::Other),
            ("loop1", "7:1", Some(("loop/backing_file", "/img\n")), Now::Other),
        ] {
            let size = |size| {
                let values = [("size", size)].into_iter().chain(more).collect::<Vec<_>>();
                tree.device(&format!("v/block/{name}"), number, &values);
            };
            size("2048");
            let root = tree.root();
            let dir = BlockDir::by_name(&root, name).unwrap();
            let identity = Identity::of(&root, dir.devno().unwrap(), &dir, &dir);
            assert_eq!(identity.now(), Now::Same, "{name}");
            size("4096");
            assert_eq!(identity.now(), then, "{name}");
            size("0");
            assert_eq!(identity.now(), Now::Gone, "{name}");
        }
    }
}
