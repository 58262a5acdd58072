//! After a crash somebody goes on with what fathom had built: not one byte of theirs may go with what lies below it.

use crate::driver::{self, driver, said};
use crate::filesystems::{filesystem, has, json, over, refuse};
use fathom_model::plan::setup::{SetupSpec, SliceSpec};
use fathom_testkit::Capability::{FsOnLoop, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Scratch, Snapshot, Trial, kernel_test,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    let sfdisk = Tool("sfdisk");
    vec![
        kernel_test("a_filesystem_on_our_partition_stays", &[ext4, sfdisk], on_our_partition),
        kernel_test("a_partition_in_our_table_stays", &[ext4, sfdisk], in_our_table),
        kernel_test("a_copy_of_a_device_stays", &[ext4], copied),
        kernel_test("a_copy_with_our_partition_stays", &[ext4, sfdisk], copied_with_partition),
        kernel_test(
            "options_of_mkfs_lead_nowhere_else",
            &[ext4, FsOnLoop(FsKind::Xfs), FsOnLoop(FsKind::Btrfs)],
            options_to_elsewhere,
        ),
        kernel_test("another_file_in_our_place_stays", &[ext4], replaced_file),
    ]
}

/// A device that shows its partitions, larger than where copies of superblocks are looked for.
fn device() -> LoopDevice {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    LoopDevice::with(96 << 20, Content::Sparse, &options).unwrap()
}

fn sliced(device: &LoopDevice, size: Option<&str>) -> SetupSpec {
    let mut spec = over(&[device.path().to_str().unwrap()], Some(filesystem("ext4")));
    spec.slice = Some(SliceSpec { start: "4m".to_owned(), size: size.map(str::to_owned) });
    spec
}

/// Builds, is killed, and somebody unmounts it.
fn leave(scratch: &Scratch, spec: &SetupSpec) {
    let left = driver(&["leave", scratch.path().to_str().unwrap(), &json(spec)], None);
    has(&said(&left), "TARGET");
    let mounts = fathom_sys::mounts::own_mounts(&fathom_sys::sysroot::SysRoot::live());
    let point = mounts.iter().find(|m| m.mount_point.starts_with(scratch.path())).unwrap();
    run_tool("umount", [&point.mount_point]).unwrap();
}

fn partition(device: &LoopDevice, number: u32) -> PathBuf {
    PathBuf::from(format!("{}p{number}", device.path().display()))
}

/// Takes back what it can; what is still to be done is named with these words.
#[track_caller]
fn undo_leaves(scratch: &Scratch, words: &str) {
    let undone = driver(&["undo", scratch.path().to_str().unwrap()], None);
    let text = said(&undone);
    assert!(!undone.status.success(), "{text}");
    has(&text, words);
}

#[track_caller]
fn undo_all(scratch: &Scratch) {
    let undone = driver(&["undo", scratch.path().to_str().unwrap()], None);
    assert!(undone.status.success(), "{}", said(&undone));
    assert!(driver::traces(scratch.path(), &[]).is_empty());
}

fn on_our_partition() {
    let (device, scratch) = (device(), Scratch::new().unwrap());
    leave(&scratch, &sliced(&device, None));
    let partition = partition(&device, 1);
    FsKind::Ext4.make(&partition, &[]).unwrap();
    // Data where a copy of a superblock of btrfs would be on the whole device.
    let noise = vec![0xa7; 1 << 20];
    let at = (64 << 20) - (4 << 20);
    use std::os::unix::fs::FileExt;
    fs::OpenOptions::new().write(true).open(&partition).unwrap().write_all_at(&noise, at).unwrap();
    run_tool("sync", [""; 0]).unwrap();
    let before = Snapshot::take(device.path()).unwrap();
    undo_leaves(&scratch, "ChangedBySomebody { found: \"ext4 on ");
    before.assert_same(device.path());
    assert!(partition.exists());
    // Also where the kernel does not show it, as after a boot.
    run_tool("partx", [Path::new("--delete"), device.path()]).unwrap();
    undo_leaves(&scratch, "ChangedBySomebody { found: \"ext4 on ");
    before.assert_same(device.path());
    run_tool("wipefs", [Path::new("-aq"), &partition]).unwrap();
    undo_all(&scratch);
    assert!(!partition.exists());
}

fn in_our_table() {
    let (device, scratch) = (device(), Scratch::new().unwrap());
    leave(&scratch, &sliced(&device, Some("20m")));
    let line = "start=100000, size=50000";
    let path = device.path().display();
    let append = format!("echo {line} | sfdisk -q --append {path}; partx --update {path}");
    let added = Command::new("sh").args(["-c", &append]).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    let ours = Snapshot::take(&partition(&device, 2)).unwrap();
    undo_leaves(&scratch, "ChangedBySomebody { found: \"partition 2 in our table on ");
    ours.assert_same(&partition(&device, 2));
    run_tool(
        "sfdisk",
        [Path::new("--quiet"), Path::new("--delete"), device.path(), Path::new("2")],
    )
    .unwrap();
    undo_all(&scratch);
}

/// The device is away, and a copy of it is there: somebody's backup.
fn copied() {
    let scratch = Scratch::new().unwrap();
    let device = LoopDevice::new(32 << 20).unwrap();
    leave(&scratch, &over(&[device.path().to_str().unwrap()], Some(filesystem("ext4"))));
    let copy = LoopDevice::new(32 << 20).unwrap();
    fs::copy(device.backing(), copy.backing()).unwrap();
    drop(device);
    let before = Snapshot::take(copy.path()).unwrap();
    undo_leaves(&scratch, "Gone(");
    before.assert_same(copy.path());
}

/// A partition has its UUID on the copy, too.
fn copied_with_partition() {
    let scratch = Scratch::new().unwrap();
    let original = device();
    leave(&scratch, &sliced(&original, None));
    let copy = device();
    fs::copy(original.backing(), copy.backing()).unwrap();
    drop(original);
    run_tool("partx", [Path::new("--update"), copy.path()]).unwrap();
    assert!(partition(&copy, 1).exists());
    let before = Snapshot::take(copy.path()).unwrap();
    undo_leaves(&scratch, "Gone(");
    before.assert_same(copy.path());
    assert!(partition(&copy, 1).exists());
}

fn replaced_file() {
    let scratch = Scratch::new().unwrap();
    leave(&scratch, &over(&["loop:16m"], Some(filesystem("ext4"))));
    let find = format!("find {} -name disk-1.img", scratch.path().display());
    let found = Command::new("sh").args(["-c", &find]).output().unwrap();
    let file = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    fs::remove_file(&file).unwrap();
    fs::write(&file, vec![0; 15 << 20]).unwrap();
    run_tool("mkfs.ext4", [Path::new("-qF"), &file]).unwrap();
    let theirs = fs::read(&file).unwrap();
    undo_leaves(&scratch, "ChangedBySomebody { found: \"ext4 in ");
    assert!(fs::read(&file).unwrap() == theirs);
    fs::remove_file(&file).unwrap();
    undo_all(&scratch);
}

/// Options of mkfs that lead to another device: nothing is built, and not a byte of it changes.
fn options_to_elsewhere() {
    let (device, other) =
        (LoopDevice::new(400 << 20).unwrap(), LoopDevice::new(400 << 20).unwrap());
    let (path, elsewhere) = (device.path().to_str().unwrap(), other.path().display());
    FsKind::Ext4.make(other.path(), &[]).unwrap();
    let before = Snapshot::take(other.path()).unwrap();
    let blank = Snapshot::take(device.path()).unwrap();
    for (kind, options) in [
        ("xfs", format!("-f -l logdev={elsewhere}")),
        ("btrfs", format!("-f {elsewhere}")),
        ("ext4", format!("-J device={elsewhere}")),
    ] {
        let mut fs = filesystem(kind);
        fs.make_options = options.split(' ').map(str::to_owned).collect();
        let text = refuse(&over(&[path], Some(fs)));
        has(&text, "ERROR Usage");
        has(&text, "it names another device or file, to which nobody consented");
        before.assert_same(other.path());
        blank.assert_same(device.path());
    }
}
