//! `import csv` as a user calls it: a published table and the command of `docs/published.md`, and files that are no tables.

use crate::cli::{Sandbox, p};
use fathom_testkit::Capability::FathomBinary;
use fathom_testkit::{Trial, kernel_test};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// 125 rows of four arrays by threads and request size. Line 122 is line 118 again, under other threads.
const PUBLISHED: &str =
    include_str!("../../../fathom-study/tests/reference/randomio_threads_x_size.csv");
const QUESTIONS: [&str; 7] = [
    "--columns=config:skip,total_iops:higher:1/s,r_iops:higher:1/s,r_avg_ms:lower:ms",
    "--columns=w_iops:higher:1/s,w_avg_ms:lower:ms",
    "--columns=r_min_ms:skip,r_max_ms:skip,r_sdev_ms:skip,w_min_ms:skip,w_max_ms:skip,w_sdev_ms:skip",
    "--little=threads=r_iops*r_avg_ms+w_iops*w_avg_ms",
    "--sweep=threads:total_iops",
    "--best=implementation:total_iops:io_size_bytes",
    "--compare=level:5:10:total_iops",
];

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("import_a_published_table", &[FathomBinary], published),
        kernel_test("import_a_published_table_for_programs", &[FathomBinary], for_programs),
        kernel_test("import_exit_codes", &[FathomBinary], exit_codes),
        kernel_test("import_what_is_no_table", &[FathomBinary], no_table),
        kernel_test("import_what_does_not_fit_the_table", &[FathomBinary], no_fit),
        kernel_test("import_what_has_no_end", &[FathomBinary], no_end),
    ]
}

/// The table as it is.
fn published_file(sandbox: &Sandbox) -> PathBuf {
    let file = sandbox.scratch.join("randomio.csv");
    fs::write(&file, PUBLISHED).unwrap();
    file
}

fn asked<'a>(file: &'a Path, questions: &[&'a str]) -> Vec<&'a str> {
    [&["import", "csv", p(file)], questions].concat()
}

fn published() {
    let sandbox = Sandbox::new();
    let file = published_file(&sandbox);
    let done = sandbox.run(&asked(&file, &QUESTIONS));
    assert_eq!((done.code, done.stderr.as_str()), (1, ""), "a row cannot be right: {done:?}");
    // Lines are wrapped.
    let text = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "randomio.csv: 125 rows, each taken for a single run",
        "factors implementation, level, on, threads, io_size_bytes",
        "skipped config, r_min_ms",
        "124 of 125 rows within 5 %",
        "254.3 in flight, stated 512: -50.3 %",
        "line 122 (threads 512) has the figures of line 118 (threads 256): line 122 is the copy",
        "total_iops (1/s) by threads",
        "total_iops (1/s), the best of each implementation",
        "512 md 1111.1 3ware 999.9",
        "total_iops (1/s): level 10 against 5",
        "22 pairs: better; not matched: 80",
    ] {
        assert!(text.contains(words), "'{words}' is not in {}", done.stdout);
    }
    assert!(!sandbox.db().exists(), "rows of figures are no records");
    // Columns that nobody explained are told, with the cure.
    let without: Vec<&str> = QUESTIONS.into_iter().filter(|word| !word.contains("sdev")).collect();
    let done = sandbox.run(&asked(&file, &without));
    let text = done.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["also differ in r_max_ms", "--columns=NAME:skip leaves a column out"] {
        assert!(done.code == 1 && text.contains(words), "'{words}' is not in {}", done.stdout);
    }
}

fn for_programs() {
    let sandbox = Sandbox::new();
    let file = published_file(&sandbox);
    let done = sandbox.json(&asked(&file, &QUESTIONS), &[1]);
    assert_eq!(done.stderr, "");
    let result = done.result();
    assert_eq!(result["rows"], 125);
    let rows = result["littles_law"]["rows"].as_array().unwrap();
    let broken: Vec<&Value> = rows.iter().filter(|row| row["breaks_law"] == true).collect();
    let [broken] = broken.as_slice() else { panic!("{broken:?}") };
    assert_eq!((rows.len(), &broken["line"], &broken["stated"]), (125, &json!(122), &json!(512.0)));
    let copy = json!({
        "lines": [118, 122], "earlier": { "threads": "256" }, "later": { "threads": "512" },
    });
    assert_eq!((&result["copies"], &result["left_out"]), (&json!([copy]), &json!([122])));
    // Four sizes of three arrays, three of the fourth; the copy counts in none.
    let sweeps = result["sweeps"].as_array().unwrap();
    assert_eq!(sweeps.len(), 15);
    let group = json!({
        "implementation": "3ware", "level": "5", "on": "xfs file", "io_size_bytes": "131072",
    });
    let copied = sweeps.iter().find(|sweep| sweep["group"] == group).unwrap();
    let points = copied["points"].as_array().unwrap();
    assert!(points.contains(&json!([1024.0, 310.4])), "{copied}");
    assert!(points.iter().all(|point| point[0] != 512.0), "{copied}");
    let best = result["best"].as_array().unwrap();
    let first = |best: &Value| best["ranking"][0]["level"].clone();
    assert_eq!(best.iter().map(first).collect::<Vec<_>>(), ["md"; 4]);
    let [compared] = result["comparisons"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!(compared["question"], json!(["level", "5", "10", "total_iops"]));
    assert_eq!((&compared["pairs"], &compared["unmatched"]), (&json!(22), &json!(80)));
    assert_eq!(compared["answer"]["decision"], "faster");
}

/// Only rows that cannot be right and comparisons that cannot be made are doubtful.
fn exit_codes() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("two.csv");
    fs::write(&file, "disk,controller,iops\na,x,100\nb,y,150\n").unwrap();
    let metric = "--columns=iops:higher:1/s";
    let read = sandbox.run(&asked(&file, &[metric]));
    assert!(read.code == 0 && read.stdout.contains("2 rows"), "{read:?}");
    let confounded = sandbox.run(&asked(&file, &[metric, "--compare=disk:a:b:iops"]));
    assert_eq!(confounded.code, 1, "{confounded:?}");
    let words = "not comparable: no two rows differ in disk alone";
    assert!(confounded.stdout.contains(words), "{confounded:?}");
    let skipped = [metric, "--columns=controller:skip", "--compare=disk:a:b:iops"];
    let compared = sandbox.run(&asked(&file, &skipped));
    assert!(compared.code == 0 && compared.stdout.contains("+50.0 %"), "{compared:?}");
}

/// Refused with code 2 and a message that names the file.
#[track_caller]
fn refused(sandbox: &Sandbox, file: &Path, questions: &[&str], words: &str) {
    let args = asked(file, questions);
    sandbox.run(&args).is_refusal(2, &[&format!("{}: {words}", p(file))]);
    let result = sandbox.json(&args, &[2]).result();
    assert_eq!(result["exit_code"], 2);
    assert!(result["error"].as_str().unwrap().contains(words), "{result}");
    assert!(!sandbox.db().exists(), "nothing is stored");
}

fn no_table() {
    let sandbox = Sandbox::new();
    let metric = ["--columns=iops:higher:1/s"];
    let missing = sandbox.scratch.join("missing.csv");
    refused(&sandbox, &missing, &metric, "No such file or directory");
    refused(&sandbox, &sandbox.dir(), &metric, "Is a directory");
    let file = sandbox.scratch.join("bad.csv");
    for (bytes, words) in [
        (&b"disk,iops\na,\xff\n"[..], "is no text in UTF-8, so no CSV file"),
        (b"", "the table has no rows: the first line names the columns"),
        (b"disk,iops\n", "the table has no rows"),
        (b"disk,iops\na,100\nb\n", "line 3 has 1 values, the first line names 2 columns"),
        (b"disk,iops\na,1,000\n", "line 2 has 3 values, the first line names 2 columns"),
        (b"disk,iops\na,fast\n", "line 2, column iops: 'fast' is no number"),
        (b"disk,iops\na,\"100\n", "line 2: a quote opens here and is never closed"),
        (b"iops,iops\n1,2\n", "the first line names two columns 'iops'; rename one"),
    ] {
        fs::write(&file, bytes).unwrap();
        refused(&sandbox, &file, &metric, words);
    }
}

fn no_fit() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("good.csv");
    fs::write(&file, "disk,threads,iops,ms\na,8,800,10\nb,8,400,20\n").unwrap();
    let columns = "--columns=iops:higher:1/s,ms:lower:ms";
    sandbox.json(&asked(&file, &[columns, "--little=threads=iops*ms"]), &[0]);
    for (questions, words) in [
        (&["--columns=iosp:higher"][..], "no column 'iosp'; there are: disk, threads, iops, ms"),
        (&["--columns=iops"], "'iops' does not say what a column is; write NAME:higher:UNIT"),
        (&[columns, "--little=threads"], "'threads' is no law; write IN_FLIGHT=RATE*LATENCY"),
        (&[columns, "--little=threads=ms*ms"], "column 'ms' must be a rate"),
        (&[columns, "--sweep=threads"], "'threads' has the wrong number of parts"),
        (&[columns, "--sweep=disk:iops"], "line 2, column disk: 'a' is no number"),
        (&[columns, "--sweep=threads:disk"], "column 'disk' must be a metric"),
        (&[columns, "--compare=disk:a:c:iops"], "no row has disk 'c'; there are: a, b"),
    ] {
        refused(&sandbox, &file, questions, words);
    }
    refused(&sandbox, &file, &[], "which of its columns were measured?");
}

/// Neither an endless line, nor endless rows, nor a table that is too large is read to its end.
fn no_end() {
    let sandbox = Sandbox::new();
    let metric = ["--columns=iops:higher:1/s"];
    refused(&sandbox, Path::new("/dev/zero"), &metric, "more than 16 MiB");
    let file = sandbox.scratch.join("endless.csv");
    for (row, words) in [
        ("x".repeat(17 << 20), "more than 16 MiB, the most that a table of results may have"),
        ("1\n".repeat(10_001), "line 10002: more than 10000 rows are no table of results"),
        (",".repeat(1000), "line 2: more than 1000 columns are no table of results"),
    ] {
        fs::write(&file, format!("iops\n{row}")).unwrap();
        refused(&sandbox, &file, &metric, words);
    }
    // The largest table that is taken is answered, and soon.
    let rows: String = (0..10_000).map(|i| format!("{},{i},{}\n", i % 2, 100 + i)).collect();
    fs::write(&file, format!("side,block,iops\n{rows}")).unwrap();
    let started = std::time::Instant::now();
    let asked = sandbox.run(&asked(&file, &[metric[0], "--compare=side:0:1:iops"]));
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}
