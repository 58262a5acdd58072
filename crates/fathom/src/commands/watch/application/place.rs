//! The private directory of a recipe on the target: made for it, removed with all that it has in it, also when fathom was killed:
//! then by the next recipe there.

use fathom_base::shell;
use fathom_sys::process;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How names of such directories begin.
const PREFIX: &str = ".fathom-recipe-";

/// The file in it that says whose it is, and which directory it belongs to: a copy is not taken for it.
const OWNER: &str = "made-by-fathom";

/// A private directory, gone when dropped.
pub struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes one in a directory, after those of killed processes there are gone.
    pub fn make(root: &SysRoot, inside: &Path, user: Option<(u32, u32)>) -> Result<Self, String> {
        let inside = inside.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
            format!("{}: a recipe needs a directory to work in", inside.display())
        })?;
        clean(root, &inside);
        let pid = std::process::id();
        let path = inside.join(format!("{PREFIX}{pid}"));
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        let place = Self { path: path.clone() };
        let owner = owner(root, &path).map_err(failed)?;
        fs::write(path.join(OWNER), owner).map_err(failed)?;
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&path, Some(uid), Some(gid)).map_err(failed)?;
        }
        Ok(place)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next recipe here.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Who has made a directory, for those who find it.
fn owner(root: &SysRoot, path: &Path) -> io::Result<String> {
    let inode = fs::metadata(path)?.ino();
    Ok(words(root, std::process::id(), inode).unwrap_or_default())
}

fn words(root: &SysRoot, pid: u32, inode: u64) -> Option<String> {
    let start = process::start_time_ticks(root, pid)?;
    let identity = process::ProcessIdentity::current(root)?;
    Some(format!("{pid} {start} {} {} {inode}\n", identity.boot_id, identity.pid_namespace))
}

/// Removes directories of dead processes of this machine.
fn clean(root: &SysRoot, inside: &Path) {
    let entries = fs::read_dir(inside).into_iter().flatten().flatten();
    let ours = entries.filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX));
    for path in ours.map(|entry| entry.path()) {
        if is_left_behind(root, &path) == Some(true) {
            fs::remove_dir_all(&path).ok();
        }
    }
}

/// True for one whose maker is dead; none when nothing can be said.
fn is_left_behind(root: &SysRoot, path: &Path) -> Option<bool> {
    let meta = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir)?;
    let text = fs::read_to_string(path.join(OWNER)).ok()?;
    let [pid, start, boot, namespace, inode] =
        text.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    let here = process::ProcessIdentity::current(root)?;
    if inode.parse() != Ok(meta.ino()) {
        return None;
    }
    // Of another boot it is dead; of this one it is in this namespace or nothing is known.
    if boot == here.boot_id && namespace != here.pid_namespace {
        return None;
    }
    let lives = process::start_time_ticks(root, pid.parse().ok()?) == start.parse().ok();
    Some(boot != here.boot_id || !lives)
}

/// The words for a command of a recipe: with its settings in the environment, as the user without rights.
pub fn command(
    place: &Path,
    settings: impl Iterator<Item = (String, String)>,
    user: Option<(u32, u32)>,
    script: &str,
) -> Vec<std::ffi::OsString> {
    let mut words: Vec<String> = Vec::new();
    if let Some((uid, gid)) = user {
        let (uid, gid) = (format!("--reuid={uid}"), format!("--regid={gid}"));
        words.extend([
            "setpriv".to_owned(),
            uid,
            gid,
            "--clear-groups".to_owned(),
            "--".to_owned(),
        ]);
    }
    words.push("/usr/bin/env".to_owned());
    words.push(format!("FATHOM_DIR={}", place.display()));
    words.extend(settings.map(|(key, value)| format!("FATHOM_{key}={value}")));
    words.extend(["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()]);
    words.into_iter().map(Into::into).collect()
}

/// The user that servers run as: that of PostgreSQL's package, else nobody; none for who has no rights anyway.
pub fn user_without_rights(root: &SysRoot) -> Option<(u32, u32)> {
    let passwd = process::is_root().then(|| root.read("etc/passwd").unwrap_or_default())?;
    ["postgres", "nobody"].iter().find_map(|name| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let fields: Vec<&str> = line.split(':').collect();
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    })
}

/// The first directory on the way to a place that others may not pass.
pub fn closed_to_others(path: &Path) -> Option<String> {
    let is_closed = |dir: &&Path| fs::metadata(dir).is_ok_and(|meta| meta.mode() & 0o001 == 0);
    let closed =
        path.parent()?.ancestors().collect::<Vec<_>>().into_iter().rev().find(is_closed)?;
    let word = shell::word(closed.as_os_str());
    Some(format!(
        "{}: the recipe runs as a user without rights, who may not pass this directory; choose another one, or: chmod o+x {word}",
        closed.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_the_dead_go_and_those_of_the_living_stay() {
        let root = SysRoot::live();
        let dir = std::env::temp_dir().join(format!("fathom-place-{}", std::process::id()));
        fs::create_dir(&dir).expect("made");
        let place = Place::make(&root, &dir, None).expect("made");
        fs::write(place.path().join("x"), "data").expect("written");
        // One of a process that is dead, a copy of ours under another name, and one of somebody else's.
        let dead = dir.join(format!("{PREFIX}dead"));
        fs::create_dir(&dead).expect("made");
        let inode = fs::metadata(&dead).expect("there").ino();
        let own = words(&root, std::process::id(), inode).expect("known");
        let (_, rest) = own.split_once(' ').expect("words");
        let (_, rest) = rest.split_once(' ').expect("words");
        fs::write(dead.join(OWNER), format!("{} 1 {rest}", std::process::id())).expect("written");
        let copy = dir.join(format!("{PREFIX}copy"));
        fs::create_dir(&copy).expect("made");
        fs::copy(dead.join(OWNER), copy.join(OWNER)).expect("copied");
        let foreign = dir.join(format!("{PREFIX}foreign"));
        fs::create_dir(&foreign).expect("made");
        clean(&root, &dir);
        assert!(!dead.exists() && copy.exists() && foreign.exists() && place.path().exists());
        drop(place);
        assert_eq!(fs::read_dir(&dir).expect("there").count(), 2);
        fs::remove_dir_all(dir).expect("removed");
    }
}
