//! The names of block devices under `/dev/disk`.

use crate::parallel;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::OnceLock;

/// All links under `/dev/disk/by-*`, read once, when the first is asked for.
#[derive(Debug)]
pub struct Links {
    root: SysRoot,
    by_device: OnceLock<BTreeMap<String, Vec<String>>>,
}

impl Links {
    /// The links of this machine.
    #[must_use]
    pub fn new(root: &SysRoot) -> Self {
        Self { root: root.clone(), by_device: OnceLock::new() }
    }

    /// The links that lead to the device with this kernel name, sorted: `by-id/wwn-0x5000...`, `by-uuid/...`.
    #[must_use]
    pub fn of(&self, device: &str) -> &[String] {
        let by_device = self.by_device.get_or_init(|| read(&self.root));
        by_device.get(device).map(Vec::as_slice).unwrap_or_default()
    }
}

fn read(root: &SysRoot) -> BTreeMap<String, Vec<String>> {
    let base = Path::new("dev/disk");
    let mut by_device: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in root.names(base).into_iter().filter(|name| name.starts_with("by-")) {
        let names = root.names(base.join(&kind));
        // All who want links wait for these.
        let targets = parallel::map(&names, parallel::processors(), |name| {
            root.link(base.join(&kind).join(name))
        });
        for (name, target) in names.into_iter().zip(targets) {
            if let Some(device) = target.and_then(|target| kernel_name(&target)) {
                by_device.entry(device).or_default().push(format!("{kind}/{name}"));
            }
        }
    }
    by_device
}

/// The kernel's name of the device that a link leads to: below `/dev`, with `!` for every slash.
fn kernel_name(target: &Path) -> Option<String> {
    let inside = target.strip_prefix("/dev").unwrap_or(target);
    let parts = inside.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy()),
        _ => None,
    });
    Some(parts.collect::<Vec<_>>().join("!")).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_found_by_the_device_that_they_lead_to() {
        let dir = tempfile::tempdir().unwrap();
        let link = |path: &str, target: &str| {
            let path = dir.path().join("dev/disk").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        };
        link("by-uuid/0b1c", "../../sda1");
        link("by-id/wwn-0x5000-part1", "/dev/sda1");
        link("by-path/pci-0000:05:00.0", "../../cciss/c0d0");
        link("other/name", "../../sda1");
        let links = Links::new(&SysRoot::at(dir.path()));
        assert_eq!(links.of("sda1"), ["by-id/wwn-0x5000-part1", "by-uuid/0b1c"]);
        assert_eq!(links.of("cciss!c0d0"), ["by-path/pci-0000:05:00.0"]);
        assert!(links.of("sda").is_empty());
    }
}
