//! Running one side once, and reading what it says about itself.

use super::scenes::{Scene, Source};
use super::sides::{Side, Tool};
use super::{files, tio};
use crate::workspace::{items, text};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The name that sysbench gives its first test file.
pub const SYSBENCH_FILE: &str = "test_file.0";

/// What one run of one side showed; none where the tool does not tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Requests per second.
    pub rate: f64,
    /// User and system CPU time per request, nanoseconds.
    pub cpu_ns: Option<f64>,
    /// User CPU time per request, nanoseconds.
    pub user_ns: Option<f64>,
    /// Little's law: mean latency times rate by depth, 1 when no time is lost.
    pub closure: Option<f64>,
    /// The same from the latency that fio shows first, which leaves out the hand-over.
    pub closure_clat: Option<f64>,
    /// Requests that ended per hand-over.
    pub batch: Option<f64>,
}

impl Sample {
    /// Nothing told yet.
    pub const NOTHING: Self = Self {
        rate: 0.0,
        cpu_ns: None,
        user_ns: None,
        closure: None,
        closure_clat: None,
        batch: None,
    };
}

/// The programs of this machine.
pub struct Programs {
    /// fathom's binary.
    pub fathom: PathBuf,
    store: PathBuf,
    /// `fio-3.33`; none where it is not installed.
    pub fio: Option<String>,
    /// `sysbench 1.0.20`; none where it is not installed.
    pub sysbench: Option<String>,
    /// fs_mark's version; none where it is not installed.
    pub fs_mark: Option<String>,
    /// `t/io_uring` of the installed fio's source, or why there is none.
    pub bare: Result<PathBuf, String>,
}

impl Programs {
    /// Asks every program for its version.
    #[must_use]
    pub fn found(fathom: PathBuf, store: PathBuf, bare: Result<PathBuf, String>) -> Self {
        let version = |program| {
            let output = Command::new(program).arg("--version").output().ok()?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let (fio, sysbench, fs_mark) = (version("fio"), version("sysbench"), files::fs_mark());
        Self { fathom, store, fio, sysbench, fs_mark, bare }
    }

    /// The store that fathom's runs go to.
    #[must_use]
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// Why a tool cannot run; none when it can.
    #[must_use]
    pub fn missing(&self, tool: Tool) -> Option<String> {
        match (tool, &self.bare) {
            (Tool::Fio, _) if self.fio.is_none() => Some("fio is not installed".to_owned()),
            (Tool::Sysbench, _) if self.sysbench.is_none() => {
                Some("sysbench is not installed".to_owned())
            }
            (Tool::FsMark, _) if self.fs_mark.is_none() => {
                Some("fs_mark is not installed (apt: fsmark)".to_owned())
            }
            (Tool::Bare, Err(reason)) => Some(format!("t/io_uring cannot be had: {reason}")),
            _ => None,
        }
    }

    /// Runs a side once. What is to be cached is read before.
    ///
    /// # Errors
    /// When the program fails, did not do what it was asked to, or says nothing that can be read.
    pub fn run(&self, scene: &Scene, side: &Side) -> Result<Sample, String> {
        if let Some(file) = &scene.file
            && scene.source == Source::Cached
        {
            fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let before = children_cpu()?;
        let output = patiently(&mut self.command(scene, side)?)?;
        let cpu = children_cpu()?;
        let spent =
            Cpu { user_ns: cpu.user_ns - before.user_ns, all_ns: cpu.all_ns - before.all_ns };
        let said = String::from_utf8_lossy(&output.stdout);
        // fathom ends with 1 for a doubtful result, and reads from the page cache are doubtful: the point here.
        let is_fathom = matches!(side.tool, Tool::Fathom | Tool::FathomFiles);
        let good: &[i32] = if is_fathom { &[0, 1] } else { &[0] };
        if !output.status.code().is_some_and(|code| good.contains(&code)) {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", output.status, errors.lines().last().unwrap_or("")));
        }
        match side.tool {
            Tool::Fathom => of_fathom(&said, scene.depth),
            Tool::Fio => of_fio(&said, scene.depth),
            Tool::Sysbench => of_sysbench(&said, spent),
            Tool::Bare => tio::sample(&said),
            Tool::FathomFiles => files::of_fathom(&said),
            Tool::BareFiles => files::of_bare(&said),
            Tool::FsMark => {
                files::empty(scene.file.as_deref())?;
                files::of_fs_mark(&said)
            }
        }
    }

    fn command(&self, scene: &Scene, side: &Side) -> Result<Command, String> {
        let mut command = match side.tool {
            Tool::Fathom => {
                let mut command = Command::new(&self.fathom);
                command.arg("--db").arg(&self.store);
                command
            }
            Tool::Fio => Command::new("fio"),
            Tool::FathomFiles => {
                let mut command = Command::new("taskset");
                command.args(["-c", "0"]).arg(&self.fathom).arg("--db").arg(&self.store);
                command
            }
            Tool::BareFiles => {
                let mut command = Command::new("taskset");
                let examples = self.fathom.parent().map(|p| p.join("examples"));
                command.args(["-c", "0"]).args(
                    side.args.first().map(|program| examples.unwrap_or_default().join(program)),
                );
                command.args(side.args.iter().skip(1));
                return Ok(command);
            }
            Tool::FsMark => {
                let mut command = Command::new("taskset");
                command.args(["-c", "0", "fs_mark"]);
                // It writes a log into the directory in which it runs.
                command.current_dir(scene.file.as_deref().unwrap_or(Path::new(".")));
                command
            }
            Tool::Bare => {
                let mut command = Command::new("timeout");
                command.args(["--foreground", "--preserve-status", "--signal=INT"]);
                command.arg(format!("{:.1}", tio::RUN.as_secs_f64()));
                command
                    .args(["taskset", "-c", "0"])
                    .arg(self.bare.as_ref().map_err(String::clone)?);
                command
            }
            Tool::Sysbench => {
                let file = scene.file.as_deref().unwrap_or(Path::new(SYSBENCH_FILE));
                let size_bytes = fs::metadata(file)
                    .map_err(|error| format!("{}: {error}", file.display()))?
                    .len();
                let size_bytes = match scene.source {
                    Source::Small => files::SMALL_BYTES,
                    _ => size_bytes,
                };
                let mut command = Command::new("taskset");
                command.args(["-c", "0", "sysbench"]);
                command.arg(format!("--file-total-size={size_bytes}"));
                command.current_dir(file.parent().unwrap_or(Path::new(".")));
                command
            }
        };
        command.args(&side.args);
        Ok(command)
    }
}

/// Runs a command, again while fathom says that another one is measuring on this machine.
///
/// # Errors
/// When it cannot be started.
pub fn patiently(command: &mut Command) -> Result<Output, String> {
    patiently_from(command).map(|(_, output)| output)
}

/// The same, with the time (UTC, nanoseconds since 1970) just before the start of the last try.
///
/// # Errors
/// When it cannot be started.
pub fn patiently_from(command: &mut Command) -> Result<(i64, Output), String> {
    let mut tries = 1;
    loop {
        command.stdin(Stdio::null());
        let started_ns = unix_ns();
        let output = command.output().map_err(|error| error.to_string())?;
        // Nothing else can be refused here: no side writes anything.
        if output.status.code() != Some(FATHOM_REFUSED) || tries == TRIES_MAX {
            return Ok((started_ns, output));
        }
        tries += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// UTC, nanoseconds since 1970.
#[must_use]
pub fn unix_ns() -> i64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX)
}

/// One operation with its stamps, UTC in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamped {
    /// Handed to the kernel.
    pub start_ns: i64,
    /// Back.
    pub end_ns: i64,
    /// Where.
    pub offset_bytes: u64,
}

/// The operations in the order of their starts, from fathom's result line: of a run of up to 100, its slowest 100 are
/// all.
#[must_use]
pub fn operations(said: &str) -> Option<Vec<Stamped>> {
    let value: Value = serde_json::from_str(said.lines().last()?).ok()?;
    let record = &value["records"][0];
    let window_ns = record["started_unix_ns"].as_i64()?;
    let each = items(&record["jobs"][0]["slowest"]).map(|op| {
        let end_ns = window_ns + op["end_ns"].as_i64()?;
        let start_ns = end_ns - op["latency_ns"].as_i64()?;
        Some(Stamped { start_ns, end_ns, offset_bytes: op["offset_bytes"].as_u64()? })
    });
    let mut operations = each.collect::<Option<Vec<Stamped>>>()?;
    operations.sort_by_key(|op| op.start_ns);
    Some(operations)
}

/// fathom's exit code when somebody else measures.
pub const FATHOM_REFUSED: i32 = 3;
/// How often to ask again, a second after each refusal.
pub const TRIES_MAX: u32 = 120;

/// CPU time of all children that have ended.
#[derive(Debug, Clone, Copy)]
struct Cpu {
    user_ns: f64,
    all_ns: f64,
}

/// From /proc/self/stat, in hundredths of a second.
fn children_cpu() -> Result<Cpu, String> {
    let mut stat = String::new();
    fs::File::open("/proc/self/stat")
        .and_then(|mut file| file.read_to_string(&mut stat))
        .map_err(|error| format!("/proc/self/stat: {error}"))?;
    // Fields 16 and 17 of proc(5), counted behind the name in parentheses, which ends field 2.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: Vec<f64> = fields.skip(13).take(2).filter_map(|f| f.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok(Cpu { user_ns: user * 1e7, all_ns: (user + system) * 1e7 }),
        _ => Err("/proc/self/stat is not understood".to_owned()),
    }
}

/// fathom's result line: CPU time of its worker threads inside the window.
fn of_fathom(said: &str, depth: u32) -> Result<Sample, String> {
    let line = said.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let job = &value["records"][0]["jobs"][0];
    if let Some(reason) = job["engine"]["fallback"].as_str() {
        return Err(format!("fell back: {reason}"));
    }
    let latency = items(&job["classes"]).next().map_or(&Value::Null, |class| &class["latency_ns"]);
    let count = number(&latency["count"])?;
    let (window_ns, batches) = (number(&job["window_ns"])?, number(&job["batches"])?);
    let (user_ns, system_ns) = (number(&job["cpu"]["user_ns"])?, number(&job["cpu"]["system_ns"])?);
    Ok(Sample {
        rate: count / window_ns * 1e9,
        cpu_ns: Some((user_ns + system_ns) / count),
        user_ns: Some(user_ns / count),
        closure: Some(number(&latency["sum"])? / window_ns / f64::from(depth)),
        closure_clat: None,
        batch: Some(count / batches),
    })
}

/// fio's JSON: CPU time of its job's thread, as percent of the job's time.
fn of_fio(said: &str, depth: u32) -> Result<Sample, String> {
    // Notes may stand before the JSON.
    let start = said.find('{').ok_or("no JSON")?;
    let value: Value = serde_json::from_str(&said[start..]).map_err(|error| error.to_string())?;
    let job = &value["jobs"][0];
    let read = &job["read"];
    let (count, rate) = (number(&read["total_ios"])?, number(&read["iops"])?);
    // Percent of the milliseconds of the job.
    let per_percent_ns = number(&job["job_runtime"])? * 1e4 / count;
    let (user, system) = (number(&job["usr_cpu"])?, number(&job["sys_cpu"])?);
    let closure =
        |key| Ok::<_, String>(number(&read[key]["mean"])? * rate / 1e9 / f64::from(depth));
    Ok(Sample {
        rate,
        cpu_ns: Some((user + system) * per_percent_ns),
        user_ns: Some(user * per_percent_ns),
        closure: Some(closure("lat_ns")?),
        closure_clat: Some(closure("clat_ns")?),
        ..Sample::NOTHING
    })
}

/// sysbench's text; it says nothing of CPU time, so that of the whole process stands for it.
fn of_sysbench(said: &str, spent: Cpu) -> Result<Sample, String> {
    let after = |label: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(label));
        line.and_then(|rest| rest.trim().trim_end_matches('s').parse::<f64>().ok())
            .ok_or_else(|| format!("'{label}' is missing"))
    };
    let count = after("total number of events:")?;
    if count <= 0.0 {
        return Err("nothing was read".to_owned());
    }
    Ok(Sample {
        rate: after("reads/s:")?,
        cpu_ns: Some(spent.all_ns / count),
        user_ns: Some(spent.user_ns / count),
        ..Sample::NOTHING
    })
}

/// A JSON number, also one written as a string.
pub(super) fn number(value: &Value) -> Result<f64, String> {
    let number = value.as_f64().or_else(|| text(value).parse().ok());
    number.filter(|n| n.is_finite()).ok_or_else(|| format!("{value} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fathoms_line_is_read() {
        let said = r#"{"type":"start"}
{"type":"result","records":[{"jobs":[{"engine":{"fallback":null},"window_ns":2000,
"batches":5,"cpu":{"user_ns":100,"system_ns":900},"classes":[{"latency_ns":{"count":10,"sum":"3200"}}]}]}]}"#
            .replace(",\n", ",");
        let sample = of_fathom(&said, 2).unwrap();
        let expected = Sample {
            rate: 5e6,
            cpu_ns: Some(100.0),
            user_ns: Some(10.0),
            closure: Some(0.8),
            closure_clat: None,
            batch: Some(2.0),
        };
        assert_eq!(sample, expected);
        let fallen = said.replace("\"fallback\":null", "\"fallback\":\"no io_uring\"");
        assert!(of_fathom(&fallen, 2).unwrap_err().contains("no io_uring"));
        assert!(of_fathom("", 1).is_err());
    }

    #[test]
    fn operations_get_their_time_of_day() {
        let said = r#"{"records":[{"started_unix_ns":1000,"jobs":[{"slowest":[
{"end_ns":90,"latency_ns":30,"offset_bytes":4096},{"end_ns":50,"latency_ns":20,"offset_bytes":0}]}]}]}"#
            .replace('\n', "");
        let first = Stamped { start_ns: 1030, end_ns: 1050, offset_bytes: 0 };
        let second = Stamped { start_ns: 1060, end_ns: 1090, offset_bytes: 4096 };
        assert_eq!(operations(&said), Some(vec![first, second]));
        assert_eq!(operations("{}"), None);
    }

    #[test]
    fn fios_json_is_read() {
        let said = r#"fio: a note
{"jobs":[{"job_runtime":1000,"usr_cpu":25.0,"sys_cpu":75.0,
"read":{"total_ios":1000000,"iops":1000000.0,"lat_ns":{"mean":31000.0},"clat_ns":{"mean":1600.0}}}]}"#;
        let sample = of_fio(said, 32).unwrap();
        let expected = Sample {
            rate: 1e6,
            cpu_ns: Some(1000.0),
            user_ns: Some(250.0),
            closure: Some(0.968_75),
            closure_clat: Some(0.05),
            ..Sample::NOTHING
        };
        assert_eq!(sample, expected);
    }

    #[test]
    fn sysbenchs_text_is_read() {
        let said = "File operations:\n    reads/s:     1080.5\n    writes/s:   0.00\n\
                    General statistics:\n    total time:  1.0001s\n    total number of events:  1000\n";
        let spent = Cpu { user_ns: 2e5, all_ns: 1e6 };
        let sample = of_sysbench(said, spent).unwrap();
        let expected =
            Sample { rate: 1080.5, cpu_ns: Some(1000.0), user_ns: Some(200.0), ..Sample::NOTHING };
        assert_eq!(sample, expected);
        assert!(of_sysbench("FATAL: no file", spent).is_err());
    }

    #[test]
    fn the_cpu_time_of_children_is_seen() {
        let before = children_cpu().unwrap();
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(children_cpu().unwrap().user_ns >= before.user_ns + 1e7);
    }
}
