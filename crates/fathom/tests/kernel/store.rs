//! The store as a user meets it: silent while measuring, clear when it cannot be used, never damaged.

use crate::cli::{MIB, Running, Sandbox, as_nobody, binary_for_nobody, p, run};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, MountFs, Root, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    FsKind, Mount, Scratch, TreeSnapshot, Trial, fathom_binary, kernel_test, sample,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PROBE: [&str; 4] = ["run", "randread", "null:", "operations=1000"];

pub fn trials() -> Vec<Trial> {
    let tmpfs = [FathomBinary, MountFs("tmpfs")];
    let on_ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("store_is_silent_while_measuring", &[FathomBinary], silent),
        kernel_test("store_on_the_tested_filesystem", &on_ext4, silent_on_target),
        kernel_test("store_that_is_read_while_it_is_written", &[FathomBinary], read_meanwhile),
        kernel_test("store_on_a_read_only_place", &tmpfs, read_only),
        kernel_test(
            "store_without_permission",
            &[FathomBinary, Root, Tool("setpriv")],
            no_permission,
        ),
        kernel_test("store_with_the_name_of_a_device", &[FathomBinary], mistyped),
        kernel_test("store_on_a_full_disk", &tmpfs, full),
        kernel_test("disk_of_the_store_becomes_full", &tmpfs, becomes_full),
        kernel_test("store_of_an_experiment_becomes_full", &tmpfs, experiment),
        kernel_test("store_that_is_damaged", &[FathomBinary], damaged),
        kernel_test("store_that_is_something_else", &[FathomBinary], something_else),
        kernel_test("store_without_a_place", &[FathomBinary, Root, Tool("setpriv")], no_place),
        kernel_test("store_of_a_run_is_named_where_it_must_be", &[FathomBinary], named),
        kernel_test("store_from_the_environment", &[FathomBinary], from_environment),
    ]
}

/// Name, inode, size and time of everything beside the store.
fn state(dir: &Path) -> Vec<(PathBuf, u64, u64, i64, i64)> {
    let mut all = Vec::new();
    for dir in [dir.to_owned(), dir.join("owned")] {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::metadata(&path).unwrap();
            all.push((path, meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()));
        }
    }
    all.sort();
    all
}

/// Looks every 20 ms from the first to the third progress event.
#[track_caller]
fn is_silent(sandbox: &Sandbox, running: &Running) {
    let dir = sandbox.db().parent().unwrap();
    let first = state(dir);
    assert!(first.iter().any(|file| file.0 == sandbox.db()), "{first:?}");
    let mut looks = 0;
    while running.events("progress") < 3 {
        assert_eq!(state(dir), first);
        looks += 1;
        thread::sleep(Duration::from_millis(20));
    }
    assert!(looks > 5, "only {looks} looks");
}

fn silent() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randomio", p(&dir), "size=16M", "duration=6s", "threads=2"];
    let running = sandbox.start(&args, "progress", 1);
    is_silent(&sandbox, &running);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert_eq!(sandbox.runs()[0]["trials"].as_u64(), Some(1), "afterwards it is stored");
}

/// Whoever looks at the store takes nothing from those that measure, and is told nothing wrong himself.
fn read_meanwhile() {
    let sandbox = Sandbox::new();
    sandbox.json(&PROBE, &[0, 1]);
    let is_over = AtomicBool::new(false);
    let runs = sample(40, 400);
    thread::scope(|scope| {
        let look = || {
            while !is_over.load(Ordering::Relaxed) {
                sandbox.json(&["list"], &[0]);
            }
        };
        let lookers = [scope.spawn(look), scope.spawn(look)];
        let codes: Vec<i32> = (0..runs).map(|_| sandbox.run(&PROBE).code).collect();
        is_over.store(true, Ordering::Relaxed);
        lookers.into_iter().for_each(|looker| looker.join().unwrap());
        let failed = codes.iter().filter(|code| ![0, 1].contains(*code)).count();
        assert_eq!(failed, 0, "of {runs}: {codes:?}");
    });
    let stored = sandbox.json(&["list", "--limit=1000"], &[0]).result();
    let stored = stored["runs"].as_array().unwrap();
    let complete = stored.iter().filter(|run| run["state"] == "complete").count();
    assert_eq!((complete, stored.len()), (runs + 1, runs + 1));
}

fn silent_on_target() {
    let fs = mounted(FsKind::Ext4, &[], "");
    let sandbox = Sandbox::with_db(fs.dir().join("state/fathom.db"));
    let args = ["run", "randomio", p(fs.dir()), "size=16M", "duration=6s", "threads=2"];
    let running = sandbox.start(&args, "progress", 1);
    is_silent(&sandbox, &running);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let finding = done.finding("store-on-target");
    assert_eq!(finding["severity"], "note");
    assert!(finding["summary"].as_str().unwrap().contains(p(sandbox.db())), "{finding}");
    let names = crate::cli::names(fs.dir());
    assert!(!names.iter().any(|name| name.starts_with(".fathom")), "{names:?}");
    assert_eq!(sandbox.runs().len(), 1);
}

#[track_caller]
fn refused(sandbox: &Sandbox, args: &[&str], words: &[&str]) {
    let done = sandbox.run(args);
    done.is_refusal(6, &[&[p(sandbox.db()), "--db"], words].concat());
}

fn read_only() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=8m").unwrap();
    let sandbox = Sandbox::with_db(mount.dir().join("fathom.db"));
    sandbox.json(&PROBE, &[0, 1]);
    mount.remount("ro").unwrap();
    let before = TreeSnapshot::take(mount.dir()).unwrap();
    refused(&sandbox, &PROBE, &["read-only"]);
    let id = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.json(&["show", &id], &[0]).records().len(), 1, "reading still works");
    refused(&sandbox, &["rm", &id], &["read-only"]);
    before.assert_same(mount.dir());
    let new = Sandbox::with_db(mount.dir().join("deeper/fathom.db"));
    refused(&new, &PROBE, &[]);
    before.assert_same(mount.dir());
}

fn no_permission() {
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let db = scratch.join("fathom.db");
    let done = run(|| {
        let mut command = as_nobody(&binary);
        command.arg("--db").arg(&db).args(PROBE);
        command
    });
    done.is_refusal(6, &[p(&db), "ermission", "--db"]);
    assert!(!db.exists());
}

fn full() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=16k").unwrap();
    let sandbox = Sandbox::with_db(mount.dir().join("fathom.db"));
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "operations=1000"];
    refused(&sandbox, &args, &["no space left"]);
    assert!(!sandbox.db().exists(), "no empty store");
    sandbox.nothing_left(&[]);
}

/// What the doctor says of a store that cannot be used.
#[track_caller]
fn doctor_objects(sandbox: &Sandbox, words: &[&str]) {
    let doctor = sandbox.json(&["doctor"], &[0]);
    let checks = doctor.result()["checks"].clone();
    let store = checks.as_array().unwrap().iter().find(|c| c["what"] == "store").unwrap();
    assert_eq!(store["works"], false, "{store}");
    let detail = store["detail"].as_str().unwrap();
    assert!(words.iter().all(|word| detail.contains(word)), "{words:?} in {detail}");
}

/// A mistyped name of a device, in the place that the kernel's file systems have.
fn mistyped() {
    for name in ["/dev/fathom-no-such-disk", "/dev/fathom-no-such/disk", "/sys/x.db"] {
        let sandbox = Sandbox::with_db(name.into());
        refused(&sandbox, &PROBE, &["nothing is made in"]);
        doctor_objects(&sandbox, &[]);
        assert!(!Path::new(name).exists() && !Path::new("/dev/fathom-no-such").exists());
    }
    // Where a store may be, looking makes none.
    let sandbox = Sandbox::new();
    sandbox.json(&["doctor"], &[0]);
    assert!(!sandbox.db().exists());
}

/// The store fails only after the measurement: the figures are printed all the same.
fn becomes_full() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=2m").unwrap();
    let sandbox = Sandbox::with_db(mount.dir().join("fathom.db"));
    sandbox.json(&PROBE, &[0, 1]);
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "duration=5s"];
    let running = sandbox.start(&args, "progress", 1);
    let rest = format!("of={}", mount.dir().join("rest").display());
    assert!(run_tool("dd", ["if=/dev/zero", &rest, "bs=4k"]).is_err(), "dd ends on a full disk");
    let done = running.finish();
    assert_eq!(done.code, 6, "{done:?}");
    assert!(crate::cli::operations(&done.records()[0]) > 0, "the figures are there");
    assert_eq!(done.result()["exit_code"].as_i64(), Some(6));
    for word in ["could not be stored", p(sandbox.db()), "no space left", "--db"] {
        assert!(done.stderr.contains(word), "'{word}' is not in {}", done.stderr);
    }
    assert_eq!(done.result()["stored"], false);
    let said = &done.stderr;
    assert!(said.contains("Not stored.") && !said.contains("fathom show"), "{said}");
    doctor_objects(&sandbox, &["no space left"]);
    sandbox.nothing_left(&[]);
    fs::remove_file(mount.dir().join("rest")).unwrap();
    let runs = sandbox.runs();
    let trials: Vec<_> = runs.iter().map(|run| run["trials"].as_u64().unwrap()).collect();
    assert_eq!(trials, [0, 1], "earlier results are intact");
    sandbox.json(&PROBE, &[0, 1]);
}

/// The second trial leaves room for notes in the journal, but for no record: what cannot be kept is not measured on and on.
fn experiment() {
    let mount = Mount::new("tmpfs", Path::new("none"), "size=2m").unwrap();
    let sandbox = Sandbox::with_db(mount.dir().join("fathom.db"));
    let (begun, rest) = (sandbox.scratch.join("begun"), mount.dir().join("rest"));
    let command = format!(
        "echo x >>{0}; [ $(wc -l <{0}) != 2 ] || {{ dd if=/dev/zero of={1} bs=4k; truncate -s -8k {1}; }}; echo score: 1",
        p(&begun),
        p(&rest)
    );
    let text = format!(
        "target = '{}'\n[[workload]]\nlabel = 'app'\ncommand = '''{command}'''\nfigure.score = 'score: {{}}'\n\
         [design]\nblocks = 4\nsentinel = false\n[[objective]]\nmetric = 'application'\n",
        p(&sandbox.dir())
    );
    let file = crate::lab::plan(&sandbox, "fills", &text);
    let done = sandbox.run(&["--json", "lab", p(&file)]);
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.stderr.contains("could not be stored"), "{done:?}");
    assert_eq!(fs::read_to_string(&begun).unwrap().lines().count(), 2, "{done:?}");
    fs::remove_file(&rest).unwrap();
    assert_eq!(sandbox.runs()[0]["trials"].as_u64(), Some(1));
    let done = sandbox.run(&["--json", "lab", p(&file)]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert_eq!(sandbox.runs()[0]["trials"].as_u64(), Some(4), "the others follow");
}

fn damaged() {
    let sandbox = Sandbox::new();
    sandbox.json(&PROBE, &[0, 1]);
    let good = fs::read(sandbox.db()).unwrap();
    let state = sandbox.db().parent().unwrap();
    let mut header = good.clone();
    header[16..100].fill(0xff);
    let mut pages = good.clone();
    let half = pages.len() / 2;
    pages[4096..half].fill(0xa5);
    for (name, bytes) in
        [("header", header), ("pages", pages), ("truncated", good[..good.len() / 2].to_vec())]
    {
        fs::write(sandbox.db(), &bytes).unwrap();
        let before = TreeSnapshot::take(state).unwrap();
        for args in [&PROBE[..], &["list"], &["show", "abc"], &["rm", "abc"]] {
            let done = sandbox.run(args);
            assert_eq!(done.code, 6, "{name}, {args:?}: {done:?}");
            done.is_refusal(6, &[p(sandbox.db()), "untouched", "--db"]);
            before.assert_same(state);
        }
        doctor_objects(&sandbox, &["untouched"]);
        before.assert_same(state);
    }
    // Of damage further behind opening need not notice anything.
    let mut last = good.clone();
    let half = last.len() / 2 / 4096 * 4096;
    last[half..].fill(0xa5);
    fs::write(sandbox.db(), &last).unwrap();
    doctor_objects(&sandbox, &["is damaged"]);
    fs::write(sandbox.db(), &good).unwrap();
    assert_eq!(sandbox.runs().len(), 1);
}

fn something_else() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let text = dir.join("letter.txt");
    fs::write(&text, "Dear Sir or Madam, ".repeat(1000)).unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    let before = TreeSnapshot::take(&dir).unwrap();
    for name in ["letter.txt", "folder"] {
        let other = Sandbox::with_db(dir.join(name));
        for args in [&PROBE[..], &["list"], &["rm", "abc"]] {
            refused(&other, args, &[]);
        }
    }
    let below = Sandbox::with_db(text.join("fathom.db"));
    refused(&below, &PROBE, &["directory"]);
    before.assert_same(&dir);
    let missing = Sandbox::with_db(dir.join("none/fathom.db"));
    missing.run(&["list"]).is_refusal(2, &[p(missing.db()), "does not exist", "--db"]);
    let none = format!("there is no directory {}", dir.join("none").display());
    for args in [&["restore", "--list"][..], &["restore"]] {
        missing.run(args).is_refusal(2, &[p(missing.db()), &none]);
    }
    before.assert_same(&dir);
}

fn from_environment() {
    let sandbox = Sandbox::new();
    let db = sandbox.scratch.join("by-variable/x.db");
    let done = run(|| {
        let mut command = Command::new(fathom_binary().unwrap());
        command.env("FATHOM_DB", &db).args(PROBE);
        command
    });
    assert!([0, 1].contains(&done.code), "{done:?}");
    let size_bytes = fs::metadata(&db).unwrap().len();
    assert!(size_bytes > 0 && size_bytes < MIB, "{size_bytes}");
    let private = fs::metadata(db.parent().unwrap()).unwrap().mode() & 0o077;
    assert_eq!(private, 0, "only its owner may look into it");
}

fn no_place() {
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let done = run(|| {
        let mut command = as_nobody(&binary);
        command.env_clear().args(PROBE);
        command
    });
    done.is_refusal(6, &["$HOME", "--db", "$FATHOM_DB"]);
}

/// The printed command, typed as it stands, shows the run: with `--db` where that was given, also when a shell would take
/// the name apart, and without where fathom finds the store by itself.
fn named() {
    let scratch = Scratch::new().unwrap();
    let db = scratch.join("my runs/it's.db");
    let binary = fathom_binary().unwrap();
    for by_option in [true, false] {
        let with_store = |command: &mut Command| {
            command.env_remove("FATHOM_DB");
            if !by_option {
                command.env("FATHOM_DB", &db);
            }
        };
        let measured = run(|| {
            let mut command = Command::new(&binary);
            with_store(command.args(PROBE));
            if by_option {
                command.arg("--db").arg(&db);
            }
            command
        });
        let printed = measured.stdout.split("again: ").nth(1).expect("a command is printed");
        assert_eq!(printed.contains(" --db "), by_option, "{printed}");
        let typed = printed.trim_end().replacen("fathom", p(&binary), 1);
        let shown = run(|| {
            let mut shell = Command::new("sh");
            with_store(shell.args(["-c", &typed]));
            shell
        });
        assert!(shown.stdout.contains("randread (workload randread): complete"), "{shown:?}");
    }
}
