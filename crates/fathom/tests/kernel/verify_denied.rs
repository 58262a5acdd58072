//! Verified blocks that this user may not read, or whose notes he may not, and what else he may not look at: that is told, with the
//! cure, and is never taken for a loss, or for nothing.

use crate::cli::{Done, Running, Sandbox, as_nobody, binary_for_nobody, names, p, run};
use fathom_testkit::Capability::{FathomBinary, Root, Tool};
use fathom_testkit::{Trial, kernel_test};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let nobody = [FathomBinary, Root, Tool("setpriv")];
    let limited = [FathomBinary, Tool("prlimit")];
    vec![
        kernel_test("verify_tells_a_store_that_may_not_be_read", &nobody, closed_store),
        kernel_test("restore_tells_where_it_may_not_look", &nobody, hidden_from_restore),
        kernel_test("clean_tells_a_journal_that_may_not_be_read", &nobody, closed_journal),
        kernel_test("verify_tells_notes_that_cannot_be_opened", &limited, no_descriptors),
        kernel_test("verify_tells_damage_beside_a_closed_file", &nobody, closed_beside_damage),
        kernel_test("verify_tells_a_directory_that_may_not_be_entered", &nobody, closed_directory),
        kernel_test("verify_after_a_run_tells_a_closed_file", &nobody, closed_meanwhile),
    ]
}

const NOBODY: u32 = 65_534;

/// The user nobody, with a directory and a store of his own.
struct Somebody {
    sandbox: Sandbox,
    binary: PathBuf,
    home: PathBuf,
}

impl Somebody {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let binary = binary_for_nobody(&sandbox.scratch);
        let home = sandbox.scratch.join("home");
        fs::create_dir(&home).unwrap();
        chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        Self { sandbox, binary, home }
    }

    fn command(&self, db: &Path, args: &[&str]) -> Command {
        let mut command = as_nobody(&self.binary);
        command.arg("--db").arg(db).args(args);
        command
    }

    /// With a store of his own.
    fn run(&self, args: &[&str]) -> Done {
        let db = self.home.join("state/fathom.db");
        run(|| self.command(&db, args))
    }

    /// Writes files of 768 KiB, which stay.
    fn write(&self, target: &Path, files: &str) {
        let args = ["run", "seqwrite", p(target), files, "size=768k", "block_size=64k"];
        let done = self.run(&[&args[..], &["verify=after", "--keep"]].concat());
        assert!([0, 1].contains(&done.code), "{done:?}");
    }
}

fn close(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
}

/// Changes a byte, as no owner would.
fn damage(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 70_000).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 70_000).unwrap();
}

fn test_dir(dir: &Path) -> PathBuf {
    let own = names(dir).into_iter().find(|name| name.starts_with(".fathom-"));
    dir.join(own.unwrap())
}

/// The store of another user is not empty because it cannot be read, whatever is asked of it.
fn closed_store() {
    let somebody = Somebody::new();
    let sandbox = &somebody.sandbox;
    let (dir, file) = (sandbox.dir(), sandbox.dir().join("data"));
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let args = ["run", "seqwrite", p(&file), "size=768k", "block_size=64k", "verify=after"];
    sandbox.json(&[&args[..], &["--keep"]].concat(), &[0, 1]);
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let state = sandbox.db().parent().unwrap();
    let shelf = state.join("verify");
    let refused = |args: &[&str], words: &[&str]| {
        run(|| somebody.command(sandbox.db(), args)).is_refusal(6, words);
    };
    let gone = dir.join("gone");
    for (closed, path) in [(state.to_owned(), shelf.clone()), (shelf.clone(), shelf.clone())] {
        close(&closed);
        for target in [&dir, &file, &gone] {
            let words = [p(&path), "cannot be read: Permission denied", "as root", "--db"];
            refused(&["verify", p(target)], &words);
        }
        fs::set_permissions(&closed, Permissions::from_mode(0o755)).unwrap();
    }
    // One that may be read, beside one that may not.
    let volume = shelf.join(&names(&shelf)[0]);
    for closed in [volume.join("head.json"), volume.join("0.ledger"), volume] {
        let mode = fs::metadata(&closed).unwrap().permissions();
        close(&closed);
        refused(&["verify", p(&dir)], &[p(&closed), "cannot be read: Permission denied"]);
        fs::set_permissions(&closed, mode).unwrap();
    }
    assert_eq!(run(|| somebody.command(sandbox.db(), &["verify", p(&dir)])).code, 0, "the control");
    // What else says that there is nothing when it cannot look.
    close(state);
    refused(&["list"], &[p(sandbox.db()), "no permission to read"]);
    refused(&["attach"], &[p(state), "Permission denied", "as root", "--db"]);
    refused(&["clean", p(&dir)], &[p(state), "Permission denied", "as root"]);
}

/// What a journal may know that this user cannot read is not unknown to it, and nothing is advised that could remove it.
fn closed_journal() {
    let somebody = Somebody::new();
    let sandbox = &somebody.sandbox;
    let dir = sandbox.dir();
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    let args = ["run", "randread", p(&dir), "size=1M", "operations=10", "--keep"];
    sandbox.json(&args, &[0, 1]);
    let kept = test_dir(&dir);
    let state = sandbox.db().parent().unwrap();
    fs::set_permissions(state, Permissions::from_mode(0o755)).unwrap();
    let owned = state.join("owned");
    let entry = owned.join(&names(&owned)[0]);
    // Its names can be listed, but nothing be opened; or everything is open but that.
    for (mode, entry_mode) in [(0o744, 0o644), (0o755, 0o600)] {
        fs::set_permissions(&owned, Permissions::from_mode(mode)).unwrap();
        fs::set_permissions(&entry, Permissions::from_mode(entry_mode)).unwrap();
        for option in ["--quiet", "--forget"] {
            let done = run(|| somebody.command(sandbox.db(), &["clean", p(&dir), option]));
            assert_eq!(done.code, 6, "{option}: {done:?}");
            let told = format!("{}: this entry of the journal cannot be read", entry.display());
            for words in [&told, "Permission denied", "as its owner or as root", "--db=FILE"] {
                assert!(done.stdout.contains(words), "'{words}' is not in {done:?}");
            }
            assert!(!done.stdout.contains("rm ") && kept.exists(), "{done:?}");
        }
        let done = run(|| somebody.command(sandbox.db(), &["clean", p(&dir)]));
        let stays = format!("{}: stays, whether it is fathom's cannot be told", kept.display());
        assert!(done.stdout.contains(&stays), "{done:?}");
    }
    fs::set_permissions(&owned, Permissions::from_mode(0o700)).unwrap();
    let done = run(|| somebody.command(sandbox.db(), &["clean", p(&dir)]));
    done.is_refusal(6, &[p(&owned), "Permission denied", "as root"]);
    assert_eq!(sandbox.run(&["clean", p(&dir)]).code, 0);
    assert!(!kept.exists());
}

/// Where others than root may not look, something may be left.
fn hidden_from_restore() {
    let somebody = Somebody::new();
    somebody.sandbox.make_state();
    let state = somebody.home.join("state");
    fs::create_dir(&state).unwrap();
    chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
    for args in [&["restore"][..], &["restore", "--list"]] {
        let done = somebody.run(args);
        assert_eq!(done.code, 0, "{done:?}");
        for words in ["left changed.\n", "Not looked at, for want of rights: ", "trace instances"] {
            assert!(done.stdout.contains(words), "'{words}' is not in {done:?}");
        }
        let result = somebody.run(&[&["--json"], args].concat()).result();
        assert!(result["not_looked_at"].as_array().is_some_and(|all| all.len() > 1), "{result}");
    }
    let root = somebody.sandbox.json(&["restore"], &[0, 3, 4, 5, 6]).result();
    assert_eq!(root["not_looked_at"].as_array().map(Vec::len), Some(0), "{root}");
}

/// Notes that cannot be opened for want of descriptors are not missing.
fn no_descriptors() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("data");
    let args = ["run", "seqwrite", p(&file), "size=768k", "block_size=64k", "verify=after"];
    sandbox.json(&[&args[..], &["--keep"]].concat(), &[0, 1]);
    for limit in 4..8 {
        let done = run(|| {
            let fathom = sandbox.command(&["verify", p(&file)]);
            let mut command = fathom_testkit::command::tool("prlimit");
            command.arg(format!("--nofile={limit}")).arg(fathom.get_program());
            command.args(fathom.get_args());
            command
        });
        assert!(done.code == 0 || done.code == 4, "{limit}: {done:?}");
        assert!(done.code == 0 || done.stderr.contains("ulimit -n"), "{limit}: {done:?}");
    }
}

/// A file that may not be read and one that was damaged: both are told, and the damage counts.
fn closed_beside_damage() {
    let somebody = Somebody::new();
    let dir = somebody.home.join("d");
    let told = |done: &Done, closed: &Path| {
        assert_eq!(done.code, 5, "{done:?}");
        for words in ["1 block WRONG", "the byte at offset 70000"] {
            assert!(done.stdout.contains(words), "'{words}' is not in {done:?}");
        }
        let error = format!("{}: cannot be opened: Permission denied", closed.display());
        for words in [&error, "check it as their owner, or as root"] {
            assert!(done.stderr.contains(words), "'{words}' is not in {done:?}");
        }
    };
    // In one directory of test files, and as two files of their own.
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    somebody.write(&dir, "files=3");
    let kept = test_dir(&dir).join("d0000");
    close(&kept.join("f000"));
    let beside = somebody.run(&["verify", p(&dir)]);
    assert_eq!(beside.code, 2, "{beside:?}");
    assert!(beside.stdout.contains("512 KiB read back") && !beside.stdout.contains("WRONG"));
    assert!(beside.stdout.contains("1 file is NOT checked"), "{beside:?}");
    damage(&kept.join("f002"));
    told(&somebody.run(&["verify", p(&dir)]), &kept.join("f000"));
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    for name in ["closed", "damaged"] {
        somebody.write(&dir.join(name), "files=1");
    }
    close(&dir.join("closed"));
    let alone = somebody.run(&["verify", p(&dir.join("closed"))]);
    assert!(alone.code == 2 && alone.stdout.contains("NOTHING could be checked"), "{alone:?}");
    damage(&dir.join("damaged"));
    told(&somebody.run(&["verify", p(&dir)]), &dir.join("closed"));
}

/// Who may not enter the directory of test files, or one above it, is told who may.
fn closed_directory() {
    let somebody = Somebody::new();
    let dir = somebody.home.join("d");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    somebody.write(&dir, "files=3");
    let kept = test_dir(&dir);
    for closed in [&kept, &dir] {
        let mode = fs::metadata(closed).unwrap().permissions();
        close(closed);
        let done = somebody.run(&["verify", p(&dir)]);
        done.is_refusal(2, &[p(&kept), "Permission denied", "run as its owner or as root"]);
        fs::set_permissions(closed, mode).unwrap();
    }
    assert_eq!(somebody.run(&["verify", p(&dir)]).code, 0, "the control");
}

/// What can no longer be opened when a run reads back says nothing of the storage, be it the only file, one of several or all of
/// them: the measurement counts, and the verdict says what was not checked.
fn closed_meanwhile() {
    let somebody = Somebody::new();
    let dir = somebody.home.join("d");
    let db = somebody.home.join("state/fathom.db");
    for (files, closed, keep) in [
        ("files=1", &["data"][..], false),
        ("files=1", &["data"], true),
        ("files=3", &["d0000/f001"], false),
        ("files=3", &["d0000/f000", "d0000/f001", "d0000/f002"], true),
    ] {
        fs::create_dir(&dir).unwrap();
        chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
        let args = ["--json", "run", "randwrite", p(&dir), files, "size=768k", "duration=4s"];
        let more = ["warmup=0s", "verify=after", if keep { "--keep" } else { "--quiet" }];
        let mut command = somebody.command(&db, &[&args[..], &more].concat());
        let running = Running::start(&mut command, "progress", 1);
        let own = test_dir(&dir);
        closed.iter().for_each(|file| close(&own.join(file)));
        let done = running.finish();
        assert_eq!(done.code, 1, "{files} {closed:?}: {done:?}");
        let record = &done.records()[0];
        assert_eq!(record["failure"], Value::Null, "{record}");
        let verify = &record["jobs"][0]["verify"];
        assert_eq!(
            (&verify["mismatches"], &verify["unopened_files"]),
            (&0.into(), &closed.len().into())
        );
        let is_all = closed.len() != 1 || files == "files=1";
        assert_eq!(verify["checked_bytes"] == 0, is_all, "{verify}");
        let finding = done.finding("not-verified");
        assert_eq!(finding["severity"], "doubtful");
        let text = finding["summary"].as_str().unwrap();
        assert_eq!(text.contains("checked nothing;"), is_all, "{text}");
        assert!(text.contains("Permission denied"), "{text}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
