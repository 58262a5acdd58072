//! Paths under an injectable root: symbolic links resolved as the machine of that root would.

use crate::InspectError;
use fathom_sys::devno::DevNo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Links followed in one path before it counts as a loop, as in the kernel.
const LINKS_MAX: usize = 40;

/// The absolute path without symbolic links; parts that do not exist (yet) are kept as they are.
///
/// A relative path starts at the working directory on the live machine and at `/` in a recorded
/// tree.
///
/// # Errors
/// [`InspectError::LinkLoop`]; [`InspectError::Io`] when the working directory cannot be had.
pub fn resolved(root: &SysRoot, path: &Path) -> Result<PathBuf, InspectError> {
    let start = if path.is_absolute() || !root.is_live() {
        PathBuf::from("/")
    } else {
        std::env::current_dir().map_err(|e| InspectError::io(path, e))?
    };
    let mut out = PathBuf::from("/");
    let mut pending: VecDeque<OsString> = parts(&start.join(path)).collect();
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        if part == ".." {
            out.pop();
            continue;
        }
        let next = out.join(&part);
        let Some(target) = root.link(&next) else {
            out = next;
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(InspectError::LinkLoop(path.display().to_string()));
        }
        if target.is_absolute() {
            out = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            pending.push_front(part);
        }
    }
    Ok(out)
}

/// The block device that a path names: by its number on the live machine, where names are only a
/// habit; by its name (or device-mapper's) in a recorded tree, which holds no device nodes.
#[must_use]
pub fn block_device(root: &SysRoot, path: &Path) -> Option<BlockDir> {
    let path = resolved(root, path).ok()?;
    if root.is_live() {
        let metadata = std::fs::metadata(&path).ok()?;
        let is_device = metadata.file_type().is_block_device();
        return is_device.then(|| BlockDir::by_devno(root, DevNo::from_raw(metadata.rdev())))?;
    }
    BlockDir::by_dev_path(root, &path).or_else(|| {
        let name = path.strip_prefix("/dev/mapper").ok()?.to_str()?;
        BlockDir::disks(root).into_iter().find(|disk| disk.text("dm/name").as_deref() == Some(name))
    })
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_inside_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = SysRoot::at(dir.path());
        std::fs::create_dir_all(dir.path().join("dev/mapper")).unwrap();
        symlink("../dm-0", dir.path().join("dev/mapper/vg-lv")).unwrap();
        symlink("/dev/mapper", dir.path().join("alias")).unwrap();
        symlink("loop-b", dir.path().join("loop-a")).unwrap();
        symlink("loop-a", dir.path().join("loop-b")).unwrap();
        let to = |path: &str| resolved(&root, Path::new(path)).map(|p| p.display().to_string());
        assert_eq!(to("/dev/mapper/vg-lv").unwrap(), "/dev/dm-0");
        assert_eq!(to("alias/./vg-lv").unwrap(), "/dev/dm-0");
        assert_eq!(to("/new/../file").unwrap(), "/file");
        assert_eq!(to("/not/there").unwrap(), "/not/there");
        assert!(matches!(to("/loop-a"), Err(InspectError::LinkLoop(_))));
    }
}
