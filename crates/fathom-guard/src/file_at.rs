//! Files, directories and devices that are to be found again from another mount namespace, such as after a container.

use fathom_model::change::FileAt;
use fathom_sys::devno::DevNo;
use fathom_sys::dirfd;
use fathom_sys::mounts;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It is here.
    At(PathBuf),
    /// Its place is visible here, and empty.
    Nothing,
    /// Its place is not visible here.
    Unknown,
}

fn device(meta: &Metadata) -> String {
    DevNo::from_raw(meta.dev()).to_string()
}

/// Where something is, or is about to be made; none when not even its directory is there.
#[must_use]
pub fn note(root: &SysRoot, path: &Path) -> Option<FileAt> {
    let above = path.parent()?.canonicalize().ok()?;
    let meta = fs::symlink_metadata(path).ok();
    if let Some(meta) = meta.as_ref().filter(|meta| meta.file_type().is_block_device()) {
        let device = DevNo::from_raw(meta.rdev()).to_string();
        return Some(FileAt { device, inode: None, born_ns: None, inside: None });
    }
    let mounts = mounts::own_mounts(root);
    let inside = mounts::mount_of(&mounts, &above).and_then(|mount| {
        let dir = mount.root.join(above.strip_prefix(&mount.mount_point).ok()?);
        Some(dir.join(path.file_name()?))
    });
    let inode = meta.as_ref().map(MetadataExt::ino);
    let meta = meta.or_else(|| fs::metadata(&above).ok())?;
    let born_ns = dirfd::facts_at(path).ok().and_then(|facts| facts.born_ns);
    Some(FileAt { device: device(&meta), inode, born_ns, inside })
}

/// True when both mean the same file or device, by whatever paths.
#[must_use]
pub fn is_same(a: &FileAt, b: &FileAt) -> bool {
    let is_reborn = a.born_ns.zip(b.born_ns).is_some_and(|(a, b)| a != b);
    a.device == b.device
        && a.inode == b.inode
        && !is_reborn
        && (a.inode.is_some() || a.inside == b.inside)
}

/// True for the path of what was noted when it was there, in this boot. Where nobody knows when it was made, only under its last name: numbers
/// of inodes are given again.
#[must_use]
pub fn is_at(path: &Path, at: &FileAt) -> bool {
    dirfd::facts_at(path).is_ok_and(|facts| {
        let is_same_inode =
            at.inode == Some(facts.inode) && at.device == DevNo::from_raw(facts.dev).to_string();
        is_same_inode
            && match (at.born_ns, facts.born_ns) {
                (Some(noted), Some(born)) => noted == born,
                _ => at.inside.as_ref().and_then(|inside| inside.file_name()) == path.file_name(),
            }
    })
}

/// Finds it again by what was noted of it, and nothing else in its place. Where nothing was noted, and of another boot, whose numbers
/// mean nothing here, by its path, in which there must be a name that nobody else gives.
#[must_use]
pub fn find(root: &SysRoot, path: &Path, at: Option<&FileAt>, is_same_boot: bool) -> Found {
    let number = at.filter(|_| is_same_boot).map(|at| at.device.as_str());
    let is_it = |candidate: &Path| {
        dirfd::facts_at(candidate).is_ok_and(|facts| {
            let born = at.and_then(|at| at.born_ns).zip(facts.born_ns);
            at.and_then(|at| at.inode).is_none_or(|inode| inode == facts.inode)
                && born.is_none_or(|(noted, born)| noted == born)
                && number.is_none_or(|number| number == DevNo::from_raw(facts.dev).to_string())
        })
    };
    let (Some(at), Some(number)) = (at, number) else {
        return if is_it(path) { Found::At(path.to_owned()) } else { Found::Unknown };
    };
    let Some(inside) = &at.inside else {
        let devno = number.parse::<DevNo>().ok();
        let found = devno.and_then(|devno| BlockDir::by_devno(root, devno));
        return found.map_or(Found::Unknown, |device| Found::At(device.dev_path().into()));
    };
    if is_it(path) {
        return Found::At(path.to_owned());
    }
    let own = mounts::own_mounts(root);
    let seen = own.iter().zip(mounts::hidden(&own)).filter(|(_, is_hidden)| !is_hidden);
    let mut is_visible = false;
    for (mount, _) in seen {
        // Subvolumes have numbers of their own. Others may not answer, and are not asked.
        let has_several = mount.fs_type == "btrfs" && number.starts_with("0:");
        let Ok(rest) = inside.strip_prefix(&mount.root) else { continue };
        if mount.devno.to_string() != number && !has_several {
            continue;
        }
        // One that may not answer itself is asked like the path was; another that lies in one is not worth the wait.
        if mounts::may_be_asked(&mount.fs_type)
            && mounts::waiting_for(&own, &mount.mount_point).is_some()
        {
            continue;
        }
        let candidate = mount.mount_point.join(rest);
        if is_it(&candidate) {
            return Found::At(candidate);
        }
        let nearest = candidate.ancestors().find_map(|path| fs::symlink_metadata(path).ok());
        is_visible |= nearest.is_some_and(|meta| device(&meta) == number);
    }
    // A number without a device may be another filesystem's by now.
    if is_visible && !number.starts_with("0:") { Found::Nothing } else { Found::Unknown }
}

/// True for the path of what was noted, on whatever device its filesystem is by now: by the inode and the time at which it was
/// made, and false where no such time is known. What was noted before it was made is known by its place.
#[must_use]
pub fn is_on_another_device(path: &Path, at: &FileAt) -> bool {
    dirfd::facts_at(path).is_ok_and(|facts| match at.inode {
        Some(inode) => inode == facts.inode && at.born_ns.is_some() && at.born_ns == facts.born_ns,
        None => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_found_and_nothing_else_in_its_place() {
        let (root, dir) = (SysRoot::live(), tempfile::tempdir().expect("a directory"));
        let path = dir.path().join("file");
        let before = note(&root, &path).expect("its directory is there");
        assert_eq!((before.inode, note(&root, &path.join("deeper"))), (None, None));
        fs::write(&path, "").expect("is made");
        let made = note(&root, &path).expect("it is there");
        assert!(made.inode.is_some() && made.inside == before.inside && !is_same(&made, &before));
        // By what it is, whatever the path means here; before it was made by its place.
        let elsewhere = Path::new("/no/such/file");
        for at in [&before, &made] {
            assert_eq!(find(&root, elsewhere, Some(at), true), Found::At(path.clone()));
        }
        assert_eq!(find(&root, elsewhere, Some(&made), false), Found::Unknown);
        assert_eq!(find(&root, elsewhere, None, true), Found::Unknown);
        assert_eq!(find(&root, &path, Some(&made), false), Found::At(path.clone()));
        let another = FileAt { inode: made.inode.map(|inode| inode + 1), ..made.clone() };
        let nothing = if made.device.starts_with("0:") { Found::Unknown } else { Found::Nothing };
        assert_eq!(find(&root, &path, Some(&another), true), nothing, "another in its place");
        // The same number, given to another file later: only where nobody knows when files were made is its name to tell it.
        let reborn = FileAt { born_ns: made.born_ns.map(|born| born - 1), ..made.clone() };
        let (has_births, renamed) = (made.born_ns.is_some(), dir.path().join("renamed"));
        assert!(is_at(&path, &made) && is_at(&path, &reborn) != has_births);
        assert_eq!(find(&root, &path, Some(&reborn), true) == nothing, has_births);
        fs::rename(&path, &renamed).expect("is renamed");
        assert_eq!(is_at(&renamed, &made), has_births);
        fs::rename(&renamed, &path).expect("is renamed");
        let away = FileAt { device: "4095:1".to_owned(), ..made };
        assert_eq!(find(&root, &path, Some(&away), true), Found::Unknown);
    }
}
