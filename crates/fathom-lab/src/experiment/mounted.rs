//! How the filesystems of the setup are mounted: somebody else may mount them with other options between and during trials.

use fathom_sys::mounts;
use fathom_sys::sysroot::SysRoot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How they were mounted when fathom had last changed anything about it, and whether that was changed by somebody else.
#[derive(Debug, Default)]
pub(crate) struct Mounted {
    as_left: Vec<(PathBuf, BTreeSet<String>)>,
    changed: Option<String>,
}

impl Mounted {
    /// As they are mounted now is how it should be.
    pub fn learn(&mut self, root: &SysRoot, places: &[&PathBuf]) {
        let options = |place: &&PathBuf| Some(((*place).clone(), options(root, place)?));
        self.as_left = places.iter().filter_map(options).collect();
    }

    /// Looks before fathom itself changes something about it: what was changed by then holds for the trial that follows.
    pub fn look(&mut self, root: &SysRoot) {
        self.changed = self.changed.take().or_else(|| self.difference(root));
    }

    /// What somebody else has changed since they were mounted.
    pub fn changed(&self, root: &SysRoot) -> Option<String> {
        self.changed.clone().or_else(|| self.difference(root))
    }

    /// What is not mounted any more is told elsewhere.
    fn difference(&self, root: &SysRoot) -> Option<String> {
        let mut all = self.as_left.iter();
        all.find_map(|(place, left)| told(place, left, &options(root, place)?))
    }
}

/// The options of the mount and of its filesystem; none when nothing is mounted there.
fn options(root: &SysRoot, place: &Path) -> Option<BTreeSet<String>> {
    let all = mounts::own_mounts(root);
    let mount = all.iter().rfind(|mount| mount.mount_point == place)?;
    let both = mount.options.split(',').chain(mount.super_options.split(','));
    Some(both.filter(|option| !option.is_empty()).map(str::to_owned).collect())
}

fn told(place: &Path, left: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let words = |set: &BTreeSet<String>, other| {
        let only: Vec<&str> = set.difference(other).map(String::as_str).collect();
        if only.is_empty() { "nothing".to_owned() } else { only.join(",") }
    };
    (left != now).then(|| {
        format!(
            "somebody else changed how the filesystem at {} is mounted: {} instead of {}",
            place.display(),
            words(now, left),
            words(left, now)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    #[test]
    fn what_somebody_changes_is_told_until_it_is_mounted_anew() {
        let tree = Tree::new();
        let mount = |options: &str| {
            let line = format!("41 22 7:3 / /srv/m rw,{options} - ext4 /dev/loop3 rw,commit=30\n");
            tree.put("proc/self/mountinfo", line);
        };
        let (root, place) = (tree.root(), PathBuf::from("/srv/m"));
        let mut mounted = Mounted::default();
        mount("noatime");
        mounted.learn(&root, &[&place, &PathBuf::from("/srv/not-there")]);
        assert_eq!(mounted.changed(&root), None);
        mount("relatime,nosuid");
        let told = "somebody else changed how the filesystem at /srv/m is mounted: nosuid,relatime instead of noatime";
        assert_eq!(mounted.changed(&root).as_deref(), Some(told));
        // Fathom changes something itself: the trial that follows is on theirs all the same.
        mounted.look(&root);
        mount("relatime,nosuid,nodev");
        mounted.learn(&root, &[&place]);
        assert_eq!(mounted.changed(&root).as_deref(), Some(told));
        let mut anew = Mounted::default();
        anew.learn(&root, &[&place]);
        assert_eq!(anew.changed(&root), None);
    }
}
