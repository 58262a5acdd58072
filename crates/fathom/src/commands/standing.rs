//! What is watched or captured stands on: the layers with their settings, when it begins and when it ends.

use crate::session;
use fathom_model::stack::{Stack, StackAround};
use fathom_observe::sample::layers::Layer;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::path::{Path, PathBuf};

/// More trees than these are no picture; the series have the other devices.
const TREES_MAX: usize = 24;

/// The layers below each word of the command line; without any those below every device that stands under no other.
/// What cannot be read is left out: its counters are watched all the same.
pub fn of_words(root: &SysRoot, words: &[String], watched: &[Layer]) -> Vec<Stack> {
    let paths: Vec<PathBuf> = if words.is_empty() {
        watched.iter().filter(|layer| layer.depth == 0).map(|layer| node(&layer.name)).collect()
    } else {
        words.iter().map(|word| PathBuf::from(absolute_target(root, word))).collect()
    };
    let resolved = paths.iter().filter_map(|path| fathom_inspect::resolve(root, path).ok());
    resolved.take(TREES_MAX).collect()
}

/// What a word of the command line stands for, whatever directory one is in: `sda` for `/dev/sda`, unless something here has that
/// name.
pub fn absolute_target(root: &SysRoot, word: &str) -> String {
    let is_name = !word.contains('/') && !Path::new(word).exists();
    match BlockDir::by_name(root, word).filter(|_| is_name) {
        Some(device) => node(device.name()).display().to_string(),
        None => session::absolute_target(word),
    }
}

/// The kernel writes a slash in a name as an exclamation mark.
fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name.replace('!', "/"))
}

/// The same layers again.
pub fn again(root: &SysRoot, before: Vec<Stack>) -> Vec<StackAround> {
    let around = |before: Stack| {
        let after = fathom_inspect::resolve(root, Path::new(&before.path)).ok();
        StackAround { before, after }
    };
    before.into_iter().map(around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn the_name_of_a_device_is_no_file_of_this_directory() {
        let tree = Tree::new();
        tree.device("v/block/zram987", "253:987", &[]);
        tree.device("v/block/cciss!c9d9", "104:99", &[]);
        let root = tree.root();
        let of = |word| absolute_target(&root, word);
        assert_eq!(of("zram987"), "/dev/zram987");
        assert_eq!(of("cciss!c9d9"), "/dev/cciss/c9d9");
        assert_eq!(of("/dev/zram987"), "/dev/zram987");
        assert_eq!(of("null:1G"), "null:1G");
        assert!(of("no-device").ends_with("/no-device") && !of("no-device").starts_with("/dev/"));
    }
}
