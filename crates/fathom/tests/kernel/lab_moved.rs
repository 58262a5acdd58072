//! `fathom restore` after an experiment was killed and what it worked on has other names by then: files behind devices that were given,
//! directories, mounts. It is the very same, so it is found.

use crate::cli::{Sandbox, p, run, wait_until};
use crate::filesystems::mounted;
use crate::lab::{assert_same, machine, plan, trials_of};
use crate::lab_kills::{READ, kill_measuring};
use fathom_testkit::Capability::{FathomBinary, FsOnLoop, Tool, Zram};
use fathom_testkit::command::{run_tool, tool};
use fathom_testkit::{FsKind, LoopDevice, LoopOptions, Trial, kernel_test};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

pub fn trials() -> Vec<Trial> {
    let ext4 = [FathomBinary, FsOnLoop(FsKind::Ext4)];
    let tools = |name| [ext4[0], ext4[1], Tool(name)];
    vec![
        kernel_test("lab_moved_file_of_a_given_device", &tools("sfdisk"), given_device),
        kernel_test("lab_moved_directory_of_own_knobs", &[FathomBinary], own_directory),
        kernel_test("lab_moved_mount_of_test_files", &ext4, moved_mount),
        kernel_test("lab_goes_on_with_the_same_device", &ext4, same_device),
        kernel_test("lab_goes_on_with_the_same_size_and_file", &ext4, same_size_and_file),
        kernel_test("lab_goes_on_with_the_same_zram", &[FathomBinary, Zram], same_zram),
        kernel_test("lab_goes_on_with_the_same_workload", &[FathomBinary], same_workload),
        kernel_test("lab_goes_on_with_the_same_filesystem", &ext4, same_filesystem),
        kernel_test("lab_goes_on_with_the_same_settings", &ext4, same_settings),
        kernel_test("lab_goes_on_with_the_same_file_of_an_inode", &ext4, same_file_of_an_inode),
        kernel_test("lab_goes_on_where_its_loop_devices_lay", &ext4, same_disk_of_the_store),
        kernel_test("lab_moved_to_a_device_of_somebodys", &ext4, shown_by_somebody),
        kernel_test("lab_unmade_filesystem_has_no_files", &tools("chattr"), unmade),
    ]
}

/// True where the magic of ext4 is, in a device or a partition that begins there.
fn has_ext4(image: &Path, start: u64) -> bool {
    let mut magic = [0; 2];
    fs::File::open(image).unwrap().read_exact_at(&mut magic, start + 1080).unwrap();
    magic == [0x53, 0xef]
}

/// The file of a device that was given is renamed, and a copy has its old name, which another device shows.
fn given_device() {
    const START: u64 = 1 << 20;
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    for (slice, start) in [("", 0), ("slice = { start = '1MiB', size = '30MiB' }\n", START)] {
        let sandbox = Sandbox::new();
        let [image, renamed] = ["given.img", "renamed.img"].map(|name| sandbox.scratch.join(name));
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let device = LoopDevice::over(&image, &options).unwrap();
        let before = machine(&sandbox, &[]);
        let text = format!(
            "{READ}[setup]\ndevices = ['{}']\n{slice}filesystem.type = 'ext4'\n[design]\nblocks = 1\n",
            p(device.path())
        );
        let (file, consent) = (plan(&sandbox, "given", &text), format!("--destroy={}", p(&image)));
        kill_measuring(&sandbox, &["lab", p(&file), "--new", "--seed=3", &consent]);
        run_tool("sync", ["--file-system", p(&image)]).unwrap();
        assert!(has_ext4(&image, start), "{slice}");
        fs::rename(&image, &renamed).unwrap();
        fs::copy(&renamed, &image).unwrap();
        let copied = fs::read(&image).unwrap();
        let copy = LoopDevice::over(&image, &LoopOptions::default()).unwrap();
        let done = sandbox.run(&["restore"]);
        assert_eq!(done.code, 0, "{slice}: {done:?}");
        assert!(!has_ext4(&renamed, start), "{slice}: {done:?}");
        assert!(!done.stdout.contains("as it was before"), "{slice}: {done:?}");
        drop(copy);
        assert!(fs::read(&image).unwrap() == copied, "{slice}: the copy is somebody's");
        fs::rename(&renamed, &image).unwrap();
        assert_same(&before, &machine(&sandbox, &[]), &format!("{slice}: {done:?}"));
        sandbox.nothing_left(&[]);
    }
}

/// The directory in which commands of the user's own ran is reached by a link that was left behind, or is that of `fathom restore`.
fn own_directory() {
    let sandbox = Sandbox::new();
    let (started, moved) = (sandbox.scratch.join("started"), sandbox.scratch.join("new/place"));
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::create_dir(&started).unwrap();
    let knob = "[knobs]\nown.mine = 'b'\n[design]\nblocks = 1\n[[own_knob]]\nname = 'mine'\nread = 'cat ./own'\nwrite = 'echo {value} > ./own'\nvalues = ['a', 'b']\n";
    let file = plan(&sandbox, "own", &format!("target = 'null:'\n{READ}{knob}"));
    let list = sandbox.scratch.join("points");
    let run_in = |dir: &Path, args: &[&str], fault: &str| {
        run(|| {
            let mut command = sandbox.command(args);
            command.current_dir(dir).env("FATHOM_FAULT", fault);
            command
        })
    };
    let args = ["lab", p(&file), "--new", "--seed=3"];
    fs::write(started.join("own"), "a\n").unwrap();
    run_in(&started, &args, &format!("list:{}", p(&list)));
    let text = fs::read_to_string(&list).unwrap();
    let number = text.lines().position(|line| line.ends_with("before a measurement")).unwrap() + 1;
    for by_link in [true, false] {
        run_in(&started, &args, &format!("kill:{number}"));
        assert_eq!(fs::read_to_string(started.join("own")).unwrap(), "b\n");
        fs::rename(&started, &moved).unwrap();
        let done = if by_link {
            symlink("new/place", &started).unwrap();
            let done = run_in(sandbox.scratch.path(), &["restore"], "");
            fs::remove_file(&started).unwrap();
            done
        } else {
            run_in(&moved, &["restore"], "")
        };
        assert_eq!(done.code, 0, "{by_link}: {done:?}");
        assert_eq!(fs::read_to_string(moved.join("own")).unwrap(), "a\n", "{by_link}: {done:?}");
        fs::rename(&moved, &started).unwrap();
    }
}

/// Killed before its second trial.
fn break_off(sandbox: &Sandbox, args: &[&str]) {
    let list = sandbox.scratch.join("points");
    let with = |args: &[&str], fault: &str| {
        run(|| {
            let mut command = sandbox.command(args);
            command.env("FATHOM_FAULT", fault);
            command
        })
    };
    let all = with(&[args, &["--new"]].concat(), &format!("list:{}", p(&list)));
    assert!(all.code <= 1, "{all:?}");
    let text = fs::read_to_string(&list).unwrap();
    let points = text.lines().enumerate();
    let mut points = points.filter(|(_, line)| line.ends_with("before a measurement"));
    let number = points.nth(1).unwrap().0 + 1;
    assert_eq!(with(&[args, &["--new"]].concat(), &format!("kill:{number}")).code, 137);
}

/// That it does not go on, with why.
fn does_not_go_on(sandbox: &Sandbox, args: &[&str], why: &str) {
    for more in [&[][..], &["--dry-run"]] {
        let done = sandbox.run(&[args, more].concat());
        assert_eq!(done.code, 2, "{done:?}");
        let said = done.stdout.clone() + &done.stderr;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("trials of different devices or loads are not to be mixed")
                && said.contains("begin anew with --new")
                && said.contains(why),
            "{done:?}"
        );
    }
}

/// Broken off before its second trial; what says the next start, which is given what bears the name by then.
fn taken_up_on_another(sandbox: &Sandbox, file: &Path, exchange: &dyn Fn()) {
    let args = ["lab", p(file), "--seed=3"];
    break_off(sandbox, &args);
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    exchange();
    does_not_go_on(sandbox, &args, "");
    exchange();
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(trials_of(&done.records()).len(), 4, "{done:?}");
    let anew = sandbox.run(&[&args[..], &["--new"]].concat());
    assert!(anew.code <= 1, "{anew:?}");
}

/// What bears the name of the target is another device when the experiment is to go on.
fn same_device() {
    let sandbox = Sandbox::new();
    let make = |name: &str| {
        let image = sandbox.scratch.join(name);
        fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        LoopDevice::over(&image, &LoopOptions::default()).unwrap()
    };
    let devices = [make("a.img"), make("b.img")];
    let link = sandbox.scratch.join("disk");
    let other = |path: &Path| devices.iter().find(|device| device.path() != path).unwrap();
    symlink(devices[0].path(), &link).unwrap();
    let exchange = || {
        let now = fs::read_link(&link).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(other(&now).path(), &link).unwrap();
    };
    let load = READ.replace("size = '4M'\n", "");
    let text = format!("target = '{}'\n{load}[design]\nblocks = 4\n", p(&link));
    taken_up_on_another(&sandbox, &plan(&sandbox, "device", &text), &exchange);
    sandbox.nothing_left(&[]);
}

/// A zram device that was reset has its name and size, holds nothing, and compresses with something else.
fn same_zram() {
    const SIZE_BYTES: u64 = 8 << 20;
    let sandbox = Sandbox::new();
    let device = fathom_testkit::Zram::new(SIZE_BYTES).unwrap();
    let dir = Path::new("/sys/block").join(device.name());
    let all = fs::read_to_string(dir.join("comp_algorithm")).unwrap();
    let (chosen, others): (Vec<&str>, Vec<&str>) =
        all.split_whitespace().partition(|name| name.starts_with('['));
    let names = [chosen[0].trim_matches(['[', ']']), others[0]];
    let is_other = Cell::new(false);
    let exchange = || {
        is_other.set(!is_other.get());
        let name = names[usize::from(is_other.get())];
        for (file, text) in
            [("reset", "1"), ("comp_algorithm", name), ("disksize", &SIZE_BYTES.to_string())]
        {
            fs::write(dir.join(file), text).unwrap();
        }
    };
    let load = READ.replace("size = '4M'\n", "");
    let text = format!("target = '{}'\n{load}[design]\nblocks = 4\n", p(device.path()));
    taken_up_on_another(&sandbox, &plan(&sandbox, "zram", &text), &exchange);
}

/// A target among the levels is another device of the same size; a device has grown; the image behind one, or the file that is measured, was
/// made anew in the same place.
fn same_size_and_file() {
    let sandbox = Sandbox::new();
    let load = READ.replace("size = '4M'\n", "");
    let make = |name: &str| {
        let image = sandbox.scratch.join(name);
        fs::write(&image, vec![7; 8 << 20]).unwrap();
        image
    };
    let images = ["a.img", "b.img", "c.img"].map(make);
    let attach = |image: &Path| LoopDevice::over(image, &LoopOptions::default()).unwrap();
    let devices = [attach(&images[0]), attach(&images[1])];
    let third = sandbox.scratch.join("third");
    let link = |to: &Path| {
        fs::remove_file(&third).ok();
        symlink(to, &third).unwrap();
    };
    link(devices[1].path());
    let levels = format!("workload.target = ['{}', '{}']", p(devices[0].path()), p(&third));
    let text = format!(
        "target = '{}'\n{load}[factors]\n{levels}\n[design]\nblocks = 2\nsentinel = false\n",
        p(devices[0].path())
    );
    let swapped = attach(&images[2]);
    let is_other = Cell::new(false);
    let exchange = || {
        is_other.set(!is_other.get());
        link(if is_other.get() { swapped.path() } else { devices[1].path() });
    };
    taken_up_on_another(&sandbox, &plan(&sandbox, "levels", &text), &exchange);
    let grow = || {
        let is_grown = fs::metadata(&images[0]).unwrap().len() > 8 << 20;
        let file = fs::OpenOptions::new().write(true).open(&images[0]).unwrap();
        file.set_len(if is_grown { 8 << 20 } else { 16 << 20 }).unwrap();
        run_tool("losetup", ["--set-capacity", p(devices[0].path())]).unwrap();
    };
    let on = |name: &str, target: &Path, exchange: &dyn Fn()| {
        let text = format!("target = '{}'\n{load}[design]\nblocks = 4\n", p(target));
        taken_up_on_another(&sandbox, &plan(&sandbox, name, &text), exchange);
    };
    on("grown", devices[0].path(), &grow);
    let (file, other) = (make("file"), make("other"));
    let between = sandbox.scratch.join("between");
    let swap = || {
        for (from, to) in [(&file, &between), (&other, &file), (&between, &other)] {
            fs::rename(from, to).unwrap();
        }
    };
    on("file", &file, &swap);
    sandbox.nothing_left(&[]);
}

/// What no cell sets has another value when the experiment is to go on. What it has set itself was put back before that is looked at.
fn same_settings() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let queue = Path::new("/sys/block").join(fs.device().name()).join("queue");
    let factor =
        "[factors]\nblock.read_ahead_kb = [64, 256]\n[design]\nblocks = 2\nsentinel = false\n";
    let text = format!("target = '{}'\n{READ}{factor}", p(fs.dir()));
    let file = plan(&sandbox, "unset", &text);
    let args = ["lab", p(&file), "--seed=3"];
    break_off(&sandbox, &args);
    let dry = sandbox.run(&[&args[..], &["--dry-run"]].concat());
    assert!(dry.code == 0 && dry.stdout.contains("goes on with run"), "{dry:?}");
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    let merges = queue.join("nomerges");
    let was = fs::read_to_string(&merges).unwrap();
    fs::write(&merges, "2").unwrap();
    let name = fs.device().name();
    let why = format!("block.nomerges of {name} was {} and is 2", was.trim());
    does_not_go_on(&sandbox, &args, &why);
    fs::write(&merges, was).unwrap();
    let device = Path::new("/dev").join(&name);
    let tool = |program: &str, args: &[&str]| {
        let done = std::process::Command::new(program).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let direct = |how: &str| tool("losetup", &[&format!("--direct-io={how}"), p(&device)]);
    let shown =
        || fs::read_to_string(Path::new("/sys/block").join(&name).join("loop/dio")).unwrap();
    let was = shown();
    let (other, back) = if was.trim() == "0" { ("on", "off") } else { ("off", "on") };
    direct(other);
    let why = format!("loop.dio of {name} was {} and is {}", was.trim(), shown().trim());
    does_not_go_on(&sandbox, &args, &why);
    direct(back);
    let journal = |feature: &str| {
        tool("umount", &[p(fs.dir())]);
        tool("tune2fs", &["-O", feature, p(&device)]);
        tool("mount", &[p(&device), p(fs.dir())]);
    };
    journal("^has_journal");
    does_not_go_on(&sandbox, &args, "with no journal and the features");
    journal("has_journal");
    // Its own setting is its own business.
    fs::write(queue.join("read_ahead_kb"), "512").unwrap();
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(trials_of(&done.records()).len(), 4, "{done:?}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// ext4 gives a file that is made anew the inode of the one that was removed.
fn same_file_of_an_inode() {
    use std::os::unix::fs::MetadataExt;
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = fs.dir().join("data");
    let make = || {
        fs::write(&file, vec![7; 8 << 20]).unwrap();
        fs::metadata(&file).unwrap().ino()
    };
    let link = sandbox.scratch.join("disk");
    for is_image in [false, true] {
        let first = make();
        let attach = || {
            let device =
                is_image.then(|| LoopDevice::over(&file, &LoopOptions::default()).unwrap());
            fs::remove_file(&link).ok();
            symlink(device.as_ref().map_or(file.as_path(), LoopDevice::path), &link).unwrap();
            device
        };
        let device = attach();
        let load = READ.replace("size = '4M'\n", "");
        let text = format!("target = '{}'\n{load}[design]\nblocks = 4\n", p(&link));
        let plan = plan(&sandbox, if is_image { "image" } else { "file" }, &text);
        let args = ["lab", p(&plan), "--seed=3"];
        break_off(&sandbox, &args);
        assert_eq!(sandbox.run(&["restore"]).code, 0);
        drop(device);
        fs::remove_file(&file).unwrap();
        assert_eq!(make(), first, "another inode: nothing is tested");
        let device = attach();
        does_not_go_on(&sandbox, &args, "made anew and got that number");
        drop(device);
        fs::remove_file(&file).unwrap();
    }
    sandbox.nothing_left(&[fs.dir()]);
}

/// The files behind `loop:SIZE` lie beside the store, which is on another disk by now.
fn same_disk_of_the_store() {
    let sandbox = Sandbox::new();
    let disks = [0; 2].map(|_| mounted(FsKind::Ext4, &[], ""));
    let setup = "[setup]\ndevices = ['loop:32MiB']\n[setup.filesystem]\ntype = 'ext4'\n";
    let text = format!("{READ}{setup}[design]\nblocks = 4\nsentinel = false\n");
    let file = plan(&sandbox, "made", &text);
    let state = sandbox.db().parent().unwrap().to_owned();
    fs::create_dir_all(&state).unwrap();
    let mount = |from: &Path| run_tool("mount", [Path::new("--bind"), from, &state]).unwrap();
    let args = ["lab", p(&file), "--seed=3"];
    mount(disks[0].dir());
    break_off(&sandbox, &args);
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    run_tool("cp", [Path::new("-a"), &state.join("."), disks[1].dir()]).unwrap();
    run_tool("umount", [&state]).unwrap();
    mount(disks[1].dir());
    does_not_go_on(&sandbox, &args, "loop:32MiB was");
    run_tool("umount", [&state]).unwrap();
    mount(disks[0].dir());
    let done = sandbox.json(&args, &[0, 1]);
    assert_eq!(trials_of(&done.records()).len(), 4, "{done:?}");
    run_tool("umount", [&state]).unwrap();
}

/// The workload file that the plan names was edited when the experiment is to go on.
fn same_workload() {
    let sandbox = Sandbox::new();
    let load = sandbox.scratch.join("load.toml");
    let text = "name = 'load'\n[[job]]\nname = 'load'\n".to_owned();
    fs::write(&load, &text).unwrap();
    let is_other = Cell::new(false);
    let exchange = || {
        is_other.set(!is_other.get());
        let more = if is_other.get() { "# edited\n" } else { "" };
        fs::write(&load, format!("{text}{more}")).unwrap();
    };
    let loads = READ.replace("'randread'", &format!("'{}'", p(&load)));
    let text = format!("target = '{}'\n{loads}[design]\nblocks = 4\n", p(&sandbox.dir()));
    taken_up_on_another(&sandbox, &plan(&sandbox, "edited", &text), &exchange);
    sandbox.nothing_left(&[]);
}

/// In its directory another filesystem is mounted when the experiment is to go on.
fn same_filesystem() {
    let sandbox = Sandbox::new();
    let [one, other] = [0; 2].map(|_| mounted(FsKind::Ext4, &[], ""));
    let dir = sandbox.scratch.join("here");
    fs::create_dir(&dir).unwrap();
    let mount = |from: &Path| run_tool("mount", [Path::new("--bind"), from, &dir]).unwrap();
    mount(one.dir());
    let is_other = Cell::new(false);
    let exchange = || {
        run_tool("umount", [&dir]).unwrap();
        mount(if is_other.get() { one.dir() } else { other.dir() });
        is_other.set(!is_other.get());
    };
    let text = format!("target = '{}'\n{READ}[design]\nblocks = 4\n", p(&dir));
    taken_up_on_another(&sandbox, &plan(&sandbox, "directory", &text), &exchange);
    run_tool("umount", [&dir]).unwrap();
    sandbox.nothing_left(&[one.dir(), other.dir()]);
}

/// The filesystem of the test files is mounted elsewhere by now.
fn moved_mount() {
    let sandbox = Sandbox::new();
    let fs = mounted(FsKind::Ext4, &[], "");
    let file = plan(&sandbox, "files", &format!("{READ}[design]\nblocks = 1\n"));
    kill_measuring(&sandbox, &["lab", p(&file), p(fs.dir()), "--new", "--seed=3"]);
    let elsewhere = sandbox.scratch.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mount = |dir: &Path| run_tool("mount", [fs.device().path(), dir]).unwrap();
    run_tool("umount", [fs.dir()]).unwrap();
    mount(&elsewhere);
    let there = || {
        let names = std::fs::read_dir(&elsewhere).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().contains("fathom")).count()
    };
    let before = there();
    let done = sandbox.run(&["restore"]);
    let after = there();
    assert!(tool("umount").arg(&elsewhere).status().unwrap().success());
    mount(fs.dir());
    assert_eq!((before, done.code, after), (1, 0, 0), "{done:?}");
    sandbox.nothing_left(&[fs.dir()]);
}

/// Somebody has detached fathom's loop device and shows its file themselves: it is not taken away below theirs.
fn shown_by_somebody() {
    let sandbox = Sandbox::new();
    let setup = "[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext4'\n";
    let file = plan(&sandbox, "built", &format!("{READ}{setup}[design]\nblocks = 1\n"));
    kill_measuring(&sandbox, &["lab", p(&file), "--new", "--seed=3"]);
    let state = sandbox.db().parent().unwrap().canonicalize().unwrap();
    let mut dirs = fs::read_dir(&state).unwrap().flatten().map(|entry| entry.path());
    let dir = dirs.find(|path| path.join("disk-1.img").exists()).unwrap();
    let image = dir.join("disk-1.img");
    let shown = || {
        let shown = tool("losetup").arg("-j").arg(&image).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let own = shown();
    run_tool("umount", [dir.join("mnt")]).unwrap();
    run_tool("losetup", ["--detach", own.split(':').next().unwrap()]).unwrap();
    wait_until("it is detached", || shown().is_empty());
    let options = LoopOptions { read_only: true, ..LoopOptions::default() };
    let theirs = LoopDevice::over(&image, &options).unwrap();
    let done = sandbox.run(&["restore"]);
    assert_eq!(done.code, 5, "{done:?}");
    let told = format!("{} of somebody's shows {}", p(theirs.path()), p(&image));
    assert!(image.exists() && done.stdout.contains(&told), "{done:?}");
    drop(theirs);
    wait_until("theirs is detached", || shown().is_empty());
    assert_eq!(sandbox.run(&["restore"]).code, 0);
    assert!(!dir.exists());
    sandbox.nothing_left(&[]);
}

/// A test file cannot be removed from a filesystem that the setup has made: it is gone with that, and nobody looks for it any more.
fn unmade() {
    let sandbox = Sandbox::new();
    let before = machine(&sandbox, &[]);
    let setup = "[setup]\ndevices = ['loop:32MiB']\nfilesystem.type = 'ext4'\n";
    let beside = "[factors]\ncompanion = ['none', 'chattr +i .fathom-*/data; exec sleep 600']\n";
    let load = READ.replace("50ms", "500ms");
    let text = format!("{load}{setup}{beside}[design]\nblocks = 1\nsentinel = false\n");
    let file = plan(&sandbox, "unmade", &text);
    let done = sandbox.run(&["lab", p(&file), "--seed=3"]);
    assert!(done.stderr.contains("Operation not permitted"), "it could be removed: {done:?}");
    assert!(done.stdout.contains("Everything that was changed is back as before"), "{done:?}");
    assert_same(&before, &machine(&sandbox, &[]), &format!("{done:?}"));
    sandbox.nothing_left(&[]);
    assert_eq!(sandbox.run(&["restore"]).code, 0);
}
