//! What is on a device and whose it is: signatures are ours when their UUID was in the journal before they were written.

use fathom_guard::changes::ChangeLog;
use fathom_model::change::Change;
use fathom_model::change::setup::SetupChange;
use fathom_sys::blkdev;
use fathom_sys::devno::DevNo;
use fathom_sys::probe::{self, Signature};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::io;
use std::path::Path;

/// UUIDs that fathom chose, in one spelling.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    uuids: Vec<String>,
}

impl Known {
    /// All of a journal, also of what was taken back: a copy of it may show elsewhere, such as on the members of an array.
    pub fn of(log: &ChangeLog) -> Self {
        let mut known = Self::default();
        for entry in (0..).map_while(|step| log.entry(step)) {
            if let Change::Setup(change) = &entry.change {
                known.add_change(change);
            }
        }
        known
    }

    fn add_change(&mut self, change: &SetupChange) {
        match change {
            SetupChange::Table { guid, .. } => self.add(guid),
            SetupChange::Array { uuid, .. } | SetupChange::Signature { uuid, .. } => self.add(uuid),
            SetupChange::Group { uuids, .. } | SetupChange::Volume { uuids, .. } => {
                uuids.iter().for_each(|uuid| self.add(uuid));
            }
            SetupChange::Given { .. }
            | SetupChange::Directory { .. }
            | SetupChange::LoopFile { .. }
            | SetupChange::Loop { .. }
            | SetupChange::Crypt { .. }
            | SetupChange::Multipath { .. }
            | SetupChange::OldData { .. }
            | SetupChange::Mount { .. } => {}
        }
    }

    /// One more.
    pub fn add(&mut self, uuid: &str) {
        self.uuids.push(plain(uuid));
    }

    /// True when it is one of them, however it is written.
    pub fn has(&self, uuid: &str) -> bool {
        !plain(uuid).is_empty() && self.uuids.iter().any(|known| is_same_uuid(known, uuid))
    }

    fn has_made(&self, signature: &Signature) -> bool {
        signature.uuid.as_deref().is_some_and(|uuid| self.has(uuid))
    }

    /// Which of the signatures are ours: the protective MBR goes with the GPT.
    pub fn judge<'a>(&'a self, found: &[Signature]) -> impl Fn(&Signature) -> bool + 'a {
        let has_our_table = found.iter().any(|s| s.name.starts_with("GPT") && self.has_made(s));
        move |s| self.has_made(s) || (has_our_table && s.name == "MBR (protective)")
    }
}

/// Letters and digits; hexadecimal ones small, because tools write them both ways. LVM's UUIDs, which are not
/// hexadecimal, keep their case.
fn plain(uuid: &str) -> String {
    let text: String = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { text.to_ascii_lowercase() } else { text }
}

/// True when both mean the same UUID, also when one is in the order of md's old superblocks (0.90): these hold four numbers,
/// whose bytes mdadm shows the other way round.
pub(crate) fn is_same_uuid(a: &str, b: &str) -> bool {
    let (a, b) = (plain(a), plain(b));
    a == b || (a.len() == 32 && b.len() == 32 && swapped(&a) == b)
}

fn swapped(digits: &str) -> String {
    let group = |group: &[u8]| group.chunks(2).rev().flatten().copied().collect::<Vec<u8>>();
    let bytes = digits.as_bytes().chunks(8).flat_map(group).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

/// What is recognisable on a device, without holding it.
///
/// # Errors
/// Those of opening and reading.
pub(crate) fn signatures(path: &Path) -> io::Result<Vec<Signature>> {
    let file = blkdev::open_to_look(path, false)?;
    let size_bytes = blkdev::size_bytes(&file)?;
    probe::signatures(&file, size_bytes)
}

/// The arrays with that UUID, by whatever name, also those that were assembled only in part. `name` with these members
/// alone counts where neither the array nor a member tells a UUID: one that was being created may not know it yet.
pub(crate) fn arrays(
    root: &SysRoot,
    uuid: &str,
    name: &str,
    is_member: &dyn Fn(DevNo) -> bool,
) -> Vec<BlockDir> {
    let is_wanted = |disk: &BlockDir| {
        if !disk.name().starts_with("md") {
            return false;
        }
        let is_told = |own: &String| own.contains(|c: char| !"0-:".contains(c)) && own != "none";
        let slaves = disk.slaves();
        let on_slaves = slaves.iter().flat_map(|slave| {
            let found = signatures(slave.dev_path().as_ref()).unwrap_or_default();
            found.into_iter().filter(|s| s.name.starts_with("md ")).filter_map(|s| s.uuid)
        });
        let told: Vec<String> =
            disk.text("md/uuid").filter(is_told).into_iter().chain(on_slaves).collect();
        if !told.is_empty() {
            return told.iter().any(|own| is_same_uuid(own, uuid));
        }
        let is_ours = |slave: &BlockDir| slave.devno().is_some_and(is_member);
        disk.name() == name && !slaves.is_empty() && slaves.iter().all(is_ours)
    };
    BlockDir::disks(root).into_iter().filter(is_wanted).collect()
}

/// The device of device-mapper with that name.
pub(crate) fn mapped(root: &SysRoot, name: &str) -> Option<BlockDir> {
    BlockDir::disks(root).into_iter().find(|disk| disk.text("dm/name").as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_inspect::identity;
    use fathom_sys::probe::SignatureKind;

    fn signature(name: &'static str, uuid: Option<&str>) -> Signature {
        let kind = SignatureKind::Filesystem;
        Signature { kind, name, offset_bytes: 0, uuid: uuid.map(str::to_owned), label: None }
    }

    #[test]
    fn uuids_are_the_same_however_tools_write_them() {
        let mut known = Known::default();
        known.add("0A1B2C3D:00112233:44556677:8899aabb");
        assert!(known.has("0a1b2c3d-0011-2233-4455-66778899aabb"));
        assert!(!known.has("1a1b2c3d-0011-2233-4455-66778899aabb") && !known.has(""));
        assert!(
            known.has("3d2c1b0a:33221100:77665544:bbaa9988"),
            "as it stands in an old superblock"
        );
        known.add("qx3ILb-CBOo-i3OH");
        assert!(known.has("qx3ILbCBOoi3OH") && !known.has("QX3ILbCBOoi3OH"));
    }

    #[test]
    fn an_array_of_somebodys_with_our_name_on_our_disks_is_theirs() {
        use fathom_testkit::Tree;
        const OURS: &str = "0a1b2c3d:00112233:44556677:8899aabb";
        let found = |uuid: &str| {
            let tree = Tree::new();
            tree.device("a/sdzz", "8:0", &[("serial", "S1")]);
            tree.device("m/md200", "9:200", &[("md/uuid", uuid)]);
            tree.link("sys/devices/m/md200/slaves/sdzz", "../../../a/sdzz");
            tree.link("sys/block/md200", "../devices/m/md200");
            let root = tree.root();
            let is_member = |devno| identity::device_id(&root, devno).is_meant_by("S1");
            arrays(&root, OURS, "md200", &is_member).len()
        };
        assert_eq!(found("0a1b2c3d-0011-2233-4455-66778899aabb"), 1);
        assert_eq!(found("11111111-0011-2233-4455-66778899aabb"), 0);
        // One that was being made does not know its UUID yet.
        assert_eq!(found("00000000-0000-0000-0000-000000000000"), 1);
    }

    #[test]
    fn what_has_no_uuid_of_ours_is_somebodys() {
        let mut known = Known::default();
        known.add("11");
        let table = [signature("GPT", Some("11")), signature("MBR (protective)", None)];
        assert!(table.iter().all(known.judge(&table)));
        let foreign = [signature("GPT", Some("12")), signature("MBR (protective)", None)];
        assert!(!foreign.iter().any(known.judge(&foreign)));
        let mixed = [signature("ext4", None), signature("xfs", Some("11"))];
        let ours: Vec<bool> = mixed.iter().map(known.judge(&mixed)).collect();
        assert_eq!(ours, [false, true]);
    }
}
