//! Filesystems and mounts.

mod btrfs;
mod loops;
mod options;
mod space;
mod state;
#[cfg(test)]
mod tests;
mod trim;
#[cfg(test)]
mod trim_tests;
mod twins;
#[cfg(test)]
mod twins_tests;

pub(super) use btrfs::{has_copies, lacks_device};

use crate::elsewhere::is_elsewhere;
use crate::rule;
use crate::rule::Rule;
use crate::scene::Scene;
use fathom_model::stack::{FsFacts, MountFacts, Node, NodeKind};

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("filesystem-errors", "a filesystem has counted errors", High, Guest, state::errors),
    rule!(
        "remounted-read-only",
        "a filesystem has turned read-only",
        High,
        Guest,
        state::turned_read_only
    ),
    rule!("btrfs-degraded", "btrfs runs without a device", High, Host, btrfs::degraded),
    rule!("btrfs-incomplete", "a btrfs lacks devices", High, Host, btrfs::incomplete),
    rule!("btrfs-copies-one-disk", "both copies lie on one drive", High, Host, btrfs::one_disk),
    rule!("filesystem-unclean", "a filesystem was not put away", Low, Guest, state::unclean),
    rule!(
        "filesystem-check-due",
        "the next boot checks a filesystem",
        Low,
        Guest,
        state::check_due
    ),
    rule!(
        "ext4-lazy-init",
        "a new filesystem still prepares itself",
        Medium,
        Guest,
        state::lazy_init
    ),
    rule!(
        "barriers-off",
        "writes are not flushed through a volatile cache",
        High,
        Guest,
        options::barriers_off
    ),
    rule!(
        "journal-same-spindle",
        "the journal's own disk is the data's disk",
        Medium,
        Guest,
        options::journal_same_spindle
    ),
    rule!("ext4-no-journal", "a crash needs a check of all of it", Low, Host, options::no_journal),
    rule!("mount-data-journal", "all data is written twice", Low, Guest, options::data_journal),
    rule!(
        "mount-data-writeback",
        "a crash may leave old blocks in new files",
        Low,
        Guest,
        options::data_writeback
    ),
    rule!("mount-sync", "every write waits for the disk", Medium, Guest, options::sync),
    rule!(
        "mount-commit-late",
        "a crash takes minutes of work with it",
        Low,
        Host,
        options::commit_late
    ),
    rule!("mount-strictatime", "every read writes", Low, Guest, options::strict_atime),
    rule!(
        "discard-online",
        "deletions send discards between other I/O",
        Medium,
        Guest,
        trim::online
    ),
    rule!("trim-never", "nobody tells flash what is free", Medium, Guest, trim::never),
    rule!("trim-lost", "a layer does not pass discards on", Low, Guest, trim::lost),
    rule!("filesystem-full", "a filesystem is nearly full", High, Guest, space::full),
    rule!("inodes-low", "a filesystem has few inodes left", High, Guest, space::inodes),
    rule!(
        "btrfs-unallocated",
        "btrfs has no unallocated space left",
        Medium,
        Host,
        space::unallocated
    ),
    rule!("free-space-scattered", "free space lies in small pieces", Low, Host, space::scattered),
    rule!("filesystem-twins", "two devices say the same", High, Host, twins::twins),
    rule!("loop-buffered", "a loop device caches everything twice", Low, Guest, loops::buffered),
    rule!("loop-file-deleted", "the file behind a loop device is gone", High, Host, loops::deleted),
    rule!("loop-sparse", "a loop device lies in a file with holes", Low, Guest, loops::sparse),
];

/// A filesystem and where it is mounted.
struct Mounted<'a> {
    index: usize,
    node: &'a Node,
    fs: &'a FsFacts,
    mount: &'a MountFacts,
    /// Key of the mount.
    key: String,
}

/// Every filesystem on block devices that is mounted, each once: by a mount of this namespace, and of its top directory, where there
/// is one.
fn mounted<'a>(scene: &Scene<'a>) -> Vec<Mounted<'a>> {
    mounted_of(scene, &[NodeKind::FileSystem])
}

/// The same for other kinds: filesystems in memory are full some day, too.
fn mounted_of<'a>(scene: &Scene<'a>, kinds: &'static [NodeKind]) -> Vec<Mounted<'a>> {
    let filesystems = scene.nodes(kinds);
    filesystems
        .filter_map(|(index, node)| {
            let mounts =
                scene.above(index).filter_map(|(_, above)| Some((above, above.mount.as_ref()?)));
            let (above, mount) = mounts.min_by_key(|(node, mount)| {
                (is_elsewhere(node), mount.root != "/", mount.mount_point.len())
            })?;
            Some(Mounted { index, node, fs: node.fs.as_ref()?, mount, key: above.key() })
        })
        .collect()
}

impl Mounted<'_> {
    /// The filesystem takes writes.
    fn is_writable(&self) -> bool {
        let is_read_only = |options: &[String]| options.iter().any(|option| option == "ro");
        !is_read_only(&self.mount.options) && !is_read_only(&self.mount.super_options)
    }

    /// Where the options of the mount can be read.
    fn options_file(&self) -> String {
        format!("/proc/self/mountinfo: {}", self.mount.mount_point)
    }
}
