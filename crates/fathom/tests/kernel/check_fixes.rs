//! What `fathom check` prints as a fix is typed here, on real mounts, with the same options in `/etc/fstab`: it must mend.

use crate::cli::{Done, Sandbox, p, run};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountNamespaces, Tool};
use fathom_testkit::{
    FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Scratch, Trial, command, kernel_test,
};
use serde_json::Value;
use std::fs;

/// Filesystem, mount options, and the rule that finds them.
const MENDED: &[(FsKind, &str, &str)] = &[
    (FsKind::Ext4, "discard", "discard-online"),
    (FsKind::Btrfs, "discard=sync", "discard-online"),
    (FsKind::Ext4, "nobarrier", "barriers-off"),
    (FsKind::Btrfs, "nobarrier", "barriers-off"),
    (FsKind::Ext4, "sync", "mount-sync"),
    (FsKind::Btrfs, "sync", "mount-sync"),
    (FsKind::Ext4, "strictatime", "mount-strictatime"),
    (FsKind::Xfs, "strictatime", "mount-strictatime"),
    (FsKind::Btrfs, "strictatime", "mount-strictatime"),
    (FsKind::Ext4, "commit=300", "mount-commit-late"),
    (FsKind::Btrfs, "commit=300", "mount-commit-late"),
];

/// Filesystem, mount options that no remount takes away, the option that tells it, and the rule.
const KEPT: &[(FsKind, &str, &str, &str)] = &[
    (FsKind::Xfs, "discard", "discard", "discard-online"),
    (FsKind::Xfs, "sync", "wsync", "mount-sync"),
];

pub fn trials() -> Vec<Trial> {
    let [ext4, xfs, btrfs] = FsKind::ALL.map(FsOnLoop);
    let needs = [FathomBinary, ext4, xfs, btrfs, MountNamespaces, Tool("unshare")];
    vec![
        kernel_test("check_prints_remounts_that_mend", &needs, mended),
        kernel_test("check_prints_no_remount_that_mends_nothing", &needs, kept),
        kernel_test("check_gives_an_ext4_a_journal", &[FathomBinary, ext4], a_journal),
        kernel_test("check_saves_what_only_a_loop_device_holds", &[FathomBinary, ext4], saved),
        kernel_test(
            "check_tells_twins_apart_by_what_it_advises",
            &[FathomBinary, LoopDevices, ext4, xfs, btrfs, MountNamespaces, Tool("unshare")],
            twins,
        ),
        kernel_test(
            "check_tells_an_xfs_that_has_shut_down",
            &[FathomBinary, xfs, Tool("xfs_io")],
            shut_down,
        ),
    ]
}

/// What the rule says of this mount: a loop device lies on other mounts, which may have the same.
fn found(done: &Done, rule: &str, fs: &MountedFs) -> Option<Value> {
    let result = done.result();
    let mut defects = result["defects"].as_array().unwrap().iter();
    let is_it = |defect: &&Value| {
        defect["rule"] == rule && defect["verify"].to_string().contains(p(fs.dir()))
    };
    defects.find(is_it).cloned()
}

/// The commands of a defect that mount this mount anew: they are typed. What has the same on other mounts stands beside.
fn remounts(found: &Value, fs: &MountedFs) -> Vec<String> {
    let steps = found["fix"].as_array().unwrap().iter();
    let commands = steps.filter_map(|step| step["command"].as_str());
    let own = format!(" {}", p(fs.dir()));
    commands
        .filter(|line| line.contains("remount") && line.ends_with(&own))
        .map(str::to_owned)
        .collect()
}

fn mended() {
    for (kind, options, rule) in MENDED {
        let (sandbox, fs) = (Sandbox::new(), mounted(*kind, &[], options));
        let before = sandbox.json(&["check", p(fs.dir())], &[0]);
        let defect = found(&before, rule, &fs).unwrap_or_else(|| panic!("{kind} {options}"));
        let commands = remounts(&defect, &fs);
        assert_eq!(commands.len(), 1, "{kind} {options}: {defect}");
        let left = found(&after(&sandbox, &fs, options, &commands[0]), rule, &fs);
        assert_eq!(left, None, "{kind} {}", commands[0]);
    }
}

fn kept() {
    for (kind, options, tells, rule) in KEPT {
        let (sandbox, fs) = (Sandbox::new(), mounted(*kind, &[], options));
        let done = sandbox.json(&["check", p(fs.dir())], &[0]);
        let defect = found(&done, rule, &fs).unwrap_or_else(|| panic!("{kind} {options}"));
        assert_eq!(remounts(&defect, &fs), Vec::<String>::new(), "{kind} {options}: {defect}");
        assert!(defect["fix"].to_string().contains("umount and mount"), "{defect}");
        fs.mount().remount("nodiscard,async").unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let line = mounts.lines().find(|line| line.contains(p(fs.dir()))).unwrap();
        let has = line.split([' ', ',']).any(|option| option == *tells);
        assert!(has, "a remount takes it away by now: {line}");
    }
}

/// What check says after the command, where `/etc/fstab` has the options.
fn after(sandbox: &Sandbox, fs: &MountedFs, options: &str, line: &str) -> Done {
    const TYPED: &str = "mount --bind \"$0\" /etc/fstab && sh -c \"$1\" && shift && exec \"$@\"";
    let table = sandbox.scratch.join("fstab");
    let device = p(fs.device().path()).to_owned();
    fs::write(&table, format!("{device} {} auto {options} 0 0\n", p(fs.dir()))).unwrap();
    run(|| {
        let own = sandbox.command(&["--json", "--quiet", "check", p(fs.dir())]);
        let mut command = command::tool("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", TYPED]).arg(&table);
        command.arg(line).arg(own.get_program()).args(own.get_args());
        command
    })
}

/// Of two images of one filesystem the one that nothing uses gets a UUID of its own by what is advised.
fn twins() {
    for kind in FsKind::ALL {
        let (sandbox, scratch) = (Sandbox::new(), Scratch::new().unwrap());
        let (image, copy) = (scratch.join("image"), scratch.join("copy"));
        fs::File::create(&image).unwrap().set_len(320 << 20).unwrap();
        kind.make(&image, &[]).unwrap();
        command::run_tool("cp", ["--sparse=always", p(&image), p(&copy)]).unwrap();
        let attach = |file| LoopDevice::over(file, &LoopOptions::default()).unwrap();
        let (original, second) = (attach(&image), attach(&copy));
        let told = |original: &LoopDevice| {
            let both = ["check", p(original.path()), p(second.path())];
            let result = sandbox.json(&both, &[0]).result();
            let mut defects = result["defects"].as_array().unwrap().iter();
            defects.find(|defect| defect["rule"] == "filesystem-twins").cloned()
        };
        assert_eq!(told(&original).unwrap()["gravity"], "low", "{kind}");
        let mount = Mount::new(kind.name(), original.path(), "").unwrap();
        let defect = told(&original).unwrap();
        assert_eq!(defect["node"], p(original.path()), "{defect}");
        let steps = defect["fix"].as_array().unwrap().iter();
        let commands: Vec<&str> = steps.filter_map(|step| step["command"].as_str()).collect();
        let typed = format!("set -e\n{}", commands.join("\n")).replace("e2fsck -f ", "e2fsck -fp ");
        let alone = ["--mount", "--propagation", "private", "sh", "-c", typed.as_str()];
        if kind == FsKind::Btrfs {
            // Only while the original is away, or the tool may change that.
            assert_eq!((&defect["gravity"], commands.len()), (&Value::from("high"), 0), "{defect}");
            drop(mount);
            drop(original);
            let tool = format!("btrfstune -f -u {}", p(second.path()));
            assert!(defect["fix"].to_string().contains(&tool.replace(" -f", "")), "{defect}");
            command::run_tool("sh", ["-c", &tool]).unwrap();
            assert_eq!(told(&attach(&image)), None);
        } else {
            assert_eq!(defect["gravity"], "medium", "{defect}");
            assert!(typed.contains(p(second.path())), "{typed}");
            command::run_tool("unshare", alone).unwrap();
            assert_eq!(told(&original), None, "{kind} {typed}");
            drop(mount);
        }
    }
}

/// What is advised gives it one.
fn a_journal() {
    let (sandbox, fs) = (Sandbox::new(), mounted(FsKind::Ext4, &["-O", "^has_journal"], ""));
    let told = |fs: &MountedFs| {
        let done = sandbox.json(&["check", p(fs.dir())], &[0]);
        found(&done, "ext4-no-journal", fs)
    };
    let defect = told(&fs).unwrap();
    let command = defect["fix"][0]["command"].as_str().unwrap();
    // Without a terminal the check has to be told not to ask.
    let typed = format!("{} && mount {} {}", command, p(fs.device().path()), p(fs.dir()));
    command::run_tool("sh", ["-c", &typed.replace("e2fsck -f ", "e2fsck -fp ")]).unwrap();
    assert_eq!(told(&fs), None, "{typed}");
}

/// The file behind a device that mount made is gone: what is advised brings all of it into a file, though umount lets the device go.
fn saved() {
    let (sandbox, scratch) = (Sandbox::new(), Scratch::new().unwrap());
    let (image, place, copy) = (scratch.join("image"), scratch.join("mount"), scratch.join("copy"));
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    FsKind::Ext4.make(&image, &[]).unwrap();
    fs::create_dir(&place).unwrap();
    command::run_tool("mount", ["-o", "loop", p(&image), p(&place)]).unwrap();
    fs::write(place.join("precious"), "all that there is").unwrap();
    fs::remove_file(&image).unwrap();
    let found = sandbox.json(&["check", p(&place)], &[0]).result()["defects"].clone();
    let found =
        found.as_array().unwrap().iter().find(|d| d["rule"] == "loop-file-deleted").cloned();
    let found = found.unwrap_or_default();
    let steps = found["fix"].as_array().cloned().unwrap_or_default();
    let commands: Vec<String> =
        steps.iter().filter_map(|step| Some(step["command"].as_str()?.to_owned())).collect();
    let typed = format!("set -e\n{}", commands.join("\n").replace("NEW_FILE", p(&copy)));
    let done = command::run_tool("bash", ["-c", &typed]);
    if done.is_err() {
        let _ = command::run_tool("umount", [p(&place)]);
    }
    done.unwrap();
    command::run_tool("mount", ["-o", "loop,ro", p(&copy), p(&place)]).unwrap();
    let text = fs::read_to_string(place.join("precious"));
    command::run_tool("umount", [p(&place)]).unwrap();
    assert_eq!(text.unwrap(), "all that there is", "{typed}");
    let loops = command::run_tool("losetup", ["--list"]).unwrap();
    assert!(!loops.contains(p(&image)), "{loops}");
}

/// It says nothing of itself among its options, and answers everything with an error.
fn shut_down() {
    let (sandbox, fs) = (Sandbox::new(), mounted(FsKind::Xfs, &[], ""));
    command::run_tool("xfs_io", ["-x", "-c", "shutdown", p(fs.dir())]).unwrap();
    let done = sandbox.json(&["check", p(fs.dir())], &[0]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let defect = done.result()["defects"].to_string();
    let is_silent = !mounts.lines().any(|l| l.contains(p(fs.dir())) && l.contains("shutdown"));
    assert!(defect.contains("has shut itself down: every request to it fails"), "{defect}");
    assert!(is_silent, "it says so by now: {mounts}");
}
