//! Private directories: made, emptied, and found again when their owner is dead.

use super::*;
use crate::leftovers;
use fathom_testkit::Scratch;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

struct Ground {
    scratch: Scratch,
    dir: PathBuf,
    state: PathBuf,
}

impl Ground {
    fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let (dir, state) = (scratch.path().join("my data"), scratch.path().join("state"));
        fs::create_dir(&dir).unwrap();
        Self { scratch, dir, state }
    }

    fn make(&self) -> PrivateDir {
        PrivateDir::create(&SysRoot::live(), &self.dir, "run1", None, &self.state).unwrap()
    }

    fn entry(&self) -> PathBuf {
        self.state.join("owned/run1.json")
    }

    /// As it is when the process that made it was killed.
    fn left(&self, change: impl FnOnce(&mut Value)) -> PathBuf {
        let made = self.make();
        let path = made.path().to_owned();
        fill(&path);
        std::mem::forget(made);
        let mut value: Value = serde_json::from_slice(&fs::read(self.entry()).unwrap()).unwrap();
        value["owner"]["start_time_ticks"] = json!(1);
        change(&mut value);
        fs::write(self.entry(), value.to_string()).unwrap();
        path
    }

    fn clean(&self) -> Outcome {
        let reports = leftovers::clean(&SysRoot::live(), &self.state, false).unwrap();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports[0].outcome.clone()
    }
}

fn fill(path: &Path) {
    fs::create_dir_all(path.join("pg/base/1")).unwrap();
    fs::write(path.join("pg/base/1/1259"), "rows").unwrap();
    fs::write(path.join(OsStr::from_bytes(b"odd\xff\n")), "x").unwrap();
}

#[test]
fn all_of_it_goes_and_nothing_that_it_points_to() {
    let ground = Ground::new();
    let outside = ground.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("thesis"), "precious").unwrap();
    let made = ground.make();
    fill(made.path());
    symlink(&outside, made.path().join("pg/link")).unwrap();
    assert!(ground.entry().exists());
    made.remove().unwrap();
    assert_eq!(fs::read_dir(&ground.dir).unwrap().count(), 0);
    assert!(outside.join("thesis").exists() && !ground.entry().exists());
    drop(ground.make());
    assert_eq!(fs::read_dir(&ground.dir).unwrap().count(), 0);
}

#[test]
fn what_is_put_in_its_place_stays() {
    let ground = Ground::new();
    let made = ground.make();
    fill(made.path());
    let (path, moved) = (made.path().to_owned(), ground.dir.join("moved"));
    fs::rename(&path, &moved).unwrap();
    let outside = ground.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("thesis"), "precious").unwrap();
    symlink(&outside, &path).unwrap();
    let refusal = made.remove().unwrap_err().to_string();
    assert!(refusal.contains("moved"), "{refusal}");
    assert!(outside.join("thesis").exists() && path.is_symlink());
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 0);
}

#[test]
fn one_of_a_dead_owner_is_removed_once() {
    let ground = Ground::new();
    let path = ground.left(|_| ());
    assert_eq!(ground.clean(), Outcome::Removed);
    assert!(!path.exists() && !ground.entry().exists());
}

#[test]
fn one_of_another_machine_or_of_a_living_owner_stays() {
    let ground = Ground::new();
    let path = ground.left(|value| {
        value["owner"]["boot_id"] = json!("another");
        value["owner"]["machine"] = json!("another/another");
    });
    assert_eq!(ground.clean(), Outcome::OwnerElsewhere { is_of_this_boot: false });
    assert!(path.join("pg/base/1/1259").exists());
    let ground = Ground::new();
    let made = ground.make();
    fill(made.path());
    assert!(matches!(ground.clean(), Outcome::OwnerAlive { .. }));
    assert!(made.path().join("pg/base/1/1259").exists());
}

#[test]
fn another_directory_of_that_name_stays() {
    let ground = Ground::new();
    let path = ground.left(|_| ());
    fs::rename(&path, ground.dir.join("copied")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis"), "precious").unwrap();
    assert!(matches!(ground.clean(), Outcome::Foreign { .. }));
    assert!(path.join("thesis").exists());
    // Killed before its identity was noted: it goes if nothing is in it.
    for is_empty in [true, false] {
        let ground = Ground::new();
        let path = ground.left(|value| value["id"] = Value::Null);
        if is_empty {
            fs::remove_dir_all(&path).unwrap();
            fs::create_dir(&path).unwrap();
        }
        assert_eq!(ground.clean() == Outcome::Removed, is_empty);
        assert_eq!(path.exists(), !is_empty);
    }
}

/// The application itself goes on: what ends it is its mark.
#[test]
fn processes_of_a_dead_owner_are_ended_and_others_are_not() {
    let root = SysRoot::live();
    let ground = Ground::new();
    let path = ground.left(|_| ());
    let own = Owner::current(&root).unwrap();
    let start = |ticks: u64| {
        let mark = format!("watch {} {ticks} {} 7", own.pid, own.pid_namespace);
        let words = ["sleep".into(), "1000".into()];
        let nowhere = child::Output::default();
        child::Program::start(&root, &words, Path::new("/"), nowhere, &mark).unwrap()
    };
    let (dead, living) = (start(1), start(own.start_time_ticks));
    assert_eq!(ground.clean(), Outcome::Removed);
    assert!(dead.has_ended() && !living.has_ended() && !path.exists());
    living.end();
}
