//! What is too hot: how often processors slowed down because of heat, and temperatures of drives with their limits.

use crate::sysroot::SysRoot;

/// How often processors were slowed down because of heat since boot, all processors together; none when the kernel does
/// not count it, as in most virtual machines.
#[must_use]
pub fn cpu_throttle_events(root: &SysRoot) -> Option<u64> {
    const CPUS: &str = "sys/devices/system/cpu";
    let of = |cpu: String| {
        root.value::<u64>(format!("{CPUS}/{cpu}/thermal_throttle/core_throttle_count"))
    };
    root.names(CPUS).into_iter().filter(|name| name.starts_with("cpu")).map(of).fold(
        None,
        |sum, count| match (sum, count) {
            (sum, None) => sum,
            (sum, Some(count)) => Some(sum.unwrap_or(0).saturating_add(count)),
        },
    )
}

/// A drive's temperature as its hardware monitor tells it, in thousandths of a degree Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveTemperature {
    /// Now.
    pub now_millicelsius: i64,
    /// From which on the drive warns or slows down; none when it does not say.
    pub limit_millicelsius: Option<i64>,
}

/// The temperature of a whole disk by its kernel name; none without a hardware monitor (NVMe has one, SATA with the
/// module drivetemp). No command is sent by this: a drive in standby may answer with its last value, or not at all.
#[must_use]
pub fn drive_temperature(root: &SysRoot, disk: &str) -> Option<DriveTemperature> {
    // NVMe monitors hang on the controller, those of SATA disks in a directory of their own.
    let device = format!("sys/block/{disk}/device");
    let beside = |dir: String| -> Vec<String> {
        let names = root.names(&dir).into_iter().filter(|name| name.starts_with("hwmon"));
        names.map(|name| format!("{dir}/{name}")).collect()
    };
    let mut monitors = beside(device.clone());
    monitors.extend(beside(format!("{device}/hwmon")));
    monitors.into_iter().find_map(|monitor| {
        Some(DriveTemperature {
            now_millicelsius: root.value(format!("{monitor}/temp1_input"))?,
            limit_millicelsius: root.value(format!("{monitor}/temp1_max")),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// Trees as the kernel documents them, not from real machines; gone when dropped.
    struct Tree(PathBuf);

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn tree(name: &str, files: &[(&str, &str)]) -> (Tree, SysRoot) {
        let dir = std::env::temp_dir().join(format!("fathom-heat-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = dir.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        }
        let root = SysRoot::at(&dir);
        (Tree(dir), root)
    }

    #[test]
    fn throttling_is_counted_over_all_processors() {
        let (_dir, root) = tree(
            "cpu",
            &[
                ("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n"),
                ("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "4\n"),
                ("sys/devices/system/cpu/cpufreq/x", "1\n"),
            ],
        );
        assert_eq!(cpu_throttle_events(&root), Some(7));
        let (_dir, none) = tree("none", &[("sys/devices/system/cpu/cpu0/online", "1\n")]);
        assert_eq!(cpu_throttle_events(&none), None);
    }

    #[test]
    fn drives_tell_their_temperature_in_two_places() {
        let (_dir, root) = tree(
            "drives",
            &[
                ("sys/block/nvme0n1/device/hwmon3/temp1_input", "68850\n"),
                ("sys/block/nvme0n1/device/hwmon3/temp1_max", "79850\n"),
                ("sys/block/sda/device/hwmon/hwmon1/temp1_input", "41000\n"),
                ("sys/block/sdb/size", "1\n"),
            ],
        );
        let nvme = drive_temperature(&root, "nvme0n1").expect("a monitor");
        assert_eq!((nvme.now_millicelsius, nvme.limit_millicelsius), (68_850, Some(79_850)));
        let sata = drive_temperature(&root, "sda").expect("a monitor");
        assert_eq!((sata.now_millicelsius, sata.limit_millicelsius), (41_000, None));
        assert_eq!(drive_temperature(&root, "sdb"), None);
    }
}
