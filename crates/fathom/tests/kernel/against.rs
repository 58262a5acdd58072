//! `run --against`: two settings in turn, until it is known which is faster; a difference whose size is known because a cap
//! makes it. And the table of it in a narrow terminal.

use crate::cli::{Done, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::{Judged, Trial, kernel_test, sample};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

pub fn trials() -> Vec<Trial> {
    let script = [FathomBinary, Tool("script"), Tool("stty")];
    vec![
        kernel_test("against_finds_what_a_cap_makes", &script, capped),
        kernel_test("against_finds_that_there_is_nothing", &[FathomBinary], equal),
        kernel_test("against_that_a_signal_ends", &[FathomBinary, Tool("kill")], interrupted),
        kernel_test("against_that_makes_no_sense", &[FathomBinary], refused),
    ]
}

fn file(sandbox: &Sandbox) -> PathBuf {
    let file = sandbox.dir().join("f");
    std::fs::write(&file, vec![7_u8; MIB as usize]).unwrap();
    file
}

/// A with a cap of 200 a second, B with another one.
fn measured(sandbox: &Sandbox, cap: u32) -> Done {
    let file = file(sandbox);
    let args = ["run", "randread", p(&file), "direct=no", "depth=1", "duration=400ms", "warmup=0s"];
    let against = format!("--against=cap_iops={cap},batch=1");
    sandbox.json(&[&args[..], &["cap_iops=200", &against]].concat(), &[0, 1])
}

/// Where others use the machine, their noise may hide it: tried again.
fn until(cap: u32, is_so: impl Fn(&Value) -> bool) -> Option<(Sandbox, Done)> {
    let one = || {
        let sandbox = Sandbox::new();
        let done = measured(&sandbox, cap);
        let figure = done.result()["comparison"]["rows"][0]["figures"][0].clone();
        println!("{} {}", figure["decision"], figure["answer"]["ratio"]);
        is_so(&figure).then_some((sandbox, done))
    };
    (0..sample(3, 6)).find_map(|_| one())
}

fn capped() {
    let found = until(250, |figure| {
        let ratio = figure["answer"]["ratio"]["value"].as_f64().unwrap();
        figure["decision"] == "faster" && (ratio / 1.25 - 1.0).abs() < 0.05
    });
    let (sandbox, done) = found.expect("what the caps make is found");
    let (result, records) = (done.result(), done.records());
    let row = &result["comparison"]["rows"][0];
    let pairs = row["runs_a"].as_u64().unwrap() as usize;
    assert!([8, 12, 18, 25].contains(&pairs) && row["in_pairs"] == true, "{row}");
    assert_eq!(records.len(), 2 * pairs, "it ends with the look that decides");
    // Each pair has one of both, and not always the same one first.
    let sides: Vec<&str> = records.iter().map(|r| &r["label"].as_str().unwrap()[..1]).collect();
    assert!(sides.chunks(2).all(|pair| pair.contains(&"A") && pair.contains(&"B")), "{sides:?}");
    let differs = result["comparison"]["differences"].as_array().unwrap().iter();
    let what: Vec<(&str, &str)> = differs
        .filter_map(|d| Some((d["what"].as_str()?, d["weight"].as_str()?)))
        .filter(|(_, weight)| *weight != "background")
        .collect();
    assert_eq!(what, [("workload.cap_iops", "factor")]);

    let stored = sandbox.runs().swap_remove(0);
    assert_eq!((&stored["kind"], &stored["state"]), (&json!("against"), &json!("complete")));
    let id = stored["id"].as_str().unwrap().to_owned();
    let shown = sandbox.json(&["show", &id], &[0]);
    assert_eq!(shown.result()["comparison"], result["comparison"]);
    assert_eq!(shown.records(), records);
    let text = sandbox.run(&["show", &id]).stdout;
    assert!(text.contains("B is A with cap_iops=250,batch=1.") && text.contains("randread: B is "));

    let sides = [format!("{id}:A"), format!("{id}:B")];
    let compare = ["compare", &sides[0], &sides[1], "--looks", "--factor=workload"];
    let again = sandbox.json(&[&compare[..], &["--fail-on=void"]].concat(), &[0]).result();
    assert_eq!(again["comparison"]["rows"][0]["figures"], row["figures"]);
    let back = ["compare", &sides[1], &sides[0], "--fail-if=slower:10%", "--fail-on=void"];
    sandbox.json(&back, &[1]);
    narrow(&sandbox, &compare);
}

/// In eighty columns no line is longer, and no number is broken.
fn narrow(sandbox: &Sandbox, compare: &[&str]) {
    let command = sandbox.command(compare);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let line = format!("stty cols 80; exec {}", words.join(" "));
    let mut shell = Command::new("script");
    shell.args(["-qec", &line, "/dev/null"]);
    for (key, value) in command.get_envs() {
        value.map(|value| shell.env(key, value));
    }
    let said = shell.output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap().replace('\r', "");
    let is_verdict = |line: &&str| ["TRUSTED", "DOUBTFUL"].iter().any(|v| line.starts_with(v));
    let lines: Vec<&str> = text.lines().take_while(|line| !is_verdict(line)).collect();
    assert!(lines.len() > 8, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(
        lines.iter().any(|line| line.trim_start().starts_with("IOPS") && line.ends_with("better"))
    );
}

/// Half a hundredth is no difference larger than 3 %.
fn equal() -> Judged {
    let Some((_sandbox, done)) = until(201, |figure| figure["decision"] == "equivalent") else {
        return Judged::Skipped("others kept the machine too busy for an interval of 3 %".into());
    };
    let row = &done.result()["comparison"]["rows"][0];
    assert!(row["next_look"].is_null() && row["runs_a"].as_u64() >= Some(8), "{row}");
    Judged::Passed
}

fn interrupted() {
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:", "duration=300ms", "--against=depth=8"];
    let running = sandbox.start(&run, "trial_finished", 4);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let row = &done.result()["comparison"]["rows"][0];
    assert!((1..=3).contains(&row["runs_a"].as_u64().unwrap()), "{row}");
    assert_eq!(row["runs_a"], row["runs_b"], "a pair that is not whole does not count");
    assert_eq!(row["figures"][0]["decision"], "inconclusive");
    let stored = sandbox.runs().swap_remove(0);
    assert_eq!((&stored["kind"], &stored["state"]), (&json!("against"), &json!("interrupted")));
}

fn refused() {
    let sandbox = Sandbox::new();
    let (dir, null) = (sandbox.dir(), "null:");
    for (args, words) in [
        (
            &["randread", null, "--against=depth"][..],
            ["--against=depth: it takes settings", "fathom compare"],
        ),
        (&["randread", null, "--against=dpth=3"], ["unknown key 'dpth'", "did you mean 'depth'?"]),
        (
            &["randread", null, "depth=4", "--against=depth=4"],
            ["both sides are the same", "depth=32"],
        ),
        (&["randread", null, "--against=size=2G"], ["share the test file", "span="]),
        (&["seqwrite", p(&dir), "--against=overwrite=yes"], ["empty file", "overwrite="]),
        (&["randwrite", p(&dir), "verify=after", "--against=depth=4"], ["verify=", "leave it out"]),
        (&["sysbench-fileio", p(&dir), "--against=direct=yes"], ["several phases", "--phase="]),
    ] {
        sandbox.refuses(&[&["run"], args].concat(), 2, &words);
    }
    for other in ["--repeats=3", "--until-steady"] {
        let both = sandbox.run(&["run", "randread", null, "--against=depth=4", other]);
        assert!(both.code == 2 && both.stderr.contains("cannot be used with"), "{both:?}");
    }
    assert!(!sandbox.db().exists() || sandbox.runs().is_empty(), "nothing is stored");
}
