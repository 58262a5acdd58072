//! What goes where: results on standard output, the rest on standard error; runs found again by prefix and label.

use crate::cli::{Done, Running, Sandbox, operations, p};
use fathom_testkit::Capability::FathomBinary;
use fathom_testkit::{Trial, kernel_test};
use serde_json::Value;
use std::fs::File;
use std::process::Stdio;

const PROBE: [&str; 4] = ["run", "randread", "null:", "operations=100"];

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("json_lines", &[FathomBinary], json_lines),
        kernel_test("repeats_in_json_and_as_a_table", &[FathomBinary], repeats),
        kernel_test("streams", &[FathomBinary], streams),
        kernel_test("closed_pipe_is_quiet", &[FathomBinary], closed_pipe),
        kernel_test("json_when_errors_cannot_be_written", &[FathomBinary], full_stderr),
        kernel_test("json_of_wrong_arguments", &[FathomBinary], wrong_arguments),
        kernel_test("targets_are_stored_whole", &[FathomBinary], whole_targets),
        kernel_test("runs_are_found_again", &[FathomBinary], found_again),
        kernel_test("runs_are_removed", &[FathomBinary], removed),
        kernel_test("help_and_version", &[FathomBinary], help),
        kernel_test("doctor_and_workloads", &[FathomBinary], doctor_and_workloads),
    ]
}

fn json_lines() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["--json", "run", "randomio", p(&dir), "size=8M", "duration=2s", "--repeats=2"];
    let done = sandbox.run(&args);
    let objects = done.objects();
    let kinds: Vec<&str> = objects.iter().map(|o| o["type"].as_str().unwrap()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "result").count(), 1);
    assert_eq!(kinds.last(), Some(&"result"));
    for kind in ["note", "trial_started", "progress"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    assert!(objects.iter().all(|o| o["schema"] == objects[0]["schema"]));
    let result = done.result();
    assert_eq!(result["exit_code"].as_i64(), Some(i64::from(done.code)));
    assert_eq!(result["records"].as_array().unwrap().len(), 2);
    assert_eq!(result["stored"], true);
    // A disk may stand still for a second; without any requests there is no latency either.
    for progress in objects.iter().filter(|o| o["type"] == "progress") {
        let iops = progress["iops"].as_f64().unwrap();
        assert_eq!(iops > 0.0, progress["latency_ns_p99"].is_u64(), "{progress}");
    }
    let last = objects.iter().rfind(|o| o["type"] == "progress").unwrap();
    let is_moving = last["iops"].as_f64().unwrap() > 0.0;
    assert!(is_moving || last_interval_is_empty(&done), "also at the end: {last}");
    let etas: Vec<u64> = objects
        .iter()
        .filter(|o| o["type"] == "progress")
        .map(|o| o["eta_ns"].as_u64().unwrap())
        .collect();
    assert!(etas.windows(2).all(|pair| pair[1] <= pair[0]), "the rest only shrinks: {etas:?}");
    assert!(etas[0] >= 2_000_000_000, "it counts the repeat to come: {etas:?}");
    // Before the first byte nothing tells how long the lay-out takes; later it tells no more than an hour.
    let of_layout = objects.iter().filter(|o| o["type"] == "layout");
    for layout in of_layout.filter_map(|o| o.get("eta_ns")) {
        assert!(layout.as_u64().unwrap() < 3_600_000_000_000, "{layout}");
    }
}

/// What seven repeats come to is what their records say; it is the same in every form and in `show`.
fn repeats() {
    let sandbox = Sandbox::new();
    let run = ["run", "randread", "null:", "duration=100ms", "warmup=0s", "--repeats=7"];
    let done = sandbox.json(&run, &[0, 1]);
    let repeats = done.result()["repeats"].clone();
    let rate = |record: &Value| operations(record) as f64 / record["window_ns"].as_f64().unwrap();
    let mut rates: Vec<f64> = done.records().iter().map(|record| 1e9 * rate(record)).collect();
    rates.sort_by(f64::total_cmp);
    let near = |got: &Value, expected: f64| (got.as_f64().unwrap() / expected - 1.0).abs() < 1e-6;
    let [of] = repeats.as_array().unwrap().as_slice() else { panic!("{repeats}") };
    // Seven values: the interval of their median is all of them.
    let iops = &of["iops"];
    assert!(near(&iops["value"], rates[3]) && near(&iops["interval"]["low"], rates[0]), "{of}");
    assert!(near(&iops["interval"]["high"], rates[6]) && iops["count"] == 7, "{of}");
    let quantiles: Vec<f64> =
        of["latency"].as_array().unwrap().iter().map(|q| q["quantile"].as_f64().unwrap()).collect();
    assert_eq!(quantiles, [0.5, 0.99, 0.999]);
    assert_eq!(of["latency"][0]["across_runs_ns"]["count"], 7);
    let shown = sandbox.json(&["show", &done.id()], &[0]).result();
    assert_eq!(shown["repeats"], repeats);
    let text = sandbox.run(&["show", &done.id()]).stdout;
    assert!(text.contains("randread, 7 runs") && text.contains("together"), "{text}");
    let once = sandbox.json(&PROBE, &[0, 1]).result();
    assert_eq!(once.get("repeats"), None);
}

/// Nothing ended in the last interval of the last trial.
fn last_interval_is_empty(done: &Done) -> bool {
    let record = done.records().pop().unwrap();
    let series = record["jobs"][0]["series"].as_array().unwrap().clone();
    series.last().is_none_or(|interval| interval["classes"].as_array().unwrap().is_empty())
}

fn streams() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "duration=1s"];
    let done = sandbox.run(&args);
    assert!([0, 1].contains(&done.code), "{done:?}");
    for word in ["Writing", "Written", "[1/1]"] {
        assert!(done.stderr.contains(word), "'{word}' is not in {}", done.stderr);
        assert!(!done.stdout.contains(word), "'{word}' is in {}", done.stdout);
    }
    for word in ["read", "IOPS", "p99", "Stored as"] {
        let text = done.stdout.to_lowercase();
        let known =
            text.contains(&word.to_lowercase()) || word == "IOPS" && text.contains("per second");
        assert!(known, "'{word}' is not in {}", done.stdout);
    }
    let quiet = sandbox.run(&[&args[..], &["--quiet"]].concat());
    assert_eq!(quiet.stderr, "", "{quiet:?}");
    assert!(quiet.stdout.contains("p99"));
    let both = sandbox.run(&[&args[..], &["--quiet", "--json"]].concat());
    assert_eq!(both.stderr, "", "{both:?}");
    both.result();
    let json = sandbox.run(&[&args[..], &["--json"]].concat());
    assert!(json.stderr.contains("p99"), "people read standard error: {}", json.stderr);
    let nobody_is_colourful = [&done, &quiet, &both, &json];
    assert!(nobody_is_colourful.iter().all(|d| !(d.stdout.clone() + &d.stderr).contains('\x1b')));
}

/// Standard output whose reader has gone before the first byte.
fn without_reader(sandbox: &Sandbox, args: &[&str]) -> Done {
    loop {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(args);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        // Its copy of the pipe would keep nothing open for reading, but drop it in time all the same.
        drop(command);
        let done = Running::of(child).finish();
        if !done.is_locked_out() {
            return done;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

fn closed_pipe() {
    let sandbox = Sandbox::new();
    let id = sandbox.json(&PROBE, &[0, 1]).id();
    for args in [
        &["list"][..],
        &["--json", "--quiet", "list"],
        &["show", &id],
        &["workloads"],
        &["doctor"],
        &["--help"],
        &["--version"],
    ] {
        let done = without_reader(&sandbox, args);
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{args:?}");
    }
    // A measurement goes on to its end and is stored.
    let done = without_reader(&sandbox, &[&["--quiet", "--json"], &PROBE[..]].concat());
    assert!([0, 1].contains(&done.code) && done.stderr.is_empty(), "{done:?}");
    assert_eq!(sandbox.runs().len(), 2);
    assert_eq!(sandbox.runs()[0]["state"], "complete");
}

/// What people would read goes to standard error, which is full; the result does not.
fn full_stderr() {
    let sandbox = Sandbox::new();
    let id = sandbox.json(&PROBE, &[0, 1]).id();
    for args in [&["--json", "list"][..], &["--json", "show", &id]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command(args);
        let child = command.stdout(Stdio::piped()).stderr(full).spawn().unwrap();
        let done = Running::of(child).finish();
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        done.result();
    }
}

fn wrong_arguments() {
    let sandbox = Sandbox::new();
    for args in [&["--json", "bogus"][..], &["list", "--bogus", "--json"]] {
        let done = sandbox.run(args);
        assert_eq!((done.code, done.objects().len()), (2, 1), "{args:?}: {done:?}");
        let result = done.result();
        assert_eq!(result["exit_code"].as_i64(), Some(2));
        assert!(result["error"].as_str().unwrap().contains("bogus"), "{result}");
        assert!(done.stderr.contains("bogus"), "{done:?}");
    }
    let result = sandbox.run(&["--json", "list", "--labl=x"]).result();
    let told =
        [result["advice"][0].as_str(), result["usage"].as_str()].map(Option::unwrap_or_default);
    assert!(told[0].contains("--label") && told[1].starts_with("fathom list"), "{result}");
    let people = sandbox.run(&["bogus"]);
    assert_eq!((people.code, people.stdout.as_str()), (2, ""), "{people:?}");
}

/// A target is found again from everywhere, whatever it was called.
fn whole_targets() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir().canonicalize().unwrap();
    let in_dir = |args: &[&str]| {
        let done = crate::cli::run(|| {
            let mut command = sandbox.command(&[&["--json", "--quiet"], args].concat());
            command.current_dir(&dir);
            command
        });
        assert!([0, 1].contains(&done.code), "{done:?}");
        done
    };
    in_dir(&["run", "randread", ".", "size=4M", "operations=100"]);
    in_dir(&["run", "randread", "new", "size=4M", "operations=100"]);
    in_dir(&["run", "randread", "null:", "operations=100"]);
    let targets = |done: &Done| -> Vec<String> {
        let runs = done.result()["runs"].as_array().unwrap().clone();
        runs.iter().map(|run| run["target"].as_str().unwrap().to_owned()).collect()
    };
    let new = dir.join("new");
    assert_eq!(targets(&sandbox.json(&["list"], &[0])), ["null:", p(&new), p(&dir)]);
    let below = [p(&new), p(&dir)];
    assert_eq!(targets(&sandbox.json(&["list", "--target", p(&dir)], &[0])), below);
    assert_eq!(targets(&in_dir(&["list", "--target=."])), below);
    assert_eq!(targets(&in_dir(&["list", "--target=../d/new"])), [p(&new)]);
    assert_eq!(targets(&in_dir(&["list", "--target=null:"])), ["null:"]);
}

/// Runs until two begin with the same character; gives all identifiers and that character.
fn with_common_prefix(sandbox: &Sandbox) -> (Vec<String>, String) {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let id = sandbox.json(&PROBE, &[0, 1]).id();
        let first = id[..1].to_owned();
        let is_common = ids.iter().any(|known| known.starts_with(&first));
        ids.push(id);
        if is_common {
            return (ids, first);
        }
    }
}

fn found_again() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let labelled = [&PROBE[..], &["--label=before-upgrade"]].concat();
    let first = sandbox.json(&labelled, &[0, 1]);
    let on_dir = sandbox
        .json(&["run", "randread", p(&dir), "size=4M", "operations=100", "--seed=5"], &[0, 1]);
    let (_, common) = with_common_prefix(&sandbox);
    let all = sandbox.runs();
    let ids = |runs: &[Value]| -> Vec<String> {
        runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    let listed = |args: &[&str]| {
        let done = sandbox.json(&[&["list"], args].concat(), &[0]);
        ids(done.result()["runs"].as_array().unwrap())
    };
    assert_eq!(listed(&["--label=before-upgrade"]), [first.id()]);
    assert_eq!(listed(&["--label=before"]), Vec::<String>::new());
    assert_eq!(listed(&[&format!("--target={}", dir.display())]), [on_dir.id()]);
    assert_eq!(listed(&[&format!("--target={}", sandbox.scratch.path().display())]), [on_dir.id()]);
    assert_eq!(listed(&["--limit=2"]), ids(&all)[..2]);
    let text = sandbox.run(&["list"]);
    assert_eq!(text.stderr, "");
    for word in ["before-upgrade", p(&dir)] {
        assert!(text.stdout.contains(word), "{}", text.stdout);
    }
    // Every printed prefix names its run.
    let prefixes: Vec<&str> = text
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| ids(&all).iter().any(|id| id.starts_with(word)))
        .collect();
    assert_eq!(prefixes.len(), all.len(), "{}", text.stdout);
    for prefix in prefixes {
        let shown = sandbox.json(&["show", prefix], &[0]);
        assert!(shown.result()["head"]["id"].as_str().unwrap().starts_with(prefix));
    }
    let shown = sandbox.json(&["show", &on_dir.id()], &[0]);
    assert_eq!(shown.records(), on_dir.records());
    assert_eq!(shown.result()["verdict"], on_dir.result()["verdict"]);
    let host = &shown.result()["head"]["host"];
    for key in ["kernel", "distribution", "cpu_model", "memory_total_bytes", "clock_source"] {
        assert!(!host[key].is_null(), "{key} in {host}");
    }
    let text = sandbox.run(&["show", &on_dir.id()[..6]]);
    assert!(text.stdout.contains(p(&dir)) && text.stdout.contains("--seed=5"), "{}", text.stdout);
    sandbox.run(&["show", &common]).is_refusal(2, &[&common, "beginning of", "one more character"]);
    sandbox.run(&["show", "zzzzzzzzzzzzz"]).is_refusal(2, &["zzzzzzzzzzzzz", "fathom list"]);
}

fn removed() {
    let sandbox = Sandbox::new();
    let (ids, common) = with_common_prefix(&sandbox);
    let unknown = sandbox.run(&["rm", &ids[0], "zzzzzzzzzzzzz"]);
    unknown.is_refusal(2, &["zzzzzzzzzzzzz"]);
    assert_eq!(sandbox.runs().len(), ids.len(), "all or none");
    sandbox.run(&["rm", &common]).is_refusal(2, &["beginning of"]);
    assert_eq!(sandbox.runs().len(), ids.len());
    let done = sandbox.run(&["rm", &ids[0]]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{done:?}");
    assert!(done.stderr.contains(&ids[0]));
    assert_eq!(sandbox.runs().len(), ids.len() - 1);
    sandbox.run(&["show", &ids[0]]).is_refusal(2, &[&ids[0]]);
    let rest: Vec<&str> = ids[1..].iter().map(String::as_str).collect();
    let done = sandbox.json(&[&["rm"], &rest[..]].concat(), &[0]);
    assert_eq!(done.result()["removed"].as_array().unwrap().len(), rest.len());
    assert!(sandbox.runs().is_empty());
}

fn help() {
    let sandbox = Sandbox::new();
    for args in [&["--help"][..], &["run", "--help"], &["quick", "-h"], &["--version"]] {
        let done = sandbox.run(args);
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!done.stdout.is_empty());
    }
    let none = sandbox.run(&["lisst"]);
    assert!(none.code == 2 && none.stderr.contains("list") && none.stdout.is_empty(), "{none:?}");
    assert!(!sandbox.db().exists());
}

fn doctor_and_workloads() {
    let sandbox = Sandbox::new();
    let doctor = sandbox.json(&["doctor"], &[0]);
    let checks = doctor.result()["checks"].as_array().unwrap().clone();
    let of = |what: &str| checks.iter().find(|check| check["what"] == what).unwrap().clone();
    let uring = fathom_testkit::Capability::IoUring.check().is_ok();
    assert_eq!(of("io_uring")["works"].as_bool(), Some(uring));
    assert!(of("store")["detail"].as_str().unwrap().contains(p(sandbox.db())));
    let all = sandbox.json(&["workloads"], &[0]);
    for workload in all.result()["workloads"].as_array().unwrap() {
        let name = workload["name"].as_str().unwrap();
        let text = sandbox.run(&["workloads", name]);
        assert!(text.code == 0 && text.stdout.contains("block_size"), "{text:?}");
    }
    sandbox.refuses(&["workloads", "randomoi"], 2, &["did you mean 'randomio'?"]);
}
