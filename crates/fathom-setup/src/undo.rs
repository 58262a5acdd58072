//! Taking back what was built, by the journal alone: by the process that built it, or by a later one that knows nothing else. Everything
//! is found by identifiers and UUIDs, never by a name alone; what is not provably ours stays.

mod theirs;

use crate::Undo;
use crate::known::{self, Known, is_same_uuid};
use crate::tools::{Call, Tools};
use crate::volume;
use fathom_guard::changes::ChangeLog;
use fathom_guard::relations::devices_of_mount;
use fathom_guard::{Consent, Protected, claim_ours};
use fathom_inspect::identity;
use fathom_model::change::Change;
use fathom_model::change::setup::{BuiltOn, SetupChange};
use fathom_sys::mounts::Mount;
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{devno::DevNo, loopdev, openers};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
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
    note: &'a mut dyn FnMut(&str),
}

impl<'a> Undoing<'a> {
    pub fn new(root: &'a SysRoot, log: &'a ChangeLog, note: &'a mut dyn FnMut(&str)) -> Self {
        // The store lies beside the journal.
        let protected = Protected { store_path: log.path().to_owned() };
        let known = Known::of(log);
        Self { root, log, known, protected, tools: Tools::default(), note }
    }

    /// Takes it back.
    pub fn take_back(&mut self, change: &SetupChange) -> Undo {
        match change {
            SetupChange::Directory { path } => self.directory(path),
            SetupChange::LoopFile { path, size_bytes } => self.loop_file(path, *size_bytes),
            SetupChange::Loop { path, .. } => self.loop_device(path),
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
            SetupChange::OldData { .. } => Undo::AlreadyBack,
            SetupChange::Mount { mount_point, device_id } => self.mount(mount_point, device_id),
        }
    }

    /// Runs a tool; why it failed otherwise.
    fn run(&mut self, call: &Call) -> Result<String, String> {
        (self.note)(&call.line());
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
        for _ in 0..TRIES {
            if let Err(text) = self.run(call) {
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

    /// Something that no boot survives is not there.
    fn not_there(&self) -> Undo {
        let boot = process::boot_id(self.root).unwrap_or_default();
        if self.log.boot_id() == boot { Undo::AlreadyBack } else { Undo::Rebooted }
    }

    fn directory(&mut self, path: &Path) -> Undo {
        self.log.fault_point("before rmdir");
        let removed = fs::remove_dir(path);
        self.log.fault_point("after rmdir");
        match removed {
            Ok(()) => Undo::Restored,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Undo::AlreadyBack,
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Undo::ChangedBySomebody { found: format!("{} holds files", path.display()) }
            }
            Err(error) => Undo::Failed(format!("cannot remove {}: {error}", path.display())),
        }
    }

    fn loop_file(&mut self, path: &Path, size_bytes: u64) -> Undo {
        if let Some(device) = self.loop_over(path) {
            return Undo::Failed(format!("{} is still shown by /dev/{device}", path.display()));
        }
        if let Some(theirs) = self.theirs_in_file(path, size_bytes) {
            return theirs;
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

    /// The loop device that shows the file, or showed it before it was removed.
    fn loop_over(&self, path: &Path) -> Option<String> {
        let removed = format!("{} (deleted)", path.display());
        let shows = |device: &loopdev::LoopDevice| {
            device.backing_path.as_deref().is_some_and(|b| b == path || b == Path::new(&removed))
        };
        loopdev::attached(self.root).into_iter().find(shows).map(|device| device.name)
    }

    fn loop_device(&mut self, path: &Path) -> Undo {
        let Some(name) = self.loop_over(path) else { return self.not_there() };
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
        let removed = format!("{} (deleted)", path.display());
        let path = path.to_owned();
        self.run_until_gone(&call, move |root| {
            let shown = |d: &loopdev::LoopDevice| d.backing_path.clone().unwrap_or_default();
            let attached = loopdev::attached(root);
            !attached.iter().any(|d| shown(d) == path || shown(d) == Path::new(&removed))
        })
    }

    fn mount(&mut self, mount_point: &Path, device_id: &str) -> Undo {
        let Some(mount) = crate::mounting::mount_at_point(self.root, mount_point) else {
            return self.not_there();
        };
        let is_ours = |root: &SysRoot, mount: &Mount| {
            let is_meant = |devno: &DevNo| identity::device_id(root, *devno).is_meant_by(device_id);
            devices_of_mount(root, mount).iter().any(is_meant)
        };
        if !is_ours(self.root, &mount) {
            let found = format!("{} is mounted at {}", mount.source, mount_point.display());
            return Undo::ChangedBySomebody { found };
        }
        let call = Call::new("umount", [mount_point.display().to_string()]);
        let point = mount_point.to_owned();
        let is_gone = |root: &SysRoot| {
            let mount = crate::mounting::mount_at_point(root, &point);
            mount.is_none_or(|mount| !is_ours(root, &mount))
        };
        match self.run_until_gone(&call, is_gone) {
            Undo::Failed(said) => Undo::Failed(format!("{said}{}", users_of(self.root, &point))),
            other => other,
        }
    }

    fn multipath(&mut self, name: &str, paths: &[BuiltOn]) -> Undo {
        let map = known::mapped(self.root, name);
        if let Some(map) = &map {
            let is_ours = |slave: &BlockDir| {
                let id = slave.devno().map(|devno| identity::device_id(self.root, devno));
                id.is_some_and(|id| paths.iter().any(|path| id.is_meant_by(&path.id)))
            };
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
        let is_ours = |slave: &BlockDir| {
            let id = slave.devno().map(|devno| identity::device_id(self.root, devno));
            id.is_some_and(|id| id.is_meant_by(device_id))
        };
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

    fn array(&mut self, name: &str, uuid: &str, members: &[BuiltOn]) -> Undo {
        let ids: Vec<&str> = members.iter().map(|member| member.id.as_str()).collect();
        let mut is_changed = false;
        for array in known::arrays(self.root, uuid, name, &ids) {
            if !self.stands_on_ours(&array, uuid) {
                continue;
            }
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

    /// A device is not there: it went with what it was made of, or it is away.
    fn absent(&self, id: &str, name: &str) -> Undo {
        let entries = (0..).map_while(|step| self.log.entry(step));
        let is_ours = entries.into_iter().any(|entry| match &entry.change {
            Change::Setup(SetupChange::LoopFile { path, .. }) => Path::new(id) == path,
            Change::Setup(SetupChange::Table { partitions, .. }) => {
                partitions.iter().any(|uuid| is_same_uuid(uuid, id))
            }
            Change::Setup(SetupChange::Array { uuid, .. }) => is_same_uuid(uuid, id),
            _ => false,
        });
        let is_mapped = ["LVM-", "CRYPT-", "fathom-"].iter().any(|start| id.starts_with(start));
        if is_ours || is_mapped {
            return Undo::AlreadyBack;
        }
        Undo::Gone(format!("{name} ({id})"))
    }

    /// A device that was a path of a map of ours, with the other paths to the same disk.
    fn paths_beside(&self, device: &BlockDir) -> Vec<DevNo> {
        let Some(own) = device.devno() else { return Vec::new() };
        let id = identity::device_id(self.root, own);
        let entries = (0..).map_while(|step| self.log.entry(step));
        let is_path = entries.into_iter().any(|entry| match &entry.change {
            Change::Setup(SetupChange::Multipath { paths, .. }) => {
                paths.iter().any(|path| id.is_meant_by(&path.id))
            }
            _ => false,
        });
        if !is_path {
            return Vec::new();
        }
        identity::namesakes(self.root, own).into_iter().chain([own]).collect()
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

/// Of two parts of one change, what is to be said of both.
fn worse(a: Undo, b: Undo) -> Undo {
    let rank = |undo: &Undo| match undo {
        Undo::AlreadyBack => 0,
        Undo::Rebooted => 1,
        Undo::Restored => 2,
        Undo::Gone(_) => 3,
        Undo::ChangedBySomebody { .. } => 4,
        Undo::Failed(_) => 5,
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
