//! What a block device is called where a mistake would destroy data: a name that moves with the device, not with the
//! order in which the kernel found it.

use crate::layers::is_suspended;
use fathom_sys::devno::DevNo;
use fathom_sys::loopdev;
use fathom_sys::probe::table::{self, PartitionEntry};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fmt;
use std::path::PathBuf;

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
    /// Another way to write it: the UUID of an md array as sysfs has it, where `text` is as mdadm shows it; of a loop device
    /// `NAME:SIZE:DISKSEQ`, which it is called where its file has no path, as in a container.
    pub also: Option<String>,
}

impl DeviceId {
    fn new(kind: DeviceIdKind, text: String) -> Self {
        Self { kind, text, also: None }
    }

    /// True when somebody who writes this means this device.
    #[must_use]
    pub fn is_meant_by(&self, text: &str) -> bool {
        self.text == text || self.also.as_deref() == Some(text)
    }

    /// Its text without what a boot changes.
    #[must_use]
    pub fn lasting(&self) -> &str {
        match (self.kind, self.text.rsplit_once(':')) {
            (DeviceIdKind::NameSizeSequence, Some((name_and_size, _))) => name_and_size,
            _ => &self.text,
        }
    }
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
        return DeviceId::new(NameSizeSequence, format!("{devno}:0:0"));
    };
    let id = |kind| move |text| DeviceId::new(kind, text);
    let found = if device.is_partition() {
        let read = || partition_entry(root, devno).map(|entry| entry.uuid);
        part_uuid(&device).or_else(read).map(id(PartUuid))
    } else {
        let md = |text| DeviceId { also: device.text("md/uuid"), ..id(MdUuid)(text) };
        let sequence = || Some(name_size_sequence(&device));
        let shown = |text| DeviceId { also: sequence(), ..id(BackingFile)(text) };
        wwn(&device)
            .map(id(Wwn))
            .or_else(|| serial(&device).map(id(Serial)))
            .or_else(|| device.text("dm/uuid").map(|text| id(DmUuid)(word(&text))))
            .or_else(|| md_uuid(&device).map(md))
            .or_else(|| backing_file(root, devno).map(shown))
    };
    found
        .filter(|found| !found.text.is_empty())
        .unwrap_or_else(|| id(NameSizeSequence)(name_size_sequence(&device)))
}

/// The UUID of an md array as mdadm shows it: four groups with colons, where sysfs has five with dashes. Superblocks of
/// version 0.90 hold four numbers, whose bytes stand the other way round in sysfs. None for arrays with foreign metadata
/// (DDF, IMSM), whose UUID the kernel does not know, and what is no UUID stays as it is.
pub(crate) fn md_uuid(device: &BlockDir) -> Option<String> {
    let text = device.text("md/uuid").and_then(|text| meaningful(&text))?;
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Some(text);
    }
    let is_swapped = device.text("md/metadata_version").is_some_and(|v| v.starts_with("0.9"));
    let group = |digits: &[u8]| -> String {
        let bytes = digits.chunks(2).map(String::from_utf8_lossy);
        if is_swapped { bytes.rev().collect() } else { bytes.collect() }
    };
    Some(digits.chunks(8).map(group).collect::<Vec<_>>().join(":"))
}

/// Other devices that answer with the same identifier, as drives with a factory's dummy serial number do.
#[must_use]
pub fn namesakes(root: &SysRoot, devno: DevNo) -> Vec<DevNo> {
    let own = device_id(root, devno);
    let all = root.names("sys/dev/block");
    all.iter()
        .filter_map(|name| name.parse::<DevNo>().ok())
        .filter(|other| *other != devno && device_id(root, *other).is_meant_by(&own.text))
        .collect()
}

/// The node of a device that somebody who writes this identifier means; none where there is none.
#[must_use]
pub fn path_of(root: &SysRoot, text: &str) -> Option<PathBuf> {
    let all = root.names("sys/dev/block");
    let mut all = all.iter().filter_map(|name| name.parse::<DevNo>().ok());
    let devno = all.find(|devno| device_id(root, *devno).is_meant_by(text))?;
    BlockDir::by_devno(root, devno).map(|device| device.dev_path().into())
}

/// What the partition table says about a partition; none for other devices and where it cannot be read.
#[must_use]
pub fn partition_entry(root: &SysRoot, devno: DevNo) -> Option<PartitionEntry> {
    let partition = BlockDir::by_devno(root, devno)?;
    let number: u32 = partition.value("partition")?;
    let disk = partition.disk()?;
    let open = || fathom_sys::fsinfo::open_for_questions(&root.path(disk.dev_path())).ok();
    let read = (!is_suspended(&disk)).then(open).flatten();
    let read = read.and_then(|file| table::partition_entry(&file, number).ok().flatten());
    // The kernel's word comes first: it is what the partition was made from.
    match (part_uuid(&partition), read) {
        (Some(uuid), Some(entry)) if entry.uuid == uuid => Some(entry),
        (Some(uuid), _) => Some(PartitionEntry { uuid, type_id: None }),
        (None, read) => read,
    }
}

/// The kernel's word, for which nothing has to be read from the disk.
fn part_uuid(partition: &BlockDir) -> Option<String> {
    uevent(partition, "PARTUUID").map(|uuid| uuid.to_lowercase())
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

/// None for a number that says nothing: nothing but zeros after its prefix (`naa.`, `eui.`, `0x`), or what the kernel prints
/// where a driver has none.
fn meaningful(text: &str) -> Option<String> {
    let text = word(text);
    let number = text.rsplit_once('.').map_or(text.as_str(), |(_, number)| number);
    let number = number.strip_prefix("0x").unwrap_or(number);
    (text != "(null)" && !number.chars().all(|c| matches!(c, '0' | '_' | '-'))).then_some(text)
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
    use fathom_testkit::Tree;

    fn expect(tree: &Tree, devno: &str, kind: DeviceIdKind, text: &str) {
        let id = device_id(&tree.root(), devno.parse().unwrap());
        assert_eq!((id.kind, id.text), (kind, text.to_owned()));
    }

    #[test]
    fn the_first_that_exists_wins() {
        let tree = Tree::new();
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
        let nothing = ("md/uuid", "00000000-0000-0000-0000-000000000000");
        tree.device("e/md9", "9:9", &[nothing, ("size", "2"), ("diskseq", "3")]);
        expect(&tree, "9:9", DeviceIdKind::NameSizeSequence, "md9:1024:3");
        let plain = [("size", "2048\n"), ("diskseq", "17\n"), ("serial", "00000000")];
        tree.device("f/sdf", "8:80", &plain);
        expect(&tree, "8:80", DeviceIdKind::NameSizeSequence, "sdf:1048576:17");
        expect(&tree, "8:96", DeviceIdKind::NameSizeSequence, "8:96:0:0");
    }

    #[test]
    fn an_array_is_called_as_by_mdadm_and_as_by_sysfs() {
        let tree = Tree::new();
        let sysfs = "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90";
        for (devno, version, mdadm) in [
            ("9:0", "1.2", "a1b2c3d4:e5f60718:293a4b5c:6d7e8f90"),
            ("9:1", "0.90", "d4c3b2a1:1807f6e5:5c4b3a29:908f7e6d"),
        ] {
            let facts = [("md/uuid", sysfs), ("md/metadata_version", version)];
            tree.device(&format!("a/md{}", &devno[2..]), devno, &facts);
            expect(&tree, devno, DeviceIdKind::MdUuid, mdadm);
            let id = device_id(&tree.root(), devno.parse().unwrap());
            assert!(id.is_meant_by(mdadm) && id.is_meant_by(sysfs), "{id:?}");
            assert!(!id.is_meant_by("") && !id.is_meant_by(&mdadm[1..]), "{id:?}");
        }
    }

    #[test]
    fn the_vital_product_data_page_is_read_by_its_length() {
        let tree = Tree::new();
        tree.device("a/sda", "8:0", &[]);
        tree.put("sys/devices/a/sda/device/vpd_pg80", b"\0\x80\0\x08  SER 12junk");
        expect(&tree, "8:0", DeviceIdKind::Serial, "SER_12");
    }

    #[test]
    fn a_partition_is_never_its_disk() {
        let tree = Tree::new();
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
        let tree = Tree::new();
        tree.put("srv/a disk.img", "x");
        tree.device("a/loop0", "7:0", &[("loop/backing_file", "/srv/a disk.img\n")]);
        expect(&tree, "7:0", DeviceIdKind::BackingFile, "/srv/a disk.img");
        let id = device_id(&tree.root(), "7:0".parse().unwrap());
        assert!(id.also.is_some_and(|also| also.starts_with("loop0:")), "as in a container");
        let gone = [("loop/backing_file", "/srv/b.img (deleted)"), ("size", "2")];
        tree.device("a/loop1", "7:1", &gone);
        expect(&tree, "7:1", DeviceIdKind::NameSizeSequence, "loop1:1024:0");
    }

    #[test]
    fn two_drives_with_one_serial_number_are_told() {
        let tree = Tree::new();
        for (dir, devno) in [("a/sda", "8:0"), ("b/sdb", "8:16"), ("c/sdc", "8:32")] {
            let serial = if dir == "c/sdc" { "OTHER" } else { "0123456789ABCDEF" };
            tree.device(dir, devno, &[("serial", serial)]);
        }
        let root = tree.root();
        assert_eq!(namesakes(&root, "8:0".parse().unwrap()), ["8:16".parse().unwrap()]);
        assert_eq!(namesakes(&root, "8:32".parse().unwrap()), []);
    }
}
