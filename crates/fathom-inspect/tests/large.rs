//! A machine with ten thousand block devices: how long a look and its judgement take, and how much memory.
//!
//! A test program of its own, since memory is counted for a whole process.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

use fathom_inspect::scan;
use fathom_model::snapshot::Snapshot;
use fathom_model::stack::NodeKind;
use fathom_testkit::Tree;
use std::time::{Duration, Instant};

/// The goals, and what is allowed here: this runs unoptimised, beside other tests, and on slow disks.
const GOAL: (Duration, u64) = (Duration::from_secs(1), 200 << 20);
const ALLOWED_TIMES: u32 = 60;

/// Files that may be read for each device on average: half of them have a queue, of which some forty attributes say something.
const READS_OF_A_DEVICE: u64 = 27;

const ARRAYS: usize = 250;
const DISKS_OF_AN_ARRAY: usize = 10;
const PARTITIONS: usize = 2;
const VOLUMES_ON_AN_ARRAY: usize = 9;

/// 250 arrays of ten disks with two partitions each, nine logical volumes on each array, a filesystem on each volume.
///
/// Making a million files would take longer than the look at them. So all disks share their queue attributes, through
/// links to one directory: to the reader that is the same number of opened files.
fn machine() -> (Tree, usize) {
    let tree = Tree::new();
    shared_queue(&tree);
    let mut mounts = "20 1 0:20 / / rw - tmpfs tmpfs rw\n".to_owned();
    for array in 0..ARRAYS {
        let md = format!("sys/devices/virtual/block/md{array}");
        tree.put(format!("{md}/dev"), format!("9:{array}\n")).put(format!("{md}/size"), "800000\n");
        whole_device(&tree, &md, "../../../../../queue");
        for (name, text) in [("level", "raid10"), ("layout", "258"), ("chunk_size", "65536")] {
            tree.put(format!("{md}/md/{name}"), text);
        }
        for disk in 0..DISKS_OF_AN_ARRAY {
            let name = disk_with_partitions(&tree, array * DISKS_OF_AN_ARRAY + disk);
            tree.link(format!("{md}/slaves/{name}1"), format!("../../{name}1"));
            tree.put(format!("{md}/md/dev-{name}1/state"), "in_sync\n");
        }
        for volume in 0..VOLUMES_ON_AN_ARRAY {
            let minor = array * VOLUMES_ON_AN_ARRAY + volume;
            logical_volume(&tree, array, minor);
            let id = minor + 30;
            mounts += &format!("{id} 20 253:{minor} / /srv/{minor} rw - xfs /dev/dm-{minor} rw\n");
        }
    }
    tree.put("proc/self/mountinfo", mounts);
    (tree, ARRAYS * (1 + DISKS_OF_AN_ARRAY * (1 + PARTITIONS) + VOLUMES_ON_AN_ARRAY))
}

fn shared_queue(tree: &Tree) {
    let names = std::fs::read_dir("/sys/block").unwrap().flatten().next().unwrap().path();
    // As many attributes as this machine's kernel has.
    for entry in std::fs::read_dir(names.join("queue")).unwrap().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tree.put(format!("queue/{}", entry.file_name().to_string_lossy()), text);
        }
    }
}

/// What every block device has.
fn device(tree: &Tree, dir: &str, uevent: &str) {
    for (name, text) in [("ro", "0\n"), ("alignment_offset", "0\n"), ("uevent", uevent)] {
        tree.put(format!("{dir}/{name}"), text);
    }
}

/// What it has unless it is a partition; the place of its queue is relative to it.
fn whole_device(tree: &Tree, dir: &str, queue: &str) {
    device(tree, dir, "DEVTYPE=disk\n");
    tree.put(format!("{dir}/stat"), "0 0 0 0 0 0 0 0 0 0 0").put(format!("{dir}/inflight"), "0 0");
    tree.link(format!("{dir}/queue"), queue);
}

fn disk_with_partitions(tree: &Tree, index: usize) -> String {
    let name = format!("sd{}", letters(index));
    let scsi = format!(
        "sys/devices/pci0000:00/0000:00:1f.2/host{}/target0:0:{index}/0:0:{index}:0",
        index % 16
    );
    for (attribute, text) in [("vendor", "X"), ("model", "Y"), ("state", "running"), ("type", "0")]
    {
        tree.put(format!("{scsi}/{attribute}"), text);
    }
    // As every disk of SCSI has it: whoever asks need not look further up.
    tree.put(format!("{scsi}/power/runtime_status"), "active");
    tree.link(format!("{scsi}/subsystem"), "../../../../../../bus/scsi");
    let dir = format!("{scsi}/block/{name}");
    // No number that arrays or volumes have.
    let major = 1000 + index / 16;
    tree.put(format!("{dir}/dev"), format!("{major}:{}\n", index % 16 * 16));
    tree.put(format!("{dir}/size"), "2000000\n");
    tree.link(format!("{dir}/device"), format!("../../../0:0:{index}:0"));
    whole_device(tree, &dir, "../../../../../../../../../queue");
    tree.link(format!("dev/disk/by-id/wwn-{index}"), format!("../../{name}"));
    for number in 1..=PARTITIONS {
        let part = format!("{dir}/{name}{number}");
        tree.put(format!("{part}/dev"), format!("{major}:{}\n", index % 16 * 16 + number));
        tree.put(format!("{part}/partition"), number.to_string());
        device(tree, &part, &format!("DEVTYPE=partition\nPARTN={number}\nPARTUUID=0b1c\n"));
        tree.put(format!("{part}/size"), "900000\n").put(format!("{part}/start"), "2048\n");
    }
    name
}

fn logical_volume(tree: &Tree, array: usize, minor: usize) {
    let dir = format!("sys/devices/virtual/block/dm-{minor}");
    tree.put(format!("{dir}/dev"), format!("253:{minor}\n")).put(format!("{dir}/size"), "80000\n");
    tree.put(format!("{dir}/dm/name"), format!("vg-{minor}"))
        .put(format!("{dir}/dm/uuid"), "LVM-x");
    tree.link(format!("{dir}/slaves/md{array}"), format!("../../md{array}"));
    whole_device(tree, &dir, "../../../../../queue");
    tree.put(format!("dm/dm-{minor}.table"), format!("0 80000 linear 9:{array} 2048\n"));
}

/// `a` to `z`, `aa` and on.
fn letters(mut index: usize) -> String {
    let mut name = String::new();
    loop {
        name.insert(0, char::from(b'a' + (index % 26) as u8));
        if index < 26 {
            return name;
        }
        index = index / 26 - 1;
    }
}

/// The most memory that this process has had, without what it had before.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// What this process has used of the processors, in the kernel too: other load does not change it much.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
    // Hundredths of a second, of ended threads as well.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

/// How often this process has read a file: the same for the same machine and kernel, however busy it is.
fn reads() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

#[test]
fn ten_thousand_devices() {
    let (tree, devices) = machine();
    assert_eq!(devices, 10_000);
    let before = peak_bytes();
    let (start, worked, read) = (Instant::now(), processor_time(), reads());
    let scan = scan(&tree.root(), &[]).unwrap();
    let (took, worked) = (start.elapsed(), processor_time() - worked);
    let read = reads().zip(read).map(|(after, before)| after - before);
    let (judging, judged) = (Instant::now(), processor_time());
    let snapshot = Snapshot { machine: scan.machine, ..Snapshot::default() };
    let defects = fathom_check::check(&snapshot);
    let (judging, judged) = (judging.elapsed(), processor_time() - judged);
    let memory = peak_bytes() - before;
    println!(
        "{devices} devices: a look {took:?} ({worked:?} of processors, {read:?} reads), {} findings {judging:?} ({judged:?} of \
         processors), goal {:?} for both; {} MiB more (goal {} MiB)",
        defects.len(),
        GOAL.0,
        memory >> 20,
        GOAL.1 >> 20
    );
    let machine = &snapshot.machine;
    let count = |kind| machine.nodes.iter().filter(|node| node.kind == kind).count();
    assert_eq!(count(NodeKind::Disk), ARRAYS * DISKS_OF_AN_ARRAY);
    assert_eq!(count(NodeKind::Dm), ARRAYS * VOLUMES_ON_AN_ARRAY);
    assert_eq!(count(NodeKind::Mount), ARRAYS * VOLUMES_ON_AN_ARRAY + 1);
    assert_eq!(machine.disks_under(machine.by_key()["/srv/17"]).len(), DISKS_OF_AN_ARRAY);
    assert!(!defects.is_empty());
    assert!(took + judging < GOAL.0 * ALLOWED_TIMES, "{took:?} and {judging:?}");
    assert!(memory < GOAL.1, "{memory} bytes");
    assert!(read.is_none_or(|read| read < READS_OF_A_DEVICE * devices as u64), "{read:?} reads");
}
