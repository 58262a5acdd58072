//! Where tools are looked for, and how one is started.

use super::Run;
use fathom_model::snapshot::Unread;
use fathom_sys::child::kill_group;
use fathom_sys::process;
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Where the makers' packages put their tools, and where administrators do. The search path of the user does not count:
/// what is started here may run as root.
const PLACES: [&str; 12] = [
    "/opt/MegaRAID/storcli",
    "/opt/MegaRAID/perccli",
    "/opt/lsi/storcli",
    "/opt/lsi/perccli",
    "/opt/smartstorageadmin/ssacli/bin",
    "/opt/hp/hpssacli/bld",
    "/usr/Arcconf",
    "/usr/StorMan",
    "/usr/local/sbin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/bin",
];

/// Some tools take their time with many drives; a controller that hangs must not hang fathom.
const TIMEOUT: Duration = Duration::from_secs(60);

/// No tool has that much to say.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Tools as they are installed on this machine.
#[derive(Debug, Clone)]
pub struct Tools {
    places: Vec<PathBuf>,
    timeout: Duration,
}

impl Tools {
    /// Those in the usual places.
    #[must_use]
    pub fn installed() -> Self {
        Self::in_places(PLACES.iter().map(PathBuf::from).collect(), TIMEOUT)
    }

    /// Those in these directories; each call may take this long.
    #[must_use]
    pub fn in_places(places: Vec<PathBuf>, timeout: Duration) -> Self {
        Self { places, timeout }
    }
}

impl Run for Tools {
    fn find(&self, names: &[&str]) -> Result<Option<PathBuf>, Unread> {
        for place in &self.places {
            for path in names.iter().map(|name| place.join(name)) {
                let Ok(facts) = std::fs::metadata(&path) else { continue };
                if !facts.is_file() || facts.mode() & 0o111 == 0 {
                    continue;
                }
                return match distrust(&path, &facts) {
                    None => Ok(Some(path)),
                    Some(why) => Err(Unread {
                        what: path.display().to_string(),
                        why: format!("not started: {why}"),
                    }),
                };
            }
        }
        Ok(None)
    }

    fn output(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        process::dies_with_parent(&mut command);
        process::hears_signals(&mut command);
        let child = command.spawn().map_err(|error| format!("could not be started: {error}"))?;
        printed(child, self.timeout)
    }
}

/// Why a program must not be started: somebody else than its owner, who is root or the caller, could have put it there.
fn distrust(path: &Path, facts: &Metadata) -> Option<String> {
    let own = std::fs::metadata("/proc/self").map_or(0, |facts| facts.uid());
    let is_safe = |facts: &Metadata| {
        let is_sticky_directory = facts.is_dir() && facts.mode() & 0o1000 != 0;
        (facts.uid() == 0 || facts.uid() == own)
            && (facts.mode() & 0o022 == 0 || is_sticky_directory)
    };
    let directory = path.parent().and_then(|directory| std::fs::metadata(directory).ok());
    if !is_safe(facts) {
        return Some("others than root may change it".to_owned());
    }
    directory
        .filter(|facts| !is_safe(facts))
        .map(|_| "others than root may change its directory".to_owned())
}

/// What a child prints until it ends, at the latest when its time is over; then it is killed with its group.
fn printed(mut child: Child, timeout: Duration) -> Result<String, String> {
    let start = Instant::now();
    let Some(stdout) = child.stdout.take() else { return Err("no output".to_owned()) };
    let (sender, receiver) = mpsc::channel();
    // Not joined: when a grandchild in a group of its own keeps the pipe open after the kill, this thread ends with it.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = sender.send(read.map(|_| bytes));
    });
    let read = receiver.recv_timeout(timeout);
    let text = match read {
        Ok(Ok(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(Err(error)) => Err(format!("its output could not be read: {error}")),
        Err(_) => Err(format!("no answer within {} s", timeout.as_secs_f64())),
    };
    // It has closed its output; it may still take a moment to end, or be stuck in the kernel.
    let is_late = |start: Instant| start.elapsed() >= timeout;
    while text.is_ok() && !is_late(start) {
        match child.try_wait() {
            Ok(Some(status)) => return said(text, status.success()),
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    // With all that it has started: most of these tools are scripts around others.
    kill_group(child.id());
    // A child that the kernel cannot end is left to it: waiting for it could take for ever.
    let _ = child.try_wait();
    text
}

/// Tools end with an error also when they found no controller, or one of several failed: what they printed counts.
fn said(text: Result<String, String>, is_success: bool) -> Result<String, String> {
    match text {
        Ok(text) if text.trim().is_empty() => {
            let how =
                if is_success { "it printed nothing" } else { "it failed and printed nothing" };
            Err(how.to_owned())
        }
        other => other,
    }
}
