//! What makes no sense or cannot be: one clear message, the right exit code, and nothing has happened.

use crate::cli::{Done, MIB, Sandbox, as_nobody, binary_for_nobody, p, run};
use fathom_testkit::Capability::{FathomBinary, LoopDevices, Root, Tool};
use fathom_testkit::{
    Content, LoopDevice, LoopOptions, Snapshot, TreeSnapshot, Trial, kernel_test, loopdev,
};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;

const NOBODY: u32 = 65_534;

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("words_and_values", &[FathomBinary], words_and_values),
        kernel_test("far_off_words_get_no_hint", &[FathomBinary], far_off_words),
        kernel_test("options_and_settings", &[FathomBinary], options_and_settings),
        kernel_test("settings_without_effect_on_null", &[FathomBinary], on_null),
        kernel_test("workload_files", &[FathomBinary], workload_files),
        kernel_test("sizes_and_places", &[FathomBinary, LoopDevices], sizes_and_places),
        kernel_test("jobs_that_cannot_share_a_file", &[FathomBinary], cannot_share),
        kernel_test(
            "a_verified_target_by_two_names",
            &[FathomBinary, LoopDevices],
            verified_by_two_names,
        ),
        kernel_test("a_device_in_a_file", &[FathomBinary, LoopDevices], device_of_a_file),
        kernel_test("options_without_effect", &[FathomBinary, LoopDevices], without_effect),
        kernel_test("a_limit_of_file_sizes", &[FathomBinary, Tool("sh")], limit_of_file_sizes),
        kernel_test(
            "limits_of_file_sizes_of_programs",
            &[FathomBinary, Tool("sh")],
            limit_handed_on,
        ),
        kernel_test("large_sectors", &[FathomBinary, LoopDevices], large_sectors),
        kernel_test("paths_that_are_no_target", &[FathomBinary, Tool("mkfifo")], no_targets),
        kernel_test("mistyped_device", &[FathomBinary, Root], mistyped_device),
        kernel_test("too_large_buffers", &[FathomBinary], too_large_buffers),
        kernel_test("quick_refuses", &[FathomBinary, LoopDevices], quick_refuses),
        kernel_test("no_permission", &[FathomBinary, LoopDevices, Tool("setpriv")], no_permission),
    ]
}

/// Refused with code 2, and everything below the target directory is as it was.
#[track_caller]
fn usage(sandbox: &Sandbox, args: &[&str], words: &[&str]) {
    let before = TreeSnapshot::take(&sandbox.dir()).unwrap();
    sandbox.refuses(args, 2, words);
    before.assert_same(&sandbox.dir());
}

/// What is like nothing that is known is refused without a guess: of keys, workloads, settings, rules, recipes.
fn far_off_words() {
    let sandbox = Sandbox::new();
    for args in [&["run", "nosuch", "null:"][..], &["workloads", "nosuch"]] {
        sandbox.refuses(args, 2, &["randread, ", "fsop, ", "exercise, ", "mail, "]);
    }
    for args in [
        &["check", "--explain", "nosuch"][..],
        &["run", "nosuch", "null:"],
        &["run", "randread", "null:", "nosuch=1"],
        &["run", "randread", "null:", "engine=nosuch"],
        &["quick", "null:", "nosuch=1"],
        &["workloads", "nosuch"],
        &["knobs", "nosuch"],
        &["watch", "--recipe=nosuch"],
    ] {
        let done = sandbox.refuses(args, 2, &["nosuch"]);
        for guess in ["did you mean", "similar argument", "similar value"] {
            assert!(!done.stderr.contains(guess), "{args:?}: {done:?}");
        }
    }
}

fn words_and_values() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let d = p(&dir);
    for (setting, words) in [
        ("blok_size=4k", &["'blok_size'", "did you mean 'block_size'?"][..]),
        ("rd.threads=2", &["no job 'rd'", "it has read"]),
        ("block_size=4q", &["block_size=4q", "unit 'q'", "k, M, G"]),
        ("block_size=4k:0", &["weight", "above 0"]),
        ("block_size=3G", &["block_size=3G", "at most 2147479552"]),
        ("duration=3", &["duration=3", "needs a unit: 3s"]),
        ("duration=0s", &["duration=0s", "longer than 0"]),
        ("size=0", &["size=0", "larger than 0"]),
        ("size=-1", &["size=-1", "must not be negative"]),
        ("block_size=-4k", &["block_size=-4k", "must not be negative"]),
        ("threads=0", &["threads=0", "between 1 and"]),
        ("depth=1000000", &["depth=1000000", "between 1 and 32768"]),
        ("write_fraction=1.5", &["write_fraction=1.5"]),
        ("direct=maybe", &["direct=maybe", "yes|no"]),
        ("engine=iouring", &["engine=iouring", "did you mean 'io_uring'?"]),
        ("cpus=3-1", &["cpus=3-1", "runs backwards"]),
        ("io_priority=rt/0", &["io_priority=rt/0", "be/0..7"]),
        ("engine=psync", &["depth=32", "use depth=1 threads=32 "]),
        ("batch=64", &["batch=64", "depth=32"]),
        ("fsync_fraction=0.5", &["writes nothing", "write_fraction"]),
        ("sizes", &["'sizes'", "key=value"]),
        ("content=zero", &["content=zero: has no effect on job 'read'", "write_fraction"]),
        ("access=append", &["only writes", "write_fraction=1"]),
        ("distribution=zipf:0", &["zipf exponent 0 is out of range", "at most 10"]),
        ("distribution=zipf", &["zipf needs a number"]),
        ("distribution=zones:90/10,20/90", &["sum to 110 %, not 100 %"]),
        ("block_size=4k:50%,8k:60%", &["sum to 110 %, not 100 %"]),
        ("block_size=4k:50,8k", &["some sizes have a weight and others none"]),
        ("rate=0", &["rate=0", "above 0"]),
        ("engine=mmap", &["depth=32", "use depth=1 threads=32 "]),
        ("depth=1\n2", &["\"depth=1\\n2\" has a line break"]),
        ("drop_cache=no", &["drop_cache=no: has no effect on job 'read'", "direct=no"]),
    ] {
        usage(&sandbox, &["run", "randread", d, setting], words);
    }
    usage(&sandbox, &["run", "seeker", d, "threads=2", "threads=3"], &["threads=3", "twice"]);
    usage(&sandbox, &["run", "seeker", "null:", "engine=psync"], &["engine=psync", "null:"]);
    usage(&sandbox, &["run", "seeker", ""], &["the target is empty"]);
    usage(&sandbox, &["run", d, "seeker"], &["is no workload", &format!("fathom run seeker {d}")]);
    let rivals = ["run", "commit", d, "fsync_every=8", "fsync_fraction=0.1"];
    usage(&sandbox, &rivals, &["fsync_fraction=0.1", "fsync_every=8 sets the same"]);
    usage(&sandbox, &["run", "randraed", d], &["'randraed'", "did you mean 'randread'?"]);
    usage(&sandbox, &["run", "randread", d, "--repeats=0"], &["--repeats=0", "at least 1"]);
    for search in [&["run", "randwrite", d][..], &["saturate", d], &["size", d]] {
        let args = [search, &["--destroy=/dev/vda"]].concat();
        usage(&sandbox, &args, &["--destroy=/dev/vda", d, "a directory", "leave it out"]);
    }
    for option in ["--destroy=/dev/vda", "--keep"] {
        usage(&sandbox, &["run", "randwrite", "null:", option], &[option, "null:", "leave it out"]);
    }
    usage(
        &sandbox,
        &["run", "randread", "null:", "sqpoll=yes"],
        &["sqpoll=yes: null: does no I/O"],
    );
    usage(&sandbox, &["run", "randread", d, "arrivals=even"], &["arrivals=even", "give its rate="]);
    usage(&sandbox, &["layers", "null:"], &["nothing lies below null:"]);
    let none = sandbox.run(&["list", "--limit=0"]);
    assert!(none.code == 2 && none.stderr.contains("--limit"), "{none:?}");
    usage(&sandbox, &["run", "oltp", d, "--style=classic"], &["'oltp'", "no classic form"]);
    let unknown = sandbox.run(&["run", "randread", d, "--repeat=2"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("--repeats"), "{unknown:?}");
    let as_json = sandbox.run(&["--json", "run", "randraed", d]);
    assert_eq!((as_json.code, as_json.result()["exit_code"].as_i64()), (2, Some(2)));
    assert!(as_json.result()["error"].as_str().unwrap().contains("randraed"));
    assert!(!sandbox.db().exists(), "refused before there was anything to store");
}

fn options_and_settings() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let d = p(&dir);
    usage(&sandbox, &["run", "randread", d, "seed=7"], &["'seed'", "--seed="]);
    usage(&sandbox, &["run", "randread", d, "keep=yes"], &["'keep'", "it is an option: --keep"]);
    let words = ["'bs'", "here it is block_size"];
    usage(&sandbox, &["run", "randread", d, "bs=4k"], &words);
    usage(&sandbox, &["run", "randread", d, "loops=2"], &["here it is the option --repeats=N"]);
    let loops = sandbox.run(&["run", "randread", d, "--loops=2"]);
    assert!(loops.stderr.contains("here it is the option --repeats=N\n"), "{loops:?}");
    let words = ["--runtime", "here it is duration, without hyphens"];
    usage(&sandbox, &["run", "randread", d, "--runtime=60"], &words);
    // As the classic tools are called.
    let words = ["--file-total-size", "here it is size, without hyphens"];
    usage(&sandbox, &["run", "sysbench-fileio", d, "--file-total-size=1G"], &words);
    usage(&sandbox, &["run", "iozone", d, "-s", "4g"], &["-s: is no option", "size=4G"]);
    usage(&sandbox, &["run", "dd", "if=/dev/zero"], &["'if=/dev/zero' is no target", "the target"]);
    usage(&sandbox, &["run", "dd", d, "count=10"], &["'count'", "here it is operations"]);
    for (option, hint) in [("--threads=4", "threads=4"), ("--sync", "sync=VALUE")] {
        let hint = format!("takes no hyphens: {hint}");
        usage(
            &sandbox,
            &["run", "randread", d, option],
            &[option.split('=').next().unwrap(), &hint],
        );
    }
    for end in ["duration=1s", "operations=100", "read.amount=1M"] {
        usage(&sandbox, &["layers", d, "randread", end], &[end, "takes --time=", "leave it out"]);
    }
    sandbox.run(&["layers", p(&dir.join("nope"))]).is_refusal(2, &["nope", "does not exist"]);
    let no_settings = sandbox.run(&["list", "--threads=4"]);
    assert!(no_settings.code == 2 && !no_settings.stderr.contains("hyphens"), "{no_settings:?}");
}

/// Nothing is opened, and no data made by the engine that was asked for by its name.
fn on_null() {
    let sandbox = Sandbox::new();
    let (synced, why) = ("open_sync=dsync", "open_sync=dsync: has no effect on null:");
    usage(&sandbox, &["run", "randwrite", "null:", synced], &[why, "leave it out"]);
    usage(&sandbox, &["saturate", "null:", "randwrite", synced], &[why]);
    sandbox.json(&["run", "randwrite", "null:", "operations=100", "open_sync=none"], &[0, 1]);
}

fn workload_files() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = sandbox.scratch.join("my.toml");
    usage(&sandbox, &["run", p(&file), p(&dir)], &[p(&file), "No such file"]);
    for (text, word) in [
        ("name = ", "line 1"),
        ("name = 'x'", "at least one [[job]]"),
        ("name = 'x'\n[[job]]\nthread = 2", "did you mean 'threads'?"),
        ("name = 'x'\n[[job]]\nthreads = 2", "nothing ends it"),
        ("nam = 'x'", "did you mean 'name'?"),
        ("name = 'x'\n[[job]]\ncontent = 'zero'", "job.content=zero: has no effect on job 'job'"),
        ("name = 'x'\n[[job]]\nthreads = 2.0", "threads=2.0: '2.0' is no whole number"),
        ("name = 'x'\n[[job]]\nfsync_every = 8\nfsync_fraction = 0.1", "sets the same"),
        ("name = 'x'\n[[job]]\n[[job]]", "two jobs are called 'job'"),
        ("name = 'x'\ndepth = 2\n[[job]]", "move it below [[job]]"),
    ] {
        fs::write(&file, text).unwrap();
        usage(&sandbox, &["run", p(&file), p(&dir)], &[word]);
        if !word.contains("nothing ends it") {
            usage(&sandbox, &["run", p(&file), p(&dir)], &[p(&file)]);
        }
    }
    fs::write(&file, b"name = '\xff'\n").unwrap();
    let other = sandbox.run(&["run", p(&file), p(&dir)]);
    assert!(other.code == 2 && other.stderr.contains("valid UTF-8\n"), "no other cure: {other:?}");
    // An engine that a file asks for is not silently replaced.
    fs::write(&file, "name = 'x'\n[[job]]\noperations = 100\nengine = 'psync'\n").unwrap();
    usage(&sandbox, &["run", p(&file), "null:"], &[p(&file), "job.engine=psync", "null:"]);
    sandbox.json(&["run", p(&file), "null:", "engine=null"], &[0, 1]);
    // The control: a good file runs.
    fs::write(&file, "name = 'x'\n[[job]]\noperations = 100\nsize = '4M'\n").unwrap();
    let done = sandbox.json(&["run", p(&file), p(&dir)], &[0, 1]);
    assert_eq!(crate::cli::operations(&done.records()[0]), 100);
    sandbox.nothing_left(&[]);
}

/// One target by two names is one target: what a job verifies is not written by another one.
fn verified_by_two_names() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let file = sandbox.scratch.join("two.toml");
    let job = "[[job]]\nwrite_fraction = 1\noperations = 10\n";
    let own = format!("target = '{}'\n", p(device.path()));
    let id = format!("--destroy={}", device.backing().display());
    let args = ["run", p(&file), p(device.path()), &id];
    let text = format!("name = 'two'\n{job}name = 'a'\nverify = 'after'\n{job}name = 'b'\n");
    for more in ["", &own] {
        fs::write(&file, format!("{text}{more}")).unwrap();
        usage(&sandbox, &args, &["job 'a'", "verify=after: job 'b' writes the same target"]);
    }
    // The control: nothing is verified.
    sandbox.json(&[&args[..], &["a.verify=none"]].concat(), &[0, 1]);
    // By two names of a directory, which one file of fathom's is for.
    let dir = sandbox.dir();
    fs::write(&file, format!("{text}target = '{}'\n", p(&dir))).unwrap();
    let args = ["run", p(&file), p(&dir), "size=4M"];
    usage(&sandbox, &args, &["job 'a'", "verify=after: job 'b' writes the same target"]);
}

/// Consent to a device that only the workload file names.
fn device_of_a_file() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let file = sandbox.scratch.join("mix.toml");
    let job = "[[job]]\noperations = 10\n";
    let own = format!("name = 'b'\nwrite_fraction = 1\ntarget = '{}'\n", p(device.path()));
    fs::write(&file, format!("name = 'mix'\n{job}name = 'a'\nsize = '4M'\n{job}{own}")).unwrap();
    let dir = sandbox.dir();
    let args = ["run", p(&file), p(&dir)];
    let id = format!("--destroy={}", device.backing().display());
    sandbox.run(&args).is_refusal(3, &[&id]);
    sandbox.json(&[&args[..], &[&id]].concat(), &[0, 1]);
    // The target of the command line is that of nobody.
    let own = format!("target = '{}'\n", p(device.path()));
    fs::write(&file, format!("name = 'mix'\n{job}{own}")).unwrap();
    let unused = sandbox.run(&args);
    assert!(
        unused.stderr.contains(&format!("{} is not used: each job names", p(&dir))),
        "{unused:?}"
    );
    let used = sandbox.run(&["run", p(&file), p(device.path())]);
    assert!([0, 1].contains(&used.code) && !used.stderr.contains("is not used"), "{used:?}");
    // The control: no device at all.
    fs::write(&file, format!("name = 'mix'\n{job}size = '4M'\n")).unwrap();
    usage(&sandbox, &[&args[..], &[&id]].concat(), &["is a directory", "leave it out"]);
}

/// Who keeps what is not made, or consents to what is not done, hears of it; it is no mistake.
fn without_effect() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    let somebodys = sandbox.dir().join("somebodys");
    fs::write(&somebodys, vec![7; 4 << 20]).unwrap();
    let dir = sandbox.dir();
    let (keeps, consents) = ("--keep has no effect".to_owned(), format!("{id} has no effect"));
    let run = |command: &str, target: &Path, options: &[&str], idle: &[&String]| {
        let args = ["run", command, p(target), "operations=20", "direct=no"];
        let done = sandbox.run(&[&args[..], options].concat());
        assert!([0, 1].contains(&done.code), "{done:?}");
        for words in [&keeps, &consents] {
            let times = done.stderr.matches(words.as_str()).count();
            assert_eq!(times, usize::from(idle.contains(&words)), "'{words}': {done:?}");
        }
    };
    run("randread", &somebodys, &["--keep", &id], &[&keeps, &consents]);
    run("randread", device.path(), &["--keep", &id], &[&keeps, &consents]);
    run("randwrite", device.path(), &[&id], &[]);
    run("randwrite", device.path(), &[&id, "--keep"], &[&keeps]);
    run("randread", &dir.join("new"), &["size=4M", "--keep", &id], &[&consents]);
    run("randread", &dir, &["size=4M", "--keep"], &[]);
    run("randread", &dir, &["size=4M"], &[]);
    // Of two, the one of a device that is not written.
    let other = LoopDevice::with(16 * MIB, Content::Zeros, &LoopOptions::default()).unwrap();
    let beside = format!("--destroy={}", other.backing().display());
    run("randwrite", other.path(), &[&beside, &id], &[&consents]);
}

/// A limit of file sizes is an error with its cure, before anything is written or when it is met, and not the end of the
/// process.
fn limit_of_file_sizes() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    // In units of 512 bytes.
    let by = |blocks: &str, args: &[&str]| {
        let script = format!("ulimit -f {blocks}; exec \"$@\"");
        run(|| sandbox.command_by(&["sh", "-c", &script, "sh"], args))
    };
    let load = ["run", "randread", p(&dir), "size=16M", "operations=100"];
    for more in [&[][..], &["files=2", "size=32M"]] {
        let args = [&load[..3], &load[4..], if more.is_empty() { &load[3..4] } else { more }];
        let words = ["16 MiB cannot be made", "is 8 MiB (ulimit -f", "raise it, or use a smaller"];
        by("16384", &args.concat()).is_refusal(4, &words);
        sandbox.nothing_left(&[]);
    }
    assert_eq!(by("65536", &load).code & !1, 0, "the control: it is large enough");
    // A limit that writes to a file of fathom's meet, which it has made without.
    let kept = dir.join("kept");
    sandbox.json(&["run", "seqwrite", p(&kept), "size=16M", "--keep"], &[0, 1]);
    for engine in ["engine=psync", "engine=io_uring", "engine=libaio"] {
        let args = ["--json", "run", "randwrite", p(&kept), "operations=500", "depth=1", engine];
        let done = by("16384", &args);
        assert_eq!(done.code, 5, "{engine}: {done:?}");
        let text = done.finding("io-failure")["summary"].to_string();
        assert!(text.contains("File too large") && text.contains("ulimit -f"), "{text}");
    }
    assert_eq!(fs::metadata(&kept).unwrap().len(), 16 * MIB, "what was kept stays");
    // A limit that the store meets.
    let done = by("1", &["run", "randread", "null:", "operations=100"]);
    assert!(done.code == 6 && done.stderr.contains("limit of file sizes"), "{done:?}");
}

/// A program that fathom starts meets its limit as without fathom: it is ended by the signal, unless that was ignored before.
fn limit_handed_on() {
    let sandbox = Sandbox::new();
    let told = sandbox.scratch.join("status");
    let write = "dd if=/dev/zero of=big bs=64k count=1 2>/dev/null";
    let program =
        format!("cd {} && ulimit -f 1 && {write}; echo $? >{}", p(&sandbox.dir()), p(&told));
    let watch = ["watch", "--interval=50ms", "--", "sh", "-c", &program];
    for (before, status) in [("", "153"), ("trap '' 25;", "1")] {
        let script = format!("{before} exec \"$@\"");
        let done = run(|| sandbox.command_by(&["sh", "-c", &script, "sh"], &watch));
        assert!([0, 1].contains(&done.code), "{done:?}");
        assert_eq!(fs::read_to_string(&told).unwrap().trim(), status, "{before}: {done:?}");
    }
}

/// Jobs of two kinds on one file: the reason is that, and not that the file is in use.
fn cannot_share() {
    let sandbox = Sandbox::new();
    let (file, kept) = (sandbox.scratch.join("two.toml"), sandbox.dir().join("kept"));
    let make = ["run", "randread", p(&kept), "size=4M", "operations=10", "--keep"];
    sandbox.json(&make, &[0, 1]);
    let log = "[[job]]\nname = 'log'\naccess = 'append'\nwrite_fraction = 1\noperations = 10\n";
    let data = "[[job]]\nname = 'data'\nwrite_fraction = 1\noperations = 10\n";
    fs::write(&file, format!("name = 'two'\n{log}{data}")).unwrap();
    let words = [p(&kept), "job log appends", "job data uses", "cannot share it", "JOB.target="];
    let before = Snapshot::take(&kept).unwrap();
    sandbox.run(&["run", p(&file), p(&kept)]).is_refusal(2, &words);
    before.assert_same(&kept);
    // The control: each job alone, and both in a directory.
    fs::write(&file, format!("name = 'one'\n{data}")).unwrap();
    sandbox.json(&["run", p(&file), p(&kept)], &[0, 1]);
    fs::write(&file, format!("name = 'two'\n{log}{data}")).unwrap();
    sandbox.json(&["run", p(&file), p(&sandbox.dir()), "size=4M"], &[0, 1]);
}

fn sizes_and_places() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let d = p(&dir);
    let more = sandbox.refuses(&["run", "randread", d, "size=900T"], 4, &[d, "900 TiB", "free"]);
    assert!(more.stderr.contains("at most"), "{more:?}");
    usage(
        &sandbox,
        &["run", "randread", d, "size=4k", "block_size=64k"],
        &[d, "4 KiB", "64 KiB", "smaller block_size"],
    );
    usage(
        &sandbox,
        &["run", "randread", d, "size=8M", "offset=9M"],
        &["offset", "9 MiB", "8 MiB", "make it smaller"],
    );
    usage(&sandbox, &["run", "randread", d, "size=8M", "offset=4M", "span=5M"], &["span", "8 MiB"]);
    for distribution in ["zipf:1.1", "pareto:0.2", "normal:10%", "zones:90/10,10/90"] {
        let distribution = format!("distribution={distribution}");
        let args = ["run", "randread", d, "size=8M", "span=0", &distribution];
        usage(&sandbox, &args, &[d, "the range has 0 B", "larger span"]);
    }
    let new = dir.join("new");
    usage(&sandbox, &["run", "randread", p(&new)], &[p(&new), "does not exist", "size=4G"]);
    usage(
        &sandbox,
        &["run", "randread", d, "size=8M", "block_size=1000"],
        &[d, "block_size", "1000", "512", "direct=no"],
    );
    for odd in ["size=1000001", "size=10000001"] {
        for direct in ["direct=yes", "direct=no"] {
            usage(
                &sandbox,
                &["run", "randread", d, odd, direct],
                &[d, odd, "no multiple of", "use size="],
            );
            usage(&sandbox, &["run", "randread", p(&new), odd, direct], &[odd, "no multiple of"]);
        }
    }
    // More than can be counted is not little.
    let most = ["run", "randread", d, "size=18446744073709551615", "files=2", "block_size=512"];
    sandbox.refuses(&most, 4, &[d, "free"]);
    let deep = dir.join("no/new");
    usage(
        &sandbox,
        &["run", "randread", p(&deep), "size=4M"],
        &[p(&deep), "no directory", "make it first"],
    );
    let empty = dir.join("empty");
    fs::write(&empty, "").unwrap();
    usage(&sandbox, &["run", "randread", p(&empty)], &[p(&empty), "is empty"]);
    let file = dir.join("file");
    loopdev::make_file(&file, MIB, Content::Pattern(1)).unwrap();
    usage(&sandbox, &["run", "randread", p(&file), "block_size=2M"], &[p(&file), "1 MiB", "2 MiB"]);
    let device = LoopDevice::new(MIB).unwrap();
    let name = p(device.path());
    usage(&sandbox, &["run", "randread", name, "block_size=2M"], &[name, "1 MiB", "2 MiB"]);
    usage(&sandbox, &["run", "randread", name, "offset=2M"], &["offset", "2 MiB", "1 MiB"]);
}

fn large_sectors() {
    let sandbox = Sandbox::new();
    let options = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let device = LoopDevice::with(16 * MIB, Content::Pattern(2), &options).unwrap();
    let name = p(device.path());
    for setting in ["block_size=512", "block_size=6k", "align=512", "offset=512"] {
        let key = setting.split('=').next().unwrap();
        usage(&sandbox, &["run", "randread", name, setting], &[key, "4 KiB", "direct=no"]);
    }
    let before = Snapshot::take(device.path()).unwrap();
    let id = format!("--destroy={}", device.backing().display());
    usage(&sandbox, &["run", "randwrite", name, "block_size=512", &id], &["block_size", "4 KiB"]);
    before.assert_same(device.path());
    // Buffered I/O takes any size.
    let args = ["run", "randread", name, "block_size=512", "direct=no", "operations=200"];
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(crate::cli::bytes(&done.records()[0]), 200 * 512);
}

fn no_targets() {
    let sandbox = Sandbox::new();
    // Nor is a pipe a workload or a plan: nobody may ever write into it.
    let pipe = sandbox.scratch.join("pipe.toml");
    fathom_testkit::command::run_tool("mkfifo", [p(&pipe)]).unwrap();
    for (args, word) in [
        (["run", p(&pipe), "null:"], "put the workload"),
        (["lab", p(&pipe), "--dry-run"], p(&pipe)),
    ] {
        sandbox.refuses(&args, 2, &["named pipe", word]);
    }
    let dir = sandbox.dir();
    let (fifo, socket) = (dir.join("fifo"), dir.join("socket"));
    fathom_testkit::command::run_tool("mkfifo", [&fifo]).unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [fifo.as_path(), &socket, Path::new("/dev/null"), Path::new("/dev/zero")] {
        for workload in ["randread", "randwrite"] {
            usage(&sandbox, &["run", workload, p(path)], &[p(path), "neither a file"]);
        }
    }
    for path in ["/proc", "/sys", "/dev"] {
        for args in [&["run", "randread", path, "size=4M"][..], &["quick", path]] {
            let done = sandbox.run(args);
            assert!([2, 3].contains(&done.code), "{done:?}");
            done.is_refusal(done.code, &[path, "directory on a disk"]);
        }
    }
    let loops = dir.join("loop");
    std::os::unix::fs::symlink(&loops, &loops).unwrap();
    usage(&sandbox, &["run", "randread", p(&loops)], &[p(&loops)]);
    let inside_file = dir.join("file/x");
    fs::write(dir.join("file"), "x").unwrap();
    usage(&sandbox, &["run", "randread", p(&inside_file), "size=4M"], &[p(&inside_file)]);
}

fn mistyped_device() {
    let sandbox = Sandbox::new();
    let names = || {
        let mut names = crate::cli::names(Path::new("/dev"));
        // Other tests attach loop devices at any time.
        names.retain(|name| !name.starts_with("loop") && !name.starts_with("zram"));
        names.sort();
        names
    };
    let before = names();
    for path in ["/dev/fathom-no-such", "/dev/disk/by-id/fathom-no-such", "/dev/no/such"] {
        for workload in ["randread", "randwrite", "seqwrite"] {
            let args = ["run", workload, path, "size=4M", "--destroy=x"];
            usage(&sandbox, &args, &[path, "no such device", "lsblk"]);
        }
        assert!(!Path::new(path).exists());
    }
    assert_eq!(before, names());
}

fn too_large_buffers() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=4G", "block_size=1G", "depth=1024", "threads=3"];
    usage(
        &sandbox,
        &args,
        &["buffers need 3.0 TiB", "1 GiB x depth 1024 x 3 threads", "quarter of the free memory"],
    );
}

fn quick_refuses() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = dir.join("file");
    fs::write(&file, "somebody's").unwrap();
    usage(&sandbox, &["quick", p(&file)], &[p(&file), "is a file", "directory"]);
    let device = LoopDevice::new(MIB).unwrap();
    let name = p(device.path());
    usage(&sandbox, &["quick", name], &[name, "block device", "fathom run randread"]);
    let missing = dir.join("missing");
    usage(&sandbox, &["quick", p(&missing)], &[p(&missing), "does not exist"]);
    for (args, word) in [
        (&["--time=29s"][..], "30 s"),
        (&["--time=61m"], "1 h"),
        (&["--time=60"], "needs a unit: 60s"),
        (&["depth=4"], "threads, write_fraction, block_size"),
        (&["block_sise=4k"], "did you mean 'block_size'?"),
        (&["block_size=1000"], "block_size"),
        (&["block_size=1G"], "quarter of the free memory"),
        (&["threads=0"], "between 1 and"),
        (&["time=30s"], "it is an option: --time=30s"),
        (&["--threads=8"], "takes no hyphens: threads=8"),
    ] {
        usage(&sandbox, &[&["quick", p(&dir)], args].concat(), &[word]);
    }
    let no_text = dir.join(OsStr::from_bytes(b"a\xff"));
    fs::create_dir(&no_text).unwrap();
    let done = run(|| {
        let mut command = sandbox.command(&["quick"]);
        command.arg(&no_text);
        command
    });
    assert!(done.code == 2 && done.stderr.contains("not UTF-8"), "{done:?}");
    assert_eq!(fs::read_dir(&no_text).unwrap().count(), 0);
}

/// As the user nobody, with a store of its own.
fn no_permission() {
    let sandbox = Sandbox::new();
    let (dir, home) = (sandbox.dir(), sandbox.scratch.join("home"));
    fs::create_dir(&home).unwrap();
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
    let binary = binary_for_nobody(&sandbox.scratch);
    let as_nobody = |args: &[&str]| -> Done {
        run(|| {
            let mut command = as_nobody(&binary);
            command.arg("--db").arg(home.join("fathom.db")).args(args).current_dir(&home);
            command
        })
    };
    let file = dir.join("secret");
    loopdev::make_file(&file, MIB, Content::Pattern(3)).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let device = LoopDevice::with(4 * MIB, Content::Pattern(4), &LoopOptions::default()).unwrap();
    let before = (TreeSnapshot::take(&dir).unwrap(), Snapshot::take(device.path()).unwrap());
    let new = dir.join("new");
    let (d, f, n) = (p(&dir), p(&file), p(&new));
    let name = p(device.path());
    let id = format!("--destroy={}", device.backing().display());
    for (args, path) in [
        (&["run", "randread", f][..], f),
        (&["run", "randwrite", f], f),
        (&["run", "randread", d, "size=4M"], d),
        (&["run", "randread", n, "size=4M"], d),
        (&["run", "randread", name], name),
        (&["run", "randwrite", name, &id], name),
        (&["quick", d], d),
    ] {
        let done = as_nobody(args);
        assert!([2, 3].contains(&done.code), "{args:?}: {done:?}");
        assert!(done.stderr.contains(path), "{args:?}: {done:?}");
        assert!(done.stderr.to_lowercase().contains("permission"), "{args:?}: {done:?}");
    }
    before.0.assert_same(&dir);
    before.1.assert_same(device.path());
    // The control: in a place of its own it works.
    fs::create_dir(home.join("d")).unwrap();
    chown(home.join("d"), Some(NOBODY), Some(NOBODY)).unwrap();
    let own = home.join("d");
    let done = as_nobody(&["run", "randread", p(&own), "size=8M", "operations=500"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert!(crate::cli::names(&own).is_empty());
    let done = as_nobody(&["quick", p(&own), "--time=30s"]);
    assert!([0, 1].contains(&done.code) && done.stdout.contains("Stored as"), "{done:?}");
}
