//! The same program as another process: one that builds and takes down, that can be killed at any point, and one that puts in order
//! what it left; on the host and inside of guests.

use fathom_guard::changes::{self, ChangeLog};
use fathom_guard::faults::Faults;
use fathom_guard::{Consent, Protected};
use fathom_inspect::identity;
use fathom_model::change::Change;
use fathom_model::plan::setup::{SetupCapacity, SetupSpec};
use fathom_setup::{Builder, Undo};
use fathom_sys::blkdev;
use fathom_sys::loopdev;
use fathom_sys::mounts;
use fathom_sys::probe;
use fathom_sys::process;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

/// Variable that makes this program the driver.
pub const ROLE: &str = "FATHOM_SETUP_TEST_DRIVER";
/// The run of all logs.
pub const RUN: &str = "testrun00000";

/// What the driver was called to do: `WHAT STATE [SPEC [DEVICE...]]`.
pub fn play() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["cycle", state, spec] => cycle(Path::new(state), spec, End::TakeDown),
        ["leave", state, spec] => cycle(Path::new(state), spec, End::Die),
        ["look", state, spec, command] => cycle(Path::new(state), spec, End::Look(command)),
        ["check", state, spec] => check(Path::new(state), spec),
        ["undo", state] => undo(Path::new(state)),
        ["kills_old", state, spec, prime, from, to] => {
            kills_old(Path::new(state), spec, prime, [from, to])
        }
        ["die_at", state, spec, name] => die_at(Path::new(state), spec, name),
        ["kills", state, spec, count] => kills(Path::new(state), spec, count.parse().unwrap()),
        other => Err(format!("the driver knows no {other:?}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("ERROR {text}");
            ExitCode::FAILURE
        }
    }
}

enum End<'a> {
    TakeDown,
    Die,
    /// A shell command, with the target as `$1`, and the state once more afterwards.
    Look(&'a str),
}

fn spec(text: &str) -> Result<SetupSpec, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Consent to everything that a setup names.
pub fn consent_to(spec: &SetupSpec) -> Consent {
    let root = SysRoot::live();
    let journals = spec.filesystem.iter().flat_map(|fs| fs.journals()).map(str::to_owned);
    let devices = spec.devices.iter().cloned().chain(journals);
    let ids = devices.filter_map(|device| {
        let device = BlockDir::by_dev_path(&root, &fs::canonicalize(device).ok()?)?;
        Some(identity::device_id(&root, device.devno()?).text)
    });
    Consent::new(ids.collect())
}

pub fn work_dir(state: &Path) -> PathBuf {
    state.join("work")
}

fn cycle(state: &Path, text: &str, end: End<'_>) -> Result<(), String> {
    let spec = spec(text)?;
    let root = SysRoot::live();
    let consent = consent_to(&spec);
    let work = work_dir(state);
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let faults = Faults::parse(std::env::var("FATHOM_FAULT").ok().as_deref());
    let mut log = ChangeLog::create(&root, state, RUN, faults).map_err(|e| e.to_string())?;
    let protected = Protected { store_path: log.path().to_owned() };
    let stop = StopFlag::default();
    let mut note = |text: &str| println!("NOTE {text}");
    let mut builder = Builder {
        root: &root,
        log: &mut log,
        consent: &consent,
        protected: &protected,
        work_dir: &work,
        seed: 7,
        note: &mut note,
        stop: &stop,
    };
    let mut built = match fathom_setup::build(&mut builder, &spec) {
        Ok(built) => built,
        Err(error) => {
            log.close().map_err(|e| e.to_string())?;
            return Err(format!("{:?} {error}", error.kind()));
        }
    };
    println!("TARGET {}", built.target.display());
    println!("CLAIM {}", built.claim.is_some());
    tell_in_all(built.capacity)?;
    for fact in &built.facts {
        println!("FACT {fact}");
    }
    for command in &built.commands {
        println!("COMMAND {command}");
    }
    match end {
        End::TakeDown => {}
        End::Die => process::kill_self(),
        End::Look(command) => {
            let claim = built.claim.take();
            shell(command, &built.target)?;
            built.claim = claim;
            if built.mount_point.is_some() {
                fathom_setup::remount(&mut builder, &mut built).map_err(|e| e.to_string())?;
            }
            fathom_setup::refresh(&mut builder, &mut built).map_err(|e| e.to_string())?;
            println!("REFRESHED");
            shell(command, &built.target)?;
        }
    }
    fathom_setup::take_down(&mut builder, built).map_err(|error| error.to_string())?;
    match log.close().map_err(|error| error.to_string())? {
        None => Ok(()),
        Some(_) => Err("the journal is not empty".to_owned()),
    }
}

fn shell(command: &str, target: &Path) -> Result<(), String> {
    let mut shell = Command::new("sh");
    let output =
        shell.args(["-ec", command, "sh"]).arg(target).output().map_err(|e| e.to_string())?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn check(state: &Path, text: &str) -> Result<(), String> {
    let spec = spec(text)?;
    let work = work_dir(state);
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let protected = Protected { store_path: state.to_owned() };
    let outline =
        fathom_setup::check(&SysRoot::live(), &consent_to(&spec), &protected, &work, &spec);
    let outline = outline.map_err(|error| format!("{:?} {error}", error.kind()))?;
    for command in &outline.commands {
        println!("COMMAND {command}");
    }
    for capacity in &outline.capacity {
        println!("CAPACITY {capacity:?}");
    }
    println!("SYNC {:?}", outline.sync_ns);
    tell_in_all(outline.in_all)
}

fn tell_in_all(capacity: Option<SetupCapacity>) -> Result<(), String> {
    let Some(capacity) = capacity else { return Ok(()) };
    println!("IN ALL {}", serde_json::to_string(&capacity).map_err(|error| error.to_string())?);
    Ok(())
}

/// Takes back what dead processes left, each step with what became of it.
fn undo(state: &Path) -> Result<(), String> {
    let root = SysRoot::live();
    let logs = changes::read_all(&root, state).map_err(|error| error.to_string())?;
    let mut left = Vec::new();
    for mut log in logs.dead {
        let faults = Faults::parse(std::env::var("FATHOM_FAULT").ok().as_deref());
        log.adopt(&root, faults).map_err(|error| error.to_string())?;
        for entry in log.pending() {
            let Change::Setup(change) = entry.change else { continue };
            let mut note = |text: &str| println!("NOTE {text}");
            let undo = fathom_setup::undo(&root, &mut log, entry.step, &change, &mut note);
            println!("UNDO {}: {undo:?}", change.summary());
            if !matches!(undo, Undo::Restored | Undo::AlreadyBack | Undo::Rebooted) {
                left.push(format!("{}: {undo:?}", change.summary()));
            }
        }
        log.close().map_err(|error| error.to_string())?;
    }
    if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
}

/// Everything that a setup could leave: in the state directory, on its devices, among arrays and mapped devices.
pub fn traces(state: &Path, devices: &[String]) -> BTreeMap<String, String> {
    let root = SysRoot::live();
    let mut found = BTreeMap::new();
    for device in loopdev::attached(&root) {
        let backing = device.backing_path.unwrap_or_default();
        if backing.starts_with(state) {
            found.insert(format!("loop over {}", backing.display()), String::new());
        }
    }
    for mount in mounts::own_mounts(&root) {
        if mount.mount_point.starts_with(state) {
            found.insert(format!("mount {}", mount.mount_point.display()), mount.source);
        }
    }
    for disk in BlockDir::disks(&root) {
        if disk.name().starts_with("md") && !disk.slaves().is_empty() {
            found.insert(format!("array {}", disk.name()), String::new());
        }
        if let Some(name) = disk.text("dm/name").filter(|name| name.contains("fathom")) {
            found.insert(format!("mapped {name}"), String::new());
        }
    }
    for device in devices.iter().filter(|device| device.starts_with('/')) {
        let Ok(file) = blkdev::open_to_look(Path::new(device), false) else { continue };
        let size = blkdev::size_bytes(&file).unwrap_or(0);
        let signatures = probe::signatures(&file, size).unwrap_or_default();
        let names: Vec<String> =
            signatures.iter().map(|s| format!("{} {:?}", s.name, s.uuid)).collect();
        found.insert(format!("on {device}"), names.join(", "));
        let path = fs::canonicalize(device).unwrap_or_default();
        let partitions = BlockDir::by_dev_path(&root, &path).map(|device| device.partitions());
        let names: Vec<String> =
            partitions.iter().flatten().map(|partition| partition.name().to_owned()).collect();
        found.insert(format!("partitions of {device}"), names.join(", "));
    }
    let mut pending = vec![work_dir(state), state.join("changes")];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            found.insert(format!("file {}", entry.path().display()), String::new());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
    found
}

/// This program as the driver.
pub fn driver(args: &[&str], fault: Option<&str>) -> Output {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, "1").env_remove("FATHOM_FAULT").args(args);
    if let Some(fault) = fault {
        command.env("FATHOM_FAULT", fault);
    }
    command.output().unwrap()
}

/// What a driver said.
pub fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text + &String::from_utf8_lossy(&output.stderr)
}

/// Kills a whole building and taking down at so many of its fault points, evenly spread, puts in order what is left, and compares.
/// Every third time the putting in order is killed as well.
pub fn kills(state: &Path, text: &str, count: usize) -> Result<(), String> {
    let spec = spec(text)?;
    let journals = spec.filesystem.iter().flat_map(|fs| fs.journals()).map(str::to_owned);
    let devices: Vec<String> = spec.devices.iter().cloned().chain(journals).collect();
    let (path, list) = (state.to_str().unwrap(), state.join("points"));
    fs::create_dir_all(work_dir(state)).map_err(|error| error.to_string())?;
    let before = traces(state, &devices);
    let whole = driver(&["cycle", path, text], Some(&format!("list:{}", list.display())));
    if !whole.status.success() {
        return Err(format!("without any kill: {}", said(&whole)));
    }
    let points = fs::read_to_string(&list).map_err(|error| error.to_string())?;
    fs::remove_file(&list).ok();
    let points: Vec<&str> =
        points.lines().filter_map(|line| line.split_once(' ')).map(|p| p.1).collect();
    let count = count.min(points.len());
    let mut kinds = BTreeSet::new();
    let began = Instant::now();
    for kill in 0..count {
        let number = 1 + kill * points.len() / count;
        let name = points[number - 1];
        kinds.insert(name);
        let killed = driver(&["cycle", path, text], Some(&format!("kill:{number}")));
        let what = format!("killed at point {number} ({name})");
        if killed.status.signal() != Some(9) {
            return Err(format!("{what}, but it lives: {}", said(&killed)));
        }
        if kill % 3 == 2 {
            driver(&["undo", path], Some(&format!("kill:{}", 1 + kill % 23)));
        }
        let undone = driver(&["undo", path], None);
        let after = traces(state, &devices);
        if !undone.status.success() || after != before {
            let left: Vec<_> =
                after.iter().filter(|item| before.get(item.0) != Some(item.1)).collect();
            return Err(format!("{what}: left {left:?}\n{}\n{}", said(&killed), said(&undone)));
        }
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "KILLS {count} at {count} of {} points of {} kinds in {seconds} s",
        points.len(),
        kinds.len()
    );
    Ok(())
}

/// Devices that are made of others and on which something is recognised, with what it is.
fn shown() -> Vec<String> {
    let built =
        BlockDir::disks(&SysRoot::live()).into_iter().filter(|disk| !disk.slaves().is_empty());
    let found = built.filter_map(|disk| {
        let file = blkdev::open_to_look(disk.dev_path().as_ref(), false).ok()?;
        let found = probe::signatures(&file, blkdev::size_bytes(&file).ok()?).ok()?;
        let names: Vec<&str> = found.iter().map(|signature| signature.name).collect();
        (!names.is_empty()).then(|| format!("{} on {}", names.join(", "), disk.name()))
    });
    found.collect()
}

/// Kills the building at each fault point between two that have these names; before each time the shell command `prime` puts old data
/// where it shows. What is left must be put in order, and nothing of it is taken for somebody's.
pub fn kills_old(state: &Path, text: &str, prime: &str, ends: [&str; 2]) -> Result<(), String> {
    let devices = spec(text)?.devices;
    let (path, list) = (state.to_str().unwrap(), state.join("points-old"));
    fs::create_dir_all(work_dir(state)).map_err(|error| error.to_string())?;
    let nothing = Path::new("/");
    shell(prime, nothing)?;
    let before = traces(state, &devices);
    fs::remove_file(&list).ok();
    let whole = driver(&["cycle", path, text], Some(&format!("list:{}", list.display())));
    if !whole.status.success() {
        return Err(format!("without any kill: {}", said(&whole)));
    }
    let points = fs::read_to_string(&list).map_err(|error| error.to_string())?;
    let points: Vec<&str> =
        points.lines().filter_map(|line| line.split_once(' ')).map(|p| p.1).collect();
    let last = points.iter().position(|point| *point == ends[1]).unwrap_or(0);
    let Some(first) = points[..last].iter().rposition(|point| *point == ends[0]) else {
        return Err(format!("{ends:?} are not in {points:?}\n{}", said(&whole)));
    };
    let mut times_shown = 0;
    for number in first + 1..=last + 1 {
        shell(prime, nothing)?;
        let what = format!("killed at point {number} ({})", points[number - 1]);
        let killed = driver(&["cycle", path, text], Some(&format!("kill:{number}")));
        if killed.status.signal() != Some(9) {
            return Err(format!("{what}, but it lives: {}", said(&killed)));
        }
        let shows = shown();
        times_shown += usize::from(!shows.is_empty());
        println!("{what}: {shows:?}");
        if number % 3 == 2 {
            driver(&["undo", path], Some(&format!("kill:{}", 1 + number % 7)));
        }
        let undone = driver(&["undo", path], None);
        let after = traces(state, &devices);
        if !undone.status.success() || after != before {
            return Err(format!("{what}: left {after:?}\n{}\n{}", said(&killed), said(&undone)));
        }
    }
    println!("OLD {} {times_shown}", last + 1 - first);
    Ok(())
}

/// Dies at the first fault point of that name; which one it is, `kills_old` has found out.
fn die_at(state: &Path, text: &str, name: &str) -> Result<(), String> {
    let points = fs::read_to_string(state.join("points-old")).map_err(|e| e.to_string())?;
    let mut points = points.lines().filter_map(|line| line.split_once(' '));
    let point = points.find(|point| point.1 == name).ok_or("no such point")?;
    let path = state.to_str().unwrap();
    let died = driver(&["cycle", path, text], Some(&format!("kill:{}", point.0)));
    println!("{}SHOWN {:?}", said(&died), shown());
    if died.status.signal() == Some(9) { Ok(()) } else { Err("it lives".to_owned()) }
}
