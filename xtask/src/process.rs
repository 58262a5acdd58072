//! Running a program with its output shown and read line by line, under a time limit that nothing can outlast.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Debug)]
pub struct Finished {
    /// Its status; none when it was killed at the limit.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub duration: Duration,
}

impl Finished {
    /// True when it ended by itself and said that all is well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.status {
            Some(status) => status.to_string(),
            None => format!("killed after {}", in_words(self.duration)),
        }
    }
}

/// A command for a program that dies with xtask: it gets a process group of its own (so that it can be killed with
/// all its children), hence no Ctrl-C from the terminal.
#[must_use]
pub fn bound(program: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        return Command::new(program);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// The same, with every signal doing what it does by default: started in the background, or by `nohup`, xtask has inherited
/// that some are ignored, and what is to be tested would ignore them too.
#[must_use]
pub fn with_all_signals(program: &Path) -> Command {
    let env = Path::new("/usr/bin/env");
    let option = "--default-signal=HUP,INT,QUIT,TERM";
    let try_it = Command::new(env).args([option, "true"]).stderr(Stdio::null()).status();
    if !try_it.is_ok_and(|status| status.success()) {
        return bound(program);
    }
    let mut command = bound(env);
    command.arg(option).arg(program);
    command
}

/// Mounts an empty `/run/lock` in a namespace of its own, then becomes the program.
const OWN_LOCKS: &str = r#"mount -t tmpfs -o mode=1777 locks /run/lock && exec "$0" "$@""#;

/// True where [`with_own_locks`] works: for root, with the tools of util-linux.
#[must_use]
pub fn can_have_own_locks() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", OWN_LOCKS, "true"]);
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// As [`with_all_signals`], in a mount namespace with an empty `/run/lock`.
#[must_use]
pub fn with_own_locks(program: &Path) -> Command {
    let mut command = with_all_signals(Path::new("unshare"));
    command.args(["--mount", "--", "sh", "-c", OWN_LOCKS]).arg(program);
    command
}

/// Runs the command to its end or the limit, showing its output and giving every line of its standard output to
/// `on_line`.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn stream(
    command: &mut Command,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> Result<Finished, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let fail = |error: std::io::Error| format!("cannot run {name}: {error}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().map_err(fail)?;
    let (sender, lines) = channel();
    spawn_reader(child.stdout.take(), sender.clone(), |line| {
        println!("{line}");
        Some(line)
    });
    spawn_reader(child.stderr.take(), sender, |line| {
        eprintln!("{line}");
        None
    });
    let status = wait(&mut child, &lines, start + limit, &mut on_line).map_err(fail)?;
    Ok(Finished { status, duration: start.elapsed() })
}

fn wait(
    child: &mut Child,
    lines: &Receiver<String>,
    deadline: Instant,
    on_line: &mut dyn FnMut(&str),
) -> std::io::Result<Option<ExitStatus>> {
    let mut status = None;
    let mut deadline = deadline;
    loop {
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => on_line(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if status.is_some() => return Ok(status),
            // Its output is closed but it runs on.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(50)),
        }
        if status.is_none() {
            status = child.try_wait()?;
            if status.is_some() {
                // A child that it left behind may hold the pipe for ever.
                deadline = Instant::now() + Duration::from_secs(3);
            }
        }
        if Instant::now() >= deadline {
            kill_group(child.id());
            if status.is_none() {
                child.wait()?;
            }
            lines.try_iter().for_each(|line| on_line(&line));
            return Ok(status);
        }
    }
}

fn spawn_reader(
    pipe: Option<impl Read + Send + 'static>,
    sender: Sender<String>,
    show: impl Fn(String) -> Option<String> + Send + 'static,
) {
    let Some(pipe) = pipe else { return };
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            bytes.clear();
            if show(line).is_some_and(|line| sender.send(line).is_err()) {
                return;
            }
        }
    });
}

/// Kills a whole process group; the shell has `kill` built in, so no package is needed.
fn kill_group(leader: u32) {
    let script = format!("kill -s KILL -- -{leader}");
    let result = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
    if let Err(error) = result {
        eprintln!("cannot kill process group {leader}: {error}");
    }
}

/// A duration for people: `8.3 s`, `2 min 05 s`.
#[must_use]
pub fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Finished, Vec<String>) {
        let mut command = bound(Path::new("/bin/sh"));
        command.args(["-c", script]);
        let mut lines = Vec::new();
        let finished = stream(&mut command, limit, |line| lines.push(line.to_owned())).unwrap();
        (finished, lines)
    }

    #[test]
    fn lines_and_status_arrive() {
        let (finished, lines) =
            shell("echo a; echo error >&2; echo b; exit 3", Duration::from_secs(200));
        assert_eq!(lines, ["a", "b"]);
        assert_eq!(finished.status.and_then(|status| status.code()), Some(3));
        assert!(!finished.is_success());
    }

    #[test]
    fn ignored_signals_are_not_passed_on() {
        // Ignored by a shell, ignored by what it starts.
        let ignored = |command: &Command| {
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = words.collect();
            let script = format!(
                "trap '' HUP; exec {} {}",
                command.get_program().display(),
                words.join(" ")
            );
            let output = Command::new("sh").args(["-c", &script, "/proc/self/status"]).output();
            let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
            let mask = text
                .lines()
                .find_map(|line| line.strip_prefix("SigIgn:"))
                .unwrap()
                .trim()
                .to_owned();
            u64::from_str_radix(&mask, 16).unwrap() & 1
        };
        let of = |mut command: Command| {
            command.arg("/proc/self/status");
            ignored(&command)
        };
        assert_eq!(of(bound(Path::new("/bin/cat"))), 1, "the control");
        assert_eq!(of(with_all_signals(Path::new("/bin/cat"))), 0);
    }

    #[test]
    fn a_hung_program_is_killed_with_its_children() {
        let (finished, lines) = shell("sleep 987 & echo $!; wait", Duration::from_secs(5));
        assert!(finished.status.is_none());
        assert!(finished.describe().starts_with("killed after"), "{}", finished.describe());
        let child = Path::new("/proc").join(&lines[0]);
        for _ in 0..3000 {
            if !child.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} is still there", child.display());
    }

    #[test]
    fn a_child_that_keeps_the_pipe_does_not_hang_us() {
        let start = Instant::now();
        let (finished, lines) = shell("echo done; setsid sleep 60 &", Duration::from_secs(300));
        assert!(finished.is_success());
        assert_eq!(lines, ["done"]);
        assert!(start.elapsed() < Duration::from_secs(50));
    }
}
