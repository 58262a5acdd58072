//! `fathom lab` and `fathom restore`: experiments on loop devices, and the machine as it was before, whatever ends them.

use crate::cli::{Done, Sandbox, names, operations, p, wait_until};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, MountedFs, Trial, kernel_test};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let grid = |kind| [FathomBinary, FsOnLoop(kind)];
    vec![
        kernel_test("lab_grid_ext4", &grid(FsKind::Ext4), || grid_on(FsKind::Ext4)),
        kernel_test("lab_grid_xfs", &grid(FsKind::Xfs), || grid_on(FsKind::Xfs)),
        kernel_test("lab_grid_btrfs", &grid(FsKind::Btrfs), || grid_on(FsKind::Btrfs)),
        kernel_test("lab_setups_are_built_and_taken_down", &ext4, setups),
        kernel_test("lab_dry_run_touches_nothing", &ext4, dry_run),
        kernel_test("lab_edited_plan", &ext4, edited),
        kernel_test("lab_drift_is_named", &ext4, drift),
        kernel_test("lab_foreign_change_is_not_overwritten", &ext4, foreign),
        kernel_test("lab_command_as_load", &ext4, command),
        kernel_test("lab_full_filesystem", &ext4, full),
        kernel_test("lab_device_error", &ext4, device_error),
        kernel_test("lab_mount_that_fails", &ext4, refused_mount),
        kernel_test("lab_panic", &ext4, panics),
        kernel_test("lab_side_by_side", &ext4, side_by_side),
        kernel_test("lab_companions_end", &ext4, companions),
        kernel_test("lab_budget_counts_building_and_earlier_starts", &ext4, budget),
        kernel_test("lab_needs_another_boot", &[FathomBinary], boots),
    ]
}

/// Everything of the machine that an experiment could leave changed: settings of these devices and of memory, loop devices, mounts,
/// swap, journals.
pub fn machine(sandbox: &Sandbox, devices: &[&LoopDevice]) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    for device in devices {
        let queue = Path::new("/sys/block").join(device.name()).join("queue");
        for dir in [queue.clone(), queue.join("iosched")] {
            for name in names(&dir) {
                let file = dir.join(name);
                if let Ok(value) = fs::read_to_string(&file) {
                    state.insert(file.display().to_string(), value);
                }
            }
        }
    }
    // Of this test's own scratch directory: others build and mount at the same time.
    let scratch = p(sandbox.scratch.path()).to_owned();
    let own = |line: &&str| line.contains(&scratch);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    state.insert("mounts".into(), mounts.lines().filter(own).collect());
    for name in names(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("loop")) {
        let file = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        if let Some(file) = file.ok().filter(|file| file.contains(&scratch)) {
            state.insert(name, file);
        }
    }
    let changes = sandbox.db().parent().unwrap().join("changes");
    state.insert("journals".into(), names(&changes).concat());
    for entry in names(sandbox.db().parent().unwrap()) {
        if !entry.starts_with("fathom.db") && !["changes", "owned"].contains(&entry.as_str()) {
            state.insert(format!("state/{entry}"), String::new());
        }
    }
    state
}

#[track_caller]
pub fn assert_same(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    what: &str,
) {
    let keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    let differ: Vec<String> = keys
        .into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("{key}: {:?} -> {:?}", before.get(key), after.get(key)))
        .collect();
    assert!(differ.is_empty(), "{what}: {differ:#?}");
}

/// A plan file: short trials, nothing that others on the machine would feel.
pub fn plan(sandbox: &Sandbox, name: &str, text: &str) -> PathBuf {
    let file = sandbox.scratch.join(format!("{name}.toml"));
    let calm = "[prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\n";
    let calm = if text.contains("[prepare]") { "" } else { calm };
    let metric =
        if text.contains("[[objective]]") { "" } else { "[[objective]]\nmetric = 'iops'\n" };
    fs::write(&file, format!("question = 'Which is faster?'\n{text}\n{calm}{metric}")).unwrap();
    file
}

const READ: &str =
    "[[workload]]\nuse = 'randread'\nduration = '80ms'\nwarmup = '0s'\nsize = '4M'\n";

/// Runs a plan; the codes that short trials may end with.
#[track_caller]
pub fn lab(sandbox: &Sandbox, file: &Path, more: &[&str]) -> Done {
    sandbox.json(&[&["lab", p(file)], more].concat(), &[0, 1])
}

/// Block, cell, place of sentinels, workload of every trial that counts.
pub fn trials_of(records: &[Value]) -> Vec<(u64, u64, Option<u64>, String)> {
    let one = |record: &Value| {
        let (cell, slot) = (&record["cell"], &record["cell"]["slot"]);
        assert!(cell["void"].is_null(), "{}", cell["void"]);
        let place = slot["is_sentinel"].as_bool().unwrap().then(|| slot["place"].as_u64().unwrap());
        let workload = cell["workload"].as_str().unwrap().to_owned();
        (slot["block"].as_u64().unwrap(), slot["cell"].as_u64().unwrap(), place, workload)
    };
    let mut all: Vec<_> = records.iter().map(one).collect();
    all.sort();
    all
}

/// Scheduler x queue size x read-ahead: what each trial read back is what was asked, and afterwards all is as before.
fn grid_on(kind: FsKind) {
    let sandbox = Sandbox::new();
    let fs = mounted(kind, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let factors = "[factors]\nblock.scheduler = ['none', 'mq-deadline']\nblock.nr_requests = [32, 64]\nblock.read_ahead_kb = [0, 256]\n";
    // Here caches are dropped, as they are by default.
    let text =
        format!("{READ}{factors}[design]\nblocks = 1\n[prepare]\nsettle = '10ms'\nquiet = '0s'\n");
    let file = plan(&sandbox, "grid", &text);
    let done = lab(&sandbox, &file, &[p(fs.dir())]);
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after the grid");
    let records = done.records();
    let all = trials_of(&records);
    let of_cells = all.iter().filter(|(_, _, sentinel, _)| sentinel.is_none());
    let cells: Vec<u64> = of_cells.map(|(_, cell, ..)| *cell).collect();
    assert_eq!(cells, (0..8).collect::<Vec<u64>>(), "each cell once");
    for record in &records {
        let levels = record["cell"]["levels"].as_array().unwrap();
        let level = |name: &str| {
            let found = levels.iter().find(|pair| pair[0] == name).unwrap();
            found[1].as_str().unwrap().to_owned()
        };
        let readings = record["cell"]["knobs"].as_array().unwrap();
        assert!(readings.len() >= 3, "{readings:?}");
        for (knob, name) in [("block.scheduler", "scheduler"), ("block.nr_requests", "nr_requests")]
        {
            let own: Vec<&Value> =
                readings.iter().filter(|reading| reading["knob"] == knob).collect();
            assert!(!own.is_empty(), "{knob}");
            for reading in own {
                assert_eq!(reading["before"].as_str(), Some(level(name).as_str()), "{reading}");
                assert_eq!(reading["before"], reading["after"]);
            }
        }
    }
    // A slow disk may not end one request in a single one of these short trials.
    assert!(records.iter().map(operations).sum::<u64>() > 0);
    let result = done.result();
    assert_eq!(result["ended"], "complete");
    let around = result["around"].as_array().unwrap();
    let settings = around.iter().find(|line| line["what"] == "settings of the queues").unwrap();
    assert_eq!(settings["is_same"], true, "{settings}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// A filesystem as a factor, on a loop device that the setup makes.
const SETUP: &str = "[setup]\ndevices = ['loop:320MiB']\n[setup.filesystem]\n[factors]\nfilesystem.type = ['ext4', 'xfs']\n";

fn setups() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let text = format!("{READ}{SETUP}block.nr_requests = [32, 64]\n[design]\nblocks = 1\n");
    let file = plan(&sandbox, "setup", &text);
    let done = lab(&sandbox, &file, &[]);
    assert_eq!(trials_of(&done.records()).len(), 4);
    for record in done.records() {
        let facts = record["cell"]["setup"].as_array().unwrap();
        let made = facts.iter().any(|line| line.as_str().unwrap().contains("mkfs."));
        assert!(made, "the commands are in the record: {facts:?}");
        let levels = record["cell"]["levels"].as_array().unwrap();
        let asked = levels[0][1].as_str().unwrap();
        let stack = record["targets"][0]["stack"]["nodes"].as_array().unwrap();
        let found = stack.iter().any(|node| node["mount"]["fs_type"] == asked);
        assert!(found, "measured on {asked}: {stack:?}");
    }
    assert_same(&before, &machine(&sandbox, &[]), "after the setups");
}

fn dry_run() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = (machine(&sandbox, &[fs.device()]), names(fs.dir()));
    let factors = "[factors]\nblock.nr_requests = [32, 64]\n";
    let file = plan(&sandbox, "dry", &format!("{READ}{factors}[design]\nblocks = 3\n"));
    let done = sandbox.json(&["lab", p(&file), p(fs.dir()), "--dry-run"], &[0]);
    let outline = &done.result()["outline"];
    assert_eq!(outline["trials"].as_u64(), Some(6), "{outline}");
    let writes = outline["cells"][1]["writes"].as_array().unwrap();
    assert_eq!(writes[0]["knob"], "block.nr_requests");
    assert_eq!((writes[0]["old"].as_str(), writes[0]["new"].as_str()), (Some("128"), Some("64")));
    assert_eq!(before, (machine(&sandbox, &[fs.device()]), names(fs.dir())));
    assert!(!sandbox.db().exists(), "not even a store");
    // Control groups that this machine does not have for I/O.
    let weighted = format!("{READ}cgroup_weight = 100\n[design]\nblocks = 1\n");
    let weighted = plan(&sandbox, "weighted", &weighted);
    let args = ["lab", p(&weighted), p(fs.dir()), "--new"];
    let (dry, run) = (sandbox.run(&[&args[..], &["--dry-run"]].concat()), sandbox.run(&args));
    assert_eq!(dry.code == 4, run.code == 4, "{dry:?} {run:?}");
    // What would be refused is refused by a dry run too, with everything else that it says: direct I/O in memory is fine, but
    // no device has the setting there.
    let file =
        plan(&sandbox, "none", &format!("target = 'null:'\n{READ}{factors}[design]\nblocks = 1\n"));
    let done = sandbox.run(&["lab", p(&file), "--dry-run"]);
    assert_ne!(done.code, 0, "{done:?}");
    assert!(
        done.stdout.contains("REFUSED") && done.stdout.contains("block.nr_requests"),
        "{done:?}"
    );
}

/// Killed after the first trials, at a place that is passed between two of them.
#[track_caller]
fn killed_after_a_trial(sandbox: &Sandbox, args: &[&str]) {
    let list = sandbox.scratch.join("points");
    let done = crate::cli::run(|| {
        let mut command = sandbox.command(args);
        command.env("FATHOM_FAULT", format!("list:{}", list.display()));
        let _ = fs::remove_file(&list);
        command
    });
    assert!(done.code <= 1, "{done:?}");
    let points = fs::read_to_string(&list).unwrap();
    let stored = points.lines().filter(|line| line.contains("after a record was stored")).nth(1);
    let number: u32 = stored.unwrap().split(' ').next().unwrap().parse().unwrap();
    let killed = crate::cli::run(|| {
        let mut command = sandbox.command(&[args, &["--new"]].concat());
        command.env("FATHOM_FAULT", format!("kill:{number}"));
        command
    });
    assert_eq!(killed.code, 128 + 9, "{killed:?}");
}

/// The text, the record and the page have the same verdict, and say why.
#[track_caller]
fn says_unfinished(sandbox: &Sandbox, run: &str) {
    const SAID: &str = "only 2 trials are stored";
    let text = sandbox.run(&["show", run]);
    assert!(text.stdout.contains(SAID) && text.stdout.contains("DOUBTFUL"), "{text:?}");
    let shown = sandbox.json(&["show", run], &[0]).result();
    let page = sandbox.scratch.join("killed.html");
    let drawn = sandbox.json(&["report", run, "--output", p(&page)], &[0]).result();
    let verdicts = [&shown["verdict"], &shown["experiment"]["verdict"], &drawn["verdict"]];
    assert_eq!(verdicts.map(|verdict| verdict.as_str()), [Some("doubtful"); 3], "{shown}");
    assert!(fs::read_to_string(&page).unwrap().contains(SAID), "the page does not say it");
}

fn edited() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let text = |blocks: u32| {
        format!(
            "{READ}[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = {blocks}\nseed = 7\n"
        )
    };
    let file = plan(&sandbox, "edit", &text(2));
    let args = ["lab", p(&file), p(fs.dir())];
    killed_after_a_trial(&sandbox, &args);
    let unfinished = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    says_unfinished(&sandbox, &unfinished);
    let goes_on = sandbox.run(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(goes_on.code, 0, "{goes_on:?}");
    assert!(goes_on.stdout.contains("goes on with run"), "{goes_on:?}");
    plan(&sandbox, "edit", &text(3));
    let foretold = sandbox.run(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(foretold.code, 2, "{foretold:?}");
    assert!(foretold.stdout.contains("design.blocks: 2 -> 3"), "{foretold:?}");
    let refused = sandbox.run(&args);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("design.blocks: 2 -> 3") && refused.stderr.contains("--new"),
        "{refused:?}"
    );
    // Also by the refused start: what the killed one left is back.
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after the refusal");
    let anew = lab(&sandbox, &file, &[p(fs.dir()), "--new"]);
    assert_eq!(trials_of(&anew.records()).len(), 6);
    // As it was, it goes on, by its name.
    plan(&sandbox, "edit", &text(2));
    let done = lab(&sandbox, &file, &[p(fs.dir()), "--resume", &unfinished]);
    assert_eq!(done.id(), unfinished);
    assert_eq!(trials_of(&done.records()).len(), 4, "the two that were there, and two more");
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "at the end");
}

fn queue(device: &LoopDevice, name: &str) -> PathBuf {
    Path::new("/sys/block").join(device.name()).join("queue").join(name)
}

/// How many reads a device has had.
fn reads(device: &str) -> u64 {
    let counters = fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
    counters.split_whitespace().next().unwrap().parse().unwrap()
}

/// A thread sets the read-ahead while a cell is measured that is known by a setting, to one value after the other.
fn meddled(
    sandbox: &Sandbox,
    fs: &MountedFs,
    text: &str,
    (name, value): (&str, &'static str),
    theirs: Vec<&'static str>,
) -> Done {
    let file = plan(sandbox, "drift", &format!("{READ}{text}").replace("80ms", "800ms"));
    let over = Arc::new(AtomicBool::new(false));
    let meddler = thread::spawn({
        let (over, mark) = (over.clone(), queue(fs.device(), name));
        let (ahead, device) = (queue(fs.device(), "read_ahead_kb"), fs.device().name());
        move || {
            for theirs in theirs {
                // Only what the experiment has set: not what it puts back at the end.
                while fs::read_to_string(&mark).unwrap().trim() != value {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
                // It is read back before anything is measured, which may take a while where others take the processors.
                let before = reads(&device);
                while reads(&device) < before + 10 {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
                fs::write(&ahead, theirs).unwrap();
            }
        }
    });
    let done = sandbox.run(&["--json", "lab", p(&file), p(fs.dir()), "--new"]);
    over.store(true, Ordering::Relaxed);
    meddler.join().unwrap();
    // Somebody else's value stays, and that is said.
    assert!(done.stderr.contains("somebody else has changed it"), "{done:?}");
    let now = fs::read_to_string(queue(fs.device(), "read_ahead_kb")).unwrap();
    assert_eq!((done.code, now.trim()), (1, "512"), "{done:?}");
    done
}

/// The trials are void and name it. The next ones have settings of their own, and what was set meanwhile is there again after them, until it
/// happens again and again.
fn drift() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let ahead = fs::read_to_string(queue(fs.device(), "read_ahead_kb")).unwrap();
    let is_drift = |record: &Value| {
        let void = record["cell"]["void"].as_str()?;
        Some(void.contains("block.read_ahead_kb") && void.contains("was set to 256 and is 512"))
    };
    let forced = || {
        let forced = sandbox.run(&["restore", "--force"]);
        assert_eq!(forced.code, 0, "{forced:?}");
        assert_same(&before, &machine(&sandbox, &[fs.device()]), "after restore --force");
    };
    let once = "[factors]\nblock.read_ahead_kb = [64, 256]\n[design]\nblocks = 3\n";
    let own = ("read_ahead_kb", "256");
    let done = meddled(&sandbox, &fs, once, own, vec!["512"]);
    let records = done.records();
    let void: Vec<bool> = records.iter().filter_map(is_drift).collect();
    assert_eq!((records.len(), void), (6, vec![true]), "{done:?}");
    assert_eq!(done.result()["ended"], "complete");
    forced();
    let always = "[knobs]\nblock.read_ahead_kb = 256\n[design]\nblocks = 9\n";
    let done = meddled(&sandbox, &fs, always, own, vec!["512"; 99]);
    let void: Vec<Option<bool>> = done.records().iter().map(is_drift).collect();
    assert_eq!(void, [Some(true); 3], "{done:?}");
    forced();
    // However often it happens, one value was before: that one is written by force, and when they put it back, nothing is left.
    for is_forced in [true, false] {
        meddled(&sandbox, &fs, once, own, vec!["768", "512"]);
        let pending = sandbox.json(&["restore", "--list"], &[0]).result()["pending"].clone();
        assert_eq!(pending.as_array().map(Vec::len), Some(1), "{pending}");
        if !is_forced {
            fs::write(queue(fs.device(), "read_ahead_kb"), &ahead).unwrap();
            let back = sandbox.run(&["restore"]);
            assert_eq!(back.code, 0, "{back:?}");
        }
        forced();
    }
    // Where a level is what was there before, nothing of fathom's is changed meanwhile: theirs stays, and is told all the same.
    let (file, flag) = (queue(fs.device(), "read_ahead_kb"), sandbox.scratch.join("flag"));
    let was = ahead.trim();
    let command = format!(
        "[ $(cat {file}) != {was} ] || [ -e {flag} ] || {{ : > {flag}; echo 512 > {file}; }}",
        file = p(&file),
        flag = p(&flag)
    );
    let text = format!(
        "[[workload]]\nlabel = 'app'\ncommand = '{command}'\n[factors]\nblock.read_ahead_kb = [{was}, 64]\n[design]\nblocks = 3\n"
    );
    let like_before = plan(&sandbox, "like-before", &text);
    let done = sandbox.run(&["lab", p(&like_before), p(fs.dir()), "--new"]);
    let told = format!("it is 512, before the experiment it was {was}");
    assert!(done.code == 1 && done.stdout.contains(&told), "{done:?}");
    assert!(!done.stdout.contains("Everything that was changed is back"), "{done:?}");
    fs::write(&file, was).unwrap();
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "written back");
    // Cells that do not set it would be measured with theirs; the one in which it happens was, in part.
    let other = "[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 3\n";
    let done = meddled(&sandbox, &fs, other, ("nr_requests", "32"), vec!["512"]);
    let records = done.records();
    let void: Vec<&str> = records.iter().filter_map(|r| r["cell"]["void"].as_str()).collect();
    let is_named = |void: &&str| void.contains("does not set: it is 512 now");
    assert!(void.len() == 3 && void[1..].iter().all(is_named), "{done:?}");
    let device = fs.device().name();
    let meanwhile = format!("does not set: block.read_ahead_kb of {device} was {was} and is 512");
    assert!(void[0].ends_with(&meanwhile), "{done:?}");
    forced();
}

/// Killed with settings made; before anybody puts them back, somebody sets one of them.
fn foreign() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let text = format!(
        "{READ}[knobs]\nblock.read_ahead_kb = 256\nblock.nr_requests = 48\n[design]\nblocks = 2\n"
    );
    let file = plan(&sandbox, "foreign", &text);
    killed_after_a_trial(&sandbox, &["lab", p(&file), p(fs.dir())]);
    let listed = sandbox.run(&["restore", "--list"]);
    assert!(
        listed.stdout.contains("settings of") && listed.stdout.contains("left behind"),
        "{listed:?}"
    );
    assert!(listed.stdout.contains("    block.nr_requests: 48 now, before "), "{listed:?}");
    let dry = sandbox.run(&["lab", p(&file), p(fs.dir()), "--new", "--dry-run"]);
    assert!(dry.stdout.contains("killed run left changed is put back first"), "{dry:?}");
    let pending = sandbox.json(&["restore", "--list"], &[0]).result()["pending"].clone();
    let settings = pending[0]["settings"].as_array().unwrap();
    let ahead = settings.iter().find(|s| s["knob"] == "block.read_ahead_kb").unwrap();
    let was = before[p(&queue(fs.device(), "read_ahead_kb"))].trim();
    assert_eq!((ahead["now"].as_str(), ahead["before"].as_str()), (Some("256"), Some(was)));
    let doctor = sandbox.run(&["doctor"]);
    assert!(doctor.stdout.contains("fathom restore"), "{doctor:?}");
    fs::write(queue(fs.device(), "nr_requests"), "77").unwrap();
    let restored = sandbox.run(&["restore"]);
    assert_eq!(restored.code, 3, "{restored:?}");
    assert!(
        restored.stdout.contains("is 77 now")
            && restored.stdout.contains("its other settings are back")
            && restored.stdout.contains("--force"),
        "{restored:?}"
    );
    let again = sandbox.json(&["restore"], &[3]).result()["changes"].clone();
    assert_eq!(again[0]["outcome"], "changed_by_somebody", "{again}");
    assert_eq!(fs::read_to_string(queue(fs.device(), "nr_requests")).unwrap().trim(), "77");
    let ahead = queue(fs.device(), "read_ahead_kb");
    let now = fs::read_to_string(&ahead).unwrap();
    assert_eq!(Some(&now), before.get(p(&ahead)), "the rest is back");
    let forced = sandbox.run(&["restore", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after restore --force");
    assert!(sandbox.run(&["restore"]).stdout.contains("Nothing was left changed"));
}

fn command() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let app = "[[workload]]\nlabel = 'app'\ncommand = 'dd if=/dev/zero of=f bs=1M count=8 conv=fsync; rm f; echo score: 41.5 points; echo \"{\\\"p\\\":[1,2.25]}\"'\nfigure.score = 'score: {} points'\nfigure.p = 'json:p[1]'\n";
    let text = format!(
        "{app}[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 1\n[[objective]]\nmetric = 'application'\nfigure = 'score'\n"
    );
    let file = plan(&sandbox, "app", &text);
    let done = lab(&sandbox, &file, &[p(fs.dir())]);
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 2);
    for record in &records {
        let cell = &record["cell"];
        assert_eq!(cell["application"]["score"].as_f64(), Some(41.5), "{cell}");
        assert_eq!(cell["application"]["p"].as_f64(), Some(2.25), "{cell}");
        assert!(cell["output"].as_str().unwrap().contains("8+0 records out"), "{cell}");
        let devices = record["devices"].as_array().unwrap();
        let own = devices.iter().find(|d| d["name"] == fs.device().name().as_str()).unwrap();
        assert!(own["written_bytes"].as_u64().unwrap() >= 8 << 20, "{own}");
    }
    // One that fails, one that takes too long, and one that does not print its figure.
    for (more, words) in [
        ("exit 3'", "exit status 3"),
        ("sleep 1000'", "did not end within"),
        ("echo {}'\nfigure.tps = 'json:tps'", "no 'tps' in an empty object"),
    ] {
        let text = format!(
            "[[workload]]\nlabel = 'app'\ncommand = '{more}\ntimeout = '500ms'\n[design]\nblocks = 1\n[[objective]]\nmetric = 'application'\n"
        );
        let file = plan(&sandbox, "bad", &text);
        let done = sandbox.run(&["--json", "lab", p(&file), p(fs.dir()), "--new"]);
        assert_eq!(done.code, 5, "{done:?}");
        let void = done.records()[0]["cell"]["void"].as_str().unwrap().to_owned();
        assert!(void.contains(words), "{void}");
        assert!(names(Path::new(&sandbox.db().parent().unwrap().join("changes"))).is_empty());
    }
}

/// The filesystem is full while a trial writes: void with the cause; by default that ends it, and all is as before.
fn full() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let fill = "[[workload]]\nlabel = 'fill'\ncommand = 'dd if=/dev/zero of=fill bs=1M; s=$?; rm -f fill; exit $s'\n";
    let text = format!(
        "{fill}[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext4'\n[factors]\nblock.nr_requests = [32, 64]\n\
         [design]\nblocks = 1\n[[objective]]\nmetric = 'application'\n"
    );
    let file = plan(&sandbox, "full", &text);
    let done = sandbox.run(&["--json", "lab", p(&file)]);
    assert_eq!(done.code, 5, "{done:?}");
    let records = done.records();
    assert_eq!(records.len(), 1, "it ends with the first");
    let output = records[0]["cell"]["output"].as_str().unwrap();
    assert!(output.contains("No space left"), "{output}");
    assert_same(&before, &machine(&sandbox, &[]), "after the full filesystem");
    // Asked to go on, it does.
    let file = plan(&sandbox, "on", &format!("on_error = 'continue'\n{text}"));
    let done = sandbox.run(&["--json", "lab", p(&file)]);
    assert_eq!((done.code, done.records().len()), (1, 2), "{done:?}");
}

/// The file below the device is cut off while it is measured: the device fails for real.
fn device_error() {
    let sandbox = Sandbox::new();
    let fs: MountedFs = mounted(FsKind::Ext4, &[], "");
    let text = format!("{READ}[knobs]\nblock.nr_requests = 48\n[design]\nblocks = 2\n")
        .replace("80ms", "20s");
    let file = plan(&sandbox, "broken", &text);
    let running = sandbox.start(&["lab", p(&file), p(fs.dir())], "progress", 1);
    let backing = fs.device().backing().to_owned();
    let size = fs::metadata(&backing).unwrap().len();
    let cut = fs::OpenOptions::new().write(true).open(&backing).unwrap();
    cut.set_len(0).unwrap();
    let done = running.finish();
    cut.set_len(size).unwrap();
    assert_eq!(done.code, 5, "{done:?}");
    let records = done.records();
    let void = records.last().unwrap()["cell"]["void"].as_str().unwrap().to_owned();
    assert!(void.contains("read") || void.contains("gone"), "{void}");
    let now = fs::read_to_string(queue(fs.device(), "nr_requests")).unwrap();
    assert_eq!(now.trim(), "128", "the setting is back");
}

/// A tool refuses in the middle: mount does not mount one of two filesystems. The trial is void with what it said, what was built for it
/// is gone, and the experiment ends or goes on, as asked.
fn refused_mount() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let bin = sandbox.scratch.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let fake = bin.join("mount");
    let script = "#!/bin/sh\ncase \"$*\" in *ext2*) echo 'mount: not this one' >&2; exit 32;; esac\n\
        PATH=${PATH#*:} exec mount \"$@\"\n";
    fs::write(&fake, script).unwrap();
    assert!(tool("chmod").arg("755").arg(&fake).status().unwrap().success());
    let path = format!("{}:{}", p(&bin), std::env::var("PATH").unwrap());
    let text = format!(
        "{READ}[setup]\ndevices = ['loop:32MiB']\n[factors]\nfilesystem.type = ['ext4', 'ext2']\n[design]\nblocks = 2\nsentinel = false\n"
    );
    let measured = |name: &str, on_error: &str| {
        let file = plan(&sandbox, name, &format!("{on_error}{text}"));
        let done = crate::cli::run(|| {
            let mut command = sandbox.command(&["--json", "lab", p(&file), "--seed=1"]);
            command.env("PATH", &path);
            command
        });
        assert_same(&before, &machine(&sandbox, &[]), name);
        let records = done.records();
        let void = |record: &Value| record["cell"]["void"].as_str().map(str::to_owned);
        let voids: Vec<String> = records.iter().filter_map(void).collect();
        assert!(
            !voids.is_empty() && voids.iter().all(|why| why.contains("not this one")),
            "{voids:?}"
        );
        (done.code, voids.len(), records.len() - voids.len())
    };
    let (code, voids, _) = measured("stop", "");
    assert_eq!((code, voids), (5, 1));
    assert_eq!(measured("continue", "on_error = 'continue'\n"), (1, 2, 2));
}

/// A panic in the middle (an injected one) puts everything back on its way out.
fn panics() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let before = machine(&sandbox, &[fs.device()]);
    let text = format!("{READ}[knobs]\nblock.nr_requests = 48\n[design]\nblocks = 2\n");
    let file = plan(&sandbox, "panic", &text);
    let list = sandbox.scratch.join("points");
    let run = |fault: &str| {
        crate::cli::run(|| {
            let mut command = sandbox.command(&["lab", p(&file), p(fs.dir()), "--new"]);
            command.env("FATHOM_FAULT", fault);
            command
        })
    };
    assert!(run(&format!("list:{}", list.display())).code <= 1);
    let points = fs::read_to_string(&list).unwrap();
    let number = points.lines().find(|line| line.contains("after a measurement")).unwrap();
    let number = number.split(' ').next().unwrap();
    let done = run(&format!("panic:{number}"));
    assert!(done.stderr.contains("a test asked for a panic"), "{done:?}");
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after a panic");
    sandbox.nothing_left(&[fs.dir()]);
}

fn side_by_side() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let jobs = "together = true\n[[workload]]\nlabel = 'urgent'\nuse = 'randread'\nduration = '80ms'\nwarmup = '0s'\nsize = '4M'\nio_priority = 'be/0'\n\
                [[workload]]\nlabel = 'idle'\nuse = 'randwrite'\nduration = '80ms'\nwarmup = '0s'\nsize = '4M'\nio_priority = 'be/7'\n";
    let file = plan(&sandbox, "both", &format!("{jobs}[design]\nblocks = 2\n"));
    let done = lab(&sandbox, &file, &[p(fs.dir())]);
    let records = done.records();
    assert_eq!(records.len(), 2, "one record for both");
    for record in &records {
        let jobs: Vec<&str> = record["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["name"].as_str().unwrap())
            .collect();
        assert_eq!(jobs.len(), 2, "{jobs:?}");
        assert!(jobs.contains(&"urgent") && jobs.contains(&"idle"), "{jobs:?}");
    }
}

fn companions() {
    let sandbox = Sandbox::new();
    // Its own file tells that it ran, and ends with it.
    let (begun, ended) = (sandbox.scratch.join("begun"), sandbox.scratch.join("ended"));
    let script = format!(
        "touch {}; trap 'touch {}; exit' TERM; while :; do sleep 0.01; done",
        p(&begun),
        p(&ended)
    );
    let text = format!(
        "target = 'null:'\n{READ}[factors]\ncompanion = ['none', 'cpu', \"{script}\"]\n[design]\nblocks = 1\n"
    );
    let file = plan(&sandbox, "beside", &text);
    let done = lab(&sandbox, &file, &[]);
    assert_eq!(trials_of(&done.records()).len(), 3);
    assert!(begun.exists());
    wait_until("the companion has ended", || ended.exists());
    // Killed in the middle: the kernel ends the companion, and the next start what it had started.
    let pid = sandbox.scratch.join("pid");
    let text = text
        .replace(&script, &format!("sleep 100000 & echo $! > {}; wait", p(&pid)))
        .replace("80ms", "20s");
    let file = plan(&sandbox, "killed", &text);
    let running = sandbox.start(&["lab", p(&file)], "slot_started", 1);
    wait_until("the companion runs, or its cell had its turn", || pid.exists());
    running.signal("KILL");
    running.finish();
    let number = fs::read_to_string(&pid).unwrap();
    let process = Path::new("/proc").join(number.trim());
    assert!(process.join("exe").exists(), "nobody has ended it yet");
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    wait_until("it is gone", || !process.join("exe").exists());
}

/// What building writes counts where only the experiment writes, and the time of earlier starts: no trial begins when a budget is used up.
fn budget() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 << 20).unwrap();
    let setup = format!(
        "[setup]\ndevices = ['{}']\nfilesystem.type = 'ext4'\nfilesystem.fill = '50%'\n",
        p(device.path())
    );
    let failing = "[[workload]]\nlabel = 'fails'\ncommand = 'exit 3'\n";
    let application = "[[objective]]\nmetric = 'application'\n";
    let text = format!(
        "on_error = 'continue'\n{failing}{setup}[budget]\nwritten = '48M'\n[design]\nblocks = 6\n{application}"
    );
    let file = plan(&sandbox, "wear", &text);
    let flag = format!("--destroy={}", device.backing().display());
    let dry = sandbox.json(&["lab", p(&file), "--dry-run", &flag], &[0]);
    let planned = dry.result()["outline"]["written_bytes"].as_u64().unwrap();
    assert!((30 << 20..=48 << 20).contains(&planned), "filling is planned: {planned}");
    // Each failure makes the next trial build anew, which no plan knows.
    let done = lab(&sandbox, &file, &[&flag]);
    assert_eq!(done.result()["ended"], "budget", "{done:?}");
    assert!((1..4).contains(&done.records().len()), "{}", done.records().len());
    let command = "[[workload]]\nlabel = 'waits'\ncommand = 'sleep 1.5'\n";
    let text = format!(
        "target = '{}'\n{command}[factors]\nnull = ['a', 'b', 'c', 'd']\n[budget]\ntime = '4s'\n[design]\nblocks = 1\nsentinel = false\n{application}",
        p(&sandbox.dir())
    );
    let file = plan(&sandbox, "time", &text);
    let running = sandbox.start(&["lab", p(&file)], "trial_finished", 1);
    running.signal("INT");
    let first = running.finish();
    assert_eq!(first.code, 130, "{first:?}");
    let rest = lab(&sandbox, &file, &[]);
    assert_eq!((rest.id(), &rest.result()["ended"]), (first.id(), &Value::from("budget")));
    assert!(rest.records().len() < 4, "the first start took its share");
}

/// Cells of this boot are measured, for the others fathom says what to boot: block by block, so that boots take turns.
fn boots() {
    let sandbox = Sandbox::new();
    let text = format!(
        "target = 'null:'\n{READ}[factors]\nboot.fathom_never = ['absent', '1']\n[design]\nblocks = 2\n"
    );
    let file = plan(&sandbox, "boot", &text);
    let done = sandbox.run(&["--json", "lab", p(&file)]);
    assert_eq!(done.code, 4, "{done:?}");
    assert_eq!(done.result()["ended"], "boot");
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 1, "what can be measured of the first block is");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable");
    assert_eq!(records[0]["cell"]["boot_id"], boot.trim());
    assert!(done.stderr.contains("fathom_never=1"), "{done:?}");
    let again = sandbox.run(&["--json", "lab", p(&file)]);
    assert_eq!((again.code, again.records().len()), (4, 1), "nothing is measured twice: {again:?}");
    let dry = sandbox.run(&["lab", "--dry-run", p(&file)]);
    assert!(dry.stdout.contains("Needs other boots (3 in all"), "{dry:?}");
}
