//! Guests: a kernel of its own, for storage that the host may not have.
//!
//! There are two kinds. User Mode Linux is a kernel that runs as a process, up in three seconds: md, device mapper,
//! multipath, SCSI disks. QEMU emulates a whole PC, up in ten seconds: NVMe, several CPUs, tracing, disks that lose
//! what was not flushed. Both run as any user; the root directory is the host's, read-only; `/etc` is an overlay, `/run`,
//! `/tmp` and `/dev/shm` are memory, and one directory of the test is written through to the host. So a guest sees the
//! host's tools and the binary under test without any disk image.
//!
//! A [`GuestJob`] is a list of small bash scripts. [`Guest::boot`] starts it, [`Guest::wait`] gives back what each
//! script said and how it ended.

mod initramfs;
mod job;
pub(crate) mod qemu;
mod uml;
mod volatile;

pub use job::{Bus, GuestJob};

use crate::command::{KitError, at};
use crate::scratch::Scratch;
use job::{Machine, Step, StepKind};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use thiserror::Error;
use volatile::VolatileDisk;

/// What process 1 of the guest does; the variables it needs are put before it.
const INIT: &str = include_str!("guest/init.sh");
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

/// A guest that runs. Dropping it kills it.
#[derive(Debug)]
pub struct Guest {
    /// None once it has been waited for.
    child: Option<Child>,
    started: Instant,
    job: GuestJob,
    /// The disks, when the power will be cut and they can lose something by it.
    disks: Vec<VolatileDisk>,
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
        let mut disks = Vec::new();
        if job.machine == Machine::Qemu && job.has_power_cut() {
            for index in 0..job.disks.len() {
                let file = disk_path(&scratch, index);
                let lies = job.disks[index].lies;
                disks.push(VolatileDisk::serve(&file, qemu::socket(&file), lies)?);
            }
        }
        let mut guest = Self { child: None, started: Instant::now(), job, disks, scratch };
        guest.power_on()?;
        Ok(guest)
    }

    fn power_on(&mut self) -> Result<(), KitError> {
        let console = self.scratch.join("console");
        let console =
            File::options().create(true).append(true).open(&console).map_err(at(&console))?;
        let copy = console.try_clone().map_err(at(self.scratch.path()))?;
        let mut command = match self.job.machine {
            Machine::Uml => uml::command(&self.job, &self.scratch)?,
            Machine::Qemu => qemu::command(&self.job, &self.scratch, !self.disks.is_empty())?,
        };
        // All its processes can be found by the group and by where they are.
        command.current_dir(self.scratch.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(console).stderr(copy);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn();
        self.child = Some(child.map_err(|source| KitError::Spawn { command: program, source })?);
        Ok(())
    }

    /// Waits until the guest has powered itself off; cuts its power where the job says so.
    ///
    /// # Errors
    /// [`GuestError`] when it did not come up, was lost, took too long, or a preparing step failed.
    pub fn wait(mut self) -> Result<GuestReport, GuestError> {
        let out = self.scratch.join("out");
        let is_cut = |(index, step): (usize, &Step)| {
            (step.kind == StepKind::Cut).then(|| result_path(&out, index, step, "code"))
        };
        let cuts: Vec<PathBuf> = self.job.steps.iter().enumerate().filter_map(is_cut).collect();
        let mut cuts = cuts.iter().peekable();
        while !self.has_ended() && self.started.elapsed() <= self.job.limit {
            if cuts.next_if(|reached| reached.exists()).is_some() {
                self.end();
                self.power_on()?;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let duration = self.started.elapsed();
        let why = self.end_and_tell(duration);
        let is_late = duration > self.job.limit;
        let console = || tail(&fs::read(self.scratch.join("console")).unwrap_or_default(), is_late);
        if !out.join("up").exists() {
            return Err(GuestError::NotUp { why, console: console() });
        }
        let steps = self.results(&out);
        if let Some((failed, step)) = steps.iter().zip(&self.job.steps).find(|(result, step)| {
            step.kind == StepKind::Must && result.code.is_some_and(|code| code != 0)
        }) {
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

    /// Ends what is left of it; how it ended, or where it was when its time was over.
    fn end_and_tell(&mut self, duration: Duration) -> String {
        if duration <= self.job.limit {
            return self.end().map_or_else(|| "not started".into(), |status| status.to_string());
        }
        let is_emulated = self.job.machine == Machine::Qemu;
        let places = if is_emulated { qemu::interrogate(&self.scratch) } else { String::new() };
        self.end();
        format!("killed after {} s {places}", self.job.limit.as_secs()).trim_end().to_owned()
    }

    fn results(&self, out: &Path) -> Vec<StepResult> {
        let read = |index: usize, step: &Step, what: &str| {
            fs::read(result_path(out, index, step, what))
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let one = |(index, step): (usize, &Step)| {
            let (code, duration) = read(index, step, "code").map_or((None, None), |t| ending(&t));
            StepResult {
                name: step.name.clone(),
                code,
                duration: duration.unwrap_or_default(),
                stdout: read(index, step, "out").unwrap_or_default(),
                stderr: read(index, step, "err").unwrap_or_default(),
            }
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

/// The file over which a disk lies.
fn disk_path(scratch: &Scratch, index: usize) -> PathBuf {
    scratch.join(format!("disk{index}"))
}

/// What the guest writes about a step: `out`, `err` or `code`.
fn result_path(out: &Path, index: usize, step: &Step, what: &str) -> PathBuf {
    out.join("results").join(format!("{}.{what}", step.file_name(index)))
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
    for (index, disk) in job.disks.iter().enumerate() {
        let path = disk_path(scratch, index);
        let file = File::create_new(&path).map_err(at(&path))?;
        file.set_len(disk.size_bytes).map_err(at(&path))?;
    }
    let special = match job.machine {
        Machine::Uml => uml::INIT.to_owned(),
        Machine::Qemu => qemu::init(),
    };
    let init = scratch.join("init");
    let text = format!(
        "#!/bin/bash\nOUT={}\nTOOLS={}\nLIMIT={}\n{special}{INIT}",
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

/// What the guest notes at the end of a step: its code, and when it began and ended, in seconds.
fn ending(text: &str) -> (Option<i32>, Option<Duration>) {
    let mut words = text.split_whitespace();
    let code = words.next().and_then(|word| word.parse().ok());
    let mut second = || words.next().and_then(|word| word.parse::<f64>().ok());
    let duration = second().zip(second()).map(|(began, ended)| ended - began);
    // The guest may set its clock.
    (code, duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

/// The last lines of a console that a person can make something of; with stack frames if they are asked for.
fn tail(bytes: &[u8], has_frames: bool) -> String {
    let shown = if has_frames { 120 } else { 20 };
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| has_frames || !is_dump(line)).collect();
    lines[lines.len().saturating_sub(shown)..].join("\n")
}

/// True for empty lines, stack frames and registers of a kernel that has crashed.
fn is_dump(line: &str) -> bool {
    let line = line.trim();
    let is_frame = line.starts_with("[<") || (line.contains("+0x") && line.contains("/0x"));
    // After the time in brackets.
    let text = line.split_once("] ").map_or(line, |(_, text)| text).trim();
    let is_short = |word: &str| word.len() <= 3 && word.chars().all(char::is_alphanumeric);
    let is_register = text.split_once(':').is_some_and(|(name, _)| is_short(name));
    text.is_empty() || is_frame || is_register || text.starts_with("Code: ")
}

/// What came of one step.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// Its name.
    pub name: String,
    /// Its exit code; none when it did not end.
    pub code: Option<i32>,
    /// How long it took, by the guest's clock; 0 when it did not end.
    pub duration: Duration,
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
    /// From the start of the kernel to its end, over all boots.
    pub duration: Duration,
}

impl GuestReport {
    /// Where the time went, for people: all of it, what was no step (boots, the way down), and the longest steps.
    #[must_use]
    pub fn times(&self) -> String {
        const NAMED: usize = 5;
        let in_steps: Duration = self.steps.iter().map(|step| step.duration).sum();
        let mut steps: Vec<&StepResult> = self.steps.iter().collect();
        steps.sort_by_key(|step| std::cmp::Reverse(step.duration));
        let one = |step: &&StepResult| format!("{} {:.1}", step.name, step.duration.as_secs_f64());
        let longest: Vec<String> = steps.iter().take(NAMED).map(one).collect();
        let (all, steps) = (self.duration.as_secs_f64(), in_steps.as_secs_f64());
        format!("{all:.1} s, without steps {:.1}; {}", all - steps, longest.join(", "))
    }

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
