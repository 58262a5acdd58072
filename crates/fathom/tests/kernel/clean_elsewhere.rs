//! What was kept on a filesystem that is elsewhere by now: in another place, as another device, or as a copy.

use crate::cli::{Sandbox, p};
use crate::verify::buffered_ext4;
use crate::verify_files::kept_in;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop};
use fathom_testkit::command::run_tool;
use fathom_testkit::{FsKind, LoopDevice, LoopOptions, Trial, kernel_test};
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("clean_of_a_filesystem_that_is_mounted_elsewhere", &ext4, cleaned_elsewhere),
        kernel_test("clean_takes_no_copy_of_a_filesystem_for_it", &ext4, copied),
    ]
}

/// What is on a filesystem that is mounted in another place by now, or came back as another device, goes by that place and by the
/// old one, and is named where it is.
fn cleaned_elsewhere() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let (point, device) = (fs.dir(), fs.device().path());
    let other = sandbox.dir().join("other");
    std::fs::create_dir(&other).unwrap();
    let again = LoopDevice::over(fs.device().backing(), &LoopOptions::default()).unwrap();
    let places = [&other, &point.to_owned()];
    let cases = [device, again.path()].map(|device| places.map(|asked| (device, asked)));
    for (device_by_now, asked) in cases.into_iter().flatten() {
        let targets = [point.to_owned(), point.join("own name")];
        for target in &targets {
            let args = ["run", "seqwrite", p(target), "size=768k", "block_size=64k"];
            sandbox.json(&[&args[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
        }
        let dir = kept_in(point).file_name().unwrap().to_owned();
        run_tool("umount", [point]).unwrap();
        run_tool("mount", [device_by_now, &other]).unwrap();
        let forgotten = sandbox.run(&["clean", p(point), "--forget"]);
        assert_eq!(forgotten.code, 4, "all is there, and known on: {forgotten:?}");
        let [dir, own] = [other.join(dir), other.join("own name")];
        let listed = sandbox.run(&["clean", p(asked), "--list"]);
        let done = sandbox.run(&["clean", p(asked)]);
        for path in [&dir, &own] {
            assert!(listed.stdout.contains(&format!("{}  ", path.display())), "{listed:?}");
            assert!(done.stdout.contains(&format!("{}: removed", path.display())), "{done:?}");
            assert!(!path.exists(), "{done:?}");
        }
        assert_eq!(done.code, 0, "{done:?}");
        // What was asked to go is not missed.
        sandbox.run(&["verify", p(point)]).is_refusal(2, &["nothing is known"]);
        run_tool("umount", [&other]).unwrap();
        run_tool("mount", [device, point]).unwrap();
    }
}

/// A copy of a filesystem has its UUID, inodes and times of birth, but what is there is not what was noted: it stays, wherever the
/// copy is mounted, and the original is known on.
fn copied() {
    let sandbox = Sandbox::new();
    let fs = buffered_ext4();
    let (point, device) = (fs.dir(), fs.device().path());
    let file = point.join("file");
    let made = ["run", "seqwrite", p(&file), "size=768k", "block_size=64k"];
    sandbox.json(&[&made[..], &["verify=after", "--keep"]].concat(), &[0, 1]);
    run_tool("umount", [point]).unwrap();
    let image = sandbox.dir().join("copy");
    run_tool("cp", [Path::new("--sparse=always"), fs.device().backing(), &image]).unwrap();
    let copy = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
    let other = sandbox.dir().join("other");
    std::fs::create_dir(&other).unwrap();
    for place in [point, &other] {
        run_tool("mount", [copy.path(), place]).unwrap();
        let removed = sandbox.run(&["clean", p(point)]);
        let forgotten = sandbox.run(&["clean", p(&other), "--forget"]);
        assert!(place.join("file").exists(), "{removed:?} {forgotten:?}");
        run_tool("umount", [place]).unwrap();
    }
    // The original is called otherwise by now, and the copy as that was.
    let (original, aside) = (fs.device().backing(), sandbox.dir().join("aside"));
    std::fs::rename(original, &aside).unwrap();
    std::fs::rename(&image, original).unwrap();
    run_tool("mount", [copy.path(), point]).unwrap();
    let removed = sandbox.run(&["clean", p(point)]);
    assert!(removed.code == 4 && file.exists(), "{removed:?}");
    run_tool("umount", [point]).unwrap();
    std::fs::rename(original, &image).unwrap();
    std::fs::rename(&aside, original).unwrap();
    run_tool("mount", [device, point]).unwrap();
    let removed = sandbox.run(&["clean", p(point)]);
    assert!(removed.code == 0 && removed.stdout.contains("removed"), "{removed:?}");
    assert!(!file.exists(), "{removed:?}");
}
