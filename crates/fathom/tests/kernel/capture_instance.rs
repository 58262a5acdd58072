//! The trace instances of captures: every end of every request is in them, on every processor, and nothing is left of them however
//! fathom ends.

use crate::capture::reads_of;
use crate::cli::{Kept, Running, Sandbox, p, wait_until};
use fathom_guard::MeasuringLock;
use fathom_observe::trace::event::{Action, Class, Event};
use fathom_observe::trace::open::Source;
use fathom_sys::family;
use fathom_sys::process::ProcessIdentity;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::tracefs::Tracefs;
use fathom_sys::tracing;
use fathom_testkit::Capability::{self, FathomBinary, LoopDevices, Tool};
use fathom_testkit::{Judged, LoopDevice, Trial, Zram, kernel_test};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

pub fn trials() -> Vec<Trial> {
    let needs = [FathomBinary, LoopDevices];
    let zram = [FathomBinary, Capability::Zram];
    vec![
        kernel_test("capture_has_every_end_of_a_disk", &needs[..1], every_end),
        kernel_test(
            "capture_has_every_processor",
            &[FathomBinary, Capability::Zram, Tool("taskset")],
            every_processor,
        ),
        kernel_test(
            "captures_of_two_devices_at_once",
            &[FathomBinary, LoopDevices, Capability::Zram],
            two_at_once,
        ),
        kernel_test("capture_says_who_meddled", &needs, says_who_meddled),
        kernel_test("watch_goes_on_when_tracing_is_off", &needs, watches_on),
        kernel_test("capture_leaves_no_instance", &needs, leaves_nothing),
        kernel_test("capture_says_what_stays_of_it", &needs, says_what_stays),
        kernel_test(
            "capture_removes_instances_of_the_dead_alone",
            &needs,
            removes_those_of_the_dead,
        ),
        kernel_test(
            "capture_removes_instances_of_dead_containers",
            &[FathomBinary, LoopDevices, Tool("unshare")],
            removes_that_of_a_dead_container,
        ),
        kernel_test(
            "capture_without_instances",
            &[zram[0], zram[1], Tool("unshare")],
            without_instances,
        ),
    ]
}

/// All trace instances of the machine.
pub struct Instances {
    files: Tracefs,
    dir: OwnedFd,
}

impl Instances {
    pub fn new() -> Self {
        let files = Tracefs::open(&SysRoot::live(), true).unwrap();
        let dir = files.instances().unwrap();
        Self { files, dir }
    }

    /// Those that a fathom has made.
    pub fn of(&self, pid: u32) -> Vec<String> {
        let mut names = self.files.instance_names();
        names.retain(|name| name.starts_with(&format!("fathom-{pid}-")));
        names
    }

    /// True when a fathom has one that records. A new one is on, with nothing to record, until it is prepared.
    pub fn records(&self, pid: u32) -> bool {
        let is_on = |name: &String| {
            ["events/block/block_bio_queue/enable", "tracing_on"].iter().all(|switch| {
                let text = fs::read_to_string(self.path(name).join(switch));
                text.is_ok_and(|text| text.trim() == "1")
            })
        };
        self.of(pid).iter().any(is_on)
    }

    fn path(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.dir.as_raw_fd()).into()
    }

    /// Waits until a fathom that was ended at that moment has none.
    #[track_caller]
    pub fn are_gone(&self, pid: u32, since: Instant) {
        while !self.of(pid).is_empty() {
            assert!(since.elapsed() < Duration::from_secs(5), "{:?} are left", self.of(pid));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An instance of somebody else's, removed in the end.
struct Foreign<'a> {
    instances: &'a Instances,
    name: String,
}

impl<'a> Foreign<'a> {
    fn new(instances: &'a Instances, name: String) -> Self {
        fs::create_dir(instances.path(&name)).unwrap();
        Self { instances, name }
    }

    fn is_there(&self) -> bool {
        self.instances.path(&self.name).exists()
    }
}

impl Drop for Foreign<'_> {
    fn drop(&mut self) {
        fs::remove_dir(self.instances.path(&self.name)).ok();
    }
}

/// All events of a trace.
fn events(trace: &Path) -> Vec<Event> {
    let mut source = Source::open(trace).unwrap();
    std::iter::from_fn(|| source.next_event().unwrap()).collect()
}

/// The whole disk that a file lies on; none where it is not on one.
fn disk_of(path: &Path) -> Option<String> {
    let number = fs::metadata(path).unwrap().dev();
    let (major, minor) = (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00);
    let dir = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let dir = if dir.join("partition").exists() { dir.parent()?.to_owned() } else { dir };
    // One with interrupts of its own.
    dir.join("mq").exists().then(|| dir.file_name()?.to_str().map(str::to_owned)).flatten()
}

/// Reads that have ended, by the kernel's counter.
fn reads_in(stat: &Path) -> u64 {
    let text = fs::read_to_string(stat).unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

/// One read at a time, so that the disk's interrupts find an idle processor: each that began has its end, and no fewer are there than the
/// disk's counter has.
fn every_end() -> Judged {
    const READS: u64 = 4000;
    let sandbox = Sandbox::new();
    let Some(disk) = disk_of(&sandbox.dir()) else {
        return Judged::Skipped("the scratch directory lies on no disk with a queue".to_owned());
    };
    let file = |name: &str| sandbox.dir().join(name);
    let (data, trace, before, after) = (file("data"), file("t"), file("before"), file("after"));
    let stat = format!("/sys/block/{disk}/stat");
    let made = format!("dd if=/dev/urandom of={} bs=1M count=16 conv=fsync status=none", p(&data));
    assert!(Command::new("sh").args(["-c", &made]).status().unwrap().success());
    let script = format!(
        "cat {stat} > {}; dd if={} of=/dev/null bs=4k count={READS} iflag=direct status=none; cat {stat} > {}; sleep 2",
        p(&before),
        p(&data),
        p(&after)
    );
    let words = ["capture", &disk, "-o", p(&trace), "--", "sh", "-c", &script];
    let done = sandbox.json(&words, &[0, 1]);
    done.has_not("capture-perf-rings");
    done.has_not("capture-lost-events");
    let capture = &done.result()["capture"];
    assert_eq!(capture["faults"]["lost"], 0, "{}", capture["faults"]);
    let events = events(&trace);
    let reads = || events.iter().filter(|event| event.class == Class::Read);
    let ends = || reads().filter(|event| event.action == Action::Complete);
    let mut begun = HashMap::new();
    for event in reads() {
        match event.action {
            Action::Issue => begun.insert(event.sector, event.time_ns),
            Action::Complete => begun.remove(&event.sector),
            _ => None,
        };
    }
    // Those of others may be in flight when it ends.
    let until_ns = events.last().unwrap().time_ns.saturating_sub(1_500_000_000);
    begun.retain(|_, begun_ns| *begun_ns < until_ns);
    let counted = reads_in(&after) - reads_in(&before);
    let (ended, idle) = (ends().count() as u64, ends().filter(|end| end.process == 0).count());
    println!("{ended} ended, {counted} counted, {idle} ends while idle, without one: {begun:?}");
    assert!(counted >= READS && ended >= counted, "{ended} {counted}");
    // Kernels lose an event in a million without a word.
    assert!(begun.len() <= 1, "{begun:?}");
    if idle == 0 {
        return Judged::Skipped("no processor was idle when a request ended".to_owned());
    }
    Judged::Passed
}

/// What happens on each processor is told as its own.
fn every_processor() {
    let sandbox = Sandbox::new();
    let device = Zram::new(32 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let mut all = BTreeSet::new();
    for range in online.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<u16>().unwrap()..=last.parse().unwrap());
    }
    let read =
        format!("dd if={} of=/dev/null bs=4k count=50 iflag=direct status=none", p(device.path()));
    let script: Vec<String> = all.iter().map(|cpu| format!("taskset -c {cpu} {read}")).collect();
    let words =
        ["capture", p(device.path()), "-o", p(&trace), "--", "sh", "-c", &script.join("; ")];
    let done = sandbox.json(&words, &[0, 1]);
    done.has_not("capture-perf-rings");
    let events = events(&trace);
    let seen: BTreeSet<u16> = events.iter().map(|event| event.cpu).collect();
    assert_eq!(seen, all);
    let arrived = events.iter().filter(|event| event.action == Action::Queue).count();
    assert!(arrived >= 50 * all.len(), "{arrived}");
    assert!(events.is_sorted_by_key(|event| event.time_ns));
}

/// Each has what its own device was asked for.
fn two_at_once() {
    let (sandbox, other, instances) = (Sandbox::new(), Sandbox::new(), Instances::new());
    let (first, second) = (LoopDevice::new(32 * MIB).unwrap(), Zram::new(32 * MIB).unwrap());
    let start = |sandbox: &Sandbox, device: &Path| {
        let trace = sandbox.dir().join("t");
        let words = ["--json", "capture", p(device), "--time=10m", "-o", p(&trace)];
        let child = sandbox.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let running = Running::of(child.unwrap());
        wait_until("it records", || instances.records(running.pid()));
        running
    };
    let (one, two) = (start(&sandbox, first.path()), start(&other, second.path()));
    let pids = [one.pid(), two.pid()];
    assert_eq!(pids.map(|pid| instances.of(pid).len()), [1, 1]);
    for (path, count) in [(first.path(), 300), (second.path(), 700)] {
        let read =
            format!("dd if={} of=/dev/null bs=4k count={count} iflag=direct status=none", p(path));
        assert!(Command::new("sh").args(["-c", &read]).status().unwrap().success());
    }
    for (running, reads) in [(one, 300), (two, 700)] {
        running.signal("TERM");
        let done = running.finish();
        let capture = &done.result()["capture"];
        let classes = capture["classes"].as_array().unwrap();
        let read = classes.iter().find(|class| class["class"] == "read").unwrap();
        // udev and the like may look at it.
        let count = read["count"].as_u64().unwrap();
        assert!((reads..reads + 200).contains(&count), "{count}: {capture}");
        assert_eq!(capture["faults"]["lost"], 0, "{capture}");
    }
    assert_eq!(pids.map(|pid| instances.of(pid).len()), [0, 0]);
}

/// A capture in a process group of its own, which records.
fn recording(sandbox: &Sandbox, instances: &Instances, device: &LoopDevice, trace: &Path) -> Kept {
    let words = ["--quiet", "capture", p(device.path()), "--time=10m", "-o", p(trace)];
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let kept = Kept(command.spawn().unwrap());
    wait_until("it records", || instances.records(kept.0.id()));
    kept
}

/// What others take out of it, or switch off in it, is missing: it is no good capture, and says why.
fn says_who_meddled() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let instances = Instances::new();
    let read = reads_of(&device, 500);
    let shell = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
    for (number, (script, cause)) in [
        ("true", None),
        ("timeout 1 cat $I/trace_pipe > /dev/null", Some("read events out of")),
        ("echo > $I/trace", Some("cleared")),
        ("echo 0 > $I/tracing_on", Some("switched")),
        ("echo 0 > $I/events/block/block_rq_complete/enable", Some("switched")),
        ("echo 0 > $I/events/block/block_rq_complete/filter", Some("changed its filters")),
        ("echo 1 > $I/set_event_pid", Some("changed its filters")),
    ]
    .into_iter()
    .enumerate()
    {
        let trace = sandbox.dir().join(number.to_string());
        let words = ["--json", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
        let mut command = sandbox.command(&words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = Running::of(command.spawn().unwrap());
        wait_until("it records", || instances.records(running.pid()));
        assert!(shell(&read).success());
        // What came is taken each tenth of a second.
        std::thread::sleep(Duration::from_millis(500));
        let [name] = &instances.of(running.pid())[..] else { panic!("no instance") };
        let dir = format!("/proc/{}/fd/{}/{name}", std::process::id(), instances.dir.as_raw_fd());
        let script = script.replace("$I", &dir);
        let more = format!("{read}; sleep 0.1; {read}; sleep 0.1; {read}");
        let load = Command::new("sh").args(["-c", &more]).spawn().unwrap();
        shell(&script);
        assert!(Kept(load).0.wait().unwrap().success());
        running.signal("TERM");
        let done = running.finish();
        let Some(cause) = cause else {
            done.has_not("capture-meddled");
            continue;
        };
        let found = done.finding("capture-meddled");
        assert_eq!(found["severity"], "doubtful", "{found}");
        assert!(found["summary"].to_string().contains(cause), "{found}");
        assert_ne!(done.result()["capture"]["faults"]["lost"], 0);
    }
}

/// What somebody has open cannot be removed: who that is, and what helps, is said, and nothing of a fathom that was killed.
fn says_what_stays() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let instances = Instances::new();
    let trace = sandbox.dir().join("t");
    let words = ["--json", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = Running::of(command.spawn().unwrap());
    let pid = running.pid();
    wait_until("it records", || instances.records(pid));
    let [name] = &instances.of(pid)[..] else { panic!("no instance") };
    let pipe = fs::File::open(instances.path(name).join("trace_pipe")).unwrap();
    // Nobody else has it open then.
    let mut reader = Kept(Command::new("sleep").arg("1000").stdin(pipe).spawn().unwrap());
    let user = format!("open in sleep (process {})", reader.0.id());
    wait_until("it is another program", || {
        fs::read_to_string(format!("/proc/{}/comm", reader.0.id())).is_ok_and(|n| n == "sleep\n")
    });
    running.signal("TERM");
    let done = running.finish();
    let found = done.finding("capture-instance-left");
    assert_eq!(found["severity"], "note", "{found}");
    let said = found.to_string();
    assert!([name, &user, "fathom restore"].iter().all(|part| said.contains(*part)), "{said}");
    assert_eq!(fs::read_to_string(instances.path(name).join("tracing_on")).unwrap().trim(), "0");
    let what = format!("trace instance {name} of fathom {pid}, which has ended");
    let still = sandbox.run(&["restore"]);
    assert_eq!(still.code, 5, "{still:?}");
    assert!(still.stderr.contains(&format!("still there: {what}; {user}: end that")), "{still:?}");
    reader.kill();
    let gone = sandbox.run(&["restore"]);
    // Others may be faster.
    assert!(gone.code == 0 && !gone.stderr.contains("still there"), "{gone:?}");
    assert_eq!(instances.of(pid), Vec::<String>::new());
}

/// The columns of an interval whose tracing was switched off are missing; the next has its own.
fn watches_on() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let instances = Instances::new();
    let words = ["watch", p(device.path()), "--latency", "--interval=200ms", "--plain"];
    let mut command = sandbox.command(&words);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let watch = Kept(command.spawn().unwrap());
    let pid = watch.0.id();
    let recording = || {
        let names = instances.of(pid);
        names.into_iter().find(|name| {
            let text = fs::read_to_string(instances.path(name).join("tracing_on"));
            text.is_ok_and(|text| text.trim() == "1")
        })
    };
    wait_until("it records", || recording().is_some());
    // A new one is on until it is prepared.
    std::thread::sleep(Duration::from_millis(500));
    let first = recording().unwrap();
    fs::write(instances.path(&first).join("tracing_on"), "0").unwrap();
    wait_until("another records", || recording().is_some_and(|name| name != first));
    wait_until("the first is gone", || instances.of(pid).len() == 1);
}

/// Killed, alone or with its group, or asked to end: in all cases nothing is left.
fn leaves_nothing() {
    let sandbox = Sandbox::new();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let instances = Instances::new();
    for (number, (signal, is_for_group)) in
        [("KILL", false), ("KILL", true), ("TERM", false), ("INT", true)].into_iter().enumerate()
    {
        let trace = sandbox.dir().join(number.to_string());
        let mut running = recording(&sandbox, &instances, &device, &trace);
        let pid = running.0.id();
        let read = reads_of(&device, 200);
        assert!(Command::new("sh").args(["-c", &read]).status().unwrap().success());
        let to = if is_for_group { format!("-{pid}") } else { pid.to_string() };
        let sent = Command::new("kill").args(["-s", signal, "--", &to]).status().unwrap();
        assert!(sent.success());
        let since = Instant::now();
        running.0.wait().unwrap();
        instances.are_gone(pid, since);
    }
}

/// The process that would remove it was killed, too: the next one does. Whatever is not its own, or of a fathom that lives, stays.
fn removes_those_of_the_dead() {
    let sandbox = Sandbox::new();
    sandbox.make_state();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let (root, instances) = (SysRoot::live(), Instances::new());
    let own = ProcessIdentity::current(&root).unwrap();
    let namespace: String = own.pid_namespace.chars().filter(char::is_ascii_digit).collect();
    let alive = format!("fathom-{}-{}-{namespace}-7", own.pid, own.start_time_ticks);
    let others = [alive, format!("fathom-of-others-{}", own.pid), format!("x{}", own.pid)];
    let others = others.map(|name| Foreign::new(&instances, name));
    // Others may be faster.
    let is_told = |attempt: usize, way: &str| {
        let trace = |name: &str| sandbox.dir().join(format!("{name}-{attempt}-{way}"));
        let mut killed = recording(&sandbox, &instances, &device, &trace("killed"));
        let pid = killed.0.id();
        let children = family::children(&root, pid);
        let [guardian] = children[..] else { panic!("{children:?}") };
        assert!(tracing::is_guardian(&root, guardian));
        let kill = Command::new("kill").args(["-KILL", &guardian.to_string()]).status();
        assert!(kill.unwrap().success());
        killed.kill();
        let name = instances.of(pid);
        let listed = sandbox.json(&["restore", "--list"], &[0]).result();
        let next = trace("next");
        let next = ["capture", p(device.path()), "--time=50ms", "-o", p(&next)];
        let words = if way == "capture" { &next[..] } else { &["restore"] };
        let lock = (way == "measured").then(|| MeasuringLock::acquire(&root).unwrap());
        let done = sandbox.run(words);
        drop(lock);
        assert_eq!(instances.of(pid), Vec::<String>::new());
        assert!(others.iter().all(Foreign::is_there));
        let [name] = &name[..] else { return false };
        let text = format!("trace instance {name} of fathom {pid}, which has ended");
        let is_told = listed["traces"].to_string().contains(&text)
            && done.stderr.contains(&format!("removed: {text}"));
        // Who measures is waited for only where something else is to be put back, or nothing was to be removed any more.
        assert!(done.code <= 1 || way == "measured" && !is_told, "{done:?}");
        is_told
    };
    for way in ["capture", "restore", "measured"] {
        let is_ever_told = (0..5).any(|attempt| is_told(attempt, way));
        assert!(is_ever_told, "{way}: what was removed was never named");
    }
}

/// In a container that was killed as a whole nobody was left to remove it: whoever sees that it has gone does.
fn removes_that_of_a_dead_container() {
    let sandbox = Sandbox::new();
    sandbox.make_state();
    let device = LoopDevice::new(16 * MIB).unwrap();
    let instances = Instances::new();
    let is_told = |attempt: usize| {
        let trace = sandbox.dir().join(attempt.to_string());
        let words = ["--quiet", "capture", p(device.path()), "--time=10m", "-o", p(&trace)];
        let fathom = sandbox.command(&words);
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.arg(fathom.get_program()).args(fathom.get_args());
        let variables = fathom.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(variables).stdout(Stdio::null()).stderr(Stdio::null());
        let mut killed = Kept(command.spawn().unwrap());
        wait_until("it records", || instances.records(1));
        killed.kill();
        // All of it ends a moment later.
        let mut said = String::new();
        wait_until("nothing is left", || {
            let done = sandbox.run(&["restore"]);
            // Where the machine is busy, what was killed has the instance open for a moment yet, and that is told.
            let is_dying = done.code == 5 && done.stderr.contains("which has ended; open in");
            assert!(done.code == 0 || is_dying, "{done:?}");
            said += &format!("{}{}", done.stderr, done.stdout);
            instances.of(1).is_empty()
        });
        assert_eq!(sandbox.run(&["restore"]).code, 0);
        let told = ["removed: trace instance fathom-1-", "Of trace instances", " 1 went."];
        told.iter().all(|words| said.contains(words))
    };
    assert!((0..5).any(is_told), "what was removed was never named");
}

/// Tracing files that may be read and not written: the other way is taken, and said.
fn without_instances() {
    let sandbox = Sandbox::new();
    let device = Zram::new(32 * MIB).unwrap();
    let trace = sandbox.dir().join("t");
    // Only this one sees them so.
    let script = "cd /sys/kernel/tracing; mountpoint -q . || mount -t tracefs none .
        mount -o remount,bind,ro /sys/kernel/tracing && cd / && exec \"$0\" \"$@\"";
    let read =
        format!("dd if={} of=/dev/null bs=4k count=500 iflag=direct status=none", p(device.path()));
    let words = [
        "--json",
        "--quiet",
        "capture",
        p(device.path()),
        "-o",
        p(&trace),
        "--",
        "sh",
        "-c",
        &read,
    ];
    let by = ["unshare", "--mount", "--", "sh", "-c", script];
    let child =
        sandbox.command_by(&by, &words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let done = Running::of(child.unwrap()).finish();
    assert!(done.code <= 1, "{done:?}");
    let found = done.finding("capture-perf-rings");
    assert!(
        found["severity"] == "note" && found["summary"].to_string().contains("Read-only"),
        "{found}"
    );
    let arrived = events(&trace).iter().filter(|event| event.action == Action::Queue).count();
    assert!(arrived >= 500, "{arrived}");
}
