//! Settings of the user's own: read and written by commands.

use fathom_base::shell;
use fathom_guard::file_at;
use fathom_model::change::knob::KnobAt;
use fathom_model::plan::OwnKnob;
use fathom_sys::child::{self, nameless};
use fathom_sys::clock;
use fathom_sys::process::{self, dies_with_parent, hears_signals};
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use std::env;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a command may take.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How long its output may stay open after it has ended: what it has left running holds it.
const OPEN_MAX: Duration = Duration::from_secs(5);

/// How long a command may take without a word about it.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Who hears of a command that is waited for, and who may end it.
pub struct Wait<'a> {
    /// Takes a line about what is waited for.
    pub note: &'a mut dyn FnMut(&str),
    /// Ends the command that is waited for, and lets none begin any more; none where what was begun must be put back.
    pub stop: Option<&'a StopFlag>,
}

impl<'a> Wait<'a> {
    /// Each command is waited for as long as it may take.
    pub fn to_the_end(note: &'a mut dyn FnMut(&str)) -> Self {
        Self { note, stop: None }
    }

    /// Somebody has asked for the end of what is waited for.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stop.is_some_and(StopFlag::is_set)
    }
}

/// Why a command is not run.
const UNBEGUN: &str = "not run, because somebody asked for the end";

/// How often it is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// The most that a value may be long.
const VALUE_BYTES_MAX: u64 = 4096;

/// Where the commands run now, and what they use of the environment: they mean the same when they put it back later.
pub fn here(root: &SysRoot, own: &OwnKnob) -> KnobAt {
    let directory = env::current_dir().ok();
    let usual = ["PATH", "HOME"].map(str::to_owned).into_iter();
    let names = usual.chain(variables_in(&own.read)).chain(variables_in(&own.write));
    KnobAt {
        directory_at: directory.as_ref().and_then(|dir| file_at::note(root, dir)),
        directory,
        variables: names.map(|name| (name.clone(), env::var(name).ok())).collect(),
        ..KnobAt::default()
    }
}

/// The variables that a command names: `$NAME` and `${NAME}`.
fn variables_in(command: &str) -> impl Iterator<Item = String> {
    let is_of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let behind = command.split('$').skip(1).map(|rest| rest.trim_start_matches('{'));
    let names = behind.map(move |rest| rest.chars().take_while(is_of_name).collect::<String>());
    names.filter(|name| name.starts_with(|c: char| !c.is_ascii_digit()))
}

/// The directory in which the commands run: the very one of their run, by its path, or because this process is in it; `.` where
/// none was noted.
///
/// # Errors
/// Why it is not to be found.
pub fn directory(at: &KnobAt) -> Result<PathBuf, String> {
    let Some(noted) = &at.directory else { return Ok(PathBuf::from(".")) };
    let shown = noted.display();
    // A symbolic link may lead there by now.
    let real = noted.canonicalize().and_then(|real| fs::read_dir(&real).map(|_| real));
    let Some(own) = &at.directory_at else {
        return real.map_err(|error| format!("the directory {shown} of its run: {error}"));
    };
    let here = env::current_dir().ok();
    if let Some(own) = real.iter().chain(&here).find(|dir| file_at::is_at(dir, own)) {
        return Ok(own.clone());
    }
    Err(match real {
        Ok(_) => format!("{shown} is another directory than that of its run by now"),
        Err(error) => format!("the directory {shown} of its run: {error}"),
    })
}

/// What the read command prints, without white space around it.
///
/// # Errors
/// A command that cannot be started, fails, prints nothing or more than a value, takes longer than a minute, leaves something running
/// that may print more, or is ended because somebody asked for the end.
pub fn read(own: &OwnKnob, at: &KnobAt, wait: &mut Wait<'_>) -> Result<String, String> {
    let Wait { note, stop } = wait;
    let mut slow = |text: &str| note(&format!("own.{}: its read command {text}", own.name));
    let mut wait = Wait { note: &mut slow, stop: *stop };
    let mark = read_mark();
    let run = Run { command: &own.read, at, mark: &mark, time_max: TIME_MAX };
    let text = run.to_the_end(Stdio::piped(), &mut wait)?;
    let value = text.trim();
    if value.is_empty() {
        Err(format!("`{}` printed nothing", own.read))
    } else {
        Ok(value.to_owned())
    }
}

/// A mark of its own for each read: it is ended by who has started it, or does no harm.
fn read_mark() -> String {
    let thread = std::thread::current().id();
    format!("own {} {thread:?} {}", std::process::id(), clock::monotonic_ns())
}

/// Runs the write command with the value in place of `{value}`, as one word for the shell. By the mark, which is used for this write only,
/// [`end_writers`] knows it and all that it starts.
///
/// # Errors
/// As [`read`]; all that it has started is ended then, as far as this user may and it does not wait for a device in the kernel.
pub fn write(
    own: &OwnKnob,
    at: &KnobAt,
    value: &str,
    mark: &str,
    wait: &mut Wait<'_>,
) -> Result<(), String> {
    let Wait { note, stop } = wait;
    let mut slow = |text: &str| note(&format!("own.{}: its write command {text}", own.name));
    let mut wait = Wait { note: &mut slow, stop: *stop };
    let command = own.write.replace("{value}", &shell::word(value));
    // What it prints is nobody's, and a daemon that it starts would hold a pipe open.
    let run = Run { command: &command, at, mark, time_max: TIME_MAX };
    run.to_the_end(Stdio::null(), &mut wait).map(drop)
}

/// Ends the writes with these marks that nobody knows the end of, wherever the kernel has not: what they have started may write after the
/// value was read.
///
/// # Errors
/// What runs on all the same: it waits for a device in the kernel, or is another user's.
pub fn end_writers(
    root: &SysRoot,
    own: &OwnKnob,
    marks: &[String],
    wait: &mut Wait<'_>,
) -> Result<(), String> {
    if child::carriers_of_anyone(root, marks).is_empty() {
        return Ok(());
    }
    let name = &own.name;
    if child::end_carriers(root, marks) {
        (wait.note)(&format!("own.{name}: its write command was still at work, and was ended"));
    }
    match child::carriers_of_anyone(root, marks).first() {
        None => Ok(()),
        Some(pid) => {
            let line = process::command_line(root, *pid);
            Err(format!(
                "its write command has started process {pid} ({line}), which cannot be ended and may write yet; when it has ended: \
                 fathom restore"
            ))
        }
    }
}

/// The shell for a command, where that was run first.
fn shell_at(command: &str, at: &KnobAt) -> Result<Command, String> {
    let directory = directory(at)?;
    let mut shell = Command::new("/bin/sh");
    for (name, value) in &at.variables {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.args(["-c", command]).env("LC_ALL", "C").stdin(Stdio::null());
    shell.current_dir(directory);
    Ok(shell)
}

/// A command that is to be run.
struct Run<'a> {
    command: &'a str,
    at: &'a KnobAt,
    mark: &'a str,
    time_max: Duration,
}

impl Run<'_> {
    /// Runs it to its end, unless somebody asks for the end of all. Of one that fails or is ended nothing goes on, also where that has left its
    /// group (setsid, sudo).
    fn to_the_end(&self, output: Stdio, wait: &mut Wait<'_>) -> Result<String, String> {
        let done = if wait.is_over() {
            Err(UNBEGUN.to_owned())
        } else {
            let done = self.tried(output, wait);
            if done.is_err() {
                child::end_carriers(&SysRoot::live(), &[self.mark]);
            }
            done
        };
        done.map_err(|reason| format!("`{}`: {reason}", self.command))
    }

    /// Starts it, in a group of its own or not.
    fn started(&self, output: Stdio, said: Option<&File>) -> Result<(Child, bool), String> {
        let mut shell = shell_at(self.command, self.at)?;
        let errors = said.and_then(|file| file.try_clone().ok());
        shell.stdout(output).stderr(errors.map_or_else(Stdio::null, Stdio::from));
        // A group of its own, so that all that it has started can be ended with it. Others than root may have to be asked for a
        // password, which only who is in the terminal's group can be.
        let is_apart = process::is_root();
        if is_apart {
            shell.process_group(0);
            // In the terminal's group it would hear Ctrl-C in the middle of its work.
            hears_signals(&mut shell);
        }
        // It must not write on after fathom was killed, when the value has been put back already. What it has started is known by the mark.
        dies_with_parent(&mut shell);
        child::carries(&mut shell, self.mark);
        let started = shell.spawn().map_err(|error| error.to_string())?;
        Ok((started, is_apart))
    }

    fn tried(&self, output: Stdio, wait: &mut Wait<'_>) -> Result<String, String> {
        // No pipe: a daemon that it starts may keep it. Once the command has ended, nothing more comes into it.
        let said = nameless("said").ok();
        let (mut started, is_apart) = self.started(output, said.as_ref())?;
        let output = started.stdout.take();
        let (tell, told) = mpsc::channel();
        // Read beside the wait: a command that prints much must not wait for a reader for ever.
        std::thread::spawn(move || {
            let mut text = String::new();
            let taken = output.map(|output| output.take(VALUE_BYTES_MAX).read_to_string(&mut text));
            // After a failure nobody listens.
            tell.send((taken.is_none_or(|taken| taken.is_ok()), text)).ok();
        });
        let ended = self.ended(&mut started, is_apart, wait);
        said.iter().for_each(child::close_nameless);
        let status = ended?;
        if !status.success() {
            return Err(format!("failed ({status}){}", last_line(said)));
        }
        match told.recv_timeout(OPEN_MAX) {
            Ok((true, text)) => Ok(text),
            Ok((false, _)) | Err(RecvTimeoutError::Disconnected) => {
                Err("printed no text".to_owned())
            }
            Err(RecvTimeoutError::Timeout) => Err(
                "has ended, and something that it started holds its output open; give that >/dev/null"
                    .to_owned(),
            ),
        }
    }

    /// Waits for its end. That it is waited for is told once it takes longer than most.
    fn ended(
        &self,
        started: &mut Child,
        is_apart: bool,
        wait: &mut Wait<'_>,
    ) -> Result<ExitStatus, String> {
        let (begun, mut is_told) = (Instant::now(), false);
        let most = self.time_max.as_secs();
        loop {
            if let Some(status) = started.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            if wait.is_over() {
                // Asked first, wherever they are, then killed with all that has lost its mark.
                child::end_carriers(&SysRoot::live(), &[self.mark]);
                match is_apart {
                    true => child::end_with_group(started),
                    false => kill(started, is_apart),
                }
                return Err("ended, because somebody asked for the end".to_owned());
            }
            if begun.elapsed() >= self.time_max {
                kill(started, is_apart);
                return Err(format!("took longer than {most} s"));
            }
            if begun.elapsed() >= QUIET_MAX && !is_told {
                let who = if wait.stop.is_some() { "Ctrl-C" } else { "a second Ctrl-C" };
                let command = self.command;
                (wait.note)(&format!(
                    "`{command}` is waited for, at most {most} s in all ({who} ends it)"
                ));
                is_told = true;
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn kill(started: &mut Child, is_apart: bool) {
    if !is_apart {
        return child::kill_family(&SysRoot::live(), started);
    }
    child::kill_group(started.id());
    child::wait_for_killed(started);
}

/// The last line that a command said, after a colon; nothing without one.
fn last_line(said: Option<File>) -> String {
    let mut text = Vec::new();
    let read = said.and_then(|mut file| {
        let size = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(VALUE_BYTES_MAX))).ok()?;
        file.take(VALUE_BYTES_MAX).read_to_end(&mut text).ok()
    });
    let text = read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!(": {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::change::FileAt;

    /// Nobody hears of it, and nobody ends it.
    fn quiet() -> Wait<'static> {
        Wait::to_the_end(Box::leak(Box::new(|_: &str| ())))
    }

    fn own(read: &str, write: &str) -> OwnKnob {
        let (read, write) = (read.to_owned(), write.to_owned());
        OwnKnob {
            name: "x".to_owned(),
            read,
            write,
            values: vec!["a b".to_owned()],
            needs_setup: false,
        }
    }

    #[test]
    fn values_are_one_word_for_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("value").display().to_string();
        let own = own(&format!("cat {file}"), &format!("echo {{value}} > {file}"));
        assert!(read(&own, &KnobAt::default(), &mut quiet()).is_err());
        write(&own, &KnobAt::default(), "a b; rm -rf \"$HOME\"", "m/1", &mut quiet()).unwrap();
        assert_eq!(read(&own, &KnobAt::default(), &mut quiet()).unwrap(), "a b; rm -rf \"$HOME\"");
    }

    /// What is left running in the background holds nobody up, and what takes too long is ended with all that it has started.
    #[test]
    fn a_command_that_does_not_end_holds_nobody_up() {
        let begun = Instant::now();
        let held =
            read(&own("sleep 20 & echo 1", "true"), &KnobAt::default(), &mut quiet()).unwrap_err();
        assert!(held.contains("holds its output open"), "{held}");
        assert!(begun.elapsed() < Duration::from_secs(20), "it was waited for");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let (limit, mut notes) = (Duration::from_secs(2), Vec::new());
        let mut slow = |text: &str| notes.push(text.to_owned());
        let mut wait = Wait::to_the_end(&mut slow);
        let (at, mark) = (&KnobAt::default(), &read_mark());
        let run = Run { command: &command, at, mark, time_max: limit };
        let late = run.to_the_end(Stdio::null(), &mut wait).unwrap_err();
        assert!(late.contains("took longer than 2 s"), "{late}");
        let told =
            format!("`{command}` is waited for, at most 2 s in all (a second Ctrl-C ends it)");
        assert_eq!(notes, [told]);
        let pid = std::fs::read_to_string(&file).unwrap();
        let begun = Instant::now();
        while std::fs::read_link(format!("/proc/{}/exe", pid.trim())).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it runs on");
            std::thread::sleep(LOOK);
        }
    }

    /// Who asks for the end does not wait for a command that hangs, nor for those that would come after it.
    #[test]
    fn a_command_ends_when_somebody_asks_for_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        let command = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let flag = StopFlag::default();
        let asks = flag.clone();
        let by = std::thread::spawn({
            let file = file.clone();
            move || {
                while !fs::read_to_string(&file).is_ok_and(|pid| pid.ends_with('\n')) {
                    std::thread::sleep(LOOK);
                }
                asks.set(2);
            }
        });
        let (begun, mut note) = (Instant::now(), |_: &str| ());
        let mut wait = Wait { note: &mut note, stop: Some(&flag) };
        let ended =
            write(&own("true", &command), &KnobAt::default(), "1", "m/2", &mut wait).unwrap_err();
        by.join().unwrap();
        assert!(ended.ends_with("ended, because somebody asked for the end"), "{ended}");
        assert!(begun.elapsed() < Duration::from_secs(30), "it was waited for");
        let pid = fs::read_to_string(&file).unwrap();
        let begun = Instant::now();
        while fs::read_link(format!("/proc/{}/exe", pid.trim())).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it runs on");
            std::thread::sleep(LOOK);
        }
        fs::remove_file(&file).unwrap();
        let next = read(&own(&command, "true"), &KnobAt::default(), &mut wait).unwrap_err();
        assert!(next.ends_with(UNBEGUN) && !file.exists(), "{next}");
    }

    /// What it leaves running says what it likes to nobody, and no memory is filled with that.
    #[test]
    fn a_daemon_fills_no_memory() {
        let dir = tempfile::tempdir().unwrap();
        let (pid, size) = (dir.path().join("pid"), dir.path().join("size"));
        let (pid, size) = (pid.display().to_string(), size.display().to_string());
        let daemon = format!(
            "(sleep 1; dd if=/dev/zero bs=64k count=1 >&2 2>/dev/null; stat -Lc %s /proc/self/fd/2 > {size}.new; mv {size}.new {size}; exec sleep 1000) & echo $! > {pid}"
        );
        write(&own("true", &daemon), &KnobAt::default(), "1", "m/2", &mut quiet()).unwrap();
        let begun = Instant::now();
        while !std::path::Path::new(&size).exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not run");
            std::thread::sleep(LOOK);
        }
        let grown = std::fs::read_to_string(&size).unwrap();
        let ended =
            Command::new("kill").arg(std::fs::read_to_string(&pid).unwrap().trim()).status();
        assert!(ended.unwrap().success());
        assert_eq!(grown.trim(), "0");
    }

    #[test]
    fn what_commands_use_of_the_environment_is_noted() {
        let named = |text: &str| variables_in(text).collect::<Vec<_>>();
        assert_eq!(named("cat $CONF/x \"${DIR_2}\"; echo $1 $$ $(id) ~"), ["CONF", "DIR_2"]);
        let at = here(&SysRoot::live(), &own("cat $NO_SUCH_NAME/x", "true"));
        assert!(at.variables["PATH"].is_some() && at.variables["NO_SUCH_NAME"].is_none());
        assert_eq!(directory(&at).ok(), at.directory);
        let Some(noted) = at.directory_at.clone() else { return };
        let elsewhere = FileAt { inode: noted.inode.map(|inode| inode + 1), ..noted };
        let another = KnobAt { directory_at: Some(elsewhere), ..at.clone() };
        assert!(directory(&another).unwrap_err().contains("another directory"));
        // This process is in it, whatever it was called.
        for gone in ["/no/such/directory", "/"] {
            let renamed = KnobAt { directory: Some(gone.into()), ..at.clone() };
            assert_eq!(directory(&renamed).ok(), at.directory, "{gone}");
        }
    }

    /// The directory was moved, and a link to it left behind.
    #[test]
    fn a_directory_is_the_same_by_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (was, now) = (dir.path().join("rel"), dir.path().join("new/rel"));
        std::fs::create_dir_all(&was).unwrap();
        let directory_at = file_at::note(&SysRoot::live(), &was);
        let at = KnobAt { directory: Some(was.clone()), directory_at, ..KnobAt::default() };
        std::fs::create_dir(dir.path().join("new")).unwrap();
        std::fs::rename(&was, &now).unwrap();
        assert!(directory(&at).is_err());
        std::os::unix::fs::symlink("new/rel", &was).unwrap();
        assert_eq!(directory(&at).unwrap(), now.canonicalize().unwrap());
    }

    #[test]
    fn failures_name_the_command() {
        assert!(
            read(&own("exit 3", "true"), &KnobAt::default(), &mut quiet())
                .unwrap_err()
                .contains("`exit 3`: failed")
        );
        assert!(
            read(&own("true", "true"), &KnobAt::default(), &mut quiet())
                .unwrap_err()
                .contains("printed nothing")
        );
        let why = read(&own("echo too late >&2; exit 3", "true"), &KnobAt::default(), &mut quiet())
            .unwrap_err();
        assert!(why.ends_with("failed (exit status: 3): too late"), "{why}");
        // Also of one that says much.
        let much = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 4";
        let why =
            write(&own("true", much), &KnobAt::default(), "1", "m/2", &mut quiet()).unwrap_err();
        assert!(why.ends_with("failed (exit status: 4): line 1999"), "{why}");
    }
}
