//! Relations in recorded trees: what this machine's kernel cannot provide (device-mapper, md, bcache) or what would be
//! dangerous to provoke.

use super::*;
use fathom_testkit as testkit;

/// A recorded machine that a test builds up.
struct Tree(testkit::Tree);

impl Tree {
    fn new() -> Self {
        Self(testkit::Tree::new())
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        self.0.put(path, content);
        self
    }

    fn link(&self, from: &str, to: &str) -> &Self {
        self.0.link(from, to);
        self
    }

    /// Adds a device at `sys/devices/DIR`.
    fn device(&self, dir: &str, devno: &str) -> &Self {
        self.0.device(dir, devno, &[]);
        self
    }

    fn partition(&self, dir: &str, devno: &str, start: u64, size: u64) -> &Self {
        let (start, size) = (start.to_string(), size.to_string());
        self.0.device(dir, devno, &[("partition", "1"), ("start", &start), ("size", &size)]);
        self
    }

    fn holder(&self, below: &str, above: &str) -> &Self {
        let name = |dir: &str| dir.rsplit('/').next().unwrap().to_owned();
        self.link(&format!("sys/devices/{below}/holders/{}", name(above)), "x");
        self.link(&format!("sys/devices/{above}/slaves/{}", name(below)), "x")
    }

    fn mounts(&self, lines: &str) -> &Self {
        self.put("proc/77/mountinfo", lines).put("proc/self/mountinfo", lines)
    }

    fn root(&self) -> SysRoot {
        self.0.root()
    }

    fn target(&self, devno: &str) -> Target {
        let devno = devno.parse().unwrap();
        let device = BlockDir::by_devno(&self.root(), devno).unwrap();
        Target { path: device.dev_path().into(), devno, device }
    }

    fn check(&self, devno: &str) -> Result<(), Refusal> {
        check_unused(&self.root(), &self.target(devno))
    }
}

fn numbers(devices: &Devices) -> Vec<String> {
    devices.keys().map(ToString::to_string).collect()
}

#[test]
fn a_disk_touches_its_partitions_and_a_partition_what_it_overlaps() {
    let tree = Tree::new();
    tree.device("a/sda", "8:0").partition("a/sda/sda1", "8:1", 2048, 1000);
    tree.partition("a/sda/sda2", "8:2", 3048, 1000).partition("a/sda/sda3", "8:3", 3500, 10);
    let touched = |devno| numbers(&touching(&tree.target(devno).device));
    assert_eq!(touched("8:0"), ["8:0", "8:1", "8:2", "8:3"]);
    assert_eq!(touched("8:1"), ["8:0", "8:1"]);
    assert_eq!(touched("8:2"), ["8:0", "8:2", "8:3"]);
    assert_eq!(touched("8:3"), ["8:0", "8:2", "8:3"]);
}

#[test]
fn what_is_made_of_a_device_keeps_it() {
    let tree = Tree::new();
    tree.device("a/sda", "8:0").partition("a/sda/sda1", "8:1", 2048, 1000);
    tree.partition("a/sda/sda2", "8:2", 4096, 1000);
    tree.device("v/md0", "9:0").holder("a/sda/sda1", "v/md0");
    for devno in ["8:0", "8:1"] {
        let refusal = tree.check(devno).unwrap_err();
        assert!(matches!(&refusal, Refusal::HasHolders { holders, .. } if holders == "/dev/md0"));
    }
    assert_eq!(tree.check("8:2"), Ok(()), "the neighbour is free");
    assert_eq!(tree.check("9:0"), Ok(()), "the array itself is free");
}

#[test]
fn a_path_of_a_multipath_map_is_told_the_map() {
    let tree = Tree::new();
    tree.device("a/sda", "8:0").device("v/dm-3", "253:3").holder("a/sda", "v/dm-3");
    tree.put("sys/devices/v/dm-3/dm/name", "mpatha\n");
    tree.put("sys/devices/v/dm-3/dm/uuid", "mpath-36000\n");
    let refusal = tree.check("8:0").unwrap_err();
    assert!(matches!(&refusal, Refusal::PathOfMap { map, .. } if map == "/dev/mapper/mpatha"));
    assert!(refusal.to_string().contains("give that: /dev/mapper/mpatha"), "{refusal}");
}

#[test]
fn a_registered_bcache_device_is_in_use() {
    let tree = Tree::new();
    tree.device("a/sdb", "8:16").put("sys/devices/a/sdb/bcache/state", "clean");
    assert!(matches!(tree.check("8:16"), Err(Refusal::HasHolders { .. })));
}

#[test]
fn a_mount_far_above_is_named() {
    let tree = Tree::new();
    tree.device("a/sda", "8:0").device("v/md0", "9:0").device("v/dm-0", "252:0");
    tree.holder("a/sda", "v/md0").holder("v/md0", "v/dm-0");
    tree.mounts("30 1 252:0 / /srv/data rw - ext4 /dev/mapper/vg-data rw\n");
    for devno in ["8:0", "9:0", "252:0"] {
        let refusal = tree.check(devno).unwrap_err();
        let is_named = matches!(
            &refusal, Refusal::Mounted { mount_point, place, .. }
            if mount_point == "/srv/data" && place.is_empty()
        );
        assert!(is_named, "{refusal}");
        let mounts = mounted_above(&tree.root(), devno.parse().unwrap());
        assert_eq!(mounts.len(), 1, "{devno}");
    }
}

#[test]
fn every_member_of_a_mounted_btrfs_is_in_use() {
    let tree = Tree::new();
    tree.device("a/sdb", "8:16").device("a/sdc", "8:32").device("a/sdd", "8:48");
    for name in ["sdb", "sdc"] {
        tree.link(&format!("sys/fs/btrfs/some-uuid/devices/{name}"), "x");
    }
    tree.mounts("30 1 0:40 / /mnt rw - btrfs /dev/sdb rw\n");
    // The source has no node in a recorded tree, so no mount point can be named.
    for devno in ["8:16", "8:32"] {
        assert!(matches!(tree.check(devno), Err(Refusal::Mounted { .. })), "{devno}");
    }
    assert_eq!(tree.check("8:48"), Ok(()));
}

#[test]
fn mounts_of_processes_that_hide_their_namespace_count() {
    let tree = Tree::new();
    tree.device("a/sdb", "8:16");
    tree.put("proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    tree.put("proc/99/mountinfo", "30 1 8:16 / /elsewhere rw - xfs /dev/sdb rw\n");
    tree.put("proc/99/comm", "postgres\n");
    let refusal = tree.check("8:16").unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("/elsewhere (in the mount namespace of process 99, postgres)"), "{text}");
}

mod protected {
    use super::*;
    use crate::protected::{Protected, check};

    fn refused(tree: &Tree, devno: &str, store: &str) -> Option<String> {
        let protect = Protected { store_path: store.into() };
        match check(&tree.root(), &tree.target(devno), &protect) {
            Ok(()) => None,
            Err(Refusal::System { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_lies_under_the_root_is_never_written() {
        let tree = Tree::new();
        tree.device("a/sda", "8:0").partition("a/sda/sda1", "8:1", 2048, 1000);
        tree.partition("a/sda/sda2", "8:2", 4096, 1000).partition("a/sda/sda3", "8:3", 9000, 10);
        tree.device("v/dm-0", "252:0").holder("a/sda/sda2", "v/dm-0").device("b/sdb", "8:16");
        tree.mounts(
            "20 1 252:0 / / rw - ext4 /dev/mapper/root rw\n21 20 8:1 / /boot/efi rw - vfat /dev/sda1 rw\n",
        );
        let store = "/no/such/place";
        assert_eq!(refused(&tree, "252:0", store).as_deref(), Some("/"));
        assert_eq!(refused(&tree, "8:2", store).as_deref(), Some("/"));
        assert_eq!(refused(&tree, "8:1", store).as_deref(), Some("/boot/efi"));
        assert!(refused(&tree, "8:0", store).is_some(), "the disk of the root");
        assert_eq!(refused(&tree, "8:3", store), None, "a spare partition does not lie under it");
        assert_eq!(refused(&tree, "8:16", store), None);
    }

    #[test]
    fn what_lies_under_the_store_is_never_written() {
        let tree = Tree::new();
        tree.device("b/sdb", "8:16").device("a/sda", "8:0").device("c/sdc", "8:32");
        let store = std::env::temp_dir();
        let point = std::fs::canonicalize(&store).unwrap();
        let lines = format!(
            "20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 8:16 / {} rw - ext4 /dev/sdb rw\n",
            point.display()
        );
        tree.mounts(&lines);
        let file = store.join("not-yet-made/fathom.db");
        let what = refused(&tree, "8:16", file.to_str().unwrap()).unwrap();
        assert!(what.starts_with("the store of results"), "{what}");
        assert_eq!(refused(&tree, "8:32", file.to_str().unwrap()), None);
    }

    #[test]
    fn the_file_below_a_loop_device_below_the_root_counts() {
        let tree = Tree::new();
        tree.device("v/loop0", "7:0").put("sys/devices/v/loop0/loop/backing_file", "/cd/fs.img");
        tree.device("b/sdb", "8:16");
        tree.mounts(
            "20 1 7:0 / / rw - ext4 /dev/loop0 rw\n21 20 8:16 / /cd rw - vfat /dev/sdb rw\n",
        );
        assert_eq!(refused(&tree, "8:16", "/no/such/place").as_deref(), Some("/"));
    }

    #[test]
    fn the_layers_of_an_overlay_root_count() {
        let tree = Tree::new();
        tree.device("b/sdb", "8:16");
        tree.mounts(
            "20 1 0:30 / / rw - overlay overlay rw,lowerdir=/ro:/ro2,upperdir=/rw/up,workdir=/rw/w\n\
             21 20 8:16 / /rw rw - ext4 /dev/sdb rw\n",
        );
        assert_eq!(refused(&tree, "8:16", "/no/such/place").as_deref(), Some("/"));
    }

    #[test]
    fn boot_partitions_without_any_signature_are_spared() {
        let tree = Tree::new();
        tree.device("a/sda", "8:0").partition("a/sda/sda1", "8:1", 34, 100);
        tree.mounts("20 1 0:30 / / rw - tmpfs tmpfs rw\n");
        let mut disk = vec![0; 8192];
        disk[512..520].copy_from_slice(b"EFI PART");
        disk[584] = 2;
        disk[592] = 128;
        disk[596] = 128;
        disk[1024..1040].copy_from_slice(b"Hah!IdontNeedEFI");
        disk[1040] = 1;
        tree.put("dev/sda", disk);
        let protect = Protected { store_path: "/no/such/place".into() };
        let refusal = check(&tree.root(), &tree.target("8:1"), &protect).unwrap_err();
        assert!(matches!(refusal, Refusal::BootPartition { .. }), "{refusal}");
    }
}
