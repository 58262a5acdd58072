//! How much `fathom check` reads of a disk with partitions, by the disk's own count.

use crate::cli::{Done, GIB, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, Trial, command, kernel_test,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let tools = [FathomBinary, LoopDevices, Tool("sfdisk"), FsOnLoop(FsKind::Ext4)];
    let all = [&tools[..], &[FsOnLoop(FsKind::Btrfs), FsOnLoop(FsKind::Xfs)]].concat();
    vec![
        kernel_test("check_reads_a_mebibyte_of_a_disk_of_100_partitions", &tools, many),
        kernel_test("check_reads_everything_of_a_dozen_partitions", &all, a_dozen),
    ]
}

/// A disk with so many partitions of the same size.
fn divided(disk_bytes: u64, count: u32, mib: u32) -> LoopDevice {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let disk = LoopDevice::with(disk_bytes, Content::Sparse, &options).unwrap();
    let table = disk.backing().with_file_name("table");
    let lines = format!("size={mib}MiB\n").repeat(count as usize);
    fs::write(&table, format!("label: gpt\n{lines}")).unwrap();
    let script = format!("sfdisk --quiet --no-reread {} <{}", p(disk.path()), p(&table));
    command::run_tool("sh", ["-c", script.as_str()]).unwrap();
    disk.reread_partitions().unwrap();
    disk
}

fn read_bytes(disk: &LoopDevice) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", disk.name())).unwrap();
    stat.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
}

/// What is said of a disk, and what was read of it meanwhile: the least of several looks, for others may look at all devices, too.
fn looked(disk: &LoopDevice, beside: &[&str]) -> (Done, u64) {
    const LOOKS: usize = 3;
    const TRIES: usize = 40;
    let mut looks = Vec::new();
    for _ in 0..TRIES {
        let before = read_bytes(disk);
        thread::sleep(Duration::from_millis(50));
        if read_bytes(disk) != before {
            continue;
        }
        let targets = [&["check", p(disk.path())], beside].concat();
        let done = Sandbox::new().json(&targets, &[0]);
        looks.push((done, read_bytes(disk) - before));
        if looks.len() >= LOOKS && looks.iter().any(|(_, bytes)| *bytes <= MIB) {
            break;
        }
    }
    looks.into_iter().min_by_key(|(_, bytes)| *bytes).unwrap()
}

/// The filesystems, swap included, that were found on the partitions, by number.
fn found(done: &Done, disk: &LoopDevice) -> BTreeMap<u32, String> {
    let result = done.result();
    let nodes = result["snapshot"]["machine"]["nodes"].as_array().unwrap().clone();
    let of = |node: &Value| {
        let number = node["name"].as_str()?.strip_prefix(&format!("{}p", disk.name()))?;
        let content = &node["detail"]["content"];
        let name = content["filesystem"]["fs_type"].as_str().or(content["other"][0].as_str())?;
        Some((number.parse().ok()?, name.to_owned()))
    };
    nodes.iter().filter_map(of).collect()
}

fn unread(done: &Done, what: &str) -> Vec<String> {
    let result = done.result();
    let all = result["snapshot"]["unread"].as_array().unwrap().clone();
    let texts = all.iter().map(|one| format!("{}: {}", one["what"], one["why"]).replace('"', ""));
    texts.filter(|text| text.contains(what)).collect()
}

/// Partitions share what may be read of their disk. The most telling pages of all of them come first; what else there is, is listed.
fn many() {
    let disk = divided(256 * MIB, 100, 2);
    for number in [1, 50, 100] {
        FsKind::Ext4.make(&disk.partition(number), &[]).unwrap();
    }
    let (done, bytes) = looked(&disk, &[]);
    println!("read {bytes} of {} with 100 partitions", disk.name());
    assert!((MIB / 2..=MIB).contains(&bytes), "{bytes}");
    let of: Vec<u32> = found(&done, &disk).into_keys().collect();
    assert_eq!(of, [1, 50, 100]);
    let told = unread(&done, &disk.name());
    let line = |number| format!("part of the superblocks of {}", p(&disk.partition(number)));
    for number in [1, 77, 100] {
        let why = "1 MiB was read of the whole device: no more";
        assert!(told.contains(&format!("{}: {why}", line(number))), "{number}: {told:#?}");
    }
}

/// The usual disk has a few partitions: all that they hold is read, and it is less than a mebibyte.
fn a_dozen() {
    let disk = divided(5 * GIB, 12, 400);
    let expected: BTreeMap<u32, String> = (1..=12)
        .map(|number| {
            let device = disk.partition(number);
            let kind = match number % 4 {
                0 => FsKind::Xfs,
                1 | 2 => FsKind::Ext4,
                _ => FsKind::Btrfs,
            };
            if number == 12 {
                command::run_tool("mkswap", [&device]).unwrap();
                return (number, "swap".to_owned());
            }
            kind.make(&device, &[]).unwrap();
            (number, kind.name().to_owned())
        })
        .collect();
    let mounts = [1, 2, 4].map(|number| {
        let kind = expected[&number].as_str();
        Mount::new(kind, &disk.partition(number), "").unwrap()
    });
    let (done, bytes) = looked(&disk, &mounts.each_ref().map(|mount| p(mount.dir())));
    drop(mounts);
    println!("read {bytes} of {} with a dozen filesystems", disk.name());
    assert!(bytes <= MIB, "{bytes}");
    assert_eq!(found(&done, &disk), expected);
    assert_eq!(unread(&done, &disk.name()), Vec::<String>::new());
    let result = done.result();
    let nodes = result["snapshot"]["machine"]["nodes"].as_array().unwrap().clone();
    let groups = nodes.iter().filter(|node| node["fs"]["groups_uninitialised"].is_u64());
    assert_eq!(groups.count(), 2, "of the ext4 that are mounted");
}
