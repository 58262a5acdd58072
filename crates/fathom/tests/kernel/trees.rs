//! `fathom tree`, `fathom clean` and `fathom run exercise` as a user calls them: what is printed, exit codes, what is left.

use crate::cli::{Kept, Sandbox, names, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Root};
use fathom_testkit::{FsKind, LoopDevice, MountedFs, Trial, counted, kernel_test};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("tree_commands", &[FathomBinary], commands),
        kernel_test("clean_says_that_a_store_is_mistyped", &[FathomBinary], no_such_store),
        kernel_test(
            "clean_leaves_trees_that_others_signed",
            &[FathomBinary, Root],
            signed_by_others,
        ),
        kernel_test("tree_scan_writes_new_files_only", &[FathomBinary, LoopDevices], scan_output),
        kernel_test("tree_damaged_below_is_told", &ext4, damaged_below),
        kernel_test("clean_removes_kept_test_files", &[FathomBinary], kept_files),
        kernel_test("clean_of_a_file_is_a_mistake", &[FathomBinary], clean_of_a_file),
        kernel_test("clean_lists_what_clean_would_do", &[FathomBinary], listed_as_cleaned),
        kernel_test("clean_lists_what_stays_in_trees", &[FathomBinary], stays_in_trees),
        kernel_test("clean_killed_midway", &ext4, clean_killed),
        kernel_test("exercise_command", &[FathomBinary], exercise),
        kernel_test("exercise_command_finds_a_changed_byte", &ext4, exercise_spoilt),
    ]
}

/// Root goes through no tree that somebody else's card describes, says whose it is and what removes it, and does the rest.
fn signed_by_others() {
    let sandbox = Sandbox::new();
    let (ours, theirs) = (sandbox.dir().join("ours"), sandbox.dir().join("theirs"));
    for dir in [&ours, &theirs] {
        sandbox.json(&["tree", "build", p(dir), "files=40", "file_size=1k"], &[0]);
    }
    chown(theirs.join(".fathom-tree"), Some(65_534), None).unwrap();
    let held = names(&theirs);
    let listed = sandbox.run(&["clean", p(&sandbox.dir()), "--list"]);
    assert_eq!(listed.stdout.matches("belongs to user 65534").count(), 1, "{listed:?}");
    let cleaned = sandbox.run(&["clean", p(&sandbox.dir())]);
    assert_eq!(cleaned.code, 3, "{cleaned:?}");
    let cure = format!("setpriv --reuid=65534 --clear-groups fathom clean {}", theirs.display());
    assert!(cleaned.stderr.contains(&cure), "{cleaned:?}");
    assert_eq!((ours.exists(), names(&theirs)), (false, held));
    chown(theirs.join(".fathom-tree"), Some(0), None).unwrap();
    assert_eq!(sandbox.run(&["clean", p(&sandbox.dir())]).code, 0);
    assert!(!theirs.exists());
}

/// Nothing is noted beside a store whose directory is mistyped: that is no news that nothing of fathom's is there.
fn no_such_store() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for more in [&[][..], &["--list"], &["--forget"]] {
        let said =
            sandbox.refuses(&[&["clean", p(&dir)], more].concat(), 2, &["there is no directory"]);
        assert!(said.stdout.is_empty(), "{said:?}");
    }
    sandbox.make_state();
    assert_eq!(sandbox.run(&["clean", p(&dir)]).code, 0);
}

fn commands() {
    let sandbox = Sandbox::new();
    let (dir, other) = (sandbox.dir().join("tree"), sandbox.dir().join("other"));
    let built = sandbox.json(&["tree", "build", p(&dir), "files=300", "file_size=1k"], &[0]);
    assert_eq!(built.result()["extent"]["bytes"], 300 * 1024);
    let again =
        sandbox.json(&["tree", "build", p(&dir), "files=300", "file_size=1k", "--verify"], &[0]);
    assert_eq!(
        (&again.result()["reused"], &again.result()["verify"]["files"]),
        (&true.into(), &300.into())
    );
    sandbox
        .run(&["tree", "build", p(&dir), "files=301"])
        .is_refusal(2, &["files=300", "fathom clean"]);
    sandbox.run(&["tree", "build", p(&dir), "file=301"]).is_refusal(2, &["files"]);
    sandbox.run(&["tree", "build", p(&other), "size=1000T"]).is_refusal(4, &["at most"]);
    sandbox.run(&["tree", "build", p(&sandbox.dir())]).is_refusal(3, &["not empty", "tree"]);
    sandbox.run(&["tree", "verify", p(&sandbox.dir())]).is_refusal(2, &["no tree"]);
    let table = sandbox.scratch.join("t.toml");
    let scanned = sandbox.run(&["tree", "scan", p(&dir), "-o", p(&table)]);
    assert!(scanned.code == 0 && scanned.stdout.contains("301 files"), "{scanned:?}");
    let setting = format!("table={}", p(&table));
    sandbox.json(&["tree", "build", p(&other), &setting, "files=50"], &[0]);
    assert_eq!(
        sandbox.json(&["clean", p(&sandbox.dir()), "--list"], &[0]).result()["trees"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    fs::write(dir.join("thesis.tex"), "x").unwrap();
    let verified = sandbox.run(&["tree", "verify", p(&dir)]);
    assert!(verified.code == 5 && verified.stdout.contains("foreign  thesis.tex"), "{verified:?}");
    let cleaned = sandbox.run(&["clean", p(&sandbox.dir())]);
    assert!(cleaned.code == 3 && cleaned.stdout.contains("tree/thesis.tex"), "{cleaned:?}");
    assert_eq!(
        (names(&sandbox.dir()), names(&dir)),
        (vec!["tree".to_owned()], vec!["thesis.tex".to_owned()])
    );
    fs::remove_dir_all(&dir).unwrap();
    sandbox.nothing_left(&[&sandbox.dir()]);
}

/// A table goes into a new file: not into one that is there, not through a link to it, not onto a device, not into /dev.
fn scan_output() {
    let sandbox = Sandbox::new();
    let (dir, file) = (sandbox.dir(), sandbox.scratch.join("notes.txt"));
    fs::write(dir.join("one"), "1").unwrap();
    fs::write(&file, "somebody's").unwrap();
    let link = sandbox.scratch.join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let device = LoopDevice::new(1 << 20).unwrap();
    let before = fs::read(device.backing()).unwrap();
    for (place, said) in [
        (file.as_path(), "--overwrite"),
        (&link, "--overwrite"),
        (device.path(), "/dev"),
        (Path::new("/dev/fathom-new"), "/dev"),
        (dir.as_path(), "no regular file"),
        (Path::new("/no/such/folder/table"), "there is no such folder"),
    ] {
        sandbox.run(&["tree", "scan", p(&dir), "-o", p(place)]).is_refusal(2, &[said]);
    }
    let to_device = sandbox.scratch.join("to-device");
    std::os::unix::fs::symlink(device.path(), &to_device).unwrap();
    let onto = ["tree", "scan", p(&dir), "--overwrite", "-o", p(&to_device)];
    sandbox.run(&onto).is_refusal(2, &["/dev"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "somebody's");
    assert!(fs::read(device.backing()).unwrap() == before);
    assert!(!Path::new("/dev/fathom-new").exists());
    let scanned = sandbox.run(&["tree", "scan", p(&dir), "--overwrite", "-o", p(&file)]);
    assert!(
        scanned.code == 0 && fs::read_to_string(&file).unwrap().contains("tree"),
        "{scanned:?}"
    );
    // In the directory itself it does not count as one of its files; packed it is read all the same.
    let inside = dir.join("t.toml.gz");
    let scanned = sandbox.json(&["tree", "scan", p(&dir), "-o", p(&inside)], &[0]);
    assert_eq!(scanned.result()["table"]["files"], 1);
    let table = |path: &Path| format!("table={}", p(path));
    let other = sandbox.scratch.join("other");
    sandbox.json(&["tree", "build", p(&other), &table(&inside), "files=5"], &[0]);
    let endless = ["tree", "build", p(&other), &table(Path::new("/dev/zero"))];
    sandbox.run(&endless).is_refusal(2, &["more than 16"]);
    sandbox.json(&["clean", p(&other)], &[0]);
}

/// A bit of a file changes behind the filesystem's back: size and time say nothing, the content does.
fn damaged_below() {
    let sandbox = Sandbox::new();
    let mounted = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
    let dir = mounted.dir().join("tree");
    sandbox.json(&["tree", "build", p(&dir), "files=200", "file_size=20k"], &[0]);
    let victim = some_file(&dir);
    let place = place_of(&victim) + 5000;
    let device = mounted.unmount();
    let backing = fs::File::options().read(true).write(true).open(device.backing()).unwrap();
    let mut byte = [0];
    backing.read_exact_at(&mut byte, place).unwrap();
    backing.write_all_at(&[byte[0] ^ 4], place).unwrap();
    let mount = fathom_testkit::Mount::new("ext4", device.path(), "").unwrap();
    let dir = mount.dir().join("tree");
    assert_eq!(sandbox.run(&["tree", "verify", p(&dir), "--names"]).code, 0);
    let found = sandbox.run(&["tree", "verify", p(&dir)]);
    let name = victim.file_name().unwrap().to_str().unwrap();
    assert!(
        found.code == 5 && found.stdout.contains(name) && found.stdout.contains("from offset 5000"),
        "{found:?}"
    );
    drop(mount);
}

fn some_file(dir: &Path) -> PathBuf {
    let entries = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_file() && !path.ends_with(".fathom-tree")).min().unwrap()
}

fn place_of(path: &Path) -> u64 {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    let mut place = None;
    fathom_sys::fiemap::for_each_extent(&file, |extent| {
        place.get_or_insert(extent.physical - extent.logical);
    })
    .unwrap();
    place.unwrap()
}

fn kept_files() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    sandbox.json(
        &["run", "randwrite", p(&dir), "size=8M", "duration=200ms", "--keep", "--fail-on=void"],
        &[0, 1],
    );
    assert_eq!(names(&dir).len(), 1);
    let cleaned = sandbox.run(&["clean", p(&dir)]);
    assert!(cleaned.code == 0 && cleaned.stdout.contains("removed"), "{cleaned:?}");
    sandbox.nothing_left(&[&dir]);
    assert!(sandbox.run(&["clean", p(&dir)]).stdout.starts_with("Nothing that fathom made"));
}

/// A file is no directory: that is a word of the command line, and says nothing of the storage.
fn clean_of_a_file() {
    let sandbox = Sandbox::new();
    let (dir, file) = (sandbox.dir(), sandbox.dir().join("kept"));
    let args = ["run", "seqwrite", p(&file), "size=768k", "block_size=64k", "--keep"];
    sandbox.json(&args, &[0, 1]);
    let cure = format!("fathom clean {}", dir.display());
    for args in [&["clean", p(&file)][..], &["clean", p(&file), "--list"]] {
        sandbox.run(args).is_refusal(2, &[p(&file), "is no directory", &cure]);
    }
    for args in [["tree", "verify", p(&file)], ["tree", "scan", p(&file)]] {
        sandbox.run(&args).is_refusal(2, &[p(&file), "Not a directory", "name a directory"]);
    }
    // Nor is a name that is mistyped.
    let none = dir.join("none");
    let commands: [&[&str]; 5] =
        [&["tree", "verify"], &["tree", "scan"], &["clean"], &["clean", "--list"], &["verify"]];
    for command in commands {
        sandbox.run(&[command, &[p(&none)]].concat()).is_refusal(2, &[p(&none)]);
    }
    let listed = sandbox.run(&["clean", p(&dir), "--list"]);
    let line = format!("{}  a test file", file.display());
    assert!(file.exists() && listed.code == 0 && listed.stdout.contains(&line), "{listed:?}");
    sandbox.json(&["clean", p(&dir)], &[0]);
    assert!(!file.exists());
    let listed = sandbox.run(&["clean", p(&dir), "--list"]);
    assert!(listed.stdout.starts_with("Nothing that fathom made is there"), "{listed:?}");
}

/// What somebody has put in the place of test files is no longer listed as such, and entries that nobody understands are told: what
/// clean says then, its list says before.
fn listed_as_cleaned() {
    let sandbox = Sandbox::new();
    let (dir, file) = (sandbox.dir(), sandbox.dir().join("kept"));
    for target in [&dir, &file] {
        let args = ["run", "seqwrite", p(target), "size=768k", "block_size=64k", "--keep"];
        sandbox.json(&args, &[0, 1]);
    }
    let own = names(&dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
    let own = dir.join(own);
    let listed = sandbox.json(&["clean", p(&dir), "--list"], &[0]).result();
    for (kind, path) in [("test_directories", &own), ("test_files", &file)] {
        assert_eq!(listed[kind], serde_json::json!([path]), "{listed}");
    }
    for path in [&own, &file] {
        let copy = dir.join("copy");
        fathom_testkit::command::run_tool("cp", ["-a", p(path), p(&copy)]).unwrap();
        fathom_testkit::command::run_tool("rm", ["-r", p(path)]).unwrap();
        fs::rename(&copy, path).unwrap();
    }
    let owned = sandbox.db().parent().unwrap().join("owned");
    let entry = fs::read_to_string(owned.join(&names(&owned)[0])).unwrap();
    let newer = entry.replacen("\"format\":1", "\"format\":77", 1);
    let others = [("zz1.json", newer.as_str()), ("zz2.json", "{\"format\":1")];
    others.iter().for_each(|(name, text)| fs::write(owned.join(name), text).unwrap());
    for option in ["--list", "--quiet"] {
        let done = sandbox.run(&["clean", p(&dir), option]);
        assert_eq!(done.code, 5, "{done:?}");
        for path in [&own, &file] {
            let stays =
                format!("{}: something that fathom did not make lies there", path.display());
            assert!(done.stdout.contains(&stays) && path.exists(), "{done:?}");
        }
        for (name, _) in others {
            let told = format!("{}: cannot be put in order", owned.join(name).display());
            assert!(done.stdout.contains(&told), "'{told}' is not in {done:?}");
        }
        assert!(!done.stdout.contains("test file") && !done.stdout.contains("Nothing that"));
    }
}

/// What others have in a tree, and files that somebody edited, are named before as they are named afterwards.
fn stays_in_trees() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir().join("tree");
    sandbox.json(&["tree", "build", p(&dir), "files=60", "file_size=1k"], &[0]);
    let clean = |more: &[&str]| sandbox.run(&[&["clean", p(&dir)], more].concat());
    assert_eq!(clean(&["--list"]).code, 0, "all of it is fathom's");
    let is_file = |path: &PathBuf| path.is_file() && !path.ends_with(".fathom-tree");
    let files: Vec<PathBuf> = walk(&dir).into_iter().filter(is_file).collect();
    let [edited, touched, replaced] = [0, 1, 2].map(|index| &files[index]);
    fs::write(edited, vec![b'x'; 1024]).unwrap();
    // Every byte is still fathom's.
    fs::write(touched, fs::read(touched).unwrap()).unwrap();
    fs::remove_file(replaced).unwrap();
    fs::create_dir(replaced).unwrap();
    let inner = edited.parent().unwrap().join("sub");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("notes"), "x").unwrap();
    fs::write(dir.join("thesis.tex"), "x").unwrap();
    let before = walk(&dir);
    let stays = |text: &str| {
        let (_, told) = text.split_once("stay with the directories above them:\n").unwrap();
        let mut told: Vec<PathBuf> =
            told.lines().map_while(|line| line.strip_prefix("  ")).map(PathBuf::from).collect();
        told.sort();
        told
    };
    let listed = clean(&["--list"]);
    let json = sandbox.json(&["clean", p(&dir), "--list"], &[3]).result();
    assert_eq!((listed.code, walk(&dir)), (3, before), "{listed:?}");
    let mut expected = vec![edited.clone(), replaced.clone(), inner, dir.join("thesis.tex")];
    expected.sort();
    assert_eq!(stays(&listed.stdout), expected, "{listed:?}");
    let tree = &json["in_trees"][0];
    assert_eq!((&tree["foreign"], &tree["files"]), (&4.into(), &58.into()), "{json}");
    let cleaned = clean(&[]);
    assert_eq!((cleaned.code, stays(&cleaned.stdout)), (3, expected), "{cleaned:?}");
    assert!(cleaned.stdout.contains("removed 58 files"), "{cleaned:?}");
}

/// All that is in a directory and below it.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let found = fathom_testkit::command::run_tool("find", [p(dir)]).unwrap();
    let mut found: Vec<PathBuf> = found.lines().map(PathBuf::from).collect();
    found.sort();
    found
}

/// Wherever the kill comes, what others made stays as it is, and the same command goes on until nothing of fathom's is left.
fn clean_killed() {
    for is_inside in [false, true] {
        let sandbox = Sandbox::new();
        let mounted = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
        let dir = mounted.dir();
        let tree = dir.join("tree");
        sandbox.json(&["tree", "build", p(&tree), "files=20000", "file_size=0"], &[0]);
        let args = ["run", "randread", p(dir), "files=2000", "size=8M", "operations=100"];
        sandbox.json(&[&args[..], &["--keep"]].concat(), &[0, 1]);
        let own = names(dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
        let kept = dir.join(own);
        let mut theirs = vec![dir.join("thesis")];
        if is_inside {
            theirs.extend([tree.join("thesis"), kept.join("d0000/thesis")]);
        }
        theirs.iter().for_each(|path| fs::write(path, "somebody's").unwrap());
        kill_cleans(&sandbox, dir);
        let cleaned = sandbox.run(&["clean", p(dir)]);
        assert_eq!(cleaned.code, if is_inside { 3 } else { 0 }, "{cleaned:?}");
        for path in &theirs {
            assert_eq!(fs::read(path).unwrap(), b"somebody's", "{cleaned:?}");
        }
        for path in &theirs[1..] {
            assert_eq!(
                names(path.parent().unwrap()),
                ["thesis"],
                "nothing else is left: {cleaned:?}"
            );
        }
        assert_eq!((tree.exists(), kept.exists()), (is_inside, is_inside), "{cleaned:?}");
        sandbox.nothing_left(&[]);
    }
}

/// Cleans again and again, each time for longer, until that is not killed before its end.
fn kill_cleans(sandbox: &Sandbox, dir: &Path) {
    let mut kills = 0;
    loop {
        let mut command = sandbox.command(&["clean", p(dir)]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Kept(command.spawn().unwrap());
        std::thread::sleep(Duration::from_millis(20 + 30 * kills));
        let has_ended = running.0.try_wait().unwrap().is_some();
        running.kill();
        // Enough to have met trees and test files; at the end nothing may be left to be killed at.
        if has_ended || kills == 8 {
            break;
        }
        kills += 1;
    }
    assert!(kills > 2, "{kills}");
    counted("kills of fathom clean", kills as usize);
}

fn exercise() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let settings = ["run", "exercise", p(&dir), "operations=200", "--seed=7"];
    let [one, again] = [0, 1].map(|_| sandbox.json(&settings, &[0]).result());
    assert_eq!((&one["by_kind"], &one["seed"]), (&again["by_kind"], &7.into()));
    assert!(sandbox.run(&settings).stdout.contains("Every byte that was read was the right one"));
    sandbox.run(&["run", "exercise", p(&dir), "ops=1"]).is_refusal(2, &["operations"]);
    sandbox.run(&["run", "exercise", p(&dir), "--repeats=2"]).is_refusal(2, &["measures nothing"]);
    sandbox.nothing_left(&[&dir]);
}

/// Bytes change below the filesystem meanwhile: what was wrong is shown, with a command that does the same again.
fn exercise_spoilt() {
    let sandbox = Sandbox::new();
    let mounted = MountedFs::new(FsKind::Ext4, 3 << 30).unwrap();
    let args = ["run", "exercise", p(mounted.dir()), "duration=5m", "files=1", "size=4M"];
    let found = std::thread::scope(|scope| {
        let runs = scope.spawn(|| sandbox.run(&[&args[..], &["--seed=5"]].concat()));
        while !runs.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(500));
            spoil(&mounted);
        }
        runs.join().unwrap()
    });
    assert_eq!(found.code, 5, "{found:?}");
    for words in ["WRONG: file 0, ", "  expected ", "  found  ", "the last operations on this file"]
    {
        assert!(found.stdout.contains(words), "{words}: {found:?}");
    }
    let line = found.stdout.lines().find_map(|line| line.split_once("operations again: fathom "));
    let again: Vec<&str> = line.unwrap().1.split(' ').collect();
    assert!(again.contains(&"--seed=5") && again.contains(&"size=4M"), "{again:?}");
    let repeated = sandbox.run(&again);
    assert_eq!(repeated.code, 0, "nothing changes below now: {repeated:?}");
    sandbox.nothing_left(&[mounted.dir()]);
}

/// Changes a byte in each block of the exerciser's file, which has no name, below the frozen filesystem.
fn spoil(mounted: &MountedFs) {
    let dev = mounted.dir().metadata().unwrap().dev();
    let is_it = |path: &PathBuf| {
        path.metadata().is_ok_and(|m| m.is_file() && m.dev() == dev && m.nlink() == 0)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let open = processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok());
    let Some(path) = open.flatten().flatten().map(|fd| fd.path()).find(is_it) else { return };
    let Ok(file) = fs::File::open(path) else { return };
    let frozen = mounted.mount().freeze().unwrap();
    let mut places = Vec::new();
    let _ = fathom_sys::fiemap::for_each_extent_now(&file, |extent| {
        if extent.has_position() && !extent.is_unwritten() {
            places.extend((extent.physical..extent.physical + extent.length).step_by(4096));
        }
        true
    });
    let backing = mounted.device().backing();
    let backing = fs::File::options().read(true).write(true).open(backing).unwrap();
    for place in places {
        let mut byte = [0];
        backing.read_exact_at(&mut byte, place + 77).unwrap();
        backing.write_all_at(&[!byte[0]], place + 77).unwrap();
    }
    drop(frozen);
    // The device shows its file's pages; the filesystem's own must go.
    let _ = fs::write("/proc/sys/vm/drop_caches", "1");
}
