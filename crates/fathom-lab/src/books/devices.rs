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
    /// What is kept about devices that had this path, or one below it, when they were written.
    #[must_use]
    pub fn about_devices_at(&self, path: &Path) -> Vec<Volume> {
        let is_meant = |head: &Head| head.device_id.is_some() && head.target.starts_with(path);
        self.all().into_iter().filter(|volume| is_meant(&volume.head)).collect()
    }
}
