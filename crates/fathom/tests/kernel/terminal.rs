//! The live view on a real terminal (of a pseudo-terminal): what it shows, and that the terminal is as before however fathom ends.

use crate::cli::{Sandbox, names, p};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{Trial, kernel_test};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, Tool("python3")];
    vec![
        kernel_test("terminal_shows_and_is_given_back", &needs, shown_and_given_back),
        kernel_test("terminal_after_questions_and_signals", &needs, ended),
        kernel_test("terminal_after_a_panic", &needs, panicked),
        kernel_test("terminal_while_stopped_and_resized", &needs, stopped_and_resized),
        kernel_test("terminal_that_takes_nothing", &needs, blocked),
        kernel_test("terminal_that_can_do_nothing", &needs, plain),
        kernel_test("terminal_has_all_of_a_check_in_its_width", &needs, in_its_width),
    ]
}

/// Runs a command on a terminal of its own and follows a script: `expect` waits for a text, `send` types, `signal` sends one to the
/// process, `stopped` waits until it is stopped, `same` until the terminal is as before, `size` resizes, `sleep` waits without
/// reading, `elsewhere` until another command says a text, without reading. Says how it ended, what was shown, and whether the terminal is as before.
const DRIVER: &str = r#"
import fcntl, json, os, pty, select, signal, struct, subprocess, sys, termios, time
mark, steps, argv = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]
main, side = pty.openpty()
def resize(columns, lines):
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
resize(100, 30)
before = termios.tcgetattr(side)
pid = os.fork()
if pid == 0:
    # A shell would give it a group of its own, which a parent outside of it can stop and let go on.
    os.setsid()
    fcntl.ioctl(side, termios.TIOCSCTTY, 0)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        for fd in (0, 1, 2):
            os.dup2(side, fd)
        os.close(main)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(argv[0], argv)
    open(mark + ".pid", "w").write(str(child))
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            open(mark + ".stopped", "w").close()
            continue
        os._exit(os.waitstatus_to_exitcode(status) & 255)
shown, at = b"", 0
deadline = time.monotonic() + 300
def read(seconds):
    global shown
    if select.select([main], [], [], seconds)[0]:
        try:
            shown += os.read(main, 65536)
        except OSError:
            return False
    return True
def until(is_so, what):
    while not is_so():
        read(0.05)
        if time.monotonic() > deadline or ended() is not None and not is_so():
            fail("never: " + what)
code = None
def ended():
    global code
    if code is None:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
    return code
def fail(why):
    print(json.dumps({"code": code, "failed": why, "shown": shown.decode("utf-8", "replace")}))
    sys.exit(0)
def child():
    until(lambda: os.path.exists(mark + ".pid"), "the process")
    return int(open(mark + ".pid").read())
for step, *what in steps:
    if step == "expect":
        text = what[0].encode()
        until(lambda: text in shown[at:], what[0])
        at = shown.index(text, at) + len(text)
    elif step == "send":
        os.write(main, what[0].encode())
    elif step == "signal":
        os.kill(child(), getattr(signal, "SIG" + what[0]))
    elif step == "stopped":
        until(lambda: os.path.exists(mark + ".stopped"), "a stop")
    elif step == "same":
        until(lambda: termios.tcgetattr(side) == before, "the terminal as before")
    elif step == "keys":
        until(lambda: not termios.tcgetattr(side)[3] & termios.ICANON, "keys one by one")
    elif step == "size":
        resize(*what)
        os.kill(child(), signal.SIGWINCH)
    elif step == "sleep":
        time.sleep(what[0])
    elif step == "elsewhere":
        said, until_then = "", time.monotonic() + 60
        while what[0] not in said:
            if time.monotonic() > until_then:
                fail("elsewhere: " + said)
            time.sleep(0.2)
            said = subprocess.run(what[1], capture_output=True, text=True).stdout
while ended() is None:
    if time.monotonic() > deadline:
        fail("did not end")
    read(0.05)
while select.select([main], [], [], 0.05)[0]:
    if not read(0):
        break
same = termios.tcgetattr(side) == before
print(json.dumps({"code": code, "same": same, "shown": shown.decode("utf-8", "replace")}))
"#;

/// What came of it on a terminal.
pub struct Seen {
    pub code: i64,
    pub shown: String,
}

/// Runs `fathom` on a terminal, with a directory for targets as DIR.
#[track_caller]
pub fn on_terminal(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)], steps: &Value) -> Seen {
    let dir = sandbox.dir();
    let db = sandbox.db().display().to_string();
    let args: Vec<&str> =
        args.iter().map(|arg| if *arg == "DIR" { p(&dir) } else { arg }).collect();
    let args = [&["--db", &db], args.as_slice()].concat();
    loop {
        let seen = driven(sandbox, &args, env, steps);
        // Another measurement may have held the machine.
        if seen["code"] != 3 {
            assert_eq!(seen["failed"], Value::Null, "{seen:#}");
            assert_eq!(seen["same"], true, "the terminal is as before: {seen:#}");
            let shown = seen["shown"].as_str().unwrap().to_owned();
            // Nothing that would have to be undone: no other screen, no hidden cursor, no mouse.
            assert!(!shown.contains("\u{1b}[?"), "{shown:?}");
            return Seen { code: seen["code"].as_i64().unwrap(), shown };
        }
        thread::sleep(Duration::from_millis(200));
    }
}

fn driven(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)], steps: &Value) -> Value {
    let script = sandbox.scratch.join("driver.py");
    fs::write(&script, DRIVER).unwrap();
    let mark = sandbox.scratch.join("mark");
    for what in ["pid", "stopped"] {
        let _ = fs::remove_file(mark.with_extension(what));
    }
    let mut command = tool("python3");
    command
        .arg(&script)
        .arg(&mark)
        .arg(steps.to_string())
        .arg(fathom_testkit::fathom_binary().unwrap());
    command.args(args).env("TERM", "xterm").env("LC_ALL", "C").env_remove("NO_COLOR");
    let done = command.envs(env.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {done:?}"))
}

/// A load that is only ended by what is tested.
const LONG: [&str; 5] = ["run", "randread", "DIR", "size=8M", "duration=10m"];
/// A load that ends by itself.
const SHORT: [&str; 5] = ["run", "randread", "DIR", "size=8M", "duration=3s"];

fn shown_and_given_back() {
    let sandbox = Sandbox::new();
    let steps =
        json!([["expect", "throughput"], ["keys"], ["expect", "IOPS"], ["expect", "in flight"]]);
    let seen = on_terminal(&sandbox, &SHORT, &[], &steps);
    assert!([0, 1].contains(&seen.code), "{}", seen.shown);
    for part in ["service time", "p50 ", "device", "busy", "q end", "measured for 2 s"] {
        assert!(seen.shown.contains(part), "{part}: {}", seen.shown);
    }
    // The view is taken away before the result is printed, which stays.
    let (view, result) = seen.shown.rsplit_once("\u{1b}[J").unwrap();
    assert!(view.contains("\u{1b}[36m") || view.contains(";36m"), "colours: {view:?}");
    assert!(result.contains("Stored as") && !result.contains('\u{1b}'), "{result:?}");
}

fn ended() {
    let quit =
        json!([["expect", "throughput"], ["send", "q"], ["expect", "End the run?"], ["send", "y"]]);
    let by_key = |key: &str| json!([["expect", "throughput"], ["send", key]]);
    let signal = |name: &str| json!([["expect", "throughput"], ["signal", name]]);
    for steps in [quit, by_key("\u{3}"), by_key("\u{1c}"), signal("TERM"), signal("HUP")] {
        let sandbox = Sandbox::new();
        let seen = on_terminal(&sandbox, &LONG, &[], &steps);
        assert_eq!(seen.code, 130, "{steps}: {}", seen.shown);
        assert!(seen.shown.contains("fathom: stopping; requests in flight"), "{}", seen.shown);
        assert!(seen.shown.contains("Stored as"), "{}", seen.shown);
        sandbox.nothing_left(&[]);
    }
}

fn panicked() {
    let sandbox = Sandbox::new();
    let steps = json!([["expect", "panicked"], ["same"]]);
    // The fourth event: the view has been drawn.
    let env = [("FATHOM_FAULT", "event-panic:4")];
    let seen = on_terminal(&sandbox, &SHORT, &env, &steps);
    assert_eq!(seen.code, 101, "{}", seen.shown);
    sandbox.nothing_left(&[]);
}

fn stopped_and_resized() {
    let sandbox = Sandbox::new();
    let steps = json!([
        ["expect", "throughput"],
        ["size", 60, 12],
        ["expect", "throughput"],
        ["send", "\u{1a}"],
        ["stopped"],
        ["same"],
        ["signal", "CONT"],
        ["keys"],
        ["expect", "throughput"],
        ["send", "?"],
        ["expect", "any key"],
        ["send", "x"],
        ["expect", "throughput"],
        ["send", "\u{3}"],
    ]);
    let seen = on_terminal(&sandbox, &LONG, &[], &steps);
    assert_eq!(seen.code, 130, "{}", seen.shown);
}

/// Whoever looks away (Ctrl-S, a connection that hangs) holds up nobody: the run ends in its time and is stored, before the
/// terminal takes anything again.
fn blocked() {
    let sandbox = Sandbox::new();
    let binary = fathom_testkit::fathom_binary().unwrap();
    let list = json!([p(&binary), "--db", p(sandbox.db()), "--json", "list"]);
    let steps = json!([
        ["expect", "throughput"],
        ["send", "\u{13}"],
        ["elsewhere", "\"state\":\"complete\"", list],
        ["send", "\u{11}"]
    ]);
    let seen = on_terminal(&sandbox, &SHORT, &[], &steps);
    assert!([0, 1].contains(&seen.code), "{}", seen.shown);
    let done = sandbox.json(&["show", sandbox.runs()[0]["id"].as_str().unwrap()], &[0]);
    let record = &done.result()["records"][0];
    let series = record["jobs"][0]["series"].as_array().unwrap();
    assert_eq!(record["held_up_ns"].as_u64().unwrap_or(0), 0, "nobody waited for the terminal");
    assert!(series.len() >= 3, "{series:?}");
}

fn plain() {
    const BRIEF: [&str; 5] = ["run", "randread", "DIR", "size=4M", "duration=500ms"];
    let dumb = [("TERM", "dumb")];
    for (more, env) in [(Some("--plain"), &[][..]), (None, &dumb), (Some("--quiet"), &[])] {
        let sandbox = Sandbox::new();
        let words: Vec<&str> = BRIEF.into_iter().chain(more).collect();
        let seen = on_terminal(&sandbox, &words, env, &json!([]));
        assert!([0, 1].contains(&seen.code), "{}", seen.shown);
        assert!(!seen.shown.contains('\u{1b}'), "{:?}", seen.shown);
        assert!(seen.shown.contains("Stored as"), "{}", seen.shown);
    }
    let sandbox = Sandbox::new();
    let env = [("NO_COLOR", "1"), ("LC_ALL", "C")];
    let seen = on_terminal(&sandbox, &SHORT, &env, &json!([["expect", "throughput"]]));
    assert!(seen.shown.is_ascii(), "{:?}", seen.shown);
    assert!(!seen.shown.contains(";36m") && !seen.shown.contains(";33m"), "{:?}", seen.shown);
    assert_eq!(names(&sandbox.dir()), Vec::<String>::new());
}

/// Tree and table of a machine with long lines; only a fact that is longer than a line by itself goes beyond it.
fn in_its_width() {
    // As many as the terminal of these tests has.
    const COLUMNS: usize = 100;
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fathom-check/tests/machines");
    let from = format!("--from={}", p(&machines.join("guest-failed.json.gz")));
    let sandbox = Sandbox::new();
    for form in ["--show=tree", "--show=table"] {
        let args = ["check", "--all", form, &from];
        let seen = on_terminal(&sandbox, &args, &[], &json!([]));
        let lines = seen.shown.lines().map(str::trim_end);
        let longer = lines.filter(|line| {
            line.chars().count() > COLUMNS
                && line.trim_start_matches(['!', '.', ' ']).contains("  ")
        });
        assert_eq!(longer.collect::<Vec<_>>(), [""; 0], "{form}");
        let whole = sandbox.run(&args);
        let is_long = |line: &str| line.chars().count() > COLUMNS;
        assert!(whole.stdout.lines().any(is_long), "in a file a line is a node");
    }
}
