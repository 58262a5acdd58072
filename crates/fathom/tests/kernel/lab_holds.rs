//! `fathom lab`: what a trial says that it was measured with is what it was measured with: settings after a start that takes it up, the
//! filesystem that was built, every target's devices, nothing beside it; and all is put back when the journal's disk is full.

use crate::cli::{Sandbox, p, run, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, MountedFs, Trial, kernel_test};
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

/// Where failures end nothing, it is said what does.
fn disturbed() {
    let sandbox = Sandbox::new();
    let text = "target = 'null:'\non_error = 'continue'\n[[workload]]\nlabel = 'app'\ncommand = 'sleep 0.3'\n\
        [factors]\ncompanion = ['true', 'sleep 0.01']\n[design]\nblocks = 6\nsentinel = false\n[[objective]]\nmetric = 'application'\n";
    let done = sandbox.run(&["lab", p(&plan(&sandbox, "disturbed", text))]);
    let told = "ENDED, because none of the last three trials counts; the last: the companion ended before the trial did";
    assert!(done.code == 1 && done.stdout.contains(told), "{done:?}");
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
            && told.contains("instead of noatime"),
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
