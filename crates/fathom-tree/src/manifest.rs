//! A tree on a filesystem: the card in it says what it is, and proves that it is fathom's.
//!
//! The card names the directory by inode and time of birth, so that a copy of a tree is not taken for one. It holds the
//! settings and how far the tree reaches; names, sizes, times and bytes of everything else follow from these
//! ([`Layout`]), and [`crate::manifest::judge`] tells a file that is as it was left from one that somebody changed.

pub mod check;
pub mod judge;

use crate::error::TreeError;
use crate::spec::TreeSpec;
use crate::spec::layout::{Extent, Layout};
use fathom_base::json;
use fathom_guard::FileRefusal;
use fathom_guard::mark::FileId;
use fathom_sys::dirfd::{Dir, FileFacts, facts_of};
use fathom_sys::process;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The card's name in the tree's directory.
pub const CARD: &str = ".fathom-tree";
/// A card that is being written.
pub const DRAFT: &str = ".fathom-tree.new";
/// Version of the card.
const FORMAT: u32 = 1;
/// More is not read of a card.
const CARD_BYTES_MAX: u64 = 16 << 20;
/// Paths that are longer are walked in pieces; the kernel takes 4095 bytes.
const PATH_BYTES_MAX: usize = 4000;

/// How far the work on a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is being built, or was broken off.
    Building,
    /// All of it is there.
    Complete,
    /// It is being removed, or that was broken off.
    Removing,
}

/// What the card says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Version of this form.
    pub format: u32,
    /// The run that made it.
    pub run_id: String,
    /// The tree's directory.
    pub root: FileId,
    /// The directory itself was made by fathom, so that it goes with the tree.
    pub made_root: bool,
    /// How far the work on it is.
    pub state: State,
    /// Steps of the times of change that this filesystem keeps, nanoseconds.
    pub stamp_step_ns: i64,
    /// What it looks like.
    pub spec: TreeSpec,
    /// How far it reaches.
    pub extent: Extent,
}

/// Which use of a tree goes with which others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It is read, or files are added beside it; others may do so too.
    Shared,
    /// It is built or removed.
    Alone,
}

/// A tree that is held open.
#[derive(Debug)]
pub struct Tree {
    root: Dir,
    dev: u64,
    path: PathBuf,
    card: Card,
    layout: Layout,
    /// The card as a file, when it was read.
    signed: Option<FileFacts>,
}

impl Tree {
    /// Opens the tree in a directory, in whatever state.
    ///
    /// # Errors
    /// [`TreeError::NoTree`], [`TreeError::Copied`], [`TreeError::Card`], [`TreeError::Busy`], [`TreeError::Io`].
    pub fn open(path: &Path, access: Access) -> Result<Self, TreeError> {
        let path = std::path::absolute(path).map_err(TreeError::io("reach", path))?;
        let root = open_root(&path)?;
        Self::in_dir(root, path, access)
    }

    /// The same for a directory that is open already.
    pub(crate) fn in_dir(root: Dir, path: PathBuf, access: Access) -> Result<Self, TreeError> {
        hold(&root, &path, access)?;
        let card = read_card(&root, &path)?.ok_or_else(|| TreeError::NoTree(path.clone()))?;
        let (card, signed) = card;
        let facts = root.own_facts().map_err(TreeError::io("look at", &path))?;
        if card.root != FileId::from(facts) {
            return Err(TreeError::Copied(path));
        }
        let layout = if judge::is_step(card.stamp_step_ns) {
            Layout::known(card.spec.clone(), card.extent)
        } else {
            Err("no filesystem keeps times so".to_owned())
        };
        let layout = layout.map_err(|reason| TreeError::Card { path: path.join(CARD), reason })?;
        Ok(Self { root, dev: facts.dev, path, card, layout, signed: Some(signed) })
    }

    /// Makes sure that the card is of who asks: anybody can write one into a directory of his, which says whatever he likes of what is there.
    ///
    /// # Errors
    /// [`TreeError::SomebodyElses`].
    pub(crate) fn check_owner(&self) -> Result<(), TreeError> {
        let Some(signed) = self.signed else { return Ok(()) };
        let is_ours = signed.links == 1
            && (process::is_own(signed.uid)
                || self.uid_here().is_some_and(|uid| uid == signed.uid));
        let owner = signed.uid;
        is_ours
            .then_some(())
            .ok_or_else(|| TreeError::SomebodyElses { path: self.path.clone(), owner })
    }

    /// The user who owns the card, when that is another than who asks.
    #[must_use]
    pub fn signed_by_other(&self) -> Option<u32> {
        self.signed.map(|signed| signed.uid).filter(|uid| !process::is_own(*uid))
    }

    /// As whom the filesystem takes who asks: servers may take root as somebody else.
    fn uid_here(&self) -> Option<u32> {
        let file = self.root.create_file(DRAFT).ok()?;
        let facts = facts_of(&file);
        self.root.unlink(DRAFT).ok();
        Some(facts.ok()?.uid)
    }

    /// Opens a tree that is whole.
    ///
    /// # Errors
    /// As [`Tree::open`]; [`TreeError::Unfinished`].
    pub fn open_complete(path: &Path, access: Access) -> Result<Self, TreeError> {
        let tree = Self::open(path, access)?;
        let doing = match tree.card.state {
            State::Complete => return Ok(tree),
            State::Building => "built",
            State::Removing => "removed",
        };
        Err(TreeError::Unfinished { path: tree.path, doing })
    }

    /// Signs a directory, held by nobody else, that is empty or has the beginning of a card.
    pub(crate) fn sign(
        root: Dir,
        path: &Path,
        run_id: &str,
        made_root: bool,
        layout: Layout,
    ) -> Result<Self, TreeError> {
        let facts = root.own_facts().map_err(TreeError::io("look at", path))?;
        let stamp_step_ns =
            judge::stamp_step(&root).map_err(TreeError::io("make a file in", path))?;
        let stamp_step_ns = stamp_step_ns.ok_or_else(|| TreeError::Card {
            path: path.to_owned(),
            reason: "its filesystem does not keep times of change, so that fathom's files could not be told from others".into(),
        })?;
        let card = Card {
            format: FORMAT,
            run_id: run_id.to_owned(),
            root: facts.into(),
            made_root,
            state: State::Building,
            stamp_step_ns,
            spec: layout.spec().clone(),
            extent: layout.extent(),
        };
        let mut tree =
            Self { root, dev: facts.dev, path: path.to_owned(), card, layout, signed: None };
        tree.put_card()?;
        Ok(tree)
    }

    /// Notes, on stable storage, how far the work is.
    pub(crate) fn set_state(&mut self, state: State) -> Result<(), TreeError> {
        self.card.state = state;
        self.put_card()
    }

    /// Notes that the tree ends behind so many directories.
    pub(crate) fn cut(&mut self, dirs: u64) {
        self.layout = self.layout.cut(dirs);
        self.card.extent = self.layout.extent();
    }

    /// Writes the card so that it appears, or changes, as a whole.
    fn put_card(&mut self) -> Result<(), TreeError> {
        let text = serde_json::to_vec_pretty(&self.card).map_err(io::Error::other);
        let written = text.and_then(|text| {
            match self.root.unlink(DRAFT) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = self.root.create_file(DRAFT)?;
            let whole = file.write_all(&text).and_then(|()| file.sync_all());
            let named = whole.and_then(|()| self.root.rename(DRAFT, CARD, true));
            // That an unfinished card could not be removed says less than why it is unfinished.
            named.inspect_err(|_| _ = self.root.unlink(DRAFT))?;
            self.root.sync()
        });
        written.map_err(TreeError::io("write", self.path.join(CARD)))
    }

    /// The tree's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tree's directory, open.
    #[must_use]
    pub fn root(&self) -> &Dir {
        &self.root
    }

    /// `st_dev` of its filesystem.
    #[must_use]
    pub fn dev(&self) -> u64 {
        self.dev
    }

    /// What its card says.
    #[must_use]
    pub fn card(&self) -> &Card {
        &self.card
    }

    /// Where everything lies.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The directories up to the last one before `last` that is there, or may be: behind that nothing has to be looked for,
    /// however many the card says there are.
    #[must_use]
    pub fn existing(&self, mut last: u64) -> u64 {
        while last > 1 {
            let is_missing = |dir: &u64| match self.open_dir(*dir) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(_) => false,
            };
            // From the one below the tree's own down to the last: what is below a missing one is missing too.
            let mut way: Vec<u64> =
                std::iter::successors(Some(last - 1), |dir| self.layout.parent(*dir)).collect();
            way.reverse();
            let there = way.partition_point(|dir| !is_missing(dir));
            let Some(missing) = way.get(there) else { return last };
            // The first directory of the last one's level that lies below the missing one.
            let first = (there + 1..way.len())
                .fold(*missing, |dir, _| dir * self.layout.spec().fan_out + 1);
            last = first;
        }
        last
    }

    /// Opens one of its directories, however deep; no link is followed, no mount crossed.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open_dir(&self, dir: u64) -> io::Result<Dir> {
        let path = self.layout.dir_path(dir);
        open_deep(&self.root, path.as_bytes())
    }

    /// The path of one of its directories, for people.
    #[must_use]
    pub fn full_path(&self, dir: u64) -> PathBuf {
        self.path.join(self.layout.dir_path(dir))
    }
}

/// Opens a directory below another by a path of any length.
pub(crate) fn open_deep(root: &Dir, path: &[u8]) -> io::Result<Dir> {
    let mut rest = path;
    let mut at: Option<Dir> = None;
    while rest.len() > PATH_BYTES_MAX {
        let cut = rest[..PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/');
        let cut = cut.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        at = Some(at.as_ref().unwrap_or(root).open_beneath(&rest[..cut])?);
        rest = &rest[cut + 1..];
    }
    let rest = if rest.is_empty() { b".".as_slice() } else { rest };
    at.as_ref().unwrap_or(root).open_beneath(rest)
}

/// Opens the directory of a tree; a symbolic link is refused.
pub(crate) fn open_root(path: &Path) -> Result<Dir, TreeError> {
    Dir::open(path).map_err(|error| match error.kind() {
        // A word of the command line, and nothing that the filesystem did.
        io::ErrorKind::NotFound => FileRefusal::Missing(path.to_owned()).into(),
        _ => TreeError::io("open", path)(error),
    })
}

/// Takes the lock of a tree's directory.
pub(crate) fn hold(root: &Dir, path: &Path, access: Access) -> Result<(), TreeError> {
    match root.try_lock(access == Access::Shared) {
        Ok(true) => Ok(()),
        Ok(false) => Err(TreeError::Busy(path.to_owned())),
        Err(error) => Err(TreeError::io("lock", path)(error)),
    }
}

/// A builder that was killed before its card had its name leaves a draft, and nothing else. It goes when it is ours and whole, or empty.
pub(crate) fn remove_draft(path: &Path) {
    let Ok(root) = open_root(path) else { return };
    if hold(&root, path, Access::Alone).is_err() {
        return;
    }
    let Ok(file) = root.open_file(DRAFT, false) else { return };
    let is_ours =
        |facts: FileFacts| facts.is_file && facts.links == 1 && process::is_own(facts.uid);
    let mut text = Vec::new();
    let is_read = facts_of(&file).is_ok_and(is_ours)
        && file.take(CARD_BYTES_MAX).read_to_end(&mut text).is_ok();
    let is_card = |text: &str| text.is_empty() || json::from_str::<Card>(text).is_ok();
    if is_read && str::from_utf8(&text).is_ok_and(is_card) {
        root.unlink(DRAFT).ok();
    }
}

/// The card in a directory, and what it is as a file; none when there is none.
pub(crate) fn read_card(root: &Dir, path: &Path) -> Result<Option<(Card, FileFacts)>, TreeError> {
    let bad = |reason: String| TreeError::Card { path: path.join(CARD), reason };
    let file = match root.open_file(CARD, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TreeError::io("open", path.join(CARD))(error)),
    };
    let facts = facts_of(&file).map_err(TreeError::io("look at", path.join(CARD)))?;
    let mut text = Vec::new();
    file.take(CARD_BYTES_MAX)
        .read_to_end(&mut text)
        .map_err(TreeError::io("read", path.join(CARD)))?;
    let text = String::from_utf8(text).unwrap_or_default();
    let format = serde_json::from_str::<serde_json::Value>(&text).ok();
    let format = format.and_then(|card| card["format"].as_u64());
    match format {
        Some(format) if format > u64::from(FORMAT) => {
            Err(bad(format!("written by a newer fathom ({format})")))
        }
        Some(_) => match json::from_str(&text) {
            Ok(card) => Ok(Some((card, facts))),
            Err(error) => Err(bad(error.to_string())),
        },
        None => Err(bad("no card of a tree, though it is called so".into())),
    }
}
