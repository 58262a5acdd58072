//! `fathom lab`: what a trial says that it was measured with is what it was measured with: settings after a start that takes it up, the
//! filesystem that was built, every target's devices, nothing beside it; and all is put back when the journal's disk is full.

use crate::cli::{Done, Sandbox, p, run, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, LoopOptions, MountedFs, Trial, kernel_test};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("lab_taken_up_with_its_settings", &ext4, taken_up),
        kernel_test("lab_built_anew_with_its_settings", &ext4, built_anew),
        kernel_test("lab_unmounted_by_somebody", &ext4, unmounted),
        kernel_test("lab_remounted_by_somebody", &ext4, remounted),
        kernel_test("lab_mount_fails_after_a_crash", &ext4, crashed),
        kernel_test(
            "lab_programs_that_leave_their_group",
            &[FathomBinary, Tool("setsid")],
            leaving,
        ),
        kernel_test("lab_settings_of_every_target", &ext4, every_target),
        kernel_test("lab_full_disk_of_the_journal", &ext4, full_journal),
        kernel_test("lab_what_no_cell_sets", &ext4, nobodys_setting),
        kernel_test("lab_what_no_cell_sets_below_a_file", &ext4, below_a_file),
        kernel_test("lab_direct_io_of_a_loop_device_switched", &ext4, direct_io_switched),
        kernel_test("lab_what_comes_with_a_scheduler", &ext4, somebodys_scheduler),
        kernel_test("lab_own_knobs_are_read_once", &[FathomBinary], read_once),
        kernel_test(
            "lab_fuller_than_asked",
            &[FathomBinary, FsOnLoop(FsKind::Xfs), Tool("sfdisk")],
            fuller_than_asked,
        ),
        kernel_test("lab_what_stays_is_told_once", &[FathomBinary], no_way_back),
        kernel_test("lab_companion_says_why", &[FathomBinary], mistyped_companion),
        kernel_test("lab_ended_by_disturbances", &[FathomBinary], disturbed),
    ]
}

/// Every record must have been measured with the level of the plan's only factor, a setting, on so many devices.
#[track_caller]
fn have_settings(records: &[Value], places: usize) {
    for record in records {
        let cell = &record["cell"];
        let level = &cell["levels"][0][1];
        let knobs = cell["knobs"].as_array().unwrap();
        let found: BTreeSet<String> = knobs.iter().map(|knob| knob["place"].to_string()).collect();
        assert_eq!(found.len(), places, "{cell}");
        for knob in knobs {
            assert_eq!((&knob["before"], &knob["after"]), (level, level), "{cell}");
        }
    }
}

/// A filesystem that is fuller than asked for as it is made, on a slice of its device: how full, and how much of the device is used, stand in the result.
fn fuller_than_asked() {
    const MIB: u64 = 1 << 20;
    let sandbox = Sandbox::new();
    let text = "[[workload]]\nuse = 'randread'\nduration = '80ms'\nwarmup = '0s'\nsize = '1M'\n[setup]\ndevices = ['loop:320MiB']\n\
        slice.start = '4MiB'\nfilesystem.type = 'xfs'\nfilesystem.fill = '1%'\n[design]\nblocks = 1\nsentinel = false\n";
    let file = plan(&sandbox, "fuller", text);
    let dry = sandbox.json(&["lab", p(&file), "--dry-run"], &[0]);
    let expected = serde_json::json!({
        "devices_bytes": 320 * MIB, "usable_bytes": 315 * MIB, "wasted_bytes": 5 * MIB,
    });
    assert_eq!(dry.result()["outline"]["cells"][0]["capacity"], expected);
    let done = sandbox.run(&["lab", p(&file)]);
    let run = done.stdout.split("fathom show ").nth(1).unwrap_or_else(|| panic!("{done:?}"));
    let shown = sandbox.json(&["show", run.split_whitespace().next().unwrap()], &[0, 1]);
    assert_eq!(shown.result()["experiment"]["cells"][0]["capacity"], expected);
    let told = |done: &Done| done.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    let dry = sandbox.run(&["lab", p(&file), "--dry-run", "--new"]);
    for (done, columns) in [(&dry, "usable wasted one trial"), (&done, "usable wasted trials")] {
        let told = told(done);
        assert!(told.contains(columns) && told.contains("315 MiB 5 MiB 1"), "{told}");
    }
    let (remark, rest) = ("what was built: filesystem.fill 1%: ", "without a single file");
    assert!(told(&done).contains(remark) && told(&done).contains(rest), "{done:?}");
    sandbox.nothing_left(&[]);
}

/// The command that puts a setting back fails: the trial after it cannot begin, and why is said once when that happens and once in the result.
fn no_way_back() {
    let sandbox = Sandbox::new();
    let value = sandbox.scratch.join("value");
    fs::write(&value, "a\n").unwrap();
    let text = format!(
        "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = 'sleep 0.05'\n\
         [[own_knob]]\nname = 'x'\nread = 'cat {0}'\nwrite = '[ {{value}} = b ] && echo b > {0} || {{ echo no way back >&2; exit 3; }}'\nvalues = ['a', 'b']\n\
         [knobs]\nown.x = 'b'\n[design]\nblocks = 3\nsentinel = false\n[[objective]]\nmetric = 'application'\n",
        p(&value)
    );
    let done = sandbox.run(&["lab", p(&plan(&sandbox, "stuck", &text))]);
    const WHY: &str = "(exit status: 3): no way back";
    let counts = [&done.stdout, &done.stderr].map(|text| text.matches(WHY).count());
    assert_eq!((done.code, counts), (5, [1, 1]), "{done:?}");
    let void = "void: block 2, baseline, app: settings of the trial before could not be put back, see below";
    assert!(done.stdout.contains(void) && done.stdout.contains("\nNOT as before"), "{done:?}");
    // Whole where it is stored.
    let run = done.stdout.split("fathom show ").nth(1).unwrap();
    let shown = sandbox.run(&["show", run.split_whitespace().next().unwrap()]);
    assert!(shown.stdout.contains(WHY), "{shown:?}");
    fs::write(&value, "a\n").unwrap();
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    sandbox.nothing_left(&[]);
}

/// A companion that cannot be run says why.
fn mistyped_companion() {
    let sandbox = Sandbox::new();
    let text = "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = 'sleep 0.3'\n\
        [factors]\ncompanion = ['no-such-program', 'echo chatter >&2; echo; no-such-program']\n\
        [design]\nblocks = 3\nsentinel = false\n[[objective]]\nmetric = 'application'\n";
    let done = sandbox.json(&["lab", p(&plan(&sandbox, "mistyped", text))], &[1]);
    let causes: Vec<Value> =
        done.records().iter().map(|record| record["cell"]["void"].clone()).collect();
    let is_told = |cause: &Value| {
        let cause = cause.as_str().unwrap_or_default();
        cause.starts_with("the companion ended before the trial did (exit status 127): ")
            && cause.contains("no-such-program")
            && cause.contains("not found")
            && !cause.contains("chatter")
    };
    assert!(causes.len() == 3 && causes.iter().all(is_told), "{causes:?}");
}

/// Where failures end nothing, it is said what does.
fn disturbed() {
    let sandbox = Sandbox::new();
    let text = "target = 'null:'\non_error = 'continue'\n[[workload]]\nlabel = 'app'\ncommand = 'sleep 0.3'\n\
        [factors]\ncompanion = ['true', 'sleep 0.01']\n[design]\nblocks = 6\nsentinel = false\n[[objective]]\nmetric = 'application'\n";
    let done = sandbox.run(&["lab", p(&plan(&sandbox, "disturbed", text))]);
    let told = "ENDED, because none of the last three trials counts; the last: the companion ended before the trial did";
    assert!(done.code == 1 && done.stdout.contains(told), "{done:?}");
}

/// Why the trials of a plan do not count in whose first one this is run.
fn causes_after(sandbox: &Sandbox, name: &str, act: &str, target: &Path) -> Vec<String> {
    let flag = sandbox.scratch.join("flag");
    let command = format!("[ -e {flag} ] || {{ : > {flag}; {act}; }}; sleep 0.1", flag = p(&flag));
    let load = format!("[[workload]]\nlabel = 'app'\ncommand = '{command}'\n");
    let metric = "[[objective]]\nmetric = 'application'\n";
    let text = format!("{load}[design]\nblocks = 4\nsentinel = false\n{metric}");
    let done = sandbox.json(&["lab", p(&plan(sandbox, name, &text)), p(target)], &[0, 1]);
    let cause = |record: &Value| record["cell"]["void"].as_str().unwrap_or("-").to_owned();
    done.records().iter().map(cause).collect()
}

/// The disk below the file of a loop device is measured, too.
fn below_a_file() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let image = fs.dir().join("image");
    fs::write(&image, vec![7; 8 << 20]).unwrap();
    let device = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
    let name = fs.device().name();
    let act = format!("echo 512 > /sys/block/{name}/queue/read_ahead_kb");
    let causes = causes_after(&sandbox, "below", &act, device.path());
    let knob = format!("block.read_ahead_kb of {name}");
    assert!(causes.len() == 3 && causes.iter().all(|cause| cause.contains(&knob)), "{causes:?}");
    drop(device);
    fs::remove_file(&image).unwrap();
    sandbox.nothing_left(&[fs.dir()]);
}

/// Somebody takes the page cache away from the target, or gives it: the figures are others from then on.
fn direct_io_switched() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let name = fs.device().name();
    let is_direct = fs::read_to_string(format!("/sys/block/{name}/loop/dio")).unwrap();
    let other = if is_direct.trim() == "1" { "off" } else { "on" };
    let act = format!("losetup --direct-io={other} /dev/{name}");
    let causes = causes_after(&sandbox, "direct", &act, fs.dir());
    let knob = format!("loop.dio of {name}");
    assert!(causes.len() == 3 && causes.iter().all(|cause| cause.contains(&knob)), "{causes:?}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// What the kernel sets with a scheduler of somebody's is not named in its place.
fn somebodys_scheduler() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let name = fs.device().name();
    let file = format!("/sys/block/{name}/queue/scheduler");
    let all = fs::read_to_string(&file).unwrap();
    // It allows itself other numbers of requests.
    let Some(other) = all.split_whitespace().find(|one| *one == "bfq" || *one == "mq-deadline")
    else {
        return;
    };
    let act = format!("echo {other} > {file}");
    let causes = causes_after(&sandbox, "scheduler", &act, fs.dir());
    let knob = format!("block.scheduler of {name}");
    assert!(causes.len() == 3 && causes.iter().all(|cause| cause.contains(&knob)), "{causes:?}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// Somebody changes the read-ahead while the first cell is measured, in an experiment that sets nothing at all: that trial is void, and so
/// are the others, which would be measured with something else. It stays as they set it, and that is said.
fn nobodys_setting() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let device = fs.device().name();
    let ahead = Path::new("/sys/block").join(&device).join("queue/read_ahead_kb");
    let was = fs::read_to_string(&ahead).unwrap().trim().to_owned();
    let flag = sandbox.scratch.join("flag");
    let command = format!(
        "[ -e {flag} ] || {{ : > {flag}; echo 512 > {ahead}; }}; sleep 0.1",
        flag = p(&flag),
        ahead = p(&ahead)
    );
    let load = format!("[[workload]]\nlabel = 'app'\ncommand = '{command}'\n");
    let metric = "[[objective]]\nmetric = 'application'\n";
    let text = format!("{load}[design]\nblocks = 4\nsentinel = false\n{metric}");
    let file = plan(&sandbox, "nobodys", &text);
    let done = sandbox.json(&["lab", p(&file), p(fs.dir())], &[1]);
    let causes: Vec<Value> =
        done.records().iter().map(|record| record["cell"]["void"].clone()).collect();
    let causes: Vec<&str> = causes.iter().map(|cause| cause.as_str().unwrap_or("-")).collect();
    let knob = format!("block.read_ahead_kb of {device}");
    let meanwhile =
        format!("during the trial, which this cell does not set: {knob} was {was} and is 512");
    let later = format!(
        "changed {knob} during the experiment, which this cell does not set: it is 512 now, before it was {was}"
    );
    assert!(causes[0].ends_with(&meanwhile), "{causes:?}");
    assert!(
        causes.len() == 3 && causes[1..].iter().all(|cause| cause.ends_with(&later)),
        "{causes:?}"
    );
    let left = done.result()["restored"].to_string();
    assert!(left.contains(&format!("it is 512, before the experiment it was {was}")), "{left}");
    fs::write(&ahead, &was).unwrap();
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "written back");
    // Nobody does that.
    let done = sandbox.json(&["lab", p(&file), p(fs.dir()), "--new"], &[0, 1]);
    let has_void = |record: &Value| !record["cell"]["void"].is_null();
    assert!(done.records().len() == 4 && !done.records().iter().any(has_void), "{done:?}");
    sandbox.nothing_left(&[]);
}

/// The command that reads a setting may take its time, or do something: at each moment it is run once.
fn read_once() {
    let sandbox = Sandbox::new();
    let [value, count] = ["value", "count"].map(|name| sandbox.scratch.join(name));
    fs::write(&value, "a\n").unwrap();
    let text = format!(
        "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = 'sleep 0.05'\n\
         [[own_knob]]\nname = 'mine'\nread = 'echo read >> {count}; cat {value}'\nwrite = 'echo {{value}} > {value}'\nvalues = ['a', 'b']\n\
         [factors]\nown.mine = ['a', 'b']\n[design]\nblocks = 1\nsentinel = false\n[[objective]]\nmetric = 'application'\n",
        count = p(&count),
        value = p(&value)
    );
    let done = sandbox.json(&["lab", p(&plan(&sandbox, "once", &text))], &[0, 1]);
    for record in done.records() {
        let knob = &record["cell"]["knobs"][0];
        let level = &record["cell"]["levels"][0][1];
        let seen = [&knob["found"], &knob["before"], &knob["after"]];
        assert_eq!(seen, [&Value::from("a"), level, level], "{record}");
    }
    let reads = fs::read_to_string(&count).unwrap().lines().count();
    // Whether it can be read at all; of the cell that is set already: found, before and after the measurement; of the other one the same,
    // and after its two writes; before it is put back, and in the end.
    assert_eq!((done.records().len(), reads), (2, 1 + 3 + 3 + 2 + 1 + 1), "{done:?}");
    assert_eq!(fs::read_to_string(&value).unwrap(), "a\n");
    sandbox.nothing_left(&[]);
}

/// Somebody changes the options that a factor has chosen: that trial is void and says so, and the next one has them again.
fn remounted() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let [flag, seen] = ["flag", "seen"].map(|name| sandbox.scratch.join(name));
    let command = format!(
        "[ -e {flag} ] || {{ : > {flag}; mount -o remount,strictatime \"$FATHOM_TARGET\"; }}; grep \" $FATHOM_TARGET \" /proc/mounts >> {seen}",
        flag = p(&flag),
        seen = p(&seen)
    );
    let text = format!(
        "on_error = 'continue'\n[[workload]]\nlabel = 'app'\ncommand = '''{command}'''\n[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext4'\n\
         mount.atime = 'noatime'\n[design]\nblocks = 3\nsentinel = false\n[[objective]]\nmetric = 'cpu_per_io'\n"
    );
    let file = plan(&sandbox, "remounted", &text);
    let done = sandbox.json(&["lab", p(&file), "--seed=3"], &[0, 1, 5]);
    let causes: Vec<Value> =
        done.records().iter().map(|record| record["cell"]["void"].clone()).collect();
    let told = causes[0].as_str().unwrap_or_default();
    assert!(
        told.contains("somebody else changed how the filesystem at")
            && told.ends_with("is mounted: without noatime"),
        "{causes:?}"
    );
    assert!(causes.len() == 3 && causes[1..].iter().all(Value::is_null), "{causes:?}");
    let seen = fs::read_to_string(&seen).unwrap();
    let with: Vec<bool> = seen.lines().map(|line| line.contains("noatime")).collect();
    assert_eq!(with, [false, true, true], "{seen}");
    assert_same(&before, &machine(&sandbox, &[]), &format!("{done:?}"));
    sandbox.nothing_left(&[]);
}

/// Killed between two workloads of a trial, of the first and of the second: what the next start measures has the settings of its cell.
fn taken_up() {
    let fs = mounted(FsKind::Ext4, &[], "");
    let load = |label: &str| {
        format!(
            "[[workload]]\nlabel = '{label}'\nuse = 'randread'\nduration = '50ms'\nwarmup = '0s'\nsize = '4M'\n"
        )
    };
    let rest = "[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 2\nsentinel = false\nseed = 7\n";
    for stored in [0, 2] {
        let sandbox = Sandbox::new();
        let before = machine(&sandbox, &[fs.device()]);
        let file = plan(&sandbox, "two", &format!("{}{}{rest}", load("a"), load("b")));
        let list = sandbox.scratch.join("points");
        let with = |fault: String| {
            run(|| {
                let mut command = sandbox.command(&["lab", p(&file), p(fs.dir()), "--new"]);
                command.env("FATHOM_FAULT", &fault);
                let _ = fs::remove_file(&list);
                command
            })
        };
        assert!(with(format!("list:{}", list.display())).code <= 1);
        let points = fs::read_to_string(&list).unwrap();
        let mut places = points.lines().filter(|line| line.contains("after a record was stored"));
        let number = places.nth(stored).unwrap().split(' ').next().unwrap();
        assert_eq!(with(format!("kill:{number}")).code, 128 + 9);
        let id = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
        let done = lab(&sandbox, &file, &[p(fs.dir()), "--resume", &id]);
        let records = done.records();
        assert_eq!((done.id(), trials_of(&records).len()), (id, 8));
        have_settings(&records, 1);
        assert_same(&before, &machine(&sandbox, &[fs.device()]), "after it was taken up");
    }
}

const WRITER: &str = "use = 'fsop'\nphases = '1w'\nwindow = '150ms'\nwarmup = '50ms'\n";

/// A crash after each of two workloads: the second has a new filesystem, with the settings of the cell like the first.
fn built_anew() {
    let sandbox = Sandbox::new();
    let text = format!(
        "[[workload]]\nlabel = 'a'\n{WRITER}[[workload]]\nlabel = 'b'\n{WRITER}[setup]\ndevices = ['loop:64M']\nfilesystem = 'ext4'\n\
         [factors]\nblock.nomerges = ['0', '2']\n[design]\nblocks = 1\nsentinel = false\n[[objective]]\nmetric = 'recovery'\n"
    );
    let records = lab(&sandbox, &plan(&sandbox, "twice", &text), &[]).records();
    assert_eq!(trials_of(&records).len(), 4);
    have_settings(&records, 1);
}

/// Causes of void trials, and how many were not.
fn divided(records: &[Value]) -> (Vec<String>, usize) {
    let void = |record: &Value| record["cell"]["void"].as_str().map(str::to_owned);
    let voids: Vec<String> = records.iter().filter_map(void).collect();
    let count = records.len() - voids.len();
    (voids, count)
}

/// The built filesystem is unmounted while it is measured: the trial is void, and the next one has a new one, not the directory below.
fn unmounted() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let once = sandbox.scratch.join("once");
    let load = format!(
        "[[workload]]\nlabel = 'app'\ncommand = 'grep -q \" $(pwd -P) \" /proc/self/mountinfo || exit 9; test -e {0} || {{ touch {0}; umount -l .; }}'\n",
        p(&once)
    );
    let text = format!(
        "on_error = 'continue'\n{load}[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext4'\n[design]\nblocks = 2\nsentinel = false\n\
         [[objective]]\nmetric = 'application'\n"
    );
    let done = lab(&sandbox, &plan(&sandbox, "gone", &text), &[]);
    let (voids, good) = divided(&done.records());
    assert_eq!((voids.len(), good), (1, 1), "{voids:?}");
    assert!(voids[0].contains("is not mounted"), "{voids:?}");
    assert_same(&before, &machine(&sandbox, &[]), "after the unmounted one");
}

/// A program of that name before all others; the value of PATH with it.
fn fake(sandbox: &Sandbox, name: &str, script: &str) -> String {
    let bin = sandbox.scratch.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let file = bin.join(name);
    fs::write(&file, format!("#!/bin/sh\n{script}PATH=${{PATH#*:}} exec {name} \"$@\"\n")).unwrap();
    assert!(tool("chmod").arg("755").arg(&file).status().unwrap().success());
    format!("{}:{}", p(&bin), std::env::var("PATH").unwrap())
}

/// After the first crash the filesystem is not mounted again: the trial is void, and the next one has a new filesystem.
fn crashed() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let count = sandbox.scratch.join("count");
    // The first time is when it is built.
    let script = format!(
        "case \"$*\" in *ext4*) echo >> {0}; test $(wc -l < {0}) = 2 && {{ echo 'mount: not now' >&2; exit 32; }};; esac\n",
        p(&count)
    );
    let path = fake(&sandbox, "mount", &script);
    let text = format!(
        "on_error = 'continue'\n[[workload]]\n{WRITER}[setup]\ndevices = ['loop:64M']\nfilesystem = 'ext4'\n\
         [design]\nblocks = 2\nsentinel = false\n[[objective]]\nmetric = 'recovery'\n"
    );
    let file = plan(&sandbox, "crash", &text);
    let done = run(|| {
        let mut command = sandbox.command(&["--json", "lab", p(&file)]);
        command.env("PATH", &path);
        command
    });
    assert!(done.code <= 1, "{done:?}");
    let records = done.records();
    let (voids, good) = divided(&records);
    assert_eq!((voids.len(), good), (1, 1), "{voids:?}");
    assert!(voids[0].contains("not now"), "{voids:?}");
    let stack = &records[1]["targets"][0]["stack"]["nodes"][0];
    assert_eq!(stack["mount"]["fs_type"], "ext4", "{stack}");
    assert_same(&before, &machine(&sandbox, &[]), "after the crashes");
}

/// A process that says its number in that file and never ends, in a session of its own.
fn sleeper(pid: &Path) -> String {
    format!("setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 100000' &", p(pid))
}

/// The same without the environment of whoever started it.
fn bare_sleeper(pid: &Path) -> String {
    format!("env -i {}", sleeper(pid))
}

fn lives(pid: &Path) -> bool {
    let number = fs::read_to_string(pid).unwrap();
    Path::new("/proc").join(number.trim()).join("exe").exists()
}

/// What a companion and a measured program have started ends with the trial, in whatever group and environment it is; and after a kill
/// with the next start. What somebody else has started in the same way lives on.
fn leaving() {
    let sandbox = Sandbox::new();
    let pids: Vec<PathBuf> =
        ["beside", "measured"].map(|name| sandbox.scratch.join(name)).into_iter().collect();
    let await_it = |pid: &Path| format!("until test -e {}; do sleep 0.01; done", p(pid));
    let text = format!(
        "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = \"{} {}; {}\"\n[factors]\n\
         companion = [\"{beside} sleep 100000\", \"{beside} exec sleep 100000\"]\n[design]\nblocks = 1\nsentinel = false\n\
         [[objective]]\nmetric = 'application'\n",
        sleeper(&pids[1]),
        await_it(&pids[0]),
        await_it(&pids[1]),
        beside = bare_sleeper(&pids[0]),
    );
    let done = lab(&sandbox, &plan(&sandbox, "leaving", &text), &[]);
    assert_eq!(trials_of(&done.records()).len(), 2);
    assert!(pids.iter().all(|pid| !lives(pid)), "it ended with its trial");
    // Killed in the middle.
    let pid = sandbox.scratch.join("killed");
    let text = format!(
        "target = 'null:'\n[[workload]]\nuse = 'randread'\nduration = '60s'\nwarmup = '0s'\nsize = '4M'\n[factors]\n\
         companion = [\"{beside} sleep 100000\", \"{beside} exec sleep 100000\"]\n[design]\nblocks = 1\n",
        beside = bare_sleeper(&pid),
    );
    let stranger = sandbox.scratch.join("stranger");
    let script = bare_sleeper(&stranger);
    assert!(tool("sh").args(["-c", &script]).status().unwrap().success());
    wait_until("the stranger runs", || stranger.exists());
    let file = plan(&sandbox, "killed", &text);
    let running = sandbox.start(&["lab", p(&file)], "slot_started", 1);
    wait_until("the companion runs", || pid.exists());
    running.signal("KILL");
    running.finish();
    assert!(lives(&pid), "nobody has ended it yet");
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    assert!(!lives(&pid), "it is gone");
    assert!(lives(&stranger), "it is not fathom's");
    let number = fs::read_to_string(&stranger).unwrap();
    assert!(tool("kill").arg(number.trim()).status().unwrap().success());
}

/// Two workloads side by side, one on a filesystem of its own: the settings are made on both devices, and are back on both.
fn every_target() {
    let sandbox = Sandbox::new();
    let (one, other) = (mounted(FsKind::Ext4, &[], ""), mounted(FsKind::Ext4, &[], ""));
    let devices = [one.device(), other.device()];
    let before = machine(&sandbox, &devices);
    let load = "use = 'randread'\nduration = '80ms'\nwarmup = '0s'\nsize = '4M'\n";
    let text = format!(
        "together = true\n[[workload]]\nlabel = 'one'\n{load}[[workload]]\nlabel = 'other'\n{load}target = '{}'\n\
         [factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 1\nsentinel = false\n",
        p(other.dir())
    );
    let file = plan(&sandbox, "both", &text);
    let dry = sandbox.json(&["lab", p(&file), p(one.dir()), "--dry-run"], &[0]);
    let writes = dry.result()["outline"]["cells"][1]["writes"].to_string();
    assert!(devices.iter().all(|device| writes.contains(&device.name())), "{writes}");
    let done = lab(&sandbox, &file, &[p(one.dir())]);
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 2);
    have_settings(&records, 2);
    assert_same(&before, &machine(&sandbox, &devices), "after both");
}

/// Store and target are one filesystem, and the load fills it: settings are put back, whether or not that filesystem can keep room for the
/// journal; and what could not be noted is, when there is room again.
fn full_journal() {
    for (can_reserve, features) in [(true, "extents"), (false, "^extents,^64bit")] {
        let device = LoopDevice::new(64 << 20).unwrap();
        let mkfs = ["-b", "1024", "-m", "0", "-O", features];
        let fs = MountedFs::with(FsKind::Ext4, device, &mkfs, "").unwrap();
        let sandbox = Sandbox::with_db(fs.dir().join("state/fathom.db"));
        let before = machine(&sandbox, &[fs.device()]);
        let text = "[[workload]]\nlabel = 'fill'\ncommand = 'dd if=/dev/zero of=fill bs=1M; dd if=/dev/zero of=rest bs=1k; exit 1'\n\
                    [knobs]\nblock.scheduler = 'mq-deadline'\nblock.nr_requests = 48\n[design]\nblocks = 2\n[[objective]]\nmetric = 'application'\n";
        let file = plan(&sandbox, "fill", text);
        let done = sandbox.run(&["--json", "lab", p(&file), p(fs.dir())]);
        assert_ne!(done.code, 0, "{done:?}");
        assert!(fs.dir().join("rest").exists(), "{done:?}");
        let mut now = machine(&sandbox, &[fs.device()]);
        let journals = now.insert("journals".into(), before["journals"].clone()).unwrap();
        now.retain(|key, _| before.contains_key(key));
        assert_same(&before, &now, &format!("{features}: {done:?}"));
        assert!(!can_reserve || journals.is_empty(), "there was room for all lines: {journals}");
        for name in ["fill", "rest"] {
            fs::remove_file(fs.dir().join(name)).unwrap();
        }
        let restored = sandbox.run(&["restore"]);
        assert_eq!(restored.code, 0, "{restored:?}");
        let left = &machine(&sandbox, &[fs.device()])["journals"];
        assert_eq!(left, "", "{restored:?}");
    }
}
