//! Which filesystem it was that something was made on: by the next start another one may be mounted in the same place.

use crate::{place, relations};
use fathom_inspect::identity::{self, DeviceId, DeviceIdKind};
use fathom_model::plan::Footing;
use fathom_sys::blkdev;
use fathom_sys::devno::DevNo;
use fathom_sys::fsinfo;
use fathom_sys::loopdev;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::process;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells a mounted filesystem, or the part of it that is visible, from another one in the same place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesystemId {
    /// Its UUID, which it keeps for ever; none where there is none, or the kernel does not tell it.
    uuid: Option<String>,
    /// `f_fsid` of statfs(2). Some filesystems make it of the device's number, so that it is good for one boot only.
    fsid: Option<u64>,
    /// The boot that `fsid` was read in.
    boot_id: Option<String>,
    /// The part of the filesystem that is mounted: a subvolume, or the source of a bind mount.
    root: PathBuf,
    /// The identifiers of the devices that it lies on, which copies of it do not have; none where it lies on none, and in
    /// what older versions have noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    devices: Vec<String>,
    /// Which files are behind those of them that are loop devices: a copy may bear the path of the original.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<Image>,
}

/// The file behind a loop device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Image {
    /// The identifier of the device.
    device: String,
    /// Of the file, within its filesystem.
    inode: u64,
    /// When it was made, in nanoseconds since 1970; none where its filesystem does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born_ns: Option<i64>,
}

impl Image {
    fn is_other_than(&self, other: &Self) -> bool {
        let born = self.born_ns.zip(other.born_ns);
        self.device == other.device
            && (self.inode != other.inode || born.is_some_and(|(own, other)| own != other))
    }
}

impl FilesystemId {
    /// Of the filesystem that holds a path, which need not exist itself; none when nothing tells.
    #[must_use]
    pub fn of(root: &SysRoot, path: &Path) -> Option<Self> {
        let own = mounts::own_mounts(root);
        Self::of_mount(root, mounts::mount_of(&own, path)?)
    }

    fn of_mount(root: &SysRoot, mount: &Mount) -> Option<Self> {
        let file = fsinfo::open_for_questions(&mount.mount_point).ok()?;
        Some(Self {
            uuid: fsinfo::uuid_of_type(&file, &mount.fs_type),
            fsid: fsinfo::fsid(&file),
            boot_id: process::boot_id(root),
            root: mount.root.clone(),
            devices: devices(root, mount),
            images: images(root, mount),
        })
    }

    /// True when the two are certainly not the same filesystem. Where neither UUIDs nor numbers of the same boot can be
    /// compared, only the visible part tells.
    #[must_use]
    pub fn differs_from(&self, other: &Self) -> bool {
        self.is_apart_from(other) || self.root != other.root
    }

    /// True where it may be seen again without anybody's mounting it: something lies over what is mounted at that place, or it is
    /// certainly mounted somewhere. Filesystems that may never answer, and what mounts others when it is looked at, are not asked.
    #[must_use]
    pub fn may_be_mounted(&self, root: &SysRoot, mount_point: &Path) -> bool {
        let own = mounts::own_mounts(root);
        let mut hidden = own.iter().zip(mounts::hidden(&own)).filter(|(_, is_hidden)| *is_hidden);
        hidden.any(|(mount, _)| mount.mount_point == mount_point)
            || !self.mounted_at(root, &own).is_empty()
    }

    /// Where a path is seen by now that lay on it when it was mounted at `mount_point`: whatever number its device has, and only
    /// where it is certainly this filesystem and no copy of it. Nothing may be at these places. Filesystems that may never answer
    /// are not asked.
    #[must_use]
    pub fn places_of(&self, root: &SysRoot, mount_point: &Path, path: &Path) -> Vec<PathBuf> {
        let Ok(rest) = path.strip_prefix(mount_point) else { return Vec::new() };
        let inside = self.root.join(rest);
        let own = mounts::own_mounts(root);
        let mounted = self.mounted_at(root, &own).into_iter();
        let places =
            mounted.filter(|(_, found)| self.shares_devices(found)).filter_map(|(mount, _)| {
                let rest = inside.strip_prefix(&mount.root).ok()?;
                Some(mount.mount_point.join(rest))
            });
        places.collect()
    }

    /// True for a copy of it (a snapshot, a clone, a copied image) that has its UUID, while the device that it lies on is there as
    /// well. One that was moved to another device is no copy.
    #[must_use]
    pub fn is_copied_by(&self, root: &SysRoot, other: &Self) -> bool {
        if other.devices.is_empty() || self.shares_devices(other) || self.is_apart_from(other) {
            return false;
        }
        let is_file = |id: &String| id.starts_with('/') && root.path(id).is_file();
        let all = root.names("sys/dev/block").into_iter().filter_map(|name| name.parse().ok());
        self.devices.iter().any(is_file)
            || all.filter_map(|devno| device(root, devno)).any(|id| self.devices.contains(&id))
    }

    /// True when they lie on the same devices, of which some may have been added or removed meanwhile, or on none.
    fn shares_devices(&self, other: &Self) -> bool {
        let is_copy = |id: &String| {
            let own = self.images.iter().filter(|image| image.device == *id);
            own.into_iter().any(|own| other.images.iter().any(|image| own.is_other_than(image)))
        };
        let mut own = self.devices.iter();
        (self.devices.is_empty() && other.devices.is_empty())
            || own.any(|id| other.devices.contains(id) && !is_copy(id))
    }

    /// The mounts that certainly show it, a part or a copy of it.
    fn mounted_at<'m>(&self, root: &SysRoot, own: &'m [Mount]) -> Vec<(&'m Mount, Self)> {
        let is_it = |mount: &'m Mount| {
            let found = Self::of_mount(root, mount)?;
            self.is_surely(&found).then_some((mount, found))
        };
        mounts::visible(own).filter_map(is_it).collect()
    }

    /// True when the two are certainly the same filesystem or copies of each other, whichever part of it is visible.
    fn is_surely(&self, other: &Self) -> bool {
        match (&self.uuid, &other.uuid) {
            (Some(own), Some(other)) => own == other,
            _ => {
                self.boot_id.is_some()
                    && self.boot_id == other.boot_id
                    && self.fsid.zip(other.fsid).is_some_and(|(own, other)| own == other)
            }
        }
    }

    /// The same, whichever part of it is visible.
    #[must_use]
    pub fn is_apart_from(&self, other: &Self) -> bool {
        match (&self.uuid, &other.uuid) {
            (Some(own), Some(other)) => own != other,
            _ if self.boot_id.is_none() || self.boot_id != other.boot_id => false,
            _ => self.fsid.zip(other.fsid).is_some_and(|(own, other)| own != other),
        }
    }
}

/// What is mounted where something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounted {
    /// The filesystem that it was made on, as far as that can be told.
    Same,
    /// Nothing: the path leads into the filesystem above.
    Nothing,
    /// Another filesystem, or another part of it.
    Another,
}

/// What is mounted at `mount_point`, which holds `path`. `noted` is the filesystem as it was then; without it only the
/// mount point is compared.
#[must_use]
pub fn mounted(
    root: &SysRoot,
    path: &Path,
    mount_point: &Path,
    noted: Option<&FilesystemId>,
) -> Mounted {
    if place::mount_point(root, path) != mount_point {
        return Mounted::Nothing;
    }
    let Some(noted) = noted else { return Mounted::Same };
    match FilesystemId::of(root, path) {
        Some(found) if noted.differs_from(&found) || noted.is_copied_by(root, &found) => {
            Mounted::Another
        }
        _ => Mounted::Same,
    }
}

/// The identifiers of the devices that a mounted filesystem lies on, as far as they are known.
fn devices(root: &SysRoot, mount: &Mount) -> Vec<String> {
    below(root, mount).into_iter().filter_map(|devno| device(root, devno)).collect()
}

/// The files behind those of them that are loop devices, or partitions of such.
fn images(root: &SysRoot, mount: &Mount) -> Vec<Image> {
    let image = |devno: DevNo| {
        let found = BlockDir::by_devno(root, devno)?;
        let disk = found.disk().filter(|_| found.is_partition()).and_then(|disk| disk.devno());
        let (inode, born_ns) = image_behind(root, disk.unwrap_or(devno))?;
        Some(Image { device: device(root, devno)?, inode, born_ns })
    };
    below(root, mount).into_iter().filter_map(image).collect()
}

/// Inode and time of birth of the file behind a loop device, in nanoseconds since 1970; none of others.
fn image_behind(root: &SysRoot, devno: DevNo) -> Option<(u64, Option<i64>)> {
    let image = loopdev::by_devno(root, devno)?;
    let (_, inode) = image.backing_inode?;
    let path = image.backing_path_verified(root);
    let meta = path.and_then(|path| std::fs::metadata(root.path(path)).ok());
    Some((inode, meta.as_ref().and_then(born_ns)))
}

fn born_ns(meta: &std::fs::Metadata) -> Option<i64> {
    let since = meta.created().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// The devices that a mounted filesystem lies on.
fn below(root: &SysRoot, mount: &Mount) -> Vec<DevNo> {
    // Those without a device's number name their devices, and others the way to a machine that may not answer.
    let has_members = matches!(mount.fs_type.as_str(), "btrfs" | "bcachefs");
    if mount.devno.major == 0 && !has_members {
        return Vec::new();
    }
    relations::devices_of_mount(root, mount)
}

/// What a word of a plan leads to, by what holds after a boot too: a block device, or the filesystem that holds a path, which need
/// not exist itself.
#[must_use]
pub fn footing(root: &SysRoot, word: &str, path: &Path) -> Footing {
    let own = mounts::own_mounts(root);
    let (filesystem, numbers) = match relations::block_number(root, path) {
        Some(devno) => (None, vec![devno]),
        None => {
            let uuid = FilesystemId::of(root, path).and_then(|id| id.uuid);
            (uuid, mounts::mount_of(&own, path).map_or_else(Vec::new, |mount| below(root, mount)))
        }
    };
    let lasting = |devno| {
        let told = told_by(root, devno, &|id| id.lasting().to_owned())?;
        let packed = BlockDir::by_devno(root, devno).and_then(|device| packed_with(&device));
        Some(packed.map_or_else(|| told.clone(), |with| format!("{told} ({with})")))
    };
    let is_lasting = filesystem.is_some() || !numbers.is_empty();
    let File { size_bytes, inode, born_ns } =
        if is_lasting { file(root, path) } else { File::default() };
    let devices = numbers.into_iter().filter_map(lasting).collect();
    let is_device = relations::block_number(root, path).is_some();
    let mount = mounts::mount_of(&own, path).filter(|_| !is_device);
    let mount_options = mount.map(|mount| {
        let both = mount.options.split(',').chain(mount.super_options.split(','));
        let all: BTreeSet<&str> = both.filter(|option| !option.is_empty()).collect();
        all.into_iter().map(str::to_owned).collect()
    });
    let filesystem_form = mount.and_then(|mount| form(root, mount));
    Footing {
        word: word.to_owned(),
        filesystem,
        devices,
        size_bytes,
        inode,
        born_ns,
        mount_options,
        filesystem_form,
        settings: Vec::new(),
    }
}

/// How large a filesystem is, and with which features, of types that keep both unless somebody changes them.
fn form(root: &SysRoot, mount: &Mount) -> Option<String> {
    let is_ext = matches!(mount.fs_type.as_str(), "ext2" | "ext3" | "ext4");
    if !is_ext && !matches!(mount.fs_type.as_str(), "xfs" | "btrfs" | "f2fs") {
        return None;
    }
    let space = fsinfo::space(&root.path(&mount.mount_point)).ok()?;
    let device = below(root, mount).first().and_then(|devno| BlockDir::by_devno(root, *devno));
    // Others than root may not read it.
    let features = device.filter(|_| is_ext).and_then(|device| {
        let file = blkdev::open_to_look(Path::new(&device.dev_path()), false).ok()?;
        fsinfo::ext_features(&file).ok()
    });
    let features = features.map(|[compatible, incompatible, read_only]| {
        let journal =
            if compatible & fsinfo::EXT_JOURNAL == 0 { "no journal" } else { "a journal" };
        format!(" with {journal} and the features {compatible:x}/{incompatible:x}/{read_only:x}")
    });
    let size = fathom_base::units::format_size(space.total_bytes);
    Some(format!("{size} ({} bytes){}", space.total_bytes, features.unwrap_or_default()))
}

/// The compression of a zram device, which has it for as long as it holds anything: another one is of a device that was set up anew.
fn packed_with(device: &BlockDir) -> Option<String> {
    let all = device.text("comp_algorithm")?;
    all.split_once('[')?.1.split_once(']').map(|(chosen, _)| chosen.to_owned())
}

/// What tells a file from another one with its path.
#[derive(Debug, Default)]
struct File {
    size_bytes: Option<u64>,
    inode: Option<u64>,
    born_ns: Option<i64>,
}

/// Of a device its size, with the image behind it; of a file its own; nothing of directories. (Files in memory are made anew by every boot.)
fn file(root: &SysRoot, path: &Path) -> File {
    if let Some(devno) = relations::block_number(root, path) {
        let size_bytes = BlockDir::by_devno(root, devno).and_then(|device| device.size_bytes());
        let (inode, born_ns) = image_behind(root, devno).unzip();
        return File { size_bytes, inode, born_ns: born_ns.flatten() };
    }
    let found = std::fs::metadata(root.path(path)).ok().filter(std::fs::Metadata::is_file);
    let of = |meta: std::fs::Metadata| File {
        size_bytes: Some(meta.len()),
        inode: Some(meta.ino()),
        born_ns: born_ns(&meta),
    };
    found.map(of).unwrap_or_default()
}

/// What a word of a plan leads to that names a small file whose content is what matters; none where it cannot be read.
#[must_use]
pub fn content_footing(root: &SysRoot, word: &str, path: &Path) -> Option<Footing> {
    let content = std::fs::read(root.path(path)).ok()?;
    let told = format!("{} bytes with checksum {:08x}", content.len(), crc32c::crc32c(&content));
    let (size_bytes, inode) = (None, None);
    Some(Footing {
        word: word.to_owned(),
        filesystem: None,
        devices: vec![told],
        size_bytes,
        inode,
        born_ns: None,
        mount_options: None,
        filesystem_form: None,
        settings: Vec::new(),
    })
}

/// The identifier of a device that no copy of its content has; what holds for one boot only says of which.
fn device(root: &SysRoot, devno: DevNo) -> Option<String> {
    told_by(root, devno, &|id| match id.kind {
        DeviceIdKind::NameSizeSequence => {
            let boot = process::boot_id(root).into_iter();
            boot.chain([id.text.clone()]).collect::<Vec<_>>().join("/")
        }
        _ => id.text.clone(),
    })
}

/// A device in words: of a partition also on which disk it is.
fn told_by(root: &SysRoot, devno: DevNo, words: &dyn Fn(&DeviceId) -> String) -> Option<String> {
    let found = BlockDir::by_devno(root, devno)?;
    let disk = found.disk().filter(|_| found.is_partition());
    let disk = disk.and_then(|disk| told_by(root, disk.devno()?, words));
    let own = words(&identity::device_id(root, devno));
    Some(disk.map_or_else(|| own.clone(), |disk| format!("{disk}/{own}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(uuid: Option<&str>, fsid: u64, boot: &str) -> FilesystemId {
        FilesystemId {
            uuid: uuid.map(str::to_owned),
            fsid: Some(fsid),
            boot_id: Some(boot.to_owned()),
            root: "/".into(),
            devices: Vec::new(),
            images: Vec::new(),
        }
    }

    #[test]
    fn a_uuid_tells_for_ever_and_a_number_within_a_boot() {
        let a = id(Some("a"), 1, "x");
        assert!(!a.differs_from(&id(Some("a"), 2, "y")), "on another device");
        assert!(a.differs_from(&id(Some("b"), 1, "x")));
        assert!(id(None, 1, "x").differs_from(&id(None, 2, "x")));
        assert!(!id(None, 1, "x").differs_from(&id(None, 1, "x")));
        assert!(!id(None, 1, "x").differs_from(&id(None, 2, "y")), "nothing can be said");
        let part = FilesystemId { root: "/@home".into(), ..a.clone() };
        assert!(a.differs_from(&part) && !a.is_apart_from(&part) && a.is_surely(&part));
        assert!(!a.is_surely(&id(Some("b"), 1, "x")));
        assert!(id(None, 1, "x").is_surely(&id(None, 1, "x")));
        assert!(!id(None, 1, "x").is_surely(&id(None, 1, "y")), "nothing can be said");
    }

    /// The original has another name by now.
    #[test]
    fn a_copy_that_bears_the_path_of_the_original_is_told_by_its_file() {
        let on = |inode, born_ns| {
            let device = "/srv/o.img".to_owned();
            let images = vec![Image { device: device.clone(), inode, born_ns }];
            FilesystemId { devices: vec![device], images, ..id(Some("a"), 1, "x") }
        };
        let original = on(12, Some(5));
        assert!(original.shares_devices(&original));
        assert!(!original.shares_devices(&on(13, Some(5))));
        assert!(!original.shares_devices(&on(12, Some(6))), "with the inode of the original");
        assert!(original.shares_devices(&on(12, None)), "not known");
        let noted_before = FilesystemId { images: Vec::new(), ..original.clone() };
        assert!(original.shares_devices(&noted_before) && noted_before.shares_devices(&original));
    }

    #[test]
    fn filesystems_of_this_machine_are_told_apart() {
        let root = SysRoot::live();
        let of = |path: &str| FilesystemId::of(&root, Path::new(path)).unwrap();
        assert!(!of("/proc/self").differs_from(&of("/proc")));
        assert!(of("/proc").differs_from(&of("/sys")), "{:?} {:?}", of("/proc"), of("/sys"));
        let temporary = std::env::temp_dir();
        let point = place::mount_point(&root, &temporary);
        let here = FilesystemId::of(&root, &temporary);
        assert_eq!(mounted(&root, &temporary, &point, here.as_ref()), Mounted::Same);
        assert_eq!(mounted(&root, &temporary, &point, None), Mounted::Same);
        let another = of("/proc");
        assert_eq!(mounted(&root, &temporary, &point, Some(&another)), Mounted::Another);
        assert!(another.may_be_mounted(&root, &point), "at /proc");
        let mut nowhere = id(Some("8a0f7b1e-no-such"), 1, "x");
        assert!(!nowhere.may_be_mounted(&root, Path::new("/no-mount-point")));
        nowhere.uuid = None;
        assert!(!nowhere.may_be_mounted(&root, Path::new("/no-mount-point")), "of another boot");
        let nowhere = Path::new("/nowhere");
        assert_eq!(mounted(&root, &temporary, nowhere, here.as_ref()), Mounted::Nothing);
    }
}
