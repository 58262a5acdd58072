//! An experiment that is killed, at every place where it can be: `fathom restore` puts everything back, and started again it goes
//! on until each trial is there exactly once.

use crate::cli::{Sandbox, p, run, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, LoopOptions, Trial, counted, kernel_test, sample};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("lab_killed_with_settings", &needs, with_settings),
        kernel_test("lab_killed_with_setups", &needs, with_setups),
        kernel_test("lab_killed_until_done", &needs, until_done),
        kernel_test("lab_killed_and_renamed", &needs, renamed),
        kernel_test("lab_killed_and_in_use", &needs, in_use),
        kernel_test("lab_killed_and_tidied_up", &needs, tidied_up),
        kernel_test("lab_killed_with_a_store_that_is_read_only", &needs, read_only_store),
        kernel_test("lab_killed_with_relative_commands", &[FathomBinary], relative_commands),
        kernel_test("lab_signals", &[FathomBinary, FsOnLoop(FsKind::Ext4), Tool("kill")], signals),
    ]
}

pub const READ: &str =
    "[[workload]]\nuse = 'randread'\nduration = '50ms'\nwarmup = '0s'\nsize = '4M'\n";

/// Runs a command with a fault; its exit code.
fn with_fault(sandbox: &Sandbox, args: &[&str], fault: &str) -> i32 {
    let done = run(|| {
        let mut command = sandbox.command(args);
        command.env("FATHOM_FAULT", fault);
        command
    });
    assert!(done.code <= 1 || done.code == 137, "{args:?} {fault}: {done:?}");
    done.code
}

/// The places that a whole run passes, by name.
fn points(sandbox: &Sandbox, args: &[&str]) -> Vec<String> {
    let list = sandbox.scratch.join("points");
    with_fault(sandbox, args, &format!("list:{}", list.display()));
    let text = fs::read_to_string(&list).unwrap();
    text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

/// Kills a whole run at `count` places spread over it, restores after each (every fourth time the restoring one is killed first too),
/// and compares everything.
fn kill_and_restore(
    file: &Path,
    sandbox: &Sandbox,
    more: &[&str],
    look: &dyn Fn() -> BTreeMap<String, String>,
    count: usize,
) {
    let args = [&["lab", p(file), "--new", "--quiet"], more].concat();
    let names = points(sandbox, &args);
    let before = look();
    let mut kills: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..count {
        let number = 1 + round * names.len() / count;
        // The order of cells is by chance: places may be fewer in one run than in another.
        if with_fault(sandbox, &args, &format!("kill:{number}")) != 137 {
            continue;
        }
        let name = &names[number - 1];
        *kills.entry(name.clone()).or_default() += 1;
        if round % 4 == 3
            && with_fault(sandbox, &["restore"], &format!("kill:{}", 1 + round % 13)) == 137
        {
            *kills.entry("while restoring".into()).or_default() += 1;
        }
        let done = sandbox.run(&["restore"]);
        assert_eq!(done.code, 0, "killed at {number}, {name}: {done:?}");
        assert_same(
            &before,
            &look(),
            &format!("killed at {number} of {}, {name}: {done:?}", names.len()),
        );
        sandbox.nothing_left(&[]);
    }
    for (name, count) in &kills {
        println!("  killed {count:3} x {name}");
    }
    let all: usize = kills.values().sum();
    assert!(all * 10 >= count * 9, "{all} of {count} kills happened");
    counted("kills per fault point of experiments", all);
}

fn with_settings() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let factors = "[factors]\nblock.scheduler = ['none', 'mq-deadline']\n[knobs]\nblock.nr_requests = 48\nblock.read_ahead_kb = 0\n";
    let file = plan(&sandbox, "set", &format!("{READ}{factors}[design]\nblocks = 1\n"));
    let look = || machine(&sandbox, &[fs.device()]);
    kill_and_restore(&file, &sandbox, &[p(fs.dir()), "--seed=3"], &look, sample(24, 600));
    sandbox.nothing_left(&[fs.dir()]);
}

fn with_setups() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\n[factors]\nfilesystem.type = ['ext4', 'ext2']\n[knobs]\nblock.nr_requests = 48\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    let look = || machine(&sandbox, &[]);
    kill_and_restore(&file, &sandbox, &["--seed=3"], &look, sample(12, 400));
}

/// Killed before its first measurement.
pub fn kill_measuring(sandbox: &Sandbox, args: &[&str]) {
    let names = points(sandbox, args);
    let number = names.iter().position(|name| name == "before a measurement");
    let number = 1 + number.unwrap_or_else(|| panic!("{names:?}"));
    assert_eq!(with_fault(sandbox, args, &format!("kill:{number}")), 137);
}

/// What fathom has built is found by what it is: its directory may have another name by now, and its file none.
fn renamed() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\ntype = 'ext4'\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    let args = ["lab", p(&file), "--new", "--seed=3"];
    let before = machine(&sandbox, &[]);
    let state = sandbox.db().parent().unwrap().to_owned();
    let built = || {
        let mut names = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path());
        names.find(|path| path.join("disk-1.img").exists())
    };
    let meddle: [&dyn Fn(&Path); 3] = [
        &|dir| fs::rename(dir, state.join("moved")).unwrap(),
        &|dir| fs::remove_file(dir.join("disk-1.img")).unwrap(),
        &|dir| fs::rename(dir.join("disk-1.img"), dir.join("disk.old")).unwrap(),
    ];
    for (number, meddle) in meddle.iter().enumerate() {
        kill_measuring(&sandbox, &args);
        meddle(&built().unwrap());
        let done = sandbox.run(&["restore"]);
        assert_eq!(done.code, 0, "{number}: {done:?}");
        assert_eq!(built(), None, "{number}: {done:?}");
        assert_same(&before, &machine(&sandbox, &[]), &format!("{number}: {done:?}"));
        sandbox.nothing_left(&[]);
    }
    // Where fathom looks for nothing: told, until they have removed it.
    kill_measuring(&sandbox, &args);
    let (dir, out) = (built().unwrap(), sandbox.scratch.join("out"));
    fs::rename(&dir, &out).unwrap();
    let file = out.join("disk-1.img");
    let told = sandbox.run(&["restore"]);
    assert!(told.code == 5 && told.stdout.contains(p(&out.join("mnt"))), "{told:?}");
    assert!(tool("umount").arg(out.join("mnt")).status().unwrap().success());
    let told = sandbox.run(&["restore"]);
    assert!(
        told.code == 5 && told.stdout.contains(&format!("shows {} by now", p(&file))),
        "{told:?}"
    );
    let device = told.stdout.split("/dev/").find(|text| text.contains(" shows ")).unwrap();
    let device = format!("/dev/{}", device.split(' ').next().unwrap());
    assert!(tool("losetup").args(["--detach", &device]).status().unwrap().success());
    fs::remove_dir_all(&out).unwrap();
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_same(&before, &machine(&sandbox, &[]), &format!("{done:?}"));
}

/// Somebody sits in the mount of the setup: each command is told once, and what lies around it is nobody else's.
fn in_use() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\ntype = 'ext4'\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    let before = machine(&sandbox, &[]);
    kill_measuring(&sandbox, &["lab", p(&file), "--new", "--seed=3"]);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let state = sandbox.db().parent().unwrap().canonicalize().unwrap();
    let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let point = points.rfind(|point| point.starts_with(p(&state))).unwrap();
    let mut user = tool("sleep").arg("600").current_dir(point).spawn().unwrap();
    let done = sandbox.run(&["restore"]);
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(done.code, 5, "{done:?}");
    assert!(done.stdout.contains("sleep (process"), "{done:?}");
    assert!(!done.stdout.contains("somebody else has changed"), "{done:?}");
    let told = done.stderr.lines().filter(|line| line.starts_with("umount ")).count();
    assert_eq!(told, 1, "{done:?}");
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    assert_same(&before, &machine(&sandbox, &[]), "when nobody is in it any more");
    sandbox.nothing_left(&[]);
}

/// The filesystem of the journal can be read only, as after an error of its disk: settings are put back, and that the journal still says
/// otherwise is told, with what helps.
fn read_only_store() {
    let sandbox = Sandbox::new();
    let disk = mounted(FsKind::Ext4, &[], "");
    let knobs = "[knobs]\nblock.nr_requests = 48\nblock.read_ahead_kb = 64\n";
    let file = plan(&sandbox, "set", &format!("{READ}{knobs}[design]\nblocks = 1\n"));
    let queue = Path::new("/sys/block").join(disk.device().name()).join("queue");
    let look = || {
        ["nr_requests", "read_ahead_kb"].map(|name| fs::read_to_string(queue.join(name)).unwrap())
    };
    let before = look();
    let state = sandbox.db().parent().unwrap().to_owned();
    kill_measuring(&sandbox, &["lab", p(&file), p(disk.dir()), "--new", "--seed=3"]);
    assert_ne!(before, look(), "it was killed with its settings");
    let mount = |args: &[&str]| {
        let done = tool("mount").args(args).arg(&state).output().unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    mount(&["--bind", p(&state)]);
    mount(&["-o", "remount,bind,ro"]);
    let listed = sandbox.run(&["restore", "--list"]);
    let done = sandbox.run(&["restore"]);
    let after = look();
    assert!(tool("umount").arg(&state).status().unwrap().success());
    assert!(listed.stdout.contains(&format!("settings of {}", disk.device().name())), "{listed:?}");
    assert_eq!(done.code, 5, "{done:?}");
    assert!(done.stdout.contains("mount -o remount,rw"), "{done:?}");
    // What could not be noted is back all the same.
    let told =
        ["as it was before, which the journal of run", "1 change is back as before, which the"];
    assert!(!done.stdout.contains("cannot be put back"), "{done:?}");
    assert!(told.iter().all(|text| done.stdout.to_lowercase().contains(text)), "{done:?}");
    assert_eq!(before, after, "{done:?}");
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    sandbox.nothing_left(&[disk.dir()]);
}

/// Commands of the user's own mean what they meant where the experiment was started.
fn relative_commands() {
    let sandbox = Sandbox::new();
    let (started, elsewhere) = (sandbox.scratch.join("started"), sandbox.scratch.join("elsewhere"));
    for dir in [&started, &elsewhere] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("own"), "a\n").unwrap();
    }
    let knob = "[knobs]\nown.mine = 'b'\n[design]\nblocks = 1\n[[own_knob]]\nname = 'mine'\nread = 'cat ./own'\nwrite = 'echo {value} > ./own'\nvalues = ['a', 'b']\n";
    let file = plan(&sandbox, "own", &format!("target = 'null:'\n{READ}{knob}"));
    let list = sandbox.scratch.join("points");
    let run_in = |dir: &Path, args: &[&str], fault: &str| {
        run(|| {
            let mut command = sandbox.command(args);
            command.current_dir(dir).env("FATHOM_FAULT", fault);
            command
        })
    };
    let args = ["lab", p(&file), "--new", "--seed=3"];
    run_in(&started, &args, &format!("list:{}", p(&list)));
    let text = fs::read_to_string(&list).unwrap();
    let number = text.lines().position(|line| line.ends_with("before a measurement")).unwrap() + 1;
    run_in(&started, &args, &format!("kill:{number}"));
    let own = |dir: &Path| fs::read_to_string(dir.join("own")).unwrap();
    assert_eq!(own(&started), "b\n");
    fs::write(elsewhere.join("own"), "b\n").unwrap();
    let listed = run_in(&elsewhere, &["restore", "--list"], "");
    let line =
        "own.mine: before a; its own command, which says what it is now, is not run for this list";
    assert!(listed.stdout.contains(line), "{listed:?}");
    let done = run_in(&elsewhere, &["restore"], "");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((own(&started).as_str(), own(&elsewhere).as_str()), ("a\n", "b\n"), "{done:?}");
    // A variable that they name has another value here.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("./own", "$HOME/own")).unwrap();
    let at_home = |home: &Path, args: &[&str], fault: &str| {
        run(|| {
            let mut command = sandbox.command(args);
            command.env("HOME", home).env("FATHOM_FAULT", fault);
            command
        })
    };
    at_home(&started, &args, &format!("kill:{number}"));
    assert_eq!(own(&started), "b\n");
    let done = at_home(&elsewhere, &["restore"], "");
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((own(&started).as_str(), own(&elsewhere).as_str()), ("a\n", "b\n"), "{done:?}");
    // Another directory has the name of that in which they ran.
    fs::write(&file, text).unwrap();
    run_in(&started, &args, &format!("kill:{number}"));
    let renamed = sandbox.scratch.join("renamed");
    fs::rename(&started, &renamed).unwrap();
    fs::create_dir(&started).unwrap();
    fs::write(started.join("own"), "b\n").unwrap();
    let done = run_in(&elsewhere, &["restore"], "");
    assert_eq!(done.code, 3, "{done:?}");
    assert!(done.stdout.contains("another directory") && done.stdout.contains("was a"), "{done:?}");
    assert_eq!((own(&started).as_str(), own(&renamed).as_str()), ("b\n", "b\n"), "{done:?}");
    fs::remove_dir_all(&started).unwrap();
    fs::rename(&renamed, &started).unwrap();
    assert_eq!(run_in(&elsewhere, &["restore"], "").code, 0);
    assert_eq!(own(&started), "a\n");
}

/// Somebody has tidied up by hand after a kill, and a file of theirs got the number of the inode that fathom's had: it stays, and so does the
/// loop device over it.
fn tidied_up() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\ntype = 'ext4'\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    kill_measuring(&sandbox, &["lab", p(&file), "--new", "--seed=3"]);
    let state = sandbox.db().parent().unwrap().canonicalize().unwrap();
    let dirs = || fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path());
    let dir = dirs().find(|path| path.join("disk-1.img").exists()).unwrap();
    let inode = fs::metadata(dir.join("disk-1.img")).unwrap().ino();
    let shown = tool("losetup").arg("-j").arg(dir.join("disk-1.img")).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let device = shown.split(':').next().unwrap();
    assert!(tool("umount").arg(dir.join("mnt")).status().unwrap().success());
    assert!(tool("losetup").args(["--detach", device]).status().unwrap().success());
    wait_until("it is detached", || {
        let left = tool("losetup").arg("-j").arg(dir.join("disk-1.img")).output().unwrap();
        left.stdout.is_empty()
    });
    fs::remove_dir_all(&dir).unwrap();
    let mut theirs = Vec::new();
    for number in 0..300 {
        let path = state.join(format!("notes-{number}"));
        fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
        theirs.push(path);
        if fs::metadata(&theirs[number]).unwrap().ino() == inode {
            break;
        }
    }
    // Where numbers are not given again nothing can be mistaken.
    let device = LoopDevice::over(theirs.last().unwrap(), &LoopOptions::default()).unwrap();
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(theirs.iter().all(|path| path.exists()), "{done:?}");
    let shown = tool("losetup").arg(device.path()).output().unwrap();
    assert!(shown.status.success(), "{done:?}: {shown:?}");
    drop(device);
    theirs.iter().for_each(|path| fs::remove_file(path).unwrap());
    sandbox.nothing_left(&[]);
}

/// Killed again and again, a little later each time, and always started again: in the end every trial is there once.
fn until_done() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let factors = "[factors]\nblock.nr_requests = [32, 64]\n";
    let file = plan(&sandbox, "again", &format!("{READ}{factors}[design]\nblocks = 6\n"));
    let before = machine(&sandbox, &[fs.device()]);
    let args = ["lab", p(&file), p(fs.dir()), "--quiet", "--seed=5"];
    let mut deaths = 0;
    let mut seen = 0;
    loop {
        // Far enough for a trial now and then, never for all.
        let number = 12 + (deaths * 7) % 30;
        if with_fault(&sandbox, &args, &format!("kill:{number}")) != 137 {
            break;
        }
        deaths += 1;
        assert!(deaths < 300, "never done");
        let runs = sandbox.runs();
        assert_eq!(runs.len(), 1, "always the same run");
        let now = runs[0]["trials"].as_u64().unwrap();
        assert!(now >= seen, "a trial is lost");
        seen = now;
    }
    let id = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    let shown = sandbox.json(&["show", &id], &[0]);
    let trials = trials_of(&shown.records());
    let places: Vec<(u64, u64)> = trials.iter().map(|(block, cell, ..)| (*block, *cell)).collect();
    let all: Vec<(u64, u64)> = (0..6).flat_map(|block| [(block, 0), (block, 1)]).collect();
    assert_eq!(places, all, "each exactly once");
    assert!(deaths >= 3, "killed {deaths} times only");
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "when it is done");
    sandbox.nothing_left(&[fs.dir()]);
    counted("kills until an experiment was done", deaths);
}

/// Sessions that end send two at once, or a terminal's hang-up later: each time everything is put back.
fn signals() {
    for signals in [
        &["INT"][..],
        &["TERM"],
        &["HUP", "HUP"],
        &["TERM", "TERM"],
        &["TERM", "HUP"],
        &["USR1"],
        &["USR2"],
        &["XCPU"],
        &["PWR"],
        &["RTMIN"],
    ] {
        let sandbox = Sandbox::new();
        let before = machine(&sandbox, &[]);
        // A device that the setup makes, without a filesystem.
        let read = READ.replace("50ms", "1s").replace("size = '4M'\n", "");
        let text = format!(
            "{read}[setup]\ndevices = ['loop:32MiB']\n[factors]\nblock.nr_requests = [16, 32, 64, 96]\n[design]\nblocks = 1\n"
        );
        let file = plan(&sandbox, "signal", &text);
        let running = sandbox.start(&["lab", p(&file)], "trial_finished", 1);
        signals.iter().for_each(|signal| running.signal(signal));
        let done = running.finish();
        assert_eq!(done.code, 130, "{signals:?}: {done:?}");
        assert_eq!(done.result()["ended"], "interrupted");
        let first = trials_of(&done.records());
        assert!(!first.is_empty() && first.len() < 4, "{first:?}");
        assert_same(&before, &machine(&sandbox, &[]), "after a signal");
        sandbox.nothing_left(&[]);
        let rest = lab(&sandbox, &file, &[]);
        assert_eq!(rest.id(), done.id(), "it goes on");
        let all = trials_of(&rest.records());
        assert_eq!(all.len(), 4);
        assert!(first.iter().all(|trial| all.contains(trial)), "none is lost");
    }
}
