//! The store against other processes: writers killed at any moment, and users without rights.
//!
//! The test starts itself again as the other process.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

mod common;

use common::{START_NS, head, record, writer};
use fathom_base::prng::Prng;
use fathom_store::{Filter, Store, StoreError};
use fathom_testkit::{counted, kernel_test, run, sample};
use rusqlite::Connection;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// What the other process shall do, then a path, then a run's identifier.
const ROLE: &str = "FATHOM_STORE_TEST_ROLE";

fn main() -> std::process::ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        return other_process(&role, &arguments);
    }
    run(vec![
        kernel_test("kill_at_any_moment", &[], kill_at_any_moment),
        kernel_test("users_without_rights", &[], users_without_rights),
    ])
}

fn other_process(role: &str, arguments: &[String]) -> std::process::ExitCode {
    let [path, id] = arguments else { panic!("usage: PATH ID") };
    let path = Path::new(path);
    let result = match role {
        "write" => Store::open(path, START_NS).and_then(|mut store| {
            store.begin_run(&head(id, START_NS), &writer())?;
            for seed in 0.. {
                let index = store.add_trial(id, &record("killed", seed))?;
                // Not buffered: the line is out before the next trial begins.
                writeln!(std::io::stdout(), "{index}").expect("prints");
            }
            Ok(())
        }),
        "begin" => Store::open(path, START_NS)
            .and_then(|mut store| store.begin_run(&head(id, START_NS), &writer())),
        "list" => Store::open_read_only(path)
            .and_then(|store| store.list(&Filter::default()))
            .map(|runs| println!("{} runs", runs.len())),
        other => panic!("no such role: {other}"),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn id(number: u64) -> String {
    format!("{number:012}")
}

/// After a kill every trial that was reported is there, and at most the one whose report was cut.
fn kill_at_any_moment() -> Result<(), Box<dyn Error>> {
    let kills = sample(30, 2000) as u64;
    let mut prng = Prng::new(0xdead, 1);
    let directory = TempDir::new()?;
    let mut path = PathBuf::new();
    let (mut reported, mut stored, mut hot_journals) = (0, 0, 0);
    for kill in 0..kills {
        // Every tenth store is new, so that its making is interrupted too.
        if kill % 10 == 0 {
            path = directory.path().join(format!("{kill}/fathom.db"));
        }
        let mut child = Command::new(std::env::current_exe()?)
            .env(ROLE, "write")
            .args([path.as_os_str(), id(kill).as_ref()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut printed = String::new();
        // Half of them at any moment since the start, half while trials are being written.
        if kill % 2 == 1 {
            out.read_line(&mut printed)?;
        }
        std::thread::sleep(Duration::from_micros(prng.below(100_000)));
        child.kill()?;
        out.read_to_string(&mut printed)?;
        let status = child.wait()?;
        if status.code().is_some() {
            return Err(format!("kill {kill}: the writer ended by itself: {printed}").into());
        }
        hot_journals += u64::from(path.with_extension("db-journal").exists());
        let count = printed.lines().count() as u64;
        reported += count;
        stored += check_after_kill(&path, kill, count)?;
    }
    counted("kills of a process that writes to the store", kills as usize);
    println!("{reported} trials reported, {stored} stored, {hot_journals} journals left");
    if reported < kills / 2 { Err("too few trials to mean anything".into()) } else { Ok(()) }
}

fn check_after_kill(path: &Path, kill: u64, reported: u64) -> Result<u64, Box<dyn Error>> {
    let store = match Store::open_read_only(path) {
        Ok(store) => store,
        // Killed before the store was made.
        Err(StoreError::Missing { .. }) if reported == 0 => return Ok(0),
        Err(error) => return Err(format!("kill {kill}: {error}").into()),
    };
    let stored = match store.load(&id(kill)) {
        Ok(run) => run.records,
        Err(StoreError::NotFound { .. }) if reported == 0 => Vec::new(),
        Err(error) => return Err(format!("kill {kill}: {error}").into()),
    };
    let count = stored.len() as u64;
    if !(reported..=reported + 1).contains(&count) {
        return Err(format!("kill {kill}: {reported} reported, {count} stored").into());
    }
    for (seed, found) in stored.iter().enumerate() {
        if found != &record("killed", seed as u64) {
            return Err(format!("kill {kill}: trial {seed} is not what was written").into());
        }
    }
    drop(store);
    let check: String =
        Connection::open(path)?.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if check == "ok" { Ok(count) } else { Err(format!("kill {kill}: {check}").into()) }
}

/// A directory with a store in it, and this program where any user may start it.
struct Rights {
    directory: TempDir,
    program: PathBuf,
}

impl Rights {
    fn new() -> Result<Self, Box<dyn Error>> {
        let directory = TempDir::new()?;
        let program = directory.path().join("program");
        std::fs::copy(std::env::current_exe()?, &program)?;
        let mut store = Store::open(&directory.path().join("place/fathom.db"), START_NS)?;
        store.begin_run(&head(&id(0), START_NS), &writer())?;
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755))?;
        Ok(Self { directory, program })
    }

    /// Sets modes of the directory and the file, and runs as somebody who owns neither.
    fn run(&self, modes: (u32, u32), role: &str, name: &str) -> Result<String, Box<dyn Error>> {
        let place = self.directory.path().join("place");
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755))?;
        std::fs::set_permissions(place.join("fathom.db"), PermissionsExt::from_mode(modes.1))?;
        std::fs::set_permissions(&place, PermissionsExt::from_mode(modes.0))?;
        let mut command = Command::new(&self.program);
        // Root may do everything, so the other process gives that up.
        if place.metadata()?.uid() == 0 {
            command.uid(65_534).gid(65_534);
        }
        let output =
            command.env(ROLE, role).args([&place.join(name), Path::new(&id(9))]).output()?;
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.trim().replace(&self.directory.path().display().to_string(), "DIR"))
    }
}

fn users_without_rights() -> Result<(), Box<dyn Error>> {
    let rights = Rights::new()?;
    let before = std::fs::read(rights.directory.path().join("place/fathom.db"))?;
    for (modes, role, name, expected) in [
        ((0o555, 0o444), "list", "fathom.db", "1 runs"),
        (
            (0o555, 0o444),
            "begin",
            "fathom.db",
            "store 'DIR/place/fathom.db' cannot be written: file, directory or filesystem is read-only \
             (this user cannot write to the file)",
        ),
        (
            (0o555, 0o666),
            "begin",
            "fathom.db",
            "store 'DIR/place/fathom.db' cannot be written: file, directory or filesystem is read-only",
        ),
        (
            (0o555, 0o000),
            "list",
            "fathom.db",
            "store 'DIR/place/fathom.db': no permission to read it",
        ),
        (
            (0o555, 0o000),
            "begin",
            "fathom.db",
            "store 'DIR/place/fathom.db': no permission to read it",
        ),
        (
            (0o555, 0o644),
            "begin",
            "new.db",
            "store 'DIR/place/new.db': no permission to make it (its directory is not writable)",
        ),
        (
            (0o555, 0o644),
            "begin",
            "new/new.db",
            "store 'DIR/place/new/new.db': cannot make its directory: Permission denied",
        ),
        (
            (0o000, 0o644),
            "list",
            "fathom.db",
            "store 'DIR/place/fathom.db': no permission to read it",
        ),
    ] {
        let text = rights.run(modes, role, name)?;
        if !text.starts_with(expected) {
            return Err(format!("{modes:?} {role} {name}:\n{text}\n{expected}").into());
        }
    }
    let after = std::fs::read(rights.directory.path().join("place/fathom.db"))?;
    if before == after { Ok(()) } else { Err("the store was changed".into()) }
}
