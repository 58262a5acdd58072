//! Filesystems that refuse direct I/O, buffer it, or live in memory; other people's files.

use crate::cli::{Done, GIB, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountFs, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Snapshot, TreeSnapshot, Trial,
    kernel_test, loopdev,
};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let fs = |kind| [FathomBinary, FsOnLoop(kind)];
    vec![
        kernel_test("ramfs_has_no_direct_io", &[FathomBinary, MountFs("ramfs")], ramfs),
        kernel_test("refused_before_files_are_written", &fs(FsKind::Ext4), refused_early),
        kernel_test("tmpfs_is_memory", &[FathomBinary, MountFs("tmpfs")], tmpfs),
        kernel_test("btrfs_buffers_with_checksums", &fs(FsKind::Btrfs), btrfs),
        kernel_test("ext4_buffers_with_journaled_data", &fs(FsKind::Ext4), ext4),
        kernel_test("xfs_honours_direct_io", &fs(FsKind::Xfs), xfs),
        kernel_test("loop_device_that_buffers", &[FathomBinary, LoopDevices], buffering_loop),
        kernel_test("foreign_file_is_only_read", &[FathomBinary], foreign_file),
        kernel_test("unwritten_extents_are_void", &fs(FsKind::Ext4), unwritten),
        kernel_test("file_in_use_by_a_loop", &[FathomBinary, LoopDevices], file_of_a_loop),
        kernel_test("kept_files_are_ours", &[FathomBinary, Tool("cp")], kept),
        kernel_test("room_on_a_filesystem_of_an_experiment", &fs(FsKind::Ext4), room_of_a_setup),
    ]
}

/// A filesystem with room, on a loop device that passes direct I/O on.
pub fn mounted(kind: FsKind, mkfs: &[&str], options: &str) -> MountedFs {
    let direct = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(2 * GIB, Content::Sparse, &direct).unwrap();
    MountedFs::with(kind, device, mkfs, options).unwrap()
}

/// A loop device over a file in memory: as fast on every machine, however slow its disk is.
pub struct InMemory {
    pub device: LoopDevice,
    // Unmounted after the device is gone.
    _memory: Mount,
}

pub fn in_memory(size_bytes: u64, content: Content) -> InMemory {
    let memory = Mount::new("tmpfs", Path::new("none"), "size=3G").unwrap();
    let backing = memory.backing().unwrap();
    loopdev::make_file(&backing, size_bytes, content).unwrap();
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::over(&backing, &options).unwrap();
    InMemory { device, _memory: memory }
}

/// On everybody's filesystem 1 GiB stays free; on one that an experiment makes for itself 5 % do.
fn room_of_a_setup() {
    let sandbox = Sandbox::new();
    let plan = |size: &str| {
        let file = sandbox.scratch.join("plan.toml");
        let text = format!(
            "question = 'Is there room?'\n[[workload]]\nuse = 'randread'\nsize = '{size}'\nduration = '100ms'\n\
             warmup = '0s'\n[setup]\ndevices = ['loop:512M']\nfilesystem.type = 'ext4'\n[factors]\n\
             block.nr_requests = [32, 64]\n[design]\nblocks = 1\n[prepare]\nsettle = '0s'\nquiet = '0s'\n\
             drop_caches = false\n[[objective]]\nmetric = 'iops'\n"
        );
        fs::write(&file, text).unwrap();
        file
    };
    let done = sandbox.json(&["lab", p(&plan("200M"))], &[0, 1]);
    assert_eq!(done.records().len(), 2, "{done:?}");
    for record in done.records() {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]);
    }
    // More than fits: a sentence with the share that stays free, and nothing is left of the setup.
    // Somebody's filesystem keeps the whole reserve, also where it is mounted below the directory of the store.
    let device = LoopDevice::new(1536 * MIB).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let somebodys = sandbox.scratch.join("state/somebodys");
    fs::create_dir(&somebodys).unwrap();
    let mount = |args: &[&str]| run_tool(args[0], &args[1..]).unwrap();
    mount(&["mount", p(device.path()), p(&somebodys)]);
    let refused = sandbox.run(&["run", "randread", p(&somebodys), "size=1G"]);
    mount(&["umount", p(&somebodys)]);
    refused.is_refusal(4, &["1 GiB stay free"]);
    let done = sandbox.run(&["lab", p(&plan("505M"))]);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.stderr.contains("do not fit on what is built: at most 48"), "{done:?}");
    sandbox.nothing_left(&[]);
}

fn ramfs() {
    let sandbox = Sandbox::new();
    let mount = Mount::new("ramfs", Path::new("none"), "").unwrap();
    let args = ["run", "randread", p(mount.dir()), "size=8M", "operations=1000"];
    // Nothing but the refusal is printed: no test file was written before it.
    let refused = sandbox.run(&args);
    refused.is_refusal(4, &[p(mount.dir()), "ramfs", "no direct I/O", "direct=no"]);
    for (setting, words) in [
        ("trim_fraction=0.1", &["cannot do trim", "ext4"][..]),
        ("zero_fraction=0.1", &["cannot do zero", "ext4"]),
    ] {
        let refused = sandbox.run(&[&args[..], &["direct=no", setting]].concat());
        refused.is_refusal(4, words);
    }
    sandbox.nothing_left(&[mount.dir()]);
    assert!(sandbox.runs().is_empty());
    let done = sandbox.json(&[&args[..], &["direct=no"]].concat(), &[0, 1]);
    assert!(done.finding("memory-target")["summary"].as_str().unwrap().contains("ramfs"));
    sandbox.nothing_left(&[mount.dir()]);
    let huge = ["run", "randread", p(mount.dir()), "size=1P", "direct=no"];
    sandbox.refuses(&huge, 2, &[p(mount.dir()), "memory", "smaller size="]);
    // Before anything is written: there is no note of a test file.
    let quick = sandbox.run(&["quick", p(mount.dir())]);
    assert_eq!(quick.code, 4, "{quick:?}");
    assert!(
        quick.stderr.contains(&format!("fathom run randomio {} direct=no", p(mount.dir())))
            && quick.stderr.contains("no direct I/O")
            && !quick.stderr.contains("Writing"),
        "{quick:?}"
    );
    sandbox.nothing_left(&[mount.dir()]);
}

/// What engine or device cannot do is known before test files are written.
fn refused_early() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = TreeSnapshot::take(fs.dir()).unwrap();
    let args = ["run", "randwrite", p(fs.dir()), "size=64M", "operations=100"];
    for (more, words) in [
        (&["polled=yes", "sync_at_end=none"][..], &["cannot be polled", "use polled=no"][..]),
        (&["files=10", "polled=yes", "sync_at_end=none"], &["cannot be polled"]),
        (&["engine=libaio", "zero_fraction=0.1", "write_fraction=0.9"], &["libaio has no zero"]),
    ] {
        sandbox.run(&[&args[..], more].concat()).is_refusal(4, words);
        sandbox.nothing_left(&[fs.dir()]);
    }
    before.assert_same(fs.dir());
    // The control.
    sandbox.json(&args, &[0, 1]);
}

fn tmpfs() {
    let sandbox = Sandbox::new();
    let mount = Mount::new("tmpfs", Path::new("none"), "size=2G").unwrap();
    let args = ["run", "randread", p(mount.dir()), "size=8M", "operations=1000"];
    let done = sandbox.json(&args, &[1]);
    assert!(done.finding("memory-target")["summary"].as_str().unwrap().contains("tmpfs"));
    assert_eq!(done.result()["verdict"], "doubtful");
    sandbox.nothing_left(&[mount.dir()]);
    // Room that is larger than the memory behind it.
    let large = Mount::new("tmpfs", Path::new("none"), "size=64T").unwrap();
    let huge = ["run", "randread", p(large.dir()), "size=32T"];
    sandbox.refuses(&huge, 2, &[p(large.dir()), "lies in memory", "smaller size="]);
    sandbox.nothing_left(&[large.dir()]);
}

/// A short direct write of a file in the directory.
fn write_in(sandbox: &Sandbox, dir: &Path) -> Done {
    let args = ["run", "randwrite", p(dir), "size=32M", "operations=4000"];
    let done = sandbox.json(&args, &[0, 1]);
    sandbox.nothing_left(&[dir]);
    done
}

/// A run without the finding. The counter of dirtied pages is the machine's: where others write without a pause and the disk is
/// slow, a probe may always meet them.
#[track_caller]
fn bypassing_the_cache(run: impl Fn() -> Done) -> Done {
    let is_direct = |done: &Done| !done.findings().contains(&"direct-is-buffered".to_owned());
    (0..10).map(|_| run()).find(is_direct).expect("direct writes that bypass the page cache")
}

#[track_caller]
fn buffered(done: &Done, fs: &str) {
    let finding = done.finding("direct-is-buffered");
    assert_eq!(finding["severity"], "doubtful");
    assert!(finding["summary"].as_str().unwrap().contains(fs), "{finding}");
    assert!(finding["advice"][0].is_string());
}

fn btrfs() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Btrfs, &[], "");
    buffered(&write_in(&sandbox, fs.dir()), "btrfs");
    let no_cow = fs.dir().join("nocow");
    fs::create_dir(&no_cow).unwrap();
    run_tool("chattr", [Path::new("+C"), &no_cow]).unwrap();
    let done = bypassing_the_cache(|| write_in(&sandbox, &no_cow));
    // btrfs tells logical addresses: where the file lies is said to be unknown.
    let place = done.finding("small-span");
    assert!(place["summary"].as_str().unwrap().contains("unknown"), "{place}");
    drop(fs);
    let fs = mounted(FsKind::Btrfs, &[], "nodatasum");
    bypassing_the_cache(|| write_in(&sandbox, fs.dir()));
}

fn ext4() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "data=journal");
    buffered(&write_in(&sandbox, fs.dir()), "ext4");
    drop(fs);
    let fs = mounted(FsKind::Ext4, &[], "");
    bypassing_the_cache(|| write_in(&sandbox, fs.dir()));
}

fn xfs() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Xfs, &[], "");
    let done = bypassing_the_cache(|| write_in(&sandbox, fs.dir()));
    let small = done.finding("sample-too-small");
    assert!(small["summary"].as_str().unwrap().contains("32 MiB"), "{small}");
    let place = &done.records()[0]["targets"][0]["extents"];
    assert_eq!(place["size_bytes"].as_u64(), Some(32 * MIB), "{place}");
    assert_eq!(
        (place["hole_bytes"].as_u64(), place["unwritten_bytes"].as_u64()),
        (Some(0), Some(0))
    );
}

/// Direct reads of a loop device without direct I/O come from the page cache of its file.
fn buffering_loop() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(32 * MIB, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let args = ["run", "randread", p(device.path()), "operations=2000"];
    let done = sandbox.json(&args, &[0, 1]);
    let finding = done.finding("loop-buffered");
    assert!(finding["summary"].as_str().unwrap().contains(&device.name()), "{finding}");
    let small = done.finding("sample-too-small");
    assert_eq!(small["severity"], "doubtful");
    assert!(small["summary"].as_str().unwrap().contains("the memory"), "{small}");
    assert!(small["advice"][0].as_str().unwrap().contains("--direct-io=on"), "{small}");
    // The file was written a moment ago and is in the page cache: its disk sees nothing of 40 MiB of direct reads.
    let args = ["run", "randread", p(device.path()), "operations=10000"];
    let done = sandbox.json(&args, &[1]);
    if done.records()[0]["devices"].as_array().unwrap().len() > 1 {
        assert_eq!(done.finding("reads-not-from-device")["severity"], "doubtful");
    }
    drop(device);
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(32 * MIB, Content::Pattern(1), &options).unwrap();
    let args = ["run", "randread", p(device.path()), "operations=2000"];
    sandbox.json(&args, &[0, 1]).has_not("loop-buffered");
}

fn foreign_file() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = dir.join("theirs");
    loopdev::make_file(&file, 8 * MIB, Content::Pattern(1)).unwrap();
    let before = TreeSnapshot::take(&dir).unwrap();
    let ctime = |path: &Path| {
        (fs::metadata(path).unwrap().ctime(), fs::metadata(path).unwrap().ctime_nsec())
    };
    let changed = ctime(&file);
    for direct in ["direct=yes", "direct=no"] {
        let args = ["run", "randread", p(&file), direct, "operations=2000"];
        let done = sandbox.json(&args, &[0, 1]);
        done.has_not("unwritten-extents");
        assert_eq!(done.records()[0]["targets"][0]["kind"], "foreign_file");
    }
    let done = sandbox.json(&["run", "seqread", p(&file), "amount=8M"], &[0, 1]);
    assert_eq!(crate::cli::bytes(&done.records()[0]), 8 * MIB);
    for workload in ["randwrite", "seqwrite", "commit", "randomio", "replication", "oltp"] {
        sandbox.refuses(&["run", workload, p(&file)], 3, &[p(&file), "not made by fathom"]);
        sandbox.refuses(&["run", workload, p(&file), "size=4M"], 2, &[p(&file), "exists"]);
        let consented = ["run", workload, p(&file), "--destroy=x"];
        sandbox.refuses(&consented, 3, &[p(&file), "not made by fathom"]);
    }
    let link = sandbox.scratch.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let through_link = sandbox.run(&["run", "randwrite", p(&link)]);
    through_link.is_refusal(3, &[p(&link)]);
    before.assert_same(&dir);
    assert_eq!(ctime(&file), changed, "not even its attributes");
}

fn unwritten() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let (sparse, allocated, written) =
        (fs.dir().join("sparse"), fs.dir().join("allocated"), fs.dir().join("written"));
    File::create(&sparse).unwrap().set_len(16 * MIB).unwrap();
    run_tool("fallocate", [Path::new("-l16M"), &allocated]).unwrap();
    loopdev::make_file(&written, 16 * MIB, Content::Zeros).unwrap();
    for file in [&sparse, &allocated] {
        let args = ["run", "randread", p(file), "operations=1000"];
        let done = sandbox.json(&args, &[1]);
        assert_eq!(done.result()["verdict"], "void");
        let finding = done.finding("unwritten-extents");
        assert_eq!(finding["severity"], "void");
        assert!(finding["summary"].as_str().unwrap().contains(p(file)), "{finding}");
        let relaxed = sandbox.json(&[&args[..], &["--fail-on=void"]].concat(), &[1]);
        relaxed.finding("unwritten-extents");
    }
    let done = sandbox.json(&["run", "randread", p(&written), "operations=1000"], &[0, 1]);
    done.has_not("unwritten-extents");
    assert_ne!(done.result()["verdict"], "void");
}

fn file_of_a_loop() {
    let sandbox = Sandbox::new();
    let kept = sandbox.dir().join("image");
    let done = sandbox
        .json(&["run", "randread", p(&kept), "size=16M", "operations=100", "--keep"], &[0, 1]);
    assert!(kept.exists() && !done.records().is_empty());
    let device = LoopDevice::over(&kept, &LoopOptions::default()).unwrap();
    let before = Snapshot::take(&kept).unwrap();
    let refused = sandbox.run(&["run", "randwrite", p(&kept), "operations=100"]);
    refused.is_refusal(3, &[p(&kept), &device.name(), "losetup -d"]);
    before.assert_same(&kept);
    drop(device);
    let done = sandbox.json(&["run", "randwrite", p(&kept), "operations=100"], &[0, 1]);
    assert_eq!(crate::cli::operations(&done.records()[0]), 100);
    assert!(!before.differences(&Snapshot::take(&kept).unwrap()).is_empty());
}

/// A file that `--keep` left may be written again; a copy of it, which lacks the mark, may not.
fn kept() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("mine");
    let make = ["run", "randread", p(&file), "size=8M", "operations=100", "--keep"];
    sandbox.json(&make, &[0, 1]);
    let args = ["run", "randwrite", p(&file), "operations=100"];
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(crate::cli::operations(&done.records()[0]), 100);
    assert!(file.exists(), "it stays until its owner removes it");
    let copy = sandbox.dir().join("copy");
    run_tool("cp", [&file, &copy]).unwrap();
    let before = Snapshot::take(&copy).unwrap();
    let refused = sandbox.run(&["run", "randwrite", p(&copy), "operations=100"]);
    refused.is_refusal(3, &[p(&copy), "not made by fathom"]);
    before.assert_same(&copy);
}
