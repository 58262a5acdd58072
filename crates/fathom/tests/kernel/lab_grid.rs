//! `fathom lab` with file servers as the load: the grid of scheduler, journal and mount options on loop devices, trees that are
//! built for it, a kill in the middle; personalities as the load.

use crate::cli::{Done, Sandbox, names, p};
use crate::filesystems::mounted;
use crate::lab::{assert_same, lab, machine, plan};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool};
use fathom_testkit::command::run_tool;
use fathom_testkit::{FsKind, Trial, counted, is_soak, kernel_test};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let crashed = [FathomBinary, FsOnLoop(FsKind::Ext4), Tool("dmesg")];
    vec![
        kernel_test("lab_filesystem_grid", &ext4, grid),
        kernel_test("lab_file_server_goes_on_after_a_kill", &ext4, killed),
        kernel_test("lab_file_server_in_a_directory", &ext4, in_a_directory),
        kernel_test("lab_personality", &ext4, personality),
        kernel_test("lab_remount_with_data_in_the_journal", &ext4, remount),
        kernel_test("lab_recovery_after_a_crash", &crashed, recovery),
        kernel_test("lab_recovery_of_a_further_filesystem", &crashed, recovery_of_the_second),
    ]
}

/// Records of trials, and those of their earlier phases.
fn divided(done: &Done) -> (Vec<Value>, Vec<Value>) {
    done.records().into_iter().partition(|record| record["cell"]["is_part"] != true)
}

fn figure(record: &Value, name: &str) -> f64 {
    record["cell"]["application"][name].as_f64().unwrap_or(0.0)
}

/// What readers and writers do side by side.
const BESIDE: [&str; 3] = ["read_files_per_s", "readers_keep", "written_files_per_s"];

/// The plan that comes with fathom: in a soak all its 72 cells, in CI eight of two levels each that stand for them.
fn grid() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let given = ["--device", "loop:96M", "slow=loop:32M", "ram=loop:16M", "tree=3M"];
    let short = ["window=200ms", "warmup=100ms", "blocks=1", "quiet=0s"];
    let whole =
        sandbox.run(&[&["lab", "filesystem-grid", "--print"], &given[..], &short[..]].concat());
    assert_eq!(whole.code, 0, "{whole:?}");
    let mut text = whole.stdout.clone();
    for (one, other) in [
        ("blocks = \"1\"", "blocks = 1\nkind = \"screening\"\nsentinel = false"),
        ("[\"ordered\", \"writeback\", \"journal\"]", "[\"ordered\", \"journal\"]"),
        ("[\"internal\", \"loop:32M\", \"loop:16M\"]", "[\"internal\", \"loop:16M\"]"),
    ] {
        if !is_soak() {
            assert!(text.contains(one), "{one} in {text}");
            text = text.replace(one, other);
        }
    }
    let text = text.replace("[prepare]\n", "[prepare]\nsettle = \"0s\"\n");
    let file = sandbox.scratch.join("grid.toml");
    fs::write(&file, text).unwrap();
    let dry = sandbox.json(&["lab", p(&file), "--dry-run"], &[0]);
    let cells = dry.result()["outline"]["cells"].as_array().unwrap().len();
    assert_eq!(cells, if is_soak() { 72 } else { 8 });
    let says = dry.result()["outline"]["cells"][0]["workloads"][0].as_str().unwrap().to_owned();
    assert!(says.contains("server: file server, 3 readers; 3 readers, 3 writers"), "{says}");
    assert!(dry.result()["outline"]["time_ns"].as_u64().unwrap() > cells as u64 * 500_000_000);
    let done = lab(&sandbox, &file, &["--seed=1"]);
    let (mut trials, mut parts) = divided(&done);
    for records in [&mut trials, &mut parts] {
        records.retain(|record| record["cell"]["slot"]["is_sentinel"] == false);
        assert_eq!(records.len(), cells);
    }
    let mut names = BTreeSet::new();
    let mut trees = BTreeSet::new();
    for record in &trials {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]["void"]);
        let figures = &record["cell"]["application"];
        assert!(figure(record, "read_files_per_s_alone") > 0.0, "{figures}");
        assert!(figure(record, "recovery_ns") > 0.0, "{figures}");
        // In windows as short as these one side may get nothing while the other works, but not everywhere.
        for name in BESIDE {
            assert!(figures[name].as_f64() >= Some(0.0), "{name}: {figures}");
        }
        assert_eq!(record["fsop"]["phase"]["writers"], 3);
        names.insert(record["cell"]["levels"].to_string());
        let tree = &record["fsop"]["tree"];
        assert_eq!(tree["is_ours"], true);
        trees.insert(format!("{} {}", tree["files"], tree["bytes"]));
        let options = record["targets"][0]["stack"]["nodes"][0]["mount"].to_string();
        let levels = record["cell"]["levels"].to_string();
        assert_eq!(levels.contains("strictatime"), !options.contains("relatime"), "{options}");
        assert_eq!(levels.contains(r#""off""#), options.contains("nobarrier"), "{options}");
    }
    for name in BESIDE {
        assert!(trials.iter().any(|record| figure(record, name) > 0.0), "{name}: {trials:?}");
    }
    assert_eq!(names.len(), cells, "each cell once");
    assert_eq!(trees.len(), 1, "all cells read the same tree: {trees:?}");
    answer(&done);
    assert_same(&before, &machine(&sandbox, &[]), "after the grid");
    counted("cells of the grid of filesystems", cells);
}

/// Prices of levels and the history of settings stand with the answer, and whoever asks later gets them too.
fn answer(done: &Done) {
    let study = &done.result()["experiment"];
    let said = |id: &str| {
        let findings = study["findings"].as_array().unwrap().iter();
        let found: Vec<&Value> = findings.filter(|finding| finding["id"] == id).collect();
        assert!(!found.is_empty(), "{id} in {}", study["findings"]);
        found.iter().map(|finding| finding["summary"].to_string()).collect::<String>()
    };
    let prices = said("price-of-settings");
    for part in [
        "mount.data=journal (data=journal): data is written twice",
        "mount.barrier=off (barrier=0): a power cut may destroy",
        "mount.barrier=on (barrier=1)",
        "filesystem.journal=loop:16M (journal on another device)",
    ] {
        assert!(prices.contains(part), "{part} in {prices}");
    }
    let today = said("settings-of-today");
    assert!(today.contains("cfq, deadline, anticipatory and noop went with Linux 5.0"), "{today}");
    let metrics: Vec<&Value> =
        study["figures"].as_array().unwrap().iter().map(|figure| &figure["metric"]).collect();
    assert_eq!(metrics[..3], ["read_files", "readers_keep", "written_files"]);
    for asked in ["reader_fairness", "writer_fairness", "recovery"] {
        assert!(metrics.iter().any(|metric| **metric == asked), "{asked} in {metrics:?}");
    }
}

/// A crash at the end of each trial: the journal is replayed, more of it where data goes through it, and the next trial finds
/// everything in order.
fn recovery() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let begun_s = uptime_s();
    let text = "[[workload]]\nuse = 'fsop'\nphases = '1r,1r+2w'\nwindow = '400ms'\nwarmup = '50ms'\ntree_files = 200\nsync = 'file'\n\
                [setup]\ndevices = ['loop:256M']\nfilesystem = 'ext4'\n[factors]\nmount.data = ['ordered', 'journal']\n\
                [design]\nblocks = 2\nseed = 3\n[[objective]]\nmetric = 'recovery'\n[[objective]]\nmetric = 'close_p99'\n\
                [[objective]]\nmetric = 'reader_fairness'\n";
    let done = lab(&sandbox, &plan(&sandbox, "recovery", text), &[]);
    let (trials, _) = divided(&done);
    assert!(trials.len() >= 4, "{trials:?}");
    for record in &trials {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]["void"]);
        assert_eq!(record["fsop"]["tree"]["files"], 200, "the tree is there after a crash");
        let (crash_ns, clean_ns) =
            (figure(record, "recovery_ns"), figure(record, "clean_mount_ns"));
        assert!(clean_ns > 0.0 && crash_ns > 0.0, "{}", record["cell"]["application"]);
        assert!(figure(record, "longest_ns") > 0.0, "{}", record["cell"]["application"]);
    }
    assert!(replays_since(begun_s).len() >= trials.len(), "the kernel replayed no journal");
    let text = sandbox.run(&["show", &done.id()]).stdout;
    assert!(text.contains("mount after a crash"), "{text}");
    assert_same(&before, &machine(&sandbox, &[]), "after the crashes");
}

/// With data=journal also direct I/O passes through the page cache, so that laying out the test file leaves it there after the remount.
fn remount() {
    let sandbox = Sandbox::new();
    let text = "[[workload]]\nuse = 'randread'\nduration = '300ms'\nwarmup = '0s'\nsize = '24MiB'\n\
                [setup]\ndevices = ['loop:128M']\nfilesystem = 'ext4'\n[factors]\nmount.data = ['ordered', 'journal']\n\
                [prepare]\nremount = true\nsettle = '10ms'\nquiet = '0s'\n[design]\nblocks = 1\nsentinel = false\n";
    let done = lab(&sandbox, &plan(&sandbox, "remount", text), &[]);
    let records = done.records();
    assert_eq!(records.len(), 2);
    for record in records {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]["void"]);
    }
}

/// Seconds since this machine was started: the clock of its kernel's messages.
fn uptime_s() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The devices of whose ext4 the kernel has replayed the journal since then. Its buffer forgets what is older, so nothing is counted in it
/// that was there before.
fn replays_since(begun_s: f64) -> Vec<String> {
    // `[ 8542.806261] EXT4-fs (loop3): recovery complete`
    let of = |line: &str| {
        let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
        let is_later = time.trim().parse::<f64>().ok()? >= begun_s - 0.5;
        let (device, _) = rest.split_once("): recovery complete")?;
        is_later.then(|| device.rsplit('(').next().unwrap_or_default().to_owned())
    };
    run_tool("dmesg", [""; 0]).unwrap().lines().filter_map(of).collect()
}

/// Of two filesystems the second is served from: it gets the tree, it is the one that crashes, and it has the settings of the cell, like the
/// first.
fn recovery_of_the_second() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let begun_s = uptime_s();
    let text = "[[workload]]\nuse = 'fsop'\nphases = '1r,1r+2w'\nwindow = '300ms'\nwarmup = '50ms'\ntree_files = 200\nsync = 'file'\n\
                target = 'setup:2'\n[setup]\ndevices = ['2 x loop:128M']\nfilesystem.type = 'ext4'\nfilesystem.each = true\n\
                [factors]\nblock.nomerges = ['0', '2']\n[design]\nblocks = 1\nsentinel = false\n[[objective]]\nmetric = 'recovery'\n";
    let done = lab(&sandbox, &plan(&sandbox, "second", text), &[]);
    let (trials, _) = divided(&done);
    assert_eq!(trials.len(), 2, "{trials:?}");
    let mut served = Vec::new();
    for record in &trials {
        let cell = &record["cell"];
        assert!(cell["void"].is_null(), "{}", cell["void"]);
        assert_eq!(record["fsop"]["tree"]["files"], 200, "a new filesystem gets its tree");
        assert!(figure(record, "recovery_ns") > 0.0, "{}", cell["application"]);
        let knobs = cell["knobs"].as_array().unwrap();
        let places: BTreeSet<String> = knobs.iter().map(|knob| knob["place"].to_string()).collect();
        assert_eq!(places.len(), 2, "both devices: {knobs:?}");
        for knob in knobs {
            assert_eq!(knob["before"], cell["levels"][0][1], "{knob}");
        }
        let nodes = record["targets"][0]["stack"]["nodes"].as_array().unwrap();
        let names = nodes.iter().filter_map(|node| node["name"].as_str());
        served.extend(names.filter(|name| name.starts_with("loop")).take(1).map(str::to_owned));
    }
    // Others on this machine may replay journals meanwhile.
    let replayed = replays_since(begun_s);
    let count = |all: &[String], name: &String| all.iter().filter(|known| *known == name).count();
    let is_there = |name: &&String| count(&replayed, name) >= count(&served, name);
    assert_eq!(
        served.iter().filter(is_there).count(),
        2,
        "served {served:?}, replayed {replayed:?}"
    );
    assert_same(&before, &machine(&sandbox, &[]), "after the crashes");
}

const SERVER: &str = "[[workload]]\nuse = 'fsop'\nphases = '1r,1r+1w'\nwindow = '150ms'\nwarmup = '50ms'\ntree_files = 200\n";

/// A kill between two phases' records leaves nothing that counts twice.
fn killed() {
    let sandbox = Sandbox::new();
    let text = format!(
        "{SERVER}[setup]\ndevices = ['loop:64M']\nfilesystem = 'ext4'\n[factors]\nmount.atime = ['relatime', 'noatime']\n\
         [design]\nblocks = 1\nseed = 3\n[[objective]]\nmetric = 'read_files'\n"
    );
    let file = plan(&sandbox, "server", &text);
    let before = machine(&sandbox, &[]);
    let list = sandbox.scratch.join("points");
    let with = |fault: String| {
        crate::cli::run(|| {
            let mut command = sandbox.command(&["lab", p(&file), "--new"]);
            command.env("FATHOM_FAULT", &fault);
            let _ = fs::remove_file(&list);
            command
        })
    };
    let listed = with(format!("list:{}", list.display()));
    assert!(listed.code <= 1, "{listed:?}");
    let points = fs::read_to_string(&list).unwrap();
    // The second trial has stored its first phase there, and not yet its last.
    let stored = points.lines().filter(|line| line.contains("before a record is stored")).nth(1);
    let number = stored.unwrap().split(' ').next().unwrap().to_owned();
    let killed = with(format!("kill:{number}"));
    assert_eq!(killed.code, 128 + 9, "{killed:?}");
    let done = lab(&sandbox, &file, &[]);
    let (trials, parts) = divided(&done);
    let cells: BTreeSet<String> = trials.iter().map(|r| r["cell"]["slot"].to_string()).collect();
    assert_eq!((trials.len(), cells.len()), (2, 2), "each trial once");
    assert_eq!(parts.len(), 3, "and the phase of the one that was killed, as raw data");
    assert_eq!(done.result()["experiment"]["trials"], 2);
    assert_same(&before, &machine(&sandbox, &[]), "after the kill");
}

/// In a directory that is there a tree is built when the plan asks for one, and stays; without it what is there is read.
fn in_a_directory() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let dir = fs.dir().join("data");
    let factors = "[factors]\nnull = ['a', 'b']\n[design]\nblocks = 1\n[[objective]]\nmetric = 'read_files'\n";
    let file = plan(&sandbox, "build", &format!("{SERVER}{factors}"));
    let done = lab(&sandbox, &file, &[p(&dir)]);
    let (trials, _) = divided(&done);
    let made = names(&dir);
    assert!(trials.iter().all(|record| record["fsop"]["tree"]["files"] == 200), "{trials:?}");
    assert!(made.contains(&".fathom-tree".to_owned()), "it stays: {made:?}");
    let reads = SERVER.replace("tree_files = 200\n", "");
    let file = plan(&sandbox, "read", &format!("{reads}{factors}"));
    let (trials, _) = divided(&lab(&sandbox, &file, &[p(&dir)]));
    assert!(trials.iter().all(|record| figure(record, "read_files_per_s_alone") > 0.0));
    assert_eq!(names(&dir), made, "what writers made is gone");
    // A tree that is not whole any more is not read: the experiment ends with that, and nothing was measured.
    let is_file = |name: &&String| !name.starts_with(".fathom") && dir.join(name).is_file();
    fs::remove_file(dir.join(made.iter().find(is_file).unwrap())).unwrap();
    let ended = sandbox.run(&["lab", p(&file), p(&dir), "--new"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    for part in ["not one trial counts", "ENDED by a failure", "1 file is missing; the first: "] {
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    }
    // Nothing to read, and nobody asked for a tree.
    let empty = fs.dir().join("empty");
    fs::create_dir(&empty).unwrap();
    let refused = sandbox.run(&["--quiet", "lab", p(&file), p(&empty), "--new"]);
    refused.is_refusal(2, &["nothing to read"]);
    assert!(names(&empty).is_empty());
}

/// Two ways of syncing as cells, on a filesystem that is made for each; and a file of somebody's in a directory.
fn personality() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let mail = "[[workload]]\nuse = 'mail'\nfiles = 100\nsizes = '4k'\nwindow = '400ms'\nwarmup = '100ms'\ndrop_caches = 'no'\n";
    let rest = "[design]\nblocks = 1\nseed = 3\n";
    let setup = "[setup]\ndevices = ['loop:64M']\nfilesystem = 'ext4'\n";
    let factors = "[factors]\nworkload.sync = ['none', 'file']\n";
    let objective = "[[objective]]\nmetric = 'transactions'\n";
    let file = plan(&sandbox, "mail", &format!("{mail}{setup}{factors}{rest}{objective}"));
    let dry = sandbox.json(&["lab", p(&file), "--dry-run"], &[0]);
    let says = dry.result()["outline"]["cells"][0]["workloads"][0].as_str().unwrap().to_owned();
    assert!(says.contains("mail, 4 clients on 100 files"), "{says}");
    let done = lab(&sandbox, &file, &[]);
    let (mut trials, parts) = divided(&done);
    trials.retain(|record| record["cell"]["slot"]["is_sentinel"] == false);
    assert_eq!((trials.len(), parts.len()), (2, 0));
    for record in &trials {
        assert!(record["cell"]["void"].is_null(), "{}", record["cell"]["void"]);
        assert!(figure(record, "transactions_per_s") > 0.0, "{}", record["cell"]["application"]);
        assert_eq!(record["workload"]["name"], "mail");
        let sync = &record["fsop"]["spec"]["play"]["sync"];
        assert!(record["cell"]["levels"].to_string().contains(&sync.to_string()), "{record}");
        assert_eq!(record["targets"][0]["stack"]["nodes"][0]["mount"]["fs_type"], "ext4");
    }
    let figures = done.result()["experiment"]["figures"].as_array().unwrap().clone();
    let metrics: Vec<&Value> = figures.iter().map(|figure| &figure["metric"]).collect();
    assert_eq!(metrics[0], "transactions");
    let text = sandbox.run(&["show", &done.id()]).stdout;
    assert!(text.contains("transactions/s"), "{text}");
    let own = sandbox.scratch.join("mine.toml");
    fs::write(&own, "name = 'own'\n[play]\nmix = 'stat:3,create:1,delete:1'\nfiles = 20\n")
        .unwrap();
    let dir = mounted(FsKind::Ext4, &[], "");
    let load = format!(
        "[[workload]]\nuse = '{}'\nwindow = '300ms'\nwarmup = '50ms'\ndrop_caches = 'no'\n",
        p(&own)
    );
    let factors = "[factors]\nworkload.own.clients = [1, 2]\n";
    let file = plan(&sandbox, "own", &format!("{load}label = 'own'\n{factors}{rest}{objective}"));
    let held = names(dir.dir());
    let (trials, _) = divided(&lab(&sandbox, &file, &[p(dir.dir())]));
    let clients: BTreeSet<u64> =
        trials.iter().map(|record| record["fsop"]["phase"]["clients"].as_u64().unwrap()).collect();
    assert_eq!(clients, [1, 2].into(), "{trials:?}");
    assert!(trials.iter().all(|record| figure(record, "transactions_per_s") > 0.0), "{trials:?}");
    assert_eq!(names(dir.dir()), held, "what clients made is gone");
    assert_same(&before, &machine(&sandbox, &[]), "after the personalities");
}
