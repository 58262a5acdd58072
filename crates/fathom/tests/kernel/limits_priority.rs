//! I/O priority, nice value and NUMA node: in effect while it runs, as other tools see it; recorded; and a run in the
//! realtime I/O class that can be stopped.

use crate::cli::{Done, Running, Sandbox, as_nobody, binary_for_nobody, p, run};
use fathom_testkit::Capability::{FathomBinary, LoopDevices, Realtime, Root, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::loopdev::{Content, LoopOptions};
use fathom_testkit::{LoopDevice, Trial, kernel_test};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    let peers = [FathomBinary, Tool("ionice"), Tool("chrt"), Tool("kill")];
    vec![
        kernel_test("priorities_are_in_effect", &peers, in_effect),
        kernel_test(
            "a_realtime_run_can_be_stopped",
            &[&[Root, Realtime], &peers[..]].concat(),
            realtime_is_stopped,
        ),
        kernel_test(
            "an_inherited_realtime_class_is_controlled_too",
            &[&[Root, Realtime], &peers[..]].concat(),
            inherited,
        ),
        kernel_test("inert_priorities_are_noted", &[FathomBinary, LoopDevices], inert),
        kernel_test(
            "priorities_need_rights",
            &[Root, FathomBinary, Tool("setpriv")],
            without_rights,
        ),
        kernel_test("limits_that_cannot_be", &[FathomBinary], what_cannot_be),
    ]
}

/// What util-linux says of each thread of a process, by the thread's name: I/O class, scheduling policy, nice value.
fn threads(pid: u32) -> BTreeMap<String, (String, String, i64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut seen = BTreeMap::new();
    for task in tasks.map(|task| task.unwrap().path()) {
        let number = task.file_name().unwrap().to_str().unwrap().to_owned();
        let comm = fs::read_to_string(task.join("comm"));
        let tools = (run_tool("ionice", ["-p", &number]), run_tool("chrt", ["-p", &number]));
        // Threads come and go.
        let (Ok(name), (Ok(class), Ok(policy)), Ok(stat)) =
            (comm, tools, fs::read_to_string(task.join("stat")))
        else {
            assert!(!task.exists(), "{}", task.display());
            continue;
        };
        let name = name.trim().to_owned();
        let policy = policy.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
        // After the name in brackets, the nice value is the 17th field.
        let nice = stat.rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap();
        seen.insert(name, (class, policy, nice));
    }
    seen
}

/// The realtime priority that each thread has on the CPU, by its name; 0 for none.
fn on_the_cpu(pid: u32) -> BTreeMap<String, i64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |task: std::path::PathBuf| {
        let name = fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        Some((name, stat.rsplit_once(") ")?.1.split(' ').nth(37)?.parse().ok()?))
    };
    tasks.filter_map(|task| of(task.unwrap().path())).collect()
}

fn in_effect() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let args = ["run", "randread", p(&dir), "size=8M", "duration=10m", "threads=2", "depth=4"];
    let limits = ["io_priority=be/6", "nice=5", "numa_node=0"];
    // The tests themselves may run with a low priority.
    let (_, own_policy, own_nice) = threads(std::process::id()).into_values().next().unwrap();
    let running = sandbox.start(&[&args[..], &limits].concat(), "progress", 1);
    let seen = threads(running.pid());
    let maps = fs::read_to_string(format!("/proc/{}/numa_maps", running.pid())).unwrap();
    running.signal("INT");
    let done = running.finish();
    for worker in ["io-read-0", "io-read-1"] {
        let (class, policy, nice) = &seen[worker];
        assert_eq!((class.as_str(), *nice), ("best-effort: prio 6", 5), "{seen:?}");
        assert_eq!(policy, &own_policy, "{seen:?}");
    }
    // The threads that measure nothing are as they were.
    assert_eq!((seen["signals"].2, &seen["signals"].1), (own_nice, &own_policy), "{seen:?}");
    assert!(maps.lines().any(|line| line.contains("N0=")), "{maps}");
    let limits = &done.records()[0]["jobs"][0]["limits"];
    assert_eq!(limits["io_priority"]["best_effort"], 6, "{limits}");
    assert_eq!((&limits["nice"], &limits["numa_node"]), (&5.into(), &0.into()));
    // Without asking, what was inherited is recorded.
    let done = sandbox.json(&[&args[..4], &["operations=100"]].concat(), &[0, 1]);
    let limits = &done.records()[0]["jobs"][0]["limits"];
    assert_eq!((&limits["io_priority"], &limits["nice"]), (&"inherit".into(), &own_nice.into()));
}

/// A loop device with that scheduler; none where the kernel does not have it.
fn with_scheduler(scheduler: &str) -> Option<LoopDevice> {
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(256 << 20, Content::Zeros, &options).unwrap();
    let file = format!("/sys/block/{}/queue/scheduler", device.name());
    let known = fs::read_to_string(&file).unwrap();
    let has = known.split_whitespace().any(|word| word.trim_matches(['[', ']']) == scheduler);
    has.then(|| fs::write(&file, scheduler).unwrap())?;
    Some(device)
}

/// Some tenths of a second are usual; a busy machine with a slow disk has taken 7.2 s. The run that is stopped would last
/// ten times as long as this.
const LONGEST: Duration = Duration::from_secs(60);

/// As many requests as the device can hold are in flight in the realtime class, on more threads than processors. The
/// threads that end the run are before them in both queues; what is in flight needs some hundredths of a second.
fn realtime_is_stopped() {
    let mut schedulers = 0;
    for scheduler in ["bfq", "mq-deadline"] {
        let Some(device) = with_scheduler(scheduler) else { continue };
        schedulers += 1;
        let sandbox = Sandbox::new();
        let load = ["run", "randread", p(device.path()), "io_priority=rt/4", "block_size=16k"];
        let load = [&load[..], &["threads=32", "depth=4", "nice=-20"]].concat();
        let running = sandbox.start(&[&load[..], &["duration=10m"]].concat(), "progress", 2);
        let seen = threads(running.pid());
        let begun = Instant::now();
        running.signal("INT");
        let done = running.finish();
        let took = begun.elapsed();
        assert_eq!(done.code, 130, "{done:?}");
        assert!(took < LONGEST, "{scheduler}: stopped after {took:?}");
        let workers = seen.iter().filter(|(name, _)| name.starts_with("io-read-"));
        let workers: Vec<_> = workers.map(|(_, ranks)| ranks.clone()).collect();
        let rank = ("realtime: prio 4".to_owned(), "SCHED_OTHER".to_owned(), -20);
        assert_eq!(workers, vec![rank.clone(); 32], "{seen:?}");
        for name in ["fathom", "signals"] {
            let (class, policy, _) = &seen[name];
            assert_eq!(class, "realtime: prio 0", "{seen:?}");
            assert!(policy.starts_with("SCHED_FIFO"), "{seen:?}");
        }
        // Threads of the kernel that issue what io_uring could not do at once are ranked as their workers.
        let others = seen.iter().filter(|(name, _)| name.starts_with("iou-"));
        assert!(others.clone().all(|(_, ranks)| *ranks == rank), "{seen:?}");

        let done = sandbox.json(&[&load[..], &["duration=2s"]].concat(), &[0, 1]);
        let record = &done.records()[0];
        let late_ns = record["window_ns"].as_u64().unwrap() - 2_000_000_000;
        let longest_ns = LONGEST.as_nanos() as u64;
        assert!(late_ns < longest_ns, "{scheduler}: ended {late_ns} ns late");
        assert_eq!(record["jobs"][0]["limits"]["io_priority"]["realtime"], 4);
        done.has_not("io-priority-inert");
    }
    assert!(schedulers > 0, "neither bfq nor mq-deadline: nothing was tested");
}

/// Started by `ionice` or `chrt`, the workers have what they did not ask for; whoever stops the run is above them all the same.
fn inherited() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let load = ["run", "randread", p(&dir), "size=8M", "duration=10m", "threads=2"];
    let worker = "io-read-0";
    for (by, cpu, more) in [
        (&["ionice", "-c1", "-n4"][..], 0, &[][..]),
        (&["chrt", "-f", "50"], 50, &[]),
        (&["chrt", "-f", "50"], 50, &["io_priority=be/4"]),
    ] {
        let mut command = sandbox.command_by(by, &[&["--json"], &load[..], more].concat());
        let running = Running::start(&mut command, "progress", 1);
        let (seen, ranks) = (threads(running.pid()), on_the_cpu(running.pid()));
        running.signal("INT");
        let done = running.finish();
        assert_eq!(done.code, 130, "{done:?}");
        assert_eq!(ranks[worker], cpu, "{by:?}: {ranks:?}");
        if cpu == 0 {
            assert_eq!(seen[worker].0, "realtime: prio 4", "{seen:?}");
            let shown = sandbox.run(&["show", &done.id()]).stdout;
            assert!(shown.contains("I/O priority rt/4, as fathom was started"), "{shown}");
        }
        for name in ["fathom", "signals"] {
            assert_eq!(seen[name].0, "realtime: prio 0", "{by:?}: {seen:?}");
            assert!(seen[name].1.starts_with("SCHED_FIFO"), "{by:?}: {seen:?}");
            assert!(ranks[name] > cpu, "{by:?}: {ranks:?}");
        }
    }
    for (by, words) in [
        (
            &["ionice", "-c1", "-n0"][..],
            ["was started in (ionice)", "level 0", "use io_priority=be/0"],
        ),
        (&["chrt", "-f", "99"], ["was started with (chrt)", "SCHED_FIFO", "start it without chrt"]),
    ] {
        let done = run(|| sandbox.command_by(by, &load));
        done.is_refusal(4, &[&words[..], &["job 'read'"]].concat());
    }
    // As many threads as it takes to have every processor all the time: the run ends long before its time.
    let busy = ["--json", "run", "randread", "null:", "threads=8", "depth=1", "duration=10m"];
    for priority in ["io_priority=be/4", "io_priority=inherit"] {
        let args = [&busy[..], &[priority]].concat();
        let running =
            Running::start(&mut sandbox.command_by(&["chrt", "-f", "50"], &args), "progress", 1);
        let begun = Instant::now();
        running.signal("INT");
        let done = running.finish();
        assert_eq!(done.code, 130, "{priority}: {done:?}");
        assert!(begun.elapsed() < LONGEST, "{priority}: stopped after {:?}", begun.elapsed());
    }
}

fn inert() {
    let sandbox = Sandbox::new();
    let measure = |scheduler: &str, priority: &str| -> Option<Done> {
        let device = with_scheduler(scheduler)?;
        let args = ["run", "randread", p(device.path()), "operations=200", priority];
        Some(sandbox.json(&args, &[0, 1]))
    };
    // Every kernel has it, and under the device lies another one with a scheduler that is not asked.
    let done = measure("none", "io_priority=idle").unwrap();
    let finding = done.findings().contains(&"io-priority-inert".to_owned());
    let disk = done.records()[0]["targets"][0]["stack"].to_string();
    let has_other = ["\"scheduler\":\"bfq\"", "\"scheduler\":\"mq-deadline\""];
    assert_eq!(finding, !has_other.iter().any(|word| disk.contains(word)), "{disk}");
    if let Some(done) = measure("mq-deadline", "io_priority=be/0") {
        let text = done.finding("io-priority-level")["summary"].to_string();
        assert!(text.contains("io_priority=be/0 has no effect with scheduler mq-deadline"));
    }
    if let Some(done) = measure("bfq", "io_priority=be/0") {
        done.has_not("io-priority-level");
        done.has_not("io-priority-inert");
    }
}

fn without_rights() {
    let sandbox = Sandbox::new();
    let binary = binary_for_nobody(&sandbox.scratch);
    let home = sandbox.scratch.join("home");
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let as_user = |more: &[&str]| -> Done {
        run(|| {
            let mut command = as_nobody(&binary);
            command.arg("--db").arg(home.join("db")).args(["--json", "--quiet", "run", "randread"]);
            command.arg(&home).args(["size=4M", "operations=100"]).args(more);
            command
        })
    };
    for (setting, words) in [
        ("io_priority=rt/4", ["io_priority=rt/4: Operation not permitted", "CAP_SYS_NICE"]),
        ("nice=-5", ["nice=-5: Permission denied", "ulimit -e"]),
    ] {
        let done = as_user(&[setting]);
        assert_eq!(done.code, 4, "{done:?}");
        for word in words {
            assert!(done.stderr.contains(word), "'{word}' is not in {done:?}");
        }
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    // What anybody may.
    let done = as_user(&["io_priority=idle", "nice=19"]);
    assert!([0, 1].contains(&done.code), "{done:?}");
    let limits = &done.records()[0]["jobs"][0]["limits"];
    assert_eq!((&limits["io_priority"], &limits["nice"]), (&"idle".into(), &19.into()));
}

fn what_cannot_be() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let run = ["--quiet", "run", "randread", p(&dir), "size=4M", "operations=100"];
    let refused = |setting: &str, code: i32, words: &[&str]| {
        sandbox.refuses(&[&run[..], &[setting]].concat(), code, words);
    };
    refused(
        "numa_node=1000",
        4,
        &["numa_node=1000: there is no such node", "this machine has node 0 only"],
    );
    refused("numa_node=1024", 2, &["numa_node=1024", "between 0 and 1023"]);
    refused("nice=-21", 2, &["nice=-21", "between -20 and 19"]);
    refused("io_priority=rt/0", 2, &["io_priority=rt/0", "use rt/1 to rt/7"]);
    refused("cgroup_weight=0", 2, &["cgroup_weight=0", "between 1 and 10000"]);
    refused("cgroup_max=read_byte:1M", 2, &["did you mean 'read_bytes'"]);
    let file = sandbox.scratch.join("two.toml");
    let job = |name: &str| format!("[[job]]\nname = \"{name}\"\noperations = 10\n");
    let head = "name = \"two\"\ntitle = \"t\"\ndescription = \"d\"\n";
    fs::write(&file, format!("{head}{}{}", job("a"), job("b"))).unwrap();
    let run = ["--quiet", "run", p(&file), p(&dir), "size=4M", "b.cgroup_weight=50"];
    let shared = [&run[..], &["access=sequential", "cursor=workload"]].concat();
    let words =
        ["job 'a'", "cgroup_weight differs from that of job 'b'", "cursor=workload needs all jobs"];
    sandbox.refuses(&shared, 2, &words);
}
