//! Empty files whose names are what is tested: created, looked up and deleted in one directory inside a directory of
//! ours.
//!
//! Nothing is ever written into them, so that one which is not empty is somebody else's and stays.

use crate::mark::{FileId, Manifest};
use crate::ownership::{is_another, remove_if_same};
use fathom_base::prng::Prng;
use fathom_sys::dirfd::{self, Dir, FileFacts};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Digits of the number in a name.
const DIGITS: usize = 7;
/// Letters and digits beside the number at the most.
const EXTRA_MAX: u64 = 12;
/// What names consist of.
const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Where the number stands in names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberPlace {
    /// First: names made one after the other are in their order.
    First,
    /// Last: in no order that a directory could see.
    Last,
}

/// The name of such a file: a number of seven digits, and up to twelve letters and digits behind or before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestName {
    bytes: [u8; DIGITS + EXTRA_MAX as usize],
    length: u8,
}

impl TestName {
    /// A name with a random part; of the number the last seven digits count.
    #[must_use]
    pub fn new(number: u32, place: NumberPlace, prng: &mut Prng) -> Self {
        let extra = prng.below(EXTRA_MAX + 1) as usize;
        let (digits_at, extra_at) = match place {
            NumberPlace::First => (0, DIGITS),
            NumberPlace::Last => (extra, 0),
        };
        let mut bytes = [0; DIGITS + EXTRA_MAX as usize];
        for byte in &mut bytes[extra_at..extra_at + extra] {
            *byte = ALPHABET[prng.below(ALPHABET.len() as u64) as usize];
        }
        let mut rest = number;
        for byte in bytes[digits_at..digits_at + DIGITS].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Self { bytes, length: (DIGITS + extra) as u8 }
    }

    /// A name that was read from a directory; none when it is not of this form.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let is_number = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        let text = name.as_bytes();
        let mut bytes = [0; DIGITS + EXTRA_MAX as usize];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        let (first, last) = (text.get(..DIGITS)?, text.get(text.len() - DIGITS..)?);
        let is_form =
            text.iter().all(u8::is_ascii_alphanumeric) && (is_number(first) || is_number(last));
        is_form.then_some(Self { bytes, length: text.len() as u8 })
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

/// True for a file that only fathom can have made under such a name, or that nobody misses: empty, with one link.
pub(crate) fn is_ours(name: &str, facts: FileFacts, dev: u64) -> bool {
    let is_empty_file = facts.is_file && facts.size_bytes == 0 && facts.links == 1;
    TestName::parse(name).is_some() && is_empty_file && facts.dev == dev
}

/// The right to have one such directory at a time, and to create and delete in it.
#[derive(Debug)]
pub struct OwnedNames {
    /// The directory of ours.
    outer: Dir,
    current: Mutex<Arc<NamesDir>>,
}

/// One such directory.
#[derive(Debug)]
pub struct NamesDir {
    dir: Dir,
    number: u32,
    id: FileId,
    /// Its file system.
    dev: u64,
}

impl OwnedNames {
    /// Makes the first directory.
    pub(crate) fn over(outer: Dir) -> io::Result<Self> {
        let first = NamesDir::make(&outer, 0)?;
        Ok(Self { outer, current: Mutex::new(Arc::new(first)) })
    }

    /// The directory.
    #[must_use]
    pub fn current(&self) -> Arc<NamesDir> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another one, empty, in place of the directory and what is in it: a file system remembers what a directory has held.
    ///
    /// # Errors
    /// Those of removing and making; EEXIST when something in the old one is not fathom's, which then stays with
    /// everything else.
    pub fn renew(&self) -> io::Result<Arc<NamesDir>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.check_empty(&current.list()?)?;
        current.take_down(&self.outer)?;
        *current = Arc::new(NamesDir::make(&self.outer, current.number + 1)?);
        Ok(Arc::clone(&current))
    }

    /// Removes the files that are empty and have names of ours, and the directory unless something else is in it.
    pub(crate) fn take_down(&self) -> io::Result<()> {
        self.current().take_down(&self.outer)
    }
}

impl NamesDir {
    /// Makes it, noted before and after.
    fn make(outer: &Dir, number: u32) -> io::Result<Self> {
        let name = Self::name(number);
        Manifest::intend_directory(outer, &name)?;
        let dir = outer.make(&name)?;
        let facts = dir.own_facts()?;
        Manifest::made_directory(outer, &name, facts.into())?;
        Ok(Self { dir, number, id: facts.into(), dev: facts.dev })
    }

    fn name(number: u32) -> String {
        format!("names{number}")
    }

    /// Creates an empty file that must not exist, and closes it.
    ///
    /// # Errors
    /// Those of open(2); EEXIST.
    pub fn create(&self, name: &TestName) -> io::Result<()> {
        self.dir.create_file(name.as_str()).map(drop)
    }

    /// Looks a file up.
    ///
    /// # Errors
    /// Those of statx(2); ENOENT.
    pub fn stat(&self, name: &TestName) -> io::Result<()> {
        self.dir.facts(name.as_str()).map(drop)
    }

    /// Deletes a file, which [`NamesDir::check_empty`] has found empty before.
    ///
    /// # Errors
    /// Those of unlink(2); ENOENT.
    pub fn delete(&self, name: &TestName) -> io::Result<()> {
        self.dir.unlink(name.as_str())
    }

    /// The files that are there, as the file system lists them.
    ///
    /// # Errors
    /// Those of reading the directory; EEXIST for a name that is none of ours.
    pub fn list(&self) -> io::Result<Vec<TestName>> {
        let parse = |name: String| TestName::parse(&name).ok_or_else(|| somebody_s(&name));
        self.dir.names_as_stored()?.into_iter().map(parse).collect()
    }

    /// Makes sure that nobody put data into files that are to be deleted.
    ///
    /// # Errors
    /// Those of looking at them; EEXIST for one that is not empty.
    pub fn check_empty(&self, names: &[TestName]) -> io::Result<()> {
        names.iter().map(TestName::as_str).try_for_each(|name| {
            let is_ours = is_ours(name, self.dir.facts(name)?, self.dev);
            if is_ours { Ok(()) } else { Err(somebody_s(name)) }
        })
    }

    fn take_down(&self, outer: &Dir) -> io::Result<()> {
        let name = Self::name(self.number);
        let inner = match outer.open_dir(&name) {
            Ok(inner) => inner,
            Err(error) if is_another(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let facts = inner.own_facts()?;
        if facts.dev != self.dev || FileId::from(facts) != self.id {
            return Ok(());
        }
        for name in inner.names_as_stored()?.into_iter().filter(|name| !dirfd::is_lossy(name)) {
            let facts = inner.facts(&name)?;
            if is_ours(&name, facts, self.dev) {
                remove_if_same(&inner, &name, facts.into())?;
            }
        }
        match outer.remove_dir(&name) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        }
    }
}

fn somebody_s(name: &str) -> io::Error {
    let reason = format!("'{name}' in the directory of the test files is not fathom's");
    io::Error::new(io::ErrorKind::AlreadyExists, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_told_from_others() {
        let mut prng = Prng::new(1, 0);
        for place in [NumberPlace::First, NumberPlace::Last] {
            let mut lengths = BTreeSet::new();
            for number in (0..2000).chain([9_999_999]) {
                let name = TestName::new(number, place, &mut prng);
                let text = name.as_str();
                let digits = match place {
                    NumberPlace::First => &text[..7],
                    NumberPlace::Last => &text[text.len() - 7..],
                };
                assert_eq!(digits, format!("{number:07}"));
                assert_eq!(TestName::parse(text), Some(name), "{text}");
                lengths.insert(text.len());
            }
            assert_eq!(lengths, (7..=19).collect());
        }
        for other in
            ["", "123456", "1234567.txt", "thesis", "abc1234567890abcdefg", "f000", "\u{e4}1234567"]
        {
            assert_eq!(TestName::parse(other), None, "{other}");
        }
    }
}
