//! What an experiment leaves that was killed in namespaces of its own: put back from outside as far as it is found there, and told until
//! somebody has seen to the rest.

use crate::cli::{Done, Sandbox, names, p, run};
use crate::filesystems::mounted;
use crate::lab::{assert_same, machine, plan};
use crate::lab_kills::READ;
use fathom_testkit::Capability::{
    self, FathomBinary, FsOnLoop, MemoryController, MountNamespaces, Tool, Zram as HasZram,
};
use fathom_testkit::harness::Judged;
use fathom_testkit::{ControlGroup, FsKind, Mount, Trial, Zram, fathom_binary, kernel_test};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub fn trials() -> Vec<Trial> {
    const NEEDS: &[Capability] = &[FathomBinary, HasZram, MountNamespaces, Tool("unshare")];
    vec![
        kernel_test("lab_killed_in_namespaces", NEEDS, in_namespaces),
        kernel_test("lab_killed_in_a_container", NEEDS, in_a_container),
        kernel_test("lab_killed_in_a_container_with_devices", NEEDS, with_devices),
        kernel_test("lab_killed_with_its_mounts", NEEDS, with_its_mounts),
        kernel_test(
            "lab_killed_in_a_container_over_a_loop_device",
            &[FathomBinary, FsOnLoop(FsKind::Ext4), MountNamespaces, Tool("unshare")],
            over_a_loop_device,
        ),
        kernel_test(
            "lab_killed_in_a_container_with_less_memory",
            &[FathomBinary, MountNamespaces, MemoryController],
            with_less_memory,
        ),
    ]
}

const GIB: u64 = 1 << 30;

/// In a container nobody can see that another one is gone.
fn sees_all() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own == Path::new("pid:[4026531836]"))
}

/// A filesystem on a disk that has a name of its own in every namespace.
struct Disk {
    mount: Mount,
    zram: Zram,
}

impl Disk {
    fn new() -> Self {
        let zram = Zram::new(4 * GIB).unwrap();
        FsKind::Ext4.make(zram.path(), &[]).unwrap();
        Self { mount: Mount::new("ext4", zram.path(), "").unwrap(), zram }
    }

    /// Its queue, and how it is mounted.
    fn settings(&self) -> Vec<String> {
        let queue = Path::new("/sys/block").join(self.zram.name()).join("queue/read_ahead_kb");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = mounts.lines().filter(|line| line.contains(p(self.mount.dir())));
        own.map(str::to_owned).chain([fs::read_to_string(queue).unwrap()]).collect()
    }
}

const SETTINGS: &str = "[knobs]\nblock.read_ahead_kb = 64\next4.commit = 17\nmount.atime = 'strictatime'\n[design]\nblocks = 1\n";

/// In process and mount namespaces on the machine's own root directory, as of `unshare` or systemd: put back as everything is.
fn in_namespaces() {
    let (sandbox, disk) = (Sandbox::new(), Disk::new());
    let bound = sandbox.scratch.join("bound");
    fs::create_dir(&bound).unwrap();
    let own = sandbox.scratch.join("own");
    fs::write(&own, "1\n").unwrap();
    let knob = format!(
        "[[own_knob]]\nname = 'mine'\nread = 'cat {0}'\nwrite = 'echo {{value}} > {0}'\nvalues = ['1', '2']\n",
        p(&own)
    );
    let settings = SETTINGS.replace("[knobs]\n", "[knobs]\nown.mine = '2'\n");
    let file = plan(&sandbox, "set", &format!("{READ}{settings}{knob}"));
    let before = (machine(&sandbox, &[]), disk.settings());
    let args = ["lab", p(&file), p(&bound), "--new", "--seed=3"];
    let script =
        format!("mount --bind {} {}; \"$0\" \"$@\" || exit $?", p(disk.mount.dir()), p(&bound));
    let inside = |fault: &str| {
        run(|| {
            let shell = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", &script];
            let mut command = sandbox.command_by(&shell, &args);
            command.env("FATHOM_FAULT", fault);
            command
        })
    };
    let list = sandbox.scratch.join("points");
    let whole = inside(&format!("list:{}", p(&list)));
    assert_eq!((machine(&sandbox, &[]), disk.settings()), before, "{whole:?}");
    let number = number_of(&list, "before a measurement");
    let killed = inside(&format!("kill:{number}"));
    assert_ne!(disk.settings(), before.1, "it was killed with its settings: {killed:?}");
    assert_eq!(fs::read_to_string(&own).unwrap(), "2\n");
    let done = sandbox.run(&["restore"]);
    if !sees_all() {
        assert_eq!(done.code, 3, "{done:?}");
        return;
    }
    assert_eq!(done.code, 0, "{done:?}");
    assert_same(&before.0, &machine(&sandbox, &[]), "after restore");
    assert_eq!((disk.settings(), fs::read_to_string(&own).unwrap()), (before.1, "1\n".to_owned()));
    sandbox.nothing_left(&[disk.mount.dir()]);
}

/// The number of a place in a list of those that a whole run passes.
fn number_of(list: &Path, name: &str) -> usize {
    let text = fs::read_to_string(list).unwrap();
    let found = text.lines().position(|line| line.ends_with(name));
    1 + found.unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// A root directory of its own, in which the state directory is `/data`, and the target, a directory or a device, is at `/srv`.
const CONTAINER: &str = r#"
set -e
r=$1 state=$2 target=$3 binary=$4 plan=$5; shift 5
mount -t tmpfs none $r
for d in usr bin sbin lib lib64 etc run dev sys; do
  if [ -L /$d ]; then cp -P /$d $r/; elif [ -d /$d ]; then mkdir $r/$d; mount --rbind /$d $r/$d; fi
done
mkdir $r/proc $r/data $r/srv; mkdir -m 1777 $r/tmp
mount -t proc none $r/proc
mount --bind $state $r/data
if [ -n "$GROUP" ]; then mount --bind $GROUP $r/sys/fs/cgroup/memory; fi
if [ -b $target ]; then mount $target $r/srv; elif [ -d $target ]; then mount --bind $target $r/srv; fi
touch $r/fathom; mount --bind $binary $r/fathom
cp $plan $r/plan.toml
FATHOM_FAULT=$FAULT chroot $r /fathom --db /data/fathom.db lab /plan.toml "$@" || exit $?
"#;

/// A container, to be killed there.
struct Container<'a> {
    sandbox: &'a Sandbox,
    namespaces: &'a [&'a str],
    target: &'a Path,
    plan: &'a Path,
    args: &'a [&'a str],
}

impl Container<'_> {
    fn run(&self, fault: &str) -> Done {
        let root = self.sandbox.scratch.join("rootfs");
        let state = self.sandbox.db().parent().unwrap();
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(state).unwrap();
        let binary: PathBuf = fathom_binary().unwrap();
        run(|| {
            let mut command = std::process::Command::new("unshare");
            command.args(self.namespaces).args(["--mount", "sh", "-c", CONTAINER, "sh"]);
            command.args([&root, state, self.target, &binary, self.plan]).args(self.args);
            command.args(["--new", "--seed=3"]).env("FAULT", fault).env("LC_ALL", "C");
            command
        })
    }

    /// Killed before its first measurement.
    fn kill(&self) {
        let state = self.sandbox.db().parent().unwrap();
        let whole = self.run("list:/data/points");
        let list = state.join("points");
        assert!(list.exists(), "{whole:?}");
        let number = number_of(&list, "before a measurement");
        fs::remove_file(list).unwrap();
        let killed = self.run(&format!("kill:{number}"));
        assert_eq!(killed.code, 137, "{killed:?}");
        until_nobody_has("/srv", self.target);
    }
}

/// Processes that were killed are gone a moment later, and with the last one its mounts: until then nobody can know that they go.
fn until_nobody_has(dir: &str, target: &Path) {
    let end = format!(" {dir} ");
    let has_it = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut mounts = processes.map(|process| process.path().join("mountinfo"));
        mounts.any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(&end)))
    };
    let since = Instant::now();
    while has_it() {
        assert!(since.elapsed() < Duration::from_secs(20), "{} stays at {dir}", target.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// From outside nobody can tell that it is dead, and what it set is in force. That is said by everything that looks, until it is put back: the
/// options of the filesystem by another of its mounts.
fn in_a_container() {
    let (sandbox, disk) = (Sandbox::new(), Disk::new());
    let file = plan(&sandbox, "set", &format!("{READ}{SETTINGS}"));
    let before = disk.settings();
    let namespaces = &["--pid", "--fork"];
    let target = disk.mount.dir();
    Container { sandbox: &sandbox, namespaces, target, plan: &file, args: &["/srv"] }.kill();
    let left = disk.settings();
    assert!(left[0].contains("commit=17") && left[1].trim() == "64", "{left:?}");
    let refused = sandbox.run(&["restore"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(
        refused.stdout.contains("restore --force") && refused.stdout.contains("0 of 2 changes"),
        "{refused:?}"
    );
    let of_file = refused.stderr.lines().find(|line| line.contains("/srv/.fathom-"));
    assert!(of_file.is_some_and(|line| line.contains("fathom restore --force")), "{refused:?}");
    let listed = sandbox.run(&["restore", "--list"]);
    assert!(listed.stdout.contains("container") && listed.stdout.contains("--force"), "{listed:?}");
    let measured = sandbox.run(&["run", "randread", "null:", "duration=20ms", "warmup=0s"]);
    assert!(measured.stderr.contains("fathom restore --force"), "{measured:?}");
    let forced = sandbox.run(&["restore", "--force"]);
    if !sees_all() {
        assert_eq!(forced.code, 3, "{forced:?}");
        return;
    }
    assert_eq!((forced.code, disk.settings()), (0, before), "{forced:?}");
    sandbox.nothing_left(&[disk.mount.dir()]);
    assert_eq!(names(&sandbox.db().parent().unwrap().join("changes")), Vec::<String>::new());
}

/// It was seen to be dead, as the process namespace is ours, and its paths mean nothing here: loop device, file and directories are found by
/// what they are.
fn with_devices() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\ntype = 'ext4'\n[knobs]\nblock.read_ahead_kb = 64\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    let none = sandbox.scratch.join("none");
    let container =
        Container { sandbox: &sandbox, namespaces: &[], target: &none, plan: &file, args: &[] };
    container.kill();
    let state = sandbox.db().parent().unwrap();
    let built = || {
        let mut built = names(state);
        built.retain(|name| name.starts_with("setup-"));
        let file = built.first().map(|dir| state.join(dir).join("disk-1.img"));
        file.filter(|file| file.exists())
    };
    let loops = |file: &Path| {
        let shown = std::process::Command::new("losetup").arg("-j").arg(file).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    let file = built().unwrap();
    assert!(loops(&file).starts_with("/dev/loop"), "{}", loops(&file));
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!((built(), loops(&file)), (None, String::new()), "{done:?}");
    let left: Vec<String> =
        names(state).into_iter().filter(|name| name.starts_with("setup-")).collect();
    assert!(left.is_empty() && names(&state.join("changes")).is_empty(), "{left:?}");
    sandbox.nothing_left(&[]);
}

/// The file of the loop device has no path there, so that it is known by its number: here it is still the same.
fn over_a_loop_device() {
    let (sandbox, disk) = (Sandbox::new(), mounted(FsKind::Ext4, &[], ""));
    let file = plan(&sandbox, "set", &format!("{READ}{SETTINGS}"));
    let look = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own: Vec<String> =
            mounts.lines().filter(|line| line.contains(p(disk.dir()))).map(str::to_owned).collect();
        (machine(&sandbox, &[disk.device()]), own)
    };
    let before = look();
    let target = disk.dir();
    let args = &["/srv"];
    Container { sandbox: &sandbox, namespaces: &[], target, plan: &file, args }.kill();
    assert_ne!(look().0, before.0, "it was killed with its settings");
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 0, "{done:?}");
    let after = look();
    assert_same(&before.0, &after.0, &format!("{done:?}"));
    assert_eq!(before.1, after.1, "{done:?}");
    sandbox.nothing_left(&[disk.dir()]);
}

/// A filesystem that was mounted there alone is not found: that is said until somebody says that it may be forgotten.
fn with_its_mounts() {
    let (sandbox, zram) = (Sandbox::new(), Zram::new(4 * GIB).unwrap());
    FsKind::Ext4.make(zram.path(), &[]).unwrap();
    let file = plan(&sandbox, "set", &format!("{READ}{SETTINGS}"));
    let (target, args) = (zram.path(), &["/srv"]);
    Container { sandbox: &sandbox, namespaces: &[], target, plan: &file, args }.kill();
    let changes = sandbox.db().parent().unwrap().join("changes");
    for _ in 0..2 {
        let done = sandbox.run(&["restore"]);
        assert_eq!(done.code, 3, "{done:?}");
        for part in ["/srv is not mounted any more", "ext4.commit was 5", "fathom restore --force"]
        {
            assert!(done.stdout.contains(part), "{part}: {done:?}");
        }
        assert_eq!(names(&changes).len(), 1);
    }
    let forced = sandbox.run(&["restore", "--force"]);
    // The test files that it had there are still looked for.
    assert_eq!((forced.code, names(&changes)), (4, vec![]), "{forced:?}");
    assert!(forced.stdout.contains("forgotten"), "{forced:?}");
    let queue = Path::new("/sys/block").join(zram.name()).join("queue/read_ahead_kb");
    assert_ne!(fs::read_to_string(queue).unwrap().trim(), "64", "a device is found by its name");
}

/// Its control groups begin with its own one: what it made lies below that, under another path than it noted.
fn with_less_memory() -> Judged {
    let sandbox = Sandbox::new();
    let group = ControlGroup::of_memory(GIB).unwrap();
    if !group.path().starts_with("/sys/fs/cgroup/memory") {
        return Judged::Skipped("in groups of version 2 one with processes limits none".into());
    }
    let enter = format!(
        "export GROUP={}; echo $$ > $GROUP/cgroup.procs; exec unshare --cgroup \"$@\"",
        p(group.path())
    );
    let prepare = "[design]\nblocks = 1\n[prepare]\nmemory_limit = '256MiB'\n";
    let file = plan(&sandbox, "less", &format!("target = 'null:'\n{READ}{prepare}"));
    let none = sandbox.scratch.join("none");
    let namespaces = &["sh", "-c", &enter, "sh"];
    Container { sandbox: &sandbox, namespaces, target: &none, plan: &file, args: &[] }.kill();
    let left = || {
        let mut left = names(group.path());
        left.retain(|name| name.starts_with("fathom-memory-"));
        left
    };
    assert_eq!(left().len(), 1);
    let done = sandbox.run(&["restore"]);
    assert_eq!((done.code, left()), (0, vec![]), "{done:?}");
    assert_eq!(names(&sandbox.db().parent().unwrap().join("changes")), Vec::<String>::new());
    Judged::Passed
}
