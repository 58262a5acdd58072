//! The test kit's own tests on a real kernel: what it builds works, and all of it is gone afterwards.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

use fathom_testkit::capability::Capability::{
    FsOnLoop, LoopDevices, MountNamespaces, Swap, Tool, Zram as HasZram,
};
use fathom_testkit::command::run_tool;
use fathom_testkit::leftovers::{leftovers, take_down};
use fathom_testkit::oracle::{pattern_mismatch, pattern_write};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedElsewhere, MountedFs, Scratch,
    Snapshot, TreeSnapshot, Trial, Zram, kernel_test, run,
};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut trials: Vec<Trial> = vec![
        kernel_test("loop_device", &[LoopDevices], loop_device),
        kernel_test("loop_options", &[LoopDevices], loop_options),
        kernel_test("loop_partitions", &[LoopDevices, Tool("sfdisk")], loop_partitions),
        kernel_test("set_read_only", &[LoopDevices], set_read_only),
        kernel_test("loops_forget_settings", &[LoopDevices], loops_forget_settings),
        kernel_test("second_loop_over_one_file", &[LoopDevices], second_loop_over_one_file),
        kernel_test("swap_is_released", &[LoopDevices, Swap], swap_is_released),
        kernel_test("busy_mount", &[FsOnLoop(FsKind::Ext4)], busy_mount),
        kernel_test("nested_stack", &[FsOnLoop(FsKind::Ext4)], nested_stack),
        kernel_test("frozen_device_rests", &[FsOnLoop(FsKind::Ext4)], frozen_device_rests),
        kernel_test("elsewhere", &[FsOnLoop(FsKind::Ext4), MountNamespaces], elsewhere),
        kernel_test("panic_cleans_up", &[FsOnLoop(FsKind::Ext4)], panic_cleans_up),
        kernel_test("killed_process", &[FsOnLoop(FsKind::Ext4)], killed_process),
        kernel_test("killed_lane", &[FsOnLoop(FsKind::Ext4), Tool("unshare")], killed_lane),
        kernel_test("zram", &[HasZram], zram),
    ];
    for kind in FsKind::ALL {
        let name = format!("file_system_{kind}");
        trials.push(kernel_test(&name, &[FsOnLoop(kind)], move || file_system(kind)));
    }
    run(trials)
}

fn sysfs(device: &LoopDevice, file: &str) -> String {
    let path = format!("/sys/block/{}/{file}", device.name());
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn loop_device() {
    let device = LoopDevice::with(8 << 20, Content::Pattern(3), &LoopOptions::default()).unwrap();
    assert!(fs::metadata(device.path()).unwrap().file_type().is_block_device());
    assert_eq!(sysfs(&device, "size"), (8 * 2048).to_string());
    assert_eq!(pattern_mismatch(device.path(), 3).unwrap(), None);
    let before = Snapshot::take(device.path()).unwrap();
    pattern_write(device.path(), 4096, 4).unwrap();
    assert_eq!(before.differences(&Snapshot::take(device.path()).unwrap()), vec![0..4096]);
    let (name, backing) = (device.name(), device.backing().to_owned());
    drop(device);
    assert!(!Path::new("/sys/block").join(name).join("loop").exists());
    assert!(!backing.exists());
}

fn loop_options() {
    let options = LoopOptions {
        read_only: true,
        offset_bytes: 1 << 20,
        size_limit_bytes: Some(2 << 20),
        direct_io: true,
        sector_size_bytes: Some(4096),
        ..LoopOptions::default()
    };
    let device = LoopDevice::with(8 << 20, Content::Zeros, &options).unwrap();
    assert_eq!(sysfs(&device, "size"), (2 * 2048).to_string());
    assert_eq!(sysfs(&device, "ro"), "1");
    assert_eq!(sysfs(&device, "queue/logical_block_size"), "4096");
    assert_eq!(sysfs(&device, "loop/offset"), (1 << 20).to_string());
    assert_eq!(sysfs(&device, "loop/dio"), "1");
    assert!(pattern_write(device.path(), 4096, 1).is_err());
}

fn loop_partitions() {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(64 << 20, Content::Sparse, &options).unwrap();
    let table = "label: gpt\\nsize=16MiB\\nsize=16MiB\\n";
    let script = format!("printf '{table}' | sfdisk --quiet {}", device.path().display());
    run_tool("sh", ["-c", &script]).unwrap();
    device.reread_partitions().unwrap();
    FsKind::Ext4.make(&device.partition(2), &[]).unwrap();
    let mount = Mount::new("ext4", &device.partition(2), "").unwrap();
    fs::write(mount.dir().join("a"), "x").unwrap();
    // The device goes first: its mounted partition must not keep it.
    let (name, partition) = (device.name(), device.partition(2));
    drop(device);
    assert!(!Path::new("/sys/block").join(name).join("loop").exists());
    assert!(!partition.exists());
    drop(mount);
}

/// The kernel keeps the largest request of a loop device over detaching; the next user of the number must not suffer from it.
fn loops_forget_settings() {
    let device = LoopDevice::new(1 << 20).unwrap();
    let queue = Path::new("/sys/block").join(device.name()).join("queue");
    let at_first = sysfs(&device, "queue/max_sectors_kb");
    fs::write(queue.join("max_sectors_kb"), "64").unwrap();
    assert_eq!(sysfs(&device, "queue/max_sectors_kb"), "64");
    drop(device);
    assert_eq!(fs::read_to_string(queue.join("max_sectors_kb")).unwrap().trim(), at_first);
}

/// The kernel keeps `blockdev --setro` over detaching; the next user of the number must not suffer from it.
fn set_read_only() {
    // Another process may take the number in between: try again.
    for _ in 0..10 {
        let device = LoopDevice::new(1 << 20).unwrap();
        run_tool("blockdev", [Path::new("--setro"), device.path()]).unwrap();
        assert!(pattern_write(device.path(), 4096, 1).is_err());
        let name = device.name();
        drop(device);
        let again = LoopDevice::new(1 << 20).unwrap();
        if again.name() == name {
            return pattern_write(again.path(), 4096, 1).unwrap();
        }
    }
    panic!("never got the same loop device twice");
}

fn second_loop_over_one_file() {
    let first = LoopDevice::new(4 << 20).unwrap();
    let second = LoopDevice::over(first.backing(), &LoopOptions::default()).unwrap();
    assert_ne!(first.path(), second.path());
    assert_eq!(sysfs(&first, "loop/backing_file"), sysfs(&second, "loop/backing_file"));
    // Also in this order nothing stays: the file's owner takes down what still uses it.
    drop(first);
    assert_eq!(sysfs(&second, "loop/backing_file"), "");
}

fn swap_is_released() {
    let device = LoopDevice::new(16 << 20).unwrap();
    run_tool("mkswap", [device.path()]).unwrap();
    run_tool("swapon", [device.path()]).unwrap();
    let name = device.name();
    drop(device);
    assert!(!fs::read_to_string("/proc/swaps").unwrap().contains(&name));
}

fn file_system(kind: FsKind) {
    let fs_on_loop = MountedFs::with(
        kind,
        LoopDevice::new(kind.size_bytes_min()).unwrap(),
        &["-L", "kit"],
        "noatime",
    )
    .unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let dir = fs_on_loop.dir().display().to_string();
    let line = mounts.lines().find(|line| line.contains(&dir)).unwrap();
    assert!(line.contains(kind.name()) && line.contains("noatime"), "{line}");
    pattern_write(&fs_on_loop.dir().join("data"), 1 << 20, 5).unwrap();
    let before = TreeSnapshot::take(fs_on_loop.dir()).unwrap();
    fs_on_loop.mount().remount("ro").unwrap();
    assert!(fs::write(fs_on_loop.dir().join("new"), "").is_err());
    before.assert_same(fs_on_loop.dir());
    let device = fs_on_loop.unmount();
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&dir));
    let again = Mount::new(kind.name(), device.path(), "ro").unwrap();
    assert_eq!(pattern_mismatch(&again.dir().join("data"), 5).unwrap(), None);
}

fn busy_mount() {
    let fs_on_loop = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap();
    let name = fs_on_loop.device().name();
    let open = fs::File::create(fs_on_loop.dir().join("open")).unwrap();
    drop(fs_on_loop);
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&name));
    // The lazily unmounted file system lives until its last file is closed; then the device goes by itself.
    drop(open);
    wait_until(|| !Path::new("/sys/block").join(&name).join("loop").exists());
}

#[track_caller]
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("still not so after a minute");
}

fn nested_stack() {
    let scratch = Scratch::new().unwrap();
    let disk = scratch.join("outer.img");
    fathom_testkit::loopdev::make_file(&disk, 64 << 20, Content::Sparse).unwrap();
    let point = scratch.join("outer");
    fs::create_dir(&point).unwrap();
    FsKind::Ext4.make(&disk, &[]).unwrap();
    run_tool("mount", [Path::new("-o"), Path::new("loop"), &disk, &point]).unwrap();
    fathom_testkit::loopdev::make_file(&point.join("inner.img"), 16 << 20, Content::Sparse)
        .unwrap();
    let inner = LoopDevice::over(&point.join("inner.img"), &LoopOptions::default()).unwrap();
    // Everything of the stack goes with the directory that it began in.
    drop(scratch);
    assert_eq!(sysfs(&inner, "loop/backing_file"), "");
}

fn frozen_device_rests() {
    let fs_on_loop = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap();
    fs::write(fs_on_loop.dir().join("a"), "x").unwrap();
    let frozen = fs_on_loop.mount().freeze().unwrap();
    let before = Snapshot::take(fs_on_loop.device().path()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    before.assert_same(fs_on_loop.device().path());
    drop(frozen);
    fs::write(fs_on_loop.dir().join("b"), "thawed").unwrap();
}

fn elsewhere() {
    let device = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap().unmount();
    let mounted = MountedElsewhere::new(device.path()).unwrap();
    let path = device.path().display().to_string();
    let mounts = |pid: &str| fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    assert!(!mounts("self").contains(&path));
    assert!(mounts(&mounted.pid().to_string()).contains(&path));
    drop(mounted);
    let blank = LoopDevice::new(1 << 20).unwrap();
    let error = MountedElsewhere::new(blank.path()).unwrap_err().to_string();
    assert!(error.contains("wrong fs type"), "{error}");
}

fn panic_cleans_up() {
    let unwound = std::panic::catch_unwind(|| {
        let fs_on_loop = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap();
        // Like a panic, without its message.
        std::panic::resume_unwind(Box::new(fs_on_loop.device().name()));
    });
    let name = unwound.unwrap_err().downcast::<String>().unwrap();
    assert!(!Path::new("/sys/block").join(*name).join("loop").exists());
}

/// A process that dies without unwinding leaves a mounted file system; it is listed and can be removed.
fn killed_process() {
    let dir =
        std::env::temp_dir().join(format!("fathom-testkit-1-999999999-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let disk = dir.join("disk.img");
    fathom_testkit::loopdev::make_file(&disk, 32 << 20, Content::Sparse).unwrap();
    FsKind::Ext4.make(&disk, &[]).unwrap();
    fs::create_dir(dir.join("mnt")).unwrap();
    run_tool("mount", [Path::new("-o"), Path::new("loop"), &disk, &dir.join("mnt")]).unwrap();
    let listed: Vec<String> =
        leftovers().into_iter().filter(|left| left.dir == dir).map(|left| left.what).collect();
    let kinds: Vec<&str> = listed.iter().filter_map(|what| what.split(' ').next()).collect();
    assert_eq!(kinds, ["mount", "loop", "directory"], "{listed:?}");
    take_down(&dir).unwrap();
    assert!(!leftovers().iter().any(|left| left.dir == dir));
}

/// Its namespace went with it, and the directory too: the kernel still names the owner of the file in memory below a loop device.
fn killed_lane() {
    let owned = format!("fathom-testkit-1-999999998-{}", std::process::id());
    let script = "mount -t tmpfs none /mnt && mkdir /mnt/$0 && truncate -s 16M /mnt/$0/disk.img && losetup -f /mnt/$0/disk.img";
    run_tool("unshare", ["--mount", "sh", "-c", script, &owned]).unwrap();
    let dir = Path::new("/").join(&owned);
    let listed: Vec<_> = leftovers().into_iter().filter(|left| left.dir == dir).collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
    take_down(&dir).unwrap();
    assert!(!leftovers().iter().any(|left| left.dir == dir));
}

fn zram() {
    let device = Zram::new(16 << 20).unwrap();
    assert!(fs::metadata(device.path()).unwrap().file_type().is_block_device());
    pattern_write(device.path(), 16 << 20, 9).unwrap();
    assert_eq!(pattern_mismatch(device.path(), 9).unwrap(), None);
    let mounted_on = device.path().to_owned();
    FsKind::Ext4.make(&mounted_on, &[]).unwrap();
    let mount = Mount::new("ext4", &mounted_on, "").unwrap();
    drop(mount);
    let name = device.name();
    drop(device);
    assert!(!Path::new("/sys/block").join(name).exists());
}
