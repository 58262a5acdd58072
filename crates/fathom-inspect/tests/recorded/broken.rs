//! Machines whose files are cut, binary, huge, contradictory or gone: looks at them end, and give a graph.

use crate::machines;
use crate::scan::check_graph;
use fathom_inspect::scan;
use fathom_testkit::Tree;
use proptest::prelude::*;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// What is done to a file.
#[derive(Debug, Clone)]
pub enum Damage {
    Bytes(Vec<u8>),
    Huge,
    Gone,
    Directory,
    LinkTo(usize),
    Pipe,
}

fn damage() -> impl Strategy<Value = Damage> {
    let odd = vec!["-1", "18446744073709551616", "[", "a [b] c", "1 / 0", "7:0", "../x", "\n\n"];
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Damage::Bytes),
        3 => prop::sample::select(odd).prop_map(|text| Damage::Bytes(text.into())),
        1 => Just(Damage::Huge),
        2 => Just(Damage::Gone),
        1 => Just(Damage::Directory),
        3 => any::<usize>().prop_map(Damage::LinkTo),
        1 => Just(Damage::Pipe),
    ]
}

/// All files and links below a directory, sorted.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                pending.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

pub fn spoil(path: &Path, all: &[PathBuf], damage: &Damage) {
    if std::fs::remove_file(path).is_err() {
        return;
    }
    match damage {
        Damage::Bytes(bytes) => std::fs::write(path, bytes).unwrap(),
        Damage::Huge => std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        Damage::Gone => {}
        Damage::Directory => std::fs::create_dir(path).unwrap(),
        Damage::LinkTo(other) => symlink(&all[other % all.len()], path).unwrap(),
        Damage::Pipe => {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }
    }
}

fn sample_machines() -> Vec<String> {
    vec![
        machines::six_disk_array("recover", "1 / 8", 1),
        machines::nvme_multipath(),
        machines::dm_multipath(),
        machines::dm_crypt(),
        machines::overlay(),
        machines::one_of_each(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn spoilt_files_never_spoil_the_look(
        machine in prop::sample::select(sample_machines()),
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..12),
    ) {
        let tree = Tree::of_text(&machine);
        let all = files(&tree.root().path("/"));
        for (place, damage) in &damages {
            spoil(&all[place.index(all.len())], &all, damage);
        }
        check_graph(&scan(&tree.root(), &[]).unwrap().machine);
        for target in ["/srv/data", "/dev/dm-0"] {
            if let Ok(scan) = scan(&tree.root(), &[PathBuf::from(target)]) {
                check_graph(&scan.machine);
            }
        }
    }
}

/// Volumes on volumes, as many as no kernel stacks, and a circle at their end.
#[test]
fn towers_and_circles_end() {
    let tree = Tree::new();
    let count = 3000;
    for index in 0..count {
        let dir = format!("sys/devices/virtual/block/dm-{index}");
        tree.put(format!("{dir}/dev"), format!("253:{index}\n"));
        tree.put(format!("{dir}/size"), "8\n").put(format!("{dir}/dm/name"), "x\n");
        let below = (index + 1) % count;
        tree.link(format!("{dir}/slaves/dm-{below}"), format!("../../dm-{below}"));
    }
    let whole = scan(&tree.root(), &[]).unwrap().machine;
    check_graph(&whole);
    assert_eq!(whole.nodes.len(), count);
    assert!(whole.tops.is_empty(), "everything stands under something");
    let one = scan(&tree.root(), &[PathBuf::from("/dev/dm-7")]).unwrap().machine;
    check_graph(&one);
    assert!((60..=70).contains(&one.nodes.len()), "{}", one.nodes.len());
    assert_eq!(one.nodes.last().unwrap().name, "deeper than 64 layers");
}

/// Attributes of an array that make no sense, among those that are empty where they do not apply; a reshape shows two values.
#[test]
fn what_an_array_says_without_sense_is_listed() {
    let text = "
[proc/self]
mountinfo = 27 1 9:0 / / rw - ext4 /dev/md0 rw
[sys/devices/virtual/block/md0]
dev = 9:0
size = 2048
queue/read_ahead_kb = 18446744073709551615
queue/logical_block_size = 511
md/level = raid5
md/layout = 2 (2)
md/chunk_size = 65536 (524288)
md/raid_disks = 4 (3)
md/degraded = 0
md/array_state = clean
md/sync_action = reshape
md/dev-sda/state = in_sync
md/dev-sda/slot = 0
md/dev-sda/errors = 0
";
    let told = |tree: &Tree| -> Vec<String> {
        let scan = scan(&tree.root(), &[]).unwrap();
        let md = scan.machine.nodes.iter().find_map(|node| node.md.clone()).unwrap();
        assert_eq!((md.chunk_bytes, md.layout, md.raid_disks), (Some(65536), Some(2), Some(4)));
        let names = scan.unread.iter().map(|unread| unread.what.clone());
        names.map(|name| name.rsplit_once("md0/").unwrap().1.to_owned()).collect()
    };
    let tree = Tree::of_text(text);
    tree.put("sys/devices/virtual/block/md0/md/consistency_policy", "\n");
    let of_queue = ["queue/logical_block_size", "queue/read_ahead_kb"];
    assert_eq!(told(&tree), of_queue);
    let broken: [(&str, &[u8]); 8] = [
        ("array_state", b"\xff\xfe\0x"),
        ("degraded", b"4294967295"),
        ("dev-sda/errors", b"many"),
        ("dev-sda/slot", b"a b c"),
        ("dev-sda/state", b"\xff"),
        ("mismatch_cnt", b"-1"),
        ("stripe_cache_size", b"999999999999999999999999"),
        ("sync_action", b"dancing"),
    ];
    for (name, bytes) in broken {
        tree.put(format!("sys/devices/virtual/block/md0/md/{name}"), bytes);
    }
    let of_array = broken.iter().map(|(name, _)| format!("md/{name}"));
    let expected: Vec<String> = of_array.chain(of_queue.map(str::to_owned)).collect();
    assert_eq!(told(&tree), expected);
}

#[test]
fn what_cannot_be_read_is_listed() {
    let tree = Tree::of_text(&machines::virtio_root());
    tree.link("sys/class/block/sdz", "../../devices/gone/sdz");
    let queue = "sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda";
    tree.put(format!("{queue}/queue/max_segments"), vec![b'1'; 100_000]);
    tree.put(format!("{queue}/size"), "many\n");
    tree.put(format!("{queue}/queue/physical_block_size"), vec![0xff, 0xfe, 0, b'x']);
    tree.put(format!("{queue}/queue/read_ahead_kb"), "999999999999999999999999\n");
    tree.put(format!("{queue}/queue/scheduler"), "rubbish\n");
    tree.put(format!("{queue}/queue/write_cache"), "write sideways\n");
    let image = "sys/devices/virtual/block/loop0";
    tree.put(format!("{image}/dev"), "7:0\n").put(format!("{image}/size"), "18014398509481984\n");
    tree.put(format!("{image}/loop/backing_file"), "/x\n");
    tree.put(format!("{image}/loop/offset"), "18446744073709551615\n");
    tree.put(format!("{image}/loop/sizelimit"), "9223372036854775807\n");
    let scan = scan(&tree.root(), &[]).unwrap();
    let told: Vec<String> =
        scan.unread.iter().map(|unread| format!("{}: {}", unread.what, unread.why)).collect();
    let no_sense = "unreadable: what it holds makes no sense";
    assert_eq!(
        told,
        [
            "/sys/class/block/sdz: vanished".to_owned(),
            format!("/{queue}/queue/max_segments: unreadable: far too long for what it should be"),
            format!("/{queue}/queue/physical_block_size: {no_sense}"),
            format!("/{queue}/queue/read_ahead_kb: {no_sense}"),
            format!("/{queue}/queue/scheduler: {no_sense}"),
            format!("/{queue}/queue/write_cache: {no_sense}"),
            format!("/{queue}/size: unreadable: no size in it"),
            format!("/{image}/loop/offset: {no_sense}"),
            format!("/{image}/size: unreadable: no size in it"),
        ]
    );
}
