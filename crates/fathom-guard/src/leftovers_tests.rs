//! Leftovers of dead owners, with entries as other versions and other mounts leave them.

use super::*;
use crate::ownership::OwnedDir;
use fathom_testkit::Scratch;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

/// A directory of test files whose owner is dead, and its entry in the journal.
struct Left {
    scratch: Scratch,
    path: PathBuf,
    entry: PathBuf,
}

impl Left {
    /// In a directory with a blank in its name; `change` edits the entry, as another version or machine would have
    /// written it.
    fn new(is_kept: bool, change: impl FnOnce(&mut Value)) -> Self {
        let scratch = Scratch::new().unwrap();
        let (ground, state) = (scratch.path().join("my data"), scratch.path().join("state"));
        fs::create_dir(&ground).unwrap();
        let mut owned = OwnedDir::create(&SysRoot::live(), &ground, "run1", &state).unwrap();
        owned.create_file("data").unwrap();
        let path = owned.path().to_owned();
        if is_kept {
            owned.keep().unwrap();
        } else {
            std::mem::forget(owned);
        }
        let entry = state.join("owned/run1.json");
        let mut value: Value = serde_json::from_slice(&fs::read(&entry).unwrap()).unwrap();
        // This process started at another time, so the one that is noted has ended.
        value["owner"]["start_time_ticks"] = json!(1);
        change(&mut value);
        fs::write(&entry, value.to_string()).unwrap();
        Self { scratch, path, entry }
    }

    fn clean(&self) -> Vec<Report> {
        clean(&SysRoot::live(), &self.scratch.path().join("state"), false).unwrap()
    }
}

/// A UUID that no file system has.
fn of_another(value: &mut Value) {
    value["filesystem"]["uuid"] = json!("11111111-2222-3333-4444-555555555555");
    value["filesystem"]["root"] = json!("/another");
}

#[test]
fn what_is_on_a_filesystem_that_another_hides_is_not_forgotten() {
    let left = Left::new(false, of_another);
    // As it looks in the other file system.
    fs::remove_dir_all(&left.path).unwrap();
    let reports = left.clean();
    assert!(
        matches!(reports[0].outcome, Outcome::NotMounted { is_another: true, .. }),
        "{reports:?}"
    );
    assert!(left.entry.exists() && !reports[0].outcome.is_quiet());
    let cure = format!("never comes back: fathom clean '{}' --forget)", left.path.display());
    assert!(reports[0].to_string().ends_with(&cure), "{}", reports[0]);
}

/// A pipe in the place of an entry is waited for by nobody, and told; what is noted beside it goes.
#[test]
fn what_is_no_file_is_no_entry() {
    let left = Left::new(false, |_| ());
    let pipe = left.entry.with_file_name("own pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reports = left.clean();
    let said: Vec<String> = reports.iter().map(ToString::to_string).collect();
    assert_eq!(reports[0].outcome, Outcome::Removed, "{said:?}");
    assert!(said[1].ends_with(&format!(
        "it is a named pipe, and no regular file; if nobody needs it: rm -r '{}'",
        pipe.display()
    )));
    assert_eq!(reports.len(), 2);
}

/// Cleaning what is below a mount point is no word about another filesystem that was there before.
#[test]
fn what_was_kept_stays_so_while_its_filesystem_is_away() {
    for change in [of_another, |value: &mut Value| value["mount_point"] = json!("/nowhere")] {
        let left = Left::new(true, change);
        let root = SysRoot::live();
        let (state, ground) = (left.scratch.path().join("state"), left.scratch.path());
        // Found by its inode where it is, it would be taken away there.
        let mut value: Value = serde_json::from_slice(&fs::read(&left.entry).unwrap()).unwrap();
        value["at"]["device"] = json!("9999:1");
        fs::write(&left.entry, value.to_string()).unwrap();
        let never = &mut |_: &Path| -> io::Result<()> { panic!("nothing goes") };
        let reports = clean_below(&root, &state, ground, never).unwrap();
        assert!(
            matches!(reports[0].outcome, Outcome::NotMounted { is_kept: true, .. }),
            "{reports:?}"
        );
        assert!(left.path.join("data").exists());
        assert_eq!(left.clean()[0].outcome, Outcome::Kept, "as before");
    }
}

/// What is known of a filesystem that another one has taken the place of is forgotten when somebody says so; of one that may
/// come back only where it is named.
#[test]
fn what_is_on_a_filesystem_that_is_away_is_forgotten_by_name() {
    let root = SysRoot::live();
    let away: fn(&mut Value) = |value| {
        value["at"]["device"] = json!("9999:1");
        value["mount_point"] = json!(Path::new(value["path"].as_str().unwrap()).parent());
    };
    let another: fn(&mut Value) = |value| {
        value["at"]["device"] = json!("9999:1");
        of_another(value);
    };
    for (change, is_kept, by_ground) in [(another, true, true), (another, false, true)]
        .into_iter()
        .chain([(away, true, false), (away, false, false)])
    {
        let left = Left::new(is_kept, change);
        let (state, above) = (left.scratch.path().join("state"), left.scratch.path());
        let forget = |path: &Path| forget_away(&root, &state, path).unwrap();
        assert!(forget(&above.join("other")).is_empty());
        let reports = forget(above);
        assert_eq!(reports[0].outcome == Outcome::Forgotten, by_ground, "{reports:?}");
        if !by_ground {
            assert!(matches!(reports[0].outcome, Outcome::NotMounted { is_another: false, .. }));
            assert_eq!(forget(&left.path)[0].outcome, Outcome::Forgotten);
        }
        assert!(!left.entry.exists() && left.path.join("data").exists(), "no file is touched");
    }
    // What is there, what lives, and what is found elsewhere, is known on.
    let left = Left::new(true, |_| ());
    let state = left.scratch.path().join("state");
    assert!(forget_away(&root, &state, &left.path).unwrap().is_empty() && left.entry.exists());
    let left = Left::new(true, |value| value["mount_point"] = json!("/nowhere"));
    let state = left.scratch.path().join("state");
    let moved = forget_away(&root, &state, &left.path).unwrap();
    let (to, mount_point) = (left.path.clone(), "/nowhere".into());
    assert_eq!(moved[0].outcome, Outcome::Moved { to, mount_point });
    let left = Left::new(false, |value| {
        let me = journal::Owner::current(&SysRoot::live()).unwrap();
        value["owner"]["start_time_ticks"] = json!(me.start_time_ticks);
        of_another(value);
    });
    let state = left.scratch.path().join("state");
    let lives = forget_away(&root, &state, &left.path).unwrap();
    assert!(matches!(lives[0].outcome, Outcome::OwnerAlive { .. }) && left.entry.exists());
}

#[test]
fn a_control_group_of_a_container_is_found_below_that_of_the_container() {
    let root = SysRoot::live();
    let left = Left::new(false, |value| {
        // Directories stand in for groups.
        let top = PathBuf::from(value["path"].as_str().unwrap());
        fs::create_dir_all(top.join("pod/one/fathom-run1")).unwrap();
        value["path"] = json!(top.join("fathom-run1"));
        value["mount_point"] = json!(top);
        value["kind"] = json!({ "control_group": { "is_enabled_for_it": false } });
    });
    let state = left.scratch.path().join("state");
    let mut record = journal::read_all(&root, &state).unwrap().records.remove(0);
    assert_eq!(group_elsewhere(&root, &record.entry), None, "paths mean the same here");
    record.entry.owner.root = "1:1".to_owned();
    let group = left.path.join("pod/one/fathom-run1");
    assert_eq!(group_elsewhere(&root, &record.entry), Some(group.clone()));
    fs::remove_dir(&group).unwrap();
    assert_eq!(group_elsewhere(&root, &record.entry), None);
}

#[test]
fn entries_of_older_versions_go_by_the_mount_point() {
    let left = Left::new(false, |value| _ = value.as_object_mut().unwrap().remove("filesystem"));
    assert_eq!(left.clean()[0].outcome, Outcome::Removed);
    assert!(!left.entry.exists() && !left.path.exists());
}

#[test]
fn what_was_kept_is_not_spoken_of_wherever_its_filesystem_is() {
    for change in [of_another, |value: &mut Value| value["mount_point"] = json!("/nowhere")] {
        let left = Left::new(true, change);
        let reports = left.clean();
        assert_eq!(reports[0].outcome, Outcome::Kept);
        assert!(reports[0].outcome.is_quiet() && left.entry.exists());
    }
    let left = Left::new(false, |value| value["mount_point"] = json!("/nowhere"));
    assert!(!left.clean()[0].outcome.is_quiet());
}

#[test]
fn a_name_that_is_no_text_stays_and_is_named_with_the_cure() {
    let left = Left::new(false, |_| ());
    fs::write(left.path.join(OsStr::from_bytes(b"thesis\xff")), "precious").unwrap();
    let reports = left.clean();
    let names = vec!["thesis\u{fffd}".to_owned()];
    assert_eq!(reports[0].outcome, Outcome::Foreign { names });
    assert!(!left.path.join("data").exists() && !left.entry.exists());
    // The directory's name has a blank: unquoted, the command would remove another one.
    let cure = format!("rm -r '{}'", left.path.display());
    assert!(reports[0].to_string().ends_with(&cure), "{}", reports[0]);
}

#[test]
fn every_cure_quotes_its_path() {
    let path = PathBuf::from("/srv/my data/x");
    let outcome = Outcome::ForeignData;
    let report = Report { run_id: "r".into(), path: path.clone(), outcome };
    assert!(report.to_string().ends_with("rm '/srv/my data/x'"), "{report}");
    for refusal in [
        FileRefusal::ForeignData(path.clone()).to_string(),
        FileRefusal::ForeignFiles { path, names: "a".into() }.to_string(),
    ] {
        assert!(refusal.ends_with(" '/srv/my data/x'"), "{refusal}");
    }
}

#[test]
fn a_path_that_is_no_text_is_refused_as_such() {
    let scratch = Scratch::new().unwrap();
    let ground = scratch.path().join(OsStr::from_bytes(b"a\xff b"));
    fs::create_dir(&ground).unwrap();
    let state = scratch.path().join("state");
    let refusal = OwnedDir::create(&SysRoot::live(), &ground, "run1", &state).unwrap_err();
    assert!(matches!(refusal, FileRefusal::NotText(_)) && !refusal.is_safety(), "{refusal}");
    let text = refusal.to_string();
    assert!(text.contains("mount --bind $'") && text.contains("a\\377 b' /mnt)"), "{text}");
    assert!(!state.exists() && fs::read_dir(&ground).unwrap().next().is_none());
}

/// Kept test files in numbered directories go when all are as they were left, whatever is in them; where one was changed
/// since, each is looked at.
#[test]
fn kept_test_files_in_directories_go_as_they_were_left() {
    let root = SysRoot::live();
    let append = |path: &Path| {
        let mut file = fs::File::options().append(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, b"x").unwrap();
    };
    let rewrite = |path: &Path| fs::write(path, "not stamped?").unwrap();
    let add = |path: &Path| fs::write(path.with_file_name("f002"), "").unwrap();
    let changes: [&dyn Fn(&Path); 4] = [&|_: &Path| {}, &append, &rewrite, &add];
    for (number, change) in changes.into_iter().enumerate() {
        let scratch = Scratch::new().unwrap();
        let (ground, state) = (scratch.path().join("data"), scratch.path().join("state"));
        fs::create_dir(&ground).unwrap();
        let mut owned = OwnedDir::create(&root, &ground, "run1", &state).unwrap();
        owned.create_tree(2, &mut |_| true).unwrap();
        let files = ["f000", "f001"].map(|name| owned.path().join("d0000").join(name));
        files.iter().for_each(|path| fs::write(path, "not stamped.").unwrap());
        let path = owned.keep().unwrap();
        let entry = state.join("owned/run1.json");
        let mut value: Value = serde_json::from_slice(&fs::read(&entry).unwrap()).unwrap();
        value["owner"]["start_time_ticks"] = json!(1);
        fs::write(&entry, value.to_string()).unwrap();
        change(&files[1]);
        let reports = clean_below(&root, &state, &ground, &mut |_| Ok(())).unwrap();
        let outcome = &reports[0].outcome;
        if number > 0 {
            let names = ["d0000/f000", "d0000/f001"].map(str::to_owned).to_vec();
            assert_eq!(*outcome, Outcome::Foreign { names }, "{number}");
            assert!(files.iter().all(|path| path.exists()), "{number}");
        } else {
            assert_eq!(*outcome, Outcome::Removed);
            assert!(!path.exists());
        }
    }
}

/// The same of a single one, whose mark says how it was left; and what hears of it before it goes can keep it.
#[test]
fn a_kept_test_file_goes_as_it_was_left() {
    let root = SysRoot::live();
    for is_changed in [false, true] {
        let scratch = Scratch::new().unwrap();
        let (ground, state) = (scratch.path().join("data"), scratch.path().join("state"));
        fs::create_dir(&ground).unwrap();
        let mut owned = OwnedDir::create(&root, &ground, "run1", &state).unwrap();
        owned.create_file("data").unwrap();
        let file = owned.path().join("data");
        fs::write(&file, "not stamped.").unwrap();
        let path = owned.keep().unwrap();
        let entry = state.join("owned/run1.json");
        let mut value: Value = serde_json::from_slice(&fs::read(&entry).unwrap()).unwrap();
        value["owner"]["start_time_ticks"] = json!(1);
        fs::write(&entry, value.to_string()).unwrap();
        if is_changed {
            fs::write(&file, "not stamped?").unwrap();
        }
        let mut heard = Vec::new();
        let mut hear = |path: &Path| -> io::Result<()> {
            assert!(file.exists(), "before it goes");
            heard.push(path.to_owned());
            if heard.len() == 1 { Err(io::Error::other("not yet")) } else { Ok(()) }
        };
        let reports = clean_below(&root, &state, &ground, &mut hear).unwrap();
        assert!(matches!(reports[0].outcome, Outcome::Failed { .. }) && file.exists());
        let reports = clean_below(&root, &state, &ground, &mut hear).unwrap();
        assert_eq!(heard, [path.clone(), path.clone()]);
        assert_eq!(reports[0].outcome == Outcome::Removed, !is_changed);
        assert_eq!(file.exists(), is_changed);
    }
}
