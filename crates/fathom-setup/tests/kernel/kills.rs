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
