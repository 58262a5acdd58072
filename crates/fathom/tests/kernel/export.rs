//! Runs out of the store and into another, as a user does it; what other programs make of the forms.

use crate::cli::{Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, Tool};
use fathom_testkit::command::{find_tool, tool};
use fathom_testkit::{Judged, Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/export.md");

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("export_to_another_store_and_back", &[FathomBinary], round_trip),
        kernel_test("export_files_are_whole_or_absent", &[FathomBinary], files),
        kernel_test("export_refusals", &[FathomBinary], refusals),
        kernel_test(
            "export_of_an_experiment_tells_nothing_when_anonymised",
            &[FathomBinary],
            anonymised,
        ),
        kernel_test("import_refusals", &[FathomBinary], import_refusals),
        kernel_test("tables_in_duckdb", &[FathomBinary, Tool("python3")], || python("duckdb")),
        kernel_test("parquet_says_what_csv_says", &[FathomBinary, Tool("python3")], parquet),
        kernel_test("tables_in_pandas", &[FathomBinary, Tool("python3")], || python("pandas")),
        kernel_test("parquet_in_pandas", &[FathomBinary, Tool("python3")], parquet_in_pandas),
        kernel_test("tables_in_r", &[FathomBinary], r),
        kernel_test("completions_complete_in_bash", &[FathomBinary, Tool("bash")], bash),
        kernel_test("completions_load_in_zsh", &[FathomBinary, Tool("zsh")], zsh),
        kernel_test("completions_complete_in_fish", &[FathomBinary, Tool("fish")], fish),
        kernel_test("the_manual_page_is_formatted", &[FathomBinary, Tool("groff")], man),
    ]
}

/// A store with two runs.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (threads, label) in [("1", "before"), ("2", "after")] {
        let setting = format!("threads={threads}");
        let label = format!("--label={label}");
        let args = ["run", "randread", "null:", "operations=20000", &setting, &label];
        sandbox.json(&args, &[0, 1]);
    }
    sandbox
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn round_trip() {
    let sandbox = sandbox();
    let file = sandbox.scratch.join("all.jsonl.gz");
    let done = sandbox.run(&["export", "-o", p(&file)]);
    assert!(done.code == 0 && done.stdout.starts_with("2 runs to "), "{done:?}");
    let plain = sandbox.run(&["export", "--label=after"]);
    assert_eq!((plain.code, plain.stderr.as_str()), (0, ""), "only the export: {plain:?}");
    let types: Vec<Value> = lines(&plain.stdout).iter().map(|line| line["type"].clone()).collect();
    assert_eq!(types, ["export", "run", "trial", "result"]);

    let other = Sandbox::new();
    let done = other.json(&["import", p(&file)], &[0]);
    assert_eq!((&done.result()["imported"], &done.result()["present"]), (&2.into(), &0.into()));
    assert_eq!(other.runs(), sandbox.runs());
    let again = other.run(&["import", p(&file)]);
    assert_eq!((again.code, again.stdout.as_str()), (0, "0 runs imported, 2 were here already\n"));
    let exported = |sandbox: &Sandbox| sandbox.run(&["export"]).stdout;
    assert_eq!(exported(&other), exported(&sandbox), "word for word");
    // Packed files, one after the other.
    let mut packed = Vec::new();
    for run in sandbox.runs() {
        let part = sandbox.scratch.join("part.jsonl.gz");
        sandbox.json(&["export", run["id"].as_str().unwrap(), "--overwrite", "-o", p(&part)], &[0]);
        packed.extend(fs::read(&part).unwrap());
    }
    fs::write(&file, packed).unwrap();
    let parts = Sandbox::new().json(&["import", p(&file)], &[0]);
    assert_eq!(parts.result()["imported"], 2);
    // The store itself, read only; and an export through a pipe.
    let third = Sandbox::new();
    let before = fs::read(sandbox.db()).unwrap();
    let merged = third.run(&["import", p(sandbox.db())]);
    assert!(merged.code == 0 && merged.stdout.starts_with("2 runs imported"), "{merged:?}");
    assert_eq!(fs::read(sandbox.db()).unwrap(), before, "the other store was only read");
    let fourth = Sandbox::new();
    let mut from = sandbox.command(&["export"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut into = fourth.command(&["import", "-"]);
    let status = into.stdin(from.stdout.take().unwrap()).stdout(Stdio::null()).status().unwrap();
    assert!(status.success() && from.wait().unwrap().success());
    assert_eq!(fourth.runs(), sandbox.runs());
}

fn files() {
    let sandbox = sandbox();
    let dir = sandbox.dir();
    for (name, begins) in [
        ("rows.csv", "run_id,run_kind,"),
        ("x.hlog", "#[Written by fathom"),
        ("x.prom", "# TYPE fathom_run_info gauge\n"),
        ("x.trace.json", "{\"displayTimeUnit\":"),
        ("x.jsonl", "{\"type\":\"export\","),
    ] {
        let file = dir.join(name);
        let done = sandbox.run(&["export", "-o", p(&file)]);
        assert_eq!(done.code, 0, "{name}: {done:?}");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with(begins), "{name}: {text}");
        // The same to standard output, when the form is named.
        let format = ["csv", "hdr", "openmetrics", "chrome-trace", "jsonl"][[
            "rows.csv",
            "x.hlog",
            "x.prom",
            "x.trace.json",
            "x.jsonl",
        ]
        .iter()
        .position(|n| *n == name)
        .unwrap()];
        let direct = sandbox.run(&["export", "--format", format]);
        assert_eq!(direct.stdout, text, "{name}");
    }
    let parquet = dir.join("rows.parquet");
    sandbox.json(&["export", "--what=series", "-o", p(&parquet)], &[0]);
    let bytes = fs::read(&parquet).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1") && bytes.len() > 500);
    let none = ["devices", "watch", "watch-host", "operations", "capture-series"];
    for what in ["rows", "series", "histogram", "trials", "findings"].iter().chain(&none) {
        let done = sandbox.run(&["export", "--format=csv", "--what", what]);
        let is_empty = none.contains(what);
        assert!(done.code == 0 && done.stderr.starts_with("no row: ") == is_empty, "{done:?}");
        let mut rows = done.stdout.lines();
        assert!(rows.next().unwrap().starts_with("run_id,"));
        assert_eq!(rows.next().is_none(), is_empty, "null: has no devices: {done:?}");
    }
    let parquet = dir.join("operations.parquet");
    sandbox.json(&["export", "--what=operations", "-o", p(&parquet)], &[0]);
    assert!(fs::read(&parquet).unwrap().starts_with(b"PAR1"));
    let closed = format!(
        "{} --db {} export | head -c 100 > /dev/null; echo ${{PIPESTATUS[0]}}",
        p(&fathom_testkit::fathom_binary().unwrap()),
        p(sandbox.db())
    );
    let output = tool("bash").args(["-c", &closed]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "a closed pipe is quiet");
}

fn refusals() {
    let empty = Sandbox::new();
    empty.refuses(&["export", "--db", p(&empty.scratch.join("none.db"))], 2, &["does not exist"]);
    let sandbox = sandbox();
    let file = sandbox.scratch.join("x.csv");
    fs::write(&file, "mine").unwrap();
    let refused = |args: &[&str], words: &[&str]| sandbox.run(args).is_refusal(2, words);
    refused(&["export", "-o", p(&file)], &["exists", "--overwrite"]);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    refused(&["export", "-o", p(&sandbox.dir())], &["no form is known"]);
    refused(&["export", "--format=csv", "-o", p(&sandbox.dir())], &["no regular file"]);
    refused(&["export", "--format=csv", "-o", "/dev/x.csv"], &["nothing is made in /dev"]);
    refused(
        &["export", "-o", p(&sandbox.scratch.join("x.doc"))],
        &["no form is known", "--format"],
    );
    refused(
        &["export", "--what=series", "--format=hdr"],
        &["only csv and parquet are tables", "--format=csv"],
    );
    refused(&["export", "zzzz"], &["no run 'zzzz'"]);
    refused(&["export", "--label=nobody"], &["no stored run", "fathom list"]);
    let mixed = sandbox.run(&["--json", "export", "--format=csv"]);
    assert!(mixed.code == 2 && mixed.stderr.contains("standard output"), "{mixed:?}");
    assert_eq!(lines(&mixed.stdout).len(), 1, "no table among the lines: {mixed:?}");
    let table = sandbox.run(&["export", "--what=series"]);
    assert!(table.code == 0 && table.stdout.starts_with("run_id,"), "a table is CSV: {table:?}");
    let done = sandbox.run(&["export", "-o", p(&file), "--overwrite"]);
    assert!(done.code == 0 && fs::read_to_string(&file).unwrap().starts_with("run_id"), "{done:?}");
    let left: Vec<_> = crate::cli::names(sandbox.scratch.path());
    assert!(!left.iter().any(|name| name.ends_with(".part")), "{left:?}");
}

fn import_refusals() {
    let sandbox = sandbox();
    let export = sandbox.run(&["export"]).stdout;
    let other = Sandbox::new();
    let file = other.scratch.join("x");
    let check = |bytes: &[u8], words: &[&str]| {
        fs::write(&file, bytes).unwrap();
        let done = other.run(&["import", p(&file)]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(words.iter().all(|word| done.stderr.contains(word)), "{words:?} in {done:?}");
    };
    check(b"", &["neither an export"]);
    check(b"a,b\n1,2\n", &["neither an export", "fathom import csv"]);
    check(b"SQLite format 3\0nonsense", &["is not a fathom store"]);
    check(b"{\"type\":\"result\"}", &["line 1", "no line of an export"]);
    check(&export.as_bytes()[..export.len() / 4], &["cut off"]);
    check(export.replace("\"batches\":", "\"batches\":1").as_bytes(), &["checksum"]);
    check(export.replace("\"store_format\":", "\"store_format\":9").as_bytes(), &["newer fathom"]);
    let own = sandbox.run(&["import", p(sandbox.db())]);
    assert!(own.code == 2 && own.stderr.contains("is the store that"), "{own:?}");
    let missing = other.run(&["import", "/no/such/file"]);
    assert!(missing.code == 2 && missing.stderr.contains("/no/such/file"), "{missing:?}");
    assert!(other.runs().is_empty());
    // What cannot be read keeps nothing else out.
    let both = other.json(&["import", "/no/such/file", p(sandbox.db())], &[2]);
    assert_eq!(
        (&both.result()["imported"], both.result()["refused"].as_array().unwrap().len()),
        (&2.into(), 1)
    );
}

const PLAN: &str = r#"
name = "acmequartzplan"
question = "Which depth is best for hunter2 at acmequartzpayroll?"
target = "TARGET"
[[workload]]
label = "acmequartzload"
use = "randread"
duration = "80ms"
warmup = "0s"
size = "4M"
[[own_knob]]
name = "acmequartzthing"
read = "cat KNOB"
write = "echo {value} > KNOB"
values = [1, 2]
[factors]
workload.depth = [1, 4]
own.acmequartzthing = [1, 2]
[design]
blocks = 2
[prepare]
settle = "0s"
quiet = "0s"
drop_caches = false
"#;

/// A run, an experiment and a program watched, with names of somebody's own wherever they can be.
fn with_secrets(sandbox: &Sandbox, dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let plan = sandbox.scratch.join("acmequartzplan.toml");
    let knob = sandbox.scratch.join("acmequartzknob");
    fs::write(&knob, "1\n").unwrap();
    fs::write(&plan, PLAN.replace("TARGET", p(dir)).replace("KNOB", p(&knob))).unwrap();
    let workload = sandbox.scratch.join("acmequartzmix.toml");
    let job = "name = 'acmequartzmix'\ntitle = 'for hunter2'\n[[job]]\nname = 'acmequartzjob'\naccess = 'random'\noperations = 300\n";
    fs::write(&workload, job).unwrap();
    let ran = sandbox.run(&["run", p(&workload), p(dir), "size=4M", "--label=zebrafish-wombatden"]);
    assert!([0, 1].contains(&ran.code), "{ran:?}");
    let lab = sandbox.run(&["lab", p(&plan), "--label=giraffeneck"]);
    assert!([0, 1].contains(&lab.code), "{lab:?}");
    // A program with a password, that is watched.
    let program = ["--", "sh", "-c", "sleep 1.2; echo okapiherd 7; : --password=quagga7"];
    let watched =
        [&["watch", "--record", "--figure=wildebeest=okapiherd {}"][..], &program].concat();
    let watched = sandbox.run(&watched);
    assert!([0, 1].contains(&watched.code), "{watched:?}");
}

/// Nothing that somebody chose stands in any form. The secrets are long: letters drawn at random make `acme` now and then.
fn anonymised() {
    let sandbox = Sandbox::new();
    let dir = sandbox.scratch.join("acmequartzpayroll/zebrafishproject");
    with_secrets(&sandbox, &dir);
    let secrets = [
        "acmequartz",
        "zebrafish",
        "hunter2",
        "giraffeneck",
        "wombatden",
        "okapiherd",
        "wildebeest",
        "quagga7",
        p(&dir),
    ];
    let scratch = sandbox.scratch.path().file_name().unwrap().to_str().unwrap();
    let open = sandbox.run(&["export"]).stdout;
    for secret in secrets {
        assert!(open.contains(secret), "the test has no {secret}");
    }
    let mut forms: Vec<Vec<&str>> = ["jsonl", "hdr", "openmetrics", "chrome-trace"]
        .map(|form| vec!["export", "--anonymise", "--format", form])
        .into();
    let watched = ["watch", "watch-host", "operations", "capture-series"];
    for what in
        ["rows", "series", "histogram", "trials", "findings", "devices"].iter().chain(&watched)
    {
        forms.push(vec!["export", "--anonymise", "--format=csv", "--what", what]);
    }
    let ids: Vec<String> =
        sandbox.runs().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect();
    let [_, lab, ran] = ids.as_slice() else { panic!("{ids:?}") };
    for format in ["--format=html", "--format=markdown"] {
        let report =
            |more: &[&'static str]| [&["report", "--anonymise", "-o", "-", format], more].concat();
        forms.extend(ids.iter().map(|id| [report(&[]), vec![id.as_str()]].concat()));
        forms.push([report(&[]), vec![lab.as_str(), ran.as_str()]].concat());
        forms.push([report(&["--history"]), vec![p(&dir)]].concat());
    }
    for args in forms {
        let done = sandbox.run(&args);
        assert_eq!(done.code, 0, "{args:?}: {done:?}");
        let text = done.stdout.to_lowercase();
        for secret in secrets.iter().chain([&scratch]) {
            let place = text.find(&secret.to_lowercase());
            let around = place.map(|at| &text[at.saturating_sub(200)..(at + 100).min(text.len())]);
            assert!(place.is_none(), "{args:?}: {secret} in {around:?}");
        }
    }
    // What remains is a run like any other.
    let hidden = sandbox.scratch.join("hidden.jsonl");
    sandbox.json(&["export", "--anonymise", "-o", p(&hidden)], &[0]);
    let other = Sandbox::new();
    other.json(&["import", p(&hidden)], &[0]);
    for run in other.runs() {
        let shown = other.run(&["show", run["id"].as_str().unwrap()]);
        assert!([0, 1].contains(&shown.code), "{shown:?}");
    }
}

/// The examples of the page in that language.
fn examples(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> =
        PAGE.split(fence.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty(), "no example in {language}");
    blocks
}

/// The files that the page speaks of.
fn tables() -> Sandbox {
    let sandbox = sandbox();
    let file = |name: &str| sandbox.dir().join(name);
    sandbox.json(&["export", "-o", p(&file("rows.csv"))], &[0]);
    sandbox.json(&["export", "--what=series", "-o", p(&file("series.csv"))], &[0]);
    sandbox
}

#[track_caller]
fn answers(command: &mut Command, words: &[&str]) {
    let output = command.output().unwrap();
    let (text, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    for word in words {
        assert!(text.contains(word), "'{word}' is not in {text}");
    }
}

/// A Python that has these modules; else why nothing can be judged.
fn python_with(modules: &str) -> Result<&'static str, Judged> {
    let import = format!("import {modules}");
    let has = |python: &str| {
        let output = Command::new(python).args(["-c", &import]).stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(|python| has(python));
    let missing = || {
        let names = modules.replace(',', "");
        Judged::Skipped(format!("python3 has no {modules} (pip install {names})"))
    };
    found.ok_or_else(missing)
}

/// Reads both forms of every table with the types of the Parquet file, and says how many rows and cells are the same.
const SAME: &str = r#"
import duckdb, sys
rows = filled = 0
for what in sys.argv[1:]:
    types = {name: kind for name, kind, *_ in duckdb.sql(f"DESCRIBE SELECT * FROM '{what}.parquet'").fetchall()}
    # An empty cell is a null in both, a quoted one an empty text.
    read = f'''read_csv('{what}.csv', header=true, auto_detect=false, delim=',', quote='"', escape='"', nullstr='', allow_quoted_nulls=false, columns={types})'''
    packed, plain = (duckdb.sql(f"SELECT * FROM {source}").fetchall() for source in (f"'{what}.parquet'", read))
    assert packed == plain, next((a, b) for a, b in zip(packed + [None], plain + [None]) if a != b)
    assert packed, what
    numbers = [name for name, kind in types.items() if kind in ("BIGINT", "DOUBLE", "UBIGINT", "BOOLEAN")]
    assert numbers or what == "findings", types
    rows += len(packed)
    filled += sum(cell is not None for row in packed for cell in row)
print("rows", rows, "cells", filled)
"#;

const IN_BOTH: [&str; 4] = ["rows", "series", "histogram", "trials"];

/// The same tables as CSV and as Parquet.
fn in_both() -> Sandbox {
    let sandbox = sandbox();
    for what in IN_BOTH {
        for form in ["csv", "parquet"] {
            let file = sandbox.dir().join(format!("{what}.{form}"));
            sandbox.json(&["export", "--what", what, "-o", p(&file)], &[0]);
        }
    }
    sandbox
}

/// The same for pandas, whose reader of CSV does not tell an empty text from none: cells are compared as texts and numbers.
const SAME_IN_PANDAS: &str = r#"
import pandas, sys
rows = numbers = 0
for what in sys.argv[1:]:
    packed, plain = pandas.read_parquet(f"{what}.parquet", engine="fastparquet"), pandas.read_csv(f"{what}.csv", dtype=str, keep_default_na=False)
    assert list(packed.columns) == list(plain.columns) and len(packed) == len(plain) > 0, what
    for name in plain.columns:
        is_number = pandas.api.types.is_numeric_dtype(packed[name]) and not pandas.api.types.is_bool_dtype(packed[name])
        numbers += is_number
        for cell, text in zip(packed[name], plain[name]):
            if pandas.isna(cell):
                assert text == "", (what, name, cell, text)
            elif is_number:
                assert float(text) == float(cell), (what, name, cell, text)
            else:
                assert text.lower() == str(cell).lower(), (what, name, cell, text)
    rows += len(plain)
print("rows", rows, "columns of numbers", numbers)
assert numbers > 10
"#;

fn parquet_in_pandas() -> Judged {
    let python = match python_with("pandas, fastparquet") {
        Ok(python) => python,
        Err(skipped) => return skipped,
    };
    let sandbox = in_both();
    let mut command = Command::new(python);
    let same = command.args(["-c", SAME_IN_PANDAS]).args(IN_BOTH).current_dir(sandbox.dir());
    answers(same, &["rows ", "columns of numbers "]);
    // As the page says.
    let query = "import pandas; print(pandas.read_parquet('rows.parquet').groupby(['row_label', 'class'])['operations_per_s'].median())";
    answers(Command::new(python).args(["-c", query]).current_dir(sandbox.dir()), &["randread"]);
    Judged::Passed
}

/// Parquet files are read by a program that knows nothing of this one: they hold what the CSV of the same table holds, cell by cell.
fn parquet() -> Judged {
    let python = match python_with("duckdb") {
        Ok(python) => python,
        Err(skipped) => return skipped,
    };
    let sandbox = in_both();
    let mut command = Command::new(python);
    let same = command.args(["-c", SAME]).args(IN_BOTH).current_dir(sandbox.dir());
    answers(same, &["rows ", "cells "]);
    // As the page says.
    let query = "import duckdb; print(duckdb.sql(\"SELECT row_label, class, median(operations_per_s) FROM 'rows.parquet' GROUP BY ALL\"))";
    answers(
        Command::new(python).args(["-c", query]).current_dir(sandbox.dir()),
        &["randread", "read"],
    );
    Judged::Passed
}

fn python(module: &str) -> Judged {
    let import = format!("import {module}");
    let python = match python_with(module) {
        Ok(python) => python,
        Err(skipped) => return skipped,
    };
    let sandbox = tables();
    let mut count = 0;
    for block in examples("python").iter().filter(|block| block.contains(&import)) {
        count += 1;
        let mut command = Command::new(python);
        answers(command.args(["-c", block]).current_dir(sandbox.dir()), &["read"]);
    }
    assert_eq!(count, 1);
    Judged::Passed
}

fn r() -> Judged {
    let Some(rscript) = find_tool("Rscript") else {
        return Judged::Skipped("Rscript is not installed (apt: r-base-core)".to_owned());
    };
    let sandbox = tables();
    for block in examples("r") {
        answers(Command::new(&rscript).args(["-e", block]).current_dir(sandbox.dir()), &["read"]);
    }
    Judged::Passed
}

/// The script of a shell, in a file.
fn script(sandbox: &Sandbox, shell: &str) -> PathBuf {
    let done = sandbox.run(&["completions", shell]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    let file = sandbox.scratch.join(shell);
    fs::write(&file, done.stdout).unwrap();
    file
}

fn bash() {
    let sandbox = Sandbox::new();
    let file = script(&sandbox, "bash");
    let cases = [
        ("fathom exp", "export"),
        ("fathom export --fo", "--format"),
        ("fathom export --format = c", "csv chrome-trace"),
        ("fathom tree ''", "build scan verify"),
        ("fathom --json completions ''", "bash zsh fish"),
    ];
    for (words, expected) in cases {
        let text = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _fathom; echo \"${{COMPREPLY[*]}}\"",
            p(&file)
        );
        let mut command = tool("bash");
        let output = command.args(["--norc", "-c", &text]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let got = String::from_utf8_lossy(&output.stdout);
        assert_eq!((got.trim_end(), said.as_str()), (expected, ""), "{words}");
    }
}

fn zsh() {
    let sandbox = Sandbox::new();
    let file = script(&sandbox, "zsh");
    let text =
        format!("autoload -U compinit; compinit -u -D; source {}; whence -w _fathom", p(&file));
    let output = tool("zsh").args(["-f", "-c", &text]).output().unwrap();
    let (got, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!((got.trim_end(), said.as_ref()), ("_fathom: function", ""));
}

fn fish() {
    let sandbox = Sandbox::new();
    let file = script(&sandbox, "fish");
    for (words, expected) in
        [("fathom exp", "export"), ("fathom export --form", "--format"), ("fathom tree ", "verify")]
    {
        let text = format!("source {}; complete -C '{words}'", p(&file));
        let output = tool("fish")
            .args(["--no-config", "-c", &text])
            .env("HOME", sandbox.scratch.path())
            .output()
            .unwrap();
        let got = String::from_utf8_lossy(&output.stdout);
        assert!(
            got.lines().any(|line| line.split('\t').next() == Some(expected)),
            "{words}: {got}"
        );
    }
}

fn man() {
    let sandbox = Sandbox::new();
    let done = sandbox.run(&["man"]);
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    let file = sandbox.scratch.join("fathom.1");
    fs::write(&file, done.stdout).unwrap();
    let output = tool("groff").args(["-man", "-Tascii", "-ww", p(&file)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "warnings");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("FATHOM(1)") && text.lines().count() > 300, "{text}");
}
