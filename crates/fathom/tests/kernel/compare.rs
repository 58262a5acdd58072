//! `fathom compare` on real runs: differences whose size is known because a cap makes them.

use crate::cli::{Done, MIB, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, LoopDevices};
use fathom_testkit::{LoopDevice, Trial, kernel_test};
use serde_json::Value;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("compare_finds_what_a_cap_makes", &[FathomBinary], capped),
        kernel_test("compare_of_cells_of_an_experiment", &[FathomBinary], cells),
        kernel_test("compare_of_cells_of_a_command", &[FathomBinary], cells_of_a_command),
        kernel_test("compare_of_two_devices", &[FathomBinary, LoopDevices], two_devices),
        kernel_test("compare_bad_input", &[FathomBinary], bad_input),
    ]
}

/// Runs are indicative or doubtful by themselves here: only what voids ends with 1.
fn compared(sandbox: &Sandbox, args: &[&str], code: i32) -> Value {
    let args = [&["compare", "--fail-on=void"], args].concat();
    let done: Done = sandbox.json(&args, &[code]);
    done.result()
}

fn capped() {
    // Where others use the machine, a run may have no request at all in its time.
    let sandbox = (0..6).find_map(|_| eight_pairs()).expect("what the cap makes is found");
    let sandbox = &sandbox;
    // The other way round it is a regression, unless it may be so large.
    let found = compared(sandbox, &["fast", "slow"], 1);
    assert_eq!(found["regressions"].as_array().map(Vec::len), Some(1), "{found}");
    compared(sandbox, &["fast", "slow", "--fail-if=slower:10%"], 1);
    compared(sandbox, &["fast", "slow", "--fail-if=slower:23%"], 0);
    compared(sandbox, &["fast", "slow", "--fail-if=slower:50%"], 0);
    // A store by its file, and a row by its name.
    let elsewhere = format!("slow:randread@{}", p(sandbox.db()));
    compared(sandbox, &[&elsewhere, "fast:randread"], 0);
    stores(sandbox);
    let text = sandbox.run(&["compare", "slow", "fast", "--fail-on=void"]);
    assert!(text.stdout.contains("randread: B is ") && text.stdout.contains("8 pairs"), "{text:?}");
}

/// The store of eight runs with each cap, where the difference was measured as it is to within two percent.
fn eight_pairs() -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("f");
    std::fs::write(&file, vec![7_u8; MIB as usize]).unwrap();
    let one = |cap: &str, label: &str| {
        let args =
            ["run", "randread", p(&file), "direct=no", "depth=1", "duration=200ms", "warmup=0s"];
        let cap = format!("cap_iops={cap}");
        let label = format!("--label={label}");
        sandbox.json(&[&args[..], &[cap.as_str(), label.as_str()]].concat(), &[0, 1]);
    };
    // Each pair the other way round than the one before: a drift must not favour one side.
    for pair in 0..8 {
        let caps = [("2000", "slow"), ("2500", "fast")];
        let (first, second) = if pair % 2 == 0 { (0, 1) } else { (1, 0) };
        [caps[first], caps[second]].iter().for_each(|(cap, label)| one(cap, label));
    }
    let args = ["compare", "--fail-on=void", "slow", "fast"];
    let found = sandbox.json(&args, &[0, 1]);
    if found.code == 1 {
        println!("{:?}", found.result()["comparison"]["findings"]);
        return None;
    }
    let found = found.result();
    let row = &found["comparison"]["rows"][0];
    let iops = &row["figures"][0];
    assert_eq!(row["in_pairs"], true, "{row}");
    if iops["decision"] != "faster" {
        println!("{row}");
        return None;
    }
    let ratio = iops["answer"]["ratio"]["value"].as_f64().unwrap();
    if (ratio / 1.25 - 1.0).abs() > 0.02 {
        println!("ratio {ratio}");
        return None;
    }
    let differs = &found["comparison"]["differences"];
    let what: Vec<(&str, &str)> = differs
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|d| Some((d["what"].as_str()?, d["weight"].as_str()?)))
        .filter(|(_, weight)| *weight != "background")
        .collect();
    assert_eq!(what, [("workload.cap_iops", "factor")]);
    Some(sandbox)
}

/// Two stores, each with the runs of one label: by their files it is the same as by the labels.
fn stores(sandbox: &Sandbox) {
    let found = compared(sandbox, &["slow", "fast"], 0);
    let only = |label: &str, other: &str| {
        let copy = Sandbox::with_db(sandbox.dir().join(format!("{label}.db")));
        std::fs::copy(sandbox.db(), copy.db()).unwrap();
        let runs = copy.runs().into_iter().filter(|run| run["label"] == other);
        let ids: Vec<String> = runs.map(|run| run["id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(ids.len(), 8);
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        assert_eq!(copy.run(&[&["rm"], &ids[..]].concat()).code, 0);
        copy
    };
    let (slow, fast) = (only("slow", "fast"), only("fast", "slow"));
    let by_file = compared(sandbox, &[p(slow.db()), p(fast.db())], 0);
    let figures = |of: &Value| of["comparison"]["rows"][0]["figures"].clone();
    assert_eq!(figures(&by_file), figures(&found));
}

/// Cells that a cap tells apart: each block is a pair.
fn cells() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir().join("f");
    std::fs::write(&file, vec![7_u8; MIB as usize]).unwrap();
    let plan = sandbox.dir().join("caps.toml");
    let text = format!(
        "question = \"Is the higher cap faster?\"\ntarget = \"{}\"\n[[workload]]\nuse = \"randread\"\ndirect = \"no\"\n\
         depth = 1\nduration = \"300ms\"\nwarmup = \"0s\"\n[[objective]]\nmetric = \"iops\"\n[factors]\n\
         workload.cap_iops = [500, 1500]\n[design]\nblocks = 8\n[prepare]\nquiet = \"0s\"\n",
        p(&file)
    );
    std::fs::write(&plan, text).unwrap();
    let done = sandbox.json(&["lab", p(&plan)], &[0, 1]);
    let side = |cap: u32| format!("{}:cap_iops={cap}", done.id());
    let text = sandbox.run(&["compare", &side(500), &side(1500), "--fail-on=void"]);
    assert!(text.stdout.contains("cap_iops=500 / cap_iops=1500: B is "), "{text:?}");
    assert!(text.stdout.contains(" pairs.") || text.stdout.contains(" pairs;"), "{text:?}");
    let found = compared(&sandbox, &[&side(500), &side(1500)], 0);
    let row = &found["comparison"]["rows"][0];
    assert_eq!((&row["in_pairs"], &row["runs_a"]), (&true.into(), &row["runs_b"]), "{row}");
    assert_eq!(row["figures"][0]["decision"], "faster", "{row}");
    compared(&sandbox, &[&side(1500), &side(500)], 1);
}

/// The application is a command, of whose figure less is better.
fn cells_of_a_command() {
    let sandbox = Sandbox::new();
    let plan = sandbox.dir().join("app.toml");
    let text = "question = \"?\"\ntarget = \"null:\"\n[[workload]]\nlabel = \"app\"\ncommand = \"echo took $((100 + {x} + $$ % 2))\"\n\
         x = 0\nfigure.took = \"took {}\"\n[[objective]]\nmetric = \"application\"\nbetter = \"less\"\n[factors]\n\
         workload.x = [0, 50]\n[design]\nblocks = 8\nsequential = false\n[prepare]\nquiet = \"0s\"\n";
    std::fs::write(&plan, text).unwrap();
    let done = sandbox.json(&["lab", p(&plan)], &[0, 1]);
    let side = |level: u32| format!("{}:x={level}", done.id());
    let found = compared(&sandbox, &[&side(0), &side(50)], 1);
    let figure = &found["comparison"]["rows"][0]["figures"][0];
    assert_eq!(
        (&figure["metric"]["told"][0], &figure["decision"]),
        (&"took".into(), &"slower".into()),
        "{found}"
    );
    let text = sandbox.run(&["compare", &side(0), &side(50)]);
    assert!(text.stdout.contains("B's took 4") && text.stdout.contains("higher"), "{text:?}");
    assert!(text.stdout.contains("REGRESSION: B is worse in"), "{text:?}");
}

fn two_devices() {
    let sandbox = Sandbox::new();
    let disks = [LoopDevice::new(64 * MIB), LoopDevice::new(64 * MIB)];
    for (disk, label) in disks.iter().zip(["one", "two"]) {
        let disk = disk.as_ref().unwrap();
        let label = format!("--label={label}");
        let args = ["run", "randread", p(disk.path()), "duration=200ms", "warmup=0s", &label];
        sandbox.json(&args, &[0, 1]);
    }
    let found = compared(&sandbox, &["one", "two"], 1);
    let first = &found["comparison"]["findings"][0];
    assert_eq!(first["id"], "not-comparable", "{found}");
    // Before any figure.
    let text = sandbox.run(&["compare", "one", "two"]).stdout;
    let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("'{word}' is not in {text}"));
    assert!(at("VOID") < at("IOPS") && at("VOID") < at("all the same"), "{text}");
    let found = compared(&sandbox, &["one", "two", "--factor=device"], 0);
    let ids: Vec<&str> = found["comparison"]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["id"].as_str())
        .collect();
    assert!(ids.contains(&"too-few-runs") && !ids.contains(&"not-comparable"), "{ids:?}");
}

fn bad_input() {
    let sandbox = Sandbox::new();
    sandbox.json(&["run", "randread", "null:", "operations=1000", "--label=x"], &[0, 1]);
    let (db, nowhere) = (p(sandbox.db()).to_owned(), "/nowhere/fathom.db");
    for (args, words) in [
        (vec!["compare", "x", "zzzz"], vec!["zzzz", "fathom list"]),
        (vec!["compare", "x", "x"], vec!["both sides"]),
        (vec!["compare", "x", "x", "--fail-if=5%"], vec!["--fail-if=5%", "slower:5%"]),
        (vec!["compare", "x", "x", "--level=10%"], vec!["--level=10%", "50%"]),
        (vec!["compare", "x", "x", "--margin=lots"], vec!["--margin=lots"]),
        (vec!["compare", "x", "x:nothing"], vec!["x:nothing", "no row", "there are: randread"]),
        (vec!["compare", "x", ","], vec!["names no run"]),
    ] {
        sandbox.refuses(&args, 2, &words);
    }
    let missing = format!("x@{nowhere}");
    sandbox.refuses(&["compare", "x", &missing], 2, &[nowhere, "there is no store"]);
    sandbox.json(&["run", "randread", "null:", "operations=1000", "--label=y"], &[0, 1]);
    let done = sandbox.run(&["compare", "x", "y", "--fail-on=void"]);
    assert!(done.stdout.contains("Nothing that fathom records differed"), "{done:?}");
    // All runs of a store, by its file.
    sandbox.refuses(&["compare", "x", &db], 2, &["both sides"]);
}
