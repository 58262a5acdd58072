//! Extents of real files, checked against what the devices hold.

use super::resolve;
use fathom_inspect::extents::extents;
use fathom_model::extents::{ExtentSource, FileExtents};
use fathom_testkit::capability::Capability::FsOnLoop;
use fathom_testkit::command::run_tool;
use fathom_testkit::oracle::pattern_fill;
use fathom_testkit::{FsKind, LoopDevice, MountedFs, Trial, kernel_test};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let mut trials = vec![
        kernel_test("extents_many", &[FsOnLoop(FsKind::Ext4)], many_extents),
        kernel_test("extents_compressed", &[FsOnLoop(FsKind::Btrfs)], compressed),
        kernel_test("extents_shared", &[FsOnLoop(FsKind::Xfs)], shared),
    ];
    for kind in FsKind::ALL {
        let need = [FsOnLoop(kind)];
        trials.push(kernel_test(&format!("extents_{kind}"), &need, move || written_and_not(kind)));
    }
    trials
}

const MIB: u64 = 1 << 20;

fn filesystem(kind: FsKind, mount_options: &str) -> MountedFs {
    let device = LoopDevice::new(kind.size_bytes_min().max(256 * MIB)).unwrap();
    MountedFs::with(kind, device, &[], mount_options).unwrap()
}

fn new_file(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

fn written(path: &Path, bytes: u64) -> File {
    let file = new_file(path);
    let mut data = vec![0; bytes as usize];
    pattern_fill(&mut data, 0, 7);
    file.write_all_at(&data, 0).unwrap();
    file
}

fn found(file: &File, path: &Path) -> FileExtents {
    extents(file, Some(&resolve(path))).unwrap()
}

/// Written, preallocated and missing parts are told apart, without a sync by the caller.
fn written_and_not(kind: FsKind) {
    let fs = filesystem(kind, "");
    let path = fs.dir().join("solid");
    let solid = found(&written(&path, 4 * MIB), &path);
    assert_eq!(solid.source, ExtentSource::Fiemap);
    assert!(solid.fully_written() && solid.allocated_bytes == 4 * MIB, "{solid:?}");
    assert!(!solid.shared && !solid.inline && !solid.encoded, "{solid:?}");
    assert_eq!(solid.physical_is_logical, kind == FsKind::Btrfs);
    assert_eq!(solid.share_of_device.is_none(), kind == FsKind::Btrfs);
    if kind != FsKind::Btrfs {
        let share = solid.share_of_device.unwrap();
        assert!((4.0 / 1024.0..0.5).contains(&share), "{solid:?}");
        let mut data = vec![0; 4096];
        let mut expected = vec![0; 4096];
        pattern_fill(&mut expected, 0, 7);
        let device = File::open(fs.device().path()).unwrap();
        run_tool("blockdev", [Path::new("--flushbufs"), fs.device().path()]).unwrap();
        device.read_exact_at(&mut data, solid.first_byte.unwrap()).unwrap();
        assert!(data == expected, "the file does not begin where it is said to");
    }

    let path = fs.dir().join("hole");
    let file = new_file(&path);
    file.write_all_at(&[1; 65_536], 2 * MIB).unwrap();
    file.set_len(4 * MIB).unwrap();
    let holes = found(&file, &path);
    assert_eq!(holes.hole_bytes, 4 * MIB - 65_536, "{holes:?}");

    let path = fs.dir().join("preallocated");
    run_tool("fallocate", ["-l", "4M"].map(Path::new).into_iter().chain([path.as_path()])).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.write_all_at(&[1; 65_536], 0).unwrap();
    let unwritten = found(&file, &path);
    assert_eq!(unwritten.hole_bytes, 0, "{unwritten:?}");
    assert_eq!(unwritten.unwritten_bytes, 4 * MIB - 65_536, "{unwritten:?}");
    assert!(!unwritten.fully_written());
}

/// More extents than one call returns.
fn many_extents() {
    let fs = filesystem(FsKind::Ext4, "");
    let path = fs.dir().join("comb");
    let file = new_file(&path);
    for tooth in 0..1000 {
        file.write_all_at(&[1; 4096], tooth * 8192).unwrap();
    }
    let comb = found(&file, &path);
    assert_eq!(comb.extents, Some(1000), "{comb:?}");
    assert_eq!((comb.allocated_bytes, comb.hole_bytes), (1000 * 4096, 999 * 4096));
    assert!(comb.fragments <= comb.extents && comb.fragments > Some(0));
}

fn compressed() {
    let fs = filesystem(FsKind::Btrfs, "compress-force=zstd");
    let path = fs.dir().join("zeros");
    let file = new_file(&path);
    file.write_all_at(&vec![0; MIB as usize], 0).unwrap();
    assert!(found(&file, &path).encoded);
    let small = fs.dir().join("small");
    let file = new_file(&small);
    file.write_all_at(b"a few bytes", 0).unwrap();
    assert!(found(&file, &small).inline);
}

fn shared() {
    let fs = filesystem(FsKind::Xfs, "");
    let (path, copy) = (fs.dir().join("one"), fs.dir().join("two"));
    let file = written(&path, MIB);
    assert!(!found(&file, &path).shared);
    run_tool("cp", [Path::new("--reflink=always"), &path, &copy]).unwrap();
    assert!(found(&file, &path).shared);
}
