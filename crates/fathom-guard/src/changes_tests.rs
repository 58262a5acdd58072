//! Tests of the journal of changes.

use super::*;
use fathom_model::change::knob::{KnobAt, KnobChange, KnobPlace, KnobValue};

fn change(value: &str) -> Change {
    let before = KnobValue { knob: "vm.swappiness".into(), value: value.into(), file: None };
    Change::Knobs(KnobChange {
        place: KnobPlace::Machine,
        before: vec![before],
        left: vec![],
        asked: vec![],
        boot_id: String::new(),
        own: None,
        at: KnobAt::default(),
    })
}

fn reread(state_dir: &Path) -> Logs {
    read_all(&SysRoot::live(), state_dir).expect("is readable")
}

#[test]
fn what_is_not_undone_stays_known() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let first = log.intend(change("60")).expect("is written");
    log.made(first, change("61")).expect("is written");
    let second = log.intend(change("62")).expect("is written");
    let third = log.intend(change("63")).expect("is written");
    log.undone(third).expect("is written");
    let mut logs = reread(dir.path());
    assert!(logs.dead.is_empty(), "its owner lives");
    let read = logs.others.pop().expect("is there");
    assert_eq!(read.pending(), log.pending());
    let steps: Vec<_> = read.pending().iter().map(|e| (e.step, e.state)).collect();
    assert_eq!(steps, [(second, State::Intended), (first, State::Made)]);
    assert_eq!(read.entry(first).map(|e| e.change.clone()), Some(change("61")));
    let mut log = read.close().expect("can be closed").expect("is kept while something is pending");
    log.undone(first).expect("is written");
    log.undone(second).expect("is written");
    assert!(log.close().expect("can be closed").is_none());
    assert!(reread(dir.path()).others.is_empty());
}

#[test]
fn a_log_cut_anywhere_knows_what_was_noted_before() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let head = fs::read(log.path()).expect("is there").len();
    let mut ends = Vec::new();
    for number in 0..4 {
        log.intend(change(&number.to_string())).expect("is written");
        ends.push(fs::read(log.path()).expect("is there").len());
    }
    let (path, whole) = (log.path().to_owned(), fs::read(log.path()).expect("is there"));
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).expect("is cut");
        let logs = reread(dir.path());
        // The last byte of a line is its newline, without which it still can be read.
        let expected = ends.iter().filter(|end| cut + 1 >= **end).count();
        match logs.others.first() {
            Some(log) => assert_eq!(log.pending().len(), expected, "cut at {cut}"),
            // It was whole once: what it said is lost, which is told and not tidied away.
            None => {
                let reason = &logs.unreadable[0].1;
                assert!(cut + 1 < head && path.exists(), "cut at {cut}");
                assert!(reason.contains("fathom show run") && reason.contains("rm /"), "{reason}");
            }
        }
    }
    // Going on after a torn line spoils nothing.
    fs::write(&path, &whole[..whole.len() - 7]).expect("is cut");
    let mut log = reread(dir.path()).others.pop().expect("is there");
    log.adopt(&root, Faults::none()).expect("is written");
    log.intend(change("9")).expect("is written");
    let read = reread(dir.path()).others.pop().expect("is there");
    let values: Vec<_> = read.pending().into_iter().map(|entry| entry.change).collect();
    assert_eq!(values, [change("9"), change("2"), change("1"), change("0")]);
}

/// A byte of it is another, or it is of a kind that this version does not know: what it says of is not forgotten.
#[test]
fn a_whole_line_that_cannot_be_read_keeps_the_log() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let steps = ["60", "61"].map(|value| log.intend(change(value)).expect("is written"));
    let path = log.path().to_owned();
    let text = fs::read_to_string(&path).expect("is there");
    let damaged = text.replacen("\"line\":\"intended\"", "\"line\":\"intXnded\"", 1);
    assert_ne!(damaged, text);
    fs::write(&path, damaged).expect("is written");
    let mut read = reread(dir.path()).others.pop().expect("is there");
    assert_eq!(read.pending().len(), 1, "the other line says what it said");
    assert!(read.damage().is_some_and(|damage| damage.starts_with("line 4 cannot be read")));
    read.undone(steps[1]).expect("is written");
    let read = read.close().expect("can be closed").expect("is kept");
    assert!(read.pending().is_empty() && path.exists());
    // A value that is another one can be read, and is not believed.
    let another = text.replacen("\"value\":\"60\"", "\"value\":\"40\"", 1);
    assert_ne!(another, text);
    fs::write(&path, another).expect("is written");
    let read = reread(dir.path()).others.pop().expect("is there");
    assert_eq!(read.pending().len(), 1);
    assert!(read.damage().is_some_and(|damage| damage.contains("its checksum is wrong")));
    for lost in [vec![0; 4096], Vec::new()] {
        fs::write(&path, lost).expect("is written");
        assert_eq!((reread(dir.path()).unreadable.len(), path.exists()), (1, true));
    }
}

/// Killed before the first line was written: nothing was changed, and nothing is left of it.
#[test]
fn a_draft_is_no_log() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    drop(ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made"));
    let names = || Dir::open(&directory(dir.path())).and_then(|dir| dir.names()).expect("is read");
    assert_eq!(names(), ["run.jsonl"]);
    fs::write(directory(dir.path()).join("next.draft"), "").expect("is made");
    assert_eq!(look(&root, dir.path()).expect("is readable").others.len(), 1);
    assert_eq!(names(), ["next.draft", "run.jsonl"], "a look removes nothing");
    let logs = reread(dir.path());
    assert!(logs.unreadable.is_empty() && names() == ["run.jsonl"], "{logs:?}");
}

/// As on a disk that is full for a while.
#[test]
fn a_line_that_cannot_be_written_keeps_no_later_one_from_being() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let first = log.intend(change("60")).expect("is written");
    let full = OpenOptions::new().append(true).open("/dev/full").expect("is there");
    let file = log.file.replace(full);
    assert!(log.intend(change("61")).is_err(), "what is not noted is not changed");
    assert!(log.undone(first).is_err());
    assert_eq!(log.pending().len(), 1);
    log.file = file;
    log.undone(first).expect("is written");
    let second = log.intend(change("62")).expect("is written");
    let read = reread(dir.path()).others.pop().expect("is there");
    assert_eq!(read.pending(), log.pending());
    assert_eq!(read.entry(second).map(|entry| entry.change.clone()), Some(change("62")));
}

#[test]
fn there_is_room_for_lines_to_come() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let room = |log: &ChangeLog| {
        let meta = fs::metadata(log.path()).expect("is there");
        (meta.blocks() * 512).saturating_sub(meta.len())
    };
    let probe = File::create(dir.path().join("probe")).expect("is made");
    if holes::reserve(&probe, 0, 4096).is_err() {
        return;
    }
    let long = "x".repeat(16 << 10);
    for number in 0..40 {
        assert!(room(&log) >= RESERVE_BYTES / 2 - (20 << 10), "{number}: {}", room(&log));
        log.intend(change(&long)).expect("is written");
    }
    assert!(fs::metadata(log.path()).expect("is there").len() > RESERVE_BYTES, "far enough");
}

#[test]
fn a_run_has_one_log() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let first = ChangeLog::create(&root, dir.path(), "run", Faults::none());
    assert!(first.is_ok());
    assert!(ChangeLog::create(&root, dir.path(), "run", Faults::none()).is_err());
}

#[test]
fn a_log_of_a_newer_fathom_stays_also_when_it_is_torn() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let text = fs::read_to_string(log.path()).expect("is there");
    let newer = text.replace("\"format\":1", "\"format\":2");
    assert_ne!(newer, text);
    fs::write(log.path(), newer + "\n{\"line\":\"inten").expect("is written");
    let logs = reread(dir.path());
    assert_eq!(logs.unreadable.len(), 1);
    assert!(logs.unreadable[0].1.contains("fathom restore of that one"), "{logs:?}");
    assert!(log.path().exists());
}

#[test]
fn a_log_that_somebody_else_may_have_written_is_not_believed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let path = log.path().to_owned();
    let reason = || {
        let logs = reread(dir.path());
        assert!(logs.others.is_empty() && logs.dead.is_empty() && path.exists());
        logs.unreadable[0].1.clone()
    };
    let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("is set");
    mode(0o620);
    assert!(reason().contains("others may write to it"));
    mode(0o600);
    if process::is_root() {
        std::os::unix::fs::chown(&path, Some(4711), None).expect("is given away");
        assert!(reason().contains("belongs to user 4711"));
        std::os::unix::fs::chown(&path, Some(0), None).expect("is taken back");
    }
    assert_eq!(reread(dir.path()).others.len(), 1);
    fs::rename(&path, dir.path().join("elsewhere")).expect("is moved");
    symlink(dir.path().join("elsewhere"), &path).expect("is linked");
    assert!(reason().contains("no plain file"));
}

#[test]
fn the_boot_of_the_changes_is_not_that_of_who_takes_them_back() {
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let log = ChangeLog::create(&root, dir.path(), "run", Faults::none()).expect("is made");
    let (path, boot) = (log.path().to_owned(), log.owner().boot_id.clone());
    let text = fs::read_to_string(&path).expect("is there");
    fs::write(&path, text.replace(&boot, "an earlier boot")).expect("is written");
    let mut log = reread(dir.path()).dead.pop().expect("is dead");
    log.adopt(&root, Faults::none()).expect("is written");
    // The one who took it over is killed in turn.
    let again = reread(dir.path()).others.pop().expect("is this process's now");
    for log in [log, again] {
        assert_eq!((log.boot_id(), &log.owner().boot_id), ("an earlier boot", &boot));
    }
}

#[test]
fn logs_are_in_the_order_in_which_they_were_begun() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("directory");
    let root = SysRoot::live();
    let mut logs: Vec<ChangeLog> = Vec::new();
    for name in ["z", "a", "m"] {
        logs.push(ChangeLog::create(&root, dir.path(), name, Faults::none()).expect("is made"));
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    // As every start does that cannot take back what it says.
    logs[0].adopt(&root, Faults::none()).expect("is written");
    // A store that was copied has other files, in an order of its own.
    for name in ["a", "m", "z"] {
        let path = directory(dir.path()).join(format!("{name}.jsonl"));
        let text = fs::read(&path).expect("is there");
        fs::remove_file(&path).expect("is removed");
        fs::write(&path, text).expect("is written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is set");
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    let read = reread(dir.path());
    let names: Vec<&str> = read.others.iter().map(ChangeLog::run_id).collect();
    assert_eq!(names, ["z", "a", "m"]);
}
