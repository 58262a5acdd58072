//! User Mode Linux, Debian's package `user-mode-linux`.

use super::job::{Bus, GuestJob};
use crate::command::{KitError, at, find_tool, run_tool};
use crate::scratch::Scratch;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The name of the kernel's program.
const KERNEL: &str = "linux.uml";
/// The last letters of the disks.
const DISKS: &str = "abcdefgh";

/// A library in C: what it does for the kernel stands in it.
const WHOLE_STATE: &str = include_str!("whole_state.c");

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
    if let Some(library) = whole_state(scratch)? {
        command.env("LD_PRELOAD", library);
    }
    Ok(command)
}

/// Without it the kernel does not come up on processors with large registers. None where there is no compiler.
fn whole_state(scratch: &Scratch) -> Result<Option<PathBuf>, KitError> {
    if find_tool("cc").is_none() {
        return Ok(None);
    }
    let (source, library) = (scratch.join("whole_state.c"), scratch.join("whole_state.so"));
    std::fs::write(&source, WHOLE_STATE).map_err(at(&source))?;
    let options = ["-O1", "-shared", "-fPIC", "-o"].map(OsString::from);
    let files = [library.clone().into_os_string(), source.into_os_string()];
    run_tool("cc", options.into_iter().chain(files))?;
    Ok(Some(library))
}
