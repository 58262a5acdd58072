//! The measuring lock between processes, users and planted files.

use super::*;
use std::io::Read;
use std::process::{Command, Stdio};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fathom-lock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
        Self(dir)
    }

    fn acquire(&self) -> Result<MeasuringLock, LockError> {
        MeasuringLock::acquire_in(&SysRoot::live(), &self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn the_second_is_told_about_the_first() {
    let scratch = Scratch::new("second");
    let first = scratch.acquire().unwrap();
    let LockError::Held { holder } = scratch.acquire().unwrap_err() else { panic!("not held") };
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(!holder.command.is_empty() && holder.age_s.is_some(), "{holder:?}");
    drop(first);
    scratch.acquire().unwrap();
}

#[test]
fn a_killed_holder_holds_nothing() {
    let scratch = Scratch::new("killed");
    let path = scratch.acquire().unwrap().path().to_owned();
    let mut child = Command::new("flock")
        .args(["--no-fork", path.to_str().unwrap(), "sleep", "60"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let started = std::time::Instant::now();
    let holder = loop {
        assert!(started.elapsed().as_secs() < 20, "the child does not take the lock");
        match scratch.acquire() {
            Err(LockError::Held { holder }) => break holder,
            other => drop(other),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(holder.pid, Some(child.id()));
    scratch.acquire().unwrap();
}

/// What was killed in the middle of a write goes on for a while: who comes next waits for it, and for nobody else.
#[test]
fn one_who_is_dying_is_waited_for() {
    let scratch = Scratch::new("dying");
    let of = |status: &str| {
        let (held, tree) = (scratch.acquire().unwrap(), fathom_testkit::Tree::new());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        let (own, inode) = (std::process::id(), held.path().metadata().unwrap().ino());
        let is_it = |line: &&str| {
            line.contains(&format!(" {own} ")) && line.contains(&format!(":{inode} "))
        };
        let line = locks.lines().find(is_it).unwrap();
        tree.put("proc/locks", line.replace(&format!(" {own} "), " 77 "));
        tree.put("proc/77/status", status);
        let dying = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            drop(held);
        });
        let got = MeasuringLock::acquire_in(&tree.root(), &scratch.0).is_ok();
        dying.join().unwrap();
        got
    };
    assert!(!of("Name:\tfathom\nVmSize:\t 4 kB\nSigPnd:\t0000000000000000\n"));
    assert!(of("Name:\tfathom\nState:\tZ (zombie)\n"));
    assert!(of("Name:\tfathom\nVmSize:\t 4 kB\nSigPnd:\t0000000000000100\n"));
}

/// The kernel counts the lock as that of who took it, who is dead; it is held by what has inherited its open files.
#[test]
fn what_a_dead_one_was_starting_is_waited_for() {
    let scratch = Scratch::new("starting");
    let path = scratch.acquire().unwrap().path().to_owned();
    let script = "exec 9<\"$0\"; flock 9; echo held; sleep 0.5";
    let mut child = Command::new("sh")
        .args(["-c", script, path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 5];
    child.stdout.take().unwrap().read_exact(&mut held).unwrap();
    let got = scratch.acquire();
    child.wait().unwrap();
    assert!(got.is_ok(), "{got:?}");
}

#[test]
fn planted_files_are_neither_followed_nor_trusted() {
    let scratch = Scratch::new("planted");
    let (path, victim) = (scratch.0.join(FILE_NAME), scratch.0.join("victim"));
    std::fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    assert!(matches!(scratch.acquire(), Err(LockError::Unusable { .. })));
    let text = scratch.acquire().err().unwrap().to_string();
    assert!(text.ends_with(&format!("remove it as root: rm {}", path.display())), "{text}");
    std::fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(matches!(scratch.acquire(), Err(LockError::Unusable { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(&victim, &path).unwrap();
    let lock = scratch.acquire().unwrap();
    drop(lock);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious", "nothing is ever written");
}

#[test]
fn the_file_of_another_user_is_good_enough() {
    let scratch = Scratch::new("other");
    let path = scratch.0.join(FILE_NAME);
    std::fs::write(&path, "old words").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    // Only root can give files away; for others the test is the same without that.
    std::os::unix::fs::chown(&path, Some(65534), Some(65534)).ok();
    let lock = scratch.acquire().unwrap();
    assert!(scratch.acquire().is_err());
    drop(lock);
    assert_eq!(std::fs::read(&path).unwrap(), b"old words");
}

#[test]
fn a_lock_file_that_is_replaced_while_held_still_lets_only_one_in() {
    let scratch = Scratch::new("replaced");
    let first = scratch.acquire().unwrap();
    // A cleaner of temporary files removes it: the next one makes a new file, which is a known limit of lock files.
    // What must not happen is that somebody holds a lock on a file without a name.
    std::fs::remove_file(first.path()).unwrap();
    let second = scratch.acquire().unwrap();
    assert!(second.path().exists());
    assert!(matches!(scratch.acquire(), Err(LockError::Held { .. })));
}

#[test]
fn everybody_meets_at_one_place() {
    let place = place();
    assert!(PLACES.contains(&place.to_str().unwrap()));
    assert!(place.is_dir());
}

#[test]
fn the_kernels_list_is_read_by_device_and_inode() {
    let file = FileFacts {
        dev: raw_device(0xfe, 0),
        inode: 131,
        born_ns: None,
        modified_ns: 0,
        size_bytes: 0,
        links: 1,
        uid: 0,
        is_file: true,
        is_dir: false,
        is_symlink: false,
    };
    let cases = [
        ("1: FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF", Some(1234)),
        ("1: FLOCK  ADVISORY  WRITE 1234 fe:00:132 0 EOF", None),
        ("1: POSIX  ADVISORY  WRITE 1234 fe:00:131 0 EOF", None),
        ("1: -> FLOCK  ADVISORY  WRITE 1234 fe:00:131 0 EOF", None),
        ("rubbish", None),
    ];
    for (line, expected) in cases {
        assert_eq!(holder_in(line, file), expected, "{line}");
    }
}

fn raw_device(major: u32, minor: u32) -> u64 {
    fathom_sys::devno::DevNo { major, minor }.to_raw()
}
