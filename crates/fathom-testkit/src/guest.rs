//! Guests: a kernel of its own, for md, device mapper, multipath and SCSI disks where the host has none of them.
//!
//! A guest is User Mode Linux, a kernel that runs as a process, also without root. Its root directory is the host's,
//! read-only; `/etc` is an overlay, `/run`, `/tmp` and `/dev/shm` are memory, and one directory of the test is written
//! through to the host. So it sees the host's tools and the binary under test without any disk image.
//!
//! A [`GuestJob`] is a list of small bash scripts. [`Guest::boot`] starts it, [`Guest::wait`] gives back what each
//! script said and how it ended.

use crate::command::{KitError, at, find_tool};
use crate::scratch::Scratch;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What process 1 of the guest does; the variables it needs are put before it.
const INIT: &str = include_str!("guest/init.sh");
/// The name of the guest kernel's program.
const KERNEL: &str = "linux.uml";
/// The last letters of the guest's disks.
const DISKS: &str = "abcdefgh";

/// Why there is no result of a guest.
#[derive(Debug, Error)]
pub enum GuestError {
    /// Something on the host's side.
    #[error(transparent)]
    Kit(#[from] KitError),
    /// The kernel did not get as far as its first process.
    #[error("the guest did not come up ({why}); the end of its console:\n{console}")]
    NotUp {
        /// How it ended.
        why: String,
        /// The last lines of its console.
        console: String,
    },
    /// It came up and did not end its job.
    #[error("the guest was lost in step '{step}' ({why}); the end of its console:\n{console}")]
    Lost {
        /// The step that was under way.
        step: String,
        /// How it ended.
        why: String,
        /// The last lines of its console.
        console: String,
    },
    /// A step that prepares others failed; the rest was not done.
    #[error("step '{step}' of the guest ended with {code}: {output}")]
    Step {
        /// Which one.
        step: String,
        /// Its exit code.
        code: i32,
        /// What it said, both streams.
        output: String,
    },
}

/// What a guest is to do.
#[derive(Debug, Clone)]
pub struct GuestJob {
    memory_mib: u32,
    limit: Duration,
    tools: PathBuf,
    disks: Vec<u64>,
    prelude: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    name: String,
    must_succeed: bool,
    script: String,
}

impl Step {
    /// The name of its file: the order, the name, and what a failure means.
    fn file_name(&self, index: usize) -> String {
        let kind = if self.must_succeed { "must" } else { "may" };
        format!("{index:03}-{}.{kind}", self.name)
    }
}

impl GuestJob {
    /// An empty job that may take a minute. The programs in the `tools` directory of the host come first on the
    /// guest's `PATH`.
    #[must_use]
    pub fn new(tools: &Path) -> Self {
        Self {
            memory_mib: 768,
            limit: Duration::from_secs(60),
            tools: tools.to_owned(),
            disks: Vec::new(),
            prelude: String::new(),
            steps: Vec::new(),
        }
    }

    /// How long the guest may live.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The guest's memory, in MiB; RAM disks must fit into it.
    #[must_use]
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// One more blank disk over a sparse file: `/dev/ubda`, `/dev/ubdb` and so on, eight at most.
    #[must_use]
    pub fn disk(mut self, size_bytes: u64) -> Self {
        self.disks.push(size_bytes);
        self
    }

    /// Shell functions that all steps know.
    #[must_use]
    pub fn prelude(mut self, script: &str) -> Self {
        self.prelude.push_str(script);
        self
    }

    /// A script that prepares what follows: at its first failing command it ends, and the job with it. The name is a
    /// plain word. Scripts have `load MODULE...` to load kernel modules, `load_with MODULE NAME=VALUE...` for one with
    /// parameters, and `wait_for PATH...`, which waits until all of these exist.
    #[must_use]
    pub fn setup(self, name: &str, script: &str) -> Self {
        self.add(name, true, script)
    }

    /// A script whose end is recorded, whatever it is; like [`GuestJob::setup`] it ends at its first failing command.
    #[must_use]
    pub fn step(self, name: &str, script: &str) -> Self {
        self.add(name, false, script)
    }

    fn add(mut self, name: &str, must_succeed: bool, script: &str) -> Self {
        self.steps.push(Step { name: name.to_owned(), must_succeed, script: script.to_owned() });
        self
    }
}

/// A guest that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Guest {
    /// None once it has been waited for.
    child: Option<Child>,
    started: Instant,
    job: GuestJob,
    scratch: Scratch,
}

impl Guest {
    /// Starts the guest and its job.
    ///
    /// # Errors
    /// [`GuestError::Kit`] when its files cannot be made or the kernel's program cannot be started.
    pub fn boot(job: GuestJob) -> Result<Self, GuestError> {
        fs::read_dir(&job.tools).map_err(at(&job.tools))?;
        let scratch = Scratch::new()?;
        let out = scratch.join("out");
        write_files(&job, &scratch, &out)?;
        let console = scratch.join("console");
        let console = File::create(&console).map_err(at(&console))?;
        let copy = console.try_clone().map_err(at(scratch.path()))?;
        let program = find_tool(KERNEL).unwrap_or_else(|| PathBuf::from(KERNEL));
        let mut command = Command::new(&program);
        command.args(kernel_arguments(&job, &scratch));
        // Its sockets are made in the home directory. All its processes can be found by the group and by where they are.
        command.env("HOME", scratch.path()).current_dir(scratch.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(console).stderr(copy);
        let child = command
            .spawn()
            .map_err(|source| KitError::Spawn { command: program.display().to_string(), source })?;
        Ok(Self { child: Some(child), started: Instant::now(), job, scratch })
    }

    /// Waits until the guest has powered itself off.
    ///
    /// # Errors
    /// [`GuestError`] when it did not come up, was lost, took too long, or a preparing step failed.
    pub fn wait(mut self) -> Result<GuestReport, GuestError> {
        while !self.has_ended() && self.started.elapsed() <= self.job.limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        let duration = self.started.elapsed();
        let status = self.end().filter(|_| duration <= self.job.limit);
        let killed = || format!("killed after {} s", self.job.limit.as_secs());
        let why = status.map_or_else(killed, |status| status.to_string());
        let out = self.scratch.join("out");
        let console = || tail(&fs::read(self.scratch.join("console")).unwrap_or_default());
        if !out.join("up").exists() {
            return Err(GuestError::NotUp { why, console: console() });
        }
        let steps = self.results(&out);
        if let Some((failed, step)) = steps
            .iter()
            .zip(&self.job.steps)
            .find(|(result, step)| step.must_succeed && result.code.is_some_and(|code| code != 0))
        {
            let (code, output) = (failed.code.unwrap_or(-1), failed.said());
            return Err(GuestError::Step { step: step.name.clone(), code, output });
        }
        if !out.join("done").exists() {
            let step = steps.iter().find(|step| step.code.is_none());
            let step = step.map_or_else(String::new, |step| step.name.clone());
            return Err(GuestError::Lost { step, why, console: console() });
        }
        Ok(GuestReport { steps, duration })
    }

    fn results(&self, out: &Path) -> Vec<StepResult> {
        let read = |index: usize, step: &Step, what: &str| {
            let path = out.join("results").join(format!("{}.{what}", step.file_name(index)));
            fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let one = |(index, step): (usize, &Step)| StepResult {
            name: step.name.clone(),
            code: read(index, step, "code").ok().and_then(|text| text.trim().parse().ok()),
            stdout: read(index, step, "out").unwrap_or_default(),
            stderr: read(index, step, "err").unwrap_or_default(),
        };
        self.job.steps.iter().enumerate().map(one).collect()
    }

    /// True when the kernel's process has ended; it stays to be waited for, so that its number is not given away.
    fn has_ended(&self) -> bool {
        let Some(pid) = self.child.as_ref().and_then(pid) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    /// Kills what is left of the guest: the kernel's process and those that it runs programs in.
    fn end(&mut self) -> Option<ExitStatus> {
        let mut child = self.child.take()?;
        if let Some(group) = pid(&child) {
            // That nothing but the ended leader is left is the good case.
            let _ = kill_process_group(group, Signal::KILL);
        }
        child.wait().ok()
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

fn kernel_arguments(job: &GuestJob, scratch: &Scratch) -> Vec<String> {
    // Never `rw`: as root that would be the host's own file system.
    let fixed =
        "root=none rootfstype=hostfs ro con=null con0=null,fd:1 con1=null loglevel=5 panic=-1";
    let mut words: Vec<String> = fixed.split(' ').map(str::to_owned).collect();
    words.push(format!("mem={}M", job.memory_mib));
    words.push(format!("init={}", scratch.join("init").display()));
    for (index, letter) in DISKS.chars().enumerate().take(job.disks.len()) {
        // `t`: no discard, which is slow.
        words.push(format!("ubd{index}t={}", scratch.join(format!("ubd{letter}")).display()));
    }
    words
}

fn write_files(job: &GuestJob, scratch: &Scratch, out: &Path) -> Result<(), KitError> {
    let steps = out.join("steps");
    for dir in [&steps, &out.join("results")] {
        fs::create_dir_all(dir).map_err(at(dir))?;
    }
    let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(at(&path));
    for (index, step) in job.steps.iter().enumerate() {
        put(steps.join(step.file_name(index)), &step.script)?;
    }
    put(out.join("prelude"), &job.prelude)?;
    for (letter, size_bytes) in DISKS.chars().zip(&job.disks) {
        let path = scratch.join(format!("ubd{letter}"));
        let file = File::create_new(&path).map_err(at(&path))?;
        file.set_len(*size_bytes).map_err(at(&path))?;
    }
    let init = scratch.join("init");
    let text = format!(
        "#!/bin/bash\nOUT={}\nTOOLS={}\nLIMIT={}\n{INIT}",
        quoted(out),
        quoted(&job.tools),
        job.limit.as_secs()
    );
    put(init.clone(), &text)?;
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&init, executable).map_err(at(&init))
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

/// The last lines of a console that a person can make something of.
fn tail(bytes: &[u8]) -> String {
    const SHOWN: usize = 20;
    let text = String::from_utf8_lossy(bytes);
    let is_frame = |line: &str| line.starts_with("[<") || line.is_empty();
    let lines: Vec<&str> = text.lines().filter(|line| !is_frame(line.trim())).collect();
    lines[lines.len().saturating_sub(SHOWN)..].join("\n")
}

/// What came of one step.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// Its name.
    pub name: String,
    /// Its exit code; none when it did not end.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl StepResult {
    /// Both streams.
    #[must_use]
    pub fn said(&self) -> String {
        format!("{}{}", self.stderr, self.stdout).trim().to_owned()
    }
}

/// What came of all steps of a guest.
#[derive(Debug, Clone)]
pub struct GuestReport {
    /// The steps in their order.
    pub steps: Vec<StepResult>,
    /// From the start of the kernel to its end.
    pub duration: Duration,
}

impl GuestReport {
    /// The step of that name.
    ///
    /// # Panics
    /// When the job has no such step.
    #[must_use]
    pub fn step(&self, name: &str) -> &StepResult {
        let found = self.steps.iter().find(|step| step.name == name);
        found.unwrap_or_else(|| panic!("the guest's job has no step '{name}'"))
    }
}
