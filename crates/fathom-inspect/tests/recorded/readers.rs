//! Each reader by itself: on a machine with one of everything, every single file and link is damaged in every way, one at a
//! time. The look ends, the graph stays what it was unless the file is what makes it, only the facts of what the file belongs
//! to change, and whatever came of it can be judged.

use crate::broken::{Damage, files, spoil};
use crate::machines;
use crate::scan::check_graph;
use fathom_base::prng::Prng;
use fathom_inspect::{Scan, scan};
use fathom_model::snapshot::Snapshot;
use fathom_testkit::{Tree, counted, sample};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Contents that no attribute has, or that contradict all others.
const WORDS: [&[u8]; 14] = [
    b"",
    b"\n\n \n",
    b"-1",
    b"0",
    b"1",
    b"4294967295",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"\xff\xfe\x00\x80",
    b"[ ] 0-18446744073709551615, : - / = {",
    b"1 / 0",
    b"1e308 NaN inf GT/s Gbps",
    b"..",
];

/// What is done to a file with this content; all of it ends before the next.
fn damages(content: &[u8]) -> Vec<Damage> {
    let mut found: Vec<Damage> = WORDS.iter().map(|word| Damage::Bytes(word.to_vec())).collect();
    let half = &content[..content.len() / 2];
    // Every number of it at its edge: more than all lists and counters can hold.
    let large: Vec<u8> =
        content.iter().map(|b| if b.is_ascii_digit() { b'9' } else { *b }).collect();
    let huge: Vec<u8> = large
        .iter()
        .flat_map(|b| if *b == b'9' { b"1844674407370955161".to_vec() } else { vec![*b] })
        .collect();
    found.extend(
        [half, &large, &huge, &content.repeat(3)].map(|bytes| Damage::Bytes(bytes.to_vec())),
    );
    found.extend([Damage::Bytes(vec![b'7'; 100_000]), Damage::Huge, Damage::Gone]);
    found.extend([Damage::Directory, Damage::Pipe]);
    found
}

/// Links, and files that say who stands on whom, how it is called, that something is there at all, or that nothing on it
/// may be touched.
fn makes_the_graph(path: &Path, is_link: bool) -> bool {
    const NAMES: [&str; 9] = [
        "dev",
        "size",
        "partition",
        "hidden",
        "suspended",
        "mountinfo",
        "comm",
        "backing_file",
        "backing_dev",
    ];
    const PLACES: [&str; 3] = ["proc/swaps", "proc/filesystems", "run/udev/data"];
    let name = path.file_name().unwrap_or_default();
    is_link
        || NAMES.iter().any(|known| name == *known)
        || PLACES.iter().any(|place| path.starts_with(place))
}

/// Names, kinds and what is below, of all nodes.
fn shape(scan: &Scan) -> Vec<String> {
    let nodes = &scan.machine.nodes;
    let below = |index: &usize| nodes[*index].key();
    let line = |node: &fathom_model::stack::Node| {
        let below: Vec<String> = node.below.iter().map(below).collect();
        format!("{} {:?} on {}", node.key(), node.kind, below.join(", "))
    };
    nodes.iter().map(line).collect()
}

/// The nodes whose facts differ, by name.
fn changed(before: &Scan, after: &Scan) -> Vec<String> {
    let pairs = before.machine.nodes.iter().zip(&after.machine.nodes);
    pairs.filter(|(a, b)| a != b).map(|(a, _)| a.name.clone()).collect()
}

/// The block device whose directory holds the file.
fn owner<'a>(path: &Path, devices: &'a BTreeMap<PathBuf, String>) -> Option<&'a str> {
    path.ancestors().find_map(|dir| devices.get(dir)).map(String::as_str)
}

/// One look at the damaged machine, judged. Unless the file makes the graph (`path` is none), that and the facts of others
/// are as before.
fn look_again(
    tree: &Tree,
    before: &Scan,
    path: Option<&Path>,
    devices: &BTreeMap<PathBuf, String>,
    what: &str,
) {
    let after = scan(&tree.root(), &[]).unwrap();
    check_graph(&after.machine);
    if let Some(path) = path {
        assert_eq!(shape(&after), shape(before), "{what}");
        if let Some(owner) = owner(path, devices) {
            let others: Vec<String> =
                changed(before, &after).into_iter().filter(|name| name != owner).collect();
            assert!(others.is_empty(), "{what}: {others:?}");
        }
    }
    let snapshot = Snapshot { machine: after.machine, ..Snapshot::default() };
    let _ = fathom_check::check(&snapshot);
}

#[test]
fn every_file_in_every_way() {
    let machine = machines::one_of_each();
    let count: usize = std::thread::scope(|scope| {
        let parts = [0, 1].map(|part| {
            scope.spawn({
                let machine = &machine;
                move || damage_part(machine, part, 2)
            })
        });
        parts.map(|part| part.join().unwrap()).iter().sum()
    });
    assert!(count >= sample(500, 8000), "{count} looks");
    counted("files of a recorded machine, each damaged in a way", count);
}

/// Every `step`-th file from `part` on. In CI not each of them in each way, but all files and all ways.
fn damage_part(machine: &str, part: usize, step: usize) -> usize {
    let tree = Tree::of_text(machine);
    let base = tree.root().path("/");
    let before = scan(&tree.root(), &[]).unwrap();
    let kinds: BTreeSet<String> =
        before.machine.nodes.iter().map(|node| format!("{:?}", node.kind)).collect();
    assert!(kinds.len() >= 11, "{kinds:?}");
    let all = files(&base);
    let is_device = |path: &&PathBuf| path.ends_with("dev") || path.ends_with("hidden");
    let devices: BTreeMap<PathBuf, String> = all
        .iter()
        .filter(is_device)
        .map(|path| {
            let dir = path.parent().unwrap().strip_prefix(&base).unwrap();
            (dir.to_path_buf(), dir.file_name().unwrap().to_string_lossy().into_owned())
        })
        .collect();
    // No number of ways, so that each file has others than the one before it.
    let (every, mut turn, mut count) = (sample(17, 1), 0, 0);
    for path in all.iter().skip(part).step_by(step) {
        let inside = path.strip_prefix(&base).unwrap();
        let link = std::fs::read_link(path).ok();
        let content = if link.is_some() { Vec::new() } else { std::fs::read(path).unwrap() };
        let checked = Some(inside).filter(|inside| !makes_the_graph(inside, link.is_some()));
        for damage in damages(&content) {
            turn += 1;
            if turn % every != 0 {
                continue;
            }
            spoil(path, &all, &damage);
            look_again(
                &tree,
                &before,
                checked,
                &devices,
                &format!("{}: {damage:?}", inside.display()),
            );
            match &damage {
                Damage::Directory => std::fs::remove_dir(path).unwrap(),
                Damage::Gone => {}
                _ => std::fs::remove_file(path).unwrap(),
            }
            match &link {
                Some(target) => std::os::unix::fs::symlink(target, path).unwrap(),
                None => std::fs::write(path, &content).unwrap(),
            }
            count += 1;
        }
    }
    assert_eq!(shape(&scan(&tree.root(), &[]).unwrap()), shape(&before), "all is as it was");
    count
}

/// Devices go and come back while they are read, with all below them or attribute by attribute: what stays is always there
/// as it was.
#[test]
fn devices_that_come_and_go_meanwhile() {
    const LOOKS: usize = 150;
    let tree = Tree::of_text(&machines::one_of_each());
    let base = tree.root().path("/");
    let before = scan(&tree.root(), &[]).unwrap();
    let all = files(&base);
    let of = |name: &str| -> PathBuf {
        let found = all.iter().find(|path| path.ends_with(format!("{name}/dev"))).unwrap();
        found.parent().unwrap().to_path_buf()
    };
    let sdb = of("sdb");
    let moving = [
        of("sda"),
        of("sdu"),
        of("loop0"),
        of("dm-0"),
        of("sdu1"),
        of("md10").join("md"),
        of("sda").join("queue"),
    ];
    let away = base.join("away");
    let has_ended = AtomicBool::new(false);
    let mut missing = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Prng::new(3, 0);
            while !has_ended.load(Ordering::Relaxed) {
                let place = &moving[random.below(moving.len() as u64) as usize];
                if std::fs::rename(place, &away).is_ok() {
                    (0..random.below(200)).for_each(|_| std::thread::yield_now());
                    std::fs::rename(&away, place).unwrap();
                }
            }
        });
        for _ in 0..LOOKS {
            let after = scan(&tree.root(), &[]).unwrap();
            check_graph(&after.machine);
            let node =
                |scan: &Scan| scan.machine.nodes.iter().find(|node| node.name == "sdb").cloned();
            assert_eq!(node(&after), node(&before), "{}", sdb.display());
            missing += usize::from(after != before);
            let _ =
                fathom_check::check(&Snapshot { machine: after.machine, ..Snapshot::default() });
        }
        has_ended.store(true, Ordering::Relaxed);
    });
    assert!(missing > LOOKS / 10, "{missing} of {LOOKS} looks missed something: hardly a test");
    assert_eq!(scan(&tree.root(), &[]).unwrap(), before);
}
