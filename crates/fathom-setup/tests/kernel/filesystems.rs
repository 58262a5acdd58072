//! Filesystems on loop devices: made, mounted, filled, aged, taken down.

use crate::driver::{self, driver, said};
use fathom_model::plan::setup::{FilesystemSpec, SetupSpec, SliceSpec};
use fathom_testkit::Capability::{FsOnLoop, Tool};
use fathom_testkit::{FsKind, LoopDevice, Scratch, Trial, kernel_test};
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    vec![
        kernel_test("ext4_is_filled_and_aged", &[ext4], ext4_is_filled_and_aged),
        kernel_test(
            "xfs_and_btrfs",
            &[FsOnLoop(FsKind::Xfs), FsOnLoop(FsKind::Btrfs)],
            xfs_and_btrfs,
        ),
        kernel_test(
            "fill_and_age_as_asked",
            &[ext4, FsOnLoop(FsKind::Xfs), FsOnLoop(FsKind::Btrfs)],
            fill_and_age_as_asked,
        ),
        kernel_test("f2fs", &[Tool("mkfs.f2fs")], f2fs),
        kernel_test("journals_of_their_own", &[ext4, FsOnLoop(FsKind::Xfs)], journals_of_their_own),
        kernel_test("slices", &[ext4, Tool("sfdisk")], slices),
        kernel_test("a_device_alone_is_claimed", &[ext4], a_device_alone_is_claimed),
        kernel_test("the_dry_run_shows_the_commands", &[ext4, Tool("sfdisk")], dry_run),
    ]
}

/// A filesystem of that kind with nothing special.
pub fn filesystem(kind: &str) -> FilesystemSpec {
    FilesystemSpec {
        kind: kind.to_owned(),
        make_options: Vec::new(),
        is_aligned: true,
        mount_options: Vec::new(),
        journal: None,
        is_lazy: false,
        fill_percent: None,
        ageing_rounds: None,
        data_profile: None,
        metadata_profile: None,
        is_on_each: false,
    }
}

pub fn over(devices: &[&str], filesystem: Option<FilesystemSpec>) -> SetupSpec {
    let devices = devices.iter().map(|device| (*device).to_owned()).collect();
    SetupSpec { devices, filesystem, ..SetupSpec::default() }
}

pub fn json(spec: &SetupSpec) -> String {
    serde_json::to_string(spec).unwrap()
}

/// Builds, runs the command on the target twice (with a remount between), takes down; nothing may be left.
#[track_caller]
pub fn look(spec: &SetupSpec, command: &str) -> String {
    let scratch = Scratch::new().unwrap();
    let state = scratch.path();
    std::fs::create_dir_all(driver::work_dir(state)).unwrap();
    let before = driver::traces(state, &spec.devices);
    let output = driver(&["look", state.to_str().unwrap(), &json(spec), command], None);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(driver::traces(state, &spec.devices), before, "{}", said(&output));
    said(&output)
}

#[track_caller]
pub fn has(text: &str, words: &str) {
    assert!(text.contains(words), "'{words}' is not in:\n{text}");
}

fn ext4_is_filled_and_aged() {
    let mut fs = filesystem("ext4");
    fs.mount_options = ["noatime", "data=writeback", "barrier=0"].map(str::to_owned).to_vec();
    fs.make_options = ["-E", "stride=16,stripe_width=48"].map(str::to_owned).to_vec();
    fs.fill_percent = Some(60);
    fs.ageing_rounds = Some(3);
    let command = "df --output=pcent $1 | tail -1; ls $1/fathom-fill | wc -l; \
        dev=$(findmnt -no SOURCE $1); dumpe2fs -h $dev 2>/dev/null | grep -i stri; \
        cat /proc/fs/ext4/${dev#/dev/}/options; losetup -nO DIO $dev; du -k $(losetup -nO BACK-FILE $dev)";
    let text = look(&over(&["loop:128m"], Some(fs)), command);
    let percent: u32 =
        text.lines().find_map(|line| line.trim().strip_suffix('%')?.parse().ok()).unwrap();
    assert!((55..=65).contains(&percent), "{text}");
    for words in [
        "RAID stripe width:        48",
        "RAID stride:              16",
        "data=writeback",
        "nobarrier",
    ] {
        has(&text, words);
    }
    has(&text, "FACT ext4 options in effect: rw,noatime");
    has(&text, "lazy_itable_init=0,lazy_journal_init=0,nodiscard,stride=16");
    has(&text, "deleted before measuring");
    // Every block of the file is there, also after mkfs: a hole would be filled by what is measured.
    let kib: u64 = text
        .lines()
        .find_map(|line| {
            line.split_once('\t').filter(|(_, path)| path.ends_with(".img"))?.0.parse().ok()
        })
        .unwrap();
    assert!(kib >= 128 << 10, "{kib}");
}

fn xfs_and_btrfs() {
    let mut fs = filesystem("xfs");
    fs.mount_options = ["noatime", "logbsize=256k", "logbufs=8"].map(str::to_owned).to_vec();
    let text = look(&over(&["loop:320m"], Some(fs)), "echo x >$1/file; sync $1/file");
    for words in ["logbsize=256k", "logbufs=8", "REFRESHED"] {
        has(&text, words);
    }
    let mut fs = filesystem("btrfs");
    fs.mount_options = ["compress=zstd", "atime"].map(str::to_owned).to_vec();
    fs.fill_percent = Some(30);
    let text = look(&over(&["loop:160m"], Some(fs)), "ls $1/fathom-fill | wc -l");
    has(&text, "FACT atime alone means relatime");
    has(&text, "compress=zstd:3");
}

/// As full as asked for, as df counts, whatever a filesystem keeps for itself; aged alike every time.
fn fill_and_age_as_asked() {
    let percent = |text: &str| -> u32 {
        let found = text.lines().find_map(|line| line.trim().strip_suffix('%')?.parse().ok());
        found.unwrap_or_else(|| panic!("{text}"))
    };
    for (kind, size, asked) in
        [("ext4", "loop:400m", 30), ("btrfs", "loop:700m", 75), ("xfs", "loop:400m", 75)]
    {
        let mut fs = filesystem(kind);
        fs.fill_percent = Some(asked);
        let text = look(&over(&[size], Some(fs)), "df --output=pcent $1 | tail -1");
        assert!((asked - 1..=asked + 2).contains(&percent(&text)), "{kind}: {text}");
    }
    for kind in ["ext4", "xfs"] {
        let mut fs = filesystem(kind);
        fs.ageing_rounds = Some(3);
        let tree = || {
            let command =
                "cd $1 && find fathom-fill -type f -printf 'FILE %s %p\\n' | sort | md5sum";
            let text = look(&over(&["loop:320m"], Some(fs.clone())), command);
            text.lines().find(|line| line.ends_with("  -")).map(str::to_owned)
        };
        let first = tree();
        assert!(first.is_some());
        (0..3).for_each(|_| assert_eq!(tree(), first, "{kind}"));
    }
}

fn f2fs() {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let text = if known.contains("f2fs") {
        look(&over(&["loop:128m"], Some(filesystem("f2fs"))), "echo x >$1/file")
    } else {
        refuse(&over(&["loop:128m"], Some(filesystem("f2fs"))))
    };
    has(&text, if known.contains("f2fs") { "TARGET" } else { "Missing this kernel" });
}

/// Building fails, and nothing is left.
#[track_caller]
pub fn refuse(spec: &SetupSpec) -> String {
    let scratch = Scratch::new().unwrap();
    let state = scratch.path();
    std::fs::create_dir_all(driver::work_dir(state)).unwrap();
    let before = driver::traces(state, &spec.devices);
    let output = driver(&["cycle", state.to_str().unwrap(), &json(spec)], None);
    assert!(!output.status.success(), "{}", said(&output));
    assert_eq!(driver::traces(state, &spec.devices), before, "{}", said(&output));
    said(&output)
}

fn journals_of_their_own() {
    let journal = LoopDevice::new(64 << 20).unwrap();
    for (kind, device, shown) in
        [("ext4", "loop:64m", "Journal device"), ("xfs", "loop:320m", "logdev=")]
    {
        let mut fs = filesystem(kind);
        fs.journal = Some(journal.path().to_str().unwrap().to_owned());
        let command = "dev=$(findmnt -no SOURCE $1); dumpe2fs -h $dev 2>/dev/null | grep 'Journal device' || findmnt $1";
        let text = look(&over(&[device], Some(fs)), command);
        has(&text, shown);
        blank(journal.path());
    }
    let mut fs = filesystem("btrfs");
    fs.journal = Some("loop:64m".to_owned());
    has(&refuse(&over(&["loop:128m"], Some(fs))), "btrfs has no journal on another device");
}

#[track_caller]
fn blank(device: &Path) {
    let file = fathom_sys::blkdev::open_to_look(device, false).unwrap();
    let size = fathom_sys::blkdev::size_bytes(&file).unwrap();
    assert_eq!(fathom_sys::probe::signatures(&file, size).unwrap(), []);
}

fn slices() {
    let mut spec = over(&["loop:96m"], Some(filesystem("ext4")));
    spec.slice = Some(SliceSpec { start: "50%".to_owned(), size: Some("32m".to_owned()) });
    let text = look(&spec, "lsblk -nbo NAME,SIZE $(findmnt -no SOURCE $1)");
    has(&text, " 33554432");
    has(&text, "start=98304, size=65536");
}

fn a_device_alone_is_claimed() {
    let text = look(&over(&["loop:16m", "loop:16m"], None), "echo look at $1");
    has(&text, "CLAIM true");
    has(&text, "look at /dev/loop");
    has(&text, "loop:16m alone is used");
}

fn dry_run() {
    let device = LoopDevice::with(
        64 << 20,
        fathom_testkit::Content::Sparse,
        &fathom_testkit::LoopOptions { partition_scan: true, ..Default::default() },
    );
    let device = device.unwrap();
    let mut spec = over(&[device.path().to_str().unwrap()], Some(filesystem("ext4")));
    spec.slice = Some(SliceSpec { start: "1m".to_owned(), size: None });
    let scratch = Scratch::new().unwrap();
    let state = scratch.path().to_str().unwrap();
    let snapshot = fathom_testkit::Snapshot::take(device.path()).unwrap();
    let planned = driver(&["check", state, &json(&spec)], None);
    snapshot.assert_same(device.path());
    assert!(planned.status.success(), "{}", said(&planned));
    let done = driver(&["cycle", state, &json(&spec)], None);
    assert!(done.status.success(), "{}", said(&done));
    let is_command = |line: &&str| line.starts_with("COMMAND");
    let (planned, done) = (said(&planned), said(&done));
    let planned: Vec<String> = planned.lines().filter(is_command).map(without_choices).collect();
    let done: Vec<String> = done.lines().filter(is_command).map(without_choices).collect();
    assert_eq!(planned, done);
    blank(device.path());
}

/// Commands with what is chosen only when they run replaced by what stands for it.
fn without_choices(line: &str) -> String {
    let is_uuid = |word: &str| word.len() == 36 && word.bytes().filter(|b| *b == b'-').count() == 4;
    let words = line.split(' ').map(|word| {
        let (bare, end) = word.strip_suffix(',').map_or((word, ""), |bare| (bare, ","));
        match bare.rsplit_once('=') {
            Some((key, value)) if is_uuid(value) => format!("{key}=UUID{end}"),
            _ if is_uuid(bare) => format!("UUID{end}"),
            _ => word.replace(&format!("setup-{}-1", driver::RUN), "setup-ID"),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}
