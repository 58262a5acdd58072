//! Ctrl-C, SIGTERM, a closed terminal and kill -9: test files go, finished trials stay.

use crate::cli::{Done, Running, Sandbox, names, p, wait_until};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, Trial, counted, kernel_test, sample};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SIGNALS: [&str; 4] = ["INT", "QUIT", "TERM", "HUP"];
/// Takes some seconds to lay out, on every disk.
const LONG_LAYOUT: [&str; 2] = ["size=6G", "duration=10m"];
/// Ended by what is tested, however long that takes to come.
const LONG_RUN: [&str; 2] = ["size=8M", "duration=10m"];

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, Tool("kill")];
    let python = [FathomBinary, Tool("python3")];
    let quick = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("kill")];
    vec![
        kernel_test("signals_during_layout", &needs, during_layout),
        kernel_test("signals_during_measuring", &needs, during_measuring),
        kernel_test("signal_between_repeats", &needs, between_repeats),
        kernel_test("signal_during_the_warm_up_of_one_of_two_jobs", &needs, during_warm_up),
        kernel_test("signal_during_quick", &quick, during_quick),
        kernel_test("stopped_while_measuring", &needs, stopped),
        kernel_test("a_device_that_stalls_is_no_stop", &quick, stalled),
        kernel_test("signals_while_the_filesystem_is_frozen", &quick, while_frozen),
        kernel_test("second_signal_when_nobody_reads_errors", &quick, nobody_reads_errors),
        kernel_test("a_run_that_is_being_made_is_not_removed", &needs, removed_while_running),
        kernel_test("closed_terminal", &python, closed_terminal),
        kernel_test("nohup_survives", &[FathomBinary, Tool("nohup"), Tool("kill")], nohup),
        kernel_test(
            "what_only_reads_ends_at_once",
            &[&needs[..], &[Tool("mkfifo")]].concat(),
            only_reads,
        ),
        kernel_test("killed_during_layout", &needs, || killed(&LONG_LAYOUT, "note")),
        kernel_test("killed_during_measuring", &needs, || killed(&LONG_RUN, "progress")),
        kernel_test("killed_with_a_new_file", &needs, killed_with_file),
        kernel_test("restore_that_cannot_remove_a_test_directory", &quick, cannot_remove),
        kernel_test(
            "restore_that_cannot_end_a_program",
            &[&quick[..], &[Tool("setsid"), Tool("fsfreeze")]].concat(),
            cannot_end,
        ),
        kernel_test("killed_at_random_moments", &needs, killed_at_random),
    ]
}

fn start(sandbox: &Sandbox, more: &[&str], kind: &str) -> Running {
    let dir = sandbox.dir();
    sandbox.start(&[&["run", "randread", p(&dir)], more].concat(), kind, 1)
}

fn during_layout() {
    for signal in SIGNALS {
        let sandbox = Sandbox::new();
        let running = start(&sandbox, &LONG_LAYOUT, "note");
        wait_until("the test directory is there", || names(&sandbox.dir()).len() == 1);
        thread::sleep(Duration::from_millis(300));
        running.signal(signal);
        let done = running.finish();
        assert_eq!(done.code, 130, "{signal}: {done:?}");
        assert!(done.stderr.contains("interrupted before anything was measured"), "{done:?}");
        assert_eq!(done.result()["exit_code"].as_i64(), Some(130));
        sandbox.nothing_left(&[]);
        assert!(sandbox.runs().is_empty(), "nothing was measured, nothing is stored");
    }
}

/// The partial result is printed and stored, and marked.
#[track_caller]
fn is_interrupted(sandbox: &Sandbox, done: &Done, trials: u64) {
    assert_eq!(done.code, 130, "{done:?}");
    let records = done.records();
    assert_eq!(records.len() as u64, trials);
    let last = records.last().unwrap();
    assert_eq!(last["ending"], "interrupted");
    assert!(crate::cli::operations(last) > 0, "what was measured until then is kept");
    done.finding("interrupted");
    let stored = &sandbox.runs()[0];
    assert_eq!(stored["id"], done.result()["id"]);
    assert_eq!(
        (&stored["state"], stored["trials"].as_u64()),
        (&"interrupted".into(), Some(trials))
    );
    let shown = sandbox.json(&["show", stored["id"].as_str().unwrap()], &[0]);
    assert_eq!(shown.records(), records, "the store has what was printed");
    sandbox.nothing_left(&[]);
}

fn during_measuring() {
    for signal in SIGNALS {
        let sandbox = Sandbox::new();
        let running = start(&sandbox, &LONG_RUN, "progress");
        running.signal(signal);
        is_interrupted(&sandbox, &running.finish(), 1);
    }
}

/// The job that waits for its turn does not keep the run from ending.
fn during_warm_up() {
    let sandbox = Sandbox::new();
    let (file, dir) = (sandbox.scratch.join("two.toml"), sandbox.dir());
    let job = |name: &str| format!("[[job]]\nname = '{name}'\nduration = '1s'\n");
    let text = format!("name = 'two'\n{}warmup = '10m'\n{}", job("a"), job("b"));
    std::fs::write(&file, text).unwrap();
    let running = sandbox.start(&["run", p(&file), p(&dir), "size=8M"], "trial_started", 1);
    thread::sleep(Duration::from_millis(1000));
    let begun = Instant::now();
    running.signal("TERM");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(begun.elapsed() < Duration::from_secs(300), "ended after {:?}", begun.elapsed());
    let record = &done.records()[0];
    assert_eq!((&record["ending"], record["window_ns"].as_u64()), (&"interrupted".into(), Some(0)));
    for job in record["jobs"].as_array().unwrap() {
        assert_eq!(job["series"].as_array().map(Vec::len), Some(0), "{job}");
    }
    sandbox.nothing_left(&[]);
}

fn between_repeats() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args =
        ["run", "randread", p(&dir), "size=8M", "duration=4s", "warmup=500ms", "--repeats=20"];
    let mut running = sandbox.start(&args, "trial_started", 3);
    // In the window of the third, of which there is most to come.
    let before = running.events("progress");
    assert!(running.wait_for("progress", before + 1));
    running.signal("INT");
    is_interrupted(&sandbox, &running.finish(), 3);
}

fn during_quick() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let running = sandbox.start(&["quick", p(fs.dir()), "--time=30s"], "progress", 2);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let records = done.records();
    assert_eq!(records.last().unwrap()["ending"], "interrupted");
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
    sandbox.nothing_left(&[fs.dir()]);
}

/// Ctrl-Z, a debugger or a frozen control group: fathom itself stands still and the clock goes on.
fn stopped() {
    let sandbox = Sandbox::new();
    let held_up = |done: &Done| done.records()[0]["held_up_ns"].as_u64().unwrap();
    let stop = || {
        let running = start(&sandbox, &["size=8M", "duration=6s"], "progress");
        running.signal("STOP");
        thread::sleep(Duration::from_millis(1500));
        running.signal("CONT");
        running.finish()
    };
    // On a busy machine the signal may come when the window is over.
    let done = (0..6).map(|_| stop()).find(|done| held_up(done) > 0).expect("the stop is seen");
    assert_eq!(done.code, 1, "{done:?}");
    let held_ns = held_up(&done);
    // What its timer would have taken anyway, up to a tenth of a second, is not counted.
    let window_ns = done.records()[0]["window_ns"].as_u64().unwrap();
    assert!((1_300_000_000..window_ns).contains(&held_ns), "{held_ns}");
    let finding = done.finding("held-up");
    assert_eq!(finding["severity"], "void", "more than a tenth of the window");
    assert!(finding["summary"].as_str().unwrap().contains("fathom itself was stopped for "));
    assert_eq!(done.result()["verdict"], "void");
    // Where others use the machine, fathom may be held up without a signal: not every time.
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "duration=2s"];
    let is_undisturbed =
        || !sandbox.json(&args, &[0, 1]).findings().contains(&"held-up".to_owned());
    assert!((0..8).any(|_| is_undisturbed()), "held up without a signal");
}

/// Writes that a frozen filesystem holds back for as long: the workers wait in the kernel, fathom does not.
fn stalled() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args =
        ["run", "randwrite", p(fs.dir()), "size=8M", "duration=6s", "engine=psync", "depth=1"];
    let running = sandbox.start(&args, "progress", 1);
    let frozen = fs.mount().freeze().unwrap();
    thread::sleep(Duration::from_millis(1500));
    drop(frozen);
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let slowest_ns = done.records()[0]["jobs"][0]["slowest"][0]["latency_ns"].as_u64().unwrap();
    assert!(slowest_ns >= 1_400_000_000, "the freeze was felt: {slowest_ns}");
    // None of it, though a busy machine may hold fathom up for moments.
    let held_ns = done.records()[0]["held_up_ns"].as_u64().unwrap();
    assert!(held_ns < slowest_ns / 2, "{held_ns} of {slowest_ns}");
    if held_ns == 0 {
        done.has_not("held-up");
    }
    sandbox.nothing_left(&[fs.dir()]);
}

/// Writes that do not return: the first signal says what is waited for, the second does not wait. The kernel may keep
/// the process until its writes return, but that does nothing more, and the next start tidies up.
fn while_frozen() {
    for (engine, second) in [("io_uring", "INT"), ("psync", "TERM")] {
        let sandbox = Sandbox::new();
        let fs = mounted(FsKind::Ext4, &[], "");
        let engine = format!("engine={engine}");
        let args =
            ["run", "randwrite", p(fs.dir()), "size=16M", "depth=1", "duration=10m", &engine];
        let mut running = sandbox.start(&args, "progress", 1);
        let frozen = fs.mount().freeze().unwrap();
        thread::sleep(Duration::from_millis(500));
        running.signal("INT");
        running.wait_for_words("requests in flight are waited for");
        thread::sleep(Duration::from_millis(500));
        assert!(!running.is_over(), "nothing was in flight: nothing is tested");
        running.signal(second);
        running.wait_for_words("ended at once");
        drop(frozen);
        ended_at_once(&sandbox, running, fs.dir());
    }
}

/// What has changed nothing waits for nothing, such as a pipe that nobody writes to: one signal is enough, and nothing is said of requests.
fn only_reads() {
    for (signal, words) in [("INT", ["import", "csv"].as_slice()), ("TERM", &["import"])] {
        let sandbox = Sandbox::new();
        let pipe = sandbox.scratch.join("pipe");
        fathom_testkit::command::run_tool("mkfifo", [&pipe]).unwrap();
        let mut command = sandbox.command(&[words, &[p(&pipe)]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running::of(child);
        let threads = format!("/proc/{}/task", running.pid());
        wait_until("signals are waited for", || {
            names(Path::new(&threads)).iter().any(|thread| {
                let name = std::fs::read_to_string(format!("{threads}/{thread}/comm"));
                name.is_ok_and(|name| name.trim() == "signals")
            })
        });
        thread::sleep(Duration::from_millis(200));
        assert!(!running.is_over(), "{words:?}: it does not wait for the pipe: nothing is tested");
        running.signal(signal);
        let done = running.finish();
        assert_eq!((done.code, done.stderr.as_str(), done.stdout.as_str()), (130, "", ""));
    }
}

/// A second signal ended it, without a result; the next start removes what it left in the directory.
#[track_caller]
fn ended_at_once(sandbox: &Sandbox, running: Running, dir: &Path) {
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(!done.stdout.contains("\"result\""), "it ended without a result: {done:?}");
    assert_eq!(sandbox.runs()[0]["state"], "partial");
    let left: Vec<String> = names(dir).into_iter().filter(|name| name.contains("fathom")).collect();
    let [left] = left.try_into().unwrap();
    next_start(sandbox, &dir.join(left));
    sandbox.nothing_left(&[dir]);
}

fn status_line(pid: u32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap_or_default().trim().to_owned()
}

fn has_pending_signals(pid: u32) -> bool {
    status_line(pid, "ShdPnd:").bytes().any(|digit| digit != b'0')
}

/// Its first thread is gone, or it has been waited for.
fn is_ending(pid: u32) -> bool {
    let state = status_line(pid, "State:");
    state.is_empty() || state.starts_with('Z') || state.starts_with('X')
}

/// As when a pager has been closed: what cannot be said must not keep the second signal from ending it.
fn nobody_reads_errors() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["--json", "run", "randwrite", p(fs.dir()), "size=16M", "depth=1", "duration=10m"];
    let running = loop {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
        let mut running = Running::of(child);
        if running.wait_for("progress", 1) {
            break running;
        }
        // Another measurement may have held the machine.
        let done = running.finish();
        assert_eq!(done.code, 3, "{done:?}");
        thread::sleep(Duration::from_millis(200));
    };
    let frozen = fs.mount().freeze().unwrap();
    thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    // Taken by the thread that waits for signals, which is then about to say so.
    wait_until("the first signal is taken", || !has_pending_signals(running.pid()));
    thread::sleep(Duration::from_secs(2));
    running.signal("TERM");
    wait_until("it has ended, but for what the kernel holds", || is_ending(running.pid()));
    drop(frozen);
    ended_at_once(&sandbox, running, fs.dir());
}

fn removed_while_running() {
    let sandbox = Sandbox::new();
    let running = start(&sandbox, &LONG_RUN, "progress");
    let id = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
    let pid = running.pid().to_string();
    sandbox.run(&["rm", &id]).is_refusal(3, &[&id, "still being made", &pid]);
    assert_eq!(sandbox.runs()[0]["state"], "running");
    running.signal("INT");
    is_interrupted(&sandbox, &running.finish(), 1);
    sandbox.json(&["rm", &id], &[0]);
    assert!(sandbox.runs().is_empty());
}

/// Runs the rest of its arguments on a terminal of its own, closes that as soon as the live line tells of requests, and
/// gives the exit code on.
const CLOSE_TERMINAL: &str = r#"
import os, pty, re, sys, select
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while not re.search(rb"[1-9][0-9 ]* IOPS", said):
    ready, _, _ = select.select([terminal], [], [], 0.1)
    try:
        said += os.read(terminal, 65536) if ready else b""
    except OSError:
        break
os.close(terminal)
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"#;

fn closed_terminal() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let script = sandbox.scratch.join("close.py");
    std::fs::write(&script, CLOSE_TERMINAL).unwrap();
    loop {
        let fathom = sandbox.command(&["run", "randread", p(&dir), "size=8M", "duration=10m"]);
        let mut command = tool("python3");
        command.arg(&script).arg(fathom.get_program()).args(fathom.get_args());
        let status = command.stdout(Stdio::null()).status().unwrap();
        // Another measurement may have held the machine.
        if status.code() != Some(3) {
            assert_eq!(status.code(), Some(130));
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    sandbox.nothing_left(&[]);
    let stored = &sandbox.runs()[0];
    assert_eq!((&stored["state"], stored["trials"].as_u64()), (&"interrupted".into(), Some(1)));
}

fn nohup() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let fathom = sandbox.command(&["--json", "run", "randread", p(&dir), "size=8M", "duration=6s"]);
    let mut command: Command = tool("nohup");
    command.arg(fathom.get_program()).args(fathom.get_args());
    let running = Running::start(&mut command, "progress", 1);
    running.signal("HUP");
    let done = running.finish();
    assert!([0, 1].contains(&done.code), "{done:?}");
    let window_ns = done.records()[0]["window_ns"].as_u64().unwrap();
    assert!(window_ns >= 6_000_000_000, "ended after {window_ns} ns");
    assert_eq!(sandbox.runs()[0]["state"], "complete");
}

/// A short run, which puts in order what killed ones left and says so.
#[track_caller]
pub fn next_start(sandbox: &Sandbox, gone: &Path) {
    let dir = sandbox.dir();
    let done = sandbox.run(&["run", "randread", p(&dir), "size=4M", "operations=50"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    let said = done.stderr.lines().find(|line| line.contains("left behind"));
    let said = said.unwrap_or_else(|| panic!("nothing said: {done:?}"));
    assert!(said.contains("removed") && said.contains(p(gone)), "{said}");
    assert!(!gone.exists());
    sandbox.nothing_left(&[]);
}

fn killed(more: &[&str], kind: &str) {
    let sandbox = Sandbox::new();
    let running = start(&sandbox, more, kind);
    wait_until("there is a test file", || !names(&sandbox.dir()).is_empty());
    thread::sleep(Duration::from_millis(200));
    // Of a run that lives, others touch nothing.
    let left = names(&sandbox.dir());
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(sandbox.runs()[0]["state"], "running");
    running.signal("KILL");
    assert_eq!(running.finish().code, 128 + 9);
    let left = names(&sandbox.dir());
    assert_eq!(left.len(), 1, "kill -9 lets nobody tidy up: {left:?}");
    let stored = sandbox.runs();
    assert_eq!((&stored[0]["state"], stored[0]["trials"].as_u64()), (&"partial".into(), Some(0)));
    let listed = sandbox.run(&["list"]);
    assert!(listed.code == 0 && listed.stdout.contains("partial"), "{listed:?}");
    let id = stored[0]["id"].as_str().unwrap();
    let shown = sandbox.json(&["show", id], &[0]);
    assert_eq!((&shown.result()["verdict"], shown.records().len()), (&"void".into(), 0));
    assert_eq!(shown.finding("unfinished-run")["severity"], "void");
    let text = sandbox.run(&["show", id]);
    let words = ["[partial]", "VOID", "not one trial is stored"];
    assert!(words.iter().all(|word| text.stdout.contains(word)), "{text:?}");
    next_start(&sandbox, &sandbox.dir().join(&left[0]));
    assert_eq!(sandbox.runs().len(), 2);
}

fn killed_with_file() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("new");
    let beside = sandbox.dir().join("theirs");
    std::fs::write(&beside, "somebody's").unwrap();
    // By a relative name: the next start is somewhere else.
    let args = ["--json", "run", "randread", "new", "size=8M", "duration=10m"];
    let mut command = sandbox.command(&args);
    let running = Running::start(command.current_dir(sandbox.dir()), "progress", 1);
    running.signal("KILL");
    running.finish();
    assert!(file.exists());
    next_start(&sandbox, &file);
    assert_eq!(std::fs::read_to_string(&beside).unwrap(), "somebody's");
}

/// `fathom restore` is not done while a test directory is left: it says which and what helps, and with the cause gone it is.
fn cannot_remove() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let running = sandbox.start(&["run", "randread", p(fs.dir()), "size=4M"], "progress", 1);
    running.signal("KILL");
    running.finish();
    let left = names(fs.dir()).into_iter().find(|name| name.contains("fathom"));
    let left = fs.dir().join(left.unwrap());
    fs.mount().remount("ro").unwrap();
    let listed = sandbox.run(&["restore", "--list"]);
    assert!(listed.code == 0 && listed.stdout.contains(p(&left)), "{listed:?}");
    let failed = sandbox.json(&["restore"], &[5]);
    let said = failed.result()["files"][0].as_str().unwrap().to_owned();
    for word in [p(&left), "Read-only file system", "fathom restore", "rm -r "] {
        assert!(said.contains(word), "{said}");
    }
    let failed = sandbox.run(&["restore"]);
    assert_eq!(failed.code, 5, "{failed:?}");
    assert!(failed.stdout.contains("A test file or directory is left"), "{failed:?}");
    fs.mount().remount("rw").unwrap();
    let done = sandbox.json(&["restore"], &[0]);
    let said = done.result()["files"][0].as_str().unwrap().to_owned();
    assert!(said.contains("removed, left behind by run") && !left.exists(), "{said}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// What a killed watch has started waits for a frozen filesystem and cannot be ended: `fathom restore` is not done.
fn cannot_end() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let frozen = fs.mount().freeze().unwrap();
    let (begun, file) = (sandbox.scratch.join("begun"), fs.dir().join("file"));
    let script =
        format!("setsid sh -c 'touch {}; exec touch {}' & sleep 1000", p(&begun), p(&file));
    let args = ["watch", "--interval=50ms", "--", "sh", "-c", &script];
    let running = sandbox.start(&args, "sample", 2);
    wait_until("it has begun", || begun.exists());
    thread::sleep(Duration::from_millis(200));
    let of_it = format!("started by the command of fathom {}, which was killed", running.pid());
    running.signal("KILL");
    running.finish();
    let failed = sandbox.json(&["restore"], &[5]);
    let result = failed.result();
    assert!(result["programs"].to_string().contains(&of_it), "{result}");
    assert!(!result["ended"].to_string().contains("touch"), "{result}");
    drop(frozen);
    wait_until("it ends", || {
        let listed = sandbox.json(&["restore", "--list"], &[0]);
        !listed.result()["programs"].to_string().contains(&of_it)
    });
    assert_eq!(sandbox.run(&["restore"]).code, 0);
}

/// Every trial before the last one begun is in the store, each record whole.
fn killed_at_random() {
    let count = sample(5, 200);
    counted("kills at random moments", count);
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=4M", "operations=100", "--repeats=200"];
    let mut state = 0x9E37_79B9_u64;
    let mut known = 0;
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let running = sandbox.start(&args, "trial_started", 1);
        thread::sleep(Duration::from_micros((state >> 33) % 700_000));
        running.signal("KILL");
        let done = running.finish();
        assert_eq!(done.code, 128 + 9, "killed before its end");
        let begun = done.stdout.lines().filter(|l| l.contains("\"trial_started\"")).count() as u64;
        let runs = sandbox.runs();
        known += 1;
        assert_eq!(runs.len(), known);
        let stored = runs[0]["trials"].as_u64().unwrap();
        assert!(stored + 1 == begun || stored == begun, "{stored} stored of {begun} begun");
        // The last line may be torn.
        let whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
        let finished = done.stdout.lines().filter(whole).filter(|l| l.contains("trial_finished"));
        assert!(finished.count() as u64 <= stored, "what is reported is stored already");
        assert_eq!(runs[0]["state"], "partial");
        let shown = sandbox.json(&["show", runs[0]["id"].as_str().unwrap()], &[0]);
        let records = shown.records();
        assert_eq!(records.len() as u64, stored);
        shown.finding("unfinished-run");
        assert_ne!(shown.result()["verdict"], "trusted");
        assert!(records.iter().all(|record| crate::cli::operations(record) == 100));
    }
    // The last one's directory; those before were removed by their successors.
    let left = names(&dir);
    assert_eq!(left.len(), 1, "{left:?}");
    next_start(&sandbox, &dir.join(&left[0]));
}
