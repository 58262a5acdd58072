//! Tests of layouts.

use super::*;
use crate::spec::buckets::Buckets;
use crate::spec::{Number, Sizes};
use std::collections::BTreeSet;

fn layout(change: impl FnOnce(&mut TreeSpec)) -> Layout {
    let mut spec = TreeSpec::classic(7, Amount::Files(1000));
    change(&mut spec);
    Layout::new(spec).unwrap()
}

#[test]
fn as_many_files_as_asked_for_lie_in_a_tree() {
    for (files, fan_out, depth) in [
        (1, 3, None),
        (11, 3, None),
        (1000, 3, None),
        (1000, 1, None),
        (1000, 2, Some(2)),
        (1000, 7, Some(0)),
        (5000, 100, Some(1)),
    ] {
        let tree = layout(|spec| {
            spec.amount = Amount::Files(files);
            spec.fan_out = fan_out;
            spec.depth = depth;
        });
        let extent = tree.extent();
        assert_eq!(extent.files, files);
        assert_eq!((0..extent.dirs).map(|dir| tree.files_in(dir)).sum::<u64>(), files);
        let deepest = (0..extent.dirs).map(|dir| tree.depth(dir)).max().unwrap();
        assert!(depth.is_none_or(|depth| deepest <= depth), "{deepest}");
        // Every directory is the child of just one.
        let children: Vec<u64> = (0..extent.dirs).flat_map(|dir| tree.children(dir)).collect();
        assert_eq!(children, (1..extent.dirs).collect::<Vec<_>>());
        for dir in 1..extent.dirs {
            assert!(tree.children(tree.parent(dir).unwrap()).contains(&dir));
        }
    }
}

#[test]
fn a_size_is_met_as_nearly_as_whole_files_allow() {
    let tree = layout(|spec| spec.amount = Amount::Bytes(50 << 20));
    let extent = tree.extent();
    assert!((50 << 20..66 << 20).contains(&extent.bytes), "{extent:?}");
    let sizes = (0..extent.dirs)
        .flat_map(|dir| (0..tree.files_in(dir)).map(move |slot| FileNumber { dir, slot }))
        .map(|file| tree.size(file));
    assert_eq!(sizes.sum::<u64>(), extent.bytes);
    let deep = layout(|spec| {
        spec.amount = Amount::Bytes(50 << 20);
        spec.depth = Some(1);
    });
    assert!(deep.extent().bytes >= 50 << 20 && deep.extent().dirs <= 4);
}

#[test]
fn names_tell_what_they_are_and_others_are_foreign() {
    let tree = layout(|spec| spec.files_per_directory = Number::Fixed(120));
    for dir in 0..tree.extent().dirs {
        let mut names = BTreeSet::new();
        for slot in 0..tree.files_in(dir) {
            let file = FileNumber { dir, slot };
            let name = tree.file_name(file);
            assert!((6..=20).contains(&name.bytes().len()), "{}", name.text());
            assert_eq!(tree.told_by_name(dir, name.bytes()), Named::File(file));
            assert_eq!(tree.told_by_name(dir + 1, name.bytes()), Named::Foreign);
            assert!(names.insert(name.text().to_owned()));
        }
        for child in tree.children(dir) {
            let name = tree.dir_name(child);
            assert_eq!(tree.told_by_name(dir, name.bytes()), Named::Dir(child));
            assert!(names.insert(name.text().to_owned()));
        }
        for name in names {
            let longer = format!("x{name}");
            assert_eq!(tree.told_by_name(dir, longer.as_bytes()), Named::Foreign);
        }
    }
    for name in [
        "",
        "a",
        "thesis.tex",
        "backup.1",
        "abcdef.00",
        "12",
        ".5",
        "_0",
        "abc.99999999999999999999",
    ] {
        assert_eq!(tree.told_by_name(0, name.as_bytes()), Named::Foreign, "{name}");
    }
    assert_eq!(tree.told_by_name(0, b"a\xff.1"), Named::Foreign);
}

#[test]
fn a_tree_is_the_same_from_its_seed_and_another_from_another() {
    let show = |seed: u64| {
        let tree = layout(|spec| spec.seed = seed);
        let files = (0..20).map(|slot| FileNumber { dir: slot, slot: slot % 11 });
        files
            .map(|file| {
                let mut bytes = [0; 8];
                tree.content(file).fill(&mut bytes);
                (tree.file_path(file), tree.size(file), tree.stamp_ns(file), bytes)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(show(1), show(1));
    assert!(show(1).iter().zip(show(2)).all(|(a, b)| a.0 != b.0 && a.2 != b.2 && a.3 != b.3));
    let tree = layout(|spec| spec.seed = 1);
    let file = FileNumber { dir: 12, slot: 3 };
    assert_eq!((tree.file_path(file).as_str(), tree.size(file)), PINNED);
}

const PINNED: (&str, u64) = ("omttkufzgwszre_2/ftvvqefh_2/xmggbaph.3", 12_202);

#[test]
fn a_tree_that_is_cut_off_is_the_beginning_of_the_whole() {
    let tree = layout(|_| {});
    let cut = tree.cut(20);
    assert_eq!(cut.extent().dirs, 20);
    assert_eq!(cut.extent().files, 220);
    for dir in 0..20 {
        assert_eq!(
            (cut.files_in(dir), cut.dir_path(dir)),
            (tree.files_in(dir), tree.dir_path(dir))
        );
    }
    assert_eq!(cut.children(0), 1..4);
    assert_eq!(cut.children(6), 19..20);
    assert_eq!(tree.cut(1 << 40).extent(), tree.extent());
}

#[test]
fn tables_shape_names_sizes_and_directories() {
    let mut counts = Buckets::default();
    [0, 1, 1, 4].into_iter().for_each(|count| counts.add(count));
    let mut lengths = Buckets::default();
    lengths.add(255);
    let tree = layout(|spec| {
        spec.files_per_directory = Number::Table(counts);
        spec.name_bytes = Some(lengths);
        spec.sizes = Sizes::Fixed(5);
    });
    assert_eq!((tree.extent().files, tree.extent().bytes), (1000, 5000));
    let counts: BTreeSet<u64> = (0..tree.extent().dirs - 1).map(|dir| tree.files_in(dir)).collect();
    assert_eq!(counts, BTreeSet::from([0, 1, 4]));
    assert_eq!(tree.dir_name(3).bytes().len(), 255);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut TreeSpec)| {
        let mut spec = TreeSpec::classic(7, Amount::Files(1000));
        change(&mut spec);
        Layout::new(spec).unwrap_err()
    };
    assert!(refused(|s| s.fan_out = 0).contains("fan_out"));
    assert!(refused(|s| s.amount = Amount::Files(0)).contains("nothing"));
    assert!(refused(|s| s.files_per_directory = Number::Fixed(0)).contains("files_per_directory"));
    let empty = refused(|s| {
        s.amount = Amount::Bytes(1);
        s.sizes = Sizes::Fixed(0);
    });
    assert!(empty.contains("no size"), "{empty}");
    let full = refused(|s| {
        s.amount = Amount::Files(1 << 30);
        s.depth = Some(0);
    });
    assert!(full.contains("one directory"), "{full}");
}
