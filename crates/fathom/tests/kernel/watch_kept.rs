//! What is kept of a watch that is killed, cannot be shown, or cannot be stored.

use crate::cli::{Done, Running, Sandbox, p};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, MountFs};
use fathom_testkit::{FsKind, Mount, MountedFs, Trial, kernel_test};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    let binary = FathomBinary;
    vec![
        kernel_test("watch_that_is_killed_keeps_its_pieces", &[binary], killed),
        kernel_test("watch_without_room_for_its_lines", &[binary], full),
        kernel_test("watch_whose_reader_leaves", &[binary], left),
        kernel_test("watch_whose_store_is_full_for_a_while", &[binary, MountFs("tmpfs")], waiting),
        kernel_test("watch_of_nothing_leaves_nothing", &[binary], nothing),
        kernel_test("watch_as_a_table", &[binary], table),
        kernel_test(
            "watch_is_kept_with_its_stack_before_and_after",
            &[binary, FsOnLoop(FsKind::Ext4)],
            with_its_stack,
        ),
    ]
}

fn killed() {
    let sandbox = Sandbox::new();
    let args = ["watch", "--all", "--interval=50ms", "--record", "--store-every=1s"];
    let running = sandbox.start(&args, "sample", 50);
    Command::new("kill").args(["-KILL", &running.pid().to_string()]).status().unwrap();
    running.finish();
    let run = &sandbox.runs()[0];
    assert_eq!(run["state"], "partial", "{run}");
    let id = run["id"].as_str().unwrap();
    let shown = sandbox.json(&["show", id], &[0]).result();
    let page = sandbox.scratch.join("page.html");
    let drawn = sandbox.json(&["report", id, "--output", page.to_str().unwrap()], &[0]).result();
    let verdicts = (shown["verdict"].as_str(), drawn["verdict"].as_str());
    assert_eq!(verdicts, (Some("doubtful"), Some("doubtful")), "of the same run");
    // Two pieces of a second had become old enough.
    assert!(shown["watch"]["intervals"].as_u64() >= Some(20), "{}", shown["watch"]);
}

/// True while a process sleeps for so many seconds.
fn sleeps(seconds: u32) -> bool {
    let done = Command::new("pgrep").args(["-f", &format!("[s]leep {seconds}")]).output().unwrap();
    done.status.success()
}

fn full() {
    let sandbox = Sandbox::new();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    // A number that nobody else sleeps for.
    let seconds = 300_000 + std::process::id();
    let script = format!("setsid sleep {seconds} & sleep {seconds} & sleep {seconds}");
    let mut command =
        sandbox.command(&["--json", "watch", "--interval=50ms", "--", "sh", "-c", &script]);
    let status = command.stdout(full()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(6));
    assert!(!sleeps(seconds), "something of the command still runs");
    assert_eq!(sandbox.runs()[0]["state"], "failed");
    let args = ["--json", "watch", "--all", "--interval=50ms", "--count=100", "--record"];
    let status = sandbox.command(&args).stdout(full()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(6));
    let run = &sandbox.runs()[0];
    assert_eq!(run["state"], "complete");
    let shown = sandbox.json(&["show", run["id"].as_str().unwrap()], &[0]).result();
    assert_eq!(shown["watch"]["intervals"], 1, "what was seen until then");
}

fn left() {
    let sandbox = Sandbox::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let script = "sleep 1; echo x = 5";
    let args = [
        "watch",
        "--interval=50ms",
        "--timeout=10m",
        "--figure=x=x = {}",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut child = sandbox.command(&args).stdout(writer).stderr(Stdio::null()).spawn().unwrap();
    drop(reader);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = sandbox.json(&["show", sandbox.runs()[0]["id"].as_str().unwrap()], &[0]).result();
    let application = &shown["watch"]["application"];
    assert_eq!(
        (&application["exit_status"], &application["figures"]["x"]),
        (&0.into(), &5.0.into())
    );
    assert!(shown["watch"]["intervals"].as_u64() >= Some(10), "it was watched to its end");
}

fn waiting() {
    let memory = Mount::new("tmpfs", Path::new("none"), "size=4M").unwrap();
    let sandbox = Sandbox::with_db(memory.dir().join("state/fathom.db"));
    let args = ["watch", "--all", "--interval=50ms", "--record", "--store-every=1s"];
    let running = sandbox.start(&args, "sample", 1);
    let filler = memory.dir().join("filler");
    // Until nothing fits any more.
    Command::new("dd")
        .args(["if=/dev/zero", &format!("of={}", p(&filler)), "bs=4k"])
        .output()
        .unwrap();
    running.wait_for_words("the series cannot be stored");
    fs::remove_file(&filler).unwrap();
    let done = end(running);
    assert_eq!(done.code, 0, "{done:?}");
    let result = done.result();
    let samples = done.objects().iter().filter(|object| object["type"] == "sample").count();
    // A second of 50 ms each, of which a busy machine may miss some.
    assert!(samples >= 10, "{samples}");
    assert_eq!(
        (&result["stored"], &result["summary"]["intervals"]),
        (&true.into(), &samples.into())
    );
    assert_eq!(sandbox.runs()[0]["state"], "complete");
}

fn end(running: Running) -> Done {
    Command::new("kill").args(["-INT", &running.pid().to_string()]).status().unwrap();
    running.finish()
}

fn nothing() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    sandbox.refuses(&["watch", p(&dir), "--"], 2, &["no command behind it", "leave -- out"]);
    sandbox.refuses(&["watch", "--", "no-such-program"], 2, &["no-such-program", "$PATH"]);
    sandbox.refuses(&["watch", p(&dir), "--recipe=dd,size=x"], 2, &["size"]);
    assert_eq!(sandbox.runs().len(), 0);
    for (args, words) in [
        (&["watch", "--recipe=dd", "--count=3", p(&dir)][..], &["--count", "--timeout"][..]),
        (&["watch", "--label=monday"], &["--label", "--record"]),
        (&["watch", "--timeout=0s", "--", "true"], &["--timeout=0"]),
        (&["watch", "--figure=x=a {}", "--figure=x=b {}", "--", "true"], &["figure x already"]),
        (&["watch", "--record", "--store-every=10ms"], &["--store-every=10ms", "1s"]),
    ] {
        sandbox.refuses(args, 2, words);
    }
    assert_eq!(sandbox.runs().len(), 0);
}

/// Everything that was recorded, as a table: its sums are those that are shown.
fn table() {
    let sandbox = Sandbox::new();
    let script = "for i in 1 2 3; do cat /proc/self/stat > /dev/null; sleep 0.2; done";
    let done = sandbox.json(&["watch", "/", "--interval=50ms", "--", "sh", "-c", script], &[0, 1]);
    let summary = done.result()["summary"].clone();
    let rows = |what: &str| {
        let text = sandbox.run(&["export", "--format=csv", &format!("--what={what}")]).stdout;
        let mut lines =
            text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let names = lines.next().unwrap();
        (names, lines.collect::<Vec<_>>())
    };
    let (names, lines) = rows("watch");
    let at = |name: &str| names.iter().position(|known| known == name).unwrap();
    let devices = summary["devices"].as_array().unwrap();
    assert!(!devices.is_empty(), "{summary}");
    for device in devices {
        let own =
            lines.iter().filter(|line| line[at("device")] == device["name"].as_str().unwrap());
        let sum: u64 = own.clone().map(|line| line[at("writes")].parse::<u64>().unwrap()).sum();
        assert_eq!(device["total"]["writes"]["requests"], sum, "{device}");
        assert_eq!(device["intervals"], own.count(), "{device}");
    }
    let (names, lines) = rows("watch-host");
    assert_eq!(summary["intervals"], lines.len());
    let processes = names.iter().position(|known| known == "processes").unwrap();
    assert!(lines.iter().any(|line| line[processes].parse::<u64>().unwrap() > 0));
}

/// The layers from the mount down to the disk below the loop device, a setting of which changes meanwhile: it stands on the page, which has
/// the stack as a picture.
fn with_its_stack() {
    let sandbox = Sandbox::new();
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let name = fs.device().name();
    let file = format!("/sys/block/{name}/queue/read_ahead_kb");
    let before = fs::read_to_string(&file).unwrap();
    let script = format!("echo 1024 > {file}; sleep 0.3");
    let args = ["watch", p(fs.dir()), "--interval=100ms", "--", "sh", "-c", &script];
    let done = sandbox.json(&args, &[0, 1]);
    fs::write(&file, &before).unwrap();
    let id = done.id();
    let shown = sandbox.json(&["show", &id], &[0, 1]).result();
    let stacks = &shown["records"][0]["watch"]["stacks"];
    for when in ["before", "after"] {
        let nodes = stacks[0][when]["nodes"].as_array().unwrap_or_else(|| panic!("{stacks}"));
        let kinds: Vec<&str> = nodes.iter().map(|node| node["kind"].as_str().unwrap()).collect();
        assert!(kinds.starts_with(&["mount", "file_system", "loop"]), "{when}: {kinds:?}");
    }
    let text = sandbox.run(&["report", &id, "-o", "-", "--format=markdown"]).stdout;
    assert!(text.contains("## Layers and settings"), "{text}");
    let change = format!("| {} | 1024 | at the end |", before.trim());
    assert!(text.contains(&change), "{change}: {text}");
    // It has no rows of measurements, and is no series of them.
    let rows = sandbox.run(&["export", &id, "--format=csv"]);
    assert!(rows.stderr.contains("no row") && rows.stderr.contains("--what=watch"), "{rows:?}");
    sandbox.refuses(&["history", p(fs.dir())], 2, &["only watches", "fathom compare"]);
    let html = sandbox.run(&["report", &id, "-o", "-"]).stdout;
    let (first, _) = html.split_once("<section").unwrap();
    assert!(first.contains("<figure class=\"stack\""), "the picture is on the first screen");
}
