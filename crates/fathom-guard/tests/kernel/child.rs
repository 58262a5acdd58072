//! The same program as another process: one that owns files or the lock, and can be killed.

use fathom_base::prng::Prng;
use fathom_guard::names::NumberPlace;
use fathom_guard::{
    Consent, KeptFile, MeasuringLock, NamesDir, OwnedDir, OwnedFile, Protected, TestName,
    claim_block_device,
};
use fathom_sys::io::OpenMode;
use fathom_sys::sysroot::SysRoot;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

/// Variable that names the role.
pub const ROLE: &str = "FATHOM_GUARD_TEST_ROLE";
/// Variable that names the directory to work in.
const DIR: &str = "FATHOM_GUARD_TEST_DIR";
/// Variable that names the state directory.
const STATE: &str = "FATHOM_GUARD_TEST_STATE";

/// The run that a child's files belong to.
pub const RUN: &str = "child000run0";

/// A process in a role; killed when dropped.
pub struct Actor(Child);

impl Actor {
    /// Starts it and waits until it says that it is ready.
    pub fn start(role: &str, dir: &Path, state: &Path, uid: Option<u32>) -> Self {
        let (actor, line) = Self::start_and_listen(role, dir, state, uid);
        assert_eq!(line, "ready", "the child in role {role} failed");
        actor
    }

    /// Starts it and gives the first line that it says.
    pub fn start_and_listen(
        role: &str,
        dir: &Path,
        state: &Path,
        uid: Option<u32>,
    ) -> (Self, String) {
        let mut command = Command::new("/proc/self/exe");
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        Self::listen(command, role, dir, state)
    }

    /// The same, started by another program that takes something from it.
    pub fn start_under(wrapper: &[&str], role: &str, dir: &Path, state: &Path) -> (Self, String) {
        let mut command = Command::new(wrapper[0]);
        command.args(&wrapper[1..]).arg(std::env::current_exe().unwrap());
        Self::listen(command, role, dir, state)
    }

    fn listen(mut command: Command, role: &str, dir: &Path, state: &Path) -> (Self, String) {
        command.env(ROLE, role).env(DIR, dir).env(STATE, state);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut actor = Self(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(actor.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (actor, line.trim().to_owned())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub fn play(role: &str) -> ExitCode {
    let root = SysRoot::live();
    let place = |name: &str| std::path::PathBuf::from(std::env::var_os(name).unwrap());
    let (dir, state) = (place(DIR), place(STATE));
    match role {
        "directory" => {
            let mut owned = OwnedDir::create(&root, &dir, RUN, &state).unwrap();
            for name in ["a", "b"] {
                owned.create_file(name).unwrap().write_all(&written(100_000)).unwrap();
            }
            wait();
        }
        "file" => {
            let owned = OwnedFile::create(&root, &dir.join("new"), RUN, &state).unwrap();
            owned.file().write_all(&written(100_000)).unwrap();
            wait();
        }
        "sealed" => {
            let mut owned = OwnedFile::create(&root, &dir.join("new"), RUN, &state).unwrap();
            owned.file().write_all(&written(100_000)).unwrap();
            owned.seal().unwrap();
            let mut owned = OwnedDir::create(&root, &dir, RUN, &state).unwrap();
            owned.create_file("a").unwrap().write_all(&written(100_000)).unwrap();
            owned.seal_file("a").unwrap();
            wait();
        }
        "kept" => {
            let _kept = KeptFile::open(&root, &dir).unwrap();
            wait();
        }
        "churn" => churn(&root, &dir, &state),
        "tree" => {
            let mut owned = OwnedDir::create(&root, &dir, RUN, &state).unwrap();
            let tree = owned.create_tree(2500, &mut |_| true).unwrap();
            let mode = OpenMode { write: true, ..OpenMode::default() };
            for index in (0..2500).step_by(7) {
                tree.open(index, mode).unwrap().write_all(&written(9000)).unwrap();
            }
            wait();
        }
        "names" => {
            let mut owned = OwnedDir::create(&root, &dir, RUN, &state).unwrap();
            make_names(&mut owned, 700);
            wait();
        }
        "names_churn" => churn_of_many(&root, &dir, &state, |owned| {
            let (directory, names) = make_names(owned, 300);
            names.iter().step_by(2).for_each(|name| directory.delete(name).unwrap());
        }),
        "tree_churn" => churn_of_many(&root, &dir, &state, |owned| {
            owned.create_tree(1100, &mut |_| true).unwrap();
        }),
        "claim" => {
            let consent = Consent::new(vec![state.display().to_string()]);
            let protect = Protected { store_path: "/no/such/store".into() };
            let mode = OpenMode::default();
            match claim_block_device(&root, &dir, &consent, &protect, mode) {
                Ok(_) => println!("claimed"),
                Err(refusal) => println!("{refusal:?}"),
            }
        }
        "lock" => {
            let _lock = MeasuringLock::acquire_in(&root, &dir).unwrap();
            wait();
        }
        other => panic!("no such role: {other}"),
    }
    ExitCode::SUCCESS
}

/// Empty files, with their numbers first and last by turns.
fn make_names(owned: &mut OwnedDir, count: u32) -> (Arc<NamesDir>, Vec<TestName>) {
    let (directory, mut prng) = (owned.create_names().unwrap().renew().unwrap(), Prng::new(1, 0));
    let place = |number| if number % 2 == 0 { NumberPlace::First } else { NumberPlace::Last };
    let names = (0..count).map(|number| TestName::new(number, place(number), &mut prng));
    let names: Vec<TestName> = names.collect();
    names.iter().for_each(|name| directory.create(name).unwrap());
    (directory, names)
}

/// Fills and removes directories for ever.
fn churn_of_many(root: &SysRoot, dir: &Path, state: &Path, fill: impl Fn(&mut OwnedDir)) {
    say_ready();
    for number in 0_u64.. {
        let mut owned = OwnedDir::create(root, dir, &format!("{RUN}{number}"), state).unwrap();
        fill(&mut owned);
        if number % 2 == 0 {
            owned.remove().unwrap();
        }
    }
}

/// Makes and removes for ever, so that a kill meets any step.
fn churn(root: &SysRoot, dir: &Path, state: &Path) {
    say_ready();
    for number in 0_u64.. {
        let run = format!("{RUN}{number}");
        let mut owned = OwnedDir::create(root, dir, &run, state).unwrap();
        for name in ["a", "b", "c"] {
            owned.create_file(name).unwrap().write_all(&written(9000)).unwrap();
        }
        let file = OwnedFile::create(root, &dir.join("new"), &run, state).unwrap();
        file.file().write_all(&written(9000)).unwrap();
        if number % 2 == 0 {
            file.remove().unwrap();
            owned.remove().unwrap();
        }
    }
}

/// As a run writes.
pub fn written(bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    fathom_base::content::Filler::noise(7).fill(&mut data, 0, 1);
    data
}

fn say_ready() {
    println!("ready");
    std::io::stdout().flush().unwrap();
}

/// Until the kill, or until the parent is gone and with it the other end of the pipe.
fn wait() {
    say_ready();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
