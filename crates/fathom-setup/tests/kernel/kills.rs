//! Building and taking down, killed before and after every act; what is left must be put in order by the journal alone.

use crate::driver;
use crate::filesystems::{filesystem, json, over};
use fathom_model::plan::setup::SliceSpec;
use fathom_testkit::Capability::{FsOnLoop, Tool};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Scratch, Trial, counted, kernel_test, sample,
};

pub fn trials() -> Vec<Trial> {
    let needs = [FsOnLoop(FsKind::Ext4), FsOnLoop(FsKind::Btrfs), Tool("sfdisk")];
    vec![
        kernel_test("killed_on_loops_of_its_own", &needs, on_own_loops),
        kernel_test("killed_on_a_slice_of_a_device", &needs, on_a_slice),
        kernel_test("killed_where_old_data_lies_in_a_slice", &needs, on_old_data),
    ]
}

fn on_own_loops() {
    let mut fs = filesystem("ext4");
    fs.journal = Some("loop:16m".to_owned());
    fs.fill_percent = Some(30);
    let kills = sample(12, 300);
    let scratch = Scratch::new().unwrap();
    driver::kills(scratch.path(), &json(&over(&["loop:32m"], Some(fs))), kills).unwrap();
    counted("kills while setups on loop devices are built and taken down", kills);
}

fn on_a_slice() {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(160 << 20, Content::Sparse, &options).unwrap();
    let mut spec = over(&[device.path().to_str().unwrap()], Some(filesystem("btrfs")));
    spec.slice = Some(SliceSpec { start: "4m".to_owned(), size: None });
    let kills = sample(12, 300);
    let scratch = Scratch::new().unwrap();
    driver::kills(scratch.path(), &json(&spec), kills).unwrap();
    counted("kills while setups on partitions are built and taken down", kills);
}

/// Somebody's partition began where ours does, and only its table was wiped.
fn on_old_data() {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(96 << 20, Content::Sparse, &options).unwrap();
    let path = device.path().display();
    let prime = format!(
        "echo start=8192 | sfdisk -q --wipe=never --lock=no {path}; partx --update {path}; mkfs.ext4 -qF {path}p1; \
         udevadm settle 2>/dev/null; for n in 1 2 3 4 5; do partx --delete {path} && break; sleep 0.2; done; wipefs -aq {path}; blkid -p -O 4M {path} | grep -q ext4"
    );
    let mut spec = over(&[device.path().to_str().unwrap()], Some(filesystem("ext4")));
    spec.slice = Some(SliceSpec { start: "4m".to_owned(), size: None });
    let scratch = Scratch::new().unwrap();
    let ends = ["before wiping old data", "before mkfs.ext4"];
    driver::kills_old(scratch.path(), &json(&spec), &prime, ends).unwrap();
}
