//! Block devices in sysfs: finding them by name or number, their attributes, and their neighbours
//! in the stack.

use crate::devno::DevNo;
use crate::pci;
use crate::sysfs_dir::{Attributes, Directory, attributes};
use crate::sysroot::{ATTRIBUTE_BYTES_MAX, SysRoot};
use rustix::fs::CWD;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A block device (a disk, a partition, a virtual device) and its directory in sysfs.
#[derive(Debug, Clone)]
pub struct BlockDir {
    root: SysRoot,
    name: String,
    dir: PathBuf,
    /// The device number, where it is known already.
    number: Option<DevNo>,
    held: Option<Arc<Held>>,
}

/// An open directory, and what many ask of its device.
#[derive(Debug)]
struct Held {
    dir: Directory,
    devno: OnceLock<Option<DevNo>>,
    device: OnceLock<Option<PathBuf>>,
    bus: OnceLock<Option<String>>,
    /// The directories below it that somebody has asked for.
    below: Mutex<BTreeMap<String, Option<BlockDir>>>,
}

/// Bytes of a number of sectors as sysfs counts them, of 512 bytes; none for more than the kernel can address, which makes no sense.
#[must_use]
pub fn bytes_of_sectors(sectors: u64) -> Option<u64> {
    sectors.checked_mul(512).filter(|&bytes| i64::try_from(bytes).is_ok())
}

impl BlockDir {
    /// The device with a kernel name (`sda1`, `dm-0`, `cciss!c0d0`).
    #[must_use]
    pub fn by_name(root: &SysRoot, name: &str) -> Option<Self> {
        if name.is_empty() || name.contains('/') || name.starts_with('.') {
            return None;
        }
        ["sys/class/block", "sys/block"].iter().find_map(|class| Self::at(root, class, name))
    }

    /// The device with a number.
    #[must_use]
    pub fn by_devno(root: &SysRoot, devno: DevNo) -> Option<Self> {
        let device = Self::listed_by_number(root, &devno.to_string());
        device.filter(|device| root.exists(&device.dir))
    }

    /// The device that a path under `/dev` without symbolic links names; `/` inside the name is `!`
    /// in sysfs.
    #[must_use]
    pub fn by_dev_path(root: &SysRoot, path: &Path) -> Option<Self> {
        let name = path.strip_prefix("/dev").ok()?.to_str()?;
        Self::by_name(root, &name.replace('/', "!"))
    }

    /// All whole devices, sorted by name.
    #[must_use]
    pub fn disks(root: &SysRoot) -> Vec<Self> {
        root.names("sys/block").iter().filter_map(|name| Self::by_name(root, name)).collect()
    }

    fn at(root: &SysRoot, class: &str, entry: &str) -> Option<Self> {
        Self::named_at(root, class, entry).filter(|device| root.exists(&device.dir))
    }

    /// What a link in a directory of devices names, whether it is there or not.
    fn named_at(root: &SysRoot, class: &str, entry: &str) -> Option<Self> {
        let link = root.link(Path::new(class).join(entry))?;
        let dir = lexically(&Path::new(class).join(link));
        let name = dir.file_name()?.to_str()?.to_owned();
        Some(Self { root: root.clone(), name, dir, number: None, held: None })
    }

    /// The device behind a name in the list of all numbers (`sys/dev/block`); whether it is there still is not looked at.
    #[must_use]
    pub fn listed_by_number(root: &SysRoot, entry: &str) -> Option<Self> {
        let number = Some(entry.parse().ok()?);
        Some(Self { number, ..Self::named_at(root, "sys/dev/block", entry)? })
    }

    /// The kernel name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory under the root, such as `sys/devices/.../block/sda`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The usual path of the device node.
    #[must_use]
    pub fn dev_path(&self) -> String {
        format!("/dev/{}", self.name.replace('!', "/"))
    }

    /// The device number; hidden devices (the paths of NVMe multipath) have none.
    #[must_use]
    pub fn devno(&self) -> Option<DevNo> {
        let read = || self.value("dev");
        let known = || self.held.as_ref().map_or_else(read, |held| *held.devno.get_or_init(read));
        self.number.or_else(known)
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> Option<u64> {
        self.value("size").and_then(bytes_of_sectors)
    }

    /// The same device with its directory held open, for who reads many attributes: the way to them is walked once, what is
    /// there is listed once, and what many ask (number, bus) is read once. Keeps some files open until it and its clones
    /// are dropped.
    #[must_use]
    pub fn held(&self) -> Self {
        let opened = Directory::open(CWD, &self.root.path(&self.dir));
        Self { held: opened.ok().map(Held::new), ..self.clone() }
    }

    /// True when its directory is held open.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The same device without anything open. Its number stays known.
    #[must_use]
    pub fn released(&self) -> Self {
        Self { number: self.devno(), held: None, ..self.clone() }
    }

    /// A directory below the device (`queue`, `queue/iosched`), held open; none when it is not there. Of a device that is
    /// held each is opened once.
    #[must_use]
    pub fn below(&self, directory: &str) -> Option<Self> {
        if let Some((first, rest)) = directory.split_once('/') {
            return self.below(first)?.below(rest);
        }
        let open = || {
            let dir = self.dir.join(directory);
            let opened = match &self.held {
                Some(held) => held.dir.below(directory),
                None => Directory::open(CWD, &self.root.path(&dir)),
            };
            let held = Some(Held::new(opened.ok()?));
            Some(Self { dir, number: None, held, ..self.clone() })
        };
        let Some(held) = &self.held else { return open() };
        // What a thread that panicked has left is whole all the same.
        let mut known = held.below.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(directory.to_owned()).or_insert_with(open).clone()
    }

    /// Text of an attribute, such as `queue/scheduler`; none when it is missing, unreadable or
    /// empty.
    #[must_use]
    pub fn text(&self, attribute: impl AsRef<Path>) -> Option<String> {
        let mut found = None;
        self.with_text(attribute.as_ref(), &mut |text| found = Some(text.to_owned()));
        found
    }

    /// Takes the text of an attribute, when there is any, without keeping it.
    fn with_text(&self, attribute: &Path, take: &mut dyn FnMut(&str)) {
        let mut take = |text: &str| {
            if !text.is_empty() {
                take(text);
            }
        };
        // What cannot be read has no text.
        match &self.held {
            Some(held) => match held.opened_below(attribute) {
                Some((below, rest)) => {
                    below.into_iter().for_each(|below| below.with_text(rest, &mut take));
                }
                None => drop(held.dir.with_attribute(attribute, &mut take)),
            },
            None => {
                let text = self.root.attribute(self.dir.join(attribute));
                text.into_iter().for_each(|text| take(&text));
            }
        }
    }

    /// An attribute as a number or anything that parses.
    #[must_use]
    pub fn value<T: FromStr>(&self, attribute: impl AsRef<Path>) -> Option<T> {
        let mut found = None;
        self.with_text(attribute.as_ref(), &mut |text| found = text.parse().ok());
        found
    }

    /// An attribute that says 0 or 1.
    #[must_use]
    pub fn flag(&self, attribute: impl AsRef<Path>) -> Option<bool> {
        self.value::<i64>(attribute).map(|value| value != 0)
    }

    /// Raw bytes of an attribute (SCSI vital product data).
    #[must_use]
    pub fn bytes(&self, attribute: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.root.bytes(self.dir.join(attribute), ATTRIBUTE_BYTES_MAX).ok()
    }

    /// The names in a directory below the device.
    #[must_use]
    pub fn names(&self, directory: &str) -> Vec<String> {
        match &self.held {
            Some(held) if directory.is_empty() => held.dir.names(),
            Some(_) => self.below(directory).map(|below| below.names("")).unwrap_or_default(),
            None => self.root.names(self.dir.join(directory)),
        }
    }

    /// True when the attribute or directory exists.
    #[must_use]
    pub fn has(&self, attribute: impl AsRef<Path>) -> bool {
        let attribute = attribute.as_ref();
        match &self.held {
            Some(held) => match held.opened_below(attribute) {
                Some((below, rest)) => below.is_some_and(|below| below.has(rest)),
                None => held.dir.has(attribute),
            },
            None => self.root.exists(self.dir.join(attribute)),
        }
    }

    /// All attributes in a directory below the device, see [`attributes`].
    #[must_use]
    pub fn attributes(&self, directory: &str, wanted: impl Fn(&str) -> bool) -> Attributes {
        if self.held.is_none() {
            return attributes(&self.root, &self.dir.join(directory), wanted);
        }
        let below = self.below(directory);
        let below = below.as_ref().and_then(|below| Some((&below.dir, below.held.as_ref()?)));
        below.map(|(path, held)| held.dir.attributes(path, wanted)).unwrap_or_default()
    }

    /// Where a link below the device leads, as a directory under the root (`device`, `bdi`,
    /// `md/rd0`).
    #[must_use]
    pub fn linked(&self, link: impl AsRef<Path>) -> Option<PathBuf> {
        let path = self.dir.join(&link);
        let target = match &self.held {
            Some(held) => held.dir.link(link.as_ref())?,
            None => self.root.link(&path)?,
        };
        Some(lexically(&path.parent()?.join(target)))
    }

    /// True for a partition.
    #[must_use]
    pub fn is_partition(&self) -> bool {
        self.has("partition")
    }

    /// The disk of a partition; the device itself otherwise.
    #[must_use]
    pub fn disk(&self) -> Option<Self> {
        if self.is_partition() { self.disk_of_partition() } else { Some(self.clone()) }
    }

    /// The disk of what is known to be a partition.
    #[must_use]
    pub fn disk_of_partition(&self) -> Option<Self> {
        let dir = self.dir.parent()?.to_path_buf();
        let name = dir.file_name()?.to_str()?.to_owned();
        Some(Self { root: self.root.clone(), name, dir, number: None, held: None })
    }

    /// The partitions of a disk.
    #[must_use]
    pub fn partitions(&self) -> Vec<Self> {
        let entries = self.names("");
        let inside = entries.iter().filter(|name| self.has(Path::new(name).join("partition")));
        inside.filter_map(|name| Self::by_name(&self.root, name)).collect()
    }

    /// The devices that this one is made of.
    #[must_use]
    pub fn slaves(&self) -> Vec<Self> {
        self.neighbours("slaves")
    }

    /// The devices that are made of this one.
    #[must_use]
    pub fn holders(&self) -> Vec<Self> {
        self.neighbours("holders")
    }

    fn neighbours(&self, directory: &str) -> Vec<Self> {
        let names = self.names(directory);
        names.iter().filter_map(|name| Self::by_name(&self.root, name)).collect()
    }

    /// The directory of the nearest device above in the bus tree for which `wanted` says yes, the
    /// device's own first.
    #[must_use]
    pub fn ancestor(&self, wanted: impl Fn(&SysRoot, &Path) -> bool) -> Option<PathBuf> {
        let start = self.device().unwrap_or_else(|| self.dir.clone());
        let mut dirs = start.ancestors().take_while(|dir| dir.starts_with("sys/devices"));
        dirs.find(|dir| wanted(&self.root, dir)).map(Path::to_path_buf)
    }

    /// The nearest PCI function above.
    #[must_use]
    pub fn pci_dir(&self) -> Option<PathBuf> {
        self.ancestor(is_pci_function)
    }

    /// The kernel subsystem of the device itself: `scsi`, `nvme`, `nvme-subsystem`, `virtio`,
    /// `mmc`, `xen`.
    #[must_use]
    pub fn bus(&self) -> Option<String> {
        let read = || subsystem(&self.root, &self.device()?);
        self.held.as_ref().map_or_else(read, |held| held.bus.get_or_init(read).clone())
    }

    /// The directory of the device on its bus.
    fn device(&self) -> Option<PathBuf> {
        let read = || self.linked("device");
        self.held.as_ref().map_or_else(read, |held| held.device.get_or_init(read).clone())
    }
}

impl Held {
    fn new(dir: Directory) -> Arc<Self> {
        let (devno, device, bus) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { dir, devno, device, bus, below: Mutex::default() })
    }

    /// The directory below in which a path goes on, when somebody has asked for it already, and the rest of the path: what is not
    /// listed there need not be looked for.
    fn opened_below<'a>(&self, path: &'a Path) -> Option<(Option<BlockDir>, &'a Path)> {
        let mut parts = path.components();
        let Some(Component::Normal(first)) = parts.next() else { return None };
        let rest = parts.as_path();
        if rest.as_os_str().is_empty() {
            return None;
        }
        let known = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let below = known.get(first.to_str()?)?.clone();
        Some((below, rest))
    }
}

/// True for the directory of a PCI function; its name decides first, for which nothing has to be read.
#[must_use]
pub fn is_pci_function(root: &SysRoot, dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str());
    name.is_some_and(pci::is_address) && subsystem(root, dir).as_deref() == Some("pci")
}

/// The subsystem of a device directory: the last word of its `subsystem` link.
#[must_use]
pub fn subsystem(root: &SysRoot, dir: &Path) -> Option<String> {
    last_word(root, &dir.join("subsystem"))
}

/// The driver of a device directory: the last word of its `driver` link.
#[must_use]
pub fn driver(root: &SysRoot, dir: &Path) -> Option<String> {
    last_word(root, &dir.join("driver"))
}

fn last_word(root: &SysRoot, link: &Path) -> Option<String> {
    root.link(link)?.file_name()?.to_str().map(str::to_owned)
}

/// Removes `.` and `..` without looking at the disk: right in sysfs, whose class links lead to
/// plain directories.
fn lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::Normal(name) => out.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_by_words_alone() {
        let link = Path::new("sys/class/block/../../devices/pci0000:00/./block/sda");
        assert_eq!(lexically(link), Path::new("sys/devices/pci0000:00/block/sda"));
    }

    #[test]
    fn names_that_are_paths_find_nothing() {
        let root = SysRoot::live();
        for name in ["", ".", "..", "../sda", "no-such-device"] {
            assert!(BlockDir::by_name(&root, name).is_none(), "{name}");
        }
        assert!(BlockDir::by_dev_path(&root, Path::new("/etc/passwd")).is_none());
    }

    #[test]
    fn every_disk_of_this_machine_is_found_by_name_and_number() {
        let root = SysRoot::live();
        let disks = BlockDir::disks(&root);
        assert!(!disks.is_empty(), "a machine without any block device");
        for disk in disks {
            assert!(!disk.is_partition(), "{}", disk.name());
            assert_eq!(disk.disk().map(|d| d.name().to_owned()).as_deref(), Some(disk.name()));
            let held = disk.held();
            for _ in 0..2 {
                assert_eq!((held.devno(), held.bus()), (disk.devno(), disk.bus()));
            }
            for device in [&disk, &held] {
                let before = device.text("queue/scheduler");
                let scheduler = device.below("queue").and_then(|queue| queue.text("scheduler"));
                assert_eq!(scheduler, disk.text("queue/scheduler"));
                // By the open directory as by the path.
                assert_eq!((&device.text("queue/scheduler"), &before), (&scheduler, &scheduler));
                assert_eq!(device.has("queue/scheduler"), before.is_some());
                assert!(device.has("queue/rotational") && !device.has("queue/no-such"));
                assert_eq!(device.text("queue/no-such"), None);
                assert!(device.below("no-such").is_none() && device.below("dev").is_none());
            }
            let Some(devno) = disk.devno() else { continue };
            let again = BlockDir::by_devno(&root, devno).unwrap();
            assert_eq!((again.name(), again.dir()), (disk.name(), disk.dir()));
        }
    }
}
