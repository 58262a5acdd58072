//! How the filesystems of the setup are mounted: somebody else may mount them with other options between and during trials.

use fathom_knobs::Setting;
use fathom_model::change::knob::KnobPlace;
use fathom_sys::mounts::{self, Mount};
use fathom_sys::sysroot::SysRoot;
use std::collections::{BTreeMap, BTreeSet};
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
        self.changed = self.changed.take().or_else(|| difference(root, &self.as_left));
    }

    /// What somebody else has changed since they were mounted.
    pub fn changed(&self, root: &SysRoot) -> Option<String> {
        self.changed.clone().or_else(|| difference(root, &self.as_left))
    }
}

/// How the filesystems are mounted that were there before the experiment and that targets lie on: nobody mounts them anew for a trial, so
/// that what somebody changes about it stays.
#[derive(Debug, Default)]
pub(crate) struct TargetMounts {
    /// At the beginning, with the settings that the machine has.
    first: BTreeMap<PathBuf, BTreeSet<String>>,
    /// With the settings of cells that make some of these mounts, as long as nobody else had changed anything.
    usual: BTreeMap<(PathBuf, Vec<String>), BTreeSet<String>>,
    /// Those of the cell whose turn it is.
    places: Vec<PathBuf>,
    /// Of these, what is not as it was at the beginning though no setting is made.
    theirs: Vec<PathBuf>,
    /// As they were when the settings of the cell were made.
    set: Vec<(PathBuf, BTreeSet<String>)>,
    changed: Option<String>,
}

impl TargetMounts {
    /// Looks when no settings are made.
    pub fn look(&mut self, root: &SysRoot, places: Vec<PathBuf>) {
        self.theirs.clear();
        for place in &places {
            let Some(now) = options(root, place) else { continue };
            if *self.first.entry(place.clone()).or_insert_with(|| now.clone()) != now {
                self.theirs.push(place.clone());
            }
        }
        self.places = places;
    }

    /// Looks when the settings of a cell are made: those of a mount change its options.
    pub fn learn(&mut self, root: &SysRoot, settings: &[Setting]) {
        self.changed = None;
        self.set.clear();
        for place in &self.places {
            let Some(now) = options(root, place) else { continue };
            let is_here = |setting: &&Setting| match &setting.place {
                KnobPlace::Mount { mount_point, .. } => mount_point == place,
                // Commands of the user's own may mount what they like anew.
                KnobPlace::Own { .. } => true,
                KnobPlace::Machine | KnobPlace::Device { .. } => false,
            };
            let own = settings.iter().filter(is_here);
            let own: Vec<String> = own.map(|one| format!("{}={}", one.knob, one.value)).collect();
            let is_commanded = |setting: &Setting| matches!(setting.place, KnobPlace::Own { .. });
            let compared = match settings.iter().any(is_commanded) {
                true => without_device(&now),
                false => now.clone(),
            };
            let usual = match own.is_empty() {
                true => self.first.get(place),
                false => self.usual.get(&(place.clone(), own.clone())),
            };
            match usual {
                Some(usual) => {
                    self.changed = self.changed.take().or_else(|| told(place, usual, &compared));
                }
                None if self.theirs.contains(place) => {}
                None => drop(self.usual.insert((place.clone(), own), compared)),
            }
            self.set.push((place.clone(), now));
        }
    }

    /// What is not as at the beginning, or has changed since the settings were made.
    pub fn changed(&self, root: &SysRoot) -> Option<String> {
        self.changed.clone().or_else(|| difference(root, &self.set))
    }
}

/// What is not mounted any more is told elsewhere.
fn difference(root: &SysRoot, as_left: &[(PathBuf, BTreeSet<String>)]) -> Option<String> {
    as_left.iter().find_map(|(place, left)| told(place, left, &options(root, place)?))
}

/// The options of the mount and of its filesystem; none when nothing is mounted there.
fn options(root: &SysRoot, place: &Path) -> Option<BTreeSet<String>> {
    let all = mounts::own_mounts(root);
    let mount = all.iter().rfind(|mount| mount.mount_point == place)?;
    let both = mount.options.split(',').chain(mount.super_options.split(','));
    let options = both.filter(|option| !option.is_empty()).map(str::to_owned);
    Some(options.chain([device(mount)]).collect())
}

/// Begins the word for the device below, which stands among the options.
const DEVICE: &str = "device ";

/// Which filesystem it is: another one may be mounted over it, with the same options.
fn device(mount: &Mount) -> String {
    // Some have a number of their own, which the next mount need not get.
    match mount.devno.major {
        0 => format!("{DEVICE}{}", mount.source),
        _ => format!("{DEVICE}{}", mount.devno),
    }
}

/// Commands of the user's own may mount the same on another loop device each time.
fn without_device(options: &BTreeSet<String>) -> BTreeSet<String> {
    options.iter().filter(|word| !word.starts_with(DEVICE)).cloned().collect()
}

fn told(place: &Path, left: &BTreeSet<String>, now: &BTreeSet<String>) -> Option<String> {
    let words = |set: &BTreeSet<String>, other| {
        let only: Vec<&str> = set.difference(other).map(String::as_str).collect();
        only.join(",")
    };
    let (new, gone) = (words(now, left), words(left, now));
    let what = match (new.is_empty(), gone.is_empty()) {
        (false, false) => format!("{new} instead of {gone}"),
        (false, true) => format!("{new} as well"),
        (true, false) => format!("without {gone}"),
        (true, true) => return None,
    };
    let place = place.display();
    Some(format!("somebody else changed how the filesystem at {place} is mounted: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_testkit::Tree;

    /// Nothing is mounted with nothing.
    #[test]
    fn options_that_come_and_go_are_told_by_themselves() {
        let set = |words: &str| words.split(',').map(str::to_owned).collect::<BTreeSet<String>>();
        let of = |left: &str, now: &str| {
            let text = told(Path::new("/m"), &set(left), &set(now))?;
            Some(text.rsplit("is mounted: ").next().unwrap_or_default().to_owned())
        };
        assert_eq!(of("rw,noatime", "rw").as_deref(), Some("without noatime"));
        assert_eq!(of("rw", "rw,nodev,nosuid").as_deref(), Some("nodev,nosuid as well"));
        assert_eq!(of("rw,noatime", "rw,relatime").as_deref(), Some("relatime instead of noatime"));
        assert_eq!(of("rw", "rw"), None);
    }

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

    /// With the same options.
    #[test]
    fn another_filesystem_at_the_place_of_a_target_is_told() {
        let tree = Tree::new();
        let mount = |lines: &[&str]| {
            let line = |one: &&str| format!("{one} / /srv/m rw - ext4 /dev/sda rw\n");
            tree.put("proc/self/mountinfo", lines.iter().map(line).collect::<String>());
        };
        let (root, place) = (tree.root(), PathBuf::from("/srv/m"));
        let mut mounts = TargetMounts::default();
        let mut trial = |during: &[&str], after: &[&str]| {
            mounts.look(&root, vec![place.clone()]);
            mounts.learn(&root, &[]);
            let before = mounts.changed(&root);
            mount(during);
            let told = (before, mounts.changed(&root));
            mount(after);
            told
        };
        let (one, both) = (&["41 22 7:3"], &["41 22 7:3", "42 41 7:4"]);
        mount(one);
        assert_eq!(trial(one, one), (None, None));
        let (before, during) = trial(both, both);
        let told = "somebody else changed how the filesystem at /srv/m is mounted: device 7:4 instead of device 7:3";
        assert_eq!((before, during.as_deref()), (None, Some(told)));
        assert_eq!(trial(both, one).0.as_deref(), Some(told));
        assert_eq!(trial(one, one), (None, None));
    }

    /// Not only in the trial in which it is done, and until it is mounted as before.
    #[test]
    fn a_target_that_somebody_remounts_is_told_while_it_differs() {
        let tree = Tree::new();
        let mount = |options: &str| {
            let line = format!("41 22 7:3 / /srv/m rw,{options} - ext4 /dev/loop3 rw,commit=30\n");
            tree.put("proc/self/mountinfo", line);
        };
        let (root, place) = (tree.root(), PathBuf::from("/srv/m"));
        let mut mounts = TargetMounts::default();
        let mut trial = |settings: &[Setting], of_cell: &str, then: &str, after: &str| {
            mounts.look(&root, vec![place.clone(), PathBuf::from("/srv/not-there")]);
            mount(of_cell);
            mounts.learn(&root, settings);
            let before = mounts.changed(&root).is_some();
            mount(then);
            let during = mounts.changed(&root).is_some();
            mount(after);
            (before, during)
        };
        mount("noatime");
        let own = KnobPlace::Mount { mount_point: "/srv/m".into(), device_id: "x".to_owned() };
        let own = [Setting { knob: "mount.dirsync".into(), place: own, value: "on".into() }];
        assert_eq!(trial(&[], "noatime", "noatime", "noatime"), (false, false));
        assert_eq!(trial(&own, "noatime,dirsync", "noatime,dirsync", "noatime"), (false, false));
        assert_eq!(trial(&[], "noatime", "relatime", "relatime"), (false, true));
        assert_eq!(trial(&[], "relatime", "relatime", "relatime"), (true, true));
        assert_eq!(trial(&own, "relatime,dirsync", "relatime,dirsync", "noatime"), (true, true));
        assert_eq!(trial(&[], "noatime", "noatime", "noatime"), (false, false));
        // A command of the user's own remounts it.
        let place = KnobPlace::Own { name: "mine".into() };
        let mine = [Setting { knob: "own.mine".into(), place, value: "1".into() }];
        assert_eq!(trial(&mine, "nodiratime", "nodiratime", "noatime"), (false, false));
        assert_eq!(trial(&mine, "nodiratime", "strictatime", "noatime"), (false, true));
        assert_eq!(trial(&mine, "relatime", "relatime", "noatime"), (true, true));
    }
}
