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
    let path = |word: &String| {
        let is_name = !word.contains('/') && !Path::new(word).exists();
        match BlockDir::by_name(root, word).filter(|_| is_name) {
            Some(device) => node(device.name()),
            None => PathBuf::from(session::absolute_target(word)),
        }
    };
    let paths: Vec<PathBuf> = if words.is_empty() {
        watched.iter().filter(|layer| layer.depth == 0).map(|layer| node(&layer.name)).collect()
    } else {
        words.iter().map(path).collect()
    };
    let resolved = paths.iter().filter_map(|path| fathom_inspect::resolve(root, path).ok());
    resolved.take(TREES_MAX).collect()
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
