//! An operation of a file server that failed, in words.

use fathom_base::units::format_size;
use fathom_model::fsop::Role;
use fathom_model::record::IoFailure;
use fathom_sys::fsinfo;
use fathom_tree::walk::Failed;
use std::path::{Path, PathBuf};

/// A name below a directory; none is the directory.
pub fn at(path: &Path, name: &str) -> PathBuf {
    if name.is_empty() { path.to_owned() } else { path.join(name) }
}

/// A failed operation in words: on what below `path`, whose, why, what to do.
pub fn of(path: &Path, (role, number, failed): (Role, u32, Failed)) -> IoFailure {
    let Failed { class, name, error } = failed;
    let (word, process) = (class.word(), format!("{} {number}", role.word()));
    let free = || {
        fsinfo::space(path).map_or_else(
            |_| String::new(),
            |space| format!(" ({} free)", format_size(space.available_bytes)),
        )
    };
    let cure = match error.raw_os_error() {
        Some(28) => format!(
            "no space or no inodes are left{}; free some, or use a shorter window and warmup, or smaller files",
            free()
        ),
        Some(122) => "the quota is used up; use a shorter window and warmup, or smaller files".into(),
        Some(5) => "the device or its backing failed; look at dmesg, and at the health of the disk".into(),
        Some(30) => {
            "the filesystem is read-only now; after an error the kernel makes it so (errors=remount-ro): look at dmesg"
                .into()
        }
        Some(24) => "too many open files; use fewer processes".into(),
        _ => "look at dmesg for the kernel's own message".to_owned(),
    };
    IoFailure {
        job: process.clone(),
        operation: word.to_owned(),
        offset_bytes: 0,
        size_bytes: 0,
        errno: error.raw_os_error().unwrap_or(0),
        message: format!("{}: {process}: {word}: {error}; {cure}", at(path, &name).display()),
    }
}
