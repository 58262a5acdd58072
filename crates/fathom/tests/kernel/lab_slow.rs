//! `fathom lab` with settings of the user's own whose commands hang: Ctrl-C ends them, and what they can put back is put back.

use crate::cli::{Running, Sandbox, p, run, wait_until};
use crate::lab::plan;
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Trial, kernel_test};
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, Tool("kill")];
    vec![
        kernel_test("lab_hangs_writing", &needs, write_hangs),
        kernel_test("lab_hangs_reading", &needs, read_hangs),
        kernel_test("lab_hangs_before_it_is_set", &needs, reading_hangs_before_it_is_set),
        kernel_test("lab_hangs_putting_back", &needs, putting_back_hangs),
        kernel_test("lab_killed_writing", &needs, killed_writing),
        kernel_test("lab_stopped_beside_its_command", &needs, stopped_beside_its_command),
        kernel_test("lab_stopped_in_a_load", &needs, stopped_in_a_load),
        kernel_test("lab_interrupted_beside_its_group", &needs, beside_its_group),
        kernel_test("lab_written_after_its_command", &needs, written_after_its_command),
        kernel_test("lab_keeps_daemons_of_a_setting", &needs, keeps_a_daemon),
    ]
}

/// A command that hangs may take 60 s; who asks for the end waits for none.
const SOON: Duration = Duration::from_secs(40);

/// A knob of one's own in a file, set to `b` from `a`.
struct Own {
    sandbox: Sandbox,
    value: PathBuf,
    flag: PathBuf,
}

impl Own {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        let [value, flag] = ["value", "flag"].map(|name| sandbox.scratch.join(name));
        fs::write(&value, "a\n").unwrap();
        Self { sandbox, value, flag }
    }

    /// With VALUE and FLAG for the files.
    fn plan(&self, load: &str, read: &str, write: &str) -> PathBuf {
        let text = format!(
            "target = 'null:'\n[[workload]]\nlabel = 'app'\ncommand = '{load}'\n[knobs]\nown.x = 'b'\n[design]\nblocks = 1\nsentinel = false\n\
             [[own_knob]]\nname = 'x'\nread = '{read}'\nwrite = '{write}'\nvalues = ['a', 'b']\n[[objective]]\nmetric = 'application'\n"
        );
        let text = text.replace("VALUE", p(&self.value)).replace("FLAG", p(&self.flag));
        plan(&self.sandbox, "slow", &text)
    }

    /// Asks for the end as soon as a command is named as one that is waited for.
    fn interrupt(&self, file: &Path, named: &str) -> Running {
        let running = self.sandbox.start(&["lab", p(file)], "note", 1);
        wait_until("it is named", || running.said().contains(named));
        running.signal("INT");
        running
    }

    fn now(&self) -> String {
        fs::read_to_string(&self.value).unwrap()
    }
}

/// The value is there already: it is put back by the same command, which does not hang then.
fn write_hangs() {
    let own = Own::new();
    let write = "echo {value} > VALUE; [ {value} = a ] || sleep 1000";
    let file = own.plan("true", "cat VALUE", write);
    let running = own.interrupt(&file, "own.x: its write command");
    let begun = Instant::now();
    let done = running.finish();
    assert!(begun.elapsed() < SOON, "{done:?}");
    assert_eq!((done.code, own.now().as_str()), (130, "a\n"), "{done:?}");
    own.sandbox.nothing_left(&[]);
    let left = own.sandbox.run(&["restore", "--list"]);
    assert!(left.stdout.contains("Nothing is left changed."), "{left:?}");
}

/// How long a script takes that writes late.
const LATE: Duration = Duration::from_secs(4);

/// The kernel ends the shell of a write with fathom, and not what that has started, which would write after the value was read and the change
/// forgotten.
fn killed_writing() {
    for signals in [&["KILL"][..], &["INT", "INT"]] {
        let own = Own::new();
        let script = own.sandbox.scratch.join("late");
        let (value, flag) = (p(&own.value), p(&own.flag));
        let text = format!("trap '' TERM\n: > {flag}\nsleep 4\necho $1 > {value}\n");
        fs::write(&script, text).unwrap();
        let write = format!("sh {} {{value}} && true", p(&script));
        let file = own.plan("true", "cat VALUE", &write);
        let running = own.sandbox.start(&["lab", p(&file)], "note", 1);
        wait_until("it writes", || own.flag.exists());
        let begun = Instant::now();
        for signal in signals {
            running.signal(signal);
            std::thread::sleep(Duration::from_millis(300));
        }
        running.finish();
        let done = own.sandbox.run(&["restore"]);
        let took = begun.elapsed();
        assert_eq!((done.code, own.now().as_str()), (0, "a\n"), "{signals:?}: {done:?}");
        std::thread::sleep(LATE.saturating_sub(begun.elapsed()) + Duration::from_secs(1));
        assert_eq!(own.now(), "a\n", "{signals:?}, after {took:?}: {done:?}");
    }
}

/// Ctrl-C ends the group of a write, which what it has started may have left.
fn beside_its_group() {
    let own = Own::new();
    let write = "setsid sh -c \"sleep 4; echo b > VALUE\"; echo {value} > VALUE";
    let file = own.plan("true", "cat VALUE", write);
    let done = own.interrupt(&file, "own.x: its write command").finish();
    assert_eq!((done.code, own.now().as_str()), (130, "a\n"), "{done:?}");
    std::thread::sleep(LATE + Duration::from_secs(1));
    assert_eq!(own.now(), "a\n", "{done:?}");
}

/// The write ends well, and what it has started in the background would write when the value was put back and the change forgotten; also
/// where fathom is killed in between.
fn written_after_its_command() {
    const DELAY: Duration = Duration::from_secs(8);
    let beside = "(V={value} setsid sh -c \"sleep 8; echo \\$V > VALUE\" &); sleep 0.1";
    let mut after_write = None;
    for (write, is_killed) in
        [("{ sleep 8; echo {value} > VALUE; } & sleep 0.1", false), (beside, false), (beside, true)]
    {
        let own = Own::new();
        let list = own.sandbox.scratch.join("points");
        let fault = match after_write.as_ref().filter(|_| is_killed) {
            Some(number) => format!("kill:{number}"),
            None => format!("list:{}", p(&list)),
        };
        let file = own.plan("true", "cat VALUE", write);
        let begun = Cell::new(Instant::now());
        let done = run(|| {
            begun.set(Instant::now());
            let mut command = own.sandbox.command(&["lab", p(&file)]);
            command.env("FATHOM_FAULT", &fault);
            command
        });
        let (begun, text) = (begun.get(), &done.stderr);
        if !is_killed {
            let told = "ended without an error, but the read command prints 'a'";
            assert!(done.code == 4 && text.contains(told), "{text}");
            assert!(text.contains("its write command was still at work, and was ended"), "{text}");
            let points = fs::read_to_string(&list).unwrap();
            let mut numbered = points.lines().filter_map(|line| line.split_once(' '));
            let at = numbered.find(|(_, name)| *name == "after own.x is written").unwrap();
            after_write = Some(at.0.to_owned());
        }
        let restored = own.sandbox.run(&["restore"]);
        assert!(begun.elapsed() < DELAY, "too slow to see it: {text}");
        std::thread::sleep(DELAY + Duration::from_secs(1) - begun.elapsed());
        assert_eq!((restored.code, own.now().as_str()), (0, "a\n"), "{write}: {text} {restored:?}");
    }
}

/// The value is there when it is read: what the write has started may be the service that it sets.
fn keeps_a_daemon() {
    let own = Own::new();
    let write = "echo {value} > VALUE; [ {value} = a ] || (setsid sleep 1000 & echo $! > FLAG)";
    let done = own.sandbox.run(&["lab", p(&own.plan("true", "cat VALUE", write))]);
    let pid = fs::read_to_string(&own.flag).unwrap();
    let ended = std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(ended.success() && own.now() == "a\n", "{done:?}");
}

/// Read after the measurement: that is told, too, and there is no trial that would be void for it.
fn read_hangs() {
    let own = Own::new();
    let read = "if [ -e FLAG ]; then rm FLAG; sleep 1000; fi; cat VALUE";
    let file = own.plan(": > FLAG", read, "echo {value} > VALUE");
    let running = own.interrupt(&file, "own.x: its read command");
    let begun = Instant::now();
    let done = running.finish();
    assert!(begun.elapsed() < SOON, "{done:?}");
    assert_eq!((done.code, own.now().as_str()), (130, "a\n"), "{done:?}");
    assert!(done.stderr.contains("interrupted before anything was measured"), "{done:?}");
}

/// Nothing was set yet: there is nothing to put back, and a command that hangs is not run once more to see that.
fn reading_hangs_before_it_is_set() {
    let own = Own::new();
    // The first is before the start, the second is what was found when it was to be set.
    let read = "echo >> FLAG; [ $(wc -l < FLAG) -lt 2 ] || sleep 1000; cat VALUE";
    let file = own.plan("true", read, "echo {value} > VALUE");
    let running = own.interrupt(&file, "own.x: its read command");
    let begun = Instant::now();
    let done = running.finish();
    assert!(begun.elapsed() < SOON, "{done:?}");
    assert_eq!((done.code, own.now().as_str()), (130, "a\n"), "{done:?}");
    let read = fs::read_to_string(&own.flag).unwrap().lines().count();
    assert_eq!(read, 2, "{done:?}");
}

/// Fathom is stopped while a command runs by itself: when that ended is not known, and the result says so.
fn stopped_beside_its_command() {
    let own = Own::new();
    let file = own.plan("echo >> FLAG; sleep 2", "cat VALUE", "echo {value} > VALUE");
    let running = own.sandbox.start(&["lab", p(&file)], "slot_started", 1);
    wait_until("the command runs", || own.flag.exists());
    running.signal("STOP");
    std::thread::sleep(Duration::from_secs(3));
    running.signal("CONT");
    let done = running.finish();
    assert_eq!((done.code, own.now().as_str()), (1, "a\n"), "{done:?}");
    let void = done.records()[0]["cell"]["void"].as_str().unwrap().to_owned();
    assert!(void.contains("fathom itself was stopped for"), "{void}");
}

/// The same of a load of fathom's own: of two trials the one in which it was stopped does not count.
fn stopped_in_a_load() {
    let sandbox = Sandbox::new();
    let text = "target = 'null:'\n[[workload]]\nuse = 'randread'\nduration = '2s'\nwarmup = '0s'\nrate = '1000'\n\
        [design]\nblocks = 2\nsentinel = false\n";
    let running = sandbox.start(&["lab", p(&plan(&sandbox, "held", text))], "progress", 1);
    running.signal("STOP");
    std::thread::sleep(Duration::from_secs(2));
    running.signal("CONT");
    let done = running.finish();
    let records = done.records();
    let void: Vec<&str> = records.iter().filter_map(|r| r["cell"]["void"].as_str()).collect();
    assert!(records.len() == 2 && void.len() == 1, "{done:?}");
    assert!(void[0].contains("fathom itself was stopped for"), "{void:?}");
}

/// What is not put back is said, is tried by nobody a second time, and stays in the journal.
fn putting_back_hangs() {
    let own = Own::new();
    let write = "[ {value} = b ] || [ -e FLAG ] || sleep 1000; echo {value} > VALUE";
    let file = own.plan("true", "cat VALUE", write);
    // One is put back before it, and one after it.
    let mut text = fs::read_to_string(&file).unwrap();
    text = text.replace("own.x = 'b'\n", "own.w = 'b'\nown.x = 'b'\nown.y = 'b'\n");
    let others = ["w", "y"].map(|name| (name, own.sandbox.scratch.join(name)));
    for (name, value) in &others {
        fs::write(value, "a\n").unwrap();
        text += &format!(
            "[[own_knob]]\nname = '{name}'\nread = 'cat {0}'\nwrite = 'echo {{value}} > {0}'\nvalues = ['a', 'b']\n",
            p(value)
        );
    }
    fs::write(&file, text).unwrap();
    let running = own.interrupt(&file, "own.x: its write command");
    let begun = Instant::now();
    let done = running.finish();
    assert!(begun.elapsed() < SOON, "{done:?}");
    assert_eq!((done.code, own.now().as_str()), (5, "b\n"), "{done:?}");
    for (name, value) in &others {
        assert_eq!(fs::read_to_string(value).unwrap(), "a\n", "{name}: {done:?}");
    }
    let told = "ended, because somebody asked for the end; before fathom own.x was a";
    assert!(done.stderr.contains(told), "{done:?}");
    // The same of fathom restore.
    let running = {
        let mut command = own.sandbox.command(&["restore"]);
        Running::of(
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap(),
        )
    };
    wait_until("it is named", || running.said().contains("own.x: its write command"));
    running.signal("INT");
    let begun = Instant::now();
    let done = running.finish();
    assert!(begun.elapsed() < SOON && done.code == 130, "{done:?}");
    fs::write(&own.flag, "").unwrap();
    let restored = own.sandbox.run(&["restore"]);
    assert_eq!((restored.code, own.now().as_str()), (0, "a\n"), "{restored:?}");
}
