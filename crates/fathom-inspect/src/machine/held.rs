//! What seems to be idle and is not: what processes have open, and filesystems that the kernel holds without any mount.
//!
//! A mount that is taken away with `umount --lazy`, or whose `umount` still writes, is in no list of mounts any more, and its superblock
//! looks as after a crash until the kernel is done. So does one that is mounted between the look at mounts and that at superblocks.

use super::Look;
use super::budget::Allowances;
use crate::content;
use fathom_model::stack::{Node, NodeKind};
use fathom_sys::devno::DevNo;
use fathom_sys::mounts;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{dm, openers};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the last steps of a mount or an unmount take, of which nothing shows; what takes longer shows in `/sys/fs`.
const SETTLES_WITHIN: Duration = Duration::from_millis(200);

impl Look<'_> {
    /// Who has what open that seems to be idle: the disks of virtual machines.
    pub(super) fn held(&mut self) {
        let has_filesystem = |node: &Node| {
            node.details().content.as_ref().is_some_and(|content| content.filesystem.is_some())
        };
        let below = self.below();
        let is_asked = |&&(index, _): &&(usize, BlockDir)| {
            let node = &self.nodes[index];
            let transport = node.drive.as_ref().and_then(|drive| drive.transport.as_deref());
            !below.contains(&index) && (has_filesystem(node) || transport == Some("nvme"))
        };
        let asked: Vec<_> = self.devices.iter().filter(is_asked).collect();
        if asked.is_empty() {
            return;
        }
        let (open, blind) = (openers::open_devices(self.root), openers::blindness(self.root));
        for (index, device) in asked {
            let Some(devno) = device.devno() else { continue };
            let node = &self.nodes[*index];
            let count = node.dm.as_ref().and_then(|_| dm::open_count(devno).ok());
            // Whoever has all of a disk open may use every part of it.
            let disk = node.below.first().filter(|_| node.kind == NodeKind::Partition);
            let disk = disk.and_then(|&disk| self.nodes[disk].devno.as_deref()?.parse().ok());
            let is_open = count.is_some_and(|count| count > 0)
                || open.contains(&devno)
                || disk.is_some_and(|disk| open.contains(&disk))
                || node.mounted_at.is_empty() && has_driver(self.root, device, node);
            let is_sure = is_open || count.is_some() || blind.is_none();
            self.nodes[*index].detail.get_or_insert_default().opened = is_sure.then_some(is_open);
        }
    }

    fn below(&self) -> BTreeSet<usize> {
        self.nodes.iter().flat_map(|node| node.below.iter().copied()).collect()
    }

    /// Looks again at filesystems that are not mounted and were not put away, as far as that may be read.
    pub(super) fn unsettled(&mut self, allowances: &mut Allowances) {
        let below = self.below();
        let looks_left = |&&(index, _): &&(usize, BlockDir)| {
            let node = &self.nodes[index];
            let is_free = !below.contains(&index) && node.mounted_at.is_empty();
            is_free && node.details().opened != Some(true) && state(node).is_some()
        };
        let unsettled: Vec<(usize, BlockDir)> =
            self.devices.iter().filter(looks_left).cloned().collect();
        if unsettled.is_empty() {
            return;
        }
        std::thread::sleep(SETTLES_WITHIN);
        let mounted: BTreeSet<DevNo> =
            mounts::all_mounts(self.root).into_iter().map(|(_, mount)| mount.devno).collect();
        for (index, device) in unsettled {
            let is_held = device.devno().is_some_and(|devno| mounted.contains(&devno))
                || has_driver(self.root, &device, &self.nodes[index]);
            if is_held {
                self.nodes[index].detail.get_or_insert_default().opened = Some(true);
                continue;
            }
            let Some(allowance) = allowances.again(&self.nodes, index) else { continue };
            let look = content::read(self.root, &device, allowance);
            self.nodes[index].detail.get_or_insert_default().content = look.content;
        }
    }
}

/// What the superblock says where the filesystem was not put away.
fn state(node: &Node) -> Option<&str> {
    node.details().content.as_ref()?.filesystem.as_ref()?.state.as_deref()
}

/// True while a filesystem's driver has the device, with a mount or without. The journal of ext4 is written back after the filesystem
/// has left `/sys/fs`, and before its superblock says that it was put away.
fn has_driver(root: &SysRoot, device: &BlockDir, node: &Node) -> bool {
    let by_name = |kind: &str| root.exists(format!("sys/fs/{kind}/{}", device.name()));
    let filesystem =
        node.details().content.as_ref().and_then(|content| content.filesystem.as_ref());
    let by_uuid = || {
        let uuid = filesystem?.uuid.as_deref()?;
        Some(root.exists(format!("sys/fs/btrfs/{uuid}/devices/{}", device.name())))
    };
    let has_journal = || {
        let journals = root.names("proc/fs/jbd2").into_iter();
        let mut inodes = journals.filter_map(|name| {
            name.strip_prefix(device.name())?.strip_prefix('-')?.parse::<u64>().ok()
        });
        inodes.next().is_some()
    };
    ["ext4", "xfs", "f2fs"].into_iter().any(by_name) || by_uuid().unwrap_or(false) || has_journal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::detail::{Content, FsSuperblock};

    /// The kernel shows its filesystems by the device (ext4, XFS, f2fs), by their UUID (btrfs), or by their journal.
    #[test]
    fn a_driver_shows_by_name_or_uuid() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("sys/devices/sda");
        std::fs::create_dir_all(&disk).unwrap();
        let class = dir.path().join("sys/class/block");
        std::fs::create_dir_all(&class).unwrap();
        std::os::unix::fs::symlink("../../devices/sda", class.join("sda")).unwrap();
        let root = SysRoot::at(dir.path());
        let device = BlockDir::by_name(&root, "sda").unwrap();
        let mut node = Node::new(NodeKind::Disk, "sda");
        let filesystem = FsSuperblock { uuid: Some("a-b".into()), ..FsSuperblock::default() };
        node.detail.get_or_insert_default().content =
            Some(Content { filesystem: Some(filesystem), ..Content::default() });
        assert!(!has_driver(&root, &device, &node));
        for (place, is_held) in [
            ("sys/fs/ext4/sda", true),
            ("sys/fs/xfs/sda", true),
            ("sys/fs/f2fs/sda", true),
            ("sys/fs/btrfs/a-b/devices/sda", true),
            ("sys/fs/ext4/sda1", false),
            ("proc/fs/jbd2/sda-8", true),
            ("proc/fs/jbd2/sda1-8", false),
            ("proc/fs/jbd2/sda", false),
        ] {
            let place = dir.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            assert_eq!(has_driver(&root, &device, &node), is_held, "{}", place.display());
            std::fs::remove_dir_all(&place).unwrap();
        }
    }
}
