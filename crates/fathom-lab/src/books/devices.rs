//! Notes of devices, which their identifiers tell, whatever their names have become.

use super::{Head, Shelf, Volume};
use fathom_inspect::identity;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

impl Head {
    /// Where the device that was written is by now; none where it is not there, and of files.
    #[must_use]
    pub fn device_by_now(&self, root: &SysRoot) -> Option<PathBuf> {
        identity::path_of(root, self.device_id.as_deref()?)
    }
}

impl Shelf {
    /// What is kept about devices that had this path when they were written.
    #[must_use]
    pub fn about_device_of(&self, path: &Path) -> Vec<Volume> {
        let is_meant = |head: &Head| head.device_id.is_some() && head.target == path;
        self.all().into_iter().filter(|volume| is_meant(&volume.head)).collect()
    }

    /// What is kept about devices that had this path, or one below it, when they were written, or have it by now; with where they are.
    #[must_use]
    pub fn about_devices_at(&self, root: &SysRoot, path: &Path) -> Vec<(Volume, Option<PathBuf>)> {
        let devices = self.all().into_iter().filter(|volume| volume.head.device_id.is_some());
        let by_now = |volume: Volume| {
            let by_now = volume.head.device_by_now(root);
            (volume, by_now)
        };
        let is_meant = |(volume, by_now): &(Volume, Option<PathBuf>)| {
            volume.head.target.starts_with(path) || by_now.as_deref() == Some(path)
        };
        devices.map(by_now).filter(is_meant).collect()
    }
}
