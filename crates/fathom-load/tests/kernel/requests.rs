//! Requests that only a device, or a full filesystem, can answer.

use fathom_sys::arena::Arena;
use fathom_sys::io::{OpenMode, open_existing};
use fathom_sys::mapping::Mapping;
use fathom_sys::request::{FileTable, IoOp, OpKind, is_supported, perform};
use fathom_sys::ring::{self, Registration, Ring, RingOptions};
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::Capability::{FsOnLoop, IoUring, LoopDevices, MountFs};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Trial, kernel_test, loopdev,
};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("devices_are_trimmed_and_zeroed", &[LoopDevices, IoUring], device_ranges),
        kernel_test("no_discard_is_seen", &[LoopDevices, MountFs("ramfs")], no_discard),
        kernel_test("a_full_filesystem_under_a_mapping", &[FsOnLoop(FsKind::Ext4)], mapping_full),
        kernel_test("a_failing_disk_under_a_mapping", &[LoopDevices], mapping_fails),
    ]
}

const MIB: u64 = 1 << 20;

fn open(path: &Path, direct: bool) -> File {
    open_existing(path, OpenMode { write: true, direct, ..OpenMode::default() }).unwrap()
}

/// By ring and by system call: exactly the range changes.
fn device_ranges() {
    let device = LoopDevice::with(8 * MIB, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let mut expected = std::fs::read(device.path()).unwrap();
    let file = open(device.path(), true);
    let root = SysRoot::live();
    assert!(OpKind::ALL.iter().all(|kind| is_supported(&root, &file, *kind).unwrap()));
    assert!(ring::can_discard(file.as_fd()).unwrap(), "Linux 6.12 or later");
    let files = || FileTable::new(&[file.as_fd()]).unwrap();
    let mut zeroed = |range: std::ops::Range<usize>| {
        expected[range.clone()].fill(0);
        let content = std::fs::read(device.path()).unwrap();
        let differs = content.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "after {range:?}");
    };
    let mut offset_bytes = MIB;
    for registration in [Registration::Must, Registration::Never] {
        let options = RingOptions { registration, ..RingOptions::default() };
        let mut ring = Ring::new(files(), Arena::new(1, 4096).unwrap(), &options).unwrap();
        for trims in [true, false] {
            let size_bytes = 128 << 10;
            let trim = IoOp::Trim { offset_bytes, size_bytes };
            let op = if trims { trim } else { IoOp::Zero { offset_bytes, size_bytes } };
            ring.queue(0, 0, op);
            assert_eq!((ring.enter(1).unwrap(), ring.take()), (1, Some((0, 0))), "{op:?}");
            zeroed(offset_bytes as usize..(offset_bytes + u64::from(size_bytes)) as usize);
            offset_bytes += MIB;
        }
    }
    let by_call = |op| assert_eq!(perform(files().get(0), &mut [], op).unwrap(), 0);
    by_call(IoOp::Trim { offset_bytes: 6 * MIB, size_bytes: 4096 });
    zeroed(6 << 20..(6 << 20) + 4096);
    by_call(IoOp::Zero { offset_bytes: 7 * MIB, size_bytes: 512 });
    zeroed(7 << 20..(7 << 20) + 512);
    let mut ring =
        Ring::new(files(), Arena::new(1, 4096).unwrap(), &RingOptions::default()).unwrap();
    ring.queue(0, 0, IoOp::SyncRange { offset_bytes: 0, size_bytes: 4096 });
    assert_eq!((ring.enter(1).unwrap(), ring.take()), (1, Some((0, 0))));
}

/// ramfs cannot make holes, so neither it nor a loop device over one of its files can be trimmed.
fn no_discard() {
    let mount = Mount::new("ramfs", Path::new("none"), "").unwrap();
    let backing = mount.dir().join("image");
    loopdev::make_file(&backing, MIB, Content::Pattern(1)).unwrap();
    let device = LoopDevice::over(&backing, &LoopOptions::default()).unwrap();
    let root = SysRoot::live();
    for path in [backing.as_path(), device.path()] {
        let before = std::fs::read(path).unwrap();
        let supported = |kind| is_supported(&root, open(path, false), kind).unwrap();
        assert!(!supported(OpKind::Trim), "{}", path.display());
        assert!(supported(OpKind::Write) && supported(OpKind::SyncRange));
        assert!(std::fs::read(path).unwrap() == before);
    }
    assert!(!is_supported(&root, open(&backing, false), OpKind::Zero).unwrap());
}

fn mapping_full() {
    let fs = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap();
    let path = fs.dir().join("sparse");
    File::create(&path).unwrap().set_len(4 * MIB).unwrap();
    let filler = std::fs::write(fs.dir().join("filler"), vec![1; 40 << 20]);
    assert_eq!(filler.map_err(|e| e.raw_os_error()), Err(Some(28)));
    let file = open(&path, false);
    let mut mapping = Mapping::new(file.as_fd(), 4 * MIB, true).unwrap();
    let mut errors = Vec::new();
    for page in 0..1024 {
        let written = mapping.write(&[2; 4096], page * 4096);
        errors.extend(written.map_err(|e| e.raw_os_error()).err());
    }
    assert!(!errors.is_empty() && errors.iter().all(|e| *e == Some(28)), "{errors:?}");
    let mut page = [9; 4096];
    assert_eq!(mapping.read(&mut page, 4 * MIB - 4096).unwrap(), 4096);
    assert_eq!(page, [0; 4096], "what could not be stored is not there");
}

fn mapping_fails() {
    let device = LoopDevice::with(4 * MIB, Content::Pattern(1), &LoopOptions::default()).unwrap();
    let file = open(device.path(), false);
    let mut mapping = Mapping::new(file.as_fd(), 4 * MIB, false).unwrap();
    let mut page = [0; 4096];
    assert_eq!(mapping.read(&mut page, 0).unwrap(), 4096);
    File::options().write(true).open(device.backing()).unwrap().set_len(MIB).unwrap();
    for _ in 0..2 {
        let failed = mapping.read(&mut page, 3 * MIB).map_err(|e| e.raw_os_error());
        assert_eq!(failed, Err(Some(5)));
    }
    assert_eq!(mapping.read(&mut page, 0).unwrap(), 4096, "the rest is still there");
}
