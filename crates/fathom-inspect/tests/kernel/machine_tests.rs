//! The whole machine as it really is, with filesystems and namespaces of the tests' own.

use fathom_inspect::{Scan, scan};
use fathom_model::stack::{Node, NodeKind};
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::capability::Capability::{
    FsOnLoop, LoopDevices, MountFs, MountNamespaces, Tool,
};
use fathom_testkit::command::{run_tool, tool};
use fathom_testkit::{
    FsKind, LoopDevice, LoopOptions, Mount, MountedElsewhere, MountedFs, Scratch, Snapshot, Trial,
    kernel_test,
};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    vec![
        kernel_test("machine_holds_what_is_mounted", &[ext4], holds_what_is_mounted),
        kernel_test("machine_names_are_bytes", &[ext4], names_are_bytes),
        kernel_test("machine_files_of_loops", &[ext4], files_of_loops),
        kernel_test("machine_file_attached_twice", &[ext4], file_attached_twice),
        kernel_test("machine_btrfs", &[FsOnLoop(FsKind::Btrfs)], btrfs),
        kernel_test("machine_namespaces", &[ext4, MountNamespaces], namespaces),
        kernel_test("machine_hidden_mount", &[ext4], hidden_mount),
        kernel_test("machine_comes_and_goes", &[ext4], comes_and_goes),
        kernel_test("machine_reads_little", &[ext4, Tool("blockdev")], reads_little),
        kernel_test(
            "machine_counts_no_large_table",
            &[MountFs("vfat"), LoopDevices, Tool("mkfs.vfat")],
            counts_no_large_table,
        ),
        kernel_test("machine_writes_nothing", &[LoopDevices], writes_nothing),
        kernel_test("machine_without_root", &[ext4, Tool("setpriv")], without_root),
    ]
}

fn look() -> Scan {
    let scan = scan(&SysRoot::live(), &[]).unwrap();
    let keys: BTreeSet<String> = scan.machine.nodes.iter().map(Node::key).collect();
    assert_eq!(keys.len(), scan.machine.nodes.len());
    scan
}

fn node<'a>(scan: &'a Scan, key: &str) -> &'a Node {
    let found = scan.machine.nodes.iter().find(|node| node.key() == key);
    found.unwrap_or_else(|| panic!("no {key}"))
}

fn only_below<'a>(scan: &'a Scan, node: &'a Node) -> &'a Node {
    let below: Vec<&Node> = scan.machine.below(node).collect();
    assert_eq!(below.len(), 1, "{}", node.key());
    below[0]
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn holds_what_is_mounted() {
    let options = ["-L", "lab", "-E", "stride=16,stripe_width=64,lazy_itable_init=0"];
    let device = LoopDevice::new(64 << 20).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &options, "noatime").unwrap();
    let scan = look();
    let mount = node(&scan, &shown(fs.dir()));
    assert!(mount.mount.as_ref().unwrap().has_option("noatime"));
    let filesystem = only_below(&scan, mount);
    let facts = filesystem.fs.as_ref().unwrap();
    assert_eq!((facts.label.as_deref(), facts.stripe_unit_bytes), (Some("lab"), Some(16 << 10)));
    assert!(facts.available_bytes.is_some() && facts.groups_uninitialised == Some(0), "{facts:?}");
    let (largest, share) = filesystem.details().free_pieces.unwrap();
    assert!((1 << 20..=64 << 20).contains(&largest) && share > 0.5, "{largest} {share}");
    assert_eq!(filesystem.details().free_groups, None, "known exactly");
    let attributes = &filesystem.details().filesystem;
    assert!(attributes.iter().any(|(name, _)| name == "lifetime_write_kbytes"), "{attributes:?}");
    let disk = only_below(&scan, filesystem);
    assert_eq!((disk.kind, disk.path.clone()), (NodeKind::Loop, Some(shown(fs.device().path()))));
    let content = disk.details().content.as_ref().unwrap();
    assert_eq!(content.filesystem.as_ref().unwrap().fs_type, "ext4");
    assert!(disk.details().counters.as_ref().unwrap().writes > 0);
    assert!(disk.details().queue.iter().any(|(name, _)| name == "max_segments"));
    // The backing file leads on to the filesystem that the test's files lie on.
    assert_eq!(only_below(&scan, disk).kind, NodeKind::Mount);
    let loops = scan.machine.nodes.iter().filter(|node| node.kind == NodeKind::Loop);
    assert!(loops.clone().all(|node| node.loop_device.is_some()), "empty ones are left out");
}

/// A mount point need not be UTF-8; its filesystem is asked for its space all the same.
fn names_are_bytes() {
    let scratch = Scratch::new().unwrap();
    let device = LoopDevice::new(16 << 20).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let place = scratch.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&place).unwrap();
    run_tool("mount", [device.path(), &place]).unwrap();
    let scan = look();
    run_tool("umount", [&place]).unwrap();
    let mount = node(&scan, &shown(&place));
    let facts = only_below(&scan, mount).fs.as_ref().unwrap();
    assert!(facts.available_bytes.is_some_and(|bytes| bytes > 0), "{facts:?}");
}

/// Where the file behind a loop device lies is what its own map says.
fn files_of_loops() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let image = fs.dir().join("image");
    std::fs::write(&image, vec![1; 4 << 20]).unwrap();
    let file = std::fs::File::open(&image).unwrap();
    file.sync_all().unwrap();
    let extents = fathom_inspect::extents::extents(&file, None).unwrap();
    let device = run_tool("losetup", ["--find".as_ref(), "--show".as_ref(), image.as_path()]);
    let device = device.unwrap().trim().to_owned();
    let scan = look();
    run_tool("losetup", ["--detach", &device]).unwrap();
    let place = node(&scan, &device).details().backing.unwrap();
    assert_eq!(u64::try_from(place.shift_bytes).ok(), extents.first_byte);
    assert!(place.is_whole && Some(place.pieces) == extents.fragments, "{place:?} {extents:?}");
}

/// A file that a second loop device has by another name: what one shows as mounted is in use through the other, also when only that is
/// asked for.
fn file_attached_twice() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let backing = fs.device().backing();
    let link = backing.with_extension("link");
    std::fs::hard_link(backing, &link).unwrap();
    let again = LoopDevice::over(&link, &LoopOptions::default()).unwrap();
    std::fs::remove_file(&link).unwrap();
    for targets in [vec![], vec![again.path().to_path_buf()]] {
        let scan = scan(&SysRoot::live(), &targets).unwrap();
        let (first, second) =
            (node(&scan, &shown(fs.device().path())), node(&scan, &shown(again.path())));
        let inode = first.details().backing_inode.clone();
        assert!(inode.is_some() && second.details().backing_inode == inode, "{inode:?}");
        let (machine, unread) = (scan.machine, scan.unread);
        let snapshot = fathom_model::snapshot::Snapshot { machine, unread, ..Default::default() };
        let found = fathom_check::check(&snapshot);
        let key = shown(again.path());
        let of_it = found
            .iter()
            .filter(|defect| defect.node.as_ref() == Some(&key) || defect.concerns.contains(&key));
        let of_it: Vec<_> = of_it.collect();
        let rules: Vec<&str> = of_it.iter().map(|defect| defect.rule.as_str()).collect();
        assert!(rules.contains(&"filesystem-twins"), "{rules:?}");
        assert!(!rules.contains(&"filesystem-unclean"), "{rules:?}");
        let steps = of_it.iter().filter(|defect| defect.rule == "filesystem-twins");
        let mut commands = steps.flat_map(|defect| &defect.fix).filter_map(|s| s.command.as_ref());
        assert_eq!(commands.next(), None);
    }
}

fn btrfs() {
    let (one, two) = (LoopDevice::new(256 << 20).unwrap(), LoopDevice::new(256 << 20).unwrap());
    let second = shown(two.path());
    let fs = MountedFs::with(FsKind::Btrfs, one, &["-d", "raid0", &second], "").unwrap();
    let scan = look();
    let filesystem = only_below(&scan, node(&scan, &shown(fs.dir())));
    let mut devices: Vec<String> = scan.machine.below(filesystem).map(Node::key).collect();
    devices.sort();
    let mut expected = vec![shown(fs.device().path()), second];
    expected.sort();
    assert_eq!(devices, expected);
    let detail = filesystem.details();
    let unallocated = detail.unallocated_bytes.unwrap();
    assert!((1..512 << 20).contains(&unallocated), "{unallocated}");
    assert!(detail.bdi_read_ahead_kib.is_some());
    assert!(detail.filesystem.iter().any(|(name, _)| name == "nodesize"));
}

fn namespaces() {
    let device = LoopDevice::new(32 << 20).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let elsewhere = MountedElsewhere::new(device.path()).unwrap();
    let scan = look();
    let pid = elsewhere.pid().to_string();
    let other = |node: &&Node| {
        let seen = &node.details().other_namespaces;
        seen.iter().any(|label| label.split(' ').next() == Some(&pid))
    };
    let seen: Vec<&Node> = scan.machine.nodes.iter().filter(other).collect();
    assert!(seen.iter().any(|node| node.key() == "/"), "what both see stands once");
    let on_device = |node: &&&Node| {
        scan.machine.below(node).any(|fs| scan.machine.below(fs).any(|n| n.name == device.name()))
    };
    let own: Vec<_> = seen.iter().filter(on_device).collect();
    assert_eq!(own.len(), 1, "{seen:?}");
    assert!(own[0].key().contains(&format!("(as {pid} ")), "{}", own[0].key());
}

fn hidden_mount() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let words = ["-t", "tmpfs", "cover"].map(Path::new);
    run_tool("mount", words.into_iter().chain([fs.dir()])).unwrap();
    let scan = look();
    run_tool("umount", [fs.dir()]).unwrap();
    let top = node(&scan, &shown(fs.dir()));
    assert_eq!(only_below(&scan, top).kind, NodeKind::Memory);
    let hidden = node(&scan, &format!("{} (hidden by another mount)", fs.dir().display()));
    let filesystem = only_below(&scan, hidden);
    assert_eq!(filesystem.name, "ext4");
    // Its path would have led to the other one.
    assert_eq!(filesystem.fs.as_ref().unwrap().available_bytes, None);
}

/// At most a mebibyte is read of a device, whatever lies on it.
fn reads_little() {
    let device = LoopDevice::new(512 << 20).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let read_bytes = || {
        let root = SysRoot::live();
        let stat = root.text(format!("sys/block/{}/stat", device.name())).unwrap();
        stat.split_ascii_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
    };
    let look = || {
        run_tool("blockdev", [Path::new("--flushbufs"), device.path()]).unwrap();
        let before = read_bytes();
        let scan = look();
        let read = read_bytes() - before;
        assert!((1..=1 << 20).contains(&read), "{read} bytes");
        scan
    };
    let scan = look();
    let content = node(&scan, &shown(device.path())).details().content.as_ref();
    assert!(content.unwrap().filesystem.is_some());
    // Mounted, its driver reads for its answers, too.
    let mount = Mount::new("ext4", device.path(), "").unwrap();
    let scan = look();
    let filesystem = only_below(&scan, node(&scan, &shown(mount.dir())));
    assert!(filesystem.details().free_pieces.is_some());
}

/// FAT counts its table when it is asked for its space: one of 8 MiB is left alone, a small one is not.
fn counts_no_large_table() {
    for (size, options, is_asked) in
        [(64 << 20, &["-F", "16"][..], true), (64 << 30, &["-F", "32", "-s", "64"], false)]
    {
        let device = LoopDevice::new(size).unwrap();
        let words = options.iter().map(Path::new).chain([device.path()]);
        run_tool("mkfs.vfat", words).unwrap();
        let mount = Mount::new("vfat", device.path(), "").unwrap();
        let scan = look();
        let facts = only_below(&scan, node(&scan, &shown(mount.dir()))).fs.as_ref().unwrap();
        assert_eq!(facts.available_bytes.is_some(), is_asked, "{facts:?}");
        let what = format!("space of {}", mount.dir().display());
        assert_eq!(scan.unread.iter().any(|unread| unread.what == what), !is_asked);
    }
}

/// Devices and mounts come and go while they are looked at: every look ends well, and sees the one that stays.
fn comes_and_goes() {
    let stays = MountedFs::new(FsKind::Ext4, 16 << 20).unwrap();
    let (mut looks, has_ended) = (0, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..12 {
                drop(MountedFs::new(FsKind::Ext4, 16 << 20).unwrap());
            }
            has_ended.store(true, Ordering::Relaxed);
        });
        while !has_ended.load(Ordering::Relaxed) {
            let scan = look();
            only_below(&scan, node(&scan, &shown(stays.dir())));
            looks += 1;
        }
    });
    assert!(looks >= 3, "{looks}");
}

fn writes_nothing() {
    let device = LoopDevice::new(16 << 20).unwrap();
    let before = Snapshot::take(device.path()).unwrap();
    look();
    before.assert_same(device.path());
}

/// A user without rights gets the same graph, and a list of what was kept from it.
fn without_root() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let scratch = Scratch::new().unwrap();
    let program = scratch.join("inspect");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for dir in [scratch.path(), fs.dir().parent().unwrap()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = tool("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    let output = command.env(super::CHILD, "machine").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let lines: BTreeSet<&str> = text.lines().collect();
    for expected in [shown(fs.dir()), shown(fs.device().path())] {
        assert!(lines.contains(expected.as_str()), "{expected} is not in\n{text}");
    }
    let refused = format!("superblocks of {}: no permission", fs.device().path().display());
    assert!(lines.contains(refused.as_str()), "{refused} is not in\n{text}");
}

/// What [`without_root`] reads: keys of nodes, then what could not be read.
pub fn print() {
    let scan = look();
    scan.machine.nodes.iter().for_each(|node| println!("{}", node.key()));
    scan.unread.iter().for_each(|unread| println!("{}: {}", unread.what, unread.why));
}
