//! Facts of mounts and filesystems, and which devices a filesystem lies on.

use crate::links::Links;
use crate::paths;
use crate::stack::nearest_existing;
use crate::system::config::fstab::without_secret;
use crate::udev;
use fathom_model::stack::{FsFacts, MountFacts};
use fathom_sys::blkdev;
use fathom_sys::devno::DevNo;
use fathom_sys::fsinfo;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::cell::LazyCell;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a filesystem keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// On block devices.
    Device,
    /// In memory.
    Memory,
    /// On another machine, or in another process.
    Remote,
    /// In directories of other filesystems.
    Overlay,
    /// Nowhere: the kernel makes it up (`/proc`, `/sys`).
    Kernel,
}

const MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
const KERNEL: [&str; 17] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "efivarfs",
    "configfs",
    "fusectl",
    "mqueue",
    "autofs",
    "binfmt_misc",
    "rpc_pipefs",
];

/// Where the filesystem of a mount keeps its data.
#[must_use]
pub fn family(mount: &Mount) -> Family {
    family_of(&mount.fs_type)
}

fn family_of(kind: &str) -> Family {
    if MEMORY.contains(&kind) {
        Family::Memory
    } else if mounts::is_remote(kind) {
        Family::Remote
    } else if kind == "overlay" {
        Family::Overlay
    } else if KERNEL.contains(&kind) {
        Family::Kernel
    } else {
        Family::Device
    }
}

/// The mount as mountinfo tells it.
#[must_use]
pub fn mount_facts(mount: &Mount) -> MountFacts {
    // Nobody judges by the user that a share was mounted for.
    let words = |text: &str| {
        let all = text.split(',').filter(|option| !option.is_empty());
        all.map(|option| without_secret(option).to_owned()).collect()
    };
    MountFacts {
        mount_point: mount.mount_point.display().to_string(),
        root: mount.root.display().to_string(),
        fs_type: mount.fs_type.clone(),
        source: mount.source.clone(),
        options: words(&mount.options),
        super_options: words(&mount.super_options),
        effective_options: Vec::new(),
    }
}

/// All options in force of an ext filesystem on the device with this kernel name.
#[must_use]
pub fn effective_options(root: &SysRoot, fs_type: &str, device: &str) -> Option<Vec<String>> {
    let kind = fs_type.starts_with("ext").then_some("ext4")?;
    let text = root.text(format!("proc/fs/{kind}/{device}/options"))?;
    Some(text.lines().map(|line| line.trim().to_owned()).collect())
}

/// Filesystems whose files may have other numbers than their mounts: subvolumes, files of lower layers.
const OWN_NUMBERS: [&str; 3] = ["btrfs", "bcachefs", "overlay"];

/// True when a path that exists lies on the mount. What nobody could reach below it lies elsewhere: the nearest
/// directory above a mount point is on another filesystem.
fn lies_on(mount: &Mount, existing: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(existing) else { return false };
    let same = DevNo::from_raw(MetadataExt::dev(&metadata)) == mount.devno;
    let differs = OWN_NUMBERS.contains(&mount.fs_type.as_str()) || family(mount) == Family::Remote;
    same || (differs && existing.starts_with(&mount.mount_point))
}

/// What can be asked about the mount: the target, or what exists nearest above it; none when that is on another
/// filesystem.
fn place_in(mount: &Mount, target: &Path) -> Option<PathBuf> {
    Some(nearest_existing(target)).filter(|existing| lies_on(mount, existing))
}

/// True when the mount can be asked at this path.
pub(crate) fn is_reached(root: &SysRoot, mount: &Mount, target: &Path) -> bool {
    !root.is_live() || place_in(mount, target).is_some()
}

/// Something open inside the mount that ioctls can be asked about: the target, or what is nearest
/// above it.
fn question_file(root: &SysRoot, mount: &Mount, target: &Path) -> Option<File> {
    if !root.is_live() {
        return None;
    }
    let existing = place_in(mount, target)?;
    let parent = existing.parent().filter(|parent| lies_on(mount, parent));
    let opened = fsinfo::open_for_questions(&existing).ok();
    opened.or_else(|| fsinfo::open_for_questions(parent?).ok())
}

/// Fills in the space and inodes of a filesystem, asked through a target inside of it.
pub(crate) fn add_space(root: &SysRoot, mount: &Mount, target: &Path, facts: &mut FsFacts) {
    let place = root.is_live().then(|| place_in(mount, target)).flatten();
    let Some(Ok(space)) = place.map(|place| fsinfo::space(&place)) else { return };
    facts.block_bytes = Some(space.block_bytes);
    facts.total_bytes = Some(space.total_bytes);
    facts.free_bytes = Some(space.free_bytes);
    facts.available_bytes = Some(space.available_bytes);
    facts.inodes = Some(space.inodes);
    facts.inodes_free = Some(space.inodes_free);
}

/// What every filesystem can tell beside its space: UUID, label. Without a target inside of it, it is not asked.
#[must_use]
pub fn general_facts(root: &SysRoot, mount: &Mount, target: Option<&Path>) -> FsFacts {
    let mut facts = FsFacts { fs_type: mount.fs_type.clone(), ..FsFacts::default() };
    let Some(target) = target.filter(|_| root.is_live()) else { return facts };
    if family(mount) != Family::Device {
        return facts;
    }
    let Some(file) = question_file(root, mount, target) else { return facts };
    facts.uuid = fsinfo::uuid(&file);
    facts.label = fsinfo::label(&file).filter(|label| !label.is_empty());
    if let Some(flags) = fsinfo::inode_flags(&file) {
        facts.target_nocow = Some(flags.nocow);
        facts.target_data_journal = Some(flags.data_journal);
        facts.target_compressed = Some(flags.compressed);
    }
    if mount.fs_type == "btrfs" {
        facts.uuid = fsinfo::btrfs_uuid(&file).or(facts.uuid);
    }
    if mount.root == Path::new("/") {
        facts.made_at_unix_s = born_at_unix_s(&mount.mount_point);
    }
    facts
}

/// When a filesystem was made: the birth of its top directory.
fn born_at_unix_s(top: &Path) -> Option<i64> {
    let born = std::fs::metadata(top).ok()?.created().ok()?;
    i64::try_from(born.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// The block devices of a filesystem: by its number, by btrfs's own list, or by the source it was
/// mounted from.
#[must_use]
pub fn devices(root: &SysRoot, mount: &Mount, facts: &FsFacts) -> Vec<BlockDir> {
    if mount.fs_type == "btrfs" {
        let dir = btrfs_dir(root, mount, facts.uuid.as_deref());
        let names = dir.map(|dir| root.names(dir.join("devices"))).unwrap_or_default();
        let found: Vec<_> = names.iter().filter_map(|n| BlockDir::by_name(root, n)).collect();
        if !found.is_empty() {
            return found;
        }
    }
    if mount.devno.major != 0
        && let Some(device) = BlockDir::by_devno(root, mount.devno)
    {
        return vec![device];
    }
    source_devices(root, mount)
}

/// Kernel names of the devices of a filesystem without a number of its own.
#[must_use]
pub fn member_names(root: &SysRoot, mount: &Mount) -> Vec<String> {
    let devices = devices(root, mount, &FsFacts::default());
    devices.iter().map(|device| device.name().to_owned()).collect()
}

/// The source of a mount as devices; some filesystems name several with colons between.
fn source_devices(root: &SysRoot, mount: &Mount) -> Vec<BlockDir> {
    let named = mount.source.split(':').filter(|source| source.starts_with("/dev/"));
    named.filter_map(|source| paths::block_device(root, Path::new(source))).collect()
}

/// The directory of a btrfs filesystem in sysfs: by UUID, or the one that lists a device of the
/// mount's source.
pub(crate) fn btrfs_dir(root: &SysRoot, mount: &Mount, uuid: Option<&str>) -> Option<PathBuf> {
    let base = Path::new("sys/fs/btrfs");
    if let Some(dir) = uuid.map(|uuid| base.join(uuid)).filter(|dir| root.exists(dir)) {
        return Some(dir);
    }
    let sources = source_devices(root, mount);
    let lists = |dir: &PathBuf| {
        sources.iter().any(|device| root.exists(dir.join("devices").join(device.name())))
    };
    root.names(base).into_iter().map(|name| base.join(name)).find(lists)
}

/// Adds what only this kind of filesystem knows: geometry, profiles, errors.
pub fn add_geometry(
    root: &SysRoot,
    mount: &Mount,
    target: Option<&Path>,
    devices: &[BlockDir],
    facts: &mut FsFacts,
) {
    let file = target.and_then(|target| question_file(root, mount, target));
    match mount.fs_type.as_str() {
        "ext2" | "ext3" | "ext4" => {
            let device = devices.first().map(BlockDir::name).unwrap_or_default();
            facts.errors_count = root.value(format!("sys/fs/ext4/{device}/errors_count"));
            facts.journal_device = ext_journal_device(root, device);
        }
        "xfs" => {
            add_xfs(file.as_ref(), facts);
            let log = xfs_device(root, &mount.super_options, "logdev=");
            facts.journal_device = log.map(|device| device.name().to_owned());
        }
        "btrfs" => add_btrfs(root, mount, devices, facts),
        _ => {}
    }
}

/// The device with the journal of a mounted ext filesystem, where that is another one. The thread that commits is called after
/// it: `jbd2/sdb1`, and `jbd2/sda1-8` after the inode of a journal inside.
fn ext_journal_device(root: &SysRoot, device: &str) -> Option<String> {
    let thread: u32 = root.value(format!("sys/fs/ext4/{device}/journal_task"))?;
    let name = root.text(format!("proc/{thread}/comm"))?;
    let name = name.trim().strip_prefix("jbd2/")?;
    let is_device = BlockDir::by_name(root, name).is_some() && name != device;
    is_device.then(|| name.to_owned())
}

/// A device that an option of a mounted XFS names, beside the one with its data.
fn xfs_device(root: &SysRoot, super_options: &str, option: &str) -> Option<BlockDir> {
    let path = super_options.split(',').find_map(|word| word.strip_prefix(option))?;
    paths::block_device(root, Path::new(path))
}

/// What a mounted filesystem keeps on other devices than its data: its journal, its realtime section.
pub(crate) fn devices_beside(root: &SysRoot, mount: &Mount) -> Vec<BlockDir> {
    match mount.fs_type.as_str() {
        "xfs" => ["logdev=", "rtdev="]
            .iter()
            .filter_map(|option| xfs_device(root, &mount.super_options, option))
            .collect(),
        "ext3" | "ext4" => {
            let data = BlockDir::by_devno(root, mount.devno);
            let journal = data.and_then(|data| ext_journal_device(root, data.name()));
            journal.and_then(|name| BlockDir::by_name(root, &name)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Adds the UUID and label that udev found, or the links in `/dev/disk`, where the filesystem did not tell them.
pub fn add_names(root: &SysRoot, device: &BlockDir, links: &Links, facts: &mut FsFacts) {
    let record = LazyCell::new(|| udev::record(root, device));
    let udev = |key: &str| udev::value(record.as_deref()?, key);
    let link = || links.of(device.name()).iter().find_map(|link| link.strip_prefix("by-uuid/"));
    let uuid = facts.uuid.take().or_else(|| udev("ID_FS_UUID"));
    facts.uuid = uuid.or_else(|| link().map(str::to_owned));
    facts.label = facts.label.take().or_else(|| udev("ID_FS_LABEL"));
}

/// Adds what the superblock of an ext filesystem says, read from its device; nothing for other filesystems. Of the
/// descriptors of its block groups at most so many bytes are read.
pub fn add_superblock(device: &BlockDir, descriptor_bytes_max: u64, facts: &mut FsFacts) {
    if !facts.fs_type.starts_with("ext") {
        return;
    }
    // Reading ahead would read more than is asked for.
    let opened = blkdev::open_to_look(Path::new(&device.dev_path()), false);
    let read = opened.and_then(|file| fsinfo::ext_superblock(&file, descriptor_bytes_max));
    let Ok(sb) = read else { return };
    facts.block_bytes = Some(sb.block_bytes);
    facts.groups = Some(sb.groups);
    facts.groups_uninitialised = sb.groups_uninitialised;
    facts.stripe_unit_bytes = Some(sb.stride_bytes);
    facts.stripe_width_bytes = Some(sb.stripe_width_bytes);
    facts.made_at_unix_s = Some(sb.made_at_unix_s);
    facts.journal = Some(sb.journal);
    facts.internal_log = (sb.journal && sb.journal_elsewhere).then_some(false);
    facts.journal_bytes = sb.journal_bytes;
    facts.uuid = Some(sb.uuid);
    facts.label = Some(sb.label).filter(|label| !label.is_empty());
}

fn add_xfs(file: Option<&File>, facts: &mut FsFacts) {
    let Some(geometry) = file.and_then(fsinfo::xfs_geometry) else { return };
    facts.block_bytes = Some(geometry.block_bytes);
    facts.sector_bytes = Some(geometry.sector_bytes);
    facts.groups = Some(geometry.groups);
    facts.stripe_unit_bytes = Some(geometry.stripe_unit_bytes);
    facts.stripe_width_bytes = Some(geometry.stripe_width_bytes);
    facts.internal_log = Some(geometry.internal_log);
    facts.journal_bytes = geometry.internal_log.then_some(geometry.log_bytes);
    facts.uuid = Some(geometry.uuid);
}

fn add_btrfs(root: &SysRoot, mount: &Mount, devices: &[BlockDir], facts: &mut FsFacts) {
    facts.devices = devices.iter().map(|device| device.name().to_owned()).collect();
    let Some(dir) = btrfs_dir(root, mount, facts.uuid.as_deref()) else { return };
    facts.uuid = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    facts.label = root.text(dir.join("label"));
    facts.sector_bytes = root.value(dir.join("sectorsize"));
    facts.data_profiles = profiles(root, &dir.join("allocation/data"));
    facts.metadata_profiles = profiles(root, &dir.join("allocation/metadata"));
    let stats = root.names(dir.join("devinfo"));
    let stats =
        stats.iter().filter_map(|id| root.text(dir.join("devinfo").join(id).join("error_stats")));
    let errors: Vec<u64> = stats
        .flat_map(|text| {
            let numbers = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse().ok());
            numbers.collect::<Vec<u64>>()
        })
        .collect();
    facts.errors_count =
        (!errors.is_empty()).then(|| errors.iter().copied().fold(0, u64::saturating_add));
}

/// The profiles in use: the directories in the one of an allocation type.
fn profiles(root: &SysRoot, dir: &Path) -> Vec<String> {
    let known =
        |name: &String| ["single", "dup"].contains(&name.as_str()) || name.starts_with("raid");
    root.names(dir).into_iter().filter(known).collect()
}

/// All directories that an overlay is made of, as its options name them: the one that writes go to, if any, then the others from the
/// top down. A relative one was meant from a working directory that nobody knows any more.
pub(crate) fn overlay_layers(super_options: &str) -> impl Iterator<Item = &Path> {
    const KEYS: [&str; 4] = ["upperdir", "lowerdir", "lowerdir+", "datadir+"];
    let of = move |key: &'static str| {
        let options = super_options.split(',').filter_map(|option| option.split_once('='));
        let directories = options.filter(move |(own, _)| *own == key).map(|(_, value)| value);
        directories.flat_map(move |value| value.split(move |sign| sign == ':' && key == "lowerdir"))
    };
    KEYS.into_iter().flat_map(of).filter(|name| !name.is_empty()).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_elsewhere_is_found_by_its_thread_or_its_option() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let root = SysRoot::at(dir.path());
        std::fs::create_dir_all(root.path("sys/class/block")).expect("made");
        for name in ["sda1", "dm-3", "sdj"] {
            std::fs::create_dir_all(root.path(format!("sys/devices/{name}"))).expect("made");
            let link = root.path(format!("sys/class/block/{name}"));
            std::os::unix::fs::symlink(format!("../../devices/{name}"), link).expect("made");
        }
        for (data, thread, comm) in [("sda1", 7, "jbd2/sda1-8"), ("sdb1", 8, "jbd2/dm-3")] {
            for (path, text) in [
                (format!("sys/fs/ext4/{data}/journal_task"), format!("{thread}\n")),
                (format!("proc/{thread}/comm"), format!("{comm}\n")),
            ] {
                let path = root.path(path);
                std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
                std::fs::write(path, text).expect("made");
            }
        }
        assert_eq!(ext_journal_device(&root, "sda1"), None, "inside, by its inode");
        assert_eq!(ext_journal_device(&root, "sdb1").as_deref(), Some("dm-3"));
        assert_eq!(ext_journal_device(&root, "sdc1"), None, "nothing known");
        let log = |options: &str| {
            let device = xfs_device(&root, options, "logdev=");
            device.map(|device| device.name().to_owned())
        };
        assert_eq!(log("rw,logbufs=8,logdev=/dev/sdj,noquota").as_deref(), Some("sdj"));
        assert_eq!(log("rw,logbufs=8"), None);
    }

    #[test]
    fn the_directory_that_is_written_comes_first() {
        let of =
            |options| overlay_layers(options).map(|d| d.display().to_string()).collect::<Vec<_>>();
        let options = "rw,lowerdir=/a:b:/c,upperdir=/var/up:2,workdir=/w";
        assert_eq!(of(options), ["/var/up:2", "/a", "b", "/c"]);
        assert_eq!(of("ro,lowerdir=/a:/b::/data"), ["/a", "/b", "/data"]);
        assert_eq!(of("rw,lowerdir+=/d:1,lowerdir+=/e,datadir+=/f"), ["/d:1", "/e", "/f"]);
        assert_eq!(of("rw,upperdir=up"), ["up"]);
        assert_eq!(of("rw"), [""; 0]);
    }
}
