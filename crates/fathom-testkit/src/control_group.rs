//! Control groups that allow so many threads or so much memory, as containers have.

use crate::command::{KitError, at};
use fathom_sys::mounts::own_mounts;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the processes of a group may take to be gone when it is removed.
const LIMIT: Duration = Duration::from_secs(60);

/// A control group with a limit; removed when it is dropped, when no process is in it any more.
#[derive(Debug)]
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes one for so many threads. Whoever writes its process number into `cgroup.procs` is in it, with what it starts.
    ///
    /// # Errors
    /// When the controller is not mounted or not enabled at the root, or no group can be made. Nothing is enabled for it.
    pub fn of_threads(threads_max: u32) -> Result<Self, KitError> {
        Self::new("pids", ["pids.max"; 2], &threads_max.to_string())
    }

    /// Makes one with so much memory, page cache included.
    ///
    /// # Errors
    /// See [`Self::of_threads`].
    pub fn of_memory(bytes_max: u64) -> Result<Self, KitError> {
        let files = ["memory.limit_in_bytes", "memory.max"];
        Self::new("memory", files, &bytes_max.to_string())
    }

    /// `files` hold the limit in version 1 and 2.
    fn new(controller: &str, files: [&str; 2], limit: &str) -> Result<Self, KitError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (base, version) = hierarchy_of(controller).ok_or_else(|| {
            let text = "is not mounted, or not enabled for groups at its root";
            KitError::Other(format!("the controller {controller} {text}"))
        })?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("fathom-testkit-{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(at(&path))?;
        let group = Self(path);
        let file = group.0.join(files[version - 1]);
        fs::write(&file, limit).map_err(at(&file))?;
        Ok(group)
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ControlGroup {
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
fn hierarchy_of(controller: &str) -> Option<(PathBuf, usize)> {
    own_mounts(&SysRoot::live()).into_iter().find_map(|mount| {
        let enabled = fs::read_to_string(mount.mount_point.join("cgroup.subtree_control"));
        let is_enabled =
            || enabled.is_ok_and(|text| text.split_whitespace().any(|c| c == controller));
        let version = match mount.fs_type.as_str() {
            "cgroup" if mount.super_options.split(',').any(|option| option == controller) => 1,
            "cgroup2" if is_enabled() => 2,
            _ => return None,
        };
        Some((mount.mount_point, version))
    })
}
