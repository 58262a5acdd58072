//! Tests of one program in several processes side by side, for a tier that mostly waits.
//!
//! Each lane runs its tests one after the other; what would disturb the tests of every lane runs before them. All lanes but the
//! first have a mount namespace of their own with an empty `/run/lock`: fathom's measuring lock is theirs alone, and no lane sees
//! the mounts of another.

use crate::harness::{self, Trial};
use libtest_mimic::Arguments;
use rustix::process::geteuid;
use std::env;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::thread;

/// Which lane a process is; absent in the one that starts them.
const LANE: &str = "FATHOM_LANE";
/// What makes the namespace, then becomes the test program.
const ALONE: &str = r#"mount -t tmpfs -o mode=1777 lane /run/lock && exec "$0" "$@""#;

/// Runs `alone` by themselves, then all lanes at the same time, and prints what they print one after the other. Put tests that
/// judge rates, and those that drop caches, into one of the lanes. With a filter, as for single tests, and for ordinary users,
/// there is one lane.
#[must_use]
pub fn run_lanes(alone: Vec<Trial>, lanes: Vec<Vec<Trial>>) -> ExitCode {
    let args = Arguments::from_args();
    let own = env::var(LANE).ok().and_then(|lane| lane.parse::<usize>().ok());
    if let Some(lane) = own {
        return harness::run(lanes.into_iter().nth(lane).unwrap_or_default());
    }
    let is_part = args.list || args.filter.is_some() || !args.skip.is_empty();
    if is_part || !geteuid().is_root() {
        return harness::run(alone.into_iter().chain(lanes.into_iter().flatten()).collect());
    }
    let mut is_well = harness::run(alone) == ExitCode::SUCCESS;
    let others: Vec<_> = (1..lanes.len()).map(|lane| thread::spawn(move || beside(lane))).collect();
    is_well &= harness::run(lanes.into_iter().next().unwrap_or_default()) == ExitCode::SUCCESS;
    for other in others {
        let (printed, has_passed) = match other.join() {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => (format!("a lane of tests: {error}\n").into_bytes(), false),
            Err(_) => (b"a lane of tests: its reader failed\n".to_vec(), false),
        };
        let is_shown = io::stdout().write_all(&printed).is_ok();
        is_well &= is_shown && has_passed;
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a lane printed, and whether all was well.
fn beside(lane: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut command = Command::new("setpriv");
    // It ends with this thread, and what is sent to one group is for that one alone.
    command.args(["--pdeathsig", "KILL", "--", "unshare", "--mount", "--", "sh", "-c", ALONE]);
    command.arg(env::current_exe()?).args(env::args_os().skip(1)).env(LANE, lane.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let mut printed = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut printed)?;
    }
    let status = child.wait()?;
    if status.code().is_none() {
        printed.extend_from_slice(format!("a lane of tests: {status}\n").as_bytes());
    }
    Ok((printed, status.success()))
}
