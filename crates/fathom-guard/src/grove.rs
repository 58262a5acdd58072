//! Trees that writers grow while they are measured: each in a directory of its own inside a directory of ours. The
//! manifest lists only these first directories; what is below is known by its form.
//!
//! A file below is fathom's when it has the name that writers give, one link, lies on the same file system, and, where
//! its writer has died, holds nothing but what fathom writes. Everything else stays.

use crate::content;
use crate::mark::{FileId, Manifest};
use crate::ownership::is_another;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use std::io;

/// How the names of the first directories begin.
const PREFIX: &str = "grove";
/// Digits of the numbers in names at least.
const DIGITS: usize = 7;
/// Directories on the way down that stay open. Those above are opened again from below, and are then known by their inodes:
/// writers that make one directory in each go thousands of levels deep.
const LEVELS_OPEN: usize = 64;

/// Directories for writers, one for each, and the right to make files and directories below.
#[derive(Debug)]
pub struct OwnedGrove {
    dirs: Vec<(String, FileId, Dir)>,
    /// Their file system.
    dev: u64,
}

/// Whether what is below was written by this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It was, and nobody else's bytes could have lasted.
    This,
    /// It died: every byte must be explained.
    Dead,
}

impl OwnedGrove {
    /// Makes so many empty directories, each noted before and after.
    pub(crate) fn over(dir: &Dir, count: u32) -> (Self, io::Result<()>) {
        let dev = dir.own_facts().map_or(0, |facts| facts.dev);
        let mut grove = Self { dirs: Vec::new(), dev };
        let made = (0..count).try_for_each(|number| grove.add(dir, &format!("{PREFIX}{number}")));
        (grove, made)
    }

    fn add(&mut self, dir: &Dir, name: &str) -> io::Result<()> {
        Manifest::intend_directory(dir, name)?;
        let made = dir.make(name)?;
        let id: FileId = made.own_facts()?.into();
        self.dirs.push((name.to_owned(), id, made));
        Manifest::made_directory(dir, name, id)
    }

    /// The directories, in the order of the writers, as they were made: a path to them may lead elsewhere by now.
    pub fn dirs(&self) -> impl Iterator<Item = &Dir> {
        self.dirs.iter().map(|(_, _, dir)| dir)
    }

    /// Removes what was grown; what is not fathom's stays, and the directories that lead to it. `removed` hears of each file.
    pub(crate) fn take_down(&self, dir: &Dir, removed: &mut dyn FnMut()) -> io::Result<()> {
        for (name, id, _) in &self.dirs {
            let inner = match dir.open_dir(name) {
                Ok(inner) => inner,
                Err(error) if is_another(&error) => continue,
                Err(error) => return Err(error),
            };
            let facts = inner.own_facts()?;
            if facts.dev != self.dev || FileId::from(facts) != *id {
                continue;
            }
            empty(&inner, name, self.dev, Writer::This, removed)?;
            drop(inner);
            remove_if_empty(dir, name)?;
        }
        Ok(())
    }
}

/// True for the name of a directory of writers.
pub(crate) fn is_grove(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|digits| {
        (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Removes what a dead writer has grown, as far as it is fathom's; gives back the paths of what stays. The manifest has
/// been asked whether the directory is.
pub(crate) fn remove_left_behind(
    dir: &Dir,
    name: &str,
    facts: FileFacts,
) -> io::Result<Vec<String>> {
    let inner = dir.open_dir(name)?;
    if FileId::from(inner.own_facts()?) != FileId::from(facts) {
        return Ok(vec![name.to_owned()]);
    }
    let foreign = empty(&inner, name, facts.dev, Writer::Dead, &mut || {})?;
    drop(inner);
    if foreign.is_empty() {
        remove_if_empty(dir, name)?;
    }
    Ok(foreign)
}

/// A letter and a number of at least seven digits: what writers call things.
fn is_name(name: &str, letters: &str) -> bool {
    let digits = name.strip_prefix(|letter| letters.contains(letter)).unwrap_or_default();
    digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Empties a directory that is open, level by level without recursion of our own stack: deep trees are no danger.
fn empty(
    top: &Dir,
    path: &str,
    dev: u64,
    writer: Writer,
    removed: &mut dyn FnMut(),
) -> io::Result<Vec<String>> {
    let mut foreign = Vec::new();
    let mut way = Way { above: Vec::new(), dir: top.open_dir(".")?, level: Level::of(path, top)? };
    loop {
        if !way.level.is_empty_of_files {
            way.level.is_empty_of_files = true;
            let found = remove_files(&way.dir, dev, writer, removed)?;
            way.level.below = found.below;
            foreign.extend(found.foreign.iter().map(|name| way.path(name)));
        }
        let Some(name) = way.level.below.pop() else {
            match way.up(dev)? {
                Up::Left(name) => remove_if_empty(&way.dir, &name)?,
                Up::Moved(path) => {
                    foreign.push(path);
                    return Ok(foreign);
                }
                Up::AtTop => return Ok(foreign),
            }
            continue;
        };
        match way.dir.open_dir(&name) {
            Ok(inner) if inner.own_facts()?.dev == dev => way.down(inner, &name)?,
            Ok(_) => foreign.push(way.path(&name)),
            Err(error) if is_another(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The way from the top down to an open directory.
struct Way {
    /// Those above it, the lowest of them open.
    above: Vec<(Level, Option<Dir>)>,
    dir: Dir,
    level: Level,
}

struct Level {
    name: String,
    id: FileId,
    is_empty_of_files: bool,
    /// Directories that are still to be emptied.
    below: Vec<String>,
}

impl Level {
    fn of(name: &str, dir: &Dir) -> io::Result<Self> {
        let id = dir.own_facts()?.into();
        Ok(Self { name: name.to_owned(), id, is_empty_of_files: false, below: Vec::new() })
    }
}

/// What came of leaving a directory.
enum Up {
    /// It had this name.
    Left(String),
    /// What lies above this path is not where it was: somebody moves things.
    Moved(String),
    /// There is nothing above.
    AtTop,
}

impl Way {
    fn down(&mut self, inner: Dir, name: &str) -> io::Result<()> {
        let level = std::mem::replace(&mut self.level, Level::of(name, &inner)?);
        self.above.push((level, Some(std::mem::replace(&mut self.dir, inner))));
        if let Some(far) = self.above.len().checked_sub(LEVELS_OPEN) {
            self.above[far].1 = None;
        }
        Ok(())
    }

    fn up(&mut self, dev: u64) -> io::Result<Up> {
        let Some((parent, open)) = self.above.pop() else { return Ok(Up::AtTop) };
        let own = std::mem::replace(&mut self.level, parent);
        self.dir = match open {
            Some(dir) => dir,
            None => {
                let dir = self.dir.open_dir("..")?;
                let facts = dir.own_facts()?;
                if facts.dev != dev || FileId::from(facts) != self.level.id {
                    return Ok(Up::Moved(self.path(&own.name)));
                }
                dir
            }
        };
        Ok(Up::Left(own.name))
    }

    /// The path of what has that name in it.
    fn path(&self, name: &str) -> String {
        let above = self.above.iter().map(|(level, _)| level.name.as_str());
        above.chain([self.level.name.as_str(), name]).collect::<Vec<_>>().join("/")
    }
}

/// Names in a directory after its files were removed.
struct Found {
    /// Directories to go into.
    below: Vec<String>,
    /// What stays.
    foreign: Vec<String>,
}

/// Removes the files of a directory.
fn remove_files(
    dir: &Dir,
    dev: u64,
    writer: Writer,
    removed: &mut dyn FnMut(),
) -> io::Result<Found> {
    let mut found = Found { below: Vec::new(), foreign: Vec::new() };
    for name in dir.names_as_stored()? {
        let facts = match dir.facts(&name) {
            Ok(facts) => facts,
            Err(error) if is_another(&error) && !dirfd::is_lossy(&name) => continue,
            Err(_) => {
                found.foreign.push(name);
                continue;
            }
        };
        let is_own = !dirfd::is_lossy(&name) && facts.dev == dev;
        if is_own && facts.is_dir && is_name(&name, "d") {
            found.below.push(name);
        } else if is_own && is_name(&name, "f") && is_ours(dir, &name, facts, writer)? {
            dir.unlink(&name)?;
            removed();
        } else {
            found.foreign.push(name);
        }
    }
    Ok(found)
}

fn is_ours(dir: &Dir, name: &str, facts: FileFacts, writer: Writer) -> io::Result<bool> {
    // Writers give files a second name beside the first, of the same form.
    if !facts.is_file || facts.links > 2 {
        return Ok(false);
    }
    if writer == Writer::This || facts.size_bytes == 0 {
        return Ok(true);
    }
    let file = dir.open_file(name, false)?;
    Ok(dirfd::facts_of(&file)? == facts && content::holds_only_ours(&file)?)
}

fn remove_if_empty(dir: &Dir, name: &str) -> io::Result<()> {
    match dir.remove_dir(name) {
        // Something else lies in it: that stays, and is named by whoever looks at the whole.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OwnedDir;
    use fathom_sys::sysroot::SysRoot;
    use fathom_sys::walked::WalkedDir;
    use std::path::Path;

    #[test]
    fn names_of_writers_have_one_form() {
        for (name, letters, is) in [
            ("f0000000", "f", true),
            ("f123456789", "f", true),
            ("d0000012", "d", true),
            ("f000000", "f", false),
            ("f000000x", "f", false),
            ("d0000012", "f", false),
            ("", "f", false),
            ("thesis.txt", "fd", false),
        ] {
            assert_eq!(is_name(name, letters), is, "{name}");
        }
        assert!(is_grove("grove0") && is_grove("grove12"));
        assert!(!is_grove("grove") && !is_grove("grover") && !is_grove("names0"));
    }

    fn grow(base: &Path, files: &[(&str, &[u8])]) {
        for (name, data) in files {
            let path = base.join(name);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("made");
            std::fs::write(path, data).expect("written");
        }
    }

    /// The same tree is taken down by its maker, who knows, and by a later start, which must be shown.
    #[test]
    fn what_is_not_fathoms_stays_and_the_way_to_it() {
        for writer in [Writer::This, Writer::Dead] {
            let base = tempfile::tempdir().expect("temporary directory");
            grow(
                base.path(),
                &[
                    ("f0000000", b""),
                    ("d0000001/f0000002", &[0; 5000]),
                    ("d0000001/d0000003/d0000004/f0000005", b"\0"),
                    ("d0000006/d0000007/thesis.txt", b"mine"),
                    ("d0000006/f0000008", b""),
                ],
            );
            std::os::unix::fs::symlink("/etc/passwd", base.path().join("d0000009")).expect("made");
            let dir = Dir::open(base.path()).expect("there");
            let dev = dir.own_facts().expect("facts").dev;
            let mut removed = 0;
            let mut count = || removed += 1;
            let mut foreign = empty(&dir, "grove0", dev, writer, &mut count).expect("emptied");
            foreign.sort();
            assert_eq!(removed, 4, "the files, one by one");
            assert_eq!(foreign, ["grove0/d0000006/d0000007/thesis.txt", "grove0/d0000009"]);
            assert_eq!(dir.names().expect("listed"), ["d0000006", "d0000009"]);
            assert!(!base.path().join("d0000006/f0000008").exists());
        }
    }

    #[test]
    fn somebodys_bytes_under_our_name_stay_when_nobody_lives_who_knows() {
        let base = tempfile::tempdir().expect("temporary directory");
        grow(base.path(), &[("d0000000/f0000001", b"somebody copied this over one of ours")]);
        let dir = Dir::open(base.path()).expect("there");
        let dev = dir.own_facts().expect("facts").dev;
        let foreign = empty(&dir, "grove0", dev, Writer::Dead, &mut || {}).expect("emptied");
        assert_eq!(foreign, ["grove0/d0000000/f0000001"]);
        assert!(empty(&dir, "grove0", dev, Writer::This, &mut || {}).expect("emptied").is_empty());
        assert!(dir.names().expect("listed").is_empty());
    }

    /// Somebody who owns the directory above moves ours away and puts a link to a place of his choice there.
    #[test]
    fn writers_work_where_their_directory_is_and_not_where_its_path_leads() {
        let base = tempfile::tempdir().expect("temporary directory");
        let (state, elsewhere) = (base.path().join("state"), base.path().join("elsewhere"));
        let ground = base.path().join("ground");
        for dir in [&state, &elsewhere.join("grove0"), &ground] {
            std::fs::create_dir_all(dir).expect("made");
        }
        let mut owned =
            OwnedDir::create(&SysRoot::live(), &ground, "run1", &state).expect("created");
        let grove = owned.create_grove(1).expect("made");
        let (path, moved) = (owned.path().to_owned(), ground.join("moved"));
        std::fs::rename(&path, &moved).expect("renamed");
        std::os::unix::fs::symlink(&elsewhere, &path).expect("made");
        let root = WalkedDir::over(grove.dirs().next().expect("one")).expect("opened");
        root.make_dir(c"d0000000").expect("made");
        assert!(moved.join("grove0/d0000000").is_dir());
        assert_eq!(std::fs::read_dir(elsewhere.join("grove0")).expect("listed").count(), 0);
        std::fs::remove_file(&path).expect("removed");
        std::fs::rename(&moved, &path).expect("renamed");
        owned.clear_groves(&mut || {}).expect("emptied");
        assert!(!path.join("grove0").exists());
    }

    /// Deeper than files may be open.
    #[test]
    fn deep_trees_are_taken_down() {
        const LEVELS: usize = 1500;
        for foreign_at in [None, Some(1200), Some(10)] {
            let base = tempfile::tempdir().expect("temporary directory");
            let mut dir = Dir::open(base.path()).expect("there");
            let mut path = "grove0".to_owned();
            for number in 0..LEVELS {
                drop(dir.create_file("f0000000").expect("made"));
                let name = format!("d{number:07}");
                dir = dir.make(&name).expect("made");
                if foreign_at.is_some_and(|at| number <= at) {
                    path = format!("{path}/{name}");
                }
                if foreign_at == Some(number) {
                    drop(dir.create_file("thesis.txt").expect("made"));
                }
            }
            drop(dir);
            let dir = Dir::open(base.path()).expect("there");
            let dev = dir.own_facts().expect("facts").dev;
            let mut removed = 0;
            let found = empty(&dir, "grove0", dev, Writer::This, &mut || removed += 1);
            assert_eq!(removed, LEVELS);
            let foreign: Vec<String> =
                foreign_at.map(|_| format!("{path}/thesis.txt")).into_iter().collect();
            assert_eq!(found.expect("emptied"), foreign);
            assert_eq!(dir.names().expect("listed").is_empty(), foreign_at.is_none());
        }
    }

    /// Somebody moves a directory away while what lies below it is emptied: nothing is removed where it is now.
    #[test]
    fn a_directory_that_was_moved_leads_nowhere_else() {
        let base = tempfile::tempdir().expect("temporary directory");
        let (ground, other) = (base.path().join("ground"), base.path().join("other"));
        for dir in [&ground, &other] {
            std::fs::create_dir_all(dir).expect("made");
        }
        let mut dir = Dir::open(&ground).expect("there");
        for number in 0..LEVELS_OPEN + 10 {
            dir = dir.make(&format!("d{number:07}")).expect("made");
        }
        drop(dir.create_file("f0000000").expect("made"));
        let top = Dir::open(&ground).expect("there");
        let dev = top.own_facts().expect("facts").dev;
        let moved = "d0000000/d0000001/d0000002";
        std::fs::create_dir(other.join("d0000001")).expect("made");
        let found = empty(&top, "grove0", dev, Writer::This, &mut || {
            std::fs::rename(ground.join(moved), other.join("d0000002")).expect("moved");
        });
        let foreign = found.expect("emptied");
        assert_eq!(
            foreign,
            [format!("grove0/{moved}")],
            "its contents were ours, its place is not"
        );
        assert!(other.join("d0000001").is_dir() && other.join("d0000002").is_dir());
    }
}
