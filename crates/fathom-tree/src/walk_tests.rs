//! Tests of walks, and of trees that are made: the order, what is read, and what is passed over.

use super::*;
use crate::grown::verify;
use crate::ops::{READS, WRITES};
use crate::stream::Points;
use crate::walk_grow::{Growing, Writer, next_end};
use crate::window::{Schedule, Slot};
use fathom_base::lognormal::LogNormal;
use fathom_base::provenance::Provenance;
use fathom_model::fsop::{FsopProcess, Role, SyncMode};
use fathom_sys::clock::FastClock;
use fathom_sys::signals::StopFlag;
use std::path::Path;

fn meter<'a>(
    clock: &'a FastClock,
    slot: &'a Slot,
    classes: &[OpClass],
) -> (Meter<'a, FastClock>, Schedule) {
    let schedule = Schedule::new(0, u64::MAX / 4, &[0]);
    let meter = Meter::new(clock, slot, &schedule, 0, classes, &mut || Points::new(10_000, 1, 0));
    (meter, schedule)
}

/// One round through a tree.
fn read(root: &Path, order: WalkOrder, begins: &[&CStr]) -> FsopProcess {
    let (clock, slot) = (FastClock::monotonic(), Slot::default());
    let (mut meter, _) = meter(&clock, &slot, &READS);
    let begins = begins.iter().map(|begin| (*begin).to_owned()).collect();
    let reading = Reading { begins, order, block_bytes: 4096, no_atime: true };
    let (root, over) = (WalkedDir::open(root).expect("there"), AtomicBool::new(false));
    let mut reader = Reader::new(&root, &reading, &mut meter, &over);
    assert!(reader.round(&mut Pending::new(order), &mut EntryBuffer::default()).is_ok());
    meter.finish(Role::Reader, 0).remove(0).0
}

fn write(root: &Path, growing: &Growing, seed: u64) -> FsopProcess {
    let (clock, slot) = (FastClock::monotonic(), Slot::default());
    let (mut meter, _) = meter(&clock, &slot, &WRITES);
    let (root, over) = (WalkedDir::open(root).expect("there"), AtomicBool::new(false));
    let mut writer = Writer::new(&root, growing, &mut meter, &over, seed);
    assert!(writer.run().expect("room"), "it ends because it is full");
    meter.finish(Role::Writer, 0).remove(0).0
}

fn growing(sync: SyncMode, names_max: u64) -> Growing {
    Growing {
        sync,
        block_bytes: 64 << 10,
        sizes: LogNormal::new(4096, 1.93, 1 << 20),
        directories: 3,
        files: 11,
        unit_bytes: 4096,
        bytes_max: u64::MAX,
        names_max,
    }
}

fn count(process: &FsopProcess, class: OpClass) -> u64 {
    process.class(class).map_or(0, |record| record.latency_ns.count())
}

fn path(text: &str) -> CString {
    CString::new(text).expect("no zero in it")
}

#[test]
fn breadth_first_takes_levels_and_depth_first_takes_branches() {
    let children = |name: &CStr| -> &[&CStr] {
        match name.to_bytes() {
            b"" => &[c"a", c"b"],
            b"a" => &[c"1", c"2"],
            b"a/1" => &[c"x"],
            _ => &[],
        }
    };
    let order = |order| {
        let (mut pending, mut seen) = (Pending::new(order), Vec::new());
        let mut next = Some(WalkPath::default());
        while let Some(name) = next {
            children(&name).iter().for_each(|child| pending.add(&name, child));
            seen.push(name.to_str().expect("text").to_owned());
            pending.give_back(name);
            next = pending.next_path();
        }
        seen
    };
    assert_eq!(order(WalkOrder::Breadth), ["", "a", "b", "a/1", "a/2", "a/1/x"]);
    assert_eq!(order(WalkOrder::Depth), ["", "a", "a/1", "a/1/x", "a/2", "b"]);
}

/// What one makes the other reads: the same files, directories and bytes, and the counts of the published tables: one
/// entry more read in each directory than looked at.
#[test]
fn what_a_writer_makes_a_reader_finds() {
    let cases = [(SyncMode::None, WalkOrder::Breadth, 20), (SyncMode::Dir, WalkOrder::Depth, 2)];
    for (sync, order, whole) in cases {
        let dir = tempfile::tempdir().expect("temporary directory");
        let made = write(dir.path(), &growing(sync, 14 * whole), 5);
        let (files, dirs) = (count(&made, OpClass::OpenWrite), count(&made, OpClass::MakeDir));
        assert_eq!(
            (files, dirs),
            (11 * whole, 3 * whole),
            "whole directories of 11 files and 3 directories"
        );
        assert_eq!(count(&made, OpClass::CloseWrite), files);
        let syncs = if sync == SyncMode::None { (0, 0) } else { (files, dirs) };
        assert_eq!((count(&made, OpClass::Sync), count(&made, OpClass::SyncDir)), syncs);
        // The last of them is full before it comes to those below.
        assert_eq!(count(&made, OpClass::OpenDir), whole);
        let read = read(dir.path(), order, &[c""]);
        assert_eq!(count(&read, OpClass::Stat), files + dirs);
        assert_eq!(count(&read, OpClass::ReadDir), files + dirs + dirs + 1);
        for class in [OpClass::OpenRead, OpClass::FirstRead, OpClass::CloseRead] {
            assert_eq!(count(&read, class), files, "{class:?}");
        }
        assert_eq!(read.bytes(), made.bytes());
        assert!(read.bytes() > files * 1_000, "{}", read.bytes());
        assert!(read.crossings.is_empty() && read.vanished == 0);
        let second = write(tempfile::tempdir().expect("dir").path(), &growing(sync, 14 * whole), 6);
        assert_ne!(second.bytes(), made.bytes(), "another seed, other sizes");
    }
}

/// What a writer has made is found as it was made; each thing that somebody changes, takes or adds is named.
#[test]
fn what_a_writer_made_is_read_back() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let growing = growing(SyncMode::None, 60);
    let made = write(dir.path(), &growing, 5);
    let names = count(&made, OpClass::OpenWrite) + count(&made, OpClass::MakeDir);
    let back = |made: u64, seed: u64| {
        let root = WalkedDir::open(dir.path()).expect("there");
        verify(&root, &growing, seed, made, &StopFlag::default()).expect("not stopped")
    };
    let clean = back(names, 5);
    assert_eq!(
        (clean.files, clean.dirs),
        (count(&made, OpClass::OpenWrite), count(&made, OpClass::MakeDir))
    );
    assert_eq!((clean.bytes, clean.wrong), (made.bytes(), 0));
    assert!(back(names, 6).wrong > 0, "of another seed");
    let told = |path: &str, damage: &dyn Fn(&Path), part: &str| {
        let path = dir.path().join(path);
        let before = std::fs::read(&path).ok();
        damage(&path);
        let found = back(names, 5);
        assert_eq!(found.wrong, 1, "{:?}", found.listed);
        assert!(found.listed[0].contains(part), "{:?}", found.listed);
        match before {
            Some(bytes) => std::fs::write(&path, bytes).expect("as before"),
            None => std::fs::remove_file(&path).expect("as before"),
        }
        assert_eq!(back(names, 5), clean);
    };
    let flip = |path: &Path| {
        let mut bytes = std::fs::read(path).expect("a file");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).expect("written");
    };
    told("f0000003", &flip, "f0000003 has 1 other bytes of");
    told(
        "d0000011/f0000014",
        &|path| std::fs::remove_file(path).expect("gone"),
        "d0000011/f0000014 cannot be read",
    );
    told(
        "f0000005",
        &|path| std::fs::write(path, b"").expect("cut"),
        "f0000005 is 0 bytes long instead of",
    );
    told("d0000012/more", &|path| std::fs::write(path, b"x").expect("made"), "no writer made it");
    // In a directory that the writer never came to.
    told(
        "d0000013/d0000055/more",
        &|path| std::fs::write(path, b"x").expect("made"),
        "no writer made it",
    );
}

/// What a writer may take is counted in whole blocks, and never passed: not by a single file.
#[test]
fn a_writer_takes_no_more_than_it_may() {
    const MAX: u64 = 2 << 20;
    let dir = tempfile::tempdir().expect("temporary directory");
    let sizes = LogNormal::new(4096, 1.93, 64 << 10);
    let growing = Growing { sizes, bytes_max: MAX, ..growing(SyncMode::None, u64::MAX) };
    let made = write(dir.path(), &growing, 5);
    let (mut pending, mut taken) = (vec![dir.path().to_owned()], 0);
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(path).expect("directory") {
            let path = entry.expect("entry").path();
            let found = path.metadata().expect("there");
            taken += if found.is_dir() { 4096 } else { found.len().next_multiple_of(4096) };
            if found.is_dir() {
                pending.push(path);
            }
        }
    }
    assert!(taken <= MAX, "{taken}");
    // The file that did not fit is at most 64 KiB, and each of the others takes a little for its inode.
    let names = count(&made, OpClass::OpenWrite) + count(&made, OpClass::MakeDir);
    assert!(taken + 512 * names + (64 << 10) + 512 > MAX, "{taken} and {names} names");
}

#[test]
fn every_byte_that_a_writer_leaves_is_known_as_fathoms() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let block_bytes = 4096;
    let growing = Growing { block_bytes, ..growing(SyncMode::None, 1_400) };
    let made = write(dir.path(), &growing, 9);
    let mut pending = vec![dir.path().to_owned()];
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(path).expect("directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let data = std::fs::read(&path).expect("file");
            // Whole, and cut as a kill between two calls or two pages leaves it.
            let mut lengths = vec![data.len(), 1.min(data.len()), data.len() / 4096 * 4096];
            let ends = |done: &usize| Some(next_end(*done, data.len(), block_bytes));
            lengths.extend(std::iter::successors(Some(1), ends).take(12));
            for length in lengths.into_iter().filter(|length| *length <= data.len()) {
                // Each file alone, as leftovers are looked at.
                let mut known = Provenance::default();
                assert!(known.explains(&data[..length]), "{}: {length}", path.display());
            }
        }
    }
    assert!(made.bytes() > 0);
}

#[test]
fn own_directories_links_and_vanished_names_are_passed_over() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = |name: &str| dir.path().join(name);
    for name in ["kept", ".fathom-x", "locked"] {
        std::fs::create_dir(path(name)).expect("made");
        std::fs::write(path(name).join("file"), "hello").expect("written");
    }
    std::os::unix::fs::symlink(path("kept"), path("link")).expect("made");
    std::fs::write(path("empty"), "").expect("written");
    let seen = read(dir.path(), WalkOrder::Breadth, &[c""]);
    assert_eq!(count(&seen, OpClass::Stat), 6, "kept, locked, link, empty and two files");
    assert_eq!(count(&seen, OpClass::OpenRead), 3);
    assert_eq!(seen.bytes(), 10);
    let gone = read(dir.path(), WalkOrder::Breadth, &[c"no-such", c"kept"]);
    assert_eq!((gone.vanished, count(&gone, OpClass::OpenRead)), (1, 1));
}

#[test]
fn an_empty_tree_is_not_walked_for_ever() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let (clock, slot) = (FastClock::monotonic(), Slot::default());
    let (mut meter, _) = meter(&clock, &slot, &READS);
    let reading = Reading {
        begins: vec![path("")],
        order: WalkOrder::Breadth,
        block_bytes: 4096,
        no_atime: false,
    };
    let (root, over) = (WalkedDir::open(dir.path()).expect("there"), AtomicBool::new(false));
    assert!(Reader::new(&root, &reading, &mut meter, &over).run().is_ok());
}
