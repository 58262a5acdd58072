//! Limits and weights of control groups on I/O that are not the default.

use super::reader::Reader;
use fathom_base::order::Order;
use fathom_model::system::IoLimit;
use fathom_sys::mounts::own_mounts;
use std::path::{Path, PathBuf};

/// Groups beyond this number are not looked at: a machine with containers has hundreds.
const GROUPS_MAX: usize = 5000;

/// Files of version 2.
const UNIFIED: [&str; 6] =
    ["io.max", "io.weight", "io.bfq.weight", "io.latency", "io.cost.qos", "io.prio.class"];

/// Files of version 1.
const BLKIO: [&str; 8] = [
    "blkio.bfq.weight",
    "blkio.bfq.weight_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.write_iops_device",
    "blkio.weight",
    "blkio.weight_device",
];

/// All limits and weights that somebody has set, of both versions.
pub(crate) fn io_limits(reader: &mut Reader<'_>) -> Vec<IoLimit> {
    let mut found = Vec::new();
    for mount in own_mounts(reader.root) {
        let is_blkio = mount.super_options.split(',').any(|option| option == "blkio");
        let files: &[&str] = match mount.fs_type.as_str() {
            "cgroup2" => &UNIFIED,
            "cgroup" if is_blkio => &BLKIO,
            _ => continue,
        };
        for group in groups(reader, &mount.mount_point) {
            for file in files {
                let Some(text) = reader.text(mount.mount_point.join(&group).join(file)) else {
                    continue;
                };
                let name = Path::new("/").join(&group).display().to_string();
                found.extend(parse(&name, file, &text));
            }
        }
    }
    found.order_by(|a, b| (&a.group, &a.file, &a.devno).cmp(&(&b.group, &b.file, &b.devno)));
    found.dedup();
    found
}

/// All groups of a hierarchy as paths below its mount, the root first.
fn groups(reader: &mut Reader<'_>, mount: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut next = 0;
    while next < found.len() && found.len() < GROUPS_MAX {
        let group = found[next].clone();
        for name in reader.names(mount.join(&group)) {
            let below = group.join(name);
            // No links: they could lead in a circle.
            let path = reader.root.path(mount.join(&below));
            if std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir()) {
                found.push(below);
            }
        }
        next += 1;
    }
    found
}

/// What a group's file says beyond the default: one entry for each line.
#[must_use]
pub fn parse(group: &str, file: &str, text: &str) -> Vec<IoLimit> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let entries = lines.filter_map(|line| {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (devno, value) = match first {
            "default" => (None, rest),
            _ if is_devno(first) => (Some(first.to_owned()), rest),
            _ => (None, line),
        };
        let is_set = is_set(file, devno.is_some(), value);
        let (group, file, value) = (group.to_owned(), file.to_owned(), value.to_owned());
        is_set.then_some(IoLimit { group, file, devno, value })
    });
    entries.collect()
}

fn is_devno(word: &str) -> bool {
    let parts = word.split_once(':');
    parts.is_some_and(|(a, b)| a.parse::<u32>().is_ok() && b.parse::<u32>().is_ok())
}

/// True for what differs from the default of the file, see `Documentation/admin-guide/cgroup-v2.rst` and
/// `cgroup-v1/blkio-controller.rst` of the kernel.
fn is_set(file: &str, of_device: bool, value: &str) -> bool {
    match file {
        "io.max" => value.split(' ').any(|pair| !pair.is_empty() && !pair.ends_with("=max")),
        "io.cost.qos" => value.split(' ').any(|pair| pair == "enable=1"),
        "io.latency" => of_device && !value.ends_with("=max"),
        "io.prio.class" => value != "no-change",
        // The legacy weight belongs to a scheduler that is gone (CFQ); its default was 500.
        "blkio.weight" => !["500", "1000", "100", "0"].contains(&value),
        _ if file.contains("weight") => of_device || value != "100",
        _ => of_device && value != "0" && !value.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;
    use proptest::prelude::*;

    #[track_caller]
    fn expect(file: &str, text: &str, expected: &[(Option<&str>, &str)]) {
        let found = parse("/a", file, text);
        let found: Vec<_> = found.iter().map(|l| (l.devno.as_deref(), l.value.as_str())).collect();
        assert_eq!(found, expected, "{file}: {text}");
    }

    #[test]
    fn defaults_are_no_limits() {
        expect(
            "io.max",
            "8:0 rbps=max wbps=1048576 riops=max wiops=max\n",
            &[(Some("8:0"), "rbps=max wbps=1048576 riops=max wiops=max")],
        );
        expect("io.max", "8:0 rbps=max wbps=max riops=max wiops=max\n\n", &[]);
        expect("io.weight", "default 100\n", &[]);
        expect("io.weight", "default 250\n8:16 50\n", &[(None, "250"), (Some("8:16"), "50")]);
        expect("io.bfq.weight", "default 100\n", &[]);
        expect("io.latency", "8:0 target=10000\n", &[(Some("8:0"), "target=10000")]);
        expect("io.cost.qos", "8:0 enable=0 ctrl=auto rpct=0.00\n", &[]);
        expect(
            "io.cost.qos",
            "8:0 enable=1 ctrl=user rpct=95.00\n",
            &[(Some("8:0"), "enable=1 ctrl=user rpct=95.00")],
        );
        expect("io.prio.class", "no-change\n", &[]);
        expect("io.prio.class", "idle\n", &[(None, "idle")]);
        expect("blkio.throttle.read_iops_device", "8:0 500\n", &[(Some("8:0"), "500")]);
        expect("blkio.throttle.read_iops_device", "", &[]);
        expect("blkio.bfq.weight", "100\n", &[]);
        expect("blkio.weight", "500\n", &[]);
    }

    #[test]
    fn all_groups_of_both_versions() {
        let mounts = "22 1 0:21 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             23 1 0:22 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
             24 1 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let tree = Tree::new();
        tree.put("proc/self/mountinfo", mounts)
            .put("sys/fs/cgroup/unified/io.cost.qos", "8:0 enable=0\n")
            .put("sys/fs/cgroup/unified/system.slice/db.service/io.max", "8:0 wiops=100\n")
            .put("sys/fs/cgroup/blkio/x/blkio.throttle.write_bps_device", "8:0 1000\n")
            .put("sys/fs/cgroup/cpu/x/blkio.throttle.write_bps_device", "8:0 1000\n")
            .link("sys/fs/cgroup/unified/circle", ".");
        let root = tree.root();
        let mut reader = Reader::new(&root);
        let found = io_limits(&mut reader);
        let told: Vec<_> = found.iter().map(|l| (l.group.as_str(), l.file.as_str())).collect();
        assert_eq!(
            told,
            [("/system.slice/db.service", "io.max"), ("/x", "blkio.throttle.write_bps_device")]
        );
        assert!(reader.into_unread().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_crash(text in any::<String>(), file in 0..UNIFIED.len()) {
            prop_assert!(parse("/", UNIFIED[file], &text).len() <= text.lines().count());
        }
    }
}
