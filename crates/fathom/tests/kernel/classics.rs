//! The classic workloads as a user calls them: phases, what was understood, the forms.

use crate::cli::{Done, Sandbox, bytes, names, operations, p};
use fathom_testkit::Capability::Tool;
use fathom_testkit::{Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("phases_follow_each_other_on_one_file", &[], phases_follow_each_other),
        kernel_test("some_phases_only", &[], some_phases_only),
        kernel_test("a_phase_finds_what_the_one_before_wrote", &[], finds_what_was_written),
        kernel_test("arguments_are_read_back", &[], arguments_are_read_back),
        kernel_test("sizes_of_an_array_need_one", &[], sizes_of_an_array_need_one),
        kernel_test("every_classic_form", &[], every_classic_form),
        kernel_test("operations_do_not_shorten_phases", &[], operations_and_phases),
        kernel_test("dd_counts_beyond_its_own_amount", &[], dd_beyond_its_amount),
        kernel_test("the_page_cache_can_be_trusted_on_purpose", &[], cached_reads),
        kernel_test("randomio_exact_asks_for_the_same", &[], randomio_exact),
        kernel_test("each_thread_has_a_file_of_its_own", &[], own_files),
        kernel_test("threads_share_a_file_only_when_asked", &[], shared_file),
        kernel_test("files_are_created_looked_up_and_deleted", &[], names_in_phases),
        kernel_test("a_phase_on_names_makes_what_it_needs", &[], names_alone),
        kernel_test("names_need_a_directory", &[], names_need_a_directory),
        kernel_test("names_end_by_time_signal_and_kill", &[Tool("kill")], names_ended),
        kernel_test("syncs_are_counted_over_all_threads", &[], syncs_of_threads),
    ]
}

/// Operations of a class in a record of one job; 0 where there is no such class.
pub fn count_of(record: &Value, class: &str) -> u64 {
    let classes = record["jobs"][0]["classes"].as_array().unwrap();
    let found = classes.iter().find(|known| known["class"] == class);
    found.map_or(0, |class| class["latency_ns"]["count"].as_u64().unwrap())
}

/// Runs a phase of sysbench's on four files; only `operations=` ends it.
pub fn sysbench_phase(sandbox: &Sandbox, phase: &str, size: &str, more: &[&str]) -> Done {
    let (dir, phase) = (sandbox.dir(), format!("--phase={phase}"));
    let args = ["run", "sysbench-fileio", p(&dir), size, "files=4", &phase, "duration=100s"];
    sandbox.json(&[&args, more].concat(), &[0, 1])
}

fn labels(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["label"].as_str().unwrap()).collect()
}

fn final_sync_ns(record: &Value) -> Option<u64> {
    record["jobs"][0]["final_sync_ns"].as_u64()
}

fn phases_follow_each_other() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "iozone", p(&dir), "size=16M", "--repeats=2"];
    let done = sandbox.json(&args, &[0, 1]);
    let records = done.records();
    let phases = ["write", "rewrite", "read", "reread", "random read", "random write"];
    let expected: Vec<String> = (1..=2)
        .flat_map(|repeat| phases.map(|phase| format!("iozone, {phase} #{repeat}")))
        .collect();
    assert_eq!(labels(&records), expected);
    for record in &records {
        assert_eq!((operations(record), bytes(record)), (256, 16 << 20), "{}", record["label"]);
        let writes = record["label"].as_str().unwrap().contains("write");
        assert_eq!(final_sync_ns(record).is_some(), writes, "fsync is inside the time");
        assert_eq!(record["workload"]["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(record["targets"][0]["path"], records[0]["targets"][0]["path"], "one file");
    }
    let seeds: std::collections::BTreeSet<u64> =
        records.iter().map(|record| record["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds.len(), 12);
    let started: Vec<(u64, u64)> = done
        .objects()
        .iter()
        .filter(|object| object["type"] == "trial_started")
        .map(|object| (object["index"].as_u64().unwrap(), object["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(started, (1..=12).map(|index| (index, 12)).collect::<Vec<_>>());
    assert_eq!(sandbox.runs()[0]["trials"], 12);
    // Two tables of one row, in operations and in KB, for each repeat.
    let shown = sandbox.run(&["show", &done.id(), "--style=classic"]);
    assert_eq!(shown.stdout.matches("           16384      64 ").count(), 4, "{shown:?}");
    sandbox.nothing_left(&[]);
}

fn some_phases_only() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let phases = ["--phase=random read", "--phase=rewrite"];
    let done = sandbox
        .json(&[&["run", "iozone", p(&dir), "size=4M"], phases.as_slice()].concat(), &[0, 1]);
    // In their own order, and on data, though the phase that writes them was left out.
    assert_eq!(labels(&done.records()), ["iozone, rewrite", "iozone, random read"]);
    done.records().iter().for_each(|record| assert_eq!(bytes(record), 4 << 20));
    sandbox.refuses(
        &["run", "iozone", p(&dir), "--phase=rewrit"],
        2,
        &["no phase 'rewrit'", "did you mean 'rewrite'?"],
    );
    sandbox.refuses(&["run", "seeker", p(&dir), "--phase=x"], 2, &["no phase 'x'", "it has none"]);
}

/// A first phase that stops early leaves a shorter file, and the next works on that.
fn finds_what_was_written() {
    let sandbox = Sandbox::new();
    let file = sandbox.scratch.join("short.toml");
    std::fs::write(
        &file,
        "name='short'\ntitle='x'\ndescription='x'\n\
         [[job]]\nphase='write'\naccess='sequential'\nwrite_fraction=1\namount='3M'\ndirect='no'\n\
         [[job]]\nphase='read'\naccess='sequential'\ndirect='no'\n\
         [[job]]\nphase='again'\naccess='sequential'\nwrite_fraction=1\namount='1M'\ndirect='no'\n\
         [[job]]\nphase='over'\naccess='sequential'\nwrite_fraction=1\noverwrite='yes'\ndirect='no'\n",
    )
    .unwrap();
    let dir = sandbox.dir();
    let done = sandbox.json(&["run", p(&file), p(&dir), "size=8M"], &[0, 1]);
    let moved: Vec<u64> = done.records().iter().map(bytes).collect();
    assert_eq!(moved, [3 << 20, 3 << 20, 1 << 20, 1 << 20]);
}

fn arguments_are_read_back() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randomio", p(&dir), "size=8M", "duration=100ms", "threads=3"];
    let done = sandbox.run(&args);
    let line = "mix: 3 threads x depth 1, random, 4 KiB, 20 % writes, fsync after 10 % of them, O_DIRECT, io_uring, for 100 ms, on ";
    let at = done.stderr.find(line).unwrap_or_else(|| panic!("{done:?}"));
    assert!(done.stderr[at..].contains("/data (8 MiB)\n"), "{done:?}");
    assert!(at < done.stderr.find("Writing the test file").unwrap(), "before anything is written");
    let done = sandbox.json(&["run", "iozone", p(&dir), "size=4M"], &[0, 1]);
    let asked: Vec<Value> =
        done.objects().into_iter().filter(|object| object["type"] == "job_asked").collect();
    let names: Vec<&str> =
        asked.iter().map(|event| event["job"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["write", "rewrite", "read", "reread", "random read", "random write"]);
    assert!(asked.iter().all(|event| event["target_bytes"] == 4 << 20));
}

fn sizes_of_an_array_need_one() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for value in ["block_size=chunk", "span=2xstride", "block_size=4k:1,stride:1"] {
        sandbox.refuses(
            &["run", "randread", p(&dir), "size=8M", "duration=100ms", value],
            2,
            &[value, "no array with chunks under the target"],
        );
    }
    sandbox.refuses(&["run", "randread", p(&dir), "block_size=chunks"], 2, &["block_size=chunks"]);
}

/// Each workload that has a classic form prints it, at once and from the store.
fn every_classic_form() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for (workload, more, parts) in [
        ("randomio", &["duration=200ms"][..], &["  total |  read: "][..]),
        ("randomio-exact", &["duration=200ms"], &["  total |  read: "]),
        ("seeker", &["duration=200ms", "threads=2"], &["seeks/second (2 at a time)"]),
        ("iozone", &["threads=2"], &["Children see throughput for  2 initial writers"]),
        (
            "sysbench-fileio",
            &["duration=200ms", "files=4"],
            &[
                "Doing random r/w test\n",
                " Other = ",
                "Threads fairness:",
                "approx.  95 percentile:",
            ],
        ),
        ("tiobench", &["write.sync_at_end=none"], &["| Random Read ", "| Total "]),
        (
            "bonnie",
            &["seeks.operations=100", "names=2048"],
            &["Version  1.03", "fathom 8M", "Random Create", "\n                  2 "],
        ),
        (
            "hdparm",
            &["duration=200ms"],
            &[" Timing cached reads: ", " Timing buffered disk reads: "],
        ),
        ("dd", &[], &["32+0 records in\n32+0 records out\n8388608 bytes (8.4 MB, 8.0 MiB) copied"]),
        ("sdd", &[], &[" kBytes/sec)"]),
    ] {
        let args = [&["run", workload, p(&dir), "size=8M", "--style=classic"], more].concat();
        let done = sandbox.run(&args);
        assert!([0, 1].contains(&done.code), "{workload}: {done:?}");
        let again = sandbox.runs()[0]["id"].as_str().unwrap().to_owned();
        let shown = sandbox.run(&["show", &again, "--style=classic"]);
        for part in parts {
            assert!(done.stdout.contains(part), "{workload}: no '{part}' in {done:?}");
            assert!(shown.stdout.contains(part), "{workload}: no '{part}' in {shown:?}");
        }
        sandbox.nothing_left(&[]);
    }
}

/// What the later phases read was written: the sequential ones keep their pass.
fn operations_and_phases() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let done = sandbox.json(&["run", "tiobench", p(&dir), "size=8M", "operations=100"], &[0, 1]);
    let counts: Vec<u64> = done.records().iter().map(operations).collect();
    assert_eq!(counts, [2048, 100, 2048, 100]);
    done.has_not("unwritten-extents");
    sandbox.nothing_left(&[]);
}

/// The workload's own 1 GiB neither ends the copy nor makes the file too short for it.
fn dd_beyond_its_amount() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let settings = ["block_size=41M", "operations=25", "sync_at_end=none"];
    let done = sandbox.json(&[&["run", "dd", p(&dir)], &settings[..]].concat(), &[0, 1]);
    assert_eq!(bytes(&done.records()[0]), (1 << 30) + (1 << 20));
    let shown = sandbox.run(&["show", &done.id(), "--style=classic"]);
    assert!(shown.stdout.contains("25+0 records in\n"), "{shown:?}");
    sandbox.nothing_left(&[]);
}

fn cached_reads() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "hdparm", p(&dir), "size=8M", "duration=200ms"];
    let cached = sandbox.json(&[&args[..], &["--phase=cached"]].concat(), &[0, 1]);
    cached.has_not("sample-too-small");
    let device = sandbox.json(&[&args[..], &["--phase=device"]].concat(), &[1]);
    assert_eq!(device.finding("sample-too-small")["severity"], "doubtful");
}

/// The reads and writes of two runs are the same to the last one, whatever the seed; those of randomio are not.
fn randomio_exact() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let counts = |workload: &str, seed: &str| {
        let args = [
            "run",
            workload,
            p(&dir),
            "size=8M",
            "operations=2000",
            "threads=4",
            "engine=psync",
            seed,
        ];
        let record = sandbox.json(&args, &[0, 1]).records().swap_remove(0);
        ["read", "write", "synced_write"].map(|class| count_of(&record, class))
    };
    let exact = counts("randomio-exact", "--seed=1");
    assert_eq!(exact.iter().sum::<u64>(), 2000);
    assert_eq!(exact, counts("randomio-exact", "--seed=2"));
    // What the original's numbers come to: every second draw of drand48 from 0, below 0.2 and below 0.02.
    let mut state = 0u64;
    let mut draw = || {
        state = (state.wrapping_mul(0x5_DEEC_E66D) + 11) % (1 << 48);
        state as f64 / (1u64 << 48) as f64
    };
    let actions: Vec<f64> = (0..2000).map(|_| (draw(), draw()).1).collect();
    let below = |share: f64| actions.iter().filter(|action| **action < share).count() as u64;
    let (writes, synced) = (below(0.2), below(0.2 * 0.1));
    assert_eq!(exact, [2000 - writes, writes - synced, synced]);
    assert_ne!(counts("randomio", "--seed=1"), counts("randomio", "--seed=2"));
}

/// Length and number of the files of a kept run, in directories of a thousand.
fn kept_lengths(dir: &Path) -> Vec<u64> {
    let own = names(dir).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
    let inner = dir.join(own).join("d0000");
    names(&inner).iter().map(|name| fs::metadata(inner.join(name)).unwrap().len()).collect()
}

/// iozone -t and tiobench: as many files as threads, written from nothing, each by one thread.
fn own_files() {
    for (workload, more, phases) in
        [("iozone", &["threads=4", "block_size=64k"][..], 6), ("tiobench", &["operations=400"], 4)]
    {
        let sandbox = Sandbox::new();
        let dir = sandbox.dir();
        let args = [&["run", workload, p(&dir), "size=8M", "--keep"], more].concat();
        let done = sandbox.json(&args, &[0, 1]);
        let records = done.records();
        assert_eq!(records.len(), phases);
        for record in &records {
            let job = &record["workload"]["jobs"][0];
            assert_eq!((&job["files"], &job["file_choice"]), (&4.into(), &"thread".into()));
            let times = record["jobs"][0]["thread_times"].as_array().unwrap();
            let moved: Vec<u64> = times.iter().map(|t| t["bytes"].as_u64().unwrap()).collect();
            assert_eq!(moved, [bytes(record) / 4; 4], "{}", record["label"]);
            let window_ns = record["jobs"][0]["window_ns"].as_u64().unwrap();
            let own = |key: &str| -> Vec<u64> {
                times.iter().map(|times| times[key].as_u64().unwrap()).collect()
            };
            let (windows, busy) = (own("window_ns"), own("busy_ns"));
            assert_eq!(windows.iter().max(), Some(&window_ns));
            assert!(windows.iter().zip(&busy).all(|(window, busy)| 0 < *busy && busy <= window));
        }
        assert_eq!(kept_lengths(&dir), [2 << 20; 4], "each file is full");
        let shown = sandbox.run(&["show", &done.id(), "--style=classic"]);
        let form = if workload == "iozone" { "Parent sees" } else { "for 4 concurrent io threads" };
        assert!(shown.stdout.contains(form), "{shown:?}");
    }
    // A write phase starts from nothing again, and one that stops early leaves that much for the next.
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "iozone", p(&dir), "size=8M", "threads=2", "write.amount=3M", "--repeats=2"];
    let records = sandbox.json(&args, &[0, 1]).records();
    let moved: Vec<u64> = records.iter().map(bytes).collect();
    assert_eq!(moved, [3 << 20; 12]);
    sandbox.nothing_left(&[]);
}

fn shared_file() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = dir.join("one");
    let args = ["run", "iozone", p(&file), "size=8M", "threads=2"];
    sandbox.refuses(&args, 2, &["a file for each of 2 threads", "file_choice=round_robin"]);
    let done = sandbox.json(&[&args[..], &["file_choice=round_robin"]].concat(), &[0, 1]);
    assert!(done.records().iter().all(|record| bytes(record) == 8 << 20));
    let alone = sandbox.json(&[&args[..4], &["threads=1"]].concat(), &[0, 1]);
    assert_eq!(alone.records().len(), 6, "one thread needs no directory");
    for (more, part) in [
        (&["threads=2", "files=3"][..], "files=3: file_choice=thread makes one for each thread"),
        (&["threads=2", "cursor=job"], "leave out cursor"),
    ] {
        let args = [&["run", "iozone", p(&dir), "size=8M", "--phase=read"], more].concat();
        sandbox.refuses(&args, 2, &[part]);
    }
    sandbox.nothing_left(&[]);
}

fn names_in_phases() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "bonnie", p(&dir), "size=8M", "seeks.operations=100", "names=500"];
    let done = sandbox.json(&[&args[..], &["--repeats=2"]].concat(), &[0, 1]);
    let records = done.records();
    assert_eq!(records.len(), 20);
    for repeat in records.chunks(10) {
        for (record, class) in repeat[4..].iter().zip(["create", "stat", "unlink"].iter().cycle()) {
            assert_eq!(count_of(record, class), 500, "{}", record["label"]);
            assert_eq!(record["jobs"][0]["classes"].as_array().unwrap().len(), 1);
            assert_eq!(record["jobs"][0]["engine"]["kind"], "psync");
            let series = record["jobs"][0]["series"].as_array().unwrap();
            let in_series = series.iter().flat_map(|i| i["classes"].as_array().unwrap());
            assert_eq!(in_series.count(), series.len(), "every interval has its operations");
            let target = &record["targets"][0];
            assert_eq!(
                (&target["kind"], &target["direct"]),
                (&"own_directory".into(), &false.into())
            );
        }
    }
    let shown = sandbox.run(&["show", &done.id()]);
    let line = "creates 500 empty files in the order of their names, one after the other";
    assert!(shown.stdout.contains(line), "{shown:?}");
    assert!(shown.stdout.contains("directory of test files"), "{shown:?}");
    sandbox.nothing_left(&[]);
}

fn names_alone() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    for (phase, class) in [("sequential stat", "stat"), ("random delete", "unlink")] {
        let phase = format!("--phase={phase}");
        let args = ["run", "bonnie", p(&dir), "names=40", &phase];
        let records = sandbox.json(&args, &[0, 1]).records();
        assert_eq!((records.len(), count_of(&records[0], class)), (1, 40));
        assert!(!records[0].to_string().contains("\"size_bytes\":8388608"), "no test file");
    }
    let kept = sandbox
        .json(&["run", "bonnie", p(&dir), "names=40", "--phase=random create", "--keep"], &[0, 1]);
    assert_eq!(count_of(&kept.records()[0], "create"), 40);
    let own = dir.join(names(&dir).remove(0));
    assert_eq!(names(&own.join("names1")).len(), 40);
}

fn names_need_a_directory() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = dir.join("one");
    let parts = ["could create files for sequential create", "--phase="];
    sandbox.refuses(&["run", "bonnie", "null:"], 2, &parts);
    let create = ["--phase=sequential create"];
    sandbox.refuses(&[&["run", "bonnie", p(&file)], &create[..]].concat(), 2, &parts);
    sandbox.refuses(&["run", "bonnie", p(&file), "size=8M"], 2, &["creates files", "a directory"]);
    let data = ["--phase=write,rewrite,read,seeks", "seeks.operations=50", "size=8M"];
    sandbox.json(&[&["run", "bonnie", p(&file)], &data[..]].concat(), &[0, 1]);
    for (setting, parts) in [
        ("names=0", ["names=0", "must be between 1 and 10000000"]),
        ("sequential create.threads=2", ["one name at a time", "it takes access"]),
        ("read.names=5", ["has no effect on that job", "set metadata"]),
    ] {
        sandbox.refuses(&["run", "bonnie", p(&dir), setting], 2, &parts);
    }
    sandbox.nothing_left(&[]);
}

fn names_ended() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    // More than can be created before the end.
    let phase = "--phase=sequential create";
    let args = ["run", "bonnie", p(&dir), "names=400000", phase, "--interval=50ms"];
    let timed = sandbox.json(&[&args[..], &["duration=100ms"]].concat(), &[0, 1]);
    let record = timed.records().swap_remove(0);
    assert!((1..400_000).contains(&count_of(&record, "create")), "{record}");
    assert_eq!(record["window_ns"], 100_000_000);
    sandbox.nothing_left(&[]);

    let running = sandbox.start(&args, "progress", 1);
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(count_of(&done.records()[0], "create") > 0);
    sandbox.nothing_left(&[]);

    let running = sandbox.start(&args, "progress", 1);
    running.signal("KILL");
    running.finish();
    let own = dir.join(names(&dir).remove(0));
    assert!(!names(&own.join("names1")).is_empty(), "kill -9 lets nobody tidy up");
    let next = sandbox.run(&["run", "randread", p(&dir), "size=1M", "duration=100ms"]);
    assert!(next.stderr.contains("removed, left behind by run"), "{next:?}");
    sandbox.nothing_left(&[]);
}

/// sysbench: ten rounds over all files for a thousand writes, whoever makes them.
fn syncs_of_threads() {
    let sandbox = Sandbox::new();
    let more = ["threads=7", "operations=1050"];
    let done = sysbench_phase(&sandbox, "rndwr", "size=16M", &more);
    let record = done.records().swap_remove(0);
    assert_eq!((count_of(&record, "write"), count_of(&record, "sync")), (1050, 40));
    let shown = sandbox.run(&["show", &done.id(), "--style=classic"]);
    let fairness: Vec<&str> = shown.stdout.lines().filter(|line| line.contains("stddev")).collect();
    assert_eq!(fairness.len(), 2, "{shown:?}");
    assert!(fairness[0].ends_with("150.0000/0.00") && !fairness[1].contains("n/a"), "{fairness:?}");
}
