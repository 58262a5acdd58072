//! `fathom check` on btrfs over several devices, in places that hide themselves, and after a measurement.

use crate::check::{defect, rules};
use crate::cli::{self, Done, GIB, MIB, Sandbox, p};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, MountNamespaces, Zram};
use fathom_testkit::{
    Content, FsKind, Judged, LoopDevice, LoopOptions, Mount, MountedElsewhere, MountedFs, Scratch,
    Trial, Zram as Memory, command, kernel_test,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let btrfs = [FathomBinary, LoopDevices, FsOnLoop(FsKind::Btrfs), Zram];
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("check_tells_a_btrfs_with_all_copies_on_one_drive", &btrfs, one_drive),
        kernel_test("check_mends_a_btrfs_without_a_device", &btrfs[..3], without_a_device),
        kernel_test("check_tells_a_btrfs_that_cannot_be_mounted", &btrfs[..3], not_mounted),
        kernel_test("check_of_an_image_over_its_own_directory_ends", &ext4, over_itself),
        kernel_test("check_judges_by_what_quick_measured", &ext4, after_quick),
        kernel_test(
            "check_draws_a_journal_with_its_filesystem",
            &[FathomBinary, FsOnLoop(FsKind::Ext4), FsOnLoop(FsKind::Xfs)],
            journals,
        ),
        kernel_test("check_tells_a_loop_whose_file_keeps_its_space", &ext4, keeps_space),
        kernel_test("check_tells_a_loop_that_takes_no_flushes", &ext4, no_flushes),
        kernel_test("check_of_a_loop_in_memory_speaks_of_no_disk", &ext4[..1], in_memory),
        kernel_test(
            "check_names_who_sees_the_mount_of_a_device",
            &[FathomBinary, FsOnLoop(FsKind::Ext4), MountNamespaces],
            seen_by_another,
        ),
        kernel_test("check_of_what_takes_no_writes_waits_for_no_preparation", &ext4, not_prepared),
        kernel_test("check_waits_for_a_filesystem_that_is_let_go", &ext4, let_go),
    ]
}

/// A btrfs with this profile of data and metadata.
fn btrfs(profile: &str, devices: &[&Path]) -> Mount {
    let mut args = vec!["-q", "-f", "-m", profile, "-d", profile];
    args.extend(devices.iter().map(|device| p(device)));
    command::run_tool("mkfs.btrfs", args).unwrap();
    let options: Vec<String> = devices.iter().map(|d| format!("device={}", d.display())).collect();
    Mount::new("btrfs", devices[0], &options.join(",")).unwrap()
}

fn nodes(done: &Done) -> Vec<Value> {
    done.result()["snapshot"]["machine"]["nodes"].as_array().unwrap().clone()
}

/// Two files on one drive are told, a file and memory are not, nor what promises no copies; of three copies two may be lost.
fn one_drive() -> Judged {
    const RULE: &str = "btrfs-copies-one-disk";
    let sandbox = Sandbox::new();
    let loops: Vec<LoopDevice> = (0..3).map(|_| LoopDevice::new(256 * MIB).unwrap()).collect();
    let memory = Memory::new(256 * MIB).unwrap();
    let [a, b, c] = [0, 1, 2].map(|n| loops[n].path());
    for (profile, devices, is_told) in [
        ("raid1", &[a, b][..], true),
        ("raid1", &[a, memory.path()], false),
        ("single", &[a, b], false),
        ("raid1c3", &[a, b, memory.path()], false),
        ("raid1c3", &[a, b, c], true),
    ] {
        let mount = btrfs(profile, devices);
        let done = sandbox.json(&["check", p(mount.dir())], &[0]);
        if !nodes(&done).iter().any(|node| node["kind"] == "disk") {
            return Judged::Skipped("the files of loop devices lie on no drive".into());
        }
        assert_eq!(rules(&done).contains(&RULE.to_owned()), is_told, "{profile} on {devices:?}");
        if is_told {
            let found = defect(&done, RULE);
            assert_eq!(found["gravity"], "high");
            let moves = |device: &&Path| {
                let command =
                    format!("btrfs replace start -B {} /dev/NEW {}", p(device), p(mount.dir()));
                found["fix"][0]["command"] == command
            };
            assert_eq!(devices.iter().filter(|device| moves(device)).count(), 1, "{found}");
        }
    }
    Judged::Passed
}

/// A device is detached while the filesystem is not mounted: told of the whole machine, until it is back.
fn not_mounted() {
    const RULE: &str = "btrfs-incomplete";
    let sandbox = Sandbox::new();
    let [first, second] = [(); 2].map(|()| LoopDevice::new(256 * MIB).unwrap());
    let name = first.name();
    let mount = btrfs("raid1", &[first.path(), second.path()]);
    fs::write(mount.dir().join("kept"), vec![7; 8 << 20]).unwrap();
    let told = || {
        let done = sandbox.json(&["check"], &[0]);
        let defects = done.result()["defects"].as_array().unwrap().clone();
        let of_first = |d: &Value| d["rule"] == RULE && d["summary"].to_string().contains(&name);
        defects.into_iter().filter(of_first).collect::<Vec<_>>()
    };
    assert_eq!(told(), Vec::<Value>::new(), "mounted");
    drop(mount);
    assert_eq!(told(), Vec::<Value>::new(), "both are there");
    drop(second);
    // Whoever looks at all devices has the other one open for a moment.
    let mut found = Vec::new();
    cli::wait_until("it is told", || {
        found = told();
        !found.is_empty()
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    let summary = format!("1 of the 2 devices of the btrfs on {} are not there", p(first.path()));
    assert_eq!((&found[0]["gravity"], &found[0]["summary"]), (&"high".into(), &summary.into()));
    let steps = found[0]["fix"].as_array().unwrap().clone();
    let command = |words: &str| {
        let mut all = steps.iter().filter_map(|step| step["command"].as_str());
        all.find(|command| command.contains(words)).unwrap().to_owned()
    };
    // What is advised for a device that is gone mounts what is left.
    let dir = Scratch::new().unwrap();
    let degraded = command("degraded").replace("/run/mnt", p(dir.path()));
    command::run_tool("sh", ["-c", &degraded]).unwrap();
    assert_eq!(fs::read(dir.path().join("kept")).unwrap(), vec![7; 8 << 20]);
    let done = sandbox.json(&["check", p(dir.path())], &[0]);
    command::run_tool("umount", [dir.path()]).unwrap();
    assert!(rules(&done).contains(&"btrfs-degraded".to_owned()), "{:?}", rules(&done));
}

/// What is advised gives back what was lost.
fn without_a_device() {
    const RULE: &str = "btrfs-degraded";
    let sandbox = Sandbox::new();
    let [first, second, new] = [(); 3].map(|()| LoopDevice::new(256 * MIB).unwrap());
    let mount = btrfs("raid1", &[first.path(), second.path()]);
    fs::write(mount.dir().join("kept"), vec![7; 8 << 20]).unwrap();
    let whole = sandbox.json(&["check", p(mount.dir())], &[0]);
    assert!(!rules(&whole).contains(&RULE.to_owned()), "{:?}", rules(&whole));
    drop(mount);
    drop(second);
    let mount = Mount::new("btrfs", first.path(), "degraded").unwrap();
    fs::write(mount.dir().join("new"), vec![8; 8 << 20]).unwrap();
    let done = sandbox.json(&["check", p(mount.dir())], &[0]);
    let found = defect(&done, RULE);
    let summary = format!("btrfs at {} lacks 1 of its 2 devices", p(mount.dir()));
    assert_eq!((&found["gravity"], &found["summary"]), (&"high".into(), &summary.into()));
    let steps = found["fix"].as_array().unwrap().iter();
    for command in steps.filter_map(|step| step["command"].as_str()) {
        let text = command.replace("/dev/NEW", p(new.path()));
        command::run_tool("sh", ["-c", &text]).unwrap();
    }
    let after = sandbox.json(&["check", p(mount.dir())], &[0]);
    assert!(!rules(&after).contains(&RULE.to_owned()), "{:?}", rules(&after));
    let nodes = nodes(&after);
    let facts = nodes.iter().find(|node| node["kind"] == "file_system" && node["name"] == "btrfs");
    let profiles = &facts.unwrap()["fs"]["data_profiles"];
    assert_eq!(profiles, &Value::from(vec!["raid1"]), "what was written meanwhile has two copies");
    assert_eq!(fs::read(mount.dir().join("kept")).unwrap(), vec![7; 8 << 20]);
}

/// The path of the file below a loop device leads into the filesystem on it. What is seen has an end, and can be stored and judged again.
fn over_itself() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let dir = scratch.join("place");
    let image = dir.join("a.img");
    fs::create_dir(&dir).unwrap();
    fs::File::create(&image).unwrap().set_len(16 * MIB).unwrap();
    FsKind::Ext4.make(&image, &[]).unwrap();
    let device = command::run_tool("losetup", ["--find", "--show", p(&image)]).unwrap();
    let device = device.trim();
    command::run_tool("mount", [device, p(&dir)]).unwrap();
    fs::write(&image, "another").unwrap();
    let file = scratch.join("machine.json");
    let of_one = sandbox.run(&["check", p(&dir), "--all", "--quiet", "--snapshot", p(&file)]);
    let from = sandbox.run(&["check", "--all", "--from", p(&file)]);
    let of_all = sandbox.run(&["check"]);
    command::run_tool("umount", [p(&dir)]).unwrap();
    command::run_tool("losetup", ["--detach", device]).unwrap();
    assert_eq!((of_one.code, from.code, of_all.code), (0, 0, 0), "{of_one:?} {from:?}");
    assert_eq!(from.stdout, of_one.stdout);
    for shown in [&of_one, &of_all] {
        let is_top = |line: &str| line.contains(p(&dir)) && line.contains("mount of");
        assert!(shown.stdout.lines().any(is_top), "{shown:?}");
        assert!(shown.stdout.contains("a.img, which a mount hides"), "{shown:?}");
    }
    assert!(!of_one.stdout.contains("[loop-sparse]"), "the space of another file: {of_one:?}");
}

/// Rules that need a measurement take it from what `fathom quick` stored, and ask for it before.
fn after_quick() -> Judged {
    let sandbox = Sandbox::new();
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(3 * GIB, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &[], "").unwrap();
    let elsewhere = mounted(FsKind::Ext4, &[], "");
    let needed = |done: &Done| -> Vec<String> {
        let result = done.result();
        let all = result["needs_measurement"].as_array().unwrap();
        all.iter().map(|need| need["rule"].as_str().unwrap().to_owned()).collect()
    };
    let judged = ["rotational-flag-wrong", "dirty-limits"];
    let before = sandbox.json(&["check", p(fs.dir())], &[0]);
    assert!(before.result()["snapshot"]["measured"].as_array().unwrap().is_empty());
    assert!(!rules(&before).iter().any(|rule| judged.contains(&rule.as_str())));
    sandbox.json(&["quick", p(fs.dir()), "--time=30s"], &[0, 1]);
    let after = sandbox.json(&["check", p(fs.dir())], &[0]);
    let result = after.result();
    let measured = result["snapshot"]["measured"].as_array().unwrap();
    let row = |words: &str| {
        let found = measured.iter().find(|one| one["workload"].as_str().unwrap().contains(words));
        found.unwrap_or_else(|| panic!("no {words} in {measured:?}"))
    };
    let (read, written) = (row("random read, 1 in flight"), row("sequential write"));
    if read["verdict"] == "void" || written["verdict"] == "void" {
        return Judged::Skipped("others disturbed the measurement: it counts for nothing".into());
    }
    assert_eq!(needed(&after), [""; 0], "before: {:?}", needed(&before));
    // What the rules have to say follows from the figures that were stored.
    let disks: Vec<Value> = nodes(&after).into_iter().filter(|n| n["kind"] == "disk").collect();
    let turns = |disk: &Value| {
        disk["queue"]["rotational"] == true && disk["detail"]["identity"]["rotation_rpm"].is_null()
    };
    let is_fast = read["read_latency_ns_p50"].as_u64().unwrap() < 1_000_000;
    let is_wrong = !disks.is_empty() && disks.iter().all(turns) && is_fast;
    let vm = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap();
        text.trim().parse::<f64>().unwrap()
    };
    let available = result["snapshot"]["host"]["memory_available_bytes"].as_f64().unwrap();
    let share = vm("dirty_ratio") / 100.0 * available;
    let limit = if vm("dirty_bytes") > 0.0 { vm("dirty_bytes").min(available) } else { share };
    let rate = written["write_bytes_per_s"].as_f64().unwrap();
    let run = format!("fathom show {} (", sandbox.runs()[0]["id"].as_str().unwrap());
    for (rule, is_told) in judged.into_iter().zip([is_wrong, limit / rate > 10.0]) {
        assert_eq!(rules(&after).contains(&rule.to_owned()), is_told, "{rule}: {measured:?}");
        if is_told {
            assert!(defect(&after, rule)["evidence"].to_string().contains(&run), "{rule}");
        }
    }
    // Another filesystem on the same drive was not measured: what is known of the drive is not known of it.
    let other = sandbox.json(&["check", p(elsewhere.dir())], &[0]);
    assert!(other.result()["snapshot"]["measured"].as_array().unwrap().is_empty());
    Judged::Passed
}

/// The journal of a mounted filesystem lies on another device: drawn there, used, and judged like the one with the data, whichever of
/// them is asked for.
fn journals() {
    let log = || LoopDevice::new(128 * MIB).unwrap();
    let journal = log();
    let made = ["-q", "-O", "journal_dev", "-b", "4096", p(journal.path())];
    command::run_tool("mke2fs", made).unwrap();
    let option = format!("device={}", p(journal.path()));
    journal_of(&mounted(FsKind::Ext4, &["-b", "4096", "-J", &option], ""), &journal);
    let journal = log();
    let option = format!("logdev={}", p(journal.path()));
    journal_of(&mounted(FsKind::Xfs, &["-l", &option], &option), &journal);
}

fn journal_of(fs: &MountedFs, journal: &LoopDevice) {
    let sandbox = Sandbox::new();
    fs::remove_file(journal.backing()).unwrap();
    let name = journal.name();
    for target in [vec![], vec![p(fs.dir())], vec![p(journal.path())]] {
        let args = [&["check"], &target[..]].concat();
        let done = sandbox.json(&args, &[0]);
        let defects = done.result()["defects"].as_array().unwrap().clone();
        let is_it = |defect: &&Value| {
            defect["rule"] == "loop-file-deleted" && defect["node"] == p(journal.path())
        };
        let found = defects.iter().find(is_it).unwrap_or_else(|| panic!("{target:?}: {defects:?}"));
        assert_eq!(found["gravity"], "high", "{target:?}: {found}");
        let shown = sandbox.run(&args).stdout;
        // Others may have loop10 beside this loop1.
        let is_named = |line: &&str| {
            let mut after = line.match_indices(&name).map(|(at, _)| &line[at + name.len()..]);
            after.any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let lines: Vec<&str> = shown.lines().filter(is_named).collect();
        assert!(!lines.iter().any(|line| line.contains("not mounted")), "{target:?}: {lines:#?}");
        if target != [p(journal.path())] {
            let is_drawn = |line: &&str| line.contains(")  its journal  ");
            assert!(lines.iter().any(is_drawn), "{target:?}: {lines:#?}");
        }
    }
}

/// A filesystem of the kernel that cannot take space out of a file, and one that can.
fn keeps_space() {
    const RULE: &str = "trim-lost";
    let (sandbox, scratch) = (Sandbox::new(), Scratch::new().unwrap());
    let memory = Mount::new("ramfs", Path::new("none"), "").unwrap();
    for (dir, is_kept) in [(memory.dir(), true), (scratch.path(), false)] {
        let image = dir.join("image");
        fs::File::create(&image).unwrap().set_len(16 * MIB).unwrap();
        let device = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
        let fs = MountedFs::with(FsKind::Ext4, device, &["-E", "nodiscard"], "").unwrap();
        let done = sandbox.json(&["check", p(fs.dir())], &[0]);
        assert_eq!(rules(&done).contains(&RULE.to_owned()), is_kept, "{}", p(dir));
        let trimmed = command::run_tool("fstrim", [p(fs.dir())]).map_err(|e| e.to_string());
        if is_kept {
            let found = defect(&done, RULE);
            assert_eq!(found["node"], p(fs.device().path()), "{found}");
            assert!(found["evidence"].to_string().contains("ramfs at "), "{found}");
            assert!(trimmed.unwrap_err().contains("not supported"));
        } else {
            trimmed.unwrap();
        }
    }
}

/// Unmounted lazily, and held by a file that is open: no list of mounts has it, and its superblock looks as after a crash. A copy of the
/// device as it was is what it looks like.
fn let_go() {
    const RULE: &str = "filesystem-unclean";
    let (sandbox, scratch) = (Sandbox::new(), Scratch::new().unwrap());
    let device = LoopDevice::new(32 * MIB).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let place = scratch.join("place");
    fs::create_dir(&place).unwrap();
    command::run_tool("mount", [p(device.path()), p(&place)]).unwrap();
    let held = fs::File::create(place.join("held")).unwrap();
    held.sync_all().unwrap();
    let image = scratch.join("copy");
    fs::copy(device.backing(), &image).unwrap();
    command::run_tool("umount", ["--lazy", p(&place)]).unwrap();
    let unclean = |device: &LoopDevice| {
        let done = sandbox.json(&["check", p(device.path())], &[0]);
        let node = nodes(&done).into_iter().find(|node| node["name"] == device.name()).unwrap();
        (rules(&done).contains(&RULE.to_owned()), node["detail"]["opened"].clone())
    };
    let of_held = unclean(&device);
    drop(held);
    let known = format!("/sys/fs/ext4/{}", device.name());
    cli::wait_until("the kernel lets it go", || !Path::new(&known).exists());
    let copy = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
    assert_eq!(of_held, (false, Value::Bool(true)), "the kernel has it");
    assert!(!unclean(&device).0, "it was put away");
    assert!(unclean(&copy).0, "nobody has it");
}

/// A loop device that somebody told that nothing below keeps data back, while its file is in memory first.
fn no_flushes() -> Judged {
    const RULE: &str = "flushes-dropped";
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let target = p(device.path());
    let before = sandbox.json(&["check", target], &[0]);
    if !nodes(&before).iter().any(|node| node["kind"] == "disk") {
        return Judged::Skipped("the file of a loop device lies on no drive".into());
    }
    assert!(!rules(&before).contains(&RULE.to_owned()), "{:?}", rules(&before));
    command::run_tool("losetup", ["--direct-io=off", target]).unwrap();
    let file = format!("/sys/block/{}/queue/write_cache", device.name());
    fs::write(file, "write through").unwrap();
    let found = defect(&sandbox.json(&["check", target], &[0]), RULE);
    assert_eq!((&found["gravity"], &found["node"]), (&"high".into(), &target.into()));
    let fix = found["fix"][0]["command"].as_str().unwrap();
    command::run_tool("sh", ["-c", fix]).unwrap();
    let after = sandbox.json(&["check", target], &[0]);
    assert!(!rules(&after).contains(&RULE.to_owned()), "{:?}", rules(&after));
    Judged::Passed
}

/// A file with holes in memory, used through the page cache: nothing of that matters to a disk.
fn in_memory() {
    let memory = Mount::new("tmpfs", Path::new("none"), "size=64M").unwrap();
    let image = memory.dir().join("image");
    fs::File::create(&image).unwrap().set_len(32 * MIB).unwrap();
    let device = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
    let done = Sandbox::new().json(&["check", p(device.path())], &[0]);
    let of_loops = rules(&done).into_iter().filter(|rule| rule.starts_with("loop-"));
    assert_eq!(of_loops.collect::<Vec<_>>(), [""; 0]);
}

/// A device that only another namespace has mounted, named as a target.
fn seen_by_another() {
    let device = LoopDevice::new(64 * MIB).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let mount = MountedElsewhere::new(device.path()).unwrap();
    let shown = Sandbox::new().run(&["check", p(device.path())]);
    let (pid, text) = (mount.pid(), &shown.stdout);
    let line = text.lines().find(|line| line.contains("mounted at")).unwrap_or_default();
    assert!(line.contains(&format!("(as {pid} sh sees it)")), "{text}");
    // What has the device mounted here too is no other place.
    let own = Mount::new("ext4", device.path(), "").unwrap();
    let shown = Sandbox::new().run(&["check", p(device.path())]);
    let line = shown.stdout.lines().find(|line| line.contains("mounted at")).unwrap_or_default();
    assert!(line.contains(&format!("mounted at {}, ", p(own.dir()))), "{}", shown.stdout);
}

/// After an error nothing is zeroed any more, whoever else the kernel's thread works for.
fn not_prepared() -> Judged {
    const RULE: &str = "ext4-lazy-init";
    let sandbox = Sandbox::new();
    let devices = [(); 2].map(|()| LoopDevice::new(2 * GIB).unwrap());
    for device in &devices {
        FsKind::Ext4.make(device.path(), &["-E", "lazy_itable_init=1"]).unwrap();
    }
    let [first, _second] =
        [0, 1].map(|n| Mount::new("ext4", devices[n].path(), "errors=remount-ro").unwrap());
    let told = || rules(&sandbox.json(&["check", p(first.dir())], &[0])).contains(&RULE.to_owned());
    if !told() {
        return Judged::Skipped("this kernel prepares a filesystem at once".into());
    }
    let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", devices[0].name());
    fs::write(trigger, "test").unwrap();
    assert!(!told());
    Judged::Passed
}
