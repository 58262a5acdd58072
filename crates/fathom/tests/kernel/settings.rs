//! Each setting on its own: with it, and not without it, the kernel is asked for something else. What it then does to places
//! and figures is tested where these are.

use crate::classics_peers::traced_calls;
use crate::cli::{Done, Sandbox, as_nobody, binary_for_nobody, bytes, operations, p, run};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, IoUring, Root, Tool};
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, Trial, counted, kernel_test};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::chown;

pub fn trials() -> Vec<Trial> {
    // Without io_uring, plain calls write the test file as well.
    let traced = [FathomBinary, IoUring, Tool("strace")];
    vec![
        kernel_test("settings_of_requests_reach_the_kernel", &traced, of_requests),
        kernel_test("settings_of_engines_reach_the_kernel", &traced, of_engines),
        kernel_test(
            "a_dropped_cache_is_read_from_the_device",
            &[FathomBinary, FsOnLoop(FsKind::Ext4)],
            dropped_cache,
        ),
        kernel_test("threads_stay_on_their_cpus", &[FathomBinary], bound_to_cpus),
        kernel_test(
            "registered_is_an_error_where_it_cannot_be",
            &[Root, FathomBinary, IoUring, Tool("setpriv"), Tool("prlimit")],
            registered,
        ),
        kernel_test("what_comes_first_ends_it", &[FathomBinary], what_comes_first),
    ]
}

/// Settings that both runs have, the one that is tested, the calls that are looked at, and what is to be seen of it.
type Case = (&'static [&'static str], &'static str, &'static str, fn(&Calls) -> bool);

/// The calls of a run, in their order: the thread that made it comes first in each line.
struct Calls(Vec<String>);

impl Calls {
    /// Those of this name that the threads of the job made on fathom's own test files.
    fn own<'c>(&'c self, call: &str) -> Vec<&'c str> {
        let (call, first) = (format!("{call}("), self.thread(0));
        let own = self.0.iter().filter(|line| line.contains(&call) && line.contains("/.fathom-"));
        own.map(String::as_str).filter(|line| line.split(' ').next() != first).collect()
    }

    fn thread(&self, line: usize) -> Option<&str> {
        self.0.get(line)?.split(' ').next()
    }

    /// Size and offset of each pread64 or pwrite64 of a test file.
    fn places(&self, call: &str) -> Vec<(u64, u64)> {
        let place = |line: &&str| {
            let mut last = line.rsplit_once(')')?.0.rsplit(", ");
            let mut number = || last.next()?.parse::<u64>().ok();
            let offset = number()?;
            Some((number()?, offset))
        };
        self.own(call).iter().filter_map(place).collect()
    }

    /// True when there are such requests, and all of them are so.
    fn all(&self, call: &str, is_so: impl Fn(u64, u64) -> bool) -> bool {
        let places = self.places(call);
        !places.is_empty() && places.iter().all(|(size, offset)| is_so(*size, *offset))
    }

    /// How the file of the first request is open.
    fn flags(&self) -> &str {
        let request = [self.own("pread64"), self.own("pwrite64")].concat()[0];
        let number = request.split_once('(').unwrap().1.split('<').next().unwrap();
        let asked = format!("fcntl({number}<");
        let before = self.0.iter().take_while(|line| *line != request);
        before.filter(|line| line.contains(&asked) && line.contains("F_GETFL)")).last().unwrap()
    }

    /// Syncs of test files: of all data, of data only.
    fn syncs(&self) -> (usize, usize) {
        (self.own("fsync").len(), self.own("fdatasync").len())
    }

    /// Argument `nth` of all calls of a name.
    fn argument(&self, call: &str, nth: usize) -> Vec<u64> {
        let call = format!("{call}(");
        let rests = self.0.iter().filter_map(|line| line.split_once(&call));
        let numbers = rests.map(|(_, rest)| rest.split(", ").nth(nth)?.parse().ok());
        numbers.flatten().collect()
    }

    /// Everything of the thread that made the last call of a name: not of those that wrote the test file before.
    fn of_last(&self, call: &str) -> Vec<&str> {
        let call = format!("{call}(");
        let last = self.0.iter().rposition(|line| line.contains(&call)).unwrap();
        let is_same = |line: &&String| line.split(' ').next() == self.thread(last);
        self.0.iter().filter(is_same).map(String::as_str).collect()
    }

    fn says(&self, words: &str) -> bool {
        self.0.iter().any(|line| line.contains(words))
    }
}

fn check(cases: &[Case]) {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let trace = sandbox.scratch.join("trace");
    let traced = |settings: &[&str], calls: &str| {
        let args = ["--quiet", "run", "randread", p(&dir), "size=1M", "operations=40"];
        let command = sandbox.command(&[&args[..], settings].concat());
        // The first call tells the first thread, which prepares and probes.
        let (seen, _) = traced_calls(&command, &format!("execve,{calls}"), &trace);
        Calls(seen.lines().map(str::to_owned).collect())
    };
    let mut without = BTreeMap::new();
    for (base, setting, calls, is_seen) in cases {
        let (key, _) = setting.split_once('=').unwrap();
        let others = base.iter().copied().filter(|other| other.split('=').next() != Some(key));
        let with = traced(&others.chain([*setting]).collect::<Vec<_>>(), calls);
        let without = without.entry((base, calls)).or_insert_with(|| traced(base, calls));
        assert!(!is_seen(without), "seen without {setting} {base:?}: {:#?}", without.0);
        assert!(is_seen(&with), "{setting} {base:?} does nothing: {:#?}", with.0);
    }
    counted("settings seen in system calls", cases.len());
}

const READ: &[&str] = &["engine=psync", "depth=1"];
const BUFFERED: &[&str] = &["engine=psync", "depth=1", "direct=no"];
const WRITE: &[&str] = &["engine=psync", "depth=1", "write_fraction=1"];
const SYNCED: &[&str] = &["engine=psync", "depth=1", "write_fraction=1", "fsync_every=4"];
const MIXED: &[&str] = &["engine=psync", "depth=1", "write_fraction=0.5"];
const TRIMMED: &[&str] = &["engine=psync", "depth=1", "trim_fraction=0.5"];
const LOGGED: &[&str] =
    &["engine=psync", "depth=1", "access=replication", "write_fraction=0.5", "direct=no"];

const OPENED: &str = "fcntl,pread64,pwrite64";
const MOVED: &str = "pread64,pwrite64";
const SYNC: &str = "fsync,fdatasync,pwrite64";

fn of_requests() {
    const HALF: u64 = 512 << 10;
    check(&[
        (READ, "direct=no", OPENED, |c| !c.flags().contains("O_DIRECT")),
        (WRITE, "open_sync=dsync", OPENED, |c| c.flags().contains("O_DSYNC")),
        (WRITE, "open_sync=sync", OPENED, |c| c.flags().contains("O_SYNC")),
        (READ, "block_size=16k", MOVED, |c| c.all("pread64", |size, _| size == 16 << 10)),
        (MIXED, "write_block_size=8k", MOVED, |c| {
            c.all("pwrite64", |size, _| size == 8192) && c.all("pread64", |size, _| size == 4096)
        }),
        (READ, "write_fraction=1", MOVED, |c| c.own("pwrite64").len() == 40),
        (READ, "write_back_fraction=100%", MOVED, |c| c.own("pwrite64").len() == 40),
        (LOGGED, "log_block_size=512", MOVED, |c| c.places("pwrite64").iter().any(|w| w.0 == 512)),
        (BUFFERED, "align=512", MOVED, |c| c.places("pread64").iter().any(|r| r.1 % 4096 != 0)),
        (READ, "offset=50%", MOVED, |c| c.all("pread64", |_, offset| offset >= HALF)),
        (READ, "span=50%", MOVED, |c| c.all("pread64", |_, offset| offset < HALF)),
        (READ, "files=5", MOVED, |c| {
            let file =
                |line: &str| line.split_once('<').unwrap().1.split('>').next().map(str::to_owned);
            c.own("pread64").into_iter().map(file).collect::<BTreeSet<_>>().len() == 5
        }),
        (READ, "threads=3", MOVED, |c| {
            let thread = |line: &str| line.split(' ').next().map(str::to_owned);
            c.own("pread64").into_iter().map(thread).collect::<BTreeSet<_>>().len() == 3
        }),
        (READ, "trim_fraction=1", "fallocate", |c| {
            c.own("fallocate").iter().filter(|line| line.contains("PUNCH_HOLE")).count() == 40
        }),
        (READ, "zero_fraction=1", "fallocate", |c| {
            c.own("fallocate").iter().filter(|line| line.contains("ZERO_RANGE")).count() == 40
        }),
        (TRIMMED, "trim_block_size=64k", "fallocate", |c| {
            let trims = c.own("fallocate").into_iter().filter(|line| line.contains("PUNCH_HOLE"));
            trims.clone().count() > 0 && trims.into_iter().all(|line| line.contains(", 65536)"))
        }),
        (WRITE, "fsync_every=8", SYNC, |c| c.syncs() == (5, 0)),
        (WRITE, "fsync_fraction=50%", SYNC, |c| (5..36).contains(&c.syncs().0)),
        (WRITE, "sync_all_every=10", SYNC, |c| c.syncs() == (4, 0)),
        (SYNCED, "sync_call=fdatasync", SYNC, |c| c.syncs() == (0, 10)),
        (WRITE, "sync_at_end=fsync", SYNC, |c| c.syncs() == (1, 0)),
        (WRITE, "sync_at_end=fdatasync", SYNC, |c| c.syncs() == (0, 1)),
    ]);
}

fn of_engines() {
    const ENTER: &str = "io_uring_enter";
    check(&[
        (&["depth=1"], "engine=libaio", "io_submit", |c| c.says("io_submit(")),
        (&["depth=1"], "engine=psync", "pread64", |c| c.own("pread64").len() == 40),
        (&["depth=1", "direct=no"], "engine=mmap", "mmap", |c| !c.own("mmap").is_empty()),
        (&["engine=psync", "depth=1"], "engine=io_uring", ENTER, |c| {
            c.argument(ENTER, 1).len() >= 40
        }),
        (&["engine=libaio", "depth=1"], "depth=16", "io_submit", |c| {
            c.argument("io_submit", 1).iter().max() == Some(&16)
        }),
        (&["engine=libaio", "depth=16"], "batch_submit=4", "io_submit", |c| {
            c.argument("io_submit", 1).iter().max() == Some(&4)
        }),
        (&["depth=1"], "depth=16", ENTER, |c| c.argument(ENTER, 1).iter().max() == Some(&16)),
        (&["depth=16"], "batch_submit=4", ENTER, |c| c.argument(ENTER, 1).iter().max() == Some(&4)),
        (&["depth=16"], "batch=8", ENTER, |c| c.argument(ENTER, 2).iter().max() == Some(&8)),
        (&["depth=16"], "registered=no", "io_uring_enter,io_uring_register", |c| {
            !c.of_last(ENTER).iter().any(|line| line.contains("IORING_REGISTER_"))
        }),
        (&["depth=16"], "sqpoll=yes", "io_uring_setup", |c| c.says("IORING_SETUP_SQPOLL")),
    ]);
}

/// What was just written lies in the page cache: read from there, or from the device once it is dropped.
fn dropped_cache() {
    const SIZE: u64 = 16 << 20;
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let name = fs.device().name();
    let from_device = |more: &[&str]| {
        let args = ["run", "iozone", p(fs.dir()), "size=16M", "--phase=write,read"];
        let record = sandbox.json(&[&args[..], more].concat(), &[0, 1]).records().swap_remove(1);
        assert_eq!((record["label"].as_str(), bytes(&record)), (Some("iozone, read"), SIZE));
        let devices = record["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == name).unwrap();
        own["read_bytes"].as_u64().unwrap()
    };
    for more in [&[][..], &["drop_cache=yes"]] {
        let read = from_device(more);
        assert!(read >= SIZE, "{more:?}: {read} bytes");
    }
    let read = from_device(&["drop_cache=no"]);
    assert!(read < SIZE / 16, "{read} bytes");
}

/// The CPUs that each worker may use, as the kernel tells them while it runs.
fn bound_to_cpus() {
    let sandbox = Sandbox::new();
    let args = ["run", "randread", "null:", "threads=2", "depth=1", "duration=10m", "rate=100"];
    let line = |text: &str, key: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(key));
        found.unwrap_or_default().trim().to_owned()
    };
    let allowed = |more: &[&str]| {
        let running = sandbox.start(&[&args[..], more].concat(), "progress", 1);
        let tasks = fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap();
        let status = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("status")));
        let workers = status.flatten().filter(|text| line(text, "Name:").starts_with("io-read-"));
        let seen: Vec<String> = workers.map(|text| line(&text, "Cpus_allowed_list:")).collect();
        running.signal("INT");
        running.finish();
        seen
    };
    assert_eq!(allowed(&["cpus=0"]), ["0", "0"]);
    let own = line(&fs::read_to_string("/proc/self/status").unwrap(), "Cpus_allowed_list:");
    assert_eq!(allowed(&[]), [own.as_str(); 2]);
}

/// Buffers of 2 MiB where 1 MiB may be locked: an error where they must be registered, and left out where they need not.
fn registered() {
    const NOBODY: u32 = 65_534;
    let sandbox = Sandbox::new();
    let binary = binary_for_nobody(&sandbox.scratch);
    let home = sandbox.scratch.join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    let limited = |more: &[&str]| {
        run(|| {
            let as_user = as_nobody(&binary);
            let mut command = tool("prlimit");
            command.arg("--memlock=1048576:1048576").arg(as_user.get_program());
            command.args(as_user.get_args()).arg("--db").arg(home.join("db"));
            command.args(["--json", "--quiet", "run", "randread"]).arg(&home);
            command.args(["size=8M", "direct=no", "block_size=64k", "depth=32", "operations=100"]);
            command.args(more);
            command
        })
    };
    let refused = limited(&["registered=yes"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    for word in ["ulimit -l", "smaller depth", "leave out registered=yes"] {
        assert!(refused.stderr.contains(word), "'{word}' is not in {refused:?}");
    }
    for more in [&["registered=no"][..], &[]] {
        let done = limited(more);
        assert!([0, 1].contains(&done.code), "{done:?}");
        let engine = &done.records()[0]["jobs"][0]["engine"];
        let has = |word: &str| engine["features"].as_array().unwrap().contains(&word.into());
        assert_eq!(engine["kind"], "io_uring", "{engine}");
        assert!(!has("registered_buffers"), "{engine}");
        assert_eq!(has("registered_file"), more.is_empty(), "{engine}");
    }
}

fn shown(sandbox: &Sandbox, done: &Done) -> String {
    sandbox.run(&["show", &done.id()]).stdout
}

/// A duration on the command line leaves a file's own number of requests in force, and that is said, before and after.
fn what_comes_first() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let file = sandbox.scratch.join("own.toml");
    fs::write(&file, "name = 'own'\n[[job]]\nsize = '1M'\noperations = 100\n").unwrap();
    let args = ["run", p(&file), p(&dir)];
    let done = sandbox.json(&[&args[..], &["duration=5m"]].concat(), &[0, 1]);
    assert_eq!(operations(&done.records()[0]), 100);
    let said = sandbox.run(&[&args[..], &["duration=5m"]].concat());
    let words = "for 5 min 00 s or 100 requests, whichever comes first";
    assert!(said.stderr.contains(words), "{said:?}");
    let text = shown(&sandbox, &done);
    assert!(text.contains("of 300.0 s: operations=100 came first\n"), "{text}");
    let alone = sandbox.json(&args, &[0, 1]);
    assert!(!shown(&sandbox, &alone).contains("ended early"));
    // Nothing is done on null:, by no engine of the kernel's.
    let null = sandbox.run(&["run", "randread", "null:", "operations=10"]);
    assert!(null.stderr.contains(", null, for 1 min 00 s or 10 requests"), "{null:?}");
}
