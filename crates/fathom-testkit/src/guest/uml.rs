//! User Mode Linux, Debian's package `user-mode-linux`.

use super::job::{Bus, GuestJob};
use crate::command::{KitError, find_tool};
use crate::scratch::Scratch;
use std::path::PathBuf;
use std::process::Command;

/// The name of the kernel's program.
const KERNEL: &str = "linux.uml";
/// The last letters of the disks.
const DISKS: &str = "abcdefgh";

/// What is different in the first process.
pub(super) const INIT: &str = r#"MODULES=/usr/lib/uml/modules
mount_out() { mount -t hostfs -o "$OUT" hostfs /run/out; }
"#;

/// The command that starts the kernel.
///
/// # Errors
/// For disks that it cannot have.
pub(super) fn command(job: &GuestJob, scratch: &Scratch) -> Result<Command, KitError> {
    if job.disks.len() > DISKS.len() || job.disks.iter().any(|disk| disk.bus != Bus::Virtio) {
        let text = "User Mode Linux has eight disks of its own kind; GuestJob::qemu has others";
        return Err(KitError::Other(text.to_owned()));
    }
    let mut command = Command::new(find_tool(KERNEL).unwrap_or_else(|| PathBuf::from(KERNEL)));
    // Never `rw`: as root that would be the host's own file system.
    let fixed =
        "root=none rootfstype=hostfs ro con=null con0=null,fd:1 con1=null loglevel=5 panic=-1";
    command.args(fixed.split(' '));
    command.arg(format!("mem={}M", job.memory_mib));
    command.arg(format!("init={}", scratch.join("init").display()));
    for index in 0..job.disks.len() {
        // `t`: no discard, which is slow.
        command.arg(format!("ubd{index}t={}", super::disk_path(scratch, index).display()));
    }
    // Its sockets are made in the home directory.
    command.env("HOME", scratch.path());
    Ok(command)
}
