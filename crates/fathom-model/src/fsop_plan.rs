//! File servers in plans: `use = "fsop"`, and the tree that is built for its readers.

use std::collections::BTreeMap;

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

#[cfg(test)]
mod tests {
    use super::*;

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
