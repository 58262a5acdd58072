//! What a device was asked for: captured beside a load whose figures are known, replayed, and never left switched on.

use crate::capture_instance::Instances;
use crate::cli::{Done, Kept, Running, Sandbox, as_nobody, binary_for_nobody, p, wait_until};
use crate::gone::Passing;
use fathom_model::capture::CaptureRecord;
use fathom_observe::trace::event::{Action, Class};
use fathom_observe::trace::open::Source;
use fathom_testkit::Capability::{FathomBinary, LoopDevices, Tool};
use fathom_testkit::{Judged, LoopDevice, Mount, Scratch, Trial, kernel_test};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices, Tool("fio")];
    vec![
        kernel_test("capture_tells_a_known_load", &needs, known_load),
        kernel_test("capture_counts_nothing_that_was_refused", &needs, impatient),
        kernel_test("capture_is_off_after_kill", &needs, killed),
        kernel_test("capture_ended_is_compared", &needs, ended_and_compared),
        kernel_test("capture_without_rights_or_sense", &[FathomBinary, LoopDevices], refused),
        kernel_test("capture_replaces_no_file", &[FathomBinary, LoopDevices], replaces_nothing),
        kernel_test("capture_ends_before_a_disk_is_full", &[FathomBinary, LoopDevices], disk_full),
        kernel_test("capture_whose_file_goes_has_its_figures", &needs[..2], file_goes),
        kernel_test("capture_ends_what_its_command_started", &needs[..2], ends_children),
        kernel_test(
            "restore_leaves_what_lives_in_another_time_namespace",
            &[FathomBinary, Tool("unshare")],
            lives_in_another_time,
        ),
        kernel_test("replay_is_like_its_trace", &needs, replayed),
        kernel_test(
            "capture_ends_where_its_device_goes",
            &[FathomBinary, LoopDevices],
            device_goes,
        ),
    ]
}

/// fio on a device, in its own form, so that another program's figures are the reference.
fn fio(device: &str, more: &[&str]) -> Vec<String> {
    let fixed = [
        "fio",
        "--name=x",
        "--ioengine=libaio",
        "--direct=1",
        "--output-format=json",
        "--rw=randrw",
    ];
    let mut words: Vec<String> = fixed.iter().map(ToString::to_string).collect();
    words.push(format!("--filename={device}"));
    words.extend(more.iter().map(ToString::to_string));
    words
}

fn captured(sandbox: &Sandbox, device: &str, trace: &Path, command: &[String]) -> Value {
    let mut words = vec!["--json", "--quiet", "capture", device, "-o", p(trace), "--"];
    words.extend(command.iter().map(String::as_str));
    let done = sandbox.run(&words);
    // What was lost makes it doubtful.
    let has_lost = || done.result()["capture"]["faults"]["lost"] != 0;
    assert!(done.code == 0 || done.code == 1 && has_lost(), "{done:?}");
    done.result()
}

/// 4 KiB, 70 % reads, 4 in flight, 8000 requests: by count, bytes, sizes, depth, latency and process.
fn known_load() -> Judged {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let (trace, report) = (sandbox.dir().join("t"), sandbox.dir().join("fio.json"));
    let twin = sandbox.dir().join("twin.toml");
    let output = format!("--output={}", p(&report));
    let load = [
        "--bs=4k",
        "--iodepth=4",
        "--rwmixread=70",
        "--number_ios=8000",
        "--size=64m",
        "--norandommap",
        &output,
    ];
    let command = fio(p(device.path()), &load);
    // Kernels lose some events by themselves, more of them where the machine is busy: what is missing then was told as lost.
    let Some((result, fio)) = (0..LOSSES_MAX).find_map(|_| {
        let result = captured(&sandbox, p(device.path()), &trace, &command);
        let fio: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
        let lost = result["capture"]["faults"]["lost"].as_u64().unwrap();
        assert!(lost < 8000, "a quarter of all: {}", result["capture"]["faults"]);
        counts_are_those_of(&fio, &result["capture"], lost);
        if lost > 0 {
            fs::remove_file(&trace).unwrap();
        }
        (lost == 0).then_some((result, fio))
    }) else {
        return Judged::Skipped(format!("each of {LOSSES_MAX} captures lost events"));
    };
    let capture = &result["capture"];
    for word in ["read", "write"] {
        let theirs = &fio["jobs"][0][word];
        let class = class(capture, word);
        let of_fio = theirs["total_ios"].as_u64().unwrap();
        if word == "write" {
            assert_eq!(class["bytes"].as_u64(), Some(4096 * of_fio));
            assert_eq!(class["size_deviation"].as_f64(), Some(0.0));
        }
    }
    let fio_share = |process: &Value| process["name"] == "fio";
    let processes = capture["processes"].as_array().unwrap();
    let of_fio = processes.iter().find(|process| fio_share(process)).expect("fio is named");
    assert!(of_fio["count"].as_u64() >= Some(8000), "{processes:?}");
    // The same from the file, and as a workload.
    let again = sandbox.json(&["capture", "--from", p(&trace), "--workload", p(&twin)], &[0]);
    let again = again.result();
    assert_eq!(again["capture"]["classes"], capture["classes"]);
    times_and_depth(&trace, &again["capture"], &fio["jobs"][0]);
    let text = fs::read_to_string(&twin).unwrap();
    assert!(
        text.contains("block_size = \"4096\"") && text.contains("access = \"random\""),
        "{text}"
    );
    let file = sandbox.dir().join("data");
    let run = ["run", p(&twin), p(&file), "size=64M", "direct=no", "duration=1s"];
    let done = sandbox.json(&run, &[0, 1]);
    let job = &done.result()["records"][0]["jobs"][0];
    assert_eq!(job["name"], "random");
    Judged::Passed
}

/// How often a load is captured until nothing of it is lost.
const LOSSES_MAX: usize = 8;

/// Requests are those that fio made, but for the events that were lost.
fn counts_are_those_of(fio: &Value, capture: &Value, lost: u64) {
    for word in ["read", "write"] {
        let of_fio = fio["jobs"][0][word]["total_ios"].as_u64().unwrap();
        let own = class(capture, word)["count"].as_u64().unwrap();
        // udev and the like may read the device when it is closed after writing.
        assert!(own + lost >= of_fio && own <= of_fio + 200, "{word}: {own} {of_fio}, lost {lost}");
    }
}

/// How many were in flight for how long, and what requests took, as the steps of the trace say, and no longer than fio saw them take.
fn times_and_depth(trace: &Path, capture: &Value, fio: &Value) {
    let capture: CaptureRecord = serde_json::from_value(capture.clone()).unwrap();
    let (arrived, now_ns) = followed(trace, Action::Queue);
    let (issued, _) = followed(trace, Action::Issue);
    // What never ended was in flight to the end.
    let mut steps: Vec<(u64, i64)> = arrived
        .iter()
        .flat_map(|(_, from_ns, end_ns)| [(*from_ns, 1), (end_ns.unwrap_or(now_ns), -1)])
        .collect();
    steps.sort_unstable();
    let mut depth_ns = vec![0; capture.depth_ns.len()];
    let (mut depth, mut before_ns) = (0i64, 0);
    for (at_ns, step) in steps {
        if at_ns > before_ns {
            depth_ns[usize::try_from(depth).unwrap()] += at_ns - before_ns;
        }
        (depth, before_ns) = (depth + step, at_ns);
    }
    assert_eq!(depth_ns[1..], capture.depth_ns[1..]);
    // fio has 4 in flight; udev and the like read beside it, and the kernel may lose an end.
    let busy: u64 = capture.depth_ns[1..].iter().sum();
    let up_to_five: u64 = capture.depth_ns.iter().skip(1).take(5).sum();
    assert!(up_to_five as f64 >= 0.9 * busy as f64, "{depth_ns:?}");
    for (word, class) in [("read", Class::Read), ("write", Class::Write)] {
        let own = capture.class(word).unwrap();
        for (of, told) in [(&arrived, &own.total_ns), (&issued, &own.service_ns)] {
            let took = of.iter().filter(|(its, ..)| *its == class);
            let took: Vec<u64> = took.filter_map(|(_, from, end)| Some((*end)? - from)).collect();
            let sum: u64 = took.iter().sum();
            let counted = (took.len() as u64, u128::from(sum), took.iter().max().copied());
            assert_eq!(counted, (told.count(), told.sum(), told.max()), "{word}");
        }
    }
    // All writes are its own.
    let theirs_ns = fio["write"]["lat_ns"]["mean"].as_f64().unwrap();
    let own_ns = capture.class("write").unwrap().total_ns.mean().unwrap();
    assert!(own_ns > 0.0 && own_ns <= theirs_ns, "{own_ns} {theirs_ns}");
}

/// A request: its class, when it began, and when it ended.
type Followed = (Class, u64, Option<u64>);

/// Every request that begins with such a step, and the time of the last step: by the plainest way, in which each of its sectors waits in a
/// line of its own until an end takes it out.
fn followed(trace: &Path, begin: Action) -> (Vec<Followed>, u64) {
    let mut source = Source::open(trace).unwrap();
    let mut lines: HashMap<(Class, u64), VecDeque<usize>> = HashMap::new();
    let (mut found, mut left, mut now_ns) = (Vec::new(), Vec::new(), 0);
    while let Some(event) = source.next_event().unwrap() {
        now_ns = event.time_ns.max(now_ns);
        let sectors = event.sector..event.sector + u64::from(event.sectors.max(1));
        if event.action == begin {
            left.push(event.sectors.max(1));
            for sector in sectors {
                lines.entry((event.class, sector)).or_default().push_back(found.len());
            }
            found.push((event.class, now_ns, None));
        } else if event.action == Action::Complete {
            for sector in sectors {
                let line = lines.get_mut(&(event.class, sector));
                let Some(at) = line.and_then(VecDeque::pop_front) else { continue };
                left[at] -= 1;
                if left[at] == 0 {
                    found[at].2 = Some(now_ns);
                }
            }
        }
    }
    (found, now_ns)
}

fn class<'v>(capture: &'v Value, word: &str) -> &'v Value {
    let classes = capture["classes"].as_array().unwrap();
    classes.iter().find(|class| class["class"] == word).unwrap_or_else(|| panic!("{classes:?}"))
}

/// io_uring asks first without waiting: with more in flight than the queue has places for, many arrivals are refused and come again. They are
/// neither requests nor errors of the device.
fn impatient() -> Judged {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(64 * MIB).unwrap();
    let report = sandbox.dir().join("fio.json");
    let output = format!("--output={}", p(&report));
    let load = ["--bs=256k", "--iodepth=512", "--size=64m", "--io_size=1g", "--norandommap"];
    let more = ["--ioengine=io_uring", "--rw=randread", output.as_str()];
    let command = fio(p(device.path()), &[&load[..], &more].concat());
    for attempt in 0..LOSSES_MAX {
        let trace = sandbox.dir().join(attempt.to_string());
        let result = captured(&sandbox, p(device.path()), &trace, &command);
        let fio: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
        let faults = &result["capture"]["faults"];
        if faults["lost"] != 0 || faults["refused"].as_u64().unwrap_or(0) == 0 {
            continue;
        }
        let read = class(&result["capture"], "read");
        let (own, of_fio) = (read["count"].as_u64(), fio["jobs"][0]["read"]["total_ios"].as_u64());
        assert!(of_fio <= own && own <= of_fio.map(|of_fio| of_fio + 200), "{own:?} {of_fio:?}");
        assert_eq!(result["capture"]["errors"], 0);
        return Judged::Passed;
    }
    Judged::Skipped(format!("each of {LOSSES_MAX} captures lost events, or nothing was refused"))
}

/// Nothing is enabled in the tracing files of the machine, and the instance that all is enabled in goes with its process.
fn killed() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    let (before, instances) = (switched_on(), Instances::new());
    let words = ["--quiet", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
    let mut child = Kept(sandbox.command(&words).stdout(Stdio::null()).spawn().unwrap());
    wait_until("tracepoints are open", || tracepoints_of(child.0.id()) > 0);
    let load = fio(p(device.path()), &["--bs=4k", "--size=16m", "--io_size=16m", "--norandommap"]);
    let status = Command::new(&load[0]).args(&load[1..]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    wait_until("a block is in the file", || {
        fs::metadata(&trace).is_ok_and(|meta| meta.len() > 50_000)
    });
    assert_eq!(switched_on(), before, "nothing is switched on for all");
    assert_eq!(instances.of(child.0.id()).len(), 1);
    // It has nothing in flight that it could wait for.
    let second = sandbox.dir().join("second");
    let other = ["capture", p(device.path()), "--time=10m", "-o", p(&second)];
    let stopped = Running::of(
        sandbox.command(&other).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
    );
    stopped.wait_for_words("Capturing");
    stopped.signal("INT");
    stopped.wait_for_words("stopping (a second signal ends at once)");
    assert_eq!(stopped.finish().code, 130);
    child.kill();
    instances.are_gone(child.0.id(), Instant::now());
    assert_eq!(switched_on(), before);
    // What is whole of the trace is read, and its end is missed.
    let done = sandbox.json(&["capture", "--from", p(&trace)], &[1]);
    let result = done.result();
    assert!(result["capture"]["events"].as_u64() > Some(1000), "{result}");
    let found = result["findings"].as_array().unwrap();
    assert!(found.iter().any(|finding| finding["id"] == "capture-cut-off"), "{found:?}");
}

/// One that is ended by a signal is held against another trace as one that ends by itself is.
fn ended_and_compared() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let (first, second) = (sandbox.dir().join("first"), sandbox.dir().join("second"));
    let load = reads_of(&device, 2000);
    let words = ["capture", p(device.path()), "-o", p(&first), "--", "sh", "-c", &load];
    sandbox.json(&words, &[0, 1]);
    let like = format!("--like={}", p(&first));
    let words =
        ["--json", "--quiet", "capture", p(device.path()), "--time=10m", &like, "-o", p(&second)];
    let mut command = sandbox.command(&words);
    let running =
        Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    wait_until("tracepoints are open", || tracepoints_of(running.pid()) > 0);
    assert!(Command::new("sh").args(["-c", &load]).status().unwrap().success());
    running.signal("INT");
    let done = running.finish();
    assert_eq!(done.code, 130, "{done:?}");
    let likeness = done.result()["capture"]["likeness"].clone();
    assert!(likeness.as_array().is_some_and(|all| !all.is_empty()), "{likeness}");
    done.finding("capture-likeness");
}

/// Rings of tracepoints that a process has open, whichever kind they are of.
pub fn tracepoints_of(pid: u32) -> usize {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let is_ring = |link: &str| link.contains("perf_event") || link.ends_with("/trace_pipe_raw");
    links.filter(|link| is_ring(&link.to_string_lossy())).count()
}

/// What the tracing files say of block tracepoints for all, where they are mounted.
pub fn switched_on() -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/events/block").into_iter().flatten().flatten();
    let is_on = |path: &Path| fs::read_to_string(path.join("enable")).unwrap_or_default();
    let paths = entries.map(|entry| entry.path());
    let mut found: Vec<String> =
        paths.map(|path| format!("{} {}", path.display(), is_on(&path).trim())).collect();
    found.sort();
    found
}

fn refused() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    sandbox.refuses(&["capture", "/dev/none", "-o", p(&trace)], 2, &["no such device"]);
    fs::write(&trace, "hello\n").unwrap();
    let exists = ["capture", p(device.path()), "-o", p(&trace)];
    sandbox.refuses(&exists, 2, &["exists"]);
    sandbox.refuses(&["capture", "--from", p(&trace)], 2, &["is no trace"]);
    sandbox.refuses(&["replay", p(&trace), p(&sandbox.dir())], 2, &["is no trace"]);
    let none = sandbox.dir().join("none");
    let starts = ["--quiet", "capture", p(device.path()), "-o", p(&none), "--", "/no/such/program"];
    let said = sandbox.refuses(&starts, 2, &["there is no such program"]);
    assert!(!said.stderr.contains("$PATH"), "{said:?}");
    assert!(!none.exists());
    sandbox.refuses(&["capture", p(device.path()), "--"], 2, &["no command behind it"]);
    let nowhere = sandbox.dir().join("nowhere/t");
    let words = ["capture", p(device.path()), "-o", p(&nowhere)];
    sandbox.refuses(&words, 2, &["there is no directory", "make it first"]);
    sandbox.refuses(&["capture", "--from", p(&none)], 2, &["there is no such file"]);
    sandbox.refuses(&["capture", "--from=-"], 2, &["write it to a file"]);
    let nothing = sandbox.run(&["capture"]);
    assert!(nothing.code == 2 && nothing.stderr.contains("<DEV|--from <FILE>>"), "{nothing:?}");
    let lines = sandbox.dir().join("a\nb");
    sandbox.refuses(&["capture", "--from", p(&lines)], 2, &[r"a\012b'", "there is no such file"]);
    let live = ["capture", p(device.path()), "--device=8,0"];
    sandbox.refuses(&live, 2, &["one of the devices in a trace (--from)"]);
    sandbox.refuses(&["capture", p(device.path()), "-o", "-"], 2, &["name a file"]);
    // Who is not root gets what is possible: the device's counters.
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let mut command = as_nobody(&binary);
    let done = command
        .args(["capture", &device.name(), "--time=50ms", "-o", "/tmp/fathom-never"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(4), "{said}");
    assert!(said.contains("needs root") && said.contains("fathom watch"), "{said}");
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(shown.contains("r_await") && shown.contains(&device.name()), "{shown}");
    // Programs get one result, with the code that it ends with, after the counters.
    let mut command = as_nobody(&binary);
    command.args(["--json", "capture", &device.name(), "--time=50ms", "-o", "/tmp/fathom-never"]);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let done = Done::of(output.status, text(&output.stdout), text(&output.stderr));
    let objects = done.objects();
    let results = objects.iter().filter(|object| object["type"] == "result").count();
    assert_eq!((results, objects.len() > 1), (1, true), "{done:?}");
    let result = done.result();
    assert_eq!((result["exit_code"].as_i64(), done.code), (Some(4), 4), "{done:?}");
    assert!(result["error"].as_str().is_some_and(|why| why.contains("needs root")), "{result}");
}

/// A shell command that reads some of a device.
pub fn reads_of(device: &LoopDevice, count: u32) -> String {
    let device = p(device.path());
    format!("dd if={device} of=/dev/null bs=4k count={count} iflag=direct status=none")
}

/// Two files of one name, a place of the kernel's, and a file that comes meanwhile.
fn replaces_nothing() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let (both, there) = (sandbox.dir().join("both"), sandbox.dir().join("./both"));
    let words = ["capture", p(device.path()), "-o", p(&both), "--workload", p(&there)];
    sandbox.refuses(&words, 2, &["the same file"]);
    assert!(!both.exists());
    let in_dev = Path::new("/dev/fathom-test-trace");
    for option in ["-o", "--workload"] {
        let words = ["capture", p(device.path()), option, p(in_dev)];
        sandbox.refuses(&words, 3, &["nothing is made in /dev"]);
        assert!(!in_dev.exists());
    }
    let (trace, workload) = (sandbox.dir().join("t"), sandbox.dir().join("w"));
    let command = format!("{}; echo mine > {}", reads_of(&device, 500), p(&workload));
    let words = ["capture", p(device.path()), "-o", p(&trace), "--workload", p(&workload)];
    let done =
        sandbox.run(&[&["--json", "--quiet"], &words[..], &["--", "sh", "-c", &command]].concat());
    assert_eq!(done.code, 6, "{done:?}");
    assert!(done.stderr.contains("the workload was not written"), "{done:?}");
    assert_eq!(fs::read_to_string(&workload).unwrap(), "mine\n");
    assert_eq!(sandbox.runs().len(), 1);
    // The trace is whole, and the workload can be had from it.
    let again = sandbox.dir().join("again");
    sandbox.json(&["capture", "--from", p(&trace), "--workload", p(&again)], &[0]);
    assert!(again.exists());
}

/// Somebody fills the filesystem of the trace.
fn disk_full() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let memory = Mount::new("tmpfs", Path::new("none"), "size=1100M").unwrap();
    let trace = memory.dir().join("t");
    let words = ["--json", "--quiet", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
    let child = sandbox.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let running = Running::of(child.unwrap());
    wait_until("tracepoints are open", || tracepoints_of(running.pid()) > 0);
    wait_until("the trace is begun", || trace.exists());
    let status = Command::new("sh").args(["-c", &reads_of(&device, 1000)]).status().unwrap();
    assert!(status.success());
    fs::write(memory.dir().join("others"), vec![1; 65 << 20]).unwrap();
    let done = running.finish();
    assert_eq!(done.code, 1, "{done:?}");
    done.finding("capture-disk-full");
    assert!(done.result()["capture"]["events"].as_u64() > Some(1000));
    assert_eq!(sandbox.runs().len(), 1);
    let other = memory.dir().join("t2");
    let words = ["capture", p(device.path()), "--time=1s", "-o", p(&other)];
    // As everywhere: too little room is what the system lacks.
    sandbox.refuses(&words, 4, &["free"]);
    assert!(!other.exists());
}

/// Its trace is removed while it is written, or another file takes its name: that one is neither read nor touched.
fn file_goes() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    for other in [None, Some("a file of somebody")] {
        let trace = sandbox.dir().join("t");
        let put = other.map_or_else(String::new, |text| format!("; echo {text} > {}", p(&trace)));
        let command = format!("rm {}{put}; {}", p(&trace), reads_of(&device, 500));
        let words = ["--json", "--quiet", "capture", p(device.path()), "-o", p(&trace), "--"];
        let done = sandbox.run(&[&words[..], &["sh", "-c", &command]].concat());
        let result = done.result();
        let is_whole = result["capture"]["faults"]["lost"] == 0;
        assert!(done.code == 0 || done.code == 1 && !is_whole, "{done:?}");
        assert!(done.finding("capture-file-went")["summary"].as_str().unwrap().contains(p(&trace)));
        let reads = class(&result["capture"], "read")["count"].as_u64();
        assert!(reads >= Some(450), "{done:?}");
        assert_eq!(result["capture"]["file"], Value::Null);
        match other {
            None => assert!(!trace.exists()),
            Some(text) => {
                assert_eq!(fs::read_to_string(&trace).unwrap().trim(), text);
                fs::remove_file(&trace).unwrap();
            }
        }
    }
    assert_eq!(sandbox.runs().len(), 2);
}

/// Also what went on in the background, and in a session of its own.
fn ends_children() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let (trace, pids) = (sandbox.dir().join("t"), sandbox.dir().join("pids"));
    let command = format!(
        "sleep 1000 & echo $! > {0}; setsid sleep 1000 & echo $! >> {0}; {1}",
        p(&pids),
        reads_of(&device, 500)
    );
    let words = ["--json", "--quiet", "capture", p(device.path()), "-o", p(&trace), "--"];
    let done = sandbox.run(&[&words[..], &["sh", "-c", &command]].concat());
    assert_eq!(done.code, 0, "{done:?}");
    let is_gone = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    };
    for pid in fs::read_to_string(&pids).unwrap().lines() {
        wait_until("it is ended", || is_gone(pid));
    }
    // What the command of a killed fathom has left is ended by the next one, which says so; others may be faster.
    let left = sandbox.dir().join("left");
    let pid = || fs::read_to_string(&left).unwrap_or_default().trim().to_owned();
    let script = format!("setsid sleep 1000 & echo $! > {}; sleep 1000", p(&left));
    let is_told = |attempt: usize| {
        let _ = fs::remove_file(&left);
        let mut killed = sandbox.command(&["watch", "--", "sh", "-c", &script]);
        let mut killed = Kept(killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("it runs", || !pid().is_empty());
        killed.kill();
        let again = sandbox.dir().join(format!("again{attempt}"));
        let done = sandbox.run(&["capture", p(device.path()), "-o", p(&again), "--", "true"]);
        wait_until("it is ended", || is_gone(&pid()));
        done.stderr.contains(&format!("ended: sleep (process {})", pid()))
    };
    assert!((0..5).any(is_told), "what was ended was never named");
}

/// When a process started is told otherwise in another time namespace: it is no other process for that.
fn lives_in_another_time() -> Judged {
    let sandbox = Sandbox::new();
    let left = sandbox.dir().join("left");
    let script =
        format!("setsid sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; sleep 1000", p(&left));
    let by = ["unshare", "--time", "--boottime", "1000", "--fork", "--kill-child", "--"];
    let mut command = sandbox.command_by(&by, &["watch", "--", "sh", "-c", &script]);
    let mut watch = Kept(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    for _ in 0..600 {
        if left.exists() {
            break;
        }
        if watch.0.try_wait().unwrap().is_some() {
            return Judged::Skipped("this kernel has no time namespaces".to_owned());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let pid = fs::read_to_string(&left).unwrap().trim().to_owned();
    let sleeps = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(sleep)") && !stat.contains(") Z ")
    };
    assert!(sleeps());
    let listed = sandbox.run(&["restore", "--list"]);
    assert!(!listed.stdout.contains(&format!("(process {pid})")), "{listed:?}");
    let done = sandbox.run(&["restore"]);
    assert!(done.code != 3 && sleeps(), "{done:?}");
    watch.kill();
    Judged::Passed
}

/// A load at a steady pace, replayed at its times into a file in memory: sizes, places and times are those of the trace.
fn replayed() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(32 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    let load = [
        "--bsrange=4k-32k",
        "--iodepth=2",
        "--rate_iops=400,200",
        "--runtime=2",
        "--time_based",
        "--size=32m",
        "--output=/dev/null",
    ];
    captured(&sandbox, p(device.path()), &trace, &fio(p(device.path()), &load));
    let memory = Mount::new("tmpfs", Path::new("none"), "size=1200M").unwrap();
    let file = memory.dir().join("data");
    let replay = |more: &[&str], codes: &[i32]| {
        let words = [&["replay", p(&trace), p(&file), "--size=32M", "--buffered"], more].concat();
        sandbox.json(&words, codes).result()
    };
    // The machine may be busy: a late start is tried again.
    let mut result = replay(&[], &[0, 1]);
    for _ in 0..5 {
        if distance(&result, "time between arrivals") < 0.25 {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        result = replay(&[], &[0, 1]);
    }
    for figure in ["size of reads", "size of writes", "distance of places"] {
        assert!(distance(&result, figure) < 0.02, "{figure}: {}", result["likeness"]);
    }
    assert!(distance(&result, "time between arrivals") < 0.25, "{}", result["likeness"]);
    assert!(!file.exists(), "the test file is removed");
    // As fast as it goes, and only reads.
    let fast = replay(&["--speed=max", "--reads-only"], &[0, 1]);
    let capture = &fast["records"][0]["capture"];
    assert_eq!(capture["classes"].as_array().map(Vec::len), Some(1), "{capture}");
    // A device is not written without consent.
    let before = fs::read(device.backing()).unwrap();
    let done = sandbox.json(&["replay", p(&trace), p(device.path()), "--speed=max"], &[0, 1]);
    assert!(fs::read(device.backing()).unwrap() == before);
    // A third of the trace is writes: without them it is another load, and only the reads are said to be like those of the trace.
    let found = done.finding("replay-left-out");
    assert_eq!((&found["severity"], done.code), (&"doubtful".into(), 1), "{found}");
    assert!(found["advice"].to_string().contains("--destroy"), "{found}");
    let alike = done.finding("replay-likeness")["summary"].to_string();
    assert!(alike.contains("the reads that arrived"), "{alike}");
    // Two replays beside each other; with anything else they are not compared.
    let id = |of: &Value| of["id"].as_str().unwrap().to_owned();
    let (whole, reads) = (id(&result), id(&fast));
    // Both are read through the page cache of a machine that is larger, which makes them doubtful.
    let both = sandbox.json(&["compare", &whole, &reads], &[1]).result();
    let doubts = both["comparison"]["doubts"].to_string();
    assert_eq!(doubts.matches("replay-cached").count(), 2, "{doubts}");
    sandbox.json(&["compare", &whole, &reads, "--fail-on=void"], &[0]);
    for option in ["--fail-if=slower:5%", "--factor=depth", "--margin=1%", "--looks"] {
        let given = option.split('=').next().unwrap();
        sandbox.refuses(&["compare", &whole, &reads, option], 2, &[given, "for measurements"]);
    }
    let sizes = |d: &&Value| d["figure"] == "size of reads" && d["distance"].as_f64() < Some(0.1);
    let distances = both["comparison"]["distances"].as_array().unwrap();
    assert!(distances.iter().any(|d| sizes(&d)), "{both}");
    let text = sandbox.run(&["compare", &whole, &reads]);
    assert!(
        text.stdout.contains("Two different loads") && !text.stdout.contains("Nothing"),
        "{text:?}"
    );
    sandbox.refuses(&["compare", &whole, &whole], 2, &["on both sides"]);
}

/// A loop device loses its file, or gets another one, while it is captured.
fn device_goes() {
    let sandbox = Sandbox::new();
    let capture = |device: &Passing, then: &str| {
        let (path, trace) = (&device.path, sandbox.dir().join("t"));
        let read = "of=/dev/null bs=64k count=100 iflag=direct 2>/dev/null";
        let script = format!("dd if={path} {read}; sleep 0.5; losetup -d {path}; {then}; sleep 30");
        let words = ["capture", path, "--time=20s", "-o", p(&trace), "--", "sh", "-c", &script];
        let done = sandbox.json(&words, &[1]);
        fs::remove_file(&trace).unwrap();
        let finding = done.finding("capture-device-went");
        assert_eq!(finding["severity"], "doubtful", "{finding}");
        done.result()["capture"].clone()
    };
    let device = Passing::new(&sandbox.scratch, 32 * MIB);
    let gone = capture(&device, "true");
    assert!(class(&gone, "read")["count"].as_u64() >= Some(100), "{gone}");
    let window_ns = gone["window_ns"].as_u64().unwrap();
    assert!(window_ns > 500_000_000 && window_ns < 15_000_000_000, "{window_ns}");
    // Behind the end of the first one: nothing of that is in its trace.
    let mut device = Passing::new(&sandbox.scratch, 32 * MIB);
    let (path, other) = (device.path.clone(), device.file(64 * MIB));
    let then = format!(
        "until losetup {path} {}; do :; done; dd if={path} of=/dev/null bs=64k skip=600 count=200 iflag=direct 2>/dev/null",
        p(&other)
    );
    let replaced = capture(&device, &then);
    assert!(class(&replaced, "read")["count"].as_u64() >= Some(100), "{replaced}");
    assert!(replaced["places"]["end_byte"].as_u64() <= Some(32 * MIB), "{replaced}");
}

fn distance(result: &Value, figure: &str) -> f64 {
    let all = result["likeness"].as_array().unwrap();
    let found = all.iter().find(|distance| distance["figure"] == figure);
    found
        .and_then(|distance| distance["distance"].as_f64())
        .unwrap_or_else(|| panic!("{figure}: {all:?}"))
}
