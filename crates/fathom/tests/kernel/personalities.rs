//! Personalities on a real filesystem: what each does is counted and nothing is left, also after a kill; rates that are
//! reached and one that is not.

use crate::cli::{Done, MIB, Sandbox, names, p};
use crate::filesystems::{InMemory, in_memory};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, MountFs, Tool};
use fathom_testkit::{Content, FsKind, Mount, Trial, counted, kernel_test, sample};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4), MountFs("tmpfs")];
    let many = [FathomBinary, FsOnLoop(FsKind::Ext4), FsOnLoop(FsKind::Btrfs), MountFs("tmpfs")];
    let killed = [FathomBinary, FsOnLoop(FsKind::Ext4), MountFs("tmpfs"), Tool("kill")];
    vec![
        kernel_test("personalities_each", &ext4, each),
        kernel_test("personalities_read_back", &ext4, read_back),
        kernel_test("personalities_many_names", &many, many_names),
        kernel_test("personalities_rates", &ext4, rates),
        kernel_test("personalities_of_people", &ext4, own_file),
        kernel_test("personalities_as_rows", &ext4, as_rows),
        kernel_test("personalities_without_room", &ext4, without_room),
        kernel_test("personalities_killed", &killed, kill),
        kernel_test("personalities_interrupted", &killed, interrupted),
        kernel_test("personalities_words", &[FathomBinary], words),
    ]
}

struct Ground {
    mount: Mount,
    // Unmounted before.
    _disk: InMemory,
}

impl Ground {
    fn new(size_mib: u64) -> Self {
        Self::of(FsKind::Ext4, size_mib, &[])
    }

    fn of(kind: FsKind, size_mib: u64, options: &[&str]) -> Self {
        let disk = in_memory(size_mib * MIB, Content::Sparse);
        kind.make(disk.device.path(), options).unwrap();
        let mount = Mount::new(kind.name(), disk.device.path(), "").unwrap();
        Self { mount, _disk: disk }
    }

    fn dir(&self) -> &Path {
        self.mount.dir()
    }
}

fn clients(record: &Value) -> &[Value] {
    record["fsop"]["processes"].as_array().unwrap()
}

fn of_histogram(histogram: &Value) -> u64 {
    histogram["count"].as_u64().unwrap_or(0)
}

fn count(record: &Value, class: &str) -> u64 {
    let classes = clients(record).iter().flat_map(|c| c["classes"].as_array().unwrap());
    let own = classes.filter(|c| c["class"] == class);
    own.map(|c| of_histogram(&c["latency_ns"])).sum()
}

fn acts(record: &Value, times: &str) -> Vec<(String, u64)> {
    let acts = clients(record).iter().flat_map(|c| c["played"]["acts"].as_array().unwrap());
    let mut sums: Vec<(String, u64)> = Vec::new();
    for act in acts {
        let (name, count) = (act["act"].as_str().unwrap(), of_histogram(&act[times]));
        match sums.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += count,
            None => sums.push((name.to_owned(), count)),
        }
    }
    sums
}

/// A second of each, with few files: every class that it is about is counted, opens and closes fit, nothing is left.
fn each() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    for (name, settings, classes) in [
        ("mail", &["files=200"][..], &["open_write", "write", "sync", "close_write", "unlink"][..]),
        (
            "mail",
            &["files=200", "sync=4", "batch=5"],
            &["open_write", "sync", "close_read", "unlink"],
        ),
        ("postmark", &[], &["open_write", "open_read", "read", "open_append", "append", "unlink"]),
        ("metadata-storm", &["entries=2000"], &["open_write", "stat", "rename", "link", "unlink"]),
        ("webserver", &["files=500"], &["open_read", "read", "close_read", "append"]),
        ("fileserver", &["files=500"], &["stat", "read", "list", "append", "rename", "unlink"]),
        ("video", &["files=16", "sizes=2M"], &["read", "write"]),
        ("build-tree", &["tree_files=5", "tree_dirs=3"], &["open_write", "read", "unlink", "sync"]),
    ] {
        let mut args = vec!["run", name, p(ground.dir()), "window=1s", "warmup=200ms"];
        args.extend(settings);
        let done = sandbox.json(&args, &[0, 1]);
        let record = &done.records()[0];
        assert_eq!(record["ending"], "complete", "{name}");
        assert_eq!(record["window_ns"], 1_000_000_000, "{name}: exact");
        assert_eq!(record["workload"]["name"], name);
        for class in classes {
            assert!(count(record, class) > 0, "{name}: {class}: {record}");
        }
        let open = count(record, "open_write") + count(record, "open_append");
        let slack = 2 * clients(record).len() as u64;
        if name != "video" {
            assert!(open.abs_diff(count(record, "close_write")) <= slack, "{name}");
            assert!(count(record, "open_read").abs_diff(count(record, "close_read")) <= slack);
        }
        let transactions: u64 = acts(record, "service_ns").iter().map(|(_, n)| n).sum();
        assert!(transactions > 0, "{name}");
        // Five hundred small files, read over and over: from the second time on by memory.
        if name == "webserver" {
            let found = done.finding("play-read-from-memory");
            assert_eq!(found["severity"], "doubtful", "{found}");
        }
        sandbox.nothing_left(&[ground.dir()]);
        shown(&sandbox, &done, name);
    }
}

/// With verify= all that clients have at the end is compared: as it is, and with one byte that somebody changed.
fn read_back() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    for settings in [
        &["mail", "files=200", "batch=5", "sync=4"][..],
        &["mail", "files=200", "shared=yes", "dirs=0", "clients=3"],
        &["postmark"],
        &["metadata-storm", "entries=2000"],
        &["webserver", "files=300"],
        &["fileserver", "files=300"],
        &["video", "files=8", "sizes=3M"],
        &["build-tree", "trees=3", "tree_files=10"],
    ] {
        let args = ["run", settings[0], p(ground.dir()), "verify=yes", "window=1s", "warmup=0s"];
        let done = sandbox.json(&[&args[..], &settings[1..]].concat(), &[0, 1]);
        let said = done.finding("fsop-content-verified")["summary"].to_string();
        assert!(said.contains("that clients left were read back"), "{settings:?}: {said}");
        assert!(!said.contains("\"0 files"), "{settings:?}: {said}");
        sandbox.nothing_left(&[ground.dir()]);
    }
    // Files that nobody changes but somebody else.
    let args = ["run", "mail", p(ground.dir()), "mix=stat:1", "files=20", "sizes=8k", "dirs=0"];
    let more = ["clients=2", "verify=yes", "window=3s", "warmup=0s"];
    let running = sandbox.start(&[&args[..], &more].concat(), "progress", 1);
    let own = names(ground.dir()).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
    let file = ground.dir().join(own).join("grove1/f0000003");
    let was = fs::read(&file).unwrap()[5_000];
    let open = fs::File::options().write(true).open(&file).unwrap();
    open.write_all_at(&[was ^ 4], 5_000).unwrap();
    drop(open);
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    let wrong = done.finding("fsop-content-wrong");
    assert_eq!(wrong["severity"], "void", "{wrong}");
    let part = "client 1: f0000003 has 1 other bytes of 8192, the first at 5000";
    assert!(wrong["summary"].as_str().unwrap().contains(part), "{wrong}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// One directory with many names: a million in a soak. All are there, none is left.
fn many_names() {
    let sandbox = Sandbox::new();
    let entries = sample(20_000, 1_000_000);
    let inodes = format!("-N{}", 2 * entries + 300_000);
    for (kind, options) in [(FsKind::Ext4, &[inodes.as_str()][..]), (FsKind::Btrfs, &[])] {
        let ground = Ground::of(kind, 2_900, options);
        let names = format!("entries={entries}");
        let args = [
            "run",
            "metadata-storm",
            p(ground.dir()),
            &names,
            "clients=1",
            "mix=list:1,stat:40,create:20,delete:20,rename:10,link:10",
            "window=3s",
            "warmup=0s",
        ];
        let done = sandbox.json(&args, &[0, 1]);
        let record = &done.records()[0];
        assert_eq!(record["ending"], "complete", "{record}");
        // A whole directory takes its time; whether one of a million names was read to its end in the window is the machine's
        // matter, of a sample it is not.
        counted(&format!("names in one directory of {}", kind.name()), entries);
        for class in ["stat", "open_write", "unlink", "rename", "link"] {
            assert!(count(record, class) > 0, "{class}: {record}");
        }
        assert!(entries > 100_000 || count(record, "list") > 0, "{record}");
        sandbox.nothing_left(&[ground.dir()]);
    }
}

/// What is stored says the same, as text and as a page.
fn shown(sandbox: &Sandbox, done: &Done, name: &str) {
    let text = sandbox.run(&["show", &done.id()]);
    assert!(text.stdout.contains("transactions") && text.stdout.contains("trans/s"), "{text:?}");
    assert!(
        text.stdout.contains(&format!("{name}, ")) && text.stdout.contains("client"),
        "{text:?}"
    );
    let page = sandbox.scratch.join(format!("{name}-{}.html", done.id()));
    let made = sandbox.run(&["report", &done.id(), "--output", p(&page)]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(fs::read_to_string(&page).unwrap().contains("client 0"), "{name}");
}

fn rate_of(record: &Value, field: &str) -> u64 {
    clients(record).iter().map(|c| c["played"]["rate"][field].as_u64().unwrap()).sum()
}

/// An open loop at a rate that is slow for everything, and at one that nothing reaches.
fn rates() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    let run = |rate: &str, further: &[&str]| {
        let mut args =
            vec!["run", "mail", p(ground.dir()), "files=100", "window=2s", "warmup=0s", rate];
        args.extend(further);
        sandbox.json(&args, &[0, 1])
    };
    for further in [&["sync=none"][..], &["sync=none", "arrivals=poisson"]] {
        let done = run("rate=100", further);
        let record = &done.records()[0];
        let due = rate_of(record, "due");
        if further.len() == 1 {
            assert!(due.abs_diff(200) <= 4, "{due}");
        } else {
            assert!((100..320).contains(&due), "five standard deviations and more: {due}");
        }
        let responses = acts(record, "response_ns")[0].1;
        assert!(responses.abs_diff(due) <= 20, "{responses} of {due}");
        done.has_not("play-rate-not-reached");
        let text = sandbox.run(&["show", &done.id()]).stdout;
        assert!(text.contains("response, from when due"), "{text}");
        assert!(text.contains("asked 100 transactions/s"), "{text}");
    }
    let done = run("rate=1000000", &["sync=file"]);
    let record = &done.records()[0];
    let (due, never) = (rate_of(record, "due"), rate_of(record, "not_started"));
    assert!(due.abs_diff(2_000_000) <= 100, "{due}");
    assert!(never > due / 2, "{never} of {due}");
    let finding = done.finding("play-rate-not-reached");
    assert!(finding["summary"].as_str().unwrap().contains("fell behind"), "{finding}");
    let done_count = acts(record, "response_ns")[0].1;
    // What is in flight at the end is neither.
    assert!((due - never).abs_diff(done_count) <= 4, "{due} {never} {done_count}");
    sandbox.nothing_left(&[ground.dir()]);
}

/// A file of somebody's is run and refused as the built-in ones are.
fn own_file() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    let file = sandbox.scratch.join("own.toml");
    fs::write(
        &file,
        "name = 'own'\ntitle = 'mine'\n[play]\nmix = 'create:1,stat:3,delete:1'\nfiles = 50\n",
    )
    .unwrap();
    let args = ["run", p(&file), p(ground.dir()), "window=500ms", "warmup=0s", "clients=2"];
    let done = sandbox.json(&args, &[0, 1]);
    let record = &done.records()[0];
    assert_eq!(record["label"], "own, 2 clients");
    let acts = acts(record, "service_ns");
    let of = |name: &str| acts.iter().find(|(act, _)| act == name).unwrap().1 as f64;
    let all = of("create") + of("stat") + of("delete");
    assert!(all > 200.0 && (0.5..0.7).contains(&(of("stat") / all)), "{acts:?}");
    sandbox.nothing_left(&[ground.dir()]);
    fs::write(&file, "name = 'own'\n[play]\nmix = 'creat:1'\n").unwrap();
    sandbox.refuses(
        &["run", p(&file), p(ground.dir())],
        2,
        &["own.toml", "did you mean 'create'?"],
    );
}

/// Each kind of transaction is a row where runs are compared, followed and exported.
fn as_rows() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    let d = p(ground.dir());
    let run = |label: &str| {
        let args = ["run", "fileserver", d, "mix=stat:3,read:1", "files=100", "window=2s"];
        sandbox.json(&[&args[..], &["warmup=100ms", label]].concat(), &[0, 1])
    };
    let (before, after) = (run("--label=before"), run("--label=after"));
    let names = ["transactions", "stat", "read", "calls"];
    let compared = sandbox.json(&["compare", "before", "after"], &[0, 1]);
    let rows = compared.result()["comparison"]["rows"].as_array().unwrap().clone();
    let label = before.records()[0]["label"].as_str().unwrap().to_owned();
    let named: Vec<String> = names.iter().map(|name| format!("{label}, {name}")).collect();
    let found: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(found, named);
    assert!(
        rows.iter().all(|row| row["figures"][0]["a"]["value"].as_f64() > Some(0.0)),
        "{rows:?}"
    );
    let text = sandbox.run(&["compare", "before", "after"]).stdout;
    assert!(text.contains("transactions/s") && text.contains(&named[1]), "{text}");
    let history = sandbox.json(&["history", d], &[0]);
    let series = history.result()["series"].as_array().unwrap().clone();
    let found: Vec<&str> = series.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(found, named);
    assert!(series.iter().all(|one| one["points"].as_array().unwrap().len() == 2), "{series:?}");
    let table = sandbox.run(&["export", &after.id(), "--format=csv"]).stdout;
    let acts = acts(&after.records()[0], "service_ns");
    for (name, count) in &acts {
        let part = format!(",{name},transaction,");
        let line = table.lines().find(|line| line.contains(&part));
        let line = line.unwrap_or_else(|| panic!("{name} in {table}"));
        assert!(line.contains(&format!(",{count},")), "{count} in {line}");
    }
    for call in ["stat", "open_read", "read", "close_read"] {
        assert!(table.contains(&format!(",calls,{call},")), "{call} in {table}");
    }
}

fn without_room() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(1_536);
    let d = p(ground.dir());
    let of_space = ["its clients may come to use", "5 % and at least 1 GiB", "smaller sizes="];
    let of_inodes = ["its clients may come to make", "5 % of the inodes stay free"];
    for (args, words) in [
        (["run", "video", d, "window=1s"], &of_space[..]),
        (["run", "metadata-storm", d, "entries=1000000"], &of_inodes),
    ] {
        sandbox.refuses(&args, 4, words);
    }
    // Somebody takes the space meanwhile.
    let args = [
        "run",
        "postmark",
        d,
        "window=60s",
        "warmup=0s",
        "mix=append:1",
        "files=1000",
        "append_size=4k",
    ];
    let mut running = sandbox.start(&args, "progress", 1);
    let thief = ground.dir().join("thief");
    let mut taken = fs::File::create(&thief).unwrap();
    // Also what a file that begins anew gives back.
    while !running.is_over() {
        let _ = taken.write_all(&[1; 65_536]);
        thread::sleep(Duration::from_micros(200));
    }
    drop(taken);
    let done = running.finish();
    assert_eq!(done.code, 5, "{done:?}");
    let message = done.records()[0]["failure"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("client 0") && message.contains("no space"), "{message}");
    fs::remove_file(thief).unwrap();
    sandbox.nothing_left(&[ground.dir()]);
}

fn playing(sandbox: &Sandbox, dir: &Path) -> crate::cli::Running {
    let args = [
        "run",
        "fileserver",
        p(dir),
        "files=300",
        "mix=create:3,delete:2,append:4,replace:2,rename:1,link:2,read:1,log:3",
        "log_size_max=1M",
        "window=60s",
        "warmup=0s",
    ];
    sandbox.start(&args, "progress", 1)
}

/// Killed in the middle: the next start explains every byte, and removes it; what is somebody's stays.
fn kill() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    for precious in [false, true] {
        let running = playing(&sandbox, ground.dir());
        let own =
            names(ground.dir()).into_iter().find(|name| name.starts_with(".fathom-")).unwrap();
        let grove = ground.dir().join(&own).join("grove0");
        thread::sleep(Duration::from_millis(400));
        running.signal("KILL");
        assert_eq!(running.finish().code, 137);
        let first = grove.join("d0000000");
        // A single directory may be empty for a moment.
        let files: usize = names(&grove).iter().map(|dir| names(&grove.join(dir)).len()).sum();
        assert!(files > 20, "{files} of the first client");
        let thesis = first.join("thesis.txt");
        if precious {
            fs::write(&thesis, "mine").unwrap();
        }
        let next = sandbox.run(&["run", "randread", "null:", "operations=1", "--json"]);
        assert!([0, 1].contains(&next.code), "{next:?}");
        if precious {
            assert!(next.stderr.contains("thesis.txt"), "{next:?}");
            assert_eq!(fs::read(&thesis).unwrap(), b"mine");
            assert_eq!(names(&grove), ["d0000000"]);
            assert_eq!(names(&first), ["thesis.txt"]);
        } else {
            assert!(next.stderr.contains("left behind by run"), "{next:?}");
            sandbox.nothing_left(&[ground.dir()]);
        }
    }
}

fn interrupted() {
    let sandbox = Sandbox::new();
    let ground = Ground::new(2_048);
    let running = playing(&sandbox, ground.dir());
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let record = &done.records()[0];
    assert_eq!(record["ending"], "interrupted");
    assert!(count(record, "append") > 0);
    sandbox.nothing_left(&[ground.dir()]);
}

fn words() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let d = p(&dir);
    for (args, words) in [
        (&["run", "mail", d, "fils=3"][..], &["fils=3", "did you mean 'files'?"][..]),
        (&["run", "mail", d, "rate=fast"], &["a number per second"]),
        (&["run", "mail", d, "--phase=a"], &["--phase does not go with mail"]),
        (&["run", "mail", d, "--keep"], &["--keep does not go with mail"]),
        (&["run", "mail", d, "--style=classic"], &["no classic form"]),
        (&["run", "mail", "/no/such/place"], &["/no/such/place", "does not exist"]),
    ] {
        sandbox.refuses(args, 2, words);
    }
    let list = sandbox.run(&["workloads"]).stdout;
    for name in
        ["mail", "postmark", "metadata-storm", "webserver", "fileserver", "video", "build-tree"]
    {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name}: {list}");
        let help = sandbox.run(&["workloads", name]);
        assert_eq!(help.code, 0, "{help:?}");
        assert!(help.stdout.contains("mix=") && help.stdout.contains("rate"), "{help:?}");
    }
}
