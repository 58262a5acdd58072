//! Scenes of file servers: many small files, opened, read, made and deleted, against bare system calls, fs_mark and sysbench.

use super::build_with;
use super::goals::Goal;
use super::place::lay_out;
use super::scenes::{Contest, Files, Measure, Scene, Source, contest, scene};
use super::sides::{Maker, Side, Tool};
use super::tools::{Sample, number};
use crate::workspace::{items, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What a load of files takes beside the measured time: its start, its files, its end.
pub const BESIDE: Duration = Duration::from_millis(600);
/// Title of the scene with the tree.
pub const TREE: &str = "a tree of files of 4 KiB on tmpfs: next entry, lstat, open, first byte, rest, close; a request is a file read";
/// Title of the scene with the spool.
pub const SPOOL: &str = "a spool of 1000 files of 4 KiB on disk: create, write, fsync, close, delete the oldest; a request is a file \
                         delivered. fs_mark deletes nothing, and tries a mkdir for each file";
/// Title of the scenes with names; whose directory follows.
pub const STORM: &str = "a storm on the names of 1000 empty files of each of 4 processes on disk: create, stat, unlink; a request is one of \
                         these. The bare loop has them in turn, as mdtest, fathom by chance";
/// Where the small files are.
pub const SMALL: &str = "128 files of 16 KiB in the page cache, all open";

/// All small files together.
pub const SMALL_BYTES: u64 = SMALL_FILES * SMALL_FILE_BYTES;
const SMALL_FILES: u64 = 128;
const SMALL_FILE_BYTES: u64 = 16 << 10;
const STORM_PROCESSES: u64 = 4;
const STORM_FILES_EACH: u64 = 1000;
const SPOOL_FILES: u64 = 1000;
const SPOOL_FILE_BYTES: u64 = 4096;
/// What fs_mark makes in a run: it knows no time.
const FS_MARK_FILES: &str = "1000";

const FATHOM_WALK: &str = "fathom fsop";
const FATHOM_MAIL: &str = "fathom mail";
const FATHOM_STORM: &str = "fathom metadata-storm";
const FATHOM_SMALL: &str = "fathom psync";
/// Reads of one file, which has no tree, as the only one of the bare loops.
pub const BARE_PREAD: &str = "bare_pread";
const BARE_WALK: &str = "bare_walk";
const BARE_MAIL: &str = "bare_mail";
const BARE_STORM: &str = "bare_storm";
const FS_MARK: &str = "fs_mark";
const SYSBENCH: &str = "sysbench sync";

/// One reader against the same system calls in the same order.
pub fn walk(make: &Maker) -> Scene {
    let length = milliseconds(make);
    let settings = ["phases=1r", &format!("window={length}ms"), "drop_caches=no"];
    let ours = fathom(FATHOM_WALK, "fsop", make, &settings);
    let sides = vec![ours, bare(BARE_WALK, make, &[length])];
    // Of the two, the time that the processor was used does not depend on who else wants it.
    let goal = Goal::AtMost(1.1);
    let contests = [Measure::Each, Measure::Cpu].map(|m| contest(FATHOM_WALK, BARE_WALK, m, goal));
    scene("walk", Source::Tree, make, sides, contests.into())
}

/// One client of the mail server: the disk decides, so that nothing is to be reached.
pub fn mail(make: &Maker) -> Scene {
    let length = milliseconds(make);
    let settings = [
        "clients=1",
        &format!("files={SPOOL_FILES}"),
        "dirs=0",
        &format!("sizes={SPOOL_FILE_BYTES}"),
        "sync=file",
        &format!("window={length}ms"),
        "warmup=0s",
        "drop_caches=no",
    ];
    let ours = fathom(FATHOM_MAIL, "mail", make, &settings);
    let theirs = bare(BARE_MAIL, make, &[length, SPOOL_FILES, SPOOL_FILE_BYTES]);
    let size = SPOOL_FILE_BYTES.to_string();
    let mut args = vec!["-d".to_owned()];
    args.extend(make.target.as_ref().map(|path| path.display().to_string()));
    let rest = ["-s", &size, "-w", &size, "-n", FS_MARK_FILES, "-L", "1", "-S", "1", "-t", "1"];
    args.extend(rest.map(str::to_owned));
    let fs_mark = Side { name: FS_MARK, tool: Tool::FsMark, args };
    let against = |theirs, measure| contest(FATHOM_MAIL, theirs, measure, Goal::None);
    let contests: Vec<Contest> = vec![
        against(BARE_MAIL, Measure::Each),
        against(BARE_MAIL, Measure::Cpu),
        against(FS_MARK, Measure::Each),
    ];
    scene("mail", Source::Spool, make, vec![ours, theirs, fs_mark], contests)
}

/// The metadata storm against a loop as mdtest has it: all processes in one directory, or each in one of its own.
pub fn storm(name: &'static str, is_shared: bool, make: &Maker) -> Scene {
    let length = milliseconds(make);
    let settings: [&str; 9] = [
        &format!("clients={STORM_PROCESSES}"),
        &format!("files={}", STORM_PROCESSES * STORM_FILES_EACH),
        if is_shared { "shared=yes" } else { "shared=no" },
        "dirs=0",
        "sizes=0",
        "mix=create:1,stat:1,delete:1",
        &format!("window={length}ms"),
        "warmup=0s",
        "drop_caches=no",
    ];
    let ours = fathom(FATHOM_STORM, "metadata-storm", make, &settings);
    let numbers = [length, STORM_PROCESSES, STORM_FILES_EACH, u64::from(is_shared)];
    let theirs = bare(BARE_STORM, make, &numbers);
    let against = |measure| contest(FATHOM_STORM, BARE_STORM, measure, Goal::None);
    let contests = [Measure::Each, Measure::Cpu].map(against);
    let mut scene = scene(name, Source::Spool, make, vec![ours, theirs], contests.into());
    let whose = if is_shared { "all in one directory" } else { "each in a directory of its own" };
    scene.title = format!("{STORM}; {whose}");
    scene
}

/// Random reads of many small files that stay open, which is what sysbench does with files.
pub fn small(make: &Maker) -> Scene {
    let directory = make.target.as_deref().and_then(Path::parent).map(Path::to_owned);
    let in_directory = Maker { target: directory, ..*make };
    let (files, size) = (format!("files={SMALL_FILES}"), format!("size={SMALL_BYTES}"));
    let settings =
        ["engine=psync", "direct=no", &files, &size, "file_choice=random", "drop_cache=no"];
    let ours = in_directory.fathom(FATHOM_SMALL, &settings);
    let mut theirs = make.sysbench(SYSBENCH, &["--file-io-mode=sync".to_owned()]);
    for arg in theirs.args.iter_mut().filter(|arg| arg.starts_with("--file-num=")) {
        *arg = format!("--file-num={SMALL_FILES}");
    }
    let contests = vec![contest(FATHOM_SMALL, SYSBENCH, Measure::Rate, Goal::None)];
    scene("small", Source::Small, make, vec![ours, theirs], contests)
}

/// How long a side runs.
pub fn milliseconds(make: &Maker) -> u64 {
    u64::try_from(make.length.as_millis()).unwrap_or(u64::MAX)
}

/// `fathom run WORKLOAD`; its threads are bound from outside.
fn fathom(name: &'static str, workload: &str, make: &Maker, settings: &[&str]) -> Side {
    let mut args = vec!["run".to_owned(), workload.to_owned()];
    args.extend(make.target.as_ref().map(|path| path.display().to_string()));
    args.extend(settings.iter().chain(&["--json", "--quiet"]).map(ToString::to_string));
    Side { name, tool: Tool::FathomFiles, args }
}

/// A loop of bare system calls, with what is made or read and these numbers.
pub fn bare(program: &'static str, make: &Maker, numbers: &[u64]) -> Side {
    let mut args = vec![program.to_owned()];
    args.extend(make.target.as_ref().map(|path| path.display().to_string()));
    args.extend(numbers.iter().map(ToString::to_string));
    Side { name: program, tool: Tool::BareFiles, args }
}

/// Makes what the scenes need that are asked for.
///
/// # Errors
/// Those of building and writing.
pub fn prepare(files: &Files, needs: &dyn Fn(Source) -> bool) -> Result<(), String> {
    if [Source::Tree, Source::Spool, Source::Cached].into_iter().any(needs) {
        let examples =
            [BARE_PREAD, BARE_WALK, BARE_MAIL, BARE_STORM].map(|name| ["--example", name]);
        let examples = examples.concat();
        build_with(&[&["--package=fathom-sys"][..], &examples].concat())?;
    }
    if needs(Source::Spool) {
        let fail = |error| format!("{}: {error}", files.spool.display());
        fs::create_dir_all(&files.spool).map_err(fail)?;
    }
    if needs(Source::Small) {
        for number in 0..SMALL_FILES {
            lay_out(&files.small.with_extension(number.to_string()), SMALL_FILE_BYTES)?;
        }
    }
    Ok(())
}

/// Removes what is in a directory of the benchmark: fs_mark leaves its files.
///
/// # Errors
/// Those of removing and making it.
pub fn empty(directory: Option<&Path>) -> Result<(), String> {
    let Some(directory) = directory else { return Ok(()) };
    let again = fs::remove_dir_all(directory).and_then(|()| fs::create_dir(directory));
    again.map_err(|error| format!("{}: {error}", directory.display()))
}

/// fs_mark's version, which it tells only in a complaint; none where it is not installed.
pub fn fs_mark() -> Option<String> {
    Command::new("fs_mark").arg("-h").output().ok()?;
    let package = Command::new("dpkg-query").args(["-W", "-f=${Version}", "fsmark"]).output();
    let version = package.ok().filter(|output| output.status.success());
    Some(version.map_or_else(String::new, |o| String::from_utf8_lossy(&o.stdout).into_owned()))
}

/// fathom's result line: the files that its processes closed in the window, of a storm every name that was made, looked at or
/// deleted; CPU time of the whole process.
///
/// # Errors
/// When the line is another one, or nothing was done.
pub fn of_fathom(said: &str) -> Result<Sample, String> {
    let line = said.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let record = &value["records"][0];
    let is_storm = text(&record["workload"]["name"]) == "metadata-storm";
    let counts: &[&str] =
        if is_storm { &["open_write", "stat", "unlink"] } else { &["close_read", "close_write"] };
    let is_counted = |class: &&Value| counts.contains(&text(&class["class"]));
    let mut files = 0.0;
    for process in items(&record["fsop"]["processes"]) {
        for class in items(&process["classes"]).filter(is_counted) {
            files += number(&class["latency_ns"]["count"])?;
        }
    }
    let cpu = &record["process_cpu"];
    let cpu_ns = number(&cpu["user_ns"])? + number(&cpu["system_ns"])?;
    sample(files, number(&record["window_ns"])?, cpu_ns)
}

/// The line of a bare loop.
///
/// # Errors
/// When it is another one, or nothing was done.
pub fn of_bare(said: &str) -> Result<Sample, String> {
    let value: Value = serde_json::from_str(said.trim()).map_err(|error| error.to_string())?;
    sample(number(&value["files"])?, number(&value["ns"])?, number(&value["cpu_ns"])?)
}

fn sample(files: f64, ns: f64, cpu_ns: f64) -> Result<Sample, String> {
    if files <= 0.0 || ns <= 0.0 {
        return Err("no file was done".to_owned());
    }
    Ok(Sample { rate: files / ns * 1e9, cpu_ns: Some(cpu_ns / files), ..Sample::NOTHING })
}

/// The last line of fs_mark's table: share of the space used, files, size, files per second, overhead. It tells no CPU time.
///
/// # Errors
/// Without such a line.
pub fn of_fs_mark(said: &str) -> Result<Sample, String> {
    let row = |line: &str| {
        let fields: Vec<f64> = line.split_whitespace().map_while(|f| f.parse().ok()).collect();
        if let [_, _, _, rate, _] = fields[..] { Some(rate) } else { None }
    };
    let rate = said.lines().rev().find_map(row).filter(|rate| *rate > 0.0);
    let rate = rate.ok_or("fs_mark tells no files per second")?;
    Ok(Sample { rate, ..Sample::NOTHING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_is_read() {
        let said = r#"{"type":"start"}
{"records":[{"window_ns":1000000000,"process_cpu":{"user_ns":100000,"system_ns":"300000"},"fsop":{"processes":[{"classes":[
{"class":"stat","latency_ns":{"count":9}},{"class":"close_read","latency_ns":{"count":200}},
{"class":"close_write","latency_ns":{"count":0}}]}]}}]}"#
            .replace("[\n", "[")
            .replace(",\n", ",");
        let read = of_fathom(&said).unwrap();
        assert_eq!((read.rate, read.cpu_ns), (200.0, Some(2000.0)));
        assert!(of_fathom(&said.replace("200", "0")).is_err(), "no file");
        let storm = said
            .replace("\"window_ns\"", "\"workload\":{\"name\":\"metadata-storm\"},\"window_ns\"")
            .replace("\"processes\":[", "\"processes\":[{\"classes\":[{\"class\":\"unlink\",\"latency_ns\":{\"count\":1}}]},");
        assert_eq!(of_fathom(&storm).unwrap().rate, 10.0, "9 looks and one name deleted, of two");
        let read = of_bare("{\"files\":50,\"ns\":500000000,\"cpu_ns\":100000}\n").unwrap();
        assert_eq!((read.rate, read.cpu_ns), (100.0, Some(2000.0)));
        assert!(of_bare("error").is_err());
        let said = "#\tVersion 3.3, 1 thread(s)\n\nFSUse%        Count         Size    Files/sec     App Overhead\n     \
                    0        20000         4096      53529.8           135743\n";
        assert_eq!(of_fs_mark(said).unwrap().rate, 53_529.8);
        assert!(of_fs_mark("").is_err());
    }

    #[test]
    fn sides_do_the_same() {
        let target = Some("spool".into());
        let make = Maker { target, depth: 1, length: Duration::from_millis(500) };
        let shown: Vec<String> = mail(&make).sides.iter().map(Side::shown).collect();
        assert!(shown[0].starts_with("taskset -c 0 fathom run mail spool clients=1 files=1000"));
        assert_eq!(shown[1], "taskset -c 0 bare_mail spool 500 1000 4096");
        assert!(shown[2].starts_with("taskset -c 0 fs_mark -d spool -s 4096 -w 4096 -n 1000"));
        let shown: Vec<String> = walk(&make).sides.iter().map(Side::shown).collect();
        assert!(
            shown[0].ends_with("fsop spool phases=1r window=500ms drop_caches=no --json --quiet")
        );
        assert_eq!(shown[1], "taskset -c 0 bare_walk spool 500");
        let shown: Vec<String> =
            storm("storm-own", false, &make).sides.iter().map(Side::shown).collect();
        assert!(shown[0].contains("metadata-storm spool clients=4 files=4000 shared=no dirs=0"));
        assert_eq!(shown[1], "taskset -c 0 bare_storm spool 500 4 1000 0");
        let shown = storm("storm-shared", true, &make).sides[1].shown();
        assert!(shown.ends_with(" 4 1000 1"), "{shown}");
        let make = Maker { target: Some("small/test_file.0".into()), ..make };
        let shown: Vec<String> = small(&make).sides.iter().map(Side::shown).collect();
        assert!(shown[0].contains("randread small engine=psync direct=no files=128 size=2097152"));
        assert!(shown[1].contains("--file-num=128 "), "{shown:?}");
    }

    #[test]
    fn what_fs_mark_leaves_goes() {
        let spool = std::env::temp_dir().join(format!("fathom-spool-{}", std::process::id()));
        fs::create_dir(&spool).unwrap();
        fs::write(spool.join("left"), "").unwrap();
        empty(Some(&spool)).unwrap();
        fs::remove_dir(spool).unwrap();
    }
}
