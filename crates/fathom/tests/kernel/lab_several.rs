//! `fathom lab`: setups of several devices that no array joins: btrfs over all of them, a filesystem on each, shared journals.

use crate::cli::{Sandbox, p};
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::{FsKind, Trial, kernel_test};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("sfdisk")];
    vec![
        kernel_test(
            "lab_btrfs_over_devices",
            &[FathomBinary, FsOnLoop(FsKind::Btrfs)],
            btrfs_over_devices,
        ),
        kernel_test("lab_shared_journal_of_several_filesystems", &ext4, shared_journal),
        kernel_test("lab_ready_plan_shared_journal", &ext4, ready_shared_journal),
    ]
}

const SHORT: &str = "duration = '100ms'\nwarmup = '0s'\nsize = '2M'\n";

/// The facts of the filesystem that a target lies on.
fn filesystem(target: &Value) -> &Value {
    let nodes = target["stack"]["nodes"].as_array().unwrap();
    nodes.iter().find_map(|node| node.get("fs").filter(|fs| fs.is_object())).unwrap()
}

/// Profiles are levels of a factor; each trial shows that they were those, over both devices.
fn btrfs_over_devices() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let text = format!(
        "[[workload]]\nuse = 'randread'\n{SHORT}[setup]\ndevices = ['2 x loop:128M']\nfilesystem.type = 'btrfs'\n\
         filesystem.metadata_profile = 'raid1'\n[factors]\nfilesystem.data_profile = ['single', 'raid0', 'raid1']\n\
         [design]\nblocks = 1\nsentinel = false\n"
    );
    let file = plan(&sandbox, "profiles", &text);
    let dry = sandbox.run(&["lab", p(&file), "--dry-run"]);
    assert!(dry.stdout.contains("-d raid0 -m raid1 /dev/LOOP1 /dev/LOOP2"), "{dry:?}");
    let done = lab(&sandbox, &file, &[]);
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 3);
    for record in &records {
        let level = &record["cell"]["levels"][0][1];
        let fs = filesystem(&record["targets"][0]);
        assert_eq!(fs["data_profiles"], Value::from(vec![level.clone()]), "{fs}");
        assert_eq!(fs["metadata_profiles"], Value::from(vec!["raid1"]), "{fs}");
        assert_eq!(fs["devices"].as_array().unwrap().len(), 2, "{fs}");
    }
    assert_same(&before, &machine(&sandbox, &[]), "after btrfs");
}

/// Where the journal of each workload's filesystem lies, by the level of the factor: inside, on slices of one device, on two.
fn shared_journal() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let load = format!("[[workload]]\nuse = 'randwrite'\ndirect = 'no'\n{SHORT}");
    let text = format!(
        "together = true\n{load}label = 'own'\n{load}label = 'beside'\ntarget = 'setup:2'\n[setup]\ndevices = ['2 x loop:32M']\n\
         filesystem.type = 'ext4'\nfilesystem.each = true\n\
         [factors]\nfilesystem.journal = ['internal', 'loop:32M', 'loop:16M,loop:16M']\n[design]\nblocks = 1\nsentinel = false\n"
    );
    let file = plan(&sandbox, "journals", &text);
    let done = lab(&sandbox, &file, &[]);
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 3);
    let mut found = BTreeMap::new();
    for record in &records {
        let targets = record["targets"].as_array().unwrap();
        assert_eq!(targets.len(), 2, "each workload has its own filesystem");
        let journals: Vec<Option<String>> = targets
            .iter()
            .map(|target| filesystem(target)["journal_device"].as_str().map(str::to_owned))
            .collect();
        found.insert(record["cell"]["levels"][0][1].as_str().unwrap().to_owned(), journals);
    }
    assert_eq!(found["internal"], [None, None]);
    let disk = |journal: &Option<String>| {
        let name = journal.as_deref().unwrap().trim_start_matches("loop");
        let (number, piece) = name.split_once('p').unwrap_or((name, ""));
        (number.to_owned(), piece.to_owned())
    };
    let shared: Vec<_> = found["loop:32M"].iter().map(disk).collect();
    assert_eq!(shared[0].0, shared[1].0, "one device: {found:?}");
    let mut pieces = [shared[0].1.as_str(), shared[1].1.as_str()];
    pieces.sort_unstable();
    assert_eq!(pieces, ["1", "2"], "{found:?}");
    let own: Vec<_> = found["loop:16M,loop:16M"].iter().map(disk).collect();
    assert!(own[0].0 != own[1].0 && own[0].1.is_empty() && own[1].1.is_empty(), "{found:?}");
    assert_same(&before, &machine(&sandbox, &[]), "after the journals");
}

/// The plan that comes with fathom builds what it needs: the neighbour's journal lies elsewhere in one cell, beside ours in the other.
fn ready_shared_journal() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let devices = ["--device", "loop:64M", "--device", "loop:64M", "--device", "loop:64M"];
    let given = ["lab", "shared-journal", "--print", "journal=loop:40M", "elsewhere=loop:20M"];
    let printed = sandbox.run(&[&given[..], &devices[..], &["duration=300ms", "size=4M"]].concat());
    assert_eq!(printed.code, 0, "{printed:?}");
    let text = printed.stdout.replace("blocks = 12", "blocks = 1").replace("\"5s\"", "\"50ms\"");
    let file = sandbox.scratch.join("ready.toml");
    std::fs::write(&file, text).unwrap();
    let done = lab(&sandbox, &file, &[]);
    let records = done.records();
    let mut found = BTreeMap::new();
    for record in &records {
        let disks: Vec<String> = record["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|target| {
                let journal = filesystem(target)["journal_device"].as_str().unwrap();
                let name = journal.trim_start_matches("loop");
                name.split_once('p').map_or(name, |piece| piece.0).to_owned()
            })
            .collect();
        found.insert(record["cell"]["levels"][0][1].as_str().unwrap().to_owned(), disks);
    }
    let is_shared = |cell: &str| found[cell][0] == found[cell][1];
    assert!(!is_shared("setup:2") && is_shared("setup:3"), "{found:?}");
    assert_same(&before, &machine(&sandbox, &[]), "after the ready plan");
}
