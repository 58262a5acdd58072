//! SIGKILL at any time: while a tree is built, while it is removed. What others put there stays, everything else goes.

use crate::kit::{CHILD_FILES, Kit, check_tree, paths_below, small, start};
use fathom_guard::FileRefusal;
use fathom_testkit::{Scratch, Trial, counted, kernel_test, sample};
use fathom_tree::error::TreeError;
use fathom_tree::manifest::check::Depth;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("tree_killed_while_built_and_removed", &[], killed),
        kernel_test("tree_killed_while_built_is_gone_on_with", &[], gone_on_with),
        kernel_test("tree_draft_of_a_card", &[], draft),
    ]
}

/// Starts a child and kills it after a while; true when it had not ended by itself.
fn kill_after(role: &str, dir: &Path, state: &Path, wait: Duration) -> bool {
    let mut child = start(role, dir, state);
    std::thread::sleep(wait);
    child.kill().unwrap();
    !child.wait().unwrap().success()
}

/// Waits of all lengths up to what a whole build takes.
fn waits(count: usize) -> impl Iterator<Item = Duration> {
    (0..count).map(move |at| Duration::from_millis(2 + (700 * at / count) as u64))
}

/// Puts somebody's files into what is there of a tree.
fn put_foreign(dir: &Path) -> Vec<PathBuf> {
    let mut put = Vec::new();
    let dirs: Vec<PathBuf> =
        paths_below(dir).into_iter().filter(|path| dir.join(path).is_dir()).collect();
    for at in dirs.iter().step_by(17).map(|path| dir.join(path)).chain([dir.to_owned()]) {
        let path = at.join("thesis.tex");
        fs::write(&path, "years of work").unwrap();
        put.push(path);
    }
    put
}

fn killed() {
    let count = sample(12, 300);
    let mut kills = 0;
    for (number, wait) in waits(count).enumerate() {
        let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
        let dir = scratch.join("tree");
        kills += usize::from(kill_after("build", &dir, kit.state.path(), wait));
        let foreign = if number % 3 > 0 && dir.exists() { put_foreign(&dir) } else { Vec::new() };
        if number % 2 == 1 {
            kills += usize::from(kill_after("clean", &dir, kit.state.path(), wait / 4));
        }
        match kit.clean(&dir) {
            Ok(_) | Err(TreeError::NoTree(_)) => {}
            // Killed before it was made, or after it was removed.
            Err(TreeError::Refused(FileRefusal::Missing(_))) if !dir.exists() => {}
            Err(error) => panic!("round {number}: {error}"),
        }
        let mut left: Vec<PathBuf> = paths_below(scratch.path())
            .into_iter()
            .filter(|path| scratch.join(path).is_file())
            .collect();
        left.sort();
        let mut expected: Vec<PathBuf> = foreign
            .iter()
            .map(|path| path.strip_prefix(scratch.path()).unwrap().to_owned())
            .collect();
        expected.sort();
        assert_eq!(left, expected, "round {number}, {wait:?}");
        for path in foreign {
            assert_eq!(fs::read(path).unwrap(), b"years of work");
        }
    }
    assert!(kills >= count / 2, "{kills} of {count}");
    counted("kills of builds and removals of trees", kills);
}

/// What a builder leaves that was killed before its card had its name goes; what somebody else put there under that name stays.
fn draft() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    kit.build(&dir, small(10)).unwrap();
    let card = fs::read(dir.join(".fathom-tree")).unwrap();
    kit.clean(&dir).unwrap();
    let draft = dir.join(".fathom-tree.new");
    for (text, stays) in [
        (&b""[..], false),
        (&card[..], false),
        (b"years of work", true),
        (b"\xff\xfe", true),
        (&card[..card.len() / 2], true),
    ] {
        fs::create_dir_all(&dir).unwrap();
        fs::write(&draft, text).unwrap();
        assert!(matches!(kit.clean(&dir), Err(TreeError::NoTree(_))));
        assert_eq!(draft.exists(), stays, "{}", String::from_utf8_lossy(text));
    }
}

fn gone_on_with() {
    let (kit, scratch) = (Kit::new(), Scratch::new().unwrap());
    let dir = scratch.join("tree");
    let mut rounds = 0;
    for wait in waits(8) {
        if kill_after("build", &dir, kit.state.path(), wait / 2) {
            rounds += 1;
        } else {
            // It was whole before the kill came: the next one has something to build again.
            kit.clean(&dir).unwrap();
        }
    }
    assert!(rounds > 0, "every build ended before its kill");
    let built = kit.build(&dir, small(CHILD_FILES)).unwrap();
    drop(built);
    let report = check_tree(&dir, Depth::Content);
    assert_eq!((report.files, report.deviations), (CHILD_FILES, 0), "{report:?}");
    assert_eq!(kit.clean(&dir).unwrap().files, CHILD_FILES);
    let left = paths_below(scratch.path());
    assert!(left.is_empty(), "{left:?}");
}
