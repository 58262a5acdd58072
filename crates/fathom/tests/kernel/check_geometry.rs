//! `fathom check` on partition tables and filesystems that do not fit their devices: real ones, on loop devices. Where the
//! advice can be followed, it is, and the finding is gone.

use crate::cli::{Done, GIB, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Scratch, Trial, kernel_test,
};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let sgdisk = [FathomBinary, LoopDevices, Tool("sgdisk")];
    let ext4 = [FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("check_tells_a_disk_that_grew", &sgdisk, grown_disk),
        kernel_test("check_tells_a_disk_that_shrank", &sgdisk, shrunk_disk),
        kernel_test("check_tells_a_table_for_other_sectors", &sgdisk, other_sectors),
        kernel_test(
            "check_tells_a_table_that_contradicts",
            &[FathomBinary, LoopDevices, Tool("sfdisk")],
            contradicting_table,
        ),
        kernel_test(
            "check_tells_an_mbr_over_2_tib",
            &[FathomBinary, LoopDevices, Tool("sfdisk"), Tool("sgdisk")],
            large_mbr,
        ),
        kernel_test("check_tells_a_filesystem_that_was_not_grown", &ext4, not_grown),
        kernel_test("check_tells_a_filesystem_that_was_cut_off", &ext4, cut_off),
        kernel_test("check_tells_a_damaged_superblock", &ext4, damaged),
        kernel_test(
            "check_tells_small_blocks_in_a_file",
            &[FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4)],
            small_blocks_in_a_file,
        ),
        kernel_test(
            "check_mends_a_damaged_gpt_as_told",
            &[FathomBinary, LoopDevices, Tool("gdisk"), Tool("sgdisk")],
            mended_gpt,
        ),
        kernel_test(
            "check_mends_damaged_lvm_as_told",
            &[FathomBinary, LoopDevices, Tool("pvck")],
            mended_lvm,
        ),
        kernel_test(
            "check_looks_through_files",
            &[FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4), Tool("sfdisk")],
            through_a_file,
        ),
    ]
}

fn resize(device: &LoopDevice, size_bytes: u64) {
    let file = File::options().write(true).open(device.backing()).unwrap();
    file.set_len(size_bytes).unwrap();
    device.reread_size().unwrap();
}

fn check(device: &LoopDevice) -> Vec<Value> {
    let done: Done = Sandbox::new().json(&["check", p(device.path())], &[0]);
    let defects = done.result()["defects"].as_array().unwrap().clone();
    let is_about_files =
        |defect: &Value| defect["rule"].as_str().is_some_and(|rule| rule.starts_with("loop-"));
    // Loop devices of tests have holes and go through the page cache.
    let on_it =
        defects.into_iter().filter(|d| d["node"] == p(device.path()) || !d["node"].is_string());
    on_it.filter(|defect| !is_about_files(defect)).collect()
}

#[track_caller]
fn one(device: &LoopDevice, rule: &str) -> String {
    let found = check(device);
    let fitting: Vec<&Value> = found.iter().filter(|defect| defect["rule"] == rule).collect();
    assert_eq!(fitting.len(), 1, "{rule}: {found:#?}");
    fitting[0].to_string()
}

#[track_caller]
fn none(device: &LoopDevice, rule: &str) {
    let found = check(device);
    assert!(found.iter().all(|defect| defect["rule"] != rule), "{rule}: {found:#?}");
}

fn run(tool: &str, args: &[&str], device: &LoopDevice) -> String {
    run_tool(tool, args.iter().map(Path::new).chain([device.path()])).unwrap()
}

fn grown_disk() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    run("sgdisk", &["--new=1:0:+32M"], &device);
    none(&device, "gpt-backup-misplaced");
    resize(&device, 128 * MIB);
    let text = one(&device, "gpt-backup-misplaced");
    assert!(text.contains("is in sector 131071; the last sector is 262143"), "{text}");
    assert!(text.contains("\"gravity\":\"medium\""), "{text}");
    run("sgdisk", &["--move-second-header"], &device);
    none(&device, "gpt-backup-misplaced");
}

fn shrunk_disk() {
    let device = LoopDevice::new(128 * MIB).unwrap();
    run("sgdisk", &["--new=1:0:+32M"], &device);
    resize(&device, 64 * MIB);
    let text = one(&device, "gpt-backup-misplaced");
    assert!(text.contains("\"gravity\":\"high\""), "{text}");
}

fn other_sectors() {
    let large = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let device = LoopDevice::with(64 * MIB, Content::Sparse, &large).unwrap();
    run("sgdisk", &["--new=1:0:+32M"], &device);
    none(&device, "table-sector-size");
    let again = LoopDevice::over(device.backing(), &LoopOptions::default()).unwrap();
    let text = one(&again, "table-sector-size");
    assert!(text.contains("counts in sectors of 4096 B, the drive has 512 B"), "{text}");
}

/// A table that is written anew while the kernel keeps the old one, and one whose partitions overlap.
fn contradicting_table() {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(64 * MIB, Content::Sparse, &options).unwrap();
    let write = |entries: &str| {
        let script = format!(
            "printf 'label: dos\\n{entries}' | sfdisk -q --force --no-reread --no-tell-kernel {}",
            device.path().display()
        );
        run_tool("sh", ["-c", &script]).unwrap();
    };
    write("start=2048, size=20480\\nstart=40960, size=20480\\n");
    device.reread_partitions().unwrap();
    none(&device, "table-changed");
    none(&device, "partitions-overlap");
    write("start=2048, size=20480\\nstart=43008, size=20480\\n");
    let text = one(&device, "table-changed");
    assert!(text.contains("partition 2 at byte 22020096, 10485760 B"), "{text}");
    none(&device, "partitions-overlap");
    device.reread_partitions().unwrap();
    none(&device, "table-changed");
    // The second entry (of 16 bytes, from byte 446 on) begins in the first: sfdisk writes no such table.
    let file = File::options().write(true).open(device.path()).unwrap();
    file.write_all_at(&4096_u32.to_le_bytes(), 446 + 16 + 8).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert!(one(&device, "partitions-overlap").contains("partitions 1 and 2 of"));
}

fn large_mbr() {
    let device = LoopDevice::new(3 << 40).unwrap();
    let script = format!(
        "printf 'label: dos\\nsize=1TiB\\n' | sfdisk -q --no-reread {}",
        device.path().display()
    );
    run_tool("sh", ["-c", &script]).unwrap();
    let text = one(&device, "mbr-over-2tib");
    assert!(text.contains("has 3 TiB and an MBR, whose numbers end at 2 TiB"), "{text}");
    run("sgdisk", &["--mbrtogpt"], &device);
    none(&device, "mbr-over-2tib");
    assert!(one(&device, "device-space-unused").contains("leave 2 TiB of 3 TiB unused"));
}

fn not_grown() {
    let fs = MountedFs::new(FsKind::Ext4, 256 * MIB).unwrap();
    resize(fs.device(), 2 * GIB);
    let done = Sandbox::new().json(&["check", p(fs.dir())], &[0]);
    let text = done.result()["defects"].to_string();
    assert!(text.contains("leaves 1.8 GiB of 2 GiB unused"), "{text}");
    // In use it needs a right that not every root has.
    let device = fs.unmount();
    assert!(one(&device, "device-space-unused").contains("e2fsck -f /dev/loop"));
    run("e2fsck", &["-fp"], &device);
    run("resize2fs", &[], &device);
    none(&device, "device-space-unused");
}

fn cut_off() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    none(&device, "filesystem-larger-than-device");
    resize(&device, 32 * MIB);
    let text = one(&device, "filesystem-larger-than-device");
    assert!(text.contains("its last 32 MiB are not there"), "{text}");
}

fn damaged() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    none(&device, "superblock-damaged");
    let file = File::options().write(true).open(device.path()).unwrap();
    // The label, without the checksum over it.
    file.write_all_at(b"changed", 1024 + 0x78).unwrap();
    let text = one(&device, "superblock-damaged");
    assert!(text.contains("ext superblock on loop"), "{text}");
    assert!(text.contains("wipefs --no-act /dev/loop"), "{text}");
}

fn overwrite(device: &LoopDevice, byte: u64) {
    let file = File::options().write(true).open(device.path()).unwrap();
    file.write_all_at(b"XXXX", byte).unwrap();
    file.sync_all().unwrap();
}

/// The letters of the advice, typed into gdisk, write the whole copy of a GPT over the other one.
fn mended_gpt() {
    const BYTES: u64 = 64 * MIB;
    for (byte, letters) in [
        (512 + 16, "r\nb\nc\ny\nw\ny\n"),
        (1024 + 32, "r\nb\nc\ny\nw\ny\n"),
        (BYTES - 512 + 16, "r\nd\nw\ny\n"),
    ] {
        let device = LoopDevice::new(BYTES).unwrap();
        run("sgdisk", &["--new=1:0:+32M"], &device);
        none(&device, "superblock-damaged");
        overwrite(&device, byte);
        let text = one(&device, "superblock-damaged");
        let told =
            if byte > MIB { "r, then d for its header" } else { "b for its header and c for" };
        let command = format!("gdisk {}", p(device.path()));
        assert!(text.contains(told) && text.contains(&command), "{byte}: {text}");
        run_tool("sh", ["-c", &format!("printf '{letters}' | {command}")]).unwrap();
        none(&device, "superblock-damaged");
        assert!(run("sgdisk", &["--verify"], &device).contains("No problems found"), "{byte}");
    }
}

/// What LVM kept of its metadata mends a label, and a metadata area, that are damaged.
fn mended_lvm() {
    let scratch = Scratch::new().unwrap();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let group = format!("fathom{}", std::process::id());
    let typed = |command: &str| {
        let place = p(scratch.path()).to_owned();
        let command = command.replace("/etc/lvm", &place);
        run_tool("sh", ["-c", &format!("export LVM_SYSTEM_DIR={place}; yes | ({command})")])
    };
    typed(&format!("vgcreate {group} {}", p(device.path()))).unwrap();
    none(&device, "superblock-damaged");
    for byte in [528, 4100] {
        overwrite(&device, byte);
        assert!(typed(&format!("vgcfgrestore {group}")).is_err(), "alone it does not help");
        let text = one(&device, "superblock-damaged");
        let command = format!(
            "pvck --repair --file /etc/lvm/backup/GROUP {} && vgcfgrestore GROUP",
            p(device.path())
        );
        assert!(text.contains(&command), "{text}");
        typed(&command.replace("GROUP", &group)).unwrap();
        none(&device, "superblock-damaged");
        typed(&format!("vgs {group}")).unwrap();
    }
}

/// A partition of an image that lies on a filesystem on blocks of 4 KiB begins off them, though the image's device shows
/// 512 bytes.
fn through_a_file() {
    let options = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let disk = LoopDevice::with(128 * MIB, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, disk, &["-b", "4096"], "").unwrap();
    let image = fs.dir().join("image");
    run_tool("fallocate", ["-l", "64M", p(&image)]).unwrap();
    run_tool("sync", ["--file-system", p(&image)]).unwrap();
    let attached = run_tool("losetup", ["--find", "--show", "--partscan", p(&image)]).unwrap();
    let device = attached.trim();
    let looked = |start: u64| {
        let table = fs.dir().join("table");
        std::fs::write(&table, format!("label: dos\nstart={start}, size=65536, type=83\n"))
            .unwrap();
        let script =
            format!("sfdisk --quiet --wipe=always {device} <{}; partx -u {device}", p(&table));
        run_tool("sh", ["-c", script.as_str()]).unwrap();
        let misaligned = |target: &str| {
            let done: Done = Sandbox::new().json(&["check", target], &[0]);
            let defects = done.result()["defects"].as_array().unwrap().clone();
            defects.into_iter().filter(|d| d["rule"] == "misaligned").collect::<Vec<_>>()
        };
        let found = misaligned(&format!("{device}p1"));
        assert_eq!(misaligned(device), found, "the disk brings its partition");
        found
    };
    let (off, on) = (looked(63), looked(2048));
    let shown = Sandbox::new().run(&["check", &format!("{device}p1"), "--alignment"]);
    run_tool("losetup", ["--detach", device]).unwrap();
    assert_eq!(off.len(), 1, "{off:#?}");
    assert!(off[0]["summary"].as_str().unwrap().contains("lies below its file"), "{off:#?}");
    assert_eq!(on, Vec::<Value>::new());
    assert!(shown.stdout.contains("of the backing file, which lies in"), "{shown:?}");
}

/// Blocks of a filesystem in a file are smaller than those of the disk below it: what `--alignment` says comes as a finding.
fn small_blocks_in_a_file() {
    const RULE: &str = "fs-block-below-physical";
    let options = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let disk = LoopDevice::with(2 * GIB, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, disk, &["-b", "4096"], "").unwrap();
    let image = fs.dir().join("image");
    std::fs::File::create(&image).unwrap().set_len(GIB + MIB).unwrap();
    let device = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
    for (block, is_told) in [("4096", false), ("1024", true)] {
        FsKind::Ext4.make(device.path(), &["-b", block]).unwrap();
        let target = p(device.path());
        let done: Done = Sandbox::new().json(&["check", target], &[0]);
        let defects = done.result()["defects"].as_array().unwrap().clone();
        let found: Vec<&Value> = defects.iter().filter(|d| d["rule"] == RULE).collect();
        assert_eq!(found.len(), usize::from(is_told), "{block}: {found:#?}");
        let mount = Mount::new("ext4", device.path(), "").unwrap();
        let shown = Sandbox::new().run(&["check", p(mount.dir()), "--alignment"]);
        assert_eq!(shown.stdout.contains(RULE), is_told, "{block}: {shown:?}");
    }
}
