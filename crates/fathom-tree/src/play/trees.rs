//! Transactions on whole trees of sources, as builds have them. The more of them, the more the filesystem ages.

use super::set::Entry;
use super::{Player, Stop, told};
use crate::name::Name;
use fathom_base::clock::Clock;
use fathom_model::play::{PlayAct, PlaySpec, PlaySync};
use fathom_model::record::OpClass;
use fathom_sys::walked::WalkedDir;
use std::rc::Rc;

/// Numbers of the directories of trees begin here, beside those over which files are spread.
const DIRS_FROM: u64 = 1_000_000;
/// Numbers of objects begin here, beside those of their sources.
const OBJECTS_FROM: u64 = 5_000_000;
/// The file that is to take the place of another one.
const NEW_FILE: u64 = 9_000_000;
/// Of so many sources a patch replaces one.
const PATCHED: u64 = 10;

/// What there is of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grown {
    Nothing,
    Sources,
    Objects,
}

/// The trees of one client.
#[derive(Debug)]
pub(super) struct Wood {
    root: Rc<WalkedDir>,
    trees: Vec<Grown>,
    dirs: u64,
    files: u64,
}

impl Wood {
    /// As [`Player::prepare`] leaves it.
    pub(super) fn new(root: WalkedDir, spec: &PlaySpec) -> Self {
        let count = if spec.acts().any(PlayAct::is_on_trees) { spec.trees } else { 0 };
        Self {
            root: Rc::new(root),
            trees: vec![Grown::Sources; count as usize],
            dirs: u64::from(spec.tree_dirs),
            files: u64::from(spec.tree_files),
        }
    }

    fn top(&self, tree: usize) -> Name {
        Name::dir(DIRS_FROM + tree as u64 * (self.dirs + 1))
    }

    fn dir(&self, tree: usize, number: u64) -> Name {
        Name::dir(DIRS_FROM + tree as u64 * (self.dirs + 1) + 1 + number)
    }
}

impl<C: Clock> Player<'_, '_, C> {
    /// Makes the trees that there are from the start.
    pub(super) fn plant(&mut self) -> Result<(), Stop> {
        (0..self.wood.trees.len()).try_for_each(|tree| self.create_tree(tree))
    }

    /// One that has grown so far, chosen by chance.
    fn tree_of(&mut self, wanted: &[Grown]) -> Option<usize> {
        let is_wanted = |(_, grown): &(usize, &Grown)| wanted.contains(grown);
        let count = self.wood.trees.iter().enumerate().filter(is_wanted).count();
        let place = self.random.below(count as u64) as usize;
        let found = self.wood.trees.iter().enumerate().filter(is_wanted).nth(place);
        found.map(|(tree, _)| tree)
    }

    /// One transaction; one that no tree is fit for does what makes one fit.
    pub(super) fn on_tree(&mut self, act: PlayAct) -> Result<(), Stop> {
        use Grown::{Nothing, Objects, Sources};
        let there = [Sources, Objects];
        let (act, tree) = match act {
            PlayAct::TreeCreate => match self.tree_of(&[Nothing]) {
                Some(tree) => (PlayAct::TreeCreate, Some(tree)),
                None => (PlayAct::TreeDelete, self.tree_of(&there)),
            },
            PlayAct::TreeCompile => match self.tree_of(&[Sources]) {
                Some(tree) => (PlayAct::TreeCompile, Some(tree)),
                None => (PlayAct::TreeClean, self.tree_of(&[Objects])),
            },
            PlayAct::TreeClean => match self.tree_of(&[Objects]) {
                Some(tree) => (PlayAct::TreeClean, Some(tree)),
                None => (PlayAct::TreeCompile, self.tree_of(&[Sources])),
            },
            other => (other, self.tree_of(&there)),
        };
        let (act, tree) = match tree {
            Some(tree) => (act, tree),
            None => match self.tree_of(&[Nothing]) {
                Some(tree) => (PlayAct::TreeCreate, tree),
                None => return Ok(()),
            },
        };
        self.do_on(act, tree)?;
        if self.playing.spec.sync == PlaySync::Fs {
            let root = Rc::clone(&self.wood.root);
            self.time(OpClass::Sync, c".", || root.sync_filesystem(), |()| 0)?;
        }
        Ok(())
    }

    fn do_on(&mut self, act: PlayAct, tree: usize) -> Result<(), Stop> {
        match act {
            PlayAct::TreeCreate => self.create_tree(tree),
            PlayAct::TreeDelete => self.delete_tree(tree),
            PlayAct::TreeCompile => {
                self.each_source(tree, |player, dir, number| {
                    player.read_file(dir, &Name::file(number))?;
                    player.make_new(dir, &Name::file(OBJECTS_FROM + number))
                })?;
                self.wood.trees[tree] = Grown::Objects;
                Ok(())
            }
            PlayAct::TreeClean => {
                self.each_source(tree, |player, dir, number| {
                    player.unlink_in(dir, &Name::file(OBJECTS_FROM + number))
                })?;
                self.wood.trees[tree] = Grown::Sources;
                Ok(())
            }
            PlayAct::TreePatch => {
                let chosen = self.random.below(PATCHED);
                self.each_source(tree, |player, dir, number| {
                    if number % PATCHED != chosen {
                        return Ok(());
                    }
                    let (new, old) = (Name::file(NEW_FILE), Name::file(number));
                    player.make_new(dir, &new)?;
                    player.time(OpClass::Rename, &new, || dir.rename(&new, &old), |()| 0)
                })
            }
            PlayAct::TreeRead => self.each_file(tree, Self::read_file),
            _ => self.each_file(tree, |player, dir, name| {
                player.time(OpClass::Stat, name, || dir.look(name).map(|_| ()), |()| 0)
            }),
        }
    }

    fn create_tree(&mut self, tree: usize) -> Result<(), Stop> {
        let (root, top) = (Rc::clone(&self.wood.root), self.wood.top(tree));
        self.time(OpClass::MakeDir, &top, || root.make_dir(&top), |()| 0)?;
        let top = self.time(OpClass::OpenDir, &top, || root.below(&top, false), |_| 0)?;
        for number in 0..self.wood.dirs {
            let name = self.wood.dir(tree, number);
            self.time(OpClass::MakeDir, &name, || top.make_dir(&name), |()| 0)?;
        }
        self.each_source(tree, |player, dir, number| player.make_new(dir, &Name::file(number)))?;
        self.wood.trees[tree] = Grown::Sources;
        Ok(())
    }

    fn delete_tree(&mut self, tree: usize) -> Result<(), Stop> {
        self.each_file(tree, Self::unlink_in)?;
        let (root, top) = (Rc::clone(&self.wood.root), self.wood.top(tree));
        let inner = self.time(OpClass::OpenDir, &top, || root.below(&top, false), |_| 0)?;
        for number in 0..self.wood.dirs {
            let name = self.wood.dir(tree, number);
            self.time(OpClass::RemoveDir, &name, || inner.remove_dir(&name), |()| 0)?;
        }
        self.time(OpClass::RemoveDir, &top, || root.remove_dir(&top), |()| 0)?;
        self.wood.trees[tree] = Grown::Nothing;
        Ok(())
    }

    /// Every source, directory by directory.
    fn each_source(
        &mut self,
        tree: usize,
        mut one: impl FnMut(&mut Self, &WalkedDir, u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let root = Rc::clone(&self.wood.root);
        let top = self.wood.top(tree);
        let top = self.time(OpClass::OpenDir, &top, || root.below(&top, false), |_| 0)?;
        for number in 0..self.wood.dirs {
            let name = self.wood.dir(tree, number);
            let dir = self.time(OpClass::OpenDir, &name, || top.below(&name, false), |_| 0)?;
            for file in 0..self.wood.files {
                self.go_on()?;
                one(self, &dir, file)?;
            }
        }
        Ok(())
    }

    /// Every source, and its object where there is one.
    fn each_file(
        &mut self,
        tree: usize,
        mut one: impl FnMut(&mut Self, &WalkedDir, &Name) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let has_objects = self.wood.trees[tree] == Grown::Objects;
        self.each_source(tree, |player, dir, number| {
            one(player, dir, &Name::file(number))?;
            if has_objects { one(player, dir, &Name::file(OBJECTS_FROM + number)) } else { Ok(()) }
        })
    }

    fn read_file(&mut self, dir: &WalkedDir, name: &Name) -> Result<(), Stop> {
        let file = self.time(OpClass::OpenRead, name, || dir.open_read(name, false), |_| 0)?;
        self.read_whole(file, name)
    }

    fn unlink_in(&mut self, dir: &WalkedDir, name: &Name) -> Result<(), Stop> {
        self.time(OpClass::Unlink, name, || dir.unlink(name), |()| 0)
    }

    fn make_new(&mut self, dir: &WalkedDir, name: &Name) -> Result<(), Stop> {
        let size = told(self.sizes.size(&mut self.random));
        let entry = Entry { number: 0, content: self.next_content(), size };
        self.make_in(dir, name, entry, self.playing.spec.sync)
    }
}
