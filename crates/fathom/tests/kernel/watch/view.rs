//! The live view of a watch on a pseudo-terminal: what it shows, what keys do, and that the terminal is as before however it ends.

use crate::cli::{Sandbox, p};
use crate::terminal::on_terminal;
use fathom_testkit::Capability::{FathomBinary, LoopDevices, Tool};
use fathom_testkit::{LoopDevice, Trial, kernel_test};
use serde_json::json;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices, Tool("python3")];
    vec![
        kernel_test("watch_view_shows_and_is_given_back", &needs, shown_and_given_back),
        kernel_test("watch_view_after_signals_and_questions", &needs, ended),
        kernel_test("watch_view_says_what_svctm_is", &needs, details),
        kernel_test("watch_view_that_takes_nothing", &needs, blocked),
        kernel_test("watch_view_gives_way_to_lines", &needs, plain),
    ]
}

/// What stands behind the last view.
fn behind(shown: &str) -> &str {
    shown.rsplit_once("\u{1b}[J").unwrap().1
}

fn shown_and_given_back() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 << 20).unwrap();
    let steps = json!([
        ["expect", "processors"],
        ["keys"],
        ["expect", "requests, past"],
        ["expect", device.name()],
        ["expect", "q end   d by kind   ? help"],
        ["send", "d"],
        ["expect", "merged/s"],
        ["expect", "d all together"],
        ["send", "d"],
        ["expect", "requests, past"],
        ["send", "?"],
        ["expect", "any key"],
        ["send", "x"],
        ["expect", "requests, past"],
        ["size", 60, 12],
        ["expect", "util"],
        ["send", "\u{1a}"],
        ["stopped"],
        ["same"],
        ["signal", "CONT"],
        ["keys"],
        ["expect", "util"],
        ["send", "q"],
    ]);
    let seen =
        on_terminal(&sandbox, &["watch", &device.name(), "--interval=200ms", "--all"], &[], &steps);
    // A watch alone has nothing to doubt and asks no question.
    assert_eq!(seen.code, 0, "{}", seen.shown);
    // The last interval stays, as lines.
    let rest = behind(&seen.shown);
    assert!(rest.contains("r/s") && rest.contains(&device.name()), "{rest:?}");
    assert!(!rest.contains('\u{1b}'), "{rest:?}");
}

fn ended() {
    let device = LoopDevice::new(16 << 20).unwrap();
    let name = device.name();
    let alone = ["watch", &name, "--interval=200ms", "--all"];
    let recorded = ["watch", &name, "--interval=200ms", "--all", "--record"];
    for (words, end, code) in [
        (&alone[..], ["send", "\u{3}"], 0),
        (&alone, ["signal", "TERM"], 0),
        (&alone, ["signal", "HUP"], 0),
        (&recorded, ["send", "q"], 0),
        (&["watch", &name, "--interval=200ms", "--", "sleep", "600"], ["signal", "INT"], 130),
    ] {
        let sandbox = Sandbox::new();
        let seen =
            on_terminal(&sandbox, words, &[], &json!([["expect", "processors"], ["keys"], end]));
        assert_eq!(seen.code, code, "{words:?} {end:?}: {}", seen.shown);
        let is_kept = words.len() > alone.len();
        assert_eq!(behind(&seen.shown).contains("Stored as"), is_kept, "{}", seen.shown);
    }
    // A command that a key would end is asked about.
    let sandbox = Sandbox::new();
    let steps = json!([
        ["expect", "q end the command"],
        ["keys"],
        ["send", "q"],
        ["expect", "End the command?"],
        ["send", "n"],
        ["expect", "q end the command"],
        ["send", "q"],
        ["expect", "End the command?"],
        ["send", "y"],
    ]);
    let words = ["watch", &name, "--interval=200ms", "--", "sleep", "600"];
    let seen = on_terminal(&sandbox, &words, &[], &steps);
    assert_eq!(seen.code, 130, "{}", seen.shown);
    assert!(behind(&seen.shown).contains("Stored as"), "{}", seen.shown);
}

/// Asked for, it stands below a device that has requests, with what it is.
fn details() {
    let (sandbox, device) = (Sandbox::new(), LoopDevice::new(16 << 20).unwrap());
    let read = format!(
        "while dd if={} of=/dev/null bs=4k iflag=direct status=none; do :; done",
        p(device.path())
    );
    let name = device.name();
    let words = ["watch", &name, "--interval=200ms", "--details", "--", "sh", "-c", &read];
    let steps = json!([
        ["expect", "as old iostat had it; no service time"],
        ["keys"],
        ["send", "q"],
        ["expect", "End the command?"],
        ["send", "y"],
    ]);
    let seen = on_terminal(&sandbox, &words, &[], &steps);
    assert_eq!(seen.code, 130, "{}", seen.shown);
}

/// Whoever looks away (Ctrl-S) holds up nothing: the watch ends in its time and is stored before the terminal takes anything again.
fn blocked() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 << 20).unwrap();
    let binary = fathom_testkit::fathom_binary().unwrap();
    let list = json!([p(&binary), "--db", p(sandbox.db()), "--json", "list"]);
    let steps = json!([
        ["expect", "processors"],
        ["send", "\u{13}"],
        ["elsewhere", "\"state\":\"complete\"", list],
        ["send", "\u{11}"],
    ]);
    let name = device.name();
    let words = ["watch", &name, "--interval=200ms", "--all", "--count=20", "--record"];
    let seen = on_terminal(&sandbox, &words, &[], &steps);
    assert_eq!(seen.code, 0, "{}", seen.shown);
    assert!(behind(&seen.shown).contains("Stored as"), "{}", seen.shown);
    let done = sandbox.json(&["show", sandbox.runs()[0]["id"].as_str().unwrap()], &[0]);
    assert_eq!(done.result()["watch"]["intervals"], 20, "{}", done.result());
}

fn plain() {
    let device = LoopDevice::new(16 << 20).unwrap();
    let name = device.name();
    let words = ["watch", &name, "--interval=200ms", "--all", "--count=3"];
    let dumb = [("TERM", "dumb")];
    for (more, env) in [(Some("--plain"), &[][..]), (None, &dumb), (Some("--quiet"), &[])] {
        let sandbox = Sandbox::new();
        let words: Vec<&str> = words.into_iter().chain(more).collect();
        let seen = on_terminal(&sandbox, &words, env, &json!([]));
        assert_eq!(seen.code, 0, "{}", seen.shown);
        assert!(!seen.shown.contains('\u{1b}'), "{more:?} {:?}", seen.shown);
        assert_eq!(seen.shown.matches("r/s").count(), 3, "{more:?} {}", seen.shown);
    }
    let sandbox = Sandbox::new();
    let env = [("NO_COLOR", "1"), ("LC_ALL", "C")];
    let seen = on_terminal(&sandbox, &words, &env, &json!([["expect", "processors"]]));
    assert!(seen.shown.is_ascii(), "{:?}", seen.shown);
    assert!(!seen.shown.contains(";36m") && !seen.shown.contains("[36m"), "{:?}", seen.shown);
}
