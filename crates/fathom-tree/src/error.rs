//! Why something with a tree was not done.

use fathom_base::shell;
use fathom_guard::FileRefusal;
use fathom_sys::threads;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Classes of errors; the binary gives each its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeErrorClass {
    /// What was asked makes no sense or cannot be.
    Usage,
    /// It could destroy or disturb somebody's data.
    Refused,
    /// The system lacks something that is needed.
    Missing,
    /// The filesystem failed.
    TargetIo,
    /// A signal came.
    Interrupted,
}

/// An error of building, reading or removing trees and of the exerciser.
#[derive(Debug, Error)]
pub enum TreeError {
    /// What was asked for cannot be.
    #[error("{0}")]
    Usage(String),
    /// A place or file that is not fathom's.
    #[error(transparent)]
    Refused(#[from] FileRefusal),
    /// The directory has something in it.
    #[error(
        "{} is not empty and no tree of fathom's ({what}); a tree is made in a new or empty directory, such as {}",
        path.display(), shell::path(&path.join("tree"))
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
        /// One of the things in it.
        what: String,
    },
    /// No tree.
    #[error("{} is no tree of fathom's: it has no {}; fathom tree build {} makes one", .0.display(), crate::manifest::CARD, shell::path(.0))]
    NoTree(PathBuf),
    /// A card that is not this directory's.
    #[error(
        "{} is a copy of a tree: its card ({}) is that of another directory, so that nothing in it counts as made by fathom; \
         remove it yourself if nobody needs it: rm -r {}",
        .0.display(), crate::manifest::CARD, shell::path(.0)
    )]
    Copied(PathBuf),
    /// A card of somebody else than who removes.
    #[error(
        "{} stays: its card ({}) belongs to user {owner}, or has a second name, so that what it says is not the word of who runs \
         this; remove the tree as its owner: setpriv --reuid={owner} --clear-groups fathom clean {}",
        path.display(), crate::manifest::CARD, shell::path(path)
    )]
    SomebodyElses {
        /// The tree.
        path: PathBuf,
        /// User who owns the card.
        owner: u32,
    },
    /// Another directory than the one that was found.
    #[error("{} was moved or replaced while this looked at it: nothing in it was touched; do this again", .0.display())]
    Replaced(PathBuf),
    /// What is compared would take too much memory.
    #[error(
        "the exercise needs {} of memory, six times files= x size=, more than {}, half of what is free; use a smaller size= or files=",
        fathom_base::units::format_size(*.wanted_bytes), fathom_base::units::format_size(*.most_bytes)
    )]
    Memory {
        /// What it takes.
        wanted_bytes: u64,
        /// What it may take.
        most_bytes: u64,
    },
    /// A card that cannot be understood.
    #[error("{}: {reason}", path.display())]
    Card {
        /// The card.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another tree is there.
    #[error(
        "{} has another tree: {differs}; take another directory, or remove it: fathom clean {}",
        path.display(), shell::path(path)
    )]
    Another {
        /// The directory.
        path: PathBuf,
        /// In what it differs.
        differs: String,
    },
    /// It was not finished.
    #[error(
        "{} was broken off while it was {doing}; {}fathom clean {} removes it",
        path.display(), goes_on(doing, path), shell::path(path)
    )]
    Unfinished {
        /// The directory.
        path: PathBuf,
        /// Built or removed.
        doing: &'static str,
    },
    /// It is not as it was built.
    #[error("{} is not as it was built: {what}; fathom tree verify {} lists everything", path.display(), shell::path(path))]
    Changed {
        /// The directory.
        path: PathBuf,
        /// What is not.
        what: String,
    },
    /// Somebody works with it.
    #[error("{} is in use by another fathom", .0.display())]
    Busy(PathBuf),
    /// Too few inodes.
    #[error(
        "{} needs {wanted} inodes (one for each file and directory), but of {total} only {free} are free and 5 % stay free; use \
         files={}, or another filesystem (mkfs.ext4 -N sets their number)",
        path.display(), free.saturating_sub(total / 20)
    )]
    Inodes {
        /// The directory.
        path: PathBuf,
        /// Needed.
        wanted: u64,
        /// Of the filesystem.
        total: u64,
        /// Free.
        free: u64,
    },
    /// The filesystem refused or failed.
    #[error("cannot {doing} {}: {source}{}", path.display(), cure(source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A signal came.
    #[error("interrupted; {0}")]
    Interrupted(String),
}

fn goes_on(doing: &str, path: &Path) -> String {
    if doing == "removed" {
        return String::new();
    }
    format!("fathom tree build {} with the same settings goes on, ", shell::path(path))
}

fn cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; run as the owner or as root",
        io::ErrorKind::ReadOnlyFilesystem => {
            "; its filesystem is read-only, or became so after an error: see dmesg"
        }
        io::ErrorKind::StorageFull => "; the filesystem has no space or no inodes left: df, df -i",
        io::ErrorKind::QuotaExceeded => "; the quota is used up",
        io::ErrorKind::NotFound => "; the path is mistyped, or it was removed meanwhile",
        io::ErrorKind::NotADirectory => "; name a directory",
        _ => threads::descriptors_cure(source).unwrap_or_default(),
    }
}

impl TreeError {
    /// The system refused something.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    /// The class that decides the exit code.
    #[must_use]
    pub fn class(&self) -> TreeErrorClass {
        match self {
            Self::Usage(_) | Self::NoTree(_) | Self::Another { .. } => TreeErrorClass::Usage,
            Self::Refused(refusal) if refusal.is_safety() => TreeErrorClass::Refused,
            Self::Refused(refusal)
                if refusal.is_out_of_descriptors() || refusal.is_out_of_room() =>
            {
                TreeErrorClass::Missing
            }
            Self::Refused(FileRefusal::Io { .. }) => TreeErrorClass::TargetIo,
            Self::Inodes { .. } | Self::Memory { .. } => TreeErrorClass::Missing,
            Self::Refused(_) => TreeErrorClass::Usage,
            Self::NotEmpty { .. } | Self::Copied(_) | Self::Card { .. } | Self::Busy(_) => {
                TreeErrorClass::Refused
            }
            Self::Unfinished { .. }
            | Self::Changed { .. }
            | Self::SomebodyElses { .. }
            | Self::Replaced(_) => TreeErrorClass::Refused,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    TreeErrorClass::Missing
                }
                io::ErrorKind::NotADirectory => TreeErrorClass::Usage,
                _ if threads::descriptors_cure(source).is_some() => TreeErrorClass::Missing,
                _ => TreeErrorClass::TargetIo,
            },
            Self::Interrupted(_) => TreeErrorClass::Interrupted,
        }
    }
}
