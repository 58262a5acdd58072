//! Transactions on whole trees of sources, as builds have them. The more of them, the more the filesystem ages.

use super::set::Entry;
use super::{Draw, Player, Stop, Todo, told};
use crate::name::Name;
use fathom_base::clock::Clock;
use fathom_base::prng::Prng;
use fathom_model::play::{PlayAct, PlaySpec, PlaySync};
use fathom_model::record::OpClass;
use fathom_sys::walked::WalkedDir;
use std::collections::BTreeMap;
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

/// Directories of trees, by the numbers in their names, with the files in each.
pub(super) type Planted = BTreeMap<u64, BTreeMap<u64, Entry>>;

/// The directory that one of a tree lies in, among trees of so many directories; none for the top of a tree.
pub(super) fn top_of(dir: u64, dirs: u64) -> Option<u64> {
    let place = (dir - DIRS_FROM) % (dirs + 1);
    (place > 0).then(|| dir - place)
}

/// An open directory of a tree, and the number in its name.
struct Place {
    dir: WalkedDir,
    number: u64,
}

/// The trees of one client.
#[derive(Debug)]
pub(super) struct Wood {
    root: Rc<WalkedDir>,
    trees: Vec<Grown>,
    dirs: u64,
    files: u64,
    /// What there is, where it is read back at the end.
    pub(super) planted: Option<Planted>,
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
            planted: None,
        }
    }

    /// Remembers what [`Player::prepare`] makes, by the same choices: contents are numbered on from `contents`.
    pub(super) fn remember(&mut self, sizes: Draw, mut random: Prng, mut contents: u64) {
        let mut planted = Planted::new();
        for tree in 0..self.trees.len() {
            planted.insert(self.top(tree), BTreeMap::new());
            for place in 0..self.dirs {
                let files = planted.entry(self.dir(tree, place)).or_default();
                for number in 0..self.files {
                    contents += 1;
                    let size = told(sizes.size(&mut random));
                    files.insert(number, Entry { number, content: contents, size });
                }
            }
        }
        self.planted = Some(planted);
    }

    fn top(&self, tree: usize) -> u64 {
        DIRS_FROM + tree as u64 * (self.dirs + 1)
    }

    fn dir(&self, tree: usize, number: u64) -> u64 {
        self.top(tree) + 1 + number
    }
}

impl<C: Clock> Player<'_, '_, C> {
    /// Remembers what was done, where trees are read back; no operation lasts longer for it.
    fn note(&mut self, what: impl FnOnce(&mut Planted)) {
        if let Some(planted) = &mut self.wood.planted {
            what(planted);
            self.meter.resume();
        }
    }

    fn note_in(&mut self, place: &Place, what: impl FnOnce(&mut BTreeMap<u64, Entry>)) {
        self.note(|planted| {
            planted.get_mut(&place.number).map(what);
        });
    }

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

    /// A tree that is fit for what was drawn; where none is, what makes one fit.
    pub(super) fn fit_tree(&mut self, act: PlayAct) -> Option<Todo> {
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
        match tree {
            Some(tree) => Some(Todo { act, tree }),
            None => self.tree_of(&[Nothing]).map(|tree| Todo { act: PlayAct::TreeCreate, tree }),
        }
    }

    /// One transaction.
    pub(super) fn on_tree(&mut self, todo: Todo) -> Result<(), Stop> {
        self.do_on(todo.act, todo.tree)?;
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
                self.each_source(tree, |player, place, number| {
                    player.read_in(place, number)?;
                    player.make_new(place, OBJECTS_FROM + number)
                })?;
                self.wood.trees[tree] = Grown::Objects;
                Ok(())
            }
            PlayAct::TreeClean => {
                self.each_source(tree, |player, place, number| {
                    player.unlink_in(place, OBJECTS_FROM + number)
                })?;
                self.wood.trees[tree] = Grown::Sources;
                Ok(())
            }
            PlayAct::TreePatch => {
                let chosen = self.random.below(PATCHED);
                self.each_source(tree, |player, place, number| {
                    if number % PATCHED != chosen {
                        return Ok(());
                    }
                    player.make_new(place, NEW_FILE)?;
                    player.put_in_place(place, number)
                })
            }
            PlayAct::TreeRead => self.each_file(tree, Self::read_in),
            _ => self.each_file(tree, |player, place, number| {
                let name = Name::file(number);
                player.time(OpClass::Stat, &name, || place.dir.look(&name).map(|_| ()), |()| 0)
            }),
        }
    }

    fn create_tree(&mut self, tree: usize) -> Result<(), Stop> {
        let (root, number) = (Rc::clone(&self.wood.root), self.wood.top(tree));
        let name = Name::dir(number);
        self.time(OpClass::MakeDir, &name, || root.make_dir(&name), |()| 0)?;
        self.note(|planted| drop(planted.insert(number, BTreeMap::new())));
        let top = self.time(OpClass::OpenDir, &name, || root.below(&name, false), |_| 0)?;
        for place in 0..self.wood.dirs {
            let number = self.wood.dir(tree, place);
            let name = Name::dir(number);
            self.time(OpClass::MakeDir, &name, || top.make_dir(&name), |()| 0)?;
            self.note(|planted| drop(planted.insert(number, BTreeMap::new())));
        }
        self.each_source(tree, Self::make_new)?;
        self.wood.trees[tree] = Grown::Sources;
        Ok(())
    }

    fn delete_tree(&mut self, tree: usize) -> Result<(), Stop> {
        self.each_file(tree, Self::unlink_in)?;
        let (root, number) = (Rc::clone(&self.wood.root), self.wood.top(tree));
        let top = Name::dir(number);
        let inner = self.time(OpClass::OpenDir, &top, || root.below(&top, false), |_| 0)?;
        for place in 0..self.wood.dirs {
            let number = self.wood.dir(tree, place);
            let name = Name::dir(number);
            self.time(OpClass::RemoveDir, &name, || inner.remove_dir(&name), |()| 0)?;
            self.note(|planted| drop(planted.remove(&number)));
        }
        self.time(OpClass::RemoveDir, &top, || root.remove_dir(&top), |()| 0)?;
        self.note(|planted| drop(planted.remove(&number)));
        self.wood.trees[tree] = Grown::Nothing;
        Ok(())
    }

    /// Every source, directory by directory.
    fn each_source(
        &mut self,
        tree: usize,
        mut one: impl FnMut(&mut Self, &Place, u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let root = Rc::clone(&self.wood.root);
        let top = Name::dir(self.wood.top(tree));
        let top = self.time(OpClass::OpenDir, &top, || root.below(&top, false), |_| 0)?;
        for place in 0..self.wood.dirs {
            let number = self.wood.dir(tree, place);
            let name = Name::dir(number);
            let dir = self.time(OpClass::OpenDir, &name, || top.below(&name, false), |_| 0)?;
            let place = Place { dir, number };
            for file in 0..self.wood.files {
                self.go_on()?;
                one(self, &place, file)?;
            }
        }
        Ok(())
    }

    /// Every source, and its object where there is one.
    fn each_file(
        &mut self,
        tree: usize,
        mut one: impl FnMut(&mut Self, &Place, u64) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let has_objects = self.wood.trees[tree] == Grown::Objects;
        self.each_source(tree, |player, place, number| {
            one(player, place, number)?;
            if has_objects { one(player, place, OBJECTS_FROM + number) } else { Ok(()) }
        })
    }

    fn read_in(&mut self, place: &Place, number: u64) -> Result<(), Stop> {
        let name = Name::file(number);
        let open = || place.dir.open_read(&name, false);
        let file = self.time(OpClass::OpenRead, &name, open, |_| 0)?;
        self.read_whole(file, &name)
    }

    fn unlink_in(&mut self, place: &Place, number: u64) -> Result<(), Stop> {
        let name = Name::file(number);
        self.time(OpClass::Unlink, &name, || place.dir.unlink(&name), |()| 0)?;
        self.note_in(place, |files| {
            files.remove(&number);
        });
        Ok(())
    }

    fn make_new(&mut self, place: &Place, number: u64) -> Result<(), Stop> {
        let size = told(self.sizes.size(&mut self.random));
        let entry = Entry { number, content: self.next_content(), size };
        self.make_in(&place.dir, &Name::file(number), entry, self.playing.spec.sync)?;
        self.note_in(place, |files| {
            files.insert(number, entry);
        });
        Ok(())
    }

    /// The new file takes the place of an old one.
    fn put_in_place(&mut self, place: &Place, number: u64) -> Result<(), Stop> {
        let (new, old) = (Name::file(NEW_FILE), Name::file(number));
        self.time(OpClass::Rename, &new, || place.dir.rename(&new, &old), |()| 0)?;
        self.note_in(place, |files| {
            if let Some(entry) = files.remove(&NEW_FILE) {
                files.insert(number, Entry { number, ..entry });
            }
        });
        Ok(())
    }
}
