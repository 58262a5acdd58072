//! The `fathom` binary as a user calls it, with a store of its own in a scratch directory.

use fathom_testkit::{Scratch, fathom_binary};
use serde_json::Value;
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// A command that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(900);
/// How long to wait while somebody else on the machine measures.
const LOCK_LIMIT: Duration = Duration::from_secs(900);

/// A path as an argument.
pub fn p(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// A scratch directory with a store in `state/` and a directory `d` for targets.
pub struct Sandbox {
    pub scratch: Scratch,
    db: PathBuf,
}

impl Sandbox {
    pub fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        fs::create_dir(scratch.join("d")).unwrap();
        let db = scratch.join("state/fathom.db");
        Self { scratch, db }
    }

    /// The store lies there.
    pub fn with_db(db: PathBuf) -> Self {
        Self { db, ..Self::new() }
    }

    /// Makes the directory of the store, beside which nothing is noted yet.
    pub fn make_state(&self) {
        fs::create_dir(self.db.parent().unwrap()).unwrap();
    }

    /// The store's file.
    pub fn db(&self) -> &Path {
        &self.db
    }

    /// A directory for targets on the disk of the machine.
    pub fn dir(&self) -> PathBuf {
        self.scratch.join("d")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(fathom_binary().unwrap());
        command.arg("--db").arg(&self.db).args(args).stdin(Stdio::null());
        command.env("LC_ALL", "C").env_remove("FATHOM_DB");
        command
    }

    /// The same, started by another program, such as `ionice -c1`.
    pub fn command_by(&self, by: &[&str], args: &[&str]) -> Command {
        let own = self.command(args);
        let mut command = Command::new(by[0]);
        command.args(&by[1..]).arg(own.get_program()).args(own.get_args()).stdin(Stdio::null());
        command.env("LC_ALL", "C").env_remove("FATHOM_DB");
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        run(|| self.command(args))
    }

    /// Runs it with `--json`, which must end with one of the codes.
    #[track_caller]
    pub fn json(&self, args: &[&str], codes: &[i32]) -> Done {
        let done = self.run(&[&["--json", "--quiet"], args].concat());
        assert!(codes.contains(&done.code), "{args:?}: {done:?}");
        done
    }

    /// A refused command: the code, and one message on standard error with all the words; standard output stays empty,
    /// and nothing is left.
    #[track_caller]
    pub fn refuses(&self, args: &[&str], code: i32, words: &[&str]) -> Done {
        let done = self.run(args);
        done.is_refusal(code, words);
        self.nothing_left(&[]);
        done
    }

    /// Starts it with `--json` and waits for an event of that type, the `count`-th.
    pub fn start(&self, args: &[&str], kind: &str, count: usize) -> Running {
        let mut command = self.command(&[&["--json"], args].concat());
        Running::start(&mut command, kind, count)
    }

    /// No test directory in the places, no entry in the journal, no side file of the store.
    #[track_caller]
    pub fn nothing_left(&self, places: &[&Path]) {
        let own = self.dir();
        for place in places.iter().copied().chain([own.as_path()]) {
            let left: Vec<String> =
                names(place).into_iter().filter(|name| name.contains("fathom")).collect();
            assert!(left.is_empty(), "left in {}: {left:?}", place.display());
        }
        let state = self.db.parent().unwrap();
        assert_eq!(names(&state.join("owned")), Vec::<String>::new(), "journal entries");
        let beside: Vec<String> =
            names(state).into_iter().filter(|name| name.starts_with("fathom.db-")).collect();
        assert!(beside.is_empty(), "{beside:?}");
    }

    /// The stored runs, newest first.
    pub fn runs(&self) -> Vec<Value> {
        let done = self.json(&["list"], &[0]);
        done.result()["runs"].as_array().unwrap().clone()
    }
}

/// A copy of the binary in an opened scratch directory, for the user nobody: the build directory may be closed to others.
pub fn binary_for_nobody(scratch: &Scratch) -> PathBuf {
    let binary = scratch.join("fathom");
    fs::copy(fathom_binary().unwrap(), &binary).unwrap();
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    binary
}

/// That binary as the user nobody. Needs `Tool("setpriv")`.
pub fn as_nobody(binary: &Path) -> Command {
    let mut command = fathom_testkit::command::tool("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(binary);
    command
}

/// Waits until something is so: what takes no time at all may take a minute where others use the machine.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "still not so: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a directory holds; nothing when there is none.
pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Runs a command; again while another measurement holds the machine.
pub fn run(make: impl Fn() -> Command) -> Done {
    let begun = Instant::now();
    loop {
        let mut command = make();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let done = Running::of(child).finish();
        if !done.is_locked_out() {
            return done;
        }
        assert!(begun.elapsed() < LOCK_LIMIT, "{done:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// A process that does not outlive its test: one that went on for minutes would keep all others from measuring.
pub struct Kept(pub Child);

impl Kept {
    /// SIGKILL, and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A command that has ended.
pub struct Done {
    /// Exit code; 128 + the signal when a signal ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |text: &str| match text.char_indices().nth(1500) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        let (stdout, stderr) = (short(&self.stdout), short(&self.stderr));
        write!(f, "code {}\nstdout: {stdout}\nstderr: {stderr}", self.code)
    }
}

impl Done {
    pub fn of(status: ExitStatus, stdout: String, stderr: String) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
        Self { code, stdout, stderr }
    }

    pub fn is_locked_out(&self) -> bool {
        self.code == 3 && self.stderr.contains("another measurement is running")
    }

    #[track_caller]
    pub fn is_refusal(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "a refusal prints no result: {self:?}");
        // What a fathom killed by another test, at the same time, had left is taken away by the next one, which says so.
        let is_of_others =
            |line: &&str| line.starts_with("ended: ") || line.starts_with("removed: trace ");
        let said: String = self.stderr.split_inclusive('\n').skip_while(is_of_others).collect();
        let message = said.strip_prefix("fathom: ");
        let message = message.unwrap_or_else(|| panic!("nothing but the error: {self:?}"));
        for word in words {
            assert!(message.contains(word), "'{word}' is not in: {message}");
        }
    }

    /// All objects of standard output; each must have type and schema, the last one be the result.
    #[track_caller]
    pub fn objects(&self) -> Vec<Value> {
        let parse = |line: &str| -> Value {
            let object: Value =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert!(object["type"].is_string() && object["schema"].is_string(), "{line}");
            object
        };
        self.stdout.lines().map(parse).collect()
    }

    #[track_caller]
    pub fn result(&self) -> Value {
        let last = self.objects().pop().unwrap_or_else(|| panic!("no result: {self:?}"));
        assert_eq!(last["type"], "result");
        last
    }

    /// The result's records.
    #[track_caller]
    pub fn records(&self) -> Vec<Value> {
        self.result()["records"].as_array().unwrap_or_else(|| panic!("{self:?}")).clone()
    }

    /// The identifiers of the findings.
    #[track_caller]
    pub fn findings(&self) -> Vec<String> {
        let result = self.result();
        let findings = result["findings"].as_array().unwrap();
        findings.iter().map(|f| f["id"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn finding(&self, id: &str) -> Value {
        let result = self.result();
        let findings = result["findings"].as_array().unwrap();
        let found = findings.iter().find(|f| f["id"] == id).cloned();
        found.unwrap_or_else(|| panic!("no finding {id} in {findings:#?}"))
    }

    #[track_caller]
    pub fn has_not(&self, id: &str) {
        let ids = self.findings();
        assert!(!ids.iter().any(|known| known == id), "{id} in {ids:?}");
    }

    /// The first word that a text for people names a stored run by.
    #[track_caller]
    pub fn id(&self) -> String {
        self.result()["id"].as_str().unwrap().to_owned()
    }
}

/// The classes of all jobs of a record that move data and are no sums of others.
fn transfers(record: &Value) -> impl Iterator<Item = &Value> {
    let jobs = record["jobs"].as_array().unwrap();
    let classes = jobs.iter().flat_map(|job| job["classes"].as_array().unwrap());
    classes.filter(|class| {
        ["read", "write", "synced_write"].contains(&class["class"].as_str().unwrap())
    })
}

/// Requests of a record that moved data.
pub fn operations(record: &Value) -> u64 {
    transfers(record).map(|class| class["latency_ns"]["count"].as_u64().unwrap_or(0)).sum()
}

/// Bytes that a record moved.
pub fn bytes(record: &Value) -> u64 {
    transfers(record).map(|class| class["bytes"].as_u64().unwrap()).sum()
}

/// A command that runs; killed when dropped.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    said: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub fn of(mut child: Child) -> Self {
        let (lines, said) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let mut readers = Vec::new();
        if let Some(out) = child.stdout.take() {
            let sink = lines.clone();
            readers.push(thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    sink.lock().unwrap().push(line);
                }
            }));
        }
        if let Some(mut err) = child.stderr.take() {
            let sink = said.clone();
            readers.push(thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(len @ 1..) = err.read(&mut piece) {
                    sink.lock().unwrap().extend_from_slice(&piece[..len]);
                }
            }));
        }
        Self { child, lines, said, readers }
    }

    /// What it has written to standard error so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Waits until it has written this to standard error.
    #[track_caller]
    pub fn wait_for_words(&self, words: &str) {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(begun.elapsed() < LIMIT, "no '{words}' in: {}", self.said());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// True when it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Starts a command with `--json` and waits for its `count`-th event of a type; starts again while another
    /// measurement holds the machine.
    pub fn start(command: &mut Command, kind: &str, count: usize) -> Self {
        let begun = Instant::now();
        loop {
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut running = Self::of(child);
            let seen = running.wait_for(kind, count);
            if seen {
                return running;
            }
            let done = running.finish();
            assert!(done.is_locked_out(), "ended before {kind}: {done:?}");
            assert!(begun.elapsed() < LOCK_LIMIT, "{done:?}");
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits for the `count`-th event of a type; false when the command ended before.
    pub fn wait_for(&mut self, kind: &str, count: usize) -> bool {
        let begun = Instant::now();
        while self.events(kind) < count {
            if self.child.try_wait().unwrap().is_some() {
                // Its last words may still be on their way.
                wait_until("all is read", || self.readers.iter().all(JoinHandle::is_finished));
                return self.events(kind) >= count;
            }
            assert!(begun.elapsed() < LIMIT, "no {kind}: {:?}", self.lines.lock().unwrap());
            thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Waits until about so many requests have ended, by the rates that it has told once a second.
    pub fn wait_for_requests(&mut self, count: f64) {
        let iops = |line: &String| {
            let event: Value = serde_json::from_str(line).ok()?;
            (event["type"] == "progress").then(|| event["iops"].as_f64()).flatten()
        };
        let ended = || self.lines.lock().unwrap().iter().filter_map(iops).sum::<f64>();
        wait_until("it has done that much", || ended() > count);
    }

    /// How many events of a type there have been; of progress, those that tell of some: a disk may stand still for seconds.
    pub fn events(&self, kind: &str) -> usize {
        let sought = format!("\"type\":\"{kind}\"");
        let is_one = |line: &&String| line.contains(&sought) && !line.contains("\"iops\":0.0,");
        self.lines.lock().unwrap().iter().filter(is_one).count()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let args = [format!("-{name}"), self.pid().to_string()];
        fathom_testkit::command::run_tool("kill", args).unwrap();
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Done {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "still running: {:?}", self.lines.lock().unwrap());
            thread::sleep(Duration::from_millis(2));
        };
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        let mut stdout = self.lines.lock().unwrap().join("\n");
        if !stdout.is_empty() {
            stdout.push('\n');
        }
        Done::of(status, stdout, self.said())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ended processes are waited for already; killing them does nothing.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
