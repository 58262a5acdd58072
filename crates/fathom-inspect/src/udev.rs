//! What udev has found out about a block device (`/run/udev/data`): readable by everybody, and
//! cheaper than asking again.

use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;

/// A property of the device, such as `ID_FS_UUID`; none where no udev runs.
#[must_use]
pub fn property(root: &SysRoot, device: &BlockDir, key: &str) -> Option<String> {
    value(&record(root, device)?, key)
}

/// All that udev says of the device, for who wants several properties.
pub(crate) fn record(root: &SysRoot, device: &BlockDir) -> Option<String> {
    root.text(format!("run/udev/data/b{}", device.devno()?))
}

/// A property in a record.
pub(crate) fn value(record: &str, key: &str) -> Option<String> {
    let value =
        record.lines().find_map(|l| l.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='));
    value.filter(|value| !value.is_empty()).map(str::to_owned)
}
