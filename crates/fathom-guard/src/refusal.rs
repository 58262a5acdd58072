//! Why a block device is not written to: one variant per reason, each text saying what, on what evidence, and what
//! to do.

use fathom_base::shell;
use fathom_sys::openers::Opener;
use fathom_sys::probe::{Signature, SignatureKind};
use std::path::PathBuf;
use thiserror::Error;

/// Why a device may not be claimed. `device` is the path that the user gave, as it resolved.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing of that name.
    #[error("{path} does not exist, and nothing is ever created in /dev{hint}")]
    Missing {
        /// As given.
        path: PathBuf,
        /// `; did you mean ...?` or nothing.
        hint: String,
    },
    /// Something else than a block device.
    #[error("{path} is {what}, not a block device")]
    NotBlockDevice {
        /// As given.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The device cannot be looked at closely enough to be called unused.
    #[error("{device} cannot be checked: {what}\nwhat cannot be checked is not overwritten")]
    CannotCheck {
        /// The device.
        device: PathBuf,
        /// What failed, with the system's words.
        what: String,
    },
    /// It holds the running system or the results.
    #[error("{device} is never written to, whatever the consent: it lies under {what}")]
    System {
        /// The device.
        device: PathBuf,
        /// The mount point or the store.
        what: String,
    },
    /// A partition whose type says that firmware or boot loader keep code in it, often without any signature, or that it
    /// holds further partitions.
    #[error(
        "{device} is a boot partition or holds a partition table (type {type_id}): the machine may not start without it"
    )]
    BootPartition {
        /// The device.
        device: PathBuf,
        /// The type in the partition table.
        type_id: String,
    },
    /// A file system on it is mounted.
    #[error(
        "{device} is in use: {used} is mounted on {mount_point}{place}\nunmount it first: umount {}",
        shell::word(.mount_point)
    )]
    Mounted {
        /// The device.
        device: PathBuf,
        /// The part of it, or what is made of it, that is mounted.
        used: String,
        /// Where; as its mount namespace sees it.
        mount_point: String,
        /// ` (in the mount namespace of process ...)` or nothing.
        place: String,
    },
    /// It is, or holds, a swap area in use.
    #[error("{device} is in use: {area} is a swap area\nend that first: swapoff {}", shell::word(.area))]
    Swap {
        /// The device.
        device: PathBuf,
        /// The area.
        area: String,
    },
    /// Another device is made of it.
    #[error(
        "{device} is in use: {used} is part of {holders}\ntake {holders} apart first (lsblk shows what it is)"
    )]
    HasHolders {
        /// The device.
        device: PathBuf,
        /// The part of it that is used.
        used: String,
        /// The devices made of it.
        holders: String,
    },
    /// It is one of several ways to what a multipath map shows.
    #[error(
        "{device} is in use: {used} is one path of the multipath map {map}\nthe map is the device, give that: {map}"
    )]
    PathOfMap {
        /// The device.
        device: PathBuf,
        /// The part of it that is used.
        used: String,
        /// The map.
        map: String,
    },
    /// The kernel serves it to other machines.
    #[error(
        "{device} is in use: {by} serves {served} to other machines\nend that first (targetcli, nvmetcli or configfs)"
    )]
    Exported {
        /// The device.
        device: PathBuf,
        /// The device or file that is served.
        served: String,
        /// What serves it, by its place in configfs.
        by: String,
    },
    /// A loop device shows it, or a part of it.
    #[error("{device} is in use: {other} shows {used}\ndetach it first: losetup -d {}", shell::word(.other))]
    LoopOnTop {
        /// The device.
        device: PathBuf,
        /// The part of it that is used.
        used: String,
        /// The loop device.
        other: String,
    },
    /// Something is on it.
    #[error(
        "{device} is not blank: {}\nif it may go, remove the signature yourself, as a step of its own: {}\nand repeat the command then",
        list(.found), cure(.device, .found)
    )]
    Signature {
        /// The device.
        device: PathBuf,
        /// All finds.
        found: Vec<Signature>,
    },
    /// The kernel knows partitions that no table on the device describes any more.
    #[error("{device} has partitions in the kernel ({partitions}) but no partition table: it may be the last trace of lost data\nif they may go: partx -d {}", shell::path(.device))]
    KernelPartitions {
        /// The device.
        device: PathBuf,
        /// Their names.
        partitions: String,
    },
    /// Some process has it open.
    #[error("{device} is open elsewhere: {}\nend that first (lsof {} shows more)", people(.openers), shell::path(.device))]
    OpenElsewhere {
        /// The device.
        device: PathBuf,
        /// Who.
        openers: Vec<Opener>,
    },
    /// Somebody holds it exclusively.
    #[error("{device} is held exclusively by {}\nend that first", people(.openers))]
    Busy {
        /// The device.
        device: PathBuf,
        /// Processes that have it open; empty when it is the kernel or somebody who cannot be seen.
        openers: Vec<Opener>,
    },
    /// Read-only.
    #[error("{device} is read-only{why}")]
    ReadOnly {
        /// The device.
        device: PathBuf,
        /// `: its backing file ...` or `; to change that: ...`.
        why: String,
    },
    /// No bytes.
    #[error("{device} has no size: it is not set up, or no medium is in it")]
    NoSize {
        /// The device.
        device: PathBuf,
    },
    /// A loop device over a block device.
    #[error("{device} only shows another block device, {backing}: give that one instead")]
    LoopOverDevice {
        /// The device.
        device: PathBuf,
        /// What it shows.
        backing: String,
    },
    /// Two loop devices over one file: exclusive opening of one does not see the other.
    #[error(
        "{device} and {other} show the same file, {backing}\ndetach one of them first: losetup -d {}",
        shell::word(.other)
    )]
    SameBackingFile {
        /// The device.
        device: PathBuf,
        /// The other loop device.
        other: String,
        /// The file.
        backing: String,
    },
    /// Some process has the backing file open.
    #[error("{device}: its backing file {backing} is open elsewhere: {}\nend that first", people(.openers))]
    BackingOpen {
        /// The device.
        device: PathBuf,
        /// The file.
        backing: String,
        /// Who.
        openers: Vec<Opener>,
    },
    /// The identifier does not single out one device.
    #[error(
        "{device} cannot be told from {others}: all answer to the identifier {id}\ndisconnect the others, or use a partition, which has an identifier of its own"
    )]
    AmbiguousId {
        /// The device.
        device: PathBuf,
        /// The identifier.
        id: String,
        /// The others' names.
        others: String,
    },
    /// Everything is in order, but nobody has said that this device may be overwritten.
    #[error("{device} ({what}) would be overwritten: everything on it is destroyed, other devices and partitions stay{given}\nmake sure of a verified backup; then, to consent, add exactly: --destroy={}", shell::word(.id))]
    ConsentMissing {
        /// The device.
        device: PathBuf,
        /// Size and model.
        what: String,
        /// The identifier to consent with.
        id: String,
        /// What was said about the identifiers that were given, or nothing.
        given: String,
    },
    /// The system refuses to open it.
    #[error("{device} cannot be opened: {error}{cure}")]
    CannotOpen {
        /// The device.
        device: PathBuf,
        /// The system's words.
        error: String,
        /// What to do, or nothing.
        cure: &'static str,
    },
}

impl Refusal {
    /// True when the target was named wrongly, rather than refused for safety.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NotBlockDevice { .. })
    }
}

fn people(openers: &[Opener]) -> String {
    const SHOWN: usize = 4;
    if openers.is_empty() {
        return "the kernel or a process that cannot be seen from here".to_owned();
    }
    let names: Vec<String> =
        openers.iter().take(SHOWN).map(|o| format!("{} (process {})", o.command, o.pid)).collect();
    let more = openers.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    names.join(", ") + &tail
}

fn list(found: &[Signature]) -> String {
    let one = |s: &Signature| {
        let label = s.label.as_ref().map(|label| format!(" \"{label}\"")).unwrap_or_default();
        let uuid = s.uuid.as_ref().map(|uuid| format!(" {uuid}")).unwrap_or_default();
        format!("{}{label}{uuid} at byte {}", s.name, s.offset_bytes)
    };
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What the user may do: `wipefs`, which knows most signatures, or what else removes those that it leaves.
fn cure(device: &std::path::Path, found: &[Signature]) -> String {
    let device = shell::path(device);
    let left = |s: &&Signature| {
        s.name == "ZFS member"
            || s.kind == SignatureKind::BootSector
            || (s.name == "f2fs" && s.offset_bytes > 1024)
    };
    let commands: Vec<String> = found
        .iter()
        .filter(left)
        .map(|s| match s.name {
            "ZFS member" => format!("zpool labelclear -f {device}"),
            _ => {
                let sector = s.offset_bytes / 512;
                format!("dd if=/dev/zero of={device} bs=512 count=1 seek={sector}")
            }
        })
        .collect();
    if commands.is_empty() {
        return format!("wipefs -a {device}");
    }
    format!("wipefs -a {device}, and for what that leaves: {}", commands.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(name: &'static str) -> Signature {
        Signature {
            kind: SignatureKind::Filesystem,
            name,
            offset_bytes: 1080,
            uuid: Some("u".to_owned()),
            label: Some("data".to_owned()),
        }
    }

    #[test]
    fn texts_say_what_and_how_in_at_most_three_lines() {
        let device = PathBuf::from("/dev/sdz");
        let refusal = Refusal::Signature { device: device.clone(), found: vec![signature("ext4")] };
        let text = refusal.to_string();
        assert!(text.contains("ext4 \"data\" u at byte 1080"), "{text}");
        assert!(text.contains("wipefs -a /dev/sdz") && text.lines().count() <= 3, "{text}");
        let refusal = Refusal::ConsentMissing {
            device,
            what: "1 GiB".to_owned(),
            id: "/srv/my disk's.img".to_owned(),
            given: String::new(),
        };
        let text = refusal.to_string();
        assert!(text.contains("--destroy='/srv/my disk'\\''s.img'"), "{text}");
        assert!(text.contains("verified backup") && text.contains("destroyed"), "{text}");
        assert!(!refusal.is_usage());
    }

    #[test]
    fn long_lists_of_processes_are_cut() {
        let opener = |pid| Opener { pid, command: "cat".to_owned() };
        let text = people(&(1..=9).map(opener).collect::<Vec<_>>());
        assert!(text.starts_with("cat (process 1), ") && text.ends_with(" and 5 more"), "{text}");
        assert!(people(&[]).contains("cannot be seen"));
    }
}
