//! What somebody else has made, since, of something that fathom built: it keeps that from being taken down. Taking an array, a
//! volume or a partition away takes everything on it away as well.

use super::{Undoing, all_devices};
use crate::known::{self, is_same_uuid};
use crate::tools::Call;
use crate::{Undo, old, volume};
use fathom_guard::changes::Entry;
use fathom_inspect::identity::{self, DeviceIdKind};
use fathom_model::change::Change;
use fathom_model::change::setup::SetupChange;
use fathom_sys::blkdev;
use fathom_sys::probe::{self, table};
use fathom_sys::sysfs_block::BlockDir;
use std::fs::{self, File};
use std::path::Path;

/// As many as a GPT has by custom.
const ENTRIES: u32 = 128;

impl Undoing<'_> {
    /// What is on a built device and is not ours; none when there is nothing. Of one that cannot be read, such as a failed array,
    /// nobody could say more.
    pub(super) fn theirs_on(&self, device: &BlockDir) -> Option<Undo> {
        let path = device.dev_path();
        let found = known::signatures(path.as_ref()).unwrap_or_default();
        let is_ours = self.known.judge(&found);
        let theirs = found.iter().filter(|s| !is_ours(s)).map(|s| (s.offset_bytes, s.name));
        let theirs: Vec<(u64, &str)> = theirs.collect();
        if theirs.is_empty() || self.is_old(device, &theirs) {
            return None;
        }
        let names: Vec<&str> = theirs.iter().map(|s| s.1).collect();
        Some(changed(format!("{} on {path}", names.join(", "))))
    }

    /// True when what shows on a built device, and on partitions that the kernel found there, was on the devices below before: the
    /// process died before it had wiped it, and nobody has written to it since.
    fn is_old(&self, device: &BlockDir, found: &[(u64, &str)]) -> bool {
        let own = device.devno().map(|devno| identity::device_id(self.root, devno));
        let mapped = device.text("dm/name");
        let further = old::in_partitions(device);
        let places: Vec<u64> = found.iter().chain(&further).map(|place| place.0).collect();
        let is_same_boot = self.is_same_boot();
        (0..).map_while(|step| self.log.entry(step)).any(|entry| match &entry.change {
            Change::Setup(SetupChange::OldData { name, since_s, blocks: None, .. }) => {
                (name == device.name() || Some(name) == mapped.as_ref())
                    && is_same_boot
                    && old::is_untouched(self.root, device, *since_s)
            }
            Change::Setup(SetupChange::OldData { id: Some(id), blocks: Some(blocks), .. }) => {
                let is_meant = own.as_ref().is_some_and(|own| own.is_meant_by(id));
                is_meant && old::are_noted(device, &places, blocks)
            }
            _ => false,
        })
    }

    /// An entry of our partition table, or a partition that the kernel has, that is not ours, or something on ours that is not.
    pub(super) fn theirs_on_partitions(
        &mut self,
        device: &BlockDir,
        has_our_table: bool,
        partitions: &[String],
    ) -> Option<Undo> {
        let path = device.dev_path();
        let is_ours = |uuid: &str| partitions.iter().any(|known| is_same_uuid(known, uuid));
        if has_our_table {
            let entries = entries(path.as_ref());
            if let Some((number, _)) = entries.iter().find(|(_, uuid)| !is_ours(uuid)) {
                return Some(changed(format!("partition {number} in our table on {path}")));
            }
            if !entries.is_empty() && device.partitions().is_empty() {
                // A kernel that has not read the table does not show what is in the partitions.
                self.run(&Call::new("partx", ["--add", &path])).ok();
            }
        }
        let is_known = |partition: &BlockDir| {
            let id = partition.devno().map(|devno| identity::device_id(self.root, devno));
            id.is_some_and(|id| is_ours(&id.text))
        };
        let kernels = device.partitions();
        if !kernels.iter().all(is_known) {
            let names: Vec<&str> = kernels.iter().map(BlockDir::name).collect();
            return Some(changed(format!("partitions {} on {path}", names.join(", "))));
        }
        kernels.iter().find_map(|partition| self.theirs_on(partition))
    }

    /// What stands in the way of removing a file of a loop device: another file in its place, or a filesystem of somebody's in it.
    /// What has no UUID may be the beginning of one of ours.
    pub(super) fn theirs_in_file(&self, path: &Path, size_bytes: u64) -> Option<Undo> {
        let meta = fs::symlink_metadata(path).ok()?;
        if !meta.is_file() || meta.len() > size_bytes {
            return Some(changed(format!("{} is another file by now", path.display())));
        }
        let found = File::open(path).and_then(|file| probe::signatures(&file, meta.len()));
        let found = found.unwrap_or_default();
        let is_theirs =
            |s: &&probe::Signature| s.uuid.as_deref().is_some_and(|uuid| !self.known.has(uuid));
        let theirs = found.iter().find(is_theirs)?;
        Some(changed(format!("{} in {}", theirs.name, path.display())))
    }

    /// Logical volumes on these physical volumes, as `GROUP/NAME`.
    pub(super) fn volumes_on(&mut self, uuids: &[String]) -> Result<Vec<String>, String> {
        let config = volume::config(&self.physical_volumes(uuids));
        let call = Call::new("lvm", ["lvs", &config, "--noheadings", "-o", "lv_full_name"]);
        let listed = self.run(&call)?;
        Ok(listed
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect())
    }

    /// Volumes on these physical volumes: they would go with the group, or with the labels.
    pub(super) fn volumes_in_the_way(&mut self, uuids: &[String]) -> Option<Undo> {
        let volumes = match self.volumes_on(uuids) {
            Ok(volumes) if volumes.is_empty() => return None,
            Ok(volumes) => volumes,
            Err(said) => return Some(Undo::Failed(said)),
        };
        let is_ours = |full: &String| {
            let mut entries = (0..).map_while(|step| self.log.entry(step));
            entries.any(|entry| {
                matches!(&entry.change, Change::Setup(SetupChange::Volume { group, name, .. })
                    if *full == format!("{group}/{name}"))
            })
        };
        let theirs: Vec<&String> = volumes.iter().filter(|full| !is_ours(full)).collect();
        Some(match theirs.first() {
            Some(theirs) => changed(format!("logical volume {theirs}")),
            None => Undo::Failed(format!("volume {} is still there", volumes.join(", "))),
        })
    }

    /// The device by its identifier. One that is valid for a boot only may mean another device after it: then the one of the same
    /// size that carries our UUID is it, when no more carry it than we wrote it to. A device that has an identifier of its own
    /// is found by that or not at all: what else carries our UUID is a copy, which is somebody's.
    pub(super) fn find(&self, id: &str, uuid: &str, most: usize) -> Option<BlockDir> {
        let numbers = self.root.names("sys/dev/block");
        let mut numbers = numbers.iter().filter_map(|name| name.parse().ok());
        let named = numbers.find(|devno| self.means(*devno, id));
        let named = named.and_then(|devno| BlockDir::by_devno(self.root, devno));
        let named = named.filter(|device| self.stands_on_ours(device, id));
        let Some(size_bytes) = size_in_name(id) else { return named };
        let carries = |device: &BlockDir| {
            let found = known::signatures(device.dev_path().as_ref()).unwrap_or_default();
            found.iter().filter_map(|s| s.uuid.as_deref()).any(|u| is_same_uuid(u, uuid))
        };
        if named.as_ref().is_some_and(carries) {
            return named;
        }
        let has_no_other_name = |device: &BlockDir| {
            let id = device.devno().map(|devno| identity::device_id(self.root, devno));
            id.is_some_and(|id| id.kind == DeviceIdKind::NameSizeSequence)
        };
        let mut found = all_devices(self.root);
        found.retain(|device| {
            device.size_bytes() == Some(size_bytes) && has_no_other_name(device) && carries(device)
        });
        let carrying = (found.len() <= most).then(|| found.into_iter().next()).flatten();
        carrying.or(named)
    }

    /// How many devices that can be taken for this one may still carry a UUID of ours: btrfs has the same on all of its devices. What was
    /// taken back carries none any more, and what does is a copy.
    pub(super) fn still_carry(&self, id: &str, uuid: &str) -> usize {
        let pending = self.log.pending();
        let ids = pending.iter().filter_map(|entry| match &entry.change {
            Change::Setup(SetupChange::Signature { device_id, uuid: written, .. }) => {
                is_same_uuid(written, uuid).then_some(device_id.as_str())
            }
            _ => None,
        });
        nameless_like(id, &ids.collect::<Vec<_>>())
    }

    /// False for an array or a partition of ours, by its identifier, that lies on a copy of the devices on which it was made.
    pub(super) fn stands_on_ours(&self, device: &BlockDir, id: &str) -> bool {
        let is_one_of = |below: &BlockDir, ids: &[&str]| {
            below.devno().is_none_or(|devno| {
                let id = identity::device_id(self.root, devno);
                let is_meant = ids.iter().any(|known| self.means(devno, known));
                let is_nameless = id.kind == DeviceIdKind::NameSizeSequence;
                (is_meant && self.stands_on_ours(below, &id.text)) || is_nameless
            })
        };
        let stands = |entry: &Entry| match &entry.change {
            Change::Setup(SetupChange::Table { device_id, partitions, .. })
                if partitions.iter().any(|known| is_same_uuid(known, id)) =>
            {
                device.disk().is_none_or(|disk| is_one_of(&disk, &[device_id]))
            }
            Change::Setup(SetupChange::Array { uuid, members, .. }) if is_same_uuid(uuid, id) => {
                let ids: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
                let slaves = device.slaves();
                slaves.is_empty() || slaves.iter().any(|slave| is_one_of(slave, &ids))
            }
            _ => true,
        };
        (0..).map_while(|step| self.log.entry(step)).all(stands)
    }
}

fn changed(found: String) -> Undo {
    Undo::ChangedBySomebody { found }
}

/// Numbers and UUIDs of the partitions that a table has.
fn entries(path: &Path) -> Vec<(u32, String)> {
    let Ok(disk) = blkdev::open_to_look(path, false) else { return Vec::new() };
    let entry = |number| {
        let entry = table::partition_entry(&disk, number).ok().flatten()?;
        Some((number, entry.uuid))
    };
    (1..=ENTRIES).filter_map(entry).collect()
}

/// How many devices, of those with these identifiers, can be taken for the one with this: all that have no name of their own either, and its
/// size.
pub(super) fn nameless_like(id: &str, ids: &[&str]) -> usize {
    let size_bytes = size_in_name(id);
    ids.iter().filter(|other| size_in_name(other) == size_bytes).count()
}

/// The size in `NAME:SIZE:DISKSEQ`; none for every other identifier.
fn size_in_name(id: &str) -> Option<u64> {
    let (rest, sequence) = id.rsplit_once(':')?;
    let (name, size) = rest.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_name = !name.is_empty() && !name.contains(['/', ':']);
    (is_name && is_number(sequence) && is_number(size)).then(|| size.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_guard::changes::ChangeLog;
    use fathom_guard::faults::Faults;
    use fathom_sys::sysroot::SysRoot;

    /// A filesystem over three devices, one of them larger; one is wiped. Two devices that carry its UUID cannot both be the one that is left.
    #[test]
    fn what_was_taken_back_makes_room_for_no_copy() {
        let (root, dir) = (SysRoot::live(), tempfile::tempdir().expect("a directory"));
        let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("a log");
        let uuid = "0b5e1f1a-7c7d-4a55-9d3b-9a3c8a3a2c11";
        let mut written = |id: &str, uuid: &str| {
            let (device_id, name, uuid) = (id.to_owned(), "sdx".to_owned(), uuid.to_owned());
            let signature = "btrfs".to_owned();
            let change = SetupChange::Signature { device_id, name, signature, uuid };
            log.intend(Change::Setup(change)).expect("noted")
        };
        let [one, two, large] = ["sdb:1048576:17", "sdc:1048576:18", "sdd:2097152:19"];
        let steps = [one, two, large].map(|id| written(id, uuid));
        written("sde:1048576:20", "another");
        written("wwn-0x5000c500a1b2c3d4", uuid);
        let count = |log: &ChangeLog, id: &str| {
            Undoing::new(&root, log, &mut |_: &str| ()).still_carry(id, uuid)
        };
        assert_eq!((count(&log, one), count(&log, two), count(&log, large)), (2, 2, 1));
        log.undone(steps[2]).expect("noted");
        log.undone(steps[1]).expect("noted");
        assert_eq!(count(&log, one), 1);
    }

    /// The members of an array that are left.
    #[test]
    fn only_like_devices_are_taken_for_each_other() {
        let ids = ["sdb:1048576:17", "sdc:1048576:18", "sdd:2097152:19", "wwn-0x5000c500a1b2c3d4"];
        assert_eq!(ids.map(|id| nameless_like(id, &ids)), [2, 2, 1, 1]);
    }

    #[test]
    fn only_names_of_one_boot_have_a_size() {
        assert_eq!(size_in_name("sdb:1048576:17"), Some(1_048_576));
        for id in [
            "naa.5000c500a1b2c3d4",
            "a:1:2:3",
            "/var/a:1:2",
            "0a1b:0011:4455:8899",
            ":1:2",
            "sdb::2",
        ] {
            assert_eq!(size_in_name(id), None, "{id}");
        }
    }
}
