//! Limits: long names, deep paths, no space, no inodes, a filesystem that becomes read-only, directories that vanish.

use crate::kit::{Kit, check_tree, paths_below, resident_bytes, small};
use fathom_testkit::Capability::FsOnLoop;
use fathom_testkit::{
    FsKind, Judged, LoopDevice, MountedFs, Scratch, Trial, counted, is_soak, kernel_test,
};
use fathom_tree::error::{TreeError, TreeErrorClass};
use fathom_tree::manifest::check::Depth;
use fathom_tree::scan::scan;
use fathom_tree::spec::buckets::Buckets;
use fathom_tree::spec::{Amount, Number, Sizes, TreeSpec};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("tree_long_names_and_deep_paths", &[], long_and_deep),
        kernel_test("tree_without_space", &ext4, no_space),
        kernel_test("tree_without_inodes", &ext4, no_inodes),
        kernel_test("tree_of_empty_files_takes_most_inodes", &ext4, most_inodes),
        kernel_test("tree_on_a_filesystem_that_becomes_read_only", &ext4, read_only),
        kernel_test("tree_that_vanishes_meanwhile", &[], vanishing),
        kernel_test("tree_of_many_files", &[], many),
    ]
}

fn long_and_deep() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let mut spec = TreeSpec::classic(7, Amount::Files(120));
    spec.fan_out = 1;
    spec.files_per_directory = Number::Fixed(2);
    spec.sizes = Sizes::Fixed(3);
    spec.name_bytes = Some(Buckets::of(255));
    let built = kit.build(&dir, spec).unwrap();
    // Sixty directories of 255 bytes, one in the other: 15 KiB of path, where the kernel takes 4.
    assert_eq!(built.tree.layout().dir_path(59).len(), 59 * 256 - 1);
    drop(built);
    assert_eq!(check_tree(&dir, Depth::Content).deviations, 0);
    let found = scan(&dir, &kit.stop, &mut |_| {}).unwrap();
    assert_eq!((found.table.files, found.table.depth, found.unread), (121, 59, 0), "{found:?}");
    let cleaned = kit.clean(&dir).unwrap();
    assert_eq!((cleaned.files, cleaned.foreign), (120, 0));
    assert!(!dir.exists());
}

/// Somebody else fills the filesystem while the tree is built: a clear end, nothing lost, everything removable.
fn ends_early(fs: &MountedFs, meanwhile: impl Fn(&Path) + Sync) -> TreeError {
    let (kit, dir) = (Kit::new(), fs.dir().join("tree"));
    let is_over = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && paths_so_far(&dir) < 700 {
                std::thread::sleep(Duration::from_millis(1));
            }
            meanwhile(fs.dir());
        });
        let mut spec = small(60_000);
        spec.sizes = Sizes::Fixed(8000);
        let built = kit.build(&dir, spec);
        is_over.store(true, Ordering::Relaxed);
        built.map(drop).unwrap_err()
    });
    assert_eq!(kit.noted(), 1, "{error}");
    fs.mount().remount("rw").unwrap();
    assert!(kit.clean(&dir).unwrap().files > 0);
    assert!(!dir.exists());
    assert_eq!(kit.noted(), 0);
    error
}

fn paths_so_far(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, |entries| {
        let below = |entry: fs::DirEntry| fs::read_dir(entry.path()).map_or(1, Iterator::count);
        entries.flatten().map(below).sum::<usize>() * 30
    })
}

fn no_space() {
    let fs = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
    let error = ends_early(&fs, |mount| {
        let space = fathom_sys::fsinfo::space(mount).unwrap();
        let file = fs::File::create(mount.join("filler")).unwrap();
        // All that is left, so that the next block of the tree does not fit.
        let mut left = space.free_bytes;
        while left > 4096 && fathom_sys::io::write_at(&file, &[1; 4096], 0).is_ok() {
            let grown = file.metadata().unwrap().len() + left;
            if std::process::Command::new("fallocate")
                .arg("-l")
                .arg(grown.to_string())
                .arg(mount.join("filler"))
                .output()
                .unwrap()
                .status
                .success()
            {
                break;
            }
            left = left * 9 / 10;
        }
    });
    assert_eq!(error.class(), TreeErrorClass::Missing, "{error}");
    assert!(fs.dir().join("filler").exists());
}

fn no_inodes() {
    let device = LoopDevice::new(3 << 30).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &["-N", "90000"], "").unwrap();
    let kit = Kit::new();
    let error = kit.build(&fs.dir().join("all"), small(90_000)).unwrap_err();
    assert!(matches!(error, TreeError::Inodes { .. }), "{error}");
    assert!(!fs.dir().join("all").exists());
    let error = ends_early(&fs, |mount| {
        let dir = mount.join("filler");
        fs::create_dir(&dir).unwrap();
        for number in 0.. {
            if fs::File::create(dir.join(number.to_string())).is_err() {
                break;
            }
        }
    });
    assert_eq!(error.class(), TreeErrorClass::Missing, "{error}");
}

/// What is done already is not wanted again of what is left.
fn most_inodes() {
    let device = LoopDevice::new(3 << 30).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &["-N", "30000"], "").unwrap();
    let (kit, dir) = (Kit::new(), fs.dir().join("tree"));
    let mut spec = small(22_000);
    spec.sizes = Sizes::Fixed(0);
    let built = kit.build(&dir, spec).unwrap();
    assert_eq!(built.made_files, 22_000);
    assert!(built.tree.layout().extent().dirs > 1_100, "looked at more than twice");
    drop(built);
    let space = fathom_sys::fsinfo::space(fs.dir()).unwrap();
    assert!(space.inodes_free < space.inodes / 2, "{space:?}");
    assert_eq!(kit.clean(&dir).unwrap().files, 22_000);
}

fn read_only() {
    let fs = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
    let error = ends_early(&fs, |_| {
        // As ext4 does it after an error; -f because files are open.
        let remount = |_| fs.mount().remount("ro").is_ok();
        let done = (0..2000).any(|at| {
            std::thread::sleep(Duration::from_millis(1));
            remount(at)
        });
        assert!(done, "it never became read-only");
    });
    assert_eq!(error.class(), TreeErrorClass::TargetIo, "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// Somebody removes the tree while it is built, and while it is scanned: an answer, and no hang.
fn vanishing() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let is_over = AtomicBool::new(false);
    let built = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) && paths_so_far(&dir) < 300 {
                std::thread::sleep(Duration::from_millis(1));
            }
            for _ in 0..50 {
                fs::remove_dir_all(&dir).ok();
            }
        });
        let built = kit.build(&dir, small(20_000));
        is_over.store(true, Ordering::Relaxed);
        built.map(drop)
    });
    let error = built.unwrap_err();
    assert!(matches!(error, TreeError::Io { .. }), "{error}");
    fs::remove_dir_all(&dir).ok();
    drop(kit.build(&dir, small(3000)).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| fs::remove_dir_all(&dir).unwrap());
        let found = scan(&dir, &kit.stop, &mut |_| {});
        assert!(found.is_ok_and(|found| found.table.files <= 3001));
    });
}

/// Ten million files in a soak run, where there is room for them; the memory of this process does not grow with them.
fn many() -> Judged {
    let files = if is_soak() { 10_000_000 } else { 20_000 };
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let mut spec = TreeSpec::classic(7, Amount::Files(files));
    spec.sizes = Sizes::Fixed(0);
    spec.files_per_directory = Number::Fixed(1000);
    let before = resident_bytes();
    match kit.build(&dir, spec) {
        Err(error @ TreeError::Refused(_)) if is_soak() => {
            return Judged::Skipped(error.to_string());
        }
        built => drop(built.unwrap()),
    }
    assert_eq!(check_tree(&dir, Depth::Names).files, files);
    assert_eq!(kit.clean(&dir).unwrap().files, files);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more");
    assert!(paths_below(scratch.path()).is_empty());
    counted("files of a tree", files as usize);
    Judged::Passed
}
