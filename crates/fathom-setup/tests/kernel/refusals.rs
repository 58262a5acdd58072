//! What is refused, and what fails: nothing may be changed then, or everything is taken down again.

use crate::driver::{self, driver, said};
use crate::filesystems::{filesystem, has, json, over, refuse};
use fathom_model::plan::setup::{ArraySpec, ArrayState};
use fathom_testkit::Capability::{FsOnLoop, Tool};
use fathom_testkit::{
    FsKind, Judged, LoopDevice, MountedFs, Scratch, Snapshot, Trial, kernel_test,
};
use std::path::Path;
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    vec![
        kernel_test("signatures_and_mounts_are_refused", &[ext4], signatures_and_mounts),
        kernel_test("without_consent_nothing_happens", &[ext4], without_consent),
        kernel_test("a_stop_takes_everything_down", &[ext4], stopped),
        kernel_test("tools_that_fail_are_explained", &[ext4, FsOnLoop(FsKind::Xfs)], failures),
        kernel_test("a_kernel_without_arrays", &[Tool("mdadm")], no_arrays),
        kernel_test("a_busy_mount_is_named_and_retried", &[ext4], busy),
        kernel_test("what_somebody_made_since_stays", &[ext4], somebodys),
        kernel_test("a_removed_mount_does_no_harm", &[ext4], already_back),
    ]
}

fn signatures_and_mounts() {
    let fs = MountedFs::new(FsKind::Ext4, 32 << 20).unwrap();
    let path = fs.device().path().to_str().unwrap().to_owned();
    let text = refuse(&over(&[&path], Some(filesystem("ext4"))));
    has(&text, "ERROR Safety");
    has(&text, "is mounted on");
    let device = fs.unmount();
    let before = Snapshot::take(device.path()).unwrap();
    let text = refuse(&over(&[&path], Some(filesystem("xfs"))));
    has(&text, "is not blank: ext4");
    before.assert_same(device.path());
}

fn without_consent() {
    use fathom_guard::changes::ChangeLog;
    use fathom_guard::faults::Faults;
    use fathom_guard::{Consent, Protected};
    use fathom_setup::{Builder, ErrorKind};
    use fathom_sys::{signals::StopFlag, sysroot::SysRoot};
    let device = LoopDevice::new(32 << 20).unwrap();
    let before = Snapshot::take(device.path()).unwrap();
    let scratch = Scratch::new().unwrap();
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, scratch.path(), driver::RUN, Faults::none()).unwrap();
    let protected = Protected { store_path: log.path().to_owned() };
    let spec = over(&[device.path().to_str().unwrap()], Some(filesystem("ext4")));
    let consent = Consent::new(Vec::new());
    let outline = fathom_setup::check(&root, &consent, &protected, scratch.path(), &spec).unwrap();
    let backing = device.backing().to_str().unwrap();
    let destroyed = &outline.destroyed[0];
    assert_eq!((destroyed.id.as_str(), destroyed.is_consented), (backing, false));
    assert!(outline.tools.iter().any(|tool| tool.version.contains("mke2fs")), "{outline:?}");
    let mut builder = Builder {
        root: &root,
        log: &mut log,
        consent: &consent,
        protected: &protected,
        work_dir: scratch.path(),
        seed: 0,
        note: &mut |_| {},
        stop: &StopFlag::default(),
    };
    let error = fathom_setup::build(&mut builder, &spec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Safety);
    assert!(error.to_string().contains(&format!("--destroy={backing}")), "{error}");
    assert!(log.close().unwrap().is_none());
    before.assert_same(device.path());
}

fn stopped() {
    use fathom_guard::changes::ChangeLog;
    use fathom_guard::faults::Faults;
    use fathom_guard::{Consent, Protected};
    use fathom_setup::{Builder, ErrorKind};
    use fathom_sys::{signals::StopFlag, sysroot::SysRoot};
    let scratch = Scratch::new().unwrap();
    let work = driver::work_dir(scratch.path());
    std::fs::create_dir_all(&work).unwrap();
    let root = SysRoot::live();
    for tool in ["write", "losetup", "mkfs", "mount"] {
        let mut log =
            ChangeLog::create(&root, scratch.path(), driver::RUN, Faults::none()).unwrap();
        let stop = StopFlag::default();
        let mut builder = Builder {
            root: &root,
            log: &mut log,
            consent: &Consent::new(Vec::new()),
            protected: &Protected { store_path: scratch.path().join("store") },
            work_dir: &work,
            seed: 0,
            note: &mut |text| {
                if text.starts_with(tool) {
                    stop.set(15);
                }
            },
            stop: &stop,
        };
        let spec = over(&["loop:64m"], Some(filesystem("ext4")));
        match fathom_setup::build(&mut builder, &spec) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Stopped, "{error}"),
            // A tool may be done before it can be ended.
            Ok(built) => fathom_setup::take_down(&mut builder, built).unwrap(),
        }
        assert!(log.close().unwrap().is_none());
        assert!(driver::traces(scratch.path(), &[]).is_empty(), "{tool}");
    }
}

fn failures() {
    let text = refuse(&over(&["loop:64m"], Some(filesystem("xfs"))));
    has(&text, "ERROR Io mkfs.xfs");
    has(&text, "likely cause: the device is too small for XFS: from 300 MiB on");
    let mut fs = filesystem("xfs");
    fs.mount_options = vec!["nobarrier".to_owned()];
    let text = refuse(&over(&["loop:320m"], Some(fs)));
    has(&text, "likely cause: the option nobarrier: removed in Linux 4.19");
    let mut fs = filesystem("ext4");
    fs.mount_options = vec!["no_such_option=3".to_owned()];
    let text = refuse(&over(&["loop:32m"], Some(fs)));
    has(&text, "ERROR Io mount");
    has(&text, "the kernel says: ");
    has(&text, "no_such_option");
    // The kernel takes both and obeys the second.
    let mut fs = filesystem("ext4");
    fs.mount_options = ["delalloc", "nodelalloc"].map(str::to_owned).to_vec();
    let text = refuse(&over(&["loop:32m"], Some(fs)));
    has(&text, "mount option delalloc is not in effect: the kernel has nodelalloc");
    let text = refuse(&over(&["loop:900000g"], Some(filesystem("ext4"))));
    has(&text, "ERROR Missing");
    has(&text, "are free");
    has(&refuse(&over(&["loop:x"], None)), "ERROR Usage");
    has(&refuse(&over(&["/dev/none-such"], None)), "ERROR Usage");
    has(&refuse(&over(&["loop:64m"], Some(filesystem("extfs")))), "is none of ext2, ext3, ext4");
}

fn no_arrays() -> Judged {
    if Path::new("/proc/mdstat").exists() {
        return Judged::Skipped("this kernel has md arrays".to_owned());
    }
    let mut spec = over(&["loop:16m", "loop:16m"], None);
    spec.array = Some(ArraySpec {
        level: "raid1".to_owned(),
        layout: None,
        chunk: None,
        members: None,
        order: Vec::new(),
        bitmap: None,
        metadata: None,
        data_offset: None,
        spares: 0,
        is_assumed_clean: true,
        state: ArrayState::Normal,
    });
    let text = refuse(&spec);
    has(&text, "ERROR Missing this kernel");
    has(&text, "no md arrays");
    Judged::Passed
}

fn busy() {
    let scratch = Scratch::new().unwrap();
    let state = scratch.path().to_str().unwrap();
    let spec = json(&over(&["loop:32m"], Some(filesystem("ext4"))));
    let left = driver(&["leave", state, &spec], None);
    let text = said(&left);
    let target = text.lines().find_map(|line| line.strip_prefix("TARGET ")).unwrap();
    let mut sleeper = Command::new("sleep").arg("1000").current_dir(target).spawn().unwrap();
    let undone = driver(&["undo", state], None);
    let text = said(&undone);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(!undone.status.success(), "{text}");
    has(&text, &format!("sleep (process {}) uses it", sleeper.id()));
    let undone = driver(&["undo", state], None);
    assert!(undone.status.success(), "{}", said(&undone));
    assert!(driver::traces(scratch.path(), &[]).is_empty());
}

/// After a crash somebody unmounts and puts a filesystem of their own on the device: not one byte of it may go.
fn somebodys() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let scratch = Scratch::new().unwrap();
    let state = scratch.path().to_str().unwrap();
    let spec = over(&[device.path().to_str().unwrap()], Some(filesystem("ext4")));
    let left = driver(&["leave", state, &json(&spec)], None);
    has(&said(&left), "TARGET");
    let mount = fathom_sys::mounts::own_mounts(&fathom_sys::sysroot::SysRoot::live());
    let point = mount.iter().find(|m| m.mount_point.starts_with(scratch.path())).unwrap();
    fathom_testkit::command::run_tool("umount", [&point.mount_point]).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let before = Snapshot::take(device.path()).unwrap();
    let undone = driver(&["undo", state], None);
    before.assert_same(device.path());
    let text = said(&undone);
    assert!(!undone.status.success(), "{text}");
    has(&text, "ChangedBySomebody { found: \"ext4 on ");
    // The rest is in order; the one step stays in the journal until somebody makes the device blank.
    let traces = driver::traces(scratch.path(), &[]);
    assert_eq!(traces.len(), 1, "{traces:?}");
    fathom_testkit::command::run_tool("wipefs", [Path::new("-aq"), device.path()]).unwrap();
    let undone = driver(&["undo", state], None);
    assert!(undone.status.success(), "{}", said(&undone));
    assert!(driver::traces(scratch.path(), &[]).is_empty());
}

fn already_back() {
    let scratch = Scratch::new().unwrap();
    let state = scratch.path().to_str().unwrap();
    let spec = json(&over(&["loop:32m"], Some(filesystem("ext4"))));
    has(&said(&driver(&["leave", state, &spec], None)), "TARGET");
    fathom_testkit::leftovers::take_down(&driver::work_dir(scratch.path())).ok();
    let undone = driver(&["undo", state], None);
    assert!(undone.status.success(), "{}", said(&undone));
    let undone = driver(&["undo", state], None);
    assert!(undone.status.success() && said(&undone).is_empty(), "{}", said(&undone));
    assert!(driver::traces(scratch.path(), &[]).is_empty());
}
