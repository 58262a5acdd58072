//! The exerciser on real filesystems, and with data that changes below them.

use fathom_sys::fiemap;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::Capability::{FsOnLoop, MountFs, Root};
use fathom_testkit::{FsKind, Mount, MountedFs, Scratch, Trial, counted, kernel_test, sample};
use fathom_tree::exercise::model::Kind;
use fathom_tree::exercise::settings::Settings;
use fathom_tree::exercise::{Exercise, Report};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = FsKind::ALL
        .into_iter()
        .map(|kind| {
            kernel_test(&format!("exercise_{kind}"), &[FsOnLoop(kind)], move || passes(kind))
        })
        .collect();
    trials.push(kernel_test("exercise_tmpfs", &[Root, MountFs("tmpfs")], on_tmpfs));
    trials.push(kernel_test(
        "exercise_finds_bytes_changed_below",
        &[FsOnLoop(FsKind::Ext4)],
        changed_below,
    ));
    trials
}

fn exercise(dir: &Path, seed: u64, pairs: &[(&str, &str)]) -> Report {
    let own: Vec<_> = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let settings = Settings::parse(&own).unwrap();
    let (root, stop, state) = (SysRoot::live(), StopFlag::default(), Scratch::new().unwrap());
    let mut exercise = Exercise {
        root: &root,
        state_dir: state.path(),
        run_id: "7f3k",
        seed,
        settings: &settings,
        stop: &stop,
        progress: &mut |_, _| {},
    };
    exercise.run(dir).unwrap()
}

fn passes(kind: FsKind) {
    let fs = MountedFs::new(kind, 3 << 30).unwrap();
    let operations = sample(700, 200_000).to_string();
    let report = exercise(fs.dir(), 1, &[("operations", &operations), ("files", "3")]);
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
    for (op, count) in &report.by_kind {
        let is_left_out = report.dropped.iter().any(|(other, _)| other == op);
        assert!(*count > 0 || is_left_out, "{kind} {op:?}");
    }
    assert!(report.dropped.is_empty(), "{:?}", report.dropped);
    counted(&format!("operations of the exerciser on {kind}"), report.operations as usize);
}

/// A filesystem that cannot do everything: what it cannot is left out and told.
fn on_tmpfs() {
    let mount = Mount::new("tmpfs", Path::new("tmpfs"), "size=2g").unwrap();
    let report = exercise(mount.dir(), 1, &[("operations", "400")]);
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
    assert!(
        report.dropped.iter().any(|(kind, why)| *kind == Kind::ZeroRange && !why.is_empty()),
        "{:?}",
        report.dropped
    );
    assert!(report.by_kind.contains(&(Kind::ZeroRange, 0)));
}

/// One byte in every block of the file is changed in the file behind the loop device while the exerciser is at it.
fn changed_below() {
    let fs = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
    let report = std::thread::scope(|scope| {
        let runs = scope.spawn(|| {
            let settings = [("duration", "60s"), ("files", "1"), ("size", "4M")];
            exercise(fs.dir(), 5, &settings)
        });
        std::thread::sleep(Duration::from_millis(1500));
        while !runs.is_finished() {
            spoil(&fs);
            std::thread::sleep(Duration::from_millis(200));
        }
        runs.join().unwrap()
    });
    assert_eq!(report.wrong.len(), 1, "{report:?}");
    let wrong = &report.wrong[0];
    assert!(!wrong.is_error && wrong.offset_bytes.is_some(), "{wrong:#?}");
    assert_ne!(wrong.expected, wrong.found);
    assert!(
        wrong.log.last().unwrap().starts_with(&format!("{}: ", wrong.operation))
            || wrong.operation == 0
    );
    assert!(report.took_ns < 60_000_000_000);
}

/// Freezes the filesystem, so that what is stored is what the file holds, and changes a byte of each block below it.
fn spoil(fs: &MountedFs) {
    let dev = fs.dir().metadata().unwrap().dev();
    let own = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_it = |path: &Path| {
        fs::metadata(path).is_ok_and(|m| m.is_file() && m.dev() == dev && m.nlink() == 0)
    };
    let Some(path) = own.map(|entry| entry.path()).find(|path| is_it(path)) else { return };
    let Ok(file) = File::open(path) else { return };
    let frozen = fs.mount().freeze().unwrap();
    let mut places = Vec::new();
    let _ = fiemap::for_each_extent_now(&file, |extent| {
        if extent.has_position() && !extent.is_unwritten() {
            places.extend((extent.physical..extent.physical + extent.length).step_by(4096));
        }
        true
    });
    let backing = File::options().read(true).write(true).open(fs.device().backing()).unwrap();
    for place in places {
        let mut byte = [0];
        backing.read_exact_at(&mut byte, place + 77).unwrap();
        backing.write_all_at(&[!byte[0]], place + 77).unwrap();
    }
    drop(frozen);
    // The device shows its file's pages; the filesystem's own must go.
    let _ = fs::write("/proc/sys/vm/drop_caches", "1");
}
