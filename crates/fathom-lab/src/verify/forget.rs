//! Forgetting what is known of verified blocks that nobody can or wants to check any more.

use super::not_read;
use crate::books::{Head, Place, Shelf, Volume, Whereabouts};
use crate::error::{ErrorClass, LabError};
use fathom_base::shell;
use fathom_sys::sysroot::SysRoot;
use std::io;
use std::path::{Path, PathBuf};

/// Forgets what is known of files that were removed since; which they were, and the error of one that could not be forgotten.
#[must_use]
pub fn forget_removed(root: &SysRoot, state_dir: &Path) -> (Vec<PathBuf>, Option<io::Error>) {
    Shelf::new(state_dir).forget_removed(root)
}

/// Goes on with what killed processes have begun to note, or to forget; the caller holds the measuring lock.
///
/// # Errors
/// Those of removing it.
pub fn finish_forgetting(state_dir: &Path) -> io::Result<()> {
    Shelf::new(state_dir).finish()
}

/// Forgets what is known of what was written to a path, or below it: not all of it is there any more.
///
/// # Errors
/// Those of removing what was noted.
pub fn forget_below(state_dir: &Path, path: &Path) -> io::Result<()> {
    Shelf::new(state_dir).about(&Place::gone(path)).into_iter().try_for_each(Volume::remove)
}

/// True when something is known of what was written to a path, or below it, at which there is nothing any more; also when that
/// cannot be told, because what is known cannot be read.
#[must_use]
pub fn remembers(state_dir: &Path, path: &Path) -> bool {
    let (shelf, place) = (Shelf::new(state_dir), Place::gone(path));
    !shelf.about(&place).is_empty()
        || !shelf.about_device_of(&place.path).is_empty()
        || !shelf.unread().is_empty()
}

/// Why what was written cannot be looked at in its place, with the cure; none where it is there, or is gone.
pub(super) fn not_there(head: &Head, found: Whereabouts) -> Option<String> {
    let (point, run) = (head.mount_point().display(), &head.run_id);
    let what = match found {
        Whereabouts::There | Whereabouts::Gone => return None,
        Whereabouts::Replaced => format!(
            "is not the file that was written by run {run}: that one was removed or replaced since, and nothing is known of \
             this one; if nobody needs what is noted of that one"
        ),
        Whereabouts::Hidden => format!(
            "run {run} wrote it to another filesystem, or another part of it, than is mounted at {point} by now: mount that \
             one again, or, if it was overwritten or never comes back"
        ),
        Whereabouts::Away => format!(
            "its filesystem is not mounted at {point} any more, or something is mounted over it: mount it there again, or, \
             if it never comes back"
        ),
    };
    Some(format!("{what}: fathom clean {} --forget", shell::path(&head.target)))
}

/// Why nothing is known of what is at a path by now, where a device was written that had it, with the cure.
pub(super) fn other_device(root: &SysRoot, shelf: &Shelf, path: &Path) -> Option<String> {
    let all = shelf.about_device_of(path);
    all.last().map(|volume| not_the_device(root, &volume.head))
}

fn not_the_device(root: &SysRoot, head: &Head) -> String {
    let (run, id) = (&head.run_id, head.device_id.as_deref().unwrap_or_default());
    let id = shell::word(id);
    match head.device_by_now(root) {
        Some(path) => format!(
            "the device {id}, which run {run} wrote when it had this name, is {0} by now: fathom verify {0}",
            shell::path(&path)
        ),
        None => format!(
            "the device {id}, which run {run} wrote when it had this name, is not there any more: connect it again, or, if it \
             never comes back: fathom clean {} --forget",
            shell::path(&head.target)
        ),
    }
}

/// What became of what was noted of one job's blocks.
#[derive(Debug)]
pub struct Forgotten {
    /// What was written.
    pub target: PathBuf,
    /// By which run.
    pub run_id: String,
    /// Why it is not forgotten, with the cure; none where it is.
    pub stays: Option<String>,
}

fn not_forgotten(shelf: &Shelf, target: &Path, error: &io::Error) -> LabError {
    let cure = match error.kind() {
        io::ErrorKind::PermissionDenied => "; do this as the owner of the store or as root",
        _ => "",
    };
    let target = target.display();
    let reason = format!("what is noted of {target} cannot be forgotten: {error}{cure}");
    LabError::Target { path: shelf.path().to_owned(), reason, class: ErrorClass::Store }
}

/// Forgets what is known of what was written at a path, or below it, and is not there any more: on a filesystem that is away or was
/// made anew, to a device that is not connected any more or is named, and of what was removed or replaced. Where a filesystem may come back, because nothing has its place, the path must
/// lie in it. No file is touched; what is there is known on, and so is what `kept` runs have written: they go on, or their files
/// are elsewhere.
///
/// Each that cannot be told has its error.
///
/// # Errors
/// [`LabError::Target`] when something that was noted cannot be removed.
pub fn forget_away(
    root: &SysRoot,
    state_dir: &Path,
    path: &Path,
    kept: &[&str],
) -> Result<Vec<Result<Forgotten, LabError>>, LabError> {
    let shelf = Shelf::new(state_dir);
    let place = Place::gone(path);
    let unread = shelf.unread();
    let mut all = Vec::new();
    for volume in shelf.about(&place) {
        if unread.iter().any(|(path, _)| volume.has(path)) {
            continue;
        }
        let Head { target, run_id, .. } = volume.head.clone();
        let found = match volume.head.whereabouts(root) {
            Ok(Whereabouts::There) => continue,
            Ok(found) => found,
            Err(source) => {
                let what = "looking for it";
                all.push(Err(LabError::TargetIo { path: target, what, source }));
                continue;
            }
        };
        let may_come_back = match found {
            Whereabouts::Away => true,
            Whereabouts::Hidden => volume.head.may_be_mounted(root),
            Whereabouts::There | Whereabouts::Gone | Whereabouts::Replaced => false,
        };
        let is_named = !may_come_back || place.path.starts_with(volume.head.mount_point());
        let stays = if kept.contains(&run_id.as_str()) {
            Some(format!("the journal still knows of what run {run_id} made"))
        } else if let Some(path) = volume.head.seen_at(root) {
            let (path, point) = (path.display(), volume.head.mount_point().display());
            Some(format!(
                "it is {path} by now: it can be verified when its filesystem is mounted at {point} again"
            ))
        } else if is_named {
            None
        } else {
            not_there(&volume.head, found)
        };
        if stays.is_none() {
            volume.remove().map_err(|error| not_forgotten(&shelf, &target, &error))?;
        }
        all.push(Ok(Forgotten { target, run_id, stays }));
    }
    let devices = shelf.about_devices_at(root, &place.path);
    let has_name = |by_now: &Option<PathBuf>| by_now.as_ref() == Some(&place.path);
    let is_another = |(volume, by_now): &(Volume, Option<PathBuf>)| {
        volume.head.target == place.path && !has_name(by_now)
    };
    let has_another = devices.iter().any(is_another);
    for (volume, by_now) in devices {
        let Head { target, run_id, .. } = volume.head.clone();
        // Who names a device that is there does not want to check it any more; but another one that had the name comes first.
        let is_named = has_name(&by_now) && !has_another;
        let is_there = by_now.as_ref() == Some(&target) || has_name(&by_now);
        if (is_there && !is_named) || unread.iter().any(|(path, _)| volume.has(path)) {
            continue;
        }
        // It may come back: only who names it knows that it does not.
        let is_forgotten = is_named || (by_now.is_none() && target == place.path);
        let target = if is_named { place.path.clone() } else { target };
        let stays = (!is_forgotten).then(|| not_the_device(root, &volume.head));
        if is_forgotten {
            volume.remove().map_err(|error| not_forgotten(&shelf, &target, &error))?;
        }
        all.push(Ok(Forgotten { target, run_id, stays }));
    }
    all.extend(not_read(&unread).map(Err));
    Ok(all)
}
