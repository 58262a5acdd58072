//! What a block device is called where a mistake would destroy data: a name that moves with the device, not with the
//! order in which the kernel found it.

use fathom_sys::devno::DevNo;
use fathom_sys::loopdev;
use fathom_sys::probe::table::{self, PartitionEntry};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fmt;

/// Which property of the device its identifier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceIdKind {
    /// World-wide name, from the drive.
    Wwn,
    /// Serial number, from the drive.
    Serial,
    /// Identifier of a partition, from the partition table.
    PartUuid,
    /// Identifier of a device-mapper device.
    DmUuid,
    /// Identifier of an md array.
    MdUuid,
    /// Absolute path of the file behind a loop device.
    BackingFile,
    /// `NAME:SIZE:DISKSEQ`, which holds for this boot only.
    NameSizeSequence,
}

/// The identifier of a block device; shown as the text that `--destroy` takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Where it comes from.
    pub kind: DeviceIdKind,
    /// One word without blanks or control characters, except that a backing file's path is as it is.
    pub text: String,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The identifier of a device: the first that exists of WWN, serial number, PARTUUID of a partition, UUID of a
/// device-mapper device, UUID of an md array, path of a loop device's backing file, `NAME:SIZE:DISKSEQ`.
///
/// A partition never answers with its disk's WWN or serial number.
#[must_use]
pub fn device_id(root: &SysRoot, devno: DevNo) -> DeviceId {
    use DeviceIdKind::{BackingFile, DmUuid, MdUuid, NameSizeSequence, PartUuid, Serial, Wwn};
    let Some(device) = BlockDir::by_devno(root, devno) else {
        return DeviceId { kind: NameSizeSequence, text: format!("{devno}:0:0") };
    };
    let found = if device.is_partition() {
        partition_entry(root, devno).map(|entry| (PartUuid, entry.uuid))
    } else {
        wwn(&device)
            .map(|text| (Wwn, text))
            .or_else(|| serial(&device).map(|text| (Serial, text)))
            .or_else(|| device.text("dm/uuid").map(|text| (DmUuid, word(&text))))
            .or_else(|| device.text("md/uuid").map(|text| (MdUuid, word(&text))))
            .or_else(|| backing_file(root, devno).map(|text| (BackingFile, text)))
    };
    let (kind, text) = found
        .filter(|(_, text)| !text.is_empty())
        .unwrap_or_else(|| (NameSizeSequence, name_size_sequence(&device)));
    DeviceId { kind, text }
}

/// Other devices that answer with the same identifier, as drives with a factory's dummy serial number do.
#[must_use]
pub fn namesakes(root: &SysRoot, devno: DevNo) -> Vec<DevNo> {
    let own = device_id(root, devno);
    let all = root.names("sys/dev/block");
    all.iter()
        .filter_map(|name| name.parse::<DevNo>().ok())
        .filter(|other| *other != devno && device_id(root, *other) == own)
        .collect()
}

/// What the partition table says about a partition; none for other devices and where it cannot be read.
#[must_use]
pub fn partition_entry(root: &SysRoot, devno: DevNo) -> Option<PartitionEntry> {
    let partition = BlockDir::by_devno(root, devno)?;
    let number: u32 = partition.value("partition")?;
    let disk = partition.disk()?;
    let read = fathom_sys::fsinfo::open_for_questions(&root.path(disk.dev_path()))
        .and_then(|file| table::partition_entry(&file, number))
        .ok()
        .flatten();
    // The kernel's word comes first: it is what the partition was made from.
    let uuid = uevent(&partition, "PARTUUID").map(|uuid| uuid.to_lowercase());
    match (uuid, read) {
        (Some(uuid), Some(entry)) if entry.uuid == uuid => Some(entry),
        (Some(uuid), _) => Some(PartitionEntry { uuid, type_id: None }),
        (None, read) => read,
    }
}

fn wwn(device: &BlockDir) -> Option<String> {
    ["wwid", "device/wwid", "wwn", "device/wwn"]
        .iter()
        .filter_map(|attribute| device.text(attribute))
        .find_map(|text| meaningful(&text))
}

fn serial(device: &BlockDir) -> Option<String> {
    let unit_serial = || {
        let page = device.bytes("device/vpd_pg80")?;
        let len = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
        let text = page.get(4..)?;
        meaningful(&String::from_utf8_lossy(text.get(..len).unwrap_or(text)))
    };
    let attribute = |name| device.text(name).and_then(|text: String| meaningful(&text));
    attribute("serial").or_else(unit_serial).or_else(|| attribute("device/serial"))
}

/// None for a number that says nothing: nothing but zeros after its prefix (`naa.`, `eui.`, `0x`).
fn meaningful(text: &str) -> Option<String> {
    let text = word(text);
    let number = text.rsplit_once('.').map_or(text.as_str(), |(_, number)| number);
    let number = number.strip_prefix("0x").unwrap_or(number);
    (!number.chars().all(|c| matches!(c, '0' | '_' | '-'))).then_some(text)
}

/// One word that can be typed: runs of anything but visible ASCII become one underscore.
fn word(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_graphic()).filter(|part| !part.is_empty()).collect();
    words.join("_")
}

fn backing_file(root: &SysRoot, devno: DevNo) -> Option<String> {
    let path = loopdev::by_devno(root, devno)?.backing_path_verified(root)?;
    let text = path.to_str()?;
    (path.is_absolute() && !text.chars().any(char::is_control)).then(|| text.to_owned())
}

fn name_size_sequence(device: &BlockDir) -> String {
    let disk = device.disk();
    let sequence: u64 = disk.and_then(|disk| disk.value("diskseq")).unwrap_or(0);
    format!("{}:{}:{sequence}", device.name(), device.size_bytes().unwrap_or(0))
}

fn uevent(device: &BlockDir, key: &str) -> Option<String> {
    let text = device.text("uevent")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// A recorded machine that a test builds up.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let dir = format!("fathom-identity-{name}-{}", std::process::id());
            let tree = Self(std::env::temp_dir().join(dir));
            std::fs::create_dir_all(tree.0.join("sys/dev/block")).unwrap();
            std::fs::create_dir_all(tree.0.join("dev")).unwrap();
            tree
        }

        fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> &Self {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
            self
        }

        /// Adds a device at `sys/devices/DIR` with attributes.
        fn device(&self, dir: &str, devno: &str, attributes: &[(&str, &str)]) -> &Self {
            self.put(&format!("sys/devices/{dir}/dev"), devno);
            for (name, text) in attributes {
                self.put(&format!("sys/devices/{dir}/{name}"), text);
            }
            let link = self.0.join("sys/dev/block").join(devno);
            std::os::unix::fs::symlink(Path::new("../../devices").join(dir), &link).unwrap();
            let class = self.0.join("sys/class/block");
            std::fs::create_dir_all(&class).unwrap();
            let name = Path::new(dir).file_name().unwrap();
            std::os::unix::fs::symlink(Path::new("../../devices").join(dir), class.join(name))
                .unwrap();
            self
        }

        fn id(&self, devno: &str) -> (DeviceIdKind, String) {
            let id = device_id(&SysRoot::at(&self.0), devno.parse().unwrap());
            (id.kind, id.text)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn expect(tree: &Tree, devno: &str, kind: DeviceIdKind, text: &str) {
        assert_eq!(tree.id(devno), (kind, text.to_owned()));
    }

    #[test]
    fn the_first_that_exists_wins() {
        let tree = Tree::new("order");
        let wwid = ("device/wwid", "naa.5000c500a1b2c3d4\n");
        let serial = ("device/vpd_pg80", "\0\u{80}\0\u{8}WD-123  ");
        tree.device("a/sda", "8:0", &[wwid, serial]);
        expect(&tree, "8:0", DeviceIdKind::Wwn, "naa.5000c500a1b2c3d4");
        tree.device("b/vdb", "254:16", &[("serial", "disk 7\n")]);
        expect(&tree, "254:16", DeviceIdKind::Serial, "disk_7");
        let blank = [("wwid", "eui.0000000000000000"), ("device/serial", "S4EW\n")];
        tree.device("c/nvme0n1", "259:0", &blank);
        expect(&tree, "259:0", DeviceIdKind::Serial, "S4EW");
        tree.device("d/dm-0", "252:0", &[("dm/uuid", "LVM-abc"), ("md/uuid", "x")]);
        expect(&tree, "252:0", DeviceIdKind::DmUuid, "LVM-abc");
        tree.device("e/md0", "9:0", &[("md/uuid", "1:2:3:4")]);
        expect(&tree, "9:0", DeviceIdKind::MdUuid, "1:2:3:4");
        let plain = [("size", "2048\n"), ("diskseq", "17\n"), ("serial", "00000000")];
        tree.device("f/sdf", "8:80", &plain);
        expect(&tree, "8:80", DeviceIdKind::NameSizeSequence, "sdf:1048576:17");
        expect(&tree, "8:96", DeviceIdKind::NameSizeSequence, "8:96:0:0");
    }

    #[test]
    fn the_vital_product_data_page_is_read_by_its_length() {
        let tree = Tree::new("vpd");
        tree.device("a/sda", "8:0", &[]);
        tree.put("sys/devices/a/sda/device/vpd_pg80", b"\0\x80\0\x08  SER 12junk");
        expect(&tree, "8:0", DeviceIdKind::Serial, "SER_12");
    }

    #[test]
    fn a_partition_is_never_its_disk() {
        let tree = Tree::new("part");
        let disk = [("device/wwid", "naa.5000"), ("serial", "S1"), ("diskseq", "5")];
        tree.device("a/sda", "8:0", &disk);
        let uevent = ("uevent", "DEVNAME=sda1\nPARTN=1\nPARTUUID=ABCD-01\n");
        tree.device("a/sda/sda1", "8:1", &[("partition", "1"), uevent]);
        expect(&tree, "8:1", DeviceIdKind::PartUuid, "abcd-01");
        // No word from the kernel: the table itself is read.
        tree.device("a/sda/sda2", "8:2", &[("partition", "2"), ("size", "8")]);
        expect(&tree, "8:2", DeviceIdKind::NameSizeSequence, "sda2:4096:5");
        let mut mbr = vec![0; 8192];
        mbr[440..444].copy_from_slice(&0x1234_5678_u32.to_le_bytes());
        mbr[462 + 4] = 0x83;
        mbr[510..512].copy_from_slice(b"\x55\xaa");
        tree.put("dev/sda", &mbr);
        expect(&tree, "8:2", DeviceIdKind::PartUuid, "12345678-02");
    }

    #[test]
    fn a_loop_device_is_its_file_while_the_path_leads_there() {
        let tree = Tree::new("loop");
        tree.put("srv/a disk.img", "x");
        tree.device("a/loop0", "7:0", &[("loop/backing_file", "/srv/a disk.img\n")]);
        expect(&tree, "7:0", DeviceIdKind::BackingFile, "/srv/a disk.img");
        let gone = [("loop/backing_file", "/srv/b.img (deleted)"), ("size", "2")];
        tree.device("a/loop1", "7:1", &gone);
        expect(&tree, "7:1", DeviceIdKind::NameSizeSequence, "loop1:1024:0");
    }

    #[test]
    fn two_drives_with_one_serial_number_are_told() {
        let tree = Tree::new("twins");
        for (dir, devno) in [("a/sda", "8:0"), ("b/sdb", "8:16"), ("c/sdc", "8:32")] {
            let serial = if dir == "c/sdc" { "OTHER" } else { "0123456789ABCDEF" };
            tree.device(dir, devno, &[("serial", serial)]);
        }
        let root = SysRoot::at(&tree.0);
        assert_eq!(namesakes(&root, "8:0".parse().unwrap()), ["8:16".parse().unwrap()]);
        assert_eq!(namesakes(&root, "8:32".parse().unwrap()), []);
    }
}
