//! `fathom lab --detach` and `fathom attach`: an experiment without a terminal, and those who look at it, well or badly.

use crate::cli::{Done, Kept, Running, Sandbox, names, p, run, wait_until};
use fathom_testkit::Capability::FathomBinary;
use fathom_testkit::{Trial, kernel_test};
use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("detach_a_command", &[FathomBinary], command),
        kernel_test("attach_to_nothing", &[FathomBinary], nothing),
        kernel_test("attach_well_and_badly", &[FathomBinary], looked_at),
        kernel_test("attach_leaves_what_others_have_there", &[FathomBinary], others_things),
        kernel_test("attach_and_end", &[FathomBinary], ended_from_elsewhere),
        kernel_test("detach_what_cannot_begin", &[FathomBinary], cannot_begin),
        kernel_test("detach_what_ends_at_once", &[FathomBinary], ends_at_once),
    ]
}

/// A plan of so many short trials, without a disk.
pub fn plan(sandbox: &Sandbox, blocks: u32) -> PathBuf {
    let text = format!(
        "target = 'null:'\n[[workload]]\nuse = 'randread'\nduration = '1s'\nwarmup = '0s'\nrate = '1000'\n\
         [factors]\nworkload.block_size = ['4k', '8k']\n[design]\nblocks = {blocks}\nsequential = false\n"
    );
    crate::lab::plan(sandbox, "looked-at", &text)
}

fn socket(sandbox: &Sandbox) -> PathBuf {
    sandbox.db().parent().unwrap().join(".fathom-live.sock")
}

/// Starts an experiment without a terminal; its process and its log.
#[track_caller]
pub fn detached(sandbox: &Sandbox, plan: &Path) -> (u32, PathBuf) {
    let done = sandbox.run(&["--json", "lab", "--detach", p(plan)]);
    assert_eq!(done.code, 0, "{done:?}");
    let result = done.result();
    (result["pid"].as_u64().unwrap() as u32, PathBuf::from(result["log"].as_str().unwrap()))
}

fn attach(sandbox: &Sandbox) -> Running {
    let mut command = sandbox.command(&["attach"]);
    Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn nothing() {
    let sandbox = Sandbox::new();
    let done: Done = sandbox.run(&["attach"]);
    done.is_refusal(2, &["no lab, raid, layers, saturate or size is running"]);
}

/// One who is killed, one who never reads, and one who looks to the end.
fn looked_at() {
    let sandbox = Sandbox::new();
    let (pid, log) = detached(&sandbox, &plan(&sandbox, 2));
    let session = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = session.rsplit_once(')').unwrap().1.split_whitespace().collect();
    assert_eq!(fields[3], pid.to_string(), "leads a session of its own");
    // As who looks for it by its name, or for the log by its number, finds it.
    assert!(session.starts_with(&format!("{pid} (fathom)")), "{session}");
    assert!(p(&log).ends_with(&format!("-{pid}.log")), "{log:?}");
    let deaf = UnixStream::connect(socket(&sandbox)).unwrap();
    let mut killed = Kept(sandbox.command(&["attach"]).stderr(Stdio::null()).spawn().unwrap());
    thread::sleep(Duration::from_millis(500));
    killed.kill();
    let done = attach(&sandbox).finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert!(done.stdout.starts_with("The run has ended, exit code "), "{done:?}");
    assert!(done.stderr.contains("IOPS, p50"), "finished trials are told of: {done:?}");
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
    drop(deaf);
    wait_until("the process has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    let runs = sandbox.runs();
    assert_eq!((&runs[0]["state"], runs[0]["trials"].as_u64()), (&"complete".into(), Some(4)));
    assert!(!socket(&sandbox).exists());
    // The log has the result; of what merely went on it has nothing.
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("Stored as") && text.contains("block 2/2"), "{text}");
    assert!(!text.contains("left in all"), "{text}");
}

/// A file, or a socket at which another program listens, stays where the door would be, and measurements need no door; a
/// socket that a killed one left goes.
fn others_things() {
    let sandbox = Sandbox::new();
    let path = socket(&sandbox);
    let short = ["run", "randread", "null:", "duration=100ms", "warmup=0s"];
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let plan = plan(&sandbox, 1);
    let all_run = || {
        for args in [&short[..], &["restore"], &["lab", p(&plan)]] {
            let done = sandbox.run(args);
            assert!([0, 1].contains(&done.code), "{args:?} {done:?}");
        }
    };
    fs::write(&path, "somebody's").unwrap();
    all_run();
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    all_run();
    assert!(UnixStream::connect(&path).is_ok());
    drop(listener);
    assert!(path.exists());
    assert!([0, 1].contains(&sandbox.run(&short).code));
    assert!(!path.exists(), "nobody listens there any more");
}

/// A command tells nothing of itself: that it runs is known, and nobody waits for its end, nor for the end of their patience, which is 20 s.
fn command() {
    let sandbox = Sandbox::new();
    let begun = sandbox.scratch.join("begun");
    let load = format!("echo >> {}; sleep 600", p(&begun));
    let text = format!(
        "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = '{load}'\n[design]\nblocks = 1\n[[objective]]\nmetric = 'application'\n"
    );
    let started = Instant::now();
    let (pid, log) = detached(&sandbox, &crate::lab::plan(&sandbox, "command", &text));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    wait_until("the command runs", || begun.exists());
    fathom_testkit::command::run_tool("kill", ["-INT".to_owned(), pid.to_string()]).unwrap();
    wait_until("the process has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    assert!(fs::read_to_string(log).unwrap().contains("nterrupted"));
}

fn ended_from_elsewhere() {
    let sandbox = Sandbox::new();
    let (pid, _) = detached(&sandbox, &plan(&sandbox, 100));
    let running = attach(&sandbox);
    wait_until("a trial has ended", || sandbox.runs()[0]["trials"].as_u64() > Some(0));
    // Two who each press `q y`: the second one must not end it at once.
    for pause_ms in [0, 350] {
        thread::sleep(Duration::from_millis(pause_ms));
        let said = UnixStream::connect(socket(&sandbox)).and_then(|mut s| s.write_all(b"end\n"));
        assert!(pause_ms > 0 || said.is_ok(), "{said:?}");
    }
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    wait_until("the process has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
}

/// An error shows where it was typed, and nothing stays.
fn cannot_begin() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, 1);
    let text = fs::read_to_string(&path).unwrap().replace("null:", "/no/such/place");
    fs::write(&path, text).unwrap();
    let done = sandbox.run(&["lab", "--detach", p(&path)]);
    assert!(![0, 1].contains(&done.code), "{done:?}");
    assert!(done.stderr.contains("there is no directory /no/such"), "{done:?}");
    // One that is killed on its way says nothing itself.
    let killed = plan(&sandbox, 1);
    let done = run(|| {
        let mut command = sandbox.command(&["lab", "--detach", p(&killed)]);
        command.env("FATHOM_FAULT", "kill:1");
        command
    });
    assert_eq!(done.code, 6, "{done:?}");
    for words in ["was killed before it measured (signal: 9", "fathom restore"] {
        assert!(done.stderr.contains(words), "{done:?}");
    }
    let logs = names(sandbox.db().parent().unwrap());
    assert!(!logs.iter().any(|name| name.ends_with(".log")), "{logs:?}");
}

/// An experiment that may be over before anybody could look at it: its result is shown, and its log stays.
fn ends_at_once() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, 1);
    let text = fs::read_to_string(&path).unwrap().replace("'1s'", "'20ms'");
    fs::write(&path, text).unwrap();
    for _ in 0..3 {
        let done = sandbox.run(&["--json", "lab", "--new", "--detach", p(&path)]);
        assert!([0, 1].contains(&done.code), "{done:?}");
        let log = PathBuf::from(done.result()["log"].as_str().unwrap());
        wait_until("the result is in the log", || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("Stored as"))
        });
    }
}
