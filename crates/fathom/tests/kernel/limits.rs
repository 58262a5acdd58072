//! What the system does not give: threads, descriptors, io_uring. Each ends with one clear line, or with the way around
//! it; nothing hangs and nothing is left behind.

use crate::cli::{Done, Sandbox, bytes, names, operations, p, run};
use fathom_testkit::Capability::{
    FathomBinary, FsOnLoop, IoUring, MemoryController, PidsController, Tool,
};
use fathom_testkit::command::tool;
use fathom_testkit::{ControlGroup, FsKind, Trial, fathom_binary, kernel_test, without_io_uring};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::filesystems::mounted;

pub fn trials() -> Vec<Trial> {
    let threads = [FathomBinary, Tool("setpriv"), Tool("prlimit"), FsOnLoop(FsKind::Ext4)];
    let group = [FathomBinary, PidsController, Tool("sh")];
    let memory = [FathomBinary, MemoryController, Tool("sh"), FsOnLoop(FsKind::Ext4)];
    let descriptors = [FathomBinary, Tool("prlimit"), IoUring];
    let forbidden = [FathomBinary, Tool("python3"), FsOnLoop(FsKind::Ext4)];
    vec![
        kernel_test("threads_run_out", &threads, threads_run_out),
        kernel_test("threads_run_out_in_a_control_group", &group, threads_run_out_in_a_group),
        kernel_test("memory_of_a_control_group", &memory, memory_of_a_group),
        kernel_test("descriptors_run_out", &descriptors, descriptors_run_out),
        kernel_test("sequential_without_io_uring", &forbidden, sequential_without_ring),
    ]
}

/// A user who has no processes, so that the limit counts those of the test alone; it does not hold for root.
const SOMEBODY: u32 = 54_321;

fn threads_run_out() {
    let sandbox = Sandbox::new();
    let home = sandbox.scratch.join("home");
    let dir = home.join("d");
    fs::create_dir_all(&dir).unwrap();
    for path in [&home, &dir] {
        chown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
    fs::set_permissions(sandbox.scratch.path(), Permissions::from_mode(0o755)).unwrap();
    // The build directory may be closed to others.
    let binary = sandbox.scratch.join("fathom");
    fs::copy(fathom_binary().unwrap(), &binary).unwrap();
    let limited = |limit: &str, args: &[&str]| -> Done {
        run(|| {
            let mut command = tool("setpriv");
            let user = SOMEBODY.to_string();
            command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "prlimit"]);
            command.arg(format!("--nproc={limit}")).arg(&binary);
            command.arg("--db").arg(home.join("fathom.db")).args(args);
            command
        })
    };
    let args = ["run", "randread", p(&dir), "size=8M", "operations=2000"];
    for engine in ["engine=io_uring", "engine=psync"] {
        let many = [&args[..], &[engine, "depth=1", "threads=200"]].concat();
        let done = limited("60", &many);
        let words = ["job 'read', thread ", "starting the thread: ", "ulimit -u", "fewer threads"];
        assert_eq!(done.code, 4, "{done:?}");
        let last = done.stderr.lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "'{word}' is not in {done:?}");
        }
        assert_eq!(names(&dir), Vec::<String>::new(), "test files");
        assert_eq!(names(&home.join("owned")), Vec::<String>::new(), "journal entries");
        // The control: as many as there may be.
        let few = [&args[..], &[engine, "depth=1", "threads=20", "--json", "--quiet"]].concat();
        let done = limited("60", &few);
        assert!([0, 1].contains(&done.code), "{done:?}");
        assert_eq!(operations(&done.records()[0]), 2000);
    }
}

fn in_group(sandbox: &Sandbox, group: &ControlGroup, args: &[&str]) -> Done {
    run(|| {
        let fathom = sandbox.command(args);
        let mut command = tool("sh");
        command.args(["-c", r#"echo $$ >"$0/cgroup.procs" && exec "$@""#]).arg(group.path());
        command.arg(fathom.get_program()).args(fathom.get_args());
        command
    })
}

/// What a container may have counts, not what the machine has: for buffers, and for what the page cache can hold.
fn memory_of_a_group() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let group = ControlGroup::of_memory(256 << 20).unwrap();
    let run_in = |args: &[&str]| in_group(&sandbox, &group, args);
    let read = ["run", "randread", p(fs.dir()), "size=64M", "duration=200ms", "--json", "--quiet"];
    // 80 MiB are less than a quarter of what any machine has that builds this, and more than one of 256 MiB.
    let large = [&read[..], &["block_size=1M", "depth=80"]].concat();
    let refused = run_in(&large);
    assert_eq!(refused.code, 2, "{refused:?}");
    let words =
        ["buffers need 80", "1 MiB x depth 80 x 1 threads", "the control group still allows"];
    for word in words {
        assert!(refused.stderr.contains(word), "'{word}' is not in {refused:?}");
    }
    let quick = run_in(&["quick", p(fs.dir()), "block_size=1M"]);
    assert_eq!(quick.code, 2, "{quick:?}");
    assert!(quick.stderr.contains("the control group still allows"), "{quick:?}");
    sandbox.nothing_left(&[fs.dir()]);
    // The control: the same outside, and less inside. Buffered, the page cache of the group counts.
    assert!([0, 1].contains(&sandbox.run(&large).code));
    let inside = run_in(&[&read[..], &["depth=4", "direct=no"]].concat());
    assert!([0, 1].contains(&inside.code), "{inside:?}");
    let target = &inside.records()[0]["targets"][0];
    assert_eq!(target["memory_bytes"].as_u64(), Some(256 << 20));
    let small = inside.finding("sample-too-small");
    let text = small["summary"].as_str().unwrap();
    assert!(text.contains("twice the memory (256 MiB)"), "{text}");
}

/// The limit of a container: root too gets no more threads. Each run is in a group of its own, since a run that has just ended
/// may still count.
fn threads_run_out_in_a_group() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let limited = |limit: u32, args: &[&str]| -> Done {
        in_group(&sandbox, &ControlGroup::of_threads(limit).unwrap(), args)
    };
    let args = ["run", "randread", p(&dir), "size=8M", "operations=2000"];
    for engine in ["engine=io_uring", "engine=psync"] {
        let done = limited(40, &[&args[..], &[engine, "depth=1", "threads=200"]].concat());
        let words = ["job 'read', thread ", "starting the thread: ", "pids.max", "fewer threads"];
        assert_eq!(done.code, 4, "{done:?}");
        let last = done.stderr.lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "'{word}' is not in {done:?}");
        }
        sandbox.nothing_left(&[]);
        // The control: as many as there may be.
        let few = [&args[..], &[engine, "depth=1", "threads=20", "--json", "--quiet"]].concat();
        let done = limited(40, &few);
        assert!([0, 1].contains(&done.code), "{done:?}");
        assert_eq!(operations(&done.records()[0]), 2000);
    }
    // Not even those that fathom itself needs.
    for limit in [1, 2, 3] {
        let done = limited(limit, &args);
        // What fails first depends on how many are left: the thread for signals, one of the lay-out, or one of the ring.
        assert!([0, 1, 4].contains(&done.code), "{limit}: {done:?}");
        for word in ["the limit of threads", "pids.max", "raise it"] {
            assert!(done.code < 2 || done.stderr.contains(word), "{limit}: {done:?}");
        }
        sandbox.nothing_left(&[]);
    }
    // One for signals, one that writes: none is left in which the ring could wait for the sync at the end of the lay-out.
    let few = limited(3, &args);
    assert!(few.code == 4 && few.stderr.contains("Operation canceled"), "{few:?}");
}

fn descriptors_run_out() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let limited = |limit: &str, args: &[&str]| -> Done {
        run(|| {
            let fathom = sandbox.command(args);
            let mut command = tool("prlimit");
            command.arg(format!("--nofile={limit}")).arg(fathom.get_program());
            command.args(fathom.get_args());
            command
        })
    };
    let args = ["run", "randread", p(&dir), "size=8M", "operations=2000", "depth=1", "threads=100"];
    let done = limited("64", &args);
    assert_eq!(done.code, 4, "{done:?}");
    let last = done.stderr.lines().last().unwrap();
    let words =
        ["thread ", "setting up the engine: Too many open files", "the limit is 64", "ulimit -n"];
    for word in words {
        assert!(last.contains(word), "'{word}' is not in {done:?}");
    }
    // The limit that is named is enough.
    let named = last.split_once("raise it to ").unwrap().1.split(' ').next().unwrap();
    let enough = limited(named, &args);
    assert!([0, 1].contains(&enough.code), "{named}: {enough:?}");
    sandbox.nothing_left(&[]);
    // The control: threads without rings need none.
    let psync = [&args[..], &["engine=psync", "--json", "--quiet"]].concat();
    let done = limited("64", &psync);
    assert!([0, 1].contains(&done.code), "{done:?}");
    assert_eq!(operations(&done.records()[0]), 2000);
    // So few that not even the store or the test file can be opened.
    for limit in ["4", "5", "6", "7", "9", "12", "16", "31"] {
        let done = limited(limit, &args);
        let words =
            [&format!("the limit of open files is {limit},"), "takes 32 at least", "ulimit -n"];
        done.is_refusal(4, &words);
        sandbox.nothing_left(&[]);
    }
}

fn sequential_without_ring() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = fs.dir().join("new");
    let forbidden = |args: &[&str]| -> Done {
        let done = run(|| without_io_uring(&sandbox.command(args)));
        assert!([0, 1].contains(&done.code), "{done:?}");
        let engine = &done.records()[0]["jobs"][0]["engine"];
        assert_eq!((&engine["kind"], engine["threads"].as_u64()), (&"psync".into(), Some(1)));
        assert_eq!(engine["depth"].as_u64(), Some(1));
        assert!(engine["fallback"].as_str().unwrap().contains("other streams"), "{engine}");
        assert_eq!(bytes(&done.records()[0]), 16 << 20);
        done
    };
    let args = ["--json", "--quiet", "run"];
    let amount = ["size=16M", "amount=16M", "depth=8"];
    let write = [&args[..], &["seqwrite", p(&file), "--keep"], &amount].concat();
    forbidden(&write).has_not("unwritten-extents");
    let facts = fs::metadata(&file).unwrap();
    assert_eq!((facts.len(), facts.blocks() * 512 >= 16 << 20), (16 << 20, true));
    let content = fs::read(&file).unwrap();
    assert!(content.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)), "no holes");
    // A test file that is laid out by the same way around.
    let read = [&args[..], &["seqread", p(fs.dir())], &amount].concat();
    let done = forbidden(&read);
    done.has_not("unwritten-extents");
    assert_eq!(done.finding("engine-fallback")["severity"], "doubtful");
    let extents = &done.records()[0]["targets"][0]["extents"];
    assert_eq!((&extents["hole_bytes"], &extents["unwritten_bytes"]), (&0.into(), &0.into()));
}
