//! Trees on every filesystem: the same from a seed, taken up again, checked, removed without what others put there.

use crate::kit::{Kit, check_tree, paths_below, small};
use fathom_testkit::Capability::{FsOnLoop, MountFs, Root, Tool};
use fathom_testkit::{FsKind, Mount, MountedFs, Scratch, TreeSnapshot, Trial, kernel_test};
use fathom_tree::error::TreeError;
use fathom_tree::manifest::check::{Depth, Kind, Report};
use fathom_tree::scan::scan;
use fathom_tree::scan::table::Table;
use fathom_tree::spec::settings::Settings;
use fathom_tree::spec::{Amount, Sizes, TreeSpec};
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = FsKind::ALL
        .into_iter()
        .map(|kind| {
            let body = move || whole_life(MountedFs::new(kind, SIZE).unwrap().dir());
            kernel_test(&format!("tree_whole_life_{kind}"), &[FsOnLoop(kind)], body)
        })
        .collect();
    let tmpfs = [Root, MountFs("tmpfs")];
    trials.push(kernel_test("tree_whole_life_tmpfs", &tmpfs, || {
        let mount = Mount::new("tmpfs", Path::new("tmpfs"), "size=3g").unwrap();
        whole_life(mount.dir());
    }));
    trials.push(kernel_test(
        "tree_whole_life_vfat",
        &[Root, MountFs("vfat"), Tool("mkfs.vfat")],
        || {
            let device = fathom_testkit::LoopDevice::new(SIZE).unwrap();
            let made = std::process::Command::new("mkfs.vfat").arg(device.path()).output().unwrap();
            assert!(made.status.success());
            let mount = Mount::new("vfat", device.path(), "").unwrap();
            whole_life(mount.dir());
        },
    ));
    let none: [fathom_testkit::Capability; 0] = [];
    trials.extend([
        kernel_test("tree_clean_leaves_what_is_others", &none, others_stay),
        kernel_test("tree_clean_after_a_signal_begins_with_none", &none, signalled),
        kernel_test("tree_that_was_moved_or_copied", &none, moved_and_copied),
        kernel_test("tree_by_time_is_a_whole_tree", &none, by_time),
        kernel_test("tree_from_a_scanned_table", &none, scanned),
        kernel_test("tree_mounts_inside_are_not_crossed", &[Root, MountFs("tmpfs")], mounts_inside),
        kernel_test("tree_refuses_other_places", &none, refusals),
    ]);
    trials
}

/// Sparse: the reserve of 1 GiB must be there.
const SIZE: u64 = 3 << 30;

fn whole_life(mount: &Path) {
    let (kit, dir) = (Kit::new(), mount.join("tree"));
    let built = kit.build(&dir, small(800)).unwrap();
    assert_eq!((built.reused, built.made_files), (false, 800));
    let extent = built.tree.layout().extent();
    drop(built);
    let paths = paths_below(&dir);
    // The card and every directory but the tree's own.
    assert_eq!(paths.len() as u64, extent.files + extent.dirs);
    let bytes: u64 = paths
        .iter()
        .map(|path| dir.join(path))
        .filter(|path| path.is_file() && !path.ends_with(".fathom-tree"))
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert_eq!(bytes, extent.bytes);
    let whole = check_tree(&dir, Depth::Content);
    assert_eq!((whole.deviations, whole.files, whole.compared_bytes), (0, 800, extent.bytes));
    let again = kit.build(&dir, small(800)).unwrap();
    assert_eq!((again.reused, again.made_files), (true, 0));
    drop(again);
    // The same seed gives the same tree elsewhere.
    let other = mount.join("other");
    drop(kit.build(&other, small(800)).unwrap());
    assert_eq!(paths_below(&other), paths);
    for path in paths
        .iter()
        .filter(|path| dir.join(path).is_file() && !path.ends_with(".fathom-tree"))
        .step_by(37)
    {
        assert_eq!(fs::read(dir.join(path)).unwrap(), fs::read(other.join(path)).unwrap());
    }
    assert_eq!(kit.noted(), 2);
    for path in [&dir, &other] {
        let cleaned = kit.clean(path).unwrap();
        assert_eq!((cleaned.files, cleaned.foreign), (800, 0));
        assert!(!path.exists());
    }
    assert_eq!(kit.noted(), 0);
}

/// A tree whose turn comes after the signal stays as it is, and can still be used.
fn signalled() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dirs = ["one", "two"].map(|name| scratch.join(name));
    for dir in &dirs {
        drop(kit.build(dir, small(50)).unwrap());
    }
    kit.stop.set(2);
    for dir in &dirs {
        assert!(matches!(kit.clean(dir), Err(TreeError::Interrupted(_))));
        let whole = check_tree(dir, Depth::Content);
        assert_eq!((whole.deviations, whole.files), (0, 50));
    }
}

/// What [`others_stay`] does to its tree.
fn counted_by_kind(report: &Report) {
    let count = |kind| report.listed.iter().filter(|one| one.kind == kind).count() as u64;
    let listed = [count(Kind::Missing), 0, count(Kind::Changed), count(Kind::Foreign)];
    let counted = [report.missing_files, report.missing_dirs, report.changed, report.foreign];
    assert_eq!((listed, counted), ([1, 0, 5, 4], [1, 0, 5, 4]), "{report:#?}");
    let told = report.told().unwrap();
    let words = "1 file is missing, 5 files are changed, 4 names are not of it; the first: ";
    assert!(told.starts_with(words), "{told}");
}

/// Everything that somebody may do to a tree, and what is left of it then.
fn others_stay() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let built = kit.build(&dir, small(600)).unwrap();
    let files: Vec<String> = {
        let layout = built.tree.layout();
        let of = |dir| (0..layout.files_in(dir)).map(move |slot| (dir, slot));
        let number = |(dir, slot)| fathom_tree::spec::layout::FileNumber { dir, slot };
        let all = (0..layout.extent().dirs).flat_map(of).map(number);
        all.filter(|file| layout.size(*file) > 100).map(|file| layout.file_path(file)).collect()
    };
    drop(built);
    let path = |number: usize| dir.join(&files[number]);
    // 0: changed in place, the size is the same. 1: longer. 2: replaced. 3: a second name. 4: touched only. 5: gone.
    // 6: a link in its place. 7: a byte written and the old time put back by its size only.
    fs::File::options().write(true).open(path(0)).unwrap().write_all_at(b"thesis", 10).unwrap();
    let mut longer = fs::read(path(1)).unwrap();
    longer.extend(b"more");
    fs::write(path(1), &longer).unwrap();
    fs::remove_file(path(2)).unwrap();
    fs::write(path(2), "somebody's").unwrap();
    fs::hard_link(path(3), scratch.join("kept")).unwrap();
    let now = fs::FileTimes::new().set_modified(std::time::SystemTime::now());
    fs::File::options().write(true).open(path(4)).unwrap().set_times(now).unwrap();
    fs::remove_file(path(5)).unwrap();
    fs::write(scratch.join("outside"), "x").unwrap();
    fs::remove_file(path(6)).unwrap();
    symlink(scratch.join("outside"), path(6)).unwrap();
    // Beside them: files, a directory with something in it, names like ours, names that are no text.
    let deep = path(files.len() - 1).parent().unwrap().to_owned();
    fs::write(deep.join("notes.txt"), "n").unwrap();
    fs::create_dir_all(deep.join("mine/below")).unwrap();
    fs::write(deep.join("mine/below/abcdefgh.1"), "n").unwrap();
    fs::write(dir.join("abcdefgh.1"), "n").unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"odd\xff\n");
    fs::write(dir.join(odd), "n").unwrap();
    let report = check_tree(&dir, Depth::Content);
    counted_by_kind(&report);
    assert!(matches!(kit.build(&dir, small(600)), Err(TreeError::Changed { .. })));

    let stays: Vec<_> = [0, 1, 2, 3, 6]
        .map(path)
        .into_iter()
        .chain([
            deep.join("notes.txt"),
            deep.join("mine/below/abcdefgh.1"),
            dir.join("abcdefgh.1"),
            dir.join(odd),
        ])
        .map(|path| (fs::symlink_metadata(&path).unwrap().len(), fs::read(&path).unwrap(), path))
        .collect();
    let cleaned = kit.clean(&dir).unwrap();
    // The directory of somebody's counts once.
    assert_eq!(cleaned.foreign, 9, "{cleaned:#?}");
    for (size, content, path) in &stays {
        assert_eq!(
            (fs::symlink_metadata(path).unwrap().len(), &fs::read(path).unwrap()),
            (*size, content),
            "{path:?}"
        );
    }
    let left: Vec<_> = paths_below(&dir)
        .into_iter()
        .filter(|path| !fs::symlink_metadata(dir.join(path)).unwrap().is_dir())
        .collect();
    assert_eq!(left.len(), stays.len(), "{left:?}");
    assert_eq!(fs::read(scratch.join("outside")).unwrap(), b"x");
    assert_eq!(kit.noted(), 0);
    assert!(matches!(kit.clean(&dir), Err(TreeError::NoTree(_))));
}

fn moved_and_copied() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let (dir, copy, moved) = (scratch.join("tree"), scratch.join("copy"), scratch.join("moved"));
    drop(kit.build(&dir, small(100)).unwrap());
    let copied = std::process::Command::new("cp").arg("-a").arg(&dir).arg(&copy).status().unwrap();
    assert!(copied.success());
    let before = TreeSnapshot::take(&copy).unwrap();
    assert!(matches!(kit.clean(&copy), Err(TreeError::Copied(_))));
    before.assert_same(&copy);
    fs::rename(&dir, &moved).unwrap();
    assert_eq!(check_tree(&moved, Depth::Content).deviations, 0);
    assert_eq!(kit.clean(&moved).unwrap().files, 100);
    assert!(!moved.exists());
    before.assert_same(&copy);
}

fn by_time() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let spec = small(1_000_000);
    let built = kit.build_within(&dir, spec.clone(), Some(300_000_000)).unwrap();
    let extent = built.tree.layout().extent();
    assert!(extent.files > 0 && extent.files < 1_000_000, "{extent:?}");
    assert_eq!(extent.files, built.made_files);
    drop(built);
    assert_eq!(check_tree(&dir, Depth::Content).deviations, 0);
    let again = kit.build_within(&dir, spec, Some(300_000_000)).unwrap();
    assert!(again.reused);
    drop(again);
    assert_eq!(kit.clean(&dir).unwrap().files, extent.files);
    assert!(!dir.exists());
}

fn scanned() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let real = scratch.join("real");
    for number in 0..200 {
        let dir = real.join(format!("d{}/e{}", number % 5, number % 10));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("file-{number:020}")), vec![0; 100 * (number % 7)]).unwrap();
    }
    symlink("/", real.join("to-the-top")).unwrap();
    fs::write(real.join("n".repeat(255)), "x").unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe");
    fs::write(real.join(odd), "x").unwrap();
    let found = scan(&real, &kit.stop, &mut |_| {}).unwrap();
    assert_eq!((found.table.files, found.table.directories, found.table.others), (202, 16, 1));
    assert_eq!((found.table.depth, found.unread, found.vanished), (2, 0, 0));
    let text = found.table.text("real");
    assert!(!text.contains("file-"), "no names");
    let table = Table::parse(&text).unwrap();
    let settings = Settings::parse(&[("files".into(), "2000".into())]).unwrap();
    let spec = settings.spec(1, Some(&table), Amount::Files(1));
    let dir = scratch.join("tree");
    drop(kit.build(&dir, spec).unwrap());
    let like = scan(&dir, &kit.stop, &mut |_| {}).unwrap().table;
    let (mean, like_mean) = (table.bytes as f64 / 202.0, like.bytes as f64 / 2000.0);
    assert!((like_mean / mean - 1.0).abs() < 0.2, "{mean} {like_mean}");
    kit.clean(&dir).unwrap();
}

/// Bind mounts make loops, other filesystems hide what is below.
fn mounts_inside() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let built = kit.build(&dir, small(200)).unwrap();
    let layout = built.tree.layout().clone();
    drop(built);
    let inner = dir.join(layout.dir_path(1));
    let mount = |args: &[&std::ffi::OsStr]| {
        assert!(std::process::Command::new("mount").args(args).status().unwrap().success());
    };
    mount(&["--bind".as_ref(), dir.as_os_str(), inner.as_os_str()]);
    let found = scan(&dir, &kit.stop, &mut |_| {}).unwrap();
    assert!(found.other_filesystems == 1 && found.table.files < 202, "{found:?}");
    let cleaned = kit.clean(&dir).unwrap();
    assert_eq!((cleaned.foreign, &cleaned.mounts), (0, &vec![layout.dir_path(1)]));
    assert!(cleaned.files < 200);
    assert!(std::process::Command::new("umount").arg(&inner).status().unwrap().success());
    // What was hidden was not touched, and is still known.
    let rest = kit.clean(&dir).unwrap();
    assert_eq!((cleaned.files + rest.files, rest.mounts.len()), (200, 0));
    assert!(!dir.exists());
}

fn refusals() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let full = scratch.join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("thesis.tex"), "x").unwrap();
    assert!(matches!(kit.build(&full, small(10)), Err(TreeError::NotEmpty { .. })));
    symlink(&full, scratch.join("link")).unwrap();
    for bad in ["link", "no/such/dir"] {
        assert!(
            matches!(kit.build(&scratch.join(bad), small(10)), Err(TreeError::Refused(_))),
            "{bad}"
        );
    }
    for bad in ["/proc/x", "/sys/x", "/dev/x"] {
        assert!(
            matches!(kit.build(Path::new(bad), small(10)), Err(TreeError::Refused(_))),
            "{bad}"
        );
    }
    let mut huge = TreeSpec::classic(1, Amount::Files(1000));
    huge.sizes = Sizes::Fixed(1 << 40);
    let error = kit.build(&scratch.join("huge"), huge).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
    // Nothing is computed file by file for what cannot be.
    let error = kit.build(&scratch.join("huge"), TreeSpec::classic(1, Amount::Bytes(1 << 55)));
    assert!(matches!(error, Err(TreeError::Refused(_))), "{error:?}");
    // An empty directory of somebody's stays.
    let empty = scratch.join("empty");
    fs::create_dir(&empty).unwrap();
    let held = kit.build(&empty, small(10)).unwrap();
    assert!(matches!(kit.clean(&empty), Err(TreeError::Busy(_))));
    drop(held);
    let error = kit.build(&empty, small(11)).unwrap_err();
    assert!(
        matches!(&error, TreeError::Another { differs, .. } if differs == "files=10 instead of files=11"),
        "{error}"
    );
    kit.clean(&empty).unwrap();
    assert!(empty.is_dir() && paths_below(&empty).is_empty());
    assert_eq!(paths_below(&full).len(), 1);
    assert_eq!(kit.noted(), 0);
}
