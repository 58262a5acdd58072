//! The first files of a QEMU guest: busybox, the modules that reach the host's directories, and a script, as an archive
//! for the kernel.

use crate::command::{KitError, at, find_tool};
use std::fs;
use std::path::Path;

/// What the kernel starts; the variable that it needs is put before it.
const SCRIPT: &str = include_str!("initramfs.sh");
/// What it takes to mount the host's directories; the rest is loaded from there.
const MODULES: &[&str] = &["virtio_pci", "9pnet_virtio", "9p", "overlay"];
/// Types of files, as in `st_mode`.
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// The archive for a kernel with its modules in `modules` (`/lib/modules/VERSION`); `init` is the program on the host
/// that becomes process 1 in the end.
///
/// # Errors
/// When busybox or a module is missing or cannot be read.
pub fn build(modules: &Path, init: &str) -> Result<Vec<u8>, KitError> {
    let read = |path: &Path| fs::read(path).map_err(at(path));
    let mut archive = Archive::default();
    for directory in ["bin", "modules", "root"] {
        archive.add(directory, DIRECTORY | 0o755, &[]);
    }
    let busybox = find_tool("busybox").ok_or_else(|| KitError::Other("no busybox".to_owned()))?;
    archive.add("bin/busybox", REGULAR | 0o755, &read(&busybox)?);
    let dependencies = modules.join("modules.dep");
    let text = fs::read_to_string(&dependencies).map_err(at(&dependencies))?;
    let mut list = String::new();
    for path in load_order(&text, MODULES)? {
        let name = path.rsplit('/').next().unwrap_or(path);
        archive.add(&format!("modules/{name}"), REGULAR | 0o644, &read(&modules.join(path))?);
        list.push_str(name);
        list.push('\n');
    }
    archive.add("modules/list", REGULAR | 0o644, list.as_bytes());
    let script = format!("#!/bin/busybox sh\nINIT={init}\n{SCRIPT}");
    archive.add("init", REGULAR | 0o755, script.as_bytes());
    Ok(archive.finish())
}

/// The files of the modules and of all that they depend on, each after those that it needs. The text is `modules.dep`:
/// a line has a module and what it depends on, to be loaded from the last to the first.
fn load_order<'a>(dependencies: &'a str, wanted: &[&str]) -> Result<Vec<&'a str>, KitError> {
    let mut order: Vec<&str> = Vec::new();
    for name in wanted {
        let is_it = |path: &str| path.rsplit('/').next() == Some(&format!("{name}.ko"));
        let mut lines = dependencies.lines().filter_map(|line| line.split_once(':'));
        let Some((path, needed)) = lines.find(|(path, _)| is_it(path)) else {
            return Err(KitError::Other(format!("the guest's kernel has no module {name}")));
        };
        for path in needed.split_whitespace().rev().chain([path]) {
            if !order.contains(&path) {
                order.push(path);
            }
        }
    }
    Ok(order)
}

/// An archive in the format `newc` of cpio, the only one that kernels unpack: `man 5 cpio`, and the kernel's
/// `driver-api/early-userspace/buffer-format.rst`.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        // Inode, mode, owner, group, links, time, size, four device numbers, length of the name with its zero, sum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size(content.len()),
            0,
            0,
            0,
            0,
            size(name.len() + 1),
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need() {
        let text =
            "kernel/a.ko:\nkernel/x/b.ko: kernel/a.ko\nkernel/c.ko: kernel/x/b.ko kernel/a.ko\n";
        let order = load_order(text, &["c", "a"]).unwrap();
        assert_eq!(order, ["kernel/a.ko", "kernel/x/b.ko", "kernel/c.ko"]);
        let error = load_order(text, &["d"]).unwrap_err().to_string();
        assert_eq!(error, "the guest's kernel has no module d");
    }

    /// What `printf 12345 | cpio -o -H newc` writes, with the inode, time and devices as here.
    #[test]
    fn the_archive_has_the_documented_form() {
        let mut archive = Archive::default();
        archive.add("odd", REGULAR | 0o755, b"12345");
        let bytes = archive.finish();
        let header = "070701\
            00000001000081ed000000000000000000000001\
            000000000000000500000000000000000000000000000000\
            0000000400000000";
        let first = [header.as_bytes(), b"odd\0\0\0", b"12345\0\0\0"].concat();
        assert_eq!(String::from_utf8_lossy(&bytes[..first.len()]), String::from_utf8_lossy(&first));
        assert!(bytes[first.len()..].starts_with(b"070701") && bytes.len() % 4 == 0);
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }
}
