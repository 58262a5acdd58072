//! Filesystems over several devices, and several filesystems: made, mounted, looked at by others, killed, taken down.

use crate::driver;
use crate::filesystems::{filesystem, has, json, look, over, refuse};
use fathom_model::plan::setup::{FilesystemSpec, SetupSpec};
use fathom_testkit::Capability::{FsOnLoop, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Scratch, Trial, counted, kernel_test, sample,
};
use std::collections::BTreeSet;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let btrfs = [FsOnLoop(FsKind::Btrfs), Tool("btrfs")];
    let journals = [FsOnLoop(FsKind::Ext4), FsOnLoop(FsKind::Xfs), Tool("sfdisk")];
    vec![
        kernel_test("btrfs_over_devices", &btrfs, btrfs_over_devices),
        kernel_test("filesystems_with_slices_of_a_journal", &journals, shared_journal),
        kernel_test("killed_with_btrfs_over_devices", &btrfs, killed_btrfs),
        kernel_test("killed_with_slices_of_a_journal", &journals, killed_journals),
    ]
}

fn device(size_bytes: u64) -> LoopDevice {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    LoopDevice::with(size_bytes, Content::Sparse, &options).unwrap()
}

fn btrfs(data: &str, metadata: &str) -> FilesystemSpec {
    FilesystemSpec {
        data_profile: Some(data.to_owned()),
        metadata_profile: Some(metadata.to_owned()),
        ..filesystem("btrfs")
    }
}

/// The filesystem's own tool says which devices and profiles there are.
fn btrfs_over_devices() {
    let given = [device(160 << 20), device(160 << 20)];
    let [first, second] = [&given[0], &given[1]].map(|device| device.path().to_str().unwrap());
    let command = "echo x >$1/file; sync $1/file; btrfs filesystem df $1; btrfs filesystem show $1";
    for (data, metadata, devices, shown) in [
        ("single", "dup", &[first, second][..], ["Data, single", "Metadata, DUP"]),
        ("raid0", "raid1", &[first, second, "loop:160m"], ["Data, RAID0", "Metadata, RAID1"]),
        (
            "raid10",
            "raid10",
            &[first, second, "loop:160m", "loop:160m"],
            ["Data, RAID10", "Metadata, RAID10"],
        ),
    ] {
        let text = look(&over(devices, Some(btrfs(data, metadata))), command);
        shown.iter().for_each(|words| has(&text, words));
        has(&text, &format!("Total devices {} ", devices.len()));
        let fact =
            format!("FACT btrfs over {} devices: data {data}, metadata {metadata}", devices.len());
        has(&text, &fact);
        has(&text, "REFRESHED");
    }
    // What is on any of them is somebody's.
    let theirs = device(160 << 20);
    run_tool("mkfs.ext4", [Path::new("-q"), theirs.path()]).unwrap();
    let spec = over(&[first, theirs.path().to_str().unwrap()], Some(btrfs("raid0", "raid1")));
    has(&refuse(&spec), "ext4");
}

fn each(kind: &str, devices: &[&str], journal: &str) -> SetupSpec {
    let fs =
        FilesystemSpec { journal: Some(journal.to_owned()), is_on_each: true, ..filesystem(kind) };
    over(devices, Some(fs))
}

/// Three filesystems: the first and the third share a journal device, the second has one to itself.
fn shared_journal() {
    let journals = [device(130 << 20), device(64 << 20)];
    let [first, second] =
        [&journals[0], &journals[1]].map(|device| device.path().to_str().unwrap());
    let list = format!("{first},{second}");
    let command = "for dir in $1 $1-2 $1-3; do dev=$(findmnt -no SOURCE $dir); \
        dumpe2fs -h $dev 2>/dev/null | grep 'Journal UUID' || findmnt -no OPTIONS $dir; done; \
        lsblk -nrbo NAME,SIZE";
    for (kind, size) in [("ext4", "loop:64m"), ("xfs", "loop:320m")] {
        let text = look(&each(kind, &[size, size, size], &list), command);
        let slices: Vec<String> = ["p1", "p2"].map(|end| format!("{first}{end}")).to_vec();
        for slice in &slices {
            // 128 of the 130 MiB, in two equal halves.
            let name = slice.trim_start_matches("/dev/");
            assert!(
                text.lines()
                    .any(|line| line.contains(name) && line.trim_end().ends_with(" 67108864")),
                "{slice} has 64 MiB: {text}"
            );
        }
        let places: BTreeSet<&str> = text
            .lines()
            .filter(|line| {
                line.starts_with("Journal UUID")
                    || (line.starts_with("rw,") && line.contains("logdev="))
            })
            .collect();
        assert_eq!(places.len(), 3, "each has its own journal: {text}");
        assert!(!text.contains(&format!("{second}p")), "one that serves one filesystem is whole");
    }
}

fn killed_btrfs() {
    let given = [device(160 << 20), device(160 << 20)];
    let paths = [&given[0], &given[1]].map(|device| device.path().to_str().unwrap());
    let spec = over(&[paths[0], paths[1]], Some(btrfs("raid0", "raid1")));
    let kills = sample(12, 300);
    let scratch = Scratch::new().unwrap();
    driver::kills(scratch.path(), &json(&spec), kills).unwrap();
    counted("kills while btrfs over two devices is built and taken down", kills);
}

fn killed_journals() {
    let given = [device(32 << 20), device(32 << 20), device(24 << 20)];
    let paths = [&given[0], &given[1], &given[2]].map(|device| device.path().to_str().unwrap());
    let spec = each("ext4", &[paths[0], paths[1]], paths[2]);
    let kills = sample(16, 300);
    let scratch = Scratch::new().unwrap();
    driver::kills(scratch.path(), &json(&spec), kills).unwrap();
    counted(
        "kills while two filesystems with slices of a journal device are built and taken down",
        kills,
    );
}
