//! Control groups that allow so many processes and threads, as containers have.

use crate::command::{KitError, at};
use fathom_sys::mounts::own_mounts;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the processes of a group may take to be gone when it is removed.
const LIMIT: Duration = Duration::from_secs(60);

/// A control group with `pids.max`; removed when it is dropped, when no process is in it any more.
#[derive(Debug)]
pub struct PidsGroup(PathBuf);

impl PidsGroup {
    /// Makes one for so many threads. Whoever writes its process number into `cgroup.procs` is in it, with what it starts.
    ///
    /// # Errors
    /// When the controller is not mounted or not enabled at the root, or no group can be made. Nothing is enabled for it.
    pub fn new(threads_max: u32) -> Result<Self, KitError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let base = controller().ok_or_else(|| {
            let text = "the controller pids is not mounted, or not enabled for groups at its root";
            KitError::Other(text.to_owned())
        })?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("fathom-testkit-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(at(&path))?;
        let group = Self(path);
        let file = group.0.join("pids.max");
        fs::write(&file, threads_max.to_string()).map_err(at(&file))?;
        Ok(group)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PidsGroup {
    fn drop(&mut self) {
        let begun = Instant::now();
        while let Err(error) = fs::remove_dir(&self.0) {
            if begun.elapsed() > LIMIT {
                eprintln!("test kit: {}: {error}", self.0.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Where groups with the controller can be made: a hierarchy of version 1, or the root of version 2 where it is enabled.
fn controller() -> Option<PathBuf> {
    let mounts = own_mounts(&SysRoot::live());
    let has_it = |mount: &&fathom_sys::mounts::Mount| {
        let enabled = fs::read_to_string(mount.mount_point.join("cgroup.subtree_control"));
        let is_enabled = || enabled.is_ok_and(|text| text.split_whitespace().any(|c| c == "pids"));
        match mount.fs_type.as_str() {
            "cgroup" => mount.super_options.split(',').any(|option| option == "pids"),
            "cgroup2" => is_enabled(),
            _ => false,
        }
    };
    mounts.iter().find(has_it).map(|mount| mount.mount_point.clone())
}
