//! Taking back what was built, by the journal alone: by the process that built it, or by a later one that knows nothing else. Everything
//! is found by identifiers and UUIDs, never by a name alone; what is not provably ours stays.

mod find;
mod theirs;

use crate::Undo;
use crate::known::{self, Known, is_same_uuid};
use crate::tools::{Call, Tools};
use crate::volume;
use fathom_guard::changes::ChangeLog;
use fathom_guard::file_at::{self, Found};
use fathom_guard::relations::devices_of_mount;
use fathom_guard::{Consent, Protected, claim_ours};
use fathom_inspect::identity;
use fathom_model::change::setup::{BuiltOn, SetupChange};
use fathom_model::change::{Change, FileAt};
use fathom_sys::mounts::{self, Mount};
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{devno::DevNo, loopdev, openers};
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often something that is looked at for a moment, by udev above all, is tried again.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// One taking back.
pub(crate) struct Undoing<'a> {
    root: &'a SysRoot,
    log: &'a ChangeLog,
    known: Known,
    protected: Protected,
    tools: Tools,
    /// Paths mean here what they meant when it was made.
    has_same_paths: bool,
    note: &'a mut dyn FnMut(&str),
}

impl<'a> Undoing<'a> {
    pub fn new(root: &'a SysRoot, log: &'a ChangeLog, note: &'a mut dyn FnMut(&str)) -> Self {
        // The store lies beside the journal.
        let protected = Protected { store_path: log.path().to_owned() };
        let known = Known::of(log);
        let has_same_paths = log.shares_paths(root);
        Self { root, log, known, protected, tools: Tools::default(), has_same_paths, note }
    }

    /// Takes it back.
    pub fn take_back(&mut self, change: &SetupChange) -> Undo {
        match change {
            SetupChange::Directory { path, at } => match self.found(path, at.as_ref()) {
                Ok(path) => self.directory(&path),
                Err(undo) => undo,
            },
            SetupChange::LoopFile { path, size_bytes, at } => {
                self.loop_file(path, *size_bytes, at.as_ref())
            }
            SetupChange::Loop { path, at, .. } => self.loop_device(path, at.as_ref()),
            SetupChange::Table { device_id, name, guid, partitions } => {
                self.table(device_id, name, guid, partitions)
            }
            SetupChange::Array { name, uuid, members } => self.array(name, uuid, members),
            SetupChange::Multipath { name, paths } => self.multipath(name, paths),
            SetupChange::Crypt { name, device_id } => self.crypt(name, device_id),
            SetupChange::Group { name, uuids } => self.group(name, uuids),
            SetupChange::Volume { group, name, uuids } => self.volume(group, name, uuids),
            SetupChange::Signature { device_id, name, uuid, signature } => {
                self.signature(device_id, name, uuid, signature)
            }
            SetupChange::Given { .. } | SetupChange::OldData { .. } => Undo::AlreadyBack,
            SetupChange::Mount { mount_point, device_id } => self.mount(mount_point, device_id),
        }
    }

    /// Runs a tool; why it failed otherwise.
    fn run(&mut self, call: &Call) -> Result<String, String> {
        (self.note)(&call.line());
        self.run_again(call)
    }

    /// The same of one that was told already.
    fn run_again(&mut self, call: &Call) -> Result<String, String> {
        self.log.fault_point(&format!("before {} (taking down)", call.tool));
        let ended =
            self.tools.run(call, &StopFlag::default()).map_err(|error| error.to_string())?;
        self.log.fault_point(&format!("after {} (taking down)", call.tool));
        if ended.is_success() {
            Ok(ended.stdout)
        } else {
            Err(format!("{}: {}", call.line(), ended.said()))
        }
    }

    /// Runs a tool until what it removes is gone.
    fn run_until_gone(&mut self, call: &Call, is_gone: impl Fn(&SysRoot) -> bool) -> Undo {
        let mut said = String::new();
        (self.note)(&call.line());
        for _ in 0..TRIES {
            if let Err(text) = self.run_again(call) {
                said = text;
            }
            if is_gone(self.root) {
                return Undo::Restored;
            }
            thread::sleep(PAUSE);
            // Gone meanwhile: its name may be somebody else's by now.
            if is_gone(self.root) {
                return Undo::Restored;
            }
        }
        Undo::Failed(if said.is_empty() { format!("{}: no effect", call.line()) } else { said })
    }

    fn is_same_boot(&self) -> bool {
        process::boot_id(self.root).is_some_and(|boot| boot == self.log.boot_id())
    }

    /// Something that no boot survives is not there.
    fn not_there(&self) -> Undo {
        if self.is_same_boot() { Undo::AlreadyBack } else { Undo::Rebooted }
    }

    fn directory(&mut self, path: &Path) -> Undo {
        self.log.fault_point("before rmdir");
        let removed = fs::remove_dir(path);
        self.log.fault_point("after rmdir");
        match removed {
            Ok(()) => Undo::Restored,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Undo::AlreadyBack,
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                if self.holds_ours(path) {
                    let what = "holds what could not be taken down, see above";
                    return Undo::Failed(format!("{} {what}", path.display()));
                }
                Undo::ChangedBySomebody { found: format!("{} holds files", path.display()) }
            }
            Err(error) => Undo::Failed(format!("cannot remove {}: {error}", path.display())),
        }
    }

    /// True for a directory in which something of this run is still to be taken down.
    fn holds_ours(&self, dir: &Path) -> bool {
        self.log.pending().iter().any(|entry| match &entry.change {
            Change::Setup(
                SetupChange::Directory { path, at } | SetupChange::LoopFile { path, at, .. },
            ) => {
                let is_ours = |at: &FileAt| at.inode.is_none() || file_at::is_at(path, at);
                let is_there = path.exists() && at.as_ref().is_none_or(is_ours);
                path != dir && path.starts_with(dir) && is_there
            }
            _ => false,
        })
    }

    /// Where a path of the journal leads to here.
    fn found(&self, path: &Path, at: Option<&FileAt>) -> Result<PathBuf, Undo> {
        if self.has_same_paths {
            let moved = at.filter(|_| self.is_same_boot()).and_then(|at| {
                let is_it = |path: &Path| file_at::is_at(path, at);
                if is_it(path) { None } else { self.in_store(&is_it) }
            });
            return Ok(moved.unwrap_or_else(|| path.to_owned()));
        }
        match file_at::find(self.root, path, at, self.is_same_boot()) {
            Found::At(path) => Ok(path),
            Found::Nothing => Err(Undo::AlreadyBack),
            Found::Unknown if at.is_some_and(|at| self.is_seen_in_store(at)) => {
                let named = at.and_then(|at| self.in_store(&|path| file_at::is_at(path, at)));
                named.ok_or(Undo::AlreadyBack)
            }
            Found::Unknown => Err(Undo::NotHere(match at {
                Some(FileAt { device, inside: Some(inside), .. }) => {
                    format!("it was {} on filesystem {device}", inside.display())
                }
                _ => "nothing else is known of it".to_owned(),
            })),
        }
    }

    /// True for a place in the state directory: it is seen, as the journal is, whatever number its filesystem has.
    fn is_seen_in_store(&self, at: &FileAt) -> bool {
        let store = self.store().filter(|_| self.is_same_boot());
        let seen = store.and_then(|store| file_at::note(self.root, store));
        seen.is_some_and(|store| {
            let inside = store.inside.as_ref().zip(at.inside.as_ref());
            store.device == at.device && inside.is_some_and(|(store, at)| at.starts_with(store))
        })
    }

    /// What lies in the state directory, in which it was made, or in a directory there: these may have other names by now.
    fn in_store(&self, is_it: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let store = self.store()?;
        let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
        let dirs: Vec<PathBuf> = list(store).map(|entry| entry.path()).collect();
        let within = dirs.iter().filter(|dir| dir.is_dir() && !dir.is_symlink());
        let within = within.flat_map(|dir| list(dir).map(|entry| entry.path()));
        dirs.iter().cloned().chain(within).find(|path| is_it(path))
    }

    /// The state directory; the journal lies in a directory of it.
    fn store(&self) -> Option<&Path> {
        self.log.path().parent()?.parent()
    }

    fn loop_file(&mut self, path: &Path, size_bytes: u64, at: Option<&FileAt>) -> Undo {
        if let Some(device) = self.loop_over(&self.backing(path, at)) {
            let name = device.name;
            return Undo::Failed(format!("{} is still shown by /dev/{name}", path.display()));
        }
        let path = &match self.found(path, at) {
            Ok(path) => path,
            Err(undo) => return undo,
        };
        if let Some(theirs) = self.theirs_in_file(path, size_bytes) {
            return theirs;
        }
        let noted = at.filter(|at| self.is_same_boot() && at.inode.is_some());
        if noted.is_some_and(|at| path.exists() && !file_at::is_at(path, at)) {
            let found = format!("{} is another file by now", path.display());
            return Undo::ChangedBySomebody { found };
        }
        if let Some(device) = device_over(self.root, path) {
            let found = format!("/dev/{} of somebody's shows {}", device, path.display());
            return Undo::ChangedBySomebody { found };
        }
        self.log.fault_point("before removing a file");
        let removed = fs::remove_file(path);
        self.log.fault_point("after removing a file");
        match removed {
            Ok(()) => Undo::Restored,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Undo::AlreadyBack,
            Err(error) => Undo::Failed(format!("cannot remove {}: {error}", path.display())),
        }
    }

    /// Where the file of a loop device is now that was moved out of the state directory: nobody would find it there when it is detached.
    fn moved_out(&self, device: &loopdev::LoopDevice, path: &Path, at: &FileAt) -> Option<PathBuf> {
        let is_it = |path: &Path| file_at::is_at(path, at);
        let now = device.backing_path.clone().filter(|now| is_it(now))?;
        (!is_it(path) && self.in_store(&is_it).is_none()).then_some(now)
    }

    fn loop_device(&mut self, path: &Path, at: Option<&FileAt>) -> Undo {
        let backing = self.backing(path, at);
        let Some(device) = self.loop_over(&backing) else { return self.not_there() };
        let here = at.filter(|_| self.has_same_paths && self.is_same_boot());
        if let Some(now) = here.and_then(|at| self.moved_out(&device, path, at)) {
            let found = format!("/dev/{} shows {} by now", device.name, now.display());
            return Undo::ChangedBySomebody { found };
        }
        let name = device.name;
        let disk = BlockDir::by_name(self.root, &name);
        let users: Vec<String> = disk
            .iter()
            .flat_map(|disk| [vec![disk.clone()], disk.partitions()].concat())
            .flat_map(|device| device.holders())
            .map(|holder| holder.dev_path())
            .collect();
        if !users.is_empty() {
            return Undo::Failed(format!("/dev/{name} is still used by {}", users.join(", ")));
        }
        let call = Call::new("losetup", ["--detach".to_owned(), format!("/dev/{name}")]);
        self.run_until_gone(&call, move |root| {
            !loopdev::attached(root).iter().any(|device| backing.is_shown_by(root, device))
        })
    }

    fn mount(&mut self, mount_point: &Path, device_id: &str) -> Undo {
        let found = if self.has_same_paths {
            let there = crate::mounting::mount_at_point(self.root, mount_point);
            there.or_else(|| self.mounted_elsewhere(device_id))
        } else {
            let own = mounts::own_mounts(self.root);
            own.into_iter().rfind(|mount| is_same_end(&mount.mount_point, mount_point))
        };
        let Some(mount) = found else {
            if self.has_same_paths || self.log.maker().mounts_are_gone(self.root) {
                return self.not_there();
            }
            let what = "it is mounted in a namespace in which processes run: fathom restore there";
            return Undo::NotHere(what.to_owned());
        };
        let is_moved = self.has_same_paths && mount.mount_point != mount_point;
        let is_in_store = || self.store().is_some_and(|store| mount.mount_point.starts_with(store));
        if is_moved && !is_in_store() {
            let found = format!("it is mounted at {} by now", mount.mount_point.display());
            return Undo::ChangedBySomebody { found };
        }
        let mount_point = &mount.mount_point;
        let devices = devices_of_mount(self.root, &mount);
        if !devices.iter().any(|devno| self.means(*devno, device_id)) {
            let found = format!("{} is mounted at {}", mount.source, mount_point.display());
            return Undo::ChangedBySomebody { found };
        }
        let call = Call::new("umount", [mount_point.display().to_string()]);
        let point = mount_point.to_owned();
        let is_gone = |root: &SysRoot| {
            let mount = crate::mounting::mount_at_point(root, &point);
            let is_ours = |devno: &DevNo| devices.contains(devno);
            mount.is_none_or(|mount| !devices_of_mount(root, &mount).iter().any(is_ours))
        };
        match self.run_until_gone(&call, is_gone) {
            Undo::Failed(said) => Undo::Failed(format!("{said}{}", users_of(self.root, &point))),
            other => other,
        }
    }

    /// Where the device is mounted that is not mounted where it was: directories above it may have other names by now.
    fn mounted_elsewhere(&self, device_id: &str) -> Option<Mount> {
        let has_it = |mount: &Mount| {
            let devices = devices_of_mount(self.root, mount);
            devices.iter().any(|devno| self.means(*devno, device_id))
        };
        mounts::own_mounts(self.root).into_iter().rfind(has_it)
    }

    fn multipath(&mut self, name: &str, paths: &[BuiltOn]) -> Undo {
        let map = known::mapped(self.root, name);
        if let Some(map) = &map {
            let is_path = |devno| paths.iter().any(|path| self.means(devno, &path.id));
            let is_ours = |slave: &BlockDir| slave.devno().is_some_and(is_path);
            let has_our_id = map.text("dm/uuid").as_deref() == Some(name);
            if !has_our_id || !map.slaves().iter().all(is_ours) {
                return Undo::ChangedBySomebody { found: format!("{name} is another map by now") };
            }
            if let Some(theirs) = self.theirs_on(map) {
                return theirs;
            }
            let call = Call::new("dmsetup", ["remove", name]);
            let removed = self.run_until_gone(&call, |root| known::mapped(root, name).is_none());
            if removed != Undo::Restored {
                return removed;
            }
        }
        // What was made on the map lies on the disk, and shows by every path.
        let Some(path) = paths.first() else { return Undo::AlreadyBack };
        match self.blank(&path.id, &path.name, name, paths.len()) {
            Undo::AlreadyBack if map.is_some() => Undo::Restored,
            other => other,
        }
    }

    fn crypt(&mut self, name: &str, device_id: &str) -> Undo {
        let Some(device) = known::mapped(self.root, name) else { return self.not_there() };
        let is_ours =
            |slave: &BlockDir| slave.devno().is_some_and(|devno| self.means(devno, device_id));
        let has_our_kind = device.text("dm/uuid").is_some_and(|uuid| uuid.starts_with("CRYPT-"));
        if !has_our_kind || !device.slaves().iter().all(is_ours) {
            let found = format!("{name} is another device by now");
            return Undo::ChangedBySomebody { found };
        }
        if let Some(theirs) = self.theirs_on(&device) {
            return theirs;
        }
        let call = Call::new("cryptsetup", ["close", name]);
        self.run_until_gone(&call, |root| known::mapped(root, name).is_none())
    }

    /// The physical volumes of these UUIDs, by all names that LVM may know.
    fn physical_volumes(&self, uuids: &[String]) -> Vec<String> {
        let mut paths = Vec::new();
        for device in all_devices(self.root) {
            let found = known::signatures(device.dev_path().as_ref()).unwrap_or_default();
            let is_ours = found
                .iter()
                .filter_map(|s| s.uuid.as_deref())
                .any(|uuid| uuids.iter().any(|ours| is_same_uuid(ours, uuid)));
            if is_ours {
                paths.push(device.dev_path());
                let mapped = device.text("dm/name").map(|name| format!("/dev/mapper/{name}"));
                paths.extend(mapped);
            }
        }
        paths
    }

    fn volume(&mut self, group: &str, name: &str, uuids: &[String]) -> Undo {
        let mapped = format!("{}-{}", group.replace('-', "--"), name.replace('-', "--"));
        let config = volume::config(&self.physical_volumes(uuids));
        let full = format!("{group}/{name}");
        let is_listed = match self.volumes_on(uuids) {
            Ok(volumes) => volumes.contains(&full),
            Err(said) => return Undo::Failed(said),
        };
        if !is_listed {
            return match known::mapped(self.root, &mapped) {
                None => Undo::AlreadyBack,
                Some(device) => Undo::Failed(format!(
                    "{} is active, but LVM knows no volume {full}: dmsetup remove {mapped}",
                    device.dev_path()
                )),
            };
        }
        if known::mapped(self.root, &mapped).is_none() {
            // Only an active one shows what is on it.
            let call = Call::new("lvm", ["lvchange", &config, "--quiet", "--activate=y", &full]);
            if let Err(said) = self.run(&call) {
                return Undo::Failed(said);
            }
        }
        let active = known::mapped(self.root, &mapped);
        if let Some(theirs) = active.and_then(|device| self.theirs_on(&device)) {
            return theirs;
        }
        let call = Call::new("lvm", ["lvremove", &config, "--quiet", "--yes", &full]);
        match self.run(&call) {
            Err(said) => Undo::Failed(said),
            Ok(_) if known::mapped(self.root, &mapped).is_some() => Undo::Failed(format!(
                "{full} was removed, but is still active: dmsetup remove {mapped}"
            )),
            Ok(_) => Undo::Restored,
        }
    }

    fn group(&mut self, name: &str, uuids: &[String]) -> Undo {
        let config = volume::config(&self.physical_volumes(uuids));
        let call = Call::new("lvm", ["vgs", &config, "--noheadings", "-o", "vg_name"]);
        match self.run(&call) {
            Ok(listed) if listed.lines().any(|line| line.trim() == name) => {}
            Ok(_) => return Undo::AlreadyBack,
            Err(said) => return Undo::Failed(said),
        }
        if let Some(in_the_way) = self.volumes_in_the_way(uuids) {
            return in_the_way;
        }
        let call = Call::new("lvm", ["vgremove", &config, "--quiet", "--yes", name]);
        // That it is gone shows when its physical volumes are wiped.
        self.run(&call).map_or_else(Undo::Failed, |_| Undo::Restored)
    }

    /// The arrays with that UUID, or the one of that name that was being created, on devices of ours.
    fn arrays(&self, name: &str, uuid: &str, ids: &[&str]) -> Vec<BlockDir> {
        let is_member = |devno| ids.iter().any(|id| self.means(devno, id));
        let mut arrays = known::arrays(self.root, uuid, name, &is_member);
        arrays.retain(|array| self.stands_on_ours(array, uuid));
        arrays
    }

    fn array(&mut self, name: &str, uuid: &str, members: &[BuiltOn]) -> Undo {
        let ids: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
        let mut is_changed = false;
        for array in self.arrays(name, uuid, &ids) {
            let holders: Vec<String> = array.holders().iter().map(BlockDir::dev_path).collect();
            if !holders.is_empty() {
                return Undo::Failed(format!(
                    "{} is still used by {}",
                    array.dev_path(),
                    holders.join(", ")
                ));
            }
            if let Some(theirs) = self.theirs_on(&array) {
                return theirs;
            }
            let call = Call::new("mdadm", ["--stop".to_owned(), array.dev_path()]);
            let array = array.name().to_owned();
            let stopped = self.run_until_gone(&call, |root| {
                BlockDir::by_name(root, &array).is_none_or(|disk| disk.slaves().is_empty())
            });
            if stopped != Undo::Restored {
                return stopped;
            }
            is_changed = true;
        }
        let mut worst = if is_changed { Undo::Restored } else { Undo::AlreadyBack };
        let mut left = ids;
        for member in members {
            let most = theirs::nameless_like(&member.id, &left);
            let undo = self.blank(&member.id, &member.name, uuid, most);
            if matches!(undo, Undo::Restored | Undo::AlreadyBack) {
                left.retain(|id| *id != member.id);
            }
            worst = worse(worst, undo);
        }
        worst
    }

    fn signature(&mut self, device_id: &str, name: &str, uuid: &str, kind: &str) -> Undo {
        if kind == volume::SIGNATURE {
            let uuids = [uuid.to_owned()];
            if let Some(in_the_way) = self.volumes_in_the_way(&uuids) {
                return in_the_way;
            }
        }
        let most = self.still_carry(device_id, uuid);
        self.blank(device_id, name, uuid, most)
    }

    fn table(&mut self, device_id: &str, name: &str, guid: &str, partitions: &[String]) -> Undo {
        let Some(device) = self.find(device_id, guid, 1) else {
            return self.absent(device_id, name);
        };
        let path = device.dev_path();
        let found = match known::signatures(path.as_ref()) {
            Ok(found) => found,
            Err(error) => return Undo::Failed(format!("{path} cannot be read: {error}")),
        };
        let is_our_table = |s: &fathom_sys::probe::Signature| {
            s.uuid.as_deref().is_some_and(|uuid| is_same_uuid(uuid, guid))
        };
        let has_our_table = found.iter().any(is_our_table);
        if let Some(theirs) = self.theirs_on_partitions(&device, has_our_table, partitions) {
            return theirs;
        }
        let kernels = device.partitions();
        let users: Vec<BlockDir> = kernels.iter().flat_map(BlockDir::holders).collect();
        if let Some(user) = users.first() {
            return Undo::Failed(format!(
                "a partition of {path} is still used by {}",
                user.dev_path()
            ));
        }
        if !kernels.is_empty() {
            let disk = device.name().to_owned();
            let removed =
                self.run_until_gone(&Call::new("partx", ["--delete", &path]), move |root| {
                    BlockDir::by_name(root, &disk).is_none_or(|disk| disk.partitions().is_empty())
                });
            if removed != Undo::Restored {
                return removed;
            }
        }
        match self.blank(device_id, name, guid, 1) {
            Undo::AlreadyBack if !kernels.is_empty() => Undo::Restored,
            other => other,
        }
    }

    /// Makes a device blank on which nothing but ours is.
    fn blank(&mut self, id: &str, name: &str, uuid: &str, most: usize) -> Undo {
        let Some(device) = self.find(id, uuid, most) else { return self.absent(id, name) };
        let path = device.dev_path();
        let found = match known::signatures(path.as_ref()) {
            Ok(found) => found,
            Err(error) => return Undo::Failed(format!("{path} cannot be read: {error}")),
        };
        if found.is_empty() {
            return Undo::AlreadyBack;
        }
        let is_ours = self.known.judge(&found);
        let foreign: Vec<&str> = found.iter().filter(|s| !is_ours(s)).map(|s| s.name).collect();
        if !foreign.is_empty() {
            return Undo::ChangedBySomebody { found: format!("{} on {path}", foreign.join(", ")) };
        }
        let own = device.devno().map(|devno| identity::device_id(self.root, devno).text);
        let consent =
            Consent::new(own.into_iter().collect()).with_paths(self.paths_beside(&device));
        let mode = crate::wipe::FOR_WRITING;
        let claim = claim_ours(self.root, path.as_ref(), &consent, &self.protected, mode, &is_ours);
        let claim = match claim {
            Ok(claim) => claim,
            Err(refusal) => return Undo::Failed(refusal.to_string()),
        };
        let names: Vec<&str> = found.iter().map(|signature| signature.name).collect();
        (self.note)(&format!("wiping {} from {path}", names.join(", ")));
        self.log.fault_point("before wiping");
        let wiped = crate::wipe::wipe(&claim);
        self.log.fault_point("after wiping");
        drop(claim);
        match (wiped, known::signatures(path.as_ref())) {
            (Ok(()), Ok(found)) if found.is_empty() => Undo::Restored,
            (Err(error), _) | (_, Err(error)) => {
                Undo::Failed(format!("{path} cannot be wiped: {error}"))
            }
            (Ok(()), Ok(_)) => Undo::Failed(format!("{path} is not blank after it was wiped")),
        }
    }
}

/// True for paths of which the last two names are the same: the directory of a run is named after that, wherever it is seen.
fn is_same_end(a: &Path, b: &Path) -> bool {
    let end = |path: &Path| {
        let dir = path.parent().and_then(Path::file_name).map(ToOwned::to_owned);
        dir.zip(path.file_name().map(ToOwned::to_owned))
    };
    end(a).is_some() && end(a) == end(b)
}

/// A loop device over a file, by whatever path.
fn device_over(root: &SysRoot, path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok()?;
    let inode = Some((DevNo::from_raw(meta.dev()), meta.ino()));
    let mut attached = loopdev::attached(root).into_iter();
    attached.find(|device| device.backing_inode == inode).map(|device| device.name)
}

/// Of two parts of one change, what is to be said of both.
fn worse(a: Undo, b: Undo) -> Undo {
    let rank = |undo: &Undo| match undo {
        Undo::AlreadyBack => 0,
        Undo::Rebooted => 1,
        Undo::Restored => 2,
        Undo::Gone(_) => 3,
        Undo::NotHere(_) => 4,
        Undo::ChangedBySomebody { .. } => 5,
        Undo::Unnoted(_) => 6,
        Undo::Failed(_) => 7,
    };
    if rank(&b) > rank(&a) { b } else { a }
}

/// `; ... uses it` with the processes that have something open below a mount point, or nothing.
fn users_of(root: &SysRoot, mount_point: &Path) -> String {
    const SHOWN: usize = 4;
    let uses = |pid: &u32| {
        let dir = format!("proc/{pid}");
        let mut links = vec![format!("{dir}/cwd"), format!("{dir}/root"), format!("{dir}/exe")];
        links.extend(root.names(format!("{dir}/fd")).iter().map(|fd| format!("{dir}/fd/{fd}")));
        links.iter().filter_map(|link| root.link(link)).any(|path| path.starts_with(mount_point))
    };
    let pids = root.names("proc");
    let users: Vec<u32> = pids.iter().filter_map(|pid| pid.parse().ok()).filter(uses).collect();
    let mut text = String::new();
    for pid in users.iter().take(SHOWN) {
        let _ = write!(text, "; {} (process {pid}) uses it", openers::command(root, *pid));
    }
    text
}

/// Disks and partitions, but for those that may not answer.
fn all_devices(root: &SysRoot) -> Vec<BlockDir> {
    let mut found = Vec::new();
    for disk in BlockDir::disks(root) {
        if fathom_inspect::layers::is_suspended(&disk) || disk.size_bytes().unwrap_or(0) == 0 {
            continue;
        }
        found.extend(disk.partitions());
        found.push(disk);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_guard::faults::Faults;
    use fathom_testkit::Tree;

    /// Killed in a container while it was created, over loop devices whose files have other paths here.
    #[test]
    fn an_array_that_was_being_created_in_a_container_is_found() {
        const UUID: &str = "0a1b2c3d:00112233:44556677:8899aabb";
        let file = "/data/setup-run/disk-1.img";
        let found = |backing: &str| {
            let tree = Tree::new();
            tree.device("l/loop77777", "7:7", &[("loop/backing_file", backing)]);
            tree.link("sys/block/loop77777", "../devices/l/loop77777");
            tree.device("m/md200", "9:200", &[("md/uuid", "")]);
            tree.link("sys/devices/m/md200/slaves/loop77777", "../../../l/loop77777");
            tree.link("sys/block/md200", "../devices/m/md200");
            let (root, dir) = (tree.root(), tempfile::tempdir().expect("a directory"));
            let mut log = ChangeLog::create(&SysRoot::live(), dir.path(), "run", Faults::none())
                .expect("is made");
            let change =
                SetupChange::Loop { path: file.into(), name: None, sequence: None, at: None };
            log.intend(Change::Setup(change)).expect("is noted");
            let note: &mut dyn FnMut(&str) = &mut |_| ();
            let mut undoing = Undoing::new(&root, &log, note);
            undoing.has_same_paths = false;
            undoing.arrays("md200", UUID, &[file]).len()
        };
        assert_eq!(found("/var/lib/data/setup-run/disk-1.img"), 1);
        assert_eq!(found("/var/lib/data/setup-other/disk-1.img"), 0, "somebody else's");
    }
}
