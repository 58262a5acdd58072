//! Stacks, extents and rules on real loop devices, partitions, zram, ext4, XFS, btrfs and overlay.
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod content_tests;
mod extent_tests;
mod machine_tests;
mod system_tests;

use fathom_check::{measuring as rules, one_line};
use fathom_inspect::host::host_facts;
use fathom_inspect::{scan, stack};
use fathom_model::finding::Finding;
use fathom_model::stack::{FsFacts, Node, NodeKind, Stack};
use fathom_sys::hostinfo;
use fathom_sys::mounts::own_mounts;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::capability::Capability::{
    FsOnLoop, LoopDevices, MountFs, MountNamespaces, Root, Tool, Zram as HasZram,
};
use fathom_testkit::command::{run_tool, tool};
use fathom_testkit::{
    Content, FsKind, LoopDevice, LoopOptions, Mount, MountedElsewhere, MountedFs, Scratch, Trial,
    Zram, kernel_test, run,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Set for a copy of this program that only prints what it finds, see [`without_root`].
const CHILD: &str = "FATHOM_INSPECT_PRINT";

fn main() -> ExitCode {
    if let Some(paths) = std::env::var_os(CHILD) {
        if paths == "memory" {
            println!("{:?}", host_facts(&SysRoot::live()).cgroup_memory_limit_bytes);
            return ExitCode::SUCCESS;
        }
        if paths == "system" {
            system_tests::print();
            return ExitCode::SUCCESS;
        }
        if paths == "machine" {
            machine_tests::print();
            return ExitCode::SUCCESS;
        }
        for path in paths.to_string_lossy().split(':') {
            let stack = resolve(Path::new(path));
            println!("{}", one_line(&stack));
            println!("{}", ids(&judge(&stack)).join(" "));
        }
        return ExitCode::SUCCESS;
    }
    let ext4 = FsOnLoop(FsKind::Ext4);
    let mut trials: Vec<Trial> = vec![
        kernel_test("ext4_geometry", &[ext4], ext4_geometry),
        kernel_test("ext4_lazy_init", &[ext4], ext4_lazy_init),
        kernel_test("xfs_geometry", &[FsOnLoop(FsKind::Xfs)], xfs_geometry),
        kernel_test("btrfs_of_two_devices", &[FsOnLoop(FsKind::Btrfs)], btrfs_of_two_devices),
        kernel_test("partition_mounted_above", &[ext4, Tool("sfdisk")], partition_mounted_above),
        kernel_test("mounted_elsewhere", &[ext4, MountNamespaces], mounted_elsewhere),
        kernel_test("loop_over_loop", &[LoopDevices], loop_over_loop),
        kernel_test("read_only_device", &[LoopDevices], read_only_device),
        kernel_test("backing_file_without_name", &[LoopDevices], backing_file_without_name),
        kernel_test("zram", &[HasZram], zram),
        kernel_test("hidden_mount", &[ext4], hidden_mount),
        kernel_test("ext4_data_journal", &[ext4], ext4_data_journal),
        kernel_test("limits_of_groups_above", &[Root], limits_of_groups_above),
        kernel_test("overlay", &[ext4, MountFs("overlay")], overlay),
        kernel_test(
            "overlay_of_two",
            &[ext4, MountFs("overlay"), MountFs("tmpfs")],
            overlay_of_two,
        ),
        kernel_test("full_and_with_discard", &[ext4], full_and_with_discard),
        kernel_test("results_on_the_target", &[ext4], results_on_the_target),
        kernel_test("without_root", &[ext4, Tool("setpriv")], without_root),
    ];
    trials.extend(content_tests::trials());
    trials.extend(extent_tests::trials());
    trials.extend(machine_tests::trials());
    trials.extend(system_tests::trials());
    run(trials)
}

fn resolve(path: &Path) -> Stack {
    stack::resolve(&SysRoot::live(), path).unwrap()
}

fn judge(stack: &Stack) -> Vec<Finding> {
    rules::judge(stack, &rules::Surroundings::default())
}

fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.as_str()).collect()
}

fn fs_facts(stack: &Stack) -> &FsFacts {
    stack.filesystem().unwrap().fs.as_ref().unwrap()
}

/// A device with all its space, that bypasses the page cache where the filesystem below allows it.
fn solid_device(size_bytes: u64) -> LoopDevice {
    LoopDevice::with(size_bytes, Content::Zeros, &LoopOptions::default()).unwrap()
}

fn ext4_geometry() {
    let uuid = "0badc0de-0000-4000-8000-00000000feed";
    let device = LoopDevice::new(64 << 20).unwrap();
    let options = [
        "-U",
        uuid,
        "-L",
        "lab",
        "-b",
        "4096",
        "-E",
        "lazy_itable_init=0,stride=16,stripe_width=64",
        "-J",
        "size=8",
    ];
    let fs = MountedFs::with(FsKind::Ext4, device, &options, "noatime").unwrap();
    let stack = resolve(&fs.dir().join("not-yet-made"));
    let facts = fs_facts(&stack);
    assert_eq!((facts.uuid.as_deref(), facts.label.as_deref()), (Some(uuid), Some("lab")));
    assert_eq!(facts.block_bytes, Some(4096));
    assert_eq!(facts.stripe_unit_bytes, Some(64 << 10));
    assert_eq!(facts.stripe_width_bytes, Some(256 << 10));
    assert_eq!((facts.groups, facts.groups_uninitialised), (Some(1), Some(0)));
    assert_eq!((facts.journal, facts.errors_count), (Some(true), Some(0)));
    assert_eq!(facts.journal_bytes, Some(8 << 20));
    assert!(
        facts.total_bytes > facts.available_bytes && facts.made_at_unix_s > Some(1_000_000_000)
    );
    let mount = stack.mount().unwrap();
    assert_eq!(mount.option_value("data"), Some("ordered"), "{mount:?}");

    let line = one_line(&stack);
    let name = fs.device().name();
    let start =
        format!("{}/not-yet-made  ext4 (noatime, data=ordered) on {name} (", fs.dir().display());
    assert!(line.starts_with(&start), "{line}");
    let below = one_line(&resolve(fs.device().backing()));
    assert!(line.ends_with(below.split_once("  ").unwrap().1), "{line}\n{below}");
    let found = ids(&judge(&stack)).join(" ");
    assert!(found.contains("loop-sparse"), "{found}");
    assert!(found.contains("loop-buffered"), "{found}");
    assert!(!found.contains("misaligned") && !found.contains("filesystem-full"), "{found}");
}

fn ext4_lazy_init() {
    // 16 groups, all to be zeroed in the background; init_itable=5000 makes the thread rest between
    // groups.
    let lazy = ["-b", "1024", "-E", "lazy_itable_init=1"];
    let device = LoopDevice::new(128 << 20).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &lazy, "init_itable=5000").unwrap();
    let root = SysRoot::live();
    let thread = hostinfo::any_process_named(&root, |name| name == "ext4lazyinit");
    assert!(thread, "the kernel thread is not seen");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let around = fathom_inspect::surroundings(&root, None, now);
    assert!(around.ext4_lazy_init_thread);
    let mut stack = resolve(fs.dir());
    let facts = fs_facts(&stack);
    assert!(facts.made_at_unix_s.is_some_and(|made| (now - 600..=now).contains(&made)));
    assert!(facts.groups_uninitialised > Some(0), "{facts:?}");
    let findings = rules::ext4_lazy_init(&stack, &around);
    assert_eq!(ids(&findings), ["ext4-lazy-init"]);
    assert!(findings[0].summary.contains("of 16 block groups are left"), "{findings:?}");
    assert!(rules::ext4_lazy_init(&stack, &rules::Surroundings::default()).is_empty());
    // As a user who may not read the device sees it: only a young filesystem is suspect.
    stack.nodes.iter_mut().find_map(|n| n.fs.as_mut()).unwrap().groups_uninitialised = None;
    assert_eq!(rules::ext4_lazy_init(&stack, &around).len(), 1);
    let later = rules::Surroundings { now_unix_s: now + 90_000, ..around.clone() };
    assert!(rules::ext4_lazy_init(&stack, &later).is_empty());

    let finished = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    assert!(rules::ext4_lazy_init(&resolve(finished.dir()), &around).is_empty());
}

fn xfs_geometry() {
    let device = LoopDevice::new(1 << 30).unwrap();
    let options = ["-L", "lab", "-b", "size=4096", "-d", "su=64k,sw=4"];
    let fs = MountedFs::with(FsKind::Xfs, device, &options, "").unwrap();
    let stack = resolve(fs.dir());
    let facts = fs_facts(&stack);
    assert_eq!((facts.block_bytes, facts.sector_bytes), (Some(4096), Some(512)));
    assert_eq!(facts.stripe_unit_bytes, Some(64 << 10));
    assert_eq!(facts.stripe_width_bytes, Some(256 << 10));
    assert_eq!(facts.internal_log, Some(true));
    assert_eq!(facts.label.as_deref(), Some("lab"));
    let admin = run_tool(
        "blkid",
        ["-o", "value", "-s", "UUID"].map(Path::new).into_iter().chain([fs.device().path()]),
    );
    assert_eq!(facts.uuid, admin.ok());
    let info = run_tool("xfs_info", [fs.dir()]).unwrap();
    let groups = facts.groups.unwrap();
    assert!(info.contains(&format!("agcount={groups},")), "{groups}\n{info}");
    let log = info.lines().find(|line| line.starts_with("log ")).unwrap();
    let blocks = facts.journal_bytes.unwrap() / 4096;
    assert!(log.contains(&format!(" blocks={blocks},")), "{blocks}\n{info}");
}

fn btrfs_of_two_devices() {
    let (one, two) = (LoopDevice::new(256 << 20).unwrap(), LoopDevice::new(256 << 20).unwrap());
    let second = two.path().display().to_string();
    let options = ["-L", "pair", "-d", "raid0", "-m", "raid1", &second];
    let fs = MountedFs::with(FsKind::Btrfs, one, &options, "").unwrap();
    let stack = resolve(fs.dir());
    let facts = fs_facts(&stack);
    assert_eq!(facts.data_profiles, ["raid0"]);
    assert_eq!(facts.metadata_profiles, ["raid1"]);
    assert_eq!((facts.label.as_deref(), facts.errors_count), (Some("pair"), Some(0)));
    let mut names = vec![fs.device().name(), two.name()];
    names.sort();
    assert_eq!(facts.devices, names);
    let top: Vec<&str> = stack.top_block_devices().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(top.len(), 2, "{top:?}");
    assert!(one_line(&stack).contains(" on 2 loop devices on "), "{stack:?}");
    assert!(ids(&judge(&stack)).contains(&"direct-io-buffered"));
    // The second device alone shows what is mounted, though no mount names it.
    let raw = resolve(two.path());
    assert_eq!(raw.top_node().unwrap().mounted_at, [fs.dir().display().to_string()]);

    let plain = fs.dir().join("plain");
    std::fs::create_dir(&plain).unwrap();
    run_tool("chattr", [Path::new("+C"), &plain]).unwrap();
    let stack = resolve(&plain);
    assert_eq!(fs_facts(&stack).target_nocow, Some(true));
    assert!(!ids(&judge(&stack)).contains(&"direct-io-buffered"));
}

fn partition_mounted_above() {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let device = LoopDevice::with(64 << 20, Content::Sparse, &options).unwrap();
    let mut sfdisk = tool("sh");
    sfdisk.args(["-c", r#"echo "start=2049, size=100000" | sfdisk -q --force "$0""#]);
    assert!(sfdisk.arg(device.path()).status().unwrap().success());
    device.reread_partitions().unwrap();
    let partition = device.partition(1);
    FsKind::Ext4.make(&partition, &[]).unwrap();
    let mount = Mount::new("ext4", &partition, "").unwrap();

    let raw = resolve(device.path());
    assert_eq!(raw.top_node().unwrap().mounted_at, [mount.dir().display().to_string()]);
    let findings = judge(&raw);
    assert!(ids(&findings).contains(&"mounted-above"), "{findings:?}");

    let inside = resolve(mount.dir());
    let node = inside.nodes.iter().find(|n| n.kind == NodeKind::Partition).unwrap();
    let facts = node.partition.as_ref().unwrap();
    assert_eq!((facts.number, facts.start_bytes), (Some(1), Some(2049 * 512)));
    assert_eq!(node.size_bytes, Some(100_000 * 512));
    let line = one_line(&inside);
    assert!(
        line.contains(&format!("on partition {}p1 on {} (", device.name(), device.name())),
        "{line}"
    );
    assert_eq!(rules::misaligned(&inside).len(), 0, "512-byte blocks: any start is aligned");
}

fn mounted_elsewhere() {
    let device = LoopDevice::new(32 << 20).unwrap();
    FsKind::Ext4.make(device.path(), &[]).unwrap();
    let elsewhere = MountedElsewhere::new(device.path()).unwrap();
    assert_eq!(resolve(device.path()).top_node().unwrap().mounted_at.len(), 1);
    drop(elsewhere);
    assert!(resolve(device.path()).top_node().unwrap().mounted_at.is_empty());
}

fn loop_over_loop() {
    let outer = LoopDevice::new(16 << 20).unwrap();
    let options = LoopOptions {
        offset_bytes: 1 << 20,
        size_limit_bytes: Some(4 << 20),
        ..LoopOptions::default()
    };
    let inner = LoopDevice::over(outer.path(), &options).unwrap();
    let stack = resolve(inner.path());
    let top = stack.top_node().unwrap();
    let facts = top.loop_device.as_ref().unwrap();
    assert_eq!((facts.offset_bytes, facts.size_limit_bytes), (Some(1 << 20), Some(4 << 20)));
    assert_eq!(top.size_bytes, Some(4 << 20));
    assert_eq!(stack.below(top).map(|n| n.name.clone()).collect::<Vec<_>>(), [outer.name()]);
}

fn read_only_device() {
    let options = LoopOptions { read_only: true, ..LoopOptions::default() };
    let device = LoopDevice::with(8 << 20, Content::Zeros, &options).unwrap();
    let findings = judge(&resolve(device.path()));
    assert!(ids(&findings).contains(&"device-read-only"), "{findings:?}");
    assert!(!ids(&findings).contains(&"loop-sparse"), "{findings:?}");
    let writable = judge(&resolve(solid_device(8 << 20).path()));
    assert!(!ids(&writable).contains(&"device-read-only"), "{writable:?}");
}

fn backing_file_without_name() {
    let device = solid_device(8 << 20);
    std::fs::remove_file(device.backing()).unwrap();
    let stack = resolve(device.path());
    let line = one_line(&stack);
    assert!(line.ends_with("disk.img (deleted) (unknown)"), "{line}");
    assert_eq!(stack.top_node().unwrap().loop_device.as_ref().unwrap().backing_size_bytes, None);
}

fn zram() {
    let device = Zram::new(16 << 20).unwrap();
    let stack = resolve(device.path());
    let top = stack.top_node().unwrap();
    assert_eq!((top.kind, top.size_bytes), (NodeKind::Zram, Some(16 << 20)));
    assert!(top.zram.as_ref().unwrap().algorithm.is_some());
    assert_eq!(rules::cache_bytes_assumed(&stack).0, 0);
    assert_eq!(rules::cache_bytes_assumed(&resolve(Path::new("/"))).0, 256 << 20);
    assert_eq!(rules::cache_bytes_assumed(&resolve(Path::new("/dev/shm"))).0, 0);
}

/// Unmounts when dropped.
struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        if let Err(error) = run_tool("umount", [&self.0]) {
            eprintln!("{error}");
        }
    }
}

/// A mount that a later one further up hides does not hold what is seen under its name.
fn hidden_mount() {
    let base = Mount::new("tmpfs", Path::new("tmpfs"), "").unwrap();
    let hidden = base.dir().join("sub");
    std::fs::create_dir(&hidden).unwrap();
    let words = |list: [&str; 3]| list.map(PathBuf::from);
    run_tool("mount", words(["-t", "tmpfs", "tmpfs"]).iter().chain([&hidden])).unwrap();
    let _hidden = Unmount(hidden.clone());
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    std::fs::create_dir(fs.dir().join("sub")).unwrap();
    let device = fs.device().path().to_path_buf();
    run_tool("mount", [device.as_path(), base.dir()]).unwrap();
    let _cover = Unmount(base.dir().to_path_buf());
    assert_eq!(resolve(&hidden).filesystem().unwrap().name, "ext4");
}

fn ext4_data_journal() {
    let device = LoopDevice::new(64 << 20).unwrap();
    let fs = MountedFs::with(FsKind::Ext4, device, &[], "data=journal").unwrap();
    assert_eq!(rules::direct_io_buffered(&resolve(fs.dir())).len(), 1);
    let plain = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    assert_eq!(rules::direct_io_buffered(&resolve(plain.dir())).len(), 0);
    // `chattr +j` needs a right that root in a container lacks: its fact stands in.
    let mut single = resolve(plain.dir());
    single.nodes.iter_mut().find_map(|n| n.fs.as_mut()).unwrap().target_data_journal = Some(true);
    assert_eq!(rules::direct_io_buffered(&single).len(), 1);
}

/// A directory in the tree of control groups, removed when dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// The limit of a group two levels above counts, in whichever version holds the memory controller.
fn limits_of_groups_above() {
    let root = SysRoot::live();
    let mounts = own_mounts(&root);
    let memory = mounts.iter().find(|mount| {
        mount.fs_type == "cgroup" && mount.super_options.split(',').any(|o| o == "memory")
            || mount.fs_type == "cgroup2"
                && root
                    .read(mount.mount_point.join("cgroup.controllers"))
                    .is_ok_and(|c| c.contains("memory"))
    });
    let Some(memory) = memory else { panic!("no memory controller is mounted") };
    let (file, limit) = match memory.fs_type.as_str() {
        "cgroup" => ("memory.limit_in_bytes", 256 << 20),
        _ => ("memory.max", 256 << 20),
    };
    if memory.fs_type == "cgroup2" {
        std::fs::write(memory.mount_point.join("cgroup.subtree_control"), "+memory").unwrap();
    }
    let outer = Group(memory.mount_point.join(format!("fathom-test-{}", std::process::id())));
    std::fs::create_dir(&outer.0).unwrap();
    let inner = Group(outer.0.join("inner"));
    std::fs::create_dir(&inner.0).unwrap();
    std::fs::write(outer.0.join(file), limit.to_string()).unwrap();
    let mut shell = tool("sh");
    shell.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$1""#]).arg(&inner.0);
    let output = shell.arg(std::env::current_exe().unwrap()).env(CHILD, "memory").output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        format!("Some({limit})"),
        "{output:?}"
    );
    drop(inner);
}

fn overlay() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    for name in ["lower", "upper", "work"] {
        std::fs::create_dir(fs.dir().join(name)).unwrap();
    }
    let at = |name: &str| fs.dir().join(name).display().to_string();
    let options =
        format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let mount = Mount::new("overlay", Path::new("overlay"), &options).unwrap();
    let stack = resolve(mount.dir());
    let line = one_line(&stack);
    assert!(
        line.contains(&format!("  overlay on ext4 (data=ordered) on {} (", fs.device().name())),
        "{line}"
    );
    assert_eq!(stack.top_block_devices()[0].name, fs.device().name());
}

/// A look shows all that files may come from; a record what its own target comes from.
fn overlay_of_two() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let memory = Mount::new("tmpfs", Path::new("tmpfs"), "size=1m").unwrap();
    let (lower, upper, work) =
        (fs.dir().join("lower"), memory.dir().join("up"), memory.dir().join("work"));
    for dir in [&lower, &upper, &work] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::write(lower.join("file"), "x").unwrap();
    let (low, up, work) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={low},upperdir={up},workdir={work}");
    let mount = Mount::new("overlay", Path::new("overlay"), &options).unwrap();
    let file = mount.dir().join("file");
    let device = fs.device().name();
    let device = device.as_str();
    let has = |nodes: &[Node], name: &str| nodes.iter().any(|node| node.name == name);
    for target in [mount.dir(), &file] {
        let machine = scan(&SysRoot::live(), &[target.to_path_buf()]).unwrap().machine;
        let nodes = &machine.nodes;
        assert!(has(nodes, device) && has(nodes, "tmpfs"), "{nodes:?}");
    }
    let of_file = resolve(&file);
    assert!(has(&of_file.nodes, device) && !has(&of_file.nodes, "tmpfs"), "{of_file:?}");
    let of_directory = resolve(mount.dir());
    assert!(!has(&of_directory.nodes, device), "{of_directory:?}");
    assert!(has(&of_directory.nodes, "tmpfs"), "{of_directory:?}");
    std::fs::write(&file, "y").unwrap();
    assert!(!has(&resolve(&file).nodes, device), "it was copied up");
}

fn full_and_with_discard() {
    let fs =
        MountedFs::with(FsKind::Ext4, LoopDevice::new(64 << 20).unwrap(), &[], "discard").unwrap();
    let before = ids(&judge(&resolve(fs.dir()))).join(" ");
    assert!(before.contains("discard-online") && !before.contains("filesystem-full"), "{before}");
    let free = fs_facts(&resolve(fs.dir())).available_bytes.unwrap();
    let fill = fs.dir().join("fill");
    let size = (free - free / 50).to_string();
    run_tool("fallocate", ["-l", &size].map(Path::new).into_iter().chain([fill.as_path()]))
        .unwrap();
    let findings = judge(&resolve(fs.dir()));
    assert!(ids(&findings).contains(&"filesystem-full"), "{findings:?}");
    fs.mount().remount("ro").unwrap();
    let findings = judge(&resolve(fs.dir()));
    assert!(ids(&findings).contains(&"mount-read-only"), "{findings:?}");
}

fn results_on_the_target() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let (data, store) = (resolve(fs.dir()), resolve(&fs.dir().join("store.db")));
    assert_eq!(ids(&rules::store_on_target(&data, &store)), ["store-on-target"]);
    assert!(rules::store_on_target(&data, &resolve(Path::new("/"))).is_empty());
}

/// A user without rights sees the same stack, and nothing complains.
fn without_root() {
    let fs = MountedFs::new(FsKind::Ext4, 64 << 20).unwrap();
    let scratch = Scratch::new().unwrap();
    let program = scratch.join("inspect");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for dir in [scratch.path(), fs.dir().parent().unwrap()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let paths =
        ["/".to_owned(), fs.dir().display().to_string(), fs.device().path().display().to_string()];
    let print = |wrapper: &[&str]| {
        let mut command = tool(wrapper.first().copied().unwrap_or("env"));
        command.args(wrapper.iter().skip(1)).arg(&program).env(CHILD, paths.join(":"));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let root = print(&[]);
    let nobody = print(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(root.0 && root.1.lines().count() == 2 * paths.len(), "{root:?}");
    assert!(nobody.0 && nobody.2.is_empty(), "{nobody:?}");
    let lines = |text: &str| text.lines().step_by(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&nobody.1), lines(&root.1));
}
