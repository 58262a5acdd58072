//! The system's own tools: found, asked for their versions, run without a shell, and ended when they hang or somebody asks for the end.

use crate::error::{MissingTool, SetupError};
use crate::outline::ToolFound;
use fathom_base::shell;
use fathom_sys::process::{dies_with_parent, hears_signals};
use fathom_sys::signals::StopFlag;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Tools, the Debian package of each, and how it is asked for its version.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("blockdev", "util-linux", &["--version"]),
    ("cryptsetup", "cryptsetup-bin", &["--version"]),
    ("dmsetup", "dmsetup", &["--version"]),
    ("losetup", "mount", &["--version"]),
    ("lvm", "lvm2", &["version"]),
    ("mdadm", "mdadm", &["--version"]),
    ("mkfs.btrfs", "btrfs-progs", &["--version"]),
    ("mkfs.ext2", "e2fsprogs", &["-V"]),
    ("mkfs.ext3", "e2fsprogs", &["-V"]),
    ("mkfs.ext4", "e2fsprogs", &["-V"]),
    ("mkfs.f2fs", "f2fs-tools", &["-V"]),
    ("mkfs.xfs", "xfsprogs", &["-V"]),
    ("mount", "mount", &["--version"]),
    ("partx", "util-linux", &["--version"]),
    ("sfdisk", "fdisk", &["--version"]),
    ("umount", "mount", &["--version"]),
];

/// Where they are besides in the search path.
const PLACES: [&str; 6] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"];

/// Longer than any tool takes that does not write the whole device.
const LIMIT: Duration = Duration::from_secs(2 * 3600);
/// No tool that is run here has more to say.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// One call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its name.
    pub tool: &'static str,
    /// Its arguments.
    pub args: Vec<String>,
    /// What it reads, never shown: a key, a script.
    pub input: Option<Vec<u8>>,
}

impl Call {
    pub fn new<S: Into<String>>(tool: &'static str, args: impl IntoIterator<Item = S>) -> Self {
        Self { tool, args: args.into_iter().map(Into::into).collect(), input: None }
    }

    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// As a person would type it.
    pub fn line(&self) -> String {
        let words = self.args.iter().map(shell::word);
        std::iter::once(self.tool.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
    }
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ended {
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// What it said, most telling lines first: at most ten lines.
    pub fn said(&self) -> String {
        let lines = self.stderr.lines().chain(self.stdout.lines());
        let lines: Vec<&str> =
            lines.map(str::trim).filter(|line| !line.is_empty()).take(10).collect();
        if lines.is_empty() { format!("{} without a word", self.status) } else { lines.join("\n") }
    }
}

/// Tools by name, as they are installed here.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    found: BTreeMap<&'static str, PathBuf>,
}

impl Tools {
    /// Finds all of these.
    pub fn find(names: &[&'static str]) -> Result<Self, SetupError> {
        let mut tools = Self::default();
        let mut missing = Vec::new();
        for name in names {
            match look_for(name) {
                Some(path) => {
                    tools.found.insert(name, path);
                }
                None => missing.push(MissingTool { name, package: package(name) }),
            }
        }
        if missing.is_empty() { Ok(tools) } else { Err(SetupError::ToolsMissing(missing)) }
    }

    /// Those that are there, with their versions.
    pub fn versions(&self, stop: &StopFlag) -> Vec<ToolFound> {
        let one = |(name, path): (&&'static str, &PathBuf)| {
            let version = known_version(name, path, stop);
            ToolFound { name, path: path.clone(), version }
        };
        self.found.iter().map(one).collect()
    }

    /// Runs one.
    ///
    /// # Errors
    /// It is missing, cannot be started, hangs, or somebody asked for the end; not when it fails.
    pub fn run(&mut self, call: &Call, stop: &StopFlag) -> Result<Ended, SetupError> {
        let path = match self.found.get(call.tool) {
            Some(path) => path.clone(),
            None => {
                let missing = MissingTool { name: call.tool, package: package(call.tool) };
                let path = look_for(call.tool).ok_or(SetupError::ToolsMissing(vec![missing]))?;
                self.found.insert(call.tool, path.clone());
                path
            }
        };
        run(&path, call, stop)
    }
}

/// What a tool says of itself. Each is asked once: an experiment has many setups, all built with the same tools.
fn known_version(name: &'static str, path: &Path, stop: &StopFlag) -> String {
    static SAID: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.entry(path.to_owned()).or_insert_with(|| version(name, path, stop)).clone()
}

fn version(name: &'static str, path: &Path, stop: &StopFlag) -> String {
    let known = KNOWN.iter().find(|(known, _, _)| *known == name);
    let args = known.map_or::<&[&str], _>(&[], |(_, _, args)| args);
    let ended = run(path, &Call::new(name, args.iter().copied()), stop);
    let said = ended.map(|ended| ended.stdout + "\n" + &ended.stderr).unwrap_or_default();
    let version = said.lines().map(str::trim).find(|line| !line.is_empty());
    version.unwrap_or("version unknown").to_owned()
}

fn package(name: &str) -> &'static str {
    KNOWN.iter().find(|(known, _, _)| *known == name).map_or("?", |(_, package, _)| package)
}

fn look_for(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let listed = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    let places = listed.chain(PLACES.iter().map(PathBuf::from));
    places.map(|dir| dir.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn run(path: &Path, call: &Call, stop: &StopFlag) -> Result<Ended, SetupError> {
    let failed = |error: io::Error| SetupError::Tool {
        command: call.line(),
        said: error.to_string(),
        cause: String::new(),
    };
    let mut command = Command::new(path);
    command.args(&call.args).env("LC_ALL", "C").current_dir("/");
    command.stdin(if call.input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C is heard by fathom alone, which then ends the tool; and a tool never outlives fathom.
    command.process_group(0);
    hears_signals(&mut command);
    dies_with_parent(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut input, text) = (child.stdin.take(), call.input.as_deref().unwrap_or_default());
    thread::scope(|scope| {
        let stdout = scope.spawn(move || read(stdout));
        let stderr = scope.spawn(move || read(stderr));
        if let Some(input) = &mut input {
            // A tool that does not want it says so by its end.
            input.write_all(text).ok();
        }
        drop(input);
        let status = wait(&mut child, call, stop);
        let stdout = stdout.join().unwrap_or_default();
        let stderr = stderr.join().unwrap_or_default();
        Ok(Ended { status: status?, stdout, stderr })
    })
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut limited = pipe.take(OUTPUT_BYTES_MAX);
        limited.read_to_end(&mut bytes).ok();
        io::copy(&mut limited.into_inner(), &mut io::sink()).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(child: &mut Child, call: &Call, stop: &StopFlag) -> Result<ExitStatus, SetupError> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if !stop.is_set() && began.elapsed() < LIMIT => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            other => {
                child.kill().ok();
                child.wait().ok();
                let said = match other {
                    Err(error) => error.to_string(),
                    Ok(_) if stop.is_set() => {
                        return Err(SetupError::Stopped(format!("running {}", call.tool)));
                    }
                    Ok(_) => format!("it hung for {} s and was ended", LIMIT.as_secs()),
                };
                let cause = String::new();
                return Err(SetupError::Tool { command: call.line(), said, cause });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn lines_can_be_typed() {
        let call = Call::new("mount", ["-o", "data=ordered,x y", "/dev/sda"]);
        assert_eq!(call.line(), "mount -o 'data=ordered,x y' /dev/sda");
    }

    #[test]
    fn missing_tools_are_named_with_their_packages() {
        let error = Tools::find(&["mkfs.none-such"]).unwrap_err();
        assert!(
            error.to_string().starts_with("mkfs.none-such is missing; on Debian: apt"),
            "{error}"
        );
    }

    #[test]
    fn a_tool_is_asked_for_its_version_once() {
        let dir = fathom_testkit::Scratch::new().unwrap();
        let (path, asked) = (dir.join("mdadm"), dir.join("asked"));
        let script = format!("#!/bin/sh\necho x >>{}\necho 'mdadm 4'\n", asked.display());
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let tools = Tools { found: BTreeMap::from([("mdadm", path)]) };
        for _ in 0..3 {
            assert_eq!(tools.versions(&StopFlag::default())[0].version, "mdadm 4");
        }
        assert_eq!(fs::read_to_string(asked).unwrap(), "x\n");
    }

    #[test]
    fn a_tool_reads_speaks_and_is_ended() {
        let stop = StopFlag::default();
        let call = Call::new("cat", [] as [&str; 0]).input("a key");
        let mut tools = Tools::default();
        assert_eq!(tools.run(&call, &stop).unwrap().stdout, "a key");
        let failed = tools.run(&Call::new("cat", ["/none"]), &stop).unwrap();
        assert!(!failed.is_success() && failed.said().contains("No such file"), "{failed:?}");
        stop.set(15);
        let began = Instant::now();
        let error = tools.run(&Call::new("sleep", ["1000"]), &stop).unwrap_err();
        assert!(matches!(error, SetupError::Stopped(_)) && began.elapsed().as_secs() < 100);
    }
}
