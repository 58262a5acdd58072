//! Which device an identifier of the journal means, whatever it is called by now, and what it means that it is not there.

use super::{Undoing, is_same_end, worse};
use crate::Undo;
use crate::known::is_same_uuid;
use fathom_guard::file_at;
use fathom_inspect::identity;
use fathom_model::change::setup::SetupChange;
use fathom_model::change::{Change, FileAt};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{devno::DevNo, loopdev};
use std::path::{Path, PathBuf};

impl Undoing<'_> {
    /// What is known of a loop device of ours by its file. The last one of that path counts: files are built anew for the next trial.
    pub(super) fn backing(&self, path: &Path, at: Option<&FileAt>) -> Backing {
        let entries = (0..).map_while(|step| self.log.entry(step));
        let sequences = entries.filter_map(|entry| match &entry.change {
            Change::Setup(SetupChange::Loop { path: other, sequence, .. }) if other == path => {
                Some(*sequence)
            }
            _ => None,
        });
        let sequence = sequences.last().flatten().filter(|_| self.is_same_boot());
        let at = at.filter(|at| self.is_same_boot() && at.inode.is_some()).cloned();
        Backing { path: path.to_owned(), at, sequence, has_same_paths: self.has_same_paths }
    }

    /// The loop device that shows the file, or showed it before it was removed.
    pub(super) fn loop_over(&self, backing: &Backing) -> Option<loopdev::LoopDevice> {
        let mut attached = loopdev::attached(self.root).into_iter();
        attached.find(|device| backing.is_shown_by(self.root, device))
    }

    /// True when the identifier means the device, that of a loop device also where its file has another path than here.
    pub(super) fn means(&self, devno: DevNo, id: &str) -> bool {
        // The last of that path: a file that is built anew for the next trial has another inode.
        let noted =
            (0..).map_while(|step| self.log.entry(step)).filter_map(|entry| match &entry.change {
                Change::Setup(SetupChange::Loop { path, at, .. }) if path == Path::new(id) => {
                    Some(self.backing(path, at.as_ref()))
                }
                _ => None,
            });
        if let Some(noted) = noted.last() {
            let device = loopdev::by_devno(self.root, devno);
            return device.is_some_and(|device| noted.is_shown_by(self.root, &device));
        }
        let given = self.given(id);
        // Paths to one disk have one identifier; a file's name may be that of another file by now.
        if given.contains(&devno) || !given.is_empty() && id.starts_with('/') {
            return given.contains(&devno);
        }
        let is_path = id.starts_with('/') && !self.has_same_paths;
        (!is_path || self.log.maker().has_same_root(self.root))
            && identity::device_id(self.root, devno).is_meant_by(id)
    }

    /// The very devices that were given under that identifier, where they are still there: the file behind one may have another name by now,
    /// and another file that one.
    fn given(&self, id: &str) -> Vec<DevNo> {
        let sequence =
            |devno: DevNo| BlockDir::by_devno(self.root, devno)?.disk()?.value::<u64>("diskseq");
        let entries = (0..).map_while(|step| self.log.entry(step));
        let same = entries.filter_map(|entry| match &entry.change {
            Change::Setup(SetupChange::Given { device_id, device, sequence: noted })
                if device_id == id && self.is_same_boot() =>
            {
                let devno = device.parse().ok()?;
                (sequence(devno) == Some(*noted)).then_some(devno)
            }
            _ => None,
        });
        same.collect()
    }

    /// A device is not there: it went with what it was made of, or it is away, as all is that was made of it.
    pub(super) fn absent(&self, id: &str, name: &str) -> Undo {
        let mut entries = (0..).map_while(|step| self.log.entry(step));
        let went = entries.find_map(|entry| match &entry.change {
            Change::Setup(SetupChange::LoopFile { path, .. }) if Path::new(id) == path => {
                Some(Undo::AlreadyBack)
            }
            Change::Setup(SetupChange::Table { device_id, name, guid, partitions })
                if partitions.iter().any(|uuid| is_same_uuid(uuid, id)) =>
            {
                Some(self.went_with(&[(device_id, name)], guid))
            }
            Change::Setup(SetupChange::Array { uuid, members, .. }) if is_same_uuid(uuid, id) => {
                let members = members.iter().map(|on| (on.id.as_str(), on.name.as_str()));
                let members: Vec<_> = members.collect();
                Some(self.went_with(&members, uuid))
            }
            _ => None,
        });
        let is_mapped = ["LVM-", "CRYPT-", "fathom-"].iter().any(|start| id.starts_with(start));
        match went {
            Some(went) => went,
            None if is_mapped => Undo::AlreadyBack,
            None => Undo::Gone(format!("{name} ({id})")),
        }
    }

    /// What was made of these devices is not there: with one of them here it has gone for certain.
    fn went_with(&self, below: &[(&str, &str)], uuid: &str) -> Undo {
        let is_here = |(id, _): &(&str, &str)| self.find(id, uuid, below.len()).is_some();
        if below.iter().any(is_here) {
            return Undo::AlreadyBack;
        }
        let all = below.iter().map(|(id, name)| self.absent(id, name));
        all.reduce(worse).unwrap_or(Undo::AlreadyBack)
    }

    /// A device that was a path of a map of ours, with the other paths to the same disk.
    pub(super) fn paths_beside(&self, device: &BlockDir) -> Vec<DevNo> {
        let Some(own) = device.devno() else { return Vec::new() };
        let mut entries = (0..).map_while(|step| self.log.entry(step));
        let is_path = entries.any(|entry| match &entry.change {
            Change::Setup(SetupChange::Multipath { paths, .. }) => {
                paths.iter().any(|path| self.means(own, &path.id))
            }
            _ => false,
        });
        if !is_path {
            return Vec::new();
        }
        identity::namesakes(self.root, own).into_iter().chain([own]).collect()
    }
}

/// The file of a loop device of ours.
#[derive(Debug, Clone)]
pub(super) struct Backing {
    path: PathBuf,
    /// What it is, where that was noted.
    at: Option<FileAt>,
    /// The running number of its device, likewise.
    sequence: Option<u64>,
    has_same_paths: bool,
}

impl Backing {
    /// True for the loop device that shows it, or showed it before it was removed.
    pub(super) fn is_shown_by(&self, root: &SysRoot, device: &loopdev::LoopDevice) -> bool {
        let Some(shown) = &device.backing_path else { return false };
        let disk = BlockDir::by_devno(root, device.devno);
        let sequence: Option<u64> = disk.and_then(|disk| disk.value("diskseq"));
        if let Some((noted, now)) = self.sequence.zip(sequence) {
            return noted == now;
        }
        let text = shown.to_string_lossy();
        let removed = text.strip_suffix(" (deleted)").map(Path::new);
        let shown = removed.unwrap_or(shown);
        let inode = self.at.as_ref().map(|at| (at.device.parse().ok(), at.inode));
        let is_it = inode.is_none_or(|(filesystem, inode)| {
            device.backing_inode.map(|(on, number)| (Some(on), Some(number)))
                == Some((filesystem, inode))
        });
        match &self.at {
            // Whatever the file is called by now. Its number alone is another file's when ours is gone.
            Some(at) if self.has_same_paths && removed.is_none() => {
                is_it && file_at::is_at(shown, at)
            }
            None if self.has_same_paths => shown == self.path,
            _ => is_it && is_same_end(shown, &self.path),
        }
    }
}
