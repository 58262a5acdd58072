//! `fathom lab --detach`: the experiment in a process of its own, without a terminal.

use super::{CommandError, CommandResult, finish, local_zone};
use crate::args::Common;
use crate::exit::Exit;
use crate::hub::{self, Line};
use crate::output::Output;
use crate::session;
use fathom_base::json;
use fathom_sys::{door, process};
use fathom_tui::state::Phase;
use jiff::Zoned;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long the experiment has until others can look at it. What keeps it from starting shows before.
const START: Duration = Duration::from_secs(20);

/// Starts the same command again, without its terminal.
pub fn run(common: &Common, output: Output) -> CommandResult {
    let internal = |what: String| CommandError::report_as(output, &what, Exit::Internal);
    let store = session::store_path(common).map_err(|e| internal(e.to_string()))?;
    let state_dir = store.parent().unwrap_or(Path::new("."));
    let stamp = Zoned::now().with_time_zone(local_zone()).strftime("%Y%m%d-%H%M%S").to_string();
    let log = state_dir.join(format!("lab-{stamp}-{}.log", std::process::id()));
    let made = fs::create_dir_all(state_dir).and_then(|()| process::new_log(&log));
    let made = made.map_err(|e| internal(format!("{}: {e}", log.display())))?;
    let child = start(&made).map_err(|e| internal(format!("starting fathom again: {e}")))?;
    let pid = child.id();
    let log = called_after(log, &stamp, pid);
    let ended = ended_at_once(child, state_dir);
    let said = fs::read_to_string(&log).unwrap_or_default();
    match ended.map(|status| (status.code().map(Exit::of_code), status)) {
        None => {}
        Some((Some(exit @ (Exit::Done | Exit::Doubtful)), _)) => {
            return is_over(output, &log, exit);
        }
        Some((exit, status)) => {
            // Nothing is left behind of what did not begin.
            let _ = fs::remove_file(&log);
            let said = said.trim_end();
            let text = match exit {
                Some(_) => said.trim_start_matches("fathom: ").to_owned(),
                None => format!(
                    "process {pid} was killed before it measured ({status}); what it had changed: fathom restore\n{said}"
                ),
            };
            return Err(CommandError::report_as(output, &text, exit.unwrap_or(Exit::Internal)));
        }
    }
    let text = format!(
        "{said}Running without this terminal as process {pid}. What it prints goes to\n{}\nfathom attach looks at it; kill -INT {pid} ends it.\n",
        log.display()
    );
    let result = serde_json::json!({ "pid": pid, "log": log, "exit_code": 0 });
    finish(output, &text, &result, Exit::Done)
}

/// The log, called after the process that writes to it.
fn called_after(log: PathBuf, stamp: &str, pid: u32) -> PathBuf {
    let named = log.with_file_name(format!("lab-{stamp}-{pid}.log"));
    if fs::rename(&log, &named).is_ok() { named } else { log }
}

/// The experiment ended before anybody could look at it, with a result: that is what is shown.
fn is_over(output: Output, log: &Path, exit: Exit) -> CommandResult {
    let text = fs::read_to_string(log).unwrap_or_default();
    let text = format!(
        "{}\nIt has ended already. The same stands in\n{}\n",
        text.trim_end(),
        log.display()
    );
    let result = serde_json::json!({ "log": log, "exit_code": exit.code() });
    finish(output, &text, &result, exit)
}

fn start(log: &File) -> io::Result<Child> {
    // The log is for people; events would be written to it while something is measured.
    let is_ours = |arg: &std::ffi::OsString| arg != "--detach" && arg != "--json";
    let mut args: Vec<_> = std::env::args_os().skip(1).filter(is_ours).collect();
    args.push("--detached".into());
    let mut command = Command::new("/proc/self/exe");
    // It is looked for by its name.
    command.arg0(std::env::args_os().next().unwrap_or_default());
    command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    // As this one was started, so that what it starts is, too.
    process::hears_signals(&mut command);
    command.spawn()
}

/// How a process ended that did so before it began to measure; none when it runs.
fn ended_at_once(mut child: Child, state_dir: &Path) -> Option<ExitStatus> {
    let until = Instant::now() + START;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if is_measuring(child.id(), state_dir) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// True when it is that process that can be looked at, and it writes test files or measures: whatever forbids the plan has shown.
fn is_measuring(pid: u32, state_dir: &Path) -> bool {
    let Ok(stream) = door::connect(state_dir, hub::DOOR) else { return false };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
    let mut line = String::new();
    if BufReader::new(stream).read_line(&mut line).is_err() {
        return false;
    }
    let Ok(Line::Hello { state, .. }) = json::from_str(&line) else { return false };
    state.pid == pid && (state.trial.is_some() || matches!(state.phase, Phase::Layout { .. }))
}
