//! `fathom check` on real filesystems, loop devices and settings.

use crate::cli::{Done, MIB, Sandbox, as_nobody, binary_for_nobody, p, run};
use crate::filesystems::mounted;
use fathom_testkit::Capability::{
    FathomBinary, FsOnLoop, LoopDevices, MountNamespaces, Root, Tool,
};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, MountedFs, Scratch, Trial, command, counted,
    kernel_test,
};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let all = [
        FathomBinary,
        FsOnLoop(FsKind::Ext4),
        FsOnLoop(FsKind::Xfs),
        FsOnLoop(FsKind::Btrfs),
        Tool("blockdev"),
    ];
    vec![
        kernel_test("check_sees_the_whole_machine", &[FathomBinary], whole_machine),
        kernel_test("check_sees_what_the_tools_see", &all, agrees_with_tools),
        kernel_test("check_tells_a_full_filesystem", &ext4, full),
        kernel_test(
            "check_tells_discard_and_buffered_loops",
            &[FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4)],
            mounts,
        ),
        kernel_test(
            "check_tells_loops_whose_space_was_never_written",
            &[FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4), FsOnLoop(FsKind::Xfs)],
            reserved,
        ),
        kernel_test(
            "check_tells_a_loop_whose_file_is_gone",
            &[FathomBinary, LoopDevices, FsOnLoop(FsKind::Ext4)],
            deleted,
        ),
        kernel_test("check_names_the_directory_of_a_bind_mount", &ext4, bind_mount),
        kernel_test(
            "check_tells_a_btrfs_without_free_chunks",
            &[FathomBinary, FsOnLoop(FsKind::Btrfs)],
            no_chunks,
        ),
        kernel_test("check_takes_measurements_of_what_is_there_now", &ext4, measurements),
        kernel_test("check_of_a_snapshot_says_the_same", &ext4, snapshots),
        kernel_test("check_hides_what_identifies", &ext4, anonymous),
        kernel_test("check_fails_on_what_is_asked", &ext4, thresholds),
        kernel_test(
            "check_works_for_everybody",
            &[Root, FathomBinary, Tool("setpriv")],
            without_root,
        ),
        kernel_test(
            "check_lists_what_makes_no_sense",
            &[FathomBinary, LoopDevices, MountNamespaces, Tool("unshare")],
            nonsense,
        ),
        kernel_test("check_starts_and_writes_nothing", &[FathomBinary, Tool("strace")], only_reads),
        kernel_test("check_refuses_what_it_cannot_read", &[FathomBinary], refusals),
        kernel_test("check_explains", &[FathomBinary], explains),
    ]
}

fn nodes(done: &Done) -> Vec<Value> {
    done.result()["snapshot"]["machine"]["nodes"].as_array().unwrap().clone()
}

/// The names of the rules that found something.
pub fn rules(done: &Done) -> Vec<String> {
    let result = done.result();
    let defects = result["defects"].as_array().unwrap();
    defects.iter().map(|defect| defect["rule"].as_str().unwrap().to_owned()).collect()
}

/// What this rule found.
pub fn defect(done: &Done, rule: &str) -> Value {
    let result = done.result();
    let defects = result["defects"].as_array().unwrap();
    let found = defects.iter().find(|defect| defect["rule"] == rule);
    found.unwrap_or_else(|| panic!("no {rule} in {:?}", rules(done))).clone()
}

fn clock_source() -> String {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// All mounts on block devices and all disks of this machine are there; people get a tree with the same.
fn whole_machine() {
    let sandbox = Sandbox::new();
    let done = sandbox.json(&["check"], &[0]);
    let nodes = nodes(&done);
    let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    for disk in fs::read_dir("/sys/block").unwrap() {
        let disk = disk.unwrap();
        let name = disk.file_name().into_string().unwrap();
        let size = fs::read_to_string(disk.path().join("size")).unwrap_or_default();
        let memory = ["loop", "ram", "zram", "nbd"].iter().any(|kind| name.starts_with(kind));
        if !memory && size.trim() != "0" && !size.is_empty() {
            assert!(names.contains(&name.as_str()), "{name} is not in {names:?}");
        }
    }
    for line in fs::read_to_string("/proc/self/mounts").unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0].starts_with("/dev/") && Path::new(words[1]).is_dir() {
            assert!(names.contains(&words[1]), "{} is not in {names:?}", words[1]);
        }
    }
    let shown = sandbox.run(&["check"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""), "{shown:?}");
    // Deeper, where something else is shown first: a file on it as a loop device.
    let is_root = |line: &str| line.split_whitespace().any(|word| word == "/");
    let root = |line: &str| is_root(line) && line.contains("mount of");
    assert!(shown.stdout.lines().any(root), "{shown:?}");
    let table = sandbox.run(&["check", "--show=table"]);
    assert!(table.stdout.lines().next().unwrap().starts_with("device"), "{table:?}");
    let facts = sandbox.run(&["check", "--show=facts"]);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let has = |name: &str, value: &str| {
        let mut lines = facts.stdout.lines().filter_map(|line| line.trim_start().split_once("  "));
        lines.any(|(own, shown)| own == name && shown.trim() == value)
    };
    assert!(has("kernel", kernel.trim()) && has("clock source", &clock_source()), "{facts:?}");
    for node in nodes.iter().filter(|node| node["kind"] == "disk") {
        let title = format!("{}  disk\n", node["path"].as_str().unwrap());
        assert!(facts.stdout.contains(&title), "{title} in {facts:?}");
    }
    let metrics = sandbox.run(&["check", "--show=openmetrics"]);
    assert!(metrics.stdout.ends_with("# EOF\n"), "{metrics:?}");
    assert!(metrics.stdout.contains("# TYPE fathom_findings gauge\n"), "{metrics:?}");
    sandbox.run(&["list"]).is_refusal(2, &["does not exist", "nothing has been stored"]);
}

/// Sizes, sectors and read-ahead as blockdev says; blocks and stripes as mkfs made them.
fn agrees_with_tools() {
    let sandbox = Sandbox::new();
    let makers: [(FsKind, &[&str]); 3] = [
        (FsKind::Ext4, &["-E", "stride=16,stripe_width=48"]),
        (FsKind::Xfs, &["-d", "su=64k,sw=3"]),
        (FsKind::Btrfs, &[]),
    ];
    for (kind, options) in makers {
        let fs = mounted(kind, options, "");
        let done = sandbox.json(&["check", p(fs.dir())], &[0]);
        let nodes = nodes(&done);
        let named = |kind: &str| nodes.iter().find(|node| node["kind"] == kind).unwrap();
        let device = named("loop");
        let asked = |option: &str| {
            let output = command::run_tool("blockdev", [option, p(fs.device().path())]).unwrap();
            output.trim().parse::<u64>().unwrap()
        };
        assert_eq!(device["size_bytes"], asked("--getsize64"), "{kind:?}");
        assert_eq!(device["queue"]["logical_block_bytes"], asked("--getss"));
        assert_eq!(device["queue"]["physical_block_bytes"], asked("--getpbsz"));
        assert_eq!(device["queue"]["read_ahead_kib"], asked("--getra") / 2);
        let filesystem = &named("file_system")["fs"];
        assert_eq!(filesystem["block_bytes"], 4096, "{kind:?}: {filesystem}");
        if kind != FsKind::Btrfs {
            assert_eq!(filesystem["stripe_unit_bytes"], 64 << 10, "{kind:?}");
            assert_eq!(filesystem["stripe_width_bytes"], 192 << 10, "{kind:?}");
        }
        let content = &device["detail"]["content"]["filesystem"];
        assert_eq!(content["block_bytes"], 4096, "from its own look: {device}");
        assert_eq!(content["uuid"], filesystem["uuid"], "{kind:?}");
    }
}

fn full() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &["-m", "0"], "");
    let before = sandbox.json(&["check", p(fs.dir())], &[0]);
    assert!(!rules(&before).contains(&"filesystem-full".to_owned()), "{:?}", rules(&before));
    command::run_tool("fallocate", ["-l", "1850M", p(&fs.dir().join("filler"))]).unwrap();
    let after = sandbox.json(&["check", p(fs.dir())], &[0]);
    let found = defect(&after, "filesystem-full");
    assert!(found["summary"].as_str().unwrap().contains('%'), "{found}");
    for field in ["why", "risk", "verify"] {
        assert!(found[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {found}");
    }
    assert!(!found["evidence"].as_array().unwrap().is_empty(), "{found}");
    let shown = sandbox.run(&["check", p(fs.dir()), "--all"]);
    assert!(shown.stdout.contains("[filesystem-full]"), "{shown:?}");
}

fn mounts() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "discard");
    let done = sandbox.json(&["check", p(fs.dir())], &[0]);
    assert!(rules(&done).contains(&"discard-online".to_owned()), "{:?}", rules(&done));
    let options = LoopOptions { direct_io: false, ..LoopOptions::default() };
    let device = LoopDevice::with(64 * MIB, Content::Sparse, &options).unwrap();
    let done = sandbox.json(&["check", p(device.path())], &[0]);
    for rule in ["loop-buffered", "loop-sparse"] {
        assert!(rules(&done).contains(&rule.to_owned()), "{rule}: {:?}", rules(&done));
    }
}

/// A file that has all its space is still read from nowhere until it was written, as the advice does.
fn reserved() {
    let sandbox = Sandbox::new();
    for kind in [FsKind::Ext4, FsKind::Xfs] {
        let fs = mounted(kind, &[], "");
        let image = fs.mount().backing().unwrap();
        command::run_tool("fallocate", ["-l", "64M", p(&image)]).unwrap();
        let device = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
        let of_device = |done: &Done| {
            let result = done.result();
            let all = result["defects"].as_array().unwrap().iter();
            let is_it =
                |one: &&Value| one["rule"] == "loop-sparse" && one["node"] == p(device.path());
            all.filter(is_it).cloned().collect::<Vec<_>>()
        };
        let done = sandbox.json(&["check", p(device.path())], &[0]);
        let [found] = &of_device(&done)[..] else { panic!("{:?}", rules(&done)) };
        assert!(found["evidence"].to_string().contains("64 MiB of 64 MiB are reserved"), "{found}");
        // No ready command: a process that has the file open would lose what it writes meanwhile, and is not seen.
        assert!(found["fix"][0]["command"].is_null(), "{found}");
        let (_, command) = found["fix"][0]["text"].as_str().unwrap().rsplit_once("): ").unwrap();
        command::run_tool("sh", ["-c", command]).unwrap();
        let done = sandbox.json(&["check", p(device.path())], &[0]);
        assert!(of_device(&done).is_empty(), "{kind:?}: {:?}", of_device(&done));
    }
}

fn deleted() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let (image, mount) = (scratch.join("image"), scratch.join("mount"));
    fs::File::create(&image).unwrap().set_len(16 * MIB).unwrap();
    FsKind::Ext4.make(&image, &[]).unwrap();
    let device = command::run_tool("losetup", ["--find", "--show", p(&image)]).unwrap();
    let device = device.trim();
    fs::create_dir(&mount).unwrap();
    command::run_tool("mount", [device, p(&mount)]).unwrap();
    let before = sandbox.json(&["check", device], &[0]);
    fs::remove_file(&image).unwrap();
    let after = sandbox.json(&["check", device], &[0]);
    let shown = sandbox.run(&["check", device]);
    command::run_tool("umount", [p(&mount)]).unwrap();
    command::run_tool("losetup", ["--detach", device]).unwrap();
    assert!(!rules(&before).contains(&"loop-file-deleted".to_owned()), "{:?}", rules(&before));
    let found = defect(&after, "loop-file-deleted");
    assert_eq!(found["gravity"], "high");
    assert!(found.to_string().contains(&format!("dd if={device}")), "{found}");
    assert!(shown.stdout.contains("(deleted)"), "{shown:?}");
}

/// Every chunk of a btrfs keeps a little of what was in it; the advised balance gives most of them back.
fn no_chunks() {
    let sandbox = Sandbox::new();
    let options = LoopOptions { direct_io: true, ..LoopOptions::default() };
    let device = LoopDevice::with(17 << 30, Content::Sparse, &options).unwrap();
    let fs = MountedFs::with(FsKind::Btrfs, device, &[], "").unwrap();
    for number in 0..19 {
        let large = fs.dir().join(format!("large{number}"));
        if command::run_tool("fallocate", ["-l", "850M", p(&large)]).is_err() {
            break;
        }
        let kept = vec![number; 4 << 20];
        fs::write(fs.dir().join(format!("kept{number}")), kept).unwrap();
        command::run_tool("sync", ["--file-system", p(fs.dir())]).unwrap();
    }
    for entry in fs::read_dir(fs.dir()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("large") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    command::run_tool("sync", ["--file-system", p(fs.dir())]).unwrap();
    let before = sandbox.json(&["check", p(fs.dir())], &[0]);
    let found = defect(&before, "btrfs-unallocated");
    let advice = found["fix"][0]["command"].as_str().unwrap();
    command::run_tool("sh", ["-c", advice]).unwrap();
    let after = sandbox.json(&["check", p(fs.dir())], &[0]);
    assert!(!rules(&after).contains(&"btrfs-unallocated".to_owned()), "{:?}", rules(&after));
}

fn bind_mount() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let scratch = Scratch::new().unwrap();
    let (part, place) = (fs.dir().join("part"), scratch.join("place"));
    fs::create_dir(&part).unwrap();
    fs::create_dir(&place).unwrap();
    command::run_tool("mount", ["--bind", p(&part), p(&place)]).unwrap();
    let shown = sandbox.run(&["check", p(&place)]);
    command::run_tool("umount", [p(&place)]).unwrap();
    assert!(shown.stdout.contains("its directory /part"), "{shown:?}");
}

/// A run on what was mounted at the same place before says nothing of what is mounted there now.
fn measurements() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let place = scratch.join("srv");
    fs::create_dir(&place).unwrap();
    let (first, second) = (mounted(FsKind::Ext4, &[], ""), mounted(FsKind::Ext4, &[], ""));
    let mut found = Vec::new();
    let mut run = None;
    for fs in [&first, &second, &first] {
        command::run_tool("mount", ["--bind", p(fs.dir()), p(&place)]).unwrap();
        run.get_or_insert_with(|| {
            let job = ["size=16M", "depth=1", "duration=300ms", "warmup=0s"];
            sandbox.run(&[&["run", "randread", p(&place)][..], &job].concat())
        });
        let done = sandbox.run(&["--json", "check", p(&place)]);
        command::run_tool("umount", [p(&place)]).unwrap();
        found.push(done.result()["snapshot"]["measured"].as_array().unwrap().len());
    }
    assert_eq!(found, [1, 0, 1], "{run:?}");
}

/// What is stored is judged in the same words, packed or not; a file from the future or cut short is refused by name.
fn snapshots() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let fs = mounted(FsKind::Ext4, &[], "discard");
    for name in ["machine.json", "machine.json.gz"] {
        let file = scratch.join(name);
        let first =
            sandbox.run(&["check", p(fs.dir()), "--all", "--quiet", "--snapshot", p(&file)]);
        assert_eq!(first.code, 0, "{first:?}");
        let again = sandbox.run(&["check", "--all", "--from", p(&file)]);
        assert_eq!(again.stdout, first.stdout);
        assert!(again.stdout.contains("[discard-online]"), "{again:?}");
    }
    let plain = fs::read_to_string(scratch.join("machine.json")).unwrap();
    let packed = fs::metadata(scratch.join("machine.json.gz")).unwrap().len();
    assert!(packed * 3 < plain.len() as u64, "{packed} of {}", plain.len());
    let bad = scratch.join("bad.json");
    for (content, word) in [
        (plain.replacen("\"format\": 1", "\"format\": 99", 1), "newer fathom"),
        (plain[..plain.len() / 2].to_owned(), "cut short"),
        ("{}".to_owned(), "no snapshot"),
    ] {
        fs::write(&bad, content).unwrap();
        sandbox.run(&["check", "--from", p(&bad)]).is_refusal(6, &[p(&bad), word]);
    }
    let nowhere = scratch.join("none").join("machine.json");
    let failed = sandbox.run(&["check", p(fs.dir()), "--snapshot", p(&nowhere)]);
    failed.is_refusal(2, &[p(&nowhere), "no such folder"]);
    let mode = fs::metadata(scratch.join("machine.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds serial numbers");
    let machine = scratch.join("machine.json");
    let replaced = sandbox.run(&["check", p(fs.dir()), "--quiet", "--snapshot", p(&machine)]);
    assert_eq!(replaced.code, 0, "{replaced:?}");
    let (own, link) = (scratch.join("own.txt"), scratch.join("link.json"));
    fs::write(&own, "mine").unwrap();
    std::os::unix::fs::symlink(&machine, &link).unwrap();
    for (file, word) in [(&own, "no snapshot of fathom"), (&link, "no regular file")] {
        let refused = sandbox.run(&["check", p(fs.dir()), "--snapshot", p(file)]);
        refused.is_refusal(6, &[p(file), word]);
    }
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
    assert!(link.is_symlink());
    sandbox.run(&["check", p(fs.dir()), "--snapshot", "-"]).is_refusal(6, &["--snapshot"]);
    let huge = scratch.join("huge.json");
    fs::File::create(&huge).unwrap().set_len(257 * MIB).unwrap();
    sandbox.run(&["check", "--from", p(&huge)]).is_refusal(6, &[p(&huge), "too large"]);
    command::run_tool("gzip", [p(&huge)]).unwrap();
    let bomb = scratch.join("huge.json.gz");
    sandbox.run(&["check", "--from", p(&bomb)]).is_refusal(6, &[p(&bomb), "too large"]);
    let fifo = scratch.join("fifo");
    command::run_tool("mkfifo", [p(&fifo)]).unwrap();
    for file in [p(&fifo), "/dev/zero"] {
        sandbox.run(&["check", "--from", file]).is_refusal(6, &[file, "no regular file"]);
    }
    let left: Vec<String> = crate::cli::names(scratch.path());
    assert!(!left.iter().any(|name| name.contains(".part")), "{left:?}");
}

fn anonymous() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let fs = mounted(FsKind::Ext4, &["-L", "PAYROLL77"], "discard");
    let file = scratch.join("machine.json");
    let args = ["check", p(fs.dir()), "--anonymise", "--snapshot", p(&file), "--all", "--quiet"];
    let done = sandbox.run(&args);
    assert_eq!(done.code, 0, "{done:?}");
    let open = sandbox.json(&["check", p(fs.dir())], &[0]);
    let nodes = nodes(&open);
    let uuid = nodes.iter().find_map(|node| node["fs"]["uuid"].as_str()).unwrap();
    let stored = fs::read_to_string(&file).unwrap();
    // The last word of it is an ordinary one: mnt.
    let own = fs.dir().parent().unwrap().file_name().unwrap().to_str().unwrap();
    for secret in ["PAYROLL77", uuid, own] {
        assert!(!stored.contains(secret) && !done.stdout.contains(secret), "{secret}");
    }
    let hidden = sandbox.json(&["check", "--from", p(&file)], &[0]);
    // What goes on at the moment may differ between two looks.
    let lasting = |done: &Done| -> Vec<String> {
        let moment = ["maintenance-running", "other-io", "io-limits-active"];
        rules(done).into_iter().filter(|rule| !moment.contains(&rule.as_str())).collect()
    };
    assert_eq!(lasting(&hidden), lasting(&open), "the judgement is the same");
}

fn thresholds() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "discard");
    let code = |args: &[&str]| sandbox.run(&[&["check", p(fs.dir())], args].concat()).code;
    let done = sandbox.json(&["check", p(fs.dir())], &[0]);
    let result = done.result();
    let gravities: Vec<&str> = result["defects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["gravity"].as_str().unwrap())
        .collect();
    assert!(!gravities.is_empty());
    let order = ["low", "medium", "high"];
    let worst = gravities.iter().filter_map(|g| order.iter().position(|o| o == g)).max().unwrap();
    for (place, name) in order.iter().enumerate() {
        let expected = i32::from(worst >= place);
        assert_eq!(code(&[&format!("--fail-on={name}")]), expected, "{name} with {gravities:?}");
    }
    assert_eq!(code(&[]), 0);
    let wrong = sandbox.run(&["check", "--fail-on=severe"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("severe"), "{wrong:?}");
}

/// An ordinary user sees the graph, and what could not be read is listed.
fn without_root() {
    let scratch = Scratch::new().unwrap();
    let binary = binary_for_nobody(&scratch);
    let done = run(|| {
        let mut command = as_nobody(&binary);
        command.args(["check", "--json", "--quiet"]).env("FATHOM_DB", "/nonexistent/fathom.db");
        command
    });
    assert_eq!(done.code, 0, "{done:?}");
    assert!(!nodes(&done).is_empty());
    let result = done.result();
    let unread = result["snapshot"]["unread"].as_array().unwrap();
    let denied = unread.iter().filter(|item| item["why"].as_str().unwrap().contains("permission"));
    assert!(denied.count() > 0, "{unread:?}");
}

/// Files of the kernel under which something else was put, and no files of it at all: told, and judged without them.
fn nonsense() {
    let (sandbox, device) = (Sandbox::new(), LoopDevice::new(MIB).unwrap());
    let queue = format!("/sys/block/{}/queue", device.name());
    let files = [
        "/proc/diskstats".to_owned(),
        "/proc/meminfo".to_owned(),
        "/proc/swaps".to_owned(),
        format!("{queue}/read_ahead_kb"),
        format!("{queue}/scheduler"),
    ];
    let hidden: String =
        files.iter().map(|file| format!("mount --bind \"$0\" {file} && ")).collect();
    for (hide, told) in [
        (hidden.as_str(), files.iter().map(String::as_str).collect::<Vec<_>>()),
        ("umount -l /sys && ", vec!["/sys/class/block"]),
        ("umount -l /proc && ", vec!["/proc/self/mountinfo"]),
    ] {
        let rubbish = sandbox.scratch.join("rubbish");
        fs::write(&rubbish, b"a b c\n\xff\xfe\0 999999999999999999999999\n").unwrap();
        let done = run(|| {
            let own = sandbox.command(&["--json", "--quiet", "check"]);
            let mut command = command::tool("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c"]);
            command.arg(format!("{hide}exec \"$@\"")).arg(&rubbish);
            command.arg(own.get_program()).args(own.get_args());
            command
        });
        assert_eq!(done.code, 0, "{hide}: {done:?}");
        let unread = done.result()["snapshot"]["unread"].to_string();
        for file in told {
            let name = file.rsplit_once("/block/").map_or(file, |(_, name)| name);
            assert!(unread.contains(&format!("{name}\"")), "{file} is not in {unread}");
        }
    }
}

/// Calls that would start something or change something, but for those of the terminal.
const CHANGING: &str = "execveat,fork,vfork,creat,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,mknod,\
    mknodat,link,linkat,symlink,symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,fchownat,\
    utimensat,setxattr,lsetxattr,fsetxattr,mount,umount2,swapon,swapoff,pwrite64,pwritev,pwritev2,sendto,sendmsg,\
    io_submit,io_uring_setup,io_uring_enter,ioprio_set,kill";

/// What may be asked by ioctl, as strace calls it; the last two are FS_IOC_GETFSUUID and XFS_IOC_FSGEOMETRY_V4, which it does
/// not know. All of it only reads: of the terminal, of files and filesystems, of loop devices and maps, of drives.
const QUESTIONS: [&str; 13] = [
    "TCGETS",
    "TIOCGWINSZ",
    "FS_IOC_FIEMAP",
    "FS_IOC_GETFLAGS",
    "FS_IOC_GETFSLABEL",
    "FS_IOC_GETFSUUID",
    "BTRFS_IOC_FS_INFO",
    "LOOP_GET_STATUS64",
    "DM_TABLE_STATUS",
    "SG_IO",
    "NVME_IOCTL_ADMIN_CMD",
    "_IOC(_IOC_READ, 0x15, 0, 0x11)",
    "_IOC(_IOC_READ, 0x58, 0x7c, 0x70)",
];

/// Seen from outside: no process is started, no file opened for writing, no device opened but to read or asked but by
/// questions.
fn only_reads() {
    let sandbox = Sandbox::new();
    let scratch = Scratch::new().unwrap();
    let log = scratch.join("calls");
    let done = run(|| {
        let own = sandbox.command(&["check", "--quiet"]);
        let mut command = command::tool("strace");
        let calls =
            format!("trace=execve,clone,clone3,open,openat,openat2,write,writev,ioctl,{CHANGING}");
        command.args(["-f", "-qq", "-e", &calls, "-o"]).arg(&log);
        command.arg(own.get_program()).args(own.get_args());
        for (key, value) in own.get_envs() {
            if let Some(value) = value {
                command.env(key, value);
            }
        }
        command
    });
    assert_eq!(done.code, 0, "{done:?}");
    let log = fs::read_to_string(&log).unwrap();
    let calls: Vec<&str> = log.lines().collect();
    assert!(
        calls.iter().any(|call| call.contains("openat(") && call.contains("/sys/")),
        "it was watched"
    );
    let last = |what: &str| calls.iter().rposition(|call| call.contains(what)).expect(what);
    let device = |call: &&&str| call.contains("\"/dev/") && !call.contains("\"/dev/disk");
    let asked: Vec<_> = calls[..last("/proc/diskstats")].iter().filter(device).collect();
    assert!(asked.is_empty(), "what fathom asks is taken for the I/O of others: {asked:?}");
    let starts = calls.iter().filter(|call| call.contains("execve(")).count();
    assert_eq!(starts, 1, "only fathom itself");
    for call in &calls {
        let name = call.split('(').next().unwrap_or_default();
        let name = name.split_ascii_whitespace().last().unwrap_or_default();
        assert!(!CHANGING.split(',').any(|changing| changing.trim() == name), "{call}");
        let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"];
        assert!(!writes.iter().any(|word| call.contains(word)), "{call}");
        let forks = name.starts_with("clone") && !call.contains("CLONE_THREAD");
        assert!(!forks || call.contains("resumed"), "{call}");
        if name.starts_with("write") {
            assert!(call.contains("(1,") || call.contains("(2,"), "{call}");
        }
        if name == "ioctl" {
            let asks = QUESTIONS.iter().any(|question| call.contains(&format!(", {question},")));
            assert!(asks && !call.contains("SG_DXFER_TO_DEV"), "{call}");
        }
    }
}

fn refusals() {
    let sandbox = Sandbox::new();
    sandbox.refuses(&["check", "/dev/no-such-disk"], 2, &["/dev/no-such-disk", "lsblk"]);
    for missing in ["/no/such/directory", "/nonexist", ""] {
        sandbox.refuses(&["check", missing], 2, &[missing, "does not exist"]);
    }
    sandbox.refuses(&["check", "/dev/null"], 2, &["/dev/null", "character device"]);
    let forms = sandbox.run(&["--json", "check", "--show=openmetrics"]);
    assert!(forms.code == 2 && forms.stderr.contains("one of them"), "{forms:?}");
    let both = sandbox.run(&["check", "/tmp", "--from", "x"]);
    assert!(both.code == 2 && both.stderr.contains("--from"), "{both:?}");
    sandbox.refuses(&["check", "--from", "/no/such/file"], 2, &["/no/such/file"]);
    sandbox.refuses(&["check", "--from", "-"], 2, &["--from wants the name of a file"]);
    sandbox.refuses(&["check", "--explain", "md-degradde"], 2, &["did you mean md-degraded"]);
}

fn explains() {
    let sandbox = Sandbox::new();
    let list = sandbox.run(&["check", "--explain", "list"]);
    let ids: Vec<&str> = list
        .stdout
        .lines()
        .take_while(|line| !line.is_empty())
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert!(ids.len() > 60, "{ids:?}");
    let closing = list.stdout.lines().find(|line| line.contains(" rules, as they were tested: "));
    let numbers = closing.unwrap().split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<usize> = numbers.filter_map(|word| word.parse().ok()).collect();
    let simulated = list.stdout.lines().filter(|line| line.ends_with(" (simulated)")).count();
    assert_eq!((numbers.len(), numbers[0], numbers[3]), (4, ids.len(), simulated), "{closing:?}");
    assert_eq!(numbers[1] + numbers[2] + numbers[3], numbers[0], "{closing:?}");
    counted("rules of check provoked on the host", numbers[1]);
    counted("rules of check provoked in guests", numbers[2]);
    counted("rules of check that are simulated", numbers[3]);
    let told: Value =
        serde_json::from_str(&sandbox.run(&["--json", "check", "--explain", "list"]).stdout)
            .unwrap();
    let rules: Vec<&str> = told["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    assert_eq!((rules, told["type"].as_str()), (ids.clone(), Some("result")), "{told}");
    let first = &told["rules"][0];
    assert!(["low", "medium", "high"].contains(&first["gravity"].as_str().unwrap()), "{first}");
    assert!(first["title"].is_string() && first["tested"].is_string(), "{first}");
    assert!(told["words"].as_array().unwrap().contains(&"stripe".into()), "{told}");
    for id in ids {
        let page = sandbox.run(&["check", "--explain", id]);
        assert!(
            page.stdout.starts_with("# ")
                && page.stdout.contains("## What to do")
                && page.stdout.lines().nth(2).is_some_and(|line| line.contains("; gravity: ")),
            "{id}: {page:?}"
        );
    }
    let word = sandbox.run(&["check", "--explain", "stripe"]);
    for maker in ["md", "MegaRAID", "ext4"] {
        assert!(word.stdout.contains(maker), "{word:?}");
    }
}
