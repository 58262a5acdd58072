//! `fathom lab`: what would end an experiment at its first trial is told by `--dry-run`, and refused before anything is changed.

use crate::cli::{Sandbox, p, run};
use crate::filesystems::mounted;
use crate::lab::plan;
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, LoopDevices, Root, Tool};
use fathom_testkit::{FsKind, LoopDevice, Mount, Trial, kernel_test};
use std::fs;
use std::path::{Path, PathBuf};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("lab_refuses_targets_first", &[FathomBinary], targets),
        kernel_test("lab_refuses_read_only_directories_first", &[FathomBinary, Root], read_only),
        kernel_test(
            "layers_without_rights",
            &[FathomBinary, FsOnLoop(FsKind::Ext4), Tool("setpriv")],
            layers_without_rights,
        ),
        kernel_test("lab_refuses_own_knobs_first", &[FathomBinary], own_knobs),
        kernel_test("lab_refuses_own_knobs_before_a_setup", &[FathomBinary, Root], before_setup),
        kernel_test("lab_names_what_is_no_plan", &[FathomBinary, Root], no_plans),
        kernel_test("lab_refuses_memory_first", &[FathomBinary, Root], memory),
        kernel_test("lab_refuses_contradictions_as_usage", &[FathomBinary, Root], contradictions),
        kernel_test(
            "raid_overwrites_nothing_without_its_tool",
            &[FathomBinary, LoopDevices],
            no_mdadm,
        ),
        kernel_test("raid_says_what_cannot_be_built", &[FathomBinary, Tool("mdadm")], arrays),
    ]
}

const SHORT: &str = "duration = '50ms'\nwarmup = '0s'\n";

/// A knob that can be read and written; what is written to it is added to its file.
struct Witness {
    file: PathBuf,
    text: String,
}

impl Witness {
    fn new(sandbox: &Sandbox) -> Self {
        let file = sandbox.scratch.join("witness");
        fs::write(&file, "a\n").unwrap();
        let text = format!(
            "[[own_knob]]\nname = 'seen'\nread = 'tail -n 1 {0}'\nwrite = 'echo {{value}} >> {0}'\nvalues = ['a', 'b']\n",
            p(&file)
        );
        Self { file, text }
    }

    /// Dry and for real the plan is refused in the same words, and nothing was set for it.
    #[track_caller]
    fn refuses(&self, sandbox: &Sandbox, file: &Path, code: i32, words: &[&str]) {
        let dry = sandbox.run(&["lab", p(file), "--dry-run"]);
        assert_eq!(dry.code, code, "{dry:?}");
        // Lines end where the screen does.
        let told = dry.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(told.contains(word), "'{word}' is not in {dry:?}");
        }
        sandbox.refuses(&["lab", p(file)], code, words);
        assert_eq!(fs::read_to_string(&self.file).unwrap(), "a\n", "{words:?}");
    }
}

/// Devices are measured alone before they are measured as an array: not where there can be no array.
fn no_mdadm() {
    const SIZE: u64 = 32 << 20;
    let sandbox = Sandbox::new();
    let devices = [0; 3].map(|_| LoopDevice::new(SIZE).unwrap());
    let mark = vec![b'x'; SIZE as usize];
    devices.iter().for_each(|device| fs::write(device.path(), &mark).unwrap());
    let mut args = vec!["raid".to_owned(), "--time=100ms".to_owned(), "--size=all".to_owned()];
    for device in &devices {
        args.extend([
            device.path().display().to_string(),
            format!("--destroy={}", device.backing().display()),
        ]);
    }
    let done = run(|| {
        let mut command = sandbox.command(&args.iter().map(String::as_str).collect::<Vec<_>>());
        command.env("PATH", sandbox.scratch.path());
        command
    });
    assert_eq!(done.code, 4, "{done:?}");
    for device in &devices {
        assert!(fs::read(device.path()).unwrap() == mark, "{done:?}");
    }
    sandbox.nothing_left(&[]);
}

/// A directory in which no test file can be made.
fn read_only() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let mount = Mount::new("tmpfs", Path::new("none"), "ro").unwrap();
    let text = format!(
        "target = '{}'\n[[workload]]\nuse = 'randread'\n{SHORT}size = '2MiB'\n[knobs]\nown.seen = 'b'\n[design]\nblocks = 1\n{}",
        p(mount.dir()),
        witness.text
    );
    let words = ["cannot make files in", "mounted read-only", "remount,rw"];
    witness.refuses(&sandbox, &plan(&sandbox, "read-only", &text), 2, &words);
}

/// Files of somebody's, and what no file can be made of.
fn targets() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let theirs = sandbox.scratch.join("theirs");
    fs::write(&theirs, vec![b'x'; 1 << 20]).unwrap();
    let dir = sandbox.dir();
    let set = "[knobs]\nown.seen = 'b'\n[design]\nblocks = 1\n";
    let of = |load: &str, target: &Path, more: &str| {
        let (target, own) = (p(target), &witness.text);
        plan(
            &sandbox,
            "target",
            &format!(
                "target = '{target}'\n[[workload]]\nuse = '{load}'\n{SHORT}{more}\n{set}{own}"
            ),
        )
    };
    for (load, target, more, code, words) in [
        ("randwrite", &theirs, "", 3, "was not made by fathom, so it is only read"),
        ("randwrite", &theirs, "size = '2MiB'", 2, "size=2MiB is for files that fathom makes"),
        ("randread", &theirs, "size = '2MiB'", 2, "size=2MiB is for files that fathom makes"),
        ("randread", &theirs, "files = 4", 2, "is no directory"),
        ("randread", &theirs, "block_size = '2MiB'", 2, "but one request is 2 MiB"),
        ("randread", &dir.join("new"), "", 2, "does not exist; to make it, say how large"),
        ("randread", &dir.join("no/new"), "size = '2MiB'", 2, "there is no directory"),
    ] {
        witness.refuses(&sandbox, &of(load, target, more), code, &[words]);
    }
    assert_eq!(fs::read(&theirs).unwrap(), vec![b'x'; 1 << 20], "it is as it was");
    // What a program makes is not there yet, and what is read may be somebody's.
    let made = dir.join("made");
    let text = format!(
        "target = '{0}'\n[[workload]]\nlabel = 'make'\ncommand = 'head -c 1M /dev/zero > {1}'\n\
         [[workload]]\nuse = 'randread'\ntarget = '{1}'\n{SHORT}[design]\nblocks = 1\n",
        p(&theirs),
        p(&made)
    );
    let dry = plan(&sandbox, "made", &text);
    let done = sandbox.run(&["lab", p(&dry), "--dry-run"]);
    assert_eq!(done.code, 0, "{done:?}");
}

/// What stands first in the refusal is what was asked for, and not the device below it.
fn layers_without_rights() {
    let sandbox = Sandbox::new();
    let binary = crate::cli::binary_for_nobody(&sandbox.scratch);
    let ext4 = mounted(FsKind::Ext4, &[], "");
    let dir = ext4.dir();
    std::os::unix::fs::chown(dir, Some(65534), Some(65534)).unwrap();
    let own = sandbox.scratch.join("own");
    fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
    let refused = crate::cli::run(|| {
        let mut command = crate::cli::as_nobody(&binary);
        command.arg("--db").arg(own.join("fathom.db")).args(["layers", p(dir), "size=4M"]);
        command
    });
    let told = format!("{}: no layer below it can be read to compare with (/dev/loop", p(dir));
    assert!(refused.code == 4 && refused.stderr.contains(&told), "{refused:?}");
}

/// Commands that say nothing, and what could not be put back.
fn own_knobs() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let value = sandbox.scratch.join("value");
    fs::write(&value, "7\n").unwrap();
    let load = format!("target = 'null:'\n[[workload]]\nuse = 'randread'\nsize = '1M'\n{SHORT}");
    // The witness would be set first.
    let set = "[knobs]\nown.seen = 'b'\nown.zz = '1'\n[design]\nblocks = 1\n";
    for (read, code, words) in [
        ("false".to_owned(), 4, "cannot read own.zz of zz: `false`: failed"),
        ("/no/such/command".to_owned(), 4, "cannot read own.zz of zz"),
        ("true".to_owned(), 4, "`true` printed nothing"),
        (format!("cat {}", p(&value)), 2, "own.zz cannot be '7'"),
    ] {
        let own = format!(
            "[[own_knob]]\nname = 'zz'\nread = '{read}'\nwrite = 'echo {{value}} > {}'\nvalues = [1, 2]\n",
            p(&value)
        );
        let file = plan(&sandbox, "own", &format!("{load}{set}{}{own}", witness.text));
        witness.refuses(&sandbox, &file, code, &[words]);
        assert_eq!(fs::read_to_string(&value).unwrap(), "7\n");
        // Nobody uses it.
        let file = plan(
            &sandbox,
            "own",
            &format!("{load}{}{}{own}", set.replace("own.zz = '1'\n", ""), witness.text),
        );
        let dry = sandbox.run(&["lab", p(&file), "--dry-run"]);
        assert_eq!(dry.code, 0, "{dry:?}");
    }
}

/// What cannot be read before the setup is told before anything is overwritten, unless the plan says that only the setup has it.
fn before_setup() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let (value, state) = (sandbox.scratch.join("value"), sandbox.db().parent().unwrap());
    fs::write(&value, "1\n").unwrap();
    let load = "[[workload]]\nlabel = 'none'\ncommand = 'true'\n[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext2'\n\
        [[objective]]\nmetric = 'application'\n";
    let set = "[knobs]\nown.seen = 'b'\nown.zz = '2'\n[design]\nblocks = 1\nsentinel = false\n[prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\n";
    // Mounts of the setup lie in the state directory.
    let read = format!("grep -q \" {}/\" /proc/self/mounts && cat {}", p(state), p(&value));
    let own = |more: &str| {
        let write = format!("echo {{value}} > {}", p(&value));
        let own = format!(
            "[[own_knob]]\nname = 'zz'\nread = '{read}'\nwrite = '{write}'\nvalues = [1, 2]\n"
        );
        plan(&sandbox, "built", &format!("{load}{set}{}{own}{more}", witness.text))
    };
    let words = [
        "cannot read own.zz of zz:",
        "if only what the setup builds has it, say so with needs_setup = true",
    ];
    witness.refuses(&sandbox, &own(""), 4, &words);
    assert!(!state.exists() || fs::read_dir(state.join("changes")).is_err(), "nothing was begun");
    let file = own("needs_setup = true\n");
    let dry = sandbox.run(&["lab", p(&file), "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    let told = dry.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("own.zz is read only when the setup is built"), "{dry:?}");
    let done = sandbox.run(&["lab", p(&file)]);
    assert!(done.code <= 1, "{done:?}");
    assert!(done.stderr.contains("own.zz is read only when the setup is built"), "{done:?}");
    assert_eq!(fs::read_to_string(&value).unwrap(), "1\n");
}

/// What is typed in the place of a plan is named, with what helps; `null:` has no devices.
fn no_plans() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir();
    let cure = format!("fathom lab PLAN {}", p(&dir));
    for (name, words) in [
        (p(&dir), &["that is a directory", cure.as_str()][..]),
        ("/dev/null", &["that is a character device", "fathom lab lists the plans"]),
        ("/no/such/plan", &["there is no such file"]),
        ("no-such-plan", &["neither a plan that comes with fathom nor a file"]),
    ] {
        sandbox.refuses(&["lab", name], 2, words);
        sandbox.refuses(&["lab", name, "--dry-run"], 2, words);
    }
    let dry = sandbox.run(&["lab", "scheduler", "null:", "--dry-run"]);
    let told = dry.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(dry.code, 4, "{dry:?}");
    assert!(
        told.contains("block.scheduler: null: has no scheduler, for it is fathom itself"),
        "{dry:?}"
    );
}

/// More than there is.
fn memory() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let load = format!("target = 'null:'\n[[workload]]\nuse = 'randread'\nsize = '1M'\n{SHORT}");
    let set = "[knobs]\nown.seen = 'b'\n[design]\nblocks = 1\n";
    let calm = "[prepare]\nsettle = '0s'\nquiet = '0s'\ndrop_caches = false\n";
    for (more, code, words) in [
        ("memory_floor = '100TiB'", 4, "memory_floor = 100 TiB is more than this machine has"),
        ("memory_limit = '100TiB'", 4, "memory_limit = 100 TiB is more than this machine has"),
        ("memory_floor = '65MiB'\nmemory_limit = '64MiB'", 2, "memory_floor = 65 MiB can never"),
    ] {
        let text = format!("{load}{set}{}{calm}{more}\n", witness.text);
        witness.refuses(&sandbox, &plan(&sandbox, "memory", &text), code, &[words]);
    }
}

/// What the plan itself gets wrong is no lack of the machine.
fn contradictions() {
    let sandbox = Sandbox::new();
    let witness = Witness::new(&sandbox);
    let dir = p(&sandbox.dir()).to_owned();
    let load = format!("target = '{dir}'\n[[workload]]\nuse = 'randread'\nsize = '1M'\n{SHORT}");
    for (knobs, words) in [
        ("vm.dirty_bytes = 100000000\nvm.dirty_ratio = 20", "give only one of them"),
        ("'block.scheduler@sdzz' = 'none'", "nothing in the stack is called 'sdzz'"),
    ] {
        let own = &witness.text;
        let text = format!("{load}[knobs]\nown.seen = 'b'\n{knobs}\n[design]\nblocks = 1\n{own}");
        witness.refuses(&sandbox, &plan(&sandbox, "knobs", &text), 2, &[words]);
    }
    let twice = "[factors]\nblock.read_ahead_kb = [128, '128KiB']\n[design]\nblocks = 1\n";
    let file = plan(&sandbox, "twice", &format!("{load}{twice}"));
    sandbox.refuses(&["lab", p(&file), "--dry-run"], 2, &["the level 128 means the same"]);
}

/// A kernel without arrays refuses the rest, and says all of this before.
fn arrays() {
    let sandbox = Sandbox::new();
    fn of<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["raid"][..], &["loop:64MiB"; 4], more].concat()
    }
    sandbox.refuses(&of(&["--chunk=64k,3k"]), 2, &["--chunk=3k: the chunk of raid0 must be"]);
    sandbox.refuses(&of(&["--level=raid0", "--layout=n2"]), 2, &["--layout=n2: of the levels"]);
    let dry = sandbox.run(&of(&["--level=raid0,raid5", "--chunk=64k,12k", "--dry-run"]));
    let told = dry.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "n/a: the chunk of raid5 must be a power of two from 4k, and 12k is none: cell",
        "n/a: raid0 has no redundancy and is never degraded: cell",
        "level=raid0 chunk=12k state=normal",
        "one member is measured alone, without an array, under the same loads: 3 trials",
    ] {
        assert!(told.contains(words), "'{words}' is not in {dry:?}");
    }
    assert!(!told.contains("level=raid0 layout="), "{dry:?}");
}
