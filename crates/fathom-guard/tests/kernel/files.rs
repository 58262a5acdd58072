//! Files and directories of fathom's own: made, marked, removed, also after a kill; and the lock between users.

use crate::child::{Actor, RUN, written};
use fathom_guard::leftovers::{Outcome, Report, clean};
use fathom_guard::lock::LockError;
use fathom_guard::place::FileRefusal;
use fathom_guard::{KeptFile, MeasuringLock, OwnedDir, OwnedFile, content, open_owned_for_write};
use fathom_sys::io::OpenMode;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Capability, FsKind, LoopDevice, LoopOptions, Mount, MountedFs, Scratch, Trial, counted,
    kernel_test, sample,
};
use std::error::Error;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

pub fn trials() -> Vec<Trial> {
    let ramfs = [Capability::MountFs("ramfs")];
    let ext4 = [Capability::FsOnLoop(FsKind::Ext4)];
    let attributes = [Capability::Xattr, Capability::Tool("getfattr")];
    vec![
        kernel_test(
            "owned_directory_comes_and_goes",
            &[],
            || comes_and_goes(&Ground::temporary()?),
        ),
        kernel_test("owned_directory_without_xattr", &ramfs, || comes_and_goes(&Ground::ramfs()?)),
        kernel_test("only_own_files_are_opened_for_writing", &[Capability::Xattr], only_own),
        kernel_test("only_listed_files_without_xattr", &ramfs, only_listed),
        kernel_test("a_copy_with_its_attributes_is_not_ours", &attributes, copy),
        kernel_test(
            "a_file_shown_by_a_loop_device_is_in_use",
            &[Capability::LoopDevices],
            loop_file,
        ),
        kernel_test("foreign_files_inside_stay", &[], || foreign_inside(&Ground::temporary()?)),
        kernel_test("foreign_files_inside_stay_without_xattr", &ramfs, || {
            foreign_inside(&Ground::ramfs()?)
        }),
        kernel_test("killed_owner_is_cleaned_up", &[], || killed(&Ground::temporary()?)),
        kernel_test("killed_owner_is_cleaned_up_without_xattr", &ramfs, || {
            killed(&Ground::ramfs()?)
        }),
        kernel_test("killed_at_any_moment", &[], || kills(&Ground::temporary()?)),
        kernel_test("killed_at_any_moment_without_xattr", &ramfs, || kills(&Ground::ramfs()?)),
        kernel_test("kept_things_stay_until_they_vanish", &[], kept),
        kernel_test("new_file_of_a_killed_owner", &[], killed_file),
        kernel_test("copied_in_data_survives_a_killed_owner", &[], || {
            copied_in(&Ground::temporary()?)
        }),
        kernel_test("copied_in_data_survives_a_killed_owner_without_xattr", &ramfs, || {
            copied_in(&Ground::ramfs()?)
        }),
        kernel_test("changed_kept_files_are_not_written_to", &[Capability::Xattr], changed),
        kernel_test("changed_kept_files_without_xattr", &ramfs, || {
            changed_in_directory(&Ground::ramfs()?)
        }),
        kernel_test("changed_kept_files_in_a_directory", &[Capability::Xattr], || {
            changed_in_directory(&Ground::temporary()?)
        }),
        kernel_test("one_byte_in_a_kept_file", &[Capability::Xattr], one_byte),
        kernel_test("killed_while_writing_a_kept_file", &[Capability::Xattr], killed_with_kept),
        kernel_test("copied_in_data_survives_the_end_of_a_run", &[], copied_in_meanwhile),
        kernel_test("edits_within_blocks_survive_a_killed_owner", &[], edited_in_place),
        kernel_test("changes_of_sealed_files_survive", &[], || sealed(&Ground::temporary()?)),
        kernel_test("changes_of_sealed_files_survive_without_xattr", &ramfs, || {
            sealed(&Ground::ramfs()?)
        }),
        kernel_test("odd_writes_of_the_owner_are_its_own", &[], odd_writes),
        kernel_test("a_reused_inode_is_not_ours", &ext4, reused_inode),
        kernel_test("an_unmounted_place_is_remembered", &ext4, unmounted),
        kernel_test("a_full_disk_leaves_nothing", &ext4, full_disk),
        kernel_test("without_a_journal_nothing_is_made", &[], no_journal),
        kernel_test("nothing_is_made_in_dev", &[], nothing_in_dev),
        kernel_test("unreadable_entries_are_reported_and_stay", &[], unreadable),
        kernel_test("lock_between_root_and_others", &[Capability::Root], lock_between_users),
    ]
}

/// Where a test works, and where its journal lies.
pub struct Ground {
    pub dir: PathBuf,
    pub state: PathBuf,
    _mount: Option<Mount>,
    _scratch: Scratch,
}

impl Ground {
    pub fn temporary() -> Result<Self> {
        let scratch = Scratch::new()?;
        let (dir, state) =
            (fs::canonicalize(scratch.path())?.join("ground"), scratch.join("state"));
        fs::create_dir(&dir)?;
        Ok(Self { dir, state, _mount: None, _scratch: scratch })
    }

    /// A file system without extended attributes.
    pub fn ramfs() -> Result<Self> {
        let scratch = Scratch::new()?;
        let mount = Mount::new("ramfs", Path::new("ramfs"), "")?;
        let (dir, state) = (fs::canonicalize(mount.dir())?, scratch.join("state"));
        Ok(Self { dir, state, _mount: Some(mount), _scratch: scratch })
    }

    pub fn create(&self, run_id: &str) -> Result<OwnedDir> {
        Ok(OwnedDir::create(&SysRoot::live(), &self.dir, run_id, &self.state)?)
    }

    pub fn create_file(&self, name: &str) -> std::result::Result<OwnedFile, FileRefusal> {
        OwnedFile::create(&SysRoot::live(), &self.dir.join(name), "run1", &self.state)
    }

    pub fn clean(&self) -> Result<Vec<Report>> {
        Ok(clean(&SysRoot::live(), &self.state, false)?)
    }

    #[track_caller]
    pub fn assert_clean_gives(&self, expected: &[Outcome]) {
        let outcomes: Vec<Outcome> = self.clean().unwrap().into_iter().map(|r| r.outcome).collect();
        assert_eq!(outcomes, expected);
    }

    pub fn names(&self) -> Vec<String> {
        names(&self.dir)
    }

    pub fn journal(&self) -> Vec<String> {
        names(&self.state.join("owned"))
    }

    #[track_caller]
    pub fn assert_nothing_left(&self) {
        assert_eq!((self.names(), self.journal()), (vec![], vec![]));
    }
}

pub fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn open(path: &Path) -> std::result::Result<fs::File, FileRefusal> {
    open_owned_for_write(&SysRoot::live(), path, OpenMode::default())
}

fn reuse(path: &Path) -> std::result::Result<KeptFile, FileRefusal> {
    KeptFile::open(&SysRoot::live(), path)
}

fn comes_and_goes(ground: &Ground) -> Result {
    let mut owned = ground.create("run1")?;
    assert_eq!((owned.run_id(), ground.names()), ("run1", vec![".fathom-run1".to_owned()]));
    assert_eq!(ground.journal(), ["run1.json"]);
    owned.create_file("data")?.write_all(b"hello")?;
    let taken = owned.create_file("data").unwrap_err();
    assert!(matches!(taken, FileRefusal::Exists(_)), "{taken}");
    for bad in ["../x", "owner.json", "manifest", ".."] {
        assert!(owned.create_file(bad).is_err(), "{bad}");
    }
    let again = ground.create("run1").unwrap_err().to_string();
    assert!(again.contains("exists already"), "{again}");
    assert_eq!(ground.journal(), ["run1.json"], "the failed attempt takes its own note back");
    let path = owned.path().join("data");
    open(&path)?.write_all(b"HELLO")?;
    assert_eq!(fs::read(&path)?, b"HELLO", "opened without being cut off");
    assert_eq!(fs::metadata(owned.path())?.mode() & 0o777, 0o700);
    owned.remove()?;
    ground.assert_nothing_left();
    // Dropping does the same.
    let mut owned = ground.create("run2")?;
    owned.create_file("data")?;
    drop(owned);
    let file = ground.create_file("new")?;
    assert_eq!(ground.names(), ["new"]);
    drop(file);
    ground.assert_nothing_left();
    Ok(())
}

fn only_own() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    owned.create_file("data")?;
    let data = owned.path().join("data");
    let (foreign, link, hard, inside) = (
        ground.dir.join("foreign"),
        ground.dir.join("link"),
        ground.dir.join("hard"),
        owned.path().join("foreign"),
    );
    for path in [&foreign, &inside] {
        fs::write(path, "precious")?;
        assert!(matches!(open(path), Err(FileRefusal::NotOurs(_))), "{}", path.display());
        assert_eq!(fs::read(path)?, b"precious");
    }
    symlink(&data, &link)?;
    assert!(matches!(open(&link), Err(FileRefusal::Symlink(_))));
    assert!(matches!(open(&owned.path().join("owner.json")), Err(FileRefusal::NotOurs(_))));
    assert!(matches!(open(&ground.dir), Err(FileRefusal::NotRegular(_))));
    assert!(matches!(open(&ground.dir.join("none")), Err(FileRefusal::Missing(_))));
    assert!(!ground.dir.join("none").exists());
    run_tool("mkfifo", [ground.dir.join("pipe")])?;
    assert!(matches!(open(&ground.dir.join("pipe")), Err(FileRefusal::NotRegular(_))));
    open(&data)?;
    fs::hard_link(&data, &hard)?;
    for path in [&data, &hard] {
        assert!(matches!(open(path), Err(FileRefusal::HardLinked(_))));
    }
    let taken = ground.create_file("foreign").unwrap_err();
    assert!(matches!(taken, FileRefusal::Exists(_)) && fs::read(&foreign)? == b"precious");
    let taken = ground.create_file("link").unwrap_err();
    assert!(matches!(taken, FileRefusal::Exists(_)), "{taken}");
    Ok(())
}

fn only_listed() -> Result {
    let ground = Ground::ramfs()?;
    let mut owned = ground.create("run1")?;
    owned.create_file("data")?;
    let (data, foreign) = (owned.path().join("data"), owned.path().join("foreign"));
    open(&data)?;
    fs::write(&foreign, "precious")?;
    assert!(matches!(open(&foreign), Err(FileRefusal::NotOurs(_))));
    // Another file under a listed name.
    fs::remove_file(&data)?;
    fs::write(&data, "precious")?;
    assert!(matches!(open(&data), Err(FileRefusal::NotOurs(_))));
    let outside = ground.create_file("new")?;
    let path = outside.keep()?;
    assert!(matches!(open(&path), Err(FileRefusal::NotOurs(_))), "not provable any more");
    fs::remove_file(foreign)?;
    drop(owned);
    assert_eq!(fs::read(&data)?, b"precious");
    Ok(())
}

fn copy() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    owned.create_file("data")?.write_all(b"random")?;
    let (data, copy) = (owned.path().join("data"), ground.dir.join("copy"));
    run_tool("cp", [Path::new("--preserve=all"), &data, &copy])?;
    let marked = run_tool(
        "getfattr",
        [Path::new("--only-values"), Path::new("-n"), Path::new("user.fathom.owner"), &copy],
    )?;
    assert!(marked.starts_with("run1 "), "the copy carries the mark: {marked}");
    assert!(matches!(open(&copy), Err(FileRefusal::NotOurs(_))));
    Ok(())
}

fn loop_file() -> Result {
    let ground = Ground::temporary()?;
    let file = ground.create_file("new")?;
    file.file().set_len(1 << 20)?;
    let device = LoopDevice::over(file.path(), &LoopOptions::default())?;
    let path = file.keep()?;
    let refusal = reuse(&path).unwrap_err();
    assert!(matches!(refusal, FileRefusal::InUseByLoop { .. }) && refusal.is_safety(), "{refusal}");
    drop(device);
    reuse(&path)?;
    Ok(())
}

fn foreign_inside(ground: &Ground) -> Result {
    let mut owned = ground.create("run1")?;
    owned.create_file("data")?;
    let (dir, foreign) = (owned.path().to_owned(), owned.path().join("thesis"));
    fs::write(&foreign, "precious")?;
    let refusal = owned.remove().unwrap_err();
    assert!(refusal.to_string().contains("thesis"), "{refusal}");
    assert_eq!(
        (names(&dir), fs::read(&foreign)?),
        (vec!["thesis".to_owned()], b"precious".to_vec())
    );
    fs::remove_dir_all(&dir)?;
    ground.clean()?;
    // The same when the owner was killed.
    let actor = Actor::start("directory", &ground.dir, &ground.state, None);
    let dir = ground.dir.join(format!(".fathom-{RUN}"));
    fs::write(dir.join("thesis"), "precious")?;
    fs::create_dir(dir.join("folder"))?;
    symlink("/etc/passwd", dir.join("symlink"))?;
    fs::remove_file(dir.join("b"))?;
    fs::write(dir.join("b"), "mine now")?;
    actor.kill();
    let stay = ["b", "folder", "symlink", "thesis"].map(str::to_owned).to_vec();
    ground.assert_clean_gives(&[Outcome::Foreign { names: stay.clone() }]);
    assert_eq!(names(&dir), stay);
    assert_eq!(fs::read(dir.join("b"))?, b"mine now");
    ground.assert_clean_gives(&[]);
    Ok(())
}

fn killed(ground: &Ground) -> Result {
    let actor = Actor::start("directory", &ground.dir, &ground.state, None);
    let dir = ground.dir.join(format!(".fathom-{RUN}"));
    let inside = names(&dir);
    assert_eq!(inside, ["a", "b", "manifest", "owner.json"]);
    ground.assert_clean_gives(&[Outcome::OwnerAlive { pid: actor.pid() }]);
    assert_eq!(names(&dir), inside, "a living owner's files are not touched");
    actor.kill();
    ground.assert_clean_gives(&[Outcome::Removed]);
    ground.assert_nothing_left();
    ground.assert_clean_gives(&[]);
    Ok(())
}

fn kills(ground: &Ground) -> Result {
    let count = sample(60, 3000);
    for number in 0..count {
        let actor = Actor::start("churn", &ground.dir, &ground.state, None);
        std::thread::sleep(Duration::from_micros(137 * (number as u64 % 97)));
        actor.kill();
        for report in ground.clean()? {
            let fine = matches!(report.outcome, Outcome::Removed | Outcome::Vanished);
            assert!(fine, "kill {number}: {report:?}");
        }
        assert_eq!((ground.names(), ground.journal()), (vec![], vec![]), "kill {number}");
    }
    counted("kills of an owner of files", count);
    Ok(())
}

fn kept() -> Result {
    let ground = Ground::temporary()?;
    let mut owned = ground.create("run1")?;
    owned.create_file("data")?;
    let dir = owned.keep()?;
    let file = ground.create_file("new")?.keep()?;
    let entries = ground.journal();
    assert_eq!(entries.len(), 2);
    let alive = Outcome::OwnerAlive { pid: std::process::id() };
    ground.assert_clean_gives(&[alive.clone(), alive]);
    // As if this process had ended.
    for entry in entries {
        let path = ground.state.join("owned").join(entry);
        let text =
            fs::read_to_string(&path)?.replace("\"start_time_ticks\":", "\"start_time_ticks\":1");
        fs::write(path, text)?;
    }
    ground.assert_clean_gives(&[Outcome::Kept, Outcome::Kept]);
    assert!(dir.join("data").exists() && file.exists());
    open(&dir.join("data"))?;
    fs::remove_file(file)?;
    fs::remove_dir_all(dir)?;
    ground.assert_clean_gives(&[Outcome::Vanished, Outcome::Vanished]);
    ground.assert_nothing_left();
    Ok(())
}

fn killed_file() -> Result {
    let ground = Ground::temporary()?;
    let path = ground.dir.join("new");
    let actor = Actor::start("file", &ground.dir, &ground.state, None);
    ground.assert_clean_gives(&[Outcome::OwnerAlive { pid: actor.pid() }]);
    actor.kill();
    assert_eq!(fs::metadata(&path)?.len(), 100_000);
    ground.assert_clean_gives(&[Outcome::Removed]);
    ground.assert_nothing_left();
    // Replaced by its user before the next start.
    Actor::start("file", &ground.dir, &ground.state, None).kill();
    fs::rename(&path, ground.dir.join("old"))?;
    fs::write(&path, "precious")?;
    ground.assert_clean_gives(&[Outcome::Foreign { names: vec!["new".to_owned()] }]);
    assert_eq!(fs::read(&path)?, b"precious");
    // And while the owner runs.
    let owned = ground.create_file("mine")?;
    let mine = owned.path().to_owned();
    fs::rename(&mine, ground.dir.join("moved"))?;
    fs::write(&mine, "precious")?;
    drop(owned);
    assert_eq!(fs::read(&mine)?, b"precious");
    Ok(())
}

/// `cp thesis new`: the inode and the mark stay, the data is somebody's.
fn copied_in(ground: &Ground) -> Result {
    let path = ground.dir.join("new");
    let left_behind = || Actor::start("file", &ground.dir, &ground.state, None).kill();
    let change = |from: u64, bytes: &[u8]| -> Result<Vec<u8>> {
        fs::File::options().write(true).open(&path)?.write_all_at(bytes, from)?;
        Ok(fs::read(&path)?)
    };
    for (from, is_whole) in [(0, true), (0, false), (50_000, false), (100_000, false)] {
        left_behind();
        let inode = fs::metadata(&path)?.ino();
        if is_whole {
            fs::write(&path, "")?;
        }
        let content = change(from, &[b't'; 50_000])?;
        assert_eq!(fs::metadata(&path)?.ino(), inode, "not the case to be tested");
        ground.assert_clean_gives(&[Outcome::ForeignData]);
        assert_eq!(fs::read(&path)?, content);
        assert!(matches!(open(&path), Err(FileRefusal::NotOurs(_))), "the mark is gone");
        ground.assert_clean_gives(&[]);
        fs::remove_file(&path)?;
    }
    // Cut off, emptied or zeroed, nothing in it is anybody's.
    for (size_bytes, zeros) in [(0, 0), (50_000, 0), (0, 70_000)] {
        left_behind();
        fs::File::options().write(true).open(&path)?.set_len(size_bytes)?;
        change(0, &vec![0; zeros])?;
        ground.assert_clean_gives(&[Outcome::Removed]);
        ground.assert_nothing_left();
    }
    let actor = Actor::start("directory", &ground.dir, &ground.state, None);
    let dir = ground.dir.join(format!(".fathom-{RUN}"));
    fs::write(dir.join("a"), "thesis")?;
    actor.kill();
    for name in ["a", "b"] {
        let refusal = reuse(&dir.join(name)).unwrap_err();
        assert!(matches!(refusal, FileRefusal::NotClosed(_)) && refusal.is_safety(), "{refusal}");
    }
    ground.assert_clean_gives(&[Outcome::Foreign { names: vec!["a".to_owned()] }]);
    assert_eq!((names(&dir), fs::read(dir.join("a"))?), (vec!["a".to_owned()], b"thesis".to_vec()));
    Ok(())
}

/// Whatever somebody does to a kept file, from then on it is only read.
fn changed() -> Result {
    type Change = fn(&Path) -> std::io::Result<()>;
    let changes: [(&str, Change); 5] = [
        ("copied over", |path| fs::write(path, "thesis")),
        ("copied over by our own data", |path| fs::write(path, written(100_000))),
        ("emptied", |path| fs::write(path, "")),
        ("appended to", |path| fs::File::options().append(true).open(path)?.write_all(b"x")),
        ("cut off", |path| fs::File::options().write(true).open(path)?.set_len(50_000)),
    ];
    let ground = Ground::temporary()?;
    for (index, (what, change)) in changes.into_iter().enumerate() {
        let owned = ground.create_file(&format!("new{index}"))?;
        owned.file().write_all_at(&written(100_000), 0)?;
        let path = owned.keep()?;
        // What fathom itself writes is no change, however often.
        for _ in 0..2 {
            reuse(&path)?.reopen(OpenMode::default())?.write_all_at(&written(9000), 4096)?;
            open(&path)?;
        }
        change(&path)?;
        let content = fs::read(&path)?;
        for refusal in [reuse(&path).unwrap_err(), open(&path).unwrap_err()] {
            assert!(matches!(refusal, FileRefusal::Changed(_)) && refusal.is_safety(), "{what}");
            assert!(refusal.to_string().contains("remove it yourself"), "{refusal}");
        }
        assert_eq!(fs::read(&path)?, content, "{what}");
    }
    Ok(())
}

fn changed_in_directory(ground: &Ground) -> Result {
    let mut owned = ground.create("run1")?;
    for name in ["data", "log"] {
        owned.create_file(name)?.write_all(&written(100_000))?;
    }
    let dir = owned.keep()?;
    for name in ["data", "log"] {
        for _ in 0..2 {
            let kept = reuse(&dir.join(name))?;
            kept.reopen(OpenMode::default())?.write_all_at(&written(9000), 0)?;
        }
    }
    fs::File::options().write(true).open(dir.join("log"))?.write_all_at(b"x", 70_000)?;
    assert!(matches!(reuse(&dir.join("log")), Err(FileRefusal::Changed(_))));
    reuse(&dir.join("data"))?;
    Ok(())
}

/// Too small for any sample of the content to find.
fn one_byte() -> Result {
    const SIZE: usize = 64 << 20;
    const OFFSET: u64 = (33 << 20) + 12_345;
    let ground = Ground::temporary()?;
    let owned = ground.create_file("new")?;
    owned.file().write_all_at(&written(SIZE), 0)?;
    let path = owned.keep()?;
    drop(reuse(&path)?);
    let edited = fs::File::options().read(true).write(true).open(&path)?;
    edited.write_all_at(b"x", OFFSET)?;
    assert!(content::is_stamped(&edited)?, "the stamps tell it: nothing is tested");
    let inside = fs::read(&path)?;
    assert!(matches!(reuse(&path), Err(FileRefusal::Changed(_))));
    // As if the run had been killed between noting how the file was left and that it was kept.
    let [entry] = ground.journal().try_into().map_err(|_| "one entry")?;
    let entry = ground.state.join("owned").join(entry);
    let text = fs::read_to_string(&entry)?.replace("\"kept\":true", "\"kept\":false");
    fs::write(&entry, text.replace("\"start_time_ticks\":", "\"start_time_ticks\":1"))?;
    ground.assert_clean_gives(&[Outcome::ForeignData]);
    assert_eq!(fs::read(&path)?, inside);
    assert!(matches!(reuse(&path), Err(FileRefusal::NotOurs(_))), "the mark is gone");
    Ok(())
}

fn killed_with_kept() -> Result {
    let ground = Ground::temporary()?;
    let owned = ground.create_file("new")?;
    owned.file().write_all_at(&written(100_000), 0)?;
    let path = owned.keep()?;
    Actor::start("kept", &path, &ground.state, None).kill();
    let refusal = reuse(&path).unwrap_err();
    assert!(matches!(refusal, FileRefusal::NotClosed(_)) && refusal.is_safety(), "{refusal}");
    assert!(refusal.to_string().contains("killed"), "{refusal}");
    assert_eq!(fs::read(&path)?, written(100_000));
    Ok(())
}

fn copied_in_meanwhile() -> Result {
    let ground = Ground::temporary()?;
    for name in ["removed", "dropped"] {
        let owned = ground.create_file(name)?;
        owned.file().write_all_at(&written(100_000), 0)?;
        let path = owned.path().to_owned();
        fs::write(&path, "thesis")?;
        if name == "removed" {
            let refusal = owned.remove().unwrap_err();
            assert!(matches!(refusal, FileRefusal::ForeignData(_)), "{refusal}");
        } else {
            drop(owned);
        }
        assert_eq!((fs::read(&path)?, ground.journal()), (b"thesis".to_vec(), vec![]));
        assert!(matches!(open(&path), Err(FileRefusal::NotOurs(_))), "{name}");
    }
    let owned = ground.create_file("ours")?;
    owned.file().write_all_at(&written(100_000), 0)?;
    owned.remove()?;
    assert_eq!(ground.names(), ["dropped", "removed"]);
    Ok(())
}

/// A few bytes anywhere in a file of a run that was killed while it wrote.
fn edited_in_place() -> Result {
    let ground = Ground::temporary()?;
    let path = ground.dir.join("new");
    for (from, text) in
        [(100_000, &b"TEXT\n"[..]), (4200, b"twenty-three bytes here"), (99_999, b"x"), (0, b"x")]
    {
        Actor::start("file", &ground.dir, &ground.state, None).kill();
        let file = fs::File::options().write(true).open(&path)?;
        file.write_all_at(text, from)?;
        let content = fs::read(&path)?;
        let said = ground.clean()?.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(said.contains(&format!("rm {}", path.display())), "{said}");
        assert_eq!((fs::read(&path)?, ground.journal()), (content, vec![]), "at {from}");
        fs::remove_file(&path)?;
    }
    Actor::start("directory", &ground.dir, &ground.state, None).kill();
    let inside = ground.dir.join(format!(".fathom-{RUN}/b"));
    fs::File::options().append(true).open(&inside)?.write_all(b"TEXT\n")?;
    ground.assert_clean_gives(&[Outcome::Foreign { names: vec!["b".to_owned()] }]);
    assert!(fs::read(&inside)?.ends_with(b"TEXT\n"));
    Ok(())
}

/// Files that are only read any more: somebody's change shows by the time, be its content what it may.
fn sealed(ground: &Ground) -> Result {
    let edit = |path: &Path| fs::File::options().write(true).open(path)?.write_all_at(b"\0", 4200);
    for is_alive in [true, false] {
        let (path, dir) = (ground.dir.join("new"), ground.dir.join(format!(".fathom-{RUN}")));
        let inside = dir.join("a");
        for is_edited in [false, true] {
            if is_alive {
                let mut file = ground.create_file("new")?;
                file.file().write_all_at(&written(100_000), 0)?;
                file.seal()?;
                let mut owned = ground.create(RUN)?;
                owned.create_file("a")?.write_all(&written(100_000))?;
                owned.seal_file("a")?;
                if is_edited {
                    edit(&path)?;
                    edit(&inside)?;
                    assert!(matches!(file.remove(), Err(FileRefusal::ForeignData(_))));
                    assert!(matches!(owned.remove(), Err(FileRefusal::ForeignFiles { .. })));
                } else {
                    file.remove()?;
                    owned.remove()?;
                }
            } else {
                Actor::start("sealed", &ground.dir, &ground.state, None).kill();
                if is_edited {
                    edit(&path)?;
                    edit(&inside)?;
                }
                ground.clean()?;
            }
            assert_eq!(ground.journal(), Vec::<String>::new());
            assert_eq!((path.exists(), inside.exists()), (is_edited, is_edited), "{is_alive}");
        }
        assert_eq!(fs::read(&path)?[4200], 0);
        fs::remove_file(&path)?;
        fs::remove_dir_all(&dir)?;
    }
    // Once it is written again, its own changes are none.
    let mut file = ground.create_file("new")?;
    file.seal()?;
    file.unseal(false)?;
    file.file().write_all_at(&written(9000), 0)?;
    file.remove()?;
    ground.assert_nothing_left();
    Ok(())
}

/// Small unaligned writes destroy stamps.
fn odd_writes() -> Result {
    let ground = Ground::temporary()?;
    let mut file = ground.create_file("new")?;
    file.file().write_all_at(&written(100_000), 0)?;
    file.seal()?;
    file.unseal(true)?;
    file.file().write_all_at(b"8 bytes.", 8200 - 8)?;
    file.remove()?;
    ground.assert_nothing_left();
    Ok(())
}

/// ext4 gives a freed inode number to the next file: only the time of birth tells them apart.
fn reused_inode() -> Result {
    let fs_mount = MountedFs::new(FsKind::Ext4, 32 << 20)?;
    let state = Scratch::new()?;
    let root = SysRoot::live();
    Actor::start("file", fs_mount.dir(), state.path(), None).kill();
    let path = fs_mount.dir().join("new");
    let inode = fs::metadata(&path)?.ino();
    fs::remove_file(&path)?;
    fs::write(&path, "precious")?;
    assert_eq!(
        fs::metadata(&path)?.ino(),
        inode,
        "the number was not used again: nothing is tested"
    );
    let reports = clean(&root, state.path(), false)?;
    assert!(matches!(reports[0].outcome, Outcome::Foreign { .. }), "{reports:?}");
    assert_eq!(fs::read(&path)?, b"precious");
    Ok(())
}

fn unmounted() -> Result {
    let fs_mount = MountedFs::new(FsKind::Ext4, 32 << 20)?;
    let (state, root) = (Scratch::new()?, SysRoot::live());
    let point = fs_mount.dir().to_owned();
    Actor::start("directory", &point, state.path(), None).kill();
    run_tool("umount", [&point])?;
    let reports = clean(&root, state.path(), false)?;
    let entry = state.join("owned").join(format!("{RUN}.json"));
    let outcome = |is_another| Outcome::NotMounted {
        mount_point: point.clone(),
        is_another,
        over: None,
        is_kept: false,
        entry: entry.clone(),
    };
    assert_eq!(reports[0].outcome, outcome(false));
    let cure = format!("fathom clean {} --forget)", reports[0].path.display());
    assert!(reports[0].to_string().ends_with(&cure), "{reports:?}");
    // Another file system in its place: what was made is not gone for that.
    run_tool("mount", [Path::new("-t"), Path::new("tmpfs"), Path::new("none"), &point])?;
    let reports = clean(&root, state.path(), false)?;
    run_tool("umount", [&point])?;
    assert_eq!(reports[0].outcome, outcome(true));
    run_tool("mount", [fs_mount.device().path(), &point])?;
    let reports = clean(&root, state.path(), false)?;
    assert_eq!(reports[0].outcome, Outcome::Removed, "{reports:?}");
    assert_eq!(names(&point), ["lost+found"]);
    Ok(())
}

fn full_disk() -> Result {
    let fs_mount = MountedFs::new(FsKind::Ext4, 32 << 20)?;
    let (state, root) = (Scratch::new()?, SysRoot::live());
    let space = fathom_guard::check_space(fs_mount.dir(), 4096).unwrap_err();
    assert!(matches!(space, FileRefusal::Space { .. }), "{space}");
    let mut owned = OwnedDir::create(&root, fs_mount.dir(), "run1", state.path())?;
    let mut file = owned.create_file("data")?;
    let chunk = vec![7; 1 << 20];
    let error = (0..100).find_map(|_| file.write_all(&chunk).err()).ok_or("never full")?;
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    drop((file, owned));
    assert_eq!(names(fs_mount.dir()), ["lost+found"]);
    assert_eq!(names(&state.join("owned")), [""; 0]);
    // A journal on the full disk: no note, no file.
    let filler = fs_mount.dir().join("filler");
    let mut file = fs::File::create(&filler)?;
    while file.write_all(&chunk).is_ok() {}
    while file.write_all(&[7; 512]).is_ok() {}
    drop(file);
    let ground = Scratch::new()?;
    let journal = fs_mount.dir().join("state");
    let refusal = OwnedDir::create(&root, ground.path(), "run2", &journal).unwrap_err();
    assert!(matches!(refusal, FileRefusal::Io { .. }), "{refusal}");
    assert_eq!(names(ground.path()), [""; 0]);
    assert_eq!(names(&journal.join("owned")), [""; 0], "no half entry");
    Ok(())
}

fn no_journal() -> Result {
    let ground = Ground::temporary()?;
    fs::write(&ground.state, "a file where the state directory should be")?;
    assert!(ground.create("run1").is_err() && ground.create_file("new").is_err());
    assert_eq!(ground.names(), [""; 0]);
    Ok(())
}

fn nothing_in_dev() -> Result {
    let state = Scratch::new()?;
    let root = SysRoot::live();
    for dir in ["/dev", "/dev/shm", "/proc", "/sys"] {
        let made = OwnedDir::create(&root, Path::new(dir), "run1", state.path());
        assert!(matches!(made, Err(FileRefusal::Forbidden { .. })), "{dir}");
        let path = Path::new(dir).join("fathom-test-lopo0");
        let made = OwnedFile::create(&root, &path, "run1", state.path());
        assert!(matches!(made, Err(FileRefusal::Forbidden { .. })) && !path.exists(), "{dir}");
        assert!(matches!(open(&path), Err(FileRefusal::Forbidden { .. })), "{dir}");
    }
    // By way of a symbolic link as well.
    let link = state.join("link");
    symlink("/dev", &link)?;
    let made = OwnedFile::create(&root, &link.join("fathom-test-lopo0"), "run1", state.path());
    assert!(matches!(made, Err(FileRefusal::Forbidden { .. })));
    assert_eq!(names(&state.join("owned")), [""; 0]);
    Ok(())
}

fn unreadable() -> Result {
    let ground = Ground::temporary()?;
    Actor::start("directory", &ground.dir, &ground.state, None).kill();
    let journal = ground.state.join("owned");
    let path = journal.join(format!("{RUN}.json"));
    let text = fs::read_to_string(&path)?;
    let newer = text.replace("\"format\":1", "\"format\":2");
    for changed in [&newer, &text[..text.len() / 2], "not json"] {
        fs::write(&path, changed)?;
        let reports = ground.clean()?;
        assert!(matches!(reports[0].outcome, Outcome::Failed { .. }), "{reports:?}");
        assert!(path.exists() && ground.names().len() == 1);
    }
    // Another machine has another boot; the same boot under another name is this machine, renamed.
    let elsewhere = text
        .replace("\"machine\":\"", "\"machine\":\"other")
        .replace("\"boot_id\":\"", "\"boot_id\":\"other");
    fs::write(&path, elsewhere)?;
    ground.assert_clean_gives(&[Outcome::OwnerElsewhere { is_of_this_boot: false }]);
    assert_eq!(ground.names().len(), 1);
    fs::write(&path, text)?;
    ground.assert_clean_gives(&[Outcome::Removed]);
    ground.assert_nothing_left();
    Ok(())
}

fn lock_between_users() -> Result {
    const NOBODY: u32 = 65534;
    let ground = Ground::temporary()?;
    run_tool("chmod", [Path::new("755"), ground.dir.parent().unwrap_or(Path::new("/"))])?;
    run_tool("chmod", [Path::new("1777"), &ground.dir])?;
    let acquire = || MeasuringLock::acquire_in(&SysRoot::live(), &ground.dir);
    // The file is made by root, then by the other.
    for first_by_other in [false, true] {
        if !first_by_other {
            drop(acquire()?);
        }
        let actor = Actor::start("lock", &ground.dir, &ground.state, Some(NOBODY));
        let LockError::Held { holder } = acquire().unwrap_err() else { panic!("not held") };
        assert_eq!(holder.pid, Some(actor.pid()));
        actor.kill();
        let lock = acquire()?;
        fs::remove_file(lock.path())?;
    }
    Ok(())
}
