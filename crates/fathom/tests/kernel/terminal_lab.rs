//! An experiment on a terminal, and `fathom attach` on others: what they show, left and entered again, ended in every way; each time
//! the terminal is as before.

use crate::attach::{detached, plan};
use crate::cli::{Sandbox, p, wait_until};
use crate::terminal::on_terminal;
use crate::tmux::Tmux;
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Trial, kernel_test};
use serde_json::{Value, json};
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, Tool("python3")];
    let in_tmux = [FathomBinary, Tool("tmux")];
    vec![
        kernel_test("terminal_of_a_lab", &needs, lab_to_its_end),
        kernel_test("terminal_of_a_lab_that_is_ended", &needs, lab_ended),
        kernel_test("terminal_of_attach_left_and_entered_again", &needs, attached),
        kernel_test("terminal_of_attach_that_ends_the_run", &needs, ended_from_there),
        kernel_test("terminal_of_a_lab_in_tmux", &in_tmux, in_eighty_columns),
    ]
}

/// From the first trial to the result, which stays when the view has gone.
fn lab_to_its_end() {
    let sandbox = Sandbox::new();
    let plan = plan(&sandbox, 2);
    let steps = json!([
        ["expect", "block 1/2, trial 1/2"],
        ["keys"],
        ["expect", "next: "],
        ["expect", "throughput"],
        ["size", 80, 24],
        ["expect", "block 2/2"],
        ["expect", "finished: "],
    ]);
    let seen = on_terminal(&sandbox, &["lab", p(&plan)], &[], &steps);
    assert!([0, 1].contains(&seen.code), "{}", seen.shown);
    for part in ["fathom lab ", "block_size=", "left", "service time", "q end"] {
        assert!(seen.shown.contains(part), "{part}: {}", seen.shown);
    }
    let (_, result) = seen.shown.rsplit_once("\u{1b}[J").unwrap();
    assert!(result.contains("Stored as") && !result.contains('\u{1b}'), "{result:?}");
    sandbox.nothing_left(&[]);
}

fn lab_ended() {
    let by_key = |key: &str| json!([["expect", "throughput"], ["send", key]]);
    let asked = json!([
        ["expect", "throughput"],
        ["send", "d"],
        ["expect", "--detach"],
        ["send", "x"],
        ["size", 60, 12],
        ["expect", "throughput"],
        ["send", "\u{1a}"],
        ["stopped"],
        ["same"],
        ["signal", "CONT"],
        ["keys"],
        ["expect", "throughput"],
        ["send", "q"],
        ["expect", "End the"],
        ["send", "y"]
    ]);
    let signal = |name: &str| json!([["expect", "throughput"], ["signal", name]]);
    for steps in [asked, by_key("\u{3}"), by_key("\u{1c}"), signal("TERM"), signal("HUP")] {
        let sandbox = Sandbox::new();
        let plan = plan(&sandbox, 100);
        let seen = on_terminal(&sandbox, &["lab", p(&plan)], &[], &steps);
        assert_eq!(seen.code, 130, "{steps}: {}", seen.shown);
        assert_eq!(sandbox.runs()[0]["state"], "interrupted");
        sandbox.nothing_left(&[]);
    }
}

/// The experiment goes on whoever looks, and however they leave.
fn attached() {
    let sandbox = Sandbox::new();
    let (pid, _) = detached(&sandbox, &plan(&sandbox, 100));
    let begun = [["expect", "fathom lab "], ["expect", "throughput"]];
    let look = |then: &[Value]| {
        let begin = begun.iter().map(|step| json!(step));
        Value::Array(begin.chain(then.iter().cloned()).collect())
    };
    let resized = [
        json!(["size", 80, 24]),
        json!(["expect", "throughput"]),
        json!(["size", 60, 12]),
        json!(["expect", "block"]),
        json!(["send", "?"]),
        json!(["expect", "any key"]),
        json!(["send", "x"]),
        json!(["expect", "block"]),
        json!(["send", "d"]),
    ];
    let stopped = [
        json!(["send", "\u{1a}"]),
        json!(["stopped"]),
        json!(["same"]),
        json!(["signal", "CONT"]),
        json!(["keys"]),
        json!(["expect", "throughput"]),
        json!(["send", "d"]),
    ];
    let plain = [("NO_COLOR", "1")];
    let colours: &[(&str, &str)] = &[];
    for (then, env) in [
        (&resized[..], colours),
        (&stopped, colours),
        (&[json!(["send", "\u{3}"])], &plain),
        (&[json!(["send", "d"])], &plain),
        (&[json!(["signal", "TERM"])], colours),
        (&[json!(["signal", "HUP"])], colours),
    ] {
        let seen = on_terminal(&sandbox, &["attach"], env, &look(then));
        assert_eq!(seen.code, 0, "{then:?}: {}", seen.shown);
        assert!(seen.shown.contains("Left; it runs on."), "{then:?}: {}", seen.shown);
        // Colours are numbers from 30 on; bold and faint are none.
        let is_coloured = |part: &str| {
            let sequence = part.split('m').next().unwrap_or_default();
            sequence.split(';').any(|number| number.parse().is_ok_and(|n: u32| n >= 30))
        };
        let mut parts = seen.shown.split("\u{1b}[").skip(1);
        assert!(env.is_empty() || !parts.any(is_coloured), "{:?}", seen.shown);
        assert!(env.is_empty() || seen.shown.is_ascii(), "{:?}", seen.shown);
        assert!(Path::new(&format!("/proc/{pid}")).exists(), "it runs on");
    }
    assert_eq!(sandbox.runs()[0]["state"], "running");
    fathom_testkit::command::run_tool("kill", ["-INT", &pid.to_string()]).unwrap();
    wait_until("the process has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    sandbox.nothing_left(&[]);
}

fn ended_from_there() {
    let sandbox = Sandbox::new();
    let (pid, _) = detached(&sandbox, &plan(&sandbox, 100));
    let no = json!([
        ["expect", "throughput"],
        ["send", "q"],
        ["expect", "End the"],
        ["send", "n"],
        ["expect", "throughput"],
        ["send", "q"],
        ["expect", "End the"],
        ["send", "y"]
    ]);
    let seen = on_terminal(&sandbox, &["attach"], &[], &no);
    assert_eq!(seen.code, 130, "{}", seen.shown);
    assert!(seen.shown.contains("The run has ended, exit code 130"), "{}", seen.shown);
    wait_until("the process has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
    sandbox.nothing_left(&[]);
}

/// What the view of an experiment says.
const WORDS: [&str; 8] = [
    "fathom lab ",
    "left",
    "block ",
    "next: ",
    "throughput",
    "service time",
    "finished: ",
    "? help",
];

/// On the usual terminal everything has its place, for who measures and for who looks on, without colours too.
fn in_eighty_columns() {
    let sandbox = Sandbox::new();
    let path = plan(&sandbox, 100);
    let plain = ["LC_ALL=C", "LANG=C", "NO_COLOR=1"];
    let tmux = Tmux::of(&sandbox, "lab", ("80", "24"), &[], &["lab", p(&path)]);
    tmux.shows_words(80, &WORDS);
    let looks = Tmux::of(&sandbox, "attach", ("80", "24"), &plain, &["attach"]);
    looks.shows_words(80, &WORDS);
    assert!(looks.screen().is_ascii(), "{:?}", looks.screen());
    for (columns, lines) in [(120, 40), (60, 16)] {
        let size = [columns, lines].map(|n: usize| n.to_string());
        looks.does(&["resize-window", "-x", &size[0], "-y", &size[1]]);
        looks.shows_words(columns, &["fathom lab ", "block ", "throughput"]);
    }
    looks.does(&["send-keys", "d"]);
    looks.shows("that it was left", |screen| {
        screen.contains("Left; it runs on.") && screen.contains("ended with 0")
    });
    tmux.shows_words(80, &WORDS);
    tmux.does(&["send-keys", "C-c"]);
    tmux.is_given_back();
}
