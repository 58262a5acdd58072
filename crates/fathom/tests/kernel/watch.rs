//! `fathom watch`: against iostat, with devices that come and go, stored, served, and beside applications.

mod host;
mod latency;
mod view;

use crate::cli::{Done, MIB, Running, Sandbox, p, wait_until};
use crate::filesystems::{in_memory, mounted};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Tool};
use fathom_testkit::{Content, FsKind, LoopDevice, LoopOptions, Trial, kernel_test};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    let (binary, loops) = (FathomBinary, LoopDevices);
    let mut trials = vec![
        kernel_test(
            "watch_agrees_with_iostat",
            &[binary, loops, Tool("iostat"), Tool("blkdiscard")],
            iostat,
        ),
        kernel_test("watch_sees_devices_come_and_go", &[binary, loops], come_and_go),
        kernel_test("watch_is_stored_shown_and_compared", &[binary, loops], stored),
        kernel_test("watch_serves_openmetrics", &[binary, loops], served),
        kernel_test("watch_with_an_application", &[binary, ext4], application),
        kernel_test("watch_ends_an_application_with_all_it_started", &[binary], ended),
        kernel_test("watch_restore_by_what_it_started", &[binary], ended_by_itself),
        kernel_test("watch_recipes", &[binary, ext4, Tool("sqlite3")], recipes),
        kernel_test(
            "watch_recipe_pgbench",
            &[binary, ext4, Tool("pgbench"), Tool("setpriv")],
            pgbench,
        ),
        kernel_test("watch_refuses_nonsense", &[binary], nonsense),
    ];
    trials.extend(host::trials());
    trials.extend(latency::trials());
    trials.extend(view::trials());
    trials
}

/// A load in the background, ended when dropped.
struct Load(Child);

impl Load {
    fn start(script: &str) -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // The leader of a session of its own: with its group all that it started ends.
        let group = format!("-{}", self.0.id());
        Command::new("kill").args(["-KILL", "--", &group]).status().ok();
        self.0.wait().ok();
    }
}

fn device() -> LoopDevice {
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    LoopDevice::with(256 * MIB, Content::Pattern(1), &options).unwrap()
}

/// Reads of 64 KiB and writes of 16 KiB, steadily.
fn mixed(path: &Path) -> Load {
    let path = p(path);
    Load::start(&format!(
        "while :; do dd if={path} of=/dev/null bs=64k iflag=direct; done & \
         while :; do dd if=/dev/zero of={path} bs=16k count=4096 oflag=direct; done"
    ))
}

/// The samples of a watch.
fn samples(done: &Done) -> Vec<Value> {
    done.objects().into_iter().filter(|object| object["type"] == "sample").collect()
}

/// The fields that both have, and where fathom has them.
const FIELDS: &[(&str, &str)] = &[
    ("r/s", "/reads/per_s"),
    ("rkB/s", "/reads/kib_per_s"),
    ("rrqm/s", "/reads/merged_per_s"),
    ("rrqm", "/reads/merged_percent"),
    ("r_await", "/reads/await_ms"),
    ("rareq-sz", "/reads/request_kib"),
    ("w/s", "/writes/per_s"),
    ("wkB/s", "/writes/kib_per_s"),
    ("wrqm/s", "/writes/merged_per_s"),
    ("wrqm", "/writes/merged_percent"),
    ("w_await", "/writes/await_ms"),
    ("wareq-sz", "/writes/request_kib"),
    ("d/s", "/discards/per_s"),
    ("dkB/s", "/discards/kib_per_s"),
    ("drqm/s", "/discards/merged_per_s"),
    ("drqm", "/discards/merged_percent"),
    ("d_await", "/discards/await_ms"),
    ("dareq-sz", "/discards/request_kib"),
    ("f/s", "/flushes_per_s"),
    ("f_await", "/flush_await_ms"),
    ("aqu-sz", "/queue"),
    ("util", "/util_percent"),
];

fn iostat() {
    let sandbox = Sandbox::new();
    let memory = in_memory(256 * MIB, Content::Pattern(1));
    let name = memory.device.name();
    let _load = mixed(memory.device.path());
    let path = p(memory.device.path());
    let _discards = Load::start(&format!("while :; do blkdiscard -o 0 -l 1M {path}; done"));
    // Each of these writes ends with a flush.
    let _flushes = Load::start(&format!(
        "while :; do dd if=/dev/zero of={path} bs=4k count=4096 oflag=direct,dsync; done"
    ));
    std::thread::sleep(Duration::from_millis(500));
    let mut differences = Vec::new();
    // The two begin their interval a moment apart, in which anything may happen on a busy machine.
    for _ in 0..4 {
        let peer = Command::new("iostat")
            .args(["-x", "-d", "-k", "-y", "-o", "JSON", &name, "3", "1"])
            .env("LC_ALL", "C")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let args = ["watch", name.as_str(), "--interval=3s", "--count=1"];
        let done = sandbox.json(&args, &[0]);
        let peer = peer.wait_with_output().unwrap();
        let theirs: Value = serde_json::from_slice(&peer.stdout).unwrap();
        let theirs = &theirs["sysstat"]["hosts"][0]["statistics"][0]["disk"][0];
        let ours = samples(&done).remove(0);
        let ours = &ours["devices"][0];
        assert_eq!(
            (&ours["name"], &theirs["disk_device"]),
            (&name.clone().into(), &name.clone().into())
        );
        assert!(ours["rates"]["reads"]["per_s"].as_f64() > Some(10.0), "no load: {ours}");
        let (discards, flushes) =
            (&ours["rates"]["discards"]["per_s"], &ours["rates"]["flushes_per_s"]);
        if discards.as_f64() <= Some(1.0) || flushes.as_f64() <= Some(1.0) {
            // The other loads took all of the processors: there is nothing to compare.
            differences = vec![format!("no discards or no flushes: {ours}")];
            continue;
        }
        differences = FIELDS
            .iter()
            .filter_map(|(word, place)| {
                let theirs = theirs[*word].as_f64().unwrap();
                let ours = ours["rates"].pointer(place).unwrap().as_f64().unwrap_or(0.0);
                // iostat rounds to two decimals.
                let limit = 0.011 + 0.05 * theirs.abs().max(ours.abs());
                ((theirs - ours).abs() > limit).then(|| format!("{word}: {ours}, iostat {theirs}"))
            })
            .collect();
        if differences.is_empty() {
            return;
        }
    }
    panic!("{differences:?}");
}

fn come_and_go() {
    let sandbox = Sandbox::new();
    let first = device();
    let (name, path) = (first.name(), first.path().to_owned());
    let running = sandbox.start(&["watch", "--interval=100ms", "--count=40", "--all"], "sample", 2);
    // A second device comes and has a request, and goes again.
    let second = device();
    let other = second.name();
    Command::new("dd")
        .args([&format!("if={}", p(second.path())), "of=/dev/null", "count=1"])
        .output()
        .unwrap();
    std::thread::sleep(Duration::from_millis(600));
    drop(second);
    Command::new("dd")
        .args([&format!("if={}", p(&path)), "of=/dev/null", "count=1"])
        .output()
        .unwrap();
    let done = running.finish();
    assert_eq!(done.code, 0, "{done:?}");
    let all = samples(&done);
    assert_eq!(all.len(), 40);
    let named = |what: &str, name: &str| {
        all.iter().any(|s| s[what].as_array().is_some_and(|names| names.contains(&name.into())))
    };
    assert!(named("came", &other), "{other} never came");
    assert!(named("went", &other), "{other} never went");
    let shows = |sample: &Value, name: &str| {
        sample["devices"].as_array().unwrap().iter().any(|device| device["name"] == name)
    };
    let goes =
        |s: &&Value| s["went"].as_array().is_some_and(|n| n.contains(&other.as_str().into()));
    assert!(!shows(all.iter().find(goes).unwrap(), &other));
    assert!(shows(all.last().unwrap(), &name));
    // Intervals are those asked for, one after the other.
    let starts: Vec<u64> = all.iter().map(|s| s["start_ns"].as_u64().unwrap()).collect();
    let lengths: Vec<u64> = all.iter().map(|s| s["length_ns"].as_u64().unwrap()).collect();
    assert!((1..40).all(|at| starts[at] == starts[at - 1] + lengths[at - 1]));
    // What is no device any more cannot be asked for.
    sandbox.refuses(&["watch", &format!("/dev/no-{other}"), "--count=1"], 2, &["no such device"]);
}

fn stored() {
    let sandbox = Sandbox::new();
    let device = device();
    let name = device.name();
    let watch = |label: &str| {
        let args = [
            "watch",
            &name,
            "--interval=50ms",
            "--count=40",
            "--record",
            &format!("--label={label}"),
        ];
        sandbox.json(&args, &[0]).result()
    };
    let load = mixed(device.path());
    std::thread::sleep(Duration::from_millis(300));
    let busy = watch("busy");
    drop(load);
    let idle = watch("idle");
    assert_eq!((&busy["stored"], &busy["verdict"]), (&true.into(), &"trusted".into()));
    let id = busy["id"].as_str().unwrap();
    let shown = sandbox.json(&["show", id], &[0]).result();
    assert_eq!(shown["watch"], busy["summary"]);
    assert_eq!(shown["watch"]["intervals"], 40);
    let of = |summary: &Value| summary["devices"][0]["figures"].as_array().unwrap().len();
    assert!(of(&shown["watch"]) >= 6 && of(&idle["summary"]) == 0, "{shown}");
    let text = sandbox.run(&["show", id]).stdout;
    for part in ["40 intervals of 0.05 s", "r_await", "95 % interval", &name] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let load = mixed(device.path());
    watch("again");
    drop(load);
    let both = sandbox.json(&["compare", "busy", "again"], &[0]).result();
    let changes = both["comparison"]["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|c| {
            c["figure"] == "rkB/s"
                && c["difference"].is_object()
                && c["mean"]["difference"].is_object()
        }),
        "{both}"
    );
    assert_eq!(both["comparison"]["intervals"], serde_json::json!([40, 40]));
    sandbox.refuses(&["compare", "busy", id], 2, &["on both sides"]);
    // A disk that slept is compared too, and found by what it is called everywhere.
    let both = sandbox.json(&["compare", "idle", "busy"], &[0]).result();
    let changes = both["comparison"]["changes"].as_array().unwrap();
    let woke = |c: &&Value| c["device"] == name && c["figure"] == "r/s" && c["a"] == 0.0;
    assert!(changes.iter().any(|c| woke(&c)), "{both}");
    let target = format!("--target={}", p(device.path()));
    let listed = sandbox.json(&["list", &target], &[0]).result();
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(3), "{listed}");
    // By the name of the device from wherever one is.
    let exported = sandbox.run(&["export", &format!("--target={name}")]);
    assert_eq!(exported.stdout.matches("\"type\":\"run\"").count(), 3, "{exported:?}");
    // Of watches nothing is called better or worse, and what has no effect is not accepted.
    for option in ["--fail-if=slower:5%", "--margin=1%", "--level=99%", "--looks"] {
        let given = option.split('=').next().unwrap();
        sandbox.refuses(&["compare", "busy", "again", option], 2, &[given, "for measurements"]);
    }
}

fn get(address: &str, path: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn served() {
    let sandbox = Sandbox::new();
    let device = device();
    let name = device.name();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let args = ["watch", &name, "--count=1", &format!("--listen={address}")];
    sandbox.refuses(&args, 4, &["--listen", "that port is in use; give another one"]);
    drop(taken);
    let _load = mixed(device.path());
    let foreign = ["watch", &name, "--count=1", "--listen=192.0.2.1:9184"];
    sandbox.refuses(&foreign, 4, &["no address of this machine"]);
    let listen = format!("--listen={address}");
    let running =
        sandbox.start(&["watch", &name, "--interval=100ms", "--count=30", &listen], "sample", 3);
    let page = get(&address, "/metrics");
    let line = format!("fathom_device_requests_total{{device=\"{name}\",direction=\"read\"}} ");
    let value = |page: &str| {
        let found =
            page.lines().find_map(|l| l.strip_prefix(&line)).unwrap_or_else(|| panic!("{page}"));
        found.parse::<f64>().unwrap()
    };
    assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("# EOF\n"));
    let first = value(&page);
    wait_until("the counter goes on", || value(&get(&address, "/metrics")) > first);
    assert!(get(&address, "/").starts_with("HTTP/1.1 404"));
    assert_eq!(running.finish().code, 0);
}

fn application() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    // Synchronous writes, of which a child does half; then figures in two forms, and a daemon that is left behind.
    let script = format!(
        "dd if=/dev/zero of={dir}/a bs=8k count=400 oflag=dsync 2>/dev/null
         sh -c 'dd if=/dev/zero of={dir}/b bs=8k count=400 oflag=dsync 2>/dev/null'
         setsid sleep 1000 >/dev/null 2>&1 &
         echo 'tps = 12.5 (fine)'; echo '{{\"lat\": [1, 2.5]}}'"
    );
    let figures = ["--figure=tps=tps = {} (", "--figure=lat=json:lat[1]"];
    let args =
        ["watch", dir, "--interval=100ms", figures[0], figures[1], "--", "sh", "-c", &script];
    let result = sandbox.json(&args, &[0]).result();
    let found = &result["summary"]["application"];
    assert_eq!(found["exit_status"], 0);
    assert_eq!((&found["figures"]["tps"], &found["figures"]["lat"]), (&12.5.into(), &2.5.into()));
    assert!(found["output"].as_str().unwrap().contains("tps = 12.5"));
    // Its own count is that of all its processes, and the device's is at least as much: the journal comes to it.
    let bytes = 2 * 400 * 8192;
    let own = found["total"]["written_bytes"].as_u64().unwrap();
    assert!((bytes..bytes * 11 / 10 + 65536).contains(&own), "{found}");
    let devices = found["devices"].as_object().unwrap();
    let written =
        devices.values().map(|d| d["writes"]["sectors"].as_u64().unwrap() * 512).sum::<u64>();
    assert!(devices.len() == 1 && written >= bytes, "{found}");
    let flushes = devices.values().map(|d| d["flushes"].as_u64().unwrap()).sum::<u64>();
    assert!(flushes >= 700, "{found}");
    // A failing one, one without its figure, one that hangs, one that is not there.
    let failing = sandbox.json(&["watch", dir, "--", "sh", "-c", "echo last words; exit 3"], &[1]);
    failing.finding("application-failed");
    assert_eq!(failing.result()["summary"]["application"]["exit_status"], 3);
    assert!(failing.result()["summary"]["application"]["output"] == "last words\n");
    let silent = sandbox.json(&["watch", dir, "--figure=x=x = {}", "--", "true"], &[1]);
    let finding = silent.finding("figure-missing");
    assert!(finding["summary"].as_str().unwrap().contains("was not printed"), "{finding}");
    let begun = Instant::now();
    let hung = sandbox.json(&["watch", dir, "--timeout=1s", "--", "sleep", "1000"], &[1]);
    hung.finding("application-hung");
    assert!(begun.elapsed() < Duration::from_secs(60));
    let killed = sandbox.json(&["watch", dir, "--", "sh", "-c", "kill -SEGV $$"], &[1]);
    assert_eq!(killed.result()["summary"]["application"]["signal"], 11);
    sandbox.refuses(&["watch", dir, "--", "no-such-program"], 2, &["no-such-program", "$PATH"]);
}

/// True while a process with this word in its command line runs.
fn runs(word: &str) -> bool {
    let done = Command::new("pgrep").args(["-f", &format!("[s]leep {word}")]).output().unwrap();
    done.status.success()
}

fn ended() {
    let sandbox = Sandbox::new();
    // Numbers that nobody else sleeps for.
    let pid = std::process::id();
    let start = |number: u32| {
        let script = format!("setsid sleep {number} & sleep {number} & sleep {number}");
        let args = ["watch", "--interval=50ms", "--", "sh", "-c", &script];
        let running = sandbox.start(&args, "sample", 2);
        wait_until("it runs", || runs(&number.to_string()));
        running
    };
    let signal = |running: &Running, name: &str| {
        let words = [name, &running.pid().to_string()];
        Command::new("kill").args(words).status().unwrap();
    };
    let running = start(100_000 + pid);
    signal(&running, "-INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    assert!(!runs(&(100_000 + pid).to_string()), "something of it still runs");
    assert_eq!(sandbox.runs()[0]["state"], "interrupted");
    // The kernel ends the program of a killed fathom, and the next start, or restore, what it started.
    for (number, words) in
        [(200_000 + pid, &["watch", "--", "true"][..]), (300_000 + pid, &["restore"])]
    {
        let is_told = || {
            let running = start(number);
            let of_it =
                format!("started by the command of fathom {}, which was killed", running.pid());
            signal(&running, "-KILL");
            running.finish();
            let listed = sandbox.json(&["restore", "--list"], &[0]).result();
            let is_listed = listed["programs"].to_string().contains(&of_it);
            let done = sandbox.run(words);
            assert_eq!(done.code, 0, "{done:?}");
            wait_until("what a killed one left is ended", || !runs(&number.to_string()));
            let ended = done.stderr.lines().filter(|line| line.contains("ended: "));
            let count: usize = ended.map(|line| line.matches("(process ").count()).sum();
            let told = format!("had left, {count} went.");
            let is_short = count > 0 && !done.stderr.contains(" more, started");
            assert!(words != ["restore"] || !is_short || done.stdout.contains(&told), "{done:?}");
            is_listed
                && done.stderr.contains("ended: sleep (process ")
                && done.stderr.contains(&of_it)
        };
        // Any other measurement on this machine may end it first.
        assert!((0..5).any(|_| is_told()), "{words:?} never named what it ended");
    }
}

/// What works on in a session that a killed watch had started, with nothing of its environment (as under sudo), may put things in order: it does
/// not end itself, nor what it works in.
fn ended_by_itself() {
    let sandbox = Sandbox::new();
    sandbox.make_state();
    let number = (400_000 + std::process::id()).to_string();
    let [go, out, code, file] =
        ["go", "out", "code", "script"].map(|name| sandbox.scratch.join(name));
    let restore = sandbox.command(&["restore"]);
    let words = restore.get_args().map(|word| word.to_str().unwrap());
    let words: Vec<&str> =
        [restore.get_program().to_str().unwrap()].into_iter().chain(words).collect();
    let script = format!(
        "while ! test -e {}; do sleep 0.05; done\n\
         while {} > {out} 2>&1; c=$?; grep -q 'another measurement' {out}; do sleep 0.2; done\n\
         echo $c > {}\n",
        p(&go),
        words.join(" "),
        p(&code),
        out = p(&out)
    );
    fs::write(&file, script).unwrap();
    let is_so = || {
        for file in [&go, &out, &code] {
            fs::remove_file(file).ok();
        }
        let all = format!("setsid sleep {number} & env -i setsid sh {} & wait", p(&file));
        let running =
            sandbox.start(&["watch", "--interval=50ms", "--", "sh", "-c", &all], "sample", 2);
        wait_until("it runs", || runs(&number));
        Command::new("kill").args(["-KILL", &running.pid().to_string()]).status().unwrap();
        running.finish();
        fs::write(&go, "").unwrap();
        let begun = Instant::now();
        while !code.exists() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let is_whole = code.exists() && runs(&number);
        sandbox.run(&["restore"]);
        wait_until("what a killed one left is ended", || !runs(&number));
        is_whole && fs::read_to_string(&code).unwrap().trim() == "0"
    };
    // Any other measurement on this machine may end it first.
    assert!((0..5).any(|_| is_so()), "it ended itself: {:?}", fs::read_to_string(&out));
}

fn recipes() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    for (recipe, figure) in [
        ("dd,size=64M", "write_mb_per_s"),
        ("sqlite,transactions=200", "tps"),
        ("copy,size=16M", "files_per_s"),
    ] {
        let args = ["watch", dir, "--interval=100ms", &format!("--recipe={recipe}")];
        let result = sandbox.json(&args, &[0]).result();
        let found = &result["summary"]["application"];
        assert!(found["figures"][figure].as_f64() > Some(0.0), "{recipe}: {result}");
        let devices = found["devices"].as_object().unwrap();
        let written: u64 = devices.values().map(|d| d["writes"]["sectors"].as_u64().unwrap()).sum();
        assert!(written > 0, "{recipe}: {found}");
        let left: Vec<String> = crate::cli::names(fs.dir());
        assert_eq!(left, ["lost+found"], "{recipe}");
    }
    sandbox.refuses(&["watch", dir, "--recipe=sqlit"], 2, &["did you mean sqlite"]);
    sandbox.refuses(&["watch", "--recipe=dd"], 2, &["directory"]);
}

fn pgbench() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = p(fs.dir());
    let args = ["watch", dir, "--recipe=pgbench,scale=1,clients=2,time=3s"];
    let result = sandbox.json(&args, &[0]).result();
    let found = &result["summary"]["application"];
    assert!(found["figures"]["tps"].as_f64() > Some(0.0), "{result}");
    // The server's writes are the application's, although pgbench itself writes nothing.
    assert!(found["total"]["written_bytes"].as_u64() > Some(100_000), "{found}");
    assert_eq!(crate::cli::names(fs.dir()), ["lost+found"]);
    assert!(
        !Command::new("pgrep")
            .args(["-f", &format!("[p]ostgres.*{dir}")])
            .output()
            .unwrap()
            .status
            .success()
    );
}

fn nonsense() {
    let sandbox = Sandbox::new();
    for (args, words) in [
        (&["watch", "--interval=1ms"][..], &["--interval=1ms", "10ms"][..]),
        (&["watch", "--interval=1"], &["--interval=1", "needs a unit"]),
        (&["watch", "--count=0"], &["--count=0"]),
        (&["watch", "--figure=x=y"], &["--figure"]),
        (&["watch", "--timeout=5s"], &["-- COMMAND"]),
        (&["watch", "--listen=nonsense"], &["--listen=nonsense", "ADDRESS:PORT"]),
        (&["watch", "--count=3", "--", "true"], &["--timeout"]),
        (&["watch", "/proc"], &["/proc"]),
        (&["watch", "no-such-disk"], &["no-such-disk", "no such device"]),
        (&["watch", "/no/such/dir"], &["/no/such/dir", "no such device or path"]),
    ] {
        sandbox.refuses(args, 2, words);
    }
}
