//! Many test files: made, opened, removed, also after a kill, and never somebody else's.

use crate::child::{Actor, written};
use crate::files::{Ground, Result, names};
use fathom_base::prng::Prng;
use fathom_guard::TestName;
use fathom_guard::leftovers::Outcome;
use fathom_guard::names::NumberPlace;
use fathom_guard::place::FileRefusal;
use fathom_sys::io::OpenMode;
use fathom_testkit::{Capability, Trial, counted, kernel_test, sample};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

pub fn trials() -> Vec<Trial> {
    let ramfs = [Capability::MountFs("ramfs")];
    vec![
        kernel_test("test_files_come_and_go", &[], || come_and_go(&Ground::temporary()?)),
        kernel_test("test_files_without_xattr", &ramfs, || come_and_go(&Ground::ramfs()?)),
        kernel_test("making_test_files_can_be_stopped", &[], stopped),
        kernel_test("foreign_files_among_test_files_stay", &[], foreign),
        kernel_test("changed_test_files_stay", &[], changed),
        kernel_test("test_files_of_a_killed_owner", &[], || killed(&Ground::temporary()?)),
        kernel_test("test_files_of_a_killed_owner_without_xattr", &ramfs, || {
            killed(&Ground::ramfs()?)
        }),
        kernel_test("killed_at_any_moment_with_test_files", &[], || {
            kills(&Ground::temporary()?, "tree_churn", "kills of an owner of many files")
        }),
        kernel_test("names_come_and_go", &[], || names_come_and_go(&Ground::temporary()?)),
        kernel_test("names_without_xattr", &ramfs, || names_come_and_go(&Ground::ramfs()?)),
        kernel_test("names_of_a_killed_owner", &[], || names_killed(&Ground::temporary()?)),
        kernel_test("names_of_a_killed_owner_without_xattr", &ramfs, || {
            names_killed(&Ground::ramfs()?)
        }),
        kernel_test("killed_at_any_moment_with_names", &[], || {
            kills(&Ground::temporary()?, "names_churn", "kills of an owner of names")
        }),
    ]
}

const WRITE: OpenMode = OpenMode { write: true, direct: false, dsync: false, sync: false };

fn come_and_go(ground: &Ground) -> Result {
    let mut owned = ground.create("run1")?;
    let tree = owned.create_tree(2345, &mut |_| true)?;
    assert_eq!(tree.count(), 2345);
    assert_eq!(names(owned.path()), ["d0000", "d0001", "d0002", "manifest", "owner.json"]);
    let counts = ["d0000", "d0001", "d0002"].map(|dir| names(&owned.path().join(dir)).len());
    assert_eq!(counts, [1000, 1000, 345]);
    for index in [0, 999, 1000, 2344] {
        tree.open(index, WRITE)?.write_all(&written(100))?;
        let path = format!("d{:04}/f{:03}", index / 1000, index % 1000);
        assert_eq!(fs::metadata(owned.path().join(path))?.len(), 100, "{index}");
    }
    assert!(tree.open(2345, WRITE).is_err(), "there is no such file");
    assert!(owned.create_tree(1, &mut |_| true).is_err(), "once");
    owned.remove()?;
    ground.assert_nothing_left();
    Ok(())
}

fn stopped() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    let refused = owned.create_tree(5000, &mut |made| made < 2000);
    let Err(FileRefusal::Io { source, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::Interrupted);
    assert_eq!(names(&owned.path().join("d0001")).len(), 1000);
    drop(owned);
    ground.assert_nothing_left();
    Ok(())
}

fn foreign() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    let tree = owned.create_tree(1500, &mut |_| true)?;
    let dir = owned.path().join("d0001");
    fs::write(dir.join("thesis"), "precious")?;
    // Another file in the place of ours, also one with a test file's name.
    fs::remove_file(dir.join("f003"))?;
    fs::write(dir.join("f003"), "precious too")?;
    assert!(tree.open(1003, WRITE).is_err(), "it is not the one that was made");
    assert!(tree.open(1004, WRITE).is_ok());
    assert!(matches!(owned.remove(), Err(FileRefusal::ForeignFiles { .. })));
    assert_eq!(names(&dir), ["f003", "thesis"]);
    assert!(!dir.parent().is_some_and(|own| own.join("d0000").exists()));
    assert_eq!(fs::read(dir.join("f003"))?, b"precious too");
    Ok(())
}

/// Changed while they were only read, or replaced by something of another kind.
fn changed() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    let tree = owned.create_tree(3500, &mut |_| true)?;
    tree.open(7, WRITE)?.write_all(&written(9000))?;
    owned.seal_file("")?;
    let own = owned.path().to_owned();
    fs::File::options().append(true).open(own.join("d0000/f007"))?.write_all(b"TEXT\n")?;
    for (name, to) in [("d0001", "moved"), ("d0002", "moved too")] {
        fs::rename(own.join(name), ground.dir.join(to))?;
    }
    std::os::unix::fs::symlink("/etc", own.join("d0001"))?;
    fs::write(own.join("d0002"), "precious")?;
    let refusal = owned.remove().unwrap_err();
    assert!(matches!(refusal, FileRefusal::ForeignFiles { .. }), "{refusal}");
    assert_eq!(names(&own), ["d0000", "d0001", "d0002"], "the fourth directory is gone");
    assert_eq!(names(&own.join("d0000")), ["f007"]);
    assert_eq!(fs::read(own.join("d0002"))?, b"precious");
    Ok(())
}

fn killed(ground: &Ground) -> Result {
    let actor = Actor::start("tree", &ground.dir, &ground.state, None);
    ground.assert_clean_gives(&[Outcome::OwnerAlive { pid: actor.pid() }]);
    actor.kill();
    let own = own_dir(&ground.dir);
    assert_eq!(names(&own.join("d0002")).len(), 500);
    ground.assert_clean_gives(&[Outcome::Removed]);
    ground.assert_nothing_left();

    // Somebody's files come into it, and data into one of ours, before the next start.
    Actor::start("tree", &ground.dir, &ground.state, None).kill();
    let dir = own_dir(&ground.dir).join("d0001");
    fs::write(dir.join("thesis"), "precious")?;
    fs::write(dir.join("f007"), "copied in")?;
    fs::create_dir(dir.join("more"))?;
    let names_left = ["d0001/f007", "d0001/more", "d0001/thesis"].map(str::to_owned).to_vec();
    ground.assert_clean_gives(&[Outcome::Foreign { names: names_left }]);
    assert_eq!(names(&dir), ["f007", "more", "thesis"]);
    assert_eq!(fs::read(dir.join("f007"))?, b"copied in");
    fs::remove_dir_all(own_dir(&ground.dir))?;

    // A directory of somebody else in the place of ours.
    Actor::start("tree", &ground.dir, &ground.state, None).kill();
    let dir = own_dir(&ground.dir).join("d0001");
    fs::remove_dir_all(&dir)?;
    fs::create_dir(&dir)?;
    fs::write(dir.join("f000"), "")?;
    ground.assert_clean_gives(&[Outcome::Foreign { names: vec!["d0001".to_owned()] }]);
    assert_eq!(names(&dir), ["f000"]);
    fs::remove_dir_all(own_dir(&ground.dir))?;
    Ok(())
}

fn own_dir(ground: &Path) -> std::path::PathBuf {
    let name = names(ground).into_iter().find(|name| name.starts_with(".fathom-"));
    ground.join(name.unwrap())
}

fn names_come_and_go(ground: &Ground) -> Result {
    let mut owned = ground.create("run1")?;
    let (names_of, mut prng) = (owned.create_names()?, Prng::new(5, 0));
    let directory = names_of.current();
    assert!(owned.create_names().is_err(), "once");
    let own = owned.path().to_owned();
    let all: Vec<TestName> =
        (0..100).map(|number| TestName::new(number, NumberPlace::Last, &mut prng)).collect();
    for name in &all {
        directory.create(name)?;
        directory.stat(name)?;
    }
    assert_eq!(names(&own.join("names0")).len(), 100);
    assert!(directory.create(&all[3]).is_err(), "it exists");
    directory.check_empty(&all)?;
    directory.delete(&all[3])?;
    assert!(directory.stat(&all[3]).is_err() && directory.delete(&all[3]).is_err());
    // Somebody's data under one of the names, a file of its own, and a link: these stay, with their directory.
    let inside = own.join("names0");
    fs::write(inside.join(all[7].as_str()), "precious")?;
    fs::write(inside.join("thesis"), "")?;
    fs::hard_link(inside.join(all[8].as_str()), ground.dir.join("linked"))?;
    assert!(directory.check_empty(&all[7..8]).is_err() && directory.list().is_err());
    assert!(names_of.renew().is_err());
    assert_eq!(names(&inside).len(), 100, "nothing was removed");
    let refusal = owned.remove().unwrap_err();
    assert!(matches!(refusal, FileRefusal::ForeignFiles { .. }), "{refusal}");
    let mut left = vec![all[7].as_str(), all[8].as_str(), "thesis"];
    left.sort_unstable();
    assert_eq!(names(&inside), left);
    assert_eq!(fs::read(inside.join(all[7].as_str()))?, b"precious");
    fs::remove_dir_all(own)?;
    fs::remove_file(ground.dir.join("linked"))?;

    let mut owned = ground.create("run2")?;
    let names_of = owned.create_names()?;
    all.iter().try_for_each(|name| names_of.current().create(name))?;
    let again = names_of.renew()?;
    assert_eq!(names(owned.path()), ["manifest", "names1", "owner.json"]);
    assert!(again.list()?.is_empty());
    all.iter().try_for_each(|name| again.create(name))?;
    owned.remove()?;
    ground.assert_nothing_left();
    Ok(())
}

fn names_killed(ground: &Ground) -> Result {
    let actor = Actor::start("names", &ground.dir, &ground.state, None);
    ground.assert_clean_gives(&[Outcome::OwnerAlive { pid: actor.pid() }]);
    actor.kill();
    assert_eq!(names(&own_dir(&ground.dir).join("names1")).len(), 700);
    ground.assert_clean_gives(&[Outcome::Removed]);
    ground.assert_nothing_left();

    // Somebody's files come into it, and data into one of ours, before the next start.
    Actor::start("names", &ground.dir, &ground.state, None).kill();
    let dir = own_dir(&ground.dir).join("names1");
    let first = names(&dir).remove(0);
    fs::write(dir.join(&first), "copied in")?;
    fs::write(dir.join("thesis"), "precious")?;
    let mut left = vec![format!("names1/{first}"), "names1/thesis".to_owned()];
    left.sort();
    ground.assert_clean_gives(&[Outcome::Foreign { names: left }]);
    assert_eq!(names(&dir).len(), 2);
    assert_eq!(fs::read(dir.join(first))?, b"copied in");
    fs::remove_dir_all(own_dir(&ground.dir))?;
    Ok(())
}

fn kills(ground: &Ground, role: &str, what: &'static str) -> Result {
    let count = sample(20, 1000);
    for number in 0..count {
        let actor = Actor::start(role, &ground.dir, &ground.state, None);
        std::thread::sleep(Duration::from_micros(1137 * (number as u64 % 61)));
        actor.kill();
        for report in ground.clean()? {
            let fine = matches!(report.outcome, Outcome::Removed | Outcome::Vanished);
            assert!(fine, "kill {number}: {report:?}");
        }
        assert_eq!((ground.names(), ground.journal()), (vec![], vec![]), "kill {number}");
    }
    counted(what, count);
    Ok(())
}
