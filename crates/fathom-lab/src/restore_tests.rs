//! In which order what a killed experiment left is put back.

use super::*;
use fathom_sys::child::{Output, Program};
use std::ffi::OsString;
use std::fs;

#[test]
fn programs_end_before_test_files_are_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let program = |pid, start_time_ticks| {
        let command = "sleep".to_owned();
        Change::Machine(MachineChange::Program { command, pid, start_time_ticks })
    };
    let step = log.intend(program(0, 0)).expect("is noted");
    let words = ["sleep", "600"].map(OsString::from);
    let mark = machine::program_mark(&log, step);
    let mut sleeper =
        Program::start(&root, &words, dir.path(), Output { stdout: None, stderr: None }, &mark)
            .expect("sleep is started");
    log.made(step, program(sleeper.pid, sleeper.start_time_ticks)).expect("is noted");
    // Its owner is a process that had the number of this one.
    let (path, start) = (log.path().to_owned(), log.owner().start_time_ticks);
    drop(log);
    let text = fs::read_to_string(&path).expect("is there");
    let own = format!("\"start_time_ticks\":{start}");
    assert_eq!(text.matches(&own).count(), 1, "{text}");
    fs::write(&path, text.replace(&own, "\"start_time_ticks\":1")).expect("is written");
    let mut had_ended = None;
    let mut remove_files = || had_ended = Some(sleeper.ended().expect("is asked").is_some());
    let reports =
        restore_dead(&root, dir.path(), false, &Faults::none(), &mut remove_files, &mut |_| ());
    assert_eq!(had_ended, Some(true), "{reports:?}");
    let [report] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!((report.what.as_str(), &report.outcome), ("program sleep", &Outcome::Restored));
    assert!(!path.exists());
}
