//! Private directories of applications, as root makes them: mounts in them, and directories that others can change.

use crate::files::Result;
use fathom_guard::PrivateDir;
use fathom_guard::leftovers::{Outcome, clean};
use fathom_guard::place::FileRefusal;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::command::run_tool;
use fathom_testkit::{Capability, Scratch, Trial, kernel_test};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

pub fn trials() -> Vec<Trial> {
    vec![
        kernel_test("private_directory_with_mounts", &[Capability::MountFs("tmpfs")], mounts),
        kernel_test("private_directory_where_others_may_write", &[Capability::Root], others),
    ]
}

/// A bind mount has the device number of its surroundings: only the kernel can tell.
fn mounts() -> Result {
    let root = SysRoot::live();
    let scratch = Scratch::new()?;
    let (dir, state) = (scratch.path().join("d"), scratch.path().join("state"));
    let outside = scratch.path().join("outside");
    fs::create_dir(&dir)?;
    fs::create_dir(&outside)?;
    fs::write(outside.join("thesis"), "precious")?;
    let made = PrivateDir::create(&root, &dir, "run1", None, &state)?;
    let path = made.path().to_owned();
    let inner = path.join("a/b");
    fs::create_dir_all(&inner)?;
    fs::write(path.join("rows"), "rows")?;
    run_tool("mount", ["--bind".as_ref(), outside.as_os_str(), inner.as_os_str()])?;
    let refusal = made.remove();
    let stays = outside.join("thesis").exists();
    // Its owner has died.
    let entry = state.join("owned/run1.json");
    let text = fs::read_to_string(&entry)?;
    let start = text.split("\"start_time_ticks\":").nth(1).and_then(|t| t.split(',').next());
    let start = start.ok_or("no start")?.to_owned();
    fs::write(&entry, text.replace(&format!("ticks\":{start},"), "ticks\":1,"))?;
    let left = clean(&root, &state, false)?;
    let still = outside.join("thesis").exists();
    run_tool("umount", [inner.as_os_str()])?;
    assert!(matches!(refusal, Err(FileRefusal::Mounted { ref names, .. }) if names == "a/b"));
    assert!(stays && still && !path.join("rows").exists());
    assert_eq!(left[0].outcome, Outcome::Mounted { names: vec!["a/b".to_owned()] });
    assert_eq!(clean(&root, &state, false)?[0].outcome, Outcome::Removed);
    assert!(!path.exists() && !entry.exists());
    Ok(())
}

fn others() -> Result {
    let root = SysRoot::live();
    let scratch = Scratch::new()?;
    let state = scratch.path().join("state");
    let (theirs, below) = (scratch.path().join("home"), scratch.path().join("home/below"));
    fs::create_dir_all(&below)?;
    chown(&theirs, Some(65534), Some(65534))?;
    for dir in [&theirs, &below] {
        let refused = PrivateDir::create(&root, dir, "run1", None, &state).map(|_| ());
        let Err(refusal @ FileRefusal::OthersMayMove { .. }) = refused else {
            return Err(format!("{}: {refused:?}", dir.display()).into());
        };
        assert!(refusal.is_safety() && refusal.to_string().contains("run fathom as the user"));
        assert!(!state.exists());
    }
    chown(&theirs, Some(0), Some(0))?;
    let made = PrivateDir::create(&root, &below, "run1", Some((65534, 65534)), &state)?;
    let meta = fs::symlink_metadata(made.path())?;
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (65534, 0o700));
    made.remove()?;
    assert_eq!(fs::read_dir(&below)?.count(), 0);
    Ok(())
}
