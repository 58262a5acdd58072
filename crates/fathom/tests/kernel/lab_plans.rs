//! `fathom lab`: the plans that come with it, designs and expectations end to end. Loads are commands that print known figures, so that
//! the answers are known too; they are nobody's measurements.

use crate::cli::{Done, MIB, Sandbox, names, p, run};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Root, Tool};
use fathom_testkit::{Content, FsKind, LoopDevice, LoopOptions, MountedFs, Trial, kernel_test};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The kernel ends a program for want of memory there, which trials at the same time are void for.
pub fn alone() -> Vec<Trial> {
    vec![kernel_test("lab_memory_limit", &[FathomBinary, Root], memory_limit)]
}

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let remount = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("dumpe2fs"), Tool("findmnt")];
    vec![
        kernel_test("lab_ready_plans_touch_nothing_dry", &ext4, ready_plans),
        kernel_test("lab_ready_plans_ask_for_consent", &[FathomBinary, LoopDevices], consent),
        kernel_test("lab_narrowing_finds_the_optimum", &[FathomBinary], narrowing),
        kernel_test("lab_narrowing_keeps_a_bound", &[FathomBinary], narrowing_below_a_bound),
        kernel_test("lab_narrowing_ends_where_nothing_differs", &[FathomBinary], nothing_differs),
        kernel_test("lab_stages", &[FathomBinary], stages),
        kernel_test("lab_remount", &remount, remounts),
        kernel_test("lab_watches_a_command", &ext4, watches_a_command),
        kernel_test(
            "lab_counts_to_the_end_for_everybody",
            &[ext4[0], ext4[1], Tool("setpriv")],
            counts_to_the_end,
        ),
        kernel_test("lab_memory_floor", &[FathomBinary], memory_floor),
        kernel_test("lab_skip", &[FathomBinary], skip),
        kernel_test("lab_hypothesis", &[FathomBinary], hypothesis),
        kernel_test("lab_null_factor", &[FathomBinary], null_factor),
        kernel_test("lab_stops_when_answered", &[FathomBinary], stops),
        kernel_test("lab_tools_hear_signals", &ext4, tools_hear_signals),
        kernel_test("lab_raw_targets_are_looked_at_first", &ext4, raw_targets),
        kernel_test("lab_files_that_do_not_fit", &ext4, too_large),
        kernel_test(
            "lab_rights_are_asked_for_first",
            &[FathomBinary, Root, Tool("setpriv")],
            rights,
        ),
        kernel_test("lab_read_ahead_of_others", &[ext4[0], FsOnLoop(FsKind::Btrfs)], read_ahead),
    ]
}

/// fathom blocks the signals that it waits for. What a tool or a command of a setting leaves running, such as a daemon, must not have
/// them blocked for ever: nobody could end it.
fn tools_hear_signals() {
    let sandbox = Sandbox::new();
    let [bin, said, value] = ["bin", "said", "value"].map(|name| sandbox.scratch.join(name));
    fs::create_dir(&bin).unwrap();
    fs::write(&value, "a\n").unwrap();
    let look = format!("grep SigBlk /proc/self/status >> {}", p(&said));
    let path = std::env::var("PATH").unwrap();
    let mkfs = bin.join("mkfs.ext2");
    let script = format!("#!/bin/bash\n{look}\nPATH='{path}' exec mkfs.ext2 \"$@\"\n");
    fs::write(&mkfs, script).unwrap();
    assert!(Command::new("chmod").arg("755").arg(&mkfs).status().unwrap().success());
    let text = format!(
        "[[workload]]\nlabel = 'none'\ncommand = 'true'\n[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext2'\n\
         [[own_knob]]\nname = 'x'\nread = 'cat {0}'\nwrite = '{look}; echo {{value}} > {0}'\nvalues = ['a', 'b']\n\
         [knobs]\nown.x = 'b'\n[design]\nblocks = 1\nsentinel = false\n[[objective]]\nmetric = 'application'\n",
        p(&value)
    );
    let file = plan(&sandbox, "signals", &text);
    let done = crate::cli::run(|| {
        let mut command = sandbox.command(&["--json", "--quiet", "lab", p(&file)]);
        command.env("PATH", format!("{}:{path}", p(&bin)));
        command
    });
    assert!(done.code <= 1, "{done:?}");
    assert_eq!(trials_of(&done.records()).len(), 1);
    let said = fs::read_to_string(&said).unwrap();
    // mkfs at least once, the setting there and back.
    assert!(said.lines().count() >= 3, "{said}");
    assert!(said.lines().all(|line| line.ends_with("\t0000000000000000")), "{said}");
}

/// The plans that come with fathom, and what each is given.
fn ready(target: &Path) -> Vec<(&'static str, Vec<String>)> {
    let target = p(target).to_owned();
    let on_target = |name| (name, vec![target.clone()]);
    let devices = |name, count: usize, more: &[&str]| {
        let devices = (0..count).flat_map(|_| ["--device".to_owned(), "loop:64M".to_owned()]);
        (name, devices.chain(more.iter().map(|word| (*word).to_owned())).collect())
    };
    vec![
        on_target("scheduler"),
        on_target("read-ahead"),
        on_target("read-ahead-mixed"),
        on_target("queue"),
        on_target("block-size-threads"),
        on_target("start-end"),
        on_target("io-classes"),
        on_target("io-levels"),
        devices("mount-options", 1, &["size=4M"]),
        devices("filesystem-grid", 1, &["slow=loop:32M", "ram=loop:16M", "tree=4M"]),
        devices("raw-lvm-filesystem", 1, &["size=4M"]),
        devices("chunk", 4, &[]),
        devices("member-order", 4, &[]),
        devices("shared-journal", 3, &["journal=loop:64M", "elsewhere=loop:32M", "size=4M"]),
        ("application", vec![target.clone(), "command=true".into(), "figure=rate: {}".into()]),
        ("in-use", vec![target]),
    ]
}

/// Every one says what it would do, also from the file that `--print` makes, and touches nothing.
fn ready_plans() {
    let sandbox = Sandbox::new();
    // Large enough for the test files that the plans make.
    let device = LoopDevice::with(16 << 30, Content::Sparse, &LoopOptions::default()).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &[], "").unwrap();
    let listed = sandbox.json(&["lab"], &[0]);
    let listed: Vec<String> = listed.result()["plans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plan| plan["name"].as_str().unwrap().to_owned())
        .collect();
    let plans = ready(fs.dir());
    assert_eq!(
        listed,
        plans.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "each has its turn"
    );
    let look = || (machine(&sandbox, &[fs.device()]), names(fs.dir()));
    let before = look();
    // What reads anywhere takes a device as well.
    let disk = LoopDevice::with(256 * MIB, Content::Sparse, &LoopOptions::default()).unwrap();
    let on_disk = ["read-ahead", "block-size-threads", "start-end"];
    let on_disk = on_disk.map(|name| (name, vec![p(disk.path()).to_owned()]));
    for (name, given) in plans.iter().chain(&on_disk) {
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let printed = sandbox.run(&[&["lab", name, "--print"], given.as_slice()].concat());
        assert_eq!(printed.code, 0, "{name}: {printed:?}");
        let file = sandbox.scratch.join(format!("{name}.toml"));
        fs::write(&file, &printed.stdout).unwrap();
        let done =
            sandbox.run(&[&["lab", name, "--dry-run", "--seed=1"], given.as_slice()].concat());
        // Not every kernel has arrays and volumes, and a loop device has no queue of a drive.
        let missing = match *name {
            "queue" => "queue_depth",
            "raw-lvm-filesystem" | "chunk" | "member-order" => "this kernel",
            _ => "",
        };
        let is_refused = done.code == 4 && !missing.is_empty() && done.stdout.contains(missing);
        assert!(done.code == 0 || is_refused, "{name}: {done:?}");
        assert_eq!(done.stdout.contains("REFUSED"), is_refused, "{name}: {done:?}");
        assert_eq!(done.stdout.contains("Nothing is destroyed."), !is_refused, "{name}: {done:?}");
        assert!(done.stdout.contains("Before each trial:"), "{name}: {done:?}");
        let own = sandbox.run(&["lab", p(&file), "--dry-run", "--seed=1"]);
        assert_eq!((own.code, &own.stdout), (done.code, &done.stdout), "{name} from its file");
        let after = look();
        assert_same(&before.0, &after.0, name);
        assert_eq!(before.1, after.1, "{name}: test files");
        assert!(!sandbox.db().exists(), "{name}: not even a store");
    }
}

/// What would be overwritten is named with the word that consents; neither a dry run nor a refusal writes a byte.
fn consent() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 << 20).unwrap();
    let content = || fs::read(device.backing()).unwrap();
    let before = content();
    let args = ["lab", "mount-options", "--device", p(device.path()), "size=4M"];
    let refused = sandbox.run(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(refused.code, 3, "{refused:?}");
    let flag = refused.stdout.split_whitespace().find(|word| word.starts_with("--destroy="));
    let flag = flag.unwrap().to_owned();
    assert!(refused.stdout.contains("DESTROYED") && refused.stdout.contains("needs consent"));
    sandbox.refuses(&args, 3, &[&flag]);
    let allowed = sandbox.run(&[&args[..], &["--dry-run", &flag]].concat());
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert!(allowed.stdout.contains("DESTROYED") && allowed.stdout.contains("consented"));
    assert!(before == content(), "nothing was written");
    // The device outlives what is built on it: settings of its own that do not come back exactly are named.
    let text = format!(
        "[[workload]]\nuse = 'randread'\nduration = '50ms'\nwarmup = '0s'\nsize = '4M'\n[setup]\ndevices = ['{}']\nfilesystem = 'ext4'\n\
         [knobs]\nblock.max_sectors_kb = 128\n[design]\nblocks = 2\n",
        p(device.path())
    );
    let file = plan(&sandbox, "given", &text);
    let said = sandbox.run(&["lab", p(&file), "--dry-run", &flag]);
    assert!(said.stdout.contains("Cannot be put back exactly:"), "{said:?}");
    let done = lab(&sandbox, &file, &[&flag]);
    let around = done.result()["around"].as_array().unwrap().clone();
    let settings = around.iter().find(|line| line["what"] == "settings of the queues");
    assert_eq!(settings.unwrap()["is_same"], true, "{around:?}");
    // Not by a dry run alone: whoever makes none is told before anything is changed.
    let told = sandbox.run(&["lab", p(&file), &flag, "--new"]);
    let words = format!("Cannot be put back exactly: block.max_sectors_kb of {}", device.name());
    assert!(told.code <= 1 && told.stderr.contains(&words), "{told:?}");
}

/// A device as the target of a load that writes: a dry run says what is lost and what is refused, and the real one refuses it before
/// anything is set.
fn raw_targets() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 << 20).unwrap();
    let args = ["lab", "scheduler", p(device.path()), "duration=100ms"];
    let asked = sandbox.run(&[&args[..], &["--dry-run"]].concat());
    assert_eq!(asked.code, 3, "{asked:?}");
    assert!(
        asked.stdout.contains("DESTROYED") && asked.stdout.contains("needs consent"),
        "{asked:?}"
    );
    let flag = asked.stdout.split_whitespace().find(|word| word.starts_with("--destroy="));
    let flag = flag.unwrap().to_owned();
    let points = sandbox.scratch.join("points");
    let refused = crate::cli::run(|| {
        let mut command = sandbox.command(&args);
        command.env("FATHOM_FAULT", format!("list:{}", p(&points)));
        command
    });
    refused.is_refusal(3, &[&flag]);
    let passed = fs::read_to_string(&points).unwrap_or_default();
    assert!(!passed.contains("block.scheduler"), "{passed}");
    let allowed = sandbox.run(&[&args[..], &["--dry-run", &flag]].concat());
    assert_eq!(allowed.code, 0, "{allowed:?}");
    assert!(allowed.stdout.contains("consented"), "{allowed:?}");
    // In use: no consent helps.
    let fs = mounted(FsKind::Ext4, &[], "");
    let used = sandbox.run(&["lab", "scheduler", p(fs.device().path()), "--dry-run"]);
    assert_eq!(used.code, 3, "{used:?}");
    assert!(used.stdout.contains("REFUSED") && used.stdout.contains("is in use"), "{used:?}");
}

/// Test files that no cell, or a later one, has room for: known before anything is made.
fn too_large() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let load = "[[workload]]\nuse = 'randread'\nduration = '50ms'\nwarmup = '0s'\n";
    let setup = "[setup]\ndevices = ['loop:64MiB']\nfilesystem = 'ext4'\n";
    let text = format!(
        "{load}{setup}[factors]\nworkload.size = ['4MiB', '256MiB']\n[design]\nblocks = 2\nsentinel = false\n"
    );
    let file = plan(&sandbox, "grows", &text);
    let dry = sandbox.run(&["lab", p(&file), "--dry-run"]);
    assert_eq!(dry.code, 4, "{dry:?}");
    assert!(dry.stdout.contains("test files of 256 MiB do not fit"), "{dry:?}");
    sandbox.refuses(&["lab", p(&file)], 4, &["test files of 256 MiB do not fit"]);
    assert_same(&before, &machine(&sandbox, &[]), "after what was refused");
    // On what is there already; and what fits counts as written.
    let fs = mounted(FsKind::Ext4, &[], "");
    let of = |size: &str| {
        let text = format!("{load}size = '{size}'\n[design]\nblocks = 2\nsentinel = false\n");
        let file = plan(&sandbox, "there", &text);
        sandbox.json(&["lab", p(&file), p(fs.dir()), "--dry-run"], &[0, 4])
    };
    let large = of("1800MiB");
    assert_eq!(large.code, 4, "{large:?}");
    let small = of("8MiB");
    let outline = &small.result()["outline"];
    assert_eq!(outline["test_file_bytes"], 8 << 20, "{outline}");
    assert_eq!(outline["written_bytes"], 8 << 20, "written once: {outline}");
}

/// What takes root is said by a dry run of an ordinary user.
fn rights() {
    let sandbox = Sandbox::new();
    let binary = crate::cli::binary_for_nobody(&sandbox.scratch);
    let dir = sandbox.scratch.join("theirs");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
    let plan = plan(
        &sandbox,
        "theirs",
        "[[workload]]\nuse = 'randread'\nsize = '4M'\n[prepare]\nsettle = '0s'\n",
    );
    let run = |more: &[&str]| {
        crate::cli::run(|| {
            let mut command = crate::cli::as_nobody(&binary);
            command.arg("--db").arg(dir.join("fathom.db")).args(["lab", p(&plan), p(&dir)]);
            command.args(more);
            command
        })
    };
    let dry = run(&["--dry-run"]);
    assert_eq!(dry.code, 4, "{dry:?}");
    let cure = "run as root, or set drop_caches = false: it takes its rights for 'sync; echo 3";
    assert!(dry.stdout.contains(cure), "{dry:?}");
    run(&[]).is_refusal(4, &["run as root"]);
    // A setting that is so already is not written.
    let text = fs::read_to_string(&plan).unwrap();
    let of = |swappiness: u32| {
        let knobs = format!("[knobs]\nvm.swappiness = {swappiness}\n");
        let prepare = "[prepare]\ndrop_caches = false\n";
        fs::write(&plan, text.replace("[prepare]\n", &format!("{knobs}{prepare}"))).unwrap();
        run(&["--dry-run"])
    };
    let now: u32 = fs::read_to_string("/proc/sys/vm/swappiness").unwrap().trim().parse().unwrap();
    assert_eq!(of(now).code, 0);
    let other = of(now ^ 1);
    assert_eq!(other.code, 4, "{other:?}");
    assert!(other.stdout.contains("run as root: it takes its rights for 'setting vm.swappiness"));
    // Writing a file of its own is no step that takes rights: attaching it is.
    let built = text.replace(
        "[prepare]\n",
        "[setup]\ndevices = ['loop:16MiB']\n[prepare]\ndrop_caches = false\n",
    );
    fs::write(&plan, built.replace("size = '4M'\n", "")).unwrap();
    let built = crate::cli::run(|| {
        let mut command = crate::cli::as_nobody(&binary);
        command.arg("--db").arg(dir.join("fathom.db")).args(["lab", p(&plan), "--dry-run"]);
        command
    });
    assert!(built.code == 4 && built.stdout.contains("of zeros to"), "{built:?}");
    assert!(built.stdout.contains("it takes its rights for 'losetup"), "{built:?}");
    assert!(!names(&dir).iter().any(|name| name.starts_with(".fathom-")), "no test file was made");
}

/// btrfs has a read-ahead of its own, and direct reads use none: neither is varied without a word.
fn read_ahead() {
    let sandbox = Sandbox::new();
    let btrfs = mounted(FsKind::Btrfs, &[], "");
    let ready = sandbox.run(&["lab", "read-ahead", p(btrfs.dir()), "--dry-run", "--seed=1"]);
    assert!(ready.stdout.contains("btrfs.read_ahead_kb of"), "{ready:?}");
    assert!(!ready.stdout.contains("block.read_ahead_kb"), "{ready:?}");
    let of = |direct: &str, dir: &Path| {
        let load = format!(
            "[[workload]]\nuse = 'seqread'\nsize = '4M'\nduration = '50ms'\ndirect = '{direct}'\n"
        );
        let text =
            format!("{load}[factors]\nblock.read_ahead_kb = [0, 128]\n[design]\nblocks = 1\n");
        let done = sandbox.run(&["lab", p(&plan(&sandbox, "ahead", &text)), p(dir), "--dry-run"]);
        assert_eq!(done.code, 0, "{done:?}");
        done.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let told = of("no", btrfs.dir());
    assert!(told.contains("btrfs has a read-ahead of its own and ignores"), "{told}");
    let ext4 = mounted(FsKind::Ext4, &[], "");
    let told = of("yes", ext4.dir());
    assert!(told.contains("direct I/O, which never uses it"), "{told}");
    assert!(!of("no", ext4.dir()).contains("To be known"));
}

/// A plan whose load is a command that prints `score: NUMBER`.
fn scored(sandbox: &Sandbox, name: &str, command: &str, rest: &str) -> PathBuf {
    let load = format!(
        "target = '{}'\n[[workload]]\nlabel = 'app'\ncommand = '''{command}'''\nfigure.score = 'score: {{}}'\n",
        p(&sandbox.dir())
    );
    let objective = "[[objective]]\nmetric = 'application'\n";
    plan(sandbox, name, &format!("{load}{rest}{objective}"))
}

/// The score of each record with the levels of its cell.
fn scores(done: &Done) -> Vec<(Value, f64)> {
    let of = |record: Value| {
        let score = record["cell"]["application"]["score"].as_f64().unwrap();
        (record["cell"]["levels"].clone(), score)
    };
    done.records().into_iter().map(of).collect()
}

/// Levels that are shown to do the same: the given ones are measured, and nothing between them.
fn nothing_differs() {
    let sandbox = Sandbox::new();
    let n = sandbox.scratch.join("n");
    let command = format!(
        "n=$(cat {n} 2>/dev/null || echo 0); echo $((n + 1)) > {n}; echo score: $((1000 + n * 7 % 10)) {{size}}",
        n = p(&n)
    );
    let rest = "[factors]\nworkload.size = [4, 64, 1024]\n[design]\nkind = 'narrowing'\nblocks = 8\nsentinel = false\nsequential = false\n";
    let file = scored(&sandbox, "same", &command, rest);
    let done = lab(&sandbox, &file, &[]);
    let narrowed = &done.result()["experiment"]["narrowed"];
    assert_eq!(narrowed["same"], serde_json::json!(["4", "64", "1024"]), "{narrowed}");
    assert_eq!(trials_of(&done.records()).len(), 24, "{done:?}");
    let shown = sandbox.run(&["show", &done.id()]);
    let told = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("4, 64, 1024 do not differ by 3 %"), "{shown:?}");
}

/// A rate that grows with the queue, as its latency does: the best below the bound is found, not the best.
fn narrowing_below_a_bound() {
    let sandbox = Sandbox::new();
    let n = sandbox.scratch.join("n");
    // The latency wavers by a hundredth, so that it is known to keep the bound at 100 and to break it at 108.
    let command = format!(
        "n=$(cat {n} 2>/dev/null || echo 0); echo $((n + 1)) > {n}; echo score: {{size}}; echo lat: $(({{size}} * (1000 + n % 5)))",
        n = p(&n)
    );
    let rest = "figure.lat = 'lat: {}'\n[factors]\nworkload.size = [16, 64, 256]\n[design]\nkind = 'narrowing'\nblocks = 6\n\
                sentinel = false\nsequential = false\n[[objective]]\nmetric = 'application'\nfigure = 'lat'\nbetter = 'less'\n\
                bound = 104000\n";
    let file = scored(&sandbox, "bound", &command, rest);
    let text = fs::read_to_string(&file).unwrap();
    let (all, rest) = text.rsplit_once("metric = 'application'\n").unwrap();
    fs::write(&file, format!("{all}metric = 'application'\nfigure = 'score'\n{rest}")).unwrap();
    let done = lab(&sandbox, &file, &[]);
    let narrowed = &done.result()["experiment"]["narrowed"];
    let best: u64 = narrowed["best"].as_str().unwrap().parse().unwrap();
    assert!((92..=103).contains(&best), "{narrowed}");
    let out: Vec<u64> = narrowed["out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| level.as_str().unwrap().parse().unwrap())
        .collect();
    assert!(out.contains(&256) && out.iter().all(|level| *level > 103), "{narrowed}");
    let shown = sandbox.run(&["show", &done.id()]);
    assert!(shown.stdout.contains("out by a bound"), "{shown:?}");
}

/// A knob of the plan's own, whose best value is 100: the search comes to it from 4, 64 and 1024, and puts back what was there.
fn narrowing() {
    let sandbox = Sandbox::new();
    let knob = sandbox.scratch.join("knob");
    fs::write(&knob, "4\n").unwrap();
    let legal: Vec<String> = (1..=256).map(|n| (n * 4).to_string()).collect();
    let own = format!(
        "[[own_knob]]\nname = 'window'\nread = 'cat {file}'\nwrite = 'echo {{value}} > {file}'\nvalues = [{}]\n",
        legal.join(", "),
        file = p(&knob)
    );
    let command = format!(
        "v=$(cat {}); d=$((v > 100 ? v - 100 : 100 - v)); echo score: $((1000000 / (100 + d)))",
        p(&knob)
    );
    let rest = format!(
        "{own}[factors]\nown.window = [4, 64, 1024]\n[design]\nkind = 'narrowing'\nblocks = 2\n"
    );
    let file = scored(&sandbox, "narrow", &command, &rest);
    let done = lab(&sandbox, &file, &[]);
    let narrowed = &done.result()["experiment"]["narrowed"];
    let best: u64 = narrowed["best"].as_str().unwrap().parse().unwrap();
    assert!((90..=110).contains(&best), "{narrowed}");
    let levels = narrowed["levels"].as_array().unwrap();
    assert!(
        (6..=20).contains(&levels.len()),
        "three were given, the rest was searched: {narrowed}"
    );
    let trials = trials_of(&done.records());
    // Two blocks for the three that were given, then two for each further one, beside those between which it lies and the baseline.
    let last = trials.iter().map(|(block, ..)| *block).max().unwrap();
    assert_eq!(last + 1, 2 * (levels.len() as u64 - 2), "{narrowed}");
    for block in 0..=last {
        let in_it = trials.iter().filter(|trial| trial.0 == block).map(|trial| trial.1);
        let cells: BTreeSet<u64> = in_it.collect();
        let new = 2 + block / 2;
        let expected =
            if block < 2 { cells == [0, 1, 2].into() } else { (3..=4).contains(&cells.len()) };
        assert!(expected && cells.contains(&0) && cells.contains(&new), "{block}: {cells:?}");
    }
    // What was printed came of the value that the trial was for.
    for (levels, score) in scores(&done) {
        let value: u64 = levels[0][1].as_str().unwrap().parse().unwrap();
        assert_eq!(score, (1_000_000 / (100 + value.abs_diff(100))) as f64, "{levels}");
    }
    assert_eq!(fs::read_to_string(&knob).unwrap(), "4\n", "as it was");
    let shown = sandbox.run(&["show", &done.id()]);
    assert!(shown.stdout.contains(&format!("window is best at {best}")), "{shown:?}");
    // Broken off among the further levels, it goes on to the same end, and nothing is measured twice.
    let again = |fault: &str, more: &[&str]| {
        run(|| {
            let mut command =
                sandbox.command(&[&["--json", "lab", p(&file), "--seed=3"], more].concat());
            command.env("FATHOM_FAULT", fault);
            command
        })
    };
    let list = sandbox.scratch.join("points");
    again(&format!("list:{}", p(&list)), &["--new"]);
    let points = fs::read_to_string(&list).unwrap();
    let all: Vec<usize> = (1..)
        .zip(points.lines())
        .filter_map(|(number, line)| line.ends_with("before a measurement").then_some(number))
        .collect();
    assert_eq!(again(&format!("kill:{}", all[all.len() / 2]), &["--new"]).code, 137);
    let rest = again("", &[]);
    assert!(rest.code <= 1, "{rest:?}");
    assert_eq!(trials_of(&rest.records()), trials, "{rest:?}");
    assert_eq!(rest.result()["experiment"]["narrowed"], *narrowed);
}

/// A setting with a best value and one that does nothing: the next stage gets what is left of both, with what was before; and the best is
/// measured against the baseline again.
fn stages() {
    let sandbox = Sandbox::new();
    let knob = |name: &str, values: &str| {
        let file = sandbox.scratch.join(name);
        let text = format!(
            "[[own_knob]]\nname = '{name}'\nread = 'cat {file}'\nwrite = 'echo {{value}} > {file}'\nvalues = [{values}]\n",
            file = p(&file)
        );
        (file, text)
    };
    let ((speed, fast), (word, words)) = (knob("speed", "1, 2, 3"), knob("word", "'a', 'b'"));
    fs::write(&speed, "1\n").unwrap();
    fs::write(&word, "a\n").unwrap();
    let command = format!("echo score: $(($(cat {}) * 100))", p(&speed));
    let rest = format!(
        "{fast}{words}[factors]\nown.speed = [1, 2, 3]\nown.word = ['a', 'b']\n[design]\nblocks = 8\nsentinel = false\n"
    );
    let first = lab(&sandbox, &scored(&sandbox, "first", &command, &rest), &[]);
    let of = |done: &Done| -> Vec<(String, f64)> {
        let word = |levels: &Value, at: usize| levels[at][1].as_str().unwrap_or("-").to_owned();
        let all = scores(done).into_iter();
        let mut all: Vec<(String, f64)> =
            all.map(|(l, score)| (format!("{} {}", word(&l, 0), word(&l, 1)), score)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.dedup();
        all
    };
    let pairs = |expected: &[(&str, f64)]| -> Vec<(String, f64)> {
        expected.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect()
    };
    // The second plan has settings of its own, which are replaced, and knows nothing of these.
    let second = scored(
        &sandbox,
        "second",
        &command,
        "[factors]\nblock.nr_requests = [32, 64]\n[design]\nblocks = 1\nsentinel = false\n",
    );
    let done = lab(&sandbox, &second, &["--levels-of", &first.id()]);
    let four = [("1 a", 100.0), ("1 b", 100.0), ("3 a", 300.0), ("3 b", 300.0)];
    assert_eq!(of(&done), pairs(&four));
    let again = sandbox.json(&["lab", "--winner-of", &first.id()], &[0, 1]);
    let two = of(&again);
    assert!(two.len() == 2 && two[0] == ("1 a".to_owned(), 100.0), "{two:?}");
    assert!(two[1].0.starts_with("3 ") && two[1].1 == 300.0, "{two:?}");
    assert_eq!(again.records().len(), 2 * 8, "in as many blocks");
    assert_eq!(fs::read_to_string(&speed).unwrap(), "1\n", "as it was");
    sandbox.refuses(&["lab", "--winner-of", "nothing"], 2, &["nothing"]);
    // Without a plan there is nothing that could take them; nor is the option passed over for the list of plans.
    let run = format!("--levels-of={}", first.id());
    let cure =
        "needs a plan, a file or one that comes with fathom: fathom lab PLAN --levels-of=RUN";
    sandbox.refuses(&["lab", &run], 2, &["--levels-of", cure]);
    sandbox.refuses(&["lab", "--dry-run"], 2, &["fathom lab PLAN --dry-run"]);
    let none =
        lab(&sandbox, &scored(&sandbox, "none", "echo score: 1", "[design]\nblocks = 1\n"), &[]);
    sandbox.refuses(&["lab", p(&second), "--levels-of", &none.id()], 2, &["nothing to choose"]);
    sandbox.refuses(&["lab", "--winner-of", &none.id()], 2, &["better than its baseline"]);
}

/// The filesystem counts how often it was mounted: once more before each trial, or not.
fn remounts() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let counts = |is_remounted: bool| -> Vec<f64> {
        let command = "dumpe2fs -h $(findmnt -no SOURCE -T .) 2>/dev/null | sed -n 's/^Mount count: */score: /p'";
        let text = format!(
            "[[workload]]\nlabel = 'app'\ncommand = \"{command}\"\nfigure.score = 'score: {{}}'\n\
             [setup]\ndevices = ['loop:32MiB']\nfilesystem = 'ext4'\n[design]\nblocks = 3\n\
             [prepare]\nsettle = '0s'\nquiet = '0s'\nremount = {is_remounted}\n[[objective]]\nmetric = 'application'\n"
        );
        let file = plan(&sandbox, &format!("remount-{is_remounted}"), &text);
        scores(&lab(&sandbox, &file, &[])).into_iter().map(|(_, score)| score).collect()
    };
    let (anew, kept) = (counts(true), counts(false));
    assert_eq!((anew.len(), kept.len()), (3, 3));
    assert!(anew.windows(2).all(|pair| pair[1] > pair[0]), "mounted anew: {anew:?}");
    assert!(kept.windows(2).all(|pair| pair[1] == pair[0]), "kept: {kept:?}");
    assert_same(&before, &machine(&sandbox, &[]), "after mounting anew");
}

/// What devices and processes do while a command runs is in its record, second by second, with the CPU time of the command.
fn watches_a_command() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let command = "i=0; while [ $i -lt 25 ]; do dd if=/dev/zero of=x bs=64k count=4 oflag=direct 2>/dev/null; sleep 0.1; i=$((i + 1)); \
                   done; while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo score: $i";
    let text = format!(
        "target = '{}'\n[[workload]]\nlabel = 'app'\ncommand = \"{command}\"\nfigure.score = 'score: {{}}'\n\
         [design]\nblocks = 1\n[prepare]\nsettle = '0s'\nquiet = '0s'\n[[objective]]\nmetric = 'application'\n",
        p(fs.dir())
    );
    let done = lab(&sandbox, &plan(&sandbox, "watched", &text), &[]);
    for record in done.records() {
        let (course, cpu) = (&record["watch"], &record["process_cpu"]);
        let device = &course["devices"][0];
        assert!(device["intervals"].as_u64() >= Some(3), "{course}");
        assert!(device["counters"]["writes"].is_string(), "{course}");
        assert!(course["application"]["resident"].is_string(), "{course}");
        // Counting so far takes a processor some tenths of a second; fathom itself looks on.
        let used_ns = cpu["user_ns"].as_u64().unwrap() + cpu["system_ns"].as_u64().unwrap();
        assert!(used_ns > 100_000_000, "{cpu}");
    }
    for what in ["watch", "watch-host"] {
        let csv = sandbox.run(&["export", &format!("--what={what}"), &done.id()]);
        assert!(csv.stdout.lines().count() > 3, "{csv:?}");
    }
    // What it waits for is told as by fathom watch: each of these for its write, and a flush in it.
    let done = lab(&sandbox, &commits(&sandbox, fs.dir()), &[]);
    let told = done.finding("latency-bound")["summary"].as_str().unwrap().to_owned();
    assert!(told.starts_with("1 of 1 trials (") && told.contains("requests in flight"), "{told}");
    assert!(!done.records()[0]["watch"]["stacks"].as_array().unwrap().is_empty());
}

/// A plan whose command commits 1500 times.
fn commits(sandbox: &Sandbox, target: &Path) -> PathBuf {
    let text = format!(
        "target = '{}'\n[[workload]]\nlabel = 'app'\ncommand = 'dd if=/dev/zero of=log bs=4k count=1500 oflag=dsync'\n\
         [design]\nblocks = 1\n[[objective]]\nmetric = 'application'\n",
        p(target)
    );
    plan(sandbox, "commits", &text)
}

/// Who is not root is told less of a command that has ended, but all that it has written.
fn counts_to_the_end() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let theirs = fs.dir().join("theirs");
    fs::create_dir(&theirs).unwrap();
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).unwrap();
    let binary = crate::cli::binary_for_nobody(&sandbox.scratch);
    let file = commits(&sandbox, &theirs);
    let done = crate::cli::run(|| {
        let mut command = crate::cli::as_nobody(&binary);
        command.env("HOME", &theirs).env("LC_ALL", "C").env_remove("FATHOM_DB");
        command.arg("--db").arg(theirs.join("fathom.db")).args(["--json", "--quiet", "lab"]);
        command.arg(&file);
        command
    });
    let record: fathom_model::record::Record =
        serde_json::from_value(done.records()[0].clone()).unwrap();
    let course = record.watch.unwrap();
    let sum = |name: &str| course.application.values(name, course.intervals()).iter().sum::<u64>();
    assert!(sum("written") >= 1500 * 4096 && sum("asked_write") > 0, "{course:?}");
}

/// The load finds itself in a group with so much memory; what needs more is killed by the kernel, and its trial void.
fn memory_limit() {
    let sandbox = Sandbox::new();
    let limit = "p=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup); f=/sys/fs/cgroup/memory$p/memory.limit_in_bytes; \
                 test -e $f || f=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max; echo score: $(cat $f)";
    let prepare = "[design]\nblocks = 1\n[prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\nmemory_limit = '64MiB'\n";
    let file = scored(&sandbox, "limit", limit, prepare);
    let dry = sandbox.run(&["lab", p(&file), "--dry-run"]);
    if dry.code == 4 {
        // No such groups here: that is said before anything begins, and nothing else is tried.
        assert!(dry.stdout.contains("no control groups that limit memory"), "{dry:?}");
        return;
    }
    assert!(dry.stdout.contains("a control group with 64 MiB of memory"), "{dry:?}");
    let done = lab(&sandbox, &file, &[]);
    assert_eq!(scores(&done)[0].1, f64::from(64 << 20), "{done:?}");
    // tail keeps all of it: four times as much as there is.
    let eat = "head -c 268435456 /dev/zero | tail -c 268435455 | wc -c; echo score: 1";
    let file = scored(&sandbox, "eat", eat, prepare);
    let done = sandbox.json(&["lab", p(&file)], &[1, 5]);
    let void = done.records()[0]["cell"]["void"].as_str().unwrap().to_owned();
    assert!(void.contains("killed a process for want of memory"), "{void}");
    for top in ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"] {
        let own = format!("fathom-memory-{}", done.id());
        assert!(!names(Path::new(top)).contains(&own), "the group is gone");
    }
}

/// All that the machine has is never free: each trial is void, and three in a row are enough.
fn memory_floor() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let all_kib = text.split_whitespace().nth(1).unwrap();
    let prepare = format!(
        "[design]\nblocks = 5\n[prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\nmemory_floor = '{all_kib}KiB'\n"
    );
    let file = scored(&sandbox, "floor", "echo score: 1", &prepare);
    let done = lab(&sandbox, &file, &[]);
    assert_eq!(done.code, 1, "{done:?}");
    let voids: Vec<String> = done.records().iter().map(|r| r["cell"]["void"].to_string()).collect();
    assert_eq!(voids.len(), 3, "{voids:?}");
    assert!(voids.iter().all(|why| why.contains("memory_floor asks for")), "{voids:?}");
}

/// What is left out is not measured, not in the answer, and no objective any more.
fn skip() {
    let sandbox = Sandbox::new();
    let load = |label: &str| {
        format!(
            "[[workload]]\nlabel = '{label}'\nuse = 'randread'\nduration = '50ms'\nwarmup = '0s'\nsize = '4M'\n"
        )
    };
    let factors = "[factors]\nworkload.threads = [1, 2, 4]\nnull = ['a', 'b']\n";
    let objectives = "[[objective]]\nmetric = 'iops'\nworkload = 'one'\n[[objective]]\nmetric = 'iops'\nworkload = 'two'\n";
    let text = |design: &str, factors: &str| {
        format!(
            "target = 'null:'\n{}{}{factors}[design]\n{design}{objectives}",
            load("one"),
            load("two")
        )
    };
    let file = plan(&sandbox, "skip", &text("blocks = 1\nsentinel = false\n", factors));
    let done = lab(&sandbox, &file, &["--skip=threads=2", "--skip", "two"]);
    let records = done.records();
    assert_eq!(records.len(), 4, "of six cells with two workloads each");
    for record in &records {
        assert_eq!(record["cell"]["workload"], "one");
        assert!(
            !record["cell"]["levels"].to_string().contains("\"2\""),
            "{}",
            record["cell"]["levels"]
        );
    }
    let experiment = &done.result()["experiment"];
    assert_eq!(experiment["cells"].as_array().unwrap().len(), 4, "{experiment}");
    let figures = experiment["figures"].to_string();
    assert!(!figures.contains("\"two\""), "{figures}");
    let dry = sandbox.run(&["lab", p(&file), "--skip=threads=2", "--dry-run"]);
    assert!(dry.code == 0 && !dry.stdout.contains("threads=2"), "{dry:?}");
    let refuse = |file: &Path, kind: &str, words: &[&str]| {
        sandbox.refuses(&["lab", p(file), "--skip", kind], 2, words);
    };
    refuse(&file, "threads=3", &["no such level", "threads="]);
    refuse(&file, "tow", &["no workload has that label", "did you mean 'two'"]);
    sandbox.refuses(&["lab", p(&file), "--skip=one", "--skip=two"], 2, &["the only workload"]);
    let device = ["lab", p(&file), "--device=/dev/sdx", "--dry-run"];
    sandbox.refuses(&device, 2, &["--device /dev/sdx", "no [parameters]"]);
    let all = ["lab", p(&file), "--skip=null=a", "--skip=null=b"];
    sandbox.refuses(&all, 2, &["with --skip", "leaves out every cell"]);
    let two = "[factors]\nworkload.threads = [1, 2]\nworkload.depth = [1, 2]\nnull.x = [1, 2]\nnull.y = [1, 2]\n";
    let narrow = "[factors]\nworkload.depth = [1, 8, 64]\n";
    for (kind, factors, level) in [
        ("fractional", two, "threads=2"),
        ("screening", two, "threads=2"),
        ("narrowing", narrow, "depth=8"),
    ] {
        let file = plan(&sandbox, kind, &text(&format!("kind = '{kind}'\nblocks = 1\n"), factors));
        refuse(&file, level, &["stands on all its cells"]);
    }
}

const SPEEDS: &str = "[factors]\nworkload.speed = [100, 120]\n";

/// 20 % more, exactly or on the average: what is expected of it is so, is not so, or may be either.
fn hypothesis() {
    let sandbox = Sandbox::new();
    let exact = "echo score: {speed}";
    // Steps of a quarter to both sides, by turns: far more than the difference in question.
    let n = sandbox.scratch.join("n");
    let noisy = format!(
        "n=$(cat {n} 2>/dev/null || echo 0); echo $((n + 1)) > {n}; echo score: $(({{speed}} * (75 + n * 37 % 50)))",
        n = p(&n)
    );
    for (name, command, by, outcome, word) in [
        ("so", exact, "10%", "confirmed", "CONFIRMED"),
        ("not-so", exact, "30%", "refuted", "REFUTED"),
        ("either", noisy.as_str(), "20%", "inconclusive", "INCONCLUSIVE"),
    ] {
        let rest = format!(
            "{SPEEDS}[design]\nblocks = 8\nsequential = false\nseed = 1\n[hypothesis]\ntext = 'the second is faster'\n\
             better = {{ speed = 120 }}\nthan = {{ speed = 100 }}\nby = '{by}'\n"
        );
        let file = scored(&sandbox, name, command, &rest);
        let done = lab(&sandbox, &file, &[]);
        let found = &done.result()["experiment"]["hypothesis"];
        assert_eq!(found["outcome"], outcome, "{name}: {found}");
        let shown = sandbox.run(&["show", &done.id()]);
        let said = format!("Expected: the second is faster. {word}");
        assert!(shown.stdout.contains(&said), "{shown:?}");
    }
}

/// Nothing is set, nothing differs, and that is the answer.
fn null_factor() {
    let sandbox = Sandbox::new();
    let rest = "[factors]\nnull = ['a', 'b']\n[design]\nblocks = 8\n";
    let file = scored(&sandbox, "null", "echo score: 100", rest);
    let done = lab(&sandbox, &file, &[]);
    let experiment = &done.result()["experiment"];
    let change = &experiment["cells"][1]["figures"][0]["change"];
    assert_eq!(change["decision"], "equivalent", "{change}");
    assert_eq!(change["answer"]["ratio"]["value"].as_f64(), Some(1.0), "{change}");
    assert!(!experiment["findings"].to_string().contains("null-factor-differs"), "{experiment}");
}

/// Twice as fast is clear at the first look: 8 of 25 blocks are measured.
fn stops() {
    let sandbox = Sandbox::new();
    let rest = "[factors]\nworkload.speed = [100, 200]\n[design]\nblocks = 25\n";
    let file = scored(&sandbox, "clear", "echo score: {speed}", rest);
    let done = lab(&sandbox, &file, &[]);
    assert_eq!(done.result()["ended"], "answered");
    assert_eq!(trials_of(&done.records()).len(), 2 * 8);
    let experiment = &done.result()["experiment"];
    assert_eq!(experiment["ranking"]["winner"], 1);
    assert_eq!(experiment["cells"][1]["figures"][0]["change"]["decision"], "faster");
    // Not asked to, it goes on to the end.
    let rest = rest.replace("blocks = 25\n", "blocks = 9\nsequential = false\n");
    let file = scored(&sandbox, "all", "echo score: {speed}", &rest);
    let done = lab(&sandbox, &file, &[]);
    assert_eq!((done.result()["ended"].as_str(), done.records().len()), (Some("complete"), 18));
}
