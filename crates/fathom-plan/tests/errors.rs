//! Wrong plans and what is said about them: file, line, key, value, cause, cure. `UPDATE_EXPECT=1` writes the texts anew.
#![expect(clippy::expect_used, reason = "a test's panic is its report")]

use expect_test::{Expect, expect};
use fathom_model::plan::PlanWorkload;
use fathom_plan::{Known, read, workload_of};

/// A registry with a few knobs, which answers as a real one does.
struct Few;

impl Known for Few {
    fn knob(&self, id: &str) -> Result<(), String> {
        let known =
            ["block.scheduler", "block.nr_requests", "block.read_ahead_kb", "vm.swappiness"];
        if known.contains(&id) {
            return Ok(());
        }
        let near = fathom_base::suggest::hint(id, known);
        Err(format!("no such knob{near}"))
    }

    fn knob_value(&self, id: &str, value: &str) -> Result<(), String> {
        let schedulers = ["none", "mq-deadline", "bfq", "kyber"];
        match id {
            "block.scheduler" if schedulers.contains(&value) => Ok(()),
            "block.scheduler" => {
                let near = fathom_base::suggest::hint(value, schedulers);
                Err(format!("takes none, mq-deadline, bfq, kyber{near}"))
            }
            "block.nr_requests" if value.parse().is_ok_and(|n: u32| n >= 4) => Ok(()),
            "block.nr_requests" => Err("takes a number from 4".into()),
            _ => value.parse::<u64>().map(|_| ()).map_err(|_| "takes a number".into()),
        }
    }

    fn in_unit(&self, id: &str, value: &str) -> String {
        let unit = if id == "block.read_ahead_kb" { "KiB" } else { "" };
        value.strip_suffix(unit).unwrap_or(value).to_owned()
    }

    fn workload(&self, workload: &PlanWorkload) -> Result<(), String> {
        workload_of(workload, None).map(|_| ())
    }
}

/// A plan that is right, to which a test adds what is wrong.
const BASE: &str = "question = \"Which?\"\ntarget = \"/srv/data\"\n[[workload]]\nuse = \"randread\"\nduration = \"10s\"\n";
/// A plan without a target, for setups, to which a test adds from line 5 on.
const BARE: &str = "question = \"Which?\"\n[[workload]]\nuse = \"randread\"\nduration = \"10s\"\n";
/// Factors for designs, from line 6 on.
const FACTORS: &str = "[factors]\nblock.scheduler = [\"none\", \"bfq\", \"kyber\"]\nblock.nr_requests = [64, 128]\n[design]\n";

/// Reads each plan and compares what is said of it; the plan's own part stands above in one line.
#[track_caller]
fn check(plans: &[(&str, String)], expected: &Expect) {
    let mut found = String::new();
    for (base, more) in plans {
        let error = read(&format!("{base}{more}\n"), "my.toml", &Few).expect_err(more).to_string();
        let said = error.strip_prefix("plan 'my.toml'").expect("it names the file");
        let own = more.strip_prefix(FACTORS).unwrap_or(more);
        let shown: Vec<&str> = own.lines().map(str::trim).collect();
        let mut shown = shown.join(" / ");
        shown.truncate(120);
        found += &format!("{shown}\n   {}\n", said.trim_start_matches([',', ':']));
    }
    expected.assert_eq(&found);
}

#[test]
fn the_right_ones_are_right() {
    read(BASE, "my.toml", &Few).expect("valid");
    read(&format!("{BASE}{FACTORS}"), "my.toml", &Few).expect("valid");
    read(&format!("{BARE}[setup]\ndevices = [\"loop:1G\"]"), "my.toml", &Few).expect("valid");
}

#[test]
fn the_file() {
    let plans = [
        ("", "question = ".to_owned()),
        ("", "question = \"a\"\nquestion = \"b\"\n".to_owned()),
        ("", "".to_owned()),
        ("", "question = 5\n".to_owned()),
        ("", "question = \"Which?\"\ntarget = \"/srv\"\n".to_owned()),
        ("", BASE.replace("target = \"/srv/data\"\n", "")),
        ("", BASE.replace("/srv/data", "data")),
        ("", BASE.replace("target", "traget")),
        ("", BASE.replace("target = \"/srv/data\"", "[filesystem]\ntype = \"ext4\"")),
        ("", BASE.replace("[[workload]]", "mount.noatime = true\n[[workload]]")),
        ("", format!("version = 9\n{BASE}")),
        ("", format!("name = \"a b\"\n{BASE}")),
        ("", format!("on_error = \"ignore\"\n{BASE}")),
        ("", format!("together = true\n{BASE}")),
        ("", BASE.replace("/srv/data", "<target>")),
    ];
    check(
        &plans,
        &expect![[r#"
        question =
            line 1: this is no TOML: string values must be quoted, expected literal string
        question = "a" / question = "b"
            line 2: this is no TOML: duplicate key

            says no question; write for example: question = "Which scheduler suits this load?"
        question = 5
            line 1: question = 5: takes text in quotation marks
        question = "Which?" / target = "/srv"
            measures nothing; write for example:  [[workload]]  use = "randread"  duration = "30s"
        question = "Which?" / [[workload]] / use = "randread" / duration = "10s"
            says nowhere what is measured; write target = "/srv/data", or [setup] with devices
        question = "Which?" / target = "data" / [[workload]] / use = "randread" / duration = "10s"
            line 2: target = 'data': must be a path that starts with / (a directory, a file or a block device), or "null:" (no storage)
        question = "Which?" / traget = "/srv/data" / [[workload]] / use = "randread" / duration = "10s"
            line 2: traget: unknown key; did you mean 'target'?
        question = "Which?" / [filesystem] / type = "ext4" / [[workload]] / use = "randread" / duration = "10s"
            line 2: filesystem: unknown key; did you mean [setup.filesystem]?
        question = "Which?" / target = "/srv/data" / mount.noatime = true / [[workload]] / use = "randread" / duration = "10s"
            line 3: mount: unknown key; did you mean [setup.mount]?
        version = 9 / question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / duration = "10s"
            line 1: version = 9: this fathom reads plans up to version 1; take a newer one
        name = "a b" / question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / duration = "10s"
            line 1: name = 'a b': a name has letters, digits, - and _, at most 60
        on_error = "ignore" / question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / duration = "10s"
            line 1: on_error = 'ignore': must be one of stop, continue
        together = true / question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / duration = "10s"
            line 1: together: there is one workload, and nothing that it could run together with
        question = "Which?" / target = "<target>" / [[workload]] / use = "randread" / duration = "10s"
            line 2: target = '<target>': 'target' is still to be filled in; write the real one in its place
    "#]],
    );
}

#[test]
fn workloads() {
    let plans = [
        ("", BASE.replace("randread", "randraed")),
        ("", BASE.replace("duration", "durations")),
        ("", BASE.replace("10s", "10")),
        (BASE, "write_fraction = 2".to_owned()),
        (BASE, "batch = 64".to_owned()),
        (BASE, "repeats = 3".to_owned()),
        (BASE, "seed = 3".to_owned()),
        (BASE, "[[workload]]\nuse = \"randread\"".to_owned()),
        (BASE, "[[workload]]\nlabel = \"a\"".to_owned()),
        (BASE, "[[workload]]\nuze = \"commit\"".to_owned()),
        (BASE, "[[workload]]\nuse = \"commit\"\ncommand = \"x\"".to_owned()),
        (BASE, "[[workload]]\ncommand = \"bench -t 4\"\nthreads = 4".to_owned()),
        (BASE, "[[workload]]\nuse = \"commit\"\nlabel = \"a b\"".to_owned()),
        ("", BASE.replace("[[workload]]", "[workload]")),
        (BASE, "[[workload]]\ncommand = \"bench\"\ntimeout = 5".to_owned()),
        (BASE, "[[workload]]\ncommand = \"bench\"\ntimeout = \"0s\"".to_owned()),
        (BASE, "[[workload]]\ncommand = \"bench\"\nfigure.tps = \"tps\"".to_owned()),
        (BASE, "[[workload]]\nuse = \"iozone\"".to_owned()),
        (BASE, "[[workload]]\nuse = \"iozone\"\nphase = \"wrte\"".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
            question = "Which?" / target = "/srv/data" / [[workload]] / use = "randraed" / duration = "10s"
                line 4: workload.use = 'randraed': unknown workload 'randraed'; did you mean 'randread'?; built in: randomio, seeker, randread, randwrite, seqread, seqwrite, commit, oltp, replication, randomio-exact, iozone, sysbench-fileio, tiobench, bonnie, hdparm, dd, sdd (or the path of a workload file, *.toml)
            question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / durations = "10s"
                line 5: workload.durations = '10s': unknown key 'durations'; did you mean 'duration'?
            question = "Which?" / target = "/srv/data" / [[workload]] / use = "randread" / duration = "10"
                line 5: workload.duration = '10': '10' needs a unit: 10s, 10m, 10ms, ... (takes 60s, 2m, ...)
            write_fraction = 2
                line 6: workload.write_fraction = 2: '2' is out of range: a fraction goes from 0 to 1 (0% to 100%) (takes 0..1 or %)
            batch = 64
                line 4: workload.use = 'randread': job 'read': batch=64 completions cannot come from depth=32 requests
            repeats = 3
                line 6: workload.repeats: unknown key; an experiment has blocks, which repeat all trials, under [design]
            seed = 3
                line 6: workload.seed: unknown key; an experiment has one seed under [design]
            [[workload]] / use = "randread"
                line 3: workload: two workloads are called 'randread'; give each a label = "..." of its own
            [[workload]] / label = "a"
                line 6: workload: needs use = "randread" (fathom workloads lists them, or a file) or command = "..."
            [[workload]] / uze = "commit"
                line 7: workload.uze: unknown key; did you mean 'use'?
            [[workload]] / use = "commit" / command = "x"
                line 6: workload: use and command exclude each other; write two workloads
            [[workload]] / command = "bench -t 4" / threads = 4
                line 8: workload.threads: commands take timeout, takes, figure.NAME, and what has a place such as {threads} in them
            [[workload]] / use = "commit" / label = "a b"
                line 8: workload.label = 'a b': a label has letters, digits, - and _
            question = "Which?" / target = "/srv/data" / [workload] / use = "randread" / duration = "10s"
                line 3: workload = {...}: must be written as [[workload]], with two brackets
            [[workload]] / command = "bench" / timeout = 5
                line 8: workload.timeout = 5: '5' needs a unit: 5s, 5m, 5ms, ...
            [[workload]] / command = "bench" / timeout = "0s"
                line 8: workload.timeout = '0s': no command ends in no time; leave it out for the longest
            [[workload]] / command = "bench" / figure.tps = "tps"
                line 8: workload.figure.tps = 'tps': write the text around the number, with {} for the number (tps = {}), where it is in JSON (json:tps.mean), or a regular expression (re:tps = ([0-9.]+))
            [[workload]] / use = "iozone"
                line 7: workload.use = 'iozone': has the phases write, rewrite, read, reread, random read, random write; a trial measures one: phase = "write"
            [[workload]] / use = "iozone" / phase = "wrte"
                line 7: workload.use = 'iozone': the workload has no phase 'wrte'; did you mean 'write'?; it has write, rewrite, read, reread, random read, random write
        "#]],
    );
}

#[test]
fn factors_and_levels() {
    let plans = [
        (BASE, "[factors]\nblock.schedular = [\"none\", \"bfq\"]".to_owned()),
        (BASE, "[factors]\n\"block.scheduler\" = [\"none\", \"bqf\"]".to_owned()),
        (BASE, "[factors]\nblock.nr_requests = [\n  4,\n  2,\n]".to_owned()),
        (BASE, "[factors]\nblock.scheduler = [\"none\"]".to_owned()),
        (BASE, "[factors]\nblock.scheduler = []".to_owned()),
        (BASE, "[factors]\nboot.\"a b\" = [\"1\", \"2\"]".to_owned()),
        (BASE, "[factors]\nblock.scheduler = [\"none\", \"bfq\", \"none\"]".to_owned()),
        (BASE, "[factors]\nworkload.block_size = [\"4k\", 4096]".to_owned()),
        (BASE, "[factors]\nblock.read_ahead_kb = [128, \"128KiB\"]".to_owned()),
        (BASE, "[factors]\nworkload.blocksize = [\"4k\", \"8k\"]".to_owned()),
        (BASE, "[factors]\nworkload.threads = [1, 0]".to_owned()),
        (BASE, "[factors]\nworkload.duration = [\"1s\", \"2s\"]".to_owned()),
        (BASE, "[factors]\nfilesytem.type = [\"ext4\", \"xfs\"]".to_owned()),
        (BASE, "[factors]\ndepth = [1, 8]".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
            [factors] / block.schedular = ["none", "bfq"]
                line 7: factors.block.schedular: no such knob; did you mean 'block.scheduler'?
            [factors] / "block.scheduler" = ["none", "bqf"]
                line 7: factors.block.scheduler = 'bqf': takes none, mq-deadline, bfq, kyber; did you mean 'bfq'?
            [factors] / block.nr_requests = [ / 4, / 2, / ]
                line 9: factors.block.nr_requests = 2: takes a number from 4
            [factors] / block.scheduler = ["none"]
                line 7: factors.block.scheduler: varies nothing with 1 level; give two or more, or move it to [knobs]
            [factors] / block.scheduler = []
                line 7: factors.block.scheduler: has no levels; give two or more
            [factors] / boot."a b" = ["1", "2"]
                line 7: factors.boot.a b: no parameter has such a name: the kernel's command line has NAME=LEVEL, in words
            [factors] / block.scheduler = ["none", "bfq", "none"]
                line 7: factors.block.scheduler = 'none': is there twice
            [factors] / workload.block_size = ["4k", 4096]
                line 7: factors.workload.block_size = 4096: the level 4k means the same; leave out one of them
            [factors] / block.read_ahead_kb = [128, "128KiB"]
                line 7: factors.block.read_ahead_kb = '128KiB': the level 128 means the same; leave out one of them
            [factors] / workload.blocksize = ["4k", "8k"]
                line 7: factors.workload.blocksize: workloads have no such key; did you mean 'block_size'?
            [factors] / workload.threads = [1, 0]
                line 7: factors.workload.threads = 0: must be between 1 and 65536 (takes N)
            [factors] / workload.duration = ["1s", "2s"]
                line 7: factors.workload.duration: workload 'randread' sets duration itself; leave it out there
            [factors] / filesytem.type = ["ext4", "xfs"]
                line 7: factors.filesytem.type: neither a knob nor a part of a setup; did you mean 'filesystem.type'?
            [factors] / depth = [1, 8]
                line 7: factors.depth: is a setting of workloads; as a factor: workload.depth
        "#]],
    );
}

#[test]
fn factors_beside_each_other() {
    let plans = [
        (BASE, "[factors]\nown.ncq = [\"on\", \"off\"]".to_owned()),
        (BASE, "[factors]\n\"block.scheduler@\" = [\"none\", \"bfq\"]".to_owned()),
        (BASE, "[factors]\ncompanion = [\"none\", \"memroy\"]".to_owned()),
        (
            BASE,
            "[factors]\nblock.scheduler = { levels = [\"none\", \"bfq\"], label = \"s\" }"
                .to_owned(),
        ),
        (
            BASE,
            "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\n\"scheduler\" = [1, 2]".to_owned(),
        ),
        (
            BASE,
            "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\nnull.scheduler = [1, 2]".to_owned(),
        ),
        (BASE, "[factors]\nblock.scheduler = [\"none\", \"\"]".to_owned()),
        (BASE, "[factors]\nblock.scheduler = [\"none\", [\"bfq\"]]".to_owned()),
        (
            BASE,
            "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\n[knobs]\nblock.scheduler = \"none\""
                .to_owned(),
        ),
        (BASE, "[factors]\nworkload.depth = [8, 32]\nworkload.batch = [64, 128]".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
        [factors] / own.ncq = ["on", "off"]
            line 7: factors.own.ncq: no [[own_knob]] is called 'ncq'
        [factors] / "block.scheduler@" = ["none", "bfq"]
            line 7: factors.block.scheduler@: after @ stands which devices it is for: @sda, @members, @top
        [factors] / companion = ["none", "memroy"]
            line 7: factors.companion = 'memroy': is no companion; did you mean 'memory'? (a program needs its whole path)
        [factors] / block.scheduler = { levels = ["none", "bfq"], label = "s" }
            line 7: factors.block.scheduler.label: unknown key; known here: name, levels
        [factors] / block.scheduler = ["none", "bfq"] / "scheduler" = [1, 2]
            line 8: factors.scheduler: no such knob; did you mean 'block.scheduler'?
        [factors] / block.scheduler = ["none", "bfq"] / null.scheduler = [1, 2]
            line 8: factors.null.scheduler: another factor is called 'scheduler' too; give this one a name: "null.scheduler" = { name = "...", levels = [...] }
        [factors] / block.scheduler = ["none", ""]
            line 7: factors.block.scheduler = '': a level must not be empty
        [factors] / block.scheduler = ["none", ["bfq"]]
            line 7: factors.block.scheduler: takes one value, not a list
        [factors] / block.scheduler = ["none", "bfq"] / [knobs] / block.scheduler = "none"
            line 9: knobs.block.scheduler: the factor block.scheduler varies it; leave it out here
        [factors] / workload.depth = [8, 32] / workload.batch = [64, 128]
            line 7: factors.workload.depth = '8': is possible in no cell: job 'read': batch=64 completions cannot come from depth=8 requests
    "#]],
    );
}

#[test]
fn devices_and_arrays() {
    let plans = [
        (BASE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"ext4\"".to_owned()),
        (BASE, "[setup]\nfilesystem = \"ext4\"".to_owned()),
        (BARE, "[setup]\nfilesystem = \"ext4\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"sdb\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\", \"/dev/sdb\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"loop:1M\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"100 x loop:1G\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"2 x loop:1G\"]\narray = \"raid5\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray = \"raid6\"".to_owned()),
        (
            BARE,
            "[setup]\ndevices = [\"2 x loop:1G\"]\narray.level = \"raid1\"\narray.chunk = \"64k\""
                .to_owned(),
        ),
        (
            BARE,
            "[setup]\ndevices = [\"2 x loop:1G\"]\narray.level = \"raid10\"\narray.layout = \"f3\""
                .to_owned(),
        ),
        (
            BARE,
            "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid5\"\narray.chunk = \"48k\""
                .to_owned(),
        ),
        (
            BARE,
            "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid5\"\narray.data_offset = \"8k\""
                .to_owned(),
        ),
    ];
    check(
        &plans,
        &expect![[r#"
            [setup] / devices = ["/dev/sdb"] / filesystem = "ext4"
                line 2: target: the setup makes what is measured; leave out target, or [setup]
            [setup] / filesystem = "ext4"
                line 6: setup: builds over devices of its own; give devices = [...] instead of target, or leave it out
            [setup] / filesystem = "ext4"
                line 5: setup: nothing can be built without devices; write devices = ["/dev/sdX"] below [setup]
            [setup] / devices = ["sdb"]
                line 6: setup.devices = 'sdb': must be the path of a device, such as /dev/sdb, or loop:SIZE for one over a file of fathom's
            [setup] / devices = ["/dev/sdb", "/dev/sdb"]
                line 6: setup.devices = '/dev/sdb': is listed twice
            [setup] / devices = ["loop:1M"]
                line 6: setup.devices = 'loop:1M': a loop device needs at least 16MiB
            [setup] / devices = ["100 x loop:1G"]
                line 6: setup.devices = '100 x loop:1G': must be such as '4 x loop:1GiB', with 1 to 64 of them
            [setup] / devices = ["2 x loop:1G"] / array = "raid5"
                line 7: setup.array.level: raid5 needs at least 3 members, and there are 2
            [setup] / devices = ["3 x loop:1G"] / array = "raid6"
                line 7: setup.array.level: raid6 needs at least 4 members, and there are 3
            [setup] / devices = ["2 x loop:1G"] / array.level = "raid1" / array.chunk = "64k"
                line 8: setup.array.chunk: raid1 has no chunks: every member holds everything
            [setup] / devices = ["2 x loop:1G"] / array.level = "raid10" / array.layout = "f3"
                line 8: setup.array.layout: f3 keeps 3 copies, and there are 2 members
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid5" / array.chunk = "48k"
                line 8: setup.array.chunk: the chunk of raid5 must be a power of two from 4k, and 48k is none
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid5" / array.data_offset = "8k"
                line 8: setup.array.data_offset: must be a multiple of 1k, from 12k to 1TiB
        "#]],
    );
}

#[test]
fn arrays() {
    let plans = [
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid5\"\narray.layout = \"n2\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid0\"\narray.state = \"degraded\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.chunk = \"64k\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid7\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid5\"\narray.order = [0, 1]".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\narray.level = \"raid5\"\narray.chnuk = \"64k\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nvolume = \"striped\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"zfs\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"xfs\"\nmount = \"noatime,data=ordered\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"xfs\"\nmount = \"nobarrier\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"ext4\"\nmount = \"noatme\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"ext4\"\nmount = \"atime\"".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid5" / array.layout = "n2"
                line 8: setup.array.layout: n2 is no layout of raid5
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid0" / array.state = "degraded"
                line 8: setup.array.state: raid0 has no redundancy and is never degraded
            [setup] / devices = ["3 x loop:1G"] / array.chunk = "64k"
                line 7: setup.array.chunk = '64k': there is no array that it could belong to; give array.level
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid7"
                line 7: setup.array.level = 'raid7': must be one of none, raid0, raid1, raid4, raid5, raid6, raid10; did you mean 'raid6'?
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid5" / array.order = [0, 1]
                line 8: setup.array.order: must name 3 of the 3 devices, from 0 to 2
            [setup] / devices = ["3 x loop:1G"] / array.level = "raid5" / array.chnuk = "64k"
                line 8: setup.array.chnuk = '64k': no such part of a setup; did you mean 'array.chunk'?
            [setup] / devices = ["/dev/sdb"] / volume = "striped"
                line 7: setup.volume.type: a striped volume needs at least two devices below, and there is one
            [setup] / devices = ["/dev/sdb"] / filesystem = "zfs"
                line 7: setup.filesystem = 'zfs': must be one of none, ext4, xfs, btrfs, f2fs, ext3, ext2; did you mean 'xfs'?
            [setup] / devices = ["/dev/sdb"] / filesystem = "xfs" / mount = "noatime,data=ordered"
                line 8: setup.mount.options: data=ordered is a mount option of ext4, ext3, not of xfs
            [setup] / devices = ["/dev/sdb"] / filesystem = "xfs" / mount = "nobarrier"
                line 8: setup.mount.options: xfs has had no nobarrier since kernel 4.19: it always flushes
            [setup] / devices = ["/dev/sdb"] / filesystem = "ext4" / mount = "noatme"
                line 8: setup.mount = 'noatme': 'noatme' is no mount option that fathom knows; did you mean 'noatime'?
            [setup] / devices = ["/dev/sdb"] / filesystem = "ext4" / mount = "atime"
                line 8: setup.mount = 'atime': 'atime' has meant relatime since kernel 2.6.30; write relatime or strictatime
        "#]],
    );
}

#[test]
fn filesystems_and_mounts() {
    let plans = [
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"ext4\"\nmount = \"noatime,relatime\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"xfs\"\nmount = \"logbufs=16\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"btrfs\"\nfilesystem.journal = \"/dev/sdc\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem.type = \"btrfs\"\nfilesystem.journal = \"/dev/sdc\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem.type = \"ext4\"\nfilesystem.journal = \"/dev/sdb\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem.type = \"ext4\"\nfilesystem.fill = \"99%\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem = \"ext4\"\n[factors]\nfilesystem = [\"ext4\", \"xfs\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"2 x loop:1G\"]\n[factors]\narray.level = [\"raid0\", \"raid5\"]".to_owned()),
        (BARE, "[setup]\ndevices = [\"3 x loop:1G\"]\ncrypt = \"luks1\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"4 x loop:1G\"]\narray = { level = \"raid5\", spares = 1, state = \"degraded\" }".to_owned()),
        (BARE, "[setup]\ndevices = [\"loop:1G\"]\nfilesystem = \"ext4\"\nmount = \"journal_async_commit\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"loop:1G\"]\nfilesystem = \"ext4\"\nmount = \"data=journal,delalloc\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"loop:1G\"]\nslice.size = \"10%\"".to_owned()),
        (BARE, "[setup]\ndevices = [\"/dev/sdb\"]\nfilesystem.type = \"ext4\"\nfilesystem.journal = \"/dev/sdb\"\n[factors]\nmount.data = [\"ordered\", \"journal\"]".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
            [setup] / devices = ["/dev/sdb"] / filesystem = "ext4" / mount = "noatime,relatime"
                line 8: setup.mount = 'noatime,relatime': noatime and relatime contradict each other
            [setup] / devices = ["/dev/sdb"] / filesystem = "xfs" / mount = "logbufs=16"
                line 8: setup.mount = 'logbufs=16': logbufs=16: takes a number from 2 to 8
            [setup] / devices = ["/dev/sdb"] / filesystem = "btrfs" / filesystem.journal = "/dev/sdc"
                line 8: this is no TOML: cannot extend value of type string with a dotted key; beside its other keys a layer's kind is written as filesystem.type, array.level, volume.type
            [setup] / devices = ["/dev/sdb"] / filesystem.type = "btrfs" / filesystem.journal = "/dev/sdc"
                line 8: setup.filesystem.journal: btrfs has no journal that could lie on another device
            [setup] / devices = ["/dev/sdb"] / filesystem.type = "ext4" / filesystem.journal = "/dev/sdb"
                line 8: setup.filesystem.journal: the journal cannot lie on /dev/sdb, which holds the data
            [setup] / devices = ["/dev/sdb"] / filesystem.type = "ext4" / filesystem.fill = "99%"
                line 8: setup.filesystem.fill = '99%': must be between 1 and 95
            [setup] / devices = ["/dev/sdb"] / filesystem = "ext4" / [factors] / filesystem = ["ext4", "xfs"]
                line 7: setup.filesystem = 'ext4': the factor filesystem.type varies it; leave it out here
            [setup] / devices = ["2 x loop:1G"] / [factors] / array.level = ["raid0", "raid5"]
                line 8: factors.array.level = 'raid5': is possible in no cell: raid5 needs at least 3 members, and there are 2
            [setup] / devices = ["3 x loop:1G"] / crypt = "luks1"
                line 7: setup.crypt = 'luks1': must be one of none, luks2, plain; did you mean 'luks2'?
            [setup] / devices = ["4 x loop:1G"] / array = { level = "raid5", spares = 1, state = "degraded" }
                line 7: setup.array.state: a spare would take the failed member's place at once; leave out array.spares
            [setup] / devices = ["loop:1G"] / filesystem = "ext4" / mount = "journal_async_commit"
                line 8: setup.mount.options: ext4 does not mount with journal_async_commit in data=ordered, its default; add data=writeback or data=journal
            [setup] / devices = ["loop:1G"] / filesystem = "ext4" / mount = "data=journal,delalloc"
                line 8: setup.mount.options: ext4 does not mount with delalloc in data=journal, which turns delayed allocation off; leave delalloc out
            [setup] / devices = ["loop:1G"] / slice.size = "10%"
                line 7: setup.slice.size = '10%': '10%': unknown unit '%'; known are k, M, G, T, P (powers of 1024, also KiB, MiB, ...) and kB, MB, GB, TB, PB (powers of 1000)
            [setup] / devices = ["/dev/sdb"] / filesystem.type = "ext4" / filesystem.journal = "/dev/sdb" / [factors] / mount.data =
                line 8: setup.filesystem.journal: the journal cannot lie on /dev/sdb, which holds the data
        "#]],
    );
}

#[test]
fn designs() {
    let plans = [
        (BASE, FACTORS.to_owned() + "kind = \"factorial\""),
        (BASE, FACTORS.to_owned() + "kind = \"fractional\""),
        (BASE, FACTORS.to_owned() + "kind = \"screening\""),
        (BASE, FACTORS.to_owned() + "kind = \"narrowing\""),
        (BASE, FACTORS.to_owned() + "blocks = 0"),
        (BASE, FACTORS.to_owned() + "margin = \"90%\""),
        (BASE, FACTORS.to_owned() + "sentinal = true"),
        (BASE, FACTORS.to_owned() + "baseline = { scheduler = \"nnoe\" }"),
        (BASE, FACTORS.to_owned() + "baseline = { schedule = \"none\" }"),
        (BASE, FACTORS.to_owned() + "except = [{ scheduler = \"none\" }, { nr_requests = 32 }]"),
        (BASE, FACTORS.to_owned() + "except = [{ nr_requests = 64 }, { nr_requests = 128 }]"),
        (BASE, FACTORS.to_owned() + "sentinel = true\nexcept = [{ scheduler = \"none\" }]"),
        (BASE, FACTORS.to_owned() + "rotate = true"),
        (BASE, FACTORS.to_owned() + "resolution = 4"),
        (BASE, FACTORS.to_owned() + "kind = \"full\"\nnarrow_to = \"5%\""),
    ];
    check(
        &plans,
        &expect![[r#"
            kind = "factorial"
                line 10: design.kind = 'factorial': must be one of full, one-at-a-time, fractional, screening, narrowing; did you mean 'fractional'?
            kind = "fractional"
                line 7: factors.block.scheduler: has 3 levels, and this design takes two; leave the two extremes, such as none and kyber, or choose another kind
            kind = "screening"
                line 7: factors.block.scheduler: has 3 levels, and this design takes two; leave the two extremes, such as none and kyber, or choose another kind
            kind = "narrowing"
                line 10: design.kind: narrowing searches one factor, and there are 2; narrow one after the other
            blocks = 0
                line 10: design.blocks = 0: must be between 1 and 1000
            margin = "90%"
                line 10: design.margin = '90%': must be above 0 and at most 50%
            sentinal = true
                line 10: design.sentinal: unknown key; did you mean 'sentinel'?
            baseline = { scheduler = "nnoe" }
                line 10: design.baseline.scheduler = 'nnoe': is no level of scheduler; did you mean 'none'?; they are: none, bfq, kyber
            baseline = { schedule = "none" }
                line 10: design.baseline.schedule: no such factor; did you mean 'scheduler'?; there are: scheduler, nr_requests
            except = [{ scheduler = "none" }, { nr_requests = 32 }]
                line 10: design.except.nr_requests = 32: is no level of nr_requests; they are: 64, 128
            except = [{ nr_requests = 64 }, { nr_requests = 128 }]
                line 10: design.except: leaves out every cell; take some of it away
            sentinel = true / except = [{ scheduler = "none" }]
                line 9: design.baseline: the sentinel is the baseline (scheduler=none nr_requests=64), which is not measured: it is left out by design.except; choose another with design.baseline, or set design.sentinel = false
            rotate = true
                line 10: design.rotate: workloads change places only when they run side by side; set together = true
            resolution = 4
                line 10: design.resolution = 4: belongs to kind = "fractional"
            kind = "full" / narrow_to = "5%"
                line 11: design.narrow_to = '5%': belongs to kind = "narrowing"
        "#]],
    );
}

#[test]
fn narrowing_and_fractions() {
    let two = "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\nblock.nr_requests = [64, 128]\n";
    let many: Vec<String> = (0..13).map(|n| format!("null.f{n} = [1, 2]")).collect();
    let numbers =
        |count: usize| (4..count + 4).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let (levels, fewer) = (numbers(100), numbers(40));
    let plans = [
        (BASE, format!("{two}[design]\nkind = \"fractional\"")),
        (BASE, format!("{two}[design]\nkind = \"screening\"")),
        (
            BASE,
            "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\n[design]\nkind = \"narrowing\""
                .to_owned(),
        ),
        (BASE, format!("[factors]\n{}", many.join("\n"))),
        (BASE, format!("[factors]\nnull.a = [{levels}]\nblock.read_ahead_kb = [{levels}]")),
        (
            BASE,
            format!(
                "[factors]\nnull.a = [{fewer}]\nblock.read_ahead_kb = [{fewer}]\n[design]\nblocks = 1000"
            ),
        ),
    ];
    check(
        &plans,
        &expect![[r#"
        [factors] / block.scheduler = ["none", "bfq"] / block.nr_requests = [64, 128] / [design] / kind = "fractional"
            line 10: design.kind: no fraction at resolution 4 is smaller than all 4 combinations of 2 factors; kind = "full" measures them
        [factors] / block.scheduler = ["none", "bfq"] / block.nr_requests = [64, 128] / [design] / kind = "screening"
            line 10: design.kind: 2 factors have no more than 4 combinations; kind = "full" measures them all
        [factors] / block.scheduler = ["none", "bfq"] / [design] / kind = "narrowing"
            line 7: factors.block.scheduler = 'none': narrowing needs levels that are numbers of one kind, such as ["64k", "1m"]
        [factors] / null.f0 = [1, 2] / null.f1 = [1, 2] / null.f2 = [1, 2] / null.f3 = [1, 2] / null.f4 = [1, 2] / null.f5 = [1,
            design.kind: all combinations of 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 x 2 levels are more than 4096 cells; kind = "one-at-a-time" or "screening" takes a few of them
        [factors] / null.a = [4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38
            design.kind: all combinations of 100 x 100 levels are more than 4096 cells; kind = "one-at-a-time" or "screening" takes a few of them
        [factors] / null.a = [4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38
            line 10: design.blocks: 1600 cells in 1000 blocks are 1600000 trials; at most 200000
    "#]],
    );
}

/// Which figure decides is not left to the alphabet.
#[test]
fn several_figures_of_a_command() {
    const COMMAND: &str = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\ncommand = \"bench\"\nfigure.tps = \"tps = {}\"\nfigure.p99 = \"p99 = {}\"\n";
    const ONE_EACH: &str = "question = \"?\"\ntarget = \"/srv\"\n[[workload]]\nlabel = \"a\"\ncommand = \"a\"\nfigure.tps = \"tps = {}\"\n[[workload]]\nlabel = \"b\"\ncommand = \"b\"\nfigure.secs = \"secs = {}\"\n";
    let of = |lines: &str| format!("[[objective]]\nmetric = \"application\"\n{lines}");
    let plans = [
        (COMMAND, String::new()),
        (COMMAND, of("")),
        (COMMAND, of("figure = \"tpps\"")),
        (COMMAND, of("figure = \"latency\"")),
        (COMMAND, of("figure = \"p99\"\nbetter = \"lower\"")),
        (
            COMMAND,
            of(
                "figure = \"p99\"\nbetter = \"less\"\n[[objective]]\nmetric = \"application\"\nfigure = \"p99\"\nworkload = \"application\"\nbound = 5",
            ),
        ),
        (COMMAND, format!("[[workload]]\nuse = \"randread\"\n{}", of("figure = \"p99\""))),
        // Named of one command, and of another one, or of none.
        (ONE_EACH, of("workload = \"a\"\nfigure = \"secs\"")),
        (ONE_EACH, of("workload = \"a\"\nfigure = \"latency\"")),
        // There is no mean of transactions and seconds.
        (ONE_EACH, String::new()),
        (ONE_EACH, of("")),
    ];
    check(
        &plans,
        &expect![[r#"

                the command of 'application' has several figures (p99, tps), and nothing says which of them decides and in which direction it gets better. Write, the most important first:
            [[objective]]
            metric = "application"
            figure = "p99"
            better = "more"   # or "less"
            [[objective]] / metric = "application"
                line 8: objective.metric = 'application': the command of 'application' has several figures (p99, tps), and nothing says which of them decides and in which direction it gets better. Write, the most important first:
            [[objective]]
            metric = "application"
            figure = "p99"
            better = "more"   # or "less"
            [[objective]] / metric = "application" / figure = "tpps"
                line 9: objective.figure = 'tpps': no command has a figure.tpps; did you mean 'tps'?
            [[objective]] / metric = "application" / figure = "latency"
                line 9: objective.figure = 'latency': no command has a figure.latency; there are p99, tps
            [[objective]] / metric = "application" / figure = "p99" / better = "lower"
                line 10: objective.better = 'lower': must be one of more, less
            [[objective]] / metric = "application" / figure = "p99" / better = "less" / [[objective]] / metric = "application" / fig
                line 7: objective: two objectives are about the same figure, and more of it is better in one, less in the other
            [[workload]] / use = "randread" / [[objective]] / metric = "application" / figure = "p99"
                line 11: objective.figure = 'p99': 'randread' has no such figure: write workload = "application" beside it
            [[objective]] / metric = "application" / workload = "a" / figure = "secs"
                line 14: objective.figure = 'secs': 'a' has no such figure: write workload = "b" instead
            [[objective]] / metric = "application" / workload = "a" / figure = "latency"
                line 14: objective.figure = 'latency': no command has a figure.latency; there are tps of 'a'; secs of 'b'

                the commands have different figures (secs, tps), and nothing says which of them decides and in which direction it gets better. Write, the most important first:
            [[objective]]
            metric = "application"
            workload = "b"
            figure = "secs"
            better = "more"   # or "less"
            [[objective]] / metric = "application"
                line 12: objective.metric = 'application': the commands have different figures (secs, tps), and nothing says which of them decides and in which direction it gets better. Write, the most important first:
            [[objective]]
            metric = "application"
            workload = "b"
            figure = "secs"
            better = "more"   # or "less"
        "#]],
    );
}

#[test]
fn the_rest() {
    let plans = [
        (BASE, "[[objective]]\nmetric = \"speed\"".to_owned()),
        (BASE, "[[objective]]\nbound = \"20ms\"".to_owned()),
        (BASE, "[[objective]]\nmetric = \"latency_p99\"\nbound = 20".to_owned()),
        (BASE, "[[objective]]\nmetric = \"iops\"\nworkload = \"randraed\"".to_owned()),
        (BASE, "[[objective]]\nmetric = \"application\"".to_owned()),
        (BASE, "[[objective]]\nmetric = \"iops\"\nbetter = \"less\"".to_owned()),
        (BASE, "[prepare]\nsettle = 1".to_owned()),
        (BASE, "[prepare]\nremount = true".to_owned()),
        (BASE, "[prepare]\nmemory_limit = \"1M\"".to_owned()),
        (BASE, "[prepare]\nstop_services = [\"rm -rf\"]".to_owned()),
        (BASE, "[budget]\ntime = \"2 hours\"".to_owned()),
        (BASE, "[budget]\nwriten = \"1T\"".to_owned()),
        (BASE, "[knobs]\nvm.swapiness = 10".to_owned()),
        (BASE, "[knobs]\nvm.swappiness = \"low\"".to_owned()),
        (BASE, "[[own_knob]]\nname = \"ncq\"\nread = \"x\"\nwrite = \"y\"\nvalues = [1]".to_owned()),
        (BASE, "[[own_knob]]\nname = \"ncq\"".to_owned()),
        (BASE, "[hypothesis]\ntext = \"a\"".to_owned()),
        (BASE, "[factors]\nblock.scheduler = [\"none\", \"bfq\"]\n[hypothesis]\ntext = \"a\"\nbetter = { scheduler = \"none\" }".to_owned()),
        (BASE, "[[own_knob]]\nname = \"ncq\"\nread = \"x\"\nwrite = \"y {value}\"\nvalues = [1, 31]\n[knobs]\nown.ncq = 2".to_owned()),
    ];
    check(
        &plans,
        &expect![[r#"
            [[objective]] / metric = "speed"
                line 7: objective.metric = 'speed': must be one of iops, rate, latency_mean, latency_p50, latency_p99, latency_p999, latency_max, cpu_per_io, application, read_files, written_files, readers_keep, open_p99, mkdir_p99, read_bytes, written_bytes, read_data_rate, first_read_p99, create_p99, close_p99, longest, recovery, reader_fairness, writer_fairness, client_fairness, transactions, transaction_p99
            [[objective]] / bound = "20ms"
                line 6: objective: needs metric = one of iops, rate, latency_mean, latency_p50, latency_p99, latency_p999, latency_max, cpu_per_io, application, read_files, written_files, readers_keep, open_p99, mkdir_p99, read_bytes, written_bytes, read_data_rate, first_read_p99, create_p99, close_p99, longest, recovery, reader_fairness, writer_fairness, client_fairness, transactions, transaction_p99
            [[objective]] / metric = "latency_p99" / bound = 20
                line 8: objective.bound = 20: '20' needs a unit: 20s, 20m, 20ms, ...
            [[objective]] / metric = "iops" / workload = "randraed"
                line 8: objective.workload = 'randraed': no workload is called so; did you mean 'randread'?
            [[objective]] / metric = "application"
                line 7: objective.metric = 'application': is what a command prints, and no workload is a command
            [[objective]] / metric = "iops" / better = "less"
                line 8: objective.better = 'less': only figures that a command prints have names, and a direction that must be said: metric = "application"
            [prepare] / settle = 1
                line 7: prepare.settle = 1: '1' needs a unit: 1s, 1m, 1ms, ...
            [prepare] / remount = true
                line 7: prepare.remount: fathom mounts anew only what it has mounted; give [setup] a filesystem, or use drop_caches
            [prepare] / memory_limit = "1M"
                line 7: prepare.memory_limit = '1M': is too little to measure with; at least 64M
            [prepare] / stop_services = ["rm -rf"]
                line 7: prepare.stop_services = 'rm -rf': is no name of a systemd unit; write for example cron.service
            [budget] / time = "2 hours"
                line 7: budget.time = '2 hours': '2 hours': unknown unit 'hours'; known are ns, us, ms, s, m, h, d
            [budget] / writen = "1T"
                line 7: budget.writen: unknown key; did you mean 'written'?
            [knobs] / vm.swapiness = 10
                line 7: knobs.vm.swapiness: no such knob; did you mean 'vm.swappiness'?
            [knobs] / vm.swappiness = "low"
                line 7: knobs.vm.swappiness = 'low': takes a number
            [[own_knob]] / name = "ncq" / read = "x" / write = "y" / values = [1]
                line 9: own_knob.write = 'y': says nowhere where the value goes; write {value} there
            [[own_knob]] / name = "ncq"
                line 6: own_knob: needs read = "cat /sys/...", which prints the value
            [hypothesis] / text = "a"
                line 6: hypothesis: needs better = { FACTOR = "LEVEL" }, which cell is expected to be better
            [factors] / block.scheduler = ["none", "bfq"] / [hypothesis] / text = "a" / better = { scheduler = "none" }
                line 8: hypothesis: better and than are the same cell (what is not named is at the baseline)
            [[own_knob]] / name = "ncq" / read = "x" / write = "y {value}" / values = [1, 31] / [knobs] / own.ncq = 2
                line 12: knobs.own.ncq = 2: [[own_knob]] ncq takes 1, 31
        "#]],
    );
}
