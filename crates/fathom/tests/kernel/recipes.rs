//! Ready applications: what they print, what they are refused, and that nothing of them stays, also when fathom is killed.

use crate::cli::{Done, Kept, MIB, Sandbox, names, p, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan, trials_of};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::{FsKind, MountedFs, Trial, fathom_binary, kernel_test};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

pub fn trials() -> Vec<Trial> {
    let ext4 = FsOnLoop(FsKind::Ext4);
    let postgres = [FathomBinary, ext4, Tool("pgbench"), Tool("setpriv"), Tool("pgrep")];
    let mariadb = [FathomBinary, ext4, Tool("mariadbd"), Tool("setpriv"), Tool("pgrep")];
    let build = [FathomBinary, ext4, Tool("make"), Tool("cc")];
    vec![
        kernel_test("recipe_killed_leaves_nothing", &postgres, killed),
        kernel_test("recipe_interrupted_leaves_nothing", &postgres, interrupted),
        kernel_test("recipe_has_its_own_environment", &postgres, environment),
        kernel_test("recipe_refused", &[FathomBinary, ext4, Tool("psql")], refused),
        kernel_test("recipe_vacuum_full", &postgres, vacuum_full),
        kernel_test("recipe_optimize_table", &mariadb, optimize_table),
        kernel_test("recipe_build_tree", &build, build_tree),
        kernel_test("recipe_in_a_lab", &postgres, in_a_lab),
    ]
}

/// A server that works in a directory runs.
fn has_server(dir: &Path) -> bool {
    let word = format!("([p]ostgres|[m]ariadbd).*{}", p(dir));
    Command::new("pgrep").args(["-f", &word]).output().unwrap().status.success()
}

/// Shared memory that nobody uses any more, and that of servers which has a name.
fn shared_memory() -> Vec<String> {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    // Key, number, rights, size, two processes, how many use it.
    let unused = text.lines().skip(1).filter(|line| line.split_whitespace().nth(6) == Some("0"));
    let mut found: Vec<String> = unused.map(str::to_owned).collect();
    found.extend(names(Path::new("/dev/shm")).into_iter().filter(|n| n.starts_with("PostgreSQL.")));
    found
}

#[track_caller]
fn nothing_left(sandbox: &Sandbox, fs: &MountedFs) {
    assert!(!has_server(fs.dir()));
    assert_eq!(names(fs.dir()), ["lost+found"]);
    sandbox.nothing_left(&[]);
}

/// Starts a recipe; again while somebody else on the machine measures.
fn start(sandbox: &Sandbox, args: &[&str], is_there: impl Fn() -> bool) -> Kept {
    let spawn = || {
        let mut command = sandbox.command(args);
        Kept(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut child = spawn();
    wait_until("it has come so far", || {
        if let Some(status) = child.0.try_wait().unwrap() {
            assert_eq!(status.code(), Some(3), "it ended too early");
            child = spawn();
        }
        is_there()
    });
    child
}

fn runs_bench(dir: &Path) -> bool {
    let word = format!("[p]ostgres: bench bench.*{}|[p]gbench --no-vacuum", p(dir));
    has_server(dir) && Command::new("pgrep").args(["-f", &word]).output().unwrap().status.success()
}

/// In the middle of making the database, and of the run; what puts it in order is another command each time.
fn killed() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = fs.dir();
    let args = ["watch", p(dir), "--interval=100ms", "--recipe=pgbench,scale=1,clients=2,time=8s"];
    let other = sandbox.dir();
    let shared = shared_memory();
    let after: [&[&str]; 3] = [
        &["restore"],
        &["clean", p(dir)],
        &["run", "randread", p(&other), "size=1M", "duration=50ms", "warmup=0s"],
    ];
    for (number, after) in after.into_iter().enumerate() {
        let is_preparing = number == 0;
        let come_so_far = || if is_preparing { has_server(dir) } else { runs_bench(dir) };
        let mut child = start(&sandbox, &args, come_so_far);
        if number == 1 {
            // Another one must wait, whatever stands in the environment.
            let mut command = sandbox.command(&["watch", p(&other), "--recipe=dd,size=1M"]);
            let done = command.env("FATHOM_PROGRAM", "watch 1 1 pid:[1] 1").output().unwrap();
            assert_eq!(done.status.code(), Some(3), "{done:?}");
        }
        child.kill();
        assert_eq!(names(dir).len(), 2, "the directory is there");
        let done = sandbox.run(after);
        assert!(done.code <= 1, "{after:?}: {done:?}");
        nothing_left(&sandbox, &fs);
        // The memory of a server goes with its namespace, which the kernel takes down behind the last process.
        wait_until("no shared memory is left", || shared_memory() == shared);
    }
}

fn interrupted() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = fs.dir();
    let args = ["watch", p(dir), "--recipe=pgbench,scale=1,clients=2,time=8s"];
    for is_preparing in [true, false] {
        let come_so_far = || if is_preparing { has_server(dir) } else { runs_bench(dir) };
        let mut child = start(&sandbox, &args, come_so_far);
        Command::new("kill").args(["-INT", &child.0.id().to_string()]).status().unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(130), "preparing: {is_preparing}");
        nothing_left(&sandbox, &fs);
    }
}

fn recipe(sandbox: &Sandbox, dir: &Path, recipe: &str) -> Value {
    let args = ["watch", p(dir), "--interval=100ms", &format!("--recipe={recipe}")];
    sandbox.json(&args, &[0]).result()["summary"]["application"].clone()
}

/// Nothing in the caller's environment leads to another server.
fn environment() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let args = ["--json", "watch", p(fs.dir()), "--recipe=pgbench,scale=1,clients=1,time=1s"];
    let done = crate::cli::run(|| {
        let mut command = sandbox.command(&args);
        command.envs([("PGHOSTADDR", "127.0.0.9"), ("PGSERVICE", "nosuch"), ("PGPORT", "1")]);
        command.envs([("PGOPTIONS", "-c nosuch=1"), ("PGUSER", "nosuch"), ("PGDATA", "/nosuch")]);
        command
    });
    assert_eq!(done.code, 0, "{done:?}");
    let found = &done.result()["summary"]["application"]["figures"];
    assert!(found["tps"].as_f64() > Some(0.0), "{done:?}");
    assert!(found["own_written_bytes"].as_f64() > Some(0.0), "{done:?}");
    nothing_left(&sandbox, &fs);
}

fn refused() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = fs.dir();
    let refuses = |args: &[&str], code: i32, words: &[&str]| -> Done {
        let done = sandbox.refuses(&[&["watch"], args].concat(), code, words);
        assert_eq!(names(dir), ["lost+found"], "{done:?}");
        done
    };
    for large in ["dd,size=10T", "copy,size=1100M", "pgbench,scale=1000", "vacuum-full,size=2G"] {
        refuses(&[p(dir), &format!("--recipe={large}")], 4, &["stay free"]);
    }
    let quoted = sandbox.dir().join("it's");
    fs::create_dir(&quoted).unwrap();
    refuses(&[p(&quoted), "--recipe=vacuum-full,size=1M"], 2, &["quotation mark"]);
    assert!(names(&quoted).is_empty());
    let theirs = sandbox.dir().join("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(65534), Some(65534)).unwrap();
    refuses(&[p(&theirs), "--recipe=dd,size=1M"], 3, &["others than root can change"]);
    assert!(names(&theirs).is_empty());
}

/// What a recipe that rewrites a table prints: its time, its speed, and its own count, beside which the device's stands.
#[track_caller]
fn rewrites(sandbox: &Sandbox, fs: &MountedFs, name: &str) {
    let found = recipe(sandbox, fs.dir(), &format!("{name},size=24M"));
    let figure = |name: &str| found["figures"][name].as_f64().unwrap_or_else(|| panic!("{found}"));
    let (seconds, mb_per_s) = (figure("seconds"), figure("mb_per_s"));
    // The table as it was: rows of 24 MiB and what pages and the index add.
    let table = seconds * mb_per_s * 1e6;
    assert!((20.0 * MIB as f64..80.0 * MIB as f64).contains(&table), "{found}");
    // Half of it at least was written anew.
    let own = figure("own_written_bytes");
    assert!(own > 4.0 * MIB as f64 && figure("own_read_bytes") >= 0.0, "{found}");
    let devices = found["devices"].as_object().unwrap();
    let written: u64 =
        devices.values().map(|d| d["writes"]["sectors"].as_u64().unwrap() * 512).sum();
    assert!(written > 8 * MIB, "{found}");
    nothing_left(sandbox, fs);
}

fn vacuum_full() {
    rewrites(&Sandbox::new(), &mounted(FsKind::Ext4, &[], ""), "vacuum-full");
}

fn optimize_table() {
    rewrites(&Sandbox::new(), &mounted(FsKind::Ext4, &[], ""), "optimize-table");
}

fn build_tree() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let found = recipe(&sandbox, fs.dir(), "build-tree,files=60");
    assert!(found["figures"]["files_per_minute"].as_f64() > Some(0.0), "{found}");
    assert_eq!(found["exit_status"], 0);
    assert!(found["total"]["written_bytes"].as_u64() > Some(60 * 1000), "{found}");
    assert_eq!(names(fs.dir()), ["lost+found"]);
}

/// Two schedulers, each with a database of its own; then one that is killed while it makes the second database.
fn in_a_lab() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = fs.dir();
    let before = machine(&sandbox, &[fs.device()]);
    let inner = sandbox.scratch.join("inner/watch.db");
    let bench = |time: &str| {
        format!(
            "[[workload]]\nlabel = 'pgbench'\ncommand = '{} watch --json --quiet --db={} --recipe=pgbench,scale=1,clients=2,time={time} \
             \"$FATHOM_TARGET\"'\nfigure.tps = 'json:summary.application.figures.tps'\n[factors]\nblock.scheduler = ['none', \
             'mq-deadline']\n[design]\nblocks = 1\n[[objective]]\nmetric = 'application'\n",
            p(&fathom_binary().unwrap()),
            p(&inner)
        )
    };
    let file = plan(&sandbox, "pgbench", &bench("2s"));
    let done = lab(&sandbox, &file, &[p(dir)]);
    let records = done.records();
    assert_eq!(trials_of(&records).len(), 2);
    for record in &records {
        assert!(record["cell"]["application"]["tps"].as_f64() > Some(0.0), "{}", record["cell"]);
    }
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after the lab");
    nothing_left(&sandbox, &fs);
    let file = plan(&sandbox, "killed", &bench("8s"));
    let mut child = start(&sandbox, &["lab", p(&file), p(dir), "--quiet"], || has_server(dir));
    child.kill();
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_same(&before, &machine(&sandbox, &[fs.device()]), "after the kill");
    nothing_left(&sandbox, &fs);
}
