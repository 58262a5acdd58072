//! File servers in plans: `use = "fsop"` and the tree that is built for its readers, and personalities: `use = "mail"`.

use crate::fsop::FsopSpec;
use crate::play_keys::{self, Personality};
use std::collections::BTreeMap;

/// The workload of readers and writers.
pub const FSOP: &str = "fsop";

/// What the settings of the tree begin with: `tree_files`, `tree_size`, and so on.
pub const TREE_PREFIX: &str = "tree_";

/// Pairs of key and value, in the order of keys.
pub type Pairs = Vec<(String, String)>;

/// The settings of a plan's workload: those of its phases, and those of the tree without their beginning.
#[must_use]
pub fn divide(settings: &BTreeMap<String, String>) -> (Pairs, Pairs) {
    let (mut own, mut tree) = (Pairs::new(), Pairs::new());
    for (key, value) in settings {
        match key.strip_prefix(TREE_PREFIX) {
            Some(key) => tree.push((key.to_owned(), value.clone())),
            None => own.push((key.clone(), value.clone())),
        }
    }
    (own, tree)
}

/// What a plan's workload asks for when it is a file server or a personality, built in or `file`; none for other kinds.
///
/// # Errors
/// The key, the value, and what it may be.
pub fn spec(
    name: &str,
    settings: &BTreeMap<String, String>,
    file: Option<Personality>,
) -> Result<Option<FsopSpec>, String> {
    if name == FSOP {
        return FsopSpec::with(&divide(settings).0).map(Some);
    }
    let Some(mut personality) = file.or_else(|| play_keys::named(name)) else { return Ok(None) };
    // What begins with tree_ are keys of its own.
    let settings: Pairs =
        settings.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    personality.set(&settings)?;
    Ok(Some(personality.spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personalities_have_their_own_settings() {
        let of = |name: &str, key: &str, value: &str| {
            spec(name, &[(key.to_owned(), value.to_owned())].into(), None)
        };
        let build = of("build-tree", "tree_files", "7").expect("valid").expect("one");
        assert_eq!(build.play.expect("a personality").tree_files, 7);
        let server = of("fsop", "tree_files", "7").expect("valid").expect("one");
        assert!(server.play.is_none());
        assert_eq!(of("randread", "block_size", "4k"), Ok(None));
        assert!(of("mail", "fils", "7").expect_err("no key").contains("did you mean 'files'"));
        let text = "name='own'\ntitle='t'\n[play]\nmix='stat:1'\nfiles=10";
        let own = play_keys::parse(text).expect("valid");
        let settings = [("clients".to_owned(), "3".to_owned())].into();
        let own = spec("own.toml", &settings, own).expect("valid").expect("one");
        assert_eq!(own.phases[0].clients, 3);
    }

    #[test]
    fn the_tree_has_its_own_settings() {
        let settings = [("files", "5"), ("tree_files", "100"), ("window", "1s")];
        let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let (own, tree) = divide(&settings.into());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(own, [pair("files", "5"), pair("window", "1s")]);
        assert_eq!(tree, [pair("files", "100")]);
    }
}
